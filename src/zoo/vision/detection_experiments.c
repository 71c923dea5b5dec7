/* Decoders, and experiments of object detection. */
#include <tilth/zoo/retinanet.h>

#include "zoo/inner/zoo.h"

#define EXPERIMENT(id, name, base, help, ...)                                                      \
    TLI_EXPERIMENT(id, name, base, tl_retinanet_task_config_desc, help, __VA_ARGS__)

EXPERIMENT(
    retinanet, "retinanet", NULL, "any backbone and data: set task.model and task.train_data",
    "task: {init_checkpoint: null, model: {backbone: {type: resnet}, decoder: {type: fpn}}}\n");

/* 462 steps are an epoch. */
EXPERIMENT(
    resnetfpn, "retinanet_resnetfpn_coco", &retinanet.cls,
    "ResNet-50 with a feature pyramid on COCO, 72 epochs",
    "runtime: {mixed_precision_dtype: bfloat16}\n"
    "task:\n"
    "  init_checkpoint: gs://cloud-tpu-checkpoints/vision-2.0/resnet50_imagenet/ckpt-28080\n"
    "  init_checkpoint_modules: backbone\n"
    "  annotation_file: coco/instances_val2017.json\n"
    "  losses: {l2_weight_decay: 0.0001}\n"
    "  model:\n"
    "    num_classes: 91\n"
    "    input_size: [640, 640, 3]\n"
    "    norm_activation: {use_sync_bn: false}\n"
    "  train_data:\n"
    "    input_path: coco/train*\n"
    "    global_batch_size: 256\n"
    "    parser: {aug_rand_hflip: true, aug_scale_min: 0.8, aug_scale_max: 1.2}\n"
    "  validation_data: {input_path: coco/val*, global_batch_size: 8}\n"
    "trainer:\n"
    "  train_steps: 33264\n"
    "  validation_steps: 625\n"
    "  validation_interval: 462\n"
    "  steps_per_loop: 462\n"
    "  summary_interval: 462\n"
    "  checkpoint_interval: 462\n"
    "  optimizer_config:\n"
    "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"
    "    learning_rate:\n"
    "      type: stepwise\n"
    "      stepwise: {boundaries: [26334, 30954], values: [0.32, 0.032, 0.0032]}\n"
    "    warmup: {type: linear, linear: {warmup_steps: 500, warmup_learning_rate: 0.0067}}\n");

/* Their backbones are refused when the model is built. */
EXPERIMENT(spinenet, "retinanet_spinenet_coco", &resnetfpn.cls,
           "SpineNet-49 on COCO, 500 epochs (the backbone is not here yet)",
           "runtime: {mixed_precision_dtype: float32}\n"
           "task:\n"
           "  init_checkpoint: null\n"
           "  init_checkpoint_modules: all\n"
           "  losses: {l2_weight_decay: 4.0e-05}\n"
           "  model:\n"
           "    anchor: {anchor_size: 3}\n"
           "    backbone: {type: spinenet, spinenet: {stochastic_depth_drop_rate: 0.2}}\n"
           "    decoder: {type: identity}\n"
           "    norm_activation: {activation: swish, use_sync_bn: true}\n"
           "  train_data: {parser: {aug_scale_min: 0.1, aug_scale_max: 2.0}}\n"
           "trainer:\n"
           "  train_steps: 231000\n"
           "  optimizer_config:\n"
           "    learning_rate: {stepwise: {boundaries: [219450, 226380]}}\n"
           "    warmup: {linear: {warmup_steps: 2000}}\n");

EXPERIMENT(mobile, "retinanet_mobile_coco", &spinenet.cls,
           "a SpineNet for phones on COCO, 600 epochs (the backbone is not here yet)",
           "task:\n"
           "  losses: {l2_weight_decay: 3.0e-05}\n"
           "  model:\n"
           "    input_size: [384, 384, 3]\n"
           "    backbone: {type: spinenet_mobile, spinenet_mobile: {stochastic_depth_drop_rate: "
           "0.2}}\n"
           "    head: {num_filters: 48, use_separable_conv: true}\n"
           "trainer:\n"
           "  train_steps: 277200\n"
           "  optimizer_config:\n"
           "    learning_rate: {stepwise: {boundaries: [265650, 272580]}}\n");

/* --- those that are not here yet -------------------------------------------------------------- */

#define TWO_STAGES(id, name_, what)                                                                \
    static const tl_experiment_class id = {                                                        \
        .cls = {.class_size = sizeof(tl_experiment_class),                                         \
                .name = name_,                                                                     \
                .help = what " (not here yet)"},                                                   \
        .task = &tl_task_config_desc,                                                              \
        .lacks = "detectors with two stages, which propose boxes and then look at each, cannot "   \
                 "be built; RetinaNet has one stage: 'retinanet_resnetfpn_coco'"}
TWO_STAGES(faster, "fasterrcnn_resnetfpn_coco", "Faster R-CNN on COCO");
TWO_STAGES(mask, "maskrcnn_resnetfpn_coco", "Mask R-CNN on COCO");
TWO_STAGES(mask_mobilenet, "maskrcnn_mobilenet_coco", "Mask R-CNN with MobileNetV2 on COCO");
TWO_STAGES(mask_spinenet, "maskrcnn_spinenet_coco", "Mask R-CNN with SpineNet on COCO");
TWO_STAGES(cascade, "cascadercnn_spinenet_coco", "Cascade R-CNN with SpineNet on COCO");

/* --- a small one ------------------------------------------------------------------------------ */

/* Circles, squares, triangles, crosses and rings, made up on the spot. */
EXPERIMENT(local, "detection/local", &retinanet.cls,
           "a small detector on made-up shapes: no files are needed",
           "runtime: {distribution_strategy: one_device}\n"
           "task:\n"
           "  class_names: [circle, square, triangle, cross, ring]\n"
           "  model:\n"
           "    num_classes: 6\n"
           "    input_size: [96, 96, 3]\n"
           "    min_level: 3\n"
           "    max_level: 5\n"
           "    anchor: {anchor_size: 2.0, num_scales: 2, aspect_ratios: [1.0]}\n"
           "    backbone: {type: resnet, resnet: {model_id: 10, depth_multiplier: 0.5}}\n"
           "    decoder: {type: fpn, fpn: {num_filters: 48}}\n"
           "    head: {num_convs: 2, num_filters: 48}\n"
           "    norm_activation: {use_sync_bn: false, norm_momentum: 0.97}\n"
           "  train_data:\n"
           "    file_type: synthetic\n"
           "    synthetic_examples: 8192\n"
           "    global_batch_size: 16\n"
           "    dtype: float32\n"
           "    parser: {aug_rand_hflip: true, max_num_instances: 8}\n"
           "  validation_data:\n"
           "    file_type: synthetic\n"
           "    synthetic_examples: 500\n"
           "    global_batch_size: 20\n"
           "    dtype: float32\n"
           "    drop_remainder: false\n"
           "    parser: {max_num_instances: 8}\n"
           "trainer:\n"
           "  steps_per_loop: 100\n"
           "  summary_interval: 100\n"
           "  checkpoint_interval: 1000\n"
           "  train_steps: 4000\n"
           "  validation_interval: 1000\n"
           "  validation_steps: -1\n"
           "  optimizer_config:\n"
           "    optimizer: {type: adam, adam: {global_clipnorm: 10.0}}\n"
           "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.002, decay_steps: "
           "4000}}\n"
           "    warmup: {type: linear, linear: {warmup_steps: 200}}\n");

static const tl_entry entries[] = {
    {&tl_kind_decoder, &tl_decoder_identity.cls},
    {&tl_kind_decoder, &tl_decoder_fpn.cls},
    {&tl_kind_decoder, &tl_decoder_nasfpn.cls},
    {&tl_kind_decoder, &tl_decoder_aspp.cls},
    {&tl_kind_task, &tl_retinanet_task.cls},
    {&tl_kind_experiment, &retinanet.cls},
    {&tl_kind_experiment, &resnetfpn.cls},
    {&tl_kind_experiment, &spinenet.cls},
    {&tl_kind_experiment, &mobile.cls},
    {&tl_kind_experiment, &faster.cls},
    {&tl_kind_experiment, &mask.cls},
    {&tl_kind_experiment, &mask_mobilenet.cls},
    {&tl_kind_experiment, &mask_spinenet.cls},
    {&tl_kind_experiment, &cascade.cls},
    {&tl_kind_experiment, &local.cls},
};
const tl_module tl_detection_module = {TL_MODULE_HEAD("detection"), entries, TL_COUNT(entries)};
