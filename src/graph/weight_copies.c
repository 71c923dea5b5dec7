/* Keeps what mixed precision computes with: copies of weights in half precision. Instead of casting all
 * weights in every run, casts read a copy that stays from run to run; updates of the weights write it in
 * the sweep that moves them. A copy whose weights were written by anybody else in the meantime (their
 * storage tells, core/inner/storage.h) is cast again before the run. */
#include <tilth/sys/core/attrs.h>
#include <tilth/sys/ops/apply.h>

#include "core/inner/storage.h"
#include "core/inner/tensor.h"
#include "graph/graph.h"

/* Copies that take more are not kept: memory is what the largest models lack, and their products take so long that
 * casting beside them, in the forward pass and again in the backward pass (recompute.c), is little. */
static const int64_t most_bytes = (int64_t)128 << 20;

/* Memory from outside, of which [begin, end) has a copy. */
typedef struct weights {
    tl_storage *storage;
    tl_dtype type;      /* of the copy */
    int64_t begin, end; /* elements of the storage */
    int64_t cast;       /* how many of them are cast */
    tl_node *writer;    /* the first call that writes them */
} weights;

static bool is_weight(const tl_tensor *t)
{
    return !t->node && t->storage && t->dtype == TL_F32 && t->contiguous;
}

static bool is_update(const tl_node *n)
{
    return n->op->op >= TL_OP_update_sgd && n->op->op <= TL_OP_update_lars;
}

static bool is_cast_of(const tl_node *n, const weights *w)
{
    return n->op->op == TL_OP_cast && is_weight(n->in[0]) && n->in[0]->storage == w->storage
           && n->out[0]->dtype == w->type;
}

// The call is the last that sees its memory before `end`, which may be NULL.
static bool is_read_before(const tl_graph *g, const tl_tensor *root, const tl_node *end)
{
    if (tli_is_output(g, root) || tli_is_written(g, root)) return false;
    for (const tl_node *n = end; n; n = n->after)
        for (int i = 0; i < n->inputs; i++)
            if (tli_root(n->in[i]) == root) return false;
    return true;
}

static void take_in(weights *w, const tl_tensor *t)
{
    if (t->offset < w->begin) w->begin = t->offset;
    if (t->offset + tl_tensor_count(t) > w->end) w->end = t->offset + tl_tensor_count(t);
}

// Who writes them, and where; false when it is somebody that cannot write a copy as well.
static bool find_writers(const tl_graph *g, weights *w)
{
    TLI_EACH_NODE(g, n) {
        for (int i = 0; tli_has_effects(n) && i < n->inputs; i++) {
            if (!tli_writes(n, i) || tli_memory_of(n->in[i]) != w->storage) continue;
            if (i != 0 || !is_update(n) || !is_weight(n->in[0])) return false;
            // The last input of an update that has a copy already is no slot.
            if (n->in[n->inputs - 1]->dtype != TL_F32) return false;
            if (!w->writer) w->writer = n;
            take_in(w, n->in[0]);
        }
    }
    return true;
}

// Whether a copy of what the cast `first` reads is worth keeping.
static bool find_weights(const tl_graph *g, const tl_node *first, weights *w)
{
    if (first->op->op != TL_OP_cast || !is_weight(first->in[0])) return false;
    tl_dtype type = first->out[0]->dtype;
    if (type != TL_BF16 && type != TL_F16) return false;
    *w = (weights){.storage = first->in[0]->storage, .type = type, .begin = INT64_MAX};
    if (!find_writers(g, w)) return false;
    TLI_EACH_NODE(g, n) {
        if (!is_cast_of(n, w) || !is_read_before(g, n->out[0], w->writer)) continue;
        take_in(w, n->in[0]);
        w->cast += tl_tensor_count(n->in[0]);
    }
    int64_t count = w->end - w->begin;
    if (count > most_bytes / (int64_t)tl_dtype_size(type)) return false;
    return w->cast && w->cast * 2 >= count; // what nobody reads is not worth writing
}

/* --- headers ------------------------------------------------------------------------------------ */

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
    return TL_VEC_PUSH(&g->outside, (tli_outside){NULL, t}) ? t : NULL;
}

// The elements of the copy that belong to `t`.
static tl_tensor *part_of_copy(tl_graph *g, const weights *w, const tl_tensor *copy, const tl_tensor *t)
{
    return outside_header(g, copy->storage, w->type, t->shape, t->offset - w->begin);
}

// The call that makes the copy is not among those of a run.
static tl_tensor *make_copy(tl_graph *g, const weights *w)
{
    tl_shape flat = TL_SHAPE(w->end - w->begin);
    tl_tensor *source = outside_header(g, w->storage, TL_F32, flat, w->begin);
    tl_tensor *made = source ? TL_APPLY(g->ctx, cast, &(tl_cast_attr){.dtype = w->type}, source) : NULL;
    if (!made || !tl_ctx_storage(g->ctx, made)) return NULL;
    tl_node *refresh = made->node;
    tli_remove(g, refresh);
    tl_tensor *copy = outside_header(g, made->storage, w->type, flat, 0);
    if (!copy) return NULL;
    return TL_VEC_PUSH(&g->copies, (tli_weight_copy){.refresh = refresh}) ? copy : NULL;
}

/* --- the pass ----------------------------------------------------------------------------------- */

static tl_status add_input(tl_graph *g, tl_node *n, tl_tensor *t)
{
    tl_tensor **in = tl_arena_array(g->ctx->arena, n->inputs + 1, sizeof *in);
    if (!t || !in) return TL_ENOMEM;
    for (int i = 0; i < n->inputs; i++) in[i] = n->in[i];
    in[n->inputs++] = t;
    n->in = in;
    return TL_OK;
}

static tl_status use_copy(tl_graph *g, const weights *w, const tl_tensor *copy)
{
    TLI_EACH_NODE_SAFE(g, n, next) {
        if (is_update(n) && tli_memory_of(n->in[0]) == w->storage) {
            TL_TRY(add_input(g, n, part_of_copy(g, w, copy, n->in[0])));
        } else if (is_cast_of(n, w) && is_read_before(g, n->out[0], w->writer)) {
            tl_tensor *part = part_of_copy(g, w, copy, n->in[0]);
            if (!part) return TL_ENOMEM;
            TL_TRY(tli_replace(g, n->out[0], part));
            tli_remove(g, n);
        }
    }
    return TL_OK;
}

tl_status tli_pass_weight_copies(tl_graph *g, int64_t *changes)
{
    TLI_EACH_NODE_SAFE(g, n, next) {
        weights w;
        if (!find_weights(g, n, &w)) continue;
        tl_tensor *copy = make_copy(g, &w);
        if (!copy) return tl_ctx_status(g->ctx) != TL_OK ? tl_ctx_status(g->ctx) : TL_ENOMEM;
        TL_TRY(use_copy(g, &w, copy));
        ++*changes;
        next = g->ctx->first; // many calls are gone, perhaps the next one too
    }
    return TL_OK;
}
