/* Tiles of bfloat16 on AMX. An instruction multiplies 16 x 32 numbers by 32 x 16: it takes pairs
 * that follow each other in depth and adds their two products to a sum, rounding to nearest even
 * after each of the two. Numbers below 2^-126 count as zeros, on the way in and out, whatever the
 * thread's rounding says. */
#ifndef TLI_CPU_SIMD_GEMM_AMX_H
#define TLI_CPU_SIMD_GEMM_AMX_H

#include <immintrin.h>

#include "cpu/simd/gemm_parts.h"
#include "cpu/simd/vec.h"

/* c = alpha * sums (+ c), for `count` <= VF columns. */
TLI_INLINE void put_sums(float *c, vf sums, int count, vf alpha, bool accumulate)
{
    const vf before = accumulate ? vf_load_n(c, count) : vf_zero();
    vf_store_n(c, vf_fma(sums, alpha, before), count);
}

/* A tile register is 16 rows of 64 bytes. Four hold sums, 32 x 32 of them; 4 and 5 hold what of a
 * is multiplied, 6 and 7 what of b. */
enum { TILE = 16, TILE_BYTES = 64, TILE_HALVES = TILE * TILE_BYTES / 2 };
_Static_assert(GEMM_HALF_MR == 2 * TILE && GEMM_HALF_NR == 2 * TILE
                   && GEMM_HALF_KR * 2 == TILE_BYTES,
               "four registers of sums");

typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;
_Static_assert(sizeof(tile_shapes) == 64, "as the instruction reads it");

static void begin_bf16(void)
{
    static const tile_shapes shapes = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&shapes);
}

/* What is left configured would be saved and restored with the thread. */
static void end_bf16(void)
{
    _tile_release();
}

/* sums += a * b, for `down` x `across` tile registers of sums. */
TLI_INLINE void multiply_tiles(const int down, const int across, int64_t steps, const uint16_t *a,
                               const uint16_t *b)
{
    for (int64_t s = 0; s < steps; s++, a += 2 * TILE_HALVES, b += 2 * TILE_HALVES) {
        _tile_loadd(6, b, TILE_BYTES);
        _tile_loadd(4, a, TILE_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        if (across == 2) {
            _tile_loadd(7, b + TILE_HALVES, TILE_BYTES);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (down == 2) {
            _tile_loadd(5, a + TILE_HALVES, TILE_BYTES);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (down == 2 && across == 2) _tile_dpbf16ps(3, 5, 7);
    }
}

/* A quarter of the sums: register `number`, rows from 16 * i and columns from 16 * j on. */
#define EACH_QUARTER(X) X(0, 0, 0) X(1, 0, 1) X(2, 1, 0) X(3, 1, 1)

static void tile_bf16(int rows, int cols, int64_t depth, const void *a, const void *b, void *c,
                      int64_t c_row, double alpha, bool accumulate)
{
    const int64_t steps = (depth + GEMM_HALF_KR - 1) / GEMM_HALF_KR;
    const int64_t row_bytes = c_row * (int64_t)sizeof(float);
    const int down = rows > TILE ? 2 : 1, across = cols > TILE ? 2 : 1;
    float room[TILE * TILE];
    TL_ASSERT(rows > 0 && rows <= GEMM_HALF_MR && cols > 0 && cols <= GEMM_HALF_NR);
    // Sums of whole quarters go straight from and to c.
#define IS_THERE(i, j) ((i) < down && (j) < across)
#define IS_WHOLE(i, j) (alpha == 1 && rows >= ((i) + 1) * TILE && cols >= ((j) + 1) * TILE)
#define AT(i, j) ((float *)c + (i)*TILE * c_row + (j)*TILE)
#define START(number, i, j)                                                                        \
    if (accumulate && IS_WHOLE(i, j)) _tile_loadd(number, AT(i, j), row_bytes);                    \
    else _tile_zero(number);
    EACH_QUARTER(START)
#undef START
    if (down == 2 && across == 2) multiply_tiles(2, 2, steps, a, b);
    else if (down == 2) multiply_tiles(2, 1, steps, a, b);
    else if (across == 2) multiply_tiles(1, 2, steps, a, b);
    else multiply_tiles(1, 1, steps, a, b);
#define STORE(number, i, j)                                                                        \
    if (IS_WHOLE(i, j)) {                                                                          \
        _tile_stored(number, AT(i, j), row_bytes);                                                 \
    } else if (IS_THERE(i, j)) {                                                                   \
        const int high = rows - (i)*TILE < TILE ? rows - (i)*TILE : TILE;                          \
        const int wide = cols - (j)*TILE < TILE ? cols - (j)*TILE : TILE;                          \
        _tile_stored(number, room, TILE_BYTES);                                                    \
        for (int r = 0; r < high; r++)                                                             \
            put_sums(AT(i, j) + r * c_row, vf_load(room + r * TILE), wide, vf_set1((float)alpha),  \
                     accumulate);                                                                  \
    }
    EACH_QUARTER(STORE)
#undef STORE
#undef AT
#undef IS_WHOLE
#undef IS_THERE
}

static int64_t peak_bf16(int64_t rounds)
{
    static const uint16_t zeros[4 * TILE_HALVES];
    begin_bf16();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, zeros, TILE_BYTES);
    _tile_loadd(5, zeros, TILE_BYTES);
    _tile_loadd(6, zeros, TILE_BYTES);
    _tile_loadd(7, zeros, TILE_BYTES);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    end_bf16();
    return rounds * 4 * TILE * TILE * GEMM_HALF_KR * 2;
}

#endif
