/* Formulas of elementwise ops in float. An op's is called vf_<op>: here, or, where it is one
 * instruction, in vec.h. Each lane depends on its own value alone, and every instruction set gives
 * the same bits (NaNs may differ in theirs).
 *
 *     vf_store(y, vf_mul(x, vf_sigmoid(x)));
 *
 * The text stands once and is compiled twice: with vectors (math.h), for kernels; and with one lane
 * (lane.h), for loop nests, where compilers make vectors of the loop. For the C that is printed for
 * nests it includes nothing, and names nothing of the C library.
 *
 * TLI_FORMULA_1(mish, x) begins the formula of an op with one input, TLI_FORMULA_2 and _3 those
 * that are given two or three, numbers of attributes among them; TLI_TEST_1 and _2 give truth
 * values.
 *
 * Largest error over all floats, in units in the last place of the exact result
 * (tests/soak/floats.sh measures them):
 *
 *     exp log log1p expm1 tanh sigmoid erf sin cos pow rsqrt     2
 *     softplus silu elu hard_sigmoid hard_swish      4, or 1e-37 absolutely
 *     gelu_tanh mish (gelu)                        4, or 1e-7 (2e-7) of the argument's size
 *                                                                (below 1 that of 1)
 *
 * Infinities, NaNs, zeros and their signs, subnormal arguments and results are as in C's libm; an
 * activation at -infinity is its limit, not a NaN.
 *
 * Polynomials are minimax ones with float coefficients. They are evaluated in pairs of terms, whose
 * chains run side by side.
 *
 * No include guard: included once. Thread word: free-threaded. */

/* c0 + c1 * x */
#define TLI_PAIR(c0, c1, x) VF_FMA_LITERAL(x, vf_set1(c1), c0)
/* The same where registers are left to keep the literals in, and loads would be in the way. */
#define TLI_PAIR_KEPT(c0, c1, x) vf_fma(vf_set1(c1), x, vf_set1(c0))
#define TLI_PAIR_D(c0, c1, x) vd_fma(vd_set1(c1), x, vd_set1(c0))

/* Added to a float below 2^22 this rounds it to a whole number, which is left in the low bits; with
 * 127 on top, these bits shifted by 23 are a power of two. */
#define TLI_ROUNDER 0x1.8p23f
#define TLI_ROUNDER_127 (0x1.8p23f + 127)

/* --- arithmetic: what the vector layer does not have under the op's name ---------------------- */

TLI_FORMULA_2(minimum, a, b)
{
    return vf_min(a, b);
}

TLI_FORMULA_2(maximum, a, b)
{
    return vf_max(a, b);
}

TLI_FORMULA_3(affine, x, scale, shift)
{
    return vf_fma(x, scale, shift);
}

TLI_FORMULA_3(clip, x, low, high)
{
    return vf_min_c(vf_max_c(x, low), high);
}

TLI_TEST_2(equal, a, b)
{
    return vf_eq(a, b);
}

TLI_TEST_2(not_equal, a, b)
{
    return vf_ne(a, b);
}

TLI_TEST_2(less, a, b)
{
    return vf_lt(a, b);
}

TLI_TEST_2(less_equal, a, b)
{
    return vf_le(a, b);
}

TLI_TEST_1(isfinite, x)
{
    return vf_eq(vf_sub(x, x), vf_zero());
}

TLI_TEST_1(isnan, x)
{
    return vf_is_nan(x);
}

TLI_FORMULA_1(sign, x)
{
    return vf_select(vf_gt(x, vf_zero()), vf_set1(1),
                     vf_select(vf_lt(x, vf_zero()), vf_set1(-1), x));
}

TLI_FORMULA_1(stop_gradient, x)
{
    return x;
}

TLI_FORMULA_1(square, x)
{
    return vf_mul(x, x);
}

TLI_FORMULA_1(rsqrt, x)
{
    return vf_div(vf_set1(1), vf_sqrt(x));
}

TLI_FORMULA_1(reciprocal, x)
{
    return vf_div(vf_set1(1), x);
}

/* --- exponentials ----------------------------------------------------------------------------- */

/* e^x for x in [-104, 89]. x = 2 n ln 2 + r: a power of two that is applied twice never leaves the
 * normal range, so that the last product rounds once, to subnormals and infinity too. */
TLI_INLINE vf tli_exp_clamped(vf x)
{
    const vf z = VF_FMA_LITERAL(x, vf_set1(0x1.715476p-1f), TLI_ROUNDER_127);
    const vf n = vf_sub(z, vf_set1(TLI_ROUNDER_127)), s = vi_as_vf(vi_shl(vf_as_vi(z), 23));
    vf r = vf_fnma(n, vf_set1(0x1.62e43p0f), x);
    r = vf_fma(n, vf_set1(0x1.05c61p-28f), r);
    const vf r2 = vf_mul(r, r);
    vf p = vf_fma(TLI_PAIR(0x1.71c4e6p-10f, 0x1.9baebap-13f, r), r2,
                  TLI_PAIR(0x1.5549dcp-5f, 0x1.112728p-7f, r));
    p = vf_fma(p, r2, TLI_PAIR(0x1.00000cp-1f, 0x1.555512p-3f, r));
    p = vf_add(vf_fma(p, r2, r), vf_set1(1));
    return vf_mul(vf_mul(p, s), s);
}

TLI_FORMULA_1(exp, x)
{
    return tli_exp_clamped(vf_max_c(vf_min_c(x, vf_set1(89)), vf_set1(-104)));
}

/* e^x = 2^n (1 + p): gives p; with TLI_ROUNDER_127 + k, 2^(n + k) goes to *power and must be
 * normal. */
TLI_INLINE vf tli_exp_parts(vf x, float rounder, vf *power)
{
    const vf z = vf_fma(x, vf_set1(0x1.715476p0f), vf_set1(rounder));
    const vf n = vf_sub(z, vf_set1(rounder));
    *power = vi_as_vf(vi_shl(vf_as_vi(z), 23));
    vf r = vf_fnma(n, vf_set1(0x1.62e43p-1f), x);
    r = vf_fma(n, vf_set1(0x1.05c61p-29f), r);
    const vf r2 = vf_mul(r, r);
    vf p = vf_fma(vf_set1(0x1.6b7376p-10f), r2, TLI_PAIR(0x1.555716p-5f, 0x1.12279ep-7f, r));
    p = vf_fma(p, r2, TLI_PAIR(0x1.fffffep-2f, 0x1.5554bp-3f, r));
    return vf_fma(p, r2, r);
}

/* 2^64 e^x for x up to 43: never subnormal, as sums of it want it. */
TLI_INLINE vf tli_exp_2_64(vf x)
{
    vf power;
    const vf p = tli_exp_parts(vf_max_c(x, vf_set1(-104)), TLI_ROUNDER_127 + 64, &power);
    return vf_fma(p, power, power);
}

/* e^x for x up to 43, as in softmax: exact to one unit, and cheaper. */
TLI_INLINE vf vf_exp_low(vf x)
{
    return vf_mul(tli_exp_2_64(x), vf_set1(0x1p-64f));
}

TLI_FORMULA_1(expm1, x)
{
    // One half of the power, as the whole would be infinite just below the largest results.
    const vf in = vf_max_c(vf_min_c(x, vf_set1(89)), vf_set1(-18));
    const vf z = VF_FMA_LITERAL(in, vf_set1(0x1.715476p0f), TLI_ROUNDER_127 - 1);
    const vf n = vf_sub(z, vf_set1(TLI_ROUNDER_127 - 1)), half = vi_as_vf(vi_shl(vf_as_vi(z), 23));
    vf r = vf_fnma(n, vf_set1(0x1.62e43p-1f), in);
    r = vf_fma(n, vf_set1(0x1.05c61p-29f), r);
    const vf r2 = vf_mul(r, r);
    vf p = vf_fma(TLI_PAIR(0x1.6d4372p-10f, 0x1.9e0c28p-13f, r), r2,
                  TLI_PAIR(0x1.5554fp-5f, 0x1.111306p-7f, r));
    p = vf_fma(p, r2, TLI_PAIR(0.5f, 0x1.555554p-3f, r));
    p = vf_fma(p, r2, r);
    const vf y = vf_fma(p, half, vf_sub(half, vf_set1(0.5f)));
    return vf_copysign(vf_add(y, y), x);
}

/* --- logarithms ------------------------------------------------------------------------------- */

/* log(1 + r) for r in [-1/3, 1/3] */
TLI_INLINE vf tli_log1p_small(vf r)
{
    const vf r2 = vf_mul(r, r);
    vf p = vf_fma(vf_set1(-0x1.06fc5ep-3f), r2, TLI_PAIR(-0x1.f392f6p-4f, 0x1.1ef6b4p-3f, r));
    p = vf_fma(p, r2, TLI_PAIR(-0x1.5598bep-3f, 0x1.1eb624p-3f, r));
    p = vf_fma(p, r2, TLI_PAIR(-0x1.ffff1p-3f, 0x1.99d284p-3f, r));
    p = vf_fma(p, r2, TLI_PAIR(-0.5f, 0x1.5555p-2f, r));
    return vf_fma(p, r2, r);
}

/* The exponent of positive normal t, in place, so that t is in [2/3, 4/3) without it. */
TLI_INLINE vi tli_exponent_bits(vf t)
{
    return vi_and(vi_sub(vf_as_vi(t), vi_set1(0x3f2aaaab)), vi_set1((int)0xff800000));
}

/* y - e * 2^-23 * ln 2 for the exponent e in place: subtracting keeps the sign of y = -0. */
TLI_INLINE vf tli_minus_exponent(vf y, vi e)
{
    const vf k = vi_to_vf(e);
    return vf_fnma(k, vf_set1(0x1.62e42ep-24f), vf_fnma(k, vf_set1(0x1.efa39ep-48f), y));
}

/* log(x * 2^(shift / 2^23)) for positive normal x */
TLI_INLINE vf tli_log_normal(vf x, vi shift)
{
    const vi e = tli_exponent_bits(x);
    const vf r = vf_sub(vi_as_vf(vi_sub(vf_as_vi(x), e)), vf_set1(1)),
             k = vi_to_vf(vi_add(e, shift));
    return vf_fma(k, vf_set1(0x1.62e43p-24f),
                  vf_fma(k, vf_set1(-0x1.05c61p-52f), tli_log1p_small(r)));
}

TLI_FORMULA_1(log, x)
{
    const vm usual = vm_and(vf_ge(x, vf_set1(0x1p-126f)), vf_lt(x, vf_set1(INFINITY)));
    if (vm_all(usual)) return tli_log_normal(x, vi_set1(0));
    const vm tiny = vf_lt(x, vf_set1(0x1p-126f));
    const vf scaled = vf_select(tiny, vf_mul(x, vf_set1(0x1p24f)), x);
    vf y = tli_log_normal(scaled, vi_and(vm_to_vi(tiny), vi_set1(-(24 << 23))));
    y = vf_select(vf_eq(x, vf_zero()), vf_set1(-INFINITY), y);
    y = vf_select(vf_lt(x, vf_zero()), vf_set1(NAN), y);
    return vf_select(vm_or(vf_is_nan(x), vf_eq(x, vf_set1(INFINITY))), x, y);
}

/* log(1 + x) for x above -1 and at most 2^126: 1 + x = 2^k (1 + r), and r = x 2^-k + (2^-k - 1) is
 * rounded once. */
TLI_INLINE vf tli_log1p_usual(vf x)
{
    const vi e = tli_exponent_bits(vf_add(x, vf_set1(1)));
    const vi minus = vi_sub(vi_set1(0), e);
    const vf s = vi_as_vf(vi_add(minus, vi_set1(0x3f800000)));
    const vf r = vf_fma(x, s, vf_neg(vf_sub(vf_set1(1), s))); // x = -0 stays what it is
    return tli_minus_exponent(tli_log1p_small(r), minus);
}

TLI_FORMULA_1(log1p, x)
{
    const vm usual = vm_and(vf_gt(x, vf_set1(-1)), vf_lt(x, vf_set1(0x1p126f)));
    if (vm_all(usual)) return tli_log1p_usual(x);
    vf y = tli_log1p_usual(vf_keep(usual, x));
    y = vf_select(vf_ge(x, vf_set1(0x1p126f)), vf_log(x), y);
    y = vf_select(vf_eq(x, vf_set1(-1)), vf_set1(-INFINITY), y);
    y = vf_select(vf_lt(x, vf_set1(-1)), vf_set1(NAN), y);
    return vf_select(vf_is_nan(x), x, y);
}

/* --- sigmoid, tanh, erf ----------------------------------------------------------------------- */

TLI_FORMULA_1(sigmoid, x)
{
    // 2^64 e^-|x|, which is always normal.
    vf power;
    const vf p =
        tli_exp_parts(vf_max_c(vf_neg(vf_abs(x)), vf_set1(-104)), TLI_ROUNDER_127 + 64, &power);
    const vf e = vf_fma(p, power, power), one = vf_set1(1), scale = vf_set1(0x1p-64f);
    const vf below = vf_fma(e, scale, one), lost = vf_fnma(e, scale, vf_sub(below, one));
    const vf y = vf_div(vf_select(vf_lt(x, vf_zero()), e, vf_set1(0x1p64f)), below);
    return vf_mul(vf_fma(y, lost, y), scale); // with what the sum below lost
}

/* Up to 0.55 a polynomial, from there on 1 - 2 / (e^2|x| + 1), where the fraction is below one
 * half. */
TLI_FORMULA_1(tanh, x)
{
    const vf one = vf_set1(1), t = vf_min_c(vf_abs(x), vf_set1(9.1f)), x2 = vf_mul(x, x);
    vf u = vf_fma(TLI_PAIR_KEPT(-0x1.af877ap-5f, 0x1.0d7a02p-6f, x2), vf_mul(x2, x2),
                  TLI_PAIR_KEPT(-0x1.555454p-2f, 0x1.10cf5ep-3f, x2));
    const vf small = vf_fma(u, vf_mul(x2, t), t);
    const vf z = vf_fma(t, vf_set1(0x1.715476p1f), vf_set1(TLI_ROUNDER_127));
    const vf n = vf_sub(z, vf_set1(TLI_ROUNDER_127)), s = vi_as_vf(vi_shl(vf_as_vi(z), 23));
    const vf r = vf_fnma(n, vf_set1(0x1.62e43p-2f), t), r2 = vf_mul(r, r);
    u = vf_fma(vf_set1(0x1.0fa744p-2f), r2, TLI_PAIR_KEPT(0x1.555a78p0f, 0x1.573d58p-1f, r));
    u = vf_fma(u, r2, TLI_PAIR_KEPT(0x1.fffff6p0f, 0x1.fffdbep0f, r));
    const vf below = vf_fma(vf_mul(u, r), s, vf_add(s, one));
    const vf large = vf_sub(one, vf_div(vf_set1(2), below));
    return vf_copysign(vf_select(vf_lt(t, vf_set1(0.5493f)), small, large), x);
}

/* erf(t) / t - 1 for t in [0, 0.85], given t * t */
TLI_INLINE vf tli_erf_small(vf t2)
{
    const vf t4 = vf_mul(t2, t2);
    vf p = vf_fma(TLI_PAIR_KEPT(0x1.4b57d8p-8f, -0x1.4c57ap-11f, t2), t4,
                  TLI_PAIR_KEPT(0x1.ce2512p-4f, -0x1.b730dep-6f, t2));
    return vf_fma(p, t4, TLI_PAIR_KEPT(0x1.06eba8p-3f, -0x1.812724p-2f, t2));
}

/* e^x for x in [-80, 80] with an error of 1e-7 of it, for what is added to something larger. */
TLI_INLINE vf tli_exp_rough(vf x)
{
    const vf z = vf_fma(x, vf_set1(0x1.715476p0f), vf_set1(TLI_ROUNDER_127));
    const vf n = vf_sub(z, vf_set1(TLI_ROUNDER_127)), s = vi_as_vf(vi_shl(vf_as_vi(z), 23));
    const vf r = vf_fnma(n, vf_set1(0x1.62e43p-1f), x), r2 = vf_mul(r, r);
    vf u = vf_fma(vf_set1(0x1.0fa36ep-7f), r2, TLI_PAIR_KEPT(0x1.555a7ep-3f, 0x1.573caap-5f, r));
    u = vf_fma(u, r2, TLI_PAIR_KEPT(0x1.fffff6p-1f, 0x1.fffdcp-2f, r));
    return vf_fma(vf_mul(u, r), s, s);
}

/* erfc(t) for t in [0.85, 4.3], where it is below 0.23: the error is small beside 1. */
TLI_INLINE vf tli_erfc_large(vf t)
{
    const vf t2 = vf_mul(t, t);
    vf q = vf_fma(vf_set1(0x1.a8bb08p-13f), t2, TLI_PAIR_KEPT(0x1.704ba6p-6f, -0x1.9743ap-9f, t));
    q = vf_fma(q, t2, TLI_PAIR_KEPT(-0x1.45f0a8p-1f, -0x1.abd1b2p-4f, t));
    q = vf_fma(q, t2, TLI_PAIR_KEPT(-0x1.e11a1p-14f, -0x1.20c59ep0f, t));
    return tli_exp_rough(q);
}

TLI_FORMULA_1(erf, x)
{
    const vf t = vf_min_c(vf_abs(x), vf_set1(4.3f));
    const vf small = vf_fma(tli_erf_small(vf_mul(t, t)), t, t);
    const vf large = vf_sub(vf_set1(1), tli_erfc_large(t));
    return vf_copysign(vf_select(vf_lt(t, vf_set1(0.85f)), small, large), x);
}

/* --- activations ------------------------------------------------------------------------------ */

TLI_FORMULA_1(relu, x)
{
    return vf_drop(vf_le(x, vf_zero()), x);
}

TLI_FORMULA_1(relu6, x)
{
    return vf_min_c(vf_relu(x), vf_set1(6));
}

TLI_FORMULA_2(leaky_relu, x, slope)
{
    return vf_select(vf_gt(x, vf_zero()), x, vf_mul(x, slope));
}

TLI_FORMULA_1(hard_sigmoid, x)
{
    return vf_mul(vf_relu6(vf_add(x, vf_set1(3))), vf_set1(1 / 6.0f));
}

TLI_FORMULA_1(hard_swish, x)
{
    return vf_mul(vf_max_c(x, vf_set1(-3)), vf_hard_sigmoid(x));
}

/* How much of a normal distribution lies below x, (1 + erf(x / sqrt 2)) / 2, with an error of 1e-7:
 * a quotient of polynomials that passes 1 before 5.94, and is cut there. */
TLI_INLINE vf tli_normal_below(vf x)
{
    const vf t = vf_max_c(vf_min_c(x, vf_set1(5.94f)), vf_set1(-5.94f));
    const vf s = vf_mul(t, t), s2 = vf_mul(s, s);
    vf p = vf_fma(TLI_PAIR(0x1.ab226ep-18f, 0x1.76d8a4p-26f, s), s2,
                  TLI_PAIR(0x1.35b724p-8f, 0x1.730ee4p-13f, s));
    vf q = vf_fma(TLI_PAIR(0x1.3edb02p-14f, 0x1.3a68fep-20f, s), s2,
                  TLI_PAIR(0x1.dd15a8p-6f, 0x1.fa13fp-10f, s));
    p = vf_mul(vf_fma(p, s2, TLI_PAIR(0x1.98844ep-2f, 0x1.1c324ep-5f, s)), t);
    q = vf_fma(q, s2, TLI_PAIR(1, 0x1.03b662p-2f, s));
    return vf_max_c(vf_min_c(vf_add(vf_div(p, q), vf_set1(0.5f)), vf_set1(1)), vf_zero());
}

/* x / 2 * (1 + erf(x / sqrt 2)) */
TLI_FORMULA_1(gelu, x)
{
    // The bound keeps minus infinity from meeting 0, which the other factor is long since.
    return vf_mul(vf_max_c(x, vf_set1(-20)), tli_normal_below(x));
}

/* With u = sqrt(2 / pi) * (x + 0.044715 x^3), for x in [-10.06, 10]: e^-2u = 2^n p. Gives p, with
 * an error of 1e-7 of it; 2^n goes to *power, and is infinite at the lower bound. The exponent of 2
 * is a product: its whole part and the rest are both taken from it before it is rounded. */
TLI_INLINE vf tli_gelu_power(vf x, vf square, vf *power)
{
    const vf slope = TLI_PAIR(-0x1.26aec2p1f, -0x1.a5a7dp-4f, square);
    const vf z = VF_FMA_LITERAL(x, slope, TLI_ROUNDER_127);
    *power = vi_as_vf(vi_shl(vf_as_vi(z), 23));
    const vf r = vf_fnma(x, slope, vf_sub(z, vf_set1(TLI_ROUNDER_127))), r2 = vf_mul(r, r);
    const vf p = vf_fma(TLI_PAIR(0x1.3ce984p-7f, -0x1.5bdb78p-10f, r), r2,
                        TLI_PAIR(0x1.ebf9cp-3f, -0x1.c6b6d8p-5f, r));
    return vf_fma(p, r2, TLI_PAIR(1, -0x1.62e42ap-1f, r)); // 2^-r
}

/* x / 2 * (1 + tanh(u)) is x / (1 + e^-2u). */
TLI_FORMULA_1(gelu_tanh, x)
{
    vf power;
    const vf top = vf_max_c(x, vf_set1(-10.06f)), in = vf_min_c(top, vf_set1(10));
    const vf p = tli_gelu_power(in, vf_mul(in, in), &power);
    return vf_div(top, vf_fma(p, power, vf_set1(1)));
}

TLI_FORMULA_1(silu, x)
{
    const vf e = vf_exp_low(vf_neg(vf_abs(x)));
    const vf top = vf_select(vf_lt(x, vf_zero()), vf_mul(vf_max_c(x, vf_set1(-120)), e), x);
    return vf_div(top, vf_add(e, vf_set1(1)));
}

/* log(1 + e^-|x|) */
TLI_INLINE vf tli_softplus_tail(vf x)
{
    const vf e = vf_exp_low(vf_neg(vf_abs(x)));
    const vm upper = vf_gt(e, vf_set1(0x1.555554p-2f));
    const vf r = vf_select(upper, VF_FMA_LITERAL(e, vf_set1(0.5f), -0.5f), e);
    return vf_add(tli_log1p_small(r), vf_keep(upper, vf_set1(0x1.62e43p-1f)));
}

/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|) */
TLI_FORMULA_1(softplus, x)
{
    return vf_add(tli_softplus_tail(x), vf_relu(x));
}

/* x * tanh(softplus(x)) = x * w / (w + 2) where w = e^x (e^x + 2) */
TLI_FORMULA_1(mish, x)
{
    const vf e = vf_exp_low(vf_min_c(x, vf_set1(20)));
    const vf w = vf_mul(e, vf_add(e, vf_set1(2)));
    return vf_mul(vf_max_c(x, vf_set1(-120)), vf_div(w, vf_add(w, vf_set1(2))));
}

TLI_FORMULA_2(elu, x, alpha)
{
    return vf_select(vf_gt(x, vf_zero()), x, vf_mul(vf_expm1(x), alpha));
}

/* Gradients: g is that of the result. */
TLI_FORMULA_2(tanh_grad, g, y)
{
    return vf_mul(g, vf_fnma(y, y, vf_set1(1)));
}

TLI_FORMULA_2(sigmoid_grad, g, y)
{
    return vf_mul(g, vf_mul(y, vf_sub(vf_set1(1), y)));
}

TLI_FORMULA_2(relu_grad, g, y)
{
    return vf_keep(vf_gt(y, vf_zero()), g);
}

/* g * (P(x) + x * density(x)) */
TLI_FORMULA_2(gelu_grad, g, x)
{
    const vf below = tli_normal_below(x);
    const vf density =
        vf_mul(vf_exp(vf_mul(vf_mul(x, x), vf_set1(-0.5f))), vf_set1(0.39894228040143268f));
    // Far out x * density is 0 * infinity; its limit is 0.
    const vf rise = vf_keep(vf_lt(vf_abs(x), vf_set1(20)), vf_mul(x, density));
    return vf_mul(g, vf_add(below, rise));
}

/* The slope of x / (1 + e) with e = e^-2u is (1 + e + 2 u' x e) / (1 + e)^2. From 8 on that is 1;
 * to the left of -8 it is 0, as the square is infinite there, and what stands above it is not. */
TLI_FORMULA_2(gelu_tanh_grad, g, x)
{
    vf power;
    const vf in = vf_max_c(vf_min_c(x, vf_set1(8)), vf_set1(-8)), square = vf_mul(in, in);
    const vf p = tli_gelu_power(in, square, &power), e = vf_mul(p, power);
    const vf rise = vf_mul(in, TLI_PAIR(0x1.988454p0f, 3 * 0x1.2444f2p-4f, square));
    const vf below = vf_add(e, vf_set1(1));
    return vf_mul(g, vf_div(vf_fma(rise, e, below), vf_mul(below, below)));
}

/* s * (1 + x * (1 - s)) with s = sigmoid(x) */
TLI_FORMULA_2(silu_grad, g, x)
{
    const vf s = vf_sigmoid(x);
    const vf in = vf_max_c(vf_min_c(x, vf_set1(100)), vf_set1(-100));
    return vf_mul(g, vf_add(s, vf_mul(s, vf_mul(in, vf_sub(vf_set1(1), s)))));
}

/* --- sine and cosine -------------------------------------------------------------------------- */

/* x = q * pi / 2 + r for one x of at least 2^17: the low two bits of q, and r. Of the bits of 2 /
 * pi, 96 matter: those before them make whole turns, those behind them are too small. */
TLI_RARE float tli_reduce_large(float x, int *q)
{
    static const unsigned two_over_pi[] = {0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                           0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    const unsigned bits = tli_float_to_bits(x), exponent = bits >> 23 & 0xff;
    const unsigned long long m = (bits & 0x7fffff) | 0x800000;
    const unsigned at = exponent - 150 + 30, shift = at % 32; // 30: two bits of q, after 32 zeros
    const unsigned *word = two_over_pi + at / 32;
    unsigned w[3];
    for (int i = 0; i < 3; i++)
        w[i] = (unsigned)((((unsigned long long)word[i] << 32 | word[i + 1]) << shift) >> 32);
    // Of 2^64: four quarters.
    const unsigned long long turn = (m * w[0] << 32) + m * w[1] + (m * w[2] >> 32);
    const unsigned long long quarter = (turn + (1ull << 61)) >> 62;
    const long long rest = (long long)(turn - (quarter << 62));
    const float r = (float)((double)rest * 0x1.921fb54442d18p-62);
    *q = (int)(bits >> 31 ? 0 - quarter : quarter);
    return bits >> 31 ? -r : r;
}

/* The same for all lanes; infinities give NaN. */
TLI_INLINE vf tli_reduce(vf x, vi *q)
{
    const vf z = VF_FMA_LITERAL(x, vf_set1(0x1.45f306p-1f), TLI_ROUNDER);
    const vf n = vf_sub(z, vf_set1(TLI_ROUNDER));
    *q = vf_as_vi(z);
    vf r = vf_fnma(n, vf_set1(0x1.921fb4p0f), x);
    r = vf_fnma(n, vf_set1(0x1.4442dp-24f), r);
    r = vf_fnma(n, vf_set1(0x1.84698ap-48f), r);
    if (!vm_any(vf_ge(vf_abs(x), vf_set1(0x1p17f)))) return r;
    float xs[VF], rs[VF];
    int qs[VF];
    vf_store(xs, x), vf_store(rs, r), vi_store(qs, *q);
    for (int i = 0; i < VF; i++) {
        const float size = xs[i] < 0 ? -xs[i] : xs[i];
        if (size >= 0x1p17f) rs[i] = size == INFINITY ? NAN : tli_reduce_large(xs[i], &qs[i]);
    }
    *q = vi_load(qs);
    return vf_load(rs);
}

/* sin(r + q * pi / 2) for r in [-pi / 4, pi / 4], up to a little */
TLI_INLINE vf tli_sine(vf r, vi q)
{
    const vf r2 = vf_mul(r, r), r4 = vf_mul(r2, r2);
    const vf s =
        vf_fma(vf_set1(-0x1.9951dcp-13f), r4, TLI_PAIR(-0x1.555546p-3f, 0x1.110774p-7f, r2));
    vf c = vf_fma(vf_set1(0x1.99e80cp-16f), r4, TLI_PAIR(0x1.55554ap-5f, -0x1.6c0c28p-10f, r2));
    c = vf_fma(c, r4, VF_FMA_LITERAL(r2, vf_set1(-0.5f), 1));
    const vm odd = vi_gt(vi_set1(0), vi_shl(q, 31));
    const vf y = vf_select(odd, c, vf_fma(s, vf_mul(r2, r), r));
    const vi sign = vi_and(vi_shl(q, 30), vi_set1(INT32_MIN));
    return vi_as_vf(vi_xor(vf_as_vi(y), sign));
}

TLI_FORMULA_1(sin, x)
{
    vi q;
    const vf r = tli_reduce(x, &q);
    // Small ones are their own sine, and -0 among them would lose its sign.
    return vf_select(vf_lt(vf_abs(x), vf_set1(0x1p-12f)), x, tli_sine(r, q));
}

TLI_FORMULA_1(cos, x)
{
    vi q;
    const vf r = tli_reduce(x, &q);
    return tli_sine(r, vi_add(q, vi_set1(1)));
}

/* --- powers ----------------------------------------------------------------------------------- */

/* |x|^y in doubles: the logarithm has to be exact to ten bits more than the result. */
TLI_INLINE vd tli_pow_positive(vd x, vd y)
{
    const vl sqrt_half = vl_set1(0x3fe6a09e667f3bcdll), one = vl_set1(0x3ff0000000000000ll);
    const vl above = vl_sub(vd_as_vl(x), sqrt_half);
    const vl exponent = vl_and(above, vl_set1((long long)0xfff0000000000000ull));
    const vd m = vl_as_vd(vl_sub(vd_as_vl(x), exponent));
    // The exponent goes below the 52 bits of 1.5 * 2^52 + 1023 and comes out as a double.
    const vl biased = vl_shru(vl_add(exponent, one), 52);
    const vd k =
        vd_sub(vl_as_vd(vl_or(biased, vl_set1(0x4338000000000000ll))), vd_set1(0x1.8p52 + 1023));
    const vd s = vd_div(vd_sub(m, vd_set1(1)), vd_add(m, vd_set1(1)));
    const vd s2 = vd_mul(s, s), s4 = vd_mul(s2, s2);
    vd p = vd_fma(TLI_PAIR_D(0x1.47954351a25d4p-2, 0x1.21b20cb6783adp-2, s2), s4,
                  TLI_PAIR_D(0x1.2776c292c6717p-1, 0x1.a61a2f356569bp-2, s2));
    p = vd_fma(p, s4, TLI_PAIR_D(0x1.71547652b8251p1, 0x1.ec709dc53cbb8p-1, s2));
    const vd log2x = vd_fma(p, s, k);
    // Infinite exponents do not move 1.
    vd t = vd_drop(vd_eq(log2x, vd_zero()), vd_mul(log2x, y));
    t = vd_max_c(vd_min_c(t, vd_set1(200)), vd_set1(-200));
    const vd z = vd_add(t, vd_set1(0x1.8p52)), f = vd_sub(t, vd_sub(z, vd_set1(0x1.8p52)));
    const vd f2 = vd_mul(f, f);
    vd e = vd_fma(vd_set1(0x1.fde40e6eaf6afp-17), f2,
                  TLI_PAIR_D(0x1.5d8a8b2dc784bp-10, 0x1.445ddea965583p-13, f));
    e = vd_fma(e, f2, TLI_PAIR_D(0x1.c6b08ab824504p-5, 0x1.3b29f20e29b78p-7, f));
    e = vd_fma(e, f2, TLI_PAIR_D(0x1.62e42ff0e6afp-1, 0x1.ebfbe0790d716p-3, f));
    e = vd_fma(e, f, vd_set1(1));
    return vl_as_vd(vl_add(vd_as_vl(e), vl_shl(vd_as_vl(z), 52)));
}

/* x^y, with all the special cases of C's pow. */
TLI_FORMULA_2(pow, x, y)
{
    const vf one = vf_set1(1), inf = vf_set1(INFINITY), size = vf_abs(x);
    const vd low = tli_pow_positive(vf_low_to_vd(size), vf_low_to_vd(y));
    const vd high = tli_pow_positive(vf_high_to_vd(size), vf_high_to_vd(y));
    vf out = vd_to_vf(low, high);
    // Zero and infinity have no logarithm above; what comes out depends on the sign of y.
    const vm grows = vm_xor(vf_eq(size, vf_zero()), vf_gt(y, vf_zero()));
    const vm extreme = vm_or(vf_eq(size, vf_zero()), vf_eq(size, inf));
    out = vf_select(extreme, vf_keep(grows, inf), out);
    const vf half = vf_mul(y, vf_set1(0.5f));
    const vm whole = vf_eq(vf_trunc(y), y), odd = vm_andnot(whole, vf_eq(vf_trunc(half), half));
    const vi sign = vi_and(vf_as_vi(x), vi_set1(INT32_MIN));
    out = vi_as_vf(vi_xor(vf_as_vi(out), vf_as_vi(vf_keep(odd, vi_as_vf(sign)))));
    const vm negative = vm_and(vf_lt(x, vf_zero()), vf_gt(x, vf_set1(-INFINITY)));
    out = vf_select(vm_andnot(negative, whole), vf_set1(NAN), out);
    out = vf_select(vm_or(vf_is_nan(x), vf_is_nan(y)), vf_add(x, y), out);
    return vf_select(vm_or(vf_eq(x, one), vf_eq(y, vf_zero())), one, out);
}
