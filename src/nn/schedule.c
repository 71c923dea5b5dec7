#include "nn/schedule.h"

#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/arena.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>

struct tl_schedule {
    tl_arena *arena;
    tl_registry *own_registry; /* when none was given */
    tl_optimization_config config;
    const tl_learning_rate_class *rate; /* the class with the method */
    const tl_warmup_class *warmup;      /* NULL: none */
};

/* --- configurations --------------------------------------------------------------------------- */

tl_status tli_optimization_registry(tl_registry **out)
{
    TL_TRY(tl_registry_new(out));
    tl_status st = tl_registry_add(*out, &tl_optimizers_module);
    if (st == TL_OK) st = tl_registry_add(*out, &tl_learning_rates_module);
    if (st == TL_OK) st = tl_registry_add(*out, &tl_warmups_module);
    if (st != TL_OK) tl_registry_free(out);
    return st;
}

// What was parsed is taken as it is; what a literal leaves out gets its default.
tl_status tli_optimization_copy(tl_optimization_config *to, tl_arena *arena,
                                const tl_optimization_config *from, const tl_registry *registry)
{
    TL_TRY(tl_desc_complete(arena, &tl_optimization_config_desc, to, from, registry));
    return tl_desc_check(&tl_optimization_config_desc, to);
}

/* --- schedules -------------------------------------------------------------------------------- */

static tl_status check_found(const void *with, const tl_kind *kind, const char *type)
{
    if (with) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "the %s '%s' has no method 'rate'", kind->name, type);
}

static tl_status find_rate(tl_schedule *s, const tl_registry *registry)
{
    const tl_oneof *rate = &s->config.learning_rate;
    const tl_class *cls;
    if (!rate->type)
        return TL_FAIL(TL_EINVAL, "learning_rate.type: must be set, it is null; 'constant' is the "
                                  "plainest");
    TL_TRY_NOTE(tl_registry_find(&cls, registry, &tl_kind_learning_rate, rate->type),
                "learning_rate.type");
    s->rate = TL_CLASS_METHOD(tl_learning_rate_class, cls, rate);
    TL_TRY_NOTE(check_found(s->rate, &tl_kind_learning_rate, rate->type), "learning_rate.type");
    const tl_learning_rate_class *checking = TL_CLASS_METHOD(tl_learning_rate_class, cls, check);
    if (!checking) return TL_OK;
    tl_status st = checking->check(rate->value);
    return st == TL_OK ? st : tl_error_note(st, "learning_rate.%s", rate->type);
}

static tl_status find_warmup(tl_schedule *s, const tl_registry *registry)
{
    const tl_oneof *warmup = &s->config.warmup;
    const tl_class *cls;
    if (!warmup->type) return TL_OK;
    TL_TRY_NOTE(tl_registry_find(&cls, registry, &tl_kind_warmup, warmup->type), "warmup.type");
    const tl_warmup_class *found = TL_CLASS_METHOD(tl_warmup_class, cls, rate);
    TL_TRY_NOTE(check_found(found, &tl_kind_warmup, warmup->type), "warmup.type");
    tl_opt_int steps = ((const tl_warmup_config *)warmup->value)->warmup_steps;
    if (!steps.set)
        return TL_FAIL(TL_EINVAL, "warmup.%s.warmup_steps: must be set, it is null", warmup->type);
    if (steps.value > 0) s->warmup = found;
    return TL_OK;
}

static tl_status build(tl_schedule *s, const tl_optimization_config *config,
                       const tl_registry *registry)
{
    TL_TRY(tl_arena_new(&s->arena));
    if (!registry) {
        TL_TRY(tli_optimization_registry(&s->own_registry));
        registry = s->own_registry;
    }
    TL_TRY(tli_optimization_copy(&s->config, s->arena, config, registry));
    TL_TRY(find_rate(s, registry));
    return find_warmup(s, registry);
}

tl_status tl_schedule_new(tl_schedule **out, const tl_optimization_config *config,
                          const tl_registry *registry)
{
    *out = tl_alloc_zero(sizeof **out);
    if (!*out) return TL_FAIL_NOMEM(sizeof **out);
    tl_status st = build(*out, config, registry);
    if (st != TL_OK) tl_schedule_free(out);
    return st;
}

void tl_schedule_free(tl_schedule **s)
{
    if (!*s) return;
    tl_registry_free(&(*s)->own_registry);
    tl_arena_free(&(*s)->arena);
    tl_free(*s);
    *s = NULL;
}

tl_tensor *tl_schedule_apply(tl_ctx *c, const tl_schedule *s, tl_tensor *step)
{
    const void *config = s->config.learning_rate.value;
    tl_tensor *rate = s->rate->rate(c, config, step);
    if (!s->warmup) return rate;
    const tl_warmup_config *w = s->config.warmup.value;
    tl_tensor *end = tl_number(c, TL_F64, (double)w->warmup_steps.value);
    tl_tensor *warm = s->warmup->rate(c, w, step, rate, s->rate->rate(c, config, end));
    return tl_where(c, tl_less(c, step, end), warm, rate);
}

bool tl_schedule_constant(const tl_schedule *s)
{
    return !s->warmup && s->rate->rate == tli_constant_rate;
}

tl_status tl_schedule_length_of(bool *ends, tl_schedule_length *out,
                                const tl_optimization_config *config, const tl_registry *registry)
{
    const tl_oneof *rate = &config->learning_rate;
    tl_registry *own = NULL;
    const tl_class *cls = NULL;
    tl_status st = TL_OK;
    *ends = false;
    *out = (tl_schedule_length){0};
    if (!rate->type || !rate->value) return TL_OK;
    if (!registry) TL_TRY(tli_optimization_registry(&own));
    st = tl_registry_find(&cls, registry ? registry : own, &tl_kind_learning_rate, rate->type);
    const tl_learning_rate_class *knowing =
        st == TL_OK ? TL_CLASS_METHOD(tl_learning_rate_class, cls, length) : NULL;
    if (knowing) *ends = knowing->length(out, rate->value);
    tl_registry_free(&own);
    return st;
}

static tl_status rate_with(double *out, tl_ctx *c, const tl_schedule *s, int64_t iteration)
{
    tl_tensor *rate = tl_schedule_apply(c, s, tl_number(c, TL_F64, (double)iteration));
    TL_TRY(tl_ctx_status(c));
    return tl_tensor_item(rate, out);
}

tl_status tl_schedule_rate(double *out, tl_engine *engine, const tl_optimization_config *config,
                           int64_t iteration)
{
    tl_ctx *c = NULL;
    tl_schedule *s = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_schedule_new(&s, config, NULL));
    TL_TRY_DONE(st, tl_ctx_new(&c, engine));
    st = rate_with(out, c, s, iteration);
done:
    tl_ctx_free(&c);
    tl_schedule_free(&s);
    return st;
}
