/* Entries that are put in order by 32-bit keys, digit by digit: equal ones keep their order.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_SIMD_SORT_PARTS_H
#define TLI_CPU_SIMD_SORT_PARTS_H

#include <tilth/base/status.h>

#include "cpu/simd/vec.h"

/* Digits of 8 bits: their counts are 4 KiB, and the 256 places that a round writes to are lines
 * that the first-level cache holds. */
enum { TLI_DIGIT = 8, TLI_DIGITS = 4, TLI_VALUES = 1 << TLI_DIGIT };
_Static_assert(TLI_DIGIT *TLI_DIGITS == 32, "all bits of a key are sorted by");

typedef struct tli_entry {
    uint32_t key, from;
} tli_entry;

// Both zeros are one; NaN is above all else.
TLI_INLINE uint32_t tli_float_key(float x)
{
    const uint32_t bits = tli_float_to_bits(x + 0.0f);
    if (x != x) return UINT32_MAX;
    return bits >> 31 ? ~bits : bits | UINT32_C(0x80000000);
}

/* Smallest keys first. Gives the one of the two arrays that holds them. */
static inline tli_entry *tli_sort_entries(tli_entry *from, tli_entry *to, int64_t n)
{
    uint32_t counts[TLI_DIGITS][TLI_VALUES] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < TLI_DIGITS; d++)
            counts[d][from[i].key >> d * TLI_DIGIT & (TLI_VALUES - 1)]++;
    for (int d = 0; d < TLI_DIGITS; d++) {
        uint32_t *count = counts[d], before = 0;
        if (count[from[0].key >> d * TLI_DIGIT & (TLI_VALUES - 1)] == n)
            continue; // all have the same digit
        for (int v = 0; v < TLI_VALUES; v++) {
            const uint32_t here = count[v];
            count[v] = before;
            before += here;
        }
        TL_ASSERT(before == n); // every entry has a place
        for (int64_t i = 0; i < n; i++)
            to[count[from[i].key >> d * TLI_DIGIT & (TLI_VALUES - 1)]++] = from[i];
        tli_entry *const swapped = from;
        from = to;
        to = swapped;
    }
    return from;
}

#endif
