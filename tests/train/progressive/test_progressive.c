/* Trainings in stages: when they change, what a stage takes over, and that a run goes on from each
 * of its steps as if it had not stopped.
 * runs: fake device */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/builtin/builtin.h>
#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/train/progressive/progressive.h>
#include <tilth/train/run/run.h>

#include "train/lab.h"

enum { EXAMPLES = 24, WIDTH = 3 };

/* --- a task whose model has a size ------------------------------------------------------------ */

typedef struct grow_config {
    tl_task_config base;
    int64_t units;
    bool deep;
} grow_config;

typedef struct net {
    tl_model base;
    tl_layer *first, *second, *drop, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    const grow_config *g = config;
    n->first = tl_dense(s, "first", .units = g->units, .activation = TL_ACT_TANH);
    if (g->deep) n->second = tl_dense(s, "second", .units = g->units, .activation = TL_ACT_TANH);
    n->drop = tl_dropout_layer(s, "drop", .rate = 0.25);
    n->head = tl_dense(s, "head", .units = 1);
    return tl_scope_status(s);
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    x = tl_call(c, n->first, x);
    if (n->second) x = tl_call(c, n->second, x);
    return tl_call(c, n->head, tl_call(c, n->drop, x));
}
static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "grow_net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

static tl_status build_model(tl_task *t, tl_model **out)
{
    const tl_spec x = {"x", TL_F32, TL_SHAPE(4, WIDTH)};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &net_class,
                                              .config = t->config,
                                              .inputs = &x,
                                              .input_count = 1,
                                              .seed = t->seed,
                                              .dtype = t->dtype});
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    float x[EXAMPLES][WIDTH], y[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) {
        y[i] = 0;
        for (int k = 0; k < WIDTH; k++) {
            x[i][k] = (float)((i * 7 + k * 5) % 11) / 11 - 0.5F;
            y[i] += x[i][k] * (float)(k + 1);
        }
    }
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(EXAMPLES, WIDTH), x},
                               {"y", TL_F32, TL_SHAPE(EXAMPLES, 1), y}};
    bool training = data == t->config->train_data;
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = 2,
                                                         .copy = true,
                                                         .batch_size = data->global_batch_size,
                                                         .seed = input->seed,
                                                         .shuffle = training,
                                                         .repeat = training});
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t, (void)aux;
    tl_tensor *d = tl_sub(c, outputs->items[0].tensor, labels->items[0].tensor);
    return tl_mean(c, tl_square(c, d), TL_ALL, false);
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    (void)t, (void)training;
    return tl_metrics_add(NULL, into, &tl_metric_mean_squared_error, NULL, "mse");
}

static const tl_field grow_fields[] = {
    TL_F(grow_config, units, .i = 4, TL_AT_LEAST(1), .help = "units inside"),
    TL_F(grow_config, deep, .help = "a second layer"),
    TL_F_END,
};
static const tl_desc grow_desc = {.name = "grow",
                                  .help = "a model that grows",
                                  .size = sizeof(grow_config),
                                  .fields = grow_fields,
                                  .base = &tl_task_config_desc};
static const tl_task_class grow_task = {
    .cls = TL_CLASS(tl_task_class, "grow", &tl_base_task.cls, tl_task, &grow_desc,
                    .help = "a model that grows"),
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
};

/* --- the same with a policy of its own -------------------------------------------------------- */

static bool same_data;
static int64_t asked_stage;
static bool asked_with_old;

static int64_t two_stages(const tl_trainer *t)
{
    (void)t;
    return 2;
}

static int64_t two_and_four(const tl_trainer *t, int64_t stage)
{
    (void)t;
    return stage == 0 ? 2 : 4;
}

static tl_status policy_model(tl_trainer *t, int64_t stage, tl_model *old, tl_model **out)
{
    asked_stage = stage;
    asked_with_old = old != NULL;
    TL_TRY(build_model(t->task, out));
    return old ? tl_model_take_over(*out, old, NULL) : TL_OK;
}

static tl_status policy_optimizer(tl_trainer *t, int64_t stage, tl_model *m, tl_optimizer **out)
{
    (void)stage;
    return tl_task_create_optimizer(t->task, m, &t->params->optimizer_config, &t->config->runtime,
                                    out);
}

static tl_status policy_train(tl_trainer *t, int64_t stage, const tl_input_context *input,
                              tl_dataset *old, tl_dataset **out)
{
    (void)stage;
    *out = old;
    return old && same_data ? TL_OK
                            : build_inputs(t->task, t->task->config->train_data, input, out);
}

static tl_status policy_eval(tl_trainer *t, int64_t stage, const tl_input_context *input,
                             tl_dataset *old, tl_dataset **out)
{
    (void)stage;
    *out = old;
    return old ? TL_OK : build_inputs(t->task, t->task->config->validation_data, input, out);
}

static const tl_progressive_policy policy = {
    .num_stages = two_stages,
    .num_steps = two_and_four,
    .get_model = policy_model,
    .get_optimizer = policy_optimizer,
    .get_train_dataset = policy_train,
    .get_eval_dataset = policy_eval,
};
static const tl_desc planned_desc = {
    .name = "planned", .help = "with a policy", .size = sizeof(grow_config), .base = &grow_desc};
static const tl_task_class planned_task = {
    .cls = TL_CLASS(tl_task_class, "planned", &grow_task.cls, tl_task, &planned_desc,
                    .help = "with a policy"),
    .policy = &policy,
};

#define SETTINGS                                                                                   \
    "task: {train_data: {global_batch_size: 4}, validation_data: {global_batch_size: 8}}\n"        \
    "tilth: {seed: 3}\n"                                                                           \
    "trainer:\n"                                                                                   \
    "  train_steps: 15\n"                                                                          \
    "  steps_per_loop: 3\n"                                                                        \
    "  summary_interval: 3\n"                                                                      \
    "  checkpoint_interval: 1\n"                                                                   \
    "  max_to_keep: null\n"                                                                        \
    "  validation_interval: 6\n"                                                                   \
    "  optimizer_config:\n"                                                                        \
    "    optimizer: {type: adam}\n"                                                                \
    "    learning_rate: {type: constant, constant: {learning_rate: 0.05}}\n"
/* The first edge, at 4, lies within a loop; the second, at 9, at the end of one. */
#define STAGES                                                                                     \
    "  progressive:\n"                                                                             \
    "    stages:\n"                                                                                \
    "    - num_steps: 4\n"                                                                         \
    "    - num_steps: 5\n"                                                                         \
    "      task: {deep: true, train_data: {global_batch_size: 6}}\n"                               \
    "      optimizer_config: {learning_rate: {constant: {learning_rate: 0.02}}}\n"                 \
    "    - num_steps: 6\n"                                                                         \
    "      task: {deep: true, units: 8}\n"
static const tl_experiment_class grow_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "grow", .help = "it grows"},
    .task = &grow_desc,
    .trainer = &tl_progressive_trainer_config_desc,
    .defaults = SETTINGS STAGES,
};
static const tl_experiment_class planned_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "planned", .help = "planned"},
    .task = &planned_desc,
    .trainer = &tl_progressive_trainer_config_desc,
    .defaults = SETTINGS,
};
static const tl_experiment_class bare_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "bare", .help = "without stages"},
    .task = &grow_desc,
    .trainer = &tl_progressive_trainer_config_desc,
    .defaults = SETTINGS,
};
static const tl_entry entries[] = {{&tl_kind_task, &grow_task.cls},
                                   {&tl_kind_task, &planned_task.cls},
                                   {&tl_kind_experiment, &grow_experiment.cls},
                                   {&tl_kind_experiment, &planned_experiment.cls},
                                   {&tl_kind_experiment, &bare_experiment.cls}};
static const tl_module module = {TL_MODULE_HEAD("grow"), entries, TL_COUNT(entries)};

/* --- a trainer for them ----------------------------------------------------------------------- */

static tl_status open_task(lab *w, const char *experiment, const char *override)
{
    return open_task_of(w, &module, experiment, override, 11);
}

static tl_status open_lab(lab *w, const char *experiment, const char *override)
{
    TL_TRY(open_task(w, experiment, override));
    return tl_create_trainer(&w->t, w->params, w->task, w->strategy, true, true, NULL, NULL, 11);
}

static int64_t position_of(const lab *w)
{
    tl_str text = TL_STR_INIT;
    assert_ok(tl_dataset_tell(w->t->train_dataset, &text));
    const char *at = strstr(tl_str_text(&text), "position ");
    int64_t position = at ? atoll(at + strlen("position ")) : -1;
    tl_str_deinit(&text);
    return position;
}

/* --- stages ----------------------------------------------------------------------------------- */

static void steps_have_stages(void **state)
{
    (void)state;
    lab w;
    assert_ok(open_lab(&w, "planned", NULL));
    assert_ptr_equal(w.t->cls, &tl_progressive_trainer);
    assert_int_equal(tl_trainer_stage_count(w.t), 2);
    static const int64_t wanted[] = {0, 0, 1, 1, 1, 1, 1, 1, 1};
    for (int64_t step = 0; step < 9; step++)
        assert_int_equal(tl_trainer_stage_of(w.t, step), wanted[step]);
    close_lab(&w);
}

/* Stages of 2 and 4 steps: a loop of 4 steps is the first stage's; then it is the last one. */
static void a_loop_ends_in_the_next_stage(void **state)
{
    (void)state;
    char folder[TEMPORARY_PATH], path[TEMPORARY_PATH + 16];
    lab w, later;
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-stages")));
    snprintf(path, sizeof path, "%s/c.safetensors", folder);
    assert_ok(open_lab(&w, "planned", NULL));
    assert_int_equal(asked_stage, 0);
    assert_false(asked_with_old);
    assert_ok(tl_trainer_train(w.t, 4, w.logs));
    assert_true(told(&w, "stage") == 0);
    assert_int_equal(tl_trainer_stage(w.t), 1);
    assert_int_equal(asked_stage, 1);
    assert_true(asked_with_old);
    assert_int_equal(tl_optimizer_iterations(w.t->optimizer), 0); // a new one
    assert_ok(tl_checkpoint_save(path, tl_trainer_checkpoint(w.t), NULL));
    // a fresh trainer goes to that stage before it is restored, without a model of the first
    assert_ok(open_lab(&later, "planned", NULL));
    asked_stage = -1;
    assert_ok(tl_trainer_restore_to_evaluate(later.t, path));
    assert_int_equal(tl_trainer_stage(later.t), 1);
    assert_int_equal(asked_stage, 1);
    assert_false(asked_with_old);
    assert_int_equal(later.t->global_step, 4);
    close_lab(&later);
    close_lab(&w);
    remove_folder(folder);
}

static void data_go_on_when_they_are_the_same(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        lab w;
        same_data = same;
        assert_ok(open_lab(&w, "planned", NULL));
        const tl_dataset *before = w.t->train_dataset;
        assert_ok(tl_trainer_train(w.t, 4, w.logs));
        assert_true((w.t->train_dataset == before) == same);
        assert_int_equal(position_of(&w), same ? 16 : 0);
        close_lab(&w);
    }
}

/* The middle stage is shorter than a loop. The last one has its data, not those of the first. */
static void a_loop_may_reach_over_a_stage(void **state)
{
    (void)state;
    lab w;
    assert_ok(open_lab(&w, "bare",
                       "{trainer: {progressive: {stages: ["
                       "{num_steps: 2, task: {train_data: {global_batch_size: 6}}}, "
                       "{num_steps: 1}, {num_steps: 9}]}}}"));
    assert_ok(tl_trainer_train(w.t, 4, w.logs));
    assert_int_equal(tl_trainer_stage(w.t), 2);
    assert_ok(tl_trainer_train(w.t, 1, w.logs));
    assert_int_equal(position_of(&w), 4);
    close_lab(&w);
}

/* Averages that a stage keeps are evaluated, by whoever evaluates. */
static void averages_of_a_stage_are_evaluated(void **state)
{
    (void)state;
    static const char override[] =
        "{trainer: {progressive: {stages: [{num_steps: 3}, {num_steps: 9, optimizer_config: "
        "{ema: {average_decay: 0.9, dynamic_decay: false}}}]}}}";
    char folder[TEMPORARY_PATH], path[TEMPORARY_PATH + 16];
    lab w;
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-averages")));
    snprintf(path, sizeof path, "%s/c.safetensors", folder);
    assert_ok(open_lab(&w, "bare", override));
    assert_ok(tl_trainer_train(w.t, 3, w.logs));
    assert_ok(tl_trainer_train(w.t, 6, w.logs));
    assert_ok(tl_checkpoint_save(path, tl_trainer_checkpoint(w.t), NULL));
    assert_ok(tl_trainer_evaluate(w.t, -1, w.logs));
    const double wanted = told(&w, "mse");
    close_lab(&w);
    assert_ok(open_task(&w, "bare", override));
    assert_ok(tl_create_trainer(&w.t, w.params, w.task, w.strategy, false, true, NULL, NULL, 11));
    assert_ok(tl_trainer_restore_to_evaluate(w.t, path));
    assert_ok(tl_trainer_evaluate(w.t, -1, w.logs));
    assert_near(told(&w, "mse"), wanted, 1e-9);
    close_lab(&w);
    remove_folder(folder);
}

static void a_stage_takes_weights_over(void **state)
{
    (void)state;
    lab w;
    double before[WIDTH * 4], after[WIDTH * 4];
    assert_ok(open_lab(&w, "grow", NULL));
    assert_int_equal(tl_trainer_stage_count(w.t), 3);
    assert_null(tl_model_find(w.t->model, "second/kernel"));
    assert_ok(tl_trainer_train(w.t, 3, w.logs));
    assert_int_equal(tl_trainer_stage(w.t), 0);
    assert_near(told(&w, "learning_rate"), 0.05, 1e-12);
    assert_ok(tl_trainer_train(w.t, 2, w.logs)); // over the edge, at which nothing happens
    assert_ok(
        tl_tensor_get_doubles(tl_model_find(w.t->model, "first/kernel")->tensor, after, WIDTH * 4));
    assert_int_equal(tl_trainer_stage(w.t), 1);
    assert_near(told(&w, "learning_rate"), 0.05, 1e-12); // that of the steps that were done
    assert_non_null(tl_model_find(w.t->model, "second/kernel"));
    assert_ok(tl_trainer_train(w.t, 3, w.logs));
    assert_near(told(&w, "learning_rate"), 0.02, 1e-12);
    assert_ok(tl_tensor_get_doubles(tl_model_find(w.t->model, "first/kernel")->tensor, before,
                                    WIDTH * 4));
    assert_memory_not_equal(before, after, sizeof before);
    // of other shapes: new ones
    assert_ok(tl_trainer_train(w.t, 1, w.logs));
    assert_int_equal(tl_trainer_stage(w.t), 2);
    assert_int_equal(tl_tensor_count(tl_model_find(w.t->model, "first/kernel")->tensor), WIDTH * 8);
    close_lab(&w);
    // what is taken over is what was there
    tl_model *small, *large;
    int64_t count;
    lab a;
    assert_ok(open_task(&a, "grow", NULL));
    grow_config large_config = *(const grow_config *)a.task->config;
    assert_ok(build_model(a.task, &small));
    large_config.deep = true;
    const tl_task_config *own = a.task->config;
    a.task->config = &large_config.base;
    a.task->seed = 12;
    assert_ok(build_model(a.task, &large));
    assert_ok(tl_model_take_over(large, small, &count));
    a.task->config = own;
    assert_int_equal(count, 4); // kernel and bias of the first layer and of the last one
    assert_ok(tl_tensor_get_doubles(tl_model_find(small, "first/kernel")->tensor, before, 12));
    assert_ok(tl_tensor_get_doubles(tl_model_find(large, "first/kernel")->tensor, after, 12));
    assert_memory_equal(before, after, sizeof before);
    tl_model_free(&small);
    tl_model_free(&large);
    close_lab(&a);
}

/* --- runs ------------------------------------------------------------------------------------- */

static tl_status run(lab *w, tl_run_result *out, const char *mode, const char *folder)
{
    return tl_run_experiment(out, &(tl_run_args){.strategy = w->strategy,
                                                 .task = w->task,
                                                 .mode = mode,
                                                 .params = w->params,
                                                 .config = w->config,
                                                 .seed = 11,
                                                 .quiet = true,
                                                 .without_summaries = true,
                                                 .model_dir = folder});
}

static void run_to_the_end(const char *folder, const char *override)
{
    lab w;
    tl_run_result r;
    assert_ok(open_task(&w, "grow", override));
    assert_ok(run(&w, &r, "train_and_eval", folder));
    assert_int_equal(r.trainer->global_step, 15);
    assert_int_equal(tl_trainer_stage(r.trainer), 2);
    tl_run_result_deinit(&r);
    close_lab(&w);
}

static char *file_of(const char *folder, const char *name, size_t *size)
{
    char path[TEMPORARY_PATH * 2];
    char *bytes;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(tl_file_read(&bytes, size, path, 1 << 24));
    return bytes;
}

/* From each checkpoint: inside a stage, at an edge, in a loop that reaches over one. */
static void runs_go_on_from_each_step(void **state)
{
    (void)state;
    char whole[TEMPORARY_PATH], name[64];
    size_t size, other;
    assert_non_null(mkdtemp(temporary(whole, "tilth-test-whole")));
    run_to_the_end(whole, NULL);
    char *last = file_of(whole, "ckpt-15.safetensors", &size);
    for (int step = 1; step < 15; step++) {
        char part[TEMPORARY_PATH], path[TEMPORARY_PATH * 2];
        assert_non_null(mkdtemp(temporary(part, "tilth-test-part")));
        snprintf(name, sizeof name, "ckpt-%d.safetensors", step);
        snprintf(path, sizeof path, "%s/%s", part, name);
        char *bytes = file_of(whole, name, &other);
        assert_ok(tl_file_write_atomic(path, bytes, other));
        tl_free(bytes);
        run_to_the_end(part, NULL);
        bytes = file_of(part, "ckpt-15.safetensors", &other);
        if (other != size || memcmp(bytes, last, size) != 0)
            fail_msg("a run that goes on from step %d does not end the same", step);
        tl_free(bytes);
        remove_folder(part);
    }
    tl_free(last);
    remove_folder(whole);
}

static bool exists(const char *folder, const char *name)
{
    char path[TEMPORARY_PATH * 2];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void plain_checkpoints_are_exported(void **state)
{
    (void)state;
    char folder[TEMPORARY_PATH], path[TEMPORARY_PATH * 2];
    tl_checkpoint *c;
    tl_state_entry e;
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-export")));
    run_to_the_end(folder, "trainer.export_checkpoint_interval=6");
    assert_true(exists(folder, "exported_ckpts/ckpt-12.safetensors"));
    assert_true(exists(folder, "exported_ckpts/ckpt-15.safetensors")); // the last step always
    assert_false(exists(folder, "exported_ckpts/ckpt-6.safetensors")); // of an earlier stage
    snprintf(path, sizeof path, "%s/exported_ckpts/ckpt-15.safetensors", folder);
    assert_ok(tl_checkpoint_open(&c, path));
    assert_true(tl_state_find(&e, tl_checkpoint_state(c), "model/second/kernel"));
    assert_true(tl_state_find(&e, tl_checkpoint_state(c), "optimizer/iterations"));
    assert_false(tl_state_find(&e, tl_checkpoint_state(c), "stage_id"));
    tl_checkpoint_free(&c);
    remove_folder(folder);
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-export")));
    run_to_the_end(folder, "trainer.export_only_final_stage_ckpt=false,"
                           "trainer.export_checkpoint_interval=6");
    assert_true(exists(folder, "exported_ckpts/ckpt-6.safetensors"));
    remove_folder(folder);
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-export")));
    run_to_the_end(folder, "trainer.export_checkpoint=false");
    assert_false(exists(folder, "exported_ckpts"));
    remove_folder(folder);
}

static void the_best_is_of_any_stage(void **state)
{
    (void)state;
    char folder[TEMPORARY_PATH];
    lab w;
    tl_run_result r;
    double best;
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-best")));
    const char *keep = "trainer.best_checkpoint_export_subdir=best,"
                       "trainer.best_checkpoint_eval_metric=mse,"
                       "trainer.best_checkpoint_metric_comp=lower";
    assert_ok(open_task(&w, "grow", keep));
    assert_ok(run(&w, &r, "train_and_eval", folder));
    assert_ok(tl_logs_number(&best, r.logs, "best_mse"));
    tl_run_result_deinit(&r);
    close_lab(&w);
    // whichever stage it is of, it can be evaluated, with the same result
    assert_ok(open_lab(&w, "grow", NULL));
    char path[TEMPORARY_PATH * 2];
    snprintf(path, sizeof path, "%s/best", folder);
    assert_ok(tl_trainer_restore_to_evaluate(w.t, path));
    assert_ok(tl_trainer_evaluate(w.t, -1, w.logs));
    assert_near(told(&w, "mse"), best, 1e-6);
    close_lab(&w);
    remove_folder(folder);
}

/* Averages of one stage alone are written in that stage, whichever it is. */
static void a_stage_may_keep_averages(void **state)
{
    (void)state;
    static const char *const overrides[] = {
        "{trainer: {optimizer_config: {ema: {average_decay: 0.9}}, progressive: {stages: ["
        "{num_steps: 9}, {num_steps: 6, optimizer_config: {ema: null}}]}}}",
        "{trainer: {progressive: {stages: ["
        "{num_steps: 9}, {num_steps: 6, optimizer_config: {ema: {average_decay: 0.9}}}]}}}",
    };
    static const char *const written[] = {"ema_checkpoints/average_weights-6.safetensors",
                                          "ema_checkpoints/average_weights-3.safetensors"};
    for (int i = 0; i < 2; i++) {
        char folder[TEMPORARY_PATH];
        lab w;
        tl_run_result r;
        assert_non_null(mkdtemp(temporary(folder, "tilth-test-averages")));
        assert_ok(open_task(&w, "bare", overrides[i]));
        assert_ok(run(&w, &r, "train_and_eval", folder));
        assert_true(exists(folder, written[i]));
        tl_run_result_deinit(&r);
        close_lab(&w);
        remove_folder(folder);
    }
}

static void refuses(const char *experiment, const char *override, const char *text)
{
    lab w;
    assert_int_not_equal(open_lab(&w, experiment, override), TL_OK);
    if (!strstr(tl_error_message(), text)) fail_msg("'%s' is not in: %s", text, tl_error_message());
    close_lab(&w);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    refuses("bare", NULL, "trainer.progressive is null");
    refuses("bare", "{trainer: {progressive: {stages: []}}}", "there must be at least one");
    refuses("bare", "{trainer: {progressive: {stages: [{task: {units: 2}}]}}}", "num_steps");
    refuses("bare", "{trainer: {progressive: {stages: [{num_steps: 1, task: {unit: 2}}]}}}",
            "did you mean 'units'");
    refuses("bare", "{trainer: {progressive: {stages: [{num_steps: 1, task: {units: 0}}]}}}",
            "stages[0]");
    refuses("bare",
            "{trainer: {progressive: {stages: [{num_steps: 1, task: {train_data: null}}]}}}",
            "nothing to train with in stage 0");
    refuses("bare",
            "{trainer: {progressive: {stages: [{num_steps: 1}, {num_steps: 1, task: "
            "{init_checkpoint: other}}]}}}",
            "stages[1]: task.init_checkpoint is 'other': only the first stage");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_stages),
        cmocka_unit_test(a_loop_ends_in_the_next_stage),
        cmocka_unit_test(data_go_on_when_they_are_the_same),
        cmocka_unit_test(a_loop_may_reach_over_a_stage),
        cmocka_unit_test(averages_of_a_stage_are_evaluated),
        cmocka_unit_test(a_stage_takes_weights_over),
        cmocka_unit_test(runs_go_on_from_each_step),
        cmocka_unit_test(plain_checkpoints_are_exported),
        cmocka_unit_test(the_best_is_of_any_stage),
        cmocka_unit_test(a_stage_may_keep_averages),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
