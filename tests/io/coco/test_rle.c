/* Masks as runs: vectors of pycocotools, what is refused, and windows, merges and overlaps beside
 * bitmaps that are counted pixel by pixel. */
#include "io/alloc_failures.h"

#include <stdlib.h>

#include <tilth/base/rng.h>
#include <tilth/io/coco/rle.h>

static void assert_text(const tl_rle *mask, const char *text)
{
    tl_str s = TL_STR_INIT;
    assert_ok(tl_rle_to_text(&s, mask));
    assert_string_equal(tl_str_text(&s), text);
    tl_str_deinit(&s);
}

static void assert_counts(const tl_rle *mask, const uint32_t *counts, int64_t count)
{
    assert_int_equal(mask->count, count);
    for (int64_t i = 0; i < count; i++) assert_int_equal(mask->counts[i], counts[i]);
}

static void assert_box(const tl_rle *mask, double x, double y, double width, double height)
{
    double box[4];
    tl_rle_box(box, mask);
    assert_true(box[0] == x && box[1] == y && box[2] == width && box[3] == height);
}

/* Ones from (top, left) to before (bottom, right). */
static tl_rle rectangle(int top, int bottom, int left, int right, int height, int width)
{
    static uint8_t pixels[4096];
    tl_rle mask;
    memset(pixels, 0, sizeof pixels);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) pixels[y * width + x] = 1;
    assert_ok(tl_rle_from_pixels(&mask, pixels, height, width));
    return mask;
}

static void vectors(void **state)
{
    (void)state;
    tl_rle a = rectangle(1, 3, 1, 4, 4, 5), b = rectangle(0, 2, 2, 5, 4, 5);
    assert_counts(&a, (uint32_t[]){5, 2, 2, 2, 2, 2, 5}, 7);
    assert_text(&a, "5220003");
    assert_text(&b, "8220000");
    assert_int_equal(tl_rle_area(&a), 6);
    assert_box(&a, 1, 1, 3, 2);
    assert_near(tl_rle_iou(&a, &b, false), 0.2, 1e-15);
    assert_near(tl_rle_iou(&a, &b, true), 1 / 3., 1e-15);
    tl_rle_deinit(&a);
    tl_rle_deinit(&b);

    assert_ok(
        tl_rle_from_polygon(&a, (double[]){1.2, 1.7, 7.6, 2.1, 6.4, 6.9, 2.2, 5.5}, 4, 9, 10));
    assert_counts(&a, (uint32_t[]){11, 1, 8, 4, 5, 4, 5, 4, 5, 5, 4, 5, 4, 1, 24}, 15);
    assert_text(&a, ";183M00001O00Ld0");
    assert_int_equal(tl_rle_area(&a), 24);
    tl_rle_deinit(&a);

    assert_ok(tl_rle_from_counts(&a, (int64_t[]){6, 1, 40, 4, 5, 4, 5, 4, 21}, 9, 9, 10));
    assert_text(&a, "61X13mN000`0");
    assert_ok(tl_rle_from_text(&b, "61X13mN000`0", 12, 9, 10));
    assert_counts(&b, a.counts, a.count);
    tl_rle_deinit(&a);
    tl_rle_deinit(&b);
}

static void edges_of_masks(void **state)
{
    (void)state;
    tl_rle empty = rectangle(0, 0, 0, 0, 4, 5), full = rectangle(0, 4, 0, 5, 4, 5);
    assert_counts(&empty, (uint32_t[]){20}, 1);
    assert_counts(&full, (uint32_t[]){0, 20}, 2);
    assert_box(&empty, 0, 0, 0, 0);
    assert_box(&full, 0, 0, 5, 4);
    assert_near(tl_rle_iou(&empty, &full, false), 0, 0);
    assert_near(tl_rle_iou(&empty, &empty, true), 0, 0);
    tl_rle other = rectangle(0, 1, 0, 1, 5, 4);
    assert_near(tl_rle_iou(&full, &other, false), -1, 0); // of another size
    // A run that goes on in the next column: pixels (3, 1) and (0, 2), and the box is 4 high.
    tl_rle_deinit(&other);
    assert_ok(tl_rle_from_counts(&other, (int64_t[]){7, 2, 11}, 3, 4, 5));
    assert_box(&other, 1, 0, 2, 4);
    tl_rle_deinit(&other);
    assert_ok(tl_rle_from_polygon(&other, (double[]){-9, -9, 50, -9, 50, 50, -9, 50}, 4, 4, 5));
    assert_counts(&other, full.counts, full.count);
    tl_rle_deinit(&other);
    assert_ok(tl_rle_from_polygon(&other, (double[]){1, 1, 3, 3, 1, 1}, 3, 4, 5)); // there and back
    assert_counts(&other, empty.counts, empty.count);
    tl_rle_deinit(&other);
    tl_rle_deinit(&empty);
    tl_rle_deinit(&full);
}

static void bad_masks(void **state)
{
    (void)state;
    tl_rle m;
    const double triangle[] = {0, 0, 3, 0, 0, 3}, huge[] = {0, 0, 1e9, 0, 0, 3},
                 none[] = {0, NAN, 3, 0, 0, 3};
    assert_fails(tl_rle_from_counts(&m, (int64_t[]){5, 14}, 2, 4, 5), TL_EINVAL,
                 "the runs of the mask hold 19 pixels, but 4 x 5 has 20");
    assert_null(m.counts);
    assert_fails(tl_rle_from_counts(&m, (int64_t[]){5, 16}, 2, 4, 5), TL_EINVAL,
                 "run 1 of the mask has the length 16, but 15 of 20 pixels are left");
    assert_fails(tl_rle_from_counts(&m, (int64_t[]){5, -1}, 2, 4, 5), TL_EINVAL, "length -1");
    assert_fails(tl_rle_from_counts(&m, (int64_t[]){INT64_MAX, 21}, 2, 4, 5), TL_EINVAL, "run 0");
    assert_fails(tl_rle_from_counts(&m, NULL, 0, 4, 5), TL_EINVAL, "hold 0 pixels");
    assert_fails(tl_rle_from_text(&m, "5220003", 7, 4, 4), TL_EINVAL, "run 6");
    assert_fails(tl_rle_from_text(&m, "522000", 6, 4, 5), TL_EINVAL, "hold 15 pixels");
    assert_fails(tl_rle_from_text(&m, "52 0003", 7, 4, 5), TL_EINVAL,
                 "damaged at character 3 of 7");
    assert_fails(tl_rle_from_text(&m, "522000o", 7, 4, 5), TL_EINVAL, "damaged at character 7");
    assert_fails(tl_rle_from_text(&m, "oooooooo5", 9, 4, 5), TL_EINVAL, "damaged at character 1");
    assert_fails(tl_rle_from_text(&m, "O", 1, 4, 5), TL_EINVAL, "length -1");
    assert_fails(tl_rle_from_counts(&m, (int64_t[]){0}, 1, 0, 5), TL_EINVAL, "0 x 5 pixels");
    assert_fails(tl_rle_from_counts(&m, (int64_t[]){0}, 1, 65536, 65536), TL_EINVAL, "at most");
    assert_fails(tl_rle_from_counts(&m, (int64_t[]){0}, 1, INT64_MAX, 2), TL_EINVAL, "at most");
    assert_fails(tl_rle_from_polygon(&m, triangle, 2, 4, 5), TL_EINVAL, "2 corners");
    assert_fails(tl_rle_from_polygon(&m, huge, 3, 4, 5), TL_EINVAL, "coordinate 2 of a polygon");
    assert_fails(tl_rle_from_polygon(&m, none, 3, 4, 5), TL_EINVAL, "coordinate 1 of a polygon");
    assert_fails(tl_rle_from_window(&m, NULL, 3, 3, 2, 0, 4, 5), TL_EINVAL, "does not lie inside");
    assert_fails(tl_rle_from_window(&m, NULL, 1, 1, 0, INT64_MAX, 4, 5), TL_EINVAL, "inside");
    tl_rle two[] = {rectangle(0, 1, 0, 1, 4, 5), rectangle(0, 1, 0, 1, 5, 4)};
    assert_fails(tl_rle_merge(&m, two, 2, false), TL_EINVAL,
                 "masks of 4 x 5 and of 5 x 4 pixels cannot be merged");
    tl_rle_deinit(&two[0]);
    tl_rle_deinit(&two[1]);
    // A zigzag over a wide mask.
    double *corners = malloc(2 * 70 * sizeof *corners);
    for (int i = 0; i < 70; i++) {
        corners[2 * i] = i % 2 ? 65536 : 0;
        corners[2 * i + 1] = i;
    }
    assert_fails(tl_rle_from_polygon(&m, corners, 70, 10, 65536), TL_ELIMIT, "4194304 times");
    free(corners);
}

enum { MASKS = 3, SIDE = 24 };

/* Random masks of one size, as bitmaps and as runs. */
static void make_masks(tl_rng *rng, uint8_t pixels[MASKS][SIDE * SIDE], tl_rle *made,
                       int64_t height, int64_t width)
{
    for (int m = 0; m < MASKS; m++) {
        // A window of pixels that are alike or not; the rest is 0.
        int64_t top = tl_rng_below(rng, height), left = tl_rng_below(rng, width);
        int64_t high = 1 + tl_rng_below(rng, height - top),
                wide = 1 + tl_rng_below(rng, width - left);
        if (tl_rng_below(rng, 3) == 0) top = 0, high = height;
        uint8_t window[SIDE * SIDE];
        int64_t odds = tl_rng_below(rng, 5);
        memset(pixels[m], 0, SIDE * SIDE);
        for (int64_t i = 0; i < high * wide; i++) {
            window[i] = tl_rng_below(rng, 4) < odds ? 7 : 0;
            pixels[m][(top + i / wide) * width + left + i % wide] = window[i] != 0;
        }
        assert_ok(tl_rle_from_window(&made[m], window, high, wide, top, left, height, width));
    }
}

static void check_pair(const uint8_t *a, const uint8_t *b, const tl_rle *x, const tl_rle *y)
{
    int64_t common = 0, either = 0, own = 0;
    for (int64_t i = 0; i < x->height * x->width; i++) {
        common += a[i] && b[i];
        either += a[i] || b[i];
        own += a[i];
    }
    assert_int_equal(tl_rle_area(x), own);
    assert_int_equal(tl_rle_common(x, y), common);
    assert_near(tl_rle_iou(x, y, false), common ? (double)common / (double)either : 0, 0);
    assert_near(tl_rle_iou(x, y, true), common ? (double)common / (double)own : 0, 0);
}

static void check_merge(uint8_t pixels[MASKS][SIDE * SIDE], const tl_rle *masks, bool intersect)
{
    tl_rle merged, wanted;
    uint8_t all[SIDE * SIDE], back[SIDE * SIDE];
    int64_t count = masks[0].height * masks[0].width;
    for (int64_t i = 0; i < count; i++) {
        int inside = pixels[0][i] + pixels[1][i] + pixels[2][i];
        all[i] = intersect ? inside == MASKS : inside > 0;
    }
    assert_ok(tl_rle_merge(&merged, masks, MASKS, intersect));
    assert_ok(tl_rle_from_pixels(&wanted, all, masks[0].height, masks[0].width));
    assert_counts(&merged, wanted.counts, wanted.count);
    tl_rle_to_pixels(back, &merged);
    assert_memory_equal(back, all, (size_t)count);
    tl_rle_deinit(&merged);
    tl_rle_deinit(&wanted);
}

static void beside_bitmaps(void **state)
{
    (void)state;
    tl_rng rng;
    tl_rng_init(&rng, 3);
    for (int round = 0; round < 500; round++) {
        int64_t height = 1 + tl_rng_below(&rng, SIDE), width = 1 + tl_rng_below(&rng, SIDE);
        uint8_t pixels[MASKS][SIDE * SIDE];
        tl_rle made[MASKS], again;
        make_masks(&rng, pixels, made, height, width);
        for (int m = 0; m < MASKS; m++) {
            tl_str text = TL_STR_INIT;
            assert_ok(tl_rle_from_pixels(&again, pixels[m], height, width));
            assert_counts(&made[m], again.counts, again.count);
            tl_rle_deinit(&again);
            assert_ok(tl_rle_to_text(&text, &made[m]));
            assert_ok(tl_rle_from_text(&again, text.data, text.length, height, width));
            assert_counts(&made[m], again.counts, again.count);
            tl_rle_deinit(&again);
            tl_str_deinit(&text);
            check_pair(pixels[m], pixels[(m + 1) % MASKS], &made[m], &made[(m + 1) % MASKS]);
        }
        check_merge(pixels, made, false);
        check_merge(pixels, made, true);
        for (int m = 0; m < MASKS; m++) tl_rle_deinit(&made[m]);
    }
}

static tl_status all_makers(void)
{
    static const uint8_t pixels[12] = {0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0};
    tl_rle m[4] = {0}, merged = TL_RLE_INIT;
    tl_status st;
    TL_TRY_DONE(st, tl_rle_from_pixels(&m[0], pixels, 3, 4));
    TL_TRY_DONE(st, tl_rle_from_counts(&m[1], (int64_t[]){5, 7}, 2, 3, 4));
    TL_TRY_DONE(st, tl_rle_from_text(&m[2], "57", 2, 3, 4));
    TL_TRY_DONE(st, tl_rle_from_polygon(&m[3], (double[]){0, 0, 3, 0, 2, 3}, 3, 3, 4));
    st = tl_rle_merge(&merged, m, 4, false);
done:
    for (int i = 0; i < 4; i++) tl_rle_deinit(&m[i]);
    tl_rle_deinit(&merged);
    return st;
}

static void memory_may_lack(void **state)
{
    (void)state;
    assert_survives_failures(all_makers, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),         cmocka_unit_test(edges_of_masks),
        cmocka_unit_test(bad_masks),       cmocka_unit_test(beside_bitmaps),
        cmocka_unit_test(memory_may_lack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
