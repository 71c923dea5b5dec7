#include <tilth/train/libai/default_trainer.h>

#include "tool/experiment.h"

enum { RUN }; /* the struct of flags, by its place in the command's table */

/* Those of the program (tl_main_options). */
static tl_status add_own(tl_default_trainer *t, void *payload)
{
    const tl_main_options *o = payload;
    tl_main_run run = {
        .command = "train_net", .folder = t->config->train.output_dir, .registry = t->registry};
    return o->add_hooks(&t->hooks, &run, o->hooks_payload);
}

tl_status tli_train_net(tli_run *run, const tl_train_net_flags *flags, const tl_word *words,
                        int64_t count)
{
    const tl_main_options *o = run->tool->options;
    tl_default_trainer_args trainer = {
        .add_hooks = o->add_hooks ? add_own : NULL,
        .hooks_payload = (void *)(uintptr_t)o,
    };
    tl_config *config;
    TL_TRY(tl_libai_open(&config, run->registry, flags->config_file, words, count));
    tl_status st = tl_train_net(NULL, &(tl_train_net_args){.registry = run->registry,
                                                           .config = config,
                                                           .flags = flags,
                                                           .trainer = &trainer});
    tl_config_free(&config);
    return st;
}

static tl_status run_train_net(tli_run *run)
{
    const tl_word *words;
    int64_t count;
    TL_TRY(tli_words_of(&words, &count, run));
    return tli_train_net(run, run->given[RUN], words, count);
}

static tl_status more_help(tli_run *run)
{
    tl_help_options o = {.registry = run->registry, .width = run->tool->width};
    tl_str_add(&run->text, "\nKeys, for the file, key=value and --key=value:\n");
    return tl_help_config(&run->text, &tl_libai_config_desc, NULL, "", &o);
}

const tli_command tli_command_train_net = {
    .name = "train_net",
    .brief = "trains or evaluates from a configuration in LiBai's words",
    .usage =
        "--config-file=FILE [--resume] [--eval-only] [--fast-dev-run] [flags] [WORD...]\n\n"
        "Runs LiBai's DefaultTrainer from YAML, or from LiBai's own config.py, which is read "
        "without "
        "Python: `model` names a task and its model, `dataloader` its data, "
        "`optim`, `graph` "
        "and `train` are as in LiBai. Everything is written to train.output_dir. A run that "
        "is not resumed "
        "begins anew; what the folder held is moved aside. SIGTERM, SIGINT (Ctrl-C), SIGUSR1 "
        "and SIGHUP save a checkpoint "
        "and end with exit code 3; a second one ends at once. Words change the configuration:\n"
        "  key=value    sets a key that exists, such as train.train_iter=100 or optim.lr=1e-3\n"
        "  +key=value   adds a key that is not there\n"
        "  ++key=value  does either\n"
        "  ~key         removes one\n"
        "and --optim.lr=1e-3 is the same as optim.lr=1e-3.",
    .flags = {{"Run", &tl_train_net_flags_desc}},
    .takes_overrides = true,
    .run = run_train_net,
    .more_help = more_help,
};
