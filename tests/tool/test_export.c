/* `export` of a run: its weights, their averages, the best ones. */
#include "tool/tool_lab.h"

#include "tool/photos.h"

#include <tilth/io/safetensors.h>

static float first_of(const char *file, const char *name)
{
    tl_safetensors *f;
    float v;
    assert_ok(tl_safetensors_open(&f, file));
    const tl_safetensors_entry *e = tl_safetensors_find(f, name);
    if (!e) fail_msg("%s has no '%s'", file, name);
    memcpy(&v, e->data, 4);
    tl_safetensors_free(&f);
    return v;
}

static void test_export(void **state)
{
    (void)state;
    train_local("run", NULL);
    run("export", "--model_dir=run");
    ended(2, "say --to=FOLDER");
    run("export", "--model_dir=run", "--to=out/model");
    ended(0, "");
    has("out/model/model.safetensors: 9604 parameters of step 60\n");
    assert_true(tl_file_exists("out/model/config.yaml"));
    assert_true(first_of("out/model/model.safetensors", "backbone/conv_1/kernel")
                == first_of("run/ckpt-60.safetensors", "model/backbone/conv_1/kernel"));
    // What was exported can be what another run starts from.
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=again",
        "--progress=lines", "task.init_checkpoint=out/model/model.safetensors",
        "trainer.train_steps=1", "tilth.jit=false");
    ended(0, "");
}

static void test_averages_are_exported(void **state)
{
    (void)state;
    train_local("run", "trainer.optimizer_config.ema={average_decay: 0.9}");
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    has("9604 averaged parameters of step 60\n");
    float exported = first_of("out/model.safetensors", "head/kernel");
    assert_true(exported == first_of("run/ckpt-60.safetensors", "optimizer/average/head/kernel"));
    assert_true(exported != first_of("run/ckpt-60.safetensors", "model/head/kernel"));
    // And evaluated.
    run("eval", "--model_dir=run");
    ended(0, "");
}

static double number_in(const char *file, const char *key)
{
    char *text, quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    assert_ok(tl_file_read(&text, NULL, file, 1 << 16));
    const char *at = strstr(text, quoted);
    if (!at) fail_msg("%s has no %s: %s", file, key, text);
    double value = atof(at + strlen(quoted));
    tl_free(text);
    return value;
}

/* With averages, the best checkpoint is used as it was when it was the best. */
static void test_the_best_with_averages(void **state)
{
    (void)state;
    char file[64];
    train_local("run", "trainer.optimizer_config.ema={average_decay: 0.9}");
    run("eval", "--model_dir=run", "--checkpoint=best");
    ended(0, "");
    assert_near(number_behind("accuracy"), number_in("run/best/info.json", "accuracy"), 2e-6);
    assert_near(number_behind("validation_loss"),
                number_in("run/best/info.json", "validation_loss"), 2e-6);
    const char *told = strstr(out, "run/best/best_ckpt-");
    assert_non_null(told);
    snprintf(file, sizeof file, "%.*s", (int)strcspn(told, ","), told);
    run("export", "--model_dir=run", "--to=out", "--checkpoint=best");
    ended(0, "");
    float exported = first_of("out/model.safetensors", "head/kernel");
    assert_true(exported == first_of(file, "optimizer/average/head/kernel"));
    assert_true(exported != first_of(file, "model/head/kernel"));
}

/* All that is done to a photo before the model sees it. */
static void test_what_is_done_to_photos(void **state)
{
    (void)state;
    put_photos_of("photos", 8, 100);
    run("train", "--experiment=images", "--mode=train", "--model_dir=run",
        "task.train_data.input_path=photos", "trainer.train_steps=1", "tilth.jit=false",
        "tilth.threads=1", "task.model.backbone.cnn.filters=[2]");
    ended(0, "");
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    assert_near(number_in("out/preprocessing.json", "shorter_side"), 70, 0);
    assert_near(number_in("out/preprocessing.json", "height"), 56, 0);
}

/* What the file holds is checked in tests/io/onnx, what it computes by ./build.sh interop onnx. */
static void test_onnx(void **state)
{
    (void)state;
    char *bytes;
    size_t size;
    train_local("run", NULL);
    run("export", "--model_dir=run", "--to=out", "--format=onnx");
    ended(0, "");
    has("out/model.onnx: 9604 parameters of step 60\n");
    assert_ok(tl_file_read(&bytes, &size, "out/model.onnx", 1 << 20));
    static const char *const words[] = {"backbone/conv_1/kernel/turned", "probabilities",
                                        "horizontal\nfalling\nvertical\nrising", "\"stddev\""};
    for (int i = 0; i < TL_COUNT(words); i++)
        if (!memmem(bytes, size, words[i], strlen(words[i]))) fail_msg("no '%s'", words[i]);
    tl_free(bytes);
    run("export", "--model_dir=run", "--to=out", "--format=pickle");
    ended(2, "format");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_export),
        TOOL_TEST(test_averages_are_exported),
        TOOL_TEST(test_the_best_with_averages),
        TOOL_TEST(test_what_is_done_to_photos),
        TOOL_TEST(test_onnx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
