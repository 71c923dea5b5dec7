#include <tilth/ops/softmax.h>

#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/sys/ops/apply.h>

#include "ops/ops.h"
#include "ops/wide.h"

static const tl_field softmax_fields[] = {
    TL_F(tl_softmax_attr, axis, .help = "along which the shares add up to 1"),
    TL_F_END,
};
static const tl_desc softmax_desc = {
    .name = "softmax",
    .help = "attributes of softmax",
    .size = sizeof(tl_softmax_attr),
    .fields = softmax_fields,
};

static tl_status softmax_infer(const tl_node *call)
{
    const tl_softmax_attr *a = call->attr;
    int axis;
    TL_TRY(tli_want_float(call->in[0], "the input"));
    TL_TRY(tl_axis_check(&axis, a->axis, call->in[0]->shape.rank, "axis"));
    TL_ASSERT(axis == a->axis); // counted from 0 by who made the attribute
    return tli_infer_same(call);
}

static tl_status grad_infer(const tl_node *call)
{
    const tl_tensor *gy = call->in[0], *y = call->in[1];
    if (gy->dtype != y->dtype || !tl_shape_equal(&gy->shape, &y->shape)) {
        char left[TL_TENSOR_TEXT], right[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "the gradient is %s and the result %s; they must be alike",
                       tl_tensor_spec(left, gy), tl_tensor_spec(right, y));
    }
    return softmax_infer(call);
}

static tl_tensor *sum_along(tl_ctx *c, const tl_node *n, tl_tensor *t)
{
    const tl_softmax_attr *a = n->attr;
    return tl_sum(c, t, TL_AXES(a->axis), true);
}

static void softmax_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                             const bool *wanted)
{
    (void)wanted;
    if (!tl_gradient_differentiable(c)) {
        gx[0] = TL_APPLY(c, softmax_grad, n->attr, gy[0], n->out[0]);
        return;
    }
    tl_dtype wide = tli_wide(n->in[0]->dtype);
    tl_tensor *y = tl_cast(c, n->out[0], wide), *g = tl_cast(c, gy[0], wide);
    g = tl_mul(c, y, tl_sub(c, g, sum_along(c, n, tl_mul(c, g, y))));
    gx[0] = tl_cast(c, g, n->in[0]->dtype);
}

static void log_softmax_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                                 const bool *wanted)
{
    (void)wanted;
    if (!tl_gradient_differentiable(c)) {
        gx[0] = TL_APPLY(c, log_softmax_grad, n->attr, gy[0], n->out[0]);
        return;
    }
    tl_dtype wide = tli_wide(n->in[0]->dtype);
    tl_tensor *y = tl_cast(c, n->out[0], wide), *g = tl_cast(c, gy[0], wide);
    g = tl_sub(c, g, tl_mul(c, tl_exp(c, y), sum_along(c, n, g)));
    gx[0] = tl_cast(c, g, n->in[0]->dtype);
}

#define SOFTMAX(name_, help_)                                                                      \
    const tl_op_class tl_op_##name_ = {                                                            \
        TLI_OP_HEAD(name_, help_, &softmax_desc, 1, 1, 1),                                         \
        .infer = softmax_infer,                                                                    \
        .gradient = name_##_gradient,                                                              \
    };                                                                                             \
    const tl_op_class tl_op_##name_##_grad = {                                                     \
        TLI_GRAD_HEAD(name_, &softmax_desc, 2, 2, 1),                                              \
        .infer = grad_infer,                                                                       \
    };                                                                                             \
    tl_tensor *tl_##name_(tl_ctx *c, tl_tensor *x, int64_t axis)                                   \
    {                                                                                              \
        int rank = x ? x->shape.rank : 0;                                                          \
        bool back = axis < 0 && axis + rank >= 0;                                                  \
        tl_softmax_attr a = {.axis = back ? axis + rank : axis};                                   \
        return TL_APPLY(c, name_, &a, x);                                                          \
    }
SOFTMAX(softmax, "shares that add up to 1 along an axis")
SOFTMAX(log_softmax, "logarithms of shares that add up to 1 along an axis")
