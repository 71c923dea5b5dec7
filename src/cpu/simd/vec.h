/* Vectors of floats for the kernels of this folder: the same names over every instruction set.
 *
 *     void TLI_ISA_NAME(tli_scale)(float *y, const float *x, float s, int64_t n)
 *     {
 *         const vf factor = vf_set1(s);
 *         int64_t i = 0;
 *         for (; i + VF <= n; i += VF) vf_store(y + i, vf_mul(vf_load(x + i), factor));
 *         if (i < n) vf_store_n(y + i, vf_mul(vf_load_n(x + i, n - i), factor), n - i);
 *     }
 *
 * Types: vf holds VF floats, vi as many int32, vm as many truth values; vd holds VD doubles, vl as
 * many int64, vmd as many truth values. VF is 2 * VD: 4 (generic, neon, neon_bf16), 8 (avx2) or 16.
 *
 * Memory: pointers need the alignment of their elements only. The _n forms take n from 0 to the
 *   lane count: lanes from n on read as 0, and nothing is touched in memory beyond the first n.
 *   vf_load vf_store          float          vf_load_bf16 vf_store_bf16    bfloat16
 *   vf_load_f16 vf_store_f16  float16        vi_load vi_store              int32
 *   vd_load vd_store          double         vm_load_bool vm_store_bool    bytes: 0 or not; 0 or 1
 *   and each with _n. vf_load_f32 and vf_store_f32 are vf_load and vf_store, for templates (below).
 *   Stores round to nearest, ties to even; they give the bits of core/inner/half.h, NaNs included.
 *   vf_load_bf16_pair(p, pair), vf_store_bf16_pair(p, pair): 2 * VF numbers as two vectors, at less
 *   than twice the cost of one; vf_return_bf16_pair stores numbers that are of bfloat16 already.
 *
 * Arithmetic (vf and vd): set1 zero add sub mul div neg abs sqrt floor ceil trunc,
 *   round: to nearest, ties to even;   fma(a, b, c): a * b + c,  fnma(a, b, c): c - a * b, both
 *   rounded once;   copysign(a, b): |a| with the sign of b.
 *   min(a, b), max(a, b): NaN when either is (as torch.minimum); of two zeros, either one.
 *   min_c(a, c), max_c(a, c): the same and cheaper, where c is known not to be a NaN.
 * Comparisons (vf and vd, a mask): lt le gt ge eq ne; a NaN is ne to everything and nothing else.
 *   select(m, a, b): a where m, else b.  keep(m, a): a where m, else +0.  drop(m, a): +0 where m.
 * Masks: vm_and or xor andnot(a, b): a and not b, not; vm_any vm_all (bool); vm_first(n): true in
 *   the first n lanes, in all for any n above their number; the same for vmd. vm_to_vi: -1 or 0.
 * Across lanes: vf_sum vf_hmax vf_hmin, vd_sum vd_hmax vd_hmin (NaN as above). Sums follow one
 *   tree: halves are added to each other down to four lanes, then (0 + 1) + (2 + 3).
 * Whole numbers: vi_set1 add sub mul and or xor andnot min max, shl, shr (arithmetic), shru (zeros
 *   come in), eq gt (a vm), select; all wrap. vl_set1 add sub and or xor shl shru.
 * Conversions: vi_to_vf; vf_to_vi truncates, vf_round_to_vi rounds to nearest even; both give an
 *   unspecified number for NaN and beyond int32. vf_as_vi, vi_as_vf, vd_as_vl, vl_as_vd: the bits.
 *   vf_low_to_vd, vf_high_to_vd: the first and last VD lanes; vd_to_vf(low, high): rounds.
 *
 * Every operation is rounded as IEEE 754 says and nothing is contracted, so kernels that do not add
 * across lanes give the same bits on every instruction set.
 *
 * One body for all storage types, either as a macro:
 *
 *     #define SCALE(t)                                                            \
 *         static void scale_##t(tli_##t *y, const tli_##t *x, int64_t n)          \
 *         {                                                                       \
 *             ... vf_store_##t(y + i, f(vf_load_##t(x + i))) ...                  \
 *         }
 *     TLI_FLOAT_LIST(SCALE)
 *
 * or, when it is longer than a few lines, as a file of its own: see each_float.h.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_SIMD_VEC_H
#define TLI_CPU_SIMD_VEC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/inner/half.h"
#include "base/inner/isa.h"

/* Kernels are loops around these, so that none of them may remain a call. */
#define TLI_INLINE static inline __attribute__((always_inline))
/* name(a) { return (call); } and so on: the files below are tables of these. */
#define TLI_VEC1(result, name, arg, call)                                                          \
    TLI_INLINE result name(arg a)                                                                  \
    {                                                                                              \
        return (call);                                                                             \
    }
#define TLI_VEC2(result, name, arg, call)                                                          \
    TLI_INLINE result name(arg a, arg b)                                                           \
    {                                                                                              \
        return (call);                                                                             \
    }
#define TLI_VEC3(result, name, arg, call)                                                          \
    TLI_INLINE result name(arg a, arg b, arg c)                                                    \
    {                                                                                              \
        return (call);                                                                             \
    }
/* name(a, n) { return (call); } for shifts. */
#define TLI_VECN(result, name, arg, call)                                                          \
    TLI_INLINE result name(arg a, int n)                                                           \
    {                                                                                              \
        return (call);                                                                             \
    }

#if defined(TLI_ISA_neon) || defined(TLI_ISA_neon_bf16)
#include "cpu/simd/vec_neon.h"
#elif defined(TLI_ISA_avx2)
#include "cpu/simd/vec_avx2.h"
#elif defined(TLI_ISA_avx512)
#include "cpu/simd/vec_avx512.h"
#else
#include "cpu/simd/vec_generic.h"
#endif

_Static_assert(VF == 2 * VD && sizeof(vf) == VF * sizeof(float)
                   && sizeof(vd) == VD * sizeof(double),
               "lanes fill vectors");
_Static_assert(sizeof(vi) == sizeof(vf) && sizeof(vl) == sizeof(vd),
               "whole numbers and floats have the same lanes");
_Static_assert((VF & (VF - 1)) == 0 && VF >= 4, "sums across lanes halve them down to four");
/* --- what follows from the above on every instruction set ------------------------------------- */

/* literal + a * b, rounded once. NEON's multiply-add overwrites what it adds to: a load of the
 * literal costs nothing beside arithmetic, where a copy is one instruction more in the units that
 * are busy, and on some cores makes all around it slower. */
#ifdef TLI_LOADED_ADDENDS
#define VF_FMA_LITERAL(a, b, literal)                                                              \
    (__extension__({                                                                               \
        static const float lanes_[VF] = {literal, literal, literal, literal};                      \
        tli_fma_from(lanes_, (a), (b));                                                            \
    }))
#else
#define VF_FMA_LITERAL(a, b, literal) vf_fma(a, b, vf_set1(literal))
#endif

TLI_INLINE vf vf_copysign(vf a, vf b)
{
    const vi sign = vi_set1(INT32_MIN);
    return vi_as_vf(vi_or(vi_andnot(vf_as_vi(a), sign), vi_and(vf_as_vi(b), sign)));
}

TLI_INLINE vd vd_copysign(vd a, vd b)
{
    const vl sign = vl_set1(INT64_MIN);
    return vl_as_vd(vl_or(vl_andnot(vd_as_vl(a), sign), vl_and(vd_as_vl(b), sign)));
}

TLI_VEC1(vm, vf_is_nan, vf, vf_ne(a, a))
TLI_VEC1(vmd, vd_is_nan, vd, vd_ne(a, a))

#ifndef TLI_OWN_PAIRS
TLI_INLINE void vf_load_bf16_pair(const uint16_t *p, vf *pair)
{
    pair[0] = vf_load_bf16(p);
    pair[1] = vf_load_bf16(p + VF);
}

TLI_INLINE void vf_store_bf16_pair(uint16_t *p, const vf *pair)
{
    vf_store_bf16(p, pair[0]);
    vf_store_bf16(p + VF, pair[1]);
}

TLI_INLINE void vf_return_bf16_pair(uint16_t *p, const vf *pair)
{
    vf_store_bf16_pair(p, pair);
}
#endif

/* --- storage types ---------------------------------------------------------------------------- */

typedef float tli_f32;
typedef uint16_t tli_bf16;
typedef uint16_t tli_f16;
#define TLI_FLOAT_LIST(X) X(f32) X(bf16) X(f16)

TLI_VEC1(vf, vf_load_f32, const tli_f32 *, vf_load(a))

TLI_INLINE vf vf_load_f32_n(const tli_f32 *p, int64_t n)
{
    return vf_load_n(p, n);
}

TLI_INLINE void vf_load_f32_pair(const tli_f32 *p, vf *pair)
{
    pair[0] = vf_load(p);
    pair[1] = vf_load(p + VF);
}

TLI_INLINE void vf_load_f16_pair(const tli_f16 *p, vf *pair)
{
    pair[0] = vf_load_f16(p);
    pair[1] = vf_load_f16(p + VF);
}

TLI_INLINE void vf_store_f32(tli_f32 *p, vf x)
{
    vf_store(p, x);
}

TLI_INLINE void vf_store_f32_n(tli_f32 *p, vf x, int64_t n)
{
    vf_store_n(p, x, n);
}

/* One value at a time, under the same names in every template. */
TLI_VEC1(float, tli_get_f32, tli_f32, a)
TLI_VEC1(float, tli_get_bf16, tli_bf16, tli_from_bf16(a))
TLI_VEC1(float, tli_get_f16, tli_f16, tli_from_f16(a))
TLI_VEC1(tli_f32, tli_put_f32, float, a)
TLI_VEC1(tli_bf16, tli_put_bf16, float, tli_to_bf16(a))
TLI_VEC1(tli_f16, tli_put_f16, float, tli_to_f16(a))

#endif
