/* Clocks of a GPU, and lists of work: graphs, as CUDA calls them. */
#include <tilth/base/alloc.h>
#include <tilth/base/log.h>

#include "cuda/device.h"
#include "cuda/lanes.h"
#include "cuda/whole.h"

/* --- clocks ----------------------------------------------------------------------------------- */

struct tl_event {
    const tli_cuda *device;
    CUevent event;
};

tl_status tli_cuda_event_new(tl_event **out, tl_device *device)
{
    tl_event *e = tl_alloc_zero(sizeof *e);
    *out = e;
    if (!e) return TL_FAIL_NOMEM(sizeof *e);
    e->device = tli_cuda_of(device);
    tl_status st = tli_cuda_enter(e->device);
    if (st == TL_OK)
        st = tli_cuda_check(e->device->api->cuEventCreate(&e->event, CU_EVENT_DEFAULT),
                            "cuEventCreate");
    if (st != TL_OK) tli_cuda_event_free(out);
    return st;
}

void tli_cuda_event_free(tl_event **event)
{
    tl_event *e = *event;
    if (!e) return;
    if (e->event && e->device->api->cuCtxSetCurrent(e->device->context) == CUDA_SUCCESS)
        (void)e->device->api->cuEventDestroy_v2(e->event);
    tl_free(e);
    *event = NULL;
}

tl_status tli_cuda_record(tl_event *e, tl_queue *q)
{
    TL_TRY(tli_cuda_enter(e->device));
    TLI_CUDA_TRY(e->device->api, cuEventRecord, e->event, tli_cuda_queue_of(q)->stream);
    (void)tli_cuda_issue(q);
    return TL_OK;
}

tl_status tli_cuda_elapsed(const tl_event *from, const tl_event *to, int64_t *ns)
{
    float ms;
    TL_TRY(tli_cuda_enter(from->device));
    const CUresult result = from->device->api->cuEventElapsedTime(&ms, from->event, to->event);
    if (result == CUDA_ERROR_NOT_READY)
        return TL_FAIL(TL_ESTATE, "the event has not come; wait for it first");
    TL_TRY(tli_cuda_check(result, "cuEventElapsedTime"));
    *ns = (int64_t)((double)ms * 1e6);
    return TL_OK;
}

/* --- lists ------------------------------------------------------------------------------------ */

struct tl_device_program {
    const tli_cuda *device;
    tl_queue *queue; /* that it was last put into */
    CUgraphExec graph;
    bool meets;       /* some of its kernels may, with a promise */
    tli_whole *whole; /* the same as one kernel; NULL: it cannot be, or is not better */
    int runs;         /* until it becomes one */
};

/* Compiling it takes seconds, which few runs do not make good. */
enum { RUNS_OF_GRAPH = 16 };

/* What `put` puts into the queue becomes a graph. NULL where it failed. */
static tl_status capture(CUgraph *out, tli_cuda_queue *q, tl_status (*put)(void *self), void *self)
{
    const tli_cuda *d = tli_cuda_of(q->base.device);
    *out = NULL;
    TL_TRY(tli_cuda_enter(d));
    TLI_CUDA_TRY(d->api, cuStreamBeginCapture_v2, q->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    pthread_mutex_lock(&q->lock);
    q->lister = pthread_self();
    q->listing = true;
    pthread_mutex_unlock(&q->lock);
    tl_status st = tli_cuda_lanes_begin(q);
    if (st == TL_OK) st = put(self);
    const tl_status joined = tli_cuda_lanes_end(q);
    if (st == TL_OK) st = joined;
    pthread_mutex_lock(&q->lock);
    q->listing = false;
    pthread_mutex_unlock(&q->lock);
    const CUresult ended = d->api->cuStreamEndCapture(q->stream, out);
    if (st == TL_OK) st = tli_cuda_check(ended, "cuStreamEndCapture");
    for (int i = 0; i < q->after_count && st == TL_OK; i++)
        st = tli_cuda_after(&q->base, q->afters[i].queue, q->afters[i].ticket);
    q->after_count = 0;
    return st;
}

void tli_cuda_list_free(tl_device_program **program)
{
    tl_device_program *p = *program;
    if (!p) return;
    if (p->graph && p->device->api->cuCtxSetCurrent(p->device->context) == CUDA_SUCCESS) {
        (void)p->device->api->cuStreamSynchronize(tli_cuda_queue_of(p->queue)->stream);
        (void)p->device->api->cuGraphExecDestroy(p->graph);
    }
    tli_whole_free(&p->whole);
    tl_free(p);
    *program = NULL;
}

static tl_status make_list(tl_device_program *p, tl_status (*put)(void *self), void *self)
{
    const tli_cuda_api *api = p->device->api;
    CUgraph graph;
    tl_status st = capture(&graph, tli_cuda_queue_of(p->queue), put, self);
    if (st == TL_OK)
        st = tli_cuda_check(api->cuGraphInstantiateWithFlags(&p->graph, graph, 0),
                            "cuGraphInstantiate");
    if (graph) (void)api->cuGraphDestroy(graph);
    if (st == TL_OK)
        st = tli_cuda_check(api->cuGraphUpload(p->graph, tli_cuda_queue_of(p->queue)->stream),
                            "cuGraphUpload");
    return st;
}

tl_status tli_cuda_list_build(tl_device_program **out, tl_queue *q, tl_status (*put)(void *self),
                              void *self)
{
    tl_device_program *p = tl_alloc_zero(sizeof *p);
    *out = p;
    if (!p) return TL_FAIL_NOMEM(sizeof *p);
    p->device = tli_cuda_of(q->device);
    p->queue = q;
    tl_status st = tli_whole_new(&p->whole, p->device->processors);
    tli_cuda_queue_of(q)->whole = p->whole;
    if (st == TL_OK) st = make_list(p, put, self);
    tli_cuda_queue_of(q)->whole = NULL;
    p->meets = tli_cuda_queue_of(q)->meets.joined;
    if (st == TL_OK && tli_whole_failed(p->whole)) st = TL_FAIL_NOMEM(sizeof *p);
    if (p->whole && !tli_whole_is_good(p->whole)) tli_whole_free(&p->whole);
    if (st != TL_OK) tli_cuda_list_free(out);
    return st;
}

/* A list that cannot become one kernel stays as it is. */
static void make_whole(tl_device_program *p)
{
    if (tli_whole_make(p->whole, tli_cuda_of(p->queue->device), p->queue) == TL_OK) return;
    TL_LOG_WARNING("a program stays a list of kernels on the GPU: %s", tl_error_message());
    tl_error_clear();
    tli_whole_free(&p->whole);
}

tl_status tli_cuda_list_run(tl_device_program *p, tl_queue *q)
{
    TL_TRY(tli_cuda_enter(p->device));
    p->queue = q;
    if (p->whole && p->runs < RUNS_OF_GRAPH && ++p->runs == RUNS_OF_GRAPH) make_whole(p);
    if (p->whole && p->runs == RUNS_OF_GRAPH) return tli_whole_run(p->whole, q);
    if (p->meets) TL_TRY(tli_cuda_may_meet(q));
    TLI_CUDA_TRY(p->device->api, cuGraphLaunch, p->graph, tli_cuda_queue_of(q)->stream);
    (void)tli_cuda_issue(q);
    return TL_OK;
}
