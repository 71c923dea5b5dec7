#include "core/lab.h"
#include "io/alloc_failures.h"

#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/io/image/png.h>

enum { LIMIT = 1 << 20 };

static void fill(uint8_t *pixels, int64_t count, unsigned seed)
{
    for (int64_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 16);
}

static void pixels_come_back(void **state)
{
    (void)state;
    static const struct {
        int64_t width, height;
    } sizes[] = {{1, 1}, {5, 3}, {64, 33}, {300, 2}};
    for (int64_t channels = 1; channels <= 4; channels++)
        for (int i = 0; i < TL_COUNT(sizes); i++) {
            tl_png_image image = {sizes[i].width, sizes[i].height, channels, NULL}, back;
            int64_t count = image.width * image.height * channels;
            tl_str file = TL_STR_INIT;
            image.pixels = malloc((size_t)count);
            fill(image.pixels, count, (unsigned)count);
            tl_str_add(&file, "before"); // it is appended
            assert_ok(tl_png_encode(&file, &image));
            assert_memory_equal(file.data, "before\x89PNG\r\n\x1a\n", 14);
            assert_ok(tl_png_decode(&back, file.data + 6, file.length - 6, 0, LIMIT));
            assert_int_equal(back.width, image.width);
            assert_int_equal(back.height, image.height);
            assert_int_equal(back.channels, channels);
            assert_memory_equal(back.pixels, image.pixels, (size_t)count);
            tl_free(back.pixels);
            free(image.pixels);
            tl_str_deinit(&file);
        }
}

// The same pixels, and a smaller file where they are alike.
static void flat_pictures(void **state)
{
    (void)state;
    enum { SIDE = 200 };
    static uint8_t pixels[SIDE * SIDE * 3];
    for (int64_t channels = 1; channels <= 3; channels += 2)
        for (int noisy = 0; noisy < 2; noisy++) {
            tl_png_image image = {SIDE, SIDE, channels, pixels}, back;
            tl_str flat = TL_STR_INIT, usual = TL_STR_INIT;
            size_t count = (size_t)(SIDE * SIDE * channels);
            if (noisy) fill(pixels, (int64_t)count, 7);
            for (int64_t i = 0; !noisy && i < (int64_t)count; i++) {
                int64_t y = i / channels / SIDE - 100, x = i / channels % SIDE - 90;
                pixels[i] = x * x + y * y < 70 * 70;
            }
            assert_ok(tl_png_encode_flat(&flat, &image));
            assert_ok(tl_png_encode(&usual, &image));
            if (!noisy && channels == 1) assert_true(flat.length < usual.length);
            assert_ok(tl_png_decode(&back, flat.data, flat.length, 0, LIMIT));
            assert_int_equal(back.channels, channels);
            assert_memory_equal(back.pixels, pixels, count);
            tl_free(back.pixels);
            tl_str_deinit(&flat);
            tl_str_deinit(&usual);
        }
}

static void channels_are_made_as_wanted(void **state)
{
    (void)state;
    uint8_t grey[2] = {10, 200}, colors[6] = {255, 0, 0, 7, 7, 7},
            clear[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const struct {
        int64_t from, to;
        uint8_t want[8];
    } cases[] = {
        {1, 2, {10, 255, 200, 255}},
        {1, 3, {10, 10, 10, 200, 200, 200}},
        {1, 4, {10, 10, 10, 255, 200, 200, 200, 255}},
        {3, 4, {255, 0, 0, 255, 7, 7, 7, 255}},
        {4, 3, {1, 2, 3, 5, 6, 7}},
        {3, 1, {54, 7}},
        {3, 3, {255, 0, 0, 7, 7, 7}},
    };
    for (int i = 0; i < TL_COUNT(cases); i++) {
        tl_png_image image = {2, 1, cases[i].from, NULL}, back;
        tl_str file = TL_STR_INIT;
        image.pixels = cases[i].from == 1 ? grey : cases[i].from == 3 ? colors : clear;
        assert_ok(tl_png_encode(&file, &image));
        assert_ok(tl_png_decode(&back, file.data, file.length, cases[i].to, LIMIT));
        assert_int_equal(back.channels, cases[i].to);
        assert_memory_equal(back.pixels, cases[i].want, (size_t)(2 * cases[i].to));
        tl_free(back.pixels);
        tl_str_deinit(&file);
    }
}

static void assert_pixels(const tl_tensor *t, int64_t index, const uint8_t *want, size_t count)
{
    tl_str file = TL_STR_INIT;
    tl_png_image back;
    assert_ok(index < 0 ? tl_png_from_tensor(&file, t) : tl_png_from_batch(&file, t, index));
    assert_ok(tl_png_decode(&back, file.data, file.length, 0, LIMIT));
    assert_int_equal(back.width * back.height * back.channels, count);
    assert_memory_equal(back.pixels, want, count);
    tl_free(back.pixels);
    tl_str_deinit(&file);
}

static void floats_become_bytes_as_tensorflow_has_it(void **state)
{
    (void)state;
    tl_engine *e = open_engine();
    const double x[] = {0, 1, 0.5, -1, 2, NAN, 1 / 255.0, 0.999};
    const uint8_t want[] = {0, 255, 127, 0, 255, 0, 1, 255};
    static const tl_dtype types[] = {TL_F32, TL_F64};
    for (int i = 0; i < TL_COUNT(types); i++) {
        tl_tensor *t = tensor_of(e, types[i], TL_SHAPE(2, 4, 1), x);
        assert_pixels(t, -1, want, sizeof want);
        tl_tensor_free(&t);
        t = tensor_of(e, types[i], TL_SHAPE(2, 1, 4, 1), x);
        assert_pixels(t, 1, want + 4, 4);
        tl_tensor_free(&t);
    }
    const double bytes[] = {0, 1, 2, 3, 100, 255};
    const uint8_t same[] = {0, 1, 2, 3, 100, 255};
    tl_tensor *t = tensor_of(e, TL_U8, TL_SHAPE(1, 2, 3), bytes);
    assert_pixels(t, -1, same, sizeof same);
    tl_tensor_free(&t);
    const double halves[] = {0.25, 0.75}; // exact in bfloat16
    t = tensor_of(e, TL_BF16, TL_SHAPE(2, 1, 1), halves);
    assert_pixels(t, -1, (const uint8_t[]){63, 191}, 2);
    tl_tensor_free(&t);
    close_engine(&e);
}

static void what_is_no_image_is_refused(void **state)
{
    (void)state;
    tl_engine *e = open_engine();
    tl_str file = TL_STR_INIT;
    tl_tensor *t = tensor_of(e, TL_F32, TL_SHAPE(2, 2), NULL);
    assert_fails(tl_png_from_tensor(&file, t), TL_EINVAL,
                 "float32[2, 2] is no image; it must be [height, width");
    tl_tensor_free(&t);
    t = tensor_of(e, TL_I32, TL_SHAPE(2, 2, 1), NULL);
    assert_fails(tl_png_from_tensor(&file, t), TL_EINVAL, "int32[2, 2, 1] is no image");
    tl_tensor_free(&t);
    t = tensor_of(e, TL_U8, TL_SHAPE(2, 2, 5), NULL);
    assert_fails(tl_png_from_tensor(&file, t), TL_EINVAL, "1 (grey) to 4 (RGBA) channels, not 5");
    assert_fails(tl_png_from_batch(&file, t, 0), TL_EINVAL, "must be [count, height");
    tl_tensor_free(&t);
    t = tensor_of(e, TL_U8, TL_SHAPE(2, 0, 1), NULL);
    assert_fails(tl_png_from_tensor(&file, t), TL_EINVAL, "each side must have 1 to 65536");
    tl_tensor_free(&t);
    t = tensor_of(e, TL_U8, TL_SHAPE(2, 1, 1, 1), NULL);
    assert_fails(tl_png_from_batch(&file, t, 2), TL_EINVAL, "has no image 2");
    tl_tensor_free(&t);
    assert_int_equal(file.length, 0);
    tl_png_image back;
    assert_fails(tl_png_decode(&back, "", 0, 5, LIMIT), TL_EINVAL, "not 5");
    assert_fails(tl_png_decode(&back, "not a PNG file", 14, 0, LIMIT), TL_EINVAL,
                 "reading a PNG image: Not a PNG");
    close_engine(&e);
}

static void damaged_files_are_refused_or_read(void **state)
{
    (void)state;
    tl_png_image image = {9, 7, 3, NULL}, back;
    uint8_t pixels[9 * 7 * 3];
    tl_str file = TL_STR_INIT;
    image.pixels = pixels;
    fill(pixels, sizeof pixels, 5);
    assert_ok(tl_png_encode(&file, &image));
    for (size_t size = 0; size < file.length; size++) {
        tl_error_clear();
        assert_int_equal(tl_png_decode(&back, file.data, size, 0, LIMIT), TL_EINVAL);
        assert_null(back.pixels);
        assert_non_null(strstr(tl_error_message(), "PNG image"));
    }
    // every chunk has a checksum: no flip gives other pixels
    for (size_t i = 0; i < file.length; i++) {
        file.data[i] ^= 0x10;
        tl_status st = tl_png_decode(&back, file.data, file.length, 0, LIMIT);
        if (st == TL_OK) assert_memory_equal(back.pixels, pixels, sizeof pixels);
        tl_free(back.pixels);
        file.data[i] ^= 0x10;
    }
    assert_fails(tl_png_decode(&back, file.data, file.length, 0, 62), TL_EINVAL,
                 "more pixels than are accepted");
    assert_ok(tl_png_decode(&back, file.data, file.length, 0, 63));
    tl_free(back.pixels);
    tl_str_deinit(&file);
}

static tl_status everything(void)
{
    uint8_t pixels[6] = {1, 2, 3, 4, 5, 6};
    tl_png_image image = {2, 1, 3, NULL}, back = {0};
    tl_str file = TL_STR_INIT;
    image.pixels = pixels;
    tl_status st;
    TL_TRY_DONE(st, tl_png_encode(&file, &image));
    st = tl_png_decode(&back, file.data, file.length, 4, LIMIT);
done:
    tl_free(back.pixels);
    tl_str_deinit(&file);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_survives_failures(everything, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_come_back),
        cmocka_unit_test(flat_pictures),
        cmocka_unit_test(channels_are_made_as_wanted),
        cmocka_unit_test(floats_become_bytes_as_tensorflow_has_it),
        cmocka_unit_test(what_is_no_image_is_refused),
        cmocka_unit_test(damaged_files_are_refused_or_read),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
