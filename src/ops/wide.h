/* The type in which sums, means and losses of a float type are kept. Thread word: immutable. */
#ifndef TLI_OPS_WIDE_H
#define TLI_OPS_WIDE_H

#include <tilth/core/dtype.h>

static inline tl_dtype tli_wide(tl_dtype dtype)
{
    return dtype == TL_F64 ? TL_F64 : TL_F32;
}

#endif
