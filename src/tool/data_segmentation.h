/* Private to tool: pictures whose pixels are classes, as the records of segmentation have them. */
#ifndef TILTH_SRC_TOOL_DATA_SEGMENTATION_H
#define TILTH_SRC_TOOL_DATA_SEGMENTATION_H

#include "tool/data_make.h"

/* Turns the pixels of a decoded picture, `channels` bytes each, into one class each, in place. */
typedef tl_status tli_classes_fn(uint8_t *classes, const tl_image *picture, void *payload);

/* Reads the picture of classes at `path`, which is as large as `head` says, and appends it as a PNG
 * of one channel. Messages name the file. */
TL_NODISCARD tl_status tli_classes_read(tl_str *png, const char *path, const tl_image_head *head,
                                        tli_classes_fn *take, void *payload);
/* The features image/segmentation/class/encoded and .../format. */
void tli_classes_write(tl_example_writer *w, const tl_str *png);

#endif
