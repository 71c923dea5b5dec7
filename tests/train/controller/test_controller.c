/* The controller: Orbit's acceptance vectors one by one, and what Tilth promises beyond them.
 * runs: fake device */
#include "train/toy.h"

#include <signal.h>

/* --- hooks that count ------------------------------------------------------------------------- */

typedef struct counts {
    int before_train, after_train, before_step, after_step, after_loop, after_eval;
    int64_t steps[TOY_STEPS];
    tl_controller *controller;
} counts;

#define COUNT(phase)                                                                               \
    static tl_status count_##phase(tl_controller *c, void *self)                                   \
    {                                                                                              \
        ((counts *)self)->phase++;                                                                 \
        ((counts *)self)->controller = c;                                                          \
        return TL_OK;                                                                              \
    }
COUNT(before_train)
COUNT(after_train)
COUNT(before_step)

static tl_status count_after_step(tl_controller *c, void *self)
{
    counts *k = self;
    k->steps[k->after_step++] = tl_controller_step(c);
    return TL_OK;
}

static tl_status count_after_loop(tl_controller *c, tl_logs *logs, void *self)
{
    (void)c;
    (void)logs;
    ((counts *)self)->after_loop++;
    return TL_OK;
}

static tl_status count_after_eval(tl_controller *c, tl_logs *logs, void *self)
{
    (void)c;
    (void)logs;
    ((counts *)self)->after_eval++;
    return TL_OK;
}

static tl_hook *counting_hook(counts *k, int64_t period)
{
    tl_hook *h;
    tl_callbacks all = {count_before_train,
                        count_after_train,
                        count_before_step,
                        count_after_step,
                        count_after_loop,
                        count_after_eval,
                        k};
    assert_ok(tl_hook_from_callbacks(&h, &all, &(tl_hook_args){.period = period}));
    return h;
}

/* A controller with what the test gives, for the toy trainer. */
static void control(toy *y, tl_controller_args args)
{
    args.quiet = true;
    if (!args.steps_per_loop && !args.steps_of_loop) args.steps_per_loop = 2;
    assert_ok(tl_controller_new(&y->c, &args));
}

/* --- vectors ---------------------------------------------------------------------------------- */

static void actions_are_called_after_loops_and_evaluations(void **state)
{
    toy *y = *state;
    counts k = {0};
    tl_hook *h = counting_hook(&k, 1);
    toy_open(y, NULL, NULL);
    control(y,
            (tl_controller_args){.trainer = y->t, .evaluator = y->t, .hooks = &h, .hook_count = 1});
    assert_ok(tl_controller_train_and_evaluate(y->c, 10, 2, 6, NULL));
    assert_int_equal(k.after_loop, 5);
    assert_int_equal(k.after_eval, 2);
    assert_int_equal(y->t->global_step, 10);
    // Once for the whole training, whatever it was cut into.
    assert_int_equal(k.before_train, 1);
    assert_int_equal(k.after_train, 1);
    assert_int_equal(k.before_step, 10);
    assert_int_equal(k.after_step, 10);
    y->t->global_step = 0; // there is no manager to say where it stands
    assert_ok(tl_controller_train_and_evaluate(y->c, 10, 2, 6, NULL));
    assert_int_equal(k.after_loop, 10);
    tl_controller_free(&y->c);
    tl_hook_free(&h);
}

static void hooks_have_periods(void **state)
{
    toy *y = *state;
    counts k = {0};
    tl_hook *h = counting_hook(&k, 4);
    toy_open(y, NULL, NULL);
    control(y, (tl_controller_args){
                   .trainer = y->t, .steps_per_loop = 100, .hooks = &h, .hook_count = 1});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_int_equal(k.after_step, 2);
    assert_int_equal(k.steps[0], 4);
    assert_int_equal(k.steps[1], 8);
    assert_int_equal(k.before_step, 2);
    tl_controller_free(&y->c);
    tl_hook_free(&h);
}

static void a_manager_without_an_interval_never_saves(void **state)
{
    toy *y = *state;
    bool saved;
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step}));
    control(y, (tl_controller_args){.trainer = y->t, .checkpoint_manager = y->manager});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_ok(tl_controller_save_checkpoint(y->c, &saved));
    assert_false(saved);
    assert_files("run/ckpt*", "");
}

static void checkpoints_lie_at_multiples(void **state)
{
    toy *y = *state;
    const char *path;
    toy_open(y, NULL, NULL);
    toy_control(y, NULL, 0, (toy_options){.steps_per_loop = 5, .interval = 5});
    assert_ok(tl_controller_train(y->c, 20, true));
    assert_files("run/ckpt-*", "run/ckpt-10.safetensors run/ckpt-15.safetensors "
                               "run/ckpt-20.safetensors run/ckpt-5.safetensors");
    assert_ok(tl_controller_restore_checkpoint(y->c, NULL, &path));
    assert_string_equal(path, "run/ckpt-20.safetensors");
}

static void a_checkpoint_may_lie_within_a_loop(void **state)
{
    toy *y = *state;
    toy_open(y, NULL, NULL);
    toy_control(y, NULL, 0, (toy_options){.steps_per_loop = 10, .interval = 4});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_files("run/ckpt-*",
                 "run/ckpt-10.safetensors run/ckpt-4.safetensors run/ckpt-8.safetensors");
    assert_int_equal(toy_count("train | step:     10 | steps/sec"), 1); // and the loop went on
}

static void evaluations_shorten_loops(void **state)
{
    toy *y = *state;
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 5}));
    control(y, (tl_controller_args){.trainer = y->t,
                                    .evaluator = y->t,
                                    .steps_per_loop = 10,
                                    .checkpoint_manager = y->manager,
                                    .summary_dir = "run/all",
                                    .eval_summary_dir = "run/all"});
    assert_ok(tl_controller_train_and_evaluate(y->c, 10, 2, 5, NULL));
    assert_files("run/ckpt-*", "run/ckpt-10.safetensors run/ckpt-5.safetensors");
    assert_int_equal(plan.evaluated, 2);
    assert_files("run/all/events*.1", ""); // one file for both
    tl_controller_free(&y->c);
    assert_told("run/all", "accuracy", "accuracy@5=0 accuracy@10=0 ");
}

static void folders_are_made_for_what_is_done(void **state)
{
    toy *y = *state;
    toy_open(y, NULL, NULL);
    control(y, (tl_controller_args){.trainer = y->t,
                                    .evaluator = y->t,
                                    .summary_dir = "train",
                                    .eval_summary_dir = "eval"});
    assert_ok(tl_controller_train(y->c, 4, true));
    assert_true(tl_dir_exists("train"));
    assert_false(tl_file_exists("eval"));
    tl_controller_free(&y->c);
    control(y, (tl_controller_args){
                   .evaluator = y->t, .summary_dir = "train2", .eval_summary_dir = "eval"});
    assert_ok(tl_controller_evaluate(y->c, 2, NULL));
    assert_true(tl_dir_exists("eval"));
    assert_true(tl_dir_exists("eval/deep")); // logs within logs
    assert_false(tl_file_exists("train2"));
}

static void nothing_is_trained_when_the_step_is_reached(void **state)
{
    toy *y = *state;
    toy_open(y, NULL, NULL);
    control(y, (tl_controller_args){.trainer = y->t});
    y->t->global_step = 10;
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_int_equal(plan.trained, 0);
}

static int64_t four_or_two(void *payload, int64_t step)
{
    (void)payload;
    return step > 4 ? 4 : 2;
}

static void loops_may_have_lengths_of_their_own(void **state)
{
    toy *y = *state;
    counts k = {0};
    tl_hook *h = counting_hook(&k, 1);
    toy_open(y, NULL, NULL);
    control(y, (tl_controller_args){
                   .trainer = y->t, .steps_of_loop = four_or_two, .hooks = &h, .hook_count = 1});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_int_equal(y->t->global_step, 10);
    assert_int_equal(k.after_loop, 4); // 2, 4, 6, 10
    tl_controller_free(&y->c);
    tl_hook_free(&h);
}

static tl_status tells_nothing(tl_trainer *t, int64_t steps, tl_logs *logs)
{
    (void)t, (void)steps, (void)logs;
    return TL_OK;
}
static const tl_trainer_class silent = {
    .cls = TL_CLASS(tl_trainer_class, "silent", &toy_trainer.cls, tl_trainer, NULL),
    .evaluate = tells_nothing,
};

static void an_evaluator_may_tell_nothing(void **state)
{
    toy *y = *state;
    tl_logs *logs;
    tl_logs_entry e;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_trainer_new(&y->t, &(tl_trainer_args){.cls = &silent, .strategy = y->strategy}));
    control(y, (tl_controller_args){.evaluator = y->t});
    assert_ok(tl_controller_evaluate(y->c, 5, logs));
    assert_int_equal(tl_logs_count(logs), 1);
    tl_logs_at(&e, logs, 0);
    assert_string_equal(e.name, "steps_per_second");
    tl_logs_clear(logs);
    assert_ok(tl_controller_evaluate(y->c, -1, logs));
    assert_int_equal(tl_logs_count(logs), 0); // how many there were is not known
    tl_logs_free(&logs);
}

static bool write_and_end(void *payload)
{
    (void)payload;
    toy_put("asked", "x");
    return true;
}

static void continuous_evaluation_ends_when_it_is_told_to(void **state)
{
    toy *y = *state;
    toy_open(y, NULL, NULL);
    toy_control(y, NULL, 0, (toy_options){.interval = 5});
    assert_ok(tl_controller_evaluate_continuously(y->c, 1, 0.3, write_and_end, NULL, NULL));
    assert_false(tl_file_exists("asked")); // the time is up, whoever thinks that more will come
    assert_int_equal(plan.evaluated, 0);
    assert_ok(tl_controller_train(y->c, 5, true));
    assert_ok(tl_controller_evaluate_continuously(y->c, 1, 3000, write_and_end, NULL, NULL));
    assert_true(tl_file_exists("asked"));
    assert_int_equal(plan.evaluated, 1);
}

/* --- bad arguments ---------------------------------------------------------------------------- */

static void bad_arguments_are_refused(void **state)
{
    toy *y = *state;
    tl_controller *c;
    toy_open(y, NULL, NULL);
    assert_fails(tl_controller_new(&c, &(tl_controller_args){0}), TL_EINVAL,
                 "a trainer or an evaluator");
    assert_fails(tl_controller_new(&c, &(tl_controller_args){.trainer = y->t}), TL_EINVAL,
                 "steps_per_loop is 0");
    assert_fails(
        tl_controller_new(
            &c, &(tl_controller_args){.trainer = y->t, .steps_per_loop = 4, .summary_interval = 6}),
        TL_EINVAL, "must be a multiple of steps_per_loop");
    control(y, (tl_controller_args){.evaluator = y->t});
    assert_fails(tl_controller_train(y->c, 5, true), TL_ESTATE, "train needs a trainer");
    assert_fails(tl_controller_evaluate(y->c, 0, NULL), TL_EINVAL, "must be 1 or more, or -1");
    assert_fails(tl_controller_save_checkpoint(y->c, NULL), TL_ESTATE,
                 "needs a checkpoint manager");
    tl_controller_free(&y->c);
    control(y, (tl_controller_args){.trainer = y->t});
    assert_fails(tl_controller_evaluate(y->c, 1, NULL), TL_ESTATE, "evaluate needs a evaluator");
}

/* --- hooks that fail, and stop ---------------------------------------------------------------- */

static tl_status fails_at_three(tl_controller *c, void *self)
{
    (void)self;
    return tl_controller_step(c) == 3 ? TL_FAIL(TL_EIO, "the disk is gone") : TL_OK;
}

static tl_status stops_at_three(tl_controller *c, void *self)
{
    (void)self;
    if (tl_controller_step(c) == 3) tl_controller_request_stop(c, "three is enough");
    return TL_OK;
}

static void a_hook_that_fails_ends_the_training(void **state)
{
    toy *y = *state;
    counts k = {0};
    tl_hook *hooks[2] = {NULL, counting_hook(&k, 1)};
    toy_open(y, NULL, NULL);
    for (int before = 0; before < 2; before++) {
        tl_callbacks c = {.after_step = before ? NULL : fails_at_three,
                          .before_step = before ? fails_at_three : NULL};
        assert_ok(tl_hook_from_callbacks(&hooks[0], &c, &(tl_hook_args){.name = "careful"}));
        y->t->global_step = 0;
        control(y, (tl_controller_args){.trainer = y->t, .hooks = hooks, .hook_count = 2});
        assert_fails(tl_controller_train(y->c, 10, true), TL_EIO,
                     "hook 'careful': the disk is gone");
        assert_int_equal(k.after_train, before + 1); // also then
        tl_controller_free(&y->c);
        tl_hook_free(&hooks[0]);
    }
    tl_hook_free(&hooks[1]);
}

/* Whoever handles a failure has the training go on, wherever it came from. */
static tl_status handles(tl_hook *h, tl_status status, bool *handled)
{
    (void)h;
    *handled = status == TL_ENAN;
    return TL_OK;
}
static const tl_hook_class handling = {
    .cls = TL_CLASS(tl_hook_class, "handling", NULL, tl_hook, NULL),
    .on_error = handles,
};

static tl_status blows_up_once(tl_controller *c, void *self)
{
    int *times = self;
    return tl_controller_step(c) == 3 && (*times)++ == 0 ? TL_FAIL(TL_ENAN, "too large") : TL_OK;
}

static void a_failure_that_is_handled_is_over(void **state)
{
    toy *y = *state;
    int times = 0;
    tl_hook *hooks[2];
    assert_ok(tl_hook_from_callbacks(
        &hooks[0], &(tl_callbacks){.after_step = blows_up_once, .self = &times}, NULL));
    assert_ok(tl_hook_new(&hooks[1], &handling, NULL));
    toy_open(y, NULL, NULL);
    control(y, (tl_controller_args){
                   .trainer = y->t, .steps_per_loop = 5, .hooks = hooks, .hook_count = 2});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_int_equal(y->t->global_step, 10);
    tl_controller_free(&y->c);
    for (int i = 0; i < 2; i++) tl_hook_free(&hooks[i]);
}

static tl_status saves_here(tl_controller *c, void *self)
{
    bool *saved = self;
    return tl_controller_step(c) % 5 == 0 ? tl_controller_save_checkpoint(c, saved) : TL_OK;
}

/* The metrics of a loop are told and reset before its last step is saved. */
static void a_checkpoint_of_a_loops_end_waits_for_it(void **state)
{
    toy *y = *state;
    tl_hook *h;
    bool saved = true;
    assert_ok(tl_hook_from_callbacks(&h, &(tl_callbacks){.after_step = saves_here, .self = &saved},
                                     NULL));
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){.steps_per_loop = 10, .interval = 1000});
    assert_ok(tl_controller_train(y->c, 10, false));
    assert_false(saved);
    assert_files("run/ckpt-*", "run/ckpt-10.safetensors run/ckpt-5.safetensors");
    const char *log = tl_str_text(&toy_log);
    assert_true(strstr(log, "train | step:     10 | steps/sec")
                < strstr(log, "saved checkpoint to run/ckpt-10"));
    // What belonged to the controller ends with it.
    tl_controller_free(&y->c);
    tl_state_entry e;
    assert_false(tl_state_find(&e, tl_trainer_checkpoint(y->t), "controller"));
    toy_close(y);
    tl_hook_free(&h);
}

static void a_hook_may_ask_to_stop(void **state)
{
    toy *y = *state;
    tl_hook *h;
    assert_ok(tl_hook_from_callbacks(&h, &(tl_callbacks){.after_step = stops_at_three}, NULL));
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){.steps_per_loop = 10, .interval = 100});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_int_equal(y->t->global_step, 3);
    assert_files("run/ckpt-*", "run/ckpt-3.safetensors");
    assert_string_equal(tl_controller_stop_reason(y->c), "three is enough");
    toy_close(y);
    tl_hook_free(&h);
}

/* --- signals ---------------------------------------------------------------------------------- */

static tl_status sends_sigterm(tl_controller *c, void *self)
{
    if (tl_controller_step(c) == *(int64_t *)self) raise(SIGTERM);
    return TL_OK;
}

static void a_signal_saves_and_stops(void **state)
{
    toy *y = *state;
    tl_hook *h;
    int64_t at = 3;
    assert_ok(tl_hook_from_callbacks(&h, &(tl_callbacks){.after_step = sends_sigterm, .self = &at},
                                     NULL));
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 100}));
    control(y, (tl_controller_args){.trainer = y->t,
                                    .steps_per_loop = 10,
                                    .hooks = &h,
                                    .hook_count = 1,
                                    .checkpoint_manager = y->manager,
                                    .heed_signals = true});
    assert_fails(tl_controller_train(y->c, 20, true), TL_ESTOPPED,
                 "SIGTERM ended the training at step 3");
    assert_files("run/ckpt-*", "run/ckpt-3.safetensors");
    assert_int_equal(toy_count("| steps/sec"), 0); // the loop is not over
    // The same again goes on, and finishes the loop where it would have ended.
    assert_ok(tl_controller_train(y->c, 20, true));
    assert_int_equal(toy_count("train | step:     10 | steps/sec"), 1);
    assert_int_equal(y->t->global_step, 20);
    toy_close(y);
    tl_hook_free(&h);
}

/* --- resuming --------------------------------------------------------------------------------- */

/* An evaluation that was cut off is made up for; summaries say each step once. */
static void what_was_cut_off_is_made_up_for(void **state)
{
    toy *y = *state;
    toy_open(y, NULL, NULL);
    toy_control(y, NULL, 0, (toy_options){.steps_per_loop = 5, .interval = 5});
    assert_ok(tl_controller_train(y->c, 10, true)); // without the evaluations of 5 and 10
    toy_close(y);
    plan.evaluated = 0;
    toy_open(y, NULL, NULL);
    toy_control(y, NULL, 0, (toy_options){.steps_per_loop = 5, .interval = 5});
    assert_int_equal(y->t->global_step, 10);
    assert_ok(tl_controller_train_and_evaluate(y->c, 15, 1, 5, NULL));
    assert_int_equal(plan.evaluated, 2); // 10 and 15
}

static void loops_begin_where_they_were(void **state)
{
    toy *y = *state;
    toy_open(y, NULL, NULL);
    control(y, (tl_controller_args){.trainer = y->t, .steps_per_loop = 10});
    y->t->global_step = 7;
    assert_ok(tl_controller_train(y->c, 30, true));
    assert_int_equal(toy_count("train | step:     10 | steps/sec"), 1);
    assert_int_equal(toy_count("train | step:     20 | steps/sec"), 1);
    assert_int_equal(toy_count("train | step:     30 | steps/sec"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(actions_are_called_after_loops_and_evaluations),
        TOY_TEST(hooks_have_periods),
        TOY_TEST(a_manager_without_an_interval_never_saves),
        TOY_TEST(checkpoints_lie_at_multiples),
        TOY_TEST(a_checkpoint_may_lie_within_a_loop),
        TOY_TEST(evaluations_shorten_loops),
        TOY_TEST(folders_are_made_for_what_is_done),
        TOY_TEST(nothing_is_trained_when_the_step_is_reached),
        TOY_TEST(loops_may_have_lengths_of_their_own),
        TOY_TEST(an_evaluator_may_tell_nothing),
        TOY_TEST(continuous_evaluation_ends_when_it_is_told_to),
        TOY_TEST(bad_arguments_are_refused),
        TOY_TEST(a_hook_that_fails_ends_the_training),
        TOY_TEST(a_failure_that_is_handled_is_over),
        TOY_TEST(a_checkpoint_of_a_loops_end_waits_for_it),
        TOY_TEST(a_hook_may_ask_to_stop),
        TOY_TEST(a_signal_saves_and_stops),
        TOY_TEST(what_was_cut_off_is_made_up_for),
        TOY_TEST(loops_begin_where_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
