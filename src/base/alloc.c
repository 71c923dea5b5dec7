#include <tilth/base/alloc.h>

#include <stdlib.h>
#include <string.h>

static void *libc_alloc(size_t alignment, size_t bytes, void *payload)
{
    (void)payload;
    if (alignment <= _Alignof(max_align_t)) return malloc(bytes);
    void *memory = NULL;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void *libc_realloc(void *memory, size_t bytes, void *payload)
{
    (void)payload;
    return realloc(memory, bytes);
}

static void libc_free(void *memory, void *payload)
{
    (void)payload;
    free(memory);
}

static const tl_allocator libc_allocator = {
    .alloc = libc_alloc,
    .realloc = libc_realloc,
    .free = libc_free,
};
static const tl_allocator *current = &libc_allocator;

// Per thread, so that a test which injects faults does not disturb threads that run beside it.
static _Thread_local struct {
    int64_t calls, first, last; /* calls in [first, last] fail */
} faults;

void tl_allocator_set(const tl_allocator *allocator)
{
    current = allocator ? allocator : &libc_allocator;
}

void tl_alloc_fail_at(int64_t nth, int64_t count)
{
    faults.first = nth > 0 ? faults.calls + nth : 0;
    bool endless = nth > 0 && count > INT64_MAX - faults.first;
    faults.last = endless ? INT64_MAX : nth > 0 ? faults.first + count - 1 : 0;
}

int64_t tl_alloc_calls(void)
{
    return faults.calls;
}

static bool must_fail(void)
{
    int64_t call = ++faults.calls;
    return faults.first != 0 && call >= faults.first && call <= faults.last;
}

void *tl_alloc_aligned(size_t alignment, size_t bytes)
{
    if (must_fail()) return NULL;
    return current->alloc(alignment, bytes ? bytes : 1, current->payload);
}

void *tl_alloc(size_t bytes)
{
    return tl_alloc_aligned(_Alignof(max_align_t), bytes);
}

void *tl_alloc_zero(size_t bytes)
{
    void *memory = tl_alloc(bytes);
    return memory ? memset(memory, 0, bytes ? bytes : 1) : NULL;
}

void *tl_realloc(void *memory, size_t bytes)
{
    if (must_fail()) return NULL;
    return current->realloc(memory, bytes ? bytes : 1, current->payload);
}

void tl_free(void *memory)
{
    if (memory) current->free(memory, current->payload);
}

char *tl_strdup(const char *text)
{
    if (!text) return NULL;
    size_t bytes = strlen(text) + 1;
    char *copy = tl_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}
