/* ONNX files: the bytes are those of the library `onnx` (tests/golden/onnx.py), names of weights
 * and layouts; what cannot be written is refused by name. What files compute is compared with ONNX
 * Runtime by tests/interop/check_onnx.py. */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <tilth/io/onnx.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/conv.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

static tl_engine *engine;
static tl_tensor *kernel, *bias;
static tl_state *weights;

static int setup(void **state)
{
    static const double k[] = {1, -2, 3, -4, 5, 6.5}, b[] = {0.5, -0.25};
    engine = open_engine();
    assert_ok(tl_tensor_new(&kernel, engine, TL_F32, TL_SHAPE(3, 2)));
    assert_ok(tl_tensor_set_doubles(kernel, k, TL_COUNT(k)));
    assert_ok(tl_tensor_new(&bias, engine, TL_F32, TL_SHAPE(2)));
    assert_ok(tl_tensor_set_doubles(bias, b, TL_COUNT(b)));
    assert_ok(tl_state_new(&weights));
    assert_ok(tl_state_put(weights, "dense/kernel", kernel));
    assert_ok(tl_state_put(weights, "dense/bias", bias));
    return make_folder(state);
}

static int teardown(void **state)
{
    tl_state_free(&weights);
    tl_tensor_free(&kernel);
    tl_tensor_free(&bias);
    close_engine(&engine);
    return remove_folder(state);
}

static tl_status dense(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *y = tl_linear(c, tl_tensors_get(c, in, "x"), kernel, bias, TL_ACT_NONE);
    (void)tl_exp(c, y); // nobody needs it
    tl_tensors_put(c, out, "y", tl_elu(c, y, 1));
    return tl_ctx_status(c);
}

static tl_status write_body(const char *path, tl_graph_fn *body, tl_shape shape)
{
    static const tl_onnx_note notes[] = {{"step", "7"}};
    tl_spec x = {"x", TL_F32, shape};
    return tl_onnx_write(path, &(tl_onnx_args){.engine = engine,
                                               .body = body,
                                               .inputs = &x,
                                               .input_count = 1,
                                               .weights = weights,
                                               .notes = notes,
                                               .note_count = TL_COUNT(notes)});
}

static void test_the_bytes(void **state)
{
    (void)state;
    char *ours, *theirs;
    size_t our_size, their_size;
    const char *path = in_folder("small.onnx");
    assert_ok(write_body(path, dense, TL_SHAPE(1, 3)));
    assert_ok(tl_file_read(&ours, &our_size, path, 1 << 16));
    assert_ok(tl_file_read(&theirs, &their_size, TEST_DATA "/golden/small.onnx", 1 << 16));
    assert_int_equal(our_size, their_size);
    assert_memory_equal(ours, theirs, our_size);
    tl_free(ours);
    tl_free(theirs);
}

static tl_status write_dense(void)
{
    return write_body(in_folder("failing.onnx"), dense, TL_SHAPE(1, 3));
}

static void test_no_memory(void **state)
{
    (void)state;
    assert_survives_failures(write_dense, 20);
}

/* --- layouts ---------------------------------------------------------------------------------- */

/* Two convolutions by one filter; `kernel` is seen as [1, 1, 3, 2] and then turned. */
static tl_status convolutions(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *x = tl_tensors_get(c, in, "x");
    tl_tensor *filters = tl_reshape(c, kernel, TL_SHAPE(1, 1, 3, 2));
    tl_tensor *y = tl_add(c, tl_convolve2d(c, x, filters), bias);
    y = tl_add(c, tl_relu(c, y), tl_convolve2d(c, x, filters));
    tl_tensors_put(c, out, "y", tl_mean(c, y, TL_AXES(1, 2), false));
    return tl_ctx_status(c);
}

static int64_t count_in(const char *bytes, size_t size, const char *word)
{
    int64_t count = 0;
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++) count += memcmp(bytes + i, word, length) == 0;
    return count;
}

static void test_channels_come_first_once(void **state)
{
    (void)state;
    static const float turned[] = {1, 3, 5, -2, -4, 6.5F};
    char *bytes;
    size_t size;
    assert_ok(write_body(in_folder("conv.onnx"), convolutions, TL_SHAPE(1, 4, 4, 3)));
    assert_ok(tl_file_read(&bytes, &size, in_folder("conv.onnx"), 1 << 16));
    assert_int_equal(count_in(bytes, size, "\"\tTranspose"), 1); // op_type of one node
    assert_int_equal(count_in(bytes, size, "\"\4Conv"), 2);
    assert_int_equal(count_in(bytes, size, "Reshape"), 0);
    assert_int_equal(count_in(bytes, size, "B\23dense/kernel/turned"), 1); // name of a constant
    bool there = false;
    for (size_t i = 0; i + sizeof turned <= size; i++)
        there = there || memcmp(bytes + i, turned, sizeof turned) == 0;
    assert_true(there);
    tl_free(bytes);
}

/* --- refusals --------------------------------------------------------------------------------- */

static tl_status draws(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *x = tl_tensors_get(c, in, "x");
    tl_ctx_enter(c, "noise");
    tl_tensor *noise = tl_random_uniform(c, TL_F32, TL_SHAPE(3), 0, 1);
    tl_ctx_leave(c);
    tl_tensors_put(c, out, "y", tl_add(c, x, noise));
    return tl_ctx_status(c);
}

static tl_status first_half(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *x = tl_tensors_get(c, in, "x");
    tl_tensors_put(c, out, "y", tl_slice(c, x, 0, 1, TL_OPEN, 1));
    return tl_ctx_status(c);
}

static tl_status by_count(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *x = tl_tensors_get(c, in, "x");
    tl_tensors_put(c, out, "y", tl_scale(c, x, x ? 1.0 / (double)x->shape.dims[0] : 1));
    return tl_ctx_status(c);
}

static tl_status several(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensors_put(c, out, "y", tl_reshape(c, tl_tensors_get(c, in, "x"), TL_SHAPE(-1)));
    return tl_ctx_status(c);
}

static void refused(tl_graph_fn *body, const char *message)
{
    const char *path = in_folder("refused.onnx");
    assert_fails(write_body(path, body, TL_SHAPE(1, 3)), TL_EUNSUPPORTED, message);
    assert_false(tl_file_exists(path));
}

static void test_what_has_no_form(void **state)
{
    (void)state;
    refused(draws, "noise: the op 'random_uniform' cannot be written as ONNX");
    refused(first_half, "the op 'slice' cannot be written as ONNX: it cuts along the examples");
    refused(by_count, "the op 'affine' cannot be written as ONNX: it depends on the number");
    refused(several, "'y' has an axis that is a multiple of the number of examples");
    assert_fails(write_body(in_folder("refused.onnx"), dense, TL_SCALAR), TL_EINVAL,
                 "the input 'x' has no axis of examples");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bytes),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_channels_come_first_once),
        cmocka_unit_test(test_what_has_no_form),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
