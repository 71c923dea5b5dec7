#include <tilth/train/trainer/memory.h>

#include "core/inner/resident.h"
#include "nn/inner/weights_apart.h"
#include "train/trainer/trainer.h"

/* --- sums of lanes that wait ------------------------------------------------------------------ */

/* How many places a process needs on the stack of sums, where its batches add once (`stays`), and
 * where they do not. */
static int64_t count_places(const tl_lanes *of, int64_t rank, bool stays)
{
    const tl_lane_run run = tl_lanes_of(of, rank);
    int64_t height = 0, most = 0;
    for (int64_t lane = run.first; lane + 1 < run.first + run.count; lane++) {
        const int64_t merges = tl_lanes_merges(of, rank, lane);
        const bool stay = stays && !merges && tl_lanes_merges(of, rank, lane + 1) > 0;
        if (!stay && most < height - merges + 1) most = height - merges + 1;
        height += 1 - merges;
    }
    return most;
}

static bool adds_once(const tl_trainer *t)
{
    const tli_lanes *l = &t->parts->lanes;
    return t->parts->accumulation == 1 && l->adds_once && !tl_optimizer_clips_lanes(t->optimizer);
}

static double places_bytes(const tl_trainer *t, const tl_lanes *of, int64_t rank)
{
    const tli_lanes *l = &t->parts->lanes;
    double bytes = 0;
    for (int64_t i = 0; i < l->sums.count; i++) {
        const tli_lane_sum *s = &l->sums.items[i];
        bytes +=
            (double)count_places(of, rank, s->once && adds_once(t))
            * (double)(of->ranks > 1 ? tl_tensor_bytes(s->live) : tli_tensor_resident(s->live));
    }
    return bytes;
}

/* --- what will be ----------------------------------------------------------------------------- */

void tl_trainer_plan_memory(const tl_trainer *t, const tl_optimizer_sharing *how,
                            tl_training_memory *out)
{
    const tli_lanes *l = &t->parts->lanes;
    const bool several = tli_lanes_several(l);
    const tl_optimizer_sharing alone = {.ranks = 1};
    const tl_optimizer_sharing whole = {.rank = how->rank, .ranks = how->ranks};
    tl_optimizer_memory now, then, undivided;
    *out = (tl_training_memory){.rest = tl_trainer_memory(t)};
    if (!t->optimizer) {
        out->total = out->in_step = out->rest;
        return;
    }
    tl_optimizer_plan_memory(t->optimizer, &alone, &now);
    tl_optimizer_plan_memory(t->optimizer, how, &then);
    tl_optimizer_plan_memory(t->optimizer, &whole, &undivided);
    out->rest -= now.weights + now.slots + now.sums;
    if (several) out->rest -= places_bytes(t, &(tl_lanes){l->of.lanes, 1}, 0);
    const double places =
        several ? places_bytes(t, &(tl_lanes){l->of.lanes, how->ranks}, how->rank) : 0;
    if (how->ranks > 1) out->rest += TLI_PEERS_ROOM;
    out->weights = then.weights;
    out->slots = then.slots;
    // Places lie in pages that go with what others have.
    out->sums = then.sums < undivided.sums ? then.sums : then.sums + places;
    out->total = out->weights + out->slots + out->sums + out->rest;
    out->in_step = out->total - out->sums + undivided.sums + places;
    out->in_step += tli_weights_brought(t->optimizer, how);
}

/* --- what is ---------------------------------------------------------------------------------- */

double tl_trainer_memory(const tl_trainer *t)
{
    const tli_lanes *l = &t->parts->lanes;
    const tli_peers *p = tli_strategy_peers(t->strategy);
    double bytes = (double)tli_engine_resident(t->engine);
    int64_t own, common;
    if (!p) return bytes;
    tl_comm_memory(p->all->comm, &own, &common);
    bytes += (double)own - (double)l->dropped + (double)common / p->size;
    if (t->optimizer) bytes += tl_optimizer_kept_apart(t->optimizer);
    return bytes;
}
