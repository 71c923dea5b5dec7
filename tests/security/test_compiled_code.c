/* Attempts to have code of another user run through the cache of compiled code. The other user is
 * 12345; only root can play both. */
#include "cpu/jit_test.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "base/inner/trust.h"

enum { OTHER = 12345 };

/* --- folders that others could exchange ------------------------------------------------------- */

/* Where the cache is to be: every folder exists, and belongs to the user alone. */
#define CACHE "above/middle/cache"

static void owned_by_another(void)
{
    assert_int_equal(chown("above", OTHER, OTHER), 0);
}

static void writable_by_a_group(void)
{
    assert_int_equal(chown("above/middle", 0, OTHER), 0);
    assert_int_equal(chmod("above/middle", 0775), 0);
}

static void writable_by_everybody(void)
{
    assert_int_equal(chmod("above", 0757), 0);
}

static void cache_of_another(void)
{
    assert_int_equal(chown(CACHE, OTHER, OTHER), 0);
}

static void cache_writable_by_everybody(void)
{
    assert_int_equal(chmod(CACHE, 01777), 0); // sticky: keys can be guessed all the same
}

/* In a folder like /tmp anybody can make a link of the name that is looked for. */
static void link_of_another(void)
{
    assert_int_equal(rename("above/middle", "elsewhere"), 0);
    assert_int_equal(chmod("above", 01777), 0);
    assert_int_equal(symlink("../elsewhere", "above/middle"), 0);
    assert_int_equal(lchown("above/middle", OTHER, OTHER), 0);
}

static void link_through_a_folder_of_another(void)
{
    assert_int_equal(rename("above", "really"), 0);
    assert_int_equal(mkdir("theirs", 0755), 0);
    assert_int_equal(symlink("../really", "theirs/on"), 0);
    assert_int_equal(chown("theirs", OTHER, OTHER), 0);
    assert_int_equal(symlink("theirs/on", "above"), 0);
}

/* user::rwx, user:12345:rwx, group::r-x, mask::rwx, other::--- looks like 0770. */
static void named_in_an_access_list(void)
{
    static const unsigned char list[] = {2,   0,   0,   0,    1,   0,    7,    0,   255, 255, 255,
                                         255, 2,   0,   7,    0,   0x39, 0x30, 0,   0,   4,   0,
                                         5,   0,   255, 255,  255, 255,  0x10, 0,   7,   0,   255,
                                         255, 255, 255, 0x20, 0,   0,    0,    255, 255, 255, 255};
    if (setxattr("above/middle", "system.posix_acl_access", list, sizeof list, 0) != 0)
        assert_int_equal(chmod("above/middle", 0777), 0); // a file system without them
}

static int warnings;
static void count_warnings(const tl_log_record *record, void *payload)
{
    warnings++;
    keep_log(record, payload);
}

/* Compiles, loads and calls twice, in tl_jits of their own: from memory, after one warning. */
static int compile_into_memory(void)
{
    int64_t handle;
    tl_log_sink sink = {TL_LEVEL_WARNING, count_warnings, NULL, NULL};
    if (tl_log_sink_add(&handle, &sink) != TL_OK) return 1;
    tl_log_sink_remove(TL_LOG_STDERR);
    for (int i = 0; i < 2; i++) {
        tl_jit *jit;
        tl_jit_stats stats;
        tl_jit_unit units[] = {{.name = "add", .source = add_one},
                               {.name = "same", .source = add_one}};
        if (tl_jit_new(&jit, &(tl_jit_args){.cache_dir = CACHE}) != TL_OK) return 2;
        if (tl_jit_load(jit, units, 2) != TL_OK || *units[0].path || units[0].cached) return 3;
        int_fn *fn = (int_fn *)tl_jit_symbol(&units[1], "add");
        if (!fn || fn(41) != 42) return 4;
        if (tl_jit_read_stats(&stats, jit) != TL_OK || *stats.cache_dir || stats.entries) return 5;
        if (tl_jit_clear(jit) != TL_OK) return 6;
        tl_jit_free(&jit);
    }
    if (warnings != 1 || !strstr(logged, CACHE) || !strstr(logged, "TILTH_CACHE_DIR")) return 7;
    FILE *file = fopen("warning", "w");
    return file && fputs(logged, file) >= 0 && fclose(file) == 0 ? 0 : 8;
}

static void test_folders_that_others_could_exchange(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(void);
        const char *why;
    } cases[] = {
        {owned_by_another, "/above' belongs to user 12345, neither you"},
        {writable_by_a_group, "group (12345), in which others may be, may write to '"},
        {writable_by_everybody, "everybody may write to '"},
        {cache_of_another, "/cache' belongs to user 12345, neither you"},
        {cache_writable_by_everybody, "everybody may write to '"},
        {link_of_another, "/above/middle' belongs to user 12345"},
        {link_through_a_folder_of_another, "/theirs' belongs to user 12345"},
        {named_in_an_access_list, "may write to '"},
    };
    if (geteuid() != 0) skip();
    assert_int_equal(mkdir("work", 0700), 0);
    char work[600];
    snprintf(work, sizeof work, "%s/work", home);
    setenv("TMPDIR", work, 1);
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        char stage[32], text[4096] = "";
        snprintf(stage, sizeof stage, "stage%d", (int)i);
        assert_int_equal(mkdir(stage, 0755), 0);
        assert_int_equal(chdir(stage), 0);
        assert_int_equal(mkdir("above", 0755), 0);
        assert_int_equal(mkdir("above/middle", 0755), 0);
        assert_int_equal(mkdir(CACHE, 0700), 0);
        cases[i].spoil();
        as_user(0, compile_into_memory);
        FILE *file = fopen("warning", "r");
        assert_non_null(file);
        assert_non_null(fgets(text, sizeof text, file));
        fclose(file);
        if (!strstr(text, cases[i].why)) fail_msg("case %d said: %s", (int)i, text);
        assert_int_equal(count_names(CACHE, ""), 0); // not used
        assert_int_equal(count_names(work, ""), 0);  // nothing is left behind
        assert_int_equal(chdir(".."), 0);
    }
    unsetenv("TMPDIR");
}

/* --- the exchange itself ---------------------------------------------------------------------- */

/* A unit that leaves a mark when it is loaded. */
static const char *const forged = "#include <fcntl.h>\n#include <unistd.h>\n"
                                  "__attribute__((constructor)) static void mark(void)\n"
                                  "{ close(open(MARK, O_CREAT | O_WRONLY, 0666)); }\n"
                                  "int add(int x) { return x - 1; }\n";

/* The cache of the user, and beside it one in which the object under the same key is another; the
 * owner of the folder above puts one in place of the other, as fast as he can. */
static pid_t begin_exchanging(char mark[600])
{
    char path[512], command[2600], object[512];
    assert_int_equal(mkdir("above", 0755), 0);
    load_once("above/cache", path);
    path_of(object, path, "k.so");
    snprintf(mark, 600, "%s/mark", home);
    put("forged.c", forged, 0644);
    snprintf(command, sizeof command,
             "cp -a above/cache above/forged && cc -shared -fPIC -nostdlib -DMARK='\"%s\"' -o "
             "\"above/forged/${0#*/above/cache/}\" forged.c",
             mark);
    pid_t compiler = fork();
    if (compiler == 0) {
        execl("/bin/sh", "sh", "-c", command, object, (char *)NULL);
        _exit(127);
    }
    wait_for(compiler);
    assert_int_equal(chown("above", OTHER, OTHER), 0);
    assert_int_equal(chmod(home, 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(OTHER) != 0 || setuid(OTHER) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
            _exit(1);
        alarm(60);
        for (;;)
            (void)!renameat2(AT_FDCWD, "above/cache", AT_FDCWD, "above/forged", RENAME_EXCHANGE);
    }
    return child;
}

static void test_exchange_between_check_and_load(void **state)
{
    (void)state;
    char mark[600];
    if (geteuid() != 0) skip();
    pid_t other = begin_exchanging(mark);
    tl_log_sink_remove(TL_LOG_STDERR);
    for (int i = 0; i < 10; i++) assert_false(load_once("above/cache", NULL)); // add(41) is 42
    int ended;
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, &ended, 0), other);
    assert_false(tl_file_exists(mark));
}

/* --- what is fine ----------------------------------------------------------------------------- */

static void test_folders_are_made_for_the_user_alone(void **state)
{
    (void)state;
    static const char *const made[] = {"one", "one/two", "one/two/cache"};
    mode_t before = umask(0);
    load_once("one/two/cache", NULL);
    umask(before);
    for (int i = 0; i < 3; i++) assert_int_equal(mode_of(made[i]) & 0777, 0700);
}

/* With a umask of 002 all belongs to a group in which nobody else is. */
static void test_group_of_the_user_alone(void **state)
{
    (void)state;
    if (geteuid() != 0) skip();
    // root is not alone here
    if (!tli_trust_is_own_group(0, 0, "/etc/passwd", "/etc/group")) skip();
    assert_int_equal(mkdir("above", 0755), 0);
    assert_int_equal(mkdir("above/cache", 0755), 0);
    assert_int_equal(chmod("above", 0775), 0);
    assert_int_equal(chmod("above/cache", 0775), 0);
    assert_false(load_once("above/cache", NULL));
    assert_true(load_once("above/cache", NULL));
}

static void test_which_groups_are_the_users(void **state)
{
    (void)state;
    static const struct {
        const char *passwd, *group;
        bool own;
    } cases[] = {
        {"root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n", "root:x:0:\nann:x:1000:\n", true},
        {"root:x:0:0::/:/bin/sh\n", "root:x:0:root\n", true},
        // ann's first group
        {"root:x:0:0::/:/bin/sh\nann:x:1000:0::/:/bin/sh\n", "root:x:0:\n", false},
        {"root:x:0:0::/:/bin/sh\n", "root:x:0:root,ann\n", false},
        // another name of the same
        {"root:x:0:0::/:/bin/sh\n", "root:x:0:\nwheel:x:0:ann\n", false},
    };
    if (!tli_trust_is_own_group(0, 0, "/etc/passwd", "/etc/group")) skip();
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        put("passwd", cases[i].passwd, 0600);
        put("group", cases[i].group, 0600);
        if (tli_trust_is_own_group(0, 0, "passwd", "group") != cases[i].own)
            fail_msg("case %d", (int)i);
    }
    assert_false(tli_trust_is_own_group(0, 0, "nowhere", "group"));
    assert_false(tli_trust_is_own_group(0, 0, "passwd", "nowhere"));
    assert_false(tli_trust_is_own_group(0, OTHER, "passwd", "group")); // nobody knows who is in it
    assert_false(tli_trust_is_own_group(OTHER, OTHER, "passwd", "group"));
}

/* Without /proc what the cache has is loaded by its path. */
static int load_without_proc(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return 0;
    if (mount("none", "/proc", "tmpfs", 0, NULL) != 0) return 0;
    return load_once("cache", NULL) ? 0 : 1;
}

static void test_without_proc(void **state)
{
    (void)state;
    if (geteuid() != 0 || SANITIZED) skip(); // sanitizers need /proc themselves
    load_once("cache", NULL);
    as_user(0, load_without_proc);
}

/* --- variables that name code ----------------------------------------------------------------- */

/* Tells which cache the variables lead to, or why to none, and which compiler, with this cache. */
static int look_at_variables(const char *folder)
{
    tl_jit *jit;
    tl_jit_stats stats;
    tl_log_sink_remove(TL_LOG_STDERR);
    tl_status st = tl_jit_new(&jit, NULL);
    if (st == TL_OK) st = tl_jit_read_stats(&stats, jit);
    printf("cache: %s\n", st == TL_OK ? stats.cache_dir : tl_error_message());
    tl_jit_free(&jit);
    st = tl_jit_new(&jit, &(tl_jit_args){.cache_dir = folder});
    if (st == TL_OK) st = tl_jit_read_stats(&stats, jit);
    printf("compiler: %s\n", st == TL_OK ? stats.compiler : tl_error_message());
    tl_jit_free(&jit);
    return 0;
}

static int run_as_another(const char *program, char out[1024])
{
    int ends[2], ended;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], 1);
        if (setgid(OTHER) == 0 && setuid(OTHER) == 0)
            execl(program, program, "variables", "own", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], out, 1023);
    out[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &ended, 0), child);
    return ended;
}

/* The program of the third user is started by the other one, who has set the variables. */
static void test_variables_of_another(void **state)
{
    (void)state;
    enum { THIRD = 23456 }; // has no home that the user database knows
    char out[1024], path[600], *binary;
    size_t size;
    struct statvfs mount_of;
    if (geteuid() != 0 || SANITIZED) skip();
    if (statvfs(".", &mount_of) != 0 || mount_of.f_flag & ST_NOSUID) skip();
    assert_int_equal(chmod(home, 0755), 0);
    assert_ok(tl_file_read(&binary, &size, "/proc/self/exe", (size_t)1 << 30));
    assert_ok(tl_file_write_atomic("program", binary, size));
    tl_free(binary);
    put_compiler("evil", "exit 0");
    assert_int_equal(mkdir("theirs", 0755) + mkdir("own", 0755), 0);
    assert_int_equal(chown("theirs", OTHER, OTHER) + chown("own", THIRD, THIRD), 0);
    assert_int_equal(chown("program", THIRD, THIRD), 0);
    snprintf(path, sizeof path, "%s/theirs", home);
    setenv("TILTH_CACHE_DIR", path, 1);
    snprintf(path, sizeof path, "%s/evil", home);
    setenv("TILTH_CC", path, 1);

    assert_int_equal(chmod("program", 0755), 0);
    assert_int_equal(run_as_another("./program", out), 0);
    assert_non_null(strstr(out, "/theirs\n")); // it does as he says
    assert_non_null(strstr(out, "/evil\n"));

    assert_int_equal(chmod("program", 04755), 0);
    assert_int_equal(run_as_another("./program", out), 0);
    assert_non_null(strstr(out, "cache: no place for the cache"));
    assert_non_null(strstr(out, "\ncompiler: /"));
    assert_null(strstr(out, "/evil"));
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "variables") == 0) return look_at_variables(argv[2]);
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        TEST(folders_that_others_could_exchange),
        TEST(exchange_between_check_and_load),
        TEST(folders_are_made_for_the_user_alone),
        TEST(group_of_the_user_alone),
        TEST(which_groups_are_the_users),
        TEST(without_proc),
        TEST(variables_of_another),
    };
#undef TEST
    keep_path();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
