/* The one thing of EXIF that pixels depend on: how the camera was held. Whatever is odd counts as
 * upright. */
#include <string.h>

#include "io/image/impl.h"

typedef struct tiff {
    const uint8_t *data;
    size_t size;
    bool big; /* the first byte of a number is its largest */
} tiff;

static uint32_t number(const tiff *t, size_t at, int bytes)
{
    uint32_t out = 0;
    for (int i = 0; i < bytes; i++)
        out = out << 8 | t->data[at + (size_t)(t->big ? i : bytes - 1 - i)];
    return out;
}

/* The entry of the first directory: its tag, type, count and value. */
static int orientation_of_tiff(const uint8_t *data, size_t size)
{
    enum { TAG = 0x112, BYTE = 1, SHORT = 3, LONG = 4, ENTRY = 12 };
    if (size < 8) return 1;
    tiff t = {data, size, memcmp(data, "MM\0*", 4) == 0};
    if (!t.big && memcmp(data, "II*\0", 4) != 0) return 1;
    size_t at = number(&t, 4, 4);
    if (at > size - 2) return 1;
    uint32_t entries = number(&t, at, 2);
    for (at += 2; entries > 0 && size >= ENTRY && at <= size - ENTRY; entries--, at += ENTRY) {
        if (number(&t, at, 2) != TAG) continue;
        uint32_t type = number(&t, at + 2, 2);
        int bytes = type == SHORT ? 2 : type == LONG ? 4 : type == BYTE ? 1 : 0;
        uint32_t value = bytes && number(&t, at + 4, 4) == 1 ? number(&t, at + 8, bytes) : 1;
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* A JPEG is a row of segments up to its first scan: a marker, and with most of them a length that
 * counts itself. */
static int orientation_of_jpeg(const uint8_t *data, size_t size)
{
    static const char head[6] = "Exif\0";
    for (size_t at = 2; size >= 4 && at <= size - 4;) {
        int marker = data[at + 1];
        if (data[at] != 0xff) return 1;
        if (marker == 0xff) { // fills up
            at++;
            continue;
        }
        if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) { // alone
            at += 2;
            continue;
        }
        size_t length = (size_t)data[at + 2] << 8 | data[at + 3];
        if (marker == 0xda || marker == 0xd9 || length < 2 || length > size - at - 2) return 1;
        if (marker == 0xe1 && length >= 2 + sizeof head
            && memcmp(data + at + 4, head, sizeof head) == 0)
            return orientation_of_tiff(data + at + 4 + sizeof head, length - 2 - sizeof head);
        at += 2 + length;
    }
    return 1;
}

/* A PNG is a row of chunks: length, name, data, checksum. */
static int orientation_of_png(const uint8_t *data, size_t size)
{
    enum { AROUND = 12 };
    const tiff t = {data, size, true};
    for (size_t at = 8; size >= AROUND && at <= size - AROUND;) {
        size_t length = number(&t, at, 4);
        if (length > size - AROUND - at) return 1;
        if (memcmp(data + at + 4, "eXIf", 4) == 0)
            return orientation_of_tiff(data + at + 8, length);
        at += AROUND + length;
    }
    return 1;
}

int tli_exif_orientation(tl_image_format format, const void *data, size_t size)
{
    if (format == TL_FORMAT_JPEG) return orientation_of_jpeg(data, size);
    return format == TL_FORMAT_PNG ? orientation_of_png(data, size) : 1;
}

/* --- turning ---------------------------------------------------------------------------------- */

/* Where the pixels of an upright image lie in the file: perhaps with sides exchanged, then from the
 * other end. */
static bool is_swapped(int orientation)
{
    return orientation >= 5;
}

static bool is_mirrored(int orientation) // columns
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static bool is_upside_down(int orientation) // rows
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

void tl_image_upright(tl_image_head *head)
{
    int64_t height = head->height;
    if (is_swapped(head->orientation)) {
        head->height = head->width;
        head->width = height;
    }
    head->orientation = 1;
}

tl_window tli_exif_window(tl_window w, int orientation, int64_t height, int64_t width)
{
    if (is_swapped(orientation)) w = (tl_window){w.y, w.x, w.height, w.width};
    if (is_mirrored(orientation)) w.x = width - w.x - w.width;
    if (is_upside_down(orientation)) w.y = height - w.y - w.height;
    return w;
}

tl_status tli_exif_turn(tl_image *image, int orientation)
{
    tl_image turned = TL_IMAGE_INIT;
    // steps in the file, of an upright image's
    int64_t c = image->channels, down = image->width * c, right = c;
    const uint8_t *from = image->pixels;
    bool swapped = is_swapped(orientation);
    int64_t height = swapped ? image->width : image->height,
            width = swapped ? image->height : image->width;
    TL_TRY(tl_image_resize_memory(&turned, height, width, c));
    if (is_upside_down(orientation)) {
        from += (image->height - 1) * down;
        down = -down;
    }
    if (is_mirrored(orientation)) {
        from += (image->width - 1) * right;
        right = -right;
    }
    int64_t by_row = swapped ? right : down, by_column = swapped ? down : right;
    uint8_t *to = turned.pixels;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++, to += c) {
            const uint8_t *pixel = from + y * by_row + x * by_column;
            for (int64_t k = 0; k < c; k++) to[k] = pixel[k];
        }
    tl_image_deinit(image);
    *image = turned;
    return TL_OK;
}
