/* Convolutions of 3 x 3 without a stride by Winograd's method: a tile of 4 x 4 results costs 36
 * multiplications a pair of channels in place of 144. The source's tiles of 6 x 6 and the filter
 * are turned into their values at 6 x 6 points (winograd.h). At each point the values of all
 * channels are a product of matrices, [tiles, in] x [in, out], and what comes out is turned into
 * the tiles of the result.
 *
 * A task makes some tiles of the result, and some of their columns: what it turns stays in the
 * second-level cache between the steps. The image's gradient is the same with the filter turned
 * around; the filter's gradient is in conv_winograd_filter.c. */
#include <string.h>

#include "cpu/scratch.h"
#include "cpu/simd/winograd.h"

typedef struct walk {
    const tli_gemm_kernels *k; /* that read rows where they are */
    wino_pixels source;
    wino_axis y, x;
    float *to;
    int64_t tiles, depth, columns;
    /* The filter, [element][...]: element 0 is the first tap. */
    const float *filter;
    int64_t element, lane, step; /* floats to the next tap, column, and number in depth */
    /* Its values: [panel][point][depth][nr], of some panels from `first` on */
    float *values;
    int64_t first, panels;
    int64_t row;    /* floats from the values of one tile to those of the next */
    int64_t block;  /* tiles of a task */
    int64_t ranges; /* into how many the columns of a block of tiles are cut */
    int64_t range;  /* panels of one */
} walk;

/* --- the filter ------------------------------------------------------------------------------- */

/* Numbers in depth that are turned at a time: 18 KiB of 9 elements of 16 columns */
enum { CHUNK = 32 };

static void turn_filter(float *to, int64_t point, const float *from, int64_t element, int64_t n)
{
    for (int64_t i = 0; i < n; i += VF) {
        vf half[WINO_TAPS][WINO_IN];
        for (int x = 0; x < WINO_TAPS; x++) {
            const float *at = from + x * element + i;
            const vf g[] = {vf_load(at), vf_load(at + WINO_TAPS * element),
                            vf_load(at + 2 * WINO_TAPS * element)};
            wino_of_filter(half[x], g);
        }
        for (int y = 0; y < WINO_IN; y++) {
            const vf g[] = {half[0][y], half[1][y], half[2][y]};
            vf whole[WINO_IN];
            wino_of_filter(whole, g);
            for (int x = 0; x < WINO_IN; x++)
                vf_store(to + (y * WINO_IN + x) * point + i, whole[x]);
        }
    }
}

static tl_status turn_chunks(int64_t begin, int64_t end, void *payload)
{
    const walk *w = payload;
    const int nr = w->k->nr;
    const int64_t chunks = tl_div_up(w->depth, CHUNK), point = w->depth * nr;
    void *room;
    TL_TRY(
        tli_scratch(&room, TLI_SCRATCH_TASK, (size_t)(WINO_ELEMENTS * CHUNK * nr) * sizeof(float)));
    float *staged = room;
    for (int64_t i = begin; i < end; i++) {
        const int64_t panel = i / chunks, k0 = i % chunks * CHUNK;
        const int64_t column = (w->first + panel) * nr;
        const int64_t count = tl_min_i64(nr, w->columns - column);
        const int64_t depth = tl_min_i64(CHUNK, w->depth - k0);
        TL_ASSERT(panel < w->panels && count > 0 && depth > 0);
        for (int t = 0; t < WINO_ELEMENTS; t++)
            w->k->pack_b(staged + t * CHUNK * nr,
                         w->filter + t * w->element + column * w->lane + k0 * w->step, TL_F32,
                         w->lane, w->step, count, depth);
        turn_filter(w->values + panel * WINO_POINTS * point + k0 * nr, point, staged, CHUNK * nr,
                    depth * nr);
    }
    return TL_OK;
}

/* --- the source ------------------------------------------------------------------------------- */

/* Channels c .. c + n - 1 of one tile. */
TLI_INLINE void turn_vector(float *to, int64_t point, const float *const *pixels, int64_t c,
                            const bool whole, int64_t n)
{
    vf half[WINO_IN][WINO_IN];
    for (int x = 0; x < WINO_IN; x++) {
        vf d[WINO_IN], column[WINO_IN];
        for (int y = 0; y < WINO_IN; y++) {
            const float *from = pixels[y * WINO_IN + x] + c;
            d[y] = whole ? vf_load(from) : vf_load_n(from, n);
        }
        wino_of_source(column, d);
        for (int y = 0; y < WINO_IN; y++) half[y][x] = column[y];
    }
    for (int y = 0; y < WINO_IN; y++) {
        vf row[WINO_IN];
        wino_of_source(row, half[y]);
        for (int x = 0; x < WINO_IN; x++) vf_store(to + (y * WINO_IN + x) * point + c, row[x]);
    }
}

/* values[point][tile][row] of the tiles from `first` on. */
static void turn_source(float *values, const walk *w, int64_t first, int64_t count)
{
    const int64_t each = w->y.tiles * w->x.tiles, point = w->block * w->row;
    const float *pixels[WINO_POINTS];
    for (int64_t i = 0; i < count; i++, values += w->row) {
        const int64_t tile = (first + i) % each;
        wino_find(pixels, &w->source, WINO_IN, (first + i) / each,
                  wino_place(&w->y, tile / w->x.tiles) + w->y.first,
                  wino_place(&w->x, tile % w->x.tiles) + w->x.first, w->y.step, w->x.step);
        int64_t c = 0;
        for (; c + VF <= w->depth; c += VF) turn_vector(values, point, pixels, c, true, VF);
        if (c < w->depth) turn_vector(values, point, pixels, c, false, w->depth - c);
    }
}

/* --- the result ------------------------------------------------------------------------------- */

/* Columns j .. j + n - 1 of one tile; places that are not there are NULL. */
TLI_INLINE void return_vector(float *const *places, const float *from, int64_t point, int64_t j,
                              const bool whole, int64_t n)
{
    vf half[WINO_OUT][WINO_IN];
    for (int x = 0; x < WINO_IN; x++) {
        vf m[WINO_IN], column[WINO_OUT];
        for (int y = 0; y < WINO_IN; y++) m[y] = vf_load(from + (y * WINO_IN + x) * point + j);
        wino_to_results(column, m);
        for (int y = 0; y < WINO_OUT; y++) half[y][x] = column[y];
    }
    for (int y = 0; y < WINO_OUT; y++) {
        vf row[WINO_OUT];
        wino_to_results(row, half[y]);
        for (int x = 0; x < WINO_OUT; x++) {
            float *to = places[y * WINO_OUT + x];
            if (!to) continue;
            if (whole) vf_store(to + j, row[x]);
            else vf_store_n(to + j, row[x], n);
        }
    }
}

/* The places of a tile from column `first` on. */
static void find_places(float **places, const walk *w, int64_t tile, int64_t first)
{
    const int64_t each = w->y.tiles * w->x.tiles, image = tile / each;
    int64_t y = wino_place(&w->y, tile % each / w->x.tiles);
    for (int i = 0; i < WINO_OUT; i++, y += w->y.step) {
        int64_t x = wino_place(&w->x, tile % w->x.tiles);
        for (int j = 0; j < WINO_OUT; j++, x += w->x.step)
            *places++ =
                y < w->y.places && x < w->x.places
                    ? w->to + ((image * w->y.places + y) * w->x.places + x) * w->columns + first
                    : NULL;
    }
}

/* sums[point][tile][width] of the tiles from `first` on become `count` columns from `column` on. */
static void return_tiles(const walk *w, const float *sums, int64_t width, int64_t first,
                         int64_t tiles, int64_t column, int64_t count)
{
    const int64_t point = w->block * width;
    float *places[WINO_PLACES];
    for (int64_t i = 0; i < tiles; i++, sums += width) {
        find_places(places, w, first + i, column);
        int64_t j = 0;
        for (; j + VF <= count; j += VF) return_vector(places, sums, point, j, true, VF);
        if (j < count) return_vector(places, sums, point, j, false, count - j);
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

/* Panels of columns at a time: of 32 tiles, their sums at all points are 288 KiB on NEON. DEPTH
 * numbers are added up before they are added to a sum: longer chains would round more than the
 * turning does, whose errors are larger to begin with. */
enum { PANELS = 4, DEPTH = 128 };

typedef struct block {
    int64_t first, tiles; /* of the result */
    float *values, *sums;
    const void **rows; /* of one point: where the values of each tile are */
} block;

/* Calls for piece `part` of `parts` of what is read next, where no hardware looks. */
static void fetch(const float *from, int64_t floats, int64_t part, int64_t parts)
{
    enum { LINE = 64 / sizeof(float) };
    for (int64_t i = floats * part / parts; i < floats * (part + 1) / parts; i += LINE)
        __builtin_prefetch(from + i, 0, 2);
}

/* One point of some columns, `depth` numbers from k0 on: sums[tile][width]. */
static void multiply_point(const walk *w, const block *b, int point, int64_t panel, int64_t panels,
                           float *sums, int64_t k0, int64_t depth)
{
    const tli_gemm_kernels *k = w->k;
    const int64_t padded = tl_round_up(b->tiles, k->mr), rows = padded / k->mr;
    const int64_t width = panels * k->nr, apart = WINO_POINTS * w->depth * k->nr;
    const float *values = b->values + point * w->block * w->row;
    const float *filter = w->values + panel * apart + (point * w->depth + k0) * k->nr;
    for (int64_t i = 0; i < padded; i++) b->rows[i] = values + (i < b->tiles ? i : 0) * w->row + k0;
    const bool far = w->depth >= DEPTH; // else most of it is near anyway
    for (int64_t p = 0; p < panels; p++, filter += apart) {
        // The panel beside this one; behind the last one, what follows the first one's part.
        const float *next = filter + (p + 1 < panels ? apart : depth * k->nr - p * apart);
        for (int64_t i = 0; i < rows; i++) {
            if (far) fetch(next, depth * k->nr, i, rows);
            if (far && k0 == 0)
                fetch(values + w->block * w->row, b->tiles * w->row, p * rows + i, panels * rows);
            k->rows((int)tl_min_i64(k->mr, b->tiles - i * k->mr), k->nr, 1, depth,
                    b->rows + i * k->mr, filter, k->nr, sums + i * k->mr * width + p * k->nr, width,
                    1, k0 > 0);
        }
    }
}

/* All points of some columns: sums[point][tile][panels * nr]. */
static void multiply(const walk *w, const block *b, int64_t panel, int64_t panels)
{
    const int64_t point = w->block * panels * w->k->nr;
    for (int t = 0; t < WINO_POINTS; t++)
        for (int64_t k0 = 0; k0 < w->depth; k0 += DEPTH)
            multiply_point(w, b, t, panel, panels, b->sums + t * point, k0,
                           tl_min_i64(DEPTH, w->depth - k0));
}

static tl_status make_blocks(int64_t begin, int64_t end, void *payload)
{
    const walk *w = payload;
    const int nr = w->k->nr;
    const int64_t values = tl_round_up(WINO_POINTS * w->block * w->row, 16);
    const int64_t sums = tl_round_up(WINO_POINTS * w->block * PANELS * nr, 16);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK,
                       (size_t)(values + sums) * sizeof(float)
                           + (size_t)tl_round_up(w->block, w->k->mr) * sizeof(void *)));
    block b = {.values = room, .sums = (float *)room + values};
    b.rows = (const void **)(void *)(b.sums + sums);
    for (int64_t task = begin; task < end; task++) {
        const int64_t last = tl_min_i64((task % w->ranges + 1) * w->range, w->panels);
        b.first = task / w->ranges * w->block;
        b.tiles = tl_min_i64(w->block, w->tiles - b.first);
        TL_ASSERT(b.tiles > 0);
        turn_source(b.values, w, b.first, b.tiles);
        for (int64_t p = task % w->ranges * w->range; p < last; p += PANELS) {
            const int64_t panels = tl_min_i64(PANELS, last - p);
            const int64_t column = (w->first + p) * nr;
            multiply(w, &b, p, panels);
            return_tiles(w, b.sums, panels * nr, b.first, b.tiles, column,
                         tl_min_i64(panels * nr, w->columns - column));
        }
    }
    return TL_OK;
}

/* How the work is cut: from sizes alone. */
static void cut(walk *w)
{
    // A block's values at all points stay in a second-level cache of 1 MiB beside sums and filter;
    // fewer tiles than LEAST would read the filter's values too often. Blocks are cut across where
    // there are fewer than TASKS of them, into ranges of NARROWEST columns at least, since each of
    // them turns the same pixels.
    enum { BYTES = 3 << 18, LEAST = 32, MOST = 64, TASKS = 8, NARROWEST = 128 };
    const int64_t fits = BYTES / (WINO_POINTS * w->row * (int64_t)sizeof(float));
    const int64_t blocks = tl_div_up(w->tiles, tl_clamp_i64(fits, LEAST, MOST));
    w->block = tl_div_up(w->tiles, blocks);
    const int64_t most = tl_max_i64(w->panels * w->k->nr / NARROWEST, 1);
    w->ranges = tl_clamp_i64(tl_div_up(TASKS, blocks), 1, most);
    w->range = tl_div_up(w->panels, w->ranges);
    w->ranges = tl_div_up(w->panels, w->range);
}

static tl_status run_walk(tl_pool *pool, walk *w)
{
    // The filter's values are made for so many columns at a time that a last-level cache holds
    // them; but for WIDEST at least, for each of which the source is turned once more.
    enum { BYTES = 16 << 20, WIDEST = 256, CHUNKS = 4 };
    const int nr = w->k->nr;
    const int64_t panel = WINO_POINTS * w->depth * nr, panels = tl_div_up(w->columns, nr);
    const int64_t most = tl_max_i64(BYTES / (panel * (int64_t)sizeof(float)), WIDEST / nr);
    const int64_t some = tl_div_up(panels, tl_div_up(panels, most));
    w->tiles *= w->y.tiles * w->x.tiles;
    // Rows of a power of two would meet in the same lines of the cache.
    w->row = tl_round_up(w->depth, VF) + 64 / (int64_t)sizeof(float);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(some * panel + w->row) * sizeof(float)));
    w->values = room;
    float *beside = w->values + some * panel;
    memset(beside, 0, (size_t)w->row * sizeof *beside);
    w->source.beside = beside;
    for (w->first = 0; w->first < panels; w->first += some) {
        w->panels = tl_min_i64(some, panels - w->first);
        cut(w);
        TL_TRY(
            tl_parallel_for(pool, w->panels * tl_div_up(w->depth, CHUNK), CHUNKS, turn_chunks, w));
        TL_TRY(tl_parallel_for(pool, tl_div_up(w->tiles, w->block) * w->ranges, 1, make_blocks, w));
    }
    return TL_OK;
}

static tl_status winograd_result(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    walk w = {.k = tli_gemm_kernels_of(isa, TLI_GEMM_F32)->in_rows,
              .source = {.data = c->x, .height = c->h, .width = c->w, .channels = c->in},
              .y = wino_axis_of(c->oh, c->h, -c->top, c->dilation_y),
              .x = wino_axis_of(c->ow, c->w, -c->left, c->dilation_x),
              .to = c->y,
              .tiles = c->images,
              .depth = c->in,
              .columns = c->out,
              .filter = c->k,
              .element = c->in * c->out,
              .lane = 1,
              .step = c->out};
    return run_walk(pool, &w);
}

static tl_status winograd_image(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    // The last tap of the filter is the first one that a pixel sees.
    const int64_t element = c->in * c->out;
    walk w = {
        .k = tli_gemm_kernels_of(isa, TLI_GEMM_F32)->in_rows,
        .source = {.data = c->y, .height = c->oh, .width = c->ow, .channels = c->out},
        .y = wino_axis_of(c->h, c->oh, c->top - (WINO_TAPS - 1) * c->dilation_y, c->dilation_y),
        .x = wino_axis_of(c->w, c->ow, c->left - (WINO_TAPS - 1) * c->dilation_x, c->dilation_x),
        .to = c->x,
        .tiles = c->images,
        .depth = c->out,
        .columns = c->in,
        .filter = (const float *)c->k + (WINO_ELEMENTS - 1) * element,
        .element = -element,
        .lane = c->out,
        .step = 1};
    return run_walk(pool, &w);
}

static bool winograd_suits(const tli_conv *c, tli_conv_want what)
{
    // With fewer channels turning takes longer than it saves.
    enum { CHANNELS = 16 };
    if (c->type != TL_F32 || c->kh != WINO_TAPS || c->kw != WINO_TAPS || c->stride_y != 1
        || c->stride_x != 1 || c->groups != 1 || c->in < CHANNELS || c->out < CHANNELS)
        return false;
    const bool image = what == TLI_CONV_IMAGE;
    const int64_t h = image ? c->h : c->oh, w = image ? c->w : c->ow;
    const double pair = (double)c->in * (double)c->out, ends = (double)(c->in + c->out);
    const double places = (double)(c->images * h) * (double)w;
    const double tiles = (double)(c->images * wino_axis_of(h, 0, 0, c->dilation_y).tiles)
                         * (double)wino_axis_of(w, 0, 0, c->dilation_x).tiles;
    // As measured on a Neoverse-V1, in multiply-adds of a direct one: a value of a channel of a
    // tile takes TURN, one of the filter KEEP (SUM in its gradient); products run at 1 / SLOWER.
    const double turn = 20, keep = 32, sum = 20, slower = 1.2;
    const double direct = WINO_ELEMENTS * places * pair;
    const double turned =
        WINO_POINTS
        * (tiles * (slower * pair + turn * ends) + (what == TLI_CONV_FILTER ? sum : keep) * pair);
    return turned < direct;
}

const tli_conv_method TLI_ISA_NAME(tli_conv_winograd) = {
    winograd_suits, winograd_result, winograd_image, TLI_ISA_NAME(tli_conv_winograd_filter)};
