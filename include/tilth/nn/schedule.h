/* Learning-rate schedules: an optimization's learning rate and warm-up as a function of the number
 * of updates done so far.
 *
 *     double rate;
 *     TL_TRY(tl_schedule_rate(&rate, engine, &config, 100)); // one value, for tables and plots
 *
 *     tl_schedule *s;
 *     TL_TRY(tl_schedule_new(&s, &config, NULL));
 *     tl_tensor *r = tl_schedule_apply(c, s, step);          // in a program: float64 scalars
 *     tl_schedule_free(&s);
 *
 * The rate is computed by ops from the counter of updates, so a captured step needs no number from
 * the host. A warm-up lies over the first steps of the schedule and does not shift it.
 *
 * Ownership: the caller's. Thread word: immutable. */
#ifndef TILTH_NN_SCHEDULE_H
#define TILTH_NN_SCHEDULE_H

#include <tilth/nn/optimization.h>

TL_BEGIN

typedef struct tl_schedule tl_schedule;

/* Checks that all that the schedule needs is there; failures name the key. The config is copied; it
 * may be a C literal as tl_desc_complete takes them. `registry` (NULL: what ships) must outlive the
 * schedule. */
TL_API TL_NODISCARD tl_status tl_schedule_new(tl_schedule **out,
                                              const tl_optimization_config *config,
                                              const tl_registry *registry);
/* NULL is fine. */
TL_API void tl_schedule_free(tl_schedule **s);

/* The rate after `step` updates: float64 scalars, both. NULL when the context failed. */
TL_API tl_tensor *tl_schedule_apply(tl_ctx *c, const tl_schedule *s, tl_tensor *step);
/* True when it gives one rate for all steps. */
TL_API bool tl_schedule_constant(const tl_schedule *s);

/* How long the learning rate changes, before it stays where it is; false when it has no end.
 * `registry` NULL: what ships. */
TL_API TL_NODISCARD tl_status tl_schedule_length_of(bool *ends, tl_schedule_length *out,
                                                    const tl_optimization_config *config,
                                                    const tl_registry *registry);

/* The rate of one step at once, by the same ops, with the classes that ship. */
TL_API TL_NODISCARD tl_status tl_schedule_rate(double *out, tl_engine *engine,
                                               const tl_optimization_config *config,
                                               int64_t iteration);

TL_END

#endif
