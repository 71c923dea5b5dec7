#include <tilth/ops/elementwise.h>

#include "ops/ops.h"

/* --- two inputs --------------------------------------------------------------------------------- */

static tl_status arithmetic_infer(const tl_node *call)
{
    TL_TRY(tli_want_number(call->in[0], "the first input"));
    TL_TRY(tli_want_number(call->in[1], "the second input"));
    return tli_infer_broadcast(call);
}

static void add_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                         const bool *wanted)
{
    for (int i = 0; i < 2; i++)
        if (wanted[i]) gx[i] = tl_sum_to(c, gy[0], &n->in[i]->shape);
}

static void mul_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                         const bool *wanted)
{
    for (int i = 0; i < 2; i++)
        if (wanted[i]) gx[i] = tl_sum_to(c, tl_mul(c, gy[0], n->in[1 - i]), &n->in[i]->shape);
}

#define ARITHMETIC(name_, help_)                                                                   \
    const tl_op_class tl_op_##name_ = {                                                            \
        .op = TL_OP_##name_, .name = #name_, .help = help_, .inputs_min = 2, .inputs_max = 2,      \
        .outputs = 1, .infer = arithmetic_infer, .gradient = name_##_gradient,                     \
    };                                                                                             \
    tl_tensor *tl_##name_(tl_ctx *c, tl_tensor *a, tl_tensor *b)                                   \
    {                                                                                              \
        return tli_meet(c, &a, &b) ? TL_APPLY(c, name_, NULL, a, b) : NULL;                        \
    }
ARITHMETIC(add, "a + b")
ARITHMETIC(mul, "a * b")

/* --- one input ---------------------------------------------------------------------------------- */

static tl_status float_infer(const tl_node *call)
{
    TL_TRY(tli_want_float(call->in[0], "the input"));
    return tli_infer_same(call);
}

static void exp_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                         const bool *wanted)
{
    (void)wanted;
    gx[0] = tl_mul(c, gy[0], n->out[0]);
}

const tl_op_class tl_op_exp = {
    .op = TL_OP_exp, .name = "exp", .help = "e to the power x", .inputs_min = 1, .inputs_max = 1,
    .outputs = 1, .infer = float_infer, .gradient = exp_gradient,
};

tl_tensor *tl_exp(tl_ctx *c, tl_tensor *x)
{
    return TL_APPLY(c, exp, NULL, x);
}

/* --- casts -------------------------------------------------------------------------------------- */

static const tl_field cast_fields[] = {
    TL_F(tl_cast_attr, dtype, .names = tl_dtype_names, .help = "of the result"),
    TL_F_END,
};
static const tl_desc cast_desc = {
    .name = "cast", .help = "attributes of cast", .size = sizeof(tl_cast_attr), .fields = cast_fields};

static tl_status cast_infer(const tl_node *call)
{
    const tl_cast_attr *a = call->attr;
    TL_TRY(tli_infer_same(call));
    call->out[0]->dtype = a->dtype;
    return TL_OK;
}

static void cast_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                          const bool *wanted)
{
    (void)wanted;
    gx[0] = tl_cast(c, gy[0], n->in[0]->dtype);
}

const tl_op_class tl_op_cast = {
    .op = TL_OP_cast, .name = "cast", .help = "the same numbers in another type", .attr = &cast_desc,
    .inputs_min = 1, .inputs_max = 1, .outputs = 1, .infer = cast_infer, .gradient = cast_gradient,
};

tl_tensor *tl_cast(tl_ctx *c, tl_tensor *x, tl_dtype dtype)
{
    if (x && x->dtype == dtype) return x;
    tl_cast_attr attr = {.dtype = dtype};
    return TL_APPLY(c, cast, &attr, x);
}
