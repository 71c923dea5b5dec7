#include <tilth/ops/attention.h>
#include <tilth/sys/ops/apply.h>

#include "ops/ops.h"

static const tl_field dropout_fields[] = {
    TL_F(tl_dropout_attr, rate, .help = "share that becomes 0"),
    TL_F(tl_dropout_attr, key, .help = "of the draws"),
    TL_F(tl_dropout_attr, per_example, .help = "one draw for each index of the first axis"),
    TL_F_END,
};
static const tl_desc dropout_desc = {
    .name = "dropout",
    .help = "attributes of dropout",
    .size = sizeof(tl_dropout_attr),
    .fields = dropout_fields,
};

static tl_status dropout_infer(const tl_node *call)
{
    const tl_dropout_attr *a = call->attr;
    TL_TRY(tli_want_float(call->in[0], "the input"));
    if (!(a->rate >= 0 && a->rate <= 1))
        return TL_FAIL(TL_EINVAL, "the rate is %g and must be from 0 to 1", a->rate);
    if (a->per_example && call->in[0]->shape.rank < 1)
        return TL_FAIL(TL_EINVAL, "the input is a scalar and has no axis of examples");
    return tli_infer_same(call);
}

// The same elements drop out of the gradient.
static void dropout_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                             const bool *wanted)
{
    (void)wanted;
    gx[0] = TL_APPLY(c, dropout, n->attr, gy[0]);
}

const tl_op_class tl_op_dropout = {
    .op = TL_OP_dropout,
    .name = "dropout",
    .help = "elements left out at random",
    .attr = &dropout_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .flags = TL_OP_RANDOM,
    .infer = dropout_infer,
    .gradient = dropout_gradient,
};

// A rate that is not acceptable is refused in evaluation too, and a key is used up by every call,
// so that what is drawn later does not depend on the rate.
static tl_tensor *drop(tl_ctx *c, tl_tensor *x, double rate, bool per_example)
{
    if (x && !tl_ctx_training(c) && rate >= 0 && rate <= 1) return x;
    tl_dropout_attr a = {.rate = rate, .key = tl_ctx_draw_key(c), .per_example = per_example};
    return x && rate == 0 ? x : TL_APPLY(c, dropout, &a, x);
}

tl_tensor *tl_dropout(tl_ctx *c, tl_tensor *x, double rate)
{
    return drop(c, x, rate, false);
}

tl_tensor *tl_stochastic_depth(tl_ctx *c, tl_tensor *x, double rate)
{
    return drop(c, x, rate, true);
}
