/* Functions of vectors of floats: the formulas of formula.h over the vectors of vec.h.
 *
 *     vf_store(y, vf_mul(x, vf_sigmoid(x)));
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_SIMD_MATH_H
#define TLI_CPU_SIMD_MATH_H

#include <math.h>

#include "cpu/simd/vec.h"

#define TLI_RARE TLI_INLINE
#define TLI_FORMULA_1(name, x) TLI_INLINE vf vf_##name(vf x)
#define TLI_FORMULA_2(name, x, y) TLI_INLINE vf vf_##name(vf x, vf y)
#define TLI_FORMULA_3(name, x, y, z) TLI_INLINE vf vf_##name(vf x, vf y, vf z)
#define TLI_TEST_1(name, x) TLI_INLINE vm vf_##name(vf x)
#define TLI_TEST_2(name, x, y) TLI_INLINE vm vf_##name(vf x, vf y)

#include "nest/inner/formula.h"

#endif
