/* Private to text: the random numbers of Python's `random` module, bit for bit, so that data is the
 * same that Python's tools make of it.
 *
 *     tli_python_random r;
 *     tli_python_random_seed(&r, 12345);
 *     tl_bits bits = {tli_python_random_bits, &r};
 *     double x = tli_bits_real(bits);               // random.Random(12345).random()
 *
 * What is drawn from bits follows CPython whatever the bits come of.
 *
 * Ownership: plain data. Thread word: one thread at a time. */
#ifndef TLI_TEXT_PYTHON_RANDOM_H
#define TLI_TEXT_PYTHON_RANDOM_H

#include <tilth/text/masking.h>

enum { TLI_PYTHON_RANDOM_WORDS = 624 };

/* The Mersenne Twister MT19937. */
typedef struct tli_python_random {
    uint32_t words[TLI_PYTHON_RANDOM_WORDS];
    int at; /* the next word */
} tli_python_random;

/* As random.Random(seed): the sign of a seed does not count. */
void tli_python_random_seed(tli_python_random *r, int64_t seed);
/* 32 bits; `payload` is a tli_python_random. */
uint32_t tli_python_random_bits(void *payload);

/* random(): 0 <= x < 1, of 53 bits. */
static inline double tli_bits_real(tl_bits bits)
{
    uint32_t high = bits.next(bits.payload) >> 5, low = bits.next(bits.payload) >> 6;
    return ((double)high * 67108864.0 + (double)low) / 9007199254740992.0;
}

/* randrange(n), n >= 1: bits are drawn until they are a number below n. */
int64_t tli_bits_below(tl_bits bits, int64_t n);
/* randint(low, high), both included. */
static inline int64_t tli_bits_between(tl_bits bits, int64_t low, int64_t high)
{
    return low + tli_bits_below(bits, high - low + 1);
}
/* shuffle(). */
void tli_bits_shuffle(tl_bits bits, int64_t *items, int64_t count);

#endif
