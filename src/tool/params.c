#include <string.h>

#include <tilth/desc/gin.h>
#include <tilth/train/experiment.h>

#include "tool/tool.h"

typedef struct params_flags {
    bool explain;
} params_flags;
static const tl_field params_fields[] = {
    TL_F(params_flags, explain, .help = "add to each line where its value came from"),
    TL_F_END
};
static const tl_desc params_flags_desc = {
    .name = "params", .help = "flags of `params`", .size = sizeof(params_flags),
    .fields = params_fields,
};

typedef struct gin_flags {
    tl_strings gin_file, gin_params;
} gin_flags;
static const tl_field gin_fields[] = {
    TL_F(gin_flags, gin_file, .help = "file with gin bindings"),
    TL_F(gin_flags, gin_params, .help = "a gin binding, such as 'Dense.units = 256'"),
    TL_F_END
};
static const tl_desc gin_flags_desc = {
    .name = "gin", .help = "gin bindings", .size = sizeof(gin_flags), .fields = gin_fields,
};

enum { OUTPUT, EXPERIMENT, GIN }; /* structs of flags, by their place in the command's table */

/* Nothing is called here, but mistakes in gin files should not wait until training. */
static tl_status check_gin(tl_registry *registry, const gin_flags *given)
{
    if (!given->gin_file.count && !given->gin_params.count) return TL_OK;
    tl_gin *gin;
    TL_TRY(tl_gin_new(&gin, registry));
    tl_status st = tl_gin_allow_plugins(gin, NULL);
    if (st == TL_OK)
        st = tl_gin_parse_files_and_params(gin, given->gin_file, given->gin_params, true);
    tl_gin_free(&gin);
    return st;
}

/* The overrides in the order in which they were given, flags with dots and words alike. */
static tl_status apply_words(tl_config *config, tli_run *run)
{
    int64_t count;
    const tl_flag_word *given = tl_flags_words(run->flags, &count);
    tl_word *words = tl_arena_array(run->arena, count, sizeof *words);
    if (!words) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        words[i] = (tl_word){given[i].text, given[i].flag ? given[i].flag : "command line"};
    return tl_config_words(config, words, count);
}

static tl_status run_params(tli_run *run)
{
    const params_flags *output = run->given[OUTPUT];
    const tl_parse_options *parse = run->given[EXPERIMENT];
    TL_TRY(check_gin(run->registry, run->given[GIN]));
    const char *word = run->words.count ? run->words.items[0] : "";
    if (strncmp(word, "experiment=", 11) == 0) word += 11;
    if (!parse->experiment && tl_registry_peek(run->registry, &tl_kind_experiment, word))
        return TL_FAIL(TL_EINVAL, "no experiment is named, did you mean --experiment=%s?", word);
    tl_config *config;
    TL_TRY(tl_experiment_begin(&config, run->registry, parse));
    tl_status st = apply_words(config, run);
    if (st == TL_OK) st = tl_config_finish(config);
    if (st == TL_OK) st = tl_config_write(&run->text, config, output->explain);
    tl_config_free(&config);
    return st;
}

/* The keys that can be overridden, when an experiment was named. */
static tl_status more_help(tli_run *run)
{
    const tl_parse_options *parse = run->given[EXPERIMENT];
    if (!parse->experiment || !*parse->experiment) {
        tl_help_wrap(&run->text, "\nWith --experiment=NAME its keys are told here too.", 0,
                     run->tool->width);
        return tl_str_status(&run->text);
    }
    tl_str_addf(&run->text, "\nKeys of the experiment '%s', for key=value and --key=value:\n",
                parse->experiment);
    tl_help_options o = {.registry = run->registry, .width = run->tool->width};
    return tli_describe_experiment(&run->text, run->registry, parse->experiment, "", &o);
}

const tli_command tli_command_params = {
    .name = "params",
    .brief = "the effective configuration of an experiment, as YAML",
    .usage = "--experiment=NAME [flags] [WORD...]\n\n"
             "Writes the configuration that training would use: the experiment's defaults, then "
             "each --config_file, --params_override, and last the words and dotted flags in their "
             "order. Later ones win. Words are\n"
             "  key=value    sets a key that exists, such as trainer.train_steps=100\n"
             "  +key=value   adds a key that is not there\n"
             "  ++key=value  does either\n"
             "  ~key         removes one\n"
             "and --trainer.train_steps=100 is the same as trainer.train_steps=100.",
    .flags = {{"Output", &params_flags_desc},
              {"Experiment", &tl_parse_options_desc},
              {"Gin", &gin_flags_desc}},
    .takes_overrides = true,
    .run = run_params,
    .more_help = more_help,
};
