#include "cuda/lanes.h"

#include <inttypes.h>
#include <stdio.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "cuda/reach.h"

enum { MOST_BYTES = 48 << 20 /* of a call that would not fill a GPU */ };

struct tli_cuda_lanes {
    bool aside;             /* the queue's stream is the second one now */
    tli_reaches main, side; /* of calls so far */
    struct {
        CUevent *items;
        int64_t count, capacity;
    } events;
    struct {
        CUevent *items; /* behind each call of the second lane; of the queue's `events` */
        int64_t count, capacity;
    } ends;
    int waited; /* so many calls of the second lane the first one has waited for */
    struct {
        void **items;
        int64_t count, capacity;
    } turned;     /* places that hold what they are for */
    CUstream own; /* meanwhile something is made early; else NULL */
};

static const tli_cuda *device_of(const tli_cuda_queue *q)
{
    return tli_cuda_of(q->base.device);
}

static void cross(tli_cuda_queue *q)
{
    const tli_cuda_lane main = {q->stream, q->workspace, q->scratch, q->scratch_bytes,
                                q->scratch_listed};
    q->stream = q->side.stream;
    q->workspace = q->side.workspace;
    q->scratch = q->side.scratch;
    q->scratch_bytes = q->side.scratch_bytes;
    q->scratch_listed = q->side.scratch_listed;
    q->side = main;
    q->lanes->aside = !q->lanes->aside;
}

tl_status tli_cuda_lanes_begin(tli_cuda_queue *q)
{
    const tli_cuda *d = device_of(q);
    TL_ASSERT(!q->lanes);
    if (!q->side.stream) {
        TL_TRY(tli_cuda_enter(d));
        TLI_CUDA_TRY(d->api, cuStreamCreate, &q->side.stream, CU_STREAM_NON_BLOCKING);
    }
    q->lanes = tl_alloc_zero(sizeof *q->lanes);
    return q->lanes ? TL_OK : TL_FAIL_NOMEM(sizeof *q->lanes);
}

/* --- which lane ------------------------------------------------------------------------------- */

static double bytes_of(const tl_node *call)
{
    double bytes = 0;
    for (int i = 0; i < call->inputs; i++) bytes += (double)tl_tensor_bytes(call->in[i]);
    return bytes;
}

static bool reads_what_they_wrote(const tli_reaches *own, const tli_reaches *others)
{
    for (int64_t i = 0; i < own->count; i++)
        for (int64_t k = 0; !own->items[i].written && k < others->count; k++)
            if (others->items[k].written && tli_reach_meets(&own->items[i], &others->items[k]))
                return true;
    return false;
}

static bool goes_aside(const tli_cuda_lanes *l, const tl_node *call, const tli_reaches *own)
{
    if (call->op->op == TL_OP_update_ema) return true;
    if (call->op->op == TL_OP_convolve2d_filter_grad) return bytes_of(call) <= MOST_BYTES;
    return reads_what_they_wrote(own, &l->side) && !reads_what_they_wrote(own, &l->main);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static tl_status mark(tli_cuda_queue *q, CUevent *out, CUstream stream)
{
    const tli_cuda *d = device_of(q);
    tli_cuda_lanes *l = q->lanes;
    TLI_CUDA_TRY(d->api, cuEventCreate, out, CU_EVENT_DISABLE_TIMING);
    if (!TL_VEC_PUSH(&l->events, *out)) {
        (void)d->api->cuEventDestroy_v2(*out);
        return TL_ENOMEM;
    }
    TLI_CUDA_TRY(d->api, cuEventRecord, *out, stream);
    return TL_OK;
}

/* What comes into the second lane begins after all that is in the first. */
static tl_status follow_main(tli_cuda_queue *q)
{
    const tli_cuda *d = device_of(q);
    CUevent here;
    if (q->lanes->aside) cross(q);
    TL_TRY(mark(q, &here, q->stream));
    TLI_CUDA_TRY(d->api, cuStreamWaitEvent, q->side.stream, here, 0);
    cross(q);
    return TL_OK;
}

/* The first lane waits for so many calls of the second. */
static tl_status wait_aside(tli_cuda_queue *q, int calls)
{
    const tli_cuda *d = device_of(q);
    tli_cuda_lanes *l = q->lanes;
    if (calls <= l->waited) return TL_OK;
    TLI_CUDA_TRY(d->api, cuStreamWaitEvent, q->stream, l->ends.items[calls - 1], 0);
    l->waited = calls;
    return TL_OK;
}

/* The last call of the second lane that one with these reaches has to wait for, counted from 1. */
static int last_met(const tli_cuda_lanes *l, const tli_reaches *own)
{
    int last = 0;
    for (int64_t k = l->side.count - 1; k >= 0 && l->side.items[k].call > l->waited; k--)
        for (int64_t i = 0; i < own->count; i++)
            if (l->side.items[k].call > last && tli_reach_meets(&own->items[i], &l->side.items[k]))
                last = l->side.items[k].call;
    return last;
}

tl_status tli_cuda_lanes_call(tli_cuda_queue *q, const tl_node *call, const void *scratch,
                              size_t bytes)
{
    tli_cuda_lanes *l = q->lanes;
    tli_reaches own = {0};
    const int number = (int)l->ends.count + 1;
    tl_status st;
    tli_reach_call(&own, number, call);
    tli_reach_add(&own, number, scratch, bytes, true);
    const bool aside = goes_aside(l, call, &own);
    if (aside) st = follow_main(q);
    else {
        if (l->aside) cross(q);
        st = wait_aside(q, last_met(l, &own));
    }
    tli_reaches *all = aside ? &l->side : &l->main;
    for (int64_t i = 0; i < own.count; i++) all->failed |= !TL_VEC_PUSH(all, own.items[i]);
    all->failed |= own.failed;
    TL_VEC_FREE(&own);
    return st;
}

tl_status tli_cuda_lanes_called(tli_cuda_queue *q)
{
    tli_cuda_lanes *l = q->lanes;
    CUevent end;
    if (l->main.failed || l->side.failed) return TL_ENOMEM;
    if (!l->aside) return TL_OK;
    TL_TRY(mark(q, &end, q->stream));
    return TL_VEC_PUSH(&l->ends, end) ? TL_OK : TL_ENOMEM;
}

/* --- what is made early ----------------------------------------------------------------------- */

static bool is_written(const tli_reaches *all, const tli_reach *what)
{
    for (int64_t i = 0; i < all->count; i++)
        if (all->items[i].written && tli_reach_meets(&all->items[i], what)) return true;
    return false;
}

static tl_status find_place(tli_cuda *d, char **out, const void *from, size_t bytes, int64_t rows,
                            int64_t columns)
{
    char key[80];
    CUdeviceptr at;
    tl_status st = TL_OK;
    snprintf(key, sizeof key, "%p %" PRId64 " %" PRId64, from, rows, columns);
    pthread_mutex_lock(&d->lock);
    *out = tl_map_get(&d->turned, key);
    if (!*out && d->api->cuMemAlloc_v2(&at, bytes) == CUDA_SUCCESS) {
        *out = (char *)(uintptr_t)at;
        st = tl_map_set(&d->turned, key, *out);
        if (st != TL_OK) (void)d->api->cuMemFree_v2(at);
    }
    pthread_mutex_unlock(&d->lock);
    return st;
}

static tl_status open_early(tli_cuda_queue *q)
{
    const tli_cuda *d = device_of(q);
    CUevent here;
    if (!q->early) TLI_CUDA_TRY(d->api, cuStreamCreate, &q->early, CU_STREAM_NON_BLOCKING);
    TL_TRY(mark(q, &here, q->stream)); // it belongs to the list from here on
    TLI_CUDA_TRY(d->api, cuStreamWaitEvent, q->early, here, 0);
    return TL_OK;
}

tl_status tli_cuda_turn(tli_cuda_queue *q, const void *from, size_t bytes, int64_t rows,
                        int64_t columns, char **place, tli_early *how)
{
    tli_cuda_lanes *l = q->lanes;
    const tli_reach what = {(uintptr_t)from, (uintptr_t)from + bytes, 0, false};
    *how = TLI_NOT_EARLY;
    if (!l || l->aside || is_written(&l->main, &what) || is_written(&l->side, &what)) return TL_OK;
    TL_TRY(find_place(tli_cuda_of(q->base.device), place, from, bytes, rows, columns));
    if (!*place) return TL_OK;
    *how = TLI_TURNED;
    for (int64_t i = 0; i < l->turned.count; i++)
        if (l->turned.items[i] == *place) return TL_OK;
    if (!l->turned.count) TL_TRY(open_early(q));
    if (!TL_VEC_PUSH(&l->turned, (void *)*place)) return TL_ENOMEM;
    *how = TLI_TURN_NOW;
    l->own = q->stream;
    q->stream = q->early;
    return TL_OK;
}

tl_status tli_cuda_turned(tli_cuda_queue *q)
{
    const tli_cuda *d = device_of(q);
    CUevent end;
    const tl_status st = mark(q, &end, q->stream);
    q->stream = q->lanes->own;
    q->lanes->own = NULL;
    TL_TRY(st);
    TLI_CUDA_TRY(d->api, cuStreamWaitEvent, q->stream, end, 0);
    return TL_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

tl_status tli_cuda_lanes_end(tli_cuda_queue *q)
{
    const tli_cuda *d = device_of(q);
    tli_cuda_lanes *l = q->lanes;
    if (!l) return TL_OK;
    if (l->own) q->stream = l->own; // after a failure
    if (l->aside) cross(q);
    const tl_status st = wait_aside(q, (int)l->ends.count);
    for (int64_t i = 0; i < l->events.count; i++)
        (void)d->api->cuEventDestroy_v2(l->events.items[i]);
    TL_VEC_FREE(&l->events);
    TL_VEC_FREE(&l->ends);
    TL_VEC_FREE(&l->turned);
    TL_VEC_FREE(&l->main);
    TL_VEC_FREE(&l->side);
    tl_free(l);
    q->lanes = NULL;
    return st;
}

void tli_cuda_lanes_free(tli_cuda_queue *q)
{
    const tli_cuda *d = device_of(q);
    if (q->side.workspace) (void)d->api->cuMemFree_v2(q->side.workspace);
    if (q->side.scratch) (void)d->api->cuMemFree_v2(q->side.scratch);
    if (q->side.stream) (void)d->api->cuStreamDestroy_v2(q->side.stream);
    if (q->early) (void)d->api->cuStreamDestroy_v2(q->early);
}
