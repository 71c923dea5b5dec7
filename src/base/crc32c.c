#include <tilth/base/crc32c.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/crc32c_impl.h"

/* Bits are reflected throughout: the highest bit of a word is the coefficient of x^0, so that a
 * message's bytes can be taken in memory order. */
#define POLYNOMIAL UINT32_C(0x82f63b78)
#define ONE UINT32_C(0x80000000)        /* x^0 */
#define BYTE_SHIFT UINT32_C(0x00800000) /* x^8 */

/* --- arithmetic of polynomials, modulo ours --------------------------------------------------- */

static uint32_t times_x(uint32_t a)
{
    return a & 1 ? a >> 1 ^ POLYNOMIAL : a >> 1;
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a; a <<= 1, b = times_x(b))
        if (a & ONE) product ^= b;
    return product;
}

/* What a checksum is multiplied with when `bytes` bytes follow. */
static uint32_t shift_by(size_t bytes)
{
    uint32_t power = ONE;
    for (uint32_t square = BYTE_SHIFT; bytes; bytes >>= 1, square = multiply(square, square))
        if (bytes & 1) power = multiply(power, square);
    return power;
}

uint32_t tl_crc32c_combine(uint32_t crc_a, uint32_t crc_b, size_t length_b)
{
    return multiply(shift_by(length_b), crc_a) ^ crc_b;
}

uint32_t tl_crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

uint32_t tl_crc32c_unmask(uint32_t masked)
{
    uint32_t rotated = masked - UINT32_C(0xa282ead8);
    return rotated >> 17 | rotated << 15;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* Three streams run side by side over neighbouring stretches, longest first: one instruction waits
 * for the one before it in its own stream only. Their sums are put together by a shift over the
 * length of a stretch, looked up four bits at a time. The longest is for the CPU's prefetchers,
 * which need a while to find three places at once. */
enum { STRETCHES = 5, SHORTEST = 128 };
static const size_t stretch_bytes[STRETCHES] = {32768, 4096, 1024, 256, SHORTEST};

static uint32_t after[8][256];             /* byte b, followed by i zero bytes */
static uint32_t shifted[STRETCHES][8][16]; /* four bits at place i, followed by a stretch */
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        after[0][b] = b;
        for (int bit = 0; bit < 8; bit++) after[0][b] = times_x(after[0][b]);
    }
    for (int i = 1; i < 8; i++)
        for (uint32_t b = 0; b < 256; b++)
            after[i][b] = after[i - 1][b] >> 8 ^ after[0][after[i - 1][b] & 0xff];
    for (int s = 0; s < STRETCHES; s++) {
        uint32_t factor = shift_by(stretch_bytes[s]);
        for (uint32_t i = 0; i < 8; i++)
            for (uint32_t b = 0; b < 16; b++) shifted[s][i][b] = multiply(factor, b << 4 * i);
    }
}

/* --- with tables: eight bytes a step ---------------------------------------------------------- */

static uint32_t load32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t extend_table(uint32_t crc, const void *data, size_t n)
{
    const unsigned char *p = data;
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t a = crc ^ load32(p), b = load32(p + 4);
        crc = after[7][a & 0xff] ^ after[6][a >> 8 & 0xff] ^ after[5][a >> 16 & 0xff]
              ^ after[4][a >> 24] ^ after[3][b & 0xff] ^ after[2][b >> 8 & 0xff]
              ^ after[1][b >> 16 & 0xff] ^ after[0][b >> 24];
    }
    for (; n; p++, n--) crc = crc >> 8 ^ after[0][(crc ^ *p) & 0xff];
    return ~crc;
}

/* --- with the CPU's instruction --------------------------------------------------------------- */

#if defined(__aarch64__)

#include <sys/auxv.h>
#include <asm/hwcap.h>

#define HARDWARE "crc32cx"
#ifdef __clang__
#define TARGET __attribute__((target("crc")))
#define step8(crc, word) __builtin_arm_crc32cd(crc, word)
#define step4(crc, word) __builtin_arm_crc32cw(crc, word)
#define step1(crc, byte) __builtin_arm_crc32cb(crc, byte)
#else
#define TARGET __attribute__((target("+crc")))
#define step8(crc, word) __builtin_aarch64_crc32cx(crc, word)
#define step4(crc, word) __builtin_aarch64_crc32cw(crc, word)
#define step1(crc, byte) __builtin_aarch64_crc32cb(crc, byte)
#endif

static bool hardware_present(void)
{
    return getauxval(AT_HWCAP) & HWCAP_CRC32;
}

#elif defined(__x86_64__)

#define HARDWARE "sse4.2"
#define TARGET __attribute__((target("sse4.2")))
#define step8(crc, word) (uint32_t) __builtin_ia32_crc32di(crc, word)
#define step4(crc, word) __builtin_ia32_crc32si(crc, word)
#define step1(crc, byte) __builtin_ia32_crc32qi(crc, byte)

static bool hardware_present(void)
{
    return __builtin_cpu_supports("sse4.2");
}

#endif

#ifdef HARDWARE

static uint64_t load64(const unsigned char *p)
{
    uint64_t word; // least byte first in memory, as on both CPUs above
    memcpy(&word, p, sizeof word);
    return word;
}

static uint32_t shift(uint32_t crc, int stretch)
{
    uint32_t(*table)[16] = shifted[stretch];
    uint32_t sum = 0;
    for (int i = 0; i < 8; i++) sum ^= table[i][crc >> 4 * i & 0xf];
    return sum;
}

static TARGET uint32_t extend_streams(uint32_t crc, const unsigned char **at, size_t *left)
{
    const unsigned char *p = *at;
    size_t n = *left;
    for (; (uintptr_t)p % 8; p++, n--) crc = step1(crc, *p);
    for (int s = 0; s < STRETCHES; s++) {
        const size_t length = stretch_bytes[s];
        for (; n >= 3 * length; p += 3 * length, n -= 3 * length) {
            uint32_t b = 0, c = 0;
            for (size_t i = 0; i < length; i += 8) {
                crc = step8(crc, load64(p + i));
                b = step8(b, load64(p + length + i));
                c = step8(c, load64(p + 2 * length + i));
            }
            crc = shift(shift(crc, s) ^ b, s) ^ c;
        }
    }
    *at = p;
    *left = n;
    return crc;
}

static TARGET uint32_t extend_hardware(uint32_t crc, const void *data, size_t n)
{
    const unsigned char *p = data;
    crc = ~crc;
    if (n >= 3 * SHORTEST) crc = extend_streams(crc, &p, &n);
    for (; n >= 8; p += 8, n -= 8) crc = step8(crc, load64(p));
    if (n & 4) {
        crc = step4(crc, load32(p));
        p += 4;
    }
    for (n &= 3; n; p++, n--) crc = step1(crc, *p);
    return ~crc;
}

#endif

/* --- the choice ------------------------------------------------------------------------------- */

int tli_crc32c_impls(tli_crc32c_impl out[TLI_CRC32C_IMPLS])
{
    pthread_once(&tables_once, make_tables);
    int count = 0;
    out[count++] = (tli_crc32c_impl){"table", extend_table};
#ifdef HARDWARE
    if (hardware_present()) out[count++] = (tli_crc32c_impl){HARDWARE, extend_hardware};
#endif
    return count;
}

static tli_crc32c_fn *choose(void)
{
    tli_crc32c_impl impls[TLI_CRC32C_IMPLS];
    return impls[tli_crc32c_impls(impls) - 1].extend;
}

uint32_t tl_crc32c(uint32_t crc, const void *data, size_t n)
{
    static _Atomic(tli_crc32c_fn *) chosen;
    tli_crc32c_fn *extend = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!extend) {
        extend = choose();
        atomic_store_explicit(&chosen, extend, memory_order_release);
    }
    return extend(crc, data, n);
}
