/* Private to zoo and builtin: the modules that ship. */
#ifndef TILTH_SRC_ZOO_ZOO_H
#define TILTH_SRC_ZOO_ZOO_H

#include <tilth/train/experiment.h>

extern const tl_module tli_mock_module;
extern const tl_experiment_class tli_images_experiment, tli_multi_task_local, tli_progressive_local;

/* What every experiment asks of its data: both kinds know whether they train. */
#define TLI_DATA_RESTRICTIONS                                                                      \
    ((const char *const[]){"task.train_data.is_training != None",                                  \
                           "task.validation_data.is_training != None", NULL})

/* A class of experiments that is nothing but defaults, which are YAML. */
#define TLI_EXPERIMENT(id, name_, base_, task_, help_, ...)                                        \
    static const tl_experiment_class id = {.cls = {.class_size = sizeof(tl_experiment_class),      \
                                                   .name = name_,                                  \
                                                   .base = base_,                                  \
                                                   .help = help_},                                 \
                                           .task = &task_,                                         \
                                           .restrictions = TLI_DATA_RESTRICTIONS,                  \
                                           .defaults = __VA_ARGS__}

/* What an experiment sets that completes itself comes from there (`params --explain`). */
#define TLI_THE_DATA "the data"
/* Sets a key, unless somebody has. */
TL_NODISCARD tl_status tli_choose(tl_config *config, const char *key, const char *format, ...)
    TL_PRINTF(3, 4);
/* The same for the size of a batch, or a little more: all lanes get as many examples. */
TL_NODISCARD tl_status tli_choose_batch(tl_config *config, const char *key, int64_t batch);
/* Chooses how long an experiment trains, if nobody has said it, and when it evaluates: after each
 * pass or less often. Intervals are multiples of a loop, and the training of an interval. `epoch`
 * is the number of steps of a pass. */
TL_NODISCARD tl_status tli_choose_steps(tl_config *config, int64_t epoch, int64_t epochs);

#endif
