/* Views for contrastive learning: each operation beside TensorFlow's (tests/golden/contrast.py),
 * and what a view is made of. */
#include "data/golden_cases.h"

#include <math.h>

#include <tilth/data/contrast.h>

enum { MOST = 4096 };
#define FILE_OF_CASES TEST_DATA "/golden/contrast.tfrecord"

static void apply(const char *op, const tl_pixels *p, double amount)
{
    if (strcmp(op, "scale") == 0) tl_tone_affine(p, amount, 0);
    else if (strcmp(op, "add") == 0) tl_tone_affine(p, 1, amount);
    else if (strcmp(op, "contrast") == 0) tl_tone_contrast(p, amount);
    else if (strcmp(op, "saturation") == 0) tl_tone_saturation(p, amount);
    else if (strcmp(op, "hue") == 0) tl_tone_hue(p, amount);
    else if (strcmp(op, "grey") == 0) tl_tone_grey(p);
    else if (strcmp(op, "clip") == 0) tl_tone_clip(p, 0, amount);
    else assert_ok(tl_tone_blur(p, 45 / 10 / 2, amount));
}

static void check(const golden_case *k)
{
    float made[MOST], want[MOST], amount;
    int64_t in[3], out[3];
    char op[32];
    snprintf(op, sizeof op, "%s", text_of(k, "kind"));
    assert_int_equal(floats_of(k, "amount", &amount, 1), 1);
    ints_of(k, "shape", in, 3);
    ints_of(k, "size", out, 3);
    tl_bytes image = bytes_of(k, "image"), right = bytes_of(k, "want");
    int64_t count = out[0] * out[1] * out[2];
    assert_true(count <= MOST && right.size == (size_t)count * sizeof *want);
    memcpy(want, right.data, right.size);
    tl_pixels bytes = tl_pixels_new(TL_U8, in[0], in[1], in[2], (void *)(uintptr_t)image.data);
    if (strcmp(op, "view") == 0) {
        // Nothing is cut out of it: the whole image is resized, as a part would be.
        tl_contrast_look look = {.crop = true, .area_from = 1, .area_to = 1};
        tl_rng rng;
        tl_rng_init(&rng, 1);
        assert_ok(tl_contrast_view(made, out[0], out[1], &look, &bytes, &rng));
    } else {
        tl_pixels p = tl_pixels_new(TL_F32, in[0], in[1], in[2], made);
        tl_pixels_copy(&p, &bytes, false);
        tl_tone_affine(&p, 1 / 255.0, 0);
        apply(op, &p, (double)amount);
    }
    // TensorFlow looks the weights of bicubics up in a table.
    const float most = strcmp(op, "view") == 0 ? 1e-3f : 2e-6f;
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(made[i] - want[i]) <= most))
            fail_msg("%s %g: element %d of [%d, %d, %d] is %.9g and should be %.9g", op,
                     (double)amount, (int)i, (int)out[0], (int)out[1], (int)out[2], (double)made[i],
                     (double)want[i]);
}

static void test_operations(void **state)
{
    (void)state;
    each_case(FILE_OF_CASES, "scale", 6, check);
    each_case(FILE_OF_CASES, "add", 6, check);
    each_case(FILE_OF_CASES, "contrast", 6, check);
    each_case(FILE_OF_CASES, "saturation", 8, check);
    each_case(FILE_OF_CASES, "hue", 8, check);
    each_case(FILE_OF_CASES, "grey", 2, check);
    each_case(FILE_OF_CASES, "clip", 3, check);
    each_case(FILE_OF_CASES, "blur", 9, check);
    each_case(FILE_OF_CASES, "view", 3, check);
}

/* --- views ------------------------------------------------------------------------------------ */

enum { SIDE = 20, PIXELS = SIDE * SIDE, DRAWS = 4000 };

static void paint(uint8_t *bytes, int64_t channels)
{
    tl_rng rng;
    tl_rng_init(&rng, 9);
    for (int64_t i = 0; i < PIXELS * channels; i++) bytes[i] = (uint8_t)tl_rng_below(&rng, 200);
}

static void see(float *out, const uint8_t *bytes, int64_t channels, const tl_contrast_look *look,
                uint64_t seed)
{
    tl_rng rng;
    tl_pixels image = tl_pixels_new(TL_U8, SIDE, SIDE, channels, (void *)(uintptr_t)bytes);
    tl_rng_init(&rng, seed);
    assert_ok(tl_contrast_view(out, SIDE, SIDE, look, &image, &rng));
}

/* How often a view is not the image itself. */
static double changed(int64_t channels, const tl_contrast_look *look)
{
    uint8_t bytes[PIXELS * 3];
    float plain[PIXELS * 3], out[PIXELS * 3];
    int64_t count = 0;
    paint(bytes, channels);
    see(plain, bytes, channels, &(tl_contrast_look){0}, 0);
    for (int64_t i = 0; i < PIXELS * channels; i++)
        assert_true(fabsf(plain[i] - (float)bytes[i] / 255) <= 1e-7f);
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        see(out, bytes, channels, look, seed);
        for (int64_t i = 0; i < PIXELS * channels; i++) assert_true(out[i] >= 0 && out[i] <= 1);
        count += memcmp(out, plain, (size_t)(PIXELS * channels) * sizeof *out) != 0;
    }
    return (double)count / DRAWS;
}

static void test_chances(void **state)
{
    (void)state;
    const double off = 0.03; // four deviations of a half
    assert_true(fabs(changed(1, &(tl_contrast_look){.flip = true}) - 0.5) < off);
    assert_true(fabs(changed(1, &(tl_contrast_look){.blur = true}) - 0.5) < off);
    assert_true(fabs(changed(1, &(tl_contrast_look){.distort = true, .strength = 1}) - 0.8) < off);
    assert_true(changed(1, &(tl_contrast_look){.crop = true}) > 0.95);
}

/* Without strength grey alone is left, which a single channel is already. */
static void test_grey(void **state)
{
    (void)state;
    uint8_t bytes[PIXELS * 3];
    float out[PIXELS * 3];
    int64_t count = 0;
    paint(bytes, 3);
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        see(out, bytes, 3, &(tl_contrast_look){.distort = true}, seed);
        bool grey = true;
        for (int64_t i = 0; i < PIXELS * 3; i += 3)
            grey = grey && out[i] == out[i + 1] && out[i] == out[i + 2];
        count += grey;
        for (int64_t i = 0; !grey && i < PIXELS * 3; i++)
            assert_true(fabsf(out[i] - (float)bytes[i] / 255) <= 2e-6f);
    }
    assert_true(fabs((double)count / DRAWS - 0.2) < 0.03);
}

static float mean_of(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)x[i];
    return (float)(sum / (double)count);
}

/* Added brightness moves means in both directions; multiplied, by up to 0.8 of the mean. */
static void test_brightness_has_two_forms(void **state)
{
    (void)state;
    uint8_t bytes[PIXELS];
    float out[PIXELS];
    memset(bytes, 26, sizeof bytes); // about 0.1 everywhere: contrast changes nothing
    for (int additive = 0; additive < 2; additive++) {
        tl_contrast_look look = {.distort = true, .strength = 1, .additive = additive};
        float least = 1, most = 0;
        for (uint64_t seed = 0; seed < 500; seed++) {
            see(out, bytes, 1, &look, seed);
            float mean = mean_of(out, PIXELS);
            least = fminf(least, mean);
            most = fmaxf(most, mean);
        }
        if (additive) assert_true(least == 0 && most > 0.8f && most <= 0.1f + 0.8f + 0.01f);
        else assert_true(least > 0.019f && most > 0.17f && most <= 0.19f);
    }
}

/* A stream stands at the same place whatever was switched on, cutting out apart. */
static void test_streams_stay_in_step(void **state)
{
    (void)state;
    uint8_t bytes[PIXELS * 3];
    float out[PIXELS * 3];
    paint(bytes, 3);
    tl_pixels image = tl_pixels_new(TL_U8, SIDE, SIDE, 3, bytes);
    const tl_contrast_look looks[] = {
        {.crop = true},
        {.crop = true, .flip = true, .distort = true, .strength = 1, .blur = true},
    };
    int64_t places[2];
    for (uint64_t seed = 0; seed < 50; seed++) {
        for (int i = 0; i < 2; i++) {
            tl_rng rng;
            tl_rng_init(&rng, seed);
            assert_ok(tl_contrast_view(out, SIDE, SIDE, &looks[i], &image, &rng));
            places[i] = tl_rng_position(&rng);
        }
        assert_int_equal(places[0], places[1]);
    }
}

/* Images of another size are changed first, and then resized. */
static void test_whole_images_are_resized_last(void **state)
{
    (void)state;
    uint8_t bytes[PIXELS * 3];
    float whole[PIXELS * 3], wanted[9 * 7 * 3], out[9 * 7 * 3];
    const tl_contrast_look look = {.flip = true, .distort = true, .strength = 1};
    paint(bytes, 3);
    for (uint64_t seed = 0; seed < 20; seed++) {
        tl_rng rng;
        tl_pixels image = tl_pixels_new(TL_U8, SIDE, SIDE, 3, bytes);
        tl_pixels small = tl_pixels_new(TL_F32, 9, 7, 3, wanted);
        tl_rng_init(&rng, seed);
        assert_ok(tl_contrast_view(out, 9, 7, &look, &image, &rng));
        see(whole, bytes, 3, &look, seed);
        tl_pixels large = tl_pixels_new(TL_F32, SIDE, SIDE, 3, whole);
        assert_ok(tl_pixels_resize(&small, &large, &(tl_pixels_resize_args){0}, NULL));
        for (int i = 0; i < 9 * 7 * 3; i++) assert_true(fabsf(out[i] - wanted[i]) <= 1e-6f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_chances),
        cmocka_unit_test(test_grey),
        cmocka_unit_test(test_brightness_has_two_forms),
        cmocka_unit_test(test_streams_stay_in_step),
        cmocka_unit_test(test_whole_images_are_resized_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
