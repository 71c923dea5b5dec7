/* The filter's gradient by Winograd's method (conv_winograd.c): at each of 6 x 6 points, the values
 * of the image's tiles times those of the result's gradient, summed over all tiles, and turned into
 * the 3 x 3 elements of the filter.
 *
 * Points of the two axes fall into pairs: 0 and infinity, a and -a, b and -b. A task has one pair
 * of rows of points, for some input channels, and goes through all tiles in blocks. It turns its
 * sums across; a second loop turns the rows. */
#include <string.h>

#include "cpu/scratch.h"
#include "cpu/simd/winograd.h"

enum { PAIRS = WINO_IN / 2, POINTS = 2 * WINO_IN /* of a task */ };

typedef struct sums {
    const tli_gemm_kernels *k;
    const tli_conv *c;
    wino_pixels image, result;
    wino_axis y, x;
    int64_t tiles;
    int64_t in, ins; /* input channels of a task; into how many tasks they are cut */
    int64_t row;     /* floats from one tile's values of these channels to the next one's */
    int64_t panels;  /* of output channels */
    int64_t block;   /* tiles at a time */
    float *halves;   /* [row of points][tap across][in][out] */
    int64_t element; /* floats of one of them: in * out */
} sums;

/* Rows of points of a pair. */
static int row_of(int pair, int which)
{
    return pair == 0 ? which * (WINO_IN - 1) : 2 * pair - 1 + which;
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Down: the two rows of a pair, of one column. */
TLI_INLINE void down_image(vf to[2], const int pair, const vf d[WINO_IN])
{
    if (pair == 0) {
        to[0] = wino_end_of_source(d[0], d[2], d[4]);
        to[1] = wino_end_of_source(d[1], d[3], d[5]);
    } else if (pair == 1) {
        wino_pair_of_source(&to[0], &to[1], WINO_A, WINO_B2, d[1], d[2], d[3], d[4]);
    } else {
        wino_pair_of_source(&to[0], &to[1], WINO_B, WINO_A2, d[1], d[2], d[3], d[4]);
    }
}

TLI_INLINE void down_result(vf to[2], const int pair, const vf y[WINO_OUT])
{
    if (pair == 0) {
        to[0] = y[0];
        to[1] = y[WINO_OUT - 1];
    } else {
        wino_pair_of_results(&to[0], &to[1], pair == 1 ? WINO_A : WINO_B, y);
    }
}

TLI_INLINE vf load_some(const float *from, const bool whole, int64_t n)
{
    return whole ? vf_load(from) : vf_load_n(from, n);
}

/* Channels c .. c + n - 1 of one tile of the image. */
TLI_INLINE void turn_image(float *to, int64_t point, const int pair, const float *const *pixels,
                           int64_t c, const bool whole, int64_t n)
{
    const int begin = pair == 0 ? 0 : 1, end = pair == 0 ? WINO_IN : WINO_IN - 1;
    vf half[2][WINO_IN], row[WINO_IN];
    for (int x = 0; x < WINO_IN; x++) {
        vf d[WINO_IN], two[2];
        for (int y = begin; y < end; y++) d[y] = load_some(pixels[y * WINO_IN + x] + c, whole, n);
        down_image(two, pair, d);
        half[0][x] = two[0];
        half[1][x] = two[1];
    }
    for (int y = 0; y < 2; y++) {
        wino_of_source(row, half[y]);
        for (int x = 0; x < WINO_IN; x++) vf_store(to + (y * WINO_IN + x) * point, row[x]);
    }
}

TLI_INLINE void turn_result(float *to, int64_t point, const int pair, const float *const *pixels,
                            int64_t c, const bool whole, int64_t n)
{
    vf half[2][WINO_OUT], row[WINO_IN];
    for (int x = 0; x < WINO_OUT; x++) {
        vf y_[WINO_OUT], two[2];
        for (int y = 0; y < WINO_OUT; y++)
            if (pair != 0 || y % (WINO_OUT - 1) == 0)
                y_[y] = load_some(pixels[y * WINO_OUT + x] + c, whole, n);
        down_result(two, pair, y_);
        half[0][x] = two[0];
        half[1][x] = two[1];
    }
    for (int y = 0; y < 2; y++) {
        wino_of_results(row, half[y]);
        for (int x = 0; x < WINO_IN; x++) vf_store(to + (y * WINO_IN + x) * point, row[x]);
    }
}

/* values[point][tile][channel], from pixels[] of the tile's first channel. */
TLI_INLINE void turn_image_tile(float *to, const sums *s, const int pair,
                                const float *const *pixels, int64_t channels)
{
    const int64_t point = s->block * s->row;
    int64_t c = 0;
    for (; c + VF <= channels; c += VF) turn_image(to + c, point, pair, pixels, c, true, VF);
    if (c < channels) turn_image(to + c, point, pair, pixels, c, false, channels - c);
}

/* values[point][panel][tile][nr]: panels of a product. */
TLI_INLINE void turn_result_tile(float *to, const sums *s, const int pair,
                                 const float *const *pixels)
{
    const int nr = s->k->nr;
    const int64_t point = s->panels * s->block * nr, out = s->c->out;
    for (int64_t p = 0; p < s->panels; p++, to += s->block * nr)
        for (int i = 0; i < nr; i += VF) {
            const int64_t c = p * nr + i;
            if (c + VF <= out) turn_result(to + i, point, pair, pixels, c, true, VF);
            else
                turn_result(to + i, point, pair, pixels, tl_min_i64(c, out - 1), false,
                            tl_max_i64(out - c, 0));
        }
}

static void turn_tiles(float *image, float *result, const sums *s, int pair, int64_t channel,
                       int64_t channels, int64_t first, int64_t count)
{
    const int64_t each = s->y.tiles * s->x.tiles;
    const float *seen[WINO_POINTS], *made[WINO_PLACES];
    wino_pixels pixels = s->image;
    pixels.data += channel;
    for (int64_t i = 0; i < count; i++, image += s->row, result += s->k->nr) {
        const int64_t number = (first + i) / each, tile = (first + i) % each;
        const int64_t y = wino_place(&s->y, tile / s->x.tiles);
        const int64_t x = wino_place(&s->x, tile % s->x.tiles);
        wino_find(seen, &pixels, WINO_IN, number, y + s->y.first, x + s->x.first, s->y.step,
                  s->x.step);
        wino_find(made, &s->result, WINO_OUT, number, y, x, s->y.step, s->x.step);
        switch (pair) {
        case 0:
            turn_image_tile(image, s, 0, seen, channels);
            turn_result_tile(result, s, 0, made);
            break;
        case 1:
            turn_image_tile(image, s, 1, seen, channels);
            turn_result_tile(result, s, 1, made);
            break;
        default:
            turn_image_tile(image, s, 2, seen, channels);
            turn_result_tile(result, s, 2, made);
            break;
        }
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

/* products[point][channel][panels * nr] (+)= values of `count` tiles. */
static void multiply(float *products, const float *image, const float *result, const sums *s,
                     int64_t channels, int64_t count, bool more)
{
    const tli_gemm_kernels *k = s->k;
    const int64_t width = s->panels * k->nr;
    for (int t = 0; t < POINTS; t++, image += s->block * s->row, products += s->in * width)
        for (int64_t p = 0; p < s->panels; p++, result += s->block * k->nr)
            for (int64_t i = 0; i < channels; i += k->mr)
                k->strided((int)tl_min_i64(k->mr, channels - i), k->nr, count, image + i, 1, s->row,
                           result, k->nr, products + i * width + p * k->nr, width, 1, more);
}

/* Across: the sums of a pair become halves[row][tap][channel .. channel + channels - 1][out]. */
static void turn_across(const sums *s, const float *products, int pair, int64_t channel,
                        int64_t channels)
{
    const int64_t width = s->panels * s->k->nr, out = s->c->out, point = s->in * width;
    for (int y = 0; y < 2; y++, products += WINO_IN * point)
        for (int64_t i = 0; i < channels; i++) {
            float *to = s->halves + row_of(pair, y) * WINO_TAPS * s->element + (channel + i) * out;
            for (int64_t j = 0; j < out; j += VF) {
                vf m[WINO_IN], taps[WINO_TAPS];
                for (int x = 0; x < WINO_IN; x++)
                    m[x] = vf_load(products + x * point + i * width + j);
                wino_to_filter(taps, m);
                for (int x = 0; x < WINO_TAPS; x++)
                    vf_store_n(to + x * s->element + j, taps[x], tl_min_i64(VF, out - j));
            }
        }
}

static tl_status sum_tiles(int64_t begin, int64_t end, void *payload)
{
    const sums *s = payload;
    const int64_t width = s->panels * s->k->nr;
    const int64_t image = tl_round_up(POINTS * s->block * s->row, 16);
    const int64_t result = tl_round_up(POINTS * s->block * width, 16);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK,
                       (size_t)(image + result + POINTS * s->in * width) * sizeof(float)
                           + TLI_GEMM_READ_AHEAD));
    float *seen = room, *made = seen + image, *products = made + result;
    for (int64_t task = begin; task < end; task++) {
        const int pair = (int)(task % PAIRS);
        const int64_t channel = task / PAIRS * s->in;
        const int64_t channels = tl_min_i64(s->in, s->c->in - channel);
        TL_ASSERT(channels > 0);
        for (int64_t i = 0; i < s->tiles; i += s->block) {
            const int64_t count = tl_min_i64(s->block, s->tiles - i);
            turn_tiles(seen, made, s, pair, channel, channels, i, count);
            multiply(products, seen, made, s, channels, count, i > 0);
        }
        turn_across(s, products, pair, channel, channels);
    }
    return TL_OK;
}

/* Down: some numbers of each element of the filter. */
static tl_status turn_down(int64_t begin, int64_t end, void *payload)
{
    const sums *s = payload;
    for (int x = 0; x < WINO_TAPS; x++)
        for (int64_t i = begin; i < end; i += VF) {
            const int64_t n = tl_min_i64(VF, end - i);
            vf m[WINO_IN], taps[WINO_TAPS];
            for (int y = 0; y < WINO_IN; y++)
                m[y] = vf_load_n(s->halves + (y * WINO_TAPS + x) * s->element + i, n);
            wino_to_filter(taps, m);
            for (int y = 0; y < WINO_TAPS; y++)
                vf_store_n((float *)s->c->k + (y * WINO_TAPS + x) * s->element + i, taps[y], n);
        }
    return TL_OK;
}

tl_status TLI_ISA_NAME(tli_conv_winograd_filter)(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    // BLOCK tiles are the depth of a product: the sums are read and written once for each. Output
    // channels are turned for each IN input channels, so these should be many; but a pair's sums
    // should stay in the second-level cache.
    enum { BLOCK = 64, IN = 128, CHUNK = 1 << 14 };
    sums s = {.k = tli_gemm_kernels_of(isa, TLI_GEMM_F32),
              .c = c,
              .image = {.data = c->x, .height = c->h, .width = c->w, .channels = c->in},
              .result = {.data = c->y, .height = c->oh, .width = c->ow, .channels = c->out},
              .y = wino_axis_of(c->oh, c->h, -c->top, c->dilation_y),
              .x = wino_axis_of(c->ow, c->w, -c->left, c->dilation_x),
              .element = c->in * c->out};
    s.tiles = c->images * s.y.tiles * s.x.tiles;
    s.block = tl_div_up(s.tiles, tl_div_up(s.tiles, BLOCK));
    s.panels = tl_div_up(c->out, s.k->nr);
    s.in = tl_round_up(tl_div_up(c->in, tl_div_up(c->in, IN)), s.k->mr);
    s.ins = tl_div_up(c->in, s.in);
    // Rows of a power of two would meet in the same lines of the cache.
    s.row = tl_round_up(s.in, VF) + 16;
    const int64_t beside = tl_round_up(tl_max_i64(c->in, c->out), VF);
    const int64_t halves = WINO_IN * WINO_TAPS * s.element;
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(halves + beside) * sizeof(float)));
    s.halves = room;
    memset(s.halves + halves, 0, (size_t)beside * sizeof(float));
    s.image.beside = s.result.beside = s.halves + halves;
    TL_TRY(tl_parallel_for(pool, PAIRS * s.ins, 1, sum_tiles, &s));
    return tl_parallel_for(pool, s.element, CHUNK, turn_down, &s);
}
