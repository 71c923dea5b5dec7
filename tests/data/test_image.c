/* Images on the host: views, copies, shifts, normalising, resizing to bytes, and the windows that
 * are drawn. What TensorFlow makes of the same is in test_image_golden.c. */
#include "test.h"

#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/data/image.h>

static void fill(uint8_t *pixels, int64_t count, unsigned seed)
{
    for (int64_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 16);
}

static void crops_are_views(void **state)
{
    (void)state;
    uint8_t bytes[4 * 5 * 3], part[2 * 3 * 3];
    fill(bytes, sizeof bytes, 1);
    tl_image image = {4, 5, 3, bytes, 0};
    tl_pixels whole = tl_pixels_of(&image), view = tl_pixels_crop(&whole, (tl_window){1, 2, 3, 2});
    assert_ptr_equal(view.data, bytes + (2 * 5 + 1) * 3);
    assert_true(view.height == 2 && view.width == 3 && view.stride == 15 && view.channels == 3);
    tl_pixels out = tl_pixels_new(TL_U8, 2, 3, 3, part);
    tl_pixels_copy(&out, &view, false);
    for (int y = 0; y < 2; y++) assert_memory_equal(part + y * 9, bytes + ((y + 2) * 5 + 1) * 3, 9);
    tl_pixels again = tl_pixels_crop(&view, (tl_window){2, 1, 1, 1}); // of a crop
    assert_ptr_equal(again.data, bytes + (3 * 5 + 3) * 3);
    tl_image_deinit(&image); // the bytes are not its own
}

static void mirrors_change_sides(void **state)
{
    (void)state;
    for (int64_t c = 1; c <= 4; c++)
        for (int64_t width = 1; width <= 6; width++) {
            uint8_t bytes[2 * 6 * 4], out[2 * 6 * 4];
            float floats[2 * 6 * 4];
            fill(bytes, sizeof bytes, (unsigned)(width * c));
            tl_pixels in = tl_pixels_new(TL_U8, 2, width, c, bytes),
                      to = tl_pixels_new(TL_U8, 2, width, c, out);
            tl_pixels numbers = tl_pixels_new(TL_F32, 2, width, c, floats);
            tl_pixels_copy(&to, &in, true);
            tl_pixels_copy(&numbers, &in, true);
            for (int64_t y = 0; y < 2; y++)
                for (int64_t x = 0; x < width; x++)
                    for (int64_t k = 0; k < c; k++) {
                        uint8_t want = bytes[(y * width + width - 1 - x) * c + k];
                        assert_int_equal(out[(y * width + x) * c + k], want);
                        assert_true(floats[(y * width + x) * c + k] == (float)want);
                    }
            tl_pixels_mirror(&to);
            assert_memory_equal(out, bytes, (size_t)(2 * width * c));
        }
}

static void floats_become_bytes(void **state)
{
    (void)state;
    float in[] = {-3,     -0.5f, 0.49f, 0.5f, 1.5f,     2.5f,      254.49f,
                  254.5f, 255,   300,   NAN,  INFINITY, -INFINITY, 127.500008f};
    const uint8_t want[] = {0, 0, 0, 0, 2, 2, 254, 254, 255, 255, 0, 255, 0, 128};
    uint8_t out[TL_COUNT(want)];
    tl_pixels from = tl_pixels_new(TL_F32, 1, TL_COUNT(want), 1, in),
              to = tl_pixels_new(TL_U8, 1, TL_COUNT(want), 1, out);
    tl_pixels_copy(&to, &from, false);
    assert_memory_equal(out, want, sizeof want);
}

static void shifts_pad_and_cut(void **state)
{
    (void)state;
    enum { H = 5, W = 4, C = 3 };
    uint8_t bytes[H * W * C], out[H * W * C];
    float floats[H * W * C], moved[H * W * C];
    fill(bytes, sizeof bytes, 3);
    for (int i = 0; i < H * W * C; i++) floats[i] = bytes[i];
    tl_pixels in = tl_pixels_new(TL_U8, H, W, C, bytes), to = tl_pixels_new(TL_U8, H, W, C, out);
    tl_pixels fin = tl_pixels_new(TL_F32, H, W, C, floats),
              fto = tl_pixels_new(TL_F32, H, W, C, moved);
    for (int64_t top = -7; top <= 7; top++)
        for (int64_t left = -6; left <= 6; left++) {
            tl_pixels_shift(&to, &in, top, left, 9);
            tl_pixels_shift(&fto, &fin, top, left, 9);
            for (int64_t y = 0; y < H; y++)
                for (int64_t x = 0; x < W; x++)
                    for (int64_t k = 0; k < C; k++) {
                        int64_t sy = y + top, sx = x + left;
                        bool inside = sy >= 0 && sy < H && sx >= 0 && sx < W;
                        uint8_t want = inside ? bytes[(sy * W + sx) * C + k] : 9;
                        assert_int_equal(out[(y * W + x) * C + k], want);
                        assert_true(moved[(y * W + x) * C + k] == want);
                    }
        }
}

static void normalising_is_by_channel(void **state)
{
    (void)state;
    static const float mean[] = {10, 20, 30, 40}, deviation[] = {2, 3, 4, 5};
    for (int64_t c = 1; c <= 4; c++)
        for (int64_t width = 1; width <= 17; width += 4) {
            uint8_t bytes[3 * 17 * 4];
            float out[3 * 17 * 4];
            fill(bytes, sizeof bytes, 5);
            tl_pixels in = tl_pixels_new(TL_U8, 3, width, c, bytes),
                      to = tl_pixels_new(TL_F32, 3, width, c, out);
            tl_pixels_normalize(&to, &in, mean, deviation);
            for (int64_t i = 0; i < 3 * width * c; i++)
                assert_true(out[i] == ((float)bytes[i] - mean[i % c]) / deviation[i % c]);
            tl_pixels_copy(&to, &in, false);
            tl_pixels_normalize(&to, &to, mean, deviation); // in place
            for (int64_t i = 0; i < 3 * width * c; i++)
                assert_true(out[i] == ((float)bytes[i] - mean[i % c]) / deviation[i % c]);
        }
}

/* --- resizing --------------------------------------------------------------------------------- */

static void a_view_is_resized_as_its_copy(void **state)
{
    (void)state;
    enum { N = 40 };
    uint8_t *bytes = malloc(N * N * 3), *copy = malloc(N * N * 3);
    float *a = malloc(N * N * 3 * sizeof *a), *b = malloc(N * N * 3 * sizeof *b);
    fill(bytes, N * N * 3, 7);
    tl_pixels whole = tl_pixels_new(TL_U8, N, N, 3, bytes);
    tl_pixels_scratch scratch = {0};
    for (int method = TL_PIXELS_BILINEAR; method <= TL_PIXELS_BICUBIC; method++)
        for (int i = 0; i < 30; i++) {
            int64_t h = 1 + i % 25, w = 1 + i * 7 % 31;
            tl_pixels view = tl_pixels_crop(&whole, (tl_window){9, 15, w, h});
            tl_pixels same = tl_pixels_new(TL_U8, h, w, 3, copy);
            tl_pixels_copy(&same, &view, false);
            tl_pixels out_a = tl_pixels_new(TL_F32, 1 + i % 13, 1 + i % 17, 3, a);
            tl_pixels out_b = tl_pixels_new(TL_F32, 1 + i % 13, 1 + i % 17, 3, b);
            tl_pixels_resize_args args = {
                .method = (tl_pixels_method)method,
                .antialias = i & 1,
                .mirror = i & 2,
            };
            assert_ok(tl_pixels_resize(&out_a, &view, &args, &scratch));
            assert_ok(tl_pixels_resize(&out_b, &same, &args, NULL));
            assert_memory_equal(a, b, (size_t)(out_a.height * out_a.width * 3) * sizeof *a);
        }
    tl_pixels_scratch_deinit(&scratch);
    tl_pixels_scratch_deinit(&scratch);
    free(bytes);
    free(copy);
    free(a);
    free(b);
}

static void one_colour_stays_one_colour(void **state)
{
    (void)state;
    uint8_t in[30 * 20 * 4], out[37 * 37 * 4];
    memset(in, 201, sizeof in);
    for (int64_t c = 1; c <= 4; c++)
        for (int method = TL_PIXELS_BILINEAR; method <= TL_PIXELS_BICUBIC; method++)
            for (int64_t size = 1; size <= 37; size += 3)
                for (int antialias = 0; antialias < 2; antialias++) {
                    tl_pixels from = tl_pixels_new(TL_U8, 30, 20, c, in),
                              to = tl_pixels_new(TL_U8, size, 38 - size, c, out);
                    memset(out, 0, sizeof out);
                    assert_ok(tl_pixels_resize(&to, &from,
                                               &(tl_pixels_resize_args){
                                                   .method = (tl_pixels_method)method,
                                                   .antialias = antialias,
                                               },
                                               NULL));
                    for (int64_t i = 0; i < size * (38 - size) * c; i++)
                        assert_int_equal(out[i], 201);
                }
}

static void a_part_is_what_the_whole_has_there(void **state)
{
    (void)state;
    uint8_t in[13 * 10 * 3];
    float whole[17 * 24 * 3], part[6 * 7 * 3];
    fill(in, sizeof in, 5);
    tl_pixels from = tl_pixels_new(TL_U8, 13, 10, 3, in);
    tl_pixels all = tl_pixels_new(TL_F32, 17, 24, 3, whole);
    tl_pixels out = tl_pixels_new(TL_F32, 6, 7, 3, part);
    for (int method = TL_PIXELS_BILINEAR; method <= TL_PIXELS_BICUBIC; method++)
        for (int mirror = 0; mirror < 2; mirror++) {
            tl_pixels_resize_args args = {.method = (tl_pixels_method)method, .mirror = mirror};
            assert_ok(tl_pixels_resize(&all, &from, &args, NULL));
            args.whole_height = 17;
            args.whole_width = 24;
            args.top = 11;
            args.left = 4;
            assert_ok(tl_pixels_resize(&out, &from, &args, NULL));
            for (int y = 0; y < 6; y++)
                assert_memory_equal(part + y * 7 * 3, whole + ((y + 11) * 24 + 4) * 3,
                                    7 * 3 * sizeof *part);
            args.top = 12;
            assert_fails(tl_pixels_resize(&out, &from, &args, NULL), TL_EINVAL,
                         "has no part of 6 x 7 at row 12, column 4");
        }
}

static void bytes_and_floats_give_the_same(void **state)
{
    (void)state;
    uint8_t bytes[9 * 11 * 3], rounded[7 * 14 * 3];
    float floats[9 * 11 * 3], a[7 * 14 * 3], b[7 * 14 * 3];
    static const float mean[] = {100, 110, 120}, deviation[] = {50, 60, 70};
    fill(bytes, sizeof bytes, 11);
    tl_pixels in = tl_pixels_new(TL_U8, 9, 11, 3, bytes),
              fin = tl_pixels_new(TL_F32, 9, 11, 3, floats);
    tl_pixels fa = tl_pixels_new(TL_F32, 7, 14, 3, a), fb = tl_pixels_new(TL_F32, 7, 14, 3, b);
    tl_pixels round = tl_pixels_new(TL_U8, 7, 14, 3, rounded);
    tl_pixels_copy(&fin, &in, false);
    for (int method = TL_PIXELS_BILINEAR; method <= TL_PIXELS_BICUBIC; method++) {
        tl_pixels_resize_args args = {.method = (tl_pixels_method)method};
        assert_ok(tl_pixels_resize(&fa, &in, &args, NULL));
        assert_ok(tl_pixels_resize(&fb, &fin, &args, NULL));
        assert_memory_equal(a, b, sizeof a);
        assert_ok(tl_pixels_resize(&round, &in, &args, NULL));
        for (int i = 0; i < TL_COUNT(a); i++)
            assert_near(rounded[i], a[i] < 0 ? 0 : a[i] > 255 ? 255 : (double)a[i], 0.5);
        args.mean = mean;
        args.deviation = deviation;
        assert_ok(tl_pixels_resize(&fb, &in, &args, NULL));
        tl_pixels_normalize(&fa, &fa, mean, deviation);
        assert_memory_equal(a, b, sizeof a);
    }
}

static void what_cannot_be_resized_is_told(void **state)
{
    (void)state;
    float data[16];
    tl_pixels a = tl_pixels_new(TL_F32, 2, 2, 3, data), b = tl_pixels_new(TL_F32, 2, 2, 1, data);
    tl_pixels none = tl_pixels_new(TL_F32, 0, 2, 3, data),
              other = tl_pixels_new(TL_I32, 2, 2, 3, data);
    tl_pixels bytes = tl_pixels_new(TL_U8, 2, 2, 3, data);
    assert_fails(tl_pixels_resize(&a, &b, NULL, NULL), TL_EINVAL,
                 "1 channels cannot be resized to one of 3");
    assert_fails(tl_pixels_resize(&none, &a, NULL, NULL), TL_EINVAL,
                 "2 x 2 cannot be resized to 0 x 2");
    assert_fails(tl_pixels_resize(&a, &other, NULL, NULL), TL_EUNSUPPORTED, "images of int32");
    assert_fails(
        tl_pixels_resize(&a, &a, &(tl_pixels_resize_args){.method = (tl_pixels_method)9}, NULL),
        TL_EINVAL, "9");
    tl_pixels_resize_args half = {.mean = data}, to_bytes = {.mean = data, .deviation = data};
    assert_fails(tl_pixels_resize(&a, &a, &half, NULL), TL_EINVAL, "means and deviations");
    assert_fails(tl_pixels_resize(&bytes, &a, &to_bytes, NULL), TL_EINVAL, "gives float32");
    tl_alloc_fail_at(1, 1);
    tl_status st = tl_pixels_resize(&bytes, &bytes, NULL, NULL);
    tl_alloc_fail_at(0, 0);
    assert_int_equal(st, TL_ENOMEM);
}

/* --- windows ---------------------------------------------------------------------------------- */

static void windows_are_drawn_within_their_bounds(void **state)
{
    (void)state;
    static const struct {
        int64_t height, width;
    } sizes[] = {{300, 400}, {400, 300}, {32, 32}, {5, 200}, {1, 1}};
    for (int s = 0; s < TL_COUNT(sizes); s++) {
        int64_t h = sizes[s].height, w = sizes[s].width, whole = 0;
        double area = 0;
        enum { COUNT = 4000 };
        for (int i = 0; i < COUNT; i++) {
            tl_rng rng, same;
            tl_rng_init(&rng, (uint64_t)i);
            same = rng;
            tl_window box = tl_window_random(&rng, h, w, NULL),
                      again = tl_window_random(&same, h, w, NULL);
            assert_memory_equal(&box, &again, sizeof box);
            assert_int_equal(tl_rng_position(&rng), 2); // one draw, whatever happened
            assert_true(box.x >= 0 && box.y >= 0 && box.width > 0 && box.height > 0
                        && box.x + box.width <= w && box.y + box.height <= h);
            area += (double)(box.width * box.height) / (double)(h * w);
            bool all = box.width == w && box.height == h;
            whole += all;
            if (all) continue;
            assert_true((double)(box.width * box.height) >= 0.08 * (double)(h * w) - 1);
            double aspect = (double)box.width / (double)box.height,
                   slack = 1.0 / (double)box.height;
            assert_true(aspect > 0.75 - slack && aspect < 4.0 / 3 + slack);
        }
        if (s < 2) assert_near(area / COUNT, s == 0 ? 0.45 : 0.38, 0.1);
        if (s == 3) assert_int_equal(whole, COUNT); // nothing of that aspect has enough of it
    }
}

static void every_place_but_the_last_is_drawn(void **state)
{
    (void)state;
    // Windows of 2 x 2 in 4 x 4, which has three places each way.
    int seen[4] = {0};
    tl_rng rng;
    tl_rng_init(&rng, 5);
    tl_random_window_args args = {
        .area_from = 0.25,
        .area_to = 0.25,
        .aspect_from = 1,
        .aspect_to = 1,
    };
    for (int i = 0; i < 900; i++) {
        tl_window w = tl_window_random(&rng, 4, 4, &args);
        assert_true(w.width == 2 && w.height == 2 && w.x < 2 && w.y < 2);
        seen[w.y * 2 + w.x]++;
    }
    for (int i = 0; i < 4; i++) assert_near(seen[i], 225, 65);
}

static void windows_in_the_middle(void **state)
{
    (void)state;
    tl_window w = tl_window_middle(10, 7, 4, 100);
    assert_true(w.x == 0 && w.width == 7 && w.y == 3 && w.height == 4);
    w = tl_window_center(1, 1, 0.01);
    assert_true(w.x == 0 && w.y == 0 && w.width == 1 && w.height == 1);
    w = tl_window_center(256, 300, 0.875);
    assert_true(w.width == 224 && w.height == 224 && w.y == 16 && w.x == 38);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crops_are_views),
        cmocka_unit_test(mirrors_change_sides),
        cmocka_unit_test(floats_become_bytes),
        cmocka_unit_test(shifts_pad_and_cut),
        cmocka_unit_test(normalising_is_by_channel),
        cmocka_unit_test(a_view_is_resized_as_its_copy),
        cmocka_unit_test(one_colour_stays_one_colour),
        cmocka_unit_test(a_part_is_what_the_whole_has_there),
        cmocka_unit_test(bytes_and_floats_give_the_same),
        cmocka_unit_test(what_cannot_be_resized_is_told),
        cmocka_unit_test(windows_are_drawn_within_their_bounds),
        cmocka_unit_test(every_place_but_the_last_is_drawn),
        cmocka_unit_test(windows_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
