/* Private to nn/coco: overlaps of masks that stand in boxes, compared pixel by pixel on a grid. */
#ifndef TLI_NN_COCO_INSTANCE_MASKS_H
#define TLI_NN_COCO_INSTANCE_MASKS_H

#include <tilth/base/status.h>

enum { TLI_INSTANCE_LONGEST = 1 << 13 }; /* side of the grid */

typedef struct tli_instances {
    int64_t count;
    const float *boxes; /* ymin, xmin, ymax, xmax */
    int64_t height, width;
    const float *masks; /* [count, height, width] */
} tli_instances;

/* iou and ioa [found, truths]: common pixels by those of either, and by those of the detection. All
 * boxes together are moved to the corner of the grid, and made smaller if they do not fit. */
TL_NODISCARD tl_status tli_instance_overlaps(float *iou, float *ioa, const tli_instances *found,
                                             const tli_instances *truths,
                                             const int64_t boundary[2]);

#endif
