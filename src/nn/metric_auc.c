#include <stdlib.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "nn/metric_impl.h"
#include "nn/weight.h"

#define BEYOND 1e-7 /* the outermost thresholds lie so far outside of [0, 1] */

typedef struct auc_metric {
    tl_metric base;
    tli_counts counts;
    double *thresholds; /* those that were given, and the two outermost; NULL: even steps */
    int64_t threshold_count, labels;
} auc_metric;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tl_status set_thresholds(auc_metric *a, const tl_doubles *given)
{
    double *t = tl_arena_array(a->base.arena, given->count + 2, sizeof *t);
    if (!t) return TL_ENOMEM;
    t[0] = -BEYOND;
    for (int64_t i = 0; i < given->count; i++) t[i + 1] = given->items[i];
    t[given->count + 1] = 1 + BEYOND;
    qsort(t + 1, (size_t)given->count, sizeof *t, compare);
    a->thresholds = t;
    a->threshold_count = given->count + 2;
    return TL_OK;
}

static tl_status auc_build(tl_metric *m)
{
    auc_metric *a = (auc_metric *)m;
    const tl_auc_config *config = m->config;
    a->threshold_count = config->num_thresholds;
    a->labels = config->num_labels ? config->num_labels : 1;
    if (config->thresholds.count) TL_TRY(set_thresholds(a, &config->thresholds));
    return tli_counts_build(&a->counts, m, a->labels, a->threshold_count);
}

// Without labels of their own, places of the last axis may still weigh differently.
static tl_tensor *with_label_weights(tl_ctx *c, tl_tensor *p, tl_tensor *weight,
                                     const tl_doubles *label_weights)
{
    if (tl_ctx_failed(c)) return NULL;
    int64_t last = p->shape.rank ? p->shape.dims[p->shape.rank - 1] : 0;
    if (last != label_weights->count) {
        char spec[TL_TENSOR_TEXT];
        (void)TL_FAIL(
            TL_EINVAL,
            "the predictions are %s and there are %lld label_weights; their last axis must "
            "have as many places",
            tl_tensor_spec(spec, p), (long long)label_weights->count);
        return tl_ctx_fail(c);
    }
    tl_tensor *each = tl_from_doubles(c, TL_F64, TL_SHAPE(last), label_weights->items);
    return tl_mul(c, tl_metric_weights(c, p, weight), each);
}

static bool check_labels(tl_ctx *c, const auc_metric *a, const tl_tensor *p)
{
    if (tl_ctx_failed(c)) return false;
    if (a->labels == 1 || (p->shape.rank && p->shape.dims[p->shape.rank - 1] == a->labels))
        return true;
    char spec[TL_TENSOR_TEXT];
    (void)TL_FAIL(TL_EINVAL,
                  "the predictions are %s; with num_labels %lld their last axis must be "
                  "that long",
                  tl_tensor_spec(spec, p), (long long)a->labels);
    tl_ctx_fail(c);
    return false;
}

static void auc_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    auc_metric *a = (auc_metric *)m;
    const tl_auc_config *config = m->config;
    tli_answers answers;
    tli_match(c, &y, &p);
    if (!check_labels(c, a, p)) return;
    if (config->label_weights.count && !config->num_labels)
        weight = with_label_weights(c, p, weight, &config->label_weights);
    if (config->from_logits) p = tl_sigmoid(c, tli_at_least_f32(c, p));
    if (tl_ctx_failed(c)) return;
    tli_answers_of(&answers, c, y, p, weight, a->labels);
    if (a->thresholds) tli_counts_add(&a->counts, c, &answers, a->thresholds, a->threshold_count);
    else tli_counts_add_even(&a->counts, c, &answers);
}

/* --- the area: all tensors are [labels, thresholds] ------------------------------------------- */

static tl_tensor *lower(tl_ctx *c, tl_tensor *x)
{
    return tl_slice(c, x, 1, 0, -1, 1);
}

static tl_tensor *upper(tl_ctx *c, tl_tensor *x)
{
    return tl_slice(c, x, 1, 1, TL_OPEN, 1);
}

static tl_tensor *share(tl_ctx *c, tl_tensor *part, tl_tensor *rest)
{
    return tl_div_no_nan(c, part, tl_add(c, part, rest));
}

// Between two thresholds true positives are taken to grow evenly with positives, so precision does
// not move on a line: the area of a step is slope * (dTP + intercept * log(P_b / P_a)) / all that
// is yes.
static tl_tensor *precision_recall_steps(tl_ctx *c, const tli_counts *k)
{
    tl_tensor *zero = tl_number(c, TL_F64, 0), *tp = k->true_positives;
    tl_tensor *positives = tl_add(c, tp, k->false_positives);
    tl_tensor *before = lower(c, positives), *after = upper(c, positives);
    tl_tensor *dtp = tl_sub(c, lower(c, tp), upper(c, tp));
    tl_tensor *slope = tl_div_no_nan(c, dtp, tl_maximum(c, tl_sub(c, before, after), zero));
    tl_tensor *intercept = tl_sub(c, upper(c, tp), tl_mul(c, slope, after));
    tl_tensor *both = tl_logical_and(c, tl_greater(c, before, zero), tl_greater(c, after, zero));
    tl_tensor *ratio = tl_where(c, both, tl_div_no_nan(c, before, after), tl_number(c, TL_F64, 1));
    tl_tensor *area = tl_mul(c, slope, tl_add(c, dtp, tl_mul(c, intercept, tl_log(c, ratio))));
    return tl_div_no_nan(c, area, tl_add(c, upper(c, tp), upper(c, k->false_negatives)));
}

static tl_tensor *riemann_steps(tl_ctx *c, const tli_counts *k, const tl_auc_config *config)
{
    tl_tensor *recall = share(c, k->true_positives, k->false_negatives), *x, *y;
    if (config->curve == TL_CURVE_ROC) {
        x = share(c, k->false_positives, k->true_negatives);
        y = recall;
    } else {
        x = recall;
        y = share(c, k->true_positives, k->false_positives);
    }
    tl_tensor *left = lower(c, y), *right = upper(c, y), *height;
    if (config->summation_method == TL_SUMMATION_INTERPOLATION)
        height = tl_scale(c, tl_add(c, left, right), 0.5);
    else if (config->summation_method == TL_SUMMATION_MINORING) height = tl_minimum(c, left, right);
    else height = tl_maximum(c, left, right);
    return tl_mul(c, tl_sub(c, lower(c, x), upper(c, x)), height);
}

static tl_tensor *auc_result(tl_metric *m, tl_ctx *c)
{
    auc_metric *a = (auc_metric *)m;
    const tl_auc_config *config = m->config;
    bool interpolated = config->summation_method == TL_SUMMATION_INTERPOLATION;
    tl_tensor *steps = config->curve == TL_CURVE_PR && interpolated
                           ? precision_recall_steps(c, &a->counts)
                           : riemann_steps(c, &a->counts, config);
    tl_tensor *areas = tl_sum(c, steps, TL_AXES(1), false);
    if (!config->num_labels || !config->label_weights.count)
        return tl_mean(c, areas, TL_ALL, false);
    tl_tensor *weights =
        tl_from_doubles(c, TL_F64, TL_SHAPE(a->labels), config->label_weights.items);
    return tl_div_no_nan(c, tl_sum(c, tl_mul(c, areas, weights), TL_ALL, false),
                         tl_sum(c, weights, TL_ALL, false));
}

/* --- its configuration ------------------------------------------------------------------------ */

static tl_status auc_check(const void *value)
{
    const tl_auc_config *config = value;
    if (config->num_labels && config->label_weights.count
        && config->label_weights.count != config->num_labels)
        return TL_FAIL(TL_EINVAL,
                       "label_weights: there are %lld for %lld labels; give one for each",
                       (long long)config->label_weights.count, (long long)config->num_labels);
    return TL_OK;
}

static const char *const curve_names[] = {"ROC", "PR", NULL};
static const char *const summation_names[] = {"interpolation", "majoring", "minoring", NULL};
static const tl_field auc_fields[] = {
    TL_F(tl_auc_config, num_thresholds, .i = 200, TL_AT_LEAST(2), .help = "thresholds from 0 to 1"),
    TL_F(tl_auc_config, curve, .names = curve_names,
         .help = "receiver operating characteristic, or precision over recall"),
    TL_F(tl_auc_config, summation_method, .names = summation_names, .help = "height of each step"),
    TL_F(tl_auc_config, thresholds, TL_RANGE(0, 1),
         .help = "instead of even steps; 0 and 1 are added"),
    TL_F(tl_auc_config, num_labels, TL_AT_LEAST(0),
         .help = "one curve for each place of the last axis, and their mean; 0: one curve"),
    TL_F(tl_auc_config, label_weights, TL_AT_LEAST(0), .help = "of the places of the last axis"),
    TL_F(tl_auc_config, from_logits, .help = "predictions are given before the sigmoid"),
    TL_F_END,
};
TLI_METRIC_DESC(auc, tl_auc_config, auc_check, "area under a curve over thresholds")
TLI_METRIC_CLASS(auc, auc_metric, &auc_desc, "area under a curve over thresholds",
                 .build = auc_build, .update = auc_update, .result = auc_result)
