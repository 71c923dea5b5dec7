/* Weights that lie apart (tl_optimizer_need): processes bring them together, as their steps read
 * them.
 *
 * Each batch is a round of all processes. Those that run the same program bring the same parts in
 * the same order, each before the calls that read it. Where one has no batch left, or one of
 * another size, all hold all weights for that round; and for a whole step where lanes meet in it,
 * or it is not captured. */
#include <tilth/base/alloc.h>
#include <tilth/sys/graph/need.h>

#include "train/trainer/trainer.h"

enum { NO_BATCH, IN_ROUNDS, AT_ONCE }; /* what a process says of its step */

/* The least and the greatest of what all say. */
static tl_status ask_all(const tli_peers *p, uint64_t own, uint64_t *least, uint64_t *most)
{
    uint64_t *all = tl_alloc((size_t)p->size * sizeof *all);
    tl_part *parts = tl_alloc((size_t)p->size * sizeof *parts);
    tl_status st = all && parts ? TL_OK : TL_FAIL_NOMEM((size_t)p->size * sizeof *parts);
    for (int32_t r = 0; st == TL_OK && r < p->size; r++) parts[r] = (tl_part){&all[r], sizeof *all};
    if (st == TL_OK) st = tl_comm_all_gather(p->all, &(tl_part){&own, sizeof own}, parts);
    *least = *most = own;
    for (int32_t r = 0; st == TL_OK && r < p->size; r++) {
        if (all[r] < *least) *least = all[r];
        if (all[r] > *most) *most = all[r];
    }
    tl_free(all);
    tl_free(parts);
    return st;
}

/* Batches of the process that has most of them. */
static int64_t most_batches(const tl_trainer *t)
{
    const tl_lanes *of = &t->parts->lanes.of;
    int64_t most = 0;
    for (int64_t r = 0; r < of->ranks; r++) {
        const int64_t lanes = tl_lanes_of(of, r).count;
        if (lanes > most) most = lanes;
    }
    return most * t->parts->accumulation;
}

tl_status tli_weights_begin(tl_trainer *t, bool at_once)
{
    tli_weights *w = &t->parts->weights;
    uint64_t least, most;
    *w = (tli_weights){0};
    if (!tl_optimizer_need(t->optimizer)) return TL_OK;
    const uint64_t own = !t->parts->in.count ? NO_BATCH : at_once ? AT_ONCE : IN_ROUNDS;
    TL_TRY(ask_all(t->parts->lanes.peers, own, &least, &most));
    if (most == IN_ROUNDS) w->rounds = most_batches(t);
    w->held = most == AT_ONCE;
    return w->held ? tl_optimizer_hold_weights(t->optimizer) : TL_OK;
}

/* A round; `order`: what this process would bring, 0: it has no batch. */
static tl_status begin_round(tl_trainer *t, uint64_t order, bool *same)
{
    uint64_t least, most;
    t->parts->weights.rounds--;
    TL_TRY(ask_all(t->parts->lanes.peers, order, &least, &most));
    *same = least == most;
    return *same ? TL_OK : tl_optimizer_hold_weights(t->optimizer);
}

tl_status tli_weights_take(tl_trainer *t, tl_ctx *c, const tl_tensors *in, tl_program **reads)
{
    tli_weights *w = &t->parts->weights;
    bool same;
    *reads = NULL;
    if (!w->rounds) return TL_OK;
    TL_TRY(tl_function_find(t->parts->train, c, in, reads));
    TL_TRY(tl_program_set_need(*reads, tl_optimizer_need(t->optimizer)));
    TL_TRY(begin_round(t, tl_program_need_order(*reads), &same));
    w->held = !same;
    return same ? TL_OK : tl_program_set_need(*reads, NULL);
}

void tli_weights_leave(tl_trainer *t, tl_program *reads)
{
    tli_weights *w = &t->parts->weights;
    if (!reads) return;
    (void)!tl_program_set_need(reads, NULL);
    if (w->held) tl_optimizer_drop_weights(t->optimizer);
    w->held = false;
}

tl_status tli_weights_pass(tl_trainer *t)
{
    bool same;
    if (!t->parts->weights.rounds) return TL_OK;
    TL_TRY(begin_round(t, 0, &same));
    if (!same) tl_optimizer_drop_weights(t->optimizer);
    return TL_OK;
}

tl_status tli_weights_end(tl_trainer *t)
{
    tli_weights *w = &t->parts->weights;
    while (w->rounds) TL_TRY(tli_weights_pass(t));
    if (w->held) tl_optimizer_drop_weights(t->optimizer);
    w->held = false;
    return TL_OK;
}
