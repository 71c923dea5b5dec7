#include <tilth/sys/ops/apply.h>

#include <string.h>

#include "core/inner/ctx.h"
#include "core/inner/engine.h"
#include "core/inner/tensor.h"

enum { MAX_OUTPUTS = 8, FEW_INPUTS = 8 };

static const tl_op_class *const classes[TL_OP_COUNT] = {
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    [TL_OP_##op] = &tl_op_##op,
#include <tilth/core/elementwise.def>
#define TL_OP_ROW(name) [TL_OP_##name] = &tl_op_##name,
    TL_OP_LIST(TL_OP_ROW)
#undef TL_OP_ROW
};

const tl_op_class *tl_op_class_of(tl_op op)
{
    return classes[op];
}

static tl_status check_inputs(const tl_node *call)
{
    const tl_op_class *op = call->op;
    if (call->inputs < op->inputs_min || (op->inputs_max >= 0 && call->inputs > op->inputs_max))
        return TL_FAIL(TL_EINVAL, "%d inputs; it takes %d%s", call->inputs, op->inputs_min,
                       op->inputs_max == op->inputs_min ? "" : " or more");
    for (int i = 0; i < call->inputs; i++)
        if (!call->in[i]) return TL_FAIL(TL_EINVAL, "input %d is NULL", i);
    return TL_OK;
}

static bool any_tracked(const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (call->in[i]->tracked) return true;
    return false;
}

// Views share the storage of their input; other outputs get their own, row-major.
static bool place_outputs(tl_ctx *c, const tl_node *call, bool run)
{
    if (call->op->flags & TL_OP_VIEW) {
        tl_tensor *out = call->out[0], *in = call->in[0];
        out->contiguous = tli_tensor_is_row_major(out);
        out->view_of = in;
        if ((out->storage = in->storage)) tli_storage_retain(out->storage);
        return true;
    }
    for (int i = 0; i < call->outputs; i++) {
        tli_tensor_row_major(call->out[i]);
        if (run && !call->out[i]->storage && !tl_ctx_storage(c, call->out[i])) return false;
    }
    return true;
}

/* --- running ---------------------------------------------------------------------------------- */

// A row-major copy of `t` for a kernel that takes no strides.
static tl_tensor *row_major_copy(tl_ctx *c, tl_tensor *t)
{
    tl_tensor *copy = tl_ctx_header(c);
    if (!copy) return NULL;
    copy->dtype = t->dtype;
    copy->shape = t->shape;
    tli_tensor_row_major(copy);
    if (!tl_ctx_storage(c, copy)) return NULL;
    tl_node call = {
        .op = &tl_op_copy, .in = &t, .out = &copy, .inputs = 1, .outputs = 1, .path = ""};
    if (tl_engine_run(c->engine, &c->draws, &call) == TL_OK) return copy;
    return tl_ctx_fail(c);
}

static tl_status check_writes(const tl_node *call)
{
    for (int i = 0; i < call->inputs && i < 32; i++) {
        if (!(call->op->writes >> i & 1)) continue;
        const tl_tensor *t = call->in[i];
        if (!t->contiguous)
            return TL_FAIL(TL_EINVAL, "input %d is written and must have no gaps", i);
        if (t->storage && atomic_load_explicit(&t->storage->leases, memory_order_relaxed))
            return TL_FAIL(TL_ESTATE, "input %d is written while it is leased; end the lease first",
                           i);
    }
    return TL_OK;
}

static tl_status run_with_copies(tl_ctx *c, const tl_node *call)
{
    tl_tensor *few[FEW_INPUTS], **in = few;
    if (call->inputs > FEW_INPUTS) {
        in = tl_arena_array(c->arena, call->inputs, sizeof *in);
        if (!in) return TL_ENOMEM;
    }
    tl_tensor *since = tl_ctx_newest(c);
    for (int i = 0; i < call->inputs; i++) {
        in[i] = call->in[i]->contiguous ? call->in[i] : row_major_copy(c, call->in[i]);
        if (!in[i]) return tl_ctx_status(c);
    }
    tl_node straight = *call;
    straight.in = in;
    tl_status st = tl_engine_run_strand(c->engine, &c->draws, c->strand, &straight);
    for (tl_tensor *t = tl_ctx_newest(c); t != since; t = t->next) tl_ctx_drop(c, t);
    return st;
}

static tl_status run_call(tl_ctx *c, const tl_node *call)
{
    if (call->op->flags & TL_OP_VIEW) return TL_OK;
    if (call->op->writes) TL_TRY(check_writes(call));
    tl_kernel kernel;
    TL_TRY(tl_engine_kernel(c->engine, call, &kernel));
    bool straight = kernel.flags & TL_KERNEL_STRIDED;
    for (int i = 0; i < call->inputs && i < 32; i++)
        if (call->op->writes >> i & 1) tli_storage_touch(call->in[i]->storage);
    for (int i = 0; !straight && i < call->inputs; i++)
        if (!call->in[i]->contiguous) return run_with_copies(c, call);
    return tl_engine_run_strand(c->engine, &c->draws, c->strand, call);
}

/* --- the funnel ------------------------------------------------------------------------------- */

static tl_status check_computed(const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++) {
        if (call->in[i]->storage) continue;
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_ESTATE, "input %d, %s, has no elements: it was captured or dropped", i,
                       tl_tensor_spec(spec, call->in[i]));
    }
    return TL_OK;
}

static tl_status apply(tl_ctx *c, const tl_node *call, tl_tensor **out)
{
    const tl_op_class *op = call->op;
    bool run = !c->capturing;
    TL_TRY(check_inputs(call));
    if (run) TL_TRY(check_computed(call));
    for (int i = 0; i < op->outputs; i++)
        if (!(out[i] = tl_ctx_header(c))) return TL_ENOMEM;
    TL_TRY(op->infer(call));
    bool tracked = !(op->flags & TL_OP_CONSTANT) && any_tracked(call);
    for (int i = 0; i < op->outputs; i++) {
        TL_TRY(tl_shape_check(&out[i]->shape, "result"));
        out[i]->tracked = tracked && tl_dtype_is_float(out[i]->dtype);
    }
    if (!place_outputs(c, call, run)) return tl_ctx_status(c);
    if (run) TL_TRY(run_call(c, call));
    bool record = c->capturing || (c->taping && tracked);
    return !record || tl_ctx_record(c, call) ? TL_OK : tl_ctx_status(c);
}

bool tl_apply_all(tl_ctx *c, tl_op number, const void *attr, int inputs, tl_tensor *const *in,
                  tl_tensor **out)
{
    const tl_op_class *op = classes[number];
    tl_node call = {.op = op,
                    .attr = attr,
                    .in = in,
                    .out = out,
                    .inputs = inputs,
                    .outputs = op->outputs,
                    .path = tl_ctx_path(c)};
    if (!c->failed) {
        tl_status st = apply(c, &call, out);
        if (st == TL_OK) return true;
        if (!c->failed) {
            (void)tl_error_note(st, "%s", op->name);
            tl_ctx_fail(c);
        }
    }
    for (int i = 0; i < op->outputs; i++) out[i] = NULL;
    return false;
}

tl_tensor *tl_apply(tl_ctx *c, tl_op op, const void *attr, int inputs, tl_tensor *const *in)
{
    tl_tensor *out[MAX_OUTPUTS] = {NULL};
    TL_ASSERT(classes[op]->outputs <= MAX_OUTPUTS);
    return tl_apply_all(c, op, attr, inputs, in, out) ? out[0] : NULL;
}

/* --- replay ----------------------------------------------------------------------------------- */

// A captured view gets the storage that its input has by now.
static void renew_view(const tl_node *n)
{
    tl_tensor *out = n->out[0];
    tl_storage *before = out->storage;
    if ((out->storage = n->in[0]->storage)) tli_storage_retain(out->storage);
    tli_storage_release(before);
}

static tl_status replay_call(tl_ctx *c, const tl_node *n)
{
    if (n->op->flags & TL_OP_VIEW) {
        renew_view(n);
        return TL_OK;
    }
    if (!place_outputs(c, n, true)) return tl_ctx_status(c);
    TL_TRY(check_computed(n));
    return run_call(c, n);
}

tl_status tl_replay(tl_ctx *c, const tl_node *first, const tl_node *last)
{
    for (const tl_node *n = first; n; n = n == last ? NULL : n->after)
        TL_TRY_NOTE(replay_call(c, n), "%s%s%s", n->path, *n->path ? ": " : "", n->op->name);
    return TL_OK;
}
