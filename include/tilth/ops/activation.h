/* Activations: functions of one float tensor that stand between layers.
 *
 *     tl_tensor *h = tl_gelu(c, tl_add(c, tl_matmul(c, x, w), b), false);
 *
 * Precision: bfloat16 and float16 are computed in float32 and rounded once. At minus infinity each
 * gives its limit; NaN stays NaN. Gradients at kinks are as told below.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_ACTIVATION_H
#define TILTH_OPS_ACTIVATION_H

#include <tilth/ops/elementwise.h>

TL_BEGIN

/* Those without numbers (tl_relu(c, x), tl_silu(c, x) and so on) are rows of core/elementwise.def,
 * which elementwise.h declares. Here are those that have some. */

/* x, or alpha * x where x is not positive; gradient alpha at 0. */
TL_API tl_tensor *tl_leaky_relu(tl_ctx *c, tl_tensor *x, double alpha);
/* x, or alpha * (exp(x) - 1) where x is not positive; gradient alpha at 0. */
TL_API tl_tensor *tl_elu(tl_ctx *c, tl_tensor *x, double alpha);

/* x * P(a normal number is below x); `approximate` is close to it and cheaper to differentiate:
 * x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))). */
TL_API tl_tensor *tl_gelu(tl_ctx *c, tl_tensor *x, bool approximate);

/* Gradients of the frequent ones, from the gradient `gy` of the result and from the result `y` or
 * the input `x`: one pass over memory each. For gradients of ops that have an activation inside.
 * All three have one shape and type, and there are derivatives of these too:
 * tl_tanh_grad sigmoid_grad (c, gy, y), tl_relu_grad (c, gy, y or x), tl_silu_grad (c, gy, x). */
TL_API tl_tensor *tl_gelu_grad(tl_ctx *c, tl_tensor *gy, tl_tensor *x, bool approximate);

TL_END

#endif
