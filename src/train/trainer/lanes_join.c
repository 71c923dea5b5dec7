/* Where the sums of several processes meet. */
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "core/inner/storage.h"
#include "train/trainer/lanes.h"

enum {
    LINE = 64,
    /* bytes from which on a sum is worth a call of its own: it goes where it lies */
    LARGE = 65536,
};

static bool is_small(const tli_lane_sum *s)
{
    return tl_tensor_bytes(s->live) < LARGE;
}

/* --- large sums ------------------------------------------------------------------------------- */

/* To where peers reach it without a copy. Programs that were captured with it find it there. */
static tl_status show(tl_tensor *t, const tli_peers *p)
{
    if (!t || !tli_storage_can_move(t->storage)) return TL_OK;
    void *memory = tl_comm_alloc(p->all->comm, t->storage->bytes);
    return memory ? tli_storage_move(t->storage, memory, true) : tl_error_code();
}

static tl_status show_large(const tli_lanes *l, const tli_lane_sum *s)
{
    TL_TRY(show(s->live, l->peers));
    for (int k = 0; k < TL_LANE_BLOCKS; k++) TL_TRY(show(s->stack[k], l->peers));
    return TL_OK;
}

/* How many elements travel at a time, in whole cache lines. */
static int64_t bucket_of(const tli_peers *p, int64_t count, size_t size)
{
    const int64_t line = LINE / (int64_t)size;
    double most = p->bucket_bytes / (double)size, pack = (double)tl_div_up(count, p->packs);
    const double wanted = most < pack ? most : pack;
    const int64_t some = wanted < (double)count ? (int64_t)wanted : count;
    return some < line ? line : tl_div_up(some, line) * line;
}

/* Some of a sum of which each process needs its part: pieces go to their owners. */
static tl_status add_parts(const tli_lanes *l, const tl_tensor *live, tl_comm_sum *sum,
                           int64_t from)
{
    const tl_comm_group *all = l->peers->all;
    int64_t *cuts = tl_alloc((size_t)(all->size + 1) * sizeof *cuts);
    if (!cuts) return TL_FAIL_NOMEM((size_t)(all->size + 1) * sizeof *cuts);
    for (int32_t r = 0; r <= all->size; r++) {
        const int64_t at = tl_optimizer_sum_cut(l->optimizer, live, r) - from;
        cuts[r] = at < 0 ? 0 : tl_min_i64(at, sum->count);
    }
    sum->cuts = cuts;
    sum->out = (char *)sum->out + (size_t)cuts[all->rank] * tl_dtype_size(sum->dtype);
    tl_status st = tl_comm_reduce_scatter(l->peers->all, sum);
    tl_free(cuts);
    return st;
}

/* All of a sum, one bucket after the other: each element is added as it would be alone. */
static tl_status add_up(const tli_lanes *l, const tl_tensor *live, const void *const *partials,
                        int64_t blocks, void *out)
{
    const int64_t count = tl_tensor_count(live);
    const size_t size = tl_dtype_size(live->dtype);
    const bool parts = l->optimizer && tl_optimizer_sum_cut(l->optimizer, live, 0) >= 0;
    // Who looks into the memory of others needs no room, and a bucket would be one owner's.
    const bool at_once = parts && tl_comm_shares(l->peers->all->comm);
    const int64_t bucket = at_once ? count : bucket_of(l->peers, count, size);
    const void *at[TL_LANE_BLOCKS];
    for (int64_t from = 0; from < count; from += bucket) {
        for (int64_t i = 0; i < blocks; i++)
            at[i] = (const char *)partials[i] + (size_t)from * size;
        tl_comm_sum sum = {.dtype = live->dtype,
                           .count = count - from < bucket ? count - from : bucket,
                           .lanes = l->of.lanes,
                           .partials = at,
                           .out = (char *)out + (size_t)from * size};
        TL_TRY(parts ? add_parts(l, live, &sum, from) : tl_comm_all_reduce(l->peers->all, &sum));
    }
    return TL_OK;
}

/* Where each process needs its part alone, the rest goes until the next step adds to it. */
static void drop_others(tli_lanes *l, const tli_lane_sum *s, const void *const *partials,
                        int64_t blocks)
{
    tl_comm *comm = l->peers->all->comm;
    const int64_t count = tl_tensor_count(s->live);
    const size_t size = tl_dtype_size(s->live->dtype);
    if (!l->optimizer || tl_optimizer_sum_cut(l->optimizer, s->live, 0) < 0) return;
    const size_t from = (size_t)tl_optimizer_sum_cut(l->optimizer, s->live, l->peers->rank) * size;
    const size_t end =
        (size_t)tl_optimizer_sum_cut(l->optimizer, s->live, l->peers->rank + 1) * size;
    for (int64_t i = 0; i < blocks; i++) {
        char *data = (char *)(uintptr_t)partials[i];
        const bool live = i + 1 == blocks;
        l->dropped += tl_comm_release(comm, data, live ? from : (size_t)count * size);
        if (live) l->dropped += tl_comm_release(comm, data + end, (size_t)count * size - end);
    }
}

/* Of a sum the blocks on its stack, and in `live` the last one: what tl_lanes_blocks lists for this
 * process. */
static tl_status join_large(tli_lanes *l, const tli_lane_sum *s)
{
    tl_lease leases[TL_LANE_BLOCKS];
    const void *partials[TL_LANE_BLOCKS];
    int64_t taken = 0;
    tl_status st = show_large(l, s);
    for (; st == TL_OK && taken < l->height; taken += st == TL_OK)
        st = tl_lease_read(&leases[taken], s->stack[taken]);
    if (st == TL_OK) st = tl_lease_write(&leases[taken], s->live);
    if (st == TL_OK) {
        for (int64_t i = 0; i <= taken; i++) partials[i] = leases[i].data;
        st = add_up(l, s->live, partials, taken + 1, leases[taken].data);
        if (st == TL_OK) drop_others(l, s, partials, taken + 1);
        if (st == TL_OK) st = tl_lease_end(&leases[taken]);
        else tl_lease_drop(&leases[taken]);
    }
    for (int64_t i = 0; i < taken; i++) tl_lease_drop(&leases[i]);
    return st;
}

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
        if (s->live->dtype == p->dtype && is_small(s)) p->bytes += tl_tensor_bytes(s->live);
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
        if (s->live->dtype != p->dtype || !is_small(s)) continue;
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
    for (int64_t i = 0; i < l->sums.count; i++)
        if (!is_small(&l->sums.items[i])) TL_TRY(join_large(l, &l->sums.items[i]));
    for (int dtype = 0; dtype < TL_DTYPE_COUNT; dtype++)
        TL_TRY(join_small(l, (tl_dtype)dtype)); // one call for each type that there is
    if (!l->joined && l->told) tl_engine_trim(tl_tensor_engine(l->told)); // sums have moved
    l->joined = true;
    return TL_OK;
}
