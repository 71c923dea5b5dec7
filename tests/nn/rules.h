/* Configurations of optimizers: one for each rule, with what is special about it. */
#ifndef TILTH_TESTS_NN_RULES_H
#define TILTH_TESTS_NN_RULES_H

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
enum { RULES = sizeof all_rules / sizeof *all_rules };

#endif
