#include <tilth/ops/activation.h>

#include <tilth/ops/create.h>

#include "ops/elementwise.h"

#define ACTIVATION(name, help)                                                                     \
    TLI_UNARY(name, help, .infer = tli_infer_float, .gradient = name##_gradient)

/* --- gradients as ops --------------------------------------------------------------------------- */
/* Each is gy * f'(y or x). Its own gradient is the same op for gy and, for the other input, an
 * expression of plain ops; gg is the gradient that comes in. */

static tl_status grad_infer(const tl_node *call)
{
    const tl_tensor *gy = call->in[0], *at = call->in[1];
    TL_TRY(tli_want_float(gy, "the gradient"));
    if (gy->dtype == at->dtype && tl_shape_equal(&gy->shape, &at->shape))
        return tli_infer_same(call);
    char a[TL_TENSOR_TEXT], b[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "the gradient is %s and the other input is %s; they must be alike",
                   tl_tensor_spec(a, gy), tl_tensor_spec(b, at));
}

#define GRAD_GRADIENT(name, again, by_other)                                                       \
    static void name##_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *in, tl_tensor **gx, \
                                const bool *wanted)                                                \
    {                                                                                              \
        tl_tensor *gg = in[0], *gy = n->in[0], *x = n->in[1];                                      \
        (void)gy;                                                                                  \
        if (wanted[0]) gx[0] = (again);                                                            \
        if (wanted[1]) gx[1] = (by_other);                                                         \
    }

#define GRAD(name, help, attr_)                                                                    \
    TLI_CLASS(name, help, 2, .attr = (attr_), .infer = grad_infer, .gradient = name##_gradient)
#define GRAD_FUNCTION(name)                                                                        \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *gy, tl_tensor *x)                                   \
    {                                                                                              \
        return TL_APPLY(c, name, NULL, gy, x);                                                     \
    }

/* --- tanh, sigmoid, softplus -------------------------------------------------------------------- */

// f' = 1 - y^2
GRAD_GRADIENT(tanh_grad, tl_tanh_grad(c, gg, x), tl_mul(c, tl_mul(c, gg, gy), tl_scale(c, x, -2)))
GRAD(tanh_grad, "gy * (1 - y^2)", NULL);
GRAD_FUNCTION(tanh_grad)
TLI_GRADIENT(tanh, tl_tanh_grad(c, g, y))
ACTIVATION(tanh, "the hyperbolic tangent of x")

// f' = y - y^2
GRAD_GRADIENT(sigmoid_grad, tl_sigmoid_grad(c, gg, x),
              tl_mul(c, tl_mul(c, gg, gy), tl_affine(c, x, -2, 1)))
GRAD(sigmoid_grad, "gy * y * (1 - y)", NULL);
GRAD_FUNCTION(sigmoid_grad)
TLI_GRADIENT(sigmoid, tl_sigmoid_grad(c, g, y))
ACTIVATION(sigmoid, "1 / (1 + exp(-x))")

TLI_GRADIENT(softplus, tl_mul(c, g, tl_sigmoid(c, x)))
ACTIVATION(softplus, "log(1 + exp(x))")

/* --- relu and its kind -------------------------------------------------------------------------- */

GRAD_GRADIENT(relu_grad, tl_relu_grad(c, gg, x), NULL)
GRAD(relu_grad, "gy where y is positive, else 0", NULL);
GRAD_FUNCTION(relu_grad)
TLI_GRADIENT(relu, tl_relu_grad(c, g, y))
ACTIVATION(relu, "max(x, 0)")

static tl_tensor *between(tl_ctx *c, tl_tensor *x, double low, double high)
{
    return tl_logical_and(c, tli_above(c, x, low), tli_below(c, x, high));
}

TLI_GRADIENT(relu6, tli_masked(c, between(c, x, 0, 6), g))
ACTIVATION(relu6, "min(max(x, 0), 6)")

static const tl_field alpha_fields[] = {
    TL_F(tl_alpha_attr, alpha, .help = "slope at 0 from the left"),
    TL_F_END,
};
static const tl_desc alpha_desc = {.name = "alpha", .help = "attributes of leaky_relu and elu",
                                   .size = sizeof(tl_alpha_attr), .fields = alpha_fields};

static double alpha_of(const tl_node *n)
{
    return ((const tl_alpha_attr *)n->attr)->alpha;
}

TLI_GRADIENT(leaky_relu, tl_where(c, tli_above(c, x, 0), g, tl_scale(c, g, alpha_of(n))))
TLI_CLASS(leaky_relu, "x, or alpha * x where x is not positive", 1, .attr = &alpha_desc,
          .infer = tli_infer_float, .gradient = leaky_relu_gradient);

tl_tensor *tl_leaky_relu(tl_ctx *c, tl_tensor *x, double alpha)
{
    tl_alpha_attr attr = {.alpha = alpha};
    return TL_APPLY(c, leaky_relu, &attr, x);
}

// On the left alpha * exp(x), which is y + alpha.
TLI_GRADIENT(elu, tl_where(c, tli_above(c, x, 0), g, tl_mul(c, g, tl_shift(c, y, alpha_of(n)))))
TLI_CLASS(elu, "x, or alpha * (exp(x) - 1) where x is not positive", 1, .attr = &alpha_desc,
          .infer = tli_infer_float, .gradient = elu_gradient);

tl_tensor *tl_elu(tl_ctx *c, tl_tensor *x, double alpha)
{
    tl_alpha_attr attr = {.alpha = alpha};
    return TL_APPLY(c, elu, &attr, x);
}

/* --- gelu --------------------------------------------------------------------------------------- */

static const double one_by_sqrt_2_pi = 0.39894228040143267794,
                    sqrt_2_by_pi = 0.79788456080286535588;
static const double gelu_cubic = 0.044715;

static const tl_field gelu_fields[] = {
    TL_F(tl_gelu_attr, approximate, .help = "through tanh"),
    TL_F_END,
};
static const tl_desc gelu_desc = {.name = "gelu", .help = "attributes of gelu",
                                 .size = sizeof(tl_gelu_attr), .fields = gelu_fields};

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

static bool is_approximate(const tl_node *n)
{
    return ((const tl_gelu_attr *)n->attr)->approximate;
}

GRAD_GRADIENT(gelu_grad, tl_gelu_grad(c, gg, x, is_approximate(n)),
              tl_mul(c, tl_mul(c, gg, gy),
                     is_approximate(n) ? gelu_tanh_second(c, x) : gelu_exact_second(c, x)))
GRAD(gelu_grad, "the gradient of gelu at x", &gelu_desc);

tl_tensor *tl_gelu_grad(tl_ctx *c, tl_tensor *gy, tl_tensor *x, bool approximate)
{
    tl_gelu_attr attr = {.approximate = approximate};
    return TL_APPLY(c, gelu_grad, &attr, gy, x);
}

TLI_GRADIENT(gelu, tl_gelu_grad(c, g, x, is_approximate(n)))
TLI_CLASS(gelu, "x * P(a normal number is below x)", 1, .attr = &gelu_desc,
          .infer = tli_infer_float, .gradient = gelu_gradient);

tl_tensor *tl_gelu(tl_ctx *c, tl_tensor *x, bool approximate)
{
    tl_gelu_attr attr = {.approximate = approximate};
    return TL_APPLY(c, gelu, &attr, x);
}

/* --- silu, mish, the hard ones ------------------------------------------------------------------ */

// With s = sigmoid(x): f' = s + x * (s - s^2), f'' = (s - s^2) * (2 + x * (1 - 2 * s)).
static tl_tensor *silu_second(tl_ctx *c, tl_tensor *x)
{
    x = tl_clip(c, x, -1000, 1000);
    tl_tensor *s = tl_sigmoid(c, x);
    return tl_mul(c, tl_mul(c, s, tl_affine(c, s, -1, 1)),
                  tl_shift(c, tl_mul(c, x, tl_affine(c, s, -2, 1)), 2));
}

GRAD_GRADIENT(silu_grad, tl_silu_grad(c, gg, x), tl_mul(c, tl_mul(c, gg, gy), silu_second(c, x)))
GRAD(silu_grad, "the gradient of silu at x", NULL);
GRAD_FUNCTION(silu_grad)
TLI_GRADIENT(silu, tl_silu_grad(c, g, x))
ACTIVATION(silu, "x * sigmoid(x)")

// With t = tanh(softplus(x)): f' = t + x * (1 - t^2) * sigmoid(x).
static tl_tensor *mish_slope(tl_ctx *c, tl_tensor *x)
{
    tl_tensor *t = tl_tanh(c, tl_softplus(c, x));
    tl_tensor *rest = tl_mul(c, tl_affine(c, tl_square(c, t), -1, 1), tl_sigmoid(c, x));
    return tl_add(c, t, tl_mul(c, tl_clip(c, x, -1000, 1000), rest));
}

TLI_GRADIENT(mish, tl_mul(c, g, mish_slope(c, x)))
ACTIVATION(mish, "x * tanh(softplus(x))")

TLI_GRADIENT(hard_sigmoid, tli_masked(c, between(c, x, -3, 3), tl_scale(c, g, 1.0 / 6)))
ACTIVATION(hard_sigmoid, "relu6(x + 3) / 6")

// x/3 + 1/2 between -3 and 3, else 0 or 1.
static tl_tensor *hard_swish_slope(tl_ctx *c, tl_tensor *g, tl_tensor *x)
{
    tl_tensor *zero = tl_zeros(c, g->dtype, TL_SCALAR);
    tl_tensor *low = tl_full(c, x->dtype, TL_SCALAR, -3),
              *high = tl_full(c, x->dtype, TL_SCALAR, 3);
    tl_tensor *inner = tl_mul(c, g, tl_affine(c, x, 1.0 / 3, 0.5)); // and where x is NaN
    return tl_where(c, tl_greater_equal(c, x, high), g,
                    tl_where(c, tl_less_equal(c, x, low), zero, inner));
}

TLI_GRADIENT(hard_swish, hard_swish_slope(c, g, x))
ACTIVATION(hard_swish, "x * relu6(x + 3) / 6")
