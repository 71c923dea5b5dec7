/* Convolutions of images that lie as [batch, height, width, channels].
 *
 *     tl_tensor *y = tl_convolve2d(c, x, w, .stride = {2}, .padding = TL_SAME);
 *     tl_tensor *d = tl_convolve2d_depthwise(c, x, k);
 *     tl_tensor *u = tl_convolve2d_transpose(c, y, v, .stride = {2, 2}, .padding = TL_SAME);
 *
 * Types of image and filters meet as in arithmetic (tl_dtype_meet) and must be floats.
 * Precision: sums of bfloat16 and float16 are kept in float32 and rounded once. Filters of 3 x 3
 * without a stride in float32 are multiplied in tiles of 4 x 4 results (Winograd's method) where
 * sizes say that it is faster: errors are then 2 to 3 times those of plain sums, about 1e-6 of a
 * typical result, and an infinity or NaN of the image may make all results of its tiles NaN.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_CONV_H
#define TILTH_OPS_CONV_H

#include <tilth/core/attrs.h>
#include <tilth/core/ctx.h>

TL_BEGIN

/* What lies around an image; for convolutions it counts as 0, pooling leaves it out. */
typedef enum tl_padding {
    TL_VALID,   /* nothing: windows lie inside the image */
    TL_SAME,    /* as many places as rows / stride, rounded up; what is odd goes to the end, as in
                 * TensorFlow */
    TL_EXPLICIT /* what `pads` says */
} tl_padding;

/* In lists of two (down, across) a second number of 0 is like the first, and a first of 0 is 1. */
typedef struct tl_convolve2d_args {
    tl_tensor *filters;
    int64_t stride[2], dilation[2];
    tl_padding padding;
    int64_t pads[4]; /* TL_EXPLICIT: top, bottom, left, right */
    int64_t groups;  /* 0 is 1 */
} tl_convolve2d_args;

/* x [n, h, w, in] with filters [kh, kw, in / groups, out] (as in TensorFlow and Keras) is
 * [n, oh, ow, out]. Each group of input channels makes its own share of the output channels. */
TL_API tl_tensor *tl_convolve2d_with(tl_ctx *c, tl_tensor *x, const tl_convolve2d_args *args);
/* tl_convolve2d(c, x, filters, .stride = {2}, ...) */
#define tl_convolve2d(c, x, ...)                                                                   \
    tl_convolve2d_with((c), (x), TL_LITERAL(tl_convolve2d_args, .filters = __VA_ARGS__))

/* Each channel on its own: filters [kh, kw, in, multiplier] give in * multiplier channels, those of
 * one input channel side by side. `groups` is not for the caller to set. */
TL_API tl_tensor *tl_convolve2d_depthwise_with(tl_ctx *c, tl_tensor *x,
                                               const tl_convolve2d_args *args);
#define tl_convolve2d_depthwise(c, x, ...)                                                         \
    tl_convolve2d_depthwise_with((c), (x), TL_LITERAL(tl_convolve2d_args, .filters = __VA_ARGS__))

typedef struct tl_convolve1d_args {
    tl_tensor *filters;
    int64_t stride, dilation; /* 0 is 1 */
    tl_padding padding;
    int64_t pads[2]; /* TL_EXPLICIT: before, after */
    int64_t groups;  /* 0 is 1 */
} tl_convolve1d_args;

/* x [n, length, in] with filters [k, in / groups, out] is [n, places, out]. */
TL_API tl_tensor *tl_convolve1d_with(tl_ctx *c, tl_tensor *x, const tl_convolve1d_args *args);
#define tl_convolve1d(c, x, ...)                                                                   \
    tl_convolve1d_with((c), (x), TL_LITERAL(tl_convolve1d_args, .filters = __VA_ARGS__))

typedef struct tl_convolve2d_transpose_args {
    tl_tensor *filters;
    int64_t stride[2], dilation[2];
    tl_padding padding;
    int64_t pads[4];
    int64_t groups;
    int64_t size[2]; /* rows and columns of the result; 0: what the rule below gives */
} tl_convolve2d_transpose_args;

/* The other direction, from the result of a convolution to its image (Keras' Conv2DTranspose):
 * x [n, h, w, in] with filters [kh, kw, out / groups, in] is [n, oh, ow, out]. TL_SAME gives
 * h * stride rows, TL_VALID h * stride + max(reach - stride, 0), where reach is what a dilated
 * filter covers, and TL_EXPLICIT (h - 1) * stride + reach - top - bottom. `size` chooses another
 * one of the sizes from which the convolution makes h rows. */
TL_API tl_tensor *tl_convolve2d_transpose_with(tl_ctx *c, tl_tensor *x,
                                               const tl_convolve2d_transpose_args *args);
#define tl_convolve2d_transpose(c, x, ...)                                                         \
    tl_convolve2d_transpose_with((c), (x),                                                         \
                                 TL_LITERAL(tl_convolve2d_transpose_args, .filters = __VA_ARGS__))

TL_END

#endif
