/* Private to zoo: how a picture is brought to the size of a network's input: scaled, cut to the
 * desired size where it became larger, and padded with zeros where it is smaller.
 *
 *     tli_frame f;
 *     TL_TRY(tli_frame_choose(&f, &framing, picture.height, picture.width, &rng));
 *     TL_TRY(tli_frame_image(&f, floats, &picture, mirror, mean, stddev));
 *     tli_frame_box(&f, box);
 *
 * Numbers are Model Garden's resize_and_crop_image: float32, rounded half to even.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_FRAME_H
#define TILTH_SRC_ZOO_FRAME_H

#include <tilth/data/image.h>

/* The same for all pictures of a set. */
typedef struct tli_framing {
    int64_t height, width;               /* desired: a picture reaches no farther */
    int64_t padded_height, padded_width; /* of what comes out; at least as large */
    bool stretch;                        /* to the desired size; otherwise the shape stays */
    bool centered;                       /* padded on all sides, and not at bottom and right */
    double scale_from, scale_to;         /* of the desired size, at random; 1 and 1: none */
} tli_framing;

typedef struct tli_frame {
    tli_framing how;
    int64_t height, width;               /* of the picture */
    int64_t scaled_height, scaled_width; /* of the picture, scaled */
    float scale_y, scale_x;              /* scaled size / size */
    int64_t top, left;                   /* what is cut off the scaled picture */
    int64_t rows, columns;               /* what is seen of it */
    int64_t down, right;                 /* where that lies */
} tli_frame;

enum { TLI_FRAME_INFO = 8 };

/* `rng` NULL: as in evaluation, without a random scale. */
TL_NODISCARD tl_status tli_frame_choose(tli_frame *out, const tli_framing *how, int64_t height,
                                        int64_t width, const tl_rng *rng);
/* image_info: size, desired size, scale, offset; vertical first. */
void tli_frame_info(const tli_frame *f, float out[TLI_FRAME_INFO]);
/* A picture of bytes of 1 to 4 channels to normalised floats, zeros around them. */
TL_NODISCARD tl_status tli_frame_image(const tli_frame *f, float *out, const tl_pixels *picture,
                                       bool mirror, const float *mean, const float *stddev);
/* Labels of one channel, which are not mixed: the nearest; `beyond` around them. */
TL_NODISCARD tl_status tli_frame_labels(const tli_frame *f, float *out, const tl_pixels *labels,
                                        float beyond);
/* From pixels of the picture to pixels of the input, within the desired size. */
void tli_frame_box(const tli_frame *f, float box[4]);

#endif
