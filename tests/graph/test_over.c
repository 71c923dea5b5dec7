/* Gradients of losses lie over the logits, where these are large and nobody reads them any more
 * (graph/reuse.c): the results are those of eager calls, in half the memory. */
#include <math.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/loss.h>
#include <tilth/sys/graph/program.h>

#include "graph/graph_test.h"

enum { ROWS = 512, CLASSES = 1024, SIZE = 4, IGNORED = 7 };

typedef struct how {
    tl_dtype dtype;
    double smoothing;
    bool apart; /* each row counts as often as its loss says, which is not known before */
    bool late;  /* the logits are read behind their gradients */
} how;

static tl_tensor *numbers(tl_ctx *c, int64_t rows, int64_t step)
{
    static float values[CLASSES * SIZE];
    for (int64_t i = 0; i < rows * SIZE; i++) values[i] = (float)(i * step % 61 - 30) / 16;
    return tl_from(c, TL_F32, TL_SHAPE(rows, SIZE), values);
}

static tl_tensor *labels_of(tl_ctx *c)
{
    static int32_t values[ROWS];
    for (int32_t i = 0; i < ROWS; i++) values[i] = i * 37 % CLASSES;
    return tl_from(c, TL_I32, TL_SHAPE(ROWS), values);
}

static tl_status lesson(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const how *h = self;
    tl_tensor *x = tl_tensors_get(c, in, "x"), *table = tl_tensors_get(c, in, "table"), *g;
    tl_tensor *z =
        tl_matmul_with(c, tl_cast(c, x, h->dtype), tl_cast(c, table, h->dtype), false, true);
    tl_tensor *losses = tl_sparse_cross_entropy(c, labels_of(c), z, .smoothing = h->smoothing,
                                                .ignored = {true, IGNORED});
    if (h->apart) losses = tl_mul(c, losses, tl_exp(c, tl_affine(c, losses, 0.1, 0)));
    tl_tensors_put(c, out, "losses", losses);
    if (tl_gradient(c, tl_mean(c, losses, TL_ALL, false), &table, 1, &g) == TL_OK)
        tl_tensors_put(c, out, "g", g);
    if (h->late && g) {
        tl_tensor *more = tl_affine(c, tl_sum(c, g, TL_ALL, false), 0, 0);
        tl_tensors_put(c, out, "late",
                       tl_max(c, tl_add(c, tl_cast(c, z, TL_F32), more), TL_ALL, false));
    }
    return tl_ctx_status(c);
}

static void expect_near(const tl_tensors *a, const tl_tensors *b, const char *name, double most)
{
    static double x[CLASSES * SIZE], y[CLASSES * SIZE];
    const tl_tensor *is = tl_tensors_peek(a, name), *should = tl_tensors_peek(b, name);
    if (!is && !should) return;
    assert_non_null(is);
    const int64_t count = tl_tensor_count(is);
    double largest = 0;
    assert_int_equal(count, tl_tensor_count(should));
    assert_ok(tl_tensor_get_doubles(is, x, count));
    assert_ok(tl_tensor_get_doubles(should, y, count));
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(y[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(x[i] - y[i]) <= most * largest))
            fail_msg("%s[%d] is %g and should be %g", name, (int)i, x[i], y[i]);
}

static void expect_lesson(fixture *f, how h)
{
    tl_ctx *c = f->c;
    tl_function *function;
    tl_tensors in = {0}, eager = {0}, out = {0};
    tl_tensor *table = numbers(c, CLASSES, 17);
    tl_tensors_put(c, &in, "x", numbers(c, ROWS, 29));
    tl_tensors_put(c, &in, "table", table);
    assert_ok(tl_watch(table));
    const bool before = tl_ctx_set_taping(c, true);
    assert_ok(lesson(&h, c, &in, &eager));
    tl_ctx_set_taping(c, before);
    assert_ok(tl_function_new(
        &function, &(tl_function_args){.engine = f->engine, .body = lesson, .self = &h}));
    for (int i = 0; i < 2; i++) {
        out = (tl_tensors){0};
        assert_ok(tl_function_call(function, c, &in, &out));
    }
    const double most = h.dtype == TL_F32 ? 1e-6 : 1e-2;
    expect_near(&out, &eager, "losses", most);
    expect_near(&out, &eager, "g", most);
    expect_near(&out, &eager, "late", most);
    tl_program_stats stats;
    tl_program_measure(tl_function_program(function), &stats);
    const int64_t logits = (int64_t)tl_dtype_size(h.dtype) * ROWS * CLASSES;
    if (h.late) assert_true(stats.workspace >= 2 * logits);
    else if (tl_engine_device(f->engine)->cls->host) assert_true(stats.workspace < 2 * logits);
    tl_function_free(&function);
}

static void gradients_lie_over_logits(void **state)
{
    static const tl_dtype dtypes[] = {TL_F32, TL_BF16};
    for (int i = 0; i < TL_COUNT(dtypes); i++)
        for (int apart = 0; apart < 2; apart++) {
            expect_lesson(*state, (how){.dtype = dtypes[i], .apart = apart});
            expect_lesson(*state, (how){.dtype = dtypes[i], .apart = apart, .smoothing = 0.1});
        }
}

static void logits_that_are_read_later_stay(void **state)
{
    expect_lesson(*state, (how){.dtype = TL_F32, .late = true});
    expect_lesson(*state, (how){.dtype = TL_F32, .late = true, .apart = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradients_lie_over_logits, setup, teardown),
        cmocka_unit_test_setup_teardown(logits_that_are_read_later_stay, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
