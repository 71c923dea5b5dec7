/* Views of views, and what was cut into parts and is put together again. */
#include <string.h>
#include <tilth/core/attrs.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>

#include "graph/simplify.h"

static bool is_view_by(const tl_tensor *t, tl_op op)
{
    return t->view_of && t->node && t->node->op->op == op;
}

/* --- views ------------------------------------------------------------------------------------ */

// A view that shows all as it was.
static tl_tensor *drop_view(tl_graph *g, tl_node *n)
{
    const tl_tensor *y = n->out[0];
    tl_tensor *x = n->in[0];
    (void)g;
    if (!tli_is_view(n) || !tl_shape_equal(&x->shape, &y->shape) || x->offset != y->offset)
        return NULL;
    size_t size = (size_t)x->shape.rank * sizeof *x->strides;
    return memcmp(x->strides, y->strides, size) == 0 ? x : NULL;
}

static tl_tensor *join_transposes(tl_graph *g, tl_node *n)
{
    int64_t perm[TL_MAX_RANK];
    if (n->op->op != TL_OP_transpose || !is_view_by(n->in[0], TL_OP_transpose)) return NULL;
    const tl_transpose_attr *outer = n->attr, *inner = n->in[0]->node->attr;
    int rank = n->in[0]->shape.rank;
    bool same = true;
    for (int i = 0; i < rank; i++) {
        int64_t at = outer->perm.items[i] < 0 ? outer->perm.items[i] + rank : outer->perm.items[i];
        perm[i] = inner->perm.items[at] < 0 ? inner->perm.items[at] + rank : inner->perm.items[at];
        TL_ASSERT(at >= 0 && at < rank && perm[i] >= 0 && perm[i] < rank);
        same &= perm[i] == i;
    }
    tl_tensor *x = n->in[0]->view_of;
    return same ? x : tl_transpose(g->ctx, x, perm, rank);
}

// Only of what has no gaps: other elements may have to be copied on the way.
static tl_tensor *join_reshapes(tl_graph *g, tl_node *n)
{
    if (n->op->op != TL_OP_reshape || !is_view_by(n->in[0], TL_OP_reshape)) return NULL;
    tl_tensor *x = n->in[0]->view_of;
    return x->contiguous ? tl_reshape(g->ctx, x, n->out[0]->shape) : NULL;
}

static tl_tensor *join_broadcasts(tl_graph *g, tl_node *n)
{
    if (n->op->op != TL_OP_broadcast_to || !is_view_by(n->in[0], TL_OP_broadcast_to)) return NULL;
    return tl_broadcast_to(g->ctx, n->in[0]->view_of, n->out[0]->shape);
}

/* --- parts ------------------------------------------------------------------------------------ */
/* Gradients of slices are put into zeros and added up: three times the elements that there are,
 * when a tensor was cut into three. */

enum { MOST_PARTS = 16 }; /* on the stack; what is cut is usually queries, keys and values */

typedef struct parts {
    const tl_node *items[MOST_PARTS]; /* calls of unslice, in the order of where they begin */
    int count, axis;                  /* axis of -1: not known yet */
} parts;

static bool is_used_once(const tl_graph *g, const tl_tensor *t)
{
    return tli_use_count(g, t) == 1 && !tli_is_written(g, t);
}

// Where a part begins, along the one axis along which it is less than the whole.
static int64_t begin_of(const tl_node *n, int axis)
{
    return ((const tl_unslice_attr *)n->attr)->starts.items[axis];
}

static bool add_part(parts *p, const tl_node *n)
{
    const tl_unslice_attr *a = n->attr;
    const tl_shape *part = &n->in[0]->shape, *whole = &n->out[0]->shape;
    if (p->count == MOST_PARTS) return false;
    for (int i = 0; i < whole->rank; i++) {
        if (part->dims[i] != 1 && a->steps.items[i] != 1) return false;
        if (part->dims[i] == whole->dims[i]) continue;
        if (p->axis >= 0 && p->axis != i) return false;
        p->axis = i;
    }
    if (p->axis < 0) return false;
    int at = p->count++;
    TL_ASSERT(p->count <= MOST_PARTS);
    for (; at > 0 && begin_of(p->items[at - 1], p->axis) > begin_of(n, p->axis); at--)
        p->items[at] = p->items[at - 1];
    p->items[at] = n;
    return true;
}

// Sums of parts, in whatever order; nobody else sees them.
static bool find_parts(parts *p, const tl_graph *g, const tl_node *sum)
{
    for (int i = 0; i < 2; i++) {
        const tl_node *n = sum->in[i]->node;
        if (!n || sum->in[i]->view_of || (n->op->op != TL_OP_unslice && n->op->op != TL_OP_add)
            || !tl_shape_equal(&sum->in[i]->shape, &sum->out[0]->shape)
            || !is_used_once(g, sum->in[i]))
            return false;
        if (n->op->op == TL_OP_add ? !find_parts(p, g, n) : !add_part(p, n)) return false;
    }
    return true;
}

// Whether they lie one behind another and leave nothing out.
static bool cover_all(const parts *p)
{
    int64_t end = 0;
    for (int i = 0; i < p->count; i++) {
        if (begin_of(p->items[i], p->axis) != end) return false;
        end += p->items[i]->in[0]->shape.dims[p->axis];
    }
    return p->count > 1 && end == p->items[0]->out[0]->shape.dims[p->axis];
}

// Joins the axes from this one on, so that parts lie behind each other in rows.
static tl_shape rows_of(const tl_shape *shape, int axis)
{
    tl_shape rows = *shape;
    rows.rank = axis + 1;
    for (int i = axis + 1; i < shape->rank; i++) rows.dims[axis] *= shape->dims[i];
    TL_ASSERT(tl_shape_count(&rows) == tl_shape_count(shape));
    return rows;
}

static tl_tensor *join_parts(tl_graph *g, tl_node *n)
{
    parts p = {.axis = -1};
    tl_tensor *in[MOST_PARTS];
    if (n->op->op != TL_OP_add || !find_parts(&p, g, n) || !cover_all(&p)) return NULL;
    if (tli_is_output(g, n->out[0]) || tli_is_written(g, n->out[0])) return NULL;
    for (int i = 0; i < p.count; i++)
        if (tli_is_written(g, p.items[i]->in[0])) return NULL;
    for (int i = 0; i < p.count; i++) {
        tl_tensor *part = p.items[i]->in[0];
        in[i] = tl_reshape(g->ctx, part, rows_of(&part->shape, p.axis));
    }
    tl_tensor *whole = tl_concat(g->ctx, in, p.count, p.axis);
    // Zeros were added to all of them, which makes 0.0 of -0.0.
    if (whole && tl_dtype_is_float(whole->dtype)) whole = tl_affine(g->ctx, whole, 1, 0);
    return tl_reshape(g->ctx, whole, n->out[0]->shape);
}

tli_rule *const tli_view_rules[] = {drop_view,       join_transposes, join_reshapes,
                                    join_broadcasts, join_parts,      NULL};
