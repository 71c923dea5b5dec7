/* Which calls of a list run beside others, and what is turned early (cuda/lanes.h), by a driver
 * that is none (fake/cuda). needs: no sanitizer */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/core/attrs.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/tilth.h>

#include "core/inner/engine.h"
#include "core/inner/storage.h"
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
    tl_tensor *x = made(f, 64), *y = made(f, 64), *z = made(f, 5000), *g = made(f, 64),
              *wide = made(f, 64), *large = made(f, 16 << 20), *value = made(f, 5000);
    assert_ok(tli_cuda_lanes_begin(f->q));
    assert_false(goes_aside(f, TL_OP_add, x, x, y));
    assert_true(goes_aside(f, TL_OP_update_ema, z, value, NULL));
    assert_true(goes_aside(f, TL_OP_convolve2d_filter_grad, x, y, g));
    assert_false(goes_aside(f, TL_OP_convolve2d_filter_grad, x, large, x)); // it fills a GPU
    assert_true(goes_aside(f, TL_OP_add, g, g, wide));                      // made of that alone
    assert_false(goes_aside(f, TL_OP_add, wide, y, wide));                  // and of something else
    assert_false(goes_aside(f, TL_OP_add, x, x, y)); // others read there: it waits for them
    assert_ok(tli_cuda_lanes_end(f->q));
    assert_ptr_equal(f->q->stream, f->main);
    assert_null(f->q->lanes);
}

/* --- what the second lane waits for ----------------------------------------------------------- */

static struct {
    CUevent recorded, awaited; /* the last ones */
    int events;
} seen;

static CUresult create(CUevent *event, unsigned flags) // the fake driver's are all one
{
    static char events[64];
    (void)flags;
    assert_true(seen.events < (int)sizeof events);
    *event = (CUevent)&events[seen.events++];
    return CUDA_SUCCESS;
}

static CUresult destroy(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
    (void)stream;
    seen.recorded = event;
    return CUDA_SUCCESS;
}

static CUresult await(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream, (void)flags;
    seen.awaited = event;
    return CUDA_SUCCESS;
}

static void lanes_wait_for_what_they_need(void **state)
{
    const fixture *f = *state;
    tli_cuda *device = tli_cuda_of(f->q->base.device);
    tli_cuda_api api = *device->api;
    tl_tensor *x = made(f, 64), *y = made(f, 64), *z = made(f, 64), *g = made(f, 64);
    const tl_device_class *moves = f->q->base.device->cls;
    const tli_cuda_api *own = device->api;
    api.cuEventCreate = create;
    api.cuEventDestroy_v2 = destroy;
    api.cuEventRecord = record;
    api.cuStreamWaitEvent = await;
    device->api = &api;
    assert_ok(tli_cuda_lanes_begin(f->q));
    const CUevent begin = seen.recorded;
    assert_true(goes_aside(f, TL_OP_convolve2d_filter_grad, x, x, g)); // which nobody has written
    assert_ptr_equal(seen.awaited, begin);
    assert_false(goes_aside(f, TL_OP_add, x, x, y));
    const CUevent written = seen.recorded;
    assert_false(goes_aside(f, TL_OP_add, x, x, z));
    assert_true(goes_aside(f, TL_OP_convolve2d_filter_grad, x, y, g)); // beside the last one
    const CUevent made_g = seen.recorded;
    assert_ptr_equal(seen.awaited, written);
    // of a fill nobody knows what it is for: it comes behind all, and all comes behind it
    assert_ok(moves->fill(&f->q->base, tli_data(z), 0, 8));
    assert_ptr_equal(seen.awaited, made_g);
    assert_true(goes_aside(f, TL_OP_convolve2d_filter_grad, x, x, g));
    assert_ptr_not_equal(seen.awaited, made_g);
    assert_ptr_not_equal(seen.awaited, written);
    assert_ok(tli_cuda_lanes_end(f->q));
    device->api = own;
}

/* --- averages --------------------------------------------------------------------------------- */

/* Whether a kernel of this name was made. */
static bool has_kernel(const fixture *f, const char *name)
{
    const tl_map *all = &tli_cuda_of(f->q->base.device)->kernels;
    for (int64_t i = 0; i < tl_map_count(all); i++)
        if (strncmp(tl_map_key(all, i), name, strlen(name)) == 0) return true;
    return false;
}

static void average(const fixture *f, tl_tensor *of, tl_tensor *value)
{
    const tli_average row = {.w = tli_data(of), .value = tli_data(value), .count = 64};
    assert_false(goes_aside(f, TL_OP_update_ema, of, value, NULL));
    assert_ok(tli_cuda_lanes_average(f->q, &row));
}

static void small_averages_wait_for_each_other(void **state)
{
    const fixture *f = *state;
    tl_tensor *x = made(f, 64), *y = made(f, 64), *z = made(f, 64), *other = made(f, 64);
    assert_ok(tli_cuda_lanes_begin(f->q));
    average(f, x, y);
    average(f, z, y);
    assert_false(goes_aside(f, TL_OP_add, y, y, other)); // which reads what they read
    assert_false(has_kernel(f, "averages"));
    assert_false(goes_aside(f, TL_OP_add, other, other, y)); // and they must have it before
    assert_true(has_kernel(f, "averages"));
    assert_int_equal(tl_map_count(&tli_cuda_of(f->q->base.device)->tables), 1);
    average(f, x, y);
    assert_ok(tli_cuda_lanes_end(f->q)); // at the latest here
    assert_int_equal(tl_map_count(&tli_cuda_of(f->q->base.device)->tables), 2);
    assert_ptr_equal(f->q->stream, f->main);
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
        cmocka_unit_test_setup_teardown(lanes_wait_for_what_they_need, setup, teardown),
        cmocka_unit_test_setup_teardown(small_averages_wait_for_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(filters_are_turned_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
