/* Ops that bring many elements together.
 *
 *     tl_sum(c, x, TL_AXES(1, 2), false)                     // over two axes
 *     tl_mean(c, x, TL_ALL, false)                           // over all of them
 *
 * Precision: sums of bfloat16 and float16 are kept in float32 and rounded once.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_REDUCE_H
#define TILTH_OPS_REDUCE_H

#include <tilth/ops/apply.h>

TL_BEGIN

/* Axes, negative ones counted from the end. NULL items: all axes. */
typedef tl_ints tl_axes;
#define TL_AXES(...)                                                                               \
    ((tl_axes){(const int64_t[]){__VA_ARGS__}, TL_COUNT(((const int64_t[]){__VA_ARGS__}))})
#define TL_ALL ((tl_axes){NULL, 0})

/* `keep_dims` leaves a 1 where an axis was. */
TL_API tl_tensor *tl_sum(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);

TL_END

#endif
