/* gin's life, its switches, and what can be asked of it. */
#include <tilth/desc/gin.h>

#include <string.h>

#include "desc/gin/impl.h"

static const tl_method configurable_methods[] = {
    TL_METHOD(tl_configurable_class, call, false),
    TL_METHOD(tl_configurable_class, free, false),
    {.name = NULL},
};

static tl_status verify_configurable(const tl_class *cls)
{
    if (TL_CLASS_METHOD(tl_configurable_class, cls, call)
        || TL_CLASS_METHOD(tl_configurable_class, cls, stands_for))
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "the required method 'call' is missing");
}

const tl_kind tl_kind_configurable = {
    .name = "configurable",
    .plural = "configurables",
    .help = "what gin and `_target_` can call by name, with parameters bound in text",
    .class_size = sizeof(tl_configurable_class),
    .methods = configurable_methods,
    .verify = verify_configurable,
};

tl_status tl_gin_new(tl_gin **out, tl_registry *registry)
{
    tl_gin *gin = *out = tl_alloc_zero(sizeof *gin);
    if (!gin) return TL_FAIL_NOMEM(sizeof *gin);
    gin->registry = registry;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&gin->arena));
    st = tl_map_set(&gin->constants, "gin.REQUIRED", (void *)(uintptr_t)&tli_gin_required);
done:
    if (st != TL_OK) tl_gin_free(out);
    return st;
}

static void free_sections(tl_map *sections)
{
    for (int64_t i = 0; i < tl_map_count(sections); i++)
        tl_map_deinit(&((tli_gin_section *)tl_map_at(sections, i))->params);
    tl_map_deinit(sections);
}

void tl_gin_free(tl_gin **gin)
{
    tl_gin *g = *gin;
    if (!g) return;
    TL_ASSERT(!g->top && "gin cannot be freed by something that it calls");
    for (int64_t i = g->owned.count; i-- > 0;) g->owned.items[i].free(g->owned.items[i].object);
    TL_VEC_FREE(&g->owned);
    free_sections(&g->config);
    free_sections(&g->operative);
    tl_map *const maps[] = {&g->skip_names, &g->constants, &g->infos,
                            &g->selectors,  &g->interned,  &g->singletons};
    for (int64_t i = 0; i < TL_COUNT(maps); i++) tl_map_deinit(maps[i]);
    TL_VEC_FREE(&g->names);
    TL_VEC_FREE(&g->paths);
    TL_VEC_FREE(&g->imports);
    TL_VEC_FREE(&g->bindings);
    TL_VEC_FREE(&g->scopes);
    tl_arena_free(&g->arena);
    tl_free(g);
    *gin = NULL;
}

tl_registry *tl_gin_registry(const tl_gin *gin)
{
    return gin->registry;
}

void tl_gin_skip_unknown(tl_gin *gin, bool skip)
{
    gin->skip_all = skip;
}

tl_status tl_gin_skip_names(tl_gin *gin, tl_strings names)
{
    for (int64_t i = 0; i < names.count; i++)
        TL_TRY(tl_map_set(&gin->skip_names, names.items[i], NULL));
    return TL_OK;
}

void tl_gin_set_payload(tl_gin *gin, void *payload)
{
    gin->payload = payload;
}

void *tl_gin_payload(const tl_gin *gin)
{
    return gin->payload;
}

void tl_gin_show_sources(tl_gin *gin, bool show)
{
    gin->show_sources = show;
}

bool tl_gin_locked(const tl_gin *gin)
{
    return gin->locked;
}

void tl_gin_unlock(tl_gin *gin)
{
    gin->locked = false;
}

/* --- bindings from C ------------------------------------------------------------------------- */

tl_status tli_gin_add(tl_gin *gin, const tli_gin_binding *binding)
{
    if (gin->locked)
        return tli_gin_at(TL_FAIL(TL_ESTATE,
                                  "'%s%s%s.%s' cannot be bound: the configuration is finalised "
                                  "(tl_gin_unlock opens it again)",
                                  binding->scope, *binding->scope ? "/" : "", binding->selector,
                                  binding->param),
                          binding->place);
    if (strlen(binding->scope) > TLI_GIN_MAX_NAME)
        return tli_gin_at(TL_FAIL(TL_ELIMIT, "the scope '%.40s...' is longer than %d characters",
                                  binding->scope, TLI_GIN_MAX_NAME),
                          binding->place);
    tli_gin_binding *copy = tl_arena_copy(gin->arena, binding, sizeof *binding);
    if (!copy || !TL_VEC_PUSH(&gin->bindings, copy)) return TL_ENOMEM;
    gin->settled = false;
    return TL_OK;
}

/* True for "scope/a.b" with at least one dot, or a name without any. */
static bool is_key(const char *key)
{
    const char *slash = strrchr(key, '/'), *dot = strchr(key, '.');
    if (!tli_gin_is_selector(slash ? slash + 1 : key)) return false;
    return tli_gin_is_scope(key, true) && !(slash && dot && dot < slash);
}

static tl_status not_a_key(const char *key)
{
    return TL_FAIL(TL_EINVAL,
                   "'%s' is not the key of a binding; write 'scope/name.param' or the name "
                   "of a macro",
                   key);
}

tl_status tl_gin_bind(tl_gin *gin, const char *key, const tl_value *value)
{
    if (!is_key(key)) return not_a_key(key);
    tli_gin_binding b = {.home = "", .value = tl_value_copy(gin->arena, value)};
    const char *copy = tl_arena_strdup(gin->arena, key);
    if (!b.value || !copy) return TL_ENOMEM;
    b.place = b.value->place;
    if (!b.place.source) b.place = (tl_place){"the program", 0, 0};
    TL_TRY(tli_gin_split_key(gin, &b, copy));
    b.skippable = gin->skip_all || tl_map_has(&gin->skip_names, b.selector);
    return tli_gin_add(gin, &b);
}

tl_status tl_gin_constant(tl_gin *gin, const char *name, const tl_value *value)
{
    if (!tli_gin_is_selector(name))
        return TL_FAIL(TL_EINVAL, "'%s' is not a name for a constant; write 'module.NAME'", name);
    for (int64_t i = 0; i < tl_map_count(&gin->constants); i++)
        if (tli_gin_ends_with(tl_map_key(&gin->constants, i), name))
            return TL_FAIL(TL_EEXISTS, "the constant '%s' could not be distinguished from '%s'",
                           name, tl_map_key(&gin->constants, i));
    if (tli_gin_holds_names(value))
        return TL_FAIL(TL_EINVAL, "the constant '%s' holds a reference or a macro", name);
    const tl_value *copy = tl_value_copy(gin->arena, value);
    if (!copy) return TL_ENOMEM;
    gin->settled = false;
    return tl_map_set(&gin->constants, name, (void *)(uintptr_t)copy);
}

tl_status tl_gin_constants(tl_gin *gin, const char *enumeration, const char *const *names)
{
    for (; *names; names++) {
        const char *name = tl_arena_printf(gin->arena, "%s.%s", enumeration, *names);
        const tl_value *value = tl_value_new_scalar(gin->arena, (tl_place){0}, *names, true);
        if (!name || !value) return TL_FAIL_NOMEM(strlen(enumeration));
        TL_TRY(tl_gin_constant(gin, name, value));
    }
    return TL_OK;
}

/* --- questions ------------------------------------------------------------------------------- */

/* The binding of a key that has been split, without regard to the scopes around it. */
static tl_status find_binding(tli_gin_binding **out, tl_gin *gin, const tli_gin_binding *wanted)
{
    const tl_class *cls;
    TL_TRY(tli_gin_find(&cls, gin, wanted->selector));
    if (!cls) {
        char suggestion[128];
        return TL_FAIL(TL_ENOTFOUND, "there is no configurable '%s'%s", wanted->selector,
                       tli_gin_suggest(suggestion, sizeof suggestion, gin, wanted->selector));
    }
    const tli_gin_section *s = tli_gin_section_peek(&gin->config, wanted->scope, cls);
    *out = s ? tl_map_get(&s->params, wanted->param) : NULL;
    return TL_OK;
}

tl_status tl_gin_query(const tl_value **out, tl_gin *gin, const char *key)
{
    if (*key == '%') key++;
    if (!is_key(key)) return not_a_key(key);
    TL_TRY(tli_gin_settle(gin));
    TL_TRY(tli_gin_find_constant(out, NULL, gin, key));
    if (*out) return TL_OK;
    tl_arena_mark mark = tl_arena_begin(gin->arena); // the parts of the key are needed for a moment
    tli_gin_binding wanted = {0}, *found = NULL;
    const char *copy = tl_arena_strdup(gin->arena, key);
    tl_status st = copy ? tli_gin_split_key(gin, &wanted, copy) : TL_ENOMEM;
    if (st == TL_OK) st = find_binding(&found, gin, &wanted);
    tl_arena_end(gin->arena, mark);
    if (st == TL_OK && !found) st = TL_FAIL(TL_ENOTFOUND, "nothing is bound to '%s'", key);
    if (found) *out = found->value;
    return st;
}
