/* What tensors take of the memory of the machine: not all that they were given, and more than their
 * bytes where memory comes in large pages.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CORE_RESIDENT_H
#define TLI_CORE_RESIDENT_H

#include <stddef.h>

#include <tilth/core/engine.h>
#include <tilth/core/tensor.h>

/* From which size on the host asks for pages of which size (host.c). */
enum { TLI_HUGE_PAGE = 2 << 20, TLI_HUGE_FROM = 2 * TLI_HUGE_PAGE };

/* Of so many bytes, in memory of the host with room for `capacity`. */
size_t tli_resident(size_t bytes, size_t capacity);
/* Of the storage of a tensor, all of whose elements were written. */
size_t tli_tensor_resident(const tl_tensor *t);
/* Of all tensors of an engine. */
int64_t tli_engine_resident(const tl_engine *engine);

#endif
