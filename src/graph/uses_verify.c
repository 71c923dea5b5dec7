/* Whether what a graph keeps about uses and changes is what its list of calls says. */
#include <inttypes.h>
#include <tilth/base/alloc.h>

#include "graph/graph.h"

typedef struct checker {
    const tl_graph *g;
    int64_t *uses;    /* of each value, counted */
    int64_t *outputs; /* of the graph that each value is */
    int64_t *memory;  /* a value of each memory, plus one, by what tli_memory_id gives */
    int64_t changes;  /* that calls make, counted; a call that changes memory twice counts once */
    tli_pointer_map memories; /* what tli_memory_of gives, to ids */
} checker;

static tl_status fail_value(int64_t id, const char *what)
{
    return TL_FAIL(TL_EINTERNAL, "the graph is broken at value %" PRId64 ": %s", id, what);
}

static tl_status fail_call(const tl_node *n, const char *what)
{
    return TL_FAIL(TL_EINTERNAL, "the graph is broken at call %" PRId64 ", %s: %s", n->index,
                   n->op->name, what);
}

/* --- calls ------------------------------------------------------------------------------------ */

static bool is_known(const tl_graph *g, const tl_node *n)
{
    return n->id >= 0 && n->id < g->uses.calls.count && g->uses.calls.items[n->id].node == n;
}

// Tensors with the same memory have the same id of it, and others another one.
static tl_status check_memory(checker *c, const tl_tensor *t)
{
    int64_t id = tli_memory_id(c->g, t),
            noted = tli_pointer_map_get(&c->memories, tli_memory_of(t));
    if (noted < 0) {
        if (c->memory[id])
            return fail_value(tli_value_id(c->g, t), "two memories are taken for one");
        c->memory[id] = 1;
        return tli_pointer_map_put(&c->memories, tli_memory_of(t), id) ? TL_OK : TL_ENOMEM;
    }
    return noted == id ? TL_OK : fail_value(tli_value_id(c->g, t), "one memory is taken for two");
}

static bool is_changed_by(const tl_graph *g, const tl_tensor *t, const tl_node *n)
{
    const tli_changes *table = tli_changes_of(g, t);
    for (int64_t i = 0; table && i < table->count; i++)
        if (tli_changer(g, &table->items[i]) == n) return true;
    return false;
}

// Tensors whose memory a call changes, each memory once.
static int changed_by(const tl_graph *g, const tl_node *n, const tl_tensor **out, int most)
{
    int count = 0;
    for (int i = 0; i < n->inputs + n->outputs; i++) {
        const tl_tensor *t = i < n->inputs ? n->in[i] : n->out[i - n->inputs];
        bool changes = i < n->inputs ? tli_call_writes(n, i) : t->view_of && !tli_is_view(n);
        for (int k = 0; k < count && changes; k++)
            changes = tli_memory_id(g, out[k]) != tli_memory_id(g, t);
        if (changes && count < most) out[count++] = t;
    }
    return count;
}

static tl_status check_call(checker *c, const tl_node *n)
{
    // Outputs of a nest over what it read, or slots of an update: as in verify.c.
    enum { MOST_CHANGED = 64 };
    const tl_graph *g = c->g;
    const tl_tensor *changed[MOST_CHANGED];
    if (!is_known(g, n)) return fail_call(n, "it was not brought into the graph");
    const tli_call *call = &g->uses.calls.items[n->id];
    if (n->before && !tli_is_before(g, n->before, n))
        return fail_call(n, "its order is not that of the list");
    for (int i = 0; i < n->inputs; i++) {
        const tli_use *u = &g->uses.uses.items[call->uses + i];
        if (u->call != n->id || u->input != i) return fail_call(n, "a use is noted elsewhere");
        c->uses[tli_value_id(g, n->in[i])]++;
        TL_TRY(check_memory(c, n->in[i]));
    }
    for (int i = 0; i < n->outputs; i++) {
        const tli_graph_value *v = &g->uses.values.items[tli_value_id(g, n->out[i])];
        int64_t shown = tli_is_view(n) ? g->uses.values.items[tli_value_id(g, n->in[0])].maker
                                       : tli_value_id(g, n->out[i]);
        if (v->tensor != n->out[i] || v->maker != shown)
            return fail_call(n, "an output shows something else");
        TL_TRY(check_memory(c, n->out[i]));
    }
    int count = changed_by(g, n, changed, MOST_CHANGED);
    c->changes += count;
    for (int i = 0; i < count; i++)
        if (!is_changed_by(g, changed[i], n))
            return fail_call(n, "it changes memory, which is not noted");
    return TL_OK;
}

/* --- values ----------------------------------------------------------------------------------- */

static tl_status check_value(const checker *c, int64_t id)
{
    const tl_graph *g = c->g;
    const tli_graph_value *v = &g->uses.values.items[id];
    int64_t count = 0;
    int32_t before = -1;
    if (v->count != c->uses[id] || v->outputs != c->outputs[id])
        return fail_value(id, "it has more or fewer uses than are noted");
    if (!v->tensor) return TL_OK;
    TLI_EACH_USE(g, v->tensor, u)
    {
        if (u->before != before || ++count > v->count)
            return fail_value(id, "its list of uses is torn");
        const tl_node *user = tli_user(g, u);
        if (!user || user->in[u->input] != v->tensor) return fail_value(id, "a use of it is none");
        before = (int32_t)(u - g->uses.uses.items);
    }
    if (count != v->count || v->last != before) return fail_value(id, "its list of uses is torn");
    const tli_graph_value *all = g->uses.values.items;
    if (all[v->after].before != id || all[v->before].after != id || all[v->after].maker != v->maker)
        return fail_value(id, "the ring of what shows the same is torn");
    return TL_OK;
}

static tl_status check_changes(const checker *c)
{
    const tl_graph *g = c->g;
    int64_t count = 0;
    for (int64_t i = 0; i < g->uses.changes.count; i++) {
        const tli_changes *table = &g->uses.changes.items[i];
        int64_t writes = 0;
        for (int64_t k = 0; k < table->count; k++) {
            const tl_node *n = tli_changer(g, &table->items[k]);
            if (!n || (k && !tli_is_before(g, tli_changer(g, &table->items[k - 1]), n)))
                return TL_FAIL(TL_EINTERNAL,
                               "the graph is broken: a table of changes is not in order");
            writes += !table->items[k].reuses;
        }
        if (writes != table->writes)
            return TL_FAIL(TL_EINTERNAL, "the graph is broken: writes are miscounted");
        count += table->count;
    }
    if (count == c->changes) return TL_OK;
    return TL_FAIL(TL_EINTERNAL,
                   "the graph is broken: %" PRId64
                   " changes of memory are noted, and there are %" PRId64,
                   count, c->changes);
}

static tl_status check(checker *c)
{
    const tl_graph *g = c->g;
    TLI_EACH_NODE(g, n) TL_TRY(check_call(c, n));
    for (int64_t i = 0; i < g->output_count; i++)
        c->outputs[tli_value_id(g, g->outputs[i].tensor)]++;
    for (int64_t i = 0; i < g->uses.values.count; i++) TL_TRY(check_value(c, i));
    return check_changes(c);
}

tl_status tli_uses_verify(const tl_graph *g)
{
    size_t count = (size_t)tli_value_count(g) + 1, bytes = 3 * count * sizeof(int64_t);
    int64_t *notes = tl_alloc_zero(bytes);
    if (!notes) return TL_FAIL_NOMEM(bytes);
    checker c = {.g = g, .uses = notes, .outputs = notes + count, .memory = notes + 2 * count};
    tl_status st = check(&c);
    tli_pointer_map_free(&c.memories);
    tl_free(notes);
    return st;
}
