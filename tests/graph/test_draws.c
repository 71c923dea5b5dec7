/* What dropout and its gradient drop, and attention and its gradient, is drawn once: with the bits
 * of drawing it twice. runs: fake device */
#include "graph_test.h"

#include <tilth/core/attrs.h>
#include <tilth/ops/gradient.h>
#include <tilth/sys/graph/program.h>

/* The GPU draws as fast as it reads. */
static bool draws_once(void)
{
    return !test_wants_gpu();
}

/* --- the bits --------------------------------------------------------------------------------- */

typedef struct place {
    tl_dtype type;
    double rate;
    int64_t batches, queries, keys, heads, groups, width;
    bool causal, masked, biased;
} place;

/* Whole tiles of every kernel, parts of them, queries whose draws do not fit into one tile, and
 * heads that share keys. */
static const place places[] = {
    {TL_F32, 0.1, 2, 128, 128, 2, 2, 64, false, false, true},
    {TL_BF16, 0.1, 2, 128, 128, 2, 2, 64, false, true, true},
    {TL_BF16, 0.5, 12, 50, 37, 3, 1, 24, false, false, false},
    {TL_F16, 0.25, 40, 19, 53, 2, 1, 32, false, true, false},
    {TL_F32, 0.9, 3, 150, 200, 1, 1, 80, false, false, true},
    {TL_BF16, 0.1, 2, 130, 250, 2, 2, 160, false, false, false},
};

static tl_tensor *spread(tl_ctx *c, tl_dtype type, tl_shape shape, double scale)
{
    tl_tensor *at = tl_arange(c, TL_F32, 0, (double)tl_shape_count(&shape), 1);
    at = tl_reshape(c, tl_scale(c, tl_sin(c, tl_scale(c, at, 1.7)), scale), shape);
    return tl_cast(c, at, type);
}

static void put_gradients(tl_ctx *c, tl_tensors *out, tl_tensor *y, tl_tensor *const *by,
                          const char *const *names, int64_t count)
{
    tl_tensor *gradient[4], *seed = spread(c, y->dtype, y->shape, 0.3);
    const tl_gradient_args args = {.of = y, .seed = seed, .by = by, .count = count};
    if (tl_gradient_of(c, &args, gradient) != TL_OK) return;
    for (int64_t i = 0; i < count; i++) tl_tensors_put(c, out, names[i], gradient[i]);
}

BODY(attention)
{
    UNUSED_BODY_ARGS;
    const place *p = self;
    tl_tensor *mask = tl_less(c, tl_arange(c, TL_F32, 0, (double)(p->batches * p->keys), 1),
                              tl_full(c, TL_F32, TL_SCALAR, (double)(p->batches * p->keys - 5)));
    mask = tl_reshape(c, mask, TL_SHAPE(p->batches, p->keys));
    tl_tensor *in[] = {
        spread(c, p->type, TL_SHAPE(p->batches, p->queries, p->heads, p->width), 0.9),
        spread(c, p->type, TL_SHAPE(p->batches, p->keys, p->groups, p->width), 1.1),
        spread(c, p->type, TL_SHAPE(p->batches, p->keys, p->groups, p->width), 0.7),
        spread(c, p->type, TL_SHAPE(p->queries, p->keys), 0.2)};
    const int64_t count = 3 + p->biased;
    for (int64_t i = 0; i < count; i++)
        if (in[i] && tl_watch(in[i]) != TL_OK) return;
    const tl_attend_args args = {.v = in[2],
                                 .causal = p->causal,
                                 .dropout = p->rate,
                                 .mask = p->masked ? mask : NULL,
                                 .bias = p->biased ? in[3] : NULL};
    tl_tensor *seen = tl_attend_with(c, in[0], in[1], &args);
    tl_tensors_put(c, out, "seen", seen);
    put_gradients(c, out, seen, in, (const char *const[]){"q", "k", "v", "bias"}, count);
}

static tl_tensor *within(tl_ctx *c, tl_tensor *x, double middle, double most)
{
    tl_tensor *apart = tl_abs(c, tl_shift(c, x, -middle));
    return tl_less(c, apart, tl_full(c, x ? x->dtype : TL_F32, TL_SCALAR, most));
}

/* Numbers of all kinds, also infinities, NaN, and zeros of both signs. */
BODY(elements)
{
    UNUSED_BODY_ARGS;
    const place *p = self;
    const tl_shape shape = TL_SHAPE(p->batches * p->heads, p->queries, p->keys);
    tl_tensor *in = spread(c, p->type, shape, 3), *nothing = tl_zeros(c, p->type, TL_SCALAR);
    tl_tensor *endless = tl_div(c, tl_full(c, p->type, TL_SCALAR, 1), nothing);
    tl_tensor *odd = tl_where(c, within(c, in, 3, 0.2), endless, in);
    odd = tl_where(c, within(c, in, -3, 0.2), tl_neg(c, endless), odd);
    odd = tl_where(c, within(c, in, 2, 0.1), tl_mul(c, endless, nothing), odd);
    odd = tl_where(c, within(c, in, 1, 0.2), nothing, odd);
    odd = tl_where(c, within(c, in, -1, 0.2), tl_neg(c, nothing), odd);
    if (odd && tl_watch(odd) != TL_OK) return;
    tl_tensor *dropped = tl_dropout(c, odd, p->rate);
    tl_tensors_put(c, out, "dropped", dropped);
    put_gradients(c, out, dropped, &odd, (const char *const[]){"gradient"}, 1);
}

enum { MOST_RESULTS = 5 };

typedef struct results {
    char *bytes[MOST_RESULTS];
    size_t size[MOST_RESULTS];
    int64_t count;
} results;

static results results_of_program(fixture *f, tl_program *p)
{
    tl_tensors in = {0}, out = {0};
    results r = {.count = 0};
    tl_mark mark = tl_ctx_begin(f->c);
    tl_tensor *x = tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 0.75);
    tl_tensors_put(f->c, &in, "x", x);
    tl_tensors_put(f->c, &in, "y", x);
    assert_ok(tl_program_run(p, f->c, &in, &out));
    for (r.count = 0; r.count < out.count; r.count++) {
        tl_tensor *t = out.items[r.count].tensor;
        assert_true(r.count < MOST_RESULTS);
        r.size[r.count] = tl_tensor_bytes(t);
        assert_non_null(r.bytes[r.count] = tl_alloc(r.size[r.count]));
        assert_ok(tl_tensor_get(t, r.bytes[r.count], r.size[r.count]));
    }
    tl_ctx_end(f->c, mark);
    return r;
}

static void assert_same_results(results *is, results *should)
{
    assert_int_equal(is->count, should->count);
    assert_true(is->count >= 2);
    for (int64_t i = 0; i < is->count; i++) {
        assert_int_equal(is->size[i], should->size[i]);
        assert_memory_equal(is->bytes[i], should->bytes[i], is->size[i]);
        tl_free(is->bytes[i]);
        tl_free(should->bytes[i]);
    }
}

static results results_of(fixture *f, tl_graph_fn *body, const place *p, bool once)
{
    // GPUs would have to compile nests.
    static const char *const twice[] = {"draws", "fuse", NULL};
    const char *const *skip = !once ? twice : test_wants_gpu() ? twice + 1 : NULL;
    tl_program *program;
    tl_graph *g = captured(f, body, (void *)(uintptr_t)p);
    assert_ok(tl_graph_optimize(g, &(tl_optimize){.skip = skip}));
    assert_int_equal(count_ops(g, "random_bernoulli"), once && draws_once());
    assert_ok(tl_program_new(&program, &g, &(tl_program_args){.name = "draws"}));
    const results r = results_of_program(f, program);
    tl_program_free(&program);
    return r;
}

static void assert_same(fixture *f, tl_graph_fn *body, const place *p)
{
    results once = results_of(f, body, p, true), twice = results_of(f, body, p, false);
    assert_same_results(&once, &twice);
}

static void what_is_drawn_once_has_the_bits_of_what_is_drawn_twice(void **state)
{
    for (size_t i = 0; i < TL_COUNT(places); i++) {
        assert_same(*state, elements, &places[i]);
        assert_same(*state, attention, &places[i]);
    }
}

/* --- the op ----------------------------------------------------------------------------------- */

static void assert_same_bytes(const tl_tensor *a, const tl_tensor *b)
{
    const size_t bytes = tl_tensor_bytes(a);
    char *is = tl_alloc(bytes), *should = tl_alloc(bytes);
    assert_true(is && should && tl_tensor_bytes(b) == bytes);
    assert_ok(tl_tensor_get(a, is, bytes));
    assert_ok(tl_tensor_get(b, should, bytes));
    assert_memory_equal(is, should, bytes);
    tl_free(is);
    tl_free(should);
}

/* With draws of its own, and told what the same draws drop. */
static void attend_both_ways(fixture *f, const place *p)
{
    enum { TOLD = 7, GRADIENTS = 3 };
    tl_mark mark = tl_ctx_begin(f->c);
    const tl_attend_attr drawn = {
        .scale = 0.2, .rate = p->rate, .key = 77, .causal = p->causal, .masked = true};
    tl_attend_attr told = drawn;
    int64_t scores[] = {p->batches, p->heads, p->queries, p->keys};
    const tl_random_attr draw = {.key = 77,
                                 .a = p->rate, // a fraction that 24 bits hold
                                 .shape = {scores, TL_COUNT(scores)},
                                 .dtype = TL_BOOL};
    told.dropped = true;
    told.key = 78;
    tl_tensor *q = spread(f->c, p->type, TL_SHAPE(p->batches, p->queries, p->heads, p->width), 0.9),
              *k = spread(f->c, p->type, TL_SHAPE(p->batches, p->keys, p->groups, p->width), 1.1),
              *mask = tl_greater(f->c, spread(f->c, TL_F32, TL_SHAPE(p->batches, p->keys), 1),
                                 tl_full(f->c, TL_F32, TL_SCALAR, -0.5)),
              *dropped = tl_apply(f->c, TL_OP_random_bernoulli, &draw, 0, NULL);
    tl_tensor *in[] = {q, k, k, mask, dropped}, *x[2], *y[2], *gx[4], *gy[4];
    assert_non_null(tl_apply_all(f->c, TL_OP_attend, &drawn, 4, in, x));
    assert_non_null(tl_apply_all(f->c, TL_OP_attend, &told, 5, in, y));
    assert_same_bytes(y[0], x[0]);
    tl_tensor *back[] = {q, q, k, k, x[0], x[1], mask, dropped};
    assert_non_null(tl_apply_all(f->c, TL_OP_attend_grad, &drawn, TOLD, back, gx));
    assert_non_null(tl_apply_all(f->c, TL_OP_attend_grad, &told, TOLD + 1, back, gy));
    for (int i = 0; i < GRADIENTS; i++) assert_same_bytes(gy[i], gx[i]);
    in[4] = spread(f->c, TL_F32, TL_SHAPE(2, 3), 1);
    assert_null(tl_apply_all(f->c, TL_OP_attend, &told, 5, in, y));
    assert_non_null(
        strstr(tl_error_message(), "what is dropped is float32[2, 3] and must be bool"));
    tl_ctx_clear(f->c);
    tl_ctx_end(f->c, mark);
}

static void the_reference_is_told_as_well(void **state)
{
    static const place p = {TL_F32, 0.25, 2, 9, 7, 4, 2, 5, true, false, false};
    fixture reference = {.c = NULL};
    if (draws_once()) attend_both_ways(*state, &p);
    assert_ok(tl_engine_new(&reference.engine,
                            &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1}));
    assert_ok(tl_ctx_new(&reference.c, reference.engine));
    attend_both_ways(&reference, &p);
    tl_ctx_free(&reference.c);
    tl_engine_free(&reference.engine);
}

/* --- the pass --------------------------------------------------------------------------------- */

static tl_tensor *large(tl_ctx *c)
{
    tl_tensor *z = spread(c, TL_F32, TL_SHAPE(256, 256), 1);
    return z && tl_watch(z) == TL_OK ? z : NULL;
}

BODY(forward_alone)
{
    UNUSED_BODY_ARGS;
    tl_tensor *z = large(c);
    tl_tensors_put(c, out, "z", tl_add(c, tl_dropout(c, z, 0.5), tl_dropout(c, z, 0.5)));
}

static void put_both(tl_ctx *c, tl_tensors *out, tl_tensor *z, tl_tensor *by)
{
    put_gradients(c, out, z, &by, (const char *const[]){"gradient"}, 1);
    tl_tensors_put(c, out, "z", z);
}

BODY(examples)
{
    UNUSED_BODY_ARGS;
    tl_tensor *z = large(c);
    put_both(c, out, tl_stochastic_depth(c, z, 0.5), z);
}

BODY(few)
{
    UNUSED_BODY_ARGS;
    if (tl_watch(x) == TL_OK) put_both(c, out, tl_dropout(c, x, 0.5), x);
}

BODY(many_keys)
{
    UNUSED_BODY_ARGS;
    tl_tensor *q = spread(c, TL_F32, TL_SHAPE(1, 300, 1, 4), 1);
    if (!q || tl_watch(q) != TL_OK) return;
    put_both(c, out, tl_attend_with(c, q, q, &(tl_attend_args){.v = q, .dropout = 0.5}), q);
}

BODY(causal)
{
    UNUSED_BODY_ARGS;
    tl_tensor *q = spread(c, TL_F32, TL_SHAPE(4, 128, 1, 64), 1);
    if (!q || tl_watch(q) != TL_OK) return;
    const tl_attend_args args = {.v = q, .causal = true, .dropout = 0.5};
    put_both(c, out, tl_attend_with(c, q, q, &args), q);
}

BODY(two_places)
{
    UNUSED_BODY_ARGS;
    tl_tensor *z = large(c);
    put_both(c, out, tl_dropout(c, tl_exp(c, tl_dropout(c, z, 0.5)), 0.25), z);
}

static void draws_that_are_made_once_stay(void **state)
{
    static const struct {
        tl_graph_fn *body;
        int64_t changes, drawn;
    } cases[] = {{forward_alone, 0, 0}, {examples, 0, 0}, {few, 0, 0},
                 {many_keys, 0, 0},     {causal, 0, 0},   {two_places, 2, 2}};
    for (size_t i = 0; i < TL_COUNT(cases); i++) {
        tl_graph *g = captured(*state, cases[i].body, NULL);
        assert_int_equal(run_pass(g, "draws"), draws_once() ? cases[i].changes : 0);
        assert_int_equal(count_ops(g, "random_bernoulli"), draws_once() ? cases[i].drawn : 0);
        assert_int_equal(run_pass(g, "draws"), 0); // once is enough
        tl_graph_free(&g);
    }
}

/* --- recomputation ---------------------------------------------------------------------------- */

enum { LAYERS = 12 };

/* As deep as recomputation asks for: what is dropped is used again many calls later. */
BODY(deep)
{
    UNUSED_BODY_ARGS;
    tl_tensor *by = large(c), *z = by;
    for (int i = 0; i < LAYERS; i++) {
        z = tl_add(c, z, tl_matmul(c, tl_dropout(c, tl_tanh(c, tl_matmul(c, z, by)), 0.1), by));
        if (i % 4) continue;
        tl_tensor *heads = tl_reshape(c, z, TL_SHAPE(1, 256, 1, 256));
        heads = tl_attend_with(c, heads, heads, &(tl_attend_args){.v = heads, .dropout = 0.1});
        z = tl_add(c, z, tl_reshape(c, heads, TL_SHAPE(256, 256)));
    }
    put_both(c, out, z, by);
}

static tl_program *deep_program(fixture *f, tl_recompute recompute, int64_t *drawn)
{
    tl_program *p;
    tl_graph *g = captured(f, deep, NULL);
    assert_ok(tl_graph_optimize(g, &(tl_optimize){.recompute = recompute, .verify = true}));
    *drawn = count_ops(g, "random_bernoulli");
    assert_ok(tl_program_new(&p, &g, &(tl_program_args){.name = "deep"}));
    return p;
}

static void recomputation_draws_again(void **state)
{
    static const tl_recompute ways[] = {TL_RECOMPUTE_SELECTIVE, TL_RECOMPUTE_FULL};
    fixture *f = *state;
    if (!draws_once()) return;
    for (int i = 0; i < 2; i++) {
        tl_program_stats kept, again;
        int64_t drawn, drawn_again;
        tl_program *p = deep_program(f, TL_RECOMPUTE_NONE, &drawn),
                   *q = deep_program(f, ways[i], &drawn_again);
        tl_program_measure(p, &kept);
        tl_program_measure(q, &again);
        assert_int_equal(drawn, LAYERS + LAYERS / 4);
        assert_true(drawn_again > drawn);
        assert_true(again.workspace < kept.workspace * 3 / 4);
        results is = results_of_program(f, q), should = results_of_program(f, p);
        assert_same_results(&is, &should);
        tl_program_free(&p);
        tl_program_free(&q);
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

static void memory_that_lacks_is_told(void **state)
{
    bool reached = true;
    for (int64_t nth = 1; reached; nth++) {
        static const char *const others[] = {"fuse", "order", "reuse", NULL};
        tl_graph *g = captured(*state, two_places, NULL);
        const int64_t before = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        const tl_status st = tl_graph_optimize(g, &(tl_optimize){.skip = others});
        reached = tl_alloc_calls() - before >= nth;
        tl_alloc_fail_at(0, 0);
        assert_true(st == (reached ? TL_ENOMEM : TL_OK));
        if (!reached) assert_int_equal(count_ops(g, "random_bernoulli"), draws_once() ? 2 : 0);
        tl_graph_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_drawn_once_has_the_bits_of_what_is_drawn_twice,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(the_reference_is_told_as_well, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_that_are_made_once_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(recomputation_draws_again, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_that_lacks_is_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
