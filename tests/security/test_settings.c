/* Settings that name something in the model's folder, and would lead out of it. */
#include "security/run_lab.h"

static void test_settings_that_lead_out(void **state)
{
    (void)state;
    static const char *const words[] = {
        "trainer.validation_summary_subdir=../out",
        "trainer.validation_summary_subdir=/tmp/out",
        "trainer.best_checkpoint_export_subdir=a/../../out",
        "trainer.best_checkpoint_export_subdir=..",
    };
    char key[96];
    begin_run("run");
    for (int i = 0; i < TL_COUNT(words); i++) {
        snprintf(key, sizeof key, "command line: %.*s: must name something in the model's folder",
                 (int)strcspn(words[i], "="), words[i]);
        run("params", "--experiment=vision/local", words[i]);
        ended(2, key);
        train_on("run", 4, words[i]);
        ended(2, key);
    }
    run("params", "--experiment=vision/local", "trainer.validation_summary_subdir=a..b/..c");
    ended(0, "");
    char *text; // of a stranger's run
    assert_ok(tl_file_read(&text, NULL, "run/params.yaml", 1 << 20));
    tl_str changed = TL_STR_INIT;
    char *at = strstr(text, "validation_summary_subdir: validation");
    assert_non_null(at);
    tl_str_addn(&changed, text, (size_t)(at - text));
    tl_str_addf(&changed, "validation_summary_subdir: ../out%s", strchr(at, '\n'));
    put_text("run/params.yaml", tl_str_text(&changed));
    tl_str_deinit(&changed);
    tl_free(text);
    run("eval", "--model_dir=run");
    ended(2, "params.yaml:");
    ended(2, "trainer.validation_summary_subdir: must name something in the model's folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_settings_that_lead_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
