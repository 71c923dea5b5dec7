/* The task image_classification: Model Garden's, section by section. */
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/train/run/initialize.h>
#include <tilth/zoo/vision.h>

#include "zoo/vision/foreign.h"
#include "zoo/vision/image_classes.h"
#include "zoo/vision/image_lacks.h"
#include "zoo/vision/image_mistakes.h"
#include "zoo/vision/image_report.h"
#include "zoo/vision/image_view.h"

typedef tl_image_task image_task;

/* Filled here too: what derives from it may have a `start` that does not call this one's. */
static image_task *image_task_of(tl_task *t)
{
    image_task *m = (image_task *)t;
    if (m->config) return m;
    m->config = (const tl_image_task_config *)t->config;
    m->model = t->config->model.value;
    m->train_data = (const tl_image_data_config *)t->config->train_data;
    return m;
}

static tl_status start(tl_task *t)
{
    image_task_of(t);
    return TL_OK;
}

static tl_status build_model(tl_task *t, tl_model **out)
{
    image_task *m = image_task_of(t);
    if (!m->model) return TL_FAIL(TL_EINVAL, "task.model is null: there is no model to build");
    const tl_data_config *data = t->config->train_data;
    TL_TRY(tl_image_classifier_new(
        out, &(tl_image_classifier_args){.engine = t->engine,
                                         .config = m->model,
                                         .l2_weight_decay = m->config->losses.l2_weight_decay,
                                         .batch_size = data ? data->global_batch_size : 1,
                                         .seed = t->seed,
                                         .dtype = t->dtype,
                                         .registry = t->registry,
                                         .arena = t->arena}));
    tl_status st =
        m->config->freeze_backbone ? tl_model_set_trainable(*out, "backbone", false) : TL_OK;
    if (st != TL_OK) tl_model_free(out);
    return st;
}

static bool is_multilabel(const image_task *m)
{
    return m->train_data && m->train_data->is_multilabel;
}

/* --- classes ---------------------------------------------------------------------------------- */

static bool is_image_task(const tl_task *t)
{
    return tl_class_is(&t->cls->cls, &tl_image_classification_task.cls);
}

static tl_status find_classes(image_task *m)
{
    const tl_image_data_config *train = m->train_data;
    const tl_image_data_config *validation =
        (const tl_image_data_config *)m->base.config->validation_data;
    m->classes = m->config->class_names;
    if (m->classes.count) return TL_OK;
    if (train) TL_TRY(tl_image_classes(&m->classes, m->base.arena, train, "task.train_data"));
    if ((train && tl_paths_given(train->base.input_path)) || !validation) return TL_OK;
    return tl_image_classes(&m->classes, m->base.arena, validation, "task.validation_data");
}

tl_status tl_image_task_classes(tl_task *t, tl_strings *out)
{
    *out = (tl_strings){0};
    if (!is_image_task(t))
        return TL_FAIL(TL_EINVAL, "the task '%s' has no classes of images", t->cls->cls.name);
    image_task *m = image_task_of(t);
    if (!m->classes_known) TL_TRY(find_classes(m));
    m->classes_known = true;
    *out = m->classes;
    return TL_OK;
}

tl_status tl_image_task_set_classes(tl_task *t, tl_strings names)
{
    if (!is_image_task(t))
        return TL_FAIL(TL_EINVAL, "the task '%s' has no classes of images", t->cls->cls.name);
    image_task *m = image_task_of(t);
    tl_strings given = m->config->class_names;
    const char **copy = tl_arena_array(t->arena, names.count, sizeof *copy);
    if (!copy) return TL_ENOMEM;
    for (int64_t i = 0; i < names.count; i++) {
        if (given.count && (i >= given.count || strcmp(given.items[i], names.items[i]) != 0))
            return TL_FAIL(TL_EINVAL, "class %lld is '%s', and task.class_names calls it '%s'",
                           (long long)i, names.items[i], i < given.count ? given.items[i] : "");
        if (!(copy[i] = tl_arena_strdup(t->arena, names.items[i]))) return TL_ENOMEM;
    }
    m->classes = (tl_strings){copy, names.count};
    m->classes_known = true;
    return TL_OK;
}

/* For what is told: without names there are numbers. */
static tl_strings names_of(image_task *m)
{
    tl_strings names;
    if (tl_image_task_classes(&m->base, &names) != TL_OK) tl_error_clear();
    return names.count == m->model->num_classes ? names : (tl_strings){0};
}

/* Data of training need not be there for an evaluation, unless its folders say which number a class
 * has. */
static tl_status classes_for(image_task *m, const tl_image_data_config *data, tl_strings *out)
{
    tl_status st = tl_image_task_classes(&m->base, out);
    if (st != TL_ENOTFOUND || data == m->train_data || data->file_type == TL_IMAGES_FOLDER)
        return st;
    tl_error_clear();
    return TL_OK;
}

/* Of several classes there is no one that was taken for another. */
static bool tells_mistakes(const tl_task *t)
{
    const image_task *m = (const image_task *)t;
    return m->config->evaluation.report_mistakes > 0 && !is_multilabel(m);
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    image_task *m = image_task_of(t);
    tl_strings names;
    TL_TRY(classes_for(m, (const tl_image_data_config *)data, &names));
    return tl_image_inputs(
        out,
        &(tl_image_inputs_args){.data = (const tl_image_data_config *)data,
                                .size = m->model->input_size,
                                .num_classes = m->model->num_classes,
                                .input = *input,
                                .evaluation = data != t->config->train_data,
                                .multilabel = is_multilabel(m),
                                .class_names = names,
                                .name_examples = data != t->config->train_data && tells_mistakes(t),
                                .arena = t->arena});
}

/* --- losses ----------------------------------------------------------------------------------- */

static tl_tensor *one_hot(tl_ctx *c, tl_tensor *labels, const tl_tensor *logits)
{
    if (!labels || !logits || labels->shape.rank == logits->shape.rank) return labels;
    return tl_one_hot(c, labels, logits->shape.dims[logits->shape.rank - 1], TL_F32);
}

/* Shares of mixed images count as yes when they are more than the smoothing of mixtures alone
 * gives. */
static tl_tensor *yes_or_no(tl_ctx *c, const image_task *m, tl_tensor *labels,
                            const tl_tensor *logits)
{
    if (!labels || !logits || labels->shape.rank != logits->shape.rank)
        return one_hot(c, labels, logits);
    const tl_mixup_and_cutmix *mixed = m->train_data ? m->train_data->mixup_and_cutmix : NULL;
    if (!mixed) return labels;
    double classes = (double)logits->shape.dims[logits->shape.rank - 1];
    tl_tensor *most = tl_full(c, labels->dtype, TL_SCALAR, mixed->label_smoothing / classes + 1e-6);
    return tl_cast(c, tl_greater_equal(c, labels, most), TL_F32);
}

/* Every class a question of its own. */
static tl_tensor *binary_losses(tl_ctx *c, tl_tensor *targets, tl_tensor *logits)
{
    if (!targets || !logits) return NULL;
    return tl_mean(c, tl_sigmoid_cross_entropy(c, tl_cast(c, targets, logits->dtype), logits),
                   TL_AXES(-1), false);
}

/* Examples of several classes: the sum over classes. Smoothed labels lie nearer to a half. */
static tl_tensor *multilabel_losses(tl_ctx *c, const image_task *m, tl_tensor *labels,
                                    tl_tensor *logits)
{
    double smoothing = m->config->losses.label_smoothing;
    if (smoothing > 0) {
        tl_tensor *half = tl_full(c, TL_F32, TL_SCALAR, smoothing / 2);
        labels = tl_add(c, tl_scale(c, labels, 1 - smoothing), half);
    }
    return tl_scale(c, binary_losses(c, labels, logits), (double)m->model->num_classes);
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    const image_task *m = image_task_of(t);
    const tl_image_losses *l = &m->config->losses;
    tl_tensor *y = labels->items[0].tensor, *logits = outputs->items[0].tensor, *losses;
    double smoothing = l->one_hot ? l->label_smoothing : 0;
    if (logits && logits->dtype != TL_F64) logits = tl_cast(c, logits, TL_F32);
    if (is_multilabel(m)) losses = multilabel_losses(c, m, y, logits);
    else if (l->use_binary_cross_entropy)
        losses = binary_losses(c, yes_or_no(c, m, y, logits), logits);
    else if (y && logits && y->shape.rank == logits->shape.rank)
        losses = tl_cross_entropy(c, tl_cast(c, y, logits->dtype), logits,
                                  l->soft_labels ? 0 : smoothing);
    else
        // vectors need not be written out
        losses = tl_sparse_cross_entropy(c, y, logits, .smoothing = smoothing);
    if (aux && logits) losses = tl_add(c, losses, tl_cast(c, aux, logits->dtype));
    return l->loss_weight == 1 ? losses : tl_scale(c, losses, l->loss_weight);
}

/* --- metrics ---------------------------------------------------------------------------------- */

/* "precision_at_threshold_0.5", of a class with "/3" behind it; "precision/3" without a
 * threshold. */
static const char *metric_name(image_task *m, const char *what, const double *threshold,
                               int64_t class_id)
{
    tl_strings given = names_of(m);
    char number[32], at[64] = "", of[32] = "";
    if (threshold) {
        tl_double_text(number, *threshold);
        snprintf(at, sizeof at, "_at_threshold_%s", number);
    }
    if (class_id >= 0) snprintf(of, sizeof of, "/%lld", (long long)class_id);
    if (class_id >= 0 && given.count)
        return tl_arena_printf(m->base.arena, "%s%s/%s", what, at, given.items[class_id]);
    return tl_arena_printf(m->base.arena, "%s%s%s", what, at, of);
}

/* Of one class when `class_id` is not negative. Without thresholds the greatest answer counts. */
static tl_status add_precision_and_recall(image_task *m, tl_metrics *into, int64_t class_id)
{
    static const tl_metric_class *const classes[] = {&tl_metric_precision, &tl_metric_recall};
    static const char *const names[] = {"precision", "recall"};
    tl_doubles thresholds = m->config->evaluation.precision_and_recall_thresholds;
    for (int i = 0; i < 2; i++) {
        for (int64_t k = 0; k < thresholds.count || k == 0; k++) {
            const double *threshold = k < thresholds.count ? &thresholds.items[k] : NULL;
            tl_threshold_metric_config config = {
                .top_k = {true, 1},
                .thresholds = {threshold, threshold ? 1 : 0},
            };
            const char *name = metric_name(m, names[i], threshold, class_id);
            if (!name) return TL_ENOMEM;
            if (class_id >= 0) config.class_id = (tl_opt_int){true, class_id};
            TL_TRY(tl_metrics_add(NULL, into, classes[i], &config, name));
        }
    }
    return TL_OK;
}

/* Of examples with several classes: areas under the curve of precision over recall, of all answers
 * and of each class. They take too long for training. */
static tl_status add_areas(const image_task *m, tl_metrics *into)
{
    tl_auc_config k = {.num_thresholds = 200, .curve = TL_CURVE_PR, .from_logits = true};
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_auc, &k, "globalPR-AUC"));
    k.num_labels = m->model->num_classes;
    return tl_metrics_add(NULL, into, &tl_metric_auc, &k, "meanPR-AUC");
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    image_task *m = image_task_of(t);
    const tl_image_evaluation *e = &m->config->evaluation;
    if (is_multilabel(m)) return training ? TL_OK : add_areas(m, into);
    char *top = tl_arena_printf(t->arena, "top_%lld_accuracy", (long long)e->top_k);
    if (!top) return TL_ENOMEM;
    // Targets with one 1 and class numbers give the same; numbers cost less.
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_sparse_categorical_accuracy, NULL, "accuracy"));
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_sparse_top_k_categorical_accuracy,
                          &(tl_top_k_config){.k = e->top_k}, top));
    if (e->precision_and_recall_thresholds.count) TL_TRY(add_precision_and_recall(m, into, -1));
    for (int64_t i = 0; e->report_per_class_precision_and_recall && i < m->model->num_classes; i++)
        TL_TRY(add_precision_and_recall(m, into, i));
    if (training || !t->config->allow_image_summary) return TL_OK;
    return tl_metrics_add(
        NULL, into, &tl_metric_confusion_matrix,
        &(tl_confusion_config){.num_classes = m->model->num_classes, .metric.labels = names_of(m)},
        "confusion");
}

static bool wants_vectors(const tl_metric *metric)
{
    return metric->cls == &tl_metric_precision || metric->cls == &tl_metric_recall;
}

static void process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs)
{
    image_task *m = image_task_of(t);
    tl_ctx *c = s->ctx;
    if (!s->metrics || !labels->count || !outputs->count) return;
    bool taping = tl_ctx_set_taping(c, false);
    tl_tensor *y = labels->items[0].tensor, *logits = outputs->items[0].tensor;
    tl_tensor *weight = tl_step_parts(s)->weight, *vectors = NULL, *answers = logits;
    if (m->model->output_softmax) answers = tl_softmax(c, tl_cast(c, logits, TL_F32), -1);
    // Soft labels: the class with the largest share is the one that is meant.
    bool soft = y && logits && y->shape.rank == logits->shape.rank && !is_multilabel(m);
    tl_tensor *classes = soft ? tl_argmax(c, y, -1, false) : y;
    for (int64_t i = 0; i < tl_metrics_count(s->metrics); i++) {
        tl_metric *metric = tl_metrics_at(s->metrics, i);
        if (TL_CLASS_METHOD(tl_metric_class, metric->cls, of_values)) continue; // somebody else's
        bool of_vectors = wants_vectors(metric);
        if (of_vectors && !vectors) vectors = one_hot(c, classes, logits);
        tl_metric_update(metric, c, of_vectors ? vectors : classes, answers, weight);
    }
    tl_ctx_set_taping(c, taping);
}

/* --- what is told to people ------------------------------------------------------------------- */

static tl_status validation_step(tl_task *t, tl_step *s)
{
    tl_tensors labels = tl_step_parts(s)->labels, outputs = {0};
    TL_TRY(tl_ctx_status(s->ctx));
    TL_TRY(tl_task_inference_step(t, s, &outputs));
    tl_tensor *losses = tl_task_build_losses(t, s->ctx, &labels, &outputs, tl_step_aux_losses(s));
    tl_step_report(s, losses, tl_step_parts(s)->weight);
    tl_task_process_metrics(t, s, &labels, &outputs);
    if (tells_mistakes(t))
        TL_TRY(tli_mistakes_step(s, labels.items[0].tensor, outputs.items[0].tensor));
    if (!t->config->allow_image_summary || is_multilabel(image_task_of(t)))
        return tl_ctx_status(s->ctx);
    return tli_report_step(s, labels.items[0].tensor, outputs.items[0].tensor);
}

/* What is kept of an evaluation. */
typedef struct kept {
    void *images, *mistakes;
} kept;

static tl_status aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    const image_task *m = (const image_task *)t;
    if (!t->config->allow_image_summary && !tells_mistakes(t)) return TL_OK;
    if (!*state && !(*state = tl_alloc_zero(sizeof(kept)))) return TL_FAIL_NOMEM(sizeof(kept));
    kept *k = *state;
    if (t->config->allow_image_summary) TL_TRY(tli_report_keep(&k->images, step));
    if (!tells_mistakes(t)) return TL_OK;
    return tli_mistakes_keep(&k->mistakes, step, m->model->num_classes,
                             m->config->evaluation.report_mistakes);
}

static tl_status reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    const kept *k = state;
    (void)global_step;
    if (k->mistakes) TL_TRY(tli_mistakes_tell(k->mistakes, names_of(image_task_of(t)), into));
    return k->images ? tli_report_tell(t->engine, k->images, names_of(image_task_of(t)), into)
                     : TL_OK;
}

static void release_aggregated(tl_task *t, void *state)
{
    kept *k = state;
    (void)t;
    if (!k) return;
    tli_report_free(k->images);
    tli_mistakes_free(k->mistakes);
    tl_free(k);
}

/* --- what a run keeps ------------------------------------------------------------------------- */

/* Which number each class has: a line for each. */
static tl_status notes(tl_task *t, tl_notes *into)
{
    tl_strings names = names_of((image_task *)t);
    tl_str text = TL_STR_INIT;
    if (!names.count) return TL_OK;
    for (int64_t i = 0; i < names.count; i++) tl_str_addf(&text, "%s\n", names.items[i]);
    tl_status st = tl_str_status(&text);
    if (st == TL_OK) st = tl_notes_put(into, "classes", "classes.txt", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

/* --- starting from other weights -------------------------------------------------------------- */

static tl_status initialize(tl_task *t, tl_model *m)
{
    static const char *const backbone[] = {"backbone"};
    const char *from = t->config->init_checkpoint;
    const char *modules = image_task_of(t)->config->init_checkpoint_modules;
    if (!from || !*from) return TL_OK;
    bool all = strcmp(modules, "all") == 0, foreign;
    TL_TRY(tli_vision_is_foreign(&foreign, from));
    if (foreign) return tli_vision_initialize(t, m, from, all);
    return tl_task_initialize_from(t, m, from,
                                   all ? (tl_strings){NULL, 0} : (tl_strings){backbone, 1});
}

/* The backbone is a group with a learning rate of its own, which is 0 at first. */
static tl_status create_optimizer(tl_task *t, tl_model *m, const tl_optimization_config *config,
                                  const tl_runtime_config *runtime, tl_optimizer **out)
{
    const tl_image_task_config *k = image_task_of(t)->config;
    const tl_group_config backbone = {
        .group = "backbone", .pattern = "^backbone/", .frozen_steps = k->freeze_backbone_steps};
    bool grouped = k->freeze_backbone_steps > 0 && !k->freeze_backbone;
    return tl_task_create_grouped_optimizer(t, m, config, runtime, &backbone, grouped, out);
}

/* There the model is a row of layers, of which the backbone is the first. */
static tl_status original_names(tl_task *t, tl_original_names *into)
{
    const tl_image_model_config *model = image_task_of(t)->model;
    const tl_backbone_class *backbone;
    const void *config;
    if (!model) return TL_FAIL(TL_EINVAL, "task.model is not set");
    TL_TRY(tl_backbone_find(&backbone, &config, t->arena, t->registry, &model->backbone,
                            "task.model.backbone"));
    if (!backbone->original_names)
        return TL_FAIL(TL_EUNSUPPORTED, "Model Garden has no backbone '%s'", model->backbone.type);
    TL_TRY(backbone->original_names(config, into));
    TL_TRY(tl_original_names_same(into, "model/layer_with_weights-0", "backbone"));
    if (model->add_head_batch_norm)
        TL_TRY(tl_original_names_add(into, "norm", "model/layer_with_weights-1"));
    return tl_original_names_add(into, "head",
                                 model->add_head_batch_norm ? "model/layer_with_weights-2"
                                                            : "model/layer_with_weights-1");
}

/* --- predictions ------------------------------------------------------------------------------ */

static const tl_image_task_config *config_of(const tl_task *t)
{
    return (const tl_image_task_config *)t->config;
}

/* As in evaluations. */
static tl_status view_of(const tl_task *t, const tl_image_data_config **data, tl_ints *size)
{
    const tl_task_config *c = t->config;
    const tl_image_model_config *model = c->model.value;
    *data = (const tl_image_data_config *)(c->validation_data ? c->validation_data : c->train_data);
    if (!*data || !model)
        return TL_FAIL(TL_EINVAL, "the run has neither train_data nor validation_data, which say "
                                  "how images are made ready");
    *size = model->input_size;
    return TL_OK;
}

/* What lies in data files is turned where the run's own is; photos that people have are, unless
 * that is forbidden. */
static tl_status prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    const tl_image_data_config *data;
    tl_ints size;
    TL_TRY(view_of(t, &data, &size));
    if (q->shape.rank) return tl_image_prepare_pixels(inputs[0], data, size, q->shape, q->data);
    tl_image_data_config as = *data;
    if (q->of_data) as.exif_orientation = (tl_opt_bool){true, tli_image_turns(data)};
    return tl_image_prepare(inputs[0], &as, size, q->data, q->size);
}

static bool has_several(const tl_task *t)
{
    const tl_image_data_config *data = (const tl_image_data_config *)t->config->train_data;
    return data && data->is_multilabel;
}

static tl_tensor *build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    tl_tensor *logits = tl_cast(c, outputs->items[0].tensor, TL_F32);
    return has_several(t) ? tl_sigmoid(c, logits) : tl_softmax(c, logits, -1);
}

static void answer_form(const tl_task *t, tl_answer_form *out)
{
    *out = (tl_answer_form){
        .classes = true, .several = has_several(t), .names = config_of(t)->class_names};
}

static tl_status export_files(tl_task *t, tl_notes *into)
{
    const tl_image_data_config *data;
    tl_ints size;
    tl_str text = TL_STR_INIT;
    TL_TRY(view_of(t, &data, &size));
    tl_status st = tli_image_describe(&text, data, size);
    if (st == TL_OK)
        st = tl_notes_put(into, "preprocessing", "preprocessing.json", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

const tl_task_class tl_image_classification_task = {
    .cls = {.class_size = sizeof(tl_task_class),
            .name = "image_classification",
            .base = &tl_base_task.cls,
            .size = sizeof(tl_image_task),
            .config = &tl_image_task_config_desc,
            .help = "tells to which class an image belongs"},
    .start = start,
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
    .process_metrics = process_metrics,
    .validation_step = validation_step,
    .aggregate_logs = aggregate_logs,
    .reduce_aggregated_logs = reduce_aggregated_logs,
    .release_aggregated = release_aggregated,
    .initialize = initialize,
    .create_optimizer = create_optimizer,
    .original_names = original_names,
    .prepare_query = prepare_query,
    .build_answers = build_answers,
    .answer_form = answer_form,
    .set_classes = tl_image_task_set_classes,
    .export_files = export_files,
    .export_weights = tli_vision_export,
    .notes = notes,
    .lacks = tli_image_lacks,
};
