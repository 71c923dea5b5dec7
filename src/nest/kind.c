#include "nest/kind.h"

#include <math.h>
#include <tilth/core/attrs.h>

#include "core/inner/attr_numbers.h"
#include "core/inner/element.h"
#include "core/inner/integer.h"

#define TAKES_F TLI_TAKES_F
#define TAKES_FD TLI_TAKES_F | TLI_TAKES_D
#define TAKES_IL TLI_TAKES_N
#define TAKES_FIL TAKES_F | TAKES_IL
#define TAKES_FDIL TAKES_FD | TAKES_IL
#define TAKES_B TLI_TAKES_B
#define TAKES_FDILB TAKES_FDIL | TAKES_B
#define TAKES_ANY TAKES_FDILB

/* What it gives, and the numbers of its attributes that follow the inputs. */
#define GIVES_UNARY TLI_SAME, 0
#define GIVES_BINARY TLI_SAME, 0
#define GIVES_WHERE TLI_SAME, 0
#define GIVES_EITHER TLI_SAME, 0
#define GIVES_SLOPE TLI_SAME, 0
#define GIVES_SLOPE_EITHER TLI_SAME, 0
#define GIVES_NUMBER TLI_SAME, 1
#define GIVES_NUMBERS TLI_SAME, 2
#define GIVES_TEST TLI_TRUTH, 0
#define GIVES_COMPARE TLI_TRUTH, 0
#define GIVES_LOGIC TLI_TRUTH, 0
#define GIVES_NOT TLI_TRUTH, 0
#define GIVES_CAST TLI_CAST, 0

static const tli_nest_op ops[TL_OP_COUNT] = {
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    [TL_OP_##op] = {#op, TAKES_##kinds, GIVES_##form, (cost), false},
#include <tilth/core/elementwise.def>
    [TL_OP_sum] = {"sum", TAKES_FDIL, TLI_SAME, 0, 1, true},
    [TL_OP_prod] = {"prod", TAKES_FDIL, TLI_SAME, 0, 1, true},
    [TL_OP_max] = {"max", TAKES_FDIL, TLI_SAME, 0, 2, true},
    [TL_OP_min] = {"min", TAKES_FDIL, TLI_SAME, 0, 2, true},
    [TL_OP_any] = {"any", TAKES_FDILB, TLI_TRUTH, 0, 2, true},
    [TL_OP_all] = {"all", TAKES_FDILB, TLI_TRUTH, 0, 2, true},
};

const tli_nest_op *tli_nest_op_of(tl_op op)
{
    return op >= 0 && op < TL_OP_COUNT && ops[op].function ? &ops[op] : NULL;
}

static const char *const others[TL_OP_COUNT] = {
#define TL_EITHER(op, form, formula) [TL_OP_##op] = #formula,
#include <tilth/core/elementwise.def>
};

bool tli_op_takes_other(tl_op op, const void *attr)
{
    TL_ASSERT(op >= 0 && op < TL_OP_COUNT && (!others[op] || attr));
    return others[op] && ((const tl_gelu_attr *)attr)->approximate;
}

const char *tli_op_function(tl_op op, const void *attr)
{
    TL_ASSERT(tli_nest_op_of(op) && !ops[op].reduces);
    return tli_op_takes_other(op, attr) ? others[op] : ops[op].function;
}

static int64_t between(double number, int64_t low, int64_t high)
{
    TL_ASSERT(low <= high);
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

// Bounds of integers stop at what the type holds. Where this leaves nothing between them the op
// would wrap one around.
static tl_status clip_bounds(tli_value out[2], tl_dtype dtype, const double numbers[2])
{
    int64_t low, high;
    tli_integer_range(dtype, &low, &high);
    TL_ASSERT(!tl_dtype_is_float(dtype));
    if (numbers[0] > (double)high || numbers[1] < (double)low)
        return TL_FAIL(
            TL_EUNSUPPORTED,
            "clip of %s between %g and %g, which it cannot hold; leave it to the op's own kernel",
            tl_dtype_name(dtype), numbers[0], numbers[1]);
    for (int i = 0; i < 2; i++) {
        out[i].l = 0;
        if (dtype == TL_I64) out[i].l = between(numbers[i], low, high);
        else out[i].i = (int32_t)between(numbers[i], low, high);
    }
    return TL_OK;
}

tl_status tli_op_params(tli_value out[2], tl_op op, tl_dtype dtype, const void *attr)
{
    const tli_kind kind = tli_kind_of(dtype);
    double numbers[TLI_ATTR_NUMBERS];
    tli_attr_numbers(numbers, tl_op_class_of(op)->attr, attr);
    TL_ASSERT(tli_nest_op_of(op) && tli_nest_op_of(op)->params <= 2);
    if (op == TL_OP_clip && !tl_dtype_is_float(dtype)) return clip_bounds(out, dtype, numbers);
    for (int i = 0; i < 2; i++) {
        out[i].l = 0;
        if (kind == TLI_KIND_F) out[i].f = (float)numbers[i];
        else if (kind == TLI_KIND_D) out[i].d = numbers[i];
        else if (kind == TLI_KIND_L) out[i] = tli_value_of(TL_I64, numbers[i]);
        else out[i].i = (int32_t)tli_value_of(TL_I64, numbers[i]).l; // only the low digits count
    }
    return TL_OK;
}

tli_value tli_reduce_start(tl_op op, tli_kind kind)
{
    tli_value v = {.l = 0};
    const bool largest = op == TL_OP_min;
    TL_ASSERT(kind < TLI_KIND_COUNT && tli_nest_op_of(op) && tli_nest_op_of(op)->reduces);
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
