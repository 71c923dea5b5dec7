/* Computes cheap results a second time, right before they are needed again, instead of keeping
 * them: the outputs of activations, sums and dropout that the backward pass reads. Only where what
 * they are made of is there at that time anyway. Draws have keys, so dropout drops the same
 * elements again. */
#include <tilth/core/attrs.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/ops/matmul.h>

#include "graph/graph.h"

enum {
    /* Smaller ones are not worth a kernel: a page, beside which starting one takes as long */
    LEAST_BYTES = 4096,
    /* Calls between the two uses: nearer ones lie in one layer, whose memory is there anyway */
    LEAST_DISTANCE = 16,
    MOST_INPUTS = 3, /* of elementwise ops, `where` has most */
    /* Cheap calls in a row: computing them again stays cheaper than a sweep or two over memory */
    MOST_DEPTH = 4
};

// Whether the elements of `t`, which `n` reads, are there as they were until call `last` has run.
static bool is_there(const tl_graph *g, const tl_tensor *t, const tl_node *n, const tl_node *last)
{
    const tl_tensor *root = tli_root(t);
    if (!root->node && root->storage) return !tli_is_changed_between(g, t, n, last);
    if (tli_is_written(g, root)) return false;
    return !root->node || tli_is_output(g, root) || tli_is_read_after(g, t, last, true);
}

typedef struct reuse {
    tl_node *first, *last; /* calls that use it again */
} reuse;

// False when there are none, or when others write the tensor or see it early through views.
static bool is_used_again(const tl_graph *g, int64_t far, const tl_node *maker, reuse *out)
{
    const tl_tensor *t = maker->out[0];
    *out = (reuse){0};
    TLI_EACH_USE(g, t, u)
    {
        tl_node *n = tli_user(g, u);
        bool early = n->index - maker->index <= far;
        if (tli_is_view(n) && early) return false;
        if (early) continue;
        if (tli_is_before(g, n, out->first)) out->first = n;
        if (!out->last || tli_is_before(g, out->last, n)) out->last = n;
    }
    // A view is used until the last reader of the memory has come.
    if (out->last && tli_is_view(out->last)) out->last = tli_last_reader(g, t);
    return out->first && !tli_is_output(g, t) && !tli_is_written(g, t);
}

// From call `first` on.
static tl_status use_instead(tl_graph *g, const tl_node *first, const tl_tensor *t,
                             tl_tensor *instead)
{
    for (const tli_use *u = tli_first_use(g, t), *next; u; u = next) {
        tl_node *user = tli_user(g, u);
        next = tli_next_use(g, u);
        if (!tli_is_before(g, user, first)) TL_TRY(tli_set_input(g, user, u->input, instead));
    }
    return TL_OK;
}

static bool is_cheap(const tl_node *n)
{
    const tl_op op = n->op->op;
    const bool from_nothing = op == TL_OP_random_bernoulli || op == TL_OP_full;
    return n->outputs == 1 && n->inputs <= MOST_INPUTS
           && (tli_is_elementwise(n) || op == TL_OP_dropout || from_nothing);
}

// Only where the op that follows gives the very bits again, as gradients of maxima ask for equal
// elements: what was rounded on the way out gives others.
static bool hands_out_its_sum(const tl_node *n)
{
    return n->op->op == TL_OP_linear && ((const tl_linear_attr *)n->attr)->keep_sum
           && (n->out[1]->dtype == TL_F32 || n->out[1]->dtype == TL_F64);
}

// What the result of `n` is made of when it is computed again: its inputs, or the sum that it kept.
static int made_of(const tl_node *n, tl_tensor *const **in)
{
    *in = hands_out_its_sum(n) ? &n->out[1] : n->in;
    return hands_out_its_sum(n) ? 1 : n->inputs;
}

// Whether `t`, which `n` reads, is there until `last`, or can be made from what is.
static bool can_be_made(const tl_graph *g, const tl_tensor *t, const tl_node *n,
                        const tl_node *last, int depth)
{
    if (is_there(g, t, n, last)) return true;
    const tl_node *maker = t->node;
    if (!maker || !depth || t->output != 0 || !(is_cheap(maker) || hands_out_its_sum(maker)))
        return false;
    tl_tensor *const *in;
    for (int i = 0, count = made_of(maker, &in); i < count; i++)
        if (!can_be_made(g, in[i], maker, last, depth - 1)) return false;
    return true;
}

static tl_tensor *make_again(tl_graph *g, const tl_node *n, const tl_node *last)
{
    tl_tensor *const *in, *again[MOST_INPUTS];
    int count = made_of(n, &in);
    TL_ASSERT(count <= MOST_INPUTS);
    for (int i = 0; i < count; i++)
        again[i] = is_there(g, in[i], n, last) ? in[i] : make_again(g, in[i]->node, last);
    if (!hands_out_its_sum(n)) return tl_apply(g->ctx, n->op->op, n->attr, count, again);
    return tl_activate(g->ctx, again[0], ((const tl_linear_attr *)n->attr)->activation);
}

// The result of `n` once more; NULL when what it is made of is not there until `last`.
static tl_tensor *compute_again(tl_graph *g, const tl_node *n, const tl_node *last)
{
    tl_tensor *const *in;
    for (int i = 0, count = made_of(n, &in); i < count; i++)
        if (!can_be_made(g, in[i], n, last, MOST_DEPTH)) return NULL;
    return make_again(g, n, last);
}

static tl_status recompute(tl_graph *g, tl_node *n, int64_t far, int64_t *changes)
{
    reuse r;
    tl_node *end = g->ctx->last;
    if (!is_used_again(g, far, n, &r)) return TL_OK;
    tl_tensor *again = compute_again(g, n, r.last);
    TL_TRY(tl_ctx_status(g->ctx));
    if (!again) return TL_OK;
    tl_node *made = end->after;
    TL_ASSERT(made && tl_shape_equal(&again->shape, &n->out[0]->shape)
              && tli_is_before(g, n, r.first));
    TL_TRY(tli_move_new(g, end, r.first));
    // until all are numbered again
    for (; made != r.first; made = made->after) made->index = r.first->index;
    TL_TRY(use_instead(g, r.first, n->out[0], again));
    ++*changes;
    return TL_OK;
}

// Weights for which no copy is kept from run to run (weight_copies.c), and inputs, are there all
// the time: to hold their casts between the passes as well would be a second copy of them.
static bool is_cast_of_what_stays(const tl_node *n)
{
    return n->op->op == TL_OP_cast && !n->in[0]->node;
}

static bool is_worth_it(const tl_graph *g, const tl_node *n)
{
    bool takes_part =
        is_cast_of_what_stays(n) || (g->recompute && (is_cheap(n) || hands_out_its_sum(n)));
    return takes_part && tl_tensor_bytes(n->out[0]) >= LEAST_BYTES;
}

tl_status tli_pass_recompute(tl_graph *g, int64_t *changes)
{
    if (g->recompute == TL_RECOMPUTE_FULL) return tli_recompute_full(g, changes);
    tl_node *first = g->ctx->first;
    while (first && !is_worth_it(g, first)) first = first->after;
    if (!first) return TL_OK;
    int64_t count = tli_number_nodes(g),
            far = count / 8 > LEAST_DISTANCE ? count / 8 : LEAST_DISTANCE;
    for (tl_node *n = first; n; n = n->after)
        if (is_worth_it(g, n)) TL_TRY(recompute(g, n, far, changes));
    return TL_OK;
}
