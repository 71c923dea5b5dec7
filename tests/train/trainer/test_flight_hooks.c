/* Hooks that are called while the device still computes the steps: what they count, show and time
 * is what they would on the host. takes: long */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tilth/base/alloc.h>
#include <tilth/train/hooks/hooks.h>
#include <tilth/train/libai/default_trainer.h>
#include <tilth/train/writers/progress.h>

#include "train/controller/controller.h"
#include "train/trainer/trainer.h"
#include "train/two.h"

#define NOT_CLIPPED "trainer.optimizer_config.optimizer.adamw.gradient_clip_norm=0"

enum { HOOKS = 4 };
static const char *const devices[] = {"cpu", "fake"};

typedef struct watched {
    two w;
    tl_hook *hooks[HOOKS];
    tl_controller *c;
} watched;

static void open_on(watched *o, int device, const char *override, int64_t steps_per_loop)
{
    int64_t count = 0;
    assert_int_equal(setenv("TILTH_DEVICE", devices[device], 1), 0);
    open_two(&o->w, override, &tl_graph_trainer);
    while (count < HOOKS && o->hooks[count]) count++;
    assert_ok(tl_controller_new(&o->c, &(tl_controller_args){.trainer = o->w.t,
                                                             .steps_per_loop = steps_per_loop,
                                                             .hooks = o->hooks,
                                                             .hook_count = count,
                                                             .quiet = true}));
}

static void close_it(watched *o)
{
    tl_controller_free(&o->c);
    for (int i = 0; i < HOOKS; i++) tl_hook_free(&o->hooks[i]);
    close_two(&o->w);
}

static tl_hook *new_timer(int64_t period)
{
    tl_hook *h;
    assert_ok(tl_hook_new(
        &h, &tl_iteration_timer_hook,
        &(tl_hook_args){.period = period, .config = &(tl_iteration_timer_config){.warmup = -1}}));
    return h;
}

static const tl_iteration_timer_counts *counts_of(const watched *o)
{
    return &((const tl_iteration_timer_instance *)o->hooks[0])->now;
}

/* --- steps that are taken back ---------------------------------------------------------------- */

static double sum_of_times(const watched *o, int64_t *count)
{
    const tl_history *times;
    double sum = 0;
    assert_ok(tl_event_storage_history(&times, tl_controller_storage(o->c), "time"));
    *count = times ? tl_history_count(times) : 0;
    for (int64_t i = 0; i < *count; i++) sum += tl_history_value(times, i);
    return sum;
}

/* `first`: the storage has the times of this training alone. */
static void assert_same_counts(const watched o[2], bool first)
{
    const tl_event_storage *s[2];
    int64_t timed[2];
    for (int d = 0; d < 2; d++) {
        double sum = sum_of_times(&o[d], &timed[d]);
        const tl_iteration_timer_counts *counts = counts_of(&o[d]);
        if (first) assert_int_equal(timed[d], counts->timed);
        if (first)
            assert_near(sum, (double)counts->in_steps_ns * 1e-9, 1e-9 * (double)(timed[d] + 1));
        s[d] = tl_controller_storage(o[d].c);
    }
    assert_int_equal(timed[1], timed[0]);
    assert_int_equal(o[1].w.t->global_step, o[0].w.t->global_step);
    assert_int_equal(counts_of(&o[1])->done, counts_of(&o[0])->done);
    assert_int_equal(counts_of(&o[1])->timed, counts_of(&o[0])->timed);
    assert_int_equal(tl_event_storage_iteration(s[1]), tl_event_storage_iteration(s[0]));
    assert_int_equal(tl_event_storage_samples(s[1]), tl_event_storage_samples(s[0]));
}

static void fail_and_count(const char *override, int64_t period, tl_status wanted)
{
    watched o[2] = {0};
    for (int d = 0; d < 2; d++) {
        o[d].hooks[0] = new_timer(period);
        open_on(&o[d], d, override, 40);
    }
    for (int i = 0; i < 2; i++) { // the second time it may be the first step
        for (int d = 0; d < 2; d++)
            assert_int_equal(tl_controller_train(o[d].c, 40, false), wanted);
        assert_true(hopeless || o[0].w.t->global_step > 0);
        assert_same_counts(o, i == 0);
    }
    for (int d = 0; d < 2; d++) close_it(&o[d]);
}

static void counts_are_taken_back_with_steps(void **state)
{
    (void)state;
    static const char *const ways[] = {
        NOT_CLIPPED ",task.train_data.global_batch_size=4",
        NOT_CLIPPED ",task.train_data.global_batch_size=4,tilth.gradient_accumulation=3",
    };
    batch_size = 4;
    for (int64_t period = 1; period <= 2; period++) {
        for (size_t i = 0; i < TL_COUNT(ways); i++) {
            spoiled = true;
            fail_and_count(ways[i], period, TL_ENAN);
            hopeless = true; // the first one
            fail_and_count(ways[i], period, TL_ENAN);
            spoiled = hopeless = false;
        }
        mislabelled = true; // a kernel fails
        fail_and_count(ways[0], period, TL_EINVAL);
        mislabelled = false;
    }
}

/* --- the bar ---------------------------------------------------------------------------------- */

static int64_t waits_before, waits_of_bar, most_over;

static tl_status before_bar(tl_hook *h)
{
    const tl_trainer *t = tl_controller_trainer(h->controller);
    nanosleep(&(struct timespec){.tv_nsec = 110 * 1000 * 1000}, NULL); // bars keep their distance
    waits_before = fake_waits();
    // Nothing has run before somebody waits, which is when too many steps are under way.
    if (t->parts->flight.flies && t->global_step < TLI_MOST_IN_FLIGHT
        && tli_flight_over(t) > most_over)
        most_over = tli_flight_over(t);
    return TL_OK;
}

static tl_status after_bar(tl_hook *h)
{
    (void)h;
    waits_of_bar += fake_waits() - waits_before;
    return TL_OK;
}

static const tl_hook_class before_bar_class = {
    .cls = TL_CLASS(tl_hook_class, "before_bar", NULL, tl_hook, NULL),
    .after_step = before_bar,
    .in_flight = true,
};
static const tl_hook_class after_bar_class = {
    .cls = TL_CLASS(tl_hook_class, "after_bar", NULL, tl_hook, NULL),
    .after_step = after_bar,
    .in_flight = true,
};

/* The losses that the bar has shown. */
static int losses_in(FILE *f, double *out, int most)
{
    static char text[1 << 16];
    int count = 0;
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    for (const char *at = text; (at = strstr(at, "  loss ")) && count < most; at++)
        out[count++] = strtod(at + strlen("  loss "), NULL);
    return count;
}

static void the_bar_shows_what_is_known(void **state)
{
    (void)state;
    enum { STEPS = 8 };
    double shown[2][STEPS];
    int count[2];
    waits_of_bar = most_over = 0;
    for (int d = 0; d < 2; d++) {
        watched o = {0};
        FILE *f = tmpfile();
        assert_non_null(f);
        assert_ok(tl_hook_new(&o.hooks[0], &before_bar_class, NULL));
        assert_ok(tl_progress_hook_new(&o.hooks[1],
                                       &(tl_progress_args){.to = f, .width = 120, .plain = true}));
        assert_ok(tl_hook_new(&o.hooks[2], &after_bar_class, NULL));
        open_on(&o, d, NOT_CLIPPED, STEPS);
        assert_ok(tl_controller_train(o.c, STEPS, false));
        count[d] = losses_in(f, shown[d], STEPS);
        close_it(&o);
        fclose(f);
    }
    assert_int_equal(waits_of_bar, 0);
    assert_int_equal(most_over, 0);
    assert_int_equal(count[0], STEPS);
    assert_true(count[1] >= 2); // those of the first steps had come by then
    for (int i = 0; i < count[1]; i++) {
        bool found = false;
        for (int k = 0; k < STEPS; k++) found |= shown[0][k] == shown[1][i];
        if (!found) fail_msg("the loss %.4f is that of no step", shown[1][i]);
    }
}

/* --- times ------------------------------------------------------------------------------------ */

enum { INTERVAL = 4, DELAY_NS = 2000000 };
static int under_way_at[3 * INTERVAL + 1];
static int64_t ran_before[3 * INTERVAL + 1], ran_at[3 * INTERVAL + 1]; /* by step */

static tl_status note_begin(tl_hook *h)
{
    ran_before[tl_controller_step(h->controller) + 1] = fake_ran();
    return TL_OK;
}

static tl_status note_end(tl_hook *h)
{
    const tl_trainer *t = tl_controller_trainer(h->controller);
    under_way_at[t->global_step] = t->parts->flight.count;
    return TL_OK;
}
static const tl_hook_class note_class = {
    .cls = TL_CLASS(tl_hook_class, "note", NULL, tl_hook, NULL),
    .before_step = note_begin,
    .after_step = note_end,
    .in_flight = true,
};

static tl_status note_ran(tl_hook *h)
{
    ran_at[tl_controller_step(h->controller)] = fake_ran();
    return TL_OK;
}
static const tl_hook_class looker_class = {
    .cls = TL_CLASS(tl_hook_class, "looker", NULL, tl_hook, NULL),
    .after_step = note_ran,
};

/* Where somebody looks, the time of the last step has the wait for all of them; no other waits. */
static void times_have_the_work_of_their_interval(void **state)
{
    (void)state;
    watched o = {0};
    double times[3 * INTERVAL];
    const tl_history *history;
    o.hooks[0] = new_timer(1);
    assert_ok(tl_hook_new(&o.hooks[1], &note_class, NULL));
    assert_ok(tl_hook_new(&o.hooks[2], &looker_class, &(tl_hook_args){.period = INTERVAL}));
    open_on(&o, 1, NOT_CLIPPED, INTERVAL);
    fake_set_delay(DELAY_NS);
    for (int loop = 1; loop <= 3; loop++) {
        int64_t ran = fake_ran();
        assert_ok(tl_controller_train(o.c, loop * INTERVAL, false));
        double work = (double)(fake_ran() - ran) * DELAY_NS * 1e-9;
        assert_true(work > 0 && (double)INTERVAL / o.c->steps_per_second >= 0.9 * work);
    }
    fake_set_delay(0);
    assert_ok(tl_event_storage_history(&history, tl_controller_storage(o.c), "time"));
    assert_int_equal(tl_history_count(history), 3 * INTERVAL);
    for (int i = 0; i < 3 * INTERVAL; i++) times[i] = tl_history_value(history, i);
    for (int step = INTERVAL + 1; step <= 3 * INTERVAL; step++)
        assert_true((under_way_at[step] == 0) == (step % INTERVAL == 0));
    for (int i = 1; i < 3; i++) {
        double told = 0;
        double work = (double)(ran_at[(i + 1) * INTERVAL] - ran_before[i * INTERVAL + 1]);
        for (int k = 0; k < INTERVAL; k++) told += times[i * INTERVAL + k];
        assert_true(work > INTERVAL && told >= 0.9 * work * DELAY_NS * 1e-9);
    }
    close_it(&o);
}

#define TEST(f) cmocka_unit_test_setup(f, setup_two)

int main(void)
{
    unsetenv("TILTH_DEVICE_SYNC"); // who waits after each call is not asked here
    const struct CMUnitTest tests[] = {
        TEST(counts_are_taken_back_with_steps),
        TEST(the_bar_shows_what_is_known),
        TEST(times_have_the_work_of_their_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
