/* What programs keep of weights from run to run: copies in half precision, read instead of casts
 * and renewed by updates, and panels for the kernels of products. Neither is ever stale. */
#include "graph_test.h"
#include <tilth/sys/graph/program.h>

enum { ROWS = 6, COLUMNS = 4, WEIGHTS = ROWS * COLUMNS, BIAS = 8, COUNT = WEIGHTS + BIAS };

/* A block of weights and a bias with its slots, and how they are used and updated. */
typedef struct layer {
    tl_tensor *block, *weights, *bias, *gradient, *hyper, *slot[2];
    tl_dtype half;
    void (*update)(tl_ctx *c, const struct layer *l);
} layer;

static void set_all(tl_tensor *t, double scale, double from)
{
    double values[COUNT];
    int64_t count = tl_tensor_count(t);
    for (int64_t i = 0; i < count; i++) values[i] = from + scale * (double)(i * 7 % 13 - 6);
    assert_ok(tl_tensor_set_doubles(t, values, count));
}

static void make_layer(layer *l, fixture *f, tl_dtype half, void (*update)(tl_ctx *, const layer *))
{
    *l = (layer){.half = half, .update = update};
    assert_ok(tl_tensor_new(&l->block, f->engine, TL_F32, TL_SHAPE(COUNT)));
    assert_ok(tl_tensor_part(&l->weights, l->block, 0, TL_SHAPE(ROWS, COLUMNS)));
    assert_ok(tl_tensor_part(&l->bias, l->block, WEIGHTS, TL_SHAPE(COLUMNS)));
    assert_ok(tl_tensor_new(&l->gradient, f->engine, TL_F32, TL_SHAPE(COUNT)));
    assert_ok(tl_tensor_new(&l->hyper, f->engine, TL_F32, TL_SHAPE(TL_HYPER_COUNT)));
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_tensor_new(&l->slot[i], f->engine, TL_F32, TL_SHAPE(COUNT)));
        set_all(l->slot[i], 0, 0.5);
    }
    set_all(l->block, 0.0137, 0.3);
    set_all(l->gradient, 0.021, 0.01);
    assert_ok(tl_tensor_set_doubles(l->hyper, (double[]){0.05, 3, 1, 1}, TL_HYPER_COUNT));
}

static void free_layer(layer *l)
{
    tl_tensor **all[] = {&l->weights, &l->bias,    &l->block,  &l->gradient,
                         &l->hyper,   &l->slot[0], &l->slot[1]};
    for (size_t i = 0; i < TL_COUNT(all); i++) tl_tensor_free(all[i]);
}

BODY(step)
{
    const layer *l = self;
    UNUSED_BODY_ARGS;
    tl_tensor *w = tl_cast(c, l->weights, l->half), *b = tl_cast(c, l->bias, l->half);
    tl_tensor *sums = tl_add(c, tl_matmul(c, tl_cast(c, x, l->half), w), b);
    tl_tensors_put(c, out, "sums", tl_cast(c, sums, TL_F32));
    if (l->update) l->update(c, l);
}

static void run_program(fixture *f, tl_program *p, float sums[4 * COLUMNS])
{
    tl_tensors in = {0}, out = {0};
    tl_mark mark = tl_ctx_begin(f->c);
    tl_tensor *x = tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 0.75);
    tl_tensors_put(f->c, &in, "x", x);
    tl_tensors_put(f->c, &in, "y", x);
    assert_ok(tl_program_run(p, f->c, &in, &out));
    assert_ok(tl_tensor_get(tl_tensors_get(f->c, &out, "sums"), sums, 4 * COLUMNS * sizeof *sums));
    tl_ctx_end(f->c, mark);
}

static tl_program *program(fixture *f, layer *l, bool copies)
{
    static const char *const without[] = {"weight copies", NULL};
    tl_program *p;
    tl_graph *g = captured(f, step, l);
    assert_ok(tl_graph_optimize(g, copies ? NULL : &(tl_optimize){.skip = without}));
    // Of the three casts of inputs that of x is left; results are widened in the end.
    assert_int_equal(count_ops(g, "cast"), copies ? 2 : 4);
    assert_ok(tl_program_new(&p, &g, &(tl_program_args){.name = "step"}));
    return p;
}

/* --- every update renews the copy ------------------------------------------------------------- */

static void by_sgd(tl_ctx *c, const layer *l)
{
    tl_update_sgd(c, l->block, l->gradient, l->hyper, l->slot[0], &(tl_sgd_attr){.momentum = 0.9});
}

static void by_adam(tl_ctx *c, const layer *l)
{
    static const int64_t offsets[] = {0, WEIGHTS}, decayed[] = {1, 0};
    tl_update_adam(c, l->block, l->gradient, l->hyper, l->slot[0], l->slot[1], NULL,
                   &(tl_adam_attr){.beta_1 = 0.9,
                                   .beta_2 = 0.99,
                                   .epsilon = 1e-7,
                                   .weight_decay = 0.1,
                                   .offsets = {offsets, 2},
                                   .decayed = {decayed, 2}});
}

static void by_rmsprop(tl_ctx *c, const layer *l)
{
    tl_update_rmsprop(c, l->block, l->gradient, l->hyper, l->slot[0], NULL, NULL,
                      &(tl_rmsprop_attr){.rho = 0.9, .epsilon = 1e-7});
}

static void by_adagrad(tl_ctx *c, const layer *l)
{
    tl_update_adagrad(c, l->block, l->gradient, l->hyper, l->slot[0],
                      &(tl_adagrad_attr){.epsilon = 1e-7});
}

static void by_lamb(tl_ctx *c, const layer *l)
{
    tl_update_lamb(c, l->block, l->gradient, l->hyper, l->slot[0], l->slot[1],
                   &(tl_lamb_attr){.beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-7});
}

static void by_lars(tl_ctx *c, const layer *l)
{
    tl_update_lars(c, l->block, l->gradient, l->hyper, l->slot[0],
                   &(tl_lars_attr){.momentum = 0.9, .eeta = 0.01, .classic_momentum = true});
}

static void by_adadelta(tl_ctx *c, const layer *l)
{
    tl_update_adadelta(c, l->block, l->gradient, l->hyper, l->slot[0], l->slot[1],
                       &(tl_adadelta_attr){.rho = 0.9, .epsilon = 1e-3});
}

static void by_adamax(tl_ctx *c, const layer *l)
{
    tl_update_adamax(c, l->block, l->gradient, l->hyper, l->slot[0], l->slot[1],
                     &(tl_adamax_attr){.beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-7});
}

static void by_nadam(tl_ctx *c, const layer *l)
{
    tl_update_nadam(c, l->block, l->gradient, l->hyper, l->slot[0], l->slot[1],
                    &(tl_nadam_attr){.beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-7});
}

static void by_ftrl(tl_ctx *c, const layer *l)
{
    tl_update_ftrl(c, l->block, l->gradient, l->hyper, l->slot[0], l->slot[1],
                   &(tl_ftrl_attr){.learning_rate_power = -0.5, .l1 = 0.01, .l2 = 0.1});
}

static void by_lion(tl_ctx *c, const layer *l)
{
    tl_update_lion(c, l->block, l->gradient, l->hyper, l->slot[0],
                   &(tl_lion_attr){.beta_1 = 0.9, .beta_2 = 0.99, .weight_decay = 0.1});
}

static void updates_in_parts(tl_ctx *c, const layer *l)
{
    tl_tensor *whole[] = {l->weights, l->bias};
    for (int i = 0; i < 2; i++) {
        tl_tensor *gradient = tl_full(c, TL_F32, whole[i]->shape, 0.25);
        tl_update_sgd(c, whole[i], gradient, l->hyper, NULL, &(tl_sgd_attr){0});
    }
}

// Five steps of two layers that begin alike, one with copies and one without.
static void assert_same_steps(fixture *f, tl_dtype half, void (*update)(tl_ctx *, const layer *))
{
    layer with, without;
    float is[4 * COLUMNS], should[4 * COLUMNS];
    make_layer(&with, f, half, update);
    make_layer(&without, f, half, update);
    tl_program *p = program(f, &with, true), *plain = program(f, &without, false);
    for (int i = 0; i < 5; i++) {
        run_program(f, p, is);
        run_program(f, plain, should);
        assert_memory_equal(is, should, sizeof is);
    }
    tl_program_free(&p);
    tl_program_free(&plain);
    free_layer(&with);
    free_layer(&without);
}

static void every_update_renews_the_copy(void **state)
{
    void (*const updates[])(tl_ctx *, const layer *) = {
        by_sgd,      by_adam,   by_rmsprop, by_adagrad, by_lamb, by_lars,
        by_adadelta, by_adamax, by_nadam,   by_ftrl,    by_lion, updates_in_parts};
    for (size_t i = 0; i < TL_COUNT(updates); i++) {
        assert_same_steps(*state, TL_BF16, updates[i]);
        assert_same_steps(*state, TL_F16, updates[i]);
    }
}

static void the_reference_renews_it_too(void **state)
{
    fixture reference = {.c = NULL};
    (void)state;
    assert_ok(tl_engine_new(&reference.engine,
                            &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1}));
    assert_ok(tl_ctx_new(&reference.c, reference.engine));
    assert_same_steps(&reference, TL_BF16, by_adam);
    assert_same_steps(&reference, TL_BF16, by_lars);
    assert_same_steps(&reference, TL_BF16, by_nadam);
    assert_same_steps(&reference, TL_BF16, by_ftrl);
    tl_ctx_free(&reference.c);
    tl_engine_free(&reference.engine);
}

/* --- a copy is never stale -------------------------------------------------------------------- */

static void double_the_weights(tl_ctx *c, void *payload)
{
    layer *l = payload;
    tl_assign(c, l->weights, tl_add(c, l->weights, l->weights));
}

static void assert_sees(fixture *f, tl_program *p, tl_program *plain)
{
    float is[4 * COLUMNS], should[4 * COLUMNS];
    run_program(f, plain, should);
    run_program(f, p, is);
    assert_memory_equal(is, should, sizeof is);
}

static void a_copy_follows_weights_that_others_write(void **state)
{
    fixture *f = *state;
    layer l;
    float before[4 * COLUMNS], after[4 * COLUMNS];
    make_layer(&l, f, TL_BF16, NULL);
    tl_program *p = program(f, &l, true), *plain = program(f, &l, false);
    run_program(f, p, before);
    assert_sees(f, p, plain);
    set_all(l.weights, 0.5, 1); // by the host
    assert_sees(f, p, plain);
    run_program(f, p, after);
    assert_memory_not_equal(before, after, sizeof before);
    tl_lease lease; // through a lease
    assert_ok(tl_lease_write(&lease, l.weights));
    ((float *)lease.data)[3] = 17;
    assert_ok(tl_lease_end(&lease));
    assert_sees(f, p, plain);
    double_the_weights(f->c, &l); // by an op
    assert_ok(tl_ctx_status(f->c));
    assert_sees(f, p, plain);
    layer same = l; // by another program
    same.update = by_adam;
    tl_program *training = program(f, &same, true);
    run_program(f, training, after);
    assert_sees(f, p, plain);
    run_program(f, training, after);
    assert_sees(f, p, plain);
    tl_program_free(&training);
    tl_program_free(&p);
    tl_program_free(&plain);
    free_layer(&l);
}

static void an_update_that_is_left_out_leaves_the_copy(void **state)
{
    fixture *f = *state;
    layer l;
    float first[4 * COLUMNS], second[4 * COLUMNS];
    make_layer(&l, f, TL_BF16, by_adam);
    assert_ok(tl_tensor_set_doubles(l.hyper, (double[]){0.05, 3, 1, 0}, TL_HYPER_COUNT));
    tl_program *p = program(f, &l, true);
    run_program(f, p, first);
    run_program(f, p, second);
    assert_memory_equal(first, second, sizeof first);
    tl_program_free(&p);
    free_layer(&l);
}

/* --- what keeps its casts --------------------------------------------------------------------- */

BODY(reads_after_the_update)
{
    const layer *l = self;
    UNUSED_BODY_ARGS;
    tl_tensor *w = tl_cast(c, l->weights, TL_BF16);
    by_adam(c, l);
    // of the weights before it
    tl_tensors_put(c, out, "sums", tl_matmul(c, tl_cast(c, x, TL_BF16), w));
}

BODY(writes_in_another_way)
{
    layer *l = self;
    UNUSED_BODY_ARGS;
    tl_tensors_put(c, out, "sums",
                   tl_matmul(c, tl_cast(c, x, TL_BF16), tl_cast(c, l->weights, TL_BF16)));
    double_the_weights(c, l);
}

BODY(casts_a_little)
{
    const layer *l = self;
    UNUSED_BODY_ARGS;
    by_adam(c, l);
    tl_tensors_put(c, out, "bias", tl_cast(c, l->bias, TL_BF16));
}

BODY(casts_to_double)
{
    const layer *l = self;
    UNUSED_BODY_ARGS;
    tl_tensors_put(c, out, "wide", tl_sum(c, tl_cast(c, l->block, TL_F64), TL_AXES(0), false));
}

BODY(hands_out_its_cast)
{
    const layer *l = self;
    UNUSED_BODY_ARGS;
    tl_tensors_put(c, out, "narrow", tl_cast(c, l->block, TL_BF16));
}

static void casts_stay_where_a_copy_would_be_wrong_or_useless(void **state)
{
    static tl_graph_fn *const bodies[] = {reads_after_the_update, writes_in_another_way,
                                          casts_a_little, casts_to_double, hands_out_its_cast};
    fixture *f = *state;
    layer l;
    make_layer(&l, f, TL_BF16, NULL);
    for (size_t i = 0; i < TL_COUNT(bodies); i++) {
        tl_graph *g = captured(f, bodies[i], &l);
        assert_ok(tl_graph_optimize(
            g, &(tl_optimize){.skip = (const char *const[]){"weight copies", "fuse", NULL}}));
        assert_int_equal(run_pass(g, "weight copies"), 0);
        tl_graph_free(&g);
    }
    free_layer(&l);
}

/* --- packed weights --------------------------------------------------------------------------- */

enum { EXAMPLES = 160, FEATURES = 200, UNITS = 136 };

typedef struct wide_layer {
    tl_tensor *weights, *bias, *x;
    tl_dtype dtype;
    bool turned; /* the product is with the transpose */
} wide_layer;

BODY(wide_step)
{
    const wide_layer *l = self;
    UNUSED_BODY_ARGS;
    tl_tensor *w = tl_cast(c, l->weights, l->dtype);
    tl_tensor *rows =
        tl_cast(c, tl_mul(c, l->x, tl_full(c, TL_F32, TL_SHAPE(1, 1), 0.5)), l->dtype);
    tl_tensor *sums = l->turned ? tl_matmul_with(c, rows, w, false, true)
                                : tl_linear(c, rows, w, tl_cast(c, l->bias, l->dtype), TL_ACT_RELU);
    tl_tensors_put(c, out, "sums", tl_cast(c, sums, TL_F32));
}

static void make_wide(wide_layer *l, fixture *f, tl_dtype dtype, bool turned)
{
    *l = (wide_layer){.dtype = dtype, .turned = turned};
    tl_shape shape = turned ? TL_SHAPE(UNITS, FEATURES) : TL_SHAPE(FEATURES, UNITS);
    assert_ok(tl_tensor_new(&l->weights, f->engine, TL_F32, shape));
    assert_ok(tl_tensor_new(&l->bias, f->engine, TL_F32, TL_SHAPE(UNITS)));
    assert_ok(tl_tensor_new(&l->x, f->engine, TL_F32, TL_SHAPE(EXAMPLES, FEATURES)));
    tl_tensor *all[] = {l->weights, l->bias, l->x};
    for (size_t i = 0; i < TL_COUNT(all); i++) {
        tl_lease lease;
        assert_ok(tl_lease_write(&lease, all[i]));
        for (int64_t k = 0; k < tl_tensor_count(all[i]); k++)
            ((float *)lease.data)[k] = (float)((k * 31 + (int64_t)i * 7) % 97 - 48) / 64;
        assert_ok(tl_lease_end(&lease));
    }
}

// The program's sums are those of the same calls run one by one.
static void assert_as_eager(fixture *f, tl_program *p, wide_layer *l)
{
    static float is[EXAMPLES * UNITS], should[EXAMPLES * UNITS];
    tl_tensors in = {0}, out = {0}, eager = {0};
    tl_mark mark = tl_ctx_begin(f->c);
    tl_tensor *x = tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 0);
    tl_tensors_put(f->c, &in, "x", x);
    tl_tensors_put(f->c, &in, "y", x);
    assert_ok(tl_program_run(p, f->c, &in, &out));
    assert_ok(wide_step(l, f->c, &in, &eager));
    assert_ok(tl_tensor_get(tl_tensors_get(f->c, &out, "sums"), is, sizeof is));
    assert_ok(tl_tensor_get(tl_tensors_get(f->c, &eager, "sums"), should, sizeof should));
    assert_memory_equal(is, should, sizeof is);
    tl_ctx_end(f->c, mark);
}

static void weights_that_stay_are_packed_once(void **state)
{
    static const tl_dtype types[] = {TL_F32, TL_BF16};
    fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        wide_layer l;
        tl_program_stats stats;
        tl_program *p;
        make_wide(&l, f, types[i / 2], i % 2);
        tl_graph *g = captured(f, wide_step, &l);
        assert_ok(tl_graph_optimize(g, NULL));
        assert_ok(tl_program_new(&p, &g, &(tl_program_args){.name = "evaluation"}));
        for (int run = 0; run < 3; run++) assert_as_eager(f, p, &l);
        tl_program_measure(p, &stats);
        if (types[i / 2] == TL_F32 && !test_is_checked()) // which looks at every input
            assert_true(stats.packed >= (int64_t)tl_tensor_bytes(l.weights));
        tl_lease lease;
        assert_ok(tl_lease_write(&lease, l.weights));
        ((float *)lease.data)[77] = 5;
        assert_ok(tl_lease_end(&lease));
        assert_as_eager(f, p, &l);
        tl_program_free(&p);
        tl_tensor_free(&l.weights);
        tl_tensor_free(&l.bias);
        tl_tensor_free(&l.x);
    }
}

/* Panels whose packing was only queued, and did not run, are made again. */
static void panels_that_a_failure_left_are_packed_again(void **state)
{
    (void)state;
    fixture f;
    wide_layer l;
    tl_program *p;
    assert_ok(tl_engine_new(&f.engine, &(tl_engine_args){.backend = &fake_backend, .threads = 1}));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    for (int at = 1; at < 4; at++) {
        tl_tensors in = {0}, out = {0};
        make_wide(&l, &f, TL_F32, false);
        tl_graph *g = captured(&f, wide_step, &l);
        assert_ok(tl_graph_optimize(g, NULL));
        assert_ok(tl_program_new(&p, &g, &(tl_program_args){.name = "evaluation"}));
        tl_tensor *x = tl_full(f.c, TL_F32, TL_SHAPE(4, 6), 0.75);
        tl_tensors_put(f.c, &in, "x", x);
        tl_tensors_put(f.c, &in, "y", x);
        assert_ok(tl_engine_wait(f.engine));
        fake_fail_at(at);
        // fails at once where calls are waited for
        tl_status st = tl_program_run(p, f.c, &in, &out);
        if (st == TL_OK) st = tl_engine_wait(f.engine);
        assert_true(st == TL_EIO || (st == TL_OK && at > 1));
        fake_fail_at(0);
        assert_as_eager(&f, p, &l);
        tl_program_free(&p);
        tl_tensor_free(&l.weights);
        tl_tensor_free(&l.bias);
        tl_tensor_free(&l.x);
    }
    tl_ctx_free(&f.c);
    tl_engine_free(&f.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_update_renews_the_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(the_reference_renews_it_too, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_follows_weights_that_others_write, setup, teardown),
        cmocka_unit_test_setup_teardown(an_update_that_is_left_out_leaves_the_copy, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(casts_stay_where_a_copy_would_be_wrong_or_useless, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(weights_that_stay_are_packed_once, setup, teardown),
        cmocka_unit_test(panels_that_a_failure_left_are_packed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
