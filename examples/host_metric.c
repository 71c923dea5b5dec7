/* Counterpart of CustomPythonEvaluator (Model Garden, Customize metrics: Python-based metrics): a
 * metric that is plain C on the host, for what does not fit into sums of tensors; and the task that
 * feeds it, batch by batch with aggregate_logs, and asks for its results with
 * reduce_aggregated_logs.
 *
 *     $ example_host_metric train --experiment=example/host_metric --mode=train_and_eval \
 *           --model_dir=run */
#include "digits.h"

/* --- the evaluator: which digit was taken for which ------------------------------------------- */

enum { DIGITS = 10 };

typedef struct confusion_config {
    bool per_category_metrics;
} confusion_config;

typedef struct confusion {
    tl_evaluator base;
    int64_t counts[DIGITS][DIGITS]; /* by what it is, and by what it was taken for */
} confusion;

static void reset_states(tl_evaluator *e)
{
    confusion *u = (confusion *)e;
    for (int i = 0; i < DIGITS * DIGITS; i++) u->counts[i / DIGITS][i % DIGITS] = 0;
}

static tl_status update_state(tl_evaluator *e, const tl_tensors *groundtruths,
                              const tl_tensors *predictions)
{
    confusion *u = (confusion *)e;
    const tl_tensor *label = tl_tensors_peek(groundtruths, "label");
    const tl_tensor *digit = tl_tensors_peek(predictions, "digit");
    if (!label || !digit)
        return TL_FAIL(TL_ENOTFOUND, "confusion wants the groundtruth 'label' and the prediction "
                                     "'digit'");
    tl_lease truths, answers; // the original's _convert_to_numpy
    TL_TRY(tl_lease_read(&truths, label));
    tl_status st = tl_lease_read(&answers, digit);
    const int32_t *truth = truths.data;
    for (int64_t i = 0; st == TL_OK && i < tl_tensor_count(label); i++)
        u->counts[truth[i]][((const int64_t *)answers.data)[i]]++;
    if (st == TL_OK) tl_lease_drop(&answers);
    tl_lease_drop(&truths);
    return st;
}

static tl_status result(tl_evaluator *e, tl_logs *into)
{
    const confusion *u = (const confusion *)e;
    const confusion_config *config = e->config;
    double worst = 0, pair = 0;
    for (int is = 0; is < DIGITS; is++) {
        int64_t all = 0;
        for (int said = 0; said < DIGITS; said++) {
            all += u->counts[is][said];
            if (is != said && (double)u->counts[is][said] > worst) {
                worst = (double)u->counts[is][said];
                pair = 10 * is + said;
            }
        }
        char name[] = "recall/0";
        name[7] = (char)('0' + is);
        if (config->per_category_metrics && all)
            TL_TRY(tl_logs_put(into, name, (double)u->counts[is][is] / (double)all));
    }
    TL_TRY(tl_logs_put(into, "most_confused", pair)); // 17: a 1 that was taken for a 7
    return tl_logs_put(into, "most_confused_count", worst);
}

static const tl_evaluator_class confusion_class = {
    .cls = TL_CLASS(tl_evaluator_class, "confusion", NULL, confusion, NULL),
    .update = update_state,
    .result = result,
    .reset = reset_states,
};

/* --- the task --------------------------------------------------------------------------------- */

typedef struct host_task {
    digits base;
    tl_evaluator *evaluator;
} host_task;

static tl_status start(tl_task *t)
{
    static const confusion_config config = {.per_category_metrics = true};
    TL_TRY(digits_task.start(t));
    return tl_evaluator_new(&((host_task *)t)->evaluator, &confusion_class, &config, NULL);
}

static void dispose(tl_task *t)
{
    tl_evaluator_free(&((host_task *)t)->evaluator);
    digits_task.dispose(t);
}

/* What is logged beside the loss goes to aggregate_logs. */
static tl_status validation_step(tl_task *t, tl_step *s)
{
    TL_TRY(tl_base_task.validation_step(t, s));
    tl_step_log(s, "label", tl_batch_get(s->batch, "label"));
    tl_tensor *logits = tl_step_forward(s, tl_batch_get(s->batch, "image"));
    tl_step_log(s, "digit", tl_argmax(s->ctx, logits, -1, false));
    return tl_ctx_status(s->ctx);
}

static tl_status aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    tl_evaluator *e = ((host_task *)t)->evaluator;
    tl_logs_entry label, digit;
    if (!*state) tl_evaluator_reset(e); // the first batch of an evaluation
    *state = e;
    if (!tl_logs_find(&label, step, "label") || !tl_logs_find(&digit, step, "digit"))
        return TL_FAIL(TL_ENOTFOUND, "the validation step logged no 'label' or no 'digit'");
    tl_named truth = {"label", (tl_tensor *)label.tensor};
    tl_named answer = {"digit", (tl_tensor *)digit.tensor};
    return tl_evaluator_update(e, &(tl_tensors){&truth, 1, 1}, &(tl_tensors){&answer, 1, 1});
}

static tl_status reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    (void)t;
    (void)global_step;
    return tl_evaluator_tell(state, into);
}

static const tl_field fields[] = {TL_F_END};
static const tl_desc desc = {
    .name = "host_metric",
    .help = "digits, with a metric of the host",
    .size = sizeof(digits_config),
    .base = &digits_desc,
    .fields = fields,
};
static const tl_task_class task = {
    .cls = TL_CLASS(tl_task_class, "host_metric", &digits_task.cls, host_task, &desc,
                    .help = "digits, with a metric of the host"),
    .start = start,
    .dispose = dispose,
    .validation_step = validation_step,
    .aggregate_logs = aggregate_logs,
    .reduce_aggregated_logs = reduce_aggregated_logs,
};
static const tl_experiment_class experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "example/host_metric",
            .help = "digits, with a metric of the host",
            .base = &digits_experiment.cls},
    .task = &desc,
};

int main(int argc, char **argv)
{
    static const tl_entry entries[] = {{&tl_kind_task, &task.cls},
                                       {&tl_kind_experiment, &experiment.cls}};
    static const tl_module module = {TL_MODULE_HEAD("host_metric"), entries, TL_COUNT(entries)};
    return tl_main(argc, argv, &module);
}
