#include <tilth/train/controller/actions.h>

#include <tilth/train/controller/controller.h>

#include "train/trainer/trainer.h"

#define USUAL_DECAY 0.99

typedef tl_noise_scale_instance scale;

static tl_status start(tl_hook *h, const void *config)
{
    scale *s = (scale *)h;
    const tl_noise_scale_config *given = config;
    h->started = true;
    s->decay = given && given->decay != 0 ? given->decay : USUAL_DECAY;
    if (s->decay < 0) s->decay = 0;
    if (s->decay < 1) return TL_OK;
    return TL_FAIL(TL_EINVAL, "the decay of a gradient noise scale is %g and must be below 1",
                   s->decay);
}

static tl_status keep(tl_hook *h, tl_state *into)
{
    scale *s = (scale *)h;
    TL_TRY(tl_state_bind_double(into, "noise", &s->noise));
    return tl_state_bind_double(into, "signal", &s->signal);
}

static tl_status before_train(tl_hook *h)
{
    const tl_trainer *t = tl_controller_trainer(h->controller);
    if (!t->optimizer || !t->parts->sums)
        return TL_FAIL(TL_EINVAL,
                       "a gradient noise scale compares the gradients of single batches "
                       "with their mean: set tilth.gradient_accumulation, or tilth.lanes, to 2 "
                       "or more");
    return TL_OK;
}

/* An optimizer may be another one than before: stages have their own. */
static tl_status before_step(tl_hook *h)
{
    return tl_optimizer_measure_noise(tl_controller_trainer(h->controller)->optimizer);
}

/* The estimates of one step say little, and their quotient less: each is averaged by itself. */
static tl_status after_step(tl_hook *h)
{
    scale *s = (scale *)h;
    tl_gradient_noise now;
    TL_TRY(tl_optimizer_noise(&now, tl_controller_trainer(h->controller)->optimizer));
    if (!now.known) return TL_OK;
    s->noise = s->decay * s->noise + (1 - s->decay) * now.noise;
    s->signal = s->decay * s->signal + (1 - s->decay) * now.signal;
    return TL_OK;
}

static tl_status after_loop(tl_hook *h, tl_logs *logs)
{
    const scale *s = (const scale *)h;
    if (!(s->signal > 0)) return TL_OK; // there is only noise so far
    return tl_logs_put(logs, TL_NOISE_SCALE, s->noise > 0 ? s->noise / s->signal : 0);
}

const tl_hook_class tl_noise_scale_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "noise_scale",
            .size = sizeof(tl_noise_scale_instance),
            .help = "tells how much the gradients of examples differ"},
    .start = start,
    .needs_start = true,
    .before_train = before_train,
    .before_step = before_step,
    .after_step = after_step,
    .after_loop = after_loop,
    .state = keep,
};
