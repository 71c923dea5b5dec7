/* Offsets of rooms in one workspace: the largest first, each at the lowest gap that is free all the time that it is
 * needed.
 *
 * Time is the number of the call. A tree over it says what is taken: its leaves are calls, each branch stands for
 * those below it. A room is noted at the few branches that together are its time, and at all above these. What is
 * taken at some time of a room's is then found at few branches too: whatever is noted below them, and what lies
 * over them entirely. Bytes that touch are one span, and well filled memory is a few spans, so deep models with
 * thousands of rooms that wait at the same time take no longer for each. */
#include <stdlib.h>
#include <tilth/base/alloc.h>

#include "graph/plan.h"

enum { ALIGNMENT = 64, MOST_BRANCHES = 128 };

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* --- spans of bytes that are taken ------------------------------------------------------------------ */

typedef struct span {
    int64_t begin, end;
} span;

/* In order, not touching each other. */
typedef struct spans {
    span *items;
    int64_t count, capacity;
} spans;

// The first that ends behind `at`, or touches it when `touching`.
static int64_t find_span(const spans *s, int64_t at, bool touching)
{
    int64_t low = 0, high = s->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (s->items[middle].end > at || (touching && s->items[middle].end == at))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static tl_status take(spans *s, span new)
{
    int64_t first = find_span(s, new.begin, true), behind = first;
    while (behind < s->count && s->items[behind].begin <= new.end) behind++;
    if (behind == first) {
        if (!TL_VEC_PUSH(s, new)) return TL_ENOMEM;
        for (int64_t i = s->count - 1; i > first; i--) s->items[i] = s->items[i - 1];
        s->items[first] = new;
        return TL_OK;
    }
    span *to = &s->items[first];
    if (new.begin < to->begin) to->begin = new.begin;
    to->end = s->items[behind - 1].end > new.end ? s->items[behind - 1].end : new.end;
    for (int64_t i = behind; i < s->count; i++) s->items[first + 1 + i - behind] = s->items[i];
    s->count -= behind - first - 1;
    return TL_OK;
}

/* --- the tree --------------------------------------------------------------------------------------- */

typedef struct branch {
    spans all;   /* taken at the whole time of the branch, by one room each */
    spans below; /* taken at some time of it */
} branch;

typedef struct tree {
    branch *branches; /* 1 is the root, those below i are 2i and 2i + 1 */
    int64_t leaves;   /* a power of two; leaf i is branch leaves + i */
} tree;

// The branches that are the time of a room together.
static int branches_of(const tree *t, const tli_room *r, int64_t out[MOST_BRANCHES])
{
    int count = 0;
    int64_t low = r->first + t->leaves, high = r->last + t->leaves + 1;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) out[count++] = low++;
        if (high & 1) out[count++] = --high;
    }
    return count;
}

/* The branches above those are above the first or the last call of the room. What lies between them and the calls is met on the
 * way, which does no harm: all that is noted there is true. */
#define EACH_ABOVE(t, r, a, b)                                                                     \
    for (int64_t a = (r)->first + (t)->leaves, b = (r)->last + (t)->leaves; a > 0; a /= 2, b /= 2)

static tl_status note(tree *t, const tli_room *r)
{
    int64_t branches[MOST_BRANCHES];
    span taken = {r->offset, aligned(r->offset + r->bytes)};
    if (taken.end == taken.begin) return TL_OK;
    for (int i = 0, count = branches_of(t, r, branches); i < count; i++) {
        TL_TRY(take(&t->branches[branches[i]].all, taken));
        TL_TRY(take(&t->branches[branches[i]].below, taken));
    }
    EACH_ABOVE(t, r, a, b)
    {
        TL_TRY(take(&t->branches[a].below, taken));
        if (a != b) TL_TRY(take(&t->branches[b].below, taken));
    }
    return TL_OK;
}

/* What is in the way of a room: lists of spans. */
typedef struct obstacles {
    const spans *items[3 * MOST_BRANCHES];
    int count;
} obstacles;

static void add_obstacle(obstacles *o, const spans *s)
{
    if (s->count) o->items[o->count++] = s;
}

static void find_obstacles(obstacles *out, const tree *t, const tli_room *r)
{
    int64_t branches[MOST_BRANCHES];
    out->count = 0;
    for (int i = 0, count = branches_of(t, r, branches); i < count; i++)
        add_obstacle(out, &t->branches[branches[i]].below);
    EACH_ABOVE(t, r, a, b)
    {
        add_obstacle(out, &t->branches[a].all);
        if (a != b) add_obstacle(out, &t->branches[b].all);
    }
}

static int64_t lowest_gap(const tree *t, const tli_room *r)
{
    obstacles all;
    int64_t at = 0;
    find_obstacles(&all, t, r);
    // Until none of the lists has moved it: `since` counts those that have not.
    for (int i = 0, since = 0; since < all.count; i = (i + 1) % all.count) {
        const spans *s = all.items[i];
        int64_t before = at;
        for (int64_t k = find_span(s, at, false); k < s->count && s->items[k].begin - at < r->bytes; k++)
            at = s->items[k].end;
        since = at == before ? since + 1 : 1;
    }
    return at;
}

/* --- all rooms -------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const tli_room *x = *(tli_room *const *)a, *y = *(tli_room *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

// Those that are no parts of others, the largest first: what is placed later fills the gaps.
static tl_status place(tli_plan *p, tree *t, tli_room **rooms)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->rooms.count; i++)
        if (p->rooms.items[i].inside < 0) rooms[count++] = &p->rooms.items[i];
    qsort(rooms, (size_t)count, sizeof *rooms, by_size);
    for (int64_t i = 0; i < count; i++) {
        tli_room *r = rooms[i];
        r->offset = lowest_gap(t, r);
        p->unplanned += aligned(r->bytes);
        if (r->offset + r->bytes > p->bytes) p->bytes = r->offset + r->bytes;
        TL_TRY(note(t, r));
    }
    return TL_OK;
}

tl_status tli_plan_place(tli_plan *p, int64_t calls)
{
    tree t = {.leaves = 1};
    while (t.leaves < calls) t.leaves *= 2;
    size_t bytes = (size_t)(2 * t.leaves) * sizeof *t.branches;
    size_t room_bytes = (size_t)(p->rooms.count + 1) * sizeof(tli_room *);
    t.branches = tl_alloc_zero(bytes);
    tli_room **rooms = tl_alloc(room_bytes);
    tl_status st = t.branches && rooms ? place(p, &t, rooms) : TL_FAIL_NOMEM(bytes + room_bytes);
    for (int64_t i = 0; t.branches && i < 2 * t.leaves; i++) {
        TL_VEC_FREE(&t.branches[i].all);
        TL_VEC_FREE(&t.branches[i].below);
    }
    tl_free(t.branches);
    tl_free(rooms);
    return st;
}
