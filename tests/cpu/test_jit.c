/* Compiling while running: cold and warm, flags, compilers that are missing or fail, many processes
 * and threads on one cache, no memory. needs: threads */
#include "cpu/jit_test.h"

/* --- use -------------------------------------------------------------------------------------- */

static void test_cold_and_warm(void **state)
{
    (void)state;
    tl_jit_unit units[] = {
        {.name = "add", .source = add_one},
        {.name = "two",
         .source = "static int d(int x) { return 2 * x; }\nint a(int x) { return d(x); }\n"
                   "int b(int x) { return a(x) + 1; }\n"},
        {.name = "fma",
         .source = "int f(int x) { float y = __builtin_fmaf((float)x, 3, 1);\n"
                   "    return (int)__builtin_floorf(y); }\n"},
    };
    tl_jit_stats stats;
    char path[512];
    for (int round = 0; round < 2; round++) {
        tl_jit *jit = jit_in("deep/cache");
        assert_ok(tl_jit_load(jit, units, 3));
        for (int i = 0; i < 3; i++) {
            assert_int_equal(units[i].cached, round);
            assert_true(units[i].seconds > 0 && units[i].seconds < 60);
        }
        assert_int_equal(call(&units[0], "add", 1), 2);
        assert_int_equal(call(&units[1], "a", 4), 8);
        assert_int_equal(call(&units[1], "b", 4), 9);
        assert_int_equal(call(&units[2], "f", 5), 16);
        assert_ok(tl_jit_read_stats(&stats, jit));
        assert_int_equal(stats.entries, 3);
        assert_int_equal(stats.hits, round ? 3 : 0);
        assert_int_equal(stats.misses, round ? 0 : 3);
        assert_true(stats.bytes > 500 && (round || stats.compile_seconds > 0));
        snprintf(path, sizeof path, "%s", units[0].path);
        tl_jit_free(&jit);
        for (int i = 0; i < 3; i++) units[i].handle = NULL;
    }
    assert_int_equal(mode_of("deep/cache"), 0700);
    assert_int_equal(count_names("deep/cache", ""), 3); // and no locks, no temporary folders
    assert_int_equal(mode_of(path), 0600);
    char *text, source[512];
    path_of(source, path, "k.c");
    assert_ok(tl_file_read(&text, NULL, source, 10000));
    assert_string_equal(text, add_one);
    tl_free(text);
}

static void test_warm_load_is_quick(void **state)
{
    (void)state;
    double best = 1e9;
    assert_false(load_once("cache", NULL));
    for (int i = 0; i < 20; i++) {
        int64_t begin = tl_clock_ns();
        assert_true(load_once("cache", NULL));
        double took = (double)(tl_clock_ns() - begin) * 1e-9;
        if (took < best) best = took;
    }
    printf("    find the compiler, open the cache, load one unit, free: %.3f ms\n", best * 1e3);
    assert_true(best < 0.05);
}

static void test_symbols_and_unload(void **state)
{
    (void)state;
    tl_jit *jit = jit_in("cache");
    tl_jit_unit units[] = {{.name = "one", .source = add_one}, {.name = "same", .source = add_one}};
    assert_null(tl_jit_symbol(&units[0], "add"));
    assert_non_null(strstr(tl_error_message(), "is not loaded"));
    assert_ok(tl_jit_load(jit, units, 2));
    assert_true(!units[0].cached && units[1].cached); // compiled once
    assert_null(tl_jit_symbol(&units[0], "nothing"));
    assert_int_equal(tl_error_code(), TL_ENOTFOUND);
    assert_non_null(strstr(tl_error_message(), "'one' does not export a function 'nothing'"));
    assert_null(tl_jit_symbol(&units[0], "memcpy")); // not its own
    tl_jit_unload(jit, &units[0], 1);
    tl_jit_unload(jit, &units[0], 1);
    assert_null(units[0].handle);
    assert_int_equal(call(&units[1], "add", 1), 2);
    assert_ok(tl_jit_load(jit, units, 1));
    assert_true(units[0].cached);
    assert_ok(tl_jit_load(jit, NULL, 0));
    tl_jit_free(&jit);
    tl_jit_free(&jit);
}

/* A function of the same name that all can see is not called instead. */
static void test_calls_stay_inside(void **state)
{
    (void)state;
    tl_jit *jit = jit_in("cache");
    tl_jit_unit other = {.name = "other", .source = "int helper(int x) { return -x; }\n"};
    tl_jit_unit unit = {.name = "inside",
                        .source = "__attribute__((noinline, noclone)) int helper(int x)\n"
                                  "{ return 10 * x; }\n"
                                  "int f(int x) { return helper(x); }\n"
                                  "int (*pointer)(int) = helper;\n"
                                  "int g(int x) { return pointer(x); }\n"};
    assert_ok(tl_jit_load(jit, &other, 1));
    void *shown = dlopen(other.path, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    assert_non_null(shown);
    assert_ok(tl_jit_load(jit, &unit, 1));
    assert_int_equal(call(&other, "helper", 7), -7);
    assert_int_equal(call(&unit, "f", 7), 70);
    assert_int_equal(call(&unit, "g", 7), 70);
    dlclose(shown);
    tl_jit_free(&jit);
}

static void test_many_units_side_by_side(void **state)
{
    (void)state;
    enum { UNITS = 12 };
    char sources[UNITS][80];
    tl_jit_unit units[UNITS] = {0};
    tl_jit *jit;
    assert_ok(tl_jit_new(&jit, &(tl_jit_args){.cache_dir = "cache", .threads = 4}));
    for (int i = 0; i < UNITS; i++) {
        snprintf(sources[i], sizeof sources[i], "int f(int x) { return x * %d; }", i % 10);
        units[i] = (tl_jit_unit){.name = "unit", .source = sources[i]};
    }
    assert_ok(tl_jit_load(jit, units, UNITS));
    for (int i = 0; i < UNITS; i++) assert_int_equal(call(&units[i], "f", 7), 7 * (i % 10));
    assert_int_equal(count_names("cache", ""), 10);
    tl_jit_free(&jit);
}

static void test_flags_follow_the_cpu(void **state)
{
    (void)state;
    tl_jit *jit = jit_in("cache");
    tl_jit_stats stats;
    assert_ok(tl_jit_read_stats(&stats, jit));
    assert_null(strstr(stats.flags, "native"));
    assert_null(strstr(stats.flags, "sve"));
    assert_non_null(strstr(stats.flags, "-ffp-contract=off"));
    tl_jit_free(&jit);
    setenv("TILTH_ISA", "generic", 1);
    jit = jit_in("cache");
    assert_ok(tl_jit_read_stats(&stats, jit));
#if defined(__x86_64__)
    assert_null(strstr(stats.flags, "avx"));
#elif defined(__aarch64__)
    assert_non_null(strstr(stats.flags, "-march=armv8-a"));
#endif
    tl_jit_free(&jit);
    setenv("TILTH_ISA", "z80", 1);
    assert_fails(tl_jit_new(&jit, NULL), TL_EINVAL, "TILTH_ISA: this CPU has no 'z80'");
    assert_null(jit);
}

static void test_each_compiler_has_its_entries(void **state)
{
    (void)state;
    static const char *const names[] = {"gcc", "clang"};
    if (!has_program("gcc") || !has_program("clang")) skip();
    for (int round = 0; round < 4; round++) {
        setenv("TILTH_CC", names[round % 2], 1);
        assert_int_equal(load_once("cache", NULL), round >= 2);
        assert_int_equal(count_names("cache", ""), round ? 2 : 1);
    }
    // The same program under another name, and with another time, is another one.
    setenv("TILTH_CC", "./mine", 1);
    put_compiler("mine", "exec gcc \"$@\"");
    assert_false(load_once("cache", NULL));
    assert_true(load_once("cache", NULL));
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, "mine", times, 0), 0);
    assert_false(load_once("cache", NULL));
}

/* --- compilers that will not do --------------------------------------------------------------- */

static void test_no_compiler(void **state)
{
    (void)state;
    tl_jit *jit;
    tl_jit_args args = {.cache_dir = "cache"};
    setenv("PATH", home, 1);
    assert_fails(tl_jit_new(&jit, &args), TL_EUNSUPPORTED,
                 "neither cc nor gcc nor clang is in PATH");
    put("cc", "not executable", 0644);
    assert_int_equal(mkdir("gcc", 0755), 0);
    assert_fails(tl_jit_new(&jit, &args), TL_EUNSUPPORTED, "TILTH_CC");
    setenv("PATH", "", 1);
    assert_fails(tl_jit_new(&jit, &args), TL_EUNSUPPORTED, "no C compiler");
    setenv("PATH", old_path, 1);
    setenv("TILTH_CC", "/no/such", 1);
    assert_fails(tl_jit_new(&jit, &args), TL_EUNSUPPORTED, "TILTH_CC: '/no/such' is no program");
    setenv("TILTH_CC", "no-such-cc", 1);
    assert_fails(tl_jit_new(&jit, &args), TL_EUNSUPPORTED, "can be run from PATH");
    args.compiler = "./cc";
    assert_fails(tl_jit_new(&jit, &args), TL_EUNSUPPORTED, "'./cc' is no program");
    assert_null(jit);
    assert_false(tl_file_exists("cache"));
}

static void fails_with(const char *compiler, const char *source, const char *text)
{
    tl_jit *jit;
    tl_jit_unit units[] = {{.name = "fine", .source = add_one},
                           {.name = "the unit", .source = source}};
    assert_ok(tl_jit_new(&jit, &(tl_jit_args){.cache_dir = "cache", .compiler = compiler}));
    assert_fails(tl_jit_load(jit, units, 2), TL_EUNSUPPORTED, text);
    assert_null(strstr(tl_error_message(), ".tmp-"));
    assert_true(!units[0].handle && !units[1].handle && !units[0].path);
    assert_int_equal(count_names("cache", "."), 0);
    tl_jit_free(&jit);
}

static void test_failing_compilers(void **state)
{
    (void)state;
    fails_with(NULL, "int f(void) { return y; }\nint g(void) { return z; }",
               "'the unit' cannot be compiled with ");
    assert_non_null(strstr(tl_error_message(), ": k.c:1:"));
    assert_non_null(strstr(tl_error_message(), "error: "));
    assert_non_null(strstr(tl_error_message(), "(TILTH_CC names another compiler)"));
    assert_null(strstr(tl_error_message(), "k.c:2:"));
    fails_with(NULL, "void nowhere_to_be_found(void);\nvoid f(void) { nowhere_to_be_found(); }",
               "nowhere_to_be_found");
    put_compiler("silent", "exit 3");
    fails_with("./silent", "", "it left with status 3 and said nothing");
    put_compiler("killed", "kill -9 $$");
    fails_with("./killed", "", "it was ended by signal 9");
    put_compiler("idle", "exit 0");
    fails_with("./idle", "", "it left with status 0 and said nothing");
    put_compiler("chatty", "echo; echo one >&2; echo two; exit 1");
    fails_with("./chatty", "", ": one (");
    put_compiler("linker", "echo 'ld: no room'; echo 'collect2: error: ld returned 1'; exit 1");
    fails_with("./linker", "", ": ld: no room (");
    put("torn", "#!/no/such/interpreter\n", 0755);
    fails_with("./torn", "", "cannot start the C compiler");
    put_compiler("forks", "sleep 3 & exec cc \"$@\""); // a server that stays is not waited for
    tl_jit *jit;
    tl_jit_unit unit = {.name = "add", .source = add_one};
    assert_ok(tl_jit_new(&jit, &(tl_jit_args){.cache_dir = "cache", .compiler = "./forks"}));
    assert_ok(tl_jit_load(jit, &unit, 1));
    assert_true(unit.seconds < 2.5);
    tl_jit_free(&jit);
}

/* What surrounds the process makes no difference. */
static void test_surroundings(void **state)
{
    (void)state;
    mode_t mask = umask(0);
    setenv("DEPENDENCIES_OUTPUT", "dependencies", 1);
    setenv("TMPDIR", "/no/such/folder", 1);
    signal(SIGCHLD, SIG_IGN);
    setenv("TILTH_CC", "./spy", 1);
    // one in front of the compiler that keeps files of its own would put them here
    put_compiler("spy", "echo \"$TMPDIR\" > spied; CCACHE_DISABLE=1 exec cc \"$@\"");
    assert_int_equal(mkdir("cache", 0700), 0);
    bool cold = load_once("cache", NULL), warm = load_once("cache", NULL);
    signal(SIGCHLD, SIG_DFL);
    unsetenv("DEPENDENCIES_OUTPUT");
    unsetenv("TMPDIR");
    umask(mask);
    assert_true(!cold && warm);
    assert_int_equal(count_names(".", ""), 3); // the cache, the spy and its word
    char *spied;
    assert_ok(tl_file_read(&spied, NULL, "spied", 1000));
    assert_non_null(strstr(spied, "/cache/.tmp-"));
    tl_free(spied);
}

/* --- company ---------------------------------------------------------------------------------- */

enum { CROWD = 8, CROWD_UNITS = 4 };

static tl_status load_crowd_units(const char *compiler)
{
    char sources[CROWD_UNITS][80];
    tl_jit_unit units[CROWD_UNITS];
    tl_jit *jit;
    TL_TRY(
        tl_jit_new(&jit, &(tl_jit_args){.cache_dir = "cache", .compiler = compiler, .threads = 2}));
    for (int i = 0; i < CROWD_UNITS; i++) {
        snprintf(sources[i], sizeof sources[i], "int f(int x) { return x + %d; }", i);
        units[i] = (tl_jit_unit){.name = "unit", .source = sources[i]};
    }
    tl_status st = tl_jit_load(jit, units, CROWD_UNITS);
    for (int i = 0; i < CROWD_UNITS && st == TL_OK; i++) {
        int_fn *f = (int_fn *)tl_jit_symbol(&units[i], "f");
        if (!f || f(10) != 10 + i) st = TL_FAIL(TL_EINTERNAL, "unit %d is wrong", i);
    }
    tl_jit_free(&jit);
    return st;
}

static void test_eight_processes(void **state)
{
    (void)state;
    pid_t children[CROWD];
    int gate[2];
    char byte, *runs;
    put_compiler("counting", "echo run >> runs; exec cc \"$@\"");
    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < CROWD; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i]) continue;
        close(gate[1]);
        if (read(gate[0], &byte, 1) != 0) _exit(2); // all go when the other end closes
        tl_status st = load_crowd_units("./counting");
        if (st != TL_OK) fprintf(stderr, "process %d: %s\n", i, tl_error_message());
        _exit(st == TL_OK ? 0 : 1);
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < CROWD; i++) wait_for(children[i]);
    assert_int_equal(count_names("cache", ""), CROWD_UNITS);
    assert_ok(tl_file_read(&runs, NULL, "runs", 10000));
    assert_int_equal(strlen(runs),
                     CROWD_UNITS * strlen("run\n")); // nobody compiled what another did
    tl_free(runs);
}

/* The loader's own lock is out of ThreadSanitizer's sight. */
const char *__tsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void)
{
    return "race:_dl_close_worker\nrace:_dl_open_worker\nrace:_dl_map_object\n";
}

static void *load_in_thread(void *payload)
{
    return load_crowd_units(payload) == TL_OK ? NULL : payload;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    char compiler[] = "cc";
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_in_thread, compiler), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(count_names("cache", ""), CROWD_UNITS);
}

/* Others empty the cache all the time: what is loaded works, nothing is ever half there. */
static void test_cache_that_is_cleared_meanwhile(void **state)
{
    (void)state;
    load_once("cache", NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (tl_jit *jit = jit_in("cache");; tl_sleep_ns(2000000))
            if (tl_jit_clear(jit) != TL_OK) _exit(1);
    }
    char why[1024] = "";
    for (int64_t begin = tl_clock_ns(); !why[0] && tl_clock_ns() - begin < 1000000000;) {
        tl_status st = load_crowd_units(NULL);
        // It may happen three times in a row that an entry goes before it is loaded.
        if (st != TL_OK && !strstr(tl_error_message(), "is removed or damaged"))
            snprintf(why, sizeof why, "%s", tl_error_message());
    }
    int ended;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended)); // it had no trouble either
    assert_string_equal(why, "");
    assert_ok(load_crowd_units(NULL));
}

/* --- no memory -------------------------------------------------------------------------------- */

static tl_status load_and_measure(void)
{
    tl_jit *jit = NULL;
    tl_jit_unit unit = {.name = "add", .source = add_one};
    tl_jit_stats stats;
    tl_status st;
    TL_TRY_DONE(st, tl_jit_new(&jit, &(tl_jit_args){.cache_dir = "deep/cache", .max_bytes = 1}));
    TL_TRY_DONE(st, tl_jit_load(jit, &unit, 1));
    if (!tl_jit_symbol(&unit, "add")) st = TL_EINTERNAL;
    if (st == TL_OK) st = tl_jit_read_stats(&stats, jit);
done:
    if (st != TL_OK && unit.handle && unit.path) st = TL_OK; // the counting failed, not the load
    tl_jit_free(&jit);
    return st;
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int warm = 0; warm < 2; warm++) {
        int64_t failures = 0;
        for (int64_t nth = 1;; nth++) {
            int64_t before = tl_alloc_calls();
            if (!warm && tl_dir_exists("deep"))
                assert_int_equal(nftw("deep", remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
            tl_alloc_fail_at(nth, 1);
            tl_status st = load_and_measure();
            tl_alloc_fail_at(0, 0);
            if (tl_dir_exists("deep/cache")) {
                assert_int_equal(count_names("deep/cache", ".tmp"), 0);
                assert_int_equal(count_names("deep/cache", ".lock"), 0);
            }
            if (tl_alloc_calls() - before < nth) {
                assert_ok(st);
                break;
            }
            if (st != TL_OK && st != TL_ENOMEM) fail_msg("%d: %s", (int)nth, tl_error_message());
            failures += st != TL_OK;
        }
        assert_true(failures >= (warm ? 8 : 15));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        TEST(cold_and_warm),
        TEST(warm_load_is_quick),
        TEST(symbols_and_unload),
        TEST(calls_stay_inside),
        TEST(many_units_side_by_side),
        TEST(flags_follow_the_cpu),
        TEST(each_compiler_has_its_entries),
        TEST(no_compiler),
        TEST(failing_compilers),
        TEST(surroundings),
        TEST(eight_processes),
        TEST(threads),
        TEST(cache_that_is_cleared_meanwhile),
        TEST(no_memory),
    };
#undef TEST
    keep_path();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
