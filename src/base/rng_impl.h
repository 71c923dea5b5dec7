/* The ways to make many Philox blocks, of which rng.c uses the fastest and the tests compare all;
 * and the making of numbers from words, of normals for tests of extreme words.
 * Thread word: immutable. */
#ifndef TILTH_BASE_RNG_IMPL_H
#define TILTH_BASE_RNG_IMPL_H

#include <tilth/base/api.h>

/* The blocks `first` .. `first + count - 1` of a stream, four words each, into `out`: as they are
 * (uint32_t) or each made into a uniform number (float). */
typedef void tli_philox_fn(void *out, uint64_t key, uint64_t stream, uint64_t first, int64_t count);

typedef struct tli_philox_impl {
    const char *name;
    tli_philox_fn *words, *uniforms;
} tli_philox_impl;

/* Those that this CPU can run, slowest first. */
enum { TLI_PHILOX_IMPLS = 2 };
int tli_philox_impls(tli_philox_impl out[TLI_PHILOX_IMPLS]);

/* The last of them, or for a few blocks the first. */
tli_philox_fn tli_philox_words, tli_philox_uniforms;

static inline float tli_uniform_f32(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Two normals from two words, and from two times 64 bits. */
void tli_normal_pair_f32(float out[2], uint32_t a, uint32_t b);
void tli_normal_pair_f64(double out[2], uint64_t a, uint64_t b);

#endif
