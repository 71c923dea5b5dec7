/* Values of Python: made, held in each other, copied, and given as values of ours. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "desc/python/impl.h"

/* --- limits ----------------------------------------------------------------------------------- */

static tl_status spend(tli_py_reader *r, int64_t nodes)
{
    r->nodes += nodes;
    if (r->nodes <= TL_PYTHON_MAX_NODES) return TL_OK;
    return TL_FAIL(TL_ELIMIT, "the values that are made and copied here are more than %d",
                   (int)TL_PYTHON_MAX_NODES);
}

static tl_status look(tli_py_reader *r, int64_t names)
{
    r->looks += names;
    if (r->looks <= TL_PYTHON_MAX_LOOKS) return TL_OK;
    return TL_FAIL(TL_ELIMIT, "finding names takes too long: there are too many in one place");
}

static tl_status check_depth(const tli_py *v, int depth)
{
    if (depth <= TL_PYTHON_MAX_DEPTH) return TL_OK;
    return TLI_PY_FAIL(v->place, TL_ELIMIT, "values are nested more than %d deep",
                       (int)TL_PYTHON_MAX_DEPTH);
}

/* --- making ----------------------------------------------------------------------------------- */

tli_py *tli_py_new(tli_py_reader *r, tli_py_kind kind, tl_place place)
{
    if (spend(r, 1) != TL_OK) {
        (void)tli_gin_at(TL_ELIMIT, place);
        return NULL;
    }
    tli_py *v = tl_arena_alloc(r->arena, sizeof *v);
    if (!v) return NULL;
    v->kind = kind;
    v->place = place;
    return v;
}

tli_py *tli_py_new_int(tli_py_reader *r, int64_t i, tl_place place)
{
    tli_py *v = tli_py_new(r, TLI_PY_INT, place);
    if (v) v->i = i;
    return v;
}

tli_py *tli_py_new_float(tli_py_reader *r, double d, tl_place place)
{
    tli_py *v = tli_py_new(r, TLI_PY_FLOAT, place);
    if (v) v->d = d;
    return v;
}

tli_py *tli_py_new_text(tli_py_reader *r, tli_py_kind kind, const char *text, tl_place place)
{
    tli_py *v = text ? tli_py_new(r, kind, place) : NULL;
    if (v) v->text = text;
    return v;
}

const char *tli_py_noun(const tli_py *v)
{
    switch (v->kind) {
    case TLI_PY_NONE: return "None";
    case TLI_PY_BOOL: return v->i ? "True" : "False";
    case TLI_PY_INT: return "an integer";
    case TLI_PY_FLOAT: return "a float";
    case TLI_PY_TEXT: return "a string";
    case TLI_PY_LIST: return v->config ? "a configuration's list" : v->tuple ? "a tuple" : "a list";
    case TLI_PY_MAP: return v->config ? "a configuration" : "a dict";
    case TLI_PY_SYMBOL: return "something imported";
    case TLI_PY_LAZY: return "a LazyCall that is not called";
    case TLI_PY_OBJECT: return "what an imported call gives";
    }
    return "?";
}

/* --- containers ------------------------------------------------------------------------------- */

tl_status tli_py_get(tli_py_pair **out, tli_py_reader *r, const tli_py *map, const char *key)
{
    *out = NULL;
    for (int64_t i = 0; i < map->count && !*out; i++) {
        TL_TRY(look(r, 1));
        if (strcmp(map->pairs[i].key, key) == 0) *out = &map->pairs[i];
    }
    return TL_OK;
}

/* Makes room for one more. What it leaves behind stays in the arena: no more than there is. */
static tl_status grow(tli_py_reader *r, tli_py *container)
{
    if (container->count < container->capacity) return TL_OK;
    int64_t capacity = container->capacity ? 2 * container->capacity : 4;
    tli_py_pair *pairs = tl_arena_array(r->arena, capacity, sizeof *pairs);
    if (!pairs) return TL_ENOMEM;
    if (container->count) memcpy(pairs, container->pairs, (size_t)container->count * sizeof *pairs);
    container->pairs = pairs;
    container->capacity = capacity;
    return TL_OK;
}

static tl_status add(tli_py_reader *r, tli_py *container, tli_py_pair pair)
{
    TL_TRY(spend(r, 1));
    TL_TRY(grow(r, container));
    container->pairs[container->count++] = pair;
    return TL_OK;
}

tl_status tli_py_put(tli_py_reader *r, tli_py *map, const char *key, tl_place place, tli_py *value)
{
    tli_py_pair *there;
    TL_TRY(tli_py_get(&there, r, map, key));
    if (!there) return add(r, map, (tli_py_pair){key, place, value});
    there->place = place;
    there->value = value;
    return TL_OK;
}

tl_status tli_py_append(tli_py_reader *r, tli_py *list, tli_py *value)
{
    return add(r, list, (tli_py_pair){NULL, value->place, value});
}

void tli_py_remove(tli_py *container, int64_t index)
{
    container->count--;
    memmove(container->pairs + index, container->pairs + index + 1,
            (size_t)(container->count - index) * sizeof *container->pairs);
}

/* Fails when `inner` is in `v`, or is it. */
static tl_status check_apart(tli_py_reader *r, const tli_py *v, const tli_py *inner, int depth)
{
    TL_TRY(spend(r, 1));
    TL_TRY(check_depth(v, depth));
    if (v == inner)
        return TLI_PY_FAIL(v->place, TL_EINVAL, "%s cannot be put into itself", tli_py_noun(v));
    for (int64_t i = 0; i < v->count; i++)
        TL_TRY(check_apart(r, v->pairs[i].value, inner, depth + 1));
    return TL_OK;
}

tl_status tli_py_held(tli_py **out, tli_py_reader *r, const tli_py *container, tli_py *value)
{
    if (container->config) return tli_py_copy(out, r, value, true);
    *out = value;
    return check_apart(r, value, container, 0);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* What OmegaConf would not take, or would give another meaning. */
static tl_status check_for_config(const tli_py *v)
{
    if (v->kind == TLI_PY_LAZY)
        return TLI_PY_FAIL(v->place, TL_EINVAL,
                           "LazyCall(%s) must be called with its arguments: LazyCall(%s)(...)",
                           v->text, v->text);
    if (v->kind == TLI_PY_TEXT && strstr(v->text, "${"))
        return TLI_PY_REFUSE(v->place, "the interpolation in \"%.40s\"", v->text);
    return TL_OK;
}

static tl_status copy(tli_py **out, tli_py_reader *r, const tli_py *v, bool config, int depth)
{
    TL_TRY(check_depth(v, depth));
    if (config) TL_TRY(check_for_config(v));
    tli_py *made = *out = tli_py_new(r, v->kind, v->place);
    if (!made) return tl_error_code();
    *made = *v;
    made->pairs = NULL;
    made->count = made->capacity = 0;
    bool holds = v->kind == TLI_PY_LIST || v->kind == TLI_PY_MAP;
    if (config && holds) made->config = true, made->tuple = false;
    for (int64_t i = 0; i < v->count; i++) {
        tli_py *value;
        TL_TRY(copy(&value, r, v->pairs[i].value, config, depth + 1));
        TL_TRY(add(r, made, (tli_py_pair){v->pairs[i].key, v->pairs[i].place, value}));
    }
    return TL_OK;
}

tl_status tli_py_copy(tli_py **out, tli_py_reader *r, const tli_py *v, bool config)
{
    return copy(out, r, v, config, 0);
}

/* --- names ------------------------------------------------------------------------------------ */

const char *tli_py_suggest(char *buffer, size_t size, tli_py_reader *r, const tli_py *map,
                           const char *key)
{
    enum { MOST = 256 };
    const char *keys[MOST];
    int64_t count = 0;
    (void)r;
    for (int64_t i = 0; i < map->count && count < MOST; i++)
        if (map->pairs[i].key) keys[count++] = map->pairs[i].key;
    const char *near = count ? tl_nearest(key, keys, count) : NULL;
    *buffer = '\0';
    if (near) snprintf(buffer, size, ", did you mean '%.60s'?", near);
    return buffer;
}

/* LiBai takes configurations and dicts, by names that do not begin with '_'. */
static bool is_taken(const tli_py_pair *p)
{
    bool fits = p->value->kind == TLI_PY_MAP || (p->value->kind == TLI_PY_LIST && p->value->config);
    return fits && *p->key != '_';
}

tl_status tli_py_taken(tli_py **out, tli_py_reader *r, const tli_py *names, tl_place place)
{
    tli_py *taken = *out = tli_py_new(r, TLI_PY_MAP, place);
    if (!taken) return tl_error_code();
    taken->config = true;
    for (int64_t i = 0; i < names->count; i++) {
        tli_py *value;
        if (!is_taken(&names->pairs[i])) continue;
        TL_TRY(tli_py_copy(&value, r, names->pairs[i].value, true));
        TL_TRY(add(r, taken, (tli_py_pair){names->pairs[i].key, names->pairs[i].place, value}));
    }
    return TL_OK;
}

/* --- out -------------------------------------------------------------------------------------- */

static const tl_value *scalar(tli_py_reader *r, const tli_py *v)
{
    char text[40];
    switch (v->kind) {
    case TLI_PY_NONE: return tl_value_new_scalar(r->arena, v->place, "null", false);
    case TLI_PY_BOOL:
        return tl_value_new_scalar(r->arena, v->place, v->i ? "true" : "false", false);
    case TLI_PY_INT: snprintf(text, sizeof text, "%lld", (long long)v->i); break;
    case TLI_PY_FLOAT:
        if (isnan(v->d)) snprintf(text, sizeof text, ".nan");
        else if (isinf(v->d)) snprintf(text, sizeof text, v->d < 0 ? "-.inf" : ".inf");
        else tl_double_text(text, v->d);
        break;
    default: return tl_value_new_scalar(r->arena, v->place, v->text, true);
    }
    return tl_value_new_scalar(r->arena, v->place, text, false);
}

static tl_status export(const tl_value **out, tli_py_reader *r, const tli_py *v);

static tl_status export_list(const tl_value **out, tli_py_reader *r, const tli_py *v)
{
    const tl_value **items = tl_arena_array(r->arena, v->count ? v->count : 1, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < v->count; i++) TL_TRY(export(&items[i], r, v->pairs[i].value));
    *out = tl_value_new_list(r->arena, v->place, items, v->count);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status export_map(const tl_value **out, tli_py_reader *r, const tli_py *v)
{
    bool object = v->kind == TLI_PY_OBJECT;
    tl_value_pair *pairs = tl_arena_array(r->arena, v->count + object, sizeof *pairs);
    int64_t count = 0;
    if (!pairs) return TL_ENOMEM;
    if (object) {
        const tl_value *target = tl_value_new_scalar(r->arena, v->place, v->text, true);
        if (!target) return TL_ENOMEM;
        pairs[count++] = (tl_value_pair){.key = "_target_", .place = v->place, .value = target};
    }
    for (int64_t i = 0; i < v->count; i++, count++) {
        pairs[count] = (tl_value_pair){.key = v->pairs[i].key, .place = v->pairs[i].place};
        TL_TRY(export(&pairs[count].value, r, v->pairs[i].value));
    }
    *out = tl_value_new_map(r->arena, v->place, pairs, count);
    return *out ? TL_OK : TL_ENOMEM;
}

/* Depth was judged when it was copied. */
static tl_status export(const tl_value **out, tli_py_reader *r, const tli_py *v)
{
    TL_TRY(spend(r, 1));
    if (v->kind == TLI_PY_LIST) return export_list(out, r, v);
    if (v->kind == TLI_PY_MAP || v->kind == TLI_PY_OBJECT) return export_map(out, r, v);
    *out = scalar(r, v);
    return *out ? TL_OK : TL_ENOMEM;
}

tl_status tli_py_export(const tl_value **out, tli_py_reader *r, const tli_py *names)
{
    tli_py *taken;
    TL_TRY(tli_py_taken(&taken, r, names, names->place));
    return export(out, r, taken);
}
