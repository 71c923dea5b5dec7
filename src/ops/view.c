#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include <inttypes.h>
#include <string.h>

#include "ops/axes.h"
#include "ops/ops.h"

static const tl_field shape_fields[] = {
    TL_F(tl_shape_attr, shape, .help = "of the result"),
    TL_F_END,
};
static const tl_desc shape_desc = {
    .name = "shape",
    .help = "a shape",
    .size = sizeof(tl_shape_attr),
    .fields = shape_fields,
};

/* --- copy ------------------------------------------------------------------------------------- */

static void copy_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                          const bool *wanted)
{
    (void)c, (void)n, (void)wanted;
    gx[0] = gy[0];
}

const tl_op_class tl_op_copy = {
    .op = TL_OP_copy,
    .name = "copy",
    .help = "the same elements, row-major",
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = tli_infer_same,
    .gradient = copy_gradient,
};

tl_tensor *tl_contiguous(tl_ctx *c, tl_tensor *x)
{
    return x && x->contiguous ? x : TL_APPLY(c, copy, NULL, x);
}

/* --- reshape ---------------------------------------------------------------------------------- */

// Dimensions of 1 have no say in where elements lie.
static void without_ones(int64_t *dims, int64_t *strides, const tl_tensor *x)
{
    for (int i = 0, count = 0; i < x->shape.rank; i++) {
        if (x->shape.dims[i] == 1) continue;
        dims[count] = x->shape.dims[i];
        strides[count++] = x->strides[i];
    }
}

// Strides that show the elements of `x` in the shape `to`, which has as many; false when there are
// none. Both shapes fall into runs of axes with equal products; a run must lie evenly spaced.
static bool strides_for(int64_t *out, const tl_tensor *x, const tl_shape *to)
{
    int64_t dims[TL_MAX_RANK], strides[TL_MAX_RANK];
    int from = 0;
    tl_shape_strides(out, to);
    if (x->contiguous || tl_tensor_count(x) == 0) return true;
    without_ones(dims, strides, x);
    for (int first = 0, last; first < to->rank; first = last) {
        int64_t here = to->dims[first], there = 1;
        int end = from;
        last = first + 1;
        while (here != there || (last < to->rank && to->dims[last] == 1)) {
            if (there < here) there *= dims[end++];
            else here *= to->dims[last++];
        }
        for (int i = from; i + 1 < end; i++)
            if (strides[i] != dims[i + 1] * strides[i + 1]) return false;
        int64_t step = end > from ? strides[end - 1] : 0;
        for (int i = last - 1; i >= first; i--) {
            out[i] = step;
            step *= to->dims[i];
        }
        from = end;
    }
    return true;
}

static tl_status reshape_infer(const tl_node *call)
{
    const tl_shape_attr *a = call->attr;
    tl_tensor *x = call->in[0], *y = call->out[0];
    TL_TRY(tli_shape_from(&y->shape, a->shape));
    TL_TRY(tl_shape_check(&y->shape, "result"));
    if (tl_shape_count(&y->shape) != tl_tensor_count(x)) {
        char from[TL_TENSOR_TEXT], to[TL_SHAPE_TEXT];
        return TL_FAIL(TL_EINVAL, "%s has %" PRId64 " elements and cannot become %s",
                       tl_tensor_spec(from, x), tl_tensor_count(x), tl_shape_text(to, &y->shape));
    }
    y->dtype = x->dtype;
    y->offset = x->offset;
    if (!strides_for(y->strides, x, &y->shape))
        return TL_FAIL(TL_EINVAL, "the elements lie in another order; tl_reshape copies them");
    return TL_OK;
}

static void reshape_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                             const bool *wanted)
{
    (void)wanted;
    gx[0] = tl_reshape(c, gy[0], n->in[0]->shape);
}

const tl_op_class tl_op_reshape = {
    .op = TL_OP_reshape,
    .name = "reshape",
    .help = "the same elements in another shape",
    .attr = &shape_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .flags = TL_OP_VIEW,
    .infer = reshape_infer,
    .gradient = reshape_gradient,
};

// Replaces the -1, if there is one, by what the other dimensions leave.
static void fill_rest(tl_shape *shape, int64_t count)
{
    int rest = -1;
    int64_t others = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == -1 && rest < 0) rest = i;
        else if (shape->dims[i] < 0 || __builtin_mul_overflow(others, shape->dims[i], &others))
            return; // the shape rule says what is wrong
    }
    if (rest >= 0 && others > 0 && count % others == 0) shape->dims[rest] = count / others;
}

tl_tensor *tl_reshape(tl_ctx *c, tl_tensor *x, tl_shape shape)
{
    int64_t strides[TL_MAX_RANK];
    if (!tli_there(c, x, "reshape")) return NULL;
    fill_rest(&shape, tl_tensor_count(x));
    if (tl_shape_equal(&shape, &x->shape)) return x;
    bool fits =
        tl_shape_check(&shape, "result") == TL_OK && tl_shape_count(&shape) == tl_tensor_count(x);
    if (fits && !strides_for(strides, x, &shape)) x = tl_contiguous(c, x);
    tl_shape_attr attr = {.shape = tli_dims(&shape)};
    return TL_APPLY(c, reshape, &attr, x);
}

tl_tensor *tl_expand_dims(tl_ctx *c, tl_tensor *x, int64_t axis)
{
    int at;
    if (!tli_there(c, x, "expand_dims")) return NULL;
    tl_shape shape = x->shape;
    if (shape.rank == TL_MAX_RANK) {
        (void)TL_FAIL(TL_EINVAL, "the input has %d dimensions already", TL_MAX_RANK);
        return tli_fail(c, "expand_dims");
    }
    if (tl_axis_check(&at, axis, shape.rank + 1, "result") != TL_OK)
        return tli_fail(c, "expand_dims");
    memmove(shape.dims + at + 1, shape.dims + at, (size_t)(shape.rank++ - at) * sizeof *shape.dims);
    shape.dims[at] = 1;
    return tl_reshape(c, x, shape);
}

tl_tensor *tl_squeeze(tl_ctx *c, tl_tensor *x, tl_axes axes)
{
    int64_t named[TL_MAX_RANK], count = 0;
    if (!tli_there(c, x, "squeeze")) return NULL;
    if (tli_axes_straighten(named, &count, &x->shape, axes) != TL_OK) return tli_fail(c, "squeeze");
    tl_shape shape = {0};
    for (int i = 0, next = 0; i < x->shape.rank; i++) {
        bool goes = next < count && named[next] == i;
        next += goes;
        if (goes && axes.items && x->shape.dims[i] != 1) {
            char spec[TL_TENSOR_TEXT];
            (void)TL_FAIL(TL_EINVAL, "axis %d of %s is not of 1", i, tl_tensor_spec(spec, x));
            return tli_fail(c, "squeeze");
        }
        if (!goes || x->shape.dims[i] != 1) shape.dims[shape.rank++] = x->shape.dims[i];
    }
    return tl_reshape(c, x, shape);
}

/* --- transpose -------------------------------------------------------------------------------- */

static const tl_field transpose_fields[] = {
    TL_F(tl_transpose_attr, perm, .help = "axis of the input for each axis of the result"),
    TL_F_END,
};
static const tl_desc transpose_desc = {
    .name = "transpose",
    .help = "attributes of transpose",
    .size = sizeof(tl_transpose_attr),
    .fields = transpose_fields,
};

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
    .op = TL_OP_transpose,
    .name = "transpose",
    .help = "the axes in another order",
    .attr = &transpose_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .flags = TL_OP_VIEW,
    .infer = transpose_infer,
    .gradient = transpose_gradient,
};

tl_tensor *tl_transpose(tl_ctx *c, tl_tensor *x, const int64_t *perm, int count)
{
    tl_transpose_attr attr = {.perm = {perm, count}};
    return TL_APPLY(c, transpose, &attr, x);
}

tl_tensor *tl_swap_axes(tl_ctx *c, tl_tensor *x, int64_t a, int64_t b)
{
    int64_t perm[TL_MAX_RANK];
    int left, right;
    if (!tli_axis(c, &left, x, a, "swap_axes") || !tli_axis(c, &right, x, b, "swap_axes"))
        return NULL;
    if (left == right) return x;
    for (int i = 0; i < x->shape.rank; i++) perm[i] = i == left ? right : i == right ? left : i;
    return tl_transpose(c, x, perm, x->shape.rank);
}

/* --- broadcast -------------------------------------------------------------------------------- */

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
    .op = TL_OP_broadcast_to,
    .name = "broadcast_to",
    .help = "dimensions of 1 stretched",
    .attr = &shape_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .flags = TL_OP_VIEW,
    .infer = broadcast_infer,
    .gradient = broadcast_gradient,
};

tl_tensor *tl_broadcast_to(tl_ctx *c, tl_tensor *x, tl_shape shape)
{
    if (x && tl_shape_equal(&x->shape, &shape)) return x;
    tl_shape_attr attr = {.shape = tli_dims(&shape)};
    return TL_APPLY(c, broadcast_to, &attr, x);
}
