/* PNG images: the first byte says how many channels are wanted, the rest is the file. What can be
 * read is written and reads back as the same. */
#include "fuzz.h"

#include <tilth/base/alloc.h>
#include <tilth/io/image/png.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tl_png_image image, again;
    tl_str file = TL_STR_INIT;
    if (size < 1) return 0;
    tl_status st = tl_png_decode(&image, data + 1, size - 1, data[0] % 5, 1 << 16);
    if (st != TL_OK) {
        must(!image.pixels && strstr(tl_error_message(), "PNG image"),
             "a failure without a good message");
        return 0;
    }
    must(tl_png_encode(&file, &image) == TL_OK, "what was read cannot be written");
    must(tl_png_decode(&again, file.data, file.length, 0, 1 << 16) == TL_OK,
         "what was written cannot be read");
    size_t bytes = (size_t)(image.width * image.height * image.channels);
    must(again.channels == image.channels && memcmp(again.pixels, image.pixels, bytes) == 0,
         "what was written reads as another");
    tl_free(image.pixels);
    tl_free(again.pixels);
    tl_str_deinit(&file);
    return 0;
}
