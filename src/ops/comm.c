#include <tilth/ops/comm.h>

#include <inttypes.h>

#include <tilth/core/attrs.h>
#include <tilth/ops/create.h>
#include <tilth/sys/ops/apply.h>

#include "ops/ops.h"

static const tl_field comm_fields[] = {
    TL_F(tl_comm_attr, lanes, .help = "that take part"),
    TL_F_END,
};
static const tl_desc comm_desc = {
    .name = "comm",
    .help = "attributes of collectives",
    .size = sizeof(tl_comm_attr),
    .fields = comm_fields,
};

/* --- shapes ----------------------------------------------------------------------------------- */

static tl_status check_call(const tl_node *call)
{
    const tl_comm_attr *a = call->attr;
    if (a->lanes < 1)
        return TL_FAIL(TL_EINVAL, "lanes is %" PRId64 " and must be 1 or more", a->lanes);
    if (call->op->op != TL_OP_all_gather) TL_TRY(tli_want_number(call->in[0], "the input"));
    return tli_infer_same(call);
}

static tl_status want_rows(const tl_tensor *x)
{
    char spec[TL_TENSOR_TEXT];
    if (x->shape.rank) return TL_OK;
    return TL_FAIL(TL_EINVAL, "the input is %s and must have an axis along which lanes lie",
                   tl_tensor_spec(spec, x));
}

static tl_status all_gather_infer(const tl_node *call)
{
    TL_TRY(check_call(call));
    TL_TRY(want_rows(call->in[0]));
    call->out[0]->shape.dims[0] *= ((const tl_comm_attr *)call->attr)->lanes;
    return TL_OK;
}

static tl_status reduce_scatter_infer(const tl_node *call)
{
    const int64_t lanes = ((const tl_comm_attr *)call->attr)->lanes;
    TL_TRY(check_call(call));
    TL_TRY(want_rows(call->in[0]));
    int64_t *rows = &call->out[0]->shape.dims[0];
    if (*rows % lanes)
        return TL_FAIL(TL_EINVAL, "%" PRId64 " rows cannot be cut into parts for %" PRId64 " lanes",
                       *rows, lanes);
    *rows /= lanes;
    return TL_OK;
}

static tl_status lane_infer(const tl_node *call)
{
    call->out[0]->dtype = TL_I32;
    call->out[0]->shape = TL_SCALAR;
    return TL_OK;
}

/* --- gradients -------------------------------------------------------------------------------- */

static void all_gather_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                                const bool *wanted)
{
    (void)wanted;
    gx[0] = TL_APPLY(c, reduce_scatter, n->attr, gy[0]);
}

static void all_reduce_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                                const bool *wanted)
{
    (void)wanted;
    gx[0] = TL_APPLY(c, all_reduce, n->attr, gy[0]);
}

static void reduce_scatter_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                    tl_tensor **gx, const bool *wanted)
{
    (void)wanted;
    gx[0] = TL_APPLY(c, all_gather, n->attr, gy[0]);
}

/* --- the ops ---------------------------------------------------------------------------------- */

#define COLLECTIVE(name_, help_, infer_)                                                           \
    const tl_op_class tl_op_##name_ = {                                                            \
        .op = TL_OP_##name_,                                                                       \
        .name = #name_,                                                                            \
        .help = help_,                                                                             \
        .attr = &comm_desc,                                                                        \
        .inputs_min = 1,                                                                           \
        .inputs_max = 1,                                                                           \
        .outputs = 1,                                                                              \
        .flags = TL_OP_COMM,                                                                       \
        .infer = infer_,                                                                           \
        .gradient = name_##_gradient,                                                              \
    };
COLLECTIVE(all_gather, "what all lanes bring, one behind the other", all_gather_infer)
COLLECTIVE(all_reduce, "the sum of what all lanes bring", check_call)
COLLECTIVE(reduce_scatter, "the lane's part of the sum of what all lanes bring",
           reduce_scatter_infer)

// Another one in each run, as draws are.
const tl_op_class tl_op_lane = {
    .op = TL_OP_lane,
    .name = "lane",
    .help = "the number of the lane",
    .outputs = 1,
    .by = -1,
    .flags = TL_OP_CONSTANT | TL_OP_RANDOM,
    .infer = lane_infer,
};

static tl_tensor *call(tl_ctx *c, tl_op op, tl_tensor *x)
{
    const tl_comm_attr attr = {tl_ctx_lanes(c)};
    return attr.lanes == 1 && x ? x : tl_apply(c, op, &attr, 1, &x);
}

tl_tensor *tl_all_gather(tl_ctx *c, tl_tensor *x)
{
    return call(c, TL_OP_all_gather, x);
}

tl_tensor *tl_all_reduce(tl_ctx *c, tl_tensor *x)
{
    return call(c, TL_OP_all_reduce, x);
}

tl_tensor *tl_reduce_scatter(tl_ctx *c, tl_tensor *x)
{
    return call(c, TL_OP_reduce_scatter, x);
}

tl_tensor *tl_lane(tl_ctx *c)
{
    return tl_apply(c, TL_OP_lane, NULL, 0, NULL);
}
