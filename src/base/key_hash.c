/* SipHash-1-3 (Aumasson and Bernstein), which needs few instructions for short texts. */
#include "base/key_hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t secret[2];

static void draw_secret(void)
{
    if (getrandom(secret, sizeof secret, GRND_NONBLOCK) == (ssize_t)sizeof secret) return;
    struct timespec now; // early at boot: better than nothing
    clock_gettime(CLOCK_REALTIME, &now);
    secret[0] = (uint64_t)now.tv_nsec * UINT64_C(0x9e3779b97f4a7c15);
    secret[1] = (uint64_t)(uintptr_t)&now ^ (uint64_t)now.tv_sec << 32;
}

static uint64_t load_word(const unsigned char *p, size_t count)
{
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++) word |= (uint64_t)p[i] << 8 * i;
    return word;
}

static inline uint64_t turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = turn(v[1], 13) ^ v[0];
    v[3] = turn(v[3], 16) ^ v[2];
    v[0] = turn(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = turn(v[3], 21) ^ v[0];
    v[1] = turn(v[1], 17) ^ v[2];
    v[2] = turn(v[2], 32);
}

static inline void take_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
}

uint64_t tli_key_hash(const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, draw_secret);
    uint64_t v[4] = {
        secret[0] ^ UINT64_C(0x736f6d6570736575), secret[1] ^ UINT64_C(0x646f72616e646f6d),
        secret[0] ^ UINT64_C(0x6c7967656e657261), secret[1] ^ UINT64_C(0x7465646279746573)};
    size_t length = strlen(text), i = 0;
    for (; i + 8 <= length; i += 8) take_word(v, load_word((const unsigned char *)text + i, 8));
    take_word(v, (uint64_t)length << 56 | load_word((const unsigned char *)text + i, length - i));
    v[2] ^= 0xff;
    for (int round = 0; round < 3; round++) mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
