/* A nest writes over what it reads for the last time, element by element: less memory, and what is
 * written is in the cache already. So do kernels that can, such as gradients of losses over their
 * logits, which are the largest tensors that a language model has. */
#include <string.h>

#include "graph/graph.h"

// Whether all loads of input `i` walk as the store does.
static bool walk_alike(const tl_nest *nest, int i, const tl_access *to)
{
    for (int64_t k = 0; k < nest->term_count; k++) {
        const tl_term *t = &nest->terms[k];
        if (t->kind != TL_TERM_LOAD || t->from.buffer != i) continue;
        if (t->from.offset != to->offset
            || memcmp(t->from.strides, to->strides, sizeof to->strides) != 0)
            return false;
    }
    for (int64_t k = 0; k < nest->store_count; k++) {
        const tl_term *stored = &nest->terms[nest->stores[k].term];
        if (nest->stores[k].to.buffer == i) return false; // another output lies there already
        // What is only copied may be read after others were stored.
        if (stored->kind == TL_TERM_LOAD && stored->from.buffer == i) return false;
    }
    return true;
}

static bool can_be_overwritten(const tl_graph *g, const tl_node *n, int i, const tl_tensor *out)
{
    const tl_tensor *in = n->in[i], *root = tli_root(in);
    if (!root->node || tli_is_output(g, root) || in->dtype != out->dtype || !in->contiguous
        || in->offset != 0 || tl_tensor_count(in) != tl_tensor_count(root)
        || tl_tensor_count(in) != tl_tensor_count(out) || tli_is_read_after(g, in, n, false))
        return false;
    for (int k = 0; k < n->inputs; k++)
        if (k != i && tli_root(n->in[k]) == root) return false;
    return true;
}

// Other buffers may mean another plan, or none: then the store stays where it was.
static tl_status try_store(tl_graph *g, const tl_nest *nest, tl_nest_store *store, int buffer)
{
    int before = store->to.buffer;
    store->to.buffer = buffer;
    tl_status st = tli_nest_try_plan(g, nest);
    if (st != TL_OK) store->to.buffer = before;
    return st;
}

static tl_status reuse_inputs(tl_graph *g, tl_node *n, int64_t *changes)
{
    tl_nest *nest = (tl_nest *)n->attr;
    TL_ASSERT(nest->store_count == n->outputs && nest->buffer_count == n->inputs + n->outputs);
    for (int k = 0; k < n->outputs; k++) {
        tl_nest_store *store = (tl_nest_store *)&nest->stores[k];
        TL_ASSERT(store->to.buffer == n->inputs + k && store->to.dtype == n->out[k]->dtype);
        if (tli_is_output(g, n->out[k])) continue;
        for (int i = 0; i < n->inputs; i++) {
            if (!can_be_overwritten(g, n, i, n->out[k]) || !walk_alike(nest, i, &store->to))
                continue;
            tl_status st = try_store(g, nest, store, i);
            if (st == TL_EUNSUPPORTED) continue;
            TL_TRY(st);
            TL_TRY(tli_reuse(g, n, k, i));
            ++*changes;
            break;
        }
    }
    return TL_OK;
}

static tl_status write_over(tl_graph *g, tl_node *n, int64_t *changes)
{
    // Smaller ones spare little, and would only make small programs on a GPU less free in what
    // they compute where (cuda/whole.h).
    enum { LEAST_BYTES = 1 << 20 };
    const int last = n->outputs - 1;
    if (last < 0 || tl_tensor_bytes(n->out[last]) < LEAST_BYTES || n->out[last]->view_of
        || tli_is_output(g, n->out[last]) || !tli_writes_over(g, n))
        return TL_OK;
    for (int i = 0; i < n->inputs; i++) {
        if (!tl_shape_equal(&n->in[i]->shape, &n->out[last]->shape)
            || !can_be_overwritten(g, n, i, n->out[last]))
            continue;
        ++*changes;
        return tli_reuse(g, n, last, i);
    }
    return TL_OK;
}

bool tli_writes_over(const tl_graph *g, const tl_node *n)
{
    if (n->op == &tli_op_nest) return true;
    if (g->ctx->engine->backend->keeps_apart) return false;
    return tli_kernel_flags(g, n) & TL_KERNEL_OVER;
}

tl_status tli_pass_reuse(tl_graph *g, int64_t *changes)
{
    TLI_EACH_NODE(g, n) TL_TRY((n->op == &tli_op_nest ? reuse_inputs : write_over)(g, n, changes));
    return TL_OK;
}
