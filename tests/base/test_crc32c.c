#include "test.h"

#include <stdlib.h>

#include <tilth/base/crc32c.h>
#include <tilth/base/rng.h>

#include "base/crc32c_impl.h"

/* One bit at a time, from the definition. */
static uint32_t reference(uint32_t crc, const unsigned char *p, size_t n)
{
    crc = ~crc;
    for (; n; p++, n--) {
        crc ^= *p;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    }
    return ~crc;
}

static void fill_random(unsigned char *out, size_t n, uint64_t seed)
{
    tl_rng rng;
    tl_rng_init(&rng, seed);
    for (size_t i = 0; i < n; i++) out[i] = (unsigned char)tl_rng_u32(&rng);
}

/* RFC 3720, appendix B.4, and the check value of the catalogues. */
static void test_known_answers(void **state)
{
    (void)state;
    static const unsigned char read_command[48] = {
        0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02,
    };
    unsigned char zeros[32], ones[32], up[32], down[32];
    for (int i = 0; i < 32; i++) {
        zeros[i] = 0;
        ones[i] = 0xff;
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    tli_crc32c_impl impls[TLI_CRC32C_IMPLS];
    int count = tli_crc32c_impls(impls);
    assert_in_range(count, 1, TLI_CRC32C_IMPLS);
    for (int v = 0; v <= count; v++) {
        tli_crc32c_fn *crc = v < count ? impls[v].extend : tl_crc32c;
        assert_int_equal(crc(0, zeros, 32), 0x8a9136aa);
        assert_int_equal(crc(0, ones, 32), 0x62a8ab43);
        assert_int_equal(crc(0, up, 32), 0x46dd794e);
        assert_int_equal(crc(0, down, 32), 0x113fdb5c);
        assert_int_equal(crc(0, read_command, 48), 0xd9963a56);
        assert_int_equal(crc(0, "123456789", 9), 0xe3069283);
        assert_int_equal(crc(0, NULL, 0), 0);
        assert_int_equal(crc(0x12345678, NULL, 0), 0x12345678);
    }
}

static void test_all_lengths_and_alignments(void **state)
{
    (void)state;
    enum { LONGEST = 300, ALIGNMENTS = 16 };
    _Alignas(16) unsigned char bytes[LONGEST + ALIGNMENTS];
    fill_random(bytes, sizeof bytes, 1);
    tli_crc32c_impl impls[TLI_CRC32C_IMPLS];
    int count = tli_crc32c_impls(impls);
    for (size_t at = 0; at < ALIGNMENTS; at++)
        for (size_t n = 0; n <= LONGEST; n++) {
            uint32_t start = (uint32_t)(at * n * 0x9e3779b9);
            uint32_t expected = reference(start, bytes + at, n);
            for (int v = 0; v < count; v++)
                assert_int_equal(impls[v].extend(start, bytes + at, n), expected);
        }
}

/* Around the lengths at which the streams change. Each buffer ends where its memory ends. */
static void test_large(void **state)
{
    (void)state;
    static const size_t around[] = {384,   768,   1536,  3072,  4096,  12288,
                                    13056, 15360, 24576, 98304, 113664};
    tli_crc32c_impl impls[TLI_CRC32C_IMPLS];
    int count = tli_crc32c_impls(impls);
    for (int64_t i = 0; i < TL_COUNT(around); i++)
        for (size_t n = around[i] - 9; n <= around[i] + 9; n++) {
            unsigned char *bytes = malloc(n);
            fill_random(bytes, n, n);
            for (size_t at = 0; at < 8; at++) {
                uint32_t expected = reference(7, bytes + at, n - at);
                for (int v = 0; v < count; v++)
                    assert_int_equal(impls[v].extend(7, bytes + at, n - at), expected);
            }
            free(bytes);
        }
    size_t n = (8 << 20) + 5;
    unsigned char *bytes = malloc(n);
    fill_random(bytes, n, 2);
    uint32_t expected = reference(0, bytes, n);
    for (int v = 0; v < count; v++) assert_int_equal(impls[v].extend(0, bytes, n), expected);
    assert_int_equal(tl_crc32c(0, bytes, n), expected);
    free(bytes);
}

/* In pieces, and from the sums of pieces. */
static void test_extend_and_combine(void **state)
{
    (void)state;
    enum { SIZE = 50000 };
    unsigned char *bytes = malloc(SIZE);
    fill_random(bytes, SIZE, 3);
    uint32_t whole = tl_crc32c(0, bytes, SIZE);
    tl_rng rng;
    tl_rng_init(&rng, 4);
    for (int i = 0; i < 200; i++) {
        size_t cut = i == 0 ? 0 : i == 1 ? SIZE : (size_t)tl_rng_below(&rng, SIZE);
        uint32_t a = tl_crc32c(0, bytes, cut), b = tl_crc32c(0, bytes + cut, SIZE - cut);
        assert_int_equal(tl_crc32c(a, bytes + cut, SIZE - cut), whole);
        assert_int_equal(tl_crc32c_combine(a, b, SIZE - cut), whole);
    }
    free(bytes);
    // Lengths that no buffer has: the cyclic group of x has order 2^31 - 1 (the polynomial is
    // x + 1 times a primitive one of degree 31), so that many bytes shift by nothing.
    assert_int_equal(tl_crc32c_combine(0x12345678, 0, (size_t)INT32_MAX), 0x12345678);
    assert_int_equal(tl_crc32c_combine(0x12345678, 0, (size_t)INT32_MAX << 20), 0x12345678);
    assert_int_not_equal(tl_crc32c_combine(0x12345678, 0, (size_t)INT32_MAX + 1), 0x12345678);
}

static void test_mask(void **state)
{
    (void)state;
    assert_int_equal(tl_crc32c_mask(0), 0xa282ead8);
    assert_int_equal(tl_crc32c_mask(0x00008000), 0xa282ead9);
    assert_int_equal(tl_crc32c_mask(1), 0xa284ead8);
    tl_rng rng;
    tl_rng_init(&rng, 5);
    for (int i = 0; i < 1000; i++) {
        uint32_t crc = tl_rng_u32(&rng);
        assert_int_equal(tl_crc32c_unmask(tl_crc32c_mask(crc)), crc);
        assert_int_not_equal(tl_crc32c_mask(crc), crc);
    }
    // The first record of an event file is 24 bytes long, and files start 18 0... a3 7f 4b 22.
    static const unsigned char length[8] = {24};
    assert_int_equal(tl_crc32c_mask(tl_crc32c(0, length, 8)), 0x224b7fa3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers), cmocka_unit_test(test_all_lengths_and_alignments),
        cmocka_unit_test(test_large),         cmocka_unit_test(test_extend_and_combine),
        cmocka_unit_test(test_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
