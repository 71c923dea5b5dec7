#include "graph/order.h"

/* --- memory that is written in place ---------------------------------------------------------- */

typedef struct readers {
    int64_t *items;
    int64_t count, capacity;
} readers;

/* Memory that is changed, and who used it last. */
typedef struct memory {
    int64_t writer; /* -1: nobody yet */
    readers since;  /* that writer */
} memory;

/* The memories of a graph that calls change, by what tli_memory_id gives. */
typedef struct memories {
    const tl_graph *g;
    memory *items;
    int32_t *numbers; /* of each, plus one; 0: nobody changes it */
    int64_t count;
} memories;

static memory *find(const memories *all, const tl_tensor *t)
{
    int32_t number = all->numbers[tli_memory_id(all->g, t)];
    return number ? &all->items[number - 1] : NULL;
}

static tl_status find_changed(memories *out, tl_graph *g)
{
    *out = (memories){.g = g};
    out->items = tl_arena_array(g->scratch, g->uses.changes.count, sizeof *out->items);
    out->numbers = tl_arena_array(g->scratch, tli_value_count(g), sizeof *out->numbers);
    if (!out->items || !out->numbers) return TL_ENOMEM;
    TLI_EACH_NODE(g, n)
        for (int i = 0; tli_has_effects(n) && i < n->inputs; i++) {
            if (!tli_call_writes(n, i) || find(out, n->in[i])) continue;
            out->items[out->count].writer = -1;
            out->numbers[tli_memory_id(g, n->in[i])] = (int32_t)++out->count;
            TL_ASSERT(out->count <= g->uses.changes.count);
        }
    return TL_OK;
}

/* --- dependencies ----------------------------------------------------------------------------- */

static tl_status add(tli_order *o, int64_t dep)
{
    TL_ASSERT(dep < o->count - 1); // what comes before in the list
    return dep < 0 || TL_VEC_PUSH(&o->deps, dep) ? TL_OK : TL_ENOMEM;
}

static tl_status add_memory_deps(tli_order *o, memories *list, const tl_node *n)
{
    for (int i = 0; i < n->inputs; i++) {
        memory *w = find(list, n->in[i]);
        if (!w) continue;
        TL_TRY(add(o, w->writer));
        for (int64_t k = 0; tli_call_writes(n, i) && k < w->since.count; k++)
            if (w->since.items[k] != n->index) TL_TRY(add(o, w->since.items[k]));
    }
    for (int i = 0; i < n->inputs; i++) {
        memory *w = find(list, n->in[i]);
        if (!w) continue;
        if (tli_call_writes(n, i)) {
            w->writer = n->index;
            w->since.count = 0;
        } else if (w->writer != n->index && !TL_VEC_PUSH(&w->since, n->index)) {
            return TL_ENOMEM;
        }
    }
    return TL_OK;
}

static bool has_dep(const tli_order *o, const tl_node *n, const tl_node *on)
{
    for (int64_t k = o->first[n->index]; k < o->deps.count; k++)
        if (o->deps.items[k] == on->index) return true;
    return false;
}

// All that used memory since it was written last must run before `n` writes it: asked of the uses,
// not of the notes that the dependencies were made from.
static bool waits_for_users(const tli_order *o, const tl_graph *g, const tl_node *n)
{
    for (int i = 0; i < n->inputs; i++)
        for (int64_t k = 0; tli_call_writes(n, i) && k < g->uses.values.count; k++) {
            const tl_tensor *t = g->uses.values.items[k].tensor;
            if (!t || tli_memory_id(g, t) != tli_memory_id(g, n->in[i])) continue;
            TLI_EACH_USE(g, t, u)
            {
                const tl_node *user = tli_user(g, u);
                if (tli_is_view(user) || !tli_is_before(g, user, n)
                    || tli_is_changed_between(g, t, user, n))
                    continue;
                if (!has_dep(o, n, user)) return false;
            }
        }
    return true;
}

static tl_status add_deps(tli_order *o, tl_graph *g, memories *list)
{
    int64_t collective = -1; // the last one
    TLI_EACH_NODE(g, n) {
        n->index = o->count++;
        o->nodes[n->index] = n;
        o->first[n->index] = o->deps.count;
        for (int i = 0; i < n->inputs; i++)
            if (n->in[i]->node) TL_TRY(add(o, n->in[i]->node->index));
        if (list->count && !tli_is_view(n)) TL_TRY(add_memory_deps(o, list, n));
        if (tli_is_collective(n)) {
            TL_TRY(add(o, collective));
            collective = n->index;
        }
        o->first[n->index + 1] = o->deps.count;
        TL_ASSERT(!tli_has_effects(n) || waits_for_users(o, g, n));
    }
    return TL_OK;
}

tl_status tli_order_make(tli_order *out, tl_graph *g)
{
    memories list = {0};
    int64_t most = g->uses.calls.count + 1;
    *out = (tli_order){.count = 0};
    out->nodes = tl_arena_array(g->scratch, most, sizeof *out->nodes);
    out->first = tl_arena_array(g->scratch, most, sizeof *out->first);
    tl_status st = out->nodes && out->first ? find_changed(&list, g) : TL_ENOMEM;
    if (st == TL_OK) st = add_deps(out, g, &list);
    for (int64_t i = 0; i < list.count; i++) TL_VEC_FREE(&list.items[i].since);
    if (st != TL_OK) tli_order_free(out);
    return st;
}

void tli_order_free(tli_order *o)
{
    TL_VEC_FREE(&o->deps);
}

/* --- the pass --------------------------------------------------------------------------------- */

// Calls without inputs, and casts of what is always there, run right before they are first needed.
static bool can_wait(const tl_node *n)
{
    for (int i = 0; i < n->inputs; i++)
        if (n->in[i]->node) return false;
    return !tli_has_effects(n) && !tli_is_view(n) && n->outputs == 1;
}

tl_status tli_pass_order(tl_graph *g, int64_t *changes)
{
    for (tl_node *n = g->ctx->last, *before; n; n = before) {
        before = n->before;
        tl_node *user = can_wait(n) ? tli_first_user(g, n->out[0]) : NULL;
        if (!user || user == n->after || !tli_may_move(g, n, user)) continue;
        TL_TRY(tli_move(g, n, user));
        ++*changes;
    }
    return TL_OK;
}
