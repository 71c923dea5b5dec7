#include <tilth/ops/create.h>
#include <tilth/sys/core/device.h>
#include <tilth/sys/ops/apply.h>

#include <inttypes.h>
#include <math.h>

#include "core/inner/ctx.h"
#include "core/inner/element.h"
#include "core/inner/integer.h"
#include "core/inner/tensor.h"
#include "ops/ops.h"

// Integer types hold whole numbers of their range; other types take anything.
static tl_status want_holdable(tl_dtype dtype, double number, const char *what)
{
    int64_t low, high;
    if (tl_dtype_classify(dtype) != TL_CLASS_INT) return TL_OK;
    tli_integer_range(dtype, &low, &high);
    // int64's last number has no double: the one above it is the first that is too large.
    if (number == trunc(number) && number >= (double)low && number < (double)high + 1) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s is %g and must be a whole number from %" PRId64 " to %" PRId64 " for %s",
                   what, number, low, high, tl_dtype_name(dtype));
}

/* --- one number ------------------------------------------------------------------------------- */

static const tl_field full_fields[] = {
    TL_F(tl_full_attr, value, .help = "of every element"),
    TL_F(tl_full_attr, shape, .help = "of the result"),
    TL_F(tl_full_attr, dtype, .names = tl_dtype_names, .help = "of the result"),
    TL_F_END,
};
static const tl_desc full_desc = {
    .name = "full",
    .help = "attributes of full",
    .size = sizeof(tl_full_attr),
    .fields = full_fields,
};

static tl_status full_infer(const tl_node *call)
{
    const tl_full_attr *a = call->attr;
    TL_TRY(want_holdable(a->dtype, a->value, "the value"));
    call->out[0]->dtype = a->dtype;
    return tli_shape_from(&call->out[0]->shape, a->shape);
}

const tl_op_class tl_op_full = {
    .op = TL_OP_full,
    .name = "full",
    .help = "every element is the same number",
    .attr = &full_desc,
    .outputs = 1,
    .by = -1,
    .flags = TL_OP_CONSTANT,
    .infer = full_infer,
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

/* --- from the host ---------------------------------------------------------------------------- */

tl_tensor *tl_from(tl_ctx *c, tl_dtype dtype, tl_shape shape, const void *elements)
{
    tl_tensor *t = tl_ctx_tensor(c, TL_AT_DEVICE, dtype, shape);
    if (t && tl_tensor_set(t, elements, tl_tensor_bytes(t)) != TL_OK) return tl_ctx_fail(c);
    return t;
}

tl_tensor *tl_from_doubles(tl_ctx *c, tl_dtype dtype, tl_shape shape, const double *elements)
{
    tl_tensor *t = tl_ctx_tensor(c, TL_AT_DEVICE, dtype, shape);
    if (t && tl_tensor_set_doubles(t, elements, tl_tensor_count(t)) != TL_OK) return tl_ctx_fail(c);
    return t;
}

tl_tensor *tl_number(tl_ctx *c, tl_dtype dtype, double value)
{
    // A kernel puts it there: whoever copies it from the host waits. Both round alike.
    if ((dtype == TL_F64 || dtype == TL_F32) && !tl_ctx_capturing(c) && !tl_ctx_taping(c)
        && !tl_engine_device(tl_ctx_engine(c))->cls->host)
        return tl_full(c, dtype, TL_SCALAR, value);
    return tl_from_doubles(c, dtype, TL_SCALAR, &value);
}

/* --- arange ----------------------------------------------------------------------------------- */

static const tl_field arange_fields[] = {
    TL_F(tl_arange_attr, start, .help = "the first element"),
    TL_F(tl_arange_attr, stop, .help = "where it ends, not included"),
    TL_F(tl_arange_attr, step, .help = "from one element to the next"),
    TL_F(tl_arange_attr, dtype, .names = tl_dtype_names, .help = "of the result"),
    TL_F_END,
};
static const tl_desc arange_desc = {
    .name = "arange",
    .help = "attributes of arange",
    .size = sizeof(tl_arange_attr),
    .fields = arange_fields,
};

static tl_status arange_infer(const tl_node *call)
{
    const tl_arange_attr *a = call->attr;
    double steps = ceil((a->stop - a->start) / a->step);
    if (a->dtype == TL_BOOL)
        return TL_FAIL(TL_EINVAL, "the type must be of numbers, and bool is not");
    if (!isfinite(steps) || !isfinite(a->step))
        return TL_FAIL(TL_EINVAL,
                       "from %g to %g in steps of %g: all three must be finite, and the step not 0",
                       a->start, a->stop, a->step);
    if (steps > 0x1p53) return TL_FAIL(TL_EINVAL, "%g elements are too many", steps);
    int64_t count = steps > 0 ? (int64_t)steps : 0;
    double last = a->start + (double)(count - 1) * a->step;
    if (count > 0) TL_TRY(want_holdable(a->dtype, a->start, "start"));
    if (count > 0) TL_TRY(want_holdable(a->dtype, last, "the last element"));
    if (count > 1) TL_TRY(want_holdable(a->dtype, a->start + a->step, "start + step"));
    call->out[0]->dtype = a->dtype;
    call->out[0]->shape = TL_SHAPE(count);
    return TL_OK;
}

const tl_op_class tl_op_arange = {
    .op = TL_OP_arange,
    .name = "arange",
    .help = "numbers at equal distances",
    .attr = &arange_desc,
    .outputs = 1,
    .by = -1,
    .flags = TL_OP_CONSTANT,
    .infer = arange_infer,
};

tl_tensor *tl_arange(tl_ctx *c, tl_dtype dtype, double start, double stop, double step)
{
    tl_arange_attr attr = {.start = start, .stop = stop, .step = step, .dtype = dtype};
    return tl_apply(c, TL_OP_arange, &attr, 0, NULL);
}

/* --- one_hot ---------------------------------------------------------------------------------- */

static const tl_field one_hot_fields[] = {
    TL_F(tl_one_hot_attr, depth, .help = "of the axis that is added"),
    TL_F(tl_one_hot_attr, dtype, .names = tl_dtype_names, .help = "of the result"),
    TL_F_END,
};
static const tl_desc one_hot_desc = {
    .name = "one_hot",
    .help = "attributes of one_hot",
    .size = sizeof(tl_one_hot_attr),
    .fields = one_hot_fields,
};

static tl_status one_hot_infer(const tl_node *call)
{
    const tl_one_hot_attr *a = call->attr;
    const tl_tensor *indices = call->in[0];
    tl_tensor *y = call->out[0];
    TL_TRY(tli_want_integer(indices, "the tensor of indices"));
    if (a->depth < 0)
        return TL_FAIL(TL_EINVAL, "the depth is %" PRId64 " and must not be negative", a->depth);
    if (indices->shape.rank == TL_MAX_RANK)
        return TL_FAIL(TL_EINVAL, "the indices have %d dimensions already, and one is added",
                       TL_MAX_RANK);
    y->dtype = a->dtype;
    y->shape = indices->shape;
    y->shape.dims[y->shape.rank++] = a->depth;
    return TL_OK;
}

const tl_op_class tl_op_one_hot = {
    .op = TL_OP_one_hot,
    .name = "one_hot",
    .help = "1 at an index, 0 elsewhere",
    .attr = &one_hot_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .flags = TL_OP_CONSTANT,
    .infer = one_hot_infer,
};

tl_tensor *tl_one_hot(tl_ctx *c, tl_tensor *indices, int64_t depth, tl_dtype dtype)
{
    tl_one_hot_attr attr = {.depth = depth, .dtype = dtype};
    return TL_APPLY(c, one_hot, &attr, indices);
}

tl_tensor *tl_eye(tl_ctx *c, tl_dtype dtype, int64_t rows, int64_t columns)
{
    return tl_one_hot(c, tl_arange(c, TL_I64, 0, (double)rows, 1), columns, dtype);
}
