#include "base/rng_impl.h"

#include <string.h>
#include <tilth/base/rng.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

/* Blocks stay in registers from round to round only when all that touches them is in one loop. */
#define INLINE inline __attribute__((always_inline))

/* The constants of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3". */
enum { ROUNDS = 10 };
static const uint32_t multiplier[2] = {0xD2511F53, 0xCD9E8D57};
static const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85};

enum {
    BLOCK = 16, /* bytes, of words and of the numbers made from them */
    FEW = 4     /* blocks that take less time one after the other than a group of vectors does */
};

/* --- block after block ------------------------------------------------------------------------ */

typedef struct block {
    uint32_t w[4];
} block;

static INLINE block block_round(block c, uint32_t k0, uint32_t k1)
{
    uint64_t p0 = (uint64_t)multiplier[0] * c.w[0], p1 = (uint64_t)multiplier[1] * c.w[2];
    return (block){{(uint32_t)(p1 >> 32) ^ c.w[1] ^ k0, (uint32_t)p1,
                    (uint32_t)(p0 >> 32) ^ c.w[3] ^ k1, (uint32_t)p0}};
}

static INLINE block block_make(block c, uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < ROUNDS; round++, k0 += weyl[0], k1 += weyl[1])
        c = block_round(c, k0, k1);
    return c;
}

static INLINE void block_store(char *out, block c, bool uniform)
{
    float numbers[4];
    for (int i = 0; i < 4; i++) numbers[i] = tli_uniform_f32(c.w[i]);
    memcpy(out, uniform ? (const void *)numbers : c.w, BLOCK);
}

void tl_philox4x32(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2])
{
    const block c = {{ctr[0], ctr[1], ctr[2], ctr[3]}};
    block_store((char *)out, block_make(c, key[0], key[1]), false);
}

static INLINE void make_plain(char *out, uint64_t key, uint64_t stream, uint64_t first,
                              int64_t count, bool uniform)
{
    for (; count > 0; count--, first++, out += BLOCK) {
        const block c = {
            {(uint32_t)first, (uint32_t)(first >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
        block_store(out, block_make(c, (uint32_t)key, (uint32_t)(key >> 32)), uniform);
    }
}

static void words_plain(void *out, uint64_t key, uint64_t stream, uint64_t first, int64_t count)
{
    make_plain(out, key, stream, first, count, false);
}

static void uniforms_plain(void *out, uint64_t key, uint64_t stream, uint64_t first, int64_t count)
{
    make_plain(out, key, stream, first, count, true);
}

/* --- vectors: word w of four blocks in one register ------------------------------------------- */

#if defined(__aarch64__)

#define WIDE // attributes of what uses the vector unit
#define IN_VECTOR "+w"
enum { PLAIN = 4 }; // blocks beside the vectors, in the integer units, which would be idle
typedef uint32x4_t lane;

static INLINE lane lane_of(uint32_t word)
{
    return vdupq_n_u32(word);
}

static INLINE lane lane_add(lane a, lane b)
{
    return vaddq_u32(a, b);
}

static INLINE lane lane_xor(lane a, lane b)
{
    return veorq_u32(a, b);
}

static INLINE lane lane_iota(void)
{
    static const uint32_t iota[4] = {0, 1, 2, 3};
    return vld1q_u32(iota);
}

typedef struct product {
    lane high, low;
} product;

static INLINE product lane_multiply(lane a, uint32_t factor)
{
    lane b = lane_of(factor);
    lane p = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a), vget_low_u32(b)));
    lane q = vreinterpretq_u32_u64(vmull_high_u32(a, b));
    return (product){vuzp2q_u32(p, q), vuzp1q_u32(p, q)};
}

static INLINE void vector_store(char *out, uint64x2_t pairs, bool uniform)
{
    uint32x4_t words = vreinterpretq_u32_u64(pairs);
    if (uniform) words = vreinterpretq_u32_f32(vcvtq_n_f32_u32(vshrq_n_u32(words, 8), 24));
    vst1q_u8((uint8_t *)out, vreinterpretq_u8_u32(words));
}

static INLINE void lanes_store(char *out, const lane w[4], bool uniform)
{
    uint64x2_t a = vreinterpretq_u64_u32(vzip1q_u32(w[0], w[1]));
    uint64x2_t b = vreinterpretq_u64_u32(vzip2q_u32(w[0], w[1]));
    uint64x2_t d = vreinterpretq_u64_u32(vzip1q_u32(w[2], w[3]));
    uint64x2_t e = vreinterpretq_u64_u32(vzip2q_u32(w[2], w[3]));
    vector_store(out, vzip1q_u64(a, d), uniform);
    vector_store(out + BLOCK, vzip2q_u64(a, d), uniform);
    vector_store(out + 2 * BLOCK, vzip1q_u64(b, e), uniform);
    vector_store(out + 3 * BLOCK, vzip2q_u64(b, e), uniform);
}

#elif defined(__x86_64__)

/* Each word sits in the lower half of a 64-bit lane; the upper halves hold leftovers, which the
 * multiplication does not read. */
#define WIDE __attribute__((target("avx2")))
#define IN_VECTOR "+x"
enum { PLAIN = 0 }; // for blocks beside the vectors there are too few integer registers
typedef __m256i lane;

static INLINE WIDE lane lane_of(uint32_t word)
{
    return _mm256_set1_epi64x(word);
}

static INLINE WIDE lane lane_add(lane a, lane b)
{
    return _mm256_add_epi64(a, b);
}

static INLINE WIDE lane lane_xor(lane a, lane b)
{
    return _mm256_xor_si256(a, b);
}

static INLINE WIDE lane lane_iota(void)
{
    return _mm256_set_epi64x(3, 2, 1, 0);
}

typedef struct product {
    lane high, low;
} product;

static INLINE WIDE product lane_multiply(lane a, uint32_t factor)
{
    lane p = _mm256_mul_epu32(a, lane_of(factor));
    return (product){_mm256_srli_epi64(p, 32), p};
}

static INLINE WIDE void vector_store(char *out, __m256i words, bool uniform)
{
    if (uniform) {
        __m256 whole = _mm256_cvtepi32_ps(_mm256_srli_epi32(words, 8));
        words = _mm256_castps_si256(_mm256_mul_ps(whole, _mm256_set1_ps(0x1p-24f)));
    }
    _mm256_storeu_si256((__m256i *)out, words);
}

static INLINE WIDE void lanes_store(char *out, const lane w[4], bool uniform)
{
    __m256i ab = _mm256_blend_epi32(w[0], _mm256_slli_epi64(w[1], 32), 0xAA);
    __m256i cd = _mm256_blend_epi32(w[2], _mm256_slli_epi64(w[3], 32), 0xAA);
    __m256i even = _mm256_unpacklo_epi64(ab, cd), odd = _mm256_unpackhi_epi64(ab, cd);
    vector_store(out, _mm256_permute2x128_si256(even, odd, 0x20), uniform);
    vector_store(out + 2 * BLOCK, _mm256_permute2x128_si256(even, odd, 0x31), uniform);
}

#endif

#ifdef WIDE

typedef struct lanes {
    lane w[4];
} lanes;

/* What the first two rounds share in blocks that differ in the counter's lowest word alone: two of
 * their four products do not depend on it. */
typedef struct opening {
    uint32_t x0, x1, x2, x3;
} opening;

static opening opening_of(uint64_t key, uint64_t stream, uint64_t first)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    const block zero = {{0, (uint32_t)(first >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    const block one = block_round(zero, k0, k1);
    const block two = block_round(one, k0 + weyl[0], k1 + weyl[1]);
    return (opening){one.w[2], one.w[1] ^ (k0 + weyl[0]), two.w[2], two.w[3]};
}

static INLINE block block_open(uint32_t counter, const opening *o)
{
    uint64_t p0 = (uint64_t)multiplier[0] * counter;
    uint64_t p1 = (uint64_t)multiplier[1] * ((uint32_t)(p0 >> 32) ^ o->x0);
    return (block){{(uint32_t)(p1 >> 32) ^ o->x1, (uint32_t)p1, (uint32_t)p0 ^ o->x2, o->x3}};
}

static INLINE WIDE lanes lanes_open(uint32_t counter, const opening *o)
{
    product p0 = lane_multiply(lane_add(lane_of(counter), lane_iota()), multiplier[0]);
    product p1 = lane_multiply(lane_xor(p0.high, lane_of(o->x0)), multiplier[1]);
    return (lanes){{lane_xor(p1.high, lane_of(o->x1)), p1.low, lane_xor(p0.low, lane_of(o->x2)),
                    lane_of(o->x3)}};
}

static INLINE WIDE lanes lanes_round(lanes c, lane k0, lane k1)
{
    product p0 = lane_multiply(c.w[0], multiplier[0]), p1 = lane_multiply(c.w[2], multiplier[1]);
    // Hidden from the compiler, which would put the key behind the products and lengthen the chain.
    lane keyed1 = lane_xor(c.w[1], k0), keyed3 = lane_xor(c.w[3], k1);
    __asm__("" : IN_VECTOR(keyed1), IN_VECTOR(keyed3));
    return (lanes){{lane_xor(p1.high, keyed1), p1.low, lane_xor(p0.high, keyed3), p0.low}};
}

enum { GROUP = 3 * 4 + PLAIN }; // three registers' worth hides the latency of the multiplications

/* The blocks of a group, in this order. */
typedef struct group {
    lanes x, y, z;
    block b[PLAIN + 1]; // the last only because no array may be empty
} group;

static INLINE WIDE void group_open(group *g, uint32_t counter, const opening *o)
{
    g->x = lanes_open(counter, o);
    g->y = lanes_open(counter + 4, o);
    g->z = lanes_open(counter + 8, o);
#pragma GCC unroll 4
    for (int i = 0; i < PLAIN; i++) g->b[i] = block_open(counter + 12 + (uint32_t)i, o);
}

static INLINE WIDE void group_round(group *g, uint32_t k0, uint32_t k1, lane v0, lane v1)
{
    g->x = lanes_round(g->x, v0, v1);
    g->y = lanes_round(g->y, v0, v1);
    g->z = lanes_round(g->z, v0, v1);
    // Compilers run rounds ahead with some blocks, further than the CPU looks; this keeps them in
    // step.
    __asm__(""
            : IN_VECTOR(g->x.w[0]), IN_VECTOR(g->x.w[2]), IN_VECTOR(g->y.w[0]),
              IN_VECTOR(g->y.w[2]), IN_VECTOR(g->z.w[0]), IN_VECTOR(g->z.w[2]));
#pragma GCC unroll 4
    for (int i = 0; i < PLAIN; i++) {
        g->b[i] = block_round(g->b[i], k0, k1);
        __asm__("" : IN_VECTOR(g->x.w[0]), "+r"(g->b[i].w[0]));
    }
}

static INLINE WIDE void group_store(char *out, const group *g, bool uniform)
{
    lanes_store(out, g->x.w, uniform);
    lanes_store(out + 4 * BLOCK, g->y.w, uniform);
    lanes_store(out + 8 * BLOCK, g->z.w, uniform);
#pragma GCC unroll 4
    for (int i = 0; i < PLAIN; i++) block_store(out + (12 + i) * BLOCK, g->b[i], uniform);
}

static INLINE WIDE void group_make(char *out, uint64_t key, uint32_t counter, const opening *o,
                                   bool uniform)
{
    group g;
    group_open(&g, counter, o);
    uint32_t k0 = (uint32_t)key + 2 * weyl[0], k1 = (uint32_t)(key >> 32) + 2 * weyl[1];
    lane v0 = lane_of(k0), v1 = lane_of(k1);
#pragma GCC unroll 8 // a loop would have to move words to other registers at its end
    for (int round = 2; round < ROUNDS; round++) {
        group_round(&g, k0, k1, v0, v1);
        k0 += weyl[0];
        k1 += weyl[1];
        v0 = lane_add(v0, lane_of(weyl[0]));
        v1 = lane_add(v1, lane_of(weyl[1]));
    }
    group_store(out, &g, uniform);
}

/* Blocks in all of which the upper word of the counter is the same. */
static INLINE WIDE void make_run(char *out, uint64_t key, uint64_t stream, uint64_t first,
                                 int64_t count, bool uniform)
{
    const opening o = opening_of(key, stream, first);
    for (; count > FEW; count -= GROUP, first += GROUP, out += GROUP * BLOCK) {
        char rest[GROUP * BLOCK]; // of the last one, whose blocks behind the end are dropped
        group_make(count < GROUP ? rest : out, key, (uint32_t)first, &o, uniform);
        if (count < GROUP) memcpy(out, rest, (size_t)(count * BLOCK));
    }
    make_plain(out, key, stream, first, count, uniform);
}

static INLINE WIDE void make_wide(char *out, uint64_t key, uint64_t stream, uint64_t first,
                                  int64_t count, bool uniform)
{
    for (int64_t run; count > 0; count -= run, first += (uint64_t)run, out += run * BLOCK) {
        run = (INT64_C(1) << 32) - (uint32_t)first;
        if (run > count) run = count;
        make_run(out, key, stream, first, run, uniform);
    }
}

static WIDE void words_wide(void *out, uint64_t key, uint64_t stream, uint64_t first, int64_t count)
{
    make_wide(out, key, stream, first, count, false);
}

static WIDE void uniforms_wide(void *out, uint64_t key, uint64_t stream, uint64_t first,
                               int64_t count)
{
    make_wide(out, key, stream, first, count, true);
}
#endif

int tli_philox_impls(tli_philox_impl out[TLI_PHILOX_IMPLS])
{
    int count = 0;
    out[count++] = (tli_philox_impl){"plain", words_plain, uniforms_plain};
#if defined(__aarch64__)
    out[count++] = (tli_philox_impl){"neon", words_wide, uniforms_wide};
#elif defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        out[count++] = (tli_philox_impl){"avx2", words_wide, uniforms_wide};
#endif
    return count;
}

static tli_philox_impl fastest(void)
{
    tli_philox_impl impls[TLI_PHILOX_IMPLS];
    return impls[tli_philox_impls(impls) - 1];
}

/* Few blocks are spared the vectors' function, which saves many registers. */

void tli_philox_words(void *out, uint64_t key, uint64_t stream, uint64_t first, int64_t count)
{
    if (count <= FEW) words_plain(out, key, stream, first, count);
    else fastest().words(out, key, stream, first, count);
}

void tli_philox_uniforms(void *out, uint64_t key, uint64_t stream, uint64_t first, int64_t count)
{
    if (count <= FEW) uniforms_plain(out, key, stream, first, count);
    else fastest().uniforms(out, key, stream, first, count);
}
