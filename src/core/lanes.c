#include <tilth/core/lanes.h>

#include <inttypes.h>
#include <string.h>

#include "core/inner/half.h"

tl_status tl_lanes_check(const tl_lanes *l)
{
    if (l->lanes < 1 || l->lanes > TL_LANES_MAX)
        return TL_FAIL(TL_EINVAL, "lanes: expected 1 to %d, found %" PRId64, TL_LANES_MAX,
                       l->lanes);
    if (l->ranks < 1) return TL_FAIL(TL_EINVAL, "%" PRId64 " processes carry nothing", l->ranks);
    if (l->ranks > l->lanes)
        return TL_FAIL(TL_EINVAL,
                       "%" PRId64 " processes are too many for %" PRId64
                       " lanes, which need not have one each; start %" PRId64
                       " at most, or begin a run with more lanes (tilth.lanes)",
                       l->ranks, l->lanes, l->lanes);
    return TL_OK;
}

tl_lane_run tl_lanes_of(const tl_lanes *l, int64_t rank)
{
    TL_ASSERT(rank >= 0 && rank < l->ranks && l->ranks <= l->lanes);
    int64_t each = l->lanes / l->ranks, longer = l->lanes % l->ranks;
    bool is_longer = rank < longer;
    return (tl_lane_run){rank * each + (is_longer ? rank : longer), each + is_longer};
}

/* Absent lanes belong to who has the last one, as far as its blocks reach. */
static int64_t end_of(const tl_lanes *l, tl_lane_run run)
{
    int64_t end = run.first + run.count;
    return end < l->lanes ? end : 2 * (int64_t)TL_LANES_MAX;
}

/* The order of the largest block that begins at `first`, lies in front of `end`, and has nothing
 * but absent lanes in halves that could be left away. */
static int order_at(const tl_lanes *l, int64_t first, int64_t end)
{
    int order = 0;
    while (first % (INT64_C(2) << order) == 0 && first + (INT64_C(2) << order) <= end
           && first + (INT64_C(1) << order) < l->lanes)
        order++;
    return order;
}

int64_t tl_lanes_blocks(const tl_lanes *l, int64_t rank, tl_lane_block out[TL_LANE_BLOCKS])
{
    tl_lane_run run = tl_lanes_of(l, rank);
    int64_t count = 0;
    for (int64_t at = run.first; at < run.first + run.count;) {
        int order = order_at(l, at, end_of(l, run));
        TL_ASSERT(count < TL_LANE_BLOCKS);
        out[count++] = (tl_lane_block){at, order};
        at += INT64_C(1) << order;
    }
    return count;
}

/* The sums on the stack behind a lane: blocks of the run as if it ended there. */
static int64_t height(const tl_lanes *l, tl_lane_run run, int64_t end)
{
    int64_t count = 0;
    int64_t reach = end == l->lanes ? end_of(l, run) : end;
    for (int64_t at = run.first; at < end; count++) at += INT64_C(1) << order_at(l, at, reach);
    return count;
}

int64_t tl_lanes_merges(const tl_lanes *l, int64_t rank, int64_t lane)
{
    tl_lane_run run = tl_lanes_of(l, rank);
    TL_ASSERT(lane >= run.first && lane < run.first + run.count);
    return height(l, run, lane) + 1 - height(l, run, lane + 1);
}

int64_t tl_lanes_joins(const tl_lanes *l, tl_lane_block block)
{
    const tl_lane_run all = {0, l->lanes};
    int64_t end = block.first + (INT64_C(1) << block.order);
    return height(l, all, block.first) + 1 - height(l, all, end < l->lanes ? end : l->lanes);
}

/* --- a node of the tree ----------------------------------------------------------------------- */

/* A node is computed over pieces that fit into a cache, in place or not; the compiler cannot see
 * which, and would not use vectors where it cannot. Whole numbers have no sign here, so that
 * running over is defined. */
#define SAME(x) (x)
#define ADD_AS(type, from, round)                                                                  \
    do {                                                                                           \
        const type *left = a, *right = b;                                                          \
        type *to = out;                                                                            \
        if (out == a)                                                                              \
            for (int64_t i = 0; i < count; i++) to[i] = (type)round(from(to[i]) + from(right[i])); \
        else if (out == b)                                                                         \
            for (int64_t i = 0; i < count; i++) to[i] = (type)round(from(left[i]) + from(to[i]));  \
        else                                                                                       \
            for (int64_t i = 0; i < count; i++)                                                    \
                to[i] = (type)round(from(left[i]) + from(right[i]));                               \
    } while (0)
#define ADD(type) ADD_AS(type, SAME, SAME)
#define ADD_HALVES(from, round) ADD_AS(uint16_t, from, round)

tl_status tl_lanes_add(tl_dtype dtype, void *out, const void *a, const void *b, int64_t count)
{
    switch (dtype) {
    case TL_F32: ADD(float); break;
    case TL_F64: ADD(double); break;
    case TL_BF16: ADD_HALVES(tli_from_bf16, tli_to_bf16); break;
    case TL_F16: ADD_HALVES(tli_from_f16, tli_to_f16); break;
    case TL_I8:
    case TL_U8: ADD(uint8_t); break;
    case TL_I16: ADD(uint16_t); break;
    case TL_I32: ADD(uint32_t); break;
    case TL_I64: ADD(uint64_t); break;
    default: return TL_FAIL(TL_EINVAL, "%s cannot be added up", tl_dtype_name(dtype));
    }
    return TL_OK;
}
