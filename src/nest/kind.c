#include "nest/kind.h"

#include <math.h>
#include <tilth/sys/core/attrs.h>

#include "core/inner/element.h"
#include "core/inner/integer.h"

#define F TLI_TAKES_F
#define D TLI_TAKES_D
#define N TLI_TAKES_N
#define B TLI_TAKES_B
/*    op, types, result, numbers of attributes, cost */
#define NEST_OPS(X)                                                                                \
    X(add, F | D | N, TLI_SAME, 0, 1)                                                              \
    X(sub, F | D | N, TLI_SAME, 0, 1)                                                              \
    X(mul, F | D | N, TLI_SAME, 0, 1)                                                              \
    X(div, F | D, TLI_SAME, 0, 4)                                                                  \
    X(pow, F | N, TLI_SAME, 0, 40)                                                                 \
    X(minimum, F | D | N, TLI_SAME, 0, 1)                                                          \
    X(maximum, F | D | N, TLI_SAME, 0, 1)                                                          \
    X(floor_divide, N, TLI_SAME, 0, 20)                                                            \
    X(mod, N, TLI_SAME, 0, 20)                                                                     \
    X(affine, F | D | N, TLI_SAME, 2, 1)                                                           \
    X(clip, F | D | N, TLI_SAME, 2, 2)                                                             \
    X(where, F | D | N | B, TLI_SAME, 0, 1)                                                        \
    X(cast, F | D | N | B, TLI_CAST, 0, 1)                                                         \
    X(equal, F | D | N | B, TLI_TRUTH, 0, 1)                                                       \
    X(not_equal, F | D | N | B, TLI_TRUTH, 0, 1)                                                   \
    X(less, F | D | N | B, TLI_TRUTH, 0, 1)                                                        \
    X(less_equal, F | D | N | B, TLI_TRUTH, 0, 1)                                                  \
    X(isfinite, F | D, TLI_TRUTH, 0, 1)                                                            \
    X(isnan, F | D, TLI_TRUTH, 0, 1)                                                               \
    X(logical_and, B, TLI_TRUTH, 0, 1)                                                             \
    X(logical_or, B, TLI_TRUTH, 0, 1)                                                              \
    X(logical_xor, B, TLI_TRUTH, 0, 1)                                                             \
    X(logical_not, B, TLI_TRUTH, 0, 1)                                                             \
    X(neg, F | D | N, TLI_SAME, 0, 1)                                                              \
    X(abs, F | D | N, TLI_SAME, 0, 1)                                                              \
    X(sign, F | D | N, TLI_SAME, 0, 2)                                                             \
    X(square, F | D | N, TLI_SAME, 0, 1)                                                           \
    X(sqrt, F | D, TLI_SAME, 0, 4)                                                                 \
    X(rsqrt, F | D, TLI_SAME, 0, 8)                                                                \
    X(reciprocal, F | D, TLI_SAME, 0, 4)                                                           \
    X(exp, F, TLI_SAME, 0, 12)                                                                     \
    X(expm1, F, TLI_SAME, 0, 14)                                                                   \
    X(log, F, TLI_SAME, 0, 16)                                                                     \
    X(log1p, F, TLI_SAME, 0, 30)                                                                   \
    X(erf, F, TLI_SAME, 0, 20)                                                                     \
    X(sin, F, TLI_SAME, 0, 60)                                                                     \
    X(cos, F, TLI_SAME, 0, 60)                                                                     \
    X(floor, F | D, TLI_SAME, 0, 1)                                                                \
    X(ceil, F | D, TLI_SAME, 0, 1)                                                                 \
    X(round, F | D, TLI_SAME, 0, 1)                                                                \
    X(tanh, F, TLI_SAME, 0, 18)                                                                    \
    X(sigmoid, F, TLI_SAME, 0, 16)                                                                 \
    X(softplus, F, TLI_SAME, 0, 24)                                                                \
    X(relu, F | D, TLI_SAME, 0, 1)                                                                 \
    X(relu6, F | D, TLI_SAME, 0, 2)                                                                \
    X(leaky_relu, F | D, TLI_SAME, 1, 2)                                                           \
    X(elu, F, TLI_SAME, 1, 16)                                                                     \
    X(gelu, F, TLI_SAME, 0, 18)                                                                    \
    X(silu, F, TLI_SAME, 0, 16)                                                                    \
    X(mish, F, TLI_SAME, 0, 18)                                                                    \
    X(hard_sigmoid, F | D, TLI_SAME, 0, 3)                                                         \
    X(hard_swish, F | D, TLI_SAME, 0, 4)                                                           \
    X(tanh_grad, F | D, TLI_SAME, 0, 2)                                                            \
    X(sigmoid_grad, F | D, TLI_SAME, 0, 2)                                                         \
    X(relu_grad, F | D, TLI_SAME, 0, 1)                                                            \
    X(gelu_grad, F, TLI_SAME, 0, 30)                                                               \
    X(silu_grad, F, TLI_SAME, 0, 20)

static const tli_nest_op ops[TL_OP_COUNT] = {
#define ROW(name, types, kind_of_result, numbers, cost_)                                           \
    [TL_OP_##name] = {#name, (types), (kind_of_result), (numbers), (cost_), false},
    NEST_OPS(ROW)
#undef ROW
    [TL_OP_sum] = {"sum", F | D | N, TLI_SAME, 0, 1, true},
    [TL_OP_prod] = {"prod", F | D | N, TLI_SAME, 0, 1, true},
    [TL_OP_max] = {"max", F | D | N, TLI_SAME, 0, 2, true},
    [TL_OP_min] = {"min", F | D | N, TLI_SAME, 0, 2, true},
    [TL_OP_any] = {"any", F | D | N | B, TLI_TRUTH, 0, 2, true},
    [TL_OP_all] = {"all", F | D | N | B, TLI_TRUTH, 0, 2, true},
};
#undef F
#undef D
#undef N
#undef B

const tli_nest_op *tli_nest_op_of(tl_op op)
{
    return op >= 0 && op < TL_OP_COUNT && ops[op].function ? &ops[op] : NULL;
}

const char *tli_op_function(tl_op op, const void *attr)
{
    const tl_gelu_attr *gelu = attr;
    if (op == TL_OP_gelu && gelu->approximate) return "gelu_tanh";
    if (op == TL_OP_gelu_grad && gelu->approximate) return "gelu_tanh_grad";
    return ops[op].function;
}

static int64_t between(double number, int64_t low, int64_t high)
{
    if (number <= (double)low) return low;
    return number >= (double)high ? high : (int64_t)number;
}

tli_value tli_value_of(tl_dtype dtype, double number)
{
    tli_value v = {.l = 0};
    char element[8];
    int64_t whole;
    switch (tli_kind_of(dtype)) {
    case TLI_KIND_D: v.d = number; break;
    case TLI_KIND_F:
        tli_element_set(dtype, element, 0, number);
        v.f = (float)tli_element_get(dtype, element, 0);
        break;
    case TLI_KIND_I:
        tli_element_set(dtype, element, 0, number);
        v.i = (int32_t)tli_element_get(dtype, element, 0);
        break;
    default: // a double would lose digits on the way back
        tli_element_set(TL_I64, &whole, 0, number);
        v.l = whole;
        break;
    }
    return v;
}

static void numbers_of(double out[2], tl_op op, const void *attr)
{
    out[0] = out[1] = 0;
    if (op == TL_OP_affine) {
        out[0] = ((const tl_affine_attr *)attr)->scale;
        out[1] = ((const tl_affine_attr *)attr)->shift;
    } else if (op == TL_OP_clip) {
        out[0] = ((const tl_clip_attr *)attr)->low;
        out[1] = ((const tl_clip_attr *)attr)->high;
    } else if (op == TL_OP_leaky_relu || op == TL_OP_elu) {
        out[0] = ((const tl_alpha_attr *)attr)->alpha;
    }
}

// Bounds of integers stop at what the type holds. Where this leaves nothing between them the op
// would wrap one around.
static tl_status clip_bounds(tli_value out[2], tl_dtype dtype, const double numbers[2])
{
    int64_t low, high;
    tli_integer_range(dtype, &low, &high);
    if (numbers[0] > (double)high || numbers[1] < (double)low)
        return TL_FAIL(TL_EUNSUPPORTED, "clip of %s between %g and %g, which it cannot hold; leave "
                       "it to the op's own kernel", tl_dtype_name(dtype), numbers[0], numbers[1]);
    for (int i = 0; i < 2; i++) {
        out[i].l = 0;
        if (dtype == TL_I64)
            out[i].l = between(numbers[i], low, high);
        else
            out[i].i = (int32_t)between(numbers[i], low, high);
    }
    return TL_OK;
}

tl_status tli_op_params(tli_value out[2], tl_op op, tl_dtype dtype, const void *attr)
{
    const tli_kind kind = tli_kind_of(dtype);
    double numbers[2];
    numbers_of(numbers, op, attr);
    if (op == TL_OP_clip && !tl_dtype_is_float(dtype)) return clip_bounds(out, dtype, numbers);
    for (int i = 0; i < 2; i++) {
        out[i].l = 0;
        if (kind == TLI_KIND_F)
            out[i].f = (float)numbers[i];
        else if (kind == TLI_KIND_D)
            out[i].d = numbers[i];
        else if (kind == TLI_KIND_L)
            out[i] = tli_value_of(TL_I64, numbers[i]);
        else
            out[i].i = (int32_t)tli_value_of(TL_I64, numbers[i]).l; // only the low digits count
    }
    return TL_OK;
}

tli_value tli_reduce_start(tl_op op, tli_kind kind)
{
    tli_value v = {.l = 0};
    const bool largest = op == TL_OP_min;
    if (op == TL_OP_sum || op == TL_OP_any) return v;
    if (op == TL_OP_prod || op == TL_OP_all) {
        if (kind == TLI_KIND_F) v.f = 1;
        if (kind == TLI_KIND_D) v.d = 1;
        if (kind == TLI_KIND_I) v.i = 1;
        if (kind == TLI_KIND_L) v.l = 1;
        return v;
    }
    if (kind == TLI_KIND_F) v.f = largest ? INFINITY : -INFINITY;
    if (kind == TLI_KIND_D) v.d = largest ? INFINITY : -INFINITY;
    if (kind == TLI_KIND_I) v.i = largest ? INT32_MAX : INT32_MIN;
    if (kind == TLI_KIND_L) v.l = largest ? INT64_MAX : INT64_MIN;
    return v;
}
