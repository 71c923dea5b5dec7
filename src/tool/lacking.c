#include <inttypes.h>
#include <string.h>

#include <tilth/base/vec.h>
#include <tilth/train/run/lacks.h>

#include "tool/experiment.h"
#include "tool/flag_words.h"

const char *tli_quoted(tli_run *run, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:,@%=";
    tl_str text = TL_STR_INIT;
    if (*word && strspn(word, plain) == strlen(word)) return word;
    tl_str_addc(&text, '\'');
    for (const char *p = word; *p; p++) {
        if (*p == '\'') tl_str_add(&text, "'\\''");
        else tl_str_addc(&text, *p);
    }
    tl_str_addc(&text, '\'');
    const char *copy =
        tl_str_status(&text) == TL_OK ? tl_arena_strdup(run->arena, tl_str_text(&text)) : NULL;
    tl_str_deinit(&text);
    return copy;
}

/* Words of a command, each in a line of its own but for the first ones. */
static tl_status add_word(tl_str *out, tli_run *run, const char *before, const char *name,
                          const char *value)
{
    const char *word = name ? tl_arena_printf(run->arena, "%s=%s", name, value) : value;
    word = word ? tli_quoted(run, word) : NULL;
    if (!word) return TL_ENOMEM;
    tl_str_addf(out, "%s%s", before, word);
    return TL_OK;
}

/* A word whose key is among what lacks has a value that will not do. */
static bool is_lacking(const tl_lacks *lacks, const char *word)
{
    size_t length = strcspn(word, "=");
    for (int64_t i = 0; i < lacks->count; i++)
        if (strlen(lacks->items[i].key) == length
            && strncmp(lacks->items[i].key, word, length) == 0)
            return true;
    return false;
}

static bool begins_with(const char *word, const char *begin)
{
    return strncmp(word, begin, strlen(begin)) == 0;
}

static tl_status add_flags(tl_str *out, tli_run *run, const tli_lacking_args *args,
                           const char *line)
{
    tli_word_list words = {0};
    tl_status st = tli_train_words(&words, run, args->flags, args->parse);
    for (int64_t i = 0; i < words.count && st == TL_OK; i++)
        if (!begins_with(words.items[i], "--experiment=")
            && !begins_with(words.items[i], "--mode="))
            st = add_word(out, run, line, NULL, words.items[i]);
    TL_VEC_FREE(&words);
    for (int64_t i = 0; i < args->more.count && st == TL_OK; i++)
        st = add_word(out, run, line, NULL, args->more.items[i]);
    return st;
}

/* The command as it was given, and what it lacks. */
static tl_status add_command(tl_str *out, tli_run *run, const tli_lacking_args *args,
                             const tl_lacks *lacks)
{
    static const char line[] = " \\\n      ";
    const tl_train_flags *flags = args->flags;
    int64_t count;
    const tl_flag_word *words = tl_flags_words(run->flags, &count);
    TL_TRY(add_word(out, run, "    ", NULL, run->tool->program));
    tl_str_addf(out, " %s", args->command);
    TL_TRY(add_word(out, run, " ", "--experiment", args->parse->experiment));
    if (!args->task_alone) {
        const char *folder = flags->model_dir ? flags->model_dir : "runs/mine";
        TL_TRY(add_word(out, run, " ", "--mode", flags->mode));
        TL_TRY(add_word(out, run, " ", "--model_dir", folder));
    }
    TL_TRY(add_flags(out, run, args, line));
    for (int64_t i = 0; i < count; i++)
        if (!is_lacking(lacks, words[i].text))
            TL_TRY(add_word(out, run, line, NULL, words[i].text));
    for (int64_t i = 0; i < lacks->count; i++)
        TL_TRY(add_word(out, run, line, lacks->items[i].key, lacks->items[i].value));
    return TL_OK;
}

static void add_list(tl_str *out, const tl_lacks *lacks)
{
    for (int64_t i = 0; i < lacks->count; i++)
        if (lacks->items[i].what)
            tl_str_addf(out, "    %-44s %s\n", lacks->items[i].key, lacks->items[i].what);
}

/* Once it is known where the data lies, the rest follows. */
static void leave_what_data_says(tl_lacks *lacks)
{
    for (int64_t i = 0; i < lacks->count; i++) {
        if (strcmp(lacks->items[i].key, "task.train_data.input_path") != 0) continue;
        lacks->items[0] = lacks->items[i];
        lacks->count = 1;
        lacks->hint = NULL;
    }
}

static void leave_the_task(tl_lacks *lacks)
{
    int64_t count = 0;
    for (int64_t i = 0; i < lacks->count; i++)
        if (begins_with(lacks->items[i].key, "task.")) lacks->items[count++] = lacks->items[i];
    lacks->count = count;
}

tl_status tli_check_lacks(tli_run *run, tl_config *config, const tli_lacking_args *args)
{
    const char *experiment = args->parse->experiment;
    tl_lacks lacks = {.arena = run->arena};
    tl_str text = TL_STR_INIT;
    TL_TRY(tl_experiment_lacks(&lacks, config, run->registry, args->flags->mode));
    if (args->task_alone) leave_the_task(&lacks);
    if (tl_experiment_completes(run->registry, experiment)) leave_what_data_says(&lacks);
    int64_t count = tl_lacks_count(&lacks);
    if (!count) return TL_OK;
    tl_str_addf(&text, "the experiment '%s' lacks %" PRId64 " setting%s:\n", experiment, count,
                count == 1 ? "" : "s");
    add_list(&text, &lacks);
    tl_str_add(&text, "  With these it runs:\n");
    tl_status st = add_command(&text, run, args, &lacks);
    if (lacks.hint) tl_str_addf(&text, "\n  %s", lacks.hint);
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK) st = TL_FAIL(TL_EINVAL, "%s", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}
