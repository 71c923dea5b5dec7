/* What an operator does: tries a run beforehand, is told of its events, looks at what several have
 * come to. */
#include "tool/tool_lab.h"

#include <jansson.h>

#define LOCAL                                                                                      \
    "--experiment=vision/local", "--mode=train_and_eval", "--progress=lines", "tilth.jit=false",   \
        "tilth.threads=1", "tilth.seed=1", "trainer.train_steps=4", "trainer.steps_per_loop=2",    \
        "trainer.summary_interval=2", "trainer.checkpoint_interval=2",                             \
        "trainer.validation_interval=4"

/* The events of a run, a letter each; every line is an object with a step and a time. */
static void events_of(char *letters, const char *path)
{
    char *text;
    assert_ok(tl_file_read(&text, NULL, path, 1 << 20));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *event = json_loads(line, 0, NULL);
        if (!event) fail_msg("no JSON: %s", line);
        assert_true(json_is_integer(json_object_get(event, "step")));
        assert_true(json_is_string(json_object_get(event, "time")));
        *letters++ = *json_string_value(json_object_get(event, "event"));
        json_decref(event);
    }
    *letters = '\0';
    tl_free(text);
}

static void test_every_event_is_a_line(void **state)
{
    (void)state;
    char letters[64];
    run("train", LOCAL, "--model_dir=run", "--dry_run");
    ended(0, "");
    has("dry run: everything works, and nothing was kept");
    assert_false(tl_dir_exists("run"));
    run("train", LOCAL, "--model_dir=run", "tilth.notify=cat >> told.jsonl");
    ended(0, "");
    events_of(letters, "run/metrics.jsonl");
    if (letters[0] != 's' || letters[strlen(letters) - 1] != 'e' || !strchr(letters, 't')
        || !strchr(letters, 'c'))
        fail_msg("the events are %s", letters);
    char told[64];
    events_of(told, "told.jsonl");
    assert_string_equal(told, letters); // each of them, in order
    run("eval", "--model_dir=run", "--json");
    ended(0, "");
    json_t *result = json_loads(out, 0, NULL);
    assert_non_null(result);
    assert_true(json_is_number(json_object_get(json_object_get(result, "metrics"), "accuracy")));
    json_decref(result);
}

static void test_runs_are_compared(void **state)
{
    (void)state;
    run("train", LOCAL, "--model_dir=runs/a");
    ended(0, "");
    run("train", LOCAL, "--model_dir=runs/b", "trainer.optimizer_config.optimizer.adam.beta_1=0.5");
    ended(0, "");
    run("compare", "runs/a", "runs/b", "runs/none");
    assert_int_equal(code, 1); // what is there is shown all the same
    run("compare", "runs/a", "runs/b");
    ended(0, "");
    has("beta_1");
    has("accuracy");
    run("plot", "runs/a", "runs/b", "--metric=training_loss", "--svg=loss.svg");
    ended(0, "");
    char *svg;
    assert_ok(tl_file_read(&svg, NULL, "loss.svg", 1 << 20));
    assert_non_null(strstr(svg, "<svg"));
    tl_free(svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_every_event_is_a_line),
        TOOL_TEST(test_runs_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
