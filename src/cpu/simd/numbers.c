/* Ops on each element of float64, of integers and of truth values: plain loops, which compilers
 * make vectors of. Integers are computed in their own width and wrap, which gives the bits that
 * int64 would give when it is stored in it. */
#include <math.h>

#include "cpu/loop.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/vec.h"

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
        const tl_affine_attr *attr = payload;                                                      \
        (void)attr;                                                                                \
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
    const tl_tensor *operands[TLI_LOOP_MOST] = {n->out[0]};
    for (int i = 0; i < n->inputs; i++) operands[i + 1] = n->in[i];
    tli_loop_init(&l, &n->out[0]->shape, n->inputs + 1, operands);
    return tli_loop_run(run->threads, &l, row, (void *)n->attr);
}

#define KERNEL(name)                                                                               \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        return run_rows(run, n, name##_row);                                                       \
    }
#define BINARY(name, type, result, expression)                                                     \
    BINARY_ROW(name##_row, type, result, expression)                                               \
    KERNEL(name)
#define UNARY(name, type, result, expression)                                                      \
    UNARY_ROW(name##_row, type, result, expression)                                                \
    KERNEL(name)

/* --- float64 ------------------------------------------------------------------------------------
 */

BINARY(add_f64, double, double, a + b)
BINARY(sub_f64, double, double, a - b)
BINARY(mul_f64, double, double, a *b)
BINARY(div_f64, double, double, a / b)
BINARY(minimum_f64, double, double, a != a || a < b ? a : b)
BINARY(maximum_f64, double, double, a != a || a > b ? a : b)
BINARY(equal_f64, double, uint8_t, a == b)
BINARY(not_equal_f64, double, uint8_t, a != b)
BINARY(less_f64, double, uint8_t, a < b)
BINARY(less_equal_f64, double, uint8_t, a <= b)
BINARY(relu_grad_f64, double, double, b > 0 ? a : 0)
UNARY(neg_f64, double, double, -x)
UNARY(abs_f64, double, double, fabs(x))
UNARY(square_f64, double, double, x *x)
UNARY(sqrt_f64, double, double, sqrt(x))
UNARY(reciprocal_f64, double, double, 1 / x)
UNARY(relu_f64, double, double, x > 0 || x != x ? x : 0)
UNARY(affine_f64, double, double, x *attr->scale + attr->shift)
WHERE_ROW(where_f64_row, double)
KERNEL(where_f64)

/* --- integers -----------------------------------------------------------------------------------
 */

/*    name, type, unsigned type in which it wraps (not promoted to a signed one) */
#define INTEGERS(X)                                                                                \
    X(i8, int8_t, uint32_t) X(u8, uint8_t, uint32_t) X(i16, int16_t, uint32_t)                     \
    X(i32, int32_t, uint32_t) X(i64, int64_t, uint64_t)

#define INTEGER_KERNELS(t, type, wraps)                                                            \
    BINARY(add_##t, type, type, (wraps)a + (wraps)b)                                               \
    BINARY(sub_##t, type, type, (wraps)a - (wraps)b)                                               \
    BINARY(mul_##t, type, type, (wraps)a *(wraps)b)                                                \
    BINARY(minimum_##t, type, type, a < b ? a : b)                                                 \
    BINARY(maximum_##t, type, type, a > b ? a : b)                                                 \
    BINARY(equal_##t, type, uint8_t, a == b)                                                       \
    BINARY(not_equal_##t, type, uint8_t, a != b)                                                   \
    BINARY(less_##t, type, uint8_t, a < b)                                                         \
    BINARY(less_equal_##t, type, uint8_t, a <= b)                                                  \
    UNARY(neg_##t, type, type, -(wraps)x)                                                          \
    UNARY(abs_##t, type, type, x > 0 ? (wraps)x : -(wraps)x)                                       \
    UNARY(square_##t, type, type, (wraps)x *(wraps)x)                                              \
    UNARY(affine_##t, type, type,                                                                  \
          (wraps)x *(wraps)(int64_t)attr->scale + (wraps)(int64_t)attr->shift)                     \
    WHERE_ROW(where_##t##_row, type)                                                               \
    KERNEL(where_##t)
INTEGERS(INTEGER_KERNELS)

/* --- truth
 * ---------------------------------------------------------------------------------------- */

BINARY(logical_and, uint8_t, uint8_t, a != 0 && b != 0)
BINARY(logical_or, uint8_t, uint8_t, (a | b) != 0)
BINARY(logical_xor, uint8_t, uint8_t, (a != 0) != (b != 0))
UNARY(logical_not, uint8_t, uint8_t, x == 0)

/* --- the table ----------------------------------------------------------------------------------
 */

#define ROW(name, type, t) {TL_OP_##name, type, name##_##t##_kernel, TL_KERNEL_STRIDED},
#define COMMON_ROWS(type, t)                                                                       \
    ROW(add, type, t) ROW(sub, type, t) ROW(mul, type, t) ROW(minimum, type, t)                    \
    ROW(maximum, type, t) ROW(equal, type, t) ROW(not_equal, type, t) ROW(less, type, t)           \
    ROW(less_equal, type, t) ROW(neg, type, t) ROW(abs, type, t) ROW(square, type, t)              \
    ROW(affine, type, t) ROW(where, type, t)
#define TRUTH_ROW(name) {TL_OP_##name, TL_BOOL, name##_kernel, TL_KERNEL_STRIDED},
static const tl_kernel rows[] = {
    COMMON_ROWS(TL_F64, f64) ROW(div, TL_F64, f64) ROW(relu_grad, TL_F64, f64)
    ROW(sqrt, TL_F64, f64) ROW(reciprocal, TL_F64, f64) ROW(relu, TL_F64, f64)
    COMMON_ROWS(TL_I8, i8) COMMON_ROWS(TL_U8, u8) COMMON_ROWS(TL_I16, i16)
    COMMON_ROWS(TL_I32, i32) COMMON_ROWS(TL_I64, i64)
    TRUTH_ROW(logical_and) TRUTH_ROW(logical_or) TRUTH_ROW(logical_xor) TRUTH_ROW(logical_not)
};
TLI_SIMD_KERNELS(numbers, rows);
