/* vec.h over AVX2, FMA and F16C: 256 bits. */
#ifndef TLI_CPU_SIMD_VEC_AVX2_H
#define TLI_CPU_SIMD_VEC_AVX2_H

#include <immintrin.h>

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm; /* all bits of a lane, or none */
typedef __m256d vd;
typedef __m256i vl;
typedef __m256d vmd;
enum { VF = 8, VD = 4 };

/* For operators on lanes, which take any count of a shift. */
typedef int32_t tli_s32x8 __attribute__((vector_size(32)));
typedef uint32_t tli_u32x8 __attribute__((vector_size(32)));
typedef uint64_t tli_u64x4 __attribute__((vector_size(32)));

/* --- floats ----------------------------------------------------------------------------------- */

TLI_VEC1(vf, vf_set1, float, _mm256_set1_ps(a))
TLI_INLINE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}
TLI_VEC2(vf, vf_add, vf, _mm256_add_ps(a, b))
TLI_VEC2(vf, vf_sub, vf, _mm256_sub_ps(a, b))
TLI_VEC2(vf, vf_mul, vf, _mm256_mul_ps(a, b))
TLI_VEC2(vf, vf_div, vf, _mm256_div_ps(a, b))
TLI_VEC3(vf, vf_fma, vf, _mm256_fmadd_ps(a, b, c))
TLI_VEC3(vf, vf_fnma, vf, _mm256_fnmadd_ps(a, b, c))
/* The instructions give their second operand when either is NaN. */
TLI_VEC2(vf, vf_min_c, vf, _mm256_min_ps(b, a))
TLI_VEC2(vf, vf_max_c, vf, _mm256_max_ps(b, a))
TLI_VEC2(vf, vf_min, vf, _mm256_blendv_ps(vf_min_c(a, b), b, _mm256_cmp_ps(b, b, _CMP_UNORD_Q)))
TLI_VEC2(vf, vf_max, vf, _mm256_blendv_ps(vf_max_c(a, b), b, _mm256_cmp_ps(b, b, _CMP_UNORD_Q)))
TLI_VEC1(vf, vf_neg, vf, _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)))
TLI_VEC1(vf, vf_abs, vf, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a))
TLI_VEC1(vf, vf_sqrt, vf, _mm256_sqrt_ps(a))
TLI_VEC1(vf, vf_floor, vf, _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
TLI_VEC1(vf, vf_ceil, vf, _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC))
TLI_VEC1(vf, vf_round, vf, _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
TLI_VEC1(vf, vf_trunc, vf, _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))

TLI_VEC2(vm, vf_lt, vf, _mm256_cmp_ps(a, b, _CMP_LT_OQ))
TLI_VEC2(vm, vf_le, vf, _mm256_cmp_ps(a, b, _CMP_LE_OQ))
TLI_VEC2(vm, vf_gt, vf, _mm256_cmp_ps(a, b, _CMP_GT_OQ))
TLI_VEC2(vm, vf_ge, vf, _mm256_cmp_ps(a, b, _CMP_GE_OQ))
TLI_VEC2(vm, vf_eq, vf, _mm256_cmp_ps(a, b, _CMP_EQ_OQ))
TLI_VEC2(vm, vf_ne, vf, _mm256_cmp_ps(a, b, _CMP_NEQ_UQ))
TLI_INLINE vf vf_select(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, m);
}
TLI_INLINE vf vf_keep(vm m, vf a)
{
    return _mm256_and_ps(m, a);
}
TLI_INLINE vf vf_drop(vm m, vf a)
{
    return _mm256_andnot_ps(m, a);
}

TLI_INLINE float vf_sum(vf a)
{
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 pairs = _mm_add_ps(four, _mm_movehdup_ps(four));
    return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehl_ps(pairs, pairs)));
}

TLI_INLINE float vf_hmax(vf a)
{
    a = vf_max(a, _mm256_permute2f128_ps(a, a, 1));
    a = vf_max(a, _mm256_permute_ps(a, 0x4e));
    return _mm256_cvtss_f32(vf_max(a, _mm256_permute_ps(a, 0xb1)));
}

TLI_INLINE float vf_hmin(vf a)
{
    a = vf_min(a, _mm256_permute2f128_ps(a, a, 1));
    a = vf_min(a, _mm256_permute_ps(a, 0x4e));
    return _mm256_cvtss_f32(vf_min(a, _mm256_permute_ps(a, 0xb1)));
}

/* --- masks ------------------------------------------------------------------------------------ */

TLI_VEC2(vm, vm_and, vm, _mm256_and_ps(a, b))
TLI_VEC2(vm, vm_or, vm, _mm256_or_ps(a, b))
TLI_VEC2(vm, vm_xor, vm, _mm256_xor_ps(a, b))
TLI_VEC2(vm, vm_andnot, vm, _mm256_andnot_ps(b, a))
TLI_VEC1(vm, vm_not, vm, _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1))))
TLI_VEC1(bool, vm_any, vm, _mm256_movemask_ps(a) != 0)
TLI_VEC1(bool, vm_all, vm, _mm256_movemask_ps(a) == 0xff)
TLI_VEC1(vi, vm_to_vi, vm, _mm256_castps_si256(a))

TLI_INLINE __m256i tli_first8(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

TLI_INLINE __m256i tli_first4(int64_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

TLI_VEC1(vm, vm_first, int64_t, _mm256_castsi256_ps(tli_first8(a)))
TLI_VEC2(vmd, vmd_and, vmd, _mm256_and_pd(a, b))
TLI_VEC2(vmd, vmd_or, vmd, _mm256_or_pd(a, b))
TLI_VEC2(vmd, vmd_xor, vmd, _mm256_xor_pd(a, b))
TLI_VEC2(vmd, vmd_andnot, vmd, _mm256_andnot_pd(b, a))
TLI_VEC1(vmd, vmd_not, vmd, _mm256_xor_pd(a, _mm256_castsi256_pd(_mm256_set1_epi32(-1))))
TLI_VEC1(bool, vmd_any, vmd, _mm256_movemask_pd(a) != 0)
TLI_VEC1(bool, vmd_all, vmd, _mm256_movemask_pd(a) == 0xf)
TLI_VEC1(vmd, vmd_first, int64_t, _mm256_castsi256_pd(tli_first4(a)))

/* --- whole numbers ---------------------------------------------------------------------------- */

TLI_VEC1(vi, vi_set1, int32_t, _mm256_set1_epi32(a))
TLI_VEC2(vi, vi_add, vi, _mm256_add_epi32(a, b))
TLI_VEC2(vi, vi_sub, vi, _mm256_sub_epi32(a, b))
TLI_VEC2(vi, vi_mul, vi, _mm256_mullo_epi32(a, b))
TLI_VEC2(vi, vi_and, vi, _mm256_and_si256(a, b))
TLI_VEC2(vi, vi_or, vi, _mm256_or_si256(a, b))
TLI_VEC2(vi, vi_xor, vi, _mm256_xor_si256(a, b))
TLI_VEC2(vi, vi_andnot, vi, _mm256_andnot_si256(b, a))
TLI_VEC2(vi, vi_min, vi, _mm256_min_epi32(a, b))
TLI_VEC2(vi, vi_max, vi, _mm256_max_epi32(a, b))
TLI_VECN(vi, vi_shl, vi, (vi)((tli_u32x8)a << n))
TLI_VECN(vi, vi_shr, vi, (vi)((tli_s32x8)a >> n))
TLI_VECN(vi, vi_shru, vi, (vi)((tli_u32x8)a >> n))
TLI_VEC2(vm, vi_eq, vi, _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)))
TLI_VEC2(vm, vi_gt, vi, _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)))

TLI_INLINE vi vi_select(vm m, vi a, vi b)
{
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m));
}

TLI_VEC1(vl, vl_set1, int64_t, _mm256_set1_epi64x(a))
TLI_VEC2(vl, vl_add, vl, _mm256_add_epi64(a, b))
TLI_VEC2(vl, vl_sub, vl, _mm256_sub_epi64(a, b))
TLI_VEC2(vl, vl_and, vl, _mm256_and_si256(a, b))
TLI_VEC2(vl, vl_or, vl, _mm256_or_si256(a, b))
TLI_VEC2(vl, vl_xor, vl, _mm256_xor_si256(a, b))
TLI_VEC2(vl, vl_andnot, vl, _mm256_andnot_si256(b, a))
TLI_VECN(vl, vl_shl, vl, (vl)((tli_u64x4)a << n))
TLI_VECN(vl, vl_shru, vl, (vl)((tli_u64x4)a >> n))

TLI_VEC1(vf, vi_to_vf, vi, _mm256_cvtepi32_ps(a))
TLI_VEC1(vi, vf_to_vi, vf, _mm256_cvttps_epi32(a))
TLI_VEC1(vi, vf_round_to_vi, vf, _mm256_cvtps_epi32(a))
TLI_VEC1(vi, vf_as_vi, vf, _mm256_castps_si256(a))
TLI_VEC1(vf, vi_as_vf, vi, _mm256_castsi256_ps(a))
TLI_VEC1(vl, vd_as_vl, vd, _mm256_castpd_si256(a))
TLI_VEC1(vd, vl_as_vd, vl, _mm256_castsi256_pd(a))
TLI_VEC1(vd, vf_low_to_vd, vf, _mm256_cvtps_pd(_mm256_castps256_ps128(a)))
TLI_VEC1(vd, vf_high_to_vd, vf, _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)))

TLI_INLINE vf vd_to_vf(vd low, vd high)
{
    return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}

/* --- doubles ---------------------------------------------------------------------------------- */

TLI_VEC1(vd, vd_set1, double, _mm256_set1_pd(a))
TLI_INLINE vd vd_zero(void)
{
    return _mm256_setzero_pd();
}
TLI_VEC2(vd, vd_add, vd, _mm256_add_pd(a, b))
TLI_VEC2(vd, vd_sub, vd, _mm256_sub_pd(a, b))
TLI_VEC2(vd, vd_mul, vd, _mm256_mul_pd(a, b))
TLI_VEC2(vd, vd_div, vd, _mm256_div_pd(a, b))
TLI_VEC3(vd, vd_fma, vd, _mm256_fmadd_pd(a, b, c))
TLI_VEC3(vd, vd_fnma, vd, _mm256_fnmadd_pd(a, b, c))
TLI_VEC2(vd, vd_min_c, vd, _mm256_min_pd(b, a))
TLI_VEC2(vd, vd_max_c, vd, _mm256_max_pd(b, a))
TLI_VEC2(vd, vd_min, vd, _mm256_blendv_pd(vd_min_c(a, b), b, _mm256_cmp_pd(b, b, _CMP_UNORD_Q)))
TLI_VEC2(vd, vd_max, vd, _mm256_blendv_pd(vd_max_c(a, b), b, _mm256_cmp_pd(b, b, _CMP_UNORD_Q)))
TLI_VEC1(vd, vd_neg, vd, _mm256_xor_pd(a, _mm256_set1_pd(-0.0)))
TLI_VEC1(vd, vd_abs, vd, _mm256_andnot_pd(_mm256_set1_pd(-0.0), a))
TLI_VEC1(vd, vd_sqrt, vd, _mm256_sqrt_pd(a))
TLI_VEC1(vd, vd_floor, vd, _mm256_round_pd(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
TLI_VEC1(vd, vd_ceil, vd, _mm256_round_pd(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC))
TLI_VEC1(vd, vd_round, vd, _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
TLI_VEC1(vd, vd_trunc, vd, _mm256_round_pd(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
TLI_VEC2(vmd, vd_lt, vd, _mm256_cmp_pd(a, b, _CMP_LT_OQ))
TLI_VEC2(vmd, vd_le, vd, _mm256_cmp_pd(a, b, _CMP_LE_OQ))
TLI_VEC2(vmd, vd_gt, vd, _mm256_cmp_pd(a, b, _CMP_GT_OQ))
TLI_VEC2(vmd, vd_ge, vd, _mm256_cmp_pd(a, b, _CMP_GE_OQ))
TLI_VEC2(vmd, vd_eq, vd, _mm256_cmp_pd(a, b, _CMP_EQ_OQ))
TLI_VEC2(vmd, vd_ne, vd, _mm256_cmp_pd(a, b, _CMP_NEQ_UQ))
TLI_INLINE vd vd_select(vmd m, vd a, vd b)
{
    return _mm256_blendv_pd(b, a, m);
}
TLI_INLINE vd vd_keep(vmd m, vd a)
{
    return _mm256_and_pd(m, a);
}
TLI_INLINE vd vd_drop(vmd m, vd a)
{
    return _mm256_andnot_pd(m, a);
}

TLI_INLINE double vd_sum(vd a)
{
    const vd pairs = _mm256_add_pd(a, _mm256_permute_pd(a, 5));
    return _mm256_cvtsd_f64(_mm256_add_pd(pairs, _mm256_permute2f128_pd(pairs, pairs, 1)));
}

TLI_INLINE double vd_hmax(vd a)
{
    a = vd_max(a, _mm256_permute2f128_pd(a, a, 1));
    return _mm256_cvtsd_f64(vd_max(a, _mm256_permute_pd(a, 5)));
}

TLI_INLINE double vd_hmin(vd a)
{
    a = vd_min(a, _mm256_permute2f128_pd(a, a, 1));
    return _mm256_cvtsd_f64(vd_min(a, _mm256_permute_pd(a, 5)));
}

/* --- memory ----------------------------------------------------------------------------------- */

TLI_VEC1(vf, vf_load, const float *, _mm256_loadu_ps(a))
TLI_VEC1(vi, vi_load, const int32_t *, _mm256_loadu_si256((const __m256i *)a))
TLI_VEC1(vd, vd_load, const double *, _mm256_loadu_pd(a))
TLI_INLINE void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}
TLI_INLINE void vi_store(int32_t *p, vi x)
{
    _mm256_storeu_si256((__m256i *)p, x);
}
TLI_INLINE void vd_store(double *p, vd x)
{
    _mm256_storeu_pd(p, x);
}
TLI_INLINE vf vf_load_n(const float *p, int64_t n)
{
    return _mm256_maskload_ps(p, tli_first8(n));
}
TLI_INLINE vi vi_load_n(const int32_t *p, int64_t n)
{
    return _mm256_maskload_epi32(p, tli_first8(n));
}
TLI_INLINE vd vd_load_n(const double *p, int64_t n)
{
    return _mm256_maskload_pd(p, tli_first4(n));
}

TLI_INLINE void vf_store_n(float *p, vf x, int64_t n)
{
    _mm256_maskstore_ps(p, tli_first8(n), x);
}

TLI_INLINE void vi_store_n(int32_t *p, vi x, int64_t n)
{
    _mm256_maskstore_epi32(p, tli_first8(n), x);
}

TLI_INLINE void vd_store_n(double *p, vd x, int64_t n)
{
    _mm256_maskstore_pd(p, tli_first4(n), x);
}

/* --- 16-bit floats ---------------------------------------------------------------------------- */

TLI_INLINE __m128i tli_load_u16(const uint16_t *p, int64_t n)
{
    uint16_t lanes[8] = {0};
    for (int64_t i = 0; i < n && i < 8; i++) lanes[i] = p[i];
    return _mm_loadu_si128((const __m128i *)lanes);
}

TLI_INLINE void tli_store_u16(uint16_t *p, __m128i x, int64_t n)
{
    uint16_t lanes[8];
    _mm_storeu_si128((__m128i *)lanes, x);
    for (int64_t i = 0; i < n && i < 8; i++) p[i] = lanes[i];
}

TLI_INLINE vf tli_widen_bf16(__m128i a)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(a), 16));
}

TLI_INLINE __m128i tli_narrow_bf16(vf x)
{
    const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i word =
        vi_select(_mm256_cmp_ps(x, x, _CMP_UNORD_Q), nan, _mm256_srli_epi32(sum, 16));
    return _mm_packus_epi32(_mm256_castsi256_si128(word), _mm256_extracti128_si256(word, 1));
}

TLI_INLINE __m128i tli_narrow_f16(vf x)
{
    // The conversion would keep some of a NaN's bits.
    const vf sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    const vf nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
    const vf clean = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_cvtps_ph(clean, _MM_FROUND_TO_NEAREST_INT);
}

TLI_VEC1(__m128i, tli_load_u16x8, const uint16_t *, _mm_loadu_si128((const __m128i *)a))
TLI_VEC1(vf, vf_load_bf16, const uint16_t *, tli_widen_bf16(tli_load_u16x8(a)))
TLI_VEC1(vf, vf_load_f16, const uint16_t *, _mm256_cvtph_ps(tli_load_u16x8(a)))

TLI_INLINE void vf_store_bf16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, tli_narrow_bf16(x));
}

TLI_INLINE void vf_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, tli_narrow_f16(x));
}

TLI_INLINE vf vf_load_bf16_n(const uint16_t *p, int64_t n)
{
    return tli_widen_bf16(tli_load_u16(p, n));
}

TLI_INLINE vf vf_load_f16_n(const uint16_t *p, int64_t n)
{
    return _mm256_cvtph_ps(tli_load_u16(p, n));
}

TLI_INLINE void vf_store_bf16_n(uint16_t *p, vf x, int64_t n)
{
    tli_store_u16(p, tli_narrow_bf16(x), n);
}

TLI_INLINE void vf_store_f16_n(uint16_t *p, vf x, int64_t n)
{
    tli_store_u16(p, tli_narrow_f16(x), n);
}

/* --- truth values as bytes -------------------------------------------------------------------- */

TLI_INLINE vm vm_load_bool(const uint8_t *p)
{
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256()));
}

TLI_INLINE vm vm_load_bool_n(const uint8_t *p, int64_t n)
{
    uint8_t lanes[8] = {0};
    for (int64_t i = 0; i < n && i < 8; i++) lanes[i] = p[i];
    return vm_load_bool(lanes);
}

TLI_INLINE void vm_store_bool(uint8_t *p, vm m)
{
    const __m256i bits = _mm256_castps_si256(m);
    const __m128i halves =
        _mm_packs_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    const __m128i bytes = _mm_and_si128(_mm_packs_epi16(halves, halves), _mm_set1_epi8(1));
    _mm_storel_epi64((__m128i *)p, bytes);
}

TLI_INLINE void vm_store_bool_n(uint8_t *p, vm m, int64_t n)
{
    uint8_t lanes[8];
    vm_store_bool(lanes, m);
    for (int64_t i = 0; i < n && i < 8; i++) p[i] = lanes[i];
}

#endif
