/* Ops whose result is bool. */
#include "ops/elementwise.h"

tl_status tli_infer_mask(const tl_node *call)
{
    TL_TRY(call->inputs == 1 ? tli_infer_same(call) : tli_infer_broadcast(call));
    call->out[0]->dtype = TL_BOOL;
    return TL_OK;
}

#define COMPARISON(name, help)                                                                     \
    TLI_BINARY(name, help, .flags = TL_OP_CONSTANT, .infer = tli_infer_mask)
COMPARISON(equal, "a == b")
COMPARISON(not_equal, "a != b")
COMPARISON(less, "a < b")
COMPARISON(less_equal, "a <= b")

tl_tensor *tl_greater(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    return tl_less(c, b, a);
}

tl_tensor *tl_greater_equal(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    return tl_less_equal(c, b, a);
}

static tl_status float_test_infer(const tl_node *call)
{
    TL_TRY(tli_want_float(call->in[0], "the input"));
    return tli_infer_mask(call);
}

TLI_UNARY(isfinite, "neither infinite nor NaN", .flags = TL_OP_CONSTANT, .infer = float_test_infer)
TLI_UNARY(isnan, "not a number", .flags = TL_OP_CONSTANT, .infer = float_test_infer)

/* --- logic: numbers are made bool first ---------------------------------------------------------- */

static tl_status logical_infer(const tl_node *call)
{
    char spec[TL_TENSOR_TEXT];
    for (int i = 0; i < call->inputs; i++)
        if (call->in[i]->dtype != TL_BOOL)
            return TL_FAIL(TL_EINVAL, "input %d is %s and must be bool", i,
                           tl_tensor_spec(spec, call->in[i]));
    return tli_infer_mask(call);
}

#define LOGICAL(name, help)                                                                        \
    TLI_CLASS(name, help, 2, .flags = TL_OP_CONSTANT, .infer = logical_infer);                     \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *a, tl_tensor *b)                                    \
    {                                                                                              \
        return TL_APPLY(c, name, NULL, tl_cast(c, a, TL_BOOL), tl_cast(c, b, TL_BOOL));            \
    }
LOGICAL(logical_and, "a and b")
LOGICAL(logical_or, "a or b")
LOGICAL(logical_xor, "either a or b")

TLI_CLASS(logical_not, "not x", 1, .flags = TL_OP_CONSTANT, .infer = logical_infer);

tl_tensor *tl_logical_not(tl_ctx *c, tl_tensor *x)
{
    return TL_APPLY(c, logical_not, NULL, tl_cast(c, x, TL_BOOL));
}
