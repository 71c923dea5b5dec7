/* Pictures in rows (conv_patches.c): a row has the pixels under one place of the filter, then zeros.
 * A thread makes a vector of 8 of its elements; those behind them put rows of zeros behind the
 * filter's, where there is one. Sizes are definitions.
 *
 * Thread word: free-threaded. */

typedef struct __attribute__((aligned(16))) eight {
    u16 at[8];
} eight;

KERNEL(256) put_rows(const tli_patches_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const u32 i = (u32)group * 256 + (u32)t, row = i / (WIDTH / 8), behind = i - ROWS * (WIDTH / 8);
        eight all;
        if (row < ROWS) {
            const u32 first = i % (WIDTH / 8) * 8;
            const u32 column = row % TO_W, line = row / TO_W % TO_H, n = row / (TO_W * TO_H);
            UNROLL for (u32 e = 0; e < 8; e++) {
                const u32 tap = first + e, place = tap / IN;
                const i32 y = (i32)(line * SY + place / KW * DY) - TOP;
                const i32 x = (i32)(column * SX + place % KW * DX) - LEFT;
                const int in = tap < TAPS && y >= 0 && y < H && x >= 0 && x < W;
                all.at[e] = 0;
                if (in) all.at[e] = a.x[(((i64)n * H + y) * W + x) * IN + tap % IN];
            }
            *(eight *)(a.rows + (i64)i * 8) = all;
        } else if (a.filter && behind < WIDTH * OUT / 8) {
            UNROLL for (u32 e = 0; e < 8; e++)
                all.at[e] = behind * 8 + e < TAPS * OUT ? a.filter[behind * 8 + e] : 0;
            *(eight *)(a.filter_out + (i64)behind * 8) = all;
        }
    }
}
