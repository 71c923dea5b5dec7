/* Ops that put elements in order.
 *
 *     tl_tensor *best, *which;
 *     tl_top_k(c, logits, 5, &best, &which);                // the 5 largest of each row, and where
 *
 * Equal elements keep their order; NaN is above everything. Gradients go back to where each element
 * came from. The tensors of results are NULL when the context failed.
 *
 * Precision: elements are moved, not computed.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_SORT_H
#define TILTH_OPS_SORT_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* Along an axis, smallest first unless `descending`: the elements, and (int64) where each was.
 * Either result may be NULL. */
TL_API void tl_sort(tl_ctx *c, tl_tensor *x, int64_t axis, bool descending, tl_tensor **values,
                    tl_tensor **indices);
/* The `k` largest of the last axis, largest first, and (int64) where they are. Either result may be
 * NULL. */
TL_API void tl_top_k(tl_ctx *c, tl_tensor *x, int64_t k, tl_tensor **values, tl_tensor **indices);

TL_END

#endif
