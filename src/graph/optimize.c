#include <string.h>

#include "graph/graph.h"

const tl_pass tl_graph_passes[] = {
    {"dead", "leaves out calls whose results nobody uses", tli_pass_dead},
    {"simplify", "rewrites calls into cheaper ones that mean the same", tli_pass_simplify},
    {"common", "computes equal calls once", tli_pass_common},
    {"epilogue", "puts bias and activation into the product before them", tli_pass_epilogue},
    {"dead again", "leaves out what the rewriting made superfluous", tli_pass_dead},
    {"join", "takes forms of ops that save sweeps over memory, where kernels have them",
     tli_pass_join},
    {"gradient runs", "packs gradients of half precision without widening them",
     tli_pass_gradient_runs},
    {"weight copies", "keeps casts of weights from run to run, and lets updates renew them",
     tli_pass_weight_copies},
    {"draws", "draws once what dropout and its gradient drop", tli_pass_draws},
    {"recompute", "computes results again instead of keeping them", tli_pass_recompute},
    {"slopes", "computes slopes of activations where these are computed", tli_pass_slopes},
    {"fuse", "puts chains of small ops into loop nests", tli_pass_fuse},
    {"straighten", "copies views for kernels that take no strides", tli_pass_straighten},
    {"order", "puts calls near those that use their results", tli_pass_order},
    {"reuse", "lets calls write over what they read last", tli_pass_reuse},
    {NULL, NULL, NULL},
};

static bool is_skipped(const tl_optimize *how, const tl_pass *pass)
{
    if (how->no_nests && pass->run == tli_pass_fuse) return true;
    for (const char *const *name = how->skip; name && *name; name++)
        if (strcmp(*name, pass->name) == 0) return true;
    return false;
}

// Builds that tests run from look at everything.
static bool verifies_all(const tl_optimize *how)
{
#if defined(TL_ARENA_DEBUG) || !defined(NDEBUG)
    (void)how;
    return true;
#else
    return how->verify;
#endif
}

static tl_status run_pass(tl_graph *g, const tl_pass *pass, const tl_optimize *how,
                          int64_t *changes)
{
    tl_arena_mark mark = tl_arena_begin(g->scratch);
    tl_status st = pass->run(g, changes);
    tl_arena_end(g->scratch, mark);
    TL_TRY_NOTE(st, "pass '%s'", pass->name);
    st = verifies_all(how) ? tl_graph_verify(g) : tli_verify_changed(g);
    TL_ASSERT(st != TL_EINTERNAL && "a pass left a graph that is broken");
    TL_TRY_NOTE(st, "after the pass '%s'", pass->name);
    return TL_OK;
}

static tl_status optimize(tl_graph *g, const tl_optimize *how)
{
    g->recompute = how->recompute;
    if (how->watch) how->watch(g, NULL, 0, how->payload);
    for (const tl_pass *pass = tl_graph_passes; pass->name; pass++) {
        int64_t changes = 0;
        if (is_skipped(how, pass)) continue;
        TL_TRY(run_pass(g, pass, how, &changes));
        if (how->watch) how->watch(g, pass, changes, how->payload);
    }
    TL_TRY_NOTE(tli_verify_calls(g), "after the last pass");
    return TL_OK;
}

tl_status tl_graph_optimize(tl_graph *g, const tl_optimize *how)
{
    static const tl_optimize usual;
    TL_TRY(tl_arena_new(&g->scratch));
    tl_status st = optimize(g, how ? how : &usual);
    tl_arena_free(&g->scratch);
    return st;
}
