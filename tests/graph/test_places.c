/* Gradients of pooling that are told which elements were the largest (graph/join.c), where kernels
 * can say so: the image is not kept then. */
#include <tilth/ops/gradient.h>
#include <tilth/ops/pool.h>
#include <tilth/sys/graph/program.h>

#include "cpu/ref/ref.h"
#include "graph/graph_test.h"

enum { COUNT = 24 }; // numbers of an image

static tl_status find(const tl_run *run, const tl_node *call)
{
    const tl_kernels *all = &tli_ref_pool;
    for (int64_t i = 0; i < all->count; i++)
        if (all->rows[i].op == call->op->op) return all->rows[i].fn(run, call);
    return TL_FAIL(TL_EINTERNAL, "the reference lacks it");
}

/* With a kernel that says so; it is the reference. */
static int setup_places(void **state)
{
    static const tl_kernel rows[] = {{TL_OP_max_pool2d_places, TL_F32, find, TL_KERNEL_JOINED}};
    static const tl_kernels kernels = {rows, TL_COUNT(rows)}, *const tables[] = {&kernels, NULL};
    static tl_backend_class with = {
        .cls = {.class_size = sizeof(tl_backend_class), .name = "places"}, .tables = tables};
    static fixture f;
    assert_ok(tl_cpu_backend(&with.fallback));
    assert_ok(tl_engine_new(&f.engine, &(tl_engine_args){.backend = &with, .threads = 1}));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    f.mark = tl_ctx_begin(f.c);
    *state = &f;
    return 0;
}

/* What pools, and whether somebody reads the image behind that. */
typedef struct pools {
    int64_t size;
    bool read_later;
} pools;

BODY(pooled)
{
    UNUSED_BODY_ARGS;
    const pools *how = self;
    tl_tensor *flat = tl_reshape(c, x, TL_SHAPE(1, 4, 3, 2)), *g;
    // The gradient of relu reads what it has given; that of a factor reads nothing.
    tl_tensor *image = how->read_later ? tl_relu(c, flat) : tl_scale(c, flat, 3);
    tl_tensor *small =
        tl_max_pool2d(c, image, .size = {how->size}, .stride = {1, 2}, .padding = TL_SAME);
    tl_tensor *loss = tl_sum(c, tl_square(c, small), TL_ALL, false);
    if (tl_gradient(c, loss, &x, 1, &g) == TL_OK) tl_tensors_put(c, out, "g", g);
}

static void images_that_nobody_reads_are_not_kept(void **state)
{
    static const struct {
        pools how;
        int64_t joined;
    } cases[] = {{{2, false}, 1}, {{3, false}, 1}, {{2, true}, 0}, {{17, false}, 0}};
    for (int i = 0; i < (int)TL_COUNT(cases); i++) {
        pools how = cases[i].how;
        tl_graph *g = captured(*state, pooled, &how);
        assert_int_equal(run_pass(g, "join"), cases[i].joined);
        assert_int_equal(count_ops(g, "max_pool2d_places"), cases[i].joined);
        assert_int_equal(count_ops(g, "max_pool2d_grad"), 1);
        assert_ok(tl_graph_verify(g));
        tl_graph_free(&g);
    }
}

static void nobody_else_tells_places(void **state)
{
    pools how = {2, false};
    tl_graph *g = captured(*state, pooled, &how);
    assert_int_equal(run_pass(g, "join"), test_wants_gpu()); // whose kernels can
    tl_graph_free(&g);
}

static void gradients_by_places_have_the_same_bits(void **state)
{
    fixture *f = *state;
    for (int64_t size = 1; size <= 4; size++) {
        pools how = {size, false};
        tl_function *program;
        tl_tensors in = {0}, eager = {0}, out = {0};
        float numbers[COUNT]; // whose sums are exact, in any order
        for (int i = 0; i < COUNT; i++) numbers[i] = (float)(i * 7 % 23 - 11) / 4;
        tl_tensor *x = tl_from(f->c, TL_F32, TL_SHAPE(4, 6), numbers);
        double is[COUNT], should[COUNT];
        assert_ok(tl_watch(x));
        tl_tensors_put(f->c, &in, "x", x);
        tl_tensors_put(f->c, &in, "y", x);
        assert_ok(tl_function_new(
            &program, &(tl_function_args){.engine = f->engine, .body = pooled, .self = &how}));
        assert_ok(tl_function_call(program, f->c, &in, &out));
        const bool before = tl_ctx_set_taping(f->c, true);
        assert_ok(pooled(&how, f->c, &in, &eager));
        tl_ctx_set_taping(f->c, before);
        assert_int_equal(
            count_ops(tl_program_graph(tl_function_program(program)), "max_pool2d_places"), 1);
        assert_ok(tl_tensor_get_doubles(tl_tensors_peek(&out, "g"), is, COUNT));
        assert_ok(tl_tensor_get_doubles(tl_tensors_peek(&eager, "g"), should, COUNT));
        assert_memory_equal(is, should, sizeof is);
        tl_function_free(&program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(images_that_nobody_reads_are_not_kept, setup_places,
                                        teardown),
        cmocka_unit_test_setup_teardown(nobody_else_tells_places, setup, teardown),
        cmocka_unit_test_setup_teardown(gradients_by_places_have_the_same_bits, setup_places,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
