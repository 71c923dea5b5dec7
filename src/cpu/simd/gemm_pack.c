/* Panels of matrix operands (cpu/gemm.h says how they are laid out), for every storage type. */
#include <string.h>

#include "cpu/simd/gemm_parts.h"
#include "cpu/simd/vec.h"

/* --- float panels ----------------------------------------------------------------------------- */

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

#define SHUFFLE(a, b, w, x, y, z) __builtin_shufflevector(a, b, w, x, y, z)

typedef uint16_t eight __attribute__((vector_size(16), aligned(2), may_alias));

/* Elements of both in turn. */
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define UPPER(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Four steps in depth of four lanes, from rows to columns of a panel. */
TLI_INLINE void transpose_block(float *dst, int64_t width, const float *x, const float *y,
                                const float *z, const float *w)
{
    const four a = *(const four *)x, b = *(const four *)y;
    const four c = *(const four *)z, d = *(const four *)w;
    const four ab_low = SHUFFLE(a, b, 0, 4, 1, 5), ab_high = SHUFFLE(a, b, 2, 6, 3, 7);
    const four cd_low = SHUFFLE(c, d, 0, 4, 1, 5), cd_high = SHUFFLE(c, d, 2, 6, 3, 7);
    *(four *)dst = SHUFFLE(ab_low, cd_low, 0, 1, 4, 5);
    *(four *)(dst + width) = SHUFFLE(ab_low, cd_low, 2, 3, 6, 7);
    *(four *)(dst + 2 * width) = SHUFFLE(ab_high, cd_high, 0, 1, 4, 5);
    *(four *)(dst + 3 * width) = SHUFFLE(ab_high, cd_high, 2, 3, 6, 7);
}

/* dst[p * width + l] = from[l][p] */
static void transpose_four(float *dst, int width, const float *const from[4], int64_t depth)
{
    int64_t p = 0;
    for (; p + 4 <= depth; p += 4, dst += 4 * width)
        transpose_block(dst, width, from[0] + p, from[1] + p, from[2] + p, from[3] + p);
    for (; p < depth; p++, dst += width)
        for (int l = 0; l < 4; l++) dst[l] = from[l][p];
}

/* The same for eight steps of bfloat16, which are the upper halves of floats. */
TLI_INLINE void transpose_halves(float *dst, int64_t width, const uint16_t *x, const uint16_t *y,
                                 const uint16_t *z, const uint16_t *w)
{
    const eight zero = {0};
    const eight a = *(const eight *)x, b = *(const eight *)y;
    const eight c = *(const eight *)z, d = *(const eight *)w;
    const eight ab[] = {LOWER(a, b), UPPER(a, b)}, cd[] = {LOWER(c, d), UPPER(c, d)};
    UNROLLED(int i = 0; i < 2; i++) {
        // All four lanes of two steps each.
        const eight first = __builtin_shufflevector(ab[i], cd[i], 0, 1, 8, 9, 2, 3, 10, 11);
        const eight second = __builtin_shufflevector(ab[i], cd[i], 4, 5, 12, 13, 6, 7, 14, 15);
        float *to = dst + 4 * i * width;
        *(eight *)to = LOWER(zero, first);
        *(eight *)(to + width) = UPPER(zero, first);
        *(eight *)(to + 2 * width) = LOWER(zero, second);
        *(eight *)(to + 3 * width) = UPPER(zero, second);
    }
}

/* A line of the cache of each of four lanes, `lane` apart. */
TLI_INLINE void transpose_line_f32(float *dst, int64_t width, const float *from, int64_t lane)
{
    UNROLLED(int q = 0; q < 16; q += 4)
        transpose_block(dst + q * width, width, from + q, from + lane + q, from + 2 * lane + q,
                        from + 3 * lane + q);
}

TLI_INLINE void transpose_line_bf16(float *dst, int64_t width, const uint16_t *from, int64_t lane)
{
    UNROLLED(int q = 0; q < 32; q += 8)
        transpose_halves(dst + q * width, width, from + q, from + lane + q, from + 2 * lane + q,
                         from + 3 * lane + q);
}

TLI_INLINE void transpose_line_f16(float *dst, int64_t width, const uint16_t *from, int64_t lane)
{
    float room[4][32];
    for (int l = 0; l < 4; l++)
        for (int q = 0; q < 32; q += VF) vf_store(room[l] + q, vf_load_f16(from + l * lane + q));
    const float *const lanes[] = {room[0], room[1], room[2], room[3]};
    transpose_four(dst, (int)width, lanes, 32);
}

#define BODY "cpu/simd/gemm_pack.inc"
#include "cpu/simd/each_float.h"

static void pack_float(void *dst, int width, const void *src, tl_dtype type, int64_t lane,
                       int64_t step, int64_t count, int64_t depth)
{
    TL_ASSERT((type == TL_F32 || type == TL_BF16 || type == TL_F16) && count >= 0 && depth >= 0);
    switch (type) {
    case TL_BF16: pack_bf16(dst, width, src, lane, step, count, depth); break;
    case TL_F16: pack_f16(dst, width, src, lane, step, count, depth); break;
    default: pack_f32(dst, width, src, lane, step, count, depth); break;
    }
}

static void gather_float(void *dst, int width, const void *const *rows, int count, tl_dtype type,
                         int64_t depth)
{
    TL_ASSERT((type == TL_F32 || type == TL_BF16 || type == TL_F16) && count >= 0
              && count <= width);
    switch (type) {
    case TL_BF16: pack_rows_bf16(dst, width, (const tli_bf16 *const *)rows, count, depth); break;
    case TL_F16: pack_rows_f16(dst, width, (const tli_f16 *const *)rows, count, depth); break;
    default: pack_rows_f32(dst, width, (const float *const *)rows, count, depth); break;
    }
}

/* --- double panels ---------------------------------------------------------------------------- */

enum { GEMM_MR_F64 = 4, GEMM_NR_F64 = VD * (GEMM_NR / VF) };
_Static_assert(GEMM_NR_F64 % VD == 0 && (int)GEMM_NR_F64 <= (int)GEMM_WIDEST,
               "as many vectors as tiles of floats have");

static void pack_double(void *dst, int width, const void *src, tl_dtype type, int64_t lane,
                        int64_t step, int64_t count, int64_t depth)
{
    TL_ASSERT(type == TL_F64 && count > 0 && depth >= 0);
    (void)type;
    double *to = dst;
    const double *from = src;
    for (int64_t first = 0; first < count; first += width)
        for (int64_t p = 0; p < depth; p++)
            for (int64_t i = first; i < first + width; i++)
                *to++ = i < count ? from[p * step + i * lane] : 0;
}

static void gather_double(void *dst, int width, const void *const *rows, int count, tl_dtype type,
                          int64_t depth)
{
    TL_ASSERT(type == TL_F64 && count >= 0 && count <= width);
    (void)type;
    double *to = dst;
    for (int64_t p = 0; p < depth; p++)
        for (int i = 0; i < width; i++)
            *to++ = i < count && rows[i] ? ((const double *)rows[i])[p] : 0;
}

/* --- bfloat16 panels: on NEON blocks of 2 lanes by 4 in depth --------------------------------- */

#if defined(TLI_ISA_neon_bf16)

_Static_assert(GEMM_HALF_MR % 4 == 0 && GEMM_HALF_NR % 4 == 0 && GEMM_HALF_KR == 4,
               "blocks of 2 lanes by 4, in pairs");

/* Lane i, depth p is at [(p / 4 * width / 2 + i / 2) * 8 + i % 2 * 4 + p % 4]. */
static uint16_t *block_of(uint16_t *dst, int width, int i, int64_t p)
{
    return dst + (p / 4 * (width / 2) + i / 2) * 8;
}

/* Two lanes whose depth is side by side; NULL is zeros. */
static void pack_pair(uint16_t *dst, int width, const uint16_t *x, const uint16_t *y, int64_t depth)
{
    const uint64x2_t zero = vdupq_n_u64(0);
    int64_t p = 0;
    const int64_t block = (int64_t)width / 2 * 8;
    for (; p + 8 <= depth; p += 8, dst += 2 * block) {
        uint64x2_t xs = x ? vreinterpretq_u64_u16(vld1q_u16(x + p)) : zero;
        uint64x2_t ys = y ? vreinterpretq_u64_u16(vld1q_u16(y + p)) : zero;
        vst1q_u16(dst, vreinterpretq_u16_u64(vzip1q_u64(xs, ys)));
        vst1q_u16(dst + block, vreinterpretq_u16_u64(vzip2q_u64(xs, ys)));
    }
    for (; p < depth; p += 4, dst += block)
        for (int64_t q = 0; q < 4; q++) {
            dst[q] = x && p + q < depth ? x[p + q] : 0;
            dst[4 + q] = y && p + q < depth ? y[p + q] : 0;
        }
}

/* A lane, or a step, that is not there: as many as are asked for by those below. */
enum { ZEROS = 1024 };
static const uint16_t zeros[ZEROS];

/* Eight in depth of all lanes, each of which lies side by side: lines of the panel are written
 * whole. */
TLI_INLINE void pack_eight(uint16_t *dst, const int width, const uint16_t *const *rows, int64_t p)
{
    UNROLLED(int i = 0; i < width; i += 2) {
        const uint64x2_t x = vreinterpretq_u64_u16(vld1q_u16(rows[i] + p));
        const uint64x2_t y = vreinterpretq_u64_u16(vld1q_u16(rows[i + 1] + p));
        vst1q_u16(dst + 4 * i, vreinterpretq_u16_u64(vzip1q_u64(x, y)));
        vst1q_u16(dst + 4 * (width + i), vreinterpretq_u16_u64(vzip2q_u64(x, y)));
    }
}

/* The same for all the depth, whose rest is left. `ahead` elements behind each lane lies that of
 * the next panel, which is called for; 0: there is none. */
TLI_INLINE void pack_lanes(uint16_t *dst, const int width, const uint16_t *const *rows,
                           int64_t depth, int64_t ahead)
{
    enum { LINE = 32 }; // elements
    const int64_t lines = ahead ? depth / LINE : 0;
    int64_t p = 0;
    ROLLED(; p < lines * LINE; p += LINE)
    {
        UNROLLED(int i = 0; i < width; i++) __builtin_prefetch(rows[i] + p + ahead);
        UNROLLED(int q = 0; q < LINE; q += 8, dst += 8 * width) pack_eight(dst, width, rows, p + q);
    }
    for (; p + 8 <= depth; p += 8, dst += 8 * width) pack_eight(dst, width, rows, p);
}

/* Lanes `lane` apart; there are `more` behind them. */
TLI_INLINE void pack_far_lanes(uint16_t *dst, const int width, const uint16_t *src, int64_t lane,
                               int64_t depth, int64_t more)
{
    const uint16_t *rows[GEMM_NR];
    for (int i = 0; i < width; i++) rows[i] = src + i * lane;
    pack_lanes(dst, width, rows, depth, more >= width ? width * lane : 0);
    const int64_t done = depth / 8 * 8;
    for (int i = 0; i < width && done < depth; i += 2)
        pack_pair(block_of(dst, width, i, done), width, rows[i] + done, rows[i + 1] + done,
                  depth - done);
}

/* Four steps of lanes side by side: 8, or 4, lanes at a time become 4, or 2, blocks. */
TLI_INLINE void pack_steps(uint16_t *dst, const int width, const uint16_t *s0, const uint16_t *s1,
                           const uint16_t *s2, const uint16_t *s3)
{
    int i = 0;
    UNROLLED(; i + 8 <= width; i += 8) {
        const uint16x8_t r0 = vld1q_u16(s0 + i), r1 = vld1q_u16(s1 + i);
        const uint16x8_t r2 = vld1q_u16(s2 + i), r3 = vld1q_u16(s3 + i);
        const uint32x4_t low01 = vreinterpretq_u32_u16(vzip1q_u16(r0, r1));
        const uint32x4_t high01 = vreinterpretq_u32_u16(vzip2q_u16(r0, r1));
        const uint32x4_t low23 = vreinterpretq_u32_u16(vzip1q_u16(r2, r3));
        const uint32x4_t high23 = vreinterpretq_u32_u16(vzip2q_u16(r2, r3));
        vst1q_u16(dst + 4 * i, vreinterpretq_u16_u32(vzip1q_u32(low01, low23)));
        vst1q_u16(dst + 4 * i + 8, vreinterpretq_u16_u32(vzip2q_u32(low01, low23)));
        vst1q_u16(dst + 4 * i + 16, vreinterpretq_u16_u32(vzip1q_u32(high01, high23)));
        vst1q_u16(dst + 4 * i + 24, vreinterpretq_u16_u32(vzip2q_u32(high01, high23)));
    }
    UNROLLED(; i < width; i += 4) {
        const uint16x4_t zero = vdup_n_u16(0);
        const uint16x8_t r0 = vcombine_u16(vld1_u16(s0 + i), zero);
        const uint16x8_t r1 = vcombine_u16(vld1_u16(s1 + i), zero);
        const uint16x8_t r2 = vcombine_u16(vld1_u16(s2 + i), zero);
        const uint16x8_t r3 = vcombine_u16(vld1_u16(s3 + i), zero);
        const uint32x4_t low01 = vreinterpretq_u32_u16(vzip1q_u16(r0, r1));
        const uint32x4_t low23 = vreinterpretq_u32_u16(vzip1q_u16(r2, r3));
        vst1q_u16(dst + 4 * i, vreinterpretq_u16_u32(vzip1q_u32(low01, low23)));
        vst1q_u16(dst + 4 * i + 8, vreinterpretq_u16_u32(vzip2q_u32(low01, low23)));
    }
}

/* Lanes side by side, steps `step` apart. */
static void pack_beside_half(uint16_t *dst, int width, const uint16_t *src, int64_t step,
                             int64_t depth)
{
    int64_t p = 0;
    ROLLED(; p + 4 <= depth; p += 4, src += 4 * step, dst += 4 * width)
    pack_steps(dst, width, src, src + step, src + 2 * step, src + 3 * step);
    if (p < depth)
        pack_steps(dst, width, src, p + 1 < depth ? src + step : zeros,
                   p + 2 < depth ? src + 2 * step : zeros, zeros);
}

/* The same where steps lie anywhere, `offset` behind these places. */
TLI_INLINE void gather_steps_half(void *dst_, const int width, const void *const *steps,
                                  size_t offset, int64_t depth)
{
    uint16_t *dst = dst_;
    ROLLED(int64_t p = 0; p < depth; p += 4, dst += 4 * width)
    {
        const uint16_t *s[4];
        for (int q = 0; q < 4; q++)
            s[q] = p + q < depth && steps[p + q]
                       ? (const uint16_t *)(const void *)((const char *)steps[p + q] + offset)
                       : zeros;
        pack_steps(dst, width, s[0], s[1], s[2], s[3]);
    }
}

/* The first `count` lanes of a panel side by side: through rows that have room for all of them. */
static void pack_beside_half_some(uint16_t *dst, int width, const uint16_t *src, int64_t step,
                                  int count, int64_t depth)
{
    enum { ROWS = 32 };
    uint16_t room[ROWS * GEMM_NR] = {0};
    TL_ASSERT(count > 0 && count <= width && width <= GEMM_NR);
    for (int64_t p = 0; p < depth; p += ROWS) {
        const int64_t rows = depth - p < ROWS ? depth - p : ROWS;
        for (int64_t q = 0; q < rows; q++)
            memcpy(room + q * width, src + (p + q) * step, (size_t)count * sizeof *src);
        pack_beside_half(dst + p * width, width, room, width, rows);
    }
}

/* There are `more` lanes behind these. */
static void pack_panel_half(uint16_t *dst, int width, const uint16_t *src, int64_t lane,
                            int64_t step, int count, int64_t depth, int64_t more)
{
    if (lane == 1) {
        pack_beside_half_some(dst, width, src, step, count, depth);
    } else if (step == 1 && count == width) {
        if (width == GEMM_MR) pack_far_lanes(dst, GEMM_MR, src, lane, depth, more);
        else pack_far_lanes(dst, GEMM_NR, src, lane, depth, more);
    } else if (step == 1) {
        for (int i = 0; i < width; i += 2)
            pack_pair(block_of(dst, width, i, 0), width, i < count ? src + i * lane : NULL,
                      i + 1 < count ? src + (i + 1) * lane : NULL, depth);
    } else {
        for (int64_t p = 0; p < depth; p += 4)
            for (int i = 0; i < width; i++)
                for (int64_t q = p; q < p + 4; q++)
                    block_of(dst, width, i, p)[i % 2 * 4 + q - p] =
                        i < count && q < depth ? src[q * step + i * lane] : 0;
    }
}

/* Several whole panels of lanes side by side: some rows of each in turn, so that whole lines of the
 * source are used while they are near. */
static void pack_beside_half_panels(uint16_t *dst, int width, const uint16_t *src, int64_t step,
                                    int64_t count, int64_t depth)
{
    enum { ROWS = 16 }; // of 768 columns they are 24 KiB, beside what is written of each panel
    const int64_t padded = (depth + 3) / 4 * 4;
    for (int64_t p = 0; p < depth; p += ROWS)
        for (int64_t i = 0; i < count; i += width)
            pack_beside_half(dst + i * padded + p * width, width, src + p * step + i, step,
                             depth - p < ROWS ? depth - p : ROWS);
}

static void pack_half(void *dst, int width, const void *src, tl_dtype type, int64_t lane,
                      int64_t step, int64_t count, int64_t depth)
{
    TL_ASSERT(type == TL_BF16 && width % 4 == 0 && depth >= 0);
    (void)type;
    uint16_t *to = dst;
    const uint16_t *from = src;
    const int64_t padded = (depth + 3) / 4 * 4;
    int64_t i = 0;
    if (lane == 1) {
        i = count / width * width;
        pack_beside_half_panels(to, width, from, step, i, depth);
    }
    for (; i < count; i += width)
        pack_panel_half(to + i * padded, width, from + i * lane, lane, step,
                        (int)(count - i < width ? count - i : width), depth,
                        count - i < width ? 0 : count - i - width);
}

TLI_INLINE void gather_half(void *dst, const int width, const void *const *rows, int count,
                            tl_dtype type, int64_t depth)
{
    (void)type;
    const int64_t at_once = depth <= ZEROS ? depth / 8 * 8 : 0;
    if (at_once > 0) {
        const uint16_t *all[GEMM_NR];
        for (int i = 0; i < width; i++) all[i] = i < count && rows[i] ? rows[i] : zeros;
        pack_lanes(dst, width, all, depth, 0);
    }
    if (at_once == depth) return;
    for (int i = 0; i < width; i += 2) {
        const uint16_t *x = i < count ? rows[i] : NULL, *y = i + 1 < count ? rows[i + 1] : NULL;
        pack_pair(block_of(dst, width, i, at_once), width, x ? x + at_once : NULL,
                  y ? y + at_once : NULL, depth - at_once);
    }
}

#define pack_half_a pack_half
#define pack_half_b pack_half
#define gather_half_a gather_half
#define gather_half_b gather_half

#elif defined(GEMM_HALF)
#include "cpu/simd/gemm_pack_amx.h"
#endif

/* --- exported --------------------------------------------------------------------------------- */

#define EXPORT(side, kind, width, pack_it, gather_it)                                              \
    void TLI_ISA_NAME(tli_gemm_pack_##side##_##kind)(void *dst, const void *src, tl_dtype type,    \
                                                     int64_t lane, int64_t step, int64_t count,    \
                                                     int64_t depth)                                \
    {                                                                                              \
        pack_it(dst, width, src, type, lane, step, count, depth);                                  \
    }                                                                                              \
    void TLI_ISA_NAME(tli_gemm_gather_##side##_##kind)(void *dst, const void *const *rows,         \
                                                       int count, tl_dtype type, int64_t depth)    \
    {                                                                                              \
        gather_it(dst, width, rows, count, type, depth);                                           \
    }
EXPORT(a, f32, GEMM_MR, pack_float, gather_float)
EXPORT(b, f32, GEMM_NR, pack_float, gather_float)
EXPORT(rows, f32, GEMM_ROWS_NR, pack_float, gather_float)
EXPORT(a, f64, GEMM_MR_F64, pack_double, gather_double)
EXPORT(b, f64, GEMM_NR_F64, pack_double, gather_double)
#if defined(GEMM_HALF)
EXPORT(a, bf16, GEMM_HALF_MR, pack_half_a, gather_half_a)
EXPORT(b, bf16, GEMM_HALF_NR, pack_half_b, gather_half_b)
#endif
#if defined(TLI_ISA_neon_bf16)
EXPORT(a, turned, GEMM_TURNED_MR, pack_half_a, gather_half_a)
EXPORT(b, turned, GEMM_TURNED_NR, pack_half_b, gather_half_b)

void TLI_ISA_NAME(tli_gemm_gather_steps_a_bf16)(void *dst, const void *const *steps, size_t offset,
                                                int64_t depth)
{
    gather_steps_half(dst, GEMM_HALF_MR, steps, offset, depth);
}

void TLI_ISA_NAME(tli_gemm_gather_steps_a_turned)(void *dst, const void *const *steps,
                                                  size_t offset, int64_t depth)
{
    gather_steps_half(dst, GEMM_TURNED_MR, steps, offset, depth);
}
#endif
