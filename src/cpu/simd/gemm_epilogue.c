/* What happens to the sums of a product on their way into c: bias, activation, residual, rounding.
 */
#include "cpu/ref/meaning.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/gemm_parts.h"
#include "cpu/simd/math.h"
#include "cpu/simd/vec.h"

/* --- conversions ------------------------------------------------------------------------------ */

/* Values at a time: the three rows of them below are 3 KiB, beside a tile's panels in the
 * first-level cache */
enum { CHUNK = 256 };
_Static_assert(CHUNK % VF == 0, "chunks are whole vectors");

void TLI_ISA_NAME(tli_gemm_convert)(void *to, tl_dtype to_type, const void *from,
                                    tl_dtype from_type, int64_t n)
{
    if (to_type == from_type) {
        memcpy(to, from, (size_t)n * tl_dtype_size(to_type));
        return;
    }
    if (to_type == TL_F32) {
        any_widen(to, from_type, from, n);
        return;
    }
    if (from_type == TL_F32) {
        any_narrow(to_type, to, from, n);
        return;
    }
    TL_ASSERT(to_type != TL_F64 && from_type != TL_F64); // doubles become doubles
    float room[CHUNK];
    for (int64_t i = 0; i < n; i += CHUNK) {
        const int64_t count = n - i < CHUNK ? n - i : CHUNK;
        any_widen(room, from_type, (const char *)from + (size_t)i * tl_dtype_size(from_type),
                  count);
        any_narrow(to_type, (char *)to + (size_t)i * tl_dtype_size(to_type), room, count);
    }
}

/* --- floats ----------------------------------------------------------------------------------- */

/* Four vectors at a time: each operation of a formula waits for the one before. */
#define EACH(name, expression)                                                                     \
    TLI_INLINE vf name##_one(vf x)                                                                 \
    {                                                                                              \
        return (expression);                                                                       \
    }                                                                                              \
    static void name(float *values, int64_t n)                                                     \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + 4 * VF <= n; i += 4 * VF) {                                                     \
            float *v = values + i;                                                                 \
            const vf a = name##_one(vf_load(v)), b = name##_one(vf_load(v + VF));                  \
            const vf c = name##_one(vf_load(v + 2 * VF)), d = name##_one(vf_load(v + 3 * VF));     \
            vf_store(v, a), vf_store(v + VF, b);                                                   \
            vf_store(v + 2 * VF, c), vf_store(v + 3 * VF, d);                                      \
        }                                                                                          \
        for (; i + VF <= n; i += VF) vf_store(values + i, name##_one(vf_load(values + i)));        \
        if (i < n) vf_store_n(values + i, name##_one(vf_load_n(values + i, n - i)), n - i);        \
    }
EACH(relu_each, vf_max_c(x, vf_zero()))
EACH(relu6_each, vf_min_c(vf_max_c(x, vf_zero()), vf_set1(6)))
EACH(gelu_each, vf_gelu(x))
EACH(gelu_tanh_each, vf_gelu_tanh(x))
EACH(silu_each, vf_silu(x))
EACH(tanh_each, vf_tanh(x))
EACH(sigmoid_each, vf_sigmoid(x))

static void (*const activations[TLI_ACT_COUNT])(float *values, int64_t n) = {
    [TLI_ACT_RELU] = relu_each,           [TLI_ACT_RELU6] = relu6_each, [TLI_ACT_GELU] = gelu_each,
    [TLI_ACT_GELU_TANH] = gelu_tanh_each, [TLI_ACT_SILU] = silu_each,   [TLI_ACT_TANH] = tanh_each,
    [TLI_ACT_SIGMOID] = sigmoid_each,
};

/* gelu_tanh(x), and its slope there: with e = e^-2u and s = 1 / (1 + e) these are x s and
 * s + 2 u' x e s^2 (nest/inner/formula.h has them apart). At -10 e is still finite. */
TLI_INLINE vf gelu_tanh_and_slope(vf x, vf *slope)
{
    vf power;
    const vf top = vf_max_c(x, vf_set1(-10)), in = vf_min_c(top, vf_set1(10));
    const vf square = vf_mul(in, in), p = tli_gelu_power(in, square, &power);
    const vf e = vf_mul(p, power), s = vf_div(vf_set1(1), vf_add(e, vf_set1(1)));
    const vf rise = vf_mul(in, TLI_PAIR(0x1.988454p0f, 3 * 0x1.2444f2p-4f, square));
    *slope = vf_fma(vf_mul(rise, s), vf_mul(e, s), s);
    return vf_mul(top, s);
}

static void gelu_tanh_slopes(float *slopes, float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i += VF) {
        const int64_t m = n - i < VF ? n - i : VF;
        vf slope, y = gelu_tanh_and_slope(vf_load_n(values + i, m), &slope);
        vf_store_n(slopes + i, slope, m);
        vf_store_n(values + i, y, m);
    }
}

/* to = x + y */
static void add(float *to, const float *x, const float *y, int64_t n)
{
    int64_t i = 0;
    for (; i + VF <= n; i += VF) vf_store(to + i, vf_add(vf_load(x + i), vf_load(y + i)));
    for (; i < n; i++) to[i] = x[i] + y[i];
}

static const void *at(const void *base, tl_dtype type, int64_t index)
{
    return (const char *)base + index * (int64_t)tl_dtype_size(type);
}

static void *at_out(void *base, tl_dtype type, int64_t index)
{
    return (char *)base + index * (int64_t)tl_dtype_size(type);
}

/* `count` values of row i from column j on. */
static void finish_piece(const tli_gemm_epilogue *e, int64_t i, int64_t j, int64_t count,
                         const float *bias)
{
    float room[CHUNK], other[CHUNK];
    TL_ASSERT(i < e->rows && count > 0 && count <= CHUNK && j + count <= e->cols);
    const float *sums = (const float *)e->sums + i * e->sums_row + j;
    void *c = at_out(e->c, e->c_type, i * e->c_row + j);
    // In c itself where that loses nothing; the residual may be there.
    float *values = e->c_type == TL_F32 && !e->residual ? c : room;
    if (bias) add(values, sums, bias, count);
    else if (e->activation != TLI_ACT_NONE || e->residual)
        memmove(values, sums, (size_t)count * sizeof *values); // the same place, or another one
    else values = (float *)(uintptr_t)sums;                    // as they are
    if (e->slope) gelu_tanh_slopes(other, values, count);
    if (e->pre)
        any_narrow(e->pre_type, at_out(e->pre, e->pre_type, i * e->pre_row + j),
                   e->slope ? other : values, count);
    if (e->activation != TLI_ACT_NONE && !e->slope) activations[e->activation](values, count);
    if (e->residual) {
        any_widen(other, e->residual_type,
                  at(e->residual, e->residual_type, i * e->residual_row + j), count);
        add(values, values, other, count);
    }
    if ((void *)values != c) any_narrow(e->c_type, c, values, count);
}

/* The same for all rows at once, where there is no more than a bias and a relu: each value passes
 * through one register. */
#define PLAIN(t)                                                                                   \
    static void finish_plain_##t(const tli_gemm_epilogue *e, int64_t j, int64_t count,             \
                                 const float *bias)                                                \
    {                                                                                              \
        const bool relu = e->activation == TLI_ACT_RELU;                                           \
        for (int64_t i = 0; i < e->rows; i++) {                                                    \
            const float *sums = (const float *)e->sums + i * e->sums_row + j;                      \
            tli_##t *c = (tli_##t *)e->c + i * e->c_row + j;                                       \
            int64_t p = 0;                                                                         \
            for (; p + VF <= count; p += VF) {                                                     \
                vf x = vf_load(sums + p);                                                          \
                if (bias) x = vf_add(x, vf_load(bias + p));                                        \
                if (relu) x = vf_max_c(x, vf_zero());                                              \
                vf_store_##t(c + p, x);                                                            \
            }                                                                                      \
            if (p == count) continue;                                                              \
            vf x = vf_load_n(sums + p, count - p);                                                 \
            if (bias) x = vf_add(x, vf_load_n(bias + p, count - p));                               \
            if (relu) x = vf_max_c(x, vf_zero());                                                  \
            vf_store_##t##_n(c + p, x, count - p);                                                 \
        }                                                                                          \
    }
TLI_FLOAT_LIST(PLAIN)

static void finish_plain(const tli_gemm_epilogue *e, int64_t j, int64_t count, const float *bias)
{
    switch (e->c_type) {
    case TL_BF16: finish_plain_bf16(e, j, count, bias); break;
    case TL_F16: finish_plain_f16(e, j, count, bias); break;
    default: finish_plain_f32(e, j, count, bias); break;
    }
}

/* The same for the activations of transformers, whose arguments their gradients want to see. Four
 * vectors at a time, as above; the row below is called for, since rows are too short for hardware
 * to look ahead. */
#define CURVED(name, t)                                                                            \
    static void finish_##name##_##t(const tli_gemm_epilogue *e, int64_t j, int64_t count,          \
                                    const float *bias)                                             \
    {                                                                                              \
        for (int64_t i = 0; i < e->rows; i++) {                                                    \
            const float *sums = (const float *)e->sums + i * e->sums_row + j;                      \
            tli_##t *c = (tli_##t *)e->c + i * e->c_row + j;                                       \
            tli_##t *pre = e->pre ? (tli_##t *)e->pre + i * e->pre_row + j : NULL;                 \
            for (int64_t p = 0; p < count; p += 4 * VF) {                                          \
                vf x[4];                                                                           \
                __builtin_prefetch(sums + e->sums_row + p, 1);                                     \
                for (int k = 0; k < 4; k++)                                                        \
                    x[k] = vf_add(vf_load(sums + p + k * VF), vf_load(bias + p + k * VF));         \
                for (int k = 0; k < 4 && pre; k++) vf_store_##t(pre + p + k * VF, x[k]);           \
                for (int k = 0; k < 4; k++) x[k] = name##_each_one(x[k]);                          \
                for (int k = 0; k < 4; k++) vf_store_##t(c + p + k * VF, x[k]);                    \
            }                                                                                      \
        }                                                                                          \
    }
/* The same for gelu_tanh with its slopes. */
#define SLOPED(t)                                                                                  \
    static void finish_slopes_##t(const tli_gemm_epilogue *e, int64_t j, int64_t count,            \
                                  const float *bias)                                               \
    {                                                                                              \
        for (int64_t i = 0; i < e->rows; i++) {                                                    \
            const float *sums = (const float *)e->sums + i * e->sums_row + j;                      \
            tli_##t *c = (tli_##t *)e->c + i * e->c_row + j;                                       \
            tli_##t *pre = (tli_##t *)e->pre + i * e->pre_row + j;                                 \
            for (int64_t p = 0; p < count; p += 4 * VF) {                                          \
                vf x[4], slope[4];                                                                 \
                for (int k = 0; k < 4; k++)                                                        \
                    x[k] = vf_add(vf_load(sums + p + k * VF), vf_load(bias + p + k * VF));         \
                for (int k = 0; k < 4; k++) x[k] = gelu_tanh_and_slope(x[k], slope + k);           \
                for (int k = 0; k < 4; k++) vf_store_##t(pre + p + k * VF, slope[k]);              \
                for (int k = 0; k < 4; k++) vf_store_##t(c + p + k * VF, x[k]);                    \
            }                                                                                      \
        }                                                                                          \
    }
#define CURVED_EACH(t) CURVED(gelu, t) CURVED(gelu_tanh, t) SLOPED(t)
TLI_FLOAT_LIST(CURVED_EACH)

static bool is_curved(const tli_gemm_epilogue *e)
{
    return (e->activation == TLI_ACT_GELU || e->activation == TLI_ACT_GELU_TANH) && e->bias
           && !e->residual && (!e->pre || e->pre_type == e->c_type);
}

/* The first columns of some, whole rounds of vectors; returns how many. */
static int64_t finish_curved(const tli_gemm_epilogue *e, int64_t j, int64_t count,
                             const float *bias)
{
    const int64_t whole = count / (4 * VF) * (4 * VF);
    const bool tanh_ = e->activation == TLI_ACT_GELU_TANH;
#define FINISH(t)                                                                                  \
    (e->slope ? finish_slopes_##t                                                                  \
     : tanh_  ? finish_gelu_tanh_##t                                                               \
              : finish_gelu_##t)(e, j, whole, bias)
    switch (e->c_type) {
    case TL_BF16: FINISH(bf16); break;
    case TL_F16: FINISH(f16); break;
    default: FINISH(f32); break;
    }
#undef FINISH
    return whole;
}

void TLI_ISA_NAME(tli_gemm_epilogue_f32)(const tli_gemm_epilogue *e)
{
    const bool relu = e->activation == TLI_ACT_RELU;
    const bool plain =
        !e->residual && !e->pre && (relu || (e->bias && e->activation == TLI_ACT_NONE));
    TL_ASSERT(e->activation < TLI_ACT_COUNT
              && (e->activation == TLI_ACT_NONE || activations[e->activation]));
    TL_ASSERT(!e->slope || (e->pre && e->activation == TLI_ACT_GELU_TANH));
    float bias[CHUNK];
    for (int64_t j = 0; j < e->cols; j += CHUNK) {
        const int64_t count = e->cols - j < CHUNK ? e->cols - j : CHUNK;
        if (e->bias) any_widen(bias, e->bias_type, at(e->bias, e->bias_type, j), count);
        if (plain) {
            finish_plain(e, j, count, e->bias ? bias : NULL);
            continue;
        }
        const int64_t done = is_curved(e) ? finish_curved(e, j, count, bias) : 0;
        for (int64_t i = 0; i < e->rows && done < count; i++)
            finish_piece(e, i, j + done, count - done, e->bias ? bias + done : NULL);
    }
}

/* --- doubles: exact rather than fast ---------------------------------------------------------- */

void TLI_ISA_NAME(tli_gemm_epilogue_f64)(const tli_gemm_epilogue *e)
{
    TL_ASSERT(e->c_type == TL_F64 && (!e->bias || e->bias_type == TL_F64)
              && (!e->residual || e->residual_type == TL_F64));
    for (int64_t i = 0; i < e->rows; i++)
        for (int64_t j = 0; j < e->cols; j++) {
            double x = ((const double *)e->sums)[i * e->sums_row + j];
            if (e->bias) x += ((const double *)e->bias)[j];
            if (e->pre)
                ((double *)e->pre)[i * e->pre_row + j] =
                    e->slope ? ref_gelu_grad(1, x, true, 0) : x;
            x = meaning_of_activation((tl_activation)e->activation, x);
            if (e->residual) x += ((const double *)e->residual)[i * e->residual_row + j];
            ((double *)e->c)[i * e->c_row + j] = x;
        }
}
