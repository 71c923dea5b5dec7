/* Functions against the same callback run eagerly, and what they refuse. runs: fake device */
#include "test.h"
#include "engine.h"
#include "graph/trainer.h"

#include <tilth/base/alloc.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/graph/function.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/model.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>
#include <tilth/sys/graph/program.h>

typedef struct fixture {
    tl_engine *engine;
    tl_ctx *c;
    tl_mark mark;
} fixture;

static int setup(void **state)
{
    static fixture f;
    assert_ok(test_engine_new(&f.engine, NULL, 2));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    f.mark = tl_ctx_begin(f.c);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tl_ctx_end(f->c, f->mark);
    tl_ctx_free(&f->c);
    tl_engine_free(&f->engine);
    return 0;
}

static tl_function *function(fixture *f, tl_graph_fn *body, void *self)
{
    tl_function *made;
    assert_ok(tl_function_new(
        &made,
        &(tl_function_args){.engine = f->engine, .name = "test", .body = body, .self = self}));
    return made;
}

static void assert_same_bits(const tl_tensor *a, const tl_tensor *b)
{
    tl_lease x, y;
    assert_true(tl_shape_equal(&a->shape, &b->shape));
    assert_int_equal(a->dtype, b->dtype);
    assert_ok(tl_lease_read(&x, a));
    assert_ok(tl_lease_read(&y, b));
    assert_memory_equal(x.data, y.data, tl_tensor_bytes(a));
    assert_ok(tl_lease_end(&x));
    assert_ok(tl_lease_end(&y));
}

static tl_tensor *numbers(tl_ctx *c, tl_shape shape)
{
    return tl_random_normal(c, TL_F32, shape, 0, 1);
}

/* --- what is captured ------------------------------------------------------------------------- */

static int body_runs;

static tl_status two_results(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    body_runs++;
    tl_tensor *x = tl_tensors_get(c, in, "x");
    tl_tensor *y = tl_mul(c, tl_exp(c, x), tl_shift(c, x, 2));
    tl_tensors_put(c, out, "y", y);
    tl_tensors_put(c, out, "sum", tl_sum(c, y, TL_ALL, false));
    return tl_ctx_status(c);
}

static void replays_what_it_captured(void **state)
{
    fixture *f = *state;
    tl_function *fn = function(f, two_results, NULL);
    body_runs = 0;
    for (int i = 0; i < 4; i++) {
        tl_tensors in = {0}, out = {0}, eager = {0};
        tl_tensors_put(f->c, &in, "x", numbers(f->c, TL_SHAPE(3, 5)));
        assert_ok(tl_function_call(fn, f->c, &in, &out));
        assert_ok(two_results(NULL, f->c, &in, &eager));
        assert_same_bits(tl_tensors_peek(&out, "y"), tl_tensors_peek(&eager, "y"));
        double a, b;
        assert_ok(tl_tensor_item(tl_tensors_peek(&out, "sum"), &a));
        assert_ok(tl_tensor_item(tl_tensors_peek(&eager, "sum"), &b));
        assert_near(a, b, 1e-6 * fabs(b));
    }
    assert_int_equal(body_runs, 5); // once captured, four times eager
    tl_function_free(&fn);
}

static void captures_each_signature_once(void **state)
{
    fixture *f = *state;
    tl_function *fn;
    assert_ok(tl_function_new(
        &fn, &(tl_function_args){.engine = f->engine, .body = two_results, .programs = 2}));
    for (int i = 0; i < 6; i++) {
        tl_tensors in = {0}, out = {0};
        tl_tensors_put(f->c, &in, "x", numbers(f->c, TL_SHAPE(2 + i % 2, 5)));
        assert_ok(tl_function_call(fn, f->c, &in, &out));
    }
    tl_function_stats stats;
    tl_function_measure(fn, &stats);
    assert_int_equal(stats.captures, 2);
    assert_int_equal(stats.calls, 6);
    // A third signature takes the place of the one that was not used longest.
    for (int64_t rows = 4; rows >= 3; rows--) {
        tl_tensors in = {0}, out = {0};
        tl_tensors_put(f->c, &in, "x", numbers(f->c, TL_SHAPE(rows, 5)));
        assert_ok(tl_function_call(fn, f->c, &in, &out));
    }
    tl_function_measure(fn, &stats);
    assert_int_equal(stats.captures, 3);
    assert_int_equal(stats.evicted, 1);
    assert_int_equal(stats.kept, 2);
    tl_function_free(&fn);
}

static tl_status pass_through(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *x = tl_tensors_get(c, in, "x");
    tl_tensors_put(c, out, "input", x);
    tl_tensors_put(c, out, "view", tl_swap_axes(c, x, 0, 1));
    tl_tensors_put(c, out, "outside", self);
    tl_tensors_put(c, out, "twice", tl_scale(c, x, 2));
    tl_tensors_put(c, out, "twice again", tl_scale(c, x, 2));
    tl_tensors_put(c, out, "number", tl_full(c, TL_F32, TL_SHAPE(2), 7));
    return tl_ctx_status(c);
}

static void outputs_have_memory_of_their_own(void **state)
{
    fixture *f = *state;
    tl_tensor *outside = numbers(f->c, TL_SHAPE(4)), *x = numbers(f->c, TL_SHAPE(2, 3));
    tl_function *fn = function(f, pass_through, outside);
    tl_tensors in = {0}, out = {0}, later = {0}, eager = {0};
    tl_tensors_put(f->c, &in, "x", x);
    assert_ok(tl_function_call(fn, f->c, &in, &out));
    assert_ok(pass_through(outside, f->c, &in, &eager));
    tl_tensors_put(f->c, &in, "x", numbers(f->c, TL_SHAPE(2, 3)));
    assert_ok(tl_function_call(fn, f->c, &in, &later)); // leaves the first results alone
    for (int64_t i = 0; i < out.count; i++) {
        tl_tensor *t = out.items[i].tensor;
        assert_same_bits(t, tl_contiguous(f->c, tl_tensors_peek(&eager, out.items[i].name)));
        for (int64_t k = 0; k < i; k++)
            assert_ptr_not_equal(t->storage, out.items[k].tensor->storage);
        assert_ptr_not_equal(t->storage, x->storage);
        assert_ptr_not_equal(t->storage, outside->storage);
    }
    tl_function_free(&fn);
}

static tl_status count_up(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *counter = self;
    tl_tensors_put(c, out, "before", tl_affine(c, counter, 10, 0));
    tl_update_ema(c, counter, tl_add(c, counter, tl_tensors_get(c, in, "by")), 0);
    tl_tensors_put(c, out, "after", tl_affine(c, counter, 10, 0));
    return tl_ctx_status(c);
}

static void state_is_updated_in_place_and_in_order(void **state)
{
    fixture *f = *state;
    tl_tensor *counter = tl_full(f->c, TL_F32, TL_SHAPE(1), 1);
    tl_function *fn = function(f, count_up, counter);
    for (int i = 0; i < 3; i++) {
        tl_tensors in = {0}, out = {0};
        double before, after;
        tl_tensors_put(f->c, &in, "by", tl_full(f->c, TL_F32, TL_SHAPE(1), 2));
        assert_ok(tl_function_call(fn, f->c, &in, &out));
        assert_ok(tl_tensor_item(tl_tensors_peek(&out, "before"), &before));
        assert_ok(tl_tensor_item(tl_tensors_peek(&out, "after"), &after));
        assert_near(before, 10 * (1 + 2 * i), 0);
        assert_near(after, 10 * (3 + 2 * i), 0);
    }
    tl_function_free(&fn);
}

static tl_status drop_some(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *x = tl_tensors_get(c, in, "x");
    tl_tensors_put(c, out, "y", tl_add(c, tl_dropout(c, x, 0.5), tl_dropout(c, x, 0.5)));
    return tl_ctx_status(c);
}

static void draws_follow_the_step(void **state)
{
    fixture *f = *state;
    tl_function *fn = function(f, drop_some, NULL);
    tl_tensors in = {0}, seen[3] = {{0}};
    tl_tensors_put(f->c, &in, "x", numbers(f->c, TL_SHAPE(8, 8)));
    tl_ctx_set_training(f->c, true);
    tl_ctx_enter(f->c, "outer"); // draws are keyed by the module, here and in the capture
    tl_ctx_enter(f->c, "inner");
    for (int i = 0; i < 3; i++) {
        tl_tensors eager = {0};
        tl_ctx_set_draws(f->c, (tl_draws){.seed = 3, .step = i});
        assert_ok(drop_some(NULL, f->c, &in, &eager));
        tl_ctx_set_draws(f->c, (tl_draws){.seed = 3, .step = i});
        assert_ok(tl_function_call(fn, f->c, &in, &seen[i]));
        assert_same_bits(seen[i].items[0].tensor, eager.items[0].tensor);
    }
    tl_ctx_leave(f->c);
    tl_ctx_leave(f->c);
    tl_lease a, b;
    assert_ok(tl_lease_read(&a, seen[0].items[0].tensor));
    assert_ok(tl_lease_read(&b, seen[1].items[0].tensor));
    assert_memory_not_equal(a.data, b.data, 64 * sizeof(float));
    assert_ok(tl_lease_end(&a));
    assert_ok(tl_lease_end(&b));
    tl_ctx_set_training(f->c, false);
    tl_function_free(&fn);
}

/* --- whole training steps --------------------------------------------------------------------- */

typedef struct net {
    tl_model base;
    tl_layer *embed, *norm, *attention, *up, *down, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->embed = tl_embedding(s, "embed", .entries = 11, .size = 8);
    n->norm = tl_layer_norm(s, "norm");
    n->attention = tl_attention(s, "attention", .heads = 2, .causal = true);
    n->up = tl_dense(s, "up", .units = 16, .activation = TL_ACT_GELU);
    n->down = tl_dense(s, "down", .units = 8);
    n->head = tl_dense(s, "head", .units = 5, .activation = TL_ACT_MISH);
    return tl_scope_status(s);
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    x = tl_call(c, n->embed, x);
    x = tl_add(c, x, tl_call(c, n->attention, tl_call(c, n->norm, x)));
    x = tl_add(c, x, tl_dropout(c, tl_call(c, n->down, tl_call(c, n->up, x)), 0.1));
    return tl_call(c, n->head, x);
}

static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

static void make_trainer(trainer *t, fixture *f, tl_dtype dtype)
{
    tl_spec input = {"x", TL_I64, TL_SHAPE(4, 6)};
    trainer_start(t, f->engine, f->c, &net_class, &input, dtype);
    assert_int_equal(tl_model_block_count(t->model), 1);
}

static double difference(const tl_tensor *a, const tl_tensor *b)
{
    int64_t count = tl_tensor_count(a);
    double *x = tl_alloc(2 * (size_t)count * sizeof *x), *y = x + count, up = 0, down = 0;
    assert_ok(tl_tensor_get_doubles(a, x, count));
    assert_ok(tl_tensor_get_doubles(b, y, count));
    for (int64_t i = 0; i < count; i++) {
        up += (x[i] - y[i]) * (x[i] - y[i]);
        down += y[i] * y[i];
    }
    tl_free(x);
    return sqrt(up / (down + 1e-300));
}

static void check_training(fixture *f, tl_dtype dtype, double most)
{
    trainer eager, compiled;
    tl_mark mark = tl_ctx_begin(f->c);
    make_trainer(&eager, f, dtype);
    make_trainer(&compiled, f, dtype);
    tl_function *fn = function(f, train_step, &compiled);
    tl_ctx_set_training(f->c, true);
    for (int step = 0; step < 3; step++) {
        tl_tensors in = {0}, a = {0}, b = {0};
        tl_tensors_put(f->c, &in, "x", tl_random_integers(f->c, TL_I64, TL_SHAPE(4, 6), 0, 11));
        tl_tensors_put(f->c, &in, "y", tl_random_integers(f->c, TL_I64, TL_SHAPE(4, 6), 0, 5));
        tl_ctx_set_draws(f->c, (tl_draws){.seed = 1, .step = step});
        assert_ok(train_step(&eager, f->c, &in, &a));
        tl_ctx_set_draws(f->c, (tl_draws){.seed = 1, .step = step});
        assert_ok(tl_function_call(fn, f->c, &in, &b));
        for (int64_t i = 0; i < a.count; i++)
            assert_near(difference(b.items[i].tensor, a.items[i].tensor), 0, most);
        const tl_tensor *values = tl_model_block(eager.model, 0)->values;
        assert_near(difference(tl_model_block(compiled.model, 0)->values, values), 0, 10 * most);
        assert_near(difference(compiled.v, eager.v), 0, 2 * most);
    }
    tl_ctx_set_training(f->c, false);
    tl_function_free(&fn);
    tl_ctx_end(f->c, mark); // records of the eager steps know the models
    tl_model_free(&eager.model);
    tl_model_free(&compiled.model);
}

static void training_is_as_eager(void **state)
{
    check_training(*state, TL_F64, 1e-13);
    check_training(*state, TL_F32, 2e-6);
    // A program on a GPU does not round products that a float32 is made of. Eager steps of bfloat16
    // are 0.008 from those of float32 themselves, and the squares of their gradients 0.0165.
    check_training(*state, TL_BF16, test_wants_gpu() ? 0x1p-7 : 2e-6);
}

/* --- recomputation ---------------------------------------------------------------------------- */

static tl_status deep(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *weights = self, *x = tl_tensors_get(c, in, "x"), *g;
    tl_ctx_set_taping(c, true);
    TL_TRY(tl_watch(weights));
    for (int i = 0; i < 12; i++) {
        tl_tensor *h = tl_dropout(c, tl_gelu(c, tl_matmul(c, x, weights), false), 0.2);
        x = tl_add(c, x, tl_matmul(c, h, weights));
    }
    tl_tensor *loss = tl_mean(c, tl_square(c, x), TL_ALL, false);
    TL_TRY(tl_gradient(c, loss, &weights, 1, &g));
    tl_ctx_set_taping(c, false);
    tl_tensors_put(c, out, "loss", loss);
    tl_tensors_put(c, out, "gradient", g);
    return tl_ctx_status(c);
}

static void recomputing_saves_memory(void **state)
{
    fixture *f = *state;
    tl_tensor *weights = tl_scale(f->c, numbers(f->c, TL_SHAPE(32, 32)), 0.1);
    tl_tensors in = {0}, kept = {0}, recomputed = {0};
    tl_program_stats a, b;
    tl_function *fn = function(f, deep, weights), *again;
    tl_optimize how = {.recompute = true};
    assert_ok(tl_function_new(
        &again,
        &(tl_function_args){.engine = f->engine, .body = deep, .self = weights, .optimize = &how}));
    tl_tensors_put(f->c, &in, "x", numbers(f->c, TL_SHAPE(64, 32)));
    tl_ctx_set_training(f->c, true);
    tl_ctx_set_draws(f->c, (tl_draws){.seed = 9});
    assert_ok(tl_function_call(fn, f->c, &in, &kept));
    assert_ok(tl_function_call(again, f->c, &in, &recomputed));
    tl_ctx_set_training(f->c, false);
    assert_same_bits(recomputed.items[0].tensor, kept.items[0].tensor);
    assert_near(difference(recomputed.items[1].tensor, kept.items[1].tensor), 0, 1e-6);
    tl_program_measure(tl_function_program(fn), &a);
    tl_program_measure(tl_function_program(again), &b);
    if (!tl_engine_device(f->engine)->cls->apart) // which has room for so few, all at once
        assert_true(b.workspace < a.workspace * 3 / 4);
    tl_function_free(&fn);
    tl_function_free(&again);
}

static void parameters_that_move_are_noticed(void **state)
{
    fixture *f = *state;
    trainer t;
    make_trainer(&t, f, TL_F32);
    tl_function *fn = function(f, train_step, &t);
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(f->c, &in, "x", tl_full(f->c, TL_I64, TL_SHAPE(4, 6), 1));
    tl_tensors_put(f->c, &in, "y", tl_full(f->c, TL_I64, TL_SHAPE(4, 6), 2));
    assert_ok(tl_function_call(fn, f->c, &in, &out));
    assert_ok(tl_model_set_group(t.model, "bias|gamma|beta|kernel|table", "all"));
    assert_ok(tl_function_call(fn, f->c, &in, &out));
    tl_function_stats stats;
    tl_function_measure(fn, &stats);
    assert_int_equal(stats.captures, 2);
    tl_function_free(&fn);
    tl_model_free(&t.model);
}

/* --- refusals --------------------------------------------------------------------------------- */

static tl_status read_back(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    double value;
    (void)self, (void)out;
    return tl_tensor_item(tl_sum(c, tl_tensors_get(c, in, "x"), TL_ALL, false), &value);
}

static void reading_while_capturing_is_refused(void **state)
{
    fixture *f = *state;
    tl_function *fn = function(f, read_back, NULL);
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(f->c, &in, "x", numbers(f->c, TL_SHAPE(2)));
    assert_fails(tl_function_call(fn, f->c, &in, &out), TL_ESTATE, "being captured");
    assert_fails(tl_function_call(fn, f->c, &in, &out), TL_ESTATE, "make it an output");
    tl_function_free(&fn);
}

static tl_status two_bad(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *x = tl_tensors_get(c, in, "x");
    tl_tensors_put(c, out, "y", tl_add(c, x, tl_tensors_get(c, in, "nothing")));
    return tl_ctx_status(c);
}

static void bad_calls_are_refused(void **state)
{
    fixture *f = *state;
    tl_function *fn = function(f, two_bad, NULL), *good = function(f, two_results, NULL);
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(f->c, &in, "x", tl_swap_axes(f->c, numbers(f->c, TL_SHAPE(2, 3)), 0, 1));
    assert_fails(tl_function_call(fn, f->c, &in, &out), TL_ENOTFOUND, "nothing");
    assert_fails(tl_function_call(good, f->c, &in, &out), TL_EINVAL,
                 "input 'x' is a view with gaps");
    tl_tensors_put(f->c, &in, "x", numbers(f->c, TL_SHAPE(0, 3)));
    assert_ok(tl_function_call(good, f->c, &in, &out));
    tl_function_free(&fn);
    tl_function_free(&good);
}

/* --- allocation ------------------------------------------------------------------------------- */

static void steps_allocate_nothing(void **state)
{
    fixture *f = *state;
#ifdef TL_ARENA_DEBUG
    skip(); // arenas allocate every object
#endif
    if (fake_wanted()) skip(); // its queues allocate
    trainer t;
    make_trainer(&t, f, TL_F32);
    tl_function *fn = function(f, train_step, &t);
    tl_ctx_set_training(f->c, true);
    tl_tensors in = {0};
    tl_tensors_put(f->c, &in, "x", tl_full(f->c, TL_I64, TL_SHAPE(4, 6), 1));
    tl_tensors_put(f->c, &in, "y", tl_full(f->c, TL_I64, TL_SHAPE(4, 6), 2));
    int64_t before = 0;
    for (int step = 0; step < 6; step++) {
        if (step == 3) before = tl_alloc_calls();
        tl_mark mark = tl_ctx_begin(f->c);
        tl_tensors out = {0};
        assert_ok(tl_function_call(fn, f->c, &in, &out));
        tl_ctx_end(f->c, mark);
    }
    assert_int_equal(tl_alloc_calls() - before, 0);
    tl_ctx_set_training(f->c, false);
    tl_function_free(&fn);
    tl_model_free(&t.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(replays_what_it_captured, setup, teardown),
        cmocka_unit_test_setup_teardown(captures_each_signature_once, setup, teardown),
        cmocka_unit_test_setup_teardown(outputs_have_memory_of_their_own, setup, teardown),
        cmocka_unit_test_setup_teardown(state_is_updated_in_place_and_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_follow_the_step, setup, teardown),
        cmocka_unit_test_setup_teardown(training_is_as_eager, setup, teardown),
        cmocka_unit_test_setup_teardown(recomputing_saves_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(parameters_that_move_are_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(reading_while_capturing_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_allocate_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
