#include <tilth/nn/metric.h>

#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include "nn/configured.h"
#include "nn/metric_impl.h"
#include "nn/weight.h"

static void metric_config_init(void *value)
{
    ((tl_metric_config *)value)->complete = true;
}

static bool metric_config_complete(const void *value)
{
    return ((const tl_metric_config *)value)->complete;
}

static const tl_field metric_fields[] = {
    TL_F(tl_metric_config, name, .s = "", .flags = TL_FIELD_QUIET,
         .help = "in logs; empty: that of the class"),
    TL_F(tl_metric_config, silent, .flags = TL_FIELD_QUIET, .help = "left out of logs"),
    TL_F(tl_metric_config, labels, .flags = TL_FIELD_QUIET,
         .help = "of the elements of a vector; empty: their numbers"),
    TL_F_END,
};
const tl_desc tl_metric_config_desc = {
    .name = "metric",
    .help = "what all metrics have",
    .size = sizeof(tl_metric_config),
    .fields = metric_fields,
    .init = metric_config_init,
    .complete = metric_config_complete,
};

static const tl_method methods[] = {
    TL_METHOD(tl_metric_class, build, false),
    TL_METHOD(tl_metric_class, update, true),
    TL_METHOD(tl_metric_class, result, true),
    TL_METHOD(tl_metric_class, reset, false),
    TL_METHOD(tl_metric_class, tell, false),
    TL_METHOD(tl_metric_class, dispose, false),
    {NULL, 0, false},
};
const tl_kind tl_kind_metric = {
    .name = "metric",
    .plural = "metrics",
    .help = "numbers about many batches",
    .class_size = sizeof(tl_metric_class),
    .methods = methods,
    .config_base = &tl_metric_config_desc,
    .names_are_keys = true,
    TL_INSTANCE(tl_metric),
};

/* --- making ----------------------------------------------------------------------------------- */

// The common part of a metric's configuration; NULL when it has none.
static const tl_metric_config *common_config(const tl_metric *m)
{
    const tl_desc *desc = tl_class_config(&m->cls->cls);
    return desc && tl_desc_is(desc, &tl_metric_config_desc) ? m->config : NULL;
}

static tl_status set_common(tl_metric *m, const char *name)
{
    const tl_metric_config *config = common_config(m);
    m->silent = config && config->silent;
    if (!name && config && config->name && *config->name) name = config->name;
    m->name = tl_arena_strdup(m->arena, name ? name : m->cls->cls.name);
    return m->name ? TL_OK : TL_ENOMEM;
}

static tl_status build(tl_metric *m, const void *config, const char *name)
{
    TL_TRY(tli_configure(&m->config, m->arena, &m->cls->cls, config));
    TL_TRY(set_common(m, name));
    const tl_metric_class *with = TL_CLASS_METHOD(tl_metric_class, m->cls, build);
    return with ? with->build(m) : TL_OK;
}

tl_status tl_metric_new(tl_metric **out, tl_engine *engine, const tl_metric_class *cls,
                        const void *config, const char *name)
{
    tl_arena *arena;
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_metric, &cls->cls));
    TL_TRY(tl_arena_new(&arena));
    tl_metric *m = tl_arena_alloc(arena, size);
    if (!m) {
        tl_arena_free(&arena);
        return TL_ENOMEM;
    }
    m->cls = cls;
    m->engine = engine;
    m->arena = arena;
    tl_status st = build(m, config, name);
    if (st != TL_OK) {
        st = tl_error_note(st, "metric '%s'", m->name ? m->name : cls->cls.name);
        tl_metric_free(&m);
    }
    *out = m;
    return st;
}

tl_status tl_metric_new_of(tl_metric **out, tl_engine *engine, const tl_oneof *metric,
                           const tl_registry *registry, const char *name)
{
    const tl_class *cls;
    *out = NULL;
    TL_TRY(tli_find_class(&cls, registry, &tl_kind_metric, metric));
    return tl_metric_new(out, engine, (const tl_metric_class *)(const void *)cls, metric->value,
                         name);
}

void tl_metric_free(tl_metric **metric)
{
    tl_metric *m = *metric;
    if (!m) return;
    const tl_metric_class *with = TL_CLASS_METHOD(tl_metric_class, m->cls, dispose);
    if (with) with->dispose(m);
    for (int64_t i = 0; i < m->states.count; i++) tl_tensor_free(&m->states.items[i].tensor);
    TL_VEC_FREE(&m->states);
    tl_arena *arena = m->arena;
    tl_arena_free(&arena);
    *metric = NULL;
}

static tl_status add_state(tl_metric *m, const char *name, tl_dtype dtype, tl_shape shape)
{
    if (!name || !*name || strchr(name, '/'))
        return TL_FAIL(TL_EINVAL,
                       "'%s' is not a name for a state: it must be there and hold no '/'",
                       name ? name : "");
    if (tl_tensors_peek(&m->states, name))
        return TL_FAIL(TL_EEXISTS, "there is a state '%s' already", name);
    tl_named state = {tl_arena_strdup(m->arena, name), NULL};
    if (!state.name) return TL_ENOMEM;
    TL_TRY(tl_tensor_new(&state.tensor, m->engine, dtype, shape));
    tl_status st = tl_tensor_clear(state.tensor);
    if (st == TL_OK) st = TL_VEC_PUSH(&m->states, state) ? TL_OK : TL_ENOMEM;
    if (st != TL_OK) tl_tensor_free(&state.tensor);
    return st;
}

tl_tensor *tl_metric_state(tl_metric *m, const char *name, tl_dtype dtype, tl_shape shape)
{
    if (add_state(m, name, dtype, shape) != TL_OK) return NULL;
    return m->states.items[m->states.count - 1].tensor;
}

/* --- using ------------------------------------------------------------------------------------ */

// Goes into the metric's module with taping off; gives what taping was.
static bool enter(tl_metric *m, tl_ctx *c)
{
    tl_ctx_enter(c, m->name);
    return tl_ctx_set_taping(c, false);
}

static void leave(tl_ctx *c, bool taping)
{
    tl_ctx_set_taping(c, taping);
    tl_ctx_leave(c);
}

bool tli_metric_of_values(const tl_metric *m)
{
    return TL_CLASS_METHOD(tl_metric_class, m->cls, of_values) != NULL;
}

// What is lacking, or NULL; what the metric is about must be how it is updated.
static void check_update(const tl_metric *m, tl_ctx *c, bool by_value, const char *lacking)
{
    if (tl_ctx_failed(c)) return;
    if (lacking) (void)TL_FAIL(TL_EINVAL, "metric '%s' was given no %s", m->name, lacking);
    else if (by_value != tli_metric_of_values(m))
        (void)TL_FAIL(TL_EINVAL,
                      by_value
                          ? "metric '%s' is about targets and predictions: tl_metric_update is "
                            "how it is updated"
                          : "metric '%s' is about one tensor: tl_metric_update_value is how it "
                            "is updated",
                      m->name);
    else return;
    tl_ctx_fail(c);
}

static void update(tl_metric *m, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred, tl_tensor *weight)
{
    if (tl_ctx_failed(c)) return;
    bool taping = enter(m, c);
    TL_CLASS_METHOD(tl_metric_class, m->cls, update)->update(m, c, y_true, y_pred, weight);
    leave(c, taping);
}

void tl_metric_update(tl_metric *m, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                      tl_tensor *weight)
{
    check_update(m, c, false, !y_pred ? "predictions" : !y_true ? "targets" : NULL);
    update(m, c, y_true, y_pred, weight);
}

void tl_metric_update_value(tl_metric *m, tl_ctx *c, tl_tensor *value, tl_tensor *weight)
{
    check_update(m, c, true, value ? NULL : "value");
    update(m, c, NULL, value, weight);
}

tl_tensor *tl_metric_result(tl_metric *m, tl_ctx *c)
{
    if (tl_ctx_failed(c)) return NULL;
    bool taping = enter(m, c);
    tl_tensor *r = TL_CLASS_METHOD(tl_metric_class, m->cls, result)->result(m, c);
    if (!r && !tl_ctx_failed(c)) {
        (void)TL_FAIL(TL_EINVAL, "the metric's class '%s' gave no tensor", m->cls->cls.name);
        tl_ctx_fail(c);
    }
    leave(c, taping);
    return tl_ctx_failed(c) ? NULL : r;
}

tl_status tl_metric_number(double *out, tl_metric *m, tl_ctx *c)
{
    TL_TRY(tl_ctx_status(c)); // ending the scope would forget it
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *r = tl_metric_result(m, c);
    tl_status st = tl_ctx_status(c);
    if (st == TL_OK) st = tl_tensor_item(r, out);
    tl_ctx_end(c, mark);
    return st;
}

static const char *element_name(tl_metric *m, tl_ctx *c, int64_t i)
{
    const tl_metric_config *config = common_config(m);
    if (config && i < config->labels.count)
        return tl_arena_printf(tl_ctx_arena(c), "%s/%s", m->name, config->labels.items[i]);
    return tl_arena_printf(tl_ctx_arena(c), "%s/%lld", m->name, (long long)i);
}

static tl_status tell_vector(tl_metric *m, tl_ctx *c, tl_logs *into, tl_tensor *r)
{
    for (int64_t i = 0; i < r->shape.dims[0]; i++) {
        tl_tensor *element = tl_take(c, r, 0, i);
        TL_TRY(tl_ctx_status(c));
        const char *name = element_name(m, c, i);
        if (!name) return TL_ENOMEM;
        TL_TRY(tl_logs_put_tensor(into, name, element));
    }
    return TL_OK;
}

static tl_status tell_result(tl_metric *m, tl_ctx *c, tl_logs *into)
{
    tl_tensor *r = tl_metric_result(m, c);
    TL_TRY(tl_ctx_status(c));
    if (r->shape.rank == 0) return tl_logs_put_tensor(into, m->name, r);
    if (r->shape.rank == 1) return tell_vector(m, c, into, r);
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(
        TL_EINVAL,
        "metric '%s': its result is %s; a scalar or a vector can be told, for others the "
        "class needs 'tell'",
        m->name, tl_tensor_spec(spec, r));
}

tl_status tl_metric_tell(tl_metric *m, tl_ctx *c, tl_logs *into)
{
    TL_TRY(tl_ctx_status(c));
    if (tl_ctx_capturing(c))
        return TL_FAIL(TL_ESTATE,
                       "metric '%s' cannot be told while a function is captured; its result "
                       "(tl_metric_result) can be an output of the function",
                       m->name);
    const tl_metric_class *with = TL_CLASS_METHOD(tl_metric_class, m->cls, tell);
    return with ? with->tell(m, c, into) : tell_result(m, c, into);
}

tl_status tl_metric_reset(tl_metric *m, tl_ctx *c)
{
    TL_TRY(tl_ctx_status(c));
    const tl_metric_class *with = TL_CLASS_METHOD(tl_metric_class, m->cls, reset);
    bool taping = enter(m, c);
    if (with) with->reset(m, c);
    for (int64_t i = 0; i < m->states.count && !with; i++) {
        tl_tensor *s = m->states.items[i].tensor;
        tl_assign(c, s, tl_zeros(c, s->dtype, s->shape));
    }
    leave(c, taping);
    return tl_ctx_status(c);
}

tl_status tl_metric_state_into(const tl_metric *m, tl_state *into)
{
    for (int64_t i = 0; i < m->states.count; i++)
        TL_TRY_NOTE(tl_state_put(into, m->states.items[i].name, m->states.items[i].tensor),
                    "metric '%s'", m->name);
    return TL_OK;
}

/* --- for classes ------------------------------------------------------------------------------ */

void tl_metric_add(tl_ctx *c, tl_tensor *state, tl_tensor *value)
{
    if (tl_ctx_failed(c) || !value) return;
    value = tl_cast(c, value, state->dtype);
    if (value && state->shape.rank == 0 && value->shape.rank)
        value = tl_sum(c, value, TL_ALL, false);
    tl_assign_add(c, state, value);
}

tl_tensor *tl_metric_weights(tl_ctx *c, tl_tensor *values, tl_tensor *weight)
{
    if (tl_ctx_failed(c)) return NULL;
    if (!weight) return tl_ones(c, TL_F64, values->shape);
    weight = tl_cast(c, tli_weight_for(c, values, weight), TL_F64);
    return tl_broadcast_to(c, weight, values->shape);
}

tl_tensor *tl_metric_weighted(tl_ctx *c, tl_tensor *values, tl_tensor *weight)
{
    return tli_weighted(c, tl_cast(c, values, TL_F64), weight);
}

tl_tensor *tl_div_no_nan(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    if (tl_ctx_failed(c)) return NULL;
    tl_tensor *none = tl_equal(c, b, tl_number(c, b->dtype, 0));
    tl_tensor *quotient = tl_div(c, a, tl_where(c, none, tl_number(c, b->dtype, 1), b));
    if (!quotient) return NULL;
    return tl_where(c, none, tl_number(c, quotient->dtype, 0), quotient);
}
