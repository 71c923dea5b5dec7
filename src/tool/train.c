#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/train/launch.h>
#include <tilth/train/progress.h>

#include "tool/experiment.h"
#include "tool/finished.h"

typedef enum shown { SHOWN_AUTO, SHOWN_BAR, SHOWN_LINES } shown;
typedef struct terminal_flags {
    shown progress;
} terminal_flags;
static const char *const shown_names[] = {"auto", "bar", "lines", NULL};
static const tl_field terminal_fields[] = {
    TL_F(terminal_flags, progress, .names = shown_names,
         .help = "what is shown of the training: a bar, Model Garden's lines, or a bar when standard "
                 "output is a terminal"),
    TL_F_END,
};
static const tl_desc terminal_flags_desc = {
    .name = "terminal", .help = "what is shown", .size = sizeof(terminal_flags),
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

static bool speaks_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strstr(value, "UTF-8") || strstr(value, "utf8");
    }
    return false;
}

/* --- what comes last -------------------------------------------------------------------------- */

static tl_status add_number(const tl_logs_entry *e, void *payload)
{
    tl_str *out = payload;
    double value;
    if (e->kind != TL_LOGS_NUMBER || strcmp(e->name, "steps_per_second") == 0) return TL_OK;
    TL_TRY(tl_logs_entry_number(&value, e));
    tl_str_addf(out, "  %-24s %.4f\n", e->name, value);
    return TL_OK;
}

static void add_file(tl_str *out, const char *name, const char *what)
{
    tl_str_addf(out, "  %-24s %s\n", name, what);
}

/* Results, files, and what one could do next. */
static tl_status tell_end(tli_run *run, const tl_experiment_config *params, const tl_logs *logs,
                          double seconds)
{
    const tl_train_flags *flags = run->given[RUN];
    const tl_trainer_config *t = params->trainer.value;
    const char *program = run->tool->program;
    tl_str *out = &run->text;
    tl_str_addf(out, "\ndone: step %" PRId64 ", in ", t->train_steps);
    tl_progress_time(out, seconds);
    tl_str_addc(out, '\n');
    TL_TRY(tl_logs_walk(logs, add_number, out));
    tl_str_addf(out, "\nfiles in %s:\n", flags->model_dir);
    add_file(out, "params.yaml", "the whole configuration");
    add_file(out, "ckpt-*.safetensors", "checkpoints: the same command goes on from the last one");
    if (t->best_checkpoint_export_subdir && *t->best_checkpoint_export_subdir)
        add_file(out, t->best_checkpoint_export_subdir, "the best checkpoint, and its metrics");
    add_file(out, "train, validation", "summaries, for TensorBoard");
    tl_str_addf(out, "\nnext:\n  %s eval --model_dir=%s\n", program, flags->model_dir);
    const char *image = tli_predict_example(params, run->arena);
    if (image) tl_str_addf(out, "  %s predict --model_dir=%s %s\n", program, flags->model_dir, image);
    tl_str_addf(out, "  %s export --model_dir=%s --to=%s/exported\n", program, flags->model_dir,
                flags->model_dir);
    return tl_str_status(out);
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status launch(tli_run *run, tl_config *config, tl_hook *const *hooks, int64_t hook_count, bool bar)
{
    tl_logs *logs;
    tl_run_args more = {.hooks = hooks, .hook_count = hook_count, .quiet = bar};
    const tl_train_flags *flags = run->given[RUN];
    int64_t begin = tl_clock_ns();
    TL_TRY(tl_logs_new(&logs));
    tl_status st = tl_launch(logs, &(tl_launch_args){.registry = run->registry, .config = config,
                                                     .flags = flags, .run = &more});
    double seconds = (double)(tl_clock_ns() - begin) * 1e-9;
    if (st == TL_OK && strstr(flags->mode, "train"))
        st = tell_end(run, tl_config_value(config), logs, seconds);
    tl_logs_free(&logs);
    return st;
}

static tl_status train(tli_run *run, tl_config *config)
{
    const tl_parse_options *parse = run->given[EXPERIMENT];
    const tl_task_config *task = ((const tl_experiment_config *)tl_config_value(config))->task.value;
    bool bar = wants_bar(run);
    tl_hook *hooks[2] = {NULL, NULL};
    tl_progress_args progress = {.to = run->tool->out, .bar = bar, .plain = !speaks_utf8(),
                                 .width = run->tool->width,
                                 .batch_size = task->train_data ? task->train_data->global_batch_size : 0};
    tl_status st = tl_progress_hook_new(&hooks[0], &progress);
    if (st == TL_OK)
        st = tli_remember_experiment(&hooks[1], parse->experiment,
                                     ((const tl_train_flags *)run->given[RUN])->model_dir);
    // The bar tells what the log would; warnings still come.
    if (bar && tl_log_level() == TL_LEVEL_INFO) tl_log_set_level(TL_LEVEL_WARNING);
    if (st == TL_OK) st = launch(run, config, hooks, hooks[1] ? 2 : 1, bar);
    for (int i = 0; i < 2; i++) tl_hook_free(&hooks[i]);
    return st;
}

static tl_status run_train(tli_run *run)
{
    tl_config *config;
    TL_TRY(tl_check_mode(((const tl_train_flags *)run->given[RUN])->mode));
    TL_TRY(tli_experiment_of(&config, run, run->given[EXPERIMENT]));
    tl_status st = train(run, config);
    tl_config_free(&config);
    return st;
}

static tl_status more_help(tli_run *run)
{
    return tli_experiment_help(run, run->given[EXPERIMENT]);
}

const tli_command tli_command_train = {
    .name = "train",
    .brief = "trains, evaluates or both",
    .usage = "--experiment=NAME --mode=MODE --model_dir=FOLDER [flags] [WORD...]\n\n"
             "Runs an experiment. A folder that holds checkpoints is gone on with: the same command "
             "resumes, with the same results as if it had never stopped. SIGTERM, SIGINT (Ctrl-C) and "
             "SIGUSR1 save a checkpoint and end with exit code 3; a second one ends at once. Words "
             "change the configuration:\n"
             TLI_WORDS_HELP,
    .flags = {{"Run", &tl_train_flags_desc}, {"Experiment", &tl_parse_options_desc},
              {"Terminal", &terminal_flags_desc}},
    .takes_overrides = true,
    .run = run_train,
    .more_help = more_help,
};
