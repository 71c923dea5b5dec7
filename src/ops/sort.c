#include <tilth/ops/sort.h>

#include <inttypes.h>
#include <tilth/ops/index.h>
#include <tilth/sys/ops/apply.h>

#include "ops/axes.h"
#include "ops/ops.h"

static void give(tl_tensor *const *from, tl_tensor **values, tl_tensor **indices)
{
    if (values) *values = from[0];
    if (indices) *indices = from[1];
}

/* --- sort ------------------------------------------------------------------------------------- */

static const tl_field sort_fields[] = {
    TL_F(tl_sort_attr, axis, .help = "along which elements are put in order"),
    TL_F(tl_sort_attr, descending, .help = "largest first"),
    TL_F_END,
};
static const tl_desc sort_desc = {
    .name = "sort",
    .help = "attributes of sort",
    .size = sizeof(tl_sort_attr),
    .fields = sort_fields,
};

static tl_status sort_infer(const tl_node *call)
{
    const tl_sort_attr *a = call->attr;
    int axis;
    TL_TRY(tl_axis_check(&axis, a->axis, call->in[0]->shape.rank, "axis"));
    call->out[1]->dtype = TL_I64;
    call->out[1]->shape = call->in[0]->shape;
    return tli_infer_same(call);
}

static void sort_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                          const bool *wanted)
{
    const tl_sort_attr *a = n->attr;
    (void)wanted;
    if (gy[0])
        gx[0] =
            tl_take_along_axis_grad(c, gy[0], n->out[1], a->axis, n->in[0]->shape.dims[a->axis]);
}

const tl_op_class tl_op_sort = {
    .op = TL_OP_sort,
    .name = "sort",
    .help = "elements in order along an axis",
    .attr = &sort_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 2,
    .infer = sort_infer,
    .gradient = sort_gradient,
};

void tl_sort(tl_ctx *c, tl_tensor *x, int64_t axis, bool descending, tl_tensor **values,
             tl_tensor **indices)
{
    int at;
    tl_tensor *out[2] = {NULL, NULL};
    if (tli_axis(c, &at, x, axis, "sort")) {
        tl_sort_attr attr = {.axis = at, .descending = descending};
        tl_apply_all(c, TL_OP_sort, &attr, 1, &x, out);
    }
    give(out, values, indices);
}

/* --- top_k ------------------------------------------------------------------------------------ */

static const tl_field top_k_fields[] = {
    TL_F(tl_top_k_attr, k, .help = "how many of the last axis"),
    TL_F_END,
};
static const tl_desc top_k_desc = {
    .name = "top_k",
    .help = "attributes of top_k",
    .size = sizeof(tl_top_k_attr),
    .fields = top_k_fields,
};

static tl_status top_k_infer(const tl_node *call)
{
    const tl_top_k_attr *a = call->attr;
    const tl_shape *x = &call->in[0]->shape;
    char spec[TL_TENSOR_TEXT];
    if (x->rank == 0) return TL_FAIL(TL_EINVAL, "the input is a scalar and must have an axis");
    if (a->k < 0 || a->k > x->dims[x->rank - 1])
        return TL_FAIL(TL_EINVAL, "the %" PRId64 " largest of the last axis of %s", a->k,
                       tl_tensor_spec(spec, call->in[0]));
    TL_TRY(tli_infer_same(call));
    call->out[0]->shape.dims[x->rank - 1] = a->k;
    call->out[1]->dtype = TL_I64;
    call->out[1]->shape = call->out[0]->shape;
    return TL_OK;
}

static void top_k_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                           const bool *wanted)
{
    const tl_shape *x = &n->in[0]->shape;
    (void)wanted;
    if (gy[0]) gx[0] = tl_take_along_axis_grad(c, gy[0], n->out[1], -1, x->dims[x->rank - 1]);
}

const tl_op_class tl_op_top_k = {
    .op = TL_OP_top_k,
    .name = "top_k",
    .help = "the largest of the last axis",
    .attr = &top_k_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 2,
    .infer = top_k_infer,
    .gradient = top_k_gradient,
};

void tl_top_k(tl_ctx *c, tl_tensor *x, int64_t k, tl_tensor **values, tl_tensor **indices)
{
    tl_tensor *out[2] = {NULL, NULL};
    if (tli_there(c, x, "top_k")) {
        tl_top_k_attr attr = {.k = k};
        tl_apply_all(c, TL_OP_top_k, &attr, 1, &x, out);
    }
    give(out, values, indices);
}
