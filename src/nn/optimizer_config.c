#include <tilth/nn/optimization.h>

#include <tilth/base/str.h>

#include "nn/optimizer.h"

static const tl_method optimizer_methods[] = {
    TL_METHOD(tl_optimizer_class, update, false),
    TL_METHOD(tl_optimizer_class, prepare, false),
    TL_METHOD(tl_optimizer_class, rate, false),
    TL_METHOD(tl_optimizer_class, clip_norm, false),
    {NULL, 0, false},
};
const tl_kind tl_kind_optimizer = {
    .name = "optimizer",
    .plural = "optimizers",
    .help = "how gradients change the weights",
    .class_size = sizeof(tl_optimizer_class),
    .methods = optimizer_methods,
    .names_are_keys = true,
    .config_base = &tl_optimizer_config_desc,
    .config_required = true,
};

/* --- rows that several optimizers have -------------------------------------------------------- */

#define NAME_ROW(T, text)                                                                          \
    TL_F_AS(T, base.name, "name", .s = text, .help = "label, without effect on training")
#define MOMENTUM_ROW(T, ...)                                                                       \
    TL_F(T, momentum, __VA_ARGS__, TL_RANGE(0, 1),                                                 \
         .help = "share of the last update that is kept in the next one")
#define NESTEROV_ROW(T) TL_F(T, nesterov, .help = "look ahead along the momentum (Nesterov)")
#define BETA_1_ROW(T)                                                                              \
    TL_F(T, beta_1, TL_FILLED, .d = 0.9, TL_RANGE(0, 1),                                           \
         .help = "decay of the average of gradients")
#define BETA_2_ROW(T)                                                                              \
    TL_F(T, beta_2, TL_FILLED, .d = 0.999, TL_RANGE(0, 1),                                         \
         .help = "decay of the average of squared gradients")
#define EPSILON_ROW(T, value)                                                                      \
    TL_F(T, epsilon, TL_FILLED, .d = value, TL_AT_LEAST(0), .help = "keeps divisions away from 0")
#define AMSGRAD_ROW(T)                                                                             \
    TL_F(T, amsgrad, .help = "divide by the largest average of squares so far (AMSGrad)")
#define JIT_COMPILE_ROW(T)                                                                         \
    TL_F(T, jit_compile, .help = "compile the update; in graph mode it always is, with the step")
#define WEIGHT_DECAY_RATE_ROW(T)                                                                   \
    TL_F(T, weight_decay_rate, TL_AT_LEAST(0), .help = "weight decay; 0 for none")
#define PATTERNS_ROW(T, member, text) TL_F(T, member, .flags = TL_FIELD_NULLABLE, .help = text)
#define EXCLUDE_DECAY_ROW(T)                                                                       \
    PATTERNS_ROW(T, exclude_from_weight_decay,                                                     \
                 "patterns of names (regular expressions) that are not decayed")
#define EXCLUDE_ADAPTATION_ROW(T)                                                                  \
    PATTERNS_ROW(T, exclude_from_layer_adaptation,                                                 \
                 "patterns of names that are updated without layer-wise scaling; null takes "      \
                 "exclude_from_weight_decay")

/* The description of an optimizer's configuration. */
#define CONFIG(label, text, check_fn)                                                              \
    const tl_desc tl_##label##_config_desc = {                                                     \
        .name = #label,                                                                            \
        .help = text,                                                                              \
        .size = sizeof(tl_##label##_config),                                                       \
        .fields = label##_fields,                                                                  \
        .base = &tl_optimizer_config_desc,                                                         \
        .check = check_fn,                                                                         \
    };
#define CLASS_HEAD(label, text)                                                                    \
    TL_INIT(.class_size = sizeof(tl_optimizer_class), .name = #label, .help = text,                \
            .config = &tl_##label##_config_desc)
/* The same with the class that is made from it; its other members follow the check. */
#define OPTIMIZER(label, text, check_fn, ...)                                                      \
    CONFIG(label, text, check_fn)                                                                  \
    static const tl_optimizer_class label##_class = {.cls = CLASS_HEAD(label, text),               \
                                                     .update = tli_##label##_update,               \
                                                     .prepare = tli_##label##_prepare,             \
                                                     __VA_ARGS__}
/* What can be configured and not used. */
#define UNAVAILABLE(label, text, check_fn)                                                         \
    CONFIG(label, text, check_fn)                                                                  \
    static const tl_optimizer_class label##_class = {.cls = CLASS_HEAD(label, text)}

/* --- checks ----------------------------------------------------------------------------------- */

/* What clips to 0 would train nothing, and none is what null says. */
static tl_status check_clip(tl_opt_double limit, const char *key)
{
    if (!limit.set || limit.value > 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s: must be more than 0, found %g (null clips nothing)", key,
                   limit.value);
}

static tl_status check_clipping(const void *value)
{
    const tl_optimizer_config *c = value;
    TL_TRY(check_clip(c->clipnorm, "clipnorm"));
    TL_TRY(check_clip(c->clipvalue, "clipvalue"));
    TL_TRY(check_clip(c->global_clipnorm, "global_clipnorm"));
    if (c->clipnorm.set && c->global_clipnorm.set)
        return TL_FAIL(TL_EINVAL, "clipnorm: it (each variable alone) and global_clipnorm (all "
                                  "together) exclude each other: make one of them null");
    return TL_OK;
}

static tl_status check_least(tl_opt_double number, double least, const char *key)
{
    if (!number.set || number.value >= least) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s: must be at least %g, not %g", key, least, number.value);
}

/* Ranges too: groups are often written in C, where no parser sees them. */
static tl_status check_group(const void *value)
{
    const tl_group_config *g = value;
    if (!g->group || !*g->group) return TL_FAIL(TL_EINVAL, "group: must be set, it is empty");
    TL_TRY(check_least(g->rate, 0, "rate"));
    TL_TRY(check_least(g->weight_decay, 0, "weight_decay"));
    TL_TRY(check_clip(g->clip_norm, "clip_norm"));
    return check_least(g->norm_type, 1, "norm_type");
}

static tl_status check_ftrl(const void *value)
{
    const tl_ftrl_config *c = value;
    if (!(c->learning_rate_power.value > 0)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "learning_rate_power: must be at most 0, found %g",
                   c->learning_rate_power.value);
}

static tl_status check_lion(const void *value)
{
    const tl_lion_config *c = value;
    if (c->beta_1.value > 0) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "beta_1: must be more than 0, found %g: without an average, steps "
                   "follow the sign of each gradient",
                   c->beta_1.value);
}

/* One pattern, or a list of them. */
static tl_status check_adamw(const void *value)
{
    const tl_value *v = ((const tl_adamw_config *)value)->include_in_weight_decay;
    for (int64_t i = 0; v && v->kind == TL_VALUE_LIST && i < v->count; i++) {
        const tl_value *item = v->items[i];
        if (item->kind == TL_VALUE_SCALAR && !tl_value_is_null(item)) continue;
        tl_str found = TL_STR_INIT;
        tl_value_name(&found, item);
        tl_status st =
            TL_FAIL(TL_EINVAL, "include_in_weight_decay[%lld]: expected a pattern, found %s",
                    (long long)i, tl_str_text(&found));
        tl_str_deinit(&found);
        return st;
    }
    return TL_OK;
}

static tl_status refuse_slide(const void *value)
{
    (void)value;
    return TL_FAIL(TL_EUNSUPPORTED, "the optimizer 'slide' has no published implementation; use "
                                    "'lamb' or 'lars' for layer-wise scaling");
}

static tl_status refuse_adafactor(const void *value)
{
    (void)value;
    return TL_FAIL(TL_EUNSUPPORTED, "the optimizer 'adafactor' has no published implementation; "
                                    "use 'adafactor_keras'");
}

/* --- descriptions ----------------------------------------------------------------------------- */

static const tl_field optimizer_fields[] = {
    TL_F(tl_optimizer_config, name, .help = "label, without effect on training"),
    TL_F(tl_optimizer_config, clipnorm, TL_AT_LEAST(0),
         .help = "largest L2 norm of each variable's gradient; null for any"),
    TL_F(tl_optimizer_config, clipvalue, TL_AT_LEAST(0),
         .help = "largest absolute value of each element of a gradient; null for any"),
    TL_F(tl_optimizer_config, global_clipnorm, TL_AT_LEAST(0),
         .help = "largest L2 norm of all gradients together; null for any"),
    TL_F_END,
};
const tl_desc tl_optimizer_config_desc = {
    .name = "optimizer",
    .help = "what all optimizers have",
    .size = sizeof(tl_optimizer_config),
    .fields = optimizer_fields,
    .check = check_clipping,
};

static const tl_field sgd_fields[] = {
    NAME_ROW(tl_sgd_config, "SGD"),
    TL_F(tl_sgd_config, decay, TL_AT_LEAST(0),
         .help = "the learning rate is divided by 1 + decay * updates"),
    MOMENTUM_ROW(tl_sgd_config, .d = 0),
    NESTEROV_ROW(tl_sgd_config),
    TL_F_END,
};
OPTIMIZER(sgd, "gradient descent with momentum", NULL, .rate = tli_sgd_rate, .decays = true,
          .by_element = true);

static const tl_field sgd_experimental_fields[] = {
    NAME_ROW(tl_sgd_experimental_config, "SGD"),
    MOMENTUM_ROW(tl_sgd_experimental_config, .d = 0),
    NESTEROV_ROW(tl_sgd_experimental_config),
    JIT_COMPILE_ROW(tl_sgd_experimental_config),
    TL_F_END,
};
OPTIMIZER(sgd_experimental, "gradient descent with momentum, without 'decay'", NULL, .decays = true,
          .by_element = true);

static const tl_field adam_fields[] = {
    NAME_ROW(tl_adam_config, "Adam"),  BETA_1_ROW(tl_adam_config),  BETA_2_ROW(tl_adam_config),
    EPSILON_ROW(tl_adam_config, 1e-7), AMSGRAD_ROW(tl_adam_config), TL_F_END,
};
OPTIMIZER(adam, "Adam", NULL, .decays = true, .by_element = true);

static const tl_field adam_experimental_fields[] = {
    NAME_ROW(tl_adam_experimental_config, "Adam"),
    BETA_1_ROW(tl_adam_experimental_config),
    BETA_2_ROW(tl_adam_experimental_config),
    EPSILON_ROW(tl_adam_experimental_config, 1e-7),
    AMSGRAD_ROW(tl_adam_experimental_config),
    JIT_COMPILE_ROW(tl_adam_experimental_config),
    TL_F_END,
};
OPTIMIZER(adam_experimental, "Adam, as newer Keras has it", NULL, .decays = true,
          .by_element = true);

static const tl_field adamw_fields[] = {
    NAME_ROW(tl_adamw_config, "AdamWeightDecay"),
    BETA_1_ROW(tl_adamw_config),
    BETA_2_ROW(tl_adamw_config),
    EPSILON_ROW(tl_adamw_config, 1e-7),
    AMSGRAD_ROW(tl_adamw_config),
    WEIGHT_DECAY_RATE_ROW(tl_adamw_config),
    TL_F(tl_adamw_config, include_in_weight_decay, .accept = TL_ACCEPT_LIST | TL_ACCEPT_STRING,
         .flags = TL_FIELD_NULLABLE,
         .help = "patterns of names (a list, or one) that are decayed even when another list "
                 "excludes them"),
    EXCLUDE_DECAY_ROW(tl_adamw_config),
    TL_F(tl_adamw_config, gradient_clip_norm, TL_FILLED, .d = 1, TL_AT_LEAST(0),
         .help = "largest L2 norm of all gradients of a replica together, before they are summed "
                 "over replicas; 0 for any"),
    TL_F_END,
};
OPTIMIZER(adamw, "Adam with decoupled weight decay, as BERT is trained with", check_adamw,
          .clip_norm = tli_adamw_clip_norm, .decays = true, .by_element = true);

static const tl_field adamw_experimental_fields[] = {
    NAME_ROW(tl_adamw_experimental_config, "AdamWeightDecayExperimental"),
    BETA_1_ROW(tl_adamw_experimental_config),
    BETA_2_ROW(tl_adamw_experimental_config),
    EPSILON_ROW(tl_adamw_experimental_config, 1e-7),
    AMSGRAD_ROW(tl_adamw_experimental_config),
    TL_F(tl_adamw_experimental_config, weight_decay, TL_AT_LEAST(0),
         .help = "weight decay; 0 for none"),
    TL_F_AS(tl_adamw_experimental_config, base.global_clipnorm, "global_clipnorm", .set = true,
            .d = 1, TL_AT_LEAST(0),
            .help = "largest L2 norm of all gradients together; null for any"),
    JIT_COMPILE_ROW(tl_adamw_experimental_config),
    TL_F_END,
};
OPTIMIZER(adamw_experimental, "Adam with decoupled weight decay, as newer Keras has it", NULL,
          .decays = true, .by_element = true);

static const tl_field lamb_fields[] = {
    NAME_ROW(tl_lamb_config, "LAMB"),
    BETA_1_ROW(tl_lamb_config),
    BETA_2_ROW(tl_lamb_config),
    EPSILON_ROW(tl_lamb_config, 1e-6),
    WEIGHT_DECAY_RATE_ROW(tl_lamb_config),
    EXCLUDE_DECAY_ROW(tl_lamb_config),
    EXCLUDE_ADAPTATION_ROW(tl_lamb_config),
    TL_F_END,
};
OPTIMIZER(lamb, "Adam scaled layer by layer, for large batches (LAMB)", NULL, .decays = true);

static const tl_field lars_fields[] = {
    NAME_ROW(tl_lars_config, "LARS"),
    MOMENTUM_ROW(tl_lars_config, TL_FILLED, .d = 0.9),
    TL_F(tl_lars_config, eeta, TL_FILLED, .d = 0.001, TL_AT_LEAST(0),
         .help = "factor of the layer-wise scale: eeta * |weights| / |gradient|"),
    WEIGHT_DECAY_RATE_ROW(tl_lars_config),
    NESTEROV_ROW(tl_lars_config),
    TL_F(tl_lars_config, classic_momentum, TL_FILLED, .b = true,
         .help = "apply the learning rate before the momentum; false applies it after"),
    EXCLUDE_DECAY_ROW(tl_lars_config),
    EXCLUDE_ADAPTATION_ROW(tl_lars_config),
    TL_F_END,
};
OPTIMIZER(lars, "gradient descent scaled layer by layer, for large batches (LARS)", NULL,
          .decays = true);

static const tl_field rmsprop_fields[] = {
    NAME_ROW(tl_rmsprop_config, "RMSprop"),
    TL_F(tl_rmsprop_config, rho, TL_FILLED, .d = 0.9, TL_RANGE(0, 1),
         .help = "decay of the average of squared gradients"),
    MOMENTUM_ROW(tl_rmsprop_config, .d = 0),
    EPSILON_ROW(tl_rmsprop_config, 1e-7),
    TL_F(tl_rmsprop_config, centered,
         .help = "divide by the variance of the gradients, not by their mean square"),
    TL_F_END,
};
OPTIMIZER(rmsprop, "gradients divided by their recent root mean square (RMSprop)", NULL,
          .decays = false, .by_element = true);

static const tl_field adagrad_fields[] = {
    NAME_ROW(tl_adagrad_config, "Adagrad"),
    TL_F(tl_adagrad_config, initial_accumulator_value, TL_FILLED, .d = 0.1, TL_AT_LEAST(0),
         .help = "what the sums of squared gradients start from"),
    EPSILON_ROW(tl_adagrad_config, 1e-7),
    TL_F_END,
};
OPTIMIZER(adagrad, "gradients divided by the root of the sum of all their squares (Adagrad)", NULL,
          .decays = false, .by_element = true);

static const tl_field adafactor_keras_fields[] = {
    NAME_ROW(tl_adafactor_keras_config, "Adafactor"),
    TL_F(tl_adafactor_keras_config, learning_rate, .d = 0.001, TL_AT_LEAST(0),
         .flags = TL_FIELD_UNREAD, .help = "optimizer_config.learning_rate takes its place"),
    TL_F(tl_adafactor_keras_config, beta_2_decay, TL_FILLED, .d = -0.8,
         .help = "power of the step number by which the decay of averages approaches 1"),
    TL_F(tl_adafactor_keras_config, epsilon_1, TL_FILLED, .d = 1e-30, TL_AT_LEAST(0),
         .help = "keeps divisions away from 0"),
    TL_F(tl_adafactor_keras_config, epsilon_2, TL_FILLED, .d = 1e-3, TL_AT_LEAST(0),
         .help = "smallest scale of a variable, so that updates never vanish"),
    TL_F(tl_adafactor_keras_config, clip_threshold, TL_FILLED, .d = 1, TL_AT_LEAST(0),
         .help = "largest root mean square of an update"),
    TL_F(tl_adafactor_keras_config, relative_step, .set = true, .b = true,
         .flags = TL_FIELD_FILLED | TL_FIELD_UNREAD,
         .help = "Keras bounds every learning rate by 1 / sqrt(step), whatever this says"),
    TL_F_END,
};
OPTIMIZER(adafactor_keras, "Adafactor: second moments kept as row and column sums", NULL,
          .decays = false);

#define WEIGHT_DECAY_ROW(T)                                                                        \
    TL_F(T, weight_decay, TL_AT_LEAST(0), .help = "weight decay; 0 for none")

static const tl_field adadelta_fields[] = {
    NAME_ROW(tl_adadelta_config, "Adadelta"),
    TL_F(tl_adadelta_config, rho, TL_FILLED, .d = 0.95, TL_RANGE(0, 1),
         .help = "decay of the averages of squared gradients and of squared steps"),
    EPSILON_ROW(tl_adadelta_config, 1e-7),
    WEIGHT_DECAY_ROW(tl_adadelta_config),
    TL_F_END,
};
OPTIMIZER(adadelta, "steps as long as recent ones were, which need no learning rate (Adadelta)",
          NULL, .decays = true, .by_element = true);

static const tl_field adamax_fields[] = {
    NAME_ROW(tl_adamax_config, "Adamax"),
    BETA_1_ROW(tl_adamax_config),
    TL_F(tl_adamax_config, beta_2, TL_FILLED, .d = 0.999, TL_RANGE(0, 1),
         .help = "decay of the greatest magnitude of a gradient"),
    EPSILON_ROW(tl_adamax_config, 1e-7),
    WEIGHT_DECAY_ROW(tl_adamax_config),
    TL_F_END,
};
OPTIMIZER(adamax, "Adam with the greatest recent gradient in place of the root of squares (Adamax)",
          NULL, .decays = true, .by_element = true);

static const tl_field nadam_fields[] = {
    NAME_ROW(tl_nadam_config, "Nadam"), BETA_1_ROW(tl_nadam_config),
    BETA_2_ROW(tl_nadam_config),        EPSILON_ROW(tl_nadam_config, 1e-7),
    WEIGHT_DECAY_ROW(tl_nadam_config),  TL_F_END,
};
OPTIMIZER(nadam, "Adam that looks ahead along its momentum (Nadam)", NULL, .decays = true,
          .by_element = true);

#define FTRL_ROW(member, text) TL_F(tl_ftrl_config, member, TL_AT_LEAST(0), .help = text)
static const tl_field ftrl_fields[] = {
    NAME_ROW(tl_ftrl_config, "Ftrl"),
    TL_F(tl_ftrl_config, learning_rate_power, TL_FILLED, .d = -0.5,
         .help = "how the rate of a weight falls with its sum of squares; 0 keeps it, at most 0"),
    TL_F(tl_ftrl_config, initial_accumulator_value, TL_FILLED, .d = 0.1, TL_AT_LEAST(0),
         .help = "what the sums of squared gradients start from"),
    FTRL_ROW(l1_regularization_strength, "pull that weights of 0 withstand: more gives more zeros"),
    FTRL_ROW(l2_regularization_strength, "pull of every weight to 0"),
    FTRL_ROW(l2_shrinkage_regularization_strength, "the same, by way of the gradient"),
    FTRL_ROW(beta, "added to l2_regularization_strength, divided by twice the rate"),
    WEIGHT_DECAY_ROW(tl_ftrl_config),
    TL_F_END,
};
OPTIMIZER(ftrl, "follow the regularized leader: sparse linear models (FTRL)", check_ftrl,
          .decays = true, .by_element = true);

static const tl_field lion_fields[] = {
    NAME_ROW(tl_lion_config, "Lion"),
    TL_F(tl_lion_config, beta_1, TL_FILLED, .d = 0.9, TL_RANGE(0, 1),
         .help = "share of the average in the direction of a step"),
    TL_F(tl_lion_config, beta_2, TL_FILLED, .d = 0.99, TL_RANGE(0, 1),
         .help = "decay of the average of gradients"),
    WEIGHT_DECAY_ROW(tl_lion_config),
    TL_F_END,
};
OPTIMIZER(lion, "steps by the sign of the momentum; wants a smaller rate than Adam (Lion)",
          check_lion, .decays = true);

static const tl_field torch_adamw_fields[] = {
    NAME_ROW(tl_torch_adamw_config, "AdamW"),
    BETA_1_ROW(tl_torch_adamw_config),
    BETA_2_ROW(tl_torch_adamw_config),
    EPSILON_ROW(tl_torch_adamw_config, 1e-8),
    TL_F(tl_torch_adamw_config, weight_decay, TL_FILLED, .d = 0.01, TL_AT_LEAST(0),
         .help = "weight decay; 0 for none"),
    AMSGRAD_ROW(tl_torch_adamw_config),
    TL_F_END,
};
OPTIMIZER(torch_adamw, "Adam with decoupled weight decay, as PyTorch and LiBai have it", NULL,
          .decays = true, .by_element = true);

static const tl_field torch_sgd_fields[] = {
    NAME_ROW(tl_torch_sgd_config, "SGD"),
    MOMENTUM_ROW(tl_torch_sgd_config, .d = 0),
    TL_F(tl_torch_sgd_config, weight_decay, TL_AT_LEAST(0),
         .help = "share of a weight that is added to its gradient; 0 for none"),
    NESTEROV_ROW(tl_torch_sgd_config),
    TL_F_END,
};
OPTIMIZER(torch_sgd, "gradient descent with momentum, as PyTorch and LiBai have it", NULL,
          .decays = true, .by_element = true);

static const tl_field slide_fields[] = {
    NAME_ROW(tl_slide_config, "SLIDE"),
    BETA_1_ROW(tl_slide_config),
    BETA_2_ROW(tl_slide_config),
    EPSILON_ROW(tl_slide_config, 1e-6),
    WEIGHT_DECAY_RATE_ROW(tl_slide_config),
    TL_F(tl_slide_config, weight_decay_type, .s = "inner", .help = "where decay is applied"),
    EXCLUDE_DECAY_ROW(tl_slide_config),
    EXCLUDE_ADAPTATION_ROW(tl_slide_config),
    PATTERNS_ROW(tl_slide_config, include_in_sparse_layer_adaptation,
                 "patterns of names with sparse gradients"),
    TL_F(tl_slide_config, sparse_layer_learning_rate, TL_FILLED, .d = 0.1,
         .help = "learning rate of layers with sparse gradients"),
    TL_F(tl_slide_config, do_gradient_rescaling, TL_FILLED, .b = true, .help = "rescale gradients"),
    TL_F(tl_slide_config, norm_type, .s = "layer", .help = "over what norms are taken"),
    TL_F(tl_slide_config, ratio_clip_norm, TL_FILLED, .d = 1e5, .help = "largest layer-wise scale"),
    TL_F_END,
};
UNAVAILABLE(slide, "not available: its implementation is not public", refuse_slide);

static const tl_field adafactor_fields[] = {
    NAME_ROW(tl_adafactor_config, "Adafactor"),
    TL_F(tl_adafactor_config, factored, TL_FILLED, .b = true,
         .help = "keep second moments as row and column sums"),
    TL_F(tl_adafactor_config, multiply_by_parameter_scale, TL_FILLED, .b = true,
         .help = "scale updates by the size of the variable"),
    TL_F(tl_adafactor_config, beta1, .help = "decay of the average of gradients; null for none"),
    TL_F(tl_adafactor_config, decay_rate, TL_FILLED, .d = 0.8,
         .help = "power by which the decay of averages approaches 1"),
    TL_F(tl_adafactor_config, step_offset, .help = "step at which fine-tuning starts"),
    TL_F(tl_adafactor_config, clipping_threshold, TL_FILLED, .d = 1,
         .help = "largest root mean square of an update"),
    TL_F(tl_adafactor_config, min_dim_size_to_factor, TL_FILLED, .i = 128,
         .help = "smaller dimensions are not factored"),
    TL_F(tl_adafactor_config, epsilon1, TL_FILLED, .d = 1e-30,
         .help = "keeps divisions away from 0"),
    TL_F(tl_adafactor_config, epsilon2, TL_FILLED, .d = 1e-3,
         .help = "smallest scale of a variable"),
    TL_F(tl_adafactor_config, weight_decay, .help = "weight decay; null for none"),
    TL_F(tl_adafactor_config, include_in_weight_decay, .flags = TL_FIELD_NULLABLE,
         .help = "pattern of the names that are decayed"),
    TL_F_END,
};
UNAVAILABLE(adafactor, "not available: its implementation is not public; see adafactor_keras",
            refuse_adafactor);

/* The clip rows come with the base in Model Garden, which does not look at them. */
#define EMA_CLIP_ROW(member)                                                                       \
    TL_F_AS(tl_ema_config, base.member, #member, TL_AT_LEAST(0), .flags = TL_FIELD_UNREAD,         \
            .help = "set " #member " of the optimizer instead")

static const tl_field ema_fields[] = {
    NAME_ROW(tl_ema_config, "ExponentialMovingAverage"),
    EMA_CLIP_ROW(clipnorm),
    EMA_CLIP_ROW(clipvalue),
    EMA_CLIP_ROW(global_clipnorm),
    TL_F(tl_ema_config, trainable_weights_only, TL_FILLED, .b = true,
         .help = "average trainable weights alone; false also averages the moving statistics of "
                 "batch normalization"),
    TL_F(tl_ema_config, average_decay, TL_FILLED, .d = 0.99, TL_RANGE(0, 1),
         .help = "share of the average that each update keeps"),
    TL_F(tl_ema_config, start_step, TL_AT_LEAST(0),
         .help = "until this step the average is a copy of the weights"),
    TL_F(tl_ema_config, dynamic_decay, TL_FILLED, .b = true,
         .help = "start with a small decay: at most (1 + n) / (10 + n) in the n-th update"),
    TL_F_END,
};
const tl_desc tl_ema_config_desc = {
    .name = "ema",
    .help = "exponential moving average of the weights, used in evaluation",
    .size = sizeof(tl_ema_config),
    .fields = ema_fields,
    .base = &tl_optimizer_config_desc,
};

/* --- groups and all together ------------------------------------------------------------------ */

static const tl_field group_fields[] = {
    TL_F(tl_group_config, group, .help = "name of the group"),
    TL_F(tl_group_config, pattern, .flags = TL_FIELD_NULLABLE,
         .help = "regular expression of the paths of its parameters; null: they are in it already"),
    TL_F(tl_group_config, rate, TL_AT_LEAST(0), .help = "factor of the learning rate; null for 1"),
    TL_F(tl_group_config, weight_decay, TL_AT_LEAST(0),
         .help = "weight decay in place of the optimizer's"),
    TL_F(tl_group_config, clip_norm, TL_AT_LEAST(0),
         .help = "largest norm of the group's gradients together; null for any"),
    TL_F(tl_group_config, norm_type, TL_AT_LEAST(1),
         .help = "of that norm: 1 or more, .inf for the greatest magnitude; null for 2"),
    TL_F(tl_group_config, frozen_steps, TL_AT_LEAST(0),
         .help = "updates in which its parameters stay as they are: their learning rate is 0"),
    TL_F(tl_group_config, from_step, TL_AT_LEAST(0),
         .help =
             "step from which it is trained: before it, it has no gradients, and its slots stay "
             "as they are"),
    TL_F_END,
};
const tl_desc tl_group_config_desc = {
    .name = "group",
    .help = "what is different for some of the parameters",
    .size = sizeof(tl_group_config),
    .fields = group_fields,
    .check = check_group,
};

static const tl_field optimization_fields[] = {
    TL_F(tl_optimization_config, optimizer, .kind = &tl_kind_optimizer,
         .help = "how gradients change the weights"),
    TL_F_OPTIONAL(tl_optimization_config, ema, &tl_ema_config_desc,
                  .help = "moving average of the weights; null for none"),
    TL_F(tl_optimization_config, learning_rate, .kind = &tl_kind_learning_rate,
         .help = "learning rate as a function of the number of updates"),
    TL_F(tl_optimization_config, warmup, .kind = &tl_kind_warmup,
         .help = "how the learning rate starts; type null for at once"),
    TL_F_END,
};
const tl_desc tl_optimization_config_desc = {
    .name = "optimization",
    .help = "optimizer, learning rate, warm-up and weight averaging",
    .size = sizeof(tl_optimization_config),
    .fields = optimization_fields,
};

/* --- classes ---------------------------------------------------------------------------------- */

static const tl_entry entries[] = {
    {&tl_kind_configurable, &tli_create_optimizer.cls},
    {&tl_kind_optimizer, &adadelta_class.cls},
    {&tl_kind_optimizer, &adafactor_class.cls},
    {&tl_kind_optimizer, &adafactor_keras_class.cls},
    {&tl_kind_optimizer, &adagrad_class.cls},
    {&tl_kind_optimizer, &adam_class.cls},
    {&tl_kind_optimizer, &adam_experimental_class.cls},
    {&tl_kind_optimizer, &adamax_class.cls},
    {&tl_kind_optimizer, &adamw_class.cls},
    {&tl_kind_optimizer, &adamw_experimental_class.cls},
    {&tl_kind_optimizer, &ftrl_class.cls},
    {&tl_kind_optimizer, &lamb_class.cls},
    {&tl_kind_optimizer, &lars_class.cls},
    {&tl_kind_optimizer, &lion_class.cls},
    {&tl_kind_optimizer, &nadam_class.cls},
    {&tl_kind_optimizer, &rmsprop_class.cls},
    {&tl_kind_optimizer, &sgd_class.cls},
    {&tl_kind_optimizer, &sgd_experimental_class.cls},
    {&tl_kind_optimizer, &slide_class.cls},
    {&tl_kind_optimizer, &torch_adamw_class.cls},
    {&tl_kind_optimizer, &torch_sgd_class.cls},
};
const tl_module tl_optimizers_module = {TL_MODULE_HEAD("optimizers"), entries, TL_COUNT(entries)};
