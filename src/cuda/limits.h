/* What a GPU can do at most, measured by large products and copies.
 *
 * Thread word: one thread at a time, on a GPU that does nothing else. */
#ifndef TILTH_CUDA_LIMITS_H
#define TILTH_CUDA_LIMITS_H

#include <tilth/sys/core/backend.h>

TL_NODISCARD tl_status tli_cuda_limits(tl_engine *engine, tl_limits *out);

#endif
