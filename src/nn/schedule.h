/* The rates of the learning rates and warm-ups that ship, for their table. */
#ifndef TILTH_SRC_NN_SCHEDULE_H
#define TILTH_SRC_NN_SCHEDULE_H

#include <tilth/nn/schedule.h>

typedef tl_tensor *tli_rate_fn(tl_ctx *c, const void *config, tl_tensor *step);
tli_rate_fn tli_constant_rate, tli_stepwise_rate, tli_exponential_rate, tli_polynomial_rate,
    tli_cosine_rate, tli_cosine_restarts_rate, tli_power_rate, tli_power_linear_rate,
    tli_power_with_offset_rate, tli_step_cosine_with_offset_rate, tli_multistep_rate,
    tli_cosine_annealing_rate, tli_stable_decay_rate;

typedef tl_tensor *tli_warmup_fn(tl_ctx *c, const void *config, tl_tensor *step, tl_tensor *rate,
                                 tl_tensor *rate_at_end);
tli_warmup_fn tli_linear_warmup_rate, tli_polynomial_warmup_rate, tli_constant_warmup_rate,
    tli_peak_warmup_rate;

/* A registry with what ships, for callers that have none. */
tl_status tli_optimization_registry(tl_registry **out);
/* A copy that shares nothing, with literals completed, checked. */
tl_status tli_optimization_copy(tl_optimization_config *to, tl_arena *arena,
                                const tl_optimization_config *from, const tl_registry *registry);

#endif
