/* Small products of half precision: a group has a tile of 16 by 32 elements, and its eight warps
 * share the terms of each sum, 16 at a time in turn. What they come to is added up in the order of
 * the warps.
 *
 * Thread word: free-threaded. */

#define TILE_M 16
#define TILE_N 32
#define PARTS 8
#define STEP 16

FN i64 at_a(const tli_product_args *a, i64 i, i64 l) { return TRANSPOSE_A ? l * a->m + i : i * a->k + l; }
FN i64 at_b(const tli_product_args *a, i64 l, i64 j) { return TRANSPOSE_B ? j * a->k + l : l * a->n + j; }

#ifdef __CUDACC__
/* Elements l and l + 1 of a row of a, and of a column of b; 0 beyond the ends. */
FN u32 pair_a(const tli_product_args *a, const X_T *x, i64 i, i64 l)
{
    if (i >= a->m || l >= a->k) return 0;
#if PAIRS_A
    return *(const u32 *)(x + at_a(a, i, l));
#else
    const u32 next = l + 1 < a->k ? x[at_a(a, i, l + 1)] : 0;
    return x[at_a(a, i, l)] | next << 16;
#endif
}
FN u32 pair_b(const tli_product_args *a, const X_T *x, i64 l, i64 j)
{
    if (j >= a->n || l >= a->k) return 0;
#if PAIRS_B
    return *(const u32 *)(x + at_b(a, l, j));
#else
    const u32 next = l + 1 < a->k ? x[at_b(a, l + 1, j)] : 0;
    return x[at_b(a, l, j)] | next << 16;
#endif
}

/* What a warp adds up of a tile. */
FN void add_part(const tli_product_args *a, const X_T *x, const X_T *y, i64 row, i64 column,
                 float (*sums)[TILE_M][TILE_N + 1])
{
    const int warp = threadIdx.x >> 5, of = threadIdx.x >> 2 & 7, in = threadIdx.x & 3;
    float c[4][4] = {};
    _Pragma("unroll 4") for (i64 k = warp * STEP; k < a->k; k += PARTS * STEP)
    {
        u32 u[4], v[4][2];
        UNROLL for (int i = 0; i < 4; i++)
            u[i] = pair_a(a, x, row + of + (i & 1) * 8, k + 2 * in + (i >> 1) * 8);
        UNROLL for (int j = 0; j < 4; j++)
            UNROLL for (int i = 0; i < 2; i++)
                v[j][i] = pair_b(a, y, k + 2 * in + i * 8, column + j * 8 + of);
        UNROLL for (int j = 0; j < 4; j++)
            asm("mma.sync.aligned.m16n8k16.row.col.f32." HALF "." HALF ".f32 {%0, %1, %2, %3}, "
                "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
                : "r"(u[0]), "r"(u[1]), "r"(u[2]), "r"(u[3]), "r"(v[j][0]), "r"(v[j][1]));
    }
    UNROLL for (int j = 0; j < 4; j++)
        UNROLL for (int i = 0; i < 4; i++)
            sums[warp][of + (i >> 1) * 8][j * 8 + 2 * in + (i & 1)] = c[j][i];
}
#else
FN void add_part(const tli_product_args *a, const X_T *x, const X_T *y, i64 row, i64 column,
                 float (*sums)[TILE_M][TILE_N + 1])
{
    for (int p = 0; p < PARTS; p++)
        for (i64 i = 0; i < TILE_M; i++)
            for (i64 j = 0; j < TILE_N; j++) {
                float sum = 0;
                for (i64 l = 0; l < a->k && row + i < a->m && column + j < a->n; l++)
                    if (l / STEP % PARTS == p)
                        sum += X_LOAD(x[at_a(a, row + i, l)]) * X_LOAD(y[at_b(a, l, column + j)]);
                sums[p][i][j] = sum;
            }
}
#endif

KERNEL(256) multiply_small(const tli_product_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    SHARED(float, sums, [PARTS][TILE_M][TILE_N + 1]);
    const i64 across = (a.n + TILE_N - 1) / TILE_N, tiles = across * ((a.m + TILE_M - 1) / TILE_M);
    const i64 matrix = group / tiles, tile = group % tiles;
    const i64 row = tile / across * TILE_M, column = tile % across * TILE_N;
    add_part(&a, (const X_T *)a.a + matrix * a.a_step, (const X_T *)a.b + matrix * a.b_step, row,
             column, sums);
    BARRIER(256)
    EACH_THREAD(256)
    {
        UNROLL for (int e = 0; e < TILE_M * TILE_N / 256; e++)
        {
            const int number = e * 256 + t;
            const i64 i = row + number / TILE_N, j = column + number % TILE_N;
            if (i < a.m && j < a.n) {
                const i64 at = (matrix * a.m + i) * a.n + j;
                float sum = 0;
                UNROLL for (int p = 0; p < PARTS; p++) sum += sums[p][number / TILE_N][number % TILE_N];
                if (a.bias) sum += X_LOAD(((const X_T *)a.bias)[j]);
                if (a.added) sum += Y_LOAD(((const Y_T *)a.added)[at]);
                if (a.relu) sum = sum < 0 ? 0 : sum; // NaN stays
                ((Y_T *)a.c)[at] = Y_STORE(sum);
            }
        }
    }
}
