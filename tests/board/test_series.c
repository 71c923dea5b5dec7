/* The points of a curve: kept, cut, thinned, chosen to be drawn. */
#include <stdlib.h>

#include <tilth/base/vec.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_come_back),           cmocka_unit_test(strange_points_come_back),
        cmocka_unit_test(a_cut_takes_later_steps),    cmocka_unit_test(extremes_stay),
        cmocka_unit_test(not_a_number_stays),         cmocka_unit_test(a_part_is_seen_closer),
        cmocka_unit_test(smoothing_is_of_all_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
