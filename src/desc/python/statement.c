/* Statements of Python: assignments, deletions and imports. */
#include <stdio.h>
#include <string.h>

#include "desc/python/impl.h"

/* Where an assignment goes: a name, or a place in a container. */
typedef struct target {
    tli_py *container; /* a map or a list */
    const char *key;   /* of a map */
    int64_t index;     /* of a list */
    bool name;         /* the container is what names are bound in */
    tl_place place;
} target;

/* --- targets ---------------------------------------------------------------------------------- */

/* The operator of an augmented assignment ("+" of "+="); NULL: there is none. */
static const char *augmented(const tli_py_module *m)
{
    static const char *const operators[] = {"+", "-", "*", "/", "//", "%", "**"};
    size_t length = m->token.length;
    if (m->token.kind != TLI_GIN_MARK || length < 2 || m->token.text[length - 1] != '=')
        return NULL;
    for (int64_t i = 0; i < TL_COUNT(operators); i++)
        if (strlen(operators[i]) == length - 1
            && memcmp(operators[i], m->token.text, length - 1) == 0)
            return operators[i];
    return NULL;
}

static bool at_assignment(const tli_py_module *m)
{
    return tli_py_at_mark(m, "=") || augmented(m);
}

/* NULL in *out when nothing is there yet. */
static tl_status value_at(tli_py_module *m, tli_py **out, const target *t)
{
    tli_py_pair *there = NULL;
    if (t->container->kind == TLI_PY_LIST) there = &t->container->pairs[t->index];
    else TL_TRY(tli_py_get(&there, m->reader, t->container, t->key));
    *out = there ? there->value : NULL;
    return TL_OK;
}

static tl_status store(tli_py_module *m, const target *t, tli_py *value)
{
    tli_py *held = value;
    if (!t->name) TL_TRY(tli_py_held(&held, m->reader, t->container, value));
    if (t->container->kind == TLI_PY_MAP)
        return tli_py_put(m->reader, t->container, t->key, t->place, held);
    t->container->pairs[t->index].value = held;
    return TL_OK;
}

static tl_status check_attribute(const tli_py *of, const char *name, tl_place place)
{
    if (of->kind == TLI_PY_MAP && of->config) return TL_OK;
    if (of->kind == TLI_PY_MAP)
        return TLI_PY_FAIL(place, TL_EINVAL,
                           "a dict has no attribute '%.60s'; write [\"%.60s\"], or make a "
                           "configuration of it: DictConfig(...)",
                           name, name);
    return TLI_PY_FAIL(place, TL_EINVAL, "%s has no attributes that could be set", tli_py_noun(of));
}

static tl_status item_target(target *out, tli_py *of, const tli_py *index)
{
    *out = (target){.container = of, .place = index->place};
    if (of->kind == TLI_PY_LIST && !of->tuple) return tli_py_index(&out->index, of, index);
    if (of->kind != TLI_PY_MAP || index->kind != TLI_PY_TEXT)
        return TLI_PY_FAIL(index->place, TL_EINVAL, "%s has no item that could be set under %s",
                           tli_py_noun(of), tli_py_noun(index));
    out->key = index->text;
    return TL_OK;
}

/* --- assignments ------------------------------------------------------------------------------ */

static tl_status operate_at(tli_py_module *m, const target *t, const char *operator, tli_py * right)
{
    tli_py *there, *value;
    TL_TRY(value_at(m, &there, t));
    if (!there)
        return TLI_PY_FAIL(t->place, TL_ENOTFOUND,
                           "there is no '%.60s' yet that '%s=' could change", t->key, operator);
    if (there->kind == TLI_PY_LIST || there->kind == TLI_PY_MAP)
        return TLI_PY_REFUSE(t->place, "'%s=' for %s", operator, tli_py_noun(there));
    TL_TRY(tli_py_operate(&value, m->reader, there, operator, right, t->place));
    return store(m, t, value);
}

/* `= value`, or `+= value`. */
static tl_status assign(tli_py_module *m, const target *t)
{
    const char *operator= augmented(m);
    tli_py *value;
    TL_TRY(tli_py_advance(m));
    TL_TRY(tli_py_expressions(m, &value));
    if (tli_py_at_mark(m, "=")) return TLI_PY_REFUSE(m->token.place, "a second '='");
    return operator? operate_at(m, t, operator, value) : store(m, t, value);
}

/* One step from a value to what is in it. `*done`: it was an assignment; `*did`: it did something
 * by itself. */
static tl_status walk(tli_py_module *m, tli_py **value, bool *done, bool *did)
{
    tl_place place = m->token.place;
    target t;
    *did = false;
    if (tli_py_at_mark(m, "(")) return tli_py_call(m, value, *value, place);
    if (tli_py_at_mark(m, ".")) {
        const char *name;
        TL_TRY(tli_py_advance(m));
        place = m->token.place;
        TL_TRY(tli_py_name(m, &name, "a name behind '.'"));
        if (tli_py_at_mark(m, "(") && (*value)->kind != TLI_PY_SYMBOL) {
            *did = true;
            return tli_py_method(m, value, *value, name, place);
        }
        if (!at_assignment(m)) return tli_py_attribute(m, value, *value, name, place);
        TL_TRY(check_attribute(*value, name, place));
        t = (target){.container = *value, .key = name, .place = place};
    } else {
        tli_py *index;
        TL_TRY(tli_py_advance(m));
        TL_TRY(tli_py_expression(m, &index));
        if (tli_py_at_mark(m, ":")) return TLI_PY_REFUSE(m->token.place, "a slice");
        TL_TRY(tli_py_expect(m, "]", "behind an index"));
        if (!at_assignment(m)) return tli_py_item(m, value, *value, index);
        TL_TRY(item_target(&t, *value, index));
    }
    *done = true;
    return assign(m, &t);
}

static tl_status from_name(tli_py_module *m)
{
    tl_place place = m->token.place;
    const char *name;
    bool done = false, did = false;
    char found[64];
    TL_TRY(tli_py_name(m, &name, "a name"));
    if (at_assignment(m)) {
        target t = {.container = m->names, .key = name, .name = true, .place = place};
        return assign(m, &t);
    }
    if (tli_py_at_mark(m, ":") || tli_py_at_mark(m, ","))
        return TLI_PY_REFUSE(m->token.place, "%s behind the name that is assigned to",
                             tli_py_found(m, found, sizeof found));
    tli_py *value;
    TL_TRY(tli_py_look_up(m, &value, name, place));
    while (!done && (tli_py_at_mark(m, ".") || tli_py_at_mark(m, "[") || tli_py_at_mark(m, "(")))
        TL_TRY(walk(m, &value, &done, &did));
    if (done || did) return TL_OK;
    return TLI_PY_REFUSE(place, "an expression whose value is not used");
}

/* --- del -------------------------------------------------------------------------------------- */

static tl_status delete_at(tli_py_module *m, const target *t)
{
    tli_py_pair *there = NULL;
    char near[96];
    if (t->container->kind == TLI_PY_LIST) {
        tli_py_remove(t->container, t->index);
        return TL_OK;
    }
    TL_TRY(tli_py_get(&there, m->reader, t->container, t->key));
    if (!there)
        return TLI_PY_FAIL(t->place, TL_ENOTFOUND, "there is no '%.60s' to delete%s", t->key,
                           tli_py_suggest(near, sizeof near, m->reader, t->container, t->key));
    tli_py_remove(t->container, there - t->container->pairs);
    return TL_OK;
}

static tl_status delete (tli_py_module *m)
{
    target t = {.container = m->names, .name = true};
    TL_TRY(tli_py_advance(m));
    t.place = m->token.place;
    TL_TRY(tli_py_name(m, &t.key, "a name behind 'del'"));
    while (tli_py_at_mark(m, ".") || tli_py_at_mark(m, "[")) {
        tli_py *of, *index;
        bool attribute = tli_py_at_mark(m, ".");
        TL_TRY(value_at(m, &of, &t));
        if (!of) return TLI_PY_FAIL(t.place, TL_ENOTFOUND, "there is no '%.60s'", t.key);
        TL_TRY(tli_py_advance(m));
        if (attribute) {
            t = (target){.container = of, .place = m->token.place};
            TL_TRY(tli_py_name(m, &t.key, "a name behind '.'"));
            TL_TRY(check_attribute(of, t.key, t.place));
        } else {
            TL_TRY(tli_py_expression(m, &index));
            TL_TRY(tli_py_expect(m, "]", "behind an index"));
            TL_TRY(item_target(&t, of, index));
        }
    }
    return delete_at(m, &t);
}

/* --- imports ---------------------------------------------------------------------------------- */

static tl_status dotted(tli_py_module *m, const char **out)
{
    const char *part;
    TL_TRY(tli_py_name(m, out, "the name of a module"));
    while (tli_py_at_mark(m, ".")) {
        TL_TRY(tli_py_advance(m));
        TL_TRY(tli_py_name(m, &part, "a name behind '.'"));
        if (strlen(*out) + strlen(part) > 1000)
            return TLI_PY_FAIL(m->token.place, TL_ELIMIT,
                               "a dotted name has more than 1000 characters");
        *out = tl_arena_printf(m->reader->arena, "%s.%s", *out, part);
        if (!*out) return TL_ENOMEM;
    }
    return TL_OK;
}

static tl_status alias(tli_py_module *m, const char **name)
{
    if (!tli_py_at_word(m, "as")) return TL_OK;
    TL_TRY(tli_py_advance(m));
    return tli_py_name(m, name, "a name behind 'as'");
}

static tl_status bind_symbol(tli_py_module *m, const char *name, const char *symbol, tl_place place)
{
    tli_py *v = tli_py_new_text(m->reader, TLI_PY_SYMBOL, symbol, place);
    return v ? tli_py_put(m->reader, m->names, name, place, v) : tl_error_code();
}

/* import a.b, c as d */
static tl_status import(tli_py_module *m)
{
    do {
        const char *module, *name = NULL;
        TL_TRY(tli_py_advance(m));
        tl_place place = m->token.place;
        TL_TRY(dotted(m, &module));
        TL_TRY(alias(m, &name));
        const char *first = tl_arena_strndup(m->reader->arena, module, strcspn(module, "."));
        if (!first) return TL_ENOMEM;
        TL_TRY(bind_symbol(m, name ? name : first, name ? module : first, place));
    } while (tli_py_at_mark(m, ","));
    return TL_OK;
}

/* `from` of a library, or of a file (`names`). */
typedef struct origin {
    const char *module;
    const tli_py *names;
} origin;

static tl_status import_name(tli_py_module *m, const origin *from)
{
    tl_place place = m->token.place;
    const char *name, *as;
    char near[96];
    if (tli_py_at_mark(m, "*")) return TLI_PY_REFUSE(place, "'import *'");
    TL_TRY(tli_py_name(m, &name, "a name behind 'import'"));
    as = name;
    TL_TRY(alias(m, &as));
    if (!from->names) {
        const char *symbol = tl_arena_printf(m->reader->arena, "%s.%s", from->module, name);
        return symbol ? bind_symbol(m, as, symbol, place) : TL_ENOMEM;
    }
    tli_py_pair *there;
    TL_TRY(tli_py_get(&there, m->reader, from->names, name));
    if (!there)
        return TLI_PY_FAIL(place, TL_ENOTFOUND, "%s has no '%.60s'%s", from->module, name,
                           tli_py_suggest(near, sizeof near, m->reader, from->names, name));
    tli_py *value = there->value;
    if (value->kind == TLI_PY_MAP && !value->config)
        TL_TRY(tli_py_copy(&value, m->reader, value, true));
    return tli_py_put(m->reader, m->names, as, place, value);
}

static tl_status import_names(tli_py_module *m, const origin *from)
{
    bool open = tli_py_at_mark(m, "(");
    if (open) TL_TRY(tli_py_advance(m));
    TL_TRY(import_name(m, from));
    while (tli_py_at_mark(m, ",")) {
        TL_TRY(tli_py_advance(m));
        if (open && tli_py_at_mark(m, ")")) break;
        TL_TRY(import_name(m, from));
    }
    return open ? tli_py_expect(m, ")", "behind the names that are imported") : TL_OK;
}

static tl_status import_from(tli_py_module *m)
{
    tl_place place = m->token.place;
    origin from = {NULL, NULL};
    int level = 0;
    TL_TRY(tli_py_advance(m));
    while (m->token.kind == TLI_GIN_MARK && *m->token.text == '.') {
        level += (int)m->token.length;
        if (level > TL_PYTHON_MAX_DEPTH)
            return TLI_PY_FAIL(place, TL_ELIMIT, "an import has more than %d dots",
                               (int)TL_PYTHON_MAX_DEPTH);
        TL_TRY(tli_py_advance(m));
    }
    if (level && tli_py_at_word(m, "import"))
        return TLI_PY_REFUSE(place, "an import of a folder ('from . import ...')");
    TL_TRY(dotted(m, &from.module));
    if (!tli_py_at_word(m, "import"))
        return TLI_PY_FAIL(m->token.place, TL_EINVAL, "expected 'import' behind the module");
    TL_TRY(tli_py_advance(m));
    if (level) {
        tli_py *names;
        TL_TRY(tli_py_import(&names, m, level, from.module, place));
        from.names = names;
    }
    return import_names(m, &from);
}

/* --- all of them ------------------------------------------------------------------------------ */

static tl_status statement(tli_py_module *m)
{
    char found[64];
    tl_place place = m->token.place;
    if (m->token.kind == TLI_GIN_INDENT)
        return TLI_PY_FAIL(place, TL_EINVAL, "this line is indented, and no block is open");
    if (m->token.kind == TLI_GIN_STRING) { // a docstring
        tli_py *text;
        TL_TRY(tli_py_expression(m, &text));
        return TL_OK;
    }
    if (tli_py_at_word(m, "import")) return import(m);
    if (tli_py_at_word(m, "from")) return import_from(m);
    if (tli_py_at_word(m, "del")) return delete (m);
    if (tli_py_at_word(m, "pass")) return tli_py_advance(m);
    if (m->token.kind == TLI_GIN_NAME && !tli_py_is_keyword(m->token.text, m->token.length))
        return from_name(m);
    return TLI_PY_REFUSE(place, "%s at the beginning of a statement",
                         tli_py_found(m, found, sizeof found));
}

tl_status tli_py_statements(tli_py_module *m)
{
    char found[64];
    TL_TRY(tli_py_advance(m));
    while (m->token.kind != TLI_GIN_END) {
        if (m->token.kind == TLI_GIN_NEWLINE) {
            TL_TRY(tli_py_advance(m));
            continue;
        }
        TL_TRY(statement(m));
        bool more = tli_py_at_mark(m, ";");
        if (more || m->token.kind == TLI_GIN_NEWLINE) {
            TL_TRY(tli_py_advance(m));
            continue;
        }
        return TLI_PY_FAIL(m->token.place, TL_EINVAL, "expected the end of the statement, found %s",
                           tli_py_found(m, found, sizeof found));
    }
    return TL_OK;
}
