/* What the tests of the compiler and of its cache share: a folder of their own with a path that is
 * not easy, one small unit, and compilers that are scripts. */
#ifndef TILTH_TESTS_NEST_JIT_TEST_H
#define TILTH_TESTS_NEST_JIT_TEST_H

#include "test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/sys/cpu/jit.h>

typedef int int_fn(int);

static char home[TEMPORARY_PATH];
static char old_path[4096];

/* Each test stands in an empty directory of its own, whose path has spaces in it. */
static inline int enter_folder(void **state)
{
    (void)state;
    temporary(home, "tilth test jit");
    unsetenv("TILTH_CC");
    unsetenv("TILTH_ISA");
    unsetenv("TILTH_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    setenv("PATH", old_path, 1);
    if (!mkdtemp(home) || chdir(home) != 0) return -1;
    setenv("HOME", home, 1);
    return 0;
}

static inline void keep_path(void)
{
    snprintf(old_path, sizeof old_path, "%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
}

static inline int leave_folder(void **state)
{
    (void)state;
    tl_alloc_fail_at(0, 0);
    return chdir("/") == 0 && remove_tree(home) == 0 ? 0 : -1;
}

/* --- helpers ---------------------------------------------------------------------------------- */

static inline void put(const char *path, const char *text, mode_t mode)
{
    (void)unlink(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static inline tl_jit *jit_in(const char *folder)
{
    tl_jit *jit;
    assert_ok(tl_jit_new(&jit, &(tl_jit_args){.cache_dir = folder, .threads = 2}));
    return jit;
}

static const char *const add_one = "int add(int x) { return x + 1; }\n";

static inline int call(const tl_jit_unit *unit, const char *name, int x)
{
    int_fn *fn = (int_fn *)tl_jit_symbol(unit, name);
    assert_non_null(fn);
    return fn(x);
}

/* Loads add_one once in a tl_jit of its own; whether it was cached. */
static inline bool load_once(const char *folder, char path[512])
{
    tl_jit *jit = jit_in(folder);
    tl_jit_unit unit = {.name = "add", .source = add_one};
    assert_ok(tl_jit_load(jit, &unit, 1));
    assert_int_equal(call(&unit, "add", 41), 42);
    bool cached = unit.cached;
    if (path) snprintf(path, 512, "%s", unit.path);
    tl_jit_free(&jit);
    return cached;
}

static inline void path_of(char out[512], const char *object, const char *member)
{
    snprintf(out, 512, "%.*s%s", (int)(strrchr(object, '/') + 1 - object), object, member);
}

/* Names in the folder that begin with the text, the dots left out. */
static inline int count_names(const char *folder, const char *begin)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *file; (file = readdir(dir));)
        count += strcmp(file->d_name, ".") != 0 && strcmp(file->d_name, "..") != 0
                 && strncmp(file->d_name, begin, strlen(begin)) == 0;
    closedir(dir);
    return count;
}

static inline bool has_program(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "/usr/bin/%s", name);
    return access(path, X_OK) == 0;
}

static inline mode_t mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

static inline void wait_for(pid_t child)
{
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
}

/* Runs `fn` in a process of that user; it returns 0 when all went as it should. */
static inline void as_user(uid_t user, int (*fn)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool changed = setgid(user) == 0 && setuid(user) == 0;
        int result = changed ? fn() : 99;
        if (result)
            fprintf(stderr, "as user %u: %d, %s\n", (unsigned)user, result, tl_error_message());
        _exit(result);
    }
    wait_for(child);
}

/* A compiler that is a shell script. */
static inline void put_compiler(const char *path, const char *script)
{
    char text[1024];
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    put(path, text, 0755);
}

/* What was logged, to look for words in. */
static char logged[4096];
static inline void keep_log(const tl_log_record *record, void *payload)
{
    (void)payload;
    snprintf(logged, sizeof logged, "%s", record->text);
}

#endif
