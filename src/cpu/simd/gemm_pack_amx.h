/* Panels of bfloat16 for AMX (cpu/gemm.h).
 *
 * Pairs of numbers that follow each other in depth are one 32-bit word. A block of a panel, which
 * is what a tile register holds, is 16 lanes by 16 such words: of a `lanes first`, where a row is
 * one lane, and of b `pairs first`, where it is one pair of steps of all lanes. Whichever way a
 * matrix lies, one of the two is a plain load, and turning the block gives the other. A panel is
 * blocks of all its lanes, for one step of 32 in depth after the other. */
#ifndef TLI_CPU_SIMD_GEMM_PACK_AMX_H
#define TLI_CPU_SIMD_GEMM_PACK_AMX_H

#include <immintrin.h>

#include "cpu/simd/gemm_parts.h"
#include "cpu/simd/vec.h"

enum { BLOCK_LANES = 16, BLOCK_DEPTH = 32 };
_Static_assert(GEMM_HALF_MR % BLOCK_LANES == 0 && GEMM_HALF_NR % BLOCK_LANES == 0,
               "panels are whole blocks");
_Static_assert((int)GEMM_HALF_KR == (int)BLOCK_DEPTH && (int)GEMM_HALF_MR <= (int)GEMM_WIDEST,
               "a step in depth is a block");

/* --- blocks ----------------------------------------------------------------------------------- */

/* r[i] word j <-> r[j] word i */
TLI_INLINE void turn_block(__m512i r[BLOCK_LANES])
{
    __m512i t[BLOCK_LANES];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    // r[4 q + c]: of rows 4 q to 4 q + 3, the words 4 s + c of each quarter s.
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int c = 0; c < 4; c++) {
        t[c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
        t[4 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
        t[8 + c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
        t[12 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
    }
    for (int c = 0; c < 4; c++) {
        r[c] = _mm512_shuffle_i32x4(t[c], t[4 + c], 0x88);
        r[8 + c] = _mm512_shuffle_i32x4(t[c], t[4 + c], 0xdd);
        r[4 + c] = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0x88);
        r[12 + c] = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0xdd);
    }
}

/* Lanes first, from rows that are side by side in depth; NULL is zeros. */
TLI_INLINE void load_deep(__m512i r[BLOCK_LANES], const uint16_t *const *rows, int lanes, int64_t p,
                          int64_t depth)
{
    const int64_t left = depth - p;
    const __mmask32 mask = left >= BLOCK_DEPTH ? 0xffffffffu : (1u << left) - 1;
    for (int i = 0; i < BLOCK_LANES; i++) {
        const bool there = i < lanes && rows[i];
        r[i] = there ? _mm512_maskz_loadu_epi16(mask, rows[i] + p) : _mm512_setzero_si512();
    }
}

/* Pairs first, from lanes that are side by side, steps in depth `step` apart. */
TLI_INLINE void load_beside(__m512i r[BLOCK_LANES], const uint16_t *src, int64_t step, int lanes,
                            int64_t depth)
{
    const __mmask16 mask = lanes >= BLOCK_LANES ? 0xffff : (__mmask16)((1u << lanes) - 1);
    for (int i = 0; i < BLOCK_LANES; i++, src += 2 * step) {
        const __m256i zero = _mm256_setzero_si256();
        const __m256i x = 2 * i < depth ? _mm256_maskz_loadu_epi16(mask, src) : zero;
        const __m256i y = 2 * i + 1 < depth ? _mm256_maskz_loadu_epi16(mask, src + step) : zero;
        r[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(x),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(y), 16));
    }
}

/* The block of lanes 16 t on, depth p on, of a panel. */
TLI_INLINE void store_block(uint16_t *panel, int width, int64_t p, int t, __m512i r[BLOCK_LANES],
                            const bool is_a, const bool lanes_first)
{
    uint16_t *to = panel + p * width + t * BLOCK_LANES * BLOCK_DEPTH;
    if (is_a != lanes_first) turn_block(r);
    for (int i = 0; i < BLOCK_LANES; i++) _mm512_storeu_si512(to + i * BLOCK_DEPTH, r[i]);
}

/* --- panels ----------------------------------------------------------------------------------- */

TLI_INLINE void gather_panel(uint16_t *panel, int width, const uint16_t *const *rows, int count,
                             int64_t depth, const bool is_a)
{
    for (int64_t p = 0; p < depth; p += BLOCK_DEPTH)
        for (int t = 0; t * BLOCK_LANES < width; t++) {
            __m512i r[BLOCK_LANES];
            load_deep(r, rows + t * BLOCK_LANES, count - t * BLOCK_LANES, p, depth);
            store_block(panel, width, p, t, r, is_a, true);
        }
}

TLI_INLINE void beside_panel(uint16_t *panel, int width, const uint16_t *src, int64_t step,
                             int count, int64_t depth, const bool is_a)
{
    for (int64_t p = 0; p < depth; p += BLOCK_DEPTH)
        for (int t = 0; t * BLOCK_LANES < width; t++) {
            __m512i r[BLOCK_LANES];
            const int lanes = count - t * BLOCK_LANES;
            const bool there = lanes > 0; // else nothing of it may be read
            load_beside(r, there ? src + p * step + t * BLOCK_LANES : src, step, there ? lanes : 0,
                        depth - p);
            store_block(panel, width, p, t, r, is_a, false);
        }
}

/* Neither is side by side: through rows that are put together before. */
TLI_INLINE void strided_panel(uint16_t *panel, int width, const uint16_t *src, int64_t lane,
                              int64_t step, int count, int64_t depth, const bool is_a)
{
    uint16_t room[GEMM_WIDEST][BLOCK_DEPTH];
    const uint16_t *rows[GEMM_WIDEST];
    for (int i = 0; i < count; i++) rows[i] = room[i];
    for (int64_t p = 0; p < depth; p += BLOCK_DEPTH) {
        const int64_t some = depth - p < BLOCK_DEPTH ? depth - p : BLOCK_DEPTH;
        for (int i = 0; i < count; i++)
            for (int64_t q = 0; q < some; q++) room[i][q] = src[(p + q) * step + i * lane];
        gather_panel(panel + p * width, width, rows, count, some, is_a);
    }
}

TLI_INLINE void pack_half_side(void *dst, int width, const void *src, int64_t lane, int64_t step,
                               int64_t count, int64_t depth, const bool is_a)
{
    const int64_t padded = (depth + GEMM_HALF_KR - 1) / GEMM_HALF_KR * GEMM_HALF_KR;
    for (int64_t i = 0; i < count; i += width) {
        uint16_t *panel = (uint16_t *)dst + i * padded;
        const uint16_t *from = (const uint16_t *)src + i * lane;
        const int here = (int)(count - i < width ? count - i : width);
        TL_ASSERT(here > 0 && width <= GEMM_WIDEST);
        if (step == 1) {
            const uint16_t *rows[GEMM_WIDEST];
            for (int l = 0; l < here; l++) rows[l] = from + l * lane;
            gather_panel(panel, width, rows, here, depth, is_a);
        } else if (lane == 1) {
            beside_panel(panel, width, from, step, here, depth, is_a);
        } else {
            strided_panel(panel, width, from, lane, step, here, depth, is_a);
        }
    }
}

/* Two steps of 32 lanes: the pairs of the first 16, and of the others. */
TLI_INLINE void join_steps(__m512i *low, __m512i *high, __m512i x, __m512i y)
{
    const __m512i near = _mm512_unpacklo_epi16(x, y), far = _mm512_unpackhi_epi16(x, y);
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    *low = _mm512_permutex2var_epi64(near, first, far);
    *high = _mm512_permutex2var_epi64(near, second, far);
}

TLI_INLINE __m512i load_step(const void *step, size_t offset)
{
    return step ? _mm512_loadu_si512((const char *)step + offset) : _mm512_setzero_si512();
}

void TLI_ISA_NAME(tli_gemm_gather_steps_b_bf16)(void *dst, const void *const *steps, size_t offset,
                                                int64_t depth)
{
    enum { TILE_HALVES = BLOCK_LANES * BLOCK_DEPTH };
    uint16_t *to = dst;
    for (int64_t p = 0; p < depth; p += BLOCK_DEPTH, to += 2 * TILE_HALVES)
        for (int q = 0; q < BLOCK_DEPTH; q += 2) {
            const void *first = p + q < depth ? steps[p + q] : NULL;
            const void *second = p + q + 1 < depth ? steps[p + q + 1] : NULL;
            __m512i low, high;
            join_steps(&low, &high, load_step(first, offset), load_step(second, offset));
            _mm512_storeu_si512(to + q * BLOCK_LANES, low);
            _mm512_storeu_si512(to + TILE_HALVES + q * BLOCK_LANES, high);
        }
}

#define HALF_SIDE(side, is_a)                                                                      \
    static void pack_half_##side(void *dst, int width, const void *src, tl_dtype type,             \
                                 int64_t lane, int64_t step, int64_t count, int64_t depth)         \
    {                                                                                              \
        (void)type;                                                                                \
        pack_half_side(dst, width, src, lane, step, count, depth, is_a);                           \
    }                                                                                              \
    static void gather_half_##side(void *dst, int width, const void *const *rows, int count,       \
                                   tl_dtype type, int64_t depth)                                   \
    {                                                                                              \
        (void)type;                                                                                \
        gather_panel(dst, width, (const uint16_t *const *)rows, count, depth, is_a);               \
    }
HALF_SIDE(a, true)
HALF_SIDE(b, false)
#undef HALF_SIDE

#endif
