/* The commands of the documents that say what a training library must do (docs/requirements), with
 * the flags that they have there: they run, or say that their experiment is not here and which are.
 * The pages quote them as they are here. needs: no sanitizer */
#include "tool/shell_lab.h"

#define PAGE TEST_DATA "/../docs/requirements/3-training-library.md"
#define SHIPPED                                                                                    \
    "(there are: fashion_mnist/cnn, fashion_mnist/mlp, fashion_mnist/resnet, "                     \
    "image_classification, "

/* A command that the page quotes: its exit code, and what it says. */
static void command(const char *line, int code, const char *part)
{
    char *page;
    size_t length;
    assert_ok(tl_file_read(&page, &length, PAGE, 1 << 20));
    if (!strstr(page, line)) fail_msg("%s does not say: %s", PAGE, line);
    tl_free(page);
    ends(code, line, part);
}

static void file_with(const char *path, const char *text)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_ok(tl_mkdirs(folder));
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

/* "Run locally": all flags as they are there. */
static void test_run_locally(void **state)
{
    (void)state;
    command("tilth train --experiment=bert/local --model_dir=tfnlp_sandbox/ --mode=train "
            "--alsologtostderr 2>&1",
            2, "there is no experiment 'bert/local' " SHIPPED);
    assert_false(tl_file_exists("tfnlp_sandbox"));
    command("tilth train --experiment=vision/local --model_dir=tfnlp_sandbox/ --mode=train "
            "--alsologtostderr 2>&1",
            0, "Starts to execute mode: train\n");
    has("\ndone: step ");
    assert_true(tl_file_exists("tfnlp_sandbox/params.yaml"));
    assert_true(tl_file_exists("tfnlp_sandbox/operative_config.train.gin"));
    assert_true(tl_file_exists("tfnlp_sandbox/checkpoint"));
}

/* "Number of trainable params" counts all of them, as the original's line does, and so also what is
 * frozen. */
static void test_the_size_of_the_model(void **state)
{
    (void)state;
    assert_int_equal(shell("tilth train --experiment=vision/local --model_dir=run --mode=train "
                           "task.freeze_backbone=true trainer.train_steps=1 2>&1"),
                     0);
    has("Number of trainable params in model: 0.009604 Millions.\n");
    has("FLOPs (multi-adds) in model: 0.000104 Billions.\n");
}

/* "Overriding Configuration via Yaml and Gin": the flags alone, behind any command. */
static void test_overriding_by_yaml(void **state)
{
    (void)state;
    command("tilth params --experiment=bert/pretraining "
            "--config_file=nlp/bert/experiments/wiki_books_pretrain.yaml 2>&1",
            2, "there is no experiment 'bert/pretraining' " SHIPPED);
    file_with("vision/experiments/small.yaml",
              "task: {model: {num_classes: 7}}\ntrainer: {train_steps: 3}\n");
    command("tilth params --experiment=image_classification "
            "--config_file=vision/experiments/small.yaml",
            0, "\n    num_classes: 7\n");
    has("\n  train_steps: 3\n");
}

/* Bindings of what is not here are refused, as the original's train.py does it. */
static void test_overriding_by_gin(void **state)
{
    (void)state;
    char *operative;
    size_t length;
    file_with("nlp/gin/talking_gated_encoder.gin",
              "TransformerScaffold.attention_cls = @TalkingHeadsAttention\n");
    command("tilth train --experiment=vision/local --model_dir=run --mode=train "
            "--gin_file=nlp/gin/talking_gated_encoder.gin 2>&1",
            2,
            "talking_gated_encoder.gin:1:1: TransformerScaffold.attention_cls: there is no "
            "configurable 'TransformerScaffold'");
    assert_false(tl_file_exists("run"));
    file_with("vision/gin/optimizer.gin", "build_optimizer.use_legacy_optimizer = True\n");
    command("tilth train --experiment=vision/local --model_dir=run --mode=train "
            "--gin_file=vision/gin/optimizer.gin 2>&1",
            0, "Saving gin configurations to run/operative_config.train.gin\n");
    assert_ok(tl_file_read(&operative, &length, "run/operative_config.train.gin", 1 << 20));
    assert_non_null(strstr(operative, "\nbuild_optimizer.use_legacy_optimizer = True\n"));
    tl_free(operative);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(test_run_locally),
        SHELL_TEST(test_the_size_of_the_model),
        SHELL_TEST(test_overriding_by_yaml),
        SHELL_TEST(test_overriding_by_gin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
