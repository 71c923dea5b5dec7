/* A plug-in: a task, an experiment, an optimizer and a learning rate of one's own, for the `tilth`
 * that is installed.
 *
 *     cc -shared -fPIC plugin.c digits.c -o libdigits.so $(pkg-config --cflags tilth)
 *     tilth list experiments --plugin=./libdigits.so
 *     tilth train --plugin=./libdigits.so --experiment=example/digits --mode=train \
 *         --model_dir=run trainer.optimizer_config.optimizer.type=sign_sgd \
 *         trainer.optimizer_config.learning_rate.type=halving */
#include "digits.h"

/* A branch of `optimizer: {type: ...}` like the built-in ones. */
typedef struct sign_sgd_config {
    tl_optimizer_config base;
    double beta;
} sign_sgd_config;
static const tl_field sign_sgd_fields[] = {
    TL_F(sign_sgd_config, beta, .d = 0.9, TL_RANGE(0, 1), .help = "decay of the running gradient"),
    TL_F_END,
};
static const tl_desc sign_sgd_desc = {
    .name = "sign_sgd",
    .help = "steps by the sign of the gradient",
    .size = sizeof(sign_sgd_config),
    .base = &tl_optimizer_config_desc,
    .fields = sign_sgd_fields,
};

/* The running gradient of each block of parameters: in checkpoints as "m/<parameter>". */
static tl_status prepare(tl_optimizer_block *b, const void *config)
{
    (void)config;
    return tl_optimizer_add_slot(b, "m", 0);
}

/* m = beta m + (1 - beta) g; w -= rate sign(m). Made of ops, so it becomes part of the compiled
 * step. */
static bool update(tl_ctx *c, const tl_update *u)
{
    const sign_sgd_config *config = u->config;
    tl_tensor *w = u->values, *m = tl_optimizer_slot(u->block, "m");
    tl_tensor *g = tl_mul(c, tl_cast(c, u->grad, w->dtype), tl_cast(c, u->scale, w->dtype));
    tl_tensor *running = tl_add(c, tl_scale(c, m, config->beta), tl_scale(c, g, 1 - config->beta));
    tl_tensor *by = tl_mul(c, tl_cast(c, u->rate, w->dtype), tl_sign(c, running));
    // Gradients that are not finite leave everything as it is.
    return tl_assign(c, w, tl_where(c, u->apply, tl_sub(c, w, by), w))
           && tl_assign(c, m, tl_where(c, u->apply, running, m));
}

static const tl_optimizer_class sign_sgd = {
    .cls = {.class_size = sizeof(tl_optimizer_class),
            .name = "sign_sgd",
            .help = "steps by the sign of the gradient",
            .config = &sign_sgd_desc},
    .prepare = prepare,
    .update = update,
};

/* A branch of `learning_rate: {type: ...}`. */
typedef struct halving_config {
    tl_learning_rate_config base;
    double initial_learning_rate;
    int64_t steps;
} halving_config;
static const tl_field halving_fields[] = {
    TL_F(halving_config, initial_learning_rate, .d = 0.005, TL_AT_LEAST(0),
         .help = "rate at first"),
    TL_F(halving_config, steps, .i = 400, TL_AT_LEAST(1), .help = "updates until it is halved"),
    TL_F_END,
};
static const tl_desc halving_desc = {
    .name = "halving",
    .help = "half the rate every so many updates",
    .size = sizeof(halving_config),
    .base = &tl_learning_rate_config_desc,
    .fields = halving_fields,
};

/* Ops too: the rate is computed inside the step, from the number of updates that were done. */
static tl_tensor *halving_rate(tl_ctx *c, const void *config, tl_tensor *step)
{
    const halving_config *h = config;
    tl_tensor *falls = tl_floor(c, tl_scale(c, step, 1 / (double)h->steps));
    return tl_scale(c, tl_pow(c, tl_number(c, TL_F64, 0.5), falls), h->initial_learning_rate);
}

static const tl_learning_rate_class halving = {
    .cls = {.class_size = sizeof(tl_learning_rate_class),
            .name = "halving",
            .help = "half the rate every so many updates",
            .config = &halving_desc},
    .rate = halving_rate,
};

static const tl_entry entries[] = {
    {&tl_kind_task, &digits_task.cls},
    {&tl_kind_experiment, &digits_experiment.cls},
    {&tl_kind_optimizer, &sign_sgd.cls},
    {&tl_kind_learning_rate, &halving.cls},
};

const tl_module tl_module_main = {TL_MODULE_HEAD("digits"), entries, TL_COUNT(entries)};
