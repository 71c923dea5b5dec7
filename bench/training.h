/* A training as the library's trainer makes it, for measuring its steps.
 *
 *     training t = {.steps = 1};
 *     ... makes registry, config, strategy, task, logs and trainer ...
 *     st = bench_run(b, &(bench_case){.ours = training_run, .payload = &t, ...});
 *     training_deinit(&t);
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BENCH_TRAINING_H
#define TILTH_BENCH_TRAINING_H

#include <tilth/tilth.h>

typedef struct training {
    tl_registry *registry;
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *trainer;
    tl_logs *logs;
    int64_t steps; /* of one call of training_run */
} training;

/* Of a `training`. Times of one that fails would mean nothing: it ends the process. */
void training_run(void *payload);
/* One that was made in part is fine. */
void training_deinit(training *t);

#endif
