/* What the files of elementwise ops share. Thread word: immutable. */
#ifndef TLI_OPS_ELEMENTWISE_H
#define TLI_OPS_ELEMENTWISE_H

#include <tilth/ops/elementwise.h>

#include "ops/ops.h"

/* The result is like the only input, which must be of a floating-point type, or a number type. */
tl_status tli_infer_float(const tl_node *call);
tl_status tli_infer_number(const tl_node *call);
/* Like one input or several that broadcast, but bool. */
tl_status tli_infer_mask(const tl_node *call);

/* `g` where the mask is true, 0 elsewhere. */
tl_tensor *tli_masked(tl_ctx *c, tl_tensor *mask, tl_tensor *g);
/* x compared with one number: x < number and so on. */
tl_tensor *tli_below(tl_ctx *c, tl_tensor *x, double number);
tl_tensor *tli_above(tl_ctx *c, tl_tensor *x, double number);

/* The gradient of an op with one input: an expression of g, x and y. */
#define TLI_GRADIENT(name, expression)                                                             \
    static void name##_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx, \
                                const bool *wanted)                                                \
    {                                                                                              \
        tl_tensor *g = gy[0], *x = n->in[0], *y = n->out[0];                                       \
        (void)x, (void)y, (void)wanted;                                                            \
        gx[0] = (expression);                                                                      \
    }

/* The class of an op with so many inputs and one output; more members may follow. */
#define TLI_CLASS(name_, help_, inputs, ...)                                                       \
    const tl_op_class tl_op_##name_ = {.op = TL_OP_##name_, .name = #name_, .help = (help_),       \
                                       .inputs_min = (inputs), .inputs_max = (inputs),             \
                                       .outputs = 1, __VA_ARGS__}

/* An op with one input, and its function. */
#define TLI_UNARY(name, help, ...)                                                                 \
    TLI_CLASS(name, help, 1, __VA_ARGS__);                                                         \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *x)                                                  \
    {                                                                                              \
        return TL_APPLY(c, name, NULL, x);                                                         \
    }

/* An op with two inputs that meet, and its function. */
#define TLI_BINARY(name, help, ...)                                                                \
    TLI_CLASS(name, help, 2, __VA_ARGS__);                                                         \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *a, tl_tensor *b)                                    \
    {                                                                                              \
        (void)tli_meet(c, &a, &b);                                                                 \
        return TL_APPLY(c, name, NULL, a, b);                                                      \
    }

#endif
