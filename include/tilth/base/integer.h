/* Whole numbers: the smaller, the larger, what lies between, and divisions that round up.
 *
 *     int64_t blocks = tl_div_up(rows, 64);
 *     size_t bytes = tl_round_up_size(tl_min_size(wanted, most), 64);
 *
 * Thread word: immutable. */
#ifndef TILTH_BASE_INTEGER_H
#define TILTH_BASE_INTEGER_H

#include <tilth/base/api.h>

TL_BEGIN

static inline int64_t tl_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t tl_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* `least` wins where it is above `most`. */
static inline int64_t tl_clamp_i64(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

static inline size_t tl_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* x / unit, rounded up, below zero too. `unit` is above zero; nothing overflows. */
static inline int64_t tl_div_up(int64_t x, int64_t unit)
{
    return x / unit + (x % unit > 0);
}

/* The next multiple of `unit` that is not below x. The caller knows that it can be held. */
static inline int64_t tl_round_up(int64_t x, int64_t unit)
{
    return tl_div_up(x, unit) * unit;
}

static inline size_t tl_round_up_size(size_t x, size_t unit)
{
    return (x / unit + (x % unit > 0)) * unit;
}

TL_END

#endif
