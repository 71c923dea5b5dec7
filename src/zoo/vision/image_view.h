/* Private to zoo: one image, from bytes to what a model is given.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_IMAGE_VIEW_H
#define TILTH_SRC_ZOO_IMAGE_VIEW_H

#include <tilth/core/shape.h>
#include <tilth/data/augment.h>
#include <tilth/zoo/vision.h>

enum { TLI_VIEW_CHANNELS = 4 };

/* How images are seen. */
typedef struct tli_view {
    int64_t height, width, channels; /* of what comes out */
    float mean[TLI_VIEW_CHANNELS], stddev[TLI_VIEW_CHANNELS];
    bool orient; /* turned as EXIF says */
    /* images are brought down to this shorter side before all else; 0: as they are */
    int64_t side;
    int resize;    /* tl_image_resize */
    bool training; /* what follows `center` is done then alone */
    /* share of the shorter side that is cut out of the middle; 0: all is taken */
    double center;
    bool crop, flip; /* a random part; mirrored or not */
    double area_from, area_to;
    int64_t pad;               /* moved by up to so many pixels */
    double jitter;             /* of colours; 0: none */
    const tl_autoaug *autoaug; /* (optional) this, or randaug */
    const tl_randaug *randaug;
    tl_randaug older; /* for a randaug of its own */
    bool three_augment;
    const tl_random_erasing *erasing; /* (optional) */
} tli_view;

/* Floats of the view's size into `out`. `rng` may be NULL when it does not train. *undecodable,
 * false when called, says that the failure is the file's. */
TL_NODISCARD tl_status tli_view_encoded(float *out, const tli_view *v, const void *file,
                                        size_t bytes, tl_rng *rng, bool *undecodable);
/* The whole image as bytes, brought down to the view's shorter side: what can be kept from one pass
 * to the next, for tli_view_pixels. */
TL_NODISCARD tl_status tli_view_decode(tl_image *out, const tli_view *v, const void *file,
                                       size_t bytes);
/* Bytes [height, width] or [height, width, channels], with as many channels as the view has. */
TL_NODISCARD tl_status tli_view_whole(tl_pixels *out, const tli_view *v, const tl_shape *shape,
                                      const void *pixels);
/* The same as tli_view_encoded of bytes [height, width] or [height, width, channels]. */
TL_NODISCARD tl_status tli_view_pixels(float *out, const tli_view *v, const tl_shape *shape,
                                       const void *pixels, tl_rng *rng);

/* Whether images of these data are turned as their EXIF says. */
bool tli_image_turns(const tl_image_data_config *d);

/* What evaluations, and predictions, do to an image, as JSON for people who do it elsewhere
 * (docs/export.md). */
TL_NODISCARD tl_status tli_image_describe(tl_str *out, const tl_image_data_config *data,
                                          tl_ints size);

#endif
