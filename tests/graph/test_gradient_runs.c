/* Gradients of several types that are packed as they come: updates and norms make of them what they
 * make of the same numbers in float32, to the last bit. runs: fake device */
#include "graph_test.h"

#include <tilth/core/attrs.h>
#include <tilth/sys/graph/program.h>

/* Runs of all lengths: of many tasks and of a few elements, with zeros between two tensors, and
 * with boundaries where no vector, short run or task of a kernel ends. */
static const struct {
    tl_dtype type;
    int64_t count, behind; /* zeros behind it */
} parts[] = {
    {TL_BF16, 40000, 0}, {TL_F32, 700, 0},  {TL_F32, 1, 0},      {TL_BF16, 37, 3}, {TL_F16, 5, 0},
    {TL_F32, 1500, 0},   {TL_BF16, 100, 0}, {TL_BF16, 20001, 0}, {TL_F32, 9, 2},
};
enum { PARTS = TL_COUNT(parts), COUNT = 40000 + 701 + 40 + 5 + 1500 + 20101 + 11, SLOTS = 3 };

typedef struct block block;
typedef void update_fn(tl_ctx *c, const block *b, tl_tensor *gradient);
struct block {
    tl_tensor *part[PARTS], *weights, *slot[SLOTS], *hyper;
    update_fn *update;
    int64_t offsets[PARTS], decayed[PARTS];
};

static void set_all(tl_tensor *t, double scale, double from)
{
    const int64_t count = tl_tensor_count(t);
    double *values = tl_alloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) values[i] = from + scale * (double)(i * 7 % 1013 - 506);
    assert_ok(tl_tensor_set_doubles(t, values, count));
    tl_free(values);
}

static void make_block(block *b, fixture *f, update_fn *update)
{
    int64_t at = 0;
    *b = (block){.update = update};
    for (size_t i = 0; i < PARTS; i++) {
        assert_ok(tl_tensor_new(&b->part[i], f->engine, parts[i].type, TL_SHAPE(parts[i].count)));
        set_all(b->part[i], 0.00021 * (double)(i + 1), 0.001);
        b->offsets[i] = at;
        b->decayed[i] = i % 2;
        at += parts[i].count + parts[i].behind;
    }
    assert_int_equal(at, COUNT);
    assert_ok(tl_tensor_new(&b->weights, f->engine, TL_F32, TL_SHAPE(COUNT)));
    assert_ok(tl_tensor_new(&b->hyper, f->engine, TL_F32, TL_SHAPE(TL_HYPER_COUNT)));
    for (int i = 0; i < SLOTS; i++) {
        assert_ok(tl_tensor_new(&b->slot[i], f->engine, TL_F32, TL_SHAPE(COUNT)));
        set_all(b->slot[i], 0, 0.5);
    }
    set_all(b->weights, 0.00137, 0.3);
    assert_ok(tl_tensor_set_doubles(b->hyper, (double[]){0.05, 3, 0.7, 1}, TL_HYPER_COUNT));
}

static void free_block(block *b)
{
    for (size_t i = 0; i < PARTS; i++) tl_tensor_free(&b->part[i]);
    for (int i = 0; i < SLOTS; i++) tl_tensor_free(&b->slot[i]);
    tl_tensor_free(&b->weights);
    tl_tensor_free(&b->hyper);
}

/* --- updates ---------------------------------------------------------------------------------- */

#define LISTS(b) .offsets = {(b)->offsets, PARTS}, .decayed = {(b)->decayed, PARTS}
#define UPDATE(rule, slots, ...)                                                                   \
    static void by_##rule(tl_ctx *c, const block *b, tl_tensor *gradient)                          \
    {                                                                                              \
        tl_update_##rule(c, b->weights, gradient, b->hyper, slots,                                 \
                         &(tl_##rule##_attr){__VA_ARGS__});                                        \
    }
#define ONE b->slot[0]
#define TWO b->slot[0], b->slot[1]
#define THREE b->slot[0], b->slot[1], b->slot[2]
UPDATE(sgd, ONE, .momentum = 0.9, .weight_decay = 0.1, LISTS(b))
UPDATE(adam, THREE, .beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-7, .weight_decay = 0.1,
       .amsgrad = true, LISTS(b))
UPDATE(rmsprop, THREE, .rho = 0.9, .momentum = 0.5, .centered = true, .epsilon = 1e-2)
UPDATE(adagrad, ONE, .epsilon = 1e-7)
UPDATE(adadelta, TWO, .rho = 0.9, .epsilon = 1e-3, .weight_decay = 0.1, LISTS(b))
UPDATE(adamax, TWO, .beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-7)
UPDATE(nadam, TWO, .beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-7, .weight_decay = 0.1, LISTS(b))
UPDATE(ftrl, TWO, .learning_rate_power = -0.5, .l1 = 0.01, .l2 = 0.1)
UPDATE(lion, ONE, .beta_1 = 0.9, .beta_2 = 0.99, .weight_decay = 0.1, LISTS(b))
UPDATE(lamb, TWO, .beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-7, LISTS(b))
UPDATE(lars, ONE, .momentum = 0.9, .eeta = 0.01, .classic_momentum = true, LISTS(b))

static tl_tensor *packed(tl_ctx *c, const block *b)
{
    tl_tensor *wide[PARTS];
    for (size_t i = 0; i < PARTS; i++) wide[i] = tl_cast(c, b->part[i], TL_F32);
    return tl_pack(c, PARTS, wide, b->offsets, COUNT);
}

BODY(step)
{
    const block *b = self;
    UNUSED_BODY_ARGS;
    tl_tensor *gradient = packed(c, b), *norm, *finite;
    if (tl_finite_and_norm(c, &gradient, 1, &norm, &finite)) {
        tl_tensors_put(c, out, "norm", norm);
        tl_tensors_put(c, out, "finite", finite);
    }
    b->update(c, b, gradient);
}

static tl_program *program(fixture *f, block *b, bool runs)
{
    // GPUs would have to compile nests.
    static const char *const with[] = {"fuse", NULL}, *const without[] = {"gradient runs", "fuse",
                                                                          NULL};
    tl_program *p;
    tl_graph *g = captured(f, step, b);
    assert_ok(tl_graph_optimize(g, &(tl_optimize){.skip = runs ? with : without}));
    for (const tl_node *n = tl_graph_first(g); n; n = n->after)
        if (strncmp(n->op->name, "update_", 7) == 0)
            assert_int_equal(((const tl_update_attr *)n->attr)->runs.count > 0,
                             runs && strcmp(tl_engine_backend(f->engine)->cls.name, "cuda") != 0);
    assert_ok(tl_program_new(&p, &g, &(tl_program_args){.name = "step"}));
    return p;
}

static float run(fixture *f, tl_program *p)
{
    tl_tensors in = {0}, out = {0};
    float norm;
    bool finite;
    tl_mark mark = tl_ctx_begin(f->c);
    tl_tensor *x = tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 0.75);
    tl_tensors_put(f->c, &in, "x", x);
    tl_tensors_put(f->c, &in, "y", x);
    assert_ok(tl_program_run(p, f->c, &in, &out));
    assert_ok(tl_tensor_get(tl_tensors_get(f->c, &out, "norm"), &norm, sizeof norm));
    assert_ok(tl_tensor_get(tl_tensors_get(f->c, &out, "finite"), &finite, sizeof finite));
    tl_ctx_end(f->c, mark);
    return finite ? norm : INFINITY;
}

static void assert_alike(tl_tensor *a, tl_tensor *b)
{
    float *is = tl_alloc(COUNT * sizeof *is), *should = tl_alloc(COUNT * sizeof *should);
    assert_true(is && should);
    assert_ok(tl_tensor_get(a, is, COUNT * sizeof *is));
    assert_ok(tl_tensor_get(b, should, COUNT * sizeof *should));
    assert_memory_equal(is, should, COUNT * sizeof *is);
    tl_free(is);
    tl_free(should);
}

static void assert_same_steps(fixture *f, update_fn *update)
{
    block with, without;
    make_block(&with, f, update);
    make_block(&without, f, update);
    tl_program *p = program(f, &with, true), *plain = program(f, &without, false);
    for (int i = 0; i < 2; i++) {
        const float norm = run(f, p), should = run(f, plain);
        assert_memory_equal(&norm, &should, sizeof norm);
        assert_true(norm > 0 && norm < INFINITY);
    }
    assert_alike(with.weights, without.weights);
    for (int i = 0; i < SLOTS; i++) assert_alike(with.slot[i], without.slot[i]);
    tl_program_free(&p);
    tl_program_free(&plain);
    free_block(&with);
    free_block(&without);
}

static update_fn *const updates[] = {by_sgd,      by_adam,   by_rmsprop, by_adagrad,
                                     by_adadelta, by_adamax, by_nadam,   by_ftrl,
                                     by_lion,     by_lamb,   by_lars};

static void updates_read_runs(void **state)
{
    for (size_t i = 0; i < TL_COUNT(updates); i++) assert_same_steps(*state, updates[i]);
}

static void the_reference_reads_them_too(void **state)
{
    fixture reference = {.c = NULL};
    (void)state;
    assert_ok(tl_engine_new(&reference.engine,
                            &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1}));
    assert_ok(tl_ctx_new(&reference.c, reference.engine));
    for (size_t i = 0; i < TL_COUNT(updates); i++) assert_same_steps(&reference, updates[i]);
    tl_ctx_free(&reference.c);
    tl_engine_free(&reference.engine);
}

static void what_is_not_finite_is_told(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < PARTS; i++) {
        block b;
        double last[40000] = {0};
        make_block(&b, f, by_adam);
        last[parts[i].count - 1] = i % 2 ? INFINITY : NAN;
        assert_ok(tl_tensor_set_doubles(b.part[i], last, parts[i].count));
        tl_program *p = program(f, &b, true);
        assert_true(run(f, p) == INFINITY);
        tl_program_free(&p);
        free_block(&b);
    }
}

/* --- the pass --------------------------------------------------------------------------------- */

static void casts_go_and_runs_are_told(void **state)
{
    fixture *f = *state;
    block b;
    make_block(&b, f, by_adam);
    tl_graph *g = captured(f, step, &b);
    assert_int_equal(count_ops(g, "cast"), 5); // casts to the same type are none
    const bool taken = !test_wants_gpu();      // whose products are float32 already
    assert_int_equal(run_pass(g, "gradient runs"), taken);
    if (!taken) {
        tl_graph_free(&g);
        free_block(&b);
        return;
    }
    assert_int_equal(count_ops(g, "cast"), 0);
    int seen = 0;
    for (const tl_node *n = tl_graph_first(g); n; n = n->after) {
        if (strcmp(n->op->name, "update_adam") == 0) {
            const tl_ints runs = ((const tl_update_attr *)n->attr)->runs;
            const int64_t wanted[] = {0,      0,       TL_BF16, 40000,   80000,  TL_F32, 40701,
                                      82816,  TL_BF16, 40741,   82944,   TL_F16, 40746,  83008,
                                      TL_F32, 42246,   89024,   TL_BF16, 62347,  129280, TL_F32};
            assert_int_equal(runs.count, TL_COUNT(wanted));
            assert_memory_equal(runs.items, wanted, sizeof wanted);
            assert_int_equal(n->in[1]->dtype, TL_U8);
            assert_int_equal(tl_tensor_count(n->in[1]), 129280 + 11 * 4);
            seen++;
        }
    }
    assert_int_equal(seen, 1);
    assert_int_equal(run_pass(g, "gradient runs"), 0); // once is enough
    tl_graph_free(&g);
    free_block(&b);
}

BODY(hands_out_the_gradient)
{
    const block *b = self;
    UNUSED_BODY_ARGS;
    tl_tensor *gradient = packed(c, b);
    tl_tensors_put(c, out, "gradient", gradient);
    by_adam(c, b, gradient);
}

BODY(uses_it_otherwise)
{
    const block *b = self;
    UNUSED_BODY_ARGS;
    tl_tensor *gradient = packed(c, b);
    tl_tensors_put(c, out, "sum", tl_sum(c, gradient, TL_AXES(0), false));
    by_adam(c, b, gradient);
}

BODY(norm_of_two)
{
    const block *b = self;
    UNUSED_BODY_ARGS;
    tl_tensor *both[] = {packed(c, b), b->weights}, *norm, *finite;
    if (tl_finite_and_norm(c, both, 2, &norm, &finite)) tl_tensors_put(c, out, "norm", norm);
    by_adam(c, b, both[0]);
}

BODY(sources_change)
{
    const block *b = self;
    UNUSED_BODY_ARGS;
    tl_tensor *wide[PARTS];
    for (size_t i = 0; i < PARTS; i++) {
        wide[i] = tl_cast(c, b->part[i], TL_F32);
        tl_assign(c, b->part[i], tl_full(c, parts[i].type, TL_SHAPE(parts[i].count), 9));
    }
    by_adam(c, b, tl_pack(c, PARTS, wide, b->offsets, COUNT));
}

BODY(casts_change)
{
    const block *b = self;
    UNUSED_BODY_ARGS;
    tl_tensor *wide[PARTS];
    for (size_t i = 0; i < PARTS; i++) {
        wide[i] = tl_cast(c, tl_add(c, b->part[i], b->part[i]), TL_F32);
        tl_assign_add(c, wide[i], tl_full(c, TL_F32, TL_SHAPE(parts[i].count), 9));
    }
    by_adam(c, b, tl_pack(c, PARTS, wide, b->offsets, COUNT));
}

BODY(all_are_wide)
{
    const block *b = self;
    UNUSED_BODY_ARGS;
    static const int64_t offsets[] = {0, 700};
    tl_tensor *const wide[] = {b->part[1], b->part[5]};
    by_adam(c, b, tl_pack(c, 2, wide, offsets, COUNT));
}

static void blocks_stay_that_others_read_or_that_would_be_wrong(void **state)
{
    static tl_graph_fn *const bodies[] = {hands_out_the_gradient, uses_it_otherwise, norm_of_two,
                                          sources_change,         casts_change,      all_are_wide};
    fixture *f = *state;
    for (size_t i = 0; i < TL_COUNT(bodies); i++) {
        block b;
        make_block(&b, f, by_adam);
        tl_graph *g = captured(f, bodies[i], &b);
        assert_int_equal(run_pass(g, "gradient runs"), 0);
        tl_graph_free(&g);
        free_block(&b);
    }
}

BODY(one_gradient_thrice)
{
    const block *b = self;
    UNUSED_BODY_ARGS;
    static const int64_t offsets[] = {0, 100, 800, 900};
    tl_tensor *same = tl_cast(c, b->part[6], TL_F32);
    tl_tensor *const wide[] = {same, b->part[1], same, same};
    tl_tensor *gradient = tl_pack(c, 4, wide, offsets, COUNT);
    by_adam(c, b, gradient);
    by_lion(c, b, gradient);
}

static void one_gradient_of_several_parts_and_updates(void **state)
{
    fixture *f = *state;
    block with, without;
    make_block(&with, f, by_adam);
    make_block(&without, f, by_adam);
    for (int runs = 0; runs < 2; runs++) {
        static const char *const all[] = {"gradient runs", "fuse", NULL};
        tl_program *p;
        tl_tensors in = {0}, out = {0};
        tl_graph *g = captured(f, one_gradient_thrice, runs ? &with : &without);
        assert_ok(tl_graph_optimize(g, &(tl_optimize){.skip = all + runs, .verify = true}));
        assert_int_equal(count_ops(g, "cast"), runs && !test_wants_gpu() ? 0 : 1);
        assert_ok(tl_program_new(&p, &g, &(tl_program_args){.name = "step"}));
        tl_mark mark = tl_ctx_begin(f->c);
        tl_tensors_put(f->c, &in, "x", tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 0.75));
        tl_tensors_put(f->c, &in, "y", tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 0.75));
        assert_ok(tl_program_run(p, f->c, &in, &out));
        tl_ctx_end(f->c, mark);
        tl_program_free(&p);
    }
    assert_alike(with.weights, without.weights);
    for (int i = 0; i < SLOTS; i++) assert_alike(with.slot[i], without.slot[i]);
    free_block(&with);
    free_block(&without);
}

/* --- bad runs --------------------------------------------------------------------------------- */

static void bad_runs_are_told(void **state)
{
    fixture *f = *state;
    tl_tensor *bytes, *weights, *hyper, *squares, *norm[2], *none[1];
    assert_ok(tl_tensor_new(&bytes, f->engine, TL_U8, TL_SHAPE(40)));
    assert_ok(tl_tensor_new(&weights, f->engine, TL_F32, TL_SHAPE(12)));
    assert_ok(tl_tensor_new(&squares, f->engine, TL_F32, TL_SHAPE(12)));
    assert_ok(tl_tensor_new(&hyper, f->engine, TL_F32, TL_SHAPE(TL_HYPER_COUNT)));
    static const struct {
        int64_t numbers[6];
        int count;
        const char *part;
    } bad[] = {
        {{0, 0, TL_BF16, 4}, 4, "three numbers each"},
        {{1, 0, TL_BF16}, 3, "begins at element 0"},
        {{0, 0, TL_I64}, 3, "must hold float32"},
        {{0, 0, TL_F32}, 3, "run 0 of a block, elements 0 to 12 of 12 from byte 0"}, // 48 bytes
        {{0, 1, TL_BF16}, 3, "from byte 1"},
        {{0, 0, TL_BF16, 12, 24, TL_F32}, 6, "run 1"},
        {{0, 0, TL_F32, 4, 8, TL_BF16}, 6, "lie behind the one before"},
    };
    for (size_t i = 0; i < TL_COUNT(bad); i++) {
        const tl_ints runs = {bad[i].numbers, bad[i].count};
        tl_tensor *const in[] = {weights, bytes, hyper, squares};
        const tl_adagrad_attr attr = {.update = {.runs = runs}, .epsilon = 1e-7};
        assert_false(tl_apply_all(f->c, TL_OP_update_adagrad, &attr, 4, in, none));
        assert_non_null(strstr(tl_error_message(), bad[i].part));
        tl_ctx_clear(f->c);
        assert_false(tl_apply_all(f->c, TL_OP_finite_and_norm,
                                  &(tl_finite_attr){.runs = runs, .count = 12}, 1, &bytes, norm));
        assert_non_null(strstr(tl_error_message(), bad[i].part));
        tl_ctx_clear(f->c);
    }
    tl_tensor_free(&bytes);
    tl_tensor_free(&weights);
    tl_tensor_free(&squares);
    tl_tensor_free(&hyper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(updates_read_runs, setup, teardown),
        cmocka_unit_test(the_reference_reads_them_too),
        cmocka_unit_test_setup_teardown(what_is_not_finite_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(casts_go_and_runs_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(blocks_stay_that_others_read_or_that_would_be_wrong, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_gradient_of_several_parts_and_updates, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_runs_are_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
