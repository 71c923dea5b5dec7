#include <tilth/ops/reduce.h>

#include <tilth/ops/view.h>

#include "ops/ops.h"

static const tl_field reduce_fields[] = {
    TL_F(tl_reduce_attr, axes, .help = "that are brought together"),
    TL_F(tl_reduce_attr, keep_dims, .help = "leaves a 1 where an axis was"),
    TL_F_END,
};
static const tl_desc reduce_desc = {.name = "reduce", .help = "attributes of reductions",
                                    .size = sizeof(tl_reduce_attr), .fields = reduce_fields};

// Shape of the result; `kept` is the shape with a 1 for each axis that went.
static void reduced_shape(const tl_node *call, tl_shape *out, tl_shape *kept)
{
    const tl_reduce_attr *a = call->attr;
    const tl_shape *x = &call->in[0]->shape;
    bool goes[TL_MAX_RANK] = {false};
    for (int64_t i = 0; i < a->axes.count; i++) goes[a->axes.items[i]] = true;
    *kept = *x;
    *out = (tl_shape){0};
    for (int i = 0; i < x->rank; i++) {
        if (goes[i]) kept->dims[i] = 1;
        if (!goes[i] || a->keep_dims) out->dims[out->rank++] = kept->dims[i];
    }
}

static tl_status sum_infer(const tl_node *call)
{
    tl_shape kept;
    TL_TRY(tli_want_number(call->in[0], "the input"));
    reduced_shape(call, &call->out[0]->shape, &kept);
    call->out[0]->dtype = call->in[0]->dtype;
    return TL_OK;
}

static void sum_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                         const bool *wanted)
{
    tl_shape out, kept;
    (void)wanted;
    reduced_shape(n, &out, &kept);
    gx[0] = tl_broadcast_to(c, tl_reshape(c, gy[0], kept), n->in[0]->shape);
}

const tl_op_class tl_op_sum = {
    .op = TL_OP_sum, .name = "sum", .help = "sum over axes", .attr = &reduce_desc, .inputs_min = 1,
    .inputs_max = 1, .outputs = 1, .infer = sum_infer, .gradient = sum_gradient,
};

// Axes from 0, increasing, none twice: the form that attributes have.
static tl_status straighten_axes(int64_t *out, int64_t *count, const tl_tensor *x, tl_axes axes)
{
    bool goes[TL_MAX_RANK] = {false};
    int rank = x->shape.rank;
    for (int i = 0; i < rank && !axes.items; i++) goes[i] = true;
    for (int64_t i = 0; i < axes.count; i++) {
        int axis;
        TL_TRY(tl_axis_check(&axis, axes.items[i], rank, "axes"));
        if (goes[axis]) return TL_FAIL(TL_EINVAL, "axes: axis %d is named twice", axis);
        goes[axis] = true;
    }
    *count = 0;
    for (int i = 0; i < rank; i++)
        if (goes[i]) out[(*count)++] = i;
    return TL_OK;
}

static tl_tensor *reduce(tl_ctx *c, tl_op op, tl_tensor *x, tl_axes axes, bool keep_dims)
{
    int64_t straight[TL_MAX_RANK], count = 0;
    if (!x || tl_ctx_failed(c)) return tl_apply(c, op, NULL, 1, &x);
    if (straighten_axes(straight, &count, x, axes) != TL_OK) {
        (void)tl_error_note(tl_error_code(), "%s", tl_op_class_of(op)->name);
        return tl_ctx_fail(c);
    }
    tl_reduce_attr attr = {.axes = {straight, count}, .keep_dims = keep_dims};
    return tl_apply(c, op, &attr, 1, &x);
}

tl_tensor *tl_sum(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims)
{
    return reduce(c, TL_OP_sum, x, axes, keep_dims);
}
