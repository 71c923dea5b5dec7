/* What loop nests need beside the formulas of ops: types in memory, casts, rows that are summed up.
 * Included by the interpreter, and put before the C that is printed, each time behind the formulas:
 * number.h, lane.h, formula.h (src/cpu/simd). So it includes nothing, and neither branches nor
 * calls where a loop around it should become vectors.
 *
 *     y[i] = as_bf16(add_f(x[i], exp_f(b[i])));
 *
 * Values are of four kinds, which the ends of names tell: float (f: of float32, bfloat16 and
 * float16), double (d), int32 (i: of the shorter integers and bool) and int64 (l). as_bf16, as_i8
 * and so on bring a result back to what its type can hold.
 *
 * Every operation is rounded as IEEE 754 says; a fused multiply-add is always written out.
 *
 * No include guard: included once. Thread word: free-threaded. */

#define INF_F __builtin_inff()
#define NAN_F __builtin_nanf("")

/* --- types in memory -------------------------------------------------------------------------- */

FN float from_bf16(u16 h)
{
    return from_bits_f((u32)h << 16);
}

#ifdef __CUDACC__ /* one instruction; NaN has bits of its own there */
FN u16 bf16_bits_of_f(float x)
{
    u16 h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

FN float as_bf16(float x)
{
    return from_bf16(bf16_bits_of_f(x));
}
#else
FN float as_bf16(float x)
{
    const u32 b = bits_f(x), near = b + 0x7fffu + (b << 15 >> 31), nan = b | 0x400000u;
    return from_bits_f(bits_f(pick_f(x == x, from_bits_f(near), from_bits_f(nan))) & 0xffff0000u);
}

FN u16 bf16_bits_of_f(float x)
{
    return (u16)(bits_f(as_bf16(x)) >> 16);
}
#endif

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

// clang-format off
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
FN u16 f16_bits_of_f(float x) { return to_f16(as_f16(x)); }
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
// clang-format on

/* --- rows and tiles --------------------------------------------------------------------------- */

#ifndef __CUDACC__ /* there a row is a group of threads: kernel.h */

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
// clang-format off
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
// clang-format on

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
#endif
