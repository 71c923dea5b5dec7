/* Small products of half precision: a group has a tile of 16 WM by 16 WN elements, and WK parts of
 * its eight warps share the terms of each sum, 16 at a time in turn. What the parts come to is added
 * up in their order. Operands come into the group's memory as they lie, CHUNK terms at once.
 *
 * M, N, K, A_STEP, B_STEP: sizes. TRANSPOSE_A, TRANSPOSE_B: the operand lies as [k, m], [n, k].
 * WIDE_A, WIDE_B: rows of it can be read in vectors of 8. BIAS, ADDED, RELU, MASKED: what follows
 * the sum.
 *
 * Thread word: free-threaded. */

#define TILE_M (16 * WM)
#define TILE_N (16 * WN)
/* Rows in the group's memory, which begin in different banks. */
#define ROW_A (8 + (TRANSPOSE_A ? TILE_M : CHUNK))
#define ROW_B (8 + (TRANSPOSE_B ? CHUNK : TILE_N))
#define ROWS_A (TRANSPOSE_A ? CHUNK : TILE_M)
#define ROWS_B (TRANSPOSE_B ? TILE_N : CHUNK)
/* Whether tiles end where the operand does. */
#define A_INSIDE (M % TILE_M == 0 && K % CHUNK == 0)
#define B_INSIDE (N % TILE_N == 0 && K % CHUNK == 0)

#ifdef __CUDACC__
extern __shared__ ALIGNED X_T pool[];

/* Eight elements, or none. */
FN void fetch_vector(u32 to, const X_T *from, bool there)
{
    const u32 bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/* A box of [rows, columns] of a matrix, from row r and column c on; beyond its ends is 0, if it may
 * reach there. A thread's parts of the box are 256 apart. */
template <bool vectors, int rows, int columns, int room, bool inside>
FN void fetch(X_T *to, const X_T *x, int r, int c, int height, int width)
{
    constexpr int each = vectors ? 8 : 1, across = columns / each, parts = rows * across;
    const u32 at = (u32)__cvta_generic_to_shared(to);
    const X_T *box = x + ((i64)r * width + c);
    int i = threadIdx.x / across, j = threadIdx.x % across;
    _Pragma("unroll 16") for (int first = 0; first < parts; first += 256) {
        if (first + 256 <= parts || first + threadIdx.x < parts) {
            const bool there = inside || (r + i < height && c + j * each < width);
            const X_T *from = there ? box + (i * width + j * each) : x;
            if (vectors) fetch_vector(at + 2 * (i * room + j * each), from, there);
            else to[i * room + j] = there ? *from : (X_T)0;
        }
        i += 256 / across;
        j += 256 % across;
        if (256 % across && j >= across) {
            j -= across;
            i++;
        }
    }
}

FN void load_four(u32 *to, const X_T *from, bool transposed)
{
    const u32 at = (u32)__cvta_generic_to_shared(from);
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}

/* 16 terms of 16 by 16 elements, from the terms k and the elements i and j of the tile on. */
FN void add_terms(float (*c)[4], const X_T *a, const X_T *b, int i, int j, int k)
{
    const int lane = threadIdx.x & 31, of = lane & 7, low = lane >> 3 & 1, high = lane >> 4;
    u32 u[4], v[4];
    /* a: quarters (rows, terms) 00, 80, 08, 88; b: (columns, terms) 00, 08, 80, 88 */
    load_four(u, TRANSPOSE_A ? a + (k + of + 8 * high) * ROW_A + i + 8 * low
                             : a + (i + of + 8 * low) * ROW_A + k + 8 * high, TRANSPOSE_A);
    load_four(v, TRANSPOSE_B ? b + (j + of + 8 * high) * ROW_B + k + 8 * low
                             : b + (k + of + 8 * low) * ROW_B + j + 8 * high, !TRANSPOSE_B);
    UNROLL for (int n = 0; n < 2; n++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." HALF "." HALF ".f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
                     : "r"(u[0]), "r"(u[1]), "r"(u[2]), "r"(u[3]), "r"(v[2 * n]), "r"(v[2 * n + 1]));
}

FN void add_parts(const X_T *x, const X_T *y, int row, int column, float (*sums)[TILE_M][TILE_N + 1])
{
    const int warp = threadIdx.x >> 5, part = warp % WK, i = warp / WK % WM * 16, j = warp / WK / WM * 16;
    const int of = threadIdx.x >> 2 & 7, in = threadIdx.x & 3;
    X_T *a = pool, *b = pool + ROWS_A * ROW_A;
    float c[2][4] = {};
    for (int first = 0; first < K; first += CHUNK) {
        if (first) SYNC(256);
        if (TRANSPOSE_A) fetch<WIDE_A, CHUNK, TILE_M, ROW_A, A_INSIDE>(a, x, first, row, K, M);
        else fetch<WIDE_A, TILE_M, CHUNK, ROW_A, A_INSIDE>(a, x, row, first, M, K);
        if (TRANSPOSE_B) fetch<WIDE_B, TILE_N, CHUNK, ROW_B, B_INSIDE>(b, y, column, first, N, K);
        else fetch<WIDE_B, CHUNK, TILE_N, ROW_B, B_INSIDE>(b, y, first, column, K, N);
        asm volatile("cp.async.wait_all;" ::: "memory");
        SYNC(256);
        _Pragma("unroll 4") for (int k = part * 16; k < CHUNK; k += WK * 16) add_terms(c, a, b, i, j, k);
    }
    UNROLL for (int n = 0; n < 2; n++)
        UNROLL for (int e = 0; e < 4; e++)
            sums[part][i + of + (e >> 1) * 8][j + n * 8 + 2 * in + (e & 1)] = c[n][e];
}
#else
FN void add_parts(const X_T *x, const X_T *y, i64 row, i64 column, float (*sums)[TILE_M][TILE_N + 1])
{
    for (int p = 0; p < WK; p++)
        for (i64 i = 0; i < TILE_M; i++)
            for (i64 j = 0; j < TILE_N; j++) {
                float sum = 0;
                for (i64 l = 0; l < K && row + i < M && column + j < N; l++)
                    if (l % CHUNK / 16 % WK == p)
                        sum += X_LOAD(x[TRANSPOSE_A ? l * M + row + i : (row + i) * K + l])
                               * X_LOAD(y[TRANSPOSE_B ? (column + j) * K + l : l * N + column + j]);
                sums[p][i][j] = sum;
            }
}
#endif

/* What a thread has of the tile: elements `at` of the result. */
#define TILE_BEGIN                                                                                 \
    UNROLL for (int e = 0; e < TILE_M * TILE_N / 256; e++) {                                       \
        const int number = e * 256 + t, i = row + number / TILE_N, j = column + number % TILE_N;   \
        const i64 at = (matrix * M + i) * N + j;                                                   \
        if (i < M && j < N) {
#define TILE_END }}

KERNEL(256) multiply_small(const tli_product_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
#ifdef __CUDACC__
    float(*sums)[TILE_M][TILE_N + 1] =
        (float(*)[TILE_M][TILE_N + 1])(pool + ROWS_A * ROW_A + ROWS_B * ROW_B);
#else
    float sums[WK][TILE_M][TILE_N + 1];
#endif
    const int across = (N + TILE_N - 1) / TILE_N, tiles = across * ((M + TILE_M - 1) / TILE_M);
    const i64 matrix = group / tiles;
    const int tile = (int)(group % tiles), row = tile / across * TILE_M, column = tile % across * TILE_N;
    // What follows the sums is on its way while they are made.
    PER_THREAD(256, X_T, biases, [TILE_M * TILE_N / 256]);
    PER_THREAD(256, Y_T, others, [TILE_M * TILE_N / 256]);
    EACH_THREAD(256)
    {
        TILE_BEGIN
            if (BIAS) MY(biases)[e] = ((const X_T *)a.bias)[j];
            if (ADDED || MASKED) MY(others)[e] = ((const Y_T *)(ADDED ? a.added : a.mask))[at];
        TILE_END
    }
    add_parts((const X_T *)a.a + matrix * A_STEP, (const X_T *)a.b + matrix * B_STEP, row, column, sums);
    BARRIER(256)
    EACH_THREAD(256)
    {
        TILE_BEGIN
            float sum = 0;
            UNROLL for (int p = 0; p < WK; p++) sum += sums[p][i - row][j - column];
            if (BIAS) sum += X_LOAD(MY(biases)[e]);
            if (ADDED) sum += Y_LOAD(MY(others)[e]);
            if (RELU) sum = sum < 0 ? 0 : sum; // NaN stays
            if (MASKED && !(Y_LOAD(MY(others)[e]) > 0)) sum = 0;
            ((Y_T *)a.c)[at] = Y_STORE(sum);
        TILE_END
    }
}
