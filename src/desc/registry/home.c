/* `~/` at the beginning of a path, which a shell leaves as it is in --model_dir=~/run. */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "desc/config/apply.h"

/* The home of the user database is for processes that were started without a HOME. */
static const char *home_of_user(char *text, size_t size, struct passwd *user)
{
    const char *home = getenv("HOME");
    struct passwd *found = NULL;
    if (home && *home) return home;
    return getpwuid_r(geteuid(), user, text, size, &found) == 0 && found ? found->pw_dir : NULL;
}

static tl_status add_path(tl_str *out, const char *path, size_t length)
{
    char text[4096];
    struct passwd user;
    if (!length || *path != '~') {
        tl_str_addn(out, path, length);
        return TL_OK;
    }
    if (length > 1 && path[1] != '/')
        return TL_FAIL(TL_EINVAL,
                       "'%.*s': homes of other users are not looked up; write the whole path, or "
                       "./%.*s for a file of that name",
                       (int)length, path, (int)length, path);
    const char *home = home_of_user(text, sizeof text, &user);
    if (!home || !*home)
        return TL_FAIL(TL_EINVAL, "'%.*s': HOME is not set; write the whole path", (int)length,
                       path);
    tl_str_add(out, home);
    tl_str_addn(out, path + 1, length - 1);
    return TL_OK;
}

tl_status tli_home_expand(const char **out, tl_arena *arena, const char *text, bool several)
{
    tl_str expanded = TL_STR_INIT;
    tl_status st = TL_OK;
    *out = text;
    if (!strchr(text, '~')) return TL_OK;
    for (const char *at = text; st == TL_OK;) {
        size_t length = several ? strcspn(at, ",") : strlen(at);
        st = add_path(&expanded, at, length);
        at += length;
        if (!*at++) break;
        tl_str_addc(&expanded, ',');
    }
    if (st == TL_OK && !(*out = tl_str_copy(&expanded, arena))) st = TL_ENOMEM;
    tl_str_deinit(&expanded);
    return st;
}

static tl_status expand_list(const tl_value **out, tl_arena *arena, const tl_value *list)
{
    const tl_value **items = tl_arena_array(arena, list->count, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < list->count; i++)
        TL_TRY(tli_home_expand_value(&items[i], arena, list->items[i]));
    *out = tl_value_new_list(arena, list->place, items, list->count);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status expand_map(const tl_value **out, tl_arena *arena, const tl_value *map)
{
    tl_value_pair *pairs = tl_arena_array(arena, map->count, sizeof *pairs);
    if (!pairs) return TL_ENOMEM;
    for (int64_t i = 0; i < map->count; i++) {
        pairs[i] = map->pairs[i];
        TL_TRY(tli_home_expand_value(&pairs[i].value, arena, map->pairs[i].value));
    }
    *out = tl_value_new_map(arena, map->place, pairs, map->count);
    return *out ? TL_OK : TL_ENOMEM;
}

tl_status tli_home_expand_value(const tl_value **out, tl_arena *arena, const tl_value *v)
{
    *out = v;
    if (v->kind == TL_VALUE_LIST) return expand_list(out, arena, v);
    if (v->kind == TL_VALUE_MAP) return expand_map(out, arena, v);
    if (v->kind != TL_VALUE_SCALAR || tl_value_is_null(v)) return TL_OK;
    const char *text;
    TL_TRY(tli_home_expand(&text, arena, v->text, true));
    if (text != v->text) *out = tl_value_new_scalar(arena, v->place, text, v->quoted);
    return *out ? TL_OK : TL_ENOMEM;
}
