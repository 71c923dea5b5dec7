/* From a cluster of calls to the loop nest that computes them. */
#include <string.h>
#include <tilth/core/attrs.h>
#include <tilth/sys/nest/plan.h>

#include "graph/fuse.h"

static tl_status nest_infer(const tl_node *call)
{
    (void)call; // its outputs are those of the calls that it was made of
    return TL_OK;
}

static double nest_flops(const tl_node *call)
{
    const tl_nest *n = call->attr;
    double points = 1, flops = 0;
    for (int i = 0; i < n->rank; i++) points *= (double)n->dims[i];
    for (int64_t i = 0; i < n->term_count; i++)
        flops += n->terms[i].kind == TL_TERM_OP || n->terms[i].kind == TL_TERM_REDUCE ? points : 0;
    return flops;
}

const tl_op_class tli_op_nest = {
    .op = TL_OP_COUNT,
    .name = "nest",
    .help = "many ops in one sweep",
    .inputs_max = -1,
    .outputs = 1,
    .infer = nest_infer,
    .flops = nest_flops,
};

tl_status tli_nest_try_plan(tl_graph *g, const tl_nest *nest)
{
    const tl_nest_walk *plan;
    tl_arena_mark mark = tl_arena_begin(g->ctx->arena);
    tl_status st = tl_engine_nests(g->ctx->engine)->plan(&plan, g->ctx->arena, nest);
    tl_arena_end(g->ctx->arena, mark);
    return st;
}

/* --- what can be nested ----------------------------------------------------------------------- */

static bool is_reduction(const tl_node *n)
{
    switch (n->op->op) {
    case TL_OP_sum:
    case TL_OP_mean:
    case TL_OP_max:
    case TL_OP_min:
    case TL_OP_prod:
    case TL_OP_any:
    case TL_OP_all: return true;
    default: return false;
    }
}

static tl_op reduction_of(const tl_node *n)
{
    return n->op->op == TL_OP_mean ? TL_OP_sum : n->op->op;
}

bool tli_is_nestable(const tl_node *n, tl_shape *space)
{
    if (n->op == &tli_op_nest || tli_is_view(n) || tli_has_effects(n) || !n->inputs) return false;
    *space = n->out[0]->shape;
    if (is_reduction(n)) {
        const tl_reduce_attr *a = n->attr;
        *space = n->in[0]->shape;
        return a->axes.count > 0 && tl_shape_count(space) > 0
               && tl_nest_has_op(reduction_of(n), n->out[0]->dtype, n->in[0]->dtype);
    }
    if (n->op->op != TL_OP_copy
        && (!tli_is_elementwise(n) || n->inputs > TL_TERM_INPUTS
            || !tl_nest_has_op(n->op->op, n->out[0]->dtype,
                               n->in[n->op->by < 0 ? 0 : n->op->by]->dtype)))
        return false;
    return tl_shape_count(space) > 0;
}

/* --- how tensors walk along the axes ---------------------------------------------------------- */

static int64_t member_of(const tli_cluster *c, const tl_tensor *root)
{
    for (int64_t i = 0; root->node && i < c->members.count; i++)
        if (c->members.items[i] == root->node) return i;
    return -1;
}

// Dims of 1 come and go; the others keep their order.
static bool walk_reshaped(tli_walk *out, const tl_shape *to, const tli_walk *in,
                          const tl_shape *from)
{
    int d = 0;
    for (int i = 0; i < to->rank; i++) {
        out->axis[i] = -1;
        if (to->dims[i] == 1) continue;
        while (d < from->rank && from->dims[d] == 1) d++;
        if (d == from->rank || from->dims[d] != to->dims[i]) return false;
        out->axis[i] = in->axis[d++];
    }
    return true;
}

// Of a view of what a member made; false when a nest cannot see it so.
static bool walk_view(tli_walk *out, const tli_cluster *c, const tli_walk *walks,
                      const tl_tensor *t)
{
    if (!t->view_of) {
        TL_ASSERT(member_of(c, t) >= 0);
        *out = walks[member_of(c, t)];
        return true;
    }
    tli_walk in;
    const tl_tensor *x = t->view_of;
    if (!walk_view(&in, c, walks, x)) return false;
    int extra = t->shape.rank - x->shape.rank;
    switch (t->node->op->op) {
    case TL_OP_reshape: return walk_reshaped(out, &t->shape, &in, &x->shape);
    case TL_OP_transpose:
        for (int i = 0; i < t->shape.rank; i++)
            out->axis[i] = in.axis[((const tl_transpose_attr *)t->node->attr)->perm.items[i]];
        return true;
    case TL_OP_broadcast_to:
        for (int i = 0; i < t->shape.rank; i++)
            out->axis[i] = i >= extra && x->shape.dims[i - extra] != 1 ? in.axis[i - extra] : -1;
        return true;
    default: return false;
    }
}

// Dim i of `t` stands under dim i + extra of what it is broadcast to.
static bool agree(tli_walk *out, const tl_tensor *t, const tli_walk *walk, int rank)
{
    TL_ASSERT(rank >= t->shape.rank && rank <= TL_MAX_RANK);
    int extra = rank - t->shape.rank;
    for (int i = 0; i < t->shape.rank; i++) {
        if (t->shape.dims[i] == 1 || walk->axis[i] < 0) continue;
        int *axis = &out->axis[i + extra];
        if (*axis >= 0 && *axis != walk->axis[i]) return false;
        *axis = walk->axis[i];
    }
    return true;
}

// The walk of the space that one member iterates over, as far as other members say.
static bool inherit(tli_walk *out, const tli_cluster *c, const tli_walk *walks, const tl_node *n,
                    int rank)
{
    for (int i = 0; i < TL_MAX_RANK; i++) out->axis[i] = -1;
    for (int i = 0; i < n->inputs; i++) {
        tli_walk walk;
        if (member_of(c, tli_root(n->in[i])) < 0) continue;
        if (!walk_view(&walk, c, walks, n->in[i]) || !agree(out, n->in[i], &walk, rank))
            return false;
    }
    return true;
}

// A member over the whole space walks straight; one over less of it as its inputs do.
static bool complete(tli_walk *w, const tl_shape *space, const tl_shape *whole)
{
    bool used[TL_MAX_RANK] = {false};
    bool same = tl_shape_equal(space, whole);
    for (int i = 0; i < space->rank; i++) {
        if (space->dims[i] == 1) continue;
        if (w->axis[i] < 0 && same) w->axis[i] = i;
        if (w->axis[i] < 0 || used[w->axis[i]] || whole->dims[w->axis[i]] != space->dims[i])
            return false;
        used[w->axis[i]] = true;
    }
    return true;
}

// From the walk of the space to that of the output.
static void walk_output(tli_walk *out, const tl_node *n, const tli_walk *space,
                        const tl_shape *dims)
{
    *out = *space;
    if (!is_reduction(n)) return;
    const tl_reduce_attr *a = n->attr;
    int k = 0, next = 0;
    for (int i = 0; i < dims->rank; i++) {
        bool reduced = next < a->axes.count && a->axes.items[next] == i;
        next += reduced;
        if (!reduced || a->keep_dims) out->axis[k++] = reduced ? -1 : space->axis[i];
    }
}

static bool walk_member(tli_walk *out, const tli_cluster *c, const tli_walk *walks,
                        const tl_node *n, tl_shape *space)
{
    return tli_is_nestable(n, space) && inherit(out, c, walks, n, space->rank)
           && complete(out, space, &c->space);
}

bool tli_cluster_walks(const tli_cluster *c, tli_walk *walks)
{
    for (int64_t i = 0; i < c->members.count; i++) {
        tli_walk space_walk;
        tl_shape space;
        if (!walk_member(&space_walk, c, walks, c->members.items[i], &space)) return false;
        walk_output(&walks[i], c->members.items[i], &space_walk, &space);
    }
    return true;
}

/* --- terms ------------------------------------------------------------------------------------ */

typedef struct builder {
    const tl_graph *g;
    tl_arena *arena;
    const tli_cluster *c;
    tli_walk *walks;
    int *term_of; /* of each member's output */
    struct {
        tl_term *items;
        int64_t count, capacity;
    } terms;
    /* tensors from outside of the cluster */
    struct {
        tl_tensor **items;
        int64_t count, capacity;
    } loads;
} builder;

static int add_term(builder *b, tl_term t)
{
    return TL_VEC_PUSH(&b->terms, t) ? (int)b->terms.count - 1 : -1;
}

static int number_term(builder *b, tl_dtype dtype, double number)
{
    for (int64_t i = 0; i < b->terms.count; i++) {
        const tl_term *t = &b->terms.items[i];
        if (t->kind == TL_TERM_NUMBER && t->dtype == dtype
            && memcmp(&t->number, &number, sizeof number) == 0)
            return (int)i;
    }
    return add_term(b, (tl_term){.kind = TL_TERM_NUMBER, .dtype = dtype, .number = number});
}

static tl_access access_of(const tl_tensor *t, int buffer, const tli_walk *space, int rank)
{
    tl_access a = {.buffer = buffer, .dtype = t->dtype};
    int extra = rank - t->shape.rank;
    TL_ASSERT(extra >= 0);
    for (int i = 0; i < t->shape.rank; i++) {
        TL_ASSERT(t->shape.dims[i] == 1
                  || (space->axis[i + extra] >= 0 && space->axis[i + extra] < TL_MAX_RANK));
        if (t->shape.dims[i] != 1) a.strides[space->axis[i + extra]] = t->strides[i];
    }
    return a;
}

static int load_term(builder *b, tl_tensor *t, const tli_walk *space, int rank)
{
    int64_t buffer = 0;
    while (buffer < b->loads.count && b->loads.items[buffer] != t) buffer++;
    if (buffer == b->loads.count && !TL_VEC_PUSH(&b->loads, t)) return -1;
    tl_access from = access_of(t, (int)buffer, space, rank);
    for (int64_t i = 0; i < b->terms.count; i++)
        if (b->terms.items[i].kind == TL_TERM_LOAD
            && memcmp(&b->terms.items[i].from, &from, sizeof from) == 0)
            return (int)i;
    return add_term(b, (tl_term){.kind = TL_TERM_LOAD, .dtype = t->dtype, .from = from});
}

static int operand(builder *b, tl_tensor *t, const tli_walk *space, int rank)
{
    double number;
    int64_t member = member_of(b->c, tli_root(t));
    if (member >= 0) return b->term_of[member];
    if (tli_is_number(b->g, t, &number)) return number_term(b, t->dtype, number);
    return load_term(b, t, space, rank);
}

static int op_term(builder *b, tl_op op, tl_dtype dtype, const void *attr, int inputs,
                   const int *in, const char *note)
{
    TL_ASSERT(inputs <= TL_TERM_INPUTS);
    // Terms before it
    for (int i = 0; i < inputs; i++) TL_ASSERT(in[i] >= 0 && in[i] < b->terms.count);
    tl_term t = {
        .kind = TL_TERM_OP, .dtype = dtype, .op = op, .attr = attr, .inputs = inputs, .note = note};
    memcpy(t.in, in, (size_t)inputs * sizeof *in);
    return add_term(b, t);
}

static const char *note_of(const tl_node *n)
{
    return *n->path ? n->path : NULL;
}

static int cast_term(builder *b, int in, tl_dtype dtype, const tl_node *n)
{
    tl_cast_attr *cast = tl_arena_copy(b->arena, &(tl_cast_attr){dtype}, sizeof *cast);
    return cast && in >= 0 ? op_term(b, TL_OP_cast, dtype, cast, 1, &in, note_of(n)) : -1;
}

static int reduce_term(builder *b, const tl_node *n, int in, const tli_walk *space)
{
    const tl_reduce_attr *a = n->attr;
    tl_dtype dtype = n->out[0]->dtype;
    bool mean = n->op->op == TL_OP_mean;
    // A mean is rounded once, when it is divided.
    const tl_dtype within = mean && dtype != TL_F64 ? TL_F32 : dtype;
    if (within != dtype) in = cast_term(b, in, within, n);
    tl_term t = {.kind = TL_TERM_REDUCE,
                 .op = reduction_of(n),
                 .inputs = 1,
                 .in = {in},
                 .note = note_of(n),
                 .dtype = within};
    double count = 1;
    for (int64_t i = 0; i < a->axes.count; i++) {
        int axis = space->axis[a->axes.items[i]];
        if (axis < 0) continue;
        t.axes |= 1u << axis;
        TL_ASSERT(axis < b->c->space.rank);
        count *= (double)n->in[0]->shape.dims[a->axes.items[i]];
    }
    int result = in < 0 || !t.axes ? in : add_term(b, t);
    if (mean && t.axes && result >= 0) {
        int division[] = {result, number_term(b, within, count)};
        result = op_term(b, TL_OP_div, within, NULL, 2, division, note_of(n));
    }
    return within == dtype ? result : cast_term(b, result, dtype, n);
}

static tl_status add_member(builder *b, int64_t index)
{
    const tl_node *n = b->c->members.items[index];
    tli_walk space_walk;
    tl_shape space;
    int in[TL_TERM_INPUTS];
    if (!walk_member(&space_walk, b->c, b->walks, n, &space)) return TL_EINTERNAL;
    for (int i = 0; i < n->inputs; i++)
        if ((in[i] = operand(b, n->in[i], &space_walk, space.rank)) < 0) return TL_ENOMEM;
    int term = n->op->op == TL_OP_copy ? in[0]
               : is_reduction(n)
                   ? reduce_term(b, n, in[0], &space_walk)
                   : op_term(b, n->op->op, n->out[0]->dtype, n->attr, n->inputs, in, note_of(n));
    b->term_of[index] = term;
    return term < 0 ? TL_ENOMEM : TL_OK;
}

/* --- the node --------------------------------------------------------------------------------- */

static tl_status add_stores(builder *b, tl_node *node, tl_nest *nest,
                            bool (*is_needed)(const tl_tensor *t, const void *payload),
                            const void *payload)
{
    const tli_cluster *c = b->c;
    tl_nest_store *stores = tl_arena_array(b->arena, c->members.count, sizeof *stores);
    tl_tensor **out = tl_arena_array(b->arena, c->members.count, sizeof *out);
    if (!stores || !out) return TL_ENOMEM;
    for (int64_t i = 0; i < c->members.count; i++) {
        tl_tensor *t = c->members.items[i]->out[0];
        if (!is_needed(t, payload)) continue;
        int buffer = (int)b->loads.count + node->outputs;
        TL_ASSERT(b->term_of[i] >= 0 && b->term_of[i] < b->terms.count);
        stores[node->outputs] =
            (tl_nest_store){b->term_of[i], access_of(t, buffer, &b->walks[i], t->shape.rank)};
        out[node->outputs++] = t;
    }
    nest->stores = stores;
    nest->store_count = node->outputs;
    node->out = out;
    return TL_OK;
}

static tl_status build(builder *b, tl_node *node, tl_nest *nest,
                       bool (*is_needed)(const tl_tensor *t, const void *payload),
                       const void *payload)
{
    const tli_cluster *c = b->c;
    if (!b->walks || !b->term_of) return TL_ENOMEM;
    if (!tli_cluster_walks(c, b->walks))
        return TL_FAIL(TL_EUNSUPPORTED, "the calls walk differently");
    for (int64_t i = 0; i < c->members.count; i++) TL_TRY(add_member(b, i));
    TL_TRY(add_stores(b, node, nest, is_needed, payload));
    nest->rank = c->space.rank;
    memcpy(nest->dims, c->space.dims, sizeof nest->dims);
    nest->terms =
        tl_arena_copy(b->arena, b->terms.items, (size_t)b->terms.count * sizeof *nest->terms);
    nest->term_count = b->terms.count;
    nest->buffer_count = (int)b->loads.count + node->outputs;
    node->in = tl_arena_copy(b->arena, b->loads.items, (size_t)b->loads.count * sizeof *node->in);
    node->inputs = (int)b->loads.count;
    TL_ASSERT(nest->buffer_count == node->inputs + node->outputs
              && nest->store_count == node->outputs);
    return nest->terms && (node->in || !node->inputs) ? tl_nest_verify(nest) : TL_ENOMEM;
}

tl_status tli_cluster_node(tl_node **out, tl_graph *g, const tli_cluster *c,
                           bool (*is_needed)(const tl_tensor *t, const void *payload),
                           const void *payload)
{
    tl_arena *arena = g->ctx->arena;
    builder b = {.g = g,
                 .arena = arena,
                 .c = c,
                 .walks = tl_arena_array(arena, c->members.count, sizeof *b.walks),
                 .term_of = tl_arena_array(arena, c->members.count, sizeof *b.term_of)};
    tl_node *node = tl_arena_alloc(arena, sizeof *node);
    tl_nest *nest = tl_arena_alloc(arena, sizeof *nest);
    tl_status st = node && nest ? build(&b, node, nest, is_needed, payload) : TL_ENOMEM;
    TL_VEC_FREE(&b.terms);
    TL_VEC_FREE(&b.loads);
    TL_TRY(st);
    node->op = &tli_op_nest;
    node->attr = nest;
    node->path = c->members.items[c->members.count - 1]->path;
    *out = node;
    return TL_OK;
}
