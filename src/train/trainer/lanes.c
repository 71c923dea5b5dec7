#include "train/trainer/lanes.h"

#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>
#include <tilth/sys/core/device.h>

#include "core/inner/element.h"
#include "core/inner/storage.h"

/* --- making ----------------------------------------------------------------------------------- */

static void end_free(tli_lane_end *e)
{
    tl_function_free(&e->program);
    tl_free(e);
}

static void drop_programs(tli_lanes *l)
{
    for (int64_t i = 0; i < l->ends.count; i++) end_free(l->ends.items[i]);
    TL_VEC_FREE(&l->ends);
}

static void drop_sums(tli_lanes *l)
{
    drop_programs(l);
    tli_exchange_drop(l);
    for (int64_t i = 0; i < l->sums.count; i++) {
        for (int k = 0; k < TL_LANE_BLOCKS; k++) tl_tensor_free(&l->sums.items[i].stack[k]);
        tli_lanes_drop_own(l, &l->sums.items[i]);
    }
    TL_VEC_FREE(&l->sums);
}

void tli_lanes_deinit(tli_lanes *l)
{
    drop_sums(l);
    tl_function_free(&l->begin);
    tl_function_free(&l->clip);
    tl_function_free(&l->settle);
    tl_tensor_free(&l->told);
    tli_lanes_drop_own(l, &l->fresh);
    for (int64_t i = 1; l->beside && i < l->run.count; i++) tl_ctx_free(&l->beside[i]);
    tl_free(l->beside);
    tl_strands_free(&l->strands);
    *l = (tli_lanes){0};
}

bool tli_lanes_several(const tli_lanes *l)
{
    return l->of.lanes > 1;
}

bool tli_lanes_on_host(const tli_lanes *l)
{
    return tl_engine_device(l->engine)->cls->host;
}

static tl_status begin_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const tli_lanes *l = self;
    (void)in;
    (void)out;
    tli_guard_keep_for_lanes(l->guard, c);
    if (l->told) tl_assign(c, l->told, tl_zeros(c, TL_F64, l->told->shape));
    return tl_ctx_status(c);
}

/* The same, without a program. */
static void begin_here(const tli_lanes *l)
{
    tli_guard_keep_here(l->guard);
    if (l->told) memset(tli_data(l->told), 0, tl_tensor_bytes(l->told));
}

static tl_status clip_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)in;
    (void)out;
    tl_optimizer_clip_lane(((tli_lanes *)self)->optimizer, c);
    return tl_ctx_status(c);
}

static tl_status settle_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const tli_lanes *l = self;
    (void)in;
    (void)out;
    tli_guard_settle_lanes(l->guard, c, l->of.lanes, NULL);
    return tl_ctx_status(c);
}

static tl_status make_program(const tli_lanes *l, tl_function **out, const char *name,
                              tl_graph_fn *body, void *self)
{
    tl_function_args args = l->args;
    if (!args.engine) return TL_OK;
    args.name = name;
    args.body = body;
    args.self = self;
    return tl_function_new(out, &args);
}

tl_status tli_lanes_init(tli_lanes *l, const tl_strategy *s, const tli_guard *guard,
                         tl_optimizer *optimizer, tl_engine *engine, const tl_function_args *args)
{
    tli_lanes_deinit(l);
    l->of = *tl_strategy_lanes(s);
    l->rank = tl_strategy_rank(s);
    l->run = tl_strategy_run(s);
    l->here = l->run.count - 1;
    l->peers = tli_strategy_peers(s);
    l->guard = guard;
    l->optimizer = optimizer;
    l->engine = engine;
    l->adds_once = true;
    l->sums_of_optimizer = -1;
    if (args) l->args = *args;
    if (!tli_lanes_several(l)) return TL_OK;
    if (!tli_lanes_on_host(l)) TL_TRY(make_program(l, &l->begin, "begin_lanes", begin_body, l));
    if (!optimizer) return make_program(l, &l->settle, "settle_lanes", settle_body, l);
    TL_TRY(tl_optimizer_set_lanes(optimizer, l->of.lanes));
    l->fresh = (tli_lane_sum){.live = tl_optimizer_fresh(optimizer)};
    TL_TRY(tl_strands_new(&l->strands, &(tl_strands_args){.of = l->of,
                                                          .rank = l->rank,
                                                          .group = l->peers ? l->peers->all : NULL,
                                                          .turn = tli_lanes_turn,
                                                          .self = l}));
    TL_TRY(tl_tensor_new(&l->told, engine, TL_F64, TL_SHAPE(TLI_MOST_TOLD)));
    TL_TRY(tl_tensor_clear(l->told));
    return make_program(l, &l->clip, "clip_lane", clip_body, l);
}

void tli_lanes_reset(tli_lanes *l)
{
    drop_programs(l);
    if (l->begin) tl_function_reset(l->begin);
    if (l->clip) tl_function_reset(l->clip);
}

void tli_lanes_forget(tli_lanes *l)
{
    l->height = 0;
    l->stayed = false;
    tli_exchange_forget(l);
}

void tli_lanes_accept(const tli_lanes *l)
{
    if (l->told) tli_storage_accept(l->told->storage);
    for (int64_t i = 0; i < l->sums.count; i++)
        for (int k = 0; k < TL_LANE_BLOCKS; k++)
            if (l->sums.items[i].stack[k]) tli_storage_accept(l->sums.items[i].stack[k]->storage);
}

/* --- what is added up ------------------------------------------------------------------------- */

static tl_status add_sum(tli_lanes *l, tl_tensor *live, tl_tensor *start, bool once)
{
    tli_lane_sum sum = {.live = live, .start = start, .once = once};
    sum.here = tli_lanes_on_host(l) && !start && tli_lane_sum_is_small(&sum);
    return TL_VEC_PUSH(&l->sums, sum) ? TL_OK : TL_ENOMEM;
}

static int64_t count_sums(const tl_optimizer *o)
{
    int64_t count = 0;
    while (o && tl_optimizer_sum(o, count)) count++;
    return count;
}

/* The optimizer makes its sums when a step adds to them for the first time. */
tl_status tli_lanes_collect(tli_lanes *l)
{
    const int64_t count = count_sums(l->optimizer);
    if (count == l->sums_of_optimizer) return TL_OK;
    drop_sums(l);
    for (int64_t i = 0; i < l->guard->count; i++) {
        const tli_guarded *g = &l->guard->items[i];
        TL_TRY(add_sum(l, g->live, g->moves ? g->kept : NULL, false));
    }
    if (l->told) TL_TRY(add_sum(l, l->told, NULL, false));
    const int64_t gradients = l->optimizer ? tl_optimizer_gradient_sums(l->optimizer) : 0;
    for (int64_t i = 0; i < count; i++)
        TL_TRY(add_sum(l, tl_optimizer_sum(l->optimizer, i), NULL, i < gradients));
    l->sums_of_optimizer = count;
    return TL_OK;
}

static tl_status make_place(const tli_lanes *l, tli_lane_sum *s, int64_t at)
{
    if (s->stack[at]) return TL_OK;
    return tl_tensor_new(&s->stack[at], l->engine, s->live->dtype, s->live->shape);
}

/* --- behind a lane ---------------------------------------------------------------------------- */

/* What the next lane adds first is its sum. */
static bool begins_next(const tli_lane_end *e)
{
    return e->push && !e->stays && e->lanes->optimizer;
}

static tl_tensor *brought(tl_ctx *c, const tli_lane_sum *s)
{
    return s->start ? tl_sub(c, s->live, s->start) : s->live;
}

static void begin_again(tl_ctx *c, const tli_lane_sum *s)
{
    tl_assign(c, s->live, s->start ? s->start : tl_zeros(c, s->live->dtype, s->live->shape));
}

/* Large sums are not copied where the memory of two tensors can be exchanged. */
static bool can_exchange(const tli_lane_sum *s, int64_t at)
{
    return tli_storage_can_exchange(s->live->storage, s->stack[at]->storage);
}

static void exchange(const tli_lane_end *e)
{
    const tli_lanes *l = e->lanes;
    const int64_t at = e->height - e->merges;
    if (!e->push || e->stays) return;
    for (int64_t i = 0; i < l->sums.count; i++) {
        const tli_lane_sum *s = &l->sums.items[i];
        if (s->once && can_exchange(s, at))
            tli_storage_exchange(s->live->storage, s->stack[at]->storage);
    }
}

/* Of the stack, how much of it is there for this sum, and how often the upper two are added. False:
 * nothing is done now. */
static bool is_ended(const tli_lane_end *e, const tli_lane_sum *s, int64_t *top, int64_t *merges)
{
    const int64_t done = s->once && e->stayed; // the two are one sum already
    *top = e->height - done;
    *merges = e->merges - done;
    return !(s->once && e->stays) && !(e->apart && tli_lane_sum_is_apart(e->lanes, s));
}

static tl_status end_sum(const tli_lane_end *e, tli_lane_sum *s, tl_ctx *c)
{
    int64_t top, merges;
    if (s->here || !is_ended(e, s, &top, &merges)) return TL_OK;
    // A sum of two has the same bits whichever comes first: nothing is copied.
    for (; merges > 0 && !s->start; merges--) tl_assign_add(c, s->live, s->stack[--top]);
    tl_tensor *sum = brought(c, s);
    for (; merges > 0; merges--) sum = tl_add(c, s->stack[--top], sum);
    if (e->push) TL_TRY(make_place(e->lanes, s, top));
    if (e->push && !(s->once && can_exchange(s, top))) {
        tl_assign(c, s->stack[top], sum);
        if (!s->once) begin_again(c, s); // else the optimizer begins
    } else if (sum != s->live) {
        tl_assign(c, s->live, sum);
    }
    return tl_ctx_status(c);
}

static tl_status end_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const tli_lane_end *e = self;
    (void)in;
    (void)out;
    for (int64_t i = 0; i < e->lanes->sums.count; i++)
        TL_TRY(end_sum(e, &e->lanes->sums.items[i], c));
    if (begins_next(e) && !tli_lanes_on_host(e->lanes))
        tl_optimizer_begin_lane(e->lanes->optimizer, c);
    return tl_ctx_status(c);
}

/* On the way of every lane: nothing is asked of a sum that is left as it is. */
static tl_status end_sum_here(const tli_lane_end *e, tli_lane_sum *s)
{
    int64_t top, merges;
    if (!s->here || !is_ended(e, s, &top, &merges) || (!merges && !e->push)) return TL_OK;
    char *live = tli_data(s->live);
    if (merges > 0) tli_storage_touch(s->live->storage);
    for (; merges > 0; merges--)
        TL_TRY(tl_lanes_add(s->live->dtype, live, live, tli_data(s->stack[--top]),
                            tl_tensor_count(s->live)));
    if (!e->push) return TL_OK;
    TL_TRY(make_place(e->lanes, s, top));
    const size_t bytes = tl_tensor_bytes(s->live);
    if (!bytes || (s->once && can_exchange(s, top))) return TL_OK;
    memcpy(tli_data(s->stack[top]), live, bytes);
    if (s->once) return TL_OK; // the optimizer begins
    tli_storage_touch(s->live->storage);
    memset(live, 0, bytes);
    return TL_OK;
}

static tl_status end_here(const tli_lane_end *e)
{
    const tli_lanes *l = e->lanes;
    if (!tli_lanes_on_host(l)) return TL_OK;
    for (int64_t i = 0; i < l->sums.count; i++) TL_TRY(end_sum_here(e, &l->sums.items[i]));
    return begins_next(e) ? tl_tensor_set_doubles(l->fresh.live, &(double){1}, 1) : TL_OK;
}

static bool has_program(const tli_lanes *l)
{
    for (int64_t i = 0; i < l->sums.count; i++)
        if (!l->sums.items[i].here) return true;
    return !tli_lanes_on_host(l);
}

static bool is_same(const tli_lane_end *a, const tli_lane_end *b)
{
    return a->height == b->height && a->merges == b->merges && a->push == b->push
           && a->stays == b->stays && a->stayed == b->stayed && a->apart == b->apart;
}

/* There are a few for each doubling of the lanes. */
static tl_status find_end(tli_lanes *l, tli_lane_end **out, const tli_lane_end *wanted)
{
    for (int64_t i = 0; i < l->ends.count; i++)
        if (is_same(*out = l->ends.items[i], wanted)) return TL_OK;
    tli_lane_end *e = *out = tl_alloc(sizeof *e);
    if (!e) return TL_FAIL_NOMEM(sizeof *e);
    *e = *wanted;
    e->here = !has_program(l);
    tl_status st = make_program(l, &e->program, "end_lane", end_body, e);
    if (st == TL_OK && TL_VEC_PUSH(&l->ends, e)) return TL_OK;
    end_free(e);
    *out = NULL;
    return st == TL_OK ? TL_ENOMEM : st;
}

static tl_status run(tl_function *f, tl_graph_fn *body, void *self, tl_ctx *c)
{
    tl_tensors in = {0}, out = {0};
    tl_mark mark = tl_ctx_begin(c);
    tl_status st = f ? tl_function_call(f, c, &in, &out) : body(self, c, &in, &out);
    tl_ctx_end(c, mark);
    return st;
}

tl_status tli_lanes_begin(tli_lanes *l, tl_ctx *c)
{
    tli_lanes_forget(l);
    if (!tli_lanes_on_host(l)) return run(l->begin, begin_body, l, c);
    begin_here(l);
    return TL_OK;
}

tl_status tli_lanes_end_lane(tli_lanes *l, tl_ctx *c, int64_t lane, int64_t batches, bool beside)
{
    const bool clips = l->optimizer && tl_optimizer_clips_lanes(l->optimizer);
    if (!tli_lanes_several(l)) return TL_OK;
    TL_TRY(tli_lanes_collect(l));
    if (clips) TL_TRY(run(l->clip, clip_body, l, c));
    tli_lane_end wanted = {.lanes = l,
                           .height = l->height,
                           .merges = tl_lanes_merges(&l->of, l->rank, lane),
                           .push = lane + 1 < l->run.first + l->run.count,
                           .stayed = l->stayed},
                 *e;
    // The sum of two lanes is what the second adds to the first, unless the parts of each have to
    // be added among themselves first.
    wanted.stays = wanted.push && !wanted.merges && batches == 1 && l->adds_once && !clips
                   && !beside && tl_lanes_merges(&l->of, l->rank, lane + 1) > 0;
    wanted.apart = !wanted.push && l->peers;
    if (wanted.apart) tli_exchange_note_last(l, lane);
    TL_TRY(find_end(l, &e, &wanted));
    if (!e->here) TL_TRY(run(e->program, end_body, e, c));
    TL_TRY(end_here(e));
    exchange(e);
    l->height += wanted.push - wanted.merges;
    l->stayed = wanted.stays;
    return TL_OK;
}

tl_status tli_lanes_each(tli_lanes *l, tl_ctx *c, tli_lane_fn *batch, void *self, bool *more)
{
    bool any = false;
    if (!tli_lanes_several(l)) return batch(self, 0, more);
    tli_lanes_tell_step(l, 0, "an evaluation");
    TL_TRY(tli_lanes_begin(l, c));
    for (int64_t lane = l->run.first; lane < l->run.first + l->run.count; lane++) {
        if (*more) TL_TRY(batch(self, lane, more));
        any |= *more;
        TL_TRY(tli_lanes_end_lane(l, c, lane, 1, false));
    }
    TL_TRY(tli_lanes_join(l));
    *more = any;
    return run(l->settle, settle_body, l, c);
}

/* --- numbers that steps tell ------------------------------------------------------------------ */

static bool is_number(const tl_tensor *t)
{
    return t->shape.rank == 0 && tl_dtype_is_float(t->dtype);
}

void tli_lanes_tell(tli_lanes *l, tl_ctx *c, const tl_tensors *told)
{
    tl_tensor *numbers[TLI_MOST_TOLD];
    int64_t places[TLI_MOST_TOLD];
    int count = 0;
    for (int64_t i = 0; i < told->count && count < TLI_MOST_TOLD; i++) {
        if (!is_number(told->items[i].tensor)) continue;
        places[count] = count;
        numbers[count++] = tl_cast(c, told->items[i].tensor, TL_F64);
    }
    if (count) tl_assign_add(c, l->told, tl_pack(c, count, numbers, places, TLI_MOST_TOLD));
}

void tli_lanes_tell_here(tli_lanes *l, const tl_tensors *told)
{
    double *sums = tli_data(l->told);
    for (int64_t i = 0, count = 0; i < told->count && count < TLI_MOST_TOLD; i++) {
        const tl_tensor *t = told->items[i].tensor;
        if (is_number(t)) sums[count++] += tli_element_get(t->dtype, tli_data(t), 0);
    }
}

void tli_lanes_means(tli_lanes *l, tl_ctx *c, const tl_tensors *told, int64_t batches,
                     tl_tensors *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < told->count && count < TLI_MOST_TOLD; i++) {
        const tl_tensor *t = told->items[i].tensor;
        if (!is_number(t)) continue;
        tl_tensor *sum = tl_take(c, l->told, 0, count++);
        tl_tensor *mean = tl_div(c, sum, tl_number(c, TL_F64, (double)batches));
        mean = tl_cast(c, mean, t->dtype);
        if (mean) tl_tensors_put(c, out, told->items[i].name, mean);
    }
}

void tli_lanes_put_means(tl_tensors *told, const tl_tensors *means)
{
    for (int64_t i = 0, k = 0; i < told->count && k < means->count; i++)
        if (is_number(told->items[i].tensor)) told->items[i].tensor = means->items[k++].tensor;
}
