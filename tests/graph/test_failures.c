/* Functions when memory runs out: at whichever allocation it does, the call says so, nothing is
 * lost, and the next call does what this one should have done. */
#include "graph/graph_test.h"

/* Arenas ask for memory in large pieces: some of it is lost, so that other calls meet their ends.
 * Where they ask for each object, which is slow, there are failures enough. */
#ifdef TL_ARENA_DEBUG
enum { SHIFTS = 1, SHIFT = 0 };
#else
enum { SHIFTS = 60, SHIFT = 304 };
#endif
enum { COUNT = 24 };
static size_t shift;

/* Something of everything: nests, products with an epilogue, packs, views, numbers, draws, slots.
 */
BODY(everything)
{
    tl_arena_alloc(tl_ctx_arena(c), shift);
    tl_tensor *slot = self, *two = tl_full(c, TL_F32, TL_SCALAR, 2);
    tl_tensor *w = tl_full(c, TL_F32, TL_SHAPE(6, 6), 0.125),
              *bias = tl_full(c, TL_F32, TL_SHAPE(6), 0.5);
    tl_tensor *h = tl_relu(c, tl_add(c, tl_matmul(c, x, w), bias));
    h = tl_sub(c, tl_exp(c, tl_mul(c, tl_sqrt(c, two), tl_tanh(c, h))),
               tl_mean(c, y, TL_AXES(1), true));
    h = tl_softmax(c, tl_swap_axes(c, h, 0, 1), 0);
    tl_tensor *drawn = tl_dropout(c, tl_exp(c, x), 0.25), *again = tl_neg(c, tl_exp(c, x));
    tl_tensor *both[] = {tl_cumsum(c, h, 1, false, false), tl_cumsum(c, drawn, 0, false, false)};
    tl_tensor *all = tl_pack(c, 2, both, (int64_t[]){0, 24}, 64);
    tl_update_ema(c, slot, tl_mean(c, all, TL_ALL, false), 0.5);
    tl_tensors_put(c, out, "all", tl_scale(c, all, 3));
    tl_tensors_put(c, out, "again", tl_add(c, again, drawn));
    tl_tensors_put(c, out, "slot", tl_scale(c, slot, 2));
}

typedef struct results {
    double values[3][64];
} results;

static void take(const tl_tensors *out, results *to)
{
    for (int64_t i = 0; i < out->count; i++) {
        const tl_tensor *t = out->items[i].tensor;
        assert_ok(tl_tensor_get_doubles(t, to->values[i], tl_tensor_count(t)));
    }
}

typedef struct inputs {
    tl_tensor *x, *y, *slot; /* of nobody's context */
} inputs;

static void reset_slot(const inputs *in)
{
    double one = 1;
    assert_ok(tl_tensor_set_doubles(in->slot, &one, 1));
}

static tl_status call_once(tl_function *f, tl_engine *engine, const inputs *in, results *to)
{
    tl_ctx *c;
    tl_tensors given = {0}, out = {0};
    tl_status st;
    TL_TRY(tl_ctx_new(&c, engine));
    tl_ctx_set_training(c, true);
    tl_ctx_set_draws(c, (tl_draws){.seed = 2});
    tl_tensors_put(c, &given, "x", in->x);
    tl_tensors_put(c, &given, "y", in->y);
    TL_TRY_DONE(st, tl_ctx_status(c));
    TL_TRY_DONE(st, tl_function_call(f, c, &given, &out));
    if (to) take(&out, to);
done:
    tl_ctx_free(&c);
    return st;
}

/* Captured by one call, compiled by the next; allocation `nth` of this fails, or none. Whatever
 * happened, the results are those of a third. */
typedef struct attempt {
    int64_t nth;
    bool reached;
    tl_status status;
    results results;
} attempt;

static void make_and_call(attempt *a, tl_engine *engine, const inputs *in, bool interpret)
{
    tl_function *f = NULL;
    tl_function_args args = {.engine = engine,
                             .name = "sweep",
                             .body = everything,
                             .self = in->slot,
                             .interpret = interpret};
    tl_engine_trim(engine);
    tl_error_clear();
    int64_t before = tl_alloc_calls();
    tl_alloc_fail_at(a->nth, 2); // the second one too: memory of tensors is asked for again
    a->status = tl_function_new(&f, &args);
    for (int i = 0; i < 2 && a->status == TL_OK; i++) a->status = call_once(f, engine, in, NULL);
    a->reached = a->nth && tl_alloc_calls() - before >= a->nth;
    tl_alloc_fail_at(0, 0);
    if (!f) assert_ok(tl_function_new(&f, &args));
    reset_slot(in);
    assert_ok(call_once(f, engine, in, &a->results));
    tl_function_free(&f);
}

static void expect_nothing_used(const tl_engine *engine, int64_t used, int64_t nth)
{
    tl_memory_stats stats;
    tl_engine_memory(engine, &stats);
    if (stats.used != used)
        fail_msg("allocation %lld: %lld bytes are used, not %lld", (long long)nth,
                 (long long)stats.used, (long long)used);
}

static void make_inputs(fixture *f, inputs *in)
{
    double values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = 0.125 * i - 1;
    assert_ok(tl_tensor_new(&in->x, f->engine, TL_F32, TL_SHAPE(4, 6)));
    assert_ok(tl_tensor_new(&in->y, f->engine, TL_F32, TL_SHAPE(4, 6)));
    assert_ok(tl_tensor_new(&in->slot, f->engine, TL_F32, TL_SCALAR));
    assert_ok(tl_tensor_set_doubles(in->x, values, COUNT));
    assert_ok(tl_tensor_set_doubles(in->y, values, COUNT));
    reset_slot(in);
}

static void free_inputs(inputs *in)
{
    tl_tensor_free(&in->x);
    tl_tensor_free(&in->y);
    tl_tensor_free(&in->slot);
}

static void fail_everywhere(fixture *f, bool interpret)
{
    inputs in;
    tl_memory_stats stats;
    attempt whole = {0}, a = {.nth = 1, .reached = true};
    make_inputs(f, &in);
    make_and_call(&whole, f->engine, &in,
                  interpret); // what is compiled is in the cache from now on
    assert_int_equal(whole.status, TL_OK);
    tl_engine_memory(f->engine, &stats);
    for (; a.reached; a.nth += test_failure_step(a.nth)) {
        make_and_call(&a, f->engine, &in, interpret);
        expect_nothing_used(f->engine, stats.used, a.nth);
        // What a device does ahead of its time may fail, and nobody notices.
        const bool unnoticed = a.status == TL_OK && !tl_engine_device(f->engine)->cls->host;
        if (a.status != (a.reached ? TL_ENOMEM : TL_OK) && !unnoticed)
            fail_msg("allocation %lld: %s: %s", (long long)a.nth, tl_status_name(a.status),
                     tl_error_message());
        if (memcmp(&a.results, &whole.results, sizeof a.results) != 0)
            fail_msg("allocation %lld: the next call gave other bits", (long long)a.nth);
    }
    assert_true(a.nth > 80);
    free_inputs(&in);
}

static void memory_may_run_out_anywhere(void **state)
{
    for (int i = 0; i < SHIFTS; i++) {
        shift = (size_t)i * SHIFT;
        fail_everywhere(*state, true);
    }
    shift = 0;
}

static void memory_may_run_out_while_compiling(void **state)
{
    fail_everywhere(*state, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_may_run_out_while_compiling, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
