#include "nn/configured.h"

#include <tilth/desc/gin.h>

tl_status tli_configure(const void **out, tl_arena *arena, const tl_class *cls, const void *config)
{
    const tl_desc *desc = tl_class_config(cls);
    *out = config;
    if (!desc) return TL_OK;
    void *copy = tl_arena_alloc(arena, desc->size);
    if (!copy) return TL_ENOMEM;
    TL_TRY(tl_desc_complete(arena, desc, copy, config, NULL));
    TL_TRY(tl_gin_fill(tl_gin_current(), "", cls, copy, config, arena));
    TL_TRY(tli_check_ranges(desc, copy));
    TL_TRY(tl_desc_check(desc, copy));
    *out = copy;
    return TL_OK;
}

tl_status tli_find_class(const tl_class **out, const tl_registry *registry, const tl_kind *kind,
                         const tl_oneof *choice)
{
    if (!choice->type)
        return TL_FAIL(TL_EINVAL, "no %s is chosen; give its type, as in 'type: ...'", kind->name);
    return tl_registry_find(out, registry, kind, choice->type);
}
