#include <string.h>
#include <tilth/sys/core/op.h>

#include <tilth/nn/regularizer.h>

#include "nn/net.h"

tl_scope tli_scope_of(tl_net *net, tl_layer *layer)
{
    return (tl_scope){.net = net, .layer = layer};
}

void *tl_scope_fail(tl_scope *s, const char *name)
{
    if (s->status != TL_OK) return NULL;
    s->status = tl_error_note(tl_error_code(), "%s", name ? name : "a layer without a name");
    s->error = tl_arena_alloc(s->net->arena, sizeof *s->error);
    if (s->error) tl_error_save(s->error);
    return NULL;
}

tl_status tl_scope_status(const tl_scope *s)
{
    if (s->status != TL_OK && s->error) tl_error_restore(s->error);
    return s->status;
}

tl_arena *tl_scope_arena(tl_scope *s)
{
    return s->net->arena;
}

const tl_registry *tl_scope_registry(const tl_scope *s)
{
    return s->net->registry;
}

tl_layer *tl_scope_layer_of(tl_scope *s, const char *name, const tl_oneof *layer)
{
    const tl_class *cls;
    if (s->status != TL_OK) return NULL;
    if (!layer->type) {
        (void)TL_FAIL(TL_EINVAL, "no layer was chosen: 'type' is null");
        return tl_scope_fail(s, name);
    }
    if (tl_registry_find(&cls, s->net->registry, &tl_kind_layer, layer->type) != TL_OK)
        return tl_scope_fail(s, name);
    return tl_scope_layer(s, name, (const tl_layer_class *)cls, layer->value);
}

/* --- layers of a class that is not known ------------------------------------------------------ */

static tl_status give(void *config, const tl_class *cls, const tl_layer_given *g)
{
    const tl_field *f = tl_desc_field(cls->config, g->field);
    if (!f || f->type != g->type || f->arity == TL_LIST)
        return TL_FAIL(TL_EINVAL,
                       "the layer '%s' has no field '%s' such as it is given here; choose a layer "
                       "that has, or make it with @%s()",
                       cls->name, g->field, cls->name);
    void *member = tl_field_at(f, config);
    if (f->type == TL_TYPE_INT && f->arity == TL_OPTIONAL)
        *(tl_opt_int *)member = (tl_opt_int){true, g->i};
    else if (f->type == TL_TYPE_INT) *(int64_t *)member = g->i;
    else if (f->type == TL_TYPE_DOUBLE && f->arity == TL_OPTIONAL)
        *(tl_opt_double *)member = (tl_opt_double){true, g->d};
    else if (f->type == TL_TYPE_DOUBLE) *(double *)member = g->d;
    else if (f->type == TL_TYPE_STRING) *(const char **)member = g->s;
    else *(tl_oneof *)member = *g->choice;
    return TL_OK;
}

static tl_status literal_of(const void **out, tl_arena *arena, const tl_class *cls,
                            const tl_layer_given *given)
{
    *out = NULL;
    if (!cls->config)
        return TL_FAIL(TL_EINVAL, "the layer '%s' describes no configuration", cls->name);
    void *config = tl_arena_alloc(arena, cls->config->size);
    if (!config) return TL_ENOMEM;
    for (const tl_layer_given *g = given; g && g->field; g++)
        if (g->type != TL_TYPE_ONEOF || g->choice->type) TL_TRY(give(config, cls, g));
    *out = config;
    return TL_OK;
}

// What gin is told of a layer that a reference of its makes.
static tl_status note_made(const tl_scope *s, const tl_class *cls, const tl_layer_given *given)
{
    int64_t count = 0;
    while (given && given[count].field) count++;
    const char **names = tl_arena_array(s->net->arena, count + 1, sizeof *names);
    if (!names) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) names[i] = given[i].field;
    return tl_gin_note_made(s->net->args.gin, cls, names);
}

tl_layer *tl_scope_layer_ref(tl_scope *s, const char *name, const tl_ref *ref,
                             const tl_layer_given *given)
{
    tl_gin *gin = s->net->args.gin;
    const void *literal;
    if (s->status != TL_OK) return NULL;
    if (ref->object) return tl_scope_layer_of(s, name, ref->object);
    if (literal_of(&literal, s->net->arena, ref->target, given) != TL_OK)
        return tl_scope_fail(s, name);
    const bool scoped = gin && ref->scope && *ref->scope;
    if (scoped && tl_gin_scope_begin(gin, ref->scope) != TL_OK) return tl_scope_fail(s, name);
    tl_layer *l = note_made(s, ref->target, given) == TL_OK
                      ? tl_scope_layer(s, name, (const tl_layer_class *)ref->target, literal)
                      : tl_scope_fail(s, name);
    if (scoped) tl_gin_scope_end(gin);
    return l;
}

/* --- parameters ------------------------------------------------------------------------------- */

static const char *layer_group(const tl_layer *l)
{
    for (; l; l = l->parent) {
        const tl_desc *desc = tl_class_config(&l->cls->cls);
        if (!desc || !tl_desc_is(desc, &tl_layer_config_desc)) continue;
        const tl_layer_config *config = l->config;
        if (config->group && *config->group) return config->group;
    }
    return "";
}

static tl_status check_param(const tl_scope *s, const char *name, const tl_param_args *args)
{
    if (!s->net->rehearsing)
        return TL_FAIL(
            TL_ESTATE,
            "parameters are declared in 'build' or 'parameters', before the model is used");
    TL_TRY(tli_check_name(s->layer, name));
    return tl_shape_check(&args->shape, "shape");
}

static tl_status copy_choice(tl_scope *s, tl_oneof *to, const tl_oneof *from, const tl_kind *kind)
{
    if (!from || !from->type) return TL_OK;
    // As a struct with one row, so that literals and parsed choices are completed alike.
    const tl_field rows[] = {
        {.name = kind->name,
         .help = "",
         .size = sizeof(tl_oneof),
         .type = TL_TYPE_ONEOF,
         .arity = TL_ONE,
         .kind = kind},
        TL_F_END,
    };
    const tl_desc desc = {.name = "choice", .help = "", .size = sizeof(tl_oneof), .fields = rows};
    return tl_desc_complete(s->net->arena, &desc, to, from, s->net->registry);
}

static tl_status new_param(tl_param **out, tl_scope *s, const char *name, const tl_param_args *args)
{
    tl_arena *arena = s->net->arena;
    tl_layer *l = s->layer;
    TL_TRY(check_param(s, name, args));
    tl_param *p = tl_arena_alloc(arena, sizeof *p);
    tl_tensor *t = tl_arena_alloc(arena, sizeof *t);
    if (!p || !t || !(p->path = tli_path_join(arena, l, name))) return TL_ENOMEM;
    TL_TRY(copy_choice(s, &p->initializer, args->initializer, &tl_kind_initializer));
    TL_TRY(copy_choice(s, &p->regularizer, args->regularizer, &tl_kind_regularizer));
    t->dtype = args->has_dtype ? args->dtype : s->net->storage;
    t->shape = args->shape;
    tl_shape_strides(t->strides, &t->shape);
    t->contiguous = true;
    p->tensor = t;
    p->layer = l;
    p->state = args->state;
    p->trainable = !args->state && !l->frozen && tl_dtype_is_float(t->dtype);
    t->tracked = p->trainable;
    p->group = layer_group(l);
    p->block = -1;
    *out = p;
    return TL_OK;
}

tl_tensor *tl_scope_param(tl_scope *s, const char *name, const tl_param_args *args)
{
    tl_param *p;
    if (s->status != TL_OK) return NULL;
    if (new_param(&p, s, name, args) != TL_OK || !TL_VEC_PUSH(&s->net->params, p))
        return tl_scope_fail(s, name);
    return p->tensor;
}

static tl_status add_alias(tl_scope *s, const char *name, const tl_tensor *parameter)
{
    tl_net *net = s->net;
    tli_alias alias = {0};
    TL_TRY(tli_check_name(s->layer, name));
    while (alias.param < net->params.count && net->params.items[alias.param]->tensor != parameter)
        alias.param++;
    if (alias.param == net->params.count)
        return TL_FAIL(TL_ENOTFOUND, "only a parameter of the same model can be tied");
    alias.path = tli_path_join(net->arena, s->layer, name);
    return alias.path && TL_VEC_PUSH(&net->aliases, alias) ? TL_OK : TL_ENOMEM;
}

void tl_scope_tie(tl_scope *s, const char *name, tl_tensor *parameter)
{
    if (s->status != TL_OK) return;
    if (add_alias(s, name, parameter) != TL_OK) tl_scope_fail(s, name);
}

static tl_status add_item(tl_net *net, const char *name, tl_layer *part)
{
    if (!part) return TL_FAIL(TL_EINVAL, "the part is NULL");
    for (int64_t i = 0; i < net->items.count; i++)
        if (strcmp(net->items.items[i].name, name) == 0)
            return TL_FAIL(TL_EEXISTS, "another part has that name: '%s'",
                           net->items.items[i].part->path);
    tli_item item = {tl_arena_strdup(net->arena, name), part};
    return item.name && TL_VEC_PUSH(&net->items, item) ? TL_OK : TL_ENOMEM;
}

void tl_scope_item(tl_scope *s, const char *name, tl_layer *part)
{
    if (s->status != TL_OK) return;
    if (add_item(s->net, name, part) != TL_OK) tl_scope_fail(s, name);
}
