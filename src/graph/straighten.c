#include <tilth/core/backend.h>
#include <tilth/ops/apply.h>

#include "graph/graph.h"

static tl_status straighten_inputs(tl_graph *g, tl_node *n, int64_t *changes)
{
    tl_kernel kernel;
    TL_TRY(tl_engine_kernel(g->ctx->engine, n, &kernel));
    if (kernel.flags & TL_KERNEL_STRIDED) return TL_OK;
    for (int i = 0; i < n->inputs; i++) {
        if (n->in[i]->contiguous) continue;
        tl_node *last = g->ctx->last;
        tl_tensor *copy = TL_APPLY(g->ctx, copy, NULL, n->in[i]);
        if (!copy) return tl_ctx_status(g->ctx);
        tli_move_new(g, last, n);
        ((tl_tensor **)n->in)[i] = copy;
        ++*changes;
    }
    return TL_OK;
}

tl_status tli_pass_straighten(tl_graph *g, int64_t *changes)
{
    TLI_EACH_NODE_SAFE(g, n, next)
        if (!tli_is_view(n) && n->op != &tli_op_nest) TL_TRY(straighten_inputs(g, n, changes));
    return TL_OK;
}
