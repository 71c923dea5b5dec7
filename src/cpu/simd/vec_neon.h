/* vec.h over NEON: 128 bits. */
#ifndef TLI_CPU_SIMD_VEC_NEON_H
#define TLI_CPU_SIMD_VEC_NEON_H

#include <arm_neon.h>

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vm;
typedef float64x2_t vd;
typedef int64x2_t vl;
typedef uint64x2_t vmd;
enum { VF = 4, VD = 2 };

/* --- floats ----------------------------------------------------------------------------------- */

TLI_VEC1(vf, vf_set1, float, vdupq_n_f32(a))
TLI_INLINE vf vf_zero(void)
{
    return vdupq_n_f32(0);
}
TLI_VEC2(vf, vf_add, vf, vaddq_f32(a, b))
TLI_VEC2(vf, vf_sub, vf, vsubq_f32(a, b))
TLI_VEC2(vf, vf_mul, vf, vmulq_f32(a, b))
TLI_VEC2(vf, vf_div, vf, vdivq_f32(a, b))
TLI_VEC3(vf, vf_fma, vf, vfmaq_f32(c, a, b))
TLI_VEC3(vf, vf_fnma, vf, vfmsq_f32(c, a, b))

/* The load is said to depend on `a`: what does not change in a loop would be kept in a register,
 * and copied. */
#define TLI_LOADED_ADDENDS 1
TLI_INLINE vf tli_fma_from(const float addend[4], vf a, vf b)
{
    vf x;
    __asm__("ldr %q0, %1" : "=w"(x) : "m"(*(const float(*)[4])addend), "w"(a));
    return vf_fma(a, b, x);
}
TLI_VEC2(vf, vf_min, vf, vminq_f32(a, b))
TLI_VEC2(vf, vf_max, vf, vmaxq_f32(a, b))
TLI_VEC2(vf, vf_min_c, vf, vminq_f32(a, b))
TLI_VEC2(vf, vf_max_c, vf, vmaxq_f32(a, b))
TLI_VEC1(vf, vf_neg, vf, vnegq_f32(a))
TLI_VEC1(vf, vf_abs, vf, vabsq_f32(a))
TLI_VEC1(vf, vf_sqrt, vf, vsqrtq_f32(a))
TLI_VEC1(vf, vf_floor, vf, vrndmq_f32(a))
TLI_VEC1(vf, vf_ceil, vf, vrndpq_f32(a))
TLI_VEC1(vf, vf_round, vf, vrndnq_f32(a))
TLI_VEC1(vf, vf_trunc, vf, vrndq_f32(a))

TLI_VEC2(vm, vf_lt, vf, vcltq_f32(a, b))
TLI_VEC2(vm, vf_le, vf, vcleq_f32(a, b))
TLI_VEC2(vm, vf_gt, vf, vcgtq_f32(a, b))
TLI_VEC2(vm, vf_ge, vf, vcgeq_f32(a, b))
TLI_VEC2(vm, vf_eq, vf, vceqq_f32(a, b))
TLI_VEC2(vm, vf_ne, vf, vmvnq_u32(vceqq_f32(a, b)))
TLI_INLINE vf vf_select(vm m, vf a, vf b)
{
    return vbslq_f32(m, a, b);
}

TLI_INLINE vf vf_keep(vm m, vf a)
{
    return vreinterpretq_f32_u32(vandq_u32(m, vreinterpretq_u32_f32(a)));
}

TLI_INLINE vf vf_drop(vm m, vf a)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), m));
}

TLI_INLINE float vf_sum(vf a)
{
    const vf pairs = vpaddq_f32(a, a);
    return vgetq_lane_f32(vpaddq_f32(pairs, pairs), 0);
}

TLI_VEC1(float, vf_hmax, vf, vmaxvq_f32(a))
TLI_VEC1(float, vf_hmin, vf, vminvq_f32(a))

/* --- masks ------------------------------------------------------------------------------------ */

TLI_VEC2(vm, vm_and, vm, vandq_u32(a, b))
TLI_VEC2(vm, vm_or, vm, vorrq_u32(a, b))
TLI_VEC2(vm, vm_xor, vm, veorq_u32(a, b))
TLI_VEC2(vm, vm_andnot, vm, vbicq_u32(a, b))
TLI_VEC1(vm, vm_not, vm, vmvnq_u32(a))
TLI_VEC1(bool, vm_any, vm, vmaxvq_u32(a) != 0)
TLI_VEC1(bool, vm_all, vm, vminvq_u32(a) != 0)
TLI_VEC1(vi, vm_to_vi, vm, vreinterpretq_s32_u32(a))

TLI_INLINE vm vm_first(int64_t n)
{
    static const int32_t lanes[4] = {0, 1, 2, 3};
    return vcltq_s32(vld1q_s32(lanes), vdupq_n_s32((int32_t)n));
}

TLI_VEC2(vmd, vmd_and, vmd, vandq_u64(a, b))
TLI_VEC2(vmd, vmd_or, vmd, vorrq_u64(a, b))
TLI_VEC2(vmd, vmd_xor, vmd, veorq_u64(a, b))
TLI_VEC2(vmd, vmd_andnot, vmd, vbicq_u64(a, b))
TLI_VEC1(vmd, vmd_not, vmd, veorq_u64(a, vdupq_n_u64(UINT64_MAX)))
TLI_VEC1(bool, vmd_any, vmd, vmaxvq_u32(vreinterpretq_u32_u64(a)) != 0)
TLI_VEC1(bool, vmd_all, vmd, vminvq_u32(vreinterpretq_u32_u64(a)) != 0)

TLI_INLINE vmd vmd_first(int64_t n)
{
    static const int64_t lanes[2] = {0, 1};
    return vcltq_s64(vld1q_s64(lanes), vdupq_n_s64(n));
}

/* --- whole numbers ---------------------------------------------------------------------------- */

TLI_VEC1(vi, vi_set1, int32_t, vdupq_n_s32(a))
/* Unsigned, as these wrap. */
#define TLI_AS_U32(f) vreinterpretq_s32_u32(f(vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b)))
#define TLI_AS_U64(f) vreinterpretq_s64_u64(f(vreinterpretq_u64_s64(a), vreinterpretq_u64_s64(b)))
TLI_VEC2(vi, vi_add, vi, TLI_AS_U32(vaddq_u32))
TLI_VEC2(vi, vi_sub, vi, TLI_AS_U32(vsubq_u32))
TLI_VEC2(vi, vi_mul, vi, TLI_AS_U32(vmulq_u32))
TLI_VEC2(vi, vi_and, vi, vandq_s32(a, b))
TLI_VEC2(vi, vi_or, vi, vorrq_s32(a, b))
TLI_VEC2(vi, vi_xor, vi, veorq_s32(a, b))
TLI_VEC2(vi, vi_andnot, vi, vbicq_s32(a, b))
TLI_VEC2(vi, vi_min, vi, vminq_s32(a, b))
TLI_VEC2(vi, vi_max, vi, vmaxq_s32(a, b))
TLI_VECN(vi, vi_shl, vi, vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) << n))
TLI_VECN(vi, vi_shr, vi, a >> n)
TLI_VECN(vi, vi_shru, vi, vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) >> n))
TLI_VEC2(vm, vi_eq, vi, vceqq_s32(a, b))
TLI_VEC2(vm, vi_gt, vi, vcgtq_s32(a, b))
TLI_INLINE vi vi_select(vm m, vi a, vi b)
{
    return vbslq_s32(m, a, b);
}

TLI_VEC1(vl, vl_set1, int64_t, vdupq_n_s64(a))
TLI_VEC2(vl, vl_add, vl, TLI_AS_U64(vaddq_u64))
TLI_VEC2(vl, vl_sub, vl, TLI_AS_U64(vsubq_u64))
TLI_VEC2(vl, vl_and, vl, vandq_s64(a, b))
TLI_VEC2(vl, vl_or, vl, vorrq_s64(a, b))
TLI_VEC2(vl, vl_xor, vl, veorq_s64(a, b))
TLI_VEC2(vl, vl_andnot, vl, vbicq_s64(a, b))
TLI_VECN(vl, vl_shl, vl, vreinterpretq_s64_u64(vreinterpretq_u64_s64(a) << n))
TLI_VECN(vl, vl_shru, vl, vreinterpretq_s64_u64(vreinterpretq_u64_s64(a) >> n))

TLI_VEC1(vf, vi_to_vf, vi, vcvtq_f32_s32(a))
TLI_VEC1(vi, vf_to_vi, vf, vcvtq_s32_f32(a))
TLI_VEC1(vi, vf_round_to_vi, vf, vcvtnq_s32_f32(a))
TLI_VEC1(vi, vf_as_vi, vf, vreinterpretq_s32_f32(a))
TLI_VEC1(vf, vi_as_vf, vi, vreinterpretq_f32_s32(a))
TLI_VEC1(vl, vd_as_vl, vd, vreinterpretq_s64_f64(a))
TLI_VEC1(vd, vl_as_vd, vl, vreinterpretq_f64_s64(a))
TLI_VEC1(vd, vf_low_to_vd, vf, vcvt_f64_f32(vget_low_f32(a)))
TLI_VEC1(vd, vf_high_to_vd, vf, vcvt_high_f64_f32(a))
TLI_INLINE vf vd_to_vf(vd low, vd high)
{
    return vcvt_high_f32_f64(vcvt_f32_f64(low), high);
}

/* --- doubles ---------------------------------------------------------------------------------- */

TLI_VEC1(vd, vd_set1, double, vdupq_n_f64(a))
TLI_INLINE vd vd_zero(void)
{
    return vdupq_n_f64(0);
}
TLI_VEC2(vd, vd_add, vd, vaddq_f64(a, b))
TLI_VEC2(vd, vd_sub, vd, vsubq_f64(a, b))
TLI_VEC2(vd, vd_mul, vd, vmulq_f64(a, b))
TLI_VEC2(vd, vd_div, vd, vdivq_f64(a, b))
TLI_VEC3(vd, vd_fma, vd, vfmaq_f64(c, a, b))
TLI_VEC3(vd, vd_fnma, vd, vfmsq_f64(c, a, b))
TLI_VEC2(vd, vd_min, vd, vminq_f64(a, b))
TLI_VEC2(vd, vd_max, vd, vmaxq_f64(a, b))
TLI_VEC2(vd, vd_min_c, vd, vminq_f64(a, b))
TLI_VEC2(vd, vd_max_c, vd, vmaxq_f64(a, b))
TLI_VEC1(vd, vd_neg, vd, vnegq_f64(a))
TLI_VEC1(vd, vd_abs, vd, vabsq_f64(a))
TLI_VEC1(vd, vd_sqrt, vd, vsqrtq_f64(a))
TLI_VEC1(vd, vd_floor, vd, vrndmq_f64(a))
TLI_VEC1(vd, vd_ceil, vd, vrndpq_f64(a))
TLI_VEC1(vd, vd_round, vd, vrndnq_f64(a))
TLI_VEC1(vd, vd_trunc, vd, vrndq_f64(a))
TLI_VEC2(vmd, vd_lt, vd, vcltq_f64(a, b))
TLI_VEC2(vmd, vd_le, vd, vcleq_f64(a, b))
TLI_VEC2(vmd, vd_gt, vd, vcgtq_f64(a, b))
TLI_VEC2(vmd, vd_ge, vd, vcgeq_f64(a, b))
TLI_VEC2(vmd, vd_eq, vd, vceqq_f64(a, b))
TLI_VEC2(vmd, vd_ne, vd, vmd_not(vceqq_f64(a, b)))
TLI_INLINE vd vd_select(vmd m, vd a, vd b)
{
    return vbslq_f64(m, a, b);
}

TLI_INLINE vd vd_keep(vmd m, vd a)
{
    return vreinterpretq_f64_u64(vandq_u64(m, vreinterpretq_u64_f64(a)));
}

TLI_INLINE vd vd_drop(vmd m, vd a)
{
    return vreinterpretq_f64_u64(vbicq_u64(vreinterpretq_u64_f64(a), m));
}

TLI_VEC1(double, vd_sum, vd, vgetq_lane_f64(a, 0) + vgetq_lane_f64(a, 1))
TLI_VEC1(double, vd_hmax, vd, vmaxvq_f64(a))
TLI_VEC1(double, vd_hmin, vd, vminvq_f64(a))

/* --- memory ----------------------------------------------------------------------------------- */

TLI_VEC1(vf, vf_load, const float *, vld1q_f32(a))
TLI_VEC1(vi, vi_load, const int32_t *, vld1q_s32(a))
TLI_VEC1(vd, vd_load, const double *, vld1q_f64(a))
TLI_INLINE void vf_store(float *p, vf x)
{
    vst1q_f32(p, x);
}
TLI_INLINE void vi_store(int32_t *p, vi x)
{
    vst1q_s32(p, x);
}
TLI_INLINE void vd_store(double *p, vd x)
{
    vst1q_f64(p, x);
}

TLI_INLINE vf vf_load_n(const float *p, int64_t n)
{
    const float32x2_t none = vdup_n_f32(0);
    if (n >= 4) return vld1q_f32(p);
    if (n == 3) return vcombine_f32(vld1_f32(p), vld1_lane_f32(p + 2, none, 0));
    if (n == 2) return vcombine_f32(vld1_f32(p), none);
    return n == 1 ? vcombine_f32(vld1_lane_f32(p, none, 0), none) : vdupq_n_f32(0);
}

TLI_INLINE void vf_store_n(float *p, vf x, int64_t n)
{
    if (n >= 4) {
        vst1q_f32(p, x);
    } else if (n >= 2) {
        vst1_f32(p, vget_low_f32(x));
        if (n == 3) vst1q_lane_f32(p + 2, x, 2);
    } else if (n == 1) {
        vst1q_lane_f32(p, x, 0);
    }
}

TLI_INLINE vi vi_load_n(const int32_t *p, int64_t n)
{
    int32_t lanes[4] = {0};
    for (int64_t i = 0; i < n && i < 4; i++) lanes[i] = p[i];
    return vld1q_s32(lanes);
}

TLI_INLINE void vi_store_n(int32_t *p, vi x, int64_t n)
{
    int32_t lanes[4];
    vst1q_s32(lanes, x);
    for (int64_t i = 0; i < n && i < 4; i++) p[i] = lanes[i];
}

TLI_INLINE vd vd_load_n(const double *p, int64_t n)
{
    if (n >= 2) return vld1q_f64(p);
    return n == 1 ? vcombine_f64(vld1_f64(p), vdup_n_f64(0)) : vdupq_n_f64(0);
}

TLI_INLINE void vd_store_n(double *p, vd x, int64_t n)
{
    if (n >= 2) vst1q_f64(p, x);
    else if (n == 1) vst1q_lane_f64(p, x, 0);
}

/* --- 16-bit floats ---------------------------------------------------------------------------- */

TLI_INLINE uint16x4_t tli_load_u16(const uint16_t *p, int64_t n)
{
    uint16_t lanes[4] = {0};
    for (int64_t i = 0; i < n && i < 4; i++) lanes[i] = p[i];
    return vld1_u16(lanes);
}

TLI_INLINE void tli_store_u16(uint16_t *p, uint16x4_t x, int64_t n)
{
    uint16_t lanes[4];
    vst1_u16(lanes, x);
    for (int64_t i = 0; i < n && i < 4; i++) p[i] = lanes[i];
}

TLI_VEC1(vf, tli_widen_bf16, uint16x4_t, vreinterpretq_f32_u32(vshll_n_u16(a, 16)))
TLI_VEC1(vf, tli_widen_f16, uint16x4_t, vcvt_f32_f16(vreinterpret_f16_u16(a)))

#ifndef TLI_ISA_neon_bf16
/* What is added to the bits of a float before its lower half is cut off, so that it is rounded to
 * the nearest: just below the half, and, so that ties become even, one more where the upper half is
 * odd. That one is a mask to subtract: comparing is done by all units, shifting by half of them. */
#define TLI_BELOW_HALF vdupq_n_u32(0x7fff)
TLI_VEC1(uint32x4_t, tli_even_bf16, uint32x4_t, vsubq_u32(a, vtstq_u32(a, vdupq_n_u32(0x10000))))
#endif

TLI_INLINE uint16x4_t tli_narrow_bf16(vf x)
{
#ifdef TLI_ISA_neon_bf16
    return vreinterpret_u16_bf16(vcvt_bf16_f32(x));
#else
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint16x4_t nan = vorr_u16(vshrn_n_u32(bits, 16), vdup_n_u16(0x40));
    return vbsl_u16(vmovn_u32(vceqq_f32(x, x)), vaddhn_u32(tli_even_bf16(bits), TLI_BELOW_HALF),
                    nan);
#endif
}

TLI_INLINE uint16x4_t tli_narrow_f16(vf x)
{
    // The conversion would keep some of a NaN's bits.
    const vf nan =
        vbslq_f32(vdupq_n_u32(0x80000000), x, vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000)));
    return vreinterpret_u16_f16(vcvt_f16_f32(vbslq_f32(vceqq_f32(x, x), x, nan)));
}

TLI_VEC1(vf, vf_load_bf16, const uint16_t *, tli_widen_bf16(vld1_u16(a)))
TLI_VEC1(vf, vf_load_f16, const uint16_t *, tli_widen_f16(vld1_u16(a)))
TLI_INLINE void vf_store_bf16(uint16_t *p, vf x)
{
    vst1_u16(p, tli_narrow_bf16(x));
}
TLI_INLINE void vf_store_f16(uint16_t *p, vf x)
{
    vst1_u16(p, tli_narrow_f16(x));
}

/* Zeros between the numbers: interleaving is done by all units, shifting by half of them. */
#define TLI_OWN_PAIRS
TLI_INLINE void vf_load_bf16_pair(const uint16_t *p, vf *pair)
{
    const uint16x8_t zeros = vdupq_n_u16(0), x = vld1q_u16(p);
    pair[0] = vreinterpretq_f32_u16(vzip1q_u16(zeros, x));
    pair[1] = vreinterpretq_f32_u16(vzip2q_u16(zeros, x));
}

TLI_INLINE void vf_store_bf16_pair(uint16_t *p, const vf *pair)
{
#ifdef TLI_ISA_neon_bf16
    const bfloat16x8_t low = vcvtq_low_bf16_f32(pair[0]);
    vst1q_u16(p, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(low, pair[1])));
#else
    const uint32x4_t x = vreinterpretq_u32_f32(pair[0]), y = vreinterpretq_u32_f32(pair[1]);
    const uint16x4_t low = vaddhn_u32(tli_even_bf16(x), TLI_BELOW_HALF);
    const uint16x8_t rounded = vaddhn_high_u32(low, tli_even_bf16(y), TLI_BELOW_HALF);
    const uint16x8_t upper = vuzp2q_u16(vreinterpretq_u16_u32(x), vreinterpretq_u16_u32(y));
    const uint16x8_t numbers = vuzp1q_u16(vreinterpretq_u16_u32(vceqq_f32(pair[0], pair[0])),
                                          vreinterpretq_u16_u32(vceqq_f32(pair[1], pair[1])));
    vst1q_u16(p, vbslq_u16(numbers, rounded, vorrq_u16(upper, vdupq_n_u16(0x40))));
#endif
}

TLI_INLINE void vf_return_bf16_pair(uint16_t *p, const vf *pair)
{
    vst1q_u16(p, vuzp2q_u16(vreinterpretq_u16_f32(pair[0]), vreinterpretq_u16_f32(pair[1])));
}

TLI_INLINE vf vf_load_bf16_n(const uint16_t *p, int64_t n)
{
    return tli_widen_bf16(tli_load_u16(p, n));
}

TLI_INLINE vf vf_load_f16_n(const uint16_t *p, int64_t n)
{
    return tli_widen_f16(tli_load_u16(p, n));
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

TLI_INLINE vm vm_load_bool_n(const uint8_t *p, int64_t n)
{
    uint32_t lanes[4] = {0};
    for (int64_t i = 0; i < n && i < 4; i++) lanes[i] = p[i];
    return vtstq_u32(vld1q_u32(lanes), vdupq_n_u32(0xff));
}

TLI_INLINE vm vm_load_bool(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(word));
    return vtstq_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))), vdupq_n_u32(0xff));
}

TLI_INLINE void vm_store_bool_n(uint8_t *p, vm m, int64_t n)
{
    uint32_t lanes[4];
    vst1q_u32(lanes, m);
    for (int64_t i = 0; i < n && i < 4; i++) p[i] = lanes[i] & 1;
}

TLI_INLINE void vm_store_bool(uint8_t *p, vm m)
{
    const uint16x4_t halves = vmovn_u32(m);
    const uint8x8_t bytes = vand_u8(vmovn_u16(vcombine_u16(halves, halves)), vdup_n_u8(1));
    const uint32_t word = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
    memcpy(p, &word, sizeof word);
}

#endif
