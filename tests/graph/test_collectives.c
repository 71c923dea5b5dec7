/* Collectives in programs: lanes of one process that meet in the middle of a program get what they
 * get when ops run one by one, and what one computes with all of their inputs. */
#include "graph/graph_test.h"

#include <math.h>

#include <tilth/core/strands.h>
#include <tilth/ops/comm.h>
#include <tilth/ops/gradient.h>
#include <tilth/sys/graph/program.h>

enum { LANES = 3, ROWS = 4, WIDTH = 6, COUNT = ROWS * WIDTH };

/* Rows around the mean of all lanes, compared with those of all; each lane has weights of its own
 * in `y`. A part of it is computed from parts of sums. */
static tl_tensor *loss_of(tl_ctx *c, tl_tensor *x, tl_tensor *y)
{
    tl_tensor *mean = tl_scale(c, tl_all_reduce(c, tl_mean(c, x, TL_AXES(0), false)), 1.0 / LANES);
    tl_tensor *z = tl_tanh(c, tl_mul(c, tl_sub(c, x, mean), y));
    tl_tensor *all = tl_all_gather(c, z);
    tl_tensor *pairs = tl_matmul_with(c, z, all, false, true);
    tl_tensor *own = tl_reduce_scatter(c, tl_square(c, all));
    return tl_add(c, tl_mean(c, tl_square(c, pairs), TL_ALL, false),
                  tl_mean(c, tl_mul(c, own, y), TL_ALL, false));
}

static tl_status body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *x = tl_tensors_get(c, in, "x"), *y = tl_tensors_get(c, in, "y"), *g;
    tl_tensor *sum = self; // outside: what lanes add to, one after the other
    bool taping = tl_ctx_set_taping(c, true);
    TL_TRY(tl_ctx_status(c));
    TL_TRY(tl_watch(x));
    tl_tensor *loss = loss_of(c, x, y);
    TL_TRY(tl_ctx_status(c));
    TL_TRY(tl_gradient(c, loss, &x, 1, &g));
    tl_ctx_set_taping(c, taping);
    tl_assign_add(c, sum, tl_mean(c, g, TL_ALL, false));
    tl_tensors_put(c, out, "loss", loss);
    tl_tensors_put(c, out, "gradient", g);
    tl_tensors_put(c, out, "lane", tl_cast(c, tl_lane(c), TL_F32));
    return tl_ctx_status(c);
}

typedef struct crew {
    tl_engine *engine;
    tl_function *f; /* NULL: eager */
    tl_tensor *sum;
    float x[LANES][COUNT], y[LANES][COUNT];
    float loss[LANES], gradient[LANES][COUNT], number[LANES];
} crew;

static tl_status run_lane(void *self, tl_strand *strand)
{
    crew *all = self;
    const int64_t lane = tl_strand_lane(strand);
    tl_ctx *c;
    TL_TRY(tl_ctx_new(&c, all->engine));
    tl_ctx_set_strand(c, strand);
    tl_tensors in = {0}, out = {0};
    tl_tensor *x = tl_ctx_tensor(c, TL_AT_DEVICE, TL_F32, TL_SHAPE(ROWS, WIDTH));
    tl_tensor *y = tl_ctx_tensor(c, TL_AT_DEVICE, TL_F32, TL_SHAPE(ROWS, WIDTH));
    tl_status st = tl_ctx_status(c);
    if (st == TL_OK) st = tl_tensor_set(x, all->x[lane], sizeof all->x[lane]);
    if (st == TL_OK) st = tl_tensor_set(y, all->y[lane], sizeof all->y[lane]);
    tl_tensors_put(c, &in, "x", x);
    tl_tensors_put(c, &in, "y", y);
    if (st == TL_OK)
        st = all->f ? tl_function_call(all->f, c, &in, &out) : body(all->sum, c, &in, &out);
    if (st == TL_OK)
        st = tl_tensor_get(tl_tensors_peek(&out, "loss"), &all->loss[lane], sizeof(float));
    if (st == TL_OK)
        st = tl_tensor_get(tl_tensors_peek(&out, "gradient"), all->gradient[lane],
                           sizeof all->gradient[lane]);
    if (st == TL_OK)
        st = tl_tensor_get(tl_tensors_peek(&out, "lane"), &all->number[lane], sizeof(float));
    tl_ctx_free(&c);
    return st;
}

static void fill(crew *all, tl_engine *engine, int64_t seed)
{
    all->engine = engine;
    for (int64_t i = 0; i < LANES * COUNT; i++) {
        all->x[i / COUNT][i % COUNT] = (float)((i * 37 + seed) % 23) / 11.0f - 1.0f;
        all->y[i / COUNT][i % COUNT] = (float)((i * 17 + seed) % 19) / 13.0f - 0.4f;
    }
    assert_ok(tl_tensor_new(&all->sum, engine, TL_F32, TL_SCALAR));
    assert_ok(tl_tensor_clear(all->sum));
}

static void run(crew *all)
{
    tl_strands *s;
    assert_ok(tl_strands_new(&s, &(tl_strands_args){.of = {LANES, 1}}));
    assert_ok(tl_strands_run(s, run_lane, all));
    tl_strands_free(&s);
}

/* All lanes in one context, with slices in place of collectives. */
static void compare_with_one(const crew *all, tl_ctx *c)
{
    tl_tensor *x[LANES], *y[LANES], *z[LANES], *g[LANES], *mean = NULL, *total = NULL;
    tl_ctx_set_taping(c, true);
    for (int i = 0; i < LANES; i++) {
        x[i] = tl_ctx_tensor(c, TL_AT_DEVICE, TL_F32, TL_SHAPE(ROWS, WIDTH));
        y[i] = tl_ctx_tensor(c, TL_AT_DEVICE, TL_F32, TL_SHAPE(ROWS, WIDTH));
        assert_ok(tl_tensor_set(x[i], all->x[i], sizeof all->x[i]));
        assert_ok(tl_tensor_set(y[i], all->y[i], sizeof all->y[i]));
        assert_ok(tl_watch(x[i]));
        tl_tensor *own = tl_mean(c, x[i], TL_AXES(0), false);
        mean = mean ? tl_add(c, mean, own) : own;
    }
    for (int i = 0; i < LANES; i++)
        z[i] = tl_tanh(c, tl_mul(c, tl_sub(c, x[i], tl_scale(c, mean, 1.0 / LANES)), y[i]));
    tl_tensor *rows = tl_concat(c, z, LANES, 0);
    for (int i = 0; i < LANES; i++) {
        tl_tensor *pairs = tl_matmul_with(c, z[i], rows, false, true);
        tl_tensor *own = tl_scale(c, tl_square(c, z[i]), LANES);
        tl_tensor *loss = tl_add(c, tl_mean(c, tl_square(c, pairs), TL_ALL, false),
                                 tl_mean(c, tl_mul(c, own, y[i]), TL_ALL, false));
        float value;
        assert_ok(tl_tensor_get(loss, &value, sizeof value));
        assert_true(fabsf(value - all->loss[i]) < 1e-5f);
        total = total ? tl_add(c, total, loss) : loss;
    }
    assert_ok(tl_gradient(c, total, x, LANES, g));
    for (int i = 0; i < LANES; i++) {
        float found[COUNT];
        assert_ok(tl_tensor_get(g[i], found, sizeof found));
        for (int k = 0; k < COUNT; k++)
            if (!(fabsf(found[k] - all->gradient[i][k]) < 1e-5f))
                fail_msg("lane %d, element %d: %g and not %g", i, k, all->gradient[i][k], found[k]);
    }
}

static void check(fixture *f, const tl_optimize *how)
{
    crew eager = {0}, captured = {0};
    fill(&eager, f->engine, 3);
    fill(&captured, f->engine, 3);
    assert_ok(tl_function_new(&captured.f, &(tl_function_args){.engine = f->engine,
                                                               .body = body,
                                                               .self = captured.sum,
                                                               .programs = 1,
                                                               .interpret = true,
                                                               .optimize = how}));
    for (int again = 0; again < 2; again++) {
        run(&eager);
        run(&captured);
        for (int i = 0; i < LANES; i++) {
            assert_true(captured.number[i] == (float)i && eager.number[i] == (float)i);
            assert_true(fabsf(eager.loss[i] - captured.loss[i]) < 1e-5f);
            for (int k = 0; k < COUNT; k++)
                assert_true(fabsf(eager.gradient[i][k] - captured.gradient[i][k]) < 1e-5f);
        }
    }
    double sums[2];
    assert_ok(tl_tensor_item(eager.sum, &sums[0]));
    assert_ok(tl_tensor_item(captured.sum, &sums[1]));
    assert_true(fabs(sums[0] - sums[1]) < 1e-5);
    tl_function_stats stats;
    tl_program_stats has;
    tl_function_measure(captured.f, &stats);
    assert_int_equal(stats.captures, 1);
    tl_program_measure(tl_function_program(captured.f), &has);
    assert_int_equal(has.collectives, 6); // three, and one for the gradient of each
    assert_false(tl_program_is_under_way(tl_function_program(captured.f)));
    compare_with_one(&captured, f->c);
    tl_function_free(&captured.f);
    tl_tensor_free(&eager.sum);
    tl_tensor_free(&captured.sum);
}

static void lanes_meet_in_programs(void **state)
{
    check(*state, NULL);
    check(*state, &(tl_optimize){.no_nests = true});
}

static void collectives_are_not_repeated(void **state)
{
    check(*state, &(tl_optimize){.recompute = TL_RECOMPUTE_FULL});
    check(*state, &(tl_optimize){.recompute = TL_RECOMPUTE_SELECTIVE});
}

/* One that is alone has none of them: it gets its own back. */
static void a_lane_alone_has_no_collectives(void **state)
{
    fixture *f = *state;
    crew all = {0};
    tl_program_stats has;
    fill(&all, f->engine, 5);
    assert_ok(tl_function_new(
        &all.f, &(tl_function_args){.engine = f->engine, .body = body, .self = all.sum}));
    tl_strands *s;
    assert_ok(tl_strands_new(&s, &(tl_strands_args){.of = {1, 1}}));
    assert_ok(tl_strands_run(s, run_lane, &all));
    tl_program_measure(tl_function_program(all.f), &has);
    assert_int_equal(has.collectives, 0);
    tl_strands_free(&s);
    tl_function_free(&all.f);
    tl_tensor_free(&all.sum);
}

BODY(two_in_order)
{
    (void)self;
    // nobody needs the first before the second
    tl_tensor *a = tl_all_reduce(c, x), *b = tl_all_gather(c, y);
    tl_tensors_put(c, out, "b", tl_exp(c, b));
    tl_tensors_put(c, out, "a", tl_exp(c, tl_neg(c, a)));
}

/* The order is that of the calls, whatever passes do around them. */
static void the_order_stays(void **state)
{
    fixture *f = *state;
    const tl_spec specs[] = {{"x", TL_F32, TL_SHAPE(4, 6)}, {"y", TL_F32, TL_SHAPE(4, 6)}};
    tl_strands *s;
    tl_graph *g;
    tl_op found[4] = {0};
    int count = 0;
    assert_ok(tl_strands_new(&s, &(tl_strands_args){.of = {2, 1}}));
    assert_ok(tl_graph_capture(&g, &(tl_capture){.engine = f->engine,
                                                 .body = two_in_order,
                                                 .inputs = specs,
                                                 .input_count = 2,
                                                 .strand = tl_strands_at(s, 0)}));
    assert_ok(tl_graph_optimize(g, NULL));
    for (const tl_node *n = tl_graph_first(g); n; n = n->after)
        if (n->op->flags & TL_OP_COMM) found[count++] = n->op->op;
    assert_int_equal(count, 2);
    assert_int_equal(found[0], TL_OP_all_reduce);
    assert_int_equal(found[1], TL_OP_all_gather);
    tl_graph_free(&g);
    tl_strands_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lanes_meet_in_programs, setup, teardown),
        cmocka_unit_test_setup_teardown(collectives_are_not_repeated, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lane_alone_has_no_collectives, setup, teardown),
        cmocka_unit_test_setup_teardown(the_order_stays, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
