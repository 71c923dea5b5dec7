/* Weights that a program does not write, packed once for many runs: those of evaluation, of
 * prediction, and of the microbatches between two updates. What a training step moves is packed
 * where it is used, which costs the same and keeps no second copy of every weight. */
#include <tilth/core/engine.h>

#include "core/inner/storage.h"
#include "graph/program.h"

enum {
    WEIGHT = 1, /* which input of a product it is */
    MOST_BYTES =
        64 << 20 /* of a program; packing large weights is a small part of products with them */
};

static bool stays_the_same(const tl_graph *g, const tl_tensor *t)
{
    const tl_tensor *root = tli_root(t);
    return !root->node && root->storage && !tli_is_written(g, root);
}

static const tl_backend_class *backend_of(const tl_program *p)
{
    return tl_engine_backend(p->graph->ctx->engine);
}

tl_status tli_packed_find(tl_program *p)
{
    if (!backend_of(p)->pack) return TL_OK;
    for (int64_t i = 0; i < p->step_count; i++) {
        tli_step *s = &p->steps[i];
        tl_op op = s->node->op->op;
        if (!s->kernel.fn || (s->kernel.flags & TL_KERNEL_STAGED)
            || (op != TL_OP_matmul && op != TL_OP_linear))
            continue;
        if (!stays_the_same(p->graph, s->node->in[WEIGHT])) continue;
        s->packed = tl_arena_alloc(p->graph->ctx->arena, sizeof *s->packed);
        if (!s->packed) return TL_ENOMEM;
        s->packed->weight = s->node->in[WEIGHT];
    }
    return TL_OK;
}

// Which layout it is follows from shapes, and all tensors of the call must be there to ask.
static tl_status ask(tl_program *p, const tli_step *s, const tl_run *run)
{
    size_t bytes;
    s->packed->asked = true;
    TL_TRY(backend_of(p)->pack(run, s->node, NULL, &bytes));
    if (!bytes || p->packed_bytes + (int64_t)bytes > MOST_BYTES) return TL_OK;
    p->packed_bytes += (int64_t)bytes;
    return tl_tensor_new(&s->packed->panels, p->graph->ctx->engine, TL_U8,
                         TL_SHAPE((int64_t)bytes));
}

tl_status tli_packed_prepare(tl_program *p, const tli_step *s, tl_run *run)
{
    tli_packed *w = s->packed;
    size_t bytes;
    if (!w->asked) TL_TRY(ask(p, s, run));
    if (!w->panels) return TL_OK;
    uint64_t version = tli_storage_version(w->weight->storage);
    if (!w->valid || w->version != version || tli_storage_is_lost(w->panels->storage)) {
        w->valid = false;
        TL_TRY(backend_of(p)->pack(run, s->node, w->panels, &bytes));
        TL_ASSERT(bytes == tl_tensor_bytes(w->panels));
        tli_storage_written(w->panels->storage);
        w->valid = true;
        w->version = version;
    }
    run->packed = w->panels;
    // No older weight is multiplied with.
    TL_ASSERT(w->version == tli_storage_version(w->weight->storage));
    return TL_OK;
}

void tli_packed_free(tl_program *p)
{
    for (int64_t i = 0; i < p->step_count; i++)
        if (p->steps[i].packed) tl_tensor_free(&p->steps[i].packed->panels);
}
