/* LiBai's `model` and `dataloader` say what the section `task` says: here the one becomes the
 * other, before it is read. Values keep the places where they were written. */
#include <inttypes.h>
#include <string.h>

#include <tilth/train/libai/libai.h>

#include "train/libai/libai.h"

static const tl_libai_config *value_of(const tl_config *c)
{
    return tl_config_value(c);
}

/* --- maps ------------------------------------------------------------------------------------- */

const tl_value *tli_libai_without(tl_arena *arena, const tl_value *map, const char *one,
                                  const char *two)
{
    tl_value_pair *pairs = tl_arena_array(arena, map->count ? map->count : 1, sizeof *pairs);
    int64_t count = 0;
    if (!pairs) return NULL;
    for (int64_t i = 0; i < map->count; i++)
        if (strcmp(map->pairs[i].key, one) != 0 && strcmp(map->pairs[i].key, two) != 0)
            pairs[count++] = map->pairs[i];
    return tl_value_new_map(arena, map->place, pairs, count);
}

static const tl_value *one_key(tl_arena *arena, const char *key, const tl_value *value)
{
    const tl_value_pair pair = {
        .key = key,
        .place = value ? value->place : (tl_place){0},
        .value = value,
    };
    return value ? tl_value_new_map(arena, value->place, &pair, 1) : NULL;
}

/* Applies {task: {NAME: {key: value}}}. */
static tl_status apply_to_task(tl_config *c, const char *key, const tl_value *value)
{
    tl_arena *arena = tl_config_arena(c);
    const char *name = value_of(c)->task.type;
    if (!name) {
        tl_str place = TL_STR_INIT;
        tl_place_write(&place, value->place);
        tl_status st =
            TL_FAIL(TL_EINVAL,
                    "%s: this belongs to a task, and none is named: set model._target_ (or "
                    "task.type) to the name of one; the command `list tasks` shows the names",
                    tl_str_text(&place));
        tl_str_deinit(&place);
        return st;
    }
    const tl_value *map = one_key(arena, "task", one_key(arena, name, one_key(arena, key, value)));
    return map ? tl_config_apply(c, map) : TL_ENOMEM;
}

static tl_status apply_model(tl_config *c, const tl_value *model)
{
    tl_arena *arena = tl_config_arena(c);
    const tl_value *target = tl_value_get(model, "_target_");
    if (model->kind != TL_VALUE_MAP)
        return tl_config_apply(c, one_key(arena, "task", model)); // says what is wrong
    if (target && target->kind == TL_VALUE_SCALAR) {
        tl_value *name =
            tl_value_new_scalar(arena, target->place, tli_last_part(target->text), true);
        const tl_value *map = one_key(arena, "task", one_key(arena, "type", name));
        if (!map) return TL_ENOMEM;
        TL_TRY(tl_config_apply(c, map));
    }
    const tl_value *rest = tli_libai_without(arena, model, "_target_", "_recursive_");
    if (!rest) return TL_ENOMEM;
    return rest->count ? apply_to_task(c, "model", rest) : TL_OK;
}

static tl_status wrong_loader(const tl_value *at, const char *what)
{
    tl_str place = TL_STR_INIT;
    tl_place_write(&place, at->place);
    tl_status st = TL_FAIL(TL_EINVAL, "%s: dataloader%s", tl_str_text(&place), what);
    tl_str_deinit(&place);
    return st;
}

tl_status tli_libai_read_loader(const char **key, const tl_value **value, tl_arena *arena,
                                const char *name, const tl_value *given)
{
    bool train = strcmp(name, "train") == 0;
    if (!train && strcmp(name, "test") != 0)
        return wrong_loader(given, ": unknown key (known: train, test)");
    if (!train && given->kind == TL_VALUE_LIST) {
        if (given->count < 1) return wrong_loader(given, ".test: the list is empty");
        given = given->items[0];
    }
    *key = train ? "train_data" : "validation_data";
    *value = given->kind == TL_VALUE_MAP
                 ? tli_libai_without(arena, given, "_target_", "_recursive_")
                 : given;
    return *value ? TL_OK : TL_ENOMEM;
}

tl_status tli_libai_check_loaders(const tl_value *loaders)
{
    if (loaders->kind == TL_VALUE_MAP) return TL_OK;
    return wrong_loader(loaders, ": expected a map with train and test");
}

const char *tli_libai_test_name(const tl_value *loader)
{
    const tl_value *dataset = loader ? tl_value_get(loader, "dataset") : NULL;
    if (dataset && dataset->kind == TL_VALUE_LIST && dataset->count) dataset = dataset->items[0];
    const tl_value *target = dataset ? tl_value_get(dataset, "_target_") : NULL;
    return target && target->kind == TL_VALUE_SCALAR ? tli_last_part(target->text) : "test";
}

/* The number of this one among those of its name, from 1. */
static int64_t number_of(const tl_value *list, int64_t index)
{
    int64_t number = 1;
    const char *name = tli_libai_test_name(list->items[index]);
    for (int64_t i = 0; i < index; i++)
        number += strcmp(tli_libai_test_name(list->items[i]), name) == 0;
    return number;
}

tl_status tli_libai_more_tests(tl_config *c, const tl_value *list)
{
    tl_arena *arena = tl_config_arena(c);
    if (list->kind != TL_VALUE_LIST || list->count < 2) return TL_OK;
    const tl_value **items = tl_arena_array(arena, list->count, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (int64_t i = 1; i < list->count; i++) {
        const tl_value *loader = list->items[i], *data;
        if (loader->kind != TL_VALUE_MAP)
            return wrong_loader(loader, ".test: expected a map for each test loader");
        const int64_t number = number_of(list, i);
        const char *kind = tli_libai_test_name(loader);
        char *name = number > 1 ? tl_arena_printf(arena, "%s_%" PRId64, kind, number)
                                : tl_arena_strdup(arena, kind);
        data = tli_libai_without(arena, loader, "_target_", "_recursive_");
        data = data ? tli_libai_without(arena, data, "dataset", "") : NULL;
        const tl_value *given = tl_value_get(loader, "translated");
        const tl_value_pair pairs[] = {
            {.key = "name",
             .place = loader->place,
             .value = name ? tl_value_new_scalar(arena, loader->place, name, true) : NULL},
            {.key = "data", .place = loader->place, .value = given ? given : data}};
        if (!data || !pairs[0].value) return TL_ENOMEM;
        items[i - 1] = tl_value_new_map(arena, loader->place, pairs, 2);
        if (!items[i - 1]) return TL_ENOMEM;
    }
    const tl_value *tests = tl_value_new_list(arena, list->place, items, list->count - 1);
    const tl_value *map = tests ? one_key(arena, "tests", tests) : NULL;
    return map ? tl_config_apply(c, map) : TL_ENOMEM;
}

static tl_status apply_loaders(tl_config *c, const tl_value *loaders)
{
    TL_TRY(tli_libai_check_loaders(loaders));
    for (int64_t i = 0; i < loaders->count; i++) {
        const char *key;
        const tl_value *value;
        TL_TRY(tli_libai_read_loader(&key, &value, tl_config_arena(c), loaders->pairs[i].key,
                                     loaders->pairs[i].value));
        TL_TRY(apply_to_task(c, key, value));
        if (strcmp(key, "validation_data") == 0)
            TL_TRY(tli_libai_more_tests(c, loaders->pairs[i].value));
    }
    return TL_OK;
}

tl_status tli_libai_apply(tl_config *c, const tl_value *map)
{
    if (!map || map->kind != TL_VALUE_MAP) return tl_config_apply(c, map);
    const tl_value *model = tl_value_get(map, "model"), *loaders = tl_value_get(map, "dataloader");
    const tl_value *rest = tli_libai_without(tl_config_arena(c), map, "model", "dataloader");
    if (!rest) return TL_ENOMEM;
    TL_TRY(tl_config_apply(c, rest));
    if (model) TL_TRY(apply_model(c, model));
    return loaders ? apply_loaders(c, loaders) : TL_OK;
}

tl_status tl_libai_yaml(tl_config *c, const char *text, const char *source)
{
    const tl_value *map;
    TL_TRY(tl_yaml_parse(&map, tl_config_arena(c), text, strlen(text), source));
    return tli_libai_apply(c, map);
}
