/* The configuration written out, in gin's own layout. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "desc/gin/impl.h"

enum { LINE = 80, INDENT = 4 };

/* --- members as values ----------------------------------------------------------------------- */

static tl_status plain(const tl_value **out, tl_arena *arena, const char *text)
{
    *out = tl_value_new_scalar(arena, (tl_place){0}, text, false);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status word(const tl_value **out, tl_arena *arena, const char *text)
{
    if (!text) return plain(out, arena, "None");
    *out = tl_value_new_scalar(arena, (tl_place){0}, text, true);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status integer(const tl_value **out, tl_arena *arena, int64_t i)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)i);
    return plain(out, arena, text);
}

static tl_status floating(const tl_value **out, tl_arena *arena, double d)
{
    char text[32];
    tl_double_text(text, d);
    return plain(out, arena, text);
}

static tl_status from_struct(const tl_value **out, tl_gin *gin, tl_arena *arena,
                             const tl_desc *desc, const void *value)
{
    int64_t count = 0, written = 0;
    if (!desc || !value) return plain(out, arena, "None");
    const tl_field **fields = tl_desc_sorted(arena, desc, &count);
    tl_value_pair *pairs = tl_arena_array(arena, count, sizeof *pairs);
    if (!fields || !pairs) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        tl_value_pair *pair = &pairs[written];
        *pair = (tl_value_pair){.key = fields[i]->name, .key_quoted = true};
        TL_TRY(tli_gin_member(&pair->value, gin, arena, fields[i], value));
        written += pair->value != NULL;
    }
    *out = tl_value_new_map(arena, (tl_place){0}, pairs, written);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status from_list(const tl_value **out, tl_gin *gin, tl_arena *arena, const tl_field *f,
                           const tl_structs *list)
{
    if (tli_list_is_null(f, list)) return plain(out, arena, "None");
    tl_field element = tli_element_field(f);
    const tl_value **items = tl_arena_array(arena, list->count, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < list->count; i++) {
        const char *item = (const char *)list->items + (size_t)i * element.size;
        TL_TRY(tli_gin_member(&items[i], gin, arena, &element, item));
        if (!items[i]) return TL_OK; // *out stays NULL: a list with a hole is another list
    }
    *out = tl_value_new_list(arena, (tl_place){0}, items, list->count);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status from_oneof(const tl_value **out, tl_gin *gin, tl_arena *arena, const tl_oneof *o)
{
    if (!o->type) return plain(out, arena, "None");
    tl_value_pair pairs[2] = {{.key = "type", .key_quoted = true},
                              {.key = o->type, .key_quoted = true}};
    TL_TRY(word(&pairs[0].value, arena, o->type));
    bool branch = o->value && o->desc;
    if (branch) TL_TRY(from_struct(&pairs[1].value, gin, arena, o->desc, o->value));
    *out = tl_value_new_map(arena, (tl_place){0}, pairs, branch ? 2 : 1);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status from_ref(const tl_value **out, tl_gin *gin, tl_arena *arena, const tl_ref *ref)
{
    if (!ref->target) return plain(out, arena, "None");
    if (ref->object) return TL_OK; // an object has no text
    bool scoped = ref->scope && *ref->scope;
    char *text = tl_arena_printf(arena, "%s%s%s", scoped ? ref->scope : "", scoped ? "/" : "",
                                 tli_gin_minimal(gin, ref->target));
    tl_value *v = text ? tl_arena_alloc(arena, sizeof *v) : NULL;
    if (!v) return TL_FAIL_NOMEM(sizeof *v);
    *v = (tl_value){.kind = TL_VALUE_REFERENCE, .text = text, .weight = 1};
    *out = v;
    return TL_OK;
}

static tl_status from_optional(const tl_value **out, tl_gin *gin, tl_arena *arena,
                               const tl_field *f, const void *member)
{
    switch (f->type) {
    case TL_TYPE_BOOL: {
        const tl_opt_bool *o = member;
        return plain(out, arena, !o->set ? "None" : o->value ? "True" : "False");
    }
    case TL_TYPE_INT: {
        const tl_opt_int *o = member;
        return o->set ? integer(out, arena, o->value) : plain(out, arena, "None");
    }
    case TL_TYPE_DOUBLE: {
        const tl_opt_double *o = member;
        return o->set ? floating(out, arena, o->value) : plain(out, arena, "None");
    }
    default: return from_struct(out, gin, arena, f->desc, *(void *const *)member);
    }
}

tl_status tli_gin_member(const tl_value **out, tl_gin *gin, tl_arena *arena, const tl_field *f,
                         const void *args)
{
    const void *member = tl_field_at(f, args);
    *out = NULL;
    if (f->arity == TL_LIST) return from_list(out, gin, arena, f, member);
    if (f->arity == TL_OPTIONAL) return from_optional(out, gin, arena, f, member);
    switch (f->type) {
    case TL_TYPE_BOOL: return plain(out, arena, *(const bool *)member ? "True" : "False");
    case TL_TYPE_INT: return integer(out, arena, *(const int64_t *)member);
    case TL_TYPE_DOUBLE: return floating(out, arena, *(const double *)member);
    case TL_TYPE_STRING: return word(out, arena, *(const char *const *)member);
    case TL_TYPE_ENUM: {
        const char *name = f->names[*(const int *)member];
        return word(out, arena, strcmp(name, "null") == 0 ? NULL : name);
    }
    case TL_TYPE_STRUCT: return from_struct(out, gin, arena, f->desc, member);
    case TL_TYPE_OBJECT: {
        const tl_object *o = member;
        return from_struct(out, gin, arena, o->desc, o->value);
    }
    case TL_TYPE_ONEOF: return from_oneof(out, gin, arena, member);
    case TL_TYPE_VALUE: {
        const tl_value *v = *(const tl_value *const *)member;
        if (!v) return plain(out, arena, "None");
        *out = tl_value_copy(arena, v);
        return *out ? TL_OK : TL_ENOMEM;
    }
    case TL_TYPE_REF: return from_ref(out, gin, arena, member);
    case TL_TYPE_NONE: break;
    }
    return TL_OK;
}

/* --- the order of sections ------------------------------------------------------------------- */

/* Compares the parts of two names, last part first, ignoring case. 0 when one runs out with the
 * other; the one that runs out first comes first. */
static int compare_backwards(const char *a, const char *b, char separator)
{
    const char *p = a + strlen(a), *q = b + strlen(b);
    for (;;) {
        const char *start = p, *other = q;
        while (start > a && start[-1] != separator) start--;
        while (other > b && other[-1] != separator) other--;
        size_t n = (size_t)(p - start), m = (size_t)(q - other);
        for (size_t i = 0; i < n && i < m; i++) {
            int c = tolower((unsigned char)start[i]), d = tolower((unsigned char)other[i]);
            if (c != d) return c < d ? -1 : 1;
        }
        if (n != m) return n < m ? -1 : 1;
        if (start == a || other == b) return (start > a) - (other > b);
        p = start - 1;
        q = other - 1;
    }
}

/* One list of parts: those of the selector and then those of the scope. */
typedef struct sortable {
    const tli_gin_section *section;
    int64_t index;
    const char *key; /* scope parts, then selector parts, joined so that backwards is gin's order */
} sortable;

static int compare_sections(const void *x, const void *y)
{
    const sortable *a = x, *b = y;
    int order = compare_backwards(a->key, b->key, '/');
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

/* "scope/a/b/c" for the selector a.b.c: read backwards, its parts are what gin sorts by. */
static char *sort_key(tl_arena *arena, const tl_gin *gin, const tli_gin_section *s)
{
    char *key = tl_arena_printf(arena, "%s/%s", s->scope, tli_gin_selector(gin, s->cls));
    for (char *p = key ? key + strlen(s->scope) : NULL; p && *p; p++)
        if (*p == '.') *p = '/';
    return key;
}

static tl_status sort_sections(sortable **out, tl_arena *arena, const tl_gin *gin,
                               const tl_map *sections)
{
    int64_t count = tl_map_count(sections);
    sortable *list = tl_arena_array(arena, count, sizeof *list);
    if (!list) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        const tli_gin_section *s = tl_map_at(sections, i);
        list[i] = (sortable){s, i, sort_key(arena, gin, s)};
        if (!list[i].key) return TL_FAIL_NOMEM(count);
    }
    qsort(list, (size_t)count, sizeof *list, compare_sections);
    *out = list;
    return TL_OK;
}

/* --- imports --------------------------------------------------------------------------------- */

/* The name that an import gives to its module. */
static const char *bound_name(tl_arena *arena, const tli_gin_import *import)
{
    if (import->alias) return import->alias;
    const char *dot = strrchr(import->module, '.');
    if (import->is_from) return dot + 1;
    return tl_arena_strndup(arena, import->module, strcspn(import->module, "."));
}

static int compare_imports(const void *x, const void *y)
{
    const tli_gin_import *a = x, *b = y;
    int order = strcmp(a->module, b->module);
    return order ? order : b->is_from - a->is_from;
}

/* A name that is taken gets a number, as gin gives it: a, a2, a3. */
static tl_status uniquify(tli_gin_import *import, tl_arena *arena, tl_map *names)
{
    const char *name = bound_name(arena, import), *unique = name;
    for (int i = 2; unique && tl_map_has(names, unique); i++)
        unique = tl_arena_printf(arena, "%s%d", name, i);
    if (!unique) return TL_FAIL_NOMEM(strlen(import->module));
    if (unique != name) import->alias = unique;
    return tl_map_set(names, unique, NULL);
}

static void write_import(tl_str *out, const tli_gin_import *import)
{
    const char *dot = strrchr(import->module, '.');
    if (import->is_from)
        tl_str_addf(out, "from %.*s import %s", (int)(dot - import->module), import->module,
                    dot + 1);
    else tl_str_addf(out, "import %s", import->module);
    if (import->alias) tl_str_addf(out, " as %s", import->alias);
    tl_str_addc(out, '\n');
}

static tl_status write_imports(tl_str *out, tl_arena *arena, const tl_gin *gin)
{
    tl_map names = TL_MAP_INIT;
    tl_status st = TL_OK;
    int64_t count = gin->imports.count;
    tli_gin_import *imports =
        tl_arena_copy(arena, gin->imports.items, (size_t)count * sizeof *imports);
    if (!imports) return TL_ENOMEM;
    if (count) qsort(imports, (size_t)count, sizeof *imports, compare_imports);
    for (int64_t i = 0; i < count; i++) {
        if (i && strcmp(imports[i].module, imports[i - 1].module) == 0) continue;
        TL_TRY_DONE(st, uniquify(&imports[i], arena, &names));
        write_import(out, &imports[i]);
    }
    if (count) tl_str_addc(out, '\n');
done:
    tl_map_deinit(&names);
    return st;
}

/* --- the whole ------------------------------------------------------------------------------- */

static tl_status write_binding(tl_str *out, tl_gin *gin, const char *key, const tli_gin_binding *b)
{
    if (gin->show_sources) {
        tl_str_add(out, "# Set in ");
        if (b->place.source) tl_place_write(out, b->place);
        else tl_str_add(out, "the defaults");
        tl_str_add(out, ":\n");
    }
    tl_str text = TL_STR_INIT;
    tl_status st;
    TL_TRY_DONE(st, tli_gin_pretty(&text, gin, b->value, b->home, LINE - INDENT));
    const char *line = tl_str_text(&text);
    // gin does not count the " = " between them.
    if (!strchr(line, '\n') && tli_gin_width(key) + tli_gin_width(line) <= LINE) {
        tl_str_addf(out, "%s = %s\n", key, line);
        goto done;
    }
    tl_str_addf(out, "%s = \\\n", key);
    while (*line) {
        size_t length = strcspn(line, "\n");
        tl_str_pad(out, ' ', INDENT);
        tl_str_addn(out, line, length);
        tl_str_addc(out, '\n');
        line += length + (line[length] == '\n');
    }
done:
    tl_str_deinit(&text);
    return st;
}

static void write_rule(tl_str *out)
{
    tl_str_add(out, "# ");
    tl_str_pad(out, '=', LINE - 2);
    tl_str_addc(out, '\n');
}

static tl_status write_macros(tl_str *out, tl_gin *gin, const sortable *list, int64_t count)
{
    int64_t written = 0;
    for (int64_t i = 0; i < count; i++) {
        const tli_gin_section *s = list[i].section;
        const tli_gin_binding *b =
            s->cls == &tli_gin_macro.cls ? tl_map_get(&s->params, "value") : NULL;
        // infinite ones too, unlike parameters: what uses them would not be read back
        if (!b) continue;
        if (written++ == 0) {
            tl_str_add(out, "# Macros:\n");
            write_rule(out);
        }
        TL_TRY(write_binding(out, gin, s->scope, b));
    }
    if (written) tl_str_addc(out, '\n');
    return TL_OK;
}

static int by_param(const void *x, const void *y)
{
    const tli_gin_binding *const *a = x, *const *b = y;
    return strcmp((*a)->param, (*b)->param);
}

static tl_status write_section(tl_str *out, tl_gin *gin, tl_arena *arena, const tli_gin_section *s)
{
    const char *name = tli_gin_minimal(gin, s->cls);
    const char *separator = *s->scope ? "/" : "";
    int64_t count = 0;
    const tli_gin_binding **list = tl_arena_array(arena, tl_map_count(&s->params), sizeof *list);
    if (!list) return TL_ENOMEM;
    for (int64_t i = 0; i < tl_map_count(&s->params); i++) {
        const tli_gin_binding *b = tl_map_at(&s->params, i);
        if (tli_gin_is_literal(b->value)) list[count++] = b;
    }
    if (count) qsort(list, (size_t)count, sizeof *list, by_param);
    tl_str_addf(out, "# Parameters for %s%s%s:\n", s->scope, separator, name);
    write_rule(out);
    for (int64_t i = 0; i < count; i++) {
        char *key = tl_arena_printf(arena, "%s%s%s.%s", s->scope, separator, name, list[i]->param);
        if (!key) return TL_FAIL_NOMEM(strlen(name));
        TL_TRY(write_binding(out, gin, key, list[i]));
    }
    tl_str_add(out, count ? "\n" : "# None.\n\n");
    return TL_OK;
}

static tl_status write_config(tl_str *out, tl_gin *gin, const tl_map *sections)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    sortable *list = NULL;
    tl_status st;
    int64_t count = tl_map_count(sections);
    size_t start = out->length;
    TL_TRY_DONE(st, sort_sections(&list, arena, gin, sections));
    TL_TRY_DONE(st, write_imports(out, arena, gin));
    TL_TRY_DONE(st, write_macros(out, gin, list, count));
    for (int64_t i = 0; i < count; i++)
        if (list[i].section->cls != &tli_gin_macro.cls)
            TL_TRY_DONE(st, write_section(out, gin, arena, list[i].section));
    // The parts are joined by newlines and the last part is empty: one newline less than written.
    if (out->length > start) tl_str_cut(out, out->length - 1);
    st = tl_str_status(out);
done:
    tl_arena_free(&arena);
    return st;
}

tl_status tl_gin_operative(tl_str *out, tl_gin *gin)
{
    return write_config(out, gin, &gin->operative);
}

tl_status tl_gin_config_str(tl_str *out, tl_gin *gin)
{
    TL_TRY(tli_gin_settle(gin));
    return write_config(out, gin, &gin->config);
}
