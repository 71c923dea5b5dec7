/* A configuration of the sample, new for each test. */
#ifndef TILTH_TESTS_DESC_SAMPLE_CONFIG_H
#define TILTH_TESTS_DESC_SAMPLE_CONFIG_H

#include "test.h"

#include "desc/sample.h"

static tl_config *config;

static inline int begin(void **state)
{
    (void)state;
    return tl_config_new(&config, NULL, &sample_desc) != TL_OK;
}

static inline int end(void **state)
{
    (void)state;
    tl_config_free(&config);
    return 0;
}

static inline const sample *now(void)
{
    return tl_config_value(config);
}

#endif
