#include <tilth/nn/layer.h>

#include <string.h>
#include <tilth/ops/elementwise.h>

#include "nn/net.h"

static const tl_field layer_fields[] = {
    TL_F(tl_layer_config, frozen, .help = "its parameters are not trained"),
    TL_F(tl_layer_config, group, .s = "", .help = "parameter group for optimizers"),
    TL_F_END,
};
const tl_desc tl_layer_config_desc = {.name = "layer", .help = "what all layers have",
                                      .size = sizeof(tl_layer_config), .fields = layer_fields};

static tl_status verify_layer(const tl_class *cls)
{
    if (tl_class_with(cls, offsetof(tl_layer_class, forward))
        || tl_class_with(cls, offsetof(tl_layer_class, forward_all)))
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "it has neither 'forward' nor 'forward_all'; one of them is required");
}

static const tl_method layer_methods[] = {
    TL_METHOD(tl_layer_class, build, false),   TL_METHOD(tl_layer_class, parameters, false),
    TL_METHOD(tl_layer_class, forward, false), TL_METHOD(tl_layer_class, forward_all, false),
    TL_METHOD(tl_layer_class, dispose, false), {NULL, 0, false},
};
const tl_kind tl_kind_layer = {
    .name = "layer",
    .plural = "layers",
    .help = "parts of models, and models",
    .class_size = sizeof(tl_layer_class),
    .methods = layer_methods,
    .names_are_keys = true,
    .verify = verify_layer,
};

/* --- making --------------------------------------------------------------------------------------- */

static const char *path_below(tl_arena *arena, const tl_layer *parent, const char *name)
{
    if (!parent || !*parent->path) return tl_arena_strdup(arena, name);
    return tl_arena_printf(arena, "%s/%s", parent->path, name);
}

static void add_to_tree(tl_layer *parent, tl_layer *l)
{
    l->parent = parent;
    if (!parent) return;
    if (parent->last)
        parent->last->next = l;
    else
        parent->first = l;
    parent->last = l;
}

static tl_status check_name(const tl_layer *parent, const char *name)
{
    if (!*name || strchr(name, '/'))
        return TL_FAIL(TL_EINVAL, "'%s' is not a layer's name: it must be there and hold no '/'", name);
    for (const tl_layer *l = parent->first; l; l = l->next)
        if (strcmp(l->name, name) == 0)
            return TL_FAIL(TL_EEXISTS, "there is a layer '%s' already; names are unique within a layer", name);
    return TL_OK;
}

static tl_status copy_config(tl_net *net, tl_layer *l, const void *config)
{
    const tl_desc *desc = l->cls->cls.config;
    if (!desc) {
        l->config = config;
        return TL_OK;
    }
    void *copy = tl_arena_alloc(net->arena, desc->size);
    if (!copy) return TL_ENOMEM;
    TL_TRY(tl_desc_complete(net->arena, desc, copy, config, net->registry));
    l->config = copy;
    if (tl_desc_is(desc, &tl_layer_config_desc)) l->frozen |= ((const tl_layer_config *)copy)->frozen;
    return TL_OK;
}

tl_status tli_layer_new(tl_layer **out, tl_net *net, tl_layer *parent, const char *name,
                        const tl_layer_class *cls, const void *config)
{
    if (parent) TL_TRY(check_name(parent, name));
    tl_layer *l = tl_arena_alloc(net->arena, cls->cls.size);
    if (!l) return TL_ENOMEM;
    l->cls = cls;
    l->net = net;
    l->frozen = parent && parent->frozen;
    l->name = tl_arena_strdup(net->arena, name);
    l->path = path_below(net->arena, parent, name);
    if (!l->name || !l->path) return TL_ENOMEM;
    TL_TRY(copy_config(net, l, config));
    add_to_tree(parent, l);
    *out = l;
    const tl_layer_class *with = TLI_LAYER_METHOD(l, build);
    if (!with) return TL_OK;
    tl_scope s = tli_scope_of(net, l);
    TL_TRY(with->build(l, &s, l->config));
    return tl_scope_status(&s);
}

void tli_layer_dispose(tl_layer *l)
{
    for (tl_layer *child = l->first; child; child = child->next) tli_layer_dispose(child);
    const tl_layer_class *with = TLI_LAYER_METHOD(l, dispose);
    if (with) with->dispose(l);
}

/* --- calling -------------------------------------------------------------------------------------- */

static tl_status declare_parameters(tl_layer *l, const tl_tensor *x)
{
    if (!l->net->rehearsing)
        return TL_FAIL(TL_ESTATE, "the layer was not called when the model was made, and so has no "
                                  "parameters; call every layer in the model's forward");
    const tl_layer_class *with = TLI_LAYER_METHOD(l, parameters);
    if (with) {
        tl_scope s = tli_scope_of(l->net, l);
        TL_TRY(with->parameters(l, &s, x));
        TL_TRY(tl_scope_status(&s));
    }
    l->ready = true;
    return TL_OK;
}

// Parameters once, on the first call; then the input in the type of computation.
static tl_tensor *prepare(tl_ctx *c, tl_layer *l, tl_tensor *x)
{
    if (!x || tl_ctx_failed(c)) return NULL;
    if (tl_dtype_is_float(x->dtype)) x = tl_cast(c, x, l->net->compute);
    if (x && !l->ready && declare_parameters(l, x) != TL_OK) return tl_ctx_fail(c);
    return x;
}

static void note_shapes(tl_layer *l, const tl_tensor *x, const tl_tensor *y)
{
    if (l->called || !x || !y) return;
    l->called = true;
    l->input = x->shape;
    l->output = y->shape;
}

static void enter(tl_ctx *c, tl_layer *l)
{
    if (l->parent)
        tl_ctx_enter(c, l->name);
    else
        l->net->losses.count = 0; // the model's own call begins
}

static void leave(tl_ctx *c, const tl_layer *l)
{
    if (l->parent) tl_ctx_leave(c);
}

// The one tensor that a layer with names gives: its first.
static tl_tensor *forward_by_name(tl_ctx *c, tl_layer *l, tl_tensor *x)
{
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(c, &in, "x", x);
    TLI_LAYER_METHOD(l, forward_all)->forward_all(l, c, &in, &out);
    if (tl_ctx_failed(c)) return NULL;
    if (out.count) return out.items[0].tensor;
    (void)TL_FAIL(TL_EINVAL, "the layer gave no output");
    return tl_ctx_fail(c);
}

tl_tensor *tl_call(tl_ctx *c, tl_layer *l, tl_tensor *x)
{
    if (!l || tl_ctx_failed(c)) return NULL;
    enter(c, l);
    tl_tensor *y = NULL;
    if ((x = prepare(c, l, x))) {
        const tl_layer_class *with = TLI_LAYER_METHOD(l, forward);
        y = with ? with->forward(l, c, x) : forward_by_name(c, l, x);
    }
    note_shapes(l, x, y);
    leave(c, l);
    return y;
}

static bool cast_all(tl_ctx *c, tl_layer *l, const tl_tensors *in, tl_tensors *cast)
{
    for (int64_t i = 0; i < in->count; i++)
        tl_tensors_put(c, cast, in->items[i].name, prepare(c, l, in->items[i].tensor));
    return !tl_ctx_failed(c);
}

void tl_call_all(tl_ctx *c, tl_layer *l, const tl_tensors *in, tl_tensors *out)
{
    if (!l || tl_ctx_failed(c)) return;
    enter(c, l);
    tl_tensors cast = {0};
    const tl_layer_class *with = TLI_LAYER_METHOD(l, forward_all);
    if (!in->count) {
        (void)TL_FAIL(TL_EINVAL, "the layer was called without inputs");
        tl_ctx_fail(c);
    } else if (cast_all(c, l, in, &cast)) {
        if (with)
            with->forward_all(l, c, &cast, out);
        else
            tl_tensors_put(c, out, "y", TLI_LAYER_METHOD(l, forward)->forward(l, c, cast.items[0].tensor));
    }
    note_shapes(l, cast.count ? cast.items[0].tensor : NULL, out->count ? out->items[0].tensor : NULL);
    leave(c, l);
}

tl_tensor *tl_layer_value(tl_ctx *c, const tl_layer *l, tl_tensor *parameter)
{
    return parameter ? tl_cast(c, parameter, l->net->compute) : NULL;
}

void tl_layer_add_loss(tl_ctx *c, tl_layer *l, tl_tensor *loss)
{
    if (loss && !TL_VEC_PUSH(&l->net->losses, loss)) tl_ctx_fail(c);
}
