/* Hydra's words: `a.b=1`, `+a.b=1`, `++a.b=1`, `~a.b`. */
#include <ctype.h>
#include <string.h>

#include <tilth/desc/config.h>

#include "desc/config/apply.h"
#include "desc/config/impl.h"
#include "desc/config/path.h"

/* Copies a quoted string as YAML writes it. Hydra escapes a quote with a backslash, YAML doubles
 * it; what double quotes may hold beside that is the same. NULL when the string does not end. */
static const char *copy_quoted(tl_str *out, const char *p)
{
    char quote = *p++;
    tl_str_addc(out, quote);
    for (; *p != quote || (quote == '\'' && p[1] == quote); p++) {
        if (!*p) return NULL;
        bool escaped = p[0] == '\\' && p[1] && (quote == '"' || p[1] == quote || p[1] == '\\');
        if (escaped && quote == '\'') tl_str_add(out, p[1] == '\\' ? "\\" : "''");
        else if (escaped) tl_str_addn(out, p, 2);
        else if (*p == quote) tl_str_add(out, "''");
        else tl_str_addc(out, *p);
        if (escaped || *p == quote) p++;
    }
    tl_str_addc(out, quote);
    return p + 1;
}

/* Hydra's flow text as YAML: `{a:1}` gets the blank that YAML wants behind a key. */
static tl_status to_yaml(tl_str *out, const char *text)
{
    enum { DEEPEST = TL_YAML_MAX_DEPTH };
    char open[DEEPEST] = {0};
    int depth = 0;
    bool key = false; // a key of a map may stand here
    for (const char *p = text; *p;) {
        if (*p == '\'' || *p == '"') {
            const char *end = copy_quoted(out, p);
            if (!end) return TL_FAIL(TL_EINVAL, "the quote at '%.40s' is not closed", p);
            p = end;
            continue;
        }
        if (*p == '{' || *p == '[') {
            if (depth == DEEPEST)
                return TL_FAIL(TL_ELIMIT, "nested deeper than %d levels", DEEPEST);
            open[depth++] = *p;
        }
        if ((*p == '}' || *p == ']') && depth > 0) depth--;
        if (*p == '{' || *p == ',') key = depth > 0 && open[depth - 1] == '{';
        tl_str_addc(out, *p);
        if (*p == ':' && key) {
            tl_str_addc(out, ' ');
            key = false;
        }
        p++;
    }
    return TL_OK;
}

/* Values are taken as they are, so that `*.tfrecord` needs no quotes; what starts like a list, a
 * map or a quoted string is read as one. */
tl_status tl_word_value(const tl_value **out, tl_arena *arena, const char *text, const char *source)
{
    *out = NULL;
    tl_place place = {tl_arena_strdup(arena, source), 0, 0};
    if (!place.source) return TL_ENOMEM;
    while (isspace((unsigned char)*text)) text++;
    if (*text && strchr("[{'\"", *text)) {
        tl_str yaml = TL_STR_INIT;
        const tl_value *read = NULL;
        tl_status st = to_yaml(&yaml, text);
        if (st == TL_OK) st = tl_str_status(&yaml);
        if (st == TL_OK)
            st = tl_yaml_parse(&read, arena, tl_str_text(&yaml), yaml.length, "its value");
        tl_str_deinit(&yaml);
        TL_TRY(st);
        // Columns inside the value would mislead.
        *out = read ? tli_value_at(arena, read, place) : NULL;
        return *out ? TL_OK : TL_ENOMEM;
    }
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1])) length--;
    char *plain = tl_arena_strndup(arena, text, length);
    *out = plain ? tl_value_new_scalar(arena, place, plain, false) : NULL;
    return *out ? TL_OK : TL_ENOMEM;
}

/* {a: {b: value}} for the steps from `first` on, which are all names. */
static const tl_value *wrap(tl_arena *arena, const tli_path *path, int64_t first,
                            const tl_value *value)
{
    for (int64_t i = path->count; i-- > first && value;) {
        tl_value_pair pair = {.key = path->steps[i].name, .place = value->place, .value = value};
        value = tl_value_new_map(arena, value->place, &pair, 1);
    }
    return value;
}

static void add_steps(tl_str *text, const tli_path *path, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (path->steps[i].name) tli_path_name(text, path->steps[i].name);
        else tli_path_index(text, path->steps[i].index);
    }
}

/* Sets what a path names. Steps up to the last index are followed, the names behind it merged. */
static tl_status set_path(tl_config *c, const tli_path *path, const char *text,
                          const tl_value *value)
{
    int64_t names = 0; // steps at the end that are names
    while (names < path->count && path->steps[path->count - 1 - names].name) names++;
    const tl_value *wrapped = wrap(c->arena, path, path->count - names, value);
    if (!wrapped) return TL_ENOMEM;
    if (names == path->count) return tl_config_apply(c, wrapped);

    tli_path followed = *path;
    followed.count -= names;
    tli_spot spot;
    TL_TRY(tli_path_find(&spot, c->arena, c->desc, c->value, &followed));
    if (spot.free)
        return TL_FAIL(
            TL_EUNSUPPORTED,
            "%s: items of a free-form list cannot be set one by one; give the whole list", text);
    tli_diags diags = TLI_DIAGS_INIT;
    tli_apply a = tli_config_apply(c, &diags);
    add_steps(&a.path, &followed, followed.count);
    tli_apply_field(&a, &spot.field, spot.value, wrapped);
    tl_status st = tli_diags_status(&diags);
    tl_str_deinit(&a.path);
    tli_diags_deinit(&diags);
    return st;
}

/* True when there is something that `+` would overwrite. */
static bool is_set(const tli_spot *s)
{
    const void *m = tl_field_at(&s->field, s->value);
    if (s->free) return true;
    if (s->oneof) return ((const tl_oneof *)m)->type != NULL;
    if (s->field.arity == TL_LIST)
        return s->field.flags & TL_FIELD_NULLABLE ? ((const tl_structs *)m)->items != NULL
                                                  : ((const tl_structs *)m)->count > 0;
    if (s->field.arity == TL_OPTIONAL && s->field.type != TL_TYPE_STRUCT)
        return *(const bool *)m; // `set` is the first member of each optional
    switch (s->field.type) {
    case TL_TYPE_STRUCT: return s->field.arity == TL_ONE || *(void *const *)m != NULL;
    case TL_TYPE_STRING: return *(const char *const *)m != NULL;
    case TL_TYPE_VALUE: return *(const tl_value *const *)m != NULL;
    case TL_TYPE_OBJECT: return ((const tl_object *)m)->value != NULL;
    case TL_TYPE_ONEOF: return ((const tl_oneof *)m)->type != NULL;
    default: return true;
    }
}

/* A map without one key, all the way down the steps. NULL: no memory. */
static const tl_value *without(tl_arena *arena, const tl_value *map, const tli_step *steps,
                               int64_t count)
{
    tl_value_pair *pairs = tl_arena_array(arena, map->count, sizeof *pairs);
    if (!pairs) return NULL;
    int64_t kept = 0;
    for (int64_t i = 0; i < map->count; i++) {
        pairs[kept] = map->pairs[i];
        bool named = strcmp(map->pairs[i].key, steps[0].name) == 0;
        if (named && count == 1) continue;
        if (named && !(pairs[kept].value = without(arena, pairs[kept].value, steps + 1, count - 1)))
            return NULL;
        kept++;
    }
    return tl_value_new_map(arena, map->place, pairs, kept);
}

/* Deletes inside the free-form value that `owner` points at, `steps` down the path. */
static tl_status delete_free(int64_t *steps, tl_config *c, const tli_path *path, const char *text,
                             const tl_value **owner)
{
    tli_path outer = *path; // shortened until it ends at the owner itself
    tli_spot spot;
    do {
        if (!outer.steps[--outer.count].name)
            return TL_FAIL(TL_EUNSUPPORTED, "%s: items of a list cannot be deleted", text);
        TL_TRY(tli_path_find(&spot, NULL, c->desc, c->value, &outer));
    } while (spot.free);
    const tl_value *rest =
        without(c->arena, *owner, &path->steps[outer.count], path->count - outer.count);
    if (!rest) return TL_ENOMEM;
    *owner = rest;
    *steps = outer.count;
    return TL_OK;
}

/* What is null, empty or shorter now came from the word, as any other value does. */
static tl_status remember_deletion(tl_config *c, const tli_path *path, int64_t steps,
                                   const tli_spot *spot, const char *source)
{
    tli_diags diags = TLI_DIAGS_INIT;
    tli_apply a = tli_config_apply(c, &diags);
    add_steps(&a.path, path, steps);
    if (spot->field.type == TL_TYPE_ONEOF && !spot->oneof) tli_path_name(&a.path, "type");
    tli_remember(&a, (tl_place){source, 0, 0});
    tl_status st = tli_diags_status(&diags);
    tl_str_deinit(&a.path);
    tli_diags_deinit(&diags);
    return st;
}

static tl_status delete_path(tl_config *c, const tli_path *path, const char *text,
                             const char *source)
{
    tli_spot s;
    int64_t steps = path->count;
    TL_TRY(tli_path_find(&s, c->arena, c->desc, c->value, path));
    void *m = tl_field_at(&s.field, s.value);
    if (s.free) {
        TL_TRY(delete_free(&steps, c, path, text, m));
    } else if (s.oneof || s.field.type == TL_TYPE_ONEOF) {
        tl_oneof *o = m;
        *o = (tl_oneof){.parts = o->parts};
    } else if (s.field.arity == TL_LIST) {
        *(tl_structs *)m = (tl_structs){0};
    } else if (s.field.type == TL_TYPE_OBJECT && s.field.flags & TL_FIELD_NULLABLE) {
        ((tl_object *)m)->value = NULL;
    } else if (tli_is_nullable(&s.field)) {
        memset(m, 0, s.field.size);
    } else {
        return TL_FAIL(TL_EINVAL, "%s: cannot be deleted, because it is not optional", text);
    }
    return remember_deletion(c, path, steps, &s, source);
}

typedef enum word_mode { WORD_SET, WORD_ADD, WORD_ADD_OR_SET, WORD_DELETE } word_mode;

/* Hydra tells adding from setting; on a described struct both go to a key that exists. */
static tl_status check_mode(tl_config *c, const tli_path *path, const char *text, word_mode mode)
{
    if (mode == WORD_ADD_OR_SET) return TL_OK;
    tli_spot spot;
    tl_error before;
    tl_error_save(&before);
    tl_status st = tli_path_find(&spot, NULL, c->desc, c->value, path);
    if (st == TL_ENOMEM) return st;
    bool there = st == TL_OK && is_set(&spot);
    tl_error_restore(&before); // whether a missing key is an error is for the caller to say
    if (mode == WORD_ADD && there)
        return TL_FAIL(TL_EEXISTS, "%s: is set already; write %s=... to change it", text, text);
    tli_path owner = *path;
    bool free_key = false; // a key of a free-form map that is not there
    while (mode == WORD_SET && st == TL_ENOTFOUND && --owner.count > 0 && !free_key)
        free_key = tli_path_find(&spot, NULL, c->desc, c->value, &owner) == TL_OK
                   && spot.field.type == TL_TYPE_VALUE && is_set(&spot);
    if (free_key && path->steps[path->count - 1].name)
        return TL_FAIL(TL_ENOTFOUND, "%s: there is no such key; write +%s=... to add it", text,
                       text);
    return TL_OK;
}

/* `value` stands for what is behind the `=`, which is read when it is NULL. */
static tl_status apply_word(tl_config *c, tl_arena *scratch, const char *word,
                            const tl_value *value, const char *source)
{
    word_mode mode = WORD_SET;
    const char *p = word;
    if (*p == '~') mode = WORD_DELETE, p++;
    else if (p[0] == '+' && p[1] == '+') mode = WORD_ADD_OR_SET, p += 2;
    else if (*p == '+') mode = WORD_ADD, p++;
    const char *equals = strchr(p, '=');
    if (mode == WORD_DELETE && equals)
        return TL_FAIL(TL_EINVAL, "'%s': a deletion has no value; write ~%.*s", word,
                       (int)(equals - p), p);
    if (mode != WORD_DELETE && !equals) return TL_FAIL(TL_EINVAL, "'%s': expected key=value", word);
    char *text = tl_arena_strndup(scratch, p, equals ? (size_t)(equals - p) : strlen(p));
    tli_path path;
    if (!text) return TL_ENOMEM;
    TL_TRY(tli_path_parse(&path, scratch, text));
    if (mode == WORD_DELETE) return delete_path(c, &path, text, source);
    if (!value) TL_TRY_NOTE(tl_word_value(&value, c->arena, equals + 1, source), "%s", text);
    TL_TRY(check_mode(c, &path, text, mode));
    return set_path(c, &path, text, value);
}

static tl_status apply_words(tl_config *c, const tl_word *words, int64_t count,
                             const tl_value *value)
{
    TL_TRY(tli_config_open(c));
    tl_arena *scratch;
    TL_TRY(tl_arena_new(&scratch));
    tli_diags diags = TLI_DIAGS_INIT;
    for (int64_t i = 0; i < count && diags.code != TL_ENOMEM; i++) {
        const tl_word *w = &words[i];
        tl_status st = apply_word(c, scratch, w->text, value, w->source);
        if (st == TL_OK) continue;
        // What was applied names its source already; what is wrong with the word itself does not.
        bool named = strncmp(tl_error_message(), w->source, strlen(w->source)) == 0;
        tl_place place = {named ? NULL : w->source, 0, 0};
        tli_diag(&diags, st, place, "", "%s", tl_error_message());
        if (st == TL_ENOMEM) diags.code = st;
    }
    tl_arena_free(&scratch);
    tl_status st = tli_diags_status(&diags);
    tli_diags_deinit(&diags);
    return st;
}

tl_status tl_config_words(tl_config *c, const tl_word *words, int64_t count)
{
    return apply_words(c, words, count, NULL);
}

tl_status tl_config_word(tl_config *c, const char *word, const char *source)
{
    return apply_words(c, &(tl_word){word, source}, 1, NULL);
}

tl_status tl_config_word_value(tl_config *c, const char *word, const tl_value *value,
                               const char *source)
{
    return apply_words(c, &(tl_word){word, source}, 1, value);
}
