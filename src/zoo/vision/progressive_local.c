/* The experiment progressive/local: a small ResNet that grows. */
#include <tilth/train/progressive/progressive.h>
#include <tilth/zoo/vision.h>

#include "zoo/inner/zoo.h"

#define STAGE(steps, side, depth)                                                                  \
    "    - num_steps: " steps "\n"                                                                 \
    "      task: {model: {input_size: [" side ", " side ", 1], backbone: {resnet: {model_id: "     \
    depth "}}}}\n"

/* Stripes that lean one way or another: small pictures for few layers first. */
const tl_experiment_class tli_progressive_local = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "progressive/local",
            .help = "a small ResNet on made-up images, which grows with them: no files are needed, "
                    "and it takes some seconds"},
    .task = &tl_image_task_config_desc,
    .trainer = &tl_progressive_trainer_config_desc,
    .defaults = "runtime: {distribution_strategy: one_device}\n"
                "task:\n"
                "  model:\n"
                "    num_classes: 4\n"
                "    input_size: [24, 24, 1]\n"
                "    backbone:\n"
                "      type: resnet\n"
                "      resnet: {model_id: 18, depth_multiplier: 0.125, stem_type: cifar}\n"
                "    norm_activation: {norm_momentum: 0.9}\n"
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
                "  steps_per_loop: 20\n"
                "  summary_interval: 20\n"
                "  checkpoint_interval: 40\n"
                "  train_steps: 180\n"
                "  validation_interval: 60\n"
                "  best_checkpoint_export_subdir: best\n"
                "  best_checkpoint_eval_metric: accuracy\n"
                "  optimizer_config:\n"
                "    optimizer: {type: adam}\n"
                "    learning_rate: {type: constant, constant: {learning_rate: 0.003}}\n"
                "  progressive:\n"
                "    stages:\n" STAGE("60", "12", "10") STAGE("60", "16", "10")
                    STAGE("60", "24", "18"),
};
