/* Hooks that are called while the device still computes the steps: what they count, show and time
 * is what they would on the host. */
#include "test.h"

#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/train/hooks/hooks.h>
#include <tilth/train/libai/default_trainer.h>

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

static void fail_and_count(const char *override, int64_t period)
{
    watched o[2] = {0};
    for (int d = 0; d < 2; d++) {
        o[d].hooks[0] = new_timer(period);
        open_on(&o[d], d, override, 40);
    }
    for (int i = 0; i < 2; i++) { // the second time it is the first step
        for (int d = 0; d < 2; d++)
            assert_int_equal(tl_controller_train(o[d].c, 40, false), TL_ENAN);
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
    spoiled = true;
    batch_size = 4;
    for (size_t i = 0; i < TL_COUNT(ways); i++)
        for (int64_t period = 1; period <= 2; period++) {
            hopeless = false;
            fail_and_count(ways[i], period);
            hopeless = true;
            fail_and_count(ways[i], period);
        }
}

#define TEST(f) cmocka_unit_test_setup(f, setup_two)

int main(void)
{
    unsetenv("TILTH_DEVICE_SYNC"); // who waits after each call is not asked here
    const struct CMUnitTest tests[] = {
        TEST(counts_are_taken_back_with_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
