/* What the processes of a run have in common: weights and slots that each moves a part of. */
#include <tilth/base/integer.h>
#include <tilth/core/comm.h>
#include <tilth/sys/core/device.h>

#include "core/inner/storage.h"
#include "nn/optimizer.h"

/* Elements of a piece. What is no longer is moved by all. */
enum { PIECE = 16384 };

/* --- who has what ----------------------------------------------------------------------------- */

static bool by_element(const tl_optimizer *o)
{
    return TL_CLASS_METHOD(tl_optimizer_class, o->cls, update)->by_element;
}

/* The element of a block at which the part of a rank begins. */
static int64_t begin_of(const tli_part *p, int32_t rank, int32_t size, bool pieces)
{
    const int64_t count = tl_tensor_count(p->base.block->values);
    const int64_t even = count / size * rank;
    if (rank == size) return count;
    if (pieces) return tl_min_i64(tl_div_up(count, PIECE) * rank / size * PIECE, count);
    for (int64_t i = 0; i < p->base.offsets.count; i++)
        if (p->base.offsets.items[i] >= even) return p->base.offsets.items[i];
    return count;
}

/* --- a part ----------------------------------------------------------------------------------- */

void tli_share_deinit(tli_share *s)
{
    if (!s) return;
    tl_tensor_free(&s->block.values);
    tl_tensor_free(&s->average);
    tli_part_deinit(&s->part);
}

/* The parameters in it, which may begin before it and end behind it. */
static tl_status take_params(tli_share *s, const tl_optimizer *o, const tli_part *of)
{
    const tl_optimizer_block *whole = &of->base;
    const int64_t *at = whole->offsets.items, count = whole->offsets.count;
    int64_t first = 0, end;
    while (first + 1 < count && at[first + 1] <= s->from) first++;
    for (end = first + 1; end < count && at[end] < s->from + s->count;) end++;
    int64_t *offsets = tl_arena_array(o->arena, end - first, sizeof *offsets);
    if (!offsets) return TL_ENOMEM;
    for (int64_t i = first; i < end; i++) offsets[i - first] = tl_max_i64(at[i] - s->from, 0);
    s->block.params = whole->block->params + first;
    s->block.param_count = end - first;
    s->part.base = *whole;
    s->part.base.block = &s->block;
    s->part.base.offsets = (tl_ints){offsets, end - first};
    s->part.base.decayed = whole->decayed + first;
    s->part.base.adapted = whole->adapted + first;
    return TL_OK;
}

static tl_status take_slots(tli_share *s, const tli_part *of)
{
    for (int64_t i = 0; i < of->slots.count; i++) {
        tli_slot slot = of->slots.items[i];
        TL_TRY(
            tl_tensor_part(&slot.tensor, of->slots.items[i].tensor, s->from, TL_SHAPE(s->count)));
        if (TL_VEC_PUSH(&s->part.slots, slot)) continue;
        tl_tensor_free(&slot.tensor);
        return TL_ENOMEM;
    }
    return TL_OK;
}

static tl_status take_part(tl_optimizer *o, tli_part *p, const tl_tensor *average)
{
    const tl_comm_group *g = o->sharers;
    tli_share *s = tl_arena_array(o->arena, 1, sizeof *s);
    if (!s) return TL_ENOMEM;
    *s = (tli_share){.from = begin_of(p, g->rank, g->size, by_element(o)), .block = *p->base.block};
    s->block.values = NULL;
    s->count = begin_of(p, g->rank + 1, g->size, by_element(o)) - s->from;
    p->own = s;
    if (!s->count) return TL_OK;
    TL_TRY(tl_tensor_part(&s->block.values, p->base.block->values, s->from, TL_SHAPE(s->count)));
    if (average) TL_TRY(tl_tensor_part(&s->average, average, s->from, TL_SHAPE(s->count)));
    s->part.group = p->group;
    TL_TRY(take_params(s, o, p));
    return take_slots(s, p);
}

/* --- from outside ----------------------------------------------------------------------------- */

/* All have the same values: one brings them. */
static tl_status move(const tl_optimizer *o, tl_tensor *t)
{
    void *memory;
    TL_TRY(tl_comm_share(o->sharers->comm, &memory, t->storage->bytes));
    return tli_storage_move(t->storage, memory, o->sharers->rank == 0);
}

static tl_status share_block(tl_optimizer *o, int64_t index)
{
    tli_part *p = &o->parts[index];
    TL_TRY(move(o, p->base.block->values));
    if (o->average[index]) TL_TRY(move(o, o->average[index]));
    for (int64_t i = 0; i < p->slots.count; i++) TL_TRY(move(o, p->slots.items[i].tensor));
    return take_part(o, p, o->average[index]);
}

static tl_status check_block(const tl_optimizer *o, const tli_part *p)
{
    if (!tl_engine_device(o->engine)->cls->host)
        return TL_FAIL(TL_EUNSUPPORTED, "processes share what the host computes with, and this one "
                                        "computes on a device");
    if (!tli_storage_can_move(p->base.block->values->storage))
        return TL_FAIL(TL_EUNSUPPORTED, "the weights lie in memory that cannot be left: it is "
                                        "guarded, or shared already");
    for (int64_t i = 0; i < p->slots.count; i++)
        if (p->slots.items[i].param >= 0)
            return TL_FAIL(TL_EUNSUPPORTED,
                           "the optimizer '%s' keeps '%s' in another shape than its parameters "
                           "have, and that cannot be shared out yet",
                           o->cls->name, p->slots.items[i].name);
    return TL_OK;
}

static bool is_shared(const tli_part *p)
{
    return p->base.block && tl_tensor_count(p->base.block->values) > PIECE;
}

tl_status tl_optimizer_share(tl_optimizer *o, tl_comm_group *g)
{
    if (o->sharers) return TL_OK; // already
    for (int64_t i = 0; i < o->count; i++)
        if (is_shared(&o->parts[i])) TL_TRY(check_block(o, &o->parts[i]));
    o->sharers = g;
    for (int64_t i = 0; i < o->count; i++)
        if (is_shared(&o->parts[i])) TL_TRY(share_block(o, i));
    return tl_comm_barrier(g); // now all see what was brought
}

tl_status tl_optimizer_meet(tl_optimizer *o)
{
    if (!o->sharers) return TL_OK;
    TL_TRY(tl_comm_barrier(o->sharers));
    for (int64_t i = 0; i < o->count; i++)
        if (o->parts[i].own) tli_storage_touch(o->values[i]->storage); // others have written it
    return TL_OK;
}
