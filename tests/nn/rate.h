/* One value of a schedule. */
#ifndef TILTH_TESTS_NN_RATE_H
#define TILTH_TESTS_NN_RATE_H

#include <tilth/nn/schedule.h>

#include "engine.h"

static inline tl_status schedule_rate(double *out, const tl_optimization_config *config,
                                      int64_t iteration)
{
    tl_engine *e;
    TL_TRY(test_engine_new(&e, NULL, 1));
    tl_status st = tl_schedule_rate(out, e, config, iteration);
    tl_engine_free(&e);
    return st;
}

#endif
