/* Random changes of images as Model Garden computes them (tests/golden/augment.py), byte by
 * byte. */
#include <stdlib.h>

#include <tilth/data/augment.h>

#include "golden_cases.h"

#define CASES TEST_DATA "/golden/augment.tfrecord"
enum { MOST = 4096 };

/* --- images ----------------------------------------------------------------------------------- */

/* An image of a case in memory with gaps between its rows, which must stay as they are. */
enum { GAP = 5, MARK = 0xa5 };
typedef struct framed {
    uint8_t memory[MOST];
    tl_pixels p;
} framed;

static void frame(framed *f, const int64_t shape[3], const char *pixels)
{
    int64_t row = shape[1] * shape[2];
    memset(f->memory, MARK, sizeof f->memory);
    f->p = tl_pixels_new(TL_U8, shape[0], shape[1], shape[2], f->memory + GAP);
    f->p.stride = row + GAP;
    assert_true((shape[0] + 1) * f->p.stride + GAP < MOST);
    for (int64_t y = 0; pixels && y < shape[0]; y++)
        memcpy((uint8_t *)f->p.data + y * f->p.stride, pixels + y * row, (size_t)row);
}

static bool same(const tl_pixels *p, tl_bytes want)
{
    int64_t row = p->width * p->channels;
    assert_int_equal(want.size, row * p->height);
    for (int64_t y = 0; y < p->height; y++) {
        const uint8_t *got = (const uint8_t *)p->data + y * p->stride;
        if (memcmp(got, want.data + y * row, (size_t)row) != 0) return false;
        for (int64_t i = 0; i < GAP; i++) assert_int_equal(got[row + i], MARK);
    }
    return true;
}

/* --- operations ------------------------------------------------------------------------------- */

static void plain(const char *op, const tl_pixels *out, const tl_pixels *in, const float *x)
{
    if (strcmp(op, "autocontrast") == 0) tl_pixels_autocontrast(out, in);
    else if (strcmp(op, "equalize") == 0) tl_pixels_equalize(out, in);
    else if (strcmp(op, "invert") == 0) tl_pixels_invert(out, in);
    else if (strcmp(op, "grayscale") == 0) tl_pixels_grayscale(out, in);
    else if (strcmp(op, "posterize") == 0) tl_pixels_posterize(out, in, (int)x[0]);
    else if (strcmp(op, "solarize") == 0) tl_pixels_solarize(out, in, (int)x[0]);
    else if (strcmp(op, "solarize_add") == 0) tl_pixels_solarize_add(out, in, (int)x[0], (int)x[1]);
    else if (strcmp(op, "color") == 0) tl_pixels_color(out, in, x[0]);
    else if (strcmp(op, "contrast") == 0) tl_pixels_contrast(out, in, x[0]);
    else if (strcmp(op, "brightness") == 0) tl_pixels_brightness(out, in, x[0]);
    else fail_msg("no operation %s", op);
}

static bool looks_around(const char *op, const tl_pixels *out, const tl_pixels *in, const float *x)
{
    if (strcmp(op, "sharpness") == 0) tl_pixels_sharpness(out, in, x[0]);
    else if (strcmp(op, "blur") == 0) tl_pixels_blur(out, in, x[0]);
    else if (strcmp(op, "rotate") == 0) tl_pixels_rotate(out, in, x[0]);
    else if (strcmp(op, "transform") == 0) tl_pixels_transform(out, in, x);
    else return false;
    return true;
}

static void check_operation(const golden_case *c)
{
    static framed in, out;
    int64_t shape[3];
    float x[8] = {0};
    const char *op = text_of(c, "op");
    ints_of(c, "shape", shape, 3);
    floats_of(c, "number", x, TL_COUNT(x));
    frame(&in, shape, bytes_of(c, "pixels").data);
    frame(&out, shape, NULL);
    tl_bytes want = bytes_of(c, "want");
    if (!looks_around(op, &out.p, &in.p, x)) {
        plain(op, &out.p, &in.p, x);
        if (!same(&out.p, want))
            fail_msg("%s %g of %d x %d", op, x[0], (int)shape[0], (int)shape[1]);
        plain(op, &in.p, &in.p, x); // in place
        if (!same(&in.p, want)) fail_msg("%s %g in place", op, x[0]);
        return;
    }
    if (!same(&out.p, want))
        fail_msg("%s %g %g %g %g %g %g of %d x %d", op, x[0], x[1], x[2], x[3], x[4], x[5],
                 (int)shape[0], (int)shape[1]);
}

static void operations_are_those_of_the_original(void **state)
{
    (void)state;
    each_case(CASES, "op", 550, check_operation);
}

/* --- levels ----------------------------------------------------------------------------------- */

static void check_level(const golden_case *c)
{
    static framed in, out;
    tl_augment_op op;
    int64_t shape[3];
    float level;
    bool seen[2] = {false, false}, differ;
    assert_true(tl_augment_op_find(&op, text_of(c, "op")));
    assert_string_equal(tl_augment_op_name(op), text_of(c, "op"));
    ints_of(c, "shape", shape, 3);
    floats_of(c, "level", &level, 1);
    tl_bytes one = bytes_of(c, "want"), other = bytes_of(c, "other");
    differ = memcmp(one.data, other.data, one.size) != 0;
    for (int i = 0; i < 24; i++) {
        tl_rng rng;
        tl_rng_init(&rng, (uint64_t)i);
        frame(&in, shape, bytes_of(c, "pixels").data);
        frame(&out, shape, NULL);
        tl_pixels image = in.p, spare = out.p;
        tl_augment_apply(op, level, (tl_augment_reach){100, 10}, &image, &spare, &rng);
        assert_true(image.data != spare.data
                    && (image.data == in.p.data || image.data == out.p.data));
        bool first = same(&image, one);
        if (!first && !same(&image, other)) fail_msg("%s at level %g", text_of(c, "op"), level);
        seen[!first] = true;
    }
    assert_true(seen[0]);
    assert_int_equal(seen[1], differ);
}

static void levels_mean_what_they_mean_there(void **state)
{
    (void)state;
    each_case(CASES, "level", 144, check_level);
}

static void check_policy(const golden_case *c)
{
    static float prob[64], level[64];
    int64_t rows, at = 0;
    const tl_augment_policy *p = tl_augment_policy_find(text_of(c, "name"));
    assert_non_null(p);
    ints_of(c, "rows", &rows, 1);
    assert_int_equal(p->row_count, rows);
    assert_int_equal(floats_of(c, "prob", prob, TL_COUNT(prob)), rows * p->step_count);
    floats_of(c, "level", level, TL_COUNT(level));
    char names[MOST], *rest = names;
    strcpy(names, text_of(c, "ops"));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < p->step_count; k++, at++) {
            const tl_augment_step *s = &p->rows[i][k];
            assert_string_equal(tl_augment_op_name(s->op), strtok_r(rest, " ", &rest));
            assert_near(s->prob, prob[at], 1e-7);
            assert_near(s->level, level[at], 1e-6);
        }
}

static void policies_are_those_of_the_original(void **state)
{
    (void)state;
    int64_t count = 0;
    while (tl_augment_policy_at(count)) count++;
    each_case(CASES, "policy", count, check_policy);
    assert_null(tl_augment_policy_find("detection_v0"));
    assert_null(tl_augment_policy_at(-1));
}

/* --- edges ------------------------------------------------------------------------------------ */

/* A grey image is changed like a colour image of three equal channels; colour alone is the image
 * itself. */
static void one_channel_is_three_equal_ones(void **state)
{
    (void)state;
    static uint8_t grey[63], colours[189], out[63], wide[189];
    static const float half_turn[6] = {-1, 0, 8, 0, -1, 6};
    tl_rng rng;
    tl_rng_init(&rng, 3);
    for (int i = 0; i < 63; i++) {
        grey[i] = (uint8_t)tl_rng_below(&rng, 256);
        for (int k = 0; k < 3; k++) colours[3 * i + k] = grey[i];
    }
    tl_pixels a = tl_pixels_new(TL_U8, 7, 9, 1, grey), b = tl_pixels_new(TL_U8, 7, 9, 1, out);
    tl_pixels c = tl_pixels_new(TL_U8, 7, 9, 3, colours), d = tl_pixels_new(TL_U8, 7, 9, 3, wide);
    for (int what = 0; what < 6; what++) {
        switch (what) {
        case 0: tl_pixels_equalize(&b, &a), tl_pixels_equalize(&d, &c); break;
        case 1: tl_pixels_contrast(&b, &a, 1.7), tl_pixels_contrast(&d, &c, 1.7); break;
        case 2: tl_pixels_sharpness(&b, &a, 0.3), tl_pixels_sharpness(&d, &c, 0.3); break;
        case 3: tl_pixels_blur(&b, &a, 1), tl_pixels_blur(&d, &c, 1); break;
        case 4:
            tl_pixels_transform(&b, &a, half_turn), tl_pixels_transform(&d, &c, half_turn);
            break;
        default: tl_pixels_autocontrast(&b, &a), tl_pixels_autocontrast(&d, &c); break;
        }
        for (int i = 0; i < 189; i++) assert_int_equal(wide[i], out[i / 3]);
    }
    tl_pixels_color(&b, &a, 0.1);
    assert_memory_equal(out, grey, sizeof grey);
    tl_pixels_transform(&b, &a, half_turn);
    for (int i = 0; i < 63; i++) assert_int_equal(out[i], grey[62 - i]);
}

/* Images of one pixel, row or column. */
static void small_images_can_be_changed(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {1, 6}, {6, 1}, {2, 2}, {3, 3}, {2, 9}};
    for (int64_t i = 0; i < TL_COUNT(sizes); i++)
        for (int64_t channels = 1; channels <= 3; channels += 2)
            for (int op = 0; op < TL_AUGMENT_COUNT; op++) {
                static framed in, out;
                int64_t shape[] = {sizes[i][0], sizes[i][1], channels};
                frame(&in, shape, "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
                frame(&out, shape, NULL);
                tl_rng rng;
                tl_rng_init(&rng, (uint64_t)op);
                tl_pixels image = in.p, spare = out.p;
                tl_augment_apply((tl_augment_op)op, 9, (tl_augment_reach){3, 20}, &image, &spare,
                                 &rng);
                for (int64_t y = 0; y < shape[0]; y++)
                    for (int64_t k = 0; k < GAP; k++)
                        assert_int_equal(
                            ((uint8_t *)image.data)[y * image.stride + shape[1] * channels + k],
                            MARK);
            }
}

// Whatever levels and reaches a caller has: there are images at the end of it.
static void numbers_without_sense_are_limited(void **state)
{
    (void)state;
    static const double numbers[] = {-1e300, -1, 0, 1e6, 1e300, INFINITY, -INFINITY, NAN};
    for (int64_t i = 0; i < TL_COUNT(numbers); i++)
        for (int op = 0; op < TL_AUGMENT_COUNT; op++) {
            uint8_t a[5 * 4 * 3] = {1, 2, 3}, b[5 * 4 * 3];
            tl_pixels image = tl_pixels_new(TL_U8, 5, 4, 3, a),
                      spare = tl_pixels_new(TL_U8, 5, 4, 3, b);
            tl_rng rng;
            tl_rng_init(&rng, (uint64_t)op);
            tl_augment_apply((tl_augment_op)op, numbers[i],
                             (tl_augment_reach){numbers[i], numbers[i]}, &image, &spare, &rng);
            tl_augment_apply((tl_augment_op)op, 10, (tl_augment_reach){numbers[i], numbers[i]},
                             &image, &spare, &rng);
            tl_color_jitter_apply(numbers[i], &image, &rng);
            assert_true(image.height == 5 && image.width == 4);
        }
}

static void fractions_are_cut_off(void **state)
{
    (void)state;
    float in[8] = {-3, 0.9f, 1.5f, 77, 254.999f, 255.7f, 1e9f, NAN};
    const uint8_t wanted[8] = {0, 0, 1, 77, 254, 255, 255, 0};
    uint8_t out[8];
    tl_pixels from = tl_pixels_new(TL_F32, 2, 4, 1, in), to = tl_pixels_new(TL_U8, 2, 4, 1, out);
    tl_pixels_cut(&to, &from);
    assert_memory_equal(out, wanted, sizeof out);
}

static void windows_are_cut_to_the_image(void **state)
{
    (void)state;
    uint8_t bytes[12 * 3];
    tl_pixels p = tl_pixels_new(TL_U8, 3, 4, 3, bytes);
    memset(bytes, 7, sizeof bytes);
    tl_pixels_fill(&p, (tl_window){-2, 1, 4, 9}, 128);
    for (int i = 0; i < 36; i++) assert_int_equal(bytes[i], i / 12 >= 1 && i / 3 % 4 < 2 ? 128 : 7);
    tl_pixels_fill(&p, (tl_window){9, 9, 4, 4}, 1);
    tl_pixels_fill(&p, (tl_window){0, 0, 0, 2}, 1);
    for (int i = 0; i < 36; i++) assert_true(bytes[i] != 1);
}

/* --- mixtures --------------------------------------------------------------------------------- */

static void check_mixture(const golden_case *c)
{
    static float out[MOST], soft[MOST];
    int64_t shape[4], classes, cut, labels[8], windows[32];
    int32_t narrow[8];
    float shares[8], smoothing;
    tl_mixture mixtures[8];
    ints_of(c, "shape", shape, 4);
    ints_of(c, "classes", &classes, 1);
    ints_of(c, "cut", &cut, 1);
    ints_of(c, "labels", labels, shape[0]);
    ints_of(c, "windows", windows, 4 * shape[0]);
    floats_of(c, "shares", shares, TL_COUNT(shares));
    floats_of(c, "smoothing", &smoothing, 1);
    for (int64_t i = 0; i < shape[0]; i++) {
        const int64_t *w = windows + 4 * i;
        mixtures[i] = (tl_mixture){shares[i], {w[0], w[1], w[2], w[3]}};
        narrow[i] = (int32_t)labels[i];
    }
    tl_mixture_kind kind = cut < 0 ? TL_MIXTURE_NONE : cut ? TL_MIXTURE_CUTMIX : TL_MIXTURE_MIXUP;
    float *in = malloc(bytes_of(c, "images").size);
    memcpy(in, bytes_of(c, "images").data, bytes_of(c, "images").size);
    for (int64_t i = 0; i < (shape[0] + 1) / 2; i++)
        tl_mixtures_images(out, in, i, shape[0], kind, mixtures, shape[1], shape[2], shape[3]);
    tl_mixtures_labels(soft, narrow, shape[0], kind, mixtures, smoothing, classes);
    tl_bytes want = bytes_of(c, "want"), want_soft = bytes_of(c, "soft");
    for (size_t i = 0; i < want.size / sizeof(float); i++) {
        float x;
        memcpy(&x, want.data + i * sizeof x, sizeof x);
        assert_near(out[i], x, kind == TL_MIXTURE_MIXUP ? 1e-6 : 0);
    }
    for (size_t i = 0; i < want_soft.size / sizeof(float); i++) {
        float x;
        memcpy(&x, want_soft.data + i * sizeof x, sizeof x);
        assert_near(soft[i], x, 1e-7);
    }
    free(in);
}

static void batches_are_mixed_as_there(void **state)
{
    (void)state;
    each_case(CASES, "mixture", 18, check_mixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_are_those_of_the_original),
        cmocka_unit_test(levels_mean_what_they_mean_there),
        cmocka_unit_test(policies_are_those_of_the_original),
        cmocka_unit_test(one_channel_is_three_equal_ones),
        cmocka_unit_test(small_images_can_be_changed),
        cmocka_unit_test(numbers_without_sense_are_limited),
        cmocka_unit_test(fractions_are_cut_off),
        cmocka_unit_test(windows_are_cut_to_the_image),
        cmocka_unit_test(batches_are_mixed_as_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
