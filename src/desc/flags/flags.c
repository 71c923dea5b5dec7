#include <tilth/desc/flags.h>

#include <string.h>

#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/desc/help.h>

#include "desc/flags/impl.h"

/* What the parser itself understands; a struct cannot define these. */
static const char *const reserved[] = {"flagfile", "undefok", "help", "helpshort",
                                       "helpfull", "h",       "?",    NULL};

tl_status tl_flags_new(tl_flags **out, const char *program, const char *usage)
{
    tl_flags *f = *out = tl_alloc_zero(sizeof *f);
    if (!f) return TL_FAIL_NOMEM(sizeof *f);
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&f->arena));
    f->program = tl_arena_strdup(f->arena, program);
    f->usage = tl_arena_strdup(f->arena, usage ? usage : "");
    if (!f->program || !f->usage) st = TL_ENOMEM;
done:
    if (st != TL_OK) tl_flags_free(out);
    return st;
}

void tl_flags_free(tl_flags **flags)
{
    tl_flags *f = *flags;
    if (!f) return;
    for (int64_t i = 0; i < tl_map_count(&f->flags); i++) {
        tli_flag *flag = tl_map_at(&f->flags, i);
        TL_VEC_FREE(&flag->items);
    }
    tl_map_deinit(&f->flags);
    tl_map_deinit(&f->aliases);
    tl_map_deinit(&f->absent);
    TL_VEC_FREE(&f->groups);
    TL_VEC_FREE(&f->words);
    tl_arena_free(&f->arena);
    tl_free(f);
    *flags = NULL;
}

tli_flag *tli_flags_find(const tl_flags *f, const char *name)
{
    tli_flag *flag = tl_map_get(&f->flags, name);
    return flag ? flag : tl_map_get(&f->aliases, name);
}

bool tl_flags_given(const tl_flags *f, const char *name)
{
    const tli_flag *flag = tli_flags_find(f, name);
    return flag && flag->given;
}

tl_help_asked tl_flags_help_asked(const tl_flags *f)
{
    return f->help;
}

const tl_flag_word *tl_flags_words(const tl_flags *f, int64_t *count)
{
    *count = f->words.count;
    return f->words.items;
}

/* --- defining --------------------------------------------------------------------------------- */

static tl_status check_row(const tl_field *row)
{
    for (const char *const *word = reserved; *word; word++)
        if (strcmp(row->name, *word) == 0)
            return TL_FAIL(TL_EEXISTS, "the flag --%s is built in and cannot be defined",
                           row->name);
    if (!*row->name || row->name[0] == '-' || strpbrk(row->name, ".= \t\n"))
        return TL_FAIL(TL_EINVAL, "'%s' cannot be the name of a flag", row->name);
    bool possible = row->type == TL_TYPE_BOOL || row->type == TL_TYPE_INT
                    || row->type == TL_TYPE_DOUBLE || row->type == TL_TYPE_STRING
                    || row->type == TL_TYPE_ENUM
                    || (row->type == TL_TYPE_VALUE && row->arity == TL_ONE);
    if (possible) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the field '%s' cannot be a flag: only numbers, bools, strings, enums, lists of "
                   "these, and values can",
                   row->name);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether two definitions of one name promise the same thing to who gives the flag. */
static tl_status same_flag(bool *out, const tli_flag_target *a, const tli_flag_target *b)
{
    const tl_field *f = a->field, *g = b->field;
    *out = false;
    if (f->type != g->type || f->arity != g->arity || f->flags != g->flags || f->accept != g->accept
        || f->ranged != g->ranged || (f->ranged && (f->min != g->min || f->max != g->max))
        || !same_text(f->pattern, g->pattern) || !same_text(f->help, g->help))
        return TL_OK;
    tl_str first = TL_STR_INIT, second = TL_STR_INIT;
    tl_status st;
    tl_field_type_text(&first, f); // holds the names of an enum
    tl_field_type_text(&second, g);
    TL_TRY_DONE(st, tl_field_default_text(&first, a->desc, f));
    TL_TRY_DONE(st, tl_field_default_text(&second, b->desc, g));
    TL_TRY_DONE(st, tl_str_status(&first));
    TL_TRY_DONE(st, tl_str_status(&second));
    *out = strcmp(tl_str_text(&first), tl_str_text(&second)) == 0;
done:
    tl_str_deinit(&first);
    tl_str_deinit(&second);
    return st;
}

static tl_status add_flag(tl_flags *f, const tli_flag_target *target)
{
    const char *name = target->field->name;
    tli_flag *flag = tl_map_get(&f->flags, name);
    if (flag) {
        bool same;
        TL_TRY(same_flag(&same, &flag->target, target));
        if (!same)
            return TL_FAIL(TL_EEXISTS, "the flag --%s is defined twice: by '%s' and by '%s'", name,
                           flag->target.title, target->title);
        tli_flag_target *second = tl_arena_copy(f->arena, target, sizeof *target);
        if (!second) return TL_ENOMEM;
        second->next = flag->target.next;
        flag->target.next = second;
        return TL_OK;
    }
    if (tl_map_has(&f->aliases, name))
        return TL_FAIL(TL_EEXISTS, "the flag --%s of '%s' is another name of --%s already", name,
                       target->title, tli_flags_find(f, name)->name);
    flag = tl_arena_alloc(f->arena, sizeof *flag);
    if (!flag) return TL_ENOMEM;
    flag->name = name;
    flag->target = *target;
    return tl_map_set(&f->flags, name, flag);
}

tl_status tl_flags_define(tl_flags *f, const char *title, const tl_desc *desc, void *value)
{
    TL_ASSERT(!f->parsed && "flags are defined before they are parsed");
    TL_TRY_NOTE(tl_desc_verify(desc), "flags '%s'", title);
    TL_TRY(tl_desc_defaults(f->arena, desc, value));
    tli_flag_group group = {
        .title = tl_arena_strdup(f->arena, title), .desc = desc, .value = value};
    if (!group.title) return TL_ENOMEM;
    group.fields = tl_desc_sorted(f->arena, desc, &group.count);
    if (!group.fields) return TL_ENOMEM;
    for (int64_t i = 0; i < group.count; i++) {
        const tl_field *row = group.fields[i];
        TL_TRY_NOTE(check_row(row), "flags '%s'", title);
        TL_TRY(add_flag(f, &(tli_flag_target){
                               .title = group.title, .desc = desc, .field = row, .value = value}));
    }
    return TL_VEC_PUSH(&f->groups, group) ? TL_OK : TL_ENOMEM;
}

tl_status tl_flags_alias(tl_flags *f, const char *alias, const char *name)
{
    tli_flag *flag = tl_map_get(&f->flags, name);
    if (!flag) return TL_FAIL(TL_ENOTFOUND, "-%s cannot stand for --%s: no such flag", alias, name);
    if (tli_flags_find(f, alias))
        return TL_FAIL(TL_EEXISTS, "-%s cannot stand for --%s: it is a flag already", alias, name);
    const tl_field row = {.name = alias, .type = TL_TYPE_BOOL};
    TL_TRY(check_row(&row));
    flag->alias = tl_arena_strdup(f->arena, alias);
    return flag->alias ? tl_map_set(&f->aliases, alias, flag) : TL_ENOMEM;
}

tl_status tl_flags_absent(tl_flags *f, const char *name, const char *advice)
{
    char *copy = tl_arena_strdup(f->arena, advice);
    return copy ? tl_map_set(&f->absent, name, copy) : TL_ENOMEM;
}

/* --- help ------------------------------------------------------------------------------------- */

/* "--[no]verbose", "--port=N", "--host=TEXT ...", "-v, --verbosity=N" */
static void write_head(tl_str *out, const tli_flag *flag)
{
    static const char *const words[] = {
        [TL_TYPE_INT] = "N",     [TL_TYPE_DOUBLE] = "X",   [TL_TYPE_STRING] = "TEXT",
        [TL_TYPE_ENUM] = "NAME", [TL_TYPE_VALUE] = "YAML", [TL_TYPE_BOOL] = "BOOL",
    };
    const tl_field *row = flag->target.field;
    if (flag->alias) tl_str_addf(out, "-%s, ", flag->alias);
    if (tli_flag_is_switch(flag)) tl_str_addf(out, "--[no]%s", flag->name);
    else if (row->flags & TL_FIELD_BARE) tl_str_addf(out, "--%s[=N]", flag->name);
    else tl_str_addf(out, "--%s=%s", flag->name, words[row->type]);
    if (row->arity == TL_LIST) tl_str_add(out, " ...");
}

static void add_note(tl_str *out, const char *note)
{
    tl_str_addf(out, "%s%s", out->length ? "; " : "", note);
}

/* "required", "one of train, eval", "from 1 to 10", "default: 5", "may be repeated" */
static tl_status write_notes(tl_str *out, const tl_desc *desc, const tl_field *row)
{
    if (row->flags & TL_FIELD_REQUIRED) add_note(out, "required");
    if (row->type == TL_TYPE_ENUM) {
        add_note(out, "one of ");
        for (int i = 0; row->names[i]; i++) tl_str_addf(out, "%s%s", i ? ", " : "", row->names[i]);
    }
    if (row->ranged) {
        add_note(out, "");
        tl_help_range(out, row);
    }
    if (row->arity == TL_LIST) add_note(out, "may be repeated");
    tl_str text = TL_STR_INIT;
    tl_status st = tl_field_default_text(&text, desc, row);
    if (st == TL_OK) st = tl_str_status(&text);
    static const char *const silent[] = {"''", "\"\"", "null", "[]", "false", ""};
    bool shown = st == TL_OK;
    for (int i = 0; i < (int)TL_COUNT(silent); i++)
        if (strcmp(tl_str_text(&text), silent[i]) == 0) shown = false;
    if (shown) {
        add_note(out, "default: ");
        tl_str_add(out, tl_str_text(&text));
    }
    tl_str_deinit(&text);
    return st;
}

static tl_status write_flag(tl_str *out, const tli_flag *flag, int width)
{
    const tl_field *row = flag->target.field;
    tl_str head = TL_STR_INIT, text = TL_STR_INIT, notes = TL_STR_INIT;
    tl_status st;
    write_head(&head, flag);
    TL_TRY_DONE(st, write_notes(&notes, flag->target.desc, row));
    TL_TRY_DONE(st, tl_str_status(&notes));
    tl_str_add(&text, row->help);
    if (notes.length) tl_str_addf(&text, " (%s)", tl_str_text(&notes));
    TL_TRY_DONE(st, tl_str_status(&head));
    TL_TRY_DONE(st, tl_str_status(&text));
    tl_help_row(out, 2, tl_str_text(&head), 30, tl_str_text(&text), width);
    st = tl_str_status(out);
done:
    tl_str_deinit(&head);
    tl_str_deinit(&text);
    tl_str_deinit(&notes);
    return st;
}

tl_status tl_flags_help(tl_str *out, const tl_flags *f, int width)
{
    tl_str_addf(out, "Usage: %s ", f->program);
    tl_help_wrap(out, *f->usage ? f->usage : "[flags]", 0, width);
    for (int64_t i = 0; i < f->groups.count; i++) {
        const tli_flag_group *g = &f->groups.items[i];
        tl_str_addf(out, "\n%s:\n", g->title);
        for (int64_t k = 0; k < g->count; k++) {
            // A flag that two structs share is told once, where it came first.
            const tli_flag *flag = tli_flags_find(f, g->fields[k]->name);
            bool first = flag->target.field == g->fields[k] && flag->target.value == g->value;
            if (first) TL_TRY(write_flag(out, flag, width));
        }
    }
    tl_str_add(out, "\nCommon:\n");
    tl_help_row(out, 2, "-h, --help", 30, "show this text", width);
    tl_help_row(out, 2, "--flagfile=PATH", 30, "read flags from a file, one a line", width);
    tl_help_row(out, 2, "--undefok=NAMES", 30, "flags, with commas between, that may be unknown",
                width);
    return tl_str_status(out);
}
