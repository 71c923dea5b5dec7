/* Trainings whose processes keep weights and the optimizer's state once (tilth.zero): the bytes of
 * one process, on any number of them, also when others go on.
 * needs: no sanitizer */
#include "tool/shell_lab.h"

/* More elements than one piece, so that there is something to share out. */
#define NET                                                                                        \
    "train --experiment=vision/local --mode=train_and_eval tilth.seed=7 trainer.steps_per_loop=2 " \
    "trainer.summary_interval=2 trainer.checkpoint_interval=2 trainer.validation_interval=4 "      \
    "trainer.validation_steps=1 tilth.lanes=3 task.train_data.global_batch_size=30 "               \
    "task.validation_data.global_batch_size=30 task.train_data.synthetic_examples=100 "            \
    "task.model.backbone.cnn.units=[128,64] "                                                      \
    "task.model.backbone.cnn.batch_norm=true task.model.dropout_rate=0.3 "
#define OPTIMIZER "trainer.optimizer_config.optimizer."
#define FOUR "trainer.train_steps=4 "
#define TWO "trainer.train_steps=2 "

static const char *const rules[] = {
    OPTIMIZER "type=sgd " OPTIMIZER "sgd.momentum=0.9 ",
    OPTIMIZER "type=adamw " OPTIMIZER "adamw.weight_decay_rate=0.01 " OPTIMIZER
              "adamw.global_clipnorm=0.1 tilth.gradient_accumulation=2 "
              "trainer.optimizer_config.ema.average_decay=0.9 ",
    OPTIMIZER "type=lamb " OPTIMIZER "lamb.weight_decay_rate=0.01 "
              "runtime.mixed_precision_dtype=mixed_bfloat16 ",
};

static void run(const char *launch, const char *folder, const char *rule, const char *words)
{
    char line[1800];
    snprintf(line, sizeof line, "tilth %s" NET "--model_dir=%s %s%s", launch, folder, rule, words);
    ends(0, line, "");
}

static void the_bytes_are_those_without_it(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(rules); i++) {
        run("", "one", rules[i], FOUR "tilth.zero=1"); // alone there is nothing to share
        // in parts of any size
        run("launch -n 2 ", "none", rules[i], FOUR "tilth.bucket_mb=0.0625");
        run("launch -n 2 ", "two", rules[i], FOUR "tilth.zero=1 runtime.num_packs=5");
        run("launch -n 3 ", "three", rules[i], FOUR "tilth.zero=2 tilth.bucket_mb=0.07");
        ends(0,
             "for m in none two three; do cmp one/ckpt-2.safetensors $m/ckpt-2.safetensors && cmp "
             "one/ckpt-4.safetensors $m/ckpt-4.safetensors && diff -rx checkpoint one/best $m/best "
             "|| exit 1; done; rm -r none two three",
             "");
        // others go on: with it, without it, with it again
        run("launch -n 3 ", "a", rules[i], TWO "tilth.zero=1");
        run("launch -n 2 ", "a", rules[i], FOUR);
        run("launch -n 2 ", "b", rules[i], TWO);
        run("launch -n 3 ", "b", rules[i], FOUR "tilth.zero=3");
        ends(0,
             "for m in a b; do cmp one/ckpt-4.safetensors $m/ckpt-4.safetensors || exit 1; done; "
             "rm -r one a b",
             "");
    }
}

/* Adafactor, whose slots have shapes of their own, and a network that grows while it is shared. */
static void whole_parameters_and_stages(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "train --experiment=bert/local --mode=train task.train_data.global_batch_size=8 " OPTIMIZER
        "type=adafactor_keras ",
        "train --experiment=progressive/local --mode=train task.train_data.global_batch_size=8 "
        "task.model.backbone.resnet.depth_multiplier=0.25 "
        "trainer.progressive.stages[0].num_steps=2 trainer.progressive.stages[1].num_steps=1 ",
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        char line[1200];
        for (int zero = 0; zero < 2; zero++) {
            snprintf(line, sizeof line,
                     "tilth launch -n 2 %s trainer.steps_per_loop=1 trainer.summary_interval=1 "
                     "trainer.checkpoint_interval=1 tilth.lanes=2 tilth.seed=7 tilth.zero=%d "
                     "--model_dir=z%d trainer.train_steps=%d",
                     cases[i], 2 * zero, zero, zero ? 2 : 4);
            ends(0, line, "");
        }
        // gone on with in the stage that the checkpoint is of
        snprintf(strstr(line, "train_steps="), 16, "train_steps=4");
        ends(0, line, "");
        ends(0,
             "for s in 1 2 3 4; do cmp z0/ckpt-$s.safetensors z1/ckpt-$s.safetensors || exit 1; "
             "done; rm -r z0 z1",
             "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(the_bytes_are_those_without_it),
        SHELL_TEST(whole_parameters_and_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
