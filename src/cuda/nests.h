/* Loop nests on a GPU: planned and printed by sys/nest/gpu.h, compiled by NVRTC, launched.
 *
 * Thread word: immutable. */
#ifndef TILTH_CUDA_NESTS_H
#define TILTH_CUDA_NESTS_H

#include <tilth/sys/nest/methods.h>

extern const tl_nest_methods tli_cuda_nests;

#endif
