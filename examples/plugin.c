/* A plug-in: a task, an experiment and an optimizer of one's own, for the `tilth` that is
 * installed.
 *
 *     cc -shared -fPIC plugin.c digits.c -o libdigits.so $(pkg-config --cflags tilth)
 *     tilth list experiments --plugin=./libdigits.so
 *     tilth train --plugin=./libdigits.so --experiment=example/digits --mode=train \
 *         --model_dir=run trainer.optimizer_config.optimizer.type=sign_sgd */
#include "digits.h"

/* A branch of `optimizer: {type: ...}` like the built-in ones. */
typedef struct sign_sgd_config {
    tl_optimizer_config base;
    double beta;
} sign_sgd_config;
static const tl_field sign_sgd_fields[] = {
    TL_F(sign_sgd_config, beta, .d = 0.9, TL_RANGE(0, 1), .help = "decay of the running gradient"),
    TL_F_END
};
static const tl_desc sign_sgd_desc = {
    .name = "sign_sgd", .help = "steps by the sign of the gradient",
    .size = sizeof(sign_sgd_config), .base = &tl_optimizer_config_desc, .fields = sign_sgd_fields,
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
    .cls = {.class_size = sizeof(tl_optimizer_class), .name = "sign_sgd",
            .help = "steps by the sign of the gradient", .config = &sign_sgd_desc},
    .prepare = prepare, .update = update,
};

static const tl_entry entries[] = {
    {&tl_kind_task, &digits_task.cls},
    {&tl_kind_experiment, &digits_experiment.cls},
    {&tl_kind_optimizer, &sign_sgd.cls},
};

const tl_module tl_module_main = {TL_MODULE_HEAD("digits"), entries, TL_COUNT(entries)};
