/* Numbers of a formula, by a name and a place: weights that a golden file need not hold. */
#ifndef TILTH_TESTS_ZOO_FORMULA_H
#define TILTH_TESTS_ZOO_FORMULA_H

#include <stdint.h>

static inline uint32_t formula_seed(const char *key)
{
    uint32_t seed = 2166136261U;
    for (; *key; key++) seed = (seed ^ (unsigned char)*key) * 16777619U;
    return seed;
}

/* In [-1, 1]. */
static inline double formula_number(uint32_t seed, int64_t i)
{
    uint32_t x = (uint32_t)i + seed;
    x = (x ^ x >> 15) * 0x7feb352dU;
    x = (x ^ x >> 15) * 0x846ca68bU;
    return (double)(x >> 16) / 32768 - 1;
}

#endif
