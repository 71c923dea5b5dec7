#include <math.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

#include "nn/loss_impl.h"
#include "nn/weight.h"

tl_tensor *tli_loss_float(tl_ctx *c, tl_tensor *x)
{
    if (tl_ctx_failed(c) || !x) return NULL;
    return tl_cast(c, x, tl_dtype_meet(x->dtype, TL_F32));
}

bool tli_loss_pair(tl_ctx *c, tl_tensor **y_true, tl_tensor **y_pred)
{
    if (tl_ctx_failed(c)) return false;
    if (!*y_true || !*y_pred) {
        (void)TL_FAIL(TL_EINVAL, "the loss was given no %s", *y_pred ? "targets" : "predictions");
        tl_ctx_fail(c);
        return false;
    }
    tli_match(c, y_true, y_pred);
    *y_pred = tli_loss_float(c, *y_pred);
    if (*y_pred) *y_true = tl_cast(c, *y_true, (*y_pred)->dtype);
    return !tl_ctx_failed(c);
}

tl_tensor *tli_loss_mean(tl_ctx *c, tl_tensor *x)
{
    return x && x->shape.rank > 1 ? tl_mean(c, x, TL_AXES(-1), false) : x;
}

tl_tensor *tli_loss_sum(tl_ctx *c, tl_tensor *x)
{
    return x && x->shape.rank > 0 ? tl_sum(c, x, TL_AXES(-1), false) : x;
}

/* --- distances -------------------------------------------------------------------------------- */

tl_tensor *tl_mean_squared_error(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    return tli_loss_mean(c, tl_square(c, tl_sub(c, p, y)));
}

tl_tensor *tl_mean_absolute_error(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    return tli_loss_mean(c, tl_abs(c, tl_sub(c, p, y)));
}

tl_tensor *tl_mean_absolute_percentage_error(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    tl_tensor *size = tl_clip(c, tl_abs(c, y), TLI_EPSILON, HUGE_VAL);
    return tl_scale(c, tli_loss_mean(c, tl_abs(c, tl_div(c, tl_sub(c, y, p), size))), 100);
}

static tl_tensor *log_of_one_more(tl_ctx *c, tl_tensor *x)
{
    return tl_log1p(c, tl_clip(c, x, TLI_EPSILON, HUGE_VAL));
}

tl_tensor *tl_mean_squared_logarithmic_error(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    tl_tensor *error = tl_sub(c, log_of_one_more(c, p), log_of_one_more(c, y));
    return tli_loss_mean(c, tl_square(c, error));
}

tl_tensor *tl_huber(tl_ctx *c, tl_tensor *y, tl_tensor *p, double delta)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    tl_tensor *error = tl_sub(c, p, y), *size = tl_abs(c, error);
    tl_tensor *near = tl_less_equal(c, size, tl_number(c, p->dtype, delta));
    tl_tensor *square = tl_scale(c, tl_square(c, error), 0.5);
    tl_tensor *line = tl_affine(c, size, delta, -0.5 * delta * delta);
    return tli_loss_mean(c, tl_where(c, near, square, line));
}

tl_tensor *tl_smooth_l1(tl_ctx *c, tl_tensor *y, tl_tensor *p, double beta)
{
    if (beta == 0) return tl_mean_absolute_error(c, y, p);
    return tl_scale(c, tl_huber(c, y, p, beta), 1 / beta);
}

tl_tensor *tl_log_cosh(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    // log(cosh(e)) = |e| + log(1 + exp(-2 |e|)) - log 2. At 0 both slopes are 0, as they should be.
    tl_tensor *size = tl_abs(c, tl_sub(c, p, y));
    tl_tensor *rest = tl_shift(c, tl_softplus(c, tl_scale(c, size, -2)), -log(2.0));
    return tli_loss_mean(c, tl_add(c, size, rest));
}

// x over its length along the last axis; zeros stay zeros.
static tl_tensor *direction(tl_ctx *c, tl_tensor *x)
{
    tl_tensor *squares = tl_sum(c, tl_square(c, x), TL_AXES(-1), true);
    return tl_mul(c, x, tl_rsqrt(c, tl_clip(c, squares, 1e-12, HUGE_VAL)));
}

tl_tensor *tl_cosine_similarity(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    if (!p->shape.rank) {
        (void)TL_FAIL(TL_EINVAL, "cosine_similarity: the predictions are a scalar, which has no "
                                 "direction; they need at least one axis");
        return tl_ctx_fail(c);
    }
    return tl_neg(c, tli_loss_sum(c, tl_mul(c, direction(c, y), direction(c, p))));
}

/* --- margins ---------------------------------------------------------------------------------- */

// Targets of 0 and 1 alone become -1 and 1.
static tl_tensor *signs(tl_ctx *c, tl_tensor *y)
{
    tl_tensor *zero = tl_equal(c, y, tl_number(c, y->dtype, 0));
    tl_tensor *one = tl_equal(c, y, tl_number(c, y->dtype, 1));
    tl_tensor *binary = tl_all(c, tl_logical_or(c, zero, one), TL_ALL, false);
    return tl_where(c, binary, tl_affine(c, y, 2, -1), y);
}

static tl_tensor *margin(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    return tl_relu(c, tl_affine(c, tl_mul(c, signs(c, y), p), -1, 1));
}

tl_tensor *tl_hinge(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    return tli_loss_mean(c, margin(c, y, p));
}

tl_tensor *tl_squared_hinge(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    return tli_loss_mean(c, tl_square(c, margin(c, y, p)));
}

tl_tensor *tl_categorical_hinge(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    tl_tensor *right = tli_loss_sum(c, tl_mul(c, y, p));
    tl_tensor *others = tl_mul(c, tl_affine(c, y, -1, 1), p);
    if (others && others->shape.rank) others = tl_max(c, others, TL_AXES(-1), false);
    return tl_relu(c, tl_shift(c, tl_sub(c, others, right), 1));
}

/* --- classes ---------------------------------------------------------------------------------- */

#define PLAIN(id, help_)                                                                           \
    static tl_tensor *id##_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)                 \
    {                                                                                              \
        (void)l;                                                                                   \
        return tl_##id(c, y, p);                                                                   \
    }                                                                                              \
    TLI_LOSS_CLASS(id, &tl_loss_config_desc, id##_call, help_)
PLAIN(mean_squared_error, "mean of squared errors")
PLAIN(mean_absolute_error, "mean of magnitudes of errors")
PLAIN(mean_absolute_percentage_error, "mean of errors in percent of the targets")
PLAIN(mean_squared_logarithmic_error, "mean of squared differences of logarithms")
PLAIN(log_cosh, "mean of log(cosh(error))")
PLAIN(cosine_similarity, "minus the cosine between targets and predictions")
PLAIN(hinge, "mean of max(1 - target * prediction, 0)")
PLAIN(squared_hinge, "mean of max(1 - target * prediction, 0)^2")
PLAIN(categorical_hinge, "how far the right class is less than 1 above the others")

static tl_tensor *huber_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    return tl_huber(c, y, p, ((const tl_huber_config *)l->config)->delta.value);
}
static const tl_field huber_fields[] = {
    TL_F(tl_huber_config, delta, TL_FILLED, .d = 1, TL_AT_LEAST(0),
         .help = "error where the line begins"),
    TL_F_END,
};
TLI_LOSS_DESC(huber, tl_huber_config, "squares near 0, magnitudes farther away")
TLI_LOSS_CLASS(huber, &huber_desc, huber_call, "squares near 0, magnitudes farther away")

static tl_tensor *smooth_l1_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    return tl_smooth_l1(c, y, p, ((const tl_smooth_l1_config *)l->config)->beta.value);
}
static const tl_field smooth_l1_fields[] = {
    TL_F(tl_smooth_l1_config, beta, TL_FILLED, .d = 1, TL_AT_LEAST(0),
         .help = "error where the line begins"),
    TL_F_END,
};
TLI_LOSS_DESC(smooth_l1, tl_smooth_l1_config, "Huber's loss with a slope of 1")
TLI_LOSS_CLASS(smooth_l1, &smooth_l1_desc, smooth_l1_call, "Huber's loss with a slope of 1")

#define ENTRY(id) TL_INIT(&tl_kind_loss, &tl_loss_##id.cls)
static const tl_entry entries[] = {
    ENTRY(binary_crossentropy),
    ENTRY(categorical_crossentropy),
    ENTRY(sparse_categorical_crossentropy),
    ENTRY(binary_focal_crossentropy),
    ENTRY(categorical_focal_crossentropy),
    ENTRY(focal),
    ENTRY(kl_divergence),
    ENTRY(poisson),
    ENTRY(mean_squared_error),
    ENTRY(mean_absolute_error),
    ENTRY(mean_absolute_percentage_error),
    ENTRY(mean_squared_logarithmic_error),
    ENTRY(huber),
    ENTRY(smooth_l1),
    ENTRY(log_cosh),
    ENTRY(cosine_similarity),
    ENTRY(hinge),
    ENTRY(squared_hinge),
    ENTRY(categorical_hinge),
};
const tl_module tl_losses_module = {TL_MODULE_HEAD("nn_losses"), entries, TL_COUNT(entries)};
