/* Private to tool: experiments as the command line gives them. */
#ifndef TILTH_SRC_TOOL_EXPERIMENT_H
#define TILTH_SRC_TOOL_EXPERIMENT_H

#include <tilth/train/libai/default_trainer.h>
#include <tilth/train/run/launch.h>

#include "tool/tool.h"

/* The experiment's configuration, finished: its defaults, files, --params_override, then words and
 * dotted flags in their order; under bindings of gin, which were read before and are in force from
 * then on: those of the flags, or of the run in the folder (NULL: none). Of an experiment that
 * completes itself by its data, params.yaml of the run in the folder is the first of the files.
 * Both are the caller's, the configuration first to be freed. */
TL_NODISCARD tl_status tli_experiment_with_gin(tl_config **out, tl_gin **gin, tli_run *run,
                                               const tl_parse_options *parse, const char *model_dir,
                                               tl_strings files, tl_strings params);
/* Frees both; no bindings are in force any more. */
void tli_experiment_close(tl_config **config, tl_gin **gin);
/* The overrides in the order in which they were given, flags with dots and words alike. */
TL_NODISCARD tl_status tli_words_of(const tl_word **out, int64_t *count, tli_run *run);
/* LiBai's config.py, when one is named, by a word or --config_file: then there is no experiment.
 * The words are the others. *file is NULL when there is none. */
TL_NODISCARD tl_status tli_libai_of(const char **file, const tl_word **words, int64_t *count,
                                    tli_run *run, const tl_parse_options *parse);
/* What `train_net` does, for it and for who has other flags. */
TL_NODISCARD tl_status tli_train_net(tli_run *run, const tl_train_net_flags *flags,
                                     const tl_word *words, int64_t count);
/* The same, put into a configuration. */
TL_NODISCARD tl_status tli_experiment_words(tl_config *config, tli_run *run);
/* For --helpfull: the keys of the experiment that is named. */
TL_NODISCARD tl_status tli_experiment_help(tli_run *run, const tl_parse_options *parse);
/* A command that trains, as it was given. */
typedef struct tli_lacking_args {
    const char *command; /* its name */
    const tl_parse_options *parse;
    const tl_train_flags *flags; /* with a mode */
    tl_strings more;             /* (optional) words of its own flags */
    /* (optional: false) it has no mode and no folder, and takes from the trainer's section what it
     * finds there: what lacks of the task alone is told */
    bool task_alone;
} tli_lacking_args;
/* A training that lacks settings is told all of them at once, and the command that would do
 * (train/run/lacks.h). */
TL_NODISCARD tl_status tli_check_lacks(tli_run *run, tl_config *config,
                                       const tli_lacking_args *args);
/* A word as a shell takes it: as it is, or in quotes. NULL without memory. */
const char *tli_quoted(tli_run *run, const char *word);
/* What words mean, for the usage of commands that take them. */
#define TLI_WORDS_HELP                                                                             \
    "  key=value    sets a key that exists, such as trainer.train_steps=100\n"                     \
    "  +key=value   adds a key that is not there\n"                                                \
    "  ++key=value  does either\n"                                                                 \
    "  ~key         removes one\n"                                                                 \
    "and --trainer.train_steps=100 is the same as trainer.train_steps=100."

#endif
