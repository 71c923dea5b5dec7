/* vec.h over AVX-512 (F, BW, DQ, VL): 512 bits. */
#ifndef TLI_CPU_SIMD_VEC_AVX512_H
#define TLI_CPU_SIMD_VEC_AVX512_H

#include <immintrin.h>

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef __m512d vd;
typedef __m512i vl;
typedef __mmask8 vmd;
enum { VF = 16, VD = 8 };

/* For operators on lanes, which take any count of a shift. */
typedef int32_t tli_s32x16 __attribute__((vector_size(64)));
typedef uint32_t tli_u32x16 __attribute__((vector_size(64)));
typedef uint64_t tli_u64x8 __attribute__((vector_size(64)));

/* --- floats ----------------------------------------------------------------------------------- */

TLI_VEC1(vf, vf_set1, float, _mm512_set1_ps(a))
TLI_INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
TLI_VEC2(vf, vf_add, vf, _mm512_add_ps(a, b))
TLI_VEC2(vf, vf_sub, vf, _mm512_sub_ps(a, b))
TLI_VEC2(vf, vf_mul, vf, _mm512_mul_ps(a, b))
TLI_VEC2(vf, vf_div, vf, _mm512_div_ps(a, b))
TLI_VEC3(vf, vf_fma, vf, _mm512_fmadd_ps(a, b, c))
TLI_VEC3(vf, vf_fnma, vf, _mm512_fnmadd_ps(a, b, c))
/* The instructions give their second operand when either is NaN. */
TLI_VEC2(vf, vf_min_c, vf, _mm512_min_ps(b, a))
TLI_VEC2(vf, vf_max_c, vf, _mm512_max_ps(b, a))
TLI_VEC2(vf, vf_min, vf,
         _mm512_mask_mov_ps(vf_min_c(a, b), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), b))
TLI_VEC2(vf, vf_max, vf,
         _mm512_mask_mov_ps(vf_max_c(a, b), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), b))
TLI_VEC1(vf, vf_neg, vf, _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)))
TLI_VEC1(vf, vf_abs, vf, _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a))
TLI_VEC1(vf, vf_sqrt, vf, _mm512_sqrt_ps(a))
TLI_VEC1(vf, vf_floor, vf, _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
TLI_VEC1(vf, vf_ceil, vf, _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC))
TLI_VEC1(vf, vf_round, vf, _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
TLI_VEC1(vf, vf_trunc, vf, _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))

TLI_VEC2(vm, vf_lt, vf, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ))
TLI_VEC2(vm, vf_le, vf, _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ))
TLI_VEC2(vm, vf_gt, vf, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ))
TLI_VEC2(vm, vf_ge, vf, _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ))
TLI_VEC2(vm, vf_eq, vf, _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ))
TLI_VEC2(vm, vf_ne, vf, _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ))
TLI_INLINE vf vf_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}
TLI_INLINE vf vf_keep(vm m, vf a)
{
    return _mm512_maskz_mov_ps(m, a);
}
TLI_INLINE vf vf_drop(vm m, vf a)
{
    return _mm512_maskz_mov_ps((vm)~m, a);
}

TLI_INLINE float vf_sum(vf a)
{
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 pairs = _mm_add_ps(four, _mm_movehdup_ps(four));
    return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehl_ps(pairs, pairs)));
}

TLI_INLINE float vf_hmax(vf a)
{
    a = vf_max(a, _mm512_shuffle_f32x4(a, a, 0x4e));
    a = vf_max(a, _mm512_shuffle_f32x4(a, a, 0xb1));
    a = vf_max(a, _mm512_permute_ps(a, 0x4e));
    return _mm512_cvtss_f32(vf_max(a, _mm512_permute_ps(a, 0xb1)));
}

TLI_INLINE float vf_hmin(vf a)
{
    a = vf_min(a, _mm512_shuffle_f32x4(a, a, 0x4e));
    a = vf_min(a, _mm512_shuffle_f32x4(a, a, 0xb1));
    a = vf_min(a, _mm512_permute_ps(a, 0x4e));
    return _mm512_cvtss_f32(vf_min(a, _mm512_permute_ps(a, 0xb1)));
}

/* Formatted by hand: clang-format takes a & b for a pointer. */
// clang-format off
/* --- masks ------------------------------------------------------------------------------------ */

TLI_VEC2(vm, vm_and, vm, (vm)(a & b))
TLI_VEC2(vm, vm_or, vm, (vm)(a | b))
TLI_VEC2(vm, vm_xor, vm, (vm)(a ^ b))
TLI_VEC2(vm, vm_andnot, vm, (vm)(a & ~b))
TLI_VEC1(vm, vm_not, vm, (vm)~a)
TLI_VEC1(bool, vm_any, vm, a != 0)
TLI_VEC1(bool, vm_all, vm, a == 0xffff)
TLI_VEC1(vi, vm_to_vi, vm, _mm512_movm_epi32(a))
TLI_VEC1(vm, vm_first, int64_t, (vm)(a < 16 ? (1u << a) - 1 : 0xffffu))
TLI_VEC2(vmd, vmd_and, vmd, (vmd)(a & b))
TLI_VEC2(vmd, vmd_or, vmd, (vmd)(a | b))
TLI_VEC2(vmd, vmd_xor, vmd, (vmd)(a ^ b))
TLI_VEC2(vmd, vmd_andnot, vmd, (vmd)(a & ~b))
TLI_VEC1(vmd, vmd_not, vmd, (vmd)~a)
TLI_VEC1(bool, vmd_any, vmd, a != 0)
TLI_VEC1(bool, vmd_all, vmd, a == 0xff)
TLI_VEC1(vmd, vmd_first, int64_t, (vmd)(a < 8 ? (1u << a) - 1 : 0xffu))

// clang-format on

/* --- whole numbers ---------------------------------------------------------------------------- */

TLI_VEC1(vi, vi_set1, int32_t, _mm512_set1_epi32(a))
TLI_VEC2(vi, vi_add, vi, _mm512_add_epi32(a, b))
TLI_VEC2(vi, vi_sub, vi, _mm512_sub_epi32(a, b))
TLI_VEC2(vi, vi_mul, vi, _mm512_mullo_epi32(a, b))
TLI_VEC2(vi, vi_and, vi, _mm512_and_si512(a, b))
TLI_VEC2(vi, vi_or, vi, _mm512_or_si512(a, b))
TLI_VEC2(vi, vi_xor, vi, _mm512_xor_si512(a, b))
TLI_VEC2(vi, vi_andnot, vi, _mm512_andnot_si512(b, a))
TLI_VEC2(vi, vi_min, vi, _mm512_min_epi32(a, b))
TLI_VEC2(vi, vi_max, vi, _mm512_max_epi32(a, b))
TLI_VECN(vi, vi_shl, vi, (vi)((tli_u32x16)a << n))
TLI_VECN(vi, vi_shr, vi, (vi)((tli_s32x16)a >> n))
TLI_VECN(vi, vi_shru, vi, (vi)((tli_u32x16)a >> n))
TLI_VEC2(vm, vi_eq, vi, _mm512_cmpeq_epi32_mask(a, b))
TLI_VEC2(vm, vi_gt, vi, _mm512_cmpgt_epi32_mask(a, b))
TLI_INLINE vi vi_select(vm m, vi a, vi b)
{
    return _mm512_mask_blend_epi32(m, b, a);
}

TLI_VEC1(vl, vl_set1, int64_t, _mm512_set1_epi64(a))
TLI_VEC2(vl, vl_add, vl, _mm512_add_epi64(a, b))
TLI_VEC2(vl, vl_sub, vl, _mm512_sub_epi64(a, b))
TLI_VEC2(vl, vl_and, vl, _mm512_and_si512(a, b))
TLI_VEC2(vl, vl_or, vl, _mm512_or_si512(a, b))
TLI_VEC2(vl, vl_xor, vl, _mm512_xor_si512(a, b))
TLI_VEC2(vl, vl_andnot, vl, _mm512_andnot_si512(b, a))
TLI_VECN(vl, vl_shl, vl, (vl)((tli_u64x8)a << n))
TLI_VECN(vl, vl_shru, vl, (vl)((tli_u64x8)a >> n))

TLI_VEC1(vf, vi_to_vf, vi, _mm512_cvtepi32_ps(a))
TLI_VEC1(vi, vf_to_vi, vf, _mm512_cvttps_epi32(a))
TLI_VEC1(vi, vf_round_to_vi, vf, _mm512_cvtps_epi32(a))
TLI_VEC1(vi, vf_as_vi, vf, _mm512_castps_si512(a))
TLI_VEC1(vf, vi_as_vf, vi, _mm512_castsi512_ps(a))
TLI_VEC1(vl, vd_as_vl, vd, _mm512_castpd_si512(a))
TLI_VEC1(vd, vl_as_vd, vl, _mm512_castsi512_pd(a))
TLI_VEC1(vd, vf_low_to_vd, vf, _mm512_cvtps_pd(_mm512_castps512_ps256(a)))
TLI_VEC1(vd, vf_high_to_vd, vf, _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1)))

TLI_INLINE vf vd_to_vf(vd low, vd high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high),
                              1);
}

/* --- doubles ---------------------------------------------------------------------------------- */

TLI_VEC1(vd, vd_set1, double, _mm512_set1_pd(a))
TLI_INLINE vd vd_zero(void)
{
    return _mm512_setzero_pd();
}
TLI_VEC2(vd, vd_add, vd, _mm512_add_pd(a, b))
TLI_VEC2(vd, vd_sub, vd, _mm512_sub_pd(a, b))
TLI_VEC2(vd, vd_mul, vd, _mm512_mul_pd(a, b))
TLI_VEC2(vd, vd_div, vd, _mm512_div_pd(a, b))
TLI_VEC3(vd, vd_fma, vd, _mm512_fmadd_pd(a, b, c))
TLI_VEC3(vd, vd_fnma, vd, _mm512_fnmadd_pd(a, b, c))
TLI_VEC2(vd, vd_min_c, vd, _mm512_min_pd(b, a))
TLI_VEC2(vd, vd_max_c, vd, _mm512_max_pd(b, a))
TLI_VEC2(vd, vd_min, vd,
         _mm512_mask_mov_pd(vd_min_c(a, b), _mm512_cmp_pd_mask(b, b, _CMP_UNORD_Q), b))
TLI_VEC2(vd, vd_max, vd,
         _mm512_mask_mov_pd(vd_max_c(a, b), _mm512_cmp_pd_mask(b, b, _CMP_UNORD_Q), b))
TLI_VEC1(vd, vd_neg, vd, _mm512_xor_pd(a, _mm512_set1_pd(-0.0)))
TLI_VEC1(vd, vd_abs, vd, _mm512_andnot_pd(_mm512_set1_pd(-0.0), a))
TLI_VEC1(vd, vd_sqrt, vd, _mm512_sqrt_pd(a))
TLI_VEC1(vd, vd_floor, vd, _mm512_roundscale_pd(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
TLI_VEC1(vd, vd_ceil, vd, _mm512_roundscale_pd(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC))
TLI_VEC1(vd, vd_round, vd, _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
TLI_VEC1(vd, vd_trunc, vd, _mm512_roundscale_pd(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
TLI_VEC2(vmd, vd_lt, vd, _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ))
TLI_VEC2(vmd, vd_le, vd, _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ))
TLI_VEC2(vmd, vd_gt, vd, _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ))
TLI_VEC2(vmd, vd_ge, vd, _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ))
TLI_VEC2(vmd, vd_eq, vd, _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ))
TLI_VEC2(vmd, vd_ne, vd, _mm512_cmp_pd_mask(a, b, _CMP_NEQ_UQ))
TLI_INLINE vd vd_select(vmd m, vd a, vd b)
{
    return _mm512_mask_blend_pd(m, b, a);
}
TLI_INLINE vd vd_keep(vmd m, vd a)
{
    return _mm512_maskz_mov_pd(m, a);
}
TLI_INLINE vd vd_drop(vmd m, vd a)
{
    return _mm512_maskz_mov_pd((vmd)~m, a);
}

TLI_INLINE double vd_sum(vd a)
{
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    const __m256d pairs = _mm256_add_pd(four, _mm256_permute_pd(four, 5));
    return _mm256_cvtsd_f64(_mm256_add_pd(pairs, _mm256_permute2f128_pd(pairs, pairs, 1)));
}

TLI_INLINE double vd_hmax(vd a)
{
    a = vd_max(a, _mm512_shuffle_f64x2(a, a, 0x4e));
    a = vd_max(a, _mm512_shuffle_f64x2(a, a, 0xb1));
    return _mm512_cvtsd_f64(vd_max(a, _mm512_permute_pd(a, 0x55)));
}

TLI_INLINE double vd_hmin(vd a)
{
    a = vd_min(a, _mm512_shuffle_f64x2(a, a, 0x4e));
    a = vd_min(a, _mm512_shuffle_f64x2(a, a, 0xb1));
    return _mm512_cvtsd_f64(vd_min(a, _mm512_permute_pd(a, 0x55)));
}

/* --- memory ----------------------------------------------------------------------------------- */

TLI_VEC1(vf, vf_load, const float *, _mm512_loadu_ps(a))
TLI_VEC1(vi, vi_load, const int32_t *, _mm512_loadu_si512(a))
TLI_VEC1(vd, vd_load, const double *, _mm512_loadu_pd(a))
TLI_INLINE void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
TLI_INLINE void vi_store(int32_t *p, vi x)
{
    _mm512_storeu_si512(p, x);
}
TLI_INLINE void vd_store(double *p, vd x)
{
    _mm512_storeu_pd(p, x);
}
TLI_INLINE vf vf_load_n(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps(vm_first(n), p);
}
TLI_INLINE vi vi_load_n(const int32_t *p, int64_t n)
{
    return _mm512_maskz_loadu_epi32(vm_first(n), p);
}
TLI_INLINE vd vd_load_n(const double *p, int64_t n)
{
    return _mm512_maskz_loadu_pd(vmd_first(n), p);
}
TLI_INLINE void vf_store_n(float *p, vf x, int64_t n)
{
    _mm512_mask_storeu_ps(p, vm_first(n), x);
}
TLI_INLINE void vi_store_n(int32_t *p, vi x, int64_t n)
{
    _mm512_mask_storeu_epi32(p, vm_first(n), x);
}
TLI_INLINE void vd_store_n(double *p, vd x, int64_t n)
{
    _mm512_mask_storeu_pd(p, vmd_first(n), x);
}

/* --- 16-bit floats ---------------------------------------------------------------------------- */

TLI_INLINE vf tli_widen_bf16(__m256i a)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16));
}

TLI_INLINE __m256i tli_narrow_bf16(vf x)
{
    const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i word =
        _mm512_mask_or_epi32(_mm512_srli_epi32(sum, 16), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                             high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(word);
}

TLI_INLINE __m256i tli_narrow_f16(vf x)
{
    // The conversion would keep some of a NaN's bits.
    const vf sign = _mm512_and_ps(x, _mm512_set1_ps(-0.0f));
    const vf clean = _mm512_mask_or_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), sign,
                                       _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
    return _mm512_cvtps_ph(clean, _MM_FROUND_TO_NEAREST_INT);
}

TLI_VEC1(__m256i, tli_load_u16x16, const uint16_t *, _mm256_loadu_si256((const __m256i *)a))
TLI_VEC1(vf, vf_load_bf16, const uint16_t *, tli_widen_bf16(tli_load_u16x16(a)))
TLI_VEC1(vf, vf_load_f16, const uint16_t *, _mm512_cvtph_ps(tli_load_u16x16(a)))

TLI_INLINE void vf_store_bf16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, tli_narrow_bf16(x));
}

TLI_INLINE void vf_store_f16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, tli_narrow_f16(x));
}

TLI_INLINE vf vf_load_bf16_n(const uint16_t *p, int64_t n)
{
    return tli_widen_bf16(_mm256_maskz_loadu_epi16(vm_first(n), p));
}

TLI_INLINE vf vf_load_f16_n(const uint16_t *p, int64_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vm_first(n), p));
}

TLI_INLINE void vf_store_bf16_n(uint16_t *p, vf x, int64_t n)
{
    _mm256_mask_storeu_epi16(p, vm_first(n), tli_narrow_bf16(x));
}

TLI_INLINE void vf_store_f16_n(uint16_t *p, vf x, int64_t n)
{
    _mm256_mask_storeu_epi16(p, vm_first(n), tli_narrow_f16(x));
}

/* --- truth values as bytes -------------------------------------------------------------------- */

TLI_INLINE vm vm_load_bool(const uint8_t *p)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return _mm_test_epi8_mask(bytes, bytes);
}

TLI_INLINE vm vm_load_bool_n(const uint8_t *p, int64_t n)
{
    const __m128i bytes = _mm_maskz_loadu_epi8(vm_first(n), p);
    return _mm_test_epi8_mask(bytes, bytes);
}

TLI_INLINE void vm_store_bool(uint8_t *p, vm m)
{
    _mm_storeu_si128((__m128i *)p, _mm_maskz_set1_epi8(m, 1));
}

TLI_INLINE void vm_store_bool_n(uint8_t *p, vm m, int64_t n)
{
    _mm_mask_storeu_epi8(p, vm_first(n), _mm_maskz_set1_epi8(m, 1));
}

#endif
