/* Plug-ins: shared objects that are compiled here, loaded, and refused. */
#include "test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/desc/registry.h>

enum { NOBODY = 65534 };

static char folder[TEMPORARY_PATH];
static tl_registry *registry;

/* Compiles plugins/NAME.c to the temporary folder. */
static void compile(const char *name)
{
    const char *compiler = getenv("CC") ? getenv("CC") : "cc";
    char command[600];
    snprintf(command, sizeof command,
             "%s -std=c17 -Wall -Wextra -Werror -shared -fPIC -I'" TEST_DATA "/../include' "
             "-o %s/%s.so '" TEST_DATA "/desc/plugins/%s.c'",
             compiler, folder, name, name);
    if (system(command) != 0) fail_msg("failed: %s", command);
}

static int begin_all(void **state)
{
    (void)state;
    if (!mkdtemp(temporary(folder, "tilth_plugin")) || chmod(folder, 0755) != 0) return 1;
    static const char *const names[] = {"good",      "wrong_abi", "no_symbol",
                                        "undefined", "duplicate", "incomplete"};
    for (int64_t i = 0; i < TL_COUNT(names); i++) compile(names[i]);
    return 0;
}

static int end_all(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static int begin(void **state)
{
    (void)state;
    return tl_registry_new(&registry) != TL_OK;
}

static int end(void **state)
{
    (void)state;
    tl_registry_free(&registry);
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[2][160];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static bool is_loaded(const char *name)
{
    void *handle = dlopen(path_of(name), RTLD_NOW | RTLD_NOLOAD);
    if (handle) dlclose(handle);
    return handle != NULL;
}

/* Refused with this message, which names the file; and nothing of it stays. */
static void refuse(const char *name, tl_status code, const char *message)
{
    assert_fails(tl_registry_load(registry, path_of(name)), code, message);
    char named[160];
    snprintf(named, sizeof named, "plug-in '%s': ", path_of(name));
    if (strncmp(tl_error_message(), named, strlen(named)) != 0)
        fail_msg("'%s' does not begin with the file", tl_error_message());
    assert_int_equal(tl_registry_kind_count(registry), 0);
    assert_false(is_loaded(name));
}

/* --- loading ---------------------------------------------------------------------------------- */

static void test_load(void **state)
{
    (void)state;
    const tl_kind *kind;
    const tl_class *c;
    assert_ok(tl_registry_load(registry, path_of("good.so")));
    assert_true(tl_registry_has_module(registry, "toys"));
    assert_ok(tl_registry_find_kind(&kind, registry, "toy"));
    assert_int_equal(tl_registry_count(registry, kind), 2);
    assert_ok(tl_registry_find(&c, registry, kind, "red/ball"));
    assert_string_equal(tl_registry_origin(registry, kind, "red/ball"), "toys");
    // Its methods are code of the plug-in.
    const struct {
        tl_class cls;
        int (*play)(int);
    } *with = tl_class_with(c, sizeof(tl_class), sizeof(int (*)(int)));
    assert_int_equal(with->play(21), 42);
    assert_true(is_loaded("good.so"));
    tl_registry_free(&registry);
    assert_false(is_loaded("good.so")); // it stayed as long as the registry
}

static void test_load_twice(void **state)
{
    (void)state;
    const tl_kind *kind;
    assert_ok(tl_registry_load(registry, path_of("good.so")));
    assert_ok(tl_registry_load(registry, path_of("good.so"))); // the same module again
    assert_ok(symlink(path_of("good.so"), path_of("link.so")) ? TL_EIO : TL_OK);
    assert_ok(tl_registry_load(registry, path_of("link.so")));
    assert_ok(tl_registry_find_kind(&kind, registry, "toys"));
    assert_int_equal(tl_registry_count(registry, kind), 2);
    // A copy is another module of the same name.
    char command[400];
    snprintf(command, sizeof command, "cp %s/good.so %s/copy.so", folder, folder);
    assert_int_equal(system(command), 0);
    assert_fails(tl_registry_load(registry, path_of("copy.so")), TL_EEXISTS,
                 "another module 'toys'");
    assert_int_equal(tl_registry_count(registry, kind), 2);
    tl_registry_free(&registry);
    assert_false(is_loaded("good.so"));
    assert_false(is_loaded("copy.so"));
}

static void test_two_registries(void **state)
{
    (void)state;
    tl_registry *other;
    const tl_kind *kind;
    assert_ok(tl_registry_new(&other));
    assert_ok(tl_registry_load(registry, path_of("good.so")));
    assert_ok(tl_registry_load(other, path_of("good.so")));
    tl_registry_free(&registry);
    assert_ok(tl_registry_find_kind(&kind, other, "toys")); // still there for the other
    assert_string_equal(kind->name, "toy");
    tl_registry_free(&other);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void test_no_plugins(void **state)
{
    (void)state;
    refuse("nowhere.so", TL_ENOTFOUND, "No such file");
    refuse("", TL_EINVAL, "not a file"); // the folder
    refuse("no_symbol.so", TL_EINVAL, "it exports no module");
    refuse("undefined.so", TL_EINVAL, "undefined symbol: kind_that_does_not_exist");
    assert_ok(tl_file_write_atomic(path_of("text.so"), "not an object\n", 14));
    refuse("text.so", TL_EINVAL, "");
    assert_ok(tl_file_write_atomic(path_of("empty.so"), "", 0));
    refuse("empty.so", TL_EINVAL, "");
    // A pipe is no file, and nobody waits for a writer.
    assert_int_equal(mkfifo(path_of("pipe.so"), 0600), 0);
    alarm(20);
    assert_fails(tl_registry_load(registry, path_of("pipe.so")), TL_EINVAL, "not a file");
    alarm(0);
}

static void test_modules_that_do_not_fit(void **state)
{
    (void)state;
    refuse("wrong_abi.so", TL_EUNSUPPORTED, "the module was built for ABI 42, this Tilth");
    refuse("duplicate.so", TL_EEXISTS,
           "the game 'chess' is registered by module 'duplicate' and again by module 'duplicate'");
    refuse("incomplete.so", TL_EINVAL,
           "module 'incomplete': toy class 'broken': it lacks the required method 'play'");
    assert_ok(tl_registry_load(registry, path_of("good.so"))); // the registry is as good as before
}

static void test_who_may_write(void **state)
{
    (void)state;
    const char *path = path_of("good.so");
    assert_int_equal(chmod(path, 0757), 0);
    refuse("good.so", TL_EINVAL, "refused, because everybody may write to '");
    assert_int_equal(chmod(path_of("good.so"), 0606), 0);
    refuse("good.so", TL_EINVAL, "refused, because everybody may write to '");
    assert_int_equal(symlink(path_of("good.so"), path_of("writable.so")), 0);
    refuse("writable.so", TL_EINVAL, "refused"); // the file counts, not the link
    assert_int_equal(chmod(path_of("good.so"), 0644), 0);
    assert_ok(tl_registry_load(registry, path_of("good.so"))); // needs no permission to be run
}

static void test_who_owns_it(void **state)
{
    (void)state;
    if (geteuid() != 0) skip(); // only root can give files away
    char command[400];
    snprintf(command, sizeof command, "cp %s/good.so %s/theirs.so && chmod 755 %s/theirs.so",
             folder, folder, folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(chown(path_of("theirs.so"), NOBODY, NOBODY), 0);
    refuse("theirs.so", TL_EINVAL, "belongs to user 65534, neither you (user 0) nor root");
    // Its owner may load it, and what belongs to root.
    assert_int_equal(seteuid(NOBODY), 0);
    tl_status theirs = tl_registry_load(registry, path_of("theirs.so"));
    tl_registry *other;
    tl_status st = tl_registry_new(&other);
    tl_status roots = st == TL_OK ? tl_registry_load(other, path_of("good.so")) : st;
    assert_int_equal(seteuid(0), 0);
    tl_registry_free(&other);
    assert_ok(theirs);
    assert_ok(roots);
}

/* Mapping a file beyond its end would kill the process. */
static void test_files_that_are_cut_short(void **state)
{
    (void)state;
    char *whole;
    size_t size;
    assert_ok(tl_file_read(&whole, &size, path_of("good.so"), 1 << 24));
    for (size_t length = 0; length < size; length += length < 4096 ? 97 : 1999) {
        assert_ok(tl_file_write_atomic(path_of("cut.so"), whole, length));
        tl_status st = tl_registry_load(registry, path_of("cut.so"));
        // What lies behind the last segment is not needed to load it.
        if (st == TL_OK) break;
        assert_int_equal(st, TL_EINVAL);
        assert_non_null(strstr(tl_error_message(), length < 64 ? "no shared object" : "cut short"));
    }
    tl_free(whole);
}

/* In a folder that everybody may write to, the file could be exchanged after it was looked at. */
static void test_folders_of_everybody(void **state)
{
    (void)state;
    assert_int_equal(chmod(folder, 0777), 0);
    refuse("good.so", TL_EINVAL, "refused, because everybody may write to '");
    assert_int_equal(chmod(folder, 01777), 0); // where everybody keeps his own, as in /tmp
    assert_ok(tl_registry_load(registry, path_of("good.so")));
    assert_int_equal(chmod(folder, 0755), 0);
}

/* A plug-in finds libraries that lie beside it. */
static void test_libraries_beside_it(void **state)
{
    (void)state;
    const char *compiler = getenv("CC") ? getenv("CC") : "cc";
    char command[900];
    snprintf(command, sizeof command,
             "cd %s && echo 'int helped(void); int helped(void) { return 1; }' >help.c && "
             "%s -shared -fPIC -o libhelp.so help.c && "
             "%s -std=c17 -shared -fPIC -I'" TEST_DATA "/../include' -o beside.so '" TEST_DATA
             "/desc/plugins/good.c' -Wl,--no-as-needed -L. -lhelp -Wl,-rpath,'$ORIGIN'",
             folder, compiler, compiler);
    assert_int_equal(system(command), 0);
    assert_ok(tl_registry_load(registry, path_of("beside.so")));
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int nth = 1;; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_registry_load(registry, path_of("good.so"));
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) break;
        assert_int_equal(st, TL_ENOMEM);
        assert_false(is_loaded("good.so"));
        assert_int_equal(tl_registry_kind_count(registry), 0);
    }
    assert_true(is_loaded("good.so"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_load, begin, end),
        cmocka_unit_test_setup_teardown(test_load_twice, begin, end),
        cmocka_unit_test_setup_teardown(test_two_registries, begin, end),
        cmocka_unit_test_setup_teardown(test_no_plugins, begin, end),
        cmocka_unit_test_setup_teardown(test_modules_that_do_not_fit, begin, end),
        cmocka_unit_test_setup_teardown(test_who_may_write, begin, end),
        cmocka_unit_test_setup_teardown(test_who_owns_it, begin, end),
        cmocka_unit_test_setup_teardown(test_files_that_are_cut_short, begin, end),
        cmocka_unit_test_setup_teardown(test_folders_of_everybody, begin, end),
        cmocka_unit_test_setup_teardown(test_libraries_beside_it, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
