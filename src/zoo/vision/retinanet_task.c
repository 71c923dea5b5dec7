/* The task retinanet: Model Garden's, section by section. */
#include <stdio.h>
#include <string.h>

#include <tilth/data/draw.h>
#include <tilth/nn/coco_evaluator.h>
#include <tilth/nn/detection_losses.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/zoo/detection_inputs.h>

#include "zoo/vision/levels.h"
#include "zoo/vision/retinanet.h"

typedef struct retinanet_task {
    tl_task base;
    /* of the step under way, for the metrics */
    tl_tensor *total_loss, *cls_loss, *box_loss, *model_loss;
    tl_evaluator *coco;     /* once there is something to evaluate */
    tl_tensor *pictures;    /* of the evaluation under way: of its first batch */
    const char *detections; /* file for what evaluations find; NULL: none */
} retinanet_task;

static const tl_retinanet_task_config *config_of(const tl_task *t)
{
    return (const tl_retinanet_task_config *)t->config;
}

static const tl_retinanet_config *model_of(const tl_task *t)
{
    return t->config->model.value;
}

static void dispose(tl_task *t)
{
    tl_evaluator_free(&((retinanet_task *)t)->coco);
    tl_tensor_free(&((retinanet_task *)t)->pictures);
}

/* --- model and data --------------------------------------------------------------------------- */

static tl_status build_model(tl_task *t, tl_model **out)
{
    const tl_retinanet_task_config *k = config_of(t);
    const tl_data_config *data = t->config->train_data;
    if (!model_of(t)) return TL_FAIL(TL_EINVAL, "task.model is null: there is no model to build");
    TL_TRY_NOTE(
        tl_retinanet_new(out, &(tl_retinanet_args){.engine = t->engine,
                                                   .config = model_of(t),
                                                   .l2_weight_decay = k->losses.l2_weight_decay,
                                                   .batch_size = data ? data->global_batch_size : 1,
                                                   .seed = t->seed,
                                                   .dtype = t->dtype,
                                                   .registry = t->registry,
                                                   .arena = t->arena}),
        "task");
    tl_status st = k->freeze_backbone ? tl_model_set_trainable(*out, "backbone", false) : TL_OK;
    if (st != TL_OK) tl_model_free(out);
    return st;
}

/* Anchors are those of the padded image, which without padding is another one unless the size
 * fits. */
static tl_status check_padding(const tl_task *t, const tl_detection_data_config *data)
{
    const tl_retinanet_config *m = model_of(t);
    const tl_anchor_grid grid = tl_retinanet_grid(m);
    const int64_t *size = m->input_size.items;
    if (data->parser.pad || (grid.height == size[0] && grid.width == size[1])) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "parser.pad: without it task.model.input_size must be multiples of 2^max_level, "
                   "such as [%lld, %lld, 3]",
                   (long long)grid.height, (long long)grid.width);
}

static bool is_among(const char *name, tl_strings names)
{
    for (int64_t i = 0; i < names.count; i++)
        if (strcmp(name, names.items[i]) == 0) return true;
    return false;
}

/* How many numbers each attribute of the decoder has: what its head says. */
static tl_status attribute_sizes(tl_task *t, const tl_detection_data_config *data, tl_ints *out)
{
    const tl_structs heads = model_of(t)->head.attribute_heads;
    const tl_attribute_head *items = heads.items;
    const bool simple = data->decoder.type && strcmp(data->decoder.type, "simple_decoder") == 0;
    const tl_simple_decoder *decoder = simple ? data->decoder.value : NULL;
    const tl_strings names = decoder ? decoder->attribute_names : (tl_strings){0};
    *out = (tl_ints){0};
    for (int64_t k = 0; k < heads.count; k++)
        if (!is_among(items[k].name, names))
            return TL_FAIL(TL_EINVAL,
                           "decoder.simple_decoder.attribute_names lacks '%s', which "
                           "task.model.head.attribute_heads learns",
                           items[k].name);
    if (!names.count) return TL_OK;
    int64_t *sizes = tl_arena_array(t->arena, names.count, sizeof *sizes);
    if (!sizes) return TL_ENOMEM;
    for (int64_t i = 0; i < names.count; i++) {
        sizes[i] = 1;
        for (int64_t k = 0; k < heads.count; k++)
            if (strcmp(names.items[i], items[k].name) == 0
                && items[k].type == TL_ATTRIBUTE_REGRESSION)
                sizes[i] = items[k].size;
    }
    *out = (tl_ints){sizes, names.count};
    return TL_OK;
}

static bool tells_detections(const tl_task *t)
{
    return config_of(t)->use_coco_metrics || t->config->allow_image_summary;
}

static tl_status require_detections(const tl_task *t)
{
    if (model_of(t)->detection_generator.nms.apply_nms.value) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "task.model.detection_generator.apply_nms is false: there are no detections to "
                   "tell");
}

static tl_status make_evaluator(retinanet_task *r)
{
    const tl_retinanet_task_config *k = config_of(&r->base);
    const char *file = k->annotation_file;
    const tl_coco_evaluator_config config = {.annotation_file = file && *file ? file : NULL,
                                             .per_category_metrics = k->per_category_metrics,
                                             .max_num_eval_detections = k->max_num_eval_detections};
    TL_TRY_NOTE(tl_evaluator_new(&r->coco, &tl_coco_evaluator_class, &config, NULL),
                "task.annotation_file");
    return TL_OK;
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    const tl_detection_data_config *d = (const tl_detection_data_config *)data;
    const tl_retinanet_config *m = model_of(t);
    const bool evaluation = data != t->config->train_data;
    tl_ints sizes;
    TL_TRY_NOTE(check_padding(t, d), "%s", evaluation ? "task.validation_data" : "task.train_data");
    TL_TRY_NOTE(attribute_sizes(t, d, &sizes), "%s",
                evaluation ? "task.validation_data" : "task.train_data");
    // what is of no use shows before anything is trained
    if (evaluation && tells_detections(t)) TL_TRY(require_detections(t));
    if (evaluation && config_of(t)->use_coco_metrics && !((retinanet_task *)t)->coco)
        TL_TRY(make_evaluator((retinanet_task *)t));
    return tl_detection_inputs(out, &(tl_detection_inputs_args){.data = d,
                                                                .size = m->input_size,
                                                                .max_level = m->max_level,
                                                                .num_classes = m->num_classes,
                                                                .attribute_sizes = sizes,
                                                                .input = *input,
                                                                .evaluation = evaluation,
                                                                .arena = t->arena});
}

static void split_batch(const tl_task *t, const tl_batch *b, tl_batch_parts *out)
{
    (void)t;
    for (int64_t i = 0; i < b->tensors.count; i++) {
        const tl_named *f = &b->tensors.items[i];
        tl_tensors_put(b->ctx, strcmp(f->name, "image") == 0 ? &out->features : &out->labels,
                       f->name, f->tensor);
    }
    out->weight = NULL; // what fills up a batch is left out by its anchors' weights
}

/* --- losses ----------------------------------------------------------------------------------- */

/* Examples that only fill up a batch count nothing. */
static tl_tensor *of_images(tl_ctx *c, tl_tensor *weights, const tl_tensors *labels)
{
    tl_tensor *weight = tl_tensors_peek(labels, TL_BATCH_WEIGHT);
    if (!weight || !weights) return weights;
    return tl_mul(c, weights, tl_expand_dims(c, tl_cast(c, weight, TL_F32), 1));
}

/* The thresholds of the data that the step is fed with. */
static const tl_detection_parser *parser_of(const tl_task *t, const tl_tensors *labels)
{
    const bool evaluation = tl_tensors_peek(labels, "groundtruth/source_id") != NULL;
    const tl_data_config *data =
        evaluation || !t->config->train_data ? t->config->validation_data : t->config->train_data;
    return &((const tl_detection_data_config *)data)->parser;
}

static tl_tensor *packed(tl_ctx *c, const tl_retinanet_config *m, const tl_tensors *outputs,
                         const char *what, const char *attribute, int64_t width)
{
    tl_tensor *maps[TLI_LEVELS];
    tli_retinanet_maps(c, m, outputs, what, attribute, maps);
    if (tl_ctx_failed(c)) return NULL;
    return tl_anchors_pack(c, maps, (int)(m->max_level - m->min_level + 1), width);
}

static tl_tensor *attribute_loss(tl_ctx *c, const tl_task *t, const tl_attribute_head *head,
                                 const tl_retinanet_loss_args *args, const tl_matches *matches,
                                 const tl_tensors *labels, const tl_tensors *outputs)
{
    const tl_retinanet_losses *k = &config_of(t)->losses;
    const char *name = tl_arena_printf(tl_ctx_arena(c), "attribute/%s", head->name);
    tl_tensor *given = name ? tl_tensors_get(c, labels, name) : NULL;
    tl_tensor *answers =
        packed(c, model_of(t), outputs, "attribute_outputs", head->name, head->size);
    if (!given || !answers) return NULL;
    tl_tensor *targets = tl_match_take(c, matches, given, 0);
    tl_retinanet_loss_args of = *args;
    if (head->type == TL_ATTRIBUTE_REGRESSION) {
        of.box_targets = targets;
        return tl_retinanet_box_loss(c, &of, answers, 1);
    }
    of.cls_targets = tl_take(c, targets, -1, 0);
    of.cls_weights = args->box_weights;
    return tl_retinanet_class_loss(c, &of, answers, k->focal_loss_alpha, k->focal_loss_gamma);
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    retinanet_task *r = (retinanet_task *)t;
    const tl_retinanet_config *m = model_of(t);
    const tl_retinanet_losses *k = &config_of(t)->losses;
    const tl_detection_parser *parser = parser_of(t, labels);
    const tl_anchor_grid grid = tl_retinanet_grid(m);
    tl_tensor *boxes = tl_tensors_get(c, labels, "boxes");
    tl_tensor *classes = tl_tensors_get(c, labels, "classes");
    tl_tensor *anchors = tl_anchors(c, &m->anchor, &grid);
    if (tl_ctx_failed(c)) return NULL;
    bool taping = tl_ctx_set_taping(c, false);
    const tl_anchor_labels l =
        tl_label_anchors(c, anchors, boxes, classes, .match_threshold = parser->match_threshold,
                         .unmatched_threshold = parser->unmatched_threshold,
                         .box_coder_weights = m->detection_generator.box_coder_weights);
    const tl_retinanet_loss_args args = {l.cls_targets, l.box_targets,
                                         of_images(c, l.cls_weights, labels),
                                         of_images(c, l.box_weights, labels)};
    tl_ctx_set_taping(c, taping);
    r->cls_loss = tl_retinanet_class_loss(
        c, &args, packed(c, m, outputs, "cls_outputs", NULL, m->num_classes), k->focal_loss_alpha,
        k->focal_loss_gamma);
    r->box_loss = tl_retinanet_box_loss(c, &args, packed(c, m, outputs, "box_outputs", NULL, 4),
                                        k->huber_loss_delta);
    tl_tensor *total = tl_add(c, r->cls_loss, tl_scale(c, r->box_loss, (double)k->box_loss_weight));
    const tl_attribute_head *heads = m->head.attribute_heads.items;
    for (int64_t i = 0; i < m->head.attribute_heads.count; i++)
        total =
            tl_add(c, total, attribute_loss(c, t, &heads[i], &args, &l.matches, labels, outputs));
    r->model_loss = total;
    if (aux && total) total = tl_add(c, total, tl_cast(c, aux, total->dtype));
    r->total_loss = k->loss_weight == 1 ? total : tl_scale(c, total, k->loss_weight);
    return r->total_loss;
}

/* --- metrics ---------------------------------------------------------------------------------- */

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    static const char *const names[] = {"total_loss", "cls_loss", "box_loss", "model_loss"};
    (void)t;
    (void)training;
    for (int i = 0; i < TL_COUNT(names); i++)
        TL_TRY(tl_metrics_add(NULL, into, &tl_metric_mean, NULL, names[i]));
    return TL_OK;
}

static void note_value(tl_step *s, const char *name, tl_tensor *value)
{
    tl_metric *m = tl_metrics_find(s->metrics, name);
    if (m && value) tl_metric_update_value(m, s->ctx, value, NULL);
}

static void process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs)
{
    const retinanet_task *r = (const retinanet_task *)t;
    (void)labels;
    (void)outputs;
    if (!s->metrics) return;
    bool taping = tl_ctx_set_taping(s->ctx, false);
    note_value(s, "total_loss", r->total_loss);
    note_value(s, "cls_loss", r->cls_loss);
    note_value(s, "box_loss", r->box_loss);
    note_value(s, "model_loss", r->model_loss);
    tl_ctx_set_taping(s->ctx, taping);
}

/* --- evaluation ------------------------------------------------------------------------------- */

/* What the evaluator is given of a step: by these names. */
static const char *const truth_names[] = {"source_id", "height",  "width", "num_detections",
                                          "boxes",     "classes", "areas", "is_crowds"};
static const char *const found_names[] = {"detection_boxes", "detection_scores",
                                          "detection_classes", "num_detections", "image_info"};

static void log_as(tl_step *s, const char *prefix, const char *name, tl_tensor *t)
{
    const char *path = tl_arena_printf(tl_ctx_arena(s->ctx), "%s/%s", prefix, name);
    if (path && t) tl_step_log(s, path, t);
    else tl_ctx_fail(s->ctx);
}

static void log_detections(tl_task *t, tl_step *s, const tl_tensors *labels,
                           const tl_tensors *outputs)
{
    tl_ctx *c = s->ctx;
    tl_tensor *info = tl_tensors_get(c, labels, "image_info");
    tl_tensor *weight = tl_tensors_peek(labels, TL_BATCH_WEIGHT);
    if (!info) return;
    const tl_detections d =
        tl_retinanet_detect(c, model_of(t), outputs, tl_take(c, info, 1, 1), NULL);
    tl_tensor *found[] = {d.detection_boxes, d.detection_scores, d.detection_classes,
                          d.num_detections, info};
    for (int i = 0; i < TL_COUNT(found_names); i++) log_as(s, "found", found_names[i], found[i]);
    for (int i = 0; i < TL_COUNT(truth_names); i++) {
        char name[64];
        snprintf(name, sizeof name, "groundtruth/%s", truth_names[i]);
        log_as(s, "groundtruth", truth_names[i], tl_tensors_get(c, labels, name));
    }
    if (weight) tl_step_log(s, TL_BATCH_WEIGHT, weight);
    if (t->config->allow_image_summary)
        tl_step_log(s, "image", tl_tensors_get(c, &tl_step_parts(s)->features, "image"));
}

static tl_status validation_step(tl_task *t, tl_step *s)
{
    TL_TRY(tl_ctx_status(s->ctx));
    tl_tensors labels = tl_step_parts(s)->labels, outputs = {0};
    TL_TRY(tl_ctx_status(s->ctx));
    TL_TRY(tl_task_inference_step(t, s, &outputs));
    tl_tensor *loss = tl_task_build_losses(t, s->ctx, &labels, &outputs, tl_step_aux_losses(s));
    tl_step_report(s, loss, NULL);
    tl_task_process_metrics(t, s, &labels, &outputs);
    if (tells_detections(t) && !tl_ctx_failed(s->ctx)) log_detections(t, s, &labels, &outputs);
    return tl_ctx_status(s->ctx);
}

/* Of the tensors that a step has told, those under these names. */
static tl_status collect(tl_named *out, int64_t *count, const tl_logs *step, const char *prefix,
                         const char *const *names, int64_t name_count)
{
    tl_logs_entry entry;
    for (int64_t i = 0; i < name_count; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", prefix, names[i]);
        if (!tl_logs_find(&entry, step, path))
            return TL_FAIL(TL_ENOTFOUND, "the validation step told no '%s'", path);
        out[(*count)++] = (tl_named){names[i], (tl_tensor *)entry.tensor};
    }
    if (tl_logs_find(&entry, step, TL_BATCH_WEIGHT))
        out[(*count)++] = (tl_named){"weight", (tl_tensor *)entry.tensor};
    return TL_OK;
}

/* Names by number: 0 is the background. */
static tl_status names_of(tl_strings *out, const tl_task *t)
{
    const tl_strings given = config_of(t)->class_names;
    *out = (tl_strings){0};
    if (!given.count) return TL_OK;
    const char **names = tl_arena_array(t->arena, given.count + 1, sizeof *names);
    if (!names) return TL_ENOMEM;
    names[0] = "background";
    for (int64_t i = 0; i < given.count; i++) names[i + 1] = given.items[i];
    *out = (tl_strings){names, given.count + 1};
    return TL_OK;
}

/* The first batch is drawn: evaluations can be compared with each other then. */
static tl_status draw(retinanet_task *r, const tl_logs *step)
{
    const tl_task *t = &r->base;
    const tl_detection_data_config *data =
        (const tl_detection_data_config *)t->config->validation_data;
    tl_draw_batch_args args = {.pictures = TLI_MOST_PICTURES};
    tl_logs_entry image, boxes, classes, scores;
    tl_tensor_free(&r->pictures);
    if (!tl_logs_find(&image, step, "image") || !tl_logs_find(&boxes, step, "found/detection_boxes")
        || !tl_logs_find(&classes, step, "found/detection_classes")
        || !tl_logs_find(&scores, step, "found/detection_scores"))
        return TL_OK;
    if (data) TL_TRY(tli_three_floats(&args.mean, t->arena, data->mean));
    if (data) TL_TRY(tli_three_floats(&args.deviation, t->arena, data->stddev));
    TL_TRY(names_of(&args.names, t));
    return tl_draw_detections(&r->pictures, image.tensor, boxes.tensor, classes.tensor,
                              scores.tensor, &args);
}

static tl_status add_to_evaluator(retinanet_task *r, const tl_logs *step)
{
    tl_named truth[TL_COUNT(truth_names) + 1], found[TL_COUNT(found_names) + 2];
    int64_t truths = 0, founds = 0;
    TL_TRY(collect(truth, &truths, step, "groundtruth", truth_names, TL_COUNT(truth_names)));
    TL_TRY(collect(found, &founds, step, "found", found_names, TL_COUNT(found_names)));
    found[founds++] = truth[0]; // source_id
    return tl_evaluator_update(r->coco, &(tl_tensors){truth, truths, truths},
                               &(tl_tensors){found, founds, founds});
}

static tl_status aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    retinanet_task *r = (retinanet_task *)t;
    const bool first = !*state, evaluates = config_of(t)->use_coco_metrics;
    if (!tells_detections(t)) return TL_OK;
    *state = r;
    if (first && t->config->allow_image_summary) TL_TRY(draw(r, step));
    if (!evaluates) return TL_OK;
    if (!r->coco) TL_TRY(make_evaluator(r));
    if (first) tl_evaluator_reset(r->coco);
    return add_to_evaluator(r, step);
}

static tl_status write_objects(tl_task *t, const char *path)
{
    retinanet_task *r = (retinanet_task *)t;
    if (!config_of(t)->use_coco_metrics)
        return TL_FAIL(TL_EINVAL, "task.use_coco_metrics is false: without it nothing that is "
                                  "found is kept");
    r->detections = tl_arena_strdup(t->arena, path);
    return r->detections ? TL_OK : TL_ENOMEM;
}

static tl_status tell_coco(retinanet_task *r, tl_logs *into)
{
    const tl_coco_evaluator *e = (const tl_coco_evaluator *)r->coco;
    if (r->detections) TL_TRY(tl_coco_write_results(r->detections, e->found, false));
    return tl_evaluator_tell(r->coco, into);
}

static tl_status reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    retinanet_task *r = state;
    (void)global_step;
    if (r->pictures) TL_TRY(tl_draw_log(into, "image/validation_outputs", r->pictures));
    return config_of(t)->use_coco_metrics ? tell_coco(r, into) : TL_OK;
}

/* The evaluator stays for the next one: a file of annotations is read once. */
static void release_aggregated(tl_task *t, void *state)
{
    (void)state;
    tl_tensor_free(&((retinanet_task *)t)->pictures);
}

/* --- predictions ------------------------------------------------------------------------------ */

static tl_status prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    const tl_data_config *given;
    const tl_retinanet_config *m = model_of(t);
    float info[8];
    TL_TRY(tli_query_data(&given, t));
    const tl_detection_data_config *data = (const tl_detection_data_config *)given;
    if (q->shape.rank)
        return tl_detection_prepare_pixels(inputs[0], info, data, m->input_size, m->max_level,
                                           q->shape, q->data);
    return tl_detection_prepare(inputs[0], info, data, m->input_size, m->max_level, q->data,
                                q->size, q->of_data);
}

/* Six numbers for each object; their places are those of the model's input. */
static tl_tensor *build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    if (require_detections(t) != TL_OK) return tl_ctx_fail(c);
    const tl_detections d = tl_retinanet_detect(c, model_of(t), outputs, NULL, NULL);
    if (tl_ctx_failed(c)) return NULL;
    tl_tensor *parts[] = {tl_expand_dims(c, d.detection_scores, 2),
                          tl_expand_dims(c, tl_cast(c, d.detection_classes, TL_F32), 2),
                          d.detection_boxes};
    tl_tensor *all = tl_concat(c, parts, TL_COUNT(parts), 2);
    return all ? tl_reshape(c, all, TL_SHAPE(all->shape.dims[0], -1)) : NULL;
}

static void answer_form(const tl_task *t, tl_answer_form *out)
{
    *out = (tl_answer_form){.objects = model_of(t)->detection_generator.nms.max_num_detections,
                            .names = config_of(t)->class_names};
}

/* To pixels of the picture. */
static tl_status settle_answer(const tl_task *t, const tl_query *q, tl_settling *answer)
{
    const tl_data_config *data;
    const tl_retinanet_config *m = model_of(t);
    int64_t size[2];
    float info[8];
    TL_TRY(tli_query_data(&data, t));
    TL_TRY(tli_query_size(size, q));
    TL_TRY(tl_detection_image_info(info, (const tl_detection_data_config *)data, m->input_size,
                                   m->max_level, size[0], size[1]));
    for (int64_t k = 0; k + TL_OBJECT_NUMBERS <= answer->shape.dims[0]; k += TL_OBJECT_NUMBERS)
        for (int i = 0; i < 4; i++) {
            float *v = answer->values + k + TL_OBJECT_BOX + i;
            const float at = *v / info[4 + i % 2], end = (float)size[i % 2];
            *v = at > 0 ? (at < end ? at : end) : 0;
        }
    return TL_OK;
}

/* --- weights of others ------------------------------------------------------------------------ */

static tl_status initialize(tl_task *t, tl_model *m)
{
    return tli_modules_initialize(t, m, config_of(t)->init_checkpoint_modules);
}

static tl_status original_names(tl_task *t, tl_original_names *into)
{
    if (!model_of(t)) return TL_FAIL(TL_EINVAL, "task.model is null");
    return tli_retinanet_names(model_of(t), t->arena, t->registry, into);
}

/* --- what is configured ----------------------------------------------------------------------- */

static const tl_field loss_fields[] = {
    TL_F(tl_retinanet_losses, loss_weight, .d = 1, TL_AT_LEAST(0), .help = "of all of it"),
    TL_F(tl_retinanet_losses, focal_loss_alpha, .d = 0.25, TL_RANGE(0, 1),
         .help = "how much classes that are there count, against those that are not"),
    TL_F(tl_retinanet_losses, focal_loss_gamma, .d = 1.5, TL_AT_LEAST(0),
         .help = "how much less easy answers count"),
    TL_F(tl_retinanet_losses, huber_loss_delta, .d = 0.1, TL_AT_LEAST(0),
         .help = "beyond it differences of boxes count as they are, below it their squares"),
    TL_F(tl_retinanet_losses, box_loss_weight, .i = 50, TL_AT_LEAST(0),
         .help = "of boxes, against classes"),
    TL_F(tl_retinanet_losses, l2_weight_decay, TL_AT_LEAST(0),
         .help = "twice what squares of kernels cost"),
    TL_F_END,
};
static const tl_desc loss_desc = {
    .name = "retinanet_losses",
    .help = "what is made small",
    .size = sizeof(tl_retinanet_losses),
    .fields = loss_fields,
};

#define EXPORT_F(member)                                                                           \
    TL_F(tl_detection_export_config, member, .flags = TL_FIELD_UNREAD, .help = "of served models")
static const tl_field export_fields[] = {
    EXPORT_F(output_normalized_coordinates),
    EXPORT_F(cast_num_detections_to_float),
    EXPORT_F(cast_detection_classes_to_float),
    EXPORT_F(output_intermediate_features),
    TL_F_END,
};
static const tl_desc export_desc = {
    .name = "detection_export",
    .help = "of models that are served",
    .size = sizeof(tl_detection_export_config),
    .fields = export_fields,
};

#define TASK_F(member, ...) TL_F(tl_retinanet_task_config, member, __VA_ARGS__)
static const tl_field task_fields[] = {
    TL_F_AS(tl_retinanet_task_config, base.model, "model", .set = true,
            .desc = &tl_retinanet_config_desc, .help = "a backbone, a pyramid and heads"),
    TL_F_OPTIONAL_AS(tl_retinanet_task_config, base.train_data, "train_data",
                     &tl_detection_data_config_desc, .set = true, .init = tli_init_training,
                     .help = "pictures to train with"),
    TL_F_OPTIONAL_AS(tl_retinanet_task_config, base.validation_data, "validation_data",
                     &tl_detection_data_config_desc, .set = true, .init = tli_init_validation,
                     .help = "pictures to evaluate with"),
    TL_F_STRUCT(tl_retinanet_task_config, losses, &loss_desc, .help = "what is made small"),
    TASK_F(init_checkpoint_modules, .s = "all", .accept = TL_ACCEPT_STRING | TL_ACCEPT_LIST,
           .help = TLI_MODULES_HELP),
    TASK_F(annotation_file, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
           .help = "COCO's JSON file of validation_data; null: the ground truth of its records"),
    TASK_F(per_category_metrics, .help = "tell the numbers by category"),
    TASK_F(use_coco_metrics, .b = true, .help = "tell COCO's numbers"),
    TASK_F(use_wod_metrics, .flags = TL_FIELD_LATER, .help = "those of Waymo's data"),
    TASK_F(max_num_eval_detections, .i = 100, TL_RANGE(1, INT32_MAX),
           .help = "detections of an image and category that count"),
    TL_F_STRUCT(tl_retinanet_task_config, export_config, &export_desc,
                .help = "of models that are served"),
    TASK_F(freeze_backbone, .help = "train the pyramid and the heads alone"),
    TASK_F(class_names, .flags = TL_FIELD_QUIET,
           .help = "names of the classes from 1 on, for people"),
    TL_F_END,
};

static tl_status check_task(const void *value)
{
    return tli_modules_check(((const tl_retinanet_task_config *)value)->init_checkpoint_modules);
}

const tl_desc tl_retinanet_task_config_desc = {
    .name = "retinanet",
    .help = "boxes around objects, and what they are",
    .size = sizeof(tl_retinanet_task_config),
    .fields = task_fields,
    .base = &tl_task_config_desc,
    .check = check_task,
};

const tl_task_class tl_retinanet_task = {
    .cls = {.class_size = sizeof(tl_task_class),
            .name = "retinanet",
            .base = &tl_base_task.cls,
            .size = sizeof(retinanet_task),
            .config = &tl_retinanet_task_config_desc,
            .help = "boxes around objects, and what they are"},
    .dispose = dispose,
    .build_model = build_model,
    .build_inputs = build_inputs,
    .split_batch = split_batch,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
    .process_metrics = process_metrics,
    .validation_step = validation_step,
    .aggregate_logs = aggregate_logs,
    .reduce_aggregated_logs = reduce_aggregated_logs,
    .release_aggregated = release_aggregated,
    .initialize = initialize,
    .original_names = original_names,
    .prepare_query = prepare_query,
    .build_answers = build_answers,
    .answer_form = answer_form,
    .settle_answer = settle_answer,
    .write_objects = write_objects,
};
