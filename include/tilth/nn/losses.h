/* The losses that ship: each a function that gives one value an example, and a registered class
 * with a reduction, so that YAML can name it (`type: huber`). Names and definitions are Keras's.
 *
 *     each = tl_categorical_crossentropy(c, y, p, &(tl_crossentropy_config){.from_logits = true});
 *     TL_TRY(tl_loss_new(&l, &tl_loss_huber, &(tl_huber_config){.delta = TL_SET(2)}, NULL));
 *
 * Targets of any type are cast to that of the predictions; a last dimension of 1 on either side is
 * left out where the other lacks it. The last axis is brought together (a mean, or a sum for those
 * of distributions), so the result has one dimension less, unless told otherwise. A scalar is one
 * example.
 *
 * Configurations given to functions are taken as they are: members that are left out are zero, and
 * the defaults behind them are those of the classes.
 *
 * Precision: bfloat16 and float16 are computed in float32; losses are float32 (float64 for
 * float64). Thread word: one thread at a time. */
#ifndef TILTH_NN_LOSSES_H
#define TILTH_NN_LOSSES_H

#include <tilth/nn/loss.h>

TL_BEGIN

TL_API extern const tl_module tl_losses_module;

/* --- probabilities ---------------------------------------------------------------------------- */

/* Predictions are probabilities, or logits. From probabilities those below 1e-7 and above 1 - 1e-7
 * are moved there; logits are exact, and faster. */
typedef struct tl_crossentropy_config {
    tl_loss_config loss;
    bool from_logits;       /* false */
    double label_smoothing; /* 0: this share of the targets is spread evenly */
} tl_crossentropy_config;
/* Each element a question of its own: the mean over the last axis. */
TL_API tl_tensor *tl_binary_crossentropy(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                                         const tl_crossentropy_config *how);
TL_API extern const tl_loss_class tl_loss_binary_crossentropy;
/* -sum(y log p) over the last axis; probabilities are divided by their sum first. */
TL_API tl_tensor *tl_categorical_crossentropy(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                                              const tl_crossentropy_config *how);
TL_API extern const tl_loss_class tl_loss_categorical_crossentropy;

typedef struct tl_sparse_crossentropy_config {
    tl_loss_config loss;
    bool from_logits;        /* false */
    tl_opt_int ignore_class; /* null: examples with this label have loss 0 */
} tl_sparse_crossentropy_config;
/* Targets are class numbers [...], predictions [..., classes]. */
TL_API tl_tensor *tl_sparse_categorical_crossentropy(tl_ctx *c, tl_tensor *y_true,
                                                     tl_tensor *y_pred,
                                                     const tl_sparse_crossentropy_config *how);
TL_API extern const tl_loss_class tl_loss_sparse_categorical_crossentropy;

/* Cross-entropies where examples that are answered well count less: times (1 - p of the
 * target)^gamma.
 */
typedef struct tl_focal_config {
    tl_loss_config loss;
    bool from_logits;           /* false */
    double label_smoothing;     /* 0 */
    tl_opt_double alpha;        /* 0.25: weight of targets of 1; of those of 0, 1 - alpha */
    tl_opt_double gamma;        /* 2 */
    bool apply_class_balancing; /* (binary) false: alpha is not used */
} tl_focal_config;
TL_API tl_tensor *tl_binary_focal_crossentropy(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                                               const tl_focal_config *how);
TL_API extern const tl_loss_class tl_loss_binary_focal_crossentropy;
/* -sum(alpha (1 - p)^gamma y log p) over the last axis. */
TL_API tl_tensor *tl_categorical_focal_crossentropy(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                                                    const tl_focal_config *how);
TL_API extern const tl_loss_class tl_loss_categorical_focal_crossentropy;
/* That of detectors: of logits, balanced by alpha, and one value for each element. */
TL_API tl_tensor *tl_focal(tl_ctx *c, tl_tensor *y_true, tl_tensor *logits, double alpha,
                           double gamma);
typedef struct tl_focal_loss_config {
    tl_loss_config loss;
    tl_opt_double alpha, gamma; /* 0.25, 2 */
} tl_focal_loss_config;
TL_API extern const tl_loss_class tl_loss_focal;

/* sum(y log(y / p)), both moved to at least 1e-7 and at most 1. */
TL_API tl_tensor *tl_kl_divergence(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_kl_divergence;
/* mean(p - y log(p + 1e-7)) */
TL_API tl_tensor *tl_poisson(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_poisson;

/* --- distances -------------------------------------------------------------------------------- */

TL_API tl_tensor *tl_mean_squared_error(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_mean_squared_error;
TL_API tl_tensor *tl_mean_absolute_error(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_mean_absolute_error;
/* 100 mean(|y - p| / max(|y|, 1e-7)) */
TL_API tl_tensor *tl_mean_absolute_percentage_error(tl_ctx *c, tl_tensor *y_true,
                                                    tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_mean_absolute_percentage_error;
/* mean((log(y + 1) - log(p + 1))^2), both moved to at least 1e-7 first. */
TL_API tl_tensor *tl_mean_squared_logarithmic_error(tl_ctx *c, tl_tensor *y_true,
                                                    tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_mean_squared_logarithmic_error;
/* e^2 / 2 where |e| is at most delta, delta |e| - delta^2 / 2 elsewhere. */
TL_API tl_tensor *tl_huber(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred, double delta);
typedef struct tl_huber_config {
    tl_loss_config loss;
    tl_opt_double delta; /* 1 */
} tl_huber_config;
TL_API extern const tl_loss_class tl_loss_huber;
/* Huber's over beta: e^2 / (2 beta) where |e| is below beta, |e| - beta / 2 elsewhere. */
TL_API tl_tensor *tl_smooth_l1(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred, double beta);
typedef struct tl_smooth_l1_config {
    tl_loss_config loss;
    tl_opt_double beta; /* 1 */
} tl_smooth_l1_config;
TL_API extern const tl_loss_class tl_loss_smooth_l1;
/* mean(log(cosh(p - y))) without overflow. */
TL_API tl_tensor *tl_log_cosh(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_log_cosh;
/* Minus the cosine of the angle between the two along the last axis: -1 is the same direction; 0
 * when either is all zeros. */
TL_API tl_tensor *tl_cosine_similarity(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_cosine_similarity;

/* --- margins: targets are -1 and 1; 0 and 1 are taken as these when there is nothing else ----- */

/* mean(max(1 - y p, 0)), and of its squares */
TL_API tl_tensor *tl_hinge(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_hinge;
TL_API tl_tensor *tl_squared_hinge(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_squared_hinge;
/* max(max((1 - y) p) - sum(y p) + 1, 0), of targets 0 and 1. */
TL_API tl_tensor *tl_categorical_hinge(tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API extern const tl_loss_class tl_loss_categorical_hinge;

TL_END

#endif
