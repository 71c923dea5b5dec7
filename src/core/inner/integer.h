/* What integer types can hold. Thread word: immutable. */
#ifndef TLI_CORE_INTEGER_H
#define TLI_CORE_INTEGER_H

#include <tilth/core/dtype.h>

/* The least and the greatest number of an integer type. */
static inline void tli_integer_range(tl_dtype dtype, int64_t *low, int64_t *high)
{
    int bits = 8 * (int)tl_dtype_size(dtype);
    bool sign = dtype != TL_U8;
    *high = INT64_MAX >> (64 - bits - !sign);
    *low = sign ? -*high - 1 : 0;
}

#endif
