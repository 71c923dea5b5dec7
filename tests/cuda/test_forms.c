/* The forms of ops that compiled programs take where kernels have them (graph/join.c) give what the
 * usual ones give: on a GPU with TILTH_DEVICE=cuda, else by the kernels that are texts, as C. */
#include "test.h"

#include <math.h>

#include <tilth/core/attrs.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/sys/graph/program.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/tilth.h>

#include "sanitized.h"
#include "shim.h"

enum { MOST_ELEMENTS = 1 << 21 };

typedef struct fixture {
    tl_engine *engine;
    tl_ctx *c;
} fixture;

static int setup(void **state)
{
    static fixture f;
    const char *device = getenv("TILTH_DEVICE");
    const bool gpu = device && strcmp(device, "cuda") == 0;
    assert_ok(tl_engine_new(&f.engine,
                            &(tl_engine_args){.backend = gpu ? &tl_backend_cuda : shim_backend()}));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tl_ctx_free(&f->c);
    tl_engine_free(&f->engine);
    return 0;
}

static tl_tensor *normal(const fixture *f, tl_shape shape)
{
    return tl_random_normal(f->c, TL_F32, shape, 0, 1);
}

static tl_tensor *drawn(const fixture *f, tl_dtype dtype, tl_shape shape)
{
    return tl_cast(f->c, normal(f, shape), dtype);
}

static void get(const fixture *f, tl_tensor *t, double *out)
{
    assert_ok(tl_ctx_status(f->c));
    assert_true(tl_tensor_count(t) > 0 && tl_tensor_count(t) <= MOST_ELEMENTS);
    assert_ok(tl_tensor_get_doubles(tl_cast(f->c, t, TL_F32), out, tl_tensor_count(t)));
}

static void assert_alike(const fixture *f, tl_tensor *a, tl_tensor *b, double most)
{
    static double x[MOST_ELEMENTS], y[MOST_ELEMENTS];
    double largest = 0;
    assert_int_equal(tl_tensor_count(a), tl_tensor_count(b));
    get(f, a, x);
    get(f, b, y);
    for (int64_t i = 0; i < tl_tensor_count(a); i++) largest = fmax(largest, fabs(x[i]));
    for (int64_t i = 0; i < tl_tensor_count(a); i++)
        if (!(fabs(x[i] - y[i]) <= most * largest))
            fail_msg("element %d is %g and %g, of at most %g", (int)i, x[i], y[i], largest);
}

/* Skips what nobody computes here. */
static void want_forms(const fixture *f, tl_op op, const void *attr, int inputs, tl_tensor **in,
                       tl_tensor **out)
{
    const tl_op_class *class = tl_op_class_of(op);
    const tl_node call = {.op = class,
                          .attr = attr,
                          .inputs = inputs,
                          .outputs = class->outputs,
                          .in = in,
                          .out = out};
    tl_kernel kernel;
    assert_ok(tl_engine_kernel(f->engine, &call, &kernel));
    if (!(kernel.flags & TL_KERNEL_JOINED)) skip();
}

static double room_of(tl_dtype dtype)
{
    return dtype == TL_F32 ? 1e-5 : 0.02;
}

static void attention_gradients(void **state)
{
    const fixture *f = *state;
    static const tl_dtype types[] = {TL_BF16, TL_F32};
    for (int t = 0; t < TL_COUNT(types); t++) {
        tl_tensor *in[6], *out[2], *apart[4], *joined[4];
        const tl_shape shape = TL_SHAPE(2, 64, 4, 32);
        tl_attend_attr attr = {.scale = 0.17, .causal = true};
        in[0] = drawn(f, types[t], shape);
        for (int i = 1; i < 4; i++) in[i] = drawn(f, types[t], shape);
        assert_true(tl_apply_all(f->c, TL_OP_attend, &attr, 3, in + 1, out));
        in[4] = out[0];
        in[5] = out[1];
        assert_true(tl_apply_all(f->c, TL_OP_attend_grad, &attr, 6, in, apart));
        want_forms(f, TL_OP_attend_grad, &attr, 6, in, apart);
        attr.joined = true;
        assert_true(tl_apply_all(f->c, TL_OP_attend_grad, &attr, 6, in, joined));
        for (int i = 0; i < 3; i++)
            assert_alike(f, apart[i], tl_take(f->c, joined[0], 2, i), room_of(types[t]));
    }
}

static void sums_in_products(void **state)
{
    const fixture *f = *state;
    static const tl_dtype types[] = {TL_BF16, TL_F32};
    for (int t = 0; t < TL_COUNT(types); t++) {
        const tl_linear_attr attr = {.activation = TL_ACT_NONE};
        tl_tensor *out[2], *in[] = {
                               drawn(f, types[t], TL_SHAPE(4, 40, 64)),
                               drawn(f, types[t], TL_SHAPE(64, 96)),
                               drawn(f, types[t], TL_SHAPE(96)),
                               drawn(f, types[t], TL_SHAPE(4, 40, 96)),
                           };
        assert_true(tl_apply_all(f->c, TL_OP_linear, &attr, 3, in, out));
        want_forms(f, TL_OP_linear, &attr, 3, in, out);
        tl_tensor *apart = tl_add(f->c, out[0], in[3]);
        assert_true(tl_apply_all(f->c, TL_OP_linear, &attr, 4, in, out));
        assert_alike(f, apart, out[0], room_of(types[t]));
    }
}

static void sums_in_plain_products(void **state)
{
    const fixture *f = *state;
    for (int turned = 0; turned < 2; turned++) {
        const tl_matmul_attr attr = {.transpose_b = turned},
                             with = {.transpose_b = turned, .added = true};
        tl_tensor *out[1], *in[] = {drawn(f, TL_BF16, TL_SHAPE(4, 40, 64)),
                                    drawn(f, TL_BF16, turned ? TL_SHAPE(96, 64) : TL_SHAPE(64, 96)),
                                    drawn(f, TL_BF16, TL_SHAPE(4, 40, 96))};
        assert_true(tl_apply_all(f->c, TL_OP_matmul, &attr, 2, in, out));
        want_forms(f, TL_OP_matmul, &attr, 2, in, out);
        tl_tensor *apart = tl_add(f->c, out[0], in[2]);
        assert_true(tl_apply_all(f->c, TL_OP_matmul, &with, 3, in, out));
        assert_alike(f, apart, out[0], room_of(TL_BF16));
    }
}

static void gelu_behind_products(void **state)
{
    const fixture *f = *state;
    for (int large = 0; large < 2; large++) {
        const tl_matmul_attr attr = {.transpose_b = true},
                             with = {.transpose_b = true, .gelu_grad = true};
        const int64_t m = large ? 512 : 40, n = large ? 1024 : 90, k = large ? 768 : 56;
        tl_tensor *out[1],
            *in[] = {drawn(f, TL_BF16, TL_SHAPE(m, k)), drawn(f, TL_BF16, TL_SHAPE(n, k)),
                     drawn(f, TL_BF16, TL_SHAPE(m, n))};
        assert_true(tl_apply_all(f->c, TL_OP_matmul, &attr, 2, in, out));
        want_forms(f, TL_OP_matmul, &attr, 2, in, out);
        tl_tensor *apart = tl_gelu_grad(f->c, out[0], in[2], true);
        assert_true(tl_apply_all(f->c, TL_OP_matmul, &with, 3, in, out));
        assert_alike(f, apart, out[0], room_of(TL_BF16));
    }
}

static void sums_in_norm_gradients(void **state)
{
    const fixture *f = *state;
    static const tl_dtype types[] = {TL_BF16, TL_F32};
    static const int64_t widths[] = {768, 24, 9000};
    for (int t = 0; t < TL_COUNT(types); t++)
        for (int w = 0; w < TL_COUNT(widths); w++) {
            // groups have several rows then, and fetch them ahead
            const tl_shape shape = TL_SHAPE(widths[w] == 768 ? 1540 : 7, widths[w]);
            const tl_norm_attr attr = {.axes = 1, .epsilon = 1e-5, .scaled = true, .shifted = true};
            tl_tensor *x = drawn(f, types[t], shape), *made[3], *apart[4], *joined[4];
            tl_tensor *gamma = drawn(f, TL_F32, TL_SHAPE(widths[w]));
            assert_true(tl_apply_all(f->c, TL_OP_layer_normalize, &attr, 3,
                                     (tl_tensor *[]){x, gamma, gamma}, made));
            tl_tensor *in[] = {drawn(f, types[t], shape), x, made[1], made[2], gamma,
                               drawn(f, types[t], shape)};
            assert_true(tl_apply_all(f->c, TL_OP_layer_normalize_grad, &attr, 5, in, apart));
            want_forms(f, TL_OP_layer_normalize_grad, &attr, 5, in, apart);
            assert_true(tl_apply_all(f->c, TL_OP_layer_normalize_grad, &attr, 6, in, joined));
            assert_alike(f, tl_add(f->c, apart[0], in[5]), joined[0], room_of(types[t]));
            for (int i = 1; i < 3; i++) assert_alike(f, apart[i], joined[i], 1e-5);
            tl_norm_attr summed = attr;
            summed.summed = true;
            assert_true(tl_apply_all(f->c, TL_OP_layer_normalize_grad, &summed, 6, in, apart));
            for (int i = 0; i < 3; i++) assert_alike(f, apart[i], joined[i], 0);
            assert_alike(f, tl_sum(f->c, tl_cast(f->c, joined[0], TL_F32), TL_AXES(0), false),
                         apart[3], room_of(types[t]));
        }
}

static void wide_products(void **state)
{
    const fixture *f = *state;
    static const tl_dtype types[] = {TL_BF16, TL_F16};
    for (int t = 0; t < TL_COUNT(types); t++) {
        const tl_matmul_attr attr = {.transpose_a = true},
                             wide = {.transpose_a = true, .wide = true};
        tl_tensor *out[1],
            *in[] = {drawn(f, types[t], TL_SHAPE(320, 64)), drawn(f, types[t], TL_SHAPE(320, 96))};
        assert_true(tl_apply_all(f->c, TL_OP_matmul, &attr, 2, in, out));
        want_forms(f, TL_OP_matmul, &attr, 2, in, out);
        tl_tensor *y = tl_apply(f->c, TL_OP_matmul, &wide, 2, in);
        assert_int_equal(y->dtype, TL_F32);
        assert_alike(f, out[0], y, room_of(types[t]));
        assert_alike(f,
                     tl_matmul_with(f->c, tl_cast(f->c, in[0], TL_F32),
                                    tl_cast(f->c, in[1], TL_F32), true, false),
                     y, 1e-5);
    }
}

/* Of filters: as they are, folded, by products. */
static void wide_filter_gradients(void **state)
{
    const fixture *f = *state;
    static const struct {
        int64_t side, in, out, size, stride;
    } cases[] = {{8, 16, 24, 3, 1}, {16, 3, 16, 7, 2}, {32, 3, 16, 3, 1}};
    for (int i = 0; i < (int)TL_COUNT(cases); i++) {
        const int64_t stride = cases[i].stride, pad = cases[i].size / 2;
        const int64_t side = cases[i].side, result = side / stride;
        tl_conv_attr attr = {.stride_y = stride,
                             .stride_x = stride,
                             .dilation_y = 1,
                             .dilation_x = 1,
                             .top = pad,
                             .bottom = pad + 1 - stride, // so that all of it is covered
                             .left = pad,
                             .right = pad + 1 - stride,
                             .groups = 1,
                             .height = cases[i].size,
                             .width = cases[i].size};
        tl_tensor *out[1], *in[] = {drawn(f, TL_BF16, TL_SHAPE(4, side, side, cases[i].in)),
                                    drawn(f, TL_BF16, TL_SHAPE(4, result, result, cases[i].out))};
        assert_true(tl_apply_all(f->c, TL_OP_convolve2d_filter_grad, &attr, 2, in, out));
        want_forms(f, TL_OP_convolve2d_filter_grad, &attr, 2, in, out);
        attr.wide = true;
        tl_tensor *wide = tl_apply(f->c, TL_OP_convolve2d_filter_grad, &attr, 2, in);
        assert_ok(tl_ctx_status(f->c));
        assert_int_equal(wide->dtype, TL_F32);
        assert_alike(f, out[0], wide, room_of(TL_BF16));
    }
}

static void relu_gradients_in_products(void **state)
{
    const fixture *f = *state;
    const tl_matmul_attr attr = {.transpose_b = true};
    tl_tensor *out[1],
        *in[] = {drawn(f, TL_BF16, TL_SHAPE(100, 64)), drawn(f, TL_BF16, TL_SHAPE(90, 64)),
                 drawn(f, TL_BF16, TL_SHAPE(100, 90))};
    assert_true(tl_apply_all(f->c, TL_OP_matmul, &attr, 2, in, out));
    want_forms(f, TL_OP_matmul, &attr, 3, in, out);
    tl_tensor *y = tl_apply(f->c, TL_OP_matmul, &attr, 3, in);
    assert_alike(f, tl_relu_grad(f->c, out[0], in[2]), y, 0);
}

/* The gradient of a bias in front of a norm, in float32: what a program gives, and without it. */
enum { BIASED_ROWS = 90, BIASED_WIDTH = 768 };
static tl_status bias_before_norm(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *bias = tl_tensors_get(c, in, "bias"), *x = tl_tensors_get(c, in, "x"), *slope = NULL;
    tl_tensor *gamma = tl_tensors_get(c, in, "gamma");
    TL_TRY(tl_watch(bias));
    const bool before = tl_ctx_set_taping(c, true);
    tl_tensor *y =
        tl_layer_normalize(c, tl_add(c, x, tl_cast(c, bias, TL_BF16)), gamma, gamma, 1, 1e-5);
    TL_TRY(tl_gradient(c, tl_sum(c, tl_mul(c, y, x), TL_ALL, false), &bias, 1, &slope));
    tl_ctx_set_taping(c, before);
    tl_tensors_put(c, out, "slope", slope);
    return tl_ctx_status(c);
}

static void sums_of_norm_gradients(void **state)
{
    const fixture *f = *state;
    tl_function *program;
    tl_tensors in = {0}, eager = {0}, out = {0};
    assert_ok(tl_function_new(
        &program,
        &(tl_function_args){.engine = f->engine, .name = "biased", .body = bias_before_norm}));
    tl_tensors_put(f->c, &in, "x", drawn(f, TL_BF16, TL_SHAPE(3, BIASED_ROWS / 3, BIASED_WIDTH)));
    tl_tensors_put(f->c, &in, "bias", drawn(f, TL_F32, TL_SHAPE(BIASED_WIDTH)));
    tl_tensors_put(f->c, &in, "gamma", drawn(f, TL_F32, TL_SHAPE(BIASED_WIDTH)));
    assert_ok(bias_before_norm(NULL, f->c, &in, &eager));
    assert_ok(tl_function_call(program, f->c, &in, &out));
    assert_alike(f, tl_tensors_get(f->c, &eager, "slope"), tl_tensors_get(f->c, &out, "slope"),
                 room_of(TL_BF16));
    tl_str text = TL_STR_INIT;
    tl_program_report(tl_function_program(program), NULL, &text);
    assert_null(strstr(tl_str_text(&text), "float32[768]")); // it came with the gradient
    tl_str_deinit(&text);
    tl_function_free(&program);
}

/* The call once more, with the gradients over the logits (graph/reuse.c), which are gone then: the
 * same bits. */
static void expect_over(const fixture *f, tl_op op, const void *attr, int inputs, int logits,
                        tl_tensor **in, tl_tensor **out)
{
    const tl_op_class *class = tl_op_class_of(op);
    const int last = class->outputs - 1;
    const size_t bytes = tl_tensor_bytes(out[last]);
    tl_tensor *over[3];
    for (int i = 0; i < last; i++) over[i] = out[i];
    over[last] = in[logits];
    const tl_node call = {.op = class,
                          .attr = attr,
                          .inputs = inputs,
                          .outputs = class->outputs,
                          .in = in,
                          .out = over};
    tl_kernel kernel;
    assert_ok(tl_engine_kernel(f->engine, &call, &kernel));
    assert_true(kernel.flags & TL_KERNEL_OVER);
    assert_ok(tl_engine_run(f->engine, &(tl_draws){0}, &call));
    char *made = tl_alloc(2 * bytes);
    assert_non_null(made);
    assert_ok(tl_tensor_get(out[last], made, bytes));
    assert_ok(tl_tensor_get(over[last], made + bytes, bytes));
    assert_memory_equal(made, made + bytes, bytes);
    tl_free(made);
}

static void losses_with_gradients(void **state)
{
    const fixture *f = *state;
    static const tl_dtype types[] = {TL_BF16, TL_F32};
    static const int64_t widths[] = {10, 1000, 20008}; // the last ones' rows come ahead
    for (int t = 0; t < TL_COUNT(types); t++)
        for (int w = 0; w < TL_COUNT(widths); w++) {
            const int64_t rows = w == 2 ? 5 : 20;
            const tl_entropy_attr attr = {.smoothing = w == 1 ? 0.1 : 0,
                                          .ignored = {.set = w, .value = 3}};
            tl_tensor *apart[3], *joined[3];
            tl_tensor *in[] = {tl_random_integers(f->c, TL_I64, TL_SHAPE(rows), 0, widths[w]),
                               drawn(f, types[t], TL_SHAPE(rows, widths[w])),
                               tl_full(f->c, TL_F32, TL_SHAPE(rows), 0.05)};
            assert_true(tl_apply_all(f->c, TL_OP_sparse_cross_entropy, &attr, 2, in, apart));
            want_forms(f, TL_OP_sparse_cross_entropy, &attr, 2, in, apart);
            tl_tensor *slope = tl_apply(f->c, TL_OP_sparse_cross_entropy_grad, &attr, 4,
                                        (tl_tensor *[]){in[2], in[0], in[1], apart[1]});
            assert_true(tl_apply_all(f->c, TL_OP_sparse_cross_entropy, &attr, 3, in, joined));
            for (int i = 0; i < 2; i++) assert_alike(f, apart[i], joined[i], 1e-6);
            assert_alike(f, slope, joined[2], room_of(types[t]));
            tl_tensor *logits = in[1], *copy = tl_affine(f->c, logits, 1, 0);
            in[1] = copy;
            expect_over(f, TL_OP_sparse_cross_entropy, &attr, 3, 1, in, joined);
            expect_over(f, TL_OP_sparse_cross_entropy_grad, &attr, 4, 2,
                        (tl_tensor *[]){in[2], in[0], logits, apart[1]}, &slope);
        }
}

/* A number of classes that products take badly: programs put some in, and nobody sees them. */
enum { CLASSES = 1030, HIDDEN = 64 };
static tl_status loss_of_classes(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *x = tl_tensors_get(c, in, "x"), *table = tl_tensors_get(c, in, "table");
    tl_tensor *watched[] = {x, table}, *slopes[2] = {NULL};
    for (int i = 0; i < 2; i++) TL_TRY(tl_watch(watched[i]));
    const bool before = tl_ctx_set_taping(c, true);
    tl_tensor *scores = tl_matmul_with(c, x, table, false, true);
    tl_tensor *losses = tl_sparse_cross_entropy(c, tl_tensors_get(c, in, "labels"),
                                                tl_reshape(c, scores, TL_SHAPE(-1, CLASSES)));
    tl_tensor *loss = tl_mean(c, losses, TL_ALL, false);
    TL_TRY(tl_gradient(c, loss, watched, 2, slopes));
    tl_ctx_set_taping(c, before);
    tl_tensors_put(c, out, "losses", losses);
    tl_tensors_put(c, out, "x", slopes[0]);
    tl_tensors_put(c, out, "table", tl_square(c, slopes[1]));
    return tl_ctx_status(c);
}

static void classes_put_in(void **state)
{
    static const char *const names[] = {"losses", "x", "table"};
    const fixture *f = *state;
    tl_function *program;
    tl_tensors in = {0}, eager = {0}, out = {0};
    assert_ok(tl_function_new(
        &program,
        &(tl_function_args){.engine = f->engine, .name = "classes", .body = loss_of_classes}));
    tl_tensors_put(f->c, &in, "x", drawn(f, TL_BF16, TL_SHAPE(6, 9, HIDDEN)));
    tl_tensors_put(f->c, &in, "table", drawn(f, TL_BF16, TL_SHAPE(CLASSES, HIDDEN)));
    tl_tensors_put(f->c, &in, "labels",
                   tl_random_integers(f->c, TL_I64, TL_SHAPE(6 * 9), 0, CLASSES));
    assert_ok(loss_of_classes(NULL, f->c, &in, &eager));
    for (int i = 0; i < 2; i++) assert_ok(tl_function_call(program, f->c, &in, &out));
    for (int i = 0; i < 3; i++)
        assert_alike(f, tl_tensors_get(f->c, &eager, names[i]),
                     tl_tensors_get(f->c, &out, names[i]), room_of(TL_BF16));
    tl_str text = TL_STR_INIT;
    tl_program_report(tl_function_program(program), NULL, &text);
    assert_non_null(strstr(tl_str_text(&text), "1032")); // they are there
    tl_str_deinit(&text);
    tl_function_free(&program);
}

/* So many long rows that a group of threads has several, and fetches the next one meanwhile. */
static void losses_of_many_rows(void **state)
{
    enum { WIDTH = 16392, SEEN = 60 };
    const int64_t rows = test_takes_unseen() ? 2050 : 130;
    const fixture *f = *state;
    const tl_entropy_attr attr = {.ignored = {.set = true, .value = 3}};
    tl_tensor *apart[3], *joined[3];
    tl_tensor *in[] = {
        tl_random_integers(f->c, TL_I32, TL_SHAPE(rows), 0, WIDTH),
        tl_cast(f->c, tl_mul(f->c, normal(f, TL_SHAPE(rows, 1)), normal(f, TL_SHAPE(WIDTH))),
                TL_BF16),
        normal(f, TL_SHAPE(rows))};
    assert_true(tl_apply_all(f->c, TL_OP_sparse_cross_entropy, &attr, 2, in, apart));
    want_forms(f, TL_OP_sparse_cross_entropy, &attr, 2, in, apart);
    tl_tensor *slope = tl_apply(f->c, TL_OP_sparse_cross_entropy_grad, &attr, 4,
                                (tl_tensor *[]){in[2], in[0], in[1], apart[1]});
    assert_true(tl_apply_all(f->c, TL_OP_sparse_cross_entropy, &attr, 3, in, joined));
    for (int i = 0; i < 2; i++) assert_alike(f, apart[i], joined[i], 1e-6);
    for (int i = 0; i < 2; i++) { // the first ones and the last ones
        const int64_t from = i ? rows - SEEN : 0;
        assert_alike(f, tl_slice(f->c, slope, 0, from, from + SEEN, 1),
                     tl_slice(f->c, joined[2], 0, from, from + SEEN, 1), room_of(TL_BF16));
    }
    expect_over(f, TL_OP_sparse_cross_entropy, &attr, 3, 1, in, joined);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(attention_gradients, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_in_products, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_in_plain_products, setup, teardown),
        cmocka_unit_test_setup_teardown(gelu_behind_products, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_in_norm_gradients, setup, teardown),
        cmocka_unit_test_setup_teardown(wide_products, setup, teardown),
        cmocka_unit_test_setup_teardown(wide_filter_gradients, setup, teardown),
        cmocka_unit_test_setup_teardown(relu_gradients_in_products, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_of_norm_gradients, setup, teardown),
        cmocka_unit_test_setup_teardown(losses_with_gradients, setup, teardown),
        cmocka_unit_test_setup_teardown(losses_of_many_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(classes_put_in, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
