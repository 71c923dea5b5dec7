/* Runs of several lanes: one lane writes what no word of lanes does, a killed run ends with the
 * same bytes, another number of lanes is told, and what does not fit is refused.
 * needs: no sanitizer */
#include "tool/shell_lab.h"

#include <glob.h>
#include <signal.h>
#include <time.h>

#define SMALL                                                                                      \
    "tilth.seed=7 tilth.threads=1 trainer.train_steps=8 trainer.steps_per_loop=4 "                 \
    "trainer.summary_interval=4 trainer.checkpoint_interval=4 trainer.validation_interval=8 "      \
    "trainer.validation_steps=2 "
#define VISION "tilth train --experiment=vision/local --mode=train_and_eval " SMALL

static void one_lane_changes_nothing(void **state)
{
    (void)state;
    ends(0, VISION "--model_dir=a", "ckpt-");
    ends(0, VISION "--model_dir=b tilth.lanes=1", "ckpt-");
    ends(0, "cmp a/ckpt-4.safetensors b/ckpt-4.safetensors", "");
    ends(0, "cmp a/ckpt-8.safetensors b/ckpt-8.safetensors", "");
    ends(0, "cmp a/params.yaml b/params.yaml && ! grep lanes a/params.yaml", "");
}

/* Augmented images, halves, batches that differ: what was cut off in the middle is gone on with. */
static void a_run_of_lanes_is_gone_on_with(void **state)
{
    (void)state;
#define MORE                                                                                       \
    " tilth.lanes=4 tilth.gradient_accumulation=2 runtime.mixed_precision_dtype=mixed_bfloat16 "   \
    "task.train_data.aug_rand_hflip=true"
    ends(0, VISION "--model_dir=a" MORE, "ckpt-");
    ends(0, VISION "--model_dir=b" MORE " trainer.train_steps=4", "ckpt-");
    ends(0, VISION "--model_dir=b" MORE, "ckpt-");
    ends(0, "cmp a/ckpt-8.safetensors b/ckpt-8.safetensors", "");
    ends(0, "grep -c 'lanes: 4' a/params.yaml", "1");
    ends(0, "tilth ckpt show a/ckpt-8.safetensors", "lanes 4, accumulation 2");
    // another number is other mathematics
    ends(0, VISION "--model_dir=b" MORE " trainer.train_steps=12 tilth.lanes=2",
         "it will not be the same bit for bit");
#undef MORE
}

/* --- killed ----------------------------------------------------------------------------------- */

#define KILLED                                                                                     \
    "tilth train --experiment=mock --mode=train tilth.seed=7 task.train_data.is_training=true "    \
    "trainer.train_steps=6000 trainer.steps_per_loop=500 trainer.summary_interval=500 "            \
    "trainer.checkpoint_interval=300 trainer.optimizer_config.optimizer.type=adam "                \
    "trainer.optimizer_config.learning_rate.type=constant "                                        \
    "trainer.optimizer_config.learning_rate.constant.learning_rate=0.01 "                          \
    "tilth.lanes=4 task.train_data.global_batch_size=16 "

static bool has_checkpoint(const char *pattern)
{
    glob_t found;
    const bool there = glob(pattern, 0, NULL, &found) == 0;
    if (there) globfree(&found);
    return there;
}

static void a_killed_run_ends_with_the_same_bytes(void **state)
{
    (void)state;
    ends(0, KILLED "--model_dir=a", "");
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        setpgid(0, 0);
        _exit(shell(KILLED "--model_dir=b >killed.txt 2>&1") == 0 ? 0 : 1);
    }
    const struct timespec pause = {.tv_nsec = 2000000};
    for (int i = 0; i < 10000 && !has_checkpoint("b/ckpt-*.safetensors"); i++)
        nanosleep(&pause, NULL);
    kill(-child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    while (kill(-child, 0) == 0) nanosleep(&pause, NULL); // what it had started goes after it
    ends(0, KILLED "--model_dir=b", "");
    ends(0, "cmp a/ckpt-6000.safetensors b/ckpt-6000.safetensors", "");
}

/* --- refused ---------------------------------------------------------------------------------- */

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    ends(2, VISION "--model_dir=a tilth.lanes=5",
         "must be a multiple of 5, the number of replicas (tilth.lanes)");
    ends(2, VISION "--model_dir=a tilth.lanes=0", "tilth.lanes");
    ends(2, VISION "--model_dir=a tilth.lanes=2 tilth.processes=3",
         "3 processes are too many for 2 lanes");
    assert_false(tl_file_exists("a/params.yaml"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(one_lane_changes_nothing),
        SHELL_TEST(a_run_of_lanes_is_gone_on_with),
        SHELL_TEST(a_killed_run_ends_with_the_same_bytes),
        SHELL_TEST(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
