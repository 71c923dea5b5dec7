/* Status codes and the thread's error record.
 * needs: threads */
#include "test.h"

#include <pthread.h>

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {
        "ok",          "invalid", "not found", "exists",     "io",       "no memory", "limit",
        "unsupported", "state",   "stopped",   "not finite", "internal", "data",      "peer lost"};
    assert_int_equal(TL_STATUS_COUNT, TL_COUNT(names));
    for (int i = 0; i < TL_STATUS_COUNT; i++)
        assert_string_equal(tl_status_name((tl_status)i), names[i]);
    // Numbers that are no code have a name as well.
    assert_non_null(tl_status_name((tl_status)TL_STATUS_COUNT));
    assert_non_null(tl_status_name((tl_status)-1));
    assert_string_equal(tl_status_name((tl_status)1000), tl_status_name((tl_status)-1));
}

static void test_empty_record(void **state)
{
    (void)state;
    tl_error_clear();
    assert_int_equal(tl_error_code(), TL_OK);
    assert_string_equal(tl_error_where(), "");
    assert_string_equal(tl_error_message(), "no error");
}

static void test_set(void **state)
{
    (void)state;
    int line = __LINE__ + 1;
    assert_int_equal(TL_FAIL(TL_ENOTFOUND, "no key '%s' among %d", "x", 3), TL_ENOTFOUND);
    char where[64];
    snprintf(where, sizeof where, "test_status.c:%d", line);
    assert_int_equal(tl_error_code(), TL_ENOTFOUND);
    assert_string_equal(tl_error_message(), "no key 'x' among 3");
    assert_string_equal(tl_error_where(), where); // without the folder
    // A success afterwards leaves the record; the next failure replaces all of it.
    assert_int_equal(TL_FAIL(TL_EIO, "y"), TL_EIO);
    assert_string_equal(tl_error_message(), "y");
    assert_int_equal(tl_error_code(), TL_EIO);
    tl_error_clear();
    assert_string_equal(tl_error_message(), "no error");
}

static void test_empty_text(void **state)
{
    (void)state;
    // A failure without a text still says something.
    (void)TL_FAIL(TL_ELIMIT, "%s", "");
    assert_string_equal(tl_error_message(), "an input is larger or deeper than what is accepted");
}

static void test_own_text_as_argument(void **state)
{
    (void)state;
    (void)TL_FAIL(TL_EINVAL, "inner");
    (void)TL_FAIL(TL_EIO, "outer (%s)", tl_error_message());
    assert_string_equal(tl_error_message(), "outer (inner)");
    (void)tl_error_note(TL_EIO, "again %s", tl_error_message());
    assert_string_equal(tl_error_message(), "again outer (inner): outer (inner)");
}

static void test_note(void **state)
{
    (void)state;
    int line = __LINE__ + 1;
    (void)TL_FAIL(TL_EINVAL, "'x' is not a number");
    char where[64];
    snprintf(where, sizeof where, "test_status.c:%d", line);
    assert_int_equal(tl_error_note(TL_EINVAL, "--%s", "scale"), TL_EINVAL);
    assert_string_equal(tl_error_message(), "--scale: 'x' is not a number");
    assert_string_equal(tl_error_where(), where); // where the failure was made, not where noted
}

static void test_long_texts_are_marked(void **state)
{
    (void)state;
    char text[2 * TL_ERROR_TEXT];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    (void)TL_FAIL(TL_EINVAL, "%s", text);
    size_t length = strlen(tl_error_message());
    assert_int_equal(length, TL_ERROR_TEXT - 1);
    assert_string_equal(tl_error_message() + length - 4, "a...");
    // One that just fits is whole.
    text[TL_ERROR_TEXT - 1] = '\0';
    (void)TL_FAIL(TL_EINVAL, "%s", text);
    assert_string_equal(tl_error_message(), text);
    // A note before it pushes its end out.
    (void)tl_error_note(TL_EINVAL, "note");
    length = strlen(tl_error_message());
    assert_int_equal(length, TL_ERROR_TEXT - 1);
    assert_memory_equal(tl_error_message(), "note: aaa", 9);
    assert_string_equal(tl_error_message() + length - 4, "a...");
    // And a note that is too long alone.
    (void)TL_FAIL(TL_EINVAL, "lost");
    memset(text, 'b', sizeof text - 1);
    (void)tl_error_note(TL_EINVAL, "%s", text);
    length = strlen(tl_error_message());
    assert_int_equal(length, TL_ERROR_TEXT - 1);
    assert_string_equal(tl_error_message() + length - 4, "b...");
}

static void test_save_and_restore(void **state)
{
    (void)state;
    static tl_error saved;
    (void)TL_FAIL(TL_EEXISTS, "first");
    tl_error_save(&saved);
    (void)TL_FAIL(TL_EIO, "second");
    tl_error_restore(&saved);
    assert_int_equal(tl_error_code(), TL_EEXISTS);
    assert_string_equal(tl_error_message(), "first");
    assert_non_null(strstr(tl_error_where(), "test_status.c:"));
    tl_error_clear();
    tl_error_save(&saved);
    assert_int_equal(saved.code, TL_OK);
}

/* --- the forwarding macros -------------------------------------------------------------------- */

static int reached;

static tl_status give(tl_status st)
{
    return st == TL_OK ? TL_OK : TL_FAIL(st, "given");
}

static tl_status try_it(tl_status st)
{
    TL_TRY(give(st));
    reached++;
    return TL_OK;
}

static tl_status try_noted(tl_status st)
{
    TL_TRY_NOTE(give(st), "key %d", 7);
    reached++;
    return TL_OK;
}

static tl_status try_done(tl_status first, tl_status second, int *cleaned)
{
    tl_status st = TL_OK;
    TL_TRY_DONE(st, give(first));
    reached++;
    TL_TRY_DONE(st, give(second));
    reached++;
done:
    (*cleaned)++;
    return st;
}

static void test_macros(void **state)
{
    (void)state;
    reached = 0;
    assert_int_equal(try_it(TL_OK), TL_OK);
    assert_int_equal(reached, 1);
    assert_fails(try_it(TL_ESTATE), TL_ESTATE, "given");
    assert_int_equal(reached, 1);
    assert_int_equal(try_noted(TL_OK), TL_OK);
    assert_int_equal(reached, 2);
    assert_fails(try_noted(TL_ESTATE), TL_ESTATE, "key 7: given");
    assert_int_equal(reached, 2);
    int cleaned = 0;
    assert_int_equal(try_done(TL_OK, TL_OK, &cleaned), TL_OK);
    assert_int_equal(try_done(TL_EIO, TL_OK, &cleaned), TL_EIO);
    assert_int_equal(try_done(TL_OK, TL_EINVAL, &cleaned), TL_EINVAL);
    assert_int_equal(cleaned, 3);
    assert_int_equal(reached, 2 + 2 + 0 + 1);
    assert_fails(TL_FAIL_NOMEM(123), TL_ENOMEM, "123 bytes");
}

/* --- threads ---------------------------------------------------------------------------------- */

static void *fail_in_a_thread(void *out)
{
    if (tl_error_code() == TL_OK && strcmp(tl_error_message(), "no error") == 0) {
        (void)TL_FAIL(TL_EIO, "of the other thread");
        tl_error_save(out);
    }
    return NULL;
}

static void test_each_thread_has_its_own(void **state)
{
    (void)state;
    static tl_error theirs;
    (void)TL_FAIL(TL_EINVAL, "of this thread");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_in_a_thread, &theirs), 0);
    pthread_join(thread, NULL);
    assert_string_equal(tl_error_message(), "of this thread");
    assert_int_equal(theirs.code, TL_EIO); // it began with an empty record
    tl_error_restore(&theirs);             // and its failure can be carried here
    assert_string_equal(tl_error_message(), "of the other thread");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_record), // first: nothing has failed yet
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_empty_text),
        cmocka_unit_test(test_own_text_as_argument),
        cmocka_unit_test(test_note),
        cmocka_unit_test(test_long_texts_are_marked),
        cmocka_unit_test(test_save_and_restore),
        cmocka_unit_test(test_macros),
        cmocka_unit_test(test_each_thread_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
