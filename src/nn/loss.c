#include <tilth/nn/loss.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

#include "nn/configured.h"
#include "nn/weight.h"

const char *const tl_reduction_names[] = {
    "sum_over_batch_size", "sum", "none", "mean", "mean_with_sample_weight", "auto", NULL,
};

static void loss_config_init(void *value)
{
    ((tl_loss_config *)value)->complete = true;
}

static bool loss_config_complete(const void *value)
{
    return ((const tl_loss_config *)value)->complete;
}

static const tl_field loss_fields[] = {
    TL_F(tl_loss_config, name, .s = "", .flags = TL_FIELD_QUIET,
         .help = "in logs; empty: that of the class"),
    TL_F(tl_loss_config, reduction, .names = tl_reduction_names,
         .help = "what becomes of the values of examples"),
    TL_F_END,
};
const tl_desc tl_loss_config_desc = {
    .name = "loss",
    .help = "what all losses have",
    .size = sizeof(tl_loss_config),
    .fields = loss_fields,
    .init = loss_config_init,
    .complete = loss_config_complete,
};

static const tl_method methods[] = {
    TL_METHOD(tl_loss_class, call, true),
    TL_METHOD(tl_loss_class, build, false),
    TL_METHOD(tl_loss_class, dispose, false),
    {NULL, 0, false},
};
const tl_kind tl_kind_loss = {
    .name = "loss",
    .plural = "losses",
    .help = "how far predictions are from targets",
    .class_size = sizeof(tl_loss_class),
    .methods = methods,
    .config_base = &tl_loss_config_desc,
    .names_are_keys = true,
    TL_INSTANCE(tl_loss),
};

/* --- making ----------------------------------------------------------------------------------- */

static tl_status build(tl_loss *l, const void *config, const char *name)
{
    const tl_class *cls = &l->cls->cls;
    const tl_desc *desc = tl_class_config(cls);
    TL_TRY(tli_configure(&l->config, l->arena, cls, config));
    if (desc && tl_desc_is(desc, &tl_loss_config_desc)) {
        const tl_loss_config *common = l->config;
        l->reduction = common->reduction;
        if (!name && common->name && *common->name) name = common->name;
    }
    l->name = tl_arena_strdup(l->arena, name ? name : cls->name);
    if (!l->name) return TL_ENOMEM;
    const tl_loss_class *with = TL_CLASS_METHOD(tl_loss_class, l->cls, build);
    return with ? with->build(l) : TL_OK;
}

tl_status tl_loss_new(tl_loss **out, const tl_loss_class *cls, const void *config, const char *name)
{
    tl_arena *arena;
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_loss, &cls->cls));
    TL_TRY(tl_arena_new(&arena));
    tl_loss *l = tl_arena_alloc(arena, size);
    if (!l) {
        tl_arena_free(&arena);
        return TL_ENOMEM;
    }
    l->cls = cls;
    l->arena = arena;
    tl_status st = build(l, config, name);
    if (st != TL_OK) {
        st = tl_error_note(st, "loss '%s'", l->name ? l->name : cls->cls.name);
        tl_loss_free(&l);
    }
    *out = l;
    return st;
}

tl_status tl_loss_new_of(tl_loss **out, const tl_oneof *loss, const tl_registry *registry,
                         const char *name)
{
    const tl_class *cls;
    *out = NULL;
    TL_TRY(tli_find_class(&cls, registry, &tl_kind_loss, loss));
    return tl_loss_new(out, (const tl_loss_class *)(const void *)cls, loss->value, name);
}

void tl_loss_free(tl_loss **loss)
{
    if (!*loss) return;
    const tl_loss_class *with = TL_CLASS_METHOD(tl_loss_class, (*loss)->cls, dispose);
    if (with) with->dispose(*loss);
    tl_arena *arena = (*loss)->arena;
    tl_arena_free(&arena);
    *loss = NULL;
}

/* --- one function ----------------------------------------------------------------------------- */

typedef struct function_loss {
    tl_loss base;
    tl_loss_fn *fn;
    void *payload;
} function_loss;

static tl_tensor *function_call(tl_loss *l, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred)
{
    function_loss *f = (function_loss *)l;
    return f->fn(f->payload, c, y_true, y_pred);
}

static const tl_loss_class function_class = {
    .cls = TL_CLASS(tl_loss_class, "function", NULL, function_loss, NULL,
                    .help = "a function of the program"),
    .call = function_call,
};

tl_status tl_loss_from_function(tl_loss **out, tl_loss_fn *fn, void *payload, const char *name,
                                tl_reduction reduction)
{
    *out = NULL;
    if ((unsigned)reduction > TL_REDUCTION_AUTO)
        return TL_FAIL(TL_EINVAL, "loss '%s': %d is no reduction", name ? name : "function",
                       (int)reduction);
    TL_TRY(tl_loss_new(out, &function_class, NULL, name));
    function_loss *f = (function_loss *)*out;
    f->fn = fn;
    f->payload = payload;
    f->base.reduction = reduction;
    return TL_OK;
}

/* --- using ------------------------------------------------------------------------------------ */

tl_tensor *tl_loss_values(tl_loss *l, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred)
{
    if (tl_ctx_failed(c)) return NULL;
    tl_ctx_enter(c, l->name);
    tl_tensor *values = NULL;
    if (!y_true || !y_pred)
        (void)TL_FAIL(TL_EINVAL, "the loss was given no %s", y_pred ? "targets" : "predictions");
    else if (!(values = TL_CLASS_METHOD(tl_loss_class, l->cls, call)->call(l, c, y_true, y_pred))
             && !tl_ctx_failed(c))
        (void)TL_FAIL(TL_EINVAL, "the loss's class '%s' gave no tensor", l->cls->cls.name);
    if (!values) tl_ctx_fail(c);
    tl_ctx_leave(c);
    return tl_ctx_failed(c) ? NULL : values;
}

// The sum of the weights when each stands for every value that it weighs.
static tl_tensor *total_weight(tl_ctx *c, tl_tensor *values, tl_tensor *weight)
{
    weight = tli_weight_for(c, values, weight);
    if (!weight) return NULL;
    int64_t each =
        tl_tensor_count(values) / (tl_tensor_count(weight) ? tl_tensor_count(weight) : 1);
    tl_tensor *sum = tl_sum(c, tl_cast(c, weight, values->dtype), TL_ALL, false);
    return tl_scale(c, sum, (double)each);
}

static tl_tensor *mean_by_weight(tl_ctx *c, tl_tensor *values, tl_tensor *weight, tl_tensor *sum)
{
    tl_tensor *total = total_weight(c, values, weight);
    if (!sum || !total) return NULL;
    tl_tensor *none = tl_equal(c, total, tl_number(c, total->dtype, 0));
    return tl_div(c, sum, tl_where(c, none, tl_number(c, total->dtype, 1), total));
}

tl_tensor *tl_loss_reduce(tl_ctx *c, tl_tensor *values, tl_tensor *weight, tl_reduction reduction)
{
    if (tl_ctx_failed(c)) return NULL;
    if (!values) {
        (void)TL_FAIL(TL_EINVAL, "there are no values to reduce");
        return tl_ctx_fail(c);
    }
    int64_t count = tl_tensor_count(values);
    tl_tensor *weighted = tli_weighted(c, values, weight);
    if (reduction == TL_REDUCTION_NONE) return weighted;
    tl_tensor *sum = tl_sum(c, weighted, TL_ALL, false);
    if (reduction == TL_REDUCTION_SUM) return sum;
    if (reduction == TL_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT && weight)
        return mean_by_weight(c, values, weight, sum);
    return tl_scale(c, sum, 1.0 / (double)(count ? count : 1));
}

tl_tensor *tl_loss_call(tl_loss *l, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                        tl_tensor *weight)
{
    tl_tensor *values = tl_loss_values(l, c, y_true, y_pred);
    if (!values) return NULL;
    tl_ctx_enter(c, l->name);
    tl_tensor *loss = tl_loss_reduce(c, values, weight, l->reduction);
    tl_ctx_leave(c);
    return loss;
}
