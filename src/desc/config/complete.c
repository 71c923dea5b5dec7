#include <string.h>
#include <tilth/desc/config.h>

#include "desc/config/apply.h"

bool tli_is_complete(const tl_desc *desc, const void *value)
{
    for (; desc; desc = desc->base)
        if (desc->complete && desc->complete(value)) return true;
    return false;
}

static bool is_zero(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((const char *)bytes)[i]) return false;
    return true;
}

static tl_status fill_in(tl_arena *arena, const tl_desc *desc, void *to, const void *from,
                         const tl_registry *registry);

// A literal names the branch and points at its struct; what was parsed knows its parts already.
static tl_status fill_oneof(tl_arena *arena, const tl_field *f, tl_oneof *to, const tl_oneof *from,
                            const tl_registry *registry)
{
    *to = *from;
    if (from->parts || !from->type) return tli_copy_field(arena, f, to);
    *to = (tl_oneof){0};
    void *value;
    TL_TRY(tl_oneof_select(&value, to, f, from->type, arena, registry));
    return from->value && value ? fill_in(arena, to->desc, value, from->value, registry) : TL_OK;
}

static tl_status fill_list(tl_arena *arena, const tl_field *f, tl_structs *to,
                           const tl_structs *from, const tl_registry *registry)
{
    size_t size = f->desc->size;
    *to = (tl_structs){tl_arena_array(arena, from->count, size), from->count};
    if (!to->items) return TL_ENOMEM;
    for (int64_t i = 0; i < from->count; i++) {
        void *item = (char *)to->items + (size_t)i * size;
        const void *given = (const char *)from->items + (size_t)i * size;
        TL_TRY_NOTE(tl_desc_complete(arena, f->desc, item, given, registry), "%s[%lld]", f->name,
                    (long long)i);
    }
    return TL_OK;
}

// What a member points at; `to` may be a default already.
static tl_status fill_pointer(tl_arena *arena, const tl_field *f, const tl_desc *desc, void **to,
                              const void *from, const tl_registry *registry)
{
    if (!*to) {
        TL_TRY(tl_desc_new(to, arena, desc));
        if (f->init) f->init(*to);
    }
    TL_TRY_NOTE(fill_in(arena, desc, *to, from, registry), "%s", f->name);
    return TL_OK;
}

static tl_status fill_object(tl_arena *arena, const tl_field *f, tl_object *to,
                             const tl_object *from, const tl_registry *registry)
{
    const tl_desc *desc = from->desc ? from->desc : f->desc;
    if (desc != to->desc) *to = (tl_object){desc, NULL};
    if (!desc || !from->value) return TL_OK;
    return fill_pointer(arena, f, desc, &to->value, from->value, registry);
}

// `to` holds defaults; every member of `from` that is not zero takes their place.
static tl_status fill_in(tl_arena *arena, const tl_desc *desc, void *to, const void *from,
                         const tl_registry *registry)
{
    if (tli_is_complete(desc, from)) return tl_desc_copy(arena, desc, to, from);
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) {
        const tl_field *f = r.field;
        void *member = tl_field_at(f, to);
        const void *given = tl_field_at(f, from);
        if (is_zero(given, f->size)) continue;
        if (f->type == TL_TYPE_STRUCT && f->arity == TL_LIST) {
            TL_TRY(fill_list(arena, f, member, given, registry));
        } else if (f->type == TL_TYPE_STRUCT && f->arity == TL_OPTIONAL) {
            TL_TRY(fill_pointer(arena, f, f->desc, member, *(void *const *)given, registry));
        } else if (f->type == TL_TYPE_STRUCT) {
            TL_TRY_NOTE(fill_in(arena, f->desc, member, given, registry), "%s", f->name);
        } else if (f->type == TL_TYPE_OBJECT) {
            TL_TRY(fill_object(arena, f, member, given, registry));
        } else if (f->type == TL_TYPE_ONEOF) {
            TL_TRY_NOTE(fill_oneof(arena, f, member, given, registry), "%s", f->name);
        } else {
            memcpy(member, given, f->size);
            TL_TRY(tli_copy_field(arena, f, member));
        }
    }
    return TL_OK;
}

tl_status tl_desc_complete(tl_arena *arena, const tl_desc *desc, void *to, const void *from,
                           const tl_registry *registry)
{
    TL_TRY(tl_desc_defaults(arena, desc, to));
    return from ? fill_in(arena, desc, to, from, registry) : TL_OK;
}
