/* Growing strings, numbers as text, and suggestions. */
#include "test.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/str.h>

static void test_append(void **state)
{
    (void)state;
    tl_str s = TL_STR_INIT;
    assert_string_equal(tl_str_text(&s), "");
    assert_ok(tl_str_status(&s));
    tl_str_add(&s, "");
    assert_string_equal(tl_str_text(&s), "");
    tl_str_add(&s, "loss: ");
    tl_str_addf(&s, "%.3f", 0.25);
    tl_str_addc(&s, '!');
    tl_str_addn(&s, "abcdef", 2);
    tl_str_addn(&s, NULL, 0);
    tl_str_pad(&s, '-', 3);
    tl_str_pad(&s, '-', 0);
    tl_str_pad(&s, '-', -5);
    assert_string_equal(tl_str_text(&s), "loss: 0.250!ab---");
    assert_int_equal(s.length, strlen("loss: 0.250!ab---"));
    tl_str_cut(&s, 100); // not shorter: nothing happens
    assert_int_equal(s.length, 17);
    tl_str_cut(&s, 4);
    assert_string_equal(tl_str_text(&s), "loss");
    tl_str_add(&s, "es");
    assert_string_equal(tl_str_text(&s), "losses");
    tl_str_cut(&s, 0);
    assert_string_equal(tl_str_text(&s), "");
    tl_str_deinit(&s);
    assert_string_equal(tl_str_text(&s), "");
    tl_str_deinit(&s);
}

static void test_bytes(void **state)
{
    (void)state;
    tl_str s = TL_STR_INIT;
    tl_str_addn(&s, "a\0b", 3); // a zero byte is a byte
    tl_str_addc(&s, '\0');
    assert_int_equal(s.length, 4);
    assert_memory_equal(s.data, "a\0b\0", 5);
    tl_str_deinit(&s);
}

/* Every length up to some thousand: no off-by-one where it grows. */
static void test_growth(void **state)
{
    (void)state;
    tl_str s = TL_STR_INIT, t = TL_STR_INIT;
    char expected[3001];
    for (int i = 0; i < 3000; i++) {
        expected[i] = (char)('a' + i % 26);
        expected[i + 1] = '\0';
        tl_str_addc(&s, expected[i]);
        tl_str_addf(&t, "%c", expected[i]);
        assert_string_equal(tl_str_text(&s), expected);
        assert_string_equal(tl_str_text(&t), expected);
    }
    tl_str_deinit(&s);
    tl_str_deinit(&t);
    for (int length = 0; length < 300; length++) { // as a first append
        tl_str_addf(&s, "%*s", length, "");
        assert_int_equal(s.length, length);
        tl_str_deinit(&s);
        tl_str_pad(&s, ' ', length);
        assert_int_equal(strlen(tl_str_text(&s)), length);
        tl_str_deinit(&s);
    }
}

static void test_copy(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    tl_str s = TL_STR_INIT;
    assert_string_equal(tl_str_copy(&s, a), "");
    tl_str_add(&s, "text");
    const char *copy = tl_str_copy(&s, a);
    tl_str_deinit(&s);
    assert_string_equal(copy, "text");
    tl_arena_free(&a);
}

static void test_errors_stick(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    tl_str s = TL_STR_INIT;
    tl_str_add(&s, "kept");
    tl_alloc_fail_at(1, 1);
    tl_str_pad(&s, 'x', 1000);
    tl_str_add(&s, "y"); // there would be memory again
    tl_str_addc(&s, 'y');
    tl_str_addf(&s, "%d", 1);
    tl_str_cut(&s, 0);
    assert_true(s.failed);
    assert_string_equal(tl_str_text(&s), "");
    assert_fails(tl_str_status(&s), TL_ENOMEM, "out of memory");
    tl_error_clear();
    assert_null(tl_str_copy(&s, a));
    assert_int_equal(tl_error_code(), TL_ENOMEM);
    tl_str_deinit(&s);
    tl_str_add(&s, "fresh"); // deinit makes a new one of it
    assert_string_equal(tl_str_text(&s), "fresh");
    assert_ok(tl_str_status(&s));
    tl_str_deinit(&s);
    tl_alloc_fail_at(1, 1);
    tl_str_add(&s, "first append");
    assert_string_equal(tl_str_text(&s), "");
    assert_fails(tl_str_status(&s), TL_ENOMEM, "out of memory");
    tl_str_deinit(&s);
    tl_arena_free(&a);
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* What Python's repr says. The powers of two among them are those where the nearest text of the
 * shortest length does not read back, but its neighbour does. */
static const struct {
    double value;
    const char *text;
    // clang-format off
} reprs[] = {
    {0.0, "0.0"}, {-0.0, "-0.0"}, {1.0, "1.0"}, {-1.0, "-1.0"}, {0.1, "0.1"}, {0.2, "0.2"},
    {0.30000000000000004, "0.30000000000000004"}, {0.5, "0.5"}, {1.5, "1.5"}, {2.675, "2.675"},
    {100.0, "100.0"}, {1e5, "100000.0"}, {1e6, "1000000.0"}, {123456.789, "123456.789"},
    {1e15, "1000000000000000.0"}, {1e16, "1e+16"}, {1e17, "1e+17"}, {1e21, "1e+21"},
    {1e22, "1e+22"}, {1e23, "1e+23"}, {1e100, "1e+100"}, {1e300, "1e+300"}, {1e308, "1e+308"},
    {1.7976931348623157e308, "1.7976931348623157e+308"},
    {2.2250738585072014e-308, "2.2250738585072014e-308"},
    {2.225073858507201e-308, "2.225073858507201e-308"}, {5e-324, "5e-324"}, {1e-323, "1e-323"},
    {4.9406564584124654e-324, "5e-324"}, {1e-4, "0.0001"}, {1e-5, "1e-05"}, {0.00012, "0.00012"},
    {0.000012, "1.2e-05"}, {9.999e-5, "9.999e-05"}, {1e-7, "1e-07"}, {1e-10, "1e-10"},
    {1e-300, "1e-300"}, {9007199254740991.0, "9007199254740991.0"},
    {9007199254740992.0, "9007199254740992.0"}, {9007199254740993.0, "9007199254740992.0"},
    {9007199254740994.0, "9007199254740994.0"}, {1234567890123456.0, "1234567890123456.0"},
    {12345678901234567.0, "1.2345678901234568e+16"},
    {123456789012345680.0, "1.2345678901234568e+17"}, {9999999999999998.0, "9999999999999998.0"},
    {9999999999999999.0, "1e+16"}, {3.141592653589793, "3.141592653589793"},
    {2.718281828459045, "2.718281828459045"}, {0.3333333333333333, "0.3333333333333333"},
    {0.6666666666666666, "0.6666666666666666"}, {1e-3, "0.001"}, {-2.5e-3, "-0.0025"},
    {4.35, "4.35"}, {0.7, "0.7"}, {8.41, "8.41"}, {5.684341886080802e-14, "5.684341886080802e-14"},
    {7.120236347223045e-307, "7.120236347223045e-307"},
    {7.174648137343064e-43, "7.174648137343064e-43"},
    {-7.8545495444763625e-90, "-7.854549544476363e-90"},
    {1.1754943508222875e-38, "1.1754943508222875e-38"},
    {3.4028234663852886e38, "3.4028234663852886e+38"}, {6.02214076e23, "6.02214076e+23"},
    {6.62607015e-34, "6.62607015e-34"}, {1.0000000000000002, "1.0000000000000002"},
    {0.9999999999999999, "0.9999999999999999"}, {1e-6, "1e-06"}, {2e-6, "2e-06"}, {0.001, "0.001"},
    {65504.0, "65504.0"}, {16777216.0, "16777216.0"}, {16777217.0, "16777217.0"},
    {4503599627370496.5, "4503599627370496.0"}, {3e-5, "3e-05"},
};
// clang-format on

static void test_double_text(void **state)
{
    (void)state;
    char text[32];
    for (int64_t i = 0; i < TL_COUNT(reprs); i++) {
        tl_double_text(text, reprs[i].value);
        assert_string_equal(text, reprs[i].text);
        double back = strtod(text, NULL);
        assert_memory_equal(&back, &reprs[i].value, sizeof back); // to the sign of zero
    }
    tl_double_text(text, INFINITY);
    assert_string_equal(text, "inf");
    tl_double_text(text, -INFINITY);
    assert_string_equal(text, "-inf");
    tl_double_text(text, NAN);
    assert_string_equal(text, "nan");
    tl_double_text(text, -NAN);
    assert_string_equal(text, "nan");
}

/* Any bits read back, in the room that is promised. */
static void test_double_text_reads_back(void **state)
{
    (void)state;
    uint64_t bits = 42;
    for (int i = 0; i < 50000; i++) {
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t mixed = bits ^ bits >> 29;
        double value;
        memcpy(&value, &mixed, sizeof value);
        if (isnan(value)) continue;
        char text[33];
        text[32] = '#';
        tl_double_text(text, value);
        assert_int_equal(text[32], '#');
        double back = strtod(text, NULL);
        assert_memory_equal(&back, &value, sizeof back);
    }
}

/* A program may speak a language that writes 0,1. */
static void test_double_text_in_other_locales(void **state)
{
    (void)state;
    char folder[TEMPORARY_PATH], command[200];
    assert_non_null(mkdtemp(temporary(folder, "tilth_locale")));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1",
             folder);
    int made = system(command);
    setenv("LOCPATH", folder, 1);
    bool comma = setlocale(LC_ALL, "de_DE.UTF-8") && strcmp(localeconv()->decimal_point, ",") == 0;
    char text[32] = "", scientific[32] = "";
    if (comma) {
        tl_double_text(text, 0.1);
        tl_double_text(scientific, 1.5e-7);
    }
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    if (made != 0 || !comma) skip(); // the sources of locales are not installed
    assert_string_equal(text, "0.1");
    assert_string_equal(scientific, "1.5e-07");
}

/* --- suggestions ------------------------------------------------------------------------------ */

static void test_nearest(void **state)
{
    (void)state;
    static const char *const words[] = {"train_steps", "learning_rate", "momentum", "type",
                                        "beta_1",      "beta_2",        "adam",     "lr"};
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        {"train_steps", "train_steps"},
        {"train_step", "train_steps"},  // one missing
        {"train_stpes", "train_steps"}, // two swapped
        {"trian_stesp", "train_steps"},
        {"train__steps", "train_steps"}, // one too many
        {"Train_steps", "train_steps"},  // another one
        {"learningrate", "learning_rate"},
        {"momentun", "momentum"},
        {"tpye", "type"},
        {"typ", "type"},
        {"adma", "adam"},
        {"adamw", "adam"},
        {"beta_3", "beta_1"}, // the first of those as near
        {"lt", "lr"},
        {"warmup", NULL},
        {"steps", NULL},
        {"xyz", NULL},
        {"q", NULL}, // every word of one letter is one letter away
        {"", NULL},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        const char *nearest = tl_nearest(cases[i].word, words, TL_COUNT(words));
        if (!cases[i].nearest) assert_null(nearest);
        else assert_string_equal(nearest, cases[i].nearest);
    }
    assert_null(tl_nearest("x", words, 0));
}

static void test_nearest_takes_the_nearest(void **state)
{
    (void)state;
    static const char *const words[] = {"validation_data", "validation_step", "validation_steps"};
    assert_string_equal(tl_nearest("validation_stepss", words, 3), "validation_steps");
    assert_string_equal(tl_nearest("validation_step", words, 3), "validation_step");
    char text[200];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const char *const lengthy[] = {text};
    (void)tl_nearest(text, lengthy, 1); // too long to be compared, but not to be asked
    (void)tl_nearest(text, words, 3);
    (void)tl_nearest("a", lengthy, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_errors_stick),
        cmocka_unit_test(test_double_text),
        cmocka_unit_test(test_double_text_reads_back),
        cmocka_unit_test(test_double_text_in_other_locales),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_nearest_takes_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
