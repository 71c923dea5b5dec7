/* Tables: those of TensorFlow are written with the same bytes, damaged ones are refused with the
 * place; and Snappy, which compresses them. */
#include "io/bundles.h"

#include <inttypes.h>

#include <tilth/base/crc32c.h>

#include "io/tensorflow/leveldb_table.h"
#include "io/tensorflow/protobuf.h"
#include "io/tensorflow/snappy.h"

typedef struct collected {
    tli_table_writer *w;
    int64_t count;
} collected;

static tl_status collect(tli_bytes key, tli_bytes value, void *payload)
{
    collected *c = payload;
    c->count++;
    return c->w ? tli_table_add(c->w, key, value) : TL_OK;
}

/* What is written from a table that TensorFlow wrote has its bytes. */
static void test_tables_of_tensorflow(void **state)
{
    (void)state;
    static const char *const names[] = {"objects", "types", "part", "grid", "shards"};
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        char path[512];
        size_t size;
        tl_str table = TL_STR_INIT;
        tli_table_writer w = {.out = &table};
        snprintf(path, sizeof path, GOLDEN "%s.index", names[i]);
        char *data = bytes_of(path, &size);
        assert_ok(tli_table_read(path, data, size, collect, &(collected){.w = &w}));
        assert_ok(tli_table_finish(&w));
        assert_int_equal(table.length, size);
        assert_memory_equal(table.data, data, size);
        tli_table_writer_deinit(&w);
        tl_str_deinit(&table);
        tl_free(data);
    }
}

static tl_status expect_number(tli_bytes key, tli_bytes value, void *payload)
{
    int64_t *next = payload;
    char text[32];
    snprintf(text, sizeof text, "%08" PRId64, *next);
    assert_int_equal(key.size, 8);
    assert_memory_equal(key.data, text, 8);
    assert_int_equal(value.size, (size_t)(*next % 300));
    ++*next;
    return TL_OK;
}

static void test_many_blocks(void **state)
{
    (void)state;
    enum { COUNT = 6000 };
    tl_str table = TL_STR_INIT;
    tli_table_writer w = {.out = &table};
    char text[32], value[300] = {0};
    for (int64_t i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, "%08" PRId64, i);
        assert_ok(tli_table_add(&w, (tli_bytes){text, 8}, (tli_bytes){value, (size_t)(i % 300)}));
    }
    assert_ok(tli_table_finish(&w));
    assert_true(table.length > 3 * TLI_TABLE_BLOCK);
    int64_t next = 0;
    assert_ok(tli_table_read("t", table.data, table.length, expect_number, &next));
    assert_int_equal(next, COUNT);
    tli_table_writer_deinit(&w);
    tl_str_deinit(&table);
}

/* A table with one block, whose bytes are given without what stands behind it. */
static tl_status read_block(const char *block, size_t size, int packing)
{
    tl_str t = TL_STR_INIT;
    size_t at, length;
    tl_str_addn(&t, block, size);
    tl_str_addc(&t, (char)packing);
    tli_put_u32(&t, tl_crc32c_mask(tl_crc32c(0, t.data, size + 1)));
    at = t.length;
    tl_str_addn(&t, "\0\0\0\0\1\0\0\0\0", 9);
    tli_put_u32(&t, tl_crc32c_mask(tl_crc32c(0, t.data + at, 9)));
    length = t.length;
    tl_str_addn(&t, "\0\1\2z\0", 5);
    tl_str_addc(&t, (char)size);
    tl_str_addn(&t, "\0\0\0\0\1\0\0\0\0", 9);
    tli_put_u32(&t, tl_crc32c_mask(tl_crc32c(0, t.data + length, t.length - length)));
    size_t footer = t.length;
    tli_put_varint(&t, at);
    tli_put_varint(&t, 8);
    tli_put_varint(&t, length);
    tli_put_varint(&t, footer - length - TLI_TABLE_TRAILER);
    tl_str_pad(&t, 0, (int64_t)(40 - (t.length - footer)));
    tli_put_u64(&t, TLI_TABLE_MAGIC);
    tl_status st = tli_table_read("t", t.data, t.length, collect, &(collected){0});
    tl_str_deinit(&t);
    return st;
}
#define READ_BLOCK(bytes) read_block(bytes, sizeof(bytes) - 1, 0)
#define RESTART "\0\0\0\0\1\0\0\0"

static void test_wrong_blocks(void **state)
{
    (void)state;
    assert_ok(READ_BLOCK("\0\1\0a\1\1\0b" RESTART));
    assert_ok(READ_BLOCK(RESTART));
    assert_fails(READ_BLOCK("\0\1\0a\0\1\0a" RESTART), TL_EINVAL,
                 "'t' is damaged: byte 4 of the block at byte 0: a key is not greater");
    assert_fails(READ_BLOCK("\0\1\0b\0\1\0a" RESTART), TL_EINVAL, "a key is not greater");
    assert_fails(READ_BLOCK("\0\1\0a\2\1\0b" RESTART), TL_EINVAL, "shares more bytes");
    assert_fails(READ_BLOCK("\0\2\0a" RESTART), TL_EINVAL, "does not fit into the block");
    assert_fails(READ_BLOCK("\0\1\1a" RESTART), TL_EINVAL, "does not fit into the block");
    assert_fails(READ_BLOCK("\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"
                            "a" RESTART),
                 TL_EINVAL, "does not fit into the block");
    assert_fails(READ_BLOCK("\0\1" RESTART), TL_EINVAL, "does not fit into the block");
    assert_fails(READ_BLOCK("\0\1\0a\1\0\0\0\1\0\0\0"), TL_EINVAL,
                 "a restart where no entry begins");
    assert_fails(READ_BLOCK("\0\1\0a\1\1\0b\0\0\0\0\4\0\0\0\2\0\0\0"), TL_EINVAL,
                 "a key at a restart shares bytes");
    assert_fails(READ_BLOCK("\0\1\0a\0\0\0\0"), TL_EINVAL, "more restarts than");
    assert_fails(READ_BLOCK("\0\1\0a\0\0\0\0\3\0\0\0"), TL_EINVAL, "more restarts than");
    assert_fails(READ_BLOCK("\0\0\0\0"), TL_EINVAL, "too short for a block");
    assert_fails(READ_BLOCK("\0\2\0zz" RESTART), TL_EINVAL,
                 "a key of the index is less than those of its block");
    assert_fails(read_block(RESTART, 8, 2), TL_EUNSUPPORTED, "compressed in way 2");
    assert_fails(read_block("\x08\x1c" RESTART, 10, 1), TL_OK, "");
}

static void unpacks(const char *bytes, size_t size, const char *expected, size_t length)
{
    char *out;
    size_t found;
    assert_ok(tli_snappy_unpack(&out, &found, bytes, size));
    assert_int_equal(found, length);
    assert_memory_equal(out, expected, length);
    tl_free(out);
}

static void test_snappy(void **state)
{
    (void)state;
    char *out, large[400];
    size_t size;
    unpacks("\0", 1, "", 0);
    unpacks("\3\x08"
            "abc",
            5, "abc", 3);
    unpacks("\x0b\x08"
            "abc\x11\3",
            7, "abcabcabcab", 11); // 8 from 3 back, over itself
    unpacks("\7\x08"
            "abc\x0e\3\0",
            8, "abcabca", 7); // 4 from 3 back, 2 bytes of offset
    unpacks("\5\x08"
            "abc\7\3\0\0\0",
            10, "abcab", 5); // 2 from 3 back, 4 bytes of offset
    // A literal of 300: its length is in two more bytes.
    memcpy(large, "\xac\2\xf4\x2b\1", 5);
    memset(large + 5, 'x', 300);
    unpacks(large, 305, large + 5, 300);
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } rows[] = {
        {"", 0, "it has no length"},
        {"\x80", 1, "it has no length"},
        {"\xff\xff\xff\xff\xff\xff", 6, "it has no length"},
        {"\xff\xff\xff\x7f\0"
         "a",
         6, "it claims more bytes than it can hold"},
        {"\3\x08"
         "ab",
         4, "it ends within a literal"},
        {"\3\xf0", 2, "it ends within an element"},
        {"\2\x08"
         "abc",
         5, "byte 1: it holds more bytes than it says"},
        {"\4\x08"
         "abc",
         5, "it ends before it gave as many bytes as it says"},
        {"\x0b\x08"
         "abc\x11\4",
         7, "byte 5: it copies from before its begin"},
        {"\x0b\x08"
         "abc\x11\0",
         7, "it copies from before its begin"},
        {"\x0a\x08"
         "abc\x11\3",
         7, "it holds more bytes than it says"},
        {"\x0b\x08"
         "abc\x12\3",
         7, "it ends within an element"},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        assert_fails(tli_snappy_unpack(&out, &size, rows[i].bytes, rows[i].size), TL_EINVAL,
                     rows[i].message);
        assert_null(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_tables_of_tensorflow),
        LAB_TEST(test_many_blocks),
        LAB_TEST(test_wrong_blocks),
        LAB_TEST(test_snappy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
