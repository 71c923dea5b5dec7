/* Private to io/coco: masks while they are made. */
#ifndef TLI_IO_COCO_RLE_H
#define TLI_IO_COCO_RLE_H

#include <tilth/base/vec.h>
#include <tilth/io/coco/rle.h>

TL_NODISCARD tl_status tli_rle_check_size(int64_t height, int64_t width);

/* As tl_rle_from_polygon; its edges may cross columns of pixels *crossings times, from which those
 * that they do are taken. */
TL_NODISCARD tl_status tli_rle_from_polygon(tl_rle *out, const double *corners,
                                            int64_t corner_count, int64_t height, int64_t width,
                                            int64_t *crossings);

/* The lengths so far, which begin with zeros. */
typedef struct tli_runs {
    uint32_t *items;
    int64_t count, capacity;
    int64_t last; /* the pixel at which the run that is open has begun */
} tli_runs;
/* At this pixel zeros become ones, or ones zeros; false, with the error set, without memory. */
bool tli_runs_flip(tli_runs *r, int64_t place);
/* Ends the last run, and hands the memory to the mask. */
TL_NODISCARD tl_status tli_runs_end(tl_rle *out, tli_runs *r, int64_t height, int64_t width);

#endif
