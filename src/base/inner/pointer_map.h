/* From pointers to numbers: for notes about objects that are not ours to write on.
 *
 *     tli_pointer_map ids = {0};
 *     if (!tli_pointer_map_put(&ids, t, 3)) return TL_ENOMEM;          // the error is set
 *     int64_t id = tli_pointer_map_get(&ids, t);                       // -1: it is not there
 *     tli_pointer_map_free(&ids);
 *
 * Thread word: one thread at a time. */
#ifndef TLI_BASE_POINTER_MAP_H
#define TLI_BASE_POINTER_MAP_H

#include <tilth/base/status.h>

typedef struct tli_pointer_entry {
    const void *key; /* NULL: free */
    int64_t value;
} tli_pointer_entry;

typedef struct tli_pointer_map {
    tli_pointer_entry *entries; /* a power of two of them, at most half of them taken */
    int64_t count, room;
} tli_pointer_map;

/* The value is not negative; one that is there already is replaced. */
bool tli_pointer_map_put(tli_pointer_map *m, const void *key, int64_t value);
int64_t tli_pointer_map_get(const tli_pointer_map *m, const void *key);
/* Also of one that is empty. */
void tli_pointer_map_free(tli_pointer_map *m);

#endif
