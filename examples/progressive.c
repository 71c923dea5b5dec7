/* Stages of one's own: a policy in C, for what a configuration cannot say. The model of the second
 * stage is twice as wide, and begins as the same function: each unit is there twice, and counts
 * half.
 *
 *     $ example_progressive train --experiment=growing --mode=train_and_eval --model_dir=run */
#include <tilth/tilth.h>

enum { STAGES = 2, STEPS = 1000, NARROW = 8 };

static tl_status build(tl_task *t, int64_t units, tl_model **out)
{
    tl_dense_config hidden = {.units = units, .activation = TL_ACT_TANH}, last = {.units = 1};
    tl_sequential_config layers = {
        .layers = TL_LAYERS({.name = "hidden", .layer = {.type = "dense", .value = &hidden}},
                            {.name = "last", .layer = {.type = "dense", .value = &last}}),
    };
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &tl_layer_sequential,
                                              .config = &layers,
                                              .seed = t->seed,
                                              .inputs = &(tl_spec){"x", TL_F32, TL_SHAPE(1, 1)},
                                              .input_count = 1,
                                              .dtype = t->dtype});
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    float x[512], y[512];
    (void)t;
    for (int i = 0; i < 512; i++) {
        x[i] = (float)i / 256 - 1;
        y[i] = x[i] * x[i] * x[i] - x[i];
    }
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(512, 1), x},
                               {"y", TL_F32, TL_SHAPE(512, 1), y}};
    bool training = data->is_training.value;
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = 2,
                                                         .copy = true,
                                                         .batch_size = data->global_batch_size,
                                                         .shuffle = training,
                                                         .repeat = training,
                                                         .seed = input->seed});
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t, (void)aux;
    return tl_mean_squared_error(c, labels->items[0].tensor, outputs->items[0].tensor);
}

/* --- the policy ------------------------------------------------------------------------------- */

static int64_t num_stages(const tl_trainer *t)
{
    (void)t;
    return STAGES;
}

static int64_t num_steps(const tl_trainer *t, int64_t stage)
{
    (void)t, (void)stage;
    return STEPS;
}

/* Values of a parameter, twice, each times `factor`. */
static tl_status put_twice(tl_model *to, const tl_model *from, const char *path, double factor)
{
    double values[2 * NARROW];
    TL_TRY(tl_tensor_get_doubles(tl_model_find(from, path)->tensor, values, NARROW));
    for (int i = 0; i < NARROW; i++) values[NARROW + i] = values[i] *= factor;
    return tl_tensor_set_doubles(tl_model_find(to, path)->tensor, values, 2 * (int64_t)NARROW);
}

static tl_status widen(tl_model *wide, const tl_model *narrow)
{
    TL_TRY(tl_model_take_over(wide, narrow, NULL)); // what has the same shape: the last bias
    TL_TRY(put_twice(wide, narrow, "hidden/kernel", 1));
    TL_TRY(put_twice(wide, narrow, "hidden/bias", 1));
    return put_twice(wide, narrow, "last/kernel", 0.5);
}

static tl_status get_model(tl_trainer *t, int64_t stage, tl_model *old, tl_model **out)
{
    TL_TRY(build(t->task, stage == 0 ? NARROW : 2 * NARROW, out));
    return old ? widen(*out, old) : TL_OK; // none when a checkpoint of this stage is restored
}

static tl_status get_optimizer(tl_trainer *t, int64_t stage, tl_model *m, tl_optimizer **out)
{
    (void)stage;
    return tl_task_create_optimizer(t->task, m, &t->params->optimizer_config, &t->config->runtime,
                                    out);
}

static tl_status get_train_dataset(tl_trainer *t, int64_t stage, const tl_input_context *input,
                                   tl_dataset *old, tl_dataset **out)
{
    (void)stage;
    *out = old; // the same goes on
    return old ? TL_OK : build_inputs(t->task, t->task->config->train_data, input, out);
}

static tl_status get_eval_dataset(tl_trainer *t, int64_t stage, const tl_input_context *input,
                                  tl_dataset *old, tl_dataset **out)
{
    (void)stage;
    *out = old;
    return old ? TL_OK : build_inputs(t->task, t->task->config->validation_data, input, out);
}

static const tl_progressive_policy policy = {
    .num_stages = num_stages,
    .num_steps = num_steps,
    .get_model = get_model,
    .get_optimizer = get_optimizer,
    .get_train_dataset = get_train_dataset,
    .get_eval_dataset = get_eval_dataset,
};

/* --- all of it -------------------------------------------------------------------------------- */

static const tl_desc desc = {.name = "growing",
                             .help = "a curve",
                             .size = sizeof(tl_task_config),
                             .base = &tl_task_config_desc};
static const tl_task_class task = {
    .cls = TL_CLASS(tl_task_class, "growing", &tl_base_task.cls, tl_task, &desc),
    .build_losses = build_losses,
    .policy = &policy,
};
static const tl_experiment_class experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "growing", .help = "a curve"},
    .task = &desc,
    .trainer = &tl_progressive_trainer_config_desc,
    .defaults =
        "task: {train_data: {is_training: true, global_batch_size: 32},\n"
        "       validation_data: {is_training: false, global_batch_size: 128}}\n"
        "trainer: {train_steps: 2000, steps_per_loop: 500, validation_interval: 500,\n"
        "          optimizer_config: {optimizer: {type: adam}, learning_rate: {type: constant,\n"
        "                             constant: {learning_rate: 0.005}}}}\n",
};

int main(int argc, char **argv)
{
    static const tl_entry entries[] = {{&tl_kind_task, &task.cls},
                                       {&tl_kind_experiment, &experiment.cls}};
    static const tl_module module = {TL_MODULE_HEAD("growing"), entries, TL_COUNT(entries)};
    return tl_main(argc, argv, &module);
}
