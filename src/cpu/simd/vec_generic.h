/* vec.h over the vector types that gcc and clang give every target: 128 bits, no intrinsics. */
#ifndef TLI_CPU_SIMD_VEC_GENERIC_H
#define TLI_CPU_SIMD_VEC_GENERIC_H

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef vi vm; /* all bits of a lane, or none */
typedef double vd __attribute__((vector_size(16)));
typedef int64_t vl __attribute__((vector_size(16)));
typedef vl vmd;
enum { VF = 4, VD = 2 };

typedef uint32_t tli_u32x4 __attribute__((vector_size(16)));
typedef uint64_t tli_u64x2 __attribute__((vector_size(16)));

/* A function of one value, lane by lane. */
#define TLI_MAP4(f) ((vf){f(a[0]), f(a[1]), f(a[2]), f(a[3])})
#define TLI_MAP2(f) ((vd){f(a[0]), f(a[1])})

/* Formatted by hand: clang-format takes a * b for a pointer. */
// clang-format off
/* --- floats ----------------------------------------------------------------------------------- */

TLI_VEC1(vf, vf_set1, float, ((vf){a, a, a, a}))
TLI_INLINE vf vf_zero(void)
{
    return (vf){0};
}
TLI_VEC2(vf, vf_add, vf, a + b)
TLI_VEC2(vf, vf_sub, vf, a - b)
TLI_VEC2(vf, vf_mul, vf, a * b)
TLI_VEC2(vf, vf_div, vf, a / b)
TLI_VEC3(vf, vf_fma, vf,
         ((vf){__builtin_fmaf(a[0], b[0], c[0]), __builtin_fmaf(a[1], b[1], c[1]),
               __builtin_fmaf(a[2], b[2], c[2]), __builtin_fmaf(a[3], b[3], c[3])}))
TLI_VEC3(vf, vf_fnma, vf, vf_fma(-a, b, c))
TLI_VEC1(vf, vf_neg, vf, -a)
TLI_VEC1(vf, vf_abs, vf, (vf)((vi)a & INT32_MAX))
TLI_VEC1(vf, vf_sqrt, vf, TLI_MAP4(__builtin_sqrtf))
TLI_VEC1(vf, vf_floor, vf, TLI_MAP4(__builtin_floorf))
TLI_VEC1(vf, vf_ceil, vf, TLI_MAP4(__builtin_ceilf))
TLI_VEC1(vf, vf_round, vf, TLI_MAP4(__builtin_rintf)) /* the rounding mode is never changed */
TLI_VEC1(vf, vf_trunc, vf, TLI_MAP4(__builtin_truncf))

TLI_VEC2(vm, vf_lt, vf, (vm)(a < b))
TLI_VEC2(vm, vf_le, vf, (vm)(a <= b))
TLI_VEC2(vm, vf_gt, vf, (vm)(a > b))
TLI_VEC2(vm, vf_ge, vf, (vm)(a >= b))
TLI_VEC2(vm, vf_eq, vf, (vm)(a == b))
TLI_VEC2(vm, vf_ne, vf, (vm)(a != b))
TLI_INLINE vf vf_select(vm m, vf a, vf b)
{
    return (vf)((m & (vi)a) | (~m & (vi)b));
}
TLI_INLINE vf vf_keep(vm m, vf a)
{
    return (vf)(m & (vi)a);
}
TLI_INLINE vf vf_drop(vm m, vf a)
{
    return (vf)(~m & (vi)a);
}
TLI_VEC2(vf, vf_min_c, vf, vf_select(vf_gt(a, b), b, a))
TLI_VEC2(vf, vf_max_c, vf, vf_select(vf_lt(a, b), b, a))
TLI_VEC2(vf, vf_min, vf, vf_select(vf_gt(a, b) | vf_ne(b, b), b, a))
TLI_VEC2(vf, vf_max, vf, vf_select(vf_lt(a, b) | vf_ne(b, b), b, a))

TLI_VEC1(float, vf_sum, vf, (a[0] + a[1]) + (a[2] + a[3]))

TLI_INLINE float vf_hmax(vf a)
{
    a = vf_max(a, (vf){a[2], a[3], a[0], a[1]});
    return vf_max(a, (vf){a[1], a[0], a[3], a[2]})[0];
}

TLI_INLINE float vf_hmin(vf a)
{
    a = vf_min(a, (vf){a[2], a[3], a[0], a[1]});
    return vf_min(a, (vf){a[1], a[0], a[3], a[2]})[0];
}

/* --- masks ------------------------------------------------------------------------------------ */

TLI_VEC2(vm, vm_and, vm, a & b)
TLI_VEC2(vm, vm_or, vm, a | b)
TLI_VEC2(vm, vm_xor, vm, a ^ b)
TLI_VEC2(vm, vm_andnot, vm, a & ~b)
TLI_VEC1(vm, vm_not, vm, ~a)
TLI_VEC1(bool, vm_any, vm, ((vl)a)[0] | ((vl)a)[1])
TLI_VEC1(bool, vm_all, vm, (((vl)a)[0] & ((vl)a)[1]) == -1)
TLI_VEC1(vi, vm_to_vi, vm, a)
TLI_VEC1(vm, vm_first, int64_t, ((vm){-(a > 0), -(a > 1), -(a > 2), -(a > 3)}))
TLI_VEC2(vmd, vmd_and, vmd, a & b)
TLI_VEC2(vmd, vmd_or, vmd, a | b)
TLI_VEC2(vmd, vmd_xor, vmd, a ^ b)
TLI_VEC2(vmd, vmd_andnot, vmd, a & ~b)
TLI_VEC1(vmd, vmd_not, vmd, ~a)
TLI_VEC1(bool, vmd_any, vmd, a[0] | a[1])
TLI_VEC1(bool, vmd_all, vmd, (a[0] & a[1]) == -1)
TLI_VEC1(vmd, vmd_first, int64_t, ((vmd){-(a > 0), -(a > 1)}))

/* --- whole numbers ---------------------------------------------------------------------------- */

TLI_VEC1(vi, vi_set1, int32_t, ((vi){a, a, a, a}))
TLI_VEC2(vi, vi_add, vi, (vi)((tli_u32x4)a + (tli_u32x4)b))
TLI_VEC2(vi, vi_sub, vi, (vi)((tli_u32x4)a - (tli_u32x4)b))
TLI_VEC2(vi, vi_mul, vi, (vi)((tli_u32x4)a * (tli_u32x4)b))
TLI_VEC2(vi, vi_and, vi, a & b)
TLI_VEC2(vi, vi_or, vi, a | b)
TLI_VEC2(vi, vi_xor, vi, a ^ b)
TLI_VEC2(vi, vi_andnot, vi, a & ~b)
TLI_VECN(vi, vi_shl, vi, (vi)((tli_u32x4)a << n))
TLI_VECN(vi, vi_shr, vi, a >> n)
TLI_VECN(vi, vi_shru, vi, (vi)((tli_u32x4)a >> n))
TLI_VEC2(vm, vi_eq, vi, (vm)(a == b))
TLI_VEC2(vm, vi_gt, vi, (vm)(a > b))
TLI_INLINE vi vi_select(vm m, vi a, vi b)
{
    return (m & a) | (~m & b);
}
TLI_VEC2(vi, vi_min, vi, vi_select(vi_gt(a, b), b, a))
TLI_VEC2(vi, vi_max, vi, vi_select(vi_gt(a, b), a, b))

TLI_VEC1(vl, vl_set1, int64_t, ((vl){a, a}))
TLI_VEC2(vl, vl_add, vl, (vl)((tli_u64x2)a + (tli_u64x2)b))
TLI_VEC2(vl, vl_sub, vl, (vl)((tli_u64x2)a - (tli_u64x2)b))
TLI_VEC2(vl, vl_and, vl, a & b)
TLI_VEC2(vl, vl_or, vl, a | b)
TLI_VEC2(vl, vl_xor, vl, a ^ b)
TLI_VEC2(vl, vl_andnot, vl, a & ~b)
TLI_VECN(vl, vl_shl, vl, (vl)((tli_u64x2)a << n))
TLI_VECN(vl, vl_shru, vl, (vl)((tli_u64x2)a >> n))

/* The cast alone would be undefined beyond int32. */
TLI_VEC1(int32_t, tli_to_int32, float, a >= -0x1p31f && a < 0x1p31f ? (int32_t)a : INT32_MIN)
TLI_VEC1(vf, vi_to_vf, vi, ((vf){(float)a[0], (float)a[1], (float)a[2], (float)a[3]}))
TLI_VEC1(vi, vf_to_vi, vf,
         ((vi){tli_to_int32(a[0]), tli_to_int32(a[1]), tli_to_int32(a[2]), tli_to_int32(a[3])}))
TLI_VEC1(vi, vf_round_to_vi, vf, vf_to_vi(vf_round(a)))
TLI_VEC1(vi, vf_as_vi, vf, (vi)a)
TLI_VEC1(vf, vi_as_vf, vi, (vf)a)
TLI_VEC1(vl, vd_as_vl, vd, (vl)a)
TLI_VEC1(vd, vl_as_vd, vl, (vd)a)
TLI_VEC1(vd, vf_low_to_vd, vf, ((vd){(double)a[0], (double)a[1]}))
TLI_VEC1(vd, vf_high_to_vd, vf, ((vd){(double)a[2], (double)a[3]}))

TLI_INLINE vf vd_to_vf(vd low, vd high)
{
    return (vf){(float)low[0], (float)low[1], (float)high[0], (float)high[1]};
}

/* --- doubles ---------------------------------------------------------------------------------- */

TLI_VEC1(vd, vd_set1, double, ((vd){a, a}))
TLI_INLINE vd vd_zero(void)
{
    return (vd){0};
}
TLI_VEC2(vd, vd_add, vd, a + b)
TLI_VEC2(vd, vd_sub, vd, a - b)
TLI_VEC2(vd, vd_mul, vd, a * b)
TLI_VEC2(vd, vd_div, vd, a / b)
TLI_VEC3(vd, vd_fma, vd, ((vd){__builtin_fma(a[0], b[0], c[0]), __builtin_fma(a[1], b[1], c[1])}))
TLI_VEC3(vd, vd_fnma, vd, vd_fma(-a, b, c))
TLI_VEC1(vd, vd_neg, vd, -a)
TLI_VEC1(vd, vd_abs, vd, (vd)((vl)a & INT64_MAX))
TLI_VEC1(vd, vd_sqrt, vd, TLI_MAP2(__builtin_sqrt))
TLI_VEC1(vd, vd_floor, vd, TLI_MAP2(__builtin_floor))
TLI_VEC1(vd, vd_ceil, vd, TLI_MAP2(__builtin_ceil))
TLI_VEC1(vd, vd_round, vd, TLI_MAP2(__builtin_rint))
TLI_VEC1(vd, vd_trunc, vd, TLI_MAP2(__builtin_trunc))
TLI_VEC2(vmd, vd_lt, vd, (vmd)(a < b))
TLI_VEC2(vmd, vd_le, vd, (vmd)(a <= b))
TLI_VEC2(vmd, vd_gt, vd, (vmd)(a > b))
TLI_VEC2(vmd, vd_ge, vd, (vmd)(a >= b))
TLI_VEC2(vmd, vd_eq, vd, (vmd)(a == b))
TLI_VEC2(vmd, vd_ne, vd, (vmd)(a != b))
TLI_INLINE vd vd_select(vmd m, vd a, vd b)
{
    return (vd)((m & (vl)a) | (~m & (vl)b));
}
TLI_INLINE vd vd_keep(vmd m, vd a)
{
    return (vd)(m & (vl)a);
}
TLI_INLINE vd vd_drop(vmd m, vd a)
{
    return (vd)(~m & (vl)a);
}
TLI_VEC2(vd, vd_min_c, vd, vd_select(vd_gt(a, b), b, a))
TLI_VEC2(vd, vd_max_c, vd, vd_select(vd_lt(a, b), b, a))
TLI_VEC2(vd, vd_min, vd, vd_select(vd_gt(a, b) | vd_ne(b, b), b, a))
TLI_VEC2(vd, vd_max, vd, vd_select(vd_lt(a, b) | vd_ne(b, b), b, a))
TLI_VEC1(double, vd_sum, vd, a[0] + a[1])
TLI_VEC1(double, vd_hmax, vd, vd_max(a, (vd){a[1], a[0]})[0])
TLI_VEC1(double, vd_hmin, vd, vd_min(a, (vd){a[1], a[0]})[0])

// clang-format on

/* --- memory ----------------------------------------------------------------------------------- */

/* Copies of a constant size become plain loads and stores. */
#define TLI_MEMORY(type, element, prefix, lanes)                                                   \
    TLI_INLINE type prefix##_load(const element *p)                                                \
    {                                                                                              \
        type x;                                                                                    \
        memcpy(&x, p, sizeof x);                                                                   \
        return x;                                                                                  \
    }                                                                                              \
    TLI_INLINE void prefix##_store(element *p, type x)                                             \
    {                                                                                              \
        memcpy(p, &x, sizeof x);                                                                   \
    }                                                                                              \
    TLI_INLINE type prefix##_load_n(const element *p, int64_t n)                                   \
    {                                                                                              \
        element x[lanes] = {0};                                                                    \
        for (int64_t i = 0; i < n && i < (lanes); i++) x[i] = p[i];                                \
        return prefix##_load(x);                                                                   \
    }                                                                                              \
    TLI_INLINE void prefix##_store_n(element *p, type x, int64_t n)                                \
    {                                                                                              \
        for (int64_t i = 0; i < n && i < (lanes); i++) p[i] = x[i];                                \
    }
TLI_MEMORY(vf, float, vf, 4)
TLI_MEMORY(vi, int32_t, vi, 4)
TLI_MEMORY(vd, double, vd, 2)

/* --- 16-bit floats ---------------------------------------------------------------------------- */

#define TLI_HALF(name)                                                                             \
    TLI_INLINE vf vf_load_##name(const uint16_t *p)                                                \
    {                                                                                              \
        return (vf){tli_from_##name(p[0]), tli_from_##name(p[1]), tli_from_##name(p[2]),           \
                    tli_from_##name(p[3])};                                                        \
    }                                                                                              \
    TLI_INLINE vf vf_load_##name##_n(const uint16_t *p, int64_t n)                                 \
    {                                                                                              \
        vf x = {0};                                                                                \
        for (int64_t i = 0; i < n && i < 4; i++) x[i] = tli_from_##name(p[i]);                     \
        return x;                                                                                  \
    }                                                                                              \
    TLI_INLINE void vf_store_##name##_n(uint16_t *p, vf x, int64_t n)                              \
    {                                                                                              \
        for (int64_t i = 0; i < n && i < 4; i++) p[i] = tli_to_##name(x[i]);                       \
    }                                                                                              \
    TLI_INLINE void vf_store_##name(uint16_t *p, vf x)                                             \
    {                                                                                              \
        vf_store_##name##_n(p, x, 4);                                                              \
    }
TLI_HALF(bf16)
TLI_HALF(f16)

/* --- truth values as bytes -------------------------------------------------------------------- */

TLI_INLINE vm vm_load_bool_n(const uint8_t *p, int64_t n)
{
    vm m = {0};
    for (int64_t i = 0; i < n && i < 4; i++) m[i] = -(p[i] != 0);
    return m;
}

TLI_INLINE void vm_store_bool_n(uint8_t *p, vm m, int64_t n)
{
    for (int64_t i = 0; i < n && i < 4; i++) p[i] = m[i] & 1;
}

TLI_VEC1(vm, vm_load_bool, const uint8_t *, vm_load_bool_n(a, 4))
TLI_INLINE void vm_store_bool(uint8_t *p, vm m)
{
    vm_store_bool_n(p, m, 4);
}

#endif
