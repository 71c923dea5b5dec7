#include "graph/plan.h"

#include <stdlib.h>
#include <tilth/sys/core/attrs.h>

enum { ALIGNMENT = 64 };

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* --- rooms -------------------------------------------------------------------------------------- */
/* A tensor's `pass` holds the number of its room, plus one, while the plan is alive. */

static tli_room *room_of(const tli_plan *p, const tl_tensor *root)
{
    return root->node && root->pass > 0 ? &p->rooms.items[root->pass - 1] : NULL;
}

static tl_status add_room(tli_plan *p, tl_tensor *t, int64_t bytes, int64_t node)
{
    tli_room room = {.tensor = t, .bytes = bytes, .first = node, .last = node, .inside = -1};
    if (!TL_VEC_PUSH(&p->rooms, room)) return TL_ENOMEM;
    if (t) t->pass = p->rooms.count;
    return TL_OK;
}

static tl_status add_rooms(tli_plan *p, tl_graph *g, const int64_t *scratch)
{
    TLI_EACH_NODE(g, n) {
        for (int i = 0; i < n->inputs; i++) {
            tli_room *r = room_of(p, tli_root(n->in[i]));
            if (r) r->last = n->index;
        }
        if (tli_is_view(n)) continue;
        for (int i = 0; i < n->outputs; i++) {
            n->out[i]->pass = 0;
            if (!tli_is_output(g, n->out[i]) && !n->out[i]->view_of)
                TL_TRY(add_room(p, n->out[i], (int64_t)tl_tensor_bytes(n->out[i]), n->index));
        }
        if (scratch && scratch[n->index]) TL_TRY(add_room(p, NULL, scratch[n->index], n->index));
    }
    return TL_OK;
}

/* --- packs: what they put together is computed in its place -------------------------------------- */

// The first call behind `n` that puts its result over what lies there.
static int64_t overwritten_at(const tl_node *n, const tl_tensor *root)
{
    for (n = n->after; n; n = n->after)
        for (int i = 0; !tli_is_view(n) && i < n->outputs; i++)
            if (tli_root(n->out[i]) == root) return n->index;
    return INT64_MAX;
}

static void pack_in_place(tli_plan *p, const tl_graph *g, const tl_node *n)
{
    const tl_pack_attr *a = n->attr;
    tli_room *whole = room_of(p, n->out[0]);
    if (!whole || tli_is_written(g, n->out[0])) return;
    int64_t end = overwritten_at(n, n->out[0]);
    for (int i = 0; i < n->inputs; i++) {
        const tl_tensor *t = n->in[i];
        tli_room *part = room_of(p, tli_root(t));
        // Only what covers its memory as it lies; and each memory has one place.
        if (!part || part->inside >= 0 || part->holds || !t->contiguous || t->offset != 0) continue;
        if (tl_tensor_count(t) != tl_tensor_count(tli_root(t)) || tli_is_written(g, t)) continue;
        // Whoever writes over the one must not change the other.
        if (part->last >= end || overwritten_at(n, tli_root(t)) != INT64_MAX) continue;
        whole->holds = true;
        part->inside = whole - p->rooms.items;
        part->at = a->offsets.items[i] * (int64_t)tl_dtype_size(t->dtype);
        if (part->first < whole->first) whole->first = part->first;
        if (part->last > whole->last) whole->last = part->last;
    }
}

/* --- offsets ------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    const tli_room *x = *(tli_room *const *)a, *y = *(tli_room *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static bool meet(const tli_room *a, const tli_room *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int by_offset(const void *a, const void *b)
{
    const tli_room *x = *(tli_room *const *)a, *y = *(tli_room *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x < y ? -1 : x > y;
}

// The lowest gap between the rooms that are needed at the same time, which lie in order of offset.
static int64_t lowest_gap(tli_room *const *placed, int64_t count, const tli_room *r)
{
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!meet(placed[i], r)) continue;
        if (placed[i]->offset - at >= r->bytes) break;
        int64_t end = aligned(placed[i]->offset + placed[i]->bytes);
        if (end > at) at = end;
    }
    return at;
}

// The largest first: what is placed later fills the gaps.
static tl_status place_rooms(tli_plan *p)
{
    int64_t count = 0, placed = 0;
    tli_room **rooms = tl_alloc((size_t)(2 * p->rooms.count + 1) * sizeof *rooms);
    if (!rooms) return TL_FAIL_NOMEM((size_t)(2 * p->rooms.count + 1) * sizeof *rooms);
    tli_room **done = rooms + p->rooms.count;
    for (int64_t i = 0; i < p->rooms.count; i++)
        if (p->rooms.items[i].inside < 0) rooms[count++] = &p->rooms.items[i];
    qsort(rooms, (size_t)count, sizeof *rooms, by_size);
    for (int64_t i = 0; i < count; i++) {
        tli_room *r = rooms[i];
        r->offset = lowest_gap(done, placed, r);
        p->unplanned += aligned(r->bytes);
        if (r->offset + r->bytes > p->bytes) p->bytes = r->offset + r->bytes;
        int64_t at = placed++;
        for (; at > 0 && by_offset(&done[at - 1], &r) > 0; at--) done[at] = done[at - 1];
        done[at] = r;
    }
    tl_free(rooms);
    return TL_OK;
}

tl_status tli_plan_make(tli_plan *out, tl_graph *g, const int64_t *scratch)
{
    tli_number_nodes(g);
    TL_TRY(add_rooms(out, g, scratch));
    TLI_EACH_NODE(g, n)
        if (n->op->op == TL_OP_pack && n->op != &tli_op_nest) pack_in_place(out, g, n);
    TL_TRY(place_rooms(out));
    for (int64_t i = 0; i < out->rooms.count; i++) {
        tli_room *r = &out->rooms.items[i];
        if (r->inside >= 0) r->offset = out->rooms.items[r->inside].offset + r->at;
    }
    return TL_OK;
}

void tli_plan_free(tli_plan *p)
{
    TL_VEC_FREE(&p->rooms);
}

const tli_room *tli_plan_room(const tli_plan *p, const tl_tensor *root)
{
    return room_of(p, root);
}

int64_t tli_plan_scratch(const tli_plan *p, const tl_node *n)
{
    for (int64_t i = 0; i < p->rooms.count; i++)
        if (!p->rooms.items[i].tensor && p->rooms.items[i].first == n->index)
            return p->rooms.items[i].offset;
    return 0;
}

bool tli_plan_is_packed(const tli_plan *p, const tl_node *pack, int i)
{
    const tli_room *whole = room_of(p, pack->out[0]), *part = room_of(p, tli_root(pack->in[i]));
    const tl_pack_attr *a = pack->attr;
    return whole && part && part->inside == whole - p->rooms.items
           && part->at == a->offsets.items[i] * (int64_t)tl_dtype_size(pack->in[i]->dtype);
}
