/* Collectives: what the lanes of a run bring and get together, in the middle of a step.
 *
 *     tl_tensor *rows = tl_all_gather(c, x);                // [n, d] to [lanes * n, d]
 *     tl_tensor *sum = tl_all_reduce(c, x);                 // of all lanes
 *
 * Lanes are those of the context's strand (core/strands.h); a context without one is alone, and
 * gets its own input back. All lanes make the same calls in the same order, with inputs of one type
 * and shape. Sums are added by the tree of lanes, so that results have the same bits however many
 * processes carry the lanes.
 *
 * Gradients are those of the sum of what all lanes minimise: whoever reads what others brought
 * teaches them. So the gradient of all_gather is reduce_scatter, that of reduce_scatter is
 * all_gather, and that of all_reduce is all_reduce.
 *
 * Precision: sums of bfloat16 and float16 are added in float32, and rounded at each node of the
 * tree. Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_COMM_H
#define TILTH_OPS_COMM_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* The inputs of all lanes behind each other along axis 0, in the order of lanes. */
TL_API tl_tensor *tl_all_gather(tl_ctx *c, tl_tensor *x);
/* Their sum. Not of bool. */
TL_API tl_tensor *tl_all_reduce(tl_ctx *c, tl_tensor *x);
/* Of their sum the lane's own part: axis 0 is cut into as many parts as there are lanes. Not of
 * bool. */
TL_API tl_tensor *tl_reduce_scatter(tl_ctx *c, tl_tensor *x);
/* The number of the lane, from 0: an int32 scalar, which a captured program has anew in each
 * run. */
TL_API tl_tensor *tl_lane(tl_ctx *c);

TL_END

#endif
