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
    struct {
        tli_average *items;
        int64_t count, capacity;
    } averages;          /* that are not put in yet */
    tli_reaches waiting; /* what they touch */
    struct {
        CUevent *items; /* behind each call of the first lane, and behind what is no call */
        int64_t count, capacity;
    } steps;
    bool inside; /* a call is being put in, */
    bool waits;  /* an average that waits */
    bool other;  /* something else was put in behind the last call */
    int least;   /* steps that all of the second lane waits for: nobody knows what they touch */
    int waited;  /* so many calls of the second lane the first one has waited for */
    struct {
        void **items;
        int64_t count, capacity;
    } turned;      /* places that hold what they are for */
    CUevent begin; /* of the list */
    CUstream own;  /* meanwhile something is made early; else NULL */
};

static const tli_cuda *device_of(const tli_cuda_queue *q)
{
    return tli_cuda_of(q->base.device);
}

static void cross(tli_cuda_queue *q)
{
    const tli_cuda_lane main = {q->stream, q->workspace, q->scratch};
    q->stream = q->side.stream;
    q->workspace = q->side.workspace;
    q->scratch = q->side.scratch;
    q->side = main;
    q->lanes->aside = !q->lanes->aside;
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

bool tli_cuda_runs_beside(const tl_node *call)
{
    return call->op->op == TL_OP_update_ema
           || (call->op->op == TL_OP_convolve2d_filter_grad && bytes_of(call) <= MOST_BYTES);
}

static bool goes_aside(const tli_cuda_lanes *l, const tl_node *call, const tli_reaches *own)
{
    if (tli_cuda_runs_beside(call)) return true;
    if (call->op->op == TL_OP_convolve2d_filter_grad) return false;
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

tl_status tli_cuda_lanes_begin(tli_cuda_queue *q)
{
    const tli_cuda *d = device_of(q);
    TL_ASSERT(!q->lanes);
    if (!q->side.stream) {
        TL_TRY(tli_cuda_enter(d));
        TLI_CUDA_TRY(d->api, cuStreamCreate, &q->side.stream, CU_STREAM_NON_BLOCKING);
    }
    q->lanes = tl_alloc_zero(sizeof *q->lanes);
    if (!q->lanes) return TL_FAIL_NOMEM(sizeof *q->lanes);
    return mark(q, &q->lanes->begin, q->stream);
}

/* The last of these calls behind number `from` that one with these reaches has to wait for; 0:
 * none. */
static int last_met(const tli_reaches *all, int from, const tli_reaches *own)
{
    int last = 0;
    for (int64_t k = all->count - 1; k >= 0 && all->items[k].call > from; k--)
        for (int64_t i = 0; i < own->count; i++)
            if (all->items[k].call > last && tli_reach_meets(&own->items[i], &all->items[k]))
                last = all->items[k].call;
    return last;
}

static tl_status end_step(tli_cuda_queue *q)
{
    CUevent end;
    TL_TRY(mark(q, &end, q->stream));
    return TL_VEC_PUSH(&q->lanes->steps, end) ? TL_OK : TL_ENOMEM;
}

/* What comes into the second lane begins after what it needs of the first. */
static tl_status follow_main(tli_cuda_queue *q, const tli_reaches *own)
{
    const tli_cuda *d = device_of(q);
    tli_cuda_lanes *l = q->lanes;
    int last = last_met(&l->main, l->least, own);
    if (last < l->least) last = l->least;
    TLI_CUDA_TRY(d->api, cuStreamWaitEvent, q->side.stream,
                 last ? l->steps.items[last - 1] : l->begin, 0);
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

static void take_over(tli_reaches *all, const tli_reaches *some, int call)
{
    for (int64_t i = 0; i < some->count; i++) {
        tli_reach r = some->items[i];
        r.call = call;
        all->failed |= !TL_VEC_PUSH(all, r);
    }
    all->failed |= some->failed;
}

static tl_status end_aside(tli_cuda_queue *q)
{
    CUevent end;
    TL_TRY(mark(q, &end, q->stream));
    cross(q);
    return TL_VEC_PUSH(&q->lanes->ends, end) ? TL_OK : TL_ENOMEM;
}

/* Averages that have waited, as a call of the second lane. */
static tl_status put_averages(tli_cuda_queue *q)
{
    tli_cuda_lanes *l = q->lanes;
    const tl_run run = {.queue = &q->base};
    struct tli_whole *whole = q->whole; // which knows them already
    if (!l->averages.count) return TL_OK;
    take_over(&l->side, &l->waiting, (int)l->ends.count + 1);
    TL_TRY(follow_main(q, &l->waiting));
    q->whole = NULL;
    const tl_status st = tli_cuda_put_averages(&run, l->averages.items, l->averages.count);
    q->whole = whole;
    l->averages.count = l->waiting.count = 0;
    TL_TRY(st);
    return end_aside(q);
}

static bool meets_waiting(const tli_cuda_lanes *l, const tli_reaches *own)
{
    for (int64_t i = 0; i < own->count; i++)
        for (int64_t k = 0; k < l->waiting.count; k++)
            if (tli_reach_meets(&own->items[i], &l->waiting.items[k])) return true;
    return false;
}

tl_status tli_cuda_lanes_average(tli_cuda_queue *q, const tli_average *row)
{
    return TL_VEC_PUSH(&q->lanes->averages, *row) ? TL_OK : TL_ENOMEM;
}

/* What others have put in is a step of the first lane. */
static tl_status end_other(tli_cuda_queue *q)
{
    tli_cuda_lanes *l = q->lanes;
    if (!l->other) return TL_OK;
    l->other = false;
    TL_TRY(end_step(q));
    l->least = (int)l->steps.count;
    return TL_OK;
}

tl_status tli_cuda_lanes_call(tli_cuda_queue *q, const tl_node *call, const void *scratch,
                              size_t bytes)
{
    tli_cuda_lanes *l = q->lanes;
    tli_reaches own = {0};
    tl_status st = end_other(q);
    tli_reach_call(&own, 0, call);
    tli_reach_add(&own, 0, scratch, bytes, true);
    l->inside = true;
    if (st == TL_OK && meets_waiting(l, &own)) st = put_averages(q);
    const bool waits = tli_cuda_average_waits(call), aside = !waits && goes_aside(l, call, &own);
    if (st == TL_OK && aside) st = follow_main(q, &own);
    else if (st == TL_OK && !waits) st = wait_aside(q, last_met(&l->side, l->waited, &own));
    l->waits = waits;
    take_over(waits   ? &l->waiting
              : aside ? &l->side
                      : &l->main,
              &own, (int)(aside ? l->ends.count : l->steps.count) + 1);
    TL_VEC_FREE(&own);
    return st;
}

tl_status tli_cuda_lanes_called(tli_cuda_queue *q)
{
    tli_cuda_lanes *l = q->lanes;
    l->inside = false;
    if (l->main.failed || l->side.failed || l->waiting.failed) return TL_ENOMEM;
    if (l->waits) return TL_OK;
    return l->aside ? end_aside(q) : end_step(q);
}

tl_status tli_cuda_lanes_other(tli_cuda_queue *q)
{
    tli_cuda_lanes *l = q->lanes;
    if (!l || l->inside) return TL_OK;
    TL_TRY(put_averages(q));
    l->other = true;
    return wait_aside(q, (int)l->ends.count);
}

bool tli_cuda_is_aside(const tli_cuda_queue *q)
{
    return q->lanes && q->lanes->aside;
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
    char key[96];
    CUdeviceptr at;
    tl_status st = TL_OK;
    snprintf(key, sizeof key, "%p %zu %" PRId64 " %" PRId64, from, bytes, rows, columns);
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
    tl_status st = put_averages(q);
    if (l->aside) cross(q);
    const tl_status joined = wait_aside(q, (int)l->ends.count);
    if (st == TL_OK) st = joined;
    for (int64_t i = 0; i < l->events.count; i++)
        (void)d->api->cuEventDestroy_v2(l->events.items[i]);
    TL_VEC_FREE(&l->events);
    TL_VEC_FREE(&l->ends);
    TL_VEC_FREE(&l->steps);
    TL_VEC_FREE(&l->turned);
    TL_VEC_FREE(&l->main);
    TL_VEC_FREE(&l->side);
    TL_VEC_FREE(&l->waiting);
    TL_VEC_FREE(&l->averages);
    tl_free(l);
    q->lanes = NULL;
    return st;
}

void tli_cuda_lanes_free(tli_cuda_queue *q)
{
    const tli_cuda *d = device_of(q);
    if (q->side.workspace.at) (void)d->api->cuMemFree_v2(q->side.workspace.at);
    if (q->side.scratch.at) (void)d->api->cuMemFree_v2(q->side.scratch.at);
    if (q->side.stream) (void)d->api->cuStreamDestroy_v2(q->side.stream);
    if (q->early) (void)d->api->cuStreamDestroy_v2(q->early);
}
