/* What tests that start the program have in common: a folder of their own, and lines of a shell in
 * which `tilth` is the program. */
#ifndef TILTH_TESTS_TOOL_SHELL_LAB_H
#define TILTH_TESTS_TOOL_SHELL_LAB_H

#include "test.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

static char shell_home[TEMPORARY_PATH];
static char *said;

static inline int shell_open(void **state)
{
    (void)state;
    temporary(shell_home, "tilth-test-tool");
    return mkdtemp(shell_home) && chdir(shell_home) == 0 ? 0 : -1;
}

static inline int shell_remove(const char *path, const struct stat *info, int type,
                               struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static inline int shell_close(void **state)
{
    (void)state;
    tl_free(said);
    said = NULL;
    return chdir("/") == 0 && nftw(shell_home, shell_remove, 8, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

/* Keeps what the file holds. */
static inline void hear(const char *path)
{
    tl_free(said);
    assert_ok(tl_file_read(&said, NULL, path, 1 << 22));
}

/* Runs a line, keeps what it said, and gives its exit code. */
static inline int shell(const char *line)
{
    char text[2048];
    int used = snprintf(text, sizeof text, "tilth() { '%s' \"$@\"; }\n{ %s\n} >said.txt 2>&1",
                        TILTH_PROGRAM, line);
    assert_true(used > 0 && used < (int)sizeof text);
    int status = system(text);
    hear("said.txt");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void has(const char *part)
{
    const char *text = said ? said : "";
    if (!strstr(text, part)) fail_msg("this is missing:\n%s\nin:\n%s", part, text);
}

/* The line ends with this exit code, and says this. */
static inline void ends(int code, const char *line, const char *part)
{
    int found = shell(line);
    if (found != code)
        fail_msg("%s: exit code %d, not %d:\n%s", line, found, code, said ? said : "");
    has(part);
}

#define SHELL_TEST(f) cmocka_unit_test_setup_teardown(f, shell_open, shell_close)

#endif
