/* What the files of ops share. Thread word: immutable. */
#ifndef TLI_OPS_OPS_H
#define TLI_OPS_OPS_H

#include <tilth/core/attrs.h>
#include <tilth/ops/gradient.h>
#include <tilth/sys/core/op.h>

/* What the class of an op begins with, and that of its fused gradient. */
#define TLI_OP_HEAD(name_, help_, attr_, inputs_min_, inputs_max_, outputs_)                       \
    .op = TL_OP_##name_, .name = #name_, .help = help_, .attr = attr_, .inputs_min = inputs_min_,  \
    .inputs_max = inputs_max_, .outputs = outputs_
#define TLI_GRAD_HEAD(name_, attr_, inputs_min_, inputs_max_, outputs_)                            \
    TLI_OP_HEAD(name_##_grad, "gradient of " #name_, attr_, inputs_min_, inputs_max_, outputs_)

/* Shape rules that many ops have. */
tl_status tli_infer_same(const tl_node *call); /* output 0 is like input 0 */
/* two inputs of one type; the result is like them */
tl_status tli_infer_broadcast(const tl_node *call);

/* The shape that a list of dimensions names; a list that is too long is an error. */
TL_NODISCARD tl_status tli_shape_from(tl_shape *out, tl_ints dims);
/* A shape as a list, which borrows it. */
static inline tl_ints tli_dims(const tl_shape *shape)
{
    return (tl_ints){shape->dims, shape->rank};
}

/* Two tensors cast to the type in which they meet; false when the context failed. */
bool tli_meet(tl_ctx *c, tl_tensor **a, tl_tensor **b);

/* Failure of a rule: "add: bool is not a number". */
TL_NODISCARD tl_status tli_want_float(const tl_tensor *t, const char *what);
TL_NODISCARD tl_status tli_want_number(const tl_tensor *t, const char *what);
TL_NODISCARD tl_status tli_want_integer(const tl_tensor *t, const char *what);
TL_NODISCARD tl_status tli_want_rank(const tl_tensor *t, int rank, const char *what);

#endif
