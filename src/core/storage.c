#include "core/inner/storage.h"

#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/status.h>

enum { GUARD_BYTE = 0xc7 };

// Sizes are rounded up to four steps a power of two, from 64 bytes on: at most a quarter is wasted,
// and few lists serve all.
static int size_class(size_t bytes, size_t *capacity)
{
    size_t units = bytes ? (bytes + 63) / 64 : 1;
    if (units <= 4) {
        *capacity = units * 64;
        return (int)units - 1;
    }
    int log = 63 - __builtin_clzll(units - 1);
    size_t step = (size_t)1 << (log - 2), quarters = (units + step - 1) / step; // 5 to 8
    *capacity = quarters * step * 64;
    return 4 + (log - 2) * 4 + (int)quarters - 5;
}

void tli_memory_init(tli_memory *m, const tli_memory_args *args)
{
    pthread_mutex_init(&m->lock, NULL);
    m->engine = args->engine;
    m->device = args->device;
    m->queue = args->queue;
    m->on_host = args->host || args->device->cls->host;
    m->guarded = args->guarded && m->on_host;
}

static bool is_staging(const tli_memory *m)
{
    return m->on_host && !m->device->cls->host;
}

static size_t guard_size(const tli_memory *m)
{
    return m->guarded ? TLI_GUARD : 0;
}

static void storage_free(tl_storage *s)
{
    const tli_memory *m = s->memory;
    void *data = (char *)s->data - guard_size(m);
    size_t bytes = s->capacity + 2 * guard_size(m);
    if (is_staging(m))
        m->device->cls->free_host(m->device, data, bytes);
    else
        m->device->cls->free(m->device, data, bytes);
    tl_free(s);
}

void tli_memory_trim(tli_memory *m)
{
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < TLI_SIZE_CLASSES; i++) {
        while (m->free[i]) {
            tl_storage *s = m->free[i];
            m->free[i] = s->next;
            storage_free(s);
        }
    }
    m->stats.cached = 0;
    pthread_mutex_unlock(&m->lock);
}

void tli_memory_deinit(tli_memory *m)
{
    tli_memory_trim(m);
    TL_ASSERT(m->stats.used == 0 && "tensors must be freed before their engine");
    pthread_mutex_destroy(&m->lock);
}

/* --- guards ----------------------------------------------------------------------------------- */

static void fill_unwritten(tl_storage *s)
{
    uint16_t *words = s->data;
    for (size_t i = 0; i < s->capacity / 2; i++) words[i] = TLI_UNWRITTEN;
}

static void fill_guards(tl_storage *s)
{
    memset((char *)s->data - TLI_GUARD, GUARD_BYTE, TLI_GUARD);
    memset((char *)s->data + s->bytes, GUARD_BYTE, s->capacity - s->bytes + TLI_GUARD);
}

static bool zone_intact(const tl_storage *s, int64_t from, int64_t to, int64_t *at)
{
    const unsigned char *data = s->data;
    for (int64_t i = from; i < to; i++) {
        if (data[i] == GUARD_BYTE) continue;
        *at = i;
        return false;
    }
    return true;
}

bool tli_storage_intact(const tl_storage *s, int64_t *at)
{
    if (!s->memory->guarded) return true;
    return zone_intact(s, -TLI_GUARD, 0, at)
           && zone_intact(s, (int64_t)s->bytes, (int64_t)s->capacity + TLI_GUARD, at);
}

/* --- storages --------------------------------------------------------------------------------- */

static char *allocate_elements(const tli_memory *m, size_t bytes)
{
    return is_staging(m) ? m->device->cls->alloc_host(m->device, bytes)
                         : m->device->cls->alloc(m->device, bytes);
}

static tl_storage *storage_allocate(tli_memory *m, int class_, size_t capacity)
{
    tl_storage *s = tl_alloc_zero(sizeof *s);
    char *data = s ? allocate_elements(m, capacity + 2 * guard_size(m)) : NULL;
    if (!data) {
        tl_free(s);
        return NULL;
    }
    s->memory = m;
    s->data = data + guard_size(m);
    s->size_class = class_;
    s->capacity = capacity;
    return s;
}

static void count_used(tli_memory *m, const tl_storage *s)
{
    m->stats.used += (int64_t)s->capacity;
    if (m->stats.peak < m->stats.used) m->stats.peak = m->stats.used;
}

static tl_storage *take_free(tli_memory *m, int class_)
{
    pthread_mutex_lock(&m->lock);
    tl_storage *s = m->free[class_];
    if (s) {
        m->free[class_] = s->next;
        m->stats.cached -= (int64_t)s->capacity;
        count_used(m, s);
    }
    pthread_mutex_unlock(&m->lock);
    return s;
}

static tl_storage *ask_system(tli_memory *m, int class_, size_t capacity)
{
    tl_storage *s = storage_allocate(m, class_, capacity);
    if (!s) {
        tli_memory_trim(m); // what is kept in other sizes may be what lacks
        s = storage_allocate(m, class_, capacity);
    }
    pthread_mutex_lock(&m->lock);
    m->stats.allocations++;
    if (s) count_used(m, s);
    pthread_mutex_unlock(&m->lock);
    return s;
}

static tl_status fail_nomem(tli_memory *m, size_t bytes)
{
    tl_memory_stats stats;
    pthread_mutex_lock(&m->lock);
    stats = m->stats;
    pthread_mutex_unlock(&m->lock);
    return TL_FAIL(TL_ENOMEM, "out of memory: a tensor needs %zu bytes, and those that are alive hold %" PRId64,
                   bytes, stats.used);
}

tl_status tli_storage_new(tl_storage **out, tli_memory *m, size_t bytes)
{
    if (bytes > PTRDIFF_MAX / 4) return fail_nomem(m, bytes);
    size_t capacity;
    int class_ = size_class(bytes, &capacity);
    tl_storage *s = take_free(m, class_);
    if (!s && !(s = ask_system(m, class_, capacity))) return fail_nomem(m, bytes);
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&s->ticket, 0, memory_order_relaxed);
    s->bytes = bytes;
    if (m->guarded) {
        fill_unwritten(s);
        fill_guards(s);
    }
    *out = s;
    return TL_OK;
}

void tli_storage_written(tl_storage *s)
{
    const tl_queue *q = s->memory->queue;
    if (!q->device->cls->host)
        atomic_store_explicit(&s->ticket, tl_queue_ticket(q), memory_order_release);
}

tl_status tli_storage_wait(const tl_storage *s)
{
    return tl_queue_wait(s->memory->queue, atomic_load_explicit(&s->ticket, memory_order_acquire));
}

void tli_storage_release(tl_storage *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    tli_memory *m = s->memory;
    if (m->guarded) fill_unwritten(s); // whoever still reads it shall notice
    pthread_mutex_lock(&m->lock);
    m->stats.used -= (int64_t)s->capacity;
    m->stats.cached += (int64_t)s->capacity;
    s->next = m->free[s->size_class];
    m->free[s->size_class] = s;
    pthread_mutex_unlock(&m->lock);
}
