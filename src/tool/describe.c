#include <stdlib.h>
#include <string.h>

#include <tilth/base/vec.h>
#include <tilth/train/experiment.h>

#include "io/inner/json_text.h"
#include "tool/tool.h"

typedef struct describe_flags {
    bool names, json;
} describe_flags;
static const tl_field describe_fields[] = {
    TL_F(describe_flags, names, .help = "the keys alone, one a line, for scripts"),
    TL_F(describe_flags, json,
         .help = "a JSON object: {\"name\", \"kind\", \"module\", \"base\", \"help\", \"fields\": "
                 "[{\"key\", \"type\", \"default\", \"required\", \"help\"}, ...]}"),
    TL_F_END,
};
static const tl_desc describe_flags_desc = {
    .name = "describe",
    .help = "flags of `describe`",
    .size = sizeof(describe_flags),
    .fields = describe_fields,
};

/* Something with a name. */
typedef struct thing {
    const tl_kind *kind;
    const tl_class *cls;
} thing;
typedef struct thing_list {
    thing *items;
    int64_t count, capacity;
} thing_list;

/* --- finding it ------------------------------------------------------------------------------- */

static tl_status add_thing(thing_list *list, const tl_registry *r, const tl_kind *kind,
                           const char *name)
{
    thing t = {kind, tl_registry_peek(r, kind, name)};
    return !t.cls || TL_VEC_PUSH(list, t) ? TL_OK : TL_ENOMEM;
}

static tl_status no_such_thing(const tl_registry *r, tl_arena *arena, const char *name)
{
    int64_t count = 0, total = 0;
    for (int64_t i = 0; i < tl_registry_kind_count(r); i++)
        total += tl_registry_count(r, tl_registry_kind_at(r, i)) + 1;
    const char **names = tl_arena_array(arena, total, sizeof *names);
    if (!names) return TL_ENOMEM;
    for (int64_t i = 0; i < tl_registry_kind_count(r); i++) {
        const tl_kind *kind = tl_registry_kind_at(r, i);
        names[count++] = kind->plural;
        for (int64_t k = 0; k < tl_registry_count(r, kind); k++)
            names[count++] = tl_registry_at(r, kind, k)->name;
    }
    const char *nearest = tl_nearest(name, names, count);
    return TL_FAIL(TL_ENOTFOUND, "nothing is called '%s'%s%s%s", name,
                   nearest ? ", did you mean '" : "", nearest ? nearest : "",
                   nearest ? "'?" : " (`list` tells what there is)");
}

/* Everything that the words may mean: NAME, KIND:NAME or KIND NAME. *used words say it. */
static tl_status find_things(thing_list *out, int64_t *used, tli_run *run)
{
    const tl_registry *r = run->registry;
    tl_strings words = run->words;
    const tl_kind *kind = tli_peek_kind(r, words.items[0]);
    *used = 1;
    if (kind && words.count > 1) {
        const tl_class *cls;
        *used = 2;
        TL_TRY(tl_registry_find(&cls, r, kind, words.items[1]));
        return add_thing(out, r, kind, words.items[1]);
    }
    const char *colon = strchr(words.items[0], ':');
    const char *before =
        colon ? tl_arena_strndup(run->arena, words.items[0], (size_t)(colon - words.items[0])) : "";
    if (!before) return TL_ENOMEM;
    kind = tli_peek_kind(r, before);
    if (kind) {
        const tl_class *cls;
        TL_TRY(tl_registry_find(&cls, r, kind, colon + 1));
        return add_thing(out, r, kind, colon + 1);
    }
    for (int64_t i = 0; i < tl_registry_kind_count(r); i++)
        TL_TRY(add_thing(out, r, tl_registry_kind_at(r, i), words.items[0]));
    return out->count ? TL_OK : no_such_thing(r, run->arena, words.items[0]);
}

/* --- telling about it ------------------------------------------------------------------------- */

tl_status tli_describe_experiment(tl_str *out, const tl_registry *registry, const char *name,
                                  const char *path, const tl_help_options *options)
{
    tl_arena *arena;
    tl_config *config = NULL;
    void *parse = NULL;
    TL_TRY(tl_arena_new(&arena));
    tl_status st;
    TL_TRY_DONE(st, tl_desc_new(&parse, arena, &tl_parse_options_desc));
    ((tl_parse_options *)parse)->experiment = name;
    TL_TRY_DONE(st, tl_experiment_parse(&config, registry, parse));
    st = tl_help_config(out, tl_config_desc(config), tl_config_value(config), path, options);
done:
    tl_config_free(&config);
    tl_arena_free(&arena);
    return st;
}

/* *fields, which may be NULL: whether it has any. */
static tl_status tell_keys(tl_str *out, bool *fields, const tli_run *run, const thing *t,
                           const char *path, const tl_help_options *o)
{
    bool experiment = t->kind == &tl_kind_experiment;
    if (fields) *fields = experiment || t->cls->config;
    if (experiment) return tli_describe_experiment(out, run->registry, t->cls->name, path, o);
    if (t->cls->config) return tl_help_config(out, t->cls->config, NULL, path, o);
    if (*path) return TL_FAIL(TL_ENOTFOUND, "%s '%s' has no keys", t->kind->name, t->cls->name);
    return TL_OK;
}

static tl_status describe_keys(tl_str *out, const tli_run *run, const thing *t, const char *path,
                               bool names)
{
    tl_help_options o = {.registry = run->registry, .width = run->tool->width, .names_only = names};
    bool fields;
    TL_TRY(tell_keys(out, &fields, run, t, path, &o));
    if (!fields && !names) tl_str_add(out, "It has no fields.\n");
    return TL_OK;
}

/* Numbers, booleans and null as they are; all else as the text that YAML would have. */
static void add_default(tli_json *j, const tl_help_entry *e)
{
    const tl_field *f = e->field;
    bool one = f->arity != TL_LIST;
    char *end;
    if (strcmp(e->text, "null") == 0) tli_json_text(j, "default", NULL);
    else if (one && f->type == TL_TYPE_BOOL)
        tli_json_bool(j, "default", strcmp(e->text, "true") == 0);
    else if (one && f->type == TL_TYPE_INT) tli_json_int(j, "default", strtoll(e->text, &end, 10));
    else if (one && f->type == TL_TYPE_DOUBLE)
        tli_json_number(j, "default", tl_strtod(e->text, &end));
    else tli_json_text(j, "default", e->text);
}

static tl_status add_field(const tl_help_entry *e, void *payload)
{
    tli_json inner = tli_json_row(payload), *j = &inner;
    tli_json_begin(j, NULL, '{');
    tli_json_text(j, "key", e->key);
    tli_json_text(j, "type", e->type);
    if (e->text) add_default(j, e);
    if (e->required) tli_json_bool(j, "required", true);
    tli_json_text(j, "help", e->help);
    tli_json_end(j, '}');
    return TL_OK;
}

static tl_status describe_json(tli_run *run, const thing *t, const char *path)
{
    tli_json j = {.out = &run->text, .indent = 2};
    tl_help_options o = {.registry = run->registry, .entry = add_field, .payload = &j};
    tl_str none = TL_STR_INIT;
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "name", t->cls->name);
    tli_json_text(&j, "kind", t->kind->name);
    tli_json_text(&j, "module", tl_registry_origin(run->registry, t->kind, t->cls->name));
    tli_json_text(&j, "base", t->cls->base ? t->cls->base->name : NULL);
    tli_json_text(&j, "help", tli_class_help(t->cls));
    tli_json_begin(&j, "fields", '[');
    tl_status st = tell_keys(&none, NULL, run, t, path, &o);
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(&run->text, '\n');
    tl_str_deinit(&none);
    return st == TL_OK ? tl_str_status(&run->text) : st;
}

static tl_status describe_thing(tli_run *run, const thing *t, const char *path, bool names)
{
    const tl_class *cls = t->cls;
    if (!names && !*path) {
        const char *help = tli_class_help(cls);
        tl_str_addf(&run->text, "%s: %s", cls->name, t->kind->name);
        const char *origin = tl_registry_origin(run->registry, t->kind, cls->name);
        if (origin) tl_str_addf(&run->text, " of the module '%s'", origin);
        if (cls->base) tl_str_addf(&run->text, ", based on '%s'", cls->base->name);
        tl_str_addc(&run->text, '\n');
        if (help) {
            tl_str_pad(&run->text, ' ', 4);
            tl_help_wrap(&run->text, help, 4, run->tool->width);
        }
        tl_str_addc(&run->text, '\n');
    }
    TL_TRY(describe_keys(&run->text, run, t, path, names));
    return tl_str_status(&run->text);
}

static tl_status describe_kind(tli_run *run, const tl_kind *kind, bool names)
{
    tl_help_options o = {.registry = run->registry, .width = run->tool->width, .names_only = names};
    if (!names)
        tl_str_addf(&run->text, "%s: %s\n\n", kind->plural, kind->help ? kind->help : "a kind");
    return tl_help_kind(&run->text, run->registry, kind, &o);
}

/* Drops what does not have the key. When nothing has it, fails as the experiment does, if there is
 * one, for that is what keys are mostly asked of. */
static tl_status keep_those_with(thing_list *list, const tli_run *run, const char *path)
{
    int64_t kept = 0;
    tl_error error;
    tl_error_clear();
    tl_error_save(&error);
    for (int64_t i = 0; i < list->count; i++) {
        tl_str ignored = TL_STR_INIT;
        thing t = list->items[i];
        tl_status st = describe_keys(&ignored, run, &t, path, true);
        tl_str_deinit(&ignored);
        if (st == TL_OK) list->items[kept++] = t;
        else if (error.code == TL_OK || t.kind == &tl_kind_experiment) tl_error_save(&error);
    }
    list->count = kept;
    if (kept) return TL_OK;
    tl_error_restore(&error);
    return error.code;
}

static tl_status several(const tli_run *run, const thing_list *list)
{
    tl_str names = TL_STR_INIT;
    for (int64_t i = 0; i < list->count; i++)
        tl_str_addf(&names, "%s%s:%s",
                    i == 0                 ? ""
                    : i + 1 == list->count ? " or "
                                           : ", ",
                    list->items[i].kind->name, list->items[i].cls->name);
    tl_status st = TL_FAIL(TL_EINVAL, "'%s' is the name of several things: write %s",
                           run->words.items[0], tl_str_text(&names));
    tl_str_deinit(&names);
    return st;
}

/* An experiment shows the most, and is what a bare name mostly means; it says what else there
 * is. */
static bool prefer_experiment(thing_list *list, tli_run *run)
{
    for (int64_t i = 0; i < list->count; i++) {
        thing t = list->items[i];
        if (t.kind != &tl_kind_experiment) continue;
        for (int64_t k = 0; k < list->count; k++)
            if (k != i)
                fprintf(run->tool->err, "%s describe: there is also %s:%s\n", run->tool->program,
                        list->items[k].kind->name, list->items[k].cls->name);
        list->items[0] = t;
        list->count = 1;
        return true;
    }
    return false;
}

static tl_status run_describe(tli_run *run)
{
    const describe_flags *given = run->given[0];
    if (run->words.count == 0)
        return TL_FAIL(TL_EINVAL, "a name is missing: `%s list` tells what there is",
                       run->tool->program);
    const tl_kind *kind = tli_peek_kind(run->registry, run->words.items[0]);
    if (given->names && given->json)
        return TL_FAIL(TL_EINVAL, "--names and --json cannot be combined");
    if (kind && run->words.count == 1)
        return given->json ? tli_list_json(run, kind) : describe_kind(run, kind, given->names);

    thing_list things = {0};
    int64_t used = 0;
    tl_status st = find_things(&things, &used, run);
    if (st == TL_OK && run->words.count > used + 1)
        st = TL_FAIL(TL_EINVAL, "one key at most, found also '%s'", run->words.items[used + 1]);
    const char *path = run->words.count > used ? run->words.items[used] : "";
    if (st == TL_OK && things.count > 1 && *path) st = keep_those_with(&things, run, path);
    if (st == TL_OK && things.count > 1 && !prefer_experiment(&things, run))
        st = several(run, &things);
    if (st == TL_OK)
        st = given->json ? describe_json(run, &things.items[0], path)
                         : describe_thing(run, &things.items[0], path, given->names);
    TL_VEC_FREE(&things);
    return st;
}

const tli_command tli_command_describe = {
    .name = "describe",
    .brief = "the fields of something: type, default and help of each",
    .usage = "[KIND] NAME [KEY] [flags]\n\n"
             "Shows what is registered under a name and its fields: the key, its type, its "
             "default, and what it does. For an experiment it shows the whole configuration. A KEY "
             "such as trainer.optimizer_config shows that part alone, also one that is not chosen "
             "by default. When several kinds have the name, the experiment is shown; KIND NAME or "
             "KIND:NAME chooses another.",
    .flags = {{"Description", &describe_flags_desc}},
    .run = run_describe,
};
