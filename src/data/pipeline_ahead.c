/* The thread that makes batches ahead of who asks for them. It owns the front of the pipeline while
 * it is `busy`; who wants to touch that stops it first. */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <tilth/base/alloc.h>

#include "base/inner/thread.h"
#include "data/pipeline_impl.h"

static tli_ready *ring_at(tli_ahead *a, int64_t i)
{
    return &a->ring[(a->first + i) % a->capacity];
}

static void *run_ahead(void *payload)
{
    tli_pipeline *p = payload;
    tli_ahead *a = &p->ahead;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (!a->quit && !(a->run && a->count < a->capacity))
            pthread_cond_wait(&a->changed, &a->lock);
        if (a->quit) break;
        tli_ready *next = ring_at(a, a->count);
        a->busy = true;
        pthread_mutex_unlock(&a->lock);
        tli_batch_make(p, next);
        pthread_mutex_lock(&a->lock);
        a->busy = false;
        a->count++;
        if (next->ended || next->failed != TL_OK) a->run = false; // until the position has changed
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static tl_status no_room(const tli_ahead *a)
{
    return tl_error_note(TL_ENOMEM, "prefetch (prefetch_buffer_size) is %" PRId64, a->capacity);
}

tl_status tli_ahead_init(tli_pipeline *p)
{
    tli_ahead *a = &p->ahead;
    tl_arena *arena = p->base.arena;
    a->capacity = p->args.prefetch < 0 ? 1 : p->args.prefetch;
    a->ring = tl_arena_array(arena, a->capacity, sizeof *a->ring);
    if (!a->ring) return no_room(a);
    for (int64_t i = 0; i < a->capacity && p->waiting_capacity; i++) {
        a->ring[i].waiting = tl_arena_array(arena, p->waiting_capacity, sizeof(tli_place));
        a->ring[i].waiting_counts = tl_arena_array(arena, p->bucket_count, sizeof(int64_t));
        if (!a->ring[i].waiting || !a->ring[i].waiting_counts) return no_room(a);
    }
    if (pthread_mutex_init(&a->lock, NULL) != 0)
        return TL_FAIL(TL_EIO, "the system has no lock to give");
    if (pthread_cond_init(&a->changed, NULL) != 0) {
        pthread_mutex_destroy(&a->lock);
        return TL_FAIL(TL_EIO, "the system has no condition to give");
    }
    a->made = true;
    return TL_OK;
}

static tl_status start(tli_pipeline *p)
{
    sigset_t mask, before;
    tli_thread_mask(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    int error = pthread_create(&p->ahead.thread, NULL, run_ahead, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return TL_FAIL(TL_EIO, "a thread for preparing batches cannot be started: %s",
                       strerror(error));
    p->ahead.started = true;
    return TL_OK;
}

tl_status tli_ahead_peek(tli_pipeline *p, tli_ready **out)
{
    tli_ahead *a = &p->ahead;
    if (p->args.prefetch < 0) {
        *out = a->ring;
        if (!a->count) {
            tli_batch_make(p, *out);
            a->count = 1;
        }
        return TL_OK;
    }
    if (!a->started) TL_TRY(start(p));
    pthread_mutex_lock(&a->lock);
    if (!a->count && !a->run) {
        a->run = true;
        pthread_cond_broadcast(&a->changed);
    }
    while (!a->count) pthread_cond_wait(&a->changed, &a->lock);
    *out = ring_at(a, 0);
    pthread_mutex_unlock(&a->lock);
    return TL_OK;
}

void tli_ahead_pop(tli_pipeline *p)
{
    tli_ahead *a = &p->ahead;
    tli_ready_clear(ring_at(a, 0)); // nobody else touches it before the count says so
    pthread_mutex_lock(&a->lock);
    a->first = (a->first + 1) % a->capacity;
    a->count--;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

void tli_ahead_stop(tli_pipeline *p)
{
    tli_ahead *a = &p->ahead;
    if (!a->made) return;
    pthread_mutex_lock(&a->lock);
    a->run = false;
    while (a->busy) pthread_cond_wait(&a->changed, &a->lock);
    for (int64_t i = 0; i < a->count; i++) tli_ready_clear(ring_at(a, i));
    a->count = a->first = 0;
    pthread_mutex_unlock(&a->lock);
}

void tli_ahead_deinit(tli_pipeline *p)
{
    tli_ahead *a = &p->ahead;
    if (!a->made) return;
    tli_ahead_stop(p);
    if (a->started) {
        pthread_mutex_lock(&a->lock);
        a->quit = true;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
    }
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    a->made = false;
}
