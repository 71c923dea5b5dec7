/* Experiments of SimCLR. */
#include <tilth/zoo/simclr.h>

#include "zoo/inner/zoo.h"

TLI_EXPERIMENT(pretraining, "simclr_pretraining", NULL, tl_simclr_pretrain_config_desc,
               "features of images without labels: set task.model and task.train_data",
               "task: {model: {backbone: {type: resnet}}}\n");
TLI_EXPERIMENT(finetuning, "simclr_finetuning", NULL, tl_simclr_finetune_config_desc,
               "a classifier on such features: set task.init_checkpoint too",
               "task: {model: {backbone: {type: resnet}}}\n");

/* 312 steps are an epoch. */
TLI_EXPERIMENT(
    pretraining_imagenet, "simclr_pretraining_imagenet", &pretraining.cls,
    tl_simclr_pretrain_config_desc, "ResNet-50 on ImageNet without labels, 500 epochs",
    "task:\n"
    "  model:\n"
    "    input_size: [224, 224, 3]\n"
    "    norm_activation: {use_sync_bn: true}\n"
    "  train_data: {input_path: 'imagenet-2012-tfrecord/train*', global_batch_size: 4096}\n"
    "  validation_data: {input_path: 'imagenet-2012-tfrecord/valid*', global_batch_size: 4096}\n"
    "trainer:\n"
    "  steps_per_loop: 312\n"
    "  summary_interval: 312\n"
    "  checkpoint_interval: 312\n"
    "  train_steps: 156000\n"
    "  validation_steps: 12\n"
    "  validation_interval: 312\n"
    "  optimizer_config:\n"
    "    optimizer:\n"
    "      type: lars\n"
    "      lars: {weight_decay_rate: 1.0e-06, exclude_from_weight_decay: [batch_normalization, "
    "bias]}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 3.2, decay_steps: 148200}}\n"
    "    warmup: {type: linear, linear: {warmup_steps: 7800}}\n");

/* 1251 steps are an epoch. */
TLI_EXPERIMENT(
    finetuning_imagenet, "simclr_finetuning_imagenet", &finetuning.cls,
    tl_simclr_finetune_config_desc,
    "from what simclr_pretraining_imagenet left, 60 epochs: set task.init_checkpoint",
    "task:\n"
    "  init_checkpoint: ''\n"
    "  model: {input_size: [224, 224, 3]}\n"
    "  train_data: {input_path: 'imagenet-2012-tfrecord/train*', global_batch_size: 1024}\n"
    "  validation_data: {input_path: 'imagenet-2012-tfrecord/valid*', global_batch_size: 1024}\n"
    "trainer:\n"
    "  steps_per_loop: 1251\n"
    "  summary_interval: 1251\n"
    "  checkpoint_interval: 1251\n"
    "  train_steps: 75060\n"
    "  validation_steps: 48\n"
    "  validation_interval: 1251\n"
    "  optimizer_config:\n"
    "    optimizer:\n"
    "      type: lars\n"
    "      lars: {weight_decay_rate: 0.0, exclude_from_weight_decay: [batch_normalization, "
    "bias]}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.02, decay_steps: "
    "75060}}\n");

static const tl_experiment_class multi_task = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "multitask_simclr",
            .help = "pre-training and fine-tuning at a time (not here yet)"},
    .task = &tl_task_config_desc,
    .lacks = "a model of both tasks with one projection head is not here yet; one after the other "
             "they are: 'simclr_pretraining', then 'simclr_finetuning' with task.init_checkpoint"};

/* --- small ones ------------------------------------------------------------------------------- */

/* Stripes that lean one way or another: mirrored they would lean the other way. */
#define LOCAL_DATA                                                                                 \
    "file_type: synthetic, synthetic_examples: 512, global_batch_size: 64, "                       \
    "parser: {aug_rand_hflip: false, crop_area_range: [0.5, 1.0]}"
#define LOCAL_MODEL(classes_begin)                                                                 \
    "runtime: {distribution_strategy: one_device}\n"                                               \
    "task:\n"                                                                                      \
    "  model:\n"                                                                                   \
    "    input_size: [16, 16, 1]\n"                                                                \
    "    backbone: {type: cnn, cnn: {filters: [8, 16], units: [32]}}\n"                            \
    "    projection_head: {proj_output_dim: 16, num_proj_layers: 2}\n"                             \
    "    supervised_head: {num_classes: 4}\n"                                                      \
    "  class_names: [horizontal, falling, vertical, rising]\n"                                     \
    "  evaluation: {top_k: 2}\n"                                                                   \
    "  train_data: {" LOCAL_DATA "}\n"                                                             \
    "  validation_data: {" LOCAL_DATA "}\n" classes_begin
TLI_EXPERIMENT(
    local, "simclr/local", &pretraining.cls, tl_simclr_pretrain_config_desc,
    "features of made-up images without labels: no files are needed, and it takes seconds",
    LOCAL_MODEL("trainer:\n"
                "  steps_per_loop: 50\n"
                "  summary_interval: 50\n"
                "  checkpoint_interval: 200\n"
                "  train_steps: 400\n"
                "  validation_interval: 200\n"
                "  optimizer_config:\n"
                "    optimizer: {type: adam}\n"
                "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.003, "
                "decay_steps: 400}}\n"));
TLI_EXPERIMENT(
    local_finetuning, "simclr/local_finetuning", &finetuning.cls, tl_simclr_finetune_config_desc,
    "a classifier on what simclr/local has learned: set task.init_checkpoint",
    LOCAL_MODEL("trainer:\n"
                "  steps_per_loop: 20\n"
                "  summary_interval: 20\n"
                "  checkpoint_interval: 60\n"
                "  train_steps: 60\n"
                "  validation_interval: 60\n"
                "  optimizer_config:\n"
                "    optimizer: {type: adam}\n"
                "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.001, "
                "decay_steps: 60}}\n"));

/* 60000 images of clothes, 28 x 28, from Debian's package dataset-fashion-mnist. */
#define FASHION "/usr/share/datasets/fashion-mnist/"
#define FASHION_FILES(which)                                                                       \
    "    file_type: idx\n"                                                                         \
    "    input_path: " FASHION which "-images-idx3-ubyte.gz," FASHION which                        \
    "-labels-idx1-ubyte.gz\n"
#define FASHION_MODEL                                                                              \
    "runtime: {distribution_strategy: one_device}\n"                                               \
    "task:\n"                                                                                      \
    "  model:\n"                                                                                   \
    "    input_size: [28, 28, 1]\n"                                                                \
    "    backbone: {type: cnn, cnn: {filters: [32, 64], units: [128]}}\n"                          \
    "    projection_head: {proj_output_dim: 64, num_proj_layers: 2}\n"                             \
    "    supervised_head: {num_classes: 10}\n"                                                     \
    "  class_names: [t-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle " \
    "boot]\n"
TLI_EXPERIMENT(
    fashion, "simclr/fashion_mnist", &pretraining.cls, tl_simclr_pretrain_config_desc,
    "features of 60000 pictures of clothes without labels",
    FASHION_MODEL "  train_data:\n" FASHION_FILES(
        "train") "    global_batch_size: 256\n"
                 "    shuffle_buffer_size: 60000\n"
                 "    parser: {crop_area_range: [0.2, 1.0], aug_color_jitter_strength: 0.5}\n"
                 "  validation_data:\n" FASHION_FILES(
                     "t10k") "    global_batch_size: 500\n"
                             "trainer:\n"
                             "  steps_per_loop: 100\n"
                             "  summary_interval: 100\n"
                             "  checkpoint_interval: 500\n"
                             "  train_steps: 2000\n"
                             "  validation_interval: 1000\n"
                             "  optimizer_config:\n"
                             "    optimizer: {type: adam}\n"
                             "    learning_rate: {type: cosine, cosine: {initial_learning_rate: "
                             "0.002, decay_steps: "
                             "2000}}\n"
                             "    warmup: {type: linear, linear: {warmup_steps: 100}}\n");
/* One picture in a hundred has a label. */
TLI_EXPERIMENT(fashion_finetuning, "simclr/fashion_mnist_finetuning", &finetuning.cls,
               tl_simclr_finetune_config_desc,
               "a classifier of clothes that knows the class of one picture in a hundred, on what "
               "simclr/fashion_mnist has learned: set task.init_checkpoint",
               FASHION_MODEL "  train_data:\n" FASHION_FILES(
                   "train") "    holdout: 0.99\n"
                            "    global_batch_size: 64\n"
                            "    shuffle_buffer_size: 60000\n"
                            "    cache: true\n"
                            "    parser: {crop_area_range: [0.5, 1.0]}\n"
                            "  validation_data:\n" FASHION_FILES(
                                "t10k") "    global_batch_size: 500\n"
                                        "trainer:\n"
                                        "  steps_per_loop: 50\n"
                                        "  summary_interval: 50\n"
                                        "  checkpoint_interval: 300\n"
                                        "  train_steps: 300\n"
                                        "  validation_interval: 300\n"
                                        "  optimizer_config:\n"
                                        "    optimizer: {type: adam}\n"
                                        "    learning_rate: {type: cosine, cosine: "
                                        "{initial_learning_rate: 0.001, decay_steps: "
                                        "300}}\n");

static const tl_entry entries[] = {
    {&tl_kind_task, &tl_simclr_pretrain_task.cls},
    {&tl_kind_task, &tl_simclr_finetune_task.cls},
    {&tl_kind_experiment, &pretraining.cls},
    {&tl_kind_experiment, &finetuning.cls},
    {&tl_kind_experiment, &pretraining_imagenet.cls},
    {&tl_kind_experiment, &finetuning_imagenet.cls},
    {&tl_kind_experiment, &multi_task.cls},
    {&tl_kind_experiment, &local.cls},
    {&tl_kind_experiment, &local_finetuning.cls},
    {&tl_kind_experiment, &fashion.cls},
    {&tl_kind_experiment, &fashion_finetuning.cls},
};
const tl_module tl_simclr_module = {TL_MODULE_HEAD("simclr"), entries, TL_COUNT(entries)};
