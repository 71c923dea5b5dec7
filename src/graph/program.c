#include <tilth/sys/graph/program.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/core/attrs.h>
#include <tilth/core/strands.h>

#include "core/inner/engine.h"
#include "core/inner/storage.h"
#include "core/inner/tensor.h"
#include "graph/plan.h"
#include "graph/program.h"

/* --- binding headers to memory ---------------------------------------------------------------- */

static void bind(tl_tensor *t, tl_storage *storage, int64_t offset)
{
    tl_storage *before = t->storage;
    if (storage) tli_storage_retain(storage);
    t->storage = storage;
    t->offset = offset;
    tli_storage_release(before);
}

static void bind_planned(tl_program *p, const tli_plan *plan)
{
    tl_storage *memory = p->workspace->storage;
    TLI_EACH_NODE(p->graph, n) {
        for (int i = 0; i < n->outputs; i++) {
            tl_tensor *t = n->out[i];
            const tli_room *room = tli_plan_room(plan, tli_root(t));
            if (!room) continue;
            // A view's offset counts from its root's first element so far.
            bind(t, memory, t->offset + room->offset / (int64_t)tl_dtype_size(t->dtype));
            TL_ASSERT(tli_extent_of(t).from >= room->offset || !tl_tensor_count(t));
            TL_ASSERT(tli_extent_of(t).to <= room->offset + room->bytes || !tl_tensor_count(t));
        }
    }
}

// All headers that show the memory of `root`, itself included: they move together from run to run.
static tl_status note_binding(tl_program *p, tli_binding *b, tl_tensor *root)
{
    *b = (tli_binding){.root = root};
    TLI_EACH_SHOWN(p->graph, root, v) b->count += v->tensor != root;
    b->views = tl_arena_array(p->graph->ctx->arena, b->count, sizeof *b->views);
    if (!b->views) return TL_ENOMEM;
    int64_t k = 0;
    TLI_EACH_SHOWN(p->graph, root, v)
    if (v->tensor != root) b->views[k++] = (tli_bound_view){v->tensor, v->tensor->offset};
    TL_ASSERT(k == b->count);
    return TL_OK;
}

static tl_status note_bindings(tl_program *p)
{
    tl_graph *g = p->graph;
    p->inputs = tl_arena_array(g->ctx->arena, g->input_count, sizeof *p->inputs);
    p->outputs = tl_arena_array(g->ctx->arena, g->output_count, sizeof *p->outputs);
    if (!p->inputs || !p->outputs) return TL_ENOMEM;
    for (int64_t i = 0; i < g->input_count; i++)
        TL_TRY(note_binding(p, &p->inputs[i], g->inputs[i].tensor));
    for (int64_t i = 0; i < g->output_count; i++)
        TL_TRY(note_binding(p, &p->outputs[i], g->outputs[i].tensor));
    return TL_OK;
}

// For one run: whoever gave the memory holds it that long.
void tli_program_lend(const tli_binding *b, tl_storage *storage, int64_t offset)
{
    b->root->storage = storage;
    b->root->offset = offset;
    for (int64_t i = 0; i < b->count; i++) {
        b->views[i].header->storage = storage;
        b->views[i].header->offset = b->views[i].offset + offset;
    }
}

static void lend_back(tl_program *p)
{
    for (int64_t i = 0; i < p->graph->input_count; i++) tli_program_lend(&p->inputs[i], NULL, 0);
    for (int64_t i = 0; i < p->graph->output_count; i++) tli_program_lend(&p->outputs[i], NULL, 0);
}

/* --- calls ------------------------------------------------------------------------------------ */

static tl_status plan_nest(tl_program *p, tli_step *s, const tli_plan *plan)
{
    const tl_node *n = s->node;
    s->nest = p->nests[n->index];
    if (!s->nest->scratch_bytes) return TL_OK;
    s->scratch = tl_arena_alloc(p->graph->ctx->arena, sizeof *s->scratch);
    if (!s->scratch) return TL_ENOMEM;
    s->scratch->dtype = TL_U8;
    s->scratch->shape = TL_SHAPE((int64_t)s->nest->scratch_bytes);
    tli_tensor_row_major(s->scratch);
    s->scratch->storage = p->workspace->storage; // which outlives it
    s->scratch->offset = tli_plan_scratch(plan, n);
    TL_ASSERT(tli_extent_of(s->scratch).to <= p->workspace_bytes
              && s->scratch->offset % (int64_t)p->graph->ctx->engine->device->cls->alignment == 0);
    return TL_OK;
}

static tl_status run_nest(const tl_program *p, const tl_run *run, const tli_step *s)
{
    TL_TRY(p->methods->run(run, s->node, s->nest, s->code, s->scratch));
    return run->engine->losses ? tli_call_queued(run, s->node) : TL_OK; // the host has run it
}

static tl_status make_step(tl_program *p, tli_step *s, const tl_node *n, const tli_plan *plan)
{
    s->node = n;
    if (n->op == &tli_op_nest) return plan_nest(p, s, plan);
    const tli_room *room =
        plan && n->op->op == TL_OP_pack ? tli_plan_room(plan, tli_root(n->out[0])) : NULL;
    s->since = room ? room->first : INT64_MAX;
    TL_TRY(tl_engine_kernel(p->graph->ctx->engine, n, &s->kernel));
    for (int i = 0; i < n->inputs && !(s->kernel.flags & TL_KERNEL_STRIDED); i++)
        if (!n->in[i]->contiguous)
            return TL_FAIL(TL_EINVAL,
                           "input %d has gaps, which this kernel cannot take; run the pass "
                           "'straighten' over the graph first",
                           i);
    return TL_OK;
}

static tl_status make_steps(tl_program *p, const tli_plan *plan)
{
    int64_t count = tl_graph_count(p->graph);
    p->steps = tl_arena_array(p->graph->ctx->arena, count, sizeof *p->steps);
    if (!p->steps) return TL_ENOMEM;
    TLI_EACH_NODE(p->graph, n) {
        if (tli_is_view(n)) continue;
        TL_TRY_NOTE(make_step(p, &p->steps[p->step_count], n, plan), "%s%s%s", n->path,
                    *n->path ? ": " : "", n->op->name);
        p->collectives += tli_is_collective(n);
        p->step_count++;
    }
    TL_ASSERT(p->step_count == count);
    return TL_OK;
}

static tl_status make_refreshes(tl_program *p)
{
    const tl_graph *g = p->graph;
    p->refreshes = tl_arena_array(g->ctx->arena, g->copies.count, sizeof *p->refreshes);
    if (!p->refreshes) return TL_ENOMEM;
    for (int64_t i = 0; i < g->copies.count; i++)
        TL_TRY(make_step(p, &p->refreshes[i], g->copies.items[i].refresh, NULL));
    return TL_OK;
}

static bool is_noted(const tl_program *p, const tl_tensor *t)
{
    for (int64_t i = 0; i < p->written_count; i++)
        if (tli_memory_of(p->written[i]) == tli_memory_of(t)) return true;
    return false;
}

static tl_status note_written(tl_program *p)
{
    const tl_graph *g = p->graph;
    p->written =
        tl_arena_array(g->ctx->arena, g->input_count + g->outside.count, sizeof *p->written);
    if (!p->written) return TL_ENOMEM;
    TLI_EACH_NODE(g, n)
        for (int i = 0; tli_has_effects(n) && i < n->inputs; i++) {
            tl_tensor *root = tli_root(n->in[i]);
            if (tli_call_writes(n, i) && !root->node && !is_noted(p, root))
                p->written[p->written_count++] = root;
        }
    return TL_OK;
}

// How the nests are walked, and the memory that they need for it.
static tl_status plan_nests(tl_program *p, int64_t **scratch)
{
    tl_arena *arena = p->graph->ctx->arena;
    int64_t count = tli_number_nodes(p->graph);
    *scratch = tl_arena_array(arena, count, sizeof **scratch);
    p->nests = tl_arena_array(arena, count, sizeof *p->nests);
    if (!*scratch || !p->nests) return TL_ENOMEM;
    TLI_EACH_NODE(p->graph, n) {
        if (n->op != &tli_op_nest) continue;
        TL_TRY(p->methods->plan(&p->nests[n->index], arena, n->attr));
        p->must_compile |= p->methods->compile_first;
        (*scratch)[n->index] = (int64_t)p->nests[n->index]->scratch_bytes;
    }
    return TL_OK;
}

// Memory from outside must be where the kernels of the program will look for it.
static tl_status check_outside(const tl_graph *g)
{
    const tl_engine *e = g->ctx->engine;
    for (int64_t i = 0; i < g->outside.count; i++) {
        const tl_tensor *t = g->outside.items[i].header;
        if (!t->storage || tli_is_here(e, t)) continue;
        const tli_use *first = tli_first_use(g, t);
        if (!first) return tli_fail_elsewhere(e, t, "a tensor from outside");
        const tl_node *n = tli_user(g, first);
        return tli_fail_elsewhere(e, t, "%s%s%s: a tensor from outside", n->path,
                                  *n->path ? ": " : "", n->op->name);
    }
    return TL_OK;
}

/* Where the workspace has no room, what most of it is for is told. */
static tl_status take_workspace(tl_program *p, const tli_plan *plan)
{
    const tli_room *most = NULL;
    char shape[TL_SHAPE_TEXT];
    tl_status st =
        tl_tensor_new(&p->workspace, p->graph->ctx->engine, TL_U8, TL_SHAPE(plan->bytes));
    if (st != TL_ENOMEM) return st;
    for (int64_t i = 0; i < plan->rooms.count; i++) {
        const tli_room *room = &plan->rooms.items[i];
        const bool known = room->tensor && room->tensor->node && room->inside < 0;
        if (known && (!most || room->bytes > most->bytes)) most = room;
    }
    if (!most) return tl_error_note(st, "what it computes on the way");
    const tl_node *n = most->tensor->node;
    tl_shape_text(shape, &most->tensor->shape);
    return tl_error_note(st,
                         "what it computes on the way (most of all %" PRId64 " bytes, for the "
                         "%s%s of %s%s%s)",
                         most->bytes, tl_dtype_name(most->tensor->dtype), shape, n->op->name,
                         *n->path ? " in " : "", n->path);
}

static tl_status prepare(tl_program *p)
{
    tl_graph *g = p->graph;
    tli_plan plan = {0};
    int64_t *scratch;
    TL_TRY(check_outside(g));
    TL_TRY(plan_nests(p, &scratch));
    tl_status st = tli_plan_make(&plan, g, scratch);
    p->workspace_bytes = plan.bytes;
    TL_ASSERT(st != TL_OK || plan.bytes >= 0);
    p->unplanned_bytes = plan.unplanned;
    TL_TRY_DONE(st, st);
    TL_TRY_DONE(st, take_workspace(p, &plan));
    bind_planned(p, &plan);
    TL_TRY_DONE(st, note_bindings(p));
    TL_TRY_DONE(st, make_steps(p, &plan));
    TL_TRY_DONE(st, tli_packed_find(p));
    TL_TRY_DONE(st, make_refreshes(p));
    TL_TRY_DONE(st, note_written(p));
done:
    tli_plan_free(&plan);
    return st;
}

tl_status tl_program_new(tl_program **out, tl_graph **g, const tl_program_args *args)
{
    tl_program *p = tl_alloc_zero(sizeof *p);
    *out = NULL;
    if (!p) {
        tl_graph_free(g);
        return TL_FAIL_NOMEM(sizeof *p);
    }
    p->graph = *g;
    *g = NULL;
    p->methods = tl_engine_nests(p->graph->ctx->engine);
    p->name = tl_arena_strdup(p->graph->ctx->arena, args->name ? args->name : "program");
    tl_status st = p->name ? prepare(p) : TL_ENOMEM;
    if (st == TL_OK) *out = p;
    else tl_program_free(&p);
    return st;
}

void tl_program_free(tl_program **program)
{
    tl_program *p = *program;
    if (!p) return;
    // What is still in the queue uses its plans and its memory; how that ends is for whoever waits
    // for it.
    tl_queue *q = p->graph->ctx->engine->queue;
    tl_error before;
    tl_error_save(&before);
    (void)!tl_queue_wait(q, tl_queue_ticket(q));
    tl_error_restore(&before);
    TL_ASSERT(!p->under_way);
    tli_lists_free(p);
    tli_packed_free(p);
    tli_need_free(p);
    tli_program_lanes_free(p);
    tl_graph_free(&p->graph);
    tl_tensor_free(&p->workspace);
    tl_free(p);
    *program = NULL;
}

/* --- running ---------------------------------------------------------------------------------- */

static tl_status fail_input(const tl_named *want, const tl_tensor *is)
{
    char a[TL_TENSOR_TEXT], b[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "input '%s' is %s and was captured as %s", want->name,
                   tl_tensor_spec(a, is), tl_tensor_spec(b, want->tensor));
}

static tl_status lend_inputs(tl_program *p, const tl_tensors *in)
{
    const tl_graph *g = p->graph;
    for (int64_t i = 0; i < g->input_count; i++) {
        const tl_named *want = &g->inputs[i];
        // Usually they come in the order of the capture.
        const tl_tensor *is = i < in->count && strcmp(in->items[i].name, want->name) == 0
                                  ? in->items[i].tensor
                                  : tl_tensors_peek(in, want->name);
        if (!is) return TL_FAIL(TL_EINVAL, "there is no input '%s'", want->name);
        if (is->dtype != want->tensor->dtype || !tl_shape_equal(&is->shape, &want->tensor->shape))
            return fail_input(want, is);
        if (!is->storage) return TL_FAIL(TL_ESTATE, "input '%s' has no elements", want->name);
        if (!is->contiguous)
            return TL_FAIL(TL_EINVAL, "input '%s' is a view with gaps; make it contiguous first",
                           want->name);
        if (!tli_is_here(g->ctx->engine, is))
            return tli_fail_elsewhere(g->ctx->engine, is, "input '%s'", want->name);
        TL_TRY_NOTE(tli_storage_check(is->storage), "input '%s'", want->name);
        tli_program_lend(&p->inputs[i], is->storage, is->offset);
    }
    return TL_OK;
}

// Tensors from outside hold what somebody wrote, and not what a failure has left there.
static tl_status check_computed(const tl_program *p)
{
    if (!p->graph->ctx->engine->losses) return TL_OK;
    for (int64_t i = 0; i < p->graph->outside.count; i++) {
        const tli_outside *o = &p->graph->outside.items[i];
        if (o->original && o->header->storage) TL_TRY(tli_storage_check(o->header->storage));
    }
    return TL_OK;
}

static tl_status lend_outputs(tl_program *p, tl_ctx *c, tl_tensors *out)
{
    const tl_graph *g = p->graph;
    for (int64_t i = 0; i < g->output_count; i++) {
        const tl_tensor *like = g->outputs[i].tensor;
        // The caller's list may outlive this program.
        const char *name = tl_arena_strdup(tl_ctx_arena(c), g->outputs[i].name);
        tl_tensor *t = name ? tl_ctx_header(c) : NULL;
        if (!t) return name ? tl_ctx_status(c) : TL_ENOMEM;
        t->dtype = like->dtype;
        t->shape = like->shape;
        tli_tensor_row_major(t);
        if (!tl_ctx_storage(c, t)) return tl_ctx_status(c);
        tl_tensors_put(c, out, name, t);
        tli_program_lend(&p->outputs[i], tli_lists_place(p, i, t), 0);
    }
    return tl_ctx_status(c);
}

static tl_status run_kernel(const tl_run *run, const tli_step *s)
{
    return tli_run_kernel(run, s->node, &s->kernel);
}

static tl_status run_step(tl_program *p, const tl_run *run, const tli_step *s)
{
    if (s->nest) return run_nest(p, run, s);
    if (!s->packed || tli_need_is_set(p)) return run_kernel(run, s);
    tl_run with_weight = *run;
    TL_TRY(tli_packed_prepare(p, s, &with_weight));
    return run_kernel(&with_weight, s);
}

static tl_status run_one(tl_program *p, const tl_run *run, tli_clocks *clocks, int64_t i)
{
    const tli_step *s = &p->steps[i];
    if (clocks) tli_clocks_start(clocks, i);
    TL_TRY_NOTE(run_step(p, run, s), "%s%s%s", s->node->path, *s->node->path ? ": " : "",
                s->node->op->name);
    return clocks ? tli_clocks_stop(clocks, i) : TL_OK;
}

typedef struct running {
    tl_program *program;
    const tl_run *run;
} running;

static tl_status put_steps(void *self)
{
    const running *r = self;
    for (int64_t i = 0; i < r->program->step_count; i++)
        TL_TRY(run_one(r->program, r->run, NULL, i));
    return TL_OK;
}

/* One by one. `early`: what is known before the end is told of. `need`: what lacks is brought. */
static tl_status run_asked(tl_program *p, const tl_run *run, tli_clocks *clocks, bool early,
                           bool need)
{
    const int64_t copies = p->graph->copies.count;
    for (int64_t i = 0; i < p->step_count; i++) {
        if (need) TL_TRY(tli_need_before(p, copies + i));
        if (!early || !tli_early_leaves_out(p, i)) TL_TRY(run_one(p, run, clocks, i));
        if (early) TL_TRY(tli_early_behind(p, run, i));
        if (need) tli_need_behind(p, copies + i);
    }
    return TL_OK;
}

static tl_status run_timed(tl_program *p, const tl_run *run, bool early, bool need)
{
    tli_clocks clocks;
    tl_status st = tli_clocks_open(&clocks, p, run->queue);
    if (st == TL_OK) st = run_asked(p, run, &clocks, early, need);
    return tli_clocks_close(&clocks, st);
}

static uint64_t version_of_weights(const tli_weight_copy *copy)
{
    return tli_storage_version(copy->refresh->in[0]->storage);
}

// What was put into the queue to make a copy may not have run.
static bool shows_weights(const tli_weight_copy *copy)
{
    return copy->valid && copy->version == version_of_weights(copy)
           && !tli_storage_is_lost(copy->refresh->out[0]->storage);
}

bool tli_copy_shows_weights(const tl_program *p, int64_t copy)
{
    return shows_weights(&p->graph->copies.items[copy]);
}

// Copies of weights that somebody else has written since the last run.
static tl_status refresh_copies(tl_program *p, const tl_run *run, bool need)
{
    for (int64_t i = 0; i < p->graph->copies.count; i++) {
        tli_weight_copy *copy = &p->graph->copies.items[i];
        if (shows_weights(copy)) continue;
        if (need) TL_TRY(tli_need_before(p, i));
        TL_TRY_NOTE(run_kernel(run, &p->refreshes[i]), "copy of weights");
        if (need) tli_need_behind(p, i);
        tli_storage_touch(copy->refresh->out[0]->storage);
    }
    return TL_OK;
}

// What was written has other versions now, which the copies show, unless the run ended early.
static void note_versions(tl_program *p, bool whole)
{
    for (int64_t i = 0; i < p->written_count; i++)
        if (p->written[i]->storage) tli_storage_touch(p->written[i]->storage);
    for (int64_t i = 0; i < p->graph->copies.count; i++) {
        tli_weight_copy *copy = &p->graph->copies.items[i];
        copy->valid = whole;
        copy->version = version_of_weights(copy);
    }
}

// Kernels, plans and memory are those of one engine, and its queue keeps the order between runs.
static tl_status check_engine(const tl_program *p, const tl_ctx *c)
{
    const tl_engine *own = p->graph->ctx->engine, *other = c->engine;
    if (own == other) return TL_OK;
    if (own->device != other->device)
        return TL_FAIL(TL_EINVAL,
                       "it was made for the device '%s' and is run by a context on '%s'; make it "
                       "for that one too",
                       own->device->name, other->device->name);
    return TL_FAIL(
        TL_EINVAL,
        "it was made for another engine (backend '%s', %s) than that of the context that runs it "
        "(backend '%s'); run it in a context of its own engine",
        own->backend->cls.name,
        own->queue == other->queue     ? "beside it"
        : own->device == other->device ? "with a queue of its own"
                                       : "on a device of its own",
        other->backend->cls.name);
}

static tl_status check_runnable(const tl_program *p, const tl_ctx *c)
{
    TL_TRY(check_engine(p, c));
    if (p->must_compile)
        return TL_FAIL(
            TL_ESTATE,
            "the backend '%s' runs loop nests compiled only; call tl_program_compile first",
            c->engine->backend->cls.name);
    return TL_OK;
}

static tl_status run_bound(tl_program *p, const tl_run *run)
{
    const bool need = tli_need_begin(p);
    TL_ASSERT(!need || !run->resume);
    tli_lists_foresee(p, run);
    TL_TRY(refresh_copies(p, run, need));
    const bool early = !run->resume && tli_early_begin(p);
    if (p->timing) return run_timed(p, run, early, need);
    if (early || need) return run_asked(p, run, NULL, early, need);
    return tli_lists_run(p, run, put_steps, &(running){p, run});
}

static tl_status run_program(tl_program *p, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_run run = {.engine = c->engine,
                  .queue = c->engine->queue,
                  .threads = c->engine->threads,
                  .draws = c->draws,
                  .strand = c->strand};
    tli_lane lane = {0};
    TL_TRY(check_computed(p));
    if (p->collectives && c->strand) {
        TL_TRY(tli_program_compare(p, c->strand));
        if (tl_strand_alternates(c->strand)) TL_TRY(tli_lane_begin(&lane, p, c));
    }
    TL_TRY(lend_inputs(p, in));
    TL_TRY(lend_outputs(p, c, out));
    if (!lane.program) {
        TL_TRY(run_bound(p, &run));
        return tli_lists_hand_out(p, c, out);
    }
    tli_lane_note(&lane);
    run.resume = tli_lane_resume;
    run.resumed = &lane;
    return run_bound(p, &run);
}

tl_status tl_program_run(tl_program *p, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    TL_TRY_NOTE(check_runnable(p, c), "%s", p->name);
    p->under_way++;
    tl_status st = run_program(p, c, in, out);
    p->under_way--;
    note_versions(p, st == TL_OK);
    lend_back(p);
    return st == TL_OK ? TL_OK : tl_error_note(st, "%s", p->name);
}

bool tl_program_is_under_way(const tl_program *p)
{
    return p->under_way > 0;
}

bool tl_program_is_current(const tl_program *p)
{
    for (int64_t i = 0; i < p->graph->outside.count; i++) {
        const tli_outside *o = &p->graph->outside.items[i];
        if (!o->original) continue;
        if (o->original->storage != o->header->storage || o->original->offset != o->header->offset)
            return false;
    }
    return true;
}

const tl_graph *tl_program_graph(const tl_program *p)
{
    return p->graph;
}
