#include "graph/plan.h"

#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

/* --- rooms ------------------------------------------------------------------------------------ */

static tli_room *room_of(const tli_plan *p, const tl_tensor *root)
{
    int32_t number = root->node ? p->room_of[tli_value_id(p->graph, root)] : 0;
    TL_ASSERT(number >= 0 && number <= p->rooms.count);
    return number ? &p->rooms.items[number - 1] : NULL;
}

static tl_status add_room(tli_plan *p, tl_tensor *t, int64_t bytes, int64_t node)
{
    tli_room room = {.tensor = t, .bytes = bytes, .first = node, .last = node, .inside = -1};
    TL_ASSERT(bytes >= 0 && (!t || !p->room_of[tli_value_id(p->graph, t)])); // one room for each
    if (!TL_VEC_PUSH(&p->rooms, room)) return TL_ENOMEM;
    if (t) p->room_of[tli_value_id(p->graph, t)] = (int32_t)p->rooms.count;
    else p->scratch_of[node] = (int32_t)p->rooms.count;
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
        for (int i = 0; i < n->outputs; i++)
            if (!tli_is_output(g, n->out[i]) && !n->out[i]->view_of)
                TL_TRY(add_room(p, n->out[i], (int64_t)tl_tensor_bytes(n->out[i]), n->index));
        if (scratch && scratch[n->index]) TL_TRY(add_room(p, NULL, scratch[n->index], n->index));
    }
    return TL_OK;
}

/* --- packs: what they put together is computed in its place ----------------------------------- */

// The first call behind `n` that puts its result over what lies there.
static int64_t overwritten_at(const tl_graph *g, const tl_node *n, const tl_tensor *t)
{
    const tli_changes *c = tli_changes_of(g, t);
    for (int64_t i = 0; c && i < c->count; i++) {
        const tl_node *changer = tli_changer(g, &c->items[i]);
        if (c->items[i].reuses && changer->index > n->index) return changer->index;
    }
    return INT64_MAX;
}

static void pack_in_place(tli_plan *p, const tl_graph *g, const tl_node *n)
{
    const tl_pack_attr *a = n->attr;
    tli_room *whole = room_of(p, n->out[0]);
    if (!whole || tli_is_written(g, n->out[0])) return;
    int64_t end = overwritten_at(g, n, n->out[0]);
    for (int i = 0; i < n->inputs; i++) {
        const tl_tensor *t = n->in[i];
        tli_room *part = room_of(p, tli_root(t));
        // Only what covers its memory as it lies; and each memory has one place.
        if (!part || part->inside >= 0 || part->holds || !t->contiguous || t->offset != 0) continue;
        if (tl_tensor_count(t) != tl_tensor_count(tli_root(t)) || tli_is_written(g, t)) continue;
        // Whoever writes over the one must not change the other.
        if (part->last >= end || overwritten_at(g, n, t) != INT64_MAX) continue;
        whole->holds = true;
        part->inside = whole - p->rooms.items;
        part->at = a->offsets.items[i] * (int64_t)tl_dtype_size(n->out[0]->dtype);
        TL_ASSERT(part->at >= 0 && part->at + part->bytes <= whole->bytes
                  && (a->bytes || t->dtype == n->out[0]->dtype));
        if (part->first < whole->first) whole->first = part->first;
        if (part->last > whole->last) whole->last = part->last;
    }
}

/* --- calls that run beside others ------------------------------------------------------------- */

enum {
    BEHIND = 4,     /* calls of their kind that may begin before the memory of one is used again */
    SMALL = 1 << 16 /* bytes that may as well stay to the end */
};

static void keep_until(tli_plan *p, const tl_tensor *t, int64_t until, int64_t end)
{
    for (tli_room *r = room_of(p, tli_root(t)); r;
         r = r->inside < 0 ? NULL : &p->rooms.items[r->inside]) {
        if (r->bytes <= SMALL) until = end; // and so stays what it is a part of
        r->last = tl_max_i64(r->last, until);
    }
}

/* Memory of a call that runs beside those behind it stays for a while: whoever got it next would
 * have to wait. */
static tl_status keep_beside(tli_plan *p, const tl_graph *g, bool (*beside)(const tl_node *call),
                             int64_t calls)
{
    const tl_node **all = tl_arena_array(g->ctx->arena, calls, sizeof *all);
    int64_t count = 0;
    if (!all) return TL_ENOMEM;
    TLI_EACH_NODE(g, n)
        if (beside(n)) all[count++] = n;
    for (int64_t i = 0; i < count; i++) {
        const int64_t until = i + BEHIND < count ? all[i + BEHIND]->index : calls - 1;
        for (int k = 0; k < all[i]->inputs; k++) keep_until(p, all[i]->in[k], until, calls - 1);
        for (int k = 0; k < all[i]->outputs; k++) keep_until(p, all[i]->out[k], until, calls - 1);
    }
    return TL_OK;
}

/* --- what must hold in the end ---------------------------------------------------------------- */

// What a call reads and makes is there while it runs.
static bool call_has_rooms(const tli_plan *p, const tl_node *n)
{
    for (int i = 0; i < n->inputs + n->outputs; i++) {
        const tli_room *r = room_of(p, tli_root(i < n->inputs ? n->in[i] : n->out[i - n->inputs]));
        if (r && (r->first > n->index || r->last < n->index)) return false;
    }
    return true;
}

static bool lies_inside(const tli_plan *p, const tli_room *r)
{
    const tli_room *whole = r->inside < 0 ? NULL : &p->rooms.items[r->inside];
    if (r->offset < 0 || r->offset + r->bytes > p->bytes) return false;
    return !whole
           || (whole->inside < 0 && r->offset >= whole->offset && r->first >= whole->first
               && r->last <= whole->last && r->offset + r->bytes <= whole->offset + whole->bytes);
}

// Two that are needed at a time have no byte in common; parts of others have theirs there.
static bool are_apart(const tli_room *a, const tli_room *b)
{
    if (a->inside >= 0 || b->inside >= 0 || a->last < b->first || b->last < a->first) return true;
    return a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
}

static bool is_sound(const tli_plan *p, const tl_graph *g)
{
    // Pairs are as many as the square: of a deep model a part must do.
    enum { MOST_COMPARED = 1024 };
    int64_t compared = tl_min_i64(p->rooms.count, MOST_COMPARED);
    TLI_EACH_NODE(g, n)
        if (!call_has_rooms(p, n)) return false;
    for (int64_t i = 0; i < p->rooms.count; i++)
        if (!lies_inside(p, &p->rooms.items[i])) return false;
    for (int64_t i = 0; i < compared; i++)
        for (int64_t k = 0; k < i; k++)
            if (!are_apart(&p->rooms.items[i], &p->rooms.items[k])) return false;
    return true;
}

tl_status tli_plan_make(tli_plan *out, tl_graph *g, const int64_t *scratch)
{
    int64_t calls = tli_number_nodes(g);
    out->graph = g;
    const tl_device_class *device = tl_engine_device(g->ctx->engine)->cls;
    out->alignment = (int64_t)device->alignment;
    out->apart = (int64_t)device->apart;
    out->room_of = tl_arena_array(g->ctx->arena, tli_value_count(g), sizeof *out->room_of);
    out->scratch_of = tl_arena_array(g->ctx->arena, calls, sizeof *out->scratch_of);
    if (!out->room_of || !out->scratch_of) return TL_ENOMEM;
    TL_TRY(add_rooms(out, g, scratch));
    TLI_EACH_NODE(g, n)
        if (n->op->op == TL_OP_pack && n->op != &tli_op_nest) pack_in_place(out, g, n);
    if (device->beside) TL_TRY(keep_beside(out, g, device->beside, calls));
    TL_TRY(tli_plan_place(out, calls));
    for (int64_t i = 0; i < out->rooms.count; i++) {
        tli_room *r = &out->rooms.items[i];
        if (r->inside >= 0) r->offset = out->rooms.items[r->inside].offset + r->at;
    }
    TL_ASSERT(is_sound(out, g) && out->bytes <= out->unplanned);
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
    int32_t number = p->scratch_of[n->index];
    TL_ASSERT(!number || !p->rooms.items[number - 1].tensor);
    return number ? p->rooms.items[number - 1].offset : 0;
}

bool tli_plan_is_packed(const tli_plan *p, const tl_node *pack, int i)
{
    const tli_room *whole = room_of(p, pack->out[0]), *part = room_of(p, tli_root(pack->in[i]));
    const tl_pack_attr *a = pack->attr;
    return whole && part && part->inside == whole - p->rooms.items
           && part->at == a->offsets.items[i] * (int64_t)tl_dtype_size(pack->out[0]->dtype);
}
