#include <tilth/train/launch.h>

#include "tool/experiment.h"

enum { RUN, EXPERIMENT }; /* structs of flags, by their place in the command's table */

static tl_status run_train(tli_run *run)
{
    tl_config *config;
    TL_TRY(tl_check_mode(((const tl_train_flags *)run->given[RUN])->mode));
    TL_TRY(tli_experiment_of(&config, run, run->given[EXPERIMENT]));
    tl_status st = tl_launch(NULL, &(tl_launch_args){.registry = run->registry, .config = config,
                                                     .flags = run->given[RUN]});
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
    .flags = {{"Run", &tl_train_flags_desc}, {"Experiment", &tl_parse_options_desc}},
    .takes_overrides = true,
    .run = run_train,
    .more_help = more_help,
};
