/* One lane as if it were a vector: formula.h then gives functions of one float, under the names
 * that loop nests call them by (exp_f). Compilers make vectors of loops around them, so nothing
 * here branches.
 *
 * Follows number.h; no include guard: included once. Thread word: free-threaded. */

// clang-format off
typedef float vf;
typedef i32 vi;
typedef i32 vm; /* 0 or 1 */
typedef double vd;
typedef i64 vl;
enum { VF = 1 };

#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif
#ifndef INT32_MIN
#define INT32_MIN (-2147483647 - 1)
#endif

#define TLI_INLINE FN
/* Called, as it is rare. */
#define TLI_RARE static __attribute__((noinline, unused))

/* Each formula under both names. */
#define TLI_FORMULA_1(name, x)                                                                     \
    FN float vf_##name(float);                                                                     \
    FN float name##_f(float x) { return vf_##name(x); }                                            \
    FN float vf_##name(float x)
#define TLI_FORMULA_2(name, x, y)                                                                  \
    FN float vf_##name(float, float);                                                              \
    FN float name##_f(float x, float y) { return vf_##name(x, y); }                                \
    FN float vf_##name(float x, float y)
#define TLI_FORMULA_3(name, x, y, z)                                                               \
    FN float vf_##name(float, float, float);                                                       \
    FN float name##_f(float x, float y, float z) { return vf_##name(x, y, z); }                    \
    FN float vf_##name(float x, float y, float z)
#define TLI_TEST_1(name, x)                                                                        \
    FN i32 vf_##name(float);                                                                       \
    FN i32 name##_f(float x) { return vf_##name(x); }                                              \
    FN i32 vf_##name(float x)
#define TLI_TEST_2(name, x, y)                                                                     \
    FN i32 vf_##name(float, float);                                                                \
    FN i32 name##_f(float x, float y) { return vf_##name(x, y); }                                  \
    FN i32 vf_##name(float x, float y)

/* Ops that the vector layer has itself. */
TLI_FORMULA_2(add, a, b) { return a + b; }
TLI_FORMULA_2(sub, a, b) { return a - b; }
TLI_FORMULA_2(mul, a, b) { return a * b; }
TLI_FORMULA_2(div, a, b) { return a / b; }
TLI_FORMULA_1(neg, x) { return -x; }
TLI_FORMULA_1(abs, x) { return from_bits_f(bits_f(x) & 0x7fffffffu); }
TLI_FORMULA_1(sqrt, x) { return __builtin_sqrtf(x); }
TLI_FORMULA_1(floor, x) { return __builtin_floorf(x); }
TLI_FORMULA_1(ceil, x) { return __builtin_ceilf(x); }
TLI_FORMULA_1(round, x) { return __builtin_rintf(x); }
FN float where_f(i32 c, float a, float b) { return c ? a : b; }

FN vf vf_set1(float x) { return x; }
FN vf vf_zero(void) { return 0; }
FN vf vf_trunc(vf x) { return __builtin_truncf(x); }
FN vf vf_fma(vf a, vf b, vf c) { return __builtin_fmaf(a, b, c); }
FN vf vf_fnma(vf a, vf b, vf c) { return __builtin_fmaf(-a, b, c); }
FN vf VF_FMA_LITERAL(vf a, vf b, float literal) { return __builtin_fmaf(a, b, literal); }
FN vf vf_copysign(vf a, vf b)
{
    return from_bits_f((bits_f(a) & 0x7fffffffu) | (bits_f(b) & 0x80000000u));
}
FN vm vf_lt(vf a, vf b) { return a < b; }
FN vm vf_le(vf a, vf b) { return a <= b; }
FN vm vf_gt(vf a, vf b) { return a > b; }
FN vm vf_ge(vf a, vf b) { return a >= b; }
FN vm vf_eq(vf a, vf b) { return a == b; }
FN vm vf_ne(vf a, vf b) { return a != b; }
FN vm vf_is_nan(vf x) { return x != x; }
FN vf vf_select(vm m, vf a, vf b) { return pick_f(m, a, b); }
FN vf vf_keep(vm m, vf a) { return m ? a : 0; }
FN vf vf_drop(vm m, vf a) { return pick_f(m, 0, a); }
FN vf vf_min(vf a, vf b) { return ((a != a) | (a < b)) ? a : b; }
FN vf vf_max(vf a, vf b) { return ((a != a) | (a > b)) ? a : b; }
FN vf vf_min_c(vf a, vf c) { return pick_f(a > c, c, a); }
FN vf vf_max_c(vf a, vf c) { return pick_f(a < c, c, a); }
FN vf vf_load(const float *p) { return *p; }
FN void vf_store(float *p, vf x) { *p = x; }

FN vm vm_and(vm a, vm b) { return a & b; }
FN vm vm_or(vm a, vm b) { return a | b; }
FN vm vm_xor(vm a, vm b) { return a ^ b; }
FN vm vm_andnot(vm a, vm b) { return a & !b; }
FN vi vm_to_vi(vm m) { return -m; }
FN i32 vm_any(vm m) { return m; }
/* The way for all lanes alike is a branch: it is left out. */
FN i32 vm_all(vm m) { return (void)m, 0; }

FN vi vi_set1(i32 x) { return x; }
FN vi vi_add(vi a, vi b) { return (vi)((u32)a + (u32)b); }
FN vi vi_sub(vi a, vi b) { return (vi)((u32)a - (u32)b); }
FN vi vi_and(vi a, vi b) { return a & b; }
FN vi vi_xor(vi a, vi b) { return a ^ b; }
FN vi vi_shl(vi a, int n) { return (vi)((u32)a << n); }
FN vm vi_gt(vi a, vi b) { return a > b; }
FN vf vi_to_vf(vi a) { return (float)a; }
FN vi vf_as_vi(vf x) { return (vi)bits_f(x); }
FN vf vi_as_vf(vi a) { return from_bits_f((u32)a); }
FN vi vi_load(const i32 *p) { return *p; }
FN void vi_store(i32 *p, vi x) { *p = x; }
FN u32 tli_float_to_bits(float x) { return bits_f(x); }

/* Where vectors come in two halves of doubles, both are this lane. */
FN vd vf_low_to_vd(vf x) { return (double)x; }
FN vd vf_high_to_vd(vf x) { return (double)x; }
FN vf vd_to_vf(vd low, vd high) { return (void)high, (float)low; }
FN vd vd_set1(double x) { return x; }
FN vd vd_zero(void) { return 0; }
FN vd vd_add(vd a, vd b) { return a + b; }
FN vd vd_sub(vd a, vd b) { return a - b; }
FN vd vd_mul(vd a, vd b) { return a * b; }
FN vd vd_div(vd a, vd b) { return a / b; }
FN vd vd_fma(vd a, vd b, vd c) { return __builtin_fma(a, b, c); }
FN vm vd_eq(vd a, vd b) { return a == b; }
FN vd vd_drop(vm m, vd a) { return m ? 0 : a; }
FN vd vd_min_c(vd a, vd c) { return a > c ? c : a; }
FN vd vd_max_c(vd a, vd c) { return a < c ? c : a; }
FN vl vl_set1(i64 x) { return x; }
FN vl vl_add(vl a, vl b) { return (vl)((u64)a + (u64)b); }
FN vl vl_sub(vl a, vl b) { return (vl)((u64)a - (u64)b); }
FN vl vl_and(vl a, vl b) { return a & b; }
FN vl vl_or(vl a, vl b) { return a | b; }
FN vl vl_shl(vl a, int n) { return (vl)((u64)a << n); }
FN vl vl_shru(vl a, int n) { return (vl)((u64)a >> n); }
FN vl vd_as_vl(vd x) { return (vl)bits_d(x); }
FN vd vl_as_vd(vl a) { return from_bits_d((u64)a); }
// clang-format on
