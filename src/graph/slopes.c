/* gelu and its slope share an exponential and a quotient, which are most of the work of each. So a
 * product whose sum nobody reads but the gradient of its gelu hands out the slope in place of the
 * sum: as many bytes, and the gradient is a multiplication. The slope is rounded on its way, so
 * this is for half precision alone, where roundings are many; floats keep the bits of their calls.
 */
#include <tilth/core/attrs.h>
#include <tilth/ops/elementwise.h>
#include <tilth/sys/ops/apply.h>

#include "graph/graph.h"

/* The product whose kept sum the call takes the slope at, and that could hand out the slope. */
static tl_node *sloped_product(const tl_graph *g, const tl_node *n)
{
    if (n->op->op != TL_OP_gelu_grad || !((const tl_gelu_attr *)n->attr)->approximate) return NULL;
    const tl_tensor *sum = n->in[1];
    tl_node *product = sum->node;
    if (!product || product->op->op != TL_OP_linear || sum != product->out[1]
        || (sum->dtype != TL_BF16 && sum->dtype != TL_F16) || tli_use_count(g, sum) != 1
        || tli_is_output(g, sum))
        return NULL;
    const tl_linear_attr *a = product->attr;
    if (a->activation != TL_ACT_GELU_TANH || !a->keep_sum) return NULL;
    return tli_kernel_flags(g, product) & TL_KERNEL_SLOPES ? product : NULL;
}

tl_status tli_pass_slopes(tl_graph *g, int64_t *changes)
{
    static const tl_linear_attr attr = {.activation = TL_ACT_GELU_TANH, .keep_slope = true};
    TLI_EACH_NODE_SAFE(g, n, next) {
        tl_node *product = sloped_product(g, n), *last = g->ctx->last;
        tl_tensor *made[2];
        if (!product) continue;
        if (!tl_apply_all(g->ctx, TL_OP_linear, &attr, product->inputs, product->in, made))
            return tl_ctx_status(g->ctx);
        made[0]->node->path = product->path;
        TL_TRY(tli_move_new(g, last, product));
        TL_TRY(tli_replace(g, product->out[0], made[0]));
        last = g->ctx->last;
        tl_tensor *instead = tl_mul(g->ctx, n->in[0], made[1]);
        TL_TRY(tl_ctx_status(g->ctx));
        TL_TRY(tli_move_new(g, last, n));
        TL_TRY(tli_replace(g, n->out[0], instead));
        tli_remove(g, n);
        tli_remove(g, product);
        ++*changes;
    }
    return TL_OK;
}
