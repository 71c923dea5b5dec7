/* Notes of a run: in its folder, in its checkpoints. */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/file.h>
#include <tilth/train/run/notes.h>

static tl_arena *arena;
static char folder[] = "notes.XXXXXX";

static int open_test(void **state)
{
    (void)state;
    assert_ok(tl_arena_new(&arena));
    strcpy(folder, "notes.XXXXXX");
    assert_non_null(mkdtemp(folder));
    return 0;
}

static int close_test(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/classes.txt", folder);
    unlink(path);
    rmdir(folder);
    tl_arena_free(&arena);
    return 0;
}

static void test_notes_are_put_and_replaced(void **state)
{
    (void)state;
    tl_notes n = {0};
    assert_null(tl_notes_get(&n, "classes"));
    assert_ok(tl_notes_put(&n, "classes", "classes.txt", "cat\n"));
    assert_ok(tl_notes_put(&n, "gin", "bindings.gin", ""));
    assert_ok(tl_notes_put(&n, "classes", "classes.txt", "cat\ndog\n"));
    assert_int_equal(n.count, 2);
    assert_string_equal(tl_notes_get(&n, "classes"), "cat\ndog\n");
    assert_string_equal(tl_notes_get(&n, "gin"), "");
    tl_notes_deinit(&n);
}

static void test_a_folder_that_says_something_else_is_refused(void **state)
{
    (void)state;
    tl_notes n = {0};
    const char *text;
    assert_ok(tl_notes_put(&n, "classes", "classes.txt", "cat\ndog\n"));
    assert_ok(tl_notes_check(&n, folder)); // nothing is there
    assert_ok(tl_notes_write(&n, folder));
    assert_ok(tl_notes_check(&n, folder));
    assert_ok(tl_notes_put(&n, "classes", "classes.txt", "cat\nfox\n"));
    assert_fails(tl_notes_check(&n, folder), TL_EINVAL, "(line 2 differs)");
    assert_ok(tl_notes_write(&n, folder)); // what is there stays
    assert_ok(tl_notes_read(&text, arena, folder, "classes.txt"));
    assert_string_equal(text, "cat\ndog\n");
    assert_ok(tl_notes_read(&text, arena, folder, "none.txt"));
    assert_null(text);
    tl_notes_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_notes_are_put_and_replaced, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_a_folder_that_says_something_else_is_refused,
                                        open_test, close_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
