#include <unistd.h>

#include <tilth/comm/world.h>
#include <tilth/train/run/explain.h>
#include <tilth/train/run/finished.h>
#include <tilth/train/run/launch.h>

#include "tool/experiment.h"

typedef struct explain_flags {
    int64_t steps;
    const char *trace, *graph, *passes, *model_dir;
    tl_strings gin_file, gin_params;
} explain_flags;
static const tl_field explain_fields[] = {
    TL_F(explain_flags, steps, .i = 10, TL_AT_LEAST(1), .help = "training steps that are timed"),
    TL_F(explain_flags, trace, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "file for a timed step, for chrome://tracing and Perfetto"),
    TL_F(explain_flags, graph, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "file for the optimised graph: text, or Graphviz when it ends in .dot"),
    TL_F(explain_flags, passes, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "file for the graph as text, before and after every pass"),
    TL_F(explain_flags, model_dir, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "folder of a run, in place of --experiment: its configuration, with what gin "
                 "binds there"),
    TL_F(explain_flags, gin_file, .flags = TL_FIELD_PATH, .help = "file with gin bindings"),
    TL_F(explain_flags, gin_params, .help = "a gin binding, such as 'Dense.units = 256'"),
    TL_F_END,
};
static const tl_desc explain_flags_desc = {
    .name = "explain",
    .help = "flags of `explain`",
    .size = sizeof(explain_flags),
    .fields = explain_fields,
};

enum { OUTPUT, EXPERIMENT }; /* structs of flags, by their place in the command's table */

static tl_status explain(tli_run *run, const tl_experiment_config *params, tl_world *world)
{
    const explain_flags *f = run->given[OUTPUT];
    tl_strategy *strategy = NULL;
    tl_task *task = NULL;
    tl_trainer *trainer = NULL;
    uint64_t seed = tl_experiment_seed(params);
    tl_status st = TL_OK;
    if (world) st = tl_comm_broadcast(tl_world_comm(world)->world, &seed, sizeof seed, 0);
    TL_TRY_DONE(st, st);
    TL_TRY_DONE(st,
                tl_experiment_open_in(&strategy, &task, run->registry, params, NULL, seed, world));
    TL_TRY_DONE(st,
                tl_create_trainer(&trainer, params, task, strategy, true, false, NULL, NULL, seed));
    tl_model_summary_fit(trainer->model, isatty(fileno(run->tool->out)) ? run->tool->width : 0,
                         &run->text);
    tl_str_add(&run->text, "\n");
    st = tl_explain(&run->text, trainer,
                    &(tl_explain_args){.steps = f->steps,
                                       .trace_path = f->trace,
                                       .graph_path = f->graph,
                                       .passes_path = f->passes});
done:
    tl_trainer_free(&trainer);
    tl_task_free(&task);
    tl_strategy_free(&strategy);
    return st;
}

/* A run that was trained, as its folder has it. */
static tl_status explain_folder(tli_run *run, const explain_flags *f)
{
    const tl_parse_options *parse = run->given[EXPERIMENT];
    tl_finished finished;
    tl_finished_args args = {.registry = run->registry,
                             .folder = f->model_dir,
                             .experiment = parse->experiment,
                             .config_file = parse->config_file,
                             .params_override = parse->params_override};
    if (f->gin_file.count || f->gin_params.count)
        return TL_FAIL(TL_EINVAL,
                       "--model_dir=%s: a run has its own bindings; --gin_file and --gin_params go "
                       "with --experiment",
                       f->model_dir);
    TL_TRY(tli_words_of(&args.words, &args.word_count, run));
    tl_status st = tl_finished_read(&finished, &args);
    tl_gin *outer = tl_gin_set_current(finished.gin);
    if (st == TL_OK) st = explain(run, finished.params, NULL);
    tl_gin_set_current(outer);
    tl_finished_close(&finished);
    return st;
}

/* Of several processes the chief tells how its step goes, and writes files. */
static tl_status explain_in(tli_run *run, tl_world *world)
{
    explain_flags *f = run->given[OUTPUT];
    tl_config *config;
    tl_gin *gin;
    const bool chief = !world || tl_world_comm(world)->rank == 0;
    if (world && f->model_dir && *f->model_dir)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "--model_dir: a run in a folder is explained by one process, and there are "
                       "%d; several explain an --experiment",
                       (int)tl_world_comm(world)->size);
    if (f->model_dir && *f->model_dir) return explain_folder(run, f);
    if (!chief) f->trace = f->graph = f->passes = NULL;
    TL_TRY(tli_experiment_with_gin(&config, &gin, run, run->given[EXPERIMENT], NULL, f->gin_file,
                                   f->gin_params));
    tl_status st = explain(run, tl_config_value(config), world);
    tli_experiment_close(&config, &gin);
    if (!chief) tl_str_cut(&run->text, 0);
    return st;
}

static tl_status run_explain(tli_run *run)
{
    tl_world *world = NULL;
    tl_who who;
    TL_TRY(tl_who_find(&who, NULL));
    if (who.size == 1) return explain_in(run, NULL);
    TL_TRY(tl_world_open(&world, NULL));
    tl_status st = explain_in(run, world);
    if (st == TL_OK) st = tl_comm_barrier(tl_world_comm(world)->world); // all leave together
    tl_world_close(&world, st);
    return st;
}

static tl_status more_help(tli_run *run)
{
    return tli_experiment_help(run, run->given[EXPERIMENT]);
}

const tli_command tli_command_explain = {
    .name = "explain",
    .brief = "what a training step became, and where its time goes",
    .usage =
        "--experiment=NAME|--model_dir=FOLDER [flags] [WORD...]\n\n"
        "Builds the model of an experiment, or of the run in a folder, captures and compiles "
        "its training step, runs it a few times and shows the model, what each pass did, and "
        "every kernel with its time and the share of what this machine can do at most. "
        "Nothing is saved. Several processes (`tilth launch -n 2 explain ...`) also show which "
        "sums they exchange while they compute, and what they wait for. Words change the "
        "configuration:\n" TLI_WORDS_HELP,
    .flags = {{"Output", &explain_flags_desc}, {"Experiment", &tl_parse_options_desc}},
    .takes_overrides = true,
    .run = run_explain,
    .more_help = more_help,
};
