/* Random numbers that are functions of a key and a position (Philox4x32-10).
 *
 *     tl_rng run, layer, step;
 *     tl_rng_init(&run, seed);
 *     tl_rng_split(&layer, &run, "encoder/dropout");        // the parent does not move
 *     tl_rng_fold(&step, &layer, step_number);
 *     tl_rng_fill_uniform_f32(&step, 0, mask, count);       // mask[i] depends on (step, i) alone
 *     int64_t pick = tl_rng_below(&run, count);             // draws move a stream forward
 *
 * A stream is an endless row of 32-bit words; a tl_rng names a stream and a position in it. Streams
 * have names of 128 bits, and different numbers folded into one parent never give the same child.
 *
 * The row is read in two ways. Draws take what lies at the position and move on. Fills take
 * elements `start .. start + n - 1` counted from the beginning of the stream, whatever the
 * position, so a range may be cut in any way and filled by any number of threads. Both read the
 * same row: in a new stream the i-th draw of one kind is element i of the fill of that kind.
 *
 *     kind                         element i lies in words
 *     u32, uniform_f32, normal_f32 i              (normals are made in pairs from 2k and 2k+1)
 *     u64, uniform_f64, normal_f64 2i and 2i+1    (normals are made in pairs from 4k to 4k+3)
 *
 * A draw of 64 bits therefore skips the word at an odd position.
 *
 * Bits: integers and uniforms are the same on every machine. Normals are made by Box and Muller's
 * method from additions, multiplications, divisions and square roots, each rounded once as IEEE 754
 * says, and call no function of the C library: they too are the same on every machine, as long as
 * the compiler does not contract or reassociate (the build switches that off).
 *
 * Ownership: plain data, copied by assignment. Thread word: one thread at a time for draws;
 * free-threaded for all that takes a const stream. */
#ifndef TILTH_BASE_RNG_H
#define TILTH_BASE_RNG_H

#include <tilth/base/status.h>

TL_BEGIN

/* The block function itself: 128 bits of counter under 64 bits of key, ten rounds. */
TL_API void tl_philox4x32(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2]);

/* Members are read and written through the functions below. */
typedef struct tl_rng {
    uint64_t key, stream; /* the stream's name: key, and upper half of the counter */
    uint64_t position;    /* the next word */
    uint32_t block[4];    /* the block that holds it, when it is not the first of a block */
} tl_rng;

TL_API void tl_rng_init(tl_rng *rng, uint64_t seed);

/* The stream of `parent` under a name, or under a number, at position 0. Depends on the parent's
 * stream and not on its position. `child` may be `parent`. */
TL_API void tl_rng_split(tl_rng *child, const tl_rng *parent, const char *label);
TL_API void tl_rng_fold(tl_rng *child, const tl_rng *parent, uint64_t number);

/* Position in words, from 0. */
TL_API void tl_rng_seek(tl_rng *rng, int64_t position);
TL_API int64_t tl_rng_position(const tl_rng *rng);

/* Stream and position as numbers to be stored, with a check word. Loading numbers that were not
 * saved by tl_rng_save, or were damaged since, is TL_EINVAL and leaves `rng` as it was. */
enum { TL_RNG_WORDS = 4 };
TL_API void tl_rng_save(uint64_t out[TL_RNG_WORDS], const tl_rng *rng);
TL_API TL_NODISCARD tl_status tl_rng_load(tl_rng *rng, const uint64_t words[TL_RNG_WORDS]);

/* --- draws ------------------------------------------------------------------------------------ */

TL_API uint32_t tl_rng_u32(tl_rng *rng);
TL_API uint64_t tl_rng_u64(tl_rng *rng);
/* In [0, 1): a multiple of 2^-24, and of 2^-53. */
TL_API float tl_rng_uniform_f32(tl_rng *rng);
TL_API double tl_rng_uniform_f64(tl_rng *rng);
/* Mean 0, deviation 1; at most 6.8 and 8.7 away from 0. */
TL_API float tl_rng_normal_f32(tl_rng *rng);
TL_API double tl_rng_normal_f64(tl_rng *rng);
/* In [0, n), every value equally likely; n is at least 1. Takes one u64, and another one with a
 * chance of less than n / 2^64. */
TL_API int64_t tl_rng_below(tl_rng *rng, int64_t n);

/* Every order of the items equally likely; takes one tl_rng_below for each item but one. */
TL_API void tl_rng_shuffle(tl_rng *rng, int64_t *items, int64_t n);
/* The numbers 0 .. n-1 in random order. */
TL_API void tl_rng_permutation(tl_rng *rng, int64_t *out, int64_t n);

/* --- fills: out[j] is element start + j of the stream ----------------------------------------- */

TL_API void tl_rng_fill_u32(const tl_rng *rng, int64_t start, uint32_t *out, int64_t n);
TL_API void tl_rng_fill_uniform_f32(const tl_rng *rng, int64_t start, float *out, int64_t n);
TL_API void tl_rng_fill_uniform_f64(const tl_rng *rng, int64_t start, double *out, int64_t n);
TL_API void tl_rng_fill_normal_f32(const tl_rng *rng, int64_t start, float *out, int64_t n);
TL_API void tl_rng_fill_normal_f64(const tl_rng *rng, int64_t start, double *out, int64_t n);

TL_END

#endif
