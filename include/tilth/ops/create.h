/* Tensors from numbers. Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_CREATE_H
#define TILTH_OPS_CREATE_H

#include <tilth/ops/apply.h>

TL_BEGIN

/* Every element is `value`. */
TL_API tl_tensor *tl_full(tl_ctx *c, tl_dtype dtype, tl_shape shape, double value);
TL_API tl_tensor *tl_zeros(tl_ctx *c, tl_dtype dtype, tl_shape shape);
TL_API tl_tensor *tl_ones(tl_ctx *c, tl_dtype dtype, tl_shape shape);
/* A copy of the host's elements, row-major, in the type `dtype`. While capturing it is a constant of
 * the program. */
TL_API tl_tensor *tl_from(tl_ctx *c, tl_dtype dtype, tl_shape shape, const void *elements);
TL_API tl_tensor *tl_from_doubles(tl_ctx *c, tl_dtype dtype, tl_shape shape, const double *elements);
TL_API tl_tensor *tl_number(tl_ctx *c, tl_dtype dtype, double value);

TL_END

#endif
