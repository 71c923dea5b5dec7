#include <tilth/train/task.h>

#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>
#include <tilth/train/run/initialize.h>
#include <tilth/train/strategy.h>

#include "train/inner/show_example.h"
#include "train/tuning.h"

/* --- making ----------------------------------------------------------------------------------- */

/* Methods read the config as what their class describes. */
static tl_status check_config(const tl_task_class *cls, const tl_object *config)
{
    const tl_desc *wanted = tl_class_config(&cls->cls);
    if (!wanted || (config->value && config->desc && tl_desc_is(config->desc, wanted)))
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "the task class '%s' takes a config '%s', and was given %s%s%s",
                   cls->cls.name, wanted->name, config->value ? "'" : "none",
                   config->value && config->desc ? config->desc->name : "",
                   config->value ? "'" : "");
}

tl_status tl_task_new(tl_task **out, const tl_task_class *cls, const tl_task_args *args)
{
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_task, &cls->cls));
    TL_TRY(check_config(cls, args->config));
    tl_task *t = tl_alloc_zero(size);
    if (!t) return TL_FAIL_NOMEM(size);
    const tl_task_config *config = args->config->value;
    tl_status st;
    t->cls = cls;
    t->config = config;
    t->name = config && config->name && *config->name ? config->name : cls->cls.name;
    if (args->name && *args->name) t->name = args->name;
    t->engine = args->engine;
    t->registry = args->registry;
    t->dtype = args->dtype;
    t->seed = args->seed;
    t->own = args->own;
    t->gin = args->gin ? args->gin : tl_gin_current();
    TL_TRY_DONE(st, tl_arena_new(&t->arena));
    t->logging_dir = tl_arena_strdup(t->arena, args->logging_dir ? args->logging_dir : "");
    if (!t->logging_dir) {
        st = TL_ENOMEM;
        goto done;
    }
    const tl_task_class *with = TL_CLASS_METHOD(tl_task_class, t->cls, start);
    if (with) TL_TRY_DONE(st, with->start(t));
    *out = t;
    t = NULL;
done:
    tl_task_free(&t);
    return st;
}

tl_status tl_get_task(tl_task **out, const tl_task_args *args)
{
    const tl_task_class *cls;
    *out = NULL;
    TL_TRY(tl_get_task_class(&cls, args->registry, args->config));
    return tl_task_new(out, cls, args);
}

void tl_task_free(tl_task **t)
{
    if (!*t) return;
    const tl_task_class *with = TL_CLASS_METHOD(tl_task_class, (*t)->cls, dispose);
    if (with) with->dispose(*t);
    tl_arena_free(&(*t)->arena);
    tl_free(*t);
    *t = NULL;
}

/* --- batches ---------------------------------------------------------------------------------- */

/* By the names that the class gives them (NULL: none), or by those that they usually have. */
static bool is_label(const char *name, const char *const *given)
{
    for (int64_t i = 0; given && given[i]; i++)
        if (strcmp(name, given[i]) == 0) return true;
    if (given) return false;
    static const char *const names[] = {"y", "label", "labels", "target", "targets"};
    for (int64_t i = 0; i < TL_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return strncmp(name, "label_", 6) == 0 || strncmp(name, "target_", 7) == 0;
}

static void split(const tl_batch *batch, const char *const *given, tl_tensors *features,
                  tl_tensors *labels)
{
    *features = *labels = (tl_tensors){0};
    for (int64_t i = 0; i < batch->tensors.count; i++) {
        const tl_named *f = &batch->tensors.items[i];
        if (strcmp(f->name, TL_BATCH_WEIGHT) == 0 || strcmp(f->name, TL_BATCH_NAME) == 0) continue;
        tl_tensors_put(batch->ctx, is_label(f->name, given) ? labels : features, f->name,
                       f->tensor);
    }
    if (!labels->count) *labels = *features;
    if (!features->count) *features = *labels;
}

void tl_batch_split(const tl_batch *batch, tl_tensors *features, tl_tensors *labels)
{
    split(batch, NULL, features, labels);
}

static const char *const *labels_of(const tl_task *t)
{
    const tl_task_class *with = TL_CLASS_METHOD(tl_task_class, t->cls, labels);
    return with ? with->labels : NULL;
}

void tl_task_split(const tl_task *t, const tl_batch *batch, tl_tensors *features,
                   tl_tensors *labels)
{
    split(batch, labels_of(t), features, labels);
}

static void add_names(tl_str *out, const tl_tensors *tensors)
{
    if (!tensors->count) tl_str_add(out, "none");
    for (int64_t i = 0; i < tensors->count; i++)
        tl_str_addf(out, "%s'%s'", i ? ", " : "", tensors->items[i].name);
}

/* A model that takes one tensor, and what it would be given. Who names data for the first time
 * learns the names here. */
static tl_status check_features(const tl_task *t, const tl_step *s, const tl_tensors *features,
                                const tl_tensors *labels)
{
    if (features->count < 2 || TL_CLASS_METHOD(tl_layer_class, s->model->cls, forward_all))
        return TL_OK;
    tl_str names = TL_STR_INIT;
    add_names(&names, features);
    tl_str_add(&names, " (labels: ");
    bool both = labels->items == features->items; // a batch without labels serves as both
    add_names(&names, both ? &(tl_tensors){0} : labels);
    tl_str_addc(&names, ')');
    tl_status st = TL_FAIL(
        TL_EINVAL,
        "the model takes one tensor, and %d of the batch are features: %s. Labels are called y, "
        "label, labels, target or targets, or begin with label_ or target_; name others in "
        "`labels` of the task's class. Or split the batch in steps of your own (tl_batch_split, "
        "tl_batch_get), or give the model's class a forward_all, which takes several",
        (int)features->count, tl_str_text(&names));
    tl_str_deinit(&names);
    return tl_error_note(st, "task '%s'", t->name);
}

/* The labels that the class names, in a batch that is to be compared with something. */
static tl_status check_labels(const tl_task *t, const tl_tensors *batch)
{
    const char *const *given = labels_of(t);
    for (int64_t i = 0; given && given[i]; i++) {
        if (tl_tensors_peek(batch, given[i])) continue;
        tl_str names = TL_STR_INIT;
        add_names(&names, batch);
        tl_status st = TL_FAIL(
            TL_EINVAL, "task '%s': its class calls '%s' a label, and the batch has none; it has %s",
            t->name, given[i], tl_str_text(&names));
        tl_str_deinit(&names);
        return st;
    }
    return TL_OK;
}

static void base_split_batch(const tl_task *t, const tl_batch *batch, tl_batch_parts *out)
{
    tl_task_split(t, batch, &out->features, &out->labels);
    out->weight = tl_batch_weight(batch);
}

/* The parts of a batch that is to be learned from, or compared with. */
static tl_status split_step(const tl_task *t, tl_step *s, tl_batch_parts *out)
{
    const tl_task_class *with = TL_CLASS_METHOD(tl_task_class, t->cls, split_batch);
    bool by_names = !with || with->split_batch == base_split_batch;
    *out = *tl_step_parts(s);
    TL_TRY(tl_ctx_status(s->ctx));
    if (by_names) TL_TRY(check_labels(t, &s->batch->tensors));
    return check_features(t, s, &out->features, &out->labels);
}

/* --- the base --------------------------------------------------------------------------------- */

static tl_status base_build_model(tl_task *t, tl_model **out)
{
    *out = NULL;
    return TL_FAIL(TL_EUNSUPPORTED, "the task '%s' builds no model: its class has no build_model",
                   t->name);
}

static tl_status base_build_inputs(tl_task *t, const tl_data_config *data,
                                   const tl_input_context *input, tl_dataset **out)
{
    (void)data;
    (void)input;
    *out = NULL;
    return TL_FAIL(TL_EUNSUPPORTED, "the task '%s' has no data: its class has no build_inputs",
                   t->name);
}

static tl_tensor *base_build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                                    const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t;
    (void)labels;
    (void)outputs;
    return aux ? aux : tl_full(c, TL_F32, TL_SCALAR, 0);
}

static tl_status base_build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    (void)t;
    (void)training;
    (void)into;
    return TL_OK;
}

static void base_process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                                 const tl_tensors *outputs)
{
    (void)t;
    if (!s->metrics || !labels->count || !outputs->count) return;
    bool taping = tl_ctx_set_taping(s->ctx, false);
    tl_metrics_update(s->metrics, s->ctx, labels->items[0].tensor, outputs->items[0].tensor,
                      tl_step_parts(s)->weight);
    tl_ctx_set_taping(s->ctx, taping);
}

static void base_process_compiled_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                                          const tl_tensors *outputs)
{
    tl_task_process_metrics(t, s, labels, outputs);
}

static tl_status base_train_step(tl_task *t, tl_step *s)
{
    tl_batch_parts in;
    tl_tensors outputs = {0};
    TL_TRY(split_step(t, s, &in));
    tl_step_forward_all(s, &in.features, &outputs);
    TL_TRY(tl_ctx_status(s->ctx)); // whoever builds losses finds outputs
    tl_tensor *losses =
        tl_task_build_losses(t, s->ctx, &in.labels, &outputs, tl_step_aux_losses(s));
    tl_step_minimize(s, losses, in.weight);
    TL_TRY(tl_ctx_status(s->ctx));
    tl_task_process_metrics(t, s, &in.labels, &outputs);
    return tl_ctx_status(s->ctx);
}

static tl_status base_validation_step(tl_task *t, tl_step *s)
{
    tl_batch_parts in;
    tl_tensors outputs = {0};
    TL_TRY(split_step(t, s, &in));
    TL_TRY(tl_task_inference_step(t, s, &outputs));
    tl_tensor *losses =
        tl_task_build_losses(t, s->ctx, &in.labels, &outputs, tl_step_aux_losses(s));
    tl_step_report(s, losses, in.weight);
    tl_task_process_metrics(t, s, &in.labels, &outputs);
    return tl_ctx_status(s->ctx);
}

static tl_status base_inference_step(tl_task *t, tl_step *s, tl_tensors *outputs)
{
    const tl_batch_parts *in = tl_step_parts(s);
    TL_TRY(tl_ctx_status(s->ctx));
    TL_TRY(check_features(t, s, &in->features, &in->labels));
    tl_step_forward_all(s, &in->features, outputs);
    return tl_ctx_status(s->ctx);
}

static tl_status base_aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    (void)t;
    (void)state;
    (void)step;
    return TL_OK;
}

static tl_status base_reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step,
                                             tl_logs *into)
{
    (void)t;
    (void)state;
    (void)global_step;
    (void)into;
    return TL_OK;
}

static void base_release_aggregated(tl_task *t, void *state)
{
    (void)t;
    (void)state;
}

static tl_status base_initialize(tl_task *t, tl_model *m)
{
    const char *from = t->config ? t->config->init_checkpoint : NULL;
    if (from && *from) TL_TRY(tl_task_initialize_from(t, m, from, (tl_strings){NULL, 0}));
    else
        TL_LOG_INFO("task '%s': init_checkpoint is not set, the model starts from its initial "
                    "weights",
                    t->name);
    return TL_OK;
}

tl_status tl_task_create_grouped_optimizer(tl_task *t, tl_model *m,
                                           const tl_optimization_config *config,
                                           const tl_runtime_config *runtime,
                                           const tl_group_config *groups, int64_t count,
                                           tl_optimizer **out)
{
    double scale = 0;
    TL_TRY(tli_tuning_groups(&groups, &count, t, m));
    if (count) TL_TRY(tl_model_group(m, groups, count));
    if (runtime && runtime->loss_scale && !tl_value_is_null(runtime->loss_scale))
        (void)!tl_value_double(runtime->loss_scale, &scale); // "dynamic" leaves it 0
    return tl_optimizer_new(out,
                            &(tl_optimizer_args){.engine = t->engine,
                                                 .model = m,
                                                 .config = config,
                                                 .registry = t->registry,
                                                 .groups = groups,
                                                 .group_count = count,
                                                 .scaled = t->dtype == TL_F16,
                                                 .loss_scale = t->dtype == TL_F16 ? scale : 0});
}

static tl_status base_create_optimizer(tl_task *t, tl_model *m,
                                       const tl_optimization_config *config,
                                       const tl_runtime_config *runtime, tl_optimizer **out)
{
    return tl_task_create_grouped_optimizer(t, m, config, runtime, NULL, 0, out);
}

static tl_status base_original_names(tl_task *t, tl_original_names *into)
{
    (void)into;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "the task '%s' does not know the names that its weights have in Model Garden; a "
                   "task's method original_names tells them",
                   t->name);
}

static tl_status base_notes(tl_task *t, tl_notes *into)
{
    (void)t;
    (void)into;
    return TL_OK;
}

static tl_status base_prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    (void)q;
    (void)inputs;
    return TL_FAIL(TL_EUNSUPPORTED, "the task '%s' cannot predict: its class has no prepare_query",
                   t->name);
}

static tl_tensor *base_build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    (void)t;
    tl_tensor *y = tl_cast(c, outputs->items[0].tensor, TL_F32);
    return y ? tl_reshape(c, y, TL_SHAPE(y->shape.rank ? y->shape.dims[0] : 1, -1)) : NULL;
}

/* It is in them already. */
static tl_status base_settle_answer(const tl_task *t, const tl_query *q, tl_settling *answer)
{
    (void)t, (void)q, (void)answer;
    return TL_OK;
}

static tl_status base_query_inputs(const tl_task *t, tl_spec *inputs, int64_t count)
{
    (void)t, (void)inputs, (void)count;
    return TL_OK;
}

static tl_status base_write_objects(tl_task *t, const char *path)
{
    (void)path;
    return TL_FAIL(TL_EUNSUPPORTED, "the task '%s' finds no objects in pictures", t->name);
}

static void base_answer_form(const tl_task *t, tl_answer_form *out)
{
    (void)t;
    *out = (tl_answer_form){0};
}

static tl_status base_set_classes(tl_task *t, tl_strings names)
{
    (void)t;
    (void)names;
    return TL_OK;
}

static tl_status base_export_weights(tl_task *t, const tl_export_args *args, tl_state *weights,
                                     tl_notes *files)
{
    (void)weights;
    (void)files;
    return TL_FAIL(TL_EUNSUPPORTED, "the task '%s' cannot write its weights in the form '%s'",
                   t->name, args->format);
}

const tl_task_class tl_base_task = {
    .cls = {.class_size = sizeof(tl_task_class),
            .name = "base",
            .size = sizeof(tl_task),
            .help = "what tasks inherit"},
    .build_model = base_build_model,
    .build_inputs = base_build_inputs,
    .build_losses = base_build_losses,
    .build_metrics = base_build_metrics,
    .process_metrics = base_process_metrics,
    .process_compiled_metrics = base_process_compiled_metrics,
    .train_step = base_train_step,
    .validation_step = base_validation_step,
    .inference_step = base_inference_step,
    .aggregate_logs = base_aggregate_logs,
    .reduce_aggregated_logs = base_reduce_aggregated_logs,
    .release_aggregated = base_release_aggregated,
    .initialize = base_initialize,
    .create_optimizer = base_create_optimizer,
    .original_names = base_original_names,
    .notes = base_notes,
    .prepare_query = base_prepare_query,
    .build_answers = base_build_answers,
    .answer_form = base_answer_form,
    .settle_answer = base_settle_answer,
    .set_classes = base_set_classes,
    .export_files = base_notes, // none
    .export_weights = base_export_weights,
    .split_batch = base_split_batch,
    .query_inputs = base_query_inputs,
    .write_objects = base_write_objects,
    .show_example = tli_show_example,
};

/* --- the methods ------------------------------------------------------------------------------ */

/* A task that does not name the base inherits from it all the same. */
#define CALL(t, method) TL_CLASS_METHOD_OR(tl_task_class, (t)->cls, method, tl_base_task)

void tl_task_split_batch(const tl_task *t, const tl_batch *batch, tl_batch_parts *out)
{
    *out = (tl_batch_parts){0};
    CALL(t, split_batch)(t, batch, out);
    if (!out->labels.count) out->labels = out->features;
    if (!out->features.count) out->features = out->labels;
    if (out->features.count || !batch->tensors.count || tl_ctx_failed(batch->ctx)) return;
    tl_str names = TL_STR_INIT;
    add_names(&names, &batch->tensors);
    (void)TL_FAIL(TL_EINVAL, "task '%s': nothing of the batch is a feature or a label; it has %s",
                  t->name, tl_str_text(&names));
    tl_str_deinit(&names);
    tl_ctx_fail(batch->ctx);
}

tl_status tl_task_build_model(tl_task *t, tl_model **out)
{
    tl_gin *outer = tl_gin_set_current(t->gin);
    tl_status st = CALL(t, build_model)(t, out);
    tl_gin_set_current(outer);
    return st;
}

tl_status tl_task_build_inputs(tl_task *t, const tl_data_config *data,
                               const tl_input_context *input, tl_dataset **out)
{
    tl_gin *outer = tl_gin_set_current(t->gin);
    tl_status st = CALL(t, build_inputs)(t, data, input, out);
    tl_gin_set_current(outer);
    return st;
}

tl_tensor *tl_task_build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                                const tl_tensors *outputs, tl_tensor *aux)
{
    return CALL(t, build_losses)(t, c, labels, outputs, aux);
}

tl_status tl_task_build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    tl_gin *outer = tl_gin_set_current(t->gin);
    tl_status st = CALL(t, build_metrics)(t, training, into);
    tl_gin_set_current(outer);
    return st;
}

void tl_task_process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                             const tl_tensors *outputs)
{
    CALL(t, process_metrics)(t, s, labels, outputs);
}

void tl_task_process_compiled_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                                      const tl_tensors *outputs)
{
    CALL(t, process_compiled_metrics)(t, s, labels, outputs);
}

tl_status tl_task_train_step(tl_task *t, tl_step *s)
{
    return CALL(t, train_step)(t, s);
}

tl_status tl_task_validation_step(tl_task *t, tl_step *s)
{
    return CALL(t, validation_step)(t, s);
}

tl_status tl_task_inference_step(tl_task *t, tl_step *s, tl_tensors *outputs)
{
    return CALL(t, inference_step)(t, s, outputs);
}

tl_status tl_task_aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    return CALL(t, aggregate_logs)(t, state, step);
}

bool tl_task_aggregates(const tl_task *t)
{
    return CALL(t, aggregate_logs) != base_aggregate_logs;
}

tl_status tl_task_reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step,
                                         tl_logs *into)
{
    return CALL(t, reduce_aggregated_logs)(t, state, global_step, into);
}

void tl_task_release_aggregated(tl_task *t, void *state)
{
    CALL(t, release_aggregated)(t, state);
}

tl_status tl_task_initialize(tl_task *t, tl_model *m)
{
    const tl_own_config *own = t->own;
    t->read_own = false;
    TL_TRY(CALL(t, initialize)(t, m));
    if (t->read_own || !own || !(own->init_resize.count + own->init_leave.count)) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "tilth.%s is for checkpoints that task.init_checkpoint names, and the task '%s' "
                   "has read none",
                   own->init_resize.count ? "init_resize" : "init_leave", t->name);
}

tl_status tl_task_create_optimizer(tl_task *t, tl_model *m, const tl_optimization_config *config,
                                   const tl_runtime_config *runtime, tl_optimizer **out)
{
    tl_gin *outer = tl_gin_set_current(t->gin);
    tl_status st = CALL(t, create_optimizer)(t, m, config, runtime, out);
    tl_gin_set_current(outer);
    return st;
}

tl_status tl_task_original_names(tl_task *t, tl_original_names *into)
{
    return CALL(t, original_names)(t, into);
}

tl_status tl_task_notes(tl_task *t, tl_notes *into)
{
    return CALL(t, notes)(t, into);
}

tl_status tl_task_prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    return CALL(t, prepare_query)(t, q, inputs);
}

tl_tensor *tl_task_build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    return CALL(t, build_answers)(t, c, outputs);
}

tl_status tl_task_settle_answer(const tl_task *t, const tl_query *q, tl_settling *answer)
{
    return CALL(t, settle_answer)(t, q, answer);
}

tl_status tl_task_query_inputs(const tl_task *t, tl_spec *inputs, int64_t count)
{
    return CALL(t, query_inputs)(t, inputs, count);
}

tl_status tl_task_write_objects(tl_task *t, const char *path)
{
    return CALL(t, write_objects)(t, path);
}

tl_status tl_task_show_example(const tl_task *t, const tl_batch *batch, int64_t row,
                               tl_example_view *out)
{
    return CALL(t, show_example)(t, batch, row, out);
}

void tl_task_answer_form(const tl_task *t, tl_answer_form *out)
{
    CALL(t, answer_form)(t, out);
}

tl_status tl_task_set_classes(tl_task *t, tl_strings names)
{
    return CALL(t, set_classes)(t, names);
}

tl_status tl_task_export_files(tl_task *t, tl_notes *into)
{
    return CALL(t, export_files)(t, into);
}

tl_status tl_task_export_weights(tl_task *t, const tl_export_args *args, tl_state *weights,
                                 tl_notes *files)
{
    return CALL(t, export_weights)(t, args, weights, files);
}

bool tl_task_takes_queries(const tl_task *t)
{
    return CALL(t, prepare_query) != base_prepare_query;
}
