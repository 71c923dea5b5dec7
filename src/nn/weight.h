/* Weights of examples, as losses and metrics use them.
 *
 * Thread word: one thread at a time for a context. */
#ifndef TLI_NN_WEIGHT_H
#define TLI_NN_WEIGHT_H

#include <tilth/core/ctx.h>

/* The weights shaped so that they broadcast to the values: they have the first axes of the
 * values, or as many as these, or a last one of 1 more; dimensions of 1 stretch. Others fail the
 * context. */
tl_tensor *tli_weight_for(tl_ctx *c, tl_tensor *values, tl_tensor *weight);
/* Values times weights, in the type of the values; 0 where the weight is 0, whatever the value. A
 * NULL weight gives the values. */
tl_tensor *tli_weighted(tl_ctx *c, tl_tensor *values, tl_tensor *weight);

/* Leaves a last dimension of 1 out on the side that has one more, then wants one shape. */
void tli_match(tl_ctx *c, tl_tensor **y_true, tl_tensor **y_pred);
/* Class numbers, as they are or else int64, of the shape of the predictions without the last axis;
 * a last dimension of 1 is left out. */
tl_tensor *tli_labels(tl_ctx *c, tl_tensor *y_true, const tl_tensor *y_pred);

#endif
