/* The checkpoints of a run: boundaries, retention, the state file, damage, full disks, kills, and
 * saving in the background. needs: threads. TILTH_KILLS says how often a process is killed while it
 * saves (30 when it is not set). */
#include "io/folder.h"
#include "io/logged.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/io/checkpoint/manager.h>

#include "io/inner/checkpoint_manager.h"

static tl_engine *engine;
static tl_state *kept;
static tl_tensor *weights;
static int64_t step;
static double now;

static double tell_time(void)
{
    return now;
}

static int setup(void **state)
{
    engine = open_engine();
    weights = tensor_of(engine, TL_F32, TL_SHAPE(3), (const double[]){1, 2, 3});
    if (tl_state_new(&kept) != TL_OK || tl_state_bind_int(kept, "global_step", &step) != TL_OK
        || tl_state_put(kept, "model/w", weights) != TL_OK)
        return -1;
    step = 0;
    now = 1700000000.5;
    tli_checkpoint_clock = tell_time;
    listen_to_log();
    return make_folder(state);
}

static int teardown(void **state)
{
    stop_listening();
    tl_tensor_free(&weights);
    tl_state_free(&kept);
    close_engine(&engine);
    return remove_folder(state);
}

static tl_checkpoint_manager_args plain_args(void)
{
    return (tl_checkpoint_manager_args){
        .directory = folder, .state = kept, .step = &step, .interval = 5};
}

static tl_checkpoint_manager *manager_of(const tl_checkpoint_manager_args *args)
{
    tl_checkpoint_manager *m;
    assert_ok(tl_checkpoint_manager_new(&m, args));
    return m;
}

/* Saves and tells the file's name, "" when nothing was due. */
static const char *save(tl_checkpoint_manager *m, bool check)
{
    const char *path;
    assert_ok(tl_checkpoint_manager_save(m, check, &path));
    return path ? tl_path_basename(path) : "";
}

/* The numbers of the checkpoints that lie in the folder, "5 10". */
static int64_t numbers[64];
static int number_count;
static void note_number(const char *name)
{
    long long number;
    int end = 0;
    if (sscanf(name, "ckpt-%lld.safetensors%n", &number, &end) == 1 && end && !name[end])
        numbers[number_count++] = number;
}
static int by_size(const void *a, const void *b)
{
    return *(const int64_t *)a < *(const int64_t *)b ? -1 : 1;
}
static const char *files(void)
{
    static char text[512];
    number_count = 0;
    each_file(note_number);
    qsort(numbers, (size_t)number_count, sizeof *numbers, by_size);
    text[0] = '\0';
    for (int i = 0; i < number_count; i++)
        sprintf(text + strlen(text), "%s%lld", i ? " " : "", (long long)numbers[i]);
    return text;
}

/* The numbers of those in the list, "5 10". */
static const char *steps_in(const tl_path_list *list)
{
    static char text[512];
    text[0] = '\0';
    for (int64_t i = 0; i < list->count; i++)
        sprintf(text + strlen(text), "%s%d", i ? " " : "", atoi(strrchr(list->items[i], '-') + 1));
    return text;
}

static const char *listed(tl_checkpoint_manager *m)
{
    tl_arena *arena;
    tl_path_list list;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_checkpoint_manager_list(&list, m, arena));
    const char *text = steps_in(&list);
    tl_arena_free(&arena);
    return text;
}

static void assert_state_file(const char *expected)
{
    size_t size;
    char *text = bytes_of(in_folder("checkpoint"), &size);
    if (strcmp(text, expected) != 0)
        fail_msg("the state file is\n%s\nand should be\n%s", text, expected);
    tl_free(text);
}

/* --- when ------------------------------------------------------------------------------------- */

/* Model Garden's own vectors: interval 5, loops of 5, 20 steps: 4 checkpoints, and the last is
 * restored. */
static void test_vectors(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    tl_checkpoint_manager *m = manager_of(&args);
    while (step < 20) {
        step += 5;
        assert_string_not_equal(save(m, true), "");
    }
    assert_string_equal(save(m, false), ""); // never twice at one step
    assert_string_equal(files(), "5 10 15 20");
    assert_string_equal(listed(m), "5 10 15 20");
    step = 3;
    const char *path;
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, &path));
    assert_string_equal(tl_path_basename(path), "ckpt-20.safetensors");
    assert_int_equal(step, 20);
    assert_string_equal(save(m, false), "");
    tl_checkpoint_manager_free(&m);
    assert_null(m);
}

/* A manager without an interval never saves, and makes no folder. */
static void test_no_interval(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    args.directory = in_folder("sub");
    args.interval = 0;
    tl_checkpoint_manager *m = manager_of(&args);
    step = 10;
    assert_string_equal(save(m, true), "");
    assert_string_equal(save(m, false), "");
    assert_int_equal(tl_checkpoint_manager_interval(m), 0);
    assert_string_equal(tl_checkpoint_manager_directory(m), args.directory);
    assert_null(tl_checkpoint_manager_latest(m));
    assert_int_equal(each_file(NULL), 0);
    tl_checkpoint_manager_free(&m);
}

/* Boundaries are absolute: wherever a process starts, multiples are reached or passed. */
static void test_boundaries(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    args.interval = 1000;
    tl_checkpoint_manager *m = manager_of(&args);
    static const struct {
        int64_t step;
        bool due;
    } calls[] = {{0, false},    {100, false}, {999, false},  {1000, true}, {1000, false},
                 {1999, false}, {2300, true}, {2999, false}, {5000, true}, {5001, false}};
    for (int64_t i = 0; i < TL_COUNT(calls); i++) {
        step = calls[i].step;
        bool saved = *save(m, true) != '\0';
        if (saved != calls[i].due)
            fail_msg("step %lld: %s", (long long)step, saved ? "saved" : "not saved");
    }
    assert_string_equal(save(m, false), "ckpt-5001.safetensors");
    tl_checkpoint_manager_free(&m);
    // A restored run counts from where it was.
    m = manager_of(&args);
    step = 0;
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, NULL));
    assert_int_equal(step, 5001);
    step = 5999;
    assert_string_equal(save(m, true), "");
    step = 6001;
    assert_string_equal(save(m, true), "ckpt-6001.safetensors");
    // Steps that went back on their own: only real multiples are due.
    step = 2500;
    assert_string_equal(save(m, true), "");
    step = 3000;
    assert_string_equal(save(m, true), "ckpt-3000.safetensors");
    step = 0;
    assert_string_equal(save(m, true), "");
    assert_string_equal(save(m, false), "ckpt-0.safetensors");
    tl_checkpoint_manager_free(&m);
}

/* A step that was restored by name is not saved by this manager yet, unless it is its latest. */
static void test_restoring_by_name(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    tl_checkpoint_manager *m = manager_of(&args);
    for (step = 5; step <= 20; step += 5) save(m, true);
    assert_ok(tl_checkpoint_manager_restore(m, in_folder("ckpt-10")));
    assert_int_equal(step, 10);
    step = 14;
    assert_string_equal(save(m, true), ""); // counted from 10
    step = 15;
    assert_string_equal(save(m, true), "ckpt-15.safetensors");
    assert_string_equal(listed(m), "5 10 20 15"); // written again: it is the newest
    assert_string_equal(tl_path_basename(tl_checkpoint_manager_latest(m)), "ckpt-15.safetensors");
    assert_ok(tl_checkpoint_manager_restore(m, in_folder("ckpt-20.safetensors")));
    assert_int_equal(step, 20);
    assert_ok(tl_checkpoint_manager_restore(m, folder)); // its latest
    assert_int_equal(step, 15);
    assert_string_equal(save(m, false), "");
    assert_fails(tl_checkpoint_manager_restore(m, in_folder("ckpt-99")), TL_ENOTFOUND,
                 "there is no checkpoint");
    tl_checkpoint_manager_free(&m);
}

static tl_status count_init(void *payload)
{
    ++*(int *)payload;
    return *(int *)payload > 1 ? TL_FAIL(TL_EINVAL, "init was called again") : TL_OK;
}

static void test_initializing(void **state)
{
    (void)state;
    int calls = 0;
    tl_checkpoint_manager_args args = plain_args();
    args.init = count_init;
    args.payload = &calls;
    tl_checkpoint_manager *m = manager_of(&args);
    const char *path = "x";
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, &path));
    assert_null(path);
    assert_int_equal(calls, 1);
    assert_fails(tl_checkpoint_manager_restore_or_initialize(m, NULL), TL_EINVAL,
                 "init was called again");
    step = 5;
    save(m, true);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, &path));
    assert_non_null(path);
    assert_int_equal(calls, 2);
    tl_checkpoint_manager_free(&m);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    tl_checkpoint_manager *m;
    tl_checkpoint_manager_args args = plain_args();
    args.max_to_keep = (tl_opt_int){true, 0};
    assert_fails(tl_checkpoint_manager_new(&m, &args), TL_EINVAL, "max_to_keep is 0");
    args = plain_args();
    args.interval = -1;
    assert_fails(tl_checkpoint_manager_new(&m, &args), TL_EINVAL, "interval");
    args = plain_args();
    args.name = "a/b";
    assert_fails(tl_checkpoint_manager_new(&m, &args), TL_EINVAL, "'a/b'");
    args = plain_args();
    args.directory = "";
    assert_fails(tl_checkpoint_manager_new(&m, &args), TL_EINVAL, "directory");
    args = plain_args();
    args.keep_every_n_hours = NAN;
    assert_fails(tl_checkpoint_manager_new(&m, &args), TL_EINVAL, "keep_every_n_hours");
    assert_null(m);
}

/* --- which ------------------------------------------------------------------------------------ */

static void test_retention(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    args.max_to_keep = (tl_opt_int){true, 3};
    tl_checkpoint_manager *m = manager_of(&args);
    for (step = 5; step <= 25; step += 5) save(m, true);
    assert_string_equal(files(), "15 20 25");
    tl_checkpoint_manager_free(&m);
    // The next process goes on, with its own number to keep.
    args.max_to_keep.value = 2;
    m = manager_of(&args);
    assert_string_equal(listed(m), "15 20 25");
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, NULL));
    step = 30;
    save(m, true);
    assert_string_equal(files(), "25 30");
    tl_checkpoint_manager_free(&m);
    args.max_to_keep.set = false;
    m = manager_of(&args);
    for (step = 35; step <= 50; step += 5) save(m, true);
    assert_string_equal(files(), "25 30 35 40 45 50");
    tl_checkpoint_manager_free(&m);
}

/* Every two hours one stays for good, is listed no more, and that goes on after a restart. */
static void test_keep_every_n_hours(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    args.max_to_keep = (tl_opt_int){true, 2};
    args.keep_every_n_hours = 2;
    tl_checkpoint_manager *m = manager_of(&args);
    for (step = 5; step <= 60; step += 5) { // one every 40 minutes
        save(m, true);
        now += 40 * 60;
        if (step != 30) continue;
        tl_checkpoint_manager_free(&m);
        m = manager_of(&args);
    }
    // 20 came two hours after the beginning, 35 two hours after 20, ...
    assert_string_equal(files(), "20 35 50 55 60");
    assert_string_equal(listed(m), "55 60");
    tl_checkpoint_manager_free(&m);
}

static void test_state_file(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    args.max_to_keep = (tl_opt_int){true, 2};
    tl_checkpoint_manager *m = manager_of(&args);
    for (step = 5; step <= 15; step += 5, now += 100) save(m, true);
    assert_state_file("model_checkpoint_path: \"ckpt-15\"\n"
                      "all_model_checkpoint_paths: \"ckpt-10\"\n"
                      "all_model_checkpoint_paths: \"ckpt-15\"\n"
                      "all_model_checkpoint_timestamps: 1700000100.5\n"
                      "all_model_checkpoint_timestamps: 1700000200.5\n"
                      "last_preserved_timestamp: 1699999999.5\n");
    tl_checkpoint_manager_free(&m);
}

static void put_state_file(const char *text)
{
    put_bytes(in_folder("checkpoint"), text, strlen(text));
}

/* As other programs write them, and as people do. */
static void test_reading_state_files(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    tl_arena *arena;
    const char *path;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_checkpoint_latest(&path, arena, folder));
    assert_null(path);
    tl_checkpoint_manager *m = manager_of(&args);
    for (step = 5; step <= 15; step += 5) save(m, true);
    tl_checkpoint_manager_free(&m);
    // What is not later than the last one kept for good is not managed; the latest is the latest
    // all the same.
    put_state_file(
        "model_checkpoint_path: 'ckpt-\\065' # five\n\n all_model_checkpoint_paths:\"ckpt-5\";"
        "all_model_checkpoint_paths: \"ckpt-\\x31\\x30\" all_model_checkpoint_timestamps: 100 "
        "all_model_checkpoint_timestamps: 2e2 last_preserved_timestamp: 100.0");
    m = manager_of(&args);
    assert_string_equal(listed(m), "10");
    assert_string_equal(tl_path_basename(tl_checkpoint_manager_latest(m)), "ckpt-5.safetensors");
    tl_checkpoint_manager_free(&m);
    assert_ok(tl_checkpoint_latest(&path, arena, folder));
    assert_string_equal(path, in_folder("ckpt-5.safetensors"));
    // The future is now.
    put_state_file("model_checkpoint_path: \"ckpt-5\" all_model_checkpoint_paths: \"ckpt-5\" "
                   "all_model_checkpoint_timestamps: 9e9 last_preserved_timestamp: 8e9");
    m = manager_of(&args);
    has_logged("the clock is");
    tl_checkpoint_manager_free(&m);
    // What is not understood is told, and what lies there is taken.
    static const char *const broken[] = {"model_checkpoint_path: \"ckpt-5",
                                         "model_checkpoint_path \"a\"",
                                         "x: 1",
                                         "\xff\xfe",
                                         "model_checkpoint_path: \"a\\q\"",
                                         "last_preserved_timestamp: x",
                                         "",
                                         "model_checkpoint_path: 5"};
    for (int64_t i = 0; i < TL_COUNT(broken); i++) {
        put_state_file(broken[i]);
        logged[0] = '\0';
        m = manager_of(&args);
        has_logged("taking the checkpoints that lie in");
        assert_string_equal(listed(m), "5 10 15");
        tl_checkpoint_manager_free(&m);
        assert_ok(tl_checkpoint_latest(&path, arena, folder));
        assert_null(path);
    }
    put_state_file("model_checkpoint_path: \"ckpt-7\""); // not there (yet)
    assert_ok(tl_checkpoint_latest(&path, arena, folder));
    assert_null(path);
    assert_fails(tl_checkpoint_resolve(&path, arena, folder), TL_ENOTFOUND,
                 "the latest checkpoint that the folder tells of, is not there");
    assert_ok(tl_checkpoint_resolve(&path, arena, in_folder("ckpt-10")));
    assert_string_equal(path, in_folder("ckpt-10.safetensors"));
    tl_arena_free(&arena);
}

/* --- what goes wrong -------------------------------------------------------------------------- */

static void damage(const char *name)
{
    size_t size;
    char *data = bytes_of(in_folder(name), &size);
    data[size - 2] = (char)(data[size - 2] ^ 4);
    put_bytes(in_folder(name), data, size);
    tl_free(data);
}

static void test_damage(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    tl_checkpoint_manager *m = manager_of(&args);
    for (step = 5; step <= 25; step += 5, now += 1) save(m, true);
    tl_checkpoint_manager_free(&m);
    damage("ckpt-25.safetensors");
    remove_in_folder("ckpt-20.safetensors");
    m = manager_of(&args);
    const char *path;
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, &path));
    assert_int_equal(step, 15);
    assert_string_equal(tl_path_basename(path), "ckpt-15.safetensors");
    has_logged("error: the checkpoint 'ckpt-25' cannot be used: ");
    has_logged("is damaged: the checksum of its");
    has_logged("error: the checkpoint 'ckpt-20' cannot be used: ");
    has_logged("ckpt-25.safetensors.damaged'");
    has_logged("going on from");
    assert_true(is_there("ckpt-25.safetensors.damaged"));
    assert_string_equal(files(), "5 10 15");
    assert_string_equal(listed(m), "5 10 15");
    tl_checkpoint_manager_free(&m);
    m = manager_of(&args); // and so it stays
    assert_string_equal(tl_path_basename(tl_checkpoint_manager_latest(m)), "ckpt-15.safetensors");
    // When all are damaged nothing is restored, nothing started, and nothing moved.
    damage("ckpt-5.safetensors");
    damage("ckpt-10.safetensors");
    damage("ckpt-15.safetensors");
    step = 3;
    assert_fails(tl_checkpoint_manager_restore_or_initialize(m, &path), TL_EINVAL,
                 "no checkpoint in");
    assert_int_equal(step, 3);
    assert_string_equal(files(), "5 10 15");
    tl_checkpoint_manager_free(&m);
}

/* A state that has become another one is the user's mistake, not damage. */
static void test_misfit(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    tl_checkpoint_manager *m = manager_of(&args);
    for (step = 5; step <= 10; step += 5) save(m, true);
    int64_t more = 0;
    assert_ok(tl_state_bind_int(kept, "more", &more));
    assert_fails(tl_checkpoint_manager_restore_or_initialize(m, NULL), TL_EINVAL, "1 missing");
    assert_string_equal(files(), "5 10");
    tl_checkpoint_manager_free(&m);
}

static void test_numerics(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    char name[] = "neon";
    args.numerics = name;
    tl_checkpoint_manager *m = manager_of(&args);
    memcpy(name, "none", 4); // the manager has its copy
    step = 5;
    save(m, true);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, NULL));
    assert_string_equal(logged, "");
    tl_checkpoint_manager_free(&m);
    args.numerics = "avx2";
    m = manager_of(&args);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, NULL));
    has_logged("was computed with 'neon', and goes on with 'avx2'");
    tl_checkpoint_manager_free(&m);
}

static void test_leftovers(void **state)
{
    (void)state;
    static const char *const ours[] = {".ckpt-5.safetensors.0123456789abcdef.tmp",
                                       ".checkpoint.00000000000000ff.tmp"};
    static const char *const others[] = {
        ".ckpt-5.safetensors.0123456789abcde.tmp",  ".ckpt-x.safetensors.0123456789abcdef.tmp",
        ".ckpt-5.txt.0123456789abcdef.tmp",         ".checkpoint.0123456789ABCDEF.tmp",
        ".best-5.safetensors.0123456789abcdef.tmp", "checkpoint.0123456789abcdef.tmp"};
    for (int64_t i = 0; i < TL_COUNT(ours); i++) put_bytes(in_folder(ours[i]), "x", 1);
    for (int64_t i = 0; i < TL_COUNT(others); i++) put_bytes(in_folder(others[i]), "x", 1);
    tl_checkpoint_manager_args args = plain_args();
    tl_checkpoint_manager *m = manager_of(&args);
    step = 1;
    save(m, true);
    assert_true(
        is_there(ours[0])); // perhaps another process is writing it, and this one only reads
    step = 5;
    save(m, true);
    for (int64_t i = 0; i < TL_COUNT(ours); i++) assert_false(is_there(ours[i]));
    for (int64_t i = 0; i < TL_COUNT(others); i++) assert_true(is_there(others[i]));
    tl_checkpoint_manager_free(&m);
}

/* Files that may not grow stand for a full disk: they fail in the same place. */
static rlim_t limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return before;
}

static void test_failing_writes(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    for (int background = 0; background < 2; background++) {
        tl_checkpoint_manager_args args = plain_args();
        args.max_to_keep = (tl_opt_int){true, 1};
        args.background = background;
        tl_checkpoint_manager *m = manager_of(&args);
        const char *path = "x";
        step = 5;
        save(m, true);
        assert_ok(tl_checkpoint_manager_sync(m));
        int count = each_file(NULL);
        rlim_t before = limit_files(100);
        step = 10;
        tl_status st = tl_checkpoint_manager_save(m, true, &path);
        if (background) {
            assert_int_equal(st, TL_OK);
            st = tl_checkpoint_manager_sync(m);
        }
        limit_files(before);
        assert_int_equal(st, TL_EIO);
        if (!strstr(tl_error_message(),
                    "ckpt-10.safetensors' was not saved; the latest is 'ckpt-5'"))
            fail_msg("%s", tl_error_message());
        assert_int_equal(each_file(NULL), count); // nothing half-written
        assert_string_equal(files(), "5");
        assert_ok(tl_checkpoint_manager_sync(m)); // told once
        step = 11;
        assert_string_equal(save(m, true), "ckpt-11.safetensors"); // the boundary is still to come
        assert_ok(tl_checkpoint_manager_sync(m));
        assert_string_equal(files(), "11");
        tl_checkpoint_manager_free(&m);
        each_file(remove_in_folder);
    }
}

/* The same with a file system that is really full, where this process may mount one. */
static void test_full_disk(void **state)
{
    (void)state;
    const char *disk = in_folder("disk");
    assert_int_equal(mkdir(disk, 0777), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=64k") != 0) skip();
    tl_checkpoint_manager_args args = plain_args();
    args.directory = disk;
    tl_tensor *large = tensor_of(engine, TL_U8, TL_SHAPE(40000), NULL);
    assert_ok(tl_state_put(kept, "large", large));
    tl_checkpoint_manager *m = manager_of(&args);
    step = 5;
    save(m, true);
    step = 10;
    tl_status st = tl_checkpoint_manager_save(m, true, NULL);
    char message[512];
    snprintf(message, sizeof message, "%s", tl_error_message());
    step = 0;
    tl_status again = tl_checkpoint_manager_restore_or_initialize(m, NULL);
    tl_checkpoint_manager_free(&m);
    tl_tensor_free(&large);
    assert_int_equal(umount(disk), 0);
    assert_int_equal(st, TL_EIO);
    assert_non_null(strstr(message, "No space left on device"));
    assert_non_null(strstr(message, "the latest is 'ckpt-5'"));
    assert_int_equal(again, TL_OK);
    assert_int_equal(step, 5);
}

/* --- in the background ------------------------------------------------------------------------ */

/* What is computed after the call is not in the file, though the file is written later. */
static void test_background(void **state)
{
    (void)state;
    enum { N = 300000 };
    tl_tensor *large = tensor_of(engine, TL_F32, TL_SHAPE(N), NULL);
    assert_ok(tl_state_put(kept, "large", large));
    tl_checkpoint_manager_args args = plain_args();
    args.background = true;
    args.max_to_keep = (tl_opt_int){true, 4};
    tl_checkpoint_manager *m = manager_of(&args);
    for (step = 5; step <= 40; step += 5) {
        tl_lease l;
        assert_ok(tl_lease_write(&l, large));
        for (int i = 0; i < N; i++) ((float *)l.data)[i] = (float)(step * 1000 + i % 1000);
        assert_ok(tl_lease_end(&l));
        assert_ok(tl_tensor_set_doubles(weights, (const double[]){(double)step, 2, 3}, 3));
        assert_string_not_equal(save(m, true), "");
        assert_ok(tl_lease_write(&l, large));
        memset(l.data, 0xff, N * sizeof(float));
        assert_ok(tl_lease_end(&l));
    }
    assert_ok(tl_checkpoint_manager_sync(m));
    assert_string_equal(files(), "25 30 35 40");
    for (int64_t at = 25; at <= 40; at += 5) {
        char name[32];
        snprintf(name, sizeof name, "ckpt-%d", (int)at);
        assert_ok(tl_checkpoint_manager_restore(m, in_folder(name)));
        assert_int_equal(step, at);
        tl_lease l;
        assert_ok(tl_lease_read(&l, large));
        for (int i = 0; i < N; i++)
            assert_true(((const float *)l.data)[i] == (float)(at * 1000 + i % 1000));
        assert_ok(tl_lease_end(&l));
    }
    step = 45;
    save(m, true);
    tl_checkpoint_manager_free(&m); // waits
    assert_string_equal(files(), "30 35 40 45");
    tl_tensor_free(&large);
}

/* A failure that nobody asked for is not lost. */
static void test_background_failure_at_the_end(void **state)
{
    (void)state;
    tl_checkpoint_manager_args args = plain_args();
    args.background = true;
    args.directory = in_folder("file/below");
    put_bytes(in_folder("file"), "x", 1);
    tl_checkpoint_manager *m = manager_of(&args);
    step = 5;
    assert_string_equal(save(m, true), "ckpt-5.safetensors");
    assert_null(tl_checkpoint_manager_latest(m));
    step = 6;
    const char *path;
    assert_fails(tl_checkpoint_manager_save(m, true, &path), TL_EEXISTS,
                 "was not saved; there is none yet");
    assert_null(path);
    assert_string_equal(save(m, true), "ckpt-6.safetensors"); // due until it is done
    tl_checkpoint_manager_free(&m);
    has_logged("error: the checkpoint");
    has_logged("was not saved");
}

static void same_file(const char *a, const char *b)
{
    size_t size, other_size;
    char *data = bytes_of(a, &size), *other = bytes_of(b, &other_size);
    assert_int_equal(size, other_size);
    assert_memory_equal(data, other, size);
    tl_free(data);
    tl_free(other);
}

/* The thread writes the same bytes, also of views and of things without elements. */
static void test_background_bytes(void **state)
{
    (void)state;
    tl_tensor view = *weights, *empty = tensor_of(engine, TL_F64, TL_SHAPE(0), NULL);
    view.shape = TL_SHAPE(2);
    view.strides[0] = 2;
    view.contiguous = false;
    assert_ok(tl_state_put(kept, "view", &view));
    assert_ok(tl_state_put(kept, "empty", empty));
    assert_ok(tl_state_put(kept, "tied", weights));
    assert_ok(tl_state_put_text(kept, "text", ""));
    step = 5;
    for (int background = 0; background < 2; background++) {
        tl_checkpoint_manager_args args = plain_args();
        args.background = background;
        args.name = background ? "back" : "fore";
        tl_checkpoint_manager *m = manager_of(&args);
        assert_string_not_equal(save(m, true), "");
        tl_checkpoint_manager_free(&m);
    }
    same_file(in_folder("back-5.safetensors"), in_folder("fore-5.safetensors"));
    tl_tensor_free(&empty);
}

/* --- kills ------------------------------------------------------------------------------------ */

/* Saves without end, one step after the other. */
static void save_for_ever(int ready)
{
    tl_checkpoint_manager_args args = plain_args();
    args.interval = 1;
    args.max_to_keep = (tl_opt_int){true, 2};
    args.background = step % 2;
    tl_checkpoint_manager *m;
    if (tl_checkpoint_manager_new(&m, &args) != TL_OK) _exit(3);
    if (tl_checkpoint_manager_restore_or_initialize(m, NULL) != TL_OK) _exit(4);
    for (int saves = 1;; saves++) {
        step++;
        if (tl_tensor_set_doubles(weights, (const double[]){(double)step, 0, 0}, 3) != TL_OK)
            _exit(5);
        if (tl_checkpoint_manager_save(m, true, NULL) != TL_OK) _exit(6);
        if (saves == 2 && write(ready, "x", 1) != 1) _exit(7); // the second waits for the first
    }
}

static void test_kills(void **state)
{
    (void)state;
    const char *asked = getenv("TILTH_KILLS");
    const int kills = asked ? atoi(asked) : 30;
    tl_checkpoint_manager_args args = plain_args();
    int64_t last = 0;
    for (int i = 0; i < kills; i++) {
        int ready[2], status;
        char c;
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(ready[1]);
        close(ready[1]);
        ssize_t got = read(ready[0], &c, 1);
        tl_sleep_ns((i * 37 % 50) * 200000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        close(ready[0]);
        assert_int_equal(got, 1);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        // Whatever it was doing: the latest can be restored, and is no older than before.
        logged[0] = '\0';
        tl_checkpoint_manager *m = manager_of(&args);
        const char *path;
        double value[3];
        assert_ok(tl_checkpoint_manager_restore_or_initialize(m, &path));
        assert_non_null(path);
        if (strstr(logged, "error")) fail_msg("kill %d: %s", i, logged);
        assert_ok(tl_tensor_get_doubles(weights, value, 3));
        assert_true(step > last && value[0] == (double)step);
        last = step;
        tl_checkpoint_manager_free(&m);
    }
}

/* --- memory that runs out --------------------------------------------------------------------- */

static tl_status run(void)
{
    tl_checkpoint_manager *m;
    tl_checkpoint_manager_args args = plain_args();
    tl_path_list list;
    tl_arena *arena = NULL;
    const char *path;
    tl_status st;
    args.max_to_keep = (tl_opt_int){true, 1};
    TL_TRY(tl_checkpoint_manager_new(&m, &args));
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, tl_checkpoint_manager_restore_or_initialize(m, &path));
    step += 5;
    TL_TRY_DONE(st, tl_checkpoint_manager_save(m, false, &path));
    TL_TRY_DONE(st, tl_checkpoint_manager_restore(m, folder));
    TL_TRY_DONE(st, tl_checkpoint_manager_list(&list, m, arena));
    TL_TRY_DONE(st, tl_checkpoint_latest(&path, arena, folder));
done:
    tl_arena_free(&arena);
    tl_checkpoint_manager_free(&m);
    return st;
}

/* Removing an old file, and naming the latest, do without memory when they must. */
static void test_allocation_failures(void **state)
{
    (void)state;
    assert_ok(run());
    int64_t before = tl_alloc_calls(), lost = 0;
    assert_ok(run());
    int64_t calls = tl_alloc_calls() - before;
    for (int64_t nth = 1; nth <= calls; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = run();
        tl_alloc_fail_at(0, 0);
        lost += st == TL_OK;
        if (st != TL_OK && st != TL_ENOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
        assert_ok(run()); // what is there can be used
    }
    assert_true(lost <= 7);
}

/* --- readers beside it ------------------------------------------------------------------------ */

static const char *candidates(const tl_checkpoint_manager *m)
{
    tl_arena *arena;
    tl_path_list list;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_checkpoint_manager_candidates(&list, m, arena));
    const char *text = steps_in(&list);
    tl_arena_free(&arena);
    return text;
}

/* A manager that was made before another one saved. */
static void test_candidates(void **state)
{
    (void)state;
    const tl_checkpoint_manager_args args = plain_args();
    tl_checkpoint_manager *reader = manager_of(&args), *m = manager_of(&args);
    assert_string_equal(candidates(reader), "");
    assert_false(tl_checkpoint_manager_due(m, true));
    for (step = 5; step <= 15; step += 5) {
        assert_true(tl_checkpoint_manager_due(m, true));
        save(m, true);
        assert_false(tl_checkpoint_manager_due(m, false));
        now += 1;
    }
    assert_string_equal(candidates(reader), "15 10 5"); // the newest first
    assert_string_equal(listed(reader), "");            // which it has not read anew
    tl_checkpoint_manager_free(&reader);
    tl_checkpoint_manager_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_vectors),
        LAB_TEST(test_no_interval),
        LAB_TEST(test_boundaries),
        LAB_TEST(test_restoring_by_name),
        LAB_TEST(test_initializing),
        LAB_TEST(test_wrong_arguments),
        LAB_TEST(test_retention),
        LAB_TEST(test_keep_every_n_hours),
        LAB_TEST(test_state_file),
        LAB_TEST(test_reading_state_files),
        LAB_TEST(test_damage),
        LAB_TEST(test_misfit),
        LAB_TEST(test_numerics),
        LAB_TEST(test_leftovers),
        LAB_TEST(test_failing_writes),
        LAB_TEST(test_full_disk),
        LAB_TEST(test_background),
        LAB_TEST(test_background_failure_at_the_end),
        LAB_TEST(test_background_bytes),
        LAB_TEST(test_kills),
        LAB_TEST(test_allocation_failures),
        LAB_TEST(test_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
