/* Private to vision: how often pixels of one class were taken for another, and intersection over
 * union of each class. Counted on the host, in whole numbers.
 *
 *     tli_pixel_counts *n;
 *     TL_TRY(tli_pixel_counts_new(&n, 21));
 *     TL_TRY(tli_pixel_counts_add(n, &(tli_pixel_batch){...}));
 *     tli_pixel_counts_iou(n, iou);
 *     tli_pixel_counts_free(&n);
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_SRC_ZOO_VISION_PIXEL_COUNTS_H
#define TILTH_SRC_ZOO_VISION_PIXEL_COUNTS_H

#include <tilth/core/tensor.h>

typedef struct tli_pixel_counts tli_pixel_counts;
TL_NODISCARD tl_status tli_pixel_counts_new(tli_pixel_counts **out, int64_t num_classes);
/* NULL is fine. */
void tli_pixel_counts_free(tli_pixel_counts **n);
void tli_pixel_counts_reset(tli_pixel_counts *n);

typedef struct tli_pixel_batch {
    const tl_tensor *logits;     /* float32 [batch, rows, columns, classes] */
    const tl_tensor *masks;      /* float32 [batch, height, width, 1] */
    const tl_tensor *image_info; /* float32 [batch, 4, 2] */
    int64_t ignore_label;
    bool gt_is_matting_map; /* a share above one half is the second class */
    /* Masks have the pixels of the pictures as they were, filled up, and logits are brought there;
     * else to the size of the masks. */
    bool rescale;
} tli_pixel_batch;
TL_NODISCARD tl_status tli_pixel_counts_add(tli_pixel_counts *n, const tli_pixel_batch *b);

/* Of each class; 0 where it neither is nor is said. */
void tli_pixel_counts_iou(const tli_pixel_counts *n, double *iou);

#endif
