/* The cache of compiled code: every way an entry can be damaged or a folder unfit; its bounds. */
#include "cpu/jit_test.h"

/* --- damage ----------------------------------------------------------------------------------- */

static void flip(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;
    off_t at = lseek(fd, 0, SEEK_END) / 2;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void cut_short(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 100), 0);
}

static void make_empty(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}

static void take_away(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

/* A link to a file that is itself as it should be. */
static void make_link(const char *path)
{
    assert_int_equal(rename(path, "elsewhere"), 0);
    char target[512];
    snprintf(target, sizeof target, "%s/elsewhere", home);
    assert_int_equal(symlink(target, path), 0);
}

static void make_pipe(const char *path)
{
    take_away(path);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void let_group_write(const char *path)
{
    assert_int_equal(chmod(path, 0660), 0);
}

static void let_all_write_to_folder(const char *path)
{
    char folder[512];
    path_of(folder, path, "");
    assert_int_equal(chmod(folder, 0777), 0);
}

static void give_away(const char *path)
{
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
}

static void make_folder_a_file(const char *path)
{
    char folder[512], member[512];
    static const char *const names[] = {"k.c", "k.so", "k.sum"};
    for (int i = 0; i < 3; i++) {
        path_of(member, path, names[i]);
        take_away(member);
    }
    path_of(folder, path, "");
    folder[strlen(folder) - 1] = '\0';
    assert_int_equal(rmdir(folder), 0);
    put(folder, "no folder", 0600);
}

static void test_bad_entries_are_made_anew(void **state)
{
    (void)state;
    static const struct {
        const char *member;
        void (*spoil)(const char *path);
        const char *reason; /* NULL: nothing to tell */
    } cases[] = {
        {"k.so", flip, "k.so does not match its checksum"},
        {"k.so", cut_short, "k.so does not match its checksum"},
        {"k.so", make_empty, "k.so does not match its checksum"},
        {"k.so", take_away, "k.so cannot be opened"},
        {"k.so", make_link, "k.so cannot be opened"},
        {"k.so", make_pipe, "k.so is not a file"},
        {"k.so", let_group_write, "others may write to k.so"},
        {"k.so", let_all_write_to_folder, "others may write to its folder"},
        {"k.so", give_away, "k.so belongs to user 12345"},
        {"k.c", flip, "k.c is not the source"},
        {"k.c", make_empty, "k.c is not the source"},
        {"k.c", take_away, "k.c cannot be opened"},
        {"k.sum", flip, "does not match its checksum in k.sum"},
        {"k.sum", take_away, "k.sum cannot be opened"},
        {"k.sum", let_group_write, "others may write to k.sum"},
        {"k.so", make_folder_a_file, "it is no folder"},
    };
    char path[512], member[512];
    int64_t handle;
    tl_log_sink sink = {TL_LEVEL_WARNING, keep_log, NULL, NULL};
    assert_ok(tl_log_sink_add(&handle, &sink));
    tl_log_sink_remove(TL_LOG_STDERR);
    load_once("cache", path);
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        if (cases[i].spoil == give_away && geteuid() != 0) continue;
        path_of(member, path, cases[i].member);
        cases[i].spoil(member);
        logged[0] = '\0';
        if (load_once("cache", NULL)) fail_msg("case %d was loaded", (int)i);
        if (!strstr(logged, cases[i].reason)) fail_msg("case %d said: %s", (int)i, logged);
        assert_non_null(strstr(logged, "'add' is compiled again"));
        logged[0] = '\0';
        if (!load_once("cache", NULL)) fail_msg("case %d was not repaired", (int)i);
        assert_string_equal(logged, "");
        assert_int_equal(count_names("cache", ""), 1);
    }
    tl_log_sink_remove(handle);
}

/* An object that is as it was written, but made for another system. */
static void test_foreign_object_is_made_anew(void **state)
{
    (void)state;
    char path[512];
    setenv("TILTH_CC", "./fake", 1);
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    put_compiler("fake", "for a; do case $a in */k.so) echo no > \"$a\";; esac; done #   ");
    assert_int_equal(utimensat(AT_FDCWD, "fake", times, 0), 0);
    tl_jit *jit = jit_in("cache");
    tl_jit_unit unit = {.name = "add", .source = add_one};
    assert_fails(tl_jit_load(jit, &unit, 1), TL_EUNSUPPORTED, "'add' was compiled with");
    assert_non_null(strstr(tl_error_message(), "but cannot be loaded:"));
    assert_null(unit.handle);
    tl_jit_free(&jit);
    struct stat info;
    assert_int_equal(stat("fake", &info), 0);
    put_compiler("fake", "exec cc \"$@\"");
    assert_true(has_program("cc"));
    FILE *f =
        fopen("fake", "a"); // the same size and time: the same compiler, as far as can be seen
    for (off_t at = ftello(f); at < info.st_size; at++) fputc('\n', f);
    fclose(f);
    assert_int_equal(utimensat(AT_FDCWD, "fake", times, 0), 0);
    assert_false(load_once("cache", path));
    assert_true(load_once("cache", NULL));
    assert_int_equal(count_names("cache", ""), 1);
}

/* --- folders that will not do ----------------------------------------------------------------- */

static void refused(const char *folder, const char *text)
{
    tl_jit *jit;
    assert_fails(tl_jit_new(&jit, &(tl_jit_args){.cache_dir = folder}), TL_EUNSUPPORTED, text);
    assert_non_null(strstr(tl_error_message(), "TILTH_CACHE_DIR"));
    assert_null(jit);
}

/* tests/security/test_compiled_code.c has the folders that others could exchange. */
static void test_which_folders_will_do(void **state)
{
    (void)state;
    assert_int_equal(mkdir("open", 0700), 0);
    assert_int_equal(mkdir("open/inner", 0700), 0);
    assert_int_equal(chmod("open", 01777), 0); // as /tmp is: nobody can rename what is another's
    assert_false(load_once("open/inner", NULL));
    assert_true(load_once("open/../open/./inner//", NULL));
    assert_int_equal(chmod("open", 0755), 0);
    assert_false(load_once("open", NULL));
    put("file", "", 0600);
    refused("file", "Not a directory");
    refused("file/below", "'");
    assert_int_equal(symlink("open", "link"), 0);
    assert_true(load_once("link", NULL));
    assert_int_equal(symlink("round", "round"), 0);
    refused("round", "/round'");
}

static int use_read_only(void)
{
    tl_jit *jit;
    if (tl_jit_new(&jit, &(tl_jit_args){.cache_dir = "fixed"}) != TL_EUNSUPPORTED) return 1;
    if (!strstr(tl_error_message(), "cannot write to")) return 2;
    if (tl_jit_new(&jit, &(tl_jit_args){.cache_dir = "fixed/below"}) != TL_EUNSUPPORTED) return 3;
    return strstr(tl_error_message(), "make the folder") ? 0 : 4;
}

static void test_read_only_folder(void **state)
{
    (void)state;
    assert_int_equal(mkdir("fixed", 0500), 0);
    if (geteuid() != 0) {
        assert_int_equal(use_read_only(), 0);
        return;
    }
    assert_int_equal(chmod(home, 0755), 0);
    assert_int_equal(chown("fixed", 65534, 65534), 0);
    as_user(65534, use_read_only);
}

static void test_noexec_mount(void **state)
{
    (void)state;
    assert_int_equal(mkdir("mount", 0700), 0);
    if (mount("tilth", "mount", "tmpfs", MS_NOEXEC, "size=4m,mode=700") != 0) skip();
    tl_jit *jit;
    tl_status st = tl_jit_new(&jit, &(tl_jit_args){.cache_dir = "mount"});
    int unmounted = umount("mount");
    assert_int_equal(unmounted, 0);
    assert_int_equal(st, TL_EUNSUPPORTED);
    assert_non_null(strstr(tl_error_message(), "mounted noexec"));
}

static void test_full_disk(void **state)
{
    (void)state;
    assert_int_equal(mkdir("mount", 0700), 0);
    if (mount("tilth", "mount", "tmpfs", 0, "size=16k,mode=700") != 0) skip();
    tl_jit *jit = NULL;
    tl_jit_unit unit = {.name = "add", .source = add_one};
    tl_status made = tl_jit_new(&jit, &(tl_jit_args){.cache_dir = "mount"});
    tl_status st = made == TL_OK ? tl_jit_load(jit, &unit, 1) : made;
    int left = count_names("mount", "");
    tl_jit_free(&jit);
    int unmounted = umount("mount");
    assert_int_equal(unmounted, 0);
    assert_int_equal(made, TL_OK);
    assert_int_equal(st, TL_EUNSUPPORTED);
    assert_int_equal(left, 0);
}

static int use_without_home(void)
{
    tl_jit *jit;
    unsetenv("HOME");
    if (tl_jit_new(&jit, NULL) != TL_EUNSUPPORTED) return 1;
    return strstr(tl_error_message(), "no place for the cache") ? 0 : 2;
}

static void folder_is(const char *wanted)
{
    tl_jit *jit;
    tl_jit_stats stats;
    char path[600];
    snprintf(path, sizeof path, "%s/%s", home, wanted);
    assert_ok(tl_jit_new(&jit, NULL));
    assert_ok(tl_jit_read_stats(&stats, jit));
    assert_string_equal(stats.cache_dir, path);
    tl_jit_free(&jit);
}

static void test_which_folder(void **state)
{
    (void)state;
    char path[600];
    folder_is(".cache/tilth");
    setenv("XDG_CACHE_HOME", "relative", 1);
    folder_is(".cache/tilth");
    snprintf(path, sizeof path, "%s/xdg", home);
    setenv("XDG_CACHE_HOME", path, 1);
    unsetenv("HOME");
    folder_is("xdg/tilth");
    setenv("TILTH_CACHE_DIR", "", 1);
    folder_is("xdg/tilth");
    setenv("TILTH_CACHE_DIR", "mine//", 1);
    folder_is("mine");
    assert_false(load_once("it's a \"$x\" \\ %s folder", NULL));
    assert_true(load_once("it's a \"$x\" \\ %s folder", NULL));
    unsetenv("TILTH_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    if (geteuid() == 0) as_user(54321, use_without_home); // a user that no file knows
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void set_age(const char *object, time_t used)
{
    char path[512];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = used}};
    path_of(path, object, "k.sum");
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void test_least_recently_used_goes(void **state)
{
    (void)state;
    enum { UNITS = 5 };
    char sources[UNITS][80], paths[UNITS][512];
    tl_jit *jit = jit_in("cache");
    tl_jit_unit units[UNITS], loaded = {.name = "add", .source = add_one};
    tl_jit_stats stats;
    for (int i = 0; i < UNITS; i++) {
        snprintf(sources[i], sizeof sources[i], "int f(int x) { return x * %d; }", 3 + i);
        units[i] = (tl_jit_unit){.name = "unit", .source = sources[i]};
    }
    assert_ok(tl_jit_load(jit, units, UNITS - 1));
    for (int i = 0; i < UNITS - 1; i++) snprintf(paths[i], sizeof paths[i], "%s", units[i].path);
    assert_ok(tl_jit_read_stats(&stats, jit));
    tl_jit_free(&jit);
    size_t one = stats.bytes / (UNITS - 1);

    // Room for three. The oldest is in use, and the one after it is used now.
    for (int i = 0; i < UNITS - 1; i++) set_age(paths[i], 1000 * (i + 1));
    tl_jit_args args = {.cache_dir = "cache", .max_bytes = 3 * one + one / 2};
    assert_ok(tl_jit_new(&jit, &args));
    units[0].handle = units[1].handle = NULL;
    assert_ok(tl_jit_load(jit, units, 2));
    assert_true(units[0].cached && units[1].cached);
    tl_jit_unload(jit, &units[1], 1);
    set_age(paths[0], 1000);
    assert_ok(tl_jit_load(jit, &loaded, 1));
    assert_false(loaded.cached);
    assert_true(tl_file_exists(paths[0]) && tl_file_exists(paths[1])
                && tl_file_exists(loaded.path));
    assert_false(tl_file_exists(paths[2]) || tl_file_exists(paths[3]));
    assert_int_equal(call(&units[0], "f", 2), 6);
    tl_jit_free(&jit);

    // No room for anything: what is in use stays all the same.
    args.max_bytes = 1;
    assert_ok(tl_jit_new(&jit, &args));
    assert_ok(tl_jit_load(jit, &units[4], 1));
    assert_int_equal(count_names("cache", ""), 1);
    assert_int_equal(call(&units[4], "f", 2), 14);
    tl_jit_free(&jit);
}

static void test_clear_and_leftovers(void **state)
{
    (void)state;
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    tl_jit *jit = jit_in("cache");
    tl_jit_unit unit = {.name = "add", .source = add_one};
    assert_int_equal(mkdir("cache/.tmp-0123456789abcdef", 0700), 0);
    put("cache/.tmp-0123456789abcdef/k.c", "x", 0600);
    put("cache/.lock-0123456789abcdef", "", 0600);
    assert_int_equal(mkdir("cache/.tmp-new", 0700), 0); // somebody may be working there
    put("cache/notes", "mine", 0600);
    assert_int_equal(utimensat(AT_FDCWD, "cache/.tmp-0123456789abcdef", old, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, "cache/.lock-0123456789abcdef", old, 0), 0);
    assert_ok(tl_jit_load(jit, &unit, 1));
    assert_int_equal(count_names("cache", ""), 3);
    assert_ok(tl_jit_clear(jit));
    assert_int_equal(count_names("cache", ""), 2);
    assert_true(tl_file_exists("cache/notes") && tl_dir_exists("cache/.tmp-new"));
    assert_int_equal(call(&unit, "add", 1), 2); // loaded code stays
    unit.handle = NULL;
    assert_ok(tl_jit_load(jit, &unit, 1));
    assert_false(unit.cached);
    tl_jit_free(&jit);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        TEST(bad_entries_are_made_anew),
        TEST(foreign_object_is_made_anew),
        TEST(which_folders_will_do),
        TEST(read_only_folder),
        TEST(noexec_mount),
        TEST(full_disk),
        TEST(which_folder),
        TEST(least_recently_used_goes),
        TEST(clear_and_leftovers),
    };
#undef TEST
    keep_path();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
