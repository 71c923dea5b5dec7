/* Decoded samples that are kept in memory, found by stream, part and number. Room is made by one
 * thread while nobody looks; entries are then put in by any. */
#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "data/pipeline_impl.h"

enum { ALIGNMENT = 64 };

typedef struct entry {
    const char *file; /* what the source called the place */
    const char *record;
    size_t record_size;
    bool left_out;
    int64_t count;
    tl_sample_field fields[]; /* then their data */
} entry;

typedef struct part {
    _Atomic(entry *) *items;
    int64_t count;
} part;

struct tli_cache {
    part **streams;
    const tli_pipeline *p;
};

tl_status tli_cache_new(tli_cache **out, const tli_pipeline *p)
{
    tl_arena *arena = p->base.arena;
    tli_cache *cache = tl_arena_alloc(arena, sizeof *cache);
    if (!cache) return TL_ENOMEM;
    cache->p = p;
    cache->streams = tl_arena_array(arena, p->stream_count, sizeof *cache->streams);
    if (!cache->streams) return TL_ENOMEM;
    for (int64_t i = 0; i < p->stream_count; i++) {
        cache->streams[i] =
            tl_arena_array(arena, p->streams[i].part_count, sizeof **cache->streams);
        if (!cache->streams[i]) return TL_ENOMEM;
    }
    *out = cache;
    return TL_OK;
}

void tli_cache_free(tli_cache **cache)
{
    if (!*cache) return;
    for (int64_t i = 0; i < (*cache)->p->stream_count; i++)
        for (int64_t k = 0; k < (*cache)->p->streams[i].part_count; k++) {
            part *t = &(*cache)->streams[i][k];
            for (int64_t n = 0; n < t->count; n++)
                tl_free(atomic_load_explicit(&t->items[n], memory_order_relaxed));
            tl_free(t->items);
        }
    *cache = NULL;
}

tl_status tli_cache_reserve(tli_cache *cache, const tli_place *at)
{
    part *t = &cache->streams[at->stream][at->part];
    if (at->number < t->count) return TL_OK;
    int64_t length = cache->p->streams[at->stream].parts[at->part].length;
    int64_t count = length > at->number ? length : 2 * at->number + 64;
    size_t bytes = (size_t)count * sizeof *t->items;
    bool fits = (uint64_t)count <= SIZE_MAX / 4 / sizeof *t->items;
    _Atomic(entry *) *items = fits ? tl_realloc(t->items, bytes) : NULL;
    if (!items) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = t->count; i < count; i++) atomic_init(&items[i], NULL);
    t->items = items;
    t->count = count;
    return TL_OK;
}

bool tli_cache_get(const tli_cache *cache, const tli_place *at, tl_sample *out)
{
    const part *t = &cache->streams[at->stream][at->part];
    const entry *e = atomic_load_explicit(&t->items[at->number], memory_order_acquire);
    if (!e) return false;
    out->at.file = e->file;
    out->record = e->record;
    out->record_size = e->record_size;
    out->count = e->count;
    tli_slot_of(out)->left_out = e->left_out;
    memcpy(out->fields, e->fields, (size_t)e->count * sizeof *e->fields);
    return true;
}

static entry *entry_new(const tl_sample *s)
{
    size_t head =
        tl_round_up_size(sizeof(entry) + (size_t)s->count * sizeof(tl_sample_field), ALIGNMENT);
    size_t bytes = head + tl_round_up_size(s->record_size, ALIGNMENT);
    for (int64_t i = 0; i < s->count; i++)
        bytes += tl_round_up_size(tli_field_bytes(&s->fields[i]), ALIGNMENT);
    entry *e = tl_alloc_aligned(ALIGNMENT, bytes);
    if (!e) {
        (void)TL_FAIL_NOMEM(bytes);
        return NULL;
    }
    *e = (entry){.file = s->at.file,
                 .count = s->count,
                 .record_size = s->record_size,
                 .left_out = ((const tli_slot *)s)->left_out};
    char *to = (char *)e + head;
    if (s->record) {
        if (s->record_size) memcpy(to, s->record, s->record_size);
        e->record = to;
        to += tl_round_up_size(s->record_size, ALIGNMENT);
    }
    for (int64_t i = 0; i < s->count; i++) {
        size_t size = tli_field_bytes(&s->fields[i]);
        e->fields[i] = s->fields[i];
        e->fields[i].data = to;
        if (size) memcpy(to, s->fields[i].data, size);
        to += tl_round_up_size(size, ALIGNMENT);
    }
    return e;
}

tl_status tli_cache_put(tli_cache *cache, const tli_place *at, const tl_sample *s)
{
    part *t = &cache->streams[at->stream][at->part];
    entry *e = entry_new(s), *none = NULL;
    if (!e) return TL_ENOMEM;
    // The same record may be prepared twice at a time, when passes are short: the first one stays.
    if (!atomic_compare_exchange_strong_explicit(&t->items[at->number], &none, e,
                                                 memory_order_acq_rel, memory_order_acquire))
        tl_free(e);
    return TL_OK;
}
