#include "tool/sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/file.h>
#include <tilth/base/pool.h>
#include <tilth/base/vec.h>
#include <tilth/train/run/launch.h>
#include <tilth/train/writers/metrics_file.h>
#include <tilth/train/writers/progress.h>

#include "base/inner/folder.h"
#include "base/inner/process.h"
#include "io/inner/run_lock.h"
#include "tool/experiment.h"
#include "tool/flag_words.h"
#include "train/inner/experiment.h"

static const tl_field sweep_fields[] = {
    TL_F(tli_sweep_flags, grid,
         .help = "KEY=V1,V2,...: values of a key that are all tried; with several keys, all "
                 "combinations. May be repeated"),
    TL_F(tli_sweep_flags, random,
         .help = "KEY=log(A,B), uniform(A,B), int(A,B) or choice(V1,V2,...): a key that is drawn "
                 "for each run. May be repeated"),
    TL_F(tli_sweep_flags, runs, TL_RANGE(0, 10000),
         .help = "number of draws for each point of the grid"),
    TL_F(tli_sweep_flags, jobs, .i = 1, TL_RANGE(1, 1000),
         .help = "runs at a time; they share the machine's threads"),
    TL_F(tli_sweep_flags, seed, .help = "seed of the draws; the runs themselves use tilth.seed"),
    TL_F(tli_sweep_flags, metric, .help = "metric of the table at the end, as in `compare`"),
    TL_F_END,
};
const tl_desc tli_sweep_flags_desc = {
    .name = "sweep",
    .help = "flags of `sweep`",
    .size = sizeof(tli_sweep_flags),
    .fields = sweep_fields,
};

enum { SWEEP, RUN, EXPERIMENT }; /* structs of flags, by their place in the command's table */

typedef enum fate { WAITING, RUNNING, DONE, FAILED, STOPPED } fate;
typedef struct job {
    const char *name, *folder, *log;
    tl_strings words;
    fate fate;
    pid_t pid;
    int64_t begun; /* on the clock of tl_clock_ns */
} job;

typedef struct sweep {
    tli_run *run;
    tl_train_flags flags; /* with a mode */
    job *jobs;
    int64_t count;
    tli_word_list common;     /* words of all runs: flags, and what the command line says */
    const char *variables[2]; /* of their environment */
    char program[4096];
    int heard;          /* signals that were handed on */
    tli_run_lock *lock; /* of the folder: the same sweep twice would be in its own way */
} sweep;

static const tli_sweep_flags *flags_of(const sweep *s)
{
    return s->run->given[SWEEP];
}

/* --- the command that each run is ------------------------------------------------------------- */

static tl_status collect_common(sweep *s)
{
    tli_run *run = s->run;
    int64_t count;
    const tl_flag_word *words = tl_flags_words(run->flags, &count);
    TL_TRY(tli_train_words(&s->common, run, &s->flags, run->given[EXPERIMENT]));
    for (int64_t i = 0; i < count; i++)
        if (!TL_VEC_PUSH(&s->common, words[i].text)) return TL_ENOMEM;
    return TL_OK;
}

/* What tells this sweep from others. How many jobs there are, and what is told at the end, do
 * not. */
static tl_status collect_arguments(tli_word_list *out, const sweep *s)
{
    tli_sweep_flags flags = *flags_of(s);
    flags.jobs = 1;
    flags.metric = (tl_strings){0};
    TL_TRY(tli_flag_words(out, s->run->arena, &tli_sweep_flags_desc, &flags, NULL));
    for (int64_t i = 0; i < s->common.count; i++) {
        const char *word;
        TL_TRY(tli_sweep_public(&word, s->run->arena, s->common.items[i]));
        if (word && !TL_VEC_PUSH(out, word)) return TL_ENOMEM;
    }
    return TL_OK;
}

/* --- each configuration is tried before the first run begins: what is wrong is told at once --- */

/* Whether a word may change what an experiment finds in its data. */
static bool is_of_data(const char *word)
{
    while (*word == '+' || *word == '~') word++;
    return strncmp(word, "task", 4) == 0 && strncmp(word, "task.model", 10) != 0;
}

static bool have_same_data(tl_strings a, tl_strings b)
{
    for (int64_t i = 0; i < a.count; i++) // all runs set the same keys
        if (is_of_data(a.items[i]) && strcmp(a.items[i], b.items[i]) != 0) return false;
    return true;
}

static tl_status check_lacks(sweep *s, tl_config *config)
{
    tli_word_list own = {0};
    tl_status st = tli_flag_words(&own, s->run->arena, &tli_sweep_flags_desc, flags_of(s), NULL);
    if (st == TL_OK)
        st = tli_check_lacks(s->run, config,
                             &(tli_lacking_args){.command = "sweep",
                                                 .parse = s->run->given[EXPERIMENT],
                                                 .flags = &s->flags,
                                                 .more = {own.items, own.count}});
    TL_VEC_FREE(&own);
    return st;
}

/* `known`: the data was looked at for an earlier run, which may take long, and is told. */
static tl_status check_run(sweep *s, tl_strings words, bool known)
{
    tl_config *config;
    tl_word *all = tl_arena_array(s->run->arena, words.count, sizeof *all);
    if (!all) return TL_ENOMEM;
    for (int64_t i = 0; i < words.count; i++)
        all[i] = (tl_word){words.items[i], "--grid and --random"};
    TL_TRY(tl_experiment_begin(&config, s->run->registry, s->run->given[EXPERIMENT]));
    tl_status st = tli_experiment_words(config, s->run);
    const tl_parse_options *parse = s->run->given[EXPERIMENT];
    if (st == TL_OK) st = tl_config_words(config, all, words.count);
    if (st == TL_OK)
        st = known ? tli_experiment_settle(config, s->run->registry)
                   : tl_experiment_finish(config, s->run->registry, parse->experiment);
    if (st == TL_OK && !known) st = check_lacks(s, config);
    tl_config_free(&config);
    return st;
}

static tl_status check_runs(sweep *s, const tli_sweep *plan)
{
    const tl_parse_options *parse = s->run->given[EXPERIMENT];
    bool completes = tl_experiment_completes(s->run->registry, parse->experiment);
    tl_gin *gin;
    tl_status st = TL_OK;
    TL_TRY(tl_run_bindings(&gin, s->run->registry, NULL, s->flags.gin_file, s->flags.gin_params));
    tl_gin *outer = tl_gin_set_current(gin);
    for (int64_t i = 0; i < plan->count && st == TL_OK; i++) {
        bool known = false;
        for (int64_t k = 0; k < i && completes && !known; k++)
            known = have_same_data(plan->items[i].words, plan->items[k].words);
        st = check_run(s, plan->items[i].words, known);
    }
    tl_gin_set_current(outer);
    tl_gin_free(&gin);
    return st;
}

/* --- the jobs --------------------------------------------------------------------------------- */

static tl_status make_jobs(sweep *s, const tli_sweep *plan)
{
    tl_arena *arena = s->run->arena;
    s->count = plan->count;
    s->jobs = tl_arena_array(arena, plan->count ? plan->count : 1, sizeof *s->jobs);
    if (!s->jobs) return TL_ENOMEM;
    for (int64_t i = 0; i < plan->count; i++) {
        const char *folder = tl_path_join(arena, s->flags.model_dir, plan->items[i].name);
        const char *log = folder ? tl_path_join(arena, folder, "log.txt") : NULL;
        bool finished;
        if (!log) return TL_ENOMEM;
        TL_TRY(tli_past_run_finished(&finished, folder));
        s->jobs[i] = (job){.name = plan->items[i].name,
                           .folder = folder,
                           .log = log,
                           .words = plan->items[i].words,
                           .fate = finished ? DONE : WAITING};
    }
    return TL_OK;
}

/* Each run has its share of the threads. */
static tl_status share_threads(sweep *s)
{
    int64_t jobs = flags_of(s)->jobs < s->count ? flags_of(s)->jobs : s->count;
    if (jobs <= 1) return TL_OK;
    int64_t share = tl_pool_default_threads() / jobs;
    s->variables[0] =
        tl_arena_printf(s->run->arena, "TILTH_NUM_THREADS=%" PRId64, share > 0 ? share : 1);
    return s->variables[0] ? TL_OK : TL_ENOMEM;
}

static tl_status find_program(sweep *s)
{
    ssize_t length = readlink("/proc/self/exe", s->program, sizeof s->program - 1);
    if (length <= 0) return TL_FAIL(TL_EIO, "/proc/self/exe: %s", strerror(errno));
    s->program[length] = '\0';
    return TL_OK;
}

/* --- one run ---------------------------------------------------------------------------------- */

static void say(sweep *s, const job *j, const char *format, ...) TL_PRINTF(3, 4);
static void say(sweep *s, const job *j, const char *format, ...)
{
    tl_str line = TL_STR_INIT;
    va_list args;
    tl_str_addf(&line, "[%" PRId64 "/%" PRId64 "] %s: ", (int64_t)(j - s->jobs) + 1, s->count,
                j->name);
    va_start(args, format);
    tl_str_addv(&line, format, args);
    va_end(args);
    tl_str_addc(&line, '\n');
    // a reader that is gone ends no run
    if (tli_write_out(s->run->tool, &line) != TL_OK) tl_error_clear();
    tl_str_deinit(&line);
}

static tl_status start_job(sweep *s, job *j)
{
    int64_t most = s->common.count + j->words.count + 4, count = 0;
    tl_arena *arena = s->run->arena;
    const char **argv = tl_arena_array(arena, most, sizeof *argv);
    const char *folder = tl_arena_printf(arena, "--model_dir=%s", j->folder);
    if (!argv || !folder) return TL_ENOMEM;
    argv[count++] = s->run->tool->program;
    argv[count++] = "train";
    argv[count++] = folder;
    for (int64_t i = 0; i < s->common.count; i++) argv[count++] = s->common.items[i];
    for (int64_t i = 0; i < j->words.count; i++) argv[count++] = j->words.items[i];
    argv[count] = NULL;
    TL_TRY(tl_mkdirs(j->folder));
    const char *latest;
    int log;
    struct stat info;
    TL_TRY(tl_checkpoint_latest(&latest, arena, j->folder));
    TL_TRY(tli_open_own(&log, &info, j->log, &(tli_open_args){0}));
    int error = tli_process_start(&j->pid, &(tli_process_args){.program = s->program,
                                                               .argv = argv,
                                                               .input = -1,
                                                               .variables = s->variables,
                                                               .output = log});
    close(log);
    if (error) return TL_FAIL(TL_EIO, "'%s' cannot be started: %s", s->program, strerror(error));
    j->fate = RUNNING;
    j->begun = tl_clock_ns();
    say(s, j, latest ? "goes on" : "begins");
    return TL_OK;
}

/* The last line that a run has written; "" when it is unknown. In the arena. */
static const char *last_words(sweep *s, const job *j)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    const char *line = "";
    if (tl_file_map(&file, j->log) == TL_OK) {
        size_t end = file.size;
        while (end > 0 && file.data[end - 1] == '\n') end--;
        size_t begin = end;
        while (begin > 0 && file.data[begin - 1] != '\n' && end - begin < 500) begin--;
        line = tl_arena_strndup(s->run->arena, file.data + begin, end - begin);
    }
    tl_file_unmap(&file);
    tl_error_clear();
    return line ? line : "";
}

static const int handed_on[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

static bool is_handed_on(int number)
{
    for (int i = 0; i < TL_COUNT(handed_on); i++)
        if (handed_on[i] == number) return true;
    return false;
}

/* A signal ends a run that is not far enough to save. */
static void end_job(sweep *s, job *j, int status)
{
    tl_str time = TL_STR_INIT;
    bool exited = WIFEXITED(status);
    tl_progress_time(&time, (double)(tl_clock_ns() - j->begun) * 1e-9);
    if (exited && WEXITSTATUS(status) == TL_EXIT_OK) {
        j->fate = DONE;
        say(s, j, "done in %s", tl_str_text(&time));
    } else if (exited && WEXITSTATUS(status) == TL_EXIT_STOPPED) {
        j->fate = STOPPED;
        say(s, j, "stopped, and saved");
    } else if (s->heard && !exited && is_handed_on(WTERMSIG(status))) {
        j->fate = STOPPED;
        say(s, j, s->heard > 1 ? "stopped at once" : "stopped before it had begun");
    } else {
        j->fate = FAILED;
        say(s, j, "failed (%s %d), see %s: %s", exited ? "exit code" : "signal",
            exited ? WEXITSTATUS(status) : WTERMSIG(status), j->log, last_words(s, j));
    }
    tl_str_deinit(&time);
}

/* --- all of them ------------------------------------------------------------------------------ */

static volatile sig_atomic_t caught, caught_count;

static void catch (int number)
{
    caught = number;
    caught_count++;
}

static void hand_on(sweep *s)
{
    int count = caught_count, number = caught;
    for (; s->heard < count; s->heard++)
        for (int64_t i = 0; i < s->count; i++)
            if (s->jobs[i].fate == RUNNING) kill(s->jobs[i].pid, number);
}

static int64_t reap(sweep *s)
{
    int64_t running = 0;
    for (int64_t i = 0; i < s->count; i++) {
        job *j = &s->jobs[i];
        int status = 0;
        if (j->fate != RUNNING) continue;
        pid_t found = waitpid(j->pid, &status, WNOHANG);
        if (found == j->pid) end_job(s, j, status);
        else running++;
    }
    return running;
}

static job *next_job(sweep *s)
{
    for (int64_t i = 0; i < s->count; i++)
        if (s->jobs[i].fate == WAITING) return &s->jobs[i];
    return NULL;
}

static tl_status work(sweep *s)
{
    tl_status st = TL_OK;
    tl_error error;
    for (;;) {
        hand_on(s);
        int64_t running = reap(s);
        job *next = st == TL_OK && !s->heard ? next_job(s) : NULL;
        if (!running && !next) break;
        if (next && running < flags_of(s)->jobs) {
            st = start_job(s, next);
            if (st != TL_OK) tl_error_save(&error); // those that run come to their end
            continue;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    if (st != TL_OK) tl_error_restore(&error);
    return st;
}

/* A SIGHUP that is ignored, as by nohup, stays so. */
static tl_status work_with_signals(sweep *s)
{
    struct sigaction ours = {.sa_handler = catch}, before[TL_COUNT(handed_on)];
    // or nobody could be asked how they ended
    struct sigaction plain = {.sa_handler = SIG_DFL}, children;
    caught = caught_count = 0;
    sigaction(SIGCHLD, &plain, &children);
    for (int i = 0; i < TL_COUNT(handed_on); i++) {
        sigaction(handed_on[i], NULL, &before[i]);
        bool wanted = handed_on[i] != SIGHUP || before[i].sa_handler != SIG_IGN;
        if (wanted) sigaction(handed_on[i], &ours, NULL);
    }
    tl_status st = work(s);
    for (int i = 0; i < TL_COUNT(handed_on); i++) sigaction(handed_on[i], &before[i], NULL);
    sigaction(SIGCHLD, &children, NULL);
    return st;
}

/* --- what came of it -------------------------------------------------------------------------- */

static int64_t count_of(const sweep *s, fate f)
{
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++) count += s->jobs[i].fate == f;
    return count;
}

static tl_status tell_table(sweep *s)
{
    tli_past_runs runs;
    int64_t count = 0;
    bool any = false;
    const char **folders = tl_arena_array(s->run->arena, s->count ? s->count : 1, sizeof *folders);
    if (!folders) return TL_ENOMEM;
    for (int64_t i = 0; i < s->count; i++) {
        const char *file = tl_path_join(s->run->arena, s->jobs[i].folder, TL_METRICS_FILE);
        if (!file) return TL_ENOMEM;
        if (tl_file_exists(file)) folders[count++] = s->jobs[i].folder;
    }
    tl_status st = tli_past_runs_read(&runs, s->run->arena, (tl_strings){folders, count});
    for (int64_t i = 0; i < runs.count; i++) any |= runs.items[i].usable;
    tl_str_addc(&s->run->text, '\n');
    if (st == TL_OK && any)
        st = tli_compare(s->run, &runs, &(tli_compare_args){.metrics = flags_of(s)->metric});
    if (st == TL_OK) st = tli_tell_now(s->run);
    tli_past_runs_free(&runs);
    return st;
}

static tl_status tell_failed(const sweep *s)
{
    tl_str names = TL_STR_INIT;
    int64_t failed = count_of(s, FAILED);
    for (int64_t i = 0; i < s->count; i++)
        if (s->jobs[i].fate == FAILED) tl_str_addf(&names, "\n%s", s->jobs[i].log);
    tl_status st = TL_FAIL(TL_EIO,
                           "%" PRId64 " of %" PRId64
                           " runs failed; the same command tries them again. Their logs:%s",
                           failed, s->count, tl_str_text(&names));
    tl_str_deinit(&names);
    return st;
}

static tl_status run_all(sweep *s)
{
    int64_t done = count_of(s, DONE);
    tl_str_addf(&s->run->text, "%" PRId64 " run%s in %s", s->count, s->count == 1 ? "" : "s",
                s->flags.model_dir);
    if (done)
        tl_str_addf(&s->run->text, ", of which %" PRId64 " %s done", done,
                    done == 1 ? "is" : "are");
    tl_str_addc(&s->run->text, '\n');
    TL_TRY(tli_tell_now(s->run));
    TL_TRY(work_with_signals(s));
    TL_TRY(tell_table(s));
    if (s->heard)
        return TL_FAIL(TL_ESTOPPED,
                       "%s ended the sweep, %" PRId64 " of %" PRId64
                       " runs are done; the same command goes on",
                       strsignal(caught), count_of(s, DONE), s->count);
    return count_of(s, FAILED) ? tell_failed(s) : TL_OK;
}

static tl_status begin(sweep *s, tli_word_list *arguments)
{
    tli_sweep plan;
    TL_TRY(tl_check_mode(s->flags.mode));
    if (!strstr(s->flags.mode, "train"))
        return TL_FAIL(TL_EINVAL, "--mode=%s trains nothing", s->flags.mode);
    if (!s->flags.model_dir || !*s->flags.model_dir)
        return TL_FAIL(TL_EINVAL, "no folder is named for the runs: say --model_dir=FOLDER");
    TL_TRY(tli_sweep_plan(&plan, s->run->arena, flags_of(s)));
    TL_TRY(check_runs(s, &plan));
    TL_TRY(find_program(s));
    TL_TRY(collect_common(s));
    TL_TRY(collect_arguments(arguments, s));
    TL_TRY(tl_mkdirs(s->flags.model_dir));
    TL_TRY(tli_run_lock_take(&s->lock, s->flags.model_dir));
    TL_TRY(tli_sweep_keep(&plan, s->run->arena, s->flags.model_dir,
                          (tl_strings){arguments->items, arguments->count}));
    TL_TRY(make_jobs(s, &plan));
    return share_threads(s);
}

static tl_status run_sweep(tli_run *run)
{
    sweep s = {.run = run, .flags = *(const tl_train_flags *)run->given[RUN]};
    tli_word_list arguments = {0};
    tli_folder_hold *hold = NULL;
    tl_status st = TL_OK;
    if (!s.flags.mode) s.flags.mode = "train_and_eval";
    if (s.flags.model_dir) st = tli_folder_hold_new(&hold, s.flags.model_dir);
    if (st == TL_OK) st = begin(&s, &arguments);
    if (st == TL_OK) st = run_all(&s);
    tli_run_lock_release(&s.lock);
    tli_folder_hold_free(&hold);
    TL_VEC_FREE(&arguments);
    TL_VEC_FREE(&s.common);
    return st;
}

static tl_status more_help(tli_run *run)
{
    return tli_experiment_help(run, run->given[EXPERIMENT]);
}

const tli_command tli_command_sweep = {
    .name = "sweep",
    .brief = "trains many times, with values that are given or drawn, and compares",
    .usage = "--experiment=NAME --model_dir=FOLDER --grid KEY=V1,V2 | --random 'KEY=log(A,B)' "
             "--runs=N [--jobs=N] [flags] [WORD...]\n\n"
             "Each run is a `train` of its own in a folder below FOLDER, with a log.txt; --mode is "
             "train_and_eval when it is not given. FOLDER/" TLI_SWEEP_FILE
             " holds what each run sets. The same command resumes: runs that are done are skipped, "
             "others resumed. A run that fails does not stop the others; the command then ends "
             "with 1. SIGTERM, SIGINT (Ctrl-C), SIGHUP and SIGUSR1 let all runs save and end with "
             "exit code 3. At the end comes the table of `compare`. Words change the configuration "
             "of all runs:\n" TLI_WORDS_HELP,
    .flags = {{"Sweep", &tli_sweep_flags_desc},
              {"Run", &tl_train_flags_desc},
              {"Experiment", &tl_parse_options_desc}},
    .takes_overrides = true,
    .run = run_sweep,
    .more_help = more_help,
};
