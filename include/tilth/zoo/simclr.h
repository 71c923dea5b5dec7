/* SimCLR: features of images learned without labels, then a classifier that stands on them. Names,
 * defaults and arithmetic are those of Model Garden's official/projects/simclr.
 *
 *     tilth train --experiment=simclr/local --mode=train_and_eval --model_dir=runs/features
 *     tilth train --experiment=simclr/local_finetuning --mode=train_and_eval \
 *         --model_dir=runs/tuned task.init_checkpoint=runs/features
 *
 * Pre-training sees two views of each image (data/contrast.h), and learns which of all views of a
 * batch belong together (nn/contrastive_loss.h). A supervised head beside it learns the classes
 * from features that it cannot change: its accuracy tells how good these are. Fine-tuning takes the
 * backbone, and the first layers of the projection head, and trains them with labels.
 *
 * Images are floats from 0 to 1. The batches of pre-training have the views of an image one behind
 * the other on the axis of channels: [batch, height, width, 2 channels].
 *
 * Thread word: immutable (configurations, classes). */
#ifndef TILTH_ZOO_SIMCLR_H
#define TILTH_ZOO_SIMCLR_H

#include <tilth/data/contrast.h>
#include <tilth/nn/contrastive_loss.h>
#include <tilth/zoo/vision.h>

TL_BEGIN

typedef enum tl_simclr_mode { TL_SIMCLR_PRETRAIN, TL_SIMCLR_FINETUNE } tl_simclr_mode;

/* --- data ------------------------------------------------------------------------------------- */

typedef enum tl_simclr_jitter {
    TL_SIMCLR_V1, /* brightness is added */
    TL_SIMCLR_V2  /* and multiplied */
} tl_simclr_jitter;

typedef struct tl_simclr_parser {
    bool aug_rand_crop, aug_rand_hflip;
    bool aug_color_distort; /* in pre-training, as blur */
    double aug_color_jitter_strength;
    tl_simclr_jitter aug_color_jitter_impl;
    bool aug_rand_blur;
    bool parse_label;
    bool test_crop; /* evaluations see the middle; of images above 32 pixels */
    tl_simclr_mode mode;
    tl_doubles crop_area_range; /* ours: of aug_rand_crop */
} tl_simclr_parser;

typedef struct tl_simclr_decoder {
    bool decode_label;
} tl_simclr_decoder;

typedef struct tl_simclr_data_config {
    tl_data_config base;
    const char *dtype;
    tl_simclr_parser parser;
    tl_simclr_decoder decoder;
    bool input_set_label_to_zero;
    /* ours, as in tl_image_data_config */
    tl_image_files file_type;
    int64_t synthetic_examples;
    double holdout;
    tl_holdout_part holdout_part;
} tl_simclr_data_config;
extern TL_API const tl_desc tl_simclr_data_config_desc;

/* --- the model -------------------------------------------------------------------------------- */

typedef struct tl_projection_head {
    int64_t proj_output_dim, num_proj_layers;
    int64_t ft_proj_idx; /* what the supervised head sees: 0 what comes in, n what layer n gives */
} tl_projection_head;

typedef struct tl_supervised_head {
    int64_t num_classes;
    bool zero_init;
} tl_supervised_head;

typedef struct tl_simclr_model_config {
    tl_ints input_size; /* height, width, channels */
    tl_oneof backbone;  /* of tl_kind_backbone */
    tl_projection_head projection_head;
    tl_supervised_head *supervised_head; /* or NULL */
    tl_norm_activation norm_activation;
    tl_simclr_mode mode;
    bool backbone_trainable;
} tl_simclr_model_config;
extern TL_API const tl_desc tl_simclr_model_config_desc;

typedef struct tl_simclr_model_args {
    tl_engine *engine;
    const tl_simclr_model_config *config; /* must outlive the model and its copies */
    double l2_weight_decay;               /* as in tl_image_classifier_args */
    int64_t batch_size;                   /* (optional: 1) of the rehearsal */
    uint64_t seed;
    tl_dtype dtype;
    const tl_registry *registry; /* knows the backbone; must outlive the model and its copies */
    tl_arena *arena;             /* lives as long as the model and its copies */
} tl_simclr_model_args;

#define TL_SIMCLR_CLASSES "supervised_outputs"
#define TL_SIMCLR_PROJECTION "projection_outputs"
/* Gives TL_SIMCLR_CLASSES, logits, where it has a supervised head; and TL_SIMCLR_PROJECTION where
 * it pre-trains. Images of twice the channels are two views: answers are then those of all first
 * views, and behind them those of the second. Parts: backbone, projection_head, supervised_head.
 * In fine-tuning the projection head ends where the supervised head stands. */
TL_API TL_NODISCARD tl_status tl_simclr_model_new(tl_model **out, const tl_simclr_model_args *args);

/* --- tasks ------------------------------------------------------------------------------------ */

typedef struct tl_simclr_contrastive {
    bool projection_norm;
    double temperature, l2_weight_decay;
} tl_simclr_contrastive;
typedef struct tl_simclr_classification {
    double label_smoothing;
    bool one_hot;
    double l2_weight_decay;
} tl_simclr_classification;
typedef struct tl_simclr_evaluation {
    int64_t top_k;
    bool one_hot;
} tl_simclr_evaluation;

/* What both tasks have. */
typedef struct tl_simclr_task_config {
    tl_task_config base; /* model: tl_simclr_model_config; data: tl_simclr_data_config */
    tl_simclr_evaluation evaluation;
    const char *init_checkpoint_modules; /* all, backbone_projection or backbone */
    tl_strings class_names;              /* ours: for people; none: numbers */
} tl_simclr_task_config;
typedef struct tl_simclr_pretrain_config {
    tl_simclr_task_config base;
    tl_simclr_contrastive loss;
} tl_simclr_pretrain_config;
typedef struct tl_simclr_finetune_config {
    tl_simclr_task_config base;
    tl_simclr_classification loss;
} tl_simclr_finetune_config;
extern TL_API const tl_desc tl_simclr_pretrain_config_desc, tl_simclr_finetune_config_desc;

/* First member of what derives from them. */
typedef struct tl_simclr_task {
    tl_task base;
    const tl_image_data_config *images; /* how evaluations see them; NULL: there are no data */
} tl_simclr_task;
TL_API extern const tl_task_class tl_simclr_pretrain_task, tl_simclr_finetune_task;

/* Tasks and experiments, ready for a registry. */
TL_API extern const tl_module tl_simclr_module;

TL_END

#endif
