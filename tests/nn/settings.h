/* Configurations of optimizers and schedules from YAML, for tests. */
#ifndef TILTH_TESTS_NN_SETTINGS_H
#define TILTH_TESTS_NN_SETTINGS_H

#include "test.h"

#include <tilth/desc/config.h>
#include <tilth/nn/optimization.h>

static tl_registry *registry;

static inline int open_registry(void **state)
{
    (void)state;
    assert_ok(tl_registry_new(&registry));
    assert_ok(tl_registry_add(registry, &tl_optimizers_module));
    assert_ok(tl_registry_add(registry, &tl_learning_rates_module));
    assert_ok(tl_registry_add(registry, &tl_warmups_module));
    return 0;
}

static inline int close_registry(void **state)
{
    (void)state;
    tl_registry_free(&registry);
    return 0;
}

static inline tl_config *settings_of(const char *yaml)
{
    tl_config *s;
    assert_ok(tl_config_new(&s, registry, &tl_optimization_config_desc));
    assert_ok(tl_config_yaml(s, yaml, "test"));
    assert_ok(tl_config_finish(s));
    return s;
}

#endif
