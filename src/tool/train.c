#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>
#include <tilth/board/board.h>
#include <tilth/comm/shm.h>
#include <tilth/comm/who.h>
#include <tilth/train/run/finished.h>
#include <tilth/train/run/launch.h>
#include <tilth/train/writers/metrics_file.h>
#include <tilth/train/writers/progress.h>

#include "tool/experiment.h"
#include "tool/finished.h"
#include "tool/launch.h"

typedef enum shown { SHOWN_AUTO, SHOWN_BAR, SHOWN_LINES } shown;
typedef struct terminal_flags {
    shown progress;
    int64_t board;
} terminal_flags;
static const char *const shown_names[] = {"auto", "bar", "lines", NULL};
static const tl_field terminal_fields[] = {
    TL_F(terminal_flags, progress, .names = shown_names,
         .help = "what is shown of the training: a bar, Model Garden's lines, or a bar when "
                 "standard output is a terminal"),
    TL_F(terminal_flags, board, .i = -1, TL_RANGE(-1, 65535), .flags = TL_FIELD_BARE,
         .help = "serve the page of this run (`board`) while it trains, for this machine alone, on "
                 "that port; 0 and no port: 6006, or the next free one; -1: no page"),
    TL_F_END,
};
static const tl_desc terminal_flags_desc = {
    .name = "terminal",
    .help = "what is shown",
    .size = sizeof(terminal_flags),
    .fields = terminal_fields,
};

enum { RUN, EXPERIMENT, TERMINAL }; /* structs of flags, by their place in the command's table */

static bool wants_bar(const tli_run *run)
{
    shown chosen = ((const terminal_flags *)run->given[TERMINAL])->progress;
    const char *term = getenv("TERM");
    if (chosen != SHOWN_AUTO) return chosen == SHOWN_BAR;
    return isatty(fileno(run->tool->out)) && term && strcmp(term, "dumb") != 0;
}

/* --- how it ended ----------------------------------------------------------------------------- */

typedef struct ending {
    int64_t began, step;
    char why[256]; /* empty: it came to its end */
} ending;
typedef struct ending_hook {
    tl_hook base;
    ending *out;
} ending_hook;

static tl_status ending_start(tl_hook *h, const void *config)
{
    ((ending_hook *)h)->out = *(ending *const *)config;
    return TL_OK;
}

static tl_status note_beginning(tl_hook *h)
{
    ((ending_hook *)h)->out->began = tl_controller_step(h->controller);
    return TL_OK;
}

static tl_status note_ending(tl_hook *h)
{
    const char *reason = tl_controller_stop_reason(h->controller);
    ending *e = ((ending_hook *)h)->out;
    e->step = tl_controller_step(h->controller);
    snprintf(e->why, sizeof e->why, "%s", reason ? reason : "");
    return TL_OK;
}

static const tl_hook_class ending_class = {
    .cls = TL_CLASS(tl_hook_class, "ending", NULL, ending_hook, NULL),
    .start = ending_start,
    .before_train = note_beginning,
    .after_train = note_ending,
};

/* --- what comes last -------------------------------------------------------------------------- */

/* What the task tells in words, behind its numbers. */
static tl_status add_text(const tl_logs_entry *e, void *payload)
{
    if (e->kind == TL_LOGS_TEXT) tl_str_addf(payload, "\n%s\n", e->text);
    return TL_OK;
}

/* A folder of the run, when it is there. */
static tl_status add_folder(tli_run *run, const char *model_dir, const char *name, const char *what)
{
    if (!name || !*name) return TL_OK;
    const char *path = tl_path_join(run->arena, model_dir, name);
    if (!path) return TL_ENOMEM;
    if (tl_dir_exists(path)) tl_str_addf(&run->text, "  %-24s %s\n", name, what);
    return TL_OK;
}

static tl_status tell_files(tli_run *run, const tl_trainer_config *t, const char *model_dir)
{
    const char *latest;
    tl_str_addf(&run->text, "\nfiles in %s:\n  %-24s %s\n", model_dir, "params.yaml",
                "the whole configuration");
    TL_TRY(tl_checkpoint_latest(&latest, run->arena, model_dir));
    tl_str_addf(&run->text, "  %-24s %s\n", TL_METRICS_FILE,
                "what was measured, a JSON object a line");
    if (latest)
        tl_str_addf(&run->text, "  %-24s %s\n", "ckpt-*.safetensors",
                    "checkpoints: the same command goes on from the last one");
    TL_TRY(add_folder(run, model_dir, t->best_checkpoint_export_subdir,
                      "the best checkpoint, and its metrics"));
    TL_TRY(add_folder(run, model_dir, "train", "summaries of the training, for TensorBoard"));
    if (strcmp(t->validation_summary_subdir, "train") == 0) return TL_OK;
    return add_folder(run, model_dir, t->validation_summary_subdir, "summaries of the evaluations");
}

static tl_status tell_next(tli_run *run, const tl_experiment_config *params, const char *model_dir)
{
    tl_str *out = &run->text;
    const char *program = tli_quoted(run, run->tool->program), *folder = tli_quoted(run, model_dir);
    const char *exported = tl_path_join(run->arena, model_dir, "exported");
    const char *image = tli_predict_example(params, run->arena);
    exported = exported ? tli_quoted(run, exported) : NULL;
    bool any = image && (strcmp(image, TLI_ANY_IMAGE) == 0 || strcmp(image, TLI_ANY_TABLE) == 0);
    if (image && !any && !(image = tli_quoted(run, image))) return TL_ENOMEM;
    if (!program || !folder || !exported) return TL_ENOMEM;
    tl_str_addf(out, "\nnext:\n  %s eval --model_dir=%s\n", program, folder);
    if (image)
        tl_str_addf(out, "  %s predict --model_dir=%s %s%s\n", program, folder,
                    any ? "" : "--count=8 ", image);
    tl_str_addf(out, "  %s export --model_dir=%s --to=%s\n", program, folder, exported);
    return tl_str_status(out);
}

/* Results, files, and what one could do next. */
static tl_status tell_end(tli_run *run, const tl_experiment_config *params, const tl_logs *logs,
                          const ending *end, double seconds)
{
    const tl_trainer_config *t = params->trainer.value;
    const char *model_dir = ((const tl_train_flags *)run->given[RUN])->model_dir;
    tl_str *out = &run->text;
    tl_str_addf(out, "\ndone: step %" PRId64, end->step);
    if (end->step < t->train_steps) tl_str_addf(out, " of %" PRId64, t->train_steps);
    tl_str_add(out, ", in ");
    tl_progress_time(out, seconds);
    tl_str_addf(out, "%s%s\n", *end->why ? "\nstopped: " : "", end->why);
    if (end->began >= t->train_steps)
        tl_str_addf(
            out,
            "nothing was trained: the run has already reached its end, trainer.train_steps=%" PRId64
            "; a greater number trains on\n",
            t->train_steps);
    TL_TRY(tli_add_numbers(out, logs, 2, 4, "steps_per_second"));
    TL_TRY(tl_logs_walk(logs, add_text, out));
    TL_TRY(tell_files(run, t, model_dir));
    return tell_next(run, params, model_dir);
}

/* After continuous_train_and_eval: numbers are of the last checkpoint that was fine-tuned. */
static tl_status tell_rounds(tli_run *run, const tl_logs *logs, double seconds)
{
    const char *model_dir = ((const tl_train_flags *)run->given[RUN])->model_dir;
    const char *pattern = tl_path_join(run->arena, model_dir, "metrics-*.json");
    tl_path_list done;
    tl_str *out = &run->text;
    if (!pattern) return TL_ENOMEM;
    TL_TRY(tl_glob(&done, run->arena, pattern));
    tl_str_addf(out, "\ndone: %" PRId64 " checkpoint%s of the pre-training fine-tuned, in ",
                done.count, done.count == 1 ? "" : "s");
    tl_progress_time(out, seconds);
    tl_str_addc(out, '\n');
    TL_TRY(tli_add_numbers(out, logs, 2, 4, "steps_per_second"));
    tl_str_addf(out, "\nfiles in %s:\n  %-24s %s\n", model_dir, "metrics-*.json",
                "what each has come to, by the step of the pre-training");
    TL_TRY(add_folder(run, model_dir, "eval", "the same, for TensorBoard"));
    return tl_str_status(out);
}

/* --- trials ----------------------------------------------------------------------------------- */

static void add_duration(tl_str *out, double seconds)
{
    if (seconds < 1) tl_str_addf(out, "%.3g ms", seconds * 1e3);
    else if (seconds < 60) tl_str_addf(out, "%.3g s", seconds);
    else tl_progress_time(out, seconds);
}

static void tell_time(tl_str *out, const char *what, const tl_logs *logs, const char *name)
{
    double seconds = tl_logs_number_or(logs, name, -1);
    if (seconds < 0) return;
    tl_str_addf(out, "  %-24s ", what);
    add_duration(out, seconds);
    tl_str_addc(out, '\n');
}

static tl_status tell_trial(tli_run *run, const tl_experiment_config *params, const tl_logs *logs)
{
    const tl_trainer_config *t = params->trainer.value;
    tl_str *out = &run->text;
    double memory = tl_logs_number_or(logs, TL_TRIAL_MEMORY, 0);
    char steps[40];
    tl_str_add(out, "\ndry run: everything works, and nothing was kept\n");
    tell_time(out, "the first step", logs, TL_TRIAL_FIRST_STEP);
    tell_time(out, "a step after that", logs, TL_TRIAL_STEP);
    tell_time(out, "one batch evaluated", logs, TL_TRIAL_EVALUATION);
    if (memory > 0) tl_str_addf(out, "  %-24s %.0f MB\n", "peak memory", memory * 1e-6);
    snprintf(steps, sizeof steps, "%" PRId64 " steps", t->train_steps);
    tl_str_addf(out, "  %-24s about ", steps);
    add_duration(out, tl_logs_number_or(logs, TL_TRIAL_STEP, 0) * (double)t->train_steps);
    tl_str_add(out, ", without evaluations\n");
    return tl_str_status(out);
}

/* --- the command ------------------------------------------------------------------------------ */

typedef struct hooks {
    tl_hooks list;
    ending end;
} hooks;

/* The list has the hook from now on. */
static tl_status take(hooks *h, tl_hook *hook)
{
    if (!hook || TL_VEC_PUSH(&h->list, hook)) return TL_OK;
    tl_hook_free(&hook);
    return TL_ENOMEM;
}

static tl_status add_own(hooks *h, const tli_run *run, const char *folder)
{
    const tl_main_options *o = run->tool->options;
    if (!o->add_hooks) return TL_OK;
    return o->add_hooks(
        &h->list, &(tl_main_run){.command = "train", .folder = folder, .registry = run->registry},
        o->hooks_payload);
}

static tl_status make_hooks(hooks *h, tli_run *run, const tl_task_config *task, bool bar)
{
    ending *end = &h->end;
    tl_progress_args progress = {
        .to = run->tool->out,
        .plain = !tli_speaks_utf8(),
        .width = run->tool->width,
        .batch_size = task->train_data ? task->train_data->global_batch_size : 0,
    };
    const tl_train_flags *flags = run->given[RUN];
    tl_hook *drawn = NULL;
    TL_TRY(tl_hooks_add(&h->list, NULL, &ending_class, &(tl_hook_args){.config = &end}));
    if (bar) TL_TRY(tl_progress_hook_new(&drawn, &progress));
    TL_TRY(take(h, drawn));
    return add_own(h, run, flags->model_dir);
}

static tl_status launch(tli_run *run, tl_config *config, tl_gin *gin, const hooks *h, bool bar)
{
    tl_logs *logs;
    tl_who who;
    const tl_parse_options *parse = run->given[EXPERIMENT];
    tl_run_args more = {.hooks = h->list.items,
                        .hook_count = h->list.count,
                        .quiet = bar,
                        .experiment = parse->experiment};
    const tl_train_flags *flags = run->given[RUN];
    int64_t begin = tl_clock_ns();
    TL_TRY(tl_who_find(&who, NULL));
    TL_TRY(tl_logs_new(&logs));
    tl_status st = tl_launch(
        logs,
        &(tl_launch_args){
            .registry = run->registry, .config = config, .gin = gin, .flags = flags, .run = &more});
    double seconds = (double)(tl_clock_ns() - begin) * 1e-9;
    if (who.rank > 0) { // the chief tells
    } else if (st == TL_OK && flags->dry_run) st = tell_trial(run, tl_config_value(config), logs);
    else if (st == TL_OK && strncmp(flags->mode, "continuous_train", 16) == 0)
        st = tell_rounds(run, logs, seconds);
    else if (st == TL_OK && strstr(flags->mode, "train"))
        st = tell_end(run, tl_config_value(config), logs, &h->end, seconds);
    tl_logs_free(&logs);
    return st;
}

static tl_status train(tli_run *run, tl_config *config, tl_gin *gin)
{
    const tl_task_config *task =
        ((const tl_experiment_config *)tl_config_value(config))->task.value;
    const tl_train_flags *flags = run->given[RUN];
    bool terminal = wants_bar(run), bar = terminal && !flags->dry_run;
    hooks h = {0};
    tl_status st = make_hooks(&h, run, task, bar);
    // The bar tells what the log would; warnings still come.
    if (terminal && tl_log_level() == TL_LEVEL_INFO) tl_log_set_level(TL_LEVEL_WARNING);
    if (st == TL_OK) st = launch(run, config, gin, &h, bar);
    tl_hooks_free(&h.list);
    return st;
}

/* Before another experiment's params.yaml is read, or its settings are asked for. */
static tl_status check_folder(const tli_run *run, const tl_train_flags *flags)
{
    const tl_parse_options *parse = run->given[EXPERIMENT];
    bool goes_on =
        strstr(flags->mode, "train") || tl_experiment_completes(run->registry, parse->experiment);
    return goes_on ? tl_folder_check_experiment(flags->model_dir, parse->experiment) : TL_OK;
}

/* --- the page of the run ---------------------------------------------------------------------- */

/* The page, whose threads run behind those of the training; NULL where none is asked for. */
static tl_status open_page(tl_board **out, const tli_run *run)
{
    const tl_train_flags *flags = run->given[RUN];
    const terminal_flags *page = run->given[TERMINAL];
    tl_str text = TL_STR_INIT;
    *out = NULL;
    if (page->board < 0) return TL_OK;
    TL_TRY(tl_board_start(out, &(tl_board_args){.folders = {&flags->model_dir, 1},
                                                .port = page->board,
                                                .patient = true,
                                                .behind = true}));
    tl_str_addf(&text, "the page of this run: %s\n", tl_board_url(*out));
    tl_status st = tli_write_out(run->tool, &text);
    tl_str_deinit(&text);
    if (st != TL_OK) tl_board_stop(out);
    return st;
}

/* --- LiBai's config.py ------------------------------------------------------------------------ */

/* One word more, behind the others: it wins. */
static tl_status add_word(tli_run *run, const tl_word **words, int64_t *count, const char *text,
                          const char *source)
{
    tl_word *more = tl_arena_array(run->arena, *count + 1, sizeof *more);
    if (!more || !text) return TL_ENOMEM;
    if (*count) memcpy(more, *words, (size_t)*count * sizeof *more);
    more[(*count)++] = (tl_word){text, source};
    *words = more;
    return TL_OK;
}

static tl_status check_libai_flags(const tl_train_flags *flags, const char *file)
{
    const char *mode = flags->mode ? flags->mode : "train_and_eval";
    if (flags->gin_file.count || flags->gin_params.count)
        return TL_FAIL(TL_EINVAL, "'%s' takes no gin bindings: they are for experiments", file);
    if (flags->dry_run)
        return TL_FAIL(TL_EINVAL,
                       "'%s' has no dry run; `train_net --config-file=%s "
                       "--fast-dev-run` trains 20 steps",
                       file, file);
    if (strcmp(mode, "train") == 0 || strcmp(mode, "train_and_eval") == 0
        || strcmp(mode, "eval") == 0)
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "--mode=%.80s: a configuration of LiBai's has the modes train, "
                   "train_and_eval and eval",
                   mode);
}

/* LiBai's trainer, by the flags of this command: a run that is there goes on. */
static tl_status run_libai(tli_run *run, const char *file, const tl_word *words, int64_t count)
{
    const tl_train_flags *flags = run->given[RUN];
    bool named = flags->model_dir && *flags->model_dir;
    tl_board *board = NULL;
    tl_who who;
    TL_TRY(tl_who_find(&who, NULL));
    TL_TRY(check_libai_flags(flags, file));
    if (named)
        TL_TRY(add_word(run, &words, &count,
                        tl_arena_printf(run->arena, "train.output_dir='%s'", flags->model_dir),
                        "--model_dir"));
    if (flags->mode && strcmp(flags->mode, "train") == 0)
        TL_TRY(add_word(run, &words, &count, "train.evaluation.enabled=false", "--mode"));
    if (who.rank == 0) TL_TRY(open_page(&board, run));
    tl_status st = tli_train_net(run,
                                 &(tl_train_net_flags){
                                     .config_file = file,
                                     .resume = true,
                                     .eval_only = flags->mode && strcmp(flags->mode, "eval") == 0,
                                 },
                                 words, count);
    tl_board_stop(&board);
    return st;
}

/* --- all of it -------------------------------------------------------------------------------- */

static tl_status check_page(const tli_run *run)
{
    const tl_train_flags *flags = run->given[RUN];
    if (((const terminal_flags *)run->given[TERMINAL])->board < 0) return TL_OK;
    if (flags->dry_run) return TL_FAIL(TL_EINVAL, "--board: a dry run keeps nothing to be shown");
    if (flags->model_dir && *flags->model_dir) return TL_OK;
    return TL_FAIL(TL_EINVAL, "--board needs --model_dir, the folder that the page shows");
}

/* This command once more, in so many processes of this machine. */
static tl_status train_in_processes(tli_run *run, int64_t processes)
{
    tli_ranks_end end;
    if (processes > TL_COMM_SHM_RANKS)
        return TL_FAIL(TL_EINVAL, "tilth.processes: at most %d on one machine", TL_COMM_SHM_RANKS);
    TL_TRY(tli_ranks_run(&end, &(tli_ranks_args){.tool = run->tool,
                                                 .words = run->given_words,
                                                 .size = (int32_t)processes,
                                                 .arena = run->arena}));
    run->code = end.code;
    return TL_OK;
}

static tl_status train_here_or_there(tli_run *run, tl_config *config, tl_gin *gin)
{
    const tl_experiment_config *params = tl_config_value(config);
    tl_board *board = NULL;
    tl_who who;
    TL_TRY(tl_who_find(&who, NULL));
    if (params->tilth.processes > 1 && who.size == 1 && who.from != TL_WHO_TILTH)
        return train_in_processes(run, params->tilth.processes);
    if (who.rank == 0) TL_TRY(open_page(&board, run));
    tl_status st = train(run, config, gin);
    tl_board_stop(&board);
    return st;
}

static tl_status run_train(tli_run *run)
{
    const tl_train_flags *flags = run->given[RUN];
    const tl_word *words;
    const char *file;
    int64_t count;
    tl_config *config;
    tl_gin *gin;
    TL_TRY(check_page(run));
    TL_TRY(tli_libai_of(&file, &words, &count, run, run->given[EXPERIMENT]));
    if (file) return run_libai(run, file, words, count);
    TL_TRY(tl_check_mode(flags->mode));
    TL_TRY(check_folder(run, flags));
    TL_TRY(tli_experiment_with_gin(&config, &gin, run, run->given[EXPERIMENT], flags->model_dir,
                                   flags->gin_file, flags->gin_params));
    tl_status st = tli_check_lacks(
        run, config,
        &(tli_lacking_args){.command = "train", .parse = run->given[EXPERIMENT], .flags = flags});
    if (st == TL_OK) st = train_here_or_there(run, config, gin);
    tli_experiment_close(&config, &gin);
    return st;
}

static tl_status more_help(tli_run *run)
{
    return tli_experiment_help(run, run->given[EXPERIMENT]);
}

const tli_command tli_command_train = {
    .name = "train",
    .brief = "trains, evaluates or both",
    .usage = "--experiment=NAME --mode=MODE --model_dir=FOLDER [flags] [WORD...]\n"
             "       train CONFIG.py [--mode=MODE] [--model_dir=FOLDER] [WORD...]\n\n"
             "Runs an experiment, or a configuration of LiBai's. A run in a folder that holds "
             "checkpoints is resumed, with the "
             "same results as if it had never stopped. SIGTERM, SIGINT (Ctrl-C), SIGUSR1 and "
             "SIGHUP save a checkpoint and end with exit code 3; a second one ends at once. Words "
             "change the configuration:\n" TLI_WORDS_HELP,
    .flags = {{"Run", &tl_train_flags_desc},
              {"Experiment", &tl_parse_options_desc},
              {"Terminal", &terminal_flags_desc}},
    .takes_overrides = true,
    .run = run_train,
    .more_help = more_help,
};
