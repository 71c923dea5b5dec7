/* needs: threads
 *
 * Clusters that need nothing from each other: which of them become one nest, which stay apart, and
 * that results stay what they were. */
#include "engine.h"
#include <tilth/sys/graph/graph.h>
#include "graph/graph_test.h"

static int64_t nests_of(fixture *f, tl_graph_fn *body, void *self)
{
    tl_graph *g = captured(f, body, self);
    assert_ok(tl_graph_optimize(g, NULL));
    int64_t nests = count_ops(g, "nest");
    tl_graph_free(&g);
    return nests;
}

/* --- small ones ------------------------------------------------------------------------------- */

BODY(small_chains)
{
    UNUSED_BODY_ARGS;
    tl_tensors_put(c, out, "a", tl_exp(c, tl_neg(c, x)));
    tl_tensors_put(c, out, "b", tl_sum(c, tl_square(c, y), TL_AXES(1), false));
    tl_tensors_put(c, out, "c", tl_abs(c, y)); // alone it would be a kernel
}

BODY(small_scalars)
{
    UNUSED_BODY_ARGS;
    tl_tensor *a = tl_slice(c, tl_reshape(c, x, TL_SHAPE(24)), 0, 0, 1, 1);
    tl_tensor *b =
        tl_reshape(c, tl_slice(c, tl_reshape(c, y, TL_SHAPE(24)), 0, 3, 4, 1), TL_SHAPE(1, 1));
    tl_tensors_put(c, out, "a", tl_exp(c, tl_neg(c, a)));
    tl_tensors_put(c, out, "b", tl_tanh(c, tl_neg(c, b)));
}

BODY(small_but_unlike)
{
    UNUSED_BODY_ARGS;
    tl_tensors_put(c, out, "a", tl_exp(c, tl_neg(c, x)));
    tl_tensors_put(c, out, "b", tl_exp(c, tl_neg(c, tl_slice(c, y, 1, 0, 3, 1))));
}

BODY(one_needs_the_other)
{
    UNUSED_BODY_ARGS;
    tl_tensor *a = tl_exp(c, tl_neg(c, x));
    tl_tensor *b = tl_tanh(c, tl_neg(c, tl_softmax(c, a, 1)));
    tl_tensors_put(c, out, "a", a);
    tl_tensors_put(c, out, "b", b);
}

// Each of two pairs could be one, but not both: then each would wait for the other.
BODY(crosswise)
{
    UNUSED_BODY_ARGS;
    tl_tensor *a = tl_exp(c, tl_neg(c, x)), *d = tl_tanh(c, tl_neg(c, y));
    tl_tensor *after_d = tl_square(c, tl_neg(c, tl_softmax(c, d, 1)));
    tl_tensor *after_a = tl_sigmoid(c, tl_neg(c, tl_softmax(c, a, 1)));
    tl_tensors_put(c, out, "a", a);
    tl_tensors_put(c, out, "b", after_d);
    tl_tensors_put(c, out, "c", d);
    tl_tensors_put(c, out, "d", after_a);
}

BODY(before_and_after_a_write)
{
    UNUSED_BODY_ARGS;
    tl_tensors_put(c, out, "before", tl_exp(c, tl_neg(c, self)));
    tl_update_ema(c, self, x, 0.5);
    tl_tensors_put(c, out, "after", tl_exp(c, tl_abs(c, self)));
}

static void small_ones_are_one(void **state)
{
    fixture *f = *state;
    assert_int_equal(nests_of(f, small_chains, NULL), 1);
    assert_int_equal(nests_of(f, small_scalars, NULL), 1);
    assert_int_equal(nests_of(f, small_but_unlike, NULL), 2);
    assert_int_equal(nests_of(f, one_needs_the_other, NULL), 2);
    assert_int_equal(nests_of(f, crosswise, NULL), 2);
    assert_int_equal(
        nests_of(f, before_and_after_a_write, tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1)), 2);
}

/* --- large ones ------------------------------------------------------------------------------- */

static tl_tensor *large(tl_ctx *c, tl_tensor *x)
{
    tl_tensor *wide =
        tl_broadcast_to(c, tl_reshape(c, x, TL_SHAPE(1, 24, 1)), TL_SHAPE(40, 24, 32));
    return tl_cumsum(c, wide, 0, false, false); // no part of a nest
}

BODY(shared)
{
    UNUSED_BODY_ARGS;
    tl_tensor *z = large(c, x);
    tl_tensors_put(c, out, "loss", tl_exp(c, tl_neg(c, z)));
    tl_tensors_put(c, out, "metric", tl_sum(c, tl_abs(c, z), TL_AXES(2), false));
}

BODY(not_shared)
{
    UNUSED_BODY_ARGS;
    tl_tensors_put(c, out, "a", tl_exp(c, tl_neg(c, large(c, x))));
    tl_tensors_put(c, out, "b", tl_tanh(c, tl_neg(c, large(c, y))));
}

BODY(single_ops)
{
    UNUSED_BODY_ARGS;
    tl_tensor *z = large(c, x);
    tl_tensors_put(c, out, "a", tl_exp(c, z));
    tl_tensors_put(c, out, "b", tl_abs(c, z));
}

// Together they would be walked along their results, across what they read.
BODY(better_apart)
{
    UNUSED_BODY_ARGS;
    tl_tensor *z = tl_reshape(c, large(c, x), TL_SHAPE(40 * 24, 32));
    tl_tensors_put(c, out, "a", tl_sum(c, tl_exp(c, z), TL_AXES(1), false));
    tl_tensors_put(c, out, "b", tl_sum(c, tl_abs(c, z), TL_AXES(1), false));
}

// What is used far behind stays there, where memory is free again.
BODY(far_apart)
{
    UNUSED_BODY_ARGS;
    tl_tensor *z = large(c, x), *t = tl_exp(c, tl_neg(c, z));
    for (int i = 0; i < 20; i++) t = tl_softmax(c, t, 2);
    tl_tensors_put(c, out, "a", t);
    tl_tensors_put(c, out, "b", tl_tanh(c, tl_abs(c, z)));
}

static void large_ones_are_one_when_that_is_less_work(void **state)
{
    fixture *f = *state;
    assert_int_equal(nests_of(f, shared, NULL), 1);
    assert_int_equal(nests_of(f, not_shared, NULL), 2);
    assert_int_equal(nests_of(f, single_ops, NULL), 0);
    assert_int_equal(nests_of(f, better_apart, NULL), 2);
    assert_int_equal(nests_of(f, far_apart, NULL), 2);
}

/* --- results ---------------------------------------------------------------------------------- */

enum { MOST_BYTES = 1 << 19 };

typedef struct results {
    char bytes[MOST_BYTES];
    size_t size;
} results;

static void call(results *r, tl_graph_fn *body, int threads, bool compiled, tl_tensors *eager)
{
    tl_engine *engine;
    tl_ctx *c;
    tl_function *fn;
    double values[24];
    assert_ok(test_engine_new(&engine, NULL, threads));
    assert_ok(tl_ctx_new(&c, engine));
    tl_tensor *slot = tl_full(c, TL_F32, TL_SHAPE(4, 6), 1);
    tl_tensors in = {0};
    for (int i = 0; i < 24; i++) values[i] = 0.01 * (i * 7 % 24) - 0.1;
    tl_tensors_put(c, &in, "x", tl_from_doubles(c, TL_F32, TL_SHAPE(4, 6), values));
    tl_tensors_put(c, &in, "y", tl_scale(c, in.items[0].tensor, -0.5));
    assert_ok(tl_function_new(
        &fn,
        &(tl_function_args){.engine = engine, .body = body, .self = slot, .interpret = !compiled}));
    for (int i = 0; i < 2; i++) {
        tl_tensors out = {0};
        assert_ok(tl_tensor_set_doubles(slot, values, 24));
        assert_ok(tl_function_call(fn, c, &in, &out));
        r->size = 0;
        for (int64_t k = 0; k < out.count; k++) {
            size_t bytes = tl_tensor_bytes(out.items[k].tensor);
            assert_true(r->size + bytes <= MOST_BYTES);
            assert_ok(tl_tensor_get(out.items[k].tensor, r->bytes + r->size, bytes));
            r->size += bytes;
        }
    }
    if (eager) {
        assert_ok(tl_tensor_set_doubles(slot, values, 24));
        assert_ok(body(slot, c, &in, eager));
        size_t at = 0;
        for (int64_t k = 0; k < eager->count; k++) {
            static float should[MOST_BYTES / sizeof(float)];
            int64_t count = tl_tensor_count(eager->items[k].tensor);
            assert_ok(tl_tensor_get(eager->items[k].tensor, should, (size_t)count * sizeof(float)));
            for (int64_t i = 0; i < count; i++, at += sizeof(float)) {
                float is;
                memcpy(&is, r->bytes + at, sizeof is);
                if (!(fabsf(is - should[i]) <= 1e-5f * (1 + fabsf(should[i]))))
                    fail_msg("element %lld of '%s' is %.9g and should be %.9g", (long long)i,
                             eager->items[k].name, is, should[i]);
            }
        }
    }
    tl_function_free(&fn);
    tl_ctx_free(&c);
    tl_engine_free(&engine);
}

static void bits_do_not_depend_on_threads_or_compilers(void **state)
{
    static tl_graph_fn *const bodies[] = {small_chains,     small_scalars,
                                          small_but_unlike, one_needs_the_other,
                                          crosswise,        before_and_after_a_write,
                                          shared,           not_shared,
                                          single_ops,       better_apart,
                                          far_apart};
    static const int threads[] = {1, 2, 7};
    static results wanted, got;
    (void)state;
    for (size_t b = 0; b < TL_COUNT(bodies); b++) {
        tl_tensors eager = {0};
        call(&wanted, bodies[b], 1, false, &eager);
        for (size_t t = 0; t < TL_COUNT(threads); t++) {
            call(&got, bodies[b], threads[t], t > 0, NULL);
            assert_int_equal(got.size, wanted.size);
            if (memcmp(got.bytes, wanted.bytes, wanted.size) != 0)
                fail_msg("body %zu has other bits on %d threads", b, threads[t]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_ones_are_one, setup, teardown),
        cmocka_unit_test_setup_teardown(large_ones_are_one_when_that_is_less_work, setup, teardown),
        cmocka_unit_test(bits_do_not_depend_on_threads_or_compilers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
