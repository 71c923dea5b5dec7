#include <tilth/desc/class.h>

#include <string.h>

bool tl_class_has(const tl_class *cls, size_t offset, size_t size)
{
    const char *slot = (const char *)cls + offset;
    if (offset + size > cls->class_size) return false;
    for (size_t i = 0; i < size; i++)
        if (slot[i]) return true;
    return false;
}

const void *tl_class_with(const tl_class *cls, size_t offset, size_t size)
{
    while (cls && !tl_class_has(cls, offset, size)) cls = cls->base;
    return cls;
}

const tl_desc *tl_class_config(const tl_class *cls)
{
    while (cls && !cls->config) cls = cls->base;
    return cls ? cls->config : NULL;
}

bool tl_class_is(const tl_class *cls, const tl_class *base)
{
    while (cls && cls != base) cls = cls->base;
    return cls != NULL;
}

static const char *name_of(const tl_class *cls)
{
    return cls->name ? cls->name : "?";
}

/* Of an instance: what the nearest class that says something says; `least` when none does. */
static size_t size_of(const tl_class *cls, size_t least)
{
    while (cls && !cls->size) cls = cls->base;
    return cls ? cls->size : least;
}

static tl_status verify_chain(const tl_class *cls)
{
    enum { LONGEST = 32 };
    int length = 0;
    for (const tl_class *c = cls; c; c = c->base) {
        if (++length > LONGEST) return TL_FAIL(TL_EINVAL, "its base chain does not end");
        if (c->class_size < sizeof(tl_class))
            return TL_FAIL(TL_EINVAL,
                           "the class_size of '%s' is %zu (start the table with TL_CLASS)",
                           name_of(c), c->class_size);
    }
    return TL_OK;
}

/* A base's methods write to members that an instance must have. */
static tl_status verify_size(const tl_kind *kind, const tl_class *cls)
{
    size_t size = size_of(cls, kind->instance_size);
    for (const tl_class *base = cls->base; base; base = base->base)
        if (size < base->size)
            return TL_FAIL(TL_EINVAL,
                           "its instances have %zu bytes, fewer than the %zu of its base '%s': let "
                           "their struct begin with that of the base, or leave the size 0, which "
                           "takes that of the base",
                           size, base->size, name_of(base));
    if (size >= kind->instance_size) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "its instances have %zu bytes, fewer than the %zu of a %s: their struct must "
                   "begin with a %s",
                   size, kind->instance_size, kind->instance, kind->instance);
}

/* One that adds no fields to its base asks for no more than that. */
static const tl_desc *with_fields(const tl_desc *desc)
{
    while (desc && desc->base && (!desc->fields || !desc->fields->name)) desc = desc->base;
    return desc;
}

/* A base's methods read members that a config must have. */
static tl_status verify_configs(const tl_class *cls)
{
    for (const tl_class *base = cls->base; cls->config && base; base = base->base) {
        const tl_desc *wanted = with_fields(base->config);
        if (wanted && !tl_desc_is(cls->config, wanted))
            return TL_FAIL(TL_EINVAL,
                           "its config '%s' does not derive from '%s', the config of its base '%s'",
                           cls->config->name, wanted->name, name_of(base));
    }
    return TL_OK;
}

/* What must hold of a class before one of its methods is called. */
static tl_status verify_table(const tl_kind *kind, const tl_class *cls)
{
    if (cls->class_size > kind->class_size)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "its table has %zu bytes, more than the %zu of its kind: it was compiled "
                       "against a newer Tilth, or has methods of its own",
                       cls->class_size, kind->class_size);
    TL_TRY(verify_chain(cls));
    TL_TRY(verify_size(kind, cls));
    TL_TRY(verify_configs(cls));
    for (const tl_method *m = kind->methods; m && m->name; m++)
        if (m->required && !tl_class_with(cls, m->offset, sizeof(void (*)(void))))
            return TL_FAIL(TL_EINVAL, "it lacks the required method '%s'", m->name);
    return kind->verify ? kind->verify(cls) : TL_OK;
}

static tl_status verify(const tl_kind *kind, const tl_class *cls)
{
    TL_TRY(verify_table(kind, cls));
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
    TL_TRY_NOTE(verify(kind, cls), "%s class '%s'", kind->name, name_of(cls));
    return TL_OK;
}

tl_status tl_class_instance_size(size_t *out, const tl_kind *kind, const tl_class *cls)
{
    *out = 0;
    TL_TRY_NOTE(verify_table(kind, cls), "%s class '%s'", kind->name, name_of(cls));
    *out = size_of(cls, kind->instance_size);
    return TL_OK;
}
