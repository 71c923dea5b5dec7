#include "text/python_random.h"

enum { WORDS = TLI_PYTHON_RANDOM_WORDS, AHEAD = 397 };

/* --- the generator ---------------------------------------------------------------------------- */

static uint32_t spread(uint32_t word)
{
    return word ^ word >> 30;
}

static void fill(uint32_t *w, uint32_t seed)
{
    w[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) w[i] = UINT32_C(1812433253) * spread(w[i - 1]) + i;
}

/* The generator's start from a key of one or two words, as its authors give it. */
static void fill_by_key(uint32_t *w, const uint32_t *key, uint32_t length)
{
    uint32_t i = 1, j = 0;
    fill(w, UINT32_C(19650218));
    for (int k = 0; k < WORDS; k++) {
        w[i] = (w[i] ^ spread(w[i - 1]) * UINT32_C(1664525)) + key[j] + j;
        j = (j + 1) % length;
        if (++i < WORDS) continue;
        w[0] = w[WORDS - 1];
        i = 1;
    }
    for (int k = 0; k < WORDS - 1; k++) {
        w[i] = (w[i] ^ spread(w[i - 1]) * UINT32_C(1566083941)) - i;
        if (++i < WORDS) continue;
        w[0] = w[WORDS - 1];
        i = 1;
    }
    w[0] = UINT32_C(0x80000000);
}

void tli_python_random_seed(tli_python_random *r, int64_t seed)
{
    uint64_t size = seed < 0 ? -(uint64_t)seed : (uint64_t)seed;
    const uint32_t key[] = {(uint32_t)size, (uint32_t)(size >> 32)};
    fill_by_key(r->words, key, key[1] ? 2 : 1);
    r->at = WORDS;
}

static uint32_t twist(uint32_t high, uint32_t low, uint32_t ahead)
{
    uint32_t mixed = (high & UINT32_C(0x80000000)) | (low & UINT32_C(0x7fffffff));
    return ahead ^ mixed >> 1 ^ (low & 1 ? UINT32_C(0x9908b0df) : 0);
}

static void refill(tli_python_random *r)
{
    uint32_t *w = r->words;
    for (int i = 0; i < WORDS - AHEAD; i++) w[i] = twist(w[i], w[i + 1], w[i + AHEAD]);
    for (int i = WORDS - AHEAD; i < WORDS - 1; i++)
        w[i] = twist(w[i], w[i + 1], w[i + AHEAD - WORDS]);
    w[WORDS - 1] = twist(w[WORDS - 1], w[0], w[AHEAD - 1]);
    r->at = 0;
}

uint32_t tli_python_random_bits(void *payload)
{
    tli_python_random *r = payload;
    if (r->at == WORDS) refill(r);
    uint32_t word = r->words[r->at++];
    word ^= word >> 11;
    word ^= word << 7 & UINT32_C(0x9d2c5680);
    word ^= word << 15 & UINT32_C(0xefc60000);
    return word ^ word >> 18;
}

/* --- what is drawn ---------------------------------------------------------------------------- */

/* getrandbits(count): the upper bits of one word, or a word and the upper bits of a second one. */
static uint64_t draw_bits(tl_bits bits, int count)
{
    if (count <= 32) return bits.next(bits.payload) >> (32 - count);
    uint64_t low = bits.next(bits.payload);
    return low | (uint64_t)(bits.next(bits.payload) >> (64 - count)) << 32;
}

int64_t tli_bits_below(tl_bits bits, int64_t n)
{
    TL_ASSERT(n >= 1);
    int count = 64 - __builtin_clzll((uint64_t)n);
    uint64_t drawn = draw_bits(bits, count);
    while (drawn >= (uint64_t)n) drawn = draw_bits(bits, count);
    return (int64_t)drawn;
}

void tli_bits_shuffle(tl_bits bits, int64_t *items, int64_t count)
{
    for (int64_t i = count - 1; i >= 1; i--) {
        int64_t j = tli_bits_below(bits, i + 1), item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}
