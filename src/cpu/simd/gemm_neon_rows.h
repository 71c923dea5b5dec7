/* The tile of 5 rows and up to 16 columns of floats on NEON whose rows of a lie anywhere, in pieces
 * (cpu/gemm.h, `rows`). Four numbers of each row are a register, whose lanes are multiplied in
 * turn: nothing is packed, and a load of b serves five rows.
 *
 * Registers: v12 to v31 hold the sums, four a row; v0 to v4 the rows of a; v8 to v11 a row of b,
 * each of which is loaded for the next step as soon as it was used. */
#ifndef TLI_CPU_SIMD_GEMM_NEON_ROWS_H
#define TLI_CPU_SIMD_GEMM_NEON_ROWS_H

#include "cpu/simd/gemm_neon.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"

// clang-format off
/* One vector of b times lane l of the rows; what stands between them is loads. Two rows alone are
 * half the work of five: a product of 32 rows is six fives and a two. */
#define FIVE(b, l, s0, s1, s2, s3, s4, LOADS)                                                      \
    FMA(s0, b, 0, l) LOADS FMA(s1, b, 1, l) FMA(s2, b, 2, l) FMA(s3, b, 3, l) FMA(s4, b, 4, l)
#define TWO(b, l, s0, s1, s2, s3, s4, LOADS) FMA(s0, b, 0, l) LOADS FMA(s1, b, 1, l)
#define ROWS_0(N, l, LOADS) N(8, l, 12, 16, 20, 24, 28, LOADS)
#define ROWS_1(N, l, LOADS) N(9, l, 13, 17, 21, 25, 29, LOADS)
#define ROWS_2(N, l, LOADS) N(10, l, 14, 18, 22, 26, 30, LOADS)
#define ROWS_3(N, l, LOADS) N(11, l, 15, 19, 23, 27, 31, LOADS)

/* One step in depth, for 1 to 4 vectors of columns: all vectors but the last one are there, and
 * those of the next step, `step` further on, are at its end. */
#define NEXT_B(step) "add %[b], %[b], %[" #step "]\n"
#define DEEP_1(N, l, step) LOAD(8, b, 0) NEXT_B(step) ROWS_0(N, l, "")
#define DEEP_2(N, l, step) ROWS_0(N, l, LOAD(9, b, 16) NEXT_B(step)) ROWS_1(N, l, LOAD(8, b, 0))
#define DEEP_3(N, l, step)                                                                         \
    ROWS_0(N, l, LOAD(10, b, 32) NEXT_B(step)) ROWS_1(N, l, LOAD(8, b, 0))                         \
    ROWS_2(N, l, LOAD(9, b, 16))
#define DEEP_4(N, l, step)                                                                         \
    ROWS_0(N, l, LOAD(11, b, 48) NEXT_B(step)) ROWS_1(N, l, LOAD(8, b, 0))                         \
    ROWS_2(N, l, LOAD(9, b, 16)) ROWS_3(N, l, LOAD(10, b, 32))
#define START_1 ""
#define START_2 LOAD(8, b, 0)
#define START_3 LOAD(8, b, 0) LOAD(9, b, 16)
#define START_4 LOAD(8, b, 0) LOAD(9, b, 16) LOAD(10, b, 32)
/* Behind the last step there is no next one: it is read again instead. */
#define COUNT_STEP                                                                                 \
    "subs %[total], %[total], #1\n"                                                                \
    "csel %[last], %[b_step], xzr, ne\n"

/* A row of sums times alpha (v7), into or onto c; the last row ends the tile. */
#define SCALE(x) "fmul v" #x ".4s, v" #x ".4s, v7.s[0]\n"
#define END_ROW                                                                                    \
    "subs %w[rows], %w[rows], #1\n"                                                                \
    "add %[c], %[c], %[c_row]\n"                                                                   \
    "b.eq 9f\n"
#define PUT_1(w, x, y, z) SCALE(w) "str q" #w ", [%[c]]\n" END_ROW
#define PUT_2(w, x, y, z) SCALE(w) SCALE(x) "stp q" #w ", q" #x ", [%[c]]\n" END_ROW
#define PUT_3(w, x, y, z)                                                                          \
    SCALE(w) SCALE(x) SCALE(y) "stp q" #w ", q" #x ", [%[c]]\n"                                    \
    "str q" #y ", [%[c], #32]\n" END_ROW
#define PUT_4(w, x, y, z)                                                                          \
    SCALE(w) SCALE(x) SCALE(y) SCALE(z) "stp q" #w ", q" #x ", [%[c]]\n"                           \
    "stp q" #y ", q" #z ", [%[c], #32]\n" END_ROW
#define ADD_1(w, x, y, z)                                                                          \
    "ldr q0, [%[c]]\n" FMA(0, w, 7, 0) "str q0, [%[c]]\n" END_ROW
#define ADD_2(w, x, y, z)                                                                          \
    "ldp q0, q1, [%[c]]\n" FMA(0, w, 7, 0) FMA(1, x, 7, 0) "stp q0, q1, [%[c]]\n" END_ROW
#define ADD_3(w, x, y, z)                                                                          \
    "ldp q0, q1, [%[c]]\n"                                                                         \
    "ldr q2, [%[c], #32]\n" FMA(0, w, 7, 0) FMA(1, x, 7, 0) FMA(2, y, 7, 0)                        \
    "stp q0, q1, [%[c]]\n"                                                                         \
    "str q2, [%[c], #32]\n" END_ROW
#define ADD_4(w, x, y, z)                                                                          \
    "ldp q0, q1, [%[c]]\n"                                                                         \
    "ldp q2, q3, [%[c], #32]\n" FMA(0, w, 7, 0) FMA(1, x, 7, 0) FMA(2, y, 7, 0) FMA(3, z, 7, 0)    \
    "stp q0, q1, [%[c]]\n"                                                                         \
    "stp q2, q3, [%[c], #32]\n" END_ROW
#define EACH_OF_5(X)                                                                               \
    X(12, 13, 14, 15) X(16, 17, 18, 19) X(20, 21, 22, 23) X(24, 25, 26, 27) X(28, 29, 30, 31)

/* a[piece * 5 + row]; rows beyond `rows` are read (any that may be), but not stored. */
#define NEON_ROWS(name, N, START, DEEP, PUT, ADD)                                                  \
    static void name(int rows, int64_t pieces, int64_t depth, const float *const *a,               \
                     const float *b, int64_t b_row, float *c, int64_t c_row, float alpha,          \
                     bool accumulate)                                                              \
    {                                                                                              \
        const float *a0, *a1, *a2, *a3, *a4;                                                       \
        int64_t left, at, last, total = pieces * (depth / 4 + depth % 4);                          \
        __asm__ volatile(ZERO_SUMS                                                                 \
            "cbz %[total], 5f\n" START                                                             \
            "0:\n"                                                                                 \
            "ldp %[a0], %[a1], [%[a]]\n"                                                           \
            "ldp %[a2], %[a3], [%[a], #16]\n"                                                      \
            "ldr %[a4], [%[a], #32]\n"                                                             \
            "add %[a], %[a], #40\n"                                                                \
            "mov %[at], #0\n"                                                                      \
            "lsr %[left], %[depth], #2\n"                                                          \
            "cbz %[left], 2f\n"                                                                    \
            ".balign 32\n"                                                                         \
            "1:\n"                                                                                 \
            LOAD_A(0, a0) LOAD_A(1, a1) LOAD_A(2, a2) LOAD_A(3, a3) LOAD_A(4, a4)                  \
            DEEP(N, 0, b_step) DEEP(N, 1, b_step) COUNT_STEP                                       \
            DEEP(N, 2, b_step)                                                                     \
            "add %[at], %[at], #16\n"                                                              \
            "subs %[left], %[left], #1\n"                                                          \
            DEEP(N, 3, last)                                                                       \
            "b.ne 1b\n"                                                                            \
            "2:\n"                                                                                 \
            "ands %[left], %[depth], #3\n"                                                         \
            "b.eq 4f\n"                                                                            \
            "3:\n"                                                                                 \
            LOAD_ONE(0, a0) LOAD_ONE(1, a1) LOAD_ONE(2, a2) LOAD_ONE(3, a3) LOAD_ONE(4, a4)        \
            COUNT_STEP                                                                             \
            DEEP(N, 0, last)                                                                       \
            "add %[at], %[at], #4\n"                                                               \
            "subs %[left], %[left], #1\n"                                                          \
            "b.ne 3b\n"                                                                            \
            "4:\n"                                                                                 \
            "subs %[pieces], %[pieces], #1\n"                                                      \
            "b.ne 0b\n"                                                                            \
            "5:\n"                                                                                 \
            "dup v7.4s, %w[alpha]\n"                                                               \
            "cbnz %w[accumulate], 8f\n"                                                            \
            EACH_OF_5(PUT)                                                                         \
            "8:\n"                                                                                 \
            EACH_OF_5(ADD)                                                                         \
            "9:\n"                                                                                 \
            : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [rows] "+r"(rows), [pieces] "+r"(pieces),     \
              [total] "+r"(total), [a0] "=&r"(a0), [a1] "=&r"(a1), [a2] "=&r"(a2),                 \
              [a3] "=&r"(a3), [a4] "=&r"(a4), [left] "=&r"(left), [at] "=&r"(at),                  \
              [last] "=&r"(last)                                                                   \
            : [depth] "r"(depth), [b_step] "r"(b_row * 4), [c_row] "r"(c_row * 4),                 \
              [alpha] "r"(tli_float_to_bits(alpha)), [accumulate] "r"((int)accumulate)             \
            : "memory", "cc", ALL_VECTORS);                                                        \
    }
NEON_ROWS(neon_rows_1, FIVE, START_1, DEEP_1, PUT_1, ADD_1)
NEON_ROWS(neon_rows_2, FIVE, START_2, DEEP_2, PUT_2, ADD_2)
NEON_ROWS(neon_rows_3, FIVE, START_3, DEEP_3, PUT_3, ADD_3)
NEON_ROWS(neon_rows_4, FIVE, START_4, DEEP_4, PUT_4, ADD_4)
NEON_ROWS(neon_two_rows_4, TWO, START_4, DEEP_4, PUT_4, ADD_4)

_Static_assert(GEMM_ROWS_MR == 5 && GEMM_ROWS_NR == 16, "the tile that is written out");
typedef void neon_rows_fn(int rows, int64_t pieces, int64_t depth, const float *const *a,
                          const float *b, int64_t b_row, float *c, int64_t c_row, float alpha,
                          bool accumulate);

/* By rows and vectors of columns. */
static inline neon_rows_fn *neon_rows_by(int rows, int64_t vectors)
{
    static neon_rows_fn *const all[] = {neon_rows_1, neon_rows_2, neon_rows_3, neon_rows_4};
    TL_ASSERT(rows > 0 && rows <= 5 && vectors > 0 && vectors <= 4);
    return rows <= 2 && vectors == 4 ? neon_two_rows_4 : all[vectors - 1];
}

// clang-format on
#pragma GCC diagnostic pop

#endif
