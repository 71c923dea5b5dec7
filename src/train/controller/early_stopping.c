#include <tilth/train/controller/actions.h>

#include <inttypes.h>
#include <math.h>

#include <tilth/base/log.h>
#include <tilth/train/controller/controller.h>

#include "train/run/metric_name.h"

typedef tl_early_stopping_instance stopping;

static tl_status start(tl_hook *h, const void *config)
{
    stopping *s = (stopping *)h;
    h->started = true;
    if (!config) return TL_FAIL(TL_EINVAL, "early stopping needs a config that names a metric");
    s->config = *(const tl_early_stopping_config *)config;
    if (!s->config.metric || !*s->config.metric)
        return TL_FAIL(TL_EINVAL, "early stopping needs a metric, and none is given");
    if (s->config.patience < 1)
        return TL_FAIL(TL_EINVAL,
                       "the patience of early stopping is %" PRId64 " and must be 1 or more",
                       s->config.patience);
    if (!(s->config.min_delta >= 0))
        return TL_FAIL(TL_EINVAL, "min_delta of early stopping is %g and must be 0 or more",
                       s->config.min_delta);
    s->config.metric = tl_arena_strdup(h->arena, s->config.metric);
    if (!s->config.metric) return TL_ENOMEM;
    s->best = tli_metric_worst(s->config.comp);
    s->best_step = s->seen = -1;
    return TL_OK;
}

static tl_status keep(tl_hook *h, tl_state *into)
{
    stopping *s = (stopping *)h;
    TL_TRY(tl_state_bind_double(into, "best", &s->best));
    TL_TRY(tl_state_bind_int(into, "best_step", &s->best_step));
    TL_TRY(tl_state_bind_int(into, "waited", &s->waited));
    return tl_state_bind_int(into, "seen", &s->seen);
}

static void stop_when_due(const stopping *s)
{
    tl_str reason = TL_STR_INIT;
    if (s->waited < s->config.patience) return;
    tl_str_addf(&reason, "%s has not become better in %" PRId64 " evaluation%s", s->config.metric,
                s->waited, s->waited == 1 ? "" : "s");
    if (s->best_step >= 0)
        tl_str_addf(&reason, " (best: %g at step %" PRId64 ")", s->best, s->best_step);
    tl_controller_request_stop(s->base.controller, tl_str_text(&reason));
    tl_str_deinit(&reason);
}

// A run that was ended stays so when the same command is given again.
static tl_status before_train(tl_hook *h)
{
    stop_when_due((stopping *)h);
    return TL_OK;
}

static tl_status after_eval(tl_hook *h, tl_logs *logs)
{
    stopping *s = (stopping *)h;
    const tl_early_stopping_config *o = &s->config;
    int64_t step = tl_controller_step(h->controller);
    double value;
    TL_TRY_NOTE(tli_metric_get(&value, logs, o->metric), "tilth.early_stopping.metric");
    if (step == s->seen) return TL_OK; // the same once more
    s->seen = step;
    double margin = o->comp == TL_METRIC_LOWER ? o->min_delta : -o->min_delta;
    bool first = s->best_step < 0 && isfinite(value);
    if (first || (s->best_step >= 0 && tli_metric_is_better(o->comp, value + margin, s->best))) {
        s->best = value;
        s->best_step = step;
        s->waited = 0;
        return TL_OK;
    }
    s->waited++;
    TL_LOG_INFO("%s is %g, the best %g of step %" PRId64 "; training ends after %" PRId64
                " more such evaluations",
                o->metric, value, s->best, s->best_step,
                s->waited < o->patience ? o->patience - s->waited : 0);
    stop_when_due(s);
    return TL_OK;
}

const tl_hook_class tl_early_stopping_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "early_stopping",
            .size = sizeof(tl_early_stopping_instance),
            .help = "ends the training when a metric stops getting better"},
    .start = start,
    .needs_start = true,
    .before_train = before_train,
    .after_eval = after_eval,
    .state = keep,
};
