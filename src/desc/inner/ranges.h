/* Configurations written as C literals, which no parser has seen.
 *
 * Thread word: free-threaded. */
#ifndef TLI_DESC_RANGES_H
#define TLI_DESC_RANGES_H

#include <tilth/desc/desc.h>

/* What parsing sees at once, and literals do not: every number lies in the range of its row. */
TL_NODISCARD tl_status tli_check_ranges(const tl_desc *desc, const void *value);

#endif
