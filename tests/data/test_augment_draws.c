/* What random changes of images draw: frequencies and moments against those that follow from the
 * definitions. */
#include "test.h"

#include <stdlib.h>

#include <tilth/core/ctx.h>
#include <tilth/core/tensors.h>
#include <tilth/data/augment.h>

#include "engine.h"

enum { DRAWS = 40000 };

/* Five deviations of a frequency: by chance once in two million. */
static void check_frequency(const char *what, int64_t hits, int64_t draws, double probability)
{
    double far = 5 * sqrt(draws * probability * (1 - probability)) + 1e-9;
    if (fabs((double)hits - draws * probability) > far)
        fail_msg("%s: %lld of %lld, not %g", what, (long long)hits, (long long)draws,
                 draws * probability);
}

typedef struct moments {
    double count, sum, squares;
} moments;

static void add(moments *m, double x)
{
    m->count++;
    m->sum += x;
    m->squares += x * x;
}

/* `fourth` is the fourth central moment. */
static void check_moments(const moments *m, double mean, double variance, double fourth)
{
    double found = m->sum / m->count, spread = m->squares / m->count - found * found;
    assert_near(found, mean, 5 * sqrt(variance / m->count));
    assert_near(spread, variance, 6 * sqrt((fourth - variance * variance) / m->count));
}

static tl_rng stream_of(int64_t i)
{
    tl_rng rng;
    tl_rng_init(&rng, 12);
    tl_rng_fold(&rng, &rng, (uint64_t)i);
    return rng;
}

/* --- single operations ------------------------------------------------------------------------ */

static void signs_are_equally_likely(void **state)
{
    (void)state;
    static const tl_augment_op ops[] = {TL_AUGMENT_ROTATE, TL_AUGMENT_SHEAR_X, TL_AUGMENT_SHEAR_Y,
                                        TL_AUGMENT_TRANSLATE_X, TL_AUGMENT_TRANSLATE_Y};
    for (int64_t k = 0; k < TL_COUNT(ops); k++) {
        int64_t hits = 0;
        uint8_t first[49], bytes[49], other[49];
        for (int64_t i = 0; i < DRAWS / 2; i++) {
            tl_rng rng = stream_of(i);
            for (int v = 0; v < 49; v++) bytes[v] = (uint8_t)(v * 5);
            tl_pixels image = tl_pixels_new(TL_U8, 7, 7, 1, bytes),
                      spare = tl_pixels_new(TL_U8, 7, 7, 1, other);
            tl_augment_apply(ops[k], 10, (tl_augment_reach){0, 2}, &image, &spare, &rng);
            if (i == 0) memcpy(first, image.data, sizeof first);
            hits += memcmp(first, image.data, sizeof first) == 0;
        }
        check_frequency(tl_augment_op_name(ops[k]), hits, DRAWS / 2, 0.5);
    }
}

/* The centre is anywhere; what lies outside is cut off. */
static void cutouts_lie_anywhere(void **state)
{
    (void)state;
    enum { SIDE = 11, HALF = 3 };
    int64_t covered[SIDE] = {0};
    for (int64_t i = 0; i < DRAWS; i++) {
        uint8_t bytes[SIDE * SIDE] = {0}, other[SIDE * SIDE];
        tl_rng rng = stream_of(i);
        tl_pixels image = tl_pixels_new(TL_U8, SIDE, SIDE, 1, bytes);
        tl_pixels spare = tl_pixels_new(TL_U8, SIDE, SIDE, 1, other);
        tl_augment_apply(TL_AUGMENT_CUTOUT, 10, (tl_augment_reach){HALF, 0}, &image, &spare, &rng);
        int64_t count = 0, rows = 0;
        for (int y = 0; y < SIDE; y++) {
            bool any = false;
            for (int x = 0; x < SIDE; x++) {
                assert_true(bytes[y * SIDE + x] == 0 || bytes[y * SIDE + x] == 128);
                count += bytes[y * SIDE + x] == 128;
                any |= bytes[y * SIDE + x] == 128;
            }
            covered[y] += any;
            rows += any;
        }
        assert_true(rows >= HALF && rows <= 2 * HALF && count % rows == 0);
    }
    for (int y = 0; y < SIDE; y++) {
        int centres = 0;
        for (int at = 0; at < SIDE; at++) centres += y >= at - HALF && y < at + HALF;
        check_frequency("row under a cutout", covered[y], DRAWS, centres / (double)SIDE);
    }
}

/* A constant grey image of one channel shows the factor of brightness alone. */
static void jitter_is_even_around_one(void **state)
{
    (void)state;
    moments m = {0}, wide = {0};
    for (int64_t i = 0; i < DRAWS; i++) {
        uint8_t bytes[1] = {100};
        tl_rng rng = stream_of(i);
        tl_pixels image = tl_pixels_new(TL_U8, 1, 1, 1, bytes);
        tl_color_jitter_apply(0.4, &image, &rng);
        add(&m, (bytes[0] + 0.5) / 100);
        assert_true(bytes[0] >= 59 && bytes[0] <= 140);
        bytes[0] = 100;
        tl_color_jitter_apply(1.5, &image, &rng);
        add(&wide, (bytes[0] + 0.5) / 100);
    }
    check_moments(&m, 1, 0.8 * 0.8 / 12, pow(0.8, 4) / 80);
    check_moments(&wide, 1.25, 2.5 * 2.5 / 12, pow(2.5, 4) / 80); // from 0 to 2.5
}

/* --- policies --------------------------------------------------------------------------------- */

/* Of a black image cutouts and inversions are all that can be seen: each row of `vit` cuts out with
 * 0.8, two of the nine invert with 0.6. */
static void steps_are_taken_with_their_probability(void **state)
{
    (void)state;
    const tl_autoaug vit = {.augmentation_name = "vit", .cutout_const = 4, .translate_const = 1};
    int64_t cuts = 0, white = 0;
    for (int64_t i = 0; i < DRAWS; i++) {
        uint8_t bytes[243] = {0}, other[243];
        tl_rng rng = stream_of(i);
        tl_pixels image = tl_pixels_new(TL_U8, 9, 9, 3, bytes),
                  spare = tl_pixels_new(TL_U8, 9, 9, 3, other);
        tl_autoaug_apply(&vit, &image, &spare, &rng);
        const uint8_t *p = image.data;
        bool cut = false;
        int value = 0;
        for (int v = 0; v < 243; v++) {
            cut |= p[v] == 128;
            if (p[v] != 128) value = p[v];
        }
        cuts += cut;
        white += value == 255;
    }
    check_frequency("cutouts", cuts, DRAWS, 0.8);
    // No cutout covers all of the image: half of the largest one's side is 3.
    check_frequency("inversions", white, DRAWS, 2.0 / 9 * 0.6);
}

static void three_augment_does_one_of_three(void **state)
{
    (void)state;
    int64_t grey = 0, solarized = 0, blurred = 0;
    moments sigma = {0};
    for (int64_t i = 0; i < DRAWS; i++) {
        uint8_t bytes[27], other[27];
        for (int v = 0; v < 27; v++) bytes[v] = v == 12 ? 240 : 0; // one bright red point
        tl_rng rng = stream_of(i);
        tl_pixels image = tl_pixels_new(TL_U8, 3, 3, 3, bytes),
                  spare = tl_pixels_new(TL_U8, 3, 3, 3, other);
        tl_three_augment_apply(&image, &spare, &rng);
        const uint8_t *p = image.data;
        if (p[12] == 15) solarized++;
        else if (p[13] > 0) grey++;
        else blurred++, add(&sigma, p[12]);
    }
    check_frequency("grey", grey, DRAWS, 1.0 / 3);
    check_frequency("solarized", solarized, DRAWS, 1.0 / 3);
    check_frequency("blurred", blurred, DRAWS, 1.0 / 3);
    // The middle weight of sigma between 0.1 and 2, integrated.
    moments exact = {0};
    for (int i = 0; i < 100000; i++) {
        double s = 0.1 + 1.9 * (i + 0.5) / 100000, side = exp(-1 / (2 * s * s)),
               middle = 1 / (1 + 2 * side);
        add(&exact, floor(240 * middle * middle));
    }
    double mean = exact.sum / exact.count, variance = exact.squares / exact.count - mean * mean;
    assert_near(sigma.sum / sigma.count, mean, 5 * sqrt(variance / sigma.count));
}

static const char *const all_but_three[] = {
    "AutoContrast", "Equalize", "Rotate", "Posterize",  "Solarize",   "Color",      "Contrast",
    "Sharpness",    "ShearX",   "ShearY", "TranslateX", "TranslateY", "SolarizeAdd"};

/* Invert, Brightness, Cutout, or none of them. */
static void randaug_draws_evenly_and_may_do_nothing(void **state)
{
    (void)state;
    tl_randaug a = {
        .num_layers = 1, .magnitude = 10, .cutout_const = 1, .exclude_ops = {all_but_three, 13}};
    for (int sometimes = 0; sometimes < 2; sometimes++) {
        int64_t none = 0, inverted = 0, brighter = 0, cut = 0;
        a.prob_to_apply = (tl_opt_double){sometimes, 0.3};
        for (int64_t i = 0; i < DRAWS; i++) {
            uint8_t bytes[9], other[9];
            memset(bytes, 50, sizeof bytes);
            tl_rng rng = stream_of(i);
            tl_pixels image = tl_pixels_new(TL_U8, 3, 3, 1, bytes),
                      spare = tl_pixels_new(TL_U8, 3, 3, 1, other);
            tl_randaug_apply(&a, &image, &spare, &rng);
            const uint8_t *p = image.data;
            if (memchr(p, 128, 9)) cut++;
            else if (p[0] == 205) inverted++;
            else if (p[0] == 95) brighter++;
            else none += p[0] == 50;
        }
        double p = sometimes ? 0.3 : 1;
        check_frequency("inverted", inverted, DRAWS, p / 4);
        check_frequency("brighter", brighter, DRAWS, p / 4);
        check_frequency("cut out", cut, DRAWS, p / 4);
        check_frequency("none", none, DRAWS, 1 - p * 3 / 4);
    }
}

/* Brightness alone, once or not, at a level that is drawn. */
static void magnitudes_have_their_deviation(void **state)
{
    (void)state;
    const char *excluded[15];
    memcpy(excluded, all_but_three, sizeof all_but_three);
    excluded[13] = "Invert", excluded[14] = "Cutout";
    const tl_randaug a = {
        .num_layers = 1, .magnitude = 5, .magnitude_std = 0.8, .exclude_ops = {excluded, 15}};
    moments level = {0};
    for (int64_t i = 0; i < DRAWS; i++) {
        uint8_t bytes[1] = {200}, other[1];
        tl_rng rng = stream_of(i);
        tl_pixels image = tl_pixels_new(TL_U8, 1, 1, 1, bytes),
                  spare = tl_pixels_new(TL_U8, 1, 1, 1, other);
        tl_randaug_apply(&a, &image, &spare, &rng);
        uint8_t value = *(uint8_t *)image.data;
        // Untouched ones are 200: level 5 makes the factor 1, so that they look like the middle.
        double found = ((value + 0.5) / 200 - 0.1) / 1.8 * 10;
        if (value != 200) add(&level, found);
    }
    double mean = level.sum / level.count, variance = level.squares / level.count - mean * mean;
    assert_near(mean, 5, 0.03);
    assert_near(variance, 0.64, 0.03); // bytes of the middle were left out
    assert_true(level.count > DRAWS * 0.47 && level.count < DRAWS * 0.51);
}

/* --- erasing ---------------------------------------------------------------------------------- */

enum { ERASED = 32 };

/* What the rules give on average: grids over area and aspect, every place. */
static double expected_area(const tl_random_erasing *e)
{
    double sum = 0, weight = 0, whole = ERASED * ERASED;
    for (int i = 0; i < 400; i++)
        for (int k = 0; k < 400; k++) {
            double area = whole * (e->min_area + (e->max_area - e->min_area) * (i + 0.5) / 400);
            double aspect = exp(log(e->min_aspect) * (1 - 2 * (k + 0.5) / 400));
            int h = (int)rint(sqrt(area * aspect) / 2), w = (int)rint(sqrt(area / aspect) / 2);
            if (2 * h >= ERASED || 2 * w >= ERASED) continue;
            double rows = 0, columns = 0;
            for (int y = 0; y < ERASED - 2 * h; y++) rows += y + h - (y > h ? y - h : 0);
            for (int x = 0; x < ERASED - 2 * w; x++) columns += x + w - (x > w ? x - w : 0);
            sum += rows / (ERASED - 2 * h) * columns / (ERASED - 2 * w);
            weight++;
        }
    return sum / weight;
}

static void rectangles_are_erased_with_noise(void **state)
{
    (void)state;
    const tl_random_erasing e = {
        .probability = 0.25,
        .min_area = 0.02,
        .max_area = 1.0 / 3,
        .min_aspect = 0.3,
    };
    int64_t hits = 0;
    moments area = {0}, noise = {0};
    static float image[ERASED * ERASED * 3];
    for (int64_t i = 0; i < DRAWS; i++) {
        tl_rng rng = stream_of(i);
        int64_t count = 0;
        for (int v = 0; v < ERASED * ERASED * 3; v++) image[v] = 1000;
        tl_pixels p = tl_pixels_new(TL_F32, ERASED, ERASED, 3, image);
        tl_random_erasing_apply(&e, &p, &rng);
        for (int v = 0; v < ERASED * ERASED * 3; v++) {
            if (image[v] == 1000) continue;
            count++;
            add(&noise, image[v]);
        }
        if (!count) continue;
        hits++;
        add(&area, count / 3.0);
    }
    check_frequency("erased", hits, DRAWS, 0.25);
    check_moments(&noise, 0, 1, 3);
    double mean = area.sum / area.count, spread = sqrt(area.squares / area.count - mean * mean);
    assert_near(mean, expected_area(&e), 5 * spread / sqrt(area.count));
}

/* --- mixtures --------------------------------------------------------------------------------- */

/* Beta(a, a): variance 1 / (4 (2a + 1)), fourth central moment 3 / (16 (2a + 1) (2a + 3)). */
static void shares_are_beta(void **state)
{
    (void)state;
    static const double alphas[] = {0.1, 0.8, 1, 2.5, 40};
    static tl_mixture m[DRAWS];
    for (int64_t k = 0; k < TL_COUNT(alphas); k++) {
        double a = alphas[k];
        moments share = {0};
        tl_rng rng = stream_of(k);
        // no cutmix_alpha: mixup
        const tl_mixup_and_cutmix how = {.mixup_alpha = a, .prob = 1, .switch_prob = 1};
        assert_int_equal(tl_mixtures_draw(m, DRAWS, &how, 8, 8, &rng), TL_MIXTURE_MIXUP);
        for (int64_t i = 0; i < DRAWS; i++) {
            assert_true(m[i].share >= 0 && m[i].share <= 1);
            add(&share, m[i].share);
        }
        check_moments(&share, 0.5, 1 / (4 * (2 * a + 1)), 3 / (16 * (2 * a + 1) * (2 * a + 3)));
    }
}

static void cuts_have_their_share_and_lie_anywhere(void **state)
{
    (void)state;
    enum { HEIGHT = 1000, WIDTH = 500 };
    static tl_mixture m[DRAWS];
    moments share = {0}, width = {0};
    tl_rng rng = stream_of(1);
    const tl_mixup_and_cutmix how = {.cutmix_alpha = 1, .prob = 1}; // no mixup_alpha: cutmix
    assert_int_equal(tl_mixtures_draw(m, DRAWS, &how, HEIGHT, WIDTH, &rng), TL_MIXTURE_CUTMIX);
    for (int64_t i = 0; i < DRAWS; i++) {
        const tl_window *w = &m[i].window;
        assert_true(w->x >= 0 && w->y >= 0 && w->width >= 0 && w->height >= 0
                    && w->x + w->width <= WIDTH && w->y + w->height <= HEIGHT);
        add(&share, m[i].share);
        // A cut of width c is seen in full, less what lies outside: c - c^2 / 4 / WIDTH on average.
        double c = WIDTH * sqrt(1 - m[i].share);
        add(&width, (double)w->width - (c - c * c / 4 / WIDTH));
    }
    // cuts are cut to pixels
    assert_near(share.sum / share.count, 0.5 + 0.001, 0.0075);
    // and so are halves
    assert_near(width.sum / width.count, -0.9, 0.9);
    assert_near(share.squares / share.count - pow(share.sum / share.count, 2), 1.0 / 12, 0.003);
}

static void batches_are_mixed_with_their_probability(void **state)
{
    (void)state;
    const tl_mixup_and_cutmix how = {
        .mixup_alpha = 0.8,
        .cutmix_alpha = 1,
        .prob = 0.7,
        .switch_prob = 0.2,
    };
    int64_t kinds[3] = {0};
    for (int64_t i = 0; i < DRAWS; i++) {
        tl_mixture m[2];
        tl_rng rng = stream_of(i);
        kinds[tl_mixtures_draw(m, 2, &how, 8, 8, &rng)]++;
    }
    check_frequency("mixup", kinds[TL_MIXTURE_MIXUP], DRAWS, 0.7 * 0.8);
    check_frequency("cutmix", kinds[TL_MIXTURE_CUTMIX], DRAWS, 0.7 * 0.2);
    check_frequency("none", kinds[TL_MIXTURE_NONE], DRAWS, 0.3);
}

/* The function of a pipeline: labels sum to 1, images stay what they are in sum, wrong types are
 * refused. */
static void tensors_are_mixed(void **state)
{
    (void)state;
    const tl_mixup_and_cutmix how = {.mixup_alpha = 0.8, .prob = 1, .label_smoothing = 0.1};
    tl_mixing mixing = {&how, "image", "label", 4};
    tl_engine *e;
    tl_ctx *c;
    assert_ok(test_engine_new(&e, NULL, 2));
    assert_ok(tl_ctx_new(&c, e));
    float pixels[3 * 2 * 2], soft[12];
    double before = 0, after = 0;
    for (int i = 0; i < 12; i++) before += pixels[i] = (float)(i * i % 7);
    tl_tensor *images, *labels;
    assert_ok(tl_tensor_new(&images, e, TL_F32, TL_SHAPE(3, 2, 2, 1)));
    assert_ok(tl_tensor_set(images, pixels, sizeof pixels));
    assert_ok(tl_tensor_new(&labels, e, TL_I32, TL_SHAPE(3)));
    assert_ok(tl_tensor_set(labels, (const int32_t[]){1, 0, 3}, 12));
    tl_tensors batch = {0};
    tl_tensors_put(c, &batch, "image", images);
    tl_tensors_put(c, &batch, "label", labels);
    tl_rng rng = stream_of(0);
    assert_ok(tl_mixing_batch(&mixing, c, &rng, &batch));
    tl_tensor *mixed = tl_tensors_get(c, &batch, "image");
    assert_true(mixed != images);
    assert_ok(tl_tensor_get(mixed, pixels, sizeof pixels));
    assert_ok(tl_tensor_get(tl_tensors_get(c, &batch, "label"), soft, sizeof soft));
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int k = 0; k < 4; k++) sum += soft[4 * i + k];
        assert_near(sum, 1, 1e-6);
    }
    assert_near(soft[4], 0.925, 1e-6); // the one in the middle is mixed with itself
    for (int i = 4; i < 8; i++) after += pixels[i];
    assert_near(after, (double)(16 % 7 + 25 % 7 + 36 % 7 + 49 % 7), 1e-5);
    assert_true(before > 0);
    tl_tensors_put(c, &batch, "label", images);
    assert_fails(tl_mixing_batch(&mixing, c, &rng, &batch), TL_EINVAL,
                 "labels int32 [batch] can be mixed");
    mixing.label = "class";
    assert_fails(tl_mixing_batch(&mixing, c, &rng, &batch), TL_ENOTFOUND, "'class'");
    tl_tensor_free(&images);
    tl_tensor_free(&labels);
    tl_ctx_free(&c);
    tl_engine_free(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_are_equally_likely),
        cmocka_unit_test(cutouts_lie_anywhere),
        cmocka_unit_test(jitter_is_even_around_one),
        cmocka_unit_test(steps_are_taken_with_their_probability),
        cmocka_unit_test(three_augment_does_one_of_three),
        cmocka_unit_test(randaug_draws_evenly_and_may_do_nothing),
        cmocka_unit_test(magnitudes_have_their_deviation),
        cmocka_unit_test(rectangles_are_erased_with_noise),
        cmocka_unit_test(shares_are_beta),
        cmocka_unit_test(cuts_have_their_share_and_lie_anywhere),
        cmocka_unit_test(batches_are_mixed_with_their_probability),
        cmocka_unit_test(tensors_are_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
