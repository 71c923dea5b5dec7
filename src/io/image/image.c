#include <tilth/io/image/image.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/io/image/jpeg.h>
#include <tilth/io/image/png.h>

#include "io/image/impl.h"
#include "io/inflate.h"

static const int64_t default_limit = 1 << 28;

/* --- memory ----------------------------------------------------------------------------------- */

void tl_image_deinit(tl_image *image)
{
    if (image->capacity) tl_free(image->pixels);
    *image = (tl_image)TL_IMAGE_INIT;
}

tl_status tl_image_resize_memory(tl_image *image, int64_t height, int64_t width, int64_t channels)
{
    TL_ASSERT(height >= 0 && width >= 0 && channels >= 1 && channels <= 4);
    if (width && height > INT64_MAX / 8 / width)
        return TL_FAIL(TL_ELIMIT, "an image of %" PRId64 " x %" PRId64 " pixels is too large",
                       height, width);
    size_t bytes = (size_t)(height * width * channels);
    if (!image->pixels || bytes > image->capacity) {
        // What is in it need not be kept, so nothing is copied.
        size_t capacity = bytes ? bytes : 1;
        tl_image_deinit(image);
        image->pixels = tl_alloc(capacity);
        if (!image->pixels) return TL_FAIL_NOMEM(capacity);
        image->capacity = capacity;
    }
    image->height = height;
    image->width = width;
    image->channels = channels;
    return TL_OK;
}

/* --- arguments -------------------------------------------------------------------------------- */

tl_status tli_image_args_check(const tl_image_args *args)
{
    int s = args->shrink;
    if (args->channels < 0 || args->channels > 4)
        return TL_FAIL(
            TL_EINVAL,
            "an image has 1 (grey) to 4 (RGBA) channels, or 0 for those of the file, not "
            "%" PRId64,
            args->channels);
    if (s != 0 && s != 1 && s != 2 && s != 4 && s != 8)
        return TL_FAIL(TL_EINVAL, "images can be shrunk by 2, 4 or 8, not by %d", s);
    if (args->dct < TL_JPEG_ACCURATE || args->dct > TL_JPEG_FLOAT)
        return TL_FAIL(TL_EINVAL, "there is no cosine transform %d", (int)args->dct);
    return TL_OK;
}

// As many pixels as bytes may come out of a file. Photos have some three for each of theirs.
static tl_status check_pixels(const tl_image_args *args, int64_t height, int64_t width,
                              size_t packed)
{
    int64_t most = tli_unpack_told() ? INT64_MAX : default_limit,
            fair = (int64_t)tli_unpack_limit(packed);
    int64_t limit = args->limit > 0 ? args->limit : fair < most ? fair : most;
    if (height >= 1 && width >= 1 && width <= limit / height) return TL_OK;
    bool unfair = args->limit <= 0 && limit == fair;
    return TL_FAIL(TL_ELIMIT,
                   "an image of %" PRId64 " x %" PRId64 " pixels: no more than %" PRId64
                   " are accepted%s",
                   height, width, limit,
                   unfair ? " in so small a file; if it is to be trusted, raise the limit: "
                            "TILTH_UNPACK_LIMIT=PIXELS"
                          : "");
}

tl_status tli_image_window(tl_window *out, const tl_image_args *args, int64_t height, int64_t width,
                           size_t packed)
{
    tl_window w = args->window;
    int64_t s = args->shrink ? args->shrink : 1;
    TL_TRY(check_pixels(args, height, width, packed));
    if (!w.width && !w.height) w = (tl_window){w.x, w.y, width - w.x, height - w.y};
    if (w.x < 0 || w.y < 0 || w.width < 1 || w.height < 1 || w.width > width
        || w.x > width - w.width || w.height > height || w.y > height - w.height)
        return TL_FAIL(TL_EINVAL,
                       "a window of %" PRId64 " x %" PRId64 " pixels at row %" PRId64
                       ", column %" PRId64 " does not lie in an image of %" PRId64 " x %" PRId64,
                       w.height, w.width, w.y, w.x, height, width);
    int64_t right = tl_div_up(w.x + w.width, s), bottom = tl_div_up(w.y + w.height, s);
    *out = (tl_window){w.x / s, w.y / s, right - w.x / s, bottom - w.y / s};
    return TL_OK;
}

/* --- formats ---------------------------------------------------------------------------------- */

static const struct {
    tl_image_format format;
    const char *name;
    size_t at, size; /* of the bytes that it is known by */
    const char *magic;
} formats[] = {
    {TL_FORMAT_JPEG, "JPEG", 0, 3, "\xff\xd8\xff"},
    {TL_FORMAT_PNG, "PNG", 0, 8, "\x89PNG\r\n\x1a\n"},
    {TL_FORMAT_GIF, "GIF", 0, 4, "GIF8"},
    {TL_FORMAT_WEBP, "WebP", 8, 4, "WEBP"},
    {TL_FORMAT_TIFF, "TIFF", 0, 4, "II*\0"},
    {TL_FORMAT_TIFF, "TIFF", 0, 4, "MM\0*"},
    {TL_FORMAT_BMP, "BMP", 0, 2, "BM"},
    {TL_FORMAT_HEIC, "HEIC", 4, 8, "ftypheic"},
    {TL_FORMAT_HEIC, "HEIC", 4, 8, "ftypheix"},
    {TL_FORMAT_HEIC, "HEIC", 4, 8, "ftypmif1"},
    {TL_FORMAT_AVIF, "AVIF", 4, 8, "ftypavif"},
};

tl_image_format tl_image_format_of(const void *data, size_t size)
{
    for (int64_t i = 0; i < TL_COUNT(formats); i++)
        if (size >= formats[i].at + formats[i].size
            && memcmp((const char *)data + formats[i].at, formats[i].magic, formats[i].size) == 0)
            return formats[i].format;
    return TL_FORMAT_UNKNOWN;
}

const char *tl_image_format_name(tl_image_format format)
{
    for (int64_t i = 0; i < TL_COUNT(formats); i++)
        if (formats[i].format == format) return formats[i].name;
    return "unknown";
}

static tl_status refuse(tl_image_format format, size_t size)
{
    if (format != TL_FORMAT_UNKNOWN)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "this is a %s image; only JPEG and PNG can be read, convert it first",
                       tl_image_format_name(format));
    if (size == 0) return TL_FAIL(TL_EINVAL, "an image of no bytes");
    return TL_FAIL(TL_EINVAL, "these %zu bytes are no image: neither JPEG nor PNG begins so", size);
}

/* --- PNG -------------------------------------------------------------------------------------- */

// What both of these read lies behind what they have written: they need no memory of their own.

// The mean of each square of pixels, rounded; squares at the right and at the bottom may be cut.
static void shrink_pixels(const tl_image *in, tl_window w, int s)
{
    int64_t c = in->channels;
    for (int64_t y = 0; y < w.height; y++)
        for (int64_t x = 0; x < w.width; x++) {
            int64_t top = (w.y + y) * s, left = (w.x + x) * s;
            int64_t rows = in->height - top < s ? in->height - top : s;
            int64_t columns = in->width - left < s ? in->width - left : s;
            for (int64_t k = 0; k < c; k++) {
                int sum = 0;
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < columns; j++)
                        sum += in->pixels[((top + i) * in->width + left + j) * c + k];
                int count = (int)(rows * columns);
                in->pixels[(y * w.width + x) * c + k] = (uint8_t)((sum + count / 2) / count);
            }
        }
}

static void cut_pixels(const tl_image *in, tl_window w)
{
    size_t row = (size_t)(w.width * in->channels);
    for (int64_t y = 0; y < w.height; y++)
        memmove(in->pixels + (size_t)y * row,
                in->pixels + ((w.y + y) * in->width + w.x) * in->channels, row);
}

static tl_status decode_png(tl_image *out, const void *data, size_t size, const tl_image_args *args)
{
    tl_image_head head;
    tl_window window;
    TL_TRY(tli_png_look(&head, data, size));
    // before anything is unpacked
    TL_TRY(tli_image_window(&window, args, head.height, head.width, size));
    TL_TRY(tli_png_decode(out, data, size, args->channels, head.height * head.width));
    if (out->height != head.height
        || out->width != head.width) // a window would reach beyond the pixels
        return TL_FAIL(TL_EIO,
                       "the image has become one of %" PRId64 " x %" PRId64
                       " pixels: its file changed while it was read",
                       out->height, out->width);
    if (args->shrink > 1) shrink_pixels(out, window, args->shrink);
    else if (window.width != out->width || window.height != out->height) cut_pixels(out, window);
    out->height = window.height;
    out->width = window.width;
    return TL_OK;
}

/* --- either ----------------------------------------------------------------------------------- */

tl_status tl_image_look(tl_image_head *out, const void *data, size_t size)
{
    tl_image_format format = tl_image_format_of(data, size);
    *out = (tl_image_head){0};
    if (format == TL_FORMAT_JPEG) return tl_jpeg_look(out, data, size);
    return format == TL_FORMAT_PNG ? tli_png_look(out, data, size) : refuse(format, size);
}

static tl_status decode_as_it_is(tl_image *out, const void *data, size_t size,
                                 const tl_image_args *args, tl_image_format format)
{
    if (format == TL_FORMAT_JPEG) return tl_jpeg_decode(out, data, size, args);
    return format == TL_FORMAT_PNG ? decode_png(out, data, size, args) : refuse(format, size);
}

static tl_status decode_upright(tl_image *out, const void *data, size_t size,
                                const tl_image_args *args, tl_image_format format)
{
    tl_image_head head, upright;
    tl_image_args file = *args;
    TL_TRY(tl_image_look(&head, data, size));
    upright = head;
    tl_image_upright(&upright);
    file.shrink = 1;
    // all of it has a size
    TL_TRY(tli_image_window(&file.window, &file, upright.height, upright.width, size));
    file.window = tli_exif_window(file.window, head.orientation, head.height, head.width);
    file.shrink = args->shrink;
    TL_TRY(decode_as_it_is(out, data, size, &file, format));
    return tli_exif_turn(out, head.orientation);
}

tl_status tl_image_decode(tl_image *out, const void *data, size_t size, const tl_image_args *args)
{
    static const tl_image_args defaults = {0};
    tl_image_format format = tl_image_format_of(data, size);
    if (!args) args = &defaults;
    tl_status st = tli_image_args_check(args);
    if (st == TL_OK)
        st = args->orient && tli_exif_orientation(format, data, size) != 1
                 ? decode_upright(out, data, size, args, format)
                 : decode_as_it_is(out, data, size, args, format);
    if (st != TL_OK) out->height = out->width = out->channels = 0;
    return st;
}
