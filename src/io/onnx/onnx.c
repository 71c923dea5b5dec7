#include <tilth/io/onnx.h>

#include <string.h>

#include "io/onnx/impl.h"

/* --- captures --------------------------------------------------------------------------------- */

static tl_status capture(tl_graph **out, tli_onnx *x, int64_t examples)
{
    const tl_onnx_args *a = x->args;
    tl_spec *inputs =
        tl_arena_copy(x->file.arena, a->inputs, (size_t)a->input_count * sizeof *inputs);
    if (!inputs) return TL_ENOMEM;
    for (int64_t i = 0; i < a->input_count; i++) {
        if (inputs[i].shape.rank < 1)
            return TL_FAIL(TL_EINVAL, "the input '%s' has no axis of examples", inputs[i].name);
        inputs[i].shape.dims[0] = examples;
    }
    return tl_graph_capture(out, &(tl_capture){.engine = a->engine,
                                               .body = a->body,
                                               .self = a->self,
                                               .inputs = inputs,
                                               .input_count = a->input_count});
}

static tl_status add_name(const tl_state_entry *e, void *payload)
{
    tli_onnx *x = payload;
    tl_state_entry kept = *e;
    if (e->kind != TL_STATE_TENSOR) return TL_OK;
    kept.path = tl_arena_strdup(x->file.arena, e->path);
    return kept.path && TL_VEC_PUSH(&x->weights, kept) ? TL_OK : TL_ENOMEM;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Notes by the numbers of tensors what outputs need; the list is walked from its end. */
static tl_status mark_needed(tli_pointer_map *needed, const tl_graph *g)
{
    int64_t count;
    const tl_named *outputs = tl_graph_outputs(g, &count);
    const tl_node *n = tl_graph_first(g);
    for (int64_t i = 0; i < count; i++)
        if (!tli_pointer_map_put(needed, outputs[i].tensor, 1)) return TL_ENOMEM;
    while (n && n->after) n = n->after;
    for (; n; n = n->before) {
        bool used = false;
        for (int i = 0; i < n->outputs; i++)
            used = used || tli_pointer_map_get(needed, n->out[i]) >= 0;
        for (int i = 0; used && i < n->inputs; i++)
            if (!tli_pointer_map_put(needed, n->in[i], 1)) return TL_ENOMEM;
    }
    return TL_OK;
}

static bool is_needed(const tli_pointer_map *needed, const tl_node *n)
{
    for (int i = 0; i < n->outputs; i++)
        if (tli_pointer_map_get(needed, n->out[i]) >= 0) return true;
    return false;
}

static bool is_same(const tl_node *few, const tl_node *more)
{
    if (!more || few->op != more->op || few->inputs != more->inputs
        || few->outputs != more->outputs)
        return false;
    for (int i = 0; i < few->inputs; i++)
        if (few->in[i]->shape.rank != more->in[i]->shape.rank) return false;
    return !few->op->attr || tli_onnx_has_sizes(few->op->op)
           || tl_desc_equal(few->op->attr, few->attr, more->attr);
}

static void write_call(tli_onnx *x, const tl_node *few, const tl_node *more)
{
    tl_op op = few->op->op;
    tli_onnx_fn *fn = tli_onnx_arithmetic(op);
    if (!fn) fn = tli_onnx_moves(op);
    if (!fn) fn = tli_onnx_layers(op);
    x->call = few;
    if (!fn) tli_onnx_refuse(x, "");
    else if (!is_same(few, more)) tli_onnx_refuse(x, "it depends on the number of examples");
    else if (!tli_onnx_weight(few->out[0])) fn(x, few, more);
}

static tl_status write_calls(tli_onnx *x)
{
    tli_pointer_map needed = {0};
    tl_status st = mark_needed(&needed, x->few);
    const tl_node *n = tl_graph_first(x->few), *m = tl_graph_first(x->more);
    for (; st == TL_OK && n; n = n->after, m = m ? m->after : NULL) {
        if (is_needed(&needed, n)) write_call(x, n, m);
        st = x->status;
    }
    tli_pointer_map_free(&needed);
    return st;
}

/* --- ends ------------------------------------------------------------------------------------- */

/* Sizes that follow from the number of examples are not told, but for that number itself. */
static tl_status write_end(tli_onnx *x, bool output, const char *name, const tl_tensor *few,
                           const tl_tensor *more)
{
    tl_shape shape = few->shape;
    for (int i = 0; i < shape.rank; i++) {
        if (few->shape.dims[i] == more->shape.dims[i]) continue;
        if (few->shape.dims[i] != TLI_ONNX_FEW)
            return TL_FAIL(TL_EUNSUPPORTED,
                           "'%s' has an axis that is a multiple of the number of examples", name);
        shape.dims[i] = -1;
    }
    tli_onnx_file_end(&x->file, output, name, few->dtype, &shape);
    return TL_OK;
}

static tl_status write_inputs(tli_onnx *x)
{
    int64_t count;
    const tl_named *few = tl_graph_inputs(x->few, &count), *more = tl_graph_inputs(x->more, &count);
    for (int64_t i = 0; i < count; i++) {
        TL_TRY(write_end(x, false, few[i].name, few[i].tensor, more[i].tensor));
        tli_onnx_set(x, few[i].tensor, few[i].name);
    }
    return x->status;
}

static tl_status write_outputs(tli_onnx *x)
{
    int64_t count, other;
    const tl_named *few = tl_graph_outputs(x->few, &count),
                   *more = tl_graph_outputs(x->more, &other);
    if (count != other)
        return TL_FAIL(TL_EUNSUPPORTED, "what is computed depends on the number of examples");
    x->call = NULL;
    for (int64_t i = 0; i < count; i++) {
        TL_TRY(write_end(x, true, few[i].name, few[i].tensor, more[i].tensor));
        (void)TLI_EMIT(x, .op = "Identity", .in = {tli_onnx_get(x, few[i].tensor)},
                       .out = few[i].name);
    }
    return x->status;
}

/* --- files ------------------------------------------------------------------------------------ */

static tl_status make(tli_onnx *x, const char *path)
{
    TL_TRY(tl_arena_new(&x->file.arena));
    if (x->args->weights) TL_TRY(tl_state_walk(x->args->weights, add_name, x));
    TL_TRY(capture(&x->few, x, TLI_ONNX_FEW));
    TL_TRY(capture(&x->more, x, TLI_ONNX_MORE));
    TL_TRY(write_inputs(x));
    TL_TRY(write_calls(x));
    TL_TRY(write_outputs(x));
    return tli_onnx_file_write(&x->file, path, x->args);
}

tl_status tl_onnx_write(const char *path, const tl_onnx_args *args)
{
    tli_onnx x = {.args = args};
    tl_status st = make(&x, path);
    tl_graph_free(&x.few);
    tl_graph_free(&x.more);
    tli_pointer_map_free(&x.by_tensor);
    TL_VEC_FREE(&x.values);
    TL_VEC_FREE(&x.weights);
    TL_VEC_FREE(&x.file.constants);
    tl_str_deinit(&x.file.nodes);
    tl_str_deinit(&x.file.ends);
    tl_arena_free(&x.file.arena);
    return st == TL_OK ? TL_OK : tl_error_note(st, "'%s' was not written", path);
}
