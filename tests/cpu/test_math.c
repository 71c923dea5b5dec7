/* Formulas of one argument (nest/inner/formula.h), those of all rows (core/elementwise.def), on
 * every instruction set that this CPU has, against what the rows say in doubles: a spread of floats
 * over every exponent, or, where TILTH_FLOATS is set (tests/soak/floats.sh), all of them. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include <tilth/base/pool.h>
#include <tilth/base/rng.h>

#include "core/inner/half.h"
#include "cpu/ref/meaning.h"
#include "cpu/simd/simd.h"

/* --- what is right ---------------------------------------------------------------------------- */

typedef struct limits {
    const char *name;
    double ulps;     /* so many units in the last place are allowed, */
    double absolute; /* or so much, times |x| where that is above 1 */
    bool signs;      /* zeros have the sign that is right */
} limits;

// Of most; a new row needs none.
static const limits usual = {NULL, 4, 1e-7, false};
static const limits others[] = {
    {"neg", 0, 0, true},
    {"abs", 0, 0, true},
    {"sign", 0, 0, true},
    {"square", 0.50001, 0, true},
    {"floor", 0, 0, true},
    {"ceil", 0, 0, true},
    {"round", 0, 0, true},
    {"exp", 2, 0, true},
    {"expm1", 2, 0, true},
    {"log", 2, 0, true},
    {"log1p", 2, 0, true},
    {"sin", 2, 0, true},
    {"cos", 2, 0, true},
    {"tanh", 2, 0, true},
    {"sigmoid", 2, 0, true},
    {"erf", 2, 0, true},
    {"sqrt", 0.50001, 0, true},
    {"rsqrt", 2, 0, true},
    {"reciprocal", 0.50001, 0, true},
    {"relu", 0, 0, true},
    {"relu6", 0, 0, true},
    {"hard_sigmoid", 4, 0, false},
    {"hard_swish", 4, 0, false},
    {"gelu", 4, 2e-7, false},
    {"silu", 4, 1e-37, false},
    {"softplus", 4, 1e-37, false},
    {"elu", 4, 1e-37, false},
    {"leaky_relu", 0.50001, 0, true},
};

/* Functions with a number beside, at one of it: tests of their own have others. */
static const float elu_scale = 1, leaky_slope = 0.25f;

typedef struct function {
    const char *name;
    size_t member; /* of tli_unary_fns */
    tli_meaning *meaning;
    double p;            /* what the meaning is given beside */
    const float *number; /* NULL: a function of one argument */
} function;

// clang-format off
static const function functions[] = {
#define TLI_UNARY_ROW(formula, op, approximate)                                                    \
    {#formula, offsetof(tli_unary_fns, formula), meaning_of_##op, approximate, NULL},
#include "cpu/simd/unary_rows.inc"
    {"elu", offsetof(tli_unary_fns, elu), meaning_of_elu, 1, &elu_scale},
    {"leaky_relu", offsetof(tli_unary_fns, leaky_relu), meaning_of_leaky_relu, 0.25, &leaky_slope},
};
// clang-format on

static const limits *limits_of(const function *f)
{
    for (int64_t i = 0; i < TL_COUNT(others); i++)
        if (strcmp(others[i].name, f->name) == 0) return &others[i];
    return &usual;
}

static double right_of(const function *f, double x)
{
    return f->meaning(x, x, f->p, 0);
}

static void apply(const function *f, tli_isa isa, float *y, const float *x, int64_t n)
{
    const char *member = (const char *)tli_unary_fns_of(isa) + f->member;
    tli_unary_fn *one;
    tli_unary_1_fn *numbered;
    if (f->number) {
        memcpy(&numbered, member, sizeof numbered);
        numbered(y, x, *f->number, n);
    } else {
        memcpy(&one, member, sizeof one);
        one(y, x, n);
    }
}

/* --- errors ----------------------------------------------------------------------------------- */

/* The distance of neighbouring floats around a double. */
static double unit(double right)
{
    uint64_t bits;
    memcpy(&bits, &right, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent < 1023 - 126) exponent = 1023 - 126;
    if (exponent > 1023 + 127) exponent = 1023 + 127;
    bits = (uint64_t)(exponent - 23) << 52;
    memcpy(&right, &bits, sizeof right);
    return right;
}

/* In units; infinite where a NaN, an infinity or the sign of a zero is wrong. */
static double error_of(const limits *f, float x, float y, double right)
{
    if (isnan(right) || isnan(y)) return isnan(right) && isnan(y) ? 0 : INFINITY;
    if (f->signs && y == 0 && !signbit(y) != !signbit(right)) return INFINITY;
    if (y == right) return 0;
    if (isinf(right)) return INFINITY;
    // An infinity stands for the power of two behind the largest float.
    if (isinf(y) && fabs(right) >= 0x1.ffffffp127)
        return !signbit(y) == !signbit(right) ? 0 : INFINITY;
    const double shown = isinf(y) ? copysign(0x1p128, y) : (double)y, error = fabs(shown - right);
    if (error <= f->absolute * fmax(1, fabs((double)x))) return 0;
    return error / unit(right);
}

typedef struct worst {
    double units;
    float x, y;
} worst;

static void compare(worst *w, const function *f, const float *x, const float *y,
                    const double *right, int64_t n)
{
    const limits *allowed = limits_of(f);
    for (int64_t i = 0; i < n; i++) {
        if (w->units >= 0.5 && y[i] != 0 && y[i] == (float)right[i]) continue; // the nearest float
        const double units = error_of(allowed, x[i], y[i], right[i]);
        if (units > w->units) *w = (worst){units, x[i], y[i]};
    }
}

static void judge(const worst *w, const function *f, const char *isa)
{
    if (w->units > limits_of(f)->ulps)
        fail_msg("%s, %s: off by %.3f units at %a: %a, not %a", isa, f->name, w->units,
                 (double)w->x, (double)w->y, right_of(f, (double)w->x));
}

static bool same_bits(float a, float b)
{
    return tli_float_to_bits(a) == tli_float_to_bits(b) || (isnan(a) && isnan(b));
}

static void assert_same(const float *a, const float *b, const float *x, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (!same_bits(a[i], b[i]))
            fail_msg("%s: %a at %a, and %a", what, (double)a[i], (double)x[i], (double)b[i]);
}

/* --- a spread of floats ----------------------------------------------------------------------- */

/* For each sign and exponent: ends, middle, and the rest at random. */
enum { EACH = SANITIZED ? 200 : 1500, SPREAD = 512 * EACH };

static float *make_spread(void)
{
    static const uint32_t edges[] = {0,        1,        2,        3,        0x3fffff,
                                     0x400000, 0x400001, 0x7ffffd, 0x7ffffe, 0x7fffff};
    float *x = malloc(SPREAD * sizeof *x);
    assert_non_null(x);
    tl_rng rng;
    tl_rng_init(&rng, 11);
    for (uint32_t top = 0; top < 512; top++)
        for (int64_t i = 0; i < EACH; i++) {
            uint32_t low = i < TL_COUNT(edges) ? edges[i] : tl_rng_u32(&rng) >> 9;
            x[top * EACH + i] = tli_bits_to_float(top << 23 | low);
        }
    return x;
}

/* Every instruction set is near enough, and all give the same bits. */
static void test_accuracy(void **state)
{
    (void)state;
    float *x = make_spread(), *y = malloc(SPREAD * sizeof *y),
          *first = malloc(SPREAD * sizeof *first);
    double *right = malloc(SPREAD * sizeof *right);
    assert_true(y && first && right);
    for (int64_t k = 0; k < TL_COUNT(functions); k++) {
        const function *f = &functions[k];
        for (int64_t i = 0; i < SPREAD; i++) right[i] = right_of(f, (double)x[i]);
        for (int isa = 0; isa < TLI_ISA_COUNT; isa++) {
            if (!tli_isa_supported((tli_isa)isa)) continue;
            apply(f, (tli_isa)isa, isa ? y : first, x, SPREAD);
            worst w = {0};
            compare(&w, f, x, isa ? y : first, right, SPREAD);
            judge(&w, f, tli_isa_text((tli_isa)isa));
            if (isa) assert_same(y, first, x, SPREAD, f->name);
        }
    }
    free(x), free(y), free(first), free(right);
}

/* The check above does notice: a result that is three units off, a NaN, a wrong sign. */
static void test_errors_are_seen(void **state)
{
    (void)state;
    const limits *f = &(const limits){"exp", 2, 0, true};
    assert_true(error_of(f, 0, 1 + 3 * 0x1p-23f, 1) > 2.9 && error_of(f, 0, 1 + 0x1p-23f, 1) < 1.1);
    assert_true(isinf(error_of(f, 0, NAN, 1)) && isinf(error_of(f, 0, 1, (double)NAN)));
    assert_true(isinf(error_of(f, 0, -0.0f, 0.0)) && error_of(f, 0, 0, 0) == 0);
    assert_true(isinf(error_of(f, 0, 1, (double)INFINITY))
                && isinf(error_of(f, 0, -INFINITY, 1e300)));
    assert_true(error_of(f, 0, INFINITY, 1e300) == 0
                && error_of(f, 0, INFINITY, 0x1.fffffep127) <= 1);
    assert_true(error_of(f, 0, 0, 0x1p-148) == 2 && error_of(f, 0, 0x1p-149f, 0x1p-149) == 0);
}

/* Where an element stands, how long the array is and whether it is replaced change nothing; and
 * nothing beyond the array is written. */
static void test_places(void **state)
{
    (void)state;
    enum { MOST = 150 };
    float *x = make_spread(), whole[MOST], part[MOST + 2];
    tl_rng rng;
    tl_rng_init(&rng, 12);
    for (int64_t i = 0; i < MOST; i++) x[i] = x[tl_rng_below(&rng, SPREAD)];
    for (int isa = 0; isa < TLI_ISA_COUNT; isa++) {
        if (!tli_isa_supported((tli_isa)isa)) continue;
        for (int64_t k = 0; k < TL_COUNT(functions); k++) {
            const function *f = &functions[k];
            apply(f, (tli_isa)isa, whole, x, MOST);
            for (int64_t n = 0; n <= MOST; n = n < 70 ? n + 1 : n + 13)
                for (int64_t from = 0; from + n <= MOST; from += from < 5 ? 1 : 31) {
                    memcpy(part + 1, x + from, (size_t)n * sizeof *x);
                    part[0] = part[n + 1] = 77;
                    apply(f, (tli_isa)isa, part + 1, n % 2 ? part + 1 : x + from, n);
                    assert_same(part + 1, whole + from, x + from, n, f->name);
                    assert_true(part[0] == 77 && part[n + 1] == 77);
                }
        }
    }
    free(x);
}

/* --- with a number beside --------------------------------------------------------------------- */

static void test_elu_and_leaky_relu(void **state)
{
    (void)state;
    static const float numbers[] = {1, 0.25f, 2.5f, 0, -1};
    static const limits elu = {"elu", 4, 1e-37, false};
    float *x = make_spread(), *y = malloc(SPREAD * sizeof *y);
    assert_non_null(y);
    for (int isa = 0; isa < TLI_ISA_COUNT; isa++) {
        if (!tli_isa_supported((tli_isa)isa)) continue;
        const tli_unary_fns *fns = tli_unary_fns_of((tli_isa)isa);
        for (int64_t k = 0; k < TL_COUNT(numbers); k++) {
            const double number = (double)numbers[k];
            fns->elu(y, x, numbers[k], SPREAD);
            for (int64_t i = 0; i < SPREAD; i += 7) {
                const double v = (double)x[i], right = v > 0 ? v : number * expm1(v);
                if (error_of(&elu, x[i], y[i], right) > elu.ulps)
                    fail_msg("elu(%a, %a): %a, not %a", v, number, (double)y[i], right);
            }
            fns->leaky_relu(y, x, numbers[k], SPREAD);
            for (int64_t i = 0; i < SPREAD; i++)
                assert_true(same_bits(y[i], x[i] > 0 ? x[i] : x[i] * numbers[k]));
        }
    }
    free(x), free(y);
}

static const limits power = {"pow", 2, 0, true};

static void check_pow(const tli_unary_fns *fns, const float *x, const float *exponents, int64_t n)
{
    float *y = malloc((size_t)n * sizeof *y);
    assert_non_null(y);
    fns->pow(y, x, exponents, n);
    for (int64_t i = 0; i < n; i++) {
        const double right = pow((double)x[i], (double)exponents[i]);
        if (error_of(&power, x[i], y[i], right) > power.ulps)
            fail_msg("pow(%a, %a): %a, not %a", (double)x[i], (double)exponents[i], (double)y[i],
                     right);
        if (i % 101) continue;
        float one;
        fns->pow_1(&one, x + i, exponents[i], 1);
        assert_true(same_bits(one, y[i]));
    }
    free(y);
}

static void test_pow(void **state)
{
    (void)state;
    // clang-format off
    static const float specials[] = {
        0, 1, 2, 3, 4, 0.5f, 1.5f, 0.25f, 1e-3f, 1e-40f, 0x1p-149f, 0x1p-126f, 0x1p24f,
        0x1.fffffep23f, 0x1p25f, 1e30f, 0x1.fffffep127f, 0x1.fffffep-1f, 0x1.000002p0f, 127, 128,
        149, 150, INFINITY, NAN};
    // clang-format on
    enum {
        KINDS = sizeof specials / sizeof specials[0],
        RANDOM = SANITIZED ? 1 << 14 : 1 << 18,
        N = 4 * KINDS * KINDS + RANDOM
    };
    float *x = malloc(N * sizeof *x), *e = malloc(N * sizeof *e), *spread = make_spread();
    assert_true(x && e);
    int64_t n = 0;
    for (int i = 0; i < 2 * KINDS; i++)
        for (int j = 0; j < 2 * KINDS; j++, n++) {
            x[n] = i < KINDS ? specials[i] : -specials[i - KINDS];
            e[n] = j < KINDS ? specials[j] : -specials[j - KINDS];
        }
    tl_rng rng;
    tl_rng_init(&rng, 13);
    for (; n < N; n++) {
        // Most pairs of floats give 0, 1 or infinity; half of these are chosen to give others.
        x[n] = spread[tl_rng_below(&rng, SPREAD)];
        const double range = 150 / fmax(fabs(log2(fabs((double)x[n]))), 1e-8);
        e[n] = n % 2 ? spread[tl_rng_below(&rng, SPREAD)]
                     : (float)(range * (2 * tl_rng_uniform_f64(&rng) - 1));
        if (n % 4 == 0) e[n] = rintf(e[n]);
    }
    for (int isa = 0; isa < TLI_ISA_COUNT; isa++)
        if (tli_isa_supported((tli_isa)isa)) check_pow(tli_unary_fns_of((tli_isa)isa), x, e, N);
    free(x), free(e), free(spread);
}

/* --- all floats ------------------------------------------------------------------------------- */

enum { BLOCK = 4096, BLOCKS_A_CHUNK = 64 };

typedef struct sweep {
    const function *f;
    tli_isa best;
    int64_t every; /* chunks from one that is swept to the next */
    worst found[(INT64_C(1) << 32) / BLOCK / BLOCKS_A_CHUNK]; /* one a chunk */
} sweep;

static tl_status sweep_chunk(int64_t begin, int64_t end, void *payload)
{
    sweep *s = payload;
    worst *w = &s->found[begin / BLOCKS_A_CHUNK];
    *w = (worst){0};
    if (begin / BLOCKS_A_CHUNK % s->every) return TL_OK;
    for (int64_t block = begin; block < end; block++) {
        float x[BLOCK], y[BLOCK], other[BLOCK];
        double right[BLOCK];
        for (int i = 0; i < BLOCK; i++) {
            x[i] = tli_bits_to_float((uint32_t)(block * BLOCK + i));
            right[i] = right_of(s->f, (double)x[i]);
        }
        apply(s->f, s->best, y, x, BLOCK);
        compare(w, s->f, x, y, right, BLOCK);
        for (int isa = 0; isa < (int)s->best; isa++) {
            apply(s->f, (tli_isa)isa, other, x, BLOCK);
            for (int i = 0; i < BLOCK; i++)
                if (!same_bits(y[i], other[i])) *w = (worst){INFINITY, x[i], other[i]};
        }
    }
    return TL_OK;
}

/* TILTH_FLOATS: "all", or the name of one function. TILTH_FLOATS_EVERY: only every so many chunks
 * of 2^18 floats. */
static void test_all_floats(void **state)
{
    (void)state;
    const char *wanted = getenv("TILTH_FLOATS");
    if (!wanted || !*wanted) return;
    static sweep s;
    const char *every = getenv("TILTH_FLOATS_EVERY");
    s.every = every ? atoll(every) : 1;
    assert_true(s.every > 0);
    tl_pool *pool;
    assert_ok(tl_pool_new(&pool, 0));
    assert_ok(tli_isa_choose(&s.best));
    int failed = 0, swept = 0;
    for (int64_t k = 0; k < TL_COUNT(functions); k++) {
        s.f = &functions[k];
        if (strcmp(wanted, "all") != 0 && strcmp(wanted, s.f->name) != 0) continue;
        assert_ok(
            tl_parallel_for(pool, (INT64_C(1) << 32) / BLOCK, BLOCKS_A_CHUNK, sweep_chunk, &s));
        worst w = {0};
        for (int64_t i = 0; i < TL_COUNT(s.found); i++)
            if (s.found[i].units > w.units) w = s.found[i];
        printf("   %-13s %7.4f of %g units, at %a\n", s.f->name, w.units, limits_of(s.f)->ulps,
               (double)w.x);
        fflush(stdout);
        failed += w.units > limits_of(s.f)->ulps;
        swept++;
    }
    tl_pool_free(&pool);
    assert_true(swept > 0);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_seen),
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_elu_and_leaky_relu),
        cmocka_unit_test(test_pow),
        cmocka_unit_test(test_all_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
