/* Products and gradients of filters in half precision that become float32 at once (graph/join.c),
 * where kernels can give that. */
#include "graph/graph_test.h"

#include <tilth/core/attrs.h>
#include <tilth/sys/ops/apply.h>

static tl_status never(const tl_run *run, const tl_node *call)
{
    (void)run, (void)call;
    return TL_FAIL(TL_EINTERNAL, "the graph is looked at, not run");
}

static int setup_wide(void **state)
{
    static const tl_kernel rows[] = {
        {TL_OP_matmul, TL_BF16, never, TL_KERNEL_JOINED},
        {TL_OP_convolve2d_filter_grad, TL_BF16, never, TL_KERNEL_JOINED}};
    static const tl_kernels kernels = {rows, TL_COUNT(rows)}, *const tables[] = {&kernels, NULL};
    static tl_backend_class wide = {.cls = {.class_size = sizeof(tl_backend_class), .name = "wide"},
                                    .tables = tables};
    static fixture f;
    assert_ok(tl_cpu_backend(&wide.fallback));
    assert_ok(tl_engine_new(&f.engine, &(tl_engine_args){.backend = &wide, .threads = 1}));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    f.mark = tl_ctx_begin(f.c);
    *state = &f;
    return 0;
}

/* self: groups of channels. */
BODY(gradients)
{
    UNUSED_BODY_ARGS;
    const tl_conv_attr attr = {.stride_y = 1,
                               .stride_x = 1,
                               .dilation_y = 1,
                               .dilation_x = 1,
                               .groups = *(const int64_t *)self,
                               .height = 1,
                               .width = 2};
    tl_tensor *half = tl_cast(c, x, TL_BF16);
    tl_tensor *in[] = {tl_reshape(c, half, TL_SHAPE(1, 4, 3, 2)),
                       tl_cast(c, tl_full(c, TL_F32, TL_SHAPE(1, 4, 2, 2), 1), TL_BF16)};
    tl_tensor *filter = tl_apply(c, TL_OP_convolve2d_filter_grad, &attr, 2, in);
    tl_tensors_put(c, out, "filter", tl_cast(c, filter, TL_F32));
    tl_tensors_put(c, out, "matrix",
                   tl_cast(c, tl_matmul_with(c, half, half, true, false), TL_F32));
}

/* Of those that become float32; groups of channels are left to kernels that have no such form. */
static void what_becomes_float32_is_made_so(void **state)
{
    static const struct {
        int64_t groups, joined;
    } cases[] = {{1, 2}, {2, 1}};
    for (int i = 0; i < (int)TL_COUNT(cases); i++) {
        int64_t groups = cases[i].groups;
        tl_graph *g = captured(*state, gradients, &groups);
        const int64_t before = count_ops(g, "cast");
        assert_int_equal(run_pass(g, "join"), cases[i].joined);
        assert_int_equal(before - count_ops(g, "cast"), cases[i].joined);
        assert_ok(tl_graph_verify(g));
        tl_graph_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_becomes_float32_is_made_so, setup_wide, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
