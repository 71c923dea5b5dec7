#include "base/inner/pointer_map.h"

#include <tilth/base/alloc.h>

enum { LEAST_ROOM = 16 };

// Addresses differ in their middle bits: the product carries them to the top.
static int64_t place_of(const tli_pointer_map *m, const void *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    int64_t mask = m->room - 1, at = (int64_t)(hash >> 32) & mask;
    while (m->entries[at].key && m->entries[at].key != key) at = (at + 1) & mask;
    return at;
}

static bool grow(tli_pointer_map *m)
{
    tli_pointer_map larger = {.count = m->count, .room = m->room ? 2 * m->room : LEAST_ROOM};
    size_t bytes = (size_t)larger.room * sizeof *larger.entries;
    if (!(larger.entries = tl_alloc_zero(bytes))) {
        (void)TL_FAIL_NOMEM(bytes);
        return false;
    }
    for (int64_t i = 0; i < m->room; i++)
        if (m->entries[i].key) larger.entries[place_of(&larger, m->entries[i].key)] = m->entries[i];
    tl_free(m->entries);
    *m = larger;
    return true;
}

bool tli_pointer_map_put(tli_pointer_map *m, const void *key, int64_t value)
{
    TL_ASSERT(key && value >= 0);
    if (2 * (m->count + 1) > m->room && !grow(m)) return false;
    tli_pointer_entry *e = &m->entries[place_of(m, key)];
    m->count += !e->key;
    *e = (tli_pointer_entry){key, value};
    return true;
}

int64_t tli_pointer_map_get(const tli_pointer_map *m, const void *key)
{
    if (!m->count) return -1;
    const tli_pointer_entry *e = &m->entries[place_of(m, key)];
    return e->key ? e->value : -1;
}

void tli_pointer_map_free(tli_pointer_map *m)
{
    tl_free(m->entries);
    *m = (tli_pointer_map){0};
}
