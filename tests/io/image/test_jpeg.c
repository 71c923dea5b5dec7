/* JPEG, and images of either kind: windows are the very pixels of the whole, sizes after shrinking,
 * channels, memory that is used again, and files that are damaged, cut or of other kinds. What the
 * pixels must be says TensorFlow, in tests/data/test_image_golden.c. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <tilth/base/alloc.h>
#include <tilth/io/image/jpeg.h>
#include <tilth/io/image/png.h>

// Waves and a few edges: something that both survives and shows mistakes.
static tl_image picture(int64_t height, int64_t width, int64_t channels)
{
    tl_image image = TL_IMAGE_INIT;
    assert_ok(tl_image_resize_memory(&image, height, width, channels));
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < channels; c++) {
                double v = 128 + 80 * sin((double)x / (3 + (double)c)) * cos((double)y / 5)
                           + ((x + y) % 9 > 4 ? 30 : 0);
                image.pixels[(y * width + x) * channels + c] = (uint8_t)v;
            }
    return image;
}

static tl_str encode(const tl_image *image, const tl_jpeg_encode_args *args)
{
    tl_str file = TL_STR_INIT;
    assert_ok(tl_jpeg_encode(&file, image, args));
    return file;
}

static double mean_difference(const tl_image *a, const tl_image *b)
{
    double sum = 0;
    int64_t count = a->height * a->width * a->channels;
    assert_true(a->height == b->height && a->width == b->width && a->channels == b->channels);
    for (int64_t i = 0; i < count; i++) sum += abs(a->pixels[i] - b->pixels[i]);
    return sum / (double)count;
}

static void pictures_come_back(void **state)
{
    (void)state;
    for (int64_t channels = 1; channels <= 3; channels += 2)
        for (int i = 0; i < 8; i++) {
            tl_jpeg_encode_args args = {
                .quality = 98,
                .full_colors = i & 1,
                .progressive = i & 2,
                .dct = i & 4 ? TL_JPEG_FLOAT : TL_JPEG_ACCURATE,
            };
            tl_image image = picture(33, 50, channels), back = TL_IMAGE_INIT;
            tl_str file = encode(&image, &args);
            tl_image_head head;
            assert_ok(tl_image_look(&head, file.data, file.length));
            assert_true(head.format == TL_FORMAT_JPEG && head.height == 33 && head.width == 50
                        && head.channels == channels);
            assert_ok(tl_image_decode(&back, file.data, file.length, NULL));
            assert_true(mean_difference(&image, &back)
                        < (channels == 3 && !args.full_colors ? 12 : 2));
            tl_image_deinit(&image);
            tl_image_deinit(&back);
            tl_str_deinit(&file);
        }
}

static void quality_is_size(void **state)
{
    (void)state;
    tl_image image = picture(64, 64, 3);
    tl_str small = encode(&image, &(tl_jpeg_encode_args){.quality = 30}),
           usual = encode(&image, NULL);
    tl_str named = encode(&image, &(tl_jpeg_encode_args){.quality = 95});
    assert_true(small.length * 2 < usual.length);
    assert_int_equal(usual.length, named.length);
    assert_memory_equal(usual.data, named.data, usual.length);
    tl_str_deinit(&small);
    tl_str_deinit(&usual);
    tl_str_deinit(&named);
    tl_image_deinit(&image);
}

// Decodes the window and compares it with that part of the whole.
static void check_window(const tl_str *file, const tl_image *whole, tl_image_args args,
                         tl_image *part)
{
    int64_t s = args.shrink ? args.shrink : 1;
    tl_window w = args.window;
    assert_ok(tl_image_decode(part, file->data, file->length, &args));
    int64_t x = w.x / s, y = w.y / s;
    assert_int_equal(part->width, (w.x + w.width + s - 1) / s - x);
    assert_int_equal(part->height, (w.y + w.height + s - 1) / s - y);
    for (int64_t i = 0; i < part->height; i++)
        if (memcmp(part->pixels + i * part->width * part->channels,
                   whole->pixels + ((y + i) * whole->width + x) * whole->channels,
                   (size_t)(part->width * part->channels))
            != 0)
            fail_msg("row %d of the window %d x %d at row %d, column %d differs (shrink %d)",
                     (int)i, (int)w.height, (int)w.width, (int)w.y, (int)w.x, (int)s);
}

static void windows_are_parts_of_the_whole(void **state)
{
    (void)state;
    enum { HEIGHT = 75, WIDTH = 101 };
    static const int shrinks[] = {1, 2, 8};
    unsigned seed = 1;
    for (int kind = 0; kind < 24; kind++) {
        int64_t channels = kind % 8 == 7 ? 1 : 3;
        tl_image image = picture(HEIGHT, WIDTH, channels), whole = TL_IMAGE_INIT,
                 part = TL_IMAGE_INIT;
        tl_str file = encode(
            &image, &(tl_jpeg_encode_args){.full_colors = kind & 1, .progressive = kind & 2});
        tl_image_args args = {.shrink = shrinks[kind / 8], .plain_upsampling = kind & 4};
        assert_ok(tl_image_decode(&whole, file.data, file.length, &args));
        for (int i = 0; i < 60; i++) {
            seed = seed * 1103515245u + 12345u;
            int64_t w = 1 + (seed >> 8) % WIDTH, h = 1 + (seed >> 18) % HEIGHT;
            seed = seed * 1103515245u + 12345u;
            args.window =
                (tl_window){(seed >> 8) % (WIDTH - w + 1), (seed >> 18) % (HEIGHT - h + 1), w, h};
            check_window(&file, &whole, args, &part);
        }
        tl_image_deinit(&image);
        tl_image_deinit(&whole);
        tl_image_deinit(&part);
        tl_str_deinit(&file);
    }
}

// As few programs write them: one column of colours for four of brightness.
static tl_str encode_wide(const tl_image *image)
{
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long size = 0;
    tl_str file = TL_STR_INIT;
    j.err = jpeg_std_error(&errors);
    jpeg_create_compress(&j);
    jpeg_mem_dest(&j, &data, &size);
    j.image_width = (JDIMENSION)image->width;
    j.image_height = (JDIMENSION)image->height;
    j.input_components = 3;
    j.in_color_space = JCS_RGB;
    jpeg_set_defaults(&j);
    j.comp_info[0].h_samp_factor = 4;
    j.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&j, TRUE);
    while (j.next_scanline < j.image_height) {
        JSAMPROW row = image->pixels + (size_t)(j.next_scanline * image->width * 3);
        jpeg_write_scanlines(&j, &row, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    tl_str_addn(&file, (const char *)data, size);
    free(data);
    return file;
}

static void windows_with_wide_colours(void **state)
{
    (void)state;
    tl_image image = picture(40, 150, 3), whole = TL_IMAGE_INIT, part = TL_IMAGE_INIT;
    tl_str file = encode_wide(&image);
    assert_ok(tl_image_decode(&whole, file.data, file.length, NULL));
    for (int64_t x = 0; x < 100; x++)
        check_window(&file, &whole, (tl_image_args){.window = {x, x % 13, 1 + x % 50, 20}}, &part);
    tl_image_deinit(&image);
    tl_image_deinit(&whole);
    tl_image_deinit(&part);
    tl_str_deinit(&file);
}

static void windows_of_png_too(void **state)
{
    (void)state;
    tl_image image = picture(13, 17, 3), whole = TL_IMAGE_INIT, part = TL_IMAGE_INIT;
    tl_png_image png = {image.width, image.height, image.channels, image.pixels};
    tl_str file = TL_STR_INIT;
    assert_ok(tl_png_encode(&file, &png));
    for (int shrink = 1; shrink <= 8; shrink *= 2) {
        tl_image_args args = {.shrink = shrink};
        assert_ok(tl_image_decode(&whole, file.data, file.length, &args));
        assert_int_equal(whole.height, (13 + shrink - 1) / shrink);
        if (shrink == 1) assert_memory_equal(whole.pixels, image.pixels, 13 * 17 * 3);
        args.window = (tl_window){3, 5, 14, 6};
        check_window(&file, &whole, args, &part);
    }
    // The mean of four pixels, rounded.
    assert_ok(tl_image_decode(&whole, file.data, file.length, &(tl_image_args){.shrink = 2}));
    int sum = image.pixels[0] + image.pixels[3] + image.pixels[17 * 3] + image.pixels[18 * 3];
    assert_int_equal(whole.pixels[0], (sum + 2) / 4);
    assert_int_equal(whole.pixels[(6 * 9 + 8) * 3],
                     image.pixels[(12 * 17 + 16) * 3]); // the corner alone
    tl_image_deinit(&image);
    tl_image_deinit(&whole);
    tl_image_deinit(&part);
    tl_str_deinit(&file);
}

static void channels_are_made_as_wanted(void **state)
{
    (void)state;
    tl_image image = picture(8, 8, 3), out[5] = {0};
    tl_str file = encode(&image, NULL);
    for (int64_t c = 1; c <= 4; c++) {
        assert_ok(
            tl_image_decode(&out[c], file.data, file.length, &(tl_image_args){.channels = c}));
        assert_int_equal(out[c].channels, c);
    }
    for (int i = 0; i < 64; i++) {
        assert_int_equal(out[2].pixels[2 * i], out[1].pixels[i]);
        assert_int_equal(out[2].pixels[2 * i + 1], 255);
        assert_memory_equal(out[4].pixels + 4 * i, out[3].pixels + 3 * i, 3);
        assert_int_equal(out[4].pixels[4 * i + 3], 255);
        const uint8_t *p = out[3].pixels + 3 * i;
        assert_near(out[1].pixels[i], 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2], 2);
    }
    for (int c = 0; c < 5; c++) tl_image_deinit(&out[c]);
    tl_image_deinit(&image);
    tl_str_deinit(&file);
}

static void memory_is_used_again(void **state)
{
    (void)state;
    tl_image large = picture(40, 40, 3), small = picture(10, 10, 3), out = TL_IMAGE_INIT;
    tl_str a = encode(&large, NULL), b = encode(&small, NULL);
    assert_ok(tl_image_decode(&out, a.data, a.length, NULL));
    const uint8_t *memory = out.pixels;
    int64_t calls = tl_alloc_calls();
    for (int i = 0; i < 3; i++) {
        assert_ok(tl_image_decode(&out, b.data, b.length, NULL));
        assert_true(out.pixels == memory && out.height == 10 && out.width == 10);
        assert_int_equal(tl_image_decode(&out, b.data, b.length / 2, NULL), TL_EINVAL);
        assert_true(out.pixels == memory && out.height == 0 && out.width == 0);
    }
    assert_int_equal(tl_alloc_calls(), calls);
    // Of PNG too, also when a part or less of it is wanted.
    tl_str png = TL_STR_INIT;
    assert_ok(tl_png_encode(&png, &(tl_png_image){30, 30, 3, large.pixels}));
    static const tl_image_args some[] = {
        {0}, {.window = {3, 4, 10, 20}}, {.shrink = 4}, {.window = {5, 7, 20, 21}, .shrink = 2}};
    for (int i = 0; i < TL_COUNT(some); i++) {
        assert_ok(tl_image_decode(&out, png.data, png.length, &some[i]));
        assert_true(out.pixels == memory && out.height > 0);
        assert_int_equal(tl_image_decode(&out, png.data, png.length / 2, &some[i]), TL_EINVAL);
        assert_true(out.pixels == memory && out.height == 0 && out.width == 0);
    }
    tl_str_deinit(&png);
    assert_ok(tl_jpeg_decode(&out, a.data, a.length, NULL));
    assert_int_equal(tl_jpeg_decode(&out, a.data, a.length, &(tl_image_args){.shrink = 3}),
                     TL_EINVAL);
    assert_true(out.height == 0 && out.width == 0 && out.channels == 0);
    tl_image_deinit(&out);
    tl_image_deinit(&out);
    tl_image_deinit(&large);
    tl_image_deinit(&small);
    tl_str_deinit(&a);
    tl_str_deinit(&b);
}

static void cut_files_are_refused_or_shown(void **state)
{
    (void)state;
    tl_image image = picture(40, 40, 3), out = TL_IMAGE_INIT;
    for (int progressive = 0; progressive < 2; progressive++) {
        tl_str file = encode(&image, &(tl_jpeg_encode_args){.progressive = progressive});
        for (size_t size = 0; size < file.length - 2; size += 3) {
            tl_error_clear();
            assert_int_equal(tl_jpeg_decode(&out, file.data, size, NULL), TL_EINVAL);
            assert_non_null(strstr(tl_error_message(), "reading a JPEG image: "));
        }
        tl_image_args fine = {.cut_is_fine = true};
        assert_ok(tl_jpeg_decode(&out, file.data, file.length / 2, &fine));
        assert_true(out.height == 40 && out.width == 40);
        // What lies below the window need not be there.
        if (!progressive)
            assert_ok(tl_jpeg_decode(&out, file.data, file.length * 3 / 4,
                                     &(tl_image_args){.window = {0, 0, 40, 8}}));
        tl_str_deinit(&file);
    }
    tl_image_deinit(&image);
    tl_image_deinit(&out);
}

static void other_bytes_are_refused(void **state)
{
    (void)state;
    tl_image image = picture(9, 9, 3), out = TL_IMAGE_INIT;
    tl_str file = encode(&image, NULL);
    tl_image_head head;
    static const struct {
        const char *bytes;
        size_t size;
        tl_status status;
        const char *message;
    } cases[] = {
        {"", 0, TL_EINVAL, "an image of no bytes"},
        {"hello", 5, TL_EINVAL, "these 5 bytes are no image: neither JPEG nor PNG begins so"},
        {"GIF89a\1\0\1\0", 10, TL_EUNSUPPORTED,
         "this is a GIF image; only JPEG and PNG can be read"},
        {"BM\0\0\0\0\0\0", 8, TL_EUNSUPPORTED, "this is a BMP image"},
        {"RIFF\0\0\0\0WEBPVP8 ", 16, TL_EUNSUPPORTED, "this is a WebP image"},
        {"II*\0\0\0", 6, TL_EUNSUPPORTED, "this is a TIFF image"},
        {"\0\0\0\x18"
         "ftypheic\0\0\0\0",
         16, TL_EUNSUPPORTED, "this is a HEIC image"},
        {"\xff\xd8\xff\xd9", 4, TL_EINVAL, "reading a JPEG image: "},
        {"\x89PNG\r\n\x1a\n", 8, TL_EINVAL, "reading a PNG image: "},
    };
    for (int i = 0; i < TL_COUNT(cases); i++) {
        assert_fails(tl_image_decode(&out, cases[i].bytes, cases[i].size, NULL), cases[i].status,
                     cases[i].message);
        assert_fails(tl_image_look(&head, cases[i].bytes, cases[i].size), cases[i].status,
                     cases[i].message);
    }
    static const tl_image_args bad[] = {
        {.channels = 5},         {.channels = -1},         {.shrink = 3},
        {.dct = (tl_jpeg_dct)7}, {.window = {1, 0, 9, 9}}, {.window = {0, -1, 2, 2}},
        {.window = {0, 0, 0, 3}}};
    for (int i = 0; i < TL_COUNT(bad); i++)
        assert_int_equal(tl_image_decode(&out, file.data, file.length, &bad[i]), TL_EINVAL);
    assert_fails(
        tl_image_decode(&out, file.data, file.length, &(tl_image_args){.window = {4, 3, 6, 6}}),
        TL_EINVAL, "a window of 6 x 6 pixels at row 3, column 4 does not lie in an image of 9 x 9");
    assert_fails(tl_image_decode(&out, file.data, file.length, &(tl_image_args){.limit = 80}),
                 TL_ELIMIT, "an image of 9 x 9 pixels: no more than 80 are accepted");
    tl_str text = TL_STR_INIT;
    image.channels = 2;
    assert_fails(tl_jpeg_encode(&text, &image, NULL), TL_EINVAL,
                 "1 (grey) or 3 (RGB) channels, not 2");
    image.channels = 3;
    assert_fails(tl_jpeg_encode(&text, &image, &(tl_jpeg_encode_args){.quality = 101}), TL_EINVAL,
                 "not 101");
    image.width = 70000;
    assert_fails(tl_jpeg_encode(&text, &image, NULL), TL_EINVAL, "9 x 70000 pixels");
    assert_int_equal(text.length, 0);
    tl_image_deinit(&image);
    tl_image_deinit(&out);
    tl_str_deinit(&file);
    tl_str_deinit(&text);
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    tl_image image = picture(24, 24, 3), out = TL_IMAGE_INIT;
    for (int progressive = 0; progressive < 2; progressive++) {
        tl_str file =
            encode(&image, &(tl_jpeg_encode_args){.progressive = progressive, .quality = 50});
        for (size_t i = 0; i < file.length; i++)
            for (int fine = 0; fine < 2; fine++) {
                tl_image_args args = {.limit = 1 << 16, .cut_is_fine = fine};
                file.data[i] ^= (char)(1 << i % 8);
                tl_status st = tl_image_decode(&out, file.data, file.length, &args);
                if (st == TL_OK) assert_true(out.width > 0);
                else assert_true(out.width == 0);
                file.data[i] ^= (char)(1 << i % 8);
            }
        tl_str_deinit(&file);
    }
    tl_image_deinit(&image);
    tl_image_deinit(&out);
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    tl_image image = picture(24, 24, 3), out = TL_IMAGE_INIT;
    tl_str file = encode(&image, NULL), again = TL_STR_INIT;
    tl_alloc_fail_at(1, 1);
    tl_status st = tl_jpeg_decode(&out, file.data, file.length, NULL);
    tl_alloc_fail_at(1, 1);
    tl_status write = tl_jpeg_encode(&again, &image, NULL);
    tl_alloc_fail_at(0, 0);
    assert_int_equal(st, TL_ENOMEM);
    assert_int_equal(write, TL_ENOMEM);
    tl_image_deinit(&image);
    tl_image_deinit(&out);
    tl_str_deinit(&file);
    tl_str_deinit(&again);
}

/* --- how the camera was held ------------------------------------------------------------------ */

// A directory of two entries, the second one the orientation, in either order of bytes.
static tl_str exif_of(int orientation, bool big)
{
    static const uint8_t head[2][14] = {{'I', 'I', '*', 0, 8, 0, 0, 0, 2, 0},
                                        {'M', 'M', 0, '*', 0, 0, 0, 8, 0, 2}};
    uint8_t entry[2][12] = {{0x0f, 0x01, 2, 0, 1, 0, 0, 0, 'x'},
                            {0x12, 0x01, 3, 0, 1, 0, 0, 0, (uint8_t)orientation}};
    static const uint8_t big_entry[2][12] = {{0x01, 0x0f, 0, 2, 0, 0, 0, 1, 'x'},
                                             {0x01, 0x12, 0, 3, 0, 0, 0, 1}};
    tl_str out = TL_STR_INIT;
    if (big) memcpy(entry, big_entry, sizeof entry);
    if (big) entry[1][9] = (uint8_t)orientation;
    tl_str_addn(&out, (const char *)head[big], 10);
    tl_str_addn(&out, (const char *)entry, sizeof entry);
    tl_str_addn(&out, "\0\0\0\0", 4);
    return out;
}

static tl_str jpeg_with(const tl_str *file, const tl_str *exif)
{
    tl_str out = TL_STR_INIT;
    size_t length = exif->length + 8;
    tl_str_addn(&out, file->data, 2);
    tl_str_addc(&out, '\xff');
    tl_str_addc(&out, '\xe1');
    tl_str_addc(&out, (char)(length >> 8));
    tl_str_addc(&out, (char)length);
    tl_str_addn(&out, "Exif\0\0", 6);
    tl_str_addn(&out, exif->data, exif->length);
    tl_str_addn(&out, file->data + 2, file->length - 2);
    assert_ok(tl_str_status(&out));
    return out;
}

// Between the head (8 + 25 bytes) and the rest; the reader of pixels passes over a chunk whose
// checksum is wrong.
static tl_str png_with(const tl_str *file, const tl_str *exif)
{
    tl_str out = TL_STR_INIT;
    tl_str_addn(&out, file->data, 33);
    tl_str_addn(&out, "\0\0\0", 3);
    tl_str_addc(&out, (char)exif->length);
    tl_str_addn(&out, "eXIf", 4);
    tl_str_addn(&out, exif->data, exif->length);
    tl_str_addn(&out, "\0\0\0\0", 4);
    tl_str_addn(&out, file->data + 33, file->length - 33);
    assert_ok(tl_str_status(&out));
    return out;
}

// What is seen at the upright image's row y and column x, in words of the standard: where its first
// row and its first column are to be seen.
static const uint8_t *seen_at(const tl_image *file, int orientation, int64_t y, int64_t x)
{
    int64_t bottom = file->height - 1, right = file->width - 1, row = y, column = x;
    switch (orientation) {
    case 2: column = right - x; break;                   // top, right
    case 3: row = bottom - y, column = right - x; break; // bottom, right
    case 4: row = bottom - y; break;                     // bottom, left
    case 5: row = x, column = y; break;                  // left, top
    case 6: row = bottom - x, column = y; break;         // right, top
    case 7: row = bottom - x, column = right - y; break; // right, bottom
    case 8: row = x, column = right - y; break;          // left, bottom
    default: break;
    }
    return file->pixels + (row * file->width + column) * file->channels;
}

static void check_upright(const tl_str *file, const tl_image *plain, int orientation)
{
    tl_image out = TL_IMAGE_INIT, part = TL_IMAGE_INIT;
    tl_image_head head;
    size_t pixel = (size_t)plain->channels;
    assert_ok(tl_image_look(&head, file->data, file->length));
    assert_int_equal(head.orientation, orientation);
    assert_true(head.height == plain->height && head.width == plain->width);
    tl_image_upright(&head);
    assert_ok(tl_image_decode(&out, file->data, file->length, &(tl_image_args){.orient = true}));
    assert_true(out.height == head.height && out.width == head.width);
    assert_true((orientation > 4) == (out.height == plain->width));
    for (int64_t y = 0; y < out.height; y++)
        for (int64_t x = 0; x < out.width; x++)
            assert_memory_equal(out.pixels + (size_t)(y * out.width + x) * pixel,
                                seen_at(plain, orientation, y, x), pixel);
    tl_window w = {3, 5, 9, 7};
    assert_ok(tl_image_decode(&part, file->data, file->length,
                              &(tl_image_args){.orient = true, .window = w}));
    assert_true(part.height == 7 && part.width == 9);
    for (int64_t y = 0; y < 7; y++)
        assert_memory_equal(part.pixels + (size_t)(y * 9) * pixel,
                            out.pixels + (size_t)((y + 5) * out.width + 3) * pixel, 9 * pixel);
    assert_ok(tl_image_decode(&part, file->data, file->length,
                              &(tl_image_args){.orient = true, .shrink = 2}));
    assert_true(part.height == (out.height + 1) / 2 && part.width == (out.width + 1) / 2);
    assert_int_equal(
        tl_image_decode(&part, file->data, file->length,
                        &(tl_image_args){.orient = true, .window = {out.width - 2, 0, 3, 1}}),
        TL_EINVAL);
    assert_ok(tl_image_decode(&out, file->data, file->length, NULL)); // unless it is asked for
    assert_true(out.height == plain->height);
    assert_memory_equal(out.pixels, plain->pixels, (size_t)(out.height * out.width) * pixel);
    tl_image_deinit(&out);
    tl_image_deinit(&part);
}

static void images_are_turned_upright(void **state)
{
    (void)state;
    tl_image image = picture(21, 14, 3), plain = TL_IMAGE_INIT;
    tl_str jpeg = encode(&image, NULL), png = TL_STR_INIT;
    assert_ok(tl_png_encode(&png, &(tl_png_image){14, 21, 3, image.pixels}));
    for (int i = 1; i <= 8; i++)
        for (int big = 0; big < 2; big++) {
            tl_str exif = exif_of(i, big), file = jpeg_with(&jpeg, &exif);
            assert_ok(tl_image_decode(&plain, jpeg.data, jpeg.length, NULL));
            check_upright(&file, &plain, i);
            tl_str_deinit(&file);
            file = png_with(&png, &exif);
            check_upright(&file, &image, i);
            tl_str_deinit(&file);
            tl_str_deinit(&exif);
        }
    tl_image_deinit(&image);
    tl_image_deinit(&plain);
    tl_str_deinit(&jpeg);
    tl_str_deinit(&png);
}

// Whatever is odd counts as upright, and nothing is read beyond its end.
static void odd_exif_does_no_harm(void **state)
{
    (void)state;
    tl_image image = picture(8, 8, 1), out = TL_IMAGE_INIT;
    tl_str jpeg = encode(&image, NULL), exif = exif_of(6, true);
    tl_image_head head;
    for (size_t i = 0; i < exif.length; i++)
        for (int value = 0; value < 256; value += 51) {
            char before = exif.data[i];
            exif.data[i] = (char)value;
            tl_str file = jpeg_with(&jpeg, &exif);
            assert_ok(tl_image_look(&head, file.data, file.length));
            assert_true(head.orientation >= 1 && head.orientation <= 8);
            for (size_t cut = 0; cut < 60 && value == 0; cut++) { // in memory of that size alone
                char *bytes = tl_alloc(cut + 1);
                assert_non_null(bytes);
                memcpy(bytes, file.data, cut);
                (void)!tl_image_look(&head, bytes, cut);
                (void)!tl_image_decode(&out, bytes, cut, &(tl_image_args){.orient = true});
                tl_free(bytes);
            }
            exif.data[i] = before;
            tl_str_deinit(&file);
        }
    tl_str none = exif_of(9, false), file = jpeg_with(&jpeg, &none);
    assert_ok(tl_image_look(&head, file.data, file.length));
    assert_int_equal(head.orientation, 1);
    tl_str_deinit(&none);
    tl_str_deinit(&file);
    tl_str_deinit(&exif);
    tl_str_deinit(&jpeg);
    tl_image_deinit(&image);
    tl_image_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_come_back),
        cmocka_unit_test(quality_is_size),
        cmocka_unit_test(windows_are_parts_of_the_whole),
        cmocka_unit_test(windows_with_wide_colours),
        cmocka_unit_test(windows_of_png_too),
        cmocka_unit_test(channels_are_made_as_wanted),
        cmocka_unit_test(memory_is_used_again),
        cmocka_unit_test(cut_files_are_refused_or_shown),
        cmocka_unit_test(other_bytes_are_refused),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(images_are_turned_upright),
        cmocka_unit_test(odd_exif_does_no_harm),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
