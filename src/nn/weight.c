#include "nn/weight.h"

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>

static tl_tensor *fail_weight(tl_ctx *c, const tl_tensor *values, const tl_tensor *weight)
{
    char v[TL_SHAPE_TEXT], w[TL_SHAPE_TEXT];
    (void)TL_FAIL(TL_EINVAL,
                  "the weights are %s and do not fit the values, %s: their dimensions must be the "
                  "first ones of the values, or 1",
                  tl_shape_text(w, &weight->shape), tl_shape_text(v, &values->shape));
    return tl_ctx_fail(c);
}

tl_tensor *tli_weight_for(tl_ctx *c, tl_tensor *values, tl_tensor *weight)
{
    if (tl_ctx_failed(c)) return NULL;
    tl_shape shape = weight->shape;
    while (shape.rank > values->shape.rank && shape.dims[shape.rank - 1] == 1) shape.rank--;
    if (shape.rank > values->shape.rank) return fail_weight(c, values, weight);
    for (int i = 0; i < shape.rank; i++)
        if (shape.dims[i] != 1 && shape.dims[i] != values->shape.dims[i])
            return fail_weight(c, values, weight);
    while (shape.rank < values->shape.rank) shape.dims[shape.rank++] = 1;
    return tl_reshape(c, weight, shape);
}

tl_tensor *tli_weighted(tl_ctx *c, tl_tensor *values, tl_tensor *weight)
{
    if (tl_ctx_failed(c) || !weight) return values;
    weight = tl_cast(c, tli_weight_for(c, values, weight), values->dtype);
    tl_tensor *zero = tl_number(c, values->dtype, 0);
    return tl_where(c, tl_equal(c, weight, zero), zero, tl_mul(c, values, weight));
}

static tl_tensor *without_last(tl_ctx *c, tl_tensor *x)
{
    tl_shape shape = x->shape;
    shape.rank--;
    return tl_reshape(c, x, shape);
}

static bool has_last_one(const tl_tensor *x)
{
    return x->shape.rank && x->shape.dims[x->shape.rank - 1] == 1;
}

void tli_match(tl_ctx *c, tl_tensor **y_true, tl_tensor **y_pred)
{
    if (tl_ctx_failed(c)) return;
    if ((*y_true)->shape.rank == (*y_pred)->shape.rank + 1 && has_last_one(*y_true))
        *y_true = without_last(c, *y_true);
    else if ((*y_pred)->shape.rank == (*y_true)->shape.rank + 1 && has_last_one(*y_pred))
        *y_pred = without_last(c, *y_pred);
    if (tl_ctx_failed(c) || tl_shape_equal(&(*y_true)->shape, &(*y_pred)->shape)) return;
    char t[TL_TENSOR_TEXT], p[TL_TENSOR_TEXT];
    (void)TL_FAIL(TL_EINVAL,
                  "the targets are %s and the predictions %s; their shapes must be alike",
                  tl_tensor_spec(t, *y_true), tl_tensor_spec(p, *y_pred));
    tl_ctx_fail(c);
}

tl_tensor *tli_labels(tl_ctx *c, tl_tensor *y_true, const tl_tensor *y_pred)
{
    if (tl_ctx_failed(c)) return NULL;
    tl_shape wanted = y_pred->shape;
    if (wanted.rank) wanted.dims[--wanted.rank] = 0;
    tl_tensor *labels = y_true;
    if (y_pred->shape.rank && y_true->shape.rank == y_pred->shape.rank && has_last_one(y_true))
        labels = without_last(c, y_true);
    if (!labels) return NULL;
    bool whole = tl_dtype_classify(labels->dtype) == TL_CLASS_INT;
    if (y_pred->shape.rank && tl_shape_equal(&labels->shape, &wanted))
        return whole ? labels : tl_cast(c, labels, TL_I64);
    char t[TL_TENSOR_TEXT], p[TL_TENSOR_TEXT];
    (void)TL_FAIL(TL_EINVAL,
                  "the targets are %s and the predictions %s; class numbers must have the shape of "
                  "the predictions without their last axis, the classes",
                  tl_tensor_spec(t, y_true), tl_tensor_spec(p, y_pred));
    return tl_ctx_fail(c);
}
