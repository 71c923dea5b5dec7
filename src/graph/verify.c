#include <inttypes.h>
#include <string.h>

#include "core/inner/tensor.h"
#include "graph/graph.h"

enum { MOST_OUTPUTS = 64 };

static tl_status fail_at(const tl_node *n, const char *what)
{
    return TL_FAIL(TL_EINTERNAL, "the graph is broken at call %" PRId64 ", %s: %s", n->index,
                   n->op->name, what);
}

// Whether the header says what the op would infer.
static tl_status check_inferred(const tl_node *n)
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
        if (view && (is->offset != should->offset
                     || memcmp(is->strides, should->strides,
                               (size_t)is->shape.rank * sizeof *is->strides) != 0))
            return fail_at(n, "the view shows other elements than the op infers");
        bool placed = n->op == &tli_op_nest || !is->view_of; // nests may write over an input
        if (view ? is->view_of != n->in[0] : !placed || !is->contiguous)
            return fail_at(n, "an output's memory is not where the op puts it");
    }
    return TL_OK;
}

// Headers that were made so far carry a mark while this runs.
static tl_status check_order(const tl_graph *g)
{
    int64_t index = 0;
    TLI_EACH_NODE(g, n) {
        n->index = index++;
        for (int i = 0; i < n->inputs; i++)
            if (n->in[i]->node && !n->in[i]->pass)
                return fail_at(n, "an input is used before it is made");
        for (int i = 0; i < n->outputs; i++) {
            tl_tensor *t = n->out[i];
            if (t->pass) return fail_at(n, "an output is made twice");
            if (t->node != n || t->output != i) return fail_at(n, "an output does not know its call");
            t->pass = 1;
        }
        if (n->after ? n->after->before != n : g->ctx->last != n)
            return fail_at(n, "the list of calls is torn");
    }
    for (int64_t i = 0; i < g->output_count; i++)
        if (!g->outputs[i].tensor->pass)
            return TL_FAIL(TL_EINTERNAL, "the graph is broken: nothing makes its output '%s'",
                           g->outputs[i].name);
    return TL_OK;
}

static void forget_marks(const tl_graph *g)
{
    TLI_EACH_NODE(g, n)
        for (int i = 0; i < n->outputs; i++) n->out[i]->pass = 0;
}

tl_status tl_graph_verify(const tl_graph *g)
{
    forget_marks(g);
    tl_status st = check_order(g);
    forget_marks(g);
    TL_TRY(st);
    TLI_EACH_NODE(g, n) TL_TRY(check_inferred(n));
    return TL_OK;
}
