/* What the program does when it is used carelessly: the same command twice, numbers that cannot be
 * meant, paths that no shell has seen. */
#include "tool/tool_lab.h"

#include "train/trainer/trainer.h"

#define SMALL "--experiment=vision/local", "tilth.seed=1", "tilth.threads=1", "tilth.jit=false"

/* --- the same command twice ------------------------------------------------------------------- */

/* Whether a run that has come to its end is evaluated again does not depend on where its intervals
 * lie. */
static void test_a_finished_run_is_not_evaluated_again(void **state)
{
    (void)state;
    static const char *const intervals[] = {"trainer.checkpoint_interval=2",
                                            "trainer.checkpoint_interval=3",
                                            "trainer.checkpoint_interval=1000"};
    for (int i = 0; i < TL_COUNT(intervals); i++) {
        char folder[32], second[64];
        snprintf(folder, sizeof folder, "--model_dir=run%d", i);
        snprintf(second, sizeof second, "trainer.validation_interval=%d", i + 2);
        for (int again = 0; again < 3; again++) {
            run("train", SMALL, "--mode=train_and_eval", folder, "--progress=bar",
                "trainer.train_steps=4", "trainer.steps_per_loop=1", "trainer.summary_interval=1",
                intervals[i], second, "trainer.validation_steps=1");
            ended(0, "");
            has("\ndone: step 4, in ");
            if (again) {
                has("\nnothing was trained: the run has already reached its end, "
                    "trainer.train_steps=4; a greater number trains on\n");
                has_not("accuracy");
            } else {
                has_not("nothing was trained");
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
    assert_ok(tl_logs_put(logs,
                          "gr\xc3\xb6\xc3\x9f"
                          "e",
                          1e30));
    assert_ok(tli_add_numbers(&text, logs, 2, 4, "steps_per_second"));
    assert_string_equal(tl_str_text(&text), "  loss                             0.5000\n"
                                            "  accuracy_of_the_class_ankle_boot 0.2500\n"
                                            "  gr\xc3\xb6\xc3\x9f"
                                            "e                            1e+30\n");
    tl_logs_free(&logs);
    tl_str_deinit(&text);
}

/* --- what the machine cannot do --------------------------------------------------------------- */

static void test_a_batch_that_no_memory_holds_is_refused(void **state)
{
    (void)state;
    run("train", SMALL, "--mode=train", "--model_dir=run",
        "task.train_data.global_batch_size=100000000000");
    ended(2, "tilth train: task.train_data.global_batch_size: a batch of 100000000000 examples "
             "needs at least ");
    ended(2, " GiB of memory (");
    assert_false(tl_file_exists("run/ckpt-0.safetensors"));
    put_text("net.yaml",
             "model: {_target_: image_classification, num_classes: 3, input_size: [8, 8, 1],\n"
             "        backbone: {type: mlp, mlp: {units: [8]}}}\n"
             "dataloader: {train: {file_type: synthetic, synthetic_examples: 50}}\n"
             "train: {train_iter: 4, output_dir: net, evaluation: {enabled: false}}\n");
    run("train_net", "--config-file=net.yaml", "train.train_micro_batch_size=100000000000");
    ended(2, "tilth train_net: train.train_micro_batch_size: a batch of 100000000000 examples "
             "needs at least ");
    ended(2, "(with train.num_accumulation_steps several batches make one step)");
    assert_false(tl_file_exists("net"));
}

static void test_needs_of_a_batch(void **state)
{
    (void)state;
    lab_run r;
    tl_model *m;
    lab_begin(&r, "vision/local", NULL);
    assert_ok(tl_task_build_model(r.task, &m));
    // An example: 16 * 16 floats, and 16 * 16 * 8 results of conv_1, of two bytes at least.
    const tli_batch_keys keys = {"key", "other.key", "third.key=full"};
    double bytes = 1000 * (16 * 16 * 4 + 16 * 16 * 8 * 2);
    assert_ok(tli_check_batch_memory(m, keys, 1000, bytes));
    assert_fails(tli_check_batch_memory(m, keys, 1000, bytes - 1), TL_EINVAL,
                 "key: a batch of 1000 examples needs");
    assert_non_null(strstr(tl_error_message(), "'conv_1'"));
    assert_non_null(strstr(tl_error_message(), "(with other.key several batches make one step)"));
    assert_fails(tli_check_batch_memory(m, keys, INT64_MAX, 1e12), TL_EINVAL,
                 "key: a batch of 9223372036854775807");
    tl_model_free(&m);
    lab_end(&r);
}

/* --- words that no shell has seen ------------------------------------------------------------- */

static void test_home_is_found(void **state)
{
    (void)state;
    char *before = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("HOME", lab_folder, 1);
    run("train", SMALL, "--mode=train", "--model_dir=~/mine", "trainer.train_steps=1");
    ended(0, "");
    assert_true(tl_file_exists("mine/ckpt-1.safetensors"));
    assert_false(tl_dir_exists("~"));
    run("params", "--experiment=vision/local", "--config_file=~/mine/params.yaml",
        "task.init_checkpoint=~/a", "task.train_data.input_path=~/b,~/c",
        "task.validation_data.input_path=[~/d, e~, ./~f]");
    ended(0, "");
    char wanted[256];
    snprintf(wanted, sizeof wanted, "  init_checkpoint: %s/a\n", lab_folder);
    has(wanted);
    snprintf(wanted, sizeof wanted, "    input_path: %s/b,%s/c\n", lab_folder, lab_folder);
    has(wanted);
    snprintf(wanted, sizeof wanted, "    input_path: [%s/d, e~, ./~f]\n", lab_folder);
    has(wanted);
    run("train", SMALL, "--mode=train", "--model_dir=~nobody/mine");
    ended(2, "tilth train: --model_dir: '~nobody/mine': homes of other users are not looked up; "
             "write the whole path");
    if (before) setenv("HOME", before, 1);
    free(before);
}

/* --- names that only gin knows ---------------------------------------------------------------- */

static void test_nobody_hears_of_configurables(void **state)
{
    (void)state;
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run",
        "task.model.kernel_initializer=none_such");
    ended(2, "tilth train: model 'image_classifier'");
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run",
        "task.model.kernel_initializer=none_such",
        "--gin_params=create_trainer.trainer_cls = @Trainer");
    // who binds it, does
    ended(2, "tilth train: train_utils.create_trainer: model 'image_classifier'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_a_finished_run_is_not_evaluated_again),
        cmocka_unit_test(test_numbers_stand_below_each_other),
        TOOL_TEST(test_a_batch_that_no_memory_holds_is_refused),
        TOOL_TEST(test_needs_of_a_batch),
        TOOL_TEST(test_home_is_found),
        TOOL_TEST(test_nobody_hears_of_configurables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
