#include <tilth/nn/optimization.h>

#include <tilth/base/str.h>

#include "nn/schedule.h"

static const tl_method learning_rate_methods[] = {
    TL_METHOD(tl_learning_rate_class, rate, true),
    {NULL, 0, false},
};
const tl_kind tl_kind_learning_rate = {
    .name = "learning_rate",
    .plural = "learning_rates",
    .help = "learning rate as a function of the number of updates",
    .class_size = sizeof(tl_learning_rate_class),
    .methods = learning_rate_methods,
    .names_are_keys = true,
    .config_base = &tl_learning_rate_config_desc,
    .config_required = true,
};

static const tl_method warmup_methods[] = {
    TL_METHOD(tl_warmup_class, rate, true),
    {NULL, 0, false},
};
const tl_kind tl_kind_warmup = {
    .name = "warmup",
    .plural = "warmups",
    .help = "how the learning rate starts",
    .class_size = sizeof(tl_warmup_class),
    .methods = warmup_methods,
    .names_are_keys = true,
    .config_base = &tl_warmup_config_desc,
    .config_required = true,
};

/* --- rows that several schedules have --------------------------------------------------------- */

#define NAME_ROW(T, text)                                                                          \
    TL_F_AS(T, base.name, "name", .s = text, .help = "label, without effect on training")
#define OFFSET_ROW(T)                                                                              \
    TL_F(T, offset, .help = "subtracted from the number of updates; s is what is left")
#define INITIAL_ROW(T)                                                                             \
    TL_F(T, initial_learning_rate, TL_AT_LEAST(0),                                                 \
         .help = "what the schedule starts from; must be set")
#define STEPS_ROW(T, member, text) TL_F(T, member, TL_AT_LEAST(1), .help = text)
#define LIST_ROW(T, member, text) TL_F(T, member, .flags = TL_FIELD_NULLABLE, .help = text)
#define RATES_ROW(T, text) TL_F(T, values, TL_AT_LEAST(0), .flags = TL_FIELD_NULLABLE, .help = text)

/* The description of a schedule's configuration and the class that is made from it. */
#define SCHEDULE(label, text, check_fn, missing_fn)                                                \
    SCHEDULE_THAT_ENDS(label, text, check_fn, missing_fn, NULL)
#define SCHEDULE_THAT_ENDS(label, text, check_fn, missing_fn, length_fn)                           \
    const tl_desc tl_##label##_config_desc = {                                                     \
        .name = #label,                                                                            \
        .help = text,                                                                              \
        .size = sizeof(tl_##label##_config),                                                       \
        .fields = label##_fields,                                                                  \
        .base = &tl_learning_rate_config_desc,                                                     \
        .check = check_fn,                                                                         \
    };                                                                                             \
    static const tl_learning_rate_class label##_class = {                                          \
        .cls = {.class_size = sizeof(tl_learning_rate_class),                                      \
                .name = #label,                                                                    \
                .help = text,                                                                      \
                .config = &tl_##label##_config_desc},                                              \
        .rate = tli_##label##_rate,                                                                \
        .check = missing_fn,                                                                       \
        .length = length_fn}
#define WARMUP(label, text)                                                                        \
    const tl_desc tl_##label##_warmup_config_desc = {                                              \
        .name = #label,                                                                            \
        .help = text,                                                                              \
        .size = sizeof(tl_##label##_warmup_config),                                                \
        .fields = label##_warmup_fields,                                                           \
        .base = &tl_warmup_config_desc,                                                            \
    };                                                                                             \
    static const tl_warmup_class label##_warmup_class = {                                          \
        .cls = {.class_size = sizeof(tl_warmup_class),                                             \
                .name = #label,                                                                    \
                .help = text,                                                                      \
                .config = &tl_##label##_warmup_config_desc},                                       \
        .rate = tli_##label##_warmup_rate}

/* --- checks ----------------------------------------------------------------------------------- */

/* Each boundary is larger than the one before it. */
static tl_status check_boundaries(tl_ints boundaries)
{
    for (int64_t i = 1; i < boundaries.count; i++)
        if (boundaries.items[i] <= boundaries.items[i - 1])
            return TL_FAIL(TL_EINVAL, "boundaries: must increase, but %lld follows %lld",
                           (long long)boundaries.items[i], (long long)boundaries.items[i - 1]);
    return TL_OK;
}

/* While one of the two is missing there is nothing to compare: experiments may leave both open. */
static tl_status check_lengths(tl_ints boundaries, tl_doubles values, int64_t more)
{
    int64_t b = boundaries.count, v = values.count;
    if (b == 0 || v == 0 || v == b + more) return TL_OK;
    return TL_FAIL(TL_EINVAL, "values: %lld boundaries need %lld values, not %lld", (long long)b,
                   (long long)(b + more), (long long)v);
}

static tl_status check_stepwise(const void *value)
{
    const tl_stepwise_config *c = value;
    TL_TRY(check_boundaries(c->boundaries));
    return check_lengths(c->boundaries, c->values, 1);
}

static tl_status check_multistep(const void *value)
{
    tl_ints milestones = ((const tl_multistep_config *)value)->milestones;
    for (int64_t i = 1; i < milestones.count; i++)
        if (milestones.items[i] < milestones.items[i - 1])
            return TL_FAIL(TL_EINVAL, "milestones: must not fall, but %lld follows %lld",
                           (long long)milestones.items[i], (long long)milestones.items[i - 1]);
    return TL_OK;
}

static tl_status check_stable_decay(const void *value)
{
    const tl_stable_decay_config *c = value;
    if (!c->total_steps.set || !c->decay_steps.set) return TL_OK;
    if (c->decay_steps.value <= c->total_steps.value) return TL_OK;
    return TL_FAIL(TL_EINVAL, "decay_steps: %lld is more than total_steps, %lld",
                   (long long)c->decay_steps.value, (long long)c->total_steps.value);
}

static tl_status check_step_cosine(const void *value)
{
    const tl_step_cosine_with_offset_config *c = value;
    TL_TRY(check_boundaries(c->boundaries));
    return check_lengths(c->boundaries, c->values, 0);
}

/* --- what is missing -------------------------------------------------------------------------- */

// Experiments may leave these open, and a file fill them in; a schedule needs them.
static tl_status want(bool set, const char *key)
{
    return set ? TL_OK : TL_FAIL(TL_EINVAL, "%s: must be set, it is null", key);
}

#define MISSING(label, steps)                                                                      \
    static tl_status missing_in_##label(const void *value)                                         \
    {                                                                                              \
        const tl_##label##_config *c = value;                                                      \
        TL_TRY(want(c->initial_learning_rate.set, "initial_learning_rate"));                       \
        return want(c->steps.set, #steps);                                                         \
    }
MISSING(polynomial, decay_steps)
MISSING(cosine, decay_steps)
MISSING(cosine_restarts, first_decay_steps)
MISSING(power_linear, total_decay_steps)
MISSING(cosine_annealing, decay_steps)

static tl_status missing_in_exponential(const void *value)
{
    const tl_exponential_config *c = value;
    TL_TRY(want(c->initial_learning_rate.set, "initial_learning_rate"));
    TL_TRY(want(c->decay_steps.set, "decay_steps"));
    return want(c->decay_rate.set, "decay_rate");
}

static tl_status missing_in_power(const void *value)
{
    return want(((const tl_power_config *)value)->initial_learning_rate.set,
                "initial_learning_rate");
}

static tl_status missing_in_power_with_offset(const void *value)
{
    return want(((const tl_power_with_offset_config *)value)->initial_learning_rate.set,
                "initial_learning_rate");
}

// Both lists are there, with the right lengths.
static tl_status missing_in_lists(tl_ints boundaries, tl_doubles values, int64_t more)
{
    TL_TRY(want(values.count > 0, "values"));
    TL_TRY(want(boundaries.count > 0 || values.count == more, "boundaries"));
    return check_lengths(boundaries, values, more);
}

static tl_status missing_in_stepwise(const void *value)
{
    const tl_stepwise_config *c = value;
    return missing_in_lists(c->boundaries, c->values, 1);
}

static tl_status missing_in_step_cosine(const void *value)
{
    const tl_step_cosine_with_offset_config *c = value;
    return missing_in_lists(c->boundaries, c->values, 0);
}

static tl_status missing_in_multistep(const void *value)
{
    const tl_multistep_config *c = value;
    TL_TRY(want(c->initial_learning_rate.set, "initial_learning_rate"));
    return want(c->milestones.items != NULL, "milestones");
}

static tl_status missing_in_stable_decay(const void *value)
{
    const tl_stable_decay_config *c = value;
    TL_TRY(want(c->initial_learning_rate.set, "initial_learning_rate"));
    TL_TRY(want(c->total_steps.set, "total_steps"));
    return want(c->decay_steps.set, "decay_steps");
}

/* --- where they end --------------------------------------------------------------------------- */

/* Those that are not here never stop changing, or in steps of their own. */
#define LENGTH(label, member, condition)                                                           \
    static bool length_of_##label(tl_schedule_length *out, const void *value)                      \
    {                                                                                              \
        const tl_##label##_config *c = value;                                                      \
        *out = (tl_schedule_length){#member, c->member, c->offset};                                \
        return condition;                                                                          \
    }
LENGTH(polynomial, decay_steps, !c->cycle)
LENGTH(cosine, decay_steps, true)
LENGTH(power_linear, total_decay_steps, true)
LENGTH(stable_decay, total_steps, true)

/* --- learning rates --------------------------------------------------------------------------- */

static const tl_field learning_rate_fields[] = {
    TL_F(tl_learning_rate_config, name, .help = "label, without effect on training"),
    TL_F_END,
};
const tl_desc tl_learning_rate_config_desc = {
    .name = "learning_rate",
    .help = "what all learning rates have",
    .size = sizeof(tl_learning_rate_config),
    .fields = learning_rate_fields,
};

static const tl_field constant_fields[] = {
    NAME_ROW(tl_constant_config, "Constant"),
    TL_F(tl_constant_config, learning_rate, TL_FILLED, .d = 0.1, TL_AT_LEAST(0),
         .help = "the learning rate of all steps"),
    TL_F_END,
};
SCHEDULE(constant, "one learning rate for all steps", NULL, NULL);

static const tl_field stepwise_fields[] = {
    NAME_ROW(tl_stepwise_config, "PiecewiseConstantDecay"),
    LIST_ROW(tl_stepwise_config, boundaries, "last steps of all intervals but the last one"),
    RATES_ROW(tl_stepwise_config, "rates of the intervals, one more than boundaries"),
    OFFSET_ROW(tl_stepwise_config),
    TL_F_END,
};
SCHEDULE(stepwise, "constant between boundaries, each of which belongs to the interval before it",
         check_stepwise, missing_in_stepwise);

static const tl_field exponential_fields[] = {
    NAME_ROW(tl_exponential_config, "ExponentialDecay"),
    INITIAL_ROW(tl_exponential_config),
    STEPS_ROW(tl_exponential_config, decay_steps,
              "steps in which the rate falls by decay_rate; must be set"),
    TL_F(tl_exponential_config, decay_rate, TL_AT_LEAST(0),
         .help = "factor that decay_steps bring; must be set"),
    TL_F(tl_exponential_config, staircase,
         .help = "fall once in decay_steps, not a little each step"),
    OFFSET_ROW(tl_exponential_config),
    TL_F_END,
};
SCHEDULE(exponential, "initial * decay_rate ^ (s / decay_steps)", NULL, missing_in_exponential);

static const tl_field polynomial_fields[] = {
    NAME_ROW(tl_polynomial_config, "PolynomialDecay"),
    INITIAL_ROW(tl_polynomial_config),
    STEPS_ROW(tl_polynomial_config, decay_steps, "steps until end_learning_rate; must be set"),
    TL_F(tl_polynomial_config, end_learning_rate, TL_FILLED, .d = 0.0001, TL_AT_LEAST(0),
         .help = "what the schedule ends with"),
    TL_F(tl_polynomial_config, power, TL_FILLED, .d = 1, .help = "1 for a straight line"),
    TL_F(tl_polynomial_config, cycle, .help = "lengthen decay_steps each time they are over"),
    OFFSET_ROW(tl_polynomial_config),
    TL_F_END,
};
SCHEDULE_THAT_ENDS(polynomial, "(initial - end) * (1 - s / decay_steps) ^ power + end", NULL,
                   missing_in_polynomial, length_of_polynomial);

static const tl_field cosine_fields[] = {
    NAME_ROW(tl_cosine_config, "CosineDecay"),
    INITIAL_ROW(tl_cosine_config),
    STEPS_ROW(tl_cosine_config, decay_steps, "steps until the end of the fall; must be set"),
    TL_F(tl_cosine_config, alpha, TL_AT_LEAST(0),
         .help = "share of the initial rate that is left at the end"),
    OFFSET_ROW(tl_cosine_config),
    TL_F_END,
};
SCHEDULE_THAT_ENDS(cosine, "half a cosine wave, then constant", NULL, missing_in_cosine,
                   length_of_cosine);

static const tl_field cosine_restarts_fields[] = {
    NAME_ROW(tl_cosine_restarts_config, "CosineDecayRestarts"),
    INITIAL_ROW(tl_cosine_restarts_config),
    STEPS_ROW(tl_cosine_restarts_config, first_decay_steps,
              "length of the first fall; must be set"),
    TL_F(tl_cosine_restarts_config, t_mul, .d = 2, TL_AT_LEAST(1),
         .help = "how much longer each fall is than the one before it"),
    TL_F(tl_cosine_restarts_config, m_mul, TL_FILLED, .d = 1, TL_AT_LEAST(0),
         .help = "share of the height that each restart reaches of the one before it"),
    TL_F(tl_cosine_restarts_config, alpha, TL_AT_LEAST(0),
         .help = "share of the initial rate that is left at the end"),
    OFFSET_ROW(tl_cosine_restarts_config),
    TL_F_END,
};
SCHEDULE(cosine_restarts, "half a cosine wave, again and again, each longer than the last", NULL,
         missing_in_cosine_restarts);

static const tl_field power_fields[] = {
    NAME_ROW(tl_power_config, "DirectPowerDecay"),
    INITIAL_ROW(tl_power_config),
    TL_F(tl_power_config, power, TL_FILLED, .d = -0.5, .help = "power of the step number"),
    TL_F_END,
};
SCHEDULE(power, "initial * step ^ power", NULL, missing_in_power);

static const tl_field power_linear_fields[] = {
    NAME_ROW(tl_power_linear_config, "PowerAndLinearDecay"),
    INITIAL_ROW(tl_power_linear_config),
    STEPS_ROW(tl_power_linear_config, total_decay_steps, "steps until 0; must be set"),
    TL_F(tl_power_linear_config, power, TL_FILLED, .d = -0.5, .help = "power of the step number"),
    TL_F(tl_power_linear_config, linear_decay_fraction, TL_FILLED, .d = 0.1, TL_RANGE(0, 1),
         .help = "share of the steps, at the end, in which the rate also falls linearly to 0"),
    OFFSET_ROW(tl_power_linear_config),
    TL_F_END,
};
SCHEDULE_THAT_ENDS(power_linear, "initial * s ^ power, with a linear fall to 0 at the end", NULL,
                   missing_in_power_linear, length_of_power_linear);

static const tl_field power_with_offset_fields[] = {
    NAME_ROW(tl_power_with_offset_config, "PowerDecayWithOffset"),
    INITIAL_ROW(tl_power_with_offset_config),
    TL_F(tl_power_with_offset_config, power, TL_FILLED, .d = -0.5, .help = "power of s"),
    TL_F(tl_power_with_offset_config, offset, .help = "the fall starts after this step"),
    TL_F(tl_power_with_offset_config, pre_offset_learning_rate, TL_FILLED, .d = 1e6, TL_AT_LEAST(0),
         .help = "rate until then, and the largest one later"),
    TL_F_END,
};
SCHEDULE(power_with_offset, "constant, then initial * s ^ power", NULL,
         missing_in_power_with_offset);

static const tl_field step_cosine_with_offset_fields[] = {
    NAME_ROW(tl_step_cosine_with_offset_config, "StepCosineDecayWithOffset"),
    LIST_ROW(tl_step_cosine_with_offset_config, boundaries,
             "first steps of the intervals, from 0 on"),
    RATES_ROW(tl_step_cosine_with_offset_config, "learning rates at the boundaries"),
    OFFSET_ROW(tl_step_cosine_with_offset_config),
    TL_F_END,
};
SCHEDULE(step_cosine_with_offset, "from value to value along cosines; the last one stays",
         check_step_cosine, missing_in_step_cosine);

static const tl_field multistep_fields[] = {
    NAME_ROW(tl_multistep_config, "MultiStep"),
    INITIAL_ROW(tl_multistep_config),
    LIST_ROW(tl_multistep_config, milestones, "steps from which on the rate is lower; must be set"),
    TL_F(tl_multistep_config, gamma, TL_FILLED, .d = 0.1, TL_AT_LEAST(0),
         .help = "factor that each milestone brings"),
    OFFSET_ROW(tl_multistep_config),
    TL_F_END,
};
SCHEDULE(multistep, "initial * gamma ^ (milestones that have come)", check_multistep,
         missing_in_multistep);

static const tl_field cosine_annealing_fields[] = {
    NAME_ROW(tl_cosine_annealing_config, "CosineAnnealing"),
    INITIAL_ROW(tl_cosine_annealing_config),
    STEPS_ROW(tl_cosine_annealing_config, decay_steps,
              "length of a fall, and of a rise; must be set"),
    TL_F(tl_cosine_annealing_config, end_learning_rate, TL_AT_LEAST(0),
         .help = "what the rate falls to"),
    OFFSET_ROW(tl_cosine_annealing_config),
    TL_F_END,
};
SCHEDULE(cosine_annealing, "down and up along a cosine wave", NULL, missing_in_cosine_annealing);

static const char *const decay_shapes[] = {"linear", "cosine", "sqrt", NULL};
static const tl_field stable_decay_fields[] = {
    NAME_ROW(tl_stable_decay_config, "StableDecay"),
    INITIAL_ROW(tl_stable_decay_config),
    STEPS_ROW(tl_stable_decay_config, total_steps, "steps until the end of the fall; must be set"),
    STEPS_ROW(tl_stable_decay_config, decay_steps,
              "the last of them, in which it falls; must be set"),
    TL_F(tl_stable_decay_config, end_learning_rate, TL_AT_LEAST(0),
         .help = "what the schedule ends with"),
    TL_F(tl_stable_decay_config, shape, .names = decay_shapes,
         .help = "how it falls: linear, cosine or sqrt (fast at first)"),
    OFFSET_ROW(tl_stable_decay_config),
    TL_F_END,
};
SCHEDULE_THAT_ENDS(stable_decay, "constant, then a fall at the end", check_stable_decay,
                   missing_in_stable_decay, length_of_stable_decay);

/* --- warm-ups --------------------------------------------------------------------------------- */

static const tl_field warmup_fields[] = {
    TL_F(tl_warmup_config, name, .help = "label, without effect on training"),
    TL_F(tl_warmup_config, warmup_steps, TL_AT_LEAST(0),
         .help = "length of the warm-up; must be set"),
    TL_F_END,
};
const tl_desc tl_warmup_config_desc = {
    .name = "warmup",
    .help = "what all warm-ups have",
    .size = sizeof(tl_warmup_config),
    .fields = warmup_fields,
};

static const tl_field linear_warmup_fields[] = {
    NAME_ROW(tl_linear_warmup_config, "linear"),
    TL_F(tl_linear_warmup_config, warmup_learning_rate, TL_AT_LEAST(0),
         .help = "learning rate of step 0"),
    TL_F_END,
};
WARMUP(linear, "a straight line to what the schedule gives at warmup_steps");

static const tl_field polynomial_warmup_fields[] = {
    NAME_ROW(tl_polynomial_warmup_config, "polynomial"),
    TL_F(tl_polynomial_warmup_config, power, TL_FILLED, .d = 1, .help = "1 for a straight line"),
    TL_F_END,
};
WARMUP(polynomial, "(step / warmup_steps) ^ power of what the schedule gives at warmup_steps");

static const tl_field constant_warmup_fields[] = {
    NAME_ROW(tl_constant_warmup_config, "constant"),
    TL_F(tl_constant_warmup_config, warmup_learning_rate, TL_AT_LEAST(0),
         .help = "learning rate of the warm-up"),
    TL_F_END,
};
WARMUP(constant, "one learning rate for all steps of the warm-up");

static const tl_field peak_warmup_fields[] = {
    NAME_ROW(tl_peak_warmup_config, "peak"),
    TL_F(tl_peak_warmup_config, peak_learning_rate, TL_FILLED, .d = 0.1, TL_AT_LEAST(0),
         .help = "learning rate at its end"),
    TL_F(tl_peak_warmup_config, power, TL_FILLED, .d = 1, .help = "1 for a straight line"),
    TL_F_END,
};
WARMUP(peak, "(step / warmup_steps) ^ power of peak_learning_rate, from which the schedule takes "
             "over");

/* --- modules ---------------------------------------------------------------------------------- */

static const tl_entry learning_rates[] = {
    {&tl_kind_learning_rate, &constant_class.cls},
    {&tl_kind_learning_rate, &cosine_class.cls},
    {&tl_kind_learning_rate, &cosine_annealing_class.cls},
    {&tl_kind_learning_rate, &cosine_restarts_class.cls},
    {&tl_kind_learning_rate, &exponential_class.cls},
    {&tl_kind_learning_rate, &multistep_class.cls},
    {&tl_kind_learning_rate, &polynomial_class.cls},
    {&tl_kind_learning_rate, &power_class.cls},
    {&tl_kind_learning_rate, &power_linear_class.cls},
    {&tl_kind_learning_rate, &power_with_offset_class.cls},
    {&tl_kind_learning_rate, &stable_decay_class.cls},
    {&tl_kind_learning_rate, &step_cosine_with_offset_class.cls},
    {&tl_kind_learning_rate, &stepwise_class.cls},
};
const tl_module tl_learning_rates_module = {TL_MODULE_HEAD("learning_rates"), learning_rates,
                                            TL_COUNT(learning_rates)};

static const tl_entry warmups[] = {
    {&tl_kind_warmup, &constant_warmup_class.cls},
    {&tl_kind_warmup, &linear_warmup_class.cls},
    {&tl_kind_warmup, &peak_warmup_class.cls},
    {&tl_kind_warmup, &polynomial_warmup_class.cls},
};
const tl_module tl_warmups_module = {TL_MODULE_HEAD("warmups"), warmups, TL_COUNT(warmups)};
