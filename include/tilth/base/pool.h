/* A pool of threads, and loops that are spread over them.
 *
 *     static tl_status scale_rows(int64_t begin, int64_t end, void *payload)
 *     {
 *         matrix *m = payload;
 *         for (int64_t row = begin; row < end; row++) ...
 *         return TL_OK;
 *     }
 *     ...
 *     tl_pool *pool;
 *     TL_TRY(tl_pool_new(&pool, 0));
 *     TL_TRY(tl_parallel_for(pool, m.rows, 64, scale_rows, &m));
 *     tl_pool_free(&pool);
 *
 * The cut into chunks depends on the length and the grain alone, never on the number of threads:
 * chunk c is [c * grain, min(n, (c + 1) * grain)). Whoever makes one partial result a chunk (at
 * index begin / grain) and adds them up in order gets the same bits with any number of threads.
 *
 * The thread that calls works too, so a pool of n threads starts n - 1. Between loops they watch
 * for the next one for some tens of microseconds and then sleep. They block all signals, which
 * therefore reach the program's own threads. What a loop did is visible to the caller when it
 * returns.
 *
 * Fork: in a child made between loops the pool's threads do not exist; loops then run on the
 * calling thread alone, and tl_pool_free only gives the memory back. Do not fork from inside a
 * loop.
 *
 * Ownership: the caller's, from tl_pool_new to tl_pool_free. Thread word: free-threaded, except
 * tl_pool_free, which no loop may be running for. */
#ifndef TILTH_BASE_POOL_H
#define TILTH_BASE_POOL_H

#include <tilth/base/status.h>

TL_BEGIN

typedef struct tl_pool tl_pool;

enum { TL_POOL_MAX_THREADS = 1024 };

/* `threads` counts the calling thread; 0 is tl_pool_default_threads(). */
TL_API TL_NODISCARD tl_status tl_pool_new(tl_pool **out, int threads);
/* NULL is fine. */
TL_API void tl_pool_free(tl_pool **pool);
/* 1 for NULL. */
TL_API int tl_pool_threads(const tl_pool *pool);

/* TILTH_NUM_THREADS, else OMP_NUM_THREADS (its first number), else the CPUs that this process may
 * use: the smaller one of its affinity mask and its cgroup's quota, which is rounded up. A variable
 * whose value is not acceptable counts as absent here, with a warning, and one that asks for more
 * threads than CPUs is told as well; tl_pool_size_from_env fails. */
TL_API int tl_pool_default_threads(void);

/* What the environment asks for, 0 when it asks for nothing. A value that is not a whole number
 * from 1 to TL_POOL_MAX_THREADS is TL_EINVAL, with a message that names the variable. */
TL_API TL_NODISCARD tl_status tl_pool_size_from_env(int *out);

/* One chunk of a loop: the indices begin .. end - 1. */
typedef tl_status tl_parallel_fn(int64_t begin, int64_t end, void *payload);

/* Calls `fn` once for each chunk of [0, n), in no particular order, and returns when all are done.
 * A grain below 1 counts as 1. Nothing is allocated.
 *
 * The loop fails as its lowest failing chunk does, with that one's message, on any number of
 * threads: all chunks below it have run, and of those above it some may have been left out.
 *
 * Runs on the calling thread, in order, when the pool is NULL, when there is one chunk only, when
 * the call comes from inside a loop that several threads work on, and when another thread is
 * running a loop on this pool. */
TL_API TL_NODISCARD tl_status tl_parallel_for(tl_pool *pool, int64_t n, int64_t grain,
                                              tl_parallel_fn *fn, void *payload);

TL_END

#endif
