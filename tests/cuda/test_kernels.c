/* Kernels for GPUs as plain C, against those of the CPU; NVRTC takes the same texts where it is.
 * The op cases run all of them: see shim.h. */
#include "test.h"

#include <math.h>

#include <tilth/base/rng.h>
#include <tilth/core/attrs.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/tilth.h>

#include "cuda/convs.h"
#include "cuda/products.h"
#include "shim.h"

enum { MOST = 8, MOST_ELEMENTS = 1 << 16 };

/* The same call on both; inputs are drawn, which is compared as well. */
typedef struct sides {
    tl_engine *engines[2];
    tl_ctx *c[2];
} sides;

static int open_sides(void **state)
{
    static sides s;
    const tl_backend_class *cpu;
    shim.for_gpu = true;
    assert_ok(tl_cpu_backend(&cpu));
    assert_ok(tl_engine_new(&s.engines[0], &(tl_engine_args){.backend = cpu, .threads = 1}));
    assert_ok(tl_engine_new(&s.engines[1], &(tl_engine_args){.backend = shim_backend()}));
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_ctx_new(&s.c[i], s.engines[i]));
        tl_ctx_set_draws(s.c[i], (tl_draws){.seed = 7, .step = 3, .microbatch = 1, .replica = 2});
    }
    *state = &s;
    return 0;
}

static int close_sides(void **state)
{
    sides *s = *state;
    for (int i = 0; i < 2; i++) {
        tl_ctx_free(&s->c[i]);
        tl_engine_free(&s->engines[i]);
    }
    assert_true(shim.compiled > 0);
    return 0;
}

static void compare(const sides *s, tl_tensor *const *pair, double most)
{
    static double numbers[2][MOST_ELEMENTS];
    const int64_t count = tl_tensor_count(pair[0]);
    assert_true(count > 0 && count <= MOST_ELEMENTS);
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_ctx_status(s->c[i]));
        assert_ok(tl_tensor_get_doubles(pair[i], numbers[i], count));
    }
    double largest = 0;
    for (int64_t k = 0; k < count; k++) largest = fmax(largest, fabs(numbers[0][k]));
    for (int64_t k = 0; k < count; k++)
        if (!(fabs(numbers[0][k] - numbers[1][k]) <= most * largest))
            fail_msg("element %lld: %.9g on the CPU, %.9g here", (long long)k, numbers[0][k],
                     numbers[1][k]);
}

/* A call with inputs made by `make` on each side. All outputs are compared, and as many of the
 * first inputs as an update has changed. */
typedef void make_fn(tl_ctx *c, tl_tensor **in);

static void check(const sides *s, tl_op op, const void *attr, make_fn *make, int inputs,
                  double most, int changed)
{
    tl_tensor *in[2][MOST] = {{NULL}}, *out[2][MOST] = {{NULL}};
    for (int i = 0; i < 2; i++) {
        make(s->c[i], in[i]);
        assert_true(tl_apply_all(s->c[i], op, attr, inputs, in[i], out[i]));
    }
    for (int k = 0; k < tl_op_class_of(op)->outputs; k++)
        if (tl_tensor_count(out[0][k])) compare(s, (tl_tensor *[]){out[0][k], out[1][k]}, most);
    for (int k = 0; k < changed; k++) compare(s, (tl_tensor *[]){in[0][k], in[1][k]}, most);
}

static tl_tensor *drawn(tl_ctx *c, tl_dtype dtype, tl_shape shape)
{
    return tl_random_normal(c, dtype, shape, 0, 1);
}

static void make_norm(tl_ctx *c, tl_tensor **in)
{
    in[0] = drawn(c, TL_BF16, TL_SHAPE(37, 768));
    in[1] = drawn(c, TL_F32, TL_SHAPE(768));
    in[2] = drawn(c, TL_F32, TL_SHAPE(768));
}

static void make_norm_grad(tl_ctx *c, tl_tensor **in)
{
    in[0] = drawn(c, TL_BF16, TL_SHAPE(37, 768));
    in[1] = drawn(c, TL_BF16, TL_SHAPE(37, 768));
    in[2] = drawn(c, TL_F32, TL_SHAPE(37));
    in[3] = tl_random_uniform(c, TL_F32, TL_SHAPE(37), 0.5, 2);
    in[4] = drawn(c, TL_F32, TL_SHAPE(768));
}

static void norms(void **state)
{
    const tl_norm_attr attr = {.epsilon = 1e-5, .axes = 1, .scaled = true, .shifted = true};
    check(*state, TL_OP_layer_normalize, &attr, make_norm, 3, 0.01, 0);
    check(*state, TL_OP_layer_normalize_grad, &attr, make_norm_grad, 5, 0.01, 0);
}

static void make_loss(tl_ctx *c, tl_tensor **in)
{
    in[0] = tl_random_integers(c, TL_I32, TL_SHAPE(5), 0, 5003);
    in[1] = drawn(c, TL_F32, TL_SHAPE(5, 5003));
}

static void losses(void **state)
{
    const tl_entropy_attr attr = {.smoothing = 0.1};
    check(*state, TL_OP_sparse_cross_entropy, &attr, make_loss, 2, 1e-5, 0);
}

static void make_lookup(tl_ctx *c, tl_tensor **in)
{
    in[0] = drawn(c, TL_F32, TL_SHAPE(3000, 12));
    in[1] = tl_random_integers(c, TL_I64, TL_SHAPE(3000), 0, 700);
}

/* In order among equals, so the bits are those of the CPU. */
static void sums_of_places(void **state)
{
    const tl_scatter_attr attr = {.axis = 0, .size = 700};
    check(*state, TL_OP_gather_grad, &attr, make_lookup, 2, 0, 0);
}

static void bad_indices_are_told(void **state)
{
    const sides *s = *state;
    const tl_mark mark = tl_ctx_begin(s->c[1]);
    const int64_t indices[] = {0, 2, 9, 1};
    tl_tensor *x = tl_zeros(s->c[1], TL_F32, TL_SHAPE(3, 2));
    tl_tensor *i = tl_from(s->c[1], TL_I64, TL_SHAPE(2, 2), indices);
    assert_null(tl_gather(s->c[1], x, i, 0));
    assert_non_null(
        strstr(tl_error_message(), "index 9 (at [1, 0] of the indices) is not below 3"));
    tl_ctx_end(s->c[1], mark);
    tl_ctx_clear(s->c[1]);
}

static void make_elements(tl_ctx *c, tl_tensor **in)
{
    in[0] = drawn(c, TL_BF16, TL_SHAPE(11, 1001));
}

static void draws_have_the_bits_of_the_cpu(void **state)
{
    const tl_dropout_attr attr = {.rate = 0.3, .key = 99};
    check(*state, TL_OP_dropout, &attr, make_elements, 1, 0, 0);
}

static void make_adam(tl_ctx *c, tl_tensor **in)
{
    static const float hyper[] = {1e-2f, 3, 0.5f, 1};
    const tl_shape shape = TL_SHAPE(5000);
    in[0] = drawn(c, TL_F32, shape);
    in[1] = drawn(c, TL_F32, shape);
    in[2] = tl_from(c, TL_F32, TL_SHAPE(4), hyper);
    in[3] = drawn(c, TL_F32, shape);
    in[4] = tl_random_uniform(c, TL_F32, shape, 0, 1);
}

static void updates(void **state)
{
    static const int64_t offsets[] = {0, 1001, 4000}, decayed[] = {1, 0, 1};
    const tl_adam_attr attr = {.beta_1 = 0.9,
                               .beta_2 = 0.99,
                               .epsilon = 1e-8,
                               .weight_decay = 0.1,
                               .offsets = {(int64_t *)offsets, 3},
                               .decayed = {(int64_t *)decayed, 3}};
    check(*state, TL_OP_update_adam, &attr, make_adam, 5, 1e-6, 1);
}

static void make_images(tl_ctx *c, tl_tensor **in)
{
    in[0] = drawn(c, TL_F32, TL_SHAPE(9, 7, 7, 24));
    in[1] = drawn(c, TL_F32, TL_SHAPE(24));
    in[2] = drawn(c, TL_F32, TL_SHAPE(24));
}

static void channels(void **state)
{
    const tl_norm_attr attr = {
        .epsilon = 1e-3, .scaled = true, .shifted = true, .activation = TL_ACT_RELU};
    check(*state, TL_OP_batch_normalize, &attr, make_images, 3, 1e-5, 0);
}

static void averages_together(void **state)
{
    float w[2][3] = {{1, 2, 3}, {4, 5, 6}};
    const float values[2][3] = {{2, 2, 2}, {0, 1, 2}}, momentum = 0.5f;
    const tli_average rows[] = {{w[0], values[0], NULL, 3, 0.75},
                                {w[1], values[1], &momentum, 3, 9}};
    const tl_run run = {0};
    (void)state;
    assert_ok(tli_cuda_put_averages(&run, rows, 2));
    for (int i = 0; i < 3; i++) {
        assert_float_equal(w[0][i], 0.75f * (float)(i + 1) + 0.25f * 2, 1e-6f);
        assert_float_equal(w[1][i], 0.5f * (float)(i + 4) + 0.5f * (float)i, 1e-6f);
    }
}

/* --- pictures in rows ------------------------------------------------------------------------- */

static uint16_t pixel_at(const tli_conv *c, const uint16_t *x, int64_t row, int64_t tap)
{
    const int64_t column = row % c->result_columns, line = row / c->result_columns % c->result_rows;
    const int64_t n = row / (c->result_columns * c->result_rows), place = tap / c->in;
    const int64_t i = line * c->window.strides[0] - c->window.before[0]
                      + place / c->filter_columns * c->window.dilations[0];
    const int64_t j = column * c->window.strides[1] - c->window.before[1]
                      + place % c->filter_columns * c->window.dilations[1];
    const bool in = place < c->filter_rows * c->filter_columns && i >= 0 && i < c->rows && j >= 0
                    && j < c->columns;
    return in ? x[((n * c->rows + i) * c->columns + j) * c->in + tap % c->in] : 0;
}

static void test_patches(void **state)
{
    static const tli_conv cases[] = {
        {TLI_DNN_FORWARD, TL_BF16, 3, 6, 5, 3, 3, 3, 1, 6, 5, 8, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}},
        {TLI_DNN_FORWARD, TL_F16, 2, 9, 8, 1, 3, 2, 1, 6, 5, 16, {{1, 2}, {2, 1}, {1, 2}, {0, 1}}},
    };
    enum { MOST_ROWS = 90, MOST_WIDTH = 64, MOST_OUT = 16 };
    static uint16_t x[3 * 9 * 8 * 3], rows[MOST_ROWS * MOST_WIDTH], w[MOST_WIDTH * MOST_OUT],
        filter[MOST_WIDTH * MOST_OUT];
    const tl_run run = {0};
    (void)state;
    for (int i = 0; i < (int)TL_COUNT(x); i++) x[i] = (uint16_t)(i + 1);
    for (int i = 0; i < (int)TL_COUNT(w); i++) w[i] = (uint16_t)(3 * i + 1);
    for (int k = 0; k < (int)TL_COUNT(cases); k++) {
        const tli_conv *c = &cases[k];
        const int64_t width = tli_conv_patch(c), taps = c->filter_rows * c->filter_columns * c->in;
        const int64_t count = c->n * c->result_rows * c->result_columns;
        assert_true(tli_conv_has_patches(c) && count <= MOST_ROWS && width <= MOST_WIDTH);
        memset(rows, 0xff, sizeof rows);
        memset(filter, 0xff, sizeof filter);
        assert_ok(tli_conv_put_patches(&run, c, x, rows, w, filter));
        for (int64_t r = 0; r < count; r++)
            for (int64_t tap = 0; tap < width; tap++)
                assert_int_equal(rows[r * width + tap], tap < taps ? pixel_at(c, x, r, tap) : 0);
        for (int64_t i = 0; i < width * c->out; i++)
            assert_int_equal(filter[i], i < taps * c->out ? w[i] : 0);
    }
}

/* --- small products --------------------------------------------------------------------------- */

static float half_at(const uint16_t *x, int64_t i)
{
    const uint32_t bits = (uint32_t)x[i] << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void draw_halves(uint16_t *to, int64_t count, tl_rng *rng)
{
    for (int64_t i = 0; i < count; i++) { // between -1 and 1
        const float f = (float)tl_rng_u32(rng) * 0x1p-31f - 1;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        to[i] = (uint16_t)(bits >> 16);
    }
}

static double product_at(const tli_cuda_product *w, const uint16_t *a, const uint16_t *b, int64_t i,
                         int64_t j)
{
    double sum = 0;
    for (int64_t l = 0; l < w->k; l++)
        sum += (double)half_at(a, w->transpose_a ? l * w->m + i : i * w->k + l)
               * (double)half_at(b, w->transpose_b ? j * w->k + l : l * w->n + j);
    return sum;
}

/* All that has its own text: transposed operands, odd sizes, rows of whole vectors, tiles of each
 * form, what follows the sum. */
static void test_small_products(void **state)
{
    enum { MOST_M = 400, MOST_N = 176, K = 271 };
    static const int64_t sizes[][3] = {
        {37, 45, K}, {37, 45, K + 1}, {48, 56, 1040}, {200, 176, 24}, {400, 176, 8}};
    static uint16_t a[2 * MOST_M * K], b[3 * MOST_N * K], bias[MOST_N];
    static float c[2 * MOST_M * MOST_N], mask[2 * MOST_M * MOST_N];
    const tl_run run = {0};
    tl_rng rng;
    (void)state;
    shim.for_gpu = true;
    tl_rng_init(&rng, 5);
    draw_halves(a, TL_COUNT(a), &rng);
    draw_halves(b, TL_COUNT(b), &rng);
    draw_halves(bias, MOST_N, &rng);
    for (int64_t i = 0; i < TL_COUNT(mask); i++) mask[i] = (float)((int)tl_rng_below(&rng, 5) - 2);
    mask[1] = NAN;
    for (int form = 0; form < 2 * TL_COUNT(sizes); form++) { // with 2 of the 4 ways to lie each
        const int64_t *size = sizes[form % TL_COUNT(sizes)], m = size[0], n = size[1], k = size[2];
        const bool more = form % 3 == 0, masked = form % 4 < 2;
        const tli_cuda_product w = {.dtype = TL_BF16,
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .transpose_a = form & 1,
                                    .transpose_b = form >> 1 & 1,
                                    .batch = 2,
                                    .a_step = m * k,
                                    .b_step = k * n,
                                    .wide = true,
                                    .bias = more,
                                    .masked = masked,
                                    .activation = more ? TL_ACT_RELU : TL_ACT_NONE};
        assert_true(tli_cuda_is_small(&w));
        assert_ok(tli_cuda_multiply_small(
            &run, &w,
            &(tli_cuda_operands){
                .a = a, .b = b, .bias = more ? bias : NULL, .mask = masked ? mask : NULL, .c = c}));
        for (int64_t e = 0; e < 2 * m * n; e++) {
            const int64_t matrix = e / (m * n), i = e / n % m, j = e % n;
            double want = product_at(&w, a + matrix * w.a_step, b + matrix * w.b_step, i, j);
            if (more) want = fmax(want + (double)half_at(bias, j), 0);
            if (masked && !(mask[e] > 0)) want = 0;
            assert_true(fabs(want - (double)c[e]) < 3e-4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_products),
        cmocka_unit_test(averages_together),
        cmocka_unit_test(test_patches),
        cmocka_unit_test(norms),
        cmocka_unit_test(losses),
        cmocka_unit_test(sums_of_places),
        cmocka_unit_test(bad_indices_are_told),
        cmocka_unit_test(draws_have_the_bits_of_the_cpu),
        cmocka_unit_test(updates),
        cmocka_unit_test(channels),
    };
    return cmocka_run_group_tests(tests, open_sides, close_sides);
}
