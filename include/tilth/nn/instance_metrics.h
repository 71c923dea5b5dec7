/* Model Garden's InstanceMetrics: average precision of detections from counts, so that memory does
 * not grow with the data. Scores are put into bins, and there are no ranges of sizes and no limits
 * on detections; nn/coco_evaluator.h has those.
 *
 *     tl_evaluator *e;
 *     tl_instance_metrics_config config = {.num_classes = 91};
 *     TL_TRY(tl_evaluator_new(&e, &tl_instance_metrics_class, &config, NULL));
 *     TL_TRY(tl_evaluator_update(e, &groundtruths, &predictions));      // each batch
 *     TL_TRY(tl_evaluator_tell(e, logs));                               // ap, ap50, ap75
 *     tl_evaluator_free(&e);
 *
 * Predictions, for a batch of B images with K places each, all of which count:
 *     detection_boxes    [B, K, 4]     ymin, xmin, ymax, xmax in pixels of the network's input
 *     detection_classes  [B, K]        detections of class 0 count nothing
 *     detection_scores   [B, K]
 *     detection_masks    [B, K, h, w]  with use_masks: probabilities inside the box
 *     detection_outer_boxes [B, K, 4]  (optional) the boxes that masks fill
 * Ground truth:
 *     boxes              [B, M, 4]     in pixels of the original image; all below 0: none
 *     classes            [B, M]        0 and less: none
 *     is_crowds          [B, M]        (optional)
 *     masks              [B, M, h, w]  with use_masks: inside the box
 *     image_info         [B, 4, 2]     of which the third row, the scale, divides detections
 *
 * Results: "ap" is the mean over thresholds of the mean over classes that occur, "ap50" and "ap75"
 * that of one threshold; with per_category_metrics also "ap ByCategory/3" and so on. Those of masks
 * begin with "mask_".
 *
 * Ownership: as every evaluator's (nn/evaluator.h). Thread word: one thread at a time. */
#ifndef TILTH_NN_INSTANCE_METRICS_H
#define TILTH_NN_INSTANCE_METRICS_H

#include <tilth/nn/evaluator.h>

TL_BEGIN

typedef struct tl_instance_metrics_config {
    int64_t num_classes; /* with the background */
    bool use_masks;
    bool per_category_metrics;
    tl_doubles iou_thresholds;    /* 0.5, 0.55, ... 0.95 */
    int64_t num_confidence_bins;  /* 1000 */
    tl_ints mask_output_boundary; /* 640, 640: masks are compared on a grid of so many pixels */
} tl_instance_metrics_config;
TL_API extern const tl_desc tl_instance_metrics_desc;
TL_API extern const tl_evaluator_class tl_instance_metrics_class;

TL_END

#endif
