/* Puts calls into clusters, one loop nest each.
 *
 * A call joins the clusters that made its inputs when all of them can walk along the axes of one
 * iteration space, and when nothing outside would have to run between them. Then clusters that do
 * not need each other join when they walk over the same space and read the same large tensor, which
 * is read once then, or when they are so small that starting them counts. What does not find
 * company stays as it is where the backend has kernels for single ops. */
#include "graph/fuse.h"

#include <stdlib.h>
#include <string.h>
#include <tilth/base/integer.h>

#include "graph/detour.h"

enum {
    /* Calls between clusters that are not tiny: they move that far at most, or what they read
     * would have left the caches and what they make would wait long */
    NEAR = 16,
    LEAST_DISTANCE = 16, /* as in recompute.c */
    /* Of clusters beside which one is put: each makes a plan, and deep models have many alike */
    MOST_TRIES = 8
};

typedef struct fuser {
    tl_graph *g;
    const tl_nest_methods *methods;
    tli_walk *walks; /* for one try: as many as a nest may have members */
    tli_order order;
    tli_detours detours;
    tli_cluster *clusters;  /* by index of one of their calls; empty ones have gone into others */
    int64_t *cluster_of;    /* of each call; -1: none */
    int64_t *next, *before; /* clusters over the same space, by index; -1: none */
    int64_t *earliest;      /* first call of a cluster and of those that follow it there */
    bool *emitted;
    tl_node **nests; /* of clusters, by index */
} fuser;

static int64_t first_of(const tli_cluster *c)
{
    return c->members.items[0]->index;
}

static int64_t last_of(const tli_cluster *c)
{
    return c->members.items[c->members.count - 1]->index;
}

static bool is_in_order(const tli_cluster *c)
{
    for (int64_t i = 1; i < c->members.count; i++)
        if (c->members.items[i - 1]->index >= c->members.items[i]->index) return false;
    return true;
}

/* --- plans ------------------------------------------------------------------------------------ */

typedef struct needed {
    const tl_graph *g;
    const tli_cluster *c;
} needed;

static bool is_member(const tli_cluster *c, const tl_node *n)
{
    for (int64_t i = 0; i < c->members.count; i++)
        if (c->members.items[i] == n) return true;
    return false;
}

// By a call outside of the cluster, also through views, or by the graph's caller.
static bool is_needed(const tl_tensor *t, const void *payload)
{
    const needed *w = payload;
    if (tli_is_output(w->g, t)) return true;
    TLI_EACH_USE(w->g, t, u)
    {
        const tl_node *n = tli_user(w->g, u);
        if (!is_member(w->c, n) && (!tli_is_view(n) || is_needed(n->out[0], payload))) return true;
    }
    return false;
}

static bool always(const tl_tensor *t, const void *payload)
{
    (void)t, (void)payload;
    return true;
}

// While clusters grow nobody knows what others will need of them: `all` is stored.
static tl_status try_plan(const tl_nest_walk **out, fuser *f, const tli_cluster *c, bool all)
{
    tl_node *node;
    TL_TRY(tli_cluster_node(&node, f->g, c, all ? always : is_needed, &(needed){f->g, c}));
    return f->methods->plan(out, f->g->ctx->arena, node->attr);
}

/* --- merging ---------------------------------------------------------------------------------- */

static tl_status join(tli_cluster *out, const tli_cluster *a, const tli_cluster *b)
{
    *out = (tli_cluster){.space = tl_shape_count(&b->space) > tl_shape_count(&a->space) ? b->space
                                                                                        : a->space};
    int64_t i = 0, k = 0;
    while (i < a->members.count || k < b->members.count) {
        bool from_a =
            k == b->members.count
            || (i < a->members.count && a->members.items[i]->index < b->members.items[k]->index);
        if (!TL_VEC_PUSH(&out->members, from_a ? a->members.items[i++] : b->members.items[k++]))
            return TL_ENOMEM;
    }
    TL_ASSERT(is_in_order(out)); // as they run, none twice
    return TL_OK;
}

// The two clusters that may become one.
typedef struct pair {
    int64_t a, b;
} pair;

// Fails for want of memory only.
static tl_status may_join(bool *out, const tl_nest_walk **plan, fuser *f, pair p,
                          const tli_cluster *both, bool beside)
{
    *out = both->members.count <= f->methods->limits.members && tli_cluster_walks(both, f->walks)
           && !tli_has_detour(&f->detours, p.a, p.b);
    tl_status st = *out ? try_plan(plan, f, both, !beside) : TL_OK;
    if (st == TL_ENOMEM) return st;
    *out &= st == TL_OK;
    return TL_OK;
}

/* Clusters that need nothing from each other are better apart when they could be walked better
 * so. */
static tl_status are_better_together(bool *out, fuser *f, pair p, const tl_nest_walk *both)
{
    const tl_nest_walk *a, *b;
    tl_status st = try_plan(&a, f, &f->clusters[p.a], false);
    if (st == TL_OK) st = try_plan(&b, f, &f->clusters[p.b], false);
    if (st != TL_OK) {
        *out = false;
        return st == TL_ENOMEM ? st : TL_OK;
    }
    *out = f->methods->as_good(both, a, b);
    return TL_OK;
}

static tl_status try_join(fuser *f, int64_t a, int64_t b, bool beside)
{
    tli_cluster both;
    const tl_nest_walk *plan;
    bool joined = false;
    tl_arena_mark mark = tl_arena_begin(f->g->ctx->arena);
    tl_status st = join(&both, &f->clusters[a], &f->clusters[b]);
    if (st == TL_OK) st = may_join(&joined, &plan, f, (pair){a, b}, &both, beside);
    if (st == TL_OK && joined && beside) st = are_better_together(&joined, f, (pair){a, b}, plan);
    tl_arena_end(f->g->ctx->arena, mark);
    if (!joined || st != TL_OK) {
        TL_VEC_FREE(&both.members);
        return st;
    }
    TL_VEC_FREE(&f->clusters[a].members);
    TL_VEC_FREE(&f->clusters[b].members);
    f->clusters[b] = both;
    tli_detours_join(&f->detours, a, b);
    TL_ASSERT(f->cluster_of[both.members.items[0]->index] == a
              || f->cluster_of[both.members.items[0]->index] == b);
    for (int64_t i = 0; i < both.members.count; i++)
        f->cluster_of[both.members.items[i]->index] = b;
    return TL_OK;
}

// How far behind its last call what joins a cluster may be: what is computed again must not be
// computed at once.
static int64_t reach_of(const fuser *f)
{
    int64_t far = f->order.count / 8 > LEAST_DISTANCE ? f->order.count / 8 : LEAST_DISTANCE;
    return f->g->recompute ? far : f->order.count;
}

static bool is_far(const fuser *f, const tli_cluster *c, int64_t call)
{
    return call - last_of(c) > reach_of(f);
}

static tl_status find_company(fuser *f, tl_node *n)
{
    tli_cluster *own = &f->clusters[n->index];
    if (!tli_is_nestable(n, &own->space)) return TL_OK;
    if (!TL_VEC_PUSH(&own->members, n)) return TL_ENOMEM;
    f->cluster_of[n->index] = n->index;
    for (int i = 0; i < n->inputs; i++) {
        const tl_node *maker = tli_root(n->in[i])->node;
        int64_t other = maker ? f->cluster_of[maker->index] : -1;
        if (other < 0 || other == n->index || is_far(f, &f->clusters[other], n->index)) continue;
        TL_TRY(try_join(f, other, n->index, false));
    }
    return TL_OK;
}

static bool is_worth_it(const fuser *f, const tli_cluster *c)
{
    int64_t ops = 0;
    for (int64_t i = 0; i < c->members.count; i++) ops += c->members.items[i]->op->op != TL_OP_copy;
    return c->members.count > (f->methods->singles ? 0 : 1) && ops > 0;
}

/* --- beside each other ------------------------------------------------------------------------ */

static bool reads(const tli_cluster *c, const tl_tensor *t)
{
    for (int64_t i = 0; i < c->members.count; i++)
        for (int k = 0; k < c->members.items[i]->inputs; k++)
            if (tli_root(c->members.items[i]->in[k]) == t) return true;
    return false;
}

// Whether both read a tensor that has an element for most points.
static bool read_the_same(const tli_cluster *a, const tli_cluster *b)
{
    for (int64_t i = 0; i < a->members.count; i++) {
        const tl_node *n = a->members.items[i];
        for (int k = 0; k < n->inputs; k++)
            if (tl_tensor_count(n->in[k]) > tl_shape_count(&a->space) / 2
                && reads(b, tli_root(n->in[k])))
                return true;
    }
    return false;
}

static bool suit_each_other(const fuser *f, const tli_cluster *a, const tli_cluster *b)
{
    int64_t points = tl_shape_count(&a->space), between = first_of(b) - last_of(a);
    bool scalars = points == 1 && tl_shape_count(&b->space) == 1;
    if (!scalars && !tl_shape_equal(&a->space, &b->space)) return false;
    if (points <= f->methods->limits.tiny) return !is_far(f, a, first_of(b));
    // Of single ops those of the backend are faster: only what is a nest anyway.
    return is_worth_it(f, a) && is_worth_it(f, b) && between <= NEAR
           && (points <= f->methods->limits.small || read_the_same(a, b));
}

/* Clusters that could suit each other: over the same space, and all those over one point. */
typedef struct spot {
    const tl_shape *space;
    int64_t cluster;
} spot;

static int compare_spaces(const tl_shape *a, const tl_shape *b)
{
    bool one_a = tl_shape_count(a) == 1, one_b = tl_shape_count(b) == 1;
    if (one_a || one_b) return one_b - one_a;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return a->dims[i] < b->dims[i] ? -1 : 1;
    return 0;
}

static int by_space(const void *a, const void *b)
{
    const spot *x = a, *y = b;
    int order = compare_spaces(x->space, y->space);
    return order ? order : x->cluster < y->cluster ? -1 : x->cluster > y->cluster;
}

static tl_status find_spaces(fuser *f)
{
    int64_t count = 0;
    spot *spots = tl_arena_array(f->g->scratch, f->order.count, sizeof *spots);
    if (!spots) return TL_ENOMEM;
    for (int64_t i = 0; i < f->order.count; i++)
        if (f->clusters[i].members.count) spots[count++] = (spot){&f->clusters[i].space, i};
    if (count) qsort(spots, (size_t)count, sizeof *spots, by_space);
    TL_ASSERT(count <= f->order.count);
    for (int64_t k = count - 1; k >= 0; k--) {
        int64_t at = spots[k].cluster;
        bool more = k + 1 < count && compare_spaces(spots[k].space, spots[k + 1].space) == 0;
        bool less = k > 0 && compare_spaces(spots[k].space, spots[k - 1].space) == 0;
        f->next[at] = more ? spots[k + 1].cluster : -1;
        f->before[at] = less ? spots[k - 1].cluster : -1;
        f->earliest[at] = first_of(&f->clusters[at]);
        if (more) f->earliest[at] = tl_min_i64(f->earliest[at], f->earliest[f->next[at]]);
    }
    return TL_OK;
}

// `a` has gone into `b`, which begins earlier now.
static void take_out(fuser *f, int64_t a, int64_t b)
{
    int64_t first = first_of(&f->clusters[b]);
    TL_ASSERT(f->next[a] >= 0 && !f->clusters[a].members.count);
    if (f->before[a] >= 0) f->next[f->before[a]] = f->next[a];
    f->before[f->next[a]] = f->before[a];
    for (int64_t i = b; i >= 0 && f->earliest[i] > first; i = f->before[i]) f->earliest[i] = first;
}

// With those that come after it.
static tl_status find_neighbours(fuser *f, int64_t cluster)
{
    int tries = 0;
    const tli_cluster *c = &f->clusters[cluster];
    if (!c->members.count) return TL_OK; // it has gone into another one
    bool tiny = tl_shape_count(&c->space) <= f->methods->limits.tiny;
    int64_t end = last_of(c) + (tiny ? reach_of(f) : NEAR);
    for (int64_t i = f->next[cluster]; i >= 0 && f->earliest[i] <= end && tries < MOST_TRIES;
         i = f->next[i]) {
        if (!suit_each_other(f, c, &f->clusters[i])) continue;
        tries++;
        TL_TRY(try_join(f, cluster, i, true));
        if (c->members.count) continue;
        take_out(f, cluster, i);
        return TL_OK;
    }
    return TL_OK;
}

/* --- the new list ----------------------------------------------------------------------------- */

static tl_status make_nests(fuser *f, int64_t *changes)
{
    for (int64_t i = 0; i < f->order.count; i++) {
        const tli_cluster *c = &f->clusters[i];
        if (!is_worth_it(f, c)) continue;
        tl_node *nest;
        tl_status st = tli_cluster_node(&nest, f->g, c, is_needed, &(needed){f->g, c});
        if (st == TL_OK) st = tli_nest_try_plan(f->g, nest->attr);
        if (st == TL_EUNSUPPORTED) continue; // with fewer stores it may walk otherwise
        // one call alone was not tried before: its result may be the same along an axis
        if (st == TL_EINVAL && c->members.count == 1) continue;
        TL_TRY(st);
        f->nests[i] = nest;
        TL_ASSERT(is_in_order(c) && nest->outputs <= c->members.count);
        *changes += c->members.count;
    }
    return TL_OK;
}

static void append(fuser *f, tl_node *n)
{
    tl_ctx *c = f->g->ctx;
    TL_ASSERT(n != c->last);
    n->before = c->last;
    n->after = NULL;
    *(c->last ? &c->last->after : &c->first) = n;
    c->last = n;
}

static void emit(fuser *f, int64_t node);

static bool deps_are_emitted(const fuser *f, int64_t node)
{
    for (int64_t k = f->order.first[node]; k < f->order.first[node + 1]; k++)
        if (!f->emitted[f->order.deps.items[k]]) return false;
    return true;
}

static void emit_deps(fuser *f, int64_t node)
{
    for (int64_t k = f->order.first[node]; k < f->order.first[node + 1]; k++)
        emit(f, f->order.deps.items[k]);
}

// A view of what a member made is no detour: the nest sees through it.
static bool is_view_of(const fuser *f, int64_t cluster, const tl_node *n)
{
    const tl_node *maker = tli_is_view(n) ? tli_root(n->out[0])->node : NULL;
    return maker && f->cluster_of[maker->index] == cluster;
}

static void emit_nest(fuser *f, int64_t cluster)
{
    const tli_cluster *c = &f->clusters[cluster];
    for (int64_t i = 0; i < c->members.count; i++) f->emitted[c->members.items[i]->index] = true;
    for (int64_t i = 0; i < c->members.count; i++) {
        int64_t node = c->members.items[i]->index;
        for (int64_t k = f->order.first[node]; k < f->order.first[node + 1]; k++)
            if (!is_view_of(f, cluster, f->order.nodes[f->order.deps.items[k]]))
                emit(f, f->order.deps.items[k]);
    }
    append(f, f->nests[cluster]);
}

static void emit(fuser *f, int64_t node)
{
    int64_t cluster = f->cluster_of[node];
    if (f->emitted[node]) return;
    if (cluster >= 0 && f->nests[cluster]) {
        emit_nest(f, cluster);
        return;
    }
    f->emitted[node] = true;
    emit_deps(f, node);
    TL_ASSERT(deps_are_emitted(f, node));
    append(f, f->order.nodes[node]);
}

// A nest takes the place of its last call; what must run before it is brought before it.
static void emit_all(fuser *f)
{
    f->g->ctx->first = f->g->ctx->last = NULL;
    for (int64_t i = 0; i < f->order.count; i++) {
        int64_t cluster = f->cluster_of[i];
        if (cluster < 0 || !f->nests[cluster] || last_of(&f->clusters[cluster]) == i) emit(f, i);
        TL_ASSERT(f->emitted[i] || (cluster >= 0 && last_of(&f->clusters[cluster]) > i));
    }
    // Not before all are there: until then tensors know the calls that they were made by.
    for (int64_t i = 0; i < f->order.count; i++) {
        for (int k = 0; f->nests[i] && k < f->nests[i]->outputs; k++) {
            f->nests[i]->out[k]->node = f->nests[i];
            f->nests[i]->out[k]->output = k;
        }
    }
}

/* --- the pass --------------------------------------------------------------------------------- */

static tl_status fuse(fuser *f, int64_t *changes)
{
    tl_arena *arena = f->g->scratch;
    int64_t count = f->order.count + 1;
    f->walks = tl_arena_array(arena, f->methods->limits.members, sizeof *f->walks);
    f->clusters = tl_arena_array(arena, count, sizeof *f->clusters);
    f->cluster_of = tl_arena_array(arena, count, sizeof *f->cluster_of);
    f->next = tl_arena_array(arena, count, sizeof *f->next);
    f->before = tl_arena_array(arena, count, sizeof *f->before);
    f->earliest = tl_arena_array(arena, count, sizeof *f->earliest);
    f->emitted = tl_arena_array(arena, count, sizeof *f->emitted);
    f->nests = tl_arena_array(arena, count, sizeof *f->nests);
    if (!f->walks || !f->clusters || !f->cluster_of || !f->next || !f->before || !f->earliest
        || !f->emitted || !f->nests)
        return TL_ENOMEM;
    TL_TRY(tli_detours_make(&f->detours, f->g, &f->order));
    for (int64_t i = 0; i < f->order.count; i++) f->cluster_of[i] = -1;
    for (int64_t i = 0; i < f->order.count; i++) TL_TRY(find_company(f, f->order.nodes[i]));
    TL_TRY(find_spaces(f));
    for (int64_t i = 0; i < f->order.count; i++) TL_TRY(find_neighbours(f, i));
    TL_TRY(make_nests(f, changes));
    if (!*changes) return TL_OK;
    emit_all(f);
    TL_TRY(tli_uses_make(f->g));
    // Views and numbers that only members used.
    int64_t dead = 0;
    return tli_pass_dead(f->g, &dead);
}

tl_status tli_pass_fuse(tl_graph *g, int64_t *changes)
{
    fuser f = {.g = g, .methods = tl_engine_nests(g->ctx->engine)};
    if (!f.methods) return TL_OK;
    TL_TRY(tli_order_make(&f.order, g));
    tl_status st = fuse(&f, changes);
    for (int64_t i = 0; f.clusters && i < f.order.count; i++) TL_VEC_FREE(&f.clusters[i].members);
    tli_order_free(&f.order);
    return st;
}
