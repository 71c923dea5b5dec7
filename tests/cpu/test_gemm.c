/* Matrix products against a naive double loop. needs: threads */
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include <tilth/base/alloc.h>

#include "core/half.h"
#include "cpu/gemm.h"
#include "cpu/gemm_impl.h"
#include "cpu/scratch.h"

/* --- values ----------------------------------------------------------------------------------- */

static uint64_t random_state = 1;

static double random_value(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(random_state >> 32) * 0x1p-31;
}

static double get(const void *x, tl_dtype type, int64_t i)
{
    switch (type) {
    case TL_F64: return ((const double *)x)[i];
    case TL_BF16: return tli_from_bf16(((const uint16_t *)x)[i]);
    case TL_F16: return tli_from_f16(((const uint16_t *)x)[i]);
    default: return ((const float *)x)[i];
    }
}

static void put(void *x, tl_dtype type, int64_t i, double value)
{
    switch (type) {
    case TL_F64: ((double *)x)[i] = value; break;
    case TL_BF16: ((uint16_t *)x)[i] = tli_to_bf16((float)value); break;
    case TL_F16: ((uint16_t *)x)[i] = tli_to_f16((float)value); break;
    default: ((float *)x)[i] = (float)value; break;
    }
}

/* Exactly as long as said, so that the address sanitizer sees a read beyond it. */
static void *random_array(tl_dtype type, int64_t n)
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

static void lay_out(int64_t *row, int64_t *col, int64_t *count, int layout, int64_t rows,
                    int64_t cols)
{
    *row = layout == PLAIN ? cols : layout == TRANSPOSED ? 1 : 2 * cols + 3;
    *col = layout == PLAIN ? 1 : layout == TRANSPOSED ? rows : 2;
    *count = rows && cols ? (rows - 1) * *row + (cols - 1) * *col + 1 : 0;
}

static void copy_out(double *to, const void *from, tl_dtype type, int64_t first, int64_t rows,
                     int64_t row, int64_t cols, int64_t col)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[i * cols + j] = get(from, type, first + i * row + j * col);
}

/* The naive products. */
static void expect(operands *o)
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
static void forget(operands *o)
{
    free(o->sums);
    free(o->spread);
    o->sums = o->spread = NULL;
}

static operands make(int64_t m, int64_t n, int64_t k, tl_dtype type, tl_dtype c_type, int a_layout,
                     int b_layout, int64_t batches)
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

static void add_epilogue(operands *o, tl_dtype type, tli_activation activation)
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

static void reset(operands *o)
{
    memcpy(o->c, o->before, (size_t)o->c_count * tl_dtype_size(o->g.c_type));
}

static void discard(operands *o)
{
    void *all[] = {o->a, o->b, o->c, o->before, o->bias, o->residual, o->pre, o->sums, o->spread};
    for (int64_t i = 0; i < TL_COUNT(all); i++) free(all[i]);
}

static double activate(tli_activation activation, double x)
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

typedef struct distance {
    double error, size;
} distance;

/* The size of an element is at least what it would be if nothing cancelled: a sum of one element
 * that happens to be near 0 says nothing about the kernels. */
static void measure(distance *d, double value, double wanted, double spread)
{
    d->error += (value - wanted) * (value - wanted);
    d->size += fmax(wanted * wanted, spread);
}

static double tolerance(tl_dtype type)
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
static void compare(operands *o, tli_isa isa)
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
        if (g->pre_activation) measure(&pre, get(g->pre_activation, g->pre_type, at), x, spread);
        x = activate(g->activation, x);
        if (o->residual) x += get(o->residual, g->residual_type, at);
        measure(&c, get(o->c, g->c_type, at), x, spread);
    }
    assert_close(c, g->c_type);
    if (g->pre_activation) assert_close(pre, g->pre_type);
}

static void run_and_compare(operands *o, tli_isa isa, tl_pool *pool)
{
    reset(o);
    assert_ok(tli_gemm_run(pool, isa, &o->g));
    compare(o, isa);
}

#define EACH_ISA(isa)                                                                              \
    for (tli_isa isa = (tli_isa)0; isa < TLI_ISA_COUNT; isa = (tli_isa)(isa + 1))                  \
        if (tli_isa_supported(isa))

static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64};

/* --- shapes ----------------------------------------------------------------------------------- */

static void check_shape(int64_t m, int64_t n, int64_t k, tl_dtype type, int layouts)
{
    for (int layout = 0; layout < layouts * layouts; layout++) {
        operands o = make(m, n, k, type, type, layout / layouts, layout % layouts, 1);
        EACH_ISA(isa)
        {
            static int64_t number;
            if (!test_takes(number++, 5)) continue;
            o.g.accumulate = false;
            o.g.alpha = 1;
            run_and_compare(&o, isa, NULL);
            o.g.accumulate = true;
            o.g.alpha = -0.75;
            run_and_compare(&o, isa, NULL);
        }
        discard(&o);
    }
}

static void test_small_shapes(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 7, 13, 31, 37};
    for (int64_t i = 0; i < TL_COUNT(sizes); i++)
        for (int64_t j = 0; j < TL_COUNT(sizes); j++)
            for (int64_t l = 0; l < TL_COUNT(sizes); l++)
                check_shape(sizes[i], sizes[j], sizes[l], types[(i + 2 * j + 3 * l) % 4],
                            1 + (i + j + l) % 3);
}

static void test_middle_shapes(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {63, 64, 65},  {64, 63, 64},  {65, 65, 63}, {127, 129, 31}, {129, 127, 33}, {128, 128, 16},
        {97, 101, 89}, {8, 200, 260}, {16, 96, 40}, {17, 48, 300},  {1, 300, 130},  {300, 1, 130},
        {4, 130, 90},  {130, 4, 90},  {1, 1, 1031}, {2, 1, 520},    {5, 3, 517},    {9, 13, 1030},
        {150, 12, 7},  {12, 150, 9},  {24, 24, 24}, {48, 95, 12},   {96, 97, 4},
        {67, 48, 18},  {131, 28, 63}, {64, 160, 160}, {301, 20, 1},   {69, 56, 130}, {32, 32, 32},
        {32, 32, 2},   {33, 16, 34},  {2, 30, 32},  {128, 10, 32},  {200, 128, 32}, {130, 36, 1},
        {9, 16, 256},  {9, 13, 170},  {3, 50, 81},  {8, 15, 256},
        {32, 48, 700}, {27, 50, 530}, {20, 34, 75}, {150, 190, 40},
    };
    for (int64_t i = 0; i < TL_COUNT(shapes); i++)
        for (int64_t t = 0; t < TL_COUNT(types); t++)
            check_shape(shapes[i][0], shapes[i][1], shapes[i][2], types[t],
                        t == 0 ? LAYOUTS : 1 + (int)(i + t) % LAYOUTS);
}

/* Beyond every block: rows of tasks, columns of tasks, parts, depths, slices. */
static void test_large_shapes(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {130, 100, 1030}, {260, 110, 517}, {140, 1030, 3}, {9, 2100, 7},
        {2100, 9, 7},     {20, 30, 5000},  {1, 40, 9000},  {40, 1, 9000},
    };
    for (int64_t i = 0; i < TL_COUNT(shapes); i++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) {
            const int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
            operands o = make(m, n, k, types[t], types[t], (int)(i + t) % 2, (int)i % 2, 1);
            o.g.accumulate = t % 2;
            o.g.alpha = 1 / sqrt((double)k); // else tanh would make signs of the sums
            add_epilogue(&o, types[t], TLI_ACT_TANH);
            EACH_ISA(isa) if (test_takes(i + t + isa, 3)) run_and_compare(&o, isa, NULL);
            discard(&o);
        }
}

/* Small limits, so that a product of tolerable size has many parts, in depth too. */
static void test_parts(void **state)
{
    (void)state;
    tli_gemm_limit_parts(128, 1 << 17);
    for (int64_t t = 0; t < TL_COUNT(types); t++) {
        operands o = make(280, 330, 620, types[t], types[t], PLAIN, PLAIN, 1);
        o.g.accumulate = true;
        EACH_ISA(isa) if (test_takes(t + isa, 3)) run_and_compare(&o, isa, NULL);
        discard(&o);
    }
    tli_gemm_limit_parts(0, 0);
}

static void test_mixed_types(void **state)
{
    (void)state;
    for (int i = 0; i < 27; i++) EACH_ISA(isa)
        {
            operands o = make(35, 53, 41, types[i % 3], types[i / 9], PLAIN, i % 2, 1);
            void *old = o.b;
            o.g.b_type = types[i / 3 % 3];
            o.g.b = o.b = random_array(o.g.b_type, 53 * 41);
            free(old);
            add_epilogue(&o, types[(i + 1) % 3], TLI_ACT_SIGMOID);
            o.g.accumulate = i % 2;
            run_and_compare(&o, isa, NULL);
            discard(&o);
        }
    tli_isa isa;
    assert_ok(tli_isa_choose(&isa));
    operands o = make(3, 3, 3, TL_F64, TL_F32, PLAIN, PLAIN, 1);
    assert_fails(tli_gemm_run(NULL, isa, &o.g), TL_EINVAL, "float64");
    o.g.a_type = o.g.b_type = TL_I32;
    assert_fails(tli_gemm_run(NULL, isa, &o.g), TL_EINVAL, "int32");
    assert_fails(tli_gemm_pack_b(o.c, NULL, isa, &o.g), TL_EINVAL, "int32");
    discard(&o);
}

/* Nothing in, but the epilogue all the same. */
static void test_no_depth(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) EACH_ISA(isa)
        {
            operands o = make(21, 34, 0, types[i], types[i], PLAIN, PLAIN, 2);
            run_and_compare(&o, isa, NULL);
            o.g.accumulate = true;
            run_and_compare(&o, isa, NULL);
            add_epilogue(&o, types[i], TLI_ACT_GELU);
            run_and_compare(&o, isa, NULL);
            o.g.accumulate = false;
            run_and_compare(&o, isa, NULL);
            discard(&o);
        }
}

/* --- epilogues -------------------------------------------------------------------------------- */

static void test_epilogues(void **state)
{
    (void)state;
    for (int activation = 0; activation < TLI_ACT_COUNT; activation++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) EACH_ISA(isa)
            {
                operands o = make(37, 301, 19, types[t], types[t], PLAIN, PLAIN, 1);
                add_epilogue(&o, types[t], (tli_activation)activation);
                run_and_compare(&o, isa, NULL);
                o.g.accumulate = true;
                run_and_compare(&o, isa, NULL);
                o.g.pre_activation = NULL;
                o.g.bias = NULL;
                run_and_compare(&o, isa, NULL);
                discard(&o);
            }
}

/* A bias and a relu, or one of them, alone. */
static void test_plain_epilogues(void **state)
{
    (void)state;
    for (int with = 1; with < 4; with++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) EACH_ISA(isa)
            {
                operands o = make(37, 301, 19, types[t], types[t], PLAIN, PLAIN, 1);
                if (with & 1) o.g.bias = o.bias = random_array(types[t], o.g.n);
                o.g.bias_type = types[t];
                o.g.activation = with & 2 ? TLI_ACT_RELU : TLI_ACT_NONE;
                run_and_compare(&o, isa, NULL);
                discard(&o);
            }
}

/* c = c + act(a b): what c held is the residual. */
static void test_residual_in_place(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        for (int i = 0; i < 2; i++) {
            operands o = make(50, 60, i ? 1100 : 70, TL_BF16, TL_BF16, PLAIN, PLAIN, 1);
            o.g.activation = TLI_ACT_SILU;
            o.g.residual = o.c;
            o.g.residual_type = TL_BF16;
            o.g.residual_row = o.g.c_row;
            o.residual = o.before;
            reset(&o);
            assert_ok(tli_gemm_run(NULL, isa, &o.g));
            compare(&o, isa);
            o.residual = NULL;
            discard(&o);
        }
    }
}

/* --- batches ---------------------------------------------------------------------------------- */

static void test_batches(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{5, 7, 3}, {128, 64, 30}, {1, 33, 20}, {40, 40, 40}};
    tl_pool *pool;
    assert_ok(tl_pool_new(&pool, 3));
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) EACH_ISA(isa)
            {
                if (!test_takes(s + t + isa, 4)) continue;
                operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], types[t], types[t],
                                  (int)s % 2, (int)t % 3, 18);
                run_and_compare(&o, isa, pool);
                // 3 x 1 x 6, turned around; b the same along the last.
                tli_gemm *g = &o.g;
                const int64_t a = g->a_batch[0], b = g->b_batch[0], c = g->c_batch[0];
                g->batch_rank = 3;
                g->batch[0] = 3, g->batch[1] = 1, g->batch[2] = 6;
                g->a_batch[0] = a, g->a_batch[2] = 3 * a;
                g->b_batch[0] = 6 * b, g->b_batch[2] = 0;
                g->c_batch[0] = 6 * c, g->c_batch[2] = c;
                add_epilogue(&o, types[t], TLI_ACT_RELU6);
                g->accumulate = true;
                forget(&o);
                run_and_compare(&o, isa, pool);
                // One b for all of them, and rows that continue: one tall matrix.
                g->batch_rank = 2;
                g->batch[0] = 3, g->batch[1] = 6;
                g->a_batch[0] = 6 * g->m * g->a_row, g->a_batch[1] = g->m * g->a_row;
                g->b_batch[0] = g->b_batch[1] = 0;
                g->c_batch[0] = 6 * c, g->c_batch[1] = c;
                memcpy(g->residual_batch, g->c_batch, sizeof g->c_batch);
                memcpy(g->pre_batch, g->c_batch, sizeof g->c_batch);
                if (s % 2 == 0) { // rows of a plain a lie below each other
                    forget(&o);
                    run_and_compare(&o, isa, pool);
                }
                discard(&o);
            }
    tl_pool_free(&pool);
}

/* --- packed and gathered operands ------------------------------------------------------------- */

static void test_packed_before(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},        {5, 30, 20},    {1, 100, 50},
                                        {140, 110, 1300}, {20, 13, 4500}, {64, 64, 64}};
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) {
            operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], types[t], types[t], PLAIN,
                              (int)s % LAYOUTS, 1);
            EACH_ISA(isa)
            {
                tli_gemm *g = &o.g;
                const size_t bytes = tli_gemm_packed_b_bytes(isa, g->a_type, g->b_type, g->k, g->n);
                void *packed = tl_alloc_aligned(64, bytes);
                assert_non_null(packed);
                assert_ok(tli_gemm_pack_b(packed, NULL, isa, g));
                g->packed_b = packed;
                g->b = NULL;
                run_and_compare(&o, isa, NULL);
                g->packed_b = NULL;
                g->b = o.b;
                tl_free(packed);
            }
            discard(&o);
        }
}

/* Rows of a matrix in memory, handed over one panel at a time. */
typedef struct gathered {
    const tli_gemm_kernels *k;
    const char *data;
    tl_dtype type;
    int64_t row, batch;
    bool is_a;
    tl_status status;
} gathered;

static tl_status gather(const void *payload, void *dst, int64_t batch, int64_t first, int64_t count,
                        int64_t k0, int64_t depth)
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

static void test_pack_functions(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {3, 4, 5}, {140, 30, 20}, {33, 110, 1300}, {140, 110, 530}, {20, 13, 4500}};
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) {
            operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], types[t], types[t], PLAIN,
                              TRANSPOSED, 2);
            EACH_ISA(isa)
            {
                tli_gemm *g = &o.g;
                const tli_gemm_kernels *k =
                    tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, g->a_type, g->b_type));
                gathered a = {k, o.a, types[t], g->a_row, g->a_batch[0], true, TL_OK};
                gathered b = {k, o.b, types[t], g->b_col, g->b_batch[0], false, TL_OK};
                g->pack_a = gather;
                g->pack_a_payload = &a;
                run_and_compare(&o, isa, NULL);
                g->pack_b = gather;
                g->pack_b_payload = &b;
                run_and_compare(&o, isa, NULL);
                g->pack_a = NULL;
                run_and_compare(&o, isa, NULL);
                b.status = TL_EIO;
                assert_fails(tli_gemm_run(NULL, isa, g), TL_EIO, "does not come");
                g->pack_b = NULL;
            }
            discard(&o);
        }
}

/* Pieces of the rows of a plain matrix. */
typedef struct in_pieces {
    const float *data;
    int64_t row, piece, batch;
} in_pieces;

static void find_pieces(const void *payload, const void **rows, int mr, int64_t batch,
                        int64_t first, int64_t count, int64_t first_piece, int64_t pieces)
{
    const in_pieces *s = payload;
    for (int64_t t = 0; t < pieces; t++)
        for (int64_t i = 0; i < count; i++)
            rows[t * mr + i] = s->data + batch * s->batch + (first + i) * s->row
                               + (first_piece + t) * s->piece;
}

static void test_rows_in_pieces(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {// the last one: pieces
                                        {3, 4, 10, 2},    {7, 33, 0, 1},    {64, 48, 27, 9},
                                        {131, 20, 54, 3}, {21, 70, 900, 9}, {250, 40, 1400, 2},
                                        {12, 17, 700, 1}};
    tl_pool *pool;
    assert_ok(tl_pool_new(&pool, 3));
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int layout = 0; layout < LAYOUTS; layout++) EACH_ISA(isa)
            {
                operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], TL_F32,
                                  layout == STRIDED ? TL_BF16 : TL_F32, PLAIN, layout, 2);
                tli_gemm *g = &o.g;
                const in_pieces a = {o.a, g->a_row, g->k / shapes[s][3], g->a_batch[0]};
                g->rows_a = find_pieces;
                g->rows_a_payload = &a;
                g->pieces = shapes[s][3];
                g->a = NULL;
                run_and_compare(&o, isa, pool);
                g->accumulate = true;
                g->alpha = 0.5;
                run_and_compare(&o, isa, pool);
                add_epilogue(&o, TL_F32, TLI_ACT_SILU);
                run_and_compare(&o, isa, NULL);
                const tli_gemm_kernels *k = tli_gemm_kernels_of(isa, TLI_GEMM_F32)->in_rows;
                gathered b = {k, o.b, TL_F32, g->b_col, g->b_batch[0], false, TL_OK};
                g->pack_b = gather;
                g->pack_b_payload = &b;
                if (layout == TRANSPOSED) run_and_compare(&o, isa, pool);
                discard(&o);
            }
    tl_pool_free(&pool);
}

/* A row that is not there is zeros, and a panel can be filled in pieces. */
static void test_gather_pieces(void **state)
{
    (void)state;
    EACH_ISA(isa)
    for (int kind = 0; kind < TLI_GEMM_KINDS; kind++) {
        const tli_gemm_kernels *k = tli_gemm_kernels_of(isa, (tli_gemm_kind)kind);
        const tl_dtype type = kind == TLI_GEMM_F64    ? TL_F64
                              : kind == TLI_GEMM_BF16 ? TL_BF16
                                                      : TL_F32;
        enum { DEPTH = 60, CUT = 32 };
        void *data = random_array(type, 64 * DEPTH);
        const size_t bytes = tli_gemm_panel_bytes(k, k->nr, DEPTH), size = tl_dtype_size(type);
        char *whole = malloc(bytes), *pieces = malloc(bytes);
        assert_true(whole && pieces);
        const void *rows[64], *behind[64];
        for (int l = 0; l < k->nr; l++) {
            rows[l] = l == 1 ? NULL : (const char *)data + (size_t)l * DEPTH * size;
            behind[l] = rows[l] ? (const char *)rows[l] + CUT * size : NULL;
        }
        k->gather_b(whole, rows, k->nr - 1, type, DEPTH);
        k->gather_b(pieces, rows, k->nr - 1, type, CUT);
        k->gather_b(pieces + (size_t)(CUT * k->nr) * k->element, behind, k->nr - 1, type,
                    DEPTH - CUT);
        assert_memory_equal(whole, pieces, bytes);
        // Multiplied with ones it gives the sums of the rows.
        void *ones = malloc(tli_gemm_panel_bytes(k, k->mr, DEPTH));
        void *one = random_array(type, DEPTH);
        for (int i = 0; i < DEPTH; i++) put(one, type, i, 1);
        const void *a_rows[] = {one};
        k->gather_a(ones, a_rows, 1, type, DEPTH);
        double sums[2 * 64];
        if (k->begin) k->begin();
        k->tile(1, k->nr, DEPTH, ones, whole, sums, k->nr, 1, false);
        if (k->end) k->end();
        for (int l = 0; l < k->nr; l++) {
            double wanted = 0;
            for (int i = 0; i < DEPTH && l < k->nr - 1 && rows[l]; i++)
                wanted += get(data, type, l * DEPTH + i);
            assert_true(fabs(get(sums, k->sum_type, l) - wanted) < 1e-5);
        }
        free(one), free(ones), free(whole), free(pieces), free(data);
    }
}

/* Steps that lie anywhere make the panel that a matrix would. */
static void test_gather_steps(void **state)
{
    (void)state;
    enum { DEPTH = 75, OFFSET = 3, ROW = 64 };
    EACH_ISA(isa)
    {
        const tli_gemm_kernels *k = tli_gemm_kernels_of(isa, TLI_GEMM_BF16);
        if (!k->gather_steps_b) continue;
        uint16_t *data = random_array(TL_BF16, DEPTH * ROW);
        const size_t bytes = tli_gemm_panel_bytes(k, k->nr, DEPTH);
        char *wanted = malloc(bytes), *own = malloc(bytes);
        const void *steps[DEPTH];
        assert_true(wanted && own && OFFSET + k->nr <= ROW);
        for (int p = 0; p < DEPTH; p++) {
            steps[p] = p % 7 == 3 ? NULL : data + (DEPTH - 1 - p) * ROW;
            if (!steps[p]) memset(data + (DEPTH - 1 - p) * ROW, 0, ROW * sizeof *data);
        }
        k->pack_b(wanted, data + (DEPTH - 1) * ROW + OFFSET, TL_BF16, 1, -ROW, k->nr, DEPTH);
        k->gather_steps_b(own, steps, OFFSET * sizeof *data, DEPTH);
        assert_memory_equal(own, wanted, bytes);
        free(data), free(wanted), free(own);
    }
}

/* --- threads, memory -------------------------------------------------------------------------- */

static void test_same_bits_on_any_threads(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {
        {130, 200, 60, 1}, {16, 900, 300, 1}, {1, 6000, 400, 1}, {600, 1, 2000, 1},
        {30, 40, 4500, 1}, {70, 30, 50, 20},  {5, 3, 4500, 2},   {140, 100, 80, 3},
        {64, 64, 64, 1},   {128, 124, 96, 1}, {24, 52, 9000, 1}, {150, 600, 300, 1},
        {900, 48, 40, 1},  {333, 64, 33, 2},  {32, 32, 32, 40},  {32, 128, 784, 1},
        {784, 128, 32, 1}, {128, 256, 600, 1},
    };
    static const int threads[] = {1, 2, 3, 7, 16};
    tl_pool *pools[TL_COUNT(threads)];
    for (int64_t i = 0; i < TL_COUNT(threads); i++) assert_ok(tl_pool_new(&pools[i], threads[i]));
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) EACH_ISA(isa)
            {
                operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], types[t], types[t],
                                  (int)s % 2, (int)t % 2, shapes[s][3]);
                add_epilogue(&o, types[t], TLI_ACT_GELU_TANH);
                const size_t bytes = (size_t)o.c_count * tl_dtype_size(types[t]);
                reset(&o);
                assert_ok(tli_gemm_run(NULL, isa, &o.g));
                void *first = malloc(bytes);
                assert_non_null(first);
                memcpy(first, o.c, bytes);
                for (int64_t i = 0; i < TL_COUNT(threads); i++) {
                    reset(&o);
                    assert_ok(tli_gemm_run(pools[i], isa, &o.g));
                    assert_memory_equal(o.c, first, bytes);
                }
                free(first);
                discard(&o);
            }
    for (int64_t i = 0; i < TL_COUNT(threads); i++) tl_pool_free(&pools[i]);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{150, 1100, 40}, {50, 60, 5000}, {20, 500, 20}};
    for (int64_t s = 0; s < TL_COUNT(shapes); s++) EACH_ISA(isa)
        {
            operands o =
                make(shapes[s][0], shapes[s][1], shapes[s][2], TL_BF16, TL_BF16, PLAIN, STRIDED, 1);
            int64_t failures = 0;
            for (int64_t nth = 1;; nth++) {
                tli_scratch_free();
                reset(&o);
                const int64_t calls = tl_alloc_calls();
                tl_alloc_fail_at(nth, 1);
                const tl_status status = tli_gemm_run(NULL, isa, &o.g);
                tl_alloc_fail_at(0, 0);
                if (tl_alloc_calls() - calls < nth) {
                    assert_ok(status);
                    break;
                }
                assert_int_equal(status, TL_ENOMEM);
                failures++;
            }
            assert_true(failures > 0);
            compare(&o, isa);
            discard(&o);
        }
}

static int64_t alive;

static void *count_alloc(size_t alignment, size_t bytes, void *payload)
{
    (void)payload;
    void *memory = NULL;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes))
        return NULL;
    __atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
    return memory;
}

static void *count_realloc(void *memory, size_t bytes, void *payload)
{
    (void)payload;
    if (!memory) __atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
    return realloc(memory, bytes);
}

static void count_free(void *memory, void *payload)
{
    (void)payload;
    __atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
    free(memory);
}

static void *use_scratch(void *payload)
{
    for (int slot = 0; slot < TLI_SCRATCH_SLOTS; slot++) {
        void *room;
        if (tli_scratch(&room, (tli_scratch_slot)slot, 100000u << slot) != TL_OK) return NULL;
        memset(room, 1, 100000u << slot);
        void *same;
        if (tli_scratch(&same, (tli_scratch_slot)slot, 5) != TL_OK || same != room) return NULL;
        if (tli_scratch(&same, (tli_scratch_slot)slot, 4 << 20) != TL_OK) return NULL;
        if ((uintptr_t)same % 64) return NULL;
    }
    return payload;
}

static void test_scratch_ends_with_its_thread(void **state)
{
    (void)state;
    static const tl_allocator counting = {count_alloc, count_realloc, count_free, NULL};
    tli_scratch_free();
    tl_allocator_set(&counting);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, use_scratch, &alive), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, &alive);
        assert_int_equal(alive, 0);
    }
    assert_ptr_equal(use_scratch(&alive), &alive);
    assert_int_equal(alive, TLI_SCRATCH_SLOTS);
    tli_scratch_free();
    assert_int_equal(alive, 0);
    tl_allocator_set(NULL);
}

static void test_peaks(void **state)
{
    (void)state;
    EACH_ISA(isa)
    for (int kind = 0; kind < TLI_GEMM_KINDS; kind++)
        assert_true(tli_gemm_kernels_of(isa, (tli_gemm_kind)kind)->peak(100) >= 100 * 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_shapes),
        cmocka_unit_test(test_middle_shapes),
        cmocka_unit_test(test_large_shapes),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_mixed_types),
        cmocka_unit_test(test_no_depth),
        cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_plain_epilogues),
        cmocka_unit_test(test_residual_in_place),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_packed_before),
        cmocka_unit_test(test_pack_functions),
        cmocka_unit_test(test_gather_pieces),
        cmocka_unit_test(test_gather_steps),
        cmocka_unit_test(test_rows_in_pieces),
        cmocka_unit_test(test_same_bits_on_any_threads),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_scratch_ends_with_its_thread),
        cmocka_unit_test(test_peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
