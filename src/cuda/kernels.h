/* Small kernels that belong to no nest, written by hand and compiled when they are first needed.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_KERNELS_H
#define TILTH_CUDA_KERNELS_H

#include <tilth/core/attrs.h>
#include <tilth/sys/core/backend.h>

/* y = activation(x), element by element; both of one float type. */
TL_NODISCARD tl_status tli_cuda_activate(const tl_run *run, tl_activation activation,
                                         const tl_tensor *x, tl_tensor *y);
/* Every row of y is `row`, or 0 where that is NULL. */
TL_NODISCARD tl_status tli_cuda_spread(const tl_run *run, tl_tensor *y, const void *row);

#endif
