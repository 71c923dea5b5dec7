/* Tensors from numbers.
 *
 *     tl_tensor *positions = tl_arange(c, TL_I32, 0, length, 1);
 *     tl_tensor *targets = tl_one_hot(c, labels, classes, TL_F32);
 *
 * None of them has a gradient. Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_CREATE_H
#define TILTH_OPS_CREATE_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* Every element is `value`. An integer type wants a whole number that it can hold. */
TL_API tl_tensor *tl_full(tl_ctx *c, tl_dtype dtype, tl_shape shape, double value);
TL_API tl_tensor *tl_zeros(tl_ctx *c, tl_dtype dtype, tl_shape shape);
TL_API tl_tensor *tl_ones(tl_ctx *c, tl_dtype dtype, tl_shape shape);
/* A copy of the host's elements, row-major, in the type `dtype`. While capturing it is a constant
 * of the program. */
TL_API tl_tensor *tl_from(tl_ctx *c, tl_dtype dtype, tl_shape shape, const void *elements);
TL_API tl_tensor *tl_from_doubles(tl_ctx *c, tl_dtype dtype, tl_shape shape,
                                  const double *elements);
TL_API tl_tensor *tl_number(tl_ctx *c, tl_dtype dtype, double value);

/* [start, start + step, ...] up to `stop`, which is not reached; empty when `stop` lies behind
 * `start`. Element i is start + i * step, rounded once. Integer types want whole numbers that they
 * can hold. */
TL_API tl_tensor *tl_arange(tl_ctx *c, tl_dtype dtype, double start, double stop, double step);
/* Of the shape of `indices` (integers) and `depth` behind it: 1 at the index, 0 elsewhere. An index
 * outside of [0, depth) gives zeros only. */
TL_API tl_tensor *tl_one_hot(tl_ctx *c, tl_tensor *indices, int64_t depth, tl_dtype dtype);
/* [rows, columns], 1 on the diagonal and 0 elsewhere. */
TL_API tl_tensor *tl_eye(tl_ctx *c, tl_dtype dtype, int64_t rows, int64_t columns);

TL_END

#endif
