/* Lanes side by side: memory of each for what a batch adds to. That of the last one is what is
 * there anyhow, so that sums end where they would. */
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/sys/core/backend.h>

#include "core/inner/storage.h"
#include "train/trainer/lanes.h"

static int64_t last_of(const tli_lanes *l)
{
    return l->run.count - 1;
}

void tli_lanes_drop_own(tli_lanes *l, tli_lane_sum *s)
{
    for (int64_t i = 0; s->own && i < last_of(l); i++) tl_tensor_free(&s->own[i]);
    tl_free(s->own);
    s->own = NULL;
}

static tl_status make_own(const tli_lanes *l, tli_lane_sum *s)
{
    const size_t bytes = (size_t)l->run.count * sizeof *s->own;
    if (s->own) return TL_OK;
    if (!(s->own = tl_alloc_zero(bytes))) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = 0; i < last_of(l); i++) {
        TL_TRY(tl_tensor_new(&s->own[i], s->live->storage->memory->engine, s->live->dtype,
                             s->live->shape));
        if (!tli_storage_can_exchange(s->live->storage, s->own[i]->storage))
            return TL_FAIL(TL_EUNSUPPORTED,
                           "lanes of one process can meet in the middle of a step where the host "
                           "computes; on this device start a process for each lane");
    }
    return TL_OK;
}

/* As a lane finds `live`: where it starts, or at 0. Sums that are begun by what is added first may
 * hold anything. */
static void begin_own(const tli_lanes *l, const tli_lane_sum *s)
{
    for (int64_t i = 0; i < last_of(l); i++) {
        void *data = tl_kernel_data(s->own[i]);
        const size_t bytes = tl_tensor_bytes(s->live);
        if (s == &l->fresh) memset(data, 1, bytes);
        else if (s->start) memcpy(data, tl_kernel_data(s->start), bytes);
        else if (!s->begins) memset(data, 0, bytes);
    }
}

static tl_status make_contexts(tli_lanes *l, tl_engine *engine)
{
    const size_t bytes = (size_t)l->run.count * sizeof *l->beside;
    if (!l->beside && !(l->beside = tl_alloc_zero(bytes))) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = 1; i < l->run.count; i++)
        if (!l->beside[i]) TL_TRY(tl_ctx_new(&l->beside[i], engine));
    return TL_OK;
}

tl_status tli_lanes_part(tli_lanes *l, tl_ctx *c)
{
    TL_TRY(tli_lanes_collect(l));
    TL_TRY(make_contexts(l, tl_ctx_engine(c)));
    for (int64_t i = -1; i < l->sums.count; i++) {
        tli_lane_sum *s = i < 0 ? &l->fresh : &l->sums.items[i];
        TL_TRY(make_own(l, s));
        begin_own(l, s);
    }
    TL_ASSERT(l->here == last_of(l));
    return TL_OK;
}

static void exchange(const tli_lanes *l, int64_t index)
{
    for (int64_t i = -1; index != last_of(l) && i < l->sums.count; i++) {
        const tli_lane_sum *s = i < 0 ? &l->fresh : &l->sums.items[i];
        tli_storage_exchange(s->live->storage, s->own[index]->storage);
    }
}

void tli_lanes_bring(tli_lanes *l, int64_t index)
{
    if (index == l->here) return;
    exchange(l, l->here); // back to where it is kept
    exchange(l, index);
    l->here = index;
}

tl_status tli_lanes_turn(void *lanes, int64_t lane)
{
    tli_lanes *l = lanes;
    if (tl_optimizer_sum_count(l->optimizer) != l->sums_of_optimizer)
        return TL_FAIL(TL_ESTATE, "lanes of one step train different parts of the model, and meet "
                                  "in its middle: give all of them the same kind of batch");
    tli_lanes_bring(l, lane - l->run.first);
    return TL_OK;
}
