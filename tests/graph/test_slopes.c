/* Slopes of activations that are handed out by the products before them. */
#include "graph/graph_test.h"

/* The slope of the one product is all that is read of its sum; the sum of the other is read twice.
 */
BODY(with_slopes)
{
    UNUSED_BODY_ARGS;
    const tl_dtype dtype = *(const tl_dtype *)self;
    tl_tensor *w = tl_full(c, dtype, TL_SHAPE(6, 3), 0.5), *b = tl_full(c, dtype, TL_SHAPE(3), 1);
    for (int twice = 0; twice < 2; twice++) {
        const tl_linear_attr attr = {.activation = TL_ACT_GELU_TANH, .keep_sum = true};
        tl_tensor *in[] = {tl_cast(c, twice ? y : x, dtype), w, b}, *made[2];
        if (!tl_apply_all(c, TL_OP_linear, &attr, 3, in, made)) return;
        tl_tensors_put(c, out, twice ? "q" : "p", made[0]);
        tl_tensors_put(c, out, twice ? "s" : "r",
                       tl_gelu_grad(c, tl_cos(c, made[0]), made[1], true));
        if (twice) tl_tensors_put(c, out, "t", tl_exp(c, made[1]));
    }
}

static void slopes_are_handed_out_where_they_are_all_that_is_read(void **state)
{
    static const tl_dtype dtypes[] = {TL_BF16, TL_F16, TL_F32};
    for (int i = 0; i < TL_COUNT(dtypes); i++) {
        const int64_t made = dtypes[i] != TL_F32;
        tl_graph *g = captured(*state, with_slopes, (void *)(uintptr_t)&dtypes[i]);
        assert_int_equal(run_pass(g, "slopes"), made);
        assert_int_equal(count_ops(g, "linear"), 2);
        assert_int_equal(count_ops(g, "gelu_grad"), 2 - made);
        assert_int_equal(count_ops(g, "mul"), made);
        tl_graph_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(slopes_are_handed_out_where_they_are_all_that_is_read,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
