/* A trainer for the tasks of a test's own module, with what it needs. */
#ifndef TILTH_TESTS_TRAIN_LAB_H
#define TILTH_TESTS_TRAIN_LAB_H

#include "test.h"

#include <tilth/builtin/builtin.h>
#include <tilth/train/run/run.h>

#include "engine.h"

typedef struct lab {
    tl_registry *registry;
    tl_config *config;
    const tl_experiment_config *params;
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *t;
    tl_logs *logs;
} lab;

static inline tl_status open_task_of(lab *w, const tl_module *module, const char *experiment,
                                     const char *override, uint64_t seed)
{
    tl_parse_options o = {
        .experiment = experiment, .params_override = override, .strict_override = true};
    *w = (lab){0};
    assert_ok(tl_registry_new_builtin(&w->registry));
    assert_ok(tl_registry_add(w->registry, module));
    assert_ok(tl_registry_add(w->registry, &fake_module));
    TL_TRY(tl_experiment_parse(&w->config, w->registry, &o));
    w->params = tl_config_value(w->config);
    assert_ok(tl_get_distribution_strategy(
        &w->strategy, &(tl_strategy_args){.registry = w->registry, .threads = 2}));
    assert_ok(tl_logs_new(&w->logs));
    return tl_get_task(&w->task, &(tl_task_args){.registry = w->registry,
                                                 .config = &w->params->task,
                                                 .seed = seed,
                                                 .engine = tl_strategy_engine(w->strategy)});
}

static inline void close_lab(lab *w)
{
    tl_logs_free(&w->logs);
    tl_trainer_free(&w->t);
    tl_task_free(&w->task);
    tl_strategy_free(&w->strategy);
    tl_config_free(&w->config);
    tl_registry_free(&w->registry);
}

static inline double told(const lab *w, const char *path)
{
    double value;
    assert_ok(tl_logs_number(&value, w->logs, path));
    return value;
}

static inline void remove_folder(const char *folder)
{
    assert_int_equal(remove_tree(folder), 0);
}

#endif
