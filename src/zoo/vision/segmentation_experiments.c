/* Experiments of semantic segmentation. */
#include <tilth/zoo/segmentation.h>

#include "zoo/inner/zoo.h"

#define EXPERIMENT(id, name, base, help, ...)                                                      \
    TLI_EXPERIMENT(id, name, base, tl_segmentation_task_config_desc, help, __VA_ARGS__)

EXPERIMENT(any, "semantic_segmentation", NULL,
           "any backbone and data: set task.model and task.train_data",
           "task:\n"
           "  init_checkpoint: null\n"
           "  model: {backbone: {type: resnet}, decoder: {type: identity}}\n");

/* 661 steps are an epoch of PASCAL VOC with its additional annotations. */
#define PASCAL_DATA                                                                                \
    "  train_data:\n"                                                                              \
    "    input_path: gs://**/pascal_voc_seg/train_aug*\n"                                          \
    "    global_batch_size: 16\n"                                                                  \
    "    output_size: [512, 512]\n"                                                                \
    "    aug_scale_min: 0.5\n"                                                                     \
    "    aug_scale_max: 2.0\n"                                                                     \
    "  validation_data:\n"                                                                         \
    "    input_path: gs://**/pascal_voc_seg/val*\n"                                                \
    "    output_size: [512, 512]\n"                                                                \
    "    resize_eval_groundtruth: false\n"                                                         \
    "    groundtruth_padded_size: [512, 512]\n"                                                    \
    "    drop_remainder: false\n"
#define PASCAL_TRAINER                                                                             \
    "trainer:\n"                                                                                   \
    "  steps_per_loop: 661\n"                                                                      \
    "  summary_interval: 661\n"                                                                    \
    "  checkpoint_interval: 661\n"                                                                 \
    "  validation_interval: 661\n"                                                                 \
    "  optimizer_config:\n"                                                                        \
    "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"                                           \
    "    warmup: {type: linear, linear: {warmup_steps: 3305, warmup_learning_rate: 0}}\n"
#define RESNET_CHECKPOINT                                                                          \
    "  init_checkpoint: "                                                                          \
    "gs://cloud-tpu-checkpoints/vision-2.0/deeplab/deeplab_resnet101_imagenet/ckpt-62400\n"        \
    "  init_checkpoint_modules: backbone\n"                                                        \
    "  losses: {l2_weight_decay: 0.0001}\n"
#define RESNET_MODEL(rates)                                                                        \
    "  model:\n"                                                                                   \
    "    input_size: [null, null, 3]\n"                                                            \
    "    backbone:\n"                                                                              \
    "      type: dilated_resnet\n"                                                                 \
    "      dilated_resnet:\n"                                                                      \
    "        {model_id: 101, output_stride: 16, stem_type: v1, multigrid: [1, 2, 4]}\n"            \
    "    decoder: {type: aspp, aspp: {level: 4, dilation_rates: " rates "}}\n"

EXPERIMENT(
    deeplabv3_pascal, "seg_deeplabv3_pascal", &any.cls, "DeepLabV3 with ResNet-101 on PASCAL VOC",
    "task:\n" RESNET_CHECKPOINT RESNET_MODEL(
        "[12, 24, 36]") "    num_classes: 21\n"
                        "    head: {level: 4, num_convs: 0}\n"
                        "    norm_activation: {activation: swish, norm_momentum: "
                        "0.9997}\n" PASCAL_DATA "    global_batch_size: 8\n" PASCAL_TRAINER
                        "    learning_rate:\n"
                        "      type: polynomial\n"
                        "      polynomial: {initial_learning_rate: 0.007, decay_steps: 29745,\n"
                        "                   end_learning_rate: 0.0, power: 0.9}\n"
                        "  train_steps: 29745\n"
                        "  validation_steps: 181\n");

EXPERIMENT(deeplabv3plus_pascal, "seg_deeplabv3plus_pascal", &deeplabv3_pascal.cls,
           "DeepLabV3+ with ResNet-101 on PASCAL VOC",
           "task:\n"
           "  model:\n"
           "    decoder: {aspp: {dilation_rates: [6, 12, 18]}}\n"
           "    head: {num_convs: 2, feature_fusion: deeplabv3plus}\n");

EXPERIMENT(resnetfpn_pascal, "seg_resnetfpn_pascal", &any.cls,
           "a feature pyramid on ResNet-50, on PASCAL VOC: set output_size of the data",
           "task:\n"
           "  losses: {l2_weight_decay: 0.0001}\n"
           "  model:\n"
           "    num_classes: 21\n"
           "    input_size: [512, 512, 3]\n"
           "    min_level: 3\n"
           "    max_level: 7\n"
           "    decoder: {type: fpn}\n"
           "    head: {level: 3, num_convs: 3}\n"
           "    norm_activation: {activation: swish}\n"
           "  train_data:\n"
           "    input_path: gs://**/pascal_voc_seg/train_aug*\n"
           "    global_batch_size: 256\n"
           "    aug_scale_min: 0.2\n"
           "    aug_scale_max: 1.5\n"
           "  validation_data:\n"
           "    input_path: gs://**/pascal_voc_seg/val*\n"
           "    global_batch_size: 32\n"
           "    resize_eval_groundtruth: false\n"
           "    groundtruth_padded_size: [512, 512]\n"
           "    drop_remainder: false\n"
           "trainer:\n"
           "  steps_per_loop: 41\n"
           "  summary_interval: 41\n"
           "  checkpoint_interval: 41\n"
           "  train_steps: 18450\n"
           "  validation_steps: 45\n"
           "  validation_interval: 41\n"
           "  optimizer_config:\n"
           "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"
           "    learning_rate:\n"
           "      type: polynomial\n"
           "      polynomial: {initial_learning_rate: 0.007, decay_steps: 18450,\n"
           "                   end_learning_rate: 0.0, power: 0.9}\n"
           "    warmup: {type: linear, linear: {warmup_steps: 205, warmup_learning_rate: 0}}\n");

/* 185 steps are an epoch of Cityscapes. */
#define CITYSCAPES_DATA                                                                            \
    "  train_data:\n"                                                                              \
    "    input_path: cityscapes/train_fine**\n"                                                    \
    "    crop_size: [512, 1024]\n"                                                                 \
    "    output_size: [1024, 2048]\n"                                                              \
    "    global_batch_size: 16\n"                                                                  \
    "    aug_scale_min: 0.5\n"                                                                     \
    "    aug_scale_max: 2.0\n"                                                                     \
    "  validation_data:\n"                                                                         \
    "    input_path: cityscapes/val_fine*\n"                                                       \
    "    output_size: [1024, 2048]\n"                                                              \
    "    global_batch_size: 16\n"                                                                  \
    "    drop_remainder: false\n"
#define CITYSCAPES_TRAINER(steps)                                                                  \
    "trainer:\n"                                                                                   \
    "  steps_per_loop: 185\n"                                                                      \
    "  summary_interval: 185\n"                                                                    \
    "  checkpoint_interval: 185\n"                                                                 \
    "  train_steps: " steps "\n"                                                                   \
    "  validation_steps: 31\n"                                                                     \
    "  validation_interval: 185\n"                                                                 \
    "  optimizer_config:\n"                                                                        \
    "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"                                           \
    "    learning_rate:\n"                                                                         \
    "      type: polynomial\n"                                                                     \
    "      polynomial: {initial_learning_rate: 0.01, decay_steps: " steps ",\n"                    \
    "                   end_learning_rate: 0.0, power: 0.9}\n"                                     \
    "    warmup: {type: linear, linear: {warmup_steps: 925, warmup_learning_rate: 0}}\n"

EXPERIMENT(deeplabv3plus_cityscapes, "seg_deeplabv3plus_cityscapes", &any.cls,
           "DeepLabV3+ with ResNet-101 on Cityscapes",
           "task:\n" RESNET_CHECKPOINT RESNET_MODEL(
               "[6, 12, 18], pool_kernel_size: [512, 1024]") "    num_classes: 19\n"
                                                             "    head: {level: 4, num_convs: 2, "
                                                             "feature_fusion: deeplabv3plus}\n"
                                                             "    norm_activation: {activation: "
                                                             "swish}\n" CITYSCAPES_DATA
                                                                 CITYSCAPES_TRAINER("92500"));

#define MOBILE_CHECKPOINT                                                                          \
    "  init_checkpoint: "                                                                          \
    "gs://tf_model_garden/cloud/vision-2.0/deeplab/deeplabv3_mobilenetv2_coco/best_ckpt-63\n"      \
    "  losses: {l2_weight_decay: 4.0e-05}\n"
#define MOBILE_MODEL(pool)                                                                         \
    "  model:\n"                                                                                   \
    "    input_size: [null, null, 3]\n"                                                            \
    "    backbone:\n"                                                                              \
    "      {type: mobilenet, mobilenet: {model_id: MobileNetV2, output_stride: 16}}\n"             \
    "    decoder: {type: aspp, aspp: {level: 4, dilation_rates: [], pool_kernel_size: " pool       \
    "}}\n"
#define KEEP_BEST                                                                                  \
    "  best_checkpoint_eval_metric: mean_iou\n"                                                    \
    "  best_checkpoint_export_subdir: best_ckpt\n"                                                 \
    "  best_checkpoint_metric_comp: higher\n"

EXPERIMENT(mobile_pascal, "mnv2_deeplabv3_pascal", &any.cls,
           "DeepLabV3 with MobileNetV2 on PASCAL VOC",
           "task:\n" MOBILE_CHECKPOINT
           "  init_checkpoint_modules: [backbone, decoder]\n" MOBILE_MODEL(
               "[]") "    num_classes: 21\n"
                     "    head: {level: 4, num_convs: 0}\n" PASCAL_DATA
                     "    global_batch_size: 16\n" PASCAL_TRAINER "    learning_rate:\n"
                     "      type: polynomial\n"
                     "      polynomial: {initial_learning_rate: 0.007, decay_steps: 30000,\n"
                     "                   end_learning_rate: 0.0, power: 0.9}\n"
                     "  train_steps: 30000\n"
                     "  validation_steps: 90\n" KEEP_BEST);

EXPERIMENT(mobile_cityscapes, "mnv2_deeplabv3_cityscapes", &any.cls,
           "DeepLabV3 with MobileNetV2 on Cityscapes",
           "task:\n" MOBILE_CHECKPOINT "  init_checkpoint_modules: backbone\n" MOBILE_MODEL(
               "[512, 1024]") "    num_classes: 19\n"
                              "    head: {level: 4, num_convs: 0}\n" CITYSCAPES_DATA
                                  CITYSCAPES_TRAINER("100000") KEEP_BEST);

EXPERIMENT(mobile_plus_cityscapes, "mnv2_deeplabv3plus_cityscapes", &mobile_cityscapes.cls,
           "DeepLabV3+ with MobileNetV2 on Cityscapes",
           "task:\n"
           "  model:\n"
           "    backbone: {mobilenet: {output_intermediate_endpoints: true}}\n"
           "    head:\n"
           "      num_convs: 2\n"
           "      feature_fusion: deeplabv3plus\n"
           "      use_depthwise_convolution: true\n"
           "      low_level: 2/depthwise\n");

/* Circles, squares, triangles, crosses and rings on a background, made up on the spot. */
EXPERIMENT(local, "segmentation/local", &any.cls,
           "a small model on made-up shapes: no files are needed",
           "runtime: {distribution_strategy: one_device}\n"
           "task:\n"
           "  class_names: [background, circle, square, triangle, cross, ring]\n"
           "  model:\n"
           "    num_classes: 6\n"
           "    input_size: [96, 96, 3]\n"
           "    min_level: 3\n" // 48 x 48: the first layer does not stride
           "    max_level: 5\n"
           "    backbone:\n"
           "      type: resnet\n"
           "      resnet: {model_id: 10, depth_multiplier: 0.25, stem_type: cifar}\n"
           "    decoder: {type: fpn, fpn: {num_filters: 32}}\n"
           "    head: {level: 3, num_convs: 2, num_filters: 32, feature_fusion: pyramid_fusion,\n"
           "           upsample_factor: 2, prediction_kernel_size: 3}\n"
           "    norm_activation: {use_sync_bn: false, norm_momentum: 0.97}\n"
           "  train_data:\n"
           "    file_type: synthetic\n"
           "    synthetic_examples: 8192\n"
           "    global_batch_size: 16\n"
           "    output_size: [96, 96]\n"
           "  validation_data:\n"
           "    file_type: synthetic\n"
           "    synthetic_examples: 500\n"
           "    global_batch_size: 20\n"
           "    output_size: [96, 96]\n"
           "    drop_remainder: false\n"
           "trainer:\n"
           "  steps_per_loop: 100\n"
           "  summary_interval: 100\n"
           "  checkpoint_interval: 800\n"
           "  train_steps: 2400\n"
           "  validation_interval: 800\n"
           "  validation_steps: -1\n"
           "  optimizer_config:\n"
           "    optimizer: {type: adam}\n"
           "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.003, decay_steps: "
           "2400}}\n"
           "    warmup: {type: linear, linear: {warmup_steps: 200}}\n");

static const tl_entry entries[] = {
    {&tl_kind_task, &tl_segmentation_task.cls},
    {&tl_kind_experiment, &any.cls},
    {&tl_kind_experiment, &deeplabv3_pascal.cls},
    {&tl_kind_experiment, &deeplabv3plus_pascal.cls},
    {&tl_kind_experiment, &deeplabv3plus_cityscapes.cls},
    {&tl_kind_experiment, &resnetfpn_pascal.cls},
    {&tl_kind_experiment, &mobile_pascal.cls},
    {&tl_kind_experiment, &mobile_cityscapes.cls},
    {&tl_kind_experiment, &mobile_plus_cityscapes.cls},
    {&tl_kind_experiment, &local.cls},
};
const tl_module tl_segmentation_module = {TL_MODULE_HEAD("segmentation"), entries,
                                          TL_COUNT(entries)};
