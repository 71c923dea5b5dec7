/* Many tensors as one flat one: how the gradients of a block of parameters come together.
 *
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_PACK_H
#define TILTH_OPS_PACK_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* Tensors of one type laid flat into `elements` elements, each from its offset on; what lies
 * between them is 0. Offsets increase, and tensors do not overlap. */
TL_API tl_tensor *tl_pack(tl_ctx *c, int count, tl_tensor *const *tensors, const int64_t *offsets,
                          int64_t elements);

TL_END

#endif
