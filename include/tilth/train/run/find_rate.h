/* A search for a learning rate: a short training whose rate rises from step to step, until the loss
 * blows up. Where the loss fell most steeply is a good rate to begin with.
 *
 *     tl_rate_search found;
 *     TL_TRY(tl_find_rate(&found, trainer, &(tl_find_rate_args){.steps = 200}));
 *     if (found.suggested >= 0) rate = found.points[found.suggested].rate;
 *     tl_rate_search_deinit(&found);
 *
 * The trainer is a new one, made with tl_find_rate_config, and is of no use for anything else
 * afterwards: its weights have been through all rates. Nothing is written anywhere.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_FIND_RATE_H
#define TILTH_TRAIN_FIND_RATE_H

#include <tilth/train/trainer/trainer.h>

TL_BEGIN

/* One step: the rate that it used, its loss before that, and the mean of the losses so far, in
 * which each older one counts less by the factor `smoothing`. */
typedef struct tl_rate_point {
    double rate, loss, smoothed;
} tl_rate_point;

typedef struct tl_rate_search {
    tl_rate_point *points; /* in the order of the steps; all are finite */
    int64_t count;
    bool diverged;     /* it ended before its last step: the loss was too great, or not finite */
    int64_t suggested; /* the point where the smoothed loss falls most steeply; -1: it never does,
                        * or there are too few of them */
} tl_rate_search;

typedef struct tl_find_rate_args {
    double least, greatest; /* (optional: 1e-8, 1) rates of the first and of the last step */
    int64_t steps;          /* (optional: 100) at least 2 */
    double smoothing;       /* (optional: 0.98) below 1; negative: none */
    /* (optional: 4) the search ends when the smoothed loss is so many times its least; negative:
     * only a loss that is not finite ends it */
    double divergence;
} tl_find_rate_args;

/* The configuration for the trainer of a search, in the arena: that of the experiment with a
 * constant rate, without a warm-up, and where a loss that is not finite is no failure. */
TL_API TL_NODISCARD tl_status tl_find_rate_config(const tl_experiment_config **out, tl_arena *arena,
                                                  const tl_experiment_config *params);
/* TL_EINVAL says which argument is wrong. Free is due after a success. */
TL_API TL_NODISCARD tl_status tl_find_rate(tl_rate_search *out, tl_trainer *t,
                                           const tl_find_rate_args *args);
TL_API void tl_rate_search_deinit(tl_rate_search *found);

/* The point of the steepest fall, by differences of the smoothed losses (one-sided at the ends), up
 * to the least one: what falls behind that had risen too far. The first tenth, at most 10 points,
 * and the last one are left out; -1: nothing falls, or less than two are left. */
TL_API int64_t tl_rate_suggest(const tl_rate_point *points, int64_t count);

TL_END

#endif
