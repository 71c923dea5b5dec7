/* The 8 x 12 tile of floats on NEON, and its bfloat16 twin on BFMMLA, written out: compilers move
 * the loads together and spill sums. Here a load stands between every few multiply-adds, which
 * keeps all four pipes of a wide core busy to within a few percent.
 *
 * Registers: v8 to v31 hold the sums; v0 to v7 what is multiplied. */
#ifndef TLI_CPU_SIMD_GEMM_NEON_H
#define TLI_CPU_SIMD_GEMM_NEON_H

#include <arm_neon.h>

#include "cpu/simd/gemm_parts.h"

// The text of an assembler block may be as long as it needs to be.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"

// clang-format off
#define ALL_VECTORS                                                                                \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
        "v28", "v29", "v30", "v31"

#define ZERO(r) "movi v" #r ".4s, #0\n"
#define ZERO_SUMS                                                                                  \
    ZERO(8) ZERO(9) ZERO(10) ZERO(11) ZERO(12) ZERO(13) ZERO(14) ZERO(15) ZERO(16) ZERO(17)        \
    ZERO(18) ZERO(19) ZERO(20) ZERO(21) ZERO(22) ZERO(23) ZERO(24) ZERO(25) ZERO(26) ZERO(27)      \
    ZERO(28) ZERO(29) ZERO(30) ZERO(31)

#define LOAD(r, from, offset) "ldr q" #r ", [%[" #from "], #" #offset "]\n"
#define NO_LOAD(r, from, offset) ""
#define FMA(sum, b, a, lane) "fmla v" #sum ".4s, v" #b ".4s, v" #a ".s[" #lane "]\n"

_Static_assert(GEMM_MR == 8 && GEMM_NR == 12, "the tile that is written out");
/* --- the end of a tile: rows of three vectors, times alpha, into or onto c -------------------- */

#define SET_ROW(x, y, z)                                                                           \
    "fmul v" #x ".4s, v" #x ".4s, v7.s[0]\n"                                                       \
    "fmul v" #y ".4s, v" #y ".4s, v7.s[0]\n"                                                       \
    "fmul v" #z ".4s, v" #z ".4s, v7.s[0]\n"                                                       \
    "stp q" #x ", q" #y ", [%[c]]\n"                                                               \
    "str q" #z ", [%[c], #32]\n"                                                                   \
    "add %[c], %[c], %[c_row]\n"
#define ADD_ROW(x, y, z)                                                                           \
    "ldp q0, q1, [%[c]]\n"                                                                         \
    "ldr q2, [%[c], #32]\n"                                                                        \
    FMA(0, x, 7, 0) FMA(1, y, 7, 0) FMA(2, z, 7, 0)                                                \
    "stp q0, q1, [%[c]]\n"                                                                         \
    "str q2, [%[c], #32]\n"                                                                        \
    "add %[c], %[c], %[c_row]\n"
#define EACH_ROW(X)                                                                                \
    X(8, 9, 10) X(11, 12, 13) X(14, 15, 16) X(17, 18, 19) X(20, 21, 22) X(23, 24, 25)              \
    X(26, 27, 28) X(29, 30, 31)
/* Where alpha is 1. */
#define PUT_SUMS(x, y, z)                                                                          \
    "stp q" #x ", q" #y ", [%[c]]\n"                                                               \
    "str q" #z ", [%[c], #32]\n"                                                                   \
    "add %[c], %[c], %[c_row]\n"
#define STORE_TILE                                                                                 \
    "dup v7.4s, %w[alpha]\n"                                                                       \
    "cbnz %w[accumulate], 8f\n"                                                                    \
    "cbz %w[plain], 7f\n"                                                                          \
    EACH_ROW(PUT_SUMS) "b 9f\n"                                                                    \
    "7:\n"                                                                                         \
    EACH_ROW(SET_ROW) "b 9f\n"                                                                     \
    "8:\n" EACH_ROW(ADD_ROW) "9:\n"

/* The end of a sum, where alpha is 1: plus a bias. */
#define ADD_BIAS_TO(x, y, z)                                                                       \
    "fadd v" #x ".4s, v" #x ".4s, v4.4s\n"                                                         \
    "fadd v" #y ".4s, v" #y ".4s, v5.4s\n"                                                         \
    "fadd v" #z ".4s, v" #z ".4s, v6.4s\n"
#define PUT_BIASED(x, y, z) ADD_BIAS_TO(x, y, z) PUT_SUMS(x, y, z)
#define ADD_BIASED(x, y, z)                                                                        \
    "ldp q0, q1, [%[c]]\n"                                                                         \
    "ldr q2, [%[c], #32]\n"                                                                        \
    FMA(0, x, 7, 0) FMA(1, y, 7, 0) FMA(2, z, 7, 0) PUT_BIASED(0, 1, 2)
#define STORE_BIASED                                                                               \
    "dup v7.4s, %w[alpha]\n"                                                                       \
    "ldp q4, q5, [%[bias]]\n"                                                                      \
    "ldr q6, [%[bias], #32]\n"                                                                     \
    "cbnz %w[accumulate], 8f\n"                                                                    \
    EACH_ROW(PUT_BIASED) "b 9f\n"                                                                  \
    "8:\n" EACH_ROW(ADD_BIASED) "9:\n"

/* Calls for c long before it is written. */
static inline void fetch_tile(const float *c, int64_t c_row)
{
    for (int i = 0; i < 8; i++) {
        __builtin_prefetch(c + i * c_row, 1);
        __builtin_prefetch(c + i * c_row + 11, 1);
    }
}

/* --- a of which 8 rows lie side by side (packed, or transposed) ------------------------------- */

/* What the next tiles read of a. */
#define FETCH_A "prfm pldl1keep, [%[a], %[a_ahead]]\n"
/* Rows of b that were not packed may be pages apart. */
#define FETCH_B "prfm pldl1keep, [%[b], %[b_ahead]]\n"
/* One step in depth; loads what the next one needs. a in v0, v1, b in v2, v3, v4. */
#define STEP_EVEN                                                                                  \
    FMA(8, 2, 0, 0) FMA(11, 2, 0, 1) LOAD(5, a, 0) FETCH_A FMA(14, 2, 0, 2) FMA(17, 2, 0, 3)       \
    FMA(20, 2, 1, 0) LOAD(6, a, 16) FMA(23, 2, 1, 1) FMA(26, 2, 1, 2) FMA(29, 2, 1, 3)             \
    FMA(9, 3, 0, 0) FMA(12, 3, 0, 1) LOAD(7, b, 0) FMA(15, 3, 0, 2) FMA(18, 3, 0, 3)               \
    FMA(21, 3, 1, 0) FMA(24, 3, 1, 1) LOAD(2, b, 16) FMA(27, 3, 1, 2) FMA(30, 3, 1, 3)             \
    FMA(10, 4, 0, 0) FMA(13, 4, 0, 1) FMA(16, 4, 0, 2) LOAD(3, b, 32) FETCH_B FMA(19, 4, 0, 3)     \
    FMA(22, 4, 1, 0) FMA(25, 4, 1, 1) NEXT_STEP FMA(28, 4, 1, 2) FMA(31, 4, 1, 3)
/* The step after it: a in v5, v6, b in v7, v2, v3. */
#define STEP_ODD(LOAD_, NEXT_STEP_)                                                                \
    FMA(8, 7, 5, 0) FMA(11, 7, 5, 1) LOAD_(0, a, 0) FMA(14, 7, 5, 2) FMA(17, 7, 5, 3)              \
    FMA(20, 7, 6, 0) LOAD_(1, a, 16) FMA(23, 7, 6, 1) FMA(26, 7, 6, 2) FMA(29, 7, 6, 3)            \
    FMA(9, 2, 5, 0) FMA(12, 2, 5, 1) FMA(15, 2, 5, 2) LOAD_(4, b, 32) FETCH_B FMA(18, 2, 5, 3)     \
    FMA(21, 2, 6, 0) FMA(24, 2, 6, 1) FMA(27, 2, 6, 2) FMA(30, 2, 6, 3) LOAD_(2, b, 0)             \
    FMA(10, 3, 5, 0) FMA(13, 3, 5, 1) FMA(16, 3, 5, 2) FMA(19, 3, 5, 3) FMA(22, 3, 6, 0)           \
    FMA(25, 3, 6, 1) FMA(28, 3, 6, 2) FMA(31, 3, 6, 3) LOAD_(3, b, 16) NEXT_STEP_
#define NEXT_STEP                                                                                  \
    "add %[a], %[a], %[a_step]\n"                                                                  \
    "add %[b], %[b], %[b_step]\n"
#define STEP_LAST                                                                                  \
    FMA(8, 2, 0, 0) FMA(11, 2, 0, 1) FMA(14, 2, 0, 2) FMA(17, 2, 0, 3) FMA(20, 2, 1, 0)            \
    FMA(23, 2, 1, 1) FMA(26, 2, 1, 2) FMA(29, 2, 1, 3) FMA(9, 3, 0, 0) FMA(12, 3, 0, 1)            \
    FMA(15, 3, 0, 2) FMA(18, 3, 0, 3) FMA(21, 3, 1, 0) FMA(24, 3, 1, 1) FMA(27, 3, 1, 2)           \
    FMA(30, 3, 1, 3) FMA(10, 4, 0, 0) FMA(13, 4, 0, 1) FMA(16, 4, 0, 2) FMA(19, 4, 0, 3)           \
    FMA(22, 4, 1, 0) FMA(25, 4, 1, 1) FMA(28, 4, 1, 2) FMA(31, 4, 1, 3)
#define LOAD_STEP                                                                                  \
    LOAD(0, a, 0) LOAD(1, a, 16) LOAD(2, b, 0) LOAD(3, b, 16) LOAD(4, b, 32) NEXT_STEP

/* How a depth is walked: pairs of steps that look ahead in b, the rest of them, an odd one. */
typedef struct walk {
    int64_t pairs, rest, odd, a_ahead, b_ahead;
} walk;

static inline walk walk_of(int64_t depth, int64_t a_col, int64_t b_row)
{
    // Behind a panel lies the next one; else the next tiles read on in the same rows.
    // ROW_AHEAD is the next line; ROWS_AHEAD rows of 24 multiply-adds each are about what a line
    // takes from memory.
    enum { PANEL = 8, ROW_AHEAD = 64, ROWS_AHEAD = 16 };
    // Calling for what is not there takes longer than any miss: the last pairs do not look ahead.
    const int64_t last = ROWS_AHEAD / 2 + 2, pairs = depth / 2 > last ? depth / 2 - last : 0;
    const walk w = {.pairs = pairs,
                    .rest = depth / 2 - pairs,
                    .odd = depth % 2,
                    .a_ahead = a_col == PANEL ? TLI_GEMM_READ_AHEAD : ROW_AHEAD,
                    .b_ahead = b_row * 4 * ROWS_AHEAD};
    // The loops below end on these.
    TL_ASSERT(2 * (w.pairs + w.rest) + w.odd == depth && (w.rest > 0 || depth < 2));
    return w;
}

/* All of a tile, for a walk w; STORE is its end, which may have more operands. */
#define TILE_OF_COLUMNS(STORE, MORE_OUT, MORE_IN)                                                  \
    __asm__ volatile(                                                                              \
        ZERO_SUMS                                                                                  \
        "cbz %[rest], 3f\n" LOAD_STEP                                                              \
        "sub %[rest], %[rest], #1\n"                                                               \
        "cbnz %[pairs], 1f\n"                                                                      \
        "5:\n"                                                                                     \
        "mov %[b_ahead], #0\n"                                                                     \
        "mov %[pairs], %[rest]\n"                                                                  \
        "mov %[rest], #0\n"                                                                        \
        "cbz %[pairs], 2f\n"                                                                       \
        ".balign 32\n"                                                                             \
        "1:\n" STEP_EVEN STEP_ODD(LOAD, NEXT_STEP)                                                 \
        "subs %[pairs], %[pairs], #1\n"                                                            \
        "b.ne 1b\n"                                                                                \
        "cbnz %[rest], 5b\n"                                                                       \
        "2:\n" STEP_EVEN STEP_ODD(NO_LOAD, "")                                                     \
        "3:\n"                                                                                     \
        "cbz %[odd], 4f\n" LOAD_STEP STEP_LAST                                                     \
        "4:\n" STORE                                                                               \
        : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [pairs] "+r"(w.pairs), [rest] "+r"(w.rest),       \
          [b_ahead] "+r"(w.b_ahead) MORE_OUT                                                       \
        : [odd] "r"(w.odd), [a_ahead] "r"(w.a_ahead), [a_step] "r"(a_col * 4),                     \
          [b_step] "r"(b_row * 4), [c_row] "r"(c_row * (int64_t)sizeof *c),                        \
          [bias] "r"(bias) MORE_IN                                                                 \
        : "memory", "cc", ALL_VECTORS)
#define FLOATS_IN                                                                                  \
    , [alpha] "r"(tli_float_to_bits(alpha)), [accumulate] "r"((int)accumulate),                    \
      [plain] "r"((int)(alpha == 1))

/* With `bias`, which has a number for each column, alpha is 1. */
static inline void tile_columns(int64_t depth, const float *a, int64_t a_col, const float *b,
                                int64_t b_row, float *c, int64_t c_row, float alpha,
                                bool accumulate, const float *bias)
{
    walk w = walk_of(depth, a_col, b_row);
    if (depth >= 256) fetch_tile(c, c_row); // else c is there before the call for it has paid
    TL_ASSERT(!bias || alpha == 1);
    if (bias) TILE_OF_COLUMNS(STORE_BIASED, , FLOATS_IN);
    else TILE_OF_COLUMNS(STORE_TILE, , FLOATS_IN);
}

static void neon_tile_columns(int64_t depth, const float *a, int64_t a_row, int64_t a_col,
                              const float *b, int64_t b_row, float *c, int64_t c_row, float alpha,
                              bool accumulate)
{
    (void)a_row;
    tile_columns(depth, a, a_col, b, b_row, c, c_row, alpha, accumulate, NULL);
}

/* Panels of 8 and 12. */
static void neon_tile_biased(int64_t depth, const float *a, const float *b, float *c,
                             int64_t c_row, bool accumulate, const float *bias)
{
    tile_columns(depth, a, GEMM_MR, b, GEMM_NR, c, c_row, 1, accumulate, bias);
}

#if !defined(TLI_ISA_neon_bf16)
/* The end of a sum, rounded to bfloat16 as vf_store_bf16 does it, unless there is a NaN: then
 * nothing is stored. v3 is the largest of all sums, which a NaN in any of them makes one. */
#define ADD_SUMS(x, y, z)                                                                          \
    "ldp q0, q1, [%[sums]]\n"                                                                      \
    "ldr q2, [%[sums], #32]\n"                                                                     \
    "add %[sums], %[sums], %[sums_row]\n"                                                          \
    "fadd v" #x ".4s, v" #x ".4s, v0.4s\n"                                                         \
    "fadd v" #y ".4s, v" #y ".4s, v1.4s\n"                                                         \
    "fadd v" #z ".4s, v" #z ".4s, v2.4s\n"
#define LARGEST(x, y, z)                                                                           \
    "fmax v0.4s, v" #x ".4s, v" #y ".4s\n"                                                         \
    "fmax v3.4s, v3.4s, v" #z ".4s\n"                                                              \
    "fmax v3.4s, v3.4s, v0.4s\n"
#define ROUND_SUMS(x, y, z)                                                                        \
    "cmtst v0.4s, v" #x ".4s, v4.4s\n"                                                             \
    "cmtst v1.4s, v" #y ".4s, v4.4s\n"                                                             \
    "cmtst v2.4s, v" #z ".4s, v4.4s\n"                                                             \
    "sub v0.4s, v" #x ".4s, v0.4s\n"                                                               \
    "sub v1.4s, v" #y ".4s, v1.4s\n"                                                               \
    "sub v2.4s, v" #z ".4s, v2.4s\n"                                                               \
    "addhn v0.4h, v0.4s, v5.4s\n"                                                                  \
    "addhn2 v0.8h, v1.4s, v5.4s\n"                                                                 \
    "addhn v2.4h, v2.4s, v5.4s\n"                                                                  \
    "str q0, [%[c]]\n"                                                                             \
    "str d2, [%[c], #16]\n"                                                                        \
    "add %[c], %[c], %[c_row]\n"
#define STORE_ROUNDED                                                                              \
    "cbz %[sums], 6f\n"                                                                            \
    EACH_ROW(ADD_SUMS)                                                                             \
    "6:\n"                                                                                         \
    "cbz %[bias], 7f\n"                                                                            \
    "ldp q4, q5, [%[bias]]\n"                                                                      \
    "ldr q6, [%[bias], #32]\n"                                                                     \
    EACH_ROW(ADD_BIAS_TO)                                                                          \
    "7:\n"                                                                                         \
    "mov v3.16b, v8.16b\n"                                                                         \
    EACH_ROW(LARGEST)                                                                              \
    "fmaxv s3, v3.4s\n"                                                                            \
    "fcmp s3, s3\n"                                                                                \
    "cset %w[numbers], vc\n"                                                                       \
    "b.vs 9f\n"                                                                                    \
    "movi v4.4s, #1, lsl #16\n" /* as tli_even_bf16 and TLI_BELOW_HALF */                          \
    "movi v5.4s, #0x7f, msl #8\n"                                                                  \
    EACH_ROW(ROUND_SUMS)                                                                           \
    "9:\n"

/* A whole tile of panels: a * b + sums + bias, each of which may be NULL. False where c was left
 * alone, because there is a NaN. What is read and written at the end is called for at once. */
static bool neon_tile_rounded(int64_t depth, const float *a, const float *b, const float *sums,
                              int64_t sums_row, const float *bias, uint16_t *c, int64_t c_row)
{
    const int64_t a_col = GEMM_MR, b_row = GEMM_NR;
    walk w = walk_of(depth, a_col, b_row);
    int numbers;
    for (int i = 0; i < GEMM_MR; i++) __builtin_prefetch(c + i * c_row, 1);
    for (int i = 0; i < GEMM_MR && sums; i++) {
        __builtin_prefetch(sums + i * sums_row);
        __builtin_prefetch(sums + i * sums_row + GEMM_NR - 1);
    }
#define ROUNDED_OUT , [sums] "+r"(sums), [numbers] "=&r"(numbers)
#define ROUNDED_IN , [sums_row] "r"(sums_row * 4)
    TILE_OF_COLUMNS(STORE_ROUNDED, ROUNDED_OUT, ROUNDED_IN);
    return numbers;
}
#endif

/* Tiles of one or two vectors of columns. One vector alone has two sums an element, of the even and
 * of the odd steps: 8 sums would wait for themselves. */
#define EACH_OF_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define FMA_ROW(i, sums, upper, lower, b)                                                          \
    sums[i] = vfmaq_laneq_f32(sums[i], b, (i) < 4 ? (upper) : (lower), (i) % 4);

static inline void put_vector(float *c, float32x4_t sum, float alpha, bool accumulate)
{
    vst1q_f32(c, vfmaq_n_f32(accumulate ? vld1q_f32(c) : vdupq_n_f32(0), sum, alpha));
}

static void neon_tile_columns_1(int64_t depth, const float *a, int64_t a_row, int64_t a_col,
                                const float *b, int64_t b_row, float *c, int64_t c_row, float alpha,
                                bool accumulate)
{
    (void)a_row;
    float32x4_t even[8], odd[8];
#define START(i) even[i] = odd[i] = vdupq_n_f32(0);
    EACH_OF_8(START)
#undef START
    int64_t p = 0;
    for (; p + 2 <= depth; p += 2, a += 2 * a_col, b += 2 * b_row) {
        const float32x4_t upper = vld1q_f32(a), lower = vld1q_f32(a + 4), row = vld1q_f32(b);
        const float32x4_t upper2 = vld1q_f32(a + a_col), lower2 = vld1q_f32(a + a_col + 4);
        const float32x4_t row2 = vld1q_f32(b + b_row);
#define STEP(i) FMA_ROW(i, even, upper, lower, row) FMA_ROW(i, odd, upper2, lower2, row2)
        EACH_OF_8(STEP)
#undef STEP
    }
    if (p < depth) {
        const float32x4_t upper = vld1q_f32(a), lower = vld1q_f32(a + 4), row = vld1q_f32(b);
#define STEP(i) FMA_ROW(i, even, upper, lower, row)
        EACH_OF_8(STEP)
#undef STEP
    }
#define STORE(i) put_vector(c + (i) * c_row, vaddq_f32(even[i], odd[i]), alpha, accumulate);
    EACH_OF_8(STORE)
#undef STORE
}

static void neon_tile_columns_2(int64_t depth, const float *a, int64_t a_row, int64_t a_col,
                                const float *b, int64_t b_row, float *c, int64_t c_row, float alpha,
                                bool accumulate)
{
    (void)a_row;
    float32x4_t left[8], right[8];
#define START(i) left[i] = right[i] = vdupq_n_f32(0);
    EACH_OF_8(START)
#undef START
    for (int64_t p = 0; p < depth; p++, a += a_col, b += b_row) {
        const float32x4_t upper = vld1q_f32(a), lower = vld1q_f32(a + 4);
        const float32x4_t row = vld1q_f32(b), row2 = vld1q_f32(b + 4);
#define STEP(i) FMA_ROW(i, left, upper, lower, row) FMA_ROW(i, right, upper, lower, row2)
        EACH_OF_8(STEP)
#undef STEP
    }
#define STORE(i)                                                                                   \
    put_vector(c + (i) * c_row, left[i], alpha, accumulate);                                       \
    put_vector(c + (i) * c_row + 4, right[i], alpha, accumulate);
    EACH_OF_8(STORE)
#undef STORE
}

/* By vectors of columns. */
static void (*const neon_tile_columns_by[])(int64_t, const float *, int64_t, int64_t, const float *,
                                            int64_t, float *, int64_t, float, bool) = {
    neon_tile_columns_1, neon_tile_columns_2, neon_tile_columns};

/* --- a whose rows are each side by side in depth ---------------------------------------------- */

#define LOAD_A(r, from) "ldr q" #r ", [%[" #from "], %[at]]\n"
/* The row that takes this one's place in the next tile. */
#define FETCH_ROW(from) "prfm pldl1keep, [%[" #from "], %[ahead]]\n"
#define LOAD_ONE(r, from) "ldr s" #r ", [%[" #from "], %[at]]\n"

/* Four rows (sums from `s` on), one step in depth: lane `l` of v0 to v3 times the row of b. */
#define QUARTER(l, s00, s01, s02, s10, s11, s12, s20, s21, s22, s30, s31, s32)                     \
    LOAD(4, b, 0) FMA(s00, 4, 0, l) FMA(s10, 4, 1, l) LOAD(5, b, 16) FMA(s20, 4, 2, l)             \
    FMA(s30, 4, 3, l) FMA(s01, 5, 0, l) FMA(s11, 5, 1, l) LOAD(6, b, 32)                           \
    "add %[b], %[b], %[b_step]\n"                                                                  \
    FMA(s21, 5, 2, l) FMA(s31, 5, 3, l) FMA(s02, 6, 0, l) FMA(s12, 6, 1, l) FMA(s22, 6, 2, l)      \
    FMA(s32, 6, 3, l)
#define QUARTER_UPPER(l) QUARTER(l, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
#define QUARTER_LOWER(l) QUARTER(l, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31)

/* One step of a single row in depth: the value in lane 0 of v`r`. */
#define ONE_ROW(r, x, y, z) FMA(x, 4, r, 0) FMA(y, 5, r, 0) FMA(z, 6, r, 0)
#define ONE_STEP                                                                                   \
    LOAD(4, b, 0) LOAD(5, b, 16) LOAD(6, b, 32) LOAD_ONE(0, a0) LOAD_ONE(1, a1) LOAD_ONE(2, a2)    \
    LOAD_ONE(3, a3) ONE_ROW(0, 8, 9, 10) LOAD_ONE(0, a4) ONE_ROW(1, 11, 12, 13) LOAD_ONE(1, a5)    \
    ONE_ROW(2, 14, 15, 16) LOAD_ONE(2, a6) ONE_ROW(3, 17, 18, 19) LOAD_ONE(3, a7)                  \
    ONE_ROW(0, 20, 21, 22) ONE_ROW(1, 23, 24, 25) ONE_ROW(2, 26, 27, 28) ONE_ROW(3, 29, 30, 31)    \
    "add %[b], %[b], %[b_step]\n"                                                                  \
    "add %[at], %[at], #4\n"

static void neon_tile_rows(int64_t depth, const float *a, int64_t a_row, int64_t a_col,
                           const float *b, int64_t b_row, float *c, int64_t c_row, float alpha,
                           bool accumulate)
{
    (void)a_col;
    int64_t fours = depth / 4, ones = depth % 4, at = 0, ahead = 8 * a_row * 4;
    TL_ASSERT(a_col == 1 && 4 * fours + ones == depth);
    __asm__ volatile(
        ZERO_SUMS
        "cbz %[fours], 2f\n"
        ".balign 32\n"
        "1:\n"
        LOAD_A(0, a0) LOAD_A(1, a1) LOAD_A(2, a2) LOAD_A(3, a3)
        QUARTER_UPPER(0) QUARTER_UPPER(1) QUARTER_UPPER(2) QUARTER_UPPER(3)
        "sub %[b], %[b], %[b_step4]\n"
        LOAD_A(0, a4) LOAD_A(1, a5) LOAD_A(2, a6) LOAD_A(3, a7)
        QUARTER_LOWER(0) QUARTER_LOWER(1) QUARTER_LOWER(2) QUARTER_LOWER(3)
        FETCH_ROW(a0) FETCH_ROW(a1) FETCH_ROW(a2) FETCH_ROW(a3)
        FETCH_ROW(a4) FETCH_ROW(a5) FETCH_ROW(a6) FETCH_ROW(a7)
        "add %[at], %[at], #16\n"
        "add %[ahead], %[ahead], #16\n"
        "subs %[fours], %[fours], #1\n"
        "b.ne 1b\n"
        "2:\n"
        "cbz %[ones], 4f\n"
        "3:\n" ONE_STEP
        "subs %[ones], %[ones], #1\n"
        "b.ne 3b\n"
        "4:\n" STORE_TILE
        : [b] "+r"(b), [c] "+r"(c), [fours] "+r"(fours), [ones] "+r"(ones), [at] "+r"(at),
          [ahead] "+r"(ahead)
        : [a0] "r"(a), [a1] "r"(a + a_row), [a2] "r"(a + 2 * a_row), [a3] "r"(a + 3 * a_row),
          [a4] "r"(a + 4 * a_row), [a5] "r"(a + 5 * a_row), [a6] "r"(a + 6 * a_row),
          [a7] "r"(a + 7 * a_row), [b_step] "r"(b_row * 4), [b_step4] "r"(b_row * 16),
          [c_row] "r"(c_row * 4), [alpha] "r"(tli_float_to_bits(alpha)),
          [accumulate] "r"((int)accumulate), [plain] "r"((int)(alpha == 1))
        : "memory", "cc", ALL_VECTORS);
}

/* --- bfloat16 --------------------------------------------------------------------------------- */

#if defined(TLI_ISA_neon_bf16)

/* A sum register is a block of 2 rows and 2 columns; a step takes 4 in depth. v0 to v3 are pairs
 * of rows of a, v4 to v7 in turn the pairs of columns of b. */
#define MMLA(sum, a, b) "bfmmla v" #sum ".4s, v" #a ".8h, v" #b ".8h\n"
/* The block turned around: columns of a and rows of b. */
#define MMLA_TURNED(sum, a, b) MMLA(sum, b, a)
#define LOAD_PAIR(r, q, from, offset) "ldp q" #r ", q" #q ", [%[" #from "], #" #offset "]\n"
#define NO_PAIR(r, q, from, offset) ""
/* What is read of a soon: further ahead it would push b's panel out of the first-level cache. */
#define AHEAD(offset) "prfm pldl1keep, [%[a], #768 + " #offset "]\n"
/* Two steps, two columns of b at a time. Where the loads stand was found by trying some thousand
 * orders: cores that take eight instructions at a time lose up to an eighth of their multiply-adds
 * to an order that looks no worse. LOAD_ loads what the next two steps begin with. */
#define STEPS_BF16(MMLA, LOAD_)                                                                    \
    LOAD_PAIR(6, 7, b, 32) MMLA(8, 0, 4) MMLA(9, 0, 5) MMLA(14, 1, 4) MMLA(15, 1, 5)               \
    MMLA(21, 2, 5) MMLA(20, 2, 4) MMLA(26, 3, 4) MMLA(27, 3, 5) LOAD_PAIR(4, 5, b, 64)             \
    MMLA(10, 0, 6) MMLA(11, 0, 7) MMLA(16, 1, 6) MMLA(17, 1, 7) MMLA(22, 2, 6) MMLA(23, 2, 7)      \
    MMLA(28, 3, 6) MMLA(29, 3, 7) LOAD_PAIR(6, 7, b, 96) MMLA(12, 0, 4) AHEAD(0) MMLA(13, 0, 5)    \
    MMLA(18, 1, 4) MMLA(19, 1, 5) LOAD_PAIR(0, 1, a, 64) MMLA(24, 2, 4) MMLA(25, 2, 5)             \
    MMLA(30, 3, 4) MMLA(31, 3, 5) LOAD_PAIR(2, 3, a, 96) LOAD_PAIR(4, 5, b, 128) MMLA(8, 0, 6)     \
    MMLA(9, 0, 7) MMLA(14, 1, 6) MMLA(15, 1, 7) MMLA(20, 2, 6) MMLA(21, 2, 7) MMLA(26, 3, 6)       \
    MMLA(27, 3, 7) LOAD_PAIR(6, 7, b, 160) MMLA(10, 0, 4) MMLA(11, 0, 5) MMLA(16, 1, 4)            \
    MMLA(22, 2, 4) MMLA(17, 1, 5) MMLA(23, 2, 5) MMLA(28, 3, 4) MMLA(29, 3, 5)                     \
    LOAD_(4, 5, b, 192) MMLA(12, 0, 6) AHEAD(64) MMLA(13, 0, 7) MMLA(19, 1, 7) MMLA(18, 1, 6)      \
    LOAD_(0, 1, a, 128) MMLA(24, 2, 6) MMLA(25, 2, 7) MMLA(30, 3, 6) MMLA(31, 3, 7)                \
    LOAD_(2, 3, a, 160)                                                                            \
    "add %[b], %[b], #192\n"                                                                       \
    "add %[a], %[a], #128\n"
#define BEGIN_BF16 LOAD_PAIR(4, 5, b, 0) LOAD_PAIR(0, 1, a, 0) LOAD_PAIR(2, 3, a, 32)
/* A step by itself. */
#define STEP_BF16(MMLA)                                                                            \
    BEGIN_BF16 LOAD_PAIR(6, 7, b, 32)                                                              \
    MMLA(8, 0, 4) MMLA(14, 1, 4) MMLA(20, 2, 4) MMLA(26, 3, 4) LOAD(4, b, 64)                      \
    MMLA(9, 0, 5) MMLA(15, 1, 5) MMLA(21, 2, 5) MMLA(27, 3, 5) LOAD(5, b, 80)                      \
    MMLA(10, 0, 6) MMLA(16, 1, 6) MMLA(22, 2, 6) MMLA(28, 3, 6)                                    \
    MMLA(11, 0, 7) MMLA(17, 1, 7) MMLA(23, 2, 7) MMLA(29, 3, 7)                                    \
    MMLA(12, 0, 4) MMLA(18, 1, 4) MMLA(24, 2, 4) MMLA(30, 3, 4)                                    \
    MMLA(13, 0, 5) MMLA(19, 1, 5) MMLA(25, 2, 5) MMLA(31, 3, 5)

/* Six blocks (registers p to p + 5) are two rows: the first halves of the registers, the second. */
#define STORE_PAIR_SET(p0, p1, p2, p3, p4, p5)                                                     \
    "zip1 v0.2d, v" #p0 ".2d, v" #p1 ".2d\n"                                                       \
    "zip1 v1.2d, v" #p2 ".2d, v" #p3 ".2d\n"                                                       \
    "zip1 v2.2d, v" #p4 ".2d, v" #p5 ".2d\n"                                                       \
    "zip2 v3.2d, v" #p0 ".2d, v" #p1 ".2d\n"                                                       \
    "zip2 v4.2d, v" #p2 ".2d, v" #p3 ".2d\n"                                                       \
    "zip2 v5.2d, v" #p4 ".2d, v" #p5 ".2d\n"                                                       \
    SET_ROW(0, 1, 2) SET_ROW(3, 4, 5)
#define STORE_PAIR_ADD(p0, p1, p2, p3, p4, p5)                                                     \
    "zip1 v3.2d, v" #p0 ".2d, v" #p1 ".2d\n"                                                       \
    "zip1 v4.2d, v" #p2 ".2d, v" #p3 ".2d\n"                                                       \
    "zip1 v5.2d, v" #p4 ".2d, v" #p5 ".2d\n"                                                       \
    ADD_ROW(3, 4, 5)                                                                               \
    "zip2 v3.2d, v" #p0 ".2d, v" #p1 ".2d\n"                                                       \
    "zip2 v4.2d, v" #p2 ".2d, v" #p3 ".2d\n"                                                       \
    "zip2 v5.2d, v" #p4 ".2d, v" #p5 ".2d\n"                                                       \
    ADD_ROW(3, 4, 5)
#define EACH_PAIR(X)                                                                               \
    X(8, 9, 10, 11, 12, 13) X(14, 15, 16, 17, 18, 19) X(20, 21, 22, 23, 24, 25)                    \
    X(26, 27, 28, 29, 30, 31)

/* All of the depth, into v8 to v31. */
#define SUM_BF16(MMLA)                                                                             \
    ZERO_SUMS                                                                                      \
    "cbz %[pairs], 3f\n" BEGIN_BF16                                                                \
    "subs %[pairs], %[pairs], #1\n"                                                                \
    "b.eq 2f\n"                                                                                    \
    ".balign 32\n"                                                                                 \
    "1:\n" STEPS_BF16(MMLA, LOAD_PAIR)                                                             \
    "subs %[pairs], %[pairs], #1\n"                                                                \
    "b.ne 1b\n"                                                                                    \
    "2:\n" STEPS_BF16(MMLA, NO_PAIR)                                                               \
    "3:\n"                                                                                         \
    "tbz %[steps], #0, 4f\n" STEP_BF16(MMLA)                                                       \
    "4:\n"                                                                                         \
    "dup v7.4s, %w[alpha]\n"

/* Panels of 8 and 12; `steps` of 4 in depth. */
static void neon_tile_bf16(int64_t steps, const uint16_t *a, const uint16_t *b, float *c,
                           int64_t c_row, float alpha, bool accumulate)
{
    int64_t pairs = steps / 2;
    _Static_assert(TLI_GEMM_READ_AHEAD >= 768 + 128, "what AHEAD says");
    if (steps >= 128) fetch_tile(c, c_row); // else it costs more than it spares
    __asm__ volatile(
        SUM_BF16(MMLA)
        "cbnz %w[accumulate], 8f\n"
        EACH_PAIR(STORE_PAIR_SET) "b 9f\n"
        "8:\n" EACH_PAIR(STORE_PAIR_ADD) "9:\n"
        : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [pairs] "+r"(pairs)
        : [steps] "r"(steps), [c_row] "r"(c_row * 4), [alpha] "r"(tli_float_to_bits(alpha)),
          [accumulate] "r"((int)accumulate)
        : "memory", "cc", ALL_VECTORS);
}

/* --- its end in bfloat16: plus a bias in v4 to v6, rounded ------------------------------------ */

#define ADD_BIAS                                                                                   \
    "fadd v0.4s, v0.4s, v4.4s\n"                                                                   \
    "fadd v1.4s, v1.4s, v5.4s\n"                                                                   \
    "fadd v2.4s, v2.4s, v6.4s\n"
#define PUT_ROW                                                                                    \
    "bfcvtn v0.4h, v0.4s\n"                                                                        \
    "bfcvtn2 v0.8h, v1.4s\n"                                                                       \
    "bfcvtn v2.4h, v2.4s\n"                                                                        \
    "str q0, [%[c]]\n"                                                                             \
    "str d2, [%[c], #16]\n"                                                                        \
    "add %[c], %[c], %[c_row]\n"
#define ZIP_ROW(zip, p0, p1, p2, p3, p4, p5)                                                       \
    zip " v0.2d, v" #p0 ".2d, v" #p1 ".2d\n"                                                       \
    zip " v1.2d, v" #p2 ".2d, v" #p3 ".2d\n"                                                       \
    zip " v2.2d, v" #p4 ".2d, v" #p5 ".2d\n"
#define ROUND_ROW(...) ZIP_ROW(__VA_ARGS__) PUT_ROW
#define ROUND_ROW_BIAS(...) ZIP_ROW(__VA_ARGS__) ADD_BIAS PUT_ROW
#define ROUND_ROW_ADD(zip, p0, p1, p2, p3, p4, p5)                                                 \
    "ldp q0, q1, [%[sums]]\n"                                                                      \
    "ldr q2, [%[sums], #32]\n"                                                                     \
    "add %[sums], %[sums], %[sums_row]\n"                                                          \
    zip " v3.2d, v" #p0 ".2d, v" #p1 ".2d\n" FMA(0, 3, 7, 0)                                       \
    zip " v3.2d, v" #p2 ".2d, v" #p3 ".2d\n" FMA(1, 3, 7, 0)                                       \
    zip " v3.2d, v" #p4 ".2d, v" #p5 ".2d\n" FMA(2, 3, 7, 0) ADD_BIAS PUT_ROW
#define ROUND_PAIR(...) ROUND_ROW("zip1", __VA_ARGS__) ROUND_ROW("zip2", __VA_ARGS__)
#define ROUND_PAIR_BIAS(...)                                                                       \
    ROUND_ROW_BIAS("zip1", __VA_ARGS__) ROUND_ROW_BIAS("zip2", __VA_ARGS__)
#define ROUND_PAIR_ADD(...) ROUND_ROW_ADD("zip1", __VA_ARGS__) ROUND_ROW_ADD("zip2", __VA_ARGS__)

#define SCALE_SUM(r) "fmul v" #r ".4s, v" #r ".4s, v7.s[0]\n"
#define SCALE_PAIR(p0, p1, p2, p3, p4, p5)                                                         \
    SCALE_SUM(p0) SCALE_SUM(p1) SCALE_SUM(p2) SCALE_SUM(p3) SCALE_SUM(p4) SCALE_SUM(p5)

/* What is added where there is no bias: -0.0 + x is x, of either sign. */
static const float no_bias[GEMM_NR] = {-0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
                                       -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f};

static void neon_tile_rounded(int64_t steps, const uint16_t *a, const uint16_t *b,
                              const float *sums, int64_t sums_row, const float *bias, uint16_t *c,
                              int64_t c_row, float alpha)
{
    int64_t pairs = steps / 2;
    // A row of the tile may reach into a second line: that one is called for by the tile beside it,
    // or is missed.
    for (int i = 0; i < GEMM_MR; i++) __builtin_prefetch(c + i * c_row + GEMM_NR - 1, 1);
    const int plain = !sums && alpha == 1, bare = plain && !bias;
    __asm__ volatile(
        SUM_BF16(MMLA)
        "cbnz %w[bare], 6f\n"
        "ldp q4, q5, [%[bias]]\n"
        "ldr q6, [%[bias], #32]\n"
        "cbnz %w[plain], 7f\n"
        "cbnz %[sums], 8f\n"
        EACH_PAIR(SCALE_PAIR)
        "7:\n" EACH_PAIR(ROUND_PAIR_BIAS) "b 9f\n"
        "6:\n" EACH_PAIR(ROUND_PAIR) "b 9f\n"
        "8:\n" EACH_PAIR(ROUND_PAIR_ADD) "9:\n"
        : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [pairs] "+r"(pairs), [sums] "+r"(sums)
        : [steps] "r"(steps), [sums_row] "r"(sums_row * 4), [bias] "r"(bias ? bias : no_bias),
          [c_row] "r"(c_row * 2), [alpha] "r"(tli_float_to_bits(alpha)), [plain] "r"(plain),
          [bare] "r"(bare)
        : "memory", "cc", ALL_VECTORS);
}

/* --- the tile turned around: 12 rows, 8 columns ----------------------------------------------- */

/* Four blocks are two rows. */
#define EACH_TURNED(X)                                                                             \
    X(8, 14, 20, 26) X(9, 15, 21, 27) X(10, 16, 22, 28) X(11, 17, 23, 29) X(12, 18, 24, 30)        \
    X(13, 19, 25, 31)
#define TURNED_SET_ROW(zip, p0, p1, p2, p3)                                                        \
    zip " v0.2d, v" #p0 ".2d, v" #p1 ".2d\n"                                                       \
    zip " v1.2d, v" #p2 ".2d, v" #p3 ".2d\n"                                                       \
    "fmul v0.4s, v0.4s, v7.s[0]\n"                                                                 \
    "fmul v1.4s, v1.4s, v7.s[0]\n"                                                                 \
    "stp q0, q1, [%[c]]\n"                                                                         \
    "add %[c], %[c], %[c_row]\n"
#define TURNED_ADD_ROW(zip, p0, p1, p2, p3)                                                        \
    "ldp q0, q1, [%[c]]\n"                                                                         \
    zip " v2.2d, v" #p0 ".2d, v" #p1 ".2d\n" FMA(0, 2, 7, 0)                                       \
    zip " v3.2d, v" #p2 ".2d, v" #p3 ".2d\n" FMA(1, 3, 7, 0)                                       \
    "stp q0, q1, [%[c]]\n"                                                                         \
    "add %[c], %[c], %[c_row]\n"
#define TURNED_SET(...) TURNED_SET_ROW("zip1", __VA_ARGS__) TURNED_SET_ROW("zip2", __VA_ARGS__)
#define TURNED_ADD(...) TURNED_ADD_ROW("zip1", __VA_ARGS__) TURNED_ADD_ROW("zip2", __VA_ARGS__)

/* Panels of 12 and 8. What the tile above calls a is b here. */
static void neon_turned_bf16(int64_t steps, const uint16_t *a, const uint16_t *b, float *c,
                             int64_t c_row, float alpha, bool accumulate)
{
    int64_t pairs = steps / 2;
    for (int i = 0; i < GEMM_TURNED_MR; i++) __builtin_prefetch(c + i * c_row, 1);
    __asm__ volatile(
        SUM_BF16(MMLA_TURNED)
        "cbnz %w[accumulate], 8f\n"
        EACH_TURNED(TURNED_SET) "b 9f\n"
        "8:\n" EACH_TURNED(TURNED_ADD) "9:\n"
        : [a] "+r"(b), [b] "+r"(a), [c] "+r"(c), [pairs] "+r"(pairs)
        : [steps] "r"(steps), [c_row] "r"(c_row * 4), [alpha] "r"(tli_float_to_bits(alpha)),
          [accumulate] "r"((int)accumulate)
        : "memory", "cc", ALL_VECTORS);
}

/* With a bias in v4 and v5. */
#define TURNED_PUT_ROW                                                                             \
    "fadd v0.4s, v0.4s, v4.4s\n"                                                                   \
    "fadd v1.4s, v1.4s, v5.4s\n"                                                                   \
    "bfcvtn v0.4h, v0.4s\n"                                                                        \
    "bfcvtn2 v0.8h, v1.4s\n"                                                                       \
    "str q0, [%[c]]\n"                                                                             \
    "add %[c], %[c], %[c_row]\n"
#define TURNED_ROUND_ROW(zip, p0, p1, p2, p3)                                                      \
    zip " v0.2d, v" #p0 ".2d, v" #p1 ".2d\n"                                                       \
    zip " v1.2d, v" #p2 ".2d, v" #p3 ".2d\n"                                                       \
    "fmul v0.4s, v0.4s, v7.s[0]\n"                                                                 \
    "fmul v1.4s, v1.4s, v7.s[0]\n" TURNED_PUT_ROW
#define TURNED_ROUND_ROW_ADD(zip, p0, p1, p2, p3)                                                  \
    "ldp q0, q1, [%[sums]]\n"                                                                      \
    "add %[sums], %[sums], %[sums_row]\n"                                                          \
    zip " v2.2d, v" #p0 ".2d, v" #p1 ".2d\n" FMA(0, 2, 7, 0)                                       \
    zip " v3.2d, v" #p2 ".2d, v" #p3 ".2d\n" FMA(1, 3, 7, 0) TURNED_PUT_ROW
#define TURNED_ROUND(...)                                                                          \
    TURNED_ROUND_ROW("zip1", __VA_ARGS__) TURNED_ROUND_ROW("zip2", __VA_ARGS__)
#define TURNED_ROUND_ADD(...)                                                                      \
    TURNED_ROUND_ROW_ADD("zip1", __VA_ARGS__) TURNED_ROUND_ROW_ADD("zip2", __VA_ARGS__)

static void neon_turned_rounded(int64_t steps, const uint16_t *a, const uint16_t *b,
                                const float *sums, int64_t sums_row, const float *bias, uint16_t *c,
                                int64_t c_row, float alpha)
{
    int64_t pairs = steps / 2;
    for (int i = 0; i < GEMM_TURNED_MR; i++) __builtin_prefetch(c + i * c_row, 1);
    __asm__ volatile(
        SUM_BF16(MMLA_TURNED)
        "ldp q4, q5, [%[bias]]\n"
        "cbnz %[sums], 8f\n"
        EACH_TURNED(TURNED_ROUND) "b 9f\n"
        "8:\n" EACH_TURNED(TURNED_ROUND_ADD) "9:\n"
        : [a] "+r"(b), [b] "+r"(a), [c] "+r"(c), [pairs] "+r"(pairs), [sums] "+r"(sums)
        : [steps] "r"(steps), [sums_row] "r"(sums_row * 4), [bias] "r"(bias ? bias : no_bias),
          [c_row] "r"(c_row * 2), [alpha] "r"(tli_float_to_bits(alpha))
        : "memory", "cc", ALL_VECTORS);
}

#endif
// clang-format on
#pragma GCC diagnostic pop

#endif
