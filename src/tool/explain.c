#include <unistd.h>

#include <tilth/train/explain.h>
#include <tilth/train/launch.h>

#include "tool/experiment.h"

typedef struct explain_flags {
    int64_t steps;
    const char *trace, *graph, *passes;
} explain_flags;
static const tl_field explain_fields[] = {
    TL_F(explain_flags, steps, .i = 10, TL_AT_LEAST(1), .help = "training steps that are timed"),
    TL_F(explain_flags, trace, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "file for a timed step, for chrome://tracing and Perfetto"),
    TL_F(explain_flags, graph, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "file for the optimised graph: text, or Graphviz when it ends in .dot"),
    TL_F(explain_flags, passes, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "file for the graph as text, before and after every pass"),
    TL_F_END,
};
static const tl_desc explain_flags_desc = {
    .name = "explain", .help = "flags of `explain`", .size = sizeof(explain_flags),
    .fields = explain_fields,
};

enum { OUTPUT, EXPERIMENT }; /* structs of flags, by their place in the command's table */

static tl_status explain(tli_run *run, const tl_experiment_config *params)
{
    const explain_flags *f = run->given[OUTPUT];
    tl_strategy *strategy = NULL;
    tl_task *task = NULL;
    tl_trainer *trainer = NULL;
    uint64_t seed = tl_experiment_seed(params);
    tl_status st;
    TL_TRY_DONE(st, tl_experiment_open(&strategy, &task, run->registry, params, NULL, seed));
    TL_TRY_DONE(st, tl_create_trainer(&trainer, params, task, strategy, true, false, NULL, NULL, seed));
    tl_model_summary_fit(trainer->model, isatty(fileno(run->tool->out)) ? run->tool->width : 0, &run->text);
    tl_str_add(&run->text, "\n");
    st = tl_explain(&run->text, trainer, &(tl_explain_args){.steps = f->steps, .trace_path = f->trace,
                                                            .graph_path = f->graph,
                                                            .passes_path = f->passes});
done:
    tl_trainer_free(&trainer);
    tl_task_free(&task);
    tl_strategy_free(&strategy);
    return st;
}

static tl_status run_explain(tli_run *run)
{
    tl_config *config;
    TL_TRY(tli_experiment_of(&config, run, run->given[EXPERIMENT]));
    tl_status st = explain(run, tl_config_value(config));
    tl_config_free(&config);
    return st;
}

static tl_status more_help(tli_run *run)
{
    return tli_experiment_help(run, run->given[EXPERIMENT]);
}

const tli_command tli_command_explain = {
    .name = "explain",
    .brief = "what a training step became, and where its time goes",
    .usage = "--experiment=NAME [flags] [WORD...]\n\n"
             "Builds the experiment's model, captures and compiles its training step, runs it a few "
             "times and shows the model, what each pass did, and every kernel with its time and the "
             "share of what this machine can do at most. Nothing is saved. Words change the "
             "configuration:\n"
             TLI_WORDS_HELP,
    .flags = {{"Output", &explain_flags_desc}, {"Experiment", &tl_parse_options_desc}},
    .takes_overrides = true,
    .run = run_explain,
    .more_help = more_help,
};
