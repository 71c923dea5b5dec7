#include <math.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/sort.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include "nn/metric_impl.h"
#include "nn/weight.h"

/* --- counts ----------------------------------------------------------------------------------- */

tl_status tli_counts_build(tli_counts *k, tl_metric *m, int64_t labels, int64_t thresholds)
{
    static const char *const names[] = {"true_positives", "false_positives", "true_negatives",
                                        "false_negatives"};
    tl_tensor **states[] = {&k->true_positives, &k->false_positives, &k->true_negatives,
                            &k->false_negatives};
    for (int i = 0; i < 4; i++) {
        *states[i] = tl_metric_state(m, names[i], TL_F64, TL_SHAPE(labels, thresholds));
        if (!*states[i]) return tl_error_code();
    }
    return TL_OK;
}

tl_tensor *tli_at_least_f32(tl_ctx *c, tl_tensor *x)
{
    return tl_ctx_failed(c) ? NULL : tl_cast(c, x, tl_dtype_meet(x->dtype, TL_F32));
}

void tli_answers_of(tli_answers *out, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight,
                    int64_t labels)
{
    *out = (tli_answers){NULL, NULL, NULL};
    tli_match(c, &y, &p);
    if (tl_ctx_failed(c)) return;
    tl_shape rows = TL_SHAPE(-1, labels);
    if (tl_tensor_count(p) == 0) rows.dims[0] = 0;
    tl_tensor *weights = tl_reshape(c, tl_metric_weights(c, p, weight), rows);
    tl_tensor *zero = tl_number(c, TL_F64, 0), *target = tl_cast(c, y, TL_BOOL);
    if (tl_ctx_failed(c)) return;
    target = tl_reshape(c, target, rows);
    out->yes = tl_where(c, target, weights, zero);
    out->no = tl_where(c, target, zero, weights);
    tl_tensor *counts = tl_not_equal(c, weights, zero);
    out->answers = tl_reshape(c, tli_at_least_f32(c, p), rows);
    if (weight && out->answers)
        out->answers = tl_where(c, counts, out->answers, tl_number(c, out->answers->dtype, 0));
}

static void add(tl_ctx *c, tl_tensor *state, tl_tensor *value)
{
    if (!tl_ctx_failed(c)) tl_assign_add(c, state, tl_reshape(c, value, state->shape));
}

// Sums over examples of what is chosen: [n, labels, 1] by [n, labels, thresholds].
static tl_tensor *sum_where(tl_ctx *c, tl_tensor *chosen, tl_tensor *weights, bool when)
{
    tl_tensor *zero = tl_number(c, TL_F64, 0);
    weights = when ? tl_where(c, chosen, weights, zero) : tl_where(c, chosen, zero, weights);
    return tl_sum(c, weights, TL_AXES(0), false);
}

void tli_counts_add(const tli_counts *k, tl_ctx *c, const tli_answers *a, const double *thresholds,
                    int64_t count)
{
    if (tl_ctx_failed(c)) return;
    tl_tensor *limits = tl_from_doubles(c, a->answers->dtype, TL_SHAPE(count), thresholds);
    tl_tensor *chosen = tl_greater(c, tl_expand_dims(c, a->answers, -1), limits);
    tl_tensor *yes = tl_expand_dims(c, a->yes, -1), *no = tl_expand_dims(c, a->no, -1);
    add(c, k->true_positives, sum_where(c, chosen, yes, true));
    add(c, k->false_negatives, sum_where(c, chosen, yes, false));
    add(c, k->false_positives, sum_where(c, chosen, no, true));
    add(c, k->true_negatives, sum_where(c, chosen, no, false));
}

// Weights that fall between two thresholds: [labels, thresholds].
static tl_tensor *collect(tl_ctx *c, tl_tensor *weights, tl_tensor *bucket, const tl_shape *shape)
{
    if (tl_ctx_failed(c)) return NULL;
    int64_t n = tl_tensor_count(weights);
    tl_tensor *sums =
        tl_gather_grad(c, tl_reshape(c, weights, TL_SHAPE(n)), bucket, 0, tl_shape_count(shape));
    return tl_reshape(c, sums, *shape);
}

void tli_counts_add_even(const tli_counts *k, tl_ctx *c, const tli_answers *a)
{
    if (tl_ctx_failed(c)) return;
    const tl_shape *shape = &k->true_positives->shape; // [labels, thresholds]
    int64_t labels = shape->dims[0], thresholds = shape->dims[1];
    tl_tensor *p = a->answers;
    // An index below 0 is refused when it is looked at, and so are answers that no bucket has.
    tl_ctx_enter(c, "predictions must lie from 0 to 1");
    tl_tensor *inside = tl_logical_and(c, tl_greater_equal(c, p, tl_number(c, p->dtype, 0)),
                                       tl_less_equal(c, p, tl_number(c, p->dtype, 1)));
    tl_tensor *step = tl_shift(c, tl_ceil(c, tl_scale(c, p, (double)(thresholds - 1))), -1);
    tl_tensor *bucket = tl_cast(c, tl_clip(c, step, 0, HUGE_VAL), TL_I64);
    if (labels > 1) {
        double end = (double)(labels * thresholds);
        bucket = tl_add(c, bucket, tl_arange(c, TL_I64, 0, end, (double)thresholds));
    }
    bucket = tl_where(c, inside, bucket, tl_number(c, TL_I64, -1));
    if (bucket) bucket = tl_reshape(c, bucket, TL_SHAPE(tl_tensor_count(bucket)));
    tl_tensor *yes = collect(c, a->yes, bucket, shape), *no = collect(c, a->no, bucket, shape);
    tl_ctx_leave(c);
    add(c, k->true_positives, tl_cumsum(c, yes, 1, false, true));
    add(c, k->false_negatives, tl_cumsum(c, yes, 1, true, false));
    add(c, k->false_positives, tl_cumsum(c, no, 1, false, true));
    add(c, k->true_negatives, tl_cumsum(c, no, 1, true, false));
}

/* --- what is looked at ------------------------------------------------------------------------ */

bool tli_only_class(tl_ctx *c, tl_tensor **y, tl_tensor **p, const tl_opt_int *class_id)
{
    tli_match(c, y, p);
    if (!tl_ctx_failed(c) && class_id->set) {
        *y = tl_take(c, *y, -1, class_id->value);
        *p = tl_take(c, *p, -1, class_id->value);
    }
    return !tl_ctx_failed(c);
}

// Minus infinity where a prediction is not among the k greatest of the last axis.
static tl_tensor *only_best(tl_ctx *c, tl_tensor *p, int64_t k)
{
    tl_tensor *which;
    p = tli_at_least_f32(c, p);
    if (!p) return NULL;
    int64_t classes = p->shape.rank ? p->shape.dims[p->shape.rank - 1] : 0;
    tl_top_k(c, p, k < classes ? k : classes, NULL, &which);
    tl_tensor *best = tl_any(c, tl_one_hot(c, which, classes, TL_BOOL), TL_AXES(-2), false);
    return best ? tl_where(c, best, p, tl_number(c, p->dtype, -HUGE_VAL)) : NULL;
}

/* --- precision, recall and the counts themselves ---------------------------------------------- */

typedef struct threshold_metric {
    tl_metric base;
    tli_counts counts;
    const double *thresholds;
    int64_t threshold_count;
} threshold_metric;

static tl_status threshold_build(tl_metric *m)
{
    static const double half = 0.5, none = -HUGE_VAL;
    threshold_metric *t = (threshold_metric *)m;
    const tl_threshold_metric_config *config = m->config;
    t->thresholds = config->thresholds.items;
    t->threshold_count = config->thresholds.count;
    if (!t->threshold_count) {
        t->thresholds = config->top_k.set ? &none : &half;
        t->threshold_count = 1;
    }
    return tli_counts_build(&t->counts, m, 1, t->threshold_count);
}

static void threshold_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    threshold_metric *t = (threshold_metric *)m;
    const tl_threshold_metric_config *config = m->config;
    tli_answers a;
    tli_match(c, &y, &p);
    if (config->top_k.set) p = only_best(c, p, config->top_k.value);
    if (!tli_only_class(c, &y, &p, &config->class_id)) return;
    tli_answers_of(&a, c, y, p, weight, 1);
    tli_counts_add(&t->counts, c, &a, t->thresholds, t->threshold_count);
}

// One value for each threshold, a scalar for one.
static tl_tensor *by_threshold(tl_ctx *c, const threshold_metric *t, tl_tensor *value)
{
    return tl_reshape(c, value, t->threshold_count == 1 ? TL_SCALAR : TL_SHAPE(t->threshold_count));
}

static tl_tensor *share(tl_ctx *c, tl_tensor *part, tl_tensor *rest)
{
    return tl_div_no_nan(c, part, tl_add(c, part, rest));
}

static tl_tensor *precision_result(tl_metric *m, tl_ctx *c)
{
    threshold_metric *t = (threshold_metric *)m;
    return by_threshold(c, t, share(c, t->counts.true_positives, t->counts.false_positives));
}

static tl_tensor *recall_result(tl_metric *m, tl_ctx *c)
{
    threshold_metric *t = (threshold_metric *)m;
    return by_threshold(c, t, share(c, t->counts.true_positives, t->counts.false_negatives));
}

static tl_status check_thresholds(const void *value)
{
    const tl_threshold_metric_config *config = value;
    for (int64_t i = 0; i < config->thresholds.count; i++)
        if (isnan(config->thresholds.items[i]))
            return TL_FAIL(TL_EINVAL, "thresholds: one of them is not a number");
    return TL_OK;
}

static const tl_field threshold_fields[] = {
    TL_F(tl_threshold_metric_config, thresholds,
         .help = "predictions above one are yes; several give a vector, none is 0.5"),
    TL_F(tl_threshold_metric_config, top_k, TL_AT_LEAST(1),
         .help = "only so many greatest predictions can be yes"),
    TL_F(tl_threshold_metric_config, class_id, TL_AT_LEAST(0),
         .help = "only this place of the last axis counts"),
    TL_F_END,
};
TLI_METRIC_DESC(threshold, tl_threshold_metric_config, check_thresholds,
                "answers of yes and no at thresholds")
#define THRESHOLD_METRIC(id, result_, help_)                                                       \
    TLI_METRIC_CLASS(id, threshold_metric, &threshold_desc, help_, .build = threshold_build,       \
                     .update = threshold_update, .result = result_)
THRESHOLD_METRIC(precision, precision_result, "share of yes among answers of yes")
THRESHOLD_METRIC(recall, recall_result, "share of yes that was found")

#define COUNT_METRIC(id, help_)                                                                    \
    static tl_tensor *id##_result(tl_metric *m, tl_ctx *c)                                         \
    {                                                                                              \
        threshold_metric *t = (threshold_metric *)m;                                               \
        return by_threshold(c, t, tl_shift(c, t->counts.id, 0));                                   \
    }                                                                                              \
    THRESHOLD_METRIC(id, id##_result, help_)
COUNT_METRIC(true_positives, "yes that was answered yes")
COUNT_METRIC(true_negatives, "no that was answered no")
COUNT_METRIC(false_positives, "no that was answered yes")
COUNT_METRIC(false_negatives, "yes that was answered no")

/* --- one at a value of the other -------------------------------------------------------------- */

typedef struct at_metric {
    tl_metric base;
    tli_counts counts;
} at_metric;

static tl_status at_build(tl_metric *m)
{
    const tl_at_metric_config *config = m->config;
    return tli_counts_build(&((at_metric *)m)->counts, m, 1, config->num_thresholds);
}

static void at_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    const tl_at_metric_config *config = m->config;
    tli_answers a;
    if (!tli_only_class(c, &y, &p, &config->class_id)) return;
    tli_answers_of(&a, c, y, p, weight, 1);
    tli_counts_add_even(&((at_metric *)m)->counts, c, &a);
}

// The greatest of `wanted` where `bound` is at least the value.
static tl_tensor *best_at(tl_ctx *c, tl_tensor *wanted, tl_tensor *bound, double value)
{
    tl_tensor *good = tl_greater_equal(c, bound, tl_number(c, TL_F64, value));
    return tl_max(c, tl_where(c, good, wanted, tl_number(c, TL_F64, 0)), TL_ALL, false);
}

static tl_tensor *recall_at_precision_result(tl_metric *m, tl_ctx *c)
{
    const tli_counts *k = &((at_metric *)m)->counts;
    return best_at(c, share(c, k->true_positives, k->false_negatives),
                   share(c, k->true_positives, k->false_positives),
                   ((const tl_at_metric_config *)m->config)->value.value);
}

static tl_tensor *precision_at_recall_result(tl_metric *m, tl_ctx *c)
{
    const tli_counts *k = &((at_metric *)m)->counts;
    return best_at(c, share(c, k->true_positives, k->false_positives),
                   share(c, k->true_positives, k->false_negatives),
                   ((const tl_at_metric_config *)m->config)->value.value);
}

static tl_tensor *sensitivity_at_specificity_result(tl_metric *m, tl_ctx *c)
{
    const tli_counts *k = &((at_metric *)m)->counts;
    return best_at(c, share(c, k->true_positives, k->false_negatives),
                   share(c, k->true_negatives, k->false_positives),
                   ((const tl_at_metric_config *)m->config)->value.value);
}

static tl_tensor *specificity_at_sensitivity_result(tl_metric *m, tl_ctx *c)
{
    const tli_counts *k = &((at_metric *)m)->counts;
    return best_at(c, share(c, k->true_negatives, k->false_positives),
                   share(c, k->true_positives, k->false_negatives),
                   ((const tl_at_metric_config *)m->config)->value.value);
}

static const tl_field at_fields[] = {
    TL_F(tl_at_metric_config, value, TL_FILLED, .d = 0.5, TL_RANGE(0, 1),
         .help = "what the other must be at least"),
    TL_F(tl_at_metric_config, num_thresholds, .i = 200, TL_AT_LEAST(2),
         .help = "thresholds from 0 to 1"),
    TL_F(tl_at_metric_config, class_id, TL_AT_LEAST(0),
         .help = "only this place of the last axis counts"),
    TL_F_END,
};
TLI_METRIC_DESC(at, tl_at_metric_config, NULL, "one share of right answers at a value of another")
TLI_METRIC_CLASS(recall_at_precision, at_metric, &at_desc, "best recall at a precision",
                 .build = at_build, .update = at_update, .result = recall_at_precision_result)
TLI_METRIC_CLASS(precision_at_recall, at_metric, &at_desc, "best precision at a recall",
                 .build = at_build, .update = at_update, .result = precision_at_recall_result)
TLI_METRIC_CLASS(sensitivity_at_specificity, at_metric, &at_desc, "best recall at a specificity",
                 .build = at_build, .update = at_update,
                 .result = sensitivity_at_specificity_result)
TLI_METRIC_CLASS(specificity_at_sensitivity, at_metric, &at_desc, "best specificity at a recall",
                 .build = at_build, .update = at_update,
                 .result = specificity_at_sensitivity_result)
