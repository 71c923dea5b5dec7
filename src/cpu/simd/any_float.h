/* Loads and stores whose storage type is an argument: a constant wherever the function around them
 * has been inlined, so that one body serves float32, bfloat16 and float16.
 *
 *     TLI_INLINE void scale(tl_dtype t, void *y, const void *x, float by, int64_t n)
 *     {
 *         TLI_VECTORS(i, m, n) any_store(t, y, i, vf_mul(any_load(t, x, i, m), vf_set1(by)), m);
 *     }
 *     ...
 *     TLI_FLOAT_SWITCH(tensor->dtype, scale(T, y, x, 2, n));
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_SIMD_ANY_FLOAT_H
#define TLI_CPU_SIMD_ANY_FLOAT_H

#include <tilth/core/dtype.h>

#include "cpu/simd/vec.h"

/* Lanes from n on read as 0. */
TLI_INLINE vf any_load(tl_dtype t, const void *p, int64_t i, int64_t n)
{
    const bool whole = n >= VF;
    if (t == TL_F32) {
        const float *f = (const float *)p + i;
        return whole ? vf_load(f) : vf_load_n(f, n);
    }
    const uint16_t *h = (const uint16_t *)p + i;
    if (t == TL_BF16) return whole ? vf_load_bf16(h) : vf_load_bf16_n(h, n);
    return whole ? vf_load_f16(h) : vf_load_f16_n(h, n);
}

TLI_INLINE void any_store(tl_dtype t, void *p, int64_t i, vf x, int64_t n)
{
    const bool whole = n >= VF;
    if (t == TL_F32) {
        float *f = (float *)p + i;
        if (whole) vf_store(f, x);
        else vf_store_n(f, x, n);
        return;
    }
    uint16_t *h = (uint16_t *)p + i;
    if (t == TL_BF16) {
        if (whole) vf_store_bf16(h, x);
        else vf_store_bf16_n(h, x, n);
    } else if (whole) {
        vf_store_f16(h, x);
    } else {
        vf_store_f16_n(h, x, n);
    }
}

/* Two vectors that lie next to each other, all of whose lanes are there. */
TLI_INLINE void any_load_pair(tl_dtype t, const void *p, int64_t i, vf *pair)
{
    if (t == TL_BF16) {
        vf_load_bf16_pair((const uint16_t *)p + i, pair);
        return;
    }
    pair[0] = any_load(t, p, i, VF);
    pair[1] = any_load(t, p, i + VF, VF);
}

TLI_INLINE void any_store_pair(tl_dtype t, void *p, int64_t i, const vf *pair)
{
    if (t == TL_BF16) {
        vf_store_bf16_pair((uint16_t *)p + i, pair);
        return;
    }
    any_store(t, p, i, pair[0], VF);
    any_store(t, p, i + VF, pair[1], VF);
}

/* The same for numbers that came from this type. */
TLI_INLINE void any_return_pair(tl_dtype t, void *p, int64_t i, const vf *pair)
{
    if (t == TL_BF16) vf_return_bf16_pair((uint16_t *)p + i, pair);
    else any_store_pair(t, p, i, pair);
}

/* Where element i of an array lies. */
TLI_INLINE const void *any_at(tl_dtype t, const void *p, int64_t i)
{
    return (const char *)p + i * (t == TL_F32 ? 4 : 2);
}

TLI_INLINE float any_get(tl_dtype t, const void *p, int64_t i)
{
    if (t == TL_F32) return ((const float *)p)[i];
    const uint16_t h = ((const uint16_t *)p)[i];
    return t == TL_BF16 ? tli_from_bf16(h) : tli_from_f16(h);
}

TLI_INLINE void any_put(tl_dtype t, void *p, int64_t i, float x)
{
    if (t == TL_F32) ((float *)p)[i] = x;
    else ((uint16_t *)p)[i] = t == TL_BF16 ? tli_to_bf16(x) : tli_to_f16(x);
}

/* i in steps of a vector up to n; m is what is left there. */
#define TLI_VECTORS(i, m, n) for (int64_t i = 0, m = (n); m > 0; i += VF, m -= VF)

/* The statement with T as each type, of which the one that is `dtype` runs. */
#define TLI_FLOAT_CASE(type, ...)                                                                  \
    case type: {                                                                                   \
        const tl_dtype T = type;                                                                   \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }
#define TLI_FLOAT_SWITCH(dtype, ...)                                                               \
    switch (dtype) {                                                                               \
        TLI_FLOAT_CASE(TL_F32, __VA_ARGS__)                                                        \
        TLI_FLOAT_CASE(TL_BF16, __VA_ARGS__)                                                       \
    default: {                                                                                     \
        const tl_dtype T = TL_F16;                                                                 \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }                                                                                              \
    }

/* n elements of one type as those of another; the compiler knows both. */
TLI_INLINE void any_convert(tl_dtype to_type, void *to, tl_dtype from_type, const void *from,
                            int64_t n)
{
    int64_t i = 0;
    _Pragma("GCC unroll 2") for (; i + 2 * VF <= n; i += 2 * VF)
    {
        vf pair[2];
        any_load_pair(from_type, from, i, pair);
        any_store_pair(to_type, to, i, pair);
    }
    if (i + VF <= n) {
        any_store(to_type, to, i, any_load(from_type, from, i, VF), VF);
        i += VF;
    }
    if (i < n) any_store(to_type, to, i, any_load(from_type, from, i, n - i), n - i);
}

/* n elements of any type as float32, */
static inline void any_widen(float *to, tl_dtype dtype, const void *from, int64_t n)
{
    TLI_FLOAT_SWITCH(dtype, any_convert(TL_F32, to, T, from, n));
}

/* and back. */
static inline void any_narrow(tl_dtype dtype, void *to, const float *from, int64_t n)
{
    TLI_FLOAT_SWITCH(dtype, any_convert(T, to, TL_F32, from, n));
}

#endif
