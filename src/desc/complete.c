#include <string.h>
#include <tilth/desc/config.h>

#include "desc/apply.h"

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

// `to` holds defaults; every member of `from` that is not zero takes their place.
static tl_status fill_in(tl_arena *arena, const tl_desc *desc, void *to, const void *from,
                         const tl_registry *registry)
{
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) {
        const tl_field *f = r.field;
        void *member = tl_field_at(f, to);
        const void *given = tl_field_at(f, from);
        if (is_zero(given, f->size)) continue;
        if (f->type == TL_TYPE_STRUCT && f->arity == TL_ONE) {
            TL_TRY_NOTE(fill_in(arena, f->desc, member, given, registry), "%s", f->name);
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
