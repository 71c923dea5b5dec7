#include "cuda/ahead.h"

#include <tilth/base/alloc.h>
#include <tilth/base/pool.h>
#include <tilth/base/vec.h>

typedef enum stage { NOT_BEGUN, BEGUN, MADE } stage;

struct tli_cuda_ahead_job {
    tli_cuda_ahead_job *next; /* of those not begun */
    stage stage;
    char *code; /* NULL: not yet, or it has failed */
    size_t bytes;
    const char *text; /* the key that it is found by */
};

/* Nobody begins with a job any more. */
static void stop(void *self)
{
    tli_cuda_ahead *a = self;
    pthread_mutex_lock(&a->lock);
    a->ends = true;
    pthread_cond_broadcast(&a->begun);
    pthread_mutex_unlock(&a->lock);
    for (int64_t i = 0; i < a->threads.count; i++) pthread_join(a->threads.items[i], NULL);
    TL_VEC_FREE(&a->threads);
}

void tli_cuda_ahead_init(tli_cuda_ahead *a, tli_cuda_ahead_make *make, void *self)
{
    *a = (tli_cuda_ahead){.make = make, .self = self, .jobs = TL_MAP_INIT};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->begun, NULL);
    pthread_cond_init(&a->done, NULL);
    tli_thread_leave(&a->leaving, stop, a);
}

void tli_cuda_ahead_deinit(tli_cuda_ahead *a)
{
    tli_thread_stay(&a->leaving);
    stop(a);
    for (int64_t i = 0; i < tl_map_count(&a->jobs); i++) {
        tli_cuda_ahead_job *job = tl_map_at(&a->jobs, i);
        tl_free(job->code);
        tl_free(job);
    }
    tl_map_deinit(&a->jobs);
    pthread_cond_destroy(&a->done);
    pthread_cond_destroy(&a->begun);
    pthread_mutex_destroy(&a->lock);
}

/* --- threads ---------------------------------------------------------------------------------- */

static tli_cuda_ahead_job *begin(tli_cuda_ahead *a)
{
    tli_cuda_ahead_job *job = a->first;
    a->first = job->next;
    if (!a->first) a->last = NULL;
    a->queued--;
    job->stage = BEGUN;
    return job;
}

static void *work(void *with)
{
    tli_cuda_ahead *a = with;
    pthread_mutex_lock(&a->lock);
    while (!a->ends) {
        if (!a->first) {
            a->waiting++;
            pthread_cond_wait(&a->begun, &a->lock);
            a->waiting--;
            continue;
        }
        tli_cuda_ahead_job *job = begin(a);
        pthread_mutex_unlock(&a->lock);
        char *code = NULL;
        size_t bytes = 0;
        if (a->make(a->self, job->text, &code, &bytes) != TL_OK) {
            tl_error_clear();
            code = NULL;
        }
        pthread_mutex_lock(&a->lock);
        job->code = code;
        job->bytes = bytes;
        job->stage = MADE;
        pthread_cond_broadcast(&a->done);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* One core is left to whoever asks, if there are some: he measures kernels meanwhile, and would
 * start them late. */
static int most_threads(void)
{
    const int threads = tl_pool_default_threads();
    return threads > 2 ? threads - 1 : threads;
}

/* Another thread, unless there are enough; where it cannot be had, whoever asks does the work. */
static void call_for_help(tli_cuda_ahead *a)
{
    sigset_t mask, before;
    pthread_t thread;
    if (a->ends || a->queued <= a->waiting || a->threads.count >= most_threads()) return;
    tli_thread_mask(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    // its place first: a thread that nobody knows could not be waited for
    if (!TL_VEC_PUSH(&a->threads, (pthread_t){0})) tl_error_clear();
    else if (pthread_create(&thread, NULL, work, a) != 0) a->threads.count--;
    else a->threads.items[a->threads.count - 1] = thread;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --- adding and taking ------------------------------------------------------------------------ */

static tl_status add(tli_cuda_ahead *a, const char *text)
{
    if (tl_map_has(&a->jobs, text)) return TL_OK;
    tli_cuda_ahead_job *job = tl_alloc_zero(sizeof *job);
    if (!job) return TL_FAIL_NOMEM(sizeof *job);
    const tl_status st = tl_map_set(&a->jobs, text, job);
    if (st != TL_OK) {
        tl_free(job);
        return st;
    }
    job->text = tl_map_key(&a->jobs, tl_map_count(&a->jobs) - 1);
    if (a->last) a->last->next = job;
    else a->first = job;
    a->last = job;
    a->queued++;
    call_for_help(a);
    pthread_cond_signal(&a->begun);
    return TL_OK;
}

tl_status tli_cuda_ahead_add(tli_cuda_ahead *a, const char *text)
{
    pthread_mutex_lock(&a->lock);
    const tl_status st = add(a, text);
    pthread_mutex_unlock(&a->lock);
    return st;
}

static void leave_out(tli_cuda_ahead *a, const tli_cuda_ahead_job *job)
{
    tli_cuda_ahead_job *before = NULL, *at = a->first;
    for (; at != job; at = at->next) before = at;
    if (before) before->next = job->next;
    else a->first = job->next;
    if (a->last == job) a->last = before;
    a->queued--;
}

bool tli_cuda_ahead_take(tli_cuda_ahead *a, const char *text, char **code, size_t *bytes)
{
    tli_cuda_ahead_job *job;
    *code = NULL;
    pthread_mutex_lock(&a->lock);
    // another one may take it meanwhile
    while ((job = tl_map_get(&a->jobs, text)) && job->stage == BEGUN)
        pthread_cond_wait(&a->done, &a->lock);
    if (job) {
        if (job->stage == NOT_BEGUN) leave_out(a, job);
        *code = job->code;
        *bytes = job->bytes;
        (void)tl_map_remove(&a->jobs, text);
        tl_free(job);
    }
    pthread_mutex_unlock(&a->lock);
    return *code != NULL;
}
