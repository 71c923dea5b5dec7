/* The formulas of the schedules that ship, in float64. */
#include <math.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>

#include "nn/schedule.h"

static const double pi = 3.14159265358979323846;

static tl_tensor *number(tl_ctx *c, double value)
{
    return tl_number(c, TL_F64, value);
}

// The step from which a schedule counts.
static tl_tensor *since(tl_ctx *c, tl_tensor *step, int64_t offset)
{
    return offset ? tl_shift(c, step, -(double)offset) : step;
}

// From 1 down to 0 while x goes from 0 to 1.
static tl_tensor *half_wave(tl_ctx *c, tl_tensor *x)
{
    return tl_affine(c, tl_cos(c, tl_scale(c, x, pi)), 0.5, 0.5);
}

// From `from` to `to` while `left` goes from 1 to 0.
static tl_tensor *between(tl_ctx *c, double from, double to, tl_tensor *left)
{
    return tl_affine(c, left, from - to, to);
}

static tl_tensor *choose(tl_ctx *c, tl_tensor *condition, tl_tensor *yes, tl_tensor *no)
{
    return tl_where(c, condition, yes, no);
}

/* --- Model Garden's --------------------------------------------------------------------------- */

tl_tensor *tli_constant_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    (void)step;
    return number(c, ((const tl_constant_config *)config)->learning_rate.value);
}

tl_tensor *tli_stepwise_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_stepwise_config *g = config;
    tl_tensor *s = since(c, step, g->offset), *rate = number(c, g->values.items[0]);
    for (int64_t i = 0; i < g->boundaries.count; i++) {
        tl_tensor *later = tl_greater(c, s, number(c, (double)g->boundaries.items[i]));
        rate = choose(c, later, number(c, g->values.items[i + 1]), rate);
    }
    return rate;
}

tl_tensor *tli_exponential_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_exponential_config *g = config;
    tl_tensor *steps = number(c, (double)g->decay_steps.value);
    tl_tensor *times = tl_div(c, since(c, step, g->offset), steps);
    if (g->staircase.set && g->staircase.value) times = tl_floor(c, times);
    return tl_scale(c, tl_pow(c, number(c, g->decay_rate.value), times),
                    g->initial_learning_rate.value);
}

tl_tensor *tli_polynomial_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_polynomial_config *g = config;
    double steps = (double)g->decay_steps.value;
    tl_tensor *s = since(c, step, g->offset), *length = number(c, steps);
    if (g->cycle) {
        tl_tensor *rounds = tl_ceil(c, tl_div(c, s, length));
        tl_tensor *first = tl_equal(c, s, number(c, 0));
        length = tl_scale(c, choose(c, first, number(c, 1), rounds), steps);
    } else {
        s = tl_minimum(c, s, length);
    }
    tl_tensor *left = tl_affine(c, tl_div(c, s, length), -1, 1);
    return between(c, g->initial_learning_rate.value, g->end_learning_rate.value,
                   tl_pow(c, left, number(c, g->power.value)));
}

tl_tensor *tli_cosine_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_cosine_config *g = config;
    double initial = g->initial_learning_rate.value;
    tl_tensor *steps = number(c, (double)g->decay_steps.value);
    tl_tensor *done = tl_div(c, tl_minimum(c, since(c, step, g->offset), steps), steps);
    return between(c, initial, g->alpha * initial, half_wave(c, done));
}

// Where fall `index` begins, in lengths of the first: 1 + t + ... + t^(index - 1).
static tl_tensor *begin_of(tl_ctx *c, tl_tensor *index, double t)
{
    return tl_affine(c, tl_pow(c, number(c, t), index), 1 / (t - 1), -1 / (t - 1));
}

// Which fall x lies in. Where one ends and the next begins the logarithm may be a little too small,
// so the place is looked at again.
static tl_tensor *fall_of(tl_ctx *c, tl_tensor *x, double t)
{
    tl_tensor *index = tl_scale(c, tl_log(c, tl_affine(c, x, t - 1, 1)), 1 / log(t));
    index = tl_floor(c, index);
    tl_tensor *early = tl_greater_equal(c, x, begin_of(c, tl_shift(c, index, 1), t));
    return tl_add(c, index, tl_cast(c, early, TL_F64));
}

tl_tensor *tli_cosine_restarts_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_cosine_restarts_config *g = config;
    double initial = g->initial_learning_rate.value, t = g->t_mul;
    tl_tensor *s = tl_clip(c, since(c, step, g->offset), 0, INFINITY);
    tl_tensor *x = tl_div(c, s, number(c, (double)g->first_decay_steps.value)), *index;
    if (t == 1) {
        index = tl_floor(c, x);
        x = tl_sub(c, x, index);
    } else {
        index = fall_of(c, x, t);
        x = tl_div(c, tl_sub(c, x, begin_of(c, index, t)), tl_pow(c, number(c, t), index));
    }
    tl_tensor *height = tl_pow(c, number(c, g->m_mul.value), index);
    return between(c, initial, g->alpha * initial, tl_mul(c, height, half_wave(c, x)));
}

// initial * max(s, 1) ^ power
static tl_tensor *power_of(tl_ctx *c, tl_tensor *s, double initial, double power)
{
    return tl_scale(c, tl_pow(c, tl_clip(c, s, 1, INFINITY), number(c, power)), initial);
}

tl_tensor *tli_power_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_power_config *g = config;
    return power_of(c, step, g->initial_learning_rate.value, g->power.value);
}

tl_tensor *tli_power_linear_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_power_linear_config *g = config;
    double total = (double)g->total_decay_steps.value,
           falling = total * g->linear_decay_fraction.value;
    tl_tensor *s = since(c, step, g->offset);
    tl_tensor *rate = power_of(c, s, g->initial_learning_rate.value, g->power.value);
    if (!(falling > 0)) return rate;
    tl_tensor *left = tl_div(c, tl_affine(c, s, -1, total), number(c, falling));
    return tl_mul(c, rate, tl_clip(c, left, 0, 1));
}

tl_tensor *tli_power_with_offset_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_power_with_offset_config *g = config;
    tl_tensor *before = number(c, g->pre_offset_learning_rate.value);
    tl_tensor *rate =
        power_of(c, since(c, step, g->offset), g->initial_learning_rate.value, g->power.value);
    tl_tensor *early = tl_less_equal(c, step, number(c, (double)g->offset));
    return choose(c, early, before, tl_minimum(c, rate, before));
}

tl_tensor *tli_step_cosine_with_offset_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_step_cosine_with_offset_config *g = config;
    tl_tensor *s = since(c, step, g->offset), *rate = number(c, g->values.items[0]);
    for (int64_t i = 0; i + 1 < g->boundaries.count; i++) {
        double begin = (double)g->boundaries.items[i], end = (double)g->boundaries.items[i + 1];
        tl_tensor *done = tl_div(c, tl_shift(c, s, -begin), number(c, end - begin));
        tl_tensor *wave = between(c, g->values.items[i], g->values.items[i + 1],
                                  half_wave(c, tl_clip(c, done, 0, 1)));
        rate = choose(c, tl_greater_equal(c, s, number(c, begin)), wave, rate);
    }
    return rate;
}

/* --- others ----------------------------------------------------------------------------------- */

tl_tensor *tli_multistep_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_multistep_config *g = config;
    double initial = g->initial_learning_rate.value;
    tl_tensor *s = since(c, step, g->offset), *rate = number(c, initial);
    for (int64_t i = 0; i < g->milestones.count; i++) {
        tl_tensor *there = tl_greater_equal(c, s, number(c, (double)g->milestones.items[i]));
        rate = choose(c, there, number(c, initial * pow(g->gamma.value, (double)(i + 1))), rate);
    }
    return rate;
}

tl_tensor *tli_cosine_annealing_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_cosine_annealing_config *g = config;
    tl_tensor *steps = number(c, (double)g->decay_steps.value);
    tl_tensor *x = tl_div(c, since(c, step, g->offset), steps);
    return between(c, g->initial_learning_rate.value, g->end_learning_rate, half_wave(c, x));
}

tl_tensor *tli_stable_decay_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const tl_stable_decay_config *g = config;
    double fall = (double)g->decay_steps.value, begin = (double)g->total_steps.value - fall;
    tl_tensor *done = tl_shift(c, since(c, step, g->offset), -begin), *left;
    done = tl_clip(c, tl_div(c, done, number(c, fall)), 0, 1);
    if (g->shape == TL_DECAY_COSINE) left = half_wave(c, done);
    else if (g->shape == TL_DECAY_SQRT) left = tl_affine(c, tl_sqrt(c, done), -1, 1);
    else left = tl_affine(c, done, -1, 1);
    return between(c, g->initial_learning_rate.value, g->end_learning_rate, left);
}

/* --- warm-ups --------------------------------------------------------------------------------- */

static double length_of(const void *config)
{
    return (double)((const tl_warmup_config *)config)->warmup_steps.value;
}

tl_tensor *tli_linear_warmup_rate(tl_ctx *c, const void *config, tl_tensor *step, tl_tensor *rate,
                                  tl_tensor *rate_at_end)
{
    (void)rate;
    double first = ((const tl_linear_warmup_config *)config)->warmup_learning_rate;
    tl_tensor *done = tl_div(c, step, number(c, length_of(config)));
    return tl_shift(c, tl_mul(c, done, tl_shift(c, rate_at_end, -first)), first);
}

tl_tensor *tli_polynomial_warmup_rate(tl_ctx *c, const void *config, tl_tensor *step,
                                      tl_tensor *rate, tl_tensor *rate_at_end)
{
    (void)rate;
    double power = ((const tl_polynomial_warmup_config *)config)->power.value;
    tl_tensor *done = tl_div(c, tl_clip(c, step, 1, INFINITY), number(c, length_of(config)));
    return tl_mul(c, rate_at_end, tl_pow(c, done, number(c, power)));
}

tl_tensor *tli_constant_warmup_rate(tl_ctx *c, const void *config, tl_tensor *step, tl_tensor *rate,
                                    tl_tensor *rate_at_end)
{
    (void)step;
    (void)rate;
    (void)rate_at_end;
    return number(c, ((const tl_constant_warmup_config *)config)->warmup_learning_rate);
}

tl_tensor *tli_peak_warmup_rate(tl_ctx *c, const void *config, tl_tensor *step, tl_tensor *rate,
                                tl_tensor *rate_at_end)
{
    const tl_peak_warmup_config *w = config;
    (void)rate;
    (void)rate_at_end;
    tl_tensor *done = tl_div(c, step, number(c, length_of(config)));
    return tl_scale(c, tl_pow(c, done, number(c, w->power.value)), w->peak_learning_rate.value);
}
