#include <tilth/desc/class.h>

#include <string.h>

/* The function pointer in a slot; false when the table was compiled without that slot or it is NULL. */
static bool has_method(const tl_class *cls, size_t offset)
{
    void (*method)(void);
    if (offset + sizeof method > cls->class_size) return false;
    memcpy(&method, (const char *)cls + offset, sizeof method);
    return method != NULL;
}

const void *tl_class_with(const tl_class *cls, size_t offset)
{
    while (cls && !has_method(cls, offset)) cls = cls->base;
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
    for (const tl_class *c = cls; c->base; c = c->base) {
        if (++length > LONGEST) return TL_FAIL(TL_EINVAL, "its base chain does not end");
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
    if (cls->class_size < sizeof(tl_class))
        return TL_FAIL(TL_EINVAL, "its class_size is %zu (start the table with TL_CLASS)",
                       cls->class_size);
    if (cls->class_size > kind->class_size)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "it was compiled against a newer Tilth: its table has %zu bytes, ours %zu",
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
    return TL_OK;
}

tl_status tl_class_verify(const tl_kind *kind, const tl_class *cls)
{
    TL_TRY_NOTE(verify(kind, cls), "%s class '%s'", kind->name, cls->name ? cls->name : "?");
    return TL_OK;
}
