/* YAML out: the layout of Model Garden's files, and what is written reads back equal. The golden
 * files are made by tests/desc/golden/make_yaml_golden.py. */
#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

#include "desc/arena.h"
#include "desc/sample.h"

static const tl_value *parse(const char *text)
{
    const tl_value *v = NULL;
    assert_ok(tl_yaml_parse(&v, arena, text, strlen(text), "t.yaml"));
    return v;
}

/* The first line in which two texts differ, which says more than both. */
static void compare_texts(const char *text, const char *expected)
{
    for (int line = 1; *text || *expected; line++) {
        size_t n = strcspn(text, "\n"), m = strcspn(expected, "\n");
        if (n != m || memcmp(text, expected, n) != 0)
            fail_msg("line %d:\n%.*s\n    is not\n%.*s", line, (int)n, text, (int)m, expected);
        text += n + (text[n] != '\0');
        expected += m + (expected[m] != '\0');
    }
}

static void compare_with_file(const char *text, const char *path)
{
    char *expected;
    assert_ok(tl_file_read(&expected, NULL, path, 1 << 20));
    compare_texts(text, expected);
    assert_string_equal(text, expected);
    tl_free(expected);
}

/* --- layout ----------------------------------------------------------------------------------- */

static void test_layout(void **state)
{
    (void)state;
    const tl_value *v, *again;
    assert_ok(tl_yaml_read(&v, arena, TEST_DATA "/desc/golden/layout.json"));
    tl_str text = TL_STR_INIT;
    assert_ok(tl_yaml_write_value(&text, v));
    compare_with_file(tl_str_text(&text), TEST_DATA "/desc/golden/layout.yaml");
    assert_ok(tl_yaml_parse(&again, arena, tl_str_text(&text), text.length, "again"));
    assert_true(tl_value_equal(v, again));
    tl_str_deinit(&text);
}

static void test_layout_of_structs(void **state)
{
    (void)state;
    tl_config *c, *again;
    assert_ok(tl_config_new(&c, NULL, &sample_desc));
    assert_ok(tl_config_yaml(
        c,
        "{flag: false, count: -5, rate: 1e-5, name: 1e5x, note: '', color: off, maybe_flag: true,\n"
        "maybe_count: ~, maybe_rate: 2, maybe_counts: [], flags: [], counts: [3, 2], rates: [.5, "
        "inf, nan],\n"
        "names: ['', 'null', 'x, y'], colors: [red, null], target: {x: 1, label: 'true'},\n"
        "corner: null, layers: [{}, {name: conv, units: 16, kernel: [], bias: no,\n"
        "origin: {y: 0}}], optimizer: {type: adam, sgd: {momentum: 0.5}, adam: {clip: 1,\n"
        "center: {label: c}}}, extra: {b: [1, {z: 1, d: null}], a: 'yes'}, setting: 3,\n"
        "model: {name: m}}",
        "t"));
    tl_str text = TL_STR_INIT;
    assert_ok(tl_yaml_write(&text, &sample_desc, tl_config_value(c)));
    compare_with_file(tl_str_text(&text), TEST_DATA "/desc/golden/sample.yaml");
    assert_ok(tl_config_new(&again, NULL, &sample_desc));
    assert_ok(tl_config_yaml(again, tl_str_text(&text), "again"));
    assert_true(tl_desc_equal(&sample_desc, tl_config_value(c), tl_config_value(again)));
    // What tl_config_write writes is the same.
    tl_str other = TL_STR_INIT;
    assert_ok(tl_config_write(&other, c, false));
    assert_string_equal(tl_str_text(&other), tl_str_text(&text));
    tl_str_deinit(&other);
    tl_str_deinit(&text);
    tl_config_free(&c);
    tl_config_free(&again);
}

static void expect_written(const tl_value *v, const char *expected)
{
    tl_str text = TL_STR_INIT;
    assert_ok(tl_yaml_write_value(&text, v));
    assert_string_equal(tl_str_text(&text), expected);
    tl_str_deinit(&text);
}

static void test_values(void **state)
{
    (void)state;
    // Numbers are normalised, maps keep their order, tuples are lists.
    expect_written(parse("{b: 0x10, a: 1_000, c: 1E3, d: .5, e: YES, f: ~, g: None, h: 'None'}"),
                   "b: 16\na: 1000\nc: 1000.0\nd: 0.5\ne: true\nf: null\ng: null\nh: 'None'\n");
    expect_written(parse("!!python/tuple [1, !!python/tuple [2]]"), "[1, [2]]\n");
    expect_written(parse("1.0e6"), "1000000.0\n");
    expect_written(parse("1e22"), "1.0e+22\n");
    expect_written(parse("word"), "word\n");
    expect_written(parse("{}"), "{}\n");
    expect_written(NULL, "null\n");
    expect_written(parse("99999999999999999999"), "1.0e+20\n");
}

/* --- what is left out ------------------------------------------------------------------------- */

typedef struct shy {
    int64_t loud, quiet;
    tl_ints list;
} shy;

static const tl_field shy_fields[] = {
    TL_F(shy, loud, .help = "h"),
    TL_F(shy, quiet, .i = 3, .flags = TL_FIELD_QUIET, .help = "h"),
    TL_F(shy, list, TL_DEFAULT_LIST(int64_t, 1, 2), .flags = TL_FIELD_QUIET, .help = "h"),
    TL_F_END,
};
static const tl_desc shy_desc = {.name = "shy", .size = sizeof(shy), .fields = shy_fields};

static void test_quiet_fields(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *expected;
    } cases[] = {
        {"{}", "loud: 0\n"},
        {"{quiet: 3, list: [1, 2]}", "loud: 0\n"},
        {"{quiet: 4}", "loud: 0\nquiet: 4\n"},
        {"{list: []}", "list: []\nloud: 0\n"},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        tl_config *c;
        tl_str text = TL_STR_INIT;
        assert_ok(tl_config_new(&c, NULL, &shy_desc));
        assert_ok(tl_config_yaml(c, cases[i].yaml, "t"));
        assert_ok(tl_config_write(&text, c, false));
        assert_string_equal(tl_str_text(&text), cases[i].expected);
        tl_str_deinit(&text);
        tl_config_free(&c);
    }
}

typedef struct start {
    int64_t rank, rate, told;
} start;

/* What is of one start is shown while it is in force, and never kept. */
static void test_blank_fields(void **state)
{
    (void)state;
    static const tl_field fields[] = {
        TL_F(start, rank, .i = -1, .flags = TL_FIELD_UNSAVED | TL_FIELD_BLANK, .help = "h"),
        TL_F(start, rate, .help = "h"),
        TL_F(start, told, .flags = TL_FIELD_UNSAVED, .help = "h"),
        TL_F_END,
    };
    static const tl_desc desc = {.name = "start", .size = sizeof(start), .fields = fields};
    tl_config *c;
    tl_str shown = TL_STR_INIT, saved = TL_STR_INIT;
    assert_ok(tl_config_new(&c, NULL, &desc));
    assert_ok(tl_config_yaml(c, "{rank: 2, rate: 3, told: 4}", "t"));
    assert_ok(tl_config_write(&shown, c, false));
    assert_ok(tl_config_write_saved(&saved, c));
    assert_string_equal(tl_str_text(&shown), "rank: 2\nrate: 3\n");
    assert_string_equal(tl_str_text(&saved), "rank: -1\nrate: 3\n");
    tl_str_deinit(&shown);
    tl_str_deinit(&saved);
    tl_config_free(&c);
}

typedef struct choice {
    tl_oneof optimizer;
} choice;

/* Only the chosen branch is written, sorted against "type". */
static void test_oneofs(void **state)
{
    (void)state;
    static const tl_field fields[] = {
        TL_F(choice, optimizer, .branches = optimizer_branches, .help = "h"),
        TL_F_END,
    };
    static const tl_desc desc = {.name = "choice", .size = sizeof(choice), .fields = fields};
    static const struct {
        const char *yaml, *expected;
    } cases[] = {
        {"{}", "optimizer:\n  type: null\n"},
        {"{optimizer: {sgd: {momentum: 0.5}}}", "optimizer:\n  type: null\n"},
        {"{optimizer: {type: sgd, adam: {beta: 1}}}",
         "optimizer:\n  sgd:\n    momentum: 0.9\n    nesterov: false\n  type: sgd\n"},
        {"{optimizer: {type: zero}}", "optimizer:\n  type: zero\n  zero: {}\n"},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        tl_config *c, *again;
        tl_str text = TL_STR_INIT;
        assert_ok(tl_config_new(&c, NULL, &desc));
        assert_ok(tl_config_yaml(c, cases[i].yaml, "t"));
        assert_ok(tl_config_write(&text, c, false));
        assert_string_equal(tl_str_text(&text), cases[i].expected);
        assert_ok(tl_config_new(&again, NULL, &desc));
        assert_ok(tl_config_yaml(again, tl_str_text(&text), "again"));
        assert_true(tl_desc_equal(&desc, tl_config_value(c), tl_config_value(again)));
        tl_str_deinit(&text);
        tl_config_free(&c);
        tl_config_free(&again);
    }
}

/* Free-form maps inside a struct are sorted as well, at every depth. */
static void test_free_maps_are_sorted(void **state)
{
    (void)state;
    const tl_value *orders[] = {parse("{b: 1, a: {d: [{z: 1, y: 2}], c: 3}}"),
                                parse("{a: {c: 3, d: [{y: 2, z: 1}]}, b: 1}")};
    tl_str text = TL_STR_INIT;
    for (int i = 0; i < 2; i++) {
        void *s;
        assert_ok(tl_desc_new(&s, arena, &sample_desc));
        ((sample *)s)->extra = orders[i];
        tl_str_cut(&text, 0);
        assert_ok(tl_yaml_write(&text, &sample_desc, s));
        if (!strstr(tl_str_text(&text), "extra:\n  a:\n    c: 3\n    d: [{y: 2, z: 1}]\n  b: 1\n"))
            fail_msg("%s", tl_str_text(&text));
    }
    tl_str_deinit(&text);
}

/* --- strings ---------------------------------------------------------------------------------- */

/* A string as a value, an item, and a key, in block and in flow style: it reads back as itself, and
 * as a string. */
static void check_string(const char *s)
{
    tl_arena_mark scope = tl_arena_begin(arena);
    const tl_place nowhere = {0};
    const tl_value *v = tl_value_new_scalar(arena, nowhere, s, true);
    const tl_value_pair pair = {.key = s, .key_quoted = true, .value = v};
    const tl_value *map = tl_value_new_map(arena, nowhere, &pair, 1);
    const tl_value *items[] = {v, map, v};
    const tl_value *list = tl_value_new_list(arena, nowhere, items, 3);
    const tl_value_pair pairs[] = {{.key = "a", .value = v},
                                   {.key = "b", .value = list},
                                   {.key = "c", .value = map},
                                   {.key = "d", .value = v}};
    const tl_value *all = tl_value_new_map(arena, nowhere, pairs, 4), *again = NULL;
    tl_str text = TL_STR_INIT;
    assert_ok(tl_yaml_write_value(&text, all));
    tl_status st = tl_yaml_parse(&again, arena, tl_str_text(&text), text.length, "again");
    if (st != TL_OK) fail_msg("%s\n%s", tl_error_message(), tl_str_text(&text));
    if (!tl_value_equal(all, again)) {
        const tl_value *a = tl_value_get(again, "a");
        fail_msg("'%s' (%zu bytes) reads back as '%s', from\n%s", s, strlen(s), a ? a->text : "?",
                 tl_str_text(&text));
    }
    tl_str_deinit(&text);
    tl_arena_end(arena, scope);
}

static void test_strings_like_other_things(void **state)
{
    (void)state;
    // clang-format off
    static const char *const words[] = {
        "", " ", "  ", "\n", "\n\n", " \n", "\n ", "\t", "a\n", "\na", "a\n\n", "\n\na", "a \n b",
        "a\n\n b", "1", "1.0", "1e5", "1e-5", "1.0e6", "0x10", "0o17", "08", "0b1", "1_0", "1__0",
        "+1", ".5", "5.", "1:30", "inf", "nan", ".inf", ".nan", "Infinity", "true", "True", "yes",
        "No", "on", "y", "n", "null", "Null", "~", "None", "2001-01-01", "2001-1-1 1:1:1", "<<",
        "=", "---", "...", "- a", "-", "--", "-a", "? a", "?", "?a", ": a", ":", ":a", "a:", "a: b",
        "a :b", "a:b", "a #b", "a#b", "#a", "# a", "[", "]", "[]", "[a]", "{", "}", "{}", "{a: b}",
        ",", "a,b", "a, b", "&a", "*a", "!a", "!!str", "|", ">", "|a", "'", "''", "'a'", "\"",
        "\"a\"", "%", "%a", "@a", "`a", "\\", "\\n", "a\\", " a", "a ", " a ", "a  b", "a\tb",
        "\ta", "a\t", "a\rb", "\r", "\r\n", "a\r\nb", "\x01", "\x7f", "\x1b", "\xc2\x80",
        "\xc2\x85", "a\xc2\x85" "b", "\xc2\xa0", "\xe2\x80\xa8", "a\xe2\x80\xa8" "b",
        "\xe2\x80\xa9", "\xef\xbb\xbf", "\xef\xbb\xbf" "a", "\xef\xbf\xbd", "\xef\xbf\xbe",
        "\xc3\xa9", "\xe4\xb8\x96\xe7\x95\x8c", "\xf0\x9f\x98\x80", "a\xf0\x9f\x98\x80" "b",
        "e\xcc\x81", "\xf4\x8f\xbf\xbf", "key=value", "a=[1]", "gs://a/b", "C:\\a", "%d@%s", "a;b",
        "a/b", "x.y[0]", "@ref", "%macro", "${a}", "it's", "say \"x\"", "both ' and \"", "a' b",
        "a'\nb", "''' '", "\n'", "a\n---\nb", "a\n...\nb",
    };
    // clang-format on
    for (int64_t i = 0; i < TL_COUNT(words); i++) check_string(words[i]);
}

/* All strings of up to three of these characters: where the emitter must decide how to quote. */
static void test_all_short_strings(void **state)
{
    (void)state;
    // clang-format off
    static const char *const signs[] = {
        "a", "0", " ", "\n", "\t", "-", "?", ":", ",", "[", "}", "#", "&", "*", "!", "|", ">", "'",
        "\"", "%", "@", "\\", "=", "<", "~", ".", "+", "_", "e", "\r", "\xc2\x85", "\xe2\x80\xa8",
        "\xef\xbb\xbf", "\xf0\x9f\x98\x80", "\x01",
    };
    // clang-format on
    enum { COUNT = sizeof signs / sizeof *signs };
    char s[16];
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++)
            for (int k = 0; k <= COUNT; k++) {
                if (!test_takes(i + j + k, 5)) continue;
                snprintf(s, sizeof s, "%s%s%s", signs[i], signs[j], k < COUNT ? signs[k] : "");
                check_string(s);
            }
}

static size_t encode(char out[8], uint32_t c)
{
    if (c < 0x80) return (size_t)snprintf(out, 8, "%c", (int)c);
    if (c < 0x800)
        return (size_t)snprintf(out, 8, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
    if (c < 0x10000)
        return (size_t)snprintf(out, 8, "%c%c%c", (int)(0xe0 | c >> 12),
                                (int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
    return (size_t)snprintf(out, 8, "%c%c%c%c", (int)(0xf0 | c >> 18), (int)(0x80 | (c >> 12 & 63)),
                            (int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
}

static void test_all_characters(void **state)
{
    (void)state;
    char s[16], c[8];
    for (uint32_t code = 1; code <= 0x10ffff; code += code < 0x3100 ? 1 : 257) {
        if ((code >= 0xd800 && code < 0xe000) || !test_takes(code, 5)) continue;
        encode(c, code);
        snprintf(s, sizeof s, "a%sb", c);
        check_string(s);
    }
}

/* Texts that are folded over lines: every length around the edge, with blanks in the wrong places.
 */
static void test_long_strings(void **state)
{
    (void)state;
    char s[600];
    static const char *const fillers[] = {"word ",     "a ",  "x",  "it's  ", "a: b ",
                                          "\xc3\xa9 ", "a\n", "' ", "\t "};
    for (int64_t f = 0; f < TL_COUNT(fillers); f++) {
        size_t step = strlen(fillers[f]);
        for (size_t length = 60; length < 240; length++) {
            size_t n = 0;
            for (; n + step <= length; n += step) memcpy(s + n, fillers[f], step);
            while (n < length) s[n++] = 'z';
            s[n] = '\0';
            check_string(s);
        }
    }
    for (size_t blanks = 1; blanks < 400; blanks += 7) {
        memset(s, ' ', sizeof s);
        s[0] = 'a';
        s[blanks] = 'b';
        s[blanks + 1] = '\0';
        check_string(s);
    }
}

static void test_huge_string(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    char *s = tl_alloc(SIZE);
    assert_non_null(s);
    for (int i = 0; i < SIZE; i++) s[i] = i % 11 == 10 ? ' ' : (char)('a' + i % 26);
    s[SIZE - 1] = '\0';
    const tl_value *v = tl_value_new_scalar(arena, (tl_place){0}, s, true), *again;
    tl_str text = TL_STR_INIT;
    assert_ok(tl_yaml_write_value(&text, v));
    assert_ok(tl_yaml_parse(&again, arena, tl_str_text(&text), text.length, "again"));
    assert_true(tl_value_equal(v, again));
    tl_str_deinit(&text);
    tl_free(s);
}

/* A string that is no UTF-8 cannot be written: that is said, and nothing is written wrongly. */
static void test_bad_utf8(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    const tl_value *v = tl_value_new_scalar(arena, (tl_place){0},
                                            "a\xff"
                                            "b",
                                            true);
    assert_fails(tl_yaml_write_value(&text, v), TL_EINVAL, "UTF-8");
    tl_str_deinit(&text);
}

static void test_depth(void **state)
{
    (void)state;
    tl_str deep = TL_STR_INIT, text = TL_STR_INIT;
    tl_str_pad(&deep, '[', 32);
    for (int i = 0; i < 31; i++) tl_str_add(&deep, "{a: ");
    tl_str_add(&deep, "x");
    tl_str_pad(&deep, '}', 31);
    tl_str_pad(&deep, ']', 32);
    const tl_value *v = parse(tl_str_text(&deep));
    assert_ok(tl_yaml_write_value(&text, v));
    assert_true(tl_value_equal(v, parse(tl_str_text(&text))));
    tl_str_deinit(&deep);
    tl_str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_layout, begin, end),
        cmocka_unit_test_setup_teardown(test_layout_of_structs, begin, end),
        cmocka_unit_test_setup_teardown(test_values, begin, end),
        cmocka_unit_test_setup_teardown(test_quiet_fields, begin, end),
        cmocka_unit_test_setup_teardown(test_blank_fields, begin, end),
        cmocka_unit_test_setup_teardown(test_oneofs, begin, end),
        cmocka_unit_test_setup_teardown(test_free_maps_are_sorted, begin, end),
        cmocka_unit_test_setup_teardown(test_strings_like_other_things, begin, end),
        cmocka_unit_test_setup_teardown(test_all_short_strings, begin, end),
        cmocka_unit_test_setup_teardown(test_all_characters, begin, end),
        cmocka_unit_test_setup_teardown(test_long_strings, begin, end),
        cmocka_unit_test_setup_teardown(test_huge_string, begin, end),
        cmocka_unit_test_setup_teardown(test_bad_utf8, begin, end),
        cmocka_unit_test_setup_teardown(test_depth, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
