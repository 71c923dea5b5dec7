#include "desc/inner/flatten.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/str.h>
#include <tilth/base/vec.h>

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

static tl_status flatten(tli_settings *out, const char *path, const tl_value *v, tl_arena *arena)
{
    if (v && v->kind == TL_VALUE_MAP && v->count) {
        for (int64_t i = 0; i < v->count; i++) {
            const tl_value_pair *p = &v->pairs[i];
            const char *key = *path ? tl_arena_printf(arena, "%s.%s", path, p->key)
                                    : tl_arena_strdup(arena, p->key);
            if (!key) return TL_ENOMEM;
            TL_TRY(flatten(out, key, p->value, arena));
        }
        return TL_OK;
    }
    if (!*path) return TL_OK;
    tl_str text = TL_STR_INIT;
    add_value(&text, v);
    const char *copy = tl_str_copy(&text, arena);
    tl_str_deinit(&text);
    return copy && TL_VEC_PUSH(out, ((tli_setting){path, copy})) ? TL_OK : TL_ENOMEM;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const tli_setting *)a)->key, ((const tli_setting *)b)->key);
}

tl_status tli_settings_add(tli_settings *s, const tl_value *v, tl_arena *arena)
{
    TL_TRY(flatten(s, "", v, arena));
    if (s->count) qsort(s->items, (size_t)s->count, sizeof *s->items, by_key);
    return TL_OK;
}

const char *tli_settings_find(const tli_settings *s, const char *key)
{
    const tli_setting wanted = {key, NULL}, *found = NULL;
    if (s->count) found = bsearch(&wanted, s->items, (size_t)s->count, sizeof wanted, by_key);
    return found ? found->value : NULL;
}
