/* What the machine can do at most, measured and shown before the cases.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BENCH_LIMITS_H
#define TILTH_BENCH_LIMITS_H

#include <tilth/sys/cpu/limits.h>

typedef tl_limits bench_limits;

/* Prints what it finds. */
tl_status bench_limits_measure(bench_limits *out, tl_pool *pool);

#endif
