/* The careless user: mistyped commands, the same folder twice, rates beyond reason, Ctrl-C. Nothing
 * that was good breaks, and the program says what to do. needs: no sanitizer */
#include "tool/shell_lab.h"

#include <signal.h>
#include <sys/prctl.h>

#include <tilth/base/clock.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

#define TRAIN                                                                                      \
    "tilth train --experiment=vision/local --model_dir=run tilth.jit=false tilth.seed=1 "          \
    "trainer.train_steps=4 "

/* --- running ---------------------------------------------------------------------------------- */

static int times(const char *part)
{
    int count = !*part;
    for (const char *at = said; *part && (at = strstr(at, part)); at++) count++;
    return count;
}

static char *text_of(const char *path)
{
    char *text;
    assert_ok(tl_file_read(&text, NULL, path, 1 << 20));
    return text;
}

/* All files of the folder `run`, with what is in them. */
static char *snapshot(void)
{
    assert_int_equal(system("find run -type f | LC_ALL=C sort | xargs cksum >all.txt"), 0);
    return text_of("all.txt");
}

static void unchanged(char *before)
{
    char *after = snapshot();
    assert_string_equal(before, after);
    tl_free(before);
    tl_free(after);
}

#define SGD                                                                                        \
    "--params_override=trainer.optimizer_config.optimizer.type=sgd,"                               \
    "trainer.optimizer_config.learning_rate.type=constant"

/* A training without end, and what it says in talk.txt. */
static pid_t start(const char *more)
{
    unlink("talk.txt");
    tl_free(said);
    said = NULL;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that fails leaves nobody behind
    if (!freopen("talk.txt", "a", stdout) || !freopen("talk.txt", "a", stderr)) _exit(9);
    execl(TILTH_PROGRAM, "tilth", "train", "--experiment=mock", "--mode=train", "--model_dir=run",
          "task.train_data.is_training=true", "trainer.train_steps=2000000000",
          "trainer.steps_per_loop=1000000", "trainer.summary_interval=1000000",
          "trainer.checkpoint_interval=1000", SGD, more, NULL);
    _exit(9);
}

static int finish(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void wait_for(const char *part)
{
    for (int i = 0;; i++) {
        if (tl_file_exists("talk.txt")) hear("talk.txt");
        if (said && times(part)) return;
        if (i > 6000) fail_msg("'%s' does not come", part);
        tl_sleep_ns(10000000);
    }
}

/* --- data ------------------------------------------------------------------------------------- */

enum { RECORDS = 40, SIDE = 16 };

/* Raw images; those from number `damaged` on have a checksum that is not theirs. */
static void write_records(const char *path, int damaged)
{
    tl_tfrecord_writer *w;
    const int64_t side = SIDE, one = 1;
    char *bytes;
    size_t size;
    assert_ok(tl_tfrecord_writer_begin(&w, path, NULL));
    for (int i = 0; i < RECORDS; i++) {
        char pixels[SIDE * SIDE];
        tl_str example = TL_STR_INIT;
        tl_example_writer e = tl_example_begin(&example);
        int64_t label = i % 4;
        memset(pixels, i, sizeof pixels);
        tl_example_add_bytes(&e, "image/encoded", &(tl_bytes){pixels, sizeof pixels}, 1);
        tl_example_add_ints(&e, "image/class/label", &label, 1);
        tl_example_add_text(&e, "image/format", "raw");
        tl_example_add_ints(&e, "image/height", &side, 1);
        tl_example_add_ints(&e, "image/width", &side, 1);
        tl_example_add_ints(&e, "image/channels", &one, 1);
        assert_ok(tl_example_end(&e));
        assert_ok(tl_tfrecord_write(w, tl_str_text(&example), example.length));
        tl_str_deinit(&example);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
    assert_ok(tl_file_read(&bytes, &size, path, 1 << 20));
    for (size_t i = (size_t)damaged; i < RECORDS; i++)
        bytes[size / RECORDS * i + size / RECORDS / 2] ^= 1;
    assert_ok(tl_file_write_atomic(path, bytes, size));
    tl_free(bytes);
}

#define RECORDS_OF(file)                                                                           \
    "task.train_data.file_type=tfrecord task.train_data.input_path=" file                          \
    " task.train_data.global_batch_size=4 "                                                        \
    "task.train_data.shuffle_buffer_size=1 task.train_data.cycle_length=1 "

#define NET "tilth train_net --config-file=net.yaml "

static void write_net(void)
{
    static const char text[] =
        "model: {_target_: image_classification, num_classes: 3, input_size: [8, 8, 1],\n"
        "        backbone: {type: mlp, mlp: {units: [8]}}}\n"
        "dataloader:\n"
        "  train: {file_type: synthetic, synthetic_examples: 50}\n"
        "optim: {_target_: SGD, lr: 0.1}\n"
        "train: {train_iter: 4, train_micro_batch_size: 5, output_dir: run, evaluation: {enabled: "
        "false}}\n"
        "tilth: {jit: false}\n";
    assert_ok(tl_file_write_atomic("net.yaml", text, strlen(text)));
}

/* --- resuming --------------------------------------------------------------------------------- */

static void test_a_mistyped_resume_changes_nothing(void **state)
{
    (void)state;
    ends(0, TRAIN "--mode=train_and_eval", "done: step 4");
    char *before = snapshot();
    assert_non_null(strstr(before, "run/params.yaml"));
    ends(2, TRAIN "--mode=train trainer.train_steps=8 'task.model.backbone.cnn.filters=[4]'",
         "does not fit");
    unchanged(before);
    before = snapshot();
    ends(2, TRAIN "--mode=train trainer.train_steps=8 --experiment=mock", "");
    ends(2,
         TRAIN "--mode=train trainer.train_steps=8 task.train_data.file_type=tfrecord "
               "task.train_data.input_path=nowhere",
         "nowhere");
    ends(2,
         TRAIN
         "--mode=train trainer.train_steps=8 task.init_checkpoint=nowhere task.model.num_classes=5",
         "");
    unchanged(before);
    ends(0, TRAIN "--mode=train trainer.train_steps=8", "restored model from run/ckpt-4");
}

static void test_refused_runs_leave_no_folder(void **state)
{
    (void)state;
    write_records("bad.tfrecord", 0);
    ends(2,
         TRAIN "--mode=train task.train_data.file_type=tfrecord task.train_data.input_path=nowhere",
         "nowhere");
    ends(2, TRAIN "--mode=train task.init_checkpoint=nowhere", "nowhere");
    ends(2, TRAIN "--mode=train trainer.optimizer_config.optimizer.type=nothing", "nothing");
    ends(1, TRAIN "--mode=train " RECORDS_OF("bad.tfrecord"), "training data: ");
    assert_int_equal(times("bad.tfrecord"), 1); // one line of error, and no configuration before it
    assert_false(tl_file_exists("run"));
    ends(2, "tilth train_net train.output_dir=run/deep model._target_=nothing", "nothing");
    write_net();
    ends(2, NET "train.output_dir=run/deep train.load_weight=nowhere", "nowhere");
    assert_false(tl_file_exists("run"));
}

static void test_train_net_moves_nothing_before_it_is_accepted(void **state)
{
    (void)state;
    write_net();
    ends(0, NET, "");
    assert_true(tl_file_exists("run/log.txt") && tl_file_exists("run/config.yaml"));
    char *before = snapshot();
    ends(2, NET "train.load_weight=nowhere", "nowhere");
    ends(2, NET "--resume 'model.backbone.mlp.units=[9]' train.train_iter=8", "does not fit");
    assert_int_equal(times("does not fit"), 1);
    unchanged(before);
    ends(0, NET, "was moved to 'run/previous-1'"); // anew
    assert_true(tl_file_exists("run/previous-1/ckpt-4.safetensors"));
}

/* --- two at once ------------------------------------------------------------------------------ */

static void test_two_runs_in_one_folder(void **state)
{
    (void)state;
    char wanted[96];
    pid_t child = start("trainer.max_to_keep=1");
    wait_for("saved checkpoint to");
    char *before = text_of("run/params.yaml");
    snprintf(wanted, sizeof wanted, "'run' is in use: process %ld on ", (long)child);
    ends(2, "tilth train --experiment=mock --mode=train --model_dir=run trainer.train_steps=5 " SGD,
         wanted);
    has("name another folder");
    char *after = text_of("run/params.yaml");
    assert_string_equal(before, after);
    tl_free(before);
    tl_free(after);
    // Looking is allowed.
    ends(
        0,
        "tilth train --experiment=mock --mode=eval --model_dir=run trainer.validation_steps=1 " SGD,
        "eval | step:");
    ends(0, "tilth eval --model_dir=run trainer.validation_steps=1", "");
    kill(child, SIGKILL);
    assert_int_equal(finish(child), -SIGKILL);
    ends(0, "tilth train --experiment=mock --mode=train --model_dir=run trainer.train_steps=1 " SGD,
         "restored model from");
    assert_false(tl_file_exists("run/training.lock"));
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void test_waiting_ends(void **state)
{
    (void)state;
    ends(2, TRAIN "--mode=continuous_eval trainer.continuous_eval_timeout=0",
         "no checkpoint has appeared in 'run' for 0 s");
    ends(0, TRAIN "--mode=train", "done: step 4");
    ends(0,
         TRAIN "--mode=continuous_eval trainer.continuous_eval_timeout=1 trainer.train_steps=100",
         "no new checkpoint has appeared in 'run' for 1 s: the evaluation ends");
    has("eval | step:      4 | eval time");
    ends(0, TRAIN "--mode=continuous_eval trainer.continuous_eval_timeout=3000",
         "eval | step:      4 | eval time");
}

/* --- blowing up ------------------------------------------------------------------------------- */

#define RATE(value)                                                                                \
    TRAIN "--mode=train trainer.checkpoint_interval=1 "                                            \
          "trainer.optimizer_config.learning_rate.type=constant "                                  \
          "trainer.optimizer_config.learning_rate.constant.learning_rate=" value " "               \
          "trainer.optimizer_config.optimizer.type=sgd "

static void test_a_rate_beyond_reason(void **state)
{
    (void)state;
    ends(1, RATE("1e30"), "numbers are not finite");
    has("'run/ckpt-1.safetensors' led straight to it, and is kept as "
        "'run/ckpt-1.safetensors.poisoned'");
    has("Lower the learning rate and start again");
    assert_false(tl_file_exists("run/checkpoint"));
    ends(0, RATE("0.01"), "done: step 4");
    // With good ones before it, it goes on from those.
    ends(1, RATE("1e30") "trainer.train_steps=9", "'run/ckpt-5.safetensors' led straight to it");
    has("Lower the learning rate and resume: the run goes on from 'run/ckpt-4.safetensors'");
    ends(0, RATE("0.01") "trainer.train_steps=9", "restored model from run/ckpt-4.");
    has("done: step 9");
}

/* --- what it says ----------------------------------------------------------------------------- */

static void test_lines_stand_once(void **state)
{
    (void)state;
    ends(0, TRAIN "--mode=train_and_eval", "train | step:      0 | training until step 4...");
    assert_int_equal(times("training until step 4"), 1);
    assert_int_equal(times("saved checkpoint to run/ckpt-4"), 1);
    assert_int_equal(times("Final experiment parameters"), 1);
    has("Final experiment parameters: run/params.yaml\n");
    assert_int_equal(times("steps_per_loop"), 0);
    // Into two files: each has it, as ever.
    assert_int_equal(shell(TRAIN "--mode=train trainer.train_steps=5 >one.txt 2>two.txt"), 0);
    hear("one.txt");
    assert_int_equal(times("training until step 5"), 1);
    hear("two.txt");
    assert_int_equal(times("training until step 5"), 1);
    ends(0, TRAIN "--mode=train trainer.train_steps=6 --verbosity=1", "\n  steps_per_loop: 50\n");
}

static void test_damaged_data_is_no_mistake_of_the_command(void **state)
{
    (void)state;
    write_records("bad.tfrecord", 30);
    ends(1, TRAIN "--mode=train trainer.train_steps=20 " RECORDS_OF("bad.tfrecord"),
         "tilth train: training data: 'bad.tfrecord'");
    assert_int_equal(times("bad.tfrecord"), 1);
    assert_true(tl_file_exists("run/params.yaml")); // it had begun
}

/* --- lost files ------------------------------------------------------------------------------- */

static void test_a_lost_state_file(void **state)
{
    (void)state;
    ends(0, TRAIN "--mode=train trainer.checkpoint_interval=2", "done: step 4");
    assert_int_equal(unlink("run/checkpoint"), 0);
    ends(0, TRAIN "--mode=train trainer.train_steps=6",
         "'run' has checkpoints, but no file 'checkpoint'");
    has("restored model from run/ckpt-4.safetensors.");
    assert_true(tl_file_exists("run/checkpoint") && tl_file_exists("run/ckpt-2.safetensors"));
}

/* --- signals ---------------------------------------------------------------------------------- */

static void test_a_signal_is_answered(void **state)
{
    (void)state;
    const struct {
        int number;
        const char *said;
    } rows[] = {
        {SIGINT,
         "SIGINT: this step is being finished, and saved; a second signal ends it at once\n"},
        {SIGHUP,
         "SIGHUP: this step is being finished, and saved; a second signal ends it at once\n"},
    };
    for (int i = 0; i < 2; i++) {
        pid_t child = start("trainer.max_to_keep=1");
        wait_for("saved checkpoint to");
        kill(child, rows[i].number);
        assert_int_equal(finish(child), 3);
        hear("talk.txt");
        has(rows[i].said);
        has("ended the training at step");
        assert_int_equal(times("which is saved: the same command goes on"), 1);
    }
    // Under nohup it goes on.
    signal(SIGHUP, SIG_IGN);
    pid_t child = start("trainer.max_to_keep=1");
    signal(SIGHUP, SIG_DFL);
    wait_for("saved checkpoint to");
    kill(child, SIGHUP);
    kill(child, SIGTERM);
    assert_int_equal(finish(child), 3);
    hear("talk.txt");
    has("SIGTERM ended the training at step");
}

/* --- trials ----------------------------------------------------------------------------------- */

static void test_a_dry_run_keeps_nothing(void **state)
{
    (void)state;
    ends(0,
         TRAIN "--mode=train_and_eval --dry_run ++trainer.optimizer_config.ema.average_decay=0.99",
         "dry run: everything works, and nothing was kept\n");
    has("  the first step ");
    has("  a step after that ");
    has("  one batch evaluated ");
    has("  peak memory ");
    has("  4 steps ");
    assert_false(tl_file_exists("run"));
    ends(2,
         TRAIN "--mode=train --dry_run task.train_data.file_type=tfrecord "
               "task.train_data.input_path=nowhere",
         "nowhere");
    ends(2, TRAIN "--mode=eval --dry_run", "");
    ends(0, TRAIN "--mode=train_and_eval", "done: step 4");
    char *before = snapshot();
    ends(0, TRAIN "--mode=train_and_eval --dry_run trainer.train_steps=40",
         "dry run: everything works");
    ends(2, TRAIN "--mode=train --dry_run 'task.model.backbone.cnn.filters=[4]'", "does not fit");
    unchanged(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(test_a_mistyped_resume_changes_nothing),
        SHELL_TEST(test_refused_runs_leave_no_folder),
        SHELL_TEST(test_train_net_moves_nothing_before_it_is_accepted),
        SHELL_TEST(test_two_runs_in_one_folder),
        SHELL_TEST(test_waiting_ends),
        SHELL_TEST(test_a_rate_beyond_reason),
        SHELL_TEST(test_lines_stand_once),
        SHELL_TEST(test_damaged_data_is_no_mistake_of_the_command),
        SHELL_TEST(test_a_lost_state_file),
        SHELL_TEST(test_a_signal_is_answered),
        SHELL_TEST(test_a_dry_run_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
