#include "ops/lab.h"

#include <tilth/base/alloc.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

static void first_and_second_derivative(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    double v, x0 = 0.5;
    tl_tensor *x = tl_from_doubles(c, TL_F64, TL_SCALAR, &x0), *g, *h;
    assert_ok(tl_watch(x));
    tl_ctx_set_taping(c, true);
    tl_tensor *y = tl_mul(c, tl_exp(c, x), tl_mul(c, x, x)); // x^2 e^x
    assert_ok(tl_gradient_of(
        c, &(tl_gradient_args){.of = y, .by = &x, .count = 1, .differentiable = true}, &g));
    assert_ok(tl_tensor_item(g, &v));
    assert_near(v, exp(0.5) * (0.25 + 1.0), 1e-14);
    assert_ok(tl_gradient(c, g, &x, 1, &h));
    assert_ok(tl_tensor_item(h, &v));
    assert_near(v, exp(0.5) * (0.25 + 4 * 0.5 + 2), 1e-14);
}

static void broadcasting_is_summed_back(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *a = counting(c, TL_F64, TL_SHAPE(2, 3)), *b = counting(c, TL_F64, TL_SHAPE(3)),
              *g[2];
    assert_ok(tl_watch(a));
    assert_ok(tl_watch(b));
    tl_ctx_set_taping(c, true);
    tl_tensor *y = tl_sum(
        c,
        tl_mul(c, tl_transpose(c, a, (const int64_t[]){1, 0}, 2), tl_reshape(c, b, TL_SHAPE(3, 1))),
        TL_ALL, false);
    assert_ok(tl_gradient(c, y, (tl_tensor *[]){a, b}, 2, g));
    double ga[6], gb[3];
    assert_ok(tl_tensor_get_doubles(g[0], ga, 6));
    assert_ok(tl_tensor_get_doubles(g[1], gb, 3));
    for (int i = 0; i < 6; i++) assert_near(ga[i], i % 3, 0);
    for (int i = 0; i < 3; i++) assert_near(gb[i], i + i + 3, 0);
    tl_tensor_print(g[0], stdout);
}

static void the_first_error_stays(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_ctx_enter(c, "net");
    tl_tensor *x = counting(c, TL_F64, TL_SHAPE(3)), *bad = counting(c, TL_F64, TL_SHAPE(4));
    tl_tensor *y = tl_sum(c, tl_add(c, tl_mul(c, x, bad), x), TL_AXES(7), false);
    tl_ctx_leave(c);
    assert_null(y);
    assert_fails(tl_ctx_status(c), TL_EINVAL, "net: mul: shapes [3] and [4] do not broadcast");
    tl_ctx_clear(c);
    assert_non_null(tl_add(c, x, x));
}

static void steady_state_allocates_nothing(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    int64_t calls = 0;
    for (int i = 0; i < 20; i++) {
        if (i == 10) calls = tl_alloc_calls();
        tl_mark m = tl_ctx_begin(c);
        tl_tensor *x = tl_full(c, TL_F32, TL_SHAPE(1), 1.0);
        for (int k = 0; k < 50; k++) x = tl_add(c, x, x);
        assert_ok(tl_ctx_status(c));
        tl_ctx_end(c, m);
    }
#ifdef TL_ARENA_DEBUG
    calls = tl_alloc_calls(); // each object of an arena is an allocation there
#endif
    assert_int_equal(tl_alloc_calls(), calls);
}

static void captured_nodes_replay(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = counting(c, TL_F64, TL_SHAPE(2, 2));
    tl_ctx_set_capturing(c, true);
    tl_tensor *y = tl_sum(c, tl_exp(c, x), TL_ALL, false);
    double v;
    assert_fails(tl_tensor_item(y, &v), TL_ESTATE, "captured");
    tl_ctx_set_capturing(c, false);
    assert_ok(tl_replay(c, tl_ctx_first_node(c), tl_ctx_last_node(c)));
    assert_ok(tl_tensor_item(y, &v));
    assert_near(v, 1 + exp(1) + exp(2) + exp(3), 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(first_and_second_derivative), LAB_TEST(broadcasting_is_summed_back),
        LAB_TEST(the_first_error_stays),       LAB_TEST(steady_state_allocates_nothing),
        LAB_TEST(captured_nodes_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
