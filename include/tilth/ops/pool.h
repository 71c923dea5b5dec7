/* Pooling and resizing of images that lie as [batch, height, width, channels].
 *
 *     tl_tensor *y = tl_max_pool2d(c, x, .size = {3}, .stride = {2}, .padding = TL_SAME);
 *     tl_tensor *f = tl_global_avg_pool(c, y, false);                       // [batch, channels]
 *     tl_tensor *u = tl_resize(c, y, 64, 64, .method = TL_BILINEAR);
 *
 * Precision: averages of bfloat16 and float16 are kept in float32 and rounded once.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_POOL_H
#define TILTH_OPS_POOL_H

#include <tilth/ops/conv.h>

TL_BEGIN

/* --- pooling ---------------------------------------------------------------------------------- */

/* In lists of two (down, across) a second number of 0 is like the first. */
typedef struct tl_pool2d_args {
    int64_t size[2];   /* of the window */
    int64_t stride[2]; /* 0: the size */
    tl_padding padding;
    int64_t pads[4]; /* TL_EXPLICIT: top, bottom, left, right; each less than the size */
} tl_pool2d_args;

/* The largest element of each window. Gradients flow to the first of the largest, row by row; NaN
 * counts as larger than all. */
TL_API tl_tensor *tl_max_pool2d_with(tl_ctx *c, tl_tensor *x, const tl_pool2d_args *args);
#define tl_max_pool2d(c, x, ...)                                                                   \
    tl_max_pool2d_with((c), (x), TL_LITERAL(tl_pool2d_args, __VA_ARGS__))
/* The mean of the elements of each window; what lies outside of the image does not count. */
TL_API tl_tensor *tl_avg_pool2d_with(tl_ctx *c, tl_tensor *x, const tl_pool2d_args *args);
#define tl_avg_pool2d(c, x, ...)                                                                   \
    tl_avg_pool2d_with((c), (x), TL_LITERAL(tl_pool2d_args, __VA_ARGS__))

/* The same along the second of three dims: [batch, length, channels]. */
typedef struct tl_pool1d_args {
    int64_t size, stride; /* a stride of 0 is the size */
    tl_padding padding;
    int64_t pads[2]; /* TL_EXPLICIT: before, after */
} tl_pool1d_args;
TL_API tl_tensor *tl_max_pool1d_with(tl_ctx *c, tl_tensor *x, const tl_pool1d_args *args);
#define tl_max_pool1d(c, x, ...)                                                                   \
    tl_max_pool1d_with((c), (x), TL_LITERAL(tl_pool1d_args, __VA_ARGS__))
TL_API tl_tensor *tl_avg_pool1d_with(tl_ctx *c, tl_tensor *x, const tl_pool1d_args *args);
#define tl_avg_pool1d(c, x, ...)                                                                   \
    tl_avg_pool1d_with((c), (x), TL_LITERAL(tl_pool1d_args, __VA_ARGS__))

/* The mean or the largest of each channel, over all axes but the first and the last: [n, ...,
 * channels] becomes [n, channels], or with `keep_dims` [n, 1, ..., channels]. Reductions: equal
 * maxima share the gradient. */
TL_API tl_tensor *tl_global_avg_pool(tl_ctx *c, tl_tensor *x, bool keep_dims);
TL_API tl_tensor *tl_global_max_pool(tl_ctx *c, tl_tensor *x, bool keep_dims);

/* --- resizing --------------------------------------------------------------------------------- */

typedef struct tl_resize_args {
    int64_t height, width; /* of the result */
    tl_resize_method method;
    /* Corner pixels lie on each other. Otherwise the corners of the images do: pixel i of the
     * result has its centre at (i + 0.5) * from / to of the input. */
    bool align_corners;
} tl_resize_args;

/* x [n, h, w, channels] with another number of rows and columns: the nearest pixel (TensorFlow's,
 * and PyTorch's nearest-exact), or the four around it (TL_BILINEAR, without antialiasing). */
TL_API tl_tensor *tl_resize_with(tl_ctx *c, tl_tensor *x, const tl_resize_args *args);
/* tl_resize(c, x, height, width, .method = TL_BILINEAR) */
#define tl_resize(c, x, ...) tl_resize_with((c), (x), TL_LITERAL(tl_resize_args, __VA_ARGS__))

TL_END

#endif
