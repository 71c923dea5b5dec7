/* absl's logging flags: where messages go, and which. Standard error is caught in a file. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/desc/logging_flags.h>

static char *console, *file; /* what standard error and the log file got */

static void forget(void)
{
    tl_free(console);
    tl_free(file);
    console = file = NULL;
}

static int end(void **state)
{
    (void)state;
    forget();
    return system("rm -rf logs console.txt") == 0 ? 0 : -1;
}

/* Logs one message of each level under these flags. */
static void log_with(const char *const *words)
{
    forget();
    assert_int_equal(system("rm -rf logs"), 0); // files of one second share their name
    tl_flags *flags;
    tl_logging_flags given;
    tl_strings rest;
    tl_logging logging = TL_LOGGING_INIT;
    char *argv[8] = {"program"};
    int argc = 1;
    for (; *words; words++) argv[argc++] = (char *)(uintptr_t)*words;
    assert_ok(tl_flags_new(&flags, "program", ""));
    assert_ok(tl_logging_define(flags, &given));
    assert_ok(tl_flags_parse(&rest, flags, argc, argv));

    fflush(stderr);
    int saved = dup(STDERR_FILENO), caught = open("console.txt", O_CREAT | O_TRUNC | O_RDWR, 0600);
    dup2(caught, STDERR_FILENO);
    tl_status st = tl_logging_begin(&logging, &given, "program");
    TL_LOG_DEBUG("the debug one");
    TL_LOG_INFO("the info one");
    TL_LOG_WARNING("the warning");
    TL_LOG_ERROR("the error");
    TL_LOG_FATAL("the fatal one");
    tl_logging_end(&logging);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(caught);
    tl_flags_free(&flags);
    assert_ok(st);
    assert_ok(tl_file_read(&console, NULL, "console.txt", 1 << 16));
    if (tl_file_exists("logs/program.INFO"))
        assert_ok(tl_file_read(&file, NULL, "logs/program.INFO", 1 << 16));
}
#define log_under(...) log_with((const char *const[]){__VA_ARGS__, NULL})

/* Which of the messages a text has, as letters. */
static const char *told(const char *text)
{
    static char letters[8];
    int n = 0;
    if (strstr(text, "the debug one")) letters[n++] = 'd';
    if (strstr(text, "the info one")) letters[n++] = 'i';
    if (strstr(text, "the warning")) letters[n++] = 'w';
    if (strstr(text, "the error")) letters[n++] = 'e';
    if (strstr(text, "the fatal one")) letters[n++] = 'f';
    letters[n] = '\0';
    return letters;
}

static void test_verbosity(void **state)
{
    (void)state;
    static const struct {
        const char *word, *told;
    } cases[] = {{"--verbosity=0", "iwef"}, {"--verbosity=1", "diwef"}, {"-v=2", "diwef"},
                 {"-v=-1", "wef"},          {"--verbosity=-2", "ef"},   {"--verbosity=-3", "f"}};
    log_with((const char *const[]){NULL});
    assert_string_equal(told(console), "iwef");
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        log_under(cases[i].word);
        assert_string_equal(told(console), cases[i].told);
        assert_null(file);
    }
    assert_int_equal(tl_log_level(), TL_LEVEL_INFO); // as it was before
}

static void test_log_dir(void **state)
{
    (void)state;
    log_under("--log_dir=logs");
    assert_string_equal(told(file), "iwef");
    assert_string_equal(told(console), "f");
    log_under("--log_dir=logs", "--stderrthreshold=warning", "-v", "1");
    assert_string_equal(told(file), "diwef");
    assert_string_equal(told(console), "wef");
    log_under("--log_dir=logs", "--alsologtostderr");
    assert_string_equal(told(file), "iwef");
    assert_string_equal(told(console), "iwef");
    log_with((const char *const[]){NULL}); // nothing of it stays
    assert_string_equal(told(console), "iwef");
}

static void test_logtostderr(void **state)
{
    (void)state;
    log_under("--log_dir=logs", "--logtostderr");
    assert_null(file);
    assert_string_equal(told(console), "iwef");
}

static void test_prefix(void **state)
{
    (void)state;
    log_under("--noshowprefixforinfo");
    assert_int_equal(strncmp(console, "the info one\n", 13), 0);
    assert_null(strstr(console, "\nthe warning"));
    log_under("--noshowprefixforinfo", "-v=1"); // for verbosity 0 alone, as in absl
    assert_null(strstr(console, "\nthe info one"));
    log_with((const char *const[]){NULL});
    assert_null(strstr(console, "\nthe info one"));
    assert_non_null(strstr(console, "the info one"));
}

static void test_each_message_once(void **state)
{
    (void)state;
    log_under("--noshowprefixforinfo");
    log_under("--log_dir=logs", "--alsologtostderr", "--noshowprefixforinfo");
    log_with((const char *const[]){NULL});
    const char *first = strstr(console, "the error");
    assert_non_null(first);
    assert_null(strstr(first + 1, "the error"));
}

static void test_folder_that_cannot_be(void **state)
{
    (void)state;
    tl_logging logging = TL_LOGGING_INIT;
    tl_logging_flags given = {.log_dir = "/dev/null/logs", .showprefixforinfo = true};
    assert_int_not_equal(tl_logging_begin(&logging, &given, "program"), TL_OK);
    assert_non_null(strstr(tl_error_message(), "--log_dir: "));
    assert_false(logging.active);
    tl_logging_end(&logging);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_verbosity, end),
        cmocka_unit_test_teardown(test_log_dir, end),
        cmocka_unit_test_teardown(test_logtostderr, end),
        cmocka_unit_test_teardown(test_prefix, end),
        cmocka_unit_test_teardown(test_each_message_once, end),
        cmocka_unit_test_teardown(test_folder_that_cannot_be, end),
    };
    // Files of this program alone, whatever runs beside it.
    char folder[] = "logging-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("..") == 0 && rmdir(folder) == 0 ? failures : failures + 1;
}
