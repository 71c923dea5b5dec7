/* Ops that find elements by whole numbers held in a tensor.
 *
 *     tl_tensor *vectors = tl_lookup(c, table, ids);            // [..., width] for ids [...]
 *     tl_tensor *chosen = tl_gather(c, x, order, 1);            // x[:, order]
 *
 * Indices are of any integer type and count from 0. One outside of the axis, or below 0, is an
 * error that names it and where it stands, when the op runs.
 *
 * Precision: gathering moves elements. Where several updates meet in one place they are added in
 * the order in which they stand, in float32 for bfloat16 and float16 (float64 for float64), and
 * rounded once: the result does not depend on the number of threads. Thread word: one thread at a
 * time for a context. */
#ifndef TILTH_OPS_INDEX_H
#define TILTH_OPS_INDEX_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* Places of an axis: x [A.., n, B..] with indices [I..] gives [A.., I.., B..]. */
TL_API tl_tensor *tl_gather(tl_ctx *c, tl_tensor *x, tl_tensor *indices, int64_t axis);
/* Rows of a table [n, width] for ids of any shape: [..., width]. */
TL_API tl_tensor *tl_lookup(tl_ctx *c, tl_tensor *table, tl_tensor *ids);
/* x [A.., n, B..] with updates [A.., I.., B..] added at indices [I..] of the axis. */
TL_API tl_tensor *tl_scatter_add(tl_ctx *c, tl_tensor *x, tl_tensor *indices, tl_tensor *updates,
                                 int64_t axis);
/* The same into zeros, with `size` places along the axis: the gradient of tl_gather. */
TL_API tl_tensor *tl_gather_grad(tl_ctx *c, tl_tensor *updates, tl_tensor *indices, int64_t axis,
                                 int64_t size);

/* One place of an axis for each element: y[i, j] = x[indices[i, j], j] for axis 0. Indices have the
 * shape of x but along the axis. What argsort, argmax and top_k found is taken so. */
TL_API tl_tensor *tl_take_along_axis(tl_ctx *c, tl_tensor *x, tl_tensor *indices, int64_t axis);
/* The reverse, added into zeros with `size` places along the axis: the gradient of the one above.
 * */
TL_API tl_tensor *tl_take_along_axis_grad(tl_ctx *c, tl_tensor *updates, tl_tensor *indices,
                                          int64_t axis, int64_t size);

/* Where the elements are true (not 0): int64 [n, rank], in row-major order. How many there are is
 * known only when they are there, so this is refused while capturing; tl_where does without. */
TL_API tl_tensor *tl_where_indices(tl_ctx *c, tl_tensor *condition);

TL_END

#endif
