/* Links in the folder of a run: whoever has put them there does not say where we write. */
#include "security/run_lab.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <tilth/io/tensorflow/event_file.h>
#include <tilth/train/controller/actions.h>

#include "base/inner/folder.h"

/* Stand in for the C library's: when something of that name has been opened, or looked at, a link
 * takes its place. */
static struct {
    const char *name, *to;
} exchange;

static void exchange_now(int folder, const char *path)
{
    const char *name = exchange.name;
    if (!name || strcmp(tl_path_basename(path), name) != 0) return;
    exchange.name = NULL;
    (void)!unlinkat(folder, path, 0);
    (void)!symlinkat(exchange.to, folder, path);
}

int openat(int folder, const char *name, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    int fd = (int)syscall(SYS_openat, folder, name, flags, mode);
    if (fd >= 0) exchange_now(folder, name);
    return fd;
}

int lstat(const char *path, struct stat *info)
{
    int result = fstatat(AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
    if (result == 0) exchange_now(AT_FDCWD, path);
    return result;
}

static void test_files_of_a_run(void **state)
{
    (void)state;
    static const char *const names[] = {
        "params.yaml",        "experiment.txt", "checkpoint",
        "training.lock",      "metrics.jsonl",  "operative_config.train.gin",
        "ckpt-4.safetensors", "best/info.json", "best/checkpoint",
    };
    char path[128];
    make_victim();
    for (int i = 0; i < TL_COUNT(names); i++) {
        const bool deep = strchr(names[i], '/') != NULL;
        begin_run("fresh"); // each alone: what one of them does must not hide another
        snprintf(path, sizeof path, "fresh/%s", names[i]);
        put_link(deep ? "../../victim/model.safetensors" : "../victim/model.safetensors", path);
        train_on("fresh", 4, strcmp(names[i], "params.yaml") == 0 ? "trainer.max_to_keep=2" : NULL);
        victim_is_unharmed();
        nftw("fresh", lab_remove, 8, FTW_DEPTH | FTW_PHYS);
    }
}

/* A link that leads nowhere would make the file that it names. */
static void test_links_that_lead_nowhere(void **state)
{
    (void)state;
    static const char *const names[] = {"training.lock", "metrics.jsonl", "checkpoint",
                                        "experiment.txt", "classes.txt"};
    char path[128];
    assert_ok(tl_mkdirs("run"));
    for (int i = 0; i < TL_COUNT(names); i++) {
        snprintf(path, sizeof path, "run/%s", names[i]);
        put_link("../made", path);
    }
    train_on("run", 2, NULL);
    ended(0, "");
    assert_false(tl_file_exists("made"));
    assert_false(is_link("run/metrics.jsonl"));
    logged("'run/metrics.jsonl' was a symbolic link: it is a file of its own now");
}

/* A second name of a file of somebody's. */
static void test_hard_links(void **state)
{
    (void)state;
    static const char *const names[] = {"run/metrics.jsonl", "run/training.lock", "run/params.yaml",
                                        "run/checkpoint"};
    begin_run("run");
    make_victim();
    for (int i = 0; i < TL_COUNT(names); i++) {
        unlink(names[i]);
        assert_int_equal(link("victim/model.safetensors", names[i]), 0);
    }
    put_text("params.yaml", "{}\n"); // what it holds is no configuration
    unlink("run/params.yaml");
    assert_int_equal(link("params.yaml", "run/params.yaml"), 0);
    train_on("run", 4, NULL);
    ended(0, "");
    victim_is_unharmed();
    holds("params.yaml", "{}\n");
    logged("'run/metrics.jsonl' had other names (hard links): it is a copy now");
}

static void test_linked_folders_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"run/train", "run/validation", "run/best"};
    tl_path_list there;
    char message[128];
    for (int i = 0; i < TL_COUNT(names); i++) {
        assert_ok(tl_mkdirs("run"));
        assert_ok(tl_mkdirs("elsewhere"));
        put_link("../elsewhere", names[i]);
        train_on("run", 2, NULL);
        snprintf(message, sizeof message,
                 "'%s' is a symbolic link, and nothing is written through links that lie in the "
                 "folder of a run, 'run'",
                 names[i]);
        if (code == 0) fail_msg("%s was followed", names[i]);
        ended(code, message);
        assert_ok(tl_glob(&there, lab_arena, "elsewhere/*"));
        assert_int_equal(there.count, 0);
        nftw("run", lab_remove, 8, FTW_DEPTH | FTW_PHYS);
    }
}

/* The folder itself is named by whoever gives the command. */
static void test_the_folder_itself_may_be_a_link(void **state)
{
    (void)state;
    assert_ok(tl_mkdirs("disk/real"));
    put_link("disk", "above");
    put_link("real", "disk/run");
    train_on("above/run", 2, NULL);
    ended(0, "");
    assert_true(tl_file_exists("disk/real/ckpt-2.safetensors"));
    assert_true(tl_file_exists("disk/real/validation"));
}

/* --- LiBai's words, and sweeps ---------------------------------------------------------------- */

static void train_net(void)
{
    put_text("net.yaml",
             "model: {_target_: image_classification, num_classes: 3, input_size: [8, 8, 1],\n"
             "        backbone: {type: mlp, mlp: {units: [8]}}}\n"
             "dataloader:\n"
             "  train: {file_type: synthetic, synthetic_examples: 50}\n"
             "  test: [{file_type: synthetic, synthetic_examples: 20}]\n"
             "optim: {_target_: SGD, lr: 0.1}\n"
             "train: {train_iter: 4, train_micro_batch_size: 5, output_dir: run, evaluation: "
             "{enabled: false}}\n"
             "tilth: {jit: false}\n");
    run("train_net", "--config-file=net.yaml");
}

static void evaluate_net(void)
{
    run("train_net", "--config-file=net.yaml", "--eval-only", "train.evaluation.enabled=true",
        "train.resume=true");
}

static void test_files_of_train_net(void **state)
{
    (void)state;
    static const char *const names[] = {
        "log.txt",   "config.yaml", "metrics.json", "last_checkpoint", "model_final.safetensors",
        "previous-1"};
    char path[64];
    make_victim();
    train_net();
    ended(0, "");
    for (int i = 0; i < TL_COUNT(names); i++) {
        snprintf(path, sizeof path, "run/%s", names[i]);
        put_link(strcmp(names[i], "previous-1") == 0 ? "../victim" : "../victim/model.safetensors",
                 path);
    }
    train_net();
    ended(0, "");
    victim_is_unharmed();
    assert_true(is_link("run/previous-1")); // it is in nobody's way
    logged("it was moved to 'run/previous-2'");
}

static void evaluate_run(void)
{
    run("eval", "--model_dir=run");
}

/* An evaluation is noted in the run's metrics.jsonl, and nowhere else. */
static void check_evaluation(void (*evaluate)(void))
{
    struct stat info;
    put_link("../victim/model.safetensors", "run/metrics.jsonl");
    evaluate();
    ended(0, "");
    victim_is_unharmed();
    assert_false(is_link("run/metrics.jsonl"));
    assert_true(tl_file_exists("run/metrics.jsonl"));
    put_link("../made", "run/metrics.jsonl"); // it leads nowhere yet
    evaluate();
    ended(0, "");
    assert_false(tl_file_exists("made"));
    unlink("run/metrics.jsonl");
    assert_int_equal(link("victim/model.safetensors", "run/metrics.jsonl"), 0);
    evaluate();
    ended(0, "");
    victim_is_unharmed();
    assert_int_equal(stat("victim/model.safetensors", &info), 0);
    assert_int_equal(info.st_nlink, 1);
    unlink("run/metrics.jsonl");
    assert_int_equal(mkfifo("run/metrics.jsonl", 0666), 0);
    evaluate();
    ended(0, "");
    logged("cannot write 'run/metrics.jsonl': it is a pipe");
}

static void test_evaluations(void **state)
{
    (void)state;
    make_victim();
    begin_run("run");
    check_evaluation(evaluate_run);
}

static void test_evaluations_of_train_net(void **state)
{
    (void)state;
    make_victim();
    train_net();
    ended(0, "");
    check_evaluation(evaluate_net);
}

/* As a program of its own: it starts itself. */
static void sweep(void)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("out.txt", "w", stdout) || !freopen("err.txt", "w", stderr)) _exit(9);
        execl(TILTH_PROGRAM, "tilth", "sweep", "--experiment=vision/local", "--mode=train",
              "--model_dir=many", "--grid=trainer.train_steps=2", "tilth.jit=false", (char *)NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_logs_of_a_sweep(void **state)
{
    (void)state;
    tl_path_list there;
    make_victim();
    sweep();
    assert_ok(tl_glob(&there, lab_arena, "many/*/log.txt"));
    assert_int_equal(there.count, 1);
    put_link("../../victim/model.safetensors", there.items[0]);
    const char *done =
        tl_path_join(lab_arena, tl_path_dirname(lab_arena, there.items[0]), "metrics.jsonl");
    unlink(done); // so that it is run again
    sweep();
    victim_is_unharmed();
    assert_false(is_link(there.items[0]));
}

/* --- logs where others write too -------------------------------------------------------------- */

/* All names that the log could have in the next minutes. */
static void test_names_of_logs_that_were_guessed(void **state)
{
    (void)state;
    char host[256], stamp[32], name[600];
    int64_t handle;
    make_victim();
    assert_ok(tl_mkdirs("logs"));
    assert_int_equal(gethostname(host, sizeof host), 0);
    setenv("LOGNAME", "me", 1);
    time_t now = time(NULL);
    for (int i = 0; i < 120; i++, now++) {
        struct tm tm;
        localtime_r(&now, &tm);
        strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
        snprintf(name, sizeof name, "logs/prog.%s.me.log.INFO.%s.%d", host, stamp, (int)getpid());
        put_link("../victim/model.safetensors", name);
    }
    assert_ok(tl_log_folder_add(&handle, "logs", "prog", TL_LEVEL_INFO));
    TL_LOG_INFO("told");
    assert_true(tl_log_sink_remove(handle));
    unsetenv("LOGNAME");
    victim_is_unharmed();
    char *text;
    // the log is there all the same
    assert_ok(tl_file_read(&text, NULL, "logs/prog.INFO", 1 << 20));
    assert_non_null(strstr(text, "] told\n"));
    tl_free(text);
}

/* Logs in the folder of a run, which is somebody else's. */
static void test_logs_in_a_run(void **state)
{
    (void)state;
    static const char *const folders[] = {"--log_dir=run/logs", "--log_dir=./run/logs/",
                                          "--log_dir=run/logs/new"};
    tl_path_list there;
    make_victim();
    begin_run("run");
    put_link("../victim", "run/logs");
    for (int i = 0; i < TL_COUNT(folders); i++) {
        run("eval", "--model_dir=run", folders[i]);
        ended(2, "run/logs' is a symbolic link");
        run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run", folders[i]);
        ended(2, "--log_dir: ");
    }
    victim_is_unharmed();
    unlink("run/logs");
    run("eval", "--model_dir=run", "--log_dir=run/logs");
    ended(0, "");
    assert_ok(tl_glob(&there, lab_arena, "run/logs/*.INFO.*"));
    assert_int_equal(there.count, 1);
    put_link("logs", "linked"); // of ours, beside the run
    assert_ok(tl_mkdirs("logs"));
    run("eval", "--model_dir=run", "--log_dir=linked");
    ended(0, "");
    assert_ok(tl_glob(&there, lab_arena, "logs/*.INFO.*"));
    assert_int_equal(there.count, 1);
}

/* --- what takes the place of a folder meanwhile ----------------------------------------------- */

/* Somebody who can write there exchanges a folder of ours for a link, when it has been made
 * already. */
static void test_folders_that_become_links(void **state)
{
    (void)state;
    tli_folder_hold *hold;
    tl_file_writer *w;
    tl_event_file *events;
    make_victim();
    assert_ok(tli_folder_hold_new(&hold, "run/"));
    assert_ok(tl_mkdirs("run/deep/er"));
    assert_ok(tl_file_writer_begin(&w, "run/deep/er/file"));
    assert_int_equal(rename("run/deep", "run/away"), 0);
    put_link("../victim", "run/deep");
    assert_ok(tl_file_writer_write(w, "x", 1));
    assert_ok(tl_file_writer_commit(&w)); // where it was begun
    holds("run/away/er/file", "x");
    assert_fails(tl_file_write_atomic("run/deep/model.safetensors", "x", 1), TL_EINVAL,
                 "'run/deep' is a symbolic link");
    assert_fails(tl_file_remove("run/deep/model.safetensors"), TL_EINVAL,
                 "'run/deep' is a symbolic link");
    assert_fails(tl_mkdirs("run/deep/new"), TL_EINVAL, "'run/deep' is a symbolic link");
    assert_fails(tl_mkdirs("run//./deep//"), TL_EINVAL, "is a symbolic link");
    assert_fails(tl_mkdirs("run/away/../../made"), TL_EINVAL,
                 "leads out of the folder of a run, 'run'");
    assert_fails(tl_event_file_open(&events, &(tl_event_file_args){.folder = "run/deep"}),
                 TL_EINVAL, "symbolic link");
    victim_is_unharmed();
    tli_folder_hold_free(&hold);
    assert_ok(tl_mkdirs("run/deep")); // nobody's run
}

/* Whether a path leads into the folder of a run does not hang on how it is written. */
static void test_other_spellings(void **state)
{
    (void)state;
    static const char *const held[] = {"run", "./run", "deep/../run/", "linked", "gone/../run"};
    static const char *const ways[] = {"run/out",         "./run/out",      ".//run/./out/",
                                       "deep/../run/out", "linked/out",     "to_out",
                                       "above/run/out",   "deep/up/run/out"};
    char here[4096], absolute[4200];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(absolute, sizeof absolute, "%s/run/out", here);
    make_victim();
    assert_ok(tl_mkdirs("run"));
    assert_ok(tl_mkdirs("deep"));
    put_link("../victim", "run/out");
    put_link("run", "linked");
    put_link("run/out", "to_out"); // of ours, but through one of theirs
    put_link(here, "above");
    put_link("..", "deep/up");
    for (int h = 0; h < TL_COUNT(held); h++) {
        tli_folder_hold *hold;
        assert_ok(tli_folder_hold_new(&hold, held[h]));
        const bool known = strncmp(held[h], "gone", 4) != 0;
        for (int i = 0; i <= TL_COUNT(ways) && known; i++) {
            const char *way = i < TL_COUNT(ways) ? ways[i] : absolute,
                       *file = tl_path_join(lab_arena, way, "file");
            assert_fails(tl_file_write_atomic(file, "x", 1), TL_EINVAL,
                         "is a symbolic link, and nothing is written");
            assert_fails(tl_mkdirs(file), TL_EINVAL, "is a symbolic link, and nothing is written");
        }
        assert_ok(tl_mkdirs("deep/up/deep/new/er")); // not in the run
        // in it, and through no link that lies in it
        assert_ok(tl_file_write_atomic("./linked/file", "x", 1));
        tli_folder_hold_free(&hold);
    }
    victim_is_unharmed();
    holds("run/file", "x");
}

/* By where we stand: in the run, below it, and beside it. */
static void test_runs_that_we_stand_in(void **state)
{
    (void)state;
    tli_folder_hold *hold;
    make_victim();
    assert_ok(tl_mkdirs("run/sub/deeper"));
    put_link("../../victim", "run/sub/out");
    assert_ok(tli_folder_hold_new(&hold, "run"));
    assert_int_equal(chdir("run/sub"), 0);
    assert_fails(tl_file_write_atomic("out/file", "x", 1), TL_EINVAL, "'out' is a symbolic link");
    assert_fails(tl_file_write_atomic("../sub/out/file", "x", 1), TL_EINVAL,
                 "'../sub/out' is a symbolic link");
    assert_int_equal(chdir("deeper"), 0);
    assert_fails(tl_file_write_atomic("../out/file", "x", 1), TL_EINVAL,
                 "'../out' is a symbolic link");
    assert_ok(tl_file_write_atomic("../file", "x", 1));
    // whoever stands in a run may name what lies beside it
    assert_ok(tl_file_write_atomic("../../../beside", "x", 1));
    assert_int_equal(chdir("../../.."), 0);
    tli_folder_hold_free(&hold);
    victim_is_unharmed();
    assert_true(tl_file_exists("beside") && tl_file_exists("run/sub/file"));
}

/* The folder is what it was when it was named: its name may lead elsewhere by now. */
static void test_names_that_lead_elsewhere(void **state)
{
    (void)state;
    tli_folder_hold *hold;
    assert_ok(tl_mkdirs("other/run"));
    assert_ok(tli_folder_hold_new(&hold, "run"));
    assert_ok(tl_mkdirs("run"));
    assert_int_equal(chdir("other"), 0);
    assert_ok(tl_mkdirs("run/sub"));
    assert_ok(tl_file_write_atomic("run/sub/file", "x", 1));
    assert_int_equal(chdir(".."), 0);
    assert_false(tl_file_exists("other/run/sub"));
    holds("run/sub/file", "x");
    assert_int_equal(rename("run", "moved"), 0);
    put_link("other/run", "run");
    assert_ok(tl_file_write_atomic("run/more", "x", 1));
    tli_folder_hold_free(&hold);
    assert_ok(tli_folder_hold_new(&hold, "new"));
    for (int i = 0; i < 2; i++) { // one that was removed is made anew
        assert_ok(tl_mkdirs("new"));
        assert_ok(tl_mkdirs("new/sub"));
        assert_true(rmdir("new/sub") == 0 && rmdir("new") == 0);
    }
    tli_folder_hold_free(&hold);
    assert_false(tl_file_exists("other/run/more"));
    holds("moved/more", "x");
}

/* Everything lies in the root, links of the system as well. */
static void test_the_root_is_not_held(void **state)
{
    (void)state;
    static const char *const names[] = {"/", "//", "/.", "/usr/.."};
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_ok(tl_mkdirs("real"));
    put_link("real", "linked");
    const char *file = tl_path_join(lab_arena, here, "linked/file");
    for (int i = 0; i < TL_COUNT(names); i++) {
        tli_folder_hold *hold;
        assert_ok(tli_folder_hold_new(&hold, names[i]));
        assert_ok(tl_file_write_atomic(file, "x", 1));
        tli_folder_hold_free(&hold);
    }
}

static void test_exports_into_a_run(void **state)
{
    (void)state;
    make_victim();
    begin_run("run");
    put_link("../victim", "run/exported");
    char here[4096], to[4200];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(to, sizeof to, "--to=%s/run/exported", here);
    run("export", "--model_dir=run", "--to=./run/exported");
    ended(2, "'./run/exported' is a symbolic link");
    run("export", "--model_dir=run", to);
    ended(2, "is a symbolic link");
    run("export", "--model_dir=./run", "--to=run/exported");
    ended(2, "'run/exported' is a symbolic link");
    victim_is_unharmed();
    assert_int_equal(chdir("run"), 0);
    run("export", "--model_dir=.", "--to=../exported");
    ended(0, "");
    assert_int_equal(chdir(".."), 0);
    assert_true(tl_file_exists("exported/model.safetensors"));
}

/* Between our two looks at a file somebody puts a link to a secret of ours in its place. */
static void test_files_exchanged_while_they_are_copied(void **state)
{
    (void)state;
    struct stat info;
    int fd;
    make_victim();
    assert_ok(tl_mkdirs("run"));
    put_text("bait", "bait\n");
    assert_int_equal(link("bait", "run/metrics.jsonl"), 0);
    // it still has other names when it has lost this one
    assert_int_equal(link("bait", "second"), 0);
    exchange.name = "metrics.jsonl";
    exchange.to = "../victim/model.safetensors";
    assert_ok(tli_open_own(&fd, &info, "run/metrics.jsonl", &(tli_open_args){0}));
    close(fd);
    assert_null(exchange.name); // it was
    assert_false(is_link("run/metrics.jsonl"));
    holds("run/metrics.jsonl", "");
    victim_is_unharmed();
}

/* What another run has told is not taken for what this one has. */
static void test_events_exchanged_while_they_are_cut(void **state)
{
    (void)state;
    tl_path_list events, others;
    tli_folder_hold *hold;
    begin_run("run");
    begin_run("other");
    assert_ok(tl_glob(&events, lab_arena, "run/train/events.*"));
    assert_ok(tl_glob(&others, lab_arena, "other/train/events.*"));
    assert_true(events.count == 1 && others.count == 1);
    exchange.to = tl_path_join(lab_arena, "../..", others.items[0]);
    exchange.name = tl_path_basename(events.items[0]);
    assert_ok(tl_event_folder_rewind("run/train", 0, false));
    assert_null(exchange.name);
    assert_true(is_link(events.items[0])); // the link was left alone
    assert_ok(tli_folder_hold_new(&hold, "run"));
    assert_int_equal(rename("run/train", "run/away"), 0);
    put_link("../other/train", "run/train");
    assert_fails(tl_event_folder_rewind("run/train", 0, false), TL_EINVAL,
                 "'run/train' is a symbolic link");
    tli_folder_hold_free(&hold);
}

/* A copy is as open to others as the file was. */
static void test_copies_keep_the_mode(void **state)
{
    (void)state;
    struct stat info;
    int fd;
    assert_ok(tl_mkdirs("run"));
    put_text("bait", "bait\n");
    assert_int_equal(chmod("bait", 0640), 0);
    assert_int_equal(link("bait", "run/file"), 0);
    assert_ok(tli_open_own(&fd, &info, "run/file", &(tli_open_args){0}));
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(info.st_nlink, 1);
    assert_int_equal(write(fd, "more\n", 5), 5);
    close(fd);
    holds("run/file", "bait\nmore\n");
    holds("bait", "bait\n");
}

/* In a folder that people share. */
static void test_files_that_others_may_only_read(void **state)
{
    (void)state;
    struct stat info;
    int fd;
    bool denied = false;
    if (geteuid() != 0) skip(); // it takes two users
    assert_ok(tl_mkdirs("run"));
    assert_int_equal(chmod(".", 0777), 0);
    assert_int_equal(chmod("run", 0777), 0);
    put_text("run/training.lock", "");
    assert_int_equal(chmod("run/training.lock", 0644), 0);
    assert_int_equal(seteuid(65534), 0);
    tl_status st = tli_open_own(&fd, &info, "run/training.lock",
                                &(tli_open_args){.read_back = true, .denied = &denied});
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(st, TL_EIO);
    assert_true(denied);
    text_has(tl_error_message(), "cannot write 'run/training.lock': it belongs to root, and its "
                                 "mode (644) does not let you: ask");
}

/* Old exports are removed with all that is in them; not with what links in them lead to. */
static void test_old_exports(void **state)
{
    (void)state;
    tl_export_file_manager *m;
    make_victim();
    assert_ok(tl_mkdirs("run/export-1/sub"));
    put_text("run/export-1/sub/file", "x");
    put_link("../../victim", "run/export-1/link");
    put_link("../victim", "run/export-2");
    assert_ok(tl_mkdirs("run/export-3"));
    assert_ok(tl_export_file_manager_new(
        &m, &(tl_export_file_manager_args){.base = "run/export", .max_to_keep = {true, 1}}));
    assert_ok(tl_export_file_manager_clean_up(m));
    tl_export_file_manager_free(&m);
    assert_false(tl_file_exists("run/export-1") || tl_file_exists("run/export-2"));
    assert_true(tl_dir_exists("run/export-3"));
    victim_is_unharmed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_files_of_a_run),
        TOOL_TEST(test_links_that_lead_nowhere),
        TOOL_TEST(test_hard_links),
        TOOL_TEST(test_linked_folders_are_refused),
        TOOL_TEST(test_the_folder_itself_may_be_a_link),
        TOOL_TEST(test_files_of_train_net),
        TOOL_TEST(test_evaluations),
        TOOL_TEST(test_evaluations_of_train_net),
        TOOL_TEST(test_logs_of_a_sweep),
        TOOL_TEST(test_names_of_logs_that_were_guessed),
        TOOL_TEST(test_logs_in_a_run),
        TOOL_TEST(test_folders_that_become_links),
        TOOL_TEST(test_other_spellings),
        TOOL_TEST(test_runs_that_we_stand_in),
        TOOL_TEST(test_names_that_lead_elsewhere),
        TOOL_TEST(test_the_root_is_not_held),
        TOOL_TEST(test_exports_into_a_run),
        TOOL_TEST(test_files_exchanged_while_they_are_copied),
        TOOL_TEST(test_events_exchanged_while_they_are_cut),
        TOOL_TEST(test_copies_keep_the_mode),
        TOOL_TEST(test_files_that_others_may_only_read),
        TOOL_TEST(test_old_exports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
