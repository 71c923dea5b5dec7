/* Ops on each element, for float32, bfloat16 and float16. Rows that are plain float32 go through as
 * they are; others in pieces that stay in the first cache, which are brought into that form,
 * computed, and stored. */
#include "cpu/loop.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/math.h"
#include "cpu/simd/simd.h"

enum { PIECE = 512 };

/* --- pieces -------------------------------------------------------------------------------------
 */

static void widen(tl_dtype dtype, float *to, const char *from, int64_t n)
{
    TLI_VECTORS(i, m, n) any_store(TL_F32, to, i, any_load(dtype, from, i, m), m);
}

static void narrow(tl_dtype dtype, char *to, const float *from, int64_t n)
{
    TLI_VECTORS(i, m, n) any_store(dtype, to, i, any_load(TL_F32, from, i, m), m);
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

static const float *piece(const source *s, int64_t at, int64_t n)
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
    widen(s->dtype, s->buffer, p, n);
    return s->buffer;
}

/* --- rows
 * ----------------------------------------------------------------------------------------- */

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
    const int64_t size = is_plain(&x) ? n : PIECE;
    for (int64_t i = 0; i < n; i += size) {
        const int64_t m = n - i < size ? n - i : size;
        float *y = direct ? (float *)data[0] + i : y_buffer;
        if (j->unary)
            j->unary(y, piece(&x, i, m), m);
        else
            j->number(y, piece(&x, i, m), j->numbers, m);
        if (!direct) narrow(j->dtype, data[0] + 2 * i, y, m);
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
        if (!direct) narrow(j->dtype, data[0] + 2 * i, y, m);
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
        if (!direct) narrow(j->dtype, data[0] + 2 * i, y, m);
    }
    return TL_OK;
}

/* --- functions of pieces
 * ---------------------------------------------------------------------------- */

/* m elements from i on; where m is VF, as in most rounds, the compiler knows it. */
#define VECTORS(...)                                                                               \
    int64_t i = 0;                                                                                 \
    _Pragma("GCC unroll 4") for (; i + VF <= n; i += VF)                                           \
    {                                                                                              \
        const int64_t m = VF;                                                                      \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    if (i < n) {                                                                                   \
        const int64_t m = n - i;                                                                   \
        __VA_ARGS__;                                                                               \
    }

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
    if (m == VF)
        vm_store_bool(p + i, x);
    else
        vm_store_bool_n(p + i, x, m);
}

#define BINARY(name, expression)                                                                   \
    static void name##_piece(float *y, const float *pa, const float *pb, int64_t n)                \
    {                                                                                              \
        VECTORS(const vf a = get(pa, i, m), b = get(pb, i, m); put(y, i, expression, m))           \
    }
BINARY(add, vf_add(a, b))
BINARY(sub, vf_sub(a, b))
BINARY(mul, vf_mul(a, b))
BINARY(div, vf_div(a, b))
BINARY(minimum, vf_min(a, b))
BINARY(maximum, vf_max(a, b))
/* Gradients: a is that of the result. */
BINARY(tanh_grad, vf_mul(a, vf_fnma(b, b, vf_set1(1))))
BINARY(sigmoid_grad, vf_mul(a, vf_mul(b, vf_sub(vf_set1(1), b))))
BINARY(relu_grad, vf_keep(vf_gt(b, vf_zero()), a))

#define COMPARE(name, expression)                                                                  \
    static void name##_piece(uint8_t *y, const float *pa, const float *pb, int64_t n)              \
    {                                                                                              \
        VECTORS(const vf a = get(pa, i, m), b = get(pb, i, m); put_bools(y, i, expression, m))     \
    }
COMPARE(equal, vf_eq(a, b))
COMPARE(not_equal, vf_ne(a, b))
COMPARE(less, vf_lt(a, b))
COMPARE(less_equal, vf_le(a, b))

#define UNARY(name, expression)                                                                    \
    static void name##_piece(float *y, const float *px, int64_t n)                                 \
    {                                                                                              \
        VECTORS(const vf x = get(px, i, m); put(y, i, expression, m))                              \
    }
UNARY(neg, vf_neg(x))
UNARY(sign,
      vf_select(vf_eq(x, vf_zero()), x, vf_select(vf_is_nan(x), x, vf_copysign(vf_set1(1), x))))
UNARY(abs, vf_abs(x))
UNARY(square, vf_mul(x, x))
UNARY(floor, vf_floor(x))
UNARY(ceil, vf_ceil(x))
UNARY(round, vf_round(x))

#define NUMBER(name, expression)                                                                   \
    static void name##_piece(float *y, const float *px, const float *numbers, int64_t n)           \
    {                                                                                              \
        const vf p = vf_set1(numbers[0]), q = vf_set1(numbers[1]);                                 \
        (void)p, (void)q;                                                                          \
        VECTORS(const vf x = get(px, i, m); put(y, i, expression, m))                              \
    }
NUMBER(affine, vf_fma(x, p, q))
NUMBER(clip, vf_min_c(vf_max_c(x, p), q))
NUMBER(elu, vf_elu(x, p))
NUMBER(leaky_relu, vf_leaky_relu(x, p))

#define TEST(name, expression)                                                                     \
    static void name##_piece(uint8_t *y, const float *px, int64_t n)                               \
    {                                                                                              \
        VECTORS(const vf x = get(px, i, m); put_bools(y, i, expression, m))                        \
    }
TEST(isnan, vf_is_nan(x))
TEST(isfinite, vf_eq(vf_sub(x, x), vf_zero()))

/* g * (P(x) + x * density(x)) */
TLI_INLINE vf gelu_slope(vf x)
{
    const vf below = tli_normal_below(x);
    const vf density =
        vf_mul(vf_exp(vf_mul(vf_mul(x, x), vf_set1(-0.5f))), vf_set1(0.39894228040143268f));
    // Far out x * density is 0 * infinity; its limit is 0.
    return vf_add(below, vf_keep(vf_lt(vf_abs(x), vf_set1(20)), vf_mul(x, density)));
}

/* With u = sqrt(2 / pi) * (x + 0.044715 x^3) and s = sigmoid(2 u): s + x s (1 - s) 2 u'. Beyond 10 it is 0
 * or 1; up to there the exponential is finite. */
TLI_INLINE vf gelu_tanh_slope(vf x)
{
    const vf in = vf_max_c(vf_min_c(x, vf_set1(10)), vf_set1(-10)), square = vf_mul(in, in);
    const vf e = vf_exp(vf_mul(in, TLI_PAIR(-0x1.988454p0f, -0x1.2444f2p-4f, square)));
    const vf s = vf_div(vf_set1(1), vf_add(e, vf_set1(1)));
    const vf rise = TLI_PAIR(0x1.988454p0f, 3 * 0x1.2444f2p-4f, square);
    return vf_fma(vf_mul(vf_mul(in, rise), vf_mul(e, s)), s, s);
}

/* s * (1 + x * (1 - s)) with s = sigmoid(x) */
TLI_INLINE vf silu_slope(vf x)
{
    const vf s = vf_sigmoid(x);
    const vf rest = vf_mul(
        s, vf_mul(vf_max_c(vf_min_c(x, vf_set1(100)), vf_set1(-100)), vf_sub(vf_set1(1), s)));
    return vf_add(s, rest);
}
BINARY(gelu_grad, vf_mul(a, gelu_slope(b)))
BINARY(gelu_tanh_grad, vf_mul(a, gelu_tanh_slope(b)))
BINARY(silu_grad, vf_mul(a, silu_slope(b)))

/* --- kernels
 * ---------------------------------------------------------------------------------------- */

static tl_status run_job(const tl_run *run, const tl_node *n, tli_loop_fn *row, job *j,
                         tl_dtype dtype)
{
    tli_loop l;
    const tl_tensor *operands[TLI_LOOP_MOST] = {n->out[0]};
    for (int i = 0; i < n->inputs; i++) operands[i + 1] = n->in[i];
    tli_loop_init(&l, &n->out[0]->shape, n->inputs + 1, operands);
    j->dtype = dtype;
    return tli_loop_run(run->threads, &l, row, j);
}

#define KERNEL(name, row, ...)                                                                     \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        job j = {__VA_ARGS__};                                                                     \
        return run_job(run, n, row, &j, n->in[n->inputs - 1]->dtype);                              \
    }
#define UNARY_KERNEL(name, fn) KERNEL(name, unary_row, .unary = fn)
#define BINARY_KERNEL(name) KERNEL(name, binary_row, .binary = name##_piece)
#define COMPARE_KERNEL(name) KERNEL(name, compare_row, .compare = name##_piece)
#define MATH(name) TLI_ISA_NAME(tli_unary_fns).name

#define ALL_BINARY(X)                                                                              \
    X(add) X(sub) X(mul) X(div) X(minimum) X(maximum) X(tanh_grad) X(sigmoid_grad) X(relu_grad)    \
    X(silu_grad)
#define ALL_COMPARE(X) X(equal) X(not_equal) X(less) X(less_equal)
#define ALL_PIECES(X) X(neg) X(abs) X(sign) X(square) X(floor) X(ceil) X(round)
#define ALL_MATH(X)                                                                                \
    X(exp) X(expm1) X(log) X(log1p) X(sin) X(cos) X(tanh) X(sigmoid) X(erf) X(sqrt) X(rsqrt)       \
    X(reciprocal) X(relu) X(relu6) X(hard_sigmoid) X(hard_swish) X(silu) X(softplus) X(mish)

ALL_BINARY(BINARY_KERNEL)
ALL_COMPARE(COMPARE_KERNEL)
#define PIECE_KERNEL(name) UNARY_KERNEL(name, name##_piece)
ALL_PIECES(PIECE_KERNEL)
#define MATH_KERNEL(name) UNARY_KERNEL(name, MATH(name))
ALL_MATH(MATH_KERNEL)
KERNEL(isnan, test_row, .test = isnan_piece)
KERNEL(isfinite, test_row, .test = isfinite_piece)
KERNEL(where, where_row, .unary = NULL)
KERNEL(pow, binary_row, .binary = MATH(pow))

static tl_status affine_kernel(const tl_run *run, const tl_node *n)
{
    const tl_affine_attr *a = n->attr;
    job j = {.number = affine_piece, .numbers = {(float)a->scale, (float)a->shift}};
    return run_job(run, n, unary_row, &j, n->in[0]->dtype);
}

static tl_status clip_kernel(const tl_run *run, const tl_node *n)
{
    const tl_clip_attr *a = n->attr;
    job j = {.number = clip_piece, .numbers = {(float)a->low, (float)a->high}};
    return run_job(run, n, unary_row, &j, n->in[0]->dtype);
}

static tl_status elu_kernel(const tl_run *run, const tl_node *n)
{
    const tl_alpha_attr *a = n->attr;
    job j = {.number = elu_piece, .numbers = {(float)a->alpha}};
    return run_job(run, n, unary_row, &j, n->in[0]->dtype);
}

static tl_status leaky_relu_kernel(const tl_run *run, const tl_node *n)
{
    const tl_alpha_attr *a = n->attr;
    job j = {.number = leaky_relu_piece, .numbers = {(float)a->alpha}};
    return run_job(run, n, unary_row, &j, n->in[0]->dtype);
}

static tl_status gelu_kernel(const tl_run *run, const tl_node *n)
{
    const tl_gelu_attr *a = n->attr;
    job j = {.unary = a->approximate ? MATH(gelu_tanh) : MATH(gelu)};
    return run_job(run, n, unary_row, &j, n->in[0]->dtype);
}

static tl_status gelu_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_gelu_attr *a = n->attr;
    job j = {.binary = a->approximate ? gelu_tanh_grad_piece : gelu_grad_piece};
    return run_job(run, n, binary_row, &j, n->in[0]->dtype);
}

#define ROWS(name)                                                                                 \
    {TL_OP_##name, TL_F32, name##_kernel, TL_KERNEL_STRIDED},                                      \
    {TL_OP_##name, TL_BF16, name##_kernel, TL_KERNEL_STRIDED},                                     \
    {TL_OP_##name, TL_F16, name##_kernel, TL_KERNEL_STRIDED},
static const tl_kernel rows[] = {
    ALL_BINARY(ROWS) ALL_COMPARE(ROWS) ALL_PIECES(ROWS) ALL_MATH(ROWS)
    ROWS(isnan) ROWS(isfinite) ROWS(where) ROWS(pow) ROWS(affine) ROWS(clip) ROWS(elu)
    ROWS(leaky_relu) ROWS(gelu) ROWS(gelu_grad)
};
TLI_SIMD_KERNELS(elementwise, rows);
