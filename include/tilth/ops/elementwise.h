/* Ops on each element. Two inputs meet as in NumPy: shapes broadcast, and the narrower type is cast to
 * the wider one (tl_dtype_meet).
 *
 * Precision: bfloat16 and float16 are computed in float32 and rounded once.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_ELEMENTWISE_H
#define TILTH_OPS_ELEMENTWISE_H

#include <tilth/ops/apply.h>

TL_BEGIN

TL_API tl_tensor *tl_add(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_mul(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_exp(tl_ctx *c, tl_tensor *x);
/* Floats to integers are cut towards zero and stop at the ends of the type, NaN gives 0. The tensor
 * itself when it has the type already. */
TL_API tl_tensor *tl_cast(tl_ctx *c, tl_tensor *x, tl_dtype dtype);

TL_END

#endif
