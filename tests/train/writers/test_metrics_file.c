/* metrics.jsonl: the events of a run, a JSON object a line, each step once whatever happens; and
 * who is told of them. needs: threads */
#include "train/mock.h"

#include <jansson.h>
#include <errno.h>
#include <sys/wait.h>

#include <tilth/train/controller/actions.h>
#include <tilth/train/libai/default_trainer.h>
#include <tilth/train/writers/metrics_file.h>
#include <tilth/train/run/run.h>

#include "train/run/notify.h"

#define SGD                                                                                        \
    "optimizer: {type: sgd}\nlearning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"
#define FILE_OF_RUN "run/" TL_METRICS_FILE

/* --- reading ---------------------------------------------------------------------------------- */

/* The lines of a file that are JSON. */
static json_t *lines_of(const char *path)
{
    char *text = toy_read(path), *rest = text;
    json_t *all_lines = json_array();
    for (char *line; (line = strsep(&rest, "\n"));) {
        json_t *one = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        if (one) json_array_append_new(all_lines, one);
    }
    tl_free(text);
    return all_lines;
}

/* "start@0 train@5 ..." */
static void assert_events(const char *path, const char *wanted)
{
    json_t *lines = lines_of(path), *line;
    tl_str found = TL_STR_INIT;
    size_t i;
    json_array_foreach(lines, i, line)
    {
        const char *event, *when;
        int step;
        assert_int_equal(
            json_unpack(line, "{s:s, s:i, s:s}", "event", &event, "step", &step, "time", &when), 0);
        assert_int_equal(strlen(when), strlen("2026-11-16T06:45:40.123Z"));
        assert_int_equal(when[23], 'Z');
        tl_str_addf(&found, "%s%s@%d", i ? " " : "", event, step);
    }
    assert_string_equal(tl_str_text(&found), wanted);
    tl_str_deinit(&found);
    json_decref(lines);
}

/* The last line of an event, owned by `lines`. */
static json_t *last_of(json_t *lines, const char *event)
{
    for (size_t i = json_array_size(lines); i-- > 0;)
        if (strcmp(json_string_value(json_object_get(json_array_get(lines, i), "event")), event)
            == 0)
            return json_array_get(lines, i);
    fail_msg("there is no line '%s'", event);
    return NULL;
}

static void assert_member(json_t *line, const char *key, const char *wanted)
{
    json_t *value = json_object_get(line, key);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (!text || strcmp(text, wanted) != 0)
        fail_msg("%s is %s, not %s", key, text ? text : "missing", wanted);
    free(text);
}

/* --- one process after another ---------------------------------------------------------------- */

static tl_hook *file_hook(void)
{
    tl_hook *h;
    tl_metrics_file_config config = {
        .dir = "run",
        .experiment = "toys \"ä\"",
        .mode = "train_and_eval",
    };
    assert_ok(tl_hook_new(&h, &tl_metrics_file_hook, &(tl_hook_args){.config = &config}));
    return h;
}

/* Trains with evaluations up to a step, and ends well or, killed, without a word. */
static void process(toy *y, int64_t until, int64_t every, bool killed, bool background)
{
    tl_hook *h = file_hook();
    toy_open(y, SGD, NULL);
    toy_control(
        y, &h, 1,
        (toy_options){
            .steps_per_loop = 2, .interval = 4, .max_to_keep = 2, .background = background});
    tl_status st = tl_controller_train_and_evaluate(y->c, until, -1, every, NULL);
    if (!killed) tl_metrics_file_end(h, st);
    toy_close(y);
    tl_hook_free(&h);
    assert_int_equal(st, TL_OK);
}

static void each_event_is_a_line(void **state)
{
    toy *y = *state;
    plan.loss[2] = 0.5;
    plan.loss[4] = NAN;
    plan.result[4] = INFINITY;
    process(y, 4, 4, false, false);
    assert_events(FILE_OF_RUN, "start@0 train@2 train@4 checkpoint@4 evaluation@4 end@4");
    json_t *lines = lines_of(FILE_OF_RUN);
    assert_member(json_array_get(lines, 0), "experiment", "\"toys \\\"ä\\\"\"");
    assert_member(json_array_get(lines, 0), "mode", "\"train_and_eval\"");
    assert_member(json_array_get(lines, 0), "resumed_from", "null");
    assert_member(json_array_get(lines, 0), "seed", "0");
    assert_member(json_array_get(lines, 1), "metrics", "{\"training_loss\": 0.5}");
    assert_true(json_is_real(json_object_get(json_array_get(lines, 1), "steps_per_second")));
    assert_member(json_array_get(lines, 2), "metrics", "{\"training_loss\": null}");
    assert_member(json_array_get(lines, 3), "path", "\"run/ckpt-4.safetensors\"");
    assert_member(json_array_get(lines, 4), "metrics",
                  "{\"accuracy\": null, \"deep/accuracy\": null}");
    assert_member(json_array_get(lines, 5), "reason", "\"done\"");
    assert_member(json_array_get(lines, 5), "mode", "\"train_and_eval\"");
    assert_null(json_object_get(json_array_get(lines, 5), "message"));
    assert_true(json_is_real(json_object_get(json_array_get(lines, 5), "seconds")));
    json_decref(lines);
}

static void checkpoints_in_the_background_are_told_once_they_are_there(void **state)
{
    process(*state, 8, 8, false, true);
    json_t *lines = lines_of(FILE_OF_RUN);
    assert_member(last_of(lines, "checkpoint"), "step", "8");
    int checkpoints = 0;
    for (size_t i = 0; i < json_array_size(lines); i++)
        checkpoints += json_object_get(json_array_get(lines, i), "path") != NULL;
    assert_int_equal(checkpoints, 2);
    assert_member(json_array_get(lines, json_array_size(lines) - 1), "event", "\"end\"");
    json_decref(lines);
}

/* A trainer whose step logs a number beside its loss. */
static tl_tensors logged;

static tl_status logging_step(tl_trainer *t)
{
    TL_TRY(toy_train_step(t));
    t->outputs = &logged;
    return TL_OK;
}
static const tl_trainer_class logging_trainer = {
    .cls = TL_CLASS(tl_trainer_class, "logging", &toy_trainer.cls, tl_trainer, NULL),
    .train_step = logging_step,
};

static void what_steps_log_is_a_summary(void **state)
{
    toy *y = *state;
    tl_tensor *worst;
    tl_hook *h = file_hook();
    assert_ok(tl_tensor_new(&worst, tl_strategy_engine(y->strategy), TL_F32, TL_SCALAR));
    assert_ok(tl_tensor_set_doubles(worst, (double[]){2.5}, 1));
    tl_named items[] = {{"worst", worst}, {TL_LOSS, worst}};
    logged = (tl_tensors){.items = items, .count = 2};
    assert_ok(tl_trainer_new(
        &y->t,
        &(tl_trainer_args){.cls = &logging_trainer, .strategy = y->strategy, .train = true}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 2,
                                                             .summary_interval = 4,
                                                             .hooks = &h,
                                                             .hook_count = 1,
                                                             .quiet = true}));
    assert_ok(tl_controller_train(y->c, 8, false));
    assert_events(FILE_OF_RUN, "start@0 train@2 summary@4 train@4 train@6 summary@8 train@8");
    json_t *lines = lines_of(FILE_OF_RUN);
    // the loss is in the loop's
    assert_member(last_of(lines, "summary"), "metrics", "{\"worst\": 2.5}");
    json_decref(lines);
    y->t->outputs = NULL;
    toy_close(y);
    tl_hook_free(&h);
    tl_tensor_free(&worst);
}

static void add_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* What a killed process told beyond its last checkpoint is told again; strange lines are nobody's
 * business. */
static void a_resumed_run_holds_each_step_once(void **state)
{
    toy *y = *state;
    process(y, 4, 2, true, false);
    assert_events(FILE_OF_RUN, "start@0 train@2 evaluation@2 train@4 checkpoint@4 evaluation@4");
    add_text(FILE_OF_RUN,
             "{\"event\": \"train\", \"step\": 6, \"time\": \"2026-11-16T06:45:40.123Z\"}\n"
             "{\"event\": \"checkpoint\", \"step\": 6, \"time\": \"2026-11-16T06:45:40.123Z\"}\n"
             "{\"event\": \"train\", \"step\": NaN}\nwhat is this\n{\"event\": \"trai");
    process(y, 6, 2, false, false);
    // The checkpoint at the end knows of the evaluation of its step.
    assert_events(FILE_OF_RUN, "start@0 train@2 evaluation@2 train@4 checkpoint@4 evaluation@4 "
                               "start@4 train@6 evaluation@6 checkpoint@6 end@6");
    json_t *lines = lines_of(FILE_OF_RUN);
    assert_member(last_of(lines, "start"), "resumed_from", "\"run/ckpt-4.safetensors\"");
    json_decref(lines);
    char *text = toy_read(FILE_OF_RUN);
    assert_non_null(strstr(text, "\nwhat is this\n{\"event\": \"start\""));
    assert_null(strstr(text, "\"trai{"));
    tl_free(text);
    process(y, 6, 2, false, false); // nothing is left to do
    assert_events(FILE_OF_RUN, "start@0 train@2 evaluation@2 train@4 checkpoint@4 evaluation@4 "
                               "start@4 train@6 evaluation@6 checkpoint@6 end@6 start@6 end@6");
}

static void a_run_that_goes_back_takes_its_lines_back(void **state)
{
    toy *y = *state;
    tl_recovery_config config = {.loss_upper_bound = 1e6, .recovery_max_trials = 2};
    tl_hook *hooks[2] = {NULL, file_hook()};
    assert_ok(tl_hook_new(&hooks[0], &tl_recovery_hook, &(tl_hook_args){.config = &config}));
    plan.blows_up_at = 7;
    plan.blows_up = 1;
    toy_open(y, SGD, NULL);
    toy_control(y, hooks, 2, (toy_options){.steps_per_loop = 2, .interval = 4});
    assert_ok(tl_controller_train(y->c, 8, true));
    tl_metrics_file_end(hooks[1], TL_OK);
    assert_events(FILE_OF_RUN,
                  "start@0 train@2 train@4 checkpoint@4 train@6 train@8 checkpoint@8 end@8");
    toy_close(y);
    for (int i = 0; i < 2; i++) tl_hook_free(&hooks[i]);
}

static tl_status stop_at_once(tl_controller *c, tl_logs *logs, void *self)
{
    (void)logs, (void)self;
    tl_controller_request_stop(c, "it is good enough");
    return TL_OK;
}

static void the_end_says_why(void **state)
{
    toy *y = *state;
    tl_hook *hooks[2] = {NULL, file_hook()};
    tl_callbacks callbacks = {.after_loop = stop_at_once};
    assert_ok(tl_hook_from_callbacks(&hooks[0], &callbacks, NULL));
    toy_open(y, SGD, NULL);
    toy_control(y, hooks, 2, (toy_options){.steps_per_loop = 2});
    assert_ok(tl_controller_train(y->c, 8, true));
    tl_metrics_file_end(hooks[1], TL_OK);
    tl_metrics_file_end(hooks[1], TL_OK); // it has ended already
    assert_events(FILE_OF_RUN, "start@0 train@2 end@2");
    json_t *lines = lines_of(FILE_OF_RUN);
    assert_member(last_of(lines, "end"), "reason", "\"stopped: it is good enough\"");
    json_decref(lines);
    callbacks.after_loop = NULL;
    plan.blows_up_at = 3;
    plan.blows_up = 1;
    toy_close(y);
    toy_open(y, SGD, NULL);
    toy_control(y, hooks + 1, 1, (toy_options){.steps_per_loop = 2});
    tl_status st = tl_controller_train(y->c, 8, true);
    tl_metrics_file_end(hooks[1], st);
    assert_string_equal(tl_error_message(), "step 3: numbers are not finite"); // is still there
    lines = lines_of(FILE_OF_RUN);
    assert_member(last_of(lines, "end"), "reason", "\"error\"");
    assert_member(last_of(lines, "end"), "message", "\"step 3: numbers are not finite\"");
    json_decref(lines);
    toy_close(y);
    for (int i = 0; i < 2; i++) tl_hook_free(&hooks[i]);
}

static void what_cannot_be_written_is_told(void **state)
{
    toy *y = *state;
    tl_hook *h;
    assert_fails(tl_hook_new(&h, &tl_metrics_file_hook, NULL), TL_EINVAL,
                 "needs a folder for metrics.jsonl");
    h = file_hook();
    assert_ok(tl_mkdirs(FILE_OF_RUN)); // a folder is where the file would be
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.steps_per_loop = 2});
    assert_fails(tl_controller_train(y->c, 2, true), TL_EINVAL,
                 "'run/metrics.jsonl': Is a directory");
    tl_metrics_file_end(h, TL_EINVAL);
    assert_int_equal(toy_count("the end of the run could not be written"), 1);
    toy_close(y);
    tl_hook_free(&h);
}

static void checkpoints_hold_nothing_of_it(void **state)
{
    toy *y = *state;
    process(y, 4, 0, false, false);
    char *with = toy_read("run/ckpt-4.safetensors");
    assert_null(strstr(with + 8, "metrics_file")); // names stand in the header
    tl_free(with);
}

/* --- who is told ------------------------------------------------------------------------------ */

static void run_told(toy *y, const char *command)
{
    tl_hook *h;
    tl_metrics_file_config config = {.dir = "run", .notify = command};
    assert_ok(tl_hook_new(&h, &tl_metrics_file_hook, &(tl_hook_args){.config = &config}));
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.steps_per_loop = 1, .interval = 4});
    assert_ok(tl_controller_train_and_evaluate(y->c, 4, -1, 0, NULL));
    tl_metrics_file_end(h, TL_OK);
    toy_close(y);
    tl_hook_free(&h);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // no child is left
    assert_int_equal(errno, ECHILD);
}

static void a_command_is_told_of_each_event(void **state)
{
    run_told(*state, "cat >>told; echo \"$TILTH_EVENT $TILTH_MODEL_DIR\" >>names; echo noise");
    char *text = toy_read(FILE_OF_RUN);
    assert_file("told", text);
    tl_free(text);
    assert_file(
        "names",
        "start run\ntrain run\ntrain run\ntrain run\ntrain run\ncheckpoint run\nevaluation run\n"
        "end run\n");
    assert_int_equal(toy_count("tilth.notify"), 0);
}

static void a_command_that_fails_harms_nobody(void **state)
{
    run_told(*state, "exit 7");
    assert_int_equal(toy_count("tilth.notify: the command ended with 7 at the event 'start'"), 1);
    assert_int_equal(toy_count("tilth.notify"), 1);
    run_told(*state, "kill -9 $$");
    assert_int_equal(toy_count("was ended by signal 9"), 1);
    run_told(*state, "no-such-command-anywhere 2>/dev/null");
    assert_int_equal(toy_count("ended with 127"), 1);
}

static void a_command_that_hangs_is_ended(void **state)
{
    int64_t limit = tli_notify_limit_ms;
    tli_notify_limit_ms = 60;
    run_told(*state, "sleep 1000 & sleep 1000");
    tli_notify_limit_ms = limit;
    assert_int_equal(toy_count("took too long"), 1);
    json_t *lines = lines_of(FILE_OF_RUN);
    assert_member(last_of(lines, "end"), "reason", "\"done\"");
    json_decref(lines);
}

/* What waits is bounded, and so is the end. */
static void too_many_events_are_left_out(void **state)
{
    (void)state;
    int64_t limit = tli_notify_limit_ms;
    tli_notify *n;
    tli_notify_limit_ms = 60;
    assert_ok(tli_notify_new(&n, "sleep 1000", "run"));
    for (int i = 0; i < 1000; i++) tli_notify_send(n, "train", "{}\n", 3);
    tli_notify_free(&n);
    tli_notify_limit_ms = limit;
    assert_int_equal(toy_count("some are left out"), 1);
}

static void a_command_is_not_kept(void **state)
{
    (void)state;
    tl_parse_options o = TL_PARSE_OPTIONS_INIT;
    tl_config *with, *without;
    o.experiment = "mock";
    assert_ok(tl_experiment_parse(&without, all, &o));
    o.params_override = "tilth.notify='secret word'";
    assert_ok(tl_experiment_parse(&with, all, &o));
    assert_string_equal(((const tl_experiment_config *)tl_config_value(with))->tilth.notify,
                        "secret word");
    assert_true(
        tl_desc_equal(&tl_experiment_config_desc, tl_config_value(with), tl_config_value(without)));
    assert_int_equal(tl_desc_hash(0, &tl_experiment_config_desc, tl_config_value(with)),
                     tl_desc_hash(0, &tl_experiment_config_desc, tl_config_value(without)));
    assert_ok(tl_serialize_config(without, "without"));
    assert_ok(tl_serialize_config(with, "with"));
    char *text = toy_read("without/params.yaml");
    assert_file("with/params.yaml", text);
    assert_null(strstr(text, "tilth"));
    tl_free(text);
    tl_config_free(&with);
    tl_config_free(&without);
}

/* --- front doors ------------------------------------------------------------------------------ */

static void run_mock(const char *mode, bool without)
{
    tl_parse_options o = TL_PARSE_OPTIONS_INIT;
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    o.experiment = "mock";
    o.params_override =
        "trainer.train_steps=4,trainer.steps_per_loop=2,trainer.summary_interval=2,trainer."
        "validation_interval=2,trainer.validation_steps=2,tilth.jit=false,tilth.threads=1,trainer."
        "optimizer_config.optimizer.type=sgd,trainer.optimizer_config.learning_rate.type=constant";
    assert_ok(tl_experiment_parse(&config, all, &o));
    const tl_experiment_config *params = tl_config_value(config);
    assert_ok(tl_get_distribution_strategy(
        &strategy, &(tl_strategy_args){.registry = all, .distribution_strategy = "off"}));
    assert_ok(tl_get_task(&task, &(tl_task_args){.registry = all,
                                                 .config = &params->task,
                                                 .engine = tl_strategy_engine(strategy)}));
    assert_ok(tl_run_experiment(NULL, &(tl_run_args){.strategy = strategy,
                                                     .task = task,
                                                     .mode = mode,
                                                     .params = params,
                                                     .model_dir = "run",
                                                     .quiet = true,
                                                     .without_metrics_file = without}));
    tl_task_free(&task);
    tl_strategy_free(&strategy);
    tl_config_free(&config);
}

static void every_experiment_has_one(void **state)
{
    (void)state;
    run_mock("train_and_eval", true);
    assert_false(tl_file_exists(FILE_OF_RUN));
    run_mock("eval", false);
    assert_events(FILE_OF_RUN, "start@4 evaluation@4 end@4");
    run_mock("eval", false); // adds to it
    assert_events(FILE_OF_RUN, "start@4 evaluation@4 end@4 start@4 evaluation@4 end@4");
    json_t *lines = lines_of(FILE_OF_RUN);
    assert_member(json_array_get(lines, 0), "experiment", "null");
    assert_member(json_array_get(lines, 0), "mode", "\"eval\"");
    assert_null(json_object_get(json_array_get(lines, 0), "seed"));
    json_decref(lines);
}

static tl_default_trainer *begin_net(const char *words)
{
    tl_default_trainer *t;
    tl_config *c = config_of(mock, words);
    assert_ok(tl_config_finish(c));
    assert_ok(tl_default_trainer_new(
        &t, &(tl_default_trainer_args){.registry = all, .config = value_of(c)}));
    tl_config_free(&c);
    return t;
}

static void train_net_tells_each_period(void **state)
{
    (void)state;
    tl_default_trainer *t = begin_net("train.log_period=5 tilth.notify=cat>>told");
    assert_ok(tl_default_trainer_train(t));
    tl_default_trainer_free(&t);
    char *text = toy_read("out/metrics.jsonl");
    assert_file("told", text);
    tl_free(text);
    json_t *lines = lines_of("out/metrics.jsonl"), *line;
    tl_str trained = TL_STR_INIT, evaluated = TL_STR_INIT;
    size_t i;
    json_array_foreach(lines, i, line)
    {
        const char *event = json_string_value(json_object_get(line, "event"));
        json_t *metrics = json_object_get(line, "metrics");
        int step = (int)json_integer_value(json_object_get(line, "step"));
        if (strcmp(event, "train") == 0) {
            tl_str_addf(&trained, " %d", step);
            assert_true(json_is_real(json_object_get(metrics, "total_loss")));
            assert_null(json_object_get(metrics, "validation_loss")); // that is of evaluations
        } else if (strcmp(event, "evaluation") == 0) {
            tl_str_addf(&evaluated, " %d", step);
            assert_true(json_is_real(json_object_get(metrics, "mse")));
        }
    }
    assert_string_equal(tl_str_text(&trained), " 5 10 12");
    assert_string_equal(tl_str_text(&evaluated), " 5 10 12");
    assert_member(last_of(lines, "start"), "experiment", "\"mock\"");
    assert_member(last_of(lines, "end"), "reason", "\"done\"");
    tl_str_deinit(&trained);
    tl_str_deinit(&evaluated);
    json_decref(lines);
    t = begin_net("train.log_period=5"); // begins anew: what was there is set aside
    assert_true(tl_file_exists("out/previous-1/metrics.jsonl"));
    assert_false(tl_file_exists("out/metrics.jsonl"));
    tl_default_trainer_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(each_event_is_a_line),
        TOY_TEST(what_steps_log_is_a_summary),
        TOY_TEST(checkpoints_in_the_background_are_told_once_they_are_there),
        TOY_TEST(a_resumed_run_holds_each_step_once),
        TOY_TEST(a_run_that_goes_back_takes_its_lines_back),
        TOY_TEST(the_end_says_why),
        TOY_TEST(what_cannot_be_written_is_told),
        TOY_TEST(checkpoints_hold_nothing_of_it),
        TOY_TEST(a_command_is_told_of_each_event),
        TOY_TEST(a_command_that_fails_harms_nobody),
        TOY_TEST(a_command_that_hangs_is_ended),
        TOY_TEST(too_many_events_are_left_out),
        LIBAI_TEST(a_command_is_not_kept),
        LIBAI_TEST(every_experiment_has_one),
        LIBAI_TEST(train_net_tells_each_period),
    };
    return cmocka_run_group_tests_name("metrics_file", tests, NULL, NULL);
}
