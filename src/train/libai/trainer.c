#include <tilth/train/libai/default_trainer.h>

#include <string.h>

#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

#include "train/trainer/trainer.h"

#define TOTAL_LOSS "total_loss"

/* --- what a step tells ------------------------------------------------------------------------ */

static bool is_loss(const char *name)
{
    return strstr(name, "loss") != NULL;
}

void tl_step_minimize_dict(tl_step *s, const tl_tensors *losses, tl_tensor *weights)
{
    tl_tensor *sum = NULL;
    for (int64_t i = 0; i < losses->count; i++) {
        const tl_named *l = &losses->items[i];
        tl_step_log(s, l->name, tl_mean(s->ctx, l->tensor, TL_ALL, false));
        if (is_loss(l->name)) sum = sum ? tl_add(s->ctx, sum, l->tensor) : l->tensor;
    }
    if (!sum) {
        (void)!TL_FAIL(
            TL_EINVAL,
            "none of the %d entries has \"loss\" in its name: there is nothing to minimise",
            (int)losses->count);
        tl_ctx_fail(s->ctx);
        return;
    }
    tl_step_minimize(s, sum, weights);
}

/* What the step minimised. Of several batches each has told its own loss, and the metric all of
 * them. */
static tl_tensor *total_loss(tl_trainer *t)
{
    tl_tensor *told = tl_tensors_peek(t->outputs, TL_LOSS), *sum = NULL;
    if (told && t->parts->sums) return tl_metric_result(t->train_loss, t->ctx);
    if (told) return tl_tensor_count(told) == 1 ? told : tl_mean(t->ctx, told, TL_ALL, false);
    for (int64_t i = 0; i < t->outputs->count; i++) {
        const tl_named *o = &t->outputs->items[i];
        if (!is_loss(o->name) || tl_tensor_count(o->tensor) != 1) continue;
        sum = sum ? tl_add(t->ctx, sum, o->tensor) : o->tensor;
    }
    return sum;
}

/* The outputs once more, with the total under LiBai's name. They live as long as the step's own. */
static tl_status rename_outputs(tl_libai_trainer *l)
{
    tl_trainer *t = &l->base;
    l->told = (tl_tensors){0};
    if (!t->outputs) return TL_OK;
    tl_tensor *total = total_loss(t);
    if (total) tl_tensors_put(t->ctx, &l->told, TOTAL_LOSS, total);
    for (int64_t i = 0; i < t->outputs->count; i++) {
        const tl_named *o = &t->outputs->items[i];
        if (strcmp(o->name, TL_LOSS) != 0) tl_tensors_put(t->ctx, &l->told, o->name, o->tensor);
    }
    TL_TRY(tl_ctx_status(t->ctx));
    t->outputs = &l->told;
    return TL_OK;
}

static int64_t samples_of_step(const tl_trainer *t)
{
    const tl_task_config *task = t->task ? t->task->config : NULL;
    return task && task->train_data ? task->train_data->global_batch_size * t->parts->accumulation
                                    : 0;
}

static tl_status write_metrics(tl_libai_trainer *l, double data_time)
{
    tl_trainer *t = &l->base;
    tl_event_storage *s = tl_event_storage_current();
    if (!s) return TL_OK;
    if (s != l->storage) {
        TL_TRY(tl_event_storage_scalar(&l->data_time, s, "data_time", true));
        TL_TRY(tl_event_storage_scalar(&l->grad_norm, s, "grad_norm", false));
        l->storage = s;
    }
    tl_event_storage_set_iteration(s, t->global_step - 1);
    tl_event_storage_set_samples(s, t->global_step * samples_of_step(t));
    TL_TRY(tl_event_scalar_put(l->data_time, data_time));
    if (!t->optimizer) return TL_OK;
    tl_tensor *norm = tl_optimizer_norm(t->optimizer);
    if (t->parts->flight.flies)
        norm = tl_affine(t->ctx, norm, 1, 0); // the next step writes over it
    return norm ? tl_event_scalar_put_tensor(l->grad_norm, norm) : tl_ctx_status(t->ctx);
}

/* --- a step ----------------------------------------------------------------------------------- */

static tl_status forget_loss(tl_trainer *t)
{
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_status st = tl_metric_reset(t->train_loss, t->ctx);
    tl_ctx_end(t->ctx, mark);
    return st;
}

static tl_status run_step(tl_trainer *t)
{
    double waited = t->data_wait_s;
    if (t->parts->sums && t->train_loss) TL_TRY(forget_loss(t));
    TL_TRY(tl_base_trainer.train_step(t));
    TL_TRY(rename_outputs((tl_libai_trainer *)t));
    return write_metrics((tl_libai_trainer *)t, t->data_wait_s - waited);
}

/* Another storage may come to lie where the last one was. */
static tl_status loop_begin(tl_trainer *t)
{
    ((tl_libai_trainer *)t)->storage = NULL;
    return tl_base_trainer.train_loop_begin(t);
}

/* --- evaluators ------------------------------------------------------------------------------- */

static tl_status eval_begin(tl_trainer *t, void **state)
{
    tl_libai_trainer *l = (tl_libai_trainer *)t;
    TL_TRY(tl_base_trainer.eval_begin(t, state));
    if (l->evaluator) tl_evaluator_reset(l->evaluator);
    return TL_OK;
}

static tl_status eval_reduce(tl_trainer *t, void **state, const tl_logs *step)
{
    tl_libai_trainer *l = (tl_libai_trainer *)t;
    TL_TRY(tl_base_trainer.eval_reduce(t, state, step));
    if (!l->evaluator) return TL_OK;
    tl_batch logged = {.ctx = t->ctx};
    tl_tensors groundtruths, predictions;
    for (int64_t i = 0; i < tl_logs_count(step); i++) {
        tl_logs_entry e;
        tl_logs_at(&e, step, i);
        if (e.tensor)
            tl_tensors_put(t->ctx, &logged.tensors, e.name, (tl_tensor *)(uintptr_t)e.tensor);
    }
    TL_TRY(tl_ctx_status(t->ctx));
    if (t->task) tl_task_split(t->task, &logged, &predictions, &groundtruths);
    else tl_batch_split(&logged, &predictions, &groundtruths);
    return tl_evaluator_update(l->evaluator, &groundtruths, &predictions);
}

static tl_status eval_end(tl_trainer *t, void *state, tl_logs *logs)
{
    tl_libai_trainer *l = (tl_libai_trainer *)t;
    TL_TRY(tl_base_trainer.eval_end(t, state, logs));
    // of several processes the chief has got what all have logged
    return l->evaluator && tli_is_chief(t->strategy) ? tl_evaluator_tell(l->evaluator, logs)
                                                     : TL_OK;
}

/* --- the classes ------------------------------------------------------------------------------ */

static tl_status start_eager(tl_trainer *t)
{
    tl_function_free(&t->parts->train);
    tl_function_free(&t->parts->apply);
    tl_function_free(&t->parts->eval);
    return TL_OK;
}

static tl_status start_graph(tl_trainer *t)
{
    if (!t->parts->trains || !t->task || t->parts->train) return TL_OK;
    return TL_FAIL(
        TL_EINVAL,
        "a graph trainer runs the step as one program, and the configuration says that it must not "
        "(train_tf_function, run_eagerly)");
}

#define CLASS(label, text)                                                                         \
    .cls = {.class_size = sizeof(tl_trainer_class),                                                \
            .name = label,                                                                         \
            .base = &tl_base_trainer.cls,                                                          \
            .size = sizeof(tl_libai_trainer),                                                      \
            .help = text},                                                                         \
    .train_loop_begin = loop_begin, .train_step = run_step, .eval_begin = eval_begin,              \
    .eval_reduce = eval_reduce, .eval_end = eval_end, .in_flight = true

const tl_trainer_class tl_eager_trainer = {
    CLASS("EagerTrainer", "LiBai's trainer that runs the step operation by operation"),
    .start = start_eager,
};
const tl_trainer_class tl_graph_trainer = {
    CLASS("GraphTrainer", "LiBai's trainer that runs the step as one program"),
    .start = start_graph,
};
