/* Counterpart of CustomLoss (Model Garden, Customize Loss): the focal loss as a class of its own,
 * with parameters, and a task whose build_losses calls it. It is registered, so that YAML chooses
 * and configures it:
 *
 *     $ example_custom_loss train --experiment=example/custom_loss --mode=train_and_eval \
 *           --model_dir=run task.loss.my_focal.gamma=1.5
 *     $ example_custom_loss describe loss my_focal */
#include "digits.h"

/* --- the loss --------------------------------------------------------------------------------- */

typedef struct my_focal_config {
    tl_loss_config loss;
    double alpha, gamma;
} my_focal_config;

static const tl_field my_focal_fields[] = {
    TL_F(my_focal_config, alpha, .d = 0.25, TL_RANGE(0, 1), .help = "weight of targets that are 1"),
    TL_F(my_focal_config, gamma, .d = 2, TL_AT_LEAST(0), .help = "how little easy examples count"),
    TL_F_END,
};
static const tl_desc my_focal_desc = {
    .name = "my_focal",
    .help = "focal loss",
    .size = sizeof(my_focal_config),
    .base = &tl_loss_config_desc,
    .fields = my_focal_fields,
};

/* One value an example: each of its classes is a question of its own, and they are added. */
static tl_tensor *call(tl_loss *l, tl_ctx *c, tl_tensor *labels, tl_tensor *predictions)
{
    const my_focal_config *config = l->config;
    tl_tensor *positive = tl_cast(c, labels, TL_BOOL);
    tl_tensor *cross_entropy = tl_sigmoid_cross_entropy(c, labels, predictions);
    tl_tensor *probs = tl_sigmoid(c, predictions);
    tl_tensor *wrong = tl_where(c, positive, tl_affine(c, probs, -1, 1), probs); // 1 - p, or p
    tl_tensor *modulator = tl_pow(c, wrong, tl_number(c, TL_F32, config->gamma));
    tl_tensor *loss = tl_mul(c, modulator, cross_entropy);
    tl_tensor *weighted = tl_where(c, positive, tl_scale(c, loss, config->alpha),
                                   tl_scale(c, loss, 1 - config->alpha));
    return tl_sum(c, weighted, TL_AXES(-1), false);
}

static const tl_loss_class my_focal = {
    .cls = TL_CLASS(tl_loss_class, "my_focal", NULL, tl_loss, &my_focal_desc, .help = "focal loss"),
    .call = call,
};

/* --- a task that uses it ---------------------------------------------------------------------- */

typedef struct my_task_config {
    digits_config digits;
    tl_oneof loss;
} my_task_config;

typedef struct my_task {
    digits base;
    tl_loss *loss;
} my_task;

static tl_status start(tl_task *t)
{
    const my_task_config *config = (const my_task_config *)t->config;
    TL_TRY(digits_task.start(t));
    return tl_loss_new_of(&((my_task *)t)->loss, &config->loss, t->registry, NULL);
}

static void dispose(tl_task *t)
{
    tl_loss_free(&((my_task *)t)->loss);
    digits_task.dispose(t);
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    tl_tensor *logits = tl_cast(c, outputs->items[0].tensor, TL_F32);
    int64_t classes = ((const my_task_config *)t->config)->digits.num_classes;
    tl_tensor *targets = tl_one_hot(c, labels->items[0].tensor, classes, TL_F32);
    tl_tensor *each = tl_loss_values(((my_task *)t)->loss, c, targets, logits);
    return aux ? tl_add(c, each, aux) : each;
}

static const tl_field fields[] = {
    TL_F(my_task_config, loss, .kind = &tl_kind_loss, .help = "of one-hot targets and logits"),
    TL_F_END,
};
static const tl_desc desc = {
    .name = "custom_loss",
    .help = "digits, with a loss that YAML chooses",
    .size = sizeof(my_task_config),
    .base = &digits_desc,
    .fields = fields,
};
static const tl_task_class task = {
    .cls = TL_CLASS(tl_task_class, "custom_loss", &digits_task.cls, my_task, &desc,
                    .help = "digits, with a loss that YAML chooses"),
    .start = start,
    .dispose = dispose,
    .build_losses = build_losses,
};
static const tl_experiment_class experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "example/custom_loss",
            .help = "digits, with a loss of its own",
            .base = &digits_experiment.cls},
    .task = &desc,
    .defaults = "task: {loss: {type: my_focal, my_focal: {alpha: 0.5}}}",
};

int main(int argc, char **argv)
{
    static const tl_entry entries[] = {{&tl_kind_loss, &my_focal.cls},
                                       {&tl_kind_task, &task.cls},
                                       {&tl_kind_experiment, &experiment.cls}};
    static const tl_module module = {TL_MODULE_HEAD("custom_loss"), entries, TL_COUNT(entries)};
    return tl_main(argc, argv, &module);
}
