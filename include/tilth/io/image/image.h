/* Images from encoded files: JPEG and PNG, told apart by their first bytes.
 *
 *     tl_image image = TL_IMAGE_INIT;
 *     tl_image_args args = {.channels = 3, .window = {32, 0, 224, 224}};   // x, y, width, height
 *     TL_TRY_DONE(st, tl_image_decode(&image, file.data, file.size, &args));
 *     use(image.pixels, image.height, image.width);
 *     ... another one into the same image, whose memory is used again where it is large enough ...
 * done:
 *     tl_image_deinit(&image);
 *
 * Pixels are bytes, row by row from the top, channels together: 1 channel is grey, 2 grey with
 * alpha, 3 RGB, 4 RGBA.
 *
 * Ownership: the caller's. Thread word: free-threaded; an image one thread at a time. */
#ifndef TILTH_IO_IMAGE_H
#define TILTH_IO_IMAGE_H

#include <tilth/base/str.h>

TL_BEGIN

typedef struct tl_image {
    int64_t height, width, channels;
    uint8_t *pixels; /* height * width * channels of them */
    size_t capacity; /* bytes there is room for; 0 when the pixels belong to somebody else */
} tl_image;
#define TL_IMAGE_INIT TL_INIT(0, 0, 0, NULL, 0)

TL_API void tl_image_deinit(tl_image *image);
/* Gives the image this size; what it shows is not defined. Its memory grows when it must. */
TL_API TL_NODISCARD tl_status tl_image_resize_memory(tl_image *image, int64_t height, int64_t width,
                                                     int64_t channels);

/* A part of an image, in pixels; width and height of 0 mean all of it. */
typedef struct tl_window {
    int64_t x, y, width, height;
} tl_window;

/* How the inverse cosine transform of JPEG is computed. TensorFlow's default is the fast one, PIL's
 * and ours the accurate one; with today's vector instructions they take about the same time. */
typedef enum tl_jpeg_dct { TL_JPEG_ACCURATE, TL_JPEG_FAST, TL_JPEG_FLOAT } tl_jpeg_dct;

/* Zero is the default of everything. */
typedef struct tl_image_args {
    /* 0: those of the file; 1 to 4. An alpha that the file does not have is 255. */
    int64_t channels;
    tl_window window; /* what is decoded, in pixels of the whole image. A JPEG's other parts cost
                       * little. */
    int shrink;       /* 0 and 1: as it is; 2, 4 and 8 make the image smaller by that factor, sizes
                       * rounded up, from as much of a JPEG's data; a PNG's pixels are averaged. The
                       * window's corners are then rounded outwards. */
    /* the most pixels an image may have, window or not. 0: 100 for each byte of the file, or 2^26
     * where that is more, and never beyond 2^28; or what TILTH_UNPACK_LIMIT says */
    int64_t limit;
    tl_jpeg_dct dct;
    bool plain_upsampling; /* colours of a JPEG are repeated and not interpolated */
    /* colours at a JPEG window's edges know nothing of what is outside, as in TensorFlow's
     * decode_and_crop_jpeg; otherwise a window has the pixels of the whole image */
    bool plain_edges;
    bool cut_is_fine; /* a JPEG that ends early, or is damaged, is shown as far as it goes */
    /* turned as the EXIF orientation of the file says; the window is one of the upright image. Of
     * tl_image_decode alone. */
    bool orient;
} tl_image_args;

typedef enum tl_image_format {
    TL_FORMAT_UNKNOWN,
    TL_FORMAT_JPEG,
    TL_FORMAT_PNG,
    TL_FORMAT_GIF,
    TL_FORMAT_BMP,
    TL_FORMAT_WEBP,
    TL_FORMAT_TIFF,
    TL_FORMAT_HEIC,
    TL_FORMAT_AVIF
} tl_image_format;
/* By the first bytes. */
TL_API tl_image_format tl_image_format_of(const void *data, size_t size);
/* "JPEG", "PNG", ...; "unknown". */
TL_API const char *tl_image_format_name(tl_image_format format);

typedef struct tl_image_head {
    tl_image_format format;
    int64_t height, width, channels; /* of the file, as channels = 0 gives them */
    int orientation; /* of EXIF, in a JPEG's APP1 or a PNG's eXIf: 1 to 8; 1 when there is none */
} tl_image_head;
/* What the file's head says; the pixels are not looked at. JPEG and PNG only, as everywhere here:
 * others are refused by their names. */
TL_API TL_NODISCARD tl_status tl_image_look(tl_image_head *out, const void *data, size_t size);
/* The size that the image has when it is turned, as `orient` decodes it. */
TL_API void tl_image_upright(tl_image_head *head);
/* NULL arguments are the defaults. After a failure the image has no size, but keeps its memory. */
TL_API TL_NODISCARD tl_status tl_image_decode(tl_image *out, const void *data, size_t size,
                                              const tl_image_args *args);

TL_END

#endif
