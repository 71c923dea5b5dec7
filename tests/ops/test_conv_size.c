/* Convolutions that are large enough to be cut into tasks (needs: threads), by each of the ways in
 * which they are computed: the right numbers, and the same bits on any number of threads. */
#include "test.h"
#include "engine.h"
#include "ops/elements.h"

#include <tilth/base/alloc.h>
#include <tilth/base/rng.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/conv.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>

typedef struct size_case {
    const char *name;
    int64_t images, h, w, in, kh, kw, out;
    int64_t stride[2], dilation[2], pads[4], groups;
} size_case;

// clang-format off
static const size_case cases[] = {
    {"3x3", 2, 9, 10, 72, 3, 3, 40, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {"3x3, stride 2", 2, 14, 13, 24, 3, 3, 100, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1},
    {"odd channels, uneven strides and pads",
     2, 11, 19, 13, 3, 2, 17, {2, 3}, {1, 2}, {1, 2, 0, 1}, 1},
    {"stride beyond the filter", 2, 17, 16, 12, 2, 2, 20, {3, 4}, {1, 1}, {0, 0, 0, 0}, 1},
    {"dilation that shares a factor with the stride", 2, 17, 18, 12, 3, 3, 16,
     {2, 4}, {4, 2}, {3, 2, 1, 2}, 1},
    {"3x3, channels in whole panels", 3, 9, 7, 64, 3, 3, 40, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {"groups of whole panels, uneven strides and pads",
     2, 13, 12, 192, 3, 2, 70, {2, 1}, {1, 2}, {2, 0, 1, 2}, 2},
    {"1x1", 2, 12, 13, 130, 1, 1, 140, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {"1x1, few results", 2, 12, 13, 150, 1, 1, 20, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {"1x1, stride 2", 2, 13, 12, 40, 1, 1, 24, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1},
    {"1x1 with pads", 2, 9, 8, 20, 1, 1, 24, {1, 1}, {1, 1}, {1, 0, 2, 1}, 1},
    {"a long sum", 2, 48, 48, 16, 2, 2, 5, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {"3x3, many rows of few results", 3, 17, 19, 20, 3, 3, 48, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {"3x3, results that are no whole vectors", 2, 16, 15, 9, 3, 3, 27,
     {1, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {"1x1, many rows", 4, 20, 21, 64, 1, 1, 64, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {"more channels than zeros are kept for", 1, 9, 9, 1030, 2, 2, 24,
     {1, 1}, {1, 1}, {1, 0, 1, 0}, 1},
    {"groups", 2, 12, 11, 36, 3, 3, 30, {1, 1}, {2, 2}, {2, 2, 2, 2}, 3},
    {"groups, 1x1", 3, 10, 9, 36, 1, 1, 44, {1, 1}, {1, 1}, {0, 0, 0, 0}, 2},
    {"three channels", 2, 33, 31, 3, 7, 7, 20, {2, 2}, {1, 1}, {3, 3, 3, 3}, 1},
    {"three channels, wide", 1, 9, 70, 3, 3, 5, 33, {1, 1}, {2, 1}, {2, 1, 0, 3}, 1},
    {"one channel", 3, 28, 28, 1, 5, 5, 6, {1, 1}, {1, 1}, {2, 2, 2, 2}, 1},
    {"one channel, dilated across", 2, 28, 27, 1, 3, 3, 6, {1, 1}, {1, 3}, {2, 2, 2, 2}, 1},
    {"few channels, stride beyond the filter",
     2, 23, 22, 4, 2, 2, 9, {3, 3}, {1, 1}, {0, 0, 0, 0}, 1},
    {"groups of few channels", 2, 22, 21, 16, 3, 3, 40, {1, 2}, {1, 1}, {1, 1, 1, 1}, 4},
    {"a channel each", 2, 20, 21, 36, 3, 3, 36, {1, 1}, {1, 1}, {1, 1, 1, 1}, 36},
    {"a channel each, odd", 2, 20, 25, 19, 5, 4, 19, {2, 1}, {1, 1}, {1, 2, 2, 1}, 19},
    {"a channel each, strides", 2, 31, 30, 44, 3, 3, 44, {2, 3}, {1, 1}, {1, 1, 1, 1}, 44},
    {"a channel each, dilated", 2, 19, 26, 52, 3, 3, 52, {1, 1}, {3, 2}, {3, 3, 1, 2}, 52},
    {"a channel each, three times", 2, 12, 13, 10, 3, 3, 30, {1, 1}, {1, 1}, {1, 1, 1, 1}, 10},
    {"a channel each, channels in pieces", 2, 5, 24, 205, 3, 3, 205,
     {1, 1}, {1, 1}, {1, 1, 1, 1}, 205},
    {"a channel each, 5x5", 2, 16, 17, 20, 5, 5, 20, {1, 1}, {1, 1}, {2, 2, 2, 2}, 20},
    {"a channel each, 5x5, stride 2", 3, 15, 14, 24, 5, 5, 24, {2, 2}, {1, 1}, {1, 2, 1, 2}, 24},
    {"a channel each, stride 3, dilated", 2, 22, 23, 18, 3, 3, 18,
     {3, 3}, {2, 2}, {2, 2, 2, 2}, 18},
    {"a channel each, smaller than the window", 3, 2, 1, 40, 5, 5, 40,
     {1, 1}, {1, 1}, {2, 2, 2, 2}, 40},
    {"a channel each, dilated beyond the image", 2, 9, 8, 36, 3, 3, 36,
     {1, 1}, {12, 9}, {12, 12, 9, 9}, 36},
    {"a channel each, twice, stride 2", 2, 15, 16, 21, 3, 3, 42, {2, 2}, {1, 1}, {1, 1, 1, 1}, 21},
    {"much beside the image", 2, 17, 17, 32, 3, 3, 36, {1, 1}, {8, 8}, {8, 8, 8, 8}, 1},
    {"much beside the image, a column alone", 2, 17, 16, 33, 3, 3, 40,
     {1, 1}, {18, 5}, {18, 18, 5, 5}, 1},
    {"much beside the image, groups, places without pixels", 2, 14, 15, 64, 2, 3, 66,
     {1, 1}, {4, 7}, {15, 3, 9, 17}, 2},
    {"much beside the image, 5x5", 3, 14, 13, 32, 5, 5, 34, {1, 1}, {3, 2}, {6, 6, 5, 3}, 1},
    {"pads wider than the image", 2, 3, 4, 10, 3, 3, 12, {1, 2}, {1, 1}, {6, 5, 7, 6}, 1},
    {"pads wider than the image, a channel each", 2, 3, 4, 12, 3, 3, 12,
     {1, 1}, {1, 1}, {6, 5, 7, 6}, 12},
    {"pads wider than the image, few channels",
     2, 3, 4, 2, 3, 3, 12, {2, 1}, {1, 1}, {6, 5, 7, 6}, 1},
    {"three channels, filter's gradient in parts", 4, 24, 24, 3, 3, 3, 64,
     {1, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {"tiles of 4x4", 2, 16, 16, 64, 3, 3, 64, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {"tiles of 4x4, odd channels and sizes", 3, 15, 18, 37, 3, 3, 33,
     {1, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {"tiles of 4x4, uneven pads", 2, 14, 17, 34, 3, 3, 41, {1, 1}, {1, 1}, {0, 3, 5, 0}, 1},
    {"tiles of 4x4, no pads, columns in ranges", 2, 18, 17, 32, 3, 3, 390,
     {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {"tiles of 4x4, sums in pieces", 3, 12, 12, 300, 3, 3, 35, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {"tiles of 4x4, dilated", 2, 32, 35, 48, 3, 3, 32, {1, 1}, {2, 3}, {2, 2, 3, 3}, 1},
};
// clang-format on
enum { CASES = sizeof cases / sizeof *cases, OUTPUTS = 3 };
static const char *const outputs[OUTPUTS] = {"result", "image's gradient", "filter's gradient"};

static tl_status compute(tl_ctx *c, const size_case *k, tl_dtype dtype, tl_tensor **out)
{
    tl_tensor *x = fine_numbers(c, dtype, TL_SHAPE(k->images, k->h, k->w, k->in), 1);
    tl_tensor *w = fine_numbers(c, dtype, TL_SHAPE(k->kh, k->kw, k->in / k->groups, k->out), 2);
    tl_tensor *in[] = {x, w};
    for (int i = 0; i < 2; i++) TL_TRY(tl_watch(in[i]));
    tl_ctx_set_taping(c, true);
    out[0] = tl_convolve2d(c, x, w, .stride = {k->stride[0], k->stride[1]},
                           .dilation = {k->dilation[0], k->dilation[1]}, .padding = TL_EXPLICIT,
                           .pads = {k->pads[0], k->pads[1], k->pads[2], k->pads[3]},
                           .groups = k->groups);
    TL_TRY(tl_ctx_status(c));
    // Each place has its own weight, so that none can stand for another.
    tl_tensor *weighted = tl_mul(c, out[0], fine_numbers(c, dtype, out[0]->shape, 3));
    TL_TRY(tl_gradient(c, weighted, in, 2, out + 1));
    tl_ctx_set_taping(c, false);
    return tl_ctx_status(c);
}

typedef void check_fn(const size_case *k, int which, const tl_tensor *t, const char *backend);

static void each_run(const tl_backend_class *backend, int threads, const size_case *k,
                     tl_dtype dtype, check_fn *check)
{
    tl_engine *e;
    tl_ctx *c;
    tl_tensor *out[OUTPUTS];
    assert_ok(test_engine_new(&e, backend, threads));
    assert_ok(tl_ctx_new(&c, e));
    assert_ok(compute(c, k, dtype, out));
    for (int i = 0; i < OUTPUTS; i++) check(k, i, out[i], backend->cls.name);
    tl_ctx_free(&c);
    tl_engine_free(&e);
}

static void *bits[OUTPUTS];
static double *exact[OUTPUTS];

static void keep_exact(const size_case *k, int which, const tl_tensor *t, const char *backend)
{
    (void)k, (void)backend;
    exact[which] = doubles_of(t);
}

static void near_exact(const size_case *k, int which, const tl_tensor *t, const char *backend)
{
    // Winograd's method adds numbers that cancel: 1.1e-6 at most, where plain sums are off by 5e-7.
    static const double most[] = {[TL_F32] = 2e-6, [TL_BF16] = 1e-2, [TL_F16] = 1e-3};
    double *own = doubles_of(t), off = 0, size = 0;
    for (int64_t i = 0; i < tl_tensor_count(t); i++) {
        off += (own[i] - exact[which][i]) * (own[i] - exact[which][i]);
        size += exact[which][i] * exact[which][i];
    }
    if (!(sqrt(off) <= most[t->dtype] * sqrt(size)))
        fail_msg("%s, %s, %s: the %s is off by %g", k->name, backend, tl_dtype_name(t->dtype),
                 outputs[which], sqrt(off / size));
    tl_free(own);
}

static void near_exact_bits(const size_case *k, int which, const tl_tensor *t, const char *backend)
{
    if (exact[which]) near_exact(k, which, t, backend);
    bits[which] = elements_of(t);
}

static void same_bits(const size_case *k, int which, const tl_tensor *t, const char *backend)
{
    void *own = elements_of(t);
    if (memcmp(own, bits[which], tl_tensor_bytes(t)) != 0)
        fail_msg("%s, %s: the %s differs from that of one thread", k->name, backend,
                 outputs[which]);
    tl_free(own);
}

static void sizes(void **state)
{
    static const tl_dtype dtypes[] = {TL_F32, TL_BF16, TL_F16};
    static const int threads[] = {2, 3, 7};
    int64_t count;
    const tl_backend_class *const *all = tl_cpu_backends(&count);
    (void)state;
    for (int k = 0; k < CASES; k++) {
        if (THREAD_SANITIZED && !test_takes(k, 2)) continue;
        if (test_takes_unseen()) each_run(&tl_backend_reference, 1, &cases[k], TL_F64, keep_exact);
        for (int64_t b = 0; b < count; b++)
            for (int d = 0; d < 3; d++) {
                if (!all[b]->supported || all[b]->supported() != TL_OK || !test_takes(k + b + d, 4))
                    continue;
                each_run(all[b], 1, &cases[k], dtypes[d], near_exact_bits);
                for (int t = 0; t < 3; t++)
                    if (test_takes(k + b + t, 3))
                        each_run(all[b], threads[t], &cases[k], dtypes[d], same_bits);
                for (int i = 0; i < OUTPUTS; i++) tl_free(bits[i]);
            }
        for (int i = 0; i < OUTPUTS; i++) tl_free(exact[i]);
    }
}

/* What is not finite in the image is not finite in all results that see it; nor beyond the tiles
 * that it lies in, of 6 x 6 pixels. */
static void not_finite(void **state)
{
    enum { SIDE = 24, CHANNELS = 32, Y = 10, X = 11, FAR = 6 };
    const double bad[] = {INFINITY, -INFINITY, NAN};
    int64_t count;
    const tl_backend_class *const *all = tl_cpu_backends(&count);
    (void)state;
    for (int64_t b = 0; b < count; b++)
        for (int i = 0; i < 3; i++) {
            if (!all[b]->supported || all[b]->supported() != TL_OK) continue;
            tl_engine *e;
            tl_ctx *c;
            assert_ok(test_engine_new(&e, all[b], 1));
            assert_ok(tl_ctx_new(&c, e));
            const tl_shape shape = TL_SHAPE(2, SIDE, SIDE, CHANNELS);
            tl_tensor *x = fine_numbers(c, TL_F32, shape, 1);
            double *values = doubles_of(x);
            values[(Y * SIDE + X) * CHANNELS + 3] = bad[i];
            x = tl_from_doubles(c, TL_F32, shape, values);
            tl_free(values);
            tl_tensor *w = fine_numbers(c, TL_F32, TL_SHAPE(3, 3, CHANNELS, CHANNELS), 2);
            double *y = doubles_of(tl_convolve2d(c, x, w, .padding = TL_SAME));
            for (int64_t at = 0; at < 2 * SIDE * SIDE * CHANNELS; at++) {
                const int64_t image = at / CHANNELS / SIDE / SIDE;
                const int64_t down = llabs(at / CHANNELS / SIDE % SIDE - Y);
                const int64_t across = llabs(at / CHANNELS % SIDE - X);
                if (image == 0 && down <= 1 && across <= 1) assert_false(isfinite(y[at]));
                if (image == 1 || down >= FAR || across >= FAR) assert_true(isfinite(y[at]));
            }
            tl_free(y);
            tl_ctx_free(&c);
            tl_engine_free(&e);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
