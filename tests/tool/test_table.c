/* A table of one's own, through the program: one command, what it says, what can be done with the run, what cannot be. */
#include "zoo/zoo_lab.h"

#include <tilth/base/rng.h>

#include "tool/tool.h"

static char *out, *err;
static int code;

static void forget(void)
{
    free(out);
    free(err);
    out = err = NULL;
}

/* A log goes to the standard error of the process, and is caught here. */
static tl_str logged = TL_STR_INIT;
static int64_t sink;

static void keep_line(const tl_log_record *r, void *payload)
{
    (void)payload;
    tl_str_addf(&logged, "%s\n", r->text);
}

static int open_test(void **state)
{
    int failed = lab_open(state);
    tl_str_cut(&logged, 0);
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_INFO, keep_line, NULL, NULL}));
    return failed;
}

static int close_test(void **state)
{
    forget();
    tl_log_sink_remove(sink);
    tl_str_deinit(&logged);
    return lab_close(state);
}

/* Runs `tilth WORDS` and keeps what it wrote. */
static void run_list(const char *const *words)
{
    static const tl_main_options options;
    char *argv[24] = {"tilth"};
    int argc = 1;
    size_t out_size, err_size;
    forget();
    for (; *words; words++) argv[argc++] = (char *)(uintptr_t)*words;
    tli_tool tool = {.program = "tilth", .options = &options, .out = open_memstream(&out, &out_size),
                     .err = open_memstream(&err, &err_size), .width = 100};
    assert_non_null(tool.out);
    assert_non_null(tool.err);
    code = tli_tool_main(&tool, argc, argv);
    fclose(tool.out);
    fclose(tool.err);
}
#define run(...) run_list((const char *const[]){__VA_ARGS__, NULL})

static void ended(int expected, const char *message)
{
    if (code != expected) fail_msg("exit code %d, not %d: %s", code, expected, err);
    if (!strstr(err, message)) fail_msg("this is missing:\n%s\nin:\n%s", message, err);
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("this is missing:\n%s\nin:\n%s", part, text);
}

#define TABLE "train", "--experiment=table", "--mode=train_and_eval", "--progress=bar", "tilth.jit=false", "tilth.seed=1", \
              "tilth.threads=1"

/* The kind follows from the two numbers, but for a few. */
static void write_plants(const char *path, int rows)
{
    static const char *const soils[] = {"sand", "clay", "NA"};
    tl_str s = TL_STR_INIT;
    tl_rng rng;
    tl_rng_init(&rng, 5);
    tl_str_add(&s, "name,height,soil,kind\r\n");
    for (int i = 0; i < rows; i++) {
        double height = tl_rng_uniform_f64(&rng);
        tl_str_addf(&s, "\"plant %d, green\",%.3f,%s,%s\r\n", i, height, soils[tl_rng_below(&rng, 3)],
                    height > 0.5 || i % 20 == 0 ? "tree" : "herb");
    }
    assert_ok(tl_file_write_atomic(path, tl_str_text(&s), s.length));
    tl_str_deinit(&s);
}

static void test_one_command(void **state)
{
    (void)state;
    write_plants("plants.csv", 240);
    run(TABLE, "--model_dir=run", "task.train_data.input_path=plants.csv", "trainer.train_steps=120");
    ended(0, "");
    has(tl_str_text(&logged), "plants.csv: 240 rows, 4 columns, separated by ',', named by the first line\n"
                              "  target: kind (the last column; task.target=NAME for another), classification: 2 classes: "
                              "herb ");
    has(tl_str_text(&logged), "\n  numbers: height\n  categories: soil (2 values, ");
    has(tl_str_text(&logged), "\n  left out: name (different in every row)\n  for validation: ");
    has(out, "\n  accuracy ");
    has(out, "\n  balanced_accuracy ");
    has(out, "mistakes, most frequent first:\n  ");
    has(out, "mistakes it was surest of:\n  plants.csv:");
    has(out, "\n  tilth predict --model_dir=run NEW.csv\n");
    run("eval", "--model_dir=run");
    ended(0, "");
    has(out, "\naccuracy ");
    has(out, "mistakes, most frequent first:\n  ");
    // Rows with the answers behind them.
    static const char rows[] = "soil;height;note\nclay;0.9;\"a \"\"b\"\", c\"\n?;0.05;\n";
    assert_ok(tl_file_write_atomic("new.csv", rows, sizeof rows - 1));
    run("predict", "--model_dir=run", "--csv", "new.csv");
    ended(0, "");
    has(out, "soil,height,note,predicted kind,probability\nclay,0.9,\"a \"\"b\"\", c\",tree,0.");
    has(out, "\n?,0.05,,herb,0.");
    // The run has its schema: the table may have changed since, and is not looked at.
    tl_str_cut(&logged, 0);
    run("eval", "--model_dir=run", "--checkpoint=best", "task.validation_data.input_path=plants.csv");
    ended(0, "");
    assert_null(strstr(tl_str_text(&logged), "left out: name"));
}

static void test_where_values_come_from(void **state)
{
    (void)state;
    write_plants("plants.csv", 100);
    run("params", "--experiment=table", "task.train_data.input_path=plants.csv", "--explain");
    ended(0, "");
    has(out, "# the data");
    run("params", "--experiment=table");
    ended(0, "");
    has(out, "schema: null");
}

static void test_mistakes_are_told(void **state)
{
    (void)state;
    write_plants("plants.csv", 100);
    run(TABLE, "--model_dir=run");
    ended(2, "the experiment 'table' lacks 1 setting:\n    task.train_data.input_path   ");
    run(TABLE, "--model_dir=run", "task.train_data.input_path=plants.csv", "task.target=kin");
    ended(2, "task.target: 'plants.csv' has no column 'kin', did you mean 'kind'?; it has name, height, soil, kind");
    assert_ok(tl_file_write_atomic("bad.csv", "a,b\n1,2\n3\n", 10));
    run(TABLE, "--model_dir=run", "task.train_data.input_path=bad.csv");
    ended(1, "bad.csv:3: the row has 1 cell, and the first line has 2");
    assert_false(tl_dir_exists("run"));
}

#define TABLE_TEST(f) cmocka_unit_test_setup_teardown(f, open_test, close_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(test_one_command),
        TABLE_TEST(test_where_values_come_from),
        TABLE_TEST(test_mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
