/* What the convolutions by Winograd's method share: tiles of 4 x 4 results of a filter of 3 x 3,
 * and the points at which their polynomials are taken (conv_winograd.c says how).
 *
 * On one axis a tile of 4 results sees 6 numbers of the source. Numbers and filter are turned into
 * their values at 6 points, which are multiplied, and turned back:
 *
 *     source (6) -> 6        filter (3) -> 6        6 -> results (4)        and 6 -> filter (3),
 *     results (4) -> 6 for the filter's gradient
 *
 * The points are 0, a, -a, b, -b and infinity. Which a and b are taken decides how much sums
 * cancel: with 5/8 and 3/2 errors are a third of those with 1 and 2, and their squares and
 * products, with which numbers of the source are multiplied, are exact.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_SIMD_WINOGRAD_H
#define TLI_CPU_SIMD_WINOGRAD_H

#include <tilth/base/integer.h>

#include "cpu/simd/conv_parts.h"
#include "cpu/simd/vec.h"

enum { WINO_OUT = 4, WINO_IN = 6, WINO_TAPS = 3 };
enum {
    WINO_POINTS = WINO_IN * WINO_IN,
    WINO_PLACES = WINO_OUT * WINO_OUT,
    WINO_ELEMENTS = WINO_TAPS * WINO_TAPS
};

#define WINO_A 0.625f
#define WINO_B 1.5f
#define WINO_A2 (WINO_A * WINO_A)
#define WINO_B2 (WINO_B * WINO_B)
/* What the filter is divided by: products of the distances of a point from the others. */
#define WINO_OF_0 (float)(1 / ((double)WINO_A2 * (double)WINO_B2))
#define WINO_OF_A (float)(0.5 / ((double)WINO_A2 * ((double)WINO_A2 - (double)WINO_B2)))
#define WINO_OF_B (float)(0.5 / ((double)WINO_B2 * ((double)WINO_B2 - (double)WINO_A2)))

/* Where fusing is not an instruction, it would be a call. */
#if defined(TLI_ISA_generic)
#define WINO_FMA(x, y, sum) vf_add(sum, vf_mul(x, y))
#define WINO_FNMA(x, y, sum) vf_sub(sum, vf_mul(x, y))
#else
#define WINO_FMA(x, y, sum) vf_fma(x, y, sum)
#define WINO_FNMA(x, y, sum) vf_fnma(x, y, sum)
#endif

/* --- one axis --------------------------------------------------------------------------------- */

/* The values of the source at the points a, -a (or b, -b), of which the other's square is given. */
TLI_INLINE void wino_pair_of_source(vf *plus, vf *minus, float point, float other, vf d1, vf d2,
                                    vf d3, vf d4)
{
    const vf square = vf_set1(other), x = vf_set1(point);
    const vf even = WINO_FNMA(square, d2, d4), odd = WINO_FNMA(square, d1, d3);
    *plus = WINO_FMA(x, odd, even);
    *minus = WINO_FNMA(x, odd, even);
}

/* At 0, from every second number; from those in between at infinity. */
TLI_INLINE vf wino_end_of_source(vf x, vf y, vf z)
{
    const vf product = vf_set1(WINO_A2 * WINO_B2), sum = vf_set1(WINO_A2 + WINO_B2);
    return WINO_FMA(product, x, WINO_FNMA(sum, y, z));
}

TLI_INLINE void wino_of_source(vf to[WINO_IN], const vf d[WINO_IN])
{
    to[0] = wino_end_of_source(d[0], d[2], d[4]);
    wino_pair_of_source(&to[1], &to[2], WINO_A, WINO_B2, d[1], d[2], d[3], d[4]);
    wino_pair_of_source(&to[3], &to[4], WINO_B, WINO_A2, d[1], d[2], d[3], d[4]);
    to[5] = wino_end_of_source(d[1], d[3], d[5]);
}

TLI_INLINE void wino_of_filter(vf to[WINO_IN], const vf g[WINO_TAPS])
{
    const vf even_a = vf_mul(vf_set1(WINO_OF_A), WINO_FMA(vf_set1(WINO_A2), g[2], g[0]));
    const vf even_b = vf_mul(vf_set1(WINO_OF_B), WINO_FMA(vf_set1(WINO_B2), g[2], g[0]));
    const vf odd_a = vf_set1(WINO_OF_A * WINO_A), odd_b = vf_set1(WINO_OF_B * WINO_B);
    to[0] = vf_mul(vf_set1(WINO_OF_0), g[0]);
    to[1] = WINO_FMA(odd_a, g[1], even_a);
    to[2] = WINO_FNMA(odd_a, g[1], even_a);
    to[3] = WINO_FMA(odd_b, g[1], even_b);
    to[4] = WINO_FNMA(odd_b, g[1], even_b);
    to[5] = g[2];
}

TLI_INLINE void wino_to_results(vf to[WINO_OUT], const vf m[WINO_IN])
{
    const vf even_a = vf_add(m[1], m[2]), odd_a = vf_sub(m[1], m[2]);
    const vf even_b = vf_add(m[3], m[4]), odd_b = vf_sub(m[3], m[4]);
    const vf a = vf_set1(WINO_A), b = vf_set1(WINO_B);
    to[0] = vf_add(m[0], vf_add(even_a, even_b));
    to[1] = WINO_FMA(a, odd_a, vf_mul(b, odd_b));
    to[2] = WINO_FMA(vf_set1(WINO_A2), even_a, vf_mul(vf_set1(WINO_B2), even_b));
    to[3] = WINO_FMA(vf_set1(WINO_A2 * WINO_A), odd_a,
                     WINO_FMA(vf_set1(WINO_B2 * WINO_B), odd_b, m[5]));
}

/* The other way around, for the filter's gradient: results at a pair of points. */
TLI_INLINE void wino_pair_of_results(vf *plus, vf *minus, float point, const vf y[WINO_OUT])
{
    const vf square = vf_set1(point * point), x = vf_set1(point);
    const vf even = WINO_FMA(square, y[2], y[0]), odd = WINO_FMA(square, y[3], y[1]);
    *plus = WINO_FMA(x, odd, even);
    *minus = WINO_FNMA(x, odd, even);
}

TLI_INLINE void wino_of_results(vf to[WINO_IN], const vf y[WINO_OUT])
{
    to[0] = y[0];
    wino_pair_of_results(&to[1], &to[2], WINO_A, y);
    wino_pair_of_results(&to[3], &to[4], WINO_B, y);
    to[5] = y[3];
}

TLI_INLINE void wino_to_filter(vf to[WINO_TAPS], const vf m[WINO_IN])
{
    const vf a = vf_set1(WINO_OF_A), b = vf_set1(WINO_OF_B);
    const vf even_a = vf_mul(a, vf_add(m[1], m[2])), odd_a = vf_mul(a, vf_sub(m[1], m[2]));
    const vf even_b = vf_mul(b, vf_add(m[3], m[4])), odd_b = vf_mul(b, vf_sub(m[3], m[4]));
    to[0] = WINO_FMA(vf_set1(WINO_OF_0), m[0], vf_add(even_a, even_b));
    to[1] = WINO_FMA(vf_set1(WINO_A), odd_a, vf_mul(vf_set1(WINO_B), odd_b));
    to[2] = WINO_FMA(vf_set1(WINO_A2), even_a, WINO_FMA(vf_set1(WINO_B2), even_b, m[5]));
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Places of the result, or of the image whose gradient is wanted; tap t of place p is pixel
 * p + first + t * step of the source. With a dilation, places that are `step` apart make tiles. */
typedef struct wino_axis {
    int64_t places, source, first, step, in_row, tiles;
} wino_axis;

static inline wino_axis wino_axis_of(int64_t places, int64_t source, int64_t first, int64_t step)
{
    const int64_t in_row = tl_div_up(tl_div_up(places, step), WINO_OUT);
    return (wino_axis){places, source, first, step, in_row, in_row * tl_min_i64(step, places)};
}

/* The first place of a tile. */
static inline int64_t wino_place(const wino_axis *a, int64_t tile)
{
    TL_ASSERT(tile >= 0 && tile < a->tiles);
    return tile / a->in_row + tile % a->in_row * WINO_OUT * a->step;
}

/* Images of tiles; `channels` is what a pixel has. */
typedef struct wino_pixels {
    const float *data, *beside; /* what is read beside the image */
    int64_t height, width, channels;
} wino_pixels;

/* Where the pixels of a tile are: `side` x `side` of them from pixel (y, x) of an image on. */
static inline void wino_find(const float **to, const wino_pixels *p, int side, int64_t image,
                             int64_t y, int64_t x, int64_t step_y, int64_t step_x)
{
    for (int i = 0; i < side; i++, y += step_y) {
        const bool inside = y >= 0 && y < p->height;
        const float *row =
            p->data + (inside ? (image * p->height + y) * p->width : 0) * p->channels;
        int64_t at = x;
        for (int j = 0; j < side; j++, at += step_x)
            *to++ = inside && at >= 0 && at < p->width ? row + at * p->channels : p->beside;
    }
}

#endif
