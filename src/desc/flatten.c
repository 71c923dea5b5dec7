#include "desc/inner/flatten.h"

#include <tilth/base/str.h>

/* A value in one line. */
static void add_value(tl_str *out, const tl_value *v)
{
    if (v && v->kind == TL_VALUE_LIST) {
        tl_str_addc(out, '[');
        for (int64_t i = 0; i < v->count; i++) {
            if (i) tl_str_add(out, ", ");
            add_value(out, v->items[i]);
        }
        tl_str_addc(out, ']');
    } else if (v && v->kind == TL_VALUE_MAP) {
        tl_str_addc(out, '{');
        for (int64_t i = 0; i < v->count; i++) {
            tl_str_addf(out, "%s%s: ", i ? ", " : "", v->pairs[i].key);
            add_value(out, v->pairs[i].value);
        }
        tl_str_addc(out, '}');
    } else {
        tl_str_add(out, v && v->text ? v->text : "null");
    }
}

static tl_status flatten(const char *path, const tl_value *v, tl_arena *arena, tli_flat_fn *fn,
                         void *payload)
{
    if (v && v->kind == TL_VALUE_MAP && v->count) {
        for (int64_t i = 0; i < v->count; i++) {
            const tl_value_pair *p = &v->pairs[i];
            const char *key = *path ? tl_arena_printf(arena, "%s.%s", path, p->key)
                                    : tl_arena_strdup(arena, p->key);
            if (!key) return TL_ENOMEM;
            TL_TRY(flatten(key, p->value, arena, fn, payload));
        }
        return TL_OK;
    }
    if (!*path) return TL_OK;
    tl_str text = TL_STR_INIT;
    add_value(&text, v);
    const char *copy = tl_str_copy(&text, arena);
    tl_str_deinit(&text);
    return copy ? fn(path, copy, payload) : TL_ENOMEM;
}

tl_status tli_value_flatten(const tl_value *v, tl_arena *arena, tli_flat_fn *fn, void *payload)
{
    return flatten("", v, arena, fn, payload);
}
