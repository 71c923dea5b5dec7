/* `tilth compare`: what runs have left, side by side. */
#include "tool/past_runs.h"

#include <jansson.h>

static void three(void)
{
    past_run("runs/a", 0.1, 32, 0.5);
    past_run("runs/b", 0.01, 32, 0.75);
    past_run("runs/c", 0.1, 64, 0.625);
}

static void test_a_table(void **state)
{
    (void)state;
    three();
    run("compare", "runs/a", "runs/b/", "runs/c");
    ended(0, "");
    assert_string_equal(
        out, "run  accuracy  at   last  global_batch_size  learning_rate  step  time  state\n"
             "b        0.75  10  0.625  32                 0.01             30  1:05  done\n"
             "c       0.625  10    0.5  64                 0.1              30  1:05  done\n"
             "a         0.5  10  0.375  32                 0.1              30  1:05  done\n");
    run("compare", "runs/a"); // nothing differs
    assert_string_equal(out, "run  accuracy  at   last  step  time  state\n"
                             "a         0.5  10  0.375    30  1:05  done\n");
}

static void test_metrics_and_order(void **state)
{
    (void)state;
    three();
    run("compare", "runs/a", "runs/b", "runs/c", "--metric=validation_loss",
        "--metric=training_loss");
    ended(0, "");
    has("run  validation_loss  at     last  train/training_loss  at     last ");
    has("a            0.33333  30  0.33333              0.66667  30  0.66667 "); // lower is better
    run("compare", "runs/c", "runs/a", "runs/b", "--sort=name", "--csv");
    has("\na,0.5,10,0.375,32,0.1,30,65.250,done\nb,");
    run("compare", "runs/a", "runs/b", "runs/c", "--sort=global_batch_size", "--csv");
    has("done\nc,");
    run("compare", "runs/a", "runs/b", "runs/c", "--sort=learning_rate", "--csv");
    has("state\nb,");
    run("compare", "runs/a", "runs/b", "--metric=acuracy");
    ended(2, "--metric: no run has a metric 'acuracy' (did you mean 'accuracy'?); there are "
             "train/training_loss, accuracy, validation_loss");
    run("compare", "runs/a", "runs/b", "--sort=nothing");
    ended(2, "--sort: name, time, step, a setting that differs or a metric: no run has a metric "
             "'nothing'");
    run("compare");
    ended(2, "no run is named");
    run("compare", "runs/a", "--json", "--csv");
    ended(2, "--json and --csv cannot be combined");
}

static void test_csv_and_json(void **state)
{
    (void)state;
    three();
    add_text("runs/b/params.yaml", "runtime: {note: 'a, \"b\"'}\n");
    run("compare", "runs/a", "runs/b", "--csv");
    ended(0, "");
    has("run,accuracy best,accuracy at,accuracy "
        "last,trainer.optimizer_config.learning_rate.constant.learning_rate,runtime.note,step,"
        "seconds,state\n");
    has("b,0.75,10,0.625,0.01,\"a, \"\"b\"\"\",30,65.250,done\n");
    run("compare", "runs/a", "runs/b", "--json");
    json_t *all = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    json_t *first = json_array_get(json_object_get(all, "runs"), 0);
    const char *name, *experiment, *ended_as, *rate;
    double seconds, best;
    int at;
    assert_int_equal(json_unpack(first, "{s:s, s:s, s:s, s:F, s:{s:s}, s:{s:{s:F, s:i}}}", "name",
                                 &name, "experiment", &experiment, "state", &ended_as, "seconds",
                                 &seconds, "settings",
                                 "trainer.optimizer_config.learning_rate.constant.learning_rate",
                                 &rate, "metrics", "accuracy", "best", &best, "best_step", &at),
                     0);
    assert_string_equal(name, "b");
    assert_string_equal(experiment, "mine");
    assert_string_equal(ended_as, "done");
    assert_string_equal(rate, "0.01");
    assert_near(seconds, 65.25, 0);
    assert_near(best, 0.75, 0);
    assert_int_equal(at, 10);
    json_decref(all);
}

static void test_it_fits_the_terminal(void **state)
{
    (void)state;
    three();
    width = 44;
    run("compare", "runs/a", "runs/b", "runs/c");
    ended(0, "");
    for (const char *line = out, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        if (end - line > width)
            fail_msg("%d columns: %.*s", (int)(end - line), (int)(end - line), line);
    }
    has("\n\nrun  learning_rate"); // below it, with the names once more
}

static void test_bad_runs_do_not_hide_the_others(void **state)
{
    (void)state;
    three();
    assert_ok(tl_mkdirs("runs/empty"));
    assert_ok(tl_mkdirs("runs/broken"));
    put_text("runs/broken/params.yaml", "a: [1\n");
    run("compare", "runs/a", "runs/none", "runs/b", "runs/empty", "runs/broken");
    ended(1, "'runs/none': there is no such folder");
    ended(1, "'runs/empty' is no folder of a run");
    ended(1, "runs/broken/params.yaml");
    has("\nb  ");
    has("\na  ");
    has_not("none");
    run("compare", "runs/none");
    ended(1, "there is no such folder");
    assert_string_equal(out, "");
    put_text("runs/empty/metrics.jsonl", "");
    run("compare", "runs/empty");
    ended(1, "'runs/empty' is no folder of a run: it has no params.yaml, and its metrics.jsonl is "
             "empty");
    put_text("runs/empty/metrics.jsonl", "{\"loss\": 1}\n");
    run("compare", "runs/empty");
    ended(1, "'runs/empty' is no folder of a run: it has no params.yaml, and its metrics.jsonl has "
             "no line of one");
}

/* It is no less of a run. */
static void test_killed_amid_a_line(void **state)
{
    (void)state;
    three();
    add_text("runs/a/metrics.jsonl", "{\"event\": \"train\", \"step\": 40, \"metr");
    run("compare", "runs/a", "runs/b");
    ended(0, "");
    has("\na ");
    add_text("runs/a/metrics.jsonl",
             "\n{\"event\": \"evaluation\", \"step\": 31, \"metrics\": {\"accuracy\": 0.9375}}\n{");
    run("compare", "runs/a", "runs/b"); // and gone on with
    ended(0, "");
    has("\na      0.9375  31");
}

/* Lines that nobody should have written are told, and the rest is read. */
static void test_strange_lines(void **state)
{
    (void)state;
    three();
    tl_str deep = TL_STR_INIT;
    tl_str_add(&deep, "{\"event\": \"train\", \"step\": 40, \"metrics\": ");
    for (int i = 0; i < 100000; i++) tl_str_add(&deep, "{\"a\":[");
    tl_str_addc(&deep, '\n');
    add_text("runs/a/metrics.jsonl", tl_str_text(&deep));
    tl_str_deinit(&deep);
    add_text(
        "runs/a/metrics.jsonl",
        "what\n[]\n{}\n\n{\"event\": 5, \"step\": 1}\n{\"event\": \"train\", \"step\": -1}\n"
        "{\"event\": \"train\", \"step\": 1e400}\n{\"event\": \"train\", \"step\": "
        "99999999999999999999999999}\n"
        "{\"event\": \"evaluation\", \"step\": 20, \"metrics\": {\"accuracy\": 1e999}}\n"
        "{\"event\": \"evaluation\", \"step\": 20, \"metrics\": [1, 2]}\n"
        "{\"event\": \"evaluation\", \"step\": 20, \"metrics\": {\"accuracy\": \"high\", \"x\": "
        "{\"y\": 1}}}\n"
        "{\"event\": \"unheard\", \"step\": 9007199254740993, \"metrics\": {\"accuracy\": 1e308}}\n"
        "{\"event\": \"evaluation\", \"step\": 30, \"metrics\": {\"accuracy\": null}}\n"
        "{\"event\": \"evaluation\", \"step\": 31, \"metrics\": {\"accuracy\": 0.9375}}\n"
        "\xff\xfe\n{\"event\": \"evaluation\", \"step\": 32, \"metr");
    run("compare", "runs/a", "runs/b");
    ended(1, "runs/a/metrics.jsonl: 10 lines are not understood, and left out");
    logged("'runs/a': a line of metrics.jsonl was cut, and is left out");
    has("\na      0.9375  31  0.9375  0.1              31  1:05  done");
    has("\nb ");
}

static void test_runs_of_before(void **state)
{
    (void)state;
    past_run("old", 0.1, 32, 0.5);
    past_run("new", 0.2, 32, 0.25);
    assert_ok(tl_file_remove("old/metrics.jsonl"));
    assert_ok(tl_mkdirs("old/best"));
    put_text("old/best/info.json", "{\"accuracy\": 0.875, \"best_ckpt_global_step\": 200.0}");
    assert_ok(tl_mkdirs("net"));
    put_text("net/config.yaml",
             "train: {output_dir: net, evaluation: {eval_metric: accuracy, eval_mode: max}}\n");
    put_text("net/model_best.json",
             "{\"metric\": \"accuracy\", \"value\": 0.125, \"iteration\": 9}");
    run("compare", "old", "new", "net", "--sort=accuracy", "--csv");
    ended(0, "");
    has("\nold,0.875,200,0.875,");
    has("\nnet,0.125,10,0.125,");
    has_not("output_dir");
    put_text("old/best/info.json", "{\"accuracy\": ");
    run("compare", "old", "new");
    ended(1, "old/best/info.json: not understood");
}

static void test_killed_and_resumed(void **state)
{
    (void)state;
    assert_ok(tl_mkdirs("run"));
    put_text("run/metrics.jsonl", "{\"event\": \"start\", \"step\": 0, \"time\": "
                                  "\"2026-11-16T06:45:40.000Z\", \"mode\": \"train\"}\n"
                                  "{\"event\": \"train\", \"step\": 5, \"time\": "
                                  "\"2026-11-16T06:45:50.000Z\", \"metrics\": {\"loss\": 2}}\n"
                                  "{\"event\": \"start\", \"step\": 5, \"time\": "
                                  "\"2026-11-16T07:00:00.000Z\", \"mode\": \"train\"}\n"
                                  "{\"event\": \"train\", \"step\": 9, \"time\": "
                                  "\"2026-11-16T07:00:20.000Z\", \"metrics\": {\"loss\": 1}}\n");
    run("compare", "run");
    ended(0, "");
    has("\nrun           1   9     1     9  0:30  unfinished\n");
    add_text("run/metrics.jsonl",
             "{\"event\": \"end\", \"step\": 9, \"time\": \"2026-11-16T07:00:21.000Z\", \"mode\": "
             "\"train\", \"reason\": \"stopped: enough\", \"seconds\": 21.0}\n"
             "{\"event\": \"start\", \"step\": 9, \"mode\": \"eval\"}\n");
    run("compare", "run");
    has("  0:31  stopped\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_a_table),
        TOOL_TEST(test_metrics_and_order),
        TOOL_TEST(test_csv_and_json),
        TOOL_TEST(test_it_fits_the_terminal),
        TOOL_TEST(test_killed_amid_a_line),
        TOOL_TEST(test_strange_lines),
        TOOL_TEST(test_bad_runs_do_not_hide_the_others),
        TOOL_TEST(test_runs_of_before),
        TOOL_TEST(test_killed_and_resumed),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
