/* Groups of parameters that stay as they are for a number of steps. */
#include "test.h"

#include "rules.h"
#include "weights.h"

<<<<<<< HEAD
=======
#define RATE "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"

static const char *const all_rules[] = {
    "optimizer: {type: sgd, sgd: {momentum: 0.5}}\n" RATE,
    "optimizer: {type: sgd_experimental}\n" RATE,
    "optimizer: {type: torch_sgd, torch_sgd: {momentum: 0.5, weight_decay: 0.1}}\n" RATE,
    "optimizer: {type: adam, adam: {amsgrad: true}}\n" RATE,
    "optimizer: {type: adam_experimental, adam_experimental: {clipnorm: 0.5}}\n" RATE,
    "optimizer: {type: adamw, adamw: {weight_decay_rate: 0.1,\n"
    "  exclude_from_weight_decay: [bias]}}\n" RATE,
    "optimizer: {type: adamw_experimental, adamw_experimental: {weight_decay: 0.1}}\n" RATE,
    "optimizer: {type: torch_adamw}\n" RATE,
    "optimizer: {type: lamb, lamb: {weight_decay_rate: 0.1}}\n" RATE,
    "optimizer: {type: lars, lars: {clipvalue: 0.5}}\n" RATE,
    "optimizer: {type: rmsprop, rmsprop: {momentum: 0.5, centered: true}}\n" RATE,
    "optimizer: {type: adagrad, adagrad: {global_clipnorm: 1}}\n" RATE,
    "optimizer: {type: adafactor_keras}\n" RATE,
    "optimizer: {type: adadelta, adadelta: {weight_decay: 0.1}}\n" RATE,
    "optimizer: {type: adamax, adamax: {clipnorm: 0.5, weight_decay: 0.1}}\n" RATE,
    "optimizer: {type: nadam, nadam: {weight_decay: 0.1}}\n" RATE,
    "optimizer: {type: ftrl, ftrl: {weight_decay: 0.1, beta: 0.1}}\n" RATE,
    "optimizer: {type: lion, lion: {weight_decay: 0.1}}\n" RATE,
};

>>>>>>> h5
/* With all rules, those with a decay of their own too: what is frozen keeps every bit, and is
 * trained from the next step on. */
static void check_frozen(const char *yaml, int mode)
{
    lab l;
    double before[ELEMENTS], after[ELEMENTS];
    const tl_group_config group = {.group = "images", .pattern = "^conv/", .frozen_steps = 2};
    lab_open_model(&l, TL_F32);
    assert_ok(tl_model_group(l.model, &group, 1));
    put_values(l.params, 1, 1, true);
    lab_open_optimizer(&l, yaml, &(tl_optimizer_args){.groups = &group, .group_count = 1}, mode);
    get_all(before, l.params);
    for (int step = 1; step <= 3; step++) {
        lab_run_number(&l, step);
        get_all(after, l.params);
        bool same = memcmp(before + 22, after + 22, 24 * sizeof *before) == 0;
        if (same != (step <= 2)) fail_msg("step %d: %s", step, yaml);
        assert_true(memcmp(before, after, 15 * sizeof *before) != 0);
    }
    lab_close(&l);
}

static void test_frozen_groups(void **state)
{
    (void)state;
    for (int i = 0; i < TL_COUNT(all_rules); i++) check_frozen(all_rules[i], EAGER);
    check_frozen(all_rules[0], COMPILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen_groups),
    };
    return cmocka_run_group_tests(tests, open_labs, close_labs);
}
