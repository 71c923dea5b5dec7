/* Where the sums of several processes meet. */
#include <string.h>

#include <tilth/base/clock.h>

#include "train/trainer/lanes.h"

enum { LINE = 64 };

/* --- small sums ------------------------------------------------------------------------------- */

/* Those of a type, one behind the other; in front of numbers in float64 are the wishes. */
typedef struct pack {
    const tli_lanes *lanes;
    tl_dtype dtype;
    size_t bytes, stride; /* of a block */
    char *room;
} pack;

static size_t head_of(const pack *p)
{
    return p->dtype == TL_F64 ? TLI_WISHES * sizeof(double) : 0;
}

static void measure(pack *p)
{
    p->bytes = head_of(p);
    for (int64_t i = 0; i < p->lanes->sums.count; i++) {
        const tli_lane_sum *s = &p->lanes->sums.items[i];
        if (s->live->dtype == p->dtype && tli_lane_sum_is_small(s))
            p->bytes += tl_tensor_bytes(s->live);
    }
    p->stride = (p->bytes + LINE - 1) / LINE * LINE;
}

/* Block `k` of all of them, or, with `back`, the sums from there. */
static tl_status move_block(const pack *p, int64_t k, bool back)
{
    char *at = p->room + (size_t)k * p->stride + head_of(p);
    for (int64_t i = 0; i < p->lanes->sums.count; i++) {
        const tli_lane_sum *s = &p->lanes->sums.items[i];
        const size_t bytes = tl_tensor_bytes(s->live);
        if (s->live->dtype != p->dtype || !tli_lane_sum_is_small(s)) continue;
        if (back) TL_TRY(tl_tensor_set(s->live, at, bytes));
        else TL_TRY(tl_tensor_get(k < p->lanes->height ? s->stack[k] : s->live, at, bytes));
        at += bytes;
    }
    return TL_OK;
}

static tl_status join_small(const tli_lanes *l, tl_dtype dtype)
{
    pack p = {.lanes = l, .dtype = dtype};
    const void *partials[TL_LANE_BLOCKS];
    measure(&p);
    if (!p.bytes) return TL_OK;
    p.room = tli_peers_room(l->peers, (size_t)(l->height + 1) * p.stride);
    if (!p.room) return tl_error_code();
    for (int64_t k = 0; k <= l->height; k++) {
        partials[k] = p.room + (size_t)k * p.stride;
        memset(p.room + (size_t)k * p.stride, 0, head_of(&p));
        TL_TRY(move_block(&p, k, false));
    }
    double *last = (double *)(void *)(p.room + (size_t)l->height * p.stride);
    if (dtype == TL_F64) tli_peers_wish(l->peers, last);
    TL_TRY(tl_comm_all_reduce(l->peers->all,
                              &(tl_comm_sum){.dtype = dtype,
                                             .count = (int64_t)(p.bytes / tl_dtype_size(dtype)),
                                             .lanes = l->of.lanes,
                                             .partials = partials,
                                             .out = last}));
    if (dtype == TL_F64) tli_peers_heed(l->peers, last);
    return move_block(&p, l->height, true);
}

void tli_lanes_tell_step(const tli_lanes *l, int64_t step, const char *what)
{
    tli_peers_tell(l->peers, l->joined ? TL_WORLD_COMPUTES : TL_WORLD_COMPILES, step, what);
}

tl_status tli_lanes_join(tli_lanes *l)
{
    TL_ASSERT(l->peers || (l->height == 0 && l->of.ranks == 1));
    if (!l->peers) return TL_OK;
    l->dropped = 0; // it was added to
    TL_TRY(tli_exchange_end(l));
    const int64_t begin_ns = tl_clock_ns();
    for (int dtype = 0; dtype < TL_DTYPE_COUNT; dtype++)
        TL_TRY(join_small(l, (tl_dtype)dtype)); // one call for each type that there is
    l->exchange.small_ns += tl_clock_ns() - begin_ns;
    l->exchange.steps++;
    if (!l->joined && l->told) tl_engine_trim(tl_tensor_engine(l->told)); // sums have moved
    l->joined = true;
    return TL_OK;
}
