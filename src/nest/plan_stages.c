/* What is computed in which stage of which section. */
#include <inttypes.h>
#include <string.h>
#include <tilth/core/attrs.h>
#include <tilth/base/integer.h>

#include "nest/inner/schedule.h"

/* Row buffers stay in the nearer caches, a quarter of a second-level one of 256 KiB; beyond that
 * values are computed again. KEPT_COST is that of writing a value and reading it again, in
 * additions. From ONCE_POINTS points of a task on, what is the same at all of them is less than a
 * tenth of it when it is computed once. */
enum { KEPT_BYTES = 64 << 10, KEPT_COST = 4, ONCE_POINTS = 16 };

_Static_assert(KEPT_BYTES % TL_NEST_ALIGNMENT == 0, "buffers begin at lines of the cache");
static uint32_t row_bit(const tli_schedule *s)
{
    return UINT32_C(1) << (s->nest.rank - 1);
}

static uint32_t reduced_bits(const tli_schedule *s)
{
    TL_ASSERT(s->kept >= 0 && s->reduced >= 0 && s->kept + s->reduced < s->nest.rank);
    return ((UINT32_C(1) << s->reduced) - 1) << s->kept;
}

/* --- terms ------------------------------------------------------------------------------------ */

// As tl_nest_variance, for the axes of the plan.
static void variance(const tli_schedule *s, tli_term_info *infos)
{
    const tl_nest *n = &s->nest;
    for (int64_t i = 0; i < n->term_count; i++) {
        const tl_term *t = &n->terms[i];
        uint32_t varies = 0;
        for (int a = 0; a < n->rank && t->kind == TL_TERM_LOAD; a++)
            if (t->from.strides[a] != 0 && n->dims[a] != 1) varies |= UINT32_C(1) << a;
        if (t->kind == TL_TERM_INDEX && t->axis >= 0 && t->scale != 0)
            varies = UINT32_C(1) << t->axis;
        if (t->kind == TL_TERM_OP || t->kind == TL_TERM_REDUCE)
            for (int k = 0; k < t->inputs; k++) varies |= infos[t->in[k]].varies;
        if (t->kind == TL_TERM_REDUCE) varies &= ~t->axes;
        infos[i].varies = varies;
        infos[i].row = varies & row_bit(s);
        TL_ASSERT(varies >> n->rank == 0);
    }
}

/* Of numbers that the type can hold such numbers come out. */
static bool gives_what_it_got(const tli_schedule *s, const tl_term *t)
{
    const tl_op_class *c = tl_op_class_of(t->op);
    if (!(c->flags & TL_OP_CHOOSES)) return false;
    for (int k = c->by; k < t->inputs; k++)
        if (s->nest.terms[t->in[k]].dtype != t->dtype) return false;
    return tl_dtype_is_float(t->dtype);
}

static tl_status describe_term(tli_schedule *s, int64_t number)
{
    const tl_term *t = &s->nest.terms[number];
    tli_term_info *info = &s->terms[number];
    info->kind = info->in_kind = tli_kind_of(t->dtype);
    info->deferred = -1;
    if (t->kind == TL_TERM_NUMBER) info->number = tli_value_of(t->dtype, t->number);
    if (t->kind == TL_TERM_REDUCE) return TL_OK; // any and all: of truth values
    if (t->kind != TL_TERM_OP) return TL_OK;
    const tl_dtype in = s->nest.terms[t->in[tl_op_class_of(t->op)->by]].dtype;
    info->in_kind = tli_kind_of(in);
    info->exact = gives_what_it_got(s, t);
    TL_TRY_NOTE(tli_op_params(info->params, t->op, in, t->attr), "nest: t%" PRId64, number);
    return TL_OK;
}

// Which reductions wait for the second section, and which terms come after one of those.
static tl_status find_deferred(tli_schedule *s, tl_arena *arena, bool cut_rows)
{
    const uint32_t row = row_bit(s), outer = reduced_bits(s);
    s->reduction_count = 0;
    s->reductions = tl_arena_array(arena, s->nest.term_count, sizeof *s->reductions);
    if (!s->reductions) return TL_ENOMEM;
    for (int i = 0; i < s->nest.term_count; i++) {
        const tl_term *t = &s->nest.terms[i];
        tli_term_info *info = &s->terms[i];
        for (int k = 0; (t->kind == TL_TERM_OP || t->kind == TL_TERM_REDUCE) && k < t->inputs; k++)
            info->late |= s->terms[t->in[k]].late;
        if (t->kind != TL_TERM_REDUCE || !t->axes) continue;
        const uint32_t over = t->axes & outer;
        if (over && over != outer)
            return TL_FAIL(TL_EUNSUPPORTED,
                           "nest: t%d is reduced over other axes than another "
                           "reduction, and neither set contains the row alone",
                           i);
        if (!over && !cut_rows) continue;
        if (info->late)
            return TL_FAIL(TL_EUNSUPPORTED,
                           "nest: t%d is a reduction over outer axes of the result "
                           "of another one",
                           i);
        info->late = true;
        info->deferred = s->reduction_count;
        TL_ASSERT(s->reduction_count < s->nest.term_count && (over || cut_rows));
        s->reductions[s->reduction_count++] = (tli_reduction){
            .term = i, .in_row = t->axes & row, .wide = info->row, .kind = info->kind};
    }
    return TL_OK;
}

tl_status tli_schedule_can_cut(bool *out, const tli_schedule *s, tl_arena *arena)
{
    const tl_nest *n = &s->nest;
    bool any = false, possible = s->reduced == 0;
    tli_term_info *infos = tl_arena_array(arena, n->term_count, sizeof *infos);
    if (!infos) return TL_ENOMEM;
    variance(s, infos);
    for (int64_t i = 0; i < n->term_count; i++) {
        const tl_term *t = &n->terms[i];
        if (t->kind != TL_TERM_OP && t->kind != TL_TERM_REDUCE) continue;
        for (int k = 0; k < t->inputs; k++) infos[i].late |= infos[t->in[k]].late;
        if (infos[i].late && (infos[i].row || (t->kind == TL_TERM_REDUCE && t->axes)))
            possible = false;
        if (t->kind == TL_TERM_REDUCE && t->axes) any = infos[i].late = true;
    }
    *out = any && possible;
    return TL_OK;
}

/* --- sections --------------------------------------------------------------------------------- */

typedef struct work {
    tli_schedule *s;
    tli_section *section;
    bool last;      /* of the two sections: results of deferred reductions are given */
    bool may_once;  /* what is the same everywhere may be computed before all stages */
    bool *needed;   /* for each term */
    int *level;     /* the stage from which on a term can be had */
    bool *in_stage; /* for each term: computed or fetched in the stage at hand */
    bool *keep;     /* for each term: written to its row buffer in the stage of its level */
    bool *once;     /* for each term: written to it before all stages */
    bool *same;     /* for each term: at all points, as far as this can be known */
} work;

static bool is_source(const work *w, int term)
{
    const tl_term *t = &w->s->nest.terms[term];
    if (t->kind != TL_TERM_OP && t->kind != TL_TERM_REDUCE) return true;
    return w->s->terms[term].deferred >= 0;
}

static void list_add(tli_list *l, int number)
{
    // In the order of terms.
    TL_ASSERT(number >= 0 && (l->count == 0 || l->at[l->count - 1] < number));
    l->at[l->count++] = number;
}

static tl_status list_new(tli_list *l, tl_arena *arena, int64_t room)
{
    l->count = 0;
    l->at = tl_arena_array(arena, room, sizeof *l->at);
    return l->at ? TL_OK : TL_ENOMEM;
}

static tl_status stage_new(tli_stage *g, tl_arena *arena, const tl_nest *n)
{
    TL_TRY(list_new(&g->points, arena, n->term_count));
    TL_TRY(list_new(&g->point_sums, arena, n->term_count));
    TL_TRY(list_new(&g->point_stores, arena, n->store_count));
    TL_TRY(list_new(&g->rows, arena, n->term_count));
    TL_TRY(list_new(&g->kept, arena, n->term_count));
    TL_TRY(list_new(&g->fetched, arena, n->term_count));
    TL_TRY(list_new(&g->row_stores, arena, n->store_count));
    TL_TRY(list_new(&g->reduces, arena, n->term_count));
    return list_new(&g->row_sums, arena, n->term_count);
}

// Where a store is done: in `last` when it has to be, or when `main` would do it once for each
// reduced point, or once for each piece of the row.
static bool store_is_last(const tli_schedule *s, const tl_nest_store *store)
{
    const tli_term_info *info = &s->terms[store->term];
    if (info->late || s->reduction_count == 0) return info->late;
    return s->reduced ? !(info->varies & reduced_bits(s)) : !info->row;
}

static void mark_needed(work *w)
{
    const tl_nest *n = &w->s->nest;
    for (int64_t i = 0; i < n->store_count; i++)
        if (store_is_last(w->s, &n->stores[i]) == w->last) w->needed[n->stores[i].term] = true;
    for (int i = 0; !w->last && i < w->s->reduction_count; i++)
        w->needed[n->terms[w->s->reductions[i].term].in[0]] = true;
    for (int i = (int)n->term_count - 1; i >= 0; i--) {
        if (!w->needed[i] || is_source(w, i)) continue;
        for (int k = 0; k < n->terms[i].inputs; k++) w->needed[n->terms[i].in[k]] = true;
        TL_ASSERT(n->terms[i].in[0] < i);
    }
}

static tl_status find_levels(work *w)
{
    const tl_nest *n = &w->s->nest;
    int most = 0;
    for (int i = 0; i < n->term_count; i++) {
        const tl_term *t = &n->terms[i];
        if (!w->needed[i]) continue;
        if (w->last && w->s->terms[i].varies & reduced_bits(w->s))
            return TL_FAIL(TL_EUNSUPPORTED,
                           "nest: t%d varies over an axis that a reduction is over, "
                           "and is needed together with its result",
                           i);
        w->level[i] = 0;
        for (int k = 0; !is_source(w, i) && k < t->inputs; k++)
            if (w->level[t->in[k]] > w->level[i]) w->level[i] = w->level[t->in[k]];
        if (!is_source(w, i) && t->kind == TL_TERM_REDUCE && t->axes) {
            w->level[i]++;
            w->section->reduces = true;
        }
        if (w->level[i] > most) most = w->level[i];
        TL_ASSERT(w->level[i] >= 0 && w->level[i] < n->term_count + 1);
    }
    w->section->stage_count = most + 1;
    return TL_OK;
}

static bool loaded_here(const work *w, int buffer)
{
    for (int i = 0; i < w->s->nest.term_count; i++)
        if (w->needed[i] && w->s->nest.terms[i].kind == TL_TERM_LOAD
            && w->s->nest.terms[i].from.buffer == buffer)
            return true;
    return false;
}

// A buffer that is also loaded is stored to when nothing more is loaded from it.
static void place_stores(work *w)
{
    const tl_nest *n = &w->s->nest;
    tli_section *sec = w->section;
    for (int i = 0; i < n->store_count; i++) {
        const tl_nest_store *store = &n->stores[i];
        if (store_is_last(w->s, store) != w->last) continue;
        const bool late = loaded_here(w, store->to.buffer);
        TL_ASSERT(w->needed[store->term] && w->level[store->term] < sec->stage_count - 1);
        // The stage behind the last one walks no row; it was made for this.
        if (w->s->terms[store->term].row)
            list_add(&sec->stages[late ? sec->stage_count - 2 : w->level[store->term]].row_stores,
                     i);
        else
            list_add(&sec->stages[late ? sec->stage_count - 1 : w->level[store->term]].point_stores,
                     i);
    }
}

static void place_points_and_reductions(work *w)
{
    const tli_schedule *s = w->s;
    for (int i = 0; i < s->nest.term_count; i++) {
        const tl_term *t = &s->nest.terms[i];
        if (!w->needed[i] || s->terms[i].row) continue;
        const bool reduces = t->kind == TL_TERM_REDUCE && t->axes && !is_source(w, i);
        if (reduces) list_add(&w->section->stages[w->level[t->in[0]]].reduces, i);
        else list_add(&w->section->stages[w->level[i]].points, i);
    }
    for (int i = 0; !w->last && i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const int in = s->nest.terms[d->term].in[0];
        tli_stage *g = &w->section->stages[w->level[in]];
        TL_ASSERT(w->needed[in] && d->term > in);
        list_add(d->in_row || s->terms[in].row ? &g->row_sums : &g->point_sums, i);
    }
}

static double term_cost(const tli_schedule *s, int term)
{
    const tl_term *t = &s->nest.terms[term];
    switch (t->kind) {
    case TL_TERM_LOAD: return (double)tl_dtype_size(t->dtype) / 4;
    case TL_TERM_NUMBER: return 0;
    case TL_TERM_INDEX: return 1;
    default: return tli_nest_op_of(t->op)->cost;
    }
}

// What computing a term again would cost, from loads on.
static double cost_again(const work *w, int term, int depth)
{
    const tl_term *t = &w->s->nest.terms[term];
    if (is_source(w, term) || !w->s->terms[term].row) return 0;
    double cost = term_cost(w->s, term);
    for (int k = 0; k < t->inputs && depth < 8 && cost < KEPT_COST; k++)
        cost += cost_again(w, t->in[k], depth + 1);
    return cost;
}

// Row buffers of a section have no byte in common, and lie in what is set aside for them.
static bool buffers_are_apart(const work *w)
{
    const tli_section *sec = w->section;
    for (int i = 0; i < w->s->nest.term_count; i++) {
        const int64_t at = sec->buffer_at[i],
                      end = at + w->s->row * tli_kind_size(w->s->terms[i].kind);
        for (int k = 0; at >= 0 && k < i; k++) {
            const int64_t other = sec->buffer_at[k];
            if (other >= 0 && other < end
                && at < other + w->s->row * tli_kind_size(w->s->terms[k].kind))
                return false;
        }
        if (at >= 0 && end > sec->buffer_bytes) return false;
    }
    return true;
}

// Gives the term a row buffer, if it is costly enough and there is room.
static bool give_buffer(work *w, int term)
{
    tli_section *sec = w->section;
    const int64_t bytes = w->s->row * tli_kind_size(w->s->terms[term].kind);
    if (cost_again(w, term, 0) < KEPT_COST || bytes > KEPT_BYTES - sec->buffer_bytes) return false;
    sec->buffer_at[term] = sec->buffer_bytes;
    sec->buffer_bytes += tl_round_up(bytes, TL_NEST_ALIGNMENT);
    TL_ASSERT(bytes > 0 && sec->buffer_at[term] % TL_NEST_ALIGNMENT == 0 && buffers_are_apart(w));
    return true;
}

static bool worth_keeping(work *w, int term)
{
    if (is_source(w, term)) return false;
    if (!w->keep[term]) w->keep[term] = give_buffer(w, term);
    return w->keep[term];
}

// Which terms are made of loads along the row alone, of buffers that stay as they are.
static void find_same(work *w)
{
    const tl_nest *n = &w->s->nest;
    for (int i = 0; i < n->term_count; i++) {
        const tl_term *t = &n->terms[i];
        w->same[i] = w->needed[i] && w->level[i] == 0 && !(w->s->terms[i].varies & ~row_bit(w->s));
        for (int64_t k = 0; t->kind == TL_TERM_LOAD && k < n->store_count; k++)
            if (n->stores[k].to.buffer == t->from.buffer) w->same[i] = false;
        for (int k = 0; !is_source(w, i) && k < t->inputs; k++) w->same[i] &= w->same[t->in[k]];
    }
}

// Costly terms that are the same for all points of a task are computed at its start. Only the last
// ones of a chain: what they are made of is not wanted by itself.
static void place_once(work *w)
{
    const tli_schedule *s = w->s;
    const tl_nest *n = &s->nest;
    tli_stage *once = &w->section->once;
    if (!w->may_once || (double)s->kept_points * (double)s->reduced_points < ONCE_POINTS) return;
    find_same(w);
    for (int i = 0; i < n->term_count; i++) {
        if (!w->needed[i] || is_source(w, i) || !s->terms[i].row || !w->same[i]) continue;
        bool wanted = false; // by a term that is not the same everywhere
        for (int k = i + 1; k < n->term_count; k++)
            for (int j = 0; w->needed[k] && !is_source(w, k) && j < n->terms[k].inputs; j++)
                wanted |= n->terms[k].in[j] == i && !w->same[k];
        w->once[i] = wanted && give_buffer(w, i);
    }
    memset(w->in_stage, 0, (size_t)n->term_count * sizeof *w->in_stage);
    for (int i = (int)n->term_count - 1; i >= 0; i--) {
        w->in_stage[i] |= w->once[i];
        for (int k = 0; w->in_stage[i] && !is_source(w, i) && k < n->terms[i].inputs; k++)
            w->in_stage[n->terms[i].in[k]] = true;
    }
    for (int i = 0; i < n->term_count; i++) {
        if (w->in_stage[i]) list_add(s->terms[i].row ? &once->rows : &once->points, i);
        if (w->once[i]) list_add(&once->kept, i);
        TL_ASSERT(!w->once[i] || (w->in_stage[i] && w->section->buffer_at[i] >= 0));
    }
    once->walks = once->kept.count > 0;
}

// Marks a term that the stage needs, if it varies along the row.
static void want(const work *w, int term)
{
    if (w->s->terms[term].row) w->in_stage[term] = true;
}

// From the last stage to the first, so that a stage knows what later ones want it to keep.
static void place_rows(work *w)
{
    const tl_nest *n = &w->s->nest;
    for (int g = w->section->stage_count - 1; g >= 0; g--) {
        tli_stage *stage = &w->section->stages[g];
        memset(w->in_stage, 0, (size_t)n->term_count * sizeof *w->in_stage);
        for (int i = 0; i < stage->row_stores.count; i++)
            want(w, n->stores[stage->row_stores.at[i]].term);
        for (int i = 0; i < stage->reduces.count; i++)
            want(w, n->terms[stage->reduces.at[i]].in[0]);
        for (int i = 0; i < stage->row_sums.count; i++)
            want(w, n->terms[w->s->reductions[stage->row_sums.at[i]].term].in[0]);
        for (int i = (int)n->term_count - 1; i >= 0; i--) {
            if (w->keep[i] && w->level[i] == g) w->in_stage[i] = true;
            if (!w->in_stage[i] || w->once[i] || is_source(w, i)) continue;
            if (w->level[i] < g && worth_keeping(w, i)) continue;
            for (int k = 0; k < n->terms[i].inputs; k++) want(w, n->terms[i].in[k]);
        }
        for (int i = 0; i < n->term_count; i++) {
            if (!w->in_stage[i]) continue;
            const bool fetched = w->once[i] || (w->level[i] < g && w->keep[i]);
            // Made by now, or kept.
            TL_ASSERT(w->level[i] <= g && (!fetched || w->section->buffer_at[i] >= 0));
            list_add(fetched ? &stage->fetched : &stage->rows, i);
            if (!fetched && w->keep[i] && w->level[i] == g) list_add(&stage->kept, i);
            w->section->cost += fetched ? 1 : term_cost(w->s, i);
        }
        stage->walks =
            stage->rows.count + stage->fetched.count + stage->reduces.count + stage->row_sums.count
            > 0;
        w->section->cost += stage->reduces.count + stage->row_sums.count;
        for (int i = 0; i < stage->row_stores.count; i++)
            w->section->cost +=
                (double)tl_dtype_size(n->stores[stage->row_stores.at[i]].to.dtype) / 4;
    }
}

// Every store of the section is in one of its stages, every deferred reduction of `main` is fed
// once.
static bool all_is_placed(const work *w)
{
    int stores = 0, sums = 0;
    for (int g = 0; g < w->section->stage_count; g++) {
        const tli_stage *stage = &w->section->stages[g];
        stores += stage->point_stores.count + stage->row_stores.count;
        sums += stage->point_sums.count + stage->row_sums.count;
        if (stage->walks && stage->kept.count > stage->rows.count) return false;
    }
    for (int64_t i = 0; i < w->s->nest.store_count; i++)
        stores -= store_is_last(w->s, &w->s->nest.stores[i]) == w->last;
    return stores == 0 && sums == (w->last ? 0 : w->s->reduction_count);
}

static tl_status make_section(tli_schedule *s, tl_arena *arena, bool last, bool once)
{
    const int64_t terms = s->nest.term_count;
    tli_section *sec = last ? &s->last : &s->main;
    work w = {.s = s, .section = sec, .last = last, .may_once = once && !last};
    w.needed = tl_arena_array(arena, terms, sizeof *w.needed);
    w.level = tl_arena_array(arena, terms, sizeof *w.level);
    w.in_stage = tl_arena_array(arena, terms, sizeof *w.in_stage);
    w.keep = tl_arena_array(arena, terms, sizeof *w.keep);
    w.once = tl_arena_array(arena, terms, sizeof *w.once);
    w.same = tl_arena_array(arena, terms, sizeof *w.same);
    sec->buffer_at = tl_arena_array(arena, terms, sizeof *sec->buffer_at);
    if (!w.needed || !w.level || !w.in_stage || !w.keep || !w.once || !w.same || !sec->buffer_at)
        return TL_ENOMEM;
    TL_TRY(stage_new(&sec->once, arena, &s->nest));
    if (last) sec->buffer_bytes = s->main.buffer_bytes; // those of `once` are used until the end
    for (int64_t i = 0; i < terms; i++) sec->buffer_at[i] = -1;
    mark_needed(&w);
    TL_TRY(find_levels(&w));
    sec->stage_count++; // one more that walks no row, for place_stores
    sec->stages = tl_arena_array(arena, sec->stage_count, sizeof *sec->stages);
    if (!sec->stages) return TL_ENOMEM;
    for (int i = 0; i < sec->stage_count; i++) TL_TRY(stage_new(&sec->stages[i], arena, &s->nest));
    place_points_and_reductions(&w);
    place_stores(&w);
    place_once(&w);
    place_rows(&w);
    if (sec->stages[sec->stage_count - 1].point_stores.count == 0) sec->stage_count--;
    TL_ASSERT(sec->stage_count > 0 && sec->buffer_bytes % TL_NEST_ALIGNMENT == 0
              && all_is_placed(&w));
    return TL_OK;
}

/* --- stores ----------------------------------------------------------------------------------- */

static bool loaded_anywhere(const tl_nest *n, int buffer)
{
    for (int64_t i = 0; i < n->term_count; i++)
        if (n->terms[i].kind == TL_TERM_LOAD && n->terms[i].from.buffer == buffer) return true;
    return false;
}

// Axes of a section's points over which a store's term does not vary: one of these points stores.
static tl_status guard_stores(tli_schedule *s, tl_arena *arena)
{
    const tl_nest *n = &s->nest;
    s->guards = tl_arena_array(arena, n->store_count, sizeof *s->guards);
    if (!s->guards) return TL_ENOMEM;
    for (int64_t i = 0; i < n->store_count; i++) {
        const bool last = store_is_last(s, &n->stores[i]);
        for (int a = 0; a < s->kept + (last ? 0 : s->reduced); a++) {
            if (s->terms[n->stores[i].term].varies >> a & 1) continue;
            s->guards[i] |= UINT32_C(1) << a;
            // It would store elsewhere.
            TL_ASSERT(n->stores[i].to.strides[a] == 0 || n->dims[a] <= 1);
            if (n->dims[a] == 0)
                return TL_FAIL(TL_EUNSUPPORTED,
                               "nest: store %" PRId64 " is of a term that does not "
                               "vary over an axis without points",
                               i);
        }
        if (s->guards[i] && loaded_anywhere(n, n->stores[i].to.buffer))
            return TL_FAIL(TL_EUNSUPPORTED,
                           "nest: store %" PRId64 " changes buffer %d, which is "
                           "loaded again at other points",
                           i, n->stores[i].to.buffer);
        s->has_last |= last;
    }
    return TL_OK;
}

// What the first section stores the second one must not load, as it would have loaded the old
// values.
static tl_status check_order(const tli_schedule *s)
{
    const tl_nest *n = &s->nest;
    for (int64_t i = 0; i < n->store_count; i++) {
        if (store_is_last(s, &n->stores[i])) continue;
        for (int g = 0; s->has_last && g < s->last.stage_count; g++) {
            const tli_stage *stage = &s->last.stages[g];
            for (int k = 0; k < stage->rows.count + stage->points.count; k++) {
                const bool row = k < stage->rows.count;
                const int at = row ? stage->rows.at[k] : stage->points.at[k - stage->rows.count];
                if (n->terms[at].kind == TL_TERM_LOAD
                    && n->terms[at].from.buffer == n->stores[i].to.buffer)
                    return TL_FAIL(TL_EUNSUPPORTED,
                                   "nest: t%d is needed after a reduction, when "
                                   "buffer %d has been changed",
                                   at, n->stores[i].to.buffer);
            }
        }
    }
    return TL_OK;
}

tl_status tli_schedule_stages(tli_schedule *s, tl_arena *arena, bool cut_rows, bool once)
{
    s->has_last = false;
    s->main = s->last = (tli_section){0};
    s->terms = tl_arena_array(arena, s->nest.term_count, sizeof *s->terms);
    if (!s->terms) return TL_ENOMEM;
    variance(s, s->terms);
    for (int64_t i = 0; i < s->nest.term_count; i++) TL_TRY(describe_term(s, i));
    TL_TRY(find_deferred(s, arena, cut_rows));
    TL_TRY(guard_stores(s, arena));
    TL_TRY(make_section(s, arena, false, once));
    TL_TRY(make_section(s, arena, true, once));
    return check_order(s);
}
