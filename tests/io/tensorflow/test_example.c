/* tf.train.Example: what TensorFlow wrote, what we wrote, what nobody would write but protobuf
 * allows, and what is damaged. */
#include "test.h"

#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

static tl_feature find(const char *name, const void *data, size_t size)
{
    tl_feature f;
    assert_ok(tl_example_find(&f, &name, 1, data, size));
    return f;
}

/* --- by TensorFlow (tests/golden/image_ops.py) ----------------------------------------------- */

static tl_tfrecord_file *golden;

static int open_golden(void **state)
{
    (void)state;
    return tl_tfrecord_open(&golden, TEST_DATA "/golden/examples.tfrecord.gz", NULL) == TL_OK ? 0
                                                                                              : -1;
}

static int close_golden(void **state)
{
    (void)state;
    tl_tfrecord_close(&golden);
    return 0;
}

static tl_tfrecord golden_record(int64_t number)
{
    tl_tfrecord_cursor at = {.file = golden};
    tl_tfrecord r = {0};
    bool more = true;
    while (at.number <= number) assert_ok(tl_tfrecord_next(&at, &r, &more));
    assert_true(more);
    return r;
}

static void lists_of_tensorflow_are_read(void **state)
{
    (void)state;
    static const char *const names[] = {"ints", "text", "floats", "label", "nothing"};
    static const int64_t want[] = {0, -1, 127, 128, INT64_MAX, INT64_MIN};
    tl_tfrecord r = golden_record(0);
    tl_feature f[5];
    int64_t ints[6], label;
    float floats[3];
    tl_bytes text;
    assert_ok(tl_example_find(f, names, 5, r.data, r.size));
    assert_ok(tl_feature_ints(&f[0], "ints", ints, 6));
    assert_memory_equal(ints, want, sizeof want);
    int32_t halves[6];
    bool fits;
    assert_ok(tl_feature_int32s(&f[0], "ints", halves, 6, &fits));
    for (int i = 0; i < 6; i++) assert_int_equal(halves[i], (int32_t)want[i]);
    assert_false(fits);
    assert_ok(tl_feature_int32s(&f[3], "label", halves, 1, &fits));
    assert_true(fits && halves[0] == 7);
    assert_int_equal(tl_feature_int32s(&f[2], "floats", halves, 3, &fits), TL_EINVAL);
    assert_ok(tl_feature_bytes(&f[1], "text", &text, 1));
    assert_int_equal(text.size, 5);
    assert_memory_equal(text.data, "grass", 5);
    assert_ok(tl_feature_floats(&f[2], "floats", floats, 3));
    assert_true(floats[0] == 0 && floats[1] == -1.5f && floats[2] == 3.25e30f);
    assert_ok(tl_feature_ints(&f[3], "label", &label, 1));
    assert_int_equal(label, 7);
    assert_int_equal(f[4].kind, TL_FEATURE_NONE);
    assert_int_equal(f[4].count, 0);
    r = golden_record(1);
    tl_bytes words[3];
    tl_feature list = find("words", r.data, r.size);
    assert_ok(tl_feature_bytes(&list, "words", words, 3));
    assert_true(words[0].size == 1 && words[1].size == 0 && words[2].size == 2
                && words[2].data[1] == 'b');
    assert_int_equal(find("none", r.data, r.size).kind, TL_FEATURE_NONE);
    assert_int_equal(find("no_bytes", r.data, r.size).kind, TL_FEATURE_BYTES);
    assert_int_equal(find("no_bytes", r.data, r.size).count, 0);
    assert_int_equal(find("no_ints", r.data, r.size).kind, TL_FEATURE_INTS);
}

static void sequences_of_tensorflow_are_read(void **state)
{
    (void)state;
    static const char *const names[] = {"steps", "empty", "nothing"};
    tl_tfrecord r = golden_record(2);
    tl_feature_list lists[3];
    tl_feature f = find("length", r.data, r.size);
    int64_t values[2];
    bool more;
    assert_ok(tl_feature_ints(&f, "length", values, 1));
    assert_int_equal(values[0], 5);
    assert_ok(tl_sequence_example_find(lists, names, 3, r.data, r.size));
    assert_int_equal(lists[0].count, 5);
    for (int64_t t = 0; t < 5; t++) {
        assert_ok(tl_feature_list_next(&lists[0], &f, &more));
        assert_true(more);
        assert_ok(tl_feature_ints(&f, "steps", values, 2));
        assert_int_equal(values[0], t);
        assert_int_equal(values[1], t * t);
    }
    assert_ok(tl_feature_list_next(&lists[0], &f, &more));
    assert_false(more);
    assert_true(lists[1].there && lists[1].count == 0);
    assert_false(lists[2].there);
}

/* --- by us ------------------------------------------------------------------------------------ */

static tl_str make_example(void)
{
    static const int64_t ints[] = {3, -3, 1 << 20, INT64_MIN};
    static const float floats[] = {1.5f, -0.25f};
    const tl_bytes bytes[] = {{"ab", 2}, {"", 0}};
    tl_str out = TL_STR_INIT;
    tl_example_writer w = tl_example_begin(&out);
    tl_example_add_ints(&w, "ints", ints, 4);
    tl_example_add_floats(&w, "floats", floats, 2);
    tl_example_add_bytes(&w, "bytes", bytes, 2);
    tl_example_add_text(&w, "text", "hello");
    tl_example_add_ints(&w, "none", NULL, 0);
    assert_ok(tl_example_end(&w));
    return out;
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    tl_str out = make_example();
    tl_example_reader r = tl_example_read(out.data, out.length);
    static const struct {
        const char *name;
        tl_feature_kind kind;
        int64_t count;
    } want[] = {{"ints", TL_FEATURE_INTS, 4},
                {"floats", TL_FEATURE_FLOATS, 2},
                {"bytes", TL_FEATURE_BYTES, 2},
                {"text", TL_FEATURE_BYTES, 1},
                {"none", TL_FEATURE_INTS, 0}};
    tl_feature f;
    bool more;
    for (int i = 0; i < TL_COUNT(want); i++) {
        assert_ok(tl_example_next(&r, &f, &more));
        assert_true(more && f.name.size == strlen(want[i].name));
        assert_memory_equal(f.name.data, want[i].name, f.name.size);
        assert_int_equal(f.kind, want[i].kind);
        assert_int_equal(f.count, want[i].count);
    }
    assert_ok(tl_example_next(&r, &f, &more));
    assert_false(more);
    int64_t ints[4];
    f = find("ints", out.data, out.length);
    assert_ok(tl_feature_ints(&f, "ints", ints, 4));
    assert_true(ints[0] == 3 && ints[1] == -3 && ints[2] == 1 << 20 && ints[3] == INT64_MIN);
    tl_str_deinit(&out);
}

// Integers of all lengths beside each other, in lists whose own lengths take one, two and three
// bytes.
static void integers_of_all_lengths_are_read(void **state)
{
    (void)state;
    enum { MOST = 5000 };
    int64_t *in = malloc(MOST * sizeof *in), *out = malloc(MOST * sizeof *out);
    int32_t *narrow = malloc(MOST * sizeof *narrow);
    uint64_t draw = 1;
    for (int64_t round = 0; round < 300; round++) {
        int64_t count = round % 30 == 29 ? MOST : round;
        bool all_fit = true, fits;
        for (int64_t i = 0; i < count; i++) {
            draw = draw * UINT64_C(6364136223846793005) + 1442695040888963407;
            int shift = round % 3 == 0   ? 57
                        : round % 3 == 1 ? 43
                                         : (int)(draw >> 58); // one byte, three, any
            in[i] = (int64_t)(draw >> shift);
            all_fit = all_fit && in[i] == (int32_t)in[i];
        }
        tl_str text = TL_STR_INIT;
        tl_example_writer w = tl_example_begin(&text);
        tl_example_add_ints(&w, "x", in, count);
        assert_ok(tl_example_end(&w));
        char *copy = malloc(text.length); // what is read behind its end is found out
        memcpy(copy, text.data, text.length);
        tl_feature f = find("x", copy, text.length);
        assert_int_equal(f.count, count);
        assert_ok(tl_feature_ints(&f, "x", out, count));
        assert_memory_equal(in, out, (size_t)count * sizeof *in);
        assert_ok(tl_feature_int32s(&f, "x", narrow, count, &fits));
        assert_int_equal(fits, all_fit);
        for (int64_t i = 0; i < count; i++) assert_int_equal(narrow[i], (int32_t)in[i]);
        free(copy);
        tl_str_deinit(&text);
    }
    free(narrow);
    free(in);
    free(out);
}

static void wrong_kinds_and_counts_are_told(void **state)
{
    (void)state;
    tl_str out = make_example();
    tl_feature ints = find("ints", out.data, out.length),
               none = find("nowhere", out.data, out.length);
    int64_t values[4] = {0};
    float floats[4];
    tl_bytes bytes;
    assert_fails(tl_feature_ints(&ints, "image/class/label", values, 1), TL_EINVAL,
                 "the feature 'image/class/label' has 4 values; 1 are wanted");
    assert_fails(tl_feature_floats(&ints, "x", floats, 4), TL_EINVAL,
                 "the feature 'x' is a list of int64; one of float is wanted");
    assert_fails(tl_feature_bytes(&none, "nowhere", &bytes, 1), TL_ENOTFOUND,
                 "the example has no feature 'nowhere'; a list of bytes is wanted");
    assert_ok(tl_feature_bytes(&none, "nowhere", &bytes, 0));
    assert_string_equal(tl_feature_kind_name(TL_FEATURE_FLOATS), "float");
    assert_string_equal(tl_feature_kind_name((tl_feature_kind)9), "none");
    tl_str_deinit(&out);
}

/* --- by hand ---------------------------------------------------------------------------------- */

static void lists_may_be_packed_or_not(void **state)
{
    (void)state;
    // features { entry { "a": int64_list { 1: 5, 1: [6, 300], 1: 7 } } }
    static const char ints[] = "\x0a\x12\x0a\x10\x0a\x01"
                               "a\x12\x0b\x1a\x09\x08\x05\x0a\x03\x06\xac\x02\x08\x07";
    // float_list { 1: 1.0, 1: [2.0] }
    static const char floats[] = "\x0a\x14\x0a\x12\x0a\x01"
                                 "a\x12\x0d\x12\x0b\x0d\0\0\x80\x3f\x0a\x04\0\0\0\x40";
    tl_feature f = find("a", ints, sizeof ints - 1);
    int64_t values[4];
    assert_int_equal(f.count, 4);
    assert_ok(tl_feature_ints(&f, "a", values, 4));
    assert_true(values[0] == 5 && values[1] == 6 && values[2] == 300 && values[3] == 7);
    f = find("a", floats, sizeof floats - 1);
    float numbers[2];
    assert_ok(tl_feature_floats(&f, "a", numbers, 2));
    assert_true(numbers[0] == 1 && numbers[1] == 2);
}

static void add(tl_str *s, const char *bytes, size_t size)
{
    tl_str_addc(s, (char)size); // all are short
    tl_str_addn(s, bytes, size);
}

// entry { name, feature bytes } within features; unknown fields before and behind.
static void add_entry(tl_str *features, const char *name, const char *feature, size_t size)
{
    tl_str entry = TL_STR_INIT;
    tl_str_addn(&entry, "\x18\x07", 2); // field 3: 7
    tl_str_addc(&entry, 0x0a);
    add(&entry, name, strlen(name));
    tl_str_addc(&entry, 0x12);
    add(&entry, feature, size);
    tl_str_addn(&entry, "\x2d\1\2\3\4", 5); // field 5: 4 bytes
    tl_str_addn(features, "\x7a\x01x", 3);  // field 15: "x"
    tl_str_addc(features, 0x0a);
    add(features, entry.data, entry.length);
    tl_str_deinit(&entry);
}

static tl_str wrap(const tl_str *features)
{
    tl_str whole = TL_STR_INIT;
    tl_str_addc(&whole, 0x0a);
    add(&whole, features->data, features->length);
    return whole;
}

static void the_last_one_counts(void **state)
{
    (void)state;
    tl_str features = TL_STR_INIT;
    add_entry(&features, "a", "\x1a\x02\x08\x01", 4); // int64 1
    add_entry(&features, "b", "\x1a\x02\x08\x05\x12\0\x1a\x02\x08\x06",
              10); // int64 5, floats, int64 6: the last kind
    add_entry(&features, "c", "\x1a\x02\x08\x05\x1a\x02\x08\x06", 8); // twice the same kind: joined
    add_entry(&features, "a", "\x1a\x02\x08\x02", 4);                 // int64 2
    tl_str whole = wrap(&features);
    int64_t values[2];
    tl_feature f = find("a", whole.data, whole.length);
    assert_ok(tl_feature_ints(&f, "a", values, 1));
    assert_int_equal(values[0], 2);
    f = find("b", whole.data, whole.length);
    assert_ok(tl_feature_ints(&f, "b", values, 1));
    assert_int_equal(values[0], 6);
    f = find("c", whole.data, whole.length);
    assert_ok(tl_feature_ints(&f, "c", values, 2));
    assert_true(values[0] == 5 && values[1] == 6);
    // Twice the features: all of them.
    tl_str second = TL_STR_INIT;
    add_entry(&second, "d", "\x1a\x02\x08\x09", 4);
    tl_str more = wrap(&second);
    tl_str_addn(&whole, more.data, more.length);
    f = find("d", whole.data, whole.length);
    assert_ok(tl_feature_ints(&f, "d", values, 1));
    assert_int_equal(values[0], 9);
    assert_int_equal(find("a", whole.data, whole.length).count, 1);
    tl_str_deinit(&features);
    tl_str_deinit(&second);
    tl_str_deinit(&more);
    tl_str_deinit(&whole);
}

static void names_are_compared_whole(void **state)
{
    (void)state;
    tl_str out = make_example();
    assert_int_equal(find("int", out.data, out.length).kind, TL_FEATURE_NONE);
    assert_int_equal(find("intsx", out.data, out.length).kind, TL_FEATURE_NONE);
    assert_int_equal(find("", out.data, out.length).kind, TL_FEATURE_NONE);
    tl_str_deinit(&out);
    static const char nul[] = "\x0a\x0b\x0a\x09\x0a\x02"
                              "a\0\x12\x03\x1a\x01\x08"; // a name with a NUL in it
    tl_feature f;
    const char *name = "a";
    tl_status st = tl_example_find(&f, &name, 1, nul, sizeof nul - 1);
    assert_true(st == TL_OK && f.kind == TL_FEATURE_NONE);
}

static void damaged_examples_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"ints", "floats", "bytes", "text", "none"};
    tl_str out = make_example();
    tl_feature f[5];
    for (size_t size = 1; size < out.length; size++) {
        // As in a mapping, nothing may be read behind the end: a copy of that size shows it to the
        // sanitizer.
        char *copy = malloc(size);
        memcpy(copy, out.data, size);
        assert_int_equal(tl_example_find(f, names, 5, copy, size), TL_EINVAL);
        assert_non_null(strstr(tl_error_message(), "no tf.train.Example"));
        free(copy);
    }
    assert_ok(tl_example_find(f, names, 5, NULL, 0));
    // A list of integers that ends within one, one that is too long, floats that are not whole, a
    // number for a list.
    static const struct {
        const char *feature;
        size_t size;
    } bad[] = {{"\x1a\x03\x0a\x01\x80", 5},
               {"\x1a\x0d\x0a\x0b\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 15},
               {"\x12\x05\x0a\x03\0\0\0", 7},
               {"\x18\x01", 2},
               {"\x0a\x02\x08\x01", 4},
               {"\x1a\x05\x0d\0\0\0\0", 7},
               {"\x12\x02\x08\x01", 4}};
    for (int i = 0; i < TL_COUNT(bad); i++) {
        tl_str features = TL_STR_INIT;
        add_entry(&features, "ints", bad[i].feature, bad[i].size);
        tl_str whole = wrap(&features);
        assert_fails(tl_example_find(f, names, 1, whole.data, whole.length), TL_EINVAL,
                     "the value of feature 'ints' at byte");
        assert_ok(
            tl_example_find(f, names + 1, 1, whole.data, whole.length)); // nobody asked for it
        tl_str_deinit(&features);
        tl_str_deinit(&whole);
    }
    assert_fails(tl_example_find(f, names, 1, "\x08\x01", 2), TL_EINVAL,
                 "a number where a message is expected");
    assert_fails(tl_example_find(f, names, 1, "\x0a\x02\x08\x01", 4), TL_EINVAL, "at byte");
    tl_str_deinit(&out);
}

// Integers of ten bytes are the longest; wherever one of eleven stands, it is found.
static void integers_that_are_too_long_are_refused(void **state)
{
    (void)state;
    const char *name = "a";
    for (size_t before = 0; before < 20; before++)
        for (size_t behind = 0; behind < 20; behind++)
            for (size_t going_on = 9; going_on <= 10; going_on++) {
                tl_str list = TL_STR_INIT, feature = TL_STR_INIT, features = TL_STR_INIT;
                for (size_t i = 0; i < before; i++) tl_str_addc(&list, 1);
                for (size_t i = 0; i < going_on; i++) tl_str_addc(&list, (char)0x80);
                for (size_t i = 0; i <= behind; i++) tl_str_addc(&list, 1);
                tl_str_addn(&feature, "\x1a", 1);
                tl_str_addc(&feature, (char)(list.length + 2));
                tl_str_addc(&feature, 0x0a);
                add(&feature, list.data, list.length);
                add_entry(&features, name, feature.data, feature.length);
                tl_str whole = wrap(&features);
                tl_feature f;
                if (going_on == 10) {
                    assert_fails(tl_example_find(&f, &name, 1, whole.data, whole.length), TL_EINVAL,
                                 "is damaged");
                } else {
                    assert_ok(tl_example_find(&f, &name, 1, whole.data, whole.length));
                    assert_int_equal(f.count, before + 1 + behind);
                }
                tl_str_deinit(&list);
                tl_str_deinit(&feature);
                tl_str_deinit(&features);
                tl_str_deinit(&whole);
            }
}

static void writing_without_memory_is_told(void **state)
{
    (void)state;
    tl_alloc_fail_at(1, 100);
    tl_str out = TL_STR_INIT;
    tl_example_writer w = tl_example_begin(&out);
    tl_example_add_text(&w, "a", "b");
    tl_status st = tl_example_end(&w);
    tl_alloc_fail_at(0, 0);
    assert_int_equal(st, TL_ENOMEM);
    tl_str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_tensorflow_are_read),
        cmocka_unit_test(sequences_of_tensorflow_are_read),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(integers_of_all_lengths_are_read),
        cmocka_unit_test(wrong_kinds_and_counts_are_told),
        cmocka_unit_test(lists_may_be_packed_or_not),
        cmocka_unit_test(the_last_one_counts),
        cmocka_unit_test(names_are_compared_whole),
        cmocka_unit_test(damaged_examples_are_refused),
        cmocka_unit_test(integers_that_are_too_long_are_refused),
        cmocka_unit_test(writing_without_memory_is_told),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
