/* The rules of update that are one op over a block: what they keep, and how they call it. */
#include <string.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/update.h>

#include "nn/optimizer.h"

static tl_tensor *slot(const tl_update *u, const char *name)
{
    return tl_optimizer_slot(u->block, name);
}

// For attributes: which parameters decay. Nothing to say when none does.
static tl_ints offsets_of(const tl_optimizer_block *b)
{
    return b->weight_decay != 0 ? b->offsets : (tl_ints){NULL, 0};
}

static tl_ints decayed_of(const tl_optimizer_block *b)
{
    return b->weight_decay != 0 ? (tl_ints){b->decayed, b->offsets.count} : (tl_ints){NULL, 0};
}

/* --- gradient descent ------------------------------------------------------------------------- */

static tl_status prepare_sgd(tl_optimizer_block *b, double momentum, double weight_decay)
{
    b->weight_decay = weight_decay;
    return momentum != 0 ? tl_optimizer_add_slot(b, "momentum", 0) : TL_OK;
}

static bool update_sgd(tl_ctx *c, const tl_update *u, double momentum, bool nesterov,
                       tl_update_form form)
{
    return tl_update_sgd(c, u->values, u->grad, u->hyper, slot(u, "momentum"),
                         &(tl_sgd_attr){.momentum = momentum,
                                        .weight_decay = u->block->weight_decay,
                                        .form = form,
                                        .nesterov = nesterov,
                                        .offsets = offsets_of(u->block),
                                        .decayed = decayed_of(u->block)});
}

tl_status tli_sgd_prepare(tl_optimizer_block *b, const void *config)
{
    return prepare_sgd(b, ((const tl_sgd_config *)config)->momentum, 0);
}

bool tli_sgd_update(tl_ctx *c, const tl_update *u)
{
    const tl_sgd_config *g = u->config;
    return update_sgd(c, u, g->momentum, g->nesterov, TL_FORM_KERAS);
}

tl_tensor *tli_sgd_rate(tl_ctx *c, const tl_optimizer *o, tl_tensor *step, tl_tensor *rate)
{
    const tl_sgd_config *g = tl_optimizer_settings(o)->optimizer.value;
    return g->decay != 0 ? tl_div(c, rate, tl_affine(c, step, g->decay, 1)) : rate;
}

tl_status tli_sgd_experimental_prepare(tl_optimizer_block *b, const void *config)
{
    return prepare_sgd(b, ((const tl_sgd_experimental_config *)config)->momentum, 0);
}

bool tli_sgd_experimental_update(tl_ctx *c, const tl_update *u)
{
    const tl_sgd_experimental_config *g = u->config;
    return update_sgd(c, u, g->momentum, g->nesterov, TL_FORM_KERAS);
}

tl_status tli_torch_sgd_prepare(tl_optimizer_block *b, const void *config)
{
    const tl_torch_sgd_config *g = config;
    return prepare_sgd(b, g->momentum, g->weight_decay);
}

bool tli_torch_sgd_update(tl_ctx *c, const tl_update *u)
{
    const tl_torch_sgd_config *g = u->config;
    return update_sgd(c, u, g->momentum, g->nesterov, TL_FORM_PYTORCH);
}

/* --- Adam and its kin ------------------------------------------------------------------------- */

static tl_status prepare_adam(tl_optimizer_block *b, bool amsgrad, double weight_decay)
{
    b->weight_decay = weight_decay;
    TL_TRY(tl_optimizer_add_slot(b, "m", 0));
    TL_TRY(tl_optimizer_add_slot(b, "v", 0));
    return amsgrad ? tl_optimizer_add_slot(b, "vhat", 0) : TL_OK;
}

static bool update_adam(tl_ctx *c, const tl_update *u, tl_adam_attr attr)
{
    attr.weight_decay = u->block->weight_decay;
    attr.offsets = offsets_of(u->block);
    attr.decayed = decayed_of(u->block);
    return tl_update_adam(c, u->values, u->grad, u->hyper, slot(u, "m"), slot(u, "v"),
                          slot(u, "vhat"), &attr);
}

/* Keras's older optimizers keep their numbers in the type of the weights, and 1 - beta is that of
 * the rounded beta: for 0.999 and float32, apart by 1.3e-5, which their slots show. */
static double as_kept(const tl_update *u, double number)
{
    return u->values->dtype == TL_F64 ? number : (double)(float)number;
}

static double as_given(const tl_update *u, double number)
{
    (void)u;
    return number;
}

/* The four configurations have these members under the same names. */
#define ADAM(label, form_, decay, number)                                                          \
    tl_status tli_##label##_prepare(tl_optimizer_block *b, const void *config)                     \
    {                                                                                              \
        const tl_##label##_config *g = config;                                                     \
        return prepare_adam(b, g->amsgrad, decay);                                                 \
    }                                                                                              \
    bool tli_##label##_update(tl_ctx *c, const tl_update *u)                                       \
    {                                                                                              \
        const tl_##label##_config *g = u->config;                                                  \
        return update_adam(c, u,                                                                   \
                           (tl_adam_attr){.beta_1 = number(u, g->beta_1.value),                    \
                                          .beta_2 = number(u, g->beta_2.value),                    \
                                          .epsilon = g->epsilon.value,                             \
                                          .form = form_,                                           \
                                          .amsgrad = g->amsgrad});                                 \
    }
ADAM(adam, TL_FORM_KERAS, 0, as_kept)
ADAM(adam_experimental, TL_FORM_KERAS, 0, as_given)
ADAM(adamw_experimental, TL_FORM_KERAS, g->weight_decay, as_given)
ADAM(torch_adamw, TL_FORM_PYTORCH, g->weight_decay.value, as_given)

// One pattern or a list of them, as they were written.
static tl_status mark_included(const tl_optimizer_block *b, const tl_value *v)
{
    const char *key = "include_in_weight_decay";
    if (!v || tl_value_is_null(v)) return TL_OK;
    if (v->kind == TL_VALUE_SCALAR)
        return tl_optimizer_mark(b, b->decayed, (tl_strings){&v->text, 1}, 1, key);
    for (int64_t i = 0; i < v->count; i++)
        TL_TRY(tl_optimizer_mark(b, b->decayed, (tl_strings){&v->items[i]->text, 1}, 1, key));
    return TL_OK;
}

// What is included decays, whatever excludes it.
tl_status tli_adamw_prepare(tl_optimizer_block *b, const void *config)
{
    const tl_adamw_config *g = config;
    TL_TRY(tl_optimizer_mark(b, b->decayed, g->exclude_from_weight_decay, 0,
                             "exclude_from_weight_decay"));
    TL_TRY(mark_included(b, g->include_in_weight_decay));
    return prepare_adam(b, g->amsgrad, g->weight_decay_rate);
}

bool tli_adamw_update(tl_ctx *c, const tl_update *u)
{
    const tl_adamw_config *g = u->config;
    return update_adam(c, u,
                       (tl_adam_attr){.beta_1 = as_kept(u, g->beta_1.value),
                                      .beta_2 = as_kept(u, g->beta_2.value),
                                      .epsilon = g->epsilon.value,
                                      .amsgrad = g->amsgrad});
}

double tli_adamw_clip_norm(const void *config)
{
    return ((const tl_adamw_config *)config)->gradient_clip_norm.value;
}

/* --- rates that follow norms ------------------------------------------------------------------ */

// Without a list of its own, adaptation leaves out what decay leaves out.
static tl_status mark_layers(const tl_optimizer_block *b, tl_strings decay, tl_strings adaptation)
{
    TL_TRY(tl_optimizer_mark(b, b->decayed, decay, 0, "exclude_from_weight_decay"));
    return adaptation.count
               ? tl_optimizer_mark(b, b->adapted, adaptation, 0, "exclude_from_layer_adaptation")
               : tl_optimizer_mark(b, b->adapted, decay, 0, "exclude_from_weight_decay");
}

static tl_ints all_of(const tl_optimizer_block *b, const int64_t *flags)
{
    return (tl_ints){flags, b->offsets.count};
}

tl_status tli_lamb_prepare(tl_optimizer_block *b, const void *config)
{
    const tl_lamb_config *g = config;
    TL_TRY(mark_layers(b, g->exclude_from_weight_decay, g->exclude_from_layer_adaptation));
    return prepare_adam(b, false, g->weight_decay_rate);
}

bool tli_lamb_update(tl_ctx *c, const tl_update *u)
{
    const tl_lamb_config *g = u->config;
    const tl_optimizer_block *b = u->block;
    return tl_update_lamb(c, u->values, u->grad, u->hyper, slot(u, "m"), slot(u, "v"),
                          &(tl_lamb_attr){.beta_1 = as_kept(u, g->beta_1.value),
                                          .beta_2 = as_kept(u, g->beta_2.value),
                                          .epsilon = g->epsilon.value,
                                          .weight_decay = b->weight_decay,
                                          .offsets = b->offsets,
                                          .decayed = all_of(b, b->decayed),
                                          .adapted = all_of(b, b->adapted)});
}

tl_status tli_lars_prepare(tl_optimizer_block *b, const void *config)
{
    const tl_lars_config *g = config;
    TL_TRY(mark_layers(b, g->exclude_from_weight_decay, g->exclude_from_layer_adaptation));
    b->weight_decay = g->weight_decay_rate;
    return tl_optimizer_add_slot(b, "momentum", 0);
}

bool tli_lars_update(tl_ctx *c, const tl_update *u)
{
    const tl_lars_config *g = u->config;
    const tl_optimizer_block *b = u->block;
    return tl_update_lars(c, u->values, u->grad, u->hyper, slot(u, "momentum"),
                          &(tl_lars_attr){.momentum = g->momentum.value,
                                          .eeta = g->eeta.value,
                                          .weight_decay = b->weight_decay,
                                          .nesterov = g->nesterov,
                                          .classic_momentum = g->classic_momentum.value,
                                          .offsets = b->offsets,
                                          .decayed = all_of(b, b->decayed),
                                          .adapted = all_of(b, b->adapted)});
}

/* --- RMSProp, Adagrad ------------------------------------------------------------------------- */

tl_status tli_rmsprop_prepare(tl_optimizer_block *b, const void *config)
{
    const tl_rmsprop_config *g = config;
    TL_TRY(tl_optimizer_add_slot(b, "rms", 0));
    if (g->centered) TL_TRY(tl_optimizer_add_slot(b, "mg", 0));
    return g->momentum != 0 ? tl_optimizer_add_slot(b, "momentum", 0) : TL_OK;
}

bool tli_rmsprop_update(tl_ctx *c, const tl_update *u)
{
    const tl_rmsprop_config *g = u->config;
    return tl_update_rmsprop(c, u->values, u->grad, u->hyper, slot(u, "rms"), slot(u, "mg"),
                             slot(u, "momentum"),
                             &(tl_rmsprop_attr){.rho = as_kept(u, g->rho.value),
                                                .momentum = g->momentum,
                                                .epsilon = g->epsilon.value,
                                                .centered = g->centered});
}

tl_status tli_adagrad_prepare(tl_optimizer_block *b, const void *config)
{
    return tl_optimizer_add_slot(
        b, "accumulator", ((const tl_adagrad_config *)config)->initial_accumulator_value.value);
}

bool tli_adagrad_update(tl_ctx *c, const tl_update *u)
{
    const tl_adagrad_config *g = u->config;
    return tl_update_adagrad(c, u->values, u->grad, u->hyper, slot(u, "accumulator"),
                             &(tl_adagrad_attr){.epsilon = g->epsilon.value});
}

/* --- the rest of Keras ------------------------------------------------------------------------ */

static tl_status prepare_pair(tl_optimizer_block *b, const char *first, double from,
                              const char *second, double weight_decay)
{
    b->weight_decay = weight_decay;
    TL_TRY(tl_optimizer_add_slot(b, first, from));
    return tl_optimizer_add_slot(b, second, 0);
}

tl_status tli_adadelta_prepare(tl_optimizer_block *b, const void *config)
{
    return prepare_pair(b, "accum_grad", 0, "accum_var",
                        ((const tl_adadelta_config *)config)->weight_decay);
}

bool tli_adadelta_update(tl_ctx *c, const tl_update *u)
{
    const tl_adadelta_config *g = u->config;
    return tl_update_adadelta(c, u->values, u->grad, u->hyper, slot(u, "accum_grad"),
                              slot(u, "accum_var"),
                              &(tl_adadelta_attr){.rho = g->rho.value,
                                                  .epsilon = g->epsilon.value,
                                                  .weight_decay = u->block->weight_decay,
                                                  .offsets = offsets_of(u->block),
                                                  .decayed = decayed_of(u->block)});
}

tl_status tli_adamax_prepare(tl_optimizer_block *b, const void *config)
{
    return prepare_pair(b, "m", 0, "v", ((const tl_adamax_config *)config)->weight_decay);
}

bool tli_adamax_update(tl_ctx *c, const tl_update *u)
{
    const tl_adamax_config *g = u->config;
    return tl_update_adamax(c, u->values, u->grad, u->hyper, slot(u, "m"), slot(u, "v"),
                            &(tl_adamax_attr){.beta_1 = g->beta_1.value,
                                              .beta_2 = g->beta_2.value,
                                              .epsilon = g->epsilon.value,
                                              .weight_decay = u->block->weight_decay,
                                              .offsets = offsets_of(u->block),
                                              .decayed = decayed_of(u->block)});
}

tl_status tli_nadam_prepare(tl_optimizer_block *b, const void *config)
{
    return prepare_pair(b, "m", 0, "v", ((const tl_nadam_config *)config)->weight_decay);
}

bool tli_nadam_update(tl_ctx *c, const tl_update *u)
{
    const tl_nadam_config *g = u->config;
    return tl_update_nadam(c, u->values, u->grad, u->hyper, slot(u, "m"), slot(u, "v"),
                           &(tl_nadam_attr){.beta_1 = as_kept(u, g->beta_1.value),
                                            .beta_2 = as_kept(u, g->beta_2.value),
                                            .epsilon = g->epsilon.value,
                                            .weight_decay = u->block->weight_decay,
                                            .offsets = offsets_of(u->block),
                                            .decayed = decayed_of(u->block)});
}

tl_status tli_ftrl_prepare(tl_optimizer_block *b, const void *config)
{
    const tl_ftrl_config *g = config;
    return prepare_pair(b, "accumulator", g->initial_accumulator_value.value, "linear",
                        g->weight_decay);
}

bool tli_ftrl_update(tl_ctx *c, const tl_update *u)
{
    const tl_ftrl_config *g = u->config;
    return tl_update_ftrl(c, u->values, u->grad, u->hyper, slot(u, "accumulator"),
                          slot(u, "linear"),
                          &(tl_ftrl_attr){.learning_rate_power = g->learning_rate_power.value,
                                          .l1 = g->l1_regularization_strength,
                                          .l2 = g->l2_regularization_strength,
                                          .l2_shrinkage = g->l2_shrinkage_regularization_strength,
                                          .beta = g->beta,
                                          .weight_decay = u->block->weight_decay,
                                          .offsets = offsets_of(u->block),
                                          .decayed = decayed_of(u->block)});
}

tl_status tli_lion_prepare(tl_optimizer_block *b, const void *config)
{
    b->weight_decay = ((const tl_lion_config *)config)->weight_decay;
    return tl_optimizer_add_slot(b, "m", 0);
}

bool tli_lion_update(tl_ctx *c, const tl_update *u)
{
    const tl_lion_config *g = u->config;
    return tl_update_lion(c, u->values, u->grad, u->hyper, slot(u, "m"),
                          &(tl_lion_attr){.beta_1 = as_kept(u, g->beta_1.value),
                                          .beta_2 = as_kept(u, g->beta_2.value),
                                          .weight_decay = u->block->weight_decay,
                                          .offsets = offsets_of(u->block),
                                          .decayed = decayed_of(u->block)});
}
