#include "graph/graph.h"

static bool is_used(const tl_node *n)
{
    for (int i = 0; i < n->outputs; i++)
        if (n->out[i]->uses) return true;
    return tli_has_effects(n);
}

tl_status tli_pass_dead(tl_graph *g, int64_t *changes)
{
    tli_count_uses(g);
    for (tl_node *n = g->ctx->last, *before; n; n = before) {
        before = n->before;
        if (is_used(n)) continue;
        for (int i = 0; i < n->inputs; i++) n->in[i]->uses--;
        tli_remove(g, n);
        ++*changes;
    }
    return TL_OK;
}
