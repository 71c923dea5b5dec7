/* TensorBundles: what TensorFlow wrote is read, and files that are wrong are refused with the file
 * and the entry in the message. */
#include "io/bundles.h"

#include <tilth/base/crc32c.h>

#include "io/tensorflow/leveldb_table.h"
#include "io/tensorflow/protobuf.h"

/* --- by TensorFlow ---------------------------------------------------------------------------- */

static void test_types(void **state)
{
    (void)state;
    tl_tensorbundle *b = bundle(GOLDEN "types");
    static const char *const readable[] = {"float32", "float64",  "int32",   "uint8", "int16",
                                           "int8",    "bfloat16", "float16", "int64"};
    static const char *const others[] = {"complex64", "complex128",  "uint16",        "uint32",
                                         "uint64",    "float8_e5m2", "float8_e4m3fn", "int4"};
    char name[64], spec[64];
    assert_string_equal(tl_tensorbundle_prefix(b), GOLDEN "types");
    assert_int_equal(tl_tensorbundle_shards(b), 1);
    assert_int_equal(tl_tensorbundle_count(b), 25);
    for (int64_t i = 1; i < tl_tensorbundle_count(b); i++)
        assert_true(strcmp(tl_tensorbundle_at(b, i - 1)->name, tl_tensorbundle_at(b, i)->name) < 0);
    for (int64_t i = 0; i < TL_COUNT(readable); i++) {
        snprintf(name, sizeof name, "types/%s" VALUE, readable[i]);
        snprintf(spec, sizeof spec, "%s[2, 3]", readable[i]);
        has_spec(b, name, spec);
        HAS_VALUES(b, name, 0, 1, 2, 3, 4, 5);
    }
    HAS_VALUES(b, "types/bool" VALUE, 0, 1, 0, 1, 0, 1);
    HAS_VALUES(b, "types/scalar" VALUE, -1.5);
    tl_tensor *t = tensor_of(engine, TL_F32, TL_SHAPE(2, 3), NULL);
    for (int64_t i = 0; i < TL_COUNT(others); i++) {
        snprintf(name, sizeof name, "types/%s" VALUE, others[i]);
        snprintf(spec, sizeof spec, "is %s[2, 3], and tensors of that type", others[i]);
        assert_false(entry(b, name)->readable);
        assert_fails(tl_tensorbundle_get(t, b, name), TL_EUNSUPPORTED, spec);
    }
    uint64_t words[6];
    assert_ok(tl_tensorbundle_copy(words, b, entry(b, "types/uint64" VALUE)));
    for (uint64_t i = 0; i < 6; i++) assert_true(words[i] == i);
    const void *data;
    assert_ok(tl_tensorbundle_borrow(&data, b, entry(b, "types/int4" VALUE)));
    assert_memory_equal(data, "\x0e\x0f\0\1\2\3", 6); // the lower half of each byte
    has_spec(b, "types/deep" VALUE, "float32[1, 1, 1, 1, 1, 1, 1, 1, 2]");
    assert_fails(tl_tensorbundle_get(t, b, "types/deep" VALUE), TL_EUNSUPPORTED, "of such a shape");
    assert_fails(tl_tensorbundle_get(t, b, "types/int32" VALUE), TL_EINVAL,
                 "it is int32[2, 3] and does not fit into float32[2, 3]");
    assert_fails(tl_tensorbundle_get(t, b, "types/float33" VALUE), TL_ENOTFOUND,
                 "did you mean 'types/float32" VALUE "'?");
    assert_int_equal(entry(b, "types/empty" VALUE)->bytes, 0);
    assert_ok(tl_tensorbundle_verify(b));
    tl_tensor_free(&t);
    tl_tensorbundle_free(&b);
    assert_null(b);
    tl_tensorbundle_free(&b);
}

static void test_strings(void **state)
{
    (void)state;
    tl_tensorbundle *b = bundle(GOLDEN "types");
    tl_arena *a;
    const tl_tensorbundle_string *s;
    int64_t count;
    assert_ok(tl_arena_new(&a));
    assert_ok(tl_tensorbundle_strings(&s, &count, a, b, entry(b, "types/text" VALUE)));
    assert_int_equal(count, 1);
    assert_int_equal(s->size, 5);
    assert_memory_equal(s->data, "caf\xc3\xa9", 5);
    has_spec(b, "types/texts" VALUE, "string[2, 2]");
    assert_ok(tl_tensorbundle_strings(&s, &count, a, b, entry(b, "types/texts" VALUE)));
    assert_int_equal(count, 4);
    assert_memory_equal(s[0].data, "a", 1);
    assert_int_equal(s[1].size, 0);
    assert_int_equal(s[2].size, 200);
    assert_int_equal(s[2].data[199], 'x');
    assert_int_equal(s[3].size, 3);
    assert_memory_equal(s[3].data, "a\0b", 3);
    assert_ok(tl_tensorbundle_strings(&s, &count, a, b, entry(b, "types/no_texts" VALUE)));
    assert_int_equal(count, 0);
    assert_fails(tl_tensorbundle_strings(&s, &count, a, b, entry(b, "types/int8" VALUE)),
                 TL_EUNSUPPORTED, "is of type int8, not a whole of strings");
    tl_arena_free(&a);
    tl_tensorbundle_free(&b);
}

static void check_objects(const char *prefix)
{
    tl_tensorbundle *b = bundle(prefix);
    tl_object_graph g;
    HAS_VALUES(b, "global_step" VALUE, 7);
    HAS_VALUES(b, "save_counter" VALUE, 1);
    HAS_VALUES(b, "model/names/a.Sb" VALUE, 1);
    HAS_VALUES(b, "optimizer/learning_rate" VALUE, 0.25);
    assert_ok(tl_object_graph_init(&g, b));
    const tl_bundle_object *root = tl_object_graph_find(&g, ""),
                           *kernel = tl_object_graph_find(&g, "model/layers/0/kernel"),
                           *optimizer = tl_object_graph_find(&g, "optimizer");
    assert_ptr_equal(root, &g.nodes[0]);
    assert_string_equal(root->path, "");
    assert_int_equal(root->child_count, 4);
    assert_non_null(kernel);
    assert_ptr_equal(kernel, tl_object_graph_find(&g, "model/layers/1/kernel"));
    assert_string_equal(kernel->path, "model/layers/0/kernel");
    assert_int_equal(kernel->attribute_count, 1);
    assert_string_equal(kernel->attributes[0].name, "VARIABLE_VALUE");
    assert_string_equal(kernel->attributes[0].key, "model/layers/0/kernel" VALUE);
    assert_null(tl_object_graph_find(&g, "model/layers/2"));
    assert_null(tl_object_graph_find(&g, "model/layers/0/kerne"));
    assert_null(tl_object_graph_find(&g, "model/names/a/b"));
    const tl_bundle_object *odd = tl_object_graph_find(&g, "model/names/c..d");
    assert_non_null(odd);
    assert_string_equal(odd->path, "model/names/c..d");
    assert_non_null(tl_object_graph_find(&g, "model/names/a.Sb"));
    assert_non_null(optimizer);
    assert_int_equal(optimizer->slot_count, 4); // m and v of two
    int found = 0;
    for (int64_t i = 0; i < optimizer->slot_count; i++) {
        const tl_object_slot *s = &optimizer->slots[i];
        const tl_bundle_object *slot = &g.nodes[s->node];
        if (&g.nodes[s->variable] != kernel || strcmp(s->name, "m") != 0) continue;
        found++;
        assert_string_equal(slot->path, "model/layers/0/kernel/.OPTIMIZER_SLOT/optimizer/m");
        has_spec(b, slot->attributes[0].key, "float32[2, 2]");
    }
    assert_int_equal(found, 1);
    // Every key that the graph names is there.
    for (int64_t i = 0; i < g.count; i++)
        for (int64_t k = 0; k < g.nodes[i].attribute_count; k++)
            assert_non_null(entry(b, g.nodes[i].attributes[k].key));
    tl_object_graph_deinit(&g);
    tl_tensorbundle_free(&b);
}

static void test_objects(void **state)
{
    (void)state;
    check_objects(GOLDEN "objects");
    check_objects(GOLDEN "packed"); // by Snappy
    tl_tensorbundle *b = bundle(GOLDEN "part");
    tl_object_graph g;
    assert_fails(tl_object_graph_init(&g, b), TL_ENOTFOUND, "part.index' has no object graph");
    tl_tensorbundle_free(&b);
}

static void test_pieces(void **state)
{
    (void)state;
    tl_tensorbundle *b = bundle(GOLDEN "part");
    float floats[70 * 3];
    const void *data;
    assert_int_equal(tl_tensorbundle_count(b), 2);
    has_spec(b, "part", "float32[70, 3]");
    assert_int_equal(entry(b, "part")->pieces, 3);
    assert_ok(tl_tensorbundle_copy(floats, b, entry(b, "part")));
    for (int i = 0; i < 70 * 3; i++) assert_true(floats[i] == (float)i);
    assert_fails(tl_tensorbundle_borrow(&data, b, entry(b, "part")), TL_EUNSUPPORTED,
                 "entry 'part' lies in 3 pieces");
    tl_tensorbundle_free(&b);
    b = bundle(GOLDEN "grid");
    int32_t ints[3 * 130 * 2];
    assert_int_equal(entry(b, "grid")->pieces, 4);
    assert_ok(tl_tensorbundle_copy(ints, b, entry(b, "grid")));
    for (int i = 0; i < 3 * 130 * 2; i++) assert_int_equal(ints[i], i);
    assert_ok(tl_tensorbundle_verify(b));
    tl_tensorbundle_free(&b);
}

static void test_shards_and_variants(void **state)
{
    (void)state;
    tl_tensorbundle *b = bundle(GOLDEN "shards");
    assert_int_equal(tl_tensorbundle_shards(b), 3);
    HAS_VALUES(b, "v0", 2, 2);
    HAS_VALUES(b, "v2", 0, 0);
    HAS_VALUES(b, "w1", 11);
    assert_ok(tl_tensorbundle_verify(b));
    tl_tensorbundle_free(&b);
    b = bundle(GOLDEN "iterator");
    has_spec(b, "data/.ATTRIBUTES/ITERATOR_STATE", "variant[8]");
    assert_ok(tl_tensorbundle_verify(b));
    tl_tensorbundle_free(&b);
}

static void test_resolve(void **state)
{
    (void)state;
    tl_arena *a;
    const char *found;
    assert_ok(tl_arena_new(&a));
    assert_ok(tl_tensorbundle_resolve(&found, a, GOLDEN "shards"));
    assert_string_equal(found, GOLDEN "shards");
    assert_ok(tl_tensorbundle_resolve(&found, a, GOLDEN "shards.index"));
    assert_string_equal(found, GOLDEN "shards");
    assert_ok(tl_tensorbundle_resolve(&found, a, GOLDEN "shards.data-00001-of-00003"));
    assert_string_equal(found, GOLDEN "shards");
    assert_fails(tl_tensorbundle_resolve(&found, a, GOLDEN "nothing"), TL_ENOTFOUND,
                 "nothing.index' does not exist");
    assert_null(found);
    assert_fails(tl_tensorbundle_resolve(&found, a, folder), TL_ENOTFOUND, folder);
    put_bytes(in_folder("checkpoint"), "model_checkpoint_path: \"x-1\"\n", 29);
    assert_fails(tl_tensorbundle_resolve(&found, a, folder), TL_ENOTFOUND, "(x-1)");
    put_bytes(in_folder("x-1.index"), "", 0);
    assert_ok(tl_tensorbundle_resolve(&found, a, folder));
    assert_string_equal(found, in_folder("x-1"));
    tl_arena_free(&a);
}

/* --- damage ----------------------------------------------------------------------------------- */

/* A golden bundle, copied into the folder as "x". */
static void copy_bundle(const char *name)
{
    for (int i = 0; i < 2; i++) {
        char from[512], to[64];
        size_t size;
        snprintf(from, sizeof from, GOLDEN "%s%s", name, bundle_files[i]);
        snprintf(to, sizeof to, "x%s", bundle_files[i]);
        char *data = bytes_of(from, &size);
        put_bytes(in_folder(to), data, size);
        tl_free(data);
    }
}

static void test_truncations(void **state)
{
    (void)state;
    static const char *const names[] = {"objects", "packed", "part", "types"};
    for (int64_t n = 0; n < TL_COUNT(names); n++) {
        for (int i = 0; i < 2; i++) {
            size_t size;
            char file[64];
            copy_bundle(names[n]);
            snprintf(file, sizeof file, "x%s", bundle_files[i]);
            char *data = bytes_of(in_folder(file), &size);
            assert_false(is_refused());
            for (size_t cut = 0; cut < size; cut += i && !test_takes_unseen() ? 7 : 1) {
                put_bytes(in_folder(file), data, cut);
                if (!is_refused()) fail_msg("%s%s of %zu bytes", names[n], bundle_files[i], cut);
            }
            tl_free(data);
        }
    }
    assert_int_equal(remove(in_folder("x" DATA)), 0);
    tl_tensorbundle *b;
    assert_fails(tl_tensorbundle_open(&b, in_folder("x")), TL_ENOTFOUND, "x" DATA);
    assert_null(b);
    assert_fails(tl_tensorbundle_open(&b, in_folder("y")), TL_ENOTFOUND, "y.index");
}

/* Every byte of both files counts. */
static void test_flips(void **state)
{
    (void)state;
    static const char *const names[] = {"objects", "packed", "part", "grid", "iterator", "types"};
    for (int64_t n = 0; n < TL_COUNT(names); n++) {
        for (int i = 0; i < 2; i++) {
            size_t size;
            char file[64];
            copy_bundle(names[n]);
            snprintf(file, sizeof file, "x%s", bundle_files[i]);
            char *data = bytes_of(in_folder(file), &size);
            for (size_t at = 0; at < size; at += i && !test_takes_unseen() ? 13 : 1) {
                char before = data[at];
                data[at] ^= (char)(1 << at % 8);
                put_bytes(in_folder(file), data, size);
                if (!is_refused()) fail_msg("%s%s, byte %zu", names[n], bundle_files[i], at);
                data[at] = before;
            }
            tl_free(data);
        }
    }
}

static void test_damage_is_named(void **state)
{
    (void)state;
    size_t size;
    tl_tensorbundle *b;
    copy_bundle("objects");
    char *data = bytes_of(in_folder("x" DATA), &size);
    data[0] ^= 1; // save_counter, which TensorFlow puts first
    put_bytes(in_folder("x" DATA), data, size);
    assert_ok(tl_tensorbundle_open(&b, in_folder("x")));
    const tl_tensorbundle_entry *first = NULL;
    for (int64_t i = 0; i < tl_tensorbundle_count(b); i++) {
        const void *where;
        const tl_tensorbundle_entry *e = tl_tensorbundle_at(b, i);
        if (tl_tensorbundle_borrow(&where, b, e) != TL_OK) first = e;
    }
    assert_non_null(first);
    assert_fails(tl_tensorbundle_verify(b), TL_EINVAL, "x" DATA "' is damaged: entry '");
    assert_non_null(strstr(tl_error_message(), first->name));
    assert_non_null(strstr(tl_error_message(), "bytes at byte 0): its checksum is "));
    tl_tensorbundle_free(&b);
    tl_free(data);
    copy_bundle("part");
    data = bytes_of(in_folder("x" DATA), &size);
    data[300] ^= 1;
    put_bytes(in_folder("x" DATA), data, size);
    tl_free(data);
    float whole[70 * 3];
    assert_ok(tl_tensorbundle_open(&b, in_folder("x")));
    assert_fails(tl_tensorbundle_verify(b), TL_EINVAL,
                 "entry 'part (a piece)' (276 bytes at byte 288)");
    assert_fails(tl_tensorbundle_copy(whole, b, entry(b, "part")), TL_EINVAL,
                 "piece 1 of entry 'part': ");
    tl_tensorbundle_free(&b);
}

/* --- indices made by hand --------------------------------------------------------------------- */

typedef struct hand {
    tl_str table, value;
    tli_table_writer w;
} hand;

static void hand_begin(hand *h, const char *header, size_t size)
{
    *h = (hand){.table = TL_STR_INIT, .value = TL_STR_INIT};
    h->w.out = &h->table;
    assert_ok(tli_table_add(&h->w, (tli_bytes){"", 0}, (tli_bytes){header, size}));
}

static void hand_add(hand *h, const char *key, size_t size)
{
    assert_ok(
        tli_table_add(&h->w, (tli_bytes){key, size}, (tli_bytes){h->value.data, h->value.length}));
    tl_str_cut(&h->value, 0);
}

static void hand_end(hand *h)
{
    assert_ok(tli_table_finish(&h->w));
    put_bytes(in_folder("x" INDEX), h->table.data, h->table.length);
    put_bytes(in_folder("x" DATA), "0123456789abcdef", 16);
    tli_table_writer_deinit(&h->w);
    tl_str_deinit(&h->table);
    tl_str_deinit(&h->value);
}

static void refused_now(tl_status code, const char *message)
{
    tl_tensorbundle *b;
    assert_fails(tl_tensorbundle_open(&b, in_folder("x")), code, message);
    assert_null(b);
    assert_non_null(strstr(tl_error_message(), in_folder("x")));
}

#define ONE_SHARD "\x08\1", 2

static void test_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t size;
        tl_status code;
        const char *message;
    } rows[] = {
        {"", 0, TL_EINVAL, "names 0 data files"},
        {"\x08\1\x10\1", 4, TL_EUNSUPPORTED, "big-endian"},
        {"\x08\1\x1a\2\x10\2", 6, TL_EUNSUPPORTED, "version 2 of the format; this one is 1"},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11, TL_EINVAL, "data files, not 1"},
        {"\x08", 1, TL_EINVAL, "its header is no protocol buffer"},
        {"\x08\1\x1a\1\x10", 5, TL_EINVAL, "the version in its header is damaged"},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        hand h;
        hand_begin(&h, rows[i].header, rows[i].size);
        hand_end(&h);
        refused_now(rows[i].code, rows[i].message);
    }
    hand h;
    hand_begin(&h, "\x08\1\x1a\2\x10\1", 6);
    hand_end(&h);
    tl_tensorbundle *b = bundle(in_folder("x"));
    assert_int_equal(tl_tensorbundle_count(b), 0);
    tl_tensorbundle_free(&b);
    // A table, but no bundle.
    h = (hand){.table = TL_STR_INIT, .value = TL_STR_INIT};
    h.w.out = &h.table;
    hand_end(&h);
    refused_now(TL_EINVAL, "it has no header");
    h = (hand){.table = TL_STR_INIT, .value = TL_STR_INIT};
    h.w.out = &h.table;
    hand_add(&h, "a", 1);
    hand_end(&h);
    refused_now(TL_EINVAL, "it has no header");
}

/* An entry "a" with these fields. */
static void one_entry(const char *value, size_t size)
{
    hand h;
    hand_begin(&h, ONE_SHARD);
    tl_str_addn(&h.value, value, size);
    hand_add(&h, "a", 1);
    hand_end(&h);
}

static void test_entries(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        size_t size;
        const char *message;
    } rows[] = {
#define ROW(bytes, message) TL_INIT(bytes, sizeof(bytes) - 1, message)
        ROW("\x08", "entry 'a': what the index says of it is no protocol buffer"),
        ROW("\x12\0\x28\4", "entry 'a': it has no type"),
        ROW("\x08\1\x12\4\x12\2\x08\3\x28\4", "float32[3] has 12 bytes, and the index gives it 4"),
        ROW("\x08\1\x12\2\x18\1\x28\4", "the number of its dimensions is not known"),
        ROW("\x08\1\x12\3\x12\1\x08\x28\4", "dimension 0 of its shape is damaged"),
        ROW("\x08\1\x12\1\x12\x28\4", "its shape is damaged"),
        ROW("\x08\1\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\x28\4",
            "dimension 0 of its shape is -1"),
        ROW("\x08\1\x12\x18\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x12\x0a\x08\xff\xff"
            "\xff\xff\xff\xff\xff\xff\x7f\x28\4",
            "its shape has too many elements"),
        ROW("\x08\2\x12\x0c\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x28\4",
            "its shape has too many elements"),
        ROW("\x08\1\x18\1\x28\4", "it lies in data file 1, and there are 1"),
        ROW("\x08\1\x20\x0d\x28\4",
            "entry 'a' should have 4 bytes at byte 13, and the file has 16"),
        ROW("\x08\1\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\x28\4", "and the file has 16"),
        ROW("\x08\7\x28\x11", "entry 'a' should have 17 bytes"),
        ROW("\x08\1\x12\4\x12\2\x08\2\x3a\4\x0a\2\x10\2", "piece 0 of 1 is missing"),
        ROW("\x08\1\x12\4\x12\2\x08\2\x3a\0", "has fewer dimensions than it"),
        ROW("\x08\1\x12\4\x12\2\x08\2\x3a\4\x0a\0\x0a\0", "has more dimensions than it"),
        ROW("\x08\1\x12\4\x12\2\x08\2\x3a\6\x0a\4\x08\1\x10\2", "leaves dimension 0"),
        ROW("\x08\1\x12\4\x12\2\x08\2\x3a\4\x0a\2\x08\3", "leaves dimension 0"),
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        one_entry(rows[i].value, rows[i].size);
        refused_now(TL_EINVAL, rows[i].message);
    }
    one_entry("\x08\x63\x28\4", 4); // newer than the list of types: listed, not readable
    tl_tensorbundle *b = bundle(in_folder("x"));
    has_spec(b, "a", "type 99[]");
    assert_false(entry(b, "a")->readable);
    tl_tensorbundle_free(&b);
    hand h;
    hand_begin(&h, ONE_SHARD);
    tl_str_addn(&h.value, "\x08\4\x28\1", 4);
    hand_add(&h, "a\0b", 3);
    hand_end(&h);
    refused_now(TL_EINVAL, "has a zero byte in it ('a...')");
}

/* Pieces of a[4] whose entries are there: their keys are those of TensorFlow. */
static void put_pieces_of(char type, const char *whole, size_t size, int64_t second)
{
    hand h;
    hand_begin(&h, ONE_SHARD);
    for (int64_t i = 0; i < 2; i++) {
        char key[] = "\0a\0\1\1\1\x80\x82"; // 0, "a", one dimension; start, length
        key[6] |= (char)(i ? second : 0);
        char value[] = "\x08\4\x12\4\x12\2\x08\2\x28\2";
        value[1] = type;
        tl_str_addn(&h.value, value, sizeof value - 1);
        hand_add(&h, key, sizeof key - 1);
    }
    tl_str_addn(&h.value, whole, size);
    hand_add(&h, "a", 1);
    hand_end(&h);
}

static void put_pieces(const char *whole, size_t size, int64_t second)
{
    put_pieces_of(4, whole, size, second);
}

static void test_wrong_pieces(void **state)
{
    (void)state;
#define PIECES(dim, start)                                                                         \
    "\x08\4\x12\4\x12\2\x08" dim "\x3a\4\x0a\2\x10\2\x3a\6\x0a\4\x08" start "\x10\2"
    put_pieces(PIECES("\4", "\2"), sizeof PIECES("\4", "\2") - 1, 2);
    tl_tensorbundle *b = bundle(in_folder("x"));
    assert_int_equal(entry(b, "a")->pieces, 2);
    tl_tensorbundle_free(&b);
    put_pieces(PIECES("\4", "\1"), sizeof PIECES("\4", "\1") - 1, 1);
    refused_now(TL_EINVAL, "entry 'a': pieces 0 and 1 of it overlap");
    put_pieces(PIECES("\5", "\2"), sizeof PIECES("\5", "\2") - 1, 2);
    refused_now(TL_EINVAL, "its pieces have 4 elements together, and it has 5");
    put_pieces("\x08\5\x12\4\x12\2\x08\2\x3a\4\x0a\2\x10\2", 14, 2);
    refused_now(TL_EINVAL, "a piece of it has another type or shape than it says");
    // Whose elements have no fixed size: how much an index claims then says nothing.
    static const char types[] = {7, 21, 99};
    for (size_t i = 0; i < sizeof types; i++) {
        char whole[] = PIECES("\4", "\2") "\x28\xff\xff\xff\x7f";
        char byte;
        whole[1] = types[i];
        put_pieces_of(types[i], whole, sizeof whole - 1, 2);
        b = bundle(in_folder("x"));
        assert_int_equal(entry(b, "a")->pieces, 2);
        assert_int_equal(entry(b, "a")->bytes, 0);
        assert_fails(tl_tensorbundle_copy(&byte, b, entry(b, "a")), TL_EUNSUPPORTED,
                     "in pieces, which cannot be put together");
        tl_tensorbundle_free(&b);
    }
    // Far more elements than can be counted twice.
#define HUGE "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    hand h;
    hand_begin(&h, ONE_SHARD);
    tl_str_addn(&h.value, "\x08\4\x12\x0c\x12\x0a\x08" HUGE "\x28" HUGE, 26);
    hand_add(&h, "\0a\0\1\1\1\x80\x7f", 8);
    tl_str_addn(&h.value, "\x08\4\x12\x0c\x12\x0a\x08" HUGE "\x3a\2\x0a\0\x3a\2\x0a\0", 24);
    hand_add(&h, "a", 1);
    hand_end(&h);
    refused_now(TL_EINVAL, "entry 'a': pieces 0 and 1 of it overlap");
}

/* A piece without elements lies nowhere, though it begins within another. */
static void test_empty_pieces(void **state)
{
    (void)state;
    hand h;
    char bytes[4];
    hand_begin(&h, ONE_SHARD);
    tl_str_addn(&h.value, "\x08\4\x12\4\x12\2\x08\4\x28\4\x35", 11);
    uint32_t crc = tl_crc32c_mask(tl_crc32c(0, "0123", 4)), none = tl_crc32c_mask(0);
    tl_str_addn(&h.value, (const char *)&crc, 4);
    hand_add(&h, "\0a\0\1\1\1\x80\x84", 8);
    tl_str_addn(&h.value, "\x08\4\x12\2\x12\0\x35", 7);
    tl_str_addn(&h.value, (const char *)&none, 4);
    hand_add(&h, "\0a\0\1\1\1\x82\x80", 8);
    tl_str_addn(&h.value, "\x08\4\x12\4\x12\2\x08\4\x3a\4\x0a\2\x10\4\x3a\6\x0a\4\x08\2\x10\0", 22);
    hand_add(&h, "a", 1);
    hand_end(&h);
    tl_tensorbundle *b = bundle(in_folder("x"));
    assert_ok(tl_tensorbundle_copy(bytes, b, entry(b, "a")));
    assert_memory_equal(bytes, "0123", 4);
    tl_tensorbundle_free(&b);
}

/* --- small files that ask for much memory ----------------------------------------------------- */

static void seal(tl_str *out, size_t begin)
{
    tl_str_addc(out, TLI_TABLE_PLAIN);
    tli_put_u32(out, tl_crc32c_mask(tl_crc32c(0, out->data + begin, out->length - begin)));
}

/* A table of one block with these entries, which begin anew at the first alone. Adds to them. */
static void put_block(tl_str *t)
{
    static const char restart[] = "\0\0\0\0\1\0\0\0"; // at 0, and one of them
    tl_str place = TL_STR_INIT;
    tl_str_addn(t, restart, 8);
    tli_put_varint(&place, 0);
    tli_put_varint(&place, t->length);
    seal(t, 0);
    size_t meta = t->length;
    tl_str_addn(t, restart, 8);
    seal(t, meta);
    size_t index = t->length;
    tl_str_addn(t, "\0\1", 2);
    tl_str_addc(t, (char)place.length);
    tl_str_addc(t, '\xff');
    tl_str_addn(t, place.data, place.length);
    tl_str_addn(t, restart, 8);
    seal(t, index);
    size_t footer = t->length;
    tli_put_varint(t, meta);
    tli_put_varint(t, 8);
    tli_put_varint(t, index);
    tli_put_varint(t, footer - index - TLI_TABLE_TRAILER);
    tl_str_pad(t, 0, (int64_t)(TLI_TABLE_FOOTER - 8 - (t->length - footer)));
    tli_put_u64(t, TLI_TABLE_MAGIC);
    put_bytes(in_folder("x" INDEX), t->data, t->length);
    tl_str_deinit(&place);
}

static void test_bombs(void **state)
{
    (void)state;
    hand h;
    tl_str t = TL_STR_INIT;
    hand_begin(&h, "\x08\xff\xff\xff\x7f", 5); // a list of data files up to that one would be long
    tl_str_addn(&h.value, "\x08\4\x18\xfe\xff\xff\x7f\x28\1", 9);
    hand_add(&h, "a", 1);
    hand_end(&h);
    refused_now(TL_ENOTFOUND, "x.data-268435454-of-268435455");
    for (int i = 0; i <= TLI_TABLE_KEY; i++) tl_str_addc(&t, 'a');
    hand_begin(&h, ONE_SHARD);
    hand_add(&h, t.data, t.length);
    hand_end(&h);
    refused_now(TL_ELIMIT, "has 4097 bytes; 4096 are accepted");
    tl_str_cut(&t, 0);
    tl_str_addn(&t, "\0\0\2\x08\1", 5);
    for (uint64_t i = 0; i < TLI_TABLE_KEY; i++) { // each key is the one before and a byte
        tli_put_varint(&t, i);
        tl_str_addn(&t, "\1\2a\x08\7", 5);
    }
    put_block(&t);
    refused_now(TL_ELIMIT, "more bytes together than are accepted");
    // Objects that lie so deep that their paths have far more bytes than the graph.
    tl_tensorbundle_writer *w;
    tl_tensorbundle *b;
    tl_object_graph g;
    tl_str_cut(&t, 0);
    for (int i = 0; i < 6000; i++) tl_str_add(&t, "a/");
    tl_str_add(&t, "a");
    assert_ok(tl_tensorbundle_writer_new(&w));
    assert_ok(tl_tensorbundle_writer_put_int(w, "v", 1));
    assert_ok(tl_tensorbundle_writer_put_same(w, tl_str_text(&t), "v"));
    assert_ok(tl_tensorbundle_writer_write(w, in_folder("x")));
    tl_tensorbundle_writer_free(&w);
    b = bundle(in_folder("x"));
    assert_fails(tl_object_graph_init(&g, b), TL_ELIMIT, "its object graph is too deep");
    tl_tensorbundle_free(&b);
    tl_str_deinit(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_types),
        LAB_TEST(test_strings),
        LAB_TEST(test_objects),
        LAB_TEST(test_pieces),
        LAB_TEST(test_shards_and_variants),
        LAB_TEST(test_resolve),
        LAB_TEST(test_truncations),
        LAB_TEST(test_flips),
        LAB_TEST(test_damage_is_named),
        LAB_TEST(test_headers),
        LAB_TEST(test_entries),
        LAB_TEST(test_wrong_pieces),
        LAB_TEST(test_empty_pieces),
        LAB_TEST(test_bombs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
