/* `tilth sweep`: what is tried and drawn, and the runs that come of it, as processes. */
#include "tool/tool_lab.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tool/sweep.h"

/* --- what is tried ---------------------------------------------------------------------------- */

static tli_sweep_flags flags;
static const char *grid[4], *drawn[4];

static tl_status plan(tli_sweep *found)
{
    flags.grid = (tl_strings){grid, 0};
    flags.random = (tl_strings){drawn, 0};
    while (flags.grid.count < 4 && grid[flags.grid.count]) flags.grid.count++;
    while (flags.random.count < 4 && drawn[flags.random.count]) flags.random.count++;
    return tli_sweep_plan(found, lab_arena, &flags);
}

static int open_plan(void **state)
{
    flags = (tli_sweep_flags){.jobs = 1};
    memset(grid, 0, sizeof grid);
    memset(drawn, 0, sizeof drawn);
    return tool_open(state);
}

static void test_a_grid(void **state)
{
    (void)state;
    tli_sweep s;
    grid[0] = "a.rate=0.1,0.2";
    grid[1] = "b.sizes=[1,2],[3],'x,y'";
    assert_ok(plan(&s));
    assert_int_equal(s.count, 6);
    assert_string_equal(s.items[0].name, "1-rate=0.1-sizes=_1_2_");
    assert_string_equal(s.items[0].words.items[0], "a.rate=0.1");
    assert_string_equal(s.items[0].words.items[1], "b.sizes=[1,2]");
    assert_string_equal(s.items[2].words.items[1], "b.sizes='x,y'");
    assert_string_equal(s.items[3].name, "4-rate=0.2-sizes=_1_2_");
    grid[1] = "c.rate=1,2,3,4,5";
    assert_ok(plan(&s)); // ends alike: the whole keys tell them apart
    assert_string_equal(s.items[9].name, "10-a.rate=0.2-c.rate=5");
    assert_string_equal(s.items[0].name, "01-a.rate=0.1-c.rate=1");
}

static void test_what_is_drawn(void **state)
{
    (void)state;
    tli_sweep s, again;
    drawn[0] = "rate=log(1e-4, 1e-1)";
    drawn[1] = "drop=uniform(0,0.5)";
    drawn[2] = "units=int(-3,3)";
    drawn[3] = "act=choice(relu,gelu)";
    flags.runs = 50;
    assert_ok(plan(&s));
    assert_ok(plan(&again));
    assert_int_equal(s.count, 50);
    int small = 0, gelu = 0;
    for (int64_t i = 0; i < s.count; i++) {
        const char *const *words = s.items[i].words.items;
        // the same
        for (int k = 0; k < 4; k++) assert_string_equal(words[k], again.items[i].words.items[k]);
        double rate = strtod(words[0] + 5, NULL), drop = strtod(words[1] + 5, NULL),
               units = strtod(words[2] + 6, NULL);
        assert_true(rate >= 1e-4 && rate <= 1e-1);
        assert_true(drop >= 0 && drop <= 0.5);
        assert_true(units >= -3 && units <= 3 && units == (int)units);
        small += rate < 1e-3;
        gelu += strcmp(words[3], "act=gelu") == 0;
    }
    assert_true(small > 5 && small < 30); // about a third of the logarithms
    assert_true(gelu > 10 && gelu < 40);
    flags.seed = 1;
    assert_ok(plan(&again));
    assert_string_not_equal(s.items[0].name, again.items[0].name);
    grid[0] = "x=1,2";
    flags.runs = 3;
    assert_ok(plan(&s)); // so many at each point
    assert_int_equal(s.count, 6);
    assert_string_equal(s.items[2].words.items[0], "x=1");
    assert_string_equal(s.items[3].words.items[0], "x=2");
}

/* As many digits as the range needs, and nothing outside of it. */
static void test_narrow_ranges(void **state)
{
    (void)state;
    tli_sweep s;
    drawn[0] = "a=uniform(0.12341,0.12344)";
    drawn[1] = "b=log(0.99999,1)";
    drawn[2] = "c=uniform(-1000.00002,-1000.00001)";
    flags.runs = 8;
    assert_ok(plan(&s));
    for (int64_t i = 0; i < s.count; i++) {
        const char *const *words = s.items[i].words.items;
        double a = strtod(words[0] + 2, NULL), b = strtod(words[1] + 2, NULL),
               c = strtod(words[2] + 2, NULL);
        assert_true(a >= 0.12341 && a <= 0.12344);
        assert_true(b >= 0.99999 && b <= 1);
        assert_true(c >= -1000.00002 && c <= -1000.00001);
        for (int64_t k = 0; k < i; k++)
            for (int n = 0; n < 3; n++)
                assert_string_not_equal(words[n], s.items[k].words.items[n]);
    }
}

static void test_bad_flags(void **state)
{
    (void)state;
    static const struct {
        const char *grid, *drawn;
        int64_t runs;
        const char *message;
    } cases[] = {
        {NULL, NULL, 0, "nothing is varied"},
        {"rate", NULL, 0, "--grid 'rate': KEY=V1,V2 was expected"},
        {"=1,2", NULL, 0, "--grid '=1,2'"},
        {"rate=1,,2", NULL, 0, "a value is empty"},
        {"rate=1", NULL, 3, "--runs is the number of draws"},
        {NULL, "rate=log(1,2)", 0, "--random needs --runs=N"},
        {NULL, "rate=log(0,2)", 1, "log(A,B) needs 0 < A < B"},
        {NULL, "rate=uniform(2,2)", 1, "uniform(A,B) needs A < B"},
        {NULL, "rate=int(0.5,2)", 1, "int(A,B) needs whole numbers"},
        {NULL, "rate=log(1,2,3)", 1, "log takes two numbers"},
        {NULL, "rate=log(1,x)", 1, "log takes two numbers"},
        {NULL, "rate=normal(0,1)", 1,
         "KEY=log(A,B), uniform(A,B), int(A,B) or choice(V1,V2,...) was expected"},
        {NULL, "rate=log(1,2", 1, "was expected"},
        {"rate=1,2", "rate=log(1,2)", 1, "the key 'rate' is varied twice"},
        {"rate=1,2", "x=log(1,2)", 10000, "more than 10000 runs"},
        {"tilth.notify=a,b", NULL, 0, "'tilth.notify' is a command, which cannot be varied"},
    };
    for (size_t i = 0; i < TL_COUNT(cases); i++) {
        tli_sweep s;
        grid[0] = cases[i].grid;
        drawn[0] = cases[i].drawn;
        flags.runs = cases[i].runs;
        tl_error_clear();
        tl_status st = plan(&s);
        if (st == TL_OK || !strstr(tl_error_message(), cases[i].message))
            fail_msg("case %d: '%s', not '%s'", (int)i, tl_error_message(), cases[i].message);
    }
}

static const char *public_word(const char *word)
{
    const char *found;
    assert_ok(tli_sweep_public(&found, lab_arena, word));
    return found;
}

static void test_secrets_stay_out(void **state)
{
    (void)state;
    static const char *const words[] = {
        "tilth.notify=SECRET",
        "+tilth.notify=SECRET",
        "++tilth.notify=SECRET",
        "tilth={notify: SECRET}",
        "tilth={notify: SECRET, seed: 1}",
        "--params_override=tilth.notify='SECRET x',tilth.seed=3",
        "--params_override={tilth: {notify: SECRET, seed: 3}, trainer: {train_steps: 5}}",
        "--params_override=tilth.notify: SECRET\ntilth.seed: 3",
    };
    for (size_t i = 0; i < TL_COUNT(words); i++) {
        const char *word = public_word(words[i]);
        if (word && strstr(word, "SECRET")) fail_msg("'%s' stays '%s'", words[i], word);
    }
    assert_null(public_word(words[0]));
    assert_null(public_word(words[3]));
    assert_null(public_word("--params_override=tilth.notify=SECRET"));
    assert_non_null(strstr(public_word(words[5]), "seed: 3")); // others stay
    assert_non_null(strstr(public_word(words[6]), "train_steps: 5"));
    assert_string_equal(public_word("--params_override=notify.yaml"),
                        "--params_override=notify.yaml");
    assert_string_equal(public_word("trainer.train_steps=5"), "trainer.train_steps=5");
}

/* --- runs ------------------------------------------------------------------------------------- */

#define TINY                                                                                       \
    "tilth.jit=false", "trainer.steps_per_loop=5", "trainer.summary_interval=5",                   \
        "trainer.validation_interval=10", "trainer.validation_steps=2",                            \
        "trainer.optimizer_config.optimizer.type=sgd",                                             \
        "trainer.optimizer_config.learning_rate.type=constant"

/* Longer than any test takes; should one fail, what it has started comes to an end all the same. */
#define LONG "trainer.train_steps=400000"

static pid_t start(const char *const *words)
{
    const char *argv[40] = {"tilth", "sweep", "--experiment=mock", "--model_dir=many"};
    for (int n = 4; *words && n < 39; n++) argv[n] = *words++;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    if (!freopen("out.txt", "w", stdout) || !freopen("err.txt", "w", stderr)) _exit(9);
    execv(TILTH_PROGRAM, (char *const *)(uintptr_t)argv);
    _exit(9);
}

static char *read_text(const char *path)
{
    char *text;
    assert_ok(tl_file_read(&text, NULL, path, 1 << 22));
    return text;
}

static void finish(pid_t child, int wanted)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    int found = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    char *told = read_text("out.txt"), *wrong = read_text("err.txt");
    if (found != wanted) fail_msg("exit code %d, not %d:\n%s\n%s", found, wanted, told, wrong);
    tl_free(told);
    tl_free(wrong);
}
#define sweep(wanted, ...) finish(start((const char *const[]){__VA_ARGS__, NULL}), wanted)

static void assert_in(const char *path, const char *part)
{
    char *text = read_text(path);
    if (!strstr(text, part)) fail_msg("this is missing in %s:\n%s\nin:\n%s", path, part, text);
    tl_free(text);
}

static int count_in(const char *path, const char *part)
{
    char *text = read_text(path);
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) count++;
    tl_free(text);
    return count;
}

#define RATES "--grid=trainer.optimizer_config.learning_rate.constant.learning_rate=0.1,0.001"

static void test_runs_and_a_table(void **state)
{
    (void)state;
    sweep(0, RATES, "--jobs=2", "trainer.train_steps=20", TINY, "tilth.notify=cat >>told",
          "tilth.seed=1");
    assert_in("out.txt", "2 runs in many\n[1/2] 1-learning_rate=0.1: begins\n");
    assert_in("out.txt", "[2/2] 2-learning_rate=0.001: done in ");
    assert_in("out.txt", "\n\nrun                    validation_loss  at ");
    char *text = read_text("out.txt"), *table = strstr(text, "\n\nrun ");
    const char *rows[] = {strstr(table, "\n1-learning_rate=0.1 "),
                          strstr(table, "\n2-learning_rate=0.001 ")};
    double losses[2] = {strtod(rows[0] + 20, NULL), strtod(rows[1] + 22, NULL)};
    assert_true(losses[0] > 0 && losses[1] > 0);
    assert_int_equal(rows[0] < rows[1], losses[0] <= losses[1]); // the best one first
    tl_free(text);
    assert_in("many/1-learning_rate=0.1/log.txt", "train | step:     20");
    assert_in("many/2-learning_rate=0.001/params.yaml", "learning_rate: 0.001");
    assert_in("many/2-learning_rate=0.001/metrics.jsonl", "\"mode\": \"train_and_eval\"");
    assert_int_equal(count_in("told", "\"event\": \"end\""), 2);
    assert_int_equal(count_in("many/sweep.json", "notify"), 0);
    // The same once more: nothing is left to do.
    sweep(0, RATES, "trainer.train_steps=20", TINY, "tilth.seed=1");
    assert_in("out.txt", "2 runs in many, of which 2 are done\n\nrun ");
    assert_int_equal(count_in("many/1-learning_rate=0.1/metrics.jsonl", "\"event\": \"start\""), 1);
    // Another one is refused, and so is what cannot be right.
    sweep(2, RATES, "trainer.train_steps=30", TINY, "tilth.seed=1");
    assert_in("err.txt", "many/sweep.json is of another command: it says 'trainer.train_steps=20' "
                         "where this one says 'trainer.train_steps=30'");
    sweep(2, "--grid=trainer.train_stps=1,2", TINY);
    assert_in("err.txt",
              "--grid and --random: trainer.train_stps: unknown key, did you mean 'train_steps'?");
}

/* The file may be of anybody: it says values, and nothing else. */
static void test_a_hostile_file(void **state)
{
    (void)state;
    static const char *const words[] = {"\"tilth.notify=touch harm\"",
                                        "\"tilth.seed=1\", \"tilth.notify=touch harm\"",
                                        "\"tilth.seed\"", ""};
    for (size_t i = 0; i < TL_COUNT(words); i++) {
        char text[512];
        assert_ok(tl_mkdirs("many"));
        snprintf(text, sizeof text,
                 "{\"arguments\": [\"--grid=tilth.seed=1\", \"--mode=train\", "
                 "\"--experiment=vision/local\"], \"runs\": [{\"name\": \"1-seed=1\", \"words\": "
                 "[%s]}]}",
                 words[i]);
        put_text("many/sweep.json", text);
        sweep(2, "--experiment=vision/local", "--grid=tilth.seed=1", "--mode=train");
        assert_in("err.txt", "sets other keys than the command says");
    }
    put_text("many/sweep.json", "{\"arguments\": [\"--grid=tilth.seed=1\", \"--mode=train\", "
                                "\"--experiment=vision/local\"], \"runs\": [{\"name\": \"../up\", "
                                "\"words\": [\"tilth.seed=1\"]}]}");
    sweep(2, "--experiment=vision/local", "--grid=tilth.seed=1", "--mode=train");
    assert_in("err.txt", "has no name of a folder");
    put_text("many/sweep.json", "{\"arguments\": ");
    sweep(2, "--experiment=vision/local", "--grid=tilth.seed=1", "--mode=train");
    assert_in("err.txt", "many/sweep.json:1: not understood");
    assert_false(tl_file_exists("harm"));
    assert_false(tl_file_exists("up"));
}

static void test_a_run_that_fails_stops_no_other(void **state)
{
    (void)state;
    sweep(1, "--grid=trainer.best_checkpoint_eval_metric=nothing,mse", "trainer.train_steps=10",
          "trainer.best_checkpoint_export_subdir=best", "trainer.best_checkpoint_metric_comp=lower",
          TINY);
    assert_in("out.txt", "[1/2] 1-best_checkpoint_eval_metric=nothing: failed (exit code ");
    assert_in("out.txt", "[2/2] 2-best_checkpoint_eval_metric=mse: done in ");
    assert_in("err.txt", "1 of 2 runs failed; the same command tries them again");
    assert_in("err.txt", "many/1-best_checkpoint_eval_metric=nothing/log.txt");
    assert_in("out.txt", "\n2-best_..int_eval_metric=mse ");
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* Until the file has this in it, for a minute at most. */
static void wait_for(const char *path, const char *part)
{
    for (int i = 0; i < 12000; i++, rest()) {
        char *text;
        if (!tl_file_exists(path) || tl_file_read(&text, NULL, path, 1 << 22) != TL_OK) continue;
        bool there = strstr(text, part) != NULL;
        tl_free(text);
        if (there) return;
    }
    fail_msg("%s never had '%s'", path, part);
}

/* Ctrl-C is for all; what they did is saved, and the same command goes on. */
static void test_it_is_stopped_and_gone_on_with(void **state)
{
    (void)state;
    const char *const words[] = {
        "--grid=tilth.seed=1,2,3",          "--jobs=2", "trainer.train_steps=2000",
        "trainer.checkpoint_interval=2000", TINY,       NULL};
    pid_t child = start(words);
    wait_for("many/2-seed=2/metrics.jsonl", "\"event\": \"train\"");
    kill(child, SIGINT);
    finish(child, 3);
    assert_in("out.txt", "[2/3] 2-seed=2: stopped, and saved\n");
    assert_in("err.txt", "ended the sweep, 0 of 3 runs are done; the same command goes on");
    assert_int_equal(count_in("many/2-seed=2/metrics.jsonl", "\"reason\": \"signal\""), 1);
    assert_false(tl_file_exists("many/3-seed=3"));
    child = start(words);
    finish(child, 0);
    assert_in("out.txt", "[2/3] 2-seed=2: goes on\n");
    assert_in("out.txt", "[3/3] 3-seed=3: begins\n");
    // each loop once
    assert_int_equal(count_in("many/2-seed=2/metrics.jsonl", "\"event\": \"train\""), 400);
    assert_int_equal(
        count_in("many/2-seed=2/metrics.jsonl", "\"resumed_from\": \"many/2-seed=2/ckpt-"), 1);
}

/* What every run would stumble over is told before the first one begins, and leaves no folder. */
static void test_all_is_checked_at_first(void **state)
{
    (void)state;
    sweep(2, "--grid=tilth.seed=1,2", "--mode=train", "--gin_params=Adam.beta_9 = 3");
    assert_in("err.txt", "'beta_9'");
    sweep(2, "--grid=tilth.seed=1,2", "--mode=train", "--experiment=table");
    assert_in("err.txt",
              "the experiment 'table' lacks 1 setting:\n    task.train_data.input_path ");
    assert_in("err.txt", " sweep --experiment=table --mode=train --model_dir=many");
    assert_in("err.txt", "--grid=tilth.seed=1,2");
    put_text("t.csv", "x,y\n1,a\n2,b\n3,a\n4,b\n5,a\n6,b\n7,a\n8,b\n9,a\n10,b\n");
    sweep(2, "--experiment=table", "--grid=task.model.units=[4],[5]", "--mode=train",
          "--gin_params=TableModel.units = [6]", "task.train_data.input_path=t.csv");
    assert_in("err.txt", "task.model.units: gin binds another value to it");
    assert_false(tl_dir_exists("many"));
    sweep(2, "--experiment=table", "--grid=tilth.seed=1,2,3", "--grid=trainer.train_steps=1,-1",
          "--mode=train", "task.train_data.input_path=t.csv");
    assert_int_equal(count_in("err.txt", "t.csv: 10 rows"), 1); // the table is looked at once
    sweep(2, "--experiment=table", "--grid=task.target=x,y", "--grid=trainer.train_steps=1,-2",
          "--mode=train", "task.train_data.input_path=t.csv");
    // that of the next target would come after what is wrong
    assert_int_equal(count_in("err.txt", "t.csv: 10 rows"), 1);
}

/* The folder of a sweep is that of one process. */
static void test_twice_at_once(void **state)
{
    (void)state;
    const char *const words[] = {"--grid=tilth.seed=1,2", LONG, TINY, NULL};
    pid_t child = start(words);
    wait_for("many/1-seed=1/metrics.jsonl", "\"event\": \"train\"");
    pid_t second = fork();
    assert_true(second >= 0);
    if (!second) {
        const char *argv[40] = {"tilth", "sweep", "--experiment=mock", "--model_dir=many"};
        for (int n = 4; words[n - 4]; n++) argv[n] = words[n - 4];
        if (!freopen("second.txt", "w", stdout) || !freopen("second.txt", "a", stderr)) _exit(9);
        execv(TILTH_PROGRAM, (char *const *)(uintptr_t)argv);
        _exit(9);
    }
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 12000 && !ended; i++, rest()) ended = waitpid(second, &status, WNOHANG);
    kill(child, SIGTERM);
    if (!ended) kill(second, SIGTERM);
    assert_int_equal(ended, second);
    assert_int_equal(WEXITSTATUS(status), 2);
    assert_in("second.txt", "'many' is in use: process ");
    finish(child, 3);
    assert_false(tl_file_exists("many/training.lock"));
}

/* A run that a signal reaches before it listens has not failed. */
static void test_stopped_at_the_very_beginning(void **state)
{
    (void)state;
    const char *const words[] = {"--grid=tilth.seed=1,2,3", "--jobs=3", LONG, TINY, NULL};
    pid_t child = start(words);
    wait_for("out.txt", "1-seed=1: begins");
    kill(child, SIGINT);
    finish(child, 3);
    assert_int_equal(count_in("out.txt", "failed"), 0);
}

/* nohup is for the runs as well. */
static void test_an_ignored_hangup_stays_ignored(void **state)
{
    (void)state;
    static const char file[] = "many/1-seed=1/metrics.jsonl";
    const char *const words[] = {"--grid=tilth.seed=1", LONG, TINY, NULL};
    signal(SIGHUP, SIG_IGN);
    pid_t child = start(words);
    signal(SIGHUP, SIG_DFL);
    wait_for(file, "\"event\": \"train\"");
    char *text = read_text("many/1-seed=1/training.lock");
    const char *pid = strstr(text, "pid ");
    assert_non_null(pid);
    kill(child, SIGHUP);
    kill((pid_t)atoi(pid + 4), SIGHUP);
    tl_free(text);
    int before = count_in(file, "\"event\": \"train\""), now = before;
    for (int i = 0; i < 12000 && now < before + 20; i++, rest())
        now = count_in(file, "\"event\": \"train\"");
    assert_true(now >= before + 20); // both go on
    kill(child, SIGTERM);
    finish(child, 3);
    assert_in("out.txt", "1-seed=1: stopped, and saved");
    assert_int_equal(count_in("err.txt", "Terminated ended the sweep"), 1);
}

#define PLAN_TEST(f) cmocka_unit_test_setup_teardown(f, open_plan, tool_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_TEST(test_a_grid),
        PLAN_TEST(test_what_is_drawn),
        PLAN_TEST(test_narrow_ranges),
        PLAN_TEST(test_secrets_stay_out),
        PLAN_TEST(test_bad_flags),
        TOOL_TEST(test_runs_and_a_table),
        TOOL_TEST(test_a_hostile_file),
        TOOL_TEST(test_a_run_that_fails_stops_no_other),
        TOOL_TEST(test_it_is_stopped_and_gone_on_with),
        TOOL_TEST(test_all_is_checked_at_first),
        TOOL_TEST(test_twice_at_once),
        TOOL_TEST(test_stopped_at_the_very_beginning),
        TOOL_TEST(test_an_ignored_hangup_stays_ignored),
    };
    return cmocka_run_group_tests_name("sweep", tests, NULL, NULL);
}
