/* An ordered hash map from strings to pointers. Iteration follows the order of insertion.
 *
 *     tl_map names = TL_MAP_INIT;
 *     TL_TRY(tl_map_set(&names, "sgd", sgd));
 *     if (!tl_map_get(&names, "adam")) ...
 *     for (int64_t i = 0; i < tl_map_count(&names); i++)
 *         use(tl_map_key(&names, i), tl_map_at(&names, i));
 *     tl_map_deinit(&names);
 *
 * Keys are copied. Values are borrowed and may be NULL; tl_map_has tells NULL from absent.
 * Thread word: one thread at a time. */
#ifndef TILTH_BASE_MAP_H
#define TILTH_BASE_MAP_H

#include <tilth/base/status.h>

TL_BEGIN

typedef struct tl_map_entry {
    char *key;
    void *value;
    uint64_t hash;
} tl_map_entry;

typedef struct tl_map {
    tl_map_entry *items; /* in order of insertion, without gaps */
    int64_t count, capacity;
    int32_t *slots; /* index into items, or -1; a power of two of them */
    int64_t slot_count;
} tl_map;
#define TL_MAP_INIT TL_INIT(NULL, 0, 0, NULL, 0)

TL_API void tl_map_deinit(tl_map *map);
/* Adds the key, or replaces its value in place. */
TL_API TL_NODISCARD tl_status tl_map_set(tl_map *map, const char *key, void *value);
TL_API void *tl_map_get(const tl_map *map, const char *key);
TL_API bool tl_map_has(const tl_map *map, const char *key);
/* Removes the key; the others keep their order. False when it was not there. */
TL_API bool tl_map_remove(tl_map *map, const char *key);

TL_API int64_t tl_map_count(const tl_map *map);
TL_API const char *tl_map_key(const tl_map *map, int64_t index);
TL_API void *tl_map_at(const tl_map *map, int64_t index);

/* FNV-1a, continued from `seed` (start with TL_HASH_SEED). The same on every machine. */
#define TL_HASH_SEED UINT64_C(0xcbf29ce484222325)
TL_API uint64_t tl_hash_bytes(uint64_t seed, const void *bytes, size_t length);
TL_API uint64_t tl_hash_string(uint64_t seed, const char *text);

TL_END

#endif
