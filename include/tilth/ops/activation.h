/* Activations: functions of one float tensor that stand between layers.
 *
 *     tl_tensor *h = tl_gelu(c, tl_add(c, tl_matmul(c, x, w), b), false);
 *
 * Precision: bfloat16 and float16 are computed in float32 and rounded once. At minus infinity each
 * gives its limit; NaN stays NaN. Gradients at kinks are as told below.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_ACTIVATION_H
#define TILTH_OPS_ACTIVATION_H

#include <tilth/sys/ops/apply.h>

TL_BEGIN

TL_API tl_tensor *tl_tanh(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_sigmoid(tl_ctx *c, tl_tensor *x);  /* 1 / (1 + exp(-x)) */
TL_API tl_tensor *tl_softplus(tl_ctx *c, tl_tensor *x); /* log(1 + exp(x)) */
TL_API tl_tensor *tl_relu(tl_ctx *c, tl_tensor *x);     /* max(x, 0); gradient 0 at 0 */
TL_API tl_tensor *tl_relu6(tl_ctx *c, tl_tensor *x);    /* min(max(x, 0), 6); gradient 0 at both */
/* x, or alpha * x where x is not positive; gradient alpha at 0. */
TL_API tl_tensor *tl_leaky_relu(tl_ctx *c, tl_tensor *x, double alpha);
/* x, or alpha * (exp(x) - 1) where x is not positive; gradient alpha at 0. */
TL_API tl_tensor *tl_elu(tl_ctx *c, tl_tensor *x, double alpha);

/* x * P(a normal number is below x); `approximate` is close to it and cheaper to differentiate:
 * x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))). */
TL_API tl_tensor *tl_gelu(tl_ctx *c, tl_tensor *x, bool approximate);
TL_API tl_tensor *tl_silu(tl_ctx *c, tl_tensor *x); /* x * sigmoid(x), also called swish */
TL_API tl_tensor *tl_mish(tl_ctx *c, tl_tensor *x); /* x * tanh(softplus(x)) */
/* relu6(x + 3) / 6; gradient 0 at -3 and at 3. */
TL_API tl_tensor *tl_hard_sigmoid(tl_ctx *c, tl_tensor *x);
/* x * hard_sigmoid(x); gradient 0 at -3 and 1 at 3. */
TL_API tl_tensor *tl_hard_swish(tl_ctx *c, tl_tensor *x);

/* Gradients of the frequent ones, from the gradient `gy` of the result and from the result `y` or
 * the input `x`: one pass over memory each. For gradients of ops that have an activation inside.
 * All three have one shape and type, and there are derivatives of these too. */
TL_API tl_tensor *tl_tanh_grad(tl_ctx *c, tl_tensor *gy, tl_tensor *y);
TL_API tl_tensor *tl_sigmoid_grad(tl_ctx *c, tl_tensor *gy, tl_tensor *y);
TL_API tl_tensor *tl_relu_grad(tl_ctx *c, tl_tensor *gy, tl_tensor *y); /* y may be x as well */
TL_API tl_tensor *tl_gelu_grad(tl_ctx *c, tl_tensor *gy, tl_tensor *x, bool approximate);
TL_API tl_tensor *tl_silu_grad(tl_ctx *c, tl_tensor *gy, tl_tensor *x);

TL_END

#endif
