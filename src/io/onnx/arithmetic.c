/* Elementwise calls as nodes of ONNX. */
#include <math.h>

#include "io/onnx/impl.h"

/* --- one value -------------------------------------------------------------------------------- */

/* Ops that are nodes as they are. */
static const struct {
    tl_op op;
    const char *theirs;
} same[] = {
    {TL_OP_add, "Add"},
    {TL_OP_sub, "Sub"},
    {TL_OP_mul, "Mul"},
    {TL_OP_div, "Div"},
    {TL_OP_pow, "Pow"},
    {TL_OP_minimum, "Min"},
    {TL_OP_maximum, "Max"},
    {TL_OP_where, "Where"},
    {TL_OP_equal, "Equal"},
    {TL_OP_less, "Less"},
    {TL_OP_less_equal, "LessOrEqual"},
    {TL_OP_logical_and, "And"},
    {TL_OP_logical_or, "Or"},
    {TL_OP_logical_xor, "Xor"},
    {TL_OP_logical_not, "Not"},
    {TL_OP_isnan, "IsNaN"},
    {TL_OP_neg, "Neg"},
    {TL_OP_abs, "Abs"},
    {TL_OP_sign, "Sign"},
    {TL_OP_sqrt, "Sqrt"},
    {TL_OP_reciprocal, "Reciprocal"},
    {TL_OP_exp, "Exp"},
    {TL_OP_log, "Log"},
    {TL_OP_erf, "Erf"},
    {TL_OP_sin, "Sin"},
    {TL_OP_cos, "Cos"},
    {TL_OP_floor, "Floor"},
    {TL_OP_ceil, "Ceil"},
    {TL_OP_round, "Round"},
    {TL_OP_tanh, "Tanh"},
    {TL_OP_sigmoid, "Sigmoid"},
    {TL_OP_softplus, "Softplus"},
    {TL_OP_relu, "Relu"},
    {TL_OP_hard_swish, "HardSwish"},
};

static const char *same_there(tl_op op)
{
    for (int64_t i = 0; i < TL_COUNT(same); i++)
        if (same[i].op == op) return same[i].theirs;
    return NULL;
}

static const char *two(tli_onnx *x, const char *op, const char *a, const char *b)
{
    return TLI_EMIT(x, .op = op, .in = {a, b});
}

static const char *by_number(tli_onnx *x, const char *op, const char *a, tl_dtype dtype,
                             double number)
{
    return two(x, op, a, tli_onnx_number(x, dtype, number));
}

static const char *clip(tli_onnx *x, const char *in, tl_dtype dtype, double low, double high)
{
    const char *from = isfinite(low) ? tli_onnx_number(x, dtype, low) : "";
    const char *to = isfinite(high) ? tli_onnx_number(x, dtype, high) : "";
    return TLI_EMIT(x, .op = "Clip", .in = {in, from, to});
}

/* x / 2 * (1 + erf(x / sqrt(2))), or with tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) in its place. */
static const char *gelu(tli_onnx *x, const char *in, tl_dtype dtype, bool approximate)
{
    const char *inner;
    if (approximate) {
        const char *cube = two(x, "Mul", in, two(x, "Mul", in, in));
        inner = two(x, "Add", in, by_number(x, "Mul", cube, dtype, 0.044715));
        inner = by_number(x, "Mul", inner, dtype, 0.79788456080286535588);
        inner = TLI_EMIT(x, .op = "Tanh", .in = {inner});
    } else {
        inner = by_number(x, "Mul", in, dtype, 0.70710678118654752440);
        inner = TLI_EMIT(x, .op = "Erf", .in = {inner});
    }
    const char *half = by_number(x, "Mul", in, dtype, 0.5);
    return two(x, "Mul", half, by_number(x, "Add", inner, dtype, 1));
}

static const char *affine(tli_onnx *x, const char *in, tl_dtype dtype, const tl_affine_attr *a)
{
    if (a->scale != 1) in = by_number(x, "Mul", in, dtype, a->scale);
    if (a->shift != 0) in = by_number(x, "Add", in, dtype, a->shift);
    return in;
}

const char *tli_onnx_unary(tli_onnx *x, tl_op op, const void *attr, tl_dtype dtype, const char *in)
{
    const char *theirs = same_there(op), *other;
    if (theirs) return TLI_EMIT(x, .op = theirs, .in = {in});
    switch (op) {
    case TL_OP_square: return two(x, "Mul", in, in);
    case TL_OP_rsqrt:
        return TLI_EMIT(x, .op = "Reciprocal", .in = {TLI_EMIT(x, .op = "Sqrt", .in = {in})});
    case TL_OP_expm1: return by_number(x, "Sub", TLI_EMIT(x, .op = "Exp", .in = {in}), dtype, 1);
    case TL_OP_log1p: return TLI_EMIT(x, .op = "Log", .in = {by_number(x, "Add", in, dtype, 1)});
    case TL_OP_isfinite:
        other = TLI_EMIT(x, .op = "IsInf", .in = {in});
        other = two(x, "Or", other, TLI_EMIT(x, .op = "IsNaN", .in = {in}));
        return TLI_EMIT(x, .op = "Not", .in = {other});
    case TL_OP_affine: return affine(x, in, dtype, attr);
    case TL_OP_clip: {
        const tl_clip_attr *a = attr;
        return clip(x, in, dtype, a->low, a->high);
    }
    case TL_OP_relu6: return clip(x, in, dtype, 0, 6);
    case TL_OP_leaky_relu:
        return TLI_EMIT(x, .op = "LeakyRelu", .in = {in},
                        .attrs = {TLI_FLOAT("alpha", ((const tl_alpha_attr *)attr)->alpha)});
    case TL_OP_elu:
        return TLI_EMIT(x, .op = "Elu", .in = {in},
                        .attrs = {TLI_FLOAT("alpha", ((const tl_alpha_attr *)attr)->alpha)});
    case TL_OP_gelu: return gelu(x, in, dtype, ((const tl_gelu_attr *)attr)->approximate);
    case TL_OP_silu: return two(x, "Mul", in, TLI_EMIT(x, .op = "Sigmoid", .in = {in}));
    case TL_OP_mish:
        other = TLI_EMIT(x, .op = "Softplus", .in = {in});
        return two(x, "Mul", in, TLI_EMIT(x, .op = "Tanh", .in = {other}));
    case TL_OP_hard_sigmoid:
        return TLI_EMIT(x, .op = "HardSigmoid", .in = {in},
                        .attrs = {TLI_FLOAT("alpha", 1.0 / 6), TLI_FLOAT("beta", 0.5)});
    default: tli_onnx_refuse(x, ""); return NULL;
    }
}

const char *tli_onnx_activation(tli_onnx *x, tl_activation a, tl_dtype dtype, const char *in)
{
    static const tl_op ops[TL_ACT_COUNT] = {
        [TL_ACT_RELU] = TL_OP_relu,
        [TL_ACT_RELU6] = TL_OP_relu6,
        [TL_ACT_GELU] = TL_OP_gelu,
        [TL_ACT_GELU_TANH] = TL_OP_gelu,
        [TL_ACT_SILU] = TL_OP_silu,
        [TL_ACT_TANH] = TL_OP_tanh,
        [TL_ACT_SIGMOID] = TL_OP_sigmoid,
        [TL_ACT_ELU] = TL_OP_elu,
        [TL_ACT_SOFTPLUS] = TL_OP_softplus,
        [TL_ACT_MISH] = TL_OP_mish,
        [TL_ACT_HARD_SWISH] = TL_OP_hard_swish,
        [TL_ACT_HARD_SIGMOID] = TL_OP_hard_sigmoid,
    };
    const tl_gelu_attr gelu_attr = {.approximate = a == TL_ACT_GELU_TANH};
    const tl_alpha_attr alpha = {1};
    if (a == TL_ACT_NONE) return in;
    return tli_onnx_unary(x, ops[a],
                          ops[a] == TL_OP_gelu ? (const void *)&gelu_attr : (const void *)&alpha,
                          dtype, in);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* An input of a call whose images have their channels first; NULL: it cannot be had so. */
static bool can_be_first(const tl_tensor *t)
{
    return t->shape.rank == 4 || t->shape.rank == 0 || (t->shape.rank == 1 && tli_onnx_weight(t));
}

static bool goes_first(const tli_onnx *x, const tl_node *n)
{
    bool any = false;
    for (int i = 0; i < n->inputs; i++) {
        if (!can_be_first(n->in[i])) return false;
        any = any || (n->in[i]->shape.rank == 4 && tli_onnx_is_first(x, n->in[i]));
    }
    return any;
}

static const char *input(tli_onnx *x, const tl_tensor *t, bool first)
{
    if (!first || t->shape.rank == 0) return tli_onnx_get(x, t);
    if (t->shape.rank == 4) return tli_onnx_get_first(x, t);
    return tli_onnx_turned(x, tli_onnx_weight(t), TL_SHAPE(t->shape.dims[0], 1, 1), NULL);
}

static void elementwise(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    bool first = goes_first(x, n);
    const char *in[3] = {NULL}, *out;
    (void)more;
    for (int i = 0; i < n->inputs && i < TL_COUNT(in); i++) in[i] = input(x, n->in[i], first);
    if (n->inputs == 1) out = tli_onnx_unary(x, n->op->op, n->attr, n->in[0]->dtype, in[0]);
    else out = TLI_EMIT(x, .op = same_there(n->op->op), .in = {in[0], in[1], in[2]});
    if (first) tli_onnx_set_first(x, n->out[0], out);
    else tli_onnx_set(x, n->out[0], out);
}

static const char *is_not(tli_onnx *x, const char *name)
{
    return TLI_EMIT(x, .op = "Not", .in = {name});
}

static void not_equal(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    (void)more;
    tli_onnx_set(x, n->out[0],
                 is_not(x, two(x, "Equal", tli_onnx_get(x, n->in[0]), tli_onnx_get(x, n->in[1]))));
}

/* Between types of float there is nothing to do: all are float32 there, but for float64. */
static void cast(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    bool first = tli_onnx_is_first(x, n->in[0]) && n->in[0]->shape.rank == 4;
    const char *in = first ? tli_onnx_get_first(x, n->in[0]) : tli_onnx_get(x, n->in[0]);
    int from = tli_onnx_type(n->in[0]->dtype), to = tli_onnx_type(n->out[0]->dtype);
    (void)more;
    if (from != to) in = TLI_EMIT(x, .op = "Cast", .in = {in}, .attrs = {TLI_INT("to", to)});
    if (first) tli_onnx_set_first(x, n->out[0], in);
    else tli_onnx_set(x, n->out[0], in);
}

tli_onnx_fn *tli_onnx_arithmetic(tl_op op)
{
    switch (op) {
    case TL_OP_cast: return cast;
    case TL_OP_not_equal: return not_equal;
    case TL_OP_square:
    case TL_OP_rsqrt:
    case TL_OP_expm1:
    case TL_OP_log1p:
    case TL_OP_isfinite:
    case TL_OP_affine:
    case TL_OP_clip:
    case TL_OP_relu6:
    case TL_OP_leaky_relu:
    case TL_OP_elu:
    case TL_OP_gelu:
    case TL_OP_silu:
    case TL_OP_mish:
    case TL_OP_hard_sigmoid: return elementwise;
    default: return same_there(op) ? elementwise : NULL;
    }
}
