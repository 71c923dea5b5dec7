/* Private to zoo: what readers of images share.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_IMAGE_INPUTS_H
#define TILTH_SRC_ZOO_IMAGE_INPUTS_H

#include <tilth/data/sample.h>

/* The feature of records that says how their images are encoded, bytes [-1]; it may be empty. */
#define TLI_IMAGE_FORMAT "image/format"
/* Gives the field `image` its shape when the format of the record is "raw": bytes that are pixels
 * already. */
TL_NODISCARD tl_status tli_image_shape_raw(const char *image, tl_sample *s);

#endif
