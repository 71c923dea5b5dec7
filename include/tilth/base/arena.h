/* Arenas: many objects, one lifetime.
 *
 *     tl_arena *a;
 *     TL_TRY(tl_arena_new(&a));
 *     node *n = tl_arena_alloc(a, sizeof *n);            // zeroed; NULL when there is no memory
 *     tl_arena_mark scratch = tl_arena_begin(a);
 *     ... things that are needed for a moment ...
 *     tl_arena_end(a, scratch);                          // gone, n stays
 *     tl_arena_free(&a);
 *
 * Allocation functions set the thread's error record when they return NULL, so that callers write
 * `if (!n) return TL_ENOMEM;`. In debug builds (TL_ARENA_DEBUG) each object is an allocation of its
 * own, so that AddressSanitizer sees overruns and uses after the end of a scope.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BASE_ARENA_H
#define TILTH_BASE_ARENA_H

#include <tilth/base/status.h>

TL_BEGIN

typedef struct tl_arena tl_arena;

TL_API TL_NODISCARD tl_status tl_arena_new(tl_arena **out);
/* Runs the cleanup handlers, last one first, and gives all memory back. NULL is fine. */
TL_API void tl_arena_free(tl_arena **arena);

/* Zeroed memory, aligned for any type. */
TL_API void *tl_arena_alloc(tl_arena *arena, size_t bytes);
/* `count` times `size` zeroed bytes, NULL also when the product overflows. */
TL_API void *tl_arena_array(tl_arena *arena, int64_t count, size_t size);
TL_API void *tl_arena_copy(tl_arena *arena, const void *from, size_t bytes);
TL_API char *tl_arena_strdup(tl_arena *arena, const char *text);
TL_API char *tl_arena_strndup(tl_arena *arena, const char *text, size_t length);
TL_API char *tl_arena_printf(tl_arena *arena, const char *format, ...) TL_PRINTF(2, 3);

/* Calls fn(payload) when the innermost open scope, or the arena, ends. When it fails, fn has been
 * called already, so the caller need not clean up itself. */
TL_API TL_NODISCARD tl_status tl_arena_defer(tl_arena *arena, void (*fn)(void *payload),
                                             void *payload);

/* A point to which the arena can return. Scopes nest. */
typedef struct tl_arena_mark {
    void *chunk;
    size_t used;
    void *deferred;
    int depth;
} tl_arena_mark;
TL_API tl_arena_mark tl_arena_begin(tl_arena *arena);
TL_API void tl_arena_end(tl_arena *arena, tl_arena_mark mark);

/* Bytes handed out and still alive, padding included. */
TL_API size_t tl_arena_bytes(const tl_arena *arena);

TL_END

#endif
