/* Masks as COCO keeps them: the lengths of runs of equal pixels, column by column.
 *
 *     tl_rle a = TL_RLE_INIT, b = TL_RLE_INIT;
 *     TL_TRY_DONE(st, tl_rle_from_pixels(&a, pixels, 4, 5));               // row by row
 *     TL_TRY_DONE(st, tl_rle_from_text(&b, "8220000", 7, 4, 5));           // as in JSON files
 *     double overlap = tl_rle_iou(&a, &b, false);
 *     TL_TRY_DONE(st, tl_rle_to_text(&text, &a));                          // "5220003"
 * done:
 *     tl_rle_deinit(&b);
 *     tl_rle_deinit(&a);
 *
 * Runs of zeros and of ones take turns, zeros first; their lengths add up to the number of pixels.
 * All makers check this, and the sizes, since masks come out of files. A maker that fails leaves an
 * empty mask.
 *
 * Ownership: the caller's. Thread word: immutable once made. */
#ifndef TILTH_IO_COCO_RLE_H
#define TILTH_IO_COCO_RLE_H

#include <tilth/base/str.h>

TL_BEGIN

enum {
    TL_RLE_LONGEST = 1 << 16, /* side of a mask; it has less than 2^31 pixels */
    /* times that the edges of one polygon may cross a column of pixels */
    TL_RLE_MOST_CROSSINGS = 1 << 22,
};

typedef struct tl_rle {
    int64_t height, width;
    uint32_t *counts;
    int64_t count;
} tl_rle;
#define TL_RLE_INIT TL_INIT(0, 0, NULL, 0)

TL_API void tl_rle_deinit(tl_rle *mask);

/* --- makers ----------------------------------------------------------------------------------- */

/* From height * width bytes, row by row: what is not 0 belongs to the mask. */
TL_API TL_NODISCARD tl_status tl_rle_from_pixels(tl_rle *out, const uint8_t *pixels, int64_t height,
                                                 int64_t width);
/* The same from a window of the mask, whose upper left corner is `top`, `left`; the rest of the
 * mask is 0. The window lies inside. */
TL_API TL_NODISCARD tl_status tl_rle_from_window(tl_rle *out, const uint8_t *pixels,
                                                 int64_t window_height, int64_t window_width,
                                                 int64_t top, int64_t left, int64_t height,
                                                 int64_t width);
/* From the lengths of the runs. */
TL_API TL_NODISCARD tl_status tl_rle_from_counts(tl_rle *out, const int64_t *counts, int64_t count,
                                                 int64_t height, int64_t width);
/* From their text: each length less the last but one, in groups of five bits. */
TL_API TL_NODISCARD tl_status tl_rle_from_text(tl_rle *out, const char *text, size_t length,
                                               int64_t height, int64_t width);
/* From the corners of a polygon, x0, y0, x1, y1, ... in pixels: three of them or more. */
TL_API TL_NODISCARD tl_status tl_rle_from_polygon(tl_rle *out, const double *corners,
                                                  int64_t corner_count, int64_t height,
                                                  int64_t width);
/* From the probabilities that a model gives for the inside of a box (x, y, width, height, in pixels
 * of the mask): resized to it bilinearly, and more than a half belongs to the mask. */
TL_API TL_NODISCARD tl_status tl_rle_paste(tl_rle *out, const float *probabilities, int64_t rows,
                                           int64_t columns, const float box[4], int64_t height,
                                           int64_t width);
/* What lies in one of the masks, or in all of them. They have one size; there is at least one. */
TL_API TL_NODISCARD tl_status tl_rle_merge(tl_rle *out, const tl_rle *masks, int64_t count,
                                           bool intersect);

/* --- what a mask says ------------------------------------------------------------------------- */

/* height * width bytes of 0 and 1, row by row. */
TL_API void tl_rle_to_pixels(uint8_t *pixels, const tl_rle *mask);
/* Appends the text. */
TL_API TL_NODISCARD tl_status tl_rle_to_text(tl_str *out, const tl_rle *mask);
/* The number of ones. */
TL_API int64_t tl_rle_area(const tl_rle *mask);
/* x, y, width, height of the smallest box around the ones; four times 0 when there are none. As
 * COCO has it, a run that goes on in the next column makes the box as high as the mask. */
TL_API void tl_rle_box(double box[4], const tl_rle *mask);
/* The number of pixels that both have. The sizes are the same. */
TL_API int64_t tl_rle_common(const tl_rle *a, const tl_rle *b);
/* The common pixels by those of either; of a crowd, by those of the detection. Of masks without
 * common pixels 0, of masks of different sizes -1. */
TL_API double tl_rle_iou(const tl_rle *detection, const tl_rle *truth, bool crowd);

TL_END

#endif
