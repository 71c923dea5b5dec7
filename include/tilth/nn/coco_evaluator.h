/* Model Garden's COCOEvaluator: the metric of detection and instance segmentation, and what
 * metrics of one's own derive from. A step gives it batches of ground truth and of detections; at
 * the end it tells the twelve numbers of nn/coco.h by Model Garden's names.
 *
 *     tl_evaluator *coco;
 *     tl_coco_evaluator_config config = {.annotation_file = "instances_val2017.json"};
 *     TL_TRY(tl_evaluator_new(&coco, &tl_coco_evaluator_class, &config, NULL));
 *     TL_TRY(tl_evaluator_update(coco, &groundtruths, &predictions));      // each batch
 *     TL_TRY(tl_evaluator_tell(coco, logs));                               // AP, AP50, ... ARl
 *     tl_evaluator_free(&coco);
 *
 * Predictions, for a batch of B images with K places each:
 *     source_id          [B]           the images' ids
 *     num_detections     [B]           how many places are used; what is in others does not matter
 *     detection_boxes    [B, K, 4]     ymin, xmin, ymax, xmax in pixels of the network's input
 *     detection_classes  [B, K]
 *     detection_scores   [B, K]
 *     image_info         [B, 4, 2]     size, size after resizing, scale, offset: boxes are divided
 *                                      by the scale, unless need_rescale_bboxes is off
 *     detection_masks    [B, K, h, w]  probabilities inside the box, with include_mask
 *     detection_outer_boxes [B, K, 4]  (optional) the boxes that masks fill
 *     weight             [B]           (optional; of the ground truth too) 0: it only fills up a
 *                                      batch and is no image
 *
 * Ground truth, which is not looked at when there is an annotation_file:
 *     source_id, height, width, num_detections  [B]
 *     boxes              [B, K, 4]     in pixels of the original image
 *     classes            [B, K]
 *     is_crowds, areas   [B, K]        (optional)
 *     masks              [B, K, H, W]  with include_mask: 0 is outside. H and W are at least the
 *                                      image's; what lies beyond it does not matter
 *
 * Ownership: as every evaluator's (nn/evaluator.h). Thread word: one thread at a time. */
#ifndef TILTH_NN_COCO_EVALUATOR_H
#define TILTH_NN_COCO_EVALUATOR_H

#include <tilth/nn/coco.h>
#include <tilth/nn/evaluator.h>

TL_BEGIN

typedef struct tl_coco_evaluator_config {
    const char *annotation_file; /* NULL: the ground truth that comes with the batches */
    bool include_mask;
    bool per_category_metrics;
    int64_t max_num_eval_detections; /* 0: 100 */
    tl_opt_bool need_rescale_bboxes; /* true */
} tl_coco_evaluator_config;
TL_API extern const tl_desc tl_coco_evaluator_desc;

/* First member of the structs of evaluators that derive. Members are for reading. */
typedef struct tl_coco_evaluator {
    tl_evaluator base;
    tl_coco_set *truths; /* of the file, or of the batches since the last reset */
    tl_coco_set *found;  /* of the batches since the last reset; its images are those that came */
} tl_coco_evaluator;
TL_API extern const tl_evaluator_class tl_coco_evaluator_class;

/* Evaluates what came since the last reset, for results of one's own. `masks`: by their overlap,
 * with the limits 1, 10, 100. The caller frees the result. */
TL_API TL_NODISCARD tl_status tl_coco_evaluator_evaluate(tl_coco_result **out,
                                                         const tl_coco_evaluator *e, bool masks);

TL_END

#endif
