/* The experiment `mock`: all defaults, a model of one layer, and numbers for data. For tests, and
 * for trying out configuration. */
#include <tilth/base/alloc.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/create.h>
#include <tilth/ops/reduce.h>
#include <tilth/train/task.h>

#include "zoo/inner/zoo.h"

enum { EXAMPLES = 100, USUAL_BATCH = 10 };

static const tl_field no_fields[] = {TL_F_END};
static const tl_desc mock_task_desc = {
    .name = "mock_task",
    .help = "a task with nothing of its own",
    .size = sizeof(tl_task_config),
    .fields = no_fields,
    .base = &tl_task_config_desc,
};

static tl_status build_model(tl_task *t, tl_model **out)
{
    tl_spec x = {"x", TL_F32, TL_SHAPE(USUAL_BATCH, 1)};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &tl_layer_dense,
                                              .config = &(tl_dense_config){.units = 1},
                                              .inputs = &x,
                                              .input_count = 1,
                                              .seed = t->seed,
                                              .dtype = t->dtype,
                                              .registry = t->registry});
}

/* y = x, for x from 0 to 1. */
static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    float x[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) x[i] = (float)i / EXAMPLES;
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(EXAMPLES, 1), x},
                               {"y", TL_F32, TL_SHAPE(EXAMPLES, 1), x}};
    bool shuffled = data->is_training.set && data->is_training.value;
    bool endless = shuffled || data == t->config->train_data; // an evaluation ends
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = 2,
                                                         .copy = true,
                                                         .shuffle = shuffled,
                                                         .seed = input->seed,
                                                         .repeat = endless,
                                                         .batch_size = data->global_batch_size
                                                                           ? data->global_batch_size
                                                                           : USUAL_BATCH});
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t;
    tl_tensor *y = tl_cast(c, outputs->items[0].tensor, TL_F32);
    tl_tensor *difference = tl_sub(c, labels->items[0].tensor, y);
    tl_tensor *losses = tl_mean(c, tl_square(c, difference), TL_AXES(1), false);
    return aux ? tl_add(c, losses, tl_cast(c, aux, TL_F32)) : losses;
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    (void)t;
    (void)training;
    return tl_metrics_add(NULL, into, &tl_metric_mean_squared_error, NULL, "mse");
}

/* One for each batch, counted by the host. */
static tl_status validation_step(tl_task *t, tl_step *s)
{
    TL_TRY(tl_base_task.validation_step(t, s));
    tl_step_log(s, "counter", tl_full(s->ctx, TL_F32, TL_SCALAR, 1));
    return tl_ctx_status(s->ctx);
}

static tl_status aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    double one;
    (void)t;
    if (!*state && !(*state = tl_alloc_zero(sizeof(double)))) return TL_FAIL_NOMEM(sizeof(double));
    TL_TRY(tl_logs_number(&one, step, "counter"));
    *(double *)*state += one;
    return TL_OK;
}

static tl_status reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    (void)t;
    (void)global_step;
    return tl_logs_put(into, "counter", *(const double *)state);
}

static void release_aggregated(tl_task *t, void *state)
{
    (void)t;
    tl_free(state);
}

static const tl_task_class mock_task = {
    .cls = {.class_size = sizeof(tl_task_class),
            .name = "mock",
            .base = &tl_base_task.cls,
            .size = sizeof(tl_task),
            .config = &mock_task_desc,
            .help = "a task with nothing of its own, for tests"},
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
    .validation_step = validation_step,
    .aggregate_logs = aggregate_logs,
    .reduce_aggregated_logs = reduce_aggregated_logs,
    .release_aggregated = release_aggregated,
};

static const tl_experiment_class mock_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "mock",
            .help = "all defaults, for tests"},
    .task = &mock_task_desc,
};

static const tl_entry entries[] = {
    {&tl_kind_task, &mock_task.cls},
    {&tl_kind_experiment, &mock_experiment.cls},
};
const tl_module tli_mock_module = {TL_MODULE_HEAD("mock"), entries, TL_COUNT(entries)};
