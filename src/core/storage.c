#include "core/storage.h"

#include <tilth/base/alloc.h>
#include <tilth/base/status.h>

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

void tli_memory_init(tli_memory *m, tl_engine *engine)
{
    pthread_mutex_init(&m->lock, NULL);
    m->engine = engine;
}

static void storage_free(tl_storage *s)
{
    tl_free(s->data);
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

static tl_status storage_allocate(tl_storage **out, tli_memory *m, int class_, size_t capacity)
{
    tl_storage *s = tl_alloc_zero(sizeof *s);
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    s->data = tl_alloc_aligned(TLI_STORAGE_ALIGNMENT, capacity);
    if (!s->data) {
        tl_free(s);
        return TL_FAIL_NOMEM(capacity);
    }
    s->memory = m;
    s->size_class = class_;
    s->capacity = capacity;
    *out = s;
    return TL_OK;
}

tl_status tli_storage_new(tl_storage **out, tli_memory *m, size_t bytes)
{
    size_t capacity;
    int class_ = size_class(bytes, &capacity);
    pthread_mutex_lock(&m->lock);
    tl_storage *s = m->free[class_];
    if (s) {
        m->free[class_] = s->next;
        m->stats.cached -= (int64_t)s->capacity;
    }
    m->stats.used += (int64_t)capacity;
    if (m->stats.peak < m->stats.used) m->stats.peak = m->stats.used;
    if (!s) m->stats.allocations++;
    pthread_mutex_unlock(&m->lock);
    if (!s) {
        tl_status st = storage_allocate(&s, m, class_, capacity);
        if (st != TL_OK) {
            pthread_mutex_lock(&m->lock);
            m->stats.used -= (int64_t)capacity;
            pthread_mutex_unlock(&m->lock);
            return st;
        }
    }
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    *out = s;
    return TL_OK;
}

void tli_storage_release(tl_storage *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    tli_memory *m = s->memory;
    pthread_mutex_lock(&m->lock);
    m->stats.used -= (int64_t)s->capacity;
    m->stats.cached += (int64_t)s->capacity;
    s->next = m->free[s->size_class];
    m->free[s->size_class] = s;
    pthread_mutex_unlock(&m->lock);
}
