#include "graph/plan.h"

#include <tilth/core/attrs.h>

/* --- rooms ------------------------------------------------------------------------------------ */

static tli_room *room_of(const tli_plan *p, const tl_tensor *root)
{
    int32_t number = root->node ? p->room_of[tli_value_id(p->graph, root)] : 0;
    return number ? &p->rooms.items[number - 1] : NULL;
}

static tl_status add_room(tli_plan *p, tl_tensor *t, int64_t bytes, int64_t node)
{
    tli_room room = {.tensor = t, .bytes = bytes, .first = node, .last = node, .inside = -1};
    if (!TL_VEC_PUSH(&p->rooms, room)) return TL_ENOMEM;
    if (t)
        p->room_of[tli_value_id(p->graph, t)] = (int32_t)p->rooms.count;
    else
        p->scratch_of[node] = (int32_t)p->rooms.count;
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
        part->at = a->offsets.items[i] * (int64_t)tl_dtype_size(t->dtype);
        if (part->first < whole->first) whole->first = part->first;
        if (part->last > whole->last) whole->last = part->last;
    }
}

tl_status tli_plan_make(tli_plan *out, tl_graph *g, const int64_t *scratch)
{
    int64_t calls = tli_number_nodes(g);
    out->graph = g;
    out->alignment = (int64_t)tl_engine_device(g->ctx->engine)->cls->alignment;
    out->room_of = tl_arena_array(g->ctx->arena, tli_value_count(g), sizeof *out->room_of);
    out->scratch_of = tl_arena_array(g->ctx->arena, calls, sizeof *out->scratch_of);
    if (!out->room_of || !out->scratch_of) return TL_ENOMEM;
    TL_TRY(add_rooms(out, g, scratch));
    TLI_EACH_NODE(g, n)
        if (n->op->op == TL_OP_pack && n->op != &tli_op_nest) pack_in_place(out, g, n);
    TL_TRY(tli_plan_place(out, calls));
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
    int32_t number = p->scratch_of[n->index];
    return number ? p->rooms.items[number - 1].offset : 0;
}

bool tli_plan_is_packed(const tli_plan *p, const tl_node *pack, int i)
{
    const tli_room *whole = room_of(p, pack->out[0]), *part = room_of(p, tli_root(pack->in[i]));
    const tl_pack_attr *a = pack->attr;
    return whole && part && part->inside == whole - p->rooms.items
           && part->at == a->offsets.items[i] * (int64_t)tl_dtype_size(pack->in[i]->dtype);
}
