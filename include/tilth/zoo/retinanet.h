/* RetinaNet: a backbone, a pyramid, and heads that say of each anchor what it shows and how the box
 * around it lies (Lin et al. 2018); and the task that trains it.
 *
 *     tilth train --experiment=detection/local --mode=train_and_eval --model_dir=runs/shapes
 *
 * In C, without a task:
 *
 *     tl_retinanet_config m;
 *     TL_TRY(tl_desc_defaults(arena, &tl_retinanet_config_desc, &m));
 *     m.num_classes = 6;                                       // with the background, which is 0
 *     m.input_size = (tl_ints){(const int64_t[]){96, 96, 3}, 3};
 *     m.backbone = (tl_oneof){.type = "resnet"};
 *     m.decoder = (tl_oneof){.type = "fpn"};
 *     TL_TRY(tl_retinanet_new(&model, &(tl_retinanet_args){
 *         .engine = e, .config = &m, .registry = r, .arena = arena}));
 *     tl_tensors in = {0}, out = {0};
 *     tl_tensors_put(c, &in, "image", images);
 *     tl_call_all(c, model, &in, &out);                        // "cls_outputs/3", "box_outputs/3"
 *     tl_detections found = tl_retinanet_detect(c, &m, &out, image_shape, NULL);
 *
 * Names and defaults are those of Model Garden's official/vision/configs/retinanet.py. What it has
 * and is not here yet is refused when it is asked for.
 *
 * Thread word: immutable (configurations, classes). */
#ifndef TILTH_ZOO_RETINANET_H
#define TILTH_ZOO_RETINANET_H

#include <tilth/nn/detection.h>
#include <tilth/nn/model.h>
#include <tilth/train/task.h>
#include <tilth/zoo/decoder.h>

TL_BEGIN

/* --- the model -------------------------------------------------------------------------------- */

typedef enum tl_attribute_type {
    TL_ATTRIBUTE_REGRESSION,
    TL_ATTRIBUTE_CLASSIFICATION
} tl_attribute_type;

/* Something else that is told of each box: numbers, or one of `size` classes. */
typedef struct tl_attribute_head {
    const char *name;
    tl_attribute_type type;
    int64_t size;                      /* 1 */
    const char *prediction_tower_name; /* heads with the same one share convolutions; "": none */
    tl_opt_int num_convs, num_filters; /* null: as the others */
} tl_attribute_head;

typedef struct tl_retinanet_head {
    int64_t num_convs, num_filters; /* 4, 256 */
    bool use_separable_conv;
    tl_structs attribute_heads;      /* of tl_attribute_head */
    bool share_classification_heads; /* attributes that are classes look at what classes look at */
    bool share_level_convs;          /* true: one set of kernels; batch norms are of each level */
} tl_retinanet_head;

typedef struct tl_retinanet_config {
    int64_t num_classes;
    tl_ints input_size;           /* height, width, channels */
    int64_t min_level, max_level; /* 3, 7 */
    tl_anchor_config anchor;
    tl_oneof backbone, decoder; /* resnet, fpn */
    tl_retinanet_head head;
    tl_multilevel_generator_config detection_generator;
    tl_norm_activation norm_activation;
} tl_retinanet_config;
TL_API extern const tl_desc tl_attribute_head_desc, tl_retinanet_head_desc,
    tl_retinanet_config_desc;

typedef struct tl_retinanet_args {
    tl_engine *engine;
    const tl_retinanet_config *config; /* must outlive the model and its copies */
    /* w: w / 2 times the squares of all kernels is added to the loss */
    double l2_weight_decay;
    int64_t batch_size; /* (optional: 1) of the rehearsal */
    uint64_t seed;
    tl_dtype dtype;
    /* knows backbone and decoder; must outlive the model and its copies */
    const tl_registry *registry;
    tl_arena *arena; /* lives as long as the model and its copies */
} tl_retinanet_args;
/* "image" in, [batch, height, width, channels] with sides that are multiples of 2^max_level; out
 * for each level "cls_outputs/L" [batch, rows, columns, anchors * classes], "box_outputs/L" [batch,
 * rows, columns, anchors * 4] and "attribute_outputs/NAME/L". Backbone, decoder and head are parts
 * of checkpoints. */
TL_API TL_NODISCARD tl_status tl_retinanet_new(tl_model **out, const tl_retinanet_args *args);

/* Where the anchors of an image lie that was padded for the model. */
TL_API tl_anchor_grid tl_retinanet_grid(const tl_retinanet_config *config);
/* What the outputs come to. `image_shape` is [batch, 2], or NULL. `attributes` has room for one
 * tensor for each attribute head; NULL: they are not asked for. */
TL_API tl_detections tl_retinanet_detect(tl_ctx *c, const tl_retinanet_config *config,
                                         const tl_tensors *outputs, tl_tensor *image_shape,
                                         tl_tensor **attributes);

/* --- the task --------------------------------------------------------------------------------- */

typedef struct tl_retinanet_losses {
    double loss_weight;
    double focal_loss_alpha, focal_loss_gamma; /* 0.25, 1.5 */
    double huber_loss_delta;                   /* 0.1 */
    int64_t box_loss_weight;                   /* 50 */
    double l2_weight_decay;
} tl_retinanet_losses;

/* Only read where models are exported for serving. */
typedef struct tl_detection_export_config {
    bool output_normalized_coordinates, cast_num_detections_to_float,
        cast_detection_classes_to_float, output_intermediate_features;
} tl_detection_export_config;

typedef struct tl_retinanet_task_config {
    tl_task_config base; /* model: tl_retinanet_config; data: tl_detection_data_config */
    tl_retinanet_losses losses;
    const tl_value *init_checkpoint_modules; /* all, backbone, decoder, or a list */
    const char *annotation_file;             /* null: the ground truth of validation_data */
    bool per_category_metrics, use_coco_metrics, use_wod_metrics;
    int64_t max_num_eval_detections; /* 100 */
    tl_detection_export_config export_config;
    bool freeze_backbone;
    tl_strings class_names; /* ours: for people, from class 1 on; none: numbers */
} tl_retinanet_task_config;
TL_API extern const tl_desc tl_retinanet_task_config_desc;
/* What derives from it begins with a tl_task. */
TL_API extern const tl_task_class tl_retinanet_task;

/* Decoders, tasks and experiments, ready for a registry. */
TL_API extern const tl_module tl_detection_module;

TL_END

#endif
