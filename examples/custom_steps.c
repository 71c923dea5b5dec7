/* Counterpart of "Customize train and validation step" (Model Garden, Customize Training Process):
 * a task whose train_step and validation_step are written out, piece by piece.
 *
 *     $ example_custom_steps train --experiment=example/custom_steps --mode=train_and_eval \
 *           --model_dir=run
 *
 * Who does not need the pieces writes tl_step_minimize(s, losses, weights), which does all of them
 * and weighs the examples; who needs no step of their own inherits the base's. */
#include "digits.h"

static tl_status train_step(tl_task *t, tl_step *s)
{
    // Unpack the batch into what the model sees and what it should say.
    tl_tensors features, labels, outputs = {0};
    tl_batch_split(s->batch, &features, &labels);

    // A forward pass: model(features, training=True).
    tl_step_forward_all(s, &features, &outputs);

    // One loss an example, the model's own (regularisers) added; their mean is what goes down.
    tl_tensor *losses = tl_task_build_losses(t, s->ctx, &labels, &outputs, tl_step_aux_losses(s));
    tl_tensor *loss = tl_mean(s->ctx, losses, TL_ALL, false);

    // In float16 the loss is scaled up, so that small gradients do not vanish; else it stays.
    tl_tensor *scaled = tl_optimizer_scaled_loss(s->optimizer, s->ctx, loss);

    // Gradients by all trained parameters. The optimizer scales them back, clips and updates.
    tl_tensor *gradients[TL_STEP_BLOCKS];
    TL_TRY(tl_step_gradients(s, scaled, gradients));
    tl_optimizer_apply(s->optimizer, s->ctx, gradients, NULL);

    // The logs: the loss must be among them, the rest is free. Nobody waits for them here.
    tl_step_log(s, TL_LOSS, loss);
    tl_step_log(s, "worst_loss", tl_max(s->ctx, losses, TL_ALL, false));

    // metric.update_state(labels, outputs) of every metric.
    return tl_step_metrics(s, labels.items[0].tensor, outputs.items[0].tensor, NULL);
}

static tl_status validation_step(tl_task *t, tl_step *s)
{
    tl_tensors features, labels, outputs = {0};
    tl_batch_split(s->batch, &features, &labels);
    tl_step_forward_all(s, &features, &outputs); // not in training mode: the trainer says which
    tl_tensor *losses = tl_task_build_losses(t, s->ctx, &labels, &outputs, tl_step_aux_losses(s));

    // Or tl_step_report(s, losses, weights), for batches that differ in what they weigh.
    tl_step_log(s, TL_LOSS, tl_mean(s->ctx, losses, TL_ALL, false));
    return tl_step_metrics(s, labels.items[0].tensor, outputs.items[0].tensor, NULL);
}

/* --- a task of its own: everything else is that of digits_task -------------------------------- */

static const tl_field fields[] = {TL_F_END};
static const tl_desc desc = {
    .name = "custom_steps",
    .help = "digits, with steps written out",
    .size = sizeof(digits_config),
    .base = &digits_desc,
    .fields = fields,
};
static const tl_task_class task = {
    .cls = TL_CLASS(tl_task_class, "custom_steps", &digits_task.cls, digits, &desc,
                    .help = "digits, with steps written out"),
    .train_step = train_step,
    .validation_step = validation_step,
};
static const tl_experiment_class experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "example/custom_steps",
            .help = "digits, with steps written out",
            .base = &digits_experiment.cls},
    .task = &desc,
};

int main(int argc, char **argv)
{
    static const tl_entry entries[] = {{&tl_kind_task, &task.cls},
                                       {&tl_kind_experiment, &experiment.cls}};
    static const tl_module module = {TL_MODULE_HEAD("custom_steps"), entries, TL_COUNT(entries)};
    return tl_main(argc, argv, &module);
}
