/* Queues whose kernels meet (cuda/meetings.c), by a driver that is none (fake/cuda): whom a new one
 * waits for, and which GPU its kernels are for then. needs: no sanitizer */
#include "test.h"

#include <stdlib.h>

#include <tilth/sys/cuda/cuda.h>
#include <tilth/tilth.h>

#include "core/inner/engine.h"
#include "cuda/device.h"

static struct {
    CUcontext current, launched; /* now, and when the last kernel came */
    int waits;
    tl_queue *coming; /* begins to meet when an event goes */
} seen;

static CUresult enter(CUcontext context)
{
    seen.current = context;
    return CUDA_SUCCESS;
}

static CUresult launch(const CUlaunchConfig *how, CUfunction kernel, void **parameters,
                       void **extra)
{
    (void)how, (void)kernel, (void)parameters, (void)extra;
    seen.launched = seen.current;
    return CUDA_SUCCESS;
}

static CUresult await(CUevent event)
{
    (void)event;
    seen.waits++;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUevent event)
{
    (void)event;
    if (seen.coming) assert_ok(tli_cuda_may_meet(seen.coming));
    return CUDA_SUCCESS;
}

static tl_engine *engines[2];
static tl_queue *queues[2];

/* Two engines, as if each had a GPU of its own. */
static int open_engines(void **state)
{
    static char contexts[2];
    static tli_cuda_api api;
    (void)state;
    setenv("TILTH_CUDA_PATH", FAKE_CUDA_FOLDER, 1);
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_engine_new(&engines[i], &(tl_engine_args){.backend = &tl_backend_cuda}));
        queues[i] = engines[i]->queue;
        tli_cuda *d = tli_cuda_of(queues[i]->device);
        if (i == 0) api = *d->api;
        d->api = &api;
        d->context = (CUcontext)&contexts[i];
    }
    assert_ptr_not_equal(queues[0]->device, queues[1]->device);
    api.cuCtxSetCurrent = enter;
    api.cuLaunchKernelEx = launch;
    api.cuEventSynchronize = await;
    api.cuEventDestroy_v2 = destroy;
    return 0;
}

static int close_engines(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) tl_engine_free(&engines[i]);
    return 0;
}

/* As a program that is one kernel does. */
static void meet(tl_queue *q)
{
    const tli_cuda *d = tli_cuda_of(q->device);
    assert_ok(tli_cuda_enter(d));
    assert_ok(tli_cuda_launch_meeting(q, NULL, 4, 32, 0, NULL, true));
    assert_ptr_equal(seen.launched, d->context);
}

static void kernels_are_for_the_gpu_of_their_queue(void **state)
{
    (void)state;
    meet(queues[0]);
    seen.waits = 0;
    meet(queues[1]);
    assert_int_equal(seen.waits, 1); // for the first, which had no promise
    meet(queues[0]);
}

/* What it had to do is done before its marks go: nobody looks at them any more. */
static void nobody_waits_for_a_queue_that_goes(void **state)
{
    tl_queue *going;
    (void)state;
    assert_ok(tli_cuda_queue_new(&going, queues[0]->device));
    meet(going);
    seen.coming = queues[1];
    seen.waits = 0;
    tli_cuda_queue_free(&going);
    assert_true(tli_cuda_queue_of(seen.coming)->meets.joined);
    assert_int_equal(seen.waits, 0);
    seen.coming = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_are_for_the_gpu_of_their_queue, open_engines,
                                        close_engines),
        cmocka_unit_test_setup_teardown(nobody_waits_for_a_queue_that_goes, open_engines,
                                        close_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
