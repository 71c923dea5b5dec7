/* Sums over several machines, in two levels: within machines, between them, and within them again.
 * A machine's lanes are a block of the tree, so its sum is a node of it: bits stay. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "core/comm.h"

enum { LARGE = 65536 /* bytes from which on fewer of them are worth a third exchange */ };

/* Calls of a group must come in the same order on all its ranks, and others may begin between the
 * beginning of a sum and its end: each level has groups of its own. */
struct tli_comm_levels {
    int64_t lanes;          /* of all ranks */
    int64_t own_lanes;      /* of this machine */
    int32_t machines;       /* how many there are */
    tl_comm_group *within;  /* the ranks of this machine: brings pieces together */
    tl_comm_group *between; /* one rank of each machine: those that have the same piece */
    tl_comm_group *back;    /* as `within`: hands the sums on */
};
typedef struct tli_comm_levels levels;

/* --- whether ---------------------------------------------------------------------------------- */

/* How many machines there are, each with as many ranks, one behind the other; 0: it is not so. */
static int32_t count_machines(const tl_comm *c, const int32_t *machines)
{
    int32_t each = 1;
    while (each < c->size && machines[each] == machines[0]) each++;
    if (c->size % each) return 0;
    for (int32_t r = 0; r < c->size; r++) {
        if (machines[r] != machines[r / each * each]) return 0;
        for (int32_t before = 0; before < r / each * each; before += each)
            if (machines[before] == machines[r]) return 0; // it comes twice
    }
    return c->size / each;
}

static tl_lane_run lanes_of_machine(const tl_lanes *all, int32_t machine, int32_t each)
{
    const tl_lane_run first = tl_lanes_of(all, machine * each);
    const tl_lane_run last = tl_lanes_of(all, machine * each + each - 1);
    return (tl_lane_run){first.first, last.first + last.count - first.first};
}

/* What a rank brings within its machine must be what it brings to all. */
static bool brings_the_same(const tl_lanes *all, tl_lane_run own, int32_t rank, int32_t each)
{
    tl_lane_block here[TL_LANE_BLOCKS], there[TL_LANE_BLOCKS];
    const tl_lanes inside = {own.count, each};
    const int64_t count = tl_lanes_blocks(all, rank, there);
    if (tl_lanes_of(all, rank).count != tl_lanes_of(&inside, rank % each).count
        || count != tl_lanes_blocks(&inside, rank % each, here))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (here[i].first + own.first != there[i].first) return false;
    return true;
}

/* Whether the lanes of each machine are a block of 2^k, the last one as far as lanes go. */
static bool are_subtrees(const tl_lanes *all, int32_t machines)
{
    const int32_t each = (int32_t)all->ranks / machines;
    const int64_t block = lanes_of_machine(all, 0, each).count;
    if (block & (block - 1)) return false;
    for (int32_t m = 0; m < machines; m++) {
        const tl_lane_run own = lanes_of_machine(all, m, each);
        if (own.first != m * block || (own.count != block && m + 1 < machines)) return false;
        for (int32_t r = m * each; r < (m + 1) * each; r++)
            if (!brings_the_same(all, own, r, each)) return false;
    }
    return true;
}

/* --- groups ----------------------------------------------------------------------------------- */

/* Ranks first, first + step and so on; *out is kept where we are one of them. */
static tl_status split(tl_comm_group **out, tl_comm *c, int32_t first, int32_t step, int32_t count)
{
    tl_comm_group *g;
    int32_t *ranks = tl_alloc((size_t)count * sizeof *ranks);
    if (!ranks) return TL_FAIL_NOMEM((size_t)count * sizeof *ranks);
    for (int32_t i = 0; i < count; i++) ranks[i] = first + i * step;
    tl_status st = tl_comm_split(&g, c, ranks, count);
    if (st == TL_OK && g) *out = g;
    tl_free(ranks);
    return st;
}

static tl_status make_groups(levels *l, tl_comm *c)
{
    const int32_t each = c->size / l->machines;
    for (int32_t m = 0; m < l->machines; m++) {
        TL_TRY(split(&l->within, c, m * each, 1, each));
        TL_TRY(split(&l->back, c, m * each, 1, each));
    }
    for (int32_t i = 0; i < each; i++) TL_TRY(split(&l->between, c, i, each, l->machines));
    return TL_OK;
}

tl_status tl_comm_set_machines(tl_comm *comm, const int32_t *machines, int64_t lanes,
                               const char **why)
{
    const tl_lanes all = {lanes, comm->size};
    *why = NULL;
    TL_TRY(tl_lanes_check(&all));
    const int32_t count = count_machines(comm, machines);
    const int32_t each = count ? comm->size / count : 0;
    if (count == 1 || each == 1) return TL_OK; // a level has nothing to add
    if (!count) *why = "machines have different numbers of processes, or their ranks are mixed";
    else if (!are_subtrees(&all, count)) *why = "the lanes of a machine are no subtree of the sum";
    else if (comm->groups + 2 * count + each >= TL_COMM_GROUPS) // one is for sums under way
        *why = "there are too many machines for groups of their own";
    if (*why || comm->world->levels) return TL_OK;
    levels *l = tl_alloc_zero(sizeof *l);
    if (!l) return TL_FAIL_NOMEM(sizeof *l);
    *l = (levels){.lanes = lanes,
                  .own_lanes = lanes_of_machine(&all, comm->rank / each, each).count,
                  .machines = count};
    tl_status st = make_groups(l, comm);
    if (st == TL_OK) comm->world->levels = l;
    else tl_free(l);
    return st;
}

/* --- sums ------------------------------------------------------------------------------------- */

bool tli_comm_in_levels(const tl_comm_group *g, const tl_comm_call *call)
{
    return g->levels && call->kind == TL_COMM_ALL_REDUCE && call->sum.lanes == g->levels->lanes
           && (size_t)call->sum.count * tl_dtype_size(call->sum.dtype) >= LARGE;
}

/* The piece of a rank of the machine. */
static tl_part piece_of(const tl_comm_work *w, int32_t rank)
{
    const tl_comm_sum *s = &w->call.sum;
    const int32_t size = w->group->levels->within->size;
    const size_t bytes = tl_dtype_size(s->dtype);
    const int64_t from = tl_comm_cut(s->count, s->dtype, rank, size);
    const int64_t to =
        rank + 1 == size ? s->count : tl_comm_cut(s->count, s->dtype, rank + 1, size);
    return (tl_part){(char *)s->out + (size_t)from * bytes, (size_t)(to - from) * bytes};
}

tl_status tli_comm_levels_begin(tl_comm_work *w)
{
    const levels *l = w->group->levels;
    tl_comm_work *inner = tl_alloc_zero(sizeof *inner);
    tl_comm_call call = {.kind = TL_COMM_REDUCE_SCATTER, .sum = w->call.sum};
    if (!inner) return TL_FAIL_NOMEM(sizeof *inner);
    call.sum.lanes = l->own_lanes;
    call.sum.out = piece_of(w, l->within->rank).data;
    tl_status st = tl_comm_begin(inner, l->within, &call);
    w->sum = st == TL_OK ? inner : NULL;
    if (st != TL_OK) tl_free(inner);
    return st;
}

static tl_status hand_on(const tl_comm_work *w)
{
    tl_comm_group *g = w->group->levels->back;
    tl_part *parts = tl_alloc((size_t)g->size * sizeof *parts);
    if (!parts) return TL_FAIL_NOMEM((size_t)g->size * sizeof *parts);
    for (int32_t r = 0; r < g->size; r++) parts[r] = piece_of(w, r);
    tl_status st = tl_comm_all_gather(g, &parts[g->rank], parts);
    tl_free(parts);
    return st;
}

tl_status tli_comm_levels_end(tl_comm_work *w)
{
    const levels *l = w->group->levels;
    const tl_part own = piece_of(w, l->within->rank);
    const tl_dtype dtype = w->call.sum.dtype;
    tl_status st = tl_comm_wait(w->sum);
    tl_free(w->sum);
    w->sum = NULL;
    if (st == TL_OK)
        st = tl_comm_all_reduce(l->between,
                                &(tl_comm_sum){.dtype = dtype,
                                               .count = (int64_t)(own.bytes / tl_dtype_size(dtype)),
                                               .lanes = l->machines,
                                               .partials = (const void *const[]){own.data},
                                               .out = own.data});
    return st == TL_OK ? hand_on(w) : st;
}
