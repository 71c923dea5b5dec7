/* Private to io: what the decoders of images share. */
#ifndef TLI_IO_IMAGE_IMPL_H
#define TLI_IO_IMAGE_IMPL_H

#include <tilth/io/image/image.h>

tl_status tli_image_args_check(const tl_image_args *args);
/* The window of what comes out for an image of this size, in a file of so many bytes: shrunk, never
 * empty. Sizes and windows that are not accepted fail. */
tl_status tli_image_window(tl_window *out, const tl_image_args *args, int64_t height, int64_t width,
                           size_t packed);

/* 1 to 8, as EXIF has it; 1 is upright. */
int tli_exif_orientation(tl_image_format format, const void *data, size_t size);
/* A window of the upright image, in pixels of a file of this size. */
tl_window tli_exif_window(tl_window window, int orientation, int64_t height, int64_t width);
/* Makes pixels of the file upright, in other memory. */
tl_status tli_exif_turn(tl_image *image, int orientation);

/* What the head of a PNG file says. */
tl_status tli_png_look(tl_image_head *out, const void *data, size_t size);
/* tl_png_decode into an image, whose memory is used again; it keeps it after a failure. */
tl_status tli_png_decode(tl_image *out, const void *data, size_t size, int64_t channels,
                         int64_t limit);

#endif
