/* Settings that follow from others, or cannot go together: schedules as long as the training,
 * evaluations of nothing. */
#include "test.h"
#include "engine.h"

#include <tilth/base/log.h>
#include <tilth/builtin/builtin.h>
#include <tilth/nn/schedule.h>
#include <tilth/train/experiment.h>

#include "train/controller/schedule_end.h"

static tl_registry *registry;

static int open_registry(void **state)
{
    (void)state;
    tl_log_sink_remove(TL_LOG_STDERR);
    return tl_registry_new_builtin(&registry) == TL_OK ? 0 : -1;
}

static int close_registry(void **state)
{
    (void)state;
    tl_registry_free(&registry);
    return 0;
}

static tl_status parse_mock(tl_config **out, const char *override)
{
    return tl_experiment_parse(out, registry,
                               &(tl_parse_options){.experiment = "mock",
                                                   .params_override = override,
                                                   .strict_override = true});
}

#define RATE                                                                                       \
    "trainer: {train_steps: 700, optimizer_config: {optimizer: {type: sgd}, learning_rate: "

static int64_t length_of(const char *override)
{
    tl_config *c;
    tl_schedule_length length;
    bool ends;
    assert_ok(parse_mock(&c, override));
    const tl_experiment_config *e = tl_config_value(c);
    assert_ok(tl_schedule_length_of(
        &ends, &length, &((const tl_trainer_config *)e->trainer.value)->optimizer_config,
        registry));
    tl_config_free(&c);
    return ends ? length.steps.value : -1;
}

static void test_schedules_get_the_length_of_the_training(void **state)
{
    (void)state;
    static const struct {
        const char *rate;
        int64_t as_given, to_end;
    } cases[] = {
        {"{type: cosine, cosine: {initial_learning_rate: 1, decay_steps: 100}}", 100, 700},
        {"{type: cosine, cosine: {initial_learning_rate: 1, decay_steps: 9000, offset: 50}}", 9000,
         650},
        {"{type: polynomial, polynomial: {initial_learning_rate: 1, decay_steps: 100}}", 100, 700},
        {"{type: polynomial, polynomial: {initial_learning_rate: 1, decay_steps: 100, cycle: "
         "true}}",
         -1, -1},
        // null is filled in
        {"{type: power_linear, power_linear: {initial_learning_rate: 1}}", 0, 700},
        {"{type: stable_decay, stable_decay: {initial_learning_rate: 1, total_steps: 90, "
         "decay_steps: 9}}",
         90, 700},
        {"{type: exponential, exponential: {decay_steps: 100}}", -1, -1},
        {"{type: constant}", -1, -1},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        char text[512];
        snprintf(text, sizeof text, "{" RATE "%s}}}", cases[i].rate);
        assert_int_equal(length_of(text), cases[i].as_given);
        snprintf(text, sizeof text, "{tilth: {schedule_to_end: true}, " RATE "%s}}}",
                 cases[i].rate);
        assert_int_equal(length_of(text), cases[i].to_end);
    }
    tl_config *c;
    assert_fails(
        parse_mock(&c, "{tilth: {schedule_to_end: true}, " RATE
                       "{type: cosine, cosine: {decay_steps: 9, offset: 700}}}}}"),
        TL_EINVAL,
        "tilth.schedule_to_end: trainer.optimizer_config.learning_rate.cosine.offset is 700");
    assert_ok(parse_mock(&c, "{tilth: {schedule_to_end: true}, " RATE
                             "{type: cosine, cosine: {decay_steps: 9}}}}}"));
    assert_string_equal(
        tl_config_source(c, "trainer.optimizer_config.learning_rate.cosine.decay_steps"),
        "tilth.schedule_to_end");
    tl_config_free(&c);
}

static void test_evaluations_of_nothing_are_refused(void **state)
{
    (void)state;
    tl_config *c;
    assert_fails(parse_mock(&c, "trainer.validation_steps=0"), TL_EINVAL,
                 "trainer.validation_steps: must be at least 1, or -1 for all examples, found 0");
    assert_ok(parse_mock(&c, "trainer.validation_steps=-1"));
    tl_config_free(&c);
}

/* --- what is told at the start ---------------------------------------------------------------- */

static void keep(const tl_log_record *record, void *payload)
{
    tl_str_addf(payload, "%s\n", record->text);
}

static void assert_told(const char *override, const char *wanted)
{
    tl_str said = TL_STR_INIT;
    int64_t sink;
    tl_config *c;
    assert_ok(parse_mock(&c, override));
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_WARNING, keep, NULL, &said}));
    tl_engine *engine;
    assert_ok(test_engine_new(&engine, NULL, 1));
    tli_tell_schedule_end(tl_config_value(c), registry, engine);
    tl_engine_free(&engine);
    tl_log_sink_remove(sink);
    assert_string_equal(tl_str_text(&said), wanted);
    tl_str_deinit(&said);
    tl_config_free(&c);
}

static void test_a_schedule_that_ends_too_early_is_told(void **state)
{
    (void)state;
    assert_told(
        "{" RATE
        "{type: cosine, cosine: {initial_learning_rate: 1, decay_steps: 100, alpha: 0.5}}}}}",
        "the learning rate 'cosine' ends at step 100 (decay_steps), and training goes on to step "
        "700 with the rate 0.5: set trainer.optimizer_config.learning_rate.cosine.decay_steps=700, "
        "or tilth.schedule_to_end=true\n");
    assert_told("{" RATE "{type: cosine, cosine: {initial_learning_rate: 1, decay_steps: 700}}}}}",
                "");
    assert_told("{" RATE "{type: constant}}}}", "");
    assert_told("{tilth: {schedule_to_end: true}, " RATE
                "{type: cosine, cosine: {decay_steps: 100}}}}}",
                "");
    assert_told(
        "{tilth: {schedule_to_end: true}, " RATE "{type: exponential}}}}",
        "tilth.schedule_to_end changes nothing: the learning rate 'exponential' has no end\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules_get_the_length_of_the_training),
        cmocka_unit_test(test_evaluations_of_nothing_are_refused),
        cmocka_unit_test(test_a_schedule_that_ends_too_early_is_told),
    };
    return cmocka_run_group_tests(tests, open_registry, close_registry);
}
