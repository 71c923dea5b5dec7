#include <math.h>

#include "core/inner/attr_numbers.h"
#include "core/inner/integer.h"
#include "cpu/ref/meaning.h"
#include "cpu/ref/ref.h"

/* --- integers --------------------------------------------------------------------------------- */
/* They wrap around at the ends of int64, and again when they are stored in a narrower type. */

typedef int64_t int_fn(int64_t a, int64_t b, double p, double q);

#define INTS(name, expression)                                                                     \
    static int64_t name##_ints(int64_t a, int64_t b, double p, double q)                           \
    {                                                                                              \
        (void)a, (void)b, (void)p, (void)q;                                                        \
        return (int64_t)(expression);                                                              \
    }

// What a negative power leaves when it is cut towards zero.
static int64_t inverse_power(int64_t a, int64_t b)
{
    if (a == 1) return 1;
    if (a == -1) return b % 2 ? -1 : 1;
    return 0;
}

static int64_t power(int64_t a, int64_t b)
{
    if (b < 0) return inverse_power(a, b);
    uint64_t out = 1, square = (uint64_t)a;
    for (; b; b >>= 1, square *= square)
        if (b & 1) out *= square;
    return (int64_t)out;
}

static int64_t rest(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) return 0; // INT64_MIN % -1 traps
    int64_t out = a % b;
    return out != 0 && (out < 0) != (b < 0) ? out + b : out;
}

static int64_t quotient(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a); // INT64_MIN / -1 traps
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// An infinite bound is none; other bounds are whole numbers that int64 holds.
static int64_t between(int64_t x, double low, double high)
{
    if (!isinf(low) && x < (int64_t)low) return (int64_t)low;
    if (!isinf(high) && x > (int64_t)high) return (int64_t)high;
    return x;
}

// clang-format off
INTS(add, (uint64_t)a + (uint64_t)b)
INTS(sub, (uint64_t)a - (uint64_t)b)
INTS(mul, (uint64_t)a * (uint64_t)b)
INTS(pow, power(a, b))
INTS(minimum, a < b ? a : b)
INTS(maximum, a > b ? a : b)
INTS(floor_divide, quotient(a, b))
INTS(mod, rest(a, b))
INTS(affine, (uint64_t)a * (uint64_t)(int64_t)p + (uint64_t)(int64_t)q)
INTS(clip, between(a, p, q))
INTS(neg, -(uint64_t)a)
INTS(abs, a < 0 ? -(uint64_t)a : (uint64_t)a)
INTS(sign, (a > 0) - (a < 0))
INTS(square, (uint64_t)a * (uint64_t)a)
// clang-format on

// Comparisons and logic mean the same of integers.
#define SAME_UNARY(name, meaning)
#define SAME_BINARY(name, meaning)
#define SAME_NUMBER(name, meaning)
#define SAME_NUMBERS(name, meaning)
#define SAME_EITHER(name, meaning)
#define SAME_SLOPE(name, meaning)
#define SAME_SLOPE_EITHER(name, meaning)
#define SAME_TEST(name, meaning)
#define SAME_WHERE(name, meaning)
#define SAME_CAST(name, meaning)
#define SAME_COMPARE(name, meaning) INTS(name, meaning)
#define SAME_LOGIC(name, meaning) INTS(name, meaning)
#define SAME_NOT(name, meaning)                                                                    \
    static int64_t name##_ints(int64_t x, int64_t b, double p, double q)                           \
    {                                                                                              \
        (void)b, (void)p, (void)q;                                                                 \
        return meaning;                                                                            \
    }
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    SAME_##form(op, meaning)
#include <tilth/core/elementwise.def>

/* --- each element ----------------------------------------------------------------------------- */

typedef struct functions {
    tli_meaning *of_doubles;
    int_fn *of_ints; /* NULL: it takes floats only */
} functions;

#define INTS_F(op) NULL
#define INTS_FD(op) NULL
#define INTS_B(op) op##_ints
#define INTS_IL(op) op##_ints
#define INTS_FIL(op) op##_ints
#define INTS_FDIL(op) op##_ints
#define INTS_FDILB(op) op##_ints
#define INTS_ANY(op) NULL
static const functions all[] = {
#define where_ints NULL // it has a loop of its own
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    [TL_OP_##op] = {meaning_of_##op, INTS_##kinds(op)},
#include <tilth/core/elementwise.def>
};

static tl_status one_kernel(const tl_run *run, const tl_node *n)
{
    const functions f = all[n->op->op];
    const tl_tensor *x = n->in[0], *y = n->out[0];
    const bool floats = tl_dtype_is_float(x->dtype);
    TL_ASSERT(floats ? f.of_doubles != NULL : f.of_ints != NULL);
    double numbers[TLI_ATTR_NUMBERS];
    (void)run;
    tli_attr_numbers(numbers, n->op->attr, n->attr);
    const double p = numbers[0], q = numbers[1];
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        const int64_t at = tli_ref_offset(x, &y->shape, i);
        if (floats) tli_ref_set(y, i, f.of_doubles(tli_ref_get(x, at), 0, p, q));
        else tli_ref_set_int(y, i, f.of_ints(tli_ref_get_int(x, at), 0, p, q));
    }
    return TL_OK;
}

static tl_status two_kernel(const tl_run *run, const tl_node *n)
{
    const functions f = all[n->op->op];
    const tl_tensor *a = n->in[0], *b = n->in[1], *y = n->out[0];
    const bool floats = tl_dtype_is_float(a->dtype);
    TL_ASSERT((floats ? f.of_doubles != NULL : f.of_ints != NULL) && a->dtype == b->dtype);
    double numbers[TLI_ATTR_NUMBERS];
    (void)run;
    tli_attr_numbers(numbers, n->op->attr, n->attr);
    const double p = numbers[0], q = numbers[1];
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        const int64_t u = tli_ref_offset(a, &y->shape, i), v = tli_ref_offset(b, &y->shape, i);
        if (floats) tli_ref_set(y, i, f.of_doubles(tli_ref_get(a, u), tli_ref_get(b, v), p, q));
        else tli_ref_set_int(y, i, f.of_ints(tli_ref_get_int(a, u), tli_ref_get_int(b, v), p, q));
    }
    return TL_OK;
}

/* --- choice ----------------------------------------------------------------------------------- */

static tl_status where_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *condition = n->in[0], *y = n->out[0];
    bool floats = tl_dtype_is_float(y->dtype);
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        bool yes = tli_ref_get_int(condition, tli_ref_offset(condition, &y->shape, i));
        const tl_tensor *from = yes ? n->in[1] : n->in[2];
        int64_t at = tli_ref_offset(from, &y->shape, i);
        if (floats) tli_ref_set(y, i, tli_ref_get(from, at));
        else tli_ref_set_int(y, i, tli_ref_get_int(from, at));
    }
    return TL_OK;
}

/* --- casts ------------------------------------------------------------------------------------ */

// A double that rounds to any narrower float as the integer itself would: where it cannot be the
// integer, it is the odd one of the two beside it, which no narrower type holds or halves.
static double odd_double(int64_t value)
{
    enum { EXACT = 53 };
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value, lost = 0;
    int shift = 0;
    for (; size >> shift >= UINT64_C(1) << EXACT; shift++) lost |= size >> shift & 1;
    double cut = ldexp((double)(size >> shift | lost), shift);
    return value < 0 ? -cut : cut;
}

static int64_t saturate(tl_dtype dtype, double value)
{
    int64_t low, high;
    tli_integer_range(dtype, &low, &high);
    if (value != value) return 0;
    if (value <= (double)low) return low;
    return value >= (double)high ? high : (int64_t)value;
}

static tl_status cast_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *x = n->in[0], *y = n->out[0];
    tl_dtype_class from = tl_dtype_classify(x->dtype), to = tl_dtype_classify(y->dtype);
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        int64_t at = tli_ref_offset(x, &y->shape, i);
        if (from != TL_CLASS_FLOAT && to != TL_CLASS_FLOAT)
            tli_ref_set_int(y, i, tli_ref_get_int(x, at));
        else if (to == TL_CLASS_INT) tli_ref_set_int(y, i, saturate(y->dtype, tli_ref_get(x, at)));
        else if (x->dtype == TL_I64 && y->dtype != TL_F64)
            tli_ref_set(y, i, odd_double(tli_ref_get_int(x, at)));
        else tli_ref_set(y, i, tli_ref_get(x, at));
    }
    return TL_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

#define KERNEL_UNARY one_kernel
#define KERNEL_BINARY two_kernel
#define KERNEL_TEST one_kernel
#define KERNEL_COMPARE two_kernel
#define KERNEL_LOGIC two_kernel
#define KERNEL_NOT one_kernel
#define KERNEL_NUMBER one_kernel
#define KERNEL_NUMBERS one_kernel
#define KERNEL_EITHER one_kernel
#define KERNEL_SLOPE two_kernel
#define KERNEL_SLOPE_EITHER two_kernel
#define KERNEL_WHERE where_kernel
#define KERNEL_CAST cast_kernel
static const tl_kernel rows[] = {
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    {TL_OP_##op, TL_DTYPE_COUNT, KERNEL_##form, TL_KERNEL_STRIDED},
#include <tilth/core/elementwise.def>
};
const tl_kernels tli_ref_elementwise = {rows, TL_COUNT(rows)};
