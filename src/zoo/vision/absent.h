/* Private to vision: what Model Garden has and Tilth has not yet, by name. Configurations with such
 * a backbone are read and written; building them is refused. */
#ifndef TILTH_SRC_ZOO_VISION_ABSENT_H
#define TILTH_SRC_ZOO_VISION_ABSENT_H

#include <tilth/zoo/backbone.h>

extern const tl_backbone_class tli_backbone_efficientnet, tli_backbone_mobiledet,
    tli_backbone_revnet, tli_backbone_spinenet, tli_backbone_spinenet_mobile;

#endif
