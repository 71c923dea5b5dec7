#include "graph/uses.h"

#include "core/inner/storage.h"
#include "core/inner/tensor.h"
#include "graph/graph.h"

/* Between the orders of calls that were numbered along the list: room for 24 halvings before all
 * are numbered again, and for 2^39 calls. */
static const int64_t usual_gap = (int64_t)1 << 24;

static tli_call *call_of(const tl_graph *g, const tl_node *n)
{
    TL_ASSERT(n->id >= 0 && n->id < g->uses.calls.count);
    return &g->uses.calls.items[n->id];
}

static tli_graph_value *value_of(const tl_graph *g, const tl_tensor *t)
{
    TL_ASSERT(tli_value_id(g, t) < g->uses.values.count);
    return &g->uses.values.items[tli_value_id(g, t)];
}

static bool is_adopted(const tl_graph *g, const tl_node *n)
{
    return n->id < g->uses.calls.count && call_of(g, n)->node == n;
}

static tl_status mark_changed(tl_graph *g, const tl_node *n)
{
    tli_call *c = call_of(g, n);
    if (c->changed || g->uses.all_changed) return TL_OK;
    c->changed = true;
    return TL_VEC_PUSH(&g->uses.changed, (int32_t)n->id) ? TL_OK : TL_ENOMEM;
}

/* --- values ----------------------------------------------------------------------------------- */

// All headers that the context has made by now.
static tl_status add_values(tl_graph *g)
{
    int64_t count = (int64_t)(tli_ctx_next_id(g->ctx) - g->ctx->first_id);
    while (g->uses.values.count < count) {
        int32_t id = (int32_t)g->uses.values.count;
        tli_graph_value v = {.first = -1,
                             .last = -1,
                             .maker = id,
                             .before = id,
                             .after = id,
                             .memory = id,
                             .changes = -1};
        if (!TL_VEC_PUSH(&g->uses.values, v)) return TL_ENOMEM;
    }
    return TL_OK;
}

// From here on `t` shows what `of` shows; its own elements when that is itself.
static void show(tl_graph *g, const tl_tensor *t, const tl_tensor *of)
{
    tli_graph_value *all = g->uses.values.items, *v = value_of(g, t);
    int32_t id = (int32_t)tli_value_id(g, t);
    all[v->before].after = v->after;
    all[v->after].before = v->before;
    v->maker = v->before = v->after = id;
    if (of == t) return;
    tli_graph_value *maker = &all[value_of(g, of)->maker];
    v->maker = value_of(g, of)->maker;
    v->before = maker->before;
    v->after = v->maker;
    all[maker->before].after = id;
    maker->before = id;
    TL_ASSERT(maker->maker == v->maker && all[v->before].after == id && all[v->after].before == id);
}

static void link_use(tl_graph *g, int32_t number)
{
    tli_use *all = g->uses.uses.items, *use = &all[number];
    tli_graph_value *v = value_of(g, g->uses.calls.items[use->call].node->in[use->input]);
    TL_ASSERT(number >= 0 && number < g->uses.uses.count
              && (v->last < 0 || all[v->last].after == -1));
    use->before = v->last;
    use->after = -1;
    *(v->last >= 0 ? &all[v->last].after : &v->first) = number;
    v->last = number;
    v->count++;
}

static void unlink_use(tl_graph *g, int32_t number)
{
    tli_use *all = g->uses.uses.items, *use = &all[number];
    tli_graph_value *v = value_of(g, g->uses.calls.items[use->call].node->in[use->input]);
    TL_ASSERT(v->count > 0 && (use->before >= 0 ? all[use->before].after : v->first) == number);
    // It is in the list, both ways.
    TL_ASSERT((use->after >= 0 ? all[use->after].before : v->last) == number);
    *(use->before >= 0 ? &all[use->before].after : &v->first) = use->after;
    *(use->after >= 0 ? &all[use->after].before : &v->last) = use->before;
    v->count--;
}

/* --- changes of memory ------------------------------------------------------------------------ */

static tli_changes *table_of(const tl_graph *g, const tl_tensor *t)
{
    int32_t table = g->uses.values.items[tli_memory_id(g, t)].changes;
    TL_ASSERT(table < g->uses.changes.count);
    return table < 0 ? NULL : &g->uses.changes.items[table];
}

static tl_status new_table(tl_graph *g, const tl_tensor *t)
{
    tli_graph_value *v = &g->uses.values.items[tli_memory_id(g, t)];
    if (v->changes >= 0) return TL_OK;
    v->changes = (int32_t)g->uses.changes.count;
    return TL_VEC_PUSH(&g->uses.changes, (tli_changes){0}) ? TL_OK : TL_ENOMEM;
}

// A call that changes memory in two ways is noted once; that it writes an input counts.
static tl_status add_change(tl_graph *g, const tl_tensor *t, const tl_node *n, bool reuses)
{
    const tli_call *calls = g->uses.calls.items;
    TL_TRY(new_table(g, t));
    tli_changes *c = table_of(g, t);
    int64_t at = c->count;
    while (at > 0 && calls[c->items[at - 1].call].order > call_of(g, n)->order) at--;
    TL_ASSERT(c->writes >= 0 && c->writes <= c->count && calls[n->id].node == n);
    if (at > 0 && c->items[at - 1].call == (int32_t)n->id) {
        c->writes += c->items[at - 1].reuses && !reuses;
        c->items[at - 1].reuses &= reuses;
        return TL_OK;
    }
    if (!TL_VEC_PUSH(c, (tli_change){0})) return TL_ENOMEM;
    for (int64_t i = c->count - 1; i > at; i--) c->items[i] = c->items[i - 1];
    c->items[at] = (tli_change){(int32_t)n->id, reuses};
    c->writes += !reuses;
    return TL_OK;
}

static void drop_change(tl_graph *g, const tl_tensor *t, const tl_node *n)
{
    tli_changes *c = table_of(g, t);
    int64_t kept = 0;
    for (int64_t i = 0; c && i < c->count; i++) {
        if (c->items[i].call != (int32_t)n->id) c->items[kept++] = c->items[i];
        else c->writes -= !c->items[i].reuses;
    }
    if (c) c->count = kept;
    TL_ASSERT(!c || (c->writes >= 0 && c->writes <= c->count));
}

// Results that are put over what was read (reuse.c).
static bool reuses(const tl_node *n, int output)
{
    return n->out[output]->view_of && !tli_is_view(n);
}

static tl_status add_changes(tl_graph *g, const tl_node *n)
{
    for (int i = 0; tli_has_effects(n) && i < n->inputs; i++)
        if (tli_call_writes(n, i)) TL_TRY(add_change(g, n->in[i], n, false));
    for (int i = 0; i < n->outputs; i++)
        if (reuses(n, i)) TL_TRY(add_change(g, n->out[i], n, true));
    return TL_OK;
}

static void drop_changes(tl_graph *g, const tl_node *n)
{
    for (int i = 0; tli_has_effects(n) && i < n->inputs; i++)
        if (tli_call_writes(n, i)) drop_change(g, n->in[i], n);
    for (int i = 0; i < n->outputs; i++)
        if (reuses(n, i)) drop_change(g, n->out[i], n);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void number_along(tl_graph *g)
{
    int64_t order = 0;
    TLI_EACH_NODE(g, n) {
        order += usual_gap;
        if (is_adopted(g, n)) call_of(g, n)->order = order;
    }
}

// Orders that lie evenly between those around `count` calls from `first` on: the one before the
// first of them, and the step.
static void find_orders(tl_graph *g, const tl_node *first, int64_t count, int64_t *base,
                        int64_t *step)
{
    const tl_node *next = first;
    for (int64_t i = 0; i < count; i++) next = next->after;
    for (int tries = 0; tries < 2; tries++) {
        *base = first->before ? call_of(g, first->before)->order : 0;
        *step = next ? (call_of(g, next)->order - *base) / (count + 1) : usual_gap;
        if (*step > 0) return;
        number_along(g);
    }
    TL_ASSERT(count < usual_gap);
}

static tl_status add_uses(tl_graph *g, const tl_node *n)
{
    call_of(g, n)->uses = (int32_t)g->uses.uses.count;
    for (int i = 0; i < n->inputs; i++) {
        if (!TL_VEC_PUSH(&g->uses.uses, (tli_use){.call = (int32_t)n->id, .input = i}))
            return TL_ENOMEM;
        link_use(g, (int32_t)g->uses.uses.count - 1);
        // Those of a call follow each other.
        TL_ASSERT(g->uses.uses.count - 1 == call_of(g, n)->uses + i);
    }
    return TL_OK;
}

static void drop_uses(tl_graph *g, const tl_node *n)
{
    for (int i = 0; i < n->inputs; i++) unlink_use(g, call_of(g, n)->uses + i);
}

// A call of the list that the graph does not know yet.
static tl_status adopt(tl_graph *g, tl_node *n, int64_t order)
{
    n->id = g->uses.calls.count;
    if (!TL_VEC_PUSH(&g->uses.calls, (tli_call){.node = n, .order = order})) return TL_ENOMEM;
    TL_ASSERT(is_adopted(g, n) && n->id <= INT32_MAX);
    TL_TRY(add_uses(g, n));
    for (int i = 0; i < n->outputs; i++) {
        tli_graph_value *v = value_of(g, n->out[i]);
        v->tensor = n->out[i];
        if (tli_is_view(n)) show(g, n->out[i], n->in[0]);
        if (reuses(n, i)) v->memory = (int32_t)tli_memory_id(g, n->out[i]->view_of);
        TL_ASSERT(n->out[i]->node == n && n->out[i]->output == i);
    }
    TL_TRY(add_changes(g, n));
    return mark_changed(g, n);
}

/* --- the whole -------------------------------------------------------------------------------- */

static tl_status add_outside(tl_graph *g, tl_tensor *t)
{
    TL_ASSERT(t->storage && !t->node && !t->view_of);
    int64_t memory = tli_pointer_map_get(&g->uses.storages, t->storage), id = tli_value_id(g, t);
    value_of(g, t)->tensor = t;
    value_of(g, t)->memory = (int32_t)(memory < 0 ? id : memory);
    return memory >= 0 || tli_pointer_map_put(&g->uses.storages, t->storage, id) ? TL_OK
                                                                                 : TL_ENOMEM;
}

// All but the memory that it takes.
static void forget(tli_uses *u)
{
    for (int64_t i = 0; i < u->changes.count; i++) TL_VEC_FREE(&u->changes.items[i]);
    u->changes.count = u->uses.count = u->calls.count = u->values.count = u->changed.count = 0;
    tli_pointer_map_free(&u->storages);
}

void tli_uses_free(tli_uses *u)
{
    forget(u);
    TL_VEC_FREE(&u->changes);
    TL_VEC_FREE(&u->uses);
    TL_VEC_FREE(&u->calls);
    TL_VEC_FREE(&u->values);
    TL_VEC_FREE(&u->changed);
}

tl_status tli_uses_make(tl_graph *g)
{
    forget(&g->uses);
    g->uses.all_changed = true;
    TL_TRY(add_values(g));
    for (int64_t i = 0; i < g->input_count; i++)
        value_of(g, g->inputs[i].tensor)->tensor = g->inputs[i].tensor;
    for (int64_t i = 0; i < g->outside.count; i++)
        TL_TRY(add_outside(g, g->outside.items[i].header));
    int64_t order = 0;
    TLI_EACH_NODE(g, n) TL_TRY(adopt(g, n, order += usual_gap));
    for (int64_t i = 0; i < g->output_count; i++) value_of(g, g->outputs[i].tensor)->outputs++;
    return TL_OK;
}

tl_status tli_add_outside(tl_graph *g, const tl_tensor *original, tl_tensor *header)
{
    if (!TL_VEC_PUSH(&g->outside, (tli_outside){original, header})) return TL_ENOMEM;
    TL_TRY(add_values(g));
    return add_outside(g, header);
}

/* --- changing --------------------------------------------------------------------------------- */

static tl_status infer_again(const tl_node *n)
{
    TL_TRY(n->op->infer(n));
    tl_tensor *out = n->out[0];
    out->contiguous = tli_tensor_is_row_major(out);
    out->view_of = n->in[0];
    tl_storage *before = out->storage;
    TL_ASSERT(out->dtype == n->in[0]->dtype); // a view shows elements as they are
    if ((out->storage = n->in[0]->storage)) tli_storage_retain(out->storage);
    tli_storage_release(before);
    return TL_OK;
}

// Calls that write what `t` shows, when that becomes something else and has become it.
static tl_status renew_changes(tl_graph *g, const tl_tensor *t, bool add)
{
    TLI_EACH_USE(g, t, u)
    {
        const tl_node *user = tli_user(g, u);
        if (!tli_call_writes(user, u->input)) continue;
        if (add) TL_TRY(add_changes(g, user));
        else drop_changes(g, user);
    }
    return TL_OK;
}

// A view whose input is another one shows other elements, and so do views of it.
static tl_status renew_view(tl_graph *g, const tl_node *n)
{
    const tl_tensor *out = n->out[0];
    TL_TRY(infer_again(n));
    TL_TRY(renew_changes(g, out, false));
    show(g, out, n->in[0]);
    TL_TRY(renew_changes(g, out, true));
    TL_TRY(mark_changed(g, n));
    TLI_EACH_USE(g, out, u) if (tli_is_view(tli_user(g, u))) TL_TRY(renew_view(g, tli_user(g, u)));
    return TL_OK;
}

tl_status tli_set_input(tl_graph *g, tl_node *n, int i, tl_tensor *t)
{
    TL_ASSERT(is_adopted(g, n) && i >= 0 && i < n->inputs);
    if (n->in[i] == t) return TL_OK;
    TL_TRY(add_values(g));
    drop_changes(g, n);
    unlink_use(g, call_of(g, n)->uses + i);
    ((tl_tensor **)n->in)[i] = t;
    link_use(g, call_of(g, n)->uses + i);
    TL_ASSERT(value_of(g, t)->last == call_of(g, n)->uses + i);
    TL_TRY(add_changes(g, n));
    TL_TRY(mark_changed(g, n));
    return tli_is_view(n) ? renew_view(g, n) : TL_OK;
}

tl_status tli_add_input(tl_graph *g, tl_node *n, tl_tensor *t)
{
    TL_ASSERT(is_adopted(g, n) && tli_value_id(g, t) < g->uses.values.count);
    tl_tensor **in = tl_arena_array(g->ctx->arena, n->inputs + 1, sizeof *in);
    if (!in) return TL_ENOMEM;
    for (int i = 0; i < n->inputs; i++) in[i] = n->in[i];
    drop_changes(g, n);
    drop_uses(g, n);
    in[n->inputs++] = t;
    n->in = in;
    TL_TRY(add_uses(g, n));
    TL_TRY(add_changes(g, n));
    return mark_changed(g, n);
}

tl_status tli_replace(tl_graph *g, tl_tensor *from, tl_tensor *to)
{
    TL_ASSERT(from != to && tl_shape_equal(&from->shape, &to->shape));
    TL_TRY(add_values(g));
    for (int64_t i = 0; value_of(g, from)->outputs && i < g->output_count; i++) {
        if (g->outputs[i].tensor != from) continue;
        g->outputs[i].tensor = to;
        value_of(g, from)->outputs--;
        value_of(g, to)->outputs++;
    }
    while (value_of(g, from)->first >= 0) {
        const tli_use *u = tli_first_use(g, from);
        TL_TRY(tli_set_input(g, tli_user(g, u), u->input, to));
    }
    TL_ASSERT(!tli_use_count(g, from)); // nobody is left
    return TL_OK;
}

tl_status tli_reuse(tl_graph *g, tl_node *n, int output, int input)
{
    tl_tensor *out = n->out[output], *root = tli_root(n->in[input]);
    TL_ASSERT(tli_writes_over(g, n) && !out->view_of && !tli_is_output(g, root)
              && !tli_is_output(g, out));
    TL_ASSERT(tl_tensor_bytes(out) == tl_tensor_bytes(root)
              && !tli_is_read_after(g, root, n, false));
    int32_t own = value_of(g, out)->changes;
    out->view_of = root; // whose memory it has from now on
    value_of(g, out)->memory = (int32_t)tli_memory_id(g, root);
    TL_TRY(add_change(g, root, n, true));
    for (int64_t i = 0; own >= 0 && i < g->uses.changes.items[own].count; i++) {
        tli_change c = g->uses.changes.items[own].items[i];
        TL_TRY(add_change(g, root, g->uses.calls.items[c.call].node, c.reuses));
    }
    TL_ASSERT(tli_memory_id(g, out) == tli_memory_id(g, root));
    if (own >= 0) g->uses.changes.items[own].count = g->uses.changes.items[own].writes = 0;
    return mark_changed(g, n);
}

static void unlink_node(tl_graph *g, tl_node *n)
{
    TL_ASSERT((n->before ? n->before->after : g->ctx->first) == n
              && (n->after ? n->after->before : g->ctx->last) == n);
    *(n->before ? &n->before->after : &g->ctx->first) = n->after;
    *(n->after ? &n->after->before : &g->ctx->last) = n->before;
}

static void link_node(tl_graph *g, tl_node *n, tl_node *place)
{
    TL_ASSERT(n != place && (place->before ? place->before->after : g->ctx->first) == place);
    n->after = place;
    n->before = place->before;
    *(place->before ? &place->before->after : &g->ctx->first) = n;
    place->before = n;
}

void tli_remove(tl_graph *g, tl_node *n)
{
    unlink_node(g, n);
    if (!is_adopted(g, n)) return; // made, and taken out at once
    drop_changes(g, n);
    drop_uses(g, n);
    for (int i = 0; i < n->outputs; i++) {
        TL_ASSERT(!tli_use_count(g, n->out[i]));
        show(g, n->out[i], n->out[i]);
        value_of(g, n->out[i])->tensor = NULL;
    }
    call_of(g, n)->node = NULL;
}

tl_status tli_move(tl_graph *g, tl_node *n, tl_node *place)
{
    int64_t base, step;
    TL_ASSERT(is_adopted(g, n) && is_adopted(g, place));
    drop_changes(g, n);
    unlink_node(g, n);
    link_node(g, n, place);
    find_orders(g, n, 1, &base, &step);
    call_of(g, n)->order = base + step;
    TL_ASSERT(tli_is_before(g, n, place) && (!n->before || tli_is_before(g, n->before, n)));
    TL_TRY(add_changes(g, n));
    return mark_changed(g, n);
}

tl_status tli_move_new(tl_graph *g, tl_node *last, tl_node *place)
{
    int64_t count = 0, base, step;
    tl_node *first = place;
    for (tl_node *n; (n = g->ctx->last) != last; first = n, count++) {
        unlink_node(g, n);
        link_node(g, n, first);
    }
    if (!count) return TL_OK;
    TL_TRY(add_values(g));
    find_orders(g, first, count, &base, &step);
    for (tl_node *n = first; n != place; n = n->after) TL_TRY(adopt(g, n, base += step));
    TL_ASSERT(tli_is_before(g, place->before, place));
    return TL_OK;
}
