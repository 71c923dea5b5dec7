/* The task `mock` in LiBai's words, and a folder to train it in. */
#ifndef TILTH_TESTS_TRAIN_MOCK_H
#define TILTH_TESTS_TRAIN_MOCK_H

#include "train/toy.h"

#include <tilth/builtin/builtin.h>
#include <tilth/train/libai/libai.h>

static tl_registry *all;

static inline int setup(void **state)
{
    (void)state;
    temporary(toy_folder, "tilth-test-train");
    assert_ok(tl_registry_new_builtin(&all));
    assert_ok(tl_registry_add(all, &fake_module));
    assert_ok(tl_log_sink_add(&toy_sink, &(tl_log_sink){TL_LEVEL_DEBUG, toy_hear, NULL, NULL}));
    return mkdtemp(toy_folder) && chdir(toy_folder) == 0 ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    tl_alloc_fail_at(0, 0);
    tl_registry_free(&all);
    tl_log_sink_remove(toy_sink);
    tl_str_deinit(&toy_log);
    return chdir("/") == 0 && nftw(toy_folder, toy_remove, 8, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

/* A run of 12 steps that takes no time. */
static const char *const mock =
    "model: {_target_: mock}\n"
    "optim: {_target_: SGD, lr: 0.5, weight_decay: 0}\n"
    "tilth: {jit: false, threads: 1}\n"
    "train:\n"
    "  output_dir: out\n"
    "  train_micro_batch_size: 10\n"
    "  test_micro_batch_size: 10\n"
    "  train_iter: 12\n"
    "  warmup_ratio: 0.25\n"
    "  log_period: 3\n"
    "  checkpointer: {period: 4}\n"
    "  evaluation: {eval_period: 5, eval_iter: 4, eval_metric: mse, eval_mode: min}\n";

static inline tl_config *config_of(const char *yaml, const char *words)
{
    tl_config *c;
    assert_ok(tl_libai_begin(&c, all, NULL));
    assert_ok(tl_libai_yaml(c, yaml, "test.yaml"));
    char copy[512];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        assert_ok(tl_libai_words(c, &(tl_word){word, "words"}, 1));
    return c;
}

static inline const tl_libai_config *value_of(const tl_config *c)
{
    return tl_config_value(c);
}

#define LIBAI_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
