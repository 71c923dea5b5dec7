/* Functions of one element, which kernels are made of: included by the interpreter, and put before
 * the C that is printed. So it includes nothing, and neither branches nor calls where a loop around
 * it should become vectors.
 *
 *     y[i] = as_bf16(add_f(x[i], exp_f(b[i])));
 *
 * Values are of four kinds, which the ends of names tell: float (f: of float32, bfloat16 and
 * float16), double (d), int32 (i: of the shorter integers and bool) and int64 (l). as_bf16, as_i8
 * and so on bring a result back to what its type can hold.
 *
 * The formulas of floats are those of cpu/simd/math.h, where they are explained, and give the same
 * bits. Every operation is rounded as IEEE 754 says; a fused multiply-add is always written out.
 *
 * No include guard: included once. Thread word: free-threaded. */

#ifndef FN
#define FN static inline __attribute__((always_inline, unused))
#endif

typedef __INT8_TYPE__ i8;
typedef __INT16_TYPE__ i16;
typedef __INT32_TYPE__ i32;
typedef __INT64_TYPE__ i64;
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;

#define INF_F __builtin_inff()
#define NAN_F __builtin_nanf("")

FN u32 bits_f(float x)
{
    union {
        float f;
        u32 u;
    } v = {x};
    return v.u;
}

FN float from_bits_f(u32 x)
{
    union {
        u32 u;
        float f;
    } v = {x};
    return v.f;
}

FN u64 bits_d(double x)
{
    union {
        double f;
        u64 u;
    } v = {x};
    return v.u;
}

FN double from_bits_d(u64 x)
{
    union {
        u64 u;
        double f;
    } v = {x};
    return v.f;
}

FN float fma_f(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

FN double fma_d(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

/* c0 + c1 * x */
FN float pair_f(float c0, float c1, float x)
{
    return __builtin_fmaf(c1, x, c0);
}

FN double pair_d(double c0, double c1, double x)
{
    return __builtin_fma(c1, x, c0);
}

/* c ? a : b, as masks: of a choice between floats compilers make comparisons that mind NaNs. */
FN float pick_f(i32 c, float a, float b)
{
    const u32 m = 0 - (u32)c;
    return from_bits_f((bits_f(a) & m) | (bits_f(b) & ~m));
}

FN double pick_d(i32 c, double a, double b)
{
    const u64 m = 0 - (u64)c;
    return from_bits_d((bits_d(a) & m) | (bits_d(b) & ~m));
}

FN float at_most_f(float a, float b)
{
    return pick_f(a > b, b, a);
}

FN float at_least_f(float a, float b)
{
    return pick_f(a < b, b, a);
}

FN float abs_f(float x)
{
    return from_bits_f(bits_f(x) & 0x7fffffffu);
}

FN float sign_of_f(float size, float sign)
{
    return from_bits_f((bits_f(size) & 0x7fffffffu) | (bits_f(sign) & 0x80000000u));
}

/* --- types in memory -------------------------------------------------------------------------- */

FN float as_bf16(float x)
{
    const u32 b = bits_f(x), nan = b | 0x400000u, near = b + 0x7fffu + (b >> 16 & 1u);
    return from_bits_f(((b & 0x7fffffffu) > 0x7f800000u ? nan : near) & 0xffff0000u);
}

FN float from_bf16(u16 h)
{
    return from_bits_f((u32)h << 16);
}

/* Of what as_bf16 gave. */
FN u16 to_bf16(float x)
{
    return (u16)(bits_f(x) >> 16);
}

FN float as_f16(float x)
{
    const u32 b = bits_f(x), sign = b & 0x80000000u, m = b & 0x7fffffffu;
    // Below the normal ones, adding 0.5 rounds to what is left of the digits.
    const u32 small = bits_f(from_bits_f(m) + 0.5f - 0.5f);
    const u32 usual = (m + 0xfffu + (m >> 13 & 1u)) & 0xffffe000u;
    const u32 finite = m < 0x38800000u ? small : usual;
    const u32 any = m >= 0x477ff000u ? 0x7f800000u : finite;
    return from_bits_f(sign | (m > 0x7f800000u ? 0x7fc00000u : any));
}

FN float from_f16(u16 h)
{
    const u32 sign = (u32)(h & 0x8000u) << 16, m = (u32)(h & 0x7fffu) << 13;
    const u32 small = bits_f((float)(i32)(h & 0x3ffu) * 0x1p-24f), usual = m + 0x38000000u;
    const u32 finite = m < 0x00800000u ? small : usual;
    return from_bits_f(sign | (m >= 0x0f800000u ? m | 0x7f800000u : finite));
}

/* Of what as_f16 gave. */
FN u16 to_f16(float x)
{
    const u32 b = bits_f(x), sign = b >> 16 & 0x8000u, m = b & 0x7fffffffu;
    const u32 small = bits_f(from_bits_f(m) + 0.5f) - 0x3f000000u, usual = (m - 0x38000000u) >> 13;
    const u32 finite = m < 0x38800000u ? small : usual;
    const u32 any = m >= 0x7f800000u ? 0x7c00u : finite;
    return (u16)(sign | (m > 0x7f800000u ? 0x7e00u : any));
}

FN i32 as_i8(i32 x)
{
    return (i8)x;
}

FN i32 as_i16(i32 x)
{
    return (i16)x;
}

FN i32 as_u8(i32 x)
{
    return (u8)x;
}

/* --- arithmetic ------------------------------------------------------------------------------- */

/* name_f and so on; `u` is the unsigned type, in which integers wrap. */
#define EACH_FLOAT(X) X(f, float) X(d, double)
#define EACH_INT(X) X(i, i32, u32) X(l, i64, u64)

#define FLOATS(k, T)                                                                               \
    FN T add_##k(T a, T b) { return a + b; }                                                       \
    FN T sub_##k(T a, T b) { return a - b; }                                                       \
    FN T mul_##k(T a, T b) { return a * b; }                                                       \
    FN T div_##k(T a, T b) { return a / b; }                                                       \
    FN T minimum_##k(T a, T b) { return ((a != a) | (a < b)) ? a : b; }                            \
    FN T maximum_##k(T a, T b) { return ((a != a) | (a > b)) ? a : b; }                            \
    FN i32 equal_##k(T a, T b) { return a == b; }                                                  \
    FN i32 not_equal_##k(T a, T b) { return a != b; }                                              \
    FN i32 less_##k(T a, T b) { return a < b; }                                                    \
    FN i32 less_equal_##k(T a, T b) { return a <= b; }                                             \
    FN i32 isfinite_##k(T x) { return x - x == 0; }                                                \
    FN i32 isnan_##k(T x) { return x != x; }                                                       \
    FN T where_##k(i32 c, T a, T b) { return c ? a : b; }                                          \
    FN T neg_##k(T x) { return -x; }                                                               \
    FN T sign_##k(T x) { return pick_##k(x > 0, 1, pick_##k(x < 0, -1, x)); }                      \
    FN T square_##k(T x) { return x * x; }                                                         \
    FN T reciprocal_##k(T x) { return 1 / x; }                                                     \
    FN T clip_##k(T x, T low, T high)                                                              \
    {                                                                                              \
        const T above = pick_##k(x < low, low, x);                                                 \
        return pick_##k(above > high, high, above);                                                \
    }                                                                                              \
    FN T relu_##k(T x) { return pick_##k(x <= 0, 0, x); }                                          \
    FN T relu6_##k(T x) { return pick_##k(relu_##k(x) > 6, 6, relu_##k(x)); }                      \
    FN T leaky_relu_##k(T x, T slope) { return pick_##k(x > 0, x, x * slope); }                    \
    FN T relu_grad_##k(T g, T y) { return y > 0 ? g : 0; }
EACH_FLOAT(FLOATS)
#undef FLOATS

#define INTS(k, T, U)                                                                              \
    FN T add_##k(T a, T b) { return (T)((U)a + (U)b); }                                            \
    FN T sub_##k(T a, T b) { return (T)((U)a - (U)b); }                                            \
    FN T mul_##k(T a, T b) { return (T)((U)a * (U)b); }                                            \
    FN T minimum_##k(T a, T b) { return a < b ? a : b; }                                           \
    FN T maximum_##k(T a, T b) { return a > b ? a : b; }                                           \
    FN i32 equal_##k(T a, T b) { return a == b; }                                                  \
    FN i32 not_equal_##k(T a, T b) { return a != b; }                                              \
    FN i32 less_##k(T a, T b) { return a < b; }                                                    \
    FN i32 less_equal_##k(T a, T b) { return a <= b; }                                             \
    FN T where_##k(i32 c, T a, T b) { return c ? a : b; }                                          \
    FN T neg_##k(T x) { return (T)(0 - (U)x); }                                                    \
    FN T abs_##k(T x) { return x < 0 ? (T)(0 - (U)x) : x; }                                        \
    FN T sign_##k(T x) { return (x > 0) - (x < 0); }                                               \
    FN T square_##k(T x) { return (T)((U)x * (U)x); }                                              \
    FN T affine_##k(T x, T scale, T shift) { return (T)((U)x * (U)scale + (U)shift); }             \
    FN T clip_##k(T x, T low, T high) { return x < low ? low : x > high ? high : x; }              \
    /* By 0 gives 0, and by -1 cannot trap. */                                                     \
    FN T floor_divide_##k(T a, T b)                                                                \
    {                                                                                              \
        if (b == 0) return 0;                                                                      \
        if (b == -1) return (T)(0 - (U)a);                                                         \
        return a / b - (a % b != 0 && (a < 0) != (b < 0));                                         \
    }                                                                                              \
    FN T mod_##k(T a, T b)                                                                         \
    {                                                                                              \
        if (b == 0 || b == -1) return 0;                                                           \
        const T rest = a % b;                                                                      \
        return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;                               \
    }                                                                                              \
    FN T pow_##k(T a, T b)                                                                         \
    {                                                                                              \
        U power = 1, by = (U)a;                                                                    \
        if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;                             \
        for (; b; b >>= 1, by *= by)                                                               \
            if (b & 1) power *= by;                                                                \
        return (T)power;                                                                           \
    }
EACH_INT(INTS)
#undef INTS

FN i32 logical_and_i(i32 a, i32 b)
{
    return a & b;
}

FN i32 logical_or_i(i32 a, i32 b)
{
    return a | b;
}

FN i32 logical_xor_i(i32 a, i32 b)
{
    return a ^ b;
}

FN i32 logical_not_i(i32 x)
{
    return !x;
}

FN double abs_d(double x)
{
    return from_bits_d(bits_d(x) & ~((u64)1 << 63));
}

FN float affine_f(float x, float scale, float shift)
{
    return fma_f(x, scale, shift);
}

FN double affine_d(double x, double scale, double shift)
{
    return x * scale + shift;
}

FN float sqrt_f(float x)
{
    return __builtin_sqrtf(x);
}

FN double sqrt_d(double x)
{
    return __builtin_sqrt(x);
}

FN float rsqrt_f(float x)
{
    return 1 / __builtin_sqrtf(x);
}

FN double rsqrt_d(double x)
{
    return 1 / __builtin_sqrt(x);
}

FN float floor_f(float x)
{
    return __builtin_floorf(x);
}

FN double floor_d(double x)
{
    return __builtin_floor(x);
}

FN float ceil_f(float x)
{
    return __builtin_ceilf(x);
}

FN double ceil_d(double x)
{
    return __builtin_ceil(x);
}

FN float round_f(float x)
{
    return __builtin_rintf(x);
}

FN double round_d(double x)
{
    return __builtin_rint(x);
}

/* --- casts ------------------------------------------------------------------------------------ */

/* A float that rounds to any shorter type as the double would: where it cannot be the double, it is
 * the odd one of the two beside it. */
FN float odd_f(double x)
{
    const float f = (float)x;
    const u32 b = bits_f(f), cut = (abs_d((double)f) > abs_d(x) ? b - 1 : b) | 1u;
    const i32 exact = ((double)f == x) | (x != x) | ((b & 0x7fffffffu) == 0x7f800000u);
    return from_bits_f(exact ? b : cut);
}

/* The same for an integer: its upper and lower half are doubles, and so is what their sum loses. */
FN double odd_d(i64 x)
{
    const double high = (double)(i32)(x >> 32) * 0x1p32, low = (double)(u32)x;
    const double sum = high + low, lost = low - (sum - high);
    const u64 b = bits_d(sum);
    const u64 cut = ((lost < 0) == (sum > 0) ? b - 1 : b) | 1u;
    return from_bits_d(lost == 0 ? b : cut);
}

FN float f32_of_f(float x) { return x; }
FN float f32_of_d(double x) { return (float)x; }
FN float f32_of_i(i32 x) { return (float)x; }
FN float f32_of_l(i64 x) { return (float)x; }
FN double f64_of_f(float x) { return (double)x; }
FN double f64_of_d(double x) { return x; }
FN double f64_of_i(i32 x) { return (double)x; }
FN double f64_of_l(i64 x) { return (double)x; }
FN float bf16_of_f(float x) { return as_bf16(x); }
FN float bf16_of_d(double x) { return as_bf16(odd_f(x)); }
FN float bf16_of_i(i32 x) { return as_bf16(odd_f((double)x)); }
FN float bf16_of_l(i64 x) { return as_bf16(odd_f(odd_d(x))); }
FN float f16_of_f(float x) { return as_f16(x); }
FN float f16_of_d(double x) { return as_f16(odd_f(x)); }
FN float f16_of_i(i32 x) { return as_f16(odd_f((double)x)); }
FN float f16_of_l(i64 x) { return as_f16(odd_f(odd_d(x))); }

/* Beyond their ends integers stay at them; NaN is 0. */
FN i32 i32_between_d(double x, double low, double high)
{
    const double from = x < low ? low : x, in = from > high ? high : from;
    return (i32)(x != x ? 0 : in);
}

FN i32 i8_of_d(double x) { return i32_between_d(x, -128, 127); }
FN i32 i8_of_f(float x) { return i8_of_d((double)x); }
FN i32 i8_of_i(i32 x) { return (i8)x; }
FN i32 i8_of_l(i64 x) { return (i8)x; }
FN i32 u8_of_d(double x) { return i32_between_d(x, 0, 255); }
FN i32 u8_of_f(float x) { return u8_of_d((double)x); }
FN i32 u8_of_i(i32 x) { return (u8)x; }
FN i32 u8_of_l(i64 x) { return (u8)x; }
FN i32 i16_of_d(double x) { return i32_between_d(x, -32768, 32767); }
FN i32 i16_of_f(float x) { return i16_of_d((double)x); }
FN i32 i16_of_i(i32 x) { return (i16)x; }
FN i32 i16_of_l(i64 x) { return (i16)x; }
FN i32 i32_of_d(double x) { return i32_between_d(x, -0x1p31, 0x1p31 - 1); }
FN i32 i32_of_f(float x) { return i32_of_d((double)x); }
FN i32 i32_of_i(i32 x) { return x; }
FN i32 i32_of_l(i64 x) { return (i32)x; }

FN i64 i64_of_d(double x)
{
    const double in = ((x >= -0x1p63) & (x < 0x1p63)) ? x : 0;
    const i64 cut = (i64)in, below = x < -0x1p63 ? (i64)((u64)1 << 63) : cut;
    return x >= 0x1p63 ? (i64)~((u64)1 << 63) : below;
}

FN i64 i64_of_f(float x) { return i64_of_d((double)x); }
FN i64 i64_of_i(i32 x) { return x; }
FN i64 i64_of_l(i64 x) { return x; }
FN i32 truth_of_f(float x) { return x != 0; }
FN i32 truth_of_d(double x) { return x != 0; }
FN i32 truth_of_i(i32 x) { return x != 0; }
FN i32 truth_of_l(i64 x) { return x != 0; }

/* --- exponentials ----------------------------------------------------------------------------- */

#define ROUNDER 0x1.8p23f
#define ROUNDER_127 (0x1.8p23f + 127)

FN float exp_f(float x)
{
    const float in = at_least_f(at_most_f(x, 89), -104);
    const float z = fma_f(in, 0x1.715476p-1f, ROUNDER_127), n = z - ROUNDER_127;
    const float s = from_bits_f(bits_f(z) << 23);
    const float r = fma_f(n, 0x1.05c61p-28f, fma_f(-n, 0x1.62e43p0f, in)), r2 = r * r;
    float p = fma_f(pair_f(0x1.71c4e6p-10f, 0x1.9baebap-13f, r), r2,
                    pair_f(0x1.5549dcp-5f, 0x1.112728p-7f, r));
    p = fma_f(p, r2, pair_f(0x1.00000cp-1f, 0x1.555512p-3f, r));
    p = fma_f(p, r2, r) + 1;
    return p * s * s;
}

/* e^x = 2^n (1 + p): p, and the power of two that z holds (power_f). */
FN float exp_parts_f(float x, float z, float rounder)
{
    const float n = z - rounder;
    const float r = fma_f(n, 0x1.05c61p-29f, fma_f(-n, 0x1.62e43p-1f, x)), r2 = r * r;
    float p = fma_f(0x1.6b7376p-10f, r2, pair_f(0x1.555716p-5f, 0x1.12279ep-7f, r));
    p = fma_f(p, r2, pair_f(0x1.fffffep-2f, 0x1.5554bp-3f, r));
    return fma_f(p, r2, r);
}

FN float power_f(float z)
{
    return from_bits_f(bits_f(z) << 23);
}

/* 2^64 e^x for x up to 0. */
FN float exp_scaled_f(float x)
{
    const float in = at_least_f(x, -104), z = fma_f(in, 0x1.715476p0f, ROUNDER_127 + 64);
    const float power = power_f(z);
    return fma_f(exp_parts_f(in, z, ROUNDER_127 + 64), power, power);
}

FN float exp_low_f(float x)
{
    return exp_scaled_f(x) * 0x1p-64f;
}

FN float expm1_f(float x)
{
    const float in = at_least_f(at_most_f(x, 89), -18);
    const float z = fma_f(in, 0x1.715476p0f, ROUNDER_127 - 1), n = z - (ROUNDER_127 - 1);
    const float half = power_f(z);
    const float r = fma_f(n, 0x1.05c61p-29f, fma_f(-n, 0x1.62e43p-1f, in)), r2 = r * r;
    float p = fma_f(pair_f(0x1.6d4372p-10f, 0x1.9e0c28p-13f, r), r2,
                    pair_f(0x1.5554fp-5f, 0x1.111306p-7f, r));
    p = fma_f(p, r2, pair_f(0.5f, 0x1.555554p-3f, r));
    p = fma_f(p, r2, r);
    const float y = fma_f(p, half, half - 0.5f);
    return sign_of_f(y + y, x);
}

/* --- logarithms ------------------------------------------------------------------------------- */

FN float log1p_small_f(float r)
{
    const float r2 = r * r;
    float p = fma_f(-0x1.06fc5ep-3f, r2, pair_f(-0x1.f392f6p-4f, 0x1.1ef6b4p-3f, r));
    p = fma_f(p, r2, pair_f(-0x1.5598bep-3f, 0x1.1eb624p-3f, r));
    p = fma_f(p, r2, pair_f(-0x1.ffff1p-3f, 0x1.99d284p-3f, r));
    p = fma_f(p, r2, pair_f(-0.5f, 0x1.5555p-2f, r));
    return fma_f(p, r2, r);
}

FN u32 exponent_f(float t)
{
    return (bits_f(t) - 0x3f2aaaabu) & 0xff800000u;
}

FN float log_f(float x)
{
    const i32 tiny = x < 0x1p-126f;
    const float scaled = tiny ? x * 0x1p24f : x;
    const u32 e = exponent_f(scaled), shift = tiny ? (u32)-(24 << 23) : 0;
    const float r = from_bits_f(bits_f(scaled) - e) - 1, k = (float)(i32)(e + shift);
    const float y = fma_f(k, 0x1.62e43p-24f, fma_f(k, -0x1.05c61p-52f, log1p_small_f(r)));
    const float positive = x == 0 ? -INF_F : y, number = x < 0 ? NAN_F : positive;
    return ((x != x) | (x == INF_F)) ? x : number;
}

FN float log1p_f(float x)
{
    const i32 usual = (x > -1) & (x < 0x1p126f);
    const float in = usual ? x : 0;
    const u32 minus = 0 - exponent_f(in + 1);
    const float s = from_bits_f(minus + 0x3f800000u), r = fma_f(in, s, -(1 - s));
    const float k = (float)(i32)minus;
    const float near = fma_f(-k, 0x1.62e42ep-24f, fma_f(-k, 0x1.efa39ep-48f, log1p_small_f(r)));
    const float far = x >= 0x1p126f ? log_f(x) : near;
    const float positive = x == -1 ? -INF_F : far, number = x < -1 ? NAN_F : positive;
    return x != x ? x : number;
}

/* --- sigmoid, tanh, erf ----------------------------------------------------------------------- */

FN float sigmoid_f(float x)
{
    const float e = exp_scaled_f(-abs_f(x)), scale = 0x1p-64f;
    const float below = fma_f(e, scale, 1), lost = fma_f(-e, scale, below - 1);
    const float y = (x < 0 ? e : 0x1p64f) / below;
    return fma_f(y, lost, y) * scale;
}

FN float tanh_f(float x)
{
    const float t = at_most_f(abs_f(x), 9.1f), x2 = x * x;
    float u = fma_f(pair_f(-0x1.af877ap-5f, 0x1.0d7a02p-6f, x2), x2 * x2,
                    pair_f(-0x1.555454p-2f, 0x1.10cf5ep-3f, x2));
    const float small = fma_f(u, x2 * t, t);
    const float z = fma_f(t, 0x1.715476p1f, ROUNDER_127), n = z - ROUNDER_127, s = power_f(z);
    const float r = fma_f(-n, 0x1.62e43p-2f, t), r2 = r * r;
    u = fma_f(0x1.0fa744p-2f, r2, pair_f(0x1.555a78p0f, 0x1.573d58p-1f, r));
    u = fma_f(u, r2, pair_f(0x1.fffff6p0f, 0x1.fffdbep0f, r));
    const float large = 1 - 2 / fma_f(u * r, s, s + 1);
    return sign_of_f(t < 0.5493f ? small : large, x);
}

FN float erf_f(float x)
{
    const float t = at_most_f(abs_f(x), 4.3f), t2 = t * t, t4 = t2 * t2;
    float p = fma_f(pair_f(0x1.4b57d8p-8f, -0x1.4c57ap-11f, t2), t4,
                    pair_f(0x1.ce2512p-4f, -0x1.b730dep-6f, t2));
    p = fma_f(p, t4, pair_f(0x1.06eba8p-3f, -0x1.812724p-2f, t2));
    float q = fma_f(0x1.a8bb08p-13f, t2, pair_f(0x1.704ba6p-6f, -0x1.9743ap-9f, t));
    q = fma_f(q, t2, pair_f(-0x1.45f0a8p-1f, -0x1.abd1b2p-4f, t));
    q = fma_f(q, t2, pair_f(-0x1.e11a1p-14f, -0x1.20c59ep0f, t));
    const float z = fma_f(q, 0x1.715476p0f, ROUNDER_127), n = z - ROUNDER_127, s = power_f(z);
    const float r = fma_f(-n, 0x1.62e43p-1f, q), r2 = r * r;
    float u = fma_f(0x1.0fa36ep-7f, r2, pair_f(0x1.555a7ep-3f, 0x1.573caap-5f, r));
    u = fma_f(u, r2, pair_f(0x1.fffff6p-1f, 0x1.fffdcp-2f, r));
    const float small = fma_f(p, t, t), large = 1 - fma_f(u * r, s, s);
    return sign_of_f(t < 0.85f ? small : large, x);
}

/* --- activations ------------------------------------------------------------------------------ */

FN float hard_sigmoid_f(float x)
{
    return at_most_f(relu_f(x + 3), 6) * (1 / 6.0f);
}

FN double hard_sigmoid_d(double x)
{
    return relu6_d(x + 3) / 6;
}

FN float hard_swish_f(float x)
{
    return at_least_f(x, -3) * hard_sigmoid_f(x);
}

FN double hard_swish_d(double x)
{
    const double y = x * hard_sigmoid_d(x);
    return x < -3 ? 0 : y;
}

FN float normal_below_f(float x)
{
    const float t = at_least_f(at_most_f(x, 5.94f), -5.94f), s = t * t, s2 = s * s;
    float p = fma_f(pair_f(0x1.ab226ep-18f, 0x1.76d8a4p-26f, s), s2,
                    pair_f(0x1.35b724p-8f, 0x1.730ee4p-13f, s));
    float q = fma_f(pair_f(0x1.3edb02p-14f, 0x1.3a68fep-20f, s), s2,
                    pair_f(0x1.dd15a8p-6f, 0x1.fa13fp-10f, s));
    p = fma_f(p, s2, pair_f(0x1.98844ep-2f, 0x1.1c324ep-5f, s)) * t;
    q = fma_f(q, s2, pair_f(1, 0x1.03b662p-2f, s));
    return at_least_f(at_most_f(p / q + 0.5f, 1), 0);
}

FN float gelu_f(float x)
{
    return at_least_f(x, -20) * normal_below_f(x);
}

FN float gelu_tanh_f(float x)
{
    const float in = at_least_f(at_most_f(x, 20), -20);
    const float slope = pair_f(-0x1.988454p0f, -0x1.2444f2p-4f, in * in);
    return at_least_f(x, -20) / (exp_f(in * slope) + 1);
}

FN float silu_f(float x)
{
    const float e = exp_low_f(-abs_f(x)), left = at_least_f(x, -120) * e;
    return (x < 0 ? left : x) / (e + 1);
}

FN float softplus_f(float x)
{
    const float e = exp_low_f(-abs_f(x));
    const i32 upper = e > 0x1.555554p-2f;
    const float half = fma_f(e, 0.5f, -0.5f), r = pick_f(upper, half, e);
    const float y = log1p_small_f(r) + pick_f(upper, 0x1.62e43p-1f, 0);
    return y + relu_f(x);
}

FN float mish_f(float x)
{
    const float e = exp_low_f(at_most_f(x, 20)), w = e * (e + 2);
    return at_least_f(x, -120) * (w / (w + 2));
}

FN float elu_f(float x, float alpha)
{
    const float left = expm1_f(x) * alpha;
    return x > 0 ? x : left;
}

/* Gradients: g is that of the result. */
FN float tanh_grad_f(float g, float y)
{
    return g * fma_f(-y, y, 1);
}

FN double tanh_grad_d(double g, double y)
{
    return g * ((1 - y) * (1 + y));
}

FN float sigmoid_grad_f(float g, float y)
{
    return g * (y * (1 - y));
}

FN double sigmoid_grad_d(double g, double y)
{
    return g * (y * (1 - y));
}

FN float gelu_grad_f(float g, float x)
{
    const float below = normal_below_f(x);
    const float density = exp_f(x * x * -0.5f) * 0.39894228040143268f, rise = x * density;
    return g * (below + (abs_f(x) < 20 ? rise : 0));
}

FN float gelu_tanh_grad_f(float g, float x)
{
    const float in = at_least_f(at_most_f(x, 10), -10), x2 = in * in;
    const float e = exp_f(in * pair_f(-0x1.988454p0f, -0x1.2444f2p-4f, x2)), s = 1 / (e + 1);
    const float curve = in * pair_f(0x1.988454p0f, 3 * 0x1.2444f2p-4f, x2) * (e * s);
    return g * fma_f(curve, s, s);
}

FN float silu_grad_f(float g, float x)
{
    const float s = sigmoid_f(x), in = at_least_f(at_most_f(x, 100), -100);
    return g * (s + s * (in * (1 - s)));
}

/* --- sine and cosine -------------------------------------------------------------------------- */

/* Called for arguments of at least 2^17: loops that meet them leave their vectors. */
static __attribute__((noinline, unused)) float far_turn_f(float x, i32 *q)
{
    static const u32 two_over_pi[] = {0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                      0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    const u32 b = bits_f(x), at = (b >> 23 & 0xff) - 150 + 30, shift = at % 32;
    const u64 m = (b & 0x7fffff) | 0x800000;
    const u32 *word = two_over_pi + at / 32;
    u32 w[3];
    if ((b & 0x7fffffffu) >= 0x7f800000u) return NAN_F;
    for (int i = 0; i < 3; i++)
        w[i] = (u32)((((u64)word[i] << 32 | word[i + 1]) << shift) >> 32);
    const u64 turn = (m * w[0] << 32) + m * w[1] + (m * w[2] >> 32);
    const u64 quarter = (turn + ((u64)1 << 61)) >> 62;
    const float r = (float)((double)(i64)(turn - (quarter << 62)) * 0x1.921fb54442d18p-62);
    *q = (i32)(b >> 31 ? 0 - quarter : quarter);
    return b >> 31 ? -r : r;
}

FN float turn_f(float x, i32 *q)
{
    const float z = fma_f(x, 0x1.45f306p-1f, ROUNDER), n = z - ROUNDER;
    *q = (i32)bits_f(z);
    if (abs_f(x) >= 0x1p17f) return far_turn_f(x, q);
    return fma_f(-n, 0x1.84698ap-48f, fma_f(-n, 0x1.4442dp-24f, fma_f(-n, 0x1.921fb4p0f, x)));
}

FN float sine_f(float r, i32 q)
{
    const float r2 = r * r, r4 = r2 * r2;
    const float s = fma_f(-0x1.9951dcp-13f, r4, pair_f(-0x1.555546p-3f, 0x1.110774p-7f, r2));
    float c = fma_f(0x1.99e80cp-16f, r4, pair_f(0x1.55554ap-5f, -0x1.6c0c28p-10f, r2));
    c = fma_f(c, r4, fma_f(r2, -0.5f, 1));
    const float even = fma_f(s, r2 * r, r), y = q & 1 ? c : even;
    return from_bits_f(bits_f(y) ^ ((u32)q << 30 & 0x80000000u));
}

FN float sin_f(float x)
{
    i32 q;
    const float r = turn_f(x, &q);
    return abs_f(x) < 0x1p-12f ? x : sine_f(r, q);
}

FN float cos_f(float x)
{
    i32 q;
    const float r = turn_f(x, &q);
    return sine_f(r, (i32)((u32)q + 1));
}

/* --- powers ----------------------------------------------------------------------------------- */

FN double pow_positive_d(double x, double y)
{
    const u64 sqrt_half = 0x3fe6a09e667f3bcdu, one = 0x3ff0000000000000u;
    const u64 exponent = (bits_d(x) - sqrt_half) & 0xfff0000000000000u;
    const double m = from_bits_d(bits_d(x) - exponent);
    const double k =
        from_bits_d((exponent + one) >> 52 | 0x4338000000000000u) - (0x1.8p52 + 1023);
    const double s = (m - 1) / (m + 1), s2 = s * s, s4 = s2 * s2;
    double p = fma_d(pair_d(0x1.47954351a25d4p-2, 0x1.21b20cb6783adp-2, s2), s4,
                     pair_d(0x1.2776c292c6717p-1, 0x1.a61a2f356569bp-2, s2));
    p = fma_d(p, s4, pair_d(0x1.71547652b8251p1, 0x1.ec709dc53cbb8p-1, s2));
    const double log2x = fma_d(p, s, k), product = log2x * y;
    double t = log2x == 0 ? 0 : product;
    t = t > 200 ? 200 : t;
    t = t < -200 ? -200 : t;
    const double z = t + 0x1.8p52, f = t - (z - 0x1.8p52), f2 = f * f;
    double e = fma_d(0x1.fde40e6eaf6afp-17, f2,
                     pair_d(0x1.5d8a8b2dc784bp-10, 0x1.445ddea965583p-13, f));
    e = fma_d(e, f2, pair_d(0x1.c6b08ab824504p-5, 0x1.3b29f20e29b78p-7, f));
    e = fma_d(e, f2, pair_d(0x1.62e42ff0e6afp-1, 0x1.ebfbe0790d716p-3, f));
    e = fma_d(e, f, 1);
    return from_bits_d(bits_d(e) + (bits_d(z) << 52));
}

FN float pow_f(float x, float y)
{
    const float size = abs_f(x), half = y * 0.5f;
    const float usual = (float)pow_positive_d((double)size, (double)y);
    const i32 grows = (size == 0) ^ (y > 0), extreme = (size == 0) | (size == INF_F);
    const float end = grows ? INF_F : 0, positive = extreme ? end : usual;
    const i32 whole = __builtin_truncf(y) == y, odd = whole & (__builtin_truncf(half) != half);
    const float out = from_bits_f(bits_f(positive) ^ (odd ? bits_f(x) & 0x80000000u : 0));
    const i32 negative = (x < 0) & (x > -INF_F);
    const float real = (negative & !whole) ? NAN_F : out;
    const float number = ((x != x) | (y != y)) ? x + y : real;
    return ((x == 1) | (y == 0)) ? 1 : number;
}

/* --- rows and tiles --------------------------------------------------------------------------- */

/* Element i of a row goes to lane i % LANES; every BLOCK elements the lanes are brought together,
 * halves upon each other, and what comes out joins the row's value. */
enum { LANES = 16, BLOCK = 4096 };

#if defined(__AVX512F__)
#define WIDTH 64
#define EACH_4(X) X(0)
#define EACH_8(X) X(0) X(1)
#elif defined(__AVX2__)
#define WIDTH 32
#define EACH_4(X) X(0) X(1)
#define EACH_8(X) X(0) X(1) X(2) X(3)
#else
#define WIDTH 16
#define EACH_4(X) X(0) X(1) X(2) X(3)
#define EACH_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#endif

typedef float vec_f __attribute__((vector_size(WIDTH), aligned(4)));
typedef double vec_d __attribute__((vector_size(WIDTH), aligned(8)));
typedef i32 vec_i __attribute__((vector_size(WIDTH), aligned(4)));
typedef i64 vec_l __attribute__((vector_size(WIDTH), aligned(8)));
typedef u32 uvec_i __attribute__((vector_size(WIDTH), aligned(4)));
typedef u64 uvec_l __attribute__((vector_size(WIDTH), aligned(8)));

/* `in`: the integers as wide; m: all bits where a is to stay */
#define STAYS(V, in, m) (V)(((in)(m) & (in)a) | (~(in)(m) & (in)x))

/* name_f(lanes, x, n) and so on: the elements join their lanes. n is a multiple of LANES, except at
 * the end of a row. */
#define LANES_LOAD(j) V a##j = *(const V *)(lanes + j * (int)(sizeof(V) / sizeof(lanes[0])));
#define LANES_STEP(j)                                                                              \
    {                                                                                              \
        const V x = *(const V *)(from + i + j * (int)(sizeof(V) / sizeof(lanes[0]))), a = a##j;    \
        a##j = JOIN;                                                                               \
    }
#define LANES_STORE(j) *(V *)(lanes + j * (int)(sizeof(V) / sizeof(lanes[0]))) = a##j;
#define LANES_BODY(each, one)                                                                      \
    i64 i = 0;                                                                                     \
    each(LANES_LOAD) for (; i + LANES <= n; i += LANES) { each(LANES_STEP) }                       \
    each(LANES_STORE) for (int l = 0; l < LANES && i < n; i++, l++)                                \
        lanes[l] = one(lanes[l], from[i]);

#define ROWS(name, one, k, T, each)                                                                \
    static __attribute__((unused)) void name##_lanes_##k(T *lanes, const T *from, i64 n)           \
    {                                                                                              \
        typedef vec_##k V;                                                                         \
        LANES_BODY(each, one##_##k)                                                                \
    }                                                                                              \
    /* What the lanes come to; they start again. */                                                \
    static __attribute__((unused)) T name##_all_##k(T *lanes, T start)                             \
    {                                                                                              \
        for (int h = LANES / 2; h > 0; h /= 2)                                                     \
            for (int l = 0; l < h; l++) lanes[l] = one##_##k(lanes[l], lanes[l + h]);              \
        const T all = lanes[0];                                                                    \
        for (int l = 0; l < LANES; l++) lanes[l] = start;                                          \
        return all;                                                                                \
    }

#define JOIN (a + x)
ROWS(sum, add, f, float, EACH_4)
ROWS(sum, add, d, double, EACH_8)
#undef JOIN
#define JOIN (V)((uvec_i)a + (uvec_i)x)
ROWS(sum, add, i, i32, EACH_4)
#undef JOIN
#define JOIN (V)((uvec_l)a + (uvec_l)x)
ROWS(sum, add, l, i64, EACH_8)
#undef JOIN
#define JOIN (a * x)
ROWS(prod, mul, f, float, EACH_4)
ROWS(prod, mul, d, double, EACH_8)
#undef JOIN
#define JOIN (V)((uvec_i)a * (uvec_i)x)
ROWS(prod, mul, i, i32, EACH_4)
#undef JOIN
#define JOIN (V)((uvec_l)a * (uvec_l)x)
ROWS(prod, mul, l, i64, EACH_8)
#undef JOIN
#define JOIN STAYS(V, vec_i, (a > x) | (a != a))
ROWS(max, maximum, f, float, EACH_4)
#undef JOIN
#define JOIN STAYS(V, vec_l, (a > x) | (a != a))
ROWS(max, maximum, d, double, EACH_8)
#undef JOIN
#define JOIN STAYS(V, vec_i, a > x)
ROWS(max, maximum, i, i32, EACH_4)
#undef JOIN
#define JOIN STAYS(V, vec_l, a > x)
ROWS(max, maximum, l, i64, EACH_8)
#undef JOIN
#define JOIN STAYS(V, vec_i, (a < x) | (a != a))
ROWS(min, minimum, f, float, EACH_4)
#undef JOIN
#define JOIN STAYS(V, vec_l, (a < x) | (a != a))
ROWS(min, minimum, d, double, EACH_8)
#undef JOIN
#define JOIN STAYS(V, vec_i, a < x)
ROWS(min, minimum, i, i32, EACH_4)
#undef JOIN
#define JOIN STAYS(V, vec_l, a < x)
ROWS(min, minimum, l, i64, EACH_8)
#undef JOIN
#define JOIN (a | x)
ROWS(any, logical_or, i, i32, EACH_4)
#undef JOIN
#define JOIN (a & x)
ROWS(all, logical_and, i, i32, EACH_4)
#undef JOIN
