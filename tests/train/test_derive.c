/* Deriving from every class that ships: with no size, with members of one's own behind the base's,
 * and with too small a size. Under AddressSanitizer a method of the base that writes beside the
 * object is seen. */
#include "train/mock.h"

#include <tilth/data/source.h>
#include <tilth/nn/losses.h>
#include <tilth/nn/metrics.h>
#include <tilth/train/libai/default_trainer.h>
#include <tilth/train/hooks/hooks.h>
#include <tilth/train/run/run.h>
#include <tilth/zoo/vision.h>

enum { ZERO, OWN, SMALL, WAYS }; /* what the derived class says its size is */
enum { MINE = 4711 };

/* What lies behind the base's part of an object of the second way. */
static int64_t *mine_of(void *object, size_t base)
{
    return (int64_t *)(void *)((char *)object + base);
}

static tl_class derived(const tl_class *base, size_t size, int way)
{
    tl_class c = {
        .class_size = base->class_size, .name = "mine", .base = base, .config = base->config};
    if (way == OWN) c.size = size + sizeof(int64_t);
    if (way == SMALL) c.size = size - 1;
    return c;
}

static void assert_message(tl_status st, tl_status wanted, const char *text)
{
    if (!strstr(tl_error_message(), text)) fail_msg("'%s' lacks '%s'", tl_error_message(), text);
    assert_int_equal(st, wanted);
}

/* The message says which class, both sizes and what to do. */
static void assert_too_small(tl_status st, size_t size, const char *base)
{
    char text[256];
    snprintf(text, sizeof text,
             "class 'mine': its instances have %zu bytes, fewer than the %zu of its base '%s': let "
             "their struct begin",
             size - 1, size, base);
    assert_message(st, TL_EINVAL, text);
}

/* --- hooks ------------------------------------------------------------------------------------ */

static tl_status never(bool *holds, tl_controller *c, const tl_logs *logs, void *payload)
{
    (void)c, (void)logs, (void)payload;
    *holds = false;
    return TL_OK;
}

static tl_export_file_manager *exports;
static tl_export_model_config export_config;
static const tl_conditional_config conditional = {.condition = never};
static const tl_ema_checkpoint_config ema = {.dir = "run"};
static const tl_recovery_config recovery = {.loss_upper_bound = 1e9, .recovery_max_trials = 1};
static const tl_early_stopping_config stopping = {.metric = "accuracy", .patience = 9};
static const tl_best_checkpointer_config best = {.metric = "accuracy"};
static const tl_profiler_config profiler = {.dir = "profile"};
static const tl_periodic_writer_config no_writers = {0};

static const struct {
    const tl_hook_class *cls;
    size_t size;
    const void *config;
    const char *without; /* what is said when there is no config; NULL: that is fine */
} hooks[] = {
    {&tl_iteration_timer_hook, sizeof(tl_iteration_timer_instance), NULL, NULL},
    {&tl_lr_scheduler_hook, sizeof(tl_lr_scheduler_instance), NULL, NULL},
    {&tl_eval_hook, sizeof(tl_eval_instance), NULL, NULL},
    {&tl_periodic_writer_hook, sizeof(tl_periodic_writer_instance), &no_writers, "needs writers"},
    {&tl_periodic_checkpointer_hook, sizeof(tl_periodic_checkpointer_instance), NULL, NULL},
    {&tl_best_checkpointer_hook, sizeof(tl_best_checkpointer_instance), &best, "needs a metric"},
    {&tl_profiler_hook, sizeof(tl_profiler_instance), &profiler, "needs a folder"},
    {&tl_memory_stats_hook, sizeof(tl_memory_stats_instance), NULL, NULL},
    {&tl_throughput_hook, sizeof(tl_throughput_instance), NULL, NULL},
    {&tl_conditional_hook, sizeof(tl_conditional_instance), &conditional, "needs a condition"},
    {&tl_export_model_hook, sizeof(tl_export_model_instance), &export_config,
     "needs a file manager"},
    {&tl_ema_checkpoint_hook, sizeof(tl_ema_checkpoint_instance), &ema, "needs a folder"},
    {&tl_recovery_hook, sizeof(tl_recovery_instance), &recovery, "needs a config"},
    {&tl_early_stopping_hook, sizeof(tl_early_stopping_instance), &stopping, "needs a config"},
    {&tl_train_metrics_hook, sizeof(tl_hook), NULL, NULL},
};
enum { HOOKS = TL_COUNT(hooks) };

#define AVERAGED                                                                                   \
    "optimizer: {type: sgd}\n"                                                                     \
    "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"                          \
    "ema: {average_decay: 0.5, dynamic_decay: false}\n"

/* Hooks of all classes in one training, with evaluations and checkpoints. The metrics of training
 * are no toy's. */
static void use_hooks(toy *y, tl_hook *const *made)
{
    enum { WITHOUT_METRICS = HOOKS - 1 };
    tl_logs *logs;
    toy_open(y, AVERAGED, NULL);
    assert_ok(tl_logs_new(&logs));
    toy_control(y, made, WITHOUT_METRICS, (toy_options){.steps_per_loop = 4, .interval = 2});
    assert_ok(tl_controller_train_and_evaluate(y->c, 8, -1, 4, logs));
    tl_logs_free(&logs);
    toy_close(y);
}

static void hooks_of_every_class(void **state)
{
    toy *y = *state;
    static tl_hook_class classes[HOOKS];
    tl_hook *made[HOOKS], *none;
    assert_ok(
        tl_export_file_manager_new(&exports, &(tl_export_file_manager_args){.base = "export"}));
    export_config.files = exports;
    for (int way = ZERO; way < WAYS; way++) {
        for (int i = 0; i < HOOKS; i++) {
            const char *base = hooks[i].cls->cls.name;
            classes[i] = (tl_hook_class){.cls = derived(&hooks[i].cls->cls, hooks[i].size, way)};
            tl_status st = tl_hook_new(&made[i], &classes[i],
                                       &(tl_hook_args){.name = base, .config = hooks[i].config});
            if (way == SMALL) {
                assert_too_small(st, hooks[i].size, base);
                assert_null(made[i]);
                continue;
            }
            assert_ok(st);
            if (way == OWN) *mine_of(made[i], hooks[i].size) = MINE;
            if (!hooks[i].without) continue;
            assert_fails(tl_hook_new(&none, &classes[i], NULL), TL_EINVAL, hooks[i].without);
        }
        if (way == SMALL) continue;
        use_hooks(y, made);
        for (int i = 0; i < HOOKS; i++) {
            if (way == OWN) assert_int_equal(*mine_of(made[i], hooks[i].size), MINE);
            tl_hook_free(&made[i]);
        }
    }
    tl_export_file_manager_free(&exports);
}

static tl_status forgetful_start(tl_hook *h, const void *config)
{
    (void)h, (void)config;
    return TL_OK;
}

/* A class whose `start` takes the place of the base's. */
static void a_start_calls_that_of_its_base(void **state)
{
    (void)state;
    for (int i = 0; i < HOOKS; i++) {
        tl_hook_class forgetful = {
            .cls = derived(&hooks[i].cls->cls, hooks[i].size, ZERO),
            .start = forgetful_start,
        };
        tl_hook *h;
        tl_status st = tl_hook_new(&h, &forgetful, NULL);
        if (hooks[i].cls->start) assert_message(st, TL_ESTATE, "must call the start of '");
        else assert_ok(st);
        tl_hook_free(&h);
    }
}

/* As people write it. */
typedef struct my_best {
    tl_best_checkpointer_instance base;
    int64_t looks;
} my_best;

static tl_status my_best_start(tl_hook *h, const void *config)
{
    ((my_best *)h)->looks = 100;
    return tl_best_checkpointer_hook.start(h, config);
}

static tl_status my_best_after_step(tl_hook *h)
{
    ((my_best *)h)->looks++;
    return tl_best_checkpointer_hook.after_step(h);
}

static const tl_hook_class my_best_class = {
    .cls = TL_CLASS(tl_hook_class, "my_best", &tl_best_checkpointer_hook.cls, my_best, NULL),
    .start = my_best_start,
    .after_step = my_best_after_step,
};

static void a_hook_with_a_member(void **state)
{
    toy *y = *state;
    tl_hook *h;
    tl_logs *logs;
    assert_ok(tl_hook_new(&h, &my_best_class, &(tl_hook_args){.config = &best}));
    toy_open(y, AVERAGED, NULL);
    assert_ok(tl_logs_new(&logs));
    toy_control(y, &h, 1, (toy_options){.steps_per_loop = 4, .interval = 2});
    assert_ok(tl_controller_train_and_evaluate(y->c, 8, -1, 4, logs));
    assert_int_equal(((my_best *)h)->looks, 108);
    tl_logs_free(&logs);
    toy_close(y);
    tl_hook_free(&h);
}

/* --- writers and summary managers ------------------------------------------------------------- */

static void say_nothing(const char *line, void *payload)
{
    (void)line, (void)payload;
}

static const tl_console_writer_args console = {
    .batch_size = 4,
    .max_iteration = 9,
    .say = say_nothing,
};
static const tl_json_writer_args json = {.path = "metrics.json"};
static const tl_tensorboard_writer_args tensorboard = {.folder = "events"};
static const struct {
    const tl_event_writer_class *cls;
    size_t size;
    const void *args;
    const char *without;
} writers[] = {
    {&tl_console_writer, sizeof(tl_console_writer_instance), &console, NULL},
    {&tl_json_writer, sizeof(tl_json_writer_instance), &json, "needs a path"},
    {&tl_tensorboard_writer, sizeof(tl_tensorboard_writer_instance), &tensorboard,
     "needs a folder"},
};

static void writers_of_every_class(void **state)
{
    (void)state;
    tl_event_storage *s;
    assert_ok(tl_event_storage_new(&s, 0));
    assert_ok(tl_event_storage_put(s, "total_loss", 0.5));
    for (int way = ZERO; way < WAYS; way++)
        for (int i = 0; i < TL_COUNT(writers); i++) {
            tl_event_writer_class cls = {
                .cls = derived(&writers[i].cls->cls, writers[i].size, way),
            };
            tl_event_writer *w, *none;
            tl_status st = tl_event_writer_new(&w, &cls, writers[i].args);
            if (way == SMALL) {
                assert_too_small(st, writers[i].size, writers[i].cls->cls.name);
                continue;
            }
            assert_ok(st);
            if (writers[i].without)
                assert_fails(tl_event_writer_new(&none, &cls, NULL), TL_EINVAL, writers[i].without);
            if (way == OWN) *mine_of(w, writers[i].size) = MINE;
            assert_ok(tl_event_writer_write(w, s));
            assert_ok(tl_event_writer_sync(w));
            assert_ok(tl_event_writer_rewind(w, 0));
            if (way == OWN) assert_int_equal(*mine_of(w, writers[i].size), MINE);
            tl_event_writer_free(&w);
        }
    tl_event_storage_free(&s);
}

static tl_status forgetful_init(tl_event_writer *w, const void *args)
{
    (void)w, (void)args;
    return TL_OK;
}

static void an_init_calls_that_of_its_base(void **state)
{
    (void)state;
    tl_event_storage *s;
    assert_ok(tl_event_storage_new(&s, 0));
    assert_ok(tl_event_storage_put(s, "total_loss", 0.5));
    for (int i = 0; i < TL_COUNT(writers); i++) {
        tl_event_writer_class cls = {
            .cls = derived(&writers[i].cls->cls, 0, ZERO),
            .init = forgetful_init,
        };
        tl_event_writer *w;
        assert_ok(tl_event_writer_new(&w, &cls, NULL));
        if (writers[i].without) {
            assert_fails(tl_event_writer_write(w, s), TL_ESTATE, "must call that of its base");
            assert_fails(tl_event_writer_rewind(w, 0), TL_ESTATE, "must call that of its base");
        } else {
            assert_ok(tl_event_writer_write(w, s));
        }
        tl_event_writer_free(&w);
    }
    tl_event_storage_free(&s);
}

static void summary_managers_of_every_class(void **state)
{
    static const tl_summary_manager_class *const bases[] = {&tl_summary_manager_scalars,
                                                            &tl_summary_manager_images};
    const size_t size = sizeof(tl_summary_manager);
    int64_t step = 3;
    tl_logs *logs;
    (void)state;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_logs_put(logs, "loss", 0.5));
    for (int way = ZERO; way < WAYS; way++)
        for (int i = 0; i < TL_COUNT(bases); i++) {
            tl_summary_manager_class cls = {.cls = derived(&bases[i]->cls, size, way)};
            tl_summary_manager *m;
            tl_status st = tl_summary_manager_new(
                &m, &cls, &(tl_summary_manager_args){.dir = "s", .step = &step});
            if (way == SMALL) {
                assert_too_small(st, size, bases[i]->cls.name);
                continue;
            }
            assert_ok(st);
            if (way == OWN) *mine_of(m, size) = MINE;
            assert_ok(tl_summary_manager_write(m, logs));
            assert_ok(tl_summary_manager_rewind(m, 2));
            if (way == OWN) assert_int_equal(*mine_of(m, size), MINE);
            tl_summary_manager_free(&m);
        }
    tl_logs_free(&logs);
}

/* --- experiments: tasks, trainers, runners ---------------------------------------------------- */

#define RATES "optimizer_config: {optimizer: {type: sgd}, learning_rate: {type: constant}}"
static const char *const tiny_images =
    "task:\n"
    "  model: {num_classes: 3, input_size: [8, 8, 1], backbone: {type: mlp, mlp: {units: [4]}}}\n"
    "  train_data: {file_type: synthetic, synthetic_examples: 8, global_batch_size: 4}\n"
    "  validation_data: {file_type: synthetic, synthetic_examples: 8, global_batch_size: 4}\n"
    "runtime: {run_eagerly: true}\n"
    "tilth: {jit: false, threads: 1, seed: 1}\n"
    "trainer: {train_steps: 2, steps_per_loop: 1, checkpoint_interval: 1, validation_interval: 1, "
    "validation_steps: 1,\n"
    "          summary_interval: 1, train_tf_function: false, eval_tf_function: false,\n"
    "          " RATES "}\n";
static const char *const tiny_example =
    "task:\n"
    "  model: {num_classes: 3, input_size: [8, 8, 3]}\n"
    "  train_data: {file_type: synthetic, synthetic_examples: 8, global_batch_size: 4}\n"
    "  validation_data: {file_type: synthetic, synthetic_examples: 8, global_batch_size: 4}\n"
    "tilth: {jit: false, threads: 1, seed: 1}\n"
    "trainer: {train_steps: 2, steps_per_loop: 1, train_tf_function: false, eval_tf_function: "
    "false,\n"
    "          " RATES "}\n";
static const char *const tiny_mock =
    "tilth: {jit: false, threads: 1, seed: 1}\n"
    "task: {train_data: {global_batch_size: 10}, validation_data: {global_batch_size: 10}}\n"
    "trainer: {train_steps: 2, steps_per_loop: 1, train_tf_function: false, eval_tf_function: "
    "false,\n"
    "          " RATES "}\n";

typedef struct experiment {
    tl_config *config;
    const tl_experiment_config *params;
    tl_strategy *strategy;
    tl_task_args args;
} experiment;

static void open_experiment(experiment *e, const char *name, const char *yaml)
{
    assert_ok(tl_experiment_begin(
        &e->config, all, &(tl_parse_options){.experiment = name, .strict_override = true}));
    assert_ok(tl_config_yaml(e->config, yaml, "test.yaml"));
    assert_ok(tl_config_finish(e->config));
    e->params = tl_config_value(e->config);
    assert_ok(tl_get_distribution_strategy(
        &e->strategy,
        &(tl_strategy_args){.registry = all, .distribution_strategy = "one_device", .threads = 1}));
    e->args = (tl_task_args){.registry = all,
                             .config = &e->params->task,
                             .engine = tl_strategy_engine(e->strategy),
                             .seed = 1};
}

static void close_experiment(experiment *e)
{
    tl_strategy_free(&e->strategy);
    tl_config_free(&e->config);
}

/* Two steps and an evaluation. */
static void use_task(const experiment *e, tl_task *task, const tl_trainer_class *cls)
{
    tl_trainer *t;
    tl_logs *logs;
    assert_ok(tl_create_trainer(&t, e->params, task, e->strategy, true, true, NULL, cls, 1));
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_trainer_train(t, 2, logs));
    assert_ok(tl_trainer_evaluate(t, 1, logs));
    tl_logs_free(&logs);
    tl_trainer_free(&t);
}

static tl_status own_start(tl_task *t)
{
    (void)t;
    return TL_OK;
}

static const struct {
    const char *experiment, *const *yaml;
    size_t size;
} tasks[] = {
    {"image_classification", &tiny_images, sizeof(tl_image_task)},
    {"tf_vision_example_experiment", &tiny_example, sizeof(tl_task)},
    {"mock", &tiny_mock, sizeof(tl_task)},
};

static void tasks_of_every_class(void **state)
{
    (void)state;
    for (int i = 0; i < TL_COUNT(tasks); i++) {
        const size_t size = tasks[i].size;
        const tl_task_class *base;
        experiment e;
        open_experiment(&e, tasks[i].experiment, *tasks[i].yaml);
        assert_ok(tl_get_task_class(&base, all, e.args.config));
        for (int way = ZERO; way < WAYS; way++) {
            // A start that does not call the base's is as good: there is nothing that the base has
            // to make.
            tl_task_class cls = {
                .cls = derived(&base->cls, size, way),
                .start = way == OWN ? own_start : NULL,
            };
            tl_task *t;
            tl_status st = tl_task_new(&t, &cls, &e.args);
            if (way == SMALL) {
                assert_too_small(st, size, base->cls.name);
                assert_null(t);
                continue;
            }
            assert_ok(st);
            if (way == OWN) *mine_of(t, size) = MINE;
            use_task(&e, t, NULL);
            if (way == OWN) assert_int_equal(*mine_of(t, size), MINE);
            tl_task_free(&t);
        }
        close_experiment(&e);
    }
}

/* As people write it: one more member, and a loss that counts how often it is asked. */
typedef struct my_task {
    tl_image_task base;
    int64_t asked;
} my_task;

static tl_tensor *my_build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                                  const tl_tensors *outputs, tl_tensor *aux)
{
    ((my_task *)t)->asked++;
    return tl_image_classification_task.build_losses(t, c, labels, outputs, aux);
}

static const tl_task_class my_task_class = {
    .cls = TL_CLASS(tl_task_class, "my_task", &tl_image_classification_task.cls, my_task, NULL),
    .build_losses = my_build_losses,
};

static void a_task_with_a_member(void **state)
{
    experiment e;
    tl_task *t;
    (void)state;
    open_experiment(&e, "image_classification", tiny_images);
    assert_ok(tl_task_new(&t, &my_task_class, &e.args));
    use_task(&e, t, NULL);
    assert_int_equal(((my_task *)t)->asked, 3);
    tl_task_free(&t);
    close_experiment(&e);
}

/* The base's methods read its config. */
static void a_config_that_is_not_the_bases(void **state)
{
    static const tl_desc other = {
        .name = "other",
        .size = sizeof(tl_task_config),
        .base = &tl_task_config_desc,
    };
    const tl_task_class wrong = {
        .cls =
            TL_CLASS(tl_task_class, "wrong", &tl_image_classification_task.cls, my_task, &other)};
    experiment e;
    tl_task *t;
    (void)state;
    open_experiment(&e, "mock", tiny_mock);
    assert_fails(tl_task_new(&t, &wrong, &e.args), TL_EINVAL,
                 "task class 'wrong': its config 'other' does not derive from "
                 "'image_classification', the config of its base 'image_classification'");
    assert_fails(tl_task_new(&t, &my_task_class, &e.args), TL_EINVAL,
                 "takes a config 'image_classification', and was given 'mock_task'");
    e.args.config = &(tl_object){0};
    assert_fails(tl_task_new(&t, &my_task_class, &e.args), TL_EINVAL, "and was given none");
    close_experiment(&e);
}

static const struct {
    const tl_trainer_class *cls;
    size_t size;
} trainers[] = {
    {&tl_base_trainer, sizeof(tl_trainer)},
    {&tl_eager_trainer, sizeof(tl_libai_trainer)},
    {&tl_graph_trainer, sizeof(tl_libai_trainer)},
};

static void trainers_of_every_class(void **state)
{
    (void)state;
    for (int i = 0; i < TL_COUNT(trainers); i++) {
        const size_t size = trainers[i].size;
        const tl_class *base = &trainers[i].cls->cls;
        bool graph = trainers[i].cls == &tl_graph_trainer;
        experiment e;
        tl_task *task;
        tl_trainer *t;
        open_experiment(&e, "mock",
                        graph ? "tilth: {jit: false, threads: 1}\ntrainer: {" RATES "}\n"
                              : tiny_mock);
        assert_ok(tl_get_task(&task, &e.args));
        for (int way = ZERO; way < WAYS; way++) {
            tl_trainer_class cls = {.cls = derived(base, size, way)};
            tl_trainer_args args = {
                .cls = &cls,
                .config = e.params,
                .strategy = e.strategy,
                .task = task,
                .train = true,
                .evaluate = true,
            };
            if (way == SMALL) {
                assert_too_small(tl_trainer_new(&t, &args), size, base->name);
                continue;
            }
            use_task(&e, task, &cls);
            if (way != OWN) continue;
            tl_logs *logs;
            assert_ok(tl_logs_new(&logs));
            assert_ok(tl_trainer_new(&t, &args));
            *mine_of(t, size) = MINE;
            assert_ok(tl_trainer_train(t, 2, logs));
            assert_int_equal(*mine_of(t, size), MINE);
            tl_trainer_free(&t);
            // Without what it would train, or without half of it.
            args.config = NULL;
            assert_fails(tl_trainer_new(&t, &args), TL_EINVAL, "was given a task without a config");
            args = (tl_trainer_args){
                .cls = &cls, .strategy = e.strategy, .train = true, .evaluate = true};
            assert_ok(tl_trainer_new(&t, &args));
            assert_fails(tl_trainer_train(t, 1, logs), TL_ESTATE,
                         "the trainer 'mine' has no task to train");
            assert_fails(tl_trainer_evaluate(t, 1, logs), TL_ESTATE, "made without evaluation");
            tl_trainer_free(&t);
            tl_logs_free(&logs);
        }
        tl_task_free(&task);
        close_experiment(&e);
    }
}

static void default_trainers(void **state)
{
    const size_t size = sizeof(tl_default_trainer);
    (void)state;
    for (int way = ZERO; way < WAYS; way++) {
        const tl_default_trainer_class cls = {
            .cls = derived(&tl_base_default_trainer.cls, size, way),
        };
        tl_config *c = config_of(mock, "train.train_iter=2 graph.enabled=false");
        tl_default_trainer *t;
        assert_ok(tl_config_finish(c));
        tl_status st = tl_default_trainer_new(
            &t, &(tl_default_trainer_args){.cls = &cls, .registry = all, .config = value_of(c)});
        if (way == SMALL) {
            assert_too_small(st, size, "DefaultTrainer");
        } else {
            assert_ok(st);
            if (way == OWN) *mine_of(t, size) = MINE;
            assert_ok(tl_default_trainer_train(t));
            if (way == OWN) assert_int_equal(*mine_of(t, size), MINE);
            tl_default_trainer_free(&t);
        }
        tl_config_free(&c);
    }
}

typedef struct my_runner {
    tl_runner base;
    int64_t built, *told;
} my_runner;
static int64_t built_before_run;

static tl_status my_build_hooks(tl_runner *r)
{
    ((my_runner *)r)->built = MINE;
    return tl_base_runner.build_hooks(r);
}

static tl_status my_run(tl_runner *r, tl_logs *logs)
{
    built_before_run = ((my_runner *)r)->built;
    return tl_base_runner.run(r, logs);
}

static void runners(void **state)
{
    static const tl_runner_class good = {
        .cls = TL_CLASS(tl_runner_class, "good", &tl_base_runner.cls, my_runner, NULL),
        .build_hooks = my_build_hooks,
        .run = my_run,
    };
    // One that names no base inherits from it all the same.
    static const tl_runner_class plain = {
        .cls = {.class_size = sizeof(tl_runner_class), .name = "plain"}};
    static const tl_runner_class small = {
        .cls = TL_CLASS(tl_runner_class, "small", &tl_base_runner.cls, int, NULL)};
    experiment e;
    tl_task *task;
    (void)state;
    open_experiment(&e, "mock", tiny_mock);
    assert_ok(tl_get_task(&task, &e.args));
    tl_run_args args = {.strategy = e.strategy,
                        .task = task,
                        .mode = "train",
                        .params = e.params,
                        .model_dir = "run",
                        .without_summaries = true,
                        .runner = &good};
    assert_ok(tl_run_experiment(NULL, &args));
    assert_int_equal(built_before_run, MINE);
    args.runner = &plain;
    assert_ok(tl_run_experiment(NULL, &args));
    args.runner = &small;
    assert_fails(tl_run_experiment(NULL, &args), TL_EINVAL,
                 "runner class 'small': its instances have 4 bytes");
    tl_task_free(&task);
    close_experiment(&e);
}

/* --- all that is registered ------------------------------------------------------------------- */

static tl_tensor *as_it_is(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    (void)l, (void)c;
    return x;
}

static tl_engine *engine;

static tl_status make_metric(const tl_class *cls)
{
    tl_metric *m;
    tl_status st = tl_metric_new(&m, engine, (const tl_metric_class *)cls, NULL, NULL);
    tl_metric_free(&m);
    return st;
}

static tl_status make_loss(const tl_class *cls)
{
    tl_loss *l;
    tl_status st = tl_loss_new(&l, (const tl_loss_class *)cls, NULL, NULL);
    tl_loss_free(&l);
    return st;
}

static tl_status make_layer(const tl_class *cls)
{
    tl_layer_class quiet = {.cls = *cls, .forward = as_it_is};
    tl_spec x = {"x", TL_F32, TL_SHAPE(2, 4, 4, 4)};
    tl_model *m;
    tl_status st = tl_model_new(
        &m, &(tl_model_args){
                .engine = engine, .cls = &quiet, .inputs = &x, .input_count = 1, .registry = all});
    tl_model_free(&m);
    return st;
}

/* Without a config of their own they take that of the base, whose required fields are missed by
 * name. */
static void every_part_that_is_registered(void **state)
{
    static const struct {
        const tl_kind *kind;
        tl_status (*make)(const tl_class *cls);
    } kinds[] = {
        {&tl_kind_metric, make_metric}, {&tl_kind_loss, make_loss}, {&tl_kind_layer, make_layer}};
    union {
        tl_class cls;
        tl_metric_class metric;
        tl_loss_class loss;
        tl_layer_class layer;
    } table;
    (void)state;
    tl_strategy *strategy;
    assert_ok(tl_get_distribution_strategy(
        &strategy,
        &(tl_strategy_args){.registry = all, .distribution_strategy = "one_device", .threads = 1}));
    engine = tl_strategy_engine(strategy);
    for (int k = 0; k < TL_COUNT(kinds); k++) {
        const tl_kind *kind = kinds[k].kind;
        assert_true(tl_registry_count(all, kind) > 10);
        for (int64_t i = 0; i < tl_registry_count(all, kind); i++) {
            const tl_class *base = tl_registry_at(all, kind, i);
            memset(&table, 0, sizeof table);
            table.cls = derived(base, base->size, ZERO);
            table.cls.config = NULL;
            tl_status st = kinds[k].make(&table.cls);
            assert_true(st == TL_OK || st == TL_EINVAL);
            table.cls = derived(base, base->size, OWN);
            assert_int_equal(kinds[k].make(&table.cls), st);
            table.cls = derived(base, base->size, SMALL);
            assert_too_small(kinds[k].make(&table.cls), base->size, base->name);
        }
    }
    tl_strategy_free(&strategy);
}

static void sources(void **state)
{
    static const tl_source_class plain = {.name = "plain"}, small = {.name = "small", .size = 4};
    tl_source *s;
    (void)state;
    assert_ok(tl_source_new(&s, &plain));
    tl_source_free(&s);
    assert_fails(tl_source_new(&s, &small), TL_EINVAL,
                 "source class 'small': an instance has 4 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(hooks_of_every_class),
        TOY_TEST(a_start_calls_that_of_its_base),
        TOY_TEST(a_hook_with_a_member),
        LIBAI_TEST(writers_of_every_class),
        LIBAI_TEST(an_init_calls_that_of_its_base),
        LIBAI_TEST(summary_managers_of_every_class),
        LIBAI_TEST(tasks_of_every_class),
        LIBAI_TEST(a_task_with_a_member),
        LIBAI_TEST(a_config_that_is_not_the_bases),
        LIBAI_TEST(trainers_of_every_class),
        LIBAI_TEST(default_trainers),
        LIBAI_TEST(runners),
        LIBAI_TEST(every_part_that_is_registered),
        cmocka_unit_test(sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
