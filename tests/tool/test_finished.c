/* What can be done with a run afterwards: `eval`, `predict`. */
#include "tool/tool_lab.h"

#include <tilth/io/idx.h>
#include <tilth/io/image/png.h>

static void test_eval(void **state)
{
    (void)state;
    train_local("run", NULL);
    const char *last = strstr(out, "step 60:  accuracy ");
    double told = atof(last + strlen("step 60:  accuracy "));
    run("eval", "--model_dir=run");
    ended(0, "");
    has("run/ckpt-60.safetensors, step 60, in ");
    assert_near(number_behind("accuracy"), told, 6e-5);
    has("\nmistakes, most frequent first:\n  ");
    has(" of class '");
    has("' taken for '");
    // All kinds of them together are the examples that are not accurate.
    double wrong = 0, accuracy = number_behind("accuracy");
    run("eval", "--model_dir=run", "--mistakes=12");
    ended(0, "");
    for (const char *p = strstr(out, "first:\n"); p && *p; p = strchr(p + 1, '\n'))
        wrong += atof(p + 1);
    assert_near(wrong, 512 * (1 - accuracy), 0.01);
    run("eval", "--model_dir=run", "--checkpoint=best");
    ended(0, "");
    has("run/best/best_ckpt-");
    run("eval", "--model_dir=run", "--checkpoint=run/ckpt-30",
        "task.validation_data.synthetic_examples=64");
    ended(0, "");
    has("run/ckpt-30.safetensors, step 30, in ");
    assert_near(fmod(number_behind("accuracy") * 64, 1), 0, 1e-3);
}

static void test_eval_refuses(void **state)
{
    (void)state;
    run("eval");
    ended(2, "no run is named: say --model_dir=FOLDER");
    run("eval", "--model_dir=nowhere");
    ended(2, "'nowhere' is no folder of a run: it has no params.yaml");
    train_local("run", NULL);
    run("eval", "--model_dir=run", "--checkpoint=ckpt-30",
        "--params_override=task.validation_data.synthetic_examples=64");
    ended(0, "");
    run("eval", "--model_dir=run", "--params_override=task.validation_data.synthetic_exmples=64");
    ended(2, "synthetic_examples");
    run("eval", "--model_dir=run", "--config_file=none.yaml");
    ended(2, "none.yaml");
    run("eval", "--model_dir=run", "--checkpoint=nothing");
    ended(2, "nothing");
    assert_int_equal(remove("run/experiment.txt"), 0);
    run("eval", "--model_dir=run");
    ended(2, "--experiment=NAME must say what was trained");
    run("eval", "--model_dir=run", "--experiment=vision/local");
    ended(0, "");
}

static void damage(const char *path)
{
    char *bytes;
    size_t size;
    assert_ok(tl_file_read(&bytes, &size, path, 1 << 26));
    bytes[size / 2] ^= 1;
    assert_ok(tl_file_write_atomic(path, bytes, size));
    tl_free(bytes);
}

static void test_a_damaged_checkpoint(void **state)
{
    (void)state;
    train_local("run", NULL);
    damage("run/ckpt-60.safetensors");
    run("eval", "--model_dir=run");
    ended(0, "");
    has("run/ckpt-30.safetensors, step 30, in ");
    run("eval", "--model_dir=run", "--checkpoint=run");
    ended(0, "");
    has("run/ckpt-30.safetensors, step 30, in ");
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    has("parameters of step 30\n");
    assert_true(tl_file_exists("run/ckpt-60.safetensors"));     // whoever looks changes nothing
    run("eval", "--model_dir=run", "--checkpoint=run/ckpt-60"); // nothing else is meant
    ended(2, "run/ckpt-60.safetensors");
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=next",
        "task.init_checkpoint=run", "trainer.train_steps=1", "tilth.jit=false");
    ended(2, "the latest checkpoint of the folder 'run' (an older one can be named instead)");
    damage("run/ckpt-30.safetensors");
    run("eval", "--model_dir=run");
    ended(2, "no checkpoint in 'run' can be used; the latest: 'run/ckpt-60.safetensors'");
}

/* The cause is told, and not what the training keeps beside the model. */
static void test_a_model_that_does_not_fit(void **state)
{
    (void)state;
    train_local("run", NULL);
    run("eval", "--model_dir=run", "task.model.backbone.cnn.units=[16]");
    ended(2, " 0 missing, 0 unexpected, ");
    ended(2, "model/head/kernel");
    assert_null(strstr(err, "optimizer"));
}

static void test_predict(void **state)
{
    (void)state;
    train_local("run", NULL);
    uint8_t pixels[3 * 16 * 16];
    for (int i = 0; i < 3 * 256; i++) pixels[i] = (uint8_t)(128 + 60 * sin(i / 16 + i / 256));
    tl_str png = TL_STR_INIT;
    assert_ok(tl_png_encode(&png, &(tl_png_image){16, 16, 1, pixels}));
    assert_ok(tl_file_write_atomic("one.png", tl_str_text(&png), png.length));
    tl_str_deinit(&png);
    const tl_shape shape = TL_SHAPE(3, 16, 16);
    assert_ok(tl_idx_write("three.idx", TL_U8, &shape, pixels));
    run("predict", "--model_dir=run", "--top=4", "--count=2", "one.png", "three.idx");
    ended(0, "");
    has("one.png: ");
    has("horizontal 0.");
    has("\nthree.idx[0]: ");
    has("\nthree.idx[1]: ");
    assert_null(strstr(out, "three.idx[2]"));
    // The same pixels in both files.
    const char *a = strstr(out, "one.png: ") + 9, *b = strstr(out, "three.idx[0]: ") + 14;
    assert_memory_equal(a, b, strcspn(a, "\n"));
    // Probabilities add up to 1.
    double sum = 0;
    for (const char *p = a; p < a + strcspn(a, "\n"); p++)
        if (p[0] == ' ' && (p[1] == '0' || p[1] == '1') && p[2] == '.') sum += atof(p + 1);
    assert_near(sum, 1, 0.003);
}

/* Where examples may have several classes, none is taken for another, and each has a probability of
 * its own. */
static void test_several_classes(void **state)
{
    (void)state;
    run("train", "--experiment=vision/local", "--mode=train_and_eval", "--model_dir=run",
        "--progress=lines", "tilth.seed=1", "tilth.threads=1", "tilth.jit=false",
        "trainer.train_steps=4", "trainer.validation_interval=4",
        "trainer.best_checkpoint_eval_metric=globalPR-AUC", "task.train_data.is_multilabel=true");
    ended(0, "");
    run("eval", "--model_dir=run");
    ended(0, "");
    assert_true(number_behind("globalPR-AUC") > 0);
    assert_null(strstr(out, "mistakes"));
    uint8_t pixels[16 * 16] = {0};
    const tl_shape shape = TL_SHAPE(1, 16, 16);
    assert_ok(tl_idx_write("one.idx", TL_U8, &shape, pixels));
    run("predict", "--model_dir=run", "--top=4", "one.idx");
    ended(0, "");
    // After few steps all of them are about as likely as not.
    double sum = 0;
    for (const char *p = strchr(out, ':'); p && *p; p++)
        if (p[0] == ' ' && (p[1] == '0' || p[1] == '1') && p[2] == '.') sum += atof(p + 1);
    assert_true(sum > 1.2 && sum < 3.5);
    run("train", "--experiment=vision/local", "--mode=train_and_eval", "--model_dir=other",
        "--progress=lines", "tilth.seed=1", "tilth.threads=1", "tilth.jit=false",
        "trainer.train_steps=4", "trainer.validation_interval=4",
        "task.train_data.is_multilabel=true");
    ended(2,
          "trainer.best_checkpoint_eval_metric must be one of the metrics that evaluations tell");
    ended(2, "globalPR-AUC");
}

static void test_predict_refuses(void **state)
{
    (void)state;
    run("predict", "--model_dir=run");
    ended(2, "no image is named");
    train_local("run", NULL);
    assert_ok(tl_file_write_atomic("text.png", "no image", 8));
    run("predict", "--model_dir=run", "text.png");
    ended(1, "text.png");
    run("predict", "--model_dir=run", "nowhere.png");
    ended(1, "nowhere.png");
    run("train", "--experiment=mock", "--mode=train", "--model_dir=mock", "trainer.train_steps=2",
        "trainer.optimizer_config.optimizer.type=sgd",
        "trainer.optimizer_config.learning_rate.type=constant",
        "trainer.optimizer_config.learning_rate.constant.learning_rate=0.1",
        "trainer.steps_per_loop=2", "trainer.summary_interval=2", "tilth.jit=false");
    ended(0, "");
    assert_null(strstr(out, "predict"));
    run("predict", "--model_dir=mock", "text.png");
    ended(2, "this run is of the task 'mock'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_eval),
        TOOL_TEST(test_eval_refuses),
        TOOL_TEST(test_a_damaged_checkpoint),
        TOOL_TEST(test_a_model_that_does_not_fit),
        TOOL_TEST(test_predict),
        TOOL_TEST(test_several_classes),
        TOOL_TEST(test_predict_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
