/* The host as a device: its memory is everybody's, and whatever is put into its queue is done at
 * once. */
#include <string.h>
#include <sys/mman.h>
#include <tilth/base/alloc.h>
#include <tilth/base/machine.h>
#include <tilth/base/status.h>
#include <tilth/sys/core/device.h>

#include "core/inner/resident.h"

/* A cache line, which also is the widest vector (AVX-512); the page that Linux calls huge on x86-64
 * and, with pages of 4 KiB, on AArch64. */
enum { ALIGNMENT = 64, HUGE_PAGE = TLI_HUGE_PAGE };
_Static_assert(ALIGNMENT >= 64 && HUGE_PAGE % ALIGNMENT == 0,
               "a cache line, and the widest vector: no load of one crosses a line");

static tl_device host = {&tl_device_host, "host"};
static tl_queue queue = {&host, 0};

tl_device *tl_host(void)
{
    return &host;
}

static tl_status host_open(tl_device **out, const char *which)
{
    if (which && strcmp(which, "0") != 0)
        return TL_FAIL(TL_EINVAL, "there is one host; leave ':%s' out", which);
    *out = &host;
    return TL_OK;
}

static void host_close(tl_device **d)
{
    *d = NULL;
}

/* Large blocks lie in huge pages where the system has them: fewer misses in the translation of
 * addresses, and prefetching goes on beyond 4 KiB. */
static void *host_alloc(tl_device *d, size_t bytes)
{
    (void)d;
    const bool large = bytes >= (size_t)TLI_HUGE_FROM;
    void *data = tl_alloc_aligned(large ? HUGE_PAGE : ALIGNMENT, bytes);
#ifdef MADV_HUGEPAGE
    if (data && large) (void)madvise(data, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); // a wish
#endif
    TL_ASSERT((uintptr_t)data % ALIGNMENT == 0);
    return data;
}

static void host_free(tl_device *d, void *memory, size_t bytes)
{
    (void)d, (void)bytes;
    tl_free(memory);
}

static tl_status host_memory(tl_device *d, tl_device_memory *out)
{
    (void)d;
    double bytes = tl_machine_memory();
    *out = (tl_device_memory){.total = bytes < (double)INT64_MAX ? (int64_t)bytes : 0};
    return TL_OK;
}

static tl_status host_queue_new(tl_queue **out, tl_device *d)
{
    (void)d;
    *out = &queue;
    return TL_OK;
}

static void host_queue_free(tl_queue **q)
{
    *q = NULL;
}

static tl_status host_copy(tl_queue *q, void *to, const void *from, size_t bytes)
{
    (void)q;
    if (bytes) memcpy(to, from, bytes);
    return TL_OK;
}

static tl_status host_fill(tl_queue *q, void *to, uint16_t pattern, size_t bytes)
{
    (void)q;
    for (size_t i = 0; i + 1 < bytes; i += 2) memcpy((char *)to + i, &pattern, 2);
    if (bytes % 2) memcpy((char *)to + bytes - 1, &pattern, 1);
    return TL_OK;
}

static uint64_t host_issue(tl_queue *q)
{
    (void)q;
    return 0;
}

static tl_status host_after(tl_queue *q, tl_queue *other, uint64_t ticket)
{
    return q == other ? TL_OK : tl_queue_wait(other, ticket);
}

static bool host_done(tl_queue *q, uint64_t ticket)
{
    (void)q, (void)ticket;
    return true;
}

static tl_status host_wait(tl_queue *q, uint64_t ticket)
{
    (void)q, (void)ticket;
    return TL_OK;
}

static tl_status host_clear(tl_queue *q, uint64_t *from, uint64_t *to)
{
    (void)q, (void)from, (void)to;
    return TL_OK;
}

const tl_device_class tl_device_host = {
    .cls = {.class_size = sizeof(tl_device_class),
            .name = "host",
            .help = "the processors of this machine, and its memory"},
    .host = true,
    .alignment = ALIGNMENT,
    .open = host_open,
    .close = host_close,
    .alloc = host_alloc,
    .free = host_free,
    .alloc_host = host_alloc,
    .free_host = host_free,
    .memory = host_memory,
    .queue_new = host_queue_new,
    .queue_free = host_queue_free,
    .copy = host_copy,
    .fill = host_fill,
    .issue = host_issue,
    .after = host_after,
    .done = host_done,
    .wait = host_wait,
    .clear = host_clear,
};

static const tl_method methods[] = {
    TL_METHOD(tl_device_class, open, true),
    TL_METHOD(tl_device_class, close, true),
    TL_METHOD(tl_device_class, alloc, true),
    TL_METHOD(tl_device_class, free, true),
    TL_METHOD(tl_device_class, alloc_host, true),
    TL_METHOD(tl_device_class, free_host, true),
    TL_METHOD(tl_device_class, memory, true),
    TL_METHOD(tl_device_class, queue_new, true),
    TL_METHOD(tl_device_class, queue_free, true),
    TL_METHOD(tl_device_class, copy, true),
    TL_METHOD(tl_device_class, fill, true),
    TL_METHOD(tl_device_class, after, true),
    TL_METHOD(tl_device_class, done, true),
    TL_METHOD(tl_device_class, wait, true),
    TL_METHOD(tl_device_class, clear, true),
    TL_METHOD(tl_device_class, issue, true),
    TL_METHOD(tl_device_class, event_new, false),
    TL_METHOD(tl_device_class, event_free, false),
    TL_METHOD(tl_device_class, record, false),
    TL_METHOD(tl_device_class, elapsed, false),
    TL_METHOD(tl_device_class, program_build, false),
    TL_METHOD(tl_device_class, program_run, false),
    TL_METHOD(tl_device_class, program_free, false),
    TL_METHOD(tl_device_class, count, false),
    {NULL, 0, false},
};
const tl_kind tl_kind_device = {
    .name = "device",
    .plural = "devices",
    .help = "memory that tensors lie in, and queues that kernels run in",
    .class_size = sizeof(tl_device_class),
    .methods = methods,
};
