#include <tilth/base/map.h>

#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "base/key_hash.h"

uint64_t tl_hash_bytes(uint64_t seed, const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    uint64_t h = seed;
    for (size_t i = 0; i < length; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

uint64_t tl_hash_string(uint64_t seed, const char *text)
{
    // The NUL is hashed too, so that ("ab", "c") and ("a", "bc") differ.
    return tl_hash_bytes(seed, text, strlen(text) + 1);
}

void tl_map_deinit(tl_map *map)
{
    for (int64_t i = 0; i < map->count; i++) tl_free(map->items[i].key);
    tl_free(map->items);
    tl_free(map->slots);
    *map = (tl_map)TL_MAP_INIT;
}

/* Slot that holds the key, or the free slot where it would go. There is always a free one. */
static int64_t find_slot(const tl_map *map, const char *key, uint64_t hash)
{
    int64_t mask = map->slot_count - 1;
    int64_t s = (int64_t)(hash & (uint64_t)mask);
    for (; map->slots[s] >= 0; s = (s + 1) & mask) {
        const tl_map_entry *e = &map->items[map->slots[s]];
        if (e->hash == hash && strcmp(e->key, key) == 0) break;
    }
    return s;
}

static void fill_slots(tl_map *map)
{
    memset(map->slots, 0xff, (size_t)map->slot_count * sizeof *map->slots);
    for (int64_t i = 0; i < map->count; i++) {
        const tl_map_entry *e = &map->items[i];
        map->slots[find_slot(map, e->key, e->hash)] = (int32_t)i;
    }
}

static tl_status reserve(tl_map *map)
{
    if ((map->count + 1) * 2 <= map->slot_count) return TL_OK;
    int64_t wanted = map->slot_count ? map->slot_count * 2 : 16;
    int32_t *slots = tl_alloc((size_t)wanted * sizeof *slots);
    if (!slots) return TL_FAIL_NOMEM((size_t)wanted * sizeof *slots);
    tl_free(map->slots);
    map->slots = slots;
    map->slot_count = wanted;
    fill_slots(map);
    return TL_OK;
}

static tl_map_entry *find(const tl_map *map, const char *key)
{
    if (!map->slot_count) return NULL;
    int32_t i = map->slots[find_slot(map, key, tli_key_hash(key))];
    return i < 0 ? NULL : &map->items[i];
}

tl_status tl_map_set(tl_map *map, const char *key, void *value)
{
    tl_map_entry *e = find(map, key);
    if (e) {
        e->value = value;
        return TL_OK;
    }
    if (map->count == INT32_MAX)
        return TL_FAIL(TL_ELIMIT, "a map holds at most %d keys", INT32_MAX);
    TL_TRY(reserve(map));
    tl_map_entry entry = {tl_strdup(key), value, tli_key_hash(key)};
    if (!entry.key) return TL_FAIL_NOMEM(strlen(key) + 1);
    if (!TL_VEC_PUSH(map, entry)) {
        tl_free(entry.key);
        return TL_ENOMEM;
    }
    map->slots[find_slot(map, key, entry.hash)] = (int32_t)(map->count - 1);
    return TL_OK;
}

void *tl_map_get(const tl_map *map, const char *key)
{
    const tl_map_entry *e = find(map, key);
    return e ? e->value : NULL;
}

bool tl_map_has(const tl_map *map, const char *key)
{
    return find(map, key) != NULL;
}

bool tl_map_remove(tl_map *map, const char *key)
{
    tl_map_entry *e = find(map, key);
    if (!e) return false;
    int64_t i = e - map->items;
    tl_free(e->key);
    memmove(e, e + 1, (size_t)(map->count - i - 1) * sizeof *e);
    map->count--;
    fill_slots(map); // removal is rare; keeping order and probing without tombstones is worth it
    return true;
}

int64_t tl_map_count(const tl_map *map)
{
    return map->count;
}

const char *tl_map_key(const tl_map *map, int64_t index)
{
    TL_ASSERT(index >= 0 && index < map->count);
    return map->items[index].key;
}

void *tl_map_at(const tl_map *map, int64_t index)
{
    TL_ASSERT(index >= 0 && index < map->count);
    return map->items[index].value;
}
