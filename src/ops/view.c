#include <tilth/ops/view.h>

#include <inttypes.h>
#include <string.h>
#include <tilth/ops/reduce.h>

#include "ops/ops.h"

static const tl_field shape_fields[] = {
    TL_F(tl_shape_attr, shape, .help = "of the result"),
    TL_F_END,
};
static const tl_desc shape_desc = {
    .name = "shape", .help = "a shape", .size = sizeof(tl_shape_attr), .fields = shape_fields};

/* --- copy --------------------------------------------------------------------------------------- */

static void copy_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                          const bool *wanted)
{
    (void)c, (void)n, (void)wanted;
    gx[0] = gy[0];
}

const tl_op_class tl_op_copy = {
    .op = TL_OP_copy, .name = "copy", .help = "the same elements, row-major", .inputs_min = 1,
    .inputs_max = 1, .outputs = 1, .infer = tli_infer_same, .gradient = copy_gradient,
};

tl_tensor *tl_contiguous(tl_ctx *c, tl_tensor *x)
{
    return x && x->contiguous ? x : TL_APPLY(c, copy, NULL, x);
}

/* --- reshape ------------------------------------------------------------------------------------ */

static tl_status reshape_infer(const tl_node *call)
{
    const tl_shape_attr *a = call->attr;
    tl_tensor *x = call->in[0], *y = call->out[0];
    TL_TRY(tli_shape_from(&y->shape, a->shape));
    if (!x->contiguous) return TL_FAIL(TL_EINVAL, "the input must be row-major; tl_reshape copies it");
    if (tl_shape_count(&y->shape) != tl_tensor_count(x)) {
        char from[TL_TENSOR_TEXT], to[TL_SHAPE_TEXT];
        return TL_FAIL(TL_EINVAL, "%s has %" PRId64 " elements and cannot become %s", tl_tensor_spec(from, x),
                       tl_tensor_count(x), tl_shape_text(to, &y->shape));
    }
    y->dtype = x->dtype;
    y->offset = x->offset;
    tl_shape_strides(y->strides, &y->shape);
    return TL_OK;
}

static void reshape_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                             const bool *wanted)
{
    (void)wanted;
    gx[0] = tl_reshape(c, gy[0], n->in[0]->shape);
}

const tl_op_class tl_op_reshape = {
    .op = TL_OP_reshape, .name = "reshape", .help = "the same elements in another shape",
    .attr = &shape_desc, .inputs_min = 1, .inputs_max = 1, .outputs = 1, .flags = TL_OP_VIEW,
    .infer = reshape_infer, .gradient = reshape_gradient,
};

// Replaces the -1, if there is one, by what the other dimensions leave.
static void fill_rest(tl_shape *shape, int64_t count)
{
    int rest = -1;
    int64_t others = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == -1 && rest < 0)
            rest = i;
        else
            others *= shape->dims[i];
    }
    if (rest >= 0 && others > 0 && count % others == 0) shape->dims[rest] = count / others;
}

tl_tensor *tl_reshape(tl_ctx *c, tl_tensor *x, tl_shape shape)
{
    x = tl_contiguous(c, x);
    if (!x) return NULL;
    fill_rest(&shape, tl_tensor_count(x));
    if (tl_shape_equal(&shape, &x->shape)) return x;
    tl_shape_attr attr = {.shape = tli_dims(&shape)};
    return TL_APPLY(c, reshape, &attr, x);
}

/* --- transpose ---------------------------------------------------------------------------------- */

static const tl_field transpose_fields[] = {
    TL_F(tl_transpose_attr, perm, .help = "axis of the input for each axis of the result"),
    TL_F_END,
};
static const tl_desc transpose_desc = {.name = "transpose", .help = "attributes of transpose",
                                       .size = sizeof(tl_transpose_attr), .fields = transpose_fields};

static tl_status transpose_infer(const tl_node *call)
{
    const tl_transpose_attr *a = call->attr;
    const tl_tensor *x = call->in[0];
    tl_tensor *y = call->out[0];
    bool seen[TL_MAX_RANK] = {false};
    if (a->perm.count != x->shape.rank)
        return TL_FAIL(TL_EINVAL, "%" PRId64 " axes for an input with %d dimensions", a->perm.count,
                       x->shape.rank);
    y->dtype = x->dtype;
    y->offset = x->offset;
    y->shape.rank = x->shape.rank;
    for (int i = 0; i < x->shape.rank; i++) {
        int axis;
        TL_TRY(tl_axis_check(&axis, a->perm.items[i], x->shape.rank, "perm"));
        if (seen[axis]) return TL_FAIL(TL_EINVAL, "perm names axis %d twice", axis);
        seen[axis] = true;
        y->shape.dims[i] = x->shape.dims[axis];
        y->strides[i] = x->strides[axis];
    }
    return TL_OK;
}

static void transpose_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                               const bool *wanted)
{
    const tl_transpose_attr *a = n->attr;
    int64_t back[TL_MAX_RANK];
    int rank = n->in[0]->shape.rank;
    (void)wanted;
    for (int i = 0; i < rank; i++)
        back[a->perm.items[i] < 0 ? a->perm.items[i] + rank : a->perm.items[i]] = i;
    gx[0] = tl_transpose(c, gy[0], back, rank);
}

const tl_op_class tl_op_transpose = {
    .op = TL_OP_transpose, .name = "transpose", .help = "the axes in another order",
    .attr = &transpose_desc, .inputs_min = 1, .inputs_max = 1, .outputs = 1, .flags = TL_OP_VIEW,
    .infer = transpose_infer, .gradient = transpose_gradient,
};

tl_tensor *tl_transpose(tl_ctx *c, tl_tensor *x, const int64_t *perm, int count)
{
    tl_transpose_attr attr = {.perm = {perm, count}};
    return TL_APPLY(c, transpose, &attr, x);
}

/* --- broadcast ---------------------------------------------------------------------------------- */

static tl_status broadcast_infer(const tl_node *call)
{
    const tl_shape_attr *a = call->attr;
    const tl_tensor *x = call->in[0];
    tl_tensor *y = call->out[0];
    tl_shape both;
    TL_TRY(tli_shape_from(&y->shape, a->shape));
    TL_TRY(tl_shape_broadcast(&both, &x->shape, &y->shape));
    if (!tl_shape_equal(&both, &y->shape)) {
        char from[TL_TENSOR_TEXT], to[TL_SHAPE_TEXT];
        return TL_FAIL(TL_EINVAL, "%s cannot be stretched to %s", tl_tensor_spec(from, x),
                       tl_shape_text(to, &y->shape));
    }
    y->dtype = x->dtype;
    y->offset = x->offset;
    for (int i = 1; i <= x->shape.rank; i++) {
        int from = x->shape.rank - i, to = y->shape.rank - i;
        y->strides[to] = x->shape.dims[from] == 1 ? 0 : x->strides[from];
    }
    return TL_OK;
}

static void broadcast_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                               const bool *wanted)
{
    (void)wanted;
    gx[0] = tl_sum_to(c, gy[0], &n->in[0]->shape);
}

const tl_op_class tl_op_broadcast_to = {
    .op = TL_OP_broadcast_to, .name = "broadcast_to", .help = "dimensions of 1 stretched",
    .attr = &shape_desc, .inputs_min = 1, .inputs_max = 1, .outputs = 1, .flags = TL_OP_VIEW,
    .infer = broadcast_infer, .gradient = broadcast_gradient,
};

tl_tensor *tl_broadcast_to(tl_ctx *c, tl_tensor *x, tl_shape shape)
{
    if (x && tl_shape_equal(&x->shape, &shape)) return x;
    tl_shape_attr attr = {.shape = tli_dims(&shape)};
    return TL_APPLY(c, broadcast_to, &attr, x);
}
