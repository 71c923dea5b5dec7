/* Counterpart of CustomTrainer (Model Garden, Customize Training Launcher: Customize trainer): a
 * trainer that fetches its own inputs, looks at every step, and writes out what loops and
 * evaluations tell.
 *
 *     $ example_custom_trainer run
 *
 * A method that is left out is the base's; super().method() is tl_base_trainer.method(). */
#include "digits.h"

typedef struct custom_trainer {
    tl_trainer base;
    int64_t examples;  /* trained with so far; kept in checkpoints */
    double worst_loss; /* of the evaluation that is going on */
    int64_t batch, worst_batch;
} custom_trainer;

static tl_status state(tl_trainer *t, tl_state *into)
{
    return tl_state_bind_int(into, "examples", &((custom_trainer *)t)->examples);
}

/* --- training --------------------------------------------------------------------------------- */

static tl_status next_train_inputs(tl_trainer *t, tl_ctx *c, tl_tensors *batch, bool *more)
{
    TL_TRY(tl_dataset_next(t->train_dataset, c, batch, more));
    tl_batch taken = {c, *batch};
    ((custom_trainer *)t)->examples += tl_batch_size(&taken);
    return TL_OK;
}

/* The task's step is one compiled program, or runs op by op where the configuration says
 * run_eagerly. */
static tl_status train_step(tl_trainer *t)
{
    TL_TRY(tl_base_trainer.train_step(t));
    if (t->global_step == 1) {
        double loss; // what the task logged is in t->outputs; reading it waits for the step
        TL_TRY(tl_tensor_item(tl_tensors_peek(t->outputs, TL_LOSS), &loss));
        printf("the first step: loss %.3f\n", loss);
    }
    return TL_OK;
}

static tl_status train_loop_end(tl_trainer *t, tl_logs *logs)
{
    TL_TRY(tl_trainer_join(t));
    TL_TRY(tl_metrics_tell(t->train_metrics, t->ctx, logs)); // logs[metric.name] = metric.result()
    TL_TRY(tl_metric_tell(t->train_loss, t->ctx, logs));
    TL_TRY(tl_metrics_reset(t->train_metrics, t->ctx));
    TL_TRY(tl_metric_reset(t->train_loss, t->ctx));
    TL_TRY(tl_logs_put(logs, "learning_rate", tl_optimizer_learning_rate(t->optimizer)));
    double iterations = (double)tl_optimizer_iterations(t->optimizer);
    TL_TRY(tl_logs_put(logs, "optimizer_iterations", iterations));
    TL_TRY(tl_logs_put(logs, "model_global_step", (double)t->global_step));
    return tl_logs_put(logs, "examples", (double)((custom_trainer *)t)->examples);
}

/* --- evaluation ------------------------------------------------------------------------------- */

static tl_status eval_begin(tl_trainer *t, void **aggregated)
{
    custom_trainer *u = (custom_trainer *)t;
    u->batch = u->worst_batch = 0;
    u->worst_loss = 0;
    return tl_base_trainer.eval_begin(t, aggregated);
}

/* What is put into `passthrough` goes around the step into its logs: passthrough_logs | logs. */
static tl_status next_eval_inputs(tl_trainer *t, tl_ctx *c, tl_tensors *batch, tl_logs *passthrough,
                                  bool *more)
{
    TL_TRY(tl_base_trainer.next_eval_inputs(t, c, batch, passthrough, more));
    return tl_logs_put(passthrough, "batch", (double)((custom_trainer *)t)->batch++);
}

static tl_status eval_step(tl_trainer *t, tl_logs *logs, bool *more)
{
    custom_trainer *u = (custom_trainer *)t;
    TL_TRY(tl_base_trainer.eval_step(t, logs, more));
    double loss = tl_logs_number_or(logs, TL_LOSS, 0);
    if (*more && loss > u->worst_loss) {
        u->worst_loss = loss;
        u->worst_batch = (int64_t)tl_logs_number_or(logs, "batch", -1);
    }
    return TL_OK;
}

static tl_status eval_end(tl_trainer *t, void *aggregated, tl_logs *logs)
{
    double count;
    TL_TRY(tl_trainer_join(t));
    TL_TRY(tl_metrics_tell(t->validation_metrics, t->ctx, logs));
    TL_TRY(tl_tensor_item(tl_tensors_peek(&t->validation_loss->states, "count"), &count));
    if (count != 0) TL_TRY(tl_metric_tell(t->validation_loss, t->ctx, logs));
    if (aggregated)
        TL_TRY(tl_task_reduce_aggregated_logs(t->task, aggregated, t->global_step, logs));
    TL_TRY(tl_logs_put(logs, "worst_batch", (double)((custom_trainer *)t)->worst_batch));
    if (!t->exporter) return TL_OK;
    return tl_exporter_maybe_export(t->exporter, tl_trainer_checkpoint(t), logs, t->global_step,
                                    NULL);
}

static const tl_trainer_class custom_trainer_class = {
    .cls = TL_CLASS(tl_trainer_class, "CustomTrainer", &tl_base_trainer.cls, custom_trainer, NULL),
    .state = state,
    .next_train_inputs = next_train_inputs,
    .train_step = train_step,
    .train_loop_end = train_loop_end,
    .eval_begin = eval_begin,
    .next_eval_inputs = next_eval_inputs,
    .eval_step = eval_step,
    .eval_end = eval_end,
};

int main(int argc, char **argv)
{
    tl_train_flags flags = {.mode = "train_and_eval", .model_dir = argc > 1 ? argv[1] : "run"};
    tl_parse_options options = TL_PARSE_OPTIONS_INIT;
    tl_registry *registry = NULL;
    tl_config *config = NULL;
    tl_status st;
    options.experiment = "example/digits";
    options.params_override = "trainer.best_checkpoint_export_subdir=best_ckpt,"
                              "trainer.best_checkpoint_eval_metric=accuracy";
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_registry_add(registry, &digits_module));
    TL_TRY_DONE(st, tl_experiment_parse(&config, registry, &options));
    tl_run_args run = {.trainer_cls = &custom_trainer_class};
    st = tl_launch(NULL, &(tl_launch_args){
                             .registry = registry, .config = config, .flags = &flags, .run = &run});
done:
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    tl_config_free(&config);
    tl_registry_free(&registry);
    return tl_exit_code(st);
}
