/* Formulas of elementwise ops in double (add_d), int32 (add_i: of the shorter integers and bool)
 * and int64 (add_l). Those in float are in formula.h.
 *
 * Plain kernels are made of them (numbers.c), the interpreter of loop nests, and the C that is
 * printed for nests, which begins with this text. So it includes nothing, and neither branches nor
 * calls where a loop around it should become vectors.
 *
 * No include guard: included once. Thread word: free-threaded. */

// clang-format off
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

/* c ? a : b, as masks: of a choice between floats compilers make comparisons that mind NaNs. */
#ifdef __CUDACC__
FN float pick_f(i32 c, float a, float b) { return c ? a : b; }
#else
FN float pick_f(i32 c, float a, float b)
{
    const u32 m = 0 - (u32)c;
    return from_bits_f((bits_f(a) & m) | (bits_f(b) & ~m));
}
#endif

FN double pick_d(i32 c, double a, double b)
{
    const u64 m = 0 - (u64)c;
    return from_bits_d((bits_d(a) & m) | (bits_d(b) & ~m));
}

/* --- double ----------------------------------------------------------------------------------- */

FN double add_d(double a, double b) { return a + b; }
FN double sub_d(double a, double b) { return a - b; }
FN double mul_d(double a, double b) { return a * b; }
FN double div_d(double a, double b) { return a / b; }
FN double minimum_d(double a, double b) { return ((a != a) | (a < b)) ? a : b; }
FN double maximum_d(double a, double b) { return ((a != a) | (a > b)) ? a : b; }
FN i32 equal_d(double a, double b) { return a == b; }
FN i32 not_equal_d(double a, double b) { return a != b; }
FN i32 less_d(double a, double b) { return a < b; }
FN i32 less_equal_d(double a, double b) { return a <= b; }
FN i32 isfinite_d(double x) { return x - x == 0; }
FN i32 isnan_d(double x) { return x != x; }
FN double where_d(i32 c, double a, double b) { return c ? a : b; }
FN double affine_d(double x, double scale, double shift) { return x * scale + shift; }
FN double neg_d(double x) { return -x; }
FN double abs_d(double x) { return from_bits_d(bits_d(x) & ~((u64)1 << 63)); }
FN double sign_d(double x) { return pick_d(x > 0, 1, pick_d(x < 0, -1, x)); }
FN double stop_gradient_d(double x) { return x; }
FN double square_d(double x) { return x * x; }
FN double sqrt_d(double x) { return __builtin_sqrt(x); }
FN double rsqrt_d(double x) { return 1 / __builtin_sqrt(x); }
FN double reciprocal_d(double x) { return 1 / x; }
FN double floor_d(double x) { return __builtin_floor(x); }
FN double ceil_d(double x) { return __builtin_ceil(x); }
FN double round_d(double x) { return __builtin_rint(x); }
FN double relu_d(double x) { return pick_d(x <= 0, 0, x); }
FN double relu6_d(double x) { return pick_d(relu_d(x) > 6, 6, relu_d(x)); }
FN double leaky_relu_d(double x, double slope) { return pick_d(x > 0, x, x * slope); }
FN double hard_sigmoid_d(double x) { return relu6_d(x + 3) / 6; }
FN double tanh_grad_d(double g, double y) { return g * ((1 - y) * (1 + y)); }
FN double sigmoid_grad_d(double g, double y) { return g * (y * (1 - y)); }
FN double relu_grad_d(double g, double y) { return y > 0 ? g : 0; }

FN double clip_d(double x, double low, double high)
{
    const double above = pick_d(x < low, low, x);
    return pick_d(above > high, high, above);
}

FN double hard_swish_d(double x)
{
    const double y = x * hard_sigmoid_d(x);
    return x < -3 ? 0 : y;
}

/* --- integers --------------------------------------------------------------------------------- */

/* Of the type T, which wrap in the unsigned type U. */
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
    FN T neg_##k(T x) { return (T)-(U)x; }                                                         \
    FN T abs_##k(T x) { return (T)(x > 0 ? (U)x : -(U)x); }                                        \
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
INTS(i, i32, u32)
INTS(l, i64, u64)

FN i32 logical_and_i(i32 a, i32 b) { return a & b; }
FN i32 logical_or_i(i32 a, i32 b) { return a | b; }
FN i32 logical_xor_i(i32 a, i32 b) { return a ^ b; }
FN i32 logical_not_i(i32 x) { return !x; }
// clang-format on
