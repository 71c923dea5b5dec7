/* Products that are large enough to be cut into tasks (needs: threads): the same bits on any number
 * of them, and the right numbers. */
#include "test.h"
#include "engine.h"
#include "ops/elements.h"

#include <tilth/base/alloc.h>
#include <tilth/base/rng.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/create.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/view.h>

enum { ROWS = 128, DEPTH = 260, UNITS = 190, STACK = 24, OUTPUTS = 7 };

// A layer and its gradients, a stack of products, one long sum, and axes in another order.
static tl_status compute(tl_ctx *c, tl_dtype dtype, tl_tensor **out)
{
    tl_tensor *x = fine_numbers(c, dtype, TL_SHAPE(2, ROWS, DEPTH), 1);
    tl_tensor *w = fine_numbers(c, dtype, TL_SHAPE(DEPTH, UNITS), 2);
    tl_tensor *bias = fine_numbers(c, dtype, TL_SHAPE(UNITS), 3), *in[] = {x, w, bias};
    tl_tensor *stack = fine_numbers(c, dtype, TL_SHAPE(STACK, 33, 41), 4);
    const int64_t all = STACK * 33 * 41;
    for (int i = 0; i < 3; i++) TL_TRY(tl_watch(in[i]));
    tl_ctx_set_taping(c, true);
    out[0] = tl_linear(c, x, w, bias, TL_ACT_GELU);
    TL_TRY(tl_gradient(c, out[0], in, 3, out + 1));
    tl_ctx_set_taping(c, false);
    out[4] = tl_matmul_with(c, stack, stack, false, true);
    out[5] = tl_matmul(c, tl_reshape(c, stack, TL_SHAPE(1, all)),
                       tl_reshape(c, stack, TL_SHAPE(all, 1)));
    out[6] =
        tl_einsum(c, "aij,bji->ab", 2,
                  (tl_tensor *[]){stack, tl_transpose(c, stack, (const int64_t[]){0, 2, 1}, 3)});
    return tl_ctx_status(c);
}

static void each_run(const tl_backend_class *backend, int threads, tl_dtype dtype,
                     void (*check)(int which, const tl_tensor *t, const char *backend_name))
{
    tl_engine *e;
    tl_ctx *c;
    tl_tensor *out[OUTPUTS];
    assert_ok(test_engine_new(&e, backend, threads));
    assert_ok(tl_ctx_new(&c, e));
    assert_ok(compute(c, dtype, out));
    for (int i = 0; i < OUTPUTS; i++) check(i, out[i], backend->cls.name);
    tl_ctx_free(&c);
    tl_engine_free(&e);
}

static void *bits[OUTPUTS];
static double *exact[OUTPUTS];

static void keep_bits(int which, const tl_tensor *t, const char *backend)
{
    (void)backend;
    tl_free(bits[which]);
    bits[which] = elements_of(t);
}

static void same_bits(int which, const tl_tensor *t, const char *backend)
{
    void *own = elements_of(t);
    if (memcmp(own, bits[which], tl_tensor_bytes(t)) != 0)
        fail_msg("%s: result %d differs from that of one thread", backend, which);
    tl_free(own);
}

static void keep_exact(int which, const tl_tensor *t, const char *backend)
{
    (void)backend;
    exact[which] = doubles_of(t);
}

static void near_exact(int which, const tl_tensor *t, const char *backend)
{
    static const double most[] = {
        [TL_F32] = 1e-5,
        [TL_BF16] = 1e-2,
        [TL_F16] = 2e-3,
        [TL_F64] = 1e-13,
    };
    double *own = doubles_of(t), off = 0, size = 0;
    for (int64_t i = 0; i < tl_tensor_count(t); i++) {
        off += (own[i] - exact[which][i]) * (own[i] - exact[which][i]);
        size += exact[which][i] * exact[which][i];
    }
    if (!(sqrt(off) <= most[t->dtype] * sqrt(size)))
        fail_msg("%s, %s: result %d is off by %g", backend, tl_dtype_name(t->dtype), which,
                 sqrt(off / size));
    tl_free(own);
}

// Backends of instruction sets that this machine has; the reference is too slow for these sizes.
static int64_t usable(const tl_backend_class **out)
{
    int64_t count, found = 0;
    const tl_backend_class *const *all = tl_cpu_backends(&count);
    for (int64_t i = 0; i < count; i++)
        if (all[i]->supported && all[i]->supported() == TL_OK) out[found++] = all[i];
    return found;
}

static void threads_do_not_matter(void **state)
{
    static const tl_dtype dtypes[] = {TL_F32, TL_BF16, TL_F16, TL_F64};
    static const int threads[] = {2, 3, 7, 16};
    const tl_backend_class *backends[8];
    (void)state;
    for (int64_t b = 0, count = usable(backends); b < count; b++)
        for (int d = 0; d < 4; d++) {
            if (!test_takes(b + d, 3)) continue;
            each_run(backends[b], 1, dtypes[d], keep_bits);
            for (int t = 0; t < 4; t++)
                if (test_takes(b + t, 2)) each_run(backends[b], threads[t], dtypes[d], same_bits);
        }
    for (int i = 0; i < OUTPUTS; i++) tl_free(bits[i]);
}

static void numbers_are_right(void **state)
{
    static const tl_dtype dtypes[] = {TL_F32, TL_BF16, TL_F16, TL_F64};
    const tl_backend_class *backends[8];
    int64_t count = usable(backends);
    (void)state;
    if (!test_takes_unseen()) skip();
    each_run(&tl_backend_reference, 1, TL_F64, keep_exact);
    for (int64_t b = 0; b < count; b++)
        for (int d = 0; d < 4; d++) each_run(backends[b], 2, dtypes[d], near_exact);
    for (int i = 0; i < OUTPUTS; i++) tl_free(exact[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(numbers_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
