/* Shape rules of ops whose result is bool, and comparisons that are others the other way round. */
#include "ops/elementwise.h"
#include <tilth/sys/core/op.h>

tl_status tli_infer_mask(const tl_node *call)
{
    TL_TRY(call->inputs == 1 ? tli_infer_same(call) : tli_infer_broadcast(call));
    call->out[0]->dtype = TL_BOOL;
    return TL_OK;
}

tl_tensor *tl_greater(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    return tl_less(c, b, a);
}

tl_tensor *tl_greater_equal(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    return tl_less_equal(c, b, a);
}

tl_status tli_infer_float_test(const tl_node *call)
{
    TL_TRY(tli_want_float(call->in[0], "the input"));
    return tli_infer_mask(call);
}

tl_status tli_infer_logical(const tl_node *call)
{
    char spec[TL_TENSOR_TEXT];
    for (int i = 0; i < call->inputs; i++)
        if (call->in[i]->dtype != TL_BOOL)
            return TL_FAIL(TL_EINVAL, "input %d is %s and must be bool", i,
                           tl_tensor_spec(spec, call->in[i]));
    return tli_infer_mask(call);
}
