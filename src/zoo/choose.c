#include <inttypes.h>
#include <stdarg.h>

#include <tilth/base/integer.h>

#include "zoo/inner/zoo.h"

tl_status tli_choose(tl_config *config, const char *key, const char *format, ...)
{
    tl_str word = TL_STR_INIT;
    va_list args;
    if (tl_config_is_given(config, key)) return TL_OK;
    tl_str_addf(&word, "%s=", key);
    va_start(args, format);
    tl_str_addv(&word, format, args);
    va_end(args);
    tl_status st = tl_str_status(&word);
    if (st == TL_OK) st = tl_config_word(config, tl_str_text(&word), TLI_THE_DATA);
    tl_str_deinit(&word);
    return st;
}

tl_status tli_choose_batch(tl_config *config, const char *key, int64_t batch)
{
    const tl_experiment_config *e = tl_config_value(config);
    return tli_choose(config, key, "%" PRId64, tl_round_up(batch, tl_max_i64(e->tilth.lanes, 1)));
}

tl_status tli_choose_steps(tl_config *config, int64_t epoch, int64_t epochs)
{
    enum { EVALUATIONS = 20, LEAST_STEPS = 100 }; // at most; at least
    const tl_trainer_config *t =
        ((const tl_experiment_config *)tl_config_value(config))->trainer.value;
    bool given = tl_config_is_given(config, "trainer.train_steps");
    int64_t steps = given ? tl_max_i64(t->train_steps, 1) : tl_max_i64(epochs * epoch, LEAST_STEPS);
    int64_t interval = tl_max_i64(tl_div_up(steps, EVALUATIONS), given ? 1 : epoch);
    if (interval > steps) interval = steps;
    TL_TRY(tli_choose(config, "trainer.steps_per_loop", "%" PRId64,
                      interval > 100 ? tl_div_up(interval, 5) : interval));
    int64_t loop = tl_max_i64(t->steps_per_loop, 1);
    interval = tl_round_up(interval, loop);
    TL_TRY(tli_choose(config, "trainer.train_steps", "%" PRId64, tl_round_up(steps, interval)));
    TL_TRY(tli_choose(config, "trainer.validation_interval", "%" PRId64, interval));
    TL_TRY(tli_choose(config, "trainer.summary_interval", "%" PRId64, loop));
    return tli_choose(config, "trainer.checkpoint_interval", "%" PRId64, interval);
}
