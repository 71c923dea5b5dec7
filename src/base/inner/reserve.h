/* Addresses for more memory than is used: what nobody has written takes none, and reads as zeros.
 *
 * Ownership: the caller's. Thread word: free-threaded. */
#ifndef TLI_BASE_RESERVE_H
#define TLI_BASE_RESERVE_H

#include <stddef.h>

#include <tilth/base/status.h>

/* Begins with a page. */
TL_NODISCARD tl_status tli_reserve(void **out, size_t bytes);
/* Bytes from .. to - 1 are not needed any more: their memory goes back, as far as it has whole
 * pages, and they may read as zeros. How many went. Memory of the C library may be given, too. */
size_t tli_reserve_drop(void *memory, size_t from, size_t to);
/* NULL is fine. */
void tli_reserve_free(void *memory, size_t bytes);

#endif
