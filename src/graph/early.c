/* Sums that are made part by part, while the run that makes them goes on (early.h). */
#include <tilth/sys/graph/early.h>

#include <string.h>

#include <tilth/base/clock.h>
#include <tilth/core/attrs.h>

#include "core/inner/tensor.h"
#include "graph/program.h"

/* What is run for a part, behind a call. */
typedef struct piece {
    int64_t behind;      /* step; -1: the part needs the whole run */
    tl_node *pack, *add; /* of its elements alone; no pack: another part has done it */
    tli_step *packs, *adds;
} piece;

struct tli_early {
    tl_early_part *parts;
    int64_t count;
    piece *pieces;     /* of each part */
    int64_t *order;    /* parts that have one, by `behind` */
    int64_t ordered;   /* how many have */
    int64_t *known_at; /* of each part: the step behind which it is told of; -1: behind none */
    bool *left_out;    /* of each step */
    const tl_early *asked;
    /* of the run */
    int64_t next, told;
};

/* --- what is written where -------------------------------------------------------------------- */

static bool touches(const tl_node *n, const void *memory)
{
    for (int i = 0; i < n->inputs; i++)
        if (tli_memory_of(n->in[i]) == memory) return true;
    for (int i = 0; i < n->outputs; i++)
        if (tli_memory_of(n->out[i]) == memory) return true;
    return false;
}

static bool writes(const tl_node *n, const void *memory)
{
    for (int i = 0; i < n->inputs; i++)
        if (tli_call_writes(n, i) && tli_memory_of(n->in[i]) == memory) return true;
    for (int i = 0; i < n->outputs; i++)
        if (tli_memory_of(n->out[i]) == memory) return true;
    return false;
}

/* The last step before `end` that writes it; -1: none does. */
static int64_t last_write(const tl_program *p, int64_t end, const tl_tensor *t)
{
    const void *memory = tli_memory_of(t);
    while (--end >= 0 && !writes(p->steps[end].node, memory)) continue;
    return end;
}

static int64_t step_of(const tl_program *p, const tl_node *n)
{
    int64_t i = p->step_count;
    while (--i >= 0 && p->steps[i].node != n) continue;
    return i;
}

/* --- sums that can be made so ----------------------------------------------------------------- */

typedef struct sum {
    int64_t pack, add; /* steps */
} sum;

static bool is_whole(const tl_tensor *t, int64_t count)
{
    return t->contiguous && t->shape.rank == 1 && tl_tensor_count(t) == count;
}

/* The only call that touches the tensor adds a pack to all of it, and whether the sum begins with
 * that was known before the run. */
static bool find_sum(sum *out, const tl_program *p, const tl_tensor *t)
{
    const int64_t count = tl_tensor_count(t);
    *out = (sum){-1, -1};
    for (int64_t i = 0; i < p->step_count; i++) {
        if (!touches(p->steps[i].node, t->storage)) continue;
        if (out->add >= 0) return false;
        out->add = i;
    }
    const tl_node *n = out->add < 0 ? NULL : p->steps[out->add].node;
    if (!n || n->op->op != TL_OP_assign || !((const tl_assign_attr *)n->attr)->add) return false;
    const tl_node *pack = n->in[1]->node;
    if (!is_whole(n->in[0], count) || n->in[0]->storage != t->storage
        || n->in[0]->offset != t->offset || !is_whole(n->in[1], count) || n->in[1]->view_of || !pack
        || pack->op->op != TL_OP_pack)
        return false;
    if (n->inputs > 2 && (n->in[2]->node || last_write(p, out->add, n->in[2]) >= 0)) return false;
    out->pack = step_of(p, pack);
    return out->pack >= 0;
}

/* --- pieces ----------------------------------------------------------------------------------- */

static tl_tensor *part_of(tl_arena *arena, const tl_tensor *t, int64_t from, int64_t end)
{
    tl_tensor *part = tl_arena_alloc(arena, sizeof *part);
    if (!part) return NULL;
    *part = *t;
    part->offset = t->offset + from;
    part->shape = TL_SHAPE(end - from);
    tli_tensor_row_major(part);
    return part;
}

static tl_node *copy_call(tl_arena *arena, const tl_node *n, tl_tensor *const *in, int inputs,
                          tl_tensor *const *out)
{
    tl_node *copy = tl_arena_alloc(arena, sizeof *copy);
    tl_tensor **tensors = tl_arena_array(arena, inputs + 1, sizeof *tensors);
    if (!copy || !tensors) return NULL;
    *copy = *n;
    memcpy(tensors, in, (size_t)inputs * sizeof *tensors);
    if (n->outputs) tensors[inputs] = out[0];
    copy->in = tensors;
    copy->inputs = inputs;
    copy->out = tensors + inputs;
    copy->before = copy->after = NULL;
    return copy;
}

/* Tensors first .. end - 1 of a pack, and the zeros behind them up to element `to`. */
static tl_status make_pack(piece *out, tl_program *p, tli_step *step, int first, int end,
                           int64_t to)
{
    tl_arena *arena = p->graph->ctx->arena;
    const tl_node *n = step->node;
    const tl_pack_attr *all = n->attr;
    const int64_t from = first ? all->offsets.items[first] : 0;
    tl_pack_attr *attr = tl_arena_alloc(arena, sizeof *attr);
    int64_t *offsets = tl_arena_array(arena, end - first, sizeof *offsets);
    tl_tensor *whole = part_of(arena, n->out[0], from, to);
    if (!attr || !offsets || !whole) return TL_ENOMEM;
    for (int i = first; i < end; i++) offsets[i - first] = all->offsets.items[i] - from;
    *attr = (tl_pack_attr){.offsets = {offsets, end - first}, .count = to - from};
    out->packs = step;
    out->pack = copy_call(arena, n, n->in + first, end - first, &whole);
    if (!out->pack) return TL_ENOMEM;
    out->pack->attr = attr;
    return TL_OK;
}

static tl_status make_add(piece *out, tl_program *p, tli_step *step, const tl_early_part *part)
{
    tl_arena *arena = p->graph->ctx->arena;
    const tl_node *n = step->node;
    tl_tensor *in[] = {part_of(arena, n->in[0], part->from, part->end),
                       part_of(arena, n->in[1], part->from, part->end),
                       n->inputs > 2 ? n->in[2] : NULL};
    if (!in[0] || !in[1]) return TL_ENOMEM;
    out->adds = step;
    out->add = copy_call(arena, n, in, n->inputs, NULL);
    return out->add ? TL_OK : TL_ENOMEM;
}

/* Where the next tensor of a pack begins. */
static int64_t reach_of(const tli_step *pack, int i)
{
    const tl_pack_attr *a = pack->node->attr;
    return i + 1 < pack->node->inputs ? a->offsets.items[i + 1] : a->count;
}

/* The step behind which tensors first .. end - 1 of a pack are there, and the memory that they are
 * put into is nobody else's. */
static int64_t ready_behind(const tl_program *p, int64_t pack, int first, int end)
{
    const tli_step *step = &p->steps[pack];
    int64_t behind = 0;
    for (int i = first; i < end; i++) {
        const int64_t made = last_write(p, pack, step->node->in[i]);
        if (made > behind) behind = made;
    }
    while (behind < pack && p->steps[behind].node->index < step->since) behind++;
    return behind;
}

/* Whether the parts of a tensor cover it, from its end to its beginning. */
static bool cover(const tli_early *e, const tl_tensor *t)
{
    int64_t at = tl_tensor_count(t);
    for (int64_t i = 0; i < e->count; i++) {
        const tl_early_part *part = &e->parts[i];
        if (part->tensor != t) continue;
        if (part->end != at || part->from >= at) return false;
        at = part->from;
    }
    return at == 0;
}

/* What the run does not touch is there from its beginning: another task's, say. */
static bool is_untouched(const tl_program *p, const tl_tensor *t)
{
    for (int64_t i = 0; i < p->step_count; i++)
        if (touches(p->steps[i].node, t->storage)) return false;
    return true;
}

/* All parts of one sum. */
static tl_status make_pieces(tli_early *e, tl_program *p, const tl_tensor *t)
{
    sum s;
    if (!cover(e, t)) return TL_OK;
    for (int64_t i = 0; i < e->count && is_untouched(p, t); i++)
        if (e->parts[i].tensor == t) e->pieces[i].behind = 0;
    if (!find_sum(&s, p, t)) return TL_OK;
    const tl_pack_attr *a = p->steps[s.pack].node->attr;
    int end = p->steps[s.pack].node->inputs; // of tensors that no part has packed yet
    int64_t to = tl_tensor_count(t), behind = 0;
    for (int64_t i = 0; i < e->count; i++) {
        const tl_early_part *part = &e->parts[i];
        piece *one = &e->pieces[i];
        if (part->tensor != t) continue;
        int first = end;
        while (first > 0 && reach_of(&p->steps[s.pack], first - 1) > part->from) first--;
        if (first < end) {
            const int64_t ready = ready_behind(p, s.pack, first, end);
            if (ready > behind) behind = ready;
            TL_TRY(make_pack(one, p, &p->steps[s.pack], first, end, to));
            to = first ? a->offsets.items[first] : 0;
            end = first;
        }
        TL_TRY(make_add(one, p, &p->steps[s.add], part));
        one->behind = behind;
    }
    // With the last of them the others would be as late.
    const bool early = behind < s.pack;
    for (int64_t i = 0; i < e->count && !early; i++)
        if (e->parts[i].tensor == t) e->pieces[i] = (piece){.behind = -1};
    e->left_out[s.pack] = e->left_out[s.add] = early;
    return TL_OK;
}

/* --- making ----------------------------------------------------------------------------------- */

static bool came_before(const tli_early *e, int64_t part)
{
    for (int64_t i = 0; i < part; i++)
        if (e->parts[i].tensor == e->parts[part].tensor) return true;
    return false;
}

static void put_in_order(tli_early *e)
{
    int64_t known = 0;
    for (int64_t i = 0; i < e->count; i++) {
        const int64_t behind = e->pieces[i].behind;
        known = known < 0 || behind < 0 ? -1 : behind > known ? behind : known;
        e->known_at[i] = known;
        if (behind < 0) continue;
        int64_t at = e->ordered++;
        for (; at > 0 && e->pieces[e->order[at - 1]].behind > behind; at--)
            e->order[at] = e->order[at - 1];
        e->order[at] = i;
    }
}

static tl_status make_early(tl_program *p, const tl_early *asked)
{
    tl_arena *arena = p->graph->ctx->arena;
    const int64_t count = asked->count;
    tli_early *e = tl_arena_array(arena, 1, sizeof *e);
    if (!e) return TL_ENOMEM;
    *e = (tli_early){.parts =
                         tl_arena_copy(arena, asked->parts, (size_t)count * sizeof *asked->parts),
                     .count = count,
                     .pieces = tl_arena_array(arena, count, sizeof *e->pieces),
                     .order = tl_arena_array(arena, count, sizeof *e->order),
                     .known_at = tl_arena_array(arena, count, sizeof *e->known_at),
                     .left_out = tl_arena_array(arena, p->step_count, sizeof *e->left_out)};
    if (!e->parts || !e->pieces || !e->order || !e->known_at || !e->left_out) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) e->pieces[i].behind = -1;
    for (int64_t i = 0; i < count; i++)
        if (!came_before(e, i)) TL_TRY(make_pieces(e, p, e->parts[i].tensor));
    put_in_order(e);
    p->early = e;
    return TL_OK;
}

tl_status tl_program_set_early(tl_program *p, const tl_early *early)
{
    const tl_queue *q = p->graph->ctx->engine->queue;
    if (p->early) p->early->asked = NULL;
    if (!early || !early->count || !q->device->cls->host) return TL_OK;
    const bool same =
        p->early && p->early->count == early->count
        && memcmp(p->early->parts, early->parts, (size_t)early->count * sizeof *early->parts) == 0;
    if (!same) TL_TRY(make_early(p, early));
    p->early->asked = early;
    return TL_OK;
}

/* --- running ---------------------------------------------------------------------------------- */

bool tli_early_begin(tl_program *p)
{
    if (!p->early || !p->early->asked) return false;
    p->early->next = p->early->told = 0;
    return true;
}

bool tli_early_leaves_out(const tl_program *p, int64_t step)
{
    return p->early->left_out[step];
}

/* Its time is that of the call that was left out. */
static tl_status run_part(const tl_program *p, const tl_run *run, const tl_node *call, tli_step *of)
{
    if (!call) return TL_OK;
    if (p->timing) of->begin_ns = tl_clock_ns();
    TL_TRY_NOTE(tli_run_kernel(run, call, &of->kernel), "%s", call->op->name);
    if (p->timing) of->total_ns += (of->end_ns = tl_clock_ns()) - of->begin_ns;
    return TL_OK;
}

tl_status tli_early_behind(tl_program *p, const tl_run *run, int64_t step)
{
    tli_early *e = p->early;
    for (; e->next < e->ordered && e->pieces[e->order[e->next]].behind <= step; e->next++) {
        const piece *one = &e->pieces[e->order[e->next]];
        TL_TRY(run_part(p, run, one->pack, one->packs));
        TL_TRY(run_part(p, run, one->add, one->adds));
    }
    if (p->timing && e->left_out[step]) p->steps[step].runs++;
    while (e->told < e->count && e->known_at[e->told] >= 0 && e->known_at[e->told] <= step)
        e->told++;
    return e->asked->there(e->asked->self, e->told);
}
