#include <tilth/desc/class.h>

#include <string.h>

bool tl_class_has(const tl_class *cls, size_t offset)
{
    void (*slot)(void);
    if (offset + sizeof slot > cls->class_size) return false;
    memcpy(&slot, (const char *)cls + offset, sizeof slot);
    return slot != NULL;
}

const void *tl_class_with(const tl_class *cls, size_t offset)
{
    while (cls && !tl_class_has(cls, offset)) cls = cls->base;
    return cls;
}

bool tl_class_is(const tl_class *cls, const tl_class *base)
{
    while (cls && cls != base) cls = cls->base;
    return cls != NULL;
}

static tl_status verify_chain(const tl_class *cls)
{
    enum { LONGEST = 32 };
    int length = 0;
    for (const tl_class *c = cls; c; c = c->base) {
        if (++length > LONGEST) return TL_FAIL(TL_EINVAL, "its base chain does not end");
        if (c->class_size < sizeof(tl_class))
            return TL_FAIL(TL_EINVAL, "the class_size of '%s' is %zu (start the table with TL_CLASS)",
                           c->name ? c->name : "?", c->class_size);
        if (!c->base) break;
        if (c->size && c->base->size > c->size)
            return TL_FAIL(TL_EINVAL,
                           "its instance has %zu bytes, fewer than the %zu of its base '%s' "
                           "(the base struct must be its first member)",
                           c->size, c->base->size, c->base->name ? c->base->name : "?");
    }
    return TL_OK;
}

static tl_status verify(const tl_kind *kind, const tl_class *cls)
{
    if (cls->class_size > kind->class_size)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "its table has %zu bytes, more than the %zu of its kind: it was compiled against "
                       "a newer Tilth, or has methods of its own",
                       cls->class_size, kind->class_size);
    TL_TRY(verify_chain(cls));
    for (const tl_method *m = kind->methods; m && m->name; m++)
        if (m->required && !tl_class_with(cls, m->offset))
            return TL_FAIL(TL_EINVAL, "it lacks the required method '%s'", m->name);
    if (!cls->config && (kind->config_required || kind->by_config))
        return TL_FAIL(TL_EINVAL, "it lacks a config description");
    if (cls->config) TL_TRY(tl_desc_verify(cls->config));
    if (cls->config && kind->config_base && !tl_desc_is(cls->config, kind->config_base))
        return TL_FAIL(TL_EINVAL, "its config '%s' does not derive from '%s'", cls->config->name,
                       kind->config_base->name);
    return kind->verify ? kind->verify(cls) : TL_OK;
}

tl_status tl_class_verify(const tl_kind *kind, const tl_class *cls)
{
    TL_TRY_NOTE(verify(kind, cls), "%s class '%s'", kind->name, cls->name ? cls->name : "?");
    return TL_OK;
}
