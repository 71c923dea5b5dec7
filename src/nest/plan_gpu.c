/* How a nest is walked on a GPU: groups of threads, and what each has. */
#include <inttypes.h>

#include <tilth/base/integer.h>

#include "nest/gpu.h"
#include "nest/print_c.h"

enum {
    WARP = 32,
    BLOCK = 256,
    /* Points of a thread: loads that are under way at a time */
    FLAT_EACH = 4,
    /* Groups that keep any GPU busy; more gain nothing, and sums have more pieces */
    ENOUGH_GROUPS = 1024,
    /* Reduced points that a thread adds up at least, and a row's group at least: less would be
     * spent on bringing the sums together */
    LEAST_POINTS = 8,
    /* A row of so many elements is too long for a group, if there are few of them */
    LONG_ROW = 1 << 15,
    FEW_ROWS = 128,
    MOST_COLUMNS = 64,
    /* The same of so few groups that most of a GPU would be idle */
    FEW_COLUMNS = 16,
    FEW_GROUPS = 32,
    LEAST_VECTOR_POINTS = 1 << 18,
    /* Of sums with vectors: groups are many, as the last ones leave processors idle */
    VECTOR_GROUPS = 4096,
    VECTOR_COLUMNS = 32,
    MOST_PIECES = 512,
    /* Pieces of a sum from which on several threads add them up */
    MANY_PIECES = 32,
    /* Points that a thread adds up before a second kernel, that brings pieces together, pays */
    FEW_POINTS = 64
};

/* --- which form ------------------------------------------------------------------------------- */

static bool is_long(const tli_schedule *s)
{
    return s->row > LONG_ROW && s->kept_points < FEW_ROWS;
}

static tli_gpu_form form_of(const tli_schedule *s)
{
    if (s->main.reduces) return TLI_GPU_ROWS;
    return s->reduction_count ? TLI_GPU_COLUMNS : TLI_GPU_FLAT;
}

static bool is_loaded(const tl_nest *n, int buffer)
{
    for (int64_t i = 0; i < n->term_count; i++)
        if (n->terms[i].kind == TL_TERM_LOAD && n->terms[i].from.buffer == buffer) return true;
    return false;
}

// What one thread stores for a whole row, others may still want to load as it was.
static tl_status check_stores(const tli_gpu_plan *p)
{
    const tl_nest *n = &p->s->nest;
    if (p->form == TLI_GPU_ROWS || p->s->row <= 1) return TL_OK;
    for (int64_t i = 0; i < n->store_count; i++)
        if (!p->s->terms[n->stores[i].term].row && is_loaded(n, n->stores[i].to.buffer))
            return TL_FAIL(TL_EUNSUPPORTED,
                           "nest: store %" PRId64 " changes buffer %d, which other threads load", i,
                           n->stores[i].to.buffer);
    return TL_OK;
}

/* --- sizes ------------------------------------------------------------------------------------ */

static int64_t at_least_one(int64_t x)
{
    return tl_max_i64(x, 1);
}

/* Threads of a group that has a row: few enough that each has some elements. */
static int threads_for(int64_t row)
{
    if (row <= 512) return WARP;
    if (row <= 4096) return BLOCK / 2;
    return row <= 16384 ? 2 * BLOCK : 4 * BLOCK;
}

static int power_of_two(int64_t least, int most)
{
    int n = 1;
    while (n < most && n < least) n *= 2;
    return n;
}

static void cut_reduced(tli_gpu_plan *p, int64_t groups, int64_t enough, int64_t least)
{
    const int64_t reduced = at_least_one(p->s->reduced_points);
    const int64_t pieces = at_least_one(enough / at_least_one(groups));
    const int64_t piece = tl_max_i64(tl_div_up(reduced, pieces), least);
    p->reduced_piece = tl_min_i64(piece, reduced);
    p->reduced_pieces = tl_div_up(reduced, p->reduced_piece);
}

// Large ones, most of whose bytes come so; small ones need all threads that they can have.
static bool takes_vectors(const tli_schedule *s)
{
    const tl_nest *n = &s->nest;
    const int64_t points = s->kept_points * at_least_one(s->reduced_points) * s->row;
    bool loads = false, stores = s->reduction_count > 0; // which are few
    if (s->row % TLI_VECTOR || points < LEAST_VECTOR_POINTS) return false;
    for (int64_t i = 0; i < n->term_count; i++)
        loads |= n->terms[i].kind == TL_TERM_LOAD && s->terms[i].row
                 && tli_print_is_vector(n, &n->terms[i].from);
    for (int64_t i = 0; i < n->store_count; i++)
        stores |= s->terms[n->stores[i].term].row && tli_print_is_vector(n, &n->stores[i].to);
    return loads && stores;
}

static void cut_flat(tli_gpu_plan *p)
{
    p->threads = BLOCK;
    p->vectors = takes_vectors(p->s);
    p->each = p->vectors ? TLI_VECTOR : FLAT_EACH;
    p->row_pieces = p->reduced_piece = p->reduced_pieces = 1;
}

static void cut_rows(tli_gpu_plan *p)
{
    const int64_t row = at_least_one(p->s->row);
    p->threads = threads_for(row);
    p->each = tl_div_up(row, p->threads);
    p->row_pieces = 1;
    cut_reduced(p, p->s->kept_points, ENOUGH_GROUPS, LEAST_POINTS);
}

/* Sums of few points of few columns: more groups that have fewer columns each. */
static bool is_short_and_narrow(const tli_schedule *s)
{
    return s->reduced_points <= (int64_t)FEW_POINTS * (BLOCK / FEW_COLUMNS)
           && s->kept_points * s->row <= (int64_t)FEW_GROUPS * MOST_COLUMNS && s->row > FEW_COLUMNS;
}

static void cut_columns(tli_gpu_plan *p)
{
    const tli_schedule *s = p->s;
    const int64_t row = at_least_one(s->row), reduced = at_least_one(s->reduced_points);
    p->threads = BLOCK;
    p->vectors = reduced >= BLOCK && takes_vectors(s);
    if (p->vectors) {
        p->each = TLI_VECTOR;
        p->columns = power_of_two(row / TLI_VECTOR, VECTOR_COLUMNS);
        p->lanes = BLOCK / p->columns;
        p->row_pieces = tl_div_up(row, p->columns * p->each);
        cut_reduced(p, s->kept_points * p->row_pieces,
                    tl_min_i64(VECTOR_GROUPS, MOST_PIECES * s->kept_points * p->row_pieces),
                    (int64_t)LEAST_POINTS * p->lanes);
        return;
    }
    p->lanes = power_of_two(reduced, BLOCK / power_of_two(row, MOST_COLUMNS));
    if (is_short_and_narrow(s)) p->lanes = power_of_two(reduced, BLOCK / FEW_COLUMNS);
    p->columns = BLOCK / p->lanes;
    p->each = 1;
    // One point and a long row: a thread has many of its elements.
    if (reduced == 1)
        p->each = tl_max_i64(FLAT_EACH, tl_div_up(row, (int64_t)p->columns * ENOUGH_GROUPS));
    p->row_pieces = tl_div_up(row, p->columns * p->each);
    cut_reduced(p, s->kept_points * p->row_pieces, ENOUGH_GROUPS, (int64_t)LEAST_POINTS * p->lanes);
}

/* Whether a group has all that its part of `last` needs. */
static bool makes_whole_sums(const tli_gpu_plan *p)
{
    const tli_schedule *s = p->s;
    for (int i = 0; i < s->reduction_count; i++)
        if (!s->reductions[i].wide) return false;
    return s->has_last && !s->last.reduces && s->reduced_points <= (int64_t)FEW_POINTS * p->lanes;
}

static void cut_last(tli_gpu_plan *p)
{
    const int64_t row = at_least_one(p->s->row);
    bool walks = false;
    p->last_lanes = 1;
    for (int i = 0; i < p->s->last.stage_count; i++) walks |= p->s->last.stages[i].walks;
    for (int i = 0; i < p->s->reduction_count; i++) walks |= p->s->reductions[i].wide;
    p->last_threads = walks ? threads_for(row) : WARP;
    p->last_each = walks ? tl_div_up(row, p->last_threads) : 1;
    p->last_pieces = 1;
    if (!walks || p->s->last.reduces) return;
    if (p->reduced_pieces >= MANY_PIECES) {
        p->last_threads = 4 * BLOCK;
        p->last_lanes = p->last_threads / VECTOR_COLUMNS;
        p->last_each = 1;
        p->last_pieces = tl_div_up(row, VECTOR_COLUMNS);
        return;
    }
    if (p->last_each <= FLAT_EACH) return;
    p->last_threads = BLOCK / 2;
    p->last_each = FLAT_EACH;
    p->last_pieces = tl_div_up(row, p->last_threads * p->last_each);
}

/* --- scratch and offsets ---------------------------------------------------------------------- */

static tl_status place_sums(tl_gpu_walk *w, tli_gpu_plan *p, tl_arena *arena)
{
    const tli_schedule *s = p->s;
    p->sums_at = tl_arena_array(arena, s->reduction_count, sizeof *p->sums_at);
    if (!p->sums_at) return TL_ENOMEM;
    for (int i = 0; i < s->reduction_count; i++) {
        const int64_t width = s->reductions[i].wide ? s->row : p->row_pieces;
        const int64_t count = s->kept_points * p->reduced_pieces * width;
        p->sums_at[i] = w->walk.scratch_bytes;
        w->walk.scratch_bytes += tl_round_up_size(
            (size_t)(count * tli_kind_size(s->reductions[i].kind)), TL_NEST_ALIGNMENT);
    }
    return TL_OK;
}

static bool is_far(const tl_nest *n, const tl_access *a)
{
    double reach = a->offset < 0 ? -(double)a->offset : (double)a->offset;
    for (int i = 0; i < n->rank; i++) {
        const double stride = (double)a->strides[i];
        reach += (double)n->dims[i] * (stride < 0 ? -stride : stride);
    }
    return reach >= INT32_MAX;
}

static bool needs_wide_index(const tl_gpu_walk *w, const tli_schedule *s)
{
    const tl_nest *n = &s->nest;
    const double points = (double)s->kept_points * (double)s->reduced_points * (double)s->row;
    bool wide = points >= INT32_MAX / 2 || w->walk.scratch_bytes >= INT32_MAX;
    for (int64_t i = 0; i < n->term_count; i++)
        wide |= n->terms[i].kind == TL_TERM_LOAD && is_far(n, &n->terms[i].from);
    for (int64_t i = 0; i < n->store_count; i++) wide |= is_far(n, &n->stores[i].to);
    return wide;
}

/* --- the plan --------------------------------------------------------------------------------- */

static void count_groups(tl_gpu_walk *w, const tli_gpu_plan *p)
{
    const tli_schedule *s = p->s;
    w->phase_count = s->reduction_count && s->has_last && !p->whole ? 2 : 1;
    w->phases[0] = (tl_gpu_phase){s->kept_points * p->row_pieces * p->reduced_pieces, p->threads};
    if (p->form == TLI_GPU_FLAT)
        w->phases[0].groups = tl_div_up(s->kept_points * s->row, p->threads * p->each);
    if (w->phase_count > 1)
        w->phases[1] = (tl_gpu_phase){s->kept_points * p->last_pieces, p->last_threads};
}

tl_status tl_gpu_walk_new(tl_gpu_walk **out, tl_arena *arena, const tl_nest *nest)
{
    static const tli_schedule_rules rules = {.is_long = is_long};
    tli_schedule *s;
    tl_gpu_walk *w = tl_arena_alloc(arena, sizeof *w);
    tli_gpu_plan *p = tl_arena_alloc(arena, sizeof *p);
    *out = NULL;
    if (!w || !p) return TL_ENOMEM;
    TL_TRY(tli_walk_init(&w->walk, arena, nest));
    TL_TRY(tli_schedule_choose(&s, arena, &w->walk.nest, &rules));
    p->s = s;
    p->form = form_of(s);
    TL_TRY(check_stores(p));
    if (p->form == TLI_GPU_FLAT) cut_flat(p);
    else if (p->form == TLI_GPU_ROWS) cut_rows(p);
    else cut_columns(p);
    p->whole = p->form == TLI_GPU_COLUMNS && makes_whole_sums(p);
    if (p->whole) {
        p->reduced_piece = at_least_one(s->reduced_points);
        p->reduced_pieces = 1;
    }
    cut_last(p);
    TL_TRY(place_sums(w, p, arena));
    p->wide_index = needs_wide_index(w, s);
    count_groups(w, p);
    w->plan = p;
    *out = w;
    return TL_OK;
}

bool tl_gpu_walk_as_good(const tl_gpu_walk *both, const tl_gpu_walk *a, const tl_gpu_walk *b)
{
    const tli_schedule *s = both->plan->s, *x = a->plan->s, *y = b->plan->s;
    return s->row == tl_min_i64(x->row, y->row)
           && s->reduced_points == tl_max_i64(x->reduced_points, y->reduced_points)
           && both->phase_count <= tl_max_i64(a->phase_count, b->phase_count)
           && both->phases[0].groups >= tl_min_i64(a->phases[0].groups, b->phases[0].groups)
           && both->walk.scratch_bytes <= a->walk.scratch_bytes + b->walk.scratch_bytes;
}
