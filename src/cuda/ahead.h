/* Texts that will be asked for soon, compiled by threads meanwhile: whoever asks for one then waits
 * for the rest of its time, or compiles it himself where nobody has begun with it.
 *
 *     tli_cuda_ahead a;
 *     tli_cuda_ahead_init(&a, make, self);
 *     TL_TRY(tli_cuda_ahead_add(&a, text));                 // a thread begins with it
 *     ...
 *     if (!tli_cuda_ahead_take(&a, text, &code, &bytes)) TL_TRY(make(self, text, &code, &bytes));
 *
 * What a thread fails at is forgotten: whoever asks then tries it himself, and is told why.
 * Ownership: texts are copied; code belongs to whoever takes it, else it goes with the rest.
 * Thread word: free-threaded, but for init and deinit. */
#ifndef TILTH_CUDA_AHEAD_H
#define TILTH_CUDA_AHEAD_H

#include <pthread.h>

#include <tilth/base/map.h>

#include "base/inner/thread.h"

typedef tl_status tli_cuda_ahead_make(void *self, const char *text, char **code, size_t *bytes);
typedef struct tli_cuda_ahead_job tli_cuda_ahead_job;
typedef struct tli_cuda_ahead {
    tli_cuda_ahead_make *make; /* called by several threads at once */
    void *self;
    pthread_mutex_t lock;             /* of what follows */
    pthread_cond_t begun;             /* there is something to do, or it ends */
    pthread_cond_t done;              /* something has been made */
    tl_map jobs;                      /* by their texts: tli_cuda_ahead_job */
    tli_cuda_ahead_job *first, *last; /* those that nobody has begun with, in their order */
    struct {
        pthread_t *items;
        int64_t count, capacity;
    } threads;
    tli_leaving leaving;
    int64_t waiting; /* of the threads, for something to do */
    int64_t queued;  /* jobs that nobody has begun with */
    bool ends;
} tli_cuda_ahead;

void tli_cuda_ahead_init(tli_cuda_ahead *a, tli_cuda_ahead_make *make, void *self);
/* Waits for what is being made, as the end of the process does. */
void tli_cuda_ahead_deinit(tli_cuda_ahead *a);
/* Nothing happens where it is there already. */
TL_NODISCARD tl_status tli_cuda_ahead_add(tli_cuda_ahead *a, const char *text);
/* False: it was not added, nobody has come to it, or it failed. */
bool tli_cuda_ahead_take(tli_cuda_ahead *a, const char *text, char **code, size_t *bytes);

#endif
