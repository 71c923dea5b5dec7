/* Checkpoints that lead nowhere, checkpoints by time, what is written when, and signals that are
 * answered. runs: fake device */
#include "train/toy.h"

#include <signal.h>

#include <tilth/base/clock.h>

#include "io/inner/checkpoint_manager.h"

/* --- blowing up ------------------------------------------------------------------------------- */

static tl_status train(toy *y, int64_t steps, bool background)
{
    toy_open(y, NULL, NULL);
    toy_control(y, NULL, 0,
                (toy_options){.steps_per_loop = 2, .interval = 2, .background = background});
    tl_status st = tl_controller_train(y->c, steps, true);
    tl_error kept;
    tl_error_save(&kept);
    toy_close(y);
    tl_error_restore(&kept);
    return st;
}

static void blow_up_at(int64_t step)
{
    plan.blows_up_at = step;
    plan.blows_up = 1;
}

/* The first step after it depends on nothing but it: nobody can go on from there. */
static void what_leads_nowhere_is_given_up(void **state)
{
    toy *y = *state;
    for (int background = 0; background < 2; background++) {
        blow_up_at(5);
        assert_fails(train(y, 8, background), TL_ENAN,
                     "step 5: numbers are not finite. 'run/ckpt-4.safetensors' led straight to it, "
                     "and is kept as 'run/ckpt-4.safetensors.poisoned'. Lower the learning rate "
                     "and resume: the run goes on from 'run/ckpt-2.safetensors'");
        assert_files("run/ckpt-*", "run/ckpt-2.safetensors run/ckpt-4.safetensors.poisoned");
        assert_ok(train(y, 8, background));
        assert_files("run/ckpt-*.safetensors", "run/ckpt-2.safetensors run/ckpt-4.safetensors "
                                               "run/ckpt-6.safetensors run/ckpt-8.safetensors");
        assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}

static void the_first_one_may_be_it(void **state)
{
    toy *y = *state;
    blow_up_at(3);
    assert_fails(train(y, 8, true), TL_ENAN,
                 "Lower the learning rate and start again: there is no checkpoint from before");
    assert_files("run/*", "run/ckpt-2.safetensors.poisoned");
    assert_ok(train(y, 4, true));
    assert_files("run/ckpt-*.safetensors", "run/ckpt-2.safetensors run/ckpt-4.safetensors");
}

/* What did well for a step, or was there before, stays: it may be the settings that are wrong. */
static void others_stay(void **state)
{
    toy *y = *state;
    blow_up_at(4);
    assert_fails(train(y, 8, true), TL_ENAN, "the run goes on from 'run/ckpt-2.safetensors'");
    assert_files("run/ckpt-*", "run/ckpt-2.safetensors");
    blow_up_at(3); // the first step of a run that was resumed
    assert_fails(train(y, 8, true), TL_ENAN, "the run goes on from 'run/ckpt-2.safetensors'");
    assert_files("run/ckpt-*", "run/ckpt-2.safetensors");
    assert_ok(train(y, 8, true));
}

/* --- by time ---------------------------------------------------------------------------------- */

static double now;
static double a_minute_later(void)
{
    return now += 60;
}

static tl_status end_at_seven(tl_controller *c, void *self)
{
    (void)self;
    return tl_controller_step(c) == 7 ? TL_FAIL(TL_EINTERNAL, "the machine is gone") : TL_OK;
}

#define RATES                                                                                      \
    "optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"                                               \
    "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"

static tl_status train_by_time(toy *y, double minutes, tl_hook *const *hook)
{
    toy_open(y, RATES, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 10,
                                                   .minutes = minutes,
                                                   .max_to_keep = {true, 1},
                                                   .background = true}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 10,
                                                             .checkpoint_manager = y->manager,
                                                             .hooks = hook,
                                                             .hook_count = hook ? 1 : 0,
                                                             .summary_dir = "run/train",
                                                             .quiet = true}));
    tl_status st = tl_controller_train(y->c, 12, true);
    toy_close(y);
    return st;
}

static void a_run_goes_on_from_one_by_time(void **state)
{
    toy *y = *state;
    tl_hook *h;
    char *whole, *cut;
    size_t size, other;
    assert_ok(train_by_time(y, 0, NULL));
    assert_files("run/ckpt-*", "run/ckpt-12.safetensors");
    assert_ok(tl_file_read(&whole, &size, "run/ckpt-12.safetensors", 1 << 20));
    assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    tli_checkpoint_clock = a_minute_later;
    assert_ok(tl_hook_from_callbacks(&h, &(tl_callbacks){.before_step = end_at_seven}, NULL));
    assert_int_equal(train_by_time(y, 1, &h), TL_EINTERNAL);
    tl_hook_free(&h);
    tl_path_list found;
    tl_arena *arena;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&found, arena, "run/ckpt-*"));
    assert_int_equal(found.count, 1); // the newest
    assert_non_null(strstr(found.items[0], "run/ckpt-timed-"));
    tl_str_cut(&toy_log, 0);
    assert_ok(train_by_time(y, 1, NULL));
    assert_int_equal(toy_count("restored model from run/ckpt-timed-"), 1);
    tli_checkpoint_clock = tl_clock_wall;
    assert_files("run/ckpt-*", "run/ckpt-12.safetensors");
    assert_ok(tl_file_read(&cut, &other, "run/ckpt-12.safetensors", 1 << 20));
    assert_int_equal(size, other);
    assert_memory_equal(whole, cut, size);
    tl_free(whole);
    tl_free(cut);
    tl_arena_free(&arena);
}

/* --- when things are written ------------------------------------------------------------------ */

static void nothing_is_written_before_it_trains(void **state)
{
    toy *y = *state;
    plan.loss[2] = plan.loss[4] = 1;
    assert_ok(train_by_time(y, 0, NULL));
    assert_told("run/train", "training_loss", "training_loss@10=0 training_loss@12=0 ");
    // Going back to step 0 would take them out; a controller alone does not.
    assert_int_equal(remove("run/ckpt-12.safetensors"), 0);
    assert_int_equal(remove("run/checkpoint"), 0);
    toy_open(y, RATES, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 10}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 10,
                                                             .quiet = true,
                                                             .checkpoint_manager = y->manager,
                                                             .summary_dir = "run/train"}));
    assert_told("run/train", "training_loss", "training_loss@10=0 training_loss@12=0 ");
    assert_ok(tl_controller_train(y->c, 5, false));
    assert_told("run/train", "training_loss", "training_loss@5=0 ");
}

/* --- signals ---------------------------------------------------------------------------------- */

static int wanted;
static tl_status raise_at_three(tl_controller *c, void *self)
{
    (void)self;
    if (tl_controller_step(c) == 3) raise(wanted);
    return TL_OK;
}

static tl_status train_with_signal(toy *y, int number)
{
    tl_hook *h;
    wanted = number;
    assert_ok(tl_hook_from_callbacks(&h, &(tl_callbacks){.after_step = raise_at_three}, NULL));
    toy_open(y, NULL, NULL);
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 100}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .steps_per_loop = 10,
                                                             .checkpoint_manager = y->manager,
                                                             .hooks = &h,
                                                             .hook_count = 1,
                                                             .heed_signals = true,
                                                             .quiet = true}));
    tl_status st = tl_controller_train(y->c, 20, true);
    tl_error kept;
    tl_error_save(&kept);
    toy_close(y);
    tl_hook_free(&h);
    tl_error_restore(&kept);
    return st;
}

static void a_terminal_that_is_gone_saves(void **state)
{
    toy *y = *state;
    assert_fails(train_with_signal(y, SIGHUP), TL_ESTOPPED,
                 "SIGHUP ended the training at step 3, which is saved");
    assert_files("run/ckpt-*", "run/ckpt-3.safetensors");
    assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    signal(SIGHUP, SIG_IGN); // as nohup does
    assert_ok(train_with_signal(y, SIGHUP));
    assert_files("run/ckpt-*", "run/ckpt-20.safetensors");
    signal(SIGHUP, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(what_leads_nowhere_is_given_up),
        TOY_TEST(the_first_one_may_be_it),
        TOY_TEST(others_stay),
        TOY_TEST(a_run_goes_on_from_one_by_time),
        TOY_TEST(nothing_is_written_before_it_trains),
        TOY_TEST(a_terminal_that_is_gone_saves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
