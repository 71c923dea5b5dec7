#include "training.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/clock.h>
#include <tilth/sys/graph/program.h>

static tl_status configure(training *t, const training_args *args)
{
    char runtime[128];
    tl_parse_options options = TL_PARSE_OPTIONS_INIT;
    options.experiment = args->experiment;
    snprintf(runtime, sizeof runtime,
             "runtime: {distribution_strategy: one_device, mixed_precision_dtype: %s}\n"
             "task: {train_data: {global_batch_size: %" PRId64 "}}\n",
             args->half ? "bfloat16" : "float32", args->batch_size);
    TL_TRY(tl_experiment_begin(&t->config, t->registry, &options));
    TL_TRY(tl_config_yaml(t->config, args->changes, "bench"));
    TL_TRY(tl_config_yaml(t->config, runtime, "bench"));
    return tl_experiment_finish(t->config, t->registry, args->experiment);
}

static tl_status open_parts(training *t, const training_args *args)
{
    TL_TRY(tl_registry_new_builtin(&t->registry));
    TL_TRY(configure(t, args));
    TL_TRY(tl_experiment_open(&t->strategy, &t->task, t->registry, tl_config_value(t->config), NULL,
                              1));
    return tl_logs_new(&t->logs);
}

tl_status training_make(training *t, const training_args *args)
{
    tl_dataset *data = args->data;
    tl_status st = open_parts(t, args);
    if (st == TL_OK && !data && args->make) st = args->make(&data, tl_strategy_engine(t->strategy));
    if (st != TL_OK) {
        tl_dataset_free(&data);
        return st;
    }
    return tl_trainer_new(&t->trainer, &(tl_trainer_args){.config = tl_config_value(t->config),
                                                          .strategy = t->strategy,
                                                          .task = t->task,
                                                          .train = true,
                                                          .train_dataset = data,
                                                          .seed = 1});
}

/* --- ResNet-50 -------------------------------------------------------------------------------- */

static tl_status draw_images(tl_tensor *images, tl_tensor *labels)
{
    tl_lease image = {0}, label = {0};
    tl_rng rng;
    tl_rng_init(&rng, 1);
    tl_status st = tl_lease_discard(&image, images);
    if (st == TL_OK) st = tl_lease_discard(&label, labels);
    for (int64_t i = 0; st == TL_OK && i < tl_tensor_count(images); i++)
        ((float *)image.data)[i] = (float)tl_rng_u32(&rng) * 0x1p-30f - 2;
    for (int i = 0; st == TL_OK && i < TRAINING_IMAGES; i++)
        ((int32_t *)label.data)[i] = (int32_t)tl_rng_below(&rng, TRAINING_CLASSES);
    if (st == TL_OK) st = tl_lease_end(&image);
    if (st == TL_OK) st = tl_lease_end(&label);
    tl_lease_drop(&image);
    tl_lease_drop(&label);
    return st;
}

tl_status training_make_images(tl_dataset **out, tl_engine *engine)
{
    tl_tensor *images = NULL, *labels = NULL;
    *out = NULL;
    tl_status st = tl_tensor_new(&images, engine, TL_F32, TL_SHAPE(TRAINING_IMAGES, 224, 224, 3));
    if (st == TL_OK) st = tl_tensor_new(&labels, engine, TL_I32, TL_SHAPE(TRAINING_IMAGES));
    if (st == TL_OK) st = draw_images(images, labels);
    tl_named fields[] = {{"image", images}, {"label", labels}};
    const tl_tensors batch = {.items = fields, .count = TL_COUNT(fields)};
    if (st == TL_OK) st = tl_dataset_from_batches(out, &batch, 1, true);
    tl_tensor_free(&images);
    tl_tensor_free(&labels);
    return st;
}

tl_status training_make_resnet50(training *t)
{
    static const char changes[] =
        "task:\n"
        "  model:\n"
        "    num_classes: 1001\n"
        "    input_size: [224, 224, 3]\n"
        "    backbone: {type: resnet, resnet: {model_id: 50}}\n"
        "    norm_activation: {use_sync_bn: false}\n"
        "trainer:\n"
        "  optimizer_config:\n"
        "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"
        "    learning_rate: {type: constant, constant: {learning_rate: 0.001}}\n";
    return training_make(t, &(training_args){.experiment = "image_classification",
                                             .changes = changes,
                                             .batch_size = TRAINING_IMAGES,
                                             .half = true,
                                             .make = training_make_images});
}

void training_run(void *payload)
{
    training *t = payload;
    if (tl_trainer_train(t->trainer, t->steps, t->logs) == TL_OK) return;
    fprintf(stderr, "%s\n", tl_error_message());
    abort();
}

void training_show(training *t)
{
    const char *what = getenv("TILTH_STEP") ? getenv("TILTH_STEP") : "";
    tl_function *f = tl_trainer_train_function(t->trainer);
    tl_program *p = f ? tl_function_program(f) : NULL;
    if (!p || (strcmp(what, "report") != 0 && strcmp(what, "graph") != 0)) return;
    tl_program_set_timing(p, true);
    for (int64_t begin = tl_clock_ns(); tl_clock_ns() - begin < 300000000;) training_run(t);
    tl_str text = TL_STR_INIT;
    tl_program_report(p, NULL, &text);
    if (strcmp(what, "graph") == 0) tl_graph_text(tl_program_graph(p), &text);
    puts(tl_str_text(&text));
    tl_str_deinit(&text);
}

void training_deinit(training *t)
{
    tl_trainer_free(&t->trainer);
    tl_logs_free(&t->logs);
    tl_task_free(&t->task);
    tl_strategy_free(&t->strategy);
    tl_config_free(&t->config);
    tl_registry_free(&t->registry);
}
