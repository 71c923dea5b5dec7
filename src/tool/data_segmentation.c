#include "tool/data_segmentation.h"

#include <inttypes.h>

#include <tilth/io/image/png.h>

static tl_status encode(tl_str *png, tl_image *picture, const tl_image_head *head,
                        tli_classes_fn *take, void *payload)
{
    if (picture->height != head->height || picture->width != head->width)
        return TL_FAIL(TL_EDATA,
                       "it has %" PRId64 " x %" PRId64 " pixels, but the image %" PRId64
                       " x %" PRId64,
                       picture->height, picture->width, head->height, head->width);
    TL_TRY(take(picture->pixels, picture, payload));
    tl_png_image classes = {picture->width, picture->height, 1, picture->pixels};
    return tl_png_encode(png, &classes);
}

tl_status tli_classes_read(tl_str *png, const char *path, const tl_image_head *head,
                           tli_classes_fn *take, void *payload)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    tl_image picture = TL_IMAGE_INIT;
    TL_TRY(tl_file_map(&file, path));
    tl_status st = tl_image_decode(&picture, file.data, file.size, NULL);
    if (st == TL_OK) st = encode(png, &picture, head, take, payload);
    if (st == TL_OK) st = tl_file_mapping_check(&file, path);
    else st = tl_error_note(st, "'%s'", path);
    tl_image_deinit(&picture);
    tl_file_unmap(&file);
    return st;
}

void tli_classes_write(tl_example_writer *w, const tl_str *png)
{
    tl_example_add_bytes(w, "image/segmentation/class/encoded", &(tl_bytes){png->data, png->length},
                         1);
    tl_example_add_text(w, "image/segmentation/class/format", "png");
}
