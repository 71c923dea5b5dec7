/* The commands of the program: what they write where, and their exit codes. Most tests call them in
 * this process with streams of their own; those about the process itself start the program. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/builtin/builtin.h>
#include <tilth/desc/config.h>
#include <tilth/train/task.h>

#include "tool/tool_run.h"

/* --- running ---------------------------------------------------------------------------------- */

static int end(void **state)
{
    (void)state;
    tool_forget();
    tool_options = (tl_main_options){0};
    return 0;
}

/* --- the program ------------------------------------------------------------------------------ */

static void test_usage(void **state)
{
    (void)state;
    run_list((const char *const[]){NULL});
    failed(2, "Usage: tilth COMMAND");
    static const char *const words[] = {"help", "--help", "-h", "--helpfull", "-help"};
    for (int64_t i = 0; i < TL_COUNT(words); i++) {
        run(words[i]);
        went_well();
        has("Usage: tilth COMMAND");
        has("  params      the effective configuration");
        has("Exit codes:\n  0  ");
        has("\n  1  ");
        has("\n  2  ");
    }
}

static void test_version(void **state)
{
    (void)state;
    run("--version");
    went_well();
    assert_string_equal(out, "tilth " TL_VERSION "\n");
}

static void test_help_of_commands(void **state)
{
    (void)state;
    static const char *const commands[] = {"list", "describe", "params"};
    for (int64_t i = 0; i < TL_COUNT(commands); i++) {
        run("help", commands[i]);
        went_well();
        char *first = strdup(out);
        text_has(first, "Usage: tilth ");
        text_has(first, "--plugin=TEXT ...");
        text_has(first, "--[no]alsologtostderr");
        text_has(first, "-v, --verbosity=N");
        run(commands[i], "--nonsense", "--help");
        went_well();
        assert_string_equal(out, first);
        free(first);
        // No line is wider than the terminal.
        for (const char *line = out; *line;) {
            size_t length = strcspn(line, "\n");
            if (length > 80) fail_msg("too wide: %.*s", (int)length, line);
            line += length + 1;
        }
    }
}

static void test_unknown_commands_and_flags(void **state)
{
    (void)state;
    run("parms");
    failed(2, "tilth: unknown command 'parms', did you mean 'params'?\n");
    run("--versoin");
    failed(2, "tilth: unknown flag '--versoin', did you mean '--version'?\n");
    run("--experiment=mock", "params");
    failed(2, "flags of a command stand behind it");
    run("help", "lits");
    failed(2, "did you mean 'list'?");
    run("list", "--nmaes", "--nothing_like_it");
    failed(2, "tilth list: --nmaes: unknown flag, did you mean --names?\n"
              "    --nothing_like_it: unknown flag\n");
    run("");
    failed(2, "unknown command ''");
}

/* --- list ------------------------------------------------------------------------------------- */

static void test_list(void **state)
{
    (void)state;
    run("list");
    went_well();
    has("\n\nexperiments:\n");
    has("\n  mock  ");
    has("\n\noptimizers:\n");
    has("\n  sgd ");
    has("\n\ntasks:\n");
    run("list", "optimizers");
    went_well();
    has("  sgd ");
    has_not("mock");
    run("list", "optimizer"); // the singular is as good
    went_well();
    has("  sgd ");
    run("list", "kinds");
    went_well();
    has("  experiments  ");
}

static void test_list_for_scripts(void **state)
{
    (void)state;
    run("list", "experiments", "--names");
    went_well();
    has("\nmock\n");
    has("vision/local\n");
    has_not(" ");
    run("list", "--names");
    went_well();
    has("experiment:mock\n");
    has("optimizer:sgd\n");
    has_not(" ");
    run("list", "kinds", "--names");
    went_well();
    has("experiments\n");
    has_not(" ");
}

static void test_list_mistakes(void **state)
{
    (void)state;
    run("list", "optimizerz");
    failed(2, "optimizers");
    run("list", "optimizers", "tasks");
    failed(2, "tilth list: one kind at most, found also 'tasks'");
}

/* --- describe --------------------------------------------------------------------------------- */

static void test_describe(void **state)
{
    (void)state;
    run("describe", "sgd");
    went_well();
    has("sgd: optimizer of the module 'optimizers'\n    ");
    has("\nmomentum: float, default 0.0\n    ");
    has("\nclipnorm: float or null, default null\n    ");
    run("describe", "optimizer:sgd", "momentum");
    went_well();
    assert_int_equal(strncmp(out, "momentum: float, default 0.0\n    ", 33), 0);
    has_not("clipnorm");
    run("describe", "optimizers");
    went_well();
    has("optimizers: ");
    has("\n  sgd ");
}

static void test_describe_required(void **state)
{
    (void)state;
    run("describe", "layer:dense", "units");
    assert_string_equal(out,
                        "units: int, required\n    size of the result's last axis (at least 1)\n");
}

static void test_describe_experiment(void **state)
{
    (void)state;
    run("describe", "experiment", "mock");
    went_well();
    has("mock: experiment of the module 'mock'\n");
    has("\ntrainer.train_steps: int, default 0\n    ");
    has("\nruntime.distribution_strategy: string, default mirrored\n    ");
    has("\ntask.train_data.shuffle_buffer_size: int, default 100\n    ");
    has("\ntrainer.optimizer_config.optimizer.type: one of adadelta, ");
    has("only the default is accepted]");
    char *first = strdup(out);
    run("describe", "experiment:mock");
    went_well();
    assert_string_equal(out, first);
    free(first);
}

static void test_describe_a_part(void **state)
{
    (void)state;
    run("describe", "mock", "trainer.optimizer_config"); // the task of that name has no such key
    went_well();
    has("trainer.optimizer_config: section\n");
    has("trainer.optimizer_config.warmup.type: one of constant, linear, peak, polynomial,\n");
    has_not("runtime");
    run("describe", "mock", "trainer.optimizer_config.learning_rate.cosine");
    went_well();
    has("trainer.optimizer_config.learning_rate.cosine.decay_steps: ");
    run("describe", "mock", "trainer.optimizer_config.learning_rate.type");
    went_well();
    has("trainer.optimizer_config.learning_rate.type: one of constant, cosine,\n");
    run("describe", "mock", "task.differential_privacy_config"); // null by default
    went_well();
    has("task.differential_privacy_config: section or null, default null\n");
    has("task.differential_privacy_config.clipping_norm: float");
}

static void test_describe_means_the_experiment_first(void **state)
{
    (void)state;
    run("describe", "mock");
    assert_int_equal(code, 0);
    has("trainer.train_steps: ");
    text_has(err, "there is also task:mock");
}

static void test_describe_for_scripts(void **state)
{
    (void)state;
    run("describe", "experiment:mock", "--names");
    went_well();
    has("\ntrainer.train_steps\n");
    has("\ntrainer.optimizer_config.optimizer.type\n");
    has_not(" ");
}

static void test_describe_mistakes(void **state)
{
    (void)state;
    run("describe");
    failed(2, "a name is missing");
    run("describe", "sdg");
    failed(2, "nothing is called 'sdg', did you mean 'sgd'?");
    run("describe", "optimizer", "sdg");
    failed(2, "did you mean 'sgd'?");
    run("describe", "sgd", "momentun");
    failed(2, "there is no key 'momentun', did you mean 'momentum'?");
    run("describe", "mock", "trainer.train_step");
    failed(2, "there is no key 'train_step' in 'trainer', did you mean 'train_steps'?");
    run("describe", "mock", "trainer.train_steps.x");
    failed(2, "'trainer.train_steps' has no keys");
    run("describe", "mock", "trainer.optimizer_config.optimizer.sdg");
    failed(2, "did you mean 'sgd'?");
    run("describe", "sgd", "momentum", "more");
    failed(2, "one key at most, found also 'more'");
}

/* --- params ----------------------------------------------------------------------------------- */

static const char *write_file(const char *name, const char *text)
{
    assert_ok(tl_file_write_atomic(name, text, strlen(text)));
    return name;
}

static void test_params(void **state)
{
    (void)state;
    run("params", "--experiment=mock");
    went_well();
    assert_int_equal(strncmp(out, "runtime:\n", 9), 0);
    has("\n  train_steps: 0\n");
    // What is written is a configuration file: it reads back as the same.
    char *first = strdup(out);
    write_file("back.yaml", first);
    run("params", "--experiment", "mock", "--config_file=back.yaml");
    went_well();
    assert_string_equal(out, first);
    free(first);
    unlink("back.yaml");
}

/* LiBai's config.py has no experiment. What is written is read by train_net, and gives the same. */
static void test_params_of_python(void **state)
{
    (void)state;
    write_file("net.py", "from libai.config import LazyCall, get_config\n"
                         "train = get_config('common/train.py').train\n"
                         "train.train_iter = 4 * 5\nmodel = LazyCall('mock')()\n");
    run("params", "--config_file=net.py", "train.log_period=7", "--explain");
    went_well();
    has("\n  train_iter: 20 ");
    has(" # net.py:3:22\n");
    has("\n  log_period: 7 ");
    has("  type: mock");
    run("params", "--config_file=net.py", "train.log_perod=7");
    failed(2, "command line: train.log_perod: unknown key, did you mean 'log_period'?");
    run("train", "--experiment=mock", "--config_file=net.py", "--mode=train", "--model_dir=x");
    failed(2, "'net.py' is a whole configuration of LiBai's, and changes no experiment");
    run("params", "net.py", "train.log_period=7");
    went_well();
    has("\n  log_period: 7\n");
    run("params", "net.py", "other.py");
    failed(2, "'net.py': LiBai's config.py is the one file of a configuration");
    run("train", "net.py", "--model_dir=x", "--mode=train_and_post_eval");
    failed(2, "has the modes train, train_and_eval and eval");
    run("train", "net.py", "--model_dir=x", "--dry_run");
    failed(2, "--fast-dev-run");
    run("train", "net.py", "--model_dir=x", "--gin_params=a.b = 1");
    failed(2, "takes no gin bindings");
    run("train", "net.py", "--model_dir=net", "train.log_period=5", "tilth.jit=false");
    went_well();
    assert_true(tl_file_exists("net/ckpt-20.safetensors"));
    run("train", "net.py", "--model_dir=net", "train.train_iter=30", "tilth.jit=false"); // goes on
    went_well();
    assert_true(tl_file_exists("net/ckpt-30.safetensors"));
    assert_false(tl_dir_exists("net/previous-1"));
    run("train", "net.py", "--model_dir=net", "--mode=eval", "tilth.jit=false");
    went_well();
    assert_int_equal(system("rm -r net"), 0);
    unlink("net.py");
}

static void test_params_later_sources_win(void **state)
{
    (void)state;
    write_file("a.yaml", "trainer: {train_steps: 1, steps_per_loop: 11, summary_interval: 21}\n");
    write_file("b.yaml", "trainer: {train_steps: 2, steps_per_loop: 12}\n");
    run("params", "--experiment=mock", "--trainer.train_steps=5", "--config_file=a.yaml",
        "--params_override=trainer.train_steps=3,trainer.validation_interval=30",
        "--config_file=b.yaml", "trainer.validation_steps=40");
    went_well();
    has("  train_steps: 5\n");
    has("  steps_per_loop: 12\n");
    has("  summary_interval: 21\n");
    has("  validation_interval: 30\n");
    has("  validation_steps: 40\n");
    run("params", "--experiment=mock", "--trainer.train_steps=5", "trainer.train_steps=6");
    has("  train_steps: 6\n");
    run("params", "--experiment=mock", "trainer.train_steps=6", "--trainer.train_steps", "5");
    has("  train_steps: 5\n");
    unlink("a.yaml");
    unlink("b.yaml");
}

static void test_params_words(void **state)
{
    (void)state;
    run("params", "--experiment=mock", "~task.validation_data", "++task.name=x",
        "trainer.optimizer_config.optimizer={type: sgd, sgd: {momentum: 0.9}}");
    went_well();
    has("  validation_data: null\n");
    has("  name: x\n");
    has("momentum: 0.9\n");
    run("params", "--experiment=mock", "--", "--trainer.train_steps=7"); // no flag any more
    failed(2, "--trainer: unknown key");
}

static void test_params_explain(void **state)
{
    (void)state;
    write_file("e.yaml", "trainer:\n  steps_per_loop: 11\n");
    run("params", "--experiment=mock", "--config_file=e.yaml", "--explain",
        "--params_override=trainer.validation_steps=4");
    went_well();
    has("  steps_per_loop: 11");
    has("# e.yaml:2:");
    has("# --params_override\n");
    has("# default\n");
    unlink("e.yaml");
}

static void test_params_from_a_flagfile(void **state)
{
    (void)state;
    write_file("run.flags", "# run\n--experiment=mock\n--trainer.train_steps=9\n"
                            "trainer.steps_per_loop=3\n");
    run("params", "--flagfile=run.flags");
    went_well();
    has("  train_steps: 9\n");
    has("  steps_per_loop: 3\n");
    unlink("run.flags");
}

static void test_params_mistakes(void **state)
{
    (void)state;
    run("params");
    failed(2, "tilth params: no experiment");
    run("params", "--experiment=mokc");
    failed(2, "did you mean 'mock'?");
    run("params", "--experimnet=mock");
    failed(2, "--experimnet: unknown flag, did you mean --experiment?");
    run("params", "--experiment=mock", "--trainer.train_stesp=5");
    failed(2, "trainer.train_stesp");
    text_has(err, "did you mean");
    run("params", "--experiment=mock", "trainer.train_steps=many");
    failed(2, "trainer.train_steps: expected an integer");
    run("params", "--experiment=mock", "word");
    failed(2, "'word'");
    run("params", "--experiment=mock", "--config_file=no_such.yaml");
    failed(2, "no_such.yaml");
    write_file("bad.yaml", "trainer:\n  train_stesp: 5\n  steps_per_loop: x\n");
    run("params", "--experiment=mock", "--config_file=bad.yaml");
    failed(2, "tilth params: bad.yaml:2:3: trainer.train_stesp: unknown key");
    text_has(err, "\n    bad.yaml:3:"); // all together, further lines indented
    unlink("bad.yaml");
    run("params", "--experiment=mock", "--plugin=./no_such.so");
    failed(2, "tilth params: --plugin: ");
    text_has(err, "no_such.so");
}

static void test_params_not_strict(void **state)
{
    (void)state;
    run("params", "--experiment=mock", "--nostrict_override", "--verbosity=-2",
        "--params_override=trainer.nonsense=1,trainer.train_steps=2");
    assert_int_equal(code, 0);
    has("  train_steps: 2\n");
    has_not("nonsense");
}

static void test_params_gin(void **state)
{
    (void)state;
    write_file("bad.gin", "# a comment\nx = [1, 2\n");
    run("params", "--experiment=mock", "--gin_file=bad.gin");
    failed(2, "bad.gin:");
    run("params", "--experiment=mock", "--gin_params=nobody.knows = 1");
    failed(2, "nobody");
    write_file("good.gin", "x = 5\n");
    run("params", "--experiment=mock", "--gin_file=good.gin", "--gin_params=y = 6");
    went_well();
    has("runtime:\n");
    unlink("bad.gin");
    unlink("good.gin");
}

static void test_params_helpfull(void **state)
{
    (void)state;
    run("params", "--experiment=mock", "--helpfull");
    went_well();
    has("--config_file=TEXT ...");
    has("\nKeys of the experiment 'mock'");
    has("\ntrainer.train_steps: int, default 0\n");
    run("params", "--helpfull");
    went_well();
    has_not("trainer.train_steps: int");
}

static void test_control_bytes_do_not_reach_the_terminal(void **state)
{
    (void)state;
    run("params", "--experiment=\x1b[2J");
    failed(2, "\\x1b[2J");
    text_has_not(err, "\x1b");
    run("params", "--experiment=mock", "trainer.train_steps=\x1b]0;x\a");
    assert_int_equal(code, 2);
    text_has_not(err, "\x1b");
}

static void test_log_file(void **state)
{
    (void)state;
    run("params", "--experiment=mock", "--log_dir=logs", "--nostrict_override",
        "--params_override=trainer.nonsense=1");
    assert_int_equal(code, 0);
    char *text;
    assert_ok(tl_file_read(&text, NULL, "logs/tilth.INFO", 1 << 20));
    text_has(text, "trainer.nonsense");
    tl_free(text);
    run("list", "--log_dir=/dev/null/x");
    assert_int_equal(code == 1 || code == 2, 1);
    text_has(err, "--log_dir");
    assert_int_equal(system("rm -rf logs"), 0);
}

/* --- an application --------------------------------------------------------------------------- */

static const tl_field mine_fields[] = {TL_F_END};
static const tl_desc mine_task_desc = {
    .name = "mine_task",
    .help = "my task",
    .size = sizeof(tl_task_config),
    .fields = mine_fields,
    .base = &tl_task_config_desc,
};
static const tl_task_class mine_task = {
    .cls = {.class_size = sizeof(tl_task_class), .name = "mine", .config = &mine_task_desc},
};
typedef struct mine_flags {
    const char *hospital;
} mine_flags;
static const tl_field mine_flag_fields[] = {
    TL_F(mine_flags, hospital, .s = "none", .help = "where the images come from"),
    TL_F_END,
};
static const tl_desc mine_flags_desc = {
    .name = "mine",
    .help = "m",
    .size = sizeof(mine_flags),
    .fields = mine_flag_fields,
};
static mine_flags given;

/* Flags of the application are there while a command runs. */
static tl_status mine_fill(tl_experiment_config *experiment, tl_arena *arena)
{
    tl_task_config *task = experiment->task.value;
    task->name = tl_arena_strdup(arena, given.hospital);
    return task->name ? TL_OK : TL_ENOMEM;
}
static const tl_experiment_class mine_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "mine/small", .help = "my own"},
    .task = &mine_task_desc,
    .defaults = "trainer: {train_steps: 77}",
    .fill = mine_fill,
};
static const tl_entry mine_entries[] = {
    {&tl_kind_task, &mine_task.cls},
    {&tl_kind_experiment, &mine_experiment.cls},
};
static const tl_module mine_module = {TL_MODULE_HEAD("mine"), mine_entries, TL_COUNT(mine_entries)};
static const tl_module *const mine_modules[] = {&mine_module};

static void test_application(void **state)
{
    (void)state;
    tool_options = (tl_main_options){.modules = mine_modules,
                                     .module_count = 1,
                                     .version = "9.9",
                                     .flags = &mine_flags_desc,
                                     .flags_value = &given};
    run("list", "experiments", "--names");
    went_well();
    has("\nmine/small\n");
    run("params", "--experiment=mine/small", "--hospital=Basel");
    went_well();
    has("  train_steps: 77\n");
    has("  name: Basel\n");
    run("describe", "mine/small", "trainer.train_steps");
    went_well();
    has("trainer.train_steps: int, default 77\n"); // the experiment's, not the table's
    run("params", "--help");
    has("--hospital=TEXT             where the images come from (default: none)\n");
    run("--version");
    assert_string_equal(out, "tilth 9.9\n");
}

static void test_application_flag_that_is_taken(void **state)
{
    (void)state;
    static const tl_field taken[] = {
        TL_F_AS(mine_flags, hospital, "verbosity", .help = "taken"),
        TL_F_END,
    };
    static const tl_desc taken_desc = {
        .name = "taken",
        .help = "t",
        .size = sizeof(mine_flags),
        .fields = taken,
    };
    tool_options = (tl_main_options){.flags = &taken_desc, .flags_value = &given};
    run("list");
    failed(2, "the flag --verbosity is defined twice: by 'tilth' and by 'Logging'");
}

/* --- the process ------------------------------------------------------------------------------ */

/* Starts the program with standard output at `fd` (-1: closed) and standard error in a file; gives
 * its exit code, or minus the signal that ended it. */
static int spawn(int fd, char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        int errors = open("spawn.err", O_CREAT | O_TRUNC | O_WRONLY, 0600);
        dup2(errors, STDERR_FILENO);
        if (fd >= 0) dup2(fd, STDOUT_FILENO);
        else close(STDOUT_FILENO);
        execv(TILTH_PROGRAM, argv);
        _exit(99);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) fail_msg("cannot start: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void complained(const char *message)
{
    char *text;
    assert_ok(tl_file_read(&text, NULL, "spawn.err", 1 << 16));
    text_has(text, message);
    tl_free(text);
    unlink("spawn.err");
}

static void test_full_disk(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    int fd = open("/dev/full", O_WRONLY);
    assert_int_equal(spawn(fd, (char *[]){"tilth", "list", NULL}), 1);
    close(fd);
    complained("tilth list: standard output: No space left on device");
}

static void test_reader_goes_away(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(spawn(ends[1], (char *[]){"tilth", "help", NULL}), 1);
    close(ends[1]);
    complained(""); // as `| head` is used
}

static void test_closed_output(void **state)
{
    (void)state;
    assert_int_equal(
        spawn(-1, (char *[]){"tilth", "params", "--experiment=mock", "--log_dir=closed", NULL}), 1);
    complained("tilth params: standard output: ");
    assert_int_equal(system("rm -rf closed"), 0);
}

/* --- completion ------------------------------------------------------------------------------- */

/* What bash would offer for the line, one a line. */
static const char *complete(const char *line)
{
    static char replies[1 << 16];
    char command[2048];
    snprintf(command, sizeof command,
             "source '" TEST_DATA "/../tool/tilth.bash'; COMP_LINE='%s'; COMP_POINT=%zu; "
             "COMP_WORDS=('" TILTH_PROGRAM "'); _tilth; printf '%%s\\n' \"${COMPREPLY[@]}\"",
             line, strlen(line));
    assert_ok(tl_file_write_atomic("complete.sh", command, strlen(command)));
    FILE *pipe_end = popen("bash complete.sh", "r");
    assert_non_null(pipe_end);
    size_t length = fread(replies, 1, sizeof replies - 1, pipe_end);
    replies[length] = '\0';
    assert_int_equal(pclose(pipe_end), 0);
    unlink("complete.sh");
    return replies;
}

static void test_completion(void **state)
{
    (void)state;
    if (system("bash -c true") != 0) skip();
    assert_string_equal(complete("tilth pa"), "params\n");
    text_has(complete("tilth "), "list\n");
    text_has(complete("tilth list o"), "optimizers\n");
    assert_string_equal(complete("tilth describe optimizer:sg"), "sgd\nsgd_experimental\n");
    assert_string_equal(complete("tilth describe sgd mom"), "momentum\n");
    text_has(complete("tilth describe mock trainer.optimizer_config.o"),
             "trainer.optimizer_config.optimizer.type\n");
    assert_string_equal(complete("tilth params --experi"), "--experiment=\n");
    assert_string_equal(complete("tilth params --noexp"), "--noexplain\n");
    assert_string_equal(complete("tilth params --experiment=moc"), "mock\n");
    assert_string_equal(complete("tilth params --experiment moc"), "mock\n");
    assert_string_equal(complete("tilth params --experiment=mock --trainer.train_s"),
                        "--trainer.train_steps=\n");
    assert_string_equal(complete("tilth params --experiment=mock trainer.train_s"),
                        "trainer.train_steps=\n");
    write_file("complete me.yaml", "");
    assert_string_equal(complete("tilth params --config_file=complet"),
                        "complete me.yaml\ncomplete.sh\n");
    unlink("complete me.yaml");
}

#define t(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        t(test_usage),
        t(test_version),
        t(test_help_of_commands),
        t(test_unknown_commands_and_flags),
        t(test_list),
        t(test_list_for_scripts),
        t(test_list_mistakes),
        t(test_describe),
        t(test_describe_required),
        t(test_describe_experiment),
        t(test_describe_a_part),
        t(test_describe_means_the_experiment_first),
        t(test_describe_for_scripts),
        t(test_describe_mistakes),
        t(test_params),
        t(test_params_of_python),
        t(test_params_later_sources_win),
        t(test_params_words),
        t(test_params_explain),
        t(test_params_from_a_flagfile),
        t(test_params_mistakes),
        t(test_params_not_strict),
        t(test_params_gin),
        t(test_params_helpfull),
        t(test_control_bytes_do_not_reach_the_terminal),
        t(test_log_file),
        t(test_application),
        t(test_application_flag_that_is_taken),
        t(test_full_disk),
        t(test_reader_goes_away),
        t(test_closed_output),
        t(test_completion),
    };
    width = 80;
    // Files of this program alone, whatever runs beside it.
    char folder[] = "tool-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("..") == 0 && rmdir(folder) == 0 ? failures : failures + 1;
}
