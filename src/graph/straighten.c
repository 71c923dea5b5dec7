#include <tilth/sys/core/backend.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/ops/create.h>

#include "graph/graph.h"

// Equal numbers are made where they are needed; other elements are copied.
static tl_tensor *row_major(tl_graph *g, tl_tensor *x)
{
    double number;
    return tli_is_number(g, x, &number) ? tl_full(g->ctx, x->dtype, x->shape, number)
                                        : TL_APPLY(g->ctx, copy, NULL, x);
}

static tl_status straighten_inputs(tl_graph *g, tl_node *n, int64_t *changes)
{
    tl_kernel kernel;
    TL_TRY(tl_engine_kernel(g->ctx->engine, n, &kernel));
    if (kernel.flags & TL_KERNEL_STRIDED) return TL_OK;
    for (int i = 0; i < n->inputs; i++) {
        if (n->in[i]->contiguous) continue;
        tl_node *last = g->ctx->last;
        tl_tensor *copy = row_major(g, n->in[i]);
        if (!copy) return tl_ctx_status(g->ctx);
        TL_ASSERT(copy->contiguous && tl_shape_equal(&copy->shape, &n->in[i]->shape));
        TL_TRY(tli_move_new(g, last, n));
        TL_TRY(tli_set_input(g, n, i, copy));
        ++*changes;
    }
    return TL_OK;
}

tl_status tli_pass_straighten(tl_graph *g, int64_t *changes)
{
    TLI_EACH_NODE_SAFE(g, n, next)
        if (!tli_is_view(n) && n->op != &tli_op_nest) TL_TRY(straighten_inputs(g, n, changes));
    int64_t dead = 0; // views that only copies were made of
    return *changes ? tli_pass_dead(g, &dead) : TL_OK;
}
