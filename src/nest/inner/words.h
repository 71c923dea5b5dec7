/* How C that is printed reads and writes elements: for whoever writes a kernel by hand behind the
 * text of nests.
 *
 * Thread word: immutable. */
#ifndef TLI_NEST_WORDS_H
#define TLI_NEST_WORDS_H

#include <tilth/core/dtype.h>

/* The type of C that elements have in memory. */
const char *tli_print_memory_type(tl_dtype dtype);
/* The same; `load` is the function that makes a float of one, `store` the one
 * that makes one of a float. Of float types that are computed in float32. */
const char *tli_kernel_words(tl_dtype dtype, const char **load, const char **store);

#endif
