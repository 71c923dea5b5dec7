/* The tables of optimizers, learning rates and warm-ups. */
#include "test.h"

#include <tilth/base/log.h>
#include <tilth/builtin/builtin.h>
#include <tilth/desc/config.h>
#include <tilth/nn/optimization.h>

static tl_registry *registry;

static int open_registry(void **state)
{
    (void)state;
    return tl_registry_new_builtin(&registry) == TL_OK ? 0 : -1;
}

static int close_registry(void **state)
{
    (void)state;
    tl_registry_free(&registry);
    return 0;
}

/* A configuration of OptimizationConfig with this YAML text applied. */
static tl_config *config_of(const char *yaml)
{
    tl_config *c;
    assert_ok(tl_config_new(&c, registry, &tl_optimization_config_desc));
    assert_ok(tl_config_yaml(c, yaml, "test"));
    return c;
}

/* The text is accepted, and checking it fails with this message. */
static void assert_refused(const char *yaml, tl_status code, const char *message)
{
    tl_config *c = config_of(yaml);
    assert_fails(tl_config_finish(c), code, message);
    tl_config_free(&c);
}

static void assert_accepted(const char *yaml)
{
    tl_config *c = config_of(yaml);
    assert_ok(tl_config_finish(c));
    tl_config_free(&c);
}

/* --- defaults --------------------------------------------------------------------------------- */

typedef struct branch_case {
    const char *key, *type, *expected; /* expected: the branch as YAML flow text */
} branch_case;

/* What Model Garden's dataclasses hold before anybody changes them. */
static const branch_case branches[] = {
    {"optimizer", "sgd",
     "{name: SGD, clipnorm: null, clipvalue: null, global_clipnorm: null, decay: 0.0, "
     "nesterov: false, momentum: 0.0}"},
    {"optimizer", "sgd_experimental",
     "{name: SGD, clipnorm: null, clipvalue: null, global_clipnorm: null, nesterov: false, "
     "momentum: 0.0, jit_compile: false}"},
    {"optimizer", "adam",
     "{name: Adam, clipnorm: null, clipvalue: null, global_clipnorm: null, beta_1: 0.9, "
     "beta_2: 0.999, epsilon: 1.0e-07, amsgrad: false}"},
    {"optimizer", "adam_experimental",
     "{name: Adam, clipnorm: null, clipvalue: null, global_clipnorm: null, beta_1: 0.9, "
     "beta_2: 0.999, epsilon: 1.0e-07, amsgrad: false, jit_compile: false}"},
    {"optimizer", "adamw",
     "{name: AdamWeightDecay, clipnorm: null, clipvalue: null, global_clipnorm: null, "
     "beta_1: 0.9, beta_2: 0.999, epsilon: 1.0e-07, amsgrad: false, weight_decay_rate: 0.0, "
     "include_in_weight_decay: null, exclude_from_weight_decay: null, gradient_clip_norm: 1.0}"},
    {"optimizer", "adamw_experimental",
     "{name: AdamWeightDecayExperimental, clipnorm: null, clipvalue: null, global_clipnorm: 1.0, "
     "beta_1: 0.9, beta_2: 0.999, epsilon: 1.0e-07, amsgrad: false, weight_decay: 0.0, "
     "jit_compile: false}"},
    {"optimizer", "lamb",
     "{name: LAMB, clipnorm: null, clipvalue: null, global_clipnorm: null, beta_1: 0.9, "
     "beta_2: 0.999, epsilon: 1.0e-06, weight_decay_rate: 0.0, exclude_from_weight_decay: null, "
     "exclude_from_layer_adaptation: null}"},
    {"optimizer", "lars",
     "{name: LARS, clipnorm: null, clipvalue: null, global_clipnorm: null, momentum: 0.9, "
     "eeta: 0.001, weight_decay_rate: 0.0, nesterov: false, classic_momentum: true, "
     "exclude_from_weight_decay: null, exclude_from_layer_adaptation: null}"},
    {"optimizer", "rmsprop",
     "{name: RMSprop, clipnorm: null, clipvalue: null, global_clipnorm: null, rho: 0.9, "
     "momentum: 0.0, epsilon: 1.0e-07, centered: false}"},
    {"optimizer", "adagrad",
     "{name: Adagrad, clipnorm: null, clipvalue: null, global_clipnorm: null, "
     "initial_accumulator_value: 0.1, epsilon: 1.0e-07}"},
    {"optimizer", "adafactor_keras",
     "{name: Adafactor, clipnorm: null, clipvalue: null, global_clipnorm: null, "
     "learning_rate: 0.001, beta_2_decay: -0.8, epsilon_1: 1.0e-30, epsilon_2: 0.001, "
     "clip_threshold: 1.0, relative_step: true}"},
    {"optimizer", "adadelta",
     "{name: Adadelta, clipnorm: null, clipvalue: null, global_clipnorm: null, rho: 0.95, "
     "epsilon: 1.0e-07, weight_decay: 0.0}"},
    {"optimizer", "adamax",
     "{name: Adamax, clipnorm: null, clipvalue: null, global_clipnorm: null, beta_1: 0.9, "
     "beta_2: 0.999, epsilon: 1.0e-07, weight_decay: 0.0}"},
    {"optimizer", "nadam",
     "{name: Nadam, clipnorm: null, clipvalue: null, global_clipnorm: null, beta_1: 0.9, "
     "beta_2: 0.999, epsilon: 1.0e-07, weight_decay: 0.0}"},
    {"optimizer", "ftrl",
     "{name: Ftrl, clipnorm: null, clipvalue: null, global_clipnorm: null, "
     "learning_rate_power: -0.5, initial_accumulator_value: 0.1, "
     "l1_regularization_strength: 0.0, l2_regularization_strength: 0.0, "
     "l2_shrinkage_regularization_strength: 0.0, beta: 0.0, weight_decay: 0.0}"},
    {"optimizer", "lion",
     "{name: Lion, clipnorm: null, clipvalue: null, global_clipnorm: null, beta_1: 0.9, "
     "beta_2: 0.99, weight_decay: 0.0}"},
    {"optimizer", "slide",
     "{name: SLIDE, clipnorm: null, clipvalue: null, global_clipnorm: null, beta_1: 0.9, "
     "beta_2: 0.999, epsilon: 1.0e-06, weight_decay_rate: 0.0, weight_decay_type: inner, "
     "exclude_from_weight_decay: null, exclude_from_layer_adaptation: null, "
     "include_in_sparse_layer_adaptation: null, sparse_layer_learning_rate: 0.1, "
     "do_gradient_rescaling: true, norm_type: layer, ratio_clip_norm: 100000.0}"},
    {"optimizer", "adafactor",
     "{name: Adafactor, clipnorm: null, clipvalue: null, global_clipnorm: null, factored: true, "
     "multiply_by_parameter_scale: true, beta1: null, decay_rate: 0.8, step_offset: 0, "
     "clipping_threshold: 1.0, min_dim_size_to_factor: 128, epsilon1: 1.0e-30, epsilon2: 0.001, "
     "weight_decay: null, include_in_weight_decay: null}"},
    {"learning_rate", "constant", "{name: Constant, learning_rate: 0.1}"},
    {"learning_rate", "stepwise",
     "{name: PiecewiseConstantDecay, boundaries: null, values: null, offset: 0}"},
    {"learning_rate", "exponential",
     "{name: ExponentialDecay, initial_learning_rate: null, decay_steps: null, decay_rate: null, "
     "staircase: null, offset: 0}"},
    {"learning_rate", "polynomial",
     "{name: PolynomialDecay, initial_learning_rate: null, decay_steps: null, "
     "end_learning_rate: 0.0001, power: 1.0, cycle: false, offset: 0}"},
    {"learning_rate", "cosine",
     "{name: CosineDecay, initial_learning_rate: null, decay_steps: null, alpha: 0.0, offset: 0}"},
    {"learning_rate", "cosine_restarts",
     "{name: CosineDecayRestarts, initial_learning_rate: null, first_decay_steps: null, "
     "t_mul: 2.0, m_mul: 1.0, alpha: 0.0, offset: 0}"},
    {"learning_rate", "power",
     "{name: DirectPowerDecay, initial_learning_rate: null, power: -0.5}"},
    {"learning_rate", "power_linear",
     "{name: PowerAndLinearDecay, initial_learning_rate: null, total_decay_steps: null, "
     "power: -0.5, linear_decay_fraction: 0.1, offset: 0}"},
    {"learning_rate", "power_with_offset",
     "{name: PowerDecayWithOffset, initial_learning_rate: null, power: -0.5, offset: 0, "
     "pre_offset_learning_rate: 1000000.0}"},
    {"learning_rate", "step_cosine_with_offset",
     "{name: StepCosineDecayWithOffset, boundaries: null, values: null, offset: 0}"},
    {"warmup", "linear", "{name: linear, warmup_learning_rate: 0.0, warmup_steps: null}"},
    {"warmup", "polynomial", "{name: polynomial, power: 1.0, warmup_steps: null}"},
    // Not Model Garden's:
    {"optimizer", "torch_adamw",
     "{name: AdamW, clipnorm: null, clipvalue: null, global_clipnorm: null, beta_1: 0.9, "
     "beta_2: 0.999, epsilon: 1.0e-8, weight_decay: 0.01, amsgrad: false}"},
    {"optimizer", "torch_sgd",
     "{name: SGD, clipnorm: null, clipvalue: null, global_clipnorm: null, momentum: 0.0, "
     "weight_decay: 0.0, nesterov: false}"},
    {"learning_rate", "multistep",
     "{name: MultiStep, initial_learning_rate: null, milestones: null, gamma: 0.1, offset: 0}"},
    {"learning_rate", "cosine_annealing",
     "{name: CosineAnnealing, initial_learning_rate: null, decay_steps: null, "
     "end_learning_rate: 0.0, offset: 0}"},
    {"learning_rate", "stable_decay",
     "{name: StableDecay, initial_learning_rate: null, total_steps: null, decay_steps: null, "
     "end_learning_rate: 0.0, shape: linear, offset: 0}"},
    {"warmup", "constant", "{name: constant, warmup_learning_rate: 0.0, warmup_steps: null}"},
    {"warmup", "peak", "{name: peak, peak_learning_rate: 0.1, power: 1.0, warmup_steps: null}"},
};

static const tl_value *parse(tl_arena *arena, const char *text)
{
    const tl_value *v;
    assert_ok(tl_yaml_parse(&v, arena, text, strlen(text), "test"));
    return v;
}

static void test_branches_have_the_originals_defaults(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(branches); i++) {
        const branch_case *b = &branches[i];
        char yaml[128];
        snprintf(yaml, sizeof yaml, "{%s: {type: %s}}", b->key, b->type);
        tl_config *c = config_of(yaml);
        tl_str text = TL_STR_INIT;
        assert_ok(tl_config_write(&text, c, false));
        const tl_value *written = parse(tl_config_arena(c), tl_str_text(&text));
        const tl_value *expected = parse(tl_config_arena(c), b->expected);
        if (!tl_value_equal(tl_value_get(tl_value_get(written, b->key), b->type), expected))
            fail_msg("%s %s is written as\n%s", b->key, b->type, tl_str_text(&text));
        tl_str_deinit(&text);
        tl_config_free(&c);
    }
}

static void test_ema_defaults(void **state)
{
    (void)state;
    tl_config *c = config_of("ema: {}");
    const tl_optimization_config *o = tl_config_value(c);
    assert_non_null(o->ema);
    assert_string_equal(o->ema->base.name, "ExponentialMovingAverage");
    assert_true(o->ema->trainable_weights_only.value);
    assert_true(o->ema->dynamic_decay.value);
    assert_true(o->ema->average_decay.value == 0.99);
    assert_int_equal(o->ema->start_step, 0);
    tl_config_free(&c);

    c = config_of("ema: null");
    assert_null(((const tl_optimization_config *)tl_config_value(c))->ema);
    tl_config_free(&c);
}

static void test_every_branch_is_listed_above(void **state)
{
    (void)state;
    int64_t known = tl_registry_count(registry, &tl_kind_optimizer)
                    + tl_registry_count(registry, &tl_kind_learning_rate)
                    + tl_registry_count(registry, &tl_kind_warmup);
    assert_int_equal(known, TL_COUNT(branches));
}

/* Text that has the wrong types is refused while it is read. */
static void assert_unreadable(const char *yaml, const char *message)
{
    tl_config *c;
    assert_ok(tl_config_new(&c, registry, &tl_optimization_config_desc));
    assert_fails(tl_config_yaml(c, yaml, "test"), TL_EINVAL, message);
    tl_config_free(&c);
}

static void test_values_arrive_in_the_structs(void **state)
{
    (void)state;
    tl_config *c = config_of("optimizer: {type: lamb, lamb: {weight_decay_rate: 0.01, "
                             "exclude_from_weight_decay: [LayerNorm, bias]}}\n"
                             "learning_rate: {type: stepwise, stepwise: {boundaries: [10, 20], "
                             "values: [1, 0.1, 0.01]}}\n"
                             "warmup: {type: linear, linear: {warmup_steps: 5}}\n");
    assert_ok(tl_config_finish(c));
    const tl_optimization_config *o = tl_config_value(c);
    assert_ptr_equal(o->optimizer.desc, &tl_lamb_config_desc);
    const tl_lamb_config *lamb = o->optimizer.value;
    assert_true(lamb->weight_decay_rate == 0.01);
    assert_true(lamb->beta_2.value == 0.999);
    assert_int_equal(lamb->exclude_from_weight_decay.count, 2);
    assert_string_equal(lamb->exclude_from_weight_decay.items[1], "bias");
    assert_null(lamb->exclude_from_layer_adaptation.items);
    const tl_stepwise_config *stepwise = o->learning_rate.value;
    assert_int_equal(stepwise->values.count, 3);
    const tl_linear_warmup_config *warmup = o->warmup.value;
    assert_true(warmup->base.warmup_steps.set);
    assert_int_equal(warmup->base.warmup_steps.value, 5);
    tl_config_free(&c);
}

static void keep_text(const tl_log_record *record, void *payload)
{
    snprintf(payload, 512, "%s", record->text);
}

// Keras bounds the rate in any case: who turns it off is told.
static void test_relative_step_is_told_to_have_no_effect(void **state)
{
    (void)state;
    char heard[512] = "";
    int64_t handle;
    assert_ok(tl_log_sink_add(&handle, &(tl_log_sink){TL_LEVEL_WARNING, keep_text, NULL, heard}));
    tl_config *c =
        config_of("optimizer: {type: adafactor_keras, adafactor_keras: {relative_step: false}}\n");
    assert_ok(tl_config_finish(c));
    tl_log_sink_remove(handle);
    const tl_optimization_config *o = tl_config_value(c);
    assert_false(((const tl_adafactor_keras_config *)o->optimizer.value)->relative_step.value);
    assert_non_null(strstr(
        heard, "optimizer.adafactor_keras.relative_step: this has no effect (Keras bounds every"));
    tl_config_free(&c);
}

/* --- checks ----------------------------------------------------------------------------------- */

static void test_clipping_is_one_of_two(void **state)
{
    (void)state;
    assert_refused("optimizer: {type: sgd, sgd: {clipnorm: 1, global_clipnorm: 2}}", TL_EINVAL,
                   "optimizer.sgd.clipnorm: it (each variable alone) and global_clipnorm");
    // Here one of the two is set by default.
    assert_refused("optimizer: {type: adamw_experimental, adamw_experimental: {clipnorm: 1}}",
                   TL_EINVAL, "make one of them null");
    assert_accepted("optimizer: {type: adamw_experimental, adamw_experimental: {clipnorm: 1, "
                    "global_clipnorm: null}}");
    assert_accepted("optimizer: {type: sgd, sgd: {clipnorm: 1, clipvalue: 2}}");
    // What is not chosen is not checked.
    assert_accepted("optimizer: {type: adam, sgd: {clipnorm: 1, global_clipnorm: 2}}");
}

static void test_clipping_to_nothing_is_refused(void **state)
{
    (void)state;
    assert_refused("optimizer: {type: sgd, sgd: {clipnorm: 0}}", TL_EINVAL,
                   "optimizer.sgd.clipnorm: must be more than 0, found 0 (null clips nothing)");
    assert_refused("optimizer: {type: adam, adam: {clipvalue: 0.0}}", TL_EINVAL,
                   "optimizer.adam.clipvalue: must be");
    assert_refused(
        "optimizer: {type: adamw_experimental, adamw_experimental: {global_clipnorm: 0}}",
        TL_EINVAL, "optimizer.adamw_experimental.global_clipnorm: must be");
    // as in Model Garden: none
    assert_accepted("optimizer: {type: adamw, adamw: {gradient_clip_norm: 0}}");
}

static void test_numbers_of_ftrl_and_lion(void **state)
{
    (void)state;
    assert_refused("optimizer: {type: ftrl, ftrl: {learning_rate_power: 0.5}}", TL_EINVAL,
                   "optimizer.ftrl.learning_rate_power: must be at most 0");
    assert_accepted("optimizer: {type: ftrl, ftrl: {learning_rate_power: 0}}");
    assert_refused("optimizer: {type: lion, lion: {beta_1: 0}}", TL_EINVAL,
                   "optimizer.lion.beta_1: must be more than 0");
}

static void test_unpublished_optimizers_are_refused_when_chosen(void **state)
{
    (void)state;
    assert_refused("optimizer: {type: adafactor}", TL_EUNSUPPORTED, "use 'adafactor_keras'");
    assert_refused("optimizer: {type: slide}", TL_EUNSUPPORTED,
                   "the optimizer 'slide' has no published implementation");
    assert_accepted("optimizer: {type: sgd, slide: {beta_1: 0.5}, adafactor: {factored: false}}");
}

static void test_stepwise_lengths(void **state)
{
    (void)state;
    assert_accepted("learning_rate: {type: stepwise, stepwise: {boundaries: [1, 2], values: "
                    "[3, 2, 1]}}");
    assert_accepted("learning_rate: {type: stepwise, stepwise: {values: [3, 2, 1]}}");
    assert_accepted("learning_rate: {type: stepwise, stepwise: {boundaries: [], values: [1]}}");
    assert_refused("learning_rate: {type: stepwise, stepwise: {boundaries: [1, 2], values: "
                   "[3, 2]}}",
                   TL_EINVAL, "learning_rate.stepwise.values: 2 boundaries need 3 values, not 2");
    assert_refused("learning_rate: {type: stepwise, stepwise: {boundaries: [2, 2], values: "
                   "[3, 2, 1]}}",
                   TL_EINVAL, "boundaries: must increase, but 2 follows 2");
    assert_unreadable("learning_rate: {type: stepwise, stepwise: {boundaries: [1, x]}}",
                      "boundaries[1]: expected an integer");
    assert_unreadable("learning_rate: {type: stepwise, stepwise: {boundaries: [1.5]}}",
                      "boundaries[0]: expected an integer");
    assert_unreadable("learning_rate: {type: stepwise, stepwise: {values: [1, [2]]}}",
                      "values[1]: expected a number, found a list of 1");
}

static void test_step_cosine_lengths(void **state)
{
    (void)state;
    assert_accepted("learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: "
                    "{boundaries: [0, 500], values: [0.1, 0.05]}}");
    assert_refused("learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: "
                   "{boundaries: [0, 500], values: [0.1, 0.05, 0.01]}}",
                   TL_EINVAL, "2 boundaries need 2 values, not 3");
}

static void test_patterns(void **state)
{
    (void)state;
    assert_accepted("optimizer: {type: adamw, adamw: {include_in_weight_decay: '.*kernel'}}");
    assert_accepted("optimizer: {type: adamw, adamw: {include_in_weight_decay: ['.*kernel', b]}}");
    assert_refused("optimizer: {type: adamw, adamw: {include_in_weight_decay: [a, [b]]}}",
                   TL_EINVAL, "include_in_weight_decay[1]: expected a pattern, found a list");
    assert_unreadable("optimizer: {type: adamw, adamw: {exclude_from_weight_decay: [a, [b]]}}",
                      "exclude_from_weight_decay[1]: expected a string, found a list");
    assert_unreadable("optimizer: {type: lars, lars: {exclude_from_layer_adaptation: [null]}}",
                      "exclude_from_layer_adaptation[0]: cannot be null");
    assert_unreadable("optimizer: {lamb: {exclude_from_weight_decay: bias}}",
                      "optimizer.lamb.exclude_from_weight_decay: expected a list of string");
}

static void test_ranges_and_names(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *message;
        tl_status code;
    } cases[] = {
        {"optimizer: {sgd: {momentum: 1.5}}", "optimizer.sgd.momentum", TL_EINVAL},
        {"optimizer: {adam: {beta_1: -0.1}}", "optimizer.adam.beta_1", TL_EINVAL},
        {"optimizer: {adam: {clipnorm: -1}}", "optimizer.adam.clipnorm", TL_EINVAL},
        {"learning_rate: {cosine: {decay_steps: 0}}", "rate.cosine.decay_steps", TL_EINVAL},
        {"learning_rate: {cosine: {initial_learning_rate: -0.1}}",
         "learning_rate.cosine.initial_learning_rate: must be at least 0.0, found -0.1", TL_EINVAL},
        {"learning_rate: {constant: {learning_rate: -1e-9}}", "rate.constant.learning_rate",
         TL_EINVAL},
        {"learning_rate: {constant: {learning_rate: .nan}}", "rate.constant.learning_rate",
         TL_EINVAL},
        {"learning_rate: {stepwise: {values: [0.1, -0.1]}}",
         "rate.stepwise.values[1]: must be at least 0.0", TL_EINVAL},
        {"learning_rate: {polynomial: {end_learning_rate: -1}}",
         "rate.polynomial.end_learning_rate", TL_EINVAL},
        {"learning_rate: {cosine: {alpha: -1}}", "rate.cosine.alpha", TL_EINVAL},
        {"warmup: {linear: {warmup_learning_rate: -1}}", "warmup.linear.warmup_learning_rate",
         TL_EINVAL},
        {"warmup: {peak: {peak_learning_rate: -1}}", "warmup.peak.peak_learning_rate", TL_EINVAL},
        {"ema: {average_decay: 2}", "ema.average_decay", TL_EINVAL},
        {"warmup: {linear: {warmup_steps: -1}}", "warmup.linear.warmup_steps", TL_EINVAL},
        {"optimizer: {type: adma}", "did you mean 'adam'", TL_ENOTFOUND},
        {"learning_rate: {type: cosin}", "did you mean 'cosine'", TL_ENOTFOUND},
        {"warmup: {type: liner}", "did you mean 'linear'", TL_ENOTFOUND},
        {"optimizer: {sgd: {momentun: 0.9}}", "did you mean 'momentum'", TL_ENOTFOUND},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        tl_config *c;
        assert_ok(tl_config_new(&c, registry, &tl_optimization_config_desc));
        assert_fails(tl_config_yaml(c, cases[i].yaml, "t"), cases[i].code, cases[i].message);
        tl_config_free(&c);
    }
}

static void test_descriptions_are_sound(void **state)
{
    (void)state;
    assert_ok(tl_desc_verify(&tl_optimization_config_desc));
    static const tl_kind *const kinds[] = {&tl_kind_optimizer, &tl_kind_learning_rate,
                                           &tl_kind_warmup};
    for (int64_t k = 0; k < TL_COUNT(kinds); k++)
        for (int64_t i = 0; i < tl_registry_count(registry, kinds[k]); i++)
            assert_ok(tl_class_verify(kinds[k], tl_registry_at(registry, kinds[k], i)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptions_are_sound),
        cmocka_unit_test(test_branches_have_the_originals_defaults),
        cmocka_unit_test(test_ema_defaults),
        cmocka_unit_test(test_every_branch_is_listed_above),
        cmocka_unit_test(test_values_arrive_in_the_structs),
        cmocka_unit_test(test_relative_step_is_told_to_have_no_effect),
        cmocka_unit_test(test_clipping_is_one_of_two),
        cmocka_unit_test(test_clipping_to_nothing_is_refused),
        cmocka_unit_test(test_numbers_of_ftrl_and_lion),
        cmocka_unit_test(test_unpublished_optimizers_are_refused_when_chosen),
        cmocka_unit_test(test_stepwise_lengths),
        cmocka_unit_test(test_step_cosine_lengths),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_ranges_and_names),
    };
    return cmocka_run_group_tests(tests, open_registry, close_registry);
}
