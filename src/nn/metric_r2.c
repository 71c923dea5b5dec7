/* How much of the targets' spread the predictions explain. */
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "nn/metric_impl.h"
#include "nn/weight.h"

typedef struct r2 {
    tl_metric base;
    tl_tensor *count, *sum, *squares, *residuals; /* of all, or of each output */
    tl_tensor *samples;                           /* values that count; NULL: nobody asks */
} r2;

static tl_status r2_build(tl_metric *m)
{
    r2 *k = (r2 *)m;
    const tl_r2_config *config = m->config;
    tl_tensor **const states[] = {&k->count, &k->sum, &k->squares, &k->residuals};
    static const char *const names[] = {"count", "sum", "squared_sum", "residual"};
    tl_shape shape = config->num_outputs ? TL_SHAPE(config->num_outputs) : TL_SCALAR;
    for (int i = 0; i < TL_COUNT(states); i++)
        if (!(*states[i] = tl_metric_state(m, names[i], TL_F64, shape))) return tl_error_code();
    if (!config->num_regressors) return TL_OK;
    k->samples = tl_metric_state(m, "num_samples", TL_F64, TL_SCALAR);
    return k->samples ? TL_OK : tl_error_code();
}

// Of each output, where they are kept apart.
static void add(tl_ctx *c, tl_tensor *state, tl_tensor *values)
{
    if (values && state->shape.rank) {
        int64_t outputs = state->shape.dims[0];
        tl_shape rows = TL_SHAPE(tl_tensor_count(values) / outputs, outputs);
        values = tl_sum(c, tl_reshape(c, values, rows), TL_AXES(0), false);
    }
    tl_metric_add(c, state, values);
}

static bool check_outputs(tl_ctx *c, const tl_tensor *p, int64_t outputs)
{
    if (tl_ctx_failed(c)) return false;
    if (outputs <= 1 || (p->shape.rank && p->shape.dims[p->shape.rank - 1] == outputs)) return true;
    char spec[TL_TENSOR_TEXT];
    (void)TL_FAIL(TL_EINVAL,
                  "the predictions are %s; with num_outputs %lld their last axis must be that long",
                  tl_tensor_spec(spec, p), (long long)outputs);
    tl_ctx_fail(c);
    return false;
}

static void r2_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    r2 *k = (r2 *)m;
    int64_t outputs = ((const tl_r2_config *)m->config)->num_outputs;
    tli_match(c, &y, &p);
    if (!check_outputs(c, p, outputs)) return;
    y = tl_cast(c, y, TL_F64);
    tl_tensor *error = tl_sub(c, y, tl_cast(c, p, TL_F64));
    tl_tensor *weights = tl_metric_weights(c, y, weight);
    add(c, k->count, weights);
    add(c, k->sum, tl_metric_weighted(c, y, weight));
    add(c, k->squares, tl_metric_weighted(c, tl_square(c, y), weight));
    add(c, k->residuals, tl_metric_weighted(c, tl_square(c, error), weight));
    if (k->samples) tl_metric_add(c, k->samples, tl_not_equal(c, weights, tl_number(c, TL_F64, 0)));
}

// Less for each predictor, unless there are too few values to say.
static tl_tensor *adjusted(const r2 *k, tl_ctx *c, tl_tensor *score)
{
    double predictors = (double)((const tl_r2_config *)k->base.config)->num_regressors;
    tl_tensor *rest = tl_shift(c, k->samples, -predictors - 1);
    tl_tensor *factor = tl_div_no_nan(c, tl_shift(c, k->samples, -1), rest);
    tl_tensor *less = tl_affine(c, tl_mul(c, tl_affine(c, score, -1, 1), factor), -1, 1);
    return tl_where(c, tl_greater(c, rest, tl_number(c, TL_F64, 0)), less, score);
}

static tl_tensor *r2_result(tl_metric *m, tl_ctx *c)
{
    const r2 *k = (const r2 *)m;
    const tl_r2_config *config = m->config;
    tl_tensor *zero = tl_number(c, TL_F64, 0), *mean = tl_div_no_nan(c, k->sum, k->count);
    tl_tensor *spread = tl_sub(c, k->squares, tl_mul(c, mean, k->sum));
    tl_tensor *score = tl_affine(c, tl_div_no_nan(c, k->residuals, spread), -1, 1);
    // Without a spread nothing is explained, unless there is nothing left to explain.
    tl_tensor *right =
        tl_logical_and(c, tl_equal(c, k->residuals, zero), tl_greater(c, k->count, zero));
    tl_tensor *flat = tl_cast(c, right, TL_F64);
    score = tl_where(c, tl_equal(c, spread, zero), flat, score);
    if (config->class_aggregation == TL_R2_UNIFORM_AVERAGE)
        score = tl_mean(c, score, TL_ALL, false);
    else if (config->class_aggregation == TL_R2_VARIANCE_WEIGHTED_AVERAGE)
        score = tl_div_no_nan(c, tl_sum(c, tl_mul(c, spread, score), TL_ALL, false),
                              tl_sum(c, spread, TL_ALL, false));
    return k->samples ? adjusted(k, c, score) : score;
}

static const char *const aggregation_names[] = {"uniform_average", "none",
                                                "variance_weighted_average", NULL};
static const tl_field r2_fields[] = {
    TL_F(tl_r2_config, num_outputs, TL_AT_LEAST(0),
         .help = "a score for each place of the last axis; 0: one for all elements together"),
    TL_F(tl_r2_config, class_aggregation, .names = aggregation_names,
         .help = "how these scores become one; none gives all"),
    TL_F(tl_r2_config, num_regressors, TL_AT_LEAST(0),
         .help = "predictors that the score is adjusted for"),
    TL_F_END,
};
TLI_METRIC_DESC(r2, tl_r2_config, NULL, "1 - squared errors / squared deviations of the targets")
TLI_METRIC_CLASS(r2_score, r2, &r2_desc, "1 - squared errors / squared deviations of the targets",
                 .build = r2_build, .update = r2_update, .result = r2_result)
