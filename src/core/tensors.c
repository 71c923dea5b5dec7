#include <tilth/core/tensors.h>

#include <string.h>

#include "core/inner/ctx.h"

static tl_named *find(const tl_tensors *list, const char *name)
{
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0) return &list->items[i];
    return NULL;
}

static bool grow(tl_ctx *c, tl_tensors *list)
{
    if (list->count < list->capacity) return true;
    int64_t capacity = list->capacity ? list->capacity * 2 : 8;
    tl_named *items = tl_arena_array(tl_ctx_arena(c), capacity, sizeof *items);
    if (!items) return false;
    if (list->count) memcpy(items, list->items, (size_t)list->count * sizeof *items);
    list->items = items;
    list->capacity = capacity;
    TL_ASSERT(list->count < list->capacity);
    return true;
}

void tl_tensors_put(tl_ctx *c, tl_tensors *list, const char *name, tl_tensor *t)
{
    tl_named *there = find(list, name);
    if (there) there->tensor = t;
    else if (grow(c, list)) list->items[list->count++] = (tl_named){name, t};
    else tl_ctx_fail(c);
}

tl_tensor *tl_tensors_peek(const tl_tensors *list, const char *name)
{
    const tl_named *there = find(list, name);
    return there ? there->tensor : NULL;
}

tl_tensor *tl_tensors_get(tl_ctx *c, const tl_tensors *list, const char *name)
{
    const tl_named *there = find(list, name);
    if (there) return there->tensor;
    if (tl_ctx_failed(c)) return NULL;
    tl_str names = TL_STR_INIT;
    for (int64_t i = 0; i < list->count; i++)
        tl_str_addf(&names, "%s'%s'", i ? ", " : "", list->items[i].name);
    (void)TL_FAIL(TL_ENOTFOUND, "there is no tensor '%s'%s%s", name,
                  list->count ? "; there are " : "", tl_str_text(&names));
    tl_str_deinit(&names);
    return tl_ctx_fail(c);
}

tl_tensors *tl_ctx_set_log(tl_ctx *c, tl_tensors *log)
{
    tl_tensors *before = c->log;
    c->log = log;
    return before;
}

void tl_ctx_log(tl_ctx *c, const char *name, tl_tensor *t)
{
    if (c->log && t) tl_tensors_put(c, c->log, name, t);
}
