/* Mapped files that are cut short: zeros and a message, no signal. Not for ThreadSanitizer, which
 * takes the mapping of zeros for a write. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/file.h>

#include "test.h"

enum { PAGES = 64, PAGE = 65536, SIZE = PAGES * PAGE }; /* no system has larger pages by default */

static char path[TEMPORARY_PATH];

static void write_file(void)
{
    static char ones[PAGE];
    memset(ones, 1, sizeof ones);
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
    assert_true(fd >= 0);
    for (int i = 0; i < PAGES; i++) assert_int_equal(write(fd, ones, sizeof ones), sizeof ones);
    close(fd);
}

static int64_t sum(const tl_file_mapping *m, size_t from)
{
    int64_t all = 0;
    for (size_t i = from; i < m->size; i++) all += m->data[i];
    return all;
}

static void test_what_is_cut_reads_as_zeros(void **state)
{
    (void)state;
    tl_file_mapping m, other;
    write_file();
    assert_ok(tl_file_map(&m, path));
    assert_ok(tl_file_map(&other, path));
    assert_int_equal(sum(&m, 0), SIZE);
    assert_ok(tl_file_mapping_check(&m, path));
    assert_int_equal(truncate(path, PAGE + 10), 0);
    assert_int_equal(sum(&m, 0), PAGE + 10);
    assert_fails(tl_file_mapping_check(&m, path), TL_EIO, "became shorter while it was in use");
    // Its size is as it was, but it was cut in between, and zeros may have been read.
    write_file();
    assert_fails(tl_file_mapping_check(&m, path), TL_EIO, "became shorter while it was in use");
    assert_ok(tl_file_mapping_check(&other, path));
    tl_file_unmap(&m);
    tl_file_unmap(&other);
    assert_ok(tl_file_map(&m, path)); // a guard that was used before knows nothing of that
    assert_int_equal(sum(&m, 0), SIZE);
    assert_ok(tl_file_mapping_check(&m, path));
    tl_file_unmap(&m);
}

static void *read_all(void *payload)
{
    const tl_file_mapping *m = payload;
    int64_t found = 0;
    for (int i = 0; i < 20; i++) found += sum(m, SIZE - 4 * PAGE);
    return (void *)(intptr_t)found;
}

static void test_several_threads_read_what_is_cut(void **state)
{
    (void)state;
    enum { THREADS = 4, FILES = 3 };
    for (int round = 0; round < 3; round++) {
        tl_file_mapping m[FILES];
        pthread_t threads[THREADS];
        write_file();
        for (int i = 0; i < FILES; i++) assert_ok(tl_file_map(&m[i], path));
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_all, &m[i % FILES]), 0);
        assert_int_equal(truncate(path, 0), 0);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < FILES; i++) {
            assert_int_equal(sum(&m[i], 0), 0);
            tl_file_unmap(&m[i]);
        }
    }
}

/* --- signals that are no concern of a mapping ------------------------------------------------- */

static void leave(int number)
{
    (void)number;
    _exit(7);
}

/* Touches a page that no guard knows, in a process of its own. */
static int touch_elsewhere(bool with_handler)
{
    write_file();
    pid_t child = fork();
    if (child == 0) {
        tl_file_mapping m;
        // The handler that was there before ours was set: a program's own, or the system's.
        signal(SIGBUS, with_handler ? leave : SIG_DFL);
        if (tl_file_map(&m, path) != TL_OK) _exit(1);
        int fd = open(path, O_RDWR);
        const char *own = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
        if (ftruncate(fd, 0) != 0) _exit(2);
        volatile char c = own[SIZE - 1];
        _exit(3 + c);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_other_signals_are_handed_on(void **state)
{
    (void)state;
    int status = touch_elsewhere(false);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    status = touch_elsewhere(true);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static int make(void **state)
{
    (void)state;
    int fd = mkstemp(temporary(path, "tilth-test-guard"));
    close(fd);
    return fd < 0;
}

static int clear(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_signals_are_handed_on), // first: no handler is set yet
        cmocka_unit_test(test_what_is_cut_reads_as_zeros),
        cmocka_unit_test(test_several_threads_read_what_is_cut),
    };
    return cmocka_run_group_tests(tests, make, clear);
}
