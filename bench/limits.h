/* What the machine can do at most, measured: multiply-adds in registers, and copying of memory.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BENCH_LIMITS_H
#define TILTH_BENCH_LIMITS_H

#include <tilth/base/pool.h>

typedef struct bench_limits {
    double flops, half_flops; /* in a nanosecond, of all threads: of float32, of bfloat16 */
    double bytes;             /* read and written, in a nanosecond */
} bench_limits;

/* Prints what it finds. */
tl_status bench_limits_measure(bench_limits *out, tl_pool *pool);

#endif
