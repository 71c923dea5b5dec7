/* TFRecord files: records come back, every damaged byte is noticed and told with its place,
 * compressed files are read member by member and within their bounds. */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <inttypes.h>
#include <zlib.h>

#include <tilth/base/crc32c.h>
#include <tilth/io/tensorflow/tfrecord.h>

static const struct {
    const char *data;
    size_t size;
} records[] = {{"first", 5}, {"", 0}, {"\0\1\2\xff", 4}, {"the last record of them all", 27}};
enum { COUNT = 4 };

static tl_str make_file(void)
{
    tl_str file = TL_STR_INIT;
    for (int i = 0; i < COUNT; i++) tl_tfrecord_add(&file, records[i].data, records[i].size);
    assert_ok(tl_str_status(&file));
    return file;
}

// All of them are there, in order, and nothing else.
static void check_records(const tl_tfrecord_file *f)
{
    tl_tfrecord_cursor at = {.file = f};
    tl_tfrecord r, again;
    bool more;
    int64_t count, offset = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_ok(tl_tfrecord_next(&at, &r, &more));
        assert_true(more);
        assert_int_equal(r.number, i);
        assert_int_equal(r.offset, offset);
        assert_int_equal(r.next, offset + 16 + (int64_t)records[i].size);
        assert_int_equal(r.size, records[i].size);
        assert_memory_equal(r.data, records[i].data, r.size);
        assert_ok(tl_tfrecord_at(f, offset, -1, &again, &more));
        assert_true(more && again.data == r.data && again.number == -1);
        offset = r.next;
    }
    assert_ok(tl_tfrecord_next(&at, &r, &more));
    assert_false(more);
    assert_int_equal(tl_tfrecord_size(f), offset);
    assert_ok(tl_tfrecord_count(f, &count));
    assert_int_equal(count, COUNT);
}

static void known_bytes_are_written(void **state)
{
    (void)state;
    // Made by TensorFlow's writer.
    static const uint8_t want[] = {3,    0,    0,   0,   0,   0,    0,    0,    0xb0, 0x99,
                                   0x49, 0x0e, 'a', 'b', 'c', 0x6e, 0x57, 0xf1, 0x21};
    tl_str file = TL_STR_INIT;
    tl_tfrecord_add(&file, "abc", 3);
    assert_int_equal(file.length, sizeof want);
    assert_memory_equal(file.data, want, sizeof want);
    tl_str_deinit(&file);
}

static void records_come_back(void **state)
{
    (void)state;
    for (int gzip = 0; gzip < 2; gzip++) {
        tl_tfrecord_writer *w;
        tl_tfrecord_file *f;
        const char *path = in_folder(gzip ? "packed" : "plain");
        assert_ok(tl_tfrecord_writer_begin(&w, path, &(tl_tfrecord_writer_args){.gzip = gzip}));
        for (int i = 0; i < COUNT; i++)
            assert_ok(tl_tfrecord_write(w, records[i].data, records[i].size));
        assert_false(tl_file_exists(path)); // not before it is whole
        assert_ok(tl_tfrecord_writer_commit(&w));
        assert_null(w);
        assert_ok(tl_tfrecord_open(&f, path, NULL));
        assert_int_equal(tl_tfrecord_is_packed(f), gzip);
        assert_string_equal(tl_tfrecord_path(f), path);
        check_records(f);
        tl_tfrecord_close(&f);
        tl_tfrecord_args other = {.packing = gzip ? TL_TFRECORD_PLAIN : TL_TFRECORD_PACKED};
        if (gzip) {
            tl_tfrecord r;
            bool more;
            assert_ok(tl_tfrecord_open(&f, path, &other));
            assert_fails(tl_tfrecord_at(f, 0, 0, &r, &more), TL_EINVAL, "or no TFRecord file");
            tl_tfrecord_close(&f);
        } else {
            assert_fails(tl_tfrecord_open(&f, path, &other), TL_EINVAL, "neither gzip nor zlib");
        }
    }
}

static void an_aborted_file_is_not_there(void **state)
{
    (void)state;
    tl_tfrecord_writer *w;
    assert_ok(
        tl_tfrecord_writer_begin(&w, in_folder("gone"), &(tl_tfrecord_writer_args){.gzip = true}));
    assert_ok(tl_tfrecord_write(w, "x", 1));
    tl_tfrecord_writer_abort(&w);
    assert_null(w);
    assert_false(tl_file_exists(in_folder("gone")));
    tl_tfrecord_writer_abort(&w);
    assert_fails(tl_tfrecord_writer_begin(&w, in_folder("x"),
                                          &(tl_tfrecord_writer_args){.gzip = true, .level = 11}),
                 TL_EINVAL, "1 (fast) to 9 (small), not 11");
    assert_fails(tl_tfrecord_writer_begin(&w, in_folder("no/where"), NULL), TL_ENOTFOUND,
                 "no/where");
    tl_tfrecord_file *f;
    assert_fails(tl_tfrecord_open(&f, in_folder("nothing"), NULL), TL_ENOTFOUND, "nothing");
    assert_null(f);
}

static void an_empty_file_has_no_records(void **state)
{
    (void)state;
    tl_tfrecord_file *f;
    tl_tfrecord r;
    bool more = true;
    assert_ok(tl_tfrecord_from_memory(&f, "empty", "", 0, NULL));
    assert_ok(tl_tfrecord_at(f, 0, 0, &r, &more));
    assert_false(more);
    tl_tfrecord_close(&f);
    assert_ok(tl_tfrecord_from_memory(&f, "empty", "", 0,
                                      &(tl_tfrecord_args){.packing = TL_TFRECORD_PACKED}));
    tl_tfrecord_close(&f);
}

// Reads to the end or to the first failure, of which it gives the record's number.
static int64_t read_all(const tl_str *file, tl_status *st)
{
    tl_tfrecord_file *f;
    *st = tl_tfrecord_from_memory(&f, "some file", file->data, file->length,
                                  &(tl_tfrecord_args){.packing = TL_TFRECORD_PLAIN});
    assert_int_equal(*st, TL_OK);
    tl_tfrecord_cursor at = {.file = f};
    tl_tfrecord r;
    for (bool more = true; more && *st == TL_OK;) *st = tl_tfrecord_next(&at, &r, &more);
    tl_tfrecord_close(&f);
    return at.number;
}

static int64_t record_of(size_t byte)
{
    int64_t i = 0;
    for (size_t end = 16 + records[0].size; byte >= end; end += 16 + records[++i].size) continue;
    return i;
}

static void every_damaged_bit_is_noticed(void **state)
{
    (void)state;
    tl_str file = make_file();
    tl_status st;
    for (size_t i = 0; i < file.length; i++)
        for (int bit = 0; bit < 8; bit++) {
            file.data[i] ^= (char)(1 << bit);
            int64_t number = read_all(&file, &st);
            assert_int_equal(st, TL_EINVAL);
            assert_int_equal(number, record_of(i));
            file.data[i] ^= (char)(1 << bit);
        }
    file.data[21 + 16 + 13] ^= 1;
    read_all(&file, &st);
    assert_string_equal(tl_error_message(),
                        "'some file', record 2 at byte 37: the checksum of the record's data is "
                        "wrong: the file is damaged");
    tl_str_deinit(&file);
}

static void every_cut_is_noticed(void **state)
{
    (void)state;
    tl_str file = make_file();
    size_t whole = file.length, end = 0;
    int64_t complete = 0;
    tl_status st;
    for (size_t size = 0; size < whole; size++) {
        if (complete < COUNT && size == end + 16 + records[complete].size)
            end += 16 + records[complete++].size;
        file.length = size;
        int64_t number = read_all(&file, &st);
        assert_int_equal(number, complete);
        assert_int_equal(st, size == end ? TL_OK : TL_EINVAL);
        if (size == end + 11)
            assert_non_null(strstr(tl_error_message(), "ends within the record's head"));
        if (size == end + 15) assert_non_null(strstr(tl_error_message(), "it was cut short"));
    }
    tl_str_deinit(&file);
}

// A length that no file can have, with the right checksum.
static void a_huge_length_is_a_cut_file(void **state)
{
    (void)state;
    tl_str file = make_file();
    tl_status st;
    for (uint64_t size = UINT64_MAX - 40; size != 3; size++) {
        for (int i = 0; i < 8; i++) file.data[i] = (char)(size >> 8 * i);
        uint32_t crc = tl_crc32c_mask(tl_crc32c(0, file.data, 8));
        for (int i = 0; i < 4; i++) file.data[8 + i] = (char)(crc >> 8 * i);
        assert_int_equal(read_all(&file, &st), 0);
        assert_int_equal(st, TL_EINVAL);
    }
    tl_str_deinit(&file);
}

static void offsets_that_are_none_are_refused(void **state)
{
    (void)state;
    tl_str file = make_file();
    tl_tfrecord_file *f;
    tl_tfrecord r;
    bool more;
    assert_ok(tl_tfrecord_from_memory(&f, "f", file.data, file.length, NULL));
    assert_fails(tl_tfrecord_at(f, -1, 0, &r, &more), TL_EINVAL, "no record at byte -1");
    assert_fails(tl_tfrecord_at(f, (int64_t)file.length + 1, 0, &r, &more), TL_EINVAL,
                 "and no record at byte");
    assert_fails(tl_tfrecord_at(f, 1, -1, &r, &more), TL_EINVAL,
                 "'f', the record at byte 1: the checksum");
    assert_false(more);
    file.data[16] ^= 1; // the head does not look at the data
    assert_ok(tl_tfrecord_head(f, 0, 0, &r, &more));
    assert_true(more);
    assert_fails(tl_tfrecord_at(f, 0, 0, &r, &more), TL_EINVAL, "record 0 at byte 0");
    tl_tfrecord_close(&f);
    tl_str_deinit(&file);
}

/* --- compressed ------------------------------------------------------------------------------- */

// One member by zlib itself: gzip with 31 window bits, zlib with 15.
static void pack(tl_str *out, const char *data, size_t size, int window)
{
    uint8_t buffer[4096];
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    int code;
    do {
        z.next_out = buffer;
        z.avail_out = sizeof buffer;
        code = deflate(&z, Z_FINISH);
        tl_str_addn(out, (const char *)buffer, sizeof buffer - z.avail_out);
    } while (code == Z_OK);
    assert_int_equal(code, Z_STREAM_END);
    deflateEnd(&z);
}

static void members_of_gzip_are_joined(void **state)
{
    (void)state;
    tl_str file = make_file(), packed = TL_STR_INIT;
    tl_tfrecord_file *f;
    for (size_t cut = 0; cut <= file.length; cut += 7) { // also within a record
        tl_str_cut(&packed, 0);
        pack(&packed, file.data, cut, 31);
        pack(&packed, file.data + cut, file.length - cut, 31);
        assert_ok(tl_tfrecord_from_memory(&f, "two members", packed.data, packed.length, NULL));
        assert_true(tl_tfrecord_is_packed(f));
        check_records(f);
        tl_tfrecord_close(&f);
    }
    tl_str_cut(&packed, 0);
    pack(&packed, file.data, file.length, 15);
    assert_ok(tl_tfrecord_from_memory(&f, "zlib", packed.data, packed.length, NULL));
    check_records(f);
    tl_tfrecord_close(&f);
    tl_str_deinit(&packed);
    tl_str_deinit(&file);
}

static void damaged_streams_are_noticed(void **state)
{
    (void)state;
    tl_str file = make_file(), packed = TL_STR_INIT;
    tl_tfrecord_file *f;
    pack(&packed, file.data, file.length, 31);
    const tl_tfrecord_args must = {.packing = TL_TFRECORD_PACKED};
    for (size_t size = 1; size < packed.length; size++) {
        assert_int_equal(tl_tfrecord_from_memory(&f, "cut", packed.data, size, &must), TL_EINVAL);
        assert_null(f);
    }
    assert_non_null(
        strstr(tl_error_message(), "'cut' is cut short: its compressed data goes on after byte"));
    packed.data[packed.length - 6] ^= 1; // gzip's own checksum
    assert_fails(tl_tfrecord_from_memory(&f, "p", packed.data, packed.length, NULL), TL_EINVAL,
                 "'p' is damaged: its compressed data near byte");
    packed.data[packed.length - 6] ^= 1;
    for (int i = 0; i < 2; i++) { // zeros that fill a file up do not count
        tl_str_addn(&packed, "\0\0\0\0\0\0\0", 7);
        assert_ok(tl_tfrecord_from_memory(&f, "filled up", packed.data, packed.length, NULL));
        check_records(f);
        assert_true(tl_tfrecord_begins(f));
        tl_tfrecord_close(&f);
    }
    tl_str_add(&packed, "and more");
    assert_fails(tl_tfrecord_from_memory(&f, "p", packed.data, packed.length, NULL), TL_EINVAL,
                 "is not gzip");
    tl_str_deinit(&packed);
    tl_str_deinit(&file);
}

static void a_stream_may_not_become_too_large(void **state)
{
    (void)state;
    static char zeros[1 << 20];
    tl_str file = TL_STR_INIT, packed = TL_STR_INIT;
    tl_tfrecord_file *f;
    tl_tfrecord_add(&file, zeros, sizeof zeros);
    pack(&packed, file.data, file.length, 31);
    assert_true(packed.length < 2000);
    tl_tfrecord_args args = {.limit = file.length - 1};
    assert_fails(tl_tfrecord_from_memory(&f, "bomb", packed.data, packed.length, &args), TL_ELIMIT,
                 "'bomb' holds more than the 1048591 bytes that are accepted when its");
    args.limit++;
    assert_ok(tl_tfrecord_from_memory(&f, "bomb", packed.data, packed.length, &args));
    tl_tfrecord_close(&f);
    tl_str_deinit(&packed);
    tl_str_deinit(&file);
}

// The bytes of this length are those that gzip begins with.
static void a_length_that_looks_like_gzip_is_a_length(void **state)
{
    (void)state;
    static char data[0x088b1f];
    tl_str file = TL_STR_INIT;
    tl_tfrecord_file *f;
    tl_tfrecord r;
    bool more;
    tl_tfrecord_add(&file, data, sizeof data);
    assert_memory_equal(file.data, "\x1f\x8b\x08", 3);
    assert_ok(tl_tfrecord_from_memory(&f, "f", file.data, file.length, NULL));
    assert_false(tl_tfrecord_is_packed(f));
    assert_ok(tl_tfrecord_at(f, 0, 0, &r, &more));
    assert_int_equal(r.size, sizeof data);
    tl_tfrecord_close(&f);
    tl_str_deinit(&file);
}

static tl_status everything(void)
{
    tl_tfrecord_writer *w = NULL;
    tl_tfrecord_file *f = NULL;
    tl_status st;
    TL_TRY_DONE(
        st, tl_tfrecord_writer_begin(&w, in_folder("e"), &(tl_tfrecord_writer_args){.gzip = true}));
    TL_TRY_DONE(st, tl_tfrecord_write(w, "abc", 3));
    TL_TRY_DONE(st, tl_tfrecord_writer_commit(&w));
    TL_TRY_DONE(st, tl_tfrecord_open(&f, in_folder("e"), NULL));
done:
    tl_tfrecord_writer_abort(&w);
    tl_tfrecord_close(&f);
    return st;
}

// Pages that are gone would end the process when they are touched; guarded they read as zeros.
static void a_file_that_was_cut_is_noticed(void **state)
{
    (void)state;
    enum { RECORDS = 32, SIZE = 8000 };
    static const char zeros[SIZE];
    tl_tfrecord_writer *w;
    tl_tfrecord_file *f;
    tl_tfrecord r;
    bool more;
    assert_ok(tl_tfrecord_writer_begin(&w, in_folder("cut"), NULL));
    for (int i = 0; i < RECORDS; i++) assert_ok(tl_tfrecord_write(w, zeros, SIZE));
    assert_ok(tl_tfrecord_writer_commit(&w));
    assert_ok(tl_tfrecord_open(&f, in_folder("cut"), NULL));
    for (int i = 0; i < RECORDS; i++) assert_ok(tl_tfrecord_at(f, i * (SIZE + 16), i, &r, &more));
    assert_int_equal(truncate(in_folder("cut"), SIZE + 16), 0);
    assert_fails(tl_tfrecord_at(f, 20 * (SIZE + 16), 20, &r, &more), TL_EIO, "became shorter");
    assert_fails(tl_tfrecord_head(f, 10 * (SIZE + 16), 10, &r, &more), TL_EIO, "became shorter");
    tl_tfrecord_close(&f);
}

// Also at the place where it was read last, and where a file has less than a page.
static void a_file_that_was_cut_is_not_read_at_the_same_place(void **state)
{
    (void)state;
    enum { FILES = 40 };
    tl_tfrecord_file *files[FILES];
    tl_tfrecord_writer *w;
    tl_tfrecord r;
    bool more;
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "empty-%d", i);
        assert_ok(tl_tfrecord_writer_begin(&w, in_folder(name), NULL));
        assert_ok(tl_tfrecord_write(w, "one record", 10));
        assert_ok(tl_tfrecord_writer_commit(&w));
        assert_ok(tl_tfrecord_open(&files[i], in_folder(name), NULL));
        assert_ok(tl_tfrecord_at(files[i], 0, 0, &r, &more));
        assert_true(more);
        assert_int_equal(truncate(in_folder(name), 0), 0);
    }
    for (int i = 0; i < FILES; i++) {
        assert_fails(tl_tfrecord_at(files[i], 0, 0, &r, &more), TL_EIO, "became shorter");
        tl_tfrecord_close(&files[i]);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_survives_failures(everything, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bytes_are_written),
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(an_aborted_file_is_not_there),
        cmocka_unit_test(an_empty_file_has_no_records),
        cmocka_unit_test(every_damaged_bit_is_noticed),
        cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(a_huge_length_is_a_cut_file),
        cmocka_unit_test(offsets_that_are_none_are_refused),
        cmocka_unit_test(members_of_gzip_are_joined),
        cmocka_unit_test(damaged_streams_are_noticed),
        cmocka_unit_test(a_stream_may_not_become_too_large),
        cmocka_unit_test(a_length_that_looks_like_gzip_is_a_length),
        cmocka_unit_test(a_file_that_was_cut_is_noticed),
        cmocka_unit_test(a_file_that_was_cut_is_not_read_at_the_same_place),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
