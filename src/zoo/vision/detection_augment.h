/* Private to zoo: random changes of pictures whose boxes move with them.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_DETECTION_AUGMENT_H
#define TILTH_SRC_ZOO_DETECTION_AUGMENT_H

#include <tilth/zoo/detection_inputs.h>

#include "zoo/vision/picture.h"

/* What parser.aug_type says, which may be nothing. Boxes of which nothing is left have no height or
 * no width. */
TL_NODISCARD tl_status tli_detection_augment(const tl_oneof *type, tli_picture *image,
                                             tl_image_boxes boxes, const tl_rng *rng);
/* What parser.aug_rand_jpeg says. */
TL_NODISCARD tl_status tli_detection_lose_quality(const tl_rand_jpeg *how, tli_picture *image,
                                                  const tl_rng *rng);

#endif
