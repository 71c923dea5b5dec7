/* Ops that bring numbers to mean 0 and deviation 1.
 *
 *     y = tl_layer_normalize(c, x, gamma, beta, 1, 1e-6);                    // over the last axis
 *     y = tl_batch_normalize(c, x, gamma, beta, 1e-3, &mean, &variance);     // training
 *     y = tl_batch_norm_apply(c, x, mean, variance, gamma, beta, 1e-3);      // evaluation
 *
 * gamma multiplies and beta is added; either may be NULL. They are of the type of x, or of the type
 * in which is computed.
 *
 * Precision: computed in float32 (float64 for float64) and rounded once. Means and variances are
 * float32 (float64), whatever the type of x. Variances are those of the numbers themselves (divided
 * by their count, not by one less). Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_NORM_H
#define TILTH_OPS_NORM_H

#include <tilth/ops/reduce.h>

TL_BEGIN

/* Over the last `axes` axes together; gamma and beta have the shape of those. */
TL_API tl_tensor *tl_layer_normalize(tl_ctx *c, tl_tensor *x, tl_tensor *gamma, tl_tensor *beta,
                                     int64_t axes, double epsilon);
/* x / sqrt(mean of x^2 + epsilon): the mean is left where it is. */
TL_API tl_tensor *tl_rms_normalize(tl_ctx *c, tl_tensor *x, tl_tensor *gamma, int64_t axes,
                                   double epsilon);
/* x: [N, ..., C]. Each example's channels in `groups` groups of neighbours; gamma and beta are [C].
 */
TL_API tl_tensor *tl_group_normalize(tl_ctx *c, tl_tensor *x, tl_tensor *gamma, tl_tensor *beta,
                                     int64_t groups, double epsilon);

/* x: [..., C]. Each channel over all that is before it; gamma and beta are [C]. `mean` and
 * `variance` get what was found, [C] each, for running averages (tl_update_ema); NULL is fine. */
TL_API tl_tensor *tl_batch_normalize(tl_ctx *c, tl_tensor *x, tl_tensor *gamma, tl_tensor *beta,
                                     double epsilon, tl_tensor **mean, tl_tensor **variance);
/* The same in two halves, between which several machines bring their statistics together: mean and
 * variance of each channel; then (x - mean) / sqrt(variance + epsilon) * gamma + beta. The second
 * half alone is batch normalisation in evaluation. Gradients flow through all inputs of both. */
TL_API bool tl_batch_norm_stats(tl_ctx *c, tl_tensor *x, tl_tensor **mean, tl_tensor **variance);
TL_API tl_tensor *tl_batch_norm_apply(tl_ctx *c, tl_tensor *x, tl_tensor *mean, tl_tensor *variance,
                                      tl_tensor *gamma, tl_tensor *beta, double epsilon);

/* x / sqrt(max(sum of x^2 over the axes, epsilon)). */
TL_API tl_tensor *tl_l2_normalize(tl_ctx *c, tl_tensor *x, tl_axes axes, double epsilon);

TL_END

#endif
