/* The other side of check_records.py.
 *
 *     images_driver FILE CHANNELS SHRINK X Y WIDTH HEIGHT
 *
 * writes the pixels of an image, or of a part of it, behind a line with their shape. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tilth/base/file.h>
#include <tilth/io/image/image.h>

static void must(tl_status status)
{
    if (status == TL_OK) return;
    fprintf(stderr, "images_driver: %s\n", tl_error_message());
    exit(1);
}

int main(int argc, char **argv)
{
    tl_file_mapping file;
    tl_image image = TL_IMAGE_INIT;
    if (argc != 8) return 2;
    tl_image_args args = {.channels = atoi(argv[2]),
                          .shrink = atoi(argv[3]),
                          .window = {atoi(argv[4]), atoi(argv[5]), atoi(argv[6]), atoi(argv[7])}};
    must(tl_file_map(&file, argv[1]));
    must(tl_image_decode(&image, file.data, file.size, &args));
    printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", image.height, image.width, image.channels);
    fwrite(image.pixels, 1, (size_t)(image.height * image.width * image.channels), stdout);
    tl_image_deinit(&image);
    tl_file_unmap(&file);
    return 0;
}
