/* What tests of the zoo have in common: all that ships, an engine, a folder of their own,
 * experiments from text. */
#ifndef TILTH_TESTS_ZOO_ZOO_LAB_H
#define TILTH_TESTS_ZOO_ZOO_LAB_H

#include "test.h"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/builtin/builtin.h>
#include <tilth/desc/yaml.h>
#include <tilth/train/run/launch.h>
#include <tilth/train/run/run.h>
#include <tilth/zoo/vision.h>

#include "engine.h"

static tl_registry *lab_registry;
static tl_arena *lab_arena;
static char lab_folder[TEMPORARY_PATH];

static inline int lab_remove(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static inline int lab_open(void **state)
{
    (void)state;
    tl_log_sink_remove(TL_LOG_STDERR);
    temporary(lab_folder, "tilth-test-zoo");
    assert_ok(tl_registry_new_builtin(&lab_registry));
    assert_ok(tl_registry_add(lab_registry, &fake_module));
    assert_ok(tl_arena_new(&lab_arena));
    return mkdtemp(lab_folder) && chdir(lab_folder) == 0 ? 0 : -1;
}

static inline int lab_close(void **state)
{
    (void)state;
    tl_registry_free(&lab_registry);
    tl_arena_free(&lab_arena);
    return chdir("/") == 0 && nftw(lab_folder, lab_remove, 8, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

/* An experiment with this YAML on top. */
static inline tl_status lab_parse(tl_config **out, const char *experiment, const char *yaml)
{
    const tl_parse_options options = {.experiment = experiment, .strict_override = true};
    TL_TRY(tl_experiment_begin(out, lab_registry, &options));
    tl_status st = yaml ? tl_config_yaml(*out, yaml, "test.yaml") : TL_OK;
    if (st == TL_OK) st = tl_experiment_finish(*out, lab_registry, experiment);
    if (st != TL_OK) tl_config_free(out);
    return st;
}

/* Trains and evaluates by it in a folder, and frees it. */
static inline tl_status lab_launch(tl_logs *logs, tl_config **config, const char *folder)
{
    tl_status st =
        tl_launch(logs, &(tl_launch_args){.registry = lab_registry,
                                          .config = *config,
                                          .run = &(tl_run_args){.quiet = true},
                                          .flags = &(tl_train_flags){.mode = "train_and_eval",
                                                                     .model_dir = folder}});
    tl_config_free(config);
    return st;
}

static inline void assert_same_file(const char *a, const char *b)
{
    char *x, *y;
    size_t m, n;
    assert_ok(tl_file_read(&x, &m, a, 1 << 26));
    assert_ok(tl_file_read(&y, &n, b, 1 << 26));
    assert_int_equal(m, n);
    assert_memory_equal(x, y, m);
    tl_free(x);
    tl_free(y);
}

/* A task of it, on one thread. */
typedef struct lab_run {
    tl_config *config;
    const tl_experiment_config *params;
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *trainer;
    tl_logs *logs;
} lab_run;

static inline void lab_begin(lab_run *r, const char *experiment, const char *yaml)
{
    *r = (lab_run){0};
    assert_ok(lab_parse(&r->config, experiment, yaml));
    r->params = tl_config_value(r->config);
    assert_ok(tl_get_distribution_strategy(
        &r->strategy, &(tl_strategy_args){.registry = lab_registry,
                                          .distribution_strategy = "one_device",
                                          .threads = 1}));
    assert_ok(tl_get_task(&r->task, &(tl_task_args){.registry = lab_registry,
                                                    .config = &r->params->task,
                                                    .engine = tl_strategy_engine(r->strategy),
                                                    .seed = 1}));
    assert_ok(tl_logs_new(&r->logs));
}

static inline void lab_train(lab_run *r, const char *experiment, const char *yaml)
{
    lab_begin(r, experiment, yaml);
    assert_ok(
        tl_create_trainer(&r->trainer, r->params, r->task, r->strategy, true, true, NULL, NULL, 1));
}

static inline void lab_end(lab_run *r)
{
    tl_logs_free(&r->logs);
    tl_trainer_free(&r->trainer);
    tl_task_free(&r->task);
    tl_strategy_free(&r->strategy);
    tl_config_free(&r->config);
}

#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, lab_open, lab_close)

#endif
