#include "base/inner/sha256.h"

#include <string.h>

enum { BLOCK = 64, ROUNDS = 64 };

/* The first 32 bits behind the point of the cube roots of the first 64 primes. */
static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void take_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[ROUNDS], s[8];
    for (int i = 0; i < 16; i++) w[i] = big_endian(block + 4 * i);
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7]
               + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t mixed = turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25);
        uint32_t chosen = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t first = s[7] + mixed + chosen + constants[i] + w[i];
        uint32_t most = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t second = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + most;
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + second;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

void tli_sha256(uint8_t out[TLI_SHA256_BYTES], const void *data, size_t size)
{
    // The same bits of the square roots of the first 8 primes.
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *bytes = data;
    size_t left = size;
    for (; left >= BLOCK; left -= BLOCK, bytes += BLOCK) take_block(state, bytes);
    // Behind the bytes stand a bit, zeros, and how many bits they are.
    uint8_t end[2 * BLOCK] = {0};
    size_t end_size = left + 9 > BLOCK ? 2 * BLOCK : BLOCK;
    if (left) memcpy(end, bytes, left);
    end[left] = 0x80;
    for (int i = 0; i < 8; i++)
        end[end_size - 1 - (size_t)i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    for (size_t at = 0; at < end_size; at += BLOCK) take_block(state, end + at);
    for (int i = 0; i < TLI_SHA256_BYTES; i++) out[i] = (uint8_t)(state[i / 4] >> (24 - i % 4 * 8));
}

void tli_hmac_sha256(uint8_t out[TLI_SHA256_BYTES], const void *key, size_t key_size,
                     const void *data, size_t size)
{
    uint8_t inner[BLOCK + TLI_HMAC_MOST] = {0}, outer[BLOCK + TLI_SHA256_BYTES] = {0};
    TL_ASSERT(key_size <= BLOCK && size <= TLI_HMAC_MOST);
    memcpy(inner, key, key_size);
    memcpy(outer, key, key_size);
    for (int i = 0; i < BLOCK; i++) inner[i] ^= 0x36, outer[i] ^= 0x5c;
    memcpy(inner + BLOCK, data, size);
    tli_sha256(outer + BLOCK, inner, BLOCK + size);
    tli_sha256(out, outer, sizeof outer);
}

void tli_sha256_text(char out[TLI_SHA256_TEXT], const void *data, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t sum[TLI_SHA256_BYTES];
    tli_sha256(sum, data, size);
    for (int i = 0; i < TLI_SHA256_BYTES; i++) {
        out[2 * i] = digits[sum[i] >> 4];
        out[2 * i + 1] = digits[sum[i] & 15];
    }
    out[TLI_SHA256_TEXT - 1] = '\0';
}
