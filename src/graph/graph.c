#include "graph/graph.h"

#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/ops/create.h>
#include <tilth/ops/view.h>

#include "core/inner/storage.h"
#include "core/inner/tensor.h"

/* --- capture ---------------------------------------------------------------------------------- */

static tl_status make_inputs(tl_graph *g, const tl_capture *a, tl_tensors *in)
{
    tl_ctx *c = g->ctx;
    g->inputs = tl_arena_array(c->arena, a->input_count, sizeof *g->inputs);
    if (!g->inputs) return TL_ENOMEM;
    for (int64_t i = 0; i < a->input_count; i++) {
        const tl_spec *spec = &a->inputs[i];
        TL_TRY_NOTE(tl_shape_check(&spec->shape, "input"), "'%s'", spec->name);
        const char *name = tl_arena_strdup(c->arena, spec->name);
        tl_tensor *t = tl_ctx_header(c);
        if (!name || !t) return TL_ENOMEM;
        t->dtype = spec->dtype;
        t->shape = spec->shape;
        tli_tensor_row_major(t);
        g->inputs[i] = (tl_named){name, t};
        TL_ASSERT(!t->node && !t->storage && !t->view_of); // memory comes with each run
        tl_tensors_put(c, in, name, t);
    }
    g->input_count = a->input_count;
    return tl_ctx_status(c);
}

// A header of the graph's own for a tensor that was there before; `known` are those that have one.
static tl_tensor *note_outside(tl_graph *g, tli_pointer_map *known, const tl_tensor *t)
{
    int64_t there = tli_pointer_map_get(known, t);
    if (there >= 0) return g->outside.items[there].header;
    tl_tensor *h = tl_ctx_header(g->ctx);
    if (!h) return NULL;
    h->dtype = t->dtype;
    h->contiguous = t->contiguous;
    h->shape = t->shape;
    memcpy(h->strides, t->strides, sizeof h->strides);
    h->offset = t->offset;
    h->storage = t->storage;
    tli_storage_retain(h->storage);
    TL_ASSERT(atomic_load(&h->storage->refs) > 1); // the original holds it, too
    if (!tli_pointer_map_put(known, t, g->outside.count)) return NULL;
    return TL_VEC_PUSH(&g->outside, (tli_outside){t, h}) ? h : NULL;
}

// Inputs, and what calls of this graph made. Numbers that the body gave have elements already.
static bool is_own(const tl_graph *g, const tl_tensor *t)
{
    bool here = t->id >= g->ctx->first_id && t->id < tli_ctx_next_id(g->ctx);
    return here && (t->node || !t->storage);
}

static tl_status own_tensor(tl_graph *g, tli_pointer_map *known, tl_tensor **slot)
{
    tl_tensor *t = *slot;
    if (is_own(g, t)) return TL_OK;
    TL_ASSERT(t->storage); // the funnel refuses others
    return (*slot = note_outside(g, known, t)) ? TL_OK : TL_ENOMEM;
}

// Makes the graph independent of headers that are not its own.
static tl_status own_tensors(tl_graph *g)
{
    tli_pointer_map known = {0};
    tl_status st = TL_OK;
    TLI_EACH_NODE(g, n) {
        for (int i = 0; i < n->inputs && st == TL_OK; i++)
            st = own_tensor(g, &known, (tl_tensor **)&n->in[i]);
        if (tli_is_view(n)) n->out[0]->view_of = n->in[0];
        for (int i = 0; i < n->inputs && st == TL_OK; i++)
            TL_ASSERT(n->in[i]->id >= g->ctx->first_id);
    }
    for (int64_t i = 0; i < g->output_count && st == TL_OK; i++)
        st = own_tensor(g, &known, &g->outputs[i].tensor);
    tli_pointer_map_free(&known);
    return st;
}

/* What a caller gets is memory of its own: not that of an input, of a parameter or of another
 * output. */
static tl_status make_outputs(tl_graph *g, const tl_tensors *out)
{
    tl_ctx *c = g->ctx;
    g->outputs = tl_arena_array(c->arena, out->count, sizeof *g->outputs);
    if (!g->outputs) return TL_ENOMEM;
    for (int64_t i = 0; i < out->count; i++) {
        const char *name = tl_arena_strdup(c->arena, out->items[i].name);
        tl_tensor *t = TL_APPLY(c, copy, NULL, out->items[i].tensor);
        if (!name || !t) return tl_ctx_status(c) == TL_OK ? TL_ENOMEM : tl_ctx_status(c);
        g->outputs[i] = (tl_named){name, t};
        TL_ASSERT(t->contiguous && !t->view_of && t->node); // memory of its own
    }
    g->output_count = out->count;
    return TL_OK;
}

// As the funnel does when it runs them.
static tl_status check_writes(const tl_graph *g)
{
    TLI_EACH_NODE(g, n)
        for (int i = 0; i < n->inputs; i++)
            if (tli_call_writes(n, i) && !n->in[i]->contiguous)
                return TL_FAIL(TL_EINVAL, "%s%s%s: input %d is written and must have no gaps",
                               n->path, *n->path ? ": " : "", n->op->name, i);
    return TL_OK;
}

// Module by module, so that random calls get the keys that they have when the path is entered
// eagerly.
static tl_status enter_path(tl_ctx *c, const char *path)
{
    for (const char *name = path; *name;) {
        size_t length = strcspn(name, "/");
        const char *copy = tl_arena_strndup(c->arena, name, length);
        if (!copy) return TL_ENOMEM;
        tl_ctx_enter(c, copy);
        name += length + (name[length] == '/');
    }
    return tl_ctx_status(c);
}

static tl_status capture(tl_graph *g, const tl_capture *a)
{
    tl_ctx *c = g->ctx;
    tl_tensors in = {0}, out = {0};
    tl_ctx_set_capturing(c, true);
    tl_ctx_set_training(c, a->training);
    tl_ctx_set_strand(c, a->strand);
    TL_TRY(make_inputs(g, a, &in));
    if (!(g->path = tl_arena_strdup(c->arena, a->path ? a->path : ""))) return TL_ENOMEM;
    TL_TRY(enter_path(c, g->path));
    TL_TRY(a->body(a->self, c, &in, &out));
    TL_TRY(tl_ctx_status(c));
    while (*tl_ctx_path(c)) tl_ctx_leave(c);
    tl_ctx_set_strand(c, NULL);
    TL_TRY(make_outputs(g, &out));
    TL_TRY(own_tensors(g));
    TL_TRY(check_writes(g));
    TL_TRY(tli_uses_make(g));
    TL_ASSERT(g->uses.values.count == tli_value_count(g));
    return tli_verify_calls(g);
}

tl_status tl_graph_capture(tl_graph **out, const tl_capture *args)
{
    tl_graph *g = tl_alloc_zero(sizeof *g);
    if (!g) return TL_FAIL_NOMEM(sizeof *g);
    tl_status st = tl_ctx_new(&g->ctx, args->engine);
    if (st == TL_OK) st = capture(g, args);
    if (st != TL_OK) tl_graph_free(&g);
    *out = g;
    return st;
}

void tl_graph_free(tl_graph **graph)
{
    tl_graph *g = *graph;
    if (!g) return;
    TL_VEC_FREE(&g->outside);
    TL_VEC_FREE(&g->copies);
    tli_uses_free(&g->uses);
    tl_ctx_free(&g->ctx);
    tl_free(g);
    *graph = NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

int64_t tl_graph_count(const tl_graph *g)
{
    int64_t count = 0;
    TLI_EACH_NODE(g, n) count += !tli_is_view(n);
    return count;
}

const tl_node *tl_graph_first(const tl_graph *g)
{
    return g->ctx->first;
}

const tl_named *tl_graph_inputs(const tl_graph *g, int64_t *count)
{
    *count = g->input_count;
    return g->inputs;
}

const tl_named *tl_graph_outputs(const tl_graph *g, int64_t *count)
{
    *count = g->output_count;
    return g->outputs;
}

double tl_node_flops(const tl_node *n)
{
    if (tli_is_view(n) || n->op->op == TL_OP_copy || n->op->op == TL_OP_pack) return 0;
    if (n->op->flops) return n->op->flops(n);
    return n->outputs ? (double)tl_tensor_count(n->out[0]) : (double)tl_tensor_count(n->in[0]);
}

double tl_node_bytes(const tl_node *n)
{
    double bytes = 0;
    if (tli_is_view(n)) return 0;
    for (int i = 0; i < n->inputs; i++)
        bytes += (double)tl_tensor_bytes(n->in[i]) * (tli_call_writes(n, i) ? 2 : 1);
    for (int i = 0; i < n->outputs; i++) bytes += (double)tl_tensor_bytes(n->out[i]);
    return bytes;
}

int64_t tli_number_nodes(tl_graph *g)
{
    int64_t count = 0;
    TLI_EACH_NODE(g, n) n->index = count++;
    return count;
}

bool tli_is_number(const tl_graph *g, const tl_tensor *t, double *number)
{
    // A view of equal elements shows equal elements.
    t = tli_root(t);
    if (!t->node || t->node->op->op != TL_OP_full || tli_is_written(g, t)) return false;
    *number = ((const tl_full_attr *)t->node->attr)->value;
    return true;
}

tl_tensor *tli_widened_from(const tl_graph *g, const tl_tensor *t, const tl_node *user)
{
    const tl_node *cast = t->node;
    if (!cast || cast->op->op != TL_OP_cast || t->dtype != TL_F32) return NULL;
    tl_tensor *source = cast->in[0];
    if (source->dtype != TL_BF16 && source->dtype != TL_F16) return NULL;
    const bool changed =
        tli_is_changed_between(g, source, cast, user) || tli_is_changed_between(g, t, cast, user);
    return changed ? NULL : source;
}

unsigned tli_kernel_flags(const tl_graph *g, const tl_node *call)
{
    tl_kernel kernel;
    if (tl_engine_kernel(g->ctx->engine, call, &kernel) == TL_OK) return kernel.flags;
    tl_error_clear();
    return 0;
}
