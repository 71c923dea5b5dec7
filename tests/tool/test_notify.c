/* tilth.notify: commands come from the command line, and never from the folder of a run. */
#include "tool/tool_lab.h"

static void train(const char *more)
{
    run("train", "--experiment=vision/local", "--mode=train_and_eval", "--model_dir=run",
        "--progress=lines", "tilth.jit=false", "tilth.seed=1", "trainer.train_steps=2", more);
}

static void assert_same_files(const char *a, const char *b)
{
    char *x, *y;
    assert_ok(tl_file_read(&x, NULL, a, 1 << 20));
    assert_ok(tl_file_read(&y, NULL, b, 1 << 20));
    assert_string_equal(x, y);
    tl_free(x);
    tl_free(y);
}

static void a_word_or_a_named_file_may_say_it(void **state)
{
    (void)state;
    train("tilth.notify=cat >>told");
    ended(0, "");
    assert_same_files("told", "run/metrics.jsonl");
    put_text("own.yaml", "tilth: {notify: 'cat >>told'}\n");
    train("--config_file=own.yaml");
    ended(0, "");
    assert_same_files("told", "run/metrics.jsonl");
    char *text;
    assert_ok(tl_file_read(&text, NULL, "run/params.yaml", 1 << 20));
    assert_null(strstr(text, "notify"));
    tl_free(text);
}

/* Somebody's folder with a command in it. */
static void a_hostile_folder_runs_nothing(void **state)
{
    (void)state;
    train("trainer.validation_steps=1");
    ended(0, "");
    static const char hostile[] = "  notify: 'touch harm'\n";
    char *text, *section;
    tl_str params = TL_STR_INIT;
    assert_ok(tl_file_read(&text, NULL, "run/params.yaml", 1 << 20));
    section = strstr(text, "tilth:\n");
    assert_non_null(section);
    section += strlen("tilth:\n");
    tl_str_addn(&params, text, (size_t)(section - text));
    tl_str_add(&params, hostile);
    tl_str_add(&params, section);
    put_text("run/params.yaml", tl_str_text(&params));
    tl_free(text);
    tl_str_deinit(&params);
    static const char notice[] =
        "params.yaml: tilth.notify is left out: commands are not taken from the folder";
    run("eval", "--model_dir=run");
    ended(0, "");
    assert_non_null(strstr(tl_str_text(&tool_log), notice));
    run("export", "--model_dir=run", "--to=exported");
    ended(0, "");
    assert_ok(tl_file_read(&text, NULL, "exported/config.yaml", 1 << 20));
    assert_null(strstr(text, "notify"));
    tl_free(text);
    train("trainer.validation_steps=1"); // resumes, or at least looks at the folder
    assert_false(tl_file_exists("harm"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(a_word_or_a_named_file_may_say_it),
        TOOL_TEST(a_hostile_folder_runs_nothing),
    };
    return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
