/* Ops on each element, for float32, bfloat16 and float16. Rows that are plain float32 go through as
 * they are; others in pieces that stay in the first cache, which are brought into that form,
 * computed, and stored. */
#include "core/inner/attr_numbers.h"
#include "cpu/loop.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/math.h"
#include "cpu/simd/simd.h"

/* Floats that are brought into form at a time: three of them are 6 KiB, in the first-level cache */
enum { PIECE = 512 };
_Static_assert(PIECE % (4 * VF) == 0, "pieces are whole rounds of the loops");

/* --- pieces ----------------------------------------------------------------------------------- */

#define UNROLLED_4(...) _Pragma("GCC unroll 4") for (__VA_ARGS__)

/* m elements from i on; where m is VF, as in most rounds, the compiler knows it. */
#define VECTORS(...)                                                                               \
    int64_t i = 0;                                                                                 \
    UNROLLED_4(; i + VF <= n; i += VF) {                                                           \
        const int64_t m = VF;                                                                      \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    if (i < n) {                                                                                   \
        const int64_t m = n - i;                                                                   \
        __VA_ARGS__;                                                                               \
    }

static float one_value(tl_dtype dtype, const char *p)
{
    if (dtype == TL_F32) return *(const float *)p;
    return dtype == TL_BF16 ? tli_from_bf16(*(const uint16_t *)p)
                            : tli_from_f16(*(const uint16_t *)p);
}

/* One operand of a row: gives its pieces as float32 without gaps. */
typedef struct source {
    tl_dtype dtype;
    const char *data;
    int64_t step;
    float *buffer; /* of PIECE */
} source;

static source source_of(tl_dtype dtype, const char *data, int64_t step, float *buffer, int64_t n)
{
    TL_ASSERT(dtype == TL_F32 || dtype == TL_BF16 || dtype == TL_F16);
    if (step == 0) { // one number for the whole row: the buffer is filled once
        const float value = one_value(dtype, data);
        for (int64_t i = 0, count = n < PIECE ? n : PIECE; i < count; i++) buffer[i] = value;
    }
    return (source){dtype, data, step, buffer};
}

static bool is_plain(const source *s)
{
    return s->dtype == TL_F32 && s->step == 1;
}

TLI_INLINE const float *piece(const source *s, int64_t at, int64_t n)
{
    const size_t size = s->dtype == TL_F32 ? 4 : 2;
    const char *p = s->data + at * s->step * (int64_t)size;
    if (s->step == 0) return s->buffer;
    if (s->step != 1) {
        for (int64_t i = 0; i < n; i++, p += s->step * (int64_t)size)
            s->buffer[i] = one_value(s->dtype, p);
        return s->buffer;
    }
    if (s->dtype == TL_F32) return (const float *)p;
    any_widen(s->buffer, s->dtype, p, n);
    return s->buffer;
}

/* --- rows ------------------------------------------------------------------------------------- */

typedef void unary_fn(float *y, const float *x, int64_t n);
typedef void number_fn(float *y, const float *x, const float *numbers, int64_t n);
typedef void binary_fn(float *y, const float *a, const float *b, int64_t n);
typedef void compare_fn(uint8_t *y, const float *a, const float *b, int64_t n);
typedef void test_fn(uint8_t *y, const float *x, int64_t n);

typedef struct job {
    tl_dtype dtype;
    unary_fn *unary;
    number_fn *number;
    binary_fn *binary;
    compare_fn *compare;
    test_fn *test;
    float numbers[2];
} job;

static tl_status unary_row(void *payload, char *const *data, const int64_t *step, int64_t n)
{
    const job *j = payload;
    float x_buffer[PIECE], y_buffer[PIECE];
    const bool direct = j->dtype == TL_F32;
    source x = source_of(j->dtype, data[1], step[1], x_buffer, n);
    TL_ASSERT(n > 0 && (j->unary || j->number));
    const int64_t size = is_plain(&x) ? n : PIECE;
    for (int64_t i = 0; i < n; i += size) {
        const int64_t m = n - i < size ? n - i : size;
        float *y = direct ? (float *)data[0] + i : y_buffer;
        if (j->unary) j->unary(y, piece(&x, i, m), m);
        else j->number(y, piece(&x, i, m), j->numbers, m);
        if (!direct) any_narrow(j->dtype, data[0] + 2 * i, y, m);
    }
    return TL_OK;
}

static tl_status binary_row(void *payload, char *const *data, const int64_t *step, int64_t n)
{
    const job *j = payload;
    float a_buffer[PIECE], b_buffer[PIECE], y_buffer[PIECE];
    const bool direct = j->dtype == TL_F32;
    source a = source_of(j->dtype, data[1], step[1], a_buffer, n);
    source b = source_of(j->dtype, data[2], step[2], b_buffer, n);
    const int64_t size = is_plain(&a) && is_plain(&b) ? n : PIECE;
    for (int64_t i = 0; i < n; i += size) {
        const int64_t m = n - i < size ? n - i : size;
        float *y = direct ? (float *)data[0] + i : y_buffer;
        j->binary(y, piece(&a, i, m), piece(&b, i, m), m);
        if (!direct) any_narrow(j->dtype, data[0] + 2 * i, y, m);
    }
    return TL_OK;
}

static tl_status compare_row(void *payload, char *const *data, const int64_t *step, int64_t n)
{
    const job *j = payload;
    float a_buffer[PIECE], b_buffer[PIECE];
    source a = source_of(j->dtype, data[1], step[1], a_buffer, n);
    source b = source_of(j->dtype, data[2], step[2], b_buffer, n);
    const int64_t size = is_plain(&a) && is_plain(&b) ? n : PIECE;
    for (int64_t i = 0; i < n; i += size) {
        const int64_t m = n - i < size ? n - i : size;
        j->compare((uint8_t *)data[0] + i, piece(&a, i, m), piece(&b, i, m), m);
    }
    return TL_OK;
}

static tl_status test_row(void *payload, char *const *data, const int64_t *step, int64_t n)
{
    const job *j = payload;
    float buffer[PIECE];
    source x = source_of(j->dtype, data[1], step[1], buffer, n);
    const int64_t size = is_plain(&x) ? n : PIECE;
    for (int64_t i = 0; i < n; i += size) {
        const int64_t m = n - i < size ? n - i : size;
        j->test((uint8_t *)data[0] + i, piece(&x, i, m), m);
    }
    return TL_OK;
}

static tl_status where_row(void *payload, char *const *data, const int64_t *step, int64_t n)
{
    const job *j = payload;
    float a_buffer[PIECE], b_buffer[PIECE], y_buffer[PIECE];
    const bool direct = j->dtype == TL_F32;
    source a = source_of(j->dtype, data[2], step[2], a_buffer, n);
    source b = source_of(j->dtype, data[3], step[3], b_buffer, n);
    const uint8_t *condition = (const uint8_t *)data[1];
    const int64_t size = is_plain(&a) && is_plain(&b) ? n : PIECE;
    for (int64_t i = 0; i < n; i += size) {
        const int64_t m = n - i < size ? n - i : size;
        float *y = direct ? (float *)data[0] + i : y_buffer;
        const float *pa = piece(&a, i, m), *pb = piece(&b, i, m);
        if (step[1] == 1) {
            int64_t k = 0;
            for (; k + VF <= m; k += VF)
                vf_store(y + k, vf_select(vm_load_bool(condition + i + k), vf_load(pa + k),
                                          vf_load(pb + k)));
            for (; k < m; k++) y[k] = condition[i + k] ? pa[k] : pb[k];
        } else {
            for (int64_t k = 0; k < m; k++) y[k] = condition[(i + k) * step[1]] ? pa[k] : pb[k];
        }
        if (!direct) any_narrow(j->dtype, data[0] + 2 * i, y, m);
    }
    return TL_OK;
}

/* --- functions of pieces ---------------------------------------------------------------------- */

TLI_INLINE vf get(const float *p, int64_t i, int64_t m)
{
    return any_load(TL_F32, p, i, m);
}

TLI_INLINE void put(float *p, int64_t i, vf x, int64_t m)
{
    any_store(TL_F32, p, i, x, m);
}

TLI_INLINE void put_bools(uint8_t *p, int64_t i, vm x, int64_t m)
{
    if (m == VF) vm_store_bool(p + i, x);
    else vm_store_bool_n(p + i, x, m);
}

#define BINARY_PIECE(name)                                                                         \
    static void name##_piece(float *y, const float *pa, const float *pb, int64_t n)                \
    {                                                                                              \
        VECTORS(const vf a = get(pa, i, m), b = get(pb, i, m); put(y, i, vf_##name(a, b), m))      \
    }
#define COMPARE_PIECE(name)                                                                        \
    static void name##_piece(uint8_t *y, const float *pa, const float *pb, int64_t n)              \
    {                                                                                              \
        VECTORS(const vf a = get(pa, i, m), b = get(pb, i, m);                                     \
                put_bools(y, i, vf_##name(a, b), m))                                               \
    }
#define TEST_PIECE(name)                                                                           \
    static void name##_piece(uint8_t *y, const float *px, int64_t n)                               \
    {                                                                                              \
        VECTORS(const vf x = get(px, i, m); put_bools(y, i, vf_##name(x), m))                      \
    }
#define NUMBER_PIECE(name)                                                                         \
    static void name##_piece(float *y, const float *px, const float *numbers, int64_t n)           \
    {                                                                                              \
        const vf p = vf_set1(numbers[0]);                                                          \
        VECTORS(const vf x = get(px, i, m); put(y, i, vf_##name(x, p), m))                         \
    }
#define NUMBERS_PIECE(name)                                                                        \
    static void name##_piece(float *y, const float *px, const float *numbers, int64_t n)           \
    {                                                                                              \
        const vf p = vf_set1(numbers[0]), q = vf_set1(numbers[1]);                                 \
        VECTORS(const vf x = get(px, i, m); put(y, i, vf_##name(x, p, q), m))                      \
    }

/* --- kernels ---------------------------------------------------------------------------------- */

static tl_status run_job(const tl_run *run, const tl_node *n, tli_loop_fn *row, job *j,
                         tl_dtype dtype)
{
    tli_loop l;
    TL_ASSERT(n->inputs + 1 <= TLI_LOOP_MOST
              && (dtype == TL_F32 || dtype == TL_BF16 || dtype == TL_F16));
    const tl_tensor *operands[TLI_LOOP_MOST] = {n->out[0]};
    for (int i = 0; i < n->inputs; i++) operands[i + 1] = n->in[i];
    tli_loop_init(&l, &n->out[0]->shape, n->inputs + 1, operands);
    TL_ASSERT(l.step[0] == 1 || l.n == 1); // rows of the result have no gaps
    j->dtype = dtype;
    return tli_loop_run(run->threads, &l, row, j);
}

#define KERNEL(name, row, ...)                                                                     \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        job j = {__VA_ARGS__};                                                                     \
        return run_job(run, n, row, &j, n->in[n->inputs - 1]->dtype);                              \
    }
// With the numbers of its attributes.
#define NUMBERED_KERNEL(name)                                                                      \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        double numbers[TLI_ATTR_NUMBERS];                                                          \
        tli_attr_numbers(numbers, n->op->attr, n->attr);                                           \
        job j = {.number = name##_piece, .numbers = {(float)numbers[0], (float)numbers[1]}};       \
        return run_job(run, n, unary_row, &j, n->in[0]->dtype);                                    \
    }
#define MATH(name) TLI_ISA_NAME(tli_unary_fns).name

/* What each form of a row is (core/elementwise.def). */
#define FORM_UNARY(name) KERNEL(name, unary_row, .unary = MATH(name))
#define FORM_BINARY(name) BINARY_PIECE(name) KERNEL(name, binary_row, .binary = name##_piece)
#define FORM_SLOPE(name) FORM_BINARY(name)
#define FORM_COMPARE(name) COMPARE_PIECE(name) KERNEL(name, compare_row, .compare = name##_piece)
#define FORM_TEST(name) TEST_PIECE(name) KERNEL(name, test_row, .test = name##_piece)
#define FORM_NUMBER(name) NUMBER_PIECE(name) NUMBERED_KERNEL(name)
#define FORM_NUMBERS(name) NUMBERS_PIECE(name) NUMBERED_KERNEL(name)
#define FORM_WHERE(name) KERNEL(name, where_row, .unary = NULL)
#define FORM_EITHER(name) // below
#define FORM_SLOPE_EITHER(name) BINARY_PIECE(name)

/* The kinds that are computed in float. */
#define FLOAT_F(X, name) X(name)
#define FLOAT_FD(X, name) X(name)
#define FLOAT_FIL(X, name) X(name)
#define FLOAT_FDIL(X, name) X(name)
#define FLOAT_FDILB(X, name) X(name)
#define FLOAT_IL(X, name)
#define FLOAT_B(X, name)
#define FLOAT_ANY(X, name) // casts: cast.c

static bool is_approximate(const tl_node *n)
{
    return ((const tl_gelu_attr *)n->attr)->approximate;
}
#define EITHER_UNARY(name, other)                                                                  \
    KERNEL(name, unary_row, .unary = is_approximate(n) ? MATH(other) : MATH(name))
#define EITHER_SLOPE(name, other)                                                                  \
    BINARY_PIECE(other)                                                                            \
    KERNEL(name, binary_row, .binary = is_approximate(n) ? other##_piece : name##_piece)

#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    FLOAT_##kinds(FORM_##form, op)
#define TL_EITHER(op, form, formula) EITHER_##form(op, formula)
#include <tilth/core/elementwise.def>

// clang-format off
#define ROWS(name)                                                                                 \
    {TL_OP_##name, TL_F32, name##_kernel, TL_KERNEL_STRIDED},                                      \
    {TL_OP_##name, TL_BF16, name##_kernel, TL_KERNEL_STRIDED},                                     \
    {TL_OP_##name, TL_F16, name##_kernel, TL_KERNEL_STRIDED},
// clang-format on
static const tl_kernel rows[] = {
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    FLOAT_##kinds(ROWS, op)
#include <tilth/core/elementwise.def>
};
TLI_SIMD_KERNELS(elementwise, rows);
