#include "test.h"

#include <tilth/base/rng.h>
#include <tilth/core/dtype.h>

#include "core/inner/element.h"
#include "core/inner/half.h"

/* --- names and classes ------------------------------------------------------------------------ */

static void every_type_has_name_size_and_class(void **state)
{
    (void)state;
    for (int i = 0; i < TL_DTYPE_COUNT; i++) {
        tl_dtype d = (tl_dtype)i, back;
        assert_ok(tl_dtype_parse(&back, tl_dtype_name(d)));
        assert_int_equal(back, d);
        assert_string_equal(tl_dtype_names[i], tl_dtype_name(d));
        size_t size = tl_dtype_size(d);
        assert_true(size == 1 || size == 2 || size == 4 || size == 8);
        assert_int_equal(tl_dtype_is_float(d), tl_dtype_classify(d) == TL_CLASS_FLOAT);
    }
    assert_null(tl_dtype_names[TL_DTYPE_COUNT]);
    assert_string_equal(tl_dtype_name(TL_BF16), "bfloat16");
    assert_int_equal(tl_dtype_size(TL_BF16), 2);
    assert_int_equal(tl_dtype_size(TL_I64), 8);
    assert_int_equal(tl_dtype_classify(TL_U8), TL_CLASS_INT);
    assert_int_equal(tl_dtype_classify(TL_BOOL), TL_CLASS_BOOL);
}

static void unknown_names_are_refused(void **state)
{
    (void)state;
    tl_dtype d = TL_I8;
    assert_fails(tl_dtype_parse(&d, "float23"), TL_EINVAL,
                 "'float23' is not a dtype; did you mean 'float32'?");
    assert_fails(tl_dtype_parse(&d, ""), TL_EINVAL, "'' is not a dtype");
    assert_fails(tl_dtype_parse(&d, "Float32x"), TL_EINVAL, "is not a dtype");
    assert_int_equal(d, TL_I8);
}

static void two_types_meet(void **state)
{
    (void)state;
    for (int a = 0; a < TL_DTYPE_COUNT; a++) {
        for (int b = 0; b < TL_DTYPE_COUNT; b++) {
            tl_dtype m = tl_dtype_meet((tl_dtype)a, (tl_dtype)b);
            assert_int_equal(m, tl_dtype_meet((tl_dtype)b, (tl_dtype)a));
            if (a == b) assert_int_equal(m, a);
            tl_dtype_class high = tl_dtype_classify((tl_dtype)a),
                           other = tl_dtype_classify((tl_dtype)b);
            if (other > high) high = other;
            assert_int_equal(tl_dtype_classify(m), high);
        }
    }
    assert_int_equal(tl_dtype_meet(TL_BF16, TL_F16), TL_F32);
    assert_int_equal(tl_dtype_meet(TL_BF16, TL_F64), TL_F64);
    assert_int_equal(tl_dtype_meet(TL_BF16, TL_I64), TL_BF16);
    assert_int_equal(tl_dtype_meet(TL_BOOL, TL_I8), TL_I8);
    assert_int_equal(tl_dtype_meet(TL_U8, TL_I8), TL_I16);
    assert_int_equal(tl_dtype_meet(TL_U8, TL_I16), TL_I16);
    assert_int_equal(tl_dtype_meet(TL_U8, TL_I64), TL_I64);
}

/* --- 16-bit floats, against arithmetic on doubles --------------------------------------------- */

/* What the bits of a 16-bit float with so many bits of fraction mean. */
static double half_value(uint16_t bits, int fraction_bits)
{
    int exponent_bits = 15 - fraction_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

/* The nearest of all 16-bit floats, by bisection and comparison of distances; ties to the even
 * one. */
static uint16_t nearest_half(double x, int fraction_bits)
{
    uint16_t infinity = (uint16_t)(((1 << (15 - fraction_bits)) - 1) << fraction_bits);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs(x);
    if (isinf(x)) return (uint16_t)(sign | infinity);
    uint16_t low = 0, high = infinity; // value(low) <= size < value(high)
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (half_value(middle, fraction_bits) <= size) low = middle;
        else high = middle;
    }
    // For rounding, infinity stands one step above the largest number.
    double below = half_value(low, fraction_bits);
    double above = high == infinity
                       ? below + (below - half_value((uint16_t)(low - 1), fraction_bits))
                       : half_value(high, fraction_bits);
    double down = size - below, up = above - size;
    return (uint16_t)(sign | (down < up || (down == up && low % 2 == 0) ? low : high));
}

static bool same_half(uint16_t a, uint16_t b, int fraction_bits)
{
    bool nan_a = isnan(half_value(a, fraction_bits)), nan_b = isnan(half_value(b, fraction_bits));
    return nan_a || nan_b ? nan_a && nan_b : a == b;
}

static void all_halves_have_their_value(void **state)
{
    (void)state;
    for (int i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        double b = half_value(h, 7), f = half_value(h, 10);
        float from_b = tli_from_bf16(h), from_f = tli_from_f16(h);
        if (isnan(b) ? !isnan(from_b) : ((double)from_b != b || !signbit(from_b) != !signbit(b)))
            fail_msg("bf16 %04x is %a, not %a", (unsigned)i, (double)from_b, b);
        if (isnan(f) ? !isnan(from_f) : ((double)from_f != f || !signbit(from_f) != !signbit(f)))
            fail_msg("f16 %04x is %a, not %a", (unsigned)i, (double)from_f, f);
        // And back, bit for bit; NaN stays NaN, with its sign.
        assert_true(same_half(tli_to_bf16(from_b), h, 7)
                    && ((tli_to_bf16(from_b) ^ h) & 0x8000) == 0);
        assert_true(same_half(tli_to_f16(from_f), h, 10)
                    && ((tli_to_f16(from_f) ^ h) & 0x8000) == 0);
    }
}

static void check_float(float x)
{
    uint16_t b = tli_to_bf16(x), f = tli_to_f16(x);
    if (isnan(x)) {
        assert_true(isnan(half_value(b, 7)) && isnan(half_value(f, 10)));
        return;
    }
    if (b != nearest_half(x, 7))
        fail_msg("bf16 of %a is %04x, not %04x", (double)x, b, nearest_half(x, 7));
    if (f != nearest_half(x, 10))
        fail_msg("f16 of %a is %04x, not %04x", (double)x, f, nearest_half(x, 10));
}

static void floats_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    tl_rng rng;
    tl_rng_init(&rng, 1);
    for (int i = 0; i < 300000; i++) check_float(tli_bits_to_float(tl_rng_u32(&rng)));
    // Around the range of float16, where most of its roundings are.
    for (int i = 0; i < 300000; i++) {
        uint32_t exponent = 127 - 28 + (uint32_t)tl_rng_below(&rng, 46);
        check_float(tli_bits_to_float((tl_rng_u32(&rng) & 0x807fffff) | exponent << 23));
    }
    const uint32_t special[] = {0,          1,          2,          0x007fffff,
                                0x00800000, 0x7f7fffff, 0x7f800000, 0x7f800001,
                                0x7fc00000, 0x7fffffff, 0x477fe000, 0x477fefff,
                                0x477ff000, 0x33000000, 0x33000001, 0x387fffff};
    for (int i = 0; i < TL_COUNT(special); i++) {
        check_float(tli_bits_to_float(special[i]));
        check_float(tli_bits_to_float(special[i] | 0x80000000));
    }
}

// Ties between all neighbours, and one step of float to either side.
static void ties_go_to_the_even_one(void **state)
{
    (void)state;
    for (int i = 0; i < 0x7f80; i++) {
        uint32_t tie = ((uint32_t)i << 16) | 0x8000;
        for (int by = -1; by <= 1; by++) check_float(tli_bits_to_float(tie + (uint32_t)by));
        if (i >= 0x7bff) continue;
        float middle =
            (float)((half_value((uint16_t)i, 10) + half_value((uint16_t)(i + 1), 10)) / 2);
        check_float(middle);
        check_float(nextafterf(middle, 0));
        check_float(-nextafterf(middle, INFINITY));
    }
}

// A double is rounded once: what float would make a tie is none.
static void doubles_are_rounded_once(void **state)
{
    (void)state;
    tl_rng rng;
    tl_rng_init(&rng, 2);
    for (int i = 0; i < 200000; i++) {
        uint16_t h = (uint16_t)tl_rng_below(&rng, 0x7f80), out;
        double tie_b = (half_value(h, 7) + half_value((uint16_t)(h + 1), 7)) / 2;
        uint16_t g = (uint16_t)tl_rng_below(&rng, 0x7bff);
        double tie_f = (half_value(g, 10) + half_value((uint16_t)(g + 1), 10)) / 2;
        double little = 1 + ((double)tl_rng_below(&rng, 3) - 1) * 0x1p-40, sign = i % 2 ? 1 : -1;
        double x = sign * tie_b * little, y = sign * tie_f * little;
        if (isfinite(x)) {
            tli_element_set(TL_BF16, &out, 0, x);
            if (out != nearest_half(x, 7))
                fail_msg("bf16 of %a is %04x, not %04x", x, out, nearest_half(x, 7));
        }
        tli_element_set(TL_F16, &out, 0, y);
        if (out != nearest_half(y, 10))
            fail_msg("f16 of %a is %04x, not %04x", y, out, nearest_half(y, 10));
    }
    const double far[] = {1e300,          -1e300,   1e-300,        -1e-300, 0x1p-25,
                          0x1.000001p-25, 0x1p-134, 0x1.0001p-134, 5e-324};
    for (int i = 0; i < TL_COUNT(far); i++) {
        uint16_t b, f;
        tli_element_set(TL_BF16, &b, 0, far[i]);
        tli_element_set(TL_F16, &f, 0, far[i]);
        assert_int_equal(b, nearest_half(far[i], 7));
        assert_int_equal(f, nearest_half(far[i], 10));
    }
}

/* --- elements --------------------------------------------------------------------------------- */

static double through(tl_dtype dtype, double value)
{
    _Alignas(8) char element[8];
    tli_element_set(dtype, element, 0, value);
    return tli_element_get(dtype, element, 0);
}

static void elements_keep_what_they_can_hold(void **state)
{
    (void)state;
    const double whole[] = {0, 1, 2, 100, 127};
    for (int d = 0; d < TL_DTYPE_COUNT; d++) {
        if (d == TL_BOOL) continue;
        for (int i = 0; i < TL_COUNT(whole); i++)
            assert_near(through((tl_dtype)d, whole[i]), whole[i], 0);
        if (tl_dtype_is_float((tl_dtype)d)) {
            assert_near(through((tl_dtype)d, -0.5), -0.5, 0);
            assert_true(isnan(through((tl_dtype)d, NAN)));
            assert_true(isinf(through((tl_dtype)d, -INFINITY))
                        && through((tl_dtype)d, -INFINITY) < 0);
            assert_true(signbit(through((tl_dtype)d, -0.0)));
        }
    }
    assert_near(through(TL_F64, 0.1), 0.1, 0);
    assert_near(through(TL_F32, 0.1), 0.1f, 0);
}

static void integers_are_cut_and_wrap(void **state)
{
    (void)state;
    assert_near(through(TL_I8, -128), -128, 0);
    assert_near(through(TL_I8, 1.9), 1, 0);
    assert_near(through(TL_I8, -1.9), -1, 0);
    assert_near(through(TL_I8, 200), -56, 0);
    assert_near(through(TL_U8, -1), 255, 0);
    assert_near(through(TL_I16, 40000), -25536, 0);
    assert_near(through(TL_I32, 2147483648.0), -2147483648.0, 0);
    assert_near(through(TL_I64, 0x1p62), 0x1p62, 0);
    assert_near(through(TL_I64, 1e30), 0x1p63, 0);
    assert_near(through(TL_I64, -1e30), -0x1p63, 0);
    assert_near(through(TL_I64, NAN), 0, 0);
    assert_near(through(TL_I32, -INFINITY), 0, 0); // the low bits of the least int64
    assert_near(through(TL_BOOL, 0.5), 1, 0);
    assert_near(through(TL_BOOL, -0.0), 0, 0);
    assert_near(through(TL_BOOL, NAN), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_name_size_and_class),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(two_types_meet),
        cmocka_unit_test(all_halves_have_their_value),
        cmocka_unit_test(floats_are_rounded_to_the_nearest),
        cmocka_unit_test(ties_go_to_the_even_one),
        cmocka_unit_test(doubles_are_rounded_once),
        cmocka_unit_test(elements_keep_what_they_can_hold),
        cmocka_unit_test(integers_are_cut_and_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
