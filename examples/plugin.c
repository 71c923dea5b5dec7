/* A plug-in: a task, an experiment and an optimizer of one's own, for the `tilth` that is installed.
 *
 *     cc -shared -fPIC plugin.c -o libdigits.so $(pkg-config --cflags tilth)
 *     tilth list experiments --plugin=./libdigits.so
 *     tilth params --plugin=./libdigits.so --experiment=example/digits */
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
static const tl_optimizer_class sign_sgd = {
    .cls = {.class_size = sizeof(tl_optimizer_class), .name = "sign_sgd",
            .help = "steps by the sign of the gradient", .config = &sign_sgd_desc},
};

static const tl_entry entries[] = {
    {&tl_kind_task, &digits_task.cls},
    {&tl_kind_experiment, &digits_experiment.cls},
    {&tl_kind_optimizer, &sign_sgd.cls},
};

const tl_module tl_module_main = {TL_MODULE_HEAD("digits"), entries, TL_COUNT(entries)};
