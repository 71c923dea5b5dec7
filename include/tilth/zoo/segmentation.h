/* Semantic segmentation: a class for each pixel. DeepLabV3 and V3+, and heads on a pyramid; and the
 * task that trains them.
 *
 *     tilth train --experiment=segmentation/local --mode=train_and_eval --model_dir=runs/shapes
 *
 * In C, without a task:
 *
 *     tl_segmentation_config m;
 *     TL_TRY(tl_desc_defaults(arena, &tl_segmentation_config_desc, &m));
 *     m.num_classes = 21;
 *     m.backbone = (tl_oneof){.type = "resnet"};
 *     m.decoder = (tl_oneof){.type = "fpn"};
 *     TL_TRY(tl_segmentation_new(&model, &(tl_segmentation_args){
 *         .engine = e, .config = &m, .size = {512, 512, 3}, .registry = r, .arena = arena}));
 *     tl_tensor *logits = tl_call(c, model, images); // [batch, rows, columns, classes]
 *
 * Logits have the size of the maps that the head looks at; losses and metrics bring them to that of
 * the masks. Names and defaults are those of Model Garden's
 * official/vision/configs/semantic_segmentation.py. What it has and is not here yet is refused when
 * it is asked for.
 *
 * Thread word: immutable (configurations, classes). */
#ifndef TILTH_ZOO_SEGMENTATION_H
#define TILTH_ZOO_SEGMENTATION_H

#include <tilth/nn/model.h>
#include <tilth/nn/segmentation_loss.h>
#include <tilth/train/task.h>
#include <tilth/zoo/decoder.h>

TL_BEGIN

/* --- the model -------------------------------------------------------------------------------- */

typedef enum tl_feature_fusion {
    TL_FUSION_NONE,          /* the decoder's map of `level` */
    TL_FUSION_DEEPLABV3PLUS, /* beside it a finer one of the backbone */
    TL_FUSION_SUM_TO_MERGE,  /* the two added */
    TL_FUSION_PYRAMID,       /* the sum of all levels of the decoder, at the size of `level` */
    TL_FUSION_PANOPTIC       /* (refused) */
} tl_feature_fusion;

typedef struct tl_segmentation_head {
    int64_t level;                  /* 3 */
    int64_t num_convs, num_filters; /* 2, 256 */
    bool use_depthwise_convolution;
    int64_t prediction_kernel_size, upsample_factor; /* 1, 1 */
    tl_feature_fusion feature_fusion;
    const tl_value *low_level;     /* 2: of the backbone, or the name of another endpoint */
    int64_t low_level_num_filters; /* 48 */
    tl_opt_int decoder_min_level, decoder_max_level; /* null; of panoptic_fpn_fusion */
    const char *logit_activation;                    /* null */
} tl_segmentation_head;

typedef struct tl_segmentation_config {
    int64_t num_classes;
    const tl_value *input_size;   /* [height, width, channels]; null: as the data are */
    int64_t min_level, max_level; /* 3, 6 */
    tl_segmentation_head head;
    tl_oneof backbone, decoder;        /* resnet, identity */
    const tl_value *mask_scoring_head; /* (refused) */
    tl_norm_activation norm_activation;
} tl_segmentation_config;
TL_API extern const tl_desc tl_segmentation_head_desc, tl_segmentation_config_desc;

typedef struct tl_segmentation_args {
    tl_engine *engine;
    const tl_segmentation_config *config; /* must outlive the model and its copies */
    int64_t size[3];                      /* of images: height, width, channels */
    /* w: w / 2 times the squares of all kernels is added to the loss */
    double l2_weight_decay;
    int64_t batch_size; /* (optional: 1) of the rehearsal */
    uint64_t seed;
    tl_dtype dtype;
    /* knows backbone and decoder; must outlive the model and its copies */
    const tl_registry *registry;
    tl_arena *arena; /* lives as long as the model and its copies */
} tl_segmentation_args;
/* "image" in, "logits" out. Backbone, decoder and head are parts of checkpoints. */
TL_API TL_NODISCARD tl_status tl_segmentation_new(tl_model **out, const tl_segmentation_args *args);

/* --- the task --------------------------------------------------------------------------------- */

typedef struct tl_segmentation_losses {
    tl_segmentation_loss_config pixels; /* its members are here in YAML */
    double loss_weight;
    double l2_weight_decay;
    double mask_scoring_weight; /* of the mask scoring head */
} tl_segmentation_losses;

typedef struct tl_segmentation_evaluation {
    bool report_per_class_iou, report_train_mean_iou; /* true, true */
} tl_segmentation_evaluation;

/* Only read where models are exported for serving. */
typedef struct tl_segmentation_export_config {
    bool rescale_output;
} tl_segmentation_export_config;

typedef struct tl_segmentation_task_config {
    tl_task_config base; /* model: tl_segmentation_config; data: tl_segmentation_data_config */
    tl_segmentation_losses losses;
    tl_segmentation_evaluation evaluation;
    tl_ints train_input_partition_dims, eval_input_partition_dims;
    const tl_value *init_checkpoint_modules; /* all, backbone, decoder, or a list */
    tl_segmentation_export_config export_config;
    tl_strings class_names; /* ours: for people; none: numbers */
} tl_segmentation_task_config;
TL_API extern const tl_desc tl_segmentation_task_config_desc;
/* What derives from it begins with a tl_task. */
TL_API extern const tl_task_class tl_segmentation_task;

/* Tasks and experiments, ready for a registry. */
TL_API extern const tl_module tl_segmentation_module;

TL_END

#endif
