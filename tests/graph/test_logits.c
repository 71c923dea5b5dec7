/* Scores of classes and what follows them: the table whose transpose gives them takes its bias in
 * (graph/epilogue.c), losses and accuracies read scores of half the size as they are
 * (graph/simplify.c, graph/join.c), and this changes no bit. */
#include <stdlib.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/loss.h>

#include "graph/graph_test.h"

enum { WORDS = 37, SIZE = 6, ROWS = 4, RESULTS = 4 };

typedef struct scores {
    tl_dtype dtype;
    bool bias;
    double smoothing;
    bool seen; /* the wide scores are a result too */
} scores;

static tl_tensor *table_of(tl_ctx *c, tl_dtype dtype, int64_t rows, int64_t size)
{
    float values[WORDS * SIZE];
    for (int64_t i = 0; i < rows * size; i++) values[i] = (float)(i * 7 % 31 - 15) / 8;
    tl_tensor *t = tl_from(c, TL_F32, size > 1 ? TL_SHAPE(rows, size) : TL_SHAPE(rows), values);
    return tl_cast(c, t, dtype);
}

BODY(scored)
{
    UNUSED_BODY_ARGS;
    const scores *s = self;
    static const int32_t numbers[ROWS] = {3, 36, 0, 3};
    tl_tensor *labels = tl_from(c, TL_I32, TL_SHAPE(ROWS), numbers), *g;
    tl_tensor *z =
        tl_matmul_with(c, tl_cast(c, x, s->dtype), table_of(c, s->dtype, WORDS, SIZE), false, true);
    if (s->bias) z = tl_add(c, z, table_of(c, s->dtype, WORDS, 1));
    tl_tensor *wide = tl_cast(c, z, TL_F32);
    tl_tensor *loss = tl_sparse_cross_entropy(c, labels, wide, .smoothing = s->smoothing);
    tl_tensors_put(c, out, "loss", loss);
    tl_tensors_put(c, out, "best", tl_argmax(c, wide, 1, false));
    tl_tensors_put(c, out, "worst", tl_argmin(c, wide, 1, false));
    tl_tensor *sum = tl_sum(c, tl_mul(c, loss, tl_exp(c, loss)), TL_ALL, false);
    if (tl_gradient(c, sum, &x, 1, &g) == TL_OK) tl_tensors_put(c, out, "g", g);
    if (s->seen) tl_tensors_put(c, out, "wide", wide);
}

static void a_transposed_table_takes_its_bias_in(void **state)
{
    scores s = {.dtype = TL_F32, .bias = true};
    tl_graph *g = captured(*state, scored, &s);
    assert_int_equal(count_ops(g, "matmul"), 2); // ahead and back
    assert_int_equal(run_pass(g, "epilogue"), 1);
    run_pass(g, "dead again");
    assert_int_equal(count_ops(g, "linear"), 1);
    assert_int_equal(count_ops(g, "matmul"), 1);
    assert_int_equal(count_ops(g, "transpose"), 1); // a view of the table
    tl_graph_free(&g);
}

static tl_status never(const tl_run *run, const tl_node *call)
{
    (void)run, (void)call;
    return TL_FAIL(TL_EINTERNAL, "the graph is looked at, not run");
}

/* A backend whose kernel would be given a copy of the table. */
static int setup_straight(void **state)
{
    static const tl_kernel rows[] = {{TL_OP_linear, TL_F32, never, 0}};
    static const tl_kernels kernels = {rows, 1}, *const tables[] = {&kernels, NULL};
    static tl_backend_class straight = {
        .cls = {.class_size = sizeof(tl_backend_class), .name = "straight"}, .tables = tables};
    static fixture f;
    assert_ok(tl_cpu_backend(&straight.fallback));
    assert_ok(tl_engine_new(&f.engine, &(tl_engine_args){.backend = &straight, .threads = 1}));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    f.mark = tl_ctx_begin(f.c);
    *state = &f;
    return 0;
}

static void a_table_is_not_copied_for_its_bias(void **state)
{
    scores s = {.dtype = TL_F32, .bias = true};
    tl_graph *g = captured(*state, scored, &s);
    assert_int_equal(run_pass(g, "epilogue"), 0);
    tl_graph_free(&g);
}

static const tl_node *find(const tl_graph *g, const char *name)
{
    for (const tl_node *n = tl_graph_first(g); n; n = n->after)
        if (strcmp(n->op->name, name) == 0) return n;
    fail_msg("there is no %s", name);
    return NULL;
}

static void losses_read_narrow_scores(void **state)
{
    static const tl_dtype dtypes[] = {TL_BF16, TL_F16};
    for (int i = 0; i < TL_COUNT(dtypes); i++) {
        scores s = {.dtype = dtypes[i]};
        tl_graph *g = captured(*state, scored, &s);
        assert_int_equal(find(g, "sparse_cross_entropy")->in[1]->dtype, TL_F32);
        run_pass(g, "simplify");
        run_pass(g, "dead");
        assert_int_equal(find(g, "argmax")->in[0]->dtype, dtypes[i]);
        assert_int_equal(find(g, "argmin")->in[0]->dtype, dtypes[i]);
        assert_int_equal(find(g, "sparse_cross_entropy_grad")->in[2]->dtype, dtypes[i]);
        assert_int_equal(run_pass(g, "join"), 1);
        assert_int_equal(find(g, "sparse_cross_entropy")->in[1]->dtype, dtypes[i]);
        tl_graph_free(&g);
        s.seen = true; // they are made in any case
        g = captured(*state, scored, &s);
        run_pass(g, "simplify");
        run_pass(g, "dead");
        assert_int_equal(run_pass(g, "join"), 0);
        tl_graph_free(&g);
    }
}

/* --- bits ------------------------------------------------------------------------------------- */

static void expect_bits(fixture *f, const scores *s)
{
    static const char *const names[RESULTS] = {"loss", "best", "worst", "g"};
    tl_ctx *c = f->c;
    tl_function *function;
    tl_tensors in = {0}, eager = {0};
    tl_tensor *x = tl_random_normal(c, TL_F32, TL_SHAPE(ROWS, SIZE), 0, 2);
    tl_tensors_put(c, &in, "x", x);
    tl_tensors_put(c, &in, "y", x);
    assert_ok(tl_watch(x));
    const bool before = tl_ctx_set_taping(c, true);
    assert_ok(scored((void *)(uintptr_t)s, c, &in, &eager));
    tl_ctx_set_taping(c, before);
    assert_ok(tl_function_new(
        &function,
        &(tl_function_args){.engine = f->engine, .body = scored, .self = (void *)(uintptr_t)s}));
    tl_tensors out = {0};
    assert_ok(tl_function_call(function, c, &in, &out));
    for (int i = 0; i < RESULTS; i++) {
        tl_tensor *wanted = tl_tensors_get(c, &eager, names[i]);
        tl_tensor *made = tl_tensors_get(c, &out, names[i]);
        const size_t size = tl_tensor_bytes(wanted);
        char bytes[2][ROWS * SIZE * sizeof(double)];
        assert_true(size <= sizeof *bytes && tl_tensor_bytes(made) == size);
        assert_ok(tl_tensor_get(wanted, bytes[0], size));
        assert_ok(tl_tensor_get(made, bytes[1], size));
        assert_memory_equal(bytes[0], bytes[1], size);
    }
    tl_function_free(&function);
}

static void scores_keep_their_bits(void **state)
{
    // A bias is added before halves are rounded: other bits than those of two calls, as ever.
    expect_bits(*state, &(scores){.dtype = TL_F32, .bias = true});
    for (int smooth = 0; smooth < 2; smooth++) {
        expect_bits(*state, &(scores){.dtype = TL_BF16, .smoothing = smooth * 0.1});
        expect_bits(*state, &(scores){.dtype = TL_F16, .smoothing = smooth * 0.1});
        expect_bits(*state, &(scores){.dtype = TL_BF16, .seen = true});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_transposed_table_takes_its_bias_in, setup, teardown),
        cmocka_unit_test_setup_teardown(a_table_is_not_copied_for_its_bias, setup_straight,
                                        teardown),
        cmocka_unit_test_setup_teardown(losses_read_narrow_scores, setup, teardown),
        cmocka_unit_test_setup_teardown(scores_keep_their_bits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
