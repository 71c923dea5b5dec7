/* Ops that show the same elements in another shape. They cost nothing: the result shares the storage.
 *
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_VIEW_H
#define TILTH_OPS_VIEW_H

#include <tilth/ops/apply.h>

TL_BEGIN

/* One dimension may be -1: it is what the others leave. Copies when the elements lie in another order. */
TL_API tl_tensor *tl_reshape(tl_ctx *c, tl_tensor *x, tl_shape shape);
/* Axis i of the result is axis perm[i] of x. */
TL_API tl_tensor *tl_transpose(tl_ctx *c, tl_tensor *x, const int64_t *perm, int count);
TL_API tl_tensor *tl_broadcast_to(tl_ctx *c, tl_tensor *x, tl_shape shape);
/* The elements in row-major order; the tensor itself when they are. */
TL_API tl_tensor *tl_contiguous(tl_ctx *c, tl_tensor *x);

TL_END

#endif
