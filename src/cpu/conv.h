/* Convolutions of row-major images [images, h, w, in] with filters [kh, kw, in / groups, out] into
 * results [images, oh, ow, out], and their two gradients, by five methods:
 *
 *     tli_conv_gemm_*    one matrix product a group, whose operands are gathered while they are
 *                        packed; for everything
 *     tli_conv_cut       the same for parts of the image, where much of a whole product would be
 *                        with the zeros around it; for large dilations (conv_cut.c)
 *     tli_conv_band_*    products on bands of the image that are laid out so that every patch is a
 *                        row of a matrix in memory; for few input channels (simd/conv_band.c)
 *     tli_conv_each_*    vectors over channels, for one channel a group (simd/conv_each.c)
 *     tli_conv_winograd_*  a quarter of the multiplications, for float32 and filters of 3 x 3
 *                        without a stride (simd/conv_winograd.c)
 *
 * Sums are float32 and rounded once. The bits do not depend on the number of threads.
 *
 * Ownership: all memory is the caller's. Thread word: free-threaded. */
#ifndef TLI_CPU_CONV_H
#define TLI_CPU_CONV_H

#include "cpu/gemm.h"

/* Two of x, k, y are read, the third one is written. For products, top and left may be negative:
 * rows and columns of the image before the first window. */
typedef struct tli_conv {
    tl_dtype type; /* F32, BF16 or F16, of all three */
    void *x, *k, *y;
    int64_t images, h, w, in, oh, ow, out, kh, kw;
    int64_t stride_y, stride_x, dilation_y, dilation_x, top, left;
    int64_t groups, group_in, group_out; /* channels of a group */
} tli_conv;

/* k, x -> y;  y, k -> x;  x, y -> k. No dim may be 0. */
typedef tl_status tli_conv_fn(tl_pool *pool, tli_isa isa, const tli_conv *c);
extern tli_conv_fn tli_conv_gemm_result, tli_conv_gemm_image, tli_conv_gemm_filter;

typedef enum tli_conv_want { TLI_CONV_RESULT, TLI_CONV_IMAGE, TLI_CONV_FILTER } tli_conv_want;

/* Another method; `suits` says whether it can, and is the better way. It knows sizes alone. */
typedef struct tli_conv_method {
    bool (*suits)(const tli_conv *c, tli_conv_want what);
    tli_conv_fn *result, *image, *filter;
} tli_conv_method;
extern const tli_conv_method tli_conv_cut;

/* The result and the image's gradient are the same walk: each pixel of a grid takes, for a list of
 * taps, the channels of one pixel of the source, times an element of the filter. For the result the
 * grid is the result and the source is the image. For the gradient the source is the result; with
 * a stride, pixels of the image whose place is the same modulo the stride see the same taps of the
 * filter, and make a grid of their own without a stride. This is one axis of it. */
typedef struct tli_conv_axis {
    int64_t places, source;     /* sizes of grid and source */
    int64_t step, first, delta; /* place p, tap t: p * step + first + t * delta of the source */
    int64_t taps;
    int64_t k_first, k_step; /* tap t is row (column) k_first + t * k_step of the filter */
} tli_conv_axis;

void tli_conv_result_axes(tli_conv_axis *y, tli_conv_axis *x, const tli_conv *c);
/* The grid of pixels first_y, first_y + stride_y, ... and the same across. */
void tli_conv_image_axes(tli_conv_axis *y, tli_conv_axis *x, const tli_conv *c, int64_t first_y,
                         int64_t first_x);

/* Places 0 .. places - 1 of a window that moves by `step` from `first` on; those that lie inside
 * [0, size) are *begin .. *end - 1. */
static inline void tli_conv_inside(int64_t *begin, int64_t *end, int64_t places, int64_t first,
                                   int64_t step, int64_t size)
{
    int64_t from = first < 0 ? (-first + step - 1) / step : 0;
    int64_t to = first < size ? (size - first + step - 1) / step : 0;
    if (to > places) to = places;
    *begin = from < to ? from : to;
    *end = to;
    TL_ASSERT(*begin >= 0 && *begin <= *end && *end <= places);
    // All lie inside.
    TL_ASSERT(*begin == *end || (first + *begin * step >= 0 && first + (*end - 1) * step < size));
}

#endif
