/* One element of any type as a double, and back: for host access and printing.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CORE_ELEMENT_H
#define TLI_CORE_ELEMENT_H

#include <tilth/core/dtype.h>

/* int64 beyond 2^53 loses its last digits. */
double tli_element_get(tl_dtype dtype, const void *elements, int64_t i);
/* Rounded once (bf16 and f16 to nearest even); integers are cut and wrap; bool is "not 0". */
void tli_element_set(tl_dtype dtype, void *elements, int64_t i, double value);

#endif
