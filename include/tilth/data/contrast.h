/* Views of images for contrastive learning: parts of them, mirrored, in other colours, grey,
 * blurred. What SimCLR of Model Garden (official/projects/simclr) does, in its order.
 *
 *     tl_contrast_look look = {.crop = true, .flip = true, .distort = true, .strength = 1,
 *                              .blur = true};
 *     TL_TRY(tl_contrast_view(out, 32, 32, &look, &image, &rng)); // two calls: two views
 *
 * Single operations work in place on floats of 1 or 3 channels, from 0 to 1; what they compute is
 * what TensorFlow's tf.image computes. Of a single channel, colours and grey are the image itself.
 *
 * A view draws the same number of words from its stream whatever it decides, so that streams stay
 * in step.
 *
 * Ownership: pixels point to somebody's memory. Thread word: free-threaded. */
#ifndef TILTH_DATA_CONTRAST_H
#define TILTH_DATA_CONTRAST_H

#include <tilth/data/image.h>

TL_BEGIN

/* --- one operation ---------------------------------------------------------------------------- */

/* x * scale + shift: brightness is multiplied, or added to. */
TL_API void tl_tone_affine(const tl_pixels *p, double scale, double shift);
/* Distances from the mean of each channel, multiplied. */
TL_API void tl_tone_contrast(const tl_pixels *p, double factor);
/* Saturation is multiplied, up to 1. */
TL_API void tl_tone_saturation(const tl_pixels *p, double factor);
/* Hues are turned by this share of their circle. */
TL_API void tl_tone_hue(const tl_pixels *p, double share);
/* All channels become the grey that people see. */
TL_API void tl_tone_grey(const tl_pixels *p);
TL_API void tl_tone_clip(const tl_pixels *p, double low, double high);
/* By a Gauss curve that is cut off beyond `radius` pixels; around the image it is black. */
TL_API TL_NODISCARD tl_status tl_tone_blur(const tl_pixels *p, int64_t radius, double sigma);

/* --- all of them ------------------------------------------------------------------------------ */

typedef struct tl_contrast_look {
    bool crop;                 /* a part of random area and shape, resized by bicubics */
    double area_from, area_to; /* (optional: 0.08, 1) share of the image that it takes */
    bool flip;                 /* mirrored, with a chance of a half */
    /* brightness, contrast, saturation and hue in random order, with a chance of 0.8; then grey,
     * with one of 0.2 */
    bool distort;
    double strength; /* of these: the first three by up to 0.8 of it, hue by 0.2; at most 1.25 */
    bool additive;   /* brightness is added, as in SimCLR's first version, and not multiplied */
    /* with a chance of a half, by a sigma from 0.1 to 2, as far as a tenth of the height says */
    bool blur;
} tl_contrast_look;

/* One view of an image of bytes, as floats from 0 to 1: height x width x its channels. */
TL_API TL_NODISCARD tl_status tl_contrast_view(float *out, int64_t height, int64_t width,
                                               const tl_contrast_look *look, const tl_pixels *image,
                                               tl_rng *rng);

TL_END

#endif
