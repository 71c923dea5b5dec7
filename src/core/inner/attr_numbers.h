/* Attributes of elementwise ops as the numbers p and q of their rows (core/elementwise.def).
 *
 * Thread word: free-threaded. */
#ifndef TLI_CORE_ATTR_NUMBERS_H
#define TLI_CORE_ATTR_NUMBERS_H

#include <tilth/desc/desc.h>

enum { TLI_ATTR_NUMBERS = 2 };

/* The first doubles and truth values among them, in order; 0 for those that are not there. */
static inline void tli_attr_numbers(double out[TLI_ATTR_NUMBERS], const tl_desc *desc,
                                    const void *attr)
{
    int count = 0;
    out[0] = out[1] = 0;
    for (const tl_field *f = desc ? desc->fields : NULL; f && f->name; f++) {
        const char *at = (const char *)attr + f->offset;
        if (count == TLI_ATTR_NUMBERS) return;
        if (f->type == TL_TYPE_DOUBLE) out[count++] = *(const double *)(const void *)at;
        if (f->type == TL_TYPE_BOOL) out[count++] = *(const bool *)(const void *)at;
    }
}

#endif
