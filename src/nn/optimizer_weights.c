/* Weights that lie apart, each part with the process that moves it: what a step reads of them is
 * brought where a call needs it, and dropped behind that (sys/graph/need.h). */
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/core/comm.h>
#include <tilth/sys/core/device.h>

#include "core/inner/storage.h"
#include "nn/inner/weights_apart.h"
#include "nn/optimizer.h"

enum {
    /* bytes that are brought at a time, at least: meeting takes as long as sending some of it */
    LEAST = 262144,
    MOST_PARTS = 32, /* of all weights, but for those of blocks that are not large */
    AT_A_TIME = 3,   /* parts that a run has: one, and those that it does not drop yet */
};

bool tli_weights_are_apart(const tl_optimizer *o, int64_t block)
{
    return o->weights.wanted && o->parts[block].own
           && o->values[block]->storage->bytes >= TLI_SMALL_SLOT;
}

/* --- bringing and dropping -------------------------------------------------------------------- */

static char *at(const tl_tensor *values, int64_t element)
{
    return (char *)tli_data(values) + (size_t)element * tl_dtype_size(values->dtype);
}

/* What a rank has of elements from .. end - 1. */
static tl_part part_of(const tl_optimizer *o, int64_t block, int64_t from, int64_t end,
                       int32_t rank)
{
    const tl_tensor *values = o->values[block];
    const int64_t first = tl_max_i64(from, tli_share_begin(o, &o->parts[block], rank));
    const int64_t last = tl_min_i64(end, tli_share_begin(o, &o->parts[block], rank + 1));
    if (first >= last) return (tl_part){NULL, 0};
    return (tl_part){at(values, first), (size_t)(last - first) * tl_dtype_size(values->dtype)};
}

static tl_status bring(void *self, int64_t part)
{
    tl_optimizer *o = self;
    const tl_early_part *p = &o->weights.parts.items[part];
    const int64_t block = o->weights.blocks.items[part];
    tl_comm_group *g = o->sharers;
    for (int32_t r = 0; r < g->size; r++)
        o->weights.ranks[r] = part_of(o, block, p->from, p->end, r);
    return tl_comm_all_gather(g, &o->weights.ranks[g->rank], o->weights.ranks);
}

static void drop(void *self, int64_t part)
{
    const tl_optimizer *o = self;
    const tl_early_part *p = &o->weights.parts.items[part];
    const tli_part *of = &o->parts[o->weights.blocks.items[part]];
    const int64_t first =
        tl_min_i64(tl_max_i64(tli_share_begin(o, of, o->sharers->rank), p->from), p->end);
    const int64_t last =
        tl_max_i64(tl_min_i64(tli_share_begin(o, of, o->sharers->rank + 1), p->end), first);
    const size_t size = tl_dtype_size(p->tensor->dtype);
    tl_comm *comm = o->sharers->comm;
    tl_comm_release(comm, at(p->tensor, p->from), (size_t)(first - p->from) * size);
    tl_comm_release(comm, at(p->tensor, last), (size_t)(p->end - last) * size);
}

/* --- parts ------------------------------------------------------------------------------------ */

static tl_status add_part(tl_optimizer *o, int64_t block, int64_t from, int64_t end)
{
    const tl_early_part part = {o->values[block], from, end};
    return TL_VEC_PUSH(&o->weights.parts, part) && TL_VEC_PUSH(&o->weights.blocks, block)
               ? TL_OK
               : TL_ENOMEM;
}

/* The end of the part of a block that begins there: it has whole parameters. */
static int64_t end_of(const tl_optimizer *o, int64_t block, int64_t from, int64_t least)
{
    const tl_ints begins = o->parts[block].base.offsets;
    const int64_t size = (int64_t)tl_dtype_size(o->values[block]->dtype);
    for (int64_t i = 1; i < begins.count; i++)
        if ((begins.items[i] - from) * size >= least) return begins.items[i];
    return tl_tensor_count(o->values[block]);
}

static int64_t least_bytes(int64_t all)
{
    return tl_max_i64(all / MOST_PARTS, LEAST);
}

tl_status tli_weights_part(tl_optimizer *o)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < o->count; i++)
        if (tli_weights_are_apart(o, i)) bytes += (int64_t)tl_tensor_bytes(o->values[i]);
    for (int64_t i = 0; i < o->count; i++) {
        const int64_t count = tli_weights_are_apart(o, i) ? tl_tensor_count(o->values[i]) : 0;
        for (int64_t from = 0, end; from < count; from = end) {
            end = end_of(o, i, from, least_bytes(bytes));
            TL_TRY(add_part(o, i, from, end));
        }
    }
    o->weights.ranks = tl_arena_array(o->arena, o->sharers->size, sizeof *o->weights.ranks);
    if (!o->weights.ranks) return TL_ENOMEM;
    o->weights.need = (tl_need){.parts = o->weights.parts.items,
                                .count = o->weights.parts.count,
                                .bring = bring,
                                .drop = drop,
                                .self = o};
    return TL_OK;
}

void tli_weights_free(tl_optimizer *o)
{
    TL_VEC_FREE(&o->weights.parts);
    TL_VEC_FREE(&o->weights.blocks);
}

/* --- from outside ----------------------------------------------------------------------------- */

const struct tl_need *tl_optimizer_need(const tl_optimizer *o)
{
    return o->weights.wanted && !o->whole && o->weights.need.count ? &o->weights.need : NULL;
}

tl_status tl_optimizer_hold_weights(tl_optimizer *o)
{
    for (int64_t i = 0; tl_optimizer_need(o) && i < o->weights.need.count; i++) TL_TRY(bring(o, i));
    return TL_OK;
}

void tl_optimizer_drop_weights(tl_optimizer *o)
{
    for (int64_t i = 0; tl_optimizer_need(o) && i < o->weights.need.count; i++) drop(o, i);
}

void tli_weights_drop(tl_optimizer *o)
{
    for (int64_t i = 0; i < o->weights.need.count; i++) drop(o, i);
}

/* --- what it will take ------------------------------------------------------------------------ */

double tli_weights_brought(const tl_optimizer *o, const tl_optimizer_sharing *how)
{
    int64_t bytes = 0, greatest = 0;
    if (how->common || how->ranks < 2 || how->level < 3) return 0;
    for (int64_t i = 0; i < o->count; i++)
        if (tli_is_shared(&o->parts[i])) bytes += (int64_t)tl_tensor_bytes(o->values[i]);
    for (int64_t i = 0; i < o->count; i++) {
        const int64_t size = (int64_t)tl_dtype_size(o->values[i]->dtype);
        const int64_t count = tli_is_shared(&o->parts[i]) ? tl_tensor_count(o->values[i]) : 0;
        for (int64_t from = 0, end; from < count; from = end) {
            end = end_of(o, i, from, least_bytes(bytes));
            greatest = tl_max_i64(greatest, (end - from) * size);
        }
    }
    const double others = (double)bytes * (how->ranks - 1) / how->ranks;
    return (double)(AT_A_TIME * greatest) < others ? (double)(AT_A_TIME * greatest) : others;
}
