#include <stdlib.h>
#include <string.h>

#include "io/inner/json_text.h"
#include "tool/tool.h"

typedef struct list_flags {
    bool names, json;
} list_flags;
static const tl_field list_fields[] = {
    TL_F(list_flags, names,
         .help = "the names alone, one a line, for scripts; without a kind they are written "
                 "kind:name, as `describe` takes them"),
    TL_F(list_flags, json,
         .help = "a JSON object: {\"experiments\": [{\"name\", \"help\"}, ...], ...}"),
    TL_F_END,
};
static const tl_desc list_flags_desc = {
    .name = "list",
    .help = "flags of `list`",
    .size = sizeof(list_flags),
    .fields = list_fields,
};

const tl_kind *tli_peek_kind(const tl_registry *r, const char *name)
{
    for (int64_t i = 0; i < tl_registry_kind_count(r); i++) {
        const tl_kind *kind = tl_registry_kind_at(r, i);
        if (strcmp(kind->name, name) == 0 || strcmp(kind->plural, name) == 0) return kind;
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    const tl_kind *const *k = a, *const *l = b;
    return strcmp((*k)->name, (*l)->name);
}

/* The kinds sorted by name, so that the order of modules does not show. NULL: no memory. */
static const tl_kind **sorted_kinds(const tli_run *run, int64_t *count)
{
    *count = tl_registry_kind_count(run->registry);
    const tl_kind **kinds = tl_arena_array(run->arena, *count, sizeof *kinds);
    for (int64_t i = 0; kinds && i < *count; i++) kinds[i] = tl_registry_kind_at(run->registry, i);
    if (kinds) qsort(kinds, (size_t)*count, sizeof *kinds, by_name);
    return kinds;
}

static tl_status list_kinds(tli_run *run, bool names)
{
    int64_t count;
    const tl_kind **kinds = sorted_kinds(run, &count);
    if (!kinds) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        if (names) tl_str_addf(&run->text, "%s\n", kinds[i]->plural);
        else
            tl_help_row(&run->text, 2, kinds[i]->plural, 20, kinds[i]->help ? kinds[i]->help : "",
                        run->tool->width);
    }
    return tl_str_status(&run->text);
}

static tl_status list_kind(tli_run *run, const tl_kind *kind, bool names)
{
    tl_help_options o = {.registry = run->registry, .width = run->tool->width, .names_only = names};
    return tl_help_kind(&run->text, run->registry, kind, &o);
}

static tl_status list_all(tli_run *run, bool names)
{
    int64_t count;
    const tl_kind **kinds = sorted_kinds(run, &count);
    if (!kinds) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        if (!names) {
            tl_str_addf(&run->text, "%s%s:\n", i ? "\n" : "", kinds[i]->plural);
            TL_TRY(list_kind(run, kinds[i], false));
            continue;
        }
        for (int64_t k = 0; k < tl_registry_count(run->registry, kinds[i]); k++)
            tl_str_addf(&run->text, "%s:%s\n", kinds[i]->name,
                        tl_registry_at(run->registry, kinds[i], k)->name);
    }
    return tl_str_status(&run->text);
}

/* --- for programs ----------------------------------------------------------------------------- */

static void add_named(tli_json *list, const char *name, const char *help)
{
    tli_json j = tli_json_row(list);
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "name", name);
    tli_json_text(&j, "help", help);
    tli_json_end(&j, '}');
}

static void add_kind(tli_json *j, const tl_registry *r, const tl_kind *kind)
{
    tli_json_begin(j, kind->plural, '[');
    for (int64_t i = 0; i < tl_registry_count(r, kind); i++) {
        const tl_class *cls = tl_registry_at(r, kind, i);
        add_named(j, cls->name, tli_class_help(cls));
    }
    tli_json_end(j, ']');
}

const char *tli_class_help(const tl_class *cls)
{
    return cls->help ? cls->help : cls->config ? cls->config->help : NULL;
}

tl_status tli_list_json(tli_run *run, const tl_kind *kind)
{
    tli_json j = {.out = &run->text, .indent = 2};
    int64_t count;
    const tl_kind **kinds = sorted_kinds(run, &count);
    if (!kinds) return TL_ENOMEM;
    tli_json_begin(&j, NULL, '{');
    for (int64_t i = 0; i < count; i++)
        if (!kind || kinds[i] == kind) add_kind(&j, run->registry, kinds[i]);
    tli_json_end(&j, '}');
    tl_str_addc(&run->text, '\n');
    return tl_str_status(&run->text);
}

static tl_status kinds_json(tli_run *run)
{
    tli_json j = {.out = &run->text, .indent = 2};
    int64_t count;
    const tl_kind **kinds = sorted_kinds(run, &count);
    if (!kinds) return TL_ENOMEM;
    tli_json_begin(&j, NULL, '{');
    tli_json_begin(&j, "kinds", '[');
    for (int64_t i = 0; i < count; i++) add_named(&j, kinds[i]->plural, kinds[i]->help);
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(&run->text, '\n');
    return tl_str_status(&run->text);
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status run_list(tli_run *run)
{
    const list_flags *given = run->given[0];
    if (given->names && given->json)
        return TL_FAIL(TL_EINVAL, "--names and --json cannot be combined");
    if (run->words.count > 1)
        return TL_FAIL(TL_EINVAL, "one kind at most, found also '%s'", run->words.items[1]);
    if (run->words.count == 0)
        return given->json ? tli_list_json(run, NULL) : list_all(run, given->names);
    const char *word = run->words.items[0];
    if (strcmp(word, "kinds") == 0)
        return given->json ? kinds_json(run) : list_kinds(run, given->names);
    const tl_kind *kind;
    TL_TRY(tl_registry_find_kind(&kind, run->registry, word));
    return given->json ? tli_list_json(run, kind) : list_kind(run, kind, given->names);
}

const tli_command tli_command_list = {
    .name = "list",
    .brief = "what there is: experiments, tasks, optimizers, ...",
    .usage = "[KIND] [flags]\n\n"
             "Lists what is registered, or one kind of it: experiments, tasks, optimizers and so "
             "on; `kinds` lists the kinds.",
    .flags = {{"Listing", &list_flags_desc}},
    .run = run_list,
};
