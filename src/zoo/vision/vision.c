/* Experiments of image classification. */
#include <tilth/train/distill/distillation.h>
#include <tilth/zoo/vision.h>

#include "zoo/inner/zoo.h"
#include "zoo/vision/absent.h"
#include "zoo/vision/libai.h"

TLI_EXPERIMENT(image_classification, "image_classification", NULL, tl_image_task_config_desc,
               "any backbone and data: set task.model and task.train_data",
               "task: {model: {backbone: {type: resnet}}}\n");

/* 312 steps are an epoch. */
TLI_EXPERIMENT(
    resnet_imagenet, "resnet_imagenet", &image_classification.cls, tl_image_task_config_desc,
    "ResNet-50 on ImageNet, 90 epochs; train_data.file_type=synthetic to measure without data",
    "runtime: {enable_xla: true}\n"
    "task:\n"
    "  model:\n"
    "    num_classes: 1001\n"
    "    input_size: [224, 224, 3]\n"
    "    backbone: {type: resnet, resnet: {model_id: 50}}\n"
    "    norm_activation: {norm_momentum: 0.9, norm_epsilon: 1.0e-05}\n"
    "  losses: {l2_weight_decay: 0.0001}\n"
    "  train_data: {input_path: 'imagenet-2012-tfrecord/train*', global_batch_size: 4096}\n"
    "  validation_data: {input_path: 'imagenet-2012-tfrecord/valid*', global_batch_size: 4096}\n"
    "trainer:\n"
    "  steps_per_loop: 312\n"
    "  summary_interval: 312\n"
    "  checkpoint_interval: 312\n"
    "  train_steps: 28080\n"
    "  validation_steps: 12\n"
    "  validation_interval: 312\n"
    "  optimizer_config:\n"
    "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"
    "    learning_rate:\n"
    "      type: stepwise\n"
    "      stepwise: {boundaries: [9360, 18720, 24960], values: [1.6, 0.16, 0.016, 0.0016]}\n"
    "    warmup: {type: linear, linear: {warmup_steps: 1560, warmup_learning_rate: 0}}\n");

/* As in Model Garden a momentum of 0 makes the running statistics those of the last batch, and the
 * averages over all weights make up for it. */
TLI_EXPERIMENT(
    resnet_rs_imagenet, "resnet_rs_imagenet", &resnet_imagenet.cls, tl_image_task_config_desc,
    "ResNet-RS-50 on ImageNet, 350 epochs",
    "runtime: {enable_xla: false}\n"
    "task:\n"
    "  model:\n"
    "    input_size: [160, 160, 3]\n"
    "    backbone:\n"
    "      resnet: {stem_type: v1, resnetd_shortcut: true, replace_stem_max_pool: true, se_ratio: "
    "0.25}\n"
    "    norm_activation: {activation: swish, norm_momentum: 0.0}\n"
    "    dropout_rate: 0.25\n"
    "  losses: {l2_weight_decay: 4.0e-05, label_smoothing: 0.1}\n"
    "  train_data: {aug_type: {type: randaug, randaug: {magnitude: 10}}}\n"
    "trainer:\n"
    "  train_steps: 109200\n"
    "  optimizer_config:\n"
    "    ema: {average_decay: 0.9999, trainable_weights_only: false}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 1.6, decay_steps: "
    "109200}}\n");

/* Its backbone is refused when the model is built. */
TLI_EXPERIMENT(
    revnet_imagenet, "revnet_imagenet", &resnet_imagenet.cls, tl_image_task_config_desc,
    "RevNet-56 on ImageNet, 90 epochs (the backbone is not here yet)",
    "runtime: {enable_xla: false}\n"
    "task:\n"
    "  model: {add_head_batch_norm: true, backbone: {type: revnet, revnet: {model_id: 56}}}\n"
    "trainer:\n"
    "  optimizer_config:\n"
    "    learning_rate: {stepwise: {values: [0.8, 0.08, 0.008, 0.0008]}}\n");

TLI_EXPERIMENT(
    mobilenet_imagenet, "mobilenet_imagenet", &resnet_imagenet.cls, tl_image_task_config_desc,
    "MobileNetV2 on ImageNet, 500 epochs",
    "runtime: {enable_xla: false}\n"
    "task:\n"
    "  model:\n"
    "    backbone: {type: mobilenet, mobilenet: {model_id: MobileNetV2}}\n"
    "    norm_activation: {norm_momentum: 0.997, norm_epsilon: 0.001}\n"
    "    dropout_rate: 0.2\n"
    "  losses: {l2_weight_decay: 1.0e-05, label_smoothing: 0.1}\n"
    "trainer:\n"
    "  train_steps: 156000\n"
    "  optimizer_config:\n"
    "    optimizer: {type: rmsprop, rmsprop: {rho: 0.9, momentum: 0.9, epsilon: 0.002}}\n"
    "    learning_rate:\n"
    "      type: exponential\n"
    "      exponential: {initial_learning_rate: 0.256, decay_steps: 780, decay_rate: 0.98, "
    "staircase: true}\n");

TLI_EXPERIMENT(
    vit_pretrain, "vit_imagenet_pretrain", &resnet_imagenet.cls, tl_image_task_config_desc,
    "ViT-B/16 on ImageNet, 300 epochs",
    "runtime: {enable_xla: false}\n"
    "task:\n"
    "  model:\n"
    "    backbone: {type: vit, vit: {model_name: vit-b16, representation_size: 768}}\n"
    "    norm_activation: {norm_momentum: 0.99, norm_epsilon: 0.001}\n"
    "    kernel_initializer: zeros\n"
    "  losses: {l2_weight_decay: 0.0}\n"
    "trainer:\n"
    "  train_steps: 93600\n"
    "  optimizer_config:\n"
    "    optimizer:\n"
    "      type: adamw\n"
    "      adamw: {weight_decay_rate: 0.3, include_in_weight_decay: '.*(kernel|weight):0$', "
    "gradient_clip_norm: 0.0}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.003, decay_steps: "
    "93600}}\n"
    "    warmup: {type: linear, linear: {warmup_steps: 10000}}\n");

/* Touvron et al. 2020, without distillation. */
TLI_EXPERIMENT(
    deit_pretrain, "deit_imagenet_pretrain", &vit_pretrain.cls, tl_image_task_config_desc,
    "DeiT-B/16 on ImageNet, 300 epochs: ViT with more augmentation",
    "task:\n"
    "  model: {backbone: {vit: {init_stochastic_depth_rate: 0.1, original_init: false}}}\n"
    "  losses: {label_smoothing: 0.1, one_hot: false, soft_labels: true}\n"
    "  train_data:\n"
    "    aug_type: {type: randaug, randaug: {magnitude: 9, exclude_ops: [Cutout]}}\n"
    "    mixup_and_cutmix: {mixup_alpha: 0.8, cutmix_alpha: 1.0, label_smoothing: 0.1}\n"
    "trainer:\n"
    "  optimizer_config:\n"
    "    optimizer: {adamw: {weight_decay_rate: 0.05}}\n"
    "    learning_rate: {cosine: {initial_learning_rate: 0.004}}\n"
    "    warmup: {linear: {warmup_steps: 1560}}\n");

/* 2502 steps are an epoch. */
TLI_EXPERIMENT(
    vit_finetune, "vit_imagenet_finetune", &resnet_imagenet.cls, tl_image_task_config_desc,
    "ViT-B/16 on larger images, from what vit_imagenet_pretrain left: set task.init_checkpoint, "
    "and task.init_checkpoint_modules=backbone",
    "runtime: {enable_xla: false}\n"
    "task:\n"
    "  model:\n"
    "    input_size: [384, 384, 3]\n"
    "    backbone: {type: vit, vit: {model_name: vit-b16}}\n"
    "    norm_activation: {norm_momentum: 0.99, norm_epsilon: 0.001}\n"
    "  losses: {l2_weight_decay: 0.0}\n"
    "  train_data: {global_batch_size: 512}\n"
    "  validation_data: {global_batch_size: 512}\n"
    "trainer:\n"
    "  steps_per_loop: 2502\n"
    "  summary_interval: 2502\n"
    "  checkpoint_interval: 2502\n"
    "  train_steps: 20000\n"
    "  validation_steps: 97\n"
    "  validation_interval: 2502\n"
    "  optimizer_config:\n"
    "    optimizer: {sgd: {global_clipnorm: 1.0}}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.003, decay_steps: "
    "20000}}\n"
    "    warmup: {type: null}\n");

TLI_EXPERIMENT(
    example, "tf_vision_example_experiment", NULL, tl_example_task_config_desc,
    "the starter example: a task to be copied (src/zoo/vision/example_task.c)",
    "task:\n"
    "  model: {num_classes: 10, input_size: [128, 128, 3]}\n"
    "  losses: {l2_weight_decay: 0.0001}\n"
    "  train_data: {input_path: /path-to-your-training-data, global_batch_size: 256}\n"
    "  validation_data: {input_path: /path-to-your-validation-data, global_batch_size: 256}\n"
    "trainer:\n"
    "  steps_per_loop: 10\n"
    "  summary_interval: 10\n"
    "  checkpoint_interval: 10\n"
    "  train_steps: 900\n"
    "  validation_steps: 10\n"
    "  validation_interval: 10\n"
    "  optimizer_config:\n"
    "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 1.6, decay_steps: 3500}}\n"
    "    warmup: {type: linear, linear: {warmup_steps: 50, warmup_learning_rate: 0}}\n");

/* --- those that are not here yet -------------------------------------------------------------- */

#define VIDEO(id, name_, what)                                                                     \
    static const tl_experiment_class id = {                                                        \
        .cls = {.class_size = sizeof(tl_experiment_class),                                         \
                .name = name_,                                                                     \
                .help = what " (not here yet)"},                                                   \
        .task = &tl_task_config_desc,                                                              \
        .lacks = "videos need convolutions over time (the backbone resnet_3d) and records of "     \
                 "clips; single pictures can be classified: 'image_classification'"}
VIDEO(video, "video_classification", "classes of videos");
VIDEO(video_400, "video_classification_kinetics400", "ResNet-3D on Kinetics-400");
VIDEO(video_600, "video_classification_kinetics600", "ResNet-3D on Kinetics-600");
VIDEO(video_700, "video_classification_kinetics700", "ResNet-3D on Kinetics-700");
VIDEO(video_700_2020, "video_classification_kinetics700_2020", "ResNet-3D on Kinetics-700 of 2020");
VIDEO(video_ucf101, "video_classification_ucf101", "ResNet-3D on UCF-101");

/* --- small ones ------------------------------------------------------------------------------- */

/* Stripes that lean one way or another, made up on the spot. */
TLI_EXPERIMENT(
    local, "vision/local", &image_classification.cls, tl_image_task_config_desc,
    "a small network on made-up images: no files are needed, and it takes two seconds",
    "runtime: {distribution_strategy: one_device}\n"
    "task:\n"
    "  model:\n"
    "    num_classes: 4\n"
    "    input_size: [16, 16, 1]\n"
    "    backbone: {type: cnn, cnn: {filters: [8, 16], units: [32]}}\n"
    "  class_names: [horizontal, falling, vertical, rising]\n"
    "  evaluation: {top_k: 2}\n"
    "  train_data: &data\n"
    "    file_type: synthetic\n"
    "    synthetic_examples: 512\n"
    "    global_batch_size: 32\n"
    "    aug_crop: false\n"
    "    aug_rand_hflip: false\n"
    "    mean: [128]\n"
    "    stddev: [64]\n"
    "    center_crop_fraction: 1.0\n"
    "  validation_data: *data\n"
    "trainer:\n"
    "  steps_per_loop: 50\n"
    "  summary_interval: 50\n"
    "  checkpoint_interval: 100\n"
    "  train_steps: 200\n"
    "  validation_interval: 100\n"
    "  best_checkpoint_export_subdir: best\n"
    "  best_checkpoint_eval_metric: accuracy\n"
    "  optimizer_config:\n"
    "    optimizer: {type: adam}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.003, decay_steps: "
    "200}}\n");

/* A smaller network with fewer pictures. */
#define STUDENT_DATA                                                                               \
    "        file_type: synthetic\n"                                                               \
    "        global_batch_size: 32\n"                                                              \
    "        aug_crop: false\n"                                                                    \
    "        aug_rand_hflip: false\n"                                                              \
    "        mean: [128]\n"                                                                        \
    "        stddev: [64]\n"                                                                       \
    "        center_crop_fraction: 1.0\n"
static const tl_experiment_class local_distilled = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "vision/local_distilled",
            .help = "a smaller network that learns from one of vision/local: set task.teacher"},
    .task = &tl_distillation_config_desc,
    .defaults = "runtime: {distribution_strategy: one_device}\n"
                "task:\n"
                "  student:\n"
                "    type: image_classification\n"
                "    image_classification:\n"
                "      model:\n"
                "        num_classes: 4\n"
                "        input_size: [16, 16, 1]\n"
                "        backbone: {type: cnn, cnn: {filters: [4, 8], units: [16]}}\n"
                "      class_names: [horizontal, falling, vertical, rising]\n"
                "      evaluation: {top_k: 2}\n"
                "      train_data:\n"
                "        synthetic_examples: 256\n" STUDENT_DATA "      validation_data:\n"
                "        synthetic_examples: 512\n" STUDENT_DATA "trainer:\n"
                "  steps_per_loop: 50\n"
                "  summary_interval: 50\n"
                "  checkpoint_interval: 300\n"
                "  train_steps: 600\n"
                "  validation_interval: 300\n"
                "  optimizer_config:\n"
                "    optimizer: {type: adam}\n"
                "    learning_rate: {type: constant, constant: {learning_rate: 0.003}}\n",
};

/* 60000 images of clothes, 28 x 28, from Debian's package dataset-fashion-mnist. */
#define FASHION "/usr/share/datasets/fashion-mnist/"
TLI_EXPERIMENT(
    fashion_mnist, "fashion_mnist/cnn", &image_classification.cls, tl_image_task_config_desc,
    "a small convolutional network on 60000 pictures of clothes: 0.91 in a minute",
    "runtime: {distribution_strategy: one_device}\n"
    "task:\n"
    "  model:\n"
    "    num_classes: 10\n"
    "    input_size: [28, 28, 1]\n"
    "    backbone: {type: cnn, cnn: {filters: [32, 64], units: [128]}}\n"
    "    kernel_initializer: glorot_uniform\n"
    "  class_names: [t-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle "
    "boot]\n"
    "  train_data:\n"
    "    file_type: idx\n"
    "    input_path: " FASHION "train-images-idx3-ubyte.gz," FASHION "train-labels-idx1-ubyte.gz\n"
    "    global_batch_size: 128\n"
    "    shuffle_buffer_size: 60000\n"
    "    aug_crop: false\n"
    "    aug_rand_hflip: false\n"
    "    mean: [72.9404]\n"
    "    stddev: [90.0212]\n"
    "  validation_data:\n"
    "    file_type: idx\n"
    "    input_path: " FASHION "t10k-images-idx3-ubyte.gz," FASHION "t10k-labels-idx1-ubyte.gz\n"
    "    global_batch_size: 500\n"
    "    mean: [72.9404]\n"
    "    stddev: [90.0212]\n"
    "    center_crop_fraction: 1.0\n"
    "trainer:\n"
    "  steps_per_loop: 100\n"
    "  summary_interval: 100\n"
    "  checkpoint_interval: 400\n"
    "  train_steps: 1200\n"
    "  validation_interval: 400\n"
    "  best_checkpoint_export_subdir: best\n"
    "  best_checkpoint_eval_metric: accuracy\n"
    "  optimizer_config:\n"
    "    optimizer: {type: adam}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.003, decay_steps: 1200}}\n"
    "    warmup: {type: linear, linear: {warmup_steps: 50}}\n");

TLI_EXPERIMENT(
    fashion_mnist_mlp, "fashion_mnist/mlp", &fashion_mnist.cls, tl_image_task_config_desc,
    "two dense layers on the same pictures",
    "task:\n"
    "  model: {backbone: {type: mlp, mlp: {units: [256, 256]}}}\n"
    "trainer:\n"
    "  train_steps: 4700\n"
    "  checkpoint_interval: 1000\n"
    "  validation_interval: 1000\n"
    "  optimizer_config:\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.001, decay_steps: "
    "4700}}\n");

TLI_EXPERIMENT(
    fashion_mnist_resnet, "fashion_mnist/resnet", &fashion_mnist.cls, tl_image_task_config_desc,
    "ResNet-18 for small images on the same pictures: better, and it takes its time",
    "task:\n"
    "  model:\n"
    "    backbone: {type: resnet, resnet: {model_id: 18, stem_type: cifar}}\n"
    "    norm_activation: {norm_momentum: 0.9, norm_epsilon: 1.0e-05}\n"
    "  losses: {l2_weight_decay: 0.0005, label_smoothing: 0.1}\n"
    "  train_data: {aug_rand_hflip: true, aug_pad: 2}\n"
    "trainer:\n"
    "  train_steps: 14000\n"
    "  checkpoint_interval: 1000\n"
    "  validation_interval: 1000\n"
    "  optimizer_config:\n"
    "    optimizer: {type: sgd, sgd: {momentum: 0.9, nesterov: true}}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.1, decay_steps: 14000}}\n"
    "    warmup: {type: linear, linear: {warmup_steps: 500}}\n");

static const tl_entry entries[] = {
    {&tl_kind_backbone, &tl_backbone_resnet.cls},
    {&tl_kind_backbone, &tl_backbone_dilated_resnet.cls},
    {&tl_kind_backbone, &tl_backbone_mobilenet.cls},
    {&tl_kind_backbone, &tl_backbone_vit.cls},
    {&tl_kind_backbone, &tl_backbone_vision_transformer.cls},
    {&tl_kind_backbone, &tl_backbone_cnn.cls},
    {&tl_kind_backbone, &tl_backbone_mlp.cls},
    {&tl_kind_backbone, &tli_backbone_efficientnet.cls},
    {&tl_kind_backbone, &tli_backbone_mobiledet.cls},
    {&tl_kind_backbone, &tli_backbone_revnet.cls},
    {&tl_kind_backbone, &tli_backbone_spinenet.cls},
    {&tl_kind_backbone, &tli_backbone_spinenet_mobile.cls},
    {&tl_kind_task, &tl_image_classification_task.cls},
    {&tl_kind_task, &tl_example_task.cls},
    {&tl_kind_libai_model, &tli_libai_vision_transformer.cls},
    {&tl_kind_experiment, &tli_images_experiment.cls},
    {&tl_kind_experiment, &image_classification.cls},
    {&tl_kind_experiment, &resnet_imagenet.cls},
    {&tl_kind_experiment, &resnet_rs_imagenet.cls},
    {&tl_kind_experiment, &revnet_imagenet.cls},
    {&tl_kind_experiment, &mobilenet_imagenet.cls},
    {&tl_kind_experiment, &vit_pretrain.cls},
    {&tl_kind_experiment, &vit_finetune.cls},
    {&tl_kind_experiment, &deit_pretrain.cls},
    {&tl_kind_experiment, &example.cls},
    {&tl_kind_task, &tl_image_multi_task.cls},
    {&tl_kind_experiment, &tli_multi_task_local.cls},
    {&tl_kind_experiment, &tli_progressive_local.cls},
    {&tl_kind_experiment, &local.cls},
    {&tl_kind_experiment, &local_distilled.cls},
    {&tl_kind_experiment, &fashion_mnist.cls},
    {&tl_kind_experiment, &fashion_mnist_mlp.cls},
    {&tl_kind_experiment, &fashion_mnist_resnet.cls},
    {&tl_kind_experiment, &video.cls},
    {&tl_kind_experiment, &video_400.cls},
    {&tl_kind_experiment, &video_600.cls},
    {&tl_kind_experiment, &video_700.cls},
    {&tl_kind_experiment, &video_700_2020.cls},
    {&tl_kind_experiment, &video_ucf101.cls},
};
const tl_module tl_vision_module = {TL_MODULE_HEAD("vision"), entries, TL_COUNT(entries)};
