/* Private to zoo: names of classes, and whether a model has as many. Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_IMAGE_CLASSES_H
#define TILTH_SRC_ZOO_IMAGE_CLASSES_H

#include <tilth/zoo/vision.h>

/* Names without a number are fine when there are none at all. */
TL_NODISCARD tl_status tli_image_check_classes(tl_strings names, int64_t num_classes);

#endif
