#include <tilth/nn/layer.h>

#include <string.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/update.h>

#include "nn/configured.h"
#include "nn/fields.h"
#include "nn/net.h"

static void layer_config_init(void *value)
{
    ((tl_layer_config *)value)->complete = true;
}

static bool layer_config_complete(const void *value)
{
    return ((const tl_layer_config *)value)->complete;
}

static const tl_field layer_fields[] = {
    TL_F(tl_layer_config, name, .s = "", .flags = TL_FIELD_QUIET,
         .help = "when who holds the layer gives no other"),
    TL_F(tl_layer_config, frozen, .help = "its parameters are not trained"),
    TL_F(tl_layer_config, group, .s = "",
         .help = "parameter group for optimizers; empty: that of the layer around it"),
    TL_F_END,
};
const tl_desc tl_layer_config_desc = {
    .name = "layer",
    .help = "what all layers have",
    .size = sizeof(tl_layer_config),
    .fields = layer_fields,
    .init = layer_config_init,
    .complete = layer_config_complete,
};

static tl_status verify_layer(const tl_class *cls)
{
    if (TL_CLASS_METHOD(tl_layer_class, cls, forward)
        || TL_CLASS_METHOD(tl_layer_class, cls, forward_all))
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "it has neither 'forward' nor 'forward_all'; one of them is required");
}

static const tl_method layer_methods[] = {
    TL_METHOD(tl_layer_class, build, false),   TL_METHOD(tl_layer_class, parameters, false),
    TL_METHOD(tl_layer_class, forward, false), TL_METHOD(tl_layer_class, forward_all, false),
    TL_METHOD(tl_layer_class, dispose, false), TL_METHOD(tl_layer_class, parameters_all, false),
    TL_METHOD(tl_layer_class, fit, false),     {NULL, 0, false},
};
const tl_kind tl_kind_layer = {
    .name = "layer",
    .plural = "layers",
    .help = "parts of models, and models",
    .class_size = sizeof(tl_layer_class),
    .methods = layer_methods,
    .config_base = &tl_layer_config_desc,
    .names_are_keys = true,
    .verify = verify_layer,
    TL_INSTANCE(tl_layer),
};

/* --- configurations --------------------------------------------------------------------------- */

static tl_status copy_config(tl_net *net, tl_layer *l, const void *config)
{
    const tl_desc *desc = tl_class_config(&l->cls->cls);
    if (!desc) {
        l->config = config;
        return TL_OK;
    }
    void *copy = tl_arena_alloc(net->arena, desc->size);
    if (!copy) return TL_ENOMEM;
    TL_TRY(tl_desc_complete(net->arena, desc, copy, config, net->registry));
    TL_TRY(tl_gin_fill(net->args.gin, l->path, &l->cls->cls, copy, config, net->arena));
    TL_TRY(tli_check_ranges(desc, copy));
    TL_TRY(tl_desc_check(desc, copy));
    l->config = copy;
    if (tl_desc_is(desc, &tl_layer_config_desc))
        l->frozen |= ((const tl_layer_config *)copy)->frozen;
    return TL_OK;
}

// The name that a literal or YAML gives; NULL when there is none.
static const char *name_in(const tl_layer_class *cls, const void *config)
{
    const tl_desc *desc = tl_class_config(&cls->cls);
    if (!config || !desc || !tl_desc_is(desc, &tl_layer_config_desc)) return NULL;
    return ((const tl_layer_config *)config)->name;
}

/* --- making ----------------------------------------------------------------------------------- */

const char *tli_path_join(tl_arena *arena, const tl_layer *l, const char *name)
{
    if (!l || !*l->path) return tl_arena_strdup(arena, name);
    return tl_arena_printf(arena, "%s/%s", l->path, name);
}

// Whether a path is that of `name` in the layer.
static bool is_path_of(const char *path, const tl_layer *l, const char *name)
{
    size_t length = strlen(l->path);
    if (!length) return strcmp(path, name) == 0;
    return strncmp(path, l->path, length) == 0 && path[length] == '/'
           && strcmp(path + length + 1, name) == 0;
}

tl_status tli_check_name(const tl_layer *l, const char *name)
{
    if (!name || !*name || strchr(name, '/'))
        return TL_FAIL(TL_EINVAL, "'%s' is not a name: it must be there and hold no '/'",
                       name ? name : "");
    for (const tl_layer *child = l->first; child; child = child->next)
        if (strcmp(child->name, name) == 0)
            return TL_FAIL(
                TL_EEXISTS,
                "there is a layer of that name already; names are unique within a layer");
    const tl_net *net = l->net;
    bool taken = false;
    for (int64_t i = 0; i < net->params.count; i++)
        taken |= is_path_of(net->params.items[i]->path, l, name);
    for (int64_t i = 0; i < net->aliases.count; i++)
        taken |= is_path_of(net->aliases.items[i].path, l, name);
    return taken ? TL_FAIL(
               TL_EEXISTS,
               "there is a parameter of that name already; names are unique within a layer")
                 : TL_OK;
}

static void add_to_tree(tl_layer *parent, tl_layer *l)
{
    l->parent = parent;
    if (!parent) return;
    if (parent->last) parent->last->next = l;
    else parent->first = l;
    parent->last = l;
}

tl_status tli_layer_new(tl_layer **out, tl_net *net, tl_layer *parent, const char *name,
                        const tl_layer_class *cls, const void *config)
{
    size_t size;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_layer, &cls->cls));
    if (parent) TL_TRY(tli_check_name(parent, name));
    tl_layer *l = tl_arena_alloc(net->arena, size);
    if (!l) return TL_ENOMEM;
    l->cls = cls;
    l->net = net;
    l->frozen = parent && parent->frozen;
    l->name = tl_arena_strdup(net->arena, name);
    l->path = tli_path_join(net->arena, parent, name);
    if (!l->name || !l->path) return TL_ENOMEM;
    TL_TRY(copy_config(net, l, config));
    add_to_tree(parent, l);
    *out = l;
    const tl_layer_class *with = TL_CLASS_METHOD(tl_layer_class, l->cls, build);
    if (!with) return TL_OK;
    tl_scope s = tli_scope_of(net, l);
    TL_TRY(with->build(l, &s, l->config));
    return tl_scope_status(&s);
}

tl_layer *tl_scope_layer(tl_scope *s, const char *name, const tl_layer_class *cls,
                         const void *config)
{
    tl_layer *l = NULL;
    if (s->status != TL_OK) return NULL;
    if (!name) name = name_in(cls, config);
    if (tli_layer_new(&l, s->net, s->layer, name, cls, config) != TL_OK)
        return tl_scope_fail(s, name);
    return l;
}

void tli_layer_dispose(tl_layer *l)
{
    for (tl_layer *child = l->first; child; child = child->next) tli_layer_dispose(child);
    const tl_layer_class *with = TL_CLASS_METHOD(tl_layer_class, l->cls, dispose);
    if (with) with->dispose(l);
}

/* --- calling ---------------------------------------------------------------------------------- */

// Parameters, on the first call. Exactly one of x and `in` is there.
static tl_status declare_parameters(tl_layer *l, const tl_tensor *x, const tl_tensors *in)
{
    const tl_layer_class *one = TL_CLASS_METHOD(tl_layer_class, l->cls, parameters),
                         *all = TL_CLASS_METHOD(tl_layer_class, l->cls, parameters_all);
    if ((one || all) && !l->net->rehearsing)
        return TL_FAIL(TL_ESTATE, "the layer was not called when the model was made, and so has no "
                                  "parameters; call every layer in the model's forward");
    tl_scope s = tli_scope_of(l->net, l);
    if (in && all) TL_TRY(all->parameters_all(l, &s, in));
    else if (one) TL_TRY(one->parameters(l, &s, x ? x : in->items[0].tensor));
    TL_TRY(tl_scope_status(&s));
    l->ready = true;
    return TL_OK;
}

// Whether there is something to call.
static bool can_call(tl_ctx *c, const tl_layer *l, bool with_input)
{
    if (tl_ctx_failed(c)) return false;
    if (l && with_input) return true;
    (void)TL_FAIL(TL_EINVAL, l ? "the layer was called without an input"
                               : "the layer that was called is NULL");
    if (l) (void)tl_error_note(TL_EINVAL, "%s", *l->path ? l->path : l->cls->cls.name);
    tl_ctx_fail(c);
    return false;
}

/* Who calls a layer is noted once: in the rehearsal. */
static void note_user(tli_net_call *call, tl_layer *l)
{
    if (!l->net->rehearsing || !l->net->parts.count) return;
    if (!call->part) call->part = tli_net_part_bit(l->net, l);
    l->users |= call->part;
}

tl_layer *tli_layer_enter(tl_ctx *c, tl_layer *l)
{
    tli_net_call *call = tli_net_call_of(l->net, c);
    tl_layer *outer = call ? call->current : NULL;
    const char *name = l->path;
    if (outer && *outer->path && outer != l && tli_path_under(name, outer->path))
        name += strlen(outer->path) + 1;
    if (!call) tl_ctx_fail(c);
    if (l->parent) tl_ctx_enter(c, name);
    else if (call) tli_net_call_begin(call);
    if (call) call->current = l;
    if (call) note_user(call, l);
    return outer;
}

void tli_layer_leave(tl_ctx *c, tl_layer *l, tl_layer *outer)
{
    tli_net_call *call = tli_net_call_find(l->net, c);
    if (call) call->current = outer;
    if (call && call->part && call->part == tli_net_part_bit(l->net, l)) call->part = 0;
    if (l->parent) tl_ctx_leave(c);
}

static tl_tensor *to_compute(tl_ctx *c, const tl_layer *l, tl_tensor *x)
{
    return x && tl_dtype_is_float(x->dtype) ? tl_cast(c, x, l->net->compute) : x;
}

static void note_shapes(tl_layer *l, const tl_tensor *x, const tl_tensor *y)
{
    if (l->called || !x || !y) return;
    l->called = true;
    l->input = x->shape;
    l->output = y->shape;
}

static tl_tensor *fail_empty(tl_ctx *c, const tl_layer *l)
{
    if (tl_ctx_failed(c)) return NULL;
    (void)TL_FAIL(TL_EINVAL, "the layer's class '%s' gave no tensor", l->cls->cls.name);
    return tl_ctx_fail(c);
}

// The one tensor that a layer with names gives: its first.
static tl_tensor *call_by_name(tl_ctx *c, tl_layer *l, tl_tensor *x)
{
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(c, &in, "x", x);
    tl_call_all(c, l, &in, &out);
    return tl_ctx_failed(c) ? NULL : out.items[0].tensor;
}

tl_tensor *tl_call(tl_ctx *c, tl_layer *l, tl_tensor *x)
{
    if (!can_call(c, l, x)) return NULL;
    const tl_layer_class *with = TL_CLASS_METHOD(tl_layer_class, l->cls, forward);
    if (!with) return call_by_name(c, l, x);
    tl_layer *outer = tli_layer_enter(c, l);
    tl_tensor *y = NULL;
    x = to_compute(c, l, x);
    if (x && !l->ready && declare_parameters(l, x, NULL) != TL_OK) x = tl_ctx_fail(c);
    if (x && !(y = with->forward(l, c, x))) fail_empty(c, l);
    if (tl_ctx_failed(c)) y = NULL;
    note_shapes(l, x, y);
    tli_layer_leave(c, l, outer);
    return y;
}

static bool prepare_all(tl_ctx *c, tl_layer *l, const tl_tensors *in, tl_tensors *cast)
{
    for (int64_t i = 0; i < in->count; i++)
        if (can_call(c, l, in->items[i].tensor))
            tl_tensors_put(c, cast, in->items[i].name, to_compute(c, l, in->items[i].tensor));
    if (tl_ctx_failed(c)) return false;
    if (!l->ready && declare_parameters(l, NULL, cast) != TL_OK) tl_ctx_fail(c);
    return !tl_ctx_failed(c);
}

static void fail_several(tl_ctx *c, const tl_tensors *in)
{
    tl_str names = TL_STR_INIT;
    for (int64_t i = 0; i < in->count; i++)
        tl_str_addf(&names, "%s'%s'", i ? ", " : "", in->items[i].name);
    (void)TL_FAIL(TL_EINVAL,
                  "the layer takes one tensor and was given %lld: %s; a class that takes several "
                  "has forward_all",
                  (long long)in->count, tl_str_text(&names));
    tl_str_deinit(&names);
    tl_ctx_fail(c);
}

// A layer that knows no names.
static void forward_one(tl_ctx *c, tl_layer *l, const tl_tensors *in, tl_tensors *out)
{
    if (in->count > 1) {
        fail_several(c, in);
        return;
    }
    const tl_layer_class *with = TL_CLASS_METHOD(tl_layer_class, l->cls, forward);
    tl_tensor *y = with->forward(l, c, in->items[0].tensor);
    if (y) tl_tensors_put(c, out, "y", y);
}

void tl_call_all(tl_ctx *c, tl_layer *l, const tl_tensors *in, tl_tensors *out)
{
    if (!can_call(c, l, in->count)) return;
    tl_layer *outer = tli_layer_enter(c, l);
    tl_tensors cast = {0};
    int64_t before = out->count;
    const tl_layer_class *with = TL_CLASS_METHOD(tl_layer_class, l->cls, forward_all);
    if (prepare_all(c, l, in, &cast)) {
        if (with) with->forward_all(l, c, &cast, out);
        else forward_one(c, l, &cast, out);
        if (!out->count) fail_empty(c, l);
    }
    if (!tl_ctx_failed(c))
        note_shapes(l, cast.items[0].tensor, out->items[before < out->count ? before : 0].tensor);
    tli_layer_leave(c, l, outer);
}

tl_tensor *tl_layer_value(tl_ctx *c, const tl_layer *l, tl_tensor *parameter)
{
    return to_compute(c, l, parameter);
}

tl_tensor *tl_layer_param(const tl_layer *l, const char *name)
{
    const tl_net *net = l->net;
    for (int64_t i = 0; i < net->params.count; i++)
        if (is_path_of(net->params.items[i]->path, l, name)) return net->params.items[i]->tensor;
    return NULL;
}

void tl_layer_update(tl_ctx *c, tl_layer *l, tl_tensor *average, tl_tensor *value, double momentum)
{
    if (!l->net->holding) {
        tl_update_ema(c, average, value, momentum);
        return;
    }
    tli_net_call *call = value ? tli_net_call_of(l->net, c) : NULL;
    if (value && (!call || !TL_VEC_PUSH(&call->updates, ((tli_update){average, value, momentum}))))
        tl_ctx_fail(c);
}

void tl_layer_add_loss(tl_ctx *c, tl_layer *l, tl_tensor *loss)
{
    tli_net_call *call = loss ? tli_net_call_of(l->net, c) : NULL;
    if (loss && (!call || !TL_VEC_PUSH(&call->losses, loss))) tl_ctx_fail(c);
}
