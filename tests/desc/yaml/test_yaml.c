/* YAML in: files as people write them, against what PyYAML reads in them; mistakes with their
 * places; and texts that are made to exhaust a reader. */
#include "test.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/desc/yaml.h>

#include "desc/arena.h"

static const tl_value *parse(const char *text)
{
    const tl_value *v = NULL;
    assert_ok(tl_yaml_parse(&v, arena, text, strlen(text), "t.yaml"));
    return v;
}

/* A length of 0 is that of the text. */
static void refuse(const char *text, size_t length, tl_status code, const char *message)
{
    const tl_value *v = NULL;
    if (length == 0) length = strlen(text);
    tl_error_clear();
    tl_status st = tl_yaml_parse(&v, arena, text, length, "t.yaml");
    if (st != code || !strstr(tl_error_message(), message))
        fail_msg("%.60s\n    gave %s: %s\n    not %s: %s", text, tl_status_name(st),
                 st == TL_OK ? "" : tl_error_message(), tl_status_name(code), message);
}

/* Both texts hold the same. */
static void same(const char *a, const char *b)
{
    if (!tl_value_equal(parse(a), parse(b))) fail_msg("%s\n    is not\n%s", a, b);
}

/* --- files ------------------------------------------------------------------------------------ */

static int ends_with(const char *text, const char *end_of_it)
{
    size_t n = strlen(text), m = strlen(end_of_it);
    return n >= m && strcmp(text + n - m, end_of_it) == 0;
}

static void round_trip(const tl_value *v, const char *name)
{
    tl_str text = TL_STR_INIT;
    const tl_value *again = NULL;
    assert_ok(tl_yaml_write_value(&text, v));
    assert_ok(tl_yaml_parse(&again, arena, tl_str_text(&text), text.length, name));
    if (!tl_value_equal(v, again))
        fail_msg("%s: written, it reads as another\n%s", name, tl_str_text(&text));
    tl_str_deinit(&text);
}

static void test_corpus(void **state)
{
    (void)state;
    char path[512];
    int count = 0;
    DIR *folder = opendir(TEST_DATA "/data/yaml");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!ends_with(entry->d_name, ".yaml") && !ends_with(entry->d_name, ".json")) continue;
        const tl_value *v, *expected;
        snprintf(path, sizeof path, TEST_DATA "/data/yaml/%s", entry->d_name);
        assert_ok(tl_yaml_read(&v, arena, path));
        snprintf(path, sizeof path, TEST_DATA "/data/yaml/expected/%s.json", entry->d_name);
        assert_ok(tl_yaml_read(&expected, arena, path));
        if (!tl_value_equal(v, expected)) fail_msg("%s: not what PyYAML reads", entry->d_name);
        round_trip(v, entry->d_name);
        count++;
    }
    closedir(folder);
    assert_true(count >= 12);
}

/* What Model Garden itself wrote: the parameters of its experiments. */
static void test_model_garden_files(void **state)
{
    (void)state;
    char path[512];
    int count = 0;
    DIR *folder = opendir(TEST_DATA "/data/configs");
    if (!folder) skip();
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!ends_with(entry->d_name, ".yaml")) continue;
        const tl_value *v;
        snprintf(path, sizeof path, TEST_DATA "/data/configs/%s", entry->d_name);
        assert_ok(tl_yaml_read(&v, arena, path));
        assert_int_equal(v->kind, TL_VALUE_MAP);
        if (!tl_value_get(v, "trainer")) fail_msg("%s: no trainer", entry->d_name);
        round_trip(v, entry->d_name);
        count++;
    }
    closedir(folder);
    assert_int_equal(count, 41);
}

static void test_files_that_are_not_there(void **state)
{
    (void)state;
    const tl_value *v;
    assert_fails(tl_yaml_read(&v, arena, "/nonexistent/x.yaml"), TL_ENOTFOUND,
                 "/nonexistent/x.yaml");
    assert_fails(tl_yaml_read(&v, arena, TEST_DATA), TL_EINVAL, TEST_DATA);
}

/* --- documents -------------------------------------------------------------------------------- */

static void test_empty_documents(void **state)
{
    (void)state;
    static const char *const empty[] = {
        "",      "\n\n",       "# only a comment\n", "   ",
        "---\n", "---\n...\n", "--- # nothing\n",    "\xef\xbb\xbf"};
    for (int64_t i = 0; i < TL_COUNT(empty); i++)
        if (parse(empty[i])) fail_msg("'%s' is not empty", empty[i]);
    assert_non_null(parse("~")); // null is something that was written
    assert_non_null(parse("''"));
    assert_non_null(parse("{}"));
}

static void test_one_document_only(void **state)
{
    (void)state;
    same("---\na: 1\n...\n", "a: 1");
    same("%YAML 1.1\n--- {a: 1}", "a: 1");
    refuse("a: 1\n---\nb: 2\n", 0, TL_EINVAL, "t.yaml:2:1: a second document");
    refuse("a: 1\n...\n---\nb: 2\n", 0, TL_EINVAL, "t.yaml:3:1: a second document");
}

static void test_places(void **state)
{
    (void)state;
    const tl_value *v = parse("# comment\ntask:\n  sizes: [1,\n    2]\n  'name':   \"x\"\n");
    const tl_value *task = tl_value_get(v, "task");
    assert_string_equal(v->place.source, "t.yaml");
    assert_int_equal(v->pairs[0].place.line, 2);
    assert_int_equal(v->pairs[0].place.column, 1);
    assert_int_equal(task->place.line, 3);
    assert_int_equal(task->place.column, 3);
    assert_int_equal(task->pairs[0].value->place.column, 10);
    assert_int_equal(task->pairs[0].value->items[1]->place.line, 4);
    assert_int_equal(task->pairs[0].value->items[1]->place.column, 5);
    assert_int_equal(task->pairs[1].place.column, 3);
    assert_true(task->pairs[1].key_quoted);
    assert_int_equal(task->pairs[1].value->place.column, 13);
    // Columns count characters, also behind letters of several bytes.
    v = parse("{\xc3\xa9: [\xe4\xb8\x96, 1]}");
    assert_int_equal(v->pairs[0].value->items[1]->place.column, 9);
}

static void test_quotes(void **state)
{
    (void)state;
    const tl_value *v = parse("- plain\n- 'single'\n- \"double\"\n- !!str tagged\n- ! 12\n- !!int "
                              "'5'\n- |\n  5\n- >-\n  5\n");
    static const bool quoted[] = {false, true, true, true, true, false, true, true};
    for (int64_t i = 0; i < TL_COUNT(quoted); i++) assert_int_equal(v->items[i]->quoted, quoted[i]);
    assert_string_equal(v->items[6]->text, "5\n");
}

/* --- tags, anchors, merges -------------------------------------------------------------------- */

static void test_tuples(void **state)
{
    (void)state;
    const tl_value *v = parse("a: !!python/tuple [1, 2]\nb: [1, 2]\nc: !!python/tuple\n- 1\n- 2\n");
    assert_true(tl_value_get(v, "a")->tuple);
    assert_false(tl_value_get(v, "b")->tuple);
    assert_true(tl_value_get(v, "c")->tuple);
    assert_true(tl_value_equal(tl_value_get(v, "a"), tl_value_get(v, "b"))); // the same data
    assert_true(tl_value_equal(tl_value_get(v, "a"), tl_value_get(v, "c")));
}

static void test_tags_that_are_refused(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system ''",
        "!!python/object:a.B {}",
        "!!binary aGVsbG8=",
        "!!timestamp 2001-01-01",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!mine x",
        "!<tag:example.com,2000:x> y",
        "!!python/tuplex [1]",
    };
    for (int64_t i = 0; i < TL_COUNT(refused); i++) {
        char text[128];
        snprintf(text, sizeof text, "a:\n  b: %s\n", refused[i]);
        refuse(text, strlen(text), TL_EINVAL, "t.yaml:2:6: the tag '");
    }
}

static void test_anchors(void **state)
{
    (void)state;
    same("a: &x 1\nb: *x", "{a: 1, b: 1}");
    same("a: &x [1, 2]\nb: [*x, *x]", "{a: [1, 2], b: [[1, 2], [1, 2]]}");
    same("&k key: 1\nb: *k", "{key: 1, b: key}");
    same("a: &x k\n*x : 1", "{a: k, k: 1}");
    same("a: &x 1\nb: &x 2\nc: *x", "{a: 1, b: 2, c: 2}"); // the last one before the alias
    same("a: &x\nb: *x", "{a: null, b: null}");
    refuse("a: *x\nb: &x 1\n", 0, TL_EINVAL, "t.yaml:1:4: the alias *x has no anchor &x before it");
    refuse("a: &x [1, *x]\n", 0, TL_EINVAL,
           "t.yaml:1:11: the alias *x stands inside its own anchor");
    refuse("a: &x\n  b:\n    c: *x\n", 0, TL_EINVAL, "t.yaml:3:8: the alias *x stands inside");
    refuse("&x {<<: *x}", 0, TL_EINVAL, "t.yaml:1:9: the alias *x stands inside");
}

static void test_merges(void **state)
{
    (void)state;
    const char *bases = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\n";
    static const struct {
        const char *yaml, *expected;
    } cases[] = {
        {"{<<: *a}", "{x: 1, y: 1}"},
        {"{<<: *a, x: 9}", "{x: 9, y: 1}"},
        {"{x: 9, <<: *a}", "{x: 9, y: 1}"},
        {"{<<: [*a, *b]}", "{x: 1, y: 1, z: 2}"}, // the earlier of a list wins
        {"{<<: [*b, *a]}", "{x: 2, y: 1, z: 2}"},
        {"{<<: *a, w: {<<: *b}}", "{x: 1, y: 1, w: {x: 2, z: 2}}"},
        {"{<<: {p: 1, <<: *a}}", "{p: 1, x: 1, y: 1}"},
        {"{<<: []}", "{}"},
        {"{'<<': *a}", "{'<<': {x: 1, y: 1}}"},     // in quotes it is a key like any other
        {"{<<: *a, <<: *b}", "{x: 2, y: 1, z: 2}"}, // of two of them PyYAML takes the later
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "%sc: %s\n", bases, cases[i].yaml);
        const tl_value *merged = tl_value_get(parse(text), "c");
        if (!tl_value_equal(merged, parse(cases[i].expected))) fail_msg("%s", cases[i].yaml);
    }
    refuse("a: &a 5\nb:\n  <<: *a\n", 0, TL_EINVAL, "t.yaml:3:3: a merge key (<<) needs a map");
    refuse("a: &a 5\nb: {<<: [*a]}\n", 0, TL_EINVAL, "t.yaml:2:5: a merge key (<<) needs a map");
    refuse("a: &a {}\nb: {<<: [[*a]]}\n", 0, TL_EINVAL, "t.yaml:2:5: a merge key (<<) needs a map");
}

/* --- mistakes --------------------------------------------------------------------------------- */

static void test_syntax_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a: [1, 2\nb: 3\n", "t.yaml:2:2: not YAML: "},
        {"a: {b: 1\n", "t.yaml:2:1: not YAML: "},
        {"a: 'x\n", "t.yaml:2:1: not YAML: found unexpected end of stream"},
        {"a: b: c\n", "t.yaml:1:5: not YAML: mapping values are not allowed"},
        {"a: 1\n  b: 2\n", "t.yaml:2:4: not YAML: mapping values are not allowed"},
        {"a:\n\t- 1\n", "t.yaml:2:1: not YAML: a tab; lines are indented with blanks"},
        {"- a\nb: 1\n", "t.yaml:2:1: not YAML: did not find expected '-' indicator"},
        {"a: @x\n", "t.yaml:1:4: not YAML: found character that cannot start any token"},
        {"a: \"\\q\"\n", "t.yaml:1:5: not YAML: found unknown escape character"},
        {"a: !<x\n", "t.yaml:1:7: not YAML: "},
        {"a: &\n", "t.yaml:1:5: not YAML: "},
        {"%FOO\n%BAR x y\nx", "not YAML: "},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++)
        refuse(cases[i].text, strlen(cases[i].text), TL_EINVAL, cases[i].message);
}

static void test_keys(void **state)
{
    (void)state;
    refuse("a: 1\nb: 2\na: 3\n", 0, TL_EEXISTS,
           "t.yaml:3:1: the key 'a' is given twice (first at line 1)");
    refuse("t:\n  x: 1\n  'x': 2\n", 0, TL_EEXISTS, "t.yaml:3:3: the key 'x' is given twice");
    refuse("{a: 1, b: {c: 1, c: 2}}", 0, TL_EEXISTS, "t.yaml:1:18: the key 'c' is given twice");
    refuse("? [a, b]\n: 1\n", 0, TL_EINVAL,
           "t.yaml:1:3: a key must be a word, not a list or a map");
    refuse("{{a: 1}: 2}", 0, TL_EINVAL, "t.yaml:1:2: a key must be a word");
    same("1: a\n1.0: b\ntrue: c\nnull: d\n", "{'1': a, '1.0': b, 'true': c, 'null': d}");
}

static void test_bytes_that_are_no_text(void **state)
{
    (void)state;
    refuse("a: b\0c\n", 7, TL_EINVAL, "t.yaml:1:5: not YAML: control characters are not allowed");
    refuse("a: \"x\\0y\"\n", 0, TL_EINVAL, "t.yaml:1:4: a string with a zero byte in it");
    refuse("ok: 1\na: \x01\n", 0, TL_EINVAL,
           "t.yaml:2:4: not YAML: control characters are not allowed");
    // Bad UTF-8: a lone continuation, a cut sequence, an overlong one, a surrogate, beyond Unicode.
    static const struct {
        const char *bytes, *place;
    } bad[] = {
        {"\x80", "3:6"},
        {"\xc3(", "3:7"},
        {"\xc0\xaf", "3:6"},
        {"\xed\xa0\x80", "3:6"},
        {"\xf4\x90\x80\x80", "3:6"},
        {"\xf8", "3:6"},
        {"\xff", "3:6"},
        {"\xfe", "3:6"},
    };
    for (int64_t i = 0; i < TL_COUNT(bad); i++) {
        char text[32], message[32];
        snprintf(text, sizeof text, "k: 1\n\nab: \"%s\"\n", bad[i].bytes);
        snprintf(message, sizeof message, "t.yaml:%s: not YAML: ", bad[i].place);
        refuse(text, 0, TL_EINVAL, message);
    }
    refuse("a: \xc3", 4, TL_EINVAL, "t.yaml:1:4: not YAML: incomplete UTF-8");
    // UTF-16 that ends in the middle of a character.
    refuse("\xff\xfe"
           "a\0:\0 \0"
           "1",
           9, TL_EINVAL, "t.yaml: not YAML: incomplete UTF-16 character at byte 8");
}

/* --- bombs ------------------------------------------------------------------------------------ */

static void test_billion_laughs(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    tl_str_add(&text, "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for (int i = 1; i < 10; i++) {
        tl_str_addf(&text, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++) tl_str_addf(&text, "%s*a%d", j ? ", " : "", i - 1);
        tl_str_add(&text, "]\n");
    }
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "more than 1048576 values");
    assert_non_null(strstr(tl_error_message(), "t.yaml:"));
    // The same with maps and merge keys.
    tl_str_cut(&text, 0);
    tl_str_add(&text, "a0: &a0 {k: v}\n");
    for (int i = 1; i < 30; i++)
        tl_str_addf(&text, "a%d: &a%d {l: *a%d, r: *a%d, <<: *a%d}\n", i, i, i - 1, i - 1, i - 1);
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "more than 1048576 values");
    tl_str_deinit(&text);
}

/* One long string, many times: few values, but far more text than was written. */
static void test_long_strings_by_alias(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    tl_str_add(&text, "- &a ");
    tl_str_pad(&text, 'x', 1 << 20);
    tl_str_add(&text, "\n- [");
    for (int i = 0; i < 10000; i++) tl_str_add(&text, "*a,");
    tl_str_add(&text, "]\n");
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "more than 1048576 values");
    tl_str_cut(&text, 0);
    tl_str_add(&text, "- &a {? ");
    tl_str_pad(&text, 'x', 1 << 20);
    tl_str_add(&text, "\n  : 1}\n- [");
    for (int i = 0; i < 10000; i++) tl_str_add(&text, "*a,");
    tl_str_add(&text, "]\n");
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "more than 1048576 values");
    tl_str_deinit(&text);
}

static void test_many_values(void **state)
{
    (void)state;
    if (!test_takes_unseen()) skip(); // aliases reach the limit too
    tl_str text = TL_STR_INIT;
    tl_str_add(&text, "[");
    for (int i = 0; i < TL_YAML_MAX_NODES - 1; i++) tl_str_add(&text, "1,");
    tl_str_add(&text, "]");
    const tl_value *v;
    assert_ok(tl_yaml_parse(&v, arena, tl_str_text(&text), text.length, "t.yaml"));
    assert_int_equal(v->count, TL_YAML_MAX_NODES - 1);
    assert_int_equal(v->weight, TL_YAML_MAX_NODES);
    tl_str_cut(&text, text.length - 1);
    tl_str_add(&text, "1, 1, 1]");
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "more than 1048576 values");
    tl_str_deinit(&text);
}

static void brackets(tl_str *text, int depth, const char *middle)
{
    tl_str_pad(text, '[', depth);
    tl_str_add(text, middle);
    tl_str_pad(text, ']', depth);
}

static void test_depth(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    brackets(&text, TL_YAML_MAX_DEPTH, "");
    (void)parse(tl_str_text(&text));
    tl_str_cut(&text, 0);
    brackets(&text, TL_YAML_MAX_DEPTH + 1, "");
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "t.yaml:1:65: nested deeper than 64 levels");
    tl_str_cut(&text, 0);
    tl_str_pad(&text, '[', 1 << 20);
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "nested deeper than 64 levels");
    tl_str_cut(&text, 0);
    for (int i = 0; i < 1 << 16; i++) tl_str_add(&text, "- ");
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "nested deeper than 64 levels");
    tl_str_cut(&text, 0);
    for (int i = 0; i < 1 << 16; i++) tl_str_add(&text, "{a: ");
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "nested deeper than 64 levels");
    tl_str_cut(&text, 0);
    for (int i = 0; i < 100; i++) tl_str_pad(&text, ' ', i), tl_str_add(&text, "a:\n");
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "nested deeper than 64 levels");
    tl_str_deinit(&text);
}

/* Aliases that lead deeper than any text does. */
static void test_depth_through_aliases(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    tl_str_add(&text, "- &a0 x\n");
    for (int i = 1; i < 5000; i++) {
        char alias[24];
        snprintf(alias, sizeof alias, "*a%d", i - 1);
        tl_str_addf(&text, "- &a%d ", i);
        brackets(&text, 50, alias);
        tl_str_addc(&text, '\n');
    }
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "t.yaml:3:57: nested deeper than 64 levels");
    tl_str_cut(&text, 0);
    for (int i = 1; i < 100; i++) {
        tl_str_addf(&text, "a%d: &a%d {", i, i);
        if (i > 1) tl_str_addf(&text, "k: {<<: *a%d}", i - 1);
        tl_str_add(&text, "}\n");
    }
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "nested deeper than 64 levels");
    // Up to the limit they are fine.
    tl_str_cut(&text, 0);
    tl_str_add(&text, "[&a ");
    brackets(&text, 40, "");
    tl_str_add(&text, ", ");
    brackets(&text, 23, "*a");
    tl_str_add(&text, "]");
    (void)parse(tl_str_text(&text));
    tl_str_cut(&text, text.length - 1);
    tl_str_add(&text, ", [[*a], ");
    brackets(&text, 23, "*a");
    tl_str_add(&text, "]]");
    refuse(tl_str_text(&text), text.length, TL_ELIMIT, "nested deeper than 64 levels");
    tl_str_deinit(&text);
}

static void test_size(void **state)
{
    (void)state;
    size_t size = (size_t)TL_YAML_MAX_BYTES + 1;
    char *text = tl_alloc(size);
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text, "a: 1\n#", 6);
    refuse(text, size, TL_ELIMIT, "t.yaml: 16777217 bytes, more than the 16777216");
    const tl_value *v;
    assert_ok(tl_yaml_parse(&v, arena, text, size - 1, "t.yaml"));
    char path[TEMPORARY_PATH];
    int file = mkstemp(temporary(path, "tilth_yaml"));
    assert_true(file >= 0);
    assert_int_equal(write(file, text, size), size);
    close(file);
    assert_fails(tl_yaml_read(&v, arena, path), TL_ELIMIT, path);
    unlink(path);
    // One string of that size is only large.
    memset(text, 'x', size - 1);
    assert_ok(tl_yaml_parse(&v, arena, text, size - 1, "t.yaml"));
    assert_int_equal(strlen(v->text), size - 1);
    tl_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_corpus, begin, end),
        cmocka_unit_test_setup_teardown(test_model_garden_files, begin, end),
        cmocka_unit_test_setup_teardown(test_files_that_are_not_there, begin, end),
        cmocka_unit_test_setup_teardown(test_empty_documents, begin, end),
        cmocka_unit_test_setup_teardown(test_one_document_only, begin, end),
        cmocka_unit_test_setup_teardown(test_places, begin, end),
        cmocka_unit_test_setup_teardown(test_quotes, begin, end),
        cmocka_unit_test_setup_teardown(test_tuples, begin, end),
        cmocka_unit_test_setup_teardown(test_tags_that_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_anchors, begin, end),
        cmocka_unit_test_setup_teardown(test_merges, begin, end),
        cmocka_unit_test_setup_teardown(test_syntax_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_bytes_that_are_no_text, begin, end),
        cmocka_unit_test_setup_teardown(test_billion_laughs, begin, end),
        cmocka_unit_test_setup_teardown(test_long_strings_by_alias, begin, end),
        cmocka_unit_test_setup_teardown(test_many_values, begin, end),
        cmocka_unit_test_setup_teardown(test_depth, begin, end),
        cmocka_unit_test_setup_teardown(test_depth_through_aliases, begin, end),
        cmocka_unit_test_setup_teardown(test_size, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
