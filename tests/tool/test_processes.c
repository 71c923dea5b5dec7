/* Trainings of several processes: the bytes of one process, whatever happens to some of them.
 * needs: no sanitizer */
#include "tool/shell_lab.h"

#define PROGRAM "'" TILTH_PROGRAM "'"
/* Nets with batch statistics, dropout, halves, accumulation, short batches, and an evaluation in
 * which the last lanes have nothing left. */
#define HARD                                                                                       \
    "train --experiment=vision/local --mode=train_and_eval tilth.seed=7 trainer.train_steps=6 "    \
    "trainer.steps_per_loop=3 trainer.summary_interval=3 trainer.checkpoint_interval=3 "           \
    "trainer.validation_interval=3 tilth.gradient_accumulation=2 "                                 \
    "runtime.mixed_precision_dtype=mixed_bfloat16 task.model.backbone.cnn.batch_norm=true "        \
    "task.model.backbone.cnn.units=[256,64] tilth.bucket_mb=0.0625 "                               \
    "task.model.dropout_rate=0.3 task.train_data.aug_rand_hflip=true "                             \
    "task.train_data.drop_remainder=false task.train_data.synthetic_examples=100 "                 \
    "task.validation_data.global_batch_size=200 task.evaluation.report_mistakes=3 "
#define LONG                                                                                       \
    "train --experiment=mock --mode=train tilth.seed=7 task.train_data.is_training=true "          \
    "trainer.steps_per_loop=500 trainer.summary_interval=500 trainer.checkpoint_interval=300 "     \
    "trainer.optimizer_config.optimizer.type=adam "                                                \
    "trainer.optimizer_config.learning_rate.type=constant "                                        \
    "trainer.optimizer_config.learning_rate.constant.learning_rate=0.01 "                          \
    "task.train_data.global_batch_size=16 tilth.lanes=4 "
/* Starts it, sends the child of that number a signal once there is a checkpoint, and gives its
 * code. */
#define HIT(arguments, which, number)                                                              \
    "rm -rf b; " PROGRAM " " arguments "--model_dir=b & p=$!\n"                                    \
    "while kill -0 $p && ! ls b/ckpt-*.safetensors; do sleep 0.01; done >/dev/null 2>&1\n"         \
    "set -- $(cat /proc/$p/task/$p/children)\nkill -" number " \"$" which "\"; wait $p"

static void the_bytes_are_those_of_one_process(void **state)
{
    (void)state;
    ends(0, "tilth " HARD "--model_dir=one tilth.lanes=4", "of 512 images have a wrong answer");
    for (int n = 2; n <= 4; n++) {
        char line[1800];
        snprintf(line, sizeof line, "tilth launch -n %d " HARD "--model_dir=m%d tilth.lanes=4", n,
                 n);
        ends(0, line, "of 512 images have a wrong answer");
        snprintf(line, sizeof line,
                 "cmp one/ckpt-3.safetensors m%d/ckpt-3.safetensors && cmp "
                 "one/ckpt-6.safetensors m%d/ckpt-6.safetensors && diff -rx checkpoint one/best "
                 "m%d/best && "
                 "cmp one/params.yaml m%d/params.yaml",
                 n, n, n, n);
        ends(0, line, "");
    }
    // what is told of it, too, but for times
    ends(0,
         "for m in one m3; do sed 's/\"time\": [^,]*,//; s/\"[a-z_]*second[s]*\": [^,}]*//; "
         "s/\"path\": [^,}]*//' $m/metrics.jsonl | grep -v '\"event\": \"start' >$m.txt; done; "
         "diff one.txt m3.txt",
         "");
}

static void lanes_are_those_of_the_first_start(void **state)
{
    (void)state;
#define SHORT                                                                                      \
    "train --experiment=vision/local --mode=train tilth.seed=7 trainer.steps_per_loop=2 "          \
    "trainer.summary_interval=2 "
    ends(0,
         "tilth " SHORT "--model_dir=a tilth.lanes=3 trainer.train_steps=4 "
         "task.train_data.global_batch_size=30",
         "");
    ends(0,
         "tilth " SHORT "--model_dir=b tilth.processes=3 trainer.train_steps=2 "
         "task.train_data.global_batch_size=30",
         "saved checkpoint to b/ckpt-2");
    ends(0, "grep -c 'lanes: 3' b/params.yaml && ! grep processes b/params.yaml", "1");
    ends(2,
         "tilth launch -n 4 " SHORT "--model_dir=b trainer.train_steps=4 "
         "task.train_data.global_batch_size=30",
         "4 processes are too many for 3 lanes");
    ends(2,
         "tilth launch -n 2 " SHORT "--model_dir=b trainer.train_steps=4 tilth.processes=3 "
         "task.train_data.global_batch_size=30",
         "tilth.processes is 3, and there are 2: by tilth launch");
    assert_null(strstr(said, "[1]"));
    // one process goes on with what three have begun
    ends(0,
         "tilth " SHORT "--model_dir=b trainer.train_steps=4 "
         "task.train_data.global_batch_size=30",
         "");
    ends(0, "cmp a/ckpt-4.safetensors b/ckpt-4.safetensors", "");
#undef SHORT
}

static void a_killed_one_costs_no_bytes(void **state)
{
    (void)state;
    ends(0, "tilth " LONG "--model_dir=a trainer.train_steps=12000", "");
    ends(4, HIT("launch -n 3 " LONG "trainer.train_steps=600000 ", "2", "KILL"),
         " was ended by signal 9");
    has("rank 1 (host ");
    assert_null(strstr(said, "[2]"));
    // another number of processes goes on, and starts again by itself when one is lost
    ends(0, HIT("launch -n 3 --restarts=2 --min=2 " LONG "trainer.train_steps=12000 ", "3", "KILL"),
         "starting 2 again (1 of 2)");
    ends(0, "cmp a/ckpt-12000.safetensors b/ckpt-12000.safetensors", "");
}

static void a_signal_ends_all_at_one_step(void **state)
{
    (void)state;
    // for the launcher, and for one of the processes alone
    ends(3, HIT("launch -n 3 " LONG "trainer.train_steps=600000 ", "p", "TERM"),
         "SIGTERM: this step is being finished, and saved");
    has("which is saved: the same command goes on");
    assert_null(strstr(said, "[1]"));
    ends(3, HIT("launch -n 2 " LONG "trainer.train_steps=600000 ", "2", "USR1"),
         "SIGUSR1 ended the training at step ");
}

static void stops_are_agreed(void **state)
{
    (void)state;
#define STOPS                                                                                      \
    "train --experiment=vision/local --mode=train_and_eval tilth.seed=7 tilth.lanes=2 "            \
    "trainer.train_steps=100 trainer.steps_per_loop=2 trainer.summary_interval=2 "                 \
    "trainer.validation_interval=2 trainer.validation_steps=2 tilth.early_stopping.patience=2 "    \
    "tilth.early_stopping.min_delta=0.5 "
    ends(0, "tilth " STOPS "--model_dir=a", "stopped: ");
    ends(0, "tilth launch -n 2 " STOPS "--model_dir=b", "stopped: ");
    ends(0, "cd a; for f in ckpt-*.safetensors; do cmp $f ../b/$f || exit 1; done", "");
#undef STOPS
}

static void the_one_that_fails_says_why(void **state)
{
    (void)state;
    ends(0, "tilth data shapes --out=p --folders --count=64 && truncate -s 200 p/square/00007.png",
         "");
    ends(1,
         "tilth launch -n 2 train --experiment=images --mode=train tilth.seed=1 "
         "task.train_data.input_path=p trainer.train_steps=30 task.train_data.skip_bad=false "
         "--model_dir=b",
         "rank 1 failed: training data: decode, record 28 of 'p/square/00007.png'");
    assert_null(strstr(said, "[1] tilth"));
}

static void an_evaluation_is_shared(void **state)
{
    (void)state;
#define TRAINS                                                                                     \
    "train --experiment=vision/local --mode=train tilth.seed=3 trainer.train_steps=4 "             \
    "trainer.steps_per_loop=4 trainer.summary_interval=4 "
    ends(0, "tilth " TRAINS "--model_dir=four tilth.lanes=4", "");
    ends(0, "tilth eval --model_dir=four --json --confusion=json | sed 's/.seconds.: [0-9.]*//' >1",
         "");
    ends(0,
         "tilth launch -n 3 eval --model_dir=four --json --confusion=json | sed "
         "'s/.seconds.: [0-9.]*//' >3 && cmp 1 3 && grep -q accuracy 3",
         "");
    // one that has fewer lanes is evaluated in as many as there are processes
    ends(0, "tilth " TRAINS "--model_dir=one && tilth launch -n 2 eval --model_dir=one",
         "accuracy");
    ends(2, "tilth launch -n 2 eval --model_dir=one --page", "--page: mistakes are looked for by");
    ends(2, "tilth launch -n 2 eval --model_dir=one task.validation_data.global_batch_size=33",
         "2 processes cannot share batches of 33 examples "
         "(task.validation_data.global_batch_size) evenly: start 1");
#undef TRAINS
}

/* Gradients travel while the first layers' are computed, and it is told. */
static void a_step_is_explained_by_all(void **state)
{
    (void)state;
#define EXPLAINS                                                                                   \
    "explain --experiment=vision/local --steps=2 task.model.backbone.cnn.units=[1024] "            \
    "tilth.jit=false "
    ends(0, "tilth launch -n 2 " EXPLAINS,
         "sums over 2 processes: 1.1 MB in 5 parts, 1.1 MB of them begun before the backward pass "
         "ends; exposed ");
    ends(0, "tilth launch -n 3 " EXPLAINS "tilth.bucket_mb=0.3 tilth.lanes=4",
         "from parameter\n      0.31 ");
    ends(0, "tilth launch -n 2 " EXPLAINS "| grep -c 'sums over'", "1");
    ends(0, "tilth " EXPLAINS "tilth.lanes=2 | grep -c 'sums over' || true", "0");
#undef EXPLAINS
    // a small model has nothing that travels in parts, and waits for its sums all the same
    ends(0,
         "tilth launch -n 2 explain --experiment=vision/local --steps=2 tilth.jit=false | "
         "grep 'sums over'",
         "MB, all of them small; exposed ");
    assert_null(strstr(said, "exposed 0.000 ms"));
}

static void what_is_for_one_is_refused(void **state)
{
    (void)state;
    ends(2, "tilth launch -n 2 explain --model_dir=m", "is explained by one process");
    ends(2,
         "tilth launch -n 2 train --experiment=vision/local --mode=continuous_eval --model_dir=m",
         "the mode 'continuous_eval' is for one process");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(the_bytes_are_those_of_one_process),
        SHELL_TEST(lanes_are_those_of_the_first_start),
        SHELL_TEST(a_killed_one_costs_no_bytes),
        SHELL_TEST(a_signal_ends_all_at_one_step),
        SHELL_TEST(stops_are_agreed),
        SHELL_TEST(the_one_that_fails_says_why),
        SHELL_TEST(an_evaluation_is_shared),
        SHELL_TEST(a_step_is_explained_by_all),
        SHELL_TEST(what_is_for_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
