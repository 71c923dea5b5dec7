/* What the processes of a run have in common: weights and slots that each moves a part of. */
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/core/comm.h>
#include <tilth/ops/update.h>
#include <tilth/sys/core/device.h>

#include "base/inner/reserve.h"
#include "core/inner/resident.h"
#include "core/inner/storage.h"
#include "nn/optimizer.h"

enum { PIECE = TL_SQUARES }; /* elements. What is no longer is moved by all */

/* --- who has what ----------------------------------------------------------------------------- */

static bool by_element(const tl_optimizer *o)
{
    return TL_CLASS_METHOD(tl_optimizer_class, o->cls, update)->by_element;
}

static int64_t begin_of(const tl_optimizer *o, const tli_part *p, int32_t rank, int32_t size)
{
    const int64_t count = tl_tensor_count(p->base.block->values);
    const int64_t even = count / size * rank;
    if (rank == size) return count;
    if (by_element(o)) return tl_min_i64(tl_div_up(count, PIECE) * rank / size * PIECE, count);
    for (int64_t i = 0; i < p->base.offsets.count; i++)
        if (p->base.offsets.items[i] >= even) return p->base.offsets.items[i];
    return count;
}

int64_t tli_share_begin(const tl_optimizer *o, const tli_part *p, int32_t rank)
{
    return begin_of(o, p, rank, o->sharers->size);
}

/* Some elements. */
typedef struct range {
    int64_t from, end;
} range;

/* What a rank moves of a tensor that is laid out like the block (`param` -1), or is that of a
 * parameter. */
static range range_of(const tl_optimizer *o, const tli_part *p, int64_t param, const tl_tensor *t,
                      int32_t rank)
{
    const range own = {tli_share_begin(o, p, rank), tli_share_begin(o, p, rank + 1)};
    if (param < 0) return own;
    const int64_t at = p->base.offsets.items[param];
    return (range){0, at >= own.from && at < own.end ? tl_tensor_count(t) : 0};
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

/* `first` is the number of the first parameter in it. */
static tl_status take_slot(tli_share *s, const tli_slot *of, int64_t first)
{
    tli_slot slot = *of;
    if (of->param >= 0) {
        slot.param = of->param - first;
        if (slot.param < 0 || slot.param >= s->block.param_count) return TL_OK;
        TL_TRY(tl_tensor_keep(&slot.tensor, of->tensor));
    } else {
        TL_TRY(tl_tensor_part(&slot.tensor, of->tensor, s->from, TL_SHAPE(s->count)));
    }
    if (TL_VEC_PUSH(&s->part.slots, slot)) return TL_OK;
    tl_tensor_free(&slot.tensor);
    return TL_ENOMEM;
}

static tl_status take_part(tl_optimizer *o, tli_part *p, const tl_tensor *average)
{
    const range own = range_of(o, p, -1, NULL, o->sharers->rank);
    tli_share *s = tl_arena_array(o->arena, 1, sizeof *s);
    if (!s) return TL_ENOMEM;
    *s = (tli_share){.from = own.from, .count = own.end - own.from, .block = *p->base.block};
    s->block.values = NULL;
    p->own = s;
    if (!s->count) return TL_OK;
    TL_TRY(tl_tensor_part(&s->block.values, p->base.block->values, s->from, TL_SHAPE(s->count)));
    if (average) TL_TRY(tl_tensor_part(&s->average, average, s->from, TL_SHAPE(s->count)));
    s->part.group = p->group;
    TL_TRY(take_params(s, o, p));
    for (int64_t i = 0; i < p->slots.count; i++)
        TL_TRY(take_slot(s, &p->slots.items[i], s->block.params - p->base.block->params));
    return TL_OK;
}

/* --- where it lies ---------------------------------------------------------------------------- */

/* All have the same values: one brings them. */
static tl_status move(const tl_optimizer *o, tl_tensor *t)
{
    void *memory;
    TL_TRY(tl_comm_share(o->sharers->comm, &memory, t->storage->bytes));
    return tli_storage_move(t->storage, memory, o->sharers->rank == 0);
}

/* Who moves it has memory for it; the others have addresses, so that all can be brought there. */
static tl_status leave(tl_optimizer *o, tl_tensor *t, range own)
{
    const size_t size = tl_dtype_size(t->dtype);
    tli_reserved r = {.bytes = t->storage->bytes};
    if (r.bytes < TLI_SMALL_SLOT) return TL_OK;
    TL_TRY(tli_reserve(&r.memory, r.bytes));
    if (!TL_VEC_PUSH(&o->reserved, r)) {
        tli_reserve_free(r.memory, r.bytes);
        return TL_ENOMEM;
    }
    memcpy((char *)r.memory + (size_t)own.from * size,
           (const char *)t->storage->data + (size_t)own.from * size,
           (size_t)(own.end - own.from) * size);
    return tli_storage_move(t->storage, r.memory, false);
}

static tl_status place(tl_optimizer *o, const tli_part *p, int64_t param, tl_tensor *t)
{
    return o->apart ? leave(o, t, range_of(o, p, param, t, o->sharers->rank)) : move(o, t);
}

/* Where what is not needed can go: all weights are there until all have moved theirs. */
static tl_status show(const tl_optimizer *o, tl_tensor *t)
{
    void *memory = tl_comm_alloc(o->sharers->comm, t->storage->bytes);
    return memory ? tli_storage_move(t->storage, memory, true) : tl_error_code();
}

static tl_status share_block(tl_optimizer *o, int64_t index)
{
    tli_part *p = &o->parts[index];
    tl_tensor *values = p->base.block->values;
    if (!o->apart) TL_TRY(move(o, values));
    else if (o->weights.wanted && values->storage->bytes >= TLI_SMALL_SLOT) TL_TRY(show(o, values));
    if (o->average[index]) TL_TRY(place(o, p, -1, o->average[index]));
    for (int64_t i = 0; i < p->slots.count; i++)
        TL_TRY(place(o, p, p->slots.items[i].param, p->slots.items[i].tensor));
    return take_part(o, p, o->average[index]);
}

/* Behind the tensors that lie there. */
void tli_reserved_free(tl_optimizer *o)
{
    for (int64_t i = 0; i < o->reserved.count; i++)
        tli_reserve_free(o->reserved.items[i].memory, o->reserved.items[i].bytes);
    TL_VEC_FREE(&o->reserved);
}

/* --- bringing and dropping -------------------------------------------------------------------- */

/* Each rank's part of a tensor, to all or to the first rank. */
static tl_status bring(const tl_optimizer *o, const tli_part *p, int64_t param, tl_tensor *t,
                       bool to_all)
{
    tl_comm_group *g = o->sharers;
    const size_t size = tl_dtype_size(t->dtype);
    tl_part *all = tl_alloc_zero(2 * (size_t)g->size * sizeof *all), *send = all + g->size;
    tl_lease l;
    tl_status st = all ? tl_lease_write(&l, t) : TL_FAIL_NOMEM((size_t)g->size * sizeof *all);
    if (st != TL_OK) {
        tl_free(all);
        return st;
    }
    for (int32_t r = 0; r < g->size; r++) {
        const range of = range_of(o, p, param, t, r);
        const tl_part part = {(char *)l.data + (size_t)of.from * size,
                              (size_t)(of.end - of.from) * size};
        if (to_all || (g->rank == 0 && r != 0)) all[r] = part;
        else if (g->rank == r && r != 0) send[0] = part;
    }
    st = to_all ? tl_comm_all_gather(g, &all[g->rank], all) : tl_comm_all_to_all(g, send, all);
    if (st == TL_OK) st = tl_lease_end(&l);
    else tl_lease_drop(&l);
    tl_free(all);
    return st;
}

tl_status tl_optimizer_bring(tl_optimizer *o, bool slots)
{
    if (!o->apart) return TL_OK;
    for (int64_t i = 0; i < o->count; i++) {
        const tli_part *p = &o->parts[i];
        if (!p->own) continue;
        if (!o->whole && tli_weights_are_apart(o, i)) TL_TRY(bring(o, p, -1, o->values[i], true));
        if (o->average[i]) TL_TRY(bring(o, p, -1, o->average[i], true));
        for (int64_t k = 0; slots && k < p->slots.count; k++)
            TL_TRY(bring(o, p, p->slots.items[k].param, p->slots.items[k].tensor, false));
    }
    o->whole = true;
    return TL_OK;
}

static void drop(const tl_optimizer *o, const tli_part *p, int64_t param, const tl_tensor *t)
{
    const size_t size = tl_dtype_size(t->dtype);
    const range own = range_of(o, p, param, t, o->sharers->rank);
    if (t->storage->bytes < TLI_SMALL_SLOT) return;
    tli_reserve_drop(t->storage->data, 0, (size_t)own.from * size);
    tli_reserve_drop(t->storage->data, (size_t)own.end * size, t->storage->bytes);
}

static void drop_others(tl_optimizer *o)
{
    TL_ASSERT(!o->swapped);
    tli_weights_drop(o);
    for (int64_t i = 0; i < o->count; i++) {
        const tli_part *p = &o->parts[i];
        if (!p->own) continue;
        if (o->average[i]) drop(o, p, -1, o->average[i]);
        for (int64_t k = 0; k < p->slots.count; k++)
            drop(o, p, p->slots.items[k].param, p->slots.items[k].tensor);
    }
    o->whole = false;
}

/* --- from outside ----------------------------------------------------------------------------- */

static tl_status check_block(const tl_optimizer *o, const tli_part *p)
{
    if (!tl_engine_device(o->engine)->cls->host)
        return TL_FAIL(TL_EUNSUPPORTED, "processes share what the host computes with, and this one "
                                        "computes on a device");
    if (!tli_storage_can_move(p->base.block->values->storage))
        return TL_FAIL(TL_EUNSUPPORTED, "the weights lie in memory that cannot be left: it is "
                                        "guarded, or shared already");
    for (int64_t i = 0; i < p->slots.count; i++)
        if (p->slots.items[i].param >= 0 && by_element(o))
            return TL_FAIL(TL_EUNSUPPORTED,
                           "the optimizer '%s' keeps '%s' in another shape than its parameters "
                           "have, and moves elements alone: that cannot be shared out",
                           o->cls->name, p->slots.items[i].name);
    return TL_OK;
}

bool tli_is_shared(const tli_part *p)
{
    return p->base.block && tl_tensor_count(p->base.block->values) > PIECE;
}

tl_status tl_optimizer_share(tl_optimizer *o, tl_comm_group *g, int64_t level)
{
    if (o->sharers) return TL_OK; // already
    for (int64_t i = 0; i < o->count; i++)
        if (tli_is_shared(&o->parts[i])) TL_TRY(check_block(o, &o->parts[i]));
    o->sharers = g;
    o->apart = !tl_comm_shares(g->comm);
    o->whole = o->apart; // what is restored next is
    o->divided.wanted = level > 1;
    o->weights.wanted = level > 2 && o->apart;
    for (int64_t i = 0; i < o->count; i++)
        if (tli_is_shared(&o->parts[i])) TL_TRY(share_block(o, i));
    if (o->weights.wanted) TL_TRY(tli_weights_part(o));
    tl_engine_trim(o->engine); // where all of it was before
    return tl_comm_barrier(g); // now all see what was brought
}

bool tl_optimizer_is_shared(const tl_optimizer *o)
{
    return o->sharers != NULL;
}

bool tl_optimizer_is_apart(const tl_optimizer *o)
{
    return o->apart;
}

/* `t` is some of what `whole` holds, or all of it. */
static bool part_of(const tl_optimizer *o, const tli_part *p, int64_t param, const tl_tensor *whole,
                    const tl_tensor *t, int32_t rank, range *out)
{
    if (!whole || whole->storage != t->storage || whole->storage->bytes < TLI_SMALL_SLOT)
        return false;
    const range own = range_of(o, p, param, whole, rank);
    const int64_t at = t->offset - whole->offset, count = tl_tensor_count(t);
    out->from = tl_min_i64(tl_max_i64(own.from - at, 0), count);
    out->end = tl_max_i64(tl_min_i64(own.end - at, count), out->from);
    return true;
}

bool tl_optimizer_part(const tl_optimizer *o, const tl_tensor *t, int32_t rank, int64_t *from,
                       int64_t *end)
{
    range found = {0, 0};
    bool is_part = false;
    for (int64_t i = 0; o->apart && i < o->count && !is_part; i++) {
        const tli_part *p = &o->parts[i];
        if (!p->own) continue;
        is_part = part_of(o, p, -1, o->average[i], t, rank, &found);
        if (!is_part && tli_weights_are_apart(o, i))
            is_part = part_of(o, p, -1, o->values[i], t, rank, &found);
        for (int64_t k = 0; k < p->slots.count && !is_part; k++)
            is_part =
                part_of(o, p, p->slots.items[k].param, p->slots.items[k].tensor, t, rank, &found);
    }
    *from = found.from;
    *end = found.end;
    return is_part;
}

void tl_optimizer_restored(tl_optimizer *o)
{
    o->whole = o->apart;
}

tl_status tl_optimizer_meet(tl_optimizer *o)
{
    if (!o->sharers) return TL_OK;
    if (!o->apart) TL_TRY(tl_comm_barrier(o->sharers));
    for (int64_t i = 0; i < o->count; i++) {
        if (!o->parts[i].own) continue;
        if (o->apart && !tli_weights_are_apart(o, i))
            TL_TRY(bring(o, &o->parts[i], -1, o->values[i], true));
        else tli_storage_touch(o->values[i]->storage); // others have written it
    }
    if (o->whole) drop_others(o);
    return TL_OK;
}

/* --- what it will take ------------------------------------------------------------------------ */

/* Bytes of a tensor of the block that a process has. */
static double part_bytes(const tl_optimizer *o, const tli_part *p, int64_t param,
                         const tl_tensor *t, const tl_optimizer_sharing *how)
{
    const double bytes = (double)tl_tensor_bytes(t);
    const int64_t from = begin_of(o, p, how->rank, how->ranks);
    const int64_t end = begin_of(o, p, how->rank + 1, how->ranks);
    if (how->common) return bytes / how->ranks;
    if (bytes < TLI_SMALL_SLOT) return bytes;
    if (param < 0) return (double)(end - from) * (double)tl_dtype_size(t->dtype);
    const int64_t at = p->base.offsets.items[param];
    return at >= from && at < end ? bytes : 0;
}

static double slot_bytes(const tl_optimizer *o, int64_t index, const tl_optimizer_sharing *how,
                         bool shared)
{
    const tli_part *p = &o->parts[index];
    double sum = 0;
    for (int64_t k = 0; k < p->slots.count; k++) {
        const tli_slot *slot = &p->slots.items[k];
        sum += shared ? part_bytes(o, p, slot->param, slot->tensor, how)
                      : (double)tli_tensor_resident(slot->tensor);
    }
    if (o->average[index])
        sum += shared ? part_bytes(o, p, -1, o->average[index], how)
                      : (double)tli_tensor_resident(o->average[index]);
    return sum;
}

void tl_optimizer_plan_memory(const tl_optimizer *o, const tl_optimizer_sharing *how,
                              tl_optimizer_memory *out)
{
    const bool shares = how->ranks > 1 && how->level > 0;
    const bool divides = shares && how->level > 1 && tli_optimizer_can_divide(o);
    *out = (tl_optimizer_memory){0};
    for (int64_t i = 0; i < o->count; i++) {
        const tli_part *p = &o->parts[i];
        const bool shared = shares && tli_is_shared(p);
        out->weights += shared && (how->common || how->level > 2)
                            ? part_bytes(o, p, -1, o->values[i], how)
                            : (double)tli_tensor_resident(o->values[i]);
        out->slots += slot_bytes(o, i, how, shared);
        if (!p->sum) continue;
        // Large ones lie where peers reach them.
        if (shared && divides)
            out->sums += (double)(tli_sum_cut(begin_of(o, p, how->rank + 1, how->ranks),
                                              how->rank + 1 == how->ranks)
                                  - tli_sum_cut(begin_of(o, p, how->rank, how->ranks), false))
                         * (double)tl_dtype_size(p->sum->dtype);
        else
            out->sums += how->ranks > 1 ? (double)tl_tensor_bytes(p->sum)
                                        : (double)tli_tensor_resident(p->sum);
    }
}

double tl_optimizer_kept_apart(const tl_optimizer *o)
{
    double bytes = 0;
    if (!o->apart) return 0;
    const tl_optimizer_sharing how = {.rank = o->sharers->rank, .ranks = o->sharers->size};
    for (int64_t i = 0; i < o->count; i++) {
        const tli_part *p = &o->parts[i];
        if (!o->whole && tli_weights_are_apart(o, i)) // the others' are counted as all of them
            bytes -=
                (double)tl_tensor_bytes(o->values[i]) - part_bytes(o, p, -1, o->values[i], &how);
        for (int64_t k = 0; p->own && k <= p->slots.count; k++) {
            const tli_slot *slot = k < p->slots.count ? &p->slots.items[k] : NULL;
            const tl_tensor *t = slot ? slot->tensor : o->average[i];
            if (t && t->storage->bytes >= TLI_SMALL_SLOT) // less is with the engine
                bytes += part_bytes(o, p, slot ? slot->param : -1, t, &how);
        }
    }
    return bytes;
}
