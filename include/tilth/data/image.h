/* Images on the host, before they become tensors: cut, flipped, resized, normalised.
 *
 *     tl_pixels whole = tl_pixels_of(&decoded);            // a tl_image of bytes
 *     tl_window box = tl_window_random(&rng, whole.height, whole.width, NULL);
 *     tl_pixels part = tl_pixels_crop(&whole, box);        // a view, nothing is copied
 *     tl_pixels out = tl_pixels_new(TL_F32, 224, 224, 3, memory);
 *     tl_pixels_resize_args args = {.mirror = tl_rng_below(&rng, 2) == 1};
 *     TL_TRY(tl_pixels_resize(&out, &part, &args, &scratch));
 *     tl_pixels_normalize(&out, &out, mean, deviation);
 *
 * Everything is a function of its arguments; what is random takes a stream of base/rng.h, and draws
 * the same number of words whatever it decides, so that streams stay in step.
 *
 * Ownership: pixels point to somebody's memory. Thread word: free-threaded; a scratch one thread at
 * a time. */
#ifndef TILTH_DATA_IMAGE_H
#define TILTH_DATA_IMAGE_H

#include <tilth/base/rng.h>
#include <tilth/core/dtype.h>
#include <tilth/io/image/image.h>

TL_BEGIN

enum { TL_PIXELS_CHANNELS = 4 };

/* A view of pixels: rows of `width` pixels of 1 to 4 channels. */
typedef struct tl_pixels {
    tl_dtype dtype; /* TL_U8 or TL_F32 */
    int64_t height, width, channels;
    int64_t stride; /* elements from one row to the next */
    void *data;
} tl_pixels;

/* Rows without anything between them. */
TL_API tl_pixels tl_pixels_new(tl_dtype dtype, int64_t height, int64_t width, int64_t channels,
                               void *data);
TL_API tl_pixels tl_pixels_of(const tl_image *image);
/* A part of them, which must lie within. */
TL_API tl_pixels tl_pixels_crop(const tl_pixels *from, tl_window window);

/* --- moving pixels: both have the same size, channels and type, unless it says otherwise --- */

/* Bytes become floats as they are; floats become bytes rounded to the nearest, ties to even, cut to
 * 0..255, and NaN is 0. `mirror`: left and right change sides. They must not overlap unless they
 * are the same and not mirrored. */
TL_API void tl_pixels_copy(const tl_pixels *out, const tl_pixels *in, bool mirror);
/* In place. */
TL_API void tl_pixels_mirror(const tl_pixels *p);
/* out[y][x] = in[y + top][x + left], and `fill` where that lies outside. So an image that is padded
 * by 4 on all sides and cut at (y, x) again is tl_pixels_shift(out, in, y - 4, x - 4, 0). Sizes may
 * differ. */
TL_API void tl_pixels_shift(const tl_pixels *out, const tl_pixels *in, int64_t top, int64_t left,
                            double fill);
/* out = (in - mean) / deviation for each channel, in float32; `in` of bytes or floats, `out` of
 * floats; they may be the same. */
TL_API void tl_pixels_normalize(const tl_pixels *out, const tl_pixels *in, const float *mean,
                                const float *deviation);

/* --- resizing --------------------------------------------------------------------------------- */

/* As tf.image.resize: pixels have their centres at halves. */
typedef enum tl_pixels_method {
    TL_PIXELS_BILINEAR,
    TL_PIXELS_NEAREST,
    TL_PIXELS_AREA,   /* the mean of what a pixel covers */
    TL_PIXELS_BICUBIC /* Keys, a = -0.5 */
} tl_pixels_method;

typedef struct tl_pixels_resize_args {
    tl_pixels_method method;
    bool antialias; /* bilinear and bicubic: when an image gets smaller all its pixels count */
    bool mirror;    /* and left and right change sides */
    const float *mean,
        *deviation; /* (optional: none) normalises what comes out, which is then of floats */
    /* (optional: what comes out is all of it) The size that `in` is resized to; `out` is the part
     * of that image, mirrored or not, that begins at row `top` and column `left`. */
    int64_t whole_height, whole_width, top, left;
} tl_pixels_resize_args;

/* Memory that resizing uses again and again: rows and weights. Zero-initialised. */
typedef struct tl_pixels_scratch {
    void *memory;
    size_t size;
} tl_pixels_scratch;
TL_API void tl_pixels_scratch_deinit(tl_pixels_scratch *s);

/* From bytes or floats to bytes or floats; `scratch` may be NULL. */
TL_API TL_NODISCARD tl_status tl_pixels_resize(const tl_pixels *out, const tl_pixels *in,
                                               const tl_pixels_resize_args *args,
                                               tl_pixels_scratch *scratch);

/* --- which part of an image ------------------------------------------------------------------- */

/* `fraction` of the shorter side, as a square in the middle: Model Garden's crop for evaluation
 * (0.875). */
TL_API tl_window tl_window_center(int64_t height, int64_t width, double fraction);
/* height x width pixels in the middle; no more than there are. */
TL_API tl_window tl_window_middle(int64_t height, int64_t width, int64_t want_height,
                                  int64_t want_width);

typedef struct tl_random_window_args {
    double area_from, area_to;     /* (optional: 0.08, 1) fraction of the image */
    double aspect_from, aspect_to; /* (optional: 3/4, 4/3) width / height */
    int attempts;                  /* (optional: 10) */
    /* (optional: each will do) whether a window will do */
    bool (*accept)(void *self, const tl_window *window);
    void *self;
} tl_random_window_args;
/* A part of random area and aspect, as TensorFlow's sample_distorted_bounding_box takes it with the
 * whole image as the only box; when no attempt fits it is the whole image. As there, a part that is
 * smaller than the image never lies at its lower or right edge. NULL arguments are the defaults. */
TL_API tl_window tl_window_random(tl_rng *rng, int64_t height, int64_t width,
                                  const tl_random_window_args *args);

TL_END

#endif
