/* Lanes that meet in the middle of a step: the bytes of one process on any number of them, and the
 * numbers of one lane that has the whole batch. needs: no sanitizer */
#include "tool/shell_lab.h"

#define STEPS                                                                                      \
    "--mode=train tilth.seed=7 trainer.train_steps=4 trainer.steps_per_loop=2 "                    \
    "trainer.summary_interval=2 trainer.checkpoint_interval=2 "                                    \
    "task.model.norm_activation.use_sync_bn=true "
/* Statistics of all lanes, draws, halves, two batches of a lane. */
#define NORMED                                                                                     \
    "train --experiment=vision/local " STEPS                                                       \
    "task.model.backbone.cnn.batch_norm=true task.model.dropout_rate=0.3 "                         \
    "task.train_data.aug_rand_hflip=true tilth.gradient_accumulation=2 "                           \
    "runtime.mixed_precision_dtype=mixed_bfloat16 task.train_data.global_batch_size=36 "
/* Views of all lanes, too. */
#define CONTRASTED "train --experiment=simclr/local " STEPS "task.train_data.global_batch_size=24 "

/* Three lanes on one, two and three processes. */
static void compare(const char *run, const char *more)
{
    char line[1600];
    snprintf(line, sizeof line, "rm -rf m1 m2 m3; tilth %s%s--model_dir=m1 tilth.lanes=3", run,
             more);
    ends(0, line, "saved checkpoint to m1/ckpt-4");
    for (int n = 2; n <= 3; n++) {
        snprintf(line, sizeof line, "tilth launch -n %d %s%s--model_dir=m%d tilth.lanes=3", n, run,
                 more, n);
        ends(0, line, "saved checkpoint to ");
        snprintf(line, sizeof line,
                 "cmp m1/ckpt-2.safetensors m%d/ckpt-2.safetensors && cmp m1/ckpt-4.safetensors "
                 "m%d/ckpt-4.safetensors",
                 n, n);
        ends(0, line, "");
    }
}

static void synchronized_lanes_have_the_bytes_of_one_process(void **state)
{
    (void)state;
    compare(NORMED, "");
}

static void contrasted_lanes_have_the_bytes_of_one_process(void **state)
{
    (void)state;
    compare(CONTRASTED, "");
}

/* Steps that are not captured call the same ops. */
static void eager_lanes_have_the_bytes_of_one_process(void **state)
{
    (void)state;
    compare(NORMED, "trainer.train_tf_function=false ");
}

/* The first step, before what is rounded otherwise has grown. */
static void lanes_that_meet_are_one_batch(void **state)
{
    (void)state;
#define ONCE CONTRASTED "trainer.train_steps=1 trainer.steps_per_loop=1 trainer.summary_interval=1 "
    ends(0, "tilth " ONCE "--model_dir=a", "");
    ends(0, "tilth " ONCE "--model_dir=b tilth.lanes=4", "");
    ends(0,
         "tilth " ONCE "--model_dir=c tilth.lanes=4 task.model.norm_activation.use_sync_bn=false",
         "");
#define LOSS(m) "sed -n 's/.*\"contrast_loss\": \\([0-9.]*\\).*/\\1/p' " m "/metrics.jsonl"
#define NEAR(m, most)                                                                              \
    "echo $(" LOSS("a") ") $(" LOSS(m) ") | awk '{d = $1 - $2; exit !(NF == 2 && d < " most        \
                                       " && d > -" most ")}'"
    ends(0, NEAR("b", "1e-4"), "");
    ends(1, NEAR("c", "1e-2"), ""); // else statistics of all would not matter
}

/* Its queue would wait for the first lane before the second has begun. */
static void lanes_of_a_device_do_not_meet_in_one_process(void **state)
{
    (void)state;
    ends(2,
         "TILTH_DEVICE=fake tilth " CONTRASTED "--plugin=" FAKE_PLUGIN
         " --model_dir=a tilth.lanes=2",
         "on this device start a process for each lane");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(synchronized_lanes_have_the_bytes_of_one_process),
        SHELL_TEST(eager_lanes_have_the_bytes_of_one_process),
        SHELL_TEST(contrasted_lanes_have_the_bytes_of_one_process),
        SHELL_TEST(lanes_that_meet_are_one_batch),
        SHELL_TEST(lanes_of_a_device_do_not_meet_in_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
