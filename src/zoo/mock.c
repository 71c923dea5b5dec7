/* The experiment `mock`: all defaults, nothing set. For trying out configuration. */
#include <tilth/train/experiment.h>

#include "zoo/zoo.h"

static const tl_field no_fields[] = {TL_F_END};
static const tl_desc mock_task_desc = {
    .name = "mock_task",
    .help = "a task with nothing of its own",
    .size = sizeof(tl_task_config),
    .fields = no_fields,
    .base = &tl_task_config_desc,
};

static const tl_task_class mock_task = {
    .cls = {.class_size = sizeof(tl_task_class), .name = "mock", .config = &mock_task_desc,
            .help = "a task with nothing of its own, for tests"},
};

static const tl_experiment_class mock_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "mock",
            .help = "all defaults, for tests"},
    .task = &mock_task_desc,
};

static const tl_entry entries[] = {
    {&tl_kind_task, &mock_task.cls},
    {&tl_kind_experiment, &mock_experiment.cls},
};
const tl_module tli_mock_module = {TL_MODULE_HEAD("mock"), entries, TL_COUNT(entries)};
