/* Pooling and resizing of images.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_POOLS_H
#define TILTH_CUDA_POOLS_H

#include <tilth/base/str.h>
#include <tilth/sys/core/backend.h>

extern const tl_kernels tli_cuda_pool_kernels;

/* The text of kernel `number`, with many channels for a thread or one: for tests, which compile it
 * without a GPU. False: there are not so many. */
bool tli_cuda_pool_text(tl_str *out, int number, tl_dtype dtype, bool vectors);

#endif
