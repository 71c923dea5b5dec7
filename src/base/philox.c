#include "base/rng_impl.h"

#include <tilth/base/rng.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

/* The constants of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3". */
enum { ROUNDS = 10 };
static const uint32_t multiplier[2] = {0xD2511F53, 0xCD9E8D57};
static const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85};

void tl_philox4x32(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)multiplier[0] * c0, p1 = (uint64_t)multiplier[1] * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += weyl[0];
        k1 += weyl[1];
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static void blocks_plain(uint32_t *out, uint64_t key, uint64_t stream, uint64_t first,
                         int64_t count)
{
    const uint32_t words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    for (int64_t i = 0; i < count; i++) {
        uint64_t index = first + (uint64_t)i;
        const uint32_t ctr[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream,
                                 (uint32_t)(stream >> 32)};
        tl_philox4x32(out + 4 * i, ctr, words);
    }
}

/* The vector twins keep word w of several blocks in one register. They count in the lowest word
 * alone, so the few groups in which it overflows go to the plain one. */
static bool crosses(uint64_t first, uint32_t group)
{
    return (uint32_t)first > UINT32_MAX - (group - 1);
}

#if defined(__aarch64__)

#define WIDE // attributes of what uses the vector unit
typedef uint32x4_t lane;
typedef struct lanes {
    lane w[4];
} lanes;

static inline lane lane_of(uint32_t word)
{
    return vdupq_n_u32(word);
}

static inline lanes lanes_start(uint64_t first, uint64_t stream)
{
    static const uint32_t iota[4] = {0, 1, 2, 3};
    return (lanes){{vaddq_u32(vdupq_n_u32((uint32_t)first), vld1q_u32(iota)),
                    vdupq_n_u32((uint32_t)(first >> 32)), vdupq_n_u32((uint32_t)stream),
                    vdupq_n_u32((uint32_t)(stream >> 32))}};
}

static inline lanes lanes_round(lanes c, lane k0, lane k1)
{
    uint32x2_t m0 = vdup_n_u32(multiplier[0]), m1 = vdup_n_u32(multiplier[1]);
    uint32x4_t m0q = vdupq_n_u32(multiplier[0]), m1q = vdupq_n_u32(multiplier[1]);
    uint32x4_t a = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(c.w[0]), m0));
    uint32x4_t b = vreinterpretq_u32_u64(vmull_high_u32(c.w[0], m0q));
    uint32x4_t d = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(c.w[2]), m1));
    uint32x4_t e = vreinterpretq_u32_u64(vmull_high_u32(c.w[2], m1q));
    // Hidden from the compiler, which would put the key behind the products and lengthen the chain.
    uint32x4_t keyed1 = veorq_u32(c.w[1], k0), keyed3 = veorq_u32(c.w[3], k1);
    __asm__("" : "+w"(keyed1), "+w"(keyed3));
    return (lanes){{veorq_u32(vuzp2q_u32(d, e), keyed1), vuzp1q_u32(d, e),
                    veorq_u32(vuzp2q_u32(a, b), keyed3), vuzp1q_u32(a, b)}};
}

static inline void lanes_store(uint32_t *out, lanes c)
{
    uint64x2_t a = vreinterpretq_u64_u32(vzip1q_u32(c.w[0], c.w[1]));
    uint64x2_t b = vreinterpretq_u64_u32(vzip2q_u32(c.w[0], c.w[1]));
    uint64x2_t d = vreinterpretq_u64_u32(vzip1q_u32(c.w[2], c.w[3]));
    uint64x2_t e = vreinterpretq_u64_u32(vzip2q_u32(c.w[2], c.w[3]));
    vst1q_u32(out, vreinterpretq_u32_u64(vzip1q_u64(a, d)));
    vst1q_u32(out + 4, vreinterpretq_u32_u64(vzip2q_u64(a, d)));
    vst1q_u32(out + 8, vreinterpretq_u32_u64(vzip1q_u64(b, e)));
    vst1q_u32(out + 12, vreinterpretq_u32_u64(vzip2q_u64(b, e)));
}

#elif defined(__x86_64__)

/* Each word sits in the lower half of a 64-bit lane; the upper halves hold leftovers, which the
 * multiplication does not read. */
typedef __m256i lane;
typedef struct lanes {
    lane w[4];
} lanes;

#define WIDE __attribute__((target("avx2")))

static inline WIDE lane lane_of(uint32_t word)
{
    return _mm256_set1_epi64x(word);
}

static inline WIDE lanes lanes_start(uint64_t first, uint64_t stream)
{
    return (lanes){{_mm256_add_epi64(_mm256_set1_epi64x((int64_t)(first & UINT32_MAX)),
                                     _mm256_set_epi64x(3, 2, 1, 0)),
                    _mm256_set1_epi64x((int64_t)(first >> 32)),
                    _mm256_set1_epi64x((int64_t)(stream & UINT32_MAX)),
                    _mm256_set1_epi64x((int64_t)(stream >> 32))}};
}

static inline WIDE lanes lanes_round(lanes c, lane k0, lane k1)
{
    __m256i p0 = _mm256_mul_epu32(c.w[0], _mm256_set1_epi64x(multiplier[0]));
    __m256i p1 = _mm256_mul_epu32(c.w[2], _mm256_set1_epi64x(multiplier[1]));
    __m256i c0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c.w[1], k0));
    __m256i c2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c.w[3], k1));
    return (lanes){{c0, p1, c2, p0}};
}

static inline WIDE void lanes_store(uint32_t *out, lanes c)
{
    __m256i ab = _mm256_blend_epi32(c.w[0], _mm256_slli_epi64(c.w[1], 32), 0xAA);
    __m256i cd = _mm256_blend_epi32(c.w[2], _mm256_slli_epi64(c.w[3], 32), 0xAA);
    __m256i even = _mm256_unpacklo_epi64(ab, cd), odd = _mm256_unpackhi_epi64(ab, cd);
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}

#endif

#ifdef WIDE
static WIDE void blocks_wide(uint32_t *out, uint64_t key, uint64_t stream, uint64_t first,
                             int64_t count)
{
    enum { GROUP = 12 }; // three registers' worth hides the latency of the multiplications
    for (; count >= GROUP; out += 4 * GROUP, first += GROUP, count -= GROUP) {
        if (crosses(first, GROUP)) {
            blocks_plain(out, key, stream, first, GROUP);
            continue;
        }
        lanes x = lanes_start(first, stream);
        lanes y = lanes_start(first + 4, stream);
        lanes z = lanes_start(first + 8, stream);
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int round = 0; round < ROUNDS; round++) {
            lane v0 = lane_of(k0), v1 = lane_of(k1);
            x = lanes_round(x, v0, v1);
            y = lanes_round(y, v0, v1);
            z = lanes_round(z, v0, v1);
            k0 += weyl[0];
            k1 += weyl[1];
        }
        lanes_store(out, x);
        lanes_store(out + 16, y);
        lanes_store(out + 32, z);
    }
    blocks_plain(out, key, stream, first, count);
}
#endif

int tli_philox_impls(tli_philox_impl out[TLI_PHILOX_IMPLS])
{
    int count = 0;
    out[count++] = (tli_philox_impl){"plain", blocks_plain};
#if defined(__aarch64__)
    out[count++] = (tli_philox_impl){"neon", blocks_wide};
#elif defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) out[count++] = (tli_philox_impl){"avx2", blocks_wide};
#endif
    return count;
}

void tli_philox_blocks(uint32_t *out, uint64_t key, uint64_t stream, uint64_t first, int64_t count)
{
#if defined(__aarch64__)
    blocks_wide(out, key, stream, first, count);
#elif defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) blocks_wide(out, key, stream, first, count);
    else blocks_plain(out, key, stream, first, count);
#else
    blocks_plain(out, key, stream, first, count);
#endif
}
