#include "test.h"

#include <math.h>
#include <stdlib.h>

#include <tilth/base/map.h>
#include <tilth/base/rng.h>

#include "base/rng_impl.h"

/* --- the block function ----------------------------------------------------------------------- */

/* Lines "philox4x32 10" of the file kat_vectors that comes with Random123. */
static void test_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t ctr[4], key[2], out[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        uint32_t out[4];
        tl_philox4x32(out, rows[i].ctr, rows[i].key);
        assert_memory_equal(out, rows[i].out, sizeof out);
    }
}

/* Every way to make many blocks gives the blocks of tl_philox4x32, also where counter words
 * overflow, as words and as numbers, and writes not a word beyond them. */
static void test_implementations_agree(void **state)
{
    (void)state;
    static const uint64_t firsts[] = {
        0, 1, 7, 0xfffffff0, 0xfffffffe, UINT64_C(0x123456789abcdef), (UINT64_C(7) << 32) - 13};
    enum { MOST = 67 };
    const uint64_t key = UINT64_C(0x299f31d0a4093822), stream = UINT64_C(0x0370734413198a2e);
    tli_philox_impl impls[TLI_PHILOX_IMPLS];
    int count = tli_philox_impls(impls);
    assert_in_range(count, 1, TLI_PHILOX_IMPLS);
    for (int v = 0; v < count; v++)
        for (int64_t f = 0; f < TL_COUNT(firsts); f++)
            for (int64_t blocks = 0; blocks <= MOST; blocks++) {
                uint32_t out[4 * MOST + 1];
                float numbers[4 * MOST + 1];
                out[4 * blocks] = 0xdeadbeef;
                numbers[4 * blocks] = -1;
                impls[v].words(out, key, stream, firsts[f], blocks);
                impls[v].uniforms(numbers, key, stream, firsts[f], blocks);
                assert_int_equal(out[4 * blocks], 0xdeadbeef);
                assert_true(numbers[4 * blocks] == -1);
                for (int64_t b = 0; b < blocks; b++) {
                    uint64_t index = firsts[f] + (uint64_t)b;
                    uint32_t ctr[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream,
                                       (uint32_t)(stream >> 32)};
                    uint32_t words[2] = {(uint32_t)key, (uint32_t)(key >> 32)}, expected[4];
                    tl_philox4x32(expected, ctr, words);
                    assert_memory_equal(out + 4 * b, expected, sizeof expected);
                    for (int w = 0; w < 4; w++)
                        assert_true(numbers[4 * b + w] == (float)(expected[w] >> 8) * 0x1p-24f);
                }
            }
}

/* --- streams ---------------------------------------------------------------------------------- */

static bool same_stream(const tl_rng *a, const tl_rng *b)
{
    return a->key == b->key && a->stream == b->stream;
}

static void test_split_and_fold(void **state)
{
    (void)state;
    tl_rng root, a, b;
    tl_rng_init(&root, 42);
    (void)tl_rng_u32(&root);
    tl_rng before = root;
    tl_rng_split(&a, &root, "dropout");
    tl_rng_fold(&b, &root, 7);
    assert_memory_equal(&before, &root, sizeof root);
    assert_int_equal(tl_rng_position(&a), 0);

    // Where the parent stands does not matter, and a stream may be replaced by its child.
    tl_rng_seek(&root, 1000);
    tl_rng again = root;
    tl_rng_split(&again, &again, "dropout");
    assert_true(same_stream(&a, &again));
    again = root;
    tl_rng_fold(&again, &again, 7);
    assert_true(same_stream(&b, &again));

    // Order matters: a name under a number is not that number under the name.
    tl_rng ab, ba;
    tl_rng_fold(&ab, &a, 7);
    tl_rng_split(&ba, &b, "dropout");
    assert_false(same_stream(&ab, &ba));
}

static int by_name(const void *x, const void *y)
{
    const tl_rng *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->stream < b->stream ? -1 : a->stream > b->stream;
}

/* Seeds, numbers and labels that differ in little, or look alike, all name different streams. */
static void test_streams_differ(void **state)
{
    (void)state;
    static const char *const labels[] = {
        "",
        "a",
        "b",
        "ab",
        "ba",
        "aaaaaaa",
        "aaaaaaaa",
        "aaaaaaaaa",
        "aaaaaaaab",
        "baaaaaaaa",
        "aaaaaaaaaaaaaaaa",
        "layer/1",
        "layer/10",
        "layer/11",
        "Layer/1",
        "layer/1 ",
        "\xff",
        "\x01",
        "layers/encoder/attention/query/kernel",
        "layers/encoder/attention/query/kernal",
    };
    enum { NUMBERS = 20000 };
    tl_rng *all = calloc(3 * NUMBERS + TL_COUNT(labels), sizeof *all);
    int64_t count = 0;
    tl_rng root;
    tl_rng_init(&root, 0);
    for (uint64_t i = 0; i < NUMBERS; i++) {
        tl_rng_init(&all[count++], i);
        tl_rng_fold(&all[count++], &root, i);
        tl_rng_fold(&all[count++], &root, (i + 1) << 40);
    }
    for (int64_t i = 0; i < TL_COUNT(labels); i++) tl_rng_split(&all[count++], &root, labels[i]);
    qsort(all, (size_t)count, sizeof *all, by_name);
    for (int64_t i = 1; i < count; i++) assert_true(by_name(&all[i - 1], &all[i]) < 0);
    free(all);
}

static void test_seek(void **state)
{
    (void)state;
    tl_rng rng;
    tl_rng_init(&rng, 5);
    uint32_t words[64];
    for (int i = 0; i < 64; i++) {
        assert_int_equal(tl_rng_position(&rng), i);
        words[i] = tl_rng_u32(&rng);
    }
    for (int i = 63; i >= 0; i--) {
        tl_rng_seek(&rng, i);
        assert_int_equal(tl_rng_u32(&rng), words[i]);
        if (i < 63) assert_int_equal(tl_rng_u32(&rng), words[i + 1]);
    }
    // 64 bits start at an even word.
    for (int i = 0; i < 60; i++) {
        tl_rng_seek(&rng, i);
        int even = i + i % 2;
        uint64_t expected = (uint64_t)words[even + 1] << 32 | words[even];
        assert_true(tl_rng_u64(&rng) == expected);
        assert_int_equal(tl_rng_position(&rng), even + 2);
    }
}

static void test_save_and_load(void **state)
{
    (void)state;
    tl_rng rng, copy;
    tl_rng_init(&rng, 9);
    for (int i = 0; i < 9; i++) {
        uint64_t words[TL_RNG_WORDS];
        tl_rng_save(words, &rng);
        tl_rng_init(&copy, 1);
        assert_ok(tl_rng_load(&copy, words));
        for (int k = 0; k < 10; k++) {
            tl_rng ahead = rng;
            tl_rng_seek(&ahead, tl_rng_position(&rng) + k);
            assert_int_equal(tl_rng_u32(&copy), tl_rng_u32(&ahead));
        }
        for (int bit = 0; bit < 64 * TL_RNG_WORDS; bit++) {
            words[bit / 64] ^= UINT64_C(1) << bit % 64;
            tl_rng kept = copy;
            assert_fails(tl_rng_load(&copy, words), TL_EINVAL, "damaged");
            assert_memory_equal(&kept, &copy, sizeof copy);
            words[bit / 64] ^= UINT64_C(1) << bit % 64;
        }
        (void)tl_rng_u32(&rng);
    }
    const uint64_t zeros[TL_RNG_WORDS] = {0};
    assert_fails(tl_rng_load(&copy, zeros), TL_EINVAL, "check word");
}

/* --- fills ------------------------------------------------------------------------------------ */

enum { MANY = 3000 };

/* The five kinds behind one signature, so that each is tested in the same way. */
typedef struct kind {
    const char *name;
    size_t size;
    void (*fill)(const tl_rng *rng, int64_t start, void *out, int64_t n);
    void (*draw)(tl_rng *rng, void *out);
} kind;

#define KIND(type, draw_fn, fill_fn)                                                               \
    static void fill_fn##_any(const tl_rng *rng, int64_t start, void *out, int64_t n)              \
    {                                                                                              \
        fill_fn(rng, start, out, n);                                                               \
    }                                                                                              \
    static void draw_fn##_any(tl_rng *rng, void *out)                                              \
    {                                                                                              \
        *(type *)out = draw_fn(rng);                                                               \
    }
KIND(uint32_t, tl_rng_u32, tl_rng_fill_u32)
KIND(float, tl_rng_uniform_f32, tl_rng_fill_uniform_f32)
KIND(float, tl_rng_normal_f32, tl_rng_fill_normal_f32)
KIND(double, tl_rng_uniform_f64, tl_rng_fill_uniform_f64)
KIND(double, tl_rng_normal_f64, tl_rng_fill_normal_f64)

static const kind kinds[] = {
    {"u32", 4, tl_rng_fill_u32_any, tl_rng_u32_any},
    {"uniform_f32", 4, tl_rng_fill_uniform_f32_any, tl_rng_uniform_f32_any},
    {"normal_f32", 4, tl_rng_fill_normal_f32_any, tl_rng_normal_f32_any},
    {"uniform_f64", 8, tl_rng_fill_uniform_f64_any, tl_rng_uniform_f64_any},
    {"normal_f64", 8, tl_rng_fill_normal_f64_any, tl_rng_normal_f64_any},
};

/* Draws and fills read one row; cuts, and the position, change nothing. */
static void test_fills(void **state)
{
    (void)state;
    for (int64_t k = 0; k < TL_COUNT(kinds); k++) {
        const kind *kd = &kinds[k];
        double drawn[MANY], filled[MANY];
        tl_rng rng, cuts;
        tl_rng_init(&rng, 3);
        tl_rng_init(&cuts, 4);
        tl_rng at = rng;
        for (int64_t i = 0; i < MANY; i++) kd->draw(&at, (char *)drawn + (size_t)i * kd->size);
        kd->fill(&at, 0, filled, MANY);
        assert_memory_equal(drawn, filled, MANY * kd->size);

        for (int trial = 0; trial < 50; trial++) {
            memset(filled, 0, sizeof filled);
            for (int64_t start = 0, n; start < MANY; start += n) {
                n = tl_rng_below(&cuts, trial % 2 ? 11 : 900);
                if (n > MANY - start) n = MANY - start;
                kd->fill(&rng, start, (char *)filled + (size_t)start * kd->size, n);
            }
            assert_memory_equal(drawn, filled, MANY * kd->size);
        }

        // Nothing is written outside the range.
        memset(filled, 0x5a, sizeof filled);
        kd->fill(&rng, 101, (char *)filled + kd->size, 499);
        assert_memory_equal((char *)filled + kd->size, (char *)drawn + 101 * kd->size,
                            499 * kd->size);
        for (size_t i = 0; i < kd->size; i++) {
            assert_int_equal(((unsigned char *)filled)[i], 0x5a);
            assert_int_equal(((unsigned char *)filled)[500 * kd->size + i], 0x5a);
        }
    }
}

/* Positions far beyond 32 bits work and do not repeat the beginning. */
static void test_far_away(void **state)
{
    (void)state;
    const int64_t far = INT64_C(1) << 40;
    tl_rng rng;
    tl_rng_init(&rng, 6);
    uint32_t here[100], there[100];
    tl_rng_fill_u32(&rng, 0, here, 100);
    tl_rng_fill_u32(&rng, far, there, 100);
    assert_memory_not_equal(here, there, sizeof here);
    tl_rng_seek(&rng, far + 3);
    assert_int_equal(tl_rng_u32(&rng), there[3]);
    tl_rng_fill_u32(&rng, (INT64_C(1) << 34) - 50, there, 100); // the lowest counter word overflows
    for (int i = 0; i < 100; i++) {
        tl_rng_seek(&rng, (INT64_C(1) << 34) - 50 + i);
        assert_int_equal(tl_rng_u32(&rng), there[i]);
    }
}

/* The bits themselves, so that no compiler, CPU or later change alters a run unseen. */
static void test_bits_are_pinned(void **state)
{
    (void)state;
    static const uint64_t expected[] = {
        UINT64_C(0x53e3eca9d119d39c), UINT64_C(0x747c43dc691be506), UINT64_C(0xe1fae551aa2bfdec),
        UINT64_C(0x6bfb298276574ead), UINT64_C(0x9447b9d4902fe28f),
    };
    tl_rng root, rng;
    tl_rng_init(&root, 2024);
    tl_rng_split(&rng, &root, "pinned bits");
    tl_rng_fold(&rng, &rng, 17);
    for (int64_t k = 0; k < TL_COUNT(kinds); k++) {
        enum { PINS = 100000 };
        char *made = malloc(PINS * kinds[k].size);
        kinds[k].fill(&rng, 1, made, PINS);
        uint64_t hash = tl_hash_bytes(TL_HASH_SEED, made, PINS * kinds[k].size);
        free(made);
        if (hash != expected[k])
            fail_msg("%s: the bits changed: 0x%016llx", kinds[k].name, (unsigned long long)hash);
    }
}

/* --- distributions; seeds are fixed, so these pass or fail for good --------------------------- */

static double chi_square(const int64_t *seen, const double *expected, int cells)
{
    double sum = 0;
    for (int i = 0; i < cells; i++) {
        double d = (double)seen[i] - expected[i];
        sum += d * d / expected[i];
    }
    return sum;
}

/* A chi-square lies within about 3.3 deviations of its mean (Wilson and Hilferty). */
static void assert_plausible(double chi, int freedom)
{
    double z = (cbrt(chi / freedom) - (1 - 2.0 / (9 * freedom))) / sqrt(2.0 / (9 * freedom));
    if (fabs(z) > 3.3) fail_msg("chi-square %g at %d degrees of freedom (z = %g)", chi, freedom, z);
}

enum { SAMPLE = 1 << 20 };

static void test_uniform(void **state)
{
    (void)state;
    enum { CELLS = 1000 };
    double expected[CELLS];
    for (int i = 0; i < CELLS; i++) expected[i] = (double)SAMPLE / CELLS;
    float *f = malloc(SAMPLE * sizeof *f);
    double *d = malloc(SAMPLE * sizeof *d);
    tl_rng rng;
    tl_rng_init(&rng, 100);
    tl_rng_fill_uniform_f32(&rng, 0, f, SAMPLE);
    tl_rng_fill_uniform_f64(&rng, 0, d, SAMPLE);
    int64_t cells_f[CELLS] = {0}, cells_d[CELLS] = {0}, pairs[16 * 16] = {0};
    double sum = 0, squares = 0, lag = 0;
    int fine = 0;
    for (int i = 0; i < SAMPLE; i++) {
        assert_true(f[i] >= 0 && f[i] < 1 && d[i] >= 0 && d[i] < 1);
        assert_true(f[i] * 0x1p24f == floorf(f[i] * 0x1p24f));
        assert_true(d[i] * 0x1p53 == floor(d[i] * 0x1p53));
        fine += d[i] * 0x1p52 != floor(d[i] * 0x1p52);
        cells_f[(int)((double)f[i] * CELLS)]++;
        cells_d[(int)(d[i] * CELLS)]++;
        sum += d[i];
        squares += d[i] * d[i];
        if (i) lag += (d[i] - 0.5) * (d[i - 1] - 0.5);
        if (i) pairs[(int)(f[i] * 16) * 16 + (int)(f[i - 1] * 16)]++;
    }
    assert_plausible(chi_square(cells_f, expected, CELLS), CELLS - 1);
    assert_plausible(chi_square(cells_d, expected, CELLS), CELLS - 1);
    for (int i = 0; i < 256; i++) expected[i] = (SAMPLE - 1) / 256.0;
    assert_plausible(chi_square(pairs, expected, 256), 255);
    assert_true(fabs(sum / SAMPLE - 0.5) < 4 * sqrt(1 / 12.0 / SAMPLE));
    assert_true(fabs(squares / SAMPLE - 1 / 3.0) < 4 * sqrt(4 / 45.0 / SAMPLE));
    assert_true(fabs(lag / SAMPLE) < 4 / 12.0 / sqrt(SAMPLE));
    assert_true(fine > SAMPLE * 0.49 && fine < SAMPLE * 0.51); // the last of 53 bits is in use
    free(f);
    free(d);
}

/* Each bit of the words is set half of the time, and so is each bit of neighbouring streams' xor.
 */
static void test_bits_are_even(void **state)
{
    (void)state;
    enum { WORDS = 1 << 16 };
    static uint32_t a[WORDS], b[WORDS];
    tl_rng root, rng;
    tl_rng_init(&root, 1);
    tl_rng_fold(&rng, &root, 0);
    tl_rng_fill_u32(&rng, 0, a, WORDS);
    tl_rng_fold(&rng, &root, 1);
    tl_rng_fill_u32(&rng, 0, b, WORDS);
    for (int bit = 0; bit < 32; bit++) {
        int ones = 0, differ = 0;
        for (int i = 0; i < WORDS; i++) {
            ones += a[i] >> bit & 1;
            differ += (a[i] ^ b[i]) >> bit & 1;
        }
        double bound = 4 * sqrt(WORDS) / 2;
        assert_true(fabs(ones - WORDS / 2.0) < bound && fabs(differ - WORDS / 2.0) < bound);
    }
}

static double normal_below(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static void check_normals(const double *x)
{
    enum { CELLS = 200 };
    int64_t cells[CELLS] = {0}, beyond4 = 0;
    double expected[CELLS], moment[5] = {0}, pairs = 0;
    for (int i = 0; i < CELLS; i++) {
        double low = i ? -4 + 8.0 * i / CELLS : -40,
               high = i < CELLS - 1 ? -4 + 8.0 * (i + 1) / CELLS : 40;
        expected[i] = SAMPLE * (normal_below(high) - normal_below(low));
    }
    for (int i = 0; i < SAMPLE; i++) {
        int cell = (int)floor((x[i] + 4) / 8 * CELLS);
        cells[cell < 0 ? 0 : cell >= CELLS ? CELLS - 1 : cell]++;
        double power = 1;
        for (int k = 1; k <= 4; k++) moment[k] += power *= x[i];
        if (i % 2) pairs += x[i] * x[i - 1];
        beyond4 += fabs(x[i]) > 4;
    }
    assert_plausible(chi_square(cells, expected, CELLS), CELLS - 1);
    static const double mean[5] = {1, 0, 1, 0, 3}, variance[5] = {0, 1, 2, 15, 96};
    for (int k = 1; k <= 4; k++)
        assert_true(fabs(moment[k] / SAMPLE - mean[k]) < 4 * sqrt(variance[k] / SAMPLE));
    assert_true(fabs(pairs / (SAMPLE / 2)) < 4 / sqrt(SAMPLE / 2));
    double tail = SAMPLE * 2 * normal_below(-4);
    assert_true(fabs((double)beyond4 - tail) < 4 * sqrt(tail));
}

static void test_normal(void **state)
{
    (void)state;
    float *f = malloc(SAMPLE * sizeof *f);
    double *d = malloc(SAMPLE * sizeof *d);
    tl_rng rng;
    tl_rng_init(&rng, 200);
    tl_rng_fill_normal_f64(&rng, 0, d, SAMPLE);
    check_normals(d);
    tl_rng_fill_normal_f32(&rng, 0, f, SAMPLE);
    for (int i = 0; i < SAMPLE; i++) d[i] = (double)f[i];
    check_normals(d);
    free(f);
    free(d);
}

/* Against Box and Muller's formula in long double, at extreme and at random words. */
static void test_normal_accuracy(void **state)
{
    (void)state;
    static const uint32_t edges[] = {0,          1,          2,          0x1fffffff, 0x20000000,
                                     0x20000001, 0x5fffffff, 0x60000000, 0x7fffffff, 0x80000000,
                                     0xb504f333, 0xb504f334, 0x9fffffff, 0xa0000000, 0xdfffffff,
                                     0xe0000000, 0xfffffffe, 0xffffffff, 0x00800000, 0xff000001};
    enum { EDGES = sizeof edges / sizeof edges[0], RANDOM = 100000 };
    const long double turn = 6.283185307179586476925286766559L;
    tl_rng rng;
    tl_rng_init(&rng, 300);
    double worst_f = 0, worst_d = 0;
    for (int i = 0; i < EDGES * EDGES + RANDOM; i++) {
        bool edge = i < EDGES * EDGES;
        uint64_t a = edge ? (uint64_t)edges[i / EDGES] << 32 : tl_rng_u64(&rng);
        uint64_t b = edge ? (uint64_t)edges[i % EDGES] << 32 : tl_rng_u64(&rng);
        if (edge && i % 3 == 0) a |= UINT32_MAX, b |= UINT32_MAX;
        float f[2];
        double d[2];
        tli_normal_pair_f32(f, (uint32_t)(a >> 32), (uint32_t)(b >> 32));
        tli_normal_pair_f64(d, a, b);
        long double u = ((long double)(a >> 32) + 0.5L) * 0x1p-32L;
        long double radius = sqrtl(-2 * log1pl(u - 1)),
                    angle = turn * (long double)(b >> 32) * 0x1p-32L;
        long double error =
            fmaxl(fabsl(f[0] - radius * cosl(angle)), fabsl(f[1] - radius * sinl(angle)));
        worst_f = fmax(worst_f, (double)(error / radius));
        u = ((long double)(a >> 11) + 0.5L) * 0x1p-53L;
        radius = sqrtl(-2 * log1pl(u - 1)), angle = turn * (long double)b * 0x1p-64L;
        error = fmaxl(fabsl(d[0] - radius * cosl(angle)), fabsl(d[1] - radius * sinl(angle)));
        worst_d = fmax(worst_d, (double)(error / radius));
        assert_true(fabsf(f[0]) < 6.8f && fabsf(f[1]) < 6.8f && fabs(d[0]) < 8.7
                    && fabs(d[1]) < 8.7);
        assert_true(f[0] != 0 || f[1] != 0);
    }
    // In units of half of the last place of the radius.
    if (worst_f > 4 * 0x1p-24 || worst_d > 4 * 0x1p-53)
        fail_msg("errors of %g and %g units", worst_f * 0x1p24, worst_d * 0x1p53);
}

/* --- whole numbers and orders ----------------------------------------------------------------- */

static void test_below(void **state)
{
    (void)state;
    tl_rng rng;
    tl_rng_init(&rng, 7);
    for (int i = 0; i < 10; i++) assert_int_equal(tl_rng_below(&rng, 1), 0);
    enum { CELLS = 7, DRAWS = 70000 };
    int64_t cells[CELLS] = {0}, thirds[3] = {0};
    double expected[CELLS];
    for (int i = 0; i < CELLS; i++) expected[i] = (double)DRAWS / CELLS;
    for (int i = 0; i < DRAWS; i++) cells[tl_rng_below(&rng, CELLS)]++;
    assert_plausible(chi_square(cells, expected, CELLS), CELLS - 1);
    // A range that throws back a quarter of all draws shows a bias at once if it is not corrected.
    const int64_t large = INT64_C(3) << 61;
    int64_t before = tl_rng_position(&rng);
    for (int i = 0; i < 30000; i++) {
        int64_t x = tl_rng_below(&rng, large);
        assert_true(x >= 0 && x < large);
        thirds[x / (large / 3)]++;
    }
    for (int i = 0; i < 3; i++) expected[i] = 10000;
    assert_plausible(chi_square(thirds, expected, 3), 2);
    double tries = (double)(tl_rng_position(&rng) - before) / 2 / 30000;
    assert_true(tries > 4.0 / 3 - 0.02 && tries < 4.0 / 3 + 0.02);
    assert_true(tl_rng_below(&rng, INT64_MAX) >= 0);
}

static void test_shuffle(void **state)
{
    (void)state;
    tl_rng rng;
    tl_rng_init(&rng, 8);
    enum { N = 5, ORDERS = 120, DRAWS = 120 * 300 };
    int64_t seen[ORDERS] = {0};
    double expected[ORDERS];
    for (int i = 0; i < ORDERS; i++) expected[i] = (double)DRAWS / ORDERS;
    for (int i = 0; i < DRAWS; i++) {
        int64_t p[N];
        tl_rng_permutation(&rng, p, N);
        int64_t rank = 0; // of the order, among all orders
        for (int a = 0; a < N; a++) {
            int64_t smaller = 0;
            for (int b = a + 1; b < N; b++) smaller += p[b] < p[a];
            rank = rank * (N - a) + smaller;
        }
        seen[rank]++;
    }
    assert_plausible(chi_square(seen, expected, ORDERS), ORDERS - 1);

    int64_t items[1000], found[1000] = {0};
    for (int i = 0; i < 1000; i++) items[i] = 3 * i;
    tl_rng_shuffle(&rng, items, 1000);
    int moved = 0;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(items[i] % 3, 0);
        found[items[i] / 3]++;
        moved += items[i] != 3 * i;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(found[i], 1);
    assert_true(moved > 980);
    int64_t one = 5;
    tl_rng kept = rng;
    tl_rng_shuffle(&rng, &one, 1);
    tl_rng_shuffle(&rng, NULL, 0);
    assert_int_equal(one, 5);
    assert_memory_equal(&kept, &rng, sizeof rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_implementations_agree),
        cmocka_unit_test(test_split_and_fold),
        cmocka_unit_test(test_streams_differ),
        cmocka_unit_test(test_seek),
        cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_fills),
        cmocka_unit_test(test_far_away),
        cmocka_unit_test(test_bits_are_pinned),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_bits_are_even),
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_normal_accuracy),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_shuffle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
