/* Ops on each element of float64, of integers and of truth values: plain loops around the formulas
 * of number.h, which compilers make vectors of. Shorter integers are computed in int32 and wrap,
 * which gives the bits that int64 would give when it is stored in them. */
#include "core/inner/attr_numbers.h"
#include "cpu/loop.h"
#include "cpu/simd/kernels.h"

#include "nest/inner/number.h"

// Compilers compute in the shorter types where the formula itself ends in them.
INTS(i8, int8_t, uint32_t)
INTS(i16, int16_t, uint32_t)

// One row of two inputs. Most rows lie without gaps, or one input is a single number.
#define BINARY_ROW(name, type, result, expression)                                                 \
    static tl_status name(void *payload, char *const *data, const int64_t *step, int64_t n)        \
    {                                                                                              \
        result *restrict y = (result *)data[0];                                                    \
        const type *pa = (const type *)data[1], *pb = (const type *)data[2];                       \
        (void)payload;                                                                             \
        if (step[1] == 1 && step[2] == 1) {                                                        \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const type a = pa[i], b = pb[i];                                                   \
                y[i] = (result)(expression);                                                       \
            }                                                                                      \
        } else if (step[1] == 1 && step[2] == 0) {                                                 \
            const type b = *pb;                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const type a = pa[i];                                                              \
                y[i] = (result)(expression);                                                       \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const type a = pa[i * step[1]], b = pb[i * step[2]];                               \
                y[i] = (result)(expression);                                                       \
            }                                                                                      \
        }                                                                                          \
        return TL_OK;                                                                              \
    }

#define UNARY_ROW(name, type, result, expression)                                                  \
    static tl_status name(void *payload, char *const *data, const int64_t *step, int64_t n)        \
    {                                                                                              \
        result *restrict y = (result *)data[0];                                                    \
        const type *px = (const type *)data[1];                                                    \
        const double *p = payload;                                                                 \
        (void)p;                                                                                   \
        if (step[1] == 1) {                                                                        \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const type x = px[i];                                                              \
                y[i] = (result)(expression);                                                       \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const type x = px[i * step[1]];                                                    \
                y[i] = (result)(expression);                                                       \
            }                                                                                      \
        }                                                                                          \
        return TL_OK;                                                                              \
    }

#define WHERE_ROW(name, type)                                                                      \
    static tl_status name(void *payload, char *const *data, const int64_t *step, int64_t n)        \
    {                                                                                              \
        type *restrict y = (type *)data[0];                                                        \
        const uint8_t *condition = (const uint8_t *)data[1];                                       \
        const type *pa = (const type *)data[2], *pb = (const type *)data[3];                       \
        (void)payload;                                                                             \
        if (step[1] == 1 && step[2] == 1 && step[3] == 1) {                                        \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const type a = pa[i], b = pb[i];                                                   \
                y[i] = condition[i] ? a : b;                                                       \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const type a = pa[i * step[2]], b = pb[i * step[3]];                               \
                y[i] = condition[i * step[1]] ? a : b;                                             \
            }                                                                                      \
        }                                                                                          \
        return TL_OK;                                                                              \
    }

static tl_status run_rows(const tl_run *run, const tl_node *n, tli_loop_fn *row)
{
    tli_loop l;
    double numbers[TLI_ATTR_NUMBERS];
    const tl_tensor *operands[TLI_LOOP_MOST] = {n->out[0]};
    TL_ASSERT(n->inputs + 1 <= TLI_LOOP_MOST && n->outputs == 1);
    for (int i = 0; i < n->inputs; i++) operands[i + 1] = n->in[i];
    tli_attr_numbers(numbers, n->op->attr, n->attr);
    tli_loop_init(&l, &n->out[0]->shape, n->inputs + 1, operands);
    return tli_loop_run(run->threads, &l, row, numbers);
}

#define KERNEL(name)                                                                               \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        return run_rows(run, n, name##_row);                                                       \
    }

/* What each form of a row is (core/elementwise.def), of the type t, with the formula of kind k. */
#define UNARY(op, t, type, k)                                                                      \
    UNARY_ROW(op##_##t##_row, type, type, op##_##k(x))                                             \
    KERNEL(op##_##t)
#define TEST(op, t, type, k)                                                                       \
    UNARY_ROW(op##_##t##_row, type, uint8_t, op##_##k(x))                                          \
    KERNEL(op##_##t)
#define BINARY(op, t, type, k)                                                                     \
    BINARY_ROW(op##_##t##_row, type, type, op##_##k(a, b))                                         \
    KERNEL(op##_##t)
#define COMPARE(op, t, type, k)                                                                    \
    BINARY_ROW(op##_##t##_row, type, uint8_t, op##_##k(a, b))                                      \
    KERNEL(op##_##t)
#define SLOPE(op, t, type, k) BINARY(op, t, type, k)
#define WHERE(op, t, type, k)                                                                      \
    WHERE_ROW(op##_##t##_row, type)                                                                \
    KERNEL(op##_##t)
#define NUMBER(op, t, type, k)                                                                     \
    UNARY_ROW(op##_##t##_row, type, type, op##_##k(x, p[0]))                                       \
    KERNEL(op##_##t)
#define NUMBERS(op, t, type, k) NUMBERS_##k(op, t, type)
#define NUMBERS_d(op, t, type)                                                                     \
    UNARY_ROW(op##_##t##_row, type, type, op##_d(x, p[0], p[1]))                                   \
    KERNEL(op##_##t)
// Bounds that a shorter type cannot hold do not wrap: clip is computed in int64.
#define NUMBERS_i(op, t, type) NUMBERS_##op(t, type, i, i32)
#define NUMBERS_i8(op, t, type) NUMBERS_##op(t, type, i, i32)
#define NUMBERS_i16(op, t, type) NUMBERS_##op(t, type, i, i32)
#define NUMBERS_l(op, t, type) NUMBERS_##op(t, type, l, i64)
#define NUMBERS_affine(t, type, k, T)                                                              \
    UNARY_ROW(affine_##t##_row, type, type, affine_##k(x, (T)(int64_t)p[0], (T)(int64_t)p[1]))     \
    KERNEL(affine_##t)
#define NUMBERS_clip(t, type, k, T)                                                                \
    UNARY_ROW(clip_##t##_row, type, type, clip_l(x, whole(p[0]), whole(p[1])))                     \
    KERNEL(clip_##t)

// Infinite bounds are the ends of int64.
static int64_t whole(double x)
{
    if (x <= (double)INT64_MIN) return INT64_MIN;
    return x >= (double)INT64_MAX ? INT64_MAX : (int64_t)x;
}

/* The types of each kind; X: a form, or ROW. */
#define DOUBLES(X, op) X(op, f64, double, d)
#define INTEGERS(X, op)                                                                            \
    X(op, i8, int8_t, i8)                                                                          \
    X(op, u8, uint8_t, i) X(op, i16, int16_t, i16) X(op, i32, int32_t, i) X(op, i64, int64_t, l)
#define F(X, op)
#define FD(X, op) DOUBLES(X, op)
#define IL(X, op) INTEGERS(X, op)
#define FIL(X, op) INTEGERS(X, op)
#define FDIL(X, op) DOUBLES(X, op) INTEGERS(X, op)
#define FDILB(X, op) FDIL(X, op)
#define B(X, op) X(op, truth, uint8_t, i)
#define ANY(X, op) // casts: cast.c
// A truth value in memory may be any number but 0.
#define LOGIC(op, t, type, k)                                                                      \
    BINARY_ROW(op##_##t##_row, type, type, op##_##k(a != 0, b != 0))                               \
    KERNEL(op##_##t)
#define NOT(op, t, type, k) UNARY(op, t, type, k)

#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient) kinds(form, op)
#include <tilth/core/elementwise.def>

#define TYPE_f64 TL_F64
#define TYPE_i8 TL_I8
#define TYPE_u8 TL_U8
#define TYPE_i16 TL_I16
#define TYPE_i32 TL_I32
#define TYPE_i64 TL_I64
#define TYPE_truth TL_BOOL
#define ROW(op, t, type, k) {TL_OP_##op, TYPE_##t, op##_##t##_kernel, TL_KERNEL_STRIDED},
static const tl_kernel rows[] = {
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient) kinds(ROW, op)
#include <tilth/core/elementwise.def>
};
TLI_SIMD_KERNELS(numbers, rows);
