/* What a researcher does: changes a model by gin, looks at what became of it, evaluates it, goes on
 * with it. */
#include "tool/tool_lab.h"

#define LOCAL                                                                                      \
    "--experiment=vision/local", "--mode=train", "--progress=lines", "tilth.jit=false",            \
        "tilth.threads=1", "tilth.seed=1", "trainer.train_steps=2"

static void reads(const char *path, const char *part)
{
    char *text;
    assert_ok(tl_file_read(&text, NULL, path, 1 << 20));
    if (!strstr(text, part)) fail_msg("%s lacks:\n%s\nin:\n%s", path, part, text);
    tl_free(text);
}

static int64_t parameters(void)
{
    const char *at = strstr(tl_str_text(&tool_log), "Number of trainable params in model: ");
    assert_non_null(at);
    double millions = strtod(at + strlen("Number of trainable params in model: "), NULL);
    tl_str_cut(&tool_log, 0);
    return (int64_t)lrint(millions * 1e6);
}

static void test_a_binding_changes_the_model(void **state)
{
    (void)state;
    run("train", LOCAL, "--model_dir=plain");
    ended(0, "");
    int64_t plain = parameters();
    run("train", LOCAL, "--model_dir=small", "--gin_params=Cnn.filters = [4]");
    ended(0, "");
    int64_t small = parameters();
    if (small >= plain)
        fail_msg("%lld parameters, and %lld without the binding", (long long)small,
                 (long long)plain);
    reads("small/params.yaml", "filters: [4]");
    reads("small/bindings.gin", "Cnn.filters = [4]\n");
    reads("small/operative_config.train.gin", "Cnn.filters = [4]\n");
    assert_false(tl_file_exists("plain/bindings.gin"));
    run("params", "--experiment=vision/local", "--gin_params=Cnn.filters = [4]", "--explain");
    ended(0, "");
    has("--gin_params 'Cnn.filters = [4]'");
}

static void test_optimizers_rates_and_layers_too(void **state)
{
    (void)state;
    run("train", LOCAL, "--model_dir=run", "--gin_params=Adam.beta_1 = 0.5",
        "--gin_params=head/Dense.without_bias = True",
        "--gin_params=Cosine.initial_learning_rate = 0.0625");
    ended(0, "");
    reads("run/params.yaml", "beta_1: 0.5");
    reads("run/params.yaml", "initial_learning_rate: 0.0625");
    reads("run/operative_config.train.gin", "head/Dense.without_bias = True\n");
    run("ckpt", "show", "run");
    ended(0, "");
    has("model/head/kernel");
    has_not("model/head/bias");
    run("ckpt", "show", "run", "--json");
    ended(0, "");
}

static void test_what_has_no_effect_is_told(void **state)
{
    (void)state;
    run("train", LOCAL, "--model_dir=run", "--gin_params=Sgd.momentum = 0.5");
    ended(2, "Sgd.momentum: the binding has no effect: this run makes no Sgd; it makes Adam");
    run("train", LOCAL, "--model_dir=run", "--gin_params=Dense.units = 7");
    ended(2,
          "Dense.units: the binding has no effect: this run gives 'units' to every Dense itself");
    run("train", LOCAL, "--model_dir=run", "--gin_params=Cn.filters = [4]");
    ended(2, "there is no configurable 'Cn', did you mean 'Cnn'?");
    put_text("some.gin", "# mine\nAdam.beta_1 = 0.5\nSgd.momentum = 0.5\n");
    run("train", LOCAL, "--model_dir=run", "--gin_file=some.gin", "--gin_strict");
    ended(2, "some.gin:3:1: Sgd.momentum: the binding has no effect");
    assert_false(tl_dir_exists("run")); // refused before anything was written
    tl_str_cut(&tool_log, 0);
    run("train", LOCAL, "--model_dir=run", "--gin_file=some.gin");
    ended(0, "");
    logged("some.gin:3:1: Sgd.momentum: the binding has no effect");
}

static void test_bindings_go_with_the_run(void **state)
{
    (void)state;
    run("train", LOCAL, "--model_dir=run", "--gin_params=head/Dense.without_bias = True");
    ended(0, "");
    run("eval", "--model_dir=run");
    ended(0, "");
    has("accuracy");
    run("export", "--model_dir=run", "--to=exported");
    ended(0, "");
    run("explain", "--model_dir=run", "--steps=1");
    ended(0, "");
    has("head (dense)");
    run("train", LOCAL, "--model_dir=run", "trainer.train_steps=3"); // untold
    ended(0, "");
    run("train", LOCAL, "--model_dir=run", "trainer.train_steps=4",
        "--gin_params=head/Dense.without_bias = True");
    ended(0, "");
    run("train", LOCAL, "--model_dir=run", "trainer.train_steps=5",
        "--gin_params=Adam.beta_1 = 0.5");
    ended(2, "run/bindings.gin: the run in this folder was begun with another text");
    run("train", LOCAL, "--model_dir=other");
    ended(0, "");
    run("train", LOCAL, "--model_dir=other", "trainer.train_steps=4",
        "--gin_params=Adam.beta_1 = 0.5");
    ended(2, "the run in 'other' was begun without gin's bindings");
    run("train", "--experiment=vision/local", "--mode=continuous_eval", "--model_dir=run",
        "trainer.continuous_eval_timeout=0", "trainer.train_steps=4", "tilth.jit=false");
    ended(0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_a_binding_changes_the_model),
        TOOL_TEST(test_optimizers_rates_and_layers_too),
        TOOL_TEST(test_what_has_no_effect_is_told),
        TOOL_TEST(test_bindings_go_with_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
