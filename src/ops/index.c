#include <tilth/ops/index.h>

#include <inttypes.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/sys/ops/apply.h>

#include "core/inner/element.h"
#include "ops/axes.h"
#include "ops/ops.h"

static const tl_field scatter_fields[] = {
    TL_F(tl_scatter_attr, axis, .help = "along which it happens"),
    TL_F(tl_scatter_attr, size, .help = "of that axis of the result"),
    TL_F_END,
};
static const tl_desc scatter_desc = {
    .name = "scatter",
    .help = "attributes of scattering",
    .size = sizeof(tl_scatter_attr),
    .fields = scatter_fields,
};

static tl_status check_size(int64_t size)
{
    return size >= 0 ? TL_OK : TL_FAIL(TL_EINVAL, "a size of %" PRId64 " for the axis", size);
}

/* --- gather ----------------------------------------------------------------------------------- */

// The shape with the axis replaced by the shape of the indices.
static tl_status gathered_shape(tl_shape *out, const tl_shape *x, const tl_shape *indices, int axis)
{
    *out = (tl_shape){.rank = x->rank - 1 + indices->rank};
    if (out->rank > TL_MAX_RANK)
        return TL_FAIL(TL_EINVAL,
                       "%d dimensions and indices with %d give %d; at most %d are possible",
                       x->rank, indices->rank, out->rank, TL_MAX_RANK);
    int n = 0;
    for (int i = 0; i < axis; i++) out->dims[n++] = x->dims[i];
    for (int i = 0; i < indices->rank; i++) out->dims[n++] = indices->dims[i];
    for (int i = axis + 1; i < x->rank; i++) out->dims[n++] = x->dims[i];
    return TL_OK;
}

static tl_status gather_infer(const tl_node *call)
{
    const tl_axis_attr *a = call->attr;
    const tl_tensor *x = call->in[0], *indices = call->in[1];
    int axis;
    TL_TRY(tli_want_integer(indices, "the tensor of indices"));
    TL_TRY(tl_axis_check(&axis, a->axis, x->shape.rank, "axis"));
    call->out[0]->dtype = x->dtype;
    return gathered_shape(&call->out[0]->shape, &x->shape, &indices->shape, axis);
}

static void gather_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                            const bool *wanted)
{
    const tl_axis_attr *a = n->attr;
    if (wanted[0])
        gx[0] = tl_gather_grad(c, gy[0], n->in[1], a->axis, n->in[0]->shape.dims[a->axis]);
}

const tl_op_class tl_op_gather = {
    .op = TL_OP_gather,
    .name = "gather",
    .help = "places of an axis, by number",
    .attr = &tli_axis_desc,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .infer = gather_infer,
    .gradient = gather_gradient,
};

tl_tensor *tl_gather(tl_ctx *c, tl_tensor *x, tl_tensor *indices, int64_t axis)
{
    int at;
    if (!tli_axis(c, &at, x, axis, "gather")) return NULL;
    tl_axis_attr attr = {.axis = at};
    return TL_APPLY(c, gather, &attr, x, indices);
}

tl_tensor *tl_lookup(tl_ctx *c, tl_tensor *table, tl_tensor *ids)
{
    if (!tli_there(c, table, "lookup")) return NULL;
    if (tli_want_rank(table, 2, "the table") != TL_OK) return tli_fail(c, "lookup");
    return tl_gather(c, table, ids, 0);
}

/* --- its gradient ----------------------------------------------------------------------------- */

static tl_status gather_grad_infer(const tl_node *call)
{
    const tl_scatter_attr *a = call->attr;
    const tl_tensor *updates = call->in[0], *indices = call->in[1];
    tl_tensor *y = call->out[0];
    int rank = updates->shape.rank - indices->shape.rank + 1, axis;
    TL_TRY(tli_want_number(updates, "the tensor of updates"));
    TL_TRY(tli_want_integer(indices, "the tensor of indices"));
    TL_TRY(check_size(a->size));
    if (rank < 1) {
        char given[TL_TENSOR_TEXT], places[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "updates %s have fewer dimensions than the indices, %s",
                       tl_tensor_spec(given, updates), tl_tensor_spec(places, indices));
    }
    TL_TRY(tl_axis_check(&axis, a->axis, rank, "axis"));
    y->dtype = updates->dtype;
    y->shape.rank = rank;
    for (int i = 0; i < rank; i++)
        y->shape.dims[i] = i == axis  ? a->size
                           : i < axis ? updates->shape.dims[i]
                                      : updates->shape.dims[i + indices->shape.rank - 1];
    tl_shape wanted;
    TL_TRY(gathered_shape(&wanted, &y->shape, &indices->shape, axis));
    if (tl_shape_equal(&wanted, &updates->shape)) return TL_OK;
    char given[TL_TENSOR_TEXT], places[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL,
                   "updates are %s; the dimensions of the indices, %s, must stand at axis %d",
                   tl_tensor_spec(given, updates), tl_tensor_spec(places, indices), axis);
}

static void gather_grad_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                                 const bool *wanted)
{
    const tl_scatter_attr *a = n->attr;
    if (wanted[0]) gx[0] = tl_gather(c, gy[0], n->in[1], a->axis);
}

const tl_op_class tl_op_gather_grad = {
    .op = TL_OP_gather_grad,
    .name = "gather_grad",
    .help = "added into zeros at places of an axis",
    .attr = &scatter_desc,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .infer = gather_grad_infer,
    .gradient = gather_grad_gradient,
};

tl_tensor *tl_gather_grad(tl_ctx *c, tl_tensor *updates, tl_tensor *indices, int64_t axis,
                          int64_t size)
{
    if (!tli_there(c, updates, "gather_grad") || !tli_there(c, indices, "gather_grad")) return NULL;
    int rank = updates->shape.rank - indices->shape.rank + 1;
    tl_scatter_attr attr = {.axis = axis < 0 ? axis + rank : axis, .size = size};
    return TL_APPLY(c, gather_grad, &attr, updates, indices);
}

tl_tensor *tl_scatter_add(tl_ctx *c, tl_tensor *x, tl_tensor *indices, tl_tensor *updates,
                          int64_t axis)
{
    int at;
    tl_shape wanted;
    if (!tli_axis(c, &at, x, axis, "scatter_add") || !tli_there(c, indices, "scatter_add")
        || !tli_there(c, updates, "scatter_add"))
        return NULL;
    if (gathered_shape(&wanted, &x->shape, &indices->shape, at) != TL_OK)
        return tli_fail(c, "scatter_add");
    if (!tl_shape_equal(&wanted, &updates->shape)) {
        char given[TL_TENSOR_TEXT], shape[TL_SHAPE_TEXT];
        (void)TL_FAIL(TL_EINVAL, "updates are %s and must be %s", tl_tensor_spec(given, updates),
                      tl_shape_text(shape, &wanted));
        return tli_fail(c, "scatter_add");
    }
    if (!tli_meet(c, &x, &updates)) return NULL;
    tl_dtype dtype = x->dtype;
    tl_tensor *sums = tl_gather_grad(c, tli_widen(c, updates), indices, at, x->shape.dims[at]);
    return tl_cast(c, tl_add(c, tli_widen(c, x), sums), dtype);
}

/* --- take_along_axis -------------------------------------------------------------------------- */

static tl_status check_along(const tl_tensor *x, const tl_tensor *indices, int axis)
{
    bool alike = x->shape.rank == indices->shape.rank;
    for (int i = 0; alike && i < x->shape.rank; i++)
        alike = i == axis || x->shape.dims[i] == indices->shape.dims[i];
    if (alike) return TL_OK;
    char given[TL_TENSOR_TEXT], places[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "indices %s and %s may differ along axis %d alone",
                   tl_tensor_spec(places, indices), tl_tensor_spec(given, x), axis);
}

static tl_status take_along_axis_infer(const tl_node *call)
{
    const tl_axis_attr *a = call->attr;
    const tl_tensor *x = call->in[0], *indices = call->in[1];
    int axis;
    TL_TRY(tli_want_integer(indices, "the tensor of indices"));
    TL_TRY(tl_axis_check(&axis, a->axis, x->shape.rank, "axis"));
    TL_TRY(check_along(x, indices, axis));
    call->out[0]->dtype = x->dtype;
    call->out[0]->shape = indices->shape;
    return TL_OK;
}

static void take_along_axis_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                     tl_tensor **gx, const bool *wanted)
{
    const tl_axis_attr *a = n->attr;
    if (wanted[0])
        gx[0] = tl_take_along_axis_grad(c, gy[0], n->in[1], a->axis, n->in[0]->shape.dims[a->axis]);
}

const tl_op_class tl_op_take_along_axis = {
    .op = TL_OP_take_along_axis,
    .name = "take_along_axis",
    .help = "one place of an axis for each element",
    .attr = &tli_axis_desc,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .infer = take_along_axis_infer,
    .gradient = take_along_axis_gradient,
};

tl_tensor *tl_take_along_axis(tl_ctx *c, tl_tensor *x, tl_tensor *indices, int64_t axis)
{
    int at;
    if (!tli_axis(c, &at, x, axis, "take_along_axis")) return NULL;
    tl_axis_attr attr = {.axis = at};
    return TL_APPLY(c, take_along_axis, &attr, x, indices);
}

static tl_status take_along_axis_grad_infer(const tl_node *call)
{
    const tl_scatter_attr *a = call->attr;
    const tl_tensor *updates = call->in[0], *indices = call->in[1];
    tl_tensor *y = call->out[0];
    int axis;
    TL_TRY(tli_want_number(updates, "the tensor of updates"));
    TL_TRY(tli_want_integer(indices, "the tensor of indices"));
    TL_TRY(check_size(a->size));
    TL_TRY(tl_axis_check(&axis, a->axis, updates->shape.rank, "axis"));
    if (!tl_shape_equal(&updates->shape, &indices->shape)) {
        char given[TL_TENSOR_TEXT], places[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "updates %s and indices %s must have the same shape",
                       tl_tensor_spec(given, updates), tl_tensor_spec(places, indices));
    }
    TL_TRY(tli_infer_same(call));
    y->shape.dims[axis] = a->size;
    return TL_OK;
}

static void take_along_axis_grad_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                          tl_tensor **gx, const bool *wanted)
{
    const tl_scatter_attr *a = n->attr;
    if (wanted[0]) gx[0] = tl_take_along_axis(c, gy[0], n->in[1], a->axis);
}

const tl_op_class tl_op_take_along_axis_grad = {
    .op = TL_OP_take_along_axis_grad,
    .name = "take_along_axis_grad",
    .help = "each element added into zeros at its place of an axis",
    .attr = &scatter_desc,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .infer = take_along_axis_grad_infer,
    .gradient = take_along_axis_grad_gradient,
};

tl_tensor *tl_take_along_axis_grad(tl_ctx *c, tl_tensor *updates, tl_tensor *indices, int64_t axis,
                                   int64_t size)
{
    int at;
    if (!tli_axis(c, &at, updates, axis, "take_along_axis_grad")) return NULL;
    tl_scatter_attr attr = {.axis = at, .size = size};
    return TL_APPLY(c, take_along_axis_grad, &attr, updates, indices);
}

/* --- where it is true ------------------------------------------------------------------------- */

// Coordinates of the elements that are not 0, into the rows of `out` (NULL: only counted).
static int64_t find_true(const tl_tensor *t, const void *elements, int64_t *out)
{
    int64_t found = 0;
    int rank = t->shape.rank;
    for (int64_t i = 0, count = tl_tensor_count(t); i < count; i++) {
        if (tli_element_get(t->dtype, elements, i) == 0) continue;
        int64_t rest = i;
        for (int d = rank - 1; d >= 0 && out; d--) {
            out[found * rank + d] = rest % t->shape.dims[d];
            rest /= t->shape.dims[d];
        }
        found++;
    }
    return found;
}

tl_tensor *tl_where_indices(tl_ctx *c, tl_tensor *condition)
{
    if (!tli_there(c, condition, "where_indices")) return NULL;
    if (tl_ctx_capturing(c)) {
        (void)TL_FAIL(TL_ESTATE,
                      "how many elements are true is not known while capturing; use tl_where, "
                      "which keeps the shape, or read the condition outside");
        return tli_fail(c, "where_indices");
    }
    tl_lease read, write;
    if (tl_lease_read(&read, condition) != TL_OK) return tli_fail(c, "where_indices");
    int64_t found = find_true(condition, read.data, NULL);
    tl_tensor *out = tl_zeros(c, TL_I64, TL_SHAPE(found, condition->shape.rank));
    tl_status st = out ? tl_lease_discard(&write, out) : TL_OK;
    if (out && st == TL_OK) {
        find_true(condition, read.data, write.data);
        st = tl_lease_end(&write);
    }
    tl_lease_drop(&read);
    return st == TL_OK ? out : tli_fail(c, "where_indices");
}
