/* Memory from one place, which can be replaced and can be told to fail.
 *
 *     thing *t = tl_alloc_zero(sizeof *t);
 *     if (!t) return TL_FAIL_NOMEM(sizeof *t);
 *     ...
 *     tl_free(t);
 *
 * Objects whose lifetimes end together belong into an arena (arena.h) instead.
 *
 * Thread word: free-threaded, except tl_allocator_set, which belongs before the first
 * allocation. */
#ifndef TILTH_BASE_ALLOC_H
#define TILTH_BASE_ALLOC_H

#include <tilth/base/api.h>

TL_BEGIN

/* All four return NULL when there is no memory. Sizes of 0 give a pointer that can be freed. */
TL_API void *tl_alloc(size_t bytes);
TL_API void *tl_alloc_zero(size_t bytes);
TL_API void *tl_realloc(void *memory, size_t bytes);
/* `alignment` is a power of two, at least sizeof(void *). Freed with tl_free. */
TL_API void *tl_alloc_aligned(size_t alignment, size_t bytes);
TL_API void tl_free(void *memory);
/* A copy of `text`, or NULL when there is no memory or `text` is NULL. */
TL_API char *tl_strdup(const char *text);

/* Where memory comes from. The default is the C library. All members are required. */
typedef struct tl_allocator {
    void *(*alloc)(size_t alignment, size_t bytes, void *payload);
    void *(*realloc)(void *memory, size_t bytes, void *payload);
    void (*free)(void *memory, void *payload);
    void *payload;
} tl_allocator;
/* NULL brings the default back. The struct must outlive all that is allocated through it. */
TL_API void tl_allocator_set(const tl_allocator *allocator);

/* Fault injection: the `nth` allocation of this thread from now on (1 is the next one) fails, and
 * so do `count - 1` after it. An nth of 0 turns it off. */
TL_API void tl_alloc_fail_at(int64_t nth, int64_t count);
/* Allocations of this thread so far, failed ones included. */
TL_API int64_t tl_alloc_calls(void);

TL_END

#endif
