/* Gradients: walks the recorded calls backwards. A gradient is made of ops, so it runs eagerly, is
 * captured, and can be differentiated again like anything else.
 *
 *     bool before = tl_ctx_set_taping(c, true);
 *     TL_TRY(tl_watch(w));                                      // parameters of models are watched
 *     tl_tensor *loss = tl_mean(c, tl_square(c, tl_sub(c, tl_matmul(c, x, w), y)), TL_ALL, false);
 *     tl_tensor *g;
 *     TL_TRY(tl_gradient(c, loss, &w, 1, &g));
 *     tl_ctx_set_taping(c, before);
 *
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_GRADIENT_H
#define TILTH_OPS_GRADIENT_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* Gradients flow to this tensor from now on. Integers have none, which is TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_watch(tl_tensor *t);

typedef struct tl_gradient_args {
    tl_tensor *of;        /* usually a scalar */
    tl_tensor *seed;      /* of the shape of `of`; NULL: ones */
    tl_tensor *const *by; /* with respect to these */
    int64_t count;
    bool differentiable; /* record the gradient itself, for a gradient of it */
} tl_gradient_args;
/* Sets out[i] to the gradient by by[i], of its shape and type; zeros where `of` does not depend on
 * it. Fused ops refuse `differentiable`, by name. */
TL_API TL_NODISCARD tl_status tl_gradient_of(tl_ctx *c, const tl_gradient_args *args,
                                             tl_tensor **out);
TL_API TL_NODISCARD tl_status tl_gradient(tl_ctx *c, tl_tensor *of, tl_tensor *const *by,
                                          int64_t count, tl_tensor **out);

/* For gradients of ops: whether what they make will be differentiated again. Then they are written
 * with plain ops; otherwise they may use a fused one. */
TL_API bool tl_gradient_differentiable(const tl_ctx *c);
/* `g` summed over what broadcasting stretched: the gradient of an input of shape `shape`. */
TL_API tl_tensor *tl_sum_to(tl_ctx *c, tl_tensor *g, const tl_shape *shape);

TL_END

#endif
