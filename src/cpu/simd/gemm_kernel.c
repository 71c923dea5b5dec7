/* The tiles of a product, and the table through which others reach them (cpu/gemm.h). */
#include <string.h>

#include "cpu/simd/gemm_parts.h"
#include "cpu/simd/vec.h"

#if defined(TLI_ISA_neon) || defined(TLI_ISA_neon_bf16)
#define GEMM_NEON 1
#include "cpu/simd/gemm_neon.h"
#include "cpu/simd/gemm_neon_rows.h"
#endif

/* --- floats ----------------------------------------------------------------------------------- */

#if defined(GEMM_NEON)
// One of the factors is a lane of a register, which costs no broadcast.
#define MULTIPLY_ADD(vector, scalar, sum) vfmaq_n_f32(sum, vector, scalar)
#define VECTOR_ADD(x, y, sum) vf_fma(x, y, sum)
#elif defined(TLI_ISA_generic)
// Not fused: where the instruction is not certain to be there, it would be a call.
#define MULTIPLY_ADD(vector, scalar, sum) vf_add(sum, vf_mul(vector, vf_set1(scalar)))
#define VECTOR_ADD(x, y, sum) vf_add(sum, vf_mul(x, y))
#define ROWS_ADD(vector, scalar, sum) vf_add(sum, vf_mul(vector, vf_set1(scalar)))
#else
#define MULTIPLY_ADD(vector, scalar, sum) vf_fma(vector, vf_set1(scalar), sum)
#define ROWS_ADD(vector, scalar, sum) vf_fma(vector, vf_set1(scalar), sum)
#define VECTOR_ADD(x, y, sum) vf_fma(x, y, sum)
#endif
#define T float
#define V vf
#define V_OP(x) vf_##x
#define T_NAME(x) x##_f32
#if defined(GEMM_NEON)
#define LANES 4
#define MR 8
#define NV 3
#define WRITTEN_OUT(vectors, a_row, a_col, fn)                                                     \
    ((a_row) == 1     ? neon_tile_columns_by[(vectors)-1]                                          \
     : (vectors) < NV ? (fn)                                                                       \
     : (a_col) == 1   ? neon_tile_rows                                                             \
                      : (fn))
#elif defined(TLI_ISA_avx512)
#define LANES 16
#define MR 8
#define NV 3
#elif defined(TLI_ISA_avx2)
#define LANES 8
#define MR 4
#define NV 3
#else
#define LANES 4
#define MR 4
#define NV 2
#endif
#include "cpu/simd/gemm_tile.inc"
_Static_assert((int)MR_f32 == GEMM_MR && (int)NR_f32 == GEMM_NR, "packing knows the same tile");
_Static_assert(GEMM_MR *(GEMM_NR / VF) + GEMM_NR / VF + 1 <= GEMM_REGISTERS,
               "sums, a row of b and a number of a");
_Static_assert(GEMM_NR % VF == 0 && GEMM_ROWS_NR % VF == 0, "rows of tiles are whole vectors");
_Static_assert(GEMM_ROWS_MR *(GEMM_ROWS_NR / VF) + GEMM_ROWS_NR / VF + 1 <= GEMM_REGISTERS,
               "the same of tiles of rows");

#if defined(GEMM_NEON)
static void biased_f32(int rows, int cols, int64_t depth, const void *a, const void *b, float *c,
                       int64_t c_row, bool accumulate, const float *bias)
{
    if (rows == GEMM_MR && cols == GEMM_NR) {
        neon_tile_biased(depth, a, b, c, c_row, accumulate, bias);
        return;
    }
    tile_f32(rows, cols, depth, a, b, c, c_row, 1, accumulate);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) c[i * c_row + j] += bias[j];
}

/* A row of a tile that ends in bfloat16: times alpha onto what was there before, plus a bias. */
TLI_INLINE void put_rounded(uint16_t *to, const float *row, float alpha, const float *before,
                            const float *bias, int cols)
{
    vf x[GEMM_NR / VF];
    UNROLLED(int j = 0; j < GEMM_NR / VF; j++) {
        x[j] = vf_load(row + j * VF);
        if (before) x[j] = vf_fma(x[j], vf_set1(alpha), vf_load(before + j * VF));
        if (bias) x[j] = vf_add(x[j], vf_load(bias + j * VF));
    }
    if (cols == GEMM_NR) {
        vf_store_bf16_pair(to, x);
        vf_store_bf16(to + 2 * VF, x[2]);
        return;
    }
    for (int j = 0; j * VF < cols; j++)
        vf_store_bf16_n(to + j * VF, x[j], cols - j * VF < VF ? cols - j * VF : VF);
}
_Static_assert(GEMM_NR == 3 * VF, "a pair and one more");

/* Through a tile of floats, which is rounded while it is in the first-level cache. What was there
 * before, and c, are called for at once, long before they are used at the end. */
static void rounded_f32(int rows, int cols, int64_t depth, const void *a, const void *b,
                        const float *sums, int64_t sums_row, const float *bias, void *c,
                        int64_t c_row, double alpha)
{
#if !defined(TLI_ISA_neon_bf16)
    if (rows == GEMM_MR && cols == GEMM_NR && alpha == 1
        && neon_tile_rounded(depth, a, b, sums, sums_row, bias, c, c_row))
        return;
#endif
    float whole[GEMM_MR * GEMM_NR], before[GEMM_NR] = {0};
    if (cols < GEMM_NR) memset(whole, 0, sizeof whole); // whole rows of it are read
    for (int i = 0; i < rows; i++) __builtin_prefetch((const uint16_t *)c + i * c_row, 1);
    for (int i = 0; i < rows && sums; i++) {
        __builtin_prefetch(sums + i * sums_row);
        __builtin_prefetch(sums + i * sums_row + cols - 1);
    }
    tile_f32(rows, cols, depth, a, b, whole, GEMM_NR, sums ? 1 : alpha, false);
    for (int i = 0; i < rows; i++) {
        const float *from = sums ? sums + i * sums_row : NULL;
        if (sums && cols < GEMM_NR) from = memcpy(before, from, (size_t)cols * sizeof *from);
        put_rounded((uint16_t *)c + i * c_row, whole + i * GEMM_NR, (float)alpha, from, bias, cols);
    }
}
#endif

/* --- floats of rows that lie anywhere --------------------------------------------------------- */

#if defined(GEMM_NEON)
#define ROWS_BY(rows, vectors) neon_rows_by(rows, vectors)
#else
typedef void rows_tile_fn(int rows, int64_t pieces, int64_t depth, const float *const *a,
                          const float *b, int64_t b_row, float *c, int64_t c_row, float alpha,
                          bool accumulate);

TLI_INLINE void rows_body(const int nv, int rows, int64_t pieces, int64_t depth,
                          const float *const *a, const float *b, int64_t b_row, float *c,
                          int64_t c_row, float alpha, bool accumulate)
{
    vf sums[GEMM_ROWS_MR][GEMM_ROWS_NR / VF];
    UNROLLED(int i = 0; i < GEMM_ROWS_MR; i++)
        UNROLLED(int j = 0; j < nv; j++) sums[i][j] = vf_zero();
    for (int64_t t = 0; t < pieces; t++, a += GEMM_ROWS_MR)
        for (int64_t p = 0; p < depth; p++, b += b_row) {
            vf row[GEMM_ROWS_NR / VF];
            UNROLLED(int j = 0; j < nv; j++) row[j] = vf_load(b + j * VF);
            UNROLLED(int i = 0; i < GEMM_ROWS_MR; i++)
                UNROLLED(int j = 0; j < nv; j++) sums[i][j] = ROWS_ADD(row[j], a[i][p], sums[i][j]);
        }
    UNROLLED(int i = 0; i < GEMM_ROWS_MR; i++)
        if (i < rows)
            UNROLLED(int j = 0; j < nv; j++) {
                float *to = c + i * c_row + j * VF;
                vf before = accumulate ? vf_load(to) : vf_zero();
                vf_store(to, ROWS_ADD(sums[i][j], alpha, before));
            }
}

#define ROWS_TILE(nv)                                                                              \
    static void rows_tile_##nv(int rows, int64_t pieces, int64_t depth, const float *const *a,     \
                               const float *b, int64_t b_row, float *c, int64_t c_row,             \
                               float alpha, bool accumulate)                                       \
    {                                                                                              \
        rows_body(nv, rows, pieces, depth, a, b, b_row, c, c_row, alpha, accumulate);              \
    }
ROWS_TILE(1)
ROWS_TILE(2)
#if defined(TLI_ISA_generic)
static rows_tile_fn *const rows_tiles[] = {rows_tile_1, rows_tile_2};
#else
ROWS_TILE(3)
static rows_tile_fn *const rows_tiles[] = {rows_tile_1, rows_tile_2, rows_tile_3};
#endif
_Static_assert(sizeof rows_tiles / sizeof *rows_tiles == GEMM_ROWS_NR / VF, "a tile for each");
#define ROWS_BY(rows, vectors) rows_tiles[(vectors)-1]
#endif

// clang-format off
static void rows_f32(int rows, int cols, int64_t pieces, int64_t depth, const void *const *a,
                     const void *b, int64_t b_row, void *c, int64_t c_row, double alpha,
                     bool accumulate)
{
    const float *const *from = (const float *const *)a;
    const int vectors = (cols + VF - 1) / VF;
    TL_ASSERT(rows > 0 && rows <= GEMM_ROWS_MR && cols > 0 && cols <= GEMM_ROWS_NR);
    if (cols == vectors * VF) {
        ROWS_BY(rows, vectors)(rows, pieces, depth, from, b, b_row, c, c_row, (float)alpha,
                               accumulate);
        return;
    }
    float whole[GEMM_ROWS_MR * GEMM_ROWS_NR] = {0}, *to = c;
    for (int i = 0; i < rows && accumulate; i++)
        memcpy(whole + i * GEMM_ROWS_NR, to + i * c_row, (size_t)cols * sizeof *to);
    ROWS_BY(rows, vectors)(rows, pieces, depth, from, b, b_row, whole, GEMM_ROWS_NR, (float)alpha,
                           accumulate);
    for (int i = 0; i < rows; i++)
        memcpy(to + i * c_row, whole + i * GEMM_ROWS_NR, (size_t)cols * sizeof *to);
}
// clang-format on

/* --- doubles ---------------------------------------------------------------------------------- */

#if defined(TLI_ISA_generic)
#define MULTIPLY_ADD(vector, scalar, sum) vd_add(sum, vd_mul(vector, vd_set1(scalar)))
#define VECTOR_ADD(x, y, sum) vd_add(sum, vd_mul(x, y))
#else
#define MULTIPLY_ADD(vector, scalar, sum) vd_fma(vector, vd_set1(scalar), sum)
#define VECTOR_ADD(x, y, sum) vd_fma(x, y, sum)
#endif
#define T double
#define V vd
#define V_OP(x) vd_##x
#define T_NAME(x) x##_f64
#define MR 4
#if defined(TLI_ISA_avx512)
#define LANES 8
#define NV 3
#elif defined(TLI_ISA_avx2)
#define LANES 4
#define NV 3
#elif defined(GEMM_NEON)
#define LANES 2
#define NV 3
#else
#define LANES 2
#define NV 2
#endif
#include "cpu/simd/gemm_tile.inc"

/* --- bfloat16 --------------------------------------------------------------------------------- */

#if defined(TLI_ISA_neon_bf16)

/* For mr rows and nr columns, and for fewer by way of a whole tile. */
#define TILES(tile, neon_tile, tile_rounded, neon_rounded, MR_, NR_)                               \
    static void tile(int rows, int cols, int64_t depth, const void *a, const void *b, void *c,     \
                     int64_t c_row, double alpha, bool accumulate)                                 \
    {                                                                                              \
        const int64_t steps = (depth + 3) / 4;                                                     \
        float *to = c;                                                                             \
        TL_ASSERT(rows > 0 && rows <= (MR_) && cols > 0 && cols <= (NR_));                         \
        if (rows == (MR_) && cols == (NR_)) {                                                      \
            neon_tile(steps, a, b, to, c_row, (float)alpha, accumulate);                           \
            return;                                                                                \
        }                                                                                          \
        float whole[(MR_) * (NR_)];                                                                \
        neon_tile(steps, a, b, whole, NR_, (float)alpha, false);                                   \
        for (int i = 0; i < rows; i++)                                                             \
            for (int j = 0; j < cols; j++) {                                                       \
                float sum = whole[i * (NR_) + j];                                                  \
                to[i * c_row + j] = accumulate ? to[i * c_row + j] + sum : sum;                    \
            }                                                                                      \
    }                                                                                              \
    static void tile_rounded(int rows, int cols, int64_t depth, const void *a, const void *b,      \
                             const float *sums, int64_t sums_row, const float *bias, void *c,      \
                             int64_t c_row, double alpha)                                          \
    {                                                                                              \
        const int64_t steps = (depth + 3) / 4;                                                     \
        uint16_t *to = c;                                                                          \
        TL_ASSERT(rows > 0 && rows <= (MR_) && cols > 0 && cols <= (NR_));                         \
        if (rows == (MR_) && cols == (NR_)) {                                                      \
            neon_rounded(steps, a, b, sums, sums_row, bias, to, c_row, (float)alpha);              \
            return;                                                                                \
        }                                                                                          \
        float before[(MR_) * (NR_)] = {0};                                                         \
        uint16_t whole[(MR_) * (NR_)];                                                             \
        for (int i = 0; i < rows && sums; i++)                                                     \
            memcpy(before + i * (NR_), sums + i * sums_row, (size_t)cols * sizeof *sums);          \
        neon_rounded(steps, a, b, sums ? before : NULL, NR_, bias, whole, NR_, (float)alpha);      \
        for (int i = 0; i < rows; i++)                                                             \
            memcpy(to + i * c_row, whole + i * (NR_), (size_t)cols * sizeof *to);                  \
    }
TILES(tile_bf16, neon_tile_bf16, tile_rounded_bf16, neon_tile_rounded, GEMM_MR, GEMM_NR)
TILES(tile_turned, neon_turned_bf16, tile_rounded_turned, neon_turned_rounded, GEMM_TURNED_MR,
      GEMM_TURNED_NR)

#elif defined(GEMM_HALF)
#include "cpu/simd/gemm_amx.h"
#endif

/* --- the limit of the chip -------------------------------------------------------------------- */

/* Sums that do not wait for each other: four units with a latency of 4 need 16 */
enum { CHAINS = 24 };

#if defined(GEMM_NEON)
// clang-format off
#define EACH_SUM(X)                                                                                \
    X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)  \
    X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define PEAK_LOOP(ONE)                                                                             \
    __asm__ volatile(ZERO_SUMS ZERO(0) ZERO(1)                                                     \
                     "1:\n" EACH_SUM(ONE)                                                          \
                     "subs %[rounds], %[rounds], #1\n"                                             \
                     "b.gt 1b\n"                                                                   \
                     : [rounds] "+r"(rounds)                                                       \
                     :                                                                             \
                     : "cc", ALL_VECTORS)
// clang-format on

static int64_t peak_f32(int64_t rounds)
{
    const int64_t operations = rounds * CHAINS * 4 * 2;
#define ONE(r) FMA(r, 0, 1, 0)
    PEAK_LOOP(ONE);
#undef ONE
    return operations;
}

static int64_t peak_f64(int64_t rounds)
{
    const int64_t operations = rounds * CHAINS * 2 * 2;
#define ONE(r) "fmla v" #r ".2d, v0.2d, v1.d[0]\n"
    PEAK_LOOP(ONE);
#undef ONE
    return operations;
}

#if defined(TLI_ISA_neon_bf16)
static int64_t peak_bf16(int64_t rounds)
{
    const int64_t operations = rounds * CHAINS * 2 * 2 * 4 * 2;
#define ONE(r) MMLA(r, 0, 1)
    PEAK_LOOP(ONE);
#undef ONE
    return operations;
}
#endif
#else

/* An empty assembler line that "changes" a sum keeps it in its register, and the loop as it is. */
#if defined(TLI_ISA_avx512)
#define HOLD(x) __asm__ volatile("" : "+v"(x))
#elif defined(__x86_64__)
#define HOLD(x) __asm__ volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define HOLD(x) __asm__ volatile("" : "+w"(x))
#else
#define HOLD(x) __asm__ volatile("" : "+m"(x))
#endif
enum { HELD = 12 }; /* sums that fit into the registers of all of them, with the factors */
_Static_assert(HELD + 2 <= GEMM_REGISTERS && CHAINS % HELD == 0,
               "in registers, and as many as are counted");
#if defined(TLI_ISA_generic)
#define PEAK_F32(x, y, sum) vf_add(sum, vf_mul(x, y))
#define PEAK_F64(x, y, sum) vd_add(sum, vd_mul(x, y))
#else
#define PEAK_F32(x, y, sum) vf_fma(x, y, sum)
#define PEAK_F64(x, y, sum) vd_fma(x, y, sum)
#endif
#define PEAK(name, V, prefix, LANES, ADD)                                                          \
    static int64_t name(int64_t rounds)                                                            \
    {                                                                                              \
        V sums[HELD], x = prefix##_zero(), y = prefix##_zero();                                    \
        UNROLLED(int i = 0; i < HELD; i++) sums[i] = prefix##_zero();                              \
        for (int64_t r = 0; r < rounds * CHAINS / HELD; r++)                                       \
            UNROLLED(int i = 0; i < HELD; i++) {                                                   \
                sums[i] = ADD(x, y, sums[i]);                                                      \
                HOLD(sums[i]);                                                                     \
            }                                                                                      \
        return rounds * CHAINS * LANES * 2;                                                        \
    }
PEAK(peak_f32, vf, vf, VF, PEAK_F32)
PEAK(peak_f64, vd, vd, VD, PEAK_F64)
#endif

#if defined(GEMM_NEON)
enum { PACKS_FROM = 4 * NR_f32 }; /* a lane of a panel costs nothing, one of a row does */
enum { NEAR_F32 = 1 << 20 };      /* a second-level cache of 1 MiB, as server cores have */
enum { MC_F32 = 256 };            /* half of it, so that a panel of b is brought there for more */
#else
/* Panels of b that each read a once: packing it costs about one such reading */
enum { PACKS_FROM = 8 * NR_f32 };
/* Half of a second-level cache of 1 MiB; the rest is a's block and c */
enum { NEAR_F32 = 1 << 19 };
enum { MC_F32 = 128 };
#endif

/* Blocks of bfloat16. Tiles of AMX are larger: a panel of b should stay in the first-level cache
 * (32 lanes x 512 x 2 bytes are 32 KiB of 48), and b as a whole in the second one (2 MiB). On NEON
 * a deep block has fewer ends of tiles, which take a twentieth of the time; its panel of b is
 * 24 KiB of 64, and its block of a 256 KiB.
 * HALF_WEIGHT: a BFMMLA does 16 where a multiply-add of floats does 4, in the same time. Tiles of
 * AMX do 16 times as many as AVX-512, of which loading them is taken to leave half: it only decides
 * how many tasks there are. */
#if defined(TLI_ISA_amx)
#define HALF_WEIGHT 0.125
enum { HALF_MC = 256, HALF_KC = 512, HALF_NEAR = 1 << 21 };
#else
#define HALF_WEIGHT 0.25
enum { HALF_MC = 128, HALF_KC = 1024, HALF_NEAR = 1 << 19 };
#endif

/* --- the table -------------------------------------------------------------------------------- */

/* A block of a (mc x kc floats, 256 KiB, or 512 on NEON) stays in the second-level cache. A panel
 * of b (nr x kc) passes through the first one for each panel of a: 24 KiB on NEON, 16 generic, 48
 * on AVX2; 96 on AVX-512, where it comes from the second one, but 3 vectors of it serve 24
 * multiply-adds, which take 12 cycles. Tiles of rows have no block of a, and may be deeper. Doubles
 * have half of each. */
_Static_assert(MC_F32 * 512 * sizeof(float) <= NEAR_F32 / 2 && 64 * 256 * sizeof(double) <= 1 << 18,
               "blocks of a");
static const tli_gemm_kernels in_rows_f32 = {
    .kind = TLI_GEMM_F32,
    .mr = GEMM_ROWS_MR,
    .nr = GEMM_ROWS_NR,
    .kr = 1,
    .weight = 1,
    .near = 1 << 19,
    .mc = 120,
    .kc = 640, // b's panel should stay in the first-level cache
    .element = sizeof(float),
    .sum_type = TL_F32,
    .vector = VF,
    .pack_b = TLI_ISA_NAME(tli_gemm_pack_rows_f32),
    .gather_b = TLI_ISA_NAME(tli_gemm_gather_rows_f32),
    .rows = rows_f32,
    .epilogue = TLI_ISA_NAME(tli_gemm_epilogue_f32),
    .convert = TLI_ISA_NAME(tli_gemm_convert),
    .peak = peak_f32,
};

#if defined(TLI_ISA_neon_bf16)
static const tli_gemm_kernels turned_bf16 = {
    .kind = TLI_GEMM_BF16,
    .mr = GEMM_TURNED_MR,
    .nr = GEMM_TURNED_NR,
    .kr = GEMM_HALF_KR,
    .along_rows = true,
    .weight = HALF_WEIGHT,
    .near = HALF_NEAR,
    .mc = 16 * GEMM_TURNED_MR, // with b's block and its sums in a second-level cache of 1 MiB
    .kc = HALF_KC,
    .element = sizeof(uint16_t),
    .sum_type = TL_F32,
    .vector = VF,
    .pack_a = TLI_ISA_NAME(tli_gemm_pack_a_turned),
    .pack_b = TLI_ISA_NAME(tli_gemm_pack_b_turned),
    .gather_a = TLI_ISA_NAME(tli_gemm_gather_a_turned),
    .gather_b = TLI_ISA_NAME(tli_gemm_gather_b_turned),
    .gather_steps_a = TLI_ISA_NAME(tli_gemm_gather_steps_a_turned),
    .tile = tile_turned,
    .tile_rounded = tile_rounded_turned,
    .epilogue = TLI_ISA_NAME(tli_gemm_epilogue_f32),
    .convert = TLI_ISA_NAME(tli_gemm_convert),
    .peak = peak_bf16,
};
#endif

const tli_gemm_kernels TLI_ISA_NAME(tli_gemm_kernels)[TLI_GEMM_KINDS] = {
    [TLI_GEMM_F32] = {.kind = TLI_GEMM_F32,
                      .mr = MR_f32,
                      .nr = NR_f32,
                      .kr = 1,
                      .weight = 1,
                      .near = NEAR_F32,
                      .mc = MC_F32,
                      .kc = 512,
                      .packs_from = PACKS_FROM,
                      .element = sizeof(float),
                      .sum_type = TL_F32,
                      .vector = VF,
                      .pack_a = TLI_ISA_NAME(tli_gemm_pack_a_f32),
                      .pack_b = TLI_ISA_NAME(tli_gemm_pack_b_f32),
                      .gather_a = TLI_ISA_NAME(tli_gemm_gather_a_f32),
                      .gather_b = TLI_ISA_NAME(tli_gemm_gather_b_f32),
                      .tile = tile_f32,
#if defined(GEMM_NEON)
                      .tile_biased = biased_f32,
                      .tile_rounded = rounded_f32,
#endif
                      .strided = strided_f32,
                      .row = row_f32,
                      .dots = dots_f32,
                      .in_rows = &in_rows_f32,
                      .epilogue = TLI_ISA_NAME(tli_gemm_epilogue_f32),
                      .convert = TLI_ISA_NAME(tli_gemm_convert),
                      .peak = peak_f32},
#if defined(GEMM_HALF)
    [TLI_GEMM_BF16] = {.kind = TLI_GEMM_BF16,
                       .mr = GEMM_HALF_MR,
                       .nr = GEMM_HALF_NR,
                       .kr = GEMM_HALF_KR,
                       .weight = HALF_WEIGHT,
                       .near = HALF_NEAR,
                       .mc = HALF_MC,
                       .kc = HALF_KC,
#if defined(TLI_ISA_amx)
                       .begin = begin_bf16,
                       .end = end_bf16,
                       .repacks_a = 64,
                       .repacks_b = 8,
                       .gather_steps_b = TLI_ISA_NAME(tli_gemm_gather_steps_b_bf16),
#else
                       .tile_rounded = tile_rounded_bf16,
                       .turned = &turned_bf16,
                       .gather_steps_a = TLI_ISA_NAME(tli_gemm_gather_steps_a_bf16),
#endif
                       .element = sizeof(uint16_t),
                       .sum_type = TL_F32,
                       .vector = VF,
                       .pack_a = TLI_ISA_NAME(tli_gemm_pack_a_bf16),
                       .pack_b = TLI_ISA_NAME(tli_gemm_pack_b_bf16),
                       .gather_a = TLI_ISA_NAME(tli_gemm_gather_a_bf16),
                       .gather_b = TLI_ISA_NAME(tli_gemm_gather_b_bf16),
                       .tile = tile_bf16,
                       .epilogue = TLI_ISA_NAME(tli_gemm_epilogue_f32),
                       .convert = TLI_ISA_NAME(tli_gemm_convert),
                       .peak = peak_bf16},
#endif
    [TLI_GEMM_F64] = {.kind = TLI_GEMM_F64,
                      .mr = MR_f64,
                      .nr = NR_f64,
                      .kr = 1,
                      .weight = 2,
                      .near = 1 << 20,
                      .mc = 64,
                      .kc = 256,
                      .packs_from = 8 * NR_f64,
                      .element = sizeof(double),
                      .sum_type = TL_F64,
                      .vector = VD,
                      .pack_a = TLI_ISA_NAME(tli_gemm_pack_a_f64),
                      .pack_b = TLI_ISA_NAME(tli_gemm_pack_b_f64),
                      .gather_a = TLI_ISA_NAME(tli_gemm_gather_a_f64),
                      .gather_b = TLI_ISA_NAME(tli_gemm_gather_b_f64),
                      .tile = tile_f64,
                      .strided = strided_f64,
                      .row = row_f64,
                      .dots = dots_f64,
                      .epilogue = TLI_ISA_NAME(tli_gemm_epilogue_f64),
                      .convert = TLI_ISA_NAME(tli_gemm_convert),
                      .peak = peak_f64},
};
