/* JPEG images, decoded in whole or in part, at full size or smaller, and written.
 *
 *     tl_str file = TL_STR_INIT;
 *     TL_TRY_DONE(st, tl_jpeg_encode(&file, &image, NULL));
 *     tl_image_args half = {.shrink = 2};
 *     TL_TRY_DONE(st, tl_jpeg_decode(&image, file.data, file.length, &half));
 *
 * What may be JPEG or PNG is read through io/image/image.h, which has the arguments.
 *
 * Ownership: the caller's. Thread word: free-threaded; an image one thread at a time. */
#ifndef TILTH_IO_JPEG_H
#define TILTH_IO_JPEG_H

#include <tilth/io/image/image.h>

TL_BEGIN

TL_API TL_NODISCARD tl_status tl_jpeg_look(tl_image_head *out, const void *data, size_t size);
/* Damaged data and files that end early are refused unless args->cut_is_fine. A window gives the
 * very pixels that the whole image has there. CMYK files, which printing shops make, become RGB
 * without a colour profile. */
TL_API TL_NODISCARD tl_status tl_jpeg_decode(tl_image *out, const void *data, size_t size,
                                             const tl_image_args *args);

typedef struct tl_jpeg_encode_args {
    int quality;      /* (optional: 95, as TensorFlow has it) 1 to 100 */
    bool full_colors; /* colours are kept for every pixel, and not for every fourth */
    bool progressive;
    tl_jpeg_dct dct;
} tl_jpeg_encode_args;
/* Appends a JPEG file to `out`; the image has 1 or 3 channels. NULL arguments are the defaults. */
TL_API TL_NODISCARD tl_status tl_jpeg_encode(tl_str *out, const tl_image *image,
                                             const tl_jpeg_encode_args *args);

TL_END

#endif
