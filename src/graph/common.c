#include <string.h>
#include <tilth/base/map.h>

#include "graph/graph.h"

static uint64_t hash_of(const tl_node *n)
{
    uint64_t h = tl_hash_bytes(TL_HASH_SEED, &n->op, sizeof n->op);
    h = tl_hash_bytes(h, n->in, (size_t)n->inputs * sizeof *n->in);
    return n->op->attr ? tl_desc_hash(h, n->op->attr, n->attr) : h;
}

// Whether `a` gives what `b` would, which comes later: then `b` could run where `a` does.
static bool are_equal(const tl_graph *g, const tl_node *a, const tl_node *b)
{
    return a->op == b->op && a->inputs == b->inputs
           && (!a->inputs || memcmp(a->in, b->in, (size_t)a->inputs * sizeof *a->in) == 0)
           && (!a->op->attr || tl_desc_equal(a->op->attr, a->attr, b->attr))
           && tli_may_move(g, b, a);
}

static bool can_be_shared(const tl_graph *g, const tl_node *n)
{
    for (int i = 0; i < n->outputs; i++)
        if (tli_is_output(g, n->out[i]) || (!tli_is_view(n) && tli_is_written(g, n->out[i])))
            return false;
    return !tli_has_effects(n) && !(n->op->flags & TL_OP_RANDOM);
}

tl_status tli_pass_common(tl_graph *g, int64_t *changes)
{
    int64_t slots = 16, mask;
    while (slots < 2 * g->uses.calls.count) slots *= 2;
    mask = slots - 1;
    // Some slot stays empty, so searches end.
    TL_ASSERT((slots & mask) == 0 && slots > g->uses.calls.count);
    tl_node **table = tl_arena_array(g->scratch, slots, sizeof *table);
    if (!table) return TL_ENOMEM;
    TLI_EACH_NODE_SAFE(g, n, next) {
        if (!can_be_shared(g, n)) continue;
        int64_t at = (int64_t)(hash_of(n) & (uint64_t)mask);
        while (table[at] && !are_equal(g, table[at], n)) at = (at + 1) & mask;
        if (!table[at]) {
            table[at] = n;
            continue;
        }
        TL_ASSERT(tli_is_before(g, table[at], n) && table[at]->outputs == n->outputs);
        for (int i = 0; i < n->outputs; i++) TL_TRY(tli_replace(g, n->out[i], table[at]->out[i]));
        tli_remove(g, n);
        ++*changes;
    }
    return TL_OK;
}
