/* JPEG and PNG images by way of io/image/image.h: the first five bytes say what is wanted, the rest
 * is the file. A window shows what the whole image shows there. */
#include "fuzz.h"

#include <tilth/io/image/image.h>

static void compare(const tl_image *whole, const tl_image *part, tl_window w)
{
    for (int64_t y = 0; y < part->height; y++)
        must(memcmp(part->pixels + y * part->width * part->channels,
                    whole->pixels + ((w.y + y) * whole->width + w.x) * whole->channels,
                    (size_t)(part->width * part->channels))
                 == 0,
             "a window shows something else");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int shrinks[] = {0, 2, 4, 8};
    if (size < 5) return 0;
    tl_image_args args = {.channels = data[0] % 5,
                          .shrink = shrinks[data[0] / 5 % 4],
                          .limit = 1 << 14,
                          .dct = (tl_jpeg_dct)(data[1] % 3),
                          .plain_upsampling = data[1] & 4,
                          .cut_is_fine = data[1] & 8,
                          .orient = data[1] & 16};
    tl_image whole = TL_IMAGE_INIT, part = TL_IMAGE_INIT;
    tl_image_head head;
    bool seen = tl_image_look(&head, data + 5, size - 5) == TL_OK;
    tl_status st = tl_image_decode(&whole, data + 5, size - 5, &args);
    if (st != TL_OK) {
        must(whole.width == 0 && strstr(tl_error_message(), "image"),
             "a failure without a good message");
    } else {
        must(seen && (args.channels || head.channels == whole.channels),
             "a head that says something else");
        must(head.orientation >= 1 && head.orientation <= 8, "an orientation that there is not");
        bool turned = args.orient && head.orientation != 1;
        if (args.orient) tl_image_upright(&head);
        must(args.shrink || (head.height == whole.height && head.width == whole.width),
             "another size");
        args.window = (tl_window){data[2] % head.width, data[3] % head.height, 1, 1};
        args.window.width += data[4] % (head.width - args.window.x);
        args.window.height += data[4] / 16 % (head.height - args.window.y);
        int64_t s = args.shrink ? args.shrink : 1;
        tl_window w = {args.window.x / s, args.window.y / s, 0, 0};
        st = tl_image_decode(&part, data + 5, size - 5, &args);
        // Damaged data may show something else, or nothing, when parts of it are skipped.
        // Windows of what is shrunk and turned are rounded outwards from another corner.
        if (st == TL_OK && !args.cut_is_fine && !(turned && args.shrink)) compare(&whole, &part, w);
    }
    tl_image_deinit(&whole);
    tl_image_deinit(&part);
    return 0;
}
