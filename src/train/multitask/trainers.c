/* Trainers of several tasks, and of one task that is evaluated as several. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>

#include "train/trainer/trainer.h"

/* --- which tasks ------------------------------------------------------------------------------ */

static tl_status allocate(tl_trainer *t, int64_t count)
{
    tli_subjects *all = &t->parts->subjects;
    size_t bytes = (size_t)(count ? count : 1) * sizeof *all->items;
    all->items = tl_alloc_zero(bytes);
    return all->items ? TL_OK : TL_FAIL_NOMEM(bytes);
}

static tl_status require_multi_task(const tl_trainer *t)
{
    if (!tl_class_is(&t->task->cls->cls, &tl_multi_task_class.cls))
        return TL_FAIL(TL_EINVAL,
                       "the trainer '%s' trains several tasks, and the task '%s' is one: its class "
                       "does not derive from multi_task",
                       t->cls->cls.name, t->task->name);
    if (!tl_desc_is(t->config->trainer.desc, &tl_multi_task_trainer_config_desc))
        return TL_FAIL(TL_EINVAL,
                       "the trainer '%s' needs a section `trainer` of its own: let the experiment "
                       "have tl_multi_task_trainer_config_desc",
                       t->cls->cls.name);
    return TL_OK;
}

/* As in Model Garden: the power falls as fast behind total_steps, and below 0 in the end. */
static void check_annealing(const tl_multi_task_trainer_config *c)
{
    if (!c->task_sampler.type || strcmp(c->task_sampler.type, "annealing") != 0) return;
    const tl_annealing_sample_config *a = c->task_sampler.value;
    if (a->total_steps < c->base.train_steps)
        TL_LOG_WARNING("trainer.task_sampler.annealing.total_steps is %" PRId64
                       ", and trainer.train_steps %" PRId64 ": behind it the power of weights goes "
                       "on falling, so that tasks of small weights are drawn most. Set it to "
                       "train_steps",
                       a->total_steps, c->base.train_steps);
}

static tl_status prepare(tl_trainer *t)
{
    tli_subjects *all = &t->parts->subjects;
    const tl_multi_task *m = (const tl_multi_task *)t->task;
    const bool joint = !tl_class_is(&t->cls->cls, &tl_interleaving_trainer.cls);
    tl_input_context input = {
        .pipelines = 1, .replicas = tl_strategy_replicas(t->strategy), .seed = t->seed};
    TL_TRY(require_multi_task(t));
    TL_TRY(allocate(t, m->count));
    for (int64_t i = 0; i < m->count; i++)
        all->items[all->count++] = (tli_subject){.trainer = t, .sub = m->tasks[i]};
    all->trained = true;
    if (!t->parts->trains) return TL_OK;
    if (t->train_dataset)
        return TL_FAIL(TL_EINVAL, "the trainer '%s' makes its data itself, from those of its tasks",
                       t->cls->cls.name);
    const tl_multi_task_trainer_config *config = t->config->trainer.value;
    if (!joint) check_annealing(config);
    TL_TRY(
        tli_mix_new(&all->mix, &(tli_mix_args){.tasks = m,
                                               .input = &input,
                                               .each = t->parts->accumulation * input.replicas,
                                               .sampler = joint ? NULL : &config->task_sampler}));
    t->train_dataset = all->mix;
    return TL_OK;
}

/* --- training --------------------------------------------------------------------------------- */

static tl_status state(tl_trainer *t, tl_state *into)
{
    const tli_subjects *all = &t->parts->subjects;
    tl_state *metrics, *own, *loss;
    if (!t->train_metrics) return TL_OK;
    TL_TRY(tl_state_sub(&metrics, into, "metrics/tasks"));
    for (int64_t i = 0; i < all->count; i++) {
        TL_TRY(tl_state_sub(&own, metrics, all->items[i].sub.name));
        TL_TRY(tl_metrics_state(all->items[i].train_metrics, own));
        TL_TRY(tl_state_sub(&loss, own, "training_loss"));
        TL_TRY(tl_metric_state_into(all->items[i].train_loss, loss));
    }
    return TL_OK;
}

static tl_status tell_task(tl_trainer *t, tli_subject *one, tl_logs *logs, bool finite)
{
    tl_logs *own;
    TL_TRY(tl_logs_sub(&own, logs, one->sub.name));
    TL_TRY(tl_metric_tell(one->train_loss, t->ctx, own));
    if (!finite) TL_TRY(tl_logs_put(own, one->train_loss->name, NAN));
    TL_TRY(tl_metrics_tell(one->train_metrics, t->ctx, own));
    TL_TRY(tl_metrics_reset(one->train_metrics, t->ctx));
    return tl_metric_reset(one->train_loss, t->ctx);
}

/* A loop without a single finite loss has no mean. */
static tl_status was_finite(bool *out, tl_trainer *t)
{
    const tl_tensor *count = tl_tensors_peek(&t->train_loss->states, "count");
    double finite, counted = 1;
    TL_TRY(tl_tensor_item(tl_optimizer_finite(t->optimizer), &finite));
    if (count) TL_TRY(tl_tensor_item(count, &counted));
    *out = finite != 0 || counted != 0;
    return TL_OK;
}

static tl_status train_loop_end(tl_trainer *t, tl_logs *logs)
{
    tli_subjects *all = &t->parts->subjects;
    const bool joint = !tl_class_is(&t->cls->cls, &tl_interleaving_trainer.cls);
    bool finite;
    tl_logs *total;
    TL_TRY(tl_trainer_join(t));
    TL_TRY(was_finite(&finite, t));
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_status st = TL_OK;
    if (joint) { // the sum of interleaved losses would mean nothing
        TL_TRY_DONE(st, tl_logs_sub(&total, logs, TLI_TOTAL_LOSS));
        TL_TRY_DONE(st, tl_metric_tell(t->train_loss, t->ctx, total));
        if (!finite) TL_TRY_DONE(st, tl_logs_put(total, t->train_loss->name, NAN));
    }
    for (int64_t i = 0; i < all->count && st == TL_OK; i++)
        st = tell_task(t, &all->items[i], logs, finite);
    if (st == TL_OK) st = tl_metric_reset(t->train_loss, t->ctx);
    if (st == TL_OK)
        st = tl_logs_put(logs, "learning_rate", tl_optimizer_learning_rate(t->optimizer));
done:
    tl_ctx_end(t->ctx, mark);
    return st;
}

const tl_trainer_class tl_multi_task_trainer = {
    .cls = {.class_size = sizeof(tl_trainer_class),
            .name = "MultiTaskBaseTrainer",
            .base = &tl_base_trainer.cls,
            .size = sizeof(tl_trainer),
            .help = "several tasks: all of them in each step"},
    .prepare = prepare,
    .state = state,
    .train_loop_end = train_loop_end,
    .evaluate = tli_subjects_evaluate,
};

const tl_trainer_class tl_interleaving_trainer = {
    .cls = {.class_size = sizeof(tl_trainer_class),
            .name = "MultiTaskInterleavingTrainer",
            .base = &tl_multi_task_trainer.cls,
            .size = sizeof(tl_trainer),
            .help = "several tasks: one in each step, which is drawn"},
};

/* --- one task that is evaluated as several ---------------------------------------------------- */

static tl_status prepare_evaluation(tl_trainer *t)
{
    tli_subjects *all = &t->parts->subjects;
    const tl_structs *list = &t->config->eval_tasks;
    const tl_task_routine *routines = list->items;
    if (!list->count)
        return TL_FAIL(TL_EINVAL, "the trainer '%s' evaluates eval_tasks, and there are none",
                       t->cls->cls.name);
    if (!t->parts->evaluates) return TL_OK;
    TL_TRY(allocate(t, list->count));
    for (int64_t i = 0; i < list->count; i++) {
        tli_subject *one = &all->items[all->count++];
        *one = (tli_subject){.trainer = t, .owned = true};
        TL_TRY_NOTE(tli_sub_task_new(&one->sub, &routines[i], t->task), "eval_tasks[%" PRId64 "]",
                    i);
        for (int64_t k = 0; k < i; k++)
            if (strcmp(all->items[k].sub.name, one->sub.name) == 0)
                return TL_FAIL(TL_EEXISTS, "eval_tasks[%" PRId64 "]: there are two tasks '%s'", i,
                               one->sub.name);
    }
    return TL_OK;
}

const tl_trainer_class tl_multi_eval_trainer = {
    .cls = {.class_size = sizeof(tl_trainer_class),
            .name = "MultiEvalTrainer",
            .base = &tl_base_trainer.cls,
            .size = sizeof(tl_trainer),
            .help = "trains one task, and evaluates several"},
    .prepare = prepare_evaluation,
    .evaluate = tli_subjects_evaluate,
};

const tl_trainer_class *tli_usual_trainer(const tl_experiment_config *params)
{
    if (!params) return &tl_base_trainer;
    if (tl_desc_is(params->trainer.desc, &tl_multi_task_trainer_config_desc)) {
        const tl_multi_task_trainer_config *config = params->trainer.value;
        return config->trainer_type == TL_TASKS_JOINT ? &tl_multi_task_trainer
                                                      : &tl_interleaving_trainer;
    }
    if (tl_desc_is(params->trainer.desc, &tl_progressive_trainer_config_desc))
        return &tl_progressive_trainer;
    return params->eval_tasks.count ? &tl_multi_eval_trainer : &tl_base_trainer;
}

/* --- looking ---------------------------------------------------------------------------------- */

int64_t tl_trainer_task_count(const tl_trainer *t)
{
    return t->parts->subjects.count;
}

tl_task *tl_trainer_task(const tl_trainer *t, int64_t index)
{
    const tli_subjects *all = &t->parts->subjects;
    return index >= 0 && index < all->count ? all->items[index].sub.task : NULL;
}

tl_status tl_trainer_task_steps(int64_t *out, const tl_trainer *t, const char *name)
{
    const tli_subjects *all = &t->parts->subjects;
    *out = 0;
    for (int64_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].sub.name, name) == 0) return tli_mix_drawn(out, all->mix, i);
    return TL_FAIL(TL_ENOTFOUND, "the trainer has no task '%s'", name);
}
