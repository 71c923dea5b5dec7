#include <tilth/ops/gradient.h>

#include <stdatomic.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "core/inner/ctx.h"

tl_status tl_watch(tl_tensor *t)
{
    if (!tl_dtype_is_float(t->dtype)) {
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "%s cannot be watched: only floats have gradients",
                       tl_tensor_spec(spec, t));
    }
    t->tracked = true;
    return TL_OK;
}

bool tl_gradient_differentiable(const tl_ctx *c)
{
    return c->differentiable;
}

tl_tensor *tl_sum_to(tl_ctx *c, tl_tensor *g, const tl_shape *shape)
{
    if (!g || tl_shape_equal(&g->shape, shape)) return g;
    int64_t axes[TL_MAX_RANK];
    int count = 0, extra = g->shape.rank - shape->rank;
    for (int i = 0; i < g->shape.rank; i++)
        if (i < extra || (shape->dims[i - extra] == 1 && g->shape.dims[i] != 1)) axes[count++] = i;
    if (count) g = tl_sum(c, g, (tl_axes){axes, count}, true);
    return tl_reshape(c, g, *shape);
}

/* --- the walk ----------------------------------------------------------------------------------- */

/* Passes are numbered over all contexts: parameters carry their notes from one to the next. */
static int64_t next_pass(void)
{
    static atomic_llong passes;
    return atomic_fetch_add(&passes, 1) + 1;
}

typedef struct walk {
    tl_ctx *c;
    const tl_gradient_args *args;
    int64_t pass;  /* tensors with this pass lie between `by` and `of` */
    bool keep_all; /* what is made on the way is recorded */
} walk;

static bool on_path(const walk *w, const tl_tensor *t)
{
    return t->pass == w->pass;
}

static void put_on_path(const walk *w, tl_tensor *t)
{
    t->pass = w->pass;
    t->gradient = NULL; // what an earlier pass may have left
}

// Marks everything that depends on `by`, up to the call that made `of`.
static void mark_path(const walk *w, const tl_node *last)
{
    for (int64_t i = 0; i < w->args->count; i++) put_on_path(w, w->args->by[i]);
    for (tl_node *n = w->c->first; n; n = n == last ? NULL : n->after) {
        bool depends = false;
        if (n->op->flags & TL_OP_CONSTANT) continue;
        for (int i = 0; i < n->inputs && !depends; i++) depends = on_path(w, n->in[i]);
        for (int i = 0; i < n->outputs && depends; i++)
            if (!on_path(w, n->out[i])) put_on_path(w, n->out[i]);
    }
}

/* A gradient is one header that may stand at several tensors (addition hands its own on to both
 * inputs); `uses` counts them, and the last one that is done with it gives its storage back. */
static void use(tl_tensor *t, tl_tensor *g)
{
    t->gradient = g;
    g->uses++;
}

static void unuse(tl_ctx *c, tl_tensor *g)
{
    if (--g->uses == 0 && g->temporary) tl_ctx_drop(c, g);
}

static void add_gradient(const walk *w, tl_tensor *t, tl_tensor *g)
{
    if (!g) return;
    tl_tensor *before = t->gradient;
    tl_tensor *sum = before ? tl_add(w->c, before, g) : g;
    if (!sum) return;
    use(t, sum);
    if (before) unuse(w->c, before);
}

// Of what a call's gradient made, only the gradients of its inputs are needed further on. What is
// recorded, in order to be differentiated or captured, stays.
static void drop_made_since(const walk *w, const tl_tensor *since)
{
    if (w->keep_all) return;
    for (tl_tensor *t = tl_ctx_newest(w->c); t != since; t = t->next) {
        t->temporary = true;
        if (!t->uses) tl_ctx_drop(w->c, t);
    }
}

static bool asked_for(const walk *w, const tl_tensor *t)
{
    for (int64_t i = 0; i < w->args->count; i++)
        if (w->args->by[i] == t) return true;
    return false;
}

static tl_status check_order(const walk *w, const tl_node *n)
{
    if (!n->op->gradient) return TL_FAIL(TL_EUNSUPPORTED, "it has none");
    if ((n->op->flags & TL_OP_FIRST_ORDER) && w->args->differentiable)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the op is fused and has no second derivative; write it with plain ops to "
                       "differentiate it twice");
    return TL_OK;
}

enum { FEW = 16 };

// The gradients of one call's inputs, from those of its outputs.
static tl_status step_back(const walk *w, const tl_node *n)
{
    tl_tensor *gy[FEW], *few_gx[FEW] = {NULL}, **gx = few_gx;
    bool few_wanted[FEW], *wanted = few_wanted, any = false;
    TL_ASSERT(n->outputs <= FEW);
    for (int i = 0; i < n->outputs; i++) {
        gy[i] = on_path(w, n->out[i]) ? n->out[i]->gradient : NULL;
        any |= gy[i] != NULL;
    }
    if (!any) return TL_OK;
    TL_TRY(check_order(w, n));
    if (n->inputs > FEW) {
        gx = tl_arena_array(w->c->arena, n->inputs, sizeof *gx);
        wanted = tl_arena_array(w->c->arena, n->inputs, sizeof *wanted);
        if (!gx || !wanted) return TL_ENOMEM;
    }
    for (int i = 0; i < n->inputs; i++) wanted[i] = on_path(w, n->in[i]);
    tl_tensor *since = tl_ctx_newest(w->c);
    n->op->gradient(w->c, n, gy, gx, wanted);
    for (int i = 0; i < n->inputs; i++)
        if (wanted[i]) add_gradient(w, n->in[i], gx[i]);
    drop_made_since(w, since);
    for (int i = 0; i < n->outputs; i++) {
        if (!gy[i] || asked_for(w, n->out[i])) continue;
        n->out[i]->gradient = NULL;
        unuse(w->c, gy[i]);
    }
    return tl_ctx_status(w->c);
}

static tl_status walk_back(const walk *w, const tl_node *last)
{
    const char *label = w->c->label;
    tl_status st = TL_OK;
    for (const tl_node *n = last, *before; n && st == TL_OK; n = before) {
        before = n->before; // gradients that are recorded go behind `last`
        w->c->label = n->path;
        st = step_back(w, n);
        if (st != TL_OK)
            (void)tl_error_note(st, "gradient of %s%s%s", n->path, *n->path ? ": " : "", n->op->name);
    }
    w->c->label = label;
    return st;
}

/* --- from outside --------------------------------------------------------------------------------- */

static tl_status check_args(const tl_ctx *c, const tl_gradient_args *args)
{
    const tl_tensor *of = args->of;
    TL_TRY(tl_ctx_status(c));
    if (!of) return TL_FAIL(TL_EINVAL, "there is nothing to differentiate: it is NULL");
    if (args->differentiable && !c->taping && !c->capturing)
        return TL_FAIL(TL_ESTATE, "a differentiable gradient needs taping to be on");
    if (args->seed && !tl_shape_equal(&args->seed->shape, &of->shape)) {
        char seed[TL_TENSOR_TEXT], spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "the seed is %s and must have the shape of what is differentiated, %s",
                       tl_tensor_spec(seed, args->seed), tl_tensor_spec(spec, of));
    }
    if (c->capturing) return TL_OK;
    for (int64_t i = 0; i < args->count; i++)
        if (!args->by[i]->tracked)
            return TL_FAIL(TL_ESTATE, "input %lld is not watched: call tl_watch before using it",
                           (long long)i);
    if (!of->tracked)
        return TL_FAIL(TL_ESTATE, "the value does not depend on anything that is watched");
    if (!of->node && !tl_ctx_first_node(c))
        return TL_FAIL(TL_ESTATE, "nothing was recorded: turn taping on before computing the value");
    return TL_OK;
}

static tl_status differentiate(const walk *w, tl_tensor **out)
{
    const tl_gradient_args *a = w->args;
    const tl_node *last = a->of->node;
    mark_path(w, last);
    if (on_path(w, a->of)) {
        tl_tensor *since = tl_ctx_newest(w->c);
        tl_tensor *seed = a->seed ? a->seed : tl_full(w->c, a->of->dtype, a->of->shape, 1.0);
        TL_TRY(tl_ctx_status(w->c));
        use(a->of, seed);
        drop_made_since(w, since);
        TL_TRY(walk_back(w, last));
    }
    for (int64_t i = 0; i < a->count; i++) {
        tl_tensor *by = a->by[i];
        out[i] = by->gradient ? by->gradient : tl_full(w->c, by->dtype, by->shape, 0.0);
        by->gradient = NULL;
    }
    // The same tensor asked for twice has its gradient at the first place only.
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t k = 0; k < i; k++)
            if (a->by[i] == a->by[k]) out[i] = out[k];
    return tl_ctx_status(w->c);
}

tl_status tl_gradient_of(tl_ctx *c, const tl_gradient_args *args, tl_tensor **out)
{
    for (int64_t i = 0; i < args->count; i++) out[i] = NULL;
    tl_status st = check_args(c, args);
    if (st == TL_OK) {
        bool taping = c->taping, differentiable = c->differentiable;
        c->taping = taping && args->differentiable;
        c->differentiable = args->differentiable;
        walk w = {.c = c, .args = args, .pass = next_pass(),
                  .keep_all = c->capturing || args->differentiable};
        st = differentiate(&w, out);
        c->taping = taping;
        c->differentiable = differentiable;
    }
    if (st == TL_OK) return TL_OK;
    tl_ctx_clear(c);
    tl_ctx_fail(c); // with the note of whose gradient it was
    return st;
}

tl_status tl_gradient(tl_ctx *c, tl_tensor *of, tl_tensor *const *by, int64_t count, tl_tensor **out)
{
    return tl_gradient_of(c, &(tl_gradient_args){.of = of, .by = by, .count = count}, out);
}
