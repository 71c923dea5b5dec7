/* Products of matrices and what they must be, for the tests of gemm. */
#ifndef TILTH_TESTS_CPU_GEMM_LAB_H
#define TILTH_TESTS_CPU_GEMM_LAB_H

#include "test.h"

#include <math.h>
#include <stdlib.h>

#include <tilth/base/alloc.h>

#include "core/inner/half.h"
#include "cpu/gemm.h"
#include "cpu/gemm_impl.h"
#include "cpu/scratch.h"

/* --- values ----------------------------------------------------------------------------------- */

static uint64_t random_state = 1;

static inline double random_value(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(random_state >> 32) * 0x1p-31;
}

NOT_SANITIZED static inline double get(const void *x, tl_dtype type, int64_t i)
{
    switch (type) {
    case TL_F64: return ((const double *)x)[i];
    case TL_BF16: return tli_from_bf16(((const uint16_t *)x)[i]);
    case TL_F16: return tli_from_f16(((const uint16_t *)x)[i]);
    default: return ((const float *)x)[i];
    }
}

static inline void put(void *x, tl_dtype type, int64_t i, double value)
{
    switch (type) {
    case TL_F64: ((double *)x)[i] = value; break;
    case TL_BF16: ((uint16_t *)x)[i] = tli_to_bf16((float)value); break;
    case TL_F16: ((uint16_t *)x)[i] = tli_to_f16((float)value); break;
    default: ((float *)x)[i] = (float)value; break;
    }
}

/* Exactly as long as said, so that the address sanitizer sees a read beyond it. */
static inline void *random_array(tl_dtype type, int64_t n)
{
    void *x = malloc((size_t)(n > 0 ? n : 1) * tl_dtype_size(type));
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) put(x, type, i, random_value());
    return x;
}

/* --- one case --------------------------------------------------------------------------------- */

typedef struct operands {
    tli_gemm g;
    void *a, *b, *c, *before, *bias, *residual, *pre;
    int64_t c_count;
    double *sums,
        *spread; /* of a b, as c is laid out: sums, and sums of squares; NULL until needed */
} operands;

enum { PLAIN, TRANSPOSED, STRIDED, LAYOUTS };

/* Extents of c, with two columns behind each row that must stay as they are. */
enum { GUARD = 2 };

static inline void lay_out(int64_t *row, int64_t *col, int64_t *count, int layout, int64_t rows,
                           int64_t cols)
{
    *row = layout == PLAIN ? cols : layout == TRANSPOSED ? 1 : 2 * cols + 3;
    *col = layout == PLAIN ? 1 : layout == TRANSPOSED ? rows : 2;
    *count = rows && cols ? (rows - 1) * *row + (cols - 1) * *col + 1 : 0;
}

NOT_SANITIZED static inline void copy_out(double *to, const void *from, tl_dtype type,
                                          int64_t first, int64_t rows, int64_t row, int64_t cols,
                                          int64_t col)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[i * cols + j] = get(from, type, first + i * row + j * col);
}

/* The naive products. */
NOT_SANITIZED static inline void expect(operands *o)
{
    const tli_gemm *g = &o->g;
    const int64_t m = g->m, n = g->n, k = g->k;
    double *a = malloc((size_t)(m * k + 1) * sizeof *a),
           *b = malloc((size_t)(k * n + 1) * sizeof *b);
    assert_true(a && b);
    o->sums = calloc((size_t)(o->c_count + 1), sizeof *o->sums);
    o->spread = calloc((size_t)(o->c_count + 1), sizeof *o->spread);
    assert_true(o->sums && o->spread);
    int64_t count = 1;
    for (int d = 0; d < g->batch_rank; d++) count *= g->batch[d];
    for (int64_t batch = 0; batch < count; batch++) {
        int64_t a0 = 0, b0 = 0, c0 = 0, rest = batch;
        for (int d = g->batch_rank - 1; d >= 0; rest /= g->batch[d], d--) {
            a0 += rest % g->batch[d] * g->a_batch[d];
            b0 += rest % g->batch[d] * g->b_batch[d];
            c0 += rest % g->batch[d] * g->c_batch[d];
        }
        copy_out(a, o->a, g->a_type, a0, m, g->a_row, k, g->a_col);
        copy_out(b, o->b, g->b_type, b0, k, g->b_row, n, g->b_col);
        for (int64_t i = 0; i < m; i++)
            for (int64_t p = 0; p < k; p++) {
                double *sums = o->sums + c0 + i * g->c_row, *spread = o->spread + c0 + i * g->c_row;
                const double factor = a[i * k + p];
                for (int64_t j = 0; j < n; j++) {
                    const double product_ = factor * b[p * n + j];
                    sums[j] += product_;
                    spread[j] += product_ * product_;
                }
            }
    }
    free(a);
    free(b);
}

/* To be called when operands or strides have changed. */
static inline void forget(operands *o)
{
    free(o->sums);
    free(o->spread);
    o->sums = o->spread = NULL;
}

static inline operands make(int64_t m, int64_t n, int64_t k, tl_dtype type, tl_dtype c_type,
                            int a_layout, int b_layout, int64_t batches)
{
    operands o = {.g = {.m = m,
                        .n = n,
                        .k = k,
                        .a_type = type,
                        .b_type = type,
                        .c_type = c_type,
                        .alpha = 1,
                        .c_row = n + GUARD}};
    int64_t a_count, b_count;
    lay_out(&o.g.a_row, &o.g.a_col, &a_count, a_layout, m, k);
    lay_out(&o.g.b_row, &o.g.b_col, &b_count, b_layout, k, n);
    if (batches > 1) {
        o.g.batch_rank = 1;
        o.g.batch[0] = batches;
        o.g.a_batch[0] = a_count;
        o.g.b_batch[0] = b_count;
        o.g.c_batch[0] = m * o.g.c_row;
    }
    o.c_count = batches * m * o.g.c_row;
    o.g.a = o.a = random_array(type, a_count * batches);
    o.g.b = o.b = random_array(type, b_count * batches);
    o.g.c = o.c = random_array(c_type, o.c_count);
    o.before = malloc((size_t)o.c_count * tl_dtype_size(c_type) + 1);
    assert_non_null(o.before);
    memcpy(o.before, o.c, (size_t)o.c_count * tl_dtype_size(c_type));
    return o;
}

static inline void add_epilogue(operands *o, tl_dtype type, tli_activation activation)
{
    tli_gemm *g = &o->g;
    g->bias = o->bias = random_array(type, g->n);
    g->bias_type = g->residual_type = g->pre_type = type;
    g->activation = activation;
    g->residual_row = g->pre_row = g->c_row;
    g->residual = o->residual = random_array(type, o->c_count);
    g->pre_activation = o->pre = random_array(type, o->c_count);
    for (int d = 0; d < g->batch_rank; d++) g->residual_batch[d] = g->pre_batch[d] = g->c_batch[d];
}

static inline void reset(operands *o)
{
    memcpy(o->c, o->before, (size_t)o->c_count * tl_dtype_size(o->g.c_type));
}

static inline void discard(operands *o)
{
    void *all[] = {o->a, o->b, o->c, o->before, o->bias, o->residual, o->pre, o->sums, o->spread};
    for (int64_t i = 0; i < TL_COUNT(all); i++) free(all[i]);
}

static inline double activate(tli_activation activation, double x)
{
    switch (activation) {
    case TLI_ACT_RELU: return x > 0 ? x : 0;
    case TLI_ACT_RELU6: return x > 6 ? 6 : x > 0 ? x : 0;
    case TLI_ACT_GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case TLI_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case TLI_ACT_SILU: return x / (1 + exp(-x));
    case TLI_ACT_TANH: return tanh(x);
    case TLI_ACT_SIGMOID: return 1 / (1 + exp(-x));
    default: return x;
    }
}

/* Of gelu_tanh, by the chain rule. */
static inline double slope_at(double x)
{
    const double c = sqrt(2 / M_PI), t = tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

typedef struct distance {
    double error, size;
} distance;

/* The size of an element is at least what it would be if nothing cancelled: a sum of one element
 * that happens to be near 0 says nothing about the kernels. */
static inline void measure(distance *d, double value, double wanted, double spread)
{
    d->error += (value - wanted) * (value - wanted);
    d->size += fmax(wanted * wanted, spread);
}

static inline double tolerance(tl_dtype type)
{
    return type == TL_F64 ? 1e-14 : type == TL_BF16 ? 5e-3 : type == TL_F16 ? 5e-4 : 1e-6;
}

#define assert_close(d, type)                                                                      \
    do {                                                                                           \
        const double error_ = (d).size > 0 ? sqrt((d).error / (d).size) : sqrt((d).error);         \
        if (!(error_ <= tolerance(type)))                                                          \
            fail_msg("%s: m %lld n %lld k %lld, %s x %s -> %s, strides %lld %lld, %lld %lld, "     \
                     "batches %d, activation %d: %s is off by %g",                                 \
                     tli_isa_text(isa), (long long)g->m, (long long)g->n, (long long)g->k,         \
                     tl_dtype_name(g->a_type), tl_dtype_name(g->b_type), tl_dtype_name(g->c_type), \
                     (long long)g->a_row, (long long)g->a_col, (long long)g->b_row,                \
                     (long long)g->b_col, g->batch_rank, (int)g->activation, #d, error_);          \
    } while (0)

/* What is in c, and in the pre-activation, against what is expected. */
static inline void compare(operands *o, tli_isa isa)
{
    if (!o->sums) expect(o);
    const tli_gemm *g = &o->g;
    distance c = {0}, pre = {0};
    for (int64_t at = 0; at < o->c_count; at++) {
        const int64_t j = at % g->c_row;
        if (j >= g->n) { // behind a row nothing was written
            assert_true(get(o->c, g->c_type, at) == get(o->before, g->c_type, at));
            continue;
        }
        double x = g->alpha * o->sums[at];
        const double spread = g->alpha * g->alpha * o->spread[at];
        if (g->accumulate) x += get(o->before, g->c_type, at);
        if (g->bias) x += get(g->bias, g->bias_type, j);
        if (g->pre_activation)
            measure(&pre, get(g->pre_activation, g->pre_type, at), g->slope ? slope_at(x) : x,
                    g->slope ? 1 : spread);
        x = activate(g->activation, x);
        if (o->residual) x += get(o->residual, g->residual_type, at);
        measure(&c, get(o->c, g->c_type, at), x, spread);
    }
    assert_close(c, g->c_type);
    if (g->pre_activation) assert_close(pre, g->pre_type);
}

static inline void run_and_compare(operands *o, tli_isa isa, tl_pool *pool)
{
    const tli_gemm *g = &o->g;
    reset(o);
    assert_ok(tli_gemm_run(pool, isa, g));
    compare(o, isa);
    const tli_gemm_kernels *k =
        tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, g->a_type, g->b_type));
    if (!k->turned || g->pack_a || g->pack_b || g->packed_b) return;
    o->g.turned = true;
    reset(o);
    assert_ok(tli_gemm_run(pool, isa, g));
    compare(o, isa);
    o->g.turned = false;
}

#define EACH_ISA(isa)                                                                              \
    for (tli_isa isa = (tli_isa)0; isa < TLI_ISA_COUNT; isa = (tli_isa)(isa + 1))                  \
        if (tli_isa_supported(isa))

static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64};

/* --- gathered operands ------------------------------------------------------------------------ */

/* Rows of a matrix in memory, handed over one panel at a time. */
typedef struct gathered {
    const tli_gemm_kernels *k;
    const char *data;
    tl_dtype type;
    int64_t row, batch;
    bool is_a;
    tl_status status;
} gathered;

static inline tl_status gather(const void *payload, void *dst, int64_t batch, int64_t first,
                               int64_t count, int64_t k0, int64_t depth)
{
    const gathered *s = payload;
    if (s->status != TL_OK) return TL_FAIL(s->status, "the operand does not come");
    const int width = s->is_a ? s->k->mr : s->k->nr;
    for (int64_t i = first; i < first + count; i += width) {
        const int lanes = (int)(first + count - i < width ? first + count - i : width);
        const void *rows[64];
        for (int l = 0; l < lanes; l++)
            rows[l] = s->data
                      + (size_t)(batch * s->batch + (i + l) * s->row + k0) * tl_dtype_size(s->type);
        char *to =
            (char *)dst + (size_t)((i - first) / width) * tli_gemm_panel_bytes(s->k, width, depth);
        (s->is_a ? s->k->gather_a : s->k->gather_b)(to, rows, lanes, s->type, depth);
    }
    return TL_OK;
}

#endif
