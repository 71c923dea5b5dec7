#include <tilth/io/image/png.h>

#include <inttypes.h>
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <string.h>
#include <zlib.h>

#include <tilth/base/alloc.h>

#include "core/inner/element.h"
#include "io/image/impl.h"

/* What the library calls back with: where bytes go or come from, and what went wrong. */
typedef struct job {
    tl_str *out;
    const char *data;
    size_t size, at;
    bool no_memory;
    char why[120];
} job;

static png_voidp job_alloc(png_structp png, png_alloc_size_t bytes)
{
    job *j = png_get_mem_ptr(png);
    void *memory = tl_alloc(bytes);
    if (!memory) j->no_memory = true;
    return memory;
}

static void job_free(png_structp png, png_voidp memory)
{
    (void)png;
    tl_free(memory);
}

static void job_fail(png_structp png, png_const_charp why)
{
    job *j = png_get_error_ptr(png);
    snprintf(j->why, sizeof j->why, "%s", why);
    png_longjmp(png, 1);
}

static void job_warn(png_structp png, png_const_charp why)
{
    (void)png, (void)why; // what is odd but readable is not worth a message
}

static void job_write(png_structp png, png_bytep data, size_t size)
{
    job *j = png_get_io_ptr(png);
    tl_str_addn(j->out, (const char *)data, size);
    if (!j->out->failed) return;
    j->no_memory = true;
    png_error(png, "out of memory");
}

static void job_flush(png_structp png)
{
    (void)png;
}

static void job_read(png_structp png, png_bytep to, size_t size)
{
    job *j = png_get_io_ptr(png);
    if (size > j->size - j->at) png_error(png, "the file ends too early");
    memcpy(to, j->data + j->at, size);
    j->at += size;
}

static tl_status fail(const job *j, const char *doing)
{
    if (j->no_memory) return TL_FAIL(TL_ENOMEM, "out of memory while %s a PNG image", doing);
    return TL_FAIL(TL_EINVAL, "%s a PNG image: %s", doing, j->why);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void write_image(png_structp png, png_infop info, const tl_png_image *image, bool flat)
{
    static const int colors[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                 PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                 colors[image->channels], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    // Runs of one value are all there is: no filter need be tried, no other match looked for.
    if (flat) {
        png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
        png_set_compression_strategy(png, Z_RLE);
    }
    png_write_info(png, info);
    for (int64_t y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + y * image->width * image->channels);
    png_write_end(png, info);
}

// False when the library jumped out. No variable of this function changes after the mark is set.
static bool write_guarded(png_structp png, png_infop info, job *j, const tl_png_image *image,
                          bool flat)
{
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_write_fn(png, j, job_write, job_flush);
    write_image(png, info, image, flat);
    return true;
}

static tl_status check_size(int64_t width, int64_t height, int64_t channels)
{
    if (width < 1 || height < 1 || width > TL_PNG_LONGEST || height > TL_PNG_LONGEST)
        return TL_FAIL(TL_EINVAL,
                       "an image of %" PRId64 " x %" PRId64 " pixels: each side must have 1 to %d",
                       height, width, TL_PNG_LONGEST);
    if (channels < 1 || channels > 4)
        return TL_FAIL(TL_EINVAL, "an image has 1 (grey) to 4 (RGBA) channels, not %" PRId64,
                       channels);
    return TL_OK;
}

static tl_status encode(tl_str *out, const tl_png_image *image, bool flat)
{
    TL_TRY(check_size(image->width, image->height, image->channels));
    job j = {.out = out};
    size_t before = out->length;
    tl_status st = TL_OK;
    png_structp png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &j, job_fail, job_warn, &j,
                                                job_alloc, job_free);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    j.no_memory = !info;
    if (!info || !write_guarded(png, info, &j, image, flat)) {
        st = fail(&j, "writing");
        if (!out->failed) tl_str_cut(out, before);
    }
    png_destroy_write_struct(&png, &info);
    return st;
}

tl_status tl_png_encode(tl_str *out, const tl_png_image *image)
{
    return encode(out, image, false);
}

tl_status tl_png_encode_flat(tl_str *out, const tl_png_image *image)
{
    return encode(out, image, true);
}

static uint8_t byte_of(double x)
{
    // As TensorFlow turns floats into bytes: 256 steps of almost the same width.
    x *= 255.5;
    return x >= 255 ? 255 : x > 0 ? (uint8_t)x : 0;
}

// Image `index` of what starts at `elements`, as bytes.
static void take_pixels(uint8_t *pixels, const tl_tensor *t, const void *elements, int64_t index,
                        int64_t count)
{
    const float *floats = elements;
    if (t->dtype == TL_U8) memcpy(pixels, (const uint8_t *)elements + index * count, (size_t)count);
    else if (t->dtype == TL_F32)
        for (int64_t i = 0; i < count; i++) pixels[i] = byte_of(floats[index * count + i]);
    else
        for (int64_t i = 0; i < count; i++)
            pixels[i] = byte_of(tli_element_get(t->dtype, elements, index * count + i));
}

// `t` has a batch axis when `rank` is 4.
static tl_status from_tensor(tl_str *out, const tl_tensor *t, int rank, int64_t index)
{
    char spec[TL_TENSOR_TEXT];
    if (t->shape.rank != rank || (t->dtype != TL_U8 && !tl_dtype_is_float(t->dtype)))
        return TL_FAIL(
            TL_EINVAL, "%s is no image; it must be %s of uint8 or floats", tl_tensor_spec(spec, t),
            rank == 3 ? "[height, width, channels]" : "[count, height, width, channels]");
    const int64_t *dims = t->shape.dims + (rank - 3);
    if (index < 0 || (rank == 4 && index >= t->shape.dims[0]))
        return TL_FAIL(TL_EINVAL, "%s has no image %" PRId64, tl_tensor_spec(spec, t), index);
    TL_TRY_NOTE(check_size(dims[1], dims[0], dims[2]), "%s", tl_tensor_spec(spec, t));
    int64_t count = dims[0] * dims[1] * dims[2];
    tl_lease lease = {0};
    tl_png_image image = {.width = dims[1],
                          .height = dims[0],
                          .channels = dims[2],
                          .pixels = tl_alloc((size_t)count)};
    if (!image.pixels) return TL_FAIL_NOMEM(count);
    tl_status st;
    TL_TRY_DONE(st, tl_lease_read(&lease, t));
    take_pixels(image.pixels, t, lease.data, index, count);
    st = tl_png_encode(out, &image);
done:
    tl_lease_drop(&lease);
    tl_free(image.pixels);
    return st;
}

tl_status tl_png_from_tensor(tl_str *out, const tl_tensor *image)
{
    return from_tensor(out, image, 3, 0);
}

tl_status tl_png_from_batch(tl_str *out, const tl_tensor *images, int64_t index)
{
    return from_tensor(out, images, 4, index);
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool has_alpha(png_structp png, png_infop info)
{
    return (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) != 0
           || png_get_valid(png, info, PNG_INFO_tRNS) != 0;
}

static bool has_colors(png_structp png, png_infop info)
{
    return (png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR) != 0;
}

// Asks for pixels of 8 bits and that many channels; says how many there will be.
static int64_t set_channels(png_structp png, png_infop info, int64_t wanted)
{
    bool alpha = has_alpha(png, info), colored = has_colors(png, info);
    png_set_expand(png); // palettes, small depths, transparent colours
    png_set_scale_16(png);
    if (!wanted) return (colored ? 3 : 1) + (alpha ? 1 : 0);
    if (wanted % 2 == 1 && alpha) png_set_strip_alpha(png);
    if (wanted % 2 == 0 && !alpha) png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
    if (wanted >= 3 && !colored) png_set_gray_to_rgb(png);
    if (wanted <= 2 && colored)
        png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, PNG_RGB_TO_GRAY_DEFAULT,
                            PNG_RGB_TO_GRAY_DEFAULT);
    return wanted;
}

// Makes pixels and, interlaced files being spread over several passes, reads the rows in place.
static void read_image(png_structp png, png_infop info, job *j, tl_image *out, int64_t wanted,
                       int64_t limit)
{
    png_read_info(png, info);
    int64_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    if (width > limit / height) png_error(png, "it has more pixels than are accepted");
    int64_t channels = set_channels(png, info, wanted);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    size_t row = (size_t)(width * channels);
    if (png_get_rowbytes(png, info) != row)
        png_error(png, "its rows are not as long as its head says");
    j->no_memory = tl_image_resize_memory(out, height, width, channels) != TL_OK;
    if (j->no_memory) png_error(png, "out of memory");
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < height; y++) png_read_row(png, out->pixels + (size_t)y * row, NULL);
    png_read_end(png, NULL);
}

static bool look_guarded(png_structp png, png_infop info, job *j, tl_image_head *out)
{
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_read_fn(png, j, job_read);
    png_set_user_limits(png, TL_PNG_LONGEST, TL_PNG_LONGEST);
    png_read_info(png, info);
    int64_t channels = (has_colors(png, info) ? 3 : 1) + (has_alpha(png, info) ? 1 : 0);
    *out = (tl_image_head){TL_FORMAT_PNG, png_get_image_height(png, info),
                           png_get_image_width(png, info), channels,
                           tli_exif_orientation(TL_FORMAT_PNG, j->data, j->size)};
    return true;
}

tl_status tli_png_look(tl_image_head *out, const void *data, size_t size)
{
    job j = {.data = data, .size = size};
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &j, job_fail, job_warn, &j,
                                               job_alloc, job_free);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    j.no_memory = !info;
    tl_status st = info && look_guarded(png, info, &j, out) ? TL_OK : fail(&j, "reading");
    png_destroy_read_struct(&png, &info, NULL);
    return st;
}

static bool read_guarded(png_structp png, png_infop info, job *j, tl_image *out, int64_t channels,
                         int64_t limit)
{
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_read_fn(png, j, job_read);
    png_set_user_limits(png, TL_PNG_LONGEST, TL_PNG_LONGEST);
    read_image(png, info, j, out, channels, limit);
    return true;
}

tl_status tli_png_decode(tl_image *out, const void *data, size_t size, int64_t channels,
                         int64_t limit)
{
    out->height = out->width = out->channels = 0;
    if (channels < 0 || channels > 4)
        return TL_FAIL(
            TL_EINVAL,
            "an image has 1 (grey) to 4 (RGBA) channels, or 0 for those of the file, not %" PRId64,
            channels);
    job j = {.data = data, .size = size};
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &j, job_fail, job_warn, &j,
                                               job_alloc, job_free);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    tl_status st = TL_OK;
    j.no_memory = !info;
    if (!info || !read_guarded(png, info, &j, out, channels, limit)) {
        st = fail(&j, "reading");
        out->height = out->width = out->channels = 0;
    }
    png_destroy_read_struct(&png, &info, NULL);
    return st;
}

tl_status tl_png_decode(tl_png_image *out, const void *data, size_t size, int64_t channels,
                        int64_t limit)
{
    tl_image image = TL_IMAGE_INIT;
    tl_status st = tli_png_decode(&image, data, size, channels, limit);
    if (st != TL_OK) tl_image_deinit(&image);
    *out = (tl_png_image){image.width, image.height, image.channels, image.pixels};
    return st;
}
