/* Queues of a GPU: streams whose work has tickets. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/vec.h>

#include "cuda/kernels.h"
#include "cuda/lanes.h"
#include "cuda/whole.h"

static const tli_cuda *device_of(const tl_queue *q)
{
    return tli_cuda_of(q->device);
}

/* A queue that has failed stays so: the driver gives up a context after a fault of a kernel. */
static tl_status note_failure(tli_cuda_queue *q, tl_status st)
{
    if (st == TL_OK || q->failed) return st;
    q->failed = true;
    tl_error_save(&q->error);
    return st;
}

static tl_status told_failure(const tli_cuda_queue *q)
{
    tl_error_restore(&q->error);
    return q->error.code;
}

/* --- making ----------------------------------------------------------------------------------- */

void tli_cuda_queue_free(tl_queue **queue)
{
    tli_cuda_queue *q = tli_cuda_queue_of(*queue);
    if (!q) return;
    const tli_cuda *d = device_of(*queue);
    const bool there = d->api->cuCtxSetCurrent(d->context) == CUDA_SUCCESS;
    if (there && q->stream) (void)d->api->cuStreamSynchronize(q->stream);
    tli_cuda_meets_no_more(*queue); // others wait for its marks as long as it may meet them
    if (there) {
        for (int i = 0; i < TLI_CUDA_MARKS; i++)
            if (q->marks[i]) (void)d->api->cuEventDestroy_v2(q->marks[i]);
        if (q->workspace.at) (void)d->api->cuMemFree_v2(q->workspace.at);
        if (q->scratch.at) (void)d->api->cuMemFree_v2(q->scratch.at);
        for (int64_t i = 0; i < q->outgrown.count; i++)
            (void)d->api->cuMemFree_v2(q->outgrown.items[i]);
        tli_cuda_lanes_free(q);
        tli_cuda_queue_work_deinit(q);
        if (q->stream) (void)d->api->cuStreamDestroy_v2(q->stream);
    }
    TL_VEC_FREE(&q->outgrown);
    pthread_mutex_destroy(&q->lock);
    tl_free(q);
    *queue = NULL;
}

static tl_status open_stream(tli_cuda_queue *q)
{
    const tli_cuda *d = device_of(&q->base);
    TL_TRY(tli_cuda_enter(d));
    TLI_CUDA_TRY(d->api, cuStreamCreate, &q->stream, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < TLI_CUDA_MARKS; i++)
        TLI_CUDA_TRY(d->api, cuEventCreate, &q->marks[i], CU_EVENT_DISABLE_TIMING);
    return TL_OK;
}

tl_status tli_cuda_queue_new(tl_queue **out, tl_device *device)
{
    tli_cuda_queue *q = tl_alloc_zero(sizeof *q);
    *out = q ? &q->base : NULL;
    if (!q) return TL_FAIL_NOMEM(sizeof *q);
    q->base.device = device;
    pthread_mutex_init(&q->lock, NULL);
    tl_status st = open_stream(q);
    if (st != TL_OK) tli_cuda_queue_free(out);
    return st;
}

/* Whoever would launch, copy or fill asks tli_cuda_foresees first: the queue has no stream of its
 * own. */
tl_status tli_cuda_foresee(tl_device *device, void (*put)(void *self, tl_queue *q), void *self)
{
    tli_cuda *d = tli_cuda_of(device);
    tli_cuda_queue *q = tl_alloc_zero(sizeof *q);
    if (!q) return TL_FAIL_NOMEM(sizeof *q);
    tl_map asked = TL_MAP_INIT;
    q->base.device = device;
    q->asked = &asked;
    pthread_mutex_lock(&d->calls);
    put(self, &q->base);
    pthread_mutex_unlock(&d->calls);
    tl_map_deinit(&asked);
    tl_free(q);
    return TL_OK;
}

/* Many calls have the same kernel, and a text takes longer to print and to find than its key. */
bool tli_cuda_asks(tl_queue *q, const char *key)
{
    tl_map *asked = tli_cuda_queue_of(q)->asked;
    if (tl_map_has(asked, key)) return false;
    if (tl_map_set(asked, key, NULL) != TL_OK) tl_error_clear();
    return true;
}

/* --- rooms ------------------------------------------------------------------------------------ */

enum { ROOM_STEP = 2 << 20 };

// What lists of work know stays; else the driver waits for work that uses it.
tl_status tli_cuda_drop_room(tli_cuda_queue *q, tli_cuda_room *room)
{
    const tli_cuda *d = device_of(&q->base);
    if (!room->at) return TL_OK;
    if (!room->listed) (void)d->api->cuMemFree_v2(room->at);
    else if (!TL_VEC_PUSH(&q->outgrown, room->at)) return TL_ENOMEM;
    *room = (tli_cuda_room){0};
    return TL_OK;
}

static tl_status tell_no_room(const tl_run *run, size_t bytes)
{
    tl_device *device = run->queue->device;
    tl_device_memory there;
    TL_TRY(device->cls->memory(device, &there));
    return TL_FAIL(TL_ENOMEM,
                   "out of memory: a kernel needs %zu bytes beside its tensors, and '%s' has "
                   "%" PRId64 " of %" PRId64 " bytes free",
                   bytes, device->name, there.free, there.total);
}

tl_status tli_cuda_make_room(const tl_run *run, tli_cuda_room *room, size_t bytes)
{
    tli_cuda_queue *q = tli_cuda_queue_of(run->queue);
    const tli_cuda *d = device_of(run->queue);
    if (bytes > room->bytes) {
        const size_t whole = (size_t)tl_div_up((int64_t)bytes, ROOM_STEP) * ROOM_STEP;
        CUdeviceptr at = 0;
        TL_TRY(tli_cuda_drop_room(q, room));
        CUresult result = d->api->cuMemAlloc_v2(&at, whole);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) { // perhaps tensors that are gone have it
            tl_engine_trim(run->engine);
            result = d->api->cuMemAlloc_v2(&at, whole);
        }
        if (result == CUDA_ERROR_OUT_OF_MEMORY) return tell_no_room(run, whole);
        TL_TRY(tli_cuda_check(result, "cuMemAlloc"));
        *room = (tli_cuda_room){.at = at, .bytes = whole};
    }
    if (q->listing) room->listed = true;
    return TL_OK;
}

tl_status tli_cuda_queue_scratch(const tl_run *run, void **out, size_t bytes)
{
    tli_cuda_queue *q = tli_cuda_queue_of(run->queue);
    if (q->asked) {
        *out = tli_cuda_somewhere();
        return TL_OK;
    }
    TL_TRY(tli_cuda_make_room(run, &q->scratch, bytes));
    memcpy(out, &q->scratch.at, sizeof *out);
    if (q->whole) tli_whole_writes(q->whole, *out, bytes);
    return TL_OK;
}

/* --- tickets ---------------------------------------------------------------------------------- */

uint64_t tli_cuda_issue(tl_queue *queue)
{
    tli_cuda_queue *q = tli_cuda_queue_of(queue);
    const tli_cuda *d = device_of(queue);
    if (q->asked) return 0;
    pthread_mutex_lock(&q->lock);
    uint64_t ticket = tl_queue_ticket(queue);
    if (q->whole) tli_whole_issued(q->whole);
    if (!q->listing) {
        ticket++;
        const CUresult result = d->api->cuEventRecord(q->marks[ticket % TLI_CUDA_MARKS], q->stream);
        (void)note_failure(q, tli_cuda_check(result, "cuEventRecord"));
        __atomic_store_n(&queue->issued, ticket, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&q->lock);
    return ticket;
}

/* The mark behind a ticket, or behind later work where it has none any more. */
static CUevent mark_of(const tli_cuda_queue *q, uint64_t ticket)
{
    const uint64_t issued = tl_queue_ticket(&q->base);
    TL_ASSERT(ticket <= issued);
    if (issued - ticket >= TLI_CUDA_MARKS) ticket = issued - TLI_CUDA_MARKS + 1;
    return q->marks[ticket % TLI_CUDA_MARKS];
}

static void note_good(tli_cuda_queue *q, uint64_t ticket)
{
    if (!q->failed && q->good < ticket) q->good = ticket;
}

bool tli_cuda_done(tl_queue *queue, uint64_t ticket)
{
    tli_cuda_queue *q = tli_cuda_queue_of(queue);
    const tli_cuda *d = device_of(queue);
    pthread_mutex_lock(&q->lock);
    bool done = q->failed || ticket <= q->good;
    if (!done) {
        const CUresult result = d->api->cuEventQuery(mark_of(q, ticket));
        done = result != CUDA_ERROR_NOT_READY;
        if (result == CUDA_SUCCESS && note_failure(q, tli_cuda_fault_told(q)) == TL_OK)
            note_good(q, ticket);
        else if (done && result != CUDA_SUCCESS)
            (void)note_failure(q, tli_cuda_check(result, "a kernel or copy"));
    }
    pthread_mutex_unlock(&q->lock);
    return done;
}

tl_status tli_cuda_wait(tl_queue *queue, uint64_t ticket)
{
    tli_cuda_queue *q = tli_cuda_queue_of(queue);
    const tli_cuda *d = device_of(queue);
    pthread_mutex_lock(&q->lock);
    // Others wait for work of before the list: tickets do not move on meanwhile.
    const bool known = ticket <= q->good, failed = q->failed && !known,
               listing = q->listing && pthread_equal(q->lister, pthread_self());
    CUevent mark = known || failed || listing ? NULL : mark_of(q, ticket);
    pthread_mutex_unlock(&q->lock);
    if (listing)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "what is put into a list has not run, and cannot be waited for");
    if (known) return TL_OK;
    if (failed) return told_failure(q);
    TL_TRY(tli_cuda_enter(d));
    // Should another thread put work in meanwhile that takes over the mark, this waits longer.
    tl_status st = tli_cuda_check(d->api->cuEventSynchronize(mark), "a kernel or copy");
    pthread_mutex_lock(&q->lock);
    if (st == TL_OK) st = tli_cuda_fault_told(q);
    if (st == TL_OK) note_good(q, ticket);
    else st = note_failure(q, st);
    pthread_mutex_unlock(&q->lock);
    return st;
}

tl_status tli_cuda_clear(tl_queue *queue, uint64_t *from, uint64_t *to)
{
    tli_cuda_queue *q = tli_cuda_queue_of(queue);
    tl_status st = tli_cuda_wait(queue, tl_queue_ticket(queue));
    if (st == TL_OK) return TL_OK;
    pthread_mutex_lock(&q->lock);
    *from = q->good + 1;
    *to = tl_queue_ticket(queue);
    q->good = *to;
    q->failed = false;
    pthread_mutex_unlock(&q->lock);
    return st;
}

tl_status tli_cuda_after(tl_queue *queue, tl_queue *other, uint64_t ticket)
{
    tli_cuda_queue *q = tli_cuda_queue_of(queue);
    const tli_cuda *d = device_of(queue);
    if (tli_cuda_done(other, ticket)) return TL_OK;
    if (q->listing) { // it is about what comes behind the list
        TL_ASSERT(q->after_count < TLI_CUDA_AFTERS);
        q->afters[q->after_count++] = (tli_cuda_moment){other, ticket};
        return TL_OK;
    }
    TL_TRY(tli_cuda_enter(d));
    pthread_mutex_lock(&tli_cuda_queue_of(other)->lock);
    CUevent mark = mark_of(tli_cuda_queue_of(other), ticket);
    const CUresult result = d->api->cuStreamWaitEvent(q->stream, mark, 0);
    pthread_mutex_unlock(&tli_cuda_queue_of(other)->lock);
    return tli_cuda_check(result, "cuStreamWaitEvent");
}

/* --- copies and fills ------------------------------------------------------------------------- */

static CUdeviceptr address_of(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory; // memory of the host has one address for both
}

tl_status tli_cuda_copy(tl_queue *queue, void *to, const void *from, size_t bytes)
{
    const tli_cuda *d = device_of(queue);
    if (tli_cuda_foresees(queue)) return TL_OK;
    TL_TRY(tli_cuda_enter(d));
    TL_TRY(tli_cuda_lanes_other(tli_cuda_queue_of(queue)));
    if (bytes)
        TLI_CUDA_TRY(d->api, cuMemcpyAsync, address_of(to), address_of(from), bytes,
                     tli_cuda_queue_of(queue)->stream);
    if (tli_cuda_listed(queue)) tli_whole_move(tli_cuda_listed(queue), to, from, 0, bytes);
    (void)tli_cuda_issue(queue);
    return TL_OK;
}

tl_status tli_cuda_fill(tl_queue *queue, void *to, uint16_t pattern, size_t bytes)
{
    const tli_cuda *d = device_of(queue);
    CUstream stream = tli_cuda_queue_of(queue)->stream;
    const CUdeviceptr at = address_of(to);
    if (tli_cuda_foresees(queue)) return TL_OK;
    TL_TRY(tli_cuda_enter(d));
    TL_TRY(tli_cuda_lanes_other(tli_cuda_queue_of(queue)));
    if ((at & 1) && (pattern >> 8) != (pattern & 0xff))
        return TL_FAIL(TL_EINTERNAL, "two bytes fill memory from an even address on");
    if ((at & 1) && bytes)
        TLI_CUDA_TRY(d->api, cuMemsetD8Async, at, (unsigned char)pattern, bytes, stream);
    else if (bytes / 2) TLI_CUDA_TRY(d->api, cuMemsetD16Async, at, pattern, bytes / 2, stream);
    if (!(at & 1) && (bytes & 1))
        TLI_CUDA_TRY(d->api, cuMemsetD8Async, at + bytes - 1, (unsigned char)pattern, 1, stream);
    if (tli_cuda_listed(queue)) tli_whole_move(tli_cuda_listed(queue), to, NULL, pattern, bytes);
    (void)tli_cuda_issue(queue);
    return TL_OK;
}
