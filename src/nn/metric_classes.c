#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include "nn/metric_impl.h"
#include "nn/weight.h"

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
    if (!tli_check_width(c, p, config->num_classes)) return;
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
