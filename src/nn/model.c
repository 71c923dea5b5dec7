#include <tilth/nn/model.h>

#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/regularizer.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/update.h>

#include "nn/net.h"

/* --- making ----------------------------------------------------------------------------------- */

// Names of layers, initialisers and regularisers that ship, when no registry was given.
static tl_status own_registry(tl_net *net)
{
    if (net->args.registry) {
        net->registry = net->args.registry;
        return TL_OK;
    }
    TL_TRY(tl_registry_new(&net->own_registry));
    net->registry = net->own_registry;
    TL_TRY(tl_registry_add(net->own_registry, &tl_initializers_module));
    TL_TRY(tl_registry_add(net->own_registry, &tl_regularizers_module));
    return tl_registry_add(net->own_registry, &tl_layers_module);
}

static tl_status copy_args(tl_net *net, const tl_model_args *args)
{
    net->args = *args;
    if (!net->args.gin) net->args.gin = tl_gin_current();
    tl_spec *inputs =
        tl_arena_copy(net->arena, args->inputs, (size_t)args->input_count * sizeof *inputs);
    if (!inputs) return TL_ENOMEM;
    for (int64_t i = 0; i < args->input_count; i++)
        if (!(inputs[i].name = tl_arena_strdup(net->arena, inputs[i].name ? inputs[i].name : "x")))
            return TL_ENOMEM;
    net->args.inputs = inputs;
    net->engine = args->engine;
    net->compute = args->dtype;
    net->storage = args->dtype == TL_F64 ? TL_F64 : TL_F32;
    if (!tl_dtype_is_float(args->dtype))
        return TL_FAIL(TL_EINVAL, "a model computes in a floating-point type, not in %s",
                       tl_dtype_name(args->dtype));
    return args->input_count ? TL_OK : TL_FAIL(TL_EINVAL, "a model needs at least one input");
}

// A tensor of the input's type and shape, without elements.
static tl_tensor *rehearsal_input(tl_ctx *c, const tl_spec *input)
{
    if (tl_shape_check(&input->shape, input->name) != TL_OK) return tl_ctx_fail(c);
    tl_tensor *t = tl_ctx_header(c);
    if (!t) return NULL;
    t->dtype = input->dtype;
    t->shape = input->shape;
    tl_shape_strides(t->strides, &t->shape);
    t->contiguous = true;
    return t;
}

// One call without elements, by which every layer learns its shapes and declares its parameters.
static tl_status rehearse(tl_net *net)
{
    tl_ctx *c;
    TL_TRY(tl_ctx_new(&c, net->engine));
    tl_ctx_set_capturing(c, true);
    tl_ctx_set_training(c, true);
    tl_tensors in = {0}, out = {0};
    for (int64_t i = 0; i < net->args.input_count; i++)
        tl_tensors_put(c, &in, net->args.inputs[i].name, rehearsal_input(c, &net->args.inputs[i]));
    net->rehearsing = true;
    if (net->args.input_count == 1 && TL_CLASS_METHOD(tl_layer_class, net->root->cls, forward))
        tl_call(c, net->root, in.items ? in.items[0].tensor : NULL);
    else tl_call_all(c, net->root, &in, &out);
    net->rehearsing = false;
    tli_net_calls_free(net); // they belonged to the rehearsal
    tl_status st = tl_ctx_status(c);
    tl_ctx_free(&c);
    return st;
}

// The paths under which a tied parameter is also known.
static tl_status list_aliases(tl_net *net)
{
    for (int64_t p = 0; p < net->params.count; p++) {
        int64_t count = 0, n = 0;
        for (int64_t i = 0; i < net->aliases.count; i++) count += net->aliases.items[i].param == p;
        const char **list = tl_arena_array(net->arena, count + 1, sizeof *list);
        if (!list) return TL_ENOMEM;
        for (int64_t i = 0; i < net->aliases.count; i++)
            if (net->aliases.items[i].param == p) list[n++] = net->aliases.items[i].path;
        net->params.items[p]->aliases = list;
    }
    return TL_OK;
}

static void net_free(tl_net *net)
{
    if (!net) return;
    if (net->root) tli_layer_dispose(net->root);
    for (int64_t i = 0; i < net->params.count; i++)
        (void)!tl_tensor_place(net->params.items[i]->tensor, NULL, 0); // letting go cannot fail
    tli_blocks_free(&net->blocks);
    TL_VEC_FREE(&net->params);
    TL_VEC_FREE(&net->items);
    TL_VEC_FREE(&net->aliases);
    TL_VEC_FREE(&net->parts);
    tli_net_calls_free(net);
    tl_registry_free(&net->own_registry);
    tl_arena_free(&net->arena);
    tl_free(net);
}

static tl_status net_build(tl_net *net, const tl_model_args *args)
{
    TL_TRY(tl_arena_new(&net->arena));
    TL_TRY(copy_args(net, args));
    TL_TRY(own_registry(net));
    net->rehearsing = true; // `build` may declare parameters too
    TL_TRY(tli_layer_new(&net->root, net, NULL, "", args->cls, args->config));
    TL_TRY(rehearse(net));
    TL_TRY(list_aliases(net));
    return tli_net_lay_out(net);
}

// A model whose values are all zero.
static tl_status new_model(tl_model **out, const tl_model_args *args)
{
    TL_ASSERT(args->engine && args->cls);
    *out = NULL;
    tl_net *net = tl_alloc_zero(sizeof *net);
    if (!net) return TL_FAIL_NOMEM(sizeof *net);
    tl_status st = net_build(net, args);
    if (st != TL_OK) {
        net_free(net);
        return tl_error_note(st, "model '%s'", args->cls->cls.name);
    }
    *out = net->root;
    return TL_OK;
}

tl_status tl_model_new(tl_model **out, const tl_model_args *args)
{
    TL_TRY(new_model(out, args));
    tl_status st = tl_model_initialize(*out, args->seed);
    tl_engine_trim(args->engine); // what was drawn is in its place, and will not be drawn again
    if (st == TL_OK) return TL_OK;
    tl_model_free(out);
    return tl_error_note(st, "model '%s'", args->cls->cls.name);
}

void tl_model_free(tl_model **m)
{
    TL_ASSERT(!*m || !(*m)->parent); // a layer goes with its model
    if (*m) net_free((*m)->net);
    *m = NULL;
}

static void copy_frozen(tl_layer *to, const tl_layer *from)
{
    to->frozen = from->frozen;
    const tl_layer *other = from->first;
    for (tl_layer *child = to->first; child && other; child = child->next, other = other->next)
        copy_frozen(child, other);
}

static tl_status copy_model(tl_net *to, const tl_net *from)
{
    copy_frozen(to->root, from->root);
    for (int64_t i = 0; i < to->params.count; i++) {
        tl_param *p = to->params.items[i];
        p->trainable = p->tensor->tracked = from->params.items[i]->trainable;
        if (!(p->group = tl_arena_strdup(to->arena, from->params.items[i]->group)))
            return TL_ENOMEM;
    }
    TL_TRY(tli_net_lay_out(to));
    for (int64_t b = 0; b < to->blocks.count; b++)
        TL_TRY(tl_tensor_copy(to->blocks.items[b].values, from->blocks.items[b].values));
    return TL_OK;
}

tl_status tl_model_copy(tl_model **out, const tl_model *m)
{
    tl_model_args args = m->net->args;
    args.config = m->net->root->config;
    TL_TRY(new_model(out, &args));
    tl_status st = copy_model((*out)->net, m->net);
    if (st != TL_OK) tl_model_free(out);
    return st;
}

/* --- values ----------------------------------------------------------------------------------- */

static tl_status take_value(const tl_param *p, const char *initializer, const tl_tensor *value)
{
    char wanted[TL_TENSOR_TEXT], given[TL_TENSOR_TEXT];
    if (!value || value->dtype != p->tensor->dtype
        || !tl_shape_equal(&value->shape, &p->tensor->shape))
        return TL_FAIL(TL_EINVAL, "the initializer '%s' made %s, not %s", initializer,
                       value ? tl_tensor_spec(given, value) : "nothing",
                       tl_tensor_spec(wanted, p->tensor));
    return tl_tensor_copy(p->tensor, value);
}

static tl_status initialize_param(tl_net *net, tl_ctx *c, const tl_param *p)
{
    const tl_class *cls;
    const char *name = p->initializer.type ? p->initializer.type : "zeros";
    TL_TRY_NOTE(tl_registry_find(&cls, net->registry, &tl_kind_initializer, name), "%s", p->path);
    const tl_initializer_class *with = TL_CLASS_METHOD(tl_initializer_class, cls, make);
    tl_mark mark = tl_ctx_begin(c);
    tl_ctx_enter(c, p->path); // what is drawn depends on the path, not on the order
    tl_tensor *value = with->make(c, p->initializer.value, p->tensor->dtype, p->tensor->shape);
    tl_ctx_leave(c);
    tl_status st = tl_ctx_status(c);
    if (st == TL_OK && (st = take_value(p, name, value)) != TL_OK)
        st = tl_error_note(st, "%s", p->path);
    tl_ctx_end(c, mark);
    return st;
}

tl_status tl_model_initialize(tl_model *m, uint64_t seed)
{
    tl_net *net = m->net;
    tl_ctx *c;
    TL_TRY(tl_ctx_new(&c, net->engine));
    tl_ctx_set_draws(c, (tl_draws){.seed = seed});
    tl_status st = TL_OK;
    for (int64_t i = 0; i < net->params.count && st == TL_OK; i++) {
        st = initialize_param(net, c, net->params.items[i]);
    }
    tl_ctx_free(&c);
    return st;
}

const tl_spec *tl_model_inputs(const tl_model *m, int64_t *count)
{
    *count = m->net->args.input_count;
    return m->net->args.inputs;
}

bool tl_model_hold_updates(tl_model *m, bool hold)
{
    bool before = m->net->holding;
    m->net->holding = hold;
    if (before != hold) tli_net_calls_drop_updates(m->net); // else they may be of other contexts
    return before;
}

void tl_model_apply_updates(tl_ctx *c, tl_model *m, tl_tensor *finite)
{
    tli_net_call *call = tli_net_call_find(m->net, c);
    bool taping = tl_ctx_set_taping(c, false);
    for (int64_t i = 0; call && i < call->updates.count; i++) {
        const tli_update *u = &call->updates.items[i];
        if (!finite) {
            tl_update_ema(c, u->average, u->value, u->momentum);
            continue;
        }
        // A momentum of 1 leaves the average alone.
        tl_dtype dtype = u->average->dtype;
        tl_tensor *momentum = tl_full(c, dtype, TL_SCALAR, u->momentum);
        tl_tensor *one = tl_full(c, dtype, TL_SCALAR, 1);
        tl_update_ema_by(c, u->average, u->value, tl_where(c, finite, momentum, one));
    }
    if (call) call->updates.count = 0;
    tl_ctx_set_taping(c, taping);
}

static tl_tensor *add_term(tl_ctx *c, tl_tensor *sum, tl_tensor *term)
{
    return sum ? tl_add(c, sum, term) : term;
}

tl_tensor *tl_model_losses(tl_ctx *c, tl_model *m)
{
    tl_net *net = m->net;
    tl_tensor *sum = NULL;
    const tli_net_call *call = tli_net_call_find(net, c);
    for (int64_t i = 0; call && i < call->losses.count; i++)
        sum = add_term(c, sum, call->losses.items[i]);
    for (int64_t i = 0; i < net->params.count; i++) {
        const tl_param *p = net->params.items[i];
        if (!p->regularizer.type || !tli_param_is_awake(net, p) || !tl_model_uses(m, p)) continue;
        const tl_class *cls;
        if (tl_registry_find(&cls, net->registry, &tl_kind_regularizer, p->regularizer.type)
            != TL_OK)
            return tl_ctx_fail(c);
        const tl_regularizer_class *with = TL_CLASS_METHOD(tl_regularizer_class, cls, loss);
        sum = add_term(c, sum, with->loss(c, p->regularizer.value, p->tensor));
    }
    return sum;
}

/* --- looking ---------------------------------------------------------------------------------- */

int64_t tl_model_param_count(const tl_model *m)
{
    return m->net->params.count;
}

const tl_param *tl_model_param(const tl_model *m, int64_t index)
{
    TL_ASSERT(index >= 0 && index < m->net->params.count);
    return m->net->params.items[index];
}

const tl_param *tl_model_find(const tl_model *m, const char *path)
{
    const tl_net *net = m->net;
    for (int64_t i = 0; i < net->params.count; i++)
        if (strcmp(net->params.items[i]->path, path) == 0) return net->params.items[i];
    for (int64_t i = 0; i < net->aliases.count; i++)
        if (strcmp(net->aliases.items[i].path, path) == 0)
            return net->params.items[net->aliases.items[i].param];
    return NULL;
}

int64_t tl_model_item_count(const tl_model *m)
{
    return m->net->items.count;
}

const char *tl_model_item(const tl_model *m, int64_t index, tl_layer **part)
{
    TL_ASSERT(index >= 0 && index < m->net->items.count);
    if (part) *part = m->net->items.items[index].part;
    return m->net->items.items[index].name;
}

tl_model_size tl_model_measure(const tl_model *m)
{
    tl_model_size size = {0};
    for (int64_t i = 0; i < m->net->params.count; i++) {
        const tl_param *p = m->net->params.items[i];
        int64_t count = tl_tensor_count(p->tensor);
        *(p->state ? &size.state : &size.params) += count;
        if (p->trainable) size.trainable += count;
    }
    return size;
}

tl_status tl_model_state(const tl_model *m, tl_state *into)
{
    for (int64_t i = 0; i < m->net->params.count; i++) {
        const tl_param *p = m->net->params.items[i];
        TL_TRY(tl_state_put(into, p->path, p->tensor));
        for (const char *const *alias = p->aliases; *alias; alias++)
            TL_TRY(tl_state_put(into, *alias, p->tensor));
    }
    return TL_OK;
}
