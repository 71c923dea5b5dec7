/* Products of matrices.
 *
 *     tl_tensor *scores = tl_matmul_with(c, q, k, false, true);          // q times k transposed
 *     tl_tensor *h = tl_linear(c, x, w, bias, TL_ACT_GELU);                 // gelu(x w + bias)
 *     tl_tensor *y = tl_einsum(c, "bqhd,bkhd->bhqk", 2, (tl_tensor *[]){q, k});
 *
 * Types meet as in arithmetic (tl_dtype_meet) and must be floats.
 * Precision: sums of bfloat16 and float16 are kept in float32, those of float64 in float64, and are
 * rounded once when they are stored.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_MATMUL_H
#define TILTH_OPS_MATMUL_H

#include <tilth/core/attrs.h>
#include <tilth/core/ctx.h>

TL_BEGIN

/* a [..., m, k] times b [..., k, n] is [..., m, n], as in NumPy: the dims before the last two
 * broadcast, and a vector counts as one row of a or one column of b that the result does not have.
 * Inputs may be views with any strides; nothing is copied for them. */
TL_API tl_tensor *tl_matmul(tl_ctx *c, tl_tensor *a, tl_tensor *b);
/* The same with the last two dims of a or b exchanged; a vector has nothing to exchange. */
TL_API tl_tensor *tl_matmul_with(tl_ctx *c, tl_tensor *a, tl_tensor *b, bool transpose_a,
                                 bool transpose_b);

/* activation(x w + bias) in one pass: x [..., k], w [k, n] (inputs before outputs, as in Keras) and
 * bias [n] or NULL; the result is [..., n]. For activations whose gradient needs it, what the
 * activation was given is kept beside the result while gradients are recorded. An activation that
 * is not fused (attrs.h) is a second op. */
TL_API tl_tensor *tl_linear(tl_ctx *c, tl_tensor *x, tl_tensor *w, tl_tensor *bias,
                            tl_activation activation);
/* The function alone; x itself for TL_ACT_NONE. */
TL_API tl_tensor *tl_activate(tl_ctx *c, tl_tensor *x, tl_activation activation);
/* By number, then NULL: "none", "relu", "relu6", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid",
 * "elu", "softplus", "mish", "hard_swish", "hard_sigmoid". */
TL_API extern const char *const tl_activation_names[];

/* Sums of products by Einstein's rule: one letter for each dim of each operand, then what is left.
 * "ij,jk->ik" is a matrix product, "bij->b" sums, "ij->ji" transposes; without "->" the letters
 * that occur once are left, in alphabetical order. "..." stands for the dims that have no letter;
 * those broadcast. A letter twice in one operand (a diagonal) is refused. More than two operands
 * are multiplied from left to right. */
TL_API tl_tensor *tl_einsum(tl_ctx *c, const char *equation, int count, tl_tensor *const *operands);

TL_END

#endif
