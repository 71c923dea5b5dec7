/* Private to data: what the files of augment.h share.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_DATA_AUGMENT_IMPL_H
#define TILTH_SRC_DATA_AUGMENT_IMPL_H

#include <tilth/data/augment.h>

static inline uint8_t *tli_bytes_row(const tl_pixels *p, int64_t y)
{
    return (uint8_t *)p->data + y * p->stride;
}

static inline bool tli_augment_fit(const tl_pixels *out, const tl_pixels *in)
{
    return out->dtype == TL_U8 && in->dtype == TL_U8 && out->height == in->height
           && out->width == in->width && out->channels == in->channels
           && (in->channels == 1 || in->channels == 3);
}

/* Within 0 and 255, fractions cut off. */
static inline uint8_t tli_byte_cut(float x)
{
    x = x > 0 ? x : 0;
    x = x < 255 ? x : 255;
    return (uint8_t)(int)x;
}

/* 2 half_width x 2 half_height pixels around a place, cut to the image. */
tl_window tli_window_around(int64_t x, int64_t y, int64_t half_width, int64_t half_height,
                            int64_t width, int64_t height);

#endif
