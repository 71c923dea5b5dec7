/* Puts what follows a matrix product into it: bias and activation are added while the sums are
 * still in registers. matmul + bias becomes linear; linear + activation becomes linear with that
 * activation, which hands out the sum as well when a gradient needs it. A normalisation of a batch
 * takes relu or relu6 in: two sweeps over memory less. */
#include <tilth/core/attrs.h>
#include <tilth/sys/ops/apply.h>

#include "graph/graph.h"

/* --- bias ------------------------------------------------------------------------------------- */

static bool is_plain_product(const tl_tensor *t)
{
    const tl_node *n = t->node;
    if (!n || n->op->op != TL_OP_matmul) return false;
    const tl_matmul_attr *a = n->attr;
    return !a->transpose_a && !a->transpose_b && n->in[1]->shape.rank == 2;
}

static tl_tensor *add_bias(tl_graph *g, tl_node *n)
{
    for (int i = 0; i < 2 && n->op->op == TL_OP_add; i++) {
        tl_tensor *product = n->in[i], *bias = n->in[1 - i];
        if (!is_plain_product(product) || bias->shape.rank != 1 || bias->dtype != product->dtype
            || bias->shape.dims[0] != product->shape.dims[product->shape.rank - 1]
            || tli_use_count(g, product) != 1 || !tli_may_move(g, product->node, n))
            continue;
        tl_tensor *const *in = product->node->in;
        return TL_APPLY(g->ctx, linear, (&(tl_linear_attr){.activation = TL_ACT_NONE}), in[0],
                        in[1], bias);
    }
    return NULL;
}

/* --- activation ------------------------------------------------------------------------------- */

static tl_activation activation_of(const tl_node *n)
{
    switch (n->op->op) {
    case TL_OP_relu: return TL_ACT_RELU;
    case TL_OP_relu6: return TL_ACT_RELU6;
    case TL_OP_silu: return TL_ACT_SILU;
    case TL_OP_tanh: return TL_ACT_TANH;
    case TL_OP_sigmoid: return TL_ACT_SIGMOID;
    case TL_OP_gelu:
        return ((const tl_gelu_attr *)n->attr)->approximate ? TL_ACT_GELU_TANH : TL_ACT_GELU;
    default: return TL_ACT_NONE;
    }
}

static tl_tensor *add_activation(tl_graph *g, tl_node *n)
{
    tl_linear_attr attr = {.activation = activation_of(n)};
    tl_node *linear = attr.activation ? n->in[0]->node : NULL;
    if (!linear || linear->op->op != TL_OP_linear || n->in[0] != linear->out[0]) return NULL;
    if (((const tl_linear_attr *)linear->attr)->activation != TL_ACT_NONE) return NULL;
    tl_tensor *sum = n->in[0], *out[2];
    attr.keep_sum = tli_use_count(g, sum) != 1;
    if (tli_is_output(g, sum) || !tli_may_move(g, linear, n)) return NULL;
    if (!tl_apply_all(g->ctx, TL_OP_linear, &attr, linear->inputs, linear->in, out)) return NULL;
    if (attr.keep_sum && tli_replace(g, sum, out[1]) != TL_OK) return tl_ctx_fail(g->ctx);
    return out[0];
}

/* --- normalisation ---------------------------------------------------------------------------- */

/* `call` with an activation, at its place; its results take those of the old one but for output 0,
 * which comes back. */
static tl_status renew_norm(tl_tensor **out, tl_graph *g, tl_node *call, tl_activation activation)
{
    enum { OUTPUTS = 4 };
    tl_norm_attr attr = *(const tl_norm_attr *)call->attr;
    tl_tensor *made[OUTPUTS];
    *out = NULL;
    tl_node *last = g->ctx->last;
    attr.activation = activation;
    TL_ASSERT(call->outputs <= OUTPUTS);
    if (!tl_apply_all(g->ctx, call->op->op, &attr, call->inputs, call->in, made))
        return tl_ctx_status(g->ctx);
    made[0]->node->path = call->path;
    TL_TRY(tli_move_new(g, last, call));
    for (int i = 1; i < call->outputs; i++) TL_TRY(tli_replace(g, call->out[i], made[i]));
    *out = made[0];
    return TL_OK;
}

/* relu(batch_normalize(x)), whose gradient looks at the result of relu. */
static tl_status join_norm(bool *done, tl_graph *g, tl_node *n)
{
    const tl_activation activation = activation_of(n);
    *done = false;
    if (activation != TL_ACT_RELU && activation != TL_ACT_RELU6) return TL_OK;
    tl_node *norm = n->in[0]->node;
    tl_tensor *instead;
    if (!norm || norm->op->op != TL_OP_batch_normalize || n->in[0] != norm->out[0]
        || ((const tl_norm_attr *)norm->attr)->activation != TL_ACT_NONE
        || tli_use_count(g, n->in[0]) != 1)
        return TL_OK;
    TL_TRY(renew_norm(&instead, g, norm, activation));
    TL_TRY(tli_replace(g, n->out[0], instead));
    tli_remove(g, n);
    tli_remove(g, norm);
    *done = true;
    return TL_OK;
}

/* --- the pass --------------------------------------------------------------------------------- */

tl_status tli_pass_epilogue(tl_graph *g, int64_t *changes)
{
    TLI_EACH_NODE_SAFE(g, n, next) {
        tl_node *last = g->ctx->last;
        bool joined;
        TL_TRY(join_norm(&joined, g, n));
        if (joined) {
            ++*changes;
            continue;
        }
        tl_tensor *instead = add_bias(g, n);
        if (!instead) instead = add_activation(g, n);
        TL_TRY(tl_ctx_status(g->ctx));
        if (!instead) continue;
        TL_TRY(tli_move_new(g, last, n));
        TL_TRY(tli_replace(g, n->out[0], instead));
        tli_remove(g, n);
        ++*changes;
    }
    return TL_OK;
}
