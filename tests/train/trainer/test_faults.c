/* What goes wrong around a training: damaged checkpoints, disks that are full, signals at bad
 * moments. runs: fake device */
#include "train/toy.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <tilth/base/clock.h>

#include <tilth/train/controller/actions.h>
#include <tilth/train/hooks/hooks.h>

#include "io/inner/checkpoint_manager.h"
#include "train/controller/controller.h"

/* --- damaged checkpoints ---------------------------------------------------------------------- */

static void damage(const char *path)
{
    char *bytes;
    size_t size;
    assert_ok(tl_file_read(&bytes, &size, path, 1 << 20));
    bytes[size / 2] ^= 4;
    assert_ok(tl_file_write_atomic(path, bytes, size));
    tl_free(bytes);
}

static void train_to(toy *y, int64_t steps)
{
    toy_open(y, NULL, NULL);
    toy_control(y, NULL, 0, (toy_options){.steps_per_loop = 5, .interval = 5});
    assert_ok(tl_controller_train(y->c, steps, true));
    toy_close(y);
}

/* A controller that only evaluates. */
static tl_status open_evaluation(toy *y)
{
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 5}));
    return tl_controller_new(
        &y->c,
        &(tl_controller_args){.evaluator = y->t, .checkpoint_manager = y->manager, .quiet = true});
}

static void evaluation_takes_the_one_before(void **state)
{
    toy *y = *state;
    train_to(y, 15);
    damage("run/ckpt-15.safetensors");
    char *before = toy_read("run/checkpoint");
    assert_ok(open_evaluation(y));
    assert_int_equal(y->t->global_step, 10);
    assert_int_equal(toy_count("the checkpoint 'run/ckpt-15.safetensors' cannot be used"), 1);
    assert_int_equal(toy_count("taking 'run/ckpt-10.safetensors' instead"), 1);
    assert_ok(tl_controller_evaluate(y->c, 1, NULL));
    // The folder is another's.
    assert_files("run/ckpt*",
                 "run/ckpt-10.safetensors run/ckpt-15.safetensors run/ckpt-5.safetensors");
    assert_file("run/checkpoint", before);
    tl_free(before);
    toy_close(y);
    damage("run/ckpt-10.safetensors");
    assert_int_equal(remove("run/ckpt-5.safetensors"), 0);
    assert_fails(open_evaluation(y), TL_ENOTFOUND, "no checkpoint in 'run' can be used");
}

/* One that can be read and does not fit is no reason to take another. */
static void what_does_not_fit_is_a_failure(void **state)
{
    toy *y = *state;
    train_to(y, 5);
    toy_open(y,
             "optimizer: {type: sgd}\nlearning_rate: {type: constant, constant: {learning_rate: "
             "0.125}}\n",
             NULL); // with a model, which the checkpoint lacks
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 5}));
    assert_fails(tl_controller_new(&y->c, &(tl_controller_args){.evaluator = y->t,
                                                                .quiet = true,
                                                                .checkpoint_manager = y->manager}),
                 TL_EINVAL, "does not fit");
    assert_int_equal(toy_count("cannot be used"), 0);
}

/* Somebody else trains on, beginning where the damage lies. */
static bool train_once(void *payload)
{
    int *asked = payload;
    toy other = {0};
    if (++*asked > 1) return true;
    assert_ok(tl_get_distribution_strategy(&other.strategy,
                                           &(tl_strategy_args){.registry = test_registry(),
                                                               .distribution_strategy = "off",
                                                               .threads = 1}));
    train_to(&other, 15);
    tl_strategy_free(&other.strategy);
    return false;
}

static void continuous_evaluation_outlasts_damage(void **state)
{
    toy *y = *state;
    int asked = 0;
    train_to(y, 10);
    damage("run/ckpt-10.safetensors");
    assert_ok(open_evaluation(y));
    plan.evaluated = 0;
    assert_ok(tl_controller_evaluate_continuously(y->c, 1, 5, train_once, &asked, NULL));
    assert_int_equal(plan.evaluated, 2); // 5 and 15
    // restored once when it began
    assert_int_equal(toy_count("'run/ckpt-10.safetensors' cannot be used"), 1);
    assert_int_equal(y->t->global_step, 15);
    // Nothing can be used: it waits for what can.
    damage("run/ckpt-5.safetensors");
    damage("run/ckpt-10.safetensors");
    damage("run/ckpt-15.safetensors");
    asked = 1;
    assert_ok(tl_controller_evaluate_continuously(y->c, 1, 0.1, train_once, &asked, NULL));
    assert_int_equal(plan.evaluated, 2);
}

/* --- loops that a resume cuts ----------------------------------------------------------------- */

static int64_t two_then_four(void *payload, int64_t step)
{
    (void)payload;
    return step > 4 ? 4 : 2;
}

static tl_status stops_at_seven(tl_controller *c, void *self)
{
    (void)self;
    if (tl_controller_step(c) == 7) tl_controller_request_stop(c, "seven");
    return TL_OK;
}

static void control_loops(toy *y, tl_hook *const *hook)
{
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 100}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_of_loop = two_then_four,
                                                             .checkpoint_manager = y->manager,
                                                             .hooks = hook,
                                                             .hook_count = 1,
                                                             .quiet = true}));
}

/* 2, 4, 6, 10, 14: also when a process ends at 7. */
static void a_loop_ends_where_it_would_have(void **state)
{
    toy *y = *state;
    tl_hook *h;
    assert_ok(tl_hook_from_callbacks(&h, &(tl_callbacks){.after_step = stops_at_seven}, NULL));
    control_loops(y, &h);
    assert_ok(tl_controller_train(y->c, 14, true));
    assert_int_equal(y->t->global_step, 7);
    toy_close(y);
    tl_str_cut(&toy_log, 0);
    control_loops(y, &h);
    assert_int_equal(y->t->global_step, 7);
    assert_ok(tl_controller_train(y->c, 14, true));
    assert_int_equal(toy_count("| steps/sec"), 2);
    assert_int_equal(toy_count("train | step:     10 | steps/sec"), 1);
    assert_int_equal(toy_count("train | step:     14 | steps/sec"), 1);
    toy_close(y);
    tl_hook_free(&h);
}

/* --- full disks ------------------------------------------------------------------------------- */

/* Files that may not grow stand for a disk that is full: they fail in the same place. */
static void set_room(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Before steps: the controller is called at intervals alone. */
typedef struct filling {
    tl_hook base;
    int64_t empty_at;
} filling;

static tl_status fill_and_empty(tl_hook *h)
{
    int64_t step = tl_controller_step(h->controller);
    if (step == 7) {
        // step 5 is to be there
        TL_TRY(tl_checkpoint_manager_sync(tl_controller_manager(h->controller)));
        set_room(16);
    }
    if (step == ((filling *)h)->empty_at) {
        // waits for who writes
        (void)tl_checkpoint_manager_latest(tl_controller_manager(h->controller));
        set_room(RLIM_INFINITY);
    }
    return TL_OK;
}
static const tl_hook_class filling_class = {
    .cls = TL_CLASS(tl_hook_class, "filling", NULL, filling, NULL),
    .before_step = fill_and_empty,
};

static tl_status train_on_full_disk(toy *y, bool survive, bool background, int64_t empty_at)
{
    tl_hook *h;
    assert_ok(tl_hook_new(&h, &filling_class, NULL));
    ((filling *)h)->empty_at = empty_at;
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 5,
                                                   .background = background}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 5,
                                                             .checkpoint_manager = y->manager,
                                                             .hooks = &h,
                                                             .hook_count = 1,
                                                             .summary_dir = "run/train",
                                                             .survive_write_failures = survive,
                                                             .quiet = true}));
    tl_status st = tl_controller_train(y->c, 25, true);
    set_room(RLIM_INFINITY);
    tl_error kept;
    tl_error_save(&kept);
    toy_close(y);
    tl_hook_free(&h);
    tl_error_restore(&kept);
    return st;
}

static void clear_run(void)
{
    assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    tl_str_cut(&toy_log, 0);
}

static void a_full_disk_ends_the_training(void **state)
{
    toy *y = *state;
    for (int background = 0; background < 2; background++) {
        assert_int_equal(train_on_full_disk(y, false, background, 1000), TL_EIO);
        assert_non_null(strstr(tl_error_message(), "File too large"));
        assert_true(plan.trained < 25);
        assert_int_equal(toy_count("saved checkpoint to"), 1); // said only of what is there
        assert_int_equal(toy_count("saved checkpoint to run/ckpt-5.safetensors."), 1);
        // What was there is whole, and the run goes on from it.
        assert_files("run/ckpt*", "run/ckpt-5.safetensors");
        toy_open(y, NULL, NULL);
        toy_control(y, NULL, 0, (toy_options){.interval = 5});
        assert_int_equal(y->t->global_step, 5);
        toy_close(y);
        clear_run();
        plan.trained = 0;
    }
}

static void a_full_disk_is_survived(void **state)
{
    toy *y = *state;
    for (int background = 0; background < 2; background++) {
        assert_ok(train_on_full_disk(y, true, background, 18)); // room again before step 20
        assert_true(toy_count("The training goes on (survive_write_failures)") >= 2);
        assert_true(tl_file_exists("run/ckpt-5.safetensors")
                    && tl_file_exists("run/ckpt-25.safetensors"));
        assert_false(tl_file_exists("run/ckpt-10.safetensors"));
        // not tried at each step
        assert_true(toy_count("'run/ckpt-10.safetensors' was not saved") == 1);
        // nor at each second interval
        assert_true(toy_count("'run/ckpt-15.safetensors' was not saved") == 1);
        assert_true(tl_file_exists("run/ckpt-20.safetensors"));
        assert_int_equal(toy_count("saved checkpoint to"), 3); // 5, 20, 25
        assert_files("run/.*.tmp", "");
        clear_run();
        // the last one must be written
        assert_int_equal(train_on_full_disk(y, true, background, 1000), TL_EIO);
        assert_files("run/ckpt*", "run/ckpt-5.safetensors");
        clear_run();
    }
}

/* The checkpoint of step 10 fails in the background, and nobody has heard of it when something else
 * ends the training at step 12; then there is room again. */
typedef struct late {
    tl_hook base;
    bool by_signal;
} late;

static tl_status late_before_step(tl_hook *h)
{
    int64_t step = tl_controller_step(h->controller);
    if (step == 7) {
        // step 5 is to be there
        TL_TRY(tl_checkpoint_manager_sync(tl_controller_manager(h->controller)));
        set_room(16);
    }
    if (step == 12) {
        // waits, and hears nothing
        (void)tl_checkpoint_manager_latest(tl_controller_manager(h->controller));
        set_room(RLIM_INFINITY);
        if (((late *)h)->by_signal) raise(SIGTERM);
    }
    return TL_OK;
}
static const tl_hook_class late_class = {
    .cls = TL_CLASS(tl_hook_class, "late", NULL, late, NULL),
    .before_step = late_before_step,
};

static tl_status train_late(toy *y, bool by_signal, bool survive)
{
    tl_hook *h;
    assert_ok(tl_hook_new(&h, &late_class, NULL));
    ((late *)h)->by_signal = by_signal;
    plan.blows_up_at = by_signal ? 0 : 13;
    plan.blows_up = 1;
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 5,
                                                   .background = true}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 100,
                                                             .checkpoint_manager = y->manager,
                                                             .hooks = &h,
                                                             .hook_count = 1,
                                                             .heed_signals = true,
                                                             .survive_write_failures = survive,
                                                             .quiet = true}));
    tl_status st = tl_controller_train(y->c, 50, true);
    tl_error kept;
    tl_error_save(&kept);
    toy_close(y);
    tl_hook_free(&h);
    tl_error_restore(&kept);
    return st;
}

/* A training that blows up saves nothing: what it has may be absurd. */
static void an_older_failure_does_not_prevent_the_last_save(void **state)
{
    toy *y = *state;
    for (int survive = 0; survive < 2; survive++) {
        assert_fails(train_late(y, false, survive), TL_ENAN,
                     "step 13: numbers are not finite. Lower the learning rate and resume: the run "
                     "goes on from 'run/ckpt-5.safetensors'");
        assert_files("run/ckpt*", "run/ckpt-5.safetensors");
        assert_int_equal(toy_count("'run/ckpt-10.safetensors' was not saved"), 1);
        clear_run();
        tl_status st = train_late(y, true, survive);
        assert_int_equal(st, survive ? TL_ESTOPPED : TL_EIO);
        assert_non_null(strstr(tl_error_message(),
                               survive ? "SIGTERM ended the training at step 13, which is saved"
                                       : "'run/ckpt-10.safetensors' was not saved"));
        assert_files("run/ckpt*", "run/ckpt-13.safetensors run/ckpt-5.safetensors");
        clear_run();
    }
}

/* --- what is forgiven ------------------------------------------------------------------------- */

static bool fails_at_the_end;

static tl_status unlucky_after_step(tl_hook *h)
{
    if (fails_at_the_end || tl_controller_step(h->controller) != 3) return TL_OK;
    return TL_FAIL(TL_EIO, "the disk is full, or broken");
}

static tl_status unlucky_after_train(tl_hook *h)
{
    (void)h;
    return fails_at_the_end ? TL_FAIL(TL_EIO, "the disk is full, or broken") : TL_OK;
}

static tl_status train_unlucky(toy *y, tl_hook_files writes, bool at_the_end)
{
    const tl_hook_class base = {
        .cls = TL_CLASS(tl_hook_class, "unlucky_base", NULL, tl_hook, NULL),
        .files = writes,
    };
    const tl_hook_class unlucky = {
        .cls = TL_CLASS(tl_hook_class, "unlucky", &base.cls, tl_hook, NULL),
        .after_step = unlucky_after_step,
        .after_train = unlucky_after_train,
    };
    tl_hook *h;
    fails_at_the_end = at_the_end;
    assert_ok(tl_hook_new(&h, &unlucky, NULL));
    toy_open(y, NULL, NULL);
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 2,
                                                             .hooks = &h,
                                                             .hook_count = 1,
                                                             .survive_write_failures = true,
                                                             .quiet = true}));
    tl_status st = tl_controller_train(y->c, 6, true);
    tl_error kept;
    tl_error_save(&kept);
    toy_close(y);
    tl_hook_free(&h);
    tl_error_restore(&kept);
    return st;
}

/* A hook that reads may fail in the same way; and a last checkpoint must be written. */
static void only_who_writes_is_forgiven(void **state)
{
    toy *y = *state;
    for (int at_the_end = 0; at_the_end < 2; at_the_end++) {
        assert_fails(train_unlucky(y, TL_HOOK_NO_FILES, at_the_end), TL_EIO,
                     "hook 'unlucky': the disk is full");
        tl_str_cut(&toy_log, 0);
        assert_ok(train_unlucky(y, TL_HOOK_FILES, at_the_end));
        assert_int_equal(
            toy_count("hook 'unlucky': the disk is full, or broken. The training goes on"), 1);
    }
    assert_ok(train_unlucky(y, TL_HOOK_CHECKPOINTS, false));
    assert_fails(train_unlucky(y, TL_HOOK_CHECKPOINTS, true), TL_EIO,
                 "hook 'unlucky': the disk is full");
    // Evaluations read, and recovery goes back to a checkpoint.
    assert_int_equal(tl_eval_hook.files, TL_HOOK_NO_FILES);
    assert_int_equal(tl_recovery_hook.files, TL_HOOK_NO_FILES);
    assert_int_equal(tl_periodic_writer_hook.files, TL_HOOK_FILES);
    assert_int_equal(tl_periodic_checkpointer_hook.files, TL_HOOK_CHECKPOINTS);
}

/* What was to be tried later in one training is tried at once in another, and after a restore. */
static void a_new_beginning_forgets_failures(void **state)
{
    toy *y = *state;
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 10}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 5,
                                                             .quiet = true,
                                                             .checkpoint_manager = y->manager,
                                                             .survive_write_failures = true}));
    assert_ok(tl_controller_train(y->c, 10, true));
    set_room(16);
    assert_ok(tl_controller_train(y->c, 25, false)); // 20 fails, and is to be tried again at 30
    assert_true(toy_count("'run/ckpt-20.safetensors' was not saved") == 1);
    set_room(RLIM_INFINITY);
    const char *path;
    assert_ok(tl_controller_restore_checkpoint(y->c, NULL, &path));
    assert_int_equal(y->t->global_step, 10);
    assert_int_equal(y->c->again_at, 0);
    assert_ok(tl_controller_train(y->c, 25, false));
    assert_files("run/ckpt*", "run/ckpt-10.safetensors run/ckpt-20.safetensors");
    set_room(16);
    assert_ok(tl_controller_train(y->c, 35, false)); // 30 fails
    set_room(RLIM_INFINITY);
    assert_true(y->c->again_at == 40);
    assert_ok(tl_controller_train(y->c, 36, false));
    assert_true(y->c->again_at == 0);
}

/* --- signals ---------------------------------------------------------------------------------- */

static int signals;

/* Called while a checkpoint is being saved. */
static double clock_with_signal(void)
{
    if (signals > 0) {
        signals--;
        kill(getpid(), SIGTERM); // the thread that writes leaves signals to others
    }
    return tl_clock_wall();
}

static tl_status train_with_signals(toy *y, bool background)
{
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 5,
                                                   .background = background}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 1,
                                                             .checkpoint_manager = y->manager,
                                                             .heed_signals = true,
                                                             .quiet = true}));
    signals = 1;
    return tl_controller_train(y->c, 20, true);
}

static void a_signal_in_a_save(void **state)
{
    toy *y = *state;
    for (int background = 0; background < 2; background++) {
        tli_checkpoint_clock = clock_with_signal;
        assert_fails(train_with_signals(y, background), TL_ESTOPPED,
                     "SIGTERM ended the training at step ");
        int64_t step = y->t->global_step;
        assert_true(step >= 5 && step < 20);
        toy_close(y);
        toy_open(y, NULL, NULL);
        toy_control(y, NULL, 0, (toy_options){.interval = 5});
        assert_int_equal(y->t->global_step, step); // which is saved, and whole
        toy_close(y);
        tli_checkpoint_clock = tl_clock_wall;
        clear_run();
    }
}

static tl_status raises_at_three(tl_controller *c, void *self)
{
    (void)self;
    if (tl_controller_step(c) == 3) raise(SIGTERM);
    return TL_OK;
}

static void a_signal_may_leave_it_unsaved(void **state)
{
    toy *y = *state;
    tl_hook *h;
    assert_ok(tl_hook_from_callbacks(&h, &(tl_callbacks){.after_step = raises_at_three}, NULL));
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 2}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 10,
                                                             .checkpoint_manager = y->manager,
                                                             .hooks = &h,
                                                             .hook_count = 1,
                                                             .heed_signals = true,
                                                             .leave_unsaved = true,
                                                             .quiet = true}));
    assert_fails(tl_controller_train(y->c, 20, true), TL_ESTOPPED,
                 "SIGTERM ended the training at step 3");
    assert_null(strstr(tl_error_message(), "saved"));
    assert_files("run/ckpt*", "run/ckpt-2.safetensors");
    toy_close(y);
    tl_hook_free(&h);
}

static tl_status raises_twice(tl_controller *c, void *self)
{
    (void)self;
    if (tl_controller_step(c) != 3) return TL_OK;
    raise(SIGTERM);
    raise(SIGTERM);
    _exit(1); // it would have gone on
}

static void the_second_signal_leaves_at_once(void **state)
{
    toy *y = *state;
    tl_hook *h;
    int status;
    assert_ok(tl_hook_from_callbacks(&h, &(tl_callbacks){.after_step = raises_twice}, NULL));
    toy_open(y, NULL, NULL);
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 10,
                                                             .hooks = &h,
                                                             .hook_count = 1,
                                                             .heed_signals = true,
                                                             .quiet = true}));
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        (void)!tl_controller_train(y->c, 20, true);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
    toy_close(y);
    tl_hook_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(evaluation_takes_the_one_before),
        TOY_TEST(what_does_not_fit_is_a_failure),
        TOY_TEST(continuous_evaluation_outlasts_damage),
        TOY_TEST(a_loop_ends_where_it_would_have),
        TOY_TEST(a_full_disk_ends_the_training),
        TOY_TEST(a_full_disk_is_survived),
        TOY_TEST(an_older_failure_does_not_prevent_the_last_save),
        TOY_TEST(only_who_writes_is_forgiven),
        TOY_TEST(a_new_beginning_forgets_failures),
        TOY_TEST(a_signal_in_a_save),
        TOY_TEST(a_signal_may_leave_it_unsaved),
        TOY_TEST(the_second_signal_leaves_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
