/* Training steps of lanes, on one or several processes, as a program that is asked for them
 * (bench.h): it reads names of cases, which begin with that of a model (models.h), and answers with
 * seconds a step.
 *
 *     bench_distributed --steps RANKS LANES ACCUMULATION THREADS
 *
 * Or with what a process takes: megabytes by the system's count (its private pages, and its share
 * of those that several have), and by that of the library, means over the processes; and, of one
 * process, as planned for as many as there are lanes, with tilth.zero from 0 to 3.
 *
 * A step is the library's trainer's, over shared memory, with AdamW. Lanes and what is accumulated
 * share the model's batch, as far as it can be divided. With TILTH_BENCH_CPU=1 the seconds are
 * those of processors, which a machine that others use as well does not lengthen: of all processes,
 * divided by their threads. */
#ifndef TILTH_BENCH_LANE_STEPS_H
#define TILTH_BENCH_LANE_STEPS_H

#include <stdbool.h>

typedef struct lane_steps {
    int ranks, lanes, accumulation, threads; /* of a process */
    int zero;                                /* tilth.zero */
    bool memory;                             /* is asked for */
} lane_steps;

/* The exit status of a process of it. */
int lane_steps_answer(const lane_steps *how);

#endif
