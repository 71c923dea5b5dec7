/* Small files that were made to take all memory or time: each is refused with a message that says
 * the limit, or takes memory in proportion to its size. takes: long */
#include "security/child.h"

#include <zlib.h>

#include <tilth/base/crc32c.h>
#include <tilth/base/map.h>
#include <tilth/base/str.h>
#include <tilth/io/image/image.h>
#include <tilth/io/table.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#include "base/key_hash.h"
#include "io/tensorflow/leveldb_table.h"
#include "io/tensorflow/protobuf.h"

/* --- gzip ------------------------------------------------------------------------------------- */

enum { PIECE = 16 << 20 };

/* A stream of deflate in pieces that do not refer to one another, so that a piece can be there many
 * times. */
static void add_piece(tl_str *out, const void *data, size_t size, int flush)
{
    z_stream z = {0};
    size_t room = size / 256 + 65536;
    Bytef *packed = tl_alloc(room);
    assert_non_null(packed);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = packed;
    z.avail_out = (uInt)room;
    assert_true(deflate(&z, flush) >= Z_OK && z.avail_in == 0 && z.avail_out > 0);
    tl_str_addn(out, (const char *)packed, room - z.avail_out);
    deflateEnd(&z);
    tl_free(packed);
}

/* One stream, right to its checksum: a head, and then `pieces` times 16 MiB of a pattern. Few of
 * these are ever in memory. */
static void put_gzip(const char *name, const void *head, size_t head_size, const char *pattern,
                     int pieces)
{
    static const char begin[] = "\x1f\x8b\x08\0\0\0\0\0\0\xff";
    tl_str file = TL_STR_INIT, piece = TL_STR_INIT;
    char *data = tl_alloc(PIECE);
    assert_non_null(data);
    for (size_t i = 0, length = strlen(pattern) ? strlen(pattern) : 1; i < PIECE; i++)
        data[i] = pattern[i % length];
    tl_str_addn(&file, begin, 10);
    add_piece(&file, head, head_size, Z_FULL_FLUSH);
    add_piece(&piece, data, PIECE, Z_FULL_FLUSH);
    uLong crc = crc32(0, head, (uInt)head_size), of_piece = crc32(0, (const Bytef *)data, PIECE);
    for (int i = 0; i < pieces; i++) {
        tl_str_addn(&file, piece.data, piece.length);
        crc = crc32_combine(crc, of_piece, PIECE);
    }
    tl_str_addn(&file, "\3\0", 2);
    tli_put_u32(&file, (uint32_t)crc);
    tli_put_u32(&file, (uint32_t)(head_size + (size_t)pieces * PIECE));
    assert_ok(tl_str_status(&file));
    put_bytes(in_folder(name), file.data, file.length);
    tl_str_deinit(&file);
    tl_str_deinit(&piece);
    tl_free(data);
}

static void check_gzip(const char *name)
{
    tl_file_info info;
    assert_ok(tl_file_stat(&info, in_folder(name)));
    assert_true(info.size > 1000000 && info.size < 1100000);
    child_run("data", "show", in_folder(name));
    child_ended(2, "bytes that are accepted when its");
    child_ended(2, "TILTH_UNPACK_LIMIT=");
    child_took_less(300);
}

static void a_megabyte_that_holds_a_gigabyte_is_refused(void **state)
{
    (void)state;
    const char idx[] = "\0\0\x08\1\x40\0\0\0", record[] = "\0\0\0\x40\0\0\0\0\0\0\0\0",
               csv[] = "a,b\n";
    put_gzip("labels-idx1-ubyte.gz", idx, 8, "", 64);
    check_gzip("labels-idx1-ubyte.gz");
    put_gzip("train.tfrecord.gz", record, 12, "", 64);
    check_gzip("train.tfrecord.gz");
    put_gzip("rows.csv.gz", csv, 4, "1,2\n", 64);
    check_gzip("rows.csv.gz");
}

static void tables_are_bounded_too(void **state)
{
    (void)state;
    tl_table *t;
    put_gzip("rows.csv.gz", "a,b\n", 4, "1,2\n", 8);
    assert_fails(tl_table_open(&t, in_folder("rows.csv.gz"), &(tl_table_args){0}), TL_ELIMIT,
                 "TILTH_UNPACK_LIMIT=");
}

static void the_limit_can_be_raised(void **state)
{
    (void)state;
    put_gzip("images-idx3-ubyte.gz", "\0\0\x08\3\0\0\0\x50\0\0\4\0\0\0\4\0", 16, "", 5);
    child_run("data", "show", in_folder("images-idx3-ubyte.gz"));
    child_ended(2, "67108864 bytes that are accepted");
    assert_int_equal(setenv("TILTH_UNPACK_LIMIT", "100000000", 1), 0);
    child_run("data", "show", in_folder("images-idx3-ubyte.gz"));
    child_ended(0, "");
    assert_int_equal(setenv("TILTH_UNPACK_LIMIT", "1000000", 1), 0);
    child_run("data", "show", in_folder("images-idx3-ubyte.gz"));
    child_ended(2, "1000000 bytes that are accepted");
    unsetenv("TILTH_UNPACK_LIMIT");
}

/* --- safetensors ------------------------------------------------------------------------------ */

/* Of a length that nobody who reads headers of up to 10 MB can refuse; a part of it shows the same
 * proportion sooner. Under sanitizers everything is slow, and memory is not looked at. */
enum { WHOLE = 9900000 };
static size_t most;
/* Of an entry its description, its state, and its line are kept: for each byte of its text no more
 * than this. */
enum { MOST_FOR_A_BYTE = 32 };

static tl_str header = TL_STR_INIT;

static int setup(void **state)
{
    most = getenv("TILTH_ALL_CASES") ? WHOLE : WHOLE / (SANITIZED ? 50 : 10);
    return child_setup(state);
}
#define HEADER_TEST(f) cmocka_unit_test_setup_teardown(f, setup, child_teardown)

static void put_safetensors(const char *name)
{
    tl_str file = TL_STR_INIT;
    tli_put_u64(&file, header.length);
    tl_str_addn(&file, header.data, header.length);
    assert_ok(tl_str_status(&file));
    assert_ok(tl_str_status(&header));
    put_bytes(in_folder(name), file.data, file.length);
    tl_str_deinit(&file);
    tl_str_deinit(&header);
    header = (tl_str)TL_STR_INIT;
}

static void show_ckpt(const char *name)
{
    child_run("ckpt", "show", in_folder(name));
    child_took_less(10 + (long)most * MOST_FOR_A_BYTE / 1000000);
    assert_true(child_said < 4 * (int64_t)most);
}

#define EMPTY_TENSOR "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}"

static void headers_take_memory_in_proportion(void **state)
{
    (void)state;
    tl_str_add(&header, "{");
    for (int i = 0; header.length < most; i++)
        tl_str_addf(&header, "%s\"%x\":" EMPTY_TENSOR, i ? "," : "", i);
    tl_str_add(&header, "}");
    put_safetensors("entries.safetensors");
    show_ckpt("entries.safetensors");
    child_ended(0, "");
    tl_str_add(&header, "{\"__metadata__\":{");
    for (int i = 0; header.length < most; i++)
        tl_str_addf(&header, "%s\"%x\":\"\"", i ? "," : "", i);
    tl_str_add(&header, "}}");
    put_safetensors("notes.safetensors");
    show_ckpt("notes.safetensors");
    child_ended(0, "");
}

static void shapes_of_a_million_numbers_are_refused(void **state)
{
    (void)state;
    tl_str_add(&header, "{\"a\":{\"dtype\":\"U8\",\"shape\":[0");
    while (header.length < most) tl_str_add(&header, ",0");
    tl_str_add(&header, "],\"data_offsets\":[0,0]}}");
    put_safetensors("shape.safetensors");
    show_ckpt("shape.safetensors");
    child_ended(1, "longer than the 65536 that are accepted");
    tl_str_add(&header, "{\"a\":");
    tl_str_pad(&header, '[', (int64_t)most);
    put_safetensors("depth.safetensors");
    show_ckpt("depth.safetensors");
    child_ended(1, "longer than the 65536 that are accepted");
}

/* Every name of a path is a state. */
static void paths_do_not_multiply_memory(void **state)
{
    (void)state;
    tl_str_add(&header, "{");
    for (int i = 0; header.length < most; i++) {
        tl_str_addf(&header, "%s\"%x", i ? "," : "", i);
        for (int k = 0; k < 60; k++) tl_str_add(&header, "/a");
        tl_str_add(&header, "\":" EMPTY_TENSOR);
    }
    tl_str_add(&header, "}");
    put_safetensors("paths.safetensors");
    show_ckpt("paths.safetensors");
    child_ended(2, "are accepted (1024 and 2 for each)");
}

/* A type that is not known has no state, and its name may be as long as the header. */
static void a_long_name_does_not_widen_every_line(void **state)
{
    (void)state;
    tl_str_add(&header, "{\"");
    tl_str_pad(&header, 'x', (int64_t)most / 2);
    tl_str_add(&header, "\":{\"dtype\":\"F4\",\"shape\":[0],\"data_offsets\":[0,0]}");
    for (int i = 0; header.length < most; i++) tl_str_addf(&header, ",\"%x\":" EMPTY_TENSOR, i);
    tl_str_add(&header, "}");
    put_safetensors("width.safetensors");
    show_ckpt("width.safetensors");
    child_ended(0, "");
}

/* --- checkpoints, with their checksum --------------------------------------------------------- */

#define OPENING "{\"__metadata__\":{\"tilth.crc32c\":\""

static void begin_checkpoint(void)
{
    tl_str_add(&header, OPENING
               "00000000\",\"tilth.format\":\"1\",\"tilth.entries\":\"[[\\\"a\\\",\\\"tensor\\\"");
}

static void put_checkpoint(const char *name)
{
    char length[8], digits[9];
    tl_str_add(&header, "]]\"},\"a\":" EMPTY_TENSOR "}");
    for (int i = 0; i < 8; i++) length[i] = (char)((uint64_t)header.length >> 8 * i);
    uint32_t crc = tl_crc32c(tl_crc32c(0, length, 8), header.data, header.length);
    snprintf(digits, sizeof digits, "%08x", (unsigned)crc);
    memcpy(header.data + strlen(OPENING), digits, 8);
    put_safetensors(name);
}

static void the_list_of_a_checkpoint_is_bounded(void **state)
{
    (void)state;
    begin_checkpoint();
    for (int i = 0; header.length < most; i++)
        tl_str_addf(&header, "],[\\\"%d\\\",\\\"same\\\",\\\"a\\\"", i);
    put_checkpoint("same.safetensors");
    show_ckpt("same.safetensors");
    child_ended(0, "");
    begin_checkpoint();
    while (header.length < most) tl_str_add(&header, ",0");
    put_checkpoint("row.safetensors");
    show_ckpt("row.safetensors");
    child_ended(2, "longer than the 65536 that are accepted");
    begin_checkpoint();
    tl_str_add(&header, "],");
    tl_str_pad(&header, '[', 60000);
    put_checkpoint("depth.safetensors");
    show_ckpt("depth.safetensors");
    child_ended(2, "maximum parsing depth");
}

/* --- settings and runs ------------------------------------------------------------------------ */

static void endless_made_up_data_is_refused(void **state)
{
    (void)state;
    child_run("params", "--experiment=vision/local",
              "task.train_data.synthetic_examples=9223372036854775807");
    child_ended(2, "between 1 and 100000000");
}

static void lines_of_metrics_are_bounded(void **state)
{
    (void)state;
    enum { LINE = 8 << 20 };
    tl_str text = TL_STR_INIT;
    tl_str_add(&text, "{\"event\":\"train\",\"step\":1,\"metrics\":{\"loss\":1}}\n{\"event\":"
                      "\"train\",\"step\":2,\"x\":[0");
    while (text.length < LINE) tl_str_add(&text, ",0");
    tl_str_add(&text, "]}\n");
    tl_str_pad(&text, '[', LINE);
    tl_str_add(&text, "\n");
    assert_ok(tl_str_status(&text));
    put_bytes(in_folder("metrics.jsonl"), text.data, text.length);
    tl_str_deinit(&text);
    child_run("compare", folder);
    child_ended(1, "2 lines are not understood");
    child_took_less(100);
    child_run("plot", folder);
    child_ended(1, "2 lines are not understood");
    child_took_less(100);
}

/* --- sizes that a file only claims ------------------------------------------------------------ */

static void add_chunk(tl_str *png, const char *type, const void *data, size_t size)
{
    uLong crc = crc32(crc32(0, (const Bytef *)type, 4), data, (uInt)size);
    for (int i = 3; i >= 0; i--) tl_str_addc(png, (char)(size >> 8 * i));
    tl_str_addn(png, type, 4);
    tl_str_addn(png, data, size);
    for (int i = 3; i >= 0; i--) tl_str_addc(png, (char)(crc >> 8 * i));
}

static tl_status decode_png(uint32_t side)
{
    tl_str png = TL_STR_INIT;
    tl_image image = TL_IMAGE_INIT;
    uint8_t head[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 2};
    for (int i = 0; i < 4; i++) head[i] = head[4 + i] = (uint8_t)(side >> (24 - 8 * i));
    tl_str_addn(&png, "\x89PNG\r\n\x1a\n", 8);
    add_chunk(&png, "IHDR", head, sizeof head);
    add_chunk(&png, "IDAT", "\x78\x9c\x03\0\0\0\0\1", 8);
    add_chunk(&png, "IEND", "", 0);
    tl_status st = tl_image_decode(&image, png.data, png.length, NULL);
    tl_image_deinit(&image);
    tl_str_deinit(&png);
    return st;
}

static void images_have_sizes_in_proportion(void **state)
{
    (void)state;
    assert_fails(decode_png(0x7fffffff), TL_EINVAL, "PNG");
    assert_fails(decode_png(16384), TL_ELIMIT, "no more than 67108864 are accepted");
    assert_fails(decode_png(16384), TL_ELIMIT, "TILTH_UNPACK_LIMIT=");
    assert_fails(decode_png(64), TL_EINVAL, "PNG"); // it is only cut short
    assert_int_equal(setenv("TILTH_UNPACK_LIMIT", "4000", 1), 0);
    assert_fails(decode_png(64), TL_ELIMIT, "no more than 4000 are accepted");
    unsetenv("TILTH_UNPACK_LIMIT");
}

static void put_npy(const char *shape)
{
    tl_str file = TL_STR_INIT, text = TL_STR_INIT;
    tl_str_addf(&text, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
    tl_str_pad(&text, ' ', 117 - (int64_t)text.length);
    tl_str_addn(&file, "\x93NUMPY\1\0\x76\0", 10);
    tl_str_addf(&file, "%s\n", tl_str_text(&text));
    put_bytes(in_folder("x.npy"), file.data, file.length);
    tl_str_deinit(&file);
    tl_str_deinit(&text);
}

static void tables_do_not_believe_their_heads(void **state)
{
    (void)state;
    static const char *const shapes[] = {"(1000000000000, 4)",
                                         "(9223372036854775807, 9223372036854775807)",
                                         "(1, 1000000000000)", "(1000000000000, 0)"};
    tl_table *t;
    for (int i = 0; i < TL_COUNT(shapes); i++) {
        put_npy(shapes[i]);
        tl_status st = tl_table_open(&t, in_folder("x.npy"), &(tl_table_args){0});
        if (st == TL_OK || !strstr(tl_error_message(), "x.npy"))
            fail_msg("%s: %s", shapes[i], tl_error_message());
    }
    tl_str text = TL_STR_INIT;
    for (int i = 0; i < 2000000; i++) tl_str_add(&text, "1,");
    put_bytes(in_folder("x.csv"), text.data, text.length);
    tl_str_deinit(&text);
    assert_int_not_equal(tl_table_open(&t, in_folder("x.csv"), &(tl_table_args){0}), TL_OK);
}

static void frames_do_not_believe_their_heads(void **state)
{
    (void)state;
    tl_str file = TL_STR_INIT;
    put_bytes(in_folder("x-idx3-ubyte"),
              "\0\0\x08\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
    child_run("data", "show", in_folder("x-idx3-ubyte"));
    child_ended(2, "too many elements");
    put_bytes(in_folder("y-idx3-ubyte"), "\0\0\x08\3\x7f\xff\xff\xff\0\0\0\1\0\0\0\1", 16);
    child_run("data", "show", in_folder("y-idx3-ubyte"));
    assert_int_not_equal(child_code, 0);
    child_took_less(100);
    tli_put_u64(&file, UINT64_C(1) << 40); // with its checksum right
    tli_put_u32(&file, tl_crc32c_mask(tl_crc32c(0, file.data, 8)));
    put_bytes(in_folder("x.tfrecord"), file.data, file.length);
    tl_str_deinit(&file);
    child_run("data", "show", in_folder("x.tfrecord"));
    assert_int_not_equal(child_code, 0);
    child_took_less(100);
}

/* --- TensorBundles ---------------------------------------------------------------------------- */

static void seal(tl_str *out, size_t begin, char packing)
{
    tl_str_addc(out, packing);
    tli_put_u32(out, tl_crc32c_mask(tl_crc32c(0, out->data + begin, out->length - begin)));
}

/* An index whose only block claims to hold 2^31 bytes when it is unpacked. */
static void blocks_do_not_believe_their_heads(void **state)
{
    (void)state;
    tl_tensorbundle *b;
    tl_str t = TL_STR_INIT;
    tl_str_addn(&t, "\x80\x80\x80\x80\x08\0a", 7);
    seal(&t, 0, TLI_TABLE_SNAPPY);
    size_t meta = t.length;
    tl_str_addn(&t, "\0\0\0\0\1\0\0\0", 8);
    seal(&t, meta, TLI_TABLE_PLAIN);
    size_t index = t.length;
    tl_str_addn(&t, "\0\1\2z\0\7\0\0\0\0\1\0\0\0", 14);
    seal(&t, index, TLI_TABLE_PLAIN);
    size_t footer = t.length;
    tli_put_varint(&t, meta);
    tli_put_varint(&t, 8);
    tli_put_varint(&t, index);
    tli_put_varint(&t, 14);
    tl_str_pad(&t, 0, (int64_t)(TLI_TABLE_FOOTER - 8 - (t.length - footer)));
    tli_put_u64(&t, TLI_TABLE_MAGIC);
    put_bytes(in_folder("x.index"), t.data, t.length);
    put_bytes(in_folder("x.data-00000-of-00001"), "", 0);
    tl_str_deinit(&t);
    assert_fails(tl_tensorbundle_open(&b, in_folder("x")), TL_EINVAL,
                 "claims more bytes than it can hold");
}

/* Entries whose shapes hold more than there is, or whose names are nested without end. */
static void put_bundle(const tl_str *value, int names)
{
    tl_str table = TL_STR_INIT, key = TL_STR_INIT;
    tli_table_writer w = {.out = &table};
    assert_ok(tli_table_add(&w, (tli_bytes){"", 0}, (tli_bytes){"\x08\1", 2}));
    for (int i = 0; i < (names ? 100 : 1); i++) {
        tl_str_cut(&key, 0);
        tl_str_addf(&key, "n%03d", i);
        for (int k = 1; k < names; k++) tl_str_add(&key, "/a");
        assert_ok(tli_table_add(&w, (tli_bytes){key.data, key.length},
                                (tli_bytes){value->data, value->length}));
    }
    assert_ok(tli_table_finish(&w));
    put_bytes(in_folder("x.index"), table.data, table.length);
    put_bytes(in_folder("x.data-00000-of-00001"), "", 0);
    tli_table_writer_deinit(&w);
    tl_str_deinit(&table);
    tl_str_deinit(&key);
}

static void bundles_do_not_believe_their_index(void **state)
{
    (void)state;
    tl_tensorbundle *b;
    tl_state *s;
    tl_str value = TL_STR_INIT;
    tl_str_addn(&value, "\x08\1\x12\x09\x12\7\x08\x80\x80\x80\x80\x80\2", 13); // float32[2^36]
    tli_pb_int(&value, 5, INT64_C(1) << 38);
    put_bundle(&value, 0);
    assert_fails(tl_tensorbundle_open(&b, in_folder("x")), TL_EINVAL, "cut short");
    tl_str_cut(&value, 0);
    tl_str_addn(&value, "\x08\1\x12\4\x12\2\x08\0\x35", 9); // float32[0]
    tli_put_u32(&value, tl_crc32c_mask(0));
    put_bundle(&value, 60);
    assert_ok(tl_tensorbundle_open(&b, in_folder("x")));
    assert_fails(tl_tensorbundle_load(&s, b, NULL, NULL, NULL), TL_ELIMIT, "(1024 and 2 for each)");
    tl_tensorbundle_free(&b);
    tl_str_deinit(&value);
}

/* --- keys that collide ------------------------------------------------------------------------ */

static uint64_t hash_of_a_child(void)
{
    child_wait(child_start("/proc/self/exe", (const char *const[]){"--hash", NULL}));
    child_ended(0, "");
    size_t size;
    char *text = bytes_of(in_folder("stdout"), &size);
    uint64_t hash = strtoull(text, NULL, 16);
    tl_free(text);
    return hash;
}

static void every_process_hashes_keys_in_its_own_way(void **state)
{
    (void)state;
    uint64_t own = tli_key_hash("model/dense/kernel"), first = hash_of_a_child(),
             second = hash_of_a_child();
    assert_true(own == tli_key_hash("model/dense/kernel"));
    assert_true(own != first && own != second && first != second);
}

static void keys_spread_evenly(void **state)
{
    (void)state;
    enum { KEYS = 100000, PLACES = 1024, SHARE = KEYS / PLACES };
    static int low[PLACES], high[PLACES];
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        snprintf(key, sizeof key, "layer_%d/kernel", i);
        uint64_t hash = tli_key_hash(key);
        low[hash % PLACES]++;
        high[hash >> 54]++;
    }
    for (int i = 0; i < PLACES; i++) { // ten times the deviation that chance has
        assert_in_range(low[i], 1, 2 * SHARE + 10);
        assert_in_range(high[i], 1, 2 * SHARE + 10);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CHILD_TEST(a_megabyte_that_holds_a_gigabyte_is_refused),
        CHILD_TEST(tables_are_bounded_too),
        CHILD_TEST(the_limit_can_be_raised),
        HEADER_TEST(headers_take_memory_in_proportion),
        HEADER_TEST(shapes_of_a_million_numbers_are_refused),
        HEADER_TEST(paths_do_not_multiply_memory),
        HEADER_TEST(a_long_name_does_not_widen_every_line),
        HEADER_TEST(the_list_of_a_checkpoint_is_bounded),
        CHILD_TEST(endless_made_up_data_is_refused),
        CHILD_TEST(lines_of_metrics_are_bounded),
        CHILD_TEST(images_have_sizes_in_proportion),
        CHILD_TEST(tables_do_not_believe_their_heads),
        CHILD_TEST(frames_do_not_believe_their_heads),
        CHILD_TEST(blocks_do_not_believe_their_heads),
        CHILD_TEST(bundles_do_not_believe_their_index),
        CHILD_TEST(every_process_hashes_keys_in_its_own_way),
        cmocka_unit_test(keys_spread_evenly),
    };
    if (argc == 2 && strcmp(argv[1], "--hash") == 0) {
        printf("%016llx\n", (unsigned long long)tli_key_hash("model/dense/kernel"));
        return 0;
    }
    return cmocka_run_group_tests_name("bombs", tests, NULL, NULL);
}
