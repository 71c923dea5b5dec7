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

/* 4 steps of 8 lanes side by side, `row` floats apart, of which `steps` are there: the 4 blocks of
 * a panel. */
static inline void half_blocks(uint16x8_t to[4], const float *from, int64_t row, int64_t steps)
{
    const float32x4_t zero = vdupq_n_f32(0);
    uint16x8_t r[4];
    for (int i = 0; i < 4; i++)
        r[i] = i < steps ? half_pair(vld1q_f32(from + i * row), vld1q_f32(from + i * row + 4))
                         : half_pair(zero, zero);
    const uint32x4_t low01 = vreinterpretq_u32_u16(vzip1q_u16(r[0], r[1]));
    const uint32x4_t high01 = vreinterpretq_u32_u16(vzip2q_u16(r[0], r[1]));
    const uint32x4_t low23 = vreinterpretq_u32_u16(vzip1q_u16(r[2], r[3]));
    const uint32x4_t high23 = vreinterpretq_u32_u16(vzip2q_u16(r[2], r[3]));
    to[0] = vreinterpretq_u16_u32(vzip1q_u32(low01, low23));
    to[1] = vreinterpretq_u16_u32(vzip2q_u32(low01, low23));
    to[2] = vreinterpretq_u16_u32(vzip1q_u32(high01, high23));
    to[3] = vreinterpretq_u16_u32(vzip2q_u32(high01, high23));
}

/* Lanes side by side, steps in depth `row` floats apart: one panel of 8 lanes. */
static inline void half_pack_down(uint16_t *to, const float *from, int64_t row, int64_t depth)
{
    for (int64_t p = 0; p < depth; p += 4, to += 32, from += 4 * row) {
        uint16x8_t blocks[4];
        half_blocks(blocks, from, row, depth - p);
        for (int i = 0; i < 4; i++) vst1q_u16(to + 8 * i, blocks[i]);
    }
}

/* The same without what was drawn below `least`. Draws lie as blocks do, the depth of a lane side
 * by side; those of lanes and steps that are not there are read. */
static inline void half_pack_drawn(uint16_t *to, const float *from, int64_t row, int64_t depth,
                                   const float *drawn, int64_t drawn_row, float least)
{
    const float32x4_t bound = vdupq_n_f32(least);
    for (int64_t p = 0; p < depth; p += 4, to += 32, from += 4 * row) {
        uint16x8_t blocks[4];
        half_blocks(blocks, from, row, depth - p);
        for (int i = 0; i < 4; i++) {
            const float *at = drawn + 2 * i * drawn_row + p;
            const uint32x4_t x = vcgeq_f32(vld1q_f32(at), bound);
            const uint32x4_t y = vcgeq_f32(vld1q_f32(at + drawn_row), bound);
            const uint16x8_t stays = vuzp1q_u16(vreinterpretq_u16_u32(x), vreinterpretq_u16_u32(y));
            vst1q_u16(to + 8 * i, vandq_u16(blocks[i], stays));
        }
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
