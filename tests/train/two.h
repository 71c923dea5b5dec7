/* A trainer of a small real model, with dropout and running statistics, of which one example may
 * make it blow up.
 *
 *     two w;
 *     open_two(&w, "runtime.run_eagerly=true", NULL);
 *     assert_ok(tl_trainer_train(w.t, 6, w.logs));
 *     close_two(&w); */
#ifndef TILTH_TESTS_TRAIN_TWO_H
#define TILTH_TESTS_TRAIN_TWO_H

#include "test.h"

#include <stdlib.h>

#include <tilth/builtin/builtin.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/reduce.h>
#include <tilth/train/run/run.h>

#include "engine.h"

/* --- a task: two classes, dropout and running statistics -------------------------------------- */

enum { EXAMPLES = 48, WIDTH = 6 };

static bool spoiled;      /* one example makes the model blow up */
static bool hopeless;     /* then all do */
static bool mislabelled;  /* one example has a label that is none */
static int64_t data_ends; /* after so many batches; 0: never */

typedef struct net {
    tl_model base;
    tl_layer *hidden, *norm, *drop, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->hidden = tl_dense(s, "hidden", .units = 16);
    n->norm = tl_batch_norm(s, "norm");
    n->drop = tl_dropout_layer(s, "drop", .rate = 0.25);
    n->head = tl_dense(s, "head", .units = 2);
    return tl_scope_status(s);
}

/* What a usual example does not hurt. */
static tl_tensor *fragile(tl_ctx *c, tl_tensor *x)
{
    if (!spoiled) return x;
    tl_ctx_enter(c, "fragile");
    x = tl_log(c, tl_affine(c, x, -1, 50));
    tl_ctx_leave(c);
    return x;
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    x = fragile(c, tl_call(c, n->hidden, x));
    x = tl_relu(c, tl_call(c, n->norm, x));
    tl_ctx_log(c, "active", tl_mean(c, x, TL_ALL, false)); // from within the model
    return tl_call(c, n->head, tl_call(c, n->drop, x));
}
static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

static float xs[EXAMPLES][WIDTH], weights[EXAMPLES];
static int32_t ys[EXAMPLES], ids[EXAMPLES];
static int64_t batch_size;
static bool weighted;

static inline void make_examples(void)
{
    srand(1);
    for (int i = 0; i < EXAMPLES; i++) {
        ys[i] = i % 2;
        ids[i] = 100 + i;
        weights[i] = (float)(1 + i % 3);
        for (int k = 0; k < WIDTH; k++)
            xs[i][k] = (float)rand() / (float)RAND_MAX - 0.5f + (k == 0 ? 0.6f * (float)ys[i] : 0);
    }
    if (mislabelled) ys[23] = 9;
    for (int i = 0; spoiled && i < EXAMPLES; i++)
        for (int k = 0; k < WIDTH && (i == 17 || hopeless); k++) xs[i][k] = 1e5f;
}

static tl_status build_model(tl_task *t, tl_model **out)
{
    tl_spec x = {"x", TL_F32, TL_SHAPE(8, WIDTH)};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &net_class,
                                              .inputs = &x,
                                              .input_count = 1,
                                              .seed = 3,
                                              .dtype = t->dtype});
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(EXAMPLES, WIDTH), xs},
                               {"y", TL_I32, TL_SHAPE(EXAMPLES), ys},
                               {"weight", TL_F32, TL_SHAPE(EXAMPLES), weights}};
    (void)t;
    (void)input;
    bool training = data->is_training.set && data->is_training.value;
    tl_dataset *all;
    TL_TRY(tl_dataset_from_arrays(&all, &(tl_arrays_args){.arrays = arrays,
                                                          .count = weighted ? 3 : 2,
                                                          .batch_size = batch_size,
                                                          .copy = true,
                                                          .seed = 5,
                                                          .shuffle = training,
                                                          .repeat = training}));
    if (training && data_ends) return tl_dataset_take(out, &all, data_ends);
    if (training) {
        *out = all;
        return TL_OK;
    }
    return tl_dataset_pad(out, &all, batch_size);
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t;
    (void)aux;
    return tl_sparse_cross_entropy(c, labels->items[0].tensor, outputs->items[0].tensor);
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    (void)t;
    (void)training;
    return tl_metrics_add(NULL, into, &tl_metric_sparse_categorical_accuracy, NULL, "accuracy");
}

static const tl_field no_fields[] = {TL_F_END};
static const tl_desc task_desc = {
    .name = "two_task",
    .help = "two classes",
    .size = sizeof(tl_task_config),
    .fields = no_fields,
    .base = &tl_task_config_desc,
};
static const tl_task_class two_task = {
    .cls = TL_CLASS(tl_task_class, "two", &tl_base_task.cls, tl_task, &task_desc,
                    .help = "two classes"),
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
};
static const tl_experiment_class two_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "two", .help = "two classes"},
    .task = &task_desc,
    .defaults = "task: {train_data: {is_training: true}}\n"
                "trainer:\n"
                "  optimizer_config:\n"
                "    optimizer: {type: adamw, adamw: {weight_decay_rate: 0.01}}\n"
                "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.05, "
                "decay_steps: 100}}\n"
                "tilth: {seed: 11}\n",
};
static const tl_entry entries[] = {{&tl_kind_task, &two_task.cls},
                                   {&tl_kind_experiment, &two_experiment.cls}};
static const tl_module two_module = {TL_MODULE_HEAD("two"), entries, TL_COUNT(entries)};

/* --- a trainer for it ------------------------------------------------------------------------- */

typedef struct two {
    tl_registry *registry;
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *t;
    tl_logs *logs;
} two;

static inline void open_two(two *w, const char *override, const tl_trainer_class *cls)
{
    tl_parse_options o = {
        .experiment = "two", .params_override = override, .strict_override = true};
    *w = (two){0};
    make_examples();
    assert_ok(tl_registry_new_builtin(&w->registry));
    assert_ok(tl_registry_add(w->registry, &two_module));
    assert_ok(tl_registry_add(w->registry, &fake_module));
    assert_ok(tl_experiment_parse(&w->config, w->registry, &o));
    const tl_experiment_config *e = tl_config_value(w->config);
    assert_ok(tl_get_distribution_strategy(
        &w->strategy,
        &(tl_strategy_args){.registry = w->registry, .threads = 2, .lanes = e->tilth.lanes}));
    assert_ok(tl_get_task(&w->task, &(tl_task_args){.registry = w->registry,
                                                    .config = &e->task,
                                                    .dtype = tl_mixed_precision_dtype(
                                                        e->runtime.mixed_precision_dtype),
                                                    .engine = tl_strategy_engine(w->strategy)}));
    assert_ok(tl_create_trainer(&w->t, e, w->task, w->strategy, true, true, NULL, cls, 11));
    assert_ok(tl_logs_new(&w->logs));
}

static inline void close_two(two *w)
{
    tl_logs_free(&w->logs);
    tl_trainer_free(&w->t);
    tl_task_free(&w->task);
    tl_strategy_free(&w->strategy);
    tl_config_free(&w->config);
    tl_registry_free(&w->registry);
}

static inline int setup_two(void **state)
{
    (void)state;
    batch_size = 8;
    weighted = spoiled = hopeless = mislabelled = false;
    data_ends = 0;
    return 0;
}

#endif
