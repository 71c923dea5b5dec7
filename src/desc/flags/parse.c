#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <tilth/base/file.h>
#include <tilth/base/vec.h>
#include <tilth/desc/yaml.h>

#include "desc/config/apply.h"
#include "desc/flags/impl.h"

/* Where arguments come from: the command line, or a flag file that it names. They form a stack. */
typedef struct frame {
    const char *file; /* NULL: the command line */
    const char *const *items;
    const int *lines; /* of the file, by item */
    int64_t count, next;
    struct frame *up;
    int depth;
} frame;

typedef struct unknown {
    const char *name;
    tl_place place;
} unknown;

typedef struct parser {
    tl_flags *flags;
    tl_arena *arena;
    frame *top;
    const frame *at; /* where the current argument came from */
    int line;
    int64_t files;
    bool ended; /* "--" was seen */
    tli_apply apply;
    tli_diags diags;
    tl_map undefok;
    struct {
        unknown *items;
        int64_t count, capacity;
    } unknown;
    struct {
        const char **items;
        int64_t count, capacity;
    } positional;
    const char **known; /* names to suggest, made when the first is needed */
    int64_t known_count;
} parser;

/* --- messages --------------------------------------------------------------------------------- */

/* The text made fit for a message: not too long, and without bytes that a terminal would obey. NULL
 * when there is no memory. */
static const char *shown(parser *p, const char *text)
{
    enum { LONGEST = 80 };
    tl_str s = TL_STR_INIT;
    size_t length = strlen(text);
    for (size_t i = 0; i < length && i < LONGEST; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f) tl_str_addf(&s, "\\x%02x", c);
        else tl_str_addc(&s, (char)c);
    }
    if (length > LONGEST) tl_str_add(&s, "...");
    const char *copy = tl_str_copy(&s, p->arena);
    tl_str_deinit(&s);
    return copy;
}

/* "--port", or "server.flags:3: --port" for one from a file. */
static tl_status place_of(tl_place *out, parser *p, const char *name)
{
    const char *visible = shown(p, name);
    if (!visible) return TL_ENOMEM;
    const char *source =
        !p->at->file ? tl_arena_printf(p->arena, "--%s", visible)
                     : tl_arena_printf(p->arena, "%s:%d: --%s", p->at->file, p->line, visible);
    *out = (tl_place){.source = source};
    return source ? TL_OK : TL_ENOMEM;
}

/* --- arguments -------------------------------------------------------------------------------- */

static const char *next_argument(parser *p)
{
    while (p->top && p->top->next == p->top->count) p->top = p->top->up;
    if (!p->top) return NULL;
    p->at = p->top;
    p->line = p->at->lines ? p->at->lines[p->at->next] : 0;
    return p->top->items[p->top->next++];
}

/* The argument behind the current one, when the same file or command line has one. */
static const char *following(parser *p)
{
    return p->top->next < p->top->count ? p->top->items[p->top->next++] : NULL;
}

/* "a.flags > b.flags > a.flags" */
static void write_chain(tl_str *out, const frame *f)
{
    if (!f || !f->file) return;
    write_chain(out, f->up);
    tl_str_addf(out, "%s > ", f->file);
}

static tl_status check_nesting(parser *p, const char *path)
{
    bool cycle = false;
    for (const frame *f = p->top; f; f = f->up) cycle |= f->file && strcmp(f->file, path) == 0;
    if (cycle || p->top->depth >= TL_FLAGFILE_MAX_DEPTH) {
        tl_str chain = TL_STR_INIT;
        write_chain(&chain, p->top);
        tl_status st = cycle ? TL_FAIL(TL_EINVAL, "flag files name each other in a circle: %s%s",
                                       tl_str_text(&chain), path)
                             : TL_FAIL(TL_ELIMIT, "more than %d flag files inside each other: %s%s",
                                       TL_FLAGFILE_MAX_DEPTH, tl_str_text(&chain), path);
        tl_str_deinit(&chain);
        return st;
    }
    if (++p->files > TL_FLAGFILE_MAX_FILES)
        return TL_FAIL(TL_ELIMIT, "flag files are named more than %d times", TL_FLAGFILE_MAX_FILES);
    return TL_OK;
}

/* Cuts the text into lines without blanks at their ends, comments and empty ones left out. */
static tl_status split_lines(parser *p, frame *f, char *text)
{
    int64_t room = 1;
    for (const char *c = text; *c; c++) room += *c == '\n';
    const char **items = tl_arena_array(p->arena, room, sizeof *items);
    int *lines = tl_arena_array(p->arena, room, sizeof *lines);
    if (!items || !lines) return TL_ENOMEM;
    int number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        number++;
        while (*line && strchr(" \t\r", *line)) line++;
        size_t length = strlen(line);
        while (length && strchr(" \t\r", line[length - 1])) length--;
        line[length] = '\0';
        if (!length || line[0] == '#' || strncmp(line, "//", 2) == 0) continue;
        lines[f->count] = number;
        items[f->count++] = line;
    }
    f->items = items;
    f->lines = lines;
    return TL_OK;
}

static tl_status push_file(parser *p, const char *path)
{
    if (!*path) return TL_OK; // as absl has it, so that a script may leave it empty
    TL_TRY(tli_home_expand(&path, p->arena, path, false));
    TL_TRY(check_nesting(p, path));
    char *text;
    size_t size;
    TL_TRY(tl_file_read(&text, &size, path, TL_FLAGFILE_MAX_BYTES));
    bool has_nul = strlen(text) != size;
    char *kept = tl_arena_strndup(p->arena, text, size);
    tl_free(text);
    if (!kept) return TL_ENOMEM;
    if (has_nul) return TL_FAIL(TL_EINVAL, "%s is not a text file", path);
    frame *f = tl_arena_alloc(p->arena, sizeof *f);
    if (!f) return TL_ENOMEM;
    *f = (frame){.file = tl_arena_strdup(p->arena, path), .up = p->top, .depth = p->top->depth + 1};
    if (!f->file) return TL_ENOMEM;
    TL_TRY(split_lines(p, f, kept));
    p->top = f;
    return TL_OK;
}

/* --- values ----------------------------------------------------------------------------------- */

/* absl's words, beside those of YAML. */
static bool read_bool(const char *text, bool *out)
{
    static const char *const yes[] = {"true", "t", "yes", "y", "1", "on"};
    static const char *const no[] = {"false", "f", "no", "n", "0", "off"};
    for (int i = 0; i < (int)TL_COUNT(yes); i++) {
        *out = strcasecmp(text, yes[i]) == 0;
        if (*out || strcasecmp(text, no[i]) == 0) return true;
    }
    return false;
}

/* A leading zero means nothing on a command line, unlike in YAML: 010 is ten. */
static const char *without_zeros(tl_arena *arena, const char *text)
{
    size_t sign = *text == '-' || *text == '+';
    const char *digits = text + sign;
    if (*digits != '0' || !digits[1] || strspn(digits, "0123456789") != strlen(digits)) return text;
    while (*digits == '0' && digits[1]) digits++;
    return tl_arena_printf(arena, "%.*s%s", (int)sign, text, digits);
}

/* The text as a value for this row; *out is NULL when it was wrong and has been reported. */
static tl_status read_value(const tl_value **out, parser *p, const tl_field *row, tl_place place,
                            const char *text)
{
    bool quoted = row->type == TL_TYPE_STRING, truth;
    *out = NULL;
    if (row->type == TL_TYPE_BOOL && read_bool(text, &truth)) text = truth ? "true" : "false";
    bool number = row->type == TL_TYPE_INT || row->type == TL_TYPE_DOUBLE;
    if (number && !(text = without_zeros(p->arena, text))) return TL_ENOMEM;
    if (row->type == TL_TYPE_VALUE && *text) {
        tl_status st = tl_yaml_parse(out, p->arena, text, strlen(text), place.source);
        if (st == TL_ENOMEM) return st;
        if (st != TL_OK) tli_diag(&p->diags, st, (tl_place){0}, "", "%s", tl_error_message());
        if (st != TL_OK || *out) return TL_OK;
    }
    *out = tl_value_new_scalar(p->arena, place, text, quoted);
    return *out ? TL_OK : TL_ENOMEM;
}

/* Sets the member of every struct that defines the flag; what is wrong is reported once. */
static void set_members(parser *p, const tli_flag *flag, const tl_value *v)
{
    int64_t before = p->diags.count;
    for (const tli_flag_target *t = &flag->target; t && p->diags.count == before; t = t->next)
        tli_apply_field(&p->apply, t->field, t->value, v);
}

static tl_status give(parser *p, tli_flag *flag, const char *text)
{
    tl_place place;
    TL_TRY(place_of(&place, p, flag->name));
    const tl_value *v;
    TL_TRY(read_value(&v, p, flag->target.field, place, text));
    flag->given = true;
    if (!v) return TL_OK;
    if (flag->target.field->arity == TL_LIST)
        return TL_VEC_PUSH(&flag->items, v) ? TL_OK : TL_ENOMEM;
    set_members(p, flag, v);
    return TL_OK;
}

/* --- flags ------------------------------------------------------------------------------------ */

static tl_status add_word(parser *p, const char *text, const char *flag)
{
    tl_flag_word word = {.text = text, .flag = flag};
    return TL_VEC_PUSH(&p->flags->words, word) ? TL_OK : TL_ENOMEM;
}

static tl_status add_positional(parser *p, const char *text)
{
    const char *copy = tl_arena_strdup(p->arena, text);
    if (!copy || !TL_VEC_PUSH(&p->positional, copy)) return TL_ENOMEM;
    return add_word(p, copy, NULL);
}

static tl_status lacks_value(parser *p, const char *name)
{
    tl_place place;
    TL_TRY(place_of(&place, p, name));
    const char *visible = shown(p, name);
    if (!visible) return TL_ENOMEM;
    if (strncmp(name, "no", 2) == 0 && strchr(name, '.'))
        tli_diag(&p->diags, TL_EINVAL, place, "", "a value is missing: write --%s=false",
                 visible + 2);
    else tli_diag(&p->diags, TL_EINVAL, place, "", "a value is missing: write --%s=VALUE", visible);
    return TL_OK;
}

/* `--trainer.train_steps=5` becomes the override `trainer.train_steps=5`. */
static tl_status parse_dotted(parser *p, const char *name, const char *value)
{
    if (!value) {
        // No setting starts with two dashes; a flag that has lost its value is more likely.
        const frame *f = p->top;
        bool flag_next = f->next < f->count && strncmp(f->items[f->next], "--", 2) == 0;
        value = flag_next ? NULL : following(p);
    }
    if (!value) return lacks_value(p, name);
    const char *word = tl_arena_printf(p->arena, "%s=%s", name, value);
    tl_place place;
    TL_TRY(place_of(&place, p, name));
    return word ? add_word(p, word, place.source) : TL_ENOMEM;
}

/* Remembers names that may be unknown, and their "no" forms. */
static tl_status parse_undefok(parser *p, const char *names)
{
    while (*names) {
        size_t length = strcspn(names, ",");
        const char *name = tl_arena_strndup(p->arena, names, length);
        const char *negated = name ? tl_arena_printf(p->arena, "no%s", name) : NULL;
        if (!negated) return TL_ENOMEM;
        TL_TRY(tl_map_set(&p->undefok, name, NULL));
        TL_TRY(tl_map_set(&p->undefok, negated, NULL));
        names += length + (names[length] == ',');
    }
    return TL_OK;
}

static tl_status add_unknown(parser *p, const char *name)
{
    unknown u = {.name = name};
    TL_TRY(place_of(&u.place, p, name));
    return TL_VEC_PUSH(&p->unknown, u) ? TL_OK : TL_ENOMEM;
}

/* Flags that the parser itself understands. *done says whether this was one. */
static tl_status parse_reserved(bool *done, parser *p, const char *name, const char *value)
{
    bool wanted = true;
    *done = true;
    if (strcmp(name, "helpfull") == 0) {
        if (!value || (read_bool(value, &wanted) && wanted)) p->flags->help = TL_HELP_FULL;
        return TL_OK;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "h") == 0 || strcmp(name, "?") == 0
        || strcmp(name, "helpshort") == 0) {
        bool asked = !value || (read_bool(value, &wanted) && wanted);
        if (asked && p->flags->help == TL_HELP_NONE) p->flags->help = TL_HELP_SHORT;
        return TL_OK;
    }
    bool file = strcmp(name, "flagfile") == 0;
    if (!file && strcmp(name, "undefok") != 0) {
        *done = false;
        return TL_OK;
    }
    if (!value && !(value = following(p))) return lacks_value(p, name);
    if (!file) return parse_undefok(p, value);
    tl_place place;
    TL_TRY(place_of(&place, p, name));
    tl_status st = push_file(p, value);
    if (st == TL_OK || st == TL_ENOMEM) return st;
    tli_diag(&p->diags, st, place, "", "%s", tl_error_message());
    return TL_OK;
}

static tl_status parse_flag(parser *p, const char *text)
{
    const char *start = text + (text[1] == '-' ? 2 : 1);
    const char *equals = strchr(start, '=');
    const char *value = equals ? equals + 1 : NULL;
    const char *name =
        tl_arena_strndup(p->arena, start, equals ? (size_t)(equals - start) : strlen(start));
    if (!name) return TL_ENOMEM;

    bool done;
    TL_TRY(parse_reserved(&done, p, name, value));
    if (done) return TL_OK;
    tli_flag *flag = tli_flags_find(p->flags, name);
    if (flag) {
        bool bare = flag->target.field->flags & TL_FIELD_BARE;
        if (!value) value = tli_flag_is_switch(flag) ? "true" : bare ? "0" : following(p);
        return value ? give(p, flag, value) : lacks_value(p, name);
    }
    flag = strncmp(name, "no", 2) == 0 ? tli_flags_find(p->flags, name + 2) : NULL;
    if (flag && tli_flag_is_switch(flag)) {
        if (!value) return give(p, flag, "false");
        tl_place place;
        TL_TRY(place_of(&place, p, name));
        tli_diag(&p->diags, TL_EINVAL, place, "", "takes no value: write --%s or --%s=VALUE", name,
                 flag->name);
        return TL_OK;
    }
    if (strchr(name, '.')) return parse_dotted(p, name, value);
    return add_unknown(p, name);
}

static tl_status parse_arguments(parser *p)
{
    for (const char *text; (text = next_argument(p));) {
        if (p->ended || text[0] != '-' || !text[1]) TL_TRY(add_positional(p, text));
        else if (strcmp(text, "--") == 0) p->ended = true;
        else TL_TRY(parse_flag(p, text));
    }
    return TL_OK;
}

/* --- when all arguments are read -------------------------------------------------------------- */

static tl_status collect_known(parser *p)
{
    const tl_map *flags = &p->flags->flags;
    int64_t total = tl_map_count(flags);
    p->known = tl_arena_array(p->arena, total * 2 + 3, sizeof *p->known);
    if (!p->known) return TL_ENOMEM;
    for (int64_t i = 0; i < total; i++) {
        const char *name = p->known[p->known_count++] = tl_map_key(flags, i);
        if (!tli_flag_is_switch(tl_map_at(flags, i))) continue;
        const char *negated = tl_arena_printf(p->arena, "no%s", name);
        if (!negated) return TL_ENOMEM;
        p->known[p->known_count++] = negated;
    }
    p->known[p->known_count++] = "help";
    p->known[p->known_count++] = "helpfull";
    p->known[p->known_count++] = "flagfile";
    return TL_OK;
}

/* The known flag that was probably meant, also when only its beginning was written; or NULL. */
static const char *nearest_flag(const parser *p, const char *name)
{
    const char *nearest = tl_nearest(name, p->known, p->known_count);
    size_t length = strlen(name);
    for (int64_t i = 0; !nearest && length >= 3 && i < p->known_count; i++)
        if (strncmp(p->known[i], name, length) == 0) nearest = p->known[i];
    return nearest;
}

static const char *advice_of(const tl_flags *f, const char *name)
{
    const char *advice = tl_map_get(&f->absent, name);
    return advice || strncmp(name, "no", 2) != 0 ? advice : tl_map_get(&f->absent, name + 2);
}

static tl_status report_unknown(parser *p)
{
    if (p->unknown.count) TL_TRY(collect_known(p));
    for (int64_t i = 0; i < p->unknown.count; i++) {
        const unknown *u = &p->unknown.items[i];
        if (tl_map_has(&p->undefok, u->name)) continue;
        size_t name = strcspn(u->name, " \t");
        if (u->name[name]) {
            tli_diag(&p->diags, TL_EINVAL, u->place, "",
                     "a flag and its value on one line are written --flag=value");
            continue;
        }
        const char *advice = advice_of(p->flags, u->name);
        if (advice) {
            tli_diag(&p->diags, TL_EUNSUPPORTED, u->place, "", "%s", advice);
            continue;
        }
        const char *nearest = nearest_flag(p, u->name);
        tli_diag(&p->diags, TL_ENOTFOUND, u->place, "", "unknown flag%s%s%s",
                 nearest ? ", did you mean --" : "", nearest ? nearest : "", nearest ? "?" : "");
        tli_flag *flag = nearest ? tli_flags_find(p->flags, nearest) : NULL;
        if (flag) flag->suggested = true;
    }
    return TL_OK;
}

static tl_status set_lists(parser *p)
{
    const tl_map *flags = &p->flags->flags;
    for (int64_t i = 0; i < tl_map_count(flags); i++) {
        const tli_flag *flag = tl_map_at(flags, i);
        if (!flag->items.count) continue;
        const tl_value *list = tl_value_new_list(p->arena, flag->items.items[0]->place,
                                                 flag->items.items, flag->items.count);
        if (!list) return TL_ENOMEM;
        set_members(p, flag, list);
    }
    return TL_OK;
}

/* A required flag that is missing because it was misspelt has been told already. */
static void report_missing(parser *p)
{
    const tl_map *flags = &p->flags->flags;
    for (int64_t i = 0; i < tl_map_count(flags); i++) {
        const tli_flag *flag = tl_map_at(flags, i);
        const tl_field *row = flag->target.field;
        if (!(row->flags & TL_FIELD_REQUIRED) || flag->given || flag->suggested) continue;
        tli_diag(&p->diags, TL_EINVAL, (tl_place){0}, "", "the flag --%s is required (%s)",
                 flag->name, row->help);
    }
}

/* What concerns several flags of a struct at once, when each of them is fine. */
static void check_structs(parser *p)
{
    if (p->diags.count) return;
    for (int64_t i = 0; i < p->flags->groups.count; i++) {
        const tli_flag_group *g = &p->flags->groups.items[i];
        tl_status st = tl_desc_check(g->desc, g->value);
        if (st != TL_OK) tli_diag(&p->diags, st, (tl_place){0}, "", "%s", tl_error_message());
    }
}

static tl_status finish(tl_strings *positional, parser *p)
{
    TL_TRY(report_unknown(p));
    TL_TRY(set_lists(p));
    TL_TRY(tl_str_status(&p->apply.path));
    report_missing(p);
    check_structs(p);
    if (p->flags->help == TL_HELP_NONE || p->diags.code == TL_ENOMEM)
        TL_TRY(tli_diags_status(&p->diags));
    const char **items =
        tl_arena_copy(p->arena, p->positional.items, (size_t)p->positional.count * sizeof *items);
    *positional = (tl_strings){items, p->positional.count};
    return items ? TL_OK : TL_ENOMEM;
}

tl_status tl_flags_parse(tl_strings *positional, tl_flags *f, int argc, char *const *argv)
{
    *positional = (tl_strings){0};
    if (f->parsed) return TL_FAIL(TL_ESTATE, "flags are parsed once");
    f->parsed = true;
    frame command_line = {.items = (const char *const *)argv, .count = argc, .next = argc > 0};
    parser p = {.flags = f, .arena = f->arena, .top = &command_line, .at = &command_line};
    p.apply = (tli_apply){.arena = f->arena, .strict = true, .diags = &p.diags};
    tl_status st = parse_arguments(&p);
    if (st == TL_OK) st = finish(positional, &p);
    TL_VEC_FREE(&p.unknown);
    TL_VEC_FREE(&p.positional);
    tl_map_deinit(&p.undefok);
    tl_str_deinit(&p.apply.path);
    tli_diags_deinit(&p.diags);
    return st;
}
