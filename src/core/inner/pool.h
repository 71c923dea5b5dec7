/* Which elements of windows are the largest, as bytes. Thread word: immutable. */
#ifndef TLI_CORE_POOL_H
#define TLI_CORE_POOL_H

#include <tilth/core/attrs.h>

/* Whether a byte can say which element of a window it is. */
static inline bool tli_pool_counts_in_bytes(const tl_pool_attr *a)
{
    enum { MOST = 256 };
    return a->size_y <= MOST && a->size_x <= MOST && a->size_y * a->size_x <= MOST;
}

#endif
