/* gin's statements: tokens in, bindings, includes and imports out. */
#include <math.h>
#include <string.h>

#include "desc/gin/impl.h"

typedef struct parser {
    tl_gin *gin;
    tli_gin_lexer lexer;
    tli_gin_token token; /* the one that is looked at */
    const char *home;
} parser;

#define WRONG(place, ...) tli_gin_at(TL_FAIL(TL_EINVAL, __VA_ARGS__), (place))

static tl_status advance(parser *p)
{
    return tli_gin_lexer_next(&p->lexer, &p->token);
}

static bool is_mark(const parser *p, char mark)
{
    return p->token.kind == TLI_GIN_MARK && *p->token.text == mark;
}

static bool is_name(const parser *p, const char *name)
{
    return p->token.kind == TLI_GIN_NAME && p->token.length == strlen(name)
           && memcmp(p->token.text, name, p->token.length) == 0;
}

/* The failure that something else was expected here. */
static tl_status expected(const parser *p, const char *what)
{
    const tli_gin_token *t = &p->token;
    switch (t->kind) {
    case TLI_GIN_END: return WRONG(t->place, "expected %s, found the end of the text", what);
    case TLI_GIN_NEWLINE: return WRONG(t->place, "expected %s, found the end of the line", what);
    case TLI_GIN_INDENT: return WRONG(t->place, "expected %s, found a line that is indented", what);
    case TLI_GIN_DEDENT: return WRONG(t->place, "expected %s, found the end of the block", what);
    default: break;
    }
    int length = t->length < 40 ? (int)t->length : 40;
    return WRONG(t->place, "expected %s, found '%.*s'", what, length, t->text);
}

/* --- names ----------------------------------------------------------------------------------- */

/* Names with '.' and '/' between them and no blanks. The copy lives as long as gin. */
static tl_status parse_path(parser *p, const char **out)
{
    if (p->token.kind != TLI_GIN_NAME) return expected(p, "a name");
    const char *start = p->token.text;
    size_t length;
    for (;;) {
        length = (size_t)(p->token.text + p->token.length - start);
        TL_TRY(advance(p));
        if (!is_mark(p, '.') && !is_mark(p, '/')) break;
        tli_gin_token mark = p->token;
        TL_TRY(advance(p));
        if (mark.spaced || p->token.spaced)
            return WRONG(mark.place, "there can be no blanks around the '%c' inside a name",
                         *mark.text);
        if (p->token.kind != TLI_GIN_NAME) return expected(p, "a name after '.' or '/'");
    }
    *out = tl_arena_strndup(p->gin->arena, start, length);
    return *out ? TL_OK : TL_ENOMEM;
}

/* A path whose scopes are single names (`dots`: selectors) and whose last part is a selector. */
static tl_status parse_scoped(parser *p, const char **out, bool dots)
{
    tl_place place = p->token.place;
    TL_TRY(parse_path(p, out));
    const char *slash = strrchr(*out, '/');
    if (!slash || dots) return TL_OK;
    size_t scopes = (size_t)(slash - *out);
    if (memchr(*out, '.', scopes))
        return WRONG(place,
                     "the scope '%.*s' has a dot in it; scopes are single names with '/' between "
                     "them",
                     (int)(scopes < 60 ? scopes : 60), *out);
    return TL_OK;
}

static tl_status parse_module(parser *p, const char **out)
{
    tl_place place = p->token.place;
    TL_TRY(parse_path(p, out));
    if (strchr(*out, '/'))
        return WRONG(place, "'%.60s' is not a module; write its names with '.' between them", *out);
    return TL_OK;
}

static tl_status parse_identifier(parser *p, const char **out)
{
    if (p->token.kind != TLI_GIN_NAME) return expected(p, "a name");
    *out = tl_arena_strndup(p->gin->arena, p->token.text, p->token.length);
    return *out ? advance(p) : TL_ENOMEM;
}

/* `name` inside the scope that the file is at home in. */
static const char *at_home(parser *p, const char *name)
{
    return *p->home ? tl_arena_printf(p->gin->arena, "%s/%s", p->home, name) : name;
}

/* --- values ---------------------------------------------------------------------------------- */

static tl_status parse_value(parser *p, const tl_value **out);

static tl_status parse_scalar(parser *p, const tl_value **out)
{
    tl_place place = p->token.place;
    tl_str text = TL_STR_INIT;
    tl_status st = TL_OK;
    bool negative = is_mark(p, '-'), quoted = false;
    if (negative) TL_TRY_DONE(st, advance(p));
    if (p->token.kind == TLI_GIN_NUMBER) {
        TL_TRY_DONE(st, tli_gin_number(&text, &p->token, negative));
        TL_TRY_DONE(st, advance(p));
    } else if (negative) {
        st = expected(p, "a number after '-'");
        goto done;
    } else if (p->token.kind == TLI_GIN_STRING) {
        quoted = true;
        while (p->token.kind == TLI_GIN_STRING) { // neighbours are one string
            TL_TRY_DONE(st, tli_gin_string(&text, &p->token));
            TL_TRY_DONE(st, advance(p));
        }
    } else if (is_name(p, "True") || is_name(p, "False") || is_name(p, "None")) {
        tl_str_addn(&text, p->token.text, p->token.length);
        TL_TRY_DONE(st, advance(p));
    } else if (p->token.kind == TLI_GIN_NAME) {
        int length = p->token.length < 40 ? (int)p->token.length : 40;
        st = WRONG(place,
                   "expected a value, found the name %.*s; strings stand in quotes ('%.*s'), "
                   "configurables behind @, macros behind %%",
                   length, p->token.text, length, p->token.text);
        goto done;
    } else {
        st = expected(p, "a value");
        goto done;
    }
    TL_TRY_DONE(st, tl_str_status(&text));
    *out = tl_value_new_scalar(p->gin->arena, place, tl_str_text(&text), quoted);
    if (!*out) st = TL_ENOMEM;
done:
    tl_str_deinit(&text);
    return st;
}

static tl_value *new_name(parser *p, tl_value_kind kind, tl_place place, const char *text)
{
    tl_value *v = tl_arena_alloc(p->gin->arena, sizeof *v);
    if (v) *v = (tl_value){.kind = kind, .place = place, .text = text, .weight = 1};
    return v;
}

/* `@name` and `@name()` */
static tl_status parse_reference(parser *p, const tl_value **out)
{
    tl_place place = p->token.place;
    const char *text;
    TL_TRY(advance(p));
    TL_TRY(parse_scoped(p, &text, true));
    // A scope in the file is a scope inside the file's own.
    if (strchr(text, '/') && !(text = at_home(p, text))) return TL_ENOMEM;
    tl_value *v = new_name(p, TL_VALUE_REFERENCE, place, text);
    if (!v) return TL_ENOMEM;
    if (is_mark(p, '(')) {
        v->called = true;
        TL_TRY(advance(p));
        if (!is_mark(p, ')'))
            return expected(p, "')' (a reference takes no arguments; bind them instead)");
        TL_TRY(advance(p));
    }
    *out = v;
    return TL_OK;
}

static tl_status parse_macro(parser *p, const tl_value **out)
{
    tl_place place = p->token.place;
    const char *text;
    TL_TRY(advance(p));
    TL_TRY(parse_scoped(p, &text, true));
    *out = new_name(p, TL_VALUE_MACRO, place, text);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status parse_sequence(parser *p, const tl_value **out, char close)
{
    struct {
        const tl_value **items;
        int64_t count, capacity;
    } list = {0};
    tl_place place = p->token.place;
    tl_status st;
    bool comma = false;
    TL_TRY_DONE(st, advance(p));
    while (!is_mark(p, close)) {
        const tl_value *item;
        TL_TRY_DONE(st, parse_value(p, &item));
        if (!TL_VEC_PUSH(&list, item)) {
            st = TL_ENOMEM;
            goto done;
        }
        if (is_mark(p, ',')) {
            comma = true;
            TL_TRY_DONE(st, advance(p));
        } else if (!is_mark(p, close)) {
            st = expected(p, close == ')' ? "',' or ')'" : "',' or ']'");
            goto done;
        }
    }
    TL_TRY_DONE(st, advance(p));
    if (close == ')' && list.count == 1 && !comma) { // one value in parentheses is that value
        *out = list.items[0];
        goto done;
    }
    tl_value *v = tl_value_new_list(p->gin->arena, place, list.items, list.count);
    if (v) v->tuple = close == ')';
    else st = TL_ENOMEM;
    *out = v;
done:
    TL_VEC_FREE(&list);
    return st;
}

/* What makes two keys of a dict the same in Python: 1, 1.0 and True are one key, '1' is another. */
static void write_key_identity(tl_str *out, const tl_value *key)
{
    bool b;
    double d;
    if (key->quoted) tl_str_addf(out, "'%s", key->text);
    else if (tl_value_bool(key, &b)) tl_str_add(out, b ? "1" : "0");
    else if (strpbrk(key->text, ".e") && tl_value_double(key, &d) && d > -1e15 && d < 1e15
             && d == floor(d))
        tl_str_addf(out, "%lld", (long long)d);
    else tl_str_add(out, key->text);
}

typedef struct pair_list {
    tl_value_pair *items;
    int64_t count, capacity;
    tl_map places; /* identity of a key -> its index + 1 */
} pair_list;

/* A key that was there before keeps its place and takes the new value. */
static tl_status add_pair(pair_list *pairs, const tl_value *key, const tl_value *value)
{
    tl_str identity = TL_STR_INIT;
    tl_status st;
    write_key_identity(&identity, key);
    TL_TRY_DONE(st, tl_str_status(&identity));
    int64_t before = (int64_t)(intptr_t)tl_map_get(&pairs->places, tl_str_text(&identity));
    if (before) {
        pairs->items[before - 1].value = value;
        goto done;
    }
    tl_value_pair pair = {key->text, key->quoted, key->place, value};
    if (!TL_VEC_PUSH(pairs, pair)) {
        st = TL_ENOMEM;
        goto done;
    }
    st = tl_map_set(&pairs->places, tl_str_text(&identity), (void *)(intptr_t)pairs->count);
done:
    tl_str_deinit(&identity);
    return st;
}

static tl_status parse_pair(parser *p, pair_list *pairs)
{
    const tl_value *key, *value;
    tl_place place = p->token.place;
    TL_TRY(parse_value(p, &key));
    if (key->kind != TL_VALUE_SCALAR)
        return WRONG(place, "a key of a dict must be a string, a number, True, False or None");
    if (!is_mark(p, ':')) return expected(p, "':' after the key of a dict");
    TL_TRY(advance(p));
    TL_TRY(parse_value(p, &value));
    return add_pair(pairs, key, value);
}

static tl_status parse_dict(parser *p, const tl_value **out)
{
    pair_list pairs = {.places = TL_MAP_INIT};
    tl_place place = p->token.place;
    tl_status st;
    TL_TRY_DONE(st, advance(p));
    while (!is_mark(p, '}')) {
        TL_TRY_DONE(st, parse_pair(p, &pairs));
        if (is_mark(p, ',')) {
            TL_TRY_DONE(st, advance(p));
        } else if (!is_mark(p, '}')) {
            st = expected(p, "',' or '}'");
            goto done;
        }
    }
    TL_TRY_DONE(st, advance(p));
    *out = tl_value_new_map(p->gin->arena, place, pairs.items, pairs.count);
    if (!*out) st = TL_ENOMEM;
done:
    TL_VEC_FREE(&pairs);
    tl_map_deinit(&pairs.places);
    return st;
}

/* The lexer bounds how deep this can nest. */
static tl_status parse_value(parser *p, const tl_value **out)
{
    if (is_mark(p, '[')) return parse_sequence(p, out, ']');
    if (is_mark(p, '(')) return parse_sequence(p, out, ')');
    if (is_mark(p, '{')) return parse_dict(p, out);
    if (is_mark(p, '@')) return parse_reference(p, out);
    if (is_mark(p, '%')) return parse_macro(p, out);
    return parse_scalar(p, out);
}

/* --- statements ------------------------------------------------------------------------------ */

tl_status tli_gin_split_key(tl_gin *gin, tli_gin_binding *b, const char *key)
{
    const char *slash = strrchr(key, '/'), *last = slash ? slash + 1 : key;
    const char *dot = strrchr(last, '.');
    if (!dot) { // `x = 1` is `x/gin.macro.value = 1`
        b->scope = key;
        b->selector = tli_gin_macro.cls.name;
        b->param = "value";
        return TL_OK;
    }
    b->scope = tl_arena_strndup(gin->arena, key, slash ? (size_t)(slash - key) : 0);
    b->selector = tl_arena_strndup(gin->arena, last, (size_t)(dot - last));
    b->param = tl_arena_strdup(gin->arena, dot + 1);
    return b->scope && b->selector && b->param ? TL_OK : TL_ENOMEM;
}

/* True when bindings of this selector are to be left out if it is unknown. */
static bool is_skippable(const tl_gin *gin, const char *selector)
{
    return gin->skip_all || tl_map_has(&gin->skip_names, selector);
}

/* Adds a binding whose scope is still that of the text. */
static tl_status add_binding(parser *p, tli_gin_binding b)
{
    if (*b.scope) b.scope = at_home(p, b.scope);
    else b.scope = p->home;
    if (!b.scope) return TL_ENOMEM;
    b.home = p->home;
    b.skippable = is_skippable(p->gin, b.selector);
    return tli_gin_add(p->gin, &b);
}

static tl_status parse_binding(parser *p, const char *key, tl_place place)
{
    tli_gin_binding b = {.place = place};
    TL_TRY(advance(p));
    TL_TRY(parse_value(p, &b.value));
    TL_TRY(tli_gin_split_key(p->gin, &b, key));
    return add_binding(p, b);
}

static tl_status parse_block(parser *p, const char *name)
{
    const char *slash = strrchr(name, '/');
    tli_gin_binding b = {.selector = slash ? slash + 1 : name};
    b.scope = tl_arena_strndup(p->gin->arena, name, slash ? (size_t)(slash - name) : 0);
    if (!b.scope) return TL_ENOMEM;
    TL_TRY(advance(p));
    if (p->token.kind != TLI_GIN_NEWLINE) return expected(p, "the end of the line after ':'");
    TL_TRY(advance(p));
    if (p->token.kind != TLI_GIN_INDENT)
        return expected(p, "indented lines `param = value` after ':'");
    TL_TRY(advance(p));
    while (p->token.kind != TLI_GIN_DEDENT) {
        b.place = p->token.place;
        TL_TRY(parse_identifier(p, &b.param));
        if (!is_mark(p, '=')) return expected(p, "'=' after the name of a parameter");
        TL_TRY(advance(p));
        TL_TRY(parse_value(p, &b.value));
        if (p->token.kind != TLI_GIN_NEWLINE) return expected(p, "the end of the line");
        TL_TRY(add_binding(p, b));
        TL_TRY(advance(p));
    }
    return TL_OK;
}

/* Includes and imports act at once, so the rest of their line is looked at before. */
static tl_status check_end(const parser *p)
{
    switch (p->token.kind) {
    case TLI_GIN_NEWLINE:
    case TLI_GIN_DEDENT:
    case TLI_GIN_END: return TL_OK;
    default: return expected(p, "the end of the line");
    }
}

static tl_status parse_import(parser *p, bool is_from, tl_place place)
{
    tli_gin_import import = {.is_from = is_from};
    TL_TRY(parse_module(p, &import.module));
    if (is_from) {
        if (!is_name(p, "import")) return expected(p, "'import'");
        TL_TRY(advance(p));
        const char *name;
        TL_TRY(parse_identifier(p, &name));
        import.module = tl_arena_printf(p->gin->arena, "%s.%s", import.module, name);
        if (!import.module) return TL_ENOMEM;
    }
    if (is_name(p, "as")) {
        TL_TRY(advance(p));
        TL_TRY(parse_identifier(p, &import.alias));
    }
    TL_TRY(check_end(p));
    tl_status st = tli_gin_import_module(p->gin, &import);
    return st == TL_OK ? TL_OK : tli_gin_at(st, place);
}

/* `include 'file'`, also with `in scope` */
static tl_status parse_include(parser *p, tl_place place)
{
    if (p->token.kind != TLI_GIN_STRING) return expected(p, "the path of a file, in quotes");
    const tl_value *path;
    TL_TRY(parse_scalar(p, &path));
    const char *home = p->home;
    if (is_name(p, "in")) {
        TL_TRY(advance(p));
        const char *scope;
        tl_place scope_place = p->token.place;
        TL_TRY(parse_path(p, &scope));
        if (!tli_gin_is_scope(scope, false))
            return WRONG(scope_place,
                         "'%.60s' is not a scope; scopes are single names with '/' between "
                         "them",
                         scope);
        if (!(home = at_home(p, scope))) return TL_ENOMEM;
    }
    TL_TRY(check_end(p));
    if (p->gin->no_includes)
        return WRONG(place, "'%.60s' is not included: this text may not name files to read",
                     path->text);
    return tli_gin_include(p->gin, path->text, home, place);
}

static tl_status parse_statement(parser *p)
{
    tl_place place = p->token.place;
    const char *key;
    TL_TRY(parse_scoped(p, &key, false));
    if (is_mark(p, '=')) TL_TRY(parse_binding(p, key, place));
    else if (is_mark(p, ':')) TL_TRY(parse_block(p, key));
    else if (strcmp(key, "import") == 0) TL_TRY(parse_import(p, false, place));
    else if (strcmp(key, "from") == 0) TL_TRY(parse_import(p, true, place));
    else if (strcmp(key, "include") == 0) TL_TRY(parse_include(p, place));
    else return expected(p, "'=' or ':'");
    TL_TRY(check_end(p));
    return p->token.kind == TLI_GIN_END ? TL_OK : advance(p);
}

tl_status tli_gin_parse_text(tl_gin *gin, const char *text, size_t length, const char *source,
                             const char *home, bool single)
{
    if (length > TL_GIN_MAX_BYTES)
        return TL_FAIL(TL_ELIMIT, "%s: gin text of %zu bytes; at most %d are read", source, length,
                       TL_GIN_MAX_BYTES);
    gin->byte_count += length;
    if (gin->byte_count > TL_GIN_MAX_TOTAL)
        return TL_FAIL(TL_ELIMIT, "%s: with this, more than %d bytes of gin text have been read",
                       source, TL_GIN_MAX_TOTAL);
    parser p = {.gin = gin, .home = home};
    tl_place start = {tl_arena_strdup(gin->arena, source), single ? 0 : 1, 1};
    if (!start.source) return TL_ENOMEM;
    TL_TRY(tli_gin_lexer_init(&p.lexer, text, length, start));
    TL_TRY(advance(&p));
    while (p.token.kind != TLI_GIN_END) {
        // Outside of blocks indentation means nothing.
        bool blank = p.token.kind == TLI_GIN_NEWLINE || p.token.kind == TLI_GIN_INDENT
                     || p.token.kind == TLI_GIN_DEDENT;
        TL_TRY(blank ? advance(&p) : parse_statement(&p));
    }
    return TL_OK;
}
