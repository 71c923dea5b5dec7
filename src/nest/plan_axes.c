/* Which axes a plan has: those of the nest in another order, without those of size 1, and joined
 * where every access walks two of them as if they were one. */
#include <string.h>

#include "nest/inner/schedule.h"

typedef struct group {
    int axes[TL_MAX_RANK], count; /* of the nest, the innermost last */
    int64_t size;
} group;

static bool access_joins(const tl_nest *n, const tl_access *a, int outer, int inner)
{
    TL_ASSERT(outer != inner && outer >= 0 && outer < n->rank && inner >= 0 && inner < n->rank);
    return a->strides[outer] == a->strides[inner] * n->dims[inner];
}

// `outer` and `inner` can be one axis: `outer` steps over all of `inner` in each access, and no
// term tells them apart.
static bool joins(const tl_nest *n, int outer, int inner)
{
    if (n->dims[outer] == 0 || n->dims[inner] == 0) return false;
    for (int64_t i = 0; i < n->term_count; i++) {
        const tl_term *t = &n->terms[i];
        if (t->kind == TL_TERM_LOAD && !access_joins(n, &t->from, outer, inner)) return false;
        if (t->kind == TL_TERM_INDEX && (t->axis == outer || t->axis == inner)) return false;
        if (t->kind == TL_TERM_REDUCE && (t->axes >> outer & 1) != (t->axes >> inner & 1))
            return false;
    }
    for (int64_t i = 0; i < n->store_count; i++)
        if (!access_joins(n, &n->stores[i].to, outer, inner)) return false;
    return true;
}

static uint32_t reduced_axes(const tl_nest *n)
{
    uint32_t axes = 0;
    for (int64_t i = 0; i < n->term_count; i++)
        if (n->terms[i].kind == TL_TERM_REDUCE) axes |= n->terms[i].axes;
    return axes;
}

// Kept axes, reduced ones, the row; neighbours joined. Gives how many groups there are.
static int make_groups(group groups[TL_MAX_RANK + 1], const tl_nest *n, int row)
{
    int order[TL_MAX_RANK], count = 0, made = 0;
    const uint32_t reduced = reduced_axes(n);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n->rank; i++)
            if (i != row && n->dims[i] != 1 && (int)(reduced >> i & 1) == pass) order[count++] = i;
    if (row >= 0) order[count++] = row;
    for (int i = 0; i < count; i++) {
        group *g = made ? &groups[made - 1] : NULL;
        if (!g || !joins(n, g->axes[g->count - 1], order[i])) {
            g = &groups[made++];
            g->count = 0;
            g->size = 1;
        }
        g->axes[g->count++] = order[i];
        TL_ASSERT(g->count <= n->rank);
        g->size *= n->dims[order[i]];
    }
    if (row < 0) groups[made++] = (group){.count = 0, .size = 1};
    TL_ASSERT(made >= 1 && made <= TL_MAX_RANK + 1);
    return made;
}

static void map_access(tl_access *a, const group *groups, int count)
{
    const tl_access from = *a;
    memset(a->strides, 0, sizeof a->strides);
    for (int i = 0; i < count; i++)
        if (groups[i].count) a->strides[i] = from.strides[groups[i].axes[groups[i].count - 1]];
}

static void map_term(tl_term *t, const group *groups, int count)
{
    const uint32_t axes = t->axes;
    const int axis = t->axis;
    if (t->kind == TL_TERM_LOAD) map_access(&t->from, groups, count);
    t->axes = 0;
    t->axis = -1; // an axis of size 1 is gone: its index is 0
    for (int i = 0; i < count; i++) {
        if (groups[i].count == 0) continue;
        if (axes >> groups[i].axes[0] & 1) t->axes |= UINT32_C(1) << i;
        if (groups[i].axes[0] == axis) t->axis = i;
        // An index joins nothing.
        TL_ASSERT(groups[i].axes[0] != axis || groups[i].count == 1 || t->kind != TL_TERM_INDEX);
    }
}

// The first and the last element that an access reaches stay the same, whatever axes are joined and
// left out.
static bool reaches_the_same(const tl_nest *a, const tl_access *x, const tl_nest *b,
                             const tl_access *y)
{
    int64_t low = x->offset - y->offset, high = low;
    for (int i = 0; i < a->rank + b->rank; i++) {
        const bool first = i < a->rank;
        const int64_t dim = first ? a->dims[i] : b->dims[i - a->rank];
        const int64_t reach = (dim - 1) * (first ? x->strides[i] : y->strides[i - a->rank]);
        if (dim == 0) return true; // there are no points
        *(reach < 0 ? &low : &high) += first ? reach : -reach;
    }
    return low == 0 && high == 0;
}

static bool has_the_same_points(const tl_nest *nest, const tli_schedule *s)
{
    double before = 1, after = (double)s->kept_points * (double)s->reduced_points * (double)s->row;
    for (int i = 0; i < nest->rank; i++) before *= (double)nest->dims[i];
    return before == after;
}

// Whether an access would be the same if the axes i and i + 1 of a plan were one.
static bool walks_as_one(const tl_nest *n, const tl_access *a, int i)
{
    return a->strides[i] == a->strides[i + 1] * n->dims[i + 1];
}

// No two neighbours could still be one: rows are as long, and indices as few, as they can be.
static bool is_joined(const tl_nest *n)
{
    for (int i = 0; i + 1 < n->rank; i++) {
        bool apart = n->dims[i] == 0 || n->dims[i + 1] == 0;
        for (int64_t k = 0; k < n->term_count; k++) {
            const tl_term *t = &n->terms[k];
            apart |= t->kind == TL_TERM_LOAD && !walks_as_one(n, &t->from, i);
            apart |= t->kind == TL_TERM_INDEX && (t->axis == i || t->axis == i + 1);
            apart |= t->kind == TL_TERM_REDUCE && (t->axes >> i & 1) != (t->axes >> (i + 1) & 1);
        }
        for (int64_t k = 0; k < n->store_count; k++) apart |= !walks_as_one(n, &n->stores[k].to, i);
        if (!apart) return false;
    }
    return true;
}

tl_status tli_schedule_axes(tli_schedule *s, tl_arena *arena, const tl_nest *nest, int row)
{
    group groups[TL_MAX_RANK + 1];
    const int count = make_groups(groups, nest, row);
    const uint32_t reduced = reduced_axes(nest);
    tl_term *terms = tl_arena_array(arena, nest->term_count, sizeof *terms);
    tl_nest_store *stores = tl_arena_array(arena, nest->store_count, sizeof *stores);
    if (!terms || !stores) return TL_ENOMEM;
    s->nest = *nest;
    s->nest.terms = terms;
    s->nest.stores = stores;
    s->nest.rank = count;
    s->kept = s->reduced = 0;
    s->kept_points = s->reduced_points = 1;
    for (int i = 0; i < count; i++) {
        s->nest.dims[i] = groups[i].size;
        if (i == count - 1) {
            s->row = groups[i].size;
        } else if (reduced >> groups[i].axes[0] & 1) {
            s->reduced++;
            s->reduced_points *= groups[i].size;
        } else {
            s->kept++;
            s->kept_points *= groups[i].size;
        }
    }
    for (int64_t i = 0; i < nest->term_count; i++) {
        terms[i] = nest->terms[i];
        map_term(&terms[i], groups, count);
        TL_ASSERT(terms[i].kind != TL_TERM_LOAD
                  || reaches_the_same(nest, &nest->terms[i].from, &s->nest, &terms[i].from));
    }
    for (int64_t i = 0; i < nest->store_count; i++) {
        stores[i] = nest->stores[i];
        map_access(&stores[i].to, groups, count);
        TL_ASSERT(reaches_the_same(nest, &nest->stores[i].to, &s->nest, &stores[i].to));
    }
    TL_ASSERT(has_the_same_points(nest, s) && is_joined(&s->nest)
              && s->kept + s->reduced == count - 1);
    return TL_OK;
}
