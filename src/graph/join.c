/* Takes forms of ops that some kernels have beside the usual ones (TL_KERNEL_JOINED), and that save
 * sweeps over memory: gradients of attention that are written side by side, where they are wanted
 * so; products and gradients of norms that something is added to; products before relu; losses that
 * make their gradient in the same sweep; gradients of pooling that are told which elements were the
 * largest, so that images need not be kept. Losses read logits as they are, not widened, and leave
 * classes out that were put in for the sake of products. Sums in place multiply what is added to
 * them. */
#include <tilth/core/attrs.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "core/inner/pool.h"
#include "core/inner/tensor.h"
#include "graph/graph.h"

/* Whether the backend's kernel takes what a rule would make of the call. */
static bool has_forms(const tl_graph *g, const tl_node *call)
{
    return tli_kernel_flags(g, call) & TL_KERNEL_JOINED;
}

/* Whether nobody else sees the result of a call, which something like it is added to. */
static bool is_added_to(const tl_graph *g, const tl_tensor *result, const tl_tensor *other)
{
    return !result->view_of && tli_use_count(g, result) == 1 && !tli_is_output(g, result)
           && other->dtype == result->dtype && tl_shape_equal(&other->shape, &result->shape)
           && other->contiguous;
}

/* --- attention -------------------------------------------------------------------------------- */

// Nobody else sees it, nor what it is a view of, up to `whole`.
static bool is_seen_once(const tl_graph *g, const tl_tensor *t, const tl_tensor *whole)
{
    for (;; t = t->node->in[0]) {
        if (tli_use_count(g, t) != 1 || tli_is_output(g, t)) return false;
        if (t == whole) return true;
        if (!t->node || !tli_is_view(t->node)) return false;
    }
}

/* The gradient of attention whose three results the call puts side by side, each position's behind
 * one another; NULL: it does something else. */
static tl_node *parts_of_attention(const tl_graph *g, const tl_node *concat)
{
    if (concat->op->op != TL_OP_concat || concat->inputs != 3) return NULL;
    tl_node *call = tli_root(concat->in[0])->node;
    if (!call || call->op->op != TL_OP_attend_grad) return NULL;
    const tl_shape *q = &call->in[1]->shape;
    const int64_t axis = ((const tl_axis_attr *)concat->attr)->axis;
    int64_t positions = 1;
    for (int64_t i = 0; i < axis; i++) positions *= concat->in[0]->shape.dims[i];
    if (positions != q->dims[0] * q->dims[1]) return NULL;
    for (int i = 0; i < 3; i++)
        if (!tl_shape_equal(q, &call->in[1 + i]->shape) || !concat->in[i]->contiguous
            || tl_tensor_count(concat->in[i]) != tl_shape_count(q)
            || !is_seen_once(g, concat->in[i], call->out[i]))
            return NULL;
    return call;
}

/* Gradients that a kernel can write side by side need not be put there, nor gone over to make 0.0
 * of -0.0 (simplify_views.c). */
static tl_status join_attention(bool *done, tl_graph *g, tl_node *n)
{
    enum { OUTPUTS = 4 };
    const tl_affine_attr *a = n->op->op == TL_OP_affine ? n->attr : NULL;
    const bool behind = a && a->scale == 1 && a->shift == 0 && n->in[0]->node && !n->in[0]->view_of
                        && tli_use_count(g, n->in[0]) == 1;
    tl_node *call = behind ? parts_of_attention(g, n->in[0]->node) : NULL, *last = g->ctx->last;
    tl_tensor *made[OUTPUTS];
    *done = false;
    if (!call) return TL_OK;
    *done = has_forms(g, call);
    if (!*done) return TL_OK;
    tl_attend_attr attr = *(const tl_attend_attr *)call->attr;
    attr.joined = true;
    if (!tl_apply_all(g->ctx, TL_OP_attend_grad, &attr, call->inputs, call->in, made))
        return tl_ctx_status(g->ctx);
    made[0]->node->path = call->path;
    if (attr.bias_grad) TL_TRY(tli_replace(g, call->out[3], made[3]));
    tl_tensor *whole = tl_reshape(g->ctx, made[0], n->out[0]->shape);
    if (!whole) return tl_ctx_status(g->ctx);
    TL_TRY(tli_move_new(g, last, call));
    TL_TRY(tli_replace(g, n->out[0], whole));
    tli_remove(g, n);
    return TL_OK;
}

/* --- normalisation ---------------------------------------------------------------------------- */

/* x + layer_normalize_grad(...): the gradient of what went around the norm. */
static tl_status join_norm(bool *done, tl_graph *g, tl_node *n)
{
    enum { INPUTS = 6, OUTPUTS = 4 };
    *done = false;
    for (int i = 0; i < 2 && n->op->op == TL_OP_add && !*done; i++) {
        tl_tensor *slope = n->in[i], *other = n->in[1 - i], *made[OUTPUTS], *in[INPUTS];
        tl_node *call = slope->node, *last = g->ctx->last;
        if (!call || call->op->op != TL_OP_layer_normalize_grad || slope != call->out[0]
            || call->inputs != 4 + ((const tl_norm_attr *)call->attr)->scaled
            || !is_added_to(g, slope, other) || !tli_may_move(g, call, n))
            continue;
        *done = has_forms(g, call);
        if (!*done) continue;
        for (int k = 0; k < call->inputs; k++) in[k] = call->in[k];
        in[call->inputs] = other;
        if (!tl_apply_all(g->ctx, call->op->op, call->attr, call->inputs + 1, in, made))
            return tl_ctx_status(g->ctx);
        made[0]->node->path = call->path;
        TL_TRY(tli_move_new(g, last, n));
        for (int k = 1; k < OUTPUTS; k++) TL_TRY(tli_replace(g, call->out[k], made[k]));
        TL_TRY(tli_replace(g, n->out[0], made[0]));
        tli_remove(g, n);
    }
    return TL_OK;
}

/* Whether it leaves of `t` the sums of its columns. */
static bool is_sum_of_rows(const tl_node *n, const tl_tensor *t)
{
    const tl_reduce_attr *attr = n->attr;
    const int rank = t->shape.rank;
    if (n->op->op != TL_OP_sum || n->in[0] != t || attr->axes.count != rank - 1) return false;
    for (int i = 0; i < rank - 1; i++)
        if (attr->axes.items[i] != i) return false;
    return rank > 1;
}

/* What a cast to float32 is given, seen through views: a result of half precision that nobody else
 * sees. NULL: something else. */
static tl_tensor *before_widening(const tl_graph *g, const tl_node *n)
{
    if (n->op->op != TL_OP_cast || n->out[0]->dtype != TL_F32) return NULL;
    tl_tensor *t = tli_root(n->in[0]);
    return t->dtype != TL_F32 && t->dtype != TL_F64 && t->node && n->in[0]->contiguous
                   && tl_tensor_count(t) == tl_tensor_count(n->in[0])
                   && is_seen_once(g, n->in[0], t)
               ? t
               : NULL;
}

/* The sums of columns of layer_normalize_grad(...) in float32: the gradient of a bias before it. */
static tl_status join_norm_sum(bool *done, tl_graph *g, tl_node *n)
{
    enum { OUTPUTS = 4 };
    *done = false;
    tl_tensor *sum = before_widening(g, n), *made[OUTPUTS];
    tl_node *call = sum ? tli_root(sum->node->in[0])->node : NULL, *last = g->ctx->last;
    if (!call || call->op->op != TL_OP_layer_normalize_grad
        || !is_sum_of_rows(sum->node, call->out[0]))
        return TL_OK;
    tl_norm_attr attr = *(const tl_norm_attr *)call->attr;
    if (attr.summed || attr.axes != 1) return TL_OK;
    *done = has_forms(g, call);
    if (!*done) return TL_OK;
    attr.summed = true;
    if (!tl_apply_all(g->ctx, call->op->op, &attr, call->inputs, call->in, made))
        return tl_ctx_status(g->ctx);
    made[0]->node->path = call->path;
    TL_TRY(tli_move_new(g, last, call));
    for (int k = 0; k < 3; k++) TL_TRY(tli_replace(g, call->out[k], made[k]));
    last = g->ctx->last;
    tl_tensor *seen = tl_reshape(g->ctx, made[3], n->out[0]->shape);
    if (!seen) return tl_ctx_status(g->ctx);
    TL_TRY(tli_move_new(g, last, n));
    TL_TRY(tli_replace(g, n->out[0], seen));
    tli_remove(g, n);
    return TL_OK;
}

/* --- products --------------------------------------------------------------------------------- */

/* Whether a nest could compute it with what follows it: it costs nothing then. */
static bool is_fused(const tl_graph *g, const tl_node *n)
{
    TLI_EACH_USE(g, n->out[0], u)
    if (tli_is_elementwise(tli_user(g, u))) return true;
    return false;
}

static tl_tensor *widened(tl_graph *g, const tl_node *call)
{
    if (call->op->op == TL_OP_matmul) {
        tl_matmul_attr attr = *(const tl_matmul_attr *)call->attr;
        attr.wide = true;
        return tl_apply(g->ctx, TL_OP_matmul, &attr, 2, call->in);
    }
    tl_conv_attr attr = *(const tl_conv_attr *)call->attr;
    attr.wide = true;
    return tl_apply(g->ctx, TL_OP_convolve2d_filter_grad, &attr, 2, call->in);
}

static bool can_be_wide(const tl_node *call)
{
    if (call->op->op == TL_OP_matmul) return call->inputs == 2;
    return call->op->op == TL_OP_convolve2d_filter_grad
           && ((const tl_conv_attr *)call->attr)->groups == 1;
}

/* A product of half precision that becomes float32 at once: its sums are that. The gradient of a
 * filter becomes it where it is put in order anyway. */
static tl_status join_widening(bool *done, tl_graph *g, tl_node *n)
{
    *done = false;
    tl_tensor *product = before_widening(g, n);
    tl_node *call = product ? product->node : NULL, *last = g->ctx->last;
    if (!call || !can_be_wide(call) || product != n->in[0] || is_fused(g, n)) return TL_OK;
    *done = has_forms(g, call);
    if (!*done) return TL_OK;
    tl_tensor *made = widened(g, call);
    if (!made) return tl_ctx_status(g->ctx);
    made->node->path = call->path;
    TL_TRY(tli_move_new(g, last, call));
    TL_TRY(tli_replace(g, n->out[0], made));
    tli_remove(g, n);
    return TL_OK;
}

enum { LEAST_TERMS = 1 << 28 }; // multiply-adds; below, kernels of one's own may do better

/* A product that something can be added to: with a bias, or a large one of one long matrix. */
static bool takes_more(const tl_node *call)
{
    if (call->op->op == TL_OP_linear)
        return call->inputs == 3 && call->in[1]->shape.dims[0]
               && ((const tl_linear_attr *)call->attr)->activation == TL_ACT_NONE;
    if (call->op->op != TL_OP_matmul || call->inputs != 2 || call->in[1]->shape.rank != 2
        || tl_node_flops(call) < 2.0 * LEAST_TERMS)
        return false;
    const tl_matmul_attr *attr = call->attr;
    return !attr->transpose_a && !attr->wide && call->in[1]->shape.dims[attr->transpose_b ? 1 : 0];
}

/* x + linear(...), where the sum lies as the result does. */
static tl_status join_product(bool *done, tl_graph *g, tl_node *n)
{
    enum { MOST_INPUTS = 4, OUTPUTS = 2 };
    *done = false;
    for (int i = 0; i < 2 && n->op->op == TL_OP_add && !*done; i++) {
        tl_tensor *product = n->in[i], *other = n->in[1 - i], *made[OUTPUTS], *in[MOST_INPUTS];
        tl_node *call = product->node, *last = g->ctx->last;
        if (!call || !takes_more(call) || product != call->out[0] || !is_added_to(g, product, other)
            || !tli_may_move(g, call, n))
            continue;
        *done = has_forms(g, call);
        if (!*done) continue;
        tl_matmul_attr with = {.added = true};
        const void *attr = call->attr;
        if (call->op->op == TL_OP_matmul) {
            with.transpose_b = ((const tl_matmul_attr *)attr)->transpose_b;
            attr = &with;
        }
        for (int k = 0; k < call->inputs; k++) in[k] = call->in[k];
        in[call->inputs] = other;
        if (!tl_apply_all(g->ctx, call->op->op, attr, call->inputs + 1, in, made))
            return tl_ctx_status(g->ctx);
        made[0]->node->path = call->path;
        TL_TRY(tli_move_new(g, last, n));
        TL_TRY(tli_replace(g, n->out[0], made[0]));
        tli_remove(g, n);
    }
    return TL_OK;
}

/* relu_grad(matmul(...), y), where that product takes no longer with it. */
static tl_status join_relu(bool *done, tl_graph *g, tl_node *n)
{
    *done = false;
    if (n->op->op != TL_OP_relu_grad) return TL_OK;
    tl_tensor *product = n->in[0], *y = n->in[1], *made;
    tl_node *call = product->node, *last = g->ctx->last;
    if (!call || call->op->op != TL_OP_matmul || call->inputs != 2
        || ((const tl_matmul_attr *)call->attr)->wide || !is_added_to(g, product, y)
        || (y->node && !tli_is_before(g, y->node, call)) || tli_is_changed_between(g, y, call, n))
        return TL_OK;
    tl_tensor *in[] = {call->in[0], call->in[1], y};
    const tl_node with = {
        .op = call->op, .attr = call->attr, .in = in, .inputs = 3, .out = call->out, .outputs = 1};
    *done = has_forms(g, &with);
    if (!*done) return TL_OK;
    if (!(made = tl_apply(g->ctx, TL_OP_matmul, call->attr, 3, in))) return tl_ctx_status(g->ctx);
    made->node->path = call->path;
    TL_TRY(tli_move_new(g, last, call));
    TL_TRY(tli_replace(g, n->out[0], made));
    tli_remove(g, n);
    return TL_OK;
}

/* The gradient of gelu by tanh, of a product that is large enough. */
static tl_status join_gelu(bool *done, tl_graph *g, tl_node *n)
{
    *done = false;
    if (n->op->op != TL_OP_gelu_grad || !((const tl_gelu_attr *)n->attr)->approximate) return TL_OK;
    tl_tensor *product = n->in[0], *other = n->in[1];
    tl_node *call = product->node, *last = g->ctx->last;
    if (!call || call->op->op != TL_OP_matmul || !takes_more(call) || product != call->out[0]
        || product->dtype == TL_F32 || product->dtype == TL_F64 || !is_added_to(g, product, other)
        || !tli_may_move(g, call, n))
        return TL_OK;
    *done = has_forms(g, call);
    if (!*done) return TL_OK;
    tl_matmul_attr attr = *(const tl_matmul_attr *)call->attr;
    attr.gelu_grad = true;
    tl_tensor *in[] = {call->in[0], call->in[1], other};
    tl_tensor *made = tl_apply(g->ctx, TL_OP_matmul, &attr, 3, in);
    if (!made) return tl_ctx_status(g->ctx);
    made->node->path = n->path;
    TL_TRY(tli_move_new(g, last, n));
    TL_TRY(tli_replace(g, n->out[0], made));
    tli_remove(g, n);
    return TL_OK;
}

/* --- pooling ---------------------------------------------------------------------------------- */

/* The call that pools the image which `n` is a gradient for, where nobody behind it reads that
 * image but `n`. NULL: it is kept for others anyway. */
static tl_node *last_but_gradient(const tl_graph *g, const tl_node *n)
{
    const tl_tensor *x = n->in[1];
    tl_node *pool = NULL;
    if (x->view_of || !x->node || tli_is_output(g, x)) return NULL;
    TLI_EACH_USE(g, x, u)
    {
        tl_node *user = tli_user(g, u);
        if (tli_is_view(user)) return NULL;
        if (user != n && (!pool || tli_is_before(g, pool, user))) pool = user;
    }
    const bool pools = pool && pool->op->op == TL_OP_max_pool2d && tli_is_before(g, pool, n)
                       && tl_desc_equal(n->op->attr, pool->attr, n->attr);
    return pools && !tli_is_changed_between(g, x, pool, n) ? pool : NULL;
}

/* max_pool2d_grad(..., x): which elements of x are the largest is found where it is pooled. */
static tl_status join_places(bool *done, tl_graph *g, tl_node *n)
{
    *done = false;
    if (n->op->op != TL_OP_max_pool2d_grad || n->in[1]->dtype == TL_U8
        || !tli_pool_counts_in_bytes(n->attr))
        return TL_OK;
    tl_node *pool = last_but_gradient(g, n), *last = g->ctx->last;
    if (!pool) return TL_OK;
    const tl_node find = {.op = &tl_op_max_pool2d_places,
                          .attr = pool->attr,
                          .in = pool->in,
                          .inputs = 1,
                          .out = pool->out,
                          .outputs = 1};
    *done = has_forms(g, &find);
    if (!*done) return TL_OK;
    tl_tensor *places = tl_apply(g->ctx, TL_OP_max_pool2d_places, pool->attr, 1, pool->in);
    if (!places) return tl_ctx_status(g->ctx);
    places->node->path = pool->path;
    TL_TRY(tli_move_new(g, last, pool));
    last = g->ctx->last;
    tl_pool_attr attr = *(const tl_pool_attr *)n->attr;
    attr.height = n->in[1]->shape.dims[1];
    attr.width = n->in[1]->shape.dims[2];
    tl_tensor *in[] = {n->in[0], places};
    tl_tensor *made = tl_apply(g->ctx, TL_OP_max_pool2d_grad, &attr, 2, in);
    if (!made) return tl_ctx_status(g->ctx);
    made->node->path = n->path;
    TL_TRY(tli_move_new(g, last, n));
    TL_TRY(tli_replace(g, n->out[0], made));
    tli_remove(g, n);
    return TL_OK;
}

/* --- losses ----------------------------------------------------------------------------------- */

/* The same number everywhere, which is put there now, not in each run. */
static tl_tensor *known(tl_graph *g, const tl_tensor *like, double number)
{
    const int64_t count = tl_tensor_count(like);
    double *elements = tl_arena_array(g->scratch, count, sizeof *elements);
    tl_tensor *t = elements ? tl_ctx_header(g->ctx) : NULL;
    if (!t) return tl_ctx_fail(g->ctx);
    for (int64_t i = 0; i < count; i++) elements[i] = number;
    t->dtype = like->dtype;
    t->shape = like->shape;
    tli_tensor_row_major(t);
    if (!tl_ctx_storage(g->ctx, t) || tl_tensor_set_doubles(t, elements, count) != TL_OK
        || tli_add_outside(g, NULL, t) != TL_OK)
        return tl_ctx_fail(g->ctx);
    return t;
}

/* The gradient of a loss whose own gradient is a number that is known beforehand. */
static tl_status join_loss(bool *done, tl_graph *g, tl_node *n)
{
    enum { OUTPUTS = 3 };
    double number;
    *done = false;
    if (n->op->op != TL_OP_sparse_cross_entropy_grad) return TL_OK;
    tl_node *loss = n->in[3]->node, *last = g->ctx->last;
    if (!loss || loss->op->op != TL_OP_sparse_cross_entropy || loss->inputs != 2
        || n->in[3] != loss->out[1] || n->in[1] != loss->in[0] || n->in[2] != loss->in[1]
        || !tli_is_number(g, n->in[0], &number) || tli_is_changed_between(g, n->in[2], loss, n)
        || tli_is_changed_between(g, n->in[1], loss, n))
        return TL_OK;
    *done = has_forms(g, loss);
    if (!*done) return TL_OK;
    tl_tensor *made[OUTPUTS], *slope = known(g, n->in[0], number);
    tl_tensor *in[] = {loss->in[0], loss->in[1], slope};
    if (!slope || !tl_apply_all(g->ctx, TL_OP_sparse_cross_entropy, loss->attr, OUTPUTS, in, made))
        return tl_ctx_status(g->ctx);
    made[0]->node->path = loss->path;
    TL_TRY(tli_move_new(g, last, loss));
    for (int i = 0; i < 2; i++) TL_TRY(tli_replace(g, loss->out[i], made[i]));
    TL_TRY(tli_replace(g, n->out[0], made[2]));
    tli_remove(g, n);
    return TL_OK;
}

/* The loss of logits that were widened for it alone: it reads them as they were, and computes the
 * same numbers. */
static tl_status narrow_loss(bool *done, tl_graph *g, tl_node *n)
{
    enum { OUTPUTS = 3 };
    *done = false;
    if (n->op->op != TL_OP_sparse_cross_entropy || n->inputs != 2 || n->in[1]->dtype != TL_F32)
        return TL_OK;
    const tl_node *cast = n->in[1]->node;
    tl_node *last = g->ctx->last;
    if (!cast || cast->op->op != TL_OP_cast || tli_use_count(g, n->in[1]) != 1
        || (cast->in[0]->dtype != TL_BF16 && cast->in[0]->dtype != TL_F16)
        || tli_is_changed_between(g, cast->in[0], cast, n))
        return TL_OK;
    tl_tensor *made[OUTPUTS], *in[] = {n->in[0], cast->in[0]};
    if (!tl_apply_all(g->ctx, n->op->op, n->attr, 2, in, made)) return tl_ctx_status(g->ctx);
    made[0]->node->path = n->path;
    TL_TRY(tli_move_new(g, last, n));
    for (int i = 0; i < 2; i++) TL_TRY(tli_replace(g, n->out[i], made[i]));
    tli_remove(g, n);
    *done = true;
    return TL_OK;
}

/* --- classes ---------------------------------------------------------------------------------- */

enum { UNIT = 8, LEAST_CLASSES = 1024, MOST_PRODUCTS = 4 };

/* Products that the gradient of logits, seen through views, is the left side of. */
typedef struct slopes {
    tl_node *items[MOST_PRODUCTS];
    int count;
} slopes;

static bool is_plain_matrix(const tl_tensor *t, int64_t rows)
{
    return t->shape.rank == 2 && t->shape.dims[0] == rows && t->contiguous;
}

static bool is_seen_outside(const tl_graph *g, const tl_tensor *t)
{
    if (tli_is_output(g, t)) return true;
    TLI_EACH_USE(g, t, u)
    {
        const tl_node *n = tli_user(g, u);
        if (tli_is_view(n) && is_seen_outside(g, n->out[0])) return true;
    }
    return false;
}

/* False where somebody else sees it. What becomes a part of something larger is no output. */
static bool collect(const tl_graph *g, const tl_tensor *t, int64_t classes, slopes *out)
{
    if (tli_is_output(g, t) || !t->contiguous || t->shape.dims[t->shape.rank - 1] != classes)
        return false;
    TLI_EACH_USE(g, t, u)
    {
        tl_node *n = tli_user(g, u);
        const tl_matmul_attr *attr = n->attr;
        if (tli_is_view(n)) {
            if (n->op->op != TL_OP_reshape || !collect(g, n->out[0], classes, out)) return false;
            continue;
        }
        if (n->op->op != TL_OP_matmul || n->inputs != 2 || n->in[0] != t || n->in[1] == t
            || attr->transpose_b || out->count == MOST_PRODUCTS)
            return false;
        if (attr->transpose_a ? t->shape.rank != 2 || is_seen_outside(g, n->out[0])
                              : !is_plain_matrix(n->in[1], classes))
            return false;
        out->items[out->count++] = n;
    }
    return true;
}

/* With rows of zeros behind it. */
static tl_tensor *padded(tl_graph *g, tl_tensor *table)
{
    const tl_tensor few = {.dtype = table->dtype,
                           .shape =
                               TL_SHAPE(UNIT - table->shape.dims[0] % UNIT, table->shape.dims[1])};
    tl_tensor *parts[] = {table, known(g, &few, 0)};
    return parts[1] ? tl_concat(g->ctx, parts, 2, 0) : NULL;
}

static tl_tensor *with_classes(tl_ctx *c, tl_tensor *t, tl_shape shape, int64_t classes)
{
    shape.dims[shape.rank - 1] = classes;
    return tl_reshape(c, t, shape);
}

/* A product of the gradient, which has more columns now. */
static tl_status multiply_padded(tl_graph *g, tl_node *n, tl_tensor *slope, tl_tensor *table,
                                 const tl_tensor *was)
{
    const tl_matmul_attr *attr = n->attr;
    const int64_t classes = n->in[0]->shape.dims[n->in[0]->shape.rank - 1];
    tl_node *last = g->ctx->last;
    tl_tensor *in[] = {
        with_classes(g->ctx, slope, n->in[0]->shape, slope->shape.dims[slope->shape.rank - 1]),
        n->in[1]};
    if (!attr->transpose_a) in[1] = n->in[1] == was ? table : padded(g, n->in[1]);
    tl_tensor *made = in[0] && in[1] ? tl_apply(g->ctx, TL_OP_matmul, attr, 2, in) : NULL;
    if (!made) return tl_ctx_status(g->ctx);
    made->node->path = n->path;
    if (attr->transpose_a) made = tl_slice(g->ctx, made, 0, 0, classes, 1);
    if (!made) return tl_ctx_status(g->ctx);
    TL_TRY(tli_move_new(g, last, n));
    TL_TRY(tli_replace(g, n->out[0], made));
    return TL_OK;
}

/* Logits of a number of classes that lie badly in memory: products of half precision take rows that
 * begin at multiples of 16 bytes, and are three times as slow with others. The table that they are
 * products with gets rows of zeros, the loss leaves the classes behind the others out, and their
 * gradient is 0. */
static tl_status pad_classes(bool *done, tl_graph *g, tl_node *n)
{
    enum { OUTPUTS = 3 };
    *done = false;
    if (n->op->op != TL_OP_sparse_cross_entropy || n->inputs != OUTPUTS) return TL_OK;
    tl_entropy_attr attr = *(const tl_entropy_attr *)n->attr;
    tl_tensor *z = n->in[1], *scores = tli_root(z), *made[OUTPUTS];
    tl_node *product = scores->node, *last = g->ctx->last;
    const int64_t classes = z->shape.dims[z->shape.rank - 1];
    const bool plain = product && product->op->op == TL_OP_matmul && product->inputs == 2;
    const tl_matmul_attr *how = plain ? product->attr : NULL;
    slopes all = {0};
    if (!how || how->transpose_a || !how->transpose_b || how->wide || attr.smoothing > 0
        || attr.classes || classes % UNIT == 0 || classes < LEAST_CLASSES
        || (z->dtype != TL_BF16 && z->dtype != TL_F16) || !z->contiguous
        || scores->shape.dims[scores->shape.rank - 1] != classes || !is_seen_once(g, z, scores)
        || !is_plain_matrix(product->in[1], classes) || !collect(g, n->out[2], classes, &all))
        return TL_OK;
    *done = has_forms(g, n);
    if (!*done) return TL_OK;
    tl_tensor *was = product->in[1], *table = padded(g, was), *in[] = {product->in[0], table};
    tl_tensor *y = table ? tl_apply(g->ctx, TL_OP_matmul, how, 2, in) : NULL;
    if (!y) return tl_ctx_status(g->ctx);
    y->node->path = product->path;
    TL_TRY(tli_move_new(g, last, product));
    last = g->ctx->last;
    attr.classes = classes;
    tl_tensor *given[] = {n->in[0], with_classes(g->ctx, y, z->shape, table->shape.dims[0]),
                          n->in[2]};
    if (!given[1] || !tl_apply_all(g->ctx, n->op->op, &attr, OUTPUTS, given, made))
        return tl_ctx_status(g->ctx);
    made[0]->node->path = n->path;
    TL_TRY(tli_move_new(g, last, n));
    for (int i = 0; i < 2; i++) TL_TRY(tli_replace(g, n->out[i], made[i]));
    for (int i = 0; i < all.count; i++)
        TL_TRY(multiply_padded(g, all.items[i], made[2], table, was));
    return TL_OK;
}

/* --- sums ------------------------------------------------------------------------------------- */

/* What is added in place is multiplied by a number before, for this alone. */
static tl_status join_scale(bool *done, tl_graph *g, tl_node *n)
{
    *done = false;
    if (n->op->op != TL_OP_assign || !((const tl_assign_attr *)n->attr)->add) return TL_OK;
    const tl_node *call = n->in[1]->node;
    const tl_affine_attr *a = call && call->op->op == TL_OP_affine ? call->attr : NULL;
    tl_node *last = g->ctx->last;
    if (!a || a->shift != 0 || a->scale == 0 || n->in[1]->view_of || tli_use_count(g, n->in[1]) != 1
        || tli_is_output(g, n->in[1]) || !call->in[0]->contiguous
        || tli_is_changed_between(g, call->in[0], call, n))
        return TL_OK;
    *done = has_forms(g, n);
    if (!*done) return TL_OK;
    tl_tensor *in[] = {n->in[0], call->in[0], n->inputs > 2 ? n->in[2] : NULL}, *none[1] = {NULL};
    if (!tl_apply_all(g->ctx, TL_OP_assign, &(tl_assign_attr){.add = true, .scale = a->scale},
                      n->inputs, in, none))
        return tl_ctx_status(g->ctx);
    g->ctx->last->path = n->path;
    TL_TRY(tli_move_new(g, last, n));
    tli_remove(g, n);
    return TL_OK;
}

/* --- the pass --------------------------------------------------------------------------------- */

typedef tl_status rule(bool *done, tl_graph *g, tl_node *n);

static tl_status apply_rules(tl_graph *g, rule *const *rules, int count, int64_t *changes)
{
    TLI_EACH_NODE_SAFE(g, n, next) {
        bool done = false;
        for (int i = 0; i < count && !done; i++) TL_TRY(rules[i](&done, g, n));
        *changes += done;
    }
    return TL_OK;
}

tl_status tli_pass_join(tl_graph *g, int64_t *changes)
{
    static rule *const rules[] = {join_attention, join_norm,     join_product, join_relu,
                                  join_gelu,      join_places,   narrow_loss,  join_loss,
                                  join_norm_sum,  join_widening, join_scale};
    static rule *const later[] = {pad_classes}; // of losses that have their gradient
    int64_t dead = 0, more = 0;                 // what others compute now
    TL_TRY(apply_rules(g, rules, TL_COUNT(rules), changes));
    if (*changes) TL_TRY(tli_pass_dead(g, &dead));
    TL_TRY(apply_rules(g, later, TL_COUNT(later), &more));
    *changes += more;
    return more ? tli_pass_dead(g, &dead) : TL_OK;
}
