#include "ops/ops.h"

#include <inttypes.h>
#include <tilth/ops/elementwise.h>
#include <tilth/sys/core/op.h>

tl_status tli_infer_same(const tl_node *call)
{
    call->out[0]->dtype = call->in[0]->dtype;
    call->out[0]->shape = call->in[0]->shape;
    return TL_OK;
}

tl_status tli_infer_broadcast(const tl_node *call)
{
    const tl_tensor *a = call->in[0], *b = call->in[1];
    if (a->dtype != b->dtype)
        return TL_FAIL(TL_EINVAL, "%s and %s are of different types; cast one",
                       tl_dtype_name(a->dtype), tl_dtype_name(b->dtype));
    call->out[0]->dtype = a->dtype;
    return tl_shape_broadcast(&call->out[0]->shape, &a->shape, &b->shape);
}

tl_status tli_shape_from(tl_shape *out, tl_ints dims)
{
    if (dims.count > TL_MAX_RANK)
        return TL_FAIL(TL_EINVAL, "%" PRId64 " dimensions; at most %d are possible", dims.count,
                       TL_MAX_RANK);
    *out = tl_shape_of((int)dims.count, dims.items);
    return TL_OK;
}

bool tli_meet(tl_ctx *c, tl_tensor **a, tl_tensor **b)
{
    if (!*a || !*b || (*a)->dtype == (*b)->dtype) return *a && *b;
    tl_dtype dtype = tl_dtype_meet((*a)->dtype, (*b)->dtype);
    *a = tl_cast(c, *a, dtype);
    *b = tl_cast(c, *b, dtype);
    return *a && *b;
}

static tl_status want(bool holds, const tl_tensor *t, const char *what, const char *wanted)
{
    char spec[TL_TENSOR_TEXT];
    return holds ? TL_OK
                 : TL_FAIL(TL_EINVAL, "%s is %s and must be %s", what, tl_tensor_spec(spec, t),
                           wanted);
}

tl_status tli_want_float(const tl_tensor *t, const char *what)
{
    return want(tl_dtype_is_float(t->dtype), t, what, "of a floating-point type");
}

tl_status tli_want_number(const tl_tensor *t, const char *what)
{
    return want(t->dtype != TL_BOOL, t, what, "of a number type");
}

tl_status tli_want_integer(const tl_tensor *t, const char *what)
{
    return want(tl_dtype_classify(t->dtype) == TL_CLASS_INT, t, what, "of an integer type");
}

tl_status tli_want_rank(const tl_tensor *t, int rank, const char *what)
{
    char spec[TL_TENSOR_TEXT];
    return t->shape.rank == rank ? TL_OK
                                 : TL_FAIL(TL_EINVAL, "%s is %s and must have %d dimensions", what,
                                           tl_tensor_spec(spec, t), rank);
}
