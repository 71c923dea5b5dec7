/* Shared by the plug-in and the application: a task with a config of its own, and an experiment. */
#ifndef TILTH_EXAMPLES_DIGITS_H
#define TILTH_EXAMPLES_DIGITS_H

#include <tilth/tilth.h>

/* 1. The task's config: the base first, then what is new. */
typedef struct digits_config {
    tl_task_config base;
    int64_t num_classes;
} digits_config;

static const tl_field digits_fields[] = {
    TL_F(digits_config, num_classes, .i = 10, TL_AT_LEAST(2), .help = "number of classes"),
    TL_F_END
};
static const tl_desc digits_desc = {
    .name = "digits", .help = "classification of small images", .size = sizeof(digits_config),
    .base = &tl_task_config_desc, .fields = digits_fields,
};

/* 2. The task, found by its config. */
static const tl_task_class digits_task = {
    .cls = {.class_size = sizeof(tl_task_class), .name = "digits", .help = "tells digits apart",
            .config = &digits_desc},
};

/* 3. The experiment: which task, and what differs from the defaults. */
static const tl_experiment_class digits_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "example/digits",
            .help = "the example of this folder"},
    .task = &digits_desc,
    .trainer = &tl_trainer_config_desc,
    .defaults = "task: {num_classes: 10}\n"
                "trainer:\n"
                "  train_steps: 1000\n"
                "  optimizer_config:\n"
                "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"
                "    learning_rate: {type: constant, constant: {learning_rate: 0.01}}\n",
};

#endif
