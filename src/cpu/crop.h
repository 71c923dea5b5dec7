/* Where a sample of a crop lies: shared by all kernels, for the numbers are a part of what the op
 * means. Thread word: free-threaded. */
#ifndef TLI_CPU_CROP_H
#define TLI_CPU_CROP_H

#include <math.h>
#include <tilth/core/attrs.h>

/* Between two pixels of an axis: (1 - part) of the first, `part` of the second. */
typedef struct tli_crop_place {
    int64_t first, second;
    float part;
} tli_crop_place;

/* Sample i of a window from `from` on and `extent` long, on an axis of `length` pixels at this
 * level where level 0 has `full`. */
static inline tli_crop_place tli_crop_place_of(const tl_crop_attr *a, int64_t i, float from,
                                               float extent, int64_t level, int64_t full,
                                               int64_t length)
{
    const float bound = ldexpf((float)full, -(int)level) - 1;
    const float at = from + ((float)i + (float)a->offset) * extent / (float)a->size;
    const float low = fminf(fmaxf(floorf(at), 0), bound), high = fminf(low + 1, bound);
    tli_crop_place p = {(int64_t)low, (int64_t)high, at - low};
    if (p.first > length - 1) p.first = length - 1; // a float has not all whole numbers
    if (p.second > length - 1) p.second = length - 1;
    return p;
}

#endif
