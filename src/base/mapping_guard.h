/* Mapped files that somebody cuts short: reading beyond the new end would end the process by
 * SIGBUS. While a mapping is guarded it reads as zeros there instead, and the guard remembers.
 *
 * Guards set the handler of SIGBUS, which hands on whatever is no concern of them to the one that
 * was there before. Thread word: free-threaded. */
#ifndef TILTH_BASE_MAPPING_GUARD_H
#define TILTH_BASE_MAPPING_GUARD_H

#include <tilth/base/status.h>

typedef struct tli_mapping_guard tli_mapping_guard;

TL_NODISCARD tl_status tli_mapping_guard_begin(tli_mapping_guard **out, const void *data,
                                               size_t size);
/* Before the memory is unmapped. NULL is fine. */
void tli_mapping_guard_end(tli_mapping_guard *guard);
/* Whether something behind the end was read. */
bool tli_mapping_guard_cut(const tli_mapping_guard *guard);

#endif
