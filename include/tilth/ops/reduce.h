/* Ops that bring many elements together.
 *
 *     tl_tensor *sums = tl_sum(c, x, TL_AXES(1, 2), false);  // over two axes
 *     tl_tensor *mean = tl_mean(c, x, TL_ALL, false);        // over all of them
 *     x = tl_sub(c, x, tl_max(c, x, TL_AXES(-1), true));     // the 1 that is left broadcasts
 *
 * `keep_dims` leaves a 1 where an axis was. The result has the type of the input, unless said
 * otherwise.
 *
 * Precision: bfloat16 and float16 are brought together in float32 and rounded once. Integers wrap
 * around at the ends of their type. Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_REDUCE_H
#define TILTH_OPS_REDUCE_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* Axes, negative ones counted from the end. NULL items: all axes. */
typedef tl_ints tl_axes;
#define TL_AXES(...)                                                                               \
    TL_VALUE_(tl_axes, TL_ITEMS_(const int64_t, __VA_ARGS__),                                      \
              TL_COUNT_OF_(const int64_t, __VA_ARGS__))
#define TL_ALL TL_VALUE_(tl_axes, NULL, 0)

/* --- numbers ---------------------------------------------------------------------------------- */

/* 0 of no elements. */
TL_API tl_tensor *tl_sum(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);
/* 1 of no elements. The gradient is right where elements are 0, too. */
TL_API tl_tensor *tl_prod(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);
/* NaN when any is. Of no elements there is none, which is refused. Elements that tie share the
 * gradient evenly. */
TL_API tl_tensor *tl_max(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);
TL_API tl_tensor *tl_min(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);

/* Floats only. NaN of no elements. */
TL_API tl_tensor *tl_mean(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);
/* Mean square distance from the mean; the divisor is the number of elements less `correction`,
 * which is 0 or 1. NaN when the divisor is 0. Floats only. */
TL_API tl_tensor *tl_variance(tl_ctx *c, tl_tensor *x, tl_axes axes, int64_t correction,
                              bool keep_dims);
/* The square root of it. Its gradient is not finite where all elements are the same. */
TL_API tl_tensor *tl_std(tl_ctx *c, tl_tensor *x, tl_axes axes, int64_t correction, bool keep_dims);
/* log(sum(exp(x))) without overflow; minus infinity of no elements, and of elements that all are,
 * whose gradient is 0. Floats only. */
TL_API tl_tensor *tl_logsumexp(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);

/* --- truth: the result is bool, numbers count as "not 0" -------------------------------------- */

/* Of no elements: false, and true. */
TL_API tl_tensor *tl_any(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);
TL_API tl_tensor *tl_all(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);

/* --- along one axis --------------------------------------------------------------------------- */

/* Where along the axis: int64. The first of those that tie; NaN is above, and below, everything. An
 * axis without elements is refused. */
TL_API tl_tensor *tl_argmax(tl_ctx *c, tl_tensor *x, int64_t axis, bool keep_dims);
TL_API tl_tensor *tl_argmin(tl_ctx *c, tl_tensor *x, int64_t axis, bool keep_dims);
/* Sums of all elements up to here, from the end when `reverse`; `exclusive` leaves the element
 * itself out. */
TL_API tl_tensor *tl_cumsum(tl_ctx *c, tl_tensor *x, int64_t axis, bool exclusive, bool reverse);

TL_END

#endif
