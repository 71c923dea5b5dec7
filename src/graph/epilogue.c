/* Puts what follows a matrix product into it: bias and activation are added while the sums are
 * still in registers. matmul + bias becomes linear; linear + activation becomes linear with that
 * activation, which hands out the sum as well when a gradient needs it. A normalisation of a batch
 * takes relu or relu6 in, and its gradient theirs: two sweeps over memory less ahead, three less
 * back. Where its kernel says so, it takes in first what is added to it: two sweeps less. */
#include <tilth/core/attrs.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "graph/graph.h"

/* --- bias ------------------------------------------------------------------------------------- */

/* Whether the call's kernel reads inputs as they lie: a table that is used transposed, as that of
 * words in front of their scores, is not copied then. */
static bool takes_strides(const tl_graph *g, const tl_node *product)
{
    const tl_node linear = {
        .op = tl_op_class_of(TL_OP_linear), .in = product->in, .inputs = product->inputs};
    return tli_kernel_flags(g, &linear) & TL_KERNEL_STRIDED;
}

static bool is_plain_product(const tl_graph *g, const tl_tensor *t)
{
    const tl_node *n = t->node;
    if (!n || n->op->op != TL_OP_matmul) return false;
    const tl_matmul_attr *a = n->attr;
    return !a->transpose_a && n->in[1]->shape.rank == 2 && (!a->transpose_b || takes_strides(g, n));
}

static tl_tensor *add_bias(tl_graph *g, tl_node *n)
{
    for (int i = 0; i < 2 && n->op->op == TL_OP_add; i++) {
        tl_tensor *product = n->in[i], *bias = n->in[1 - i];
        if (!is_plain_product(g, product) || bias->shape.rank != 1 || bias->dtype != product->dtype
            || bias->shape.dims[0] != product->shape.dims[product->shape.rank - 1]
            || tli_use_count(g, product) != 1 || !tli_may_move(g, product->node, n))
            continue;
        tl_tensor *x = product->node->in[0], *w = product->node->in[1];
        if (((const tl_matmul_attr *)product->node->attr)->transpose_b)
            w = tl_swap_axes(g->ctx, w, 0, 1);
        tl_tensor *sum =
            TL_APPLY(g->ctx, linear, (&(tl_linear_attr){.activation = TL_ACT_NONE}), x, w, bias);
        if (sum) sum->node->path = n->path;
        return sum;
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

static bool is_norm(const tl_node *n, tl_op op, tl_activation activation)
{
    return n && n->op->op == op && ((const tl_norm_attr *)n->attr)->activation == activation;
}

/* `call` with other attributes and inputs, at its place; the results take that of its own but for
 * output 0, which comes back. */
static tl_status renew_norm(tl_tensor **out, tl_graph *g, tl_node *call, tl_norm_attr attr,
                            int inputs, tl_tensor *const *in)
{
    enum { OUTPUTS = 4 };
    tl_tensor *made[OUTPUTS];
    *out = NULL;
    tl_node *last = g->ctx->last;
    TL_ASSERT(call->outputs <= OUTPUTS);
    if (!tl_apply_all(g->ctx, call->op->op, &attr, inputs, in, made)) return tl_ctx_status(g->ctx);
    made[0]->node->path = call->path;
    TL_TRY(tli_move_new(g, last, call));
    for (int i = 1; i < call->outputs; i++) TL_TRY(tli_replace(g, call->out[i], made[i]));
    *out = made[0];
    return TL_OK;
}

static tl_norm_attr with(const tl_node *norm, tl_activation activation)
{
    tl_norm_attr attr = *(const tl_norm_attr *)norm->attr;
    attr.activation = activation;
    return attr;
}

/* Whether its kernel would rather add to its result itself. */
static bool adds(const tl_graph *g, const tl_node *norm)
{
    return tli_kernel_flags(g, norm) & TL_KERNEL_JOINED;
}

/* batch_normalize(x) + t, where t is there before: the end of a block with a way around it. */
static tl_status join_sum(bool *done, tl_graph *g, tl_node *n)
{
    *done = false;
    for (int i = 0; n->op->op == TL_OP_add && i < 2; i++) {
        tl_tensor *t = n->in[1 - i], *instead;
        tl_node *norm = n->in[i]->node;
        if (!is_norm(norm, TL_OP_batch_normalize, TL_ACT_NONE) || n->in[i] != norm->out[0]
            || ((const tl_norm_attr *)norm->attr)->added || tli_use_count(g, n->in[i]) != 1
            || t->dtype != n->in[i]->dtype || !tl_shape_equal(&t->shape, &n->in[i]->shape)
            || (t->node && !tli_is_before(g, t->node, norm))
            || tli_is_changed_between(g, t, norm, n) || !adds(g, norm))
            continue;
        tl_tensor *in[4];
        tl_norm_attr attr = with(norm, TL_ACT_NONE);
        TL_ASSERT(norm->inputs < (int)TL_COUNT(in));
        for (int k = 0; k < norm->inputs; k++) in[k] = norm->in[k];
        in[norm->inputs] = t;
        attr.added = true;
        TL_TRY(renew_norm(&instead, g, norm, attr, norm->inputs + 1, in));
        TL_TRY(tli_replace(g, n->out[0], instead));
        tli_remove(g, n);
        tli_remove(g, norm);
        *done = true;
        return TL_OK;
    }
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
    if (!is_norm(norm, TL_OP_batch_normalize, TL_ACT_NONE) || n->in[0] != norm->out[0]
        || tli_use_count(g, n->in[0]) != 1)
        return TL_OK;
    TL_TRY(renew_norm(&instead, g, norm, with(norm, activation), norm->inputs, norm->in));
    TL_TRY(tli_replace(g, n->out[0], instead));
    tli_remove(g, n);
    tli_remove(g, norm);
    *done = true;
    return TL_OK;
}

/* What relu_grad is given beside the gradient: y; or 6 - y, around the relu_grad of y (relu6). */
static bool is_six_less(const tl_tensor *t, const tl_tensor *y)
{
    if (!t->node || t->node->op->op != TL_OP_affine || t->node->in[0] != y) return false;
    const tl_affine_attr *a = t->node->attr;
    return a->scale == -1 && a->shift == 6;
}

/* The gradient in front of an activation's, whose result was the `y` of a normalisation that has
 * it; NULL when `g` is not made so. `first` is the earliest call that makes it. */
static tl_tensor *before_slope(tl_node **first, const tl_graph *g, const tl_tensor *slope,
                               const tl_tensor *y, tl_activation activation)
{
    tl_node *n = slope->node;
    if (!n || n->op->op != TL_OP_relu_grad || tli_use_count(g, slope) != 1) return NULL;
    if (activation == TL_ACT_RELU6) {
        const tl_tensor *inner = n->in[0];
        if (!is_six_less(n->in[1], y)) return NULL;
        n = inner->node;
        if (!n || n->op->op != TL_OP_relu_grad || tli_use_count(g, inner) != 1) return NULL;
    }
    *first = n;
    return n->in[1] == y ? n->in[0] : NULL;
}

/* batch_normalize_grad(relu_grad(gy, y), x, ...), where y is what such a call made of x. */
static tl_status join_norm_grad(bool *done, tl_graph *g, tl_node *n)
{
    *done = false;
    if (!is_norm(n, TL_OP_batch_normalize_grad, TL_ACT_NONE)) return TL_OK;
    const tl_node *norm = n->in[2]->node;
    const tl_norm_attr *a = n->attr;
    if (!norm || norm->op->op != TL_OP_batch_normalize) return TL_OK;
    const tl_activation activation = ((const tl_norm_attr *)norm->attr)->activation;
    if (activation == TL_ACT_NONE || ((const tl_norm_attr *)norm->attr)->added
        || n->in[1] != norm->in[0] || n->in[2] != norm->out[1] || n->in[3] != norm->out[3]
        || (a->scaled && n->in[4] != norm->in[1]))
        return TL_OK;
    tl_node *first;
    tl_tensor *gy = before_slope(&first, g, n->in[0], norm->out[0], activation);
    if (!gy || tli_is_changed_between(g, gy, first, n)) return TL_OK;
    tl_tensor *in[6] = {gy, n->in[1], n->in[2], n->in[3]}, *instead;
    int inputs = 4;
    for (int i = 1; i < norm->inputs; i++) { // gamma, beta: as they were then
        if (tli_is_changed_between(g, norm->in[i], norm, n)) return TL_OK;
        in[inputs++] = norm->in[i];
    }
    TL_TRY(renew_norm(&instead, g, n, with(n, activation), inputs, in));
    TL_TRY(tli_replace(g, n->out[0], instead));
    tli_remove(g, n); // what made its gradient is of no use any more
    *done = true;
    return TL_OK;
}

static bool is_like(const tl_tensor *a, const tl_tensor *b)
{
    return a->dtype == b->dtype && tl_shape_equal(&a->shape, &b->shape);
}

/* Whether all who see what `n` is given first see it behind it. */
static bool is_first_user(const tl_graph *g, const tl_node *n)
{
    TLI_EACH_USE(g, n->in[0], u)
    if (tli_user(g, u) != n && !tli_is_before(g, n, tli_user(g, u))) return false;
    return !tli_is_output(g, n->in[0]);
}

/* batch_normalize_grad(relu_grad(a + b, y), ...): where a block with a way around it ends. Who else
 * needs the gradient there, as that way does, gets it from the same sweep. */
static tl_status join_sum_grad(bool *done, tl_graph *g, tl_node *n)
{
    enum { OUTPUTS = 4, MOST = 7 };
    *done = false;
    if (!is_norm(n, TL_OP_batch_normalize_grad, TL_ACT_NONE)) return TL_OK;
    tl_norm_attr attr = with(n, TL_ACT_NONE);
    tl_node *slope = n->in[0]->node, *last = g->ctx->last;
    if (attr.added || !slope || slope->op->op != TL_OP_relu_grad) return TL_OK;
    tl_tensor *y = slope->in[1], *x = n->in[1], *made[OUTPUTS], *in[MOST];
    tl_node *sum = slope->in[0]->node;
    if (!sum || sum->op->op != TL_OP_add || tli_use_count(g, slope->in[0]) != 1
        || !is_like(sum->in[0], x) || !is_like(sum->in[1], x) || !is_like(y, x)
        || tli_is_changed_between(g, y, slope, n) || tli_is_changed_between(g, sum->in[0], sum, n)
        || tli_is_changed_between(g, sum->in[1], sum, n) || !is_first_user(g, n) || !adds(g, n))
        return TL_OK;
    int inputs = n->inputs;
    TL_ASSERT(inputs + 2 <= MOST);
    for (int i = 0; i < inputs; i++) in[i] = i ? n->in[i] : sum->in[0];
    in[inputs++] = sum->in[1];
    in[inputs++] = y;
    attr.added = true;
    if (!tl_apply_all(g->ctx, n->op->op, &attr, inputs, in, made)) return tl_ctx_status(g->ctx);
    made[0]->node->path = n->path;
    TL_TRY(tli_move_new(g, last, n));
    for (int i = 0; i < OUTPUTS - 1; i++) TL_TRY(tli_replace(g, n->out[i], made[i]));
    TL_TRY(tli_replace(g, slope->out[0], made[OUTPUTS - 1]));
    tli_remove(g, n);
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
        if (!joined) TL_TRY(join_sum(&joined, g, n));
        if (!joined) TL_TRY(join_norm_grad(&joined, g, n));
        if (!joined) TL_TRY(join_sum_grad(&joined, g, n));
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
