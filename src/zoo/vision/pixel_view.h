/* Private to vision: the logits of one picture, looked at pixel by pixel at another size.
 *
 *     tli_pixel_view v = {.logits = logits, .rows = 64, .columns = 64, .classes = 21};
 *     TL_TRY(tli_pixel_view_back(&v, image_info, size));        // at that of the picture as it was
 *     for (int64_t y = 0; y < size[0]; y++) {
 *         tli_pixel_line(line, &v, y);
 *         for (int64_t x = 0; x < size[1]; x++) use(tli_pixel_class(&v, line, x));
 *     }
 *
 * Logits between places are those of tf.image.resize, bilinear.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_VISION_PIXEL_VIEW_H
#define TILTH_SRC_ZOO_VISION_PIXEL_VIEW_H

#include <tilth/base/status.h>

typedef struct tli_pixel_view {
    const float *logits; /* [rows, columns, classes] */
    int64_t rows, columns, classes;
    int64_t height, width; /* that they are brought to */
    float top, left;       /* where the first pixel that is asked for lies there */
} tli_pixel_view;

/* Sets the size and the place so that pixels are those of the picture before it was prepared, which
 * had `size` of them; image_info may hold any numbers. */
TL_NODISCARD tl_status tli_pixel_view_back(tli_pixel_view *v, const float image_info[8],
                                           int64_t size[2]);

/* What a row of pixels is made of: `line` has room for columns * classes numbers. */
void tli_pixel_line(float *line, const tli_pixel_view *v, int64_t y);
/* The likeliest class of a pixel of that row; of equal ones the lowest. */
int64_t tli_pixel_class(const tli_pixel_view *v, const float *line, int64_t x);

#endif
