/* How much of the targets' spread the predictions explain. */
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

#include "nn/metric_impl.h"
#include "nn/weight.h"

typedef struct r2 {
    tl_metric base;
    tl_tensor *count, *sum, *squares, *residuals;
} r2;

static tl_status r2_build(tl_metric *m)
{
    r2 *k = (r2 *)m;
    tl_tensor **const states[] = {&k->count, &k->sum, &k->squares, &k->residuals};
    static const char *const names[] = {"count", "sum", "squared_sum", "residual"};
    for (int i = 0; i < TL_COUNT(states); i++)
        if (!(*states[i] = tl_metric_state(m, names[i], TL_F64, TL_SCALAR))) return tl_error_code();
    return TL_OK;
}

static void r2_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    r2 *k = (r2 *)m;
    tli_match(c, &y, &p);
    if (tl_ctx_failed(c)) return;
    y = tl_cast(c, y, TL_F64);
    tl_tensor *error = tl_sub(c, y, tl_cast(c, p, TL_F64));
    tl_metric_add(c, k->count, tl_metric_weights(c, y, weight));
    tl_metric_add(c, k->sum, tl_metric_weighted(c, y, weight));
    tl_metric_add(c, k->squares, tl_metric_weighted(c, tl_square(c, y), weight));
    tl_metric_add(c, k->residuals, tl_metric_weighted(c, tl_square(c, error), weight));
}

static tl_tensor *r2_result(tl_metric *m, tl_ctx *c)
{
    r2 *k = (r2 *)m;
    tl_tensor *mean = tl_div_no_nan(c, k->sum, k->count);
    tl_tensor *spread = tl_sub(c, k->squares, tl_mul(c, mean, k->sum));
    return tl_affine(c, tl_div_no_nan(c, k->residuals, spread), -1, 1);
}

TLI_METRIC_CLASS(r2_score, r2, &tl_metric_config_desc,
                 "1 - squared errors / squared deviations of the targets", .build = r2_build,
                 .update = r2_update, .result = r2_result)
