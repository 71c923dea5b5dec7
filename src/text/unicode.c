#include "text/unicode.h"

#include <string.h>

/* Where the last of the sorted numbers that is not above `key` stands; -1: all are above it. */
static int find_last(const uint32_t *sorted, int count, uint32_t key)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] <= key) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}

int tli_unicode_flags(tli_unicode library, uint32_t c)
{
    static _Thread_local int near; // where the last one was: its neighbours are asked for next
    const tli_unicode_library *l = &tli_unicode_libraries[library];
    const uint32_t key = c << 8 | 0xff;
    int at = near;
    if (at < 0 || at + 1 >= l->range_count || l->ranges[at] > key || l->ranges[at + 1] <= key) {
        // Before a range there are no more ranges than characters: those of ASCII are found sooner.
        int count = c < (uint32_t)l->range_count ? (int)c + 1 : l->range_count;
        near = at = find_last(l->ranges, count, key);
    }
    return at < 0 ? 0 : (int)(l->ranges[at] & 0xff);
}

int tli_unicode_class(uint32_t c)
{
    int at = find_last(tli_unicode_classes, tli_unicode_class_count, c << 8 | 0xff);
    return at < 0 || tli_unicode_classes[at] >> 8 != c ? 0 : (int)(tli_unicode_classes[at] & 0xff);
}

/* -1: the map has no word about it. */
static int look_up(uint32_t *out, const tli_unicode_map *map, uint32_t c)
{
    int low = 0, high = map->count;
    if (!high || c < map->runs[0].first) return -1; // ASCII, in most maps
    while (low < high) {
        int middle = (low + high) / 2;
        if (map->runs[middle].first <= c) low = middle + 1;
        else high = middle;
    }
    const tli_unicode_run *r = &map->runs[low - 1];
    uint32_t distance = c - r->first;
    if (distance % r->step || distance / r->step >= r->count) return -1;
    if (r->length == TLI_SHIFTED) {
        out[0] = (uint32_t)((int32_t)c + r->value);
        return 1;
    }
    memcpy(out, tli_unicode_pool + r->value + distance / r->step * r->length,
           r->length * sizeof *out);
    return r->length;
}

static int map(uint32_t *out, const tli_unicode_map *own, const tli_unicode_map *shared, uint32_t c)
{
    int count = own ? look_up(out, own, c) : -1;
    if (count < 0) count = look_up(out, shared, c);
    if (count >= 0) return count;
    out[0] = c;
    return 1;
}

/* Syllables of Hangul are made of jamo by a formula of the standard. 0: it is none. */
static int decompose_hangul(uint32_t *out, uint32_t c)
{
    enum {
        FIRST = 0xac00,
        L = 0x1100,
        V = 0x1161,
        T = 0x11a7,
        L_COUNT = 19,
        V_COUNT = 21,
        T_COUNT = 28
    };
    uint32_t index = c - FIRST;
    if (index >= L_COUNT * V_COUNT * T_COUNT) return 0;
    out[0] = L + index / (V_COUNT * T_COUNT);
    out[1] = V + index / T_COUNT % V_COUNT;
    out[2] = T + index % T_COUNT;
    return index % T_COUNT ? 3 : 2;
}

int tli_unicode_lower(uint32_t *out, tli_unicode library, uint32_t c)
{
    return map(out, &tli_unicode_libraries[library].lower, &tli_unicode_lower_map, c);
}

int tli_unicode_decompose(uint32_t *out, tli_unicode library, uint32_t c)
{
    int count = decompose_hangul(out, c);
    if (count) return count;
    return map(out, &tli_unicode_libraries[library].decompose, &tli_unicode_decompose_map, c);
}

int tli_unicode_fold(uint32_t *out, uint32_t c)
{
    int count = decompose_hangul(out, c);
    return count ? count : map(out, NULL, &tli_unicode_fold_map, c);
}
