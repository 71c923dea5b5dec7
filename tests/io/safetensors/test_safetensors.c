/* Safetensors files: what is written is read back, the bytes are those of the format, and files
 * that are wrong are refused with the file and the entry in the message. */
#include "io/folder.h"

#include <tilth/io/safetensors.h>

static tl_engine *engine;

static int setup(void **state)
{
    engine = open_engine();
    return make_folder(state);
}

static int teardown(void **state)
{
    close_engine(&engine);
    return remove_folder(state);
}

/* --- files made by hand ----------------------------------------------------------------------- */

/* A file with this header (padded) and so many bytes of data: 0, 1, 2, ... */
static const char *file_with(const char *header, size_t bytes)
{
    const char *path = in_folder("hand.safetensors");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint64_t length = (strlen(header) + 7) / 8 * 8;
    fwrite(&length, 8, 1, f);
    fprintf(f, "%-*s", (int)length, header);
    for (size_t i = 0; i < bytes; i++) fputc((int)(i & 1), f);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void refused(const char *header, size_t bytes, const char *message)
{
    tl_safetensors *f = NULL;
    const char *path = file_with(header, bytes);
    assert_fails(tl_safetensors_open(&f, path), TL_EINVAL, message);
    assert_null(f);
    if (!strstr(tl_error_message(), path))
        fail_msg("the file is not named: %s", tl_error_message());
}

#define ENTRY(name, dtype, shape, from, to)                                                        \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to   \
    "]}"

static void test_wrong_headers(void **state)
{
    (void)state;
    refused("{" ENTRY("a", "F32", "[2]", 0, 8) "}", 9, "1 bytes at its end belong to no entry");
    refused("{" ENTRY("a", "F32", "[2]", 0, 8) "}", 7,
            "entry 'a': its data_offsets [0, 8] do not lie in the file's 7");
    refused("{" ENTRY("a", "F32", "[2]", 8, 0) "}", 8, "entry 'a': its data_offsets [8, 0]");
    refused("{" ENTRY("a", "F32", "[2]", -8, 0) "}", 8, "entry 'a': its data_offsets [-8, 0]");
    refused("{" ENTRY("a", "F32", "[3]", 0, 8) "}", 8,
            "entry 'a': F32[3] needs 12 bytes of data, and data_offsets give it 8");
    refused("{" ENTRY("a", "F4", "[3]", 0, 2) "}", 2, "entry 'a': F4[3] does not fill whole bytes");
    refused("{" ENTRY("a", "F32", "[1]", 0, 4) "," ENTRY("b", "F32", "[1]", 2, 6) "}", 6,
            "entry 'b': its data overlap those of 'a'");
    refused("{" ENTRY("a", "U8", "[1]", 0, 1) "," ENTRY("b", "U8", "[1]", 3, 4) "}", 4,
            "entry 'b': 2 bytes before its data belong to nothing");
    refused("{" ENTRY("a", "U8", "[1]", 0, 1) "," ENTRY("a", "U8", "[1]", 1, 2) "}", 2,
            "duplicate object key");
    refused("{" ENTRY("a", "U8", "[1,-1]", 0, 1) "}", 1,
            "entry 'a': dimension 1 of its shape is no number from 0 on");
    refused("{" ENTRY("a", "U8", "[1.0]", 0, 1) "}", 1, "entry 'a': dimension 0");
    refused("{" ENTRY("a", "U8", "7", 0, 1) "}", 1, "entry 'a': it has no \"shape\"");
    refused("{" ENTRY("a", "U8", "[4294967296,4294967296]", 0, 1) "}", 1,
            "entry 'a': its shape has too many elements");
    refused("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "entry 'a': it has no \"dtype\"");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "entry 'a': it has no \"data_offsets\"");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1,
            "entry 'a': it has no \"data_offsets\"");
    refused("{\"a\":1}", 0, "entry 'a': it is no object");
    refused("{\"__metadata__\":{\"a\":1}}", 0, "the value of 'a' is no text");
    refused("{\"__metadata__\":[]}", 0, "entry '__metadata__': it is no object of texts");
    refused("[]", 0, "does not begin with '{'");
    refused(" {}", 0, "does not begin with '{'");
    refused("", 0, "does not begin with '{'");
    refused("{\"a\":", 0, "its header is no acceptable JSON");
    refused("{} x", 0, "its header is no acceptable JSON");
    refused("{\"\xff\":1}", 0, "its header is no acceptable JSON");
    refused("{\"a\\u0000b\":1}", 0, "its header is no acceptable JSON");
    refused("{" ENTRY("a", "U8", "[99999999999999999999]", 0, 1) "}", 1,
            "its header is no acceptable JSON");
}

static void test_wrong_lengths(void **state)
{
    (void)state;
    tl_safetensors *f;
    const char *path = in_folder("short");
    put_bytes(path, "1234567", 7);
    assert_fails(tl_safetensors_open(&f, path), TL_EINVAL, "it has 7 bytes only");
    put_bytes(path, "", 0);
    assert_fails(tl_safetensors_open(&f, path), TL_EINVAL, "it has 0 bytes only");
    put_bytes(path, "\3\0\0\0\0\0\0\0{}", 10);
    assert_fails(tl_safetensors_open(&f, path), TL_EINVAL,
                 "its header should have 3 bytes, and 2 are there");
    put_bytes(path, "\1\341\365\5\0\0\0\0{}", 10); // 100,000,001
    assert_fails(tl_safetensors_open(&f, path), TL_ELIMIT,
                 "longer than the 100000000 that are accepted");
    put_bytes(path, "\377\377\377\377\377\377\377\377{}", 10);
    assert_fails(tl_safetensors_open(&f, path), TL_ELIMIT, path);
    assert_fails(tl_safetensors_open(&f, in_folder("nowhere")), TL_ENOTFOUND, "nowhere");
    assert_fails(tl_safetensors_open(&f, folder), TL_EINVAL, folder);
    put_bytes(path, "\2\0\0\0\0\0\0\0{}", 10);
    assert_ok(tl_safetensors_open(&f, path));
    assert_int_equal(tl_safetensors_count(f), 0);
    tl_safetensors_free(&f);
    assert_null(f);
}

/* Entries that no tensor can be are listed; asking for them names them. */
static void test_types_that_are_not_supported(void **state)
{
    (void)state;
    tl_safetensors *f;
    tl_state *s;
    const char *path = file_with(
        "{" ENTRY("z", "C64", "[1]", 0, 8) "," ENTRY("f4", "F4", "[2,3]", 8, 11) "," ENTRY(
            "f6", "F6_E2M3", "[4]", 11,
            14) "," ENTRY("new", "X7", "[4]", 14,
                          16) "," ENTRY("deep", "U8", "[1,1,1,1,1,1,1,1,2]", 16,
                                        18) "," ENTRY("wide", "U8", "[4611686018427387904,0]", 18,
                                                      18) "," ENTRY("good", "U8", "[2]", 18,
                                                                    20) "}",
        20);
    assert_ok(tl_safetensors_open(&f, path));
    assert_int_equal(tl_safetensors_count(f), 7);
    for (int64_t i = 0; i < 6; i++) assert_false(tl_safetensors_at(f, i)->readable);
    const tl_safetensors_entry *e = tl_safetensors_find(f, "deep");
    assert_int_equal(e->rank, 9);
    assert_int_equal(e->dims[8], 2);
    tl_str spec = TL_STR_INIT;
    tl_safetensors_spec(&spec, tl_safetensors_find(f, "f4"));
    assert_string_equal(tl_str_text(&spec), "F4[2, 3]");
    tl_str_deinit(&spec);
    tl_tensor *t = tensor_of(engine, TL_U8, TL_SHAPE(2), NULL);
    assert_fails(tl_safetensors_get(t, f, "z"), TL_EUNSUPPORTED,
                 "entry 'z' is C64[1], and tensors of that type");
    assert_fails(tl_safetensors_get(t, f, "deep"), TL_EUNSUPPORTED,
                 "entry 'deep' is U8[1, 1, 1, 1, 1, 1, 1, 1, 2]");
    assert_fails(tl_safetensors_get(t, f, "goood"), TL_ENOTFOUND,
                 "has no entry 'goood'; did you mean 'good'?");
    assert_fails(tl_safetensors_load(&s, f, engine), TL_EUNSUPPORTED, "entry 'z'");
    assert_null(s);
    assert_ok(tl_safetensors_get(t, f, "good"));
    double values[2];
    assert_ok(tl_tensor_get_doubles(t, values, 2));
    assert_true(values[0] == 0 && values[1] == 1);
    assert_ok(tl_safetensors_load(&s, f, NULL)); // described: what can be
    int64_t entries, bytes;
    assert_ok(tl_state_size(s, &entries, &bytes));
    assert_int_equal(entries, 1);
    tl_state_free(&s);
    tl_tensor_free(&t);
    tl_safetensors_free(&f);
}

static void test_misfits(void **state)
{
    (void)state;
    tl_safetensors *f;
    tl_state *s;
    tl_tensor *t = tensor_of(engine, TL_F32, TL_SHAPE(2), NULL);
    assert_ok(tl_safetensors_open(
        &f, file_with("{" ENTRY("a", "F32", "[2,1]", 0, 8) "," ENTRY("b", "F16", "[2]", 8, 12) "}",
                      12)));
    assert_fails(tl_safetensors_get(t, f, "a"), TL_EINVAL,
                 "entry 'a': it is F32[2, 1] and does not fit into float32[2]");
    assert_fails(tl_safetensors_get(t, f, "b"), TL_EINVAL,
                 "entry 'b': it is F16[2] and does not fit into float32[2]");
    tl_safetensors_free(&f);
    tl_tensor_free(&t);
    // Bytes that are no bool, and names that are no paths.
    const char *path = file_with("{" ENTRY("a", "BOOL", "[2]", 0, 2) "}", 2);
    size_t size;
    char *data = bytes_of(path, &size);
    data[size - 1] = 2;
    put_bytes(path, data, size);
    tl_free(data);
    assert_fails(tl_safetensors_read(&s, path, engine), TL_EINVAL,
                 "entry 'a': element 1 of type BOOL is 2");
    assert_fails(
        tl_safetensors_read(&s, file_with("{" ENTRY("a//b", "U8", "[1]", 0, 1) "}", 1), engine),
        TL_EINVAL, "a//b");
    assert_fails(
        tl_safetensors_read(
            &s,
            file_with("{" ENTRY("a", "U8", "[1]", 0, 1) "," ENTRY("a/b", "U8", "[1]", 1, 2) "}", 2),
            engine),
        TL_EEXISTS, "hand.safetensors");
}

/* --- files of ours ---------------------------------------------------------------------------- */

static void fill(tl_tensor *t)
{
    int64_t n = tl_tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        tl_lease l;
        assert_ok(tl_lease_write(&l, t));
        memset((char *)l.data + (size_t)i * tl_dtype_size(t->dtype),
               (int)(t->dtype == TL_BOOL ? i & 1 : 3 * i + 1), tl_dtype_size(t->dtype));
        assert_ok(tl_lease_end(&l));
    }
}

/* Every type; no dimension, some, and none of an element. */
static tl_state *all_types(void)
{
    tl_state *s;
    assert_ok(tl_state_new(&s));
    for (int d = 0; d < TL_DTYPE_COUNT; d++) {
        const tl_shape shapes[] = {TL_SCALAR, TL_SHAPE(3), TL_SHAPE(2, 1, 5), TL_SHAPE(4, 0)};
        for (int64_t i = 0; i < TL_COUNT(shapes); i++) {
            char path[64];
            snprintf(path, sizeof path, "part%d/%s.%s", (int)i, tl_dtype_name((tl_dtype)d),
                     i ? "\xc3\xa9\"\\\n" : "scalar");
            tl_tensor *t = tensor_of(engine, (tl_dtype)d, shapes[i], NULL);
            fill(t);
            assert_ok(tl_state_put(s, path, t));
            tl_tensor_free(&t);
        }
    }
    return s;
}

static void same_states(const tl_state *a, const tl_state *b)
{
    tl_state_report r;
    assert_ok(tl_state_compare(&r, a, b, &(tl_state_compare_args){.values = true}));
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, &r, 0);
    if (!tl_state_report_clean(&r)) fail_msg("%s", tl_str_text(&text));
    tl_str_deinit(&text);
    tl_state_report_deinit(&r);
}

static void test_round_trip(void **state)
{
    (void)state;
    tl_state *s = all_types(), *read;
    const char *path = in_folder("all.safetensors");
    const tl_safetensors_note notes[] = {{"z", "last \x01\t\"\\/ \xe2\x82\xac"}, {"format", "pt"}};
    assert_ok(tl_safetensors_write(path, s, notes, 2));
    assert_ok(tl_safetensors_read(&read, path, engine));
    same_states(s, read);
    tl_safetensors *f;
    assert_ok(tl_safetensors_open(&f, path));
    assert_string_equal(tl_safetensors_path(f), path);
    assert_int_equal(tl_safetensors_count(f), 4 * TL_DTYPE_COUNT);
    assert_int_equal(tl_safetensors_note_count(f), 2);
    assert_string_equal(tl_safetensors_note_at(f, 0)->key, "format");
    assert_string_equal(tl_safetensors_note_get(f, "z"), notes[0].value);
    assert_null(tl_safetensors_note_get(f, "y"));
    assert_null(tl_safetensors_find(f, "y"));
    tl_safetensors_free(&f);
    tl_state_free(&read);
    // The same state in another order gives the same bytes.
    tl_state *other;
    assert_ok(tl_state_new(&other));
    for (int part = 3; part >= 0; part--) {
        char name[16];
        tl_state_entry e;
        snprintf(name, sizeof name, "part%d", part);
        assert_ok(tl_state_get(&e, s, name, TL_STATE_STATE));
        assert_ok(tl_state_mount(other, name, e.state));
    }
    const char *again = in_folder("again.safetensors");
    const tl_safetensors_note turned[] = {notes[1], notes[0]};
    assert_ok(tl_safetensors_write(again, other, turned, 2));
    size_t size, again_size;
    char *data = bytes_of(path, &size), *again_data = bytes_of(again, &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(data, again_data, size);
    tl_free(data);
    tl_free(again_data);
    tl_state_free(&other);
    tl_state_free(&s);
}

/* The bytes themselves, laid out as the original library does it. */
static void test_bytes(void **state)
{
    (void)state;
    tl_state *s;
    assert_ok(tl_state_new(&s));
    tl_tensor *a = tensor_of(engine, TL_F32, TL_SHAPE(1), (const double[]){1}),
              *b = tensor_of(engine, TL_U8, TL_SHAPE(3), (const double[]){1, 2, 3}),
              *c = tensor_of(engine, TL_F32, TL_SCALAR, (const double[]){2});
    assert_ok(tl_state_put(s, "b", a));
    assert_ok(tl_state_put(s, "c", b));
    assert_ok(tl_state_put(s, "a", c));
    assert_ok(tl_state_put_int(s, "step", -2));
    assert_ok(tl_safetensors_write(in_folder("x"), s, NULL, 0));
    static const char expected[] =
        "\xe0\0\0\0\0\0\0\0"
        "{\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]},"
        "\"c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}";
    static const char data[] = "\xfe\xff\xff\xff\xff\xff\xff\xff\0\0\0\x40\0\0\x80\x3f\1\2\3";
    size_t size, length = sizeof expected - 1, header = 8 + 0xe0;
    char *found = bytes_of(in_folder("x"), &size);
    assert_int_equal(size, header + 19);
    assert_memory_equal(found, expected, length);
    for (size_t i = length; i < header; i++) assert_int_equal(found[i], ' ');
    assert_memory_equal(found + header, data, 19);
    tl_free(found);
    tl_tensor_free(&a);
    tl_tensor_free(&b);
    tl_tensor_free(&c);
    tl_state_free(&s);
}

/* Views are written as they look, aliases under each name, scalars as small tensors. */
static void test_views_aliases_and_scalars(void **state)
{
    (void)state;
    tl_state *s, *read;
    assert_ok(tl_state_new(&s));
    tl_tensor *t = tensor_of(engine, TL_F32, TL_SHAPE(2, 3), (const double[]){1, 2, 3, 4, 5, 6});
    assert_ok(tl_state_put(s, "one", t));
    assert_ok(tl_state_put(s, "tied", t));
    tl_tensor turned = *t; // a view, as an op would make it
    turned.shape = TL_SHAPE(3, 2);
    turned.strides[0] = 1;
    turned.strides[1] = 3;
    turned.contiguous = false;
    assert_ok(tl_state_put(s, "turned", &turned));
    assert_ok(tl_state_put_double(s, "rate", 0.5));
    assert_ok(tl_state_put_bool(s, "on", true));
    assert_ok(tl_state_put_text(s, "name", "abc"));
    assert_ok(tl_safetensors_write(in_folder("x"), s, NULL, 0));
    assert_ok(tl_safetensors_read(&read, in_folder("x"), engine));
    tl_state_entry e;
    double values[6];
    assert_ok(tl_state_get(&e, read, "tied", TL_STATE_TENSOR));
    assert_ok(tl_tensor_get_doubles(e.tensor, values, 6));
    assert_true(values[1] == 2);
    assert_ok(tl_state_get(&e, read, "turned", TL_STATE_TENSOR));
    assert_ok(tl_tensor_get_doubles(e.tensor, values, 6));
    assert_true(values[1] == 4 && values[2] == 2);
    assert_ok(tl_state_get(&e, read, "rate", TL_STATE_TENSOR));
    assert_ok(tl_tensor_item(e.tensor, values));
    assert_true(values[0] == 0.5 && e.tensor->dtype == TL_F64);
    assert_ok(tl_state_get(&e, read, "name", TL_STATE_TENSOR));
    assert_true(e.tensor->dtype == TL_U8 && tl_tensor_count(e.tensor) == 3);
    tl_state_free(&read);
    tl_tensor_free(&t);
    tl_state_free(&s);
}

static void test_what_cannot_be_written(void **state)
{
    (void)state;
    tl_state *s;
    assert_ok(tl_state_new(&s));
    const char *path = in_folder("x");
    assert_ok(tl_state_put_int(s, "\xff", 1));
    assert_fails(tl_safetensors_write(path, s, NULL, 0), TL_EINVAL, "is not UTF-8");
    assert_true(tl_state_remove(s, "\xff"));
    assert_ok(tl_state_describe(s, "a/b", TL_F32, TL_SHAPE(2)));
    assert_fails(tl_safetensors_write(path, s, NULL, 0), TL_ESTATE,
                 "'a/b' is described as float32[2]");
    assert_true(tl_state_remove(s, "a"));
    assert_ok(tl_state_put_int(s, "__metadata__", 1));
    assert_fails(tl_safetensors_write(path, s, NULL, 0), TL_EINVAL, "__metadata__");
    assert_true(tl_state_remove(s, "__metadata__"));
    const tl_safetensors_note twice[] = {{"a", "1"}, {"b", "1"}, {"a", "2"}},
                              broken[] = {{"a", "\xc0\x80"}};
    assert_fails(tl_safetensors_write(path, s, twice, 3), TL_EINVAL, "the note 'a' is given twice");
    assert_fails(tl_safetensors_write(path, s, broken, 1), TL_EINVAL, "the note 'a'");
    assert_false(tl_file_exists(path));
    assert_fails(tl_safetensors_write(in_folder("no/x"), s, NULL, 0), TL_ENOTFOUND, "no/x");
    assert_ok(tl_safetensors_write(path, s, NULL, 0)); // an empty state is a file
    tl_state *read;
    assert_ok(tl_safetensors_read(&read, path, engine));
    tl_state_free(&read);
    tl_state_free(&s);
}

/* --- memory that runs out --------------------------------------------------------------------- */

static tl_status there_and_back(const tl_state *s)
{
    tl_state *read;
    const char *path = in_folder("x");
    TL_TRY(tl_safetensors_write(path, s, (const tl_safetensors_note[]){{"k", "v"}}, 1));
    TL_TRY(tl_safetensors_read(&read, path, engine));
    tl_state_free(&read);
    return TL_OK;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    tl_state *s = all_types();
    assert_ok(there_and_back(s)); // and storage is kept for the next time
    int64_t before = tl_alloc_calls();
    assert_ok(there_and_back(s));
    int64_t calls = tl_alloc_calls() - before, used = memory_used(engine);
    assert_true(calls > 100);
    for (int64_t nth = 1; nth <= calls; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = there_and_back(s);
        tl_alloc_fail_at(0, 0);
        if (st != TL_ENOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
        assert_int_equal(memory_used(engine), used);
    }
    assert_ok(there_and_back(s));
    assert_int_equal(each_file(NULL), 1);
    tl_state_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_wrong_headers),
        LAB_TEST(test_wrong_lengths),
        LAB_TEST(test_types_that_are_not_supported),
        LAB_TEST(test_misfits),
        LAB_TEST(test_round_trip),
        LAB_TEST(test_bytes),
        LAB_TEST(test_views_aliases_and_scalars),
        LAB_TEST(test_what_cannot_be_written),
        LAB_TEST(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
