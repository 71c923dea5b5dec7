/* Calls: those that configurations are made of are done, those of what a library has are kept. */
#include <math.h>
#include <string.h>

#include "desc/python/impl.h"

/* What stands between the parentheses of a call. */
typedef struct arguments {
    tli_py *plain; /* a list: those without names */
    tli_py *named; /* a map */
    tl_place place;
    const char *what; /* the function, for messages */
} arguments;

static tl_status given(const tli_py *v)
{
    return v ? TL_OK : tl_error_code();
}

/* --- reading arguments ------------------------------------------------------------------------ */

static tl_status add_named(tli_py_module *m, arguments *a, const char *name, tl_place place,
                           tli_py *value)
{
    tli_py_pair *there;
    TL_TRY(tli_py_get(&there, m->reader, a->named, name));
    if (there) return TLI_PY_FAIL(place, TL_EINVAL, "the argument '%.60s' is given twice", name);
    return tli_py_put(m->reader, a->named, name, place, value);
}

static tl_status unpack(tli_py_module *m, arguments *a)
{
    tl_place place = m->token.place;
    tli_py *map;
    TL_TRY(tli_py_advance(m));
    TL_TRY(tli_py_expression(m, &map));
    if (map->kind != TLI_PY_MAP)
        return TLI_PY_FAIL(place, TL_EINVAL, "'**' wants a dict, found %s", tli_py_noun(map));
    for (int64_t i = 0; i < map->count; i++)
        TL_TRY(add_named(m, a, map->pairs[i].key, place, map->pairs[i].value));
    return TL_OK;
}

/* `name=`: looks one token ahead, which an expression cannot take back. */
static bool at_named(tli_py_module *m)
{
    const tli_gin_token *t = &m->token;
    if (t->kind != TLI_GIN_NAME || tli_py_is_keyword(t->text, t->length)) return false;
    tli_py_module ahead = *m;
    tl_error before;
    tl_error_save(&before);
    bool named = tli_py_advance(&ahead) == TL_OK && tli_py_at_mark(&ahead, "=");
    tl_error_restore(&before); // what is wrong there is told when it is read
    return named;
}

static tl_status argument(tli_py_module *m, arguments *a, bool *had_names)
{
    tl_place place = m->token.place;
    tli_py *value;
    if (tli_py_at_mark(m, "**")) {
        *had_names = true;
        return unpack(m, a);
    }
    if (tli_py_at_mark(m, "*")) return TLI_PY_REFUSE(place, "'*' before an argument");
    if (at_named(m)) {
        const char *name;
        *had_names = true;
        TL_TRY(tli_py_name(m, &name, "the name of an argument"));
        TL_TRY(tli_py_advance(m));
        TL_TRY(tli_py_expression(m, &value));
        return add_named(m, a, name, place, value);
    }
    TL_TRY(tli_py_expression(m, &value));
    if (*had_names)
        return TLI_PY_FAIL(place, TL_EINVAL, "an argument without a name behind one with a name");
    return tli_py_append(m->reader, a->plain, value);
}

static tl_status read_arguments(tli_py_module *m, arguments *a)
{
    bool had_names = false;
    a->place = m->token.place;
    a->plain = tli_py_new(m->reader, TLI_PY_LIST, a->place);
    TL_TRY(given(a->plain));
    a->named = tli_py_new(m->reader, TLI_PY_MAP, a->place);
    TL_TRY(given(a->named));
    TL_TRY(tli_py_advance(m));
    while (!tli_py_at_mark(m, ")")) {
        TL_TRY(argument(m, a, &had_names));
        if (!tli_py_at_mark(m, ")")) TL_TRY(tli_py_expect(m, ",", "between arguments"));
    }
    return tli_py_advance(m);
}

/* `most` arguments without names, and none with one. */
static tl_status expect_plain(const arguments *a, int64_t least, int64_t most)
{
    if (a->named->count)
        return TLI_PY_FAIL(a->place, TL_EINVAL, "%s takes no argument '%.60s'", a->what,
                           a->named->pairs[0].key);
    if (a->plain->count >= least && a->plain->count <= most) return TL_OK;
    return TLI_PY_FAIL(a->place, TL_EINVAL, "%s takes %s%lld argument%s, found %lld", a->what,
                       least < most ? "at most " : "", (long long)most, most == 1 ? "" : "s",
                       (long long)a->plain->count);
}

static tli_py *first(const arguments *a)
{
    return a->plain->count ? a->plain->pairs[0].value : NULL;
}

/* --- what Python has -------------------------------------------------------------------------- */

static tl_status wrong_argument(const arguments *a, const char *wanted)
{
    return TLI_PY_FAIL(a->place, TL_EINVAL, "%s wants %s, found %s", a->what, wanted,
                       tli_py_noun(first(a)));
}

/* dict(other, name=value, ...) */
static tl_status make_dict(tli_py_module *m, tli_py **out, const arguments *a)
{
    tli_py *map = *out = tli_py_new(m->reader, TLI_PY_MAP, a->place), *from = first(a);
    TL_TRY(given(map));
    if (a->plain->count > 1)
        return TLI_PY_FAIL(a->place, TL_EINVAL, "dict takes one argument without a name");
    if (from && from->kind != TLI_PY_MAP) return wrong_argument(a, "a dict");
    for (int64_t i = 0; from && i < from->count; i++)
        TL_TRY(tli_py_put(m->reader, map, from->pairs[i].key, from->pairs[i].place,
                          from->pairs[i].value));
    for (int64_t i = 0; i < a->named->count; i++)
        TL_TRY(tli_py_put(m->reader, map, a->named->pairs[i].key, a->named->pairs[i].place,
                          a->named->pairs[i].value));
    return TL_OK;
}

static tl_status make_list(tli_py_module *m, tli_py **out, const arguments *a, bool tuple)
{
    TL_TRY(expect_plain(a, 0, 1));
    tli_py *list = *out = tli_py_new(m->reader, TLI_PY_LIST, a->place), *from = first(a);
    TL_TRY(given(list));
    list->tuple = tuple;
    if (from && from->kind != TLI_PY_LIST) return wrong_argument(a, "a list or a tuple");
    for (int64_t i = 0; from && i < from->count; i++)
        TL_TRY(tli_py_append(m->reader, list, from->pairs[i].value));
    return TL_OK;
}

static tl_status make_int(tli_py_module *m, tli_py **out, const arguments *a)
{
    TL_TRY(expect_plain(a, 1, 1));
    const tli_py *v = first(a);
    int64_t i = v->i;
    if (v->kind == TLI_PY_FLOAT) {
        if (!(v->d > -0x1p63 && v->d < 0x1p63))
            return TLI_PY_FAIL(a->place, TL_EINVAL, "this float is no integer of 64 bits");
        i = (int64_t)v->d;
    } else if (v->kind != TLI_PY_INT && v->kind != TLI_PY_BOOL) {
        return wrong_argument(a, "a number");
    }
    *out = tli_py_new_int(m->reader, i, a->place);
    return given(*out);
}

static tl_status make_float(tli_py_module *m, tli_py **out, const arguments *a)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}};
    TL_TRY(expect_plain(a, 1, 1));
    const tli_py *v = first(a);
    double d = v->kind == TLI_PY_FLOAT ? v->d : (double)v->i;
    if (v->kind == TLI_PY_TEXT) {
        int64_t i = 0;
        while (i < TL_COUNT(words) && strcmp(words[i].text, v->text) != 0) i++;
        if (i == TL_COUNT(words))
            return wrong_argument(a, "a number, \"inf\", \"-inf\" or \"nan\"");
        d = words[i].value;
    } else if (v->kind != TLI_PY_FLOAT && v->kind != TLI_PY_INT && v->kind != TLI_PY_BOOL) {
        return wrong_argument(a, "a number");
    }
    *out = tli_py_new_float(m->reader, d, a->place);
    return given(*out);
}

static tl_status deep_copy(tli_py_module *m, tli_py **out, const arguments *a)
{
    TL_TRY(expect_plain(a, 1, 1));
    return tli_py_copy(out, m->reader, first(a), false);
}

/* --- what LiBai and OmegaConf have ------------------------------------------------------------ */

static tl_status make_config(tli_py_module *m, tli_py **out, const arguments *a)
{
    TL_TRY(expect_plain(a, 0, 1));
    tli_py *from = first(a);
    if (!from) {
        *out = tli_py_new(m->reader, TLI_PY_MAP, a->place);
        TL_TRY(given(*out));
        (*out)->config = true;
        return TL_OK;
    }
    if (from->kind != TLI_PY_MAP && from->kind != TLI_PY_LIST)
        return wrong_argument(a, "a dict or a list");
    return tli_py_copy(out, m->reader, from, true);
}

static tl_status make_lazy(tli_py_module *m, tli_py **out, const arguments *a)
{
    TL_TRY(expect_plain(a, 1, 1));
    const tli_py *target = first(a);
    if (target->kind != TLI_PY_SYMBOL && target->kind != TLI_PY_TEXT)
        return wrong_argument(a, "something that is imported, or its dotted name");
    *out = tli_py_new_text(m->reader, TLI_PY_LAZY, target->text, a->place);
    return given(*out);
}

static tl_status config_of_file(tli_py_module *m, tli_py **out, const arguments *a)
{
    TL_TRY(expect_plain(a, 1, 1));
    if (first(a)->kind != TLI_PY_TEXT) return wrong_argument(a, "a path in quotes");
    return tli_py_get_config(out, m, first(a)->text, a->place);
}

static tl_status call_lazy(tli_py_module *m, tli_py **out, const tli_py *lazy, const arguments *a)
{
    if (a->plain->count)
        return TLI_PY_FAIL(first(a)->place, TL_EINVAL,
                           "LazyCall(...)(...) takes arguments with names alone: write name=value");
    tli_py *target = tli_py_new_text(m->reader, TLI_PY_SYMBOL, lazy->text, lazy->place);
    TL_TRY(given(target));
    TL_TRY(tli_py_put(m->reader, a->named, "_target_", lazy->place, target));
    return tli_py_copy(out, m->reader, a->named, true);
}

/* --- all of them ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    tl_status (*call)(tli_py_module *m, tli_py **out, const arguments *a);
} known[] = {
    {"builtins.dict", make_dict},
    {"builtins.int", make_int},
    {"builtins.float", make_float},
    {"copy.deepcopy", deep_copy},
    {"omegaconf.DictConfig", make_config},
    {"omegaconf.ListConfig", make_config},
    {"omegaconf.OmegaConf.create", make_config},
    {"libai.config.LazyCall", make_lazy},
    {"libai.config.lazy.LazyCall", make_lazy},
    {"libai.config.get_config", config_of_file},
    {"libai.config.config.get_config", config_of_file},
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What something imported gives, unless it is what configurations themselves are made with. */
static tl_status keep_call(tli_py_module *m, tli_py **out, const tli_py *symbol, const arguments *a)
{
    if (begins(symbol->text, "libai.config.") || begins(symbol->text, "omegaconf.")
        || begins(symbol->text, "copy."))
        return TLI_PY_REFUSE(a->place, "%.80s(...)", symbol->text);
    tli_py *object = *out = tli_py_new_text(m->reader, TLI_PY_OBJECT, symbol->text, a->place);
    TL_TRY(given(object));
    if (a->plain->count) TL_TRY(tli_py_put(m->reader, object, "_args_", a->plain->place, a->plain));
    for (int64_t i = 0; i < a->named->count; i++)
        TL_TRY(tli_py_put(m->reader, object, a->named->pairs[i].key, a->named->pairs[i].place,
                          a->named->pairs[i].value));
    return TL_OK;
}

static tl_status call_symbol(tli_py_module *m, tli_py **out, const tli_py *symbol,
                             const arguments *a)
{
    for (int64_t i = 0; i < TL_COUNT(known); i++)
        if (strcmp(known[i].name, symbol->text) == 0) return known[i].call(m, out, a);
    bool tuple = strcmp(symbol->text, "builtins.tuple") == 0;
    if (tuple || strcmp(symbol->text, "builtins.list") == 0) return make_list(m, out, a, tuple);
    return keep_call(m, out, symbol, a);
}

tl_status tli_py_call(tli_py_module *m, tli_py **out, tli_py *callee, tl_place place)
{
    if (callee->kind != TLI_PY_SYMBOL && callee->kind != TLI_PY_LAZY)
        return TLI_PY_FAIL(place, TL_EINVAL, "%s cannot be called", tli_py_noun(callee));
    const char *dot = strrchr(callee->text, '.');
    arguments a = {.what = dot ? dot + 1 : callee->text};
    TL_TRY(read_arguments(m, &a));
    return callee->kind == TLI_PY_LAZY ? call_lazy(m, out, callee, &a)
                                       : call_symbol(m, out, callee, &a);
}

static tl_status update(tli_py_module *m, tli_py *map, const tli_py *with)
{
    for (int64_t i = 0; i < with->count; i++) {
        tli_py *value;
        TL_TRY(tli_py_held(&value, m->reader, map, with->pairs[i].value));
        TL_TRY(tli_py_put(m->reader, map, with->pairs[i].key, with->pairs[i].place, value));
    }
    return TL_OK;
}

tl_status tli_py_method(tli_py_module *m, tli_py **out, tli_py *of, const char *name,
                        tl_place place)
{
    arguments a = {.what = "update"};
    if (of->kind != TLI_PY_MAP || strcmp(name, "update") != 0)
        return TLI_PY_REFUSE(place, "the call of '%.60s' of %s", name, tli_py_noun(of));
    TL_TRY(read_arguments(m, &a));
    if (a.plain->count > 1)
        return TLI_PY_FAIL(a.place, TL_EINVAL, "update takes one argument without a name");
    if (a.plain->count && first(&a)->kind != TLI_PY_MAP) return wrong_argument(&a, "a dict");
    if (a.plain->count && first(&a) != of) TL_TRY(update(m, of, first(&a)));
    TL_TRY(update(m, of, a.named));
    *out = tli_py_new(m->reader, TLI_PY_NONE, place);
    return given(*out);
}
