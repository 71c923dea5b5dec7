/* bfloat16 and float16 as bits, one value at a time; rounding to nearest, ties to even. Kernels
 * have vector forms of the same (cpu/simd/vec.h).
 *
 * Thread word: free-threaded. */
#ifndef TLI_CORE_HALF_H
#define TLI_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float tli_bits_to_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t tli_float_to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float tli_from_bf16(uint16_t h)
{
    return tli_bits_to_float((uint32_t)h << 16);
}

static inline uint16_t tli_to_bf16(float f)
{
    uint32_t bits = tli_float_to_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u); // stays NaN
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float tli_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1fu,
             fraction = h & 0x3ffu;
    if (exponent == 31) return tli_bits_to_float(sign | 0x7f800000u | (fraction << 13));
    if (exponent) return tli_bits_to_float(sign | ((exponent + 112) << 23) | (fraction << 13));
    float small = (float)fraction * 0x1p-24f; // subnormal or zero: exact
    return sign ? -small : small;
}

static inline uint16_t tli_to_f16(float f)
{
    uint32_t bits = tli_float_to_bits(f), sign = (bits >> 16) & 0x8000u,
             magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); // rounds to infinity
    if (magnitude < 0x38800000u) {
        // Adding 0.5 leaves the rounded subnormal in the low bits of the sum.
        float sum = tli_bits_to_float(magnitude) + 0.5f;
        return (uint16_t)(sign | (tli_float_to_bits(sum) - 0x3f000000u));
    }
    magnitude += 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((magnitude - 0x38000000u) >> 13));
}

#endif
