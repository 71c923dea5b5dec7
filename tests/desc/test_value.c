/* Values: what a scalar is on its own, how it reads as each type, and trees of values. */
#include "test.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include <tilth/base/map.h>
#include <tilth/desc/value.h>

#include "desc/arena.h"

#define NO_INT INT64_C(-1234567890123456789)
#define NO_DOUBLE 1.2345e-67

enum { NO_BOOL = -1 };

/* Plain text, what it is on its own, and its reading as bool, int and double. */
typedef struct reading {
    const char *text;
    tl_scalar scalar;
    int boolean;
    int64_t integer;
    double number;
} reading;

#define NULLS(t) TL_INIT(t, TL_SCALAR_NULL, NO_BOOL, NO_INT, NO_DOUBLE)
#define TRUTH(t, b) TL_INIT(t, TL_SCALAR_BOOL, b, NO_INT, NO_DOUBLE)
#define WHOLE(t, i) TL_INIT(t, TL_SCALAR_INT, NO_BOOL, i, (double)(i))
#define FLOAT(t, d) TL_INIT(t, TL_SCALAR_DOUBLE, NO_BOOL, NO_INT, d)
#define FLOAT_INT(t, i) TL_INIT(t, TL_SCALAR_DOUBLE, NO_BOOL, i, (double)(i))
#define WORD(t) TL_INIT(t, TL_SCALAR_STRING, NO_BOOL, NO_INT, NO_DOUBLE)
#define WORD_FLOAT(t, d) TL_INIT(t, TL_SCALAR_STRING, NO_BOOL, NO_INT, d)
#define WORD_INT(t, i) TL_INIT(t, TL_SCALAR_STRING, NO_BOOL, i, (double)(i))

static const reading readings[] = {
    // null: YAML 1.1's words, and Python's
    NULLS(""), NULLS("~"), NULLS("null"), NULLS("Null"), NULLS("NULL"), NULLS("None"), WORD("none"),
    WORD("NONE"), WORD("nil"), WORD("nUll"), WORD("~~"), WORD("null "),

    // bool: YAML 1.1's words without y and n, as PyYAML has them
    TRUTH("true", 1), TRUTH("True", 1), TRUTH("TRUE", 1), TRUTH("yes", 1), TRUTH("Yes", 1),
    TRUTH("YES", 1), TRUTH("on", 1), TRUTH("On", 1), TRUTH("ON", 1), TRUTH("false", 0),
    TRUTH("False", 0), TRUTH("FALSE", 0), TRUTH("no", 0), TRUTH("No", 0), TRUTH("NO", 0),
    TRUTH("off", 0), TRUTH("Off", 0), TRUTH("OFF", 0), WORD("y"), WORD("Y"), WORD("n"), WORD("N"),
    WORD("t"), WORD("f"), WORD("tRUE"), WORD("oN"), WORD("truee"), WORD("true false"),

    // integers
    WHOLE("0", 0), WHOLE("1", 1), WHOLE("-1", -1), WHOLE("+12", 12), WHOLE("-0", 0),
    WHOLE("1_000", 1000), WHOLE("1_000_000", 1000000), WHOLE("0x10", 16), WHOLE("0X1f", 31),
    WHOLE("-0xFF", -255), WHOLE("0x_ff", 255), WHOLE("0b101", 5), WHOLE("-0b1", -1),
    WHOLE("010", 8), WHOLE("-017", -15), WHOLE("00", 0), WHOLE("0o17", 15),
    WHOLE("9223372036854775807", INT64_MAX), WHOLE("-9223372036854775808", INT64_MIN),
    WHOLE("0x7fffffffffffffff", INT64_MAX), WHOLE("-0x8000000000000000", INT64_MIN),
    // those that do not fit are still numbers
    FLOAT("9223372036854775808", 9223372036854775808.0),
    FLOAT("-9223372036854775809", -9223372036854775808.0), FLOAT("100000000000000000000", 1e20),
    WORD("0xffffffffffffffff"), WORD("0x"), WORD("0b"), WORD("0b2"), WORD("0xg"), WORD("-"),
    WORD("+"), WORD("--1"), WORD("+-1"), WORD("- 1"), WORD("1-"), WORD("1 000"), WORD("1,000"),
    WORD("_1"), WORD("-_1"), WORD("_"), WORD("1a"), WORD("a1"), WORD("0x-1"), WORD("0x 1"),
    // padded numbers are no octal ones: a string on its own, as in PyYAML; a field takes the number
    WORD_INT("08", 8), WORD_INT("-09", -9), WORD_INT("0018", 18), WORD_INT("08_9", 89),

    // floats
    FLOAT_INT("0.0", 0), FLOAT_INT("1.0", 1), FLOAT_INT("-2.", -2), FLOAT("1.5", 1.5),
    FLOAT(".5", 0.5), FLOAT("-.5", -0.5), FLOAT("+.5", 0.5), FLOAT("1_0.2_5", 10.25),
    FLOAT("1e-4", 1e-4), FLOAT_INT("1e5", 100000), FLOAT_INT("1E5", 100000),
    FLOAT_INT("12e03", 12000), FLOAT("1e-05", 1e-5), FLOAT_INT("1.0e6", 1000000),
    FLOAT_INT("1.0e+6", 1000000), FLOAT("1.0e-6", 1e-6), FLOAT_INT("1.5e1", 15),
    FLOAT("-1.e-3", -1e-3), FLOAT("+0.001", 1e-3), FLOAT_INT("1e+3", 1000),
    FLOAT("-1.5E-3", -1.5e-3), FLOAT("1e400", INFINITY), FLOAT("-1e400", -INFINITY),
    FLOAT_INT("1e-400", 0), FLOAT("5e-324", 5e-324),
    FLOAT("1.7976931348623157e308", 1.7976931348623157e308), FLOAT("0.1", 0.1),
    FLOAT_INT("9007199254740991.0", 9007199254740991),
    // beyond 2^53 the text may have been another number than the double it rounds to
    FLOAT("9007199254740993.0", 9007199254740992.0), FLOAT("1e30", 1e30), WORD("."), WORD("e5"),
    WORD("1e"), WORD("1e+"), WORD("1.2.3"), WORD("1e5.5"), WORD("1e5e5"), WORD(".e5"), WORD("-."),
    WORD("1.5f"), WORD("0x1p3"), WORD("0x1.8"), WORD("1d5"),

    // infinities
    FLOAT(".inf", INFINITY), FLOAT(".Inf", INFINITY), FLOAT(".INF", INFINITY),
    FLOAT("-.inf", -INFINITY), FLOAT("+.inf", INFINITY), FLOAT(".nan", NAN), FLOAT(".NaN", NAN),
    FLOAT(".NAN", NAN), WORD_FLOAT("inf", INFINITY), WORD_FLOAT("-inf", -INFINITY),
    WORD_FLOAT("nan", NAN), WORD_FLOAT("NaN", NAN), WORD_FLOAT("Infinity", INFINITY),
    WORD_FLOAT("-Infinity", -INFINITY), WORD_FLOAT("infinity", INFINITY), WORD("infinite"),
    WORD(".infi"), WORD(".na"), WORD("in"), WORD("nano"),

    // what YAML 1.1 makes of these is a trap
    WORD("10:30"), WORD("1:30.5"), WORD("190:20:30"), WORD("2001-12-14"), WORD("2001-1-1"),
    WORD("2001-12-14t21:59:43.10-05:00"), WORD("<<"), WORD("="),
    // and the rest
    WORD("hello"), WORD("gs://bucket/x"), WORD("/a/b"), WORD("a b"), WORD("!x"), WORD("@"),
    WORD("%"), WORD("\xc3\xa9"), WORD("\xd9\xa1"), WORD(" 1"), WORD("1 "), WORD("\t"), WORD("1\n")};

static bool same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check_reading(const reading *r)
{
    const tl_value v = {.kind = TL_VALUE_SCALAR, .text = r->text, .weight = 1};
    bool b = false;
    int64_t i = 0;
    double d = 0;
    if (tl_value_scalar(&v) != r->scalar)
        fail_msg("'%s' is %d, not %d", r->text, (int)tl_value_scalar(&v), (int)r->scalar);
    if (tl_value_is_null(&v) != (r->scalar == TL_SCALAR_NULL)) fail_msg("'%s' as null", r->text);
    bool read = tl_value_bool(&v, &b);
    if (read != (r->boolean != NO_BOOL) || (read && b != r->boolean))
        fail_msg("'%s' as bool", r->text);
    read = tl_value_int(&v, &i);
    if (read != (r->integer != NO_INT) || (read && i != r->integer))
        fail_msg("'%s' as int: %d, %lld", r->text, read, (long long)i);
    read = tl_value_double(&v, &d);
    if (read != !same_double(r->number, NO_DOUBLE) || (read && d != r->number && !isnan(r->number)))
        fail_msg("'%s' as double: %d, %g", r->text, read, d);
    if (read && isnan(r->number) && !isnan(d)) fail_msg("'%s' is no nan", r->text);
}

static void test_readings(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(readings); i++) check_reading(&readings[i]);
}

static void test_signed_zero(void **state)
{
    (void)state;
    const tl_value v = {.kind = TL_VALUE_SCALAR, .text = "-0.0"};
    double d;
    assert_true(tl_value_double(&v, &d));
    assert_true(d == 0 && signbit(d));
}

/* What stands in quotes is a string, whatever it looks like. */
static void test_quoted(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(readings); i++) {
        const tl_value v = {.kind = TL_VALUE_SCALAR, .text = readings[i].text, .quoted = true};
        bool b;
        int64_t n;
        double d;
        assert_int_equal(tl_value_scalar(&v), TL_SCALAR_STRING);
        assert_false(tl_value_is_null(&v));
        assert_false(tl_value_bool(&v, &b));
        assert_false(tl_value_int(&v, &n));
        assert_false(tl_value_double(&v, &d));
    }
}

static void test_lists_are_no_scalars(void **state)
{
    (void)state;
    bool b;
    int64_t n;
    double d;
    for (int kind = TL_VALUE_LIST; kind <= TL_VALUE_MACRO; kind++) {
        const tl_value v = {.kind = (tl_value_kind)kind, .text = kind < 3 ? NULL : "1"};
        assert_false(tl_value_is_null(&v));
        assert_false(tl_value_bool(&v, &b));
        assert_false(tl_value_int(&v, &n));
        assert_false(tl_value_double(&v, &d));
    }
}

/* Nothing but its size makes a number a string. */
static void test_long_numbers(void **state)
{
    (void)state;
    char text[400];
    double d;
    for (size_t length = 4; length < sizeof text; length++) {
        memset(text, '3', length);
        memcpy(text, "0.", 2);
        text[length] = '\0';
        const tl_value v = {.kind = TL_VALUE_SCALAR, .text = text};
        assert_int_equal(tl_value_scalar(&v), TL_SCALAR_DOUBLE);
        assert_true(tl_value_double(&v, &d));
        assert_true(fabs(d - 1.0 / 3) < 0.01);
    }
    memset(text, '_', 300);
    memcpy(text, "1", 1);
    text[300] = '\0';
    const tl_value v = {.kind = TL_VALUE_SCALAR, .text = text};
    (void)tl_value_double(&v, &d); // must only not overrun
}

static void test_other_locales(void **state)
{
    (void)state;
    char folder[TEMPORARY_PATH], command[200];
    assert_non_null(mkdtemp(temporary(folder, "tilth_locale")));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1",
             folder);
    int made = system(command);
    setenv("LOCPATH", folder, 1);
    bool comma = setlocale(LC_ALL, "de_DE.UTF-8") && strcmp(localeconv()->decimal_point, ",") == 0;
    const tl_value point = {.kind = TL_VALUE_SCALAR, .text = "1.5"};
    const tl_value with_comma = {.kind = TL_VALUE_SCALAR, .text = "1,5"};
    double d = 0, e = 0;
    bool read = tl_value_double(&point, &d), misread = tl_value_double(&with_comma, &e);
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    if (made != 0 || !comma) skip(); // the sources of locales are not installed
    assert_true(read);
    assert_true(d == 1.5);
    assert_false(misread);
}

/* --- trees ------------------------------------------------------------------------------------ */

static const tl_value *plain(const char *text)
{
    return tl_value_new_scalar(arena, (tl_place){"test", 1, 2}, text, false);
}

static const tl_value *quoted(const char *text)
{
    return tl_value_new_scalar(arena, (tl_place){"other", 3, 4}, text, true);
}

static const tl_value *list(const tl_value *a, const tl_value *b)
{
    const tl_value *items[] = {a, b};
    return tl_value_new_list(arena, (tl_place){"test", 5, 6}, items, b ? 2 : a ? 1 : 0);
}

static const tl_value *map(const char *k, const tl_value *a, const char *l, const tl_value *b)
{
    const tl_value_pair pairs[] = {{.key = k, .value = a}, {.key = l, .value = b}};
    return tl_value_new_map(arena, (tl_place){"test", 7, 8}, pairs, b ? 2 : a ? 1 : 0);
}

static void test_builders(void **state)
{
    (void)state;
    char text[] = "text";
    const tl_value *v = tl_value_new_scalar(arena, (tl_place){"a.yaml", 7, 3}, text, true);
    text[0] = 'n'; // copied
    assert_string_equal(v->text, "text");
    assert_true(v->quoted);
    assert_int_equal(v->kind, TL_VALUE_SCALAR);
    assert_int_equal(v->place.line, 7);
    assert_int_equal(v->weight, 1);
    const tl_value *l = list(v, plain("1"));
    assert_int_equal(l->count, 2);
    assert_ptr_equal(l->items[0], v);
    assert_int_equal(l->weight, 3);
    const tl_value *m = map("a", l, "b", l);
    assert_int_equal(m->weight, 1 + 2 * (1 + 3)); // what is used twice weighs twice
    assert_ptr_equal(tl_value_get(m, "b"), l);
    assert_null(tl_value_get(m, "c"));
    assert_null(tl_value_get(l, "a"));
    assert_null(tl_value_get(v, "a"));
    assert_null(tl_value_get(NULL, "a"));
    assert_int_equal(list(NULL, NULL)->count, 0);
    assert_int_equal(map(NULL, NULL, NULL, NULL)->count, 0);
}

static void expect_equal(const tl_value *a, const tl_value *b, bool equal)
{
    tl_str name = TL_STR_INIT;
    tl_value_name(&name, a);
    tl_str_add(&name, " and ");
    tl_value_name(&name, b);
    if (tl_value_equal(a, b) != equal || tl_value_equal(b, a) != equal)
        fail_msg("%s: not %d", tl_str_text(&name), equal);
    bool same_hash = tl_value_hash(TL_HASH_SEED, a) == tl_value_hash(TL_HASH_SEED, b);
    if (same_hash != equal) fail_msg("hashes of %s: not %d", tl_str_text(&name), equal);
    tl_str_deinit(&name);
}

static void test_equality(void **state)
{
    (void)state;
    expect_equal(plain("16"), plain("0x10"), true);
    expect_equal(plain("1"), plain("1.0"), false);
    expect_equal(plain("1"), quoted("1"), false);
    expect_equal(plain("1.0"), plain("1e0"), true);
    expect_equal(plain("0.0"), plain("-0.0"), true);
    expect_equal(plain(".nan"), plain(".NaN"), true);
    expect_equal(plain(".inf"), plain("-.inf"), false);
    expect_equal(plain("yes"), plain("true"), true);
    expect_equal(plain("yes"), quoted("yes"), false);
    expect_equal(plain("~"), plain("None"), true);
    expect_equal(plain("~"), quoted(""), false);
    expect_equal(plain("word"), quoted("word"), true);
    expect_equal(plain("word"), plain("Word"), false);
    expect_equal(plain("0"), plain("false"), false);
    expect_equal(plain("0"), plain("null"), false);
    expect_equal(plain("a"), list(plain("a"), NULL), false);
    expect_equal(list(plain("1"), plain("2")), list(plain("1"), plain("2")), true);
    expect_equal(list(plain("1"), plain("2")), list(plain("2"), plain("1")), false);
    expect_equal(list(plain("1"), NULL), list(plain("1"), plain("1")), false);
    expect_equal(list(NULL, NULL), map(NULL, NULL, NULL, NULL), false);
    expect_equal(map("a", plain("1"), "b", plain("2")), map("b", plain("2"), "a", plain("1")),
                 true);
    expect_equal(map("a", plain("1"), "b", plain("2")), map("a", plain("2"), "b", plain("1")),
                 false);
    expect_equal(map("a", plain("1"), NULL, NULL), map("b", plain("1"), NULL, NULL), false);
    expect_equal(map("a", list(map("b", plain("1"), NULL, NULL), NULL), NULL, NULL),
                 map("a", list(map("b", plain("01"), NULL, NULL), NULL), NULL, NULL), true);
    assert_true(tl_value_equal(NULL, NULL));
    assert_false(tl_value_equal(NULL, plain("")));
    assert_false(tl_value_equal(plain(""), NULL));
    (void)tl_value_hash(TL_HASH_SEED, NULL);
    assert_true(tl_value_hash(1, plain("a")) != tl_value_hash(2, plain("a")));
}

/* The same on every machine, so known here. */
static void test_hash_is_fixed(void **state)
{
    (void)state;
    const tl_value *v = map("a", list(plain("1"), plain("2.5")), "b", quoted("x"));
    uint64_t h = tl_value_hash(TL_HASH_SEED, v);
    if (h != UINT64_C(0x31ebf66c72d895b1)) fail_msg("hash 0x%llx", (unsigned long long)h);
}

static void test_references(void **state)
{
    (void)state;
    const tl_value a = {.kind = TL_VALUE_REFERENCE, .text = "s/f", .called = true, .weight = 1};
    tl_value b = a;
    const tl_value macro = {.kind = TL_VALUE_MACRO, .text = "s/f", .weight = 1};
    expect_equal(&a, &b, true);
    b.called = false;
    expect_equal(&a, &b, false);
    expect_equal(&b, &macro, false);
    expect_equal(&b, plain("s/f"), false);
    const tl_value *copy = tl_value_copy(arena, &a);
    assert_true(tl_value_equal(copy, &a));
    assert_ptr_not_equal(copy->text, a.text);
}

static void test_copy(void **state)
{
    (void)state;
    tl_arena *other;
    assert_ok(tl_arena_new(&other));
    char source[] = "a.yaml", key[] = "key";
    const tl_value *s = tl_value_new_scalar(other, (tl_place){source, 1, 2}, "text", true);
    tl_value *l = tl_value_new_list(other, (tl_place){source, 3, 4}, &s, 1);
    l->tuple = true;
    const tl_value_pair pair = {
        .key = key,
        .key_quoted = true,
        .place = {source, 5, 6},
        .value = l,
    };
    const tl_value *v = tl_value_new_map(other, (tl_place){source, 5, 1}, &pair, 1);
    const tl_value *copy = tl_value_copy(arena, v);
    assert_non_null(copy);
    assert_true(tl_value_equal(copy, v));
    // Nothing is shared, so the first may go.
    tl_arena_free(&other);
    memset(source, 'x', sizeof source - 1);
    memset(key, 'x', sizeof key - 1);
    assert_string_equal(copy->place.source, "a.yaml");
    assert_string_equal(copy->pairs[0].key, "key");
    assert_true(copy->pairs[0].key_quoted);
    assert_int_equal(copy->pairs[0].place.line, 5);
    assert_string_equal(copy->pairs[0].place.source, "a.yaml");
    assert_true(copy->pairs[0].value->tuple);
    assert_string_equal(copy->pairs[0].value->items[0]->text, "text");
    assert_string_equal(copy->pairs[0].value->items[0]->place.source, "a.yaml");
    assert_int_equal(copy->weight, 4);
}

/* --- names and places ------------------------------------------------------------------------- */

static void expect_name(const tl_value *v, const char *expected)
{
    tl_str name = TL_STR_INIT;
    tl_value_name(&name, v);
    assert_string_equal(tl_str_text(&name), expected);
    tl_str_deinit(&name);
}

static void test_names(void **state)
{
    (void)state;
    expect_name(plain("null"), "null");
    expect_name(plain("5"), "the integer 5");
    expect_name(plain("5.5"), "the number 5.5");
    expect_name(plain("on"), "the bool on");
    expect_name(plain("abc"), "the string \"abc\"");
    expect_name(quoted("5"), "the string \"5\"");
    expect_name(list(plain("1"), plain("2")), "a list of 2");
    expect_name(map("a", plain("1"), NULL, NULL), "a map of 1");
    expect_name(plain("a\nb\tc"), "the string \"a\\nb\\tc\""); // a message stays on its line
    // Long ones are cut, between two characters.
    tl_str name = TL_STR_INIT;
    char text[100];
    for (size_t shift = 0; shift < 2; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 2 < sizeof text; i += 2) memcpy(text + i, "\xc3\xa9", 3);
        tl_str_cut(&name, 0);
        tl_value_name(&name, quoted(text));
        assert_true(name.length < 60);
        const char *dots = strstr(tl_str_text(&name), "...\"");
        assert_non_null(dots);
        assert_int_equal(dots[-1], (char)0xa9);
    }
    tl_str_deinit(&name);
}

static void test_places(void **state)
{
    (void)state;
    tl_str s = TL_STR_INIT;
    tl_place_write(&s, (tl_place){"a.yaml", 7, 3});
    assert_string_equal(tl_str_text(&s), "a.yaml:7:3");
    tl_str_cut(&s, 0);
    tl_place_write(&s, (tl_place){"--params_override", 0, 0});
    assert_string_equal(tl_str_text(&s), "--params_override");
    tl_str_deinit(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readings),
        cmocka_unit_test(test_signed_zero),
        cmocka_unit_test(test_quoted),
        cmocka_unit_test(test_lists_are_no_scalars),
        cmocka_unit_test(test_long_numbers),
        cmocka_unit_test(test_other_locales),
        cmocka_unit_test_setup_teardown(test_builders, begin, end),
        cmocka_unit_test_setup_teardown(test_equality, begin, end),
        cmocka_unit_test_setup_teardown(test_hash_is_fixed, begin, end),
        cmocka_unit_test_setup_teardown(test_references, begin, end),
        cmocka_unit_test_setup_teardown(test_copy, begin, end),
        cmocka_unit_test_setup_teardown(test_names, begin, end),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
