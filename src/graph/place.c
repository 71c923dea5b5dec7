/* Offsets of rooms in one workspace: the largest first, each at the lowest gap that is free all the
 * time that it is needed.
 *
 * Time is the number of the call. A tree over it says what is taken: its leaves are calls, each
 * branch stands for those below it. A room is noted at the few branches that together are its time,
 * and at all above these. What is taken at some time of a room's is then found at few branches too:
 * whatever is noted below them, and what lies over them entirely. Bytes that touch are one span,
 * and well filled memory is a few spans, so deep models with thousands of rooms that wait at the
 * same time take no longer for each. */
#include <stdlib.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "graph/plan.h"

enum {
    /* 4 branches below each: less deep than with 2, and still few are the time of a room */
    BITS = 2,
    MOST_LEVELS = 32, /* 4^31 calls are more than can be counted */
    /* On each level at most 3 at either end of a room's time */
    MOST_BRANCHES = 2 * ((1 << BITS) - 1) * MOST_LEVELS,
    /* Spans without memory of their own: most branches of a well filled plan have no more */
    FEW = 2
};
_Static_assert(BITS *(MOST_LEVELS - 1) < 63, "the root stands for all calls that can be counted");

/* --- spans of bytes that are taken ------------------------------------------------------------ */

typedef struct span {
    int64_t begin, end;
} span;

/* In order, not touching each other. */
typedef struct spans {
    span few[FEW]; /* the first ones, while there are no more */
    span *more;    /* all of them then */
    int64_t count, capacity;
} spans;

static const span *items_of(const spans *s)
{
    return s->more ? s->more : s->few;
}

static bool make_room(spans *s)
{
    if (s->count < (s->more ? s->capacity : FEW)) return true;
    bool first = !s->more;
    if (!tl_vec_grow((void **)&s->more, first ? 0 : s->count, &s->capacity, sizeof *s->more))
        return false;
    TL_ASSERT(s->capacity > FEW);
    if (first) memcpy(s->more, s->few, sizeof s->few);
    return true;
}

// The first that ends behind `at`, or touches it when `touching`.
static int64_t find_span(const spans *s, int64_t at, bool touching)
{
    const span *items = items_of(s);
    int64_t low = 0, high = s->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (items[middle].end > at || (touching && items[middle].end == at)) high = middle;
        else low = middle + 1;
    }
    TL_ASSERT(low == 0 || items[low - 1].end <= at);
    TL_ASSERT(low == s->count || items[low].end > at || (touching && items[low].end == at));
    return low;
}

static tl_status take(spans *s, span new)
{
    if (!make_room(s)) return TL_ENOMEM;
    span *items = s->more ? s->more : s->few;
    int64_t first = find_span(s, new.begin, true), behind = first;
    while (behind < s->count && items[behind].begin <= new.end) behind++;
    if (behind > first) { // what it touches becomes part of it
        if (items[first].begin < new.begin) new.begin = items[first].begin;
        if (items[behind - 1].end > new.end) new.end = items[behind - 1].end;
    }
    memmove(&items[first + 1], &items[behind], (size_t)(s->count - behind) * sizeof *items);
    items[first] = new;
    s->count += first + 1 - behind;
    TL_ASSERT(new.begin < new.end && (first == 0 || items[first - 1].end < new.begin));
    TL_ASSERT(first + 1 == s->count || items[first + 1].begin > new.end); // in order, not touching
    return TL_OK;
}

/* --- the tree --------------------------------------------------------------------------------- */

typedef struct branch {
    spans all;   /* taken at the whole time of the branch, by one room each */
    spans below; /* taken at some time of it */
} branch;

typedef struct tree {
    int64_t alignment;
    branch *branches;
    int64_t first[MOST_LEVELS]; /* branch of each level; calls are level 0 */
    int levels;                 /* the root is the last */
} tree;

// The branches that are the time of a room together.
static int branches_of(const tree *t, const tli_room *r, int64_t out[MOST_BRANCHES])
{
    enum { REST = (1 << BITS) - 1 };
    int count = 0;
    int64_t low = r->first, high = r->last + 1;
    for (int level = 0; low < high; level++, low >>= BITS, high >>= BITS) {
        for (; low < high && (low & REST); low++) out[count++] = t->first[level] + low;
        for (; low < high && (high & REST); high--) out[count++] = t->first[level] + high - 1;
        TL_ASSERT(level < t->levels && count <= MOST_BRANCHES);
    }
    return count;
}

/* The branches above those: over the first call of the room or over its last one, and over calls at
 * which it is not needed. The highest come first. */
static int branches_above(const tree *t, const tli_room *r, int64_t out[MOST_BRANCHES])
{
    int count = 0;
    for (int level = t->levels - 1; level > 0; level--) {
        int64_t a = r->first >> BITS * level, b = r->last >> BITS * level;
        if (a == b && a << BITS * level == r->first && ((a + 1) << BITS * level) - 1 == r->last)
            break;
        if (a << BITS * level != r->first || a == b) out[count++] = t->first[level] + a;
        if (a != b && ((b + 1) << BITS * level) - 1 != r->last) out[count++] = t->first[level] + b;
    }
    TL_ASSERT(count <= MOST_BRANCHES);
    return count;
}

static tl_status note(tree *t, const tli_room *r)
{
    int64_t branches[MOST_BRANCHES];
    span taken = {r->offset, tl_round_up(r->offset + r->bytes, t->alignment)};
    TL_ASSERT(r->first <= r->last && r->offset % t->alignment == 0
              && taken.end % t->alignment == 0);
    if (taken.end == taken.begin) return TL_OK;
    for (int i = 0, count = branches_of(t, r, branches); i < count; i++) {
        TL_TRY(take(&t->branches[branches[i]].all, taken));
        TL_TRY(take(&t->branches[branches[i]].below, taken));
    }
    for (int i = 0, count = branches_above(t, r, branches); i < count; i++)
        TL_TRY(take(&t->branches[branches[i]].below, taken));
    return TL_OK;
}

/* What is in the way of a room: lists of spans. */
typedef struct obstacles {
    const spans *items[2 * MOST_BRANCHES];
    int count;
} obstacles;

static void add_obstacle(obstacles *o, const spans *s)
{
    TL_ASSERT(o->count < 2 * MOST_BRANCHES);
    if (s->count) o->items[o->count++] = s;
}

static void find_obstacles(obstacles *out, const tree *t, const tli_room *r)
{
    int64_t branches[MOST_BRANCHES];
    out->count = 0;
    // What waits long is placed low: it is met first.
    for (int i = 0, count = branches_above(t, r, branches); i < count; i++)
        add_obstacle(out, &t->branches[branches[i]].all);
    for (int i = 0, count = branches_of(t, r, branches); i < count; i++)
        add_obstacle(out, &t->branches[branches[i]].below);
}

static bool is_free(const obstacles *o, int64_t at, int64_t bytes)
{
    for (int i = 0; i < o->count; i++) {
        int64_t k = find_span(o->items[i], at, false);
        if (k < o->items[i]->count && items_of(o->items[i])[k].begin < at + bytes) return false;
    }
    return true;
}

static int64_t lowest_gap(const tree *t, const tli_room *r)
{
    obstacles all;
    int64_t at = 0;
    find_obstacles(&all, t, r);
    // Until none of the lists has moved it: `since` counts those that have not.
    for (int i = 0, since = 0; since < all.count; i = (i + 1) % all.count) {
        const spans *s = all.items[i];
        const span *items = items_of(s);
        int64_t before = at;
        for (int64_t k = find_span(s, at, false); k < s->count && items[k].begin - at < r->bytes;
             k++)
            at = items[k].end;
        since = at == before ? since + 1 : 1;
    }
    TL_ASSERT(is_free(&all, at, r->bytes));
    return at;
}

/* --- all rooms -------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const tli_room *x = *(tli_room *const *)a, *y = *(tli_room *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static tl_status place_apart(tli_plan *p, tli_room **rooms, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        rooms[i]->offset = p->bytes;
        p->bytes += tl_round_up(rooms[i]->bytes, p->alignment);
    }
    return TL_OK;
}

// Those that are no parts of others, the largest first: what is placed later fills the gaps.
static tl_status place(tli_plan *p, tree *t, tli_room **rooms)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->rooms.count; i++)
        if (p->rooms.items[i].inside < 0) {
            rooms[count++] = &p->rooms.items[i];
            p->unplanned += tl_round_up(p->rooms.items[i].bytes, t->alignment);
        }
    if (p->unplanned <= p->apart) return place_apart(p, rooms, count);
    qsort(rooms, (size_t)count, sizeof *rooms, by_size);
    for (int64_t i = 0; i < count; i++) {
        tli_room *r = rooms[i];
        r->offset = lowest_gap(t, r);
        if (r->offset + r->bytes > p->bytes) p->bytes = r->offset + r->bytes;
        TL_ASSERT(r->offset >= 0 && (i == 0 || rooms[i - 1]->bytes >= r->bytes));
        TL_TRY(note(t, r));
    }
    return TL_OK;
}

static int64_t make_levels(tree *t, int64_t calls)
{
    int64_t count = 0;
    for (t->levels = 0; t->levels < MOST_LEVELS; calls = ((calls - 1) >> BITS) + 1) {
        t->first[t->levels++] = count;
        count += calls;
        if (calls <= 1) break;
    }
    TL_ASSERT(calls <= 1); // there is a root
    return count;
}

tl_status tli_plan_place(tli_plan *p, int64_t calls)
{
    tree t = {.alignment = p->alignment};
    int64_t count = make_levels(&t, calls > 0 ? calls : 1);
    size_t bytes = (size_t)count * sizeof *t.branches;
    size_t room_bytes = (size_t)(p->rooms.count + 1) * sizeof(tli_room *);
    t.branches = tl_alloc_zero(bytes);
    tli_room **rooms = tl_alloc(room_bytes);
    tl_status st = t.branches && rooms ? place(p, &t, rooms) : TL_FAIL_NOMEM(bytes + room_bytes);
    for (int64_t i = 0; t.branches && i < count; i++) {
        tl_free(t.branches[i].all.more);
        tl_free(t.branches[i].below.more);
    }
    tl_free(t.branches);
    tl_free(rooms);
    return st;
}
