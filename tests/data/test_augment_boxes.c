/* Boxes that move with their images, against Model Garden's (tests/golden/vision_inputs.py), and
 * against the images themselves. */
#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/data/augment.h>

#include "nn/golden_file.h"

enum { HEIGHT = 37, WIDTH = 53, BOXES = 12 };

static void take_boxes(float out[BOXES][4])
{
    const golden *g = golden_peek("moved/boxes");
    assert_non_null(g);
    assert_int_equal(tl_shape_count(&g->shape), BOXES * 4);
    memcpy(out, g->values, sizeof(float[BOXES][4]));
}

/* A box that left the image has nothing left here, and is a strip of 5 % at its edge there. */
static bool has_left(const float *box, const golden *g, int64_t i)
{
    for (int side = 0; side < 2; side++) {
        double low = golden_number(g, 4 * i + side), high = golden_number(g, 4 * i + side + 2);
        bool strip =
            (low == 0 && fabs(high - 0.05) < 1e-6) || (fabs(low - 0.95) < 1e-6 && high == 1);
        if (strip && box[side] == box[side + 2]) return true;
    }
    return false;
}

static int64_t compare(float boxes[BOXES][4], const char *name, int number)
{
    const golden *g = golden_peek("moved/%s/%d", name, number);
    int64_t left = 0;
    assert_non_null(g);
    for (int64_t i = 0; i < BOXES; i++) {
        if (has_left(boxes[i], g, i)) {
            left++;
            continue;
        }
        for (int k = 0; k < 4; k++)
            if (fabs(boxes[i][k] - golden_number(g, 4 * i + k)) > 1e-6)
                fail_msg("%s %d: box %lld, %d is %.9g, not %.9g", name, number, (long long)i, k,
                         boxes[i][k], golden_number(g, 4 * i + k));
    }
    return left;
}

static void boxes_move_as_model_gardens(void **state)
{
    (void)state;
    static const double degrees[] = {-30, -7.5, 0, 12, 30}, levels[] = {-.3, -.05, 0, .1, .3},
                        pixels[] = {-60, -20.5, 0, 7, 45};
    float boxes[BOXES][4];
    const tl_image_boxes b = {boxes, BOXES};
    int64_t left = 0;
    for (int i = 0; i < 5; i++) {
        take_boxes(boxes);
        tl_image_boxes_rotate(b, HEIGHT, WIDTH, degrees[i]);
        left += compare(boxes, "rotate", i);
        for (int horizontal = 0; horizontal < 2; horizontal++) {
            take_boxes(boxes);
            tl_image_boxes_shear(b, HEIGHT, WIDTH, levels[i], horizontal);
            left += compare(boxes, horizontal ? "shear_x" : "shear_y", i);
            take_boxes(boxes);
            tl_image_boxes_translate(b, HEIGHT, WIDTH, pixels[i], horizontal);
            left += compare(boxes, horizontal ? "translate_x" : "translate_y", i);
        }
    }
    assert_true(left > 5 && left < 100);
}

static void parts_are_as_model_gardens(void **state)
{
    (void)state;
    float boxes[BOXES][4];
    const golden *g = golden_peek("moved/cropped/boxes");
    const tl_image_boxes b = {boxes, BOXES};
    int64_t zeros = 0;
    take_boxes(boxes);
    tl_image_boxes_crop(b, HEIGHT, WIDTH, (tl_window){8, 5, 31, 20}, 0.3);
    for (int64_t i = 0; i < BOXES; i++) {
        for (int k = 0; k < 4; k++) assert_near(boxes[i][k], golden_number(g, 4 * i + k), 1e-6);
        zeros += boxes[i][2] == 0;
    }
    assert_true(zeros > 1 && zeros < BOXES - 1);
}

/* A white rectangle in a black image: the box moves where the rectangle does. */
static void boxes_stay_around_what_they_show(void **state)
{
    (void)state;
    enum { SIDE = 64 };
    static const tl_augment_op ops[] = {TL_AUGMENT_ROTATE, TL_AUGMENT_SHEAR_X, TL_AUGMENT_SHEAR_Y,
                                        TL_AUGMENT_TRANSLATE_X, TL_AUGMENT_TRANSLATE_Y};
    uint8_t first[SIDE * SIDE * 3], second[SIDE * SIDE * 3];
    for (uint64_t seed = 0; seed < 8; seed++)
        for (int64_t n = 0; n < TL_COUNT(ops); n++) {
            float box[1][4] = {{24.0f / SIDE, 22.0f / SIDE, 36.0f / SIDE, 42.0f / SIDE}};
            tl_pixels image = tl_pixels_new(TL_U8, SIDE, SIDE, 3, first),
                      spare = tl_pixels_new(TL_U8, SIDE, SIDE, 3, second);
            float low_y = SIDE, low_x = SIDE, high_y = 0, high_x = 0;
            tl_rng rng;
            tl_rng_init(&rng, seed);
            memset(first, 0, sizeof first);
            tl_pixels_fill(&image, (tl_window){22, 24, 20, 12}, 255);
            tl_augment_apply_boxes(ops[n], 6, (tl_augment_reach){10, 12}, &image, &spare,
                                   (tl_image_boxes){box, 1}, &rng);
            for (int y = 0; y < SIDE; y++)
                for (int x = 0; x < SIDE; x++) {
                    if (((const uint8_t *)image.data)[(y * SIDE + x) * 3] < 128) continue;
                    low_y = fminf(low_y, (float)y), high_y = fmaxf(high_y, (float)y + 1);
                    low_x = fminf(low_x, (float)x), high_x = fmaxf(high_x, (float)x + 1);
                }
            assert_near(box[0][0] * SIDE, low_y, 2.5);
            assert_near(box[0][1] * SIDE, low_x, 2.5);
            assert_near(box[0][2] * SIDE, high_y, 2.5);
            assert_near(box[0][3] * SIDE, high_x, 2.5);
        }
}

/* Only what lies in boxes changes, and boxes do not. */
static void boxes_alone_are_translated(void **state)
{
    (void)state;
    enum { SIDE = 40 };
    uint8_t first[SIDE * SIDE], second[SIDE * SIDE], before[SIDE * SIDE];
    const float box[4] = {10.0f / SIDE, 5.0f / SIDE, 29.5f / SIDE, 20.5f / SIDE};
    int64_t changed = 0, runs = 300;
    for (int i = 0; i < SIDE * SIDE; i++) before[i] = (uint8_t)(i / SIDE * 5);
    for (int64_t seed = 0; seed < runs; seed++) {
        float boxes[1][4];
        tl_pixels image = tl_pixels_new(TL_U8, SIDE, SIDE, 1, first),
                  spare = tl_pixels_new(TL_U8, SIDE, SIDE, 1, second);
        tl_rng rng;
        bool some = false;
        tl_rng_init(&rng, (uint64_t)seed);
        memcpy(boxes, box, sizeof boxes);
        memcpy(first, before, sizeof first);
        tl_augment_apply_boxes(TL_AUGMENT_TRANSLATE_Y_ONLY_BOXES, 0.5, (tl_augment_reach){0},
                               &image, &spare, (tl_image_boxes){boxes, 1}, &rng);
        assert_memory_equal(boxes, box, sizeof box);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                bool inside = y >= 10 && y <= 29 && x >= 5 && x <= 20;
                bool same = ((const uint8_t *)image.data)[y * SIDE + x] == before[y * SIDE + x];
                assert_true(same || inside);
                some |= !same;
            }
        changed += some;
    }
    assert_true(changed > 70 && changed < 130); // a third
}

static void policies_move_boxes(void **state)
{
    (void)state;
    enum { SIDE = 32 };
    uint8_t first[SIDE * SIDE * 3], second[SIDE * SIDE * 3];
    const tl_autoaug policy = {"detection_v0", 100, 250};
    const tl_randaug layers = {
        .num_layers = 2, .magnitude = 5, .cutout_const = 10, .translate_const = 5};
    int64_t moved[2] = {0};
    assert_null(tl_augment_policy_find("detection_v0")); // not for images alone
    for (uint64_t seed = 0; seed < 60; seed++)
        for (int kind = 0; kind < 2; kind++) {
            float box[1][4] = {{0.25f, 0.25f, 0.75f, 0.75f}};
            tl_pixels image = tl_pixels_new(TL_U8, SIDE, SIDE, 3, first),
                      spare = tl_pixels_new(TL_U8, SIDE, SIDE, 3, second);
            tl_rng rng;
            tl_rng_init(&rng, seed);
            memset(first, 77, sizeof first);
            if (kind)
                tl_randaug_apply_boxes(&layers, &image, &spare, (tl_image_boxes){box, 1}, &rng);
            else tl_autoaug_apply_boxes(&policy, &image, &spare, (tl_image_boxes){box, 1}, &rng);
            moved[kind] += box[0][0] != 0.25f || box[0][1] != 0.25f;
        }
    assert_true(moved[0] > 10 && moved[0] < 50 && moved[1] > 10 && moved[1] < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_move_as_model_gardens),
        cmocka_unit_test(parts_are_as_model_gardens),
        cmocka_unit_test(boxes_stay_around_what_they_show),
        cmocka_unit_test(boxes_alone_are_translated),
        cmocka_unit_test(policies_move_boxes),
    };
    golden_open(TEST_DATA "/golden/vision_inputs.bin");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    golden_close();
    return failed;
}
