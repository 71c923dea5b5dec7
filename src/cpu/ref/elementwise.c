#include <math.h>

#include "core/inner/integer.h"
#include "cpu/ref/ref.h"

/* Integers wrap around at the ends of int64, and again when they are stored in a narrower type. */
typedef double double_fn(double a, double b);
typedef int64_t int_fn(int64_t a, int64_t b);

// Either function is NULL when the op does not take such types.
static tl_status binary(const tl_node *n, double_fn *of_doubles, int_fn *of_ints)
{
    const tl_tensor *a = n->in[0], *b = n->in[1], *y = n->out[0];
    bool floats = tl_dtype_is_float(a->dtype);
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        int64_t at_a = tli_ref_offset(a, &y->shape, i), at_b = tli_ref_offset(b, &y->shape, i);
        if (floats)
            tli_ref_set(y, i, of_doubles(tli_ref_get(a, at_a), tli_ref_get(b, at_b)));
        else
            tli_ref_set_int(y, i, of_ints(tli_ref_get_int(a, at_a), tli_ref_get_int(b, at_b)));
    }
    return TL_OK;
}

/* --- arithmetic --------------------------------------------------------------------------------- */

static double add(double a, double b)
{
    return a + b;
}

static int64_t add_ints(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static double sub(double a, double b)
{
    return a - b;
}

static int64_t sub_ints(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static double mul(double a, double b)
{
    return a * b;
}

static int64_t mul_ints(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static double divide(double a, double b)
{
    return a / b;
}

// What a negative power leaves when it is cut towards zero.
static int64_t inverse_power(int64_t a, int64_t b)
{
    if (a == 1) return 1;
    if (a == -1) return b % 2 ? -1 : 1;
    return 0;
}

static int64_t pow_ints(int64_t a, int64_t b)
{
    if (b < 0) return inverse_power(a, b);
    uint64_t power = 1, square = (uint64_t)a;
    for (; b; b >>= 1, square *= square)
        if (b & 1) power *= square;
    return (int64_t)power;
}

// Unlike fmin and fmax, these let NaN through.
static double minimum(double a, double b)
{
    return a != a || a < b ? a : b;
}

static int64_t minimum_ints(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static double maximum(double a, double b)
{
    return a != a || a > b ? a : b;
}

static int64_t maximum_ints(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static double mod(double a, double b)
{
    double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static int64_t mod_ints(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) return 0; // INT64_MIN % -1 traps
    int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// The quotient that fits the rest: a / b alone may round up to a whole number that is too large.
static double floor_divide(double a, double b)
{
    if (b == 0) return a / b;
    double rest = fmod(a, b), whole = rint((a - rest) / b);
    return rest != 0 && (rest < 0) != (b < 0) ? whole - 1 : whole;
}

static int64_t floor_divide_ints(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (b == -1) return sub_ints(0, a); // INT64_MIN / -1 traps
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* --- comparison and logic ------------------------------------------------------------------------ */

#define COMPARISON(name, operation)                                                                \
    static double name(double a, double b)                                                         \
    {                                                                                              \
        return a operation b;                                                                      \
    }                                                                                              \
    static int64_t name##_ints(int64_t a, int64_t b)                                               \
    {                                                                                              \
        return a operation b;                                                                      \
    }
COMPARISON(equal, ==)
COMPARISON(not_equal, !=)
COMPARISON(less, <)
COMPARISON(less_equal, <=)

static int64_t logical_and(int64_t a, int64_t b)
{
    return a && b;
}

static int64_t logical_or(int64_t a, int64_t b)
{
    return a || b;
}

/* --- choice ------------------------------------------------------------------------------------- */

static tl_status where_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *condition = n->in[0], *y = n->out[0];
    bool floats = tl_dtype_is_float(y->dtype);
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        bool yes = tli_ref_get_int(condition, tli_ref_offset(condition, &y->shape, i));
        const tl_tensor *from = yes ? n->in[1] : n->in[2];
        int64_t at = tli_ref_offset(from, &y->shape, i);
        if (floats)
            tli_ref_set(y, i, tli_ref_get(from, at));
        else
            tli_ref_set_int(y, i, tli_ref_get_int(from, at));
    }
    return TL_OK;
}

/* --- casts -------------------------------------------------------------------------------------- */

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
        else if (to == TL_CLASS_INT)
            tli_ref_set_int(y, i, saturate(y->dtype, tli_ref_get(x, at)));
        else if (x->dtype == TL_I64 && y->dtype != TL_F64)
            tli_ref_set(y, i, odd_double(tli_ref_get_int(x, at)));
        else
            tli_ref_set(y, i, tli_ref_get(x, at));
    }
    return TL_OK;
}

/* --- the table ---------------------------------------------------------------------------------- */

#define KERNEL(name, of_doubles, of_ints)                                                          \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        (void)run;                                                                                 \
        return binary(n, of_doubles, of_ints);                                                     \
    }
KERNEL(add, add, add_ints)
KERNEL(sub, sub, sub_ints)
KERNEL(mul, mul, mul_ints)
KERNEL(div, divide, NULL)
KERNEL(pow, pow, pow_ints)
KERNEL(minimum, minimum, minimum_ints)
KERNEL(maximum, maximum, maximum_ints)
KERNEL(floor_divide, floor_divide, floor_divide_ints)
KERNEL(mod, mod, mod_ints)
KERNEL(equal, equal, equal_ints)
KERNEL(not_equal, not_equal, not_equal_ints)
KERNEL(less, less, less_ints)
KERNEL(less_equal, less_equal, less_equal_ints)
KERNEL(logical_and, NULL, logical_and)
KERNEL(logical_or, NULL, logical_or)
KERNEL(logical_xor, NULL, not_equal_ints)

#define ROW(name) {TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED}
static const tl_kernel rows[] = {
    ROW(add), ROW(sub), ROW(mul), ROW(div), ROW(pow), ROW(minimum), ROW(maximum), ROW(floor_divide),
    ROW(mod), ROW(equal), ROW(not_equal), ROW(less), ROW(less_equal), ROW(logical_and),
    ROW(logical_or), ROW(logical_xor), ROW(where), ROW(cast),
};
const tl_kernels tli_ref_elementwise = {rows, TL_COUNT(rows)};
