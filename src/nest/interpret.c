#include <tilth/sys/nest/interpret.h>

#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "nest/inner/schedule.h"
#include "nest/simd/tile.h"

typedef struct job {
    const tli_schedule *s;
    const tli_tile_fns *fns;
    void *const *buffers;
    char *scratch;
    int phase;
} job;

/* Lanes of a reduction along a row, and what it has come to. */
typedef struct lanes {
    tli_value value;
    double at[TLI_LANES]; /* of any kind */
} lanes;

/* What a task works with. */
typedef struct frame {
    const job *j;
    const tli_section *section;
    int64_t index[TL_MAX_RANK]; /* of the point, for the axes around the row */
    int64_t begin, end;         /* of the row */
    int64_t slot, origin;       /* the row of sums in scratch; the element it begins with */
    tli_value *points;          /* for each term: its value at the point */
    const void **at;            /* for each term: its values in the tile */
    char *tiles, *row_buffers;
    tli_value *totals, *blocks; /* for each deferred reduction: narrow sums */
    lanes *lanes;               /* for each term: row reductions of the stage */
    char *spare, *numbers;      /* tiles */
} frame;

enum { TILE_BYTES = TLI_TILE * 8 };
_Static_assert(TILE_BYTES % TL_NEST_ALIGNMENT == 0, "tiles begin at lines of the cache");
_Static_assert(sizeof(double) >= sizeof(tli_value), "lanes have room for every kind");

static const tl_term *term_of(const frame *f, int term)
{
    TL_ASSERT(term >= 0 && term < f->j->s->nest.term_count);
    return &f->j->s->nest.terms[term];
}

static const tli_term_info *info_of(const frame *f, int term)
{
    return &f->j->s->terms[term];
}

static int64_t offset_of(const frame *f, const tl_access *a)
{
    int64_t at = a->offset;
    for (int i = 0; i < f->j->s->nest.rank - 1; i++) at += f->index[i] * a->strides[i];
    return at;
}

static char *address(const frame *f, const tl_access *a, int64_t element)
{
    const int64_t at = offset_of(f, a) + element * a->strides[f->j->s->nest.rank - 1];
    TL_ASSERT(a->buffer >= 0 && a->buffer < f->j->s->nest.buffer_count && f->j->buffers[a->buffer]);
    TL_ASSERT(element >= 0 && element < tl_max_i64(f->j->s->row, 1)); // of the row
    return (char *)f->j->buffers[a->buffer] + at * (int64_t)tl_dtype_size(a->dtype);
}

// The row of sums of a wide reduction, at an element of the row.
static char *sums(const frame *f, const tli_reduction *d, size_t region, int64_t element)
{
    const tli_schedule *s = f->j->s;
    const int64_t width = s->joined ? s->row_piece : s->row;
    TL_ASSERT(d->wide && element >= f->origin && element - f->origin < width && f->slot >= 0);
    return f->j->scratch + region
           + (f->slot * width + element - f->origin) * tli_kind_size(d->kind);
}

static const tli_tile_reduce *reduce_of(const frame *f, int term)
{
    const tl_term *t = term_of(f, term);
    TL_ASSERT(t->kind == TL_TERM_REDUCE);
    return &f->j->fns->reduce[tli_tile_reduce_at(t->op)][info_of(f, term)->kind];
}

static tli_value start_of(const frame *f, int term)
{
    return tli_reduce_start(term_of(f, term)->op, info_of(f, term)->kind);
}

// any and all are of truth values, which `spare` has room for.
static const void *reduce_input(const frame *f, int term, const void *in, char *spare, int64_t n)
{
    const tl_term *t = term_of(f, term);
    if (t->op != TL_OP_any && t->op != TL_OP_all) return in;
    f->j->fns->cast[info_of(f, t->in[0])->kind][TL_BOOL](spare, &in, NULL, n);
    return spare;
}

/* --- terms ------------------------------------------------------------------------------------ */

// n values of an op: at a point (n = 1) or along a tile.
static void compute(const frame *f, int term, void *y, const void *const *in, int64_t n)
{
    TL_ASSERT(n > 0 && n <= TLI_TILE); // what a tile has room for
    const tl_term *t = term_of(f, term);
    const tli_term_info *info = info_of(f, term);
    const tli_tile_fns *fns = f->j->fns;
    if (t->kind == TL_TERM_REDUCE) { // over axes of size 1
        char *spare = n == 1 ? (char *)&(tli_value){0} : f->spare;
        const void *x = reduce_input(f, term, in[0], spare, n);
        fns->splat[info->kind](y, start_of(f, term), n);
        reduce_of(f, term)->join(y, x, n);
    } else if (t->op == TL_OP_cast) {
        fns->cast[info->in_kind][t->dtype](y, in, NULL, n);
        return;
    } else if (tli_op_takes_other(t->op, t->attr)) {
        fns->other[t->op](y, in, info->params, n);
    } else {
        fns->op[t->op][info->in_kind](y, in, info->params, n);
    }
    if (fns->round[t->dtype] && !info->exact) fns->round[t->dtype](y, n);
}

static void index_values(const frame *f, int term, void *y, int64_t first, int64_t step, int64_t n)
{
    TL_ASSERT(n > 0 && n <= TLI_TILE);
    const void *numbers = f->numbers;
    f->j->fns->count((int64_t *)f->numbers, first, step, n);
    f->j->fns->cast[TLI_KIND_L][term_of(f, term)->dtype](y, &numbers, NULL, n);
}

static int64_t index_at(const frame *f, const tl_term *t, int64_t element)
{
    if (t->axis < 0) return t->shift;
    TL_ASSERT(t->axis < f->j->s->nest.rank);
    const bool row = t->axis == f->j->s->nest.rank - 1;
    return t->shift + t->scale * (row ? element : f->index[t->axis]);
}

static void compute_point(frame *f, int term)
{
    const tl_term *t = term_of(f, term);
    const tli_term_info *info = info_of(f, term);
    tli_value *y = &f->points[term];
    TL_ASSERT(!info->row); // the same along the row
    if (info->deferred >= 0) {
        *y = f->totals[info->deferred];
        if (f->j->fns->round[t->dtype]) f->j->fns->round[t->dtype](y, 1);
    } else if (t->kind == TL_TERM_LOAD) {
        f->j->fns->load[t->dtype](y, address(f, &t->from, 0), 1, 1);
    } else if (t->kind == TL_TERM_NUMBER) {
        *y = info->number;
    } else if (t->kind == TL_TERM_INDEX) {
        index_values(f, term, y, index_at(f, t, 0), 0, 1);
    } else {
        const void *in[TL_TERM_INPUTS] = {0};
        for (int i = 0; i < t->inputs; i++) in[i] = &f->points[t->in[i]];
        compute(f, term, y, in, 1);
    }
}

// The values of a term in the tile at hand: computed, or where they lie.
static void compute_tile(frame *f, int term, int64_t element, int64_t n)
{
    const tl_term *t = term_of(f, term);
    const tli_term_info *info = info_of(f, term);
    const tli_tile_fns *fns = f->j->fns;
    char *y = f->tiles + (int64_t)term * TILE_BYTES;
    TL_ASSERT(info->row && n > 0 && n <= TLI_TILE && element >= f->begin && element + n <= f->end);
    if (f->section->buffer_at[term] >= 0)
        y = f->row_buffers + f->section->buffer_at[term] + element * tli_kind_size(info->kind);
    f->at[term] = y;
    if (info->deferred >= 0) {
        const tli_reduction *d = &f->j->s->reductions[info->deferred];
        const char *from = sums(f, d, d->total_at, element);
        if (fns->round[t->dtype]) {
            memcpy(y, from, (size_t)(n * tli_kind_size(d->kind)));
            fns->round[t->dtype](y, n);
        } else {
            f->at[term] = from;
        }
    } else if (t->kind == TL_TERM_LOAD) {
        const int64_t stride = t->from.strides[f->j->s->nest.rank - 1];
        const bool plain =
            t->dtype == TL_F32 || t->dtype == TL_F64 || t->dtype == TL_I32 || t->dtype == TL_I64;
        if (plain && stride == 1) f->at[term] = address(f, &t->from, element);
        else fns->load[t->dtype](y, address(f, &t->from, element), stride, n);
    } else if (t->kind == TL_TERM_INDEX) {
        index_values(f, term, y, index_at(f, t, element), t->scale, n);
    } else {
        const void *in[TL_TERM_INPUTS] = {0};
        for (int i = 0; i < t->inputs; i++) in[i] = f->at[t->in[i]];
        compute(f, term, y, in, n);
    }
}

/* --- stages ----------------------------------------------------------------------------------- */

// Values that do not vary along the row, as tiles for those that do.
static void spread(frame *f, int term, int64_t n)
{
    char *y = f->tiles + (int64_t)term * TILE_BYTES;
    if (info_of(f, term)->row) return;
    f->j->fns->splat[info_of(f, term)->kind](y, f->points[term], n);
    f->at[term] = y;
}

static void begin_lanes(frame *f, int term)
{
    f->lanes[term].value = start_of(f, term);
    f->j->fns->splat[info_of(f, term)->kind](f->lanes[term].at, start_of(f, term), TLI_LANES);
}

static void feed_lanes(frame *f, int term, int64_t element, int64_t n)
{
    const tli_tile_reduce *r = reduce_of(f, term);
    const int64_t done = element + n - f->begin;
    // Lanes stay in step.
    TL_ASSERT(element + n <= f->end && (n % TLI_LANES == 0 || element + n == f->end));
    r->lanes(f->lanes[term].at, reduce_input(f, term, f->at[term_of(f, term)->in[0]], f->spare, n),
             n);
    if (done % TLI_BLOCK == 0 || element + n == f->end)
        r->all(&f->lanes[term].value, f->lanes[term].at, start_of(f, term));
}

static bool store_allowed(const frame *f, int store)
{
    const uint32_t guard = f->j->s->guards[store];
    for (int i = 0; i < f->j->s->nest.rank - 1; i++)
        if (guard >> i & 1 && f->index[i] != 0) return false;
    return true;
}

static void store_point(const frame *f, int store)
{
    const tl_nest_store *t = &f->j->s->nest.stores[store];
    if (f->begin != 0 || !store_allowed(f, store)) return;
    f->j->fns->store[t->to.dtype](address(f, &t->to, 0), 1, &f->points[t->term], 1);
}

static void store_tile(const frame *f, int store, int64_t element, int64_t n)
{
    const tl_nest_store *t = &f->j->s->nest.stores[store];
    if (!store_allowed(f, store)) return;
    f->j->fns->store[t->to.dtype](address(f, &t->to, element),
                                  t->to.strides[f->j->s->nest.rank - 1], f->at[t->term], n);
}

static void walk_tile(frame *f, const tli_stage *g, int64_t element, int64_t n)
{
    const tli_schedule *s = f->j->s;
    for (int i = 0; i < g->fetched.count; i++) {
        const int term = g->fetched.at[i];
        TL_ASSERT(f->section->buffer_at[term] >= 0); // an earlier stage kept it
        f->at[term] = f->row_buffers + f->section->buffer_at[term]
                      + element * tli_kind_size(info_of(f, term)->kind);
    }
    for (int i = 0; i < g->rows.count; i++) compute_tile(f, g->rows.at[i], element, n);
    for (int i = 0; i < g->reduces.count; i++) feed_lanes(f, g->reduces.at[i], element, n);
    for (int i = 0; i < g->row_sums.count; i++) {
        const tli_reduction *d = &s->reductions[g->row_sums.at[i]];
        if (d->in_row) {
            feed_lanes(f, d->term, element, n);
            continue;
        }
        const void *in = f->at[term_of(f, d->term)->in[0]];
        reduce_of(f, d->term)
            ->join(sums(f, d, d->block_at, element), reduce_input(f, d->term, in, f->spare, n), n);
    }
    for (int i = 0; i < g->row_stores.count; i++) store_tile(f, g->row_stores.at[i], element, n);
}

static void walk_row(frame *f, const tli_stage *g)
{
    const tli_schedule *s = f->j->s;
    const int64_t length = f->end - f->begin, first = length < TLI_TILE ? length : TLI_TILE;
    TL_ASSERT(f->begin >= 0 && f->begin <= f->end && f->end <= s->row);
    for (int i = 0; i < g->rows.count; i++) {
        const tl_term *t = term_of(f, g->rows.at[i]);
        const bool made = t->kind == TL_TERM_OP || t->kind == TL_TERM_REDUCE;
        const bool deferred = info_of(f, g->rows.at[i])->deferred >= 0;
        for (int k = 0; made && !deferred && k < t->inputs; k++) spread(f, t->in[k], first);
    }
    for (int i = 0; i < g->reduces.count; i++) {
        begin_lanes(f, g->reduces.at[i]);
        spread(f, term_of(f, g->reduces.at[i])->in[0], first);
    }
    for (int i = 0; i < g->row_sums.count; i++) {
        const tli_reduction *d = &s->reductions[g->row_sums.at[i]];
        if (d->in_row) begin_lanes(f, d->term);
        spread(f, term_of(f, d->term)->in[0], first);
    }
    for (int64_t i = f->begin; i < f->end; i += TLI_TILE)
        walk_tile(f, g, i, f->end - i < TLI_TILE ? f->end - i : TLI_TILE);
}

static void join_point(frame *f, int reduction, const void *value)
{
    const tli_reduction *d = &f->j->s->reductions[reduction];
    TL_ASSERT(reduction >= 0 && reduction < f->j->s->reduction_count && !d->wide);
    reduce_of(f, d->term)->join(&f->blocks[reduction], value, 1);
}

static void run_stage(frame *f, const tli_stage *g)
{
    const tli_schedule *s = f->j->s;
    for (int i = 0; i < g->points.count; i++) compute_point(f, g->points.at[i]);
    for (int i = 0; i < g->point_sums.count; i++) {
        const int term = s->reductions[g->point_sums.at[i]].term;
        tli_value truth = {0};
        join_point(f, g->point_sums.at[i],
                   reduce_input(f, term, &f->points[term_of(f, term)->in[0]], (char *)&truth, 1));
    }
    for (int i = 0; i < g->point_stores.count; i++) store_point(f, g->point_stores.at[i]);
    if (!g->walks) return;
    walk_row(f, g);
    for (int i = 0; i < g->reduces.count; i++) {
        const int term = g->reduces.at[i];
        const tl_dtype dtype = term_of(f, term)->dtype;
        f->points[term] = f->lanes[term].value;
        if (f->j->fns->round[dtype]) f->j->fns->round[dtype](&f->points[term], 1);
    }
    for (int i = 0; i < g->row_sums.count; i++) {
        const tli_reduction *d = &s->reductions[g->row_sums.at[i]];
        if (d->in_row) join_point(f, g->row_sums.at[i], &f->lanes[d->term].value);
    }
}

static void run_section(frame *f, const tli_section *section)
{
    f->section = section;
    for (int i = 0; i < section->stage_count; i++) run_stage(f, &section->stages[i]);
}

/* --- sums ------------------------------------------------------------------------------------- */

static void begin_sums(frame *f)
{
    const tli_schedule *s = f->j->s;
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const tli_value start = start_of(f, d->term);
        f->totals[i] = f->blocks[i] = start;
        if (!d->wide) continue;
        f->j->fns->splat[d->kind](sums(f, d, d->total_at, f->begin), start, f->end - f->begin);
        f->j->fns->splat[d->kind](sums(f, d, d->block_at, f->begin), start, f->end - f->begin);
    }
}

// Blocks join their totals and start again.
static void fold_sums(frame *f)
{
    const tli_schedule *s = f->j->s;
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const tli_tile_reduce *r = reduce_of(f, d->term);
        if (!d->wide) {
            r->join(&f->totals[i], &f->blocks[i], 1);
            f->blocks[i] = start_of(f, d->term);
            continue;
        }
        char *block = sums(f, d, d->block_at, f->begin);
        r->join(sums(f, d, d->total_at, f->begin), block, f->end - f->begin);
        f->j->fns->splat[d->kind](block, start_of(f, d->term), f->end - f->begin);
    }
}

// `count` sums of pieces, `step` apart, come together in the first one's place.
static void join_pieces(const frame *f, const tli_reduction *d, char *first, int64_t step,
                        int64_t count, int64_t n)
{
    TL_ASSERT(n <= TLI_TILE && count == f->j->s->reduced_pieces
              && step >= n * tli_kind_size(d->kind));
    const tli_tile_reduce *r = reduce_of(f, d->term);
    const size_t bytes = (size_t)(n * tli_kind_size(d->kind));
    f->j->fns->splat[d->kind](f->spare, start_of(f, d->term), n);
    for (int64_t i = 0; i < count; i += TLI_FOLD) {
        f->j->fns->splat[d->kind](f->numbers, start_of(f, d->term), n);
        for (int64_t k = i; k < count && k < i + TLI_FOLD; k++)
            r->join(f->numbers, first + k * step, n);
        r->join(f->spare, f->numbers, n);
    }
    memcpy(first, f->spare, bytes);
}

// The sums of all pieces of a kept point, for elements begin .. end - 1.
static void join_sums(frame *f, int64_t kept)
{
    const tli_schedule *s = f->j->s;
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const int64_t size = tli_kind_size(d->kind);
        if (d->wide) {
            for (int64_t w = f->begin; w < f->end; w += TLI_TILE)
                join_pieces(f, d, sums(f, d, d->total_at, w), s->row * size, s->reduced_pieces,
                            f->end - w < TLI_TILE ? f->end - w : TLI_TILE);
            continue;
        }
        // Other tasks may read the same ones: they are added up aside.
        char *from = f->j->scratch + d->total_at + kept * s->reduced_pieces * s->row_pieces * size;
        const int64_t step = d->in_row ? 1 : s->row_pieces;
        const int64_t count = s->reduced_pieces * (d->in_row ? s->row_pieces : 1);
        // Within those of this point.
        TL_ASSERT((count - 1) * step < s->reduced_pieces * s->row_pieces);
        const tli_tile_reduce *r = reduce_of(f, d->term);
        f->totals[i] = start_of(f, d->term);
        for (int64_t k = 0; k < count; k += TLI_FOLD) {
            tli_value block = start_of(f, d->term);
            for (int64_t l = k; l < count && l < k + TLI_FOLD; l++)
                r->join(&block, from + l * step * size, 1);
            r->join(&f->totals[i], &block, 1);
        }
    }
}

// What a piece has come to, for the second phase.
static void keep_narrow_sums(const frame *f, int64_t piece)
{
    const tli_schedule *s = f->j->s;
    TL_ASSERT(!s->joined && piece >= 0
              && piece < s->kept_points * s->reduced_pieces * s->row_pieces);
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        if (!d->wide)
            memcpy(f->j->scratch + d->total_at + piece * tli_kind_size(d->kind), &f->totals[i],
                   (size_t)tli_kind_size(d->kind));
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

// The indices of the axes first .. first + count - 1 at a point of them.
static void find_index(frame *f, int first, int count, int64_t point)
{
    for (int i = first + count - 1; i >= first; i--) {
        f->index[i] = point % f->j->s->nest.dims[i];
        point /= f->j->s->nest.dims[i];
    }
    TL_ASSERT(point == 0); // it was one of these axes
}

static void run_first(frame *f, int64_t task)
{
    const tli_schedule *s = f->j->s;
    const int64_t piece = task % s->reduced_pieces, rest = task / s->reduced_pieces;
    const int64_t row = rest % s->row_pieces, block = rest / s->row_pieces;
    const int64_t first = block * s->kept_block, begin = piece * s->reduced_piece;
    const int64_t end = tl_min_i64(begin + s->reduced_piece, s->reduced_points);
    f->begin = row * s->row_piece;
    f->end = tl_min_i64(f->begin + s->row_piece, s->row);
    f->origin = s->joined ? f->begin : 0;
    TL_ASSERT(f->begin <= f->end && f->end <= s->row && begin <= end && first <= s->kept_points);
    f->section = &s->main;
    run_stage(f, &s->main.once);
    for (int64_t k = first; k < tl_min_i64(first + s->kept_block, s->kept_points); k++) {
        f->slot = s->joined ? task : k * s->reduced_pieces + piece;
        find_index(f, 0, s->kept, k);
        begin_sums(f);
        for (int64_t r = begin; r < end; r++) {
            find_index(f, s->kept, s->reduced, r);
            run_section(f, &s->main);
            if ((r - begin) % TLI_FOLD == TLI_FOLD - 1 || r == end - 1) fold_sums(f);
        }
        if (!s->joined) keep_narrow_sums(f, (k * s->reduced_pieces + piece) * s->row_pieces + row);
        else if (s->has_last) run_section(f, &s->last);
    }
}

static void run_second(frame *f, int64_t task)
{
    const tli_schedule *s = f->j->s;
    const int64_t row = task % s->last_pieces, first = task / s->last_pieces * s->last_block;
    f->begin = row * s->last_piece;
    f->end = tl_min_i64(f->begin + s->last_piece, s->row);
    f->origin = 0;
    TL_ASSERT(!s->joined && f->begin <= f->end && f->end <= s->row);
    for (int64_t k = first; k < tl_min_i64(first + s->last_block, s->kept_points); k++) {
        f->slot = k * s->reduced_pieces;
        find_index(f, 0, s->kept, k);
        join_sums(f, k);
        run_section(f, &s->last);
    }
}

// Takes some bytes of a block, aligned.
static void *take(char **from, int64_t bytes)
{
    void *at = *from;
    *from += tl_round_up(bytes, TL_NEST_ALIGNMENT);
    return at;
}

static tl_status run_tasks(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const tli_schedule *s = j->s;
    const int64_t terms = s->nest.term_count, sum_count = s->reduction_count;
    const int64_t kept =
        s->main.buffer_bytes > s->last.buffer_bytes ? s->main.buffer_bytes : s->last.buffer_bytes;
    const int64_t per_term =
        TILE_BYTES + (int64_t)sizeof(tli_value) + (int64_t)sizeof(void *) + (int64_t)sizeof(lanes);
    const int64_t bytes = terms * per_term + kept + sum_count * 2 * (int64_t)sizeof(tli_value)
                          + 2 * TILE_BYTES + 16 * TL_NEST_ALIGNMENT;
    char *block = tl_alloc_aligned(TL_NEST_ALIGNMENT, (size_t)bytes), *rest = block;
    if (!block) return TL_FAIL_NOMEM(bytes);
    frame f = {.j = j};
    f.tiles = take(&rest, terms * TILE_BYTES);
    f.points = take(&rest, terms * (int64_t)sizeof *f.points);
    f.at = take(&rest, terms * (int64_t)sizeof *f.at);
    f.lanes = take(&rest, terms * (int64_t)sizeof *f.lanes);
    f.row_buffers = take(&rest, kept);
    f.totals = take(&rest, sum_count * (int64_t)sizeof *f.totals);
    f.blocks = take(&rest, sum_count * (int64_t)sizeof *f.blocks);
    f.spare = take(&rest, TILE_BYTES);
    f.numbers = take(&rest, TILE_BYTES);
    TL_ASSERT(rest <= block + bytes); // all of it was asked for
    for (int64_t i = begin; i < end; i++) {
        if (j->phase == 0) run_first(&f, i);
        else run_second(&f, i);
    }
    tl_free(block);
    return TL_OK;
}

tl_status tl_nest_interpret(const tl_nest_plan *plan, void *const *buffers, void *scratch,
                            tl_pool *pool)
{
    tli_isa isa;
    TL_TRY(tli_isa_choose(&isa));
    for (int i = 0; i < plan->phase_count; i++) {
        job j = {plan->schedule, tli_tile_fns_of(isa), buffers, scratch, i};
        TL_ASSERT(plan->phases[i].tasks >= 0);
        TL_TRY(tl_parallel_for(pool, plan->phases[i].tasks, 1, run_tasks, &j));
    }
    return TL_OK;
}
