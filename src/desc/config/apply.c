#include "desc/config/apply.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/log.h>
#include <tilth/desc/config.h>

/* What is wrong with `v`, at the current path. */
#define WRONG(a, v, ...)                                                                           \
    tli_diag((a)->diags, TL_EINVAL, (v)->place, tl_str_text(&(a)->path), __VA_ARGS__)

static void no_memory(tli_apply *a)
{
    // The first message decides the code; memory must win, or the input would be blamed.
    a->diags->code = TL_ENOMEM;
    a->diags->count++;
}

static bool is_quoted_number(const tl_value *v)
{
    double number;
    bool flag;
    tl_value plain = *v;
    plain.quoted = false;
    return v->quoted && (tl_value_double(&plain, &number) || tl_value_bool(&plain, &flag));
}

/* "expected an integer, found the string \"x\"" */
static void wrong_type(tli_apply *a, const tl_value *v, const char *expected)
{
    tl_str found = TL_STR_INIT;
    tl_value_name(&found, v);
    if (found.failed) no_memory(a);
    WRONG(a, v, "expected %s, found %s%s", expected, tl_str_text(&found),
          is_quoted_number(v) && !strstr(expected, "string") ? " (write it without quotes)" : "");
    tl_str_deinit(&found);
}

/* The same, when what is expected had to be put together. */
static void wrong_type_str(tli_apply *a, const tl_value *v, tl_str *expected)
{
    if (expected->failed) no_memory(a);
    wrong_type(a, v, tl_str_text(expected));
    tl_str_deinit(expected);
}

void tli_remember(tli_apply *a, tl_place place)
{
    if (!a->sources) return;
    tli_source *kept = tl_arena_alloc(a->arena, sizeof *kept);
    const char *path = tl_str_text(&a->path);
    if (kept) *kept = (tli_source){place, a->sources->next++, a->sources->round};
    if (kept && place.source) kept->place.source = tl_arena_strdup(a->arena, place.source);
    if (!kept || (place.source && !kept->place.source) || tl_str_status(&a->path) != TL_OK
        || tl_map_set(&a->sources->map, path, kept) != TL_OK)
        no_memory(a);
}

/* --- scalars ---------------------------------------------------------------------------------- */

static bool in_range(tli_apply *a, const tl_field *f, const tl_value *v, double number)
{
    if (!f->ranged || (number >= f->min && number <= f->max)) return true;
    char low[32], high[32];
    tl_double_text(low, f->min);
    tl_double_text(high, f->max);
    if (f->type == TL_TYPE_INT) {
        snprintf(low, sizeof low, "%.0f", f->min);
        snprintf(high, sizeof high, "%.0f", f->max);
    }
    if (isinf(f->max)) WRONG(a, v, "must be at least %s, found %s", low, v->text);
    else if (isinf(f->min)) WRONG(a, v, "must be at most %s, found %s", high, v->text);
    else WRONG(a, v, "must be between %s and %s, found %s", low, high, v->text);
    return false;
}

/* A pattern that is nothing but a choice of words, ^(one|two)$, is told as one. */
static void refuse_pattern(tli_apply *a, const tl_field *f, const tl_value *v)
{
    const char *from = f->pattern + 2;
    const size_t length = strlen(f->pattern), words = length > 4 ? length - 4 : 0;
    tl_str list = TL_STR_INIT;
    if (!words || strncmp(f->pattern, "^(", 2) != 0 || strcmp(from + words, ")$") != 0
        || strcspn(from, "()[]{}.*+?^\\") != words) {
        WRONG(a, v, "'%s' does not match the pattern %s", v->text, f->pattern);
        return;
    }
    for (const char *p = from, *last = strrchr(from, '|'); p < from + words; p++) {
        if (*p == '|') tl_str_add(&list, p == last ? " or " : ", ");
        else tl_str_addc(&list, *p);
    }
    if (tl_str_status(&list) != TL_OK) no_memory(a);
    else WRONG(a, v, "expected %s, found '%s'", tl_str_text(&list), v->text);
    tl_str_deinit(&list);
}

static bool matches(tli_apply *a, const tl_field *f, const tl_value *v)
{
    if (!f->pattern) return true;
    regex_t expression;
    if (regcomp(&expression, f->pattern, REG_EXTENDED | REG_NOSUB) != 0) {
        no_memory(a); // verified at registration, so only memory can lack
        return false;
    }
    int result = regexec(&expression, v->text, 0, NULL, 0);
    bool found = result == 0;
    regfree(&expression);
    if (result == REG_ESPACE) no_memory(a);
    if (!found) refuse_pattern(a, f, v);
    return found;
}

static bool apply_bool(tli_apply *a, const tl_value *v, bool *out)
{
    if (tl_value_bool(v, out)) return true;
    wrong_type(a, v, "true or false");
    return false;
}

static bool apply_int(tli_apply *a, const tl_field *f, const tl_value *v, int64_t *out)
{
    int64_t number;
    if (!tl_value_int(v, &number)) {
        double large;
        bool too_large = tl_value_double(v, &large) && large == floor(large) && isfinite(large);
        wrong_type(a, v,
                   too_large ? "an integer that fits 64 bits, written with all its digits"
                             : "an integer");
        return false;
    }
    if (!in_range(a, f, v, (double)number)) return false;
    *out = number;
    return true;
}

static bool apply_double(tli_apply *a, const tl_field *f, const tl_value *v, double *out)
{
    double number;
    if (!tl_value_double(v, &number)) {
        wrong_type(a, v, "a number");
        return false;
    }
    if (!in_range(a, f, v, number)) return false;
    *out = number;
    return true;
}

static bool home_found(tli_apply *a, const tl_value *v, tl_status st)
{
    if (st == TL_ENOMEM) no_memory(a);
    else if (st != TL_OK) WRONG(a, v, "%s", tl_error_message());
    return st == TL_OK;
}

static bool apply_string(tli_apply *a, const tl_field *f, const tl_value *v, const char **out)
{
    if (v->kind != TL_VALUE_SCALAR) {
        wrong_type(a, v, "a string");
        return false;
    }
    if (!matches(a, f, v)) return false;
    const char *text = v->text;
    if (f->flags & TL_FIELD_PATH
        && !home_found(a, v, tli_home_expand(&text, a->arena, v->text, false)))
        return false;
    text = tl_arena_strdup(a->arena, text);
    if (!text) {
        no_memory(a);
        return false;
    }
    *out = text;
    return true;
}

static bool apply_enum(tli_apply *a, const tl_field *f, const tl_value *v, int *out)
{
    int64_t count = 0;
    const char *word = v->kind == TL_VALUE_SCALAR ? v->text : "";
    if (tl_value_is_null(v)) word = "null";
    for (; f->names[count]; count++) {
        if (strcmp(f->names[count], word) == 0 && v->kind == TL_VALUE_SCALAR) {
            *out = (int)count;
            return true;
        }
    }
    tl_str message = TL_STR_INIT;
    for (int64_t i = 0; i < count; i++)
        tl_str_addf(&message, "%s%s", i == 0 ? "" : i + 1 == count ? " or " : ", ", f->names[i]);
    wrong_type_str(a, v, &message);
    return false;
}

bool tli_accepts(const tl_field *f, const tl_value *v)
{
    if (v->kind == TL_VALUE_LIST) return f->accept & TL_ACCEPT_LIST;
    if (v->kind == TL_VALUE_MAP) return f->accept & TL_ACCEPT_MAP;
    switch (tl_value_scalar(v)) {
    case TL_SCALAR_NULL: return f->flags & TL_FIELD_NULLABLE;
    case TL_SCALAR_BOOL: return f->accept & (TL_ACCEPT_BOOL | TL_ACCEPT_STRING);
    case TL_SCALAR_INT:
    case TL_SCALAR_DOUBLE: return f->accept & (TL_ACCEPT_NUMBER | TL_ACCEPT_STRING);
    case TL_SCALAR_STRING: break;
    }
    return f->accept & TL_ACCEPT_STRING;
}

/* Free-form maps are merged key by key, as described structs are; an empty one, which has no keys
 * to merge, empties them. NULL when there is no memory. */
static const tl_value *merge_maps(tl_arena *arena, const tl_value *old, const tl_value *new)
{
    if (!old || old->kind != TL_VALUE_MAP || new->kind != TL_VALUE_MAP || !new->count)
        return tl_value_copy(arena, new);
    tl_value_pair *pairs = tl_arena_array(arena, old->count + new->count, sizeof *pairs);
    if (!pairs) return NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < old->count; i++) {
        pairs[count] = old->pairs[i];
        const tl_value *over = tl_value_get(new, old->pairs[i].key);
        if (over && !(pairs[count].value = merge_maps(arena, old->pairs[i].value, over)))
            return NULL;
        count++;
    }
    for (int64_t i = 0; i < new->count; i++) {
        if (tl_value_get(old, new->pairs[i].key)) continue;
        pairs[count] = new->pairs[i];
        pairs[count].key = tl_arena_strdup(arena, new->pairs[i].key);
        pairs[count].value = tl_value_copy(arena, new->pairs[i].value);
        if (!pairs[count].key || !pairs[count].value) return NULL;
        count++;
    }
    return tl_value_new_map(arena, old->place, pairs, count);
}

static bool apply_value(tli_apply *a, const tl_field *f, const tl_value *v, const tl_value **out)
{
    if (!tli_accepts(f, v)) {
        tl_str expected = TL_STR_INIT;
        tl_field_type_text(&expected, f);
        wrong_type_str(a, v, &expected);
        return false;
    }
    if (f->flags & TL_FIELD_PATH && !home_found(a, v, tli_home_expand_value(&v, a->arena, v)))
        return false;
    const tl_value *copy = merge_maps(a->arena, *out, v);
    if (!copy) {
        no_memory(a);
        return false;
    }
    *out = copy;
    return true;
}

/* --- references ------------------------------------------------------------------------------ */

/* The kind of which a class is a choice; NULL when it is none. */
static const tl_kind *choice_of(const tl_registry *r, const tl_class *cls)
{
    for (int64_t i = 0; r && i < tl_registry_kind_count(r); i++) {
        const tl_kind *kind = tl_registry_kind_at(r, i);
        if (kind->names_are_keys && tl_registry_peek(r, kind, cls->name) == cls) return kind;
    }
    return NULL;
}

/* A row with a kind takes the classes of that kind, a one-of with branches what is one of them. */
static bool takes_target(const tli_apply *a, const tl_field *f, const tl_class *cls)
{
    const tl_desc *desc = NULL;
    const tl_registry *r = a->registry;
    if (f->kind && (!r || tl_registry_peek(r, f->kind, cls->name) != cls)) return false;
    if (f->type != TL_TYPE_ONEOF) return true;
    if (f->kind) return f->kind->names_are_keys; // else its object is no tl_oneof
    return choice_of(r, cls) && tli_oneof_branch(&desc, f, cls->name, NULL) && desc == cls->config;
}

static void wrong_target(tli_apply *a, const tl_field *f, const tl_class *cls, tl_place place)
{
    tl_str expected = TL_STR_INIT;
    if (f->type == TL_TYPE_REF)
        tl_str_addf(&expected, "a reference to one of the %s", f->kind->plural);
    else tl_field_type_text(&expected, f);
    if (expected.failed) no_memory(a);
    const tl_kind *kind = choice_of(a->registry, cls);
    tli_diag(a->diags, TL_EINVAL, place, tl_str_text(&a->path), "expected %s, found the %s '%s'",
             tl_str_text(&expected), kind ? kind->name : "configurable", cls->name);
    tl_str_deinit(&expected);
}

bool tli_apply_target(tli_apply *a, const tl_field *f, void *member, const tl_ref *ref,
                      tl_place place)
{
    if (!takes_target(a, f, ref->target)) {
        wrong_target(a, f, ref->target, place);
        return false;
    }
    if (f->type == TL_TYPE_REF) {
        *(tl_ref *)member = *ref;
        return true;
    }
    if (!ref->object) return true; // types are being checked
    *(tl_oneof *)member = *(const tl_oneof *)ref->object;
    if (tli_copy_field(a->arena, f, member) == TL_OK) return true;
    no_memory(a);
    return false;
}

static bool apply_ref(tli_apply *a, const tl_field *f, void *member, const tl_value *v)
{
    if (v->kind != TL_VALUE_REFERENCE || !a->reference) {
        wrong_type(a, v, "a reference such as @name or @name()");
        return false;
    }
    tl_ref ref = {0};
    tl_status st = a->reference(&ref, v, a->payload);
    if (st == TL_OK) return tli_apply_target(a, f, member, &ref, v->place);
    if (st == TL_ENOMEM) no_memory(a);
    else tli_diag(a->diags, st, v->place, tl_str_text(&a->path), "%s", tl_error_message());
    return false;
}

/* --- structs ---------------------------------------------------------------------------------- */

static void unknown_key(tli_apply *a, const tl_value_pair *pair, const char *what,
                        const char *const *names, int64_t count)
{
    size_t length = a->path.length;
    tli_path_name(&a->path, pair->key);
    char suggestion[128];
    tli_suggest(suggestion, sizeof suggestion, pair->key, names, count);
    if (a->strict) {
        tl_str known = TL_STR_INIT;
        for (int64_t i = 0; !*suggestion && names && i < count && i < 12; i++)
            tl_str_addf(&known, "%s%s", i ? ", " : " (known: ", names[i]);
        if (known.length) tl_str_add(&known, count > 12 ? ", ...)" : ")");
        if (!names || known.failed || a->path.failed) no_memory(a);
        // The dots of overrides are nothing to YAML, where a section has its own lines.
        bool dotted = strchr(pair->key, '.') && pair->place.line > 0;
        tli_diag(a->diags, TL_ENOTFOUND, pair->place, tl_str_text(&a->path), "unknown %s%s%s%s",
                 what, suggestion, tl_str_text(&known),
                 dotted ? " (in YAML, sections are nested: `a: {b: 1}`, not `a.b: 1`)" : "");
        tl_str_deinit(&known);
    } else {
        tl_str place = TL_STR_INIT;
        tl_place_write(&place, pair->place);
        TL_LOG_WARNING("%s: %s: unknown %s is skipped%s", tl_str_text(&place),
                       tl_str_text(&a->path), what, suggestion);
        tl_str_deinit(&place);
    }
    tl_str_cut(&a->path, length);
}

/* The row that a reference in place of a whole struct is for: its one choice. NULL: it has none, or
 * several. */
static const tl_field *only_choice(const tl_desc *desc)
{
    const tl_field *found = NULL;
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) {
        if (r.field->type != TL_TYPE_ONEOF) continue;
        if (found) return NULL;
        found = r.field;
    }
    return found;
}

void tli_apply_struct(tli_apply *a, const tl_desc *desc, void *value, const tl_value *map)
{
    const tl_field *choice = map->kind == TL_VALUE_REFERENCE ? only_choice(desc) : NULL;
    if (choice) {
        tli_apply_field(a, choice, value, map);
        return;
    }
    if (map->kind == TL_VALUE_SCALAR && !map->quoted && !*map->text) return; // `trainer:` alone
    if (map->kind != TL_VALUE_MAP) {
        wrong_type(a, map, "a map of keys");
        return;
    }
    size_t length = a->path.length;
    for (int64_t i = 0; i < map->count; i++) {
        const tl_value_pair *pair = &map->pairs[i];
        const tl_field *f = tl_desc_field(desc, pair->key);
        if (!f) {
            int64_t count = 0;
            const char **names = tli_field_names(a->arena, desc, &count);
            unknown_key(a, pair, "key", names, count);
            continue;
        }
        tli_path_name(&a->path, f->name);
        tli_apply_field(a, f, value, pair->value);
        tl_str_cut(&a->path, length);
    }
}

static void apply_pointer(tli_apply *a, const tl_field *f, const tl_desc *desc, void **member,
                          const tl_value *v)
{
    void *value = *member;
    if (!value) {
        if (v->kind != TL_VALUE_MAP) {
            wrong_type(a, v, "a map of keys");
            return;
        }
        if (tl_desc_new(&value, a->arena, desc) != TL_OK) {
            no_memory(a);
            return;
        }
        if (f->init) f->init(value);
        tli_remember(a, v->place);
    }
    tli_apply_struct(a, desc, value, v);
    *member = value;
}

static void apply_object(tli_apply *a, const tl_field *f, tl_object *o, const tl_value *v)
{
    const tl_desc *desc = o->desc ? o->desc : f->desc;
    if (!desc) {
        wrong_type(a, v, "null (nothing is described here)");
        return;
    }
    o->desc = desc;
    apply_pointer(a, f, desc, &o->value, v);
}

/* --- one-ofs ---------------------------------------------------------------------------------- */

static void select_type(tli_apply *a, const tl_field *f, tl_oneof *o, const tl_value *v,
                        const char *type)
{
    tl_status st = tl_oneof_select(NULL, o, f, type, a->arena, a->registry);
    if (st == TL_ENOMEM) no_memory(a);
    else if (st != TL_OK)
        tli_diag(a->diags, st, v->place, tl_str_text(&a->path), "%s", tl_error_message());
    else tli_remember(a, v->place);
}

static void apply_type(tli_apply *a, const tl_field *f, tl_oneof *o, const tl_value *v)
{
    size_t length = a->path.length;
    tli_path_name(&a->path, "type");
    if (v->kind != TL_VALUE_SCALAR) wrong_type(a, v, "the name of a type, or null");
    else select_type(a, f, o, v, tl_value_is_null(v) ? NULL : v->text);
    tl_str_cut(&a->path, length);
}

static void apply_branch(tli_apply *a, const tl_field *f, tl_oneof *o, const tl_value_pair *pair)
{
    const tl_desc *desc = NULL;
    if (!tli_oneof_branch(&desc, f, pair->key, a->registry)) {
        int64_t count = 0;
        const char **names = tli_oneof_names(a->arena, f, a->registry, &count);
        unknown_key(a, pair, "key", names, count + 1);
        return;
    }
    tl_oneof_part *part;
    if (tli_oneof_part(&part, o, pair->key, desc, a->arena) != TL_OK) {
        no_memory(a);
        return;
    }
    size_t length = a->path.length;
    tli_path_name(&a->path, pair->key);
    if (part->desc) tli_apply_struct(a, part->desc, part->value, pair->value);
    else if (!tl_value_is_null(pair->value)
             && (pair->value->kind != TL_VALUE_MAP || pair->value->count > 0))
        wrong_type(a, pair->value, "an empty map (this type has no fields)");
    tl_str_cut(&a->path, length);
}

static void apply_oneof(tli_apply *a, const tl_field *f, tl_oneof *o, const tl_value *v)
{
    if (v->kind == TL_VALUE_SCALAR && !v->quoted && !*v->text) return; // `optimizer:` alone
    if (v->kind == TL_VALUE_REFERENCE && a->reference && v->called) {
        (void)apply_ref(a, f, o, v);
        return;
    }
    if (v->kind == TL_VALUE_SCALAR && v->quoted && a->reference) {
        // in gin as in Keras: kernel_initializer = 'glorot_uniform', or 'GlorotUniform'
        select_type(a, f, o, v, tli_oneof_called(a->arena, f, a->registry, v->text));
        return;
    }
    if (v->kind != TL_VALUE_MAP) {
        wrong_type(a, v,
                   a->reference ? "a choice such as @name(), its name in quotes, or a map with "
                                  "'type' and that type's own fields"
                                : "a map with 'type' and that type's own fields");
        return;
    }
    // The type first, whatever the order in the file, so that a message about a branch comes
    // second.
    const tl_value *type = tl_value_get(v, "type");
    if (type) apply_type(a, f, o, type);
    for (int64_t i = 0; i < v->count; i++)
        if (v->pairs[i].value != type || strcmp(v->pairs[i].key, "type") != 0)
            apply_branch(a, f, o, &v->pairs[i]);
}

/* --- lists and the whole ---------------------------------------------------------------------- */

static void apply_list(tli_apply *a, const tl_field *f, tl_structs *list, const tl_value *v)
{
    if (v->kind != TL_VALUE_LIST) {
        tl_str expected = TL_STR_INIT;
        tl_str_add(&expected, "a ");
        tl_field_type_text(&expected, f);
        wrong_type_str(a, v, &expected);
        return;
    }
    tl_field element = tli_element_field(f);
    char *items = tl_arena_array(a->arena, v->count, element.size);
    if (!items) {
        no_memory(a);
        return;
    }
    // Structs in a list of the same length are merged one by one, as Model Garden does it.
    bool merge = f->type == TL_TYPE_STRUCT && list->count == v->count;
    size_t length = a->path.length;
    for (int64_t i = 0; i < v->count; i++) {
        size_t offset = (size_t)i * element.size;
        char *item = items + offset;
        tl_status st = merge ? tl_desc_copy(a->arena, f->desc, item, (char *)list->items + offset)
                       : f->type == TL_TYPE_STRUCT ? tl_desc_defaults(a->arena, f->desc, item)
                                                   : TL_OK;
        if (st != TL_OK) {
            no_memory(a);
            return;
        }
        tli_path_index(&a->path, i);
        tli_apply_field(a, &element, item, v->items[i]);
        tl_str_cut(&a->path, length);
    }
    *list = (tl_structs){items, v->count};
}

/* In gin, None is also what a one-of chooses that chooses nothing. */
static bool nullable(const tli_apply *a, const tl_field *f)
{
    return tli_is_nullable(f) || f->type == TL_TYPE_REF
           || (f->type == TL_TYPE_ONEOF && a->reference);
}

static void apply_null(const tl_field *f, void *member)
{
    if (f->type == TL_TYPE_OBJECT) ((tl_object *)member)->value = NULL;
    else if (f->type == TL_TYPE_REF) *(tl_ref *)member = (tl_ref){.scope = ""};
    else memset(member, 0, f->size);
}

/* True when the member itself took a value, so that its source is worth keeping. */
static bool apply_one(tli_apply *a, const tl_field *f, void *member, const tl_value *v)
{
    bool optional = f->arity == TL_OPTIONAL;
    switch (f->type) {
    case TL_TYPE_BOOL:
        if (!optional) return apply_bool(a, v, member);
        return ((tl_opt_bool *)member)->set = apply_bool(a, v, &((tl_opt_bool *)member)->value);
    case TL_TYPE_INT:
        if (!optional) return apply_int(a, f, v, member);
        return ((tl_opt_int *)member)->set = apply_int(a, f, v, &((tl_opt_int *)member)->value);
    case TL_TYPE_DOUBLE:
        if (!optional) return apply_double(a, f, v, member);
        return ((tl_opt_double *)member)->set =
                   apply_double(a, f, v, &((tl_opt_double *)member)->value);
    case TL_TYPE_STRING: return apply_string(a, f, v, member);
    case TL_TYPE_ENUM: return apply_enum(a, f, v, member);
    case TL_TYPE_VALUE: return apply_value(a, f, v, member);
    case TL_TYPE_REF: return apply_ref(a, f, member, v);
    case TL_TYPE_STRUCT:
        if (optional) apply_pointer(a, f, f->desc, member, v);
        else tli_apply_struct(a, f->desc, member, v);
        return false;
    case TL_TYPE_OBJECT: apply_object(a, f, member, v); return false;
    case TL_TYPE_ONEOF: apply_oneof(a, f, member, v); return false;
    case TL_TYPE_NONE: break;
    }
    return false;
}

void tli_apply_field(tli_apply *a, const tl_field *f, void *value, const tl_value *v)
{
    void *member = tl_field_at(f, value);
    bool names_null = f->type == TL_TYPE_ENUM && f->arity == TL_ONE; // its names may hold "null"
    if (v->kind == TL_VALUE_MACRO) {
        WRONG(a, v, "macros such as %%%s work in gin files only", v->text);
    } else if (tl_value_is_null(v) && nullable(a, f)) {
        apply_null(f, member);
        tli_remember(a, v->place);
    } else if (tl_value_is_null(v) && *v->text && !names_null) {
        WRONG(a, v, "cannot be null%s",
              f->type == TL_TYPE_STRING && f->arity == TL_ONE
                  ? " (write '' for an empty string, or the word in quotes)"
              : f->arity == TL_LIST ? " (write [] for an empty list)"
                                    : "");
    } else if (f->arity == TL_LIST) {
        tli_remember(a, v->place); // first, so that what is inside it counts as newer
        apply_list(a, f, member, v);
    } else if (apply_one(a, f, member, v)) {
        tli_remember(a, v->place);
    }
    if (a->path.failed) no_memory(a); // messages would not name the key
}
