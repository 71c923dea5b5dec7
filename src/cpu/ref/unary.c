/* Functions of one input, activations among them, and gradients of activations. */
#include <math.h>

#include "cpu/ref/ref.h"

static const double sqrt_half = 0.70710678118654752440, one_by_sqrt_2_pi = 0.39894228040143267794;
static const double sqrt_2_by_pi = 0.79788456080286535588, gelu_cubic = 0.044715;

/* --- numbers ------------------------------------------------------------------------------------ */

static double neg(double x)
{
    return -x;
}

static int64_t neg_int(int64_t x)
{
    return (int64_t)-(uint64_t)x;
}

static int64_t abs_int(int64_t x)
{
    return x < 0 ? neg_int(x) : x;
}

// A zero and a NaN are themselves.
static double sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

static int64_t sign_int(int64_t x)
{
    return (x > 0) - (x < 0);
}

static double square(double x)
{
    return x * x;
}

static int64_t square_int(int64_t x)
{
    return (int64_t)((uint64_t)x * (uint64_t)x);
}

static int64_t not_int(int64_t x)
{
    return !x;
}

/* --- floats ------------------------------------------------------------------------------------- */

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double reciprocal(double x)
{
    return 1 / x;
}

static double is_finite(double x)
{
    return isfinite(x) != 0;
}

static double is_nan(double x)
{
    return x != x;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return log1p(exp(-fabs(x))) + (x > 0 ? x : 0);
}

static double relu(double x)
{
    return x > 0 || x != x ? x : 0;
}

static double relu6(double x)
{
    return x > 6 ? 6 : relu(x);
}

static double silu(double x)
{
    return x == -INFINITY ? 0 : x * sigmoid(x);
}

static double mish(double x)
{
    return x == -INFINITY ? 0 : x * tanh(softplus(x));
}

static double hard_sigmoid(double x)
{
    return relu6(x + 3) / 6;
}

static double hard_swish(double x)
{
    return x < -3 ? 0 : x * hard_sigmoid(x);
}

/* --- with attributes ----------------------------------------------------------------------------- */

static double affine(double x, const void *attr)
{
    const tl_affine_attr *a = attr;
    return x * a->scale + a->shift;
}

static int64_t affine_int(int64_t x, const void *attr)
{
    const tl_affine_attr *a = attr;
    return (int64_t)((uint64_t)x * (uint64_t)(int64_t)a->scale + (uint64_t)(int64_t)a->shift);
}

static double clip(double x, const void *attr)
{
    const tl_clip_attr *a = attr;
    return x < a->low ? a->low : x > a->high ? a->high : x;
}

// An infinite bound is none; other bounds are whole numbers that int64 holds.
static int64_t clip_int(int64_t x, const void *attr)
{
    const tl_clip_attr *a = attr;
    if (!isinf(a->low) && x < (int64_t)a->low) return (int64_t)a->low;
    if (!isinf(a->high) && x > (int64_t)a->high) return (int64_t)a->high;
    return x;
}

static double leaky_relu(double x, const void *attr)
{
    const tl_alpha_attr *a = attr;
    return x > 0 ? x : a->alpha * x;
}

static double elu(double x, const void *attr)
{
    const tl_alpha_attr *a = attr;
    return x > 0 ? x : a->alpha * expm1(x);
}

// Twice what stands in the tanh: (1 + tanh(u)) / 2 is sigmoid(2 u), which loses nothing on the
// left.
static double gelu_inner(double x)
{
    return 2 * sqrt_2_by_pi * (x + gelu_cubic * x * x * x);
}

static double gelu(double x, const void *attr)
{
    const tl_gelu_attr *a = attr;
    if (x == -INFINITY) return 0;
    return a->approximate ? x * sigmoid(gelu_inner(x)) : 0.5 * x * erfc(-x * sqrt_half);
}

/* --- gradients ----------------------------------------------------------------------------------- */

static double tanh_grad(double g, double y, const void *attr)
{
    (void)attr;
    return g * ((1 - y) * (1 + y));
}

static double sigmoid_grad(double g, double y, const void *attr)
{
    (void)attr;
    return g * (y * (1 - y));
}

static double relu_grad(double g, double y, const void *attr)
{
    (void)attr;
    return y > 0 ? g : 0;
}

// Far out the slopes are 0 and 1; the formulas would multiply infinities by zeros there.
static bool far_out(double x)
{
    return fabs(x) > 1000;
}

static double gelu_grad(double g, double x, const void *attr)
{
    const tl_gelu_attr *a = attr;
    if (far_out(x)) return x > 0 ? g : 0;
    if (!a->approximate)
        return g * (0.5 * erfc(-x * sqrt_half) + x * one_by_sqrt_2_pi * exp(-0.5 * x * x));
    double s = sigmoid(gelu_inner(x));
    return g * (s + x * s * (1 - s) * 2 * sqrt_2_by_pi * (1 + 3 * gelu_cubic * x * x));
}

static double silu_grad(double g, double x, const void *attr)
{
    (void)attr;
    if (far_out(x)) return x > 0 ? g : 0;
    double s = sigmoid(x);
    return g * (s + x * s * (1 - s));
}

/* --- loops -------------------------------------------------------------------------------------- */

typedef double double_fn(double x);
typedef int64_t int_fn(int64_t x);
typedef double double_attr_fn(double x, const void *attr);
typedef int64_t int_attr_fn(int64_t x, const void *attr);
typedef double grad_fn(double g, double at, const void *attr);

// Either function is NULL when the op does not take such types.
static tl_status unary(const tl_node *n, double_fn *of_doubles, int_fn *of_ints)
{
    const tl_tensor *x = n->in[0], *y = n->out[0];
    bool floats = tl_dtype_is_float(x->dtype);
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        int64_t at = tli_ref_offset(x, &y->shape, i);
        if (floats)
            tli_ref_set(y, i, of_doubles(tli_ref_get(x, at)));
        else
            tli_ref_set_int(y, i, of_ints(tli_ref_get_int(x, at)));
    }
    return TL_OK;
}

static tl_status unary_attr(const tl_node *n, double_attr_fn *of_doubles, int_attr_fn *of_ints)
{
    const tl_tensor *x = n->in[0], *y = n->out[0];
    bool floats = tl_dtype_is_float(x->dtype);
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        int64_t at = tli_ref_offset(x, &y->shape, i);
        if (floats)
            tli_ref_set(y, i, of_doubles(tli_ref_get(x, at), n->attr));
        else
            tli_ref_set_int(y, i, of_ints(tli_ref_get_int(x, at), n->attr));
    }
    return TL_OK;
}

static tl_status grad(const tl_node *n, grad_fn *fn)
{
    const tl_tensor *g = n->in[0], *x = n->in[1], *y = n->out[0];
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++)
        tli_ref_set(y, i, fn(tli_ref_get(g, tli_ref_offset(g, &y->shape, i)),
                             tli_ref_get(x, tli_ref_offset(x, &y->shape, i)), n->attr));
    return TL_OK;
}

/* --- the table ---------------------------------------------------------------------------------- */

/*    op, loop and what it is given */
#define KERNELS(X)                                                                                 \
    X(neg, unary(n, neg, neg_int))                                                                 \
    X(abs, unary(n, fabs, abs_int))                                                                \
    X(sign, unary(n, sign, sign_int))                                                              \
    X(square, unary(n, square, square_int))                                                        \
    X(logical_not, unary(n, NULL, not_int))                                                        \
    X(sqrt, unary(n, sqrt, NULL))                                                                  \
    X(rsqrt, unary(n, rsqrt, NULL))                                                                \
    X(reciprocal, unary(n, reciprocal, NULL))                                                      \
    X(exp, unary(n, exp, NULL))                                                                    \
    X(expm1, unary(n, expm1, NULL))                                                                \
    X(log, unary(n, log, NULL))                                                                    \
    X(log1p, unary(n, log1p, NULL))                                                                \
    X(erf, unary(n, erf, NULL))                                                                    \
    X(sin, unary(n, sin, NULL))                                                                    \
    X(cos, unary(n, cos, NULL))                                                                    \
    X(floor, unary(n, floor, NULL))                                                                \
    X(ceil, unary(n, ceil, NULL))                                                                  \
    X(round, unary(n, rint, NULL))                                                                 \
    X(isfinite, unary(n, is_finite, NULL))                                                         \
    X(isnan, unary(n, is_nan, NULL))                                                               \
    X(tanh, unary(n, tanh, NULL))                                                                  \
    X(sigmoid, unary(n, sigmoid, NULL))                                                            \
    X(softplus, unary(n, softplus, NULL))                                                          \
    X(relu, unary(n, relu, NULL))                                                                  \
    X(relu6, unary(n, relu6, NULL))                                                                \
    X(silu, unary(n, silu, NULL))                                                                  \
    X(mish, unary(n, mish, NULL))                                                                  \
    X(hard_sigmoid, unary(n, hard_sigmoid, NULL))                                                  \
    X(hard_swish, unary(n, hard_swish, NULL))                                                      \
    X(affine, unary_attr(n, affine, affine_int))                                                   \
    X(clip, unary_attr(n, clip, clip_int))                                                         \
    X(leaky_relu, unary_attr(n, leaky_relu, NULL))                                                 \
    X(elu, unary_attr(n, elu, NULL))                                                               \
    X(gelu, unary_attr(n, gelu, NULL))                                                             \
    X(tanh_grad, grad(n, tanh_grad))                                                               \
    X(sigmoid_grad, grad(n, sigmoid_grad))                                                         \
    X(relu_grad, grad(n, relu_grad))                                                               \
    X(gelu_grad, grad(n, gelu_grad))                                                               \
    X(silu_grad, grad(n, silu_grad))

#define KERNEL(name, call)                                                                         \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        (void)run;                                                                                 \
        return call;                                                                               \
    }
KERNELS(KERNEL)

#define ROW(name, call) {TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED},
static const tl_kernel rows[] = {KERNELS(ROW)};
const tl_kernels tli_ref_unary = {rows, TL_COUNT(rows)};
