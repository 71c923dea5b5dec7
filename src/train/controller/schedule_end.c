#include "train/controller/schedule_end.h"

#include <inttypes.h>
#include <stdio.h>

#include <tilth/base/log.h>
#include <tilth/nn/schedule.h>

#define RATE_KEY "trainer.optimizer_config.learning_rate"

/* --- at the length of the training ------------------------------------------------------------ */

tl_status tli_stretch_schedule(tl_config *config, const tl_registry *registry)
{
    const tl_experiment_config *e = tl_config_value(config);
    const tl_trainer_config *t = e->trainer.value;
    tl_schedule_length length;
    bool ends;
    char word[256];
    if (!e->tilth.schedule_to_end || !t || t->train_steps < 1) return TL_OK;
    TL_TRY(tl_schedule_length_of(&ends, &length, &t->optimizer_config, registry));
    if (!ends) return TL_OK;
    if (t->train_steps <= length.offset)
        return TL_FAIL(TL_EINVAL,
                       "tilth.schedule_to_end: " RATE_KEY ".%s.offset is %" PRId64
                       ", and training ends at trainer.train_steps=%" PRId64
                       ", before the schedule begins",
                       t->optimizer_config.learning_rate.type, length.offset, t->train_steps);
    snprintf(word, sizeof word, "++" RATE_KEY ".%s.%s=%" PRId64,
             t->optimizer_config.learning_rate.type, length.key, t->train_steps - length.offset);
    return tl_config_word(config, word, "tilth.schedule_to_end");
}

/* --- shorter ones ----------------------------------------------------------------------------- */

static void warn(const tl_trainer_config *t, const tl_schedule_length *length, tl_engine *engine)
{
    const char *type = t->optimizer_config.learning_rate.type;
    int64_t end = length->offset + length->steps.value;
    double rate;
    char last[64] = "its last rate";
    if (tl_schedule_rate(&rate, engine, &t->optimizer_config, t->train_steps) == TL_OK)
        snprintf(last, sizeof last, "the rate %g", rate);
    TL_LOG_WARNING("the learning rate '%s' ends at step %" PRId64
                   " (%s), and training goes on to step %" PRId64 " with %s: set " RATE_KEY
                   ".%s.%s=%" PRId64 ", or tilth.schedule_to_end=true",
                   type, end, length->key, t->train_steps, last, type, length->key,
                   t->train_steps - length->offset);
}

void tli_tell_schedule_end(const tl_experiment_config *params, const tl_registry *registry,
                           tl_engine *engine)
{
    const tl_trainer_config *t = params->trainer.value;
    tl_schedule_length length;
    tl_error before;
    bool ends;
    tl_error_save(&before);
    // What is wrong with a schedule is said by who makes one of it.
    if (tl_schedule_length_of(&ends, &length, &t->optimizer_config, registry) == TL_OK && ends
        && length.steps.set && length.offset + length.steps.value < t->train_steps)
        warn(t, &length, engine);
    else if (params->tilth.schedule_to_end && !ends && t->optimizer_config.learning_rate.type)
        TL_LOG_WARNING("tilth.schedule_to_end changes nothing: the learning rate '%s' has no end",
                       t->optimizer_config.learning_rate.type);
    tl_error_restore(&before);
}
