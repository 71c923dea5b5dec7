/* Of which pixels a resized image is made: shared by all kernels, for the numbers are a part of
 * what the op means. Thread word: free-threaded. */
#ifndef TLI_CPU_RESIZE_H
#define TLI_CPU_RESIZE_H

#include <math.h>

#include <tilth/base/status.h>
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

/* A pixel of one axis of the result: (1 - part) of the first pixel, `part` of the second. */
typedef struct tli_blend {
    int64_t first, second;
    double part;
} tli_blend;

/* Whole numbers decide: a centre between two pixels goes to the later one. */
static inline int64_t tli_resize_nearest(int64_t i, int64_t from, int64_t to, bool align_corners)
{
    if (!align_corners) return (2 * i + 1) * from / (2 * to);
    return to > 1 ? (2 * i * (from - 1) + to - 1) / (2 * (to - 1)) : 0;
}

static inline tli_blend tli_blend_of(const tl_resize_attr *a, int64_t i, int64_t from, int64_t to)
{
    if (a->method == TL_NEAREST) {
        const int64_t at = tli_resize_nearest(i, from, to, a->align_corners);
        return (tli_blend){at, at, 0};
    }
    double at = a->align_corners ? (to > 1 ? (double)i * (double)(from - 1) / (double)(to - 1) : 0)
                                 : fmax(((double)i + 0.5) * (double)from / (double)to - 0.5, 0);
    int64_t first = tl_min_i64((int64_t)at, from - 1);
    TL_ASSERT(first >= 0 && i < to);
    return (tli_blend){first, tl_min_i64(first + 1, from - 1), at - (double)first};
}

/* Share of pixel `p` in what a blend gives. */
static inline double tli_blend_share(const tli_blend *b, int64_t p)
{
    return (b->first == p ? 1 - b->part : 0) + (b->second == p ? b->part : 0);
}

/* The pixels [*first, *last] of an axis of `to` that may be made of pixel `p` of `from`. */
static inline void tli_resize_made_of(int64_t *first, int64_t *last, const tl_resize_attr *a,
                                      int64_t p, int64_t from, int64_t to)
{
    double shift = a->align_corners ? 0 : 0.5;
    double scale = a->align_corners ? (double)(to - 1) / (double)(from > 1 ? from - 1 : 1)
                                    : (double)to / (double)from;
    *first = (int64_t)fmax(((double)p - 1 + shift) * scale - shift - 1, 0);
    *last = tl_min_i64((int64_t)(((double)p + 1 + shift) * scale - shift + 2), to - 1);
    if (from == 1) *last = to - 1;
}

#endif
