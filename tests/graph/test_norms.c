/* What activations behind a normalisation become (graph/epilogue.c), and that this changes no bit.
 * Other results are compared by tests/ops/test_norm.c. */
#include <stdlib.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/norm.h>

#include "graph/graph_test.h"

/* self: whether somebody else looks at what the activation is given. */
BODY(normalized)
{
    UNUSED_BODY_ARGS;
    tl_tensor *gamma = tl_full(c, TL_F32, TL_SHAPE(6), 2), *g;
    tl_tensor *beta = tl_full(c, TL_F32, TL_SHAPE(6), 1);
    tl_tensor *given = tl_batch_normalize(c, x, gamma, beta, 1e-3, NULL, NULL);
    tl_tensor *first = tl_relu6(c, given);
    tl_tensor *second = tl_relu(c, tl_batch_normalize(c, first, NULL, beta, 1e-3, NULL, NULL));
    if (self) tl_tensors_put(c, out, "given", tl_exp(c, given));
    if (tl_gradient(c, tl_sum(c, tl_mul(c, second, y), TL_ALL, false), &x, 1, &g) == TL_OK)
        tl_tensors_put(c, out, "g", g);
}

static void activations_become_part_of_norms(void **state)
{
    tl_graph *g = captured(*state, normalized, NULL);
    assert_int_equal(run_pass(g, "epilogue"), 4); // two ahead, two back
    run_pass(g, "dead again");
    assert_int_equal(count_ops(g, "relu"), 0);
    assert_int_equal(count_ops(g, "relu6"), 0);
    assert_int_equal(count_ops(g, "relu_grad"), 0);
    assert_int_equal(count_ops(g, "batch_normalize"), 2);
    assert_int_equal(count_ops(g, "batch_normalize_grad"), 2);
    tl_graph_free(&g);
}

static void what_others_see_stays(void **state)
{
    tl_graph *g = captured(*state, normalized, state);
    assert_int_equal(run_pass(g, "epilogue"), 2); // the second one
    run_pass(g, "dead again");
    assert_int_equal(count_ops(g, "relu6"), 1);
    assert_int_equal(count_ops(g, "relu_grad"), 2);
    tl_graph_free(&g);
}

/* --- sums ------------------------------------------------------------------------------------- */

/* self: whether what is added comes later than the normalisation. */
BODY(added)
{
    UNUSED_BODY_ARGS;
    tl_tensor *early = tl_exp(c, y), *g;
    tl_tensor *z = tl_batch_normalize(c, x, NULL, NULL, 1e-3, NULL, NULL);
    tl_tensor *sum = tl_relu(c, tl_add(c, self ? tl_exp(c, early) : early, z));
    if (tl_gradient(c, tl_sum(c, tl_mul(c, sum, y), TL_ALL, false), &x, 1, &g) == TL_OK)
        tl_tensors_put(c, out, "g", g);
}

static tl_status never(const tl_run *run, const tl_node *call)
{
    (void)run, (void)call;
    return TL_FAIL(TL_EINTERNAL, "the graph is looked at, not run");
}

static int setup_backend(void **state, const tl_backend_class *backend)
{
    static fixture f;
    assert_ok(tl_engine_new(&f.engine, &(tl_engine_args){.backend = backend, .threads = 1}));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    f.mark = tl_ctx_begin(f.c);
    *state = &f;
    return 0;
}

/* The CPU's, and one whose kernel adds to its result itself. */
static int setup_plain(void **state)
{
    const tl_backend_class *cpu;
    assert_ok(tl_cpu_backend(&cpu));
    return setup_backend(state, cpu);
}

static int setup_adding(void **state)
{
    static const tl_kernel rows[] = {{TL_OP_batch_normalize, TL_F32, never, TL_KERNEL_JOINED},
                                     {TL_OP_batch_normalize_grad, TL_F32, never, TL_KERNEL_JOINED}};
    static const tl_kernels kernels = {rows, TL_COUNT(rows)}, *const tables[] = {&kernels, NULL};
    static tl_backend_class adding = {
        .cls = {.class_size = sizeof(tl_backend_class), .name = "adding"}, .tables = tables};
    assert_ok(tl_cpu_backend(&adding.fallback));
    return setup_backend(state, &adding);
}

static void sums_become_part_of_norms(void **state)
{
    tl_graph *g = captured(*state, added, NULL);
    assert_int_equal(run_pass(g, "epilogue"), 2); // the sum, then relu; not the gradient
    run_pass(g, "dead again");
    assert_int_equal(count_ops(g, "add"), 0);
    assert_int_equal(count_ops(g, "relu"), 0);
    assert_int_equal(count_ops(g, "relu_grad"), 1);
    assert_int_equal(count_ops(g, "batch_normalize"), 1);
    tl_graph_free(&g);
    // what is not there yet cannot be added
    g = captured(*state, added, state);
    assert_int_equal(run_pass(g, "epilogue"), 0);
    tl_graph_free(&g);
}

static void sums_stay_where_kernels_do_not_add(void **state)
{
    tl_graph *g = captured(*state, added, NULL);
    assert_int_equal(run_pass(g, "epilogue"), 0);
    tl_graph_free(&g);
}

/* The gradient behind a block's relu, which two ways lead from and one goes around; self: somebody
 * sees it before the normalisation's gradient. */
BODY(gradients_added)
{
    UNUSED_BODY_ARGS;
    tl_tensor *in[] = {tl_relu_grad(c, tl_add(c, tl_exp(c, x), y), tl_sin(c, x)), x,
                       tl_zeros(c, TL_F32, TL_SHAPE(6)), tl_ones(c, TL_F32, TL_SHAPE(6))},
              *made[4];
    const tl_norm_attr attr = {.epsilon = 1e-3};
    if (self) tl_tensors_put(c, out, "early", tl_softmax(c, in[0], 1));
    if (!tl_apply_all(c, TL_OP_batch_normalize_grad, &attr, 4, in, made)) return;
    tl_tensors_put(c, out, "g", made[0]);
    tl_tensors_put(c, out, "around", tl_exp(c, in[0]));
}

static void sums_become_part_of_gradients(void **state)
{
    tl_graph *g = captured(*state, gradients_added, NULL);
    assert_int_equal(run_pass(g, "epilogue"), 1);
    run_pass(g, "dead again");
    assert_int_equal(count_ops(g, "add"), 0);
    assert_int_equal(count_ops(g, "relu_grad"), 0);
    assert_int_equal(count_ops(g, "batch_normalize_grad"), 1);
    assert_ok(tl_graph_verify(g));
    tl_graph_free(&g);
    g = captured(*state, gradients_added, state);
    assert_int_equal(run_pass(g, "epilogue"), 0);
    tl_graph_free(&g);
}

static void gradients_stay_where_kernels_do_not_add(void **state)
{
    tl_graph *g = captured(*state, gradients_added, NULL);
    assert_int_equal(run_pass(g, "epilogue"), 0);
    tl_graph_free(&g);
}

/* --- bits ------------------------------------------------------------------------------------- */

/* CHANNELS are strips of every width; ROWS are several blocks of the kernel's sums. */
enum { ROWS = 700, CHANNELS = 139, RESULTS = 4 };

/* Factors of both signs, tiny ones and 0; sums that touch 0 and 6 from all sides. */
static tl_tensor *numbers(tl_ctx *c, bool factors)
{
    static const float some[] = {1, -1, 2, 0, 0.5f, -3, 1e-6f, 8}, more[] = {0, 6, 3, -1, 5.98f, 7};
    float values[CHANNELS];
    for (int i = 0; i < CHANNELS; i++) values[i] = factors ? some[i % 8] : more[i % 6];
    return tl_from(c, TL_F32, TL_SHAPE(CHANNELS), values);
}

/* The result and the gradients of x, gamma and beta; the activation inside, or behind it. */
static void results(tl_ctx *c, tl_tensor *const *in, tl_tensor *gy, tl_activation activation,
                    bool inside, tl_tensor **out)
{
    const tl_norm_attr a = {.epsilon = 1e-3,
                            .scaled = true,
                            .shifted = true,
                            .activation = inside ? activation : TL_ACT_NONE};
    tl_tensor *parts[4];
    const bool before = tl_ctx_set_taping(c, true);
    tl_apply_all(c, TL_OP_batch_normalize, &a, 3, in, parts);
    out[0] = inside                      ? parts[0]
             : activation == TL_ACT_RELU ? tl_relu(c, parts[0])
                                         : tl_relu6(c, parts[0]);
    assert_ok(tl_gradient(c, tl_sum(c, tl_mul(c, out[0], gy), TL_ALL, false), in, 3, out + 1));
    tl_ctx_set_taping(c, before);
}

static void bits_stay(tl_ctx *c, tl_dtype dtype, tl_activation activation)
{
    const tl_shape shape = TL_SHAPE(ROWS, CHANNELS);
    tl_tensor *x = tl_cast(c, tl_random_normal(c, TL_F32, shape, 0.5, 2), dtype);
    tl_tensor *gy = tl_cast(c, tl_random_normal(c, TL_F32, shape, 0, 1), dtype);
    tl_tensor *const in[] = {x, numbers(c, true), numbers(c, false)};
    tl_tensor *out[2][RESULTS];
    for (int i = 0; i < 3; i++) assert_ok(tl_watch(in[i]));
    for (int inside = 0; inside < 2; inside++) results(c, in, gy, activation, inside, out[inside]);
    for (int i = 0; i < RESULTS; i++) {
        const size_t size = tl_tensor_bytes(out[0][i]);
        char *bytes[2] = {malloc(size), malloc(size)};
        for (int k = 0; k < 2; k++) assert_ok(tl_tensor_get(out[k][i], bytes[k], size));
        assert_memory_equal(bytes[0], bytes[1], size);
        free(bytes[0]);
        free(bytes[1]);
    }
}

static void activations_inside_have_the_same_bits(void **state)
{
    static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16};
    tl_ctx *c = ((fixture *)*state)->c;
    for (int i = 0; i < TL_COUNT(types); i++) {
        bits_stay(c, types[i], TL_ACT_RELU);
        bits_stay(c, types[i], TL_ACT_RELU6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(activations_become_part_of_norms, setup, teardown),
        cmocka_unit_test_setup_teardown(what_others_see_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_become_part_of_norms, setup_adding, teardown),
        cmocka_unit_test_setup_teardown(sums_stay_where_kernels_do_not_add, setup_plain, teardown),
        cmocka_unit_test_setup_teardown(sums_become_part_of_gradients, setup_adding, teardown),
        cmocka_unit_test_setup_teardown(gradients_stay_where_kernels_do_not_add, setup_plain,
                                        teardown),
        cmocka_unit_test_setup_teardown(activations_inside_have_the_same_bits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
