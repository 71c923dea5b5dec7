/* The losses of detectors. Each is a function that gives one number for a batch, and a registered
 * class, so that YAML can name it (`type: rpn_box`). Names and formulas are Model Garden's; the
 * class of RetinaNet's scores is `focal`, and that of its boxes `huber` (nn/losses.h).
 *
 *     tl_tensor *loss = tl_rpn_score_loss(c, score_targets[0], rpn_scores[0], 512);
 *     for (int i = 1; i < levels; i++)
 *         loss = tl_add(c, loss, tl_rpn_score_loss(c, score_targets[i], rpn_scores[i], 512));
 *
 * What is divided by is that of the batch at hand, and 0.01 is added to it: a batch without
 * anything to learn has loss 0. A weight of 0 gives 0, and no gradient, whatever the value.
 *
 * Precision: bfloat16 and float16 are computed in float32; losses are float32 (float64 for
 * float64). Thread word: one thread at a time. */
#ifndef TILTH_NN_DETECTION_LOSSES_H
#define TILTH_NN_DETECTION_LOSSES_H

#include <tilth/nn/losses.h>

TL_BEGIN

TL_API extern const tl_module tl_detection_losses_module;

/* --- RetinaNet -------------------------------------------------------------------------------- */

/* Sums over all n anchors of a batch, divided by the number of those that have a box (the sum of
 * box_weights), and 1. */
typedef struct tl_retinanet_loss_args {
    tl_tensor *cls_targets; /* [batch, n]: classes; below 0 it is none of them */
    tl_tensor *box_targets; /* [batch, n, 4] */
    tl_tensor *cls_weights; /* [batch, n] */
    tl_tensor *box_weights; /* [batch, n] */
} tl_retinanet_loss_args;
/* The focal loss of logits [batch, n, classes]. */
TL_API tl_tensor *tl_retinanet_class_loss(tl_ctx *c, const tl_retinanet_loss_args *args,
                                          tl_tensor *logits, double alpha, double gamma);
/* Huber's of codes [batch, n, 4], the mean of the four. */
TL_API tl_tensor *tl_retinanet_box_loss(tl_ctx *c, const tl_retinanet_loss_args *args,
                                        tl_tensor *codes, double delta);

/* --- regions: of one level each; those of several levels are added ---------------------------- */

/* The cross-entropy of targets 0 and 1; others take no part. Divided by the number of images times
 * `rpn_batch_size_per_im`. */
TL_API tl_tensor *tl_rpn_score_loss(tl_ctx *c, tl_tensor *targets, tl_tensor *logits,
                                    int64_t rpn_batch_size_per_im);
typedef struct tl_rpn_score_config {
    tl_loss_config loss;
    int64_t rpn_batch_size_per_im; /* 256 */
} tl_rpn_score_config;
TL_API extern const tl_loss_class tl_loss_rpn_score;

/* Huber's loss of codes [batch, rows, columns, anchors * 4]. Anchors whose target is 0 four times,
 * to 1e-6, take no part. Divided by the number of numbers that do. */
TL_API tl_tensor *tl_rpn_box_loss(tl_ctx *c, tl_tensor *targets, tl_tensor *codes, double delta);
typedef struct tl_rpn_box_config {
    tl_loss_config loss;
    tl_opt_double huber_loss_delta; /* 1 / 9 */
} tl_rpn_box_config;
TL_API extern const tl_loss_class tl_loss_rpn_box;

/* --- what is in regions ----------------------------------------------------------------------- */

/* Targets [batch, n] are classes, logits [batch, n, classes]: the mean of the cross-entropies, each
 * times the weight of its class. With use_binary_cross_entropy each class is a question of its own.
 * A top_k_percent below 1 takes that share of the largest alone, which is rounded down. */
typedef struct tl_fastrcnn_class_config {
    tl_loss_config loss;
    bool use_binary_cross_entropy; /* false */
    tl_opt_double top_k_percent;   /* 1; not set is 1 too */
    tl_doubles class_weights;      /* null: all 1 */
} tl_fastrcnn_class_config;
TL_API tl_tensor *tl_fastrcnn_class_loss(tl_ctx *c, tl_tensor *targets, tl_tensor *logits,
                                         const tl_fastrcnn_class_config *how);
TL_API extern const tl_loss_class tl_loss_fastrcnn_class;

/* Huber's loss of codes [batch, n, 4 * classes], of which the target's class counts, or [batch, n,
 * 4] of all of them; targets [batch, n, 4]. Regions of class 0 take no part. Divided by the number
 * of numbers that do. */
TL_API tl_tensor *tl_fastrcnn_box_loss(tl_ctx *c, tl_tensor *classes, tl_tensor *targets,
                                       tl_tensor *codes, double delta);
typedef struct tl_fastrcnn_box_config {
    tl_loss_config loss;
    tl_opt_double huber_loss_delta; /* 1 */
} tl_fastrcnn_box_config;
/* Its targets are [batch, n, 5]: the class, then the code. */
TL_API extern const tl_loss_class tl_loss_fastrcnn_box;

/* The cross-entropy of the pixels of masks [batch, n, rows, columns], each a question of its own.
 * Regions of class 0 take no part. Divided by the number of pixels that do. */
TL_API tl_tensor *tl_maskrcnn_loss(tl_ctx *c, tl_tensor *classes, tl_tensor *targets,
                                   tl_tensor *logits);
/* Its targets are the masks alone; pixels below 0 take no part. */
TL_API extern const tl_loss_class tl_loss_maskrcnn;

TL_END

#endif
