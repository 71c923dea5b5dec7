/* Runs that are killed, and gone on with, end with the same bytes as one that was not. TILTH_KILLS says how often
 * (12).
 * needs: no sanitizer */
#include "test.h"

#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/rng.h>

enum { STEPS = 60000 };

static char home[] = "/tmp/tilth-test-resume-XXXXXX";
static tl_rng rng;

static int setup(void **state)
{
    (void)state;
    tl_rng_init(&rng, (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32);
    strcpy(home + sizeof home - 7, "XXXXXX");
    return mkdtemp(home) && chdir(home) == 0 ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") == 0 && nftw(home, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

/* Dropout, shuffled data, momentum, averages, checkpoints within loops and evaluations between them. */
static pid_t start(const char *folder, const char *mode)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    char dir[64], flag[32], log[64];
    snprintf(dir, sizeof dir, "--model_dir=%s", folder);
    snprintf(flag, sizeof flag, "--mode=%s", mode);
    snprintf(log, sizeof log, "%s.log", folder);
    if (!freopen(log, "a", stdout) || !freopen(log, "a", stderr)) _exit(9);
    execl(TILTH_PROGRAM, "tilth", "train", "--experiment=mock", flag, dir, "tilth.seed=7",
          "task.train_data.is_training=true", "trainer.train_steps=60000", "trainer.steps_per_loop=5000",
          "trainer.summary_interval=5000", "trainer.checkpoint_interval=3000",
          "trainer.validation_interval=10000", "trainer.validation_steps=5",
          "trainer.optimizer_config.optimizer.type=adam",
          "trainer.optimizer_config.learning_rate.type=cosine",
          "trainer.optimizer_config.learning_rate.cosine.decay_steps=60000",
          "trainer.optimizer_config.learning_rate.cosine.initial_learning_rate=0.01",
          "trainer.best_checkpoint_export_subdir=best", "trainer.best_checkpoint_eval_metric=mse",
          "trainer.best_checkpoint_metric_comp=lower",
          "++trainer.optimizer_config.ema.average_decay=0.99", (char *)NULL);
    _exit(9);
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
    assert_ok(tl_file_read(&x, &n, a, 1 << 20));
    assert_ok(tl_file_read(&y, &m, b, 1 << 20));
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
        assert_int_equal(nftw("cut", remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
    assert_true(killed > 0);
    assert_int_equal(finish(start("cut", "train_and_eval")), 0);
    assert_same("whole/ckpt-60000.safetensors", "cut/ckpt-60000.safetensors");
    assert_same("whole/best/info.json", "cut/best/info.json");
}

static void a_signal_saves_and_the_second_ends_at_once(void **state)
{
    (void)state;
    assert_int_equal(finish(start("whole", "train")), 0);
    pid_t child = start("term", "train");
    rest(0.1);
    kill(child, SIGTERM);
    int code = finish(child);
    assert_true(code == 3 || code == 0 || code == -SIGTERM); // before it began, within, or through
    if (code == 3) assert_true(tl_file_exists("term/checkpoint"));
    assert_int_equal(finish(start("term", "train")), 0);
    assert_same("whole/ckpt-60000.safetensors", "term/ckpt-60000.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_runs_end_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(a_signal_saves_and_the_second_ends_at_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
