/* Records of texts with labels, against those of Model Garden's library
 * (tests/golden/pretraining_data.py); how classes are numbered, and what is refused.
 * needs: threads */
#include "io/alloc_failures.h"
#include "text/text_lab.h"

#include <tilth/text/classification.h>

static tl_tokenizer *tokenizer;
static tl_arena *arena;

static int open_all(void **state)
{
    if (make_folder(state) != 0) return -1;
    tokenizer = open_vocab(GOLDEN "toy_vocab.txt", false);
    assert_ok(tl_arena_new(&arena));
    return 0;
}

static int close_all(void **state)
{
    tl_tokenizer_free(&tokenizer);
    tl_arena_free(&arena);
    return remove_folder(state);
}

/* The rows of the golden script. */
static const char *const rows[][3] = {
    {"the cat sat", "", "no"},
    {"a dog ran home", "the bird sang loudly", "yes"},
    {"the cat sat on the mat", "a", "no"},
    {"a", "the cat sat on the mat a dog ran", "yes"},
    {"the dogs the dogs the dogs", "the cats the cats the cats", "maybe"},
    {"", "bird", "no"},
    {"bird", " ", "no"},
    {"the cat sat on the mat a dog ran home", "", "maybe"},
};

/* As JSON or as a table; `numbers` writes labels as the regression has them. */
static const char *put_rows(const char *name, bool json, bool numbers)
{
    tl_str s = TL_STR_INIT;
    if (!json) tl_str_add(&s, "a,b,label\n");
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        char label[40];
        if (numbers) tl_double_text(label, (double)strlen(rows[i][2]) / 3);
        else
            snprintf(label, sizeof label, "%s%s%s", json ? "\"" : "", rows[i][2], json ? "\"" : "");
        if (json)
            tl_str_addf(&s, "{\"a\": \"%s\", \"label\": %s, \"b\": \"%s\"}\n", rows[i][0], label,
                        rows[i][1]);
        else tl_str_addf(&s, "\"%s\",\"%s\",%s\n", rows[i][0], rows[i][1], label);
    }
    put_bytes(in_folder(name), s.data, s.length);
    tl_str_deinit(&s);
    return in_folder(name);
}

static const tl_text_rows_args columns = {.first = "a", .second = "b", .label = "label"};

static void records_are_the_originals(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        bool json = i & 1, numbers = i & 2;
        tl_classification_args args = {.tokenizer = tokenizer,
                                       .max_seq_length = 9,
                                       .columns = columns,
                                       .is_regression = numbers};
        const char *path = put_rows(json ? "rows.jsonl" : "rows.csv", json, numbers);
        tl_classification_result result;
        if (i & 4) assert_ok(tl_pool_new(&args.pool, 3));
        if (!numbers) {
            assert_ok(tl_text_classes_find(&args.classes, arena, path, &columns));
            assert_int_equal(args.classes.count, 3);
        }
        assert_ok(tl_classification_write(in_folder("out"), path, &args, &result));
        assert_int_equal(
            same_records(numbers ? GOLDEN "numbers.tfrecord" : GOLDEN "classes.tfrecord",
                         in_folder("out")),
            TL_COUNT(rows));
        assert_int_equal(result.rows, TL_COUNT(rows));
        assert_int_equal(result.cut, 5);
        tl_pool_free(&args.pool);
    }
}

/* More rows than are made at a time, on several threads. */
static void many_rows_stay_in_order(void **state)
{
    (void)state;
    enum { ROWS = 5000 };
    tl_str s = TL_STR_INIT;
    tl_classification_args args = {
        .tokenizer = tokenizer,
        .max_seq_length = 8,
        .columns = {.first = "text", .label = "number"},
        .is_regression = true,
    };
    tl_classification_result result;
    tl_tfrecord_file *f;
    tl_tfrecord r;
    bool more = true;
    tl_str_add(&s, "text,number\n");
    for (int i = 0; i < ROWS; i++) tl_str_addf(&s, "the cat,%d\n", i * 3);
    put_bytes(in_folder("many.csv"), s.data, s.length);
    tl_str_deinit(&s);
    assert_ok(tl_pool_new(&args.pool, 4));
    assert_ok(tl_classification_write(in_folder("many"), in_folder("many.csv"), &args, &result));
    tl_pool_free(&args.pool);
    assert_int_equal(result.rows, ROWS);
    assert_ok(tl_tfrecord_open(&f, in_folder("many"), NULL));
    tl_tfrecord_cursor at = {.file = f};
    for (int64_t i = 0; i < ROWS; i++) {
        static const char *const names[] = {"label_ids", "example_id"};
        tl_feature found[2];
        float label;
        int64_t id;
        assert_ok(tl_tfrecord_next(&at, &r, &more));
        assert_true(more);
        assert_ok(tl_example_find(found, names, 2, r.data, r.size));
        assert_ok(tl_feature_floats(&found[0], names[0], &label, 1));
        assert_ok(tl_feature_ints(&found[1], names[1], &id, 1));
        assert_int_equal(id, i);
        assert_true(label == (float)(i * 3));
    }
    assert_ok(tl_tfrecord_next(&at, &r, &more));
    assert_false(more);
    tl_tfrecord_close(&f);
}

static void find_classes(tl_strings *out, const char *labels)
{
    tl_str s = TL_STR_INIT;
    tl_str_add(&s, "text,label\n");
    for (const char *p = labels; *p; p += strlen(p) + 1) tl_str_addf(&s, "x,%s\n", p);
    put_bytes(in_folder("labels.csv"), s.data, s.length);
    tl_str_deinit(&s);
    const tl_text_rows_args where = {.first = "text", .label = "label"};
    assert_ok(tl_text_classes_find(out, arena, in_folder("labels.csv"), &where));
}

static void classes_are_sorted(void **state)
{
    (void)state;
    tl_strings c;
    find_classes(&c, "no\0yes\0maybe\0no\0");
    assert_int_equal(c.count, 3);
    assert_string_equal(c.items[0], "maybe");
    assert_string_equal(c.items[2], "yes");
    find_classes(&c, "10\0"
                     "2\0"
                     "-1\0"
                     "2\0"
                     "10\0");
    assert_int_equal(c.count, 3);
    assert_string_equal(c.items[0], "-1");
    assert_string_equal(c.items[1], "2");
    assert_string_equal(c.items[2], "10");
    find_classes(&c, "10\0"
                     "2\0"
                     "x\0");
    assert_string_equal(c.items[0], "10");
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"maybe", "no", "yes"};
    tl_classification_args args = {
        .tokenizer = tokenizer, .columns = columns, .classes = {names, 2}};
    tl_classification_result result;
    const char *path = tl_arena_strdup(arena, put_rows("rows.csv", false, false));
    int before = each_file(NULL);
    assert_fails(tl_classification_write(in_folder("none"), path, &args, &result), TL_EDATA,
                 "rows.csv:3: column 'label': 'yes' is none of the 2 classes: maybe, no");
    args.is_regression = true;
    assert_fails(tl_classification_write(in_folder("none"), path, &args, &result), TL_EDATA,
                 "rows.csv:2: column 'label': the label of a regression is a number");
    args.is_regression = false;
    args.classes.count = 3;
    args.max_seq_length = 4;
    assert_fails(tl_classification_write(in_folder("none"), path, &args, &result), TL_EINVAL,
                 "max_seq_length");
    args.max_seq_length = 0;
    args.classes.count = 0;
    assert_fails(tl_classification_write(in_folder("none"), path, &args, &result), TL_EINVAL,
                 "there are no classes");
    assert_int_equal(each_file(NULL), before);
    args.classes.count = 3;
    put_bytes(in_folder("empty.csv"), "a,b,label\n", 10);
    assert_fails(tl_classification_write(in_folder("none"), in_folder("empty.csv"), &args, &result),
                 TL_EDATA, "has no rows");
    // without labels all are 0
    args.columns.label = NULL;
    assert_ok(tl_classification_write(in_folder("none"), path, &args, &result));
    assert_int_equal(result.rows, TL_COUNT(rows));
    assert_int_equal(result.cut, 0);
    assert_fails(tl_text_classes_find(&args.classes, arena, path, &args.columns), TL_EINVAL,
                 "the column of the labels is not given");
}

static tl_status write_once(void)
{
    static const char *const names[] = {"maybe", "no", "yes"};
    tl_classification_args args = {
        .tokenizer = tokenizer, .columns = columns, .classes = {names, 3}};
    tl_classification_result result;
    tl_strings classes;
    TL_TRY(tl_text_classes_find(&classes, arena, in_folder("rows.jsonl"), &columns));
    return tl_classification_write(in_folder("out"), in_folder("rows.jsonl"), &args, &result);
}

static void memory_may_lack(void **state)
{
    (void)state;
    put_rows("rows.jsonl", true, false);
    assert_survives_failures(write_once, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_the_originals), cmocka_unit_test(many_rows_stay_in_order),
        cmocka_unit_test(classes_are_sorted),        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(memory_may_lack),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
