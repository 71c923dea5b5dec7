#include <math.h>
#include <tilth/core/attrs.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/ops/create.h>
#include <tilth/ops/pack.h>

#include "graph/simplify.h"

/* --- copies ----------------------------------------------------------------------------------- */

// Memory that nobody writes, and nobody else hands out.
static bool is_own(const tl_graph *g, const tl_tensor *t)
{
    const tl_tensor *root = tli_root(t);
    return root->node && !tli_is_output(g, root) && !tli_is_written(g, root);
}

static bool may_go(const tl_graph *g, const tl_node *n)
{
    return is_own(g, n->in[0]) && !tli_is_written(g, n->out[0]);
}

// A copy of what is row-major already. An output keeps its copy unless it can be the thing itself.
static tl_tensor *drop_copy(tl_graph *g, tl_node *n)
{
    tl_tensor *x = n->in[0];
    if (n->op->op != TL_OP_copy || !x->contiguous || !may_go(g, n)) return NULL;
    return tli_is_output(g, n->out[0]) && x->view_of ? NULL : x;
}

static tl_tensor *drop_cast(tl_graph *g, tl_node *n)
{
    if (n->op->op != TL_OP_cast || n->in[0]->dtype != n->out[0]->dtype) return NULL;
    return may_go(g, n) && !tli_is_output(g, n->out[0]) ? n->in[0] : NULL;
}

/* --- gradients of half the size --------------------------------------------------------------- */

// Updates and norms read gradients of any float type, and convert them on the way.
static bool takes_any_float(const tl_node *n, int input)
{
    enum { GRADIENT = 1 };
    if (n->op->op == TL_OP_finite_and_norm) return true;
    return input == GRADIENT && n->op->flags & TL_OP_UPDATE;
}

static bool all_take_any_float(const tl_graph *g, const tl_tensor *t)
{
    if (tli_is_output(g, t)) return false;
    TLI_EACH_USE(g, t, u) if (!takes_any_float(tli_user(g, u), u->input)) return false;
    return true;
}

// Gradients that were widened only to be packed are packed as they are: the same numbers, and half
// the bytes.
static tl_tensor *pack_narrow(tl_graph *g, tl_node *n)
{
    if (n->op->op != TL_OP_pack || n->out[0]->dtype != TL_F32 || !all_take_any_float(g, n->out[0]))
        return NULL;
    const tl_pack_attr *a = n->attr;
    tl_tensor **sources = tl_arena_array(tl_ctx_arena(g->ctx), n->inputs, sizeof *sources);
    if (!sources) return tl_ctx_fail(g->ctx);
    for (int i = 0; i < n->inputs; i++) {
        sources[i] = tli_widened_from(g, n->in[i], n);
        if (!sources[i] || sources[i]->dtype != sources[0]->dtype) return NULL;
    }
    return tl_pack(g->ctx, n->inputs, sources, a->offsets.items, a->count);
}

/* --- logits of half the size ------------------------------------------------------------------ */

// Widening keeps their order.
static tl_tensor *narrow_argmax(tl_graph *g, tl_node *n)
{
    if (n->op->op != TL_OP_argmax && n->op->op != TL_OP_argmin) return NULL;
    tl_tensor *x = n->in[0]->dtype == TL_F32 ? tli_widened_from(g, n->in[0], n) : NULL;
    return x ? tl_apply(g->ctx, n->op->op, n->attr, 1, &x) : NULL;
}

// The gradient of a loss is computed in float32 whatever it is given, and rounded once.
static tl_tensor *narrow_loss_grad(tl_graph *g, tl_node *n)
{
    const tl_node *call = n->op->op == TL_OP_cast ? n->in[0]->node : NULL;
    if (!call || call->op->op != TL_OP_sparse_cross_entropy_grad || call->in[2]->dtype != TL_F32
        || tli_use_count(g, n->in[0]) != 1)
        return NULL;
    tl_tensor *z = tli_widened_from(g, call->in[2], n);
    if (!z || z->dtype != n->out[0]->dtype || tli_is_changed_between(g, call->in[0], call, n)
        || tli_is_changed_between(g, call->in[1], call, n)
        || tli_is_changed_between(g, call->in[3], call, n))
        return NULL;
    return TL_APPLY(g->ctx, sparse_cross_entropy_grad, call->attr, call->in[0], call->in[1], z,
                    call->in[3]);
}

/* --- numbers ---------------------------------------------------------------------------------- */

enum { MOST_FOLDED = 3 }; /* inputs: of elementwise ops, `where` has most */

static bool is_foldable(const tl_graph *g, const tl_node *n)
{
    double number;
    if (!tli_is_elementwise(n) || n->inputs > MOST_FOLDED) return false;
    for (int i = 0; i < n->inputs; i++)
        if (!tli_is_number(g, n->in[i], &number)) return false;
    return n->outputs == 1 && !tli_is_output(g, n->out[0]) && !tli_is_written(g, n->out[0]);
}

// Computes the call on single elements, by the kernels that would compute it on all of them.
static tl_status fold(tl_graph *g, const tl_node *n, double *out)
{
    tl_ctx *c = g->ctx;
    tl_tensor *in[MOST_FOLDED];
    TL_ASSERT(n->inputs <= MOST_FOLDED && n->outputs == 1);
    for (int i = 0; i < n->inputs; i++) {
        double number = 0;
        tli_is_number(g, n->in[i], &number);
        in[i] = tl_full(c, n->in[i]->dtype, TL_SHAPE(1), number);
    }
    tl_tensor *y = tl_apply(c, n->op->op, n->attr, n->inputs, in);
    TL_TRY(tl_ctx_status(c));
    return tl_tensor_item(y, out);
}

static tl_tensor *fold_numbers(tl_graph *g, tl_node *n)
{
    if (!is_foldable(g, n)) return NULL;
    tl_ctx *c = g->ctx;
    double number;
    tl_ctx_set_capturing(c, false);
    tl_mark mark = tl_ctx_begin(c);
    tl_status st = fold(g, n, &number);
    tl_ctx_end(c, mark);
    tl_ctx_set_capturing(c, true);
    if (st == TL_ENOMEM) return tl_ctx_fail(c);
    // A number is a double: larger integers stay calls.
    if (st != TL_OK || (!tl_dtype_is_float(n->out[0]->dtype) && fabs(number) > 0x1p53)) return NULL;
    return tl_full(c, n->out[0]->dtype, n->out[0]->shape, number);
}

// Equal numbers in whatever shape need not be copied.
static tl_tensor *make_numbers(tl_graph *g, tl_node *n)
{
    double number;
    if (n->op->op != TL_OP_copy || !tli_is_number(g, n->in[0], &number)) return NULL;
    return tli_is_output(g, n->out[0])
               ? NULL
               : tl_full(g->ctx, n->out[0]->dtype, n->out[0]->shape, number);
}

/* --- the pass --------------------------------------------------------------------------------- */

static tli_rule *const other_rules[] = {drop_copy,        drop_cast,    pack_narrow,  narrow_argmax,
                                        narrow_loss_grad, fold_numbers, make_numbers, NULL};

static tli_rule *const *const rules[] = {other_rules, tli_arithmetic_rules, tli_view_rules};

// What the first rule gives that applies; NULL: none does.
static tl_tensor *apply_rules(tl_graph *g, tl_node *n)
{
    for (size_t k = 0; k < TL_COUNT(rules); k++) {
        for (tli_rule *const *rule = rules[k]; *rule; rule++) {
            tl_tensor *instead = (*rule)(g, n);
            if (instead || tl_ctx_status(g->ctx) != TL_OK) return instead;
        }
    }
    return NULL;
}

tl_status tli_pass_simplify(tl_graph *g, int64_t *changes)
{
    TLI_EACH_NODE_SAFE(g, n, next) {
        tl_node *last = g->ctx->last;
        tl_tensor *instead = n->op != &tli_op_nest && n->outputs == 1 ? apply_rules(g, n) : NULL;
        TL_TRY(tl_ctx_status(g->ctx));
        if (!instead) continue;
        TL_TRY(tli_move_new(g, last, n));
        TL_ASSERT(tl_tensor_count(instead) == tl_tensor_count(n->out[0]) && instead != n->out[0]);
        TL_TRY(tli_replace(g, n->out[0], instead));
        tli_remove(g, n);
        next = n->after;
        ++*changes;
    }
    return TL_OK;
}
