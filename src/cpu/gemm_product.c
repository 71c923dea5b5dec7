#include <string.h>
#include <tilth/base/integer.h>

#include "cpu/gemm_impl.h"
#include "cpu/scratch.h"

/* --- packing ---------------------------------------------------------------------------------- */

static tl_status pack_a(const product *p, void *dst, int64_t first, int64_t count, int64_t k0,
                        int64_t depth)
{
    const tli_gemm *g = p->g;
    TL_ASSERT(first % p->k->mr == 0 && count > 0 && first + count <= g->m && k0 % p->k->kr == 0
              && k0 + depth <= g->k);
    if (depth == 0) return TL_OK;
    if (g->pack_a) return g->pack_a(g->pack_a_payload, dst, p->batch, first, count, k0, depth);
    p->k->pack_a(dst, tli_gemm_at(p->a, g->a_type, first * g->a_row + k0 * g->a_col), g->a_type,
                 g->a_row, g->a_col, count, depth);
    return TL_OK;
}

static tl_status pack_b(const product *p, void *dst, int64_t first, int64_t count, int64_t k0,
                        int64_t depth)
{
    const tli_gemm *g = p->g;
    TL_ASSERT(first % p->k->nr == 0 && count > 0 && first + count <= g->n && k0 % p->k->kr == 0
              && k0 + depth <= g->k);
    if (depth == 0) return TL_OK;
    if (g->pack_b) return g->pack_b(g->pack_b_payload, dst, p->batch, first, count, k0, depth);
    p->k->pack_b(dst, tli_gemm_at(p->b, g->b_type, first * g->b_col + k0 * g->b_row), g->b_type,
                 g->b_col, g->b_row, count, depth);
    return TL_OK;
}

static size_t panels_bytes(const product *p, const panels *s, int width)
{
    return (size_t)tl_div_up(s->count, width) * tli_gemm_panel_bytes(p->k, width, s->k1 - s->k0);
}

/* Whether a panel of this width and depth at `at` is one of these, whole. */
static bool is_panel(const product *p, const panels *s, int width, const char *at, int64_t depth)
{
    const size_t bytes = (size_t)(depth * width) * p->k->element;
    return at >= s->data && at + bytes <= s->data + panels_bytes(p, s, width);
}

/* The panel that starts at this lane, in the block that starts at this depth. */
static char *panel_at(const product *p, const panels *s, int width, int64_t lane, int64_t k0)
{
    const int64_t padded = tl_round_up(s->count, width);
    const int64_t depth = tl_round_up(tl_min_i64(p->kb, s->k1 - k0), p->k->kr);
    char *at =
        s->data + (size_t)(padded * (k0 - s->k0) + (lane - s->first) * depth) * p->k->element;
    TL_ASSERT(lane >= s->first && (lane - s->first) % width == 0 && k0 >= s->k0
              && (k0 - s->k0) % p->kb == 0);
    TL_ASSERT(is_panel(p, s, width, at, depth));
    return at;
}

typedef struct packing {
    const product *p;
    const panels *a, *b;
    int64_t a_units; /* panels of a, times blocks; those of b follow */
} packing;

static int64_t units_of(const product *p, const panels *s, int width)
{
    return tl_div_up(s->count, width) * tl_div_up(s->k1 - s->k0, p->kb);
}

static tl_status pack_units(int64_t begin, int64_t end, void *payload)
{
    const packing *work = payload;
    const product *p = work->p;
    for (int64_t unit = begin; unit < end;) {
        const bool is_a = unit < work->a_units;
        const panels *s = is_a ? work->a : work->b;
        const int width = is_a ? p->k->mr : p->k->nr;
        const int64_t in_row = tl_div_up(s->count, width),
                      index = unit - (is_a ? 0 : work->a_units);
        const int64_t lane = s->first + index % in_row * width, k0 = s->k0 + index / in_row * p->kb;
        // As many neighbours of the same block as there are.
        int64_t run = tl_min_i64(end - unit, in_row - index % in_row);
        if (is_a) run = tl_min_i64(run, work->a_units - unit);
        const int64_t count = tl_min_i64(run * width, s->first + s->count - lane);
        const int64_t depth = tl_min_i64(p->kb, s->k1 - k0);
        TL_ASSERT(run > 0 && count > 0 && depth > 0 && unit + run <= end);
        TL_TRY(
            (is_a ? pack_a : pack_b)(p, panel_at(p, s, width, lane, k0), lane, count, k0, depth));
        unit += run;
    }
    return TL_OK;
}

tl_status tli_gemm_pack_panels(tl_pool *pool, const product *p, const panels *a, const panels *b)
{
    // Bytes that make a chunk of the loop worth while: microseconds of copying.
    enum { CHUNK = 1 << 17 };
    const packing work = {p, a, b, units_of(p, a, p->k->mr)};
    const int64_t units = work.a_units + units_of(p, b, p->k->nr);
    const size_t bytes = panels_bytes(p, a, p->k->mr) + panels_bytes(p, b, p->k->nr);
    const int64_t grain = units * CHUNK / (int64_t)(bytes + 1) + 1;
    return tl_parallel_for(pool, units, grain, pack_units, (void *)(uintptr_t)&work);
}

/* --- tasks ------------------------------------------------------------------------------------ */

/* A part of c, and of the depth, whose panels are packed together. */
typedef struct part {
    const product *p;
    panels a, b; /* where they are packed by somebody else */
    int64_t i0, rows, j0, cols, k0, k1;
    void *sums;       /* (optional) of the whole part, where c cannot hold them between parts */
    bool first, last; /* in depth */
} part;

/* One task's block of sums. */
typedef struct block {
    int64_t i0, rows, j0, cols;
    char *sums;
    int64_t row;
    char *a_room, *b_room; /* for panels of its own */
    float *bias;           /* of a block that ends in tiles: a whole panel's for each panel */
    bool accumulate;
} block;

static size_t sum_bytes(const product *p)
{
    return tl_dtype_size(p->k->sum_type);
}

/* Whether nothing is left to do once a tile has stored the end of its sums in c. */
static bool ends_in_tiles(const product *p)
{
    const tli_gemm *g = p->g;
    if (!p->finish || p->mode != TLI_GEMM_TILES || g->activation != TLI_ACT_NONE || p->residual
        || p->pre)
        return false;
    if (p->a_from == TLI_GEMM_DIRECT || p->b_from == TLI_GEMM_DIRECT) return false;
    if (p->c_type == TL_BF16) return p->k->tile_rounded;
    return p->c_type == TL_F32 && p->k->tile_biased && g->bias && g->alpha == 1;
}

/* Of b, that a task packs at a time: their rows are some lines of the cache, read whole */
enum { OWN_PANELS = 4 };

/* The panel of b for columns j .. j + cols - 1, and the distance of its rows. */
static tl_status panel_of_b(const char **out, int64_t *row, const part *s, const block *t,
                            int64_t j, int64_t cols, int64_t k0, int64_t depth)
{
    const product *p = s->p;
    const tli_gemm *g = p->g;
    *row = p->k->nr;
    if (p->b_from == TLI_GEMM_SHARED) {
        *out = panel_at(p, &s->b, p->k->nr, j, k0);
        return TL_OK;
    }
    // What lies behind the last column is not ours to read.
    if (p->b_from == TLI_GEMM_DIRECT && cols % p->k->vector == 0) {
        *out = tli_gemm_at(p->b, g->b_type, k0 * g->b_row + j);
        *row = g->b_row;
        return TL_OK;
    }
    // Some panels at once, since their columns share lines of the cache.
    const int64_t index = (j - t->j0) / p->k->nr % OWN_PANELS;
    const int64_t left = t->j0 + t->cols - j, panels_ = OWN_PANELS - index;
    *out = t->b_room + (size_t)index * tli_gemm_panel_bytes(p->k, p->k->nr, depth);
    TL_ASSERT(
        !depth
        || tli_scratch_holds(*out, tli_gemm_panel_bytes(p->k, p->k->nr, depth)
                                       * (size_t)tl_min_i64(panels_, tl_div_up(left, p->k->nr))));
    if (p->b_from == TLI_GEMM_OWN && index > 0) return TL_OK;
    return pack_b(p, (char *)(uintptr_t)*out, j, tl_min_i64(left, panels_ * p->k->nr), k0, depth);
}

/* Tiles of one block of depth. */
typedef struct tiling {
    const part *s;
    const block *t;
    int64_t depth;
    const char *a;          /* the first panel of a, or what a's first tile reads of it */
    int64_t a_step, c_step; /* bytes from one tile to the next one below it */
    int64_t a_row, a_col;   /* where a is read in place */
    size_t sum;             /* bytes of a sum */
    bool last;              /* tiles end in c */
    int64_t ahead;          /* lines of the next panel of b that each tile calls for */
} tiling;

enum { LINE = 64 }; /* bytes of one of the cache */
/* Processors of x86 see a panel coming by themselves: there the calls for it only wait for each
 * other, for 1 to 10 % of a training step. */
#if defined(__aarch64__)
enum { CALLS_AHEAD = true };
#else
enum { CALLS_AHEAD = false };
#endif

static tiling tiling_of(const part *s, const block *t, int64_t k0, int64_t depth)
{
    const product *p = s->p;
    const tli_gemm *g = p->g;
    const int mr = p->k->mr;
    tiling w = {.s = s,
                .t = t,
                .depth = depth,
                .a = t->a_room,
                .a_step = (int64_t)tli_gemm_panel_bytes(p->k, mr, depth),
                .a_row = 1,
                .a_col = mr,
                .sum = sum_bytes(p),
                .last = t->bias && s->last && k0 + depth == s->k1};
    w.c_step = mr * t->row * (int64_t)w.sum;
    // Short tiles have no time for it, and a b that stays near does not need it.
    enum { LONG = 256 };
    const int64_t bytes = g->n * depth * (int64_t)p->k->element;
    if (CALLS_AHEAD && depth >= LONG && p->b_from == TLI_GEMM_SHARED && bytes > p->k->near / 2)
        w.ahead = tl_div_up((int64_t)tli_gemm_panel_bytes(p->k, p->k->nr, depth) / LINE,
                            tl_div_up(t->rows, mr));
    if (p->a_from == TLI_GEMM_SHARED) w.a = panel_at(p, &s->a, mr, t->i0, k0);
    if (p->a_from != TLI_GEMM_DIRECT) return w;
    w.a = tli_gemm_at(p->a, g->a_type, t->i0 * g->a_row + k0 * g->a_col);
    w.a_step = mr * g->a_row * (int64_t)tl_dtype_size(g->a_type);
    w.a_row = g->a_row;
    w.a_col = g->a_col;
    return w;
}

/* Calls for a part of the panel of b behind this one: all of it, by the last tile of a column.
 * Panels that were packed long ago are not in the second-level cache any more. */
static const char *fetch_next(const tiling *w, const char *next)
{
    for (int64_t i = 0; i < w->ahead; i++) __builtin_prefetch(next + i * LINE, 0, 2);
    return next + w->ahead * LINE;
}

/* All tiles of the columns from j on. Between two of them stands as little as possible. */
static void run_column(const tiling *w, int64_t j, int cols, const char *b, int64_t b_row)
{
    const product *p = w->s->p;
    const tli_gemm_kernels *k = p->k;
    const bool panels_ = p->a_from != TLI_GEMM_DIRECT && b_row == k->nr;
    const int64_t depth = w->depth, c_row = w->t->row;
    const double alpha = p->g->alpha;
    const bool accumulate = w->t->accumulate;
    const char *a = w->a, *next = b + tli_gemm_panel_bytes(k, k->nr, depth);
    char *c = w->t->sums + (size_t)(j - w->t->j0) * w->sum;
    TL_ASSERT(cols > 0 && cols <= k->nr && j >= w->t->j0 && j + cols <= w->t->j0 + w->t->cols
              && w->t->rows > 0);
    TL_ASSERT(panels_ || k->strided);
    for (int64_t left = w->t->rows; left > 0; left -= k->mr, a += w->a_step, c += w->c_step) {
        const int rows = (int)tl_min_i64(k->mr, left);
        if (w->ahead) next = fetch_next(w, next);
        if (panels_) k->tile(rows, cols, depth, a, b, c, c_row, alpha, accumulate);
        else
            k->strided(rows, cols, depth, a, w->a_row, w->a_col, b, b_row, c, c_row, alpha,
                       accumulate);
    }
}

/* The same for tiles that end in a c of floats, with a bias. */
static void end_float_column(const tiling *w, int64_t j, int cols, const char *b)
{
    const tli_gemm_kernels *k = w->s->p->k;
    const block *t = w->t;
    const char *a = w->a, *next = b + tli_gemm_panel_bytes(k, k->nr, w->depth);
    float *c = (float *)(void *)t->sums + (j - t->j0);
    for (int64_t left = t->rows; left > 0; left -= k->mr, a += w->a_step, c += k->mr * t->row) {
        next = fetch_next(w, next);
        k->tile_biased((int)tl_min_i64(k->mr, left), cols, w->depth, a, b, c, t->row, t->accumulate,
                       t->bias + (j - t->j0));
    }
}

/* The same for tiles that end in a c of BF16. */
static void end_column(const tiling *w, int64_t j, int cols, const char *b)
{
    const product *p = w->s->p;
    const tli_gemm_kernels *k = p->k;
    const block *t = w->t;
    const float *sums = t->accumulate ? (const float *)(void *)t->sums + (j - t->j0) : NULL;
    const float *bias = p->g->bias ? t->bias + (j - t->j0) : NULL;
    uint16_t *c = tli_gemm_at_out(p->c, TL_BF16, t->i0 * p->c_row + j);
    const char *a = w->a, *next = b + tli_gemm_panel_bytes(k, k->nr, w->depth);
    for (int64_t left = t->rows; left > 0; left -= k->mr, a += w->a_step, c += k->mr * p->c_row) {
        next = fetch_next(w, next);
        k->tile_rounded((int)tl_min_i64(k->mr, left), cols, w->depth, a, b, sums, t->row, bias, c,
                        p->c_row, p->g->alpha);
        if (sums) sums += k->mr * t->row;
    }
}

/* Tiles along the rows of c, one row after the other. */
static void run_row_tiles(const tiling *w, int64_t k0)
{
    const product *p = w->s->p;
    const tli_gemm_kernels *k = p->k;
    const block *t = w->t;
    const int64_t b_step = (int64_t)tli_gemm_panel_bytes(k, k->nr, w->depth);
    const char *panels_ = panel_at(p, &w->s->b, k->nr, t->j0, k0), *a = w->a;
    TL_ASSERT(p->b_from == TLI_GEMM_SHARED && p->a_from != TLI_GEMM_DIRECT);
    for (int64_t i = 0; i < t->rows; i += k->mr, a += w->a_step) {
        const int rows = (int)tl_min_i64(k->mr, t->rows - i);
        const char *b = panels_;
        float *sums = (float *)(void *)t->sums + i * t->row;
        uint16_t *c = tli_gemm_at_out(p->c, TL_BF16, (t->i0 + i) * p->c_row + t->j0);
        for (int64_t j = 0; j < t->cols; j += k->nr, b += b_step) {
            const int cols = (int)tl_min_i64(k->nr, t->cols - j);
            if (w->last)
                k->tile_rounded(rows, cols, w->depth, a, b, t->accumulate ? sums + j : NULL, t->row,
                                p->g->bias ? t->bias + j : NULL, c + j, p->c_row, p->g->alpha);
            else k->tile(rows, cols, w->depth, a, b, sums + j, t->row, p->g->alpha, t->accumulate);
        }
    }
}

static tl_status run_tiles(const part *s, const block *t, int64_t k0, int64_t depth)
{
    const product *p = s->p;
    const tiling w = tiling_of(s, t, k0, depth);
    TL_ASSERT(p->a_from != TLI_GEMM_OWN || !depth
              || tli_scratch_holds(t->a_room, (size_t)(tl_div_up(t->rows, p->k->mr) * w.a_step)));
    if (p->a_from == TLI_GEMM_OWN) TL_TRY(pack_a(p, t->a_room, t->i0, t->rows, k0, depth));
    if (p->k->along_rows) {
        run_row_tiles(&w, k0);
        return TL_OK;
    }
    tl_status st = TL_OK;
    if (p->k->begin) p->k->begin();
    for (int64_t j = t->j0; j < t->j0 + t->cols; j += p->k->nr) {
        const int cols = (int)tl_min_i64(p->k->nr, t->j0 + t->cols - j);
        const char *b;
        int64_t b_row;
        TL_TRY_DONE(st, panel_of_b(&b, &b_row, s, t, j, cols, k0, depth));
        if (w.last && p->c_type == TL_F32) end_float_column(&w, j, cols, b);
        else if (w.last) end_column(&w, j, cols, b);
        else run_column(&w, j, cols, b, b_row);
    }
done:
    if (p->k->end) p->k->end();
    return st;
}

/* Pieces of a row in one block of depth. */
static int64_t pieces_of(const product *p, int64_t depth)
{
    // Whole pieces.
    TL_ASSERT(p->g->pieces <= 1 || depth % tl_max_i64(p->g->k / p->g->pieces, 1) == 0);
    return p->g->pieces > 1 ? depth / (p->g->k / p->g->pieces) : depth > 0;
}

/* Where the rows of a tile are; those that c has not are the first one once more. */
static void find_rows(const void **rows, const product *p, int64_t first, int64_t count, int64_t k0,
                      int64_t pieces)
{
    const tli_gemm *g = p->g;
    const int mr = p->k->mr;
    const bool cut = g->pieces <= 1; // the one piece may be cut in depth
    TL_ASSERT(count > 0 && count <= mr && first + count <= g->m);
    if (g->rows_a)
        g->rows_a(g->rows_a_payload, rows, mr, p->batch, first, count,
                  cut ? 0 : k0 / (g->k / g->pieces), pieces);
    for (int64_t i = 0; i < count && cut; i++)
        rows[i] = g->rows_a ? tli_gemm_at(rows[i], TL_F32, k0)
                            : tli_gemm_at(p->a, TL_F32, (first + i) * g->a_row + k0);
    for (int64_t t = 0; t < pieces; t++)
        for (int64_t i = count; i < mr; i++) rows[t * mr + i] = rows[t * mr];
}

static tl_status run_rows(const part *s, const block *t, int64_t k0, int64_t depth)
{
    const product *p = s->p;
    const tli_gemm_kernels *k = p->k;
    const int64_t pieces = pieces_of(p, depth), piece = pieces ? depth / pieces : 0;
    const void **list = (const void **)(void *)t->a_room;
    TL_ASSERT(
        !pieces
        || tli_scratch_holds(list, (size_t)(tl_round_up(t->rows, k->mr) * pieces) * sizeof *list));
    TL_ASSERT(pieces * piece == depth);
    for (int64_t i = 0; i < t->rows && pieces; i += k->mr)
        find_rows(list + i * pieces, p, t->i0 + i, tl_min_i64(k->mr, t->rows - i), k0, pieces);
    for (int64_t j = 0; j < t->cols; j += k->nr) {
        const int cols = (int)tl_min_i64(k->nr, t->cols - j);
        const char *b;
        int64_t b_row;
        TL_TRY(panel_of_b(&b, &b_row, s, t, t->j0 + j, cols, k0, depth));
        for (int64_t i = 0; i < t->rows; i += k->mr)
            k->rows((int)tl_min_i64(k->mr, t->rows - i), cols, pieces, piece,
                    pieces ? list + i * pieces : NULL, b, b_row,
                    t->sums + (size_t)(i * t->row + j) * sizeof(float), t->row, p->g->alpha,
                    t->accumulate);
    }
    return TL_OK;
}

static tl_status run_block(const part *s, const block *t, int64_t k0, int64_t depth)
{
    const product *p = s->p;
    const tli_gemm *g = p->g;
    TL_ASSERT(k0 >= p->k0 && k0 + depth <= p->k0 + p->depth && t->sums);
    const void *a = tli_gemm_at(p->a, g->a_type, t->i0 * g->a_row + k0 * g->a_col);
    const void *b = tli_gemm_at(p->b, g->b_type, t->j0 * g->b_col + k0 * g->b_row);
    switch (p->mode) {
    case TLI_GEMM_ROW:
        p->k->row(t->cols, depth, a, g->a_col, b, g->b_row, t->sums, g->alpha, t->accumulate);
        return TL_OK;
    case TLI_GEMM_COLUMN:
        p->k->row(t->rows, depth, b, g->b_row, a, g->a_col, t->sums, g->alpha, t->accumulate);
        return TL_OK;
    case TLI_GEMM_DOTS:
        p->k->dots(t->rows, t->cols, depth, a, g->a_row, b, g->b_col, t->sums, t->row, g->alpha,
                   t->accumulate);
        return TL_OK;
    case TLI_GEMM_ROWS: return run_rows(s, t, k0, depth);
    default: return run_tiles(s, t, k0, depth);
    }
}

/* The block's last steps: from the sums into c. */
static void finish_block(const product *p, const block *t)
{
    const tli_gemm *g = p->g;
    TL_ASSERT(t->rows > 0 && t->cols > 0 && t->i0 + t->rows <= g->m && t->j0 + t->cols <= g->n);
    p->k->epilogue(&(tli_gemm_epilogue){
        .rows = t->rows,
        .cols = t->cols,
        .sums = t->sums,
        .sums_row = t->row,
        .c = tli_gemm_at_out(p->c, p->c_type, t->i0 * p->c_row + t->j0),
        .c_row = p->c_row,
        .c_type = p->c_type,
        .bias = tli_gemm_at(g->bias, g->bias_type, t->j0),
        .bias_type = g->bias_type,
        .activation = g->activation,
        .residual = tli_gemm_at(p->residual, g->residual_type, t->i0 * g->residual_row + t->j0),
        .residual_type = g->residual_type,
        .residual_row = g->residual_row,
        .pre = tli_gemm_at_out(p->pre, g->pre_type, t->i0 * g->pre_row + t->j0),
        .pre_type = g->pre_type,
        .pre_row = g->pre_row,
        .slope = g->slope,
    });
}

/* Room for panels, with some behind it that is in use. */
static tl_status room_for(void **out, tli_scratch_slot slot, size_t bytes)
{
    TL_TRY(tli_scratch(out, slot, bytes + TLI_GEMM_READ_AHEAD));
    ((char *)*out)[bytes + TLI_GEMM_READ_AHEAD - 1] = 0;
    return TL_OK;
}

/* The bias of the block's columns, and of those that its last panel has beyond them. */
static void take_bias(block *t, const product *p, float *room)
{
    const tli_gemm *g = p->g;
    t->bias = room;
    if (!g->bias) return;
    p->k->convert(room, TL_F32, tli_gemm_at(g->bias, g->bias_type, t->j0), g->bias_type, t->cols);
    for (int64_t j = t->cols; j % p->k->nr; j++) room[j] = 0;
}

/* Where this block's sums are added up: in c where it is wide enough, else beside it. */
static tl_status open_block(block *t, const part *s)
{
    const product *p = s->p;
    const bool in_c = p->c_type == p->k->sum_type;
    const int64_t depth = tl_min_i64(p->kb, s->k1 - s->k0);
    TL_ASSERT(t->rows > 0 && t->i0 >= s->i0 && t->i0 + t->rows <= s->i0 + s->rows);
    TL_ASSERT(t->cols > 0 && t->j0 >= s->j0 && t->j0 + t->cols <= s->j0 + s->cols);
    const bool ends = ends_in_tiles(p);
    // What is summed up in one piece, and ends in tiles, is never stored.
    const bool stored = !ends || !s->first || !s->last || depth < s->k1 - s->k0 || p->accumulate;
    size_t a = 0, b = 0, bias = 0, sums = 0;
    if (tli_gemm_uses_panels(p)) {
        if (p->mode == TLI_GEMM_ROWS)
            a = (size_t)(tl_round_up(t->rows, p->k->mr) * pieces_of(p, depth)) * sizeof(void *);
        else if (p->a_from == TLI_GEMM_OWN)
            a = (size_t)tl_div_up(t->rows, p->k->mr) * tli_gemm_panel_bytes(p->k, p->k->mr, depth);
        if (p->b_from != TLI_GEMM_SHARED)
            b = OWN_PANELS * tli_gemm_panel_bytes(p->k, p->k->nr, depth);
    }
    if (ends) bias = (size_t)tl_round_up(t->cols, p->k->nr) * sizeof *t->bias;
    if (!in_c && !s->sums && stored) sums = (size_t)(t->rows * t->cols) * sum_bytes(p);
    a = (size_t)tl_round_up((int64_t)a, LINE);
    b = (size_t)tl_round_up((int64_t)b, LINE);
    bias = (size_t)tl_round_up((int64_t)bias, LINE);
    void *room = NULL;
    if (a + b + bias + sums > 0) TL_TRY(room_for(&room, TLI_SCRATCH_TASK, a + b + bias + sums));
    if (a > 0) ((char *)room)[a + TLI_GEMM_READ_AHEAD - 1] = 0; // b's room may stay unused
    t->a_room = a ? room : NULL;
    t->b_room = b ? (char *)room + a : NULL;
    t->accumulate = p->accumulate || !s->first;
    t->row = in_c ? p->c_row : s->sums ? s->cols : t->cols;
    const char *c = tli_gemm_at(p->c, p->c_type, t->i0 * p->c_row + t->j0);
    if (in_c) t->sums = (char *)(uintptr_t)c;
    else if (s->sums)
        t->sums =
            (char *)s->sums + (size_t)((t->i0 - s->i0) * s->cols + t->j0 - s->j0) * sum_bytes(p);
    else t->sums = (char *)room + a + b + bias;
    TL_ASSERT(in_c || s->sums || tli_scratch_holds(t->sums, sums));
    if (ends) take_bias(t, p, (float *)(void *)((char *)room + a + b));
    if (!in_c && s->first && p->accumulate)
        for (int64_t i = 0; i < t->rows; i++)
            p->k->convert(t->sums + (size_t)(i * t->row) * sum_bytes(p), p->k->sum_type,
                          tli_gemm_at(c, p->c_type, i * p->c_row), p->c_type, t->cols);
    return TL_OK;
}

static tl_status sum_block(const part *s, block *t)
{
    const product *p = s->p;
    int64_t k0 = s->k0;
    TL_TRY(open_block(t, s));
    do { // once also for a depth of 0, which makes the sums 0
        const int64_t depth = tl_min_i64(p->kb, s->k1 - k0);
        TL_TRY(run_block(s, t, k0, depth));
        t->accumulate = true;
        k0 += depth;
    } while (k0 < s->k1);
    TL_ASSERT(k0 == s->k1); // blocks of the depth cover it
    if (s->last && p->finish && !t->bias) finish_block(p, t);
    return TL_OK;
}

static tl_status run_tasks(int64_t begin, int64_t end, void *payload)
{
    const part *s = payload;
    const product *p = s->p;
    const int64_t in_row = tl_div_up(s->cols, p->nb);
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task / in_row * p->mb, j = task % in_row * p->nb;
        block t = {.i0 = s->i0 + i,
                   .rows = tl_min_i64(p->mb, s->rows - i),
                   .j0 = s->j0 + j,
                   .cols = tl_min_i64(p->nb, s->cols - j)};
        TL_TRY(sum_block(s, &t));
    }
    return TL_OK;
}

/* --- a product in parts ----------------------------------------------------------------------- */

/* Sides of a part whose panels are shared, and the bytes of all its panels: a share of a last-level
 * cache of some tens of MiB, so that what is packed is still there when it is used. */
enum { PART_SIDE = 2048, PART_BYTES = 6 << 20 };
static int64_t part_side = PART_SIDE, part_bytes = PART_BYTES;

void tli_gemm_limit_parts(int64_t side, int64_t bytes)
{
    part_side = side ? side : PART_SIDE;
    part_bytes = bytes ? bytes : PART_BYTES;
}

/* The side of a part in whole tasks. */
static int64_t side_of(int64_t task)
{
    return tl_max_i64(part_side / task * task, task);
}

/* The depth of a part: all of it, unless its panels would be too much to hold. */
static int64_t part_depth(const product *p, int64_t rows, int64_t cols)
{
    int64_t lanes = 0;
    if (tli_gemm_uses_panels(p) && p->a_from == TLI_GEMM_SHARED) lanes += rows;
    if (tli_gemm_uses_panels(p) && p->b_from == TLI_GEMM_SHARED && !p->g->packed_b) lanes += cols;
    if (!lanes) return tl_max_i64(p->depth, 1);
    const int64_t fits = part_bytes / (lanes * (int64_t)p->k->element) / p->kb * p->kb;
    TL_ASSERT(fits % p->kb == 0); // blocks of panels are not cut
    return tl_max_i64(tl_min_i64(fits, p->depth), p->kb);
}

/* Packs what the part's tasks share. What the part before it had packed, and this one needs too, is
 * still there. */
static tl_status pack_part(tl_pool *pool, part *s, const part *before)
{
    const product *p = s->p;
    const tli_gemm *g = p->g;
    if (!tli_gemm_uses_panels(p)) return TL_OK;
    panels a = {.first = s->i0, .count = s->rows, .k0 = s->k0, .k1 = s->k1};
    panels b = {.first = s->j0, .count = s->cols, .k0 = s->k0, .k1 = s->k1};
    if (p->a_from != TLI_GEMM_SHARED) a.count = 0;
    if (p->b_from != TLI_GEMM_SHARED || g->packed_b) b.count = 0;
    const size_t a_bytes = (size_t)tl_round_up((int64_t)panels_bytes(p, &a, p->k->mr), 64);
    const size_t b_bytes = panels_bytes(p, &b, p->k->nr);
    void *room = NULL;
    if (a_bytes + b_bytes > 0)
        TL_TRY(
            room_for(&room, TLI_SCRATCH_PACK, (size_t)tl_round_up((int64_t)b_bytes, 64) + a_bytes));
    // b first: of the two it is the one that does not change from part to part.
    b.data = room;
    a.data = room ? (char *)room + tl_round_up((int64_t)b_bytes, 64) : NULL;
    TL_ASSERT(!room || (tli_scratch_holds(a.data, a_bytes) && tli_scratch_holds(b.data, b_bytes)));
    TL_ASSERT(!room || b.data + b_bytes <= a.data);
    s->a = a;
    s->b = b;
    const bool kept = before && before->b.data == b.data && before->b.first == b.first
                      && before->b.count == b.count && before->b.k0 == b.k0 && before->b.k1 == b.k1;
    if (kept) b.count = 0;
    if (g->packed_b) s->b = (panels){(char *)(uintptr_t)g->packed_b, 0, g->n, 0, g->k};
    return tli_gemm_pack_panels(pool, p, &a, &b);
}

static tl_status run_parts(tl_pool *pool, const product *p)
{
    const tli_gemm *g = p->g;
    const bool tiles = tli_gemm_uses_panels(p);
    // Sides that the tasks pack by themselves, or read where they are, have no limit.
    const int64_t rows =
        tiles && p->a_from == TLI_GEMM_SHARED ? side_of(p->mb) : tl_round_up(g->m, p->mb);
    const int64_t cols = tiles && p->b_from == TLI_GEMM_SHARED && !g->packed_b
                             ? side_of(p->nb)
                             : tl_round_up(g->n, p->nb);
    const int64_t depth = part_depth(p, tl_min_i64(rows, g->m), tl_min_i64(cols, g->n));
    const int64_t end = p->k0 + p->depth;
    void *sums = NULL;
    TL_ASSERT(rows % p->mb == 0 && cols % p->nb == 0 && depth > 0 && end <= g->k);
    if (depth < p->depth && p->c_type != p->k->sum_type)
        TL_TRY(
            tli_scratch(&sums, TLI_SCRATCH_SPLIT,
                        (size_t)(tl_min_i64(rows, g->m) * tl_min_i64(cols, g->n)) * sum_bytes(p)));
    part before = {0};
    for (int64_t j = 0; j < g->n; j += cols)
        for (int64_t i = 0; i < g->m; i += rows) {
            int64_t k0 = p->k0;
            do {
                part s = {.p = p,
                          .i0 = i,
                          .rows = tl_min_i64(rows, g->m - i),
                          .j0 = j,
                          .cols = tl_min_i64(cols, g->n - j),
                          .k0 = k0,
                          .k1 = tl_min_i64(end, k0 + depth),
                          .sums = sums,
                          .first = k0 == p->k0};
                s.last = s.k1 == end;
                TL_TRY(pack_part(pool, &s, &before));
                const int64_t tasks = tl_div_up(s.rows, p->mb) * tl_div_up(s.cols, p->nb);
                TL_TRY(tl_parallel_for(pool, tasks, 1, run_tasks, &s));
                before = s;
                k0 = s.k1;
            } while (k0 < end);
        }
    return TL_OK;
}

/* --- cut in depth ----------------------------------------------------------------------------- */

typedef struct split {
    const product *p;
    char *sums; /* (slices, m, n) */
    int64_t depth, slices;
} split;

static tl_status run_slices(int64_t begin, int64_t end, void *payload)
{
    const split *s = payload;
    const tli_gemm *g = s->p->g;
    for (int64_t i = begin; i < end; i++) {
        product slice = *s->p;
        slice.k0 += i * s->depth;
        slice.depth = tl_min_i64(s->depth, s->p->depth - i * s->depth);
        TL_ASSERT(slice.depth > 0 && slice.k0 + slice.depth <= s->p->k0 + s->p->depth);
        slice.c = s->sums + (size_t)(i * g->m * g->n) * sum_bytes(s->p);
        slice.c_type = s->p->k->sum_type;
        slice.c_row = g->n;
        slice.accumulate = false;
        slice.finish = false;
        slice.whole = true;
        tli_gemm_cut(&slice);
        TL_TRY(run_parts(NULL, &slice));
    }
    return TL_OK;
}

/* Adds the slices up, in order, onto the first one. */
static void add_slices(const split *s, int64_t first, int64_t count)
{
    const int64_t all = s->p->g->m * s->p->g->n;
    TL_ASSERT(first >= 0 && first + count <= all);
    for (int64_t i = 1; i < s->slices; i++) {
        if (s->p->k->sum_type == TL_F64) {
            double *to = (double *)(void *)s->sums + first;
            for (int64_t e = 0; e < count; e++) to[e] += to[i * all + e];
        } else {
            float *to = (float *)(void *)s->sums + first;
            for (int64_t e = 0; e < count; e++) to[e] += to[i * all + e];
        }
    }
}

/* Adds what c holds to a row of sums. */
static void add_c(const product *p, void *sums, int64_t i)
{
    enum { CHUNK = 256 };
    double room[CHUNK]; // of either type
    for (int64_t j = 0; j < p->g->n; j += CHUNK) {
        const int64_t count = tl_min_i64(CHUNK, p->g->n - j);
        p->k->convert(room, p->k->sum_type, tli_gemm_at(p->c, p->c_type, i * p->c_row + j),
                      p->c_type, count);
        for (int64_t e = 0; e < count; e++) {
            if (p->k->sum_type == TL_F64) ((double *)sums)[j + e] += room[e];
            else ((float *)sums)[j + e] += ((const float *)(const void *)room)[e];
        }
    }
}

static tl_status join_rows(int64_t begin, int64_t end, void *payload)
{
    const split *s = payload;
    const product *p = s->p;
    const int64_t n = p->g->n;
    add_slices(s, begin * n, (end - begin) * n);
    const block t = {.i0 = begin,
                     .rows = end - begin,
                     .cols = n,
                     .row = n,
                     .sums = s->sums + (size_t)(begin * n) * sum_bytes(p)};
    for (int64_t i = begin; p->accumulate && i < end; i++)
        add_c(p, t.sums + (size_t)((i - begin) * n) * sum_bytes(p), i);
    finish_block(p, &t);
    return TL_OK;
}

/* How many slices: 1 where c has enough tasks, or there would be few of them. A slice is one
 * thread's, so that its panels are packed once and stay near. */
static int64_t slices_of(const product *p)
{
    // TASKS of c are work for any machine; ENOUGH slices make up for adding them, as do FEWEST
    // where c has fewer tasks; a slice is SHORTEST at least, near a block of depth (kc), since its
    // sums are written and read once more; all sums together are BYTES at most, what a last-level
    // cache holds.
    enum { TASKS = 32, ENOUGH = 16, FEWEST = 4, SHORTEST = 384, BYTES = 16 << 20 };
    enum { ROWS = 128, PANELS = 8 }; // of a, and panels of b, in a task that is not small
    const int64_t m = p->g->m, n = p->g->n;
    const int64_t tasks = p->k->repacks_a
                              ? tl_div_up(m, p->mb) * tl_div_up(n, p->nb) // small ones are no worse
                              : tl_div_up(m, ROWS) * tl_div_up(n, PANELS * p->k->nr);
    const int64_t bytes = m * n * (int64_t)sum_bytes(p);
    const double work = (double)m * (double)n * (double)p->depth * tli_gemm_weight(p->k);
    if (p->whole || tasks >= TASKS || p->mode == TLI_GEMM_ROWS) return 1;
    int64_t slices = 1;
    while (slices < TASKS && 2 * slices * SHORTEST <= p->depth && 2 * slices * bytes <= BYTES
           && 2.0 * (double)slices * TLI_GEMM_TASK_WORK <= work)
        slices *= 2;
    TL_ASSERT(slices == 1 || (slices * SHORTEST <= p->depth && slices * bytes <= BYTES));
    return slices >= ENOUGH || (slices > tasks && slices >= FEWEST) ? slices : 1;
}

bool tli_gemm_makes_panels_of_b(const product *p)
{
    return p->mode == TLI_GEMM_TILES && p->b_from != TLI_GEMM_DIRECT && slices_of(p) <= 1;
}

/* --- small products --------------------------------------------------------------------------- */

/* Fewer columns than any vector has lanes: sums along rows of a leave none of them idle. */
static bool is_narrow(const tli_gemm *g)
{
    enum { NARROW = 4, DEEP = 16 }; // lanes of the shortest vector; four of its vectors
    return g->a_col == 1 && g->n < NARROW && g->k >= DEEP;
}

static void run_narrow(const product *p, float *columns)
{
    const tli_gemm *g = p->g;
    TL_ASSERT(g->n * g->k <= TLI_GEMM_SMALL_FLOATS);
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t q = 0; q < g->k; q++)
            columns[j * g->k + q] = ((const float *)p->b)[q * g->b_row + j * g->b_col];
    p->k->dots(g->m, g->n, g->k, p->a, g->a_row, columns, g->k, p->c, p->c_row, g->alpha,
               p->accumulate);
}

/* Through the tiles of either kind, whichever reads a as it lies. */
static void run_small_tiles(const product *p, float *panels_)
{
    const tli_gemm *g = p->g;
    // Tiles of rows compute rows that are not there; a sixth of them is too much.
    const int64_t padded = tl_round_up(g->m, p->k->in_rows->mr);
    const bool fits = g->m > 2 && 5 * padded <= 6 * tl_round_up(g->m, p->k->mr);
    const bool in_rows = g->a_col == 1 && fits;
    const tli_gemm_kernels *k = in_rows ? p->k->in_rows : p->k;
    const bool direct = g->b_col == 1 && g->n % k->vector == 0;
    TL_ASSERT(k->mr <= TLI_GEMM_SMALL_ROWS
              && (direct || tl_round_up(g->n, k->nr) * g->k <= TLI_GEMM_SMALL_FLOATS));
    if (!direct && g->k > 0) k->pack_b(panels_, p->b, TL_F32, g->b_col, g->b_row, g->n, g->k);
    for (int64_t i = 0; i < g->m; i += k->mr) {
        const int rows = (int)tl_min_i64(k->mr, g->m - i);
        const void *list[TLI_GEMM_SMALL_ROWS];
        for (int l = 0; in_rows && l < k->mr; l++)
            list[l] = (const float *)p->a + (i + (l < rows ? l : 0)) * g->a_row;
        for (int64_t j = 0; j < g->n; j += k->nr) {
            const int cols = (int)tl_min_i64(k->nr, g->n - j);
            const float *b = direct ? (const float *)p->b + j : panels_ + j * g->k;
            const int64_t b_row = direct ? g->b_row : k->nr;
            float *c = (float *)p->c + i * p->c_row + j;
            if (in_rows)
                k->rows(rows, cols, g->k > 0, g->k, list, b, b_row, c, p->c_row, g->alpha,
                        p->accumulate);
            else
                k->strided(rows, cols, g->k, (const float *)p->a + i * g->a_row, g->a_row, g->a_col,
                           b, b_row, c, p->c_row, g->alpha, p->accumulate);
        }
    }
}

static void run_small(const product *p)
{
    float room[TLI_GEMM_SMALL_FLOATS];
    const tli_gemm *g = p->g;
    if (is_narrow(g)) run_narrow(p, room);
    else run_small_tiles(p, room);
    if (p->finish)
        finish_block(p, &(block){.rows = g->m, .cols = g->n, .sums = p->c, .row = p->c_row});
}

tl_status tli_gemm_run_product(tl_pool *pool, const product *p)
{
    // Sums that make a chunk of the last loop worth while: 256 KiB, some microseconds.
    enum { JOINED = 1 << 16 };
    if (p->mode == TLI_GEMM_SMALL) {
        run_small(p);
        return TL_OK;
    }
    split s = {.p = p, .slices = slices_of(p)};
    if (s.slices <= 1) return run_parts(pool, p);
    // Blocks of panels that were packed before start at multiples of theirs.
    const int64_t unit = p->g->packed_b ? tli_gemm_block_depth(p->k, p->g->k) : p->k->kr;
    s.depth = tl_round_up(tl_div_up(p->depth, s.slices), unit);
    s.slices = tl_div_up(p->depth, s.depth);
    TL_ASSERT(s.depth % p->k->kr == 0 && s.slices * s.depth >= p->depth
              && (s.slices - 1) * s.depth < p->depth);
    void *sums;
    TL_TRY(tli_scratch(&sums, TLI_SCRATCH_SPLIT,
                       (size_t)(s.slices * p->g->m * p->g->n) * sum_bytes(p)));
    s.sums = sums;
    TL_TRY(tl_parallel_for(pool, s.slices, 1, run_slices, &s));
    return tl_parallel_for(pool, p->g->m, JOINED / (p->g->n * s.slices) + 1, join_rows, &s);
}
