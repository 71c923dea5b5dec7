/* Logs as one reads them: long texts are cut between characters. */
#include "test.h"

#include "train/writers/pretty.h"

static void check(const char *text, const char *wanted)
{
    tl_logs *logs;
    tl_str out = TL_STR_INIT;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_logs_put_text(logs, "t", text));
    assert_ok(tli_logs_pretty(&out, logs));
    if (!strstr(tl_str_text(&out), wanted)) fail_msg("'%s' lacks '%s'", tl_str_text(&out), wanted);
    tl_str_deinit(&out);
    tl_logs_free(&logs);
}

static void test_long_texts(void **state)
{
    (void)state;
    char text[160], wanted[160];
    static const char *const characters[] = {"\xC3\xA9", "\xE2\x94\x81", "\xF0\x9F\x8C\xB1"};
    check("short", "{'t': 'short'}");
    check("it's\n", "'it\\'s\\n'");
    for (int a = 117; a <= 120; a++) {
        for (int i = 0; i < TL_COUNT(characters); i++) {
            int size = (int)strlen(characters[i]);
            bool fits = a + size <= 120;
            snprintf(text, sizeof text, "%0*d%sbcdefgh", a, 0, characters[i]);
            snprintf(wanted, sizeof wanted, "%0*d%s%.*s...'", a, 0, fits ? characters[i] : "",
                     fits ? 120 - a - size : 0, "bcdefgh");
            check(text, wanted);
        }
    }
    // Tables are not laid out in a line.
    snprintf(text, sizeof text, "one\ntwo\n%0*d", 120, 0);
    check(text, "{'t': <text of 3 lines>}");
    // Bytes that are no characters are not waited for.
    memset(text, 0x80, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(wanted, sizeof wanted, "'%.117s...'", text);
    check(text, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
