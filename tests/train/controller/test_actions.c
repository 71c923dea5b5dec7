/* Actions: the best so far, numbered exports, averaged weights, recovery, early stopping, epochs.
 * runs: fake device */
#include "train/toy.h"

#include <float.h>

#include <tilth/io/safetensors.h>
#include <tilth/train/controller/actions.h>
#include <tilth/train/controller/epoch.h>

#define RATE "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"
#define SGD "optimizer: {type: sgd}\n" RATE
#define AVERAGED SGD "ema: {average_decay: 0.5, dynamic_decay: false}\n"

static tl_logs *logs_of(const char *name, double value)
{
    tl_logs *l;
    assert_ok(tl_logs_new(&l));
    assert_ok(tl_logs_put(l, name, value));
    return l;
}

/* --- a number that outlives the process ------------------------------------------------------- */

static void a_value_is_kept(void **state)
{
    (void)state;
    tl_persisted_value v;
    assert_ok(tl_persisted_value_init(&v, 3, NULL, true)); // in memory alone
    assert_ok(tl_persisted_value_set(&v, 4));
    assert_near(v.value, 4, 0);
    tl_persisted_value_deinit(&v);
    assert_ok(tl_persisted_value_init(&v, -DBL_MAX, "a/b/value.json", true));
    assert_file("a/b/value.json", "-1.7976931348623157e+308");
    assert_ok(tl_persisted_value_set(&v, 0.1));
    assert_fails(tl_persisted_value_set(&v, NAN), TL_EINVAL, "not finite");
    assert_near(v.value, 0.1, 0);
    tl_persisted_value_deinit(&v);
    assert_ok(tl_persisted_value_init(&v, 7, "a/b/value.json", true));
    assert_near(v.value, 0.1, 0);
    tl_persisted_value_deinit(&v);
    assert_files("a/b/*", "a/b/value.json");
    assert_files("a/b/.*.tmp", "");
}

static void a_value_that_is_only_read(void **state)
{
    (void)state;
    tl_persisted_value v;
    assert_ok(tl_persisted_value_init(&v, 7, "none/value.json", false));
    assert_near(v.value, 7, 0);
    assert_ok(tl_persisted_value_set(&v, 8));
    assert_near(v.value, 8, 0);
    assert_false(tl_file_exists("none")); // not even the folder
    tl_persisted_value_deinit(&v);
    toy_put("empty.json", "");
    assert_ok(tl_persisted_value_init(&v, 2, "empty.json", true));
    assert_near(v.value, 2, 0);
    assert_file("empty.json", "2.0");
    tl_persisted_value_deinit(&v);
    toy_put("int.json", "12\n");
    assert_ok(tl_persisted_value_init(&v, 2, "int.json", false));
    assert_near(v.value, 12, 0);
    tl_persisted_value_deinit(&v);
    toy_put("wrong.json", "[1]");
    assert_fails(tl_persisted_value_init(&v, 2, "wrong.json", true), TL_EINVAL,
                 "wrong.json: a number was expected");
    toy_put("wrong.json", "x");
    assert_fails(tl_persisted_value_init(&v, 2, "wrong.json", true), TL_EINVAL, "no JSON");
    assert_file("wrong.json", "x");
}

/* --- the best so far -------------------------------------------------------------------------- */

static bool test(tl_new_best_metric *m, double value)
{
    bool better;
    tl_logs *l = logs_of("accuracy", value);
    assert_ok(tl_new_best_metric_test(&better, m, l));
    tl_logs_free(&l);
    return better;
}

static bool commit(tl_new_best_metric *m, double value)
{
    bool better;
    tl_logs *l = logs_of("accuracy", value);
    assert_ok(tl_new_best_metric_commit(&better, m, l));
    tl_logs_free(&l);
    return better;
}

static tl_new_best_metric *best_of(tl_new_best_metric_args args)
{
    tl_new_best_metric *m;
    if (!args.value) args.metric = "accuracy";
    assert_ok(tl_new_best_metric_new(&m, &args));
    return m;
}

static void the_best_is_known(void **state)
{
    (void)state;
    tl_new_best_metric *m = best_of((tl_new_best_metric_args){0});
    assert_true(tl_new_best_metric_best(m) == -DBL_MAX);
    assert_true(test(m, 0));
    assert_true(commit(m, 0));
    assert_false(test(m, 0));
    assert_true(test(m, 1));
    assert_true(test(m, 1)); // testing changes nothing
    assert_false(commit(m, NAN));
    assert_false(commit(m, HUGE_VAL));
    assert_near(tl_new_best_metric_best(m), 0, 0);
    tl_logs *l = logs_of("loss", 1);
    bool better = true;
    assert_fails(tl_new_best_metric_test(&better, m, l), TL_ENOTFOUND, "no metric 'accuracy'");
    assert_false(better);
    tl_logs_free(&l);
    tl_new_best_metric_free(&m);
    m = best_of((tl_new_best_metric_args){.comp = TL_METRIC_LOWER});
    assert_false(commit(m, NAN));
    assert_true(commit(m, 3));
    assert_false(commit(m, 3));
    assert_true(commit(m, 2));
    tl_new_best_metric_free(&m);
}

static tl_status sum(double *out, const tl_logs *logs, void *payload)
{
    TL_TRY(tl_logs_number(out, logs, "accuracy"));
    *out += *(double *)payload;
    return TL_OK;
}

static void the_best_outlives_the_process(void **state)
{
    (void)state;
    tl_new_best_metric *m =
        best_of((tl_new_best_metric_args){.path = "best/metric.json", .read_only = true});
    assert_true(commit(m, 9));
    tl_new_best_metric_free(&m);
    m = best_of((tl_new_best_metric_args){.path = "best/metric.json"});
    assert_true(tl_new_best_metric_best(m) == -DBL_MAX);
    assert_true(commit(m, 5));
    tl_new_best_metric_free(&m);
    m = best_of((tl_new_best_metric_args){.path = "best/metric.json"});
    assert_near(tl_new_best_metric_best(m), 5, 0);
    assert_false(commit(m, 4));
    tl_new_best_metric_free(&m);
    double more = 10;
    m = best_of((tl_new_best_metric_args){.value = sum, .payload = &more});
    assert_true(commit(m, 4));
    assert_near(tl_new_best_metric_best(m), 14, 0);
    tl_new_best_metric_free(&m);
    assert_fails(tl_new_best_metric_new(&m, &(tl_new_best_metric_args){0}), TL_EINVAL,
                 "one of them");
    for (int64_t nth = 1;; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_new_best_metric_new(
            &m, &(tl_new_best_metric_args){.metric = "a", .path = "x/y.json"});
        tl_alloc_fail_at(0, 0);
        tl_new_best_metric_free(&m);
        if (st == TL_OK) break;
        assert_int_equal(st, TL_ENOMEM);
    }
}

/* --- numbered exports ------------------------------------------------------------------------- */

static tl_export_file_manager *files_of(tl_export_file_manager_args args)
{
    tl_export_file_manager *m;
    if (!args.base) args.base = "out/export";
    assert_ok(tl_export_file_manager_new(&m, &args));
    return m;
}

static void assert_next(tl_export_file_manager *m, const char *wanted)
{
    tl_arena *arena;
    const char *name;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_export_file_manager_next(&name, m, arena));
    assert_string_equal(name, wanted);
    tl_arena_free(&arena);
}

static void assert_managed(const tl_export_file_manager *m, const char *wanted)
{
    tl_arena *arena;
    tl_path_list list;
    tl_str names = TL_STR_INIT;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_export_file_manager_list(&list, m, arena));
    for (int64_t i = 0; i < list.count; i++)
        tl_str_addf(&names, "%s%s", i ? " " : "", list.items[i]);
    assert_string_equal(tl_str_text(&names), wanted);
    tl_str_deinit(&names);
    tl_arena_free(&arena);
}

static int64_t by_tens(void *payload)
{
    return *(int64_t *)payload += 10;
}

static void exports_are_numbered(void **state)
{
    (void)state;
    tl_export_file_manager *m = files_of((tl_export_file_manager_args){.max_to_keep = {true, 2}});
    assert_managed(m, ""); // no folder yet
    assert_next(m, "out/export-0");
    assert_next(m, "out/export-1");
    assert_ok(tl_export_file_manager_clean_up(m));
    const char *const there[] = {"out/export-2",        "out/export-10", "out/export-x",
                                 "out/export-3x",       "out/export-",   "out/other-1",
                                 "out/export-9/deep/er"};
    for (size_t i = 0; i < TL_COUNT(there); i++) assert_ok(tl_mkdirs(there[i]));
    toy_put("out/export-9/deep/file", "x");
    assert_managed(m, "out/export-2 out/export-9 out/export-10"); // by number, not by letters
    assert_next(m, "out/export-2");                               // it counts from where it began
    tl_export_file_manager_free(&m);
    m = files_of((tl_export_file_manager_args){.max_to_keep = {true, 1}});
    assert_next(m, "out/export-11");
    assert_ok(tl_export_file_manager_clean_up(m));
    assert_managed(m, "out/export-10");
    assert_files("out/*", "out/export- out/export-10 out/export-3x out/export-x out/other-1");
    tl_export_file_manager_free(&m);
}

static void exports_are_kept_or_not(void **state)
{
    (void)state;
    int64_t id = 0;
    char name[32];
    tl_export_file_manager *m;
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "out/export-%d/sub", i);
        assert_ok(tl_mkdirs(name));
    }
    assert_ok(tl_mkdirs("out/export-100")); // without the subdirectory
    m = files_of((tl_export_file_manager_args){.max_to_keep = {true, -1}});
    assert_ok(tl_export_file_manager_clean_up(m));
    assert_true(tl_file_exists("out/export-0"));
    tl_export_file_manager_free(&m);
    m = files_of((tl_export_file_manager_args){.subdirectory = "sub"}); // not set: 5
    assert_next(m, "out/export-101/sub");
    assert_ok(tl_export_file_manager_clean_up(m));
    assert_managed(m, "out/export-3 out/export-4 out/export-5 out/export-6 out/export-7");
    assert_true(tl_file_exists("out/export-100"));
    tl_export_file_manager_free(&m);
    m = files_of((tl_export_file_manager_args){.next_id = by_tens, .payload = &id});
    assert_next(m, "out/export-10");
    assert_next(m, "out/export-20");
    id = -100;
    tl_arena *arena;
    const char *next;
    assert_ok(tl_arena_new(&arena));
    assert_fails(tl_export_file_manager_next(&next, m, arena), TL_EINVAL, "-90");
    tl_arena_free(&arena);
    tl_export_file_manager_free(&m);
    assert_fails(tl_export_file_manager_new(
                     &m, &(tl_export_file_manager_args){.base = "x", .max_to_keep = {true, 0}}),
                 TL_EINVAL, "at least 1 is kept");
    assert_fails(tl_export_file_manager_new(&m, &(tl_export_file_manager_args){.base = "x/"}),
                 TL_EINVAL, "a base for their names");
}

/* --- the weights ------------------------------------------------------------------------------ */

static void assert_exported(toy *y, const char *path, const char *name, double wanted)
{
    tl_state *s;
    tl_state_entry e;
    double w[3];
    assert_ok(tl_safetensors_read(&s, path, tl_strategy_engine(y->strategy)));
    assert_ok(tl_state_get(&e, s, name, TL_STATE_TENSOR));
    assert_ok(tl_tensor_get_doubles(e.tensor, w, 3));
    assert_near(w[0], wanted, 1e-6);
    tl_state_free(&s);
}

static void the_best_model_is_exported(void **state)
{
    toy *y = *state;
    tl_hook *export, *when_best;
    tl_export_file_manager *files =
        files_of((tl_export_file_manager_args){.max_to_keep = {true, 2}});
    tl_new_best_metric *best = best_of((tl_new_best_metric_args){0});
    tl_export_model_config export_config = {.files = files};
    assert_ok(
        tl_hook_new(&export, &tl_export_model_hook, &(tl_hook_args){.config = &export_config}));
    tl_conditional_config config = {
        .condition = tl_new_best_metric_condition,
        .payload = best,
        .hooks = &export,
        .hook_count = 1,
    };
    assert_ok(tl_hook_new(&when_best, &tl_conditional_hook, &(tl_hook_args){.config = &config}));
    toy_open(y, SGD, NULL);
    assert_ok(tl_tensor_set_doubles(toy_weight(y->t), (double[]){10, 10, 10}, 3));
    toy_control(y, &when_best, 1, (toy_options){0});
    // at steps 2, 4, 6, 8
    memcpy(plan.result, (double[]){0, 0, 1, 0, 3, 0, 2, 0, 4}, 9 * sizeof(double));
    assert_ok(tl_controller_train_and_evaluate(y->c, 8, -1, 2, NULL));
    assert_files("out/*", "out/export-1 out/export-2"); // of steps 4 and 8
    assert_exported(y, "out/export-1/model.safetensors", "w", 10 - 4 * 0.125);
    assert_exported(y, "out/export-2/model.safetensors", "w", 10 - 8 * 0.125);
    toy_close(y);
    tl_hook_free(&when_best);
    tl_hook_free(&export);
    tl_new_best_metric_free(&best);
    tl_export_file_manager_free(&files);
    assert_fails(tl_hook_new(&export, &tl_export_model_hook, NULL), TL_EINVAL,
                 "needs a file manager");
    assert_fails(tl_hook_new(&export, &tl_conditional_hook, NULL), TL_EINVAL, "needs a condition");
}

static void exports_after_loops(void **state)
{
    toy *y = *state;
    tl_hook *export;
    tl_export_file_manager *files = files_of((tl_export_file_manager_args){0});
    tl_export_model_config config = {.files = files, .after_loops = true, .averages = true};
    assert_ok(tl_hook_new(&export, &tl_export_model_hook, &(tl_hook_args){.config = &config}));
    toy_open(y, AVERAGED, NULL);
    assert_ok(tl_tensor_set_doubles(toy_weight(y->t), (double[]){1, 1, 1}, 3));
    toy_control(y, &export, 1, (toy_options){.steps_per_loop = 1});
    assert_ok(tl_controller_train_and_evaluate(y->c, 2, -1, 1, NULL));
    assert_files("out/*", "out/export-0 out/export-1");
    assert_exported(y, "out/export-0/model.safetensors", "w", 0.875 / 2); // averages begin at 0
    assert_exported(y, "out/export-1/model.safetensors", "w", 0.875 / 4 + 0.75 / 2);
    assert_near(toy_first_weight(y->t), 0.75, 0); // put back
    toy_close(y);
    tl_hook_free(&export);
    tl_export_file_manager_free(&files);
}

static void averages_are_checkpoints(void **state)
{
    toy *y = *state;
    tl_hooks hooks = {0};
    tl_trainer_config params = {.max_to_keep = {true, 2}, .recovery_max_trials = -1};
    tl_experiment_config config = {.trainer = {.value = &params}};
    toy_open(y, AVERAGED, NULL);
    assert_ok(tl_tensor_set_doubles(toy_weight(y->t), (double[]){1, 1, 1}, 3));
    assert_ok(tl_get_train_actions(&hooks, &config, y->t));
    assert_int_equal(hooks.count, 0);
    assert_ok(tl_get_eval_actions(&hooks, &config, y->t, NULL));
    assert_int_equal(hooks.count, 0);
    assert_ok(tl_get_eval_actions(&hooks, &config, y->t, "model"));
    assert_int_equal(hooks.count, 1);
    assert_ptr_equal(hooks.items[0]->cls, &tl_ema_checkpoint_hook);
    toy_control(y, hooks.items, hooks.count, (toy_options){0});
    assert_ok(tl_controller_train_and_evaluate(y->c, 3, -1, 1, NULL));
    assert_files("model/ema_checkpoints/*", "model/ema_checkpoints/average_weights-2.safetensors "
                                            "model/ema_checkpoints/average_weights-3.safetensors "
                                            "model/ema_checkpoints/checkpoint");
    assert_exported(y, "model/ema_checkpoints/average_weights-2.safetensors", "model/w", 0.59375);
    assert_near(toy_first_weight(y->t), 0.625, 0);
    assert_false(tl_optimizer_swapped(y->t->optimizer));
    // A failure puts them back too.
    assert_int_equal(nftw("model/ema_checkpoints", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    toy_put("model/ema_checkpoints", "in the way");
    tl_logs *l = logs_of("accuracy", 0);
    assert_int_not_equal(tl_ema_checkpoint_hook.after_eval(hooks.items[0], l), TL_OK);
    assert_non_null(strstr(tl_error_message(), "ema_checkpoints"));
    assert_false(tl_optimizer_swapped(y->t->optimizer));
    tl_logs_free(&l);
    toy_close(y);
    tl_hooks_free(&hooks);
    // An optimizer without averages.
    toy_open(y, SGD, NULL);
    assert_ok(tl_get_eval_actions(&hooks, &config, y->t, "model"));
    assert_int_equal(hooks.count, 0);
    tl_ema_checkpoint_config ema = {.dir = "model"};
    assert_ok(tl_hooks_add(&hooks, NULL, &tl_ema_checkpoint_hook, &(tl_hook_args){.config = &ema}));
    toy_control(y, hooks.items, hooks.count, (toy_options){0});
    assert_fails(tl_controller_evaluate(y->c, -1, NULL), TL_ESTATE, "the optimizer keeps none");
    toy_close(y);
    tl_hooks_free(&hooks);
}

/* --- recovery --------------------------------------------------------------------------------- */

static tl_hook *recovery_of(double bound, int64_t begin, int64_t most)
{
    tl_hook *h;
    tl_recovery_config config = {bound, begin, most};
    assert_ok(tl_hook_new(&h, &tl_recovery_hook, &(tl_hook_args){.config = &config}));
    return h;
}

/* Bound .5, two trials: recovers, recovers, fails. */
static void check_trials(toy *y, double loss)
{
    tl_hook *h = recovery_of(0.5, 0, 2);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 1});
    assert_ok(tl_controller_train(y->c, 1, true));
    double weight = toy_first_weight(y->t);
    tl_logs *l = logs_of("training_loss", loss);
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_tensor_set_doubles(toy_weight(y->t), (double[]){NAN, NAN, NAN}, 3));
        y->t->global_step = 7;
        assert_ok(tl_recovery_hook.after_loop(h, l));
        assert_int_equal(y->t->global_step, 1);
        assert_true(toy_first_weight(y->t) == weight);
    }
    assert_fails(tl_recovery_hook.after_loop(h, l), TL_ENAN, "All of the 2 recoveries were made");
    tl_logs_free(&l);
    l = logs_of("training_loss", 0.5);
    assert_ok(tl_recovery_hook.after_loop(h, l)); // not above
    tl_logs_free(&l);
    l = logs_of("loss", 0.5);
    assert_fails(tl_recovery_hook.after_loop(h, l), TL_ENOTFOUND, "training_loss");
    tl_logs_free(&l);
    toy_close(y);
    tl_hook_free(&h);
}

static void recovery_has_trials(void **state)
{
    check_trials(*state, 0.6);
}

static void recovery_from_nan(void **state)
{
    check_trials(*state, NAN);
}

static void recovery_begins_late(void **state)
{
    toy *y = *state;
    tl_hook *h = recovery_of(0.5, 10, 0);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 100});
    tl_logs *high = logs_of("training_loss", 0.6), *nan = logs_of("training_loss", NAN);
    y->t->global_step = 9;
    assert_ok(tl_recovery_hook.after_loop(h, high));
    assert_fails(tl_recovery_hook.after_loop(h, nan), TL_ENAN, "the loss is nan at step 9");
    y->t->global_step = 10;
    assert_fails(tl_recovery_hook.after_loop(h, high), TL_ENAN,
                 "above trainer.loss_upper_bound = 0.5");
    tl_logs_free(&high);
    tl_logs_free(&nan);
    toy_close(y);
    tl_hook_free(&h);
    h = recovery_of(0.5, 0, 3); // no checkpoint yet
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 100});
    plan.loss[4] = 0.6;
    assert_fails(tl_controller_train(y->c, 4, true), TL_ENAN,
                 "There is no checkpoint to go back to");
    toy_close(y);
    tl_hook_free(&h);
    tl_recovery_config config = {0.5, 0, -1};
    assert_fails(tl_hook_new(&h, &tl_recovery_hook, &(tl_hook_args){.config = &config}), TL_EINVAL,
                 "-1");
}

static tl_dataset *numbered_batches(void)
{
    static int32_t ids[32];
    tl_dataset *d;
    for (int i = 0; i < 32; i++) ids[i] = i;
    tl_array array = {"id", TL_I32, TL_SHAPE(32), ids};
    assert_ok(tl_dataset_from_arrays(
        &d, &(tl_arrays_args){.arrays = &array, .count = 1, .batch_size = 1, .repeat = true}));
    return d;
}

static void assert_seen(const double *wanted, int64_t count)
{
    assert_int_equal(plan.seen_count, count);
    for (int64_t i = 0; i < count; i++) assert_near(plan.seen[i], wanted[i], 0);
}

/* A loop with too high a loss: back to step 4, and on with data that was not seen before. */
static void recovery_in_a_run(void **state)
{
    toy *y = *state;
    tl_hook *h = recovery_of(0.5, 0, 2);
    toy_open(y, SGD, numbered_batches());
    toy_control(y, &h, 1, (toy_options){.interval = 4, .steps_per_loop = 2});
    plan.loss[6] = 0.6;
    assert_fails(tl_controller_train(y->c, 8, true), TL_ENAN, "All of the 2 recoveries");
    // 4 steps, then 2 that are taken back, three times
    assert_seen((double[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 10);
    toy_close(y);
    tl_hook_free(&h);
    // What the checkpoint holds does not know of the trials; a new process has them all again.
    h = recovery_of(0.5, 0, 2);
    plan.seen_count = 0;
    plan.loss[6] = 0.1;
    toy_open(y, SGD, numbered_batches());
    toy_control(y, &h, 1, (toy_options){.interval = 4, .steps_per_loop = 2});
    assert_int_equal(y->t->global_step, 4);
    assert_ok(tl_controller_train(y->c, 8, true));
    assert_seen((double[]){4, 5, 6, 7}, 4);
    toy_close(y);
    tl_hook_free(&h);
}

/* A step that is not finite: back to step 4, and on behind the batch that it fell over. */
static void recovery_from_a_step(void **state)
{
    toy *y = *state;
    tl_hook *h = recovery_of(1e6, 0, 1);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 4, .steps_per_loop = 2});
    plan.blows_up_at = 6;
    plan.blows_up = 1;
    assert_ok(tl_controller_train(y->c, 8, true));
    assert_int_equal(y->t->global_step, 8);
    assert_int_equal(plan.trained, 5 + 4); // the fifth is done again
    assert_int_equal(toy_count("went back from step 5 to run/ckpt-4.safetensors (recovery 1 of 1)"),
                     1);
    plan.blows_up_at = 10;
    plan.blows_up = 1;
    assert_fails(tl_controller_train(y->c, 12, true), TL_ENAN,
                 "step 10: numbers are not finite. All of the 1 recovery were made");
    toy_close(y);
    tl_hook_free(&h);
    // Trials are in checkpoints: the one of step 8 knows of the first.
    h = recovery_of(1e6, 0, 1);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 4, .steps_per_loop = 2});
    assert_int_equal(y->t->global_step, 8);
    plan.blows_up = 1;
    assert_fails(tl_controller_train(y->c, 12, true), TL_ENAN, "All of the 1 recovery");
    toy_close(y);
    tl_hook_free(&h);
}

static void recovery_skips_the_step(void **state)
{
    toy *y = *state;
    tl_hook *h = recovery_of(1e6, 0, 1);
    bool handled = false;
    toy_open(y, SGD, numbered_batches());
    toy_control(y, &h, 1, (toy_options){.interval = 2, .steps_per_loop = 2});
    assert_ok(tl_controller_train(y->c, 2, true));
    y->t->global_step = 3; // a step went well since the checkpoint
    // As after a diagnosis, which has taken the data back to the beginning of the step: batch 2
    // comes next.
    (void)!TL_FAIL(TL_ENAN, "step 4");
    assert_ok(tl_recovery_hook.on_error(h, TL_ENAN, &handled));
    assert_true(handled);
    assert_ok(tl_controller_train(y->c, 4, true));
    assert_seen((double[]){0, 1, 3, 4}, 4);
    handled = false;
    assert_ok(tl_recovery_hook.on_error(h, TL_EIO, &handled)); // not for it
    assert_false(handled);
    toy_close(y);
    tl_hook_free(&h);
}

/* Weights are absurd before they are not finite: the checkpoint whose first step fails holds such,
 * and a trial begins with the one before. */
static void recovery_from_before_it_blew_up(void **state)
{
    toy *y = *state;
    for (int background = 0; background < 2; background++) {
        tl_hook *h = recovery_of(1e6, 0, 1);
        toy_open(y, SGD, NULL);
        toy_control(y, &h, 1,
                    (toy_options){.interval = 2, .steps_per_loop = 2, .background = background});
        plan.blows_up_at = 5;
        plan.blows_up = 1;
        assert_ok(tl_controller_train(y->c, 8, true));
        assert_int_equal(toy_count("'run/ckpt-4.safetensors' leads to a training that blows up, "
                                   "and is kept as 'run/ckpt-4.safetensors.poisoned'"),
                         background + 1);
        assert_int_equal(toy_count("went back from step 4 to run/ckpt-2.safetensors"),
                         background + 1);
        assert_files("run/ckpt-*.safetensors", "run/ckpt-2.safetensors run/ckpt-4.safetensors "
                                               "run/ckpt-6.safetensors run/ckpt-8.safetensors");
        toy_close(y);
        tl_hook_free(&h);
        assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
    tl_hook *h = recovery_of(1e6, 0, 1); // and when there is none before
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 2, .steps_per_loop = 2});
    plan.blows_up_at = 3;
    plan.blows_up = 1;
    assert_fails(tl_controller_train(y->c, 8, true), TL_ENAN,
                 "There is no checkpoint to go back to");
    assert_files("run/ckpt-*", "run/ckpt-2.safetensors.poisoned");
    toy_close(y);
    tl_hook_free(&h);
}

/* What a trial began with and led to the same end is not tried once more, as long as there is
 * another. */
static void recovery_goes_further_back(void **state)
{
    toy *y = *state;
    tl_hook *h = recovery_of(1e6, 0, 3);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 2, .steps_per_loop = 2});
    plan.blows_up_at = 8; // with ckpt-6, and a step that went well behind it
    plan.blows_up = 3;
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_int_equal(toy_count("went back from step 7 to run/ckpt-6.safetensors (recovery 1 of 3)"),
                     1);
    assert_int_equal(toy_count("went back from step 7 to run/ckpt-4.safetensors (recovery 2 of 3)"),
                     1);
    assert_int_equal(toy_count("went back from step 7 to run/ckpt-6.safetensors (recovery 3 of 3)"),
                     1);
    toy_close(y);
    tl_hook_free(&h);
    // A run that was resumed does not doubt what it began with.
    h = recovery_of(1e6, 0, 5);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 2, .steps_per_loop = 2});
    plan.blows_up_at = 11;
    plan.blows_up = 2;
    assert_ok(tl_controller_train(y->c, 12, true));
    assert_int_equal(toy_count("went back from step 10 to run/ckpt-10.safetensors"), 2);
    toy_close(y);
    tl_hook_free(&h);
}

/* The loss of a loop is its mean: nobody knows at which of its steps it began. */
static void recovery_from_before_the_loop(void **state)
{
    toy *y = *state;
    tl_hook *h = recovery_of(0.5, 0, 1);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 1, .steps_per_loop = 4});
    plan.loss[8] = 0.6;
    assert_fails(tl_controller_train(y->c, 8, true), TL_ENAN, "All of the 1 recovery");
    assert_int_equal(toy_count("went back from step 8 to run/ckpt-4.safetensors"), 1);
    toy_close(y);
    tl_hook_free(&h);
}

/* --- early stopping --------------------------------------------------------------------------- */

typedef struct course {
    tl_early_stopping_config config;
    double results[10]; /* at steps 1, 2, ... */
    int64_t ends;
} course;
static const course courses[] = {
    {{"accuracy", TL_METRIC_HIGHER, 1, 0}, {1, 2, 3, 3, 5, 6}, 4},
    {{"accuracy", TL_METRIC_HIGHER, 2, 0}, {1, 2, 3, 3, 5, 4, 4, 9}, 7},
    {{"accuracy", TL_METRIC_LOWER, 2, 0}, {5, 4, 4.5, 3, 3.5, 3.25}, 6},
    {{"accuracy", TL_METRIC_LOWER, 2, 0.5}, {5, 4.6, 4.5, 4.4, 3}, 3},
    {{"accuracy", TL_METRIC_HIGHER, 2, 0.5}, {5, 5.4, 5.6, 6, 6.05}, 5},
    {{"accuracy", TL_METRIC_HIGHER, 3, 0}, {NAN, NAN, 1, NAN, NAN, NAN, 9}, 6},
    {{"accuracy", TL_METRIC_HIGHER, 2, 0}, {NAN, NAN, 1}, 2},
    {{"deep|accuracy", TL_METRIC_LOWER, 1, 0}, {1, 2, 3, 2}, 4},
    {{"accuracy", TL_METRIC_HIGHER, 1, 0}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10},
};

static tl_hook *stopping_of(const tl_early_stopping_config *config)
{
    tl_hook *h;
    assert_ok(tl_hook_new(&h, &tl_early_stopping_hook, &(tl_hook_args){.config = config}));
    return h;
}

static void training_ends_early(void **state)
{
    toy *y = *state;
    for (size_t i = 0; i < TL_COUNT(courses); i++) {
        tl_hook *h = stopping_of(&courses[i].config);
        for (int k = 0; k < 10; k++) plan.result[k + 1] = courses[i].results[k];
        toy_open(y, NULL, NULL);
        toy_control(y, &h, 1, (toy_options){0});
        assert_ok(tl_controller_train_and_evaluate(y->c, 10, -1, 1, NULL));
        assert_int_equal(y->t->global_step, courses[i].ends);
        assert_true((tl_controller_stop_reason(y->c) != NULL) == (courses[i].ends < 10));
        toy_close(y);
        tl_hook_free(&h);
    }
    assert_int_equal(
        toy_count("accuracy has not become better in 2 evaluations (best: 5 at step 5)"), 1);
}

/* Ended by hand after each evaluation and gone on with: the same as without. Checkpoints lie before
 * the evaluation of their step, or behind it when there is one at the end alone. */
static void check_resumed(toy *y, int64_t interval)
{
    const course *one = &courses[1];
    tl_early_stopping_config config = one->config;
    for (int k = 0; k < 10; k++) plan.result[k + 1] = one->results[k];
    for (int part = 1; part <= 10; part++) {
        tl_hook *h = stopping_of(&config);
        toy_open(y, NULL, NULL);
        toy_control(y, &h, 1, (toy_options){.interval = interval});
        assert_ok(tl_controller_train_and_evaluate(y->c, part, -1, 1, NULL));
        assert_int_equal(y->t->global_step, part < one->ends ? part : one->ends);
        if (part > one->ends) assert_non_null(tl_controller_stop_reason(y->c));
        toy_close(y);
        tl_hook_free(&h);
    }
    config.patience = 3;
    tl_hook *h = stopping_of(&config);
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = interval});
    assert_ok(tl_controller_train_and_evaluate(y->c, 8, -1, 1, NULL));
    assert_int_equal(y->t->global_step, 8); // 9 is better than all
    toy_close(y);
    tl_hook_free(&h);
    assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void early_stopping_is_resumed(void **state)
{
    check_resumed(*state, 1);
    check_resumed(*state, 1000);
}

static void the_same_evaluation_counts_once(void **state)
{
    toy *y = *state;
    tl_hook *h = stopping_of(&courses[1].config);
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){0});
    for (int i = 0; i < 5; i++) assert_ok(tl_controller_evaluate(y->c, -1, NULL));
    assert_null(tl_controller_stop_reason(y->c));
    toy_close(y);
    tl_hook_free(&h);
}

static void early_stopping_wants_a_metric(void **state)
{
    toy *y = *state;
    tl_hooks hooks = {0};
    tl_early_stopping_config stop = {.metric = "acuracy", .patience = 1};
    tl_trainer_config params = {.loss_upper_bound = 5, .recovery_max_trials = 1};
    tl_experiment_config config = {
        .trainer = {.value = &params},
        .tilth = {.early_stopping = &stop},
    };
    toy_open(y, NULL, NULL);
    assert_ok(tl_get_train_actions(&hooks, &config, y->t));
    assert_int_equal(hooks.count, 2);
    assert_ptr_equal(hooks.items[0]->cls, &tl_recovery_hook);
    assert_ptr_equal(hooks.items[1]->cls, &tl_early_stopping_hook);
    toy_control(y, hooks.items, hooks.count, (toy_options){0});
    assert_fails(tl_controller_train_and_evaluate(y->c, 3, -1, 1, NULL), TL_ENOTFOUND,
                 "tilth.early_stopping.metric: there is no metric 'acuracy'; there is accuracy, "
                 "deep|accuracy");
    toy_close(y);
    tl_hooks_free(&hooks);
    assert_int_equal(hooks.count, 0);
    tl_hook *h;
    stop.metric = "";
    assert_fails(tl_hook_new(&h, &tl_early_stopping_hook, &(tl_hook_args){.config = &stop}),
                 TL_EINVAL, "metric");
    stop = (tl_early_stopping_config){.metric = "a"};
    assert_fails(tl_hook_new(&h, &tl_early_stopping_hook, &(tl_hook_args){.config = &stop}),
                 TL_EINVAL, "patience");
    stop = (tl_early_stopping_config){.metric = "a", .patience = 1, .min_delta = -1};
    assert_fails(tl_hook_new(&h, &tl_early_stopping_hook, &(tl_hook_args){.config = &stop}),
                 TL_EINVAL, "min_delta");
}

/* --- a condition ------------------------------------------------------------------------------ */

static tl_status is_even(bool *holds, tl_controller *c, const tl_logs *logs, void *payload)
{
    (void)logs;
    ++*(int *)payload;
    *holds = tl_controller_step(c) % 2 == 0;
    return TL_OK;
}

static tl_status count_call(tl_controller *c, tl_logs *logs, void *self)
{
    (void)logs;
    assert_non_null(c);
    ++*(int *)self;
    return TL_OK;
}

/* What hooks within keep is in checkpoints, below the name of the one around them. */
static void conditions_hold_or_not(void **state)
{
    toy *y = *state;
    int asked = 0, called = 0;
    tl_hook *inner[2], *outer[2];
    tl_early_stopping_config stop = {.metric = "accuracy", .patience = 100};
    tl_callbacks calls = {.after_loop = count_call, .after_eval = count_call, .self = &called};
    assert_ok(tl_hook_from_callbacks(&inner[0], &calls, NULL));
    inner[1] = stopping_of(&stop);
    tl_conditional_config config = {
        .condition = is_even,
        .payload = &asked,
        .hooks = inner,
        .hook_count = 2,
    };
    assert_ok(tl_hook_new(&outer[0], &tl_conditional_hook,
                          &(tl_hook_args){.config = &config, .name = "even"}));
    config.after_loops = true;
    config.hook_count = 1;
    assert_ok(tl_hook_new(&outer[1], &tl_conditional_hook, &(tl_hook_args){.config = &config}));
    toy_open(y, NULL, NULL);
    toy_control(y, outer, 2, (toy_options){.steps_per_loop = 1, .interval = 1});
    assert_ok(tl_controller_train(y->c, 5, true));
    assert_int_equal(asked, 5);
    assert_int_equal(called, 2); // loops 2 and 4
    assert_ok(tl_controller_train_and_evaluate(y->c, 6, -1, 0, NULL));
    assert_int_equal(asked, 7);
    assert_int_equal(called, 4);
    tl_state_entry e;
    assert_true(tl_state_find(&e, tl_trainer_checkpoint(y->t), "hooks/even/early_stopping/seen"));
    assert_int_equal(e.i, 6);
    toy_close(y);
    for (int i = 0; i < 2; i++) tl_hook_free(&outer[i]);
    for (int i = 0; i < 2; i++) tl_hook_free(&inner[i]);
}

/* --- epochs ----------------------------------------------------------------------------------- */

static void epochs_are_counted(void **state)
{
    (void)state;
    int64_t step = 0;
    bool over;
    tl_epoch_helper e;
    assert_fails(tl_epoch_helper_init(&e, 0, &step), TL_EINVAL, "not 0");
    assert_ok(tl_epoch_helper_init(&e, 4, &step));
    assert_int_equal(e.current_epoch, -1);
    assert_fails(tl_epoch_helper_end(&e, &over), TL_ESTATE, "no epoch has begun");
    assert_true(tl_epoch_helper_begin(&e));
    assert_false(tl_epoch_helper_begin(&e)); // it is in one
    assert_int_equal(e.current_epoch, 0);
    step = 3;
    assert_int_equal(tl_epoch_helper_batch_index(&e), 3);
    assert_ok(tl_epoch_helper_end(&e, &over));
    assert_false(over);
    step = 4;
    assert_ok(tl_epoch_helper_end(&e, &over));
    assert_true(over);
    assert_fails(tl_epoch_helper_end(&e, &over), TL_ESTATE, "no epoch has begun");
    step = 6; // it begins in the middle
    assert_true(tl_epoch_helper_begin(&e));
    assert_int_equal(e.current_epoch, 1);
    assert_int_equal(tl_epoch_helper_batch_index(&e), 0);
    step = 13; // and passes a whole one
    assert_ok(tl_epoch_helper_end(&e, &over));
    assert_true(over);
    assert_true(tl_epoch_helper_begin(&e));
    assert_int_equal(e.current_epoch, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(a_value_is_kept),
        TOY_TEST(a_value_that_is_only_read),
        TOY_TEST(the_best_is_known),
        TOY_TEST(the_best_outlives_the_process),
        TOY_TEST(exports_are_numbered),
        TOY_TEST(exports_are_kept_or_not),
        TOY_TEST(the_best_model_is_exported),
        TOY_TEST(exports_after_loops),
        TOY_TEST(averages_are_checkpoints),
        TOY_TEST(recovery_has_trials),
        TOY_TEST(recovery_from_nan),
        TOY_TEST(recovery_begins_late),
        TOY_TEST(recovery_in_a_run),
        TOY_TEST(recovery_from_a_step),
        TOY_TEST(recovery_skips_the_step),
        TOY_TEST(recovery_from_before_it_blew_up),
        TOY_TEST(recovery_goes_further_back),
        TOY_TEST(recovery_from_before_the_loop),
        TOY_TEST(training_ends_early),
        TOY_TEST(early_stopping_is_resumed),
        TOY_TEST(the_same_evaluation_counts_once),
        TOY_TEST(early_stopping_wants_a_metric),
        TOY_TEST(conditions_hold_or_not),
        TOY_TEST(epochs_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
