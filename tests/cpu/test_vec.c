/* The vector layer (cpu/simd/vec.h) on every instruction set that this CPU has, lane by lane
 * against plain C: all pairs of awkward values and many random ones, every tail length, every
 * 16-bit float. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include <tilth/base/rng.h>

#include "core/inner/half.h"
#include "vec_probe.h"

enum { LANES = 16, ROUNDS = 4000 };

// clang-format off
static const float odd_floats[] = {
    0, -0.0f, 1, -1, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 0x1.fffffep-1f, 3, 0x1p23f, 0x1.000002p23f,
    -0x1.fffffep22f, 0x1p31f, -0x1p31f, 1e10f, 0x1p-126f, 0x1p-149f, -0x1p-140f, 0x1.fffffep127f,
    -0x1.fffffep127f, INFINITY, -INFINITY, NAN, -NAN};
// clang-format on
static const int32_t odd_ints[] = {
    0, 1, -1, 2, 0x7fffffff, (-0x7fffffff - 1), 0x7ffffffe, 0x00800000, 12345678};

/* Three vectors of each type, filled anew each round. */
typedef struct lanes {
    float f[3][LANES];
    double d[3][LANES];
    int32_t i[3][LANES];
    int64_t l[3][LANES];
} lanes;

static void fill(lanes *x, tl_rng *rng)
{
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < LANES; j++) {
            const uint32_t bits = tl_rng_u32(rng), how = tl_rng_u32(rng) % 4;
            if (how == 0) x->f[k][j] = odd_floats[bits % TL_COUNT(odd_floats)];
            if (how == 1) x->f[k][j] = tli_bits_to_float(bits);
            if (how > 1) x->f[k][j] = 20 * tl_rng_uniform_f32(rng) - 10;
            x->d[k][j] = (double)x->f[k][j] * (how == 3 ? 1 + 0x1p-40 : 1);
            x->i[k][j] = how == 0 ? odd_ints[bits % TL_COUNT(odd_ints)] : (int32_t)bits;
            x->l[k][j] =
                (int64_t)((uint64_t)x->i[k][j] << (how == 1 ? 32 : 0) | tl_rng_u32(rng) % 3);
        }
}

static bool same_f(float a, float b)
{
    return a == b ? !signbit(a) == !signbit(b) : isnan(a) && isnan(b);
}

static bool same_d(double a, double b)
{
    return a == b ? !signbit(a) == !signbit(b) : isnan(a) && isnan(b);
}

/* Of two zeros min and max may give either. */
static bool is_min_or_max(const char *name)
{
    return strncmp(name, "min", 3) == 0 || strncmp(name, "max", 3) == 0;
}

/* --- lane by lane ----------------------------------------------------------------------------- */

#define EACH_LANE(type, suffix, in, count, name, right, same)                                      \
    do {                                                                                           \
        type out[LANES];                                                                           \
        p->suffix##_##name(out, in[0], in[1], in[2], 0);                                           \
        for (int j = 0; j < (count); j++) {                                                        \
            const type a = in[0][j], b = in[1][j], c = in[2][j];                                   \
            const type expected = (type)(right);                                                   \
            (void)a, (void)b, (void)c;                                                             \
            if (!same(out[j], expected)                                                            \
                && !(is_min_or_max(#name) && out[j] == 0 && expected == 0))                        \
                fail_msg(#suffix "_" #name "(%a, %a, %a) is %a, not %a", (double)a, (double)b,     \
                         (double)c, (double)out[j], (double)expected);                             \
        }                                                                                          \
    } while (0);
#define FLOAT(name, right) EACH_LANE(float, vf, x->f, p->lanes, name, right, same_f)
#define DOUBLE(name, right) EACH_LANE(double, vd, x->d, p->lanes / 2, name, right, same_d)

static void check_floats(const tli_vec_probe *p, const lanes *x)
{
#define F(function) function##f
    TLI_PROBE_UNARY(FLOAT)
    TLI_PROBE_BINARY(FLOAT)
    TLI_PROBE_TERNARY(FLOAT)
#undef F
}

static void check_doubles(const tli_vec_probe *p, const lanes *x)
{
#define F(function) function
    TLI_PROBE_UNARY(DOUBLE)
    TLI_PROBE_BINARY(DOUBLE)
    TLI_PROBE_TERNARY(DOUBLE)
#undef F
}

static void check_constants(const tli_vec_probe *p, lanes *x)
{
    for (int j = 0; j < LANES; j++) {
        if (isnan(x->f[1][j])) x->f[1][j] = 7;
        if (isnan(x->d[1][j])) x->d[1][j] = 7;
    }
    TLI_PROBE_CONSTANT(FLOAT)
    TLI_PROBE_CONSTANT(DOUBLE)
}

#define TRUTH(type, suffix, in, count, name, right)                                                \
    do {                                                                                           \
        uint8_t out[LANES];                                                                        \
        p->suffix##_##name(out, in[0], in[1], in[2], 0);                                           \
        for (int j = 0; j < (count); j++) {                                                        \
            const type a = in[0][j], b = in[1][j], c = in[2][j];                                   \
            const bool m = a < b, k = b < c;                                                       \
            (void)c, (void)m, (void)k;                                                             \
            if (out[j] != (uint8_t)(right))                                                        \
                fail_msg(#suffix "_" #name "(%a, %a, %a) is %d", (double)a, (double)b, (double)c,  \
                         out[j]);                                                                  \
        }                                                                                          \
    } while (0);
#define TRUTH_F(name, right) TRUTH(float, vf, x->f, p->lanes, name, right)
#define TRUTH_D(name, right) TRUTH(double, vd, x->d, p->lanes / 2, name, right)
#define TRUTH_M(name, right) TRUTH(float, vm, x->f, p->lanes, name, right)
#define TRUTH_MD(name, right) TRUTH(double, vmd, x->d, p->lanes / 2, name, right)

static void check_truths(const tli_vec_probe *p, const lanes *x)
{
    TLI_PROBE_COMPARE(TRUTH_F)
    TLI_PROBE_COMPARE(TRUTH_D)
    TLI_PROBE_MASK(TRUTH_M)
    TLI_PROBE_MASK(TRUTH_MD)
    TRUTH(int32_t, vi, x->i, p->lanes, eq, a == b)
    TRUTH(int32_t, vi, x->i, p->lanes, gt, a > b)
}

#define WHOLE(type, suffix, in, count, name, right)                                                \
    do {                                                                                           \
        type out[LANES];                                                                           \
        p->suffix##_##name(out, in[0], in[1], in[2], n);                                           \
        for (int j = 0; j < (count); j++) {                                                        \
            const type a = in[0][j], b = in[1][j];                                                 \
            (void)b;                                                                               \
            if (out[j] != (type)(right))                                                           \
                fail_msg(#suffix "_" #name "(%lld, %lld), %d: %lld", (long long)a, (long long)b,   \
                         n, (long long)out[j]);                                                    \
        }                                                                                          \
    } while (0);
#define WHOLE_32(name, right) WHOLE(int32_t, vi, x->i, p->lanes, name, right)
#define WHOLE_64(name, right) WHOLE(int64_t, vl, x->l, p->lanes / 2, name, right)

static void check_int32(const tli_vec_probe *p, const lanes *x, int n)
{
    typedef uint32_t u;
    TLI_PROBE_WHOLE(WHOLE_32)
    TLI_PROBE_SHIFT(WHOLE_32)
    TLI_PROBE_INT32(WHOLE_32)
    WHOLE_32(shr, a >> n)
}

static void check_int64(const tli_vec_probe *p, const lanes *x, int n)
{
    typedef uint64_t u;
    TLI_PROBE_WHOLE(WHOLE_64)
    TLI_PROBE_SHIFT(WHOLE_64)
}

static void check_choices(const tli_vec_probe *p, const lanes *x, int n)
{
    const int vf = p->lanes, vd = vf / 2;
    float f[3 * LANES];
    double d[3 * LANES];
    int32_t i[3 * LANES];
    uint8_t m[2 + 2 * LANES];
    p->vf_choose(f, x->f[0], x->f[1], NULL, 0);
    p->vi_choose(i, x->i[0], x->i[1], NULL, 0);
    // More than there are lanes: all of them.
    p->vm_any_all_not_first(m, x->f[0], x->f[1], NULL, n % (5 * vf));
    bool any = false, all = true;
    for (int j = 0; j < vf; j++) {
        const float a = x->f[0][j], b = x->f[1][j];
        const int32_t s = x->i[0][j], t = x->i[1][j];
        assert_true(same_f(f[j], a < b ? a : b) && same_f(f[vf + j], a < b ? a : 0));
        assert_true(same_f(f[2 * vf + j], a < b ? 0 : a));
        assert_true(i[j] == (s < t ? s : t) && i[vf + j] == -(s < t)
                    && i[2 * vf + j] == x->i[0][0]);
        assert_true(m[2 + j] == !(a < b) && m[2 + vf + j] == (j < n % (5 * vf)));
        any |= a < b, all &= a < b;
    }
    assert_true(m[0] == any && m[1] == all);
    p->vd_choose(d, x->d[0], x->d[1], NULL, 0);
    p->vmd_any_all_not_first(m, x->d[0], x->d[1], NULL, n % (9 * vd));
    any = false, all = true;
    for (int j = 0; j < vd; j++) {
        const double a = x->d[0][j], b = x->d[1][j];
        assert_true(same_d(d[j], a < b ? a : b) && same_d(d[vd + j], a < b ? a : 0));
        assert_true(same_d(d[2 * vd + j], a < b ? 0 : a));
        assert_true(m[2 + j] == !(a < b) && m[2 + vd + j] == (j < n % (9 * vd)));
        any |= a < b, all &= a < b;
    }
    assert_true(m[0] == any && m[1] == all);
}

static void check_conversions(const tli_vec_probe *p, const lanes *x)
{
    float f[LANES];
    double d[LANES];
    int32_t truncated[LANES], rounded[LANES];
    p->vf_to_vi(truncated, x->f[0], NULL, NULL, 0);
    p->vf_round_to_vi(rounded, x->f[0], NULL, NULL, 0);
    p->vf_to_vd(d, x->f[0], NULL, NULL, 0);
    for (int j = 0; j < p->lanes; j++) {
        assert_true(same_d(d[j], (double)x->f[0][j]));
        if (!(fabsf(x->f[0][j]) < 0x1p31f)) continue;
        assert_int_equal(truncated[j], (int32_t)x->f[0][j]);
        assert_int_equal(rounded[j], (int32_t)rintf(x->f[0][j]));
    }
    p->vi_to_vf(f, x->i[0], NULL, NULL, 0);
    for (int j = 0; j < p->lanes; j++) assert_true(same_f(f[j], (float)x->i[0][j]));
    p->vd_to_vf(f, x->d[0], NULL, NULL, 0);
    for (int j = 0; j < p->lanes; j++) assert_true(same_f(f[j], (float)x->d[0][j]));
}

/* The tree that vec.h promises, in the type of the lanes. */
#define TREE(type, name)                                                                           \
    static type name(const type *x, int count)                                                     \
    {                                                                                              \
        type s[LANES];                                                                             \
        memcpy(s, x, (size_t)count * sizeof *s);                                                   \
        for (; count > 4; count /= 2)                                                              \
            for (int j = 0; j < count / 2; j++) s[j] += s[j + count / 2];                          \
        return count == 2 ? s[0] + s[1] : (s[0] + s[1]) + (s[2] + s[3]);                           \
    }
TREE(float, tree_f)
TREE(double, tree_d)

static void check_across(const tli_vec_probe *p, const lanes *x)
{
    float f[3], most = x->f[0][0], least = most;
    double d[3], most_d = x->d[0][0], least_d = most_d;
    p->vf_across(f, x->f[0], NULL, NULL, 0);
    p->vd_across(d, x->d[0], NULL, NULL, 0);
    for (int j = 1; j < p->lanes; j++) {
        const float a = x->f[0][j];
        if (isnan(a) || a > most) most = a;
        if (isnan(a) || a < least) least = a;
    }
    for (int j = 1; j < p->lanes / 2; j++) {
        const double a = x->d[0][j];
        if (isnan(a) || a > most_d) most_d = a;
        if (isnan(a) || a < least_d) least_d = a;
    }
    assert_true(same_f(f[0], tree_f(x->f[0], p->lanes))
                && same_d(d[0], tree_d(x->d[0], p->lanes / 2)));
    assert_true((f[1] == most || (isnan(f[1]) && isnan(most)))
                && (f[2] == least || (isnan(f[2]) && isnan(least))));
    assert_true((d[1] == most_d || (isnan(d[1]) && isnan(most_d)))
                && (d[2] == least_d || (isnan(d[2]) && isnan(least_d))));
}

static void test_lanes(void **state)
{
    (void)state;
    for (int isa = 0; isa < TLI_ISA_COUNT; isa++) {
        if (!tli_isa_supported((tli_isa)isa)) continue;
        const tli_vec_probe *p = tli_vec_probe_of((tli_isa)isa);
        assert_true(p->lanes >= 4 && p->lanes <= LANES);
        tl_rng rng;
        tl_rng_init(&rng, 21);
        for (int round = 0; round < ROUNDS; round++) {
            lanes x;
            fill(&x, &rng);
            check_floats(p, &x);
            check_doubles(p, &x);
            check_truths(p, &x);
            check_int32(p, &x, round % 32);
            check_int64(p, &x, round % 64);
            check_choices(p, &x, round);
            check_conversions(p, &x);
            check_across(p, &x);
            check_constants(p, &x);
        }
        // Masks that hold everywhere, or nowhere.
        lanes x;
        fill(&x, &rng);
        for (int j = 0; j < LANES; j++) x.f[0][j] = 1, x.f[1][j] = 2, x.d[0][j] = 2, x.d[1][j] = 1;
        check_choices(p, &x, 0);
        for (int j = 0; j < LANES; j++) x.f[0][j] = 2, x.f[1][j] = 1, x.d[0][j] = 1, x.d[1][j] = 2;
        check_choices(p, &x, p->lanes);
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Copies n lanes (-1: all) of `size` bytes into blocks of just that length, so that a sanitizer
 * sees what is read or written beyond. */
static void check_copy(tli_probe_fn *copy, size_t size, int count, int64_t n)
{
    const size_t bytes = size * (size_t)(n < 0 ? count : n);
    unsigned char *from = malloc(bytes + 1), *to = malloc(bytes + 1),
                  *a = malloc(bytes ? bytes : 1);
    assert_true(from && to && a);
    for (size_t i = 0; i < bytes; i++) a[i] = size == 1 ? i % 3 == 0 : (unsigned char)(i * 7 + 1);
    memcpy(from + 1, a, bytes);
    memset(to, 0x5a, bytes + 1);
    copy(to + (size == 1), size == 1 ? from + 1 : a, NULL, NULL, n); // bytes may stand anywhere
    assert_memory_equal(to + (size == 1), a, bytes);
    assert_int_equal(to[size == 1 ? 0 : bytes], 0x5a);
    free(from), free(to), free(a);
}

static void test_copies(void **state)
{
    (void)state;
    for (int isa = 0; isa < TLI_ISA_COUNT; isa++) {
        if (!tli_isa_supported((tli_isa)isa)) continue;
        const tli_vec_probe *p = tli_vec_probe_of((tli_isa)isa);
        for (int64_t n = -1; n <= p->lanes; n++) {
            check_copy(p->copy_f32, 4, p->lanes, n);
            check_copy(p->copy_i32, 4, p->lanes, n);
            check_copy(p->copy_bool, 1, p->lanes, n);
            if (n <= p->lanes / 2) check_copy(p->copy_f64, 8, p->lanes / 2, n);
        }
        // Any byte that is not 0 is true.
        uint8_t in[LANES], out[LANES];
        for (int j = 0; j < LANES; j++) in[j] = (uint8_t)(j % 4 ? 1 << (j % 8) : 0);
        p->copy_bool(out, in, NULL, NULL, -1);
        for (int j = 0; j < p->lanes; j++) assert_int_equal(out[j], in[j] != 0);
        p->copy_bool(out, in, NULL, NULL, p->lanes - 1);
        for (int j = 0; j < p->lanes - 1; j++) assert_int_equal(out[j], in[j] != 0);
    }
}

/* --- 16-bit floats ---------------------------------------------------------------------------- */

typedef struct storage {
    tli_probe_fn *load, *store;
    float (*from)(uint16_t);
    uint16_t (*to)(float);
} storage;

static void check_load(const storage *s, int count)
{
    for (int32_t first = 0; first < 0x10000; first += count) {
        uint16_t in[LANES];
        float whole[LANES], part[LANES];
        const int n = first / count % (count + 1);
        for (int j = 0; j < count; j++) in[j] = (uint16_t)(first + j);
        s->load(whole, in, NULL, NULL, -1);
        s->load(part, in, NULL, NULL, n);
        for (int j = 0; j < count; j++) {
            assert_true(same_f(whole[j], s->from(in[j])));
            assert_true(same_f(part[j], j < n ? whole[j] : 0));
        }
    }
}

static void check_store(const storage *s, int count, const float *in)
{
    uint16_t out[LANES + 1];
    for (int n = -1; n <= count; n++) {
        memset(out, 0x5a, sizeof out);
        s->store(out, in, NULL, NULL, n);
        const int written = n < 0 ? count : n;
        for (int j = 0; j < written; j++)
            if (out[j] != s->to(in[j]))
                fail_msg("%a is stored as 0x%x, not 0x%x", (double)in[j], out[j], s->to(in[j]));
        for (int j = written; j <= count; j++) assert_int_equal(out[j], 0x5a5a);
    }
}

static void check_stores(const storage *s, int count)
{
    tl_rng rng;
    tl_rng_init(&rng, 22);
    float in[LANES];
    for (int round = 0; round < ROUNDS; round++) {
        for (int j = 0; j < LANES; j++) in[j] = tli_bits_to_float(tl_rng_u32(&rng));
        check_store(s, count, in);
    }
    // Around every value there is: itself, the middle to the next one, and just beside the middle.
    for (uint32_t h = 0; h < 0x10000; h += 3)
        for (int j = 0; j < LANES; j++) {
            const float a = s->from((uint16_t)h), b = s->from((uint16_t)(h + 1));
            const uint32_t middle = tli_float_to_bits((float)(0.5 * ((double)a + (double)b)));
            in[j] = j < 3 ? tli_bits_to_float(middle + (uint32_t)j - 1) : j == 3 ? a : in[j - 4];
            if (j == LANES - 1) check_store(s, count, in);
        }
    for (int j = 0; j < TL_COUNT(odd_floats); j++) {
        in[j % LANES] = odd_floats[j];
        check_store(s, count, in);
    }
}

static void test_16_bits(void **state)
{
    (void)state;
    for (int isa = 0; isa < TLI_ISA_COUNT; isa++) {
        if (!tli_isa_supported((tli_isa)isa)) continue;
        const tli_vec_probe *p = tli_vec_probe_of((tli_isa)isa);
        const storage bf16 = {p->load_bf16, p->store_bf16, tli_from_bf16, tli_to_bf16};
        const storage f16 = {p->load_f16, p->store_f16, tli_from_f16, tli_to_f16};
        check_load(&bf16, p->lanes);
        check_load(&f16, p->lanes);
        check_stores(&bf16, p->lanes);
        check_stores(&f16, p->lanes);
        const float in[LANES] = {1, 2, 3};
        float out[LANES];
        p->load_f32(out, in, NULL, NULL, 2);
        assert_true(out[0] == 1 && out[1] == 2 && out[2] == 0 && out[p->lanes - 1] == 0);
        out[0] = 9, out[1] = 9;
        p->store_f32(out, in, NULL, NULL, 1);
        assert_true(out[0] == 1 && out[1] == 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_16_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
