/* A run that keeps nothing, to see whether all is there and what it takes. */
#include <sys/resource.h>

#include <tilth/base/clock.h>

#include "train/run/impl.h"

/* The first step makes the program ready, the second may still compile: the last one is what steps
 * take. */
enum { READY_AFTER = 2 };

static tl_status timed_steps(double *seconds, tl_controller *c, int64_t steps)
{
    int64_t begin = tl_clock_ns();
    TL_TRY(tl_controller_train(c, tl_controller_step(c) + steps, false));
    *seconds = (double)(tl_clock_ns() - begin) * 1e-9;
    return TL_OK;
}

static tl_status try_evaluation(tl_runner *r, tl_logs *told)
{
    tl_logs *logs;
    int64_t begin = tl_clock_ns();
    if (!r->evaluates) return TL_OK;
    TL_TRY(tl_logs_new(&logs));
    tl_status st = tl_controller_evaluate(r->controller, 1, logs);
    tl_logs_free(&logs);
    TL_TRY(st);
    return tl_logs_put(told, TL_TRIAL_EVALUATION, (double)(tl_clock_ns() - begin) * 1e-9);
}

tl_status tli_run_trial(tl_runner *r, tl_logs *logs)
{
    double first, ready, step;
    struct rusage usage;
    if (!r->trains)
        return TL_FAIL(TL_EINVAL, "--dry_run tries a training, and the mode '%s' does not train",
                       r->args->mode);
    TL_TRY(timed_steps(&first, r->controller, 1));
    TL_TRY(timed_steps(&ready, r->controller, READY_AFTER - 1));
    TL_TRY(timed_steps(&step, r->controller, 1));
    TL_TRY(tl_logs_put(logs, TL_TRIAL_FIRST_STEP, first));
    TL_TRY(tl_logs_put(logs, TL_TRIAL_STEP, step));
    TL_TRY(try_evaluation(r, logs));
    if (getrusage(RUSAGE_SELF, &usage) != 0) return TL_OK; // then it is not told
    return tl_logs_put(logs, TL_TRIAL_MEMORY, (double)usage.ru_maxrss * 1024);
}
