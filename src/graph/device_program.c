/* Runs of a program as one piece of work, where the device keeps lists of work: its calls are put
 * together once, with the addresses that they have, and then run as a whole. Inputs and outputs lie
 * at the same few places again and again, since memory comes from a pool; a run with others is put
 * into the queue call by call. Where the caller keeps small results, as losses for a mean of many
 * steps, the program leaves them in memory of its own, from where they are copied. */
#include <tilth/base/alloc.h>

#include "core/inner/engine.h"
#include "core/inner/tensor.h"
#include "graph/program.h"

static bool draws(const tl_program *p)
{
    for (int64_t i = 0; i < p->step_count; i++)
        if (p->steps[i].node->op->flags & TL_OP_RANDOM) return true;
    return false;
}

/* Draws are values of a run, which not all devices can tell a list; kernels of the host run at
 * once, and panels are packed anew when weights have moved. */
static bool can_be_listed(const tl_program *p, const tl_device_class *device)
{
    for (int64_t i = 0; i < p->step_count; i++) {
        const tli_step *s = &p->steps[i];
        if (s->packed || (s->kernel.fn && (s->kernel.flags & TL_KERNEL_STAGED))) return false;
    }
    return p->step_count > 1 && (device->set_draws || !p->lists.draws);
}

static bool is_wanted(tl_program *p, const tl_run *run)
{
    if (!run->queue->device->cls->program_build || run->engine->waits) return false;
    if (!p->lists.asked) {
        p->lists.asked = true;
        p->lists.draws = draws(p);
        p->lists.refused = !can_be_listed(p, run->queue->device->cls);
    }
    return !p->lists.refused;
}

static const void *place_of(const tli_binding *b)
{
    return b->root->storage ? tli_data(b->root) : NULL;
}

/* Of inputs, and of outputs with more than so many bytes. */
static bool is_at(const tl_program *p, const tli_list *l, size_t bytes)
{
    const tl_graph *g = p->graph;
    for (int64_t i = 0; i < g->input_count; i++)
        if (l->places[i] != place_of(&p->inputs[i])) return false;
    for (int64_t i = 0; i < g->output_count; i++)
        if (tl_tensor_bytes(g->outputs[i].tensor) > bytes
            && l->places[g->input_count + i] != place_of(&p->outputs[i]))
            return false;
    return true;
}

static tli_list *find_list(tl_program *p, size_t bytes)
{
    for (int i = 0; i < TLI_MOST_LISTS; i++)
        if (p->lists.items[i].places && is_at(p, &p->lists.items[i], bytes))
            return &p->lists.items[i];
    return NULL;
}

static void empty_list(tl_program *p, tli_list *l)
{
    if (l->made) p->graph->ctx->engine->device->cls->program_free(&l->made);
    tl_free((void *)l->places);
    *l = (tli_list){0};
}

// The places are met for the first time: perhaps they come again.
static tl_status note_places(tl_program *p)
{
    const int64_t inputs = p->graph->input_count, outputs = p->graph->output_count;
    tli_list *l = &p->lists.items[p->lists.next++ % TLI_MOST_LISTS];
    const size_t bytes = (size_t)(inputs + outputs + 1) * sizeof *l->places;
    empty_list(p, l);
    if (!(l->places = tl_alloc_zero(bytes))) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = 0; i < inputs; i++) l->places[i] = place_of(&p->inputs[i]);
    for (int64_t i = 0; i < outputs; i++) l->places[inputs + i] = place_of(&p->outputs[i]);
    return TL_OK;
}

/* --- results that the caller keeps ------------------------------------------------------------ */

enum { PATIENCE = 8, LARGEST_OWN = 4096 /* bytes: more takes longer to copy than a list saves */ };

static tl_tensor *make_own(const tl_graph *g, const tl_tensor *like)
{
    tl_tensor *t = tl_ctx_header(g->ctx);
    if (!t) return NULL;
    t->dtype = like->dtype;
    t->shape = like->shape;
    tli_tensor_row_major(t);
    return tl_ctx_storage(g->ctx, t) ? t : NULL;
}

static tl_status take_own(tl_program *p)
{
    const tl_graph *g = p->graph;
    tl_tensor **own = tl_arena_array(g->ctx->arena, g->output_count, sizeof *own);
    if (!own) return TL_ENOMEM;
    for (int64_t i = 0; i < g->output_count; i++) {
        if (tl_tensor_bytes(g->outputs[i].tensor) > LARGEST_OWN) continue;
        if (!(own[i] = make_own(g, g->outputs[i].tensor))) return tl_ctx_status(g->ctx);
    }
    p->lists.own = own;
    return TL_OK;
}

/* Whether small results of this run alone are kept, as those of all before it; runs that stop at
 * collectives hand out their results elsewhere. */
static tl_status note_kept(tl_program *p)
{
    if (p->lists.own || p->collectives) return TL_OK;
    p->lists.kept = find_list(p, LARGEST_OWN) ? p->lists.kept + 1 : 0;
    return p->lists.kept == PATIENCE ? take_own(p) : TL_OK;
}

tl_storage *tli_lists_place(const tl_program *p, int64_t i, const tl_tensor *t)
{
    return p->lists.own && p->lists.own[i] ? p->lists.own[i]->storage : t->storage;
}

tl_status tli_lists_hand_out(const tl_program *p, tl_ctx *c, const tl_tensors *out)
{
    const tl_graph *g = p->graph;
    for (int64_t i = 0; p->lists.own && i < g->output_count; i++) {
        // the run in which it became own has left it where the caller has it
        if (!p->lists.own[i] || p->outputs[i].root->storage != p->lists.own[i]->storage) continue;
        TL_TRY(tl_tensor_copy(tl_tensors_get(c, out, g->outputs[i].name), p->lists.own[i]));
    }
    return TL_OK;
}

/* --- lists ------------------------------------------------------------------------------------ */

static tl_status run_list(tl_program *p, const tl_run *run, tli_list *l)
{
    const tl_device_class *device = run->queue->device->cls;
    if (p->lists.draws) TL_TRY(device->set_draws(run->queue, &run->draws));
    TL_TRY(device->program_run(l->made, run->queue));
    for (int64_t i = 0; i < p->step_count; i++) TL_TRY(tli_call_queued(run, p->steps[i].node));
    return TL_OK;
}

/* --- what the first run needs ----------------------------------------------------------------- */

typedef struct shown {
    const tl_program *program;
    const tl_run *run;
} shown;

/* What is brought when it is needed is not there yet; and whoever meets others does so once. */
static bool can_be_shown(const tli_step *s)
{
    const tl_node *n = s->node;
    if (!s->kernel.fn || s->packed || s->kernel.flags & TL_KERNEL_STAGED || tli_is_collective(n))
        return false;
    for (int i = 0; i < n->inputs; i++)
        if (!n->in[i]->storage) return false;
    for (int i = 0; i < n->outputs; i++)
        if (!n->out[i]->storage) return false;
    return true;
}

static void show(const tli_step *steps, int64_t count, const tl_run *run)
{
    for (int64_t i = 0; i < count; i++)
        if (can_be_shown(&steps[i]) && steps[i].kernel.fn(run, steps[i].node) != TL_OK)
            tl_error_clear(); // the run will tell it
}

static void show_all(void *self, tl_queue *q)
{
    const shown *s = self;
    tl_run run = *s->run;
    run.queue = q;
    show(s->program->refreshes, s->program->graph->copies.count, &run);
    show(s->program->steps, s->program->step_count, &run);
}

void tli_lists_foresee(tl_program *p, const tl_run *run)
{
    tl_device *device = run->queue->device;
    if (p->foreseen || !device->cls->foresee) return;
    p->foreseen = true;
    if (device->cls->foresee(device, show_all, &(shown){p, run}) != TL_OK) tl_error_clear();
}

/* --- runs ------------------------------------------------------------------------------------- */

tl_status tli_lists_run(tl_program *p, const tl_run *run, tl_status (*put)(void *self), void *self)
{
    if (!is_wanted(p, run)) return put(self);
    tli_list *l = find_list(p, 0);
    if (!l) {
        TL_TRY(note_kept(p));
        TL_TRY(note_places(p));
        return put(self);
    }
    p->lists.kept = 0;
    if (l->made) return run_list(p, run, l);
    tl_status st = run->queue->device->cls->program_build(&l->made, run->queue, put, self);
    if (st == TL_OK) return run_list(p, run, l);
    if (st != TL_EUNSUPPORTED) return st;
    tl_error_clear();
    p->lists.refused = true; // somebody looks at elements between the calls
    return put(self);
}

void tli_lists_free(tl_program *p)
{
    for (int i = 0; i < TLI_MOST_LISTS; i++) empty_list(p, &p->lists.items[i]);
}
