/* The points of a curve: kept, cut, thinned, chosen to be drawn. */
#include <stdlib.h>

#include <tilth/base/vec.h>

#include "board/digits.h"
#include "board/kept.h"
#include "board/series.h"
#include "test.h"

static void fill(tli_series *s, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        assert_true(tli_series_add(s, i * 10, 1.7e9 + (double)i * 0.25, sin((double)i)));
}

static void points_come_back(void **state)
{
    (void)state;
    tli_series s = {0};
    tli_point p;
    int64_t block = 0, i = 0;
    int at = 0;
    fill(&s, 1000);
    assert_int_equal(s.points, 1000);
    for (; tli_series_next(&p, &s, &block, &at); i++) {
        assert_int_equal(p.step, i * 10);
        assert_near(p.time, 1.7e9 + (double)i * 0.25, 1e-3);
        assert_near(p.value, sin((double)i), 1e-7);
    }
    assert_int_equal(i, 1000);
    tli_series_free(&s);
}

/* Steps that jump, go back, or are at the ends of their range; times that are none. */
static void strange_points_come_back(void **state)
{
    (void)state;
    static const int64_t steps[] = {0, 5000000000, 3, -7, INT64_MAX, INT64_MIN, 12, 12};
    static const double times[] = {1e9, 2e9, 1e9, 0, -5, NAN, INFINITY, 1e300};
    tli_series s = {0};
    tli_point p;
    int64_t block = 0;
    int at = 0;
    for (int i = 0; i < 8; i++) assert_true(tli_series_add(&s, steps[i], times[i], i));
    for (int i = 0; i < 8; i++) {
        assert_true(tli_series_next(&p, &s, &block, &at));
        assert_int_equal(p.step, steps[i]);
        assert_near(p.value, i, 0);
        assert_true(p.time >= 0 && p.time < 1e11);
    }
    tli_series_free(&s);
}

static void a_cut_takes_later_steps(void **state)
{
    (void)state;
    tli_series s = {0};
    tli_point last;
    fill(&s, 1000);
    assert_true(tli_series_add(&s, 10001, 1.7e9, 77));
    tli_series_cut(&s, 500);
    assert_int_equal(s.points, 50);
    assert_true(tli_series_last(&last, &s));
    assert_int_equal(last.step, 490);
    assert_true(s.high.value <= 1);
    tli_series_cut(&s, 0);
    assert_int_equal(s.points, 0);
    assert_false(tli_series_last(&last, &s));
    tli_series_free(&s);
}

static bool has_step(const tli_points *p, int64_t step)
{
    for (int64_t i = 0; i < p->count; i++)
        if (p->items[i].step == step) return true;
    return false;
}

static tli_points sample(const tli_series *s, const tli_sample_args *args)
{
    tli_points out = {0};
    assert_ok(tli_series_sample(&out, s, args));
    return out;
}

/* Whatever is thinned and chosen, the one point that stands out is drawn. */
static void extremes_stay(void **state)
{
    (void)state;
    for (int64_t odd = 0; odd < 40000; odd += 1777) {
        tli_series s = {0};
        for (int64_t i = 0; i < 40000; i++)
            assert_true(tli_series_add(&s, i, 1e9, i == odd ? (odd % 2 ? 9 : -9) : sin((double)i)));
        for (int k = 0; k < 5; k++) assert_true(tli_series_thin(&s));
        assert_true(s.points <= 40000 / 32 + 40);
        assert_int_equal(s.told, 40000);
        tli_points p = sample(&s, &(tli_sample_args){.buckets = 20});
        assert_true(has_step(&p, odd));
        assert_true(has_step(&p, 0));
        assert_true(has_step(&p, 39999));
        assert_true(p.count <= 80);
        for (int64_t i = 1; i < p.count; i++) assert_true(p.items[i].step > p.items[i - 1].step);
        TL_VEC_FREE(&p);
        tli_series_free(&s);
    }
}

static void not_a_number_stays(void **state)
{
    (void)state;
    tli_series s = {0};
    for (int i = 0; i < 5000; i++) assert_true(tli_series_add(&s, i, 1e9, i == 1234 ? NAN : i % 7));
    assert_true(tli_series_thin(&s));
    tli_points p = sample(&s, &(tli_sample_args){.buckets = 10});
    assert_true(has_step(&p, 1234));
    assert_near(s.high.value, 6, 0);
    TL_VEC_FREE(&p);
    tli_series_free(&s);
}

/* A part of the axis has its own columns, and one point on either side for the line to go on. */
static void a_part_is_seen_closer(void **state)
{
    (void)state;
    tli_series s = {0};
    fill(&s, 10000);
    tli_points p = sample(&s, &(tli_sample_args){.buckets = 1000, .from = 1000, .to = 1200});
    assert_int_equal(p.count, 23);
    assert_int_equal(p.items[0].step, 990);
    assert_int_equal(p.items[22].step, 1210);
    TL_VEC_FREE(&p);
    p = sample(
        &s, &(tli_sample_args){.buckets = 1000, .axis = TLI_AXIS_RELATIVE, .from = 10, .to = 20});
    assert_int_equal(p.items[1].step, 400);
    TL_VEC_FREE(&p);
    p = sample(&s, &(tli_sample_args){.buckets = 50, .logarithmic = true});
    assert_true(has_step(&p, 20)); // small steps have columns of their own
    TL_VEC_FREE(&p);
    tli_series_free(&s);
}

static void smoothing_is_of_all_points(void **state)
{
    (void)state;
    tli_series s = {0};
    double sum = 0, scale = 0;
    for (int i = 0; i < 3000; i++) assert_true(tli_series_add(&s, i, 1e9, (i * 7919) % 100));
    for (int i = 0; i < 3000; i++) {
        sum = sum * 0.9 + 0.1 * ((i * 7919) % 100);
        scale = scale * 0.9 + 0.1;
    }
    tli_points p = sample(&s, &(tli_sample_args){.buckets = 3, .smooth = 0.9});
    assert_near(p.items[p.count - 1].value, sum / scale, 1e-4);
    TL_VEC_FREE(&p);
    tli_series_free(&s);
}

/* --- numbers as text -------------------------------------------------------------------------- */

static double read_value(double value)
{
    char text[TLI_DIGITS];
    size_t length = tli_digits_value(text, value);
    assert_int_equal(length, strlen(text));
    return tl_strtod(text, NULL);
}

/* All magnitudes, ties, and what printf says of them. */
static void values_are_those_of_printf(void **state)
{
    (void)state;
    static const double chosen[] = {0,    1,      0.1F,    9999999,  9999999.5F,  1e7,
                                    -2.5, 1e-4,   9.99e-5, 0.5,      16777216,    123456.75,
                                    1e30, -1e-30, 1.5e-44, 3.40e38F, 0.099999997F};
    char text[64];
    uint64_t bits = 1;
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        snprintf(text, sizeof text, "%.7g", chosen[i]);
        assert_near(read_value(chosen[i]), tl_strtod(text, NULL), 0);
    }
    for (int i = 0; i < 200000; i++) {
        bits = bits * 6364136223846793005U + 1442695040888963407U;
        uint32_t half = (uint32_t)(bits >> 32);
        float value;
        memcpy(&value, &half, sizeof value);
        if (!isfinite(value)) continue;
        snprintf(text, sizeof text, "%.7g", (double)value);
        if (read_value((double)value) != tl_strtod(text, NULL))
            fail_msg("%s is written as %.9g", text, read_value((double)value));
    }
}

static void numbers_are_short(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0.25, "0.25"},   {-3, "-3"},           {NAN, "\"NaN\""},
                {1e-4, "0.0001"}, {1234567, "1234567"}, {-INFINITY, "\"-Infinity\""}};
    static const struct {
        int64_t value;
        const char *text;
    } thousandths[] = {{1500, "1.5"}, {-2, "-0.002"}, {7000, "7"}, {0, "0"}, {123456, "123.456"}};
    char text[TLI_DIGITS];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tli_digits_value(text, rows[i].value);
        assert_string_equal(text, rows[i].text);
    }
    for (size_t i = 0; i < sizeof thousandths / sizeof *thousandths; i++) {
        tli_digits_thousandths(text, thousandths[i].value);
        assert_string_equal(text, thousandths[i].text);
    }
    tli_digits_int(text, INT64_MIN);
    assert_string_equal(text, "-9223372036854775808");
}

/* --- answers that are kept -------------------------------------------------------------------- */

static bool has_answer(tli_kept *c, const char *key, uint64_t version, const char *expected)
{
    tl_str found = TL_STR_INIT;
    bool there = tli_kept_find(c, key, version, &found);
    if (there) assert_string_equal(tl_str_text(&found), expected);
    tl_str_deinit(&found);
    return there;
}

static void answers_are_kept_until_something_changes(void **state)
{
    (void)state;
    tli_kept *c = tli_kept_new();
    tl_str answer = TL_STR_INIT;
    assert_non_null(c);
    tl_str_add(&answer, "[1]");
    tli_kept_keep(c, "a", 7, &answer);
    assert_true(has_answer(c, "a", 7, "[1]"));
    assert_false(has_answer(c, "b", 7, ""));
    assert_false(has_answer(c, "a", 8, ""));
    for (int i = 0; i < 64; i++) { // others come, and it goes
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        tli_kept_keep(c, key, 7, &answer);
    }
    assert_false(has_answer(c, "a", 7, ""));
    assert_true(has_answer(c, "k0", 7, "[1]"));
    tl_str_deinit(&answer);
    tl_str_pad(&answer, 'x', 2 << 20);
    tli_kept_keep(c, "long", 7, &answer);
    assert_false(has_answer(c, "long", 7, ""));
    tl_str_deinit(&answer);
    tli_kept_free(&c);
    assert_null(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_come_back),
        cmocka_unit_test(strange_points_come_back),
        cmocka_unit_test(a_cut_takes_later_steps),
        cmocka_unit_test(extremes_stay),
        cmocka_unit_test(not_a_number_stays),
        cmocka_unit_test(a_part_is_seen_closer),
        cmocka_unit_test(smoothing_is_of_all_points),
        cmocka_unit_test(values_are_those_of_printf),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(answers_are_kept_until_something_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
