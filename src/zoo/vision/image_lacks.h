/* Private to zoo: settings that image classification cannot do without.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_IMAGE_LACKS_H
#define TILTH_SRC_ZOO_IMAGE_LACKS_H

#include <tilth/zoo/vision.h>

/* The method `lacks` of the task. */
TL_NODISCARD tl_status tli_image_lacks(const tl_task_config *config, bool trains, bool evaluates,
                                       tl_lacks *into);

#endif
