#include <tilth/train/libai/libai.h>

#include <math.h>
#include <string.h>
#include <strings.h>

#include <tilth/base/log.h>
#include <tilth/nn/schedule.h>

#include "train/libai/libai.h"

const char *tli_last_part(const char *dotted)
{
    const char *dot = strrchr(dotted, '.');
    return dot ? dot + 1 : dotted;
}

/* Which of the names a `_target_` is; -1: none. */
static int which(const char *target, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strcasecmp(tli_last_part(target), names[i]) == 0) return i;
    return -1;
}

static tl_status unknown_target(const char *target, const char *const *names)
{
    int64_t count = 0;
    tl_str known = TL_STR_INIT;
    for (; names[count]; count++) tl_str_addf(&known, "%s%s", count ? ", " : "", names[count]);
    const char *near = tl_nearest(tli_last_part(target), names, count);
    tl_status st = TL_FAIL(TL_EINVAL, "_target_: there is no '%.80s'%s%s%s (known: %s)", target,
                           near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "",
                           tl_str_text(&known));
    tl_str_deinit(&known);
    return st;
}

/* What is set and belongs to others. */
static tl_status refuse(bool set, const char *key, const char *target)
{
    if (!set) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s: %s has no such setting; make it null", key,
                   tli_last_part(target));
}

/* A choice with its defaults, as reading it would make one: its zeros are meant. */
static void *choose(tl_oneof *into, tl_arena *arena, const char *type, const tl_desc *desc)
{
    tl_oneof_part *part = tl_arena_alloc(arena, sizeof *part);
    if (!part || tl_desc_new(&part->value, arena, desc) != TL_OK) return NULL;
    part->name = type;
    part->desc = desc;
    *into = (tl_oneof){.type = type, .value = part->value, .desc = desc, .parts = part};
    return part->value;
}

/* --- schedules -------------------------------------------------------------------------------- */

enum { COSINE, ANNEALING, STEP, MULTISTEP, EXPONENTIAL, POLYNOMIAL };
static const char *const schedulers[] = {
    [COSINE] = "WarmupCosineLR",
    [ANNEALING] = "WarmupCosineAnnealingLR",
    [STEP] = "WarmupStepLR",
    [MULTISTEP] = "WarmupMultiStepLR",
    [EXPONENTIAL] = "WarmupExponentialLR",
    [POLYNOMIAL] = "WarmupPolynomialLR",
    NULL,
};

tl_status tli_libai_check_scheduler(const void *value)
{
    const tl_libai_scheduler_config *s = value;
    int which_one = which(s->target, schedulers);
    if (which_one < 0) return unknown_target(s->target, schedulers);
    bool falls = which_one == STEP || which_one == MULTISTEP || which_one == EXPONENTIAL;
    TL_TRY(refuse(which_one != ANNEALING && s->eta_min.set, "eta_min", s->target));
    TL_TRY(refuse(which_one != STEP && s->step_size.set, "step_size", s->target));
    TL_TRY(refuse(which_one != MULTISTEP && s->milestones.items, "milestones", s->target));
    TL_TRY(refuse(!falls && s->gamma.set, "gamma", s->target));
    TL_TRY(refuse(which_one != POLYNOMIAL && s->end_learning_rate.set, "end_learning_rate",
                  s->target));
    TL_TRY(refuse(which_one != POLYNOMIAL && s->power.set, "power", s->target));
    TL_TRY(refuse(which_one != POLYNOMIAL && s->cycle.set, "cycle", s->target));
    if (which_one == STEP && !s->step_size.set)
        return TL_FAIL(TL_EINVAL, "step_size: must be set, it is null");
    if (which_one == EXPONENTIAL && !s->gamma.set)
        return TL_FAIL(TL_EINVAL, "gamma: must be set, it is null");
    if (which_one == MULTISTEP && !s->milestones.count)
        return TL_FAIL(TL_EINVAL, "milestones: must be set, there are none");
    for (int64_t i = 0; i < s->milestones.count; i++) {
        double at = s->milestones.items[i];
        if (!(at >= 0 && at < 1))
            return TL_FAIL(TL_EINVAL,
                           "milestones: are shares of train_iter, from 0 to less than 1, found %g",
                           at);
        if (i && at < s->milestones.items[i - 1])
            return TL_FAIL(TL_EINVAL, "milestones: must not fall, but %g follows %g", at,
                           s->milestones.items[i - 1]);
    }
    return TL_OK;
}

static double or_else(tl_opt_double given, double otherwise)
{
    return given.set ? given.value : otherwise;
}

static tl_status fill_multistep(tl_oneof *into, tl_arena *arena, const tl_libai_config *config)
{
    const tl_libai_scheduler_config *s = &config->train.scheduler;
    tl_multistep_config *m = choose(into, arena, "multistep", &tl_multistep_config_desc);
    int64_t *at = tl_arena_array(arena, s->milestones.count, sizeof *at);
    if (!m || !at) return TL_ENOMEM;
    for (int64_t i = 0; i < s->milestones.count; i++)
        at[i] = (int64_t)(s->milestones.items[i] * (double)config->train.train_iter);
    m->initial_learning_rate = (tl_opt_double){true, config->optim.lr};
    m->milestones = (tl_ints){at, s->milestones.count};
    m->gamma = (tl_opt_double){true, or_else(s->gamma, 0.1)};
    return TL_OK;
}

/* Falls by gamma each `steps`, at once or little by little. */
static tl_status fill_exponential(tl_oneof *into, tl_arena *arena, double lr, int64_t steps,
                                  double gamma, bool staircase)
{
    tl_exponential_config *e = choose(into, arena, "exponential", &tl_exponential_config_desc);
    if (!e) return TL_ENOMEM;
    e->initial_learning_rate = (tl_opt_double){true, lr};
    e->decay_steps = (tl_opt_int){true, steps};
    e->decay_rate = (tl_opt_double){true, gamma};
    e->staircase = (tl_opt_bool){true, staircase};
    return TL_OK;
}

static tl_status fill_rate(tl_oneof *into, tl_arena *arena, const tl_libai_config *config,
                           int64_t steps)
{
    const tl_libai_scheduler_config *s = &config->train.scheduler;
    const tl_opt_double lr = {true, config->optim.lr};
    const tl_opt_int decay = {true, steps > 0 ? steps : 1};
    switch (which(s->target, schedulers)) {
    case COSINE: {
        tl_cosine_config *c = choose(into, arena, "cosine", &tl_cosine_config_desc);
        if (!c) return TL_ENOMEM;
        c->initial_learning_rate = lr;
        c->decay_steps = decay;
        c->alpha = s->alpha;
        return TL_OK;
    }
    case ANNEALING: {
        tl_cosine_annealing_config *c =
            choose(into, arena, "cosine_annealing", &tl_cosine_annealing_config_desc);
        if (!c) return TL_ENOMEM;
        c->initial_learning_rate = lr;
        c->decay_steps = decay;
        c->end_learning_rate = or_else(s->eta_min, 0);
        return TL_OK;
    }
    case STEP:
        return fill_exponential(into, arena, lr.value, s->step_size.value, or_else(s->gamma, 0.1),
                                true);
    case MULTISTEP: return fill_multistep(into, arena, config);
    case EXPONENTIAL: return fill_exponential(into, arena, lr.value, 1, s->gamma.value, false);
    case POLYNOMIAL: {
        tl_polynomial_config *p = choose(into, arena, "polynomial", &tl_polynomial_config_desc);
        if (!p) return TL_ENOMEM;
        p->initial_learning_rate = lr;
        p->decay_steps = decay;
        p->end_learning_rate = (tl_opt_double){true, or_else(s->end_learning_rate, 1e-4)};
        p->power = (tl_opt_double){true, or_else(s->power, 1)};
        p->cycle = s->cycle.set && s->cycle.value;
        return TL_OK;
    }
    default: return unknown_target(s->target, schedulers);
    }
}

/* max_iter may be less than there is to train. */
static tl_status tell_end(const tl_optimization_config *made, const tl_libai_config *config)
{
    tl_schedule_length length;
    bool ends;
    TL_TRY(tl_schedule_length_of(&ends, &length, made, NULL));
    if (ends && length.steps.value < config->train.train_iter)
        TL_LOG_WARNING("the schedule ends at step %lld (train.scheduler.max_iter), and training "
                       "goes on to step %lld with its last rate: set train.scheduler.max_iter=null "
                       "to give it that length",
                       (long long)length.steps.value, (long long)config->train.train_iter);
    return TL_OK;
}

tl_status tl_libai_schedule(tl_optimization_config *into, tl_arena *arena,
                            const tl_libai_config *config)
{
    const tl_libai_scheduler_config *s = &config->train.scheduler;
    int64_t steps = s->max_iter.set ? s->max_iter.value : config->train.train_iter;
    int64_t warmup = s->warmup_iter.set ? s->warmup_iter.value : 0;
    double start = config->optim.lr * s->warmup_factor;
    TL_TRY(fill_rate(&into->learning_rate, arena, config, steps));
    TL_TRY(tell_end(into, config));
    into->warmup = (tl_oneof){0};
    if (warmup > steps)
        TL_LOG_WARNING("the warm-up of %lld steps is longer than the schedule, %lld",
                       (long long)warmup, (long long)steps);
    if (!warmup) return TL_OK;
    if (s->warmup_method == TL_LIBAI_CONSTANT) {
        tl_constant_warmup_config *w =
            choose(&into->warmup, arena, "constant", &tl_constant_warmup_config_desc);
        if (!w) return TL_ENOMEM;
        w->base.warmup_steps = (tl_opt_int){true, warmup};
        w->warmup_learning_rate = start;
        return TL_OK;
    }
    tl_linear_warmup_config *w =
        choose(&into->warmup, arena, "linear", &tl_linear_warmup_config_desc);
    if (!w) return TL_ENOMEM;
    w->base.warmup_steps = (tl_opt_int){true, warmup};
    w->warmup_learning_rate = start;
    return TL_OK;
}

/* --- optimizers ------------------------------------------------------------------------------- */

enum { ADAMW, ADAM, SGD, LAMB };
static const char *const optimizers[] = {
    [ADAMW] = "AdamW", [ADAM] = "Adam", [SGD] = "SGD", [LAMB] = "LAMB", NULL,
};

tl_status tli_libai_check_optim(const void *value)
{
    const tl_libai_optim_config *o = value;
    int which_one = which(o->target, optimizers);
    if (which_one < 0) return unknown_target(o->target, optimizers);
    TL_TRY(refuse(which_one != SGD && o->momentum.set, "momentum", o->target));
    TL_TRY(refuse(which_one != SGD && o->nesterov.set, "nesterov", o->target));
    TL_TRY(refuse(which_one != ADAMW && which_one != ADAM && o->amsgrad.set, "amsgrad", o->target));
    if (o->betas.count != 2)
        return TL_FAIL(TL_EINVAL, "betas: must be two numbers, found %d", (int)o->betas.count);
    // Adam's decay is part of the gradient there, which is another rule than any here.
    if (which_one == ADAM && o->weight_decay != 0)
        return TL_FAIL(TL_EINVAL, "weight_decay: must be 0 for Adam, found %g; AdamW decays",
                       o->weight_decay);
    return TL_OK;
}

/* The base's part: clipping that concerns all parameters. */
static tl_status fill_clip(tl_optimizer_config *base, const tl_libai_params_config *p)
{
    base->clipnorm = base->global_clipnorm = (tl_opt_double){false, 0};
    if (p->clip_grad_mode == TL_LIBAI_CLIP_GLOBAL) base->global_clipnorm = p->clip_grad_max_norm;
    if (p->clip_grad_mode == TL_LIBAI_CLIP_PARAM) base->clipnorm = p->clip_grad_max_norm;
    return TL_OK;
}

static tl_status fill_torch_adamw(tl_oneof *into, tl_arena *arena, const tl_libai_optim_config *o)
{
    tl_torch_adamw_config *a = choose(into, arena, "torch_adamw", &tl_torch_adamw_config_desc);
    if (!a) return TL_ENOMEM;
    a->beta_1 = (tl_opt_double){true, o->betas.items[0]};
    a->beta_2 = (tl_opt_double){true, o->betas.items[1]};
    a->epsilon = (tl_opt_double){true, o->eps};
    a->weight_decay = (tl_opt_double){true, o->weight_decay};
    a->amsgrad = o->amsgrad.set && o->amsgrad.value;
    return fill_clip(&a->base, &o->params);
}

tl_status tl_libai_optimizer(tl_optimization_config *into, tl_arena *arena,
                             const tl_libai_optim_config *o)
{
    TL_TRY(tli_libai_check_optim(o));
    int which_one = which(o->target, optimizers);
    if (which_one == SGD) {
        tl_torch_sgd_config *s =
            choose(&into->optimizer, arena, "torch_sgd", &tl_torch_sgd_config_desc);
        if (!s) return TL_ENOMEM;
        s->momentum = or_else(o->momentum, 0);
        s->weight_decay = o->weight_decay;
        s->nesterov = o->nesterov.set && o->nesterov.value;
        return fill_clip(&s->base, &o->params);
    }
    if (which_one == LAMB) {
        tl_lamb_config *l = choose(&into->optimizer, arena, "lamb", &tl_lamb_config_desc);
        if (!l) return TL_ENOMEM;
        l->beta_1 = (tl_opt_double){true, o->betas.items[0]};
        l->beta_2 = (tl_opt_double){true, o->betas.items[1]};
        l->epsilon = (tl_opt_double){true, o->eps};
        l->weight_decay_rate = o->weight_decay;
        return fill_clip(&l->base, &o->params);
    }
    return fill_torch_adamw(&into->optimizer, arena, o);
}
