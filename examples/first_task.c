/* The smallest whole program: a task of one's own, trained by the usual command, resumed by it too.
 *
 *     $ example_first_task train --experiment=curve --mode=train_and_eval --model_dir=run */
#include <tilth/tilth.h>

static tl_status build_model(tl_task *t, tl_model **out)
{
    tl_dense_config hidden = {.units = 32, .activation = TL_ACT_TANH}, last = {.units = 1};
    tl_sequential_config layers = {
        .layers = TL_LAYERS({.layer = {.type = "dense", .value = &hidden}},
                            {.layer = {.type = "dense", .value = &last}}),
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

static const tl_desc desc = {
    .name = "curve",
    .help = "a curve",
    .size = sizeof(tl_task_config),
    .base = &tl_task_config_desc,
};
static const tl_task_class task = {
    .cls = TL_CLASS(tl_task_class, "curve", &tl_base_task.cls, tl_task, &desc,
                    .help = "learns a curve"),
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
};
static const tl_experiment_class experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "curve", .help = "a curve"},
    .task = &desc,
    .defaults =
        "task: {train_data: {is_training: true, global_batch_size: 32},\n"
        "       validation_data: {is_training: false, global_batch_size: 128}}\n"
        "trainer: {train_steps: 2000, steps_per_loop: 500, validation_interval: 1000,\n"
        "          optimizer_config: {optimizer: {type: adam}, learning_rate: {type: constant,\n"
        "                             constant: {learning_rate: 0.005}}}}\n",
};

int main(int argc, char **argv)
{
    static const tl_entry entries[] = {{&tl_kind_task, &task.cls},
                                       {&tl_kind_experiment, &experiment.cls}};
    static const tl_module module = {TL_MODULE_HEAD("curve"), entries, TL_COUNT(entries)};
    return tl_main(argc, argv, &module);
}
