#include <tilth/base/arena.h>

#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

/* Memory comes in chunks that form a stack. A scope's mark remembers the top chunk and how much of
 * it was used; ending the scope pops chunks down to it. Popped chunks wait for the next scope, so
 * that a scope entered again and again allocates only once. In the debug twin every object is a
 * chunk, and popped ones are given back at once. */
typedef struct chunk {
    struct chunk *below;
    size_t size, used;
    _Alignas(max_align_t) char data[];
} chunk;

typedef struct deferred {
    struct deferred *below;
    void (*fn)(void *payload);
    void *payload;
} deferred;

struct tl_arena {
    chunk *top;
    chunk *spare; /* popped ones, the last popped first */
    deferred *deferred;
    int depth; /* open scopes */
};

enum { ALIGNMENT = _Alignof(max_align_t), FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20 };

tl_status tl_arena_new(tl_arena **out)
{
    *out = tl_alloc_zero(sizeof **out);
    return *out ? TL_OK : TL_FAIL_NOMEM(sizeof **out);
}

static void run_deferred(tl_arena *a, const deferred *until)
{
    while (a->deferred != until) {
        deferred *d = a->deferred;
        a->deferred = d->below; // unlinked first: a handler may defer or end scopes itself
        d->fn(d->payload);
    }
}

static void pop_chunks(tl_arena *a, const chunk *until)
{
    while (a->top != until) {
        chunk *c = a->top;
        a->top = c->below;
#ifdef TL_ARENA_DEBUG
        tl_free(c);
#else
        c->below = a->spare;
        a->spare = c;
#endif
    }
}

static void free_spares(tl_arena *a)
{
    while (a->spare) {
        chunk *c = a->spare;
        a->spare = c->below;
        tl_free(c);
    }
}

void tl_arena_free(tl_arena **arena)
{
    tl_arena *a = *arena;
    if (!a) return;
    run_deferred(a, NULL);
    pop_chunks(a, NULL);
    free_spares(a);
    tl_free(a);
    *arena = NULL;
}

static chunk *put_on_top(tl_arena *a, chunk *c)
{
    c->below = a->top;
    c->used = 0;
    a->top = c;
    return c;
}

static chunk *push_chunk(tl_arena *a, size_t bytes)
{
    if (a->spare && a->spare->size >= bytes) {
        chunk *c = a->spare;
        a->spare = c->below;
        return put_on_top(a, c);
    }
    free_spares(a); // too small: larger ones take their place
#ifdef TL_ARENA_DEBUG
    size_t size = bytes;
#else
    // Chunks double, so that a large parse needs few and a small one wastes little.
    size_t size = a->top ? a->top->size * 2 : FIRST_CHUNK - sizeof(chunk);
    if (size > LARGEST_CHUNK) size = LARGEST_CHUNK;
    if (size < bytes) size = bytes;
#endif
    chunk *c = tl_alloc(sizeof *c + size);
    if (!c) return NULL;
    c->size = size;
    return put_on_top(a, c);
}

void *tl_arena_alloc(tl_arena *a, size_t bytes)
{
#ifdef TL_ARENA_DEBUG
    size_t rounded = bytes; // not rounded: AddressSanitizer then guards the very next byte
    bool fits = false;
#else
    size_t rounded = tl_round_up_size(bytes, ALIGNMENT);
    bool fits = a->top && rounded <= a->top->size - a->top->used;
#endif
    if (bytes > PTRDIFF_MAX / 2 || (!fits && !push_chunk(a, rounded))) {
        (void)TL_FAIL_NOMEM(bytes);
        return NULL;
    }
    void *memory = a->top->data + a->top->used;
    a->top->used += rounded;
    return memset(memory, 0, bytes);
}

void *tl_arena_array(tl_arena *a, int64_t count, size_t size)
{
    size_t bytes;
    if (count < 0 || __builtin_mul_overflow((size_t)count, size, &bytes)) {
        (void)TL_FAIL_NOMEM(SIZE_MAX);
        return NULL;
    }
    return tl_arena_alloc(a, bytes);
}

void *tl_arena_copy(tl_arena *a, const void *from, size_t bytes)
{
    void *memory = tl_arena_alloc(a, bytes);
    if (memory && bytes) memcpy(memory, from, bytes);
    return memory;
}

char *tl_arena_strndup(tl_arena *a, const char *text, size_t length)
{
    char *copy = tl_arena_alloc(a, length + 1);
    if (copy && length) memcpy(copy, text, length);
    return copy;
}

char *tl_arena_strdup(tl_arena *a, const char *text)
{
    return tl_arena_strndup(a, text, strlen(text));
}

char *tl_arena_printf(tl_arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) {
        (void)TL_FAIL(TL_EINVAL, "a text cannot be printed: it holds bytes that the locale lacks");
        return NULL;
    }
    char *text = tl_arena_alloc(a, (size_t)length + 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

tl_status tl_arena_defer(tl_arena *a, void (*fn)(void *payload), void *payload)
{
    deferred *d = tl_arena_alloc(a, sizeof *d);
    if (!d) {
        fn(payload);
        return TL_ENOMEM;
    }
    *d = (deferred){.below = a->deferred, .fn = fn, .payload = payload};
    a->deferred = d;
    return TL_OK;
}

tl_arena_mark tl_arena_begin(tl_arena *a)
{
    return (tl_arena_mark){
        .chunk = a->top,
        .used = a->top ? a->top->used : 0,
        .deferred = a->deferred,
        .depth = ++a->depth,
    };
}

void tl_arena_end(tl_arena *a, tl_arena_mark mark)
{
    TL_ASSERT(mark.depth == a->depth && "arena scopes must end in the reverse of their order");
    a->depth = mark.depth - 1;
    run_deferred(a, mark.deferred);
    pop_chunks(a, mark.chunk);
    if (a->top) a->top->used = mark.used;
}

size_t tl_arena_bytes(const tl_arena *a)
{
    size_t bytes = 0;
    for (const chunk *c = a->top; c; c = c->below) bytes += c->used;
    return bytes;
}
