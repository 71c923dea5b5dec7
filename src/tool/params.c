#include <string.h>

#include <tilth/train/libai/libai.h>

#include "tool/experiment.h"

typedef struct params_flags {
    bool explain;
} params_flags;
static const tl_field params_fields[] = {
    TL_F(params_flags, explain, .help = "add to each line where its value came from"),
    TL_F_END,
};
static const tl_desc params_flags_desc = {
    .name = "params",
    .help = "flags of `params`",
    .size = sizeof(params_flags),
    .fields = params_fields,
};

typedef struct gin_flags {
    tl_strings gin_file, gin_params;
} gin_flags;
static const tl_field gin_fields[] = {
    TL_F(gin_flags, gin_file, .flags = TL_FIELD_PATH, .help = "file with gin bindings"),
    TL_F(gin_flags, gin_params, .help = "a gin binding, such as 'Dense.units = 256'"),
    TL_F_END,
};
static const tl_desc gin_flags_desc = {
    .name = "gin",
    .help = "gin bindings",
    .size = sizeof(gin_flags),
    .fields = gin_fields,
};

enum { OUTPUT, EXPERIMENT, GIN }; /* structs of flags, by their place in the command's table */

static tl_status run_libai(tli_run *run, const char *path, const tl_word *words, int64_t count,
                           bool explain)
{
    tl_config *config;
    TL_TRY(tl_libai_open(&config, run->registry, path, words, count));
    tl_status st = tl_config_finish(config);
    if (st == TL_OK) st = tl_config_write(&run->text, config, explain);
    tl_config_free(&config);
    return st;
}

/* What no choice of the configuration takes may still be meant for what the program makes while it
 * trains. */
static tl_status run_params(tli_run *run)
{
    const params_flags *output = run->given[OUTPUT];
    const gin_flags *given = run->given[GIN];
    const tl_parse_options *parse = run->given[EXPERIMENT];
    const tl_word *words;
    const char *file;
    int64_t count;
    TL_TRY(tli_libai_of(&file, &words, &count, run, parse));
    if (file) return run_libai(run, file, words, count, output->explain);
    tl_config *config;
    tl_gin *gin;
    TL_TRY(tli_experiment_with_gin(&config, &gin, run, parse, NULL, given->gin_file,
                                   given->gin_params));
    tl_status st = tl_config_write(&run->text, config, output->explain);
    tli_experiment_close(&config, &gin);
    return st;
}

static tl_status more_help(tli_run *run)
{
    return tli_experiment_help(run, run->given[EXPERIMENT]);
}

const tli_command tli_command_params = {
    .name = "params",
    .brief = "the effective configuration of an experiment, as YAML",
    .usage =
        "--experiment=NAME [flags] [WORD...]\n\n"
        "Writes the configuration that training would use: the experiment's defaults, then "
        "each --config_file, --params_override, and last the words and dotted flags in their "
        "order. Later ones win. --config_file with LiBai's config.py and no --experiment writes "
        "what `train_net` would use. Words are\n" TLI_WORDS_HELP,
    .flags = {{"Output", &params_flags_desc},
              {"Experiment", &tl_parse_options_desc},
              {"Gin", &gin_flags_desc}},
    .takes_overrides = true,
    .run = run_params,
    .more_help = more_help,
};
