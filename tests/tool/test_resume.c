/* Runs that are killed, asked to end or short of room, and gone on with, end with the same bytes as
 * one that was not. TILTH_KILLS says how often the first is tried (12). needs: no sanitizer
 * takes: long */
#include "tool/shell_lab.h"

#include <signal.h>
#include <sys/mount.h>
#include <time.h>

#include <tilth/base/clock.h>
#include <tilth/base/rng.h>
#include <tilth/io/checkpoint/manager.h>
#include <tilth/io/tensorflow/event_file.h>

enum { STEPS = 60000 };

static tl_rng rng;

static int setup(void **state)
{
    unsetenv("TILTH_DEVICE");
    tl_rng_init(&rng, (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32);
    return shell_open(state);
}

enum { WORDS = 32 };

/* Dropout, shuffled data, momentum, averages, checkpoints within loops and evaluations between
 * them. `more` are words that come last and win; NULL: none. */
static pid_t start_with(const char *folder, const char *mode, const char *const *more)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    char dir[64], flag[32], log[64];
    snprintf(dir, sizeof dir, "--model_dir=%s", folder);
    snprintf(flag, sizeof flag, "--mode=%s", mode);
    snprintf(log, sizeof log, "%s.log", folder);
    const char *words[WORDS] = {
        "tilth",
        "train",
        "--experiment=mock",
        flag,
        dir,
        "tilth.seed=7",
        "task.train_data.is_training=true",
        "trainer.train_steps=60000",
        "trainer.steps_per_loop=5000",
        "trainer.summary_interval=5000",
        "trainer.checkpoint_interval=3000",
        "trainer.validation_interval=10000",
        "trainer.validation_steps=5",
        "trainer.optimizer_config.optimizer.type=adam",
        "trainer.optimizer_config.learning_rate.type=cosine",
        "trainer.optimizer_config.learning_rate.cosine.decay_steps=60000",
        "trainer.optimizer_config.learning_rate.cosine.initial_learning_rate=0.01",
        "trainer.best_checkpoint_export_subdir=best",
        "trainer.best_checkpoint_eval_metric=mse",
        "trainer.best_checkpoint_metric_comp=lower",
        "++trainer.optimizer_config.ema.average_decay=0.99"};
    for (int at = 21; more && *more && at < WORDS - 1;) words[at++] = *more++;
    if (!freopen(log, "a", stdout) || !freopen(log, "a", stderr)) _exit(9);
    execv(TILTH_PROGRAM, (char *const *)(uintptr_t)words);
    _exit(9);
}

static pid_t start(const char *folder, const char *mode)
{
    return start_with(folder, mode, NULL);
}

static int finish(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void assert_same(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    assert_ok(tl_file_read(&x, &n, a, 1 << 24));
    assert_ok(tl_file_read(&y, &m, b, 1 << 24));
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    tl_free(x);
    tl_free(y);
}

static void rest(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* All numbers of a folder's event files but the speed, each loop's at its end. */
static char *numbers_told(const char *folder)
{
    tl_arena *arena;
    tl_path_list files;
    tl_str out = TL_STR_INIT;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&files, arena, tl_arena_printf(arena, "%s/events*", folder)));
    for (int64_t i = 0; i < files.count; i++) {
        tl_event_reader *r;
        tl_event e;
        bool more = true;
        assert_ok(tl_event_reader_open(&r, files.items[i]));
        while (tl_event_reader_next(r, &e, &more) == TL_OK && more)
            for (int64_t k = 0; k < e.count; k++)
                if (strcmp(e.values[k].tag, "steps_per_second") != 0)
                    tl_str_addf(&out, "%s@%lld=%.9g\n", e.values[k].tag, (long long)e.step,
                                e.values[k].number);
        tl_event_reader_close(&r);
    }
    tl_arena_free(&arena);
    char *text = tl_strdup(tl_str_text(&out));
    tl_str_deinit(&out);
    assert_non_null(text);
    return text;
}

static void assert_told_the_same(const char *a, const char *b)
{
    char *x = numbers_told(a), *y = numbers_told(b);
    assert_true(strlen(x) > 100);
    assert_string_equal(x, y);
    tl_free(x);
    tl_free(y);
}

/* The same with steps under way on another device: what is killed is what the host has queued. */
static void killed_runs_on_a_device_end_the_same(void **state)
{
    (void)state;
    static const char *const words[] = {"--plugin=" FAKE_PLUGIN,
                                        "trainer.train_steps=12000",
                                        "trainer.steps_per_loop=1000",
                                        "trainer.summary_interval=1000",
                                        "trainer.checkpoint_interval=600",
                                        "trainer.validation_interval=2000",
                                        "tilth.jit=false",
                                        NULL};
    int killed = 0;
    assert_int_equal(setenv("TILTH_DEVICE", "fake", 1), 0);
    assert_int_equal(finish(start_with("whole", "train_and_eval", words)), 0);
    for (int tries = 0; killed < 4 && tries < 12; tries++) {
        pid_t child = start_with("cut", "train_and_eval", words);
        rest(0.05 + 0.4 * tl_rng_uniform_f64(&rng));
        kill(child, SIGKILL);
        int code = finish(child);
        if (code == -SIGKILL) killed++;
        else assert_int_equal(code, 0);
        if (code != 0) continue;
        assert_same("whole/ckpt-12000.safetensors", "cut/ckpt-12000.safetensors");
        assert_int_equal(nftw("cut", shell_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
    assert_true(killed > 0);
    assert_int_equal(finish(start_with("cut", "train_and_eval", words)), 0);
    assert_same("whole/ckpt-12000.safetensors", "cut/ckpt-12000.safetensors");
    assert_told_the_same("whole/train", "cut/train");
}

static void killed_runs_end_the_same(void **state)
{
    (void)state;
    const char *wanted = getenv("TILTH_KILLS");
    int kills = wanted ? atoi(wanted) : 12, killed = 0;
    assert_int_equal(finish(start("whole", "train_and_eval")), 0);
    for (int tries = 0; killed < kills && tries < 3 * kills; tries++) {
        pid_t child = start("cut", "train_and_eval");
        rest(0.02 + 0.4 * tl_rng_uniform_f64(&rng));
        kill(child, SIGKILL);
        int code = finish(child);
        if (code == -SIGKILL) killed++;
        else assert_int_equal(code, 0); // it was through already: from the start again
        if (code != 0) continue;
        assert_same("whole/ckpt-60000.safetensors", "cut/ckpt-60000.safetensors");
        assert_int_equal(nftw("cut", shell_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
    assert_true(killed > 0);
    assert_int_equal(finish(start("cut", "train_and_eval")), 0);
    assert_same("whole/ckpt-60000.safetensors", "cut/ckpt-60000.safetensors");
    assert_same("whole/best/info.json", "cut/best/info.json");
    assert_told_the_same("whole/train", "cut/train");
    assert_told_the_same("whole/validation", "cut/validation");
}

/* --- several tasks, and stages ---------------------------------------------------------------- */

static pid_t start_experiment(const char *folder, const char *experiment, const char *const *more)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    char dir[64], flag[64], log[64];
    snprintf(dir, sizeof dir, "--model_dir=%s", folder);
    snprintf(flag, sizeof flag, "--experiment=%s", experiment);
    snprintf(log, sizeof log, "%s.log", folder);
    const char *words[WORDS] = {"tilth",        "train", flag, "--mode=train_and_eval", dir,
                                "tilth.seed=7", "tilth.jit=false"};
    for (int at = 7; *more && at < WORDS - 1;) words[at++] = *more++;
    if (!freopen(log, "a", stdout) || !freopen(log, "a", stderr)) _exit(9);
    execv(TILTH_PROGRAM, (char *const *)(uintptr_t)words);
    _exit(9);
}

/* Killed `kills` times at any moment, and gone on with. */
static void kill_and_compare(const char *experiment, const char *const *words, const char *last,
                             const char *told)
{
    enum { KILLS = 4 };
    char whole[128], cut[128];
    int killed = 0;
    int64_t begin = tl_clock_ns();
    assert_int_equal(finish(start_experiment("whole", experiment, words)), 0);
    double seconds = (double)(tl_clock_ns() - begin) * 1e-9;
    for (int tries = 0; killed < KILLS && tries < 3 * KILLS; tries++) {
        pid_t child = start_experiment("cut", experiment, words);
        rest(seconds * (0.1 + 0.6 * tl_rng_uniform_f64(&rng)));
        kill(child, SIGKILL);
        int code = finish(child);
        if (code == -SIGKILL) killed++;
        else assert_int_equal(code, 0);
        if (code == 0) assert_int_equal(nftw("cut", shell_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
    assert_true(killed > 0);
    assert_int_equal(finish(start_experiment("cut", experiment, words)), 0);
    snprintf(whole, sizeof whole, "whole/%s", last);
    snprintf(cut, sizeof cut, "cut/%s", last);
    assert_same(whole, cut);
    assert_same("whole/best/info.json", "cut/best/info.json");
    snprintf(whole, sizeof whole, "whole/%s", told);
    snprintf(cut, sizeof cut, "cut/%s", told);
    assert_told_the_same(whole, cut);
}

static void killed_runs_of_several_tasks_end_the_same(void **state)
{
    (void)state;
    static const char *const words[] = {"trainer.train_steps=400", "trainer.steps_per_loop=20",
                                        "trainer.summary_interval=20",
                                        "trainer.checkpoint_interval=7",
                                        "trainer.validation_interval=100", NULL};
    kill_and_compare("multitask/local", words, "ckpt-400.safetensors", "train/steepness");
}

/* Stages end at 17 and 34, within loops. */
static void killed_runs_in_stages_end_the_same(void **state)
{
    (void)state;
    static const char *const words[] = {"trainer.train_steps=60",
                                        "trainer.steps_per_loop=10",
                                        "trainer.summary_interval=10",
                                        "trainer.checkpoint_interval=3",
                                        "trainer.validation_interval=30",
                                        "trainer.progressive.stages[0].num_steps=17",
                                        "trainer.progressive.stages[1].num_steps=17",
                                        "task.validation_data.synthetic_examples=64",
                                        NULL};
    kill_and_compare("progressive/local", words, "ckpt-60.safetensors", "train");
}

/* --- at moments that are chosen --------------------------------------------------------------- */

static int times_in(const char *path, const char *text)
{
    char *all;
    int times = 0;
    if (!tl_file_exists(path)) return 0;
    assert_ok(tl_file_read(&all, NULL, path, 64 << 20));
    for (const char *at = all; (at = strstr(at, text)); at++) times++;
    tl_free(all);
    return times;
}

static void wait_for(const char *log, const char *text, int times)
{
    for (int i = 0; times_in(log, text) < times; i++) {
        if (i > 3000) fail_msg("'%s' does not appear in %s", text, log);
        rest(0.01);
    }
}

/* The latest checkpoint is whole, and of the step that its name says. */
static int64_t saved_step(const char *folder)
{
    tl_arena *arena;
    const char *path;
    tl_checkpoint *c;
    tl_state_entry step;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_checkpoint_latest(&path, arena, folder));
    assert_non_null(path);
    assert_ok(tl_checkpoint_open(&c, path));
    assert_ok(tl_state_get(&step, tl_checkpoint_state(c), "global_step", TL_STATE_INT));
    assert_int_equal(step.i, strtoll(strrchr(path, '-') + 1, NULL, 10));
    tl_checkpoint_free(&c);
    tl_arena_free(&arena);
    return step.i;
}

static const char *const endless[] = {"trainer.train_steps=2000000000", NULL};

static void a_signal_in_a_step_saves_it(void **state)
{
    (void)state;
    char wanted[96];
    pid_t child = start_with("term", "train", endless);
    wait_for("term.log", "saved checkpoint to", 1);
    kill(child, SIGTERM);
    assert_int_equal(finish(child), 3);
    snprintf(wanted, sizeof wanted, "SIGTERM ended the training at step %lld, which is saved",
             (long long)saved_step("term"));
    assert_int_equal(times_in("term.log", wanted), 1);
}

/* Within a loop too, whose means are then those of all its steps. */
static void a_run_that_was_asked_to_end_goes_on_exactly(void **state)
{
    (void)state;
    assert_int_equal(finish(start("whole", "train")), 0);
    pid_t child = start("term", "train");
    wait_for("term.log", "training until step", 1);
    kill(child, SIGTERM);
    int code = finish(child);
    assert_true(code == 3 || code == 0); // within it, or it was through
    assert_int_equal(finish(start("term", "train")), 0);
    assert_same("whole/ckpt-60000.safetensors", "term/ckpt-60000.safetensors");
    assert_told_the_same("whole/train", "term/train");
}

static void a_signal_in_an_evaluation_loses_nothing(void **state)
{
    (void)state;
    static const char *const long_evaluation[] = {
        "task.validation_data.is_training=true", // without end
        "trainer.validation_steps=2000000000", "trainer.validation_interval=10",
        "trainer.checkpoint_interval=10", NULL};
    assert_int_equal(finish(start("whole", "train_and_eval")), 0);
    pid_t child = start_with("term", "train_and_eval", long_evaluation);
    wait_for("term.log", "steps of evaluation", 1);
    rest(0.02);
    kill(child, SIGTERM);
    assert_int_equal(finish(child), 3);
    assert_int_equal(saved_step("term"), 10);
    assert_int_equal(times_in("term.log", "SIGTERM ended the training at step 10, which is saved"),
                     1);
    assert_int_equal(finish(start("term", "train_and_eval")), 0);
    assert_same("whole/ckpt-60000.safetensors", "term/ckpt-60000.safetensors");
    // not again: the interval is another
    assert_int_equal(times_in("term.log", "eval | step:     10 | running"), 1);
}

/* --- full disks ------------------------------------------------------------------------------- */

/* Room for a few checkpoints, all of which are kept; false: we may not. */
static bool mount_small(void)
{
    assert_int_equal(mkdir("disk", 0755), 0);
    if (mount("tmpfs", "disk", "tmpfs", 0, "size=48k") != 0) return false;
    assert_int_equal(symlink("../run.log", "disk/run.log"), 0); // which is written all the time
    return true;
}

static void enlarge(void)
{
    assert_int_equal(mount("tmpfs", "disk", "tmpfs", MS_REMOUNT, "size=64m"), 0);
}

static int unmount(void **state)
{
    umount2("disk", MNT_DETACH);
    return shell_close(state);
}

static void a_full_disk_ends_the_run_and_costs_nothing(void **state)
{
    (void)state;
    static const char *const all_kept[] = {"trainer.max_to_keep=null", NULL};
    if (!mount_small()) skip();
    assert_int_equal(finish(start("whole", "train")), 0);
    assert_int_equal(finish(start_with("disk/run", "train", all_kept)), 1);
    assert_true(times_in("run.log", "No space left on device") > 0);
    int64_t step = saved_step("disk/run");
    assert_true(step > 0 && step < 60000);
    enlarge();
    assert_int_equal(finish(start_with("disk/run", "train", all_kept)), 0);
    assert_same("whole/ckpt-60000.safetensors", "disk/run/ckpt-60000.safetensors");
}

static void a_full_disk_is_survived_where_that_is_wanted(void **state)
{
    (void)state;
    static const char *const survives[] = {"trainer.max_to_keep=null",
                                           "trainer.train_steps=2000000000",
                                           "tilth.survive_write_failures=true", NULL};
    if (!mount_small()) skip();
    pid_t child = start_with("disk/run", "train", survives);
    wait_for("run.log", "The training goes on (survive_write_failures)", 3);
    int64_t before = saved_step("disk/run");
    int saved = times_in("run.log", "saved checkpoint to");
    enlarge();
    wait_for("run.log", "saved checkpoint to", saved + 4);
    kill(child, SIGTERM);
    assert_int_equal(finish(child), 3);
    assert_true(saved_step("disk/run") > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_runs_end_the_same, setup, shell_close),
        cmocka_unit_test_setup_teardown(killed_runs_of_several_tasks_end_the_same, setup,
                                        shell_close),
        cmocka_unit_test_setup_teardown(killed_runs_in_stages_end_the_same, setup, shell_close),
        cmocka_unit_test_setup_teardown(killed_runs_on_a_device_end_the_same, setup, shell_close),
        cmocka_unit_test_setup_teardown(a_signal_in_a_step_saves_it, setup, shell_close),
        cmocka_unit_test_setup_teardown(a_run_that_was_asked_to_end_goes_on_exactly, setup,
                                        shell_close),
        cmocka_unit_test_setup_teardown(a_signal_in_an_evaluation_loses_nothing, setup,
                                        shell_close),
        cmocka_unit_test_setup_teardown(a_full_disk_ends_the_run_and_costs_nothing, setup, unmount),
        cmocka_unit_test_setup_teardown(a_full_disk_is_survived_where_that_is_wanted, setup,
                                        unmount),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
