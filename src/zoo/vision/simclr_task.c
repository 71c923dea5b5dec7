/* SimCLR's two tasks: pre-training and fine-tuning. */
#include <string.h>

#include <tilth/nn/metrics.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/view.h>
#include <tilth/train/run/initialize.h>
#include <tilth/zoo/simclr.h>

#include "zoo/vision/simclr.h"

static const tl_simclr_model_config *model_of(const tl_task *t)
{
    return t->config->model.value;
}

static const tl_simclr_task_config *config_of(const tl_task *t)
{
    return (const tl_simclr_task_config *)t->config;
}

static const tl_simclr_data_config *train_data_of(const tl_task *t)
{
    return (const tl_simclr_data_config *)t->config->train_data;
}

static tl_status start(tl_task *t)
{
    const tl_task_config *k = t->config;
    const tl_data_config *data = k->validation_data ? k->validation_data : k->train_data;
    if (!data || !model_of(t)) return TL_OK;
    tl_image_data_config *images = tl_arena_alloc(t->arena, sizeof *images);
    if (!images) return TL_ENOMEM;
    ((tl_simclr_task *)t)->images = images;
    return tli_simclr_image_data(images, t->arena, (const tl_simclr_data_config *)data,
                                 model_of(t)->input_size);
}

/* --- model ------------------------------------------------------------------------------------ */

static tl_status build(tl_task *t, double l2_weight_decay, tl_model **out)
{
    const tl_data_config *data = t->config->train_data;
    *out = NULL;
    if (!model_of(t)) return TL_FAIL(TL_EINVAL, "task.model is null: there is no model to build");
    return tl_simclr_model_new(
        out, &(tl_simclr_model_args){.engine = t->engine,
                                     .config = model_of(t),
                                     .l2_weight_decay = l2_weight_decay,
                                     .batch_size = data ? data->global_batch_size : 1,
                                     .seed = t->seed,
                                     .dtype = t->dtype,
                                     .registry = t->registry,
                                     .arena = t->arena});
}

static tl_status build_pretrained(tl_task *t, tl_model **out)
{
    return build(t, ((const tl_simclr_pretrain_config *)t->config)->loss.l2_weight_decay, out);
}

static tl_status build_finetuned(tl_task *t, tl_model **out)
{
    return build(t, ((const tl_simclr_finetune_config *)t->config)->loss.l2_weight_decay, out);
}

static tl_status initialize(tl_task *t, tl_model *m)
{
    static const char *const parts[] = {"backbone", "projection_head", "supervised_head"};
    const char *from = t->config->init_checkpoint, *modules = config_of(t)->init_checkpoint_modules;
    if (!from || !*from) return TL_OK;
    int64_t count = strcmp(modules, "backbone") == 0                               ? 1
                    : strcmp(modules, "all") != 0 || !model_of(t)->supervised_head ? 2
                                                                                   : 3;
    return tl_task_initialize_from(t, m, from, (tl_strings){parts, count});
}

static tl_status create(tl_task *t, tl_model *m, const tl_optimization_config *config,
                        const tl_runtime_config *runtime, double l2_weight_decay,
                        tl_optimizer **out)
{
    *out = NULL;
    if (l2_weight_decay > 0 && config->optimizer.type
        && strcmp(config->optimizer.type, "lars") == 0)
        return TL_FAIL(TL_EINVAL, "task.loss.l2_weight_decay: lars has a weight decay of its own "
                                  "(weight_decay_rate); set this one to 0");
    return tl_base_task.create_optimizer(t, m, config, runtime, out);
}

static tl_status create_pretrainer(tl_task *t, tl_model *m, const tl_optimization_config *config,
                                   const tl_runtime_config *runtime, tl_optimizer **out)
{
    return create(t, m, config, runtime,
                  ((const tl_simclr_pretrain_config *)t->config)->loss.l2_weight_decay, out);
}

static tl_status create_finetuner(tl_task *t, tl_model *m, const tl_optimization_config *config,
                                  const tl_runtime_config *runtime, tl_optimizer **out)
{
    return create(t, m, config, runtime,
                  ((const tl_simclr_finetune_config *)t->config)->loss.l2_weight_decay, out);
}

/* --- pre-training ----------------------------------------------------------------------------- */

static const char *const pretrain_metrics[] = {"total_loss",        "contrast_loss",
                                               "contrast_accuracy", "contrast_entropy",
                                               "supervised_loss",   "accuracy"};
enum { TOTAL, CONTRAST, CONTRAST_ACCURACY, CONTRAST_ENTROPY, SUPERVISED, ACCURACY, TOLD };

/* One value for each image. */
typedef struct judgement {
    tl_tensor *values[TOLD];
} judgement;

static tl_tensor *as_float(tl_ctx *c, tl_tensor *x)
{
    return x && x->dtype != TL_F64 ? tl_cast(c, x, TL_F32) : x;
}

/* [2 n] to [n]: the mean over both views. */
static tl_tensor *of_both(tl_ctx *c, tl_tensor *x)
{
    if (!x) return NULL;
    return tl_mean(c, tl_reshape(c, x, TL_SHAPE(2, x->shape.dims[0] / 2)), TL_AXES(0), false);
}

static void judge_classes(judgement *out, tl_ctx *c, tl_tensor *labels, tl_tensor *logits)
{
    tl_tensor *y = tl_concat(c, (tl_tensor *[]){labels, labels}, 2, 0);
    tl_tensor *chosen = tl_cast(c, tl_argmax(c, logits, -1, false), TL_I32);
    out->values[SUPERVISED] = of_both(c, tl_sparse_cross_entropy(c, y, logits));
    out->values[ACCURACY] = of_both(c, tl_cast(c, tl_equal(c, chosen, y), TL_F32));
}

static void judge(judgement *out, tl_task *t, tl_ctx *c, const tl_tensors *labels,
                  const tl_tensors *outputs)
{
    const tl_simclr_contrastive *k = &((const tl_simclr_pretrain_config *)t->config)->loss;
    tl_tensor *logits = as_float(c, tl_tensors_peek(outputs, TL_SIMCLR_CLASSES)), *views[2];
    tl_contrast contrast;
    *out = (judgement){0};
    tl_split_even(c, as_float(c, tl_tensors_get(c, outputs, TL_SIMCLR_PROJECTION)), 0, 2, views);
    tl_contrastive_loss(
        &contrast, c, views[0], views[1],
        &(tl_contrastive_args){.temperature = k->temperature, .without_norm = !k->projection_norm});
    out->values[TOTAL] = out->values[CONTRAST] = contrast.losses;
    out->values[CONTRAST_ACCURACY] = tl_contrast_accuracy(c, &contrast);
    out->values[CONTRAST_ENTROPY] = tl_contrast_entropy(c, &contrast);
    if (!logits || !contrast.losses) return;
    tl_tensor *y = labels->items[0].tensor;
    if (train_data_of(t) && train_data_of(t)->input_set_label_to_zero) y = tl_scale(c, y, 0);
    judge_classes(out, c, y, logits);
    out->values[TOTAL] = tl_add(c, contrast.losses, out->values[SUPERVISED]);
}

static tl_tensor *pretrain_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                                  const tl_tensors *outputs, tl_tensor *aux)
{
    judgement j;
    judge(&j, t, c, labels, outputs);
    tl_tensor *losses = j.values[TOTAL];
    return aux && losses ? tl_add(c, losses, tl_cast(c, aux, losses->dtype)) : losses;
}

static tl_status add_accuracies(const tl_task *t, tl_metrics *into)
{
    int64_t k = config_of(t)->evaluation.top_k;
    const char *top = tl_arena_printf(t->arena, "top_%lld_accuracy", (long long)k);
    if (!top) return TL_ENOMEM;
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_sparse_categorical_accuracy, NULL, "accuracy"));
    return tl_metrics_add(NULL, into, &tl_metric_sparse_top_k_categorical_accuracy,
                          &(tl_top_k_config){.k = k}, top);
}

static tl_status pretrain_build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    if (!training) return model_of(t)->supervised_head ? add_accuracies(t, into) : TL_OK;
    int64_t count = model_of(t)->supervised_head ? TOLD : SUPERVISED;
    for (int64_t i = 0; i < count; i++)
        TL_TRY(tl_metrics_add(NULL, into, &tl_metric_mean, NULL, pretrain_metrics[i]));
    return TL_OK;
}

static void tell(tl_step *s, const judgement *j, tl_tensor *aux)
{
    tl_ctx *c = s->ctx;
    for (int i = 0; s->metrics && i < TOLD; i++) {
        tl_metric *metric = tl_metrics_find(s->metrics, pretrain_metrics[i]);
        tl_tensor *value = j->values[i];
        if (!metric || !value) continue;
        if (i == TOTAL && aux) value = tl_add(c, value, tl_cast(c, aux, value->dtype));
        tl_metric_update_value(metric, c, value, tl_step_parts(s)->weight);
    }
}

static tl_status pretrain_step(tl_task *t, tl_step *s)
{
    const tl_batch_parts *in = tl_step_parts(s);
    tl_tensors outputs = {0};
    judgement j;
    TL_TRY(tl_ctx_status(s->ctx));
    tl_step_forward_all(s, &in->features, &outputs);
    TL_TRY(tl_ctx_status(s->ctx));
    judge(&j, t, s->ctx, &in->labels, &outputs);
    TL_TRY(tl_ctx_status(s->ctx));
    tl_tensor *aux = tl_step_aux_losses(s), *losses = j.values[TOTAL];
    if (aux) losses = tl_add(s->ctx, losses, tl_cast(s->ctx, aux, losses->dtype));
    tl_step_minimize(s, losses, in->weight);
    bool taping = tl_ctx_set_taping(s->ctx, false);
    tell(s, &j, aux);
    tl_ctx_set_taping(s->ctx, taping);
    return tl_ctx_status(s->ctx);
}

/* The supervised head: how much the features say about the classes. There is one view, and so no
 * loss. */
static tl_status pretrain_validation_step(tl_task *t, tl_step *s)
{
    tl_tensors labels = tl_step_parts(s)->labels, outputs = {0};
    TL_TRY(tli_simclr_require_head(t));
    TL_TRY(tl_task_inference_step(t, s, &outputs));
    s->has_aux = true; // they are not in it
    tl_step_report(s, tl_scale(s->ctx, tl_cast(s->ctx, labels.items[0].tensor, TL_F32), 0),
                   tl_step_parts(s)->weight);
    tl_task_process_metrics(t, s, &labels, &outputs);
    return tl_ctx_status(s->ctx);
}

/* The first output is the classes', where there is a supervised head. */
static void process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs)
{
    if (!model_of(t)->supervised_head) return;
    tl_base_task.process_metrics(t, s, labels, outputs);
}

/* --- fine-tuning ------------------------------------------------------------------------------ */

static tl_tensor *finetune_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                                  const tl_tensors *outputs, tl_tensor *aux)
{
    const tl_simclr_classification *k = &((const tl_simclr_finetune_config *)t->config)->loss;
    tl_tensor *logits = as_float(c, tl_tensors_get(c, outputs, TL_SIMCLR_CLASSES));
    tl_tensor *losses = tl_sparse_cross_entropy(c, labels->items[0].tensor, logits,
                                                .smoothing = k->one_hot ? k->label_smoothing : 0);
    return aux && losses ? tl_add(c, losses, tl_cast(c, aux, losses->dtype)) : losses;
}

static tl_status finetune_build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    (void)training;
    return add_accuracies(t, into);
}

/* --- predictions ------------------------------------------------------------------------------ */

static tl_status prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    const tl_image_data_config *images = ((const tl_simclr_task *)t)->images;
    const tl_ints size = model_of(t)->input_size;
    if (!images)
        return TL_FAIL(TL_EINVAL, "the run has neither train_data nor validation_data, which say "
                                  "how images are made ready");
    if (q->shape.rank) return tl_image_prepare_pixels(inputs[0], images, size, q->shape, q->data);
    return tl_image_prepare(inputs[0], images, size, q->data, q->size);
}

static tl_tensor *build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    (void)t;
    return tl_softmax(c, as_float(c, tl_tensors_get(c, outputs, TL_SIMCLR_CLASSES)), -1);
}

static void answer_form(const tl_task *t, tl_answer_form *out)
{
    *out = (tl_answer_form){.classes = true, .names = config_of(t)->class_names};
}

/* --- names in checkpoints of Model Garden ----------------------------------------------------- */

static tl_status original_names(tl_task *t, tl_original_names *into)
{
    const tl_simclr_model_config *m = model_of(t);
    const tl_backbone_class *backbone;
    const void *config;
    if (!m) return TL_FAIL(TL_EINVAL, "task.model is null");
    TL_TRY(tl_backbone_find(&backbone, &config, t->arena, t->registry, &m->backbone,
                            "task.model.backbone"));
    if (!backbone->original_names)
        return TL_FAIL(TL_EUNSUPPORTED, "Model Garden has no backbone '%s'", m->backbone.type);
    TL_TRY(backbone->original_names(config, into));
    TL_TRY(tl_original_names_same(into, "model/_backbone", "backbone"));
    for (int64_t i = 0; i < tli_simclr_projections(m); i++) {
        static const char *const ours[] = {"dense", "norm"}, *const theirs[] = {"_dense0",
                                                                                "_norm0"};
        for (int k = 0; k < 2; k++) {
            const char *a =
                tl_arena_printf(into->arena, "projection_head/nl_%lld/%s", (long long)i, ours[k]);
            const char *b = tl_arena_printf(into->arena, "projection_head/_layers/%lld/%s",
                                            (long long)i, theirs[k]);
            if (!a || !b) return TL_ENOMEM;
            TL_TRY(tl_original_names_add(into, a, b));
        }
    }
    TL_TRY(tl_original_names_same(into, "model/_projection_head", "projection_head"));
    if (!m->supervised_head) return TL_OK;
    TL_TRY(tl_original_names_add(into, "supervised_head", "supervised_head/_dense0"));
    return tl_original_names_same(into, "model/_supervised_head", "supervised_head");
}

const tl_task_class tl_simclr_pretrain_task = {
    .cls = TL_CLASS(tl_task_class, "simclr_pretrain", &tl_base_task.cls, tl_simclr_task,
                    &tl_simclr_pretrain_config_desc,
                    .help = "learns features of images without labels (SimCLR)"),
    .start = start,
    .build_model = build_pretrained,
    .build_inputs = tli_simclr_inputs,
    .build_losses = pretrain_losses,
    .build_metrics = pretrain_build_metrics,
    .process_metrics = process_metrics,
    .train_step = pretrain_step,
    .validation_step = pretrain_validation_step,
    .initialize = initialize,
    .create_optimizer = create_pretrainer,
    .original_names = original_names,
    .lacks = tli_simclr_lacks,
};

const tl_task_class tl_simclr_finetune_task = {
    .cls = TL_CLASS(tl_task_class, "simclr_finetune", &tl_base_task.cls, tl_simclr_task,
                    &tl_simclr_finetune_config_desc,
                    .help = "classifies images by features that were learned without labels "
                            "(SimCLR)"),
    .start = start,
    .build_model = build_finetuned,
    .build_inputs = tli_simclr_inputs,
    .build_losses = finetune_losses,
    .build_metrics = finetune_build_metrics,
    .process_metrics = process_metrics,
    .initialize = initialize,
    .create_optimizer = create_finetuner,
    .original_names = original_names,
    .prepare_query = prepare_query,
    .build_answers = build_answers,
    .answer_form = answer_form,
    .lacks = tli_simclr_lacks,
};
