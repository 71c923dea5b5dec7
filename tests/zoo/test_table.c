/* The experiment `table`: a file is enough, what is given stays, it learns classes and numbers, a
 * run that was interrupted ends with the same bytes, evaluations name the worst rows, new files are
 * answered by the stored schema. */
#include "zoo/zoo_lab.h"

#include <math.h>

#include <tilth/base/rng.h>
#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/train/run/launch.h>
#include <tilth/zoo/table.h>

/* --- tables ----------------------------------------------------------------------------------- */

/* price = 3 area (twice that in Oslo) + noise; some areas and cities are missing. `broken` is a
 * line whose price is nonsense. */
static void write_houses(const char *path, int rows, int broken)
{
    static const char *const cities[] = {"Rome", "Oslo", ""};
    tl_str s = TL_STR_INIT;
    tl_rng rng;
    tl_rng_init(&rng, 1);
    tl_str_add(&s, "id,area,city,price\n");
    for (int i = 0; i < rows; i++) {
        double area = 20 + 100 * tl_rng_uniform_f64(&rng);
        int city = (int)tl_rng_below(&rng, 3);
        double price = 3 * area * (city == 1 ? 2 : 1) + tl_rng_normal_f64(&rng);
        if (i + 2 == broken) price = 5000;
        if (i % 11 == 3) tl_str_addf(&s, "%d,,%s,%.2f\n", i, cities[city], price);
        else tl_str_addf(&s, "%d,%.2f,%s,%.2f\n", i, area, cities[city], price);
    }
    assert_ok(tl_str_status(&s));
    assert_ok(tl_file_write_atomic(path, tl_str_text(&s), s.length));
    tl_str_deinit(&s);
}

/* A point in the plane is within a ring or not. */
static void write_ring(const char *path, int rows, bool header)
{
    tl_str s = TL_STR_INIT;
    tl_rng rng;
    tl_rng_init(&rng, 2);
    if (header) tl_str_add(&s, "x;y;place\n");
    for (int i = 0; i < rows; i++) {
        double x = tl_rng_normal_f64(&rng), y = tl_rng_normal_f64(&rng);
        tl_str_addf(&s, "%.4f;%.4f;%s\n", x, y, x * x + y * y < 1.4 ? "inside" : "outside");
    }
    assert_ok(tl_file_write_atomic(path, tl_str_text(&s), s.length));
    tl_str_deinit(&s);
}

/* --- runs ------------------------------------------------------------------------------------- */

static tl_status launch(tl_logs *logs, const char *folder, const char *yaml)
{
    tl_config *c;
    TL_TRY(lab_parse(&c, "table", yaml));
    return lab_launch(logs, &c, folder);
}

#define HOUSES "task: {train_data: {input_path: houses.csv}, target: price}\n"
#define OWN "tilth: {seed: 3, threads: 1, jit: false}\n"

static void text_has(const tl_logs *logs, const char *part)
{
    tl_logs_entry e;
    assert_true(tl_logs_find(&e, logs, "report"));
    if (!strstr(e.text, part)) fail_msg("this is missing:\n%s\nin:\n%s", part, e.text);
}

static void test_numbers_are_learned(void **state)
{
    (void)state;
    tl_logs *logs;
    write_houses("houses.csv", 600, 101);
    assert_ok(tl_logs_new(&logs));
    assert_ok(launch(
        logs, "run",
        "task: {train_data: {input_path: houses.csv}, validation_data: {input_path: houses.csv}}\n"
        "tilth: {seed: 3, threads: 1, jit: false, early_stopping: null}\n"
        "trainer: {train_steps: 600}\n"));
    assert_true(tl_logs_number_or(logs, "mean_absolute_error", 1e9) < 100);
    // in units of the table
    assert_true(tl_logs_number_or(logs, "root_mean_squared_error", 0) > 20);
    text_has(logs, "errors of 'price': 50 % within ");
    text_has(logs, "worst rows:\n  houses.csv:101: price 5000, predicted ");
    tl_logs_free(&logs);
    // The schema is in params.yaml, and in the checkpoint.
    tl_checkpoint *c;
    assert_ok(tl_checkpoint_open(&c, "run/ckpt-600.safetensors"));
    const char *note = tl_checkpoint_note(c, "schema");
    assert_non_null(note);
    assert_non_null(strstr(note, "numbers: [area]"));
    assert_non_null(strstr(note, "ignored: [id]"));
    tl_checkpoint_free(&c);
}

static void test_classes_are_learned(void **state)
{
    (void)state;
    tl_logs *logs;
    double accuracy;
    write_ring("ring.csv", 800, false);
    write_ring("more.csv", 100, false);
    assert_ok(tl_logs_new(&logs));
    assert_ok(launch(
        logs, "run",
        "task: {train_data: {input_path: ring.csv}, validation_data: {input_path: more.csv}}\n" OWN
        "trainer: {train_steps: 400}\n"));
    assert_ok(tl_logs_number(&accuracy, logs, "accuracy"));
    assert_true(accuracy > 0.85); // the largest class alone would be right half the time
    assert_true(tl_logs_number_or(logs, "balanced_accuracy", 0) > 0.8);
    assert_true(tl_logs_number_or(logs, "auc", 0) > 0.9);
    if (accuracy < 1) text_has(logs, "mistakes, most frequent first:\n  ");
    if (accuracy < 1) text_has(logs, "  more.csv:");
    tl_logs_free(&logs);
}

/* Whatever the threads do, and wherever it stopped. */
static void test_a_run_goes_on_with_the_same_bytes(void **state)
{
    (void)state;
    static const char all[] =
        HOUSES "tilth: {seed: 3, threads: 1, jit: false}\n"
               "trainer: {train_steps: 40, checkpoint_interval: 20, steps_per_loop: 10, "
               "summary_interval: 10, validation_interval: 20, optimizer_config: {learning_rate: "
               "{cosine: {decay_steps: 40}}, warmup: {linear: {warmup_steps: 3}}}}\n";
    char threads[sizeof all], fewer[sizeof all];
    strcpy(threads, all);
    *strstr(strstr(threads, "threads"), "1") = '3';
    strcpy(fewer, all);
    memcpy(strstr(fewer, "train_steps: 40"), "train_steps: 13", 15);
    write_houses("houses.csv", 200, 0);
    assert_ok(launch(NULL, "a", all));
    assert_ok(launch(NULL, "b", fewer));
    assert_ok(launch(NULL, "b", all));
    assert_ok(launch(NULL, "c", threads));
    assert_same_file("a/ckpt-40.safetensors", "b/ckpt-40.safetensors");
    assert_same_file("a/ckpt-40.safetensors", "c/ckpt-40.safetensors");
}

/* --- configuration ---------------------------------------------------------------------------- */

static void test_what_is_given_stays(void **state)
{
    (void)state;
    tl_config *c;
    write_houses("houses.csv", 200, 0);
    assert_ok(lab_parse(&c, "table",
                        HOUSES "trainer: {train_steps: 80, optimizer_config: {learning_rate: "
                               "{cosine: {initial_learning_rate: 0.5}}}}\n"));
    const tl_experiment_config *e = tl_config_value(c);
    const tl_trainer_config *t = e->trainer.value;
    const tl_table_task_config *task = e->task.value;
    const tl_cosine_config *rate = t->optimizer_config.learning_rate.value;
    assert_int_equal(t->train_steps, 80);
    assert_int_equal(t->validation_interval, 2);
    assert_true(rate->initial_learning_rate.value == 0.5);
    assert_int_equal(rate->decay_steps.value, 80);
    assert_string_equal(tl_config_source(c, "trainer.train_steps"), "test.yaml:2:24");
    assert_string_equal(tl_config_source(c, "trainer.validation_interval"), "the data");
    assert_string_equal(t->optimizer_config.optimizer.type, "adamw");
    assert_non_null(task->schema);
    assert_int_equal(task->schema->kind, TL_TABLE_REGRESSION);
    assert_int_equal(((const tl_table_data_config *)task->base.train_data)->header, TL_HEADER_YES);
    assert_int_equal(task->base.train_data->global_batch_size, 16);
    tl_config_free(&c);
}

/* As params.yaml of a run that goes on says it: the table is not looked at again. */
static void test_a_stored_schema_is_taken(void **state)
{
    (void)state;
    tl_config *c, *again;
    tl_str text = TL_STR_INIT;
    write_houses("houses.csv", 200, 0);
    assert_ok(lab_parse(&c, "table", HOUSES));
    assert_ok(tl_yaml_write(&text, tl_config_desc(c), tl_config_value(c)));
    write_ring("houses.csv", 50, true);
    assert_ok(lab_parse(&again, "table", tl_str_text(&text)));
    assert_true(tl_desc_equal(tl_config_desc(c), tl_config_value(c), tl_config_value(again)));
    tl_config_free(&again);
    char *target = strstr(text.data, "\n  target: price");
    assert_non_null(target);
    memcpy(target + 11, "prine", 5);
    assert_fails(lab_parse(&again, "table", tl_str_text(&text)), TL_EINVAL,
                 "target: the schema is for 'price'");
    memcpy(target + 11, "price", 5);
    lab_run r;
    lab_begin(&r, "table", tl_str_text(&text));
    tl_dataset *d;
    assert_fails(
        tl_task_build_inputs(r.task, r.task->config->train_data,
                             &(tl_input_context){.pipelines = 1, .replicas = 1}, &d),
        TL_ENOTFOUND,
        "task.train_data: input_path: 'houses.csv' has no column 'area', which the model needs");
    lab_end(&r);
    tl_config_free(&c);
    tl_str_deinit(&text);
}

static void refused(const char *yaml, const char *message)
{
    tl_status st = launch(NULL, "refused", yaml);
    if (st == TL_OK) fail_msg("this was accepted: %s", yaml);
    if (!strstr(tl_error_message(), message))
        fail_msg("%s\nsays: %s\nnot: %s", yaml, tl_error_message(), message);
}

static void test_what_cannot_be_is_told(void **state)
{
    (void)state;
    write_houses("houses.csv", 100, 0);
    write_ring("ring.csv", 100, true);
    refused("{}",
            "no table is named: say task.train_data.input_path=FILE.csv, and task.target=COLUMN");
    refused("task: {train_data: {input_path: nowhere.csv}}",
            "task.train_data.input_path: 'nowhere.csv' does not exist");
    refused("task: {train_data: {input_path: houses.csv}, target: prize}",
            "task.target: 'houses.csv' has no column 'prize', did you mean 'price'?; it has id, "
            "area, city, price");
    refused("task: {train_data: {input_path: houses.csv}, kind: classification}",
            "the column 'price', the target, has 100 different values in 100 rows");
    refused("task: {train_data: {input_path: houses.csv}, validation_data: {input_path: ring.csv}}",
            "task.validation_data: input_path: 'ring.csv' has no column 'area'");
    refused("task: {train_data: {input_path: {a: houses.csv}}}",
            "task.train_data.input_path is a map");
    refused("task: {train_data: {input_path: houses.csv, delimiter: ab}}",
            "delimiter: expected one character, or tab");
    refused("task: {train_data: {input_path: houses.csv}, validation_split: 0.0001}",
            "too few to hold some of them out");
}

/* --- answers ---------------------------------------------------------------------------------- */

typedef struct answers {
    int rows;
    int64_t line;
    double value, shares;
    char class_name[32], first[32];
} answers;

static tl_status keep_answer(const tl_table_answer *a, void *payload)
{
    answers *k = payload;
    k->rows++;
    k->line = a->line;
    k->value = a->value;
    snprintf(k->class_name, sizeof k->class_name, "%s", a->class_name ? a->class_name : "");
    snprintf(k->first, sizeof k->first, "%.*s", (int)a->cells[0].length, a->cells[0].text);
    k->shares = 0;
    for (int64_t i = 0; i < a->classes; i++) k->shares += (double)a->shares[i];
    return k->rows == 1000 ? TL_FAIL(TL_ESTOPPED, "enough") : TL_OK;
}

static tl_status predict(answers *out, lab_run *r, const char *text)
{
    *out = (answers){0};
    assert_ok(tl_file_write_atomic("new.csv", text, strlen(text)));
    return tl_table_predict(&(tl_table_predict_args){.model = r->trainer->model,
                                                     .task = r->params->task.value,
                                                     .engine = tl_strategy_engine(r->strategy),
                                                     .path = "new.csv",
                                                     .batch_size = 2,
                                                     .row = keep_answer,
                                                     .payload = out});
}

static void test_new_rows_are_answered(void **state)
{
    (void)state;
    lab_run r;
    answers k;
    write_ring("ring.csv", 300, true);
    lab_train(&r, "table",
              "task: {train_data: {input_path: ring.csv}}\n" OWN "trainer: {train_steps: 300}\n");
    assert_ok(tl_trainer_train(r.trainer, 300, r.logs));
    assert_ok(predict(&k, &r, "more,y,x\nq,0.1,-0.1\nq,2,2\n\nz,3,-1\n"));
    assert_int_equal(k.rows, 3);
    assert_int_equal(k.line, 5);
    assert_string_equal(k.class_name, "outside");
    assert_string_equal(k.first, "z");
    assert_near(k.shares, 1, 1e-5);
    assert_ok(predict(&k, &r, "x;y\n0;0\n"));
    assert_string_equal(k.class_name, "inside");
    assert_ok(predict(&k, &r, "x;y\n"));
    assert_int_equal(k.rows, 0);
    assert_fails(predict(&k, &r, "x;z\n0;0\n"), TL_ENOTFOUND,
                 "'new.csv' has no column 'y', which the model needs");
    assert_fails(predict(&k, &r, "x;y\n0;0\n1\n"), TL_EDATA, "new.csv:3: the row has 1 cell");
    lab_end(&r);
}

/* A model of one layer of each kind has the parameters that it should. */
static void test_parameters_have_names(void **state)
{
    (void)state;
    lab_run r;
    write_houses("houses.csv", 200, 0);
    lab_train(&r, "table",
              OWN "task: {train_data: {input_path: houses.csv}, target: price, model: {units: [8], "
                  "batch_norm: true, embedding_size: 3}}\n");
    static const struct {
        const char *path;
        int64_t rows, columns;
    } wanted[] = {{"embedding/table", 4, 3},
                  {"dense_1/kernel", 5, 8},
                  {"norm_1/gamma", 8, 0},
                  {"linear/kernel", 5, 1},
                  {"head/kernel", 8, 1}};
    for (int i = 0; i < TL_COUNT(wanted); i++) {
        const tl_param *p = tl_model_find(r.trainer->model, wanted[i].path);
        if (!p) fail_msg("there is no %s", wanted[i].path);
        assert_int_equal(p->tensor->shape.dims[0], wanted[i].rows);
        if (wanted[i].columns) assert_int_equal(p->tensor->shape.dims[1], wanted[i].columns);
    }
    lab_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_numbers_are_learned),
        LAB_TEST(test_classes_are_learned),
        LAB_TEST(test_a_run_goes_on_with_the_same_bytes),
        LAB_TEST(test_what_is_given_stays),
        LAB_TEST(test_a_stored_schema_is_taken),
        LAB_TEST(test_what_cannot_be_is_told),
        LAB_TEST(test_new_rows_are_answered),
        LAB_TEST(test_parameters_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
