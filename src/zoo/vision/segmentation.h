/* Private to vision: what the task of segmentation asks its model. */
#ifndef TILTH_SRC_ZOO_VISION_SEGMENTATION_H
#define TILTH_SRC_ZOO_VISION_SEGMENTATION_H

#include <tilth/zoo/segmentation.h>

TL_NODISCARD tl_status tli_segmentation_names(const tl_segmentation_config *m, tl_arena *arena,
                                              const tl_registry *registry, tl_original_names *into);

#endif
