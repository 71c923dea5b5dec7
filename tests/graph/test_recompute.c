/* needs: threads
 *
 * Training steps that compute again what they could keep: the bits of those that keep it, in less
 * memory. runs: fake device */
#include "test.h"
#include "engine.h"
#include "graph/trainer.h"

#include <tilth/sys/cpu/cpu.h>
#include <tilth/graph/function.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/model.h>
#include <tilth/ops/activation.h>
#include <tilth/sys/ops/apply.h>
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

enum { BATCH = 4, TOKENS = 16, WIDTH = 32, LAYERS = 9, CLASSES = 8, STEPS = 3 };

/* --- an encoder ------------------------------------------------------------------------------- */

typedef struct block {
    tl_layer base;
    tl_layer *norm_1, *attention, *norm_2, *up, *down;
} block;

static tl_status block_build(tl_layer *l, tl_scope *s, const void *config)
{
    block *b = (block *)l;
    (void)config;
    b->norm_1 = tl_layer_norm(s, "norm_1");
    b->attention = tl_attention(s, "attention", .heads = 2, .dropout = 0.1);
    b->norm_2 = tl_layer_norm(s, "norm_2");
    b->up = tl_dense(s, "up", .units = 2 * WIDTH, .activation = TL_ACT_GELU);
    b->down = tl_dense(s, "down", .units = WIDTH);
    return tl_scope_status(s);
}

static tl_tensor *block_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    block *b = (block *)l;
    x = tl_add(c, x, tl_dropout(c, tl_call(c, b->attention, tl_call(c, b->norm_1, x)), 0.1));
    tl_tensor *y = tl_call(c, b->down, tl_call(c, b->up, tl_call(c, b->norm_2, x)));
    return tl_add(c, x, tl_dropout(c, y, 0.1));
}

static const tl_layer_class block_class = {
    .cls = TL_CLASS(tl_layer_class, "block", NULL, block, NULL),
    .build = block_build,
    .forward = block_forward,
};

typedef struct encoder {
    tl_model base;
    tl_layer *block[LAYERS], *head;
} encoder;

static tl_status encoder_build(tl_model *m, tl_scope *s, const void *config)
{
    static const char *const names[LAYERS] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8"};
    encoder *e = (encoder *)m;
    (void)config;
    for (int i = 0; i < LAYERS; i++) e->block[i] = tl_scope_layer(s, names[i], &block_class, NULL);
    e->head = tl_dense(s, "head", .units = CLASSES);
    return tl_scope_status(s);
}

static tl_tensor *encoder_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    encoder *e = (encoder *)m;
    for (int i = 0; i < LAYERS; i++) x = tl_call(c, e->block[i], x);
    return tl_call(c, e->head, tl_mean(c, x, TL_AXES(1), false));
}

static const tl_layer_class encoder_class = {
    .cls = TL_CLASS(tl_layer_class, "encoder", NULL, encoder, NULL),
    .build = encoder_build,
    .forward = encoder_forward,
};

static tl_status train_step_plain(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    trainer *t = self;
    tl_tensor *loss, *grads[2];
    TL_TRY(trainer_gradients(t, c, in, &loss, grads));
    tl_update_adam(c, tl_model_block(t->model, 0)->values, grads[0], t->hyper, t->m, t->v, NULL,
                   &(tl_adam_attr){.beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-6});
    tl_tensors_put(c, out, "loss", loss);
    return tl_ctx_status(c);
}

/* --- what comes of it ------------------------------------------------------------------------- */

typedef struct way {
    tl_recompute recompute;
    int threads;
    bool interpret;
} way;

typedef struct outcome {
    tl_program_stats stats;
    char bytes[1 << 20];
    size_t size;
} outcome;

static void note(outcome *o, const tl_tensor *t)
{
    size_t size = tl_tensor_bytes(t);
    assert_true(o->size + size <= sizeof o->bytes);
    assert_ok(tl_tensor_get(t, o->bytes + o->size, size));
    o->size += size;
}

static void start(trainer *t, tl_engine *engine, tl_ctx *c, tl_dtype dtype)
{
    tl_spec input = {"x", dtype, TL_SHAPE(BATCH, TOKENS, WIDTH)};
    trainer_start(t, engine, c, &encoder_class, &input, dtype);
}

static void take_step(tl_function *f, tl_ctx *c, int step, tl_dtype dtype, outcome *o)
{
    tl_tensors in = {0}, out = {0};
    tl_mark mark = tl_ctx_begin(c);
    tl_ctx_set_draws(c, (tl_draws){.seed = 1, .step = step});
    tl_tensor *x = tl_random_normal(c, TL_F32, TL_SHAPE(BATCH, TOKENS, WIDTH), 0, 1);
    tl_tensors_put(c, &in, "x", tl_cast(c, x, dtype));
    tl_tensors_put(c, &in, "y", tl_random_integers(c, TL_I64, TL_SHAPE(BATCH), 0, CLASSES));
    assert_ok(tl_function_call(f, c, &in, &out));
    note(o, out.items[0].tensor);
    tl_ctx_end(c, mark);
}

static void train(const way *w, tl_dtype dtype, outcome *o)
{
    tl_engine *engine;
    tl_ctx *c;
    tl_function *f;
    trainer t;
    tl_optimize how = {.recompute = w->recompute};
    assert_ok(test_engine_new(&engine, NULL, w->threads));
    assert_ok(tl_ctx_new(&c, engine));
    start(&t, engine, c, dtype);
    assert_ok(tl_function_new(&f, &(tl_function_args){.engine = engine,
                                                      .body = train_step_plain,
                                                      .self = &t,
                                                      .interpret = w->interpret,
                                                      .optimize = &how}));
    tl_ctx_set_training(c, true);
    o->size = 0;
    for (int step = 0; step < STEPS; step++) take_step(f, c, step, dtype, o);
    note(o, tl_model_block(t.model, 0)->values);
    note(o, t.v);
    tl_program_measure(tl_function_program(f), &o->stats);
    tl_function_free(&f);
    tl_model_free(&t.model);
    tl_ctx_free(&c);
    tl_engine_free(&engine);
}

static outcome wanted, got;

static void expect_same(const way *w, tl_dtype dtype)
{
    train(w, dtype, &got);
    assert_int_equal(got.size, wanted.size);
    for (size_t i = 0; i < wanted.size; i++)
        if (got.bytes[i] != wanted.bytes[i])
            fail_msg("%s, recompute %d, %d threads: byte %zu of %zu differs", tl_dtype_name(dtype),
                     (int)w->recompute, w->threads, i, wanted.size);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void bits_stay_and_memory_shrinks(void **state)
{
    static const tl_dtype types[] = {TL_F32, TL_BF16};
    (void)state;
    for (size_t d = 0; d < TL_COUNT(types); d++) {
        train(&(way){TL_RECOMPUTE_NONE, 1, true}, types[d], &wanted);
        expect_same(&(way){TL_RECOMPUTE_FULL, 1, true}, types[d]);
        print_message("%s: %lld bytes in %lld calls, %lld in %lld\n", tl_dtype_name(types[d]),
                      (long long)wanted.stats.workspace, (long long)wanted.stats.kernels,
                      (long long)got.stats.workspace, (long long)got.stats.kernels);
        assert_true(got.stats.workspace < wanted.stats.workspace * 6 / 10);
        assert_true(got.stats.kernels > wanted.stats.kernels);
        assert_true(got.stats.flops < wanted.stats.flops * 1.4); // one more forward pass at most
    }
}

static void threads_and_compilers_do_not_matter(void **state)
{
    (void)state;
    train(&(way){TL_RECOMPUTE_NONE, 1, true}, TL_F32, &wanted);
    expect_same(&(way){TL_RECOMPUTE_FULL, 2, true}, TL_F32);
    expect_same(&(way){TL_RECOMPUTE_FULL, 7, false}, TL_F32);
}

static void cheap_results_only(void **state)
{
    (void)state;
    train(&(way){TL_RECOMPUTE_NONE, 1, true}, TL_F32, &wanted);
    expect_same(&(way){TL_RECOMPUTE_SELECTIVE, 1, true}, TL_F32);
    assert_true(got.stats.workspace < wanted.stats.workspace);
    train(&(way){TL_RECOMPUTE_NONE, 1, true}, TL_BF16, &wanted);
    expect_same(&(way){TL_RECOMPUTE_SELECTIVE, 1, true}, TL_BF16);
}

/* --- small functions -------------------------------------------------------------------------- */

typedef struct weights {
    tl_tensor *w, *kept;
    int what;
} weights;

enum { PLAIN, WRITTEN, HANDED_OUT, SKIPS, KINDS };

/* A chain of products; its weights may be changed between the forward and the backward pass,
 * results of its middle handed out, and used again at its end. */
static tl_status chain(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    weights *s = self;
    tl_tensor *x = tl_tensors_get(c, in, "x"), *g, *middle = NULL, *by = s->w;
    tl_ctx_set_taping(c, true);
    TL_TRY(tl_watch(by));
    for (int i = 0; i < 24; i++) {
        x = tl_tanh(c, tl_matmul(c, tl_dropout(c, x, 0.1), by));
        if (i == 6) middle = x;
    }
    if (s->what == SKIPS) x = tl_add(c, x, middle);
    tl_tensor *loss = tl_mean(c, tl_square(c, x), TL_ALL, false);
    if (s->what == WRITTEN) tl_update_ema(c, s->kept, tl_scale(c, by, 2), 0.5);
    TL_TRY(tl_gradient(c, loss, &by, 1, &g));
    tl_ctx_set_taping(c, false);
    if (s->what == WRITTEN) tl_update_ema(c, by, g, 0.5);
    if (s->what == HANDED_OUT) tl_tensors_put(c, out, "middle", middle);
    tl_tensors_put(c, out, "gradient", g);
    tl_tensors_put(c, out, "loss", loss);
    return tl_ctx_status(c);
}

static int64_t run_chain(tl_engine *engine, tl_ctx *c, int what, tl_recompute recompute, outcome *o)
{
    tl_optimize how = {.recompute = recompute, .skip = (const char *const[]){"fuse", NULL}};
    tl_function *f;
    tl_tensors in = {0};
    tl_mark mark = tl_ctx_begin(c);
    tl_ctx_set_draws(c, (tl_draws){.seed = 3});
    weights s = {.w = tl_scale(c, tl_random_normal(c, TL_F32, TL_SHAPE(48, 48), 0, 1), 0.15),
                 .kept = tl_full(c, TL_F32, TL_SHAPE(48, 48), 0),
                 .what = what};
    tl_tensors_put(c, &in, "x", tl_random_normal(c, TL_F32, TL_SHAPE(64, 48), 0, 1));
    assert_ok(tl_function_new(
        &f, &(tl_function_args){.engine = engine, .body = chain, .self = &s, .optimize = &how}));
    o->size = 0;
    for (int i = 0; i < 2; i++) {
        tl_tensors out = {0};
        assert_ok(tl_function_call(f, c, &in, &out));
        for (int64_t k = 0; k < out.count; k++) note(o, out.items[k].tensor);
    }
    note(o, s.w);
    note(o, s.kept);
    tl_program_stats stats;
    tl_program_measure(tl_function_program(f), &stats);
    tl_function_free(&f);
    tl_ctx_end(c, mark);
    return stats.workspace;
}

static void chains_of_all_kinds_keep_their_bits(void **state)
{
    tl_engine *engine;
    tl_ctx *c;
    (void)state;
    assert_ok(test_engine_new(&engine, NULL, 2));
    assert_ok(tl_ctx_new(&c, engine));
    tl_ctx_set_training(c, true);
    for (int what = 0; what < KINDS; what++) {
        int64_t keeps = run_chain(engine, c, what, TL_RECOMPUTE_NONE, &wanted);
        int64_t again = run_chain(engine, c, what, TL_RECOMPUTE_FULL, &got);
        assert_int_equal(got.size, wanted.size);
        assert_memory_equal(got.bytes, wanted.bytes, wanted.size);
        if (again >= keeps / 2)
            fail_msg("kind %d: %lld bytes, not half of %lld", what, (long long)again,
                     (long long)keeps);
    }
    tl_ctx_free(&c);
    tl_engine_free(&engine);
}

/* The backward pass reads weights that were changed before it: what was made of the old ones stays.
 */
static tl_status changed(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *w = self, *x = tl_tensors_get(c, in, "x"), *made[24], *sum = NULL;
    for (int i = 0; i < 24; i++) x = made[i] = tl_tanh(c, tl_matmul(c, x, w));
    tl_update_ema(c, w, tl_neg(c, w), 0.25);
    for (int i = 23; i >= 0; i--) {
        tl_tensor *y = tl_matmul(c, made[i], w); // all of them are needed again, the last one first
        sum = sum ? tl_add(c, y, tl_tanh(c, sum)) : y;
    }
    tl_tensors_put(c, out, "sum", sum);
    return tl_ctx_status(c);
}

static void changed_weights_are_noticed(void **state)
{
    tl_engine *engine;
    tl_ctx *c;
    (void)state;
    assert_ok(test_engine_new(&engine, NULL, 2));
    assert_ok(tl_ctx_new(&c, engine));
    tl_mark mark = tl_ctx_begin(c);
    for (int i = 0; i < 2; i++) {
        tl_optimize how = {.recompute = i ? TL_RECOMPUTE_FULL : TL_RECOMPUTE_NONE};
        tl_function *f;
        tl_tensors in = {0}, out = {0};
        tl_ctx_set_draws(c, (tl_draws){.seed = 3});
        tl_tensor *w = tl_full(c, TL_F32, TL_SHAPE(48, 48), 0.02);
        tl_tensors_put(c, &in, "x", tl_full(c, TL_F32, TL_SHAPE(64, 48), 0.5));
        assert_ok(tl_function_new(&f, &(tl_function_args){.engine = engine,
                                                          .body = changed,
                                                          .self = w,
                                                          .interpret = true,
                                                          .optimize = &how}));
        assert_ok(tl_function_call(f, c, &in, &out));
        outcome *o = i ? &got : &wanted;
        o->size = 0;
        note(o, out.items[0].tensor);
        tl_function_free(&f);
    }
    assert_memory_equal(got.bytes, wanted.bytes, wanted.size);
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
    tl_engine_free(&engine);
}

/* What a product was followed by can be computed from its sum again: the very same bits, as an
 * operation of its own and in a nest. */
static tl_status activated(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *x = in->items[0].tensor;
    tl_tensor *y = tl_activate(c, x, *(const tl_activation *)self);
    tl_tensors_put(c, out, "y", y);
    tl_tensors_put(c, out, "-y", tl_neg(c, y)); // makes it a chain
    return tl_ctx_status(c);
}

static void assert_same_bits(const tl_tensor *a, const tl_tensor *b, tl_activation activation)
{
    static char x[37 * 29 * sizeof(double)], y[37 * 29 * sizeof(double)];
    size_t bytes = tl_tensor_bytes(a);
    assert_true(bytes <= sizeof x && a->dtype == b->dtype);
    assert_ok(tl_tensor_get(a, x, bytes));
    assert_ok(tl_tensor_get(b, y, bytes));
    if (memcmp(x, y, bytes) != 0)
        fail_msg("activation %d of %s has other bits", (int)activation, tl_dtype_name(a->dtype));
}

static void check_sums(tl_engine *engine, tl_ctx *c, tl_dtype dtype, tl_activation activation)
{
    tl_mark mark = tl_ctx_begin(c);
    tl_ctx_set_draws(c, (tl_draws){.seed = 5});
    tl_linear_attr attr = {.activation = activation, .keep_sum = true};
    tl_tensor *in[] = {tl_random_normal(c, dtype, TL_SHAPE(37, 23), 0, 1),
                       tl_random_normal(c, dtype, TL_SHAPE(23, 29), 0, 1)};
    tl_tensor *made[2];
    assert_true(tl_apply_all(c, TL_OP_linear, &attr, 2, in, made));
    assert_same_bits(tl_activate(c, made[1], activation), made[0], activation);
    tl_function *f;
    tl_tensors sums = {0}, out = {0};
    tl_tensors_put(c, &sums, "x", made[1]);
    assert_ok(tl_function_new(
        &f, &(tl_function_args){
                .engine = engine, .body = activated, .self = &activation, .interpret = true}));
    assert_ok(tl_function_call(f, c, &sums, &out));
    assert_same_bits(out.items[0].tensor, made[0], activation);
    tl_function_free(&f);
    tl_ctx_end(c, mark);
}

static void sums_give_the_same_bits_again(void **state)
{
    (void)state;
    tl_engine *engine;
    tl_ctx *c;
    assert_ok(test_engine_new(&engine, NULL, 2));
    assert_ok(tl_ctx_new(&c, engine));
    for (int a = TL_ACT_NONE + 1; a < TL_ACT_FUSED_COUNT; a++) {
        check_sums(engine, c, TL_F32, (tl_activation)a);
        check_sums(engine, c, TL_F64, (tl_activation)a);
    }
    tl_ctx_free(&c);
    tl_engine_free(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_give_the_same_bits_again),
        cmocka_unit_test(bits_stay_and_memory_shrinks),
        cmocka_unit_test(threads_and_compilers_do_not_matter),
        cmocka_unit_test(cheap_results_only),
        cmocka_unit_test(chains_of_all_kinds_keep_their_bits),
        cmocka_unit_test(changed_weights_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
