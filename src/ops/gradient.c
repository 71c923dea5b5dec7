#include <tilth/ops/gradient.h>

#include <tilth/base/vec.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/sys/core/op.h>

#include "base/inner/pointer_map.h"
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

/* --- the walk --------------------------------------------------------------------------------- */

/* About a tensor that lies between `by` and `of`. Notes stand beside the tensors: parameters belong
 * to all contexts, and others may differentiate by them at the same time. */
typedef struct note {
    tl_tensor *gradient; /* what has come together so far */
    bool on_path, asked; /* it lies there; it is one of `by` */
} note;

typedef struct walk {
    tl_ctx *c;
    const tl_gradient_args *args;
    /* what is made on the way is recorded, in order to be differentiated or captured */
    bool keep_all;
    note *own; /* of the context's tensors that were there before, by id */
    uint64_t own_count;
    note *others; /* of tensors of `by` that are no context's, or another one's */
    tli_pointer_map other_places;
    uint64_t begin; /* id of the first tensor that is made on the way */
    struct {
        int32_t *items; /* at how many tensors one stands as the gradient, from `begin` on */
        int64_t count, capacity;
    } uses;
} walk;

// NULL for what `by` has nothing to do with.
static note *note_of(const walk *w, const tl_tensor *t)
{
    uint64_t place = t->id - w->c->first_id;
    if (place < w->own_count) return &w->own[place];
    int64_t other = tli_pointer_map_get(&w->other_places, t);
    return other < 0 ? NULL : &w->others[other];
}

static bool on_path(const walk *w, const tl_tensor *t)
{
    const note *n = note_of(w, t);
    return n && n->on_path;
}

static tl_status begin_walk(walk *w)
{
    int64_t count = w->args->count;
    w->begin = tli_ctx_next_id(w->c);
    w->own_count = w->begin - w->c->first_id;
    size_t bytes = (size_t)(w->own_count + (uint64_t)count + 1) * sizeof *w->own;
    if (!(w->own = tl_alloc_zero(bytes))) return TL_FAIL_NOMEM(bytes);
    w->others = w->own + w->own_count;
    for (int64_t i = 0; i < count; i++)
        if (!note_of(w, w->args->by[i])
            && !tli_pointer_map_put(&w->other_places, w->args->by[i], i))
            return TL_ENOMEM;
    return TL_OK;
}

static void end_walk(walk *w)
{
    tl_free(w->own);
    tli_pointer_map_free(&w->other_places);
    TL_VEC_FREE(&w->uses);
}

// Marks everything that depends on `by`, up to the call that made `of`.
static void mark_path(const walk *w, const tl_node *last)
{
    for (int64_t i = 0; i < w->args->count; i++) {
        note *n = note_of(w, w->args->by[i]);
        n->on_path = n->asked = true;
    }
    for (tl_node *n = w->c->first; n; n = n == last ? NULL : n->after) {
        bool depends = false;
        if (n->op->flags & TL_OP_CONSTANT) continue;
        for (int i = 0; i < n->inputs && !depends; i++) depends = on_path(w, n->in[i]);
        for (int i = 0; i < n->outputs && depends; i++) note_of(w, n->out[i])->on_path = true;
    }
}

/* A gradient is one header that may stand at several tensors (addition hands its own on to both
 * inputs); uses are counted, and the last one that is done with it gives its storage back. */

// Counts begin at 0 for all that has been made by now.
static tl_status count_made(walk *w)
{
    int64_t made = (int64_t)(tli_ctx_next_id(w->c) - w->begin);
    while (w->uses.count < made)
        if (!TL_VEC_PUSH(&w->uses, 0)) return TL_ENOMEM;
    return TL_OK;
}

// NULL for what was there before, and stays.
static int32_t *uses_of(const walk *w, const tl_tensor *g)
{
    uint64_t place = g->id - w->begin;
    return place < (uint64_t)w->uses.count ? &w->uses.items[place] : NULL;
}

static void use(const walk *w, note *at, tl_tensor *g)
{
    int32_t *uses = uses_of(w, g);
    at->gradient = g;
    if (uses) ++*uses;
}

// What was made since `step` may still be handed on: drop_made_since looks at it.
static void unuse(const walk *w, tl_tensor *g, uint64_t step)
{
    int32_t *uses = uses_of(w, g);
    if (uses && --*uses == 0 && g->id < step && !w->keep_all) tl_ctx_drop(w->c, g);
}

static tl_status add_gradient(walk *w, const tl_tensor *t, tl_tensor *g, uint64_t step)
{
    note *at = note_of(w, t);
    tl_tensor *before = at->gradient;
    tl_tensor *sum = before ? tl_add(w->c, before, g) : g;
    if (!sum) return tl_ctx_status(w->c);
    TL_TRY(count_made(w));
    use(w, at, sum);
    if (before) unuse(w, before, step);
    return TL_OK;
}

// Of what a call's gradient made, only the gradients of its inputs are needed further on.
static void drop_made_since(const walk *w, uint64_t step)
{
    for (tl_tensor *t = tl_ctx_newest(w->c); !w->keep_all && t && t->id >= step; t = t->next) {
        const int32_t *uses = uses_of(w, t);
        if (!uses || !*uses) tl_ctx_drop(w->c, t);
    }
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
static tl_status step_back(walk *w, const tl_node *n)
{
    tl_tensor *gy[FEW], *few_gx[FEW] = {NULL}, **gx = few_gx;
    bool few_wanted[FEW], *wanted = few_wanted, any = false;
    TL_ASSERT(n->outputs <= FEW);
    for (int i = 0; i < n->outputs; i++) {
        const note *at = note_of(w, n->out[i]);
        gy[i] = at ? at->gradient : NULL;
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
    uint64_t step = tli_ctx_next_id(w->c);
    n->op->gradient(w->c, n, gy, gx, wanted);
    TL_TRY(count_made(w));
    for (int i = 0; i < n->inputs; i++)
        if (wanted[i] && gx[i]) TL_TRY(add_gradient(w, n->in[i], gx[i], step));
    drop_made_since(w, step);
    for (int i = 0; i < n->outputs; i++) {
        note *at = gy[i] ? note_of(w, n->out[i]) : NULL;
        if (!at || at->asked) continue;
        at->gradient = NULL;
        unuse(w, gy[i], UINT64_MAX);
    }
    return tl_ctx_status(w->c);
}

static tl_status walk_back(walk *w, const tl_node *last)
{
    const char *label = w->c->label;
    tl_status st = TL_OK;
    for (const tl_node *n = last, *before; n && st == TL_OK; n = before) {
        before = n->before; // gradients that are recorded go behind `last`
        w->c->label = n->path;
        st = step_back(w, n);
        if (st != TL_OK)
            (void)tl_error_note(st, "gradient of %s%s%s", n->path, *n->path ? ": " : "",
                                n->op->name);
    }
    w->c->label = label;
    return st;
}

/* --- from outside ----------------------------------------------------------------------------- */

static tl_status check_args(const tl_ctx *c, const tl_gradient_args *args)
{
    const tl_tensor *of = args->of;
    TL_TRY(tl_ctx_status(c));
    if (!of) return TL_FAIL(TL_EINVAL, "there is nothing to differentiate: it is NULL");
    if (args->differentiable && !c->taping && !c->capturing)
        return TL_FAIL(TL_ESTATE, "a differentiable gradient needs taping to be on");
    if (args->seed && !tl_shape_equal(&args->seed->shape, &of->shape)) {
        char seed[TL_TENSOR_TEXT], spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "the seed is %s and must have the shape of what is differentiated, %s",
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
        return TL_FAIL(TL_ESTATE,
                       "nothing was recorded: turn taping on before computing the value");
    return TL_OK;
}

static tl_status differentiate(walk *w, tl_tensor **out)
{
    const tl_gradient_args *a = w->args;
    const tl_node *last = a->of->node;
    TL_TRY(begin_walk(w));
    mark_path(w, last);
    if (on_path(w, a->of)) {
        tl_tensor *seed = a->seed ? a->seed : tl_full(w->c, a->of->dtype, a->of->shape, 1.0);
        TL_TRY(tl_ctx_status(w->c));
        TL_TRY(count_made(w));
        use(w, note_of(w, a->of), seed);
        TL_TRY(walk_back(w, last));
    }
    for (int64_t i = 0; i < a->count; i++) {
        const tl_tensor *by = a->by[i];
        note *at = note_of(w, by);
        // A tensor that was asked for twice has one gradient.
        if (!at->gradient) at->gradient = tl_full(w->c, by->dtype, by->shape, 0.0);
        out[i] = at->gradient;
    }
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
        walk w = {.c = c, .args = args, .keep_all = c->capturing || args->differentiable};
        st = differentiate(&w, out);
        end_walk(&w);
        c->taping = taping;
        c->differentiable = differentiable;
    }
    if (st == TL_OK) return TL_OK;
    tl_ctx_clear(c);
    tl_ctx_fail(c); // with the note of whose gradient it was
    return st;
}

tl_status tl_gradient(tl_ctx *c, tl_tensor *of, tl_tensor *const *by, int64_t count,
                      tl_tensor **out)
{
    return tl_gradient_of(c, &(tl_gradient_args){.of = of, .by = by, .count = count}, out);
}
