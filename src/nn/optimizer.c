#include "nn/optimizer.h"

#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/nn/layers.h>
#include <tilth/ops/elementwise.h>

#include "nn/schedule.h"

/* --- tensors of its own ----------------------------------------------------------------------- */

static void fill(void *data, tl_dtype dtype, int64_t count, double value)
{
    for (int64_t i = 0; i < count; i++) {
        if (dtype == TL_F32) ((float *)data)[i] = (float)value;
        else if (dtype == TL_F64) ((double *)data)[i] = value;
        else if (dtype == TL_I64) ((int64_t *)data)[i] = (int64_t)value;
        else ((bool *)data)[i] = value != 0;
    }
}

tl_status tli_optimizer_tensor(tl_tensor **out, const tl_optimizer *o, tl_dtype dtype,
                               tl_shape shape, double value)
{
    tl_lease l;
    TL_TRY(tl_tensor_new(out, o->engine, dtype, shape));
    tl_status st = tl_lease_discard(&l, *out);
    if (st == TL_OK) {
        fill(l.data, dtype, tl_tensor_count(*out), value);
        st = tl_lease_end(&l);
    }
    if (st != TL_OK) tl_tensor_free(out);
    return st;
}

/* --- slots and masks -------------------------------------------------------------------------- */

const tl_param *tl_optimizer_block_param(const tl_optimizer_block *b, int64_t index)
{
    return tl_model_param(b->optimizer->model, b->block->params[index]);
}

static tl_tensor *find_slot(const tl_optimizer_block *b, const char *name, int64_t param)
{
    const tli_part *p = (const tli_part *)b;
    for (int64_t i = 0; i < p->slots.count; i++)
        if (p->slots.items[i].param == param && strcmp(p->slots.items[i].name, name) == 0)
            return p->slots.items[i].tensor;
    return NULL;
}

tl_tensor *tl_optimizer_slot(const tl_optimizer_block *b, const char *name)
{
    return find_slot(b, name, -1);
}

tl_tensor *tl_optimizer_param_slot(const tl_optimizer_block *b, const char *name, int64_t param)
{
    return find_slot(b, name, param);
}

static tl_status add_slot(tl_optimizer_block *b, const char *name, int64_t param, tl_shape shape,
                          double value)
{
    tli_part *p = (tli_part *)b;
    tli_slot slot = {.param = param};
    if (find_slot(b, name, param))
        return TL_FAIL(TL_EEXISTS, "a block has one slot '%s' already", name);
    if (!(slot.name = tl_arena_strdup(b->optimizer->arena, name))) return TL_ENOMEM;
    TL_TRY(tli_optimizer_tensor(&slot.tensor, b->optimizer, b->block->dtype, shape, value));
    if (TL_VEC_PUSH(&p->slots, slot)) return TL_OK;
    tl_tensor_free(&slot.tensor);
    return TL_ENOMEM;
}

tl_status tl_optimizer_add_slot(tl_optimizer_block *b, const char *name, double value)
{
    return add_slot(b, name, -1, b->block->values->shape, value);
}

tl_status tl_optimizer_add_param_slot(tl_optimizer_block *b, const char *name, int64_t param,
                                      tl_shape shape, double value)
{
    return add_slot(b, name, param, shape, value);
}

// Patterns were written for names that end in ":0" too, where batch norms have the name of their
// class.
static bool matches(const regex_t *pattern, const tl_param *p, tl_arena *arena, tl_status *st)
{
    if (regexec(pattern, p->path, 0, NULL, 0) == 0) return true;
    const char *name = tl_arena_printf(arena, "%s:0", p->path), *last = strrchr(p->path, '/');
    const char *normal = name;
    if (p->layer->cls == &tl_layer_batch_norm && last)
        normal = tl_arena_printf(arena, "%s_batch_normalization%s:0", p->layer->path, last);
    if (!name || !normal) {
        *st = TL_ENOMEM;
        return false;
    }
    return regexec(pattern, name, 0, NULL, 0) == 0 || regexec(pattern, normal, 0, NULL, 0) == 0;
}

static tl_status mark_by(const tl_optimizer_block *b, int64_t *flags, const char *text,
                         int64_t flag, const char *key)
{
    regex_t pattern;
    tl_status st = TL_OK;
    int code = regcomp(&pattern, text, REG_EXTENDED | REG_NOSUB);
    if (code) {
        char why[128];
        regerror(code, &pattern, why, sizeof why);
        return TL_FAIL(TL_EINVAL, "%s: '%s' is no regular expression: %s", key, text, why);
    }
    for (int64_t i = 0; i < b->block->param_count; i++)
        if (matches(&pattern, tl_optimizer_block_param(b, i), b->optimizer->arena, &st))
            flags[i] = flag;
    regfree(&pattern);
    return st;
}

tl_status tl_optimizer_mark(const tl_optimizer_block *b, int64_t *flags, tl_strings patterns,
                            int64_t flag, const char *key)
{
    for (int64_t i = 0; i < patterns.count; i++)
        TL_TRY(mark_by(b, flags, patterns.items[i], flag, key));
    return TL_OK;
}

/* --- groups ----------------------------------------------------------------------------------- */

tl_status tl_model_group(tl_model *m, const tl_group_config *groups, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (groups[i].pattern)
            TL_TRY_NOTE(tl_model_set_group(m, groups[i].pattern, groups[i].group),
                        "groups[%" PRId64 "].pattern", i);
    return TL_OK;
}

static bool has_group(const tl_model *m, const char *group)
{
    for (int64_t i = 0; i < tl_model_block_count(m); i++)
        if (strcmp(tl_model_block(m, i)->group, group) == 0) return true;
    return false;
}

static tl_status check_group(const tl_optimizer *o, const tl_group_config *g)
{
    TL_TRY(tl_desc_check(&tl_group_config_desc, g));
    if (!has_group(o->model, g->group))
        return TL_FAIL(TL_ENOTFOUND, "group: the model has no parameters in a group '%s'",
                       g->group);
    if (g->weight_decay.set && !TL_CLASS_METHOD(tl_optimizer_class, o->cls, decays))
        return TL_FAIL(TL_EINVAL, "weight_decay: the optimizer '%s' has none; leave it null",
                       o->cls->name);
    return TL_OK;
}

static tl_status copy_groups(tl_optimizer *o, const tl_optimizer_args *args)
{
    tl_group_config *groups = tl_arena_array(o->arena, args->group_count, sizeof *groups);
    if (!groups) return TL_ENOMEM;
    for (int64_t i = 0; i < args->group_count; i++) {
        TL_TRY(tl_desc_copy(o->arena, &tl_group_config_desc, &groups[i], &args->groups[i]));
        TL_TRY_NOTE(check_group(o, &groups[i]), "groups[%" PRId64 "]", i);
        for (int64_t k = 0; k < i; k++)
            if (strcmp(groups[k].group, groups[i].group) == 0)
                return TL_FAIL(TL_EEXISTS, "groups[%" PRId64 "]: '%s' is there twice", i,
                               groups[i].group);
    }
    o->groups = groups;
    o->group_count = args->group_count;
    return TL_OK;
}

static const tl_group_config *group_of(const tl_optimizer *o, const char *name)
{
    for (int64_t i = 0; i < o->group_count; i++)
        if (strcmp(o->groups[i].group, name) == 0) return &o->groups[i];
    return NULL;
}

/* --- making ----------------------------------------------------------------------------------- */

static int64_t *ones(tl_arena *arena, int64_t count)
{
    int64_t *flags = tl_arena_array(arena, count, sizeof *flags);
    for (int64_t i = 0; flags && i < count; i++) flags[i] = 1;
    return flags;
}

static tl_status make_part(tl_optimizer *o, int64_t index)
{
    const tl_block *block = tl_model_block(o->model, index);
    tl_optimizer_block *b = &o->parts[index].base;
    const tl_group_config *group = group_of(o, block->group);
    int64_t *offsets = tl_arena_array(o->arena, block->param_count, sizeof *offsets);
    b->optimizer = o;
    b->block = block;
    b->decayed = ones(o->arena, block->param_count);
    b->adapted = ones(o->arena, block->param_count);
    if (!offsets || !b->decayed || !b->adapted) return TL_ENOMEM;
    for (int64_t i = 0; i < block->param_count; i++)
        offsets[i] = tl_optimizer_block_param(b, i)->offset;
    b->offsets = (tl_ints){offsets, block->param_count};
    o->parts[index].group = group;
    const tl_optimizer_class *preparing = TL_CLASS_METHOD(tl_optimizer_class, o->cls, prepare);
    if (preparing) TL_TRY(preparing->prepare(b, o->config.optimizer.value));
    if (group && group->weight_decay.set) {
        b->weight_decay = group->weight_decay.value;
        for (int64_t i = 0; i < block->param_count; i++) b->decayed[i] = 1;
    }
    return TL_OK;
}

static tl_status make_parts(tl_optimizer *o)
{
    int64_t trained = 0;
    o->count = tl_model_block_count(o->model);
    o->values = tl_arena_array(o->arena, o->count, sizeof(tl_tensor *));
    o->parts = tl_arena_array(o->arena, o->count, sizeof *o->parts);
    o->average = tl_arena_array(o->arena, o->count, sizeof(tl_tensor *));
    if (!o->values || !o->parts || !o->average) return TL_ENOMEM;
    for (int64_t i = 0; i < o->count; i++) {
        const tl_block *block = tl_model_block(o->model, i);
        TL_TRY(tl_tensor_keep(&o->values[i], block->values));
        if (!block->trainable) continue;
        TL_TRY(make_part(o, i));
        trained++;
    }
    return trained ? TL_OK
                   : TL_FAIL(TL_EINVAL, "the model has no parameters to train: all are frozen");
}

static tl_status find_class(tl_optimizer *o, const tl_registry *registry)
{
    const char *type = o->config.optimizer.type;
    if (!type)
        return TL_FAIL(TL_EINVAL, "optimizer.type: must be set, it is null; 'sgd' is the plainest");
    TL_TRY_NOTE(tl_registry_find(&o->cls, registry, &tl_kind_optimizer, type), "optimizer.type");
    if (!TL_CLASS_METHOD(tl_optimizer_class, o->cls, update))
        return TL_FAIL(TL_EUNSUPPORTED,
                       "optimizer.type: '%s' can be configured, but has no method 'update'", type);
    return TL_OK;
}

static tl_status build(tl_optimizer *o, const tl_optimizer_args *args)
{
    const tl_registry *registry = args->registry;
    o->engine = args->engine;
    o->model = args->model;
    TL_TRY(tl_arena_new(&o->arena));
    if (!registry) {
        TL_TRY(tli_optimization_registry(&o->own_registry));
        registry = o->own_registry;
    }
    TL_TRY(tli_optimization_copy(&o->config, o->arena, args->config, registry));
    TL_TRY(find_class(o, registry));
    TL_TRY(tl_schedule_new(&o->schedule, args->config, registry));
    TL_TRY(tl_ctx_new(&o->c, o->engine));
    TL_TRY(copy_groups(o, args));
    TL_TRY(make_parts(o));
    TL_TRY(tli_optimizer_tensor(&o->iterations, o, TL_I64, TL_SCALAR, 0));
    TL_TRY(tli_optimizer_tensor(&o->multiplier, o, TL_F64, TL_SCALAR, 1));
    TL_TRY(tli_optimizer_tensor(&o->norm, o, TL_F32, TL_SCALAR, 0));
    TL_TRY(tli_optimizer_tensor(&o->finite, o, TL_BOOL, TL_SCALAR, 1));
    TL_TRY(tli_loss_scale_new(o, args));
    TL_TRY(tli_averages_new(o));
    tl_optimizer_wake(o, 0, false);
    return TL_OK;
}

tl_status tl_optimizer_new(tl_optimizer **out, const tl_optimizer_args *args)
{
    *out = tl_alloc_zero(sizeof **out);
    if (!*out) return TL_FAIL_NOMEM(sizeof **out);
    (*out)->batch = -1;
    tl_status st = build(*out, args);
    if (st != TL_OK) tl_optimizer_free(out);
    return st;
}

void tli_part_deinit(tli_part *p)
{
    for (int64_t i = 0; i < p->slots.count; i++) tl_tensor_free(&p->slots.items[i].tensor);
    TL_VEC_FREE(&p->slots);
    tl_tensor_free(&p->sum);
    tli_share_deinit(p->own);
}

void tl_optimizer_free(tl_optimizer **optimizer)
{
    tl_optimizer *o = *optimizer;
    if (!o) return;
    for (int64_t i = 0; i < o->count; i++) {
        if (o->values) tl_tensor_free(&o->values[i]);
        if (o->parts) tli_part_deinit(&o->parts[i]);
        if (o->average) tl_tensor_free(&o->average[i]);
    }
    for (int64_t i = 0; i < o->row_sums.count; i++) tl_tensor_free(&o->row_sums.items[i].sum);
    TL_VEC_FREE(&o->row_sums);
    tl_tensor **const own[] = {&o->iterations,    &o->multiplier, &o->norm,  &o->finite,
                               &o->weight_sum,    &o->scale,      &o->good,  &o->noise.sums,
                               &o->noise.last,    &o->fresh,      &o->begun, &o->divided.norms,
                               &o->divided.finite};
    for (size_t i = 0; i < TL_COUNT(own); i++) tl_tensor_free(own[i]);
    tli_reserved_free(o);
    tli_weights_free(o);
    tl_ctx_free(&o->c);
    tl_schedule_free(&o->schedule);
    tl_registry_free(&o->own_registry);
    tl_arena_free(&o->arena);
    tl_free(o);
    *optimizer = NULL;
}

bool tl_optimizer_wake(tl_optimizer *o, int64_t step, bool look)
{
    bool changed = false;
    for (int64_t i = 0; i < o->count; i++) {
        const tl_group_config *group = o->parts[i].group;
        bool asleep = group && step < group->from_step;
        if (tl_model_block(o->model, i)->asleep == asleep) continue;
        changed = true;
        if (!look) tli_block_set_asleep(o->model->net, i, asleep);
    }
    return changed;
}

/* --- what it has ------------------------------------------------------------------------------ */

tl_tensor *tl_optimizer_counter(const tl_optimizer *o)
{
    return o->iterations;
}

tl_tensor *tl_optimizer_norm(const tl_optimizer *o)
{
    return o->norm;
}

tl_tensor *tl_optimizer_finite(const tl_optimizer *o)
{
    return o->finite;
}

const tl_optimizer_class *tl_optimizer_kind(const tl_optimizer *o)
{
    return (const tl_optimizer_class *)o->cls;
}

const tl_optimization_config *tl_optimizer_settings(const tl_optimizer *o)
{
    return &o->config;
}

tl_model *tl_optimizer_model(const tl_optimizer *o)
{
    return o->model;
}

bool tl_optimizer_set_accumulating(tl_optimizer *o, bool on)
{
    bool before = o->accumulating;
    o->accumulating = on;
    return before;
}

void tl_optimizer_set_halted(tl_optimizer *o, tl_tensor *halted)
{
    o->halted = halted;
}

bool tl_optimizer_set_inert(tl_optimizer *o, bool on)
{
    bool before = o->inert;
    o->inert = on;
    return before;
}

static tl_status zero(tl_tensor *t)
{
    return t ? tl_tensor_clear(t) : TL_OK;
}

tl_status tl_optimizer_discard(tl_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++) TL_TRY(zero(o->parts[i].sum));
    for (int64_t i = 0; i < o->row_sums.count; i++) TL_TRY(zero(o->row_sums.items[i].sum));
    TL_TRY(zero(o->noise.sums));
    if (o->fresh) TL_TRY(tl_tensor_set_doubles(o->fresh, &(double){1}, 1));
    return zero(o->weight_sum);
}

bool tl_optimizer_accumulating(const tl_optimizer *o)
{
    return o->accumulating;
}

tl_tensor *tl_optimizer_rate(tl_optimizer *o, tl_ctx *c)
{
    bool taping = tl_ctx_set_taping(c, false);
    tl_tensor *step = tl_cast(c, o->iterations, TL_F64);
    tl_tensor *rate = tl_schedule_apply(c, o->schedule, step);
    const tl_optimizer_class *rating = TL_CLASS_METHOD(tl_optimizer_class, o->cls, rate);
    if (rating) rate = rating->rate(c, o, step, rate);
    rate = tl_mul(c, rate, o->multiplier);
    tl_ctx_set_taping(c, taping);
    return rate;
}

double tl_optimizer_learning_rate(tl_optimizer *o)
{
    double value = NAN;
    tl_mark mark = tl_ctx_begin(o->c);
    tl_tensor *rate = tl_optimizer_rate(o, o->c);
    if (rate && tl_tensor_item(rate, &value) != TL_OK) value = NAN;
    tl_ctx_end(o->c, mark);
    return value;
}

int64_t tl_optimizer_iterations(const tl_optimizer *o)
{
    int64_t count;
    return tl_tensor_get(o->iterations, &count, sizeof count) == TL_OK ? count : -1;
}

tl_status tl_optimizer_set_multiplier(tl_optimizer *o, double multiplier)
{
    if (!(multiplier >= 0 && multiplier < INFINITY))
        return TL_FAIL(TL_EINVAL, "a multiplier of the learning rate is at least 0, not %g",
                       multiplier);
    return tl_tensor_set(o->multiplier, &multiplier, sizeof multiplier);
}

double tl_optimizer_multiplier(const tl_optimizer *o)
{
    double value;
    return tl_tensor_item(o->multiplier, &value) == TL_OK ? value : NAN;
}

/* --- state ------------------------------------------------------------------------------------ */

static tl_status put(tl_state *into, const char *name, const tl_param *p, const tl_tensor *t)
{
    tl_str path = TL_STR_INIT;
    tl_str_addf(&path, "%s/%s", name, p->path);
    tl_status st = tl_str_status(&path);
    if (st == TL_OK) st = tl_state_put(into, tl_str_text(&path), t);
    tl_str_deinit(&path);
    return st;
}

tl_status tli_state_put_part(tl_state *into, const char *name, const tl_param *p,
                             const tl_tensor *block)
{
    tl_tensor *part;
    TL_TRY(tl_tensor_part(&part, block, p->offset, p->tensor->shape));
    tl_status st = put(into, name, p, part);
    tl_tensor_free(&part);
    return st;
}

static tl_status put_slot(const tl_optimizer_block *b, const tli_slot *slot, tl_state *into)
{
    if (slot->param >= 0)
        return put(into, slot->name, tl_optimizer_block_param(b, slot->param), slot->tensor);
    for (int64_t i = 0; i < b->block->param_count; i++)
        TL_TRY(tli_state_put_part(into, slot->name, tl_optimizer_block_param(b, i), slot->tensor));
    return TL_OK;
}

tl_status tl_optimizer_state(tl_optimizer *o, tl_state *into)
{
    if (o->swapped)
        return TL_FAIL(TL_ESTATE, "weights and averages are exchanged; call tl_optimizer_swap "
                                  "before the state is taken");
    TL_TRY(tl_state_put(into, "iterations", o->iterations));
    TL_TRY(tl_state_put(into, "rate_multiplier", o->multiplier));
    for (int64_t i = 0; i < o->count; i++)
        for (int64_t k = 0; k < o->parts[i].slots.count; k++)
            TL_TRY(put_slot(&o->parts[i].base, &o->parts[i].slots.items[k], into));
    TL_TRY(tli_averages_state(o, into));
    return tli_loss_scale_state(o, into);
}
