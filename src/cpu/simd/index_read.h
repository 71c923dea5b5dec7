/* Indices of any integer type, one at a time. Thread word: free-threaded. */
#ifndef TLI_CPU_SIMD_INDEX_READ_H
#define TLI_CPU_SIMD_INDEX_READ_H

#include <tilth/core/dtype.h>

static inline int64_t tli_index_read(tl_dtype dtype, const void *indices, int64_t i)
{
    switch (dtype) {
    case TL_I64: return ((const int64_t *)indices)[i];
    case TL_I32: return ((const int32_t *)indices)[i];
    case TL_I16: return ((const int16_t *)indices)[i];
    case TL_I8: return ((const int8_t *)indices)[i];
    case TL_BOOL: return ((const uint8_t *)indices)[i] != 0;
    default: return ((const uint8_t *)indices)[i];
    }
}

#endif
