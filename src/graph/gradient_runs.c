/* Packs the gradients of a block as they come, where what reads them can (TL_KERNEL_JOINED): in
 * mixed precision most are of half precision, and some, of norms or of tables that are used twice,
 * are float32. Widening the former to the type of the latter would take a sweep over all of them,
 * and twice the bytes in those behind it. The numbers stay the same.
 *
 * Where all are of one type, simplify.c has packed them so. A norm of several blocks keeps theirs
 * as they were. */
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>
#include <tilth/sys/ops/apply.h>

#include "core/inner/gradient_run.h"
#include "graph/graph.h"

enum {
    GRADIENT = 1, /* which input of an update it is */
    LINE = 64     /* bytes: runs begin at such places, whatever their types */
};

/* How a pack would look. */
typedef struct layout {
    tl_tensor **sources;              /* of the pack: narrow ones where there are */
    int64_t *places;                  /* bytes, of each */
    int64_t *runs;                    /* TLI_RUN_NUMBERS each */
    int64_t run_count, bytes, narrow; /* `narrow`: elements that need not be widened */
} layout;

static bool takes_runs(const tl_graph *g, const tl_node *user, int input)
{
    const bool norm = user->op->op == TL_OP_finite_and_norm && user->inputs == 1,
               update = user->op->flags & TL_OP_UPDATE && input == GRADIENT;
    return (norm || update) && tli_kernel_flags(g, user) & TL_KERNEL_JOINED;
}

static bool all_take_runs(const tl_graph *g, const tl_tensor *t)
{
    if (tli_is_output(g, t) || tli_use_count(g, t) == 0) return false;
    TLI_EACH_USE(g, t, u) if (!takes_runs(g, tli_user(g, u), u->input)) return false;
    return true;
}

static tl_status begin_layout(layout *l, const tl_graph *g, const tl_node *pack)
{
    l->sources = tl_arena_array(g->scratch, pack->inputs, sizeof(tl_tensor *));
    l->places = tl_arena_array(g->scratch, pack->inputs, sizeof(int64_t));
    l->runs = tl_arena_array(g->scratch, pack->inputs, TLI_RUN_NUMBERS * sizeof(int64_t));
    return l->sources && l->places && l->runs ? TL_OK : TL_ENOMEM;
}

/* Neighbours of one type are a run; zeros between tensors belong to the one before them. */
static tl_status lay_out(layout *l, const tl_graph *g, const tl_node *pack)
{
    const tl_pack_attr *a = pack->attr;
    tl_dtype type = TL_DTYPE_COUNT;
    TL_TRY(begin_layout(l, g, pack));
    for (int i = 0; i < pack->inputs; i++) {
        tl_tensor *source = tli_widened_from(g, pack->in[i], pack);
        if (!source) source = pack->in[i];
        l->sources[i] = source;
        const int64_t first = i ? a->offsets.items[i] : 0,
                      end = i + 1 < pack->inputs ? a->offsets.items[i + 1] : a->count;
        const int64_t size = (int64_t)tl_dtype_size(source->dtype);
        if (source->dtype != type && first < end) {
            int64_t *run = l->runs + TLI_RUN_NUMBERS * l->run_count++;
            type = source->dtype;
            l->bytes = tl_round_up(l->bytes, LINE);
            run[0] = first;
            run[1] = l->bytes;
            run[2] = (int64_t)type;
        }
        l->places[i] = l->bytes + (a->offsets.items[i] - first) * size;
        l->bytes += (end - first) * size;
        if (source != pack->in[i]) l->narrow += end - first;
    }
    return TL_OK;
}

static tl_status give_runs(tl_graph *g, tl_node *user, const layout *l, int64_t count)
{
    const tl_ints runs = {l->runs, TLI_RUN_NUMBERS * l->run_count};
    void *attr = tl_arena_copy(g->ctx->arena, user->attr, user->op->attr->size);
    if (!attr) return TL_ENOMEM;
    if (user->op->op == TL_OP_finite_and_norm) {
        *(tl_finite_attr *)attr = (tl_finite_attr){.runs = runs, .count = count};
    } else {
        ((tl_update_attr *)attr)->runs = runs;
    }
    user->attr = attr;
    return TL_OK;
}

static tl_status use_runs(tl_graph *g, tl_node *pack, layout *l)
{
    tl_tensor *old = pack->out[0];
    tl_node *last = g->ctx->last;
    const tl_pack_attr attr = {
        .offsets = {l->places, pack->inputs}, .count = l->bytes, .bytes = true};
    tl_tensor *made = tl_apply(g->ctx, TL_OP_pack, &attr, pack->inputs, l->sources);
    if (!made) return tl_ctx_status(g->ctx);
    TL_TRY(tli_move_new(g, last, pack));
    l->runs = tl_arena_copy(g->ctx->arena, l->runs,
                            (size_t)(TLI_RUN_NUMBERS * l->run_count) * sizeof *l->runs);
    if (!l->runs) return TL_ENOMEM;
    while (tli_use_count(g, old)) {
        const tli_use *use = tli_first_use(g, old);
        tl_node *user = tli_user(g, use);
        TL_TRY(give_runs(g, user, l, tl_tensor_count(old)));
        TL_TRY(tli_set_input(g, user, use->input, made));
    }
    tli_remove(g, pack);
    return TL_OK;
}

tl_status tli_pass_gradient_runs(tl_graph *g, int64_t *changes)
{
    TLI_EACH_NODE_SAFE(g, n, next) {
        if (n->op->op != TL_OP_pack || n->out[0]->dtype != TL_F32 || !all_take_runs(g, n->out[0]))
            continue;
        layout l = {0};
        TL_TRY(lay_out(&l, g, n));
        if (!l.narrow) continue;
        TL_TRY(use_runs(g, n, &l));
        ++*changes;
    }
    int64_t dead = 0; // casts
    return *changes ? tli_pass_dead(g, &dead) : TL_OK;
}
