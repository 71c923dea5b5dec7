/* Attempts to have code of another user run as a plug-in, or as a library that a plug-in wants. The
 * other user is 12345; only root can play both. */
#include "test.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/file.h>
#include <tilth/desc/registry.h>

enum { OTHER = 12345 };

static char home[TEMPORARY_PATH];

/* A module, with a constructor: that runs as soon as the loader has it. */
static const char *const source =
    "#include <fcntl.h>\n#include <unistd.h>\n#include <tilth/desc/registry.h>\n"
    "__attribute__((constructor)) static void mark(void)\n"
    "{ close(open(\"mark\", O_CREAT | O_WRONLY, 0666)); }\n"
    "static const tl_entry entries[] = {{0}};\n"
    "TL_EXPORT extern const tl_module tl_module_main;\n"
    "const tl_module tl_module_main = {TL_MODULE_HEAD(\"marked\"), entries, 0};\n";

static void run(const char *command)
{
    if (system(command) != 0) fail_msg("failed: %s", command);
}

/* above/middle/plugin.so, and a library that could lie beside it. */
static int begin_all(void **state)
{
    (void)state;
    if (!mkdtemp(temporary(home, "tilth_plugins")) || chmod(home, 0755) != 0 || chdir(home) != 0)
        return 1;
    if (tl_file_write_atomic("plugin.c", source, strlen(source)) != TL_OK) return 1;
    run("cc -std=gnu17 -shared -fPIC -I'" TEST_DATA
        "/../include' -o plugin.so plugin.c && echo '__attribute__((constructor)) static void "
        "f(void) { void _exit(int); _exit(99); }' >helper.c && cc -w -shared -fPIC -o libhelper.so "
        "helper.c && cc -std=gnu17 -shared -fPIC -I'" TEST_DATA "/../include' -o wants.so plugin.c "
        "-Wl,--no-as-needed -L. -lhelper -Wl,-rpath,'$ORIGIN'");
    return 0;
}

static int end_all(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "cd / && rm -rf %s", home);
    return system(command);
}

static int begin(void **state)
{
    (void)state;
    run("rm -rf above theirs really mark && umask 022 && mkdir -p above/middle && cp plugin.so "
        "above/middle");
    return 0;
}

static tl_status load(const char *path)
{
    tl_registry *r;
    tl_status st = tl_registry_new(&r);
    if (st == TL_OK) st = tl_registry_load(r, path);
    tl_registry_free(&r);
    return st;
}

#define PLUGIN "above/middle/plugin.so"

/* --- files and folders that others could have changed ----------------------------------------- */

static void file_of_a_group(void)
{
    assert_int_equal(chown(PLUGIN, 0, OTHER), 0);
    assert_int_equal(chmod(PLUGIN, 0664), 0);
}

static void file_of_another(void)
{
    assert_int_equal(chown(PLUGIN, OTHER, OTHER), 0);
}

static void folder_of_a_group(void)
{
    assert_int_equal(chown("above/middle", 0, OTHER), 0);
    assert_int_equal(chmod("above/middle", 0775), 0);
}

static void folder_above_of_a_group(void)
{
    assert_int_equal(chown("above", 0, OTHER), 0);
    assert_int_equal(chmod("above", 0775), 0);
}

static void folder_above_of_another(void)
{
    assert_int_equal(chown("above", OTHER, OTHER), 0);
}

static void folder_above_of_everybody(void)
{
    assert_int_equal(chmod("above", 0777), 0);
}

static void link_of_another(void)
{
    run("mv above really && mkdir -m 1777 above && ln -s ../really/middle above/middle && "
        "chown -h 12345:12345 above/middle");
}

static void test_what_others_could_have_changed(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(void);
        const char *why;
    } cases[] = {
        {file_of_a_group, "its group (12345), in which others may be, may write to '"},
        {file_of_another, "plugin.so' belongs to user 12345, neither you"},
        {folder_of_a_group, "its group (12345)"},
        {folder_above_of_a_group, "its group (12345)"},
        {folder_above_of_another, "/above' belongs to user 12345"},
        {folder_above_of_everybody, "everybody may write to '"},
        {link_of_another, "/above/middle' belongs to user 12345"},
    };
    if (geteuid() != 0) skip();
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        begin(NULL);
        cases[i].spoil();
        assert_fails(load(PLUGIN), TL_EINVAL, "refused, because ");
        if (!strstr(tl_error_message(), cases[i].why))
            fail_msg("case %d: %s", (int)i, tl_error_message());
        if (tl_file_exists("mark")) fail_msg("case %d ran", (int)i); // nothing of it, not even that
    }
    begin(NULL);
    assert_ok(load(PLUGIN));
    assert_true(tl_file_exists("mark"));
}

/* --- libraries beside it ---------------------------------------------------------------------- */

/* Where everybody may add files, one of another user lies beside the plug-in of ours. */
static void test_library_of_another_beside_it(void **state)
{
    (void)state;
    if (geteuid() != 0) skip();
    run("cp wants.so above/middle && chmod 1777 above/middle && cp libhelper.so above/middle && "
        "chown 12345:12345 above/middle/libhelper.so");
    assert_fails(load("above/middle/wants.so"), TL_EINVAL, "libhelper.so"); // and the process lives
    assert_false(tl_file_exists("mark"));
    assert_ok(load(PLUGIN));
}

/* In a folder of our own it is found, which ends the process. */
static void test_library_of_ours_beside_it(void **state)
{
    (void)state;
    run("cp wants.so libhelper.so above/middle");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!load("above/middle/wants.so");
        _exit(0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 99);
}

/* --- without /proc ---------------------------------------------------------------------------- */

static void test_without_proc(void **state)
{
    (void)state;
    if (SANITIZED) skip(); // sanitizers need /proc themselves
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool hidden = unshare(CLONE_NEWNS) == 0
                      && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
                      && mount("none", "/proc", "tmpfs", 0, NULL) == 0;
        if (!hidden) _exit(77);
        tl_status st = load(PLUGIN);
        _exit(st != TL_EUNSUPPORTED || !strstr(tl_error_message(), "mount /proc")
              || tl_file_exists("mark"));
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    if (WEXITSTATUS(ended) == 77) skip();
    assert_int_equal(WEXITSTATUS(ended), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_others_could_have_changed, begin),
        cmocka_unit_test_setup(test_library_of_another_beside_it, begin),
        cmocka_unit_test_setup(test_library_of_ours_beside_it, begin),
        cmocka_unit_test_setup(test_without_proc, begin),
    };
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
