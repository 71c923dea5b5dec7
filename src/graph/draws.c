/* Draws once what is dropped twice. Dropout and its gradient drop the same elements, and attention
 * and its gradient the same weights. Where random numbers take longer than reading bytes does
 * (TL_KERNEL_DRAWS), the forward pass draws truth values that both read. What is left of dropout is
 * elementwise, and goes into nests with what stands beside it. The bits stay: the same words are
 * compared with the same number.
 *
 * Small tensors draw twice, and so does attention that is causal, which draws for what it sees
 * alone, or over so many keys that its truth values would take more than a part of what it keeps.
 * Recomputation draws again in place of keeping truth values. */
#include <math.h>

#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/sys/ops/apply.h>

#include "graph/graph.h"

enum {
    WORD_BITS = 24, /* of a word, which are compared */
    LEAST =
        1 << 16,   /* draws; fewer take some tens of microseconds, less than more nests are worth */
    KEPT_SHARE = 2 /* of the bytes of q, k, v and y: truth values may take one in so many */
};

/* A call that drops something. */
typedef struct drop {
    tl_node *call; /* NULL: done */
    int64_t key;
    double rate;
    tl_shape shape; /* of what is drawn */
} drop;

typedef struct drops {
    drop *items;
    int64_t count, capacity;
} drops;

static int64_t bytes_of(const tl_tensor *t)
{
    return tl_tensor_count(t) * (int64_t)tl_dtype_size(t->dtype);
}

/* Whether truth values are little beside what attention keeps; `first`: the input that is q. */
static bool are_little(const tl_node *n, int first, const tl_shape *scores)
{
    const tl_tensor *q = n->in[first], *k = n->in[first + 1], *v = n->in[first + 2];
    const int64_t y = bytes_of(v) / tl_max_i64(v->shape.dims[1] * v->shape.dims[2], 1)
                      * q->shape.dims[1] * q->shape.dims[2];
    return KEPT_SHARE * tl_shape_count(scores) <= bytes_of(q) + bytes_of(k) + bytes_of(v) + y;
}

static bool is_attention(const tl_node *n)
{
    return n->op->op == TL_OP_attend || n->op->op == TL_OP_attend_grad;
}

/* False where nothing is dropped, or drawing it again is no loss. */
static bool describe(drop *d, const tl_graph *g, tl_node *n)
{
    if (n->op->op == TL_OP_dropout) {
        const tl_dropout_attr *a = n->attr;
        if (a->per_example) return false;
        *d = (drop){n, a->key, a->rate, n->out[0]->shape};
    } else if (is_attention(n)) {
        const tl_attend_attr *a = n->attr;
        const int first = n->op->op == TL_OP_attend_grad;
        const tl_shape *q = &n->in[first]->shape, *k = &n->in[first + 1]->shape;
        *d = (drop){n, a->key, a->rate, TL_SHAPE(q->dims[0], q->dims[2], q->dims[1], k->dims[1])};
        // What is drawn again anyway is drawn where it is used.
        if (a->dropped || a->causal || g->recompute == TL_RECOMPUTE_SELECTIVE
            || !are_little(n, first, &d->shape))
            return false;
    } else {
        return false;
    }
    return d->rate > 0 && d->rate < 1 && tl_shape_count(&d->shape) >= LEAST
           && (tli_kernel_flags(g, n) & (TL_KERNEL_DRAWS | TL_KERNEL_STAGED)) == TL_KERNEL_DRAWS;
}

static bool are_alike(const drop *x, const drop *y)
{
    return x->key == y->key && x->rate == y->rate && is_attention(x->call) == is_attention(y->call)
           && tl_shape_equal(&x->shape, &y->shape);
}

/* Gives truth values, true where an element is dropped. */
static tl_status draw(tl_tensor **out, tl_graph *g, const drop *d)
{
    tl_node *last = g->ctx->last;
    const tl_random_attr attr = {.key = d->key,
                                 .a = ldexp(ceil(ldexp(d->rate, WORD_BITS)), -WORD_BITS),
                                 .shape = {d->shape.dims, d->shape.rank},
                                 .dtype = TL_BOOL};
    *out = tl_apply(g->ctx, TL_OP_random_bernoulli, &attr, 0, NULL);
    if (!*out) return tl_ctx_status(g->ctx);
    (*out)->node->path = d->call->path;
    return tli_move_new(g, last, d->call);
}

/* 0 where it is dropped, else a larger x. -0.0 is added to keep zeros of either sign. */
static tl_status choose(tl_graph *g, const drop *d, tl_tensor *dropped)
{
    tl_node *n = d->call, *last = g->ctx->last;
    tl_tensor *larger = tl_affine(g->ctx, n->in[0], 1 / (1 - d->rate), -0.0);
    tl_tensor *zero = tl_zeros(g->ctx, n->out[0]->dtype, TL_SCALAR);
    tl_tensor *instead = tl_where(g->ctx, dropped, zero, larger);
    if (!instead) return tl_ctx_status(g->ctx);
    larger->node->path = zero->node->path = instead->node->path = n->path;
    TL_TRY(tli_move_new(g, last, n));
    TL_TRY(tli_replace(g, n->out[0], instead));
    tli_remove(g, n);
    return TL_OK;
}

static tl_status tell_attention(tl_graph *g, const drop *d, tl_tensor *dropped)
{
    tl_attend_attr *attr = tl_arena_copy(g->ctx->arena, d->call->attr, sizeof *attr);
    if (!attr) return TL_ENOMEM;
    attr->dropped = true;
    d->call->attr = attr;
    return tli_add_input(g, d->call, dropped);
}

static tl_status tell(tl_graph *g, const drop *d, tl_tensor *dropped)
{
    return is_attention(d->call) ? tell_attention(g, d, dropped) : choose(g, d, dropped);
}

static tl_status draw_once(tl_graph *g, const drops *all, int64_t *changes)
{
    for (int64_t i = 0; i < all->count; i++) {
        const drop *d = &all->items[i];
        tl_tensor *dropped = NULL;
        for (int64_t k = i + 1; d->call && k < all->count; k++) {
            drop *again = &all->items[k];
            if (!again->call || !are_alike(d, again)) continue;
            if (!dropped) TL_TRY(draw(&dropped, g, d));
            TL_TRY(tell(g, again, dropped));
            again->call = NULL;
        }
        if (!dropped) continue;
        TL_TRY(tell(g, d, dropped));
        ++*changes;
    }
    return TL_OK;
}

tl_status tli_pass_draws(tl_graph *g, int64_t *changes)
{
    drops all = {0};
    drop d;
    tl_status st = TL_OK;
    TLI_EACH_NODE(g, n) {
        if (describe(&d, g, n) && !TL_VEC_PUSH(&all, d)) st = TL_ENOMEM;
    }
    if (st == TL_OK) st = draw_once(g, &all, changes);
    TL_VEC_FREE(&all);
    return st;
}
