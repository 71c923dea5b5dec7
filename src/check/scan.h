/* Looking through the elements of tensors. Thread word: free-threaded. */
#ifndef TLI_CHECK_SCAN_H
#define TLI_CHECK_SCAN_H

#include "core/inner/tensor.h"

/* What an output is filled with before its kernel. The second one tells a number that happens to
 * look like the first from an element that was left. */
typedef enum tli_fill { TLI_FILL_FIRST, TLI_FILL_SECOND } tli_fill;

typedef enum tli_search {
    TLI_FIND_LEFT_FIRST, /* still as filled */
    TLI_FIND_LEFT_SECOND,
    TLI_FIND_UNWRITTEN, /* as fresh storage of guarded memory */
    TLI_FIND_NOT_FINITE,
    TLI_FIND_NOT_BOOL
} tli_search;

/* `t` is row-major. */
void tli_fill_output(const tl_tensor *t, tli_fill fill);
/* The first element from `start` on (row-major) that is what is looked for; -1 when none is.
 * Elements that are seen many times are looked at once. */
int64_t tli_find(const tl_tensor *t, tli_search what, int64_t start);
/* A checksum of the bytes in its extent, or of `most` of them that are spread over it. */
uint32_t tli_checksum(const tl_tensor *t, int64_t most);
/* The least and the greatest element; NaN for a tensor without elements. */
void tli_range(const tl_tensor *t, double *least, double *most);
/* Element `index`, row-major. */
double tli_element_at(const tl_tensor *t, int64_t index);
/* "[1, 2]" of element `index`, "[]" of a scalar. Gives `out` back. */
const char *tli_element_text(char out[TL_SHAPE_TEXT], const tl_tensor *t, int64_t index);

#endif
