/* Optimizers, learning-rate schedules and warm-ups: what they are configured with.
 *
 *     trainer:
 *       optimizer_config:
 *         optimizer: {type: sgd, sgd: {momentum: 0.9}}
 *         learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.1, decay_steps: 1000}}
 *         warmup: {type: linear, linear: {warmup_steps: 50}}
 *         ema: {average_decay: 0.999}                       // null, the default: no averaging
 *
 *     const tl_optimization_config *o = &trainer->optimizer_config;
 *     if (o->learning_rate.desc == &tl_cosine_config_desc) {
 *         const tl_cosine_config *c = o->learning_rate.value;
 *         ...
 *     }
 *
 * Names and defaults are those of Model Garden's official/modeling/optimization/configs. Each
 * branch of the three one-ofs is a registered class, so that a module can bring optimizers and
 * schedules of its own. A list that may be null is null when its items are NULL.
 *
 * Thread word: immutable. */
#ifndef TILTH_NN_OPTIMIZATION_H
#define TILTH_NN_OPTIMIZATION_H

#include <tilth/core/ctx.h>
#include <tilth/desc/registry.h>

TL_BEGIN

/* --- classes ---------------------------------------------------------------------------------- */

typedef struct tl_optimizer tl_optimizer;             /* optimizer.h */
typedef struct tl_optimizer_block tl_optimizer_block; /* optimizer.h */
typedef struct tl_update tl_update;                   /* optimizer.h */

/* A rule of update. optimizer.h says what the methods are given. */
typedef struct tl_optimizer_class {
    tl_class cls; /* config: derived from tl_optimizer_config */
    /* One update of a block: only calls ops, and leaves everything as it is when hyper says so. An
     * optimizer without it can be configured, but not used. */
    bool (*update)(tl_ctx *c, const tl_update *u);
    /* Optional: adds the slots of a block, says which of its parameters decay, and how much. */
    tl_status (*prepare)(tl_optimizer_block *b, const void *config);
    /* Optional: what it makes of the rate that the schedule gives. `step` (updates done so far) and
     * both rates are float64 scalars. */
    tl_tensor *(*rate)(tl_ctx *c, const tl_optimizer *o, tl_tensor *step, tl_tensor *rate);
    /* Optional: largest norm of all gradients together, before all other clipping; 0: any. */
    double (*clip_norm)(const void *config);
    bool decays;     /* it heeds the weight decay of a block */
    bool by_element; /* an element is moved by its own numbers alone; else by its parameter's */
} tl_optimizer_class;

/* How long a learning rate changes. */
typedef struct tl_schedule_length {
    const char *key;  /* of its configuration: how many steps */
    tl_opt_int steps; /* what that is */
    int64_t offset;   /* from which they count */
} tl_schedule_length;

/* A learning rate as a function of the number of updates done so far: float64 scalars, both. Only
 * calls ops. */
typedef struct tl_learning_rate_class {
    tl_class cls; /* config: derived from tl_learning_rate_config */
    tl_tensor *(*rate)(tl_ctx *c, const void *config, tl_tensor *step);
    /* Optional: what is still missing to compute it; the message begins with the key. */
    tl_status (*check)(const void *config);
    /* Optional: false when the rate goes on changing. Without it nobody knows, as of constant
     * ones. */
    bool (*length)(tl_schedule_length *out, const void *config);
} tl_learning_rate_class;

/* What takes the place of `rate` in the first warmup_steps steps; `rate_at_end` is that of step
 * warmup_steps. The library chooses between the two. */
typedef struct tl_warmup_class {
    tl_class cls; /* config: derived from tl_warmup_config */
    tl_tensor *(*rate)(tl_ctx *c, const void *config, tl_tensor *step, tl_tensor *rate,
                       tl_tensor *rate_at_end);
} tl_warmup_class;

extern TL_API const tl_kind tl_kind_optimizer, tl_kind_learning_rate, tl_kind_warmup;

/* What follows in this header, ready for a registry. */
extern TL_API const tl_module tl_optimizers_module, tl_learning_rates_module, tl_warmups_module;

/* --- optimizers ------------------------------------------------------------------------------- */

/* What all optimizers have. Gradients are clipped after they are summed over replicas: by value,
 * then by the norm of each variable or of all together. */
typedef struct tl_optimizer_config {
    const char *name;
    tl_opt_double clipnorm, clipvalue, global_clipnorm;
} tl_optimizer_config;

typedef struct tl_sgd_config {
    tl_optimizer_config base;
    double decay, momentum;
    bool nesterov;
} tl_sgd_config;

typedef struct tl_sgd_experimental_config {
    tl_optimizer_config base;
    double momentum;
    bool nesterov, jit_compile;
} tl_sgd_experimental_config;

typedef struct tl_adam_config {
    tl_optimizer_config base;
    tl_opt_double beta_1, beta_2, epsilon;
    bool amsgrad;
} tl_adam_config;

typedef struct tl_adam_experimental_config {
    tl_optimizer_config base;
    tl_opt_double beta_1, beta_2, epsilon;
    bool amsgrad, jit_compile;
} tl_adam_experimental_config;

/* Patterns are regular expressions that are searched for in the names of variables. */
typedef struct tl_adamw_config {
    tl_optimizer_config base;
    tl_opt_double beta_1, beta_2, epsilon;
    double weight_decay_rate;
    tl_opt_double gradient_clip_norm;
    const tl_value *include_in_weight_decay; /* list of patterns, one pattern, or NULL */
    tl_strings exclude_from_weight_decay;    /* patterns; may be null */
    bool amsgrad;
} tl_adamw_config;

typedef struct tl_adamw_experimental_config {
    tl_optimizer_config base; /* global_clipnorm is 1 by default */
    tl_opt_double beta_1, beta_2, epsilon;
    double weight_decay;
    bool amsgrad, jit_compile;
} tl_adamw_experimental_config;

typedef struct tl_lamb_config {
    tl_optimizer_config base;
    tl_opt_double beta_1, beta_2, epsilon;
    double weight_decay_rate;
    tl_strings exclude_from_weight_decay;     /* patterns; may be null */
    tl_strings exclude_from_layer_adaptation; /* patterns; null: the list above */
} tl_lamb_config;

typedef struct tl_lars_config {
    tl_optimizer_config base;
    tl_opt_double momentum, eeta;
    double weight_decay_rate;
    bool nesterov;
    tl_opt_bool classic_momentum;
    tl_strings exclude_from_weight_decay;     /* patterns; may be null */
    tl_strings exclude_from_layer_adaptation; /* patterns; null: the list above */
} tl_lars_config;

typedef struct tl_rmsprop_config {
    tl_optimizer_config base;
    tl_opt_double rho, epsilon;
    double momentum;
    bool centered;
} tl_rmsprop_config;

typedef struct tl_adagrad_config {
    tl_optimizer_config base;
    tl_opt_double initial_accumulator_value, epsilon;
} tl_adagrad_config;

typedef struct tl_adafactor_keras_config {
    tl_optimizer_config base;
    double learning_rate;
    tl_opt_double beta_2_decay, epsilon_1, epsilon_2, clip_threshold;
    tl_opt_bool relative_step;
} tl_adafactor_keras_config;

/* Five of Keras 3 that Model Garden does not know. All can decay weights, beside the gradient.
 * Their slots have the names of Keras's older optimizers, as those of the others do: accum_grad and
 * accum_var; m and v of two; accumulator and linear; m. */
typedef struct tl_adadelta_config {
    tl_optimizer_config base;
    tl_opt_double rho, epsilon;
    double weight_decay;
} tl_adadelta_config;

typedef struct tl_adamax_config {
    tl_optimizer_config base;
    tl_opt_double beta_1, beta_2, epsilon;
    double weight_decay;
} tl_adamax_config;

typedef struct tl_nadam_config {
    tl_optimizer_config base;
    tl_opt_double beta_1, beta_2, epsilon;
    double weight_decay;
} tl_nadam_config;

typedef struct tl_ftrl_config {
    tl_optimizer_config base;
    tl_opt_double learning_rate_power, initial_accumulator_value;
    double l1_regularization_strength, l2_regularization_strength;
    double l2_shrinkage_regularization_strength, beta, weight_decay;
} tl_ftrl_config;

typedef struct tl_lion_config {
    tl_optimizer_config base;
    tl_opt_double beta_1, beta_2;
    double weight_decay;
} tl_lion_config;

/* PyTorch's forms of two of them, which LiBai's users know: epsilon beside the corrected root, the
 * rate outside of the momentum. Decay is decoupled in the first and added to the gradient in the
 * second; groups say which parameters decay differently. */
typedef struct tl_torch_adamw_config {
    tl_optimizer_config base;
    tl_opt_double beta_1, beta_2, epsilon;
    tl_opt_double weight_decay;
    bool amsgrad;
} tl_torch_adamw_config;

typedef struct tl_torch_sgd_config {
    tl_optimizer_config base;
    double momentum, weight_decay;
    bool nesterov;
} tl_torch_sgd_config;

/* Two optimizers of which Model Garden publishes the configuration alone. They can be read,
 * described and written; choosing one is refused. */
typedef struct tl_slide_config {
    tl_optimizer_config base;
    tl_opt_double beta_1, beta_2, epsilon;
    double weight_decay_rate;
    const char *weight_decay_type;
    tl_strings exclude_from_weight_decay;
    tl_strings exclude_from_layer_adaptation;
    tl_strings include_in_sparse_layer_adaptation;
    tl_opt_double sparse_layer_learning_rate;
    tl_opt_bool do_gradient_rescaling;
    const char *norm_type;
    tl_opt_double ratio_clip_norm;
} tl_slide_config;

typedef struct tl_adafactor_config {
    tl_optimizer_config base;
    tl_opt_bool factored, multiply_by_parameter_scale;
    tl_opt_double beta1;
    tl_opt_double decay_rate;
    int64_t step_offset;
    tl_opt_double clipping_threshold;
    tl_opt_int min_dim_size_to_factor;
    tl_opt_double epsilon1, epsilon2;
    tl_opt_double weight_decay;
    const char *include_in_weight_decay; /* or NULL */
} tl_adafactor_config;

/* Exponential moving average of the weights, kept beside any optimizer. */
typedef struct tl_ema_config {
    tl_optimizer_config base; /* its clip members are read by nothing */
    tl_opt_double average_decay;
    int64_t start_step;
    tl_opt_bool trainable_weights_only, dynamic_decay;
} tl_ema_config;

extern TL_API const tl_desc tl_optimizer_config_desc, tl_sgd_config_desc,
    tl_sgd_experimental_config_desc, tl_adam_config_desc, tl_adam_experimental_config_desc,
    tl_adamw_config_desc, tl_adamw_experimental_config_desc, tl_lamb_config_desc,
    tl_lars_config_desc, tl_rmsprop_config_desc, tl_adagrad_config_desc,
    tl_adafactor_keras_config_desc, tl_adadelta_config_desc, tl_adamax_config_desc,
    tl_nadam_config_desc, tl_ftrl_config_desc, tl_lion_config_desc, tl_torch_adamw_config_desc,
    tl_torch_sgd_config_desc, tl_slide_config_desc, tl_adafactor_config_desc, tl_ema_config_desc;

/* --- learning rates --------------------------------------------------------------------------- */

/* `s` below is the number of updates done so far less `offset`. */
typedef struct tl_learning_rate_config {
    const char *name;
} tl_learning_rate_config;

typedef struct tl_constant_config {
    tl_learning_rate_config base;
    tl_opt_double learning_rate;
} tl_constant_config;

/* values[0] up to and including s = boundaries[0], values[1] up to boundaries[1], ... */
typedef struct tl_stepwise_config {
    tl_learning_rate_config base;
    tl_ints boundaries; /* steps; may be null */
    tl_doubles values;  /* rates, one more than boundaries; may be null */
    int64_t offset;
} tl_stepwise_config;

typedef struct tl_exponential_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_opt_int decay_steps;
    tl_opt_double decay_rate;
    tl_opt_bool staircase;
    int64_t offset;
} tl_exponential_config;

typedef struct tl_polynomial_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_opt_int decay_steps;
    tl_opt_double end_learning_rate, power;
    bool cycle;
    int64_t offset;
} tl_polynomial_config;

typedef struct tl_cosine_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_opt_int decay_steps;
    double alpha;
    int64_t offset;
} tl_cosine_config;

typedef struct tl_cosine_restarts_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_opt_int first_decay_steps;
    double t_mul, alpha;
    tl_opt_double m_mul;
    int64_t offset;
} tl_cosine_restarts_config;

typedef struct tl_power_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_opt_double power;
} tl_power_config;

typedef struct tl_power_linear_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_opt_int total_decay_steps;
    tl_opt_double power, linear_decay_fraction;
    int64_t offset;
} tl_power_linear_config;

typedef struct tl_power_with_offset_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_opt_double power, pre_offset_learning_rate;
    int64_t offset;
} tl_power_with_offset_config;

/* From boundaries[i] on, half a cosine wave from values[i] to values[i + 1]; before the first
 * boundary values[0], from the last one on the last value. */
typedef struct tl_step_cosine_with_offset_config {
    tl_learning_rate_config base;
    tl_ints boundaries; /* steps; may be null */
    tl_doubles values;  /* rates, as many as boundaries; may be null */
    int64_t offset;
} tl_step_cosine_with_offset_config;

/* The three that follow are not Model Garden's. */

/* initial * gamma ^ (how many milestones are at most s). */
typedef struct tl_multistep_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_ints milestones; /* steps; may be null */
    tl_opt_double gamma;
    int64_t offset;
} tl_multistep_config;

/* Down and up again for ever, decay_steps each. */
typedef struct tl_cosine_annealing_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_opt_int decay_steps;
    double end_learning_rate;
    int64_t offset;
} tl_cosine_annealing_config;

/* Constant but for the last decay_steps of total_steps: with a warm-up, warmup-stable-decay. */
typedef enum tl_decay_shape { TL_DECAY_LINEAR, TL_DECAY_COSINE, TL_DECAY_SQRT } tl_decay_shape;
typedef struct tl_stable_decay_config {
    tl_learning_rate_config base;
    tl_opt_double initial_learning_rate;
    tl_opt_int total_steps, decay_steps;
    double end_learning_rate;
    tl_decay_shape shape;
    int64_t offset;
} tl_stable_decay_config;

extern TL_API const tl_desc tl_learning_rate_config_desc, tl_constant_config_desc,
    tl_stepwise_config_desc, tl_exponential_config_desc, tl_polynomial_config_desc,
    tl_cosine_config_desc, tl_cosine_restarts_config_desc, tl_power_config_desc,
    tl_power_linear_config_desc, tl_power_with_offset_config_desc,
    tl_step_cosine_with_offset_config_desc, tl_multistep_config_desc,
    tl_cosine_annealing_config_desc, tl_stable_decay_config_desc;

/* --- warm-ups --------------------------------------------------------------------------------- */

/* Lies over the first steps of a schedule and does not shift it. */
typedef struct tl_warmup_config {
    const char *name;
    tl_opt_int warmup_steps;
} tl_warmup_config;

typedef struct tl_linear_warmup_config {
    tl_warmup_config base;
    double warmup_learning_rate;
} tl_linear_warmup_config;

typedef struct tl_polynomial_warmup_config {
    tl_warmup_config base;
    tl_opt_double power;
} tl_polynomial_warmup_config;

/* Not among those that Model Garden's configurations can choose. The second is the WarmUp of its
 * older programs: it leads to a rate of its own, whatever the schedule gives at warmup_steps. */
typedef struct tl_constant_warmup_config {
    tl_warmup_config base;
    double warmup_learning_rate;
} tl_constant_warmup_config;

typedef struct tl_peak_warmup_config {
    tl_warmup_config base;
    tl_opt_double peak_learning_rate, power;
} tl_peak_warmup_config;

extern TL_API const tl_desc tl_warmup_config_desc, tl_linear_warmup_config_desc,
    tl_polynomial_warmup_config_desc, tl_constant_warmup_config_desc, tl_peak_warmup_config_desc;

/* --- groups of parameters --------------------------------------------------------------------- */

/* What is different for the parameters of one group (tl_param). */
typedef struct tl_group_config {
    const char *group;
    const char *pattern;        /* POSIX extended regular expression of paths: which parameters are
                                 * put into it (tl_model_group); NULL: somebody else does it */
    tl_opt_double rate;         /* factor of the learning rate; null: 1 */
    tl_opt_double weight_decay; /* in place of the optimizer's */
    tl_opt_double clip_norm;    /* largest norm of the group's gradients together; null: any */
    tl_opt_double norm_type;    /* of that norm, from 1 on or infinity; null: 2 */
    int64_t frozen_steps;       /* 0: updates in which its learning rate is 0 */
    int64_t from_step;          /* 0: before this step it is left alone (tl_optimizer_wake) */
} tl_group_config;

extern TL_API const tl_desc tl_group_config_desc;

/* --- all together ----------------------------------------------------------------------------- */

typedef struct tl_optimization_config {
    tl_oneof optimizer;     /* of tl_kind_optimizer */
    tl_ema_config *ema;     /* NULL: no averaging */
    tl_oneof learning_rate; /* of tl_kind_learning_rate */
    tl_oneof warmup;        /* of tl_kind_warmup; no type: none */
} tl_optimization_config;

extern TL_API const tl_desc tl_optimization_config_desc;

/* --- BERT's optimizer ------------------------------------------------------------------------- */

/* The arguments of Model Garden's older create_optimizer (official/nlp/optimization.py). */
typedef enum tl_create_optimizer_type { TL_CREATE_ADAMW, TL_CREATE_LAMB } tl_create_optimizer_type;
typedef struct tl_create_optimizer_args {
    double init_lr;
    int64_t num_train_steps, num_warmup_steps;
    double end_lr;
    tl_create_optimizer_type optimizer_type;
    double beta_1, poly_power; /* 0.9 and 1 by default in gin; in C both must be given */
} tl_create_optimizer_args;
extern TL_API const tl_desc tl_create_optimizer_desc;

/* What it makes of them: AdamW or LAMB with a decay of 0.01 for all but biases and layer norms, a
 * warm-up to init_lr, and a polynomial fall to end_lr. All of it lies in `arena`. For gin it is the
 * configurable optimization.create_optimizer, whose calls give a tl_optimization_config. */
TL_API TL_NODISCARD tl_status tl_create_optimizer_config(tl_optimization_config *out,
                                                         tl_arena *arena,
                                                         const tl_create_optimizer_args *args);

TL_END

#endif
