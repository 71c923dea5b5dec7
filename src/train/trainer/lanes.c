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
    TL_VEC_FREE(&e->acts);
    tl_free(e);
}

static void drop_programs(tli_lanes *l)
{
    for (int64_t i = 0; i < l->ends.count; i++) end_free(l->ends.items[i]);
    TL_VEC_FREE(&l->ends);
    for (int64_t i = 0; l->last && i < l->run.count; i++) l->last[i] = NULL;
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
    tl_free(l->last);
    tl_function_free(&l->begin);
    tl_function_free(&l->clip);
    tl_function_free(&l->settle);
    tl_tensor_free(&l->told);
    for (int i = 0; i < TLI_MOST_TOLD; i++) tl_tensor_free(&l->means[i]);
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
    l->last = tl_alloc_zero((size_t)l->run.count * sizeof *l->last);
    if (!l->last) return TL_FAIL_NOMEM((size_t)l->run.count * sizeof *l->last);
    if (!tli_lanes_on_host(l)) TL_TRY(make_program(l, &l->begin, "begin_lanes", begin_body, l));
    if (!optimizer) return make_program(l, &l->settle, "settle_lanes", settle_body, l);
    TL_TRY(tl_optimizer_set_lanes(optimizer, l->of.lanes));
    l->clips = tl_optimizer_clips_lanes(optimizer);
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

static tl_status add_sum(tli_lanes *l, tli_lane_sum sum)
{
    sum.here = tli_lanes_on_host(l) && !sum.start && tli_lane_sum_is_small(&sum);
    return TL_VEC_PUSH(&l->sums, sum) ? TL_OK : TL_ENOMEM;
}

/* The optimizer makes its sums when a step adds to them for the first time. */
tl_status tli_lanes_collect(tli_lanes *l)
{
    const int64_t count = l->optimizer ? tl_optimizer_sum_count(l->optimizer) : 0;
    if (count == l->sums_of_optimizer) return TL_OK;
    drop_sums(l);
    for (int64_t i = 0; i < l->guard->count; i++) {
        const tli_guarded *g = &l->guard->items[i];
        TL_TRY(add_sum(l, (tli_lane_sum){.live = g->live, .start = g->moves ? g->kept : NULL}));
    }
    if (l->told) TL_TRY(add_sum(l, (tli_lane_sum){.live = l->told, .once = true}));
    const int64_t gradients = l->optimizer ? tl_optimizer_gradient_sums(l->optimizer) : 0;
    for (int64_t i = 0; i < count; i++)
        TL_TRY(add_sum(l, (tli_lane_sum){.live = tl_optimizer_sum(l->optimizer, i),
                                         .once = i <= gradients, // weights, too
                                         .begins = i < gradients}));
    l->weights = count ? tl_optimizer_sum(l->optimizer, gradients) : NULL;
    l->sums_of_optimizer = count;
    return TL_OK;
}

static tl_status make_place(const tli_lanes *l, tli_lane_sum *s, int64_t at)
{
    if (s->stack[at]) return TL_OK;
    TL_TRY(tl_tensor_new(&s->stack[at], l->engine, s->live->dtype, s->live->shape));
    return s->live == l->told ? tl_tensor_clear(s->stack[at]) : TL_OK; // some are never told
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
    if (e->push && !(s->begins && can_exchange(s, top))) {
        tl_assign(c, s->stack[top], sum);
        if (!s->begins) begin_again(c, s);
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

/* --- at once ---------------------------------------------------------------------------------- */

/* On the way of every lane, so all that can be known before is. */
static tl_status plan_act(tli_lane_end *e, tli_lane_sum *s)
{
    int64_t top, merges;
    if (!is_ended(e, s, &top, &merges)) return TL_OK;
    tli_lane_act a = {.sum = s,
                      .count = s->live == e->lanes->told ? e->lanes->told_count
                                                         : tl_tensor_count(s->live),
                      .place = top - merges};
    a.bytes = (size_t)a.count * tl_dtype_size(s->live->dtype);
    if (e->push) TL_TRY(make_place(e->lanes, s, a.place));
    a.exchanges = e->push && s->begins && can_exchange(s, a.place);
    a.merges = s->here ? merges : 0;
    a.copies = s->here && e->push && !a.exchanges && a.bytes;
    a.clears = a.copies && !s->begins;
    if (!a.merges && !a.copies && !a.exchanges) return TL_OK;
    return TL_VEC_PUSH(&e->acts, a) ? TL_OK : TL_ENOMEM;
}

static tl_status plan_acts(tli_lane_end *e)
{
    const tli_lanes *l = e->lanes;
    for (int64_t i = 0; i < l->sums.count && tli_lanes_on_host(l); i++)
        TL_TRY(plan_act(e, &l->sums.items[i]));
    return TL_OK;
}

static tl_status act(const tli_lane_act *a)
{
    tl_tensor *live = a->sum->live, *const *stack = a->sum->stack;
    char *data = tli_data(live);
    for (int64_t i = a->merges; i-- > 0;)
        TL_TRY(tl_lanes_add(live->dtype, data, data, tli_data(stack[a->place + i]), a->count));
    if (a->copies) memcpy(tli_data(stack[a->place]), data, a->bytes);
    if (a->clears) memset(data, 0, a->bytes);
    if (a->exchanges) tli_storage_exchange(live->storage, stack[a->place]->storage);
    else if (a->merges || a->clears) tli_storage_touch(live->storage);
    return TL_OK;
}

static void set_here(const tl_tensor *flag, bool value)
{
    bool *data = tli_data(flag);
    if (*data == value) return;
    *data = value;
    tli_storage_touch(flag->storage);
}

static tl_status end_here(const tli_lane_end *e)
{
    const tl_tensor *fresh = e->lanes->fresh.live;
    for (int64_t i = 0; i < e->acts.count; i++) TL_TRY(act(&e->acts.items[i]));
    if (begins_next(e) && tli_lanes_on_host(e->lanes)) set_here(fresh, true);
    return TL_OK;
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
           && a->may_stay == b->may_stay && a->stays == b->stays && a->stayed == b->stayed
           && a->apart == b->apart;
}

/* There are a few for each doubling of the lanes. */
static tl_status find_same(tli_lanes *l, tli_lane_end **out, const tli_lane_end *wanted)
{
    for (int64_t i = 0; i < l->ends.count; i++)
        if (is_same(*out = l->ends.items[i], wanted)) return TL_OK;
    tli_lane_end *e = *out = tl_alloc(sizeof *e);
    if (!e) return TL_FAIL_NOMEM(sizeof *e);
    *e = *wanted;
    e->here = !has_program(l);
    tl_status st = plan_acts(e);
    if (st == TL_OK) st = make_program(l, &e->program, "end_lane", end_body, e);
    if (st == TL_OK && TL_VEC_PUSH(&l->ends, e)) return TL_OK;
    end_free(e);
    *out = NULL;
    return st == TL_OK ? TL_ENOMEM : st;
}

/* As in the step before, unless something has changed. */
static tl_status find_end(tli_lanes *l, tli_lane_end **out, int64_t lane, bool may_stay)
{
    tli_lane_end **last = &l->last[lane - l->run.first], *e = *out = *last;
    if (e && e->height == l->height && e->stayed == l->stayed && e->may_stay == may_stay)
        return TL_OK;
    tli_lane_end wanted = {.lanes = l,
                           .height = l->height,
                           .merges = tl_lanes_merges(&l->of, l->rank, lane),
                           .push = lane + 1 < l->run.first + l->run.count,
                           .may_stay = may_stay,
                           .stayed = l->stayed};
    // The sum of two lanes is what the second adds to the first, unless the parts of each have to
    // be added among themselves first.
    wanted.stays =
        wanted.push && !wanted.merges && may_stay && tl_lanes_merges(&l->of, l->rank, lane + 1) > 0;
    wanted.apart = !wanted.push && l->peers;
    TL_TRY(find_same(l, out, &wanted));
    *last = *out;
    return TL_OK;
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
    tli_lane_end *e;
    if (!tli_lanes_several(l)) return TL_OK;
    TL_TRY(tli_lanes_collect(l));
    if (l->clips) TL_TRY(run(l->clip, clip_body, l, c));
    TL_TRY(find_end(l, &e, lane, batches == 1 && l->adds_once && !l->clips && !beside));
    if (e->apart) tli_exchange_note_last(l, lane);
    if (!e->here) TL_TRY(run(e->program, end_body, e, c));
    TL_TRY(end_here(e));
    l->height += e->push - e->merges;
    l->stayed = e->stays;
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
    TL_TRY(run(l->settle, settle_body, l, c));
    return tli_guard_settle_here(l->guard, true);
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

void tli_lanes_begin_batch_here(tli_lanes *l)
{
    if (l->weights) l->weights_before = tli_storage_version(l->weights->storage);
}

void tli_lanes_end_batch_here(tli_lanes *l, const tl_tensors *told)
{
    double *sums = tli_data(l->told);
    const tl_tensor *w = l->weights;
    // What was added to need not begin any more.
    if (!w || tli_storage_version(w->storage) != l->weights_before) set_here(l->fresh.live, false);
    int64_t count = 0;
    for (int64_t i = 0; i < told->count && count < TLI_MOST_TOLD; i++) {
        const tl_tensor *t = told->items[i].tensor;
        if (is_number(t)) sums[count++] += tli_element_get(t->dtype, tli_data(t), 0);
    }
    if (count <= l->told_count) return;
    l->told_count = count;
    drop_programs(l); // which know it
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

/* What the step before has told is not looked at any more. */
tl_status tli_lanes_make_means(tli_lanes *l, const tl_tensors *told)
{
    for (int64_t i = 0, k = 0; i < told->count && k < TLI_MOST_TOLD; i++) {
        const tl_tensor *t = told->items[i].tensor;
        if (!is_number(t)) continue;
        tl_tensor **mean = &l->means[k++];
        if (*mean && (*mean)->dtype != t->dtype) tl_tensor_free(mean);
        if (!*mean) TL_TRY(tl_tensor_new(mean, l->engine, t->dtype, TL_SCALAR));
    }
    return TL_OK;
}

void tli_lanes_put_means_here(tli_lanes *l, tl_tensors *told, int64_t batches)
{
    const double *sums = tli_data(l->told);
    for (int64_t i = 0, k = 0; i < told->count && k < TLI_MOST_TOLD; i++) {
        if (!is_number(told->items[i].tensor)) continue;
        tl_tensor *mean = told->items[i].tensor = l->means[k];
        tli_element_set(mean->dtype, tli_data(mean), 0, sums[k++] / (double)batches);
        tli_storage_touch(mean->storage);
    }
}

void tli_lanes_put_means(tl_tensors *told, const tl_tensors *means)
{
    for (int64_t i = 0, k = 0; i < told->count && k < means->count; i++)
        if (is_number(told->items[i].tensor)) told->items[i].tensor = means->items[k++].tensor;
}
