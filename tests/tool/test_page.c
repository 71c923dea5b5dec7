/* What an evaluation leaves for the page: `eval --page`, of pictures, texts and rows. */
#include "tool/tool_lab.h"

#include <jansson.h>

/* A file of JSON, to be given back with json_decref. */
static json_t *read_json(const char *path)
{
    json_error_t error;
    json_t *j = json_load_file(path, 0, &error);
    if (!j) fail_msg("%s: %s", path, error.text);
    return j;
}

static int64_t wrong_of(const char *path)
{
    json_t *j = read_json(path), *counts = json_object_get(j, "counts");
    int64_t wrong = 0;
    for (size_t i = 0; i < json_array_size(counts); i++)
        for (size_t k = 0; k < json_array_size(counts); k++)
            wrong += i == k ? 0 : json_integer_value(json_array_get(json_array_get(counts, i), k));
    json_decref(j);
    return wrong;
}

/* As many are wrong as the confusion says; the surest come first. */
static json_t *check_mistakes(const char *folder, double seen)
{
    json_t *j = read_json(tl_arena_printf(lab_arena, "%s/mistakes.json", folder));
    json_t *examples = json_object_get(j, "examples");
    int64_t wrong = wrong_of(tl_arena_printf(lab_arena, "%s/confusion.json", folder));
    assert_int_equal(json_integer_value(json_object_get(j, "wrong")), wrong);
    assert_near((double)json_integer_value(json_object_get(j, "seen")), seen, 0);
    assert_int_equal(json_array_size(examples), wrong < 24 ? wrong : 24);
    double last = 1;
    for (size_t i = 0; i < json_array_size(examples); i++) {
        json_t *e = json_array_get(examples, i);
        double p = json_number_value(json_object_get(e, "probability"));
        assert_true(p > 0 && p <= last);
        last = p;
        assert_string_not_equal(json_string_value(json_object_get(e, "label")),
                                json_string_value(json_object_get(e, "answer")));
    }
    return j;
}

static void pictures_are_shown(void **state)
{
    (void)state;
    train_local("run", NULL);
    run("eval", "--model_dir=run", "--page");
    ended(0, "");
    has("mistakes, most frequent first:");
    json_t *j = check_mistakes("run", 512);
    assert_true(json_array_size(json_object_get(j, "examples")) > 0);
    const char *image = json_string_value(
        json_object_get(json_array_get(json_object_get(j, "examples"), 0), "image"));
    assert_non_null(image);
    assert_memory_equal(image, "data:image/png;base64,iVBORw0KGgo", 33);
    json_decref(j);
}

static void put_table(const char *path)
{
    tl_str s = TL_STR_INIT;
    tl_str_add(&s, "size,note,kind,price\n");
    for (int i = 0; i < 200; i++) // every seventh kind is another one than its size says
        tl_str_addf(&s, "%d,\"a, %d\",%s,%d\n", i % 20, i % 3,
                    (i % 20 > 9) == (i % 7 > 0) ? "large" : "small",
                    i % 20 * 10 + (i % 7 ? 0 : 500));
    put_text(path, tl_str_text(&s));
    tl_str_deinit(&s);
}

#define TRAIN(folder, target)                                                                      \
    run("train", "--experiment=table", "--mode=train", "--model_dir=" folder, "--progress=lines",  \
        "task.train_data.input_path=t.csv", "task.target=" target, "trainer.train_steps=40",       \
        "tilth.jit=false", "tilth.seed=1", "tilth.threads=1")

static void rows_are_shown(void **state)
{
    (void)state;
    put_table("t.csv");
    TRAIN("classes", "kind");
    ended(0, "");
    run("eval", "--model_dir=classes", "--page");
    ended(0, "");
    json_t *j = read_json("classes/mistakes.json");
    json_decref(check_mistakes("classes", (double)json_integer_value(json_object_get(j, "seen"))));
    const char *name, *size, *note, *kind, *label;
    assert_int_equal(json_unpack(json_array_get(json_object_get(j, "examples"), 0),
                                 "{s:s, s:s, s:{s:s, s:s, s:s}}", "name", &name, "label", &label,
                                 "row", "size", &size, "note", &note, "kind", &kind),
                     0);
    int line = atoi(name + strlen("t.csv:")), i = line - 2; // below the names of the columns
    assert_memory_equal(name, "t.csv:", 6);
    assert_string_equal(size, tl_arena_printf(lab_arena, "%d", i % 20));
    assert_string_equal(note, tl_arena_printf(lab_arena, "a, %d", i % 3));
    assert_string_equal(kind, label);
    json_decref(j);
}

static void errors_are_shown(void **state)
{
    (void)state;
    put_table("t.csv");
    TRAIN("numbers", "price");
    ended(0, "");
    run("eval", "--model_dir=numbers", "--page");
    ended(0, "");
    assert_false(tl_file_exists("numbers/confusion.json"));
    json_t *j = read_json("numbers/mistakes.json");
    json_t *examples = json_object_get(j, "examples");
    double last = INFINITY;
    assert_int_equal(json_array_size(examples), 24);
    for (size_t i = 0; i < 24; i++) {
        double label, answer;
        const char *price;
        assert_int_equal(json_unpack(json_array_get(examples, i), "{s:F, s:F, s:{s:s}}", "label",
                                     &label, "answer", &answer, "row", "price", &price),
                         0);
        assert_near(label, atof(price), 0.01); // in the table's own units
        assert_true(fabs(answer - label) <= last);
        last = fabs(answer - label);
    }
    json_decref(j);
}

static void others_are_refused(void **state)
{
    (void)state;
    train_local("run", NULL);
    run("eval", "--model_dir=run", "--page", "task.validation_data.synthetic_examples=64");
    ended(2, "--page: this is not the run's own evaluation");
    assert_false(tl_file_exists("run/mistakes.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(pictures_are_shown),
        TOOL_TEST(rows_are_shown),
        TOOL_TEST(errors_are_shown),
        TOOL_TEST(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
