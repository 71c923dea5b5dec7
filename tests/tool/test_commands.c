/* The commands of the documents that say what a training library must do (docs/requirements), with
 * the flags that they have there: they run with the files that ship (configs).
 * The pages quote them as they are here. needs: no sanitizer */
#include "tool/shell_lab.h"

#define PAGE TEST_DATA "/../docs/requirements/3-training-library.md"
#define CONFIGS TEST_DATA "/../configs/"

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
            0, "Starts to execute mode: train\n");
    has("\ndone: step 100");
    assert_true(tl_file_exists("tfnlp_sandbox/params.yaml"));
    assert_int_equal(shell("rm -r tfnlp_sandbox"), 0);
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
    assert_int_equal(shell("ln -s " CONFIGS "nlp nlp"), 0);
    command("tilth params --experiment=bert/pretraining "
            "--config_file=nlp/bert/experiments/wiki_books_pretrain.yaml 2>&1",
            0, "\n    global_batch_size: 512\n");
    has("\n        warmup_steps: 10000\n");
    has("\n    use_v2_feature_names: true\n");
    has("\n  validation_steps: 64\n");
    file_with("vision/experiments/small.yaml",
              "task: {model: {num_classes: 7}}\ntrainer: {train_steps: 3}\n");
    command("tilth params --experiment=image_classification "
            "--config_file=vision/experiments/small.yaml",
            0, "\n    num_classes: 7\n");
    has("\n  train_steps: 3\n");
}

/* The loss that metrics.jsonl tells last. */
static double last_loss(const char *folder)
{
    char path[64], *text;
    size_t length;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    assert_ok(tl_file_read(&text, &length, path, 1 << 20));
    const char *at = NULL;
    for (const char *next = text; (next = strstr(next, "\"training_loss\":")); at = next++)
        ;
    assert_non_null(at);
    double loss = strtod(strchr(at, ':') + 1, NULL);
    tl_free(text);
    return loss;
}

/* The gin file makes another encoder: more weights, other losses, and it is written down. */
static void test_overriding_by_gin(void **state)
{
    (void)state;
    char *operative;
    size_t length;
    assert_int_equal(shell("ln -s " CONFIGS "nlp nlp"), 0);
    command("tilth train --experiment=bert/local --model_dir=run --mode=train "
            "--gin_file=nlp/gin/talking_gated_encoder.gin 2>&1",
            0, "Saving gin configurations to run/operative_config.train.gin\n");
    has("Number of trainable params in model: 0.029078 Millions.\n");
    assert_ok(tl_file_read(&operative, &length, "run/operative_config.train.gin", 1 << 20));
    assert_non_null(
        strstr(operative, "\nTransformerScaffold.attention_cls = @TalkingHeadsAttention\n"));
    assert_non_null(strstr(operative, "\nbuild_encoder.encoder_cls = @EncoderScaffold\n"));
    assert_non_null(strstr(operative, "\nGatedFeedforward.use_gate = True\n"));
    tl_free(operative);
    ends(0, "tilth train --experiment=bert/local --model_dir=plain --mode=train 2>&1",
         "Number of trainable params in model: 0.024838 Millions.\n");
    assert_true(last_loss("run") != last_loss("plain"));
    assert_int_equal(shell("tilth eval --model_dir=run 2>&1"), 0); // bindings are the run's
    ends(2,
         "tilth train --experiment=vision/local --model_dir=other --mode=train "
         "--gin_file=nlp/gin/talking_gated_encoder.gin --gin_strict 2>&1",
         "talking_gated_encoder.gin");
    assert_int_equal(shell("rm -r run"), 0);
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
