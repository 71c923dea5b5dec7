/* Numbers to shares: softmax and its logarithm.
 *
 *     p = tl_softmax(c, logits, -1);
 *
 * Precision: computed in float32 (float64 for float64) and rounded once; the greatest number of a
 * row is subtracted first, so nothing overflows. A row without any finite number is NaN. Thread
 * word: one thread at a time for a context. */
#ifndef TILTH_OPS_SOFTMAX_H
#define TILTH_OPS_SOFTMAX_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* exp(x) over the sum of exp(x) along the axis; a negative axis counts from the end. */
TL_API tl_tensor *tl_softmax(tl_ctx *c, tl_tensor *x, int64_t axis);
/* x minus the logarithm of that sum. */
TL_API tl_tensor *tl_log_softmax(tl_ctx *c, tl_tensor *x, int64_t axis);

TL_END

#endif
