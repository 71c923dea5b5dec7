/* Loop nests on a GPU: planned and printed by sys/nest/gpu.h, compiled by NVRTC, launched.
 *
 * Thread word: immutable. */
#ifndef TILTH_CUDA_NESTS_H
#define TILTH_CUDA_NESTS_H

#include <tilth/sys/nest/gpu.h>
#include <tilth/sys/nest/methods.h>

#include "cuda/api.h"

extern const tl_nest_methods tli_cuda_nests;

/* Puts the kernels of a nest into the queue; its buffers are the inputs and outputs of the call. */
TL_NODISCARD tl_status tli_cuda_nest_put(const tl_run *run, const tl_node *call,
                                         const tl_gpu_walk *walk, const CUfunction *phases,
                                         void *scratch);
/* Whether a single call is a nest of its own (nest_ops.c). */
bool tli_cuda_nest_takes(const tl_engine *engine, const tl_node *call);

#endif
