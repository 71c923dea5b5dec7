#include "graph/graph.h"

static bool is_used(const tl_graph *g, const tl_node *n)
{
    for (int i = 0; i < n->outputs; i++)
        if (tli_use_count(g, n->out[i])) return true;
    return tli_has_effects(n);
}

tl_status tli_pass_dead(tl_graph *g, int64_t *changes)
{
    for (tl_node *n = g->ctx->last, *before; n; n = before) {
        before = n->before;
        if (is_used(g, n)) continue;
        tli_remove(g, n);
        ++*changes;
    }
    return TL_OK;
}
