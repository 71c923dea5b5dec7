/* Calls that move elements, or make them, as nodes of ONNX. */
#include <stdint.h>

#include "io/onnx/impl.h"

/* --- shapes ----------------------------------------------------------------------------------- */

/* One size may be left to be found: the one that follows from the number of examples. */
static void reshape(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_shape *a = &n->out[0]->shape, *b = &more->out[0]->shape;
    int64_t dims[TL_MAX_RANK];
    int follow = 0;
    for (int i = 0; i < a->rank; i++) {
        dims[i] = a->dims[i] == b->dims[i] ? a->dims[i] : -1;
        follow += dims[i] < 0;
    }
    const char *shape =
        follow < 2 ? tli_onnx_ints(x, a->rank, dims) : tli_onnx_dims(x, a->rank, a->dims, b->dims);
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = "Reshape", .in = {tli_onnx_get(x, n->in[0]), shape}));
}

static void transpose(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_transpose_attr *a = n->attr;
    (void)more;
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = "Transpose", .in = {tli_onnx_get(x, n->in[0])},
                          .attrs = {TLI_INTS("perm", a->perm.count, a->perm.items)}));
}

/* A size of 1 in the shape leaves that axis as it is. */
static void broadcast_to(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_shape *a = &n->out[0]->shape, *b = &more->out[0]->shape, *in = &n->in[0]->shape;
    int64_t few[TL_MAX_RANK], many[TL_MAX_RANK];
    for (int i = 0; i < a->rank; i++) {
        int at = i - (a->rank - in->rank);
        bool stays = at >= 0 && in->dims[at] == a->dims[i];
        few[i] = stays ? 1 : a->dims[i];
        many[i] = stays ? 1 : b->dims[i];
    }
    const char *shape = tli_onnx_dims(x, a->rank, few, many);
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = "Expand", .in = {tli_onnx_get(x, n->in[0]), shape}));
}

static void copy(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    (void)more;
    tli_onnx_set(x, n->out[0], tli_onnx_get(x, n->in[0]));
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Axes that are taken whole, such as that of the examples, are not named. */
static void slice(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_slice_attr *a = n->attr, *b = more->attr;
    int64_t starts[TL_MAX_RANK], ends[TL_MAX_RANK], axes[TL_MAX_RANK], steps[TL_MAX_RANK];
    int64_t count = 0;
    for (int64_t i = 0; i < a->starts.count; i++) {
        int64_t start = a->starts.items[i], size = a->sizes.items[i], step = a->steps.items[i];
        int64_t end = start + size * step;
        if (start == 0 && step == 1 && size == n->in[0]->shape.dims[i]) continue;
        if (start != b->starts.items[i] || size != b->sizes.items[i] || step != b->steps.items[i]) {
            tli_onnx_refuse(x, "it cuts along the examples");
            return;
        }
        starts[count] = start;
        ends[count] = end < 0 ? INT64_MIN : end;
        axes[count] = i;
        steps[count++] = step;
    }
    const char *in = tli_onnx_get(x, n->in[0]);
    if (count)
        in = TLI_EMIT(x, .op = "Slice",
                      .in = {in, tli_onnx_ints(x, count, starts), tli_onnx_ints(x, count, ends),
                             tli_onnx_ints(x, count, axes), tli_onnx_ints(x, count, steps)});
    tli_onnx_set(x, n->out[0], in);
}

static void concat(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_axis_attr *a = n->attr;
    const char **names = tl_arena_array(x->file.arena, n->inputs, sizeof *names);
    bool first = true;
    (void)more;
    if (!names) tli_onnx_fail(x, TL_ENOMEM);
    if (!names) return;
    for (int i = 0; i < n->inputs; i++)
        first = first && n->in[i]->shape.rank == 4 && tli_onnx_is_first(x, n->in[i]);
    for (int i = 0; i < n->inputs; i++)
        names[i] = first ? tli_onnx_get_first(x, n->in[i]) : tli_onnx_get(x, n->in[i]);
    const char *out =
        TLI_EMIT(x, .op = "Concat", .many = names, .many_count = n->inputs,
                 .attrs = {TLI_INT("axis", first ? tli_onnx_axis_first[a->axis] : a->axis)});
    if (first) tli_onnx_set_first(x, n->out[0], out);
    else tli_onnx_set(x, n->out[0], out);
}

static void pad(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_pad_attr *a = n->attr;
    bool first = n->in[0]->shape.rank == 4 && tli_onnx_is_first(x, n->in[0]);
    int64_t rank = a->before.count, pads[2 * TL_MAX_RANK];
    (void)more;
    for (int64_t i = 0; i < rank; i++) {
        int64_t at = first ? tli_onnx_axis_first[i] : i;
        pads[at] = a->before.items[i];
        pads[rank + at] = a->after.items[i];
    }
    const char *in = first ? tli_onnx_get_first(x, n->in[0]) : tli_onnx_get(x, n->in[0]);
    const char *amount = tli_onnx_ints(x, 2 * rank, pads);
    const char *value = tli_onnx_number(x, n->in[0]->dtype, a->value);
    bool constant = a->mode == TL_PAD_CONSTANT;
    const char *out = constant ? TLI_EMIT(x, .op = "Pad", .in = {in, amount, value})
                               : TLI_EMIT(x, .op = "Pad", .in = {in, amount},
                                          .attrs = {TLI_TEXT("mode", "reflect")});
    if (first) tli_onnx_set_first(x, n->out[0], out);
    else tli_onnx_set(x, n->out[0], out);
}

static void gather(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_axis_attr *a = n->attr;
    (void)more;
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = "Gather",
                          .in = {tli_onnx_get(x, n->in[0]), tli_onnx_get(x, n->in[1])},
                          .attrs = {TLI_INT("axis", a->axis)}));
}

static void take_along_axis(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_axis_attr *a = n->attr;
    (void)more;
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = "GatherElements",
                          .in = {tli_onnx_get(x, n->in[0]), tli_onnx_get(x, n->in[1])},
                          .attrs = {TLI_INT("axis", a->axis)}));
}

/* --- made ------------------------------------------------------------------------------------- */

static void full(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_full_attr *a = n->attr, *b = more->attr;
    const char *number = tli_onnx_number(x, a->dtype, a->value);
    if (a->shape.count)
        number = TLI_EMIT(
            x, .op = "Expand",
            .in = {number, tli_onnx_dims(x, a->shape.count, a->shape.items, b->shape.items)});
    tli_onnx_set(x, n->out[0], number);
}

static void arange(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_arange_attr *a = n->attr;
    (void)more;
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = "Range",
                          .in = {tli_onnx_number(x, a->dtype, a->start),
                                 tli_onnx_number(x, a->dtype, a->stop),
                                 tli_onnx_number(x, a->dtype, a->step)}));
}

/* Compared with all places of the new axis: what lies outside of it is 0 everywhere. */
static void one_hot(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    static const int64_t last = -1;
    const tl_one_hot_attr *a = n->attr;
    tl_dtype dtype = n->in[0]->dtype;
    const char *in = TLI_EMIT(x, .op = "Unsqueeze",
                              .in = {tli_onnx_get(x, n->in[0]), tli_onnx_ints(x, 1, &last)});
    const char *places =
        TLI_EMIT(x, .op = "Range",
                 .in = {tli_onnx_number(x, dtype, 0), tli_onnx_number(x, dtype, (double)a->depth),
                        tli_onnx_number(x, dtype, 1)});
    (void)more;
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = "Cast", .in = {TLI_EMIT(x, .op = "Equal", .in = {in, places})},
                          .attrs = {TLI_INT("to", tli_onnx_type(a->dtype))}));
}

bool tli_onnx_has_sizes(tl_op op)
{
    return op == TL_OP_reshape || op == TL_OP_broadcast_to || op == TL_OP_slice || op == TL_OP_full;
}

tli_onnx_fn *tli_onnx_moves(tl_op op)
{
    switch (op) {
    case TL_OP_reshape: return reshape;
    case TL_OP_transpose: return transpose;
    case TL_OP_broadcast_to: return broadcast_to;
    case TL_OP_copy: return copy;
    case TL_OP_slice: return slice;
    case TL_OP_concat: return concat;
    case TL_OP_pad: return pad;
    case TL_OP_gather: return gather;
    case TL_OP_take_along_axis: return take_along_axis;
    case TL_OP_full: return full;
    case TL_OP_one_hot: return one_hot;
    case TL_OP_arange: return arange;
    default: return NULL;
    }
}
