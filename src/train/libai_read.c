/* LiBai's `model` and `dataloader` say what the section `task` says: here the one becomes the
 * other, before it is read. Values keep the places where they were written. */
#include <string.h>

#include <tilth/train/libai.h>

#include "train/libai.h"

static const tl_libai_config *value_of(const tl_config *c)
{
    return tl_config_value(c);
}

/* --- maps ------------------------------------------------------------------------------------- */

/* `map` with all keys but these two; NULL when there is no memory. */
static const tl_value *without(tl_arena *arena, const tl_value *map, const char *one,
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
        .key = key, .place = value ? value->place : (tl_place){0}, .value = value};
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
    const tl_value *rest = without(arena, model, "_target_", "_recursive_");
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

static tl_status apply_loaders(tl_config *c, const tl_value *loaders)
{
    if (loaders->kind != TL_VALUE_MAP)
        return wrong_loader(loaders, ": expected a map with train and test");
    for (int64_t i = 0; i < loaders->count; i++) {
        const tl_value *v = loaders->pairs[i].value;
        bool train = strcmp(loaders->pairs[i].key, "train") == 0;
        if (!train && strcmp(loaders->pairs[i].key, "test") != 0)
            return wrong_loader(v, ": unknown key (known: train, test)");
        if (!train && v->kind == TL_VALUE_LIST) {
            if (v->count != 1)
                return wrong_loader(v, ".test: there is one test loader, and a list has one item");
            v = v->items[0];
        }
        const tl_value *rest =
            v->kind == TL_VALUE_MAP ? without(tl_config_arena(c), v, "_target_", "_recursive_") : v;
        if (!rest) return TL_ENOMEM;
        TL_TRY(apply_to_task(c, train ? "train_data" : "validation_data", rest));
    }
    return TL_OK;
}

static tl_status apply_file(tl_config *c, const tl_value *map)
{
    if (!map || map->kind != TL_VALUE_MAP) return tl_config_apply(c, map);
    const tl_value *model = tl_value_get(map, "model"), *loaders = tl_value_get(map, "dataloader");
    const tl_value *rest = without(tl_config_arena(c), map, "model", "dataloader");
    if (!rest) return TL_ENOMEM;
    TL_TRY(tl_config_apply(c, rest));
    if (model) TL_TRY(apply_model(c, model));
    return loaders ? apply_loaders(c, loaders) : TL_OK;
}

tl_status tl_libai_begin(tl_config **out, const tl_registry *registry, const char *path)
{
    const tl_value *map = NULL;
    TL_TRY(tl_config_new(out, registry, &tl_libai_config_desc));
    if (!path || !*path) return TL_OK;
    tl_status st = tl_yaml_read(&map, tl_config_arena(*out), path);
    if (st == TL_OK) st = apply_file(*out, map);
    if (st != TL_OK) tl_config_free(out);
    return st;
}

tl_status tl_libai_yaml(tl_config *c, const char *text, const char *source)
{
    const tl_value *map;
    TL_TRY(tl_yaml_parse(&map, tl_config_arena(c), text, strlen(text), source));
    return apply_file(c, map);
}

/* --- words ------------------------------------------------------------------------------------ */

static const char *after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static const char *past_signs(const char *word)
{
    return word + strspn(word, "+~");
}

/* What of a word follows model._target_= or task.type=; NULL when it is none of them. */
static const char *task_named_by(const char *word)
{
    const char *rest = after(past_signs(word), "model._target_=");
    if (rest) return tli_last_part(rest);
    return after(past_signs(word), "task.type=");
}

/* The word in the words of the section `task`; NULL when there is no memory. */
static const char *translate(tl_arena *arena, const char *word, const char *task)
{
    static const struct {
        const char *from, *to;
    } sections[] = {
        {"model.", "model."},
        {"dataloader.train.", "train_data."},
        {"dataloader.test[0].", "validation_data."},
        {"dataloader.test.", "validation_data."},
    };
    const char *body = past_signs(word), *rest = after(body, "model._target_=");
    int signs = (int)(body - word);
    if (rest) return tl_arena_printf(arena, "%.*stask.type=%s", signs, word, tli_last_part(rest));
    for (int64_t i = 0; i < TL_COUNT(sections); i++)
        if ((rest = after(body, sections[i].from)))
            return tl_arena_printf(arena, "%.*stask.%s.%s%s", signs, word, task, sections[i].to,
                                   rest);
    return word;
}

tl_status tl_libai_words(tl_config *c, const tl_word *words, int64_t count)
{
    tl_arena *arena = tl_config_arena(c);
    const char *task = value_of(c)->task.type;
    tl_word *translated = tl_arena_array(arena, count ? count : 1, sizeof *translated);
    if (!translated) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        const char *named = task_named_by(words[i].text);
        if (named) task = named;
    }
    for (int64_t i = 0; i < count; i++) {
        const char *body = past_signs(words[i].text);
        if (!task && (after(body, "model.") || after(body, "dataloader.")))
            return TL_FAIL(
                TL_EINVAL,
                "%s: this belongs to a task, and none is named: say model._target_=NAME (the "
                "command `list tasks` shows the names)",
                words[i].text);
        translated[i] =
            (tl_word){translate(arena, words[i].text, task ? task : ""), words[i].source};
        if (!translated[i].text) return TL_ENOMEM;
    }
    return tl_config_words(c, translated, count);
}
