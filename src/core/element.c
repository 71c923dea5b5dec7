#include "core/inner/element.h"

#include <math.h>

#include "core/inner/half.h"

_Static_assert(sizeof(float) == 4 && sizeof(double) == 8, "elements lie in memory as C has them");
double tli_element_get(tl_dtype dtype, const void *elements, int64_t i)
{
    switch (dtype) {
    case TL_F32: return ((const float *)elements)[i];
    case TL_F64: return ((const double *)elements)[i];
    case TL_BF16: return tli_from_bf16(((const uint16_t *)elements)[i]);
    case TL_F16: return tli_from_f16(((const uint16_t *)elements)[i]);
    case TL_I8: return ((const int8_t *)elements)[i];
    case TL_I16: return ((const int16_t *)elements)[i];
    case TL_I32: return ((const int32_t *)elements)[i];
    case TL_I64: return (double)((const int64_t *)elements)[i];
    case TL_U8: return ((const uint8_t *)elements)[i];
    case TL_BOOL: return ((const uint8_t *)elements)[i] != 0;
    case TL_DTYPE_COUNT: break;
    }
    return NAN;
}

// Conversion out of range is undefined in C; here it stops at the ends of int64.
static int64_t whole(double value)
{
    if (!(value > -0x1p63)) return value < 0 ? INT64_MIN : 0; // NaN gives 0
    return value >= 0x1p63 ? INT64_MAX : (int64_t)value;
}

// A double to a 16-bit float in two roundings would be wrong on ties that the first one makes;
// rounding the first one to odd keeps them apart.
static float odd_float(double value)
{
    float f = (float)value;
    if ((double)f == value || isnan(value) || isinf(f)) return f;
    uint32_t bits = tli_float_to_bits(f);
    if (fabs((double)f) > fabs(value)) bits--; // cut towards zero, then mark the rest
    return tli_bits_to_float(bits | 1u);
}

void tli_element_set(tl_dtype dtype, void *elements, int64_t i, double value)
{
    switch (dtype) {
    case TL_F32: ((float *)elements)[i] = (float)value; break;
    case TL_F64: ((double *)elements)[i] = value; break;
    case TL_BF16: ((uint16_t *)elements)[i] = tli_to_bf16(odd_float(value)); break;
    case TL_F16: ((uint16_t *)elements)[i] = tli_to_f16(odd_float(value)); break;
    case TL_I8: ((int8_t *)elements)[i] = (int8_t)whole(value); break;
    case TL_I16: ((int16_t *)elements)[i] = (int16_t)whole(value); break;
    case TL_I32: ((int32_t *)elements)[i] = (int32_t)whole(value); break;
    case TL_I64: ((int64_t *)elements)[i] = whole(value); break;
    case TL_U8: ((uint8_t *)elements)[i] = (uint8_t)whole(value); break;
    case TL_BOOL: ((uint8_t *)elements)[i] = value != 0; break;
    case TL_DTYPE_COUNT: break;
    }
}
