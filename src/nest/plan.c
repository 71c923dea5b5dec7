#include <tilth/sys/nest/plan.h>

#include <inttypes.h>
#include <string.h>
#include <tilth/base/integer.h>
#include <tilth/sys/nest/interpret.h>

#include "nest/inner/schedule.h"

/* Sizes are in the cost of adding two floats that are in the cache, some tenth of a nanosecond. */
enum {
    /* 10 to 20 microseconds, where handing a task to a thread takes some tenths of one */
    TASK_COST = 1 << 17,
    /* From here on nothing more is cut for the sake of threads: one for each of 64 */
    ENOUGH_TASKS = 64,
    /* Of a row of sums: total and block of float32 are 16 KiB, half of a first-level cache of
     * 32 KiB */
    WIDE_PIECE = 2048,
    /* Of reduced points: four for each of 64 threads; their sums are added once more */
    MOST_PIECES = 256
};

/* --- which axis is the row -------------------------------------------------------------------- */

static int steps_by_one(const tl_access *a, int axis)
{
    return a->strides[axis] == 1 || a->strides[axis] == -1;
}

// The axes that are not of size 1, the one most accesses walk element by element first. Gives how
// many.
static int row_candidates(int out[TL_MAX_RANK], const tl_nest *n)
{
    int count = 0;
    int64_t score[TL_MAX_RANK];
    for (int a = n->rank - 1; a >= 0; a--) {
        if (n->dims[a] == 1) continue;
        int64_t steps = 0;
        for (int64_t i = 0; i < n->term_count; i++)
            if (n->terms[i].kind == TL_TERM_LOAD) steps += steps_by_one(&n->terms[i].from, a);
        for (int64_t i = 0; i < n->store_count; i++) steps += steps_by_one(&n->stores[i].to, a);
        int at = count++;
        for (; at > 0 && score[at - 1] < steps; at--) {
            score[at] = score[at - 1];
            out[at] = out[at - 1];
        }
        score[at] = steps;
        out[at] = a;
        TL_ASSERT(count <= n->rank && (at == 0 || score[at - 1] >= score[at])); // the best first
    }
    return count;
}

/* --- tasks ------------------------------------------------------------------------------------ */

// What a row costs when its reductions are deferred; also says whether it is long enough for that.
static bool long_rows(const tli_schedule *s)
{
    double cost = 0;
    for (int64_t i = 0; i < s->nest.term_count; i++) {
        const tl_term *t = &s->nest.terms[i];
        const bool op = t->kind == TL_TERM_OP || t->kind == TL_TERM_REDUCE;
        cost += op ? tli_nest_op_of(t->op)->cost : 1;
    }
    return s->kept_points < ENOUGH_TASKS && (double)s->row * cost > 2.0 * TASK_COST;
}

static bool all_wide(const tli_schedule *s)
{
    for (int i = 0; i < s->reduction_count; i++)
        if (!s->reductions[i].wide) return false;
    return true;
}

static bool any_wide(const tli_schedule *s)
{
    for (int i = 0; i < s->reduction_count; i++)
        if (s->reductions[i].wide) return true;
    return false;
}

// A double that may be huge, or 0, as a number of elements.
static int64_t elements(double n)
{
    if (!(n >= 1)) return 1;
    return n > 0x1p50 ? INT64_C(1) << 50 : (int64_t)n;
}

// Pieces that cover all, of which none is empty.
static bool is_covered(int64_t all, int64_t piece, int64_t pieces)
{
    return pieces > 0 && pieces * piece >= all && (pieces - 1) * piece < all;
}

static void cut_main(tli_schedule *s)
{
    const double cost = s->main.cost > 1 ? s->main.cost : 1;
    const int64_t row = tl_max_i64(s->row, 1), reduced = tl_max_i64(s->reduced_points, 1);
    const bool wide = any_wide(s);
    s->row_piece = row;
    if (!s->main.reduces) {
        int64_t piece = elements(TASK_COST / cost / (double)reduced);
        piece = wide ? tl_round_up(tl_max_i64(piece, WIDE_PIECE), TLI_LANES)
                     : tl_round_up(piece, TLI_BLOCK);
        if (piece < row - row / 4) s->row_piece = piece;
    }
    s->row_pieces = tl_div_up(row, s->row_piece);
    const double strip = (double)reduced * (double)s->row_piece * cost;
    s->reduced_piece = reduced;
    if (s->reduction_count && strip > 2.0 * TASK_COST
        && (double)s->kept_points * (double)s->row_pieces < ENOUGH_TASKS) {
        const int64_t piece = elements(TASK_COST / cost / (double)s->row_piece);
        s->reduced_piece =
            tl_round_up(tl_max_i64(piece, tl_div_up(reduced, MOST_PIECES)), TLI_FOLD);
    }
    s->reduced_piece = tl_min_i64(s->reduced_piece, reduced);
    s->reduced_pieces = tl_div_up(reduced, s->reduced_piece);
    s->kept_block = 1;
    if (s->row_pieces == 1 && s->reduced_pieces == 1)
        s->kept_block = elements(TASK_COST / (strip + 32));
    s->kept_block = tl_min_i64(s->kept_block, tl_max_i64(s->kept_points, 1));
    TL_ASSERT(s->row_piece > 0 && s->reduced_piece > 0 && s->kept_block > 0);
    TL_ASSERT(is_covered(row, s->row_piece, s->row_pieces)
              && is_covered(reduced, s->reduced_piece, s->reduced_pieces));
    // Sums along a piece are made in whole blocks of lanes, and those of reduced points in whole
    // folds.
    TL_ASSERT(s->row_pieces == 1 || s->row_piece % TLI_LANES == 0);
    TL_ASSERT(s->reduced_pieces == 1 || s->reduced_piece % TLI_FOLD == 0);
}

static void cut_last(tli_schedule *s)
{
    const double cost = s->last.cost + (double)(s->reduction_count * s->reduced_pieces) + 1;
    const int64_t row = tl_max_i64(s->row, 1);
    bool walks = any_wide(s);
    for (int i = 0; i < s->last.stage_count; i++) walks |= s->last.stages[i].walks;
    s->last_piece = row;
    if (walks && !s->last.reduces) {
        const int64_t piece = tl_round_up(elements(TASK_COST / cost), TLI_TILE);
        if (piece < row - row / 4) s->last_piece = piece;
    }
    s->last_pieces = tl_div_up(row, s->last_piece);
    s->last_block = 1;
    if (s->last_pieces == 1)
        s->last_block = elements(TASK_COST / ((walks ? (double)row : 1) * cost + 32));
    s->last_block = tl_min_i64(s->last_block, tl_max_i64(s->kept_points, 1));
    TL_ASSERT(is_covered(row, s->last_piece, s->last_pieces) && s->last_block > 0);
    TL_ASSERT(s->last_pieces == 1 || s->last_piece % TLI_TILE == 0);
}

// Room in scratch; gives where it begins. Sizes are those of what is computed, or less.
static size_t reserve(tl_nest_plan *p, int64_t count, tli_kind kind)
{
    const size_t at = p->walk.scratch_bytes, bytes = (size_t)(count * tli_kind_size(kind));
    p->walk.scratch_bytes += tl_round_up_size(bytes, TL_NEST_ALIGNMENT);
    TL_ASSERT(count >= 0 && at % TL_NEST_ALIGNMENT == 0);
    return at;
}

// The sums of a deferred reduction lie in the scratch memory, each where it was reserved, and fit
// there. What is counted here is what the interpreter and compiled code reach, not what was asked
// for.
static bool sums_fit(const tl_nest_plan *p, const tli_schedule *s, const tli_reduction *d)
{
    const int64_t size = tli_kind_size(d->kind), width = s->joined ? s->row_piece : s->row;
    const int64_t slots = s->joined ? p->phases[0].tasks : s->kept_points * s->reduced_pieces;
    const size_t wide = (size_t)(slots * width * size);
    const size_t narrow =
        s->joined ? 0 : (size_t)(s->kept_points * s->reduced_pieces * s->row_pieces * size);
    if (!d->wide) return d->total_at + narrow <= p->walk.scratch_bytes;
    return d->total_at + wide <= d->block_at && d->block_at + wide <= p->walk.scratch_bytes;
}

static void cut(tl_nest_plan *p, tli_schedule *s)
{
    cut_main(s);
    const int64_t blocks = tl_div_up(s->kept_points, s->kept_block);
    p->phase_count = 1;
    p->phases[0].tasks = blocks * s->row_pieces * s->reduced_pieces;
    TL_ASSERT(blocks * s->kept_block >= s->kept_points
              && (s->kept_block == 1 || s->row_pieces * s->reduced_pieces == 1));
    s->joined = s->reduced_pieces == 1 && (s->row_pieces == 1 || (all_wide(s) && !s->last.reduces));
    if (!s->has_last) s->joined = true; // nobody wants the sums
    if (!s->joined) {
        cut_last(s);
        p->phase_count = 2;
        p->phases[1].tasks = tl_div_up(s->kept_points, s->last_block) * s->last_pieces;
        TL_ASSERT(s->last_block == 1 || s->last_pieces == 1);
    }
    for (int i = 0; i < s->reduction_count; i++) {
        tli_reduction *d = &s->reductions[i];
        const int64_t rows = s->kept_points * s->reduced_pieces;
        if (d->wide) {
            const int64_t count = s->joined ? p->phases[0].tasks * s->row_piece : rows * s->row;
            d->total_at = reserve(p, count, d->kind);
            d->block_at = reserve(p, count, d->kind);
        } else if (!s->joined) {
            d->total_at = reserve(p, rows * s->row_pieces, d->kind);
        }
        TL_ASSERT(sums_fit(p, s, d));
    }
}

/* --- counts ----------------------------------------------------------------------------------- */

static double points_of(const tl_nest *n, uint32_t axes)
{
    double count = 1;
    for (int i = 0; i < n->rank; i++)
        if (axes >> i & 1) count *= (double)n->dims[i];
    return count;
}

static tl_status count_work(tl_nest_walk *walk, tl_arena *arena)
{
    const tl_nest *n = &walk->nest;
    uint32_t *varies = tl_arena_array(arena, n->term_count, sizeof *varies);
    if (!varies) return TL_ENOMEM;
    tl_nest_variance(n, varies);
    for (int64_t i = 0; i < n->term_count; i++) {
        const tl_term *t = &n->terms[i];
        bool again = false; // the same elements as another load
        for (int64_t k = 0; k < i && t->kind == TL_TERM_LOAD; k++)
            again |=
                n->terms[k].kind == TL_TERM_LOAD && n->terms[k].from.buffer == t->from.buffer
                && memcmp(n->terms[k].from.strides, t->from.strides, sizeof t->from.strides) == 0;
        if (t->kind == TL_TERM_LOAD && !again)
            walk->bytes += points_of(n, varies[i]) * (double)tl_dtype_size(t->dtype);
        if (t->kind == TL_TERM_OP) walk->flops += points_of(n, varies[i]);
        if (t->kind == TL_TERM_REDUCE) walk->flops += points_of(n, varies[t->in[0]] | t->axes);
    }
    for (int64_t i = 0; i < n->store_count; i++)
        walk->bytes +=
            points_of(n, varies[n->stores[i].term]) * (double)tl_dtype_size(n->stores[i].to.dtype);
    return TL_OK;
}

/* --- the plan --------------------------------------------------------------------------------- */

static tl_status schedule_with_row(tli_schedule **out, tl_arena *arena, const tl_nest *nest,
                                   int row, const tli_schedule_rules *rules)
{
    tli_schedule *s = *out = tl_arena_alloc(arena, sizeof *s);
    if (!s) return TL_ENOMEM;
    TL_TRY(tli_schedule_axes(s, arena, nest, row));
    bool cut_rows = false;
    if (rules->is_long(s)) TL_TRY(tli_schedule_can_cut(&cut_rows, s, arena));
    return tli_schedule_stages(s, arena, cut_rows, rules->once);
}

tl_status tli_schedule_choose(tli_schedule **out, tl_arena *arena, const tl_nest *nest,
                              const tli_schedule_rules *rules)
{
    int rows[TL_MAX_RANK];
    const int count = row_candidates(rows, nest);
    if (count == 0) return schedule_with_row(out, arena, nest, -1, rules);
    tl_status first = TL_OK;
    tl_error saved;
    for (int i = 0; i < count; i++) {
        const tl_status st = schedule_with_row(out, arena, nest, rows[i], rules);
        if (st != TL_EUNSUPPORTED) return st;
        if (first == TL_OK) tl_error_save(&saved);
        first = st;
    }
    tl_error_restore(&saved);
    return first;
}

tl_status tli_walk_init(tl_nest_walk *walk, tl_arena *arena, const tl_nest *nest)
{
    TL_TRY(tl_nest_verify(nest));
    if (nest->term_count > INT32_MAX || nest->store_count > INT32_MAX)
        return TL_FAIL(TL_ELIMIT, "nest: %" PRId64 " terms are too many", nest->term_count);
    walk->nest = *nest;
    walk->nest.terms =
        tl_arena_copy(arena, nest->terms, (size_t)nest->term_count * sizeof *nest->terms);
    walk->nest.stores =
        tl_arena_copy(arena, nest->stores, (size_t)nest->store_count * sizeof *nest->stores);
    if (!walk->nest.terms || !walk->nest.stores) return TL_ENOMEM;
    return count_work(walk, arena);
}

tl_status tl_nest_plan_new(tl_nest_plan **out, tl_arena *arena, const tl_nest *nest)
{
    static const tli_schedule_rules host = {.is_long = long_rows, .once = true};
    tli_schedule *s;
    tl_nest_plan *p = tl_arena_alloc(arena, sizeof *p);
    *out = NULL;
    if (!p) return TL_ENOMEM;
    TL_TRY(tli_walk_init(&p->walk, arena, nest));
    TL_TRY(tli_schedule_choose(&s, arena, &p->walk.nest, &host));
    cut(p, s);
    TL_ASSERT(p->phase_count == (s->joined ? 1 : 2) && p->phase_count <= TL_NEST_PHASES);
    TL_ASSERT(s->kept + s->reduced + 1 == s->nest.rank && s->nest.rank <= TL_MAX_RANK + 1);
    p->schedule = s;
    *out = p;
    return TL_OK;
}

void tl_nest_plan_cost(tl_nest_cost *out, const tl_nest_plan *plan)
{
    *out =
        (tl_nest_cost){plan->schedule->row, plan->schedule->reduced_points, plan->phases[0].tasks,
                       (int64_t)plan->walk.scratch_bytes, plan->phase_count};
}

/* --- running ---------------------------------------------------------------------------------- */

typedef struct job {
    tl_nest_fn *fn;
    void *const *buffers;
    void *scratch;
    int phase;
} job;

static tl_status run_tasks(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    j->fn(j->buffers, j->scratch, j->phase, begin, end);
    return TL_OK;
}

tl_status tl_nest_run(const tl_nest_plan *plan, tl_nest_fn *compiled, void *const *buffers,
                      void *scratch, tl_pool *pool)
{
    TL_ASSERT(!plan->walk.scratch_bytes
              || (scratch && (uintptr_t)scratch % TL_NEST_ALIGNMENT == 0));
    if (!compiled) return tl_nest_interpret(plan, buffers, scratch, pool);
    for (int i = 0; i < plan->phase_count; i++) {
        job j = {compiled, buffers, scratch, i};
        TL_TRY(tl_parallel_for(pool, plan->phases[i].tasks, 1, run_tasks, &j));
    }
    return TL_OK;
}
