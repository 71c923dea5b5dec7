/* Results that the caller keeps, run after run, where programs are lists of work of their device:
 * each holds what its own run computed. runs: fake device */
#include "test.h"
#include "engine.h"
#include "fake/fake_device.h"

#include <tilth/graph/function.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

enum { RUNS = 40, ELEMENTS = 3000 };

/* A small result, and one that is too large to be copied where it is asked for. */
static tl_status body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const bool *large = self;
    tl_tensor *x = tl_tensors_get(c, in, "x"), *y = tl_affine(c, tl_square(c, x), 2, 1);
    tl_tensors_put(c, out, "sum", tl_sum(c, y, TL_ALL, false));
    tl_tensor *row = tl_reshape(c, x, TL_SHAPE(1, ELEMENTS)); // one call alone is no list
    tl_tensors_put(c, out, "square", tl_matmul(c, row, tl_reshape(c, x, TL_SHAPE(ELEMENTS, 1))));
    if (*large) tl_tensors_put(c, out, "all", y);
    return tl_ctx_status(c);
}

static void fill(tl_tensor *x, float value)
{
    tl_lease l;
    assert_ok(tl_lease_discard(&l, x));
    for (int i = 0; i < ELEMENTS; i++) ((float *)l.data)[i] = value;
    assert_ok(tl_lease_end(&l));
}

static float last_of(tl_tensor *x)
{
    tl_lease l;
    assert_ok(tl_lease_read(&l, x));
    const float value = ((const float *)l.data)[ELEMENTS - 1];
    tl_lease_drop(&l);
    return value;
}

/* The input is where it was in each run, and has other elements. */
static void keep(bool large)
{
    tl_tensors out[RUNS] = {{0}};
    tl_engine *e;
    tl_ctx *c;
    tl_function *f;
    assert_ok(test_engine_new(&e, NULL, 2));
    assert_ok(tl_ctx_new(&c, e));
    assert_ok(tl_function_new(
        &f, &(tl_function_args){.engine = e, .name = "kept", .body = body, .self = &large}));
    tl_tensors in = {0};
    tl_tensor *x = tl_full(c, TL_F32, TL_SHAPE(ELEMENTS), 0);
    tl_tensors_put(c, &in, "x", x);
    for (int i = 0; i < RUNS; i++) {
        fill(x, (float)i);
        assert_ok(tl_function_call(f, c, &in, &out[i]));
    }
    for (int i = 0; i < RUNS; i++) {
        const double wanted = 2.0 * i * i + 1;
        double got;
        assert_ok(tl_tensor_item(tl_tensors_get(c, &out[i], "sum"), &got));
        assert_near(got, ELEMENTS * wanted, 1e-6 * got);
        assert_ok(tl_tensor_item(tl_tensors_get(c, &out[i], "square"), &got));
        assert_near(got, (double)ELEMENTS * i * i, 1e-5 * got);
        if (large) assert_near((double)last_of(tl_tensors_get(c, &out[i], "all")), wanted, 1e-3);
    }
    tl_function_free(&f);
    tl_ctx_free(&c);
    tl_engine_free(&e);
}

static void a_small_result_stays_what_it_was(void **state)
{
    (void)state;
    keep(false);
}

static void a_large_result_stays_what_it_was(void **state)
{
    (void)state;
    keep(true);
}

/* --- when small results become the program's own ---------------------------------------------- */

/* On the fake device, whatever the environment says; results of all runs are kept. */
typedef struct keeper {
    tl_engine *engine;
    tl_ctx *c;
    tl_function *f;
    tl_tensor *x;
    bool large;
} keeper;

static int open_keeper(void **state)
{
    static keeper k;
    assert_ok(tl_engine_new(&k.engine, &(tl_engine_args){.backend = &fake_backend, .threads = 1}));
    assert_ok(tl_ctx_new(&k.c, k.engine));
    assert_ok(tl_function_new(
        &k.f,
        &(tl_function_args){.engine = k.engine, .name = "kept", .body = body, .self = &k.large}));
    k.x = tl_full(k.c, TL_F32, TL_SHAPE(ELEMENTS), 1);
    *state = &k;
    return 0;
}

static int close_keeper(void **state)
{
    keeper *k = *state;
    tl_function_free(&k->f);
    tl_ctx_free(&k->c);
    tl_engine_free(&k->engine);
    return 0;
}

/* Pieces of work of a run. */
static int64_t run(keeper *k, tl_tensor *x)
{
    tl_tensors in = {0}, out = {0};
    assert_ok(tl_engine_wait(k->engine));
    const int64_t before = fake_ran();
    tl_tensors_put(k->c, &in, "x", x);
    assert_ok(tl_function_call(k->f, k->c, &in, &out));
    assert_ok(tl_engine_wait(k->engine));
    return fake_ran() - before;
}

/* They are copied then, which a list makes good. */
static void small_results_alone_become_the_programs_own(void **state)
{
    keeper *k = *state;
    int64_t last = 0;
    k->large = false;
    for (int i = 0; i < RUNS; i++) last = run(k, k->x);
    assert_int_equal(last, 1 + 2); // the list, and copies
}

/* A list that knows where a large result lies is never met again. */
static void beside_a_large_result_they_stay_the_callers(void **state)
{
    keeper *k = *state;
    k->large = true;
    (void)run(k, k->x); // constants are made
    const int64_t calls = run(k, k->x);
    for (int i = 0; i < RUNS; i++) assert_int_equal(run(k, k->x), calls);
}

/* Runs whose inputs come from elsewhere are no such runs, and between them few others count. */
static void runs_count_that_come_one_behind_the_other(void **state)
{
    enum { FEW = 6 };
    keeper *k = *state;
    k->large = false;
    (void)run(k, k->x);
    const int64_t calls = run(k, k->x);
    for (int round = 0; round < 4; round++) {
        tl_tensor *other = tl_full(k->c, TL_F32, TL_SHAPE(ELEMENTS), 2);
        for (int i = 0; i < FEW; i++) assert_int_equal(run(k, k->x), calls);
        assert_int_equal(run(k, other), calls);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_result_stays_what_it_was),
        cmocka_unit_test(a_large_result_stays_what_it_was),
        cmocka_unit_test_setup_teardown(small_results_alone_become_the_programs_own, open_keeper,
                                        close_keeper),
        cmocka_unit_test_setup_teardown(beside_a_large_result_they_stay_the_callers, open_keeper,
                                        close_keeper),
        cmocka_unit_test_setup_teardown(runs_count_that_come_one_behind_the_other, open_keeper,
                                        close_keeper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
