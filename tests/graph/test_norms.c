/* What activations behind a normalisation become (graph/epilogue.c). That results stay as they are
 * is compared by tests/ops/test_norm.c. */
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
    assert_int_equal(run_pass(g, "epilogue"), 2);
    run_pass(g, "dead again");
    assert_int_equal(count_ops(g, "relu"), 0);
    assert_int_equal(count_ops(g, "relu6"), 0);
    assert_int_equal(count_ops(g, "relu_grad"), 3); // of relu6 two
    assert_int_equal(count_ops(g, "batch_normalize"), 2);
    assert_int_equal(count_ops(g, "batch_normalize_grad"), 2);
    tl_graph_free(&g);
}

static void what_others_see_stays(void **state)
{
    tl_graph *g = captured(*state, normalized, state);
    assert_int_equal(run_pass(g, "epilogue"), 1); // the second one
    run_pass(g, "dead again");
    assert_int_equal(count_ops(g, "relu6"), 1);
    assert_int_equal(count_ops(g, "relu_grad"), 3);
    tl_graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(activations_become_part_of_norms, setup, teardown),
        cmocka_unit_test_setup_teardown(what_others_see_stays, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
