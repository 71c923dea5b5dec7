/* Private to vision: what the task of RetinaNet asks its model. */
#ifndef TILTH_SRC_ZOO_VISION_RETINANET_H
#define TILTH_SRC_ZOO_VISION_RETINANET_H

#include <tilth/zoo/retinanet.h>

/* The outputs of all levels, the lowest first, in full precision: "cls_outputs", NULL or
 * "attribute_outputs", "NAME". `maps` has room for them. */
void tli_retinanet_maps(tl_ctx *c, const tl_retinanet_config *m, const tl_tensors *outputs,
                        const char *what, const char *attribute, tl_tensor **maps);
TL_NODISCARD tl_status tli_retinanet_names(const tl_retinanet_config *m, tl_arena *arena,
                                           const tl_registry *registry, tl_original_names *into);

#endif
