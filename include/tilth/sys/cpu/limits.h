/* What the machine can do at most, measured: multiply-adds in registers, and copying of memory.
 * What a program reaches is told as a share of it.
 *
 *     tl_limits most;
 *     TL_TRY(tl_limits_measure(&most, tl_engine_threads(engine)));     // takes a third of a second
 *
 * Thread word: one thread at a time, on a machine that does nothing else. */
#ifndef TILTH_CPU_LIMITS_H
#define TILTH_CPU_LIMITS_H

#include <tilth/base/pool.h>
#include <tilth/sys/core/backend.h>

TL_BEGIN

TL_API TL_NODISCARD tl_status tl_limits_measure(tl_limits *out, tl_pool *pool);

TL_END

#endif
