/* Private to vision: the heads of RetinaNet, as a layer that takes maps by levels. */
#ifndef TILTH_SRC_ZOO_VISION_RETINANET_HEAD_H
#define TILTH_SRC_ZOO_VISION_RETINANET_HEAD_H

#include <tilth/zoo/retinanet.h>

typedef struct tli_retinanet_head {
    const tl_retinanet_head *config;
    tl_backbone_parts parts;
    tl_levels levels;
    int64_t num_classes, anchors; /* of a place */
} tli_retinanet_head;
/* NULL when the scope failed. `args` must live as long as the model. */
tl_layer *tli_retinanet_head_make(tl_scope *s, const tli_retinanet_head *args);
TL_NODISCARD tl_status tli_retinanet_head_names(const tli_retinanet_head *args,
                                                tl_original_names *into);
/* "cls_outputs/3", in an arena. */
const char *tli_output_name(tl_arena *arena, const char *what, const char *attribute,
                            int64_t level);

#endif
