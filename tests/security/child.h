/* `tilth WORDS` as a process of its own: how it ended, what it said, and how much memory it had at
 * most. */
#ifndef TILTH_TESTS_SECURITY_CHILD_H
#define TILTH_TESTS_SECURITY_CHILD_H

#include "io/folder.h"

#include <ftw.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Far beyond what any of these takes: what runs for ever is ended, and that is a failure. */
enum { CHILD_SECONDS = 300 };

static int child_code;       /* -1: a signal ended it */
static long child_peak;      /* in KiB; it counts what the test itself has, which is little */
static char child_err[4096]; /* what it said on standard error; the beginning will do */
static int64_t child_said;   /* bytes on standard output */

static inline void be_child(const char *program, const char *const *words)
{
    char *argv[32] = {(char *)(uintptr_t)program};
    for (int i = 0; words[i] && i < 30; i++) argv[i + 1] = (char *)(uintptr_t)words[i];
    alarm(CHILD_SECONDS);
    if (!freopen(in_folder("stdout"), "w", stdout) || !freopen(in_folder("stderr"), "w", stderr))
        _exit(99);
    execv(program, argv);
    _exit(98);
}

static inline pid_t child_start(const char *program, const char *const *words)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) be_child(program, words);
    return child;
}

static inline void child_wait(pid_t child)
{
    struct rusage usage;
    int status;
    struct stat said;
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    FILE *f = fopen(in_folder("stderr"), "r");
    assert_non_null(f);
    child_err[fread(child_err, 1, sizeof child_err - 1, f)] = '\0';
    fclose(f);
    assert_int_equal(stat(in_folder("stdout"), &said), 0);
    child_said = said.st_size;
    child_peak = usage.ru_maxrss;
    child_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (child_code < 0) fail_msg("signal %d ended it; it said:\n%s", WTERMSIG(status), child_err);
}

/* Runs it, from beginning to end. */
#define child_run(...)                                                                             \
    child_wait(child_start(TILTH_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}))

/* With this exit code and this on standard error. */
static inline void child_ended(int code, const char *message)
{
    if (child_code != code) fail_msg("exit code %d, not %d: %s", child_code, code, child_err);
    if (!strstr(child_err, message)) fail_msg("this is missing:\n%s\nin:\n%s", message, child_err);
}

/* It never had more than that. Sanitizers have memory of their own. */
static inline void child_took_less(long megabytes)
{
    if (!SANITIZED && child_peak > megabytes * 1024)
        fail_msg("it took %ld MiB, more than %ld: %s", child_peak / 1024, megabytes, child_err);
}

static inline int child_remove(const char *path, const struct stat *info, int type,
                               struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static inline int child_setup(void **state)
{
    return make_folder(state);
}

static inline int child_teardown(void **state)
{
    (void)state;
    return nftw(folder, child_remove, 8, FTW_DEPTH | FTW_PHYS);
}

#define CHILD_TEST(f) cmocka_unit_test_setup_teardown(f, child_setup, child_teardown)

#endif
