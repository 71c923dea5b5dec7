/* Words that change what a file says in LiBai's words, before anything is made of it. */
#include <stdlib.h>
#include <string.h>

#include <tilth/train/libai/libai.h>

#include "train/libai/libai.h"

/* A change under way: what is left of its path, and what goes there (NULL: it is taken away). */
typedef struct change {
    tl_arena *arena;
    const char *path;
    const tl_value *value;
    const tl_word *word;
    int depth;
} change;

enum { DEEPEST = 64 };

static tl_status wrong(const change *c, const char *why)
{
    return TL_FAIL(TL_EINVAL, "%s: %s: %s", c->word->source, c->word->text, why);
}

/* The first part of the path ("a" of "a.b" and of "a[0]", "0" of "[0].b"), and the rest. */
static tl_status next_part(const change *c, const char **part, const char **rest)
{
    const char *at = c->path;
    bool index = *at == '[';
    size_t length = strcspn(at + index, index ? "]" : ".[=");
    const char *end = at + index + length;
    if (length == 0 || (index && *end != ']')) return wrong(c, "a path is a.b, a[0].b or a.0.b");
    *part = tl_arena_strndup(c->arena, at + index, length);
    if (index) end++;
    if (*end == '.') end++;
    *rest = end;
    return *part ? TL_OK : TL_ENOMEM;
}

static tl_status changed(const tl_value **out, change c, const tl_value *at);

static tl_status in_list(const tl_value **out, change c, const tl_value *list, const char *part)
{
    char *end;
    long index = strtol(part, &end, 10);
    if (*end || index < 0 || index >= list->count)
        return wrong(&c, "the list has no item of that number");
    const tl_value **items = tl_arena_array(c.arena, list->count, sizeof *items);
    int64_t count = 0;
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < list->count; i++) {
        const tl_value *item = list->items[i];
        if (i == index) TL_TRY(changed(&item, c, item));
        if (item) items[count++] = item;
    }
    *out = tl_value_new_list(c.arena, list->place, items, count);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status in_map(const tl_value **out, change c, const tl_value *map, const char *part)
{
    int64_t had = map ? map->count : 0, count = 0;
    bool found = false;
    tl_value_pair *pairs = tl_arena_array(c.arena, had + 1, sizeof *pairs);
    tl_place place = {.source = c.word->source};
    if (!pairs) return TL_ENOMEM;
    for (int64_t i = 0; i < had; i++) {
        tl_value_pair p = map->pairs[i];
        if (strcmp(p.key, part) == 0) {
            found = true;
            TL_TRY(changed(&p.value, c, p.value));
        }
        if (p.value) pairs[count++] = p;
    }
    if (!found && !c.value) return wrong(&c, "there is no such key to remove");
    if (!found) {
        pairs[count] = (tl_value_pair){.key = part, .place = place};
        TL_TRY(changed(&pairs[count].value, c, NULL));
        count++;
    }
    *out = tl_value_new_map(c.arena, map ? map->place : place, pairs, count);
    return *out ? TL_OK : TL_ENOMEM;
}

/* `there` with all pairs of `with`, whose keys are no paths. */
static tl_status merged(const tl_value **out, change c, const tl_value *there, const tl_value *with)
{
    *out = there;
    for (int64_t i = 0; i < with->count; i++) {
        change one = c;
        one.path = "";
        one.value = with->pairs[i].value;
        TL_TRY(in_map(out, one, *out, with->pairs[i].key));
    }
    return TL_OK;
}

/* `at`, which may be NULL, with the change made below it. */
static tl_status changed(const tl_value **out, change c, const tl_value *at)
{
    const char *part = "";
    if (++c.depth > DEEPEST) return wrong(&c, "it is nested too deeply");
    if (!*c.path || *c.path == '=') {
        bool maps = c.value && at && c.value->kind == TL_VALUE_MAP && at->kind == TL_VALUE_MAP;
        if (maps) return merged(out, c, at, c.value);
        *out = c.value;
        return TL_OK;
    }
    TL_TRY(next_part(&c, &part, &c.path));
    if (at && at->kind == TL_VALUE_LIST) return in_list(out, c, at, part);
    if (at && at->kind != TL_VALUE_MAP && !tl_value_is_null(at))
        return wrong(&c, "what stands before the last part is no section");
    return in_map(out, c, at && at->kind == TL_VALUE_MAP ? at : NULL, part);
}

tl_status tli_libai_word_into(const tl_value **tree, tl_arena *arena, const tl_word *word)
{
    const char *body = word->text + strspn(word->text, "+~"), *equals = strchr(body, '=');
    change c = {.arena = arena, .path = body, .word = word};
    if (!equals && *word->text != '~') return wrong(&c, "expected key=value or ~key");
    if (equals)
        TL_TRY_NOTE(tl_word_value(&c.value, arena, equals + 1, word->source), "%s: %.*s",
                    word->source, (int)(equals - body), body);
    return changed(tree, c, *tree);
}
