/* Keeps what mixed precision computes with: copies of weights in half precision. Instead of casting
 * all weights in every run, casts read a copy that stays from run to run; updates of the weights
 * write it in the sweep that moves them. A copy whose weights were written by anybody else in the
 * meantime (their storage tells, core/inner/storage.h) is cast again before the run. */
#include <tilth/core/attrs.h>
#include <tilth/sys/ops/apply.h>

#include "core/inner/engine.h"
#include "core/inner/storage.h"
#include "core/inner/tensor.h"
#include "graph/graph.h"

/* On the host copies that take more are not kept: memory is what the largest models lack, and their
 * products take so long that casting beside them, in the forward pass and again in the backward
 * pass (recompute.c), is little. On devices it is not: products are over sooner. */
static const int64_t most_bytes = (int64_t)256 << 20;

/* Memory from outside, of which [begin, end) has a copy. */
typedef struct weights {
    tl_storage *storage;
    tl_dtype type;      /* of the copy */
    int64_t begin, end; /* elements of the storage */
    int64_t cast;       /* how many of them are cast */
    struct {
        tl_node **items;
        int64_t count, capacity;
    } casts; /* to that type */
    struct {
        tl_node **items;
        int64_t count, capacity;
    } updates; /* that write them */
} weights;

/* All that is cast to half precision, in the order of the first casts. */
typedef struct all_weights {
    weights *items;
    int64_t count, capacity;
    int32_t (*at)[2]; /* by the id of their memory and the type of the copy: number among the items,
                         plus one */
} all_weights;

static bool is_weight(const tl_tensor *t)
{
    return !t->node && t->storage && t->dtype == TL_F32 && t->contiguous;
}

static bool is_update(const tl_node *n)
{
    return n->op->flags & TL_OP_UPDATE;
}

// The call is the last that sees its memory before `end`, which may be NULL.
static bool is_read_before(const tl_graph *g, const tl_tensor *t, const tl_node *end)
{
    return !tli_is_output(g, t) && !tli_is_written(g, t)
           && (!end || !tli_is_read_after(g, t, end, true));
}

static void take_in(weights *w, const tl_tensor *t)
{
    if (t->offset < w->begin) w->begin = t->offset;
    if (t->offset + tl_tensor_count(t) > w->end) w->end = t->offset + tl_tensor_count(t);
    TL_ASSERT(w->begin >= 0 && w->begin <= w->end && t->storage == w->storage);
}

// Who writes them, and where; not `all` when it is somebody that cannot write a copy as well.
static tl_status find_writers(bool *all, const tl_graph *g, weights *w)
{
    *all = false;
    const tli_changes *changes = tli_changes_of(g, w->casts.items[0]->in[0]);
    for (int64_t k = 0; changes && k < changes->count; k++) {
        tl_node *n = tli_changer(g, &changes->items[k]);
        for (int i = 1; i < n->inputs; i++)
            if (tli_call_writes(n, i) && tli_memory_of(n->in[i]) == w->storage) return TL_OK;
        if (!is_update(n) || !is_weight(n->in[0])) return TL_OK;
        if (((const tl_update_attr *)n->attr)->copy) return TL_OK; // it has one already
        if (!TL_VEC_PUSH(&w->updates, n)) return TL_ENOMEM;
        take_in(w, n->in[0]);
    }
    *all = true;
    return TL_OK;
}

// Whether a copy of what the casts read is worth keeping; of them those stay noted that can read
// it.
static bool is_worth_it(const tl_graph *g, weights *w)
{
    int64_t kept = 0;
    const tl_node *first = w->updates.count ? w->updates.items[0] : NULL;
    for (int64_t i = 0; i < w->casts.count; i++) {
        tl_node *n = w->casts.items[i];
        if (!is_read_before(g, n->out[0], first)) continue;
        take_in(w, n->in[0]);
        w->cast += tl_tensor_count(n->in[0]);
        w->casts.items[kept++] = n;
    }
    w->casts.count = kept;
    int64_t count = w->end - w->begin;
    if (g->ctx->engine->device->cls->host && count > most_bytes / (int64_t)tl_dtype_size(w->type))
        return false;
    return w->cast && w->cast * 2 >= count; // what nobody reads is not worth writing
}

/* --- casts ------------------------------------------------------------------------------------ */

static weights *weights_of(all_weights *all, const tl_graph *g, const tl_node *cast)
{
    tl_dtype type = cast->out[0]->dtype;
    int32_t *number = &all->at[tli_memory_id(g, cast->in[0])][type == TL_F16];
    if (*number) return &all->items[*number - 1];
    weights w = {.storage = cast->in[0]->storage, .type = type, .begin = INT64_MAX};
    if (!TL_VEC_PUSH(all, w)) return NULL;
    *number = (int32_t)all->count;
    return &all->items[all->count - 1];
}

static tl_status find_casts(all_weights *out, const tl_graph *g)
{
    out->at = tl_arena_array(g->scratch, tli_value_count(g), sizeof *out->at);
    if (!out->at) return TL_ENOMEM;
    TLI_EACH_NODE(g, n) {
        if (n->op->op != TL_OP_cast || !is_weight(n->in[0])) continue;
        if (n->out[0]->dtype != TL_BF16 && n->out[0]->dtype != TL_F16) continue;
        weights *w = weights_of(out, g, n);
        if (!w || !TL_VEC_PUSH(&w->casts, n)) return TL_ENOMEM;
    }
    return TL_OK;
}

/* --- headers ---------------------------------------------------------------------------------- */

// Of elements from outside; the storage may be new.
static tl_tensor *outside_header(tl_graph *g, tl_storage *storage, tl_dtype dtype, tl_shape shape,
                                 int64_t offset)
{
    tl_tensor *t = tl_ctx_header(g->ctx);
    if (!t) return NULL;
    t->dtype = dtype;
    t->shape = shape;
    tli_tensor_row_major(t);
    t->offset = offset;
    if (!storage) {
        if (!tl_ctx_storage(g->ctx, t)) return NULL;
    } else {
        t->storage = storage;
        tli_storage_retain(storage);
    }
    return tli_add_outside(g, NULL, t) == TL_OK ? t : NULL;
}

// The elements of the copy that belong to `t`.
static tl_tensor *part_of_copy(tl_graph *g, const weights *w, const tl_tensor *copy,
                               const tl_tensor *t)
{
    TL_ASSERT(t->offset >= w->begin && t->offset + tl_tensor_count(t) <= w->end);
    return outside_header(g, copy->storage, w->type, t->shape, t->offset - w->begin);
}

// The call that makes the copy is not among those of a run.
static tl_tensor *make_copy(tl_graph *g, const weights *w)
{
    tl_shape flat = TL_SHAPE(w->end - w->begin);
    tl_tensor *source = outside_header(g, w->storage, TL_F32, flat, w->begin);
    tl_tensor *made =
        source ? TL_APPLY(g->ctx, cast, &(tl_cast_attr){.dtype = w->type}, source) : NULL;
    if (!made || !tl_ctx_storage(g->ctx, made)) return NULL;
    tl_node *refresh = made->node;
    TL_ASSERT(refresh == g->ctx->last && tl_tensor_count(made) == w->end - w->begin);
    tli_remove(g, refresh);
    tl_tensor *copy = outside_header(g, made->storage, w->type, flat, 0);
    if (!copy) return NULL;
    return TL_VEC_PUSH(&g->copies, (tli_weight_copy){.refresh = refresh}) ? copy : NULL;
}

/* --- the pass --------------------------------------------------------------------------------- */

static tl_status add_copy(tl_graph *g, tl_node *n, tl_tensor *t)
{
    tl_update_attr *attr = t ? tl_arena_copy(g->ctx->arena, n->attr, n->op->attr->size) : NULL;
    if (!attr) return TL_ENOMEM;
    attr->copy = true;
    TL_ASSERT(is_update(n) && tl_tensor_count(t) == tl_tensor_count(n->in[0]));
    n->attr = attr;
    return tli_add_input(g, n, t);
}

static tl_status use_copy(tl_graph *g, const weights *w, const tl_tensor *copy)
{
    for (int64_t i = 0; i < w->casts.count; i++) {
        tl_node *n = w->casts.items[i];
        tl_tensor *part = part_of_copy(g, w, copy, n->in[0]);
        if (!part) return TL_ENOMEM;
        TL_TRY(tli_replace(g, n->out[0], part));
        tli_remove(g, n);
    }
    for (int64_t i = 0; i < w->updates.count; i++) {
        tl_node *n = w->updates.items[i];
        TL_TRY(add_copy(g, n, part_of_copy(g, w, copy, n->in[0])));
    }
    return TL_OK;
}

static tl_status keep_copy(tl_graph *g, weights *w, int64_t *changes)
{
    bool all;
    TL_TRY(find_writers(&all, g, w));
    if (!all || !is_worth_it(g, w)) return TL_OK;
    tl_tensor *copy = make_copy(g, w);
    if (!copy) return tl_ctx_status(g->ctx) != TL_OK ? tl_ctx_status(g->ctx) : TL_ENOMEM;
    ++*changes;
    return use_copy(g, w, copy);
}

tl_status tli_pass_weight_copies(tl_graph *g, int64_t *changes)
{
    all_weights all = {0};
    tl_status st = find_casts(&all, g);
    for (int64_t i = 0; i < all.count && st == TL_OK; i++)
        st = keep_copy(g, &all.items[i], changes);
    for (int64_t i = 0; i < all.count; i++) {
        TL_VEC_FREE(&all.items[i].casts);
        TL_VEC_FREE(&all.items[i].updates);
    }
    TL_VEC_FREE(&all);
    return st;
}
