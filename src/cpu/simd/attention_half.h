/* Panels of bfloat16 (cpu/gemm.h) from a tile of floats, rounded on the way. */
#ifndef TLI_CPU_SIMD_ATTENTION_HALF_H
#define TLI_CPU_SIMD_ATTENTION_HALF_H

#include <arm_neon.h>
#include <stdint.h>

/* Four values beside each other of two rows. */
static inline uint16x8_t half_pair(float32x4_t x, float32x4_t y)
{
    return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(x), y));
}

/* Lanes side by side, steps in depth `row` floats apart: one panel of 8 lanes. */
static inline void half_pack_down(uint16_t *to, const float *from, int64_t row, int64_t depth)
{
    const float32x4_t zero = vdupq_n_f32(0);
    for (int64_t p = 0; p < depth; p += 4, to += 32, from += 4 * row) {
        uint16x8_t r[4];
        for (int i = 0; i < 4; i++)
            r[i] = p + i < depth
                       ? half_pair(vld1q_f32(from + i * row), vld1q_f32(from + i * row + 4))
                       : half_pair(zero, zero);
        const uint32x4_t low01 = vreinterpretq_u32_u16(vzip1q_u16(r[0], r[1]));
        const uint32x4_t high01 = vreinterpretq_u32_u16(vzip2q_u16(r[0], r[1]));
        const uint32x4_t low23 = vreinterpretq_u32_u16(vzip1q_u16(r[2], r[3]));
        const uint32x4_t high23 = vreinterpretq_u32_u16(vzip2q_u16(r[2], r[3]));
        vst1q_u16(to, vreinterpretq_u16_u32(vzip1q_u32(low01, low23)));
        vst1q_u16(to + 8, vreinterpretq_u16_u32(vzip2q_u32(low01, low23)));
        vst1q_u16(to + 16, vreinterpretq_u16_u32(vzip1q_u32(high01, high23)));
        vst1q_u16(to + 24, vreinterpretq_u16_u32(vzip2q_u32(high01, high23)));
    }
}

/* Depth side by side, lanes `row` floats apart: one panel of 8 lanes, those from `lanes` on zeros.
 * What the tile holds beyond `depth`, up to a multiple of 4, is read and must be finite where the
 * other operand has zeros. */
static inline void half_pack_across(uint16_t *to, const float *from, int64_t row, int lanes,
                                    int64_t depth)
{
    const float32x4_t zero = vdupq_n_f32(0);
    for (int i = 0; i < 8; i += 2) {
        uint16_t *at = to + i / 2 * 8;
        const float *x = from + i * row, *y = x + row;
        if (i + 1 < lanes)
            for (int64_t p = 0; p < depth; p += 4, at += 32)
                vst1q_u16(at, half_pair(vld1q_f32(x + p), vld1q_f32(y + p)));
        else
            for (int64_t p = 0; p < depth; p += 4, at += 32)
                vst1q_u16(at, half_pair(i < lanes ? vld1q_f32(x + p) : zero, zero));
    }
}

#endif
