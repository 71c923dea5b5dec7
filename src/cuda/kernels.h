/* Small kernels that belong to no nest, written by hand and compiled when they are first needed.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_KERNELS_H
#define TILTH_CUDA_KERNELS_H

#include <tilth/core/attrs.h>
#include <tilth/sys/core/backend.h>

#include "cuda/device.h"

/* The kernel called `kernel` of a text behind that of nests, compiled at the first call for
 * `key`. */
TL_NODISCARD tl_status tli_cuda_kernel(tli_cuda *d, CUfunction *out, const char *key,
                                       const char *body);
/* Puts it into the run's queue, with a thread for each of `count` elements. */
TL_NODISCARD tl_status tli_cuda_start(const tl_run *run, CUfunction kernel, int64_t count,
                                      void **parameters);

/* Memory of the device for kernels of the call that asks: the next call may get the same, as work
 * of a queue runs in order. It stays where it is, so lists may use it. Whoever asks holds the
 * device's long lock until all is put in that uses it. */
TL_NODISCARD tl_status tli_cuda_scratch(const tl_run *run, void **out, size_t bytes);

extern const tl_kernels tli_cuda_move_kernels;

/* The elements of a view of any strides, row-major. */
TL_NODISCARD tl_status tli_cuda_gather(const tl_run *run, const tl_tensor *from, void *to);
/* The same from an address, in elements of `size` bytes. */
TL_NODISCARD tl_status tli_cuda_gather_at(const tl_run *run, size_t size, int rank,
                                          const int64_t *dims, const int64_t *strides,
                                          const void *from, void *to);
/* y = activation(x), element by element; both of one float type. */
TL_NODISCARD tl_status tli_cuda_activate(const tl_run *run, tl_activation activation,
                                         const tl_tensor *x, tl_tensor *y);
/* Every row of y is `row`, or 0 where that is NULL. */
TL_NODISCARD tl_status tli_cuda_spread(const tl_run *run, tl_tensor *y, const void *row);

#endif
