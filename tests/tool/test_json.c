/* --json of commands that tell what there is. */
#include "tool/tool_lab.h"

#include <jansson.h>

static json_t *parsed(void)
{
    json_error_t error;
    json_t *json = json_loads(out, JSON_REJECT_DUPLICATES, &error);
    if (!json) fail_msg("no JSON: %s, in:\n%s", error.text, out);
    return json;
}

/* The object of a list that has this text under this key; NULL: there is none. */
static json_t *with(json_t *list, const char *key, const char *text)
{
    size_t i;
    json_t *one;
    assert_true(json_is_array(list));
    json_array_foreach(list, i, one)
    {
        const char *found = json_string_value(json_object_get(one, key));
        if (found && strcmp(found, text) == 0) return one;
    }
    return NULL;
}

static void assert_text(json_t *object, const char *key, const char *wanted)
{
    const char *found = json_string_value(json_object_get(object, key));
    if (!found || strcmp(found, wanted) != 0)
        fail_msg("%s: '%s', not '%s'", key, found ? found : "none", wanted);
}

static void test_list(void **state)
{
    (void)state;
    run("list", "--json");
    ended(0, "");
    json_t *all = parsed();
    assert_non_null(with(json_object_get(all, "experiments"), "name", "vision/local"));
    assert_text(with(json_object_get(all, "optimizers"), "name", "adamw"), "help",
                "Adam with decoupled weight decay, as BERT is trained with");
    json_decref(all);
    run("list", "optimizer", "--json");
    all = parsed();
    assert_int_equal(json_object_size(all), 1);
    assert_non_null(with(json_object_get(all, "optimizers"), "name", "sgd"));
    json_decref(all);
    run("list", "kinds", "--json");
    all = parsed();
    assert_non_null(with(json_object_get(all, "kinds"), "name", "experiments"));
    json_decref(all);
    run("list", "--json", "--names");
    ended(2, "--names and --json cannot be combined");
}

static void test_describe(void **state)
{
    (void)state;
    run("describe", "adamw", "--json");
    ended(0, "");
    json_t *all = parsed(), *fields = json_object_get(all, "fields");
    assert_text(all, "name", "adamw");
    assert_text(all, "kind", "optimizer");
    assert_near(json_real_value(json_object_get(with(fields, "key", "beta_1"), "default")), 0.9, 0);
    assert_true(json_is_false(json_object_get(with(fields, "key", "amsgrad"), "default")));
    assert_true(json_is_null(json_object_get(with(fields, "key", "clipnorm"), "default")));
    assert_text(with(fields, "key", "beta_1"), "help",
                "decay of the average of gradients (from 0 to 1)");
    json_decref(all);
    run("describe", "experiment:vision/local", "trainer.optimizer_config", "--json");
    ended(0, "");
    all = parsed();
    fields = json_object_get(all, "fields");
    assert_non_null(with(fields, "key", "trainer.optimizer_config.learning_rate.type"));
    assert_null(with(fields, "key", "trainer.train_steps"));
    json_decref(all);
    run("describe", "experiment:vision/local", "--json");
    all = parsed();
    json_t *steps = with(json_object_get(all, "fields"), "key", "trainer.train_steps");
    assert_true(json_is_integer(json_object_get(steps, "default")));
    assert_text(with(json_object_get(all, "fields"), "key", "trainer"), "type", "section");
    json_decref(all);
    run("describe", "optimizers", "--json");
    all = parsed();
    assert_non_null(with(json_object_get(all, "optimizers"), "name", "sgd"));
    json_decref(all);
    run("describe", "adamw", "nothing", "--json");
    ended(2, "there is no key 'nothing'");
    assert_string_equal(out, "");
}

static void test_ckpt_show(void **state)
{
    (void)state;
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run", "--progress=lines",
        "tilth.jit=false", "tilth.seed=7", "trainer.train_steps=2");
    ended(0, "");
    run("ckpt", "show", "run", "run/ckpt-2", "--json", "--stats");
    ended(0, "");
    json_t *all = parsed(), *files = json_object_get(all, "checkpoints"),
           *file = json_array_get(files, 0);
    assert_int_equal(json_array_size(files), 2);
    assert_text(file, "file", "run/ckpt-2.safetensors");
    assert_text(file, "format", "checkpoint");
    json_t *entries = json_object_get(file, "entries"),
           *step = with(entries, "path", "global_step");
    assert_int_equal(json_integer_value(json_object_get(step, "value")), 2);
    assert_text(step, "kind", "int");
    json_t *head = with(entries, "path", "model/head/bias");
    assert_text(head, "kind", "tensor");
    assert_text(head, "dtype", "float32");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(head, "shape"), 0)), 4);
    assert_int_equal(json_integer_value(json_object_get(head, "bytes")), 16);
    assert_true(json_is_real(json_object_get(head, "least")));
    assert_int_equal(json_integer_value(json_object_get(head, "not_finite")), 0);
    json_decref(all);
    run("ckpt", "show", "run", "nowhere", "--json");
    ended(2, "nowhere");
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TOOL_TEST(test_list), TOOL_TEST(test_describe),
                                       TOOL_TEST(test_ckpt_show)};
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
