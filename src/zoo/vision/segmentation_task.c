/* The task semantic_segmentation: Model Garden's, section by section. */
#include <stdio.h>
#include <string.h>

#include <tilth/data/draw.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/zoo/segmentation_inputs.h>

#include "zoo/vision/levels.h"
#include "zoo/vision/pixel_counts.h"
#include "zoo/vision/pixel_view.h"
#include "zoo/vision/segmentation.h"

typedef struct segmentation_task {
    tl_task base;
    tli_pixel_counts *counts; /* once there was an evaluation */
    tl_tensor *pictures;      /* of the evaluation under way: of its first batch */
} segmentation_task;

static const tl_segmentation_task_config *config_of(const tl_task *t)
{
    return (const tl_segmentation_task_config *)t->config;
}

static const tl_segmentation_config *model_of(const tl_task *t)
{
    return t->config->model.value;
}

static const tl_segmentation_data_config *validation_of(const tl_task *t)
{
    return (const tl_segmentation_data_config *)t->config->validation_data;
}

static void dispose(tl_task *t)
{
    tli_pixel_counts_free(&((segmentation_task *)t)->counts);
    tl_tensor_free(&((segmentation_task *)t)->pictures);
}

/* --- model and data --------------------------------------------------------------------------- */

/* What is written in input_size; where that is null or missing, what the data say. */
static tl_status image_size(const tl_task *t, int64_t size[3])
{
    const tl_value *given = model_of(t)->input_size;
    const tl_data_config *data =
        t->config->train_data ? t->config->train_data : t->config->validation_data;
    bool open = !given->count;
    for (int64_t i = 0; i < given->count; i++)
        if (!tl_value_int(given->items[i], &size[i])) open = true;
    if (!open) return TL_OK;
    if (!data)
        return TL_FAIL(TL_EINVAL, "task.model.input_size: there are no data that say how large "
                                  "images are: set [height, width, channels]");
    const tl_segmentation_data_config *d = (const tl_segmentation_data_config *)data;
    const tl_ints crop = d->crop_size;
    const bool cropped = data == t->config->train_data && crop.count == 2;
    if (cropped) {
        size[0] = crop.items[0];
        size[1] = crop.items[1];
        size[2] = d->image_feature.num_channels;
        for (int64_t i = 0; i < d->additional_dense_features.count; i++)
            size[2] +=
                ((const tl_dense_feature *)d->additional_dense_features.items)[i].num_channels;
        return TL_OK;
    }
    TL_TRY_NOTE(tl_segmentation_image_size(size, d), "task.%s",
                data == t->config->train_data ? "train_data" : "validation_data");
    return TL_OK;
}

static tl_status build_model(tl_task *t, tl_model **out)
{
    const tl_segmentation_task_config *k = config_of(t);
    const tl_data_config *data = t->config->train_data;
    if (!model_of(t)) return TL_FAIL(TL_EINVAL, "task.model is null: there is no model to build");
    tl_segmentation_args args = {.engine = t->engine,
                                 .config = model_of(t),
                                 .l2_weight_decay = k->losses.l2_weight_decay,
                                 .batch_size = data ? data->global_batch_size : 1,
                                 .seed = t->seed,
                                 .dtype = t->dtype,
                                 .registry = t->registry,
                                 .arena = t->arena};
    TL_TRY(image_size(t, args.size));
    TL_TRY_NOTE(tl_segmentation_new(out, &args), "task");
    return TL_OK;
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    const tl_segmentation_loss_config *k = &config_of(t)->losses.pixels;
    return tl_segmentation_inputs(
        out, &(tl_segmentation_inputs_args){.data = (const tl_segmentation_data_config *)data,
                                            .num_classes = model_of(t)->num_classes,
                                            .ignore_label = k->ignore_label,
                                            .gt_is_matting_map = k->gt_is_matting_map,
                                            .input = *input,
                                            .evaluation = data != t->config->train_data,
                                            .arena = t->arena});
}

/* Pixels of examples that only fill up a batch are ignored. */
static tl_tensor *counted(tl_ctx *c, const tl_task *t, tl_tensor *masks, tl_tensor *weight)
{
    if (!masks || !weight) return masks;
    const double ignored = (double)config_of(t)->losses.pixels.ignore_label;
    tl_tensor *counts = tl_greater(c, weight, tl_number(c, weight->dtype, 0));
    counts = tl_reshape(c, counts, TL_SHAPE(-1, 1, 1, 1));
    return tl_where(c, counts, masks, tl_number(c, masks->dtype, ignored));
}

static void split_batch(const tl_task *t, const tl_batch *b, tl_batch_parts *out)
{
    tl_tensor *weight = tl_batch_weight(b), *masks = tl_batch_get(b, "masks");
    tl_tensors_put(b->ctx, &out->features, "image", tl_batch_get(b, "image"));
    tl_tensors_put(b->ctx, &out->labels, "masks", counted(b->ctx, t, masks, weight));
    tl_tensors_put(b->ctx, &out->labels, "image_info", tl_batch_get(b, "image_info"));
    out->weight = NULL;
}

/* --- losses and metrics ----------------------------------------------------------------------- */

static tl_tensor *logits_of(tl_ctx *c, const tl_tensors *outputs)
{
    tl_tensor *logits = tl_tensors_get(c, outputs, "logits");
    return logits && logits->dtype != TL_F64 ? tl_cast(c, logits, TL_F32) : logits;
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    const tl_segmentation_losses *k = &config_of(t)->losses;
    tl_tensor *loss = tl_segmentation_loss(c, tl_tensors_get(c, labels, "masks"),
                                           logits_of(c, outputs), &k->pixels);
    if (aux && loss) loss = tl_add(c, loss, tl_cast(c, aux, loss->dtype));
    return k->loss_weight == 1 ? loss : tl_scale(c, loss, k->loss_weight);
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    if (!training || !config_of(t)->evaluation.report_train_mean_iou) return TL_OK;
    return tl_metrics_add(NULL, into, &tl_metric_mean_iou,
                          &(tl_confusion_config){.num_classes = model_of(t)->num_classes},
                          "mean_iou");
}

/* Classes of pixels, and which of them count. */
static void process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs)
{
    const tl_segmentation_loss_config *k = &config_of(t)->losses.pixels;
    tl_ctx *c = s->ctx;
    tl_metric *iou = s->metrics ? tl_metrics_find(s->metrics, "mean_iou") : NULL;
    if (!iou) return;
    bool taping = tl_ctx_set_taping(c, false);
    tl_tensor *masks = tl_tensors_get(c, labels, "masks"), *logits = logits_of(c, outputs);
    if (masks && logits) {
        masks = tl_squeeze(c, masks, TL_AXES(3));
        logits =
            tl_resize(c, logits, masks->shape.dims[1], masks->shape.dims[2], .method = TL_BILINEAR);
        tl_tensor *whole = tl_cast(c, masks, TL_I32), *zero = tl_number(c, TL_I32, 0);
        tl_tensor *valid = tl_not_equal(c, whole, tl_number(c, TL_I32, (double)k->ignore_label));
        if (k->gt_is_matting_map)
            whole = tl_cast(c, tl_greater(c, masks, tl_number(c, masks->dtype, 0.5)), TL_I32);
        tl_metric_update(iou, c, tl_where(c, valid, whole, zero), tl_argmax(c, logits, -1, false),
                         tl_cast(c, valid, TL_F32));
    }
    tl_ctx_set_taping(c, taping);
}

/* --- evaluation ------------------------------------------------------------------------------- */

/* Masks in the size of the pictures as they were have no loss. */
static bool rescales(const tl_task *t)
{
    return validation_of(t) && !validation_of(t)->resize_eval_groundtruth;
}

static tl_status validation_step(tl_task *t, tl_step *s)
{
    tl_ctx *c = s->ctx;
    TL_TRY(tl_ctx_status(c));
    tl_tensors labels = tl_step_parts(s)->labels, outputs = {0};
    TL_TRY(tl_ctx_status(c));
    TL_TRY(tl_task_inference_step(t, s, &outputs));
    tl_tensor *aux = tl_step_aux_losses(s);
    tl_step_report(s,
                   rescales(t) ? tl_number(c, TL_F32, 0)
                               : tl_task_build_losses(t, c, &labels, &outputs, aux),
                   NULL);
    tl_step_log(s, "logits", logits_of(c, &outputs));
    tl_step_log(s, "masks", tl_tensors_get(c, &labels, "masks"));
    tl_step_log(s, "image_info", tl_tensors_get(c, &labels, "image_info"));
    if (t->config->allow_image_summary)
        tl_step_log(s, "image", tl_tensors_get(c, &tl_step_parts(s)->features, "image"));
    return tl_ctx_status(c);
}

/* The first batch is drawn: evaluations can be compared with each other then. Pictures with more
 * channels than three are not. */
static tl_status draw(segmentation_task *s, const tl_logs *step)
{
    const tl_task *t = &s->base;
    const tl_segmentation_data_config *data = validation_of(t);
    tl_draw_batch_args args = {.pictures = TLI_MOST_PICTURES};
    tl_logs_entry image, logits;
    tl_tensor_free(&s->pictures);
    if (!tl_logs_find(&image, step, "image") || !tl_logs_find(&logits, step, "logits"))
        return TL_OK;
    if (image.tensor->shape.dims[3] != 3) return TL_OK;
    if (data) TL_TRY(tli_three_floats(&args.mean, t->arena, data->image_feature.mean));
    if (data) TL_TRY(tli_three_floats(&args.deviation, t->arena, data->image_feature.stddev));
    return tl_draw_segmentation(&s->pictures, image.tensor, logits.tensor, &args);
}

static tl_status aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    segmentation_task *s = (segmentation_task *)t;
    const tl_segmentation_loss_config *k = &config_of(t)->losses.pixels;
    tl_logs_entry logits, masks, info;
    if (!s->counts) TL_TRY(tli_pixel_counts_new(&s->counts, model_of(t)->num_classes));
    if (!*state) { // the first batch of an evaluation
        tli_pixel_counts_reset(s->counts);
        if (t->config->allow_image_summary) TL_TRY(draw(s, step));
    }
    *state = s;
    if (!tl_logs_find(&logits, step, "logits") || !tl_logs_find(&masks, step, "masks")
        || !tl_logs_find(&info, step, "image_info"))
        return TL_FAIL(TL_ENOTFOUND, "the validation step told no logits, masks or image_info");
    TL_TRY_NOTE(tli_pixel_counts_add(s->counts,
                                     &(tli_pixel_batch){.logits = logits.tensor,
                                                        .masks = masks.tensor,
                                                        .image_info = info.tensor,
                                                        .ignore_label = k->ignore_label,
                                                        .gt_is_matting_map = k->gt_is_matting_map,
                                                        .rescale = rescales(t)}),
                "task.validation_data");
    return TL_OK;
}

static tl_status reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    const int64_t classes = model_of(t)->num_classes;
    const tl_strings names = config_of(t)->class_names;
    double *iou = tl_arena_array(t->arena, classes, sizeof *iou), sum = 0;
    (void)global_step;
    if (!iou) return TL_ENOMEM;
    const segmentation_task *s = state;
    if (s->pictures) TL_TRY(tl_draw_log(into, "image/validation_outputs", s->pictures));
    tli_pixel_counts_iou(s->counts, iou);
    for (int64_t i = 0; i < classes; i++) {
        char name[160];
        sum += iou[i];
        if (!config_of(t)->evaluation.report_per_class_iou) continue;
        if (names.count == classes) snprintf(name, sizeof name, "iou/%s", names.items[i]);
        else snprintf(name, sizeof name, "iou/%lld", (long long)i);
        TL_TRY(tl_logs_put(into, name, iou[i]));
    }
    return tl_logs_put(into, "mean_iou", sum / (double)classes);
}

/* The counts stay for the next one. */
static void release_aggregated(tl_task *t, void *state)
{
    (void)state;
    tl_tensor_free(&((segmentation_task *)t)->pictures);
}

/* --- predictions ------------------------------------------------------------------------------ */

/* As evaluations see them. */
static tl_status view_of(const tl_task *t, const tl_segmentation_data_config **data)
{
    const tl_data_config *given;
    TL_TRY(tli_query_data(&given, t));
    *data = (const tl_segmentation_data_config *)given;
    return TL_OK;
}

/* Training may see parts of pictures, and evaluations the whole. */
static tl_status query_inputs(const tl_task *t, tl_spec *inputs, int64_t count)
{
    const tl_segmentation_data_config *data;
    int64_t size[3], *dims = inputs[0].shape.dims;
    (void)count;
    TL_TRY(view_of(t, &data));
    TL_TRY(tl_segmentation_image_size(size, data));
    if (dims[3] != size[2])
        return TL_FAIL(TL_EINVAL,
                       "the model looks at %lld channels, and the data that say how pictures are "
                       "made ready have %lld",
                       (long long)dims[3], (long long)size[2]);
    dims[1] = size[0];
    dims[2] = size[1];
    return TL_OK;
}

static tl_status prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    const tl_segmentation_data_config *data;
    float info[8];
    TL_TRY(view_of(t, &data));
    if (q->shape.rank)
        return tl_segmentation_prepare_pixels(inputs[0], info, data, q->shape, q->data);
    return tl_segmentation_prepare(inputs[0], info, data, q->data, q->size, q->of_data);
}

/* The logits as they are: of how many pixels is known when a picture is. */
static tl_tensor *build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    (void)t;
    return tl_cast(c, tl_tensors_get(c, outputs, "logits"), TL_F32);
}

static void answer_form(const tl_task *t, tl_answer_form *out)
{
    *out = (tl_answer_form){.pixels = model_of(t)->num_classes, .names = config_of(t)->class_names};
}

static tl_status map_classes(const tli_pixel_view *v, int64_t height, int64_t width,
                             tl_settling *answer)
{
    uint8_t *pixels = tl_arena_array(answer->arena, height, (size_t)width);
    float *line = tl_arena_array(answer->arena, v->columns * v->classes, sizeof *line);
    if (!pixels || !line) return TL_ENOMEM;
    for (int64_t y = 0; y < height; y++) {
        tli_pixel_line(line, v, y);
        for (int64_t x = 0; x < width; x++)
            pixels[y * width + x] = (uint8_t)tli_pixel_class(v, line, x);
    }
    answer->pixels = pixels;
    answer->height = height;
    answer->width = width;
    return TL_OK;
}

/* Of each pixel of the picture. */
static tl_status settle_answer(const tl_task *t, const tl_query *q, tl_settling *answer)
{
    const tl_segmentation_data_config *data;
    tl_segmentation_way_back back;
    int64_t size[2];
    TL_TRY(view_of(t, &data));
    TL_TRY(tli_query_size(size, q));
    TL_TRY(tl_segmentation_look_back(&back, data, size[0], size[1]));
    const tli_pixel_view v = {.logits = answer->values,
                              .rows = answer->shape.dims[0],
                              .columns = answer->shape.dims[1],
                              .classes = answer->shape.dims[2],
                              .height = back.height,
                              .width = back.width,
                              .top = back.top,
                              .left = back.left};
    return map_classes(&v, size[0], size[1], answer);
}

/* --- weights of others ------------------------------------------------------------------------ */

static tl_status initialize(tl_task *t, tl_model *m)
{
    return tli_modules_initialize(t, m, config_of(t)->init_checkpoint_modules);
}

static tl_status original_names(tl_task *t, tl_original_names *into)
{
    if (!model_of(t)) return TL_FAIL(TL_EINVAL, "task.model is null");
    return tli_segmentation_names(model_of(t), t->arena, t->registry, into);
}

/* --- what is configured ----------------------------------------------------------------------- */

#define PIXELS_F(member, ...) TL_F_AS(tl_segmentation_losses, pixels.member, #member, __VA_ARGS__)
static const tl_field loss_fields[] = {
    TL_F(tl_segmentation_losses, loss_weight, .d = 1, TL_AT_LEAST(0), .help = "of all of it"),
    PIXELS_F(label_smoothing, TL_RANGE(0, 1),
             .help = "share of each target that is spread over all classes"),
    PIXELS_F(ignore_label, .i = 255, .help = "pixels with it do not count"),
    PIXELS_F(gt_is_matting_map, .help = "masks are shares of the second of two classes"),
    PIXELS_F(class_weights, TL_AT_LEAST(0), .help = "of each class; none: all 1"),
    TL_F(tl_segmentation_losses, l2_weight_decay, TL_AT_LEAST(0),
         .help = "twice what squares of kernels cost"),
    PIXELS_F(use_groundtruth_dimension, .b = true,
             .help = "logits are brought to the size of masks, else the reverse"),
    PIXELS_F(use_binary_cross_entropy, .help = "each class is a question of its own"),
    PIXELS_F(top_k_percent_pixels, .d = 1, TL_RANGE(0, 1),
             .help = "share of the pixels that counts: those with the largest losses"),
    TL_F(tl_segmentation_losses, mask_scoring_weight, .d = 1, TL_AT_LEAST(0),
         .flags = TL_FIELD_LATER, .help = "of the mask scoring head"),
    TL_F_END,
};
static const tl_desc loss_desc = {
    .name = "segmentation_losses",
    .help = "what is made small",
    .size = sizeof(tl_segmentation_losses),
    .fields = loss_fields,
};

static const tl_field evaluation_fields[] = {
    TL_F(tl_segmentation_evaluation, report_per_class_iou, .b = true,
         .help = "tell intersection over union of each class"),
    TL_F(tl_segmentation_evaluation, report_train_mean_iou, .b = true,
         .help = "tell their mean in training too"),
    TL_F_END,
};
static const tl_desc evaluation_desc = {
    .name = "segmentation_evaluation",
    .help = "what evaluations tell",
    .size = sizeof(tl_segmentation_evaluation),
    .fields = evaluation_fields,
};

static const tl_field export_fields[] = {
    TL_F(tl_segmentation_export_config, rescale_output, .flags = TL_FIELD_UNREAD,
         .help = "of served models"),
    TL_F_END,
};
static const tl_desc export_desc = {
    .name = "segmentation_export",
    .help = "of models that are served",
    .size = sizeof(tl_segmentation_export_config),
    .fields = export_fields,
};

static void init_task(void *value)
{
    ((tl_task_config *)value)->allow_image_summary = true;
}

static tl_status check_task(const void *value)
{
    const tl_segmentation_task_config *k = value;
    const tl_segmentation_config *m = k->base.model.value;
    const long long classes = m ? (long long)m->num_classes : 0;
    const long long weights = (long long)k->losses.pixels.class_weights.count;
    if (classes && weights && weights != classes)
        return TL_FAIL(TL_EINVAL, "losses.class_weights: there are %lld numbers for %lld classes",
                       weights, classes);
    if (classes && k->losses.pixels.gt_is_matting_map && classes != 2)
        return TL_FAIL(TL_EINVAL,
                       "losses.gt_is_matting_map: masks are shares of two classes, and "
                       "model.num_classes is %lld",
                       classes);
    return tli_modules_check(k->init_checkpoint_modules);
}

#define TASK_F(member, ...) TL_F(tl_segmentation_task_config, member, __VA_ARGS__)
static const tl_field task_fields[] = {
    TL_F_AS(tl_segmentation_task_config, base.model, "model", .set = true,
            .desc = &tl_segmentation_config_desc, .help = "a backbone, a decoder and a head"),
    TL_F_OPTIONAL_AS(tl_segmentation_task_config, base.train_data, "train_data",
                     &tl_segmentation_data_config_desc, .set = true, .init = tli_init_training,
                     .help = "pictures to train with"),
    TL_F_OPTIONAL_AS(tl_segmentation_task_config, base.validation_data, "validation_data",
                     &tl_segmentation_data_config_desc, .set = true, .init = tli_init_validation,
                     .help = "pictures to evaluate with"),
    TL_F_STRUCT(tl_segmentation_task_config, losses, &loss_desc, .help = "what is made small"),
    TL_F_STRUCT(tl_segmentation_task_config, evaluation, &evaluation_desc,
                .help = "what evaluations tell"),
    TASK_F(train_input_partition_dims, .flags = TL_FIELD_LATER, .help = "of images, over devices"),
    TASK_F(eval_input_partition_dims, .flags = TL_FIELD_LATER, .help = "of images, over devices"),
    TASK_F(init_checkpoint_modules, .s = "all", .accept = TL_ACCEPT_STRING | TL_ACCEPT_LIST,
           .help = TLI_MODULES_HELP),
    TL_F_STRUCT(tl_segmentation_task_config, export_config, &export_desc,
                .help = "of models that are served"),
    TASK_F(class_names, .flags = TL_FIELD_QUIET, .help = "names of the classes, for people"),
    TL_F_END,
};
const tl_desc tl_segmentation_task_config_desc = {
    .name = "semantic_segmentation",
    .help = "a class for each pixel",
    .size = sizeof(tl_segmentation_task_config),
    .fields = task_fields,
    .base = &tl_task_config_desc,
    .init = init_task,
    .check = check_task,
};

const tl_task_class tl_segmentation_task = {
    .cls = {.class_size = sizeof(tl_task_class),
            .name = "semantic_segmentation",
            .base = &tl_base_task.cls,
            .size = sizeof(segmentation_task),
            .config = &tl_segmentation_task_config_desc,
            .help = "a class for each pixel"},
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
    .query_inputs = query_inputs,
};
