/* Steps that the device still computes while the host goes on: nobody waits for them, and whatever
 * happens is what happens on the host, which is over with each step before the next. */
#include "test.h"

#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/train/run/run.h>

#include "train/trainer/trainer.h"
#include "train/two.h"

static const char *const devices[] = {"cpu", "fake"};

static void open_on(two *w, int device, const char *override)
{
    assert_int_equal(setenv("TILTH_DEVICE", devices[device], 1), 0);
    open_two(w, override, NULL);
}

/* `but` is what paths may begin with that differ. */
static void assert_same_but(tl_trainer *a, tl_trainer *b, const char *but)
{
    tl_state_report report = {0};
    assert_ok(tl_state_compare(&report, tl_trainer_checkpoint(a), tl_trainer_checkpoint(b),
                               &(tl_state_compare_args){.values = true}));
    for (int64_t i = 0; i < report.count; i++)
        if (!but || strncmp(report.items[i].path, but, strlen(but)) != 0)
            fail_msg("'%s' differs", report.items[i].path);
    tl_state_report_deinit(&report);
}

static void assert_same_state(two w[2])
{
    assert_same_but(w[0].t, w[1].t, NULL);
}

// Nothing is clipped: norms are rounded otherwise where parameters lie further apart.
#define NOT_CLIPPED "trainer.optimizer_config.optimizer.adamw.gradient_clip_norm=0"
static const char *const ways[] = {
    NOT_CLIPPED,
    NOT_CLIPPED ",runtime.run_eagerly=true",
    NOT_CLIPPED ",tilth.gradient_accumulation=3",
    NOT_CLIPPED ",runtime.mixed_precision_dtype=float16,runtime.loss_scale=64",
    NOT_CLIPPED ",trainer.optimizer_config.ema.average_decay=0.9",
};

/* --- nobody waits ----------------------------------------------------------------------------- */

static int64_t least_pending;

static bool look(void *self, tl_trainer *t, tl_status *status)
{
    (void)self;
    (void)status;
    if (t->global_step > 1 && fake_pending() < least_pending) least_pending = fake_pending();
    return true;
}

static void nobody_waits_for_a_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < TL_COUNT(ways); i++) {
        two w;
        tl_trainer_watch watch = {.step = look};
        open_on(&w, 1, ways[i]);
        tl_trainer_set_watch(w.t, &watch);
        least_pending = INT64_MAX;
        assert_ok(tl_trainer_train(w.t, 12, w.logs));
        if (least_pending < 2) fail_msg("with '%s' a step was waited for", ways[i]);
        assert_int_equal(w.t->parts->flight.count, 0); // when it comes back, all are over
        tl_trainer_set_watch(w.t, NULL);
        close_two(&w);
    }
}

static void a_run_is_as_one_that_waits(void **state)
{
    (void)state;
    for (size_t i = 0; i < TL_COUNT(ways); i++) {
        two w[2];
        for (int d = 0; d < 2; d++) {
            open_on(&w[d], d, ways[i]);
            assert_ok(tl_trainer_train(w[d].t, 7, w[d].logs));
            assert_ok(tl_trainer_evaluate(w[d].t, -1, w[d].logs));
            assert_ok(tl_trainer_train(w[d].t, 4, w[d].logs));
            assert_int_equal(w[d].t->global_step, 11);
        }
        assert_same_state(w);
        for (int d = 0; d < 2; d++) close_two(&w[d]);
    }
}

/* --- a step goes wrong while others are behind it --------------------------------------------- */

/* Runs a loop on both devices that must fail alike, and leaves both as it left them. */
static void fail_alike(two w[2], const char *override, tl_status wanted)
{
    char said[2][4096];
    for (int d = 0; d < 2; d++) {
        open_on(&w[d], d, override);
        assert_int_equal(tl_trainer_train(w[d].t, 40, w[d].logs), wanted);
        snprintf(said[d], sizeof said[d], "%s", tl_error_message());
        tl_error_clear();
    }
    assert_string_equal(said[1], said[0]);
    assert_int_equal(w[1].t->global_step, w[0].t->global_step);
    // Of the batches of a step, the host takes no more than up to the one with a label that is
    // none.
    assert_same_but(w[0].t, w[1].t,
                    mislabelled && w[0].t->parts->accumulation > 1 ? "data/" : NULL);
}

static void close_both(two w[2])
{
    for (int d = 0; d < 2; d++) close_two(&w[d]);
}

static void numbers_that_are_not_finite_halt(void **state)
{
    (void)state;
    spoiled = true;
    for (size_t i = 0; i < TL_COUNT(ways); i++) {
        two w[2];
        batch_size = 4;
        fail_alike(w, ways[i], TL_ENAN);
        // The batch is the next one again, and fails again: what was halted is not halted any more.
        for (int d = 0; d < 2; d++) {
            int64_t step = w[d].t->global_step;
            assert_int_equal(tl_trainer_train(w[d].t, 1, w[d].logs), TL_ENAN);
            assert_int_equal(w[d].t->global_step, step);
        }
        assert_same_state(w);
        close_both(w);
    }
}

static void a_scale_that_falls_halts_nothing(void **state)
{
    (void)state;
    two w[2];
    spoiled = true;
    for (int d = 0; d < 2; d++) {
        open_on(&w[d], d, NOT_CLIPPED ",runtime.mixed_precision_dtype=float16");
        assert_ok(tl_trainer_train(w[d].t, 9, w[d].logs));
    }
    assert_same_state(w);
    close_both(w);
    hopeless = true; // until it is 1
    fail_alike(w, NOT_CLIPPED ",runtime.mixed_precision_dtype=float16", TL_ENAN);
    assert_int_equal(w[1].t->global_step, 15);
    close_both(w);
}

static void a_label_that_is_none_is_told(void **state)
{
    (void)state;
    mislabelled = true;
    for (size_t i = 0; i < TL_COUNT(ways); i++) {
        two w[2];
        batch_size = 4;
        fail_alike(w, ways[i], TL_EINVAL);
        // Who goes on, goes on behind that batch.
        for (int d = 0; d < 2 && w[0].t->parts->accumulation == 1; d++)
            assert_ok(tl_trainer_train(w[d].t, 3, w[d].logs));
        if (w[0].t->parts->accumulation == 1) assert_same_state(w);
        close_both(w);
    }
}

/* The host finds that there are no more data while the device computes the step that is not
 * finite. */
static void what_went_wrong_first_is_told(void **state)
{
    (void)state;
    two w[2];
    spoiled = hopeless = true;
    for (data_ends = 1; data_ends < 4; data_ends++) {
        fail_alike(w, NOT_CLIPPED, TL_ENAN);
        assert_int_equal(w[1].t->global_step, 0);
        close_both(w);
    }
}

static void data_that_end_are_told(void **state)
{
    (void)state;
    two w[2];
    data_ends = 5;
    fail_alike(w, NOT_CLIPPED, TL_EINVAL);
    assert_int_equal(w[1].t->global_step, 5);
    close_both(w);
}

/* A batch that did not arrive is told, and no step counts that was computed with what lay there. */
static void a_copy_that_fails_is_told(void **state)
{
    (void)state;
    two w;
    open_on(&w, 1, NOT_CLIPPED);
    assert_ok(tl_trainer_train(w.t, 2, w.logs));
    fake_fail_at(1); // the next piece of work is the copy of a batch
    assert_int_equal(tl_trainer_train(w.t, 6, w.logs), TL_EIO);
    assert_int_equal(w.t->parts->flight.count, 0);
    close_two(&w);
}

/* Classes that do more in a step than the base are not called while steps are under way. */
static int64_t seen_steps;

static tl_status counting_step(tl_trainer *t)
{
    TL_TRY(tl_base_trainer.train_step(t));
    seen_steps++;
    return TL_OK;
}
static const tl_trainer_class counting = {
    .cls = TL_CLASS(tl_trainer_class, "counting", &tl_base_trainer.cls, tl_trainer, NULL),
    .train_step = counting_step,
};

static void steps_of_ones_own_are_waited_for(void **state)
{
    (void)state;
    spoiled = true;
    for (int d = 0; d < 2; d++) {
        two w;
        assert_int_equal(setenv("TILTH_DEVICE", devices[d], 1), 0);
        open_two(&w, NOT_CLIPPED, &counting);
        seen_steps = 0;
        assert_int_equal(tl_trainer_train(w.t, 40, w.logs), TL_ENAN);
        assert_int_equal(seen_steps, w.t->global_step);
        close_two(&w);
    }
}

/* --- a whole run ------------------------------------------------------------------------------ */

static void a_run_that_recovers_is_the_same(void **state)
{
    (void)state;
    two w[2];
    tl_run_result result[2];
    spoiled = true;
    for (int d = 0; d < 2; d++) {
        char folder[TEMPORARY_PATH];
        assert_non_null(mkdtemp(temporary(folder, "tilth-test-flight")));
        open_on(&w[d], d,
                "trainer: {optimizer_config: {optimizer: {adamw: {gradient_clip_norm: 0}}}, "
                "train_steps: 24, steps_per_loop: 8, summary_interval: 8, "
                "checkpoint_interval: 3, recovery_max_trials: 9}");
        assert_ok(
            tl_run_experiment(&result[d], &(tl_run_args){.strategy = w[d].strategy,
                                                         .task = w[d].task,
                                                         .mode = "train_and_eval",
                                                         .params = tl_config_value(w[d].config),
                                                         .model_dir = folder,
                                                         .seed = 11,
                                                         .quiet = true}));
        assert_int_equal(remove_tree(folder), 0);
    }
    assert_int_equal(result[1].trainer->global_step, result[0].trainer->global_step);
    assert_same_but(result[0].trainer, result[1].trainer, NULL);
    for (int d = 0; d < 2; d++) {
        tl_run_result_deinit(&result[d]);
        close_two(&w[d]);
    }
}

#define TEST(f) cmocka_unit_test_setup(f, setup_two)

int main(void)
{
    unsetenv("TILTH_DEVICE_SYNC"); // who waits after each call is not asked here
    const struct CMUnitTest tests[] = {
        TEST(nobody_waits_for_a_step),          TEST(a_run_is_as_one_that_waits),
        TEST(numbers_that_are_not_finite_halt), TEST(a_scale_that_falls_halts_nothing),
        TEST(a_label_that_is_none_is_told),     TEST(what_went_wrong_first_is_told),
        TEST(data_that_end_are_told),           TEST(a_copy_that_fails_is_told),
        TEST(steps_of_ones_own_are_waited_for), TEST(a_run_that_recovers_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
