/* A table of one's own, through the program: one command, what it says, what can be done with the
 * run, what cannot be. */
#include "tool/tool_lab.h"

#include <tilth/base/rng.h>
#include <tilth/builtin/predictor.h>

#define TABLE                                                                                      \
    "train", "--experiment=table", "--mode=train_and_eval", "--progress=bar", "tilth.jit=false",   \
        "tilth.seed=1", "tilth.threads=1"

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
        tl_str_addf(&s, "\"plant %d, green\",%.3f,%s,%s\r\n", i, height,
                    soils[tl_rng_below(&rng, 3)], height > 0.5 || i % 20 == 0 ? "tree" : "herb");
    }
    assert_ok(tl_file_write_atomic(path, tl_str_text(&s), s.length));
    tl_str_deinit(&s);
}

static void test_one_command(void **state)
{
    (void)state;
    write_plants("plants.csv", 240);
    run(TABLE, "--model_dir=run", "task.train_data.input_path=plants.csv",
        "trainer.train_steps=120");
    ended(0, "");
    logged("plants.csv: 240 rows, 4 columns, separated by ',', named by the first line\n"
           "  target: kind (the last column; task.target=NAME for another), classification: 2 "
           "classes: herb ");
    logged("\n  numbers: height\n  categories: soil (2 values, ");
    logged("\n  left out: name (different in every row)\n  for validation: ");
    has("\n  accuracy ");
    has("\n  balanced_accuracy ");
    has("mistakes, most frequent first:\n  ");
    has("mistakes it was surest of:\n  plants.csv:");
    has("\n  tilth predict --model_dir=run NEW.csv\n");
    run("eval", "--model_dir=run");
    ended(0, "");
    has("\naccuracy ");
    has("mistakes, most frequent first:\n  ");
    // Rows with the answers behind them.
    static const char rows[] = "soil;height;note\nclay;0.9;\"a \"\"b\"\", c\"\n?;0.05;\n";
    assert_ok(tl_file_write_atomic("new.csv", rows, sizeof rows - 1));
    run("predict", "--model_dir=run", "--csv", "new.csv");
    ended(0, "");
    has("soil,height,note,predicted kind,probability\nclay,0.9,\"a \"\"b\"\", c\",tree,0.");
    has("\n?,0.05,,herb,0.");
    // The run has its schema: the table may have changed since, and is not looked at.
    tl_str_cut(&tool_log, 0);
    run("eval", "--model_dir=run", "--checkpoint=best",
        "task.validation_data.input_path=plants.csv");
    ended(0, "");
    assert_null(strstr(tl_str_text(&tool_log), "left out: name"));
}

/* Files of other columns, rows that cannot be read, no rows, a delimiter that is not found out. */
static void test_tables_that_are_asked_about(void **state)
{
    (void)state;
    write_plants("plants.csv", 100);
    run(TABLE, "--model_dir=run", "task.train_data.input_path=plants.csv", "trainer.train_steps=2");
    ended(0, "");
    put_text("one.csv", "soil,height\nclay,0.9\n");
    put_text("turned.csv", "height,soil\n0.9,clay\n");
    run("predict", "--model_dir=run", "--csv", "one.csv", "turned.csv");
    ended(1, "column 1 of 'turned.csv' is called 'height', and that of the file before it 'soil': "
             "they do not make one table");
    assert_null(strstr(out, "0.9,clay"));
    run("predict", "--model_dir=run", "one.csv", "turned.csv"); // no table
    ended(0, "");
    put_text("bad.csv", "soil,height\nclay,0.9\nsand,0.1\nclay\nclay,0.7\n");
    run("predict", "--model_dir=run", "--csv", "bad.csv");
    ended(1, "bad.csv:4: the row has 1 cell, and the first line has 2");
    has("\nclay,0.9,");
    has("\nsand,0.1,");
    assert_non_null(strstr(err, "1 could not be read (see above); 2 could"));
    put_text("empty.csv", "soil,height\n");
    run("predict", "--model_dir=run", "--csv", "empty.csv");
    ended(0, "");
    assert_string_equal(out, "soil,height,predicted kind,probability\n");
    // A delimiter that nobody finds out is that of the run; one that is found goes on being found.
    tl_str colons = TL_STR_INIT;
    tl_str_add(&colons, "soil:height:kind\n");
    for (int i = 0; i < 40; i++)
        tl_str_addf(&colons, "%s:%d.5:%s\n", i % 3 ? "clay" : "sand", i % 7,
                    i % 7 > 3 ? "tree" : "herb");
    put_text("colons.txt", tl_str_text(&colons));
    tl_str_deinit(&colons);
    run(TABLE, "--model_dir=other", "task.train_data.input_path=colons.txt",
        "task.train_data.delimiter=:", "task.validation_data.delimiter=:", "trainer.train_steps=2");
    ended(0, "");
    run("predict", "--model_dir=other", "--csv", "colons.txt");
    ended(0, "");
    has("soil,height,kind,predicted kind,probability\nsand,0.5,herb,");
    run("predict", "--model_dir=other", "one.csv");
    ended(0, "");
    put_text("lacks.csv", "soil,size\nclay,0.9\n");
    run("predict", "--model_dir=other", "lacks.csv");
    ended(1, "'lacks.csv' has no column 'height', which the model needs");
}

/* A query is a row: of more than one nobody would know which was answered. */
static void test_queries_are_rows(void **state)
{
    (void)state;
    static const char one[] = "soil,height\nclay,0.9\n",
                      two[] = "soil,height\nclay,0.9\nsand,0.1\n", none[] = "soil,height\n";
    const tl_query q[] = {{.data = one, .size = sizeof one - 1},
                          {.data = two, .size = sizeof two - 1},
                          {.data = none, .size = sizeof none - 1}};
    tl_predictor *p;
    tl_predictions *answers;
    write_plants("plants.csv", 100);
    run(TABLE, "--model_dir=run", "task.train_data.input_path=plants.csv", "trainer.train_steps=2");
    ended(0, "");
    assert_ok(tl_predictor_open(&p, NULL, "run", NULL));
    assert_ok(tl_predictor_run(&answers, p, q, 3));
    assert_int_equal(answers->items[0].status, TL_OK);
    assert_int_equal(answers->items[1].status, TL_EINVAL);
    text_has(answers->items[1].message,
             "there is more than one row: ask about each in a query of its own");
    text_has(answers->items[2].message, "there is no row");
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
}

static void test_where_values_come_from(void **state)
{
    (void)state;
    write_plants("plants.csv", 100);
    run("params", "--experiment=table", "task.train_data.input_path=plants.csv", "--explain");
    ended(0, "");
    has("# the data");
    run("params", "--experiment=table");
    ended(0, "");
    has("schema: null");
}

static void test_an_export_replaces_an_older_one(void **state)
{
    (void)state;
    write_plants("plants.csv", 100);
    run(TABLE, "--model_dir=run", "task.train_data.input_path=plants.csv", "trainer.train_steps=2");
    ended(0, "");
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    has("out/schema.yaml: what the columns of a table are\n");
    assert_ok(tl_file_write_atomic("new.csv", "soil,height\nclay,0.9\n", 21));
    run("predict", "--model_dir=out", "--json", "new.csv");
    ended(0, "");
    has("{\"file\": \"new.csv:2\", \"class\": \"");
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=images",
        "trainer.train_steps=1", "tilth.jit=false");
    run("export", "--model_dir=images", "--to=out");
    ended(0, "");
    assert_true(tl_file_exists("out/preprocessing.json"));
    assert_false(tl_file_exists("out/schema.yaml"));
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    assert_false(tl_file_exists("out/preprocessing.json"));
}

static void test_mistakes_are_told(void **state)
{
    (void)state;
    write_plants("plants.csv", 100);
    run(TABLE, "--model_dir=run");
    ended(2, "the experiment 'table' lacks 1 setting:\n    task.train_data.input_path   ");
    run(TABLE, "--model_dir=run", "--gin_params=TableModel.units = [5]", "--nostrict_override",
        "--params_override=tilth.seed=3");
    ended(
        2,
        " train --experiment=table --mode=train_and_eval --model_dir=run \\\n"
        "      '--gin_params=TableModel.units = [5]' \\\n      --params_override=tilth.seed=3 \\\n"
        "      --strict_override=false \\\n      tilth.jit=false");
    run(TABLE, "--model_dir=run", "task.train_data.input_path=plants.csv", "task.target=kin");
    ended(2, "task.target: 'plants.csv' has no column 'kin', did you mean 'kind'?; it has name, "
             "height, soil, kind");
    assert_ok(tl_file_write_atomic("bad.csv", "a,b\n1,2\n3\n", 10));
    run(TABLE, "--model_dir=run", "task.train_data.input_path=bad.csv");
    ended(1, "bad.csv:3: the row has 1 cell, and the first line has 2");
    assert_false(tl_dir_exists("run"));
}

#define FOUR_STEPS                                                                                 \
    TABLE, "--progress=lines", "task.train_data.input_path=plants.csv", "trainer.train_steps=4"

static void test_gin_names_the_model(void **state)
{
    (void)state;
    write_plants("plants.csv", 100);
    run(FOUR_STEPS, "--model_dir=plain");
    ended(0, "");
    logged("Number of trainable params in model: 0.001340 Millions.");
    run(FOUR_STEPS, "--model_dir=bound", "--gin_params=TableModel.units = [5]");
    ended(0, "");
    logged("Number of trainable params in model: 0.000068 Millions.");
    assert_true(tl_file_exists("bound/bindings.gin"));
    run("eval", "--model_dir=bound"); // untold
    ended(0, "");
    run("params", "--experiment=table", "task.train_data.input_path=plants.csv", "--explain",
        "--gin_params=TableModel.units = [5]");
    has("# --gin_params 'TableModel.units = [5]'");
    run(FOUR_STEPS, "--model_dir=bad", "--gin_params=TableModel.unitz = [5]");
    ended(2, "'models.TableModel' has no parameter 'unitz', did you mean 'units'?");
    run(FOUR_STEPS, "--model_dir=bad", "--gin_params=TableModel.units = [5]",
        "task.model.units=[6]");
    ended(2, "task.model.units: gin binds another value to it");
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=bad",
        "trainer.train_steps=4", "--gin_params=TableModel.units = [5]");
    ended(2, "the binding has no effect: this run makes no TableModel");
    assert_false(tl_dir_exists("bad"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_one_command),
        TOOL_TEST(test_tables_that_are_asked_about),
        TOOL_TEST(test_queries_are_rows),
        TOOL_TEST(test_where_values_come_from),
        TOOL_TEST(test_an_export_replaces_an_older_one),
        TOOL_TEST(test_mistakes_are_told),
        TOOL_TEST(test_gin_names_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
