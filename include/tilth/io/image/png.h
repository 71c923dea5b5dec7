/* PNG images, made from pixels and tensors and read back.
 *
 *     tl_str file = TL_STR_INIT;
 *     TL_TRY_DONE(st, tl_png_from_tensor(&file, image));               // [height, width, channels]
 *     st = tl_file_write_atomic("digit.png", file.data, file.length);
 * done:
 *     tl_str_deinit(&file);
 *
 * Pixels are bytes, row by row from the top: 1 channel is grey, 2 grey with alpha, 3 RGB, 4 RGBA.
 *
 * Ownership: the caller's. Thread word: free-threaded. */
#ifndef TILTH_IO_PNG_H
#define TILTH_IO_PNG_H

#include <tilth/core/tensor.h>

TL_BEGIN

/* The longest side that is written and read: more is a mistake or an attack. */
enum { TL_PNG_LONGEST = 1 << 16 };

typedef struct tl_png_image {
    int64_t width, height, channels; /* 1 to 4 */
    uint8_t *pixels;                 /* height * width * channels of them */
} tl_png_image;

/* Appends a PNG file to `out`. */
TL_API TL_NODISCARD tl_status tl_png_encode(tl_str *out, const tl_png_image *image);
/* The same for masks and classes of pixels, whose values are equal over wide areas: several times
 * as fast, and smaller. */
TL_API TL_NODISCARD tl_status tl_png_encode_flat(tl_str *out, const tl_png_image *image);
/* The same from a tensor: [height, width, channels] of uint8, or of floats, where 0 is black and 1
 * white; what lies beyond them is cut, and NaN is black. */
TL_API TL_NODISCARD tl_status tl_png_from_tensor(tl_str *out, const tl_tensor *image);
/* Image `index` of a batch [count, height, width, channels]. */
TL_API TL_NODISCARD tl_status tl_png_from_batch(tl_str *out, const tl_tensor *images,
                                                int64_t index);

/* Reads a PNG file of any kind as pixels of 8 bits: palettes and small depths are widened, 16 bits
 * cut to their upper 8. `channels` 0: those of the file; otherwise grey, alpha and colours are made
 * or left out as needed. A damaged file, or one of more than `limit` pixels, is refused. The pixels
 * are the caller's, to be freed with tl_free; they are NULL after a failure. */
TL_API TL_NODISCARD tl_status tl_png_decode(tl_png_image *out, const void *data, size_t size,
                                            int64_t channels, int64_t limit);

TL_END

#endif
