/* Confusion matrices, and what is computed from them. */
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "nn/metric_impl.h"
#include "nn/weight.h"

bool tli_check_width(tl_ctx *c, const tl_tensor *p, int64_t classes)
{
    if (tl_ctx_failed(c)) return false;
    if (p->shape.rank && p->shape.dims[p->shape.rank - 1] == classes) return true;
    char spec[TL_TENSOR_TEXT];
    (void)TL_FAIL(TL_EINVAL, "%s: with num_classes %lld the last axis of scores must be that long",
                  tl_tensor_spec(spec, p), (long long)classes);
    tl_ctx_fail(c);
    return false;
}

typedef struct confusion {
    tl_metric base;
    tl_tensor *matrix; /* [target, predicted] */
} confusion;

static tl_status build_matrix(tl_metric *m, int64_t classes)
{
    confusion *k = (confusion *)m;
    k->matrix = tl_metric_state(m, "total_confusion_matrix", TL_F64, TL_SHAPE(classes, classes));
    return k->matrix ? TL_OK : tl_error_code();
}

static tl_status confusion_build(tl_metric *m)
{
    return build_matrix(m, ((const tl_confusion_config *)m->config)->num_classes);
}

// Whether `x` is scores of the classes: it has them as one dimension more than the other.
static bool is_scores(const tl_tensor *x, const tl_tensor *other, int64_t classes)
{
    int rank = x->shape.rank, others = other->shape.rank;
    if (!rank || x->shape.dims[rank - 1] != classes) return false;
    if (rank == others + 1) return classes > 1;
    return rank == others && classes > 1 && other->shape.dims[others - 1] == 1;
}

// Class numbers of both, of one shape.
static bool class_numbers(tl_ctx *c, tl_tensor **y, tl_tensor **p,
                          const tl_confusion_config *config)
{
    if (tl_ctx_failed(c)) return false;
    int64_t classes = config->num_classes;
    bool y_scores = config->dense_y_true || is_scores(*y, *p, classes);
    bool p_scores = config->dense_y_pred || is_scores(*p, *y, classes);
    if (y_scores && tli_check_width(c, *y, classes)) *y = tl_argmax(c, *y, -1, false);
    if (p_scores && tli_check_width(c, *p, classes)) *p = tl_argmax(c, *p, -1, false);
    if (tl_ctx_failed(c)) return false;
    tli_match(c, y, p);
    *y = tl_cast(c, *y, TL_I64);
    *p = tl_cast(c, *p, TL_I64);
    return !tl_ctx_failed(c);
}

static tl_tensor *is_class(tl_ctx *c, tl_tensor *x, int64_t classes)
{
    return tl_logical_and(c, tl_greater_equal(c, x, tl_number(c, TL_I64, 0)),
                          tl_less(c, x, tl_number(c, TL_I64, (double)classes)));
}

// Class numbers of both, int64 and of one shape. `ignored` may be NULL.
static void count(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight,
                  const tl_opt_int *ignored)
{
    confusion *k = (confusion *)m;
    int64_t classes = k->matrix->shape.dims[0];
    tl_tensor *weights = tl_metric_weights(c, y, weight), *zero = tl_number(c, TL_F64, 0);
    if (ignored && ignored->set) {
        tl_tensor *out = tl_equal(c, y, tl_number(c, TL_I64, (double)ignored->value));
        weights = tl_where(c, out, zero, weights);
    }
    // An index below 0 is refused when it is looked at, and so are numbers that are no class.
    tl_ctx_enter(c, "class numbers must be below num_classes");
    tl_tensor *good = tl_logical_and(c, is_class(c, y, classes), is_class(c, p, classes));
    tl_tensor *cell = tl_add(c, tl_scale(c, y, (double)classes), p);
    cell = tl_where(c, good, cell, tl_number(c, TL_I64, -1));
    cell = tl_where(c, tl_equal(c, weights, zero), tl_number(c, TL_I64, 0), cell);
    if (cell) {
        tl_shape flat = TL_SHAPE(tl_tensor_count(cell));
        tl_tensor *cells = tl_gather_grad(c, tl_reshape(c, weights, flat),
                                          tl_reshape(c, cell, flat), 0, classes * classes);
        tl_metric_add(c, k->matrix, tl_reshape(c, cells, k->matrix->shape));
    }
    tl_ctx_leave(c);
}

static void confusion_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    const tl_confusion_config *config = m->config;
    if (class_numbers(c, &y, &p, config)) count(m, c, y, p, weight, &config->ignore_class);
}

static tl_tensor *confusion_result(tl_metric *m, tl_ctx *c)
{
    return tl_shift(c, ((confusion *)m)->matrix, 0);
}

static tl_status confusion_tell(tl_metric *m, tl_ctx *c, tl_logs *into)
{
    tl_tensor *matrix = ((confusion *)m)->matrix;
    tl_tensor *shares = tl_div_no_nan(c, matrix, tl_sum(c, matrix, TL_AXES(1), true));
    tl_tensor *image = tl_cast(c, tl_expand_dims(c, shares, -1), TL_F32);
    TL_TRY(tl_ctx_status(c));
    return tl_logs_put_image(into, m->name, image);
}

// Intersections and unions of each class.
static void overlaps(tl_metric *m, tl_ctx *c, tl_tensor **both, tl_tensor **either)
{
    tl_tensor *matrix = ((confusion *)m)->matrix;
    int64_t classes = matrix->shape.dims[0];
    tl_tensor *diagonal = tl_mul(c, matrix, tl_eye(c, TL_F64, classes, classes));
    *both = tl_sum(c, diagonal, TL_AXES(1), false);
    tl_tensor *rows = tl_sum(c, matrix, TL_AXES(1), false);
    tl_tensor *columns = tl_sum(c, matrix, TL_AXES(0), false);
    *either = tl_sub(c, tl_add(c, rows, columns), *both);
}

static tl_tensor *per_class_iou_result(tl_metric *m, tl_ctx *c)
{
    tl_tensor *both, *either;
    overlaps(m, c, &both, &either);
    return tl_div_no_nan(c, both, either);
}

// The mean over those of the classes that occur; no classes: over all.
static tl_tensor *mean_overlap(tl_metric *m, tl_ctx *c, tl_ints classes)
{
    tl_tensor *both, *either;
    overlaps(m, c, &both, &either);
    if (classes.count) {
        tl_tensor *which = tl_from(c, TL_I64, TL_SHAPE(classes.count), classes.items);
        both = tl_gather(c, both, which, 0);
        either = tl_gather(c, either, which, 0);
    }
    tl_tensor *there = tl_greater(c, either, tl_number(c, TL_F64, 0));
    tl_tensor *sum = tl_sum(c, tl_div_no_nan(c, both, either), TL_ALL, false);
    return tl_div_no_nan(c, sum, tl_sum(c, tl_cast(c, there, TL_F64), TL_ALL, false));
}

static tl_tensor *mean_iou_result(tl_metric *m, tl_ctx *c)
{
    return mean_overlap(m, c, (tl_ints){NULL, 0});
}

static const tl_field confusion_fields[] = {
    TL_F(tl_confusion_config, num_classes, TL_RANGE(1, 30000), .flags = TL_FIELD_REQUIRED,
         .help = "classes are numbered below it"),
    TL_F(tl_confusion_config, ignore_class, .help = "targets that do not count"),
    TL_F(tl_confusion_config, dense_y_true, .help = "targets are scores along the last axis"),
    TL_F(tl_confusion_config, dense_y_pred, .help = "predictions are scores along the last axis"),
    TL_F_END,
};
TLI_METRIC_DESC(confusion, tl_confusion_config, NULL, "counts of targets and predicted classes")
TLI_METRIC_CLASS(confusion_matrix, confusion, &confusion_desc,
                 "counts of targets and predicted classes", .build = confusion_build,
                 .update = confusion_update, .result = confusion_result, .tell = confusion_tell)
TLI_METRIC_CLASS(mean_iou, confusion, &confusion_desc,
                 "mean over classes of intersection over union", .build = confusion_build,
                 .update = confusion_update, .result = mean_iou_result)
TLI_METRIC_CLASS(per_class_iou, confusion, &confusion_desc, "intersection over union of each class",
                 .build = confusion_build, .update = confusion_update,
                 .result = per_class_iou_result)

/* --- of some classes -------------------------------------------------------------------------- */

static tl_status check_targets(tl_ints targets, int64_t classes)
{
    for (int64_t i = 0; i < targets.count; i++)
        if (targets.items[i] < 0 || targets.items[i] >= classes)
            return TL_FAIL(TL_EINVAL, "target_class_ids: %lld is no class: they are below %lld",
                           (long long)targets.items[i], (long long)classes);
    return TL_OK;
}

static tl_status check_some(tl_ints targets)
{
    if (targets.count) return TL_OK;
    return TL_FAIL(TL_EINVAL, "target_class_ids: it is empty; name the classes, or choose a mean "
                              "over all of them (mean_iou, one_hot_mean_iou)");
}

static tl_tensor *iou_result(tl_metric *m, tl_ctx *c)
{
    return mean_overlap(m, c, ((const tl_iou_config *)m->config)->target_class_ids);
}

static tl_status iou_check(const void *value)
{
    const tl_iou_config *config = value;
    TL_TRY(check_some(config->target_class_ids));
    return check_targets(config->target_class_ids, config->confusion.num_classes);
}

#define TARGETS_ROW(T, ...)                                                                        \
    TL_F(T, target_class_ids, TL_AT_LEAST(0), __VA_ARGS__, .help = "classes that count")
static const tl_field iou_fields[] = {
    TARGETS_ROW(tl_iou_config, .flags = TL_FIELD_REQUIRED),
    TL_F_END,
};
static const tl_desc iou_desc = {.name = "iou",
                                 .help = "mean over some classes of intersection over union",
                                 .size = sizeof(tl_iou_config),
                                 .fields = iou_fields,
                                 .base = &confusion_desc,
                                 .check = iou_check};
TLI_METRIC_CLASS(iou, confusion, &iou_desc, "mean over some classes of intersection over union",
                 .build = confusion_build, .update = confusion_update, .result = iou_result)

static tl_status binary_iou_build(tl_metric *m)
{
    return build_matrix(m, 2);
}

static void binary_iou_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p,
                              tl_tensor *weight)
{
    const tl_binary_iou_config *config = m->config;
    tli_match(c, &y, &p);
    p = tli_at_least_f32(c, p);
    if (!p) return;
    tl_tensor *yes = tl_greater_equal(c, p, tl_number(c, p->dtype, config->threshold.value));
    y = tl_cast(c, y, TL_I64);
    yes = tl_cast(c, yes, TL_I64);
    if (!tl_ctx_failed(c)) count(m, c, y, yes, weight, NULL);
}

static tl_tensor *binary_iou_result(tl_metric *m, tl_ctx *c)
{
    return mean_overlap(m, c, ((const tl_binary_iou_config *)m->config)->target_class_ids);
}

static tl_status binary_iou_check(const void *value)
{
    return check_targets(((const tl_binary_iou_config *)value)->target_class_ids, 2);
}

static const tl_field binary_iou_fields[] = {
    TL_F(tl_binary_iou_config, target_class_ids, TL_RANGE(0, 1),
         .help = "classes that count; none: both"),
    TL_F(tl_binary_iou_config, threshold, TL_FILLED, .d = 0.5,
         .help = "predictions are yes from it on"),
    TL_F_END,
};
TLI_METRIC_DESC(binary_iou, tl_binary_iou_config, binary_iou_check,
                "intersection over union of yes and no")
TLI_METRIC_CLASS(binary_iou, confusion, &binary_iou_desc, "intersection over union of yes and no",
                 .build = binary_iou_build, .update = binary_iou_update,
                 .result = binary_iou_result)

static tl_status one_hot_build(tl_metric *m)
{
    return build_matrix(m, ((const tl_one_hot_iou_config *)m->config)->num_classes);
}

static void one_hot_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    const tl_one_hot_iou_config *config = m->config;
    const tl_confusion_config as = {.num_classes = config->num_classes,
                                    .dense_y_true = true,
                                    .dense_y_pred = !config->sparse_y_pred};
    if (class_numbers(c, &y, &p, &as)) count(m, c, y, p, weight, &config->ignore_class);
}

static tl_tensor *one_hot_result(tl_metric *m, tl_ctx *c)
{
    return mean_overlap(m, c, ((const tl_one_hot_iou_config *)m->config)->target_class_ids);
}

static tl_status one_hot_check(const void *value)
{
    const tl_one_hot_iou_config *config = value;
    TL_TRY(check_some(config->target_class_ids));
    return check_targets(config->target_class_ids, config->num_classes);
}

static tl_status one_hot_mean_check(const void *value)
{
    const tl_one_hot_iou_config *config = value;
    if (!config->target_class_ids.count) return TL_OK;
    return TL_FAIL(TL_EINVAL, "target_class_ids: one_hot_mean_iou takes all classes; one_hot_iou "
                              "takes some");
}

static const tl_field one_hot_fields[] = {
    TL_F(tl_one_hot_iou_config, num_classes, TL_RANGE(1, 30000), .flags = TL_FIELD_REQUIRED,
         .help = "length of the last axis"),
    TARGETS_ROW(tl_one_hot_iou_config, .i = 0),
    TL_F(tl_one_hot_iou_config, ignore_class, .help = "targets that do not count"),
    TL_F(tl_one_hot_iou_config, sparse_y_pred, .help = "predictions are class numbers"),
    TL_F_END,
};
#define one_hot_mean_fields one_hot_fields
TLI_METRIC_DESC(one_hot, tl_one_hot_iou_config, one_hot_check,
                "mean over some classes of intersection over union, of scores")
TLI_METRIC_DESC(one_hot_mean, tl_one_hot_iou_config, one_hot_mean_check,
                "mean over classes of intersection over union, of scores")
TLI_METRIC_CLASS(one_hot_iou, confusion, &one_hot_desc,
                 "mean over some classes of intersection over union, of scores",
                 .build = one_hot_build, .update = one_hot_update, .result = one_hot_result)
TLI_METRIC_CLASS(one_hot_mean_iou, confusion, &one_hot_mean_desc,
                 "mean over classes of intersection over union, of scores", .build = one_hot_build,
                 .update = one_hot_update, .result = one_hot_result)
