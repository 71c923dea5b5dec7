/* What the program does when it is used carelessly: the same command twice, numbers that cannot be meant, paths that no
 * shell has seen. */
#include "zoo/zoo_lab.h"

#include "tool/tool.h"

static char *out, *err;
static int code;

static void forget(void)
{
    free(out);
    free(err);
    out = err = NULL;
}

static int close_test(void **state)
{
    forget();
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
#define SMALL "--experiment=vision/local", "tilth.seed=1", "tilth.threads=1", "tilth.jit=false"

static void ended(int expected, const char *message)
{
    if (code != expected) fail_msg("exit code %d, not %d: %s", code, expected, err);
    if (*message && !strstr(err, message)) fail_msg("this is missing:\n%s\nin:\n%s", message, err);
}

static void has(const char *part)
{
    if (!strstr(out, part)) fail_msg("this is missing:\n%s\nin:\n%s", part, out);
}

static void lacks(const char *part)
{
    if (strstr(out, part)) fail_msg("this should not be there:\n%s\nin:\n%s", part, out);
}

/* --- the same command twice ------------------------------------------------------------------- */

/* Whether a run that has come to its end is evaluated again does not depend on where its intervals lie. */
static void test_a_finished_run_is_not_evaluated_again(void **state)
{
    (void)state;
    static const char *const intervals[] = {"trainer.checkpoint_interval=2", "trainer.checkpoint_interval=3",
                                            "trainer.checkpoint_interval=1000"};
    for (int i = 0; i < TL_COUNT(intervals); i++) {
        char folder[32], second[64];
        snprintf(folder, sizeof folder, "--model_dir=run%d", i);
        snprintf(second, sizeof second, "trainer.validation_interval=%d", i + 2);
        for (int again = 0; again < 3; again++) {
            run("train", SMALL, "--mode=train_and_eval", folder, "--progress=bar", "trainer.train_steps=4",
                "trainer.steps_per_loop=1", "trainer.summary_interval=1", intervals[i], second,
                "trainer.validation_steps=1");
            ended(0, "");
            has("\ndone: step 4, in ");
            if (again) {
                has("\nnothing was trained: the run had come to its end, trainer.train_steps=4, before; a greater one "
                    "goes on\n");
                lacks("accuracy");
            } else {
                lacks("nothing was trained");
                has("step 4:  accuracy ");
            }
        }
    }
}

/* --- names that are long ---------------------------------------------------------------------- */

static void test_numbers_stand_below_each_other(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    tl_logs *logs;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_logs_put(logs, "loss", 0.5));
    assert_ok(tl_logs_put(logs, "accuracy_of_the_class_ankle_boot", 0.25));
    assert_ok(tl_logs_put(logs, "steps_per_second", 3));
    assert_ok(tl_logs_put(logs, "gr\xc3\xb6\xc3\x9f" "e", 1e30));
    assert_ok(tli_add_numbers(&text, logs, 2, 4, "steps_per_second"));
    assert_string_equal(tl_str_text(&text),
                        "  loss                             0.5000\n"
                        "  accuracy_of_the_class_ankle_boot 0.2500\n"
                        "  gr\xc3\xb6\xc3\x9f" "e                            1e+30\n");
    tl_logs_free(&logs);
    tl_str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_finished_run_is_not_evaluated_again, lab_open, close_test),
        cmocka_unit_test(test_numbers_stand_below_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
