/* Runs of a block of gradients whose elements lie in types of their own (tl_update_attr).
 *
 * Thread word: free-threaded. */
#ifndef TLI_CORE_GRADIENT_RUN_H
#define TLI_CORE_GRADIENT_RUN_H

#include <tilth/core/attrs.h>

enum { TLI_RUN_NUMBERS = 3 }; /* first element, first byte, type */

typedef struct tli_gradient_run {
    int64_t begin, end; /* elements of the block */
    tl_dtype type;
    const char *data; /* of the first of them */
} tli_gradient_run;

/* Run i of a block of `count` elements that lies at `bytes`. */
static inline tli_gradient_run tli_gradient_run_of(tl_ints runs, const void *bytes, int64_t count,
                                                   int64_t i)
{
    const int64_t *at = runs.items + i * TLI_RUN_NUMBERS;
    const bool last = (i + 1) * TLI_RUN_NUMBERS == runs.count;
    return (tli_gradient_run){.begin = at[0],
                              .end = last ? count : at[TLI_RUN_NUMBERS],
                              .type = (tl_dtype)at[2],
                              .data = bytes ? (const char *)bytes + at[1] : NULL};
}

/* The run that holds this element. */
static inline tli_gradient_run tli_gradient_run_at(tl_ints runs, const void *bytes, int64_t count,
                                                   int64_t element)
{
    int64_t low = 0, high = runs.count / TLI_RUN_NUMBERS - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (runs.items[middle * TLI_RUN_NUMBERS] <= element) low = middle;
        else high = middle - 1;
    }
    return tli_gradient_run_of(runs, bytes, count, low);
}

#endif
