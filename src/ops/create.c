#include <tilth/ops/create.h>

#include "core/ctx.h"
#include "core/element.h"
#include "core/tensor.h"
#include "ops/ops.h"

static const tl_field full_fields[] = {
    TL_F(tl_full_attr, value, .help = "of every element"),
    TL_F(tl_full_attr, shape, .help = "of the result"),
    TL_F(tl_full_attr, dtype, .names = tl_dtype_names, .help = "of the result"),
    TL_F_END,
};
static const tl_desc full_desc = {
    .name = "full", .help = "attributes of full", .size = sizeof(tl_full_attr), .fields = full_fields};

static tl_status full_infer(const tl_node *call)
{
    const tl_full_attr *a = call->attr;
    call->out[0]->dtype = a->dtype;
    return tli_shape_from(&call->out[0]->shape, a->shape);
}

const tl_op_class tl_op_full = {
    .op = TL_OP_full, .name = "full", .help = "every element is the same number",
    .attr = &full_desc, .outputs = 1, .by = -1, .flags = TL_OP_CONSTANT, .infer = full_infer,
};

tl_tensor *tl_full(tl_ctx *c, tl_dtype dtype, tl_shape shape, double value)
{
    tl_full_attr attr = {.value = value, .shape = tli_dims(&shape), .dtype = dtype};
    return tl_apply(c, TL_OP_full, &attr, 0, NULL);
}

tl_tensor *tl_zeros(tl_ctx *c, tl_dtype dtype, tl_shape shape)
{
    return tl_full(c, dtype, shape, 0.0);
}

tl_tensor *tl_ones(tl_ctx *c, tl_dtype dtype, tl_shape shape)
{
    return tl_full(c, dtype, shape, 1.0);
}

/* --- from the host ------------------------------------------------------------------------------ */

static tl_tensor *host_tensor(tl_ctx *c, tl_dtype dtype, tl_shape shape)
{
    if (tl_ctx_failed(c)) return NULL;
    if (tl_shape_check(&shape, "tensor") != TL_OK) return tl_ctx_fail(c);
    tl_tensor *t = tl_ctx_header(c);
    if (!t) return NULL;
    t->dtype = dtype;
    t->shape = shape;
    tli_tensor_row_major(t);
    return tl_ctx_storage(c, t) ? t : NULL;
}

tl_tensor *tl_from(tl_ctx *c, tl_dtype dtype, tl_shape shape, const void *elements)
{
    tl_tensor *t = host_tensor(c, dtype, shape);
    if (t) tli_tensor_scatter(t, elements);
    return t;
}

tl_tensor *tl_from_doubles(tl_ctx *c, tl_dtype dtype, tl_shape shape, const double *elements)
{
    tl_tensor *t = host_tensor(c, dtype, shape);
    if (t && tl_tensor_set_doubles(t, elements, tl_tensor_count(t)) != TL_OK) return tl_ctx_fail(c);
    return t;
}

tl_tensor *tl_number(tl_ctx *c, tl_dtype dtype, double value)
{
    return tl_from_doubles(c, dtype, TL_SCALAR, &value);
}
