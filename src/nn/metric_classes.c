#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include "nn/metric_impl.h"
#include "nn/weight.h"

static bool check_width(tl_ctx *c, const tl_tensor *p, int64_t classes)
{
    if (tl_ctx_failed(c)) return false;
    if (p->shape.rank && p->shape.dims[p->shape.rank - 1] == classes) return true;
    char spec[TL_TENSOR_TEXT];
    (void)TL_FAIL(TL_EINVAL, "%s: with num_classes %lld the last axis of scores must be that long",
                  tl_tensor_spec(spec, p), (long long)classes);
    tl_ctx_fail(c);
    return false;
}

/* --- F scores --------------------------------------------------------------------------------- */

typedef struct f_score {
    tl_metric base;
    tl_tensor *true_positives, *false_positives, *false_negatives; /* [classes] */
} f_score;

static tl_status f_score_build(tl_metric *m)
{
    f_score *f = (f_score *)m;
    tl_shape shape = TL_SHAPE(((const tl_f_score_config *)m->config)->num_classes);
    f->true_positives = tl_metric_state(m, "true_positives", TL_F64, shape);
    if (!f->true_positives) return tl_error_code();
    f->false_positives = tl_metric_state(m, "false_positives", TL_F64, shape);
    if (!f->false_positives) return tl_error_code();
    f->false_negatives = tl_metric_state(m, "false_negatives", TL_F64, shape);
    return f->false_negatives ? TL_OK : tl_error_code();
}

// The classes that are answered: bool. Predictions that are all 0 answer none.
static tl_tensor *answered(tl_ctx *c, tl_tensor *p, const tl_opt_double *threshold)
{
    p = tli_at_least_f32(c, p);
    if (!p) return NULL;
    if (threshold->set) return tl_greater(c, p, tl_number(c, p->dtype, threshold->value));
    tl_tensor *best = tl_greater_equal(c, p, tl_max(c, p, TL_AXES(-1), true));
    return tl_logical_and(c, best, tl_greater(c, tl_abs(c, p), tl_number(c, p->dtype, 1e-9)));
}

// Adds the weights where both hold, summed over examples.
static void add_by_class(tl_ctx *c, tl_tensor *state, tl_tensor *a, tl_tensor *b,
                         tl_tensor *weights)
{
    tl_tensor *chosen = tl_where(c, tl_logical_and(c, a, b), weights, tl_number(c, TL_F64, 0));
    int64_t classes = state->shape.dims[0];
    chosen = tl_reshape(c, chosen, TL_SHAPE(-1, classes));
    tl_metric_add(c, state, tl_sum(c, chosen, TL_AXES(0), false));
}

static void f_score_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    f_score *f = (f_score *)m;
    const tl_f_score_config *config = m->config;
    if (!check_width(c, p, config->num_classes)) return;
    tl_tensor *target = tl_shape_equal(&y->shape, &p->shape)
                            ? tl_cast(c, y, TL_BOOL)
                            : tl_one_hot(c, tli_labels(c, y, p), config->num_classes, TL_BOOL);
    tl_tensor *yes = answered(c, p, &config->threshold);
    tl_tensor *weights = tl_metric_weights(c, p, weight);
    add_by_class(c, f->true_positives, target, yes, weights);
    add_by_class(c, f->false_positives, tl_logical_not(c, target), yes, weights);
    add_by_class(c, f->false_negatives, target, tl_logical_not(c, yes), weights);
}

static tl_tensor *f_score_result(tl_metric *m, tl_ctx *c)
{
    f_score *f = (f_score *)m;
    const tl_f_score_config *config = m->config;
    tl_tensor *tp = f->true_positives, *fp = f->false_positives, *fn = f->false_negatives;
    if (config->average == TL_AVERAGE_MICRO) {
        tp = tl_sum(c, tp, TL_ALL, false);
        fp = tl_sum(c, fp, TL_ALL, false);
        fn = tl_sum(c, fn, TL_ALL, false);
    }
    // (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp), which is the mean of precision and recall.
    double square = config->beta * config->beta;
    tl_tensor *part = tl_scale(c, tp, 1 + square);
    tl_tensor *whole = tl_add(c, tl_add(c, part, tl_scale(c, fn, square)), fp);
    tl_tensor *scores = tl_div_no_nan(c, part, whole);
    if (config->average == TL_AVERAGE_MACRO) return tl_mean(c, scores, TL_ALL, false);
    if (config->average != TL_AVERAGE_WEIGHTED) return scores;
    tl_tensor *targets = tl_add(c, tp, fn);
    return tl_div_no_nan(c, tl_sum(c, tl_mul(c, scores, targets), TL_ALL, false),
                         tl_sum(c, targets, TL_ALL, false));
}

static tl_status f_score_check(const void *value)
{
    const tl_f_score_config *config = value;
    if (config->beta > 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "beta: it is %g and must be above 0", config->beta);
}

static tl_status f1_check(const void *value)
{
    const tl_f_score_config *config = value;
    if (config->beta == 1) return TL_OK;
    return TL_FAIL(TL_EINVAL, "beta: it is %g and must be 1 for f1_score; fbeta_score has others",
                   config->beta);
}

static const char *const average_names[] = {"none", "micro", "macro", "weighted", NULL};
static const tl_field f_score_fields[] = {
    TL_F(tl_f_score_config, num_classes, TL_AT_LEAST(1), .flags = TL_FIELD_REQUIRED,
         .help = "length of the last axis"),
    TL_F(tl_f_score_config, average, .names = average_names,
         .help = "none gives one score for each class"),
    TL_F(tl_f_score_config, beta, .d = 1, .help = "how much more recall counts than precision"),
    TL_F(tl_f_score_config, threshold,
         .help = "predictions above it are answers; null: the greatest is"),
    TL_F_END,
};
#define f1_fields f_score_fields
TLI_METRIC_DESC(f_score, tl_f_score_config, f_score_check, "mean of precision and recall")
TLI_METRIC_DESC(f1, tl_f_score_config, f1_check, "harmonic mean of precision and recall")
TLI_METRIC_CLASS(f1_score, f_score, &f1_desc, "harmonic mean of precision and recall",
                 .build = f_score_build, .update = f_score_update, .result = f_score_result)
TLI_METRIC_CLASS(fbeta_score, f_score, &f_score_desc,
                 "weighted harmonic mean of precision and recall", .build = f_score_build,
                 .update = f_score_update, .result = f_score_result)

/* --- confusion matrices ----------------------------------------------------------------------- */

typedef struct confusion {
    tl_metric base;
    tl_tensor *matrix; /* [target, predicted] */
} confusion;

static tl_status confusion_build(tl_metric *m)
{
    int64_t classes = ((const tl_confusion_config *)m->config)->num_classes;
    confusion *k = (confusion *)m;
    k->matrix = tl_metric_state(m, "total_confusion_matrix", TL_F64, TL_SHAPE(classes, classes));
    return k->matrix ? TL_OK : tl_error_code();
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
    if (y_scores && check_width(c, *y, classes)) *y = tl_argmax(c, *y, -1, false);
    if (p_scores && check_width(c, *p, classes)) *p = tl_argmax(c, *p, -1, false);
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

static void confusion_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    const tl_confusion_config *config = m->config;
    confusion *k = (confusion *)m;
    int64_t classes = config->num_classes;
    if (!class_numbers(c, &y, &p, config)) return;
    tl_tensor *weights = tl_metric_weights(c, y, weight), *zero = tl_number(c, TL_F64, 0);
    if (config->ignore_class.set) {
        tl_tensor *ignored = tl_number(c, TL_I64, (double)config->ignore_class.value);
        weights = tl_where(c, tl_equal(c, y, ignored), zero, weights);
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

static tl_tensor *mean_iou_result(tl_metric *m, tl_ctx *c)
{
    tl_tensor *both, *either;
    overlaps(m, c, &both, &either);
    tl_tensor *there = tl_greater(c, either, tl_number(c, TL_F64, 0));
    tl_tensor *sum = tl_sum(c, tl_div_no_nan(c, both, either), TL_ALL, false);
    return tl_div_no_nan(c, sum, tl_sum(c, tl_cast(c, there, TL_F64), TL_ALL, false));
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
