/* Updates of parameters: ops that write their inputs in place.
 *
 *     tl_tensor *norm, *finite;
 *     tl_finite_and_norm(c, &gradients, 1, &norm, &finite);
 *     tl_update_adam(c, params, gradients, hyper, m, v, NULL,
 *                    &(tl_adam_attr){.beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-7});
 *     TL_TRY(tl_ctx_status(c));
 *
 * They work on whole blocks: all parameters of one kind, one behind the other, and gradients and
 * slots laid out alike. Attributes hold what stays (betas, decay, where the tensors of a block
 * begin); what changes from step to step comes as a tensor, `hyper`, so that a captured program
 * need not be captured again.
 *
 * Each gives false when the context failed, like any op.
 *
 * Precision: parameters and slots are float32 (or all float64); gradients are of any float type and
 * are converted on the way. Computed in the type of the parameters. No update has a gradient.
 * Thread word: one thread at a time for a context; nobody else may use what is written meanwhile.
 */
#ifndef TILTH_OPS_UPDATE_H
#define TILTH_OPS_UPDATE_H

#include <tilth/core/attrs.h>
#include <tilth/core/ctx.h>

TL_BEGIN

/* The elements of `hyper`, [TL_HYPER_COUNT]: float32, or float64 for a block of that type. */
typedef enum tl_hyper {
    TL_HYPER_RATE,  /* learning rate */
    TL_HYPER_STEP,  /* number of this update, from 1 */
    TL_HYPER_SCALE, /* gradients are multiplied by it: clipping, and one over the loss scale */
    TL_HYPER_APPLY, /* 0: leave everything as it is, whatever the gradients hold */
    TL_HYPER_COUNT
} tl_hyper;

/* In the formulas w is a parameter, g its gradient times the scale, lr the rate, t the step. Slots
 * begin at 0, unless it is said otherwise. Tensors whose `decayed` is 0 have a decay of 0; those
 * whose `adapted` is 0 a ratio of 1. */

/* g += decay w. Keras: v = momentum v - lr g; w += v, nesterov: w += momentum v - lr g.
 * PyTorch: v = momentum v + g; w -= lr v, nesterov: w -= lr (g + momentum v).
 * `velocity` is NULL when there is no momentum: w -= lr g. */
TL_API bool tl_update_sgd(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                          tl_tensor *velocity, const tl_sgd_attr *attr);

/* Adam, and AdamW with a decay: w -= lr decay w; m = beta_1 m + (1 - beta_1) g;
 * v = beta_2 v + (1 - beta_2) g^2; with c1 = 1 - beta_1^t and c2 = 1 - beta_2^t
 * Keras: w -= lr sqrt(c2) / c1 m / (sqrt(v) + epsilon).
 * PyTorch: w -= lr / c1 m / (sqrt(v / c2) + epsilon).
 * amsgrad: the greatest v so far, `v_max`, stands for v in the last line; otherwise v_max is NULL.
 */
TL_API bool tl_update_adam(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                           tl_tensor *m, tl_tensor *v, tl_tensor *v_max, const tl_adam_attr *attr);

/* s = rho s + (1 - rho) g^2; centered: a = rho a + (1 - rho) g, and s - a^2 stands for s below.
 * No momentum: w -= lr g / (sqrt(s) + epsilon).
 * Keras: b = momentum b + lr g / sqrt(s + epsilon); w -= b.
 * PyTorch: b = momentum b + g / (sqrt(s) + epsilon); w -= lr b.
 * `average` (a) and `buffer` (b) are NULL when they are not used. */
TL_API bool tl_update_rmsprop(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                              tl_tensor *squares, tl_tensor *average, tl_tensor *buffer,
                              const tl_rmsprop_attr *attr);

/* s += g^2; w -= lr g / (sqrt(s) + epsilon). The slot begins at what the user chooses. */
TL_API bool tl_update_adagrad(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                              tl_tensor *squares, const tl_adagrad_attr *attr);

/* m and v as Adam; u = (m / c1) / (sqrt(v / c2) + epsilon) + decay w; w -= ratio lr u, where the
 * ratio is |w| / |u| of the tensor, and 1 when either is 0. */
TL_API bool tl_update_lamb(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                           tl_tensor *m, tl_tensor *v, const tl_lamb_attr *attr);

/* g += decay w. Classic momentum: ratio = eeta |w| / |g|, 1 when either is 0; v = momentum v + lr
 * ratio g; w -= v, nesterov: w -= momentum v + lr ratio g. Otherwise: v = momentum v + g; u = v,
 * nesterov: momentum v + g; ratio = eeta |w| / |u|, 1 when either is 0; w -= lr ratio u. */
TL_API bool tl_update_lars(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                           tl_tensor *velocity, const tl_lars_attr *attr);

/* Five of Keras; a decay is taken first: w -= lr decay w. */

/* s = rho s + (1 - rho) g^2; u = g sqrt(d + epsilon) / sqrt(s + epsilon);
 * d = rho d + (1 - rho) u^2; w -= lr u. `squares` is s, `steps` d. */
TL_API bool tl_update_adadelta(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                               tl_tensor *squares, tl_tensor *steps, const tl_adadelta_attr *attr);

/* m as Adam; n = max(beta_2 n, |g|); w -= lr / c1 m / (n + epsilon). `norm` is n. */
TL_API bool tl_update_adamax(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                             tl_tensor *m, tl_tensor *norm, const tl_adamax_attr *attr);

/* m and v as Adam; with b(t) = beta_1 (1 - 0.96^t / 2) and p(t) the product of b(1) to b(t)
 * w -= lr (b(t + 1) m / (1 - p(t + 1)) + (1 - b(t)) g / (1 - p(t))) / (sqrt(v / c2) + epsilon). */
TL_API bool tl_update_nadam(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                            tl_tensor *m, tl_tensor *v, const tl_nadam_attr *attr);

/* q = -learning_rate_power; z += g + 2 l2_shrinkage w - ((s + g^2)^q - s^q) / lr w; s += g^2;
 * w = (z clipped to [-l1, l1] - z) / (s^q / lr + 2 l2 + beta / lr), 0 where the dividend is. A rate
 * of 0 leaves everything as it is. `squares` is s, which begins at what the user chooses, `linear`
 * z. */
TL_API bool tl_update_ftrl(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                           tl_tensor *squares, tl_tensor *linear, const tl_ftrl_attr *attr);

/* w -= lr sign(beta_1 m + (1 - beta_1) g); m = beta_2 m + (1 - beta_2) g. */
TL_API bool tl_update_lion(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                           tl_tensor *m, const tl_lion_attr *attr);

/* average = momentum average + (1 - momentum) value: running statistics, averaged weights. The
 * second form reads the momentum from a tensor with one element: float32, or float64 for an average
 * of that type. A momentum of 1 leaves the average as it is, whatever the value holds. */
TL_API bool tl_update_ema(tl_ctx *c, tl_tensor *average, tl_tensor *value, double momentum);
TL_API bool tl_update_ema_by(tl_ctx *c, tl_tensor *average, tl_tensor *value, tl_tensor *momentum);

/* target = value, target += value: counters, sums of metrics. Both are of one type and shape; sums
 * of float16 and bfloat16 are rounded each time, integers wrap. */
TL_API bool tl_assign(tl_ctx *c, tl_tensor *target, tl_tensor *value);
TL_API bool tl_assign_add(tl_ctx *c, tl_tensor *target, tl_tensor *value);
/* The same, where `fresh` (bool, one element) says whether the target counts as zeros. */
TL_API bool tl_assign_sum(tl_ctx *c, tl_tensor *target, tl_tensor *value, tl_tensor *fresh);

/* The Euclidean norm of all blocks together (float32; float64 when the first is), and whether every
 * element is finite (bool): two scalars. */
TL_API bool tl_finite_and_norm(tl_ctx *c, tl_tensor *const *blocks, int count, tl_tensor **norm,
                               tl_tensor **finite);

TL_END

#endif
