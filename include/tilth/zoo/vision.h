/* Image classification: the model around a backbone, and the task that trains it.
 *
 *     tilth train --experiment=fashion_mnist/cnn --mode=train_and_eval --model_dir=runs/cnn
 *
 *     task:
 *       model:
 *         num_classes: 10
 *         input_size: [32, 32, 3]
 *         backbone: {type: resnet, resnet: {model_id: 18, stem_type: cifar}}
 *       train_data: {input_path: 'cifar/train*', global_batch_size: 128}
 *
 * In C, without a task:
 *
 *     tl_image_model_config m;
 *     TL_TRY(tl_desc_defaults(arena, &tl_image_model_config_desc, &m));
 *     m.num_classes = 10;
 *     m.input_size = (tl_ints){(const int64_t[]){28, 28, 1}, 3};
 *     m.backbone = (tl_oneof){.type = "cnn"};                  // or with .value: its configuration
 *     TL_TRY(tl_image_classifier_new(&model, &(tl_image_classifier_args){
 *         .engine = e, .config = &m, .registry = r, .arena = arena}));
 *     tl_tensor *logits = tl_call(c, model, images);           // [batch, height, width, channels]
 *
 * Names and defaults are those of Model Garden's official/vision/configs. What it has and is not
 * here yet is refused when it is asked for.
 *
 * Thread word: immutable (configurations, classes). */
#ifndef TILTH_ZOO_VISION_H
#define TILTH_ZOO_VISION_H

#include <tilth/data/augment.h>
#include <tilth/data/contrast.h>
#include <tilth/data/image_folder.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/model.h>
#include <tilth/train/multitask/multitask.h>
#include <tilth/train/task.h>
#include <tilth/zoo/backbone.h>

TL_BEGIN

/* --- the model -------------------------------------------------------------------------------- */

typedef struct tl_image_model_config {
    int64_t num_classes;
    tl_ints input_size; /* height, width, channels */
    tl_oneof backbone;  /* of tl_kind_backbone; without a value: its defaults */
    double dropout_rate;
    tl_norm_activation norm_activation;
    bool add_head_batch_norm;
    const char *kernel_initializer; /* of the head: random_uniform */
    bool output_softmax;            /* only metrics see it */
} tl_image_model_config;
extern TL_API const tl_desc tl_image_model_config_desc;

typedef struct tl_image_classifier_args {
    tl_engine *engine;
    const tl_image_model_config *config; /* must outlive the model and its copies */
    /* w: w / 2 times the squares of all kernels is added to the loss */
    double l2_weight_decay;
    int64_t batch_size; /* (optional: 1) of the rehearsal */
    uint64_t seed;
    tl_dtype dtype;
    /* knows the backbone; must outlive the model and its copies */
    const tl_registry *registry;
    tl_arena *arena; /* lives as long as the model and its copies */
} tl_image_classifier_args;
/* backbone, optional batch norm, mean over the map, dropout, dense layer: logits [batch, classes].
 * The backbone is the part "backbone" of checkpoints. */
TL_API TL_NODISCARD tl_status tl_image_classifier_new(tl_model **out,
                                                      const tl_image_classifier_args *args);

/* Several classifiers on one backbone, for multi-task training. Each is a part of the model
 * (tl_model_part) under its name, and shares the layer "backbone" with the others. */
typedef struct tl_shared_image_model_config {
    tl_ints input_size; /* height, width, channels */
    tl_oneof backbone;  /* as in tl_image_model_config */
    tl_norm_activation norm_activation;
    double l2_weight_decay; /* of the backbone, as in tl_image_classifier_args */
} tl_shared_image_model_config;
extern TL_API const tl_desc tl_shared_image_model_config_desc;

typedef struct tl_shared_head {
    const char *name;
    const tl_image_model_config *config; /* its input_size must be the shared one; the backbone is
                                          * not asked */
    double l2_weight_decay;
} tl_shared_head;
typedef struct tl_image_heads_args {
    tl_engine *engine;
    const tl_shared_image_model_config *config; /* must outlive the model, as those of the heads */
    const tl_shared_head *heads;
    int64_t head_count;
    int64_t batch_size; /* (optional: 1) of the rehearsal */
    uint64_t seed;
    tl_dtype dtype;
    const tl_registry *registry; /* knows the backbone; must outlive the model and its copies */
    tl_arena *arena;             /* lives as long as the model and its copies */
} tl_image_heads_args;
TL_API TL_NODISCARD tl_status tl_image_heads_new(tl_model **out, const tl_image_heads_args *args);

/* --- data ------------------------------------------------------------------------------------- */

typedef enum tl_image_files {
    TL_IMAGES_TFRECORD, /* tf.train.Example with encoded images */
    TL_IMAGES_SSTABLE,  /* (refused) */
    TL_IMAGES_TFDS,     /* (refused) */
    TL_IMAGES_IDX,      /* a pair of idx files: images, labels */
    TL_IMAGES_FOLDER,   /* a folder with a subfolder for each class */
    TL_IMAGES_SYNTHETIC /* made up: bright patterns that can be learned, for trying out */
} tl_image_files;

typedef enum tl_image_resize {
    TL_IMAGE_BILINEAR,
    TL_IMAGE_NEAREST,
    TL_IMAGE_AREA,
    TL_IMAGE_BICUBIC
} tl_image_resize;

typedef struct tl_image_data_config {
    tl_data_config base;
    const char *dtype;
    tl_image_files file_type;
    const char *image_field_key, *label_field_key;
    bool decode_jpeg_only, is_multilabel;
    bool aug_crop, aug_rand_hflip;
    tl_doubles crop_area_range;
    double center_crop_fraction;
    tl_image_resize tf_resize_method;
    double color_jitter;
    const char *aug_policy;       /* NULL, or autoaug or randaug with the defaults of long ago */
    tl_opt_int randaug_magnitude; /* 10 */
    tl_oneof aug_type;            /* none, or tl_autoaug or tl_randaug; goes before aug_policy */
    tl_random_erasing *random_erasing;     /* or NULL */
    tl_mixup_and_cutmix *mixup_and_cutmix; /* or NULL */
    const tl_value *weights;
    tl_opt_int repeated_augment;
    bool three_augment;
    tl_oneof decoder;
    /* Ours. */
    tl_doubles mean, stddev; /* of bytes, one for each channel; none: ImageNet's */
    /* instead of aug_crop: shifted by up to so many pixels; at most 4096 */
    int64_t aug_pad;
    int64_t synthetic_examples;
    /* larger images are brought down to it before all else; 0: as they are */
    int64_t shorter_side;
    /* share that is held out for validation, by content: data/image_folder.h */
    double holdout;
    /* auto: what is left for train_data, what is held out for validation_data */
    tl_holdout_part holdout_part;
    bool skip_bad;                /* images that cannot be decoded are left out, and told */
    tl_opt_bool exif_orientation; /* null: for file_type image_folder, and for single files */
} tl_image_data_config;
extern TL_API const tl_desc tl_image_data_config_desc;

/* Names of the classes of data, in the order of their numbers: the folders of a folder of images,
 * or the list beside TFRecords (tl_class_list_beside). Empty when there are none, and for records
 * that are not there. `section` stands in messages: "task.train_data". */
TL_API TL_NODISCARD tl_status tl_image_classes(tl_strings *out, tl_arena *arena,
                                               const tl_image_data_config *data,
                                               const char *section);

/* Batches of "image" float32 [batch, height, width, channels], normalised, and "label" int32
 * [batch], as the configuration says. Labels are float32 [batch, num_classes] when images are
 * mixed, or may have several classes. `size` is height, width, channels. */
typedef struct tl_image_inputs_args {
    const tl_image_data_config *data; /* must outlive the dataset */
    tl_ints size;
    int64_t num_classes;
    tl_input_context input;
    bool evaluation; /* each example once, the last short batch too */
    /* also when `data` does not say so: evaluation follows training */
    bool multilabel;
    /* (optional: a folder's own, sorted) Of training, for validation as well: which number a
     * folder's class has. A class that is not among them, and another number of them than
     * num_classes, are errors. */
    tl_strings class_names;
    bool name_examples; /* batches have the field TL_BATCH_NAME too */
    /* (optional: as `data` says) In training images are seen in this way, as floats from 0 to 1:
     * `views` times, one behind the other on the axis of channels. Must outlive the dataset. */
    const tl_contrast_look *look;
    int64_t views;   /* (optional: 1) */
    bool unlabelled; /* classes are not read, and are 0 */
    int threads;     /* (optional: as many as the machine has) */
    tl_arena *arena; /* lives as long as the dataset */
} tl_image_inputs_args;
TL_API TL_NODISCARD tl_status tl_image_inputs(tl_dataset **out, const tl_image_inputs_args *args);

/* What the task does to an image in evaluation: an encoded image in, normalised float32 out,
 * size[0] x size[1] x size[2] of them. A JPEG is turned as its EXIF orientation says unless `data`
 * forbids it. */
TL_API TL_NODISCARD tl_status tl_image_prepare(float *out, const tl_image_data_config *data,
                                               tl_ints size, const void *file, size_t bytes);
/* The same for pixels that are bytes already: [height, width] or [height, width, channels]. */
TL_API TL_NODISCARD tl_status tl_image_prepare_pixels(float *out, const tl_image_data_config *data,
                                                      tl_ints size, tl_shape shape,
                                                      const void *pixels);

/* --- tasks ------------------------------------------------------------------------------------ */

typedef struct tl_image_losses {
    double loss_weight;
    bool one_hot;
    double label_smoothing, l2_weight_decay;
    bool soft_labels, use_binary_cross_entropy;
} tl_image_losses;

typedef struct tl_image_evaluation {
    int64_t top_k;
    tl_doubles precision_and_recall_thresholds;
    bool report_per_class_precision_and_recall;
    /* ours: texts with what was taken for what, and so many of the worst; 0: none */
    int64_t report_mistakes;
} tl_image_evaluation;

typedef struct tl_image_task_config {
    tl_task_config base; /* model: tl_image_model_config; data: tl_image_data_config */
    tl_image_losses losses;
    tl_image_evaluation evaluation;
    tl_ints train_input_partition_dims, eval_input_partition_dims;
    const char *init_checkpoint_modules; /* all or backbone */
    tl_ints model_output_keys;
    bool freeze_backbone;
    tl_strings class_names; /* ours: for people; none: numbers */
    /* ours: steps in which the weights of the backbone stay as they are */
    int64_t freeze_backbone_steps;
} tl_image_task_config;
extern TL_API const tl_desc tl_image_task_config_desc;
/* First member of what derives from the task below:
 *     typedef struct my_task { tl_image_task base; int64_t mine; } my_task;
 * Members are for reading. */
typedef struct tl_image_task {
    tl_task base;
    const tl_image_task_config *config;
    const tl_image_model_config *model;
    const tl_image_data_config *train_data; /* NULL: none */
    /* their names, once they were looked for (tl_image_task_classes) */
    tl_strings classes;
    bool classes_known;
} tl_image_task;
TL_API extern const tl_task_class tl_image_classification_task;

/* Names of the classes of a task of that class, in the order of their numbers: config.class_names,
 * or those of train_data (tl_image_classes), or where that names no files those of validation_data.
 * One mapping for training and evaluation. Empty when there are none. The names are the task's. */
TL_API TL_NODISCARD tl_status tl_image_task_classes(tl_task *t, tl_strings *out);
/* The names that a run has stored go before those of the data, which may not be there any more.
 * Copied. With config.class_names they must be the same. */
TL_API TL_NODISCARD tl_status tl_image_task_set_classes(tl_task *t, tl_strings names);

/* Several tasks of image classification on one backbone: `model` is tl_shared_image_model_config,
 * tasks are those of task_routines. */
TL_API extern const tl_desc tl_image_multi_task_config_desc;
TL_API extern const tl_task_class tl_image_multi_task;

/* The starter example: Model Garden's template for tasks of one's own, and so is
 * src/zoo/vision/example_task.c. */
typedef struct tl_example_model_config {
    int64_t num_classes;
    tl_ints input_size;
} tl_example_model_config;
extern TL_API const tl_desc tl_example_task_config_desc;
TL_API extern const tl_task_class tl_example_task; /* what derives from it begins with a tl_task */

/* Backbones, tasks and experiments, ready for a registry. */
TL_API extern const tl_module tl_vision_module;

TL_END

#endif
