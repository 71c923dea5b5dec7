/* Several tasks of image classification on one backbone, and an experiment with two of them. */
#include <string.h>

#include <tilth/zoo/vision.h>

#include "zoo/inner/zoo.h"

static const tl_field model_fields[] = {
    TL_F(tl_shared_image_model_config, input_size, TL_AT_LEAST(1),
         .help = "height, width and channels of images, the same for all tasks"),
    TL_F(tl_shared_image_model_config, backbone, .kind = &tl_kind_backbone,
         .help = "what all tasks share"),
    TL_F_STRUCT(tl_shared_image_model_config, norm_activation, &tl_norm_activation_desc,
                .help = "normalisation and activation inside the backbone"),
    TL_F(tl_shared_image_model_config, l2_weight_decay, TL_AT_LEAST(0),
         .help = "twice what squares of kernels of the backbone cost"),
    TL_F_END,
};
const tl_desc tl_shared_image_model_config_desc = {
    .name = "shared_image_model",
    .help = "a backbone, and a head for each task, which the task describes",
    .size = sizeof(tl_shared_image_model_config),
    .fields = model_fields,
};

static const tl_field task_fields[] = {
    TL_F_AS(tl_multi_task_config, base.model, "model", .set = true,
            .desc = &tl_shared_image_model_config_desc, .help = "the backbone of all tasks"),
    TL_F_END,
};
const tl_desc tl_image_multi_task_config_desc = {
    .name = "image_multi_task",
    .help = "several tasks of image classification on one backbone",
    .size = sizeof(tl_multi_task_config),
    .fields = task_fields,
    .base = &tl_multi_task_config_desc,
};

/* Of the backbone, which is that of all, a task cannot say anything. */
static tl_status check_shared(const tl_sub_task *sub)
{
    const tl_image_task_config *k = (const tl_image_task_config *)sub->task->config;
    if (k->base.init_checkpoint && *k->base.init_checkpoint)
        return TL_FAIL(TL_EINVAL,
                       "task '%s': init_checkpoint is '%s': weights are read for all tasks at "
                       "once, set task.init_checkpoint",
                       sub->name, k->base.init_checkpoint);
    if (k->freeze_backbone || k->freeze_backbone_steps > 0)
        return TL_FAIL(TL_EINVAL,
                       "task '%s': freeze_backbone: the backbone is that of all tasks; "
                       "tilth.unfreeze says which weights are trained from when on",
                       sub->name);
    return TL_OK;
}

static tl_status fill_head(tl_shared_head *out, const tl_sub_task *sub)
{
    if (!tl_class_is(&sub->task->cls->cls, &tl_image_classification_task.cls))
        return TL_FAIL(TL_EINVAL,
                       "the task '%s' is no image_classification, and has no head for a backbone "
                       "that is shared",
                       sub->name);
    const tl_image_task_config *config = (const tl_image_task_config *)sub->task->config;
    if (!config->base.model.value)
        return TL_FAIL(TL_EINVAL, "task '%s': model is null: it describes the head", sub->name);
    *out = (tl_shared_head){sub->name, config->base.model.value, config->losses.l2_weight_decay};
    return TL_OK;
}

static tl_status build_model(tl_task *t, tl_model **out)
{
    const tl_multi_task *m = (const tl_multi_task *)t;
    tl_shared_head *heads = tl_arena_array(t->arena, m->count, sizeof *heads);
    const tl_data_config *data = m->tasks[0].task->config->train_data;
    if (!heads) return TL_ENOMEM;
    if (!t->config->model.value)
        return TL_FAIL(TL_EINVAL, "task.model is null: there is no backbone to share");
    for (int64_t i = 0; i < m->count; i++) {
        TL_TRY(fill_head(&heads[i], &m->tasks[i]));
        TL_TRY(check_shared(&m->tasks[i]));
    }
    return tl_image_heads_new(
        out, &(tl_image_heads_args){.engine = t->engine,
                                    .config = t->config->model.value,
                                    .heads = heads,
                                    .head_count = m->count,
                                    .batch_size = data ? data->global_batch_size : 1,
                                    .seed = t->seed,
                                    .dtype = t->dtype,
                                    .registry = t->registry,
                                    .arena = t->arena});
}

/* --- names in checkpoints of Model Garden ----------------------------------------------------- */

/* There a model of several tasks keeps a model of each, a row of layers of which the first is the
 * backbone: one object that has a path in each of them. */
#define SUB_TASKS "model/_sub_tasks/"
#define BACKBONE "backbone/"

static tl_status name_backbone(const tl_multi_task *m, tl_original_names *into)
{
    const tl_shared_image_model_config *shared = m->base.config->model.value;
    const tl_backbone_class *backbone;
    const void *config;
    tl_original_names own;
    TL_TRY(tl_backbone_find(&backbone, &config, m->base.arena, m->base.registry, &shared->backbone,
                            "task.model.backbone"));
    if (!backbone->original_names)
        return TL_FAIL(TL_EUNSUPPORTED, "Model Garden has no backbone '%s'", shared->backbone.type);
    TL_TRY(tl_original_names_init(&own));
    tl_status st = backbone->original_names(config, &own);
    for (int64_t i = 0; i < own.layers.count && st == TL_OK; i++) {
        const tl_original_name *n = &own.layers.items[i];
        const char *theirs = tl_arena_printf(into->arena, SUB_TASKS "%s/layer_with_weights-0/%s",
                                             m->tasks[0].name, n->theirs + strlen(BACKBONE));
        st = theirs ? tl_original_names_add(into, n->ours, theirs) : TL_ENOMEM;
    }
    for (int64_t i = 0; i < own.renamed.count && st == TL_OK; i++)
        st = tl_original_names_rename(into, own.renamed.items[i].ours, own.renamed.items[i].theirs);
    tl_original_names_deinit(&own);
    return st;
}

static tl_status name_layer(tl_original_names *into, const char *task, const char *layer,
                            int64_t number)
{
    const char *ours = tl_arena_printf(into->arena, "%s/%s", task, layer);
    const char *theirs = tl_arena_printf(into->arena, SUB_TASKS "%s/layer_with_weights-%lld", task,
                                         (long long)number);
    return ours && theirs ? tl_original_names_add(into, ours, theirs) : TL_ENOMEM;
}

static tl_status original_names(tl_task *t, tl_original_names *into)
{
    const tl_multi_task *m = (const tl_multi_task *)t;
    if (!t->config->model.value) return TL_FAIL(TL_EINVAL, "task.model is null");
    TL_TRY(name_backbone(m, into));
    for (int64_t i = 0; i < m->count; i++) {
        tl_shared_head head;
        TL_TRY(fill_head(&head, &m->tasks[i]));
        bool norm = head.config->add_head_batch_norm;
        const char *path =
                       tl_arena_printf(into->arena, SUB_TASKS "%s/layer_with_weights-0", head.name),
                   *first = tl_arena_printf(into->arena, SUB_TASKS "%s/layer_with_weights-0",
                                            m->tasks[0].name);
        if (!path || !first) return TL_ENOMEM;
        if (i) TL_TRY(tl_original_names_same(into, path, first));
        if (norm) TL_TRY(name_layer(into, head.name, "norm", 1));
        TL_TRY(name_layer(into, head.name, "head", norm ? 2 : 1));
    }
    return TL_OK;
}

const tl_task_class tl_image_multi_task = {
    .cls = {.class_size = sizeof(tl_task_class),
            .name = "image_multi_task",
            .base = &tl_multi_task_class.cls,
            .size = sizeof(tl_multi_task),
            .config = &tl_image_multi_task_config_desc,
            .help = "several tasks of image classification on one backbone"},
    .build_model = build_model,
    .original_names = original_names,
};

/* --- an experiment ---------------------------------------------------------------------------- */

static tl_status fill_local(tl_experiment_config *e, tl_arena *arena)
{
    tl_structs *list = &((tl_multi_task_config *)e->task.value)->task_routines;
    tl_task_routine *r;
    TL_TRY(tl_task_routines_add(&r, list, arena, "direction", &tl_image_task_config_desc));
    return tl_task_routines_add(&r, list, arena, "steepness", &tl_image_task_config_desc);
}

#define LOCAL_DATA                                                                                 \
    "file_type: synthetic, synthetic_examples: 512, global_batch_size: 32, aug_crop: false, "      \
    "aug_rand_hflip: false, mean: [128], stddev: [64], center_crop_fraction: 1.0"
#define LOCAL_TASK(name, weight, classes)                                                          \
    "  - task_name: " name "\n"                                                                    \
    "    task_weight: " weight "\n"                                                                \
    "    task_config:\n"                                                                           \
    "      model: {num_classes: " classes ", input_size: [16, 16, 1], backbone: {type: cnn}}\n"    \
    "      evaluation: {top_k: 2}\n"                                                               \
    "      train_data: {" LOCAL_DATA ", is_training: true}\n"                                      \
    "      validation_data: {" LOCAL_DATA ", is_training: false}\n"

/* Stripes that lean one way or another: which of four ways, and, on finer ones, which of eight. */
const tl_experiment_class tli_multi_task_local = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "multitask/local",
            .help = "two tasks on made-up images that share a small network: no files are needed, "
                    "and it takes some seconds"},
    .task = &tl_image_multi_task_config_desc,
    .trainer = &tl_multi_task_trainer_config_desc,
    .fill = fill_local,
    .defaults = "runtime: {distribution_strategy: one_device}\n"
                "task:\n"
                "  model:\n"
                "    input_size: [16, 16, 1]\n"
                "    backbone: {type: cnn, cnn: {filters: [8, 16], units: [32]}}\n"
                "  task_routines:\n" LOCAL_TASK("direction", "1.0", "4") LOCAL_TASK(
                    "steepness", "2.0",
                    "8") "trainer:\n"
                         "  trainer_type: interleaving\n"
                         "  task_sampler: {type: proportional}\n"
                         "  steps_per_loop: 50\n"
                         "  summary_interval: 50\n"
                         "  checkpoint_interval: 150\n"
                         "  train_steps: 300\n"
                         "  validation_interval: 150\n"
                         "  best_checkpoint_export_subdir: best\n"
                         "  best_checkpoint_eval_metric: steepness|accuracy\n"
                         "  optimizer_config:\n"
                         "    optimizer: {type: adam}\n"
                         "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.003, "
                         "decay_steps: 300}}\n",
};
