/* Runs of one program that stop at its collectives, one for each lane of a process: each has a
 * workspace, and inputs and outputs of its own. Headers are bound once, and what they are bound to
 * changes hands where a lane goes on. */
#include <tilth/base/alloc.h>
#include <tilth/core/strands.h>

#include "core/inner/engine.h"
#include "core/inner/storage.h"
#include "graph/program.h"

/* --- workspaces ------------------------------------------------------------------------------- */

static void exchange(const tl_program *p, int64_t index)
{
    if (index) tli_storage_exchange(p->workspace->storage, p->lanes.items[index]->storage);
}

static void bring(tl_program *p, int64_t index)
{
    TL_ASSERT(index >= 0 && index < p->lanes.count && p->lanes.here < p->lanes.count);
    if (index == p->lanes.here) return;
    exchange(p, p->lanes.here); // back to where it is kept
    exchange(p, index);
    p->lanes.here = index;
}

static tl_status make_space(tl_program *p, int64_t index, int64_t count)
{
    if (!p->lanes.items) {
        p->lanes.items = tl_alloc_zero((size_t)count * sizeof *p->lanes.items);
        if (!p->lanes.items) return TL_FAIL_NOMEM((size_t)count * sizeof *p->lanes.items);
        p->lanes.count = count;
    }
    tl_tensor **space = &p->lanes.items[index];
    TL_ASSERT(p->lanes.count == count);
    if (!index || *space) return TL_OK;
    TL_TRY(tl_tensor_new(space, p->graph->ctx->engine, TL_U8, p->workspace->shape));
    if (tli_storage_can_exchange(p->workspace->storage, (*space)->storage)) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "%lld lanes of one process meet in the middle of a step, which is possible "
                   "where the host computes; on the device '%s' start a process for each",
                   (long long)count, p->graph->ctx->engine->device->name);
}

void tli_program_lanes_free(tl_program *p)
{
    for (int64_t i = 1; i < p->lanes.count; i++) tl_tensor_free(&p->lanes.items[i]);
    tl_free(p->lanes.items);
}

/* --- a lane ----------------------------------------------------------------------------------- */

tl_status tli_lane_begin(tli_lane *lane, tl_program *p, tl_ctx *c)
{
    const tl_lane_run run = tl_strands_lanes(tl_strand_all(tl_ctx_strand(c)));
    const int64_t index = tl_strand_lane(tl_ctx_strand(c)) - run.first;
    const int64_t bound = p->graph->input_count + p->graph->output_count;
    TL_TRY(make_space(p, index, run.count));
    tli_lent *lent = tl_arena_array(tl_ctx_arena(c), bound, sizeof *lent);
    if (!lent) return TL_ENOMEM;
    *lane = (tli_lane){p, index, lent};
    bring(p, index);
    return TL_OK;
}

void tli_lane_note(tli_lane *lane)
{
    const tl_program *p = lane->program;
    const int64_t inputs = p->graph->input_count;
    for (int64_t i = 0; i < inputs + p->graph->output_count; i++) {
        const tl_tensor *root = (i < inputs ? &p->inputs[i] : &p->outputs[i - inputs])->root;
        lane->lent[i] = (tli_lent){root->storage, root->offset};
    }
}

void tli_lane_resume(void *self)
{
    const tli_lane *lane = self;
    tl_program *p = lane->program;
    const int64_t inputs = p->graph->input_count;
    bring(p, lane->index);
    for (int64_t i = 0; i < inputs + p->graph->output_count; i++)
        tli_program_lend(i < inputs ? &p->inputs[i] : &p->outputs[i - inputs],
                         lane->lent[i].storage, lane->lent[i].offset);
}

/* --- what all processes must have alike ------------------------------------------------------- */

static void add_line(tl_str *out, const tl_node *n)
{
    char spec[TL_TENSOR_TEXT];
    tl_str_addf(out, "%s%s%s of %s\n", n->path, *n->path ? ": " : "", n->op->name,
                tl_tensor_spec(spec, n->in[0]));
}

tl_status tli_program_compare(tl_program *p, tl_strand *strand)
{
    tl_str text = TL_STR_INIT;
    if (p->compared) return TL_OK;
    p->compared = true; // the first lane speaks for all of its process
    for (int64_t i = 0; i < p->step_count; i++)
        if (tli_is_collective(p->steps[i].node)) add_line(&text, p->steps[i].node);
    tl_status st = tl_str_status(&text);
    if (st == TL_OK)
        st = tl_strand_compare(strand, "what processes call together", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}
