#include "tool/experiment.h"

#include <string.h>

#include <tilth/base/file.h>

tl_status tli_words_of(const tl_word **out, int64_t *count, tli_run *run)
{
    const tl_flag_word *given = tl_flags_words(run->flags, count);
    tl_word *words = tl_arena_array(run->arena, *count, sizeof *words);
    if (!words) return TL_ENOMEM;
    for (int64_t i = 0; i < *count; i++)
        words[i] = (tl_word){given[i].text, given[i].flag ? given[i].flag : "command line"};
    *out = words;
    return TL_OK;
}

static bool is_python(const char *text)
{
    size_t length = strlen(text);
    return length > 3 && strcmp(text + length - 3, ".py") == 0 && !strchr(text, '=');
}

tl_status tli_libai_of(const char **file, const tl_word **words, int64_t *count, tli_run *run,
                       const tl_parse_options *parse)
{
    const tl_word *given;
    int64_t all, files = 0;
    *file = NULL;
    *count = 0;
    TL_TRY(tli_words_of(&given, &all, run));
    tl_word *rest = tl_arena_array(run->arena, all + 1, sizeof *rest);
    if (!rest) return TL_ENOMEM;
    for (int64_t i = 0; i < all; i++) {
        if (!is_python(given[i].text)) rest[(*count)++] = given[i];
        else if (files++ == 0) *file = given[i].text;
    }
    for (int64_t i = 0; i < parse->config_file.count; i++) {
        if (!is_python(parse->config_file.items[i])) continue;
        *file = parse->config_file.items[i];
        files++;
    }
    *words = rest;
    if (!*file) return TL_OK;
    if (files > 1 || parse->config_file.count > 1)
        return TL_FAIL(TL_EINVAL, "'%s': LiBai's config.py is the one file of a configuration",
                       *file);
    if (parse->experiment)
        return TL_FAIL(TL_EINVAL,
                       "'%s' is a whole configuration of LiBai's, and changes no experiment: leave "
                       "--experiment=%s out",
                       *file, parse->experiment);
    return TL_OK;
}

tl_status tli_experiment_words(tl_config *config, tli_run *run)
{
    const tl_word *words;
    int64_t count;
    TL_TRY(tli_words_of(&words, &count, run));
    return tl_config_words(config, words, count);
}

/* Defaults, files, --params_override, then words and dotted flags in their order. */
static tl_status experiment_of(tl_config **out, tli_run *run, const tl_parse_options *parse,
                               const char *model_dir)
{
    const char *word = run->words.count ? run->words.items[0] : "";
    *out = NULL;
    if (strncmp(word, "experiment=", 11) == 0) word += 11;
    if (!parse->experiment && tl_registry_peek(run->registry, &tl_kind_experiment, word))
        return TL_FAIL(TL_EINVAL, "no experiment is named, did you mean --experiment=%s?", word);
    tl_config *config;
    TL_TRY(tl_experiment_begin(&config, run->registry, parse));
    tl_status st = tli_experiment_words(config, run);
    if (st == TL_OK) st = tl_experiment_lanes(config, model_dir);
    if (st == TL_OK) st = tl_experiment_finish(config, run->registry, parse->experiment);
    if (st != TL_OK) tl_config_free(&config);
    *out = config;
    return st;
}

/* A run that has begun in the folder, of an experiment that completes itself by its data, goes on
 * with what it found then: its params.yaml comes before the other files. */
static tl_status experiment_of_run(tl_config **out, tli_run *run, const tl_parse_options *parse,
                                   const char *model_dir)
{
    tl_parse_options all = *parse;
    const char *begun = model_dir ? tl_path_join(run->arena, model_dir, "params.yaml") : "";
    *out = NULL;
    if (!begun) return TL_ENOMEM;
    if (!tl_experiment_completes(run->registry, parse->experiment) || !tl_file_exists(begun))
        return experiment_of(out, run, parse, model_dir);
    const char **files = tl_arena_array(run->arena, parse->config_file.count + 1, sizeof *files);
    if (!files) return TL_ENOMEM;
    files[0] = begun;
    for (int64_t i = 0; i < parse->config_file.count; i++)
        files[i + 1] = parse->config_file.items[i];
    all.config_file = (tl_strings){files, parse->config_file.count + 1};
    return experiment_of(out, run, &all, model_dir);
}

tl_status tli_experiment_with_gin(tl_config **out, tl_gin **gin, tli_run *run,
                                  const tl_parse_options *parse, const char *model_dir,
                                  tl_strings files, tl_strings params)
{
    *out = NULL;
    TL_TRY(tl_run_bindings(gin, run->registry, model_dir, files, params));
    tl_gin_set_current(*gin);
    tl_status st = experiment_of_run(out, run, parse, model_dir);
    if (st != TL_OK) tli_experiment_close(out, gin);
    return st;
}

void tli_experiment_close(tl_config **config, tl_gin **gin)
{
    tl_config_free(config);
    tl_gin_set_current(NULL);
    tl_gin_free(gin);
}

tl_status tli_experiment_help(tli_run *run, const tl_parse_options *parse)
{
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
