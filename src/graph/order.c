#include "graph/order.h"

/* --- memory that is written in place -------------------------------------------------------------- */

typedef struct readers { int64_t *items; int64_t count, capacity; } readers;

/* Memory and who used it last. */
typedef struct written {
    const void *memory;
    int64_t writer; /* -1: nobody yet */
    readers since;  /* that writer */
} written;
typedef struct written_list { written *items; int64_t count, capacity; } written_list;

static written *find(const written_list *list, const tl_tensor *t)
{
    const void *memory = tli_memory_of(t);
    for (int64_t i = 0; i < list->count; i++)
        if (list->items[i].memory == memory) return &list->items[i];
    return NULL;
}

static tl_status find_written(written_list *out, const tl_graph *g)
{
    TLI_EACH_NODE(g, n)
        for (int i = 0; i < n->inputs; i++)
            if (tli_writes(n, i) && !find(out, n->in[i])
                && !TL_VEC_PUSH(out, (written){.memory = tli_memory_of(n->in[i]), .writer = -1}))
                return TL_ENOMEM;
    return TL_OK;
}

/* --- dependencies --------------------------------------------------------------------------------- */

static tl_status add(tli_order *o, int64_t dep)
{
    return dep < 0 || TL_VEC_PUSH(&o->deps, dep) ? TL_OK : TL_ENOMEM;
}

static tl_status add_memory_deps(tli_order *o, written_list *list, const tl_node *n)
{
    for (int i = 0; i < n->inputs; i++) {
        written *w = find(list, n->in[i]);
        if (!w) continue;
        TL_TRY(add(o, w->writer));
        for (int64_t k = 0; tli_writes(n, i) && k < w->since.count; k++)
            if (w->since.items[k] != n->index) TL_TRY(add(o, w->since.items[k]));
    }
    for (int i = 0; i < n->inputs; i++) {
        written *w = find(list, n->in[i]);
        if (!w) continue;
        if (tli_writes(n, i)) {
            w->writer = n->index;
            w->since.count = 0;
        } else if (w->writer != n->index && !TL_VEC_PUSH(&w->since, n->index)) {
            return TL_ENOMEM;
        }
    }
    return TL_OK;
}

static tl_status add_deps(tli_order *o, tl_graph *g, written_list *list)
{
    TLI_EACH_NODE(g, n) {
        o->nodes[n->index] = n;
        o->first[n->index] = o->deps.count;
        for (int i = 0; i < n->inputs; i++)
            if (n->in[i]->node) TL_TRY(add(o, n->in[i]->node->index));
        if (list->count && !tli_is_view(n)) TL_TRY(add_memory_deps(o, list, n));
        o->first[n->index + 1] = o->deps.count;
    }
    return TL_OK;
}

tl_status tli_order_make(tli_order *out, tl_graph *g)
{
    written_list list = {0};
    *out = (tli_order){.count = tli_number_nodes(g)};
    out->nodes = tl_arena_array(g->ctx->arena, out->count + 1, sizeof *out->nodes);
    out->first = tl_arena_array(g->ctx->arena, out->count + 1, sizeof *out->first);
    tl_status st = out->nodes && out->first ? find_written(&list, g) : TL_ENOMEM;
    if (st == TL_OK) st = add_deps(out, g, &list);
    for (int64_t i = 0; i < list.count; i++) TL_VEC_FREE(&list.items[i].since);
    TL_VEC_FREE(&list);
    if (st != TL_OK) tli_order_free(out);
    return st;
}

void tli_order_free(tli_order *o)
{
    TL_VEC_FREE(&o->deps);
}

/* --- the pass ------------------------------------------------------------------------------------- */

// Calls without inputs, and casts of what is always there, run right before they are first needed.
static bool can_wait(const tl_node *n)
{
    for (int i = 0; i < n->inputs; i++)
        if (n->in[i]->node) return false;
    return !tli_has_effects(n) && !tli_is_view(n) && n->outputs == 1;
}

static tl_node *first_user(tl_node *n)
{
    for (tl_node *user = n->after; user; user = user->after)
        for (int i = 0; i < user->inputs; i++)
            if (user->in[i] == n->out[0]) return user;
    return NULL;
}

// Whether memory that `n` reads is written before `end`.
static bool is_disturbed(const tl_node *n, const tl_node *end)
{
    for (const tl_node *w = n->after; w != end; w = w->after)
        for (int k = 0; k < w->inputs; k++)
            for (int i = 0; tli_writes(w, k) && i < n->inputs; i++)
                if (tli_memory_of(n->in[i]) == tli_memory_of(w->in[k])) return true;
    return false;
}

tl_status tli_pass_order(tl_graph *g, int64_t *changes)
{
    for (tl_node *n = g->ctx->last, *before; n; n = before) {
        before = n->before;
        tl_node *user = can_wait(n) ? first_user(n) : NULL;
        if (!user || user == n->after || is_disturbed(n, user)) continue;
        tli_move(g, n, user);
        ++*changes;
    }
    return TL_OK;
}
