/* Expressions of Python, computed while they are read. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "desc/python/impl.h"

const char tli_py_understood[] =
    "is not understood: a configuration consists of assignments, imports, dict, list, tuple, "
    "strings, numbers, arithmetic, LazyCall and get_config; write what it comes to";

/* --- tokens ----------------------------------------------------------------------------------- */

/* Operators of two characters and more: of three, each begins with one of two. */
static bool is_operator(const char *text, size_t length)
{
    static const char *const operators[] = {
        "**", "//", "==", "!=", "<=", ">=", "->",  ":=",  "+=",  "-=",  "*=", "/=", "%=",
        "@=", "&=", "|=", "^=", "<<", ">>", "**=", "//=", "<<=", ">>=", "..", "..."};
    for (int64_t i = 0; i < TL_COUNT(operators); i++)
        if (strlen(operators[i]) == length && memcmp(operators[i], text, length) == 0) return true;
    return false;
}

tl_status tli_py_advance(tli_py_module *m)
{
    tli_gin_lexer *x = &m->lexer;
    TL_TRY(tli_gin_lexer_next(x, &m->token));
    tli_gin_token *t = &m->token;
    while (t->kind == TLI_GIN_MARK && x->at < x->end && is_operator(t->text, t->length + 1)) {
        t->length++;
        x->at++;
        x->place.column++;
    }
    return TL_OK;
}

static bool is_text(const tli_gin_token *t, const char *text)
{
    return strlen(text) == t->length && memcmp(text, t->text, t->length) == 0;
}

bool tli_py_at_mark(const tli_py_module *m, const char *mark)
{
    return m->token.kind == TLI_GIN_MARK && is_text(&m->token, mark);
}

bool tli_py_at_word(const tli_py_module *m, const char *word)
{
    return m->token.kind == TLI_GIN_NAME && is_text(&m->token, word);
}

const char *tli_py_found(const tli_py_module *m, char *buffer, size_t size)
{
    const tli_gin_token *t = &m->token;
    switch (t->kind) {
    case TLI_GIN_END: return "the end of the file";
    case TLI_GIN_NEWLINE: return "the end of the line";
    case TLI_GIN_INDENT:
    case TLI_GIN_DEDENT: return "an indented line";
    default: snprintf(buffer, size, "'%.*s'", t->length < 40 ? (int)t->length : 40, t->text);
    }
    return buffer;
}

tl_status tli_py_expect(tli_py_module *m, const char *mark, const char *where)
{
    char found[64];
    if (tli_py_at_mark(m, mark)) return tli_py_advance(m);
    return TLI_PY_FAIL(m->token.place, TL_EINVAL, "expected '%s' %s, found %s", mark, where,
                       tli_py_found(m, found, sizeof found));
}

bool tli_py_is_keyword(const char *text, size_t length)
{
    static const char *const keywords[] = {
        "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
        "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
        "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
        "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
    for (int64_t i = 0; i < TL_COUNT(keywords); i++)
        if (strlen(keywords[i]) == length && memcmp(keywords[i], text, length) == 0) return true;
    return false;
}

tl_status tli_py_name(tli_py_module *m, const char **out, const char *what)
{
    const tli_gin_token *t = &m->token;
    char found[64];
    if (t->kind != TLI_GIN_NAME || tli_py_is_keyword(t->text, t->length))
        return TLI_PY_FAIL(t->place, TL_EINVAL, "expected %s, found %s", what,
                           tli_py_found(m, found, sizeof found));
    *out = tl_arena_strndup(m->reader->arena, t->text, t->length);
    return *out ? tli_py_advance(m) : TL_ENOMEM;
}

/* --- literals --------------------------------------------------------------------------------- */

static tl_status given(const tli_py *v)
{
    return v ? TL_OK : tl_error_code();
}

static tl_status number(tli_py_module *m, tli_py **out)
{
    tl_place place = m->token.place;
    tl_str text = TL_STR_INIT;
    tl_status st;
    TL_TRY_DONE(st, tli_gin_number(&text, &m->token, false));
    const char *digits = tl_str_text(&text);
    if (strspn(digits, "0123456789") == text.length) {
        errno = 0;
        long long value = strtoll(digits, NULL, 10);
        if (errno) {
            st = TLI_PY_FAIL(place, TL_ELIMIT, "this integer needs more than 64 bits");
            goto done;
        }
        *out = tli_py_new_int(m->reader, value, place);
    } else {
        double value = strcmp(digits, ".inf") == 0 ? INFINITY : tl_strtod(digits, NULL);
        *out = tli_py_new_float(m->reader, value, place);
    }
    TL_TRY_DONE(st, given(*out));
    st = tli_py_advance(m);
done:
    tl_str_deinit(&text);
    return st;
}

/* What stands before the quotes. */
static tl_status check_prefix(const tli_gin_token *t)
{
    size_t length = strcspn(t->text, "'\"");
    for (size_t i = 0; i < length; i++) {
        if (strchr("fF", t->text[i])) return TLI_PY_REFUSE(t->place, "an f-string");
        if (strchr("bB", t->text[i])) return TLI_PY_REFUSE(t->place, "a bytes string (b'...')");
    }
    return TL_OK;
}

/* Strings that follow each other are one. */
static tl_status string(tli_py_module *m, tli_py **out)
{
    tl_place place = m->token.place;
    tl_str text = TL_STR_INIT;
    tl_status st = TL_OK;
    while (m->token.kind == TLI_GIN_STRING) {
        TL_TRY_DONE(st, check_prefix(&m->token));
        TL_TRY_DONE(st, tli_gin_string(&text, &m->token));
        TL_TRY_DONE(st, tli_py_advance(m));
    }
    *out = tli_py_new_text(m->reader, TLI_PY_TEXT,
                           tl_arena_strdup(m->reader->arena, tl_str_text(&text)), place);
    st = given(*out);
done:
    tl_str_deinit(&text);
    return st;
}

/* --- displays --------------------------------------------------------------------------------- */

/* The rest of a list or a tuple, up to its bracket. */
static tl_status items(tli_py_module *m, tli_py *list, const char *close)
{
    while (!tli_py_at_mark(m, close)) {
        tli_py *value;
        if (tli_py_at_mark(m, "*") || tli_py_at_mark(m, "**"))
            return TLI_PY_REFUSE(m->token.place, "'*' before an item");
        TL_TRY(tli_py_expression(m, &value));
        TL_TRY(tli_py_append(m->reader, list, value));
        if (!tli_py_at_mark(m, close)) TL_TRY(tli_py_expect(m, ",", "between items"));
    }
    return tli_py_advance(m);
}

static tl_status list_display(tli_py_module *m, tli_py **out)
{
    *out = tli_py_new(m->reader, TLI_PY_LIST, m->token.place);
    TL_TRY(given(*out));
    TL_TRY(tli_py_advance(m));
    return items(m, *out, "]");
}

/* A tuple, or an expression in parentheses. */
static tl_status parenthesis(tli_py_module *m, tli_py **out)
{
    tli_py *tuple = tli_py_new(m->reader, TLI_PY_LIST, m->token.place), *first;
    TL_TRY(given(tuple));
    tuple->tuple = true;
    TL_TRY(tli_py_advance(m));
    *out = tuple;
    if (tli_py_at_mark(m, ")")) return tli_py_advance(m);
    TL_TRY(tli_py_expression(m, &first));
    if (tli_py_at_mark(m, ")")) {
        *out = first;
        return tli_py_advance(m);
    }
    TL_TRY(tli_py_expect(m, ",", "or ')' behind an expression in parentheses"));
    TL_TRY(tli_py_append(m->reader, tuple, first));
    return items(m, tuple, ")");
}

/* `**other` in a dict: its pairs. */
static tl_status unpack(tli_py_module *m, tli_py *map)
{
    tli_py *other;
    tl_place place = m->token.place;
    TL_TRY(tli_py_advance(m));
    TL_TRY(tli_py_expression(m, &other));
    if (other->kind != TLI_PY_MAP)
        return TLI_PY_FAIL(place, TL_EINVAL, "'**' wants a dict, found %s", tli_py_noun(other));
    for (int64_t i = 0; i < other->count; i++)
        TL_TRY(tli_py_put(m->reader, map, other->pairs[i].key, other->pairs[i].place,
                          other->pairs[i].value));
    return TL_OK;
}

static tl_status pair(tli_py_module *m, tli_py *map)
{
    tli_py *key, *value;
    if (tli_py_at_mark(m, "**")) return unpack(m, map);
    TL_TRY(tli_py_expression(m, &key));
    if (!tli_py_at_mark(m, ":")) return TLI_PY_REFUSE(key->place, "a set");
    if (key->kind != TLI_PY_TEXT)
        return TLI_PY_FAIL(key->place, TL_EUNSUPPORTED,
                           "keys are strings here, found %s; write it in quotes", tli_py_noun(key));
    TL_TRY(tli_py_advance(m));
    TL_TRY(tli_py_expression(m, &value));
    return tli_py_put(m->reader, map, key->text, key->place, value);
}

static tl_status dict_display(tli_py_module *m, tli_py **out)
{
    *out = tli_py_new(m->reader, TLI_PY_MAP, m->token.place);
    TL_TRY(given(*out));
    TL_TRY(tli_py_advance(m));
    while (!tli_py_at_mark(m, "}")) {
        TL_TRY(pair(m, *out));
        if (!tli_py_at_mark(m, "}")) TL_TRY(tli_py_expect(m, ",", "between the pairs of a dict"));
    }
    return tli_py_advance(m);
}

/* --- names, attributes, items ----------------------------------------------------------------- */

static tl_status built_in(tli_py_module *m, tli_py **out, const char *name, tl_place place)
{
    static const char *const names[] = {"dict", "list", "tuple", "int", "float"};
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = tli_py_new_text(m->reader, TLI_PY_SYMBOL,
                               tl_arena_printf(m->reader->arena, "builtins.%s", name), place);
        return given(*out);
    }
    char near[96];
    return TLI_PY_FAIL(place, TL_ENOTFOUND,
                       "nothing above binds the name '%.60s'%s; import or assign it first", name,
                       tli_py_suggest(near, sizeof near, m->reader, m->names, name));
}

tl_status tli_py_look_up(tli_py_module *m, tli_py **out, const char *name, tl_place place)
{
    tli_py_pair *there;
    TL_TRY(tli_py_get(&there, m->reader, m->names, name));
    if (!there) return built_in(m, out, name, place);
    *out = there->value;
    return TL_OK;
}

tl_status tli_py_attribute(tli_py_module *m, tli_py **out, tli_py *of, const char *name,
                           tl_place place)
{
    char near[96];
    if (of->kind == TLI_PY_SYMBOL) {
        if (strlen(of->text) + strlen(name) > 1000)
            return TLI_PY_FAIL(place, TL_ELIMIT, "a dotted name has more than 1000 characters");
        *out = tli_py_new_text(m->reader, TLI_PY_SYMBOL,
                               tl_arena_printf(m->reader->arena, "%s.%s", of->text, name), place);
        return given(*out);
    }
    if (of->kind == TLI_PY_MAP && !of->config)
        return TLI_PY_FAIL(place, TL_EINVAL,
                           "a dict has no attribute '%.60s'; write [\"%.60s\"], or make a "
                           "configuration of it: DictConfig(...)",
                           name, name);
    if (of->kind != TLI_PY_MAP)
        return TLI_PY_FAIL(place, TL_EINVAL, "%s has no attribute '%.60s'", tli_py_noun(of), name);
    tli_py_pair *there;
    TL_TRY(tli_py_get(&there, m->reader, of, name));
    if (!there)
        return TLI_PY_FAIL(place, TL_ENOTFOUND, "the configuration has no key '%.60s'%s", name,
                           tli_py_suggest(near, sizeof near, m->reader, of, name));
    *out = there->value;
    return TL_OK;
}

tl_status tli_py_index(int64_t *out, const tli_py *list, const tli_py *index)
{
    if (index->kind != TLI_PY_INT)
        return TLI_PY_FAIL(index->place, TL_EINVAL, "%s is indexed by an integer, found %s",
                           tli_py_noun(list), tli_py_noun(index));
    *out = index->i < 0 ? index->i + list->count : index->i;
    if (*out >= 0 && *out < list->count) return TL_OK;
    return TLI_PY_FAIL(index->place, TL_ENOTFOUND, "there is no item %lld: %s has %lld",
                       (long long)index->i, tli_py_noun(list), (long long)list->count);
}

tl_status tli_py_item(tli_py_module *m, tli_py **out, tli_py *of, const tli_py *index)
{
    char near[96];
    if (of->kind == TLI_PY_LIST) {
        int64_t at;
        TL_TRY(tli_py_index(&at, of, index));
        *out = of->pairs[at].value;
        return TL_OK;
    }
    if (of->kind != TLI_PY_MAP || index->kind != TLI_PY_TEXT)
        return TLI_PY_FAIL(index->place, TL_EINVAL, "%s has no item under %s", tli_py_noun(of),
                           tli_py_noun(index));
    tli_py_pair *there;
    TL_TRY(tli_py_get(&there, m->reader, of, index->text));
    if (!there)
        return TLI_PY_FAIL(index->place, TL_ENOTFOUND, "%s has no key '%.60s'%s", tli_py_noun(of),
                           index->text,
                           tli_py_suggest(near, sizeof near, m->reader, of, index->text));
    *out = there->value;
    return TL_OK;
}

/* --- operators -------------------------------------------------------------------------------- */

static tl_status atom(tli_py_module *m, tli_py **out)
{
    static const struct {
        const char *word;
        tli_py_kind kind;
        int64_t i;
    } constants[] = {{"None", TLI_PY_NONE, 0}, {"True", TLI_PY_BOOL, 1}, {"False", TLI_PY_BOOL, 0}};
    tl_place place = m->token.place;
    char found[64];
    if (m->token.kind == TLI_GIN_NUMBER) return number(m, out);
    if (m->token.kind == TLI_GIN_STRING) return string(m, out);
    if (tli_py_at_mark(m, "(")) return parenthesis(m, out);
    if (tli_py_at_mark(m, "[")) return list_display(m, out);
    if (tli_py_at_mark(m, "{")) return dict_display(m, out);
    for (int64_t i = 0; i < TL_COUNT(constants); i++) {
        if (!tli_py_at_word(m, constants[i].word)) continue;
        *out = tli_py_new(m->reader, constants[i].kind, place);
        TL_TRY(given(*out));
        (*out)->i = constants[i].i;
        return tli_py_advance(m);
    }
    bool word = m->token.kind == TLI_GIN_NAME;
    if (word && !tli_py_is_keyword(m->token.text, m->token.length)) {
        const char *name;
        TL_TRY(tli_py_name(m, &name, "a name"));
        return tli_py_look_up(m, out, name, place);
    }
    if (word || tli_py_at_mark(m, "...") || tli_py_at_mark(m, "~"))
        return TLI_PY_REFUSE(place, "%s", tli_py_found(m, found, sizeof found));
    return TLI_PY_FAIL(place, TL_EINVAL, "expected a value, found %s",
                       tli_py_found(m, found, sizeof found));
}

/* `.name`, `[index]` and `(...)` behind a value. */
static tl_status trailer(tli_py_module *m, tli_py **value)
{
    tl_place place = m->token.place;
    if (tli_py_at_mark(m, "(")) return tli_py_call(m, value, *value, place);
    if (tli_py_at_mark(m, ".")) {
        const char *name;
        TL_TRY(tli_py_advance(m));
        place = m->token.place;
        TL_TRY(tli_py_name(m, &name, "a name behind '.'"));
        if (tli_py_at_mark(m, "(") && (*value)->kind != TLI_PY_SYMBOL)
            return tli_py_method(m, value, *value, name, place);
        return tli_py_attribute(m, value, *value, name, place);
    }
    tli_py *index;
    TL_TRY(tli_py_advance(m));
    TL_TRY(tli_py_expression(m, &index));
    if (tli_py_at_mark(m, ":")) return TLI_PY_REFUSE(m->token.place, "a slice");
    TL_TRY(tli_py_expect(m, "]", "behind an index"));
    return tli_py_item(m, value, *value, index);
}

static tl_status primary(tli_py_module *m, tli_py **out)
{
    TL_TRY(atom(m, out));
    while (tli_py_at_mark(m, ".") || tli_py_at_mark(m, "[") || tli_py_at_mark(m, "("))
        TL_TRY(trailer(m, out));
    return TL_OK;
}

static tl_status unary(tli_py_module *m, tli_py **out);

/* `**` binds to the right, and more than a sign before it. */
static tl_status power(tli_py_module *m, tli_py **out)
{
    tli_py *exponent;
    TL_TRY(primary(m, out));
    if (!tli_py_at_mark(m, "**")) return TL_OK;
    tl_place place = m->token.place;
    TL_TRY(tli_py_advance(m));
    TL_TRY(unary(m, &exponent));
    return tli_py_operate(out, m->reader, *out, "**", exponent, place);
}

static tl_status sign(tli_py_module *m, tli_py **out)
{
    tl_place place = m->token.place;
    bool minus = tli_py_at_mark(m, "-");
    TL_TRY(tli_py_advance(m));
    TL_TRY(unary(m, out));
    if (minus) return tli_py_negate(out, m->reader, *out, place);
    tli_py *zero = tli_py_new_int(m->reader, 0, place);
    TL_TRY(given(zero));
    if ((*out)->kind == TLI_PY_FLOAT) return TL_OK; // +(-0.0) is -0.0
    return (*out)->kind == TLI_PY_INT || (*out)->kind == TLI_PY_BOOL
               ? tli_py_operate(out, m->reader, zero, "+", *out, place)
               : TLI_PY_REFUSE(place, "'+' before %s", tli_py_noun(*out));
}

static tl_status unary(tli_py_module *m, tli_py **out)
{
    if (m->nesting >= 4 * TL_PYTHON_MAX_DEPTH)
        return TLI_PY_FAIL(m->token.place, TL_ELIMIT, "the expression is nested too deeply");
    m->nesting++;
    tl_status st = tli_py_at_mark(m, "-") || tli_py_at_mark(m, "+") ? sign(m, out) : power(m, out);
    m->nesting--;
    return st;
}

static bool at_one_of(const tli_py_module *m, const char *const *marks)
{
    for (int64_t i = 0; marks[i]; i++)
        if (tli_py_at_mark(m, marks[i])) return true;
    return false;
}

/* Operators of one precedence, from the left. */
static tl_status chain(tli_py_module *m, tli_py **out, const char *const *marks,
                       tl_status (*operand)(tli_py_module *m, tli_py **out))
{
    TL_TRY(operand(m, out));
    while (at_one_of(m, marks)) {
        tli_py *right;
        tl_place place = m->token.place;
        char operator[4] = {0};
        memcpy(operator, m->token.text, m->token.length);
        TL_TRY(tli_py_advance(m));
        TL_TRY(operand(m, &right));
        TL_TRY(tli_py_operate(out, m->reader, *out, operator, right, place));
    }
    return TL_OK;
}

static tl_status product(tli_py_module *m, tli_py **out)
{
    static const char *const marks[] = {"*", "/", "//", "%", NULL};
    return chain(m, out, marks, unary);
}

tl_status tli_py_expression(tli_py_module *m, tli_py **out)
{
    static const char *const marks[] = {"+", "-", NULL};
    static const char *const others[] = {"==", "!=", "<",  ">",  "<=", ">=", "|",
                                         "&",  "^",  "<<", ">>", "@",  ":=", NULL};
    static const char *const words[] = {"if", "for", "and",  "or",    "not",
                                        "in", "is",  "else", "async", NULL};
    char found[64];
    TL_TRY(chain(m, out, marks, product));
    bool refused = at_one_of(m, others);
    for (int64_t i = 0; words[i]; i++) refused |= tli_py_at_word(m, words[i]);
    if (!refused) return TL_OK;
    return TLI_PY_REFUSE(m->token.place, "%s", tli_py_found(m, found, sizeof found));
}

tl_status tli_py_expressions(tli_py_module *m, tli_py **out)
{
    tli_py *first, *tuple;
    TL_TRY(tli_py_expression(m, &first));
    *out = first;
    if (!tli_py_at_mark(m, ",")) return TL_OK;
    tuple = *out = tli_py_new(m->reader, TLI_PY_LIST, first->place);
    TL_TRY(given(tuple));
    tuple->tuple = true;
    TL_TRY(tli_py_append(m->reader, tuple, first));
    while (tli_py_at_mark(m, ",")) {
        TL_TRY(tli_py_advance(m));
        if (m->token.kind == TLI_GIN_NEWLINE || tli_py_at_mark(m, ";")) break;
        TL_TRY(tli_py_expression(m, &first));
        TL_TRY(tli_py_append(m->reader, tuple, first));
    }
    return TL_OK;
}
