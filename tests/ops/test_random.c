/* Rows as for every op, then what makes numbers random: distributions, places, keys. */
#include "op_cases.h"
#include "test.h"
#include "engine.h"

#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/random.h>
#include <tilth/sys/ops/apply.h>

OP_CALL(uniform, tl_random_uniform(c, (tl_dtype)k->p[0], tl_shape_of((int)k->p[1], k->p + 2),
                                   k->q[0], k->q[1]))
OP_CALL(normal, tl_random_normal(c, (tl_dtype)k->p[0], tl_shape_of((int)k->p[1], k->p + 2), k->q[0],
                                 k->q[1]))
OP_CALL(truncated,
        tl_random_truncated_normal(c, (tl_dtype)k->p[0], tl_shape_of((int)k->p[1], k->p + 2),
                                   k->q[0], k->q[1]))
OP_CALL(bernoulli,
        tl_random_bernoulli(c, (tl_dtype)k->p[0], tl_shape_of((int)k->p[1], k->p + 2), k->q[0]))
OP_CALL(integers, tl_random_integers(c, (tl_dtype)k->p[0], TL_SHAPE(k->p[1]), k->p[2], k->p[3]))
OP_CALL(permutation, tl_random_permutation(c, k->p[0]))
/* Noise in an expression that is differentiated: keyed, so the same each time. */
OP_CALL(noisy, tl_mul(c, in[0], tl_random_normal(c, in[0]->dtype, in[0]->shape, 1, 0.25)))
OP_CALL(masked, tl_mul(c, in[0], tl_random_bernoulli(c, TL_BOOL, in[0]->shape, 0.5)))

enum { DRAW = CASE_NO_GRADIENT | CASE_RANDOM, EXACT = DRAW | CASE_EXACT };

// clang-format off
static const op_case cases[] = {
    {"uniform", {0}, uniform, .p = {TL_F32, 2, 3, 5}, .q = {0, 1}, .flags = DRAW},
    {"uniform bfloat16", {0}, uniform, .p = {TL_BF16, 1, 301}, .q = {-2, 2}, .flags = DRAW},
    {"uniform float16", {0}, uniform, .p = {TL_F16, 1, 257}, .q = {-2, 2}, .flags = DRAW},
    {"uniform float64", {0}, uniform, .p = {TL_F64, 1, 513}, .q = {5, 6}, .flags = DRAW},
    {"uniform scalar", {0}, uniform, .p = {TL_F32, 0}, .q = {0, 1}, .flags = DRAW},
    {"uniform nothing", {0}, uniform, .p = {TL_F32, 2, 0, 5}, .q = {0, 1}, .flags = DRAW},
    {"uniform one number", {0}, uniform, .p = {TL_F32, 1, 4}, .q = {0.5, 0.5}, .flags = EXACT},
    {"uniform backwards", {0}, uniform, .p = {TL_F32, 1, 4}, .q = {1, 0},
     .fails = "random_uniform: low is 1 and high is 0; both must be finite"},
    {"uniform infinite", {0}, uniform, .p = {TL_F32, 1, 4}, .q = {0, INFINITY},
     .fails = "must be finite"},
    {"uniform nan", {0}, uniform, .p = {TL_F32, 1, 4}, .q = {NAN, 1}, .fails = "must be finite"},
    {"uniform ints", {0}, uniform, .p = {TL_I32, 1, 4}, .q = {0, 1},
     .fails = "random_uniform: the type is int32 and must be a floating-point type"},
    {"uniform negative shape", {0}, uniform, .p = {TL_F32, 1, -4}, .q = {0, 1},
     .fails = "random_uniform: "},
    {"normal", {0}, normal, .p = {TL_F32, 2, 3, 5}, .q = {0, 1}, .flags = DRAW},
    {"normal bfloat16", {0}, normal, .p = {TL_BF16, 1, 301}, .q = {1, 3}, .flags = DRAW},
    {"normal float64", {0}, normal, .p = {TL_F64, 1, 600}, .q = {0, 0.02}, .flags = DRAW},
    {"normal deviation 0", {0}, normal, .p = {TL_F32, 1, 3}, .q = {7, 0}, .flags = EXACT},
    {"normal nothing", {0}, normal, .p = {TL_F32, 1, 0}, .q = {0, 1}, .flags = DRAW},
    {"normal negative deviation", {0}, normal, .p = {TL_F32, 1, 3}, .q = {0, -1},
     .fails = "random_normal: the mean is 0 and the deviation -1"},
    {"normal infinite", {0}, normal, .p = {TL_F32, 1, 3}, .q = {INFINITY, 1},
     .fails = "both must be finite"},
    {"normal bool", {0}, normal, .p = {TL_BOOL, 1, 3}, .q = {0, 1}, .fails = "the type is bool"},
    {"normal in a gradient", {"3x4"}, noisy, .flags = CASE_RANDOM},
    {"truncated normal", {0}, truncated, .p = {TL_F32, 2, 30, 5}, .q = {0, 1}, .flags = DRAW},
    {"truncated normal float16", {0}, truncated, .p = {TL_F16, 1, 301}, .q = {0, 0.02},
     .flags = DRAW},
    {"truncated normal float64", {0}, truncated, .p = {TL_F64, 1, 301}, .q = {3, 0.5},
     .flags = DRAW},
    {"truncated normal negative deviation", {0}, truncated, .p = {TL_F32, 1, 3}, .q = {0, -1},
     .fails = "random_truncated_normal: the mean"},
    {"bernoulli", {0}, bernoulli, .p = {TL_F32, 2, 3, 50}, .q = {0.3}, .flags = EXACT},
    {"bernoulli bool", {0}, bernoulli, .p = {TL_BOOL, 1, 300}, .q = {0.5}, .flags = EXACT},
    {"bernoulli int8", {0}, bernoulli, .p = {TL_I8, 1, 300}, .q = {0.9}, .flags = EXACT},
    {"bernoulli never", {0}, bernoulli, .p = {TL_F32, 1, 300}, .q = {0}, .flags = EXACT},
    {"bernoulli always", {0}, bernoulli, .p = {TL_F32, 1, 300}, .q = {1}, .flags = EXACT},
    {"bernoulli in a gradient", {"3x4"}, masked, .flags = CASE_RANDOM},
    {"bernoulli above 1", {0}, bernoulli, .p = {TL_F32, 1, 3}, .q = {1.5},
     .fails = "random_bernoulli: the probability is 1.5 and must lie between 0 and 1"},
    {"bernoulli nan", {0}, bernoulli, .p = {TL_F32, 1, 3}, .q = {NAN},
     .fails = "the probability is nan"},
    {"integers", {0}, integers, .p = {TL_I32, 300, -5, 6}, .flags = EXACT},
    {"integers int64", {0}, integers, .p = {TL_I64, 300, INT64_MIN, INT64_MAX}, .flags = EXACT},
    {"integers int8", {0}, integers, .p = {TL_I8, 300, -128, 128}, .flags = EXACT},
    {"integers one", {0}, integers, .p = {TL_U8, 30, 255, 256}, .flags = EXACT},
    {"integers nothing", {0}, integers, .p = {TL_I32, 0, 0, 1}, .flags = EXACT},
    {"integers empty range", {0}, integers, .p = {TL_I32, 3, 4, 4},
     .fails = "random_integers: low is 4 and must be below high, 4"},
    {"integers too large", {0}, integers, .p = {TL_U8, 3, 0, 257},
     .fails = "random_integers: uint8 holds 0 to 255, not all from 0 to 256"},
    {"integers too small", {0}, integers, .p = {TL_I16, 3, -32769, 0},
     .fails = "int16 holds -32768 to 32767"},
    {"integers of floats", {0}, integers, .p = {TL_F32, 3, 0, 5},
     .fails = "must be an integer type"},
    {"permutation", {0}, permutation, .p = {101}, .flags = EXACT},
    {"permutation of one", {0}, permutation, .p = {1}, .flags = EXACT},
    {"permutation of none", {0}, permutation, .p = {0}, .flags = EXACT},
    {"permutation negative", {0}, permutation, .p = {-1},
     .fails = "random_permutation: the count is -1"},

    /* --- large enough for several tasks, blocks and tails ------------------------------------- */
    {"uniform many", {0}, uniform, .p = {TL_F32, 1, 40001}, .q = {-1, 3}, .flags = EXACT},
    {"uniform many bfloat16", {0}, uniform, .p = {TL_BF16, 1, 20001}, .q = {0, 1}, .flags = EXACT},
    {"normal many", {0}, normal, .p = {TL_F32, 1, 20001}, .q = {1, 2}, .flags = EXACT},
    {"truncated many", {0}, truncated, .p = {TL_F32, 1, 20001}, .q = {1, 2}, .flags = EXACT},
    {"bernoulli many", {0}, bernoulli, .p = {TL_F16, 1, 20001}, .q = {0.3}, .flags = EXACT},
    {"integers many", {0}, integers, .p = {TL_I64, 20001, -5, 1000}, .flags = EXACT},
};
// clang-format on

/* --- distributions ---------------------------------------------------------------------------- */

enum { DRAWS = 200000, BINS = 50 };

static tl_engine *engine;
static tl_ctx *c;
static double v[DRAWS], w[DRAWS];

static int setup(void **state)
{
    (void)state;
    assert_ok(test_engine_new(&engine, NULL, 2));
    assert_ok(tl_ctx_new(&c, engine));
    tl_ctx_set_draws(c, (tl_draws){.seed = 2024});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tl_ctx_free(&c);
    tl_engine_free(&engine);
    return 0;
}

static void read(const tl_tensor *t, double *out)
{
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_get_doubles(t, out, tl_tensor_count(t)));
}

static double mean(const double *x)
{
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) sum += x[i];
    return sum / DRAWS;
}

static double deviation(const double *x)
{
    double m = mean(x), sum = 0;
    for (int i = 0; i < DRAWS; i++) sum += (x[i] - m) * (x[i] - m);
    return sqrt(sum / DRAWS);
}

static double lag_correlation(const double *x, int lag)
{
    double m = mean(x), sum = 0, d = deviation(x);
    for (int i = lag; i < DRAWS; i++) sum += (x[i] - m) * (x[i - lag] - m);
    return sum / (DRAWS - lag) / (d * d);
}

// `u` is uniform in [0, 1) when the draws have their distribution. The statistic has a mean of BINS
// - 1 and a deviation of about 10; with fixed seeds a good generator stays far below the limit.
static void expect_even_bins(const double *u)
{
    int64_t counts[BINS] = {0};
    double chi = 0, each = (double)DRAWS / BINS;
    for (int i = 0; i < DRAWS; i++) {
        assert_true(u[i] >= 0 && u[i] <= 1);
        counts[u[i] < 1 ? (int)(u[i] * BINS) : BINS - 1]++;
    }
    for (int b = 0; b < BINS; b++)
        chi += ((double)counts[b] - each) * ((double)counts[b] - each) / each;
    if (!(chi > 20 && chi < 95)) fail_msg("chi-square of %d bins is %g", BINS, chi);
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * sqrt(0.5));
}

static void uniform_is_even(void **state)
{
    (void)state;
    read(tl_random_uniform(c, TL_F32, TL_SHAPE(DRAWS), -3, 5), v);
    for (int i = 0; i < DRAWS; i++) assert_true(v[i] >= -3 && v[i] < 5);
    assert_near(mean(v), 1, 0.02);
    assert_near(deviation(v), 8 / sqrt(12), 0.02);
    for (int lag = 1; lag <= 4; lag++) assert_near(lag_correlation(v, lag), 0, 0.01);
    for (int i = 0; i < DRAWS; i++) w[i] = (v[i] + 3) / 8;
    expect_even_bins(w);
}

static void short_types_do_not_reach_high(void **state)
{
    static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64};
    static const double ranges[][2] = {{0, 1}, {-1, 0}, {-2, -1}, {1000, 1001}, {0, 1e-3}};
    (void)state;
    for (size_t t = 0; t < TL_COUNT(types); t++) {
        for (size_t r = 0; r < TL_COUNT(ranges); r++) {
            read(tl_random_uniform(c, types[t], TL_SHAPE(DRAWS / 10), ranges[r][0], ranges[r][1]),
                 v);
            for (int i = 0; i < DRAWS / 10; i++)
                if (!(v[i] < ranges[r][1]))
                    fail_msg("%s reached %g", tl_dtype_name(types[t]), ranges[r][1]);
        }
    }
}

static void normal_is_normal(void **state)
{
    double third = 0, fourth = 0;
    (void)state;
    read(tl_random_normal(c, TL_F32, TL_SHAPE(DRAWS), 2, 0.5), v);
    assert_near(mean(v), 2, 0.005);
    assert_near(deviation(v), 0.5, 0.004);
    for (int lag = 1; lag <= 4; lag++) assert_near(lag_correlation(v, lag), 0, 0.01);
    for (int i = 0; i < DRAWS; i++) {
        double z = (v[i] - 2) / 0.5;
        third += z * z * z / DRAWS;
        fourth += z * z * z * z / DRAWS;
        w[i] = normal_cdf(z);
    }
    assert_near(third, 0, 0.03);
    assert_near(fourth, 3, 0.06);
    expect_even_bins(w);
}

static void truncated_normal_is_cut(void **state)
{
    double low = normal_cdf(-2), high = normal_cdf(2), beyond = 0;
    (void)state;
    read(tl_random_truncated_normal(c, TL_F32, TL_SHAPE(DRAWS), -1, 3), v);
    assert_near(mean(v), -1, 0.03);
    assert_near(deviation(v), 3 * 0.87962566, 0.02);
    for (int lag = 1; lag <= 4; lag++) assert_near(lag_correlation(v, lag), 0, 0.01);
    for (int i = 0; i < DRAWS; i++) {
        double z = (v[i] + 1) / 3;
        assert_true(fabs(z) <= 2.000001);
        beyond += fabs(z) > 1.9;
        w[i] = fmin(fmax((normal_cdf(z) - low) / (high - low), 0), 1);
    }
    expect_even_bins(w);
    // What is drawn again is not drawn twice, wherever work may be cut.
    for (int lag = 1; lag <= 1024; lag *= 2) {
        int same = 0;
        for (int i = lag; i < DRAWS; i++) same += v[i] == v[i - lag];
        assert_true(same < 10);
    }
    assert_near(beyond / DRAWS, 2 * (normal_cdf(2) - normal_cdf(1.9)) / (high - low), 0.001);
}

static void bernoulli_has_its_share(void **state)
{
    static const double shares[] = {0, 1e-4, 0.1, 0.5, 0.75, 1};
    (void)state;
    for (size_t i = 0; i < TL_COUNT(shares); i++) {
        double p = shares[i];
        read(tl_random_bernoulli(c, TL_U8, TL_SHAPE(DRAWS), p), v);
        for (int k = 0; k < DRAWS; k++) assert_true(v[k] == 0 || v[k] == 1);
        assert_near(mean(v), p, 4 * sqrt(p * (1 - p) / DRAWS));
        if (p > 0.05 && p < 1) assert_near(lag_correlation(v, 1), 0, 0.01);
    }
}

static void integers_are_even(void **state)
{
    (void)state;
    read(tl_random_integers(c, TL_I16, TL_SHAPE(DRAWS), -20, 30), v);
    for (int i = 0; i < DRAWS; i++) {
        assert_true(v[i] >= -20 && v[i] < 30);
        w[i] = (v[i] + 20.5) / 50;
    }
    expect_even_bins(w);
    // Almost half of the words of this range are thrown back.
    read(tl_random_integers(c, TL_I64, TL_SHAPE(DRAWS), INT64_MIN, 2), v);
    for (int i = 0; i < DRAWS; i++) w[i] = (v[i] + 0x1p63) / 0x1p63;
    expect_even_bins(w);
    assert_near(lag_correlation(v, 1), 0, 0.01);
}

static void permutations_are_even(void **state)
{
    enum { COUNT = 5, TIMES = 6000 };
    int64_t p[COUNT], at[COUNT][COUNT] = {{0}};
    (void)state;
    for (int t = 0; t < TIMES; t++) {
        tl_mark m = tl_ctx_begin(c);
        tl_tensor *x = tl_random_permutation(c, COUNT);
        assert_ok(tl_ctx_status(c));
        assert_ok(tl_tensor_get(x, p, sizeof p));
        tl_ctx_end(c, m);
        for (int i = 0; i < COUNT; i++) at[i][p[i]]++;
    }
    double chi = 0, each = (double)TIMES / COUNT;
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < COUNT; k++)
            chi += ((double)at[i][k] - each) * ((double)at[i][k] - each) / each;
    assert_true(chi > 3 && chi < 45); // 16 degrees of freedom
    read(tl_random_permutation(c, DRAWS), v);
    for (int i = 0; i < DRAWS; i++) w[i] = 0;
    for (int i = 0; i < DRAWS; i++) w[(int)v[i]]++;
    for (int i = 0; i < DRAWS; i++) assert_true(w[i] == 1);
}

/* --- places ----------------------------------------------------------------------------------- */

typedef tl_tensor *draw_fn(tl_dtype dtype, int64_t count);

static tl_tensor *draw_uniform(tl_dtype dtype, int64_t count)
{
    return tl_random_uniform(c, dtype, TL_SHAPE(count), -1, 1);
}

static tl_tensor *draw_normal(tl_dtype dtype, int64_t count)
{
    return tl_random_normal(c, dtype, TL_SHAPE(count), 0, 1);
}

static tl_tensor *draw_truncated(tl_dtype dtype, int64_t count)
{
    return tl_random_truncated_normal(c, dtype, TL_SHAPE(count), 0, 1);
}

static tl_tensor *draw_bernoulli(tl_dtype dtype, int64_t count)
{
    return tl_random_bernoulli(c, dtype, TL_SHAPE(count), 0.5);
}

static tl_tensor *draw_integers(tl_dtype dtype, int64_t count)
{
    (void)dtype;
    return tl_random_integers(c, TL_I64, TL_SHAPE(count), INT64_MIN, 1000);
}

static draw_fn *const every[] = {draw_uniform, draw_normal, draw_truncated, draw_bernoulli,
                                 draw_integers};

static void start(int64_t step, int64_t microbatch, int64_t replica, uint64_t seed)
{
    tl_ctx_set_draws(
        c, (tl_draws){.seed = seed, .step = step, .microbatch = microbatch, .replica = replica});
}

static int64_t equal_elements(const double *a, const double *b, int64_t count)
{
    int64_t equal = 0;
    for (int64_t i = 0; i < count; i++) equal += a[i] == b[i];
    return equal;
}

static void elements_depend_on_their_place(void **state)
{
    (void)state;
    for (size_t d = 0; d < TL_COUNT(every); d++) {
        start(0, 0, 0, 7);
        read(every[d](TL_F32, 1000), v);
        for (int64_t count = 1; count < 1000; count += 97) {
            start(0, 0, 0, 7);
            read(every[d](TL_F32, count), w);
            assert_int_equal(equal_elements(v, w, count), count);
        }
    }
}

static void types_see_the_same_numbers(void **state)
{
    static const struct {
        tl_dtype dtype;
        double most;
    } types[] = {{TL_F32, 0x1p-24}, {TL_BF16, 0x1p-8}, {TL_F16, 0x1p-11}};
    (void)state;
    for (size_t d = 0; d < 4; d++) {
        start(0, 0, 0, 8);
        read(every[d](TL_F64, 3000), v);
        for (size_t t = 0; t < TL_COUNT(types); t++) {
            start(0, 0, 0, 8);
            read(every[d](types[t].dtype, 3000), w);
            for (int i = 0; i < 3000; i++)
                assert_near(w[i], v[i], types[t].most * fmax(fabs(v[i]), 0x1p-14));
        }
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

static void draw_in(const char *module, draw_fn *fn, double *out)
{
    if (module) tl_ctx_enter(c, module);
    read(fn(TL_F32, 500), out);
    if (module) tl_ctx_leave(c);
}

// Bernoulli draws agree by chance on half of the elements.
static void expect_other(const double *a, const double *b)
{
    assert_true(equal_elements(a, b, 500) < 320);
}

static void keys_name_draws(void **state)
{
    (void)state;
    for (size_t d = 0; d < TL_COUNT(every); d++) {
        start(5, 1, 2, 9);
        draw_in("a", every[d], v);
        start(5, 1, 2, 9);
        draw_in("a", every[d], w);
        assert_int_equal(equal_elements(v, w, 500), 500);
        draw_in("a", every[d], w); // the second call of the module
        expect_other(v, w);
        draw_in("b", every[d], w);
        expect_other(v, w);
        draw_in(NULL, every[d], w);
        expect_other(v, w);
        start(6, 1, 2, 9);
        draw_in("a", every[d], w);
        expect_other(v, w);
        start(5, 0, 2, 9);
        draw_in("a", every[d], w);
        expect_other(v, w);
        start(5, 1, 3, 9);
        draw_in("a", every[d], w);
        expect_other(v, w);
        start(5, 1, 2, 10);
        draw_in("a", every[d], w);
        expect_other(v, w);
    }
}

static void other_modules_do_not_disturb(void **state)
{
    (void)state;
    start(1, 0, 0, 3);
    draw_in("a", draw_normal, v);
    start(1, 0, 0, 3);
    draw_in("b", draw_uniform, w);
    draw_in(NULL, draw_integers, w);
    draw_in("a", draw_normal, w);
    assert_int_equal(equal_elements(v, w, 500), 500);
}

static void replays_draw_the_same(void **state)
{
    (void)state;
    start(4, 0, 0, 12);
    draw_in("net", draw_truncated, v);
    start(4, 0, 0, 12);
    tl_mark m = tl_ctx_begin(c);
    tl_ctx_set_capturing(c, true);
    tl_ctx_enter(c, "net");
    tl_tensor *x = draw_truncated(TL_F32, 500);
    tl_ctx_leave(c);
    tl_ctx_set_capturing(c, false);
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_replay(c, tl_ctx_first_node(c), tl_ctx_last_node(c)));
        read(x, w);
        assert_int_equal(equal_elements(v, w, 500), 500);
    }
    // The next step of the same program draws anew: what it would have drawn eagerly.
    start(5, 0, 0, 12);
    assert_ok(tl_replay(c, tl_ctx_first_node(c), tl_ctx_last_node(c)));
    read(x, w);
    expect_other(v, w);
    tl_ctx_end(c, m);
    draw_in("net", draw_truncated, v);
    assert_int_equal(equal_elements(v, w, 500), 500);
}

int main(int argc, char **argv)
{
    int rows = op_cases_main(argc, argv, "random", cases, TL_COUNT(cases));
    if (argc > 2) return rows; // some rows only, or their inputs
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(uniform_is_even, setup, teardown),
        cmocka_unit_test_setup_teardown(short_types_do_not_reach_high, setup, teardown),
        cmocka_unit_test_setup_teardown(normal_is_normal, setup, teardown),
        cmocka_unit_test_setup_teardown(truncated_normal_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(bernoulli_has_its_share, setup, teardown),
        cmocka_unit_test_setup_teardown(integers_are_even, setup, teardown),
        cmocka_unit_test_setup_teardown(permutations_are_even, setup, teardown),
        cmocka_unit_test_setup_teardown(elements_depend_on_their_place, setup, teardown),
        cmocka_unit_test_setup_teardown(types_see_the_same_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_name_draws, setup, teardown),
        cmocka_unit_test_setup_teardown(other_modules_do_not_disturb, setup, teardown),
        cmocka_unit_test_setup_teardown(replays_draw_the_same, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) || rows;
}
