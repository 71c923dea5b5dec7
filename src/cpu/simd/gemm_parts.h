/* What the files of the product's kernels know of each other, and how wide their tiles are. */
#ifndef TLI_CPU_SIMD_GEMM_PARTS_H
#define TLI_CPU_SIMD_GEMM_PARTS_H

#include "cpu/gemm.h"

/* Rows, and vectors of columns, of the tile of floats: as many sums as the registers hold, with
 * room for what is multiplied (a row of b, and a number of a in all lanes). Of tiles with as many
 * sums that is the one that loads least for a multiply-add: (MR + NR) / (MR * NR). gemm_kernel.c
 * counts the registers.
 *
 *     NEON       8 x 3 vectors = 24 sums; the other 8 of 32 registers hold two steps of a and b
 *     AVX-512    8 x 3 = 24 sums, 3 of b, 1 of a: 28 of 32
 *     AVX2       4 x 3 = 12 sums, 3 of b, 1 of a: 16 of 16
 *     generic    4 x 2 = 8 sums, 2 of b, 1 of a: 11 of the 16 that SSE2 has
 *
 * 12 sums or more also keep two units busy whose multiply-adds take 4 or 5 cycles. Doubles use
 * smaller tiles; they are there to check others. */
#if defined(TLI_ISA_neon) || defined(TLI_ISA_neon_bf16)
enum { GEMM_MR = 8, GEMM_NR = 12 };
#elif defined(TLI_ISA_avx512)
enum { GEMM_MR = 8, GEMM_NR = 48 };
#elif defined(TLI_ISA_avx2)
enum { GEMM_MR = 4, GEMM_NR = 24 };
#else
enum { GEMM_MR = 4, GEMM_NR = 8 };
#endif
/* The same of the tile whose rows of a lie anywhere. On NEON four numbers of each row are a
 * register: 5 x 4 vectors are 20 sums, 5 registers of a and 4 of b, 29 of 32. */
#if defined(TLI_ISA_neon) || defined(TLI_ISA_neon_bf16)
enum { GEMM_ROWS_MR = 5, GEMM_ROWS_NR = 16 };
#else
enum { GEMM_ROWS_MR = GEMM_MR, GEMM_ROWS_NR = GEMM_NR };
#endif
/* The same of the tile of bfloat16, and the steps in depth that one of its multiplications takes,
 * where the set has one. BFMMLA makes 2 x 2 sums of 4 steps: 4 x 6 registers of sums, as for
 * floats. AMX has 8 tile registers of 16 x 16 sums or 16 x 32 numbers: 2 x 2 of sums, two of a and
 * two of b. */
#if defined(TLI_ISA_neon_bf16)
#define GEMM_HALF 1
enum { GEMM_HALF_MR = GEMM_MR, GEMM_HALF_NR = GEMM_NR, GEMM_HALF_KR = 4 };
/* The same tile turned around, for columns that are no multiple of 12. */
enum { GEMM_TURNED_MR = GEMM_HALF_NR, GEMM_TURNED_NR = GEMM_HALF_MR };
#elif defined(TLI_ISA_amx)
#define GEMM_HALF 1
enum { GEMM_HALF_MR = 32, GEMM_HALF_NR = 32, GEMM_HALF_KR = 32 };
#endif
enum { GEMM_WIDEST = 48 }; /* lanes of any panel */
_Static_assert((int)GEMM_NR <= (int)GEMM_WIDEST && (int)GEMM_ROWS_NR <= (int)GEMM_WIDEST,
               "no panel is wider");
_Static_assert(GEMM_MR % 4 == 0 && GEMM_NR % 4 == 0, "panels are filled four lanes at a time");
/* Vector registers of the machine. */
#if defined(TLI_ISA_neon) || defined(TLI_ISA_neon_bf16) || defined(TLI_ISA_avx512)
enum { GEMM_REGISTERS = 32 };
#else
enum { GEMM_REGISTERS = 16 };
#endif

/* UNROLLED is for whole loops over what a tile or a panel holds: only then can it stay in
 * registers. ROLLED is for loops through memory: prefetchers follow the steps of one load. */
#if defined(__clang__)
#define UNROLLED(...) _Pragma("clang loop unroll(full)") for (__VA_ARGS__)
#define ROLLED(...) _Pragma("clang loop unroll(disable)") for (__VA_ARGS__)
#else
#define UNROLLED(...) _Pragma("GCC unroll 16") for (__VA_ARGS__)
#define ROLLED(...) _Pragma("GCC unroll 1") for (__VA_ARGS__)
#endif

typedef void tli_gemm_pack_matrix_fn(void *dst, const void *src, tl_dtype type, int64_t lane,
                                     int64_t step, int64_t count, int64_t depth);
typedef void tli_gemm_gather_fn(void *dst, const void *const *rows, int count, tl_dtype type,
                                int64_t depth);

typedef void tli_gemm_steps_fn(void *dst, const void *const *steps, size_t offset, int64_t depth);

extern tli_gemm_pack_matrix_fn TLI_ISA_NAME(tli_gemm_pack_a_f32), TLI_ISA_NAME(tli_gemm_pack_b_f32);
extern tli_gemm_gather_fn TLI_ISA_NAME(tli_gemm_gather_a_f32), TLI_ISA_NAME(tli_gemm_gather_b_f32);
extern tli_gemm_pack_matrix_fn TLI_ISA_NAME(tli_gemm_pack_rows_f32);
extern tli_gemm_gather_fn TLI_ISA_NAME(tli_gemm_gather_rows_f32);
extern tli_gemm_pack_matrix_fn TLI_ISA_NAME(tli_gemm_pack_a_f64), TLI_ISA_NAME(tli_gemm_pack_b_f64);
extern tli_gemm_gather_fn TLI_ISA_NAME(tli_gemm_gather_a_f64), TLI_ISA_NAME(tli_gemm_gather_b_f64);
#if defined(GEMM_HALF)
extern tli_gemm_pack_matrix_fn TLI_ISA_NAME(tli_gemm_pack_a_bf16);
extern tli_gemm_pack_matrix_fn TLI_ISA_NAME(tli_gemm_pack_b_bf16);
extern tli_gemm_gather_fn TLI_ISA_NAME(tli_gemm_gather_a_bf16);
extern tli_gemm_gather_fn TLI_ISA_NAME(tli_gemm_gather_b_bf16);
#endif
#if defined(TLI_ISA_neon_bf16)
extern tli_gemm_pack_matrix_fn TLI_ISA_NAME(tli_gemm_pack_a_turned);
extern tli_gemm_pack_matrix_fn TLI_ISA_NAME(tli_gemm_pack_b_turned);
extern tli_gemm_gather_fn TLI_ISA_NAME(tli_gemm_gather_a_turned);
extern tli_gemm_gather_fn TLI_ISA_NAME(tli_gemm_gather_b_turned);
extern tli_gemm_steps_fn TLI_ISA_NAME(tli_gemm_gather_steps_a_bf16);
extern tli_gemm_steps_fn TLI_ISA_NAME(tli_gemm_gather_steps_a_turned);
#endif
#if defined(TLI_ISA_amx)
extern tli_gemm_steps_fn TLI_ISA_NAME(tli_gemm_gather_steps_b_bf16);
#endif

void TLI_ISA_NAME(tli_gemm_epilogue_f32)(const tli_gemm_epilogue *e);
void TLI_ISA_NAME(tli_gemm_epilogue_f64)(const tli_gemm_epilogue *e);
void TLI_ISA_NAME(tli_gemm_convert)(void *to, tl_dtype to_type, const void *from,
                                    tl_dtype from_type, int64_t n);

/* The table of this instruction set: [TLI_GEMM_BF16] has no kind of its own where it has no kernel.
 */
extern const tli_gemm_kernels TLI_ISA_NAME(tli_gemm_kernels)[TLI_GEMM_KINDS];

#endif
