#include <tilth/ops/activation.h>

#include <tilth/ops/create.h>
#include <tilth/sys/ops/apply.h>

#include "ops/elementwise.h"

/* What is wanted of a gradient and what it is taken at. */
tl_status tli_infer_slope(const tl_node *call)
{
    const tl_tensor *gy = call->in[0], *at = call->in[1];
    TL_TRY(tli_want_float(gy, "the gradient"));
    if (gy->dtype == at->dtype && tl_shape_equal(&gy->shape, &at->shape))
        return tli_infer_same(call);
    char a[TL_TENSOR_TEXT], b[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "the gradient is %s and the other input is %s; they must be alike",
                   tl_tensor_spec(a, gy), tl_tensor_spec(b, at));
}

/* --- relu and its kind ------------------------------------------------------------------------ */

static const tl_field alpha_fields[] = {
    TL_F(tl_alpha_attr, alpha, .help = "slope at 0 from the left"),
    TL_F_END,
};
const tl_desc tli_alpha_desc = {
    .name = "alpha",
    .help = "attributes of leaky_relu and elu",
    .size = sizeof(tl_alpha_attr),
    .fields = alpha_fields,
};

tl_tensor *tl_leaky_relu(tl_ctx *c, tl_tensor *x, double alpha)
{
    tl_alpha_attr attr = {.alpha = alpha};
    return TL_APPLY(c, leaky_relu, &attr, x);
}

tl_tensor *tl_elu(tl_ctx *c, tl_tensor *x, double alpha)
{
    tl_alpha_attr attr = {.alpha = alpha};
    return TL_APPLY(c, elu, &attr, x);
}

/* --- gelu ------------------------------------------------------------------------------------- */

static const double one_by_sqrt_2_pi = 0.39894228040143267794,
                    sqrt_2_by_pi = 0.79788456080286535588;
static const double gelu_cubic = 0.044715;

static const tl_field gelu_fields[] = {
    TL_F(tl_gelu_attr, approximate, .help = "through tanh"),
    TL_F_END,
};
const tl_desc tli_gelu_desc = {
    .name = "gelu",
    .help = "attributes of gelu",
    .size = sizeof(tl_gelu_attr),
    .fields = gelu_fields,
};

// Second derivatives vanish far out, where powers of x would overflow: 0 * infinity is avoided by
// staying where they have vanished already.

// f'' = p(x) * (2 - x^2), p the density of normal numbers.
static tl_tensor *gelu_exact_second(tl_ctx *c, tl_tensor *x)
{
    tl_tensor *squares = tl_square(c, tl_clip(c, x, -40, 40));
    tl_tensor *density = tl_scale(c, tl_exp(c, tl_scale(c, squares, -0.5)), one_by_sqrt_2_pi);
    return tl_mul(c, density, tl_affine(c, squares, -1, 2));
}

// f = x/2 * (1 + t) with t = tanh(u), s = t' / u' = 1 - t^2. Then
// f'' = s * u' + x/2 * (s * u'' - 2 * t * u' * (s * u')).
static tl_tensor *gelu_tanh_second(tl_ctx *c, tl_tensor *x)
{
    const double k = sqrt_2_by_pi, k3 = sqrt_2_by_pi * gelu_cubic;
    x = tl_clip(c, x, -20, 20);
    tl_tensor *squares = tl_square(c, x);
    tl_tensor *t = tl_tanh(c, tl_mul(c, x, tl_affine(c, squares, k3, k)));
    tl_tensor *s = tl_affine(c, tl_square(c, t), -1, 1);
    tl_tensor *u1 = tl_affine(c, squares, 3 * k3, k), *u2 = tl_scale(c, x, 6 * k3);
    tl_tensor *slope = tl_mul(c, s, u1), *twice = tl_scale(c, tl_mul(c, t, u1), 2);
    tl_tensor *bend = tl_sub(c, tl_mul(c, s, u2), tl_mul(c, twice, slope));
    return tl_add(c, slope, tl_mul(c, tl_scale(c, x, 0.5), bend));
}

tl_tensor *tli_gelu_second(tl_ctx *c, tl_tensor *x, bool approximate)
{
    return approximate ? gelu_tanh_second(c, x) : gelu_exact_second(c, x);
}

tl_tensor *tl_gelu_grad(tl_ctx *c, tl_tensor *gy, tl_tensor *x, bool approximate)
{
    tl_gelu_attr attr = {.approximate = approximate};
    return TL_APPLY(c, gelu_grad, &attr, gy, x);
}

tl_tensor *tl_gelu(tl_ctx *c, tl_tensor *x, bool approximate)
{
    tl_gelu_attr attr = {.approximate = approximate};
    return TL_APPLY(c, gelu, &attr, x);
}

/* --- silu, mish, the hard ones ---------------------------------------------------------------- */

// With s = sigmoid(x): f' = s + x * (s - s^2), f'' = (s - s^2) * (2 + x * (1 - 2 * s)).
tl_tensor *tli_silu_second(tl_ctx *c, tl_tensor *x)
{
    x = tl_clip(c, x, -1000, 1000);
    tl_tensor *s = tl_sigmoid(c, x);
    return tl_mul(c, tl_mul(c, s, tl_affine(c, s, -1, 1)),
                  tl_shift(c, tl_mul(c, x, tl_affine(c, s, -2, 1)), 2));
}

// With t = tanh(softplus(x)): f' = t + x * (1 - t^2) * sigmoid(x).
tl_tensor *tli_mish_slope(tl_ctx *c, tl_tensor *x)
{
    tl_tensor *t = tl_tanh(c, tl_softplus(c, x));
    tl_tensor *rest = tl_mul(c, tl_affine(c, tl_square(c, t), -1, 1), tl_sigmoid(c, x));
    return tl_add(c, t, tl_mul(c, tl_clip(c, x, -1000, 1000), rest));
}

// 1 between 0 and 6, else 0. (graph/epilogue.c knows it in this form.)
tl_tensor *tli_relu6_slope(tl_ctx *c, tl_tensor *g, tl_tensor *y)
{
    return tl_relu_grad(c, tl_relu_grad(c, g, y), tl_affine(c, y, -1, 6));
}

// x/3 + 1/2 between -3 and 3, else 0 or 1.
tl_tensor *tli_hard_swish_slope(tl_ctx *c, tl_tensor *g, tl_tensor *x)
{
    tl_tensor *zero = tl_zeros(c, g->dtype, TL_SCALAR);
    tl_tensor *low = tl_full(c, x->dtype, TL_SCALAR, -3),
              *high = tl_full(c, x->dtype, TL_SCALAR, 3);
    tl_tensor *inner = tl_mul(c, g, tl_affine(c, x, 1.0 / 3, 0.5)); // and where x is NaN
    return tl_where(c, tl_greater_equal(c, x, high), g,
                    tl_where(c, tl_less_equal(c, x, low), zero, inner));
}
