/* What passes ask: who uses a tensor, who changes its memory, and whether a call may run
 * elsewhere. */
#include "graph/graph.h"

/* --- numbers ---------------------------------------------------------------------------------- */

int64_t tli_value_id(const tl_graph *g, const tl_tensor *t)
{
    TL_ASSERT(t->id >= g->ctx->first_id && t->id < tli_ctx_next_id(g->ctx)); // of this graph
    return (int64_t)(t->id - g->ctx->first_id);
}

int64_t tli_value_count(const tl_graph *g)
{
    return (int64_t)(tli_ctx_next_id(g->ctx) - g->ctx->first_id);
}

// NULL: it was made after the graph was changed last, so nobody uses it.
static const tli_graph_value *value_of(const tl_graph *g, const tl_tensor *t)
{
    int64_t id = tli_value_id(g, t);
    return id < g->uses.values.count ? &g->uses.values.items[id] : NULL;
}

int64_t tli_memory_id(const tl_graph *g, const tl_tensor *t)
{
    const tli_graph_value *v = value_of(g, t);
    // A maker shows its own elements.
    TL_ASSERT(!v || g->uses.values.items[v->maker].maker == v->maker);
    return v ? g->uses.values.items[v->maker].memory : tli_value_id(g, t);
}

static int64_t order_of(const tl_graph *g, const tl_node *n)
{
    TL_ASSERT(n->id >= 0 && n->id < g->uses.calls.count && g->uses.calls.items[n->id].node == n);
    return g->uses.calls.items[n->id].order;
}

// Where a call runs that is put before `place`.
static int64_t order_before(const tl_graph *g, const tl_node *place)
{
    return place ? order_of(g, place) : INT64_MAX;
}

bool tli_is_before(const tl_graph *g, const tl_node *a, const tl_node *b)
{
    return order_before(g, a) < order_before(g, b);
}

/* --- uses ------------------------------------------------------------------------------------- */

static const tli_use *use_at(const tl_graph *g, int32_t number)
{
    TL_ASSERT(number < g->uses.uses.count);
    return number < 0 ? NULL : &g->uses.uses.items[number];
}

const tli_use *tli_first_use(const tl_graph *g, const tl_tensor *t)
{
    const tli_graph_value *v = value_of(g, t);
    return v ? use_at(g, v->first) : NULL;
}

const tli_use *tli_next_use(const tl_graph *g, const tli_use *u)
{
    return use_at(g, u->after);
}

tl_node *tli_user(const tl_graph *g, const tli_use *u)
{
    TL_ASSERT(u->call >= 0 && u->call < g->uses.calls.count);
    return g->uses.calls.items[u->call].node;
}

int64_t tli_use_count(const tl_graph *g, const tl_tensor *t)
{
    const tli_graph_value *v = value_of(g, t);
    return v ? v->count + v->outputs : 0;
}

bool tli_is_output(const tl_graph *g, const tl_tensor *t)
{
    const tli_graph_value *v = value_of(g, t);
    return v && v->outputs;
}

tl_node *tli_first_user(const tl_graph *g, const tl_tensor *t)
{
    tl_node *first = NULL;
    TLI_EACH_USE(g, t, u) if (tli_is_before(g, tli_user(g, u), first)) first = tli_user(g, u);
    return first;
}

const tli_graph_value *tli_first_shown(const tl_graph *g, const tl_tensor *t)
{
    const tli_graph_value *v = value_of(g, t);
    return v ? &g->uses.values.items[v->maker] : NULL;
}

const tli_graph_value *tli_next_shown(const tl_graph *g, const tli_graph_value *v,
                                      const tli_graph_value *first)
{
    const tli_graph_value *next = &g->uses.values.items[v->after];
    TL_ASSERT(next->maker == v->maker); // a ring of one maker
    return next == first ? NULL : next;
}

tl_node *tli_last_reader(const tl_graph *g, const tl_tensor *t)
{
    tl_node *last = NULL;
    TLI_EACH_SHOWN(g, t, v)
    for (const tli_use *u = use_at(g, v->last); u; u = use_at(g, u->before))
        if (!last || tli_is_before(g, last, tli_user(g, u))) last = tli_user(g, u);
    return last;
}

bool tli_is_read_after(const tl_graph *g, const tl_tensor *t, const tl_node *n, bool or_itself)
{
    int64_t order = order_before(g, n) + !or_itself;
    // What came last comes last in the list, mostly: whoever reads it is found soon.
    TLI_EACH_SHOWN(g, t, v)
    for (const tli_use *u = use_at(g, v->last); u; u = use_at(g, u->before))
        if (order_of(g, tli_user(g, u)) >= order) return true;
    return false;
}

/* --- changes ---------------------------------------------------------------------------------- */

const tli_changes *tli_changes_of(const tl_graph *g, const tl_tensor *t)
{
    const tli_graph_value *v = value_of(g, t);
    int32_t table = v ? g->uses.values.items[tli_memory_id(g, t)].changes : -1;
    const tli_changes *c = table < 0 ? NULL : &g->uses.changes.items[table];
    TL_ASSERT(table < g->uses.changes.count);
    return c && c->count ? c : NULL;
}

tl_node *tli_changer(const tl_graph *g, const tli_change *c)
{
    TL_ASSERT(c->call >= 0 && c->call < g->uses.calls.count);
    return g->uses.calls.items[c->call].node;
}

bool tli_is_written(const tl_graph *g, const tl_tensor *t)
{
    const tli_changes *c = tli_changes_of(g, t);
    return c && c->writes;
}

// Whether a call with an order of at least `from` and less than `to` changes the memory of `t`.
static bool is_changed(const tl_graph *g, const tl_tensor *t, int64_t from, int64_t to)
{
    const tli_changes *c = tli_changes_of(g, t);
    int64_t low = 0, high = c ? c->count : 0;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (order_of(g, tli_changer(g, &c->items[middle])) < from) low = middle + 1;
        else high = middle;
    }
    // The first that is not before.
    TL_ASSERT(low == 0 || order_of(g, tli_changer(g, &c->items[low - 1])) < from);
    return c && low < c->count && order_of(g, tli_changer(g, &c->items[low])) < to;
}

bool tli_is_changed_between(const tl_graph *g, const tl_tensor *t, const tl_node *from,
                            const tl_node *to)
{
    return is_changed(g, t, order_of(g, from) + 1, order_before(g, to));
}

/* --- may it run elsewhere? -------------------------------------------------------------------- */

/* The calls that `n` would pass on its way to `place`. */
typedef struct way {
    int64_t from, to; /* orders: from the first of them to behind the last */
    bool down;        /* towards the end */
} way;

static way way_to(const tl_graph *g, const tl_node *n, const tl_node *place)
{
    int64_t is = order_of(g, n), will = order_before(g, place);
    TL_ASSERT(is > 0 && will > 0);
    return will > is ? (way){is + 1, will, true} : (way){will, is, false};
}

static bool is_on(const tl_graph *g, way w, const tl_node *n)
{
    return order_of(g, n) >= w.from && order_of(g, n) < w.to;
}

bool tli_reads_the_same(const tl_graph *g, const tl_node *n, const tl_node *place)
{
    way w = way_to(g, n, place);
    // Views read no elements.
    for (int i = 0; !tli_is_view(n) && i < n->inputs; i++)
        if (is_changed(g, n->in[i], w.from, w.to)) return false;
    return true;
}

// Whether a call on the way reads or changes memory that `n` changes. Few calls do, so all values
// are looked at.
static bool is_seen_on(const tl_graph *g, way w, const tl_tensor *changed)
{
    int64_t memory = tli_memory_id(g, changed);
    if (is_changed(g, changed, w.from, w.to)) return true;
    for (int64_t i = 0; i < g->uses.values.count; i++) {
        const tli_graph_value *v = &g->uses.values.items[i];
        if (!v->tensor || tli_memory_id(g, v->tensor) != memory) continue;
        TLI_EACH_USE(g, v->tensor, u)
        if (is_on(g, w, tli_user(g, u)) && !tli_is_view(tli_user(g, u))) return true;
    }
    return false;
}

static bool changes_are_seen(const tl_graph *g, const tl_node *n, way w)
{
    for (int i = 0; i < n->inputs; i++)
        if (tli_call_writes(n, i) && is_seen_on(g, w, n->in[i])) return true;
    for (int i = 0; i < n->outputs; i++)
        if (n->out[i]->view_of && !tli_is_view(n) && is_seen_on(g, w, n->out[i])) return true;
    return false;
}

static bool is_used_on(const tl_graph *g, way w, const tl_tensor *t)
{
    TLI_EACH_USE(g, t, u) if (is_on(g, w, tli_user(g, u))) return true;
    return false;
}

// Calls on the way are walked: there are few collectives.
static bool passes_collective(const tl_graph *g, way w, const tl_node *n)
{
    for (const tl_node *at = w.down ? n->after : n->before; at && is_on(g, w, at);
         at = w.down ? at->after : at->before)
        if (tli_is_collective(at)) return true;
    return false;
}

bool tli_may_move(const tl_graph *g, const tl_node *n, const tl_node *place)
{
    way w = way_to(g, n, place);
    if (tli_is_collective(n) && passes_collective(g, w, n)) return false;
    for (int i = 0; w.down && i < n->outputs; i++)
        if (is_used_on(g, w, n->out[i])) return false;
    for (int i = 0; !w.down && i < n->inputs; i++)
        if (n->in[i]->node && is_on(g, w, n->in[i]->node)) return false;
    return tli_reads_the_same(g, n, place) && !changes_are_seen(g, n, w);
}
