#include "graph/detour.h"

#include "graph/fuse.h"

/* --- the order -------------------------------------------------------------------------------- */

// The call that made what a call shows: itself, unless it is a view; -1: nobody, it came from
// outside.
static int64_t maker_of(const tl_node *n)
{
    const tl_node *maker = tli_is_view(n) ? tli_root(n->out[0])->node : n;
    return maker ? maker->index : -1;
}

static tl_status copy_deps(tli_detours *d, tl_arena *arena, const tli_order *o)
{
    int32_t count = 0;
    d->first_dep = tl_arena_array(arena, o->count + 1, sizeof *d->first_dep);
    d->deps = tl_arena_array(arena, o->deps.count, sizeof *d->deps);
    if (!d->first_dep || !d->deps) return TL_ENOMEM;
    for (int64_t i = 0; i < o->count; i++) {
        d->first_dep[i] = count;
        for (int64_t k = o->first[i]; k < o->first[i + 1]; k++) {
            int64_t maker = maker_of(o->nodes[o->deps.items[k]]);
            TL_ASSERT(maker < i); // what was made before
            if (maker >= 0) d->deps[count++] = (int32_t)maker;
        }
    }
    d->first_dep[o->count] = count;
    return TL_OK;
}

/* --- the trunk -------------------------------------------------------------------------------- */

enum { NO_LINK = -1 };

// How many calls that no cluster takes lie on the longest chain up to each call, and where it comes
// from. Gives where the longest ends.
static int64_t find_chains(const tli_detours *d, const tli_order *o, int32_t *length, int32_t *from)
{
    int64_t end = -1;
    for (int64_t i = 0; i < d->count; i++) {
        tl_shape space;
        const tl_node *n = o->nodes[i];
        from[i] = -1;
        length[i] = 0;
        for (int32_t k = d->first_dep[i]; k < d->first_dep[i + 1]; k++) {
            if (from[i] >= 0 && length[d->deps[k]] <= length[i]) continue;
            from[i] = d->deps[k];
            length[i] = length[d->deps[k]];
        }
        length[i] += !tli_is_view(n) && !tli_is_nestable(n, &space);
        if (end < 0 || length[i] > length[end]) end = i;
    }
    return end;
}

static void find_trunk(tli_detours *d, const tli_order *o, int32_t *length, int32_t *from)
{
    int64_t end = find_chains(d, o, length, from);
    for (int64_t i = 0; i < d->count; i++) {
        d->needed_by[i] = INT32_MAX;
        d->needs[i] = NO_LINK;
    }
    for (int64_t i = end; i >= 0; i = from[i]) {
        bool link = from[i] < 0 ? length[i] > 0 : length[i] > length[from[i]];
        if (link) d->needed_by[i] = d->needs[i] = length[i];
    }
    for (int64_t i = 0; i < d->count; i++)
        for (int32_t k = d->first_dep[i]; k < d->first_dep[i + 1]; k++)
            if (d->needs[d->deps[k]] > d->needs[i]) d->needs[i] = d->needs[d->deps[k]];
    for (int64_t i = d->count - 1; i >= 0; i--)
        for (int32_t k = d->first_dep[i]; k < d->first_dep[i + 1]; k++)
            if (d->needed_by[i] < d->needed_by[d->deps[k]])
                d->needed_by[d->deps[k]] = d->needed_by[i];
}

tl_status tli_detours_make(tli_detours *d, tl_graph *g, const tli_order *o)
{
    int32_t **const arrays[] = {&d->cluster, &d->next,      &d->place, &d->at,
                                &d->needs,   &d->needed_by, &d->stack, &d->aside};
    *d = (tli_detours){.count = o->count};
    for (size_t i = 0; i < TL_COUNT(arrays); i++)
        if (!(*arrays[i] = tl_arena_array(g->scratch, d->count, sizeof(int32_t)))) return TL_ENOMEM;
    d->seen = tl_arena_array(g->scratch, d->count, sizeof *d->seen);
    if (!d->seen) return TL_ENOMEM;
    TL_TRY(copy_deps(d, g->scratch, o));
    find_trunk(d, o, d->stack, d->aside);
    for (int64_t i = 0; i < d->count; i++) {
        d->cluster[i] = d->next[i] = d->place[i] = (int32_t)i;
        // what is seen through is in nobody's way
        d->at[i] = tli_is_view(o->nodes[i]) ? -1 : (int32_t)i;
    }
    return TL_OK;
}

/* --- detours ---------------------------------------------------------------------------------- */

typedef struct search {
    int32_t low, high; /* the two clusters, as they stand in the order */
    int64_t depth;     /* of the stack */
} search;

// What call `node` needs that lies between the two; false when that is the lower one itself.
static bool follow(tli_detours *d, search *s, int64_t node, bool outside)
{
    for (int32_t k = d->first_dep[node]; k < d->first_dep[node + 1]; k++) {
        int32_t c = d->cluster[d->deps[k]];
        if (c == s->low && outside) return false;
        if (c == s->high || d->place[c] <= d->place[s->low] || d->seen[c] == d->epoch) continue;
        d->seen[c] = d->epoch;
        TL_ASSERT(s->depth < d->count && d->at[d->place[c]] == c);
        d->stack[s->depth++] = c;
    }
    return true;
}

static bool follow_all(tli_detours *d, search *s, int32_t cluster, bool outside)
{
    int32_t node = cluster;
    do {
        if (!follow(d, s, node, outside)) return false;
    } while ((node = d->next[node]) != cluster);
    return true;
}

bool tli_has_detour(tli_detours *d, int64_t a, int64_t b)
{
    // Clusters, each where it says.
    TL_ASSERT(a != b && d->at[d->place[a]] == a && d->at[d->place[b]] == b);
    bool straight = d->place[a] < d->place[b];
    search s = {.low = (int32_t)(straight ? a : b), .high = (int32_t)(straight ? b : a)};
    d->epoch++;
    if (d->needed_by[s.low] <= d->needs[s.high]) return true;
    if (!follow_all(d, &s, s.high, false)) return true;
    while (s.depth)
        if (!follow_all(d, &s, d->stack[--s.depth], true)) return true;
    return false;
}

// What the two need comes before them, the others behind.
static void stand_together(tli_detours *d, int32_t a, int32_t b)
{
    int32_t low = d->place[a] < d->place[b] ? d->place[a] : d->place[b], front = low, aside = 0;
    int32_t high = d->place[a] < d->place[b] ? d->place[b] : d->place[a];
    for (int32_t p = low; p <= high; p++) {
        int32_t c = d->at[p];
        d->at[p] = -1;
        if (c < 0 || c == a || c == b) continue;
        if (d->seen[c] != d->epoch) {
            d->aside[aside++] = c;
            continue;
        }
        d->at[front] = c;
        d->place[c] = front++;
    }
    d->at[front] = b;
    d->place[b] = front++;
    for (int32_t i = 0; i < aside; i++) {
        d->at[front] = d->aside[i];
        d->place[d->aside[i]] = front++;
    }
    TL_ASSERT(front <= high + 1);
    for (int32_t p = low; p <= high; p++) TL_ASSERT(d->at[p] < 0 || d->place[d->at[p]] == p);
}

void tli_detours_join(tli_detours *d, int64_t a, int64_t b)
{
    stand_together(d, (int32_t)a, (int32_t)b);
    TL_ASSERT(d->cluster[a] == a && d->cluster[b] == b); // each is named by a call of its own
    int32_t node = (int32_t)a, next = d->next[a];
    do d->cluster[node] = (int32_t)b;
    while ((node = d->next[node]) != a);
    d->next[a] = d->next[b]; // one ring of two
    d->next[b] = next;
    if (d->needed_by[a] < d->needed_by[b]) d->needed_by[b] = d->needed_by[a];
    if (d->needs[a] > d->needs[b]) d->needs[b] = d->needs[a];
}
