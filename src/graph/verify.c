#include <inttypes.h>
#include <string.h>

#include "core/inner/tensor.h"
#include "graph/graph.h"

/* Headers on the stack; nests have as many outputs as members at most (fuse.c), other calls few */
enum { MOST_OUTPUTS = 64 };

static tl_status fail_at(const tl_node *n, const char *what)
{
    return TL_FAIL(TL_EINTERNAL, "the graph is broken at call %" PRId64 ", %s: %s", n->index,
                   n->op->name, what);
}

// Whether the header says what the op would infer.
static tl_status check_inferred(const tl_graph *g, const tl_node *n)
{
    tl_tensor copies[MOST_OUTPUTS], *out[MOST_OUTPUTS];
    if (n->outputs > MOST_OUTPUTS) return fail_at(n, "too many outputs");
    for (int i = 0; i < n->outputs; i++) {
        copies[i] = *n->out[i];
        out[i] = &copies[i];
    }
    tl_node again = *n;
    again.out = out;
    TL_TRY_NOTE(n->op->infer(&again), "the graph is broken at call %" PRId64 ", %s", n->index,
                n->op->name);
    for (int i = 0; i < n->outputs; i++) {
        const tl_tensor *is = n->out[i], *should = out[i];
        if (is->dtype != should->dtype || !tl_shape_equal(&is->shape, &should->shape))
            return fail_at(n, "an output has another type or shape than the op infers");
        bool view = tli_is_view(n);
        if (view
            && (is->offset != should->offset
                || memcmp(is->strides, should->strides,
                          (size_t)is->shape.rank * sizeof *is->strides)
                       != 0))
            return fail_at(n, "the view shows other elements than the op infers");
        bool placed = view || !is->view_of || tli_writes_over(g, n);
        if (view ? is->view_of != n->in[0] : !placed || !is->contiguous)
            return fail_at(n, "an output's memory is not where the op puts it");
    }
    return TL_OK;
}

// `made` says of each value whether a call before has made it.
static tl_status check_call(const tl_graph *g, const tl_node *n, bool *made)
{
    for (int i = 0; i < n->inputs; i++)
        if (n->in[i]->node && !made[tli_value_id(g, n->in[i])])
            return fail_at(n, "an input is used before it is made");
    for (int i = 0; i < n->outputs; i++) {
        const tl_tensor *t = n->out[i];
        if (made[tli_value_id(g, t)]) return fail_at(n, "an output is made twice");
        if (t->node != n || t->output != i) return fail_at(n, "an output does not know its call");
        made[tli_value_id(g, t)] = true;
    }
    if (n->after ? n->after->before != n : g->ctx->last != n)
        return fail_at(n, "the list of calls is torn");
    return TL_OK;
}

static tl_status check_calls(const tl_graph *g, bool *made)
{
    int64_t index = 0;
    TLI_EACH_NODE(g, n) {
        n->index = index++;
        TL_TRY(check_call(g, n, made));
        TL_TRY(check_inferred(g, n));
    }
    for (int64_t i = 0; i < g->output_count; i++)
        if (!made[tli_value_id(g, g->outputs[i].tensor)])
            return TL_FAIL(TL_EINTERNAL, "the graph is broken: nothing makes its output '%s'",
                           g->outputs[i].name);
    return TL_OK;
}

static void forget_changes(tl_graph *g)
{
    tli_uses *u = &g->uses;
    for (int64_t i = 0; i < u->changed.count; i++)
        u->calls.items[u->changed.items[i]].changed = false;
    u->changed.count = 0;
    u->all_changed = false;
}

tl_status tli_verify_calls(tl_graph *g)
{
    size_t bytes = (size_t)tli_value_count(g) + 1;
    bool *made = tl_alloc_zero(bytes);
    if (!made) return TL_FAIL_NOMEM(bytes);
    tl_status st = check_calls(g, made);
    tl_free(made);
    forget_changes(g);
    return st;
}

tl_status tl_graph_verify(const tl_graph *g)
{
    TL_TRY(tli_verify_calls((tl_graph *)g));
    return tli_uses_verify(g);
}

/* --- what was changed ------------------------------------------------------------------------- */

static tl_status check_changed(const tl_graph *g, const tl_node *n)
{
    for (int i = 0; i < n->inputs; i++)
        if (n->in[i]->node && !tli_is_before(g, n->in[i]->node, n))
            return fail_at(n, "an input is used before it is made");
    for (int i = 0; i < n->outputs; i++) {
        if (n->out[i]->node != n || n->out[i]->output != i)
            return fail_at(n, "an output does not know its call");
        const tl_node *user = tli_first_user(g, n->out[i]);
        if (user && !tli_is_before(g, n, user))
            return fail_at(n, "an output is used before it is made");
    }
    return check_inferred(g, n);
}

tl_status tli_verify_changed(tl_graph *g)
{
    const tli_uses *u = &g->uses;
    tl_status st = TL_OK;
    if (u->all_changed) return tli_verify_calls(g);
    for (int64_t i = 0; i < u->changed.count && st == TL_OK; i++) {
        const tl_node *n = u->calls.items[u->changed.items[i]].node;
        if (n) st = check_changed(g, n);
    }
    forget_changes(g);
    return st;
}
