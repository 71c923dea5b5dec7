/* Which calls of a list run beside others, and what is turned early (cuda/lanes.h), by a driver
 * that is none (fake/cuda). needs: no sanitizer */
#include "test.h"

#include <stdlib.h>

#include <tilth/core/attrs.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/tilth.h>

#include "core/inner/engine.h"
#include "cuda/lanes.h"

typedef struct fixture {
    tl_engine *engine;
    tl_ctx *c;
    tli_cuda_queue *q;
    CUstream main;
} fixture;

static int setup(void **state)
{
    static fixture f;
    setenv("TILTH_CUDA_PATH", FAKE_CUDA_FOLDER, 1);
    assert_ok(tl_engine_new(&f.engine, &(tl_engine_args){.backend = &tl_backend_cuda}));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    f.q = tli_cuda_queue_of(f.engine->queue);
    f.main = f.q->stream;
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

static tl_tensor *made(const fixture *f, int64_t count)
{
    tl_tensor *t = tl_zeros(f->c, TL_F32, TL_SHAPE(count));
    assert_ok(tl_ctx_status(f->c));
    return t;
}

/* out = op(a, b); whether it runs beside. An average has no result: it changes a. */
static bool goes_aside(const fixture *f, tl_op op, tl_tensor *a, tl_tensor *b, tl_tensor *out)
{
    tl_tensor *in[] = {a, b}, *outs[] = {out};
    const tl_node call = {
        .op = tl_op_class_of(op), .inputs = 2, .outputs = out ? 1 : 0, .in = in, .out = outs};
    assert_ok(tli_cuda_lanes_call(f->q, &call, NULL, 0));
    const bool aside = f->q->stream != f->main;
    assert_ok(tli_cuda_lanes_called(f->q));
    return aside;
}

static void what_is_needed_late_runs_beside(void **state)
{
    const fixture *f = *state;
    tl_tensor *x = made(f, 64), *y = made(f, 64), *z = made(f, 64), *g = made(f, 64),
              *wide = made(f, 64), *large = made(f, 16 << 20);
    assert_ok(tli_cuda_lanes_begin(f->q));
    assert_false(goes_aside(f, TL_OP_add, x, x, y));
    assert_true(goes_aside(f, TL_OP_update_ema, z, y, NULL));
    assert_true(goes_aside(f, TL_OP_convolve2d_filter_grad, x, y, g));
    assert_false(goes_aside(f, TL_OP_convolve2d_filter_grad, x, large, x)); // it fills a GPU
    assert_true(goes_aside(f, TL_OP_add, g, g, wide));                      // made of that alone
    assert_false(goes_aside(f, TL_OP_add, wide, y, wide));                  // and of something else
    assert_false(goes_aside(f, TL_OP_add, x, x, y)); // others read there: it waits for them
    assert_ok(tli_cuda_lanes_end(f->q));
    assert_ptr_equal(f->q->stream, f->main);
    assert_null(f->q->lanes);
}

static tli_early turn(const fixture *f, const tl_tensor *t, char **place)
{
    tli_early how;
    assert_ok(tli_cuda_turn(f->q, tl_kernel_data(t), tl_tensor_bytes(t), 8, 8, place, &how));
    if (how != TLI_TURN_NOW) return how;
    assert_ptr_not_equal(f->q->stream, f->main);
    assert_ok(tli_cuda_turned(f->q));
    assert_ptr_equal(f->q->stream, f->main);
    return how;
}

static void filters_are_turned_once(void **state)
{
    const fixture *f = *state;
    tl_tensor *w = made(f, 64), *v = made(f, 64);
    char *first, *again;
    assert_int_equal(turn(f, w, &first), TLI_NOT_EARLY); // no list is made
    assert_ok(tli_cuda_lanes_begin(f->q));
    assert_int_equal(turn(f, w, &first), TLI_TURN_NOW);
    assert_int_equal(turn(f, w, &again), TLI_TURNED);
    assert_ptr_equal(first, again);
    assert_int_equal(turn(f, v, &again), TLI_TURN_NOW);
    assert_ptr_not_equal(first, again);
    assert_false(goes_aside(f, TL_OP_add, v, v, w));
    assert_int_equal(turn(f, w, &again), TLI_NOT_EARLY); // it is another one now
    assert_ok(tli_cuda_lanes_end(f->q));
    assert_ok(tli_cuda_lanes_begin(f->q)); // the next list turns it anew
    assert_int_equal(turn(f, w, &again), TLI_TURN_NOW);
    assert_ptr_equal(first, again);
    assert_ok(tli_cuda_lanes_end(f->q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_needed_late_runs_beside, setup, teardown),
        cmocka_unit_test_setup_teardown(filters_are_turned_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
