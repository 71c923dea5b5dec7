/* The tasks of a trainer: their models, metrics and steps. */
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/reduce.h>

#include "train/trainer/trainer.h"

void tli_subjects_deinit(tli_subjects *all)
{
    for (int64_t i = 0; i < all->count; i++) {
        tli_subject *s = &all->items[i];
        tl_function_free(&s->eval);
        tli_lanes_deinit(&s->lanes);
        tli_guard_deinit(&s->guard);
        tl_metric_free(&s->train_loss);
        tl_metric_free(&s->validation_loss);
        tl_metrics_free(&s->train_metrics);
        tl_metrics_free(&s->validation_metrics);
        tl_dataset_free(&s->validation_dataset);
        if (s->owned) tl_task_free(&s->sub.task);
    }
    tl_free(all->items);
    *all = (tli_subjects){0};
}

tl_status tli_subjects_bind(tl_trainer *t)
{
    tli_subjects *all = &t->parts->subjects;
    bool parted = tl_model_part_count(t->model) > 0;
    for (int64_t i = 0; i < all->count; i++) {
        tli_subject *s = &all->items[i];
        s->model = parted ? tl_model_part(t->model, s->sub.name) : t->model;
        if (!s->model)
            return TL_FAIL(TL_ENOTFOUND,
                           "the model has no part '%s' for the task of that name (tl_scope_part)",
                           s->sub.name);
    }
    return TL_OK;
}

static tl_status build_metrics(const tl_trainer *t, const tli_subject *s, bool training,
                               tl_metrics **metrics, tl_metric **loss)
{
    TL_TRY(tl_metrics_new(metrics, t->engine));
    TL_TRY(tl_task_build_metrics(s->sub.task, training, *metrics));
    return tl_metric_new(loss, t->engine, &tl_metric_mean, NULL,
                         training ? "training_loss" : "validation_loss");
}

tl_status tli_subjects_build_train(tl_trainer *t)
{
    tli_subjects *all = &t->parts->subjects;
    for (int64_t i = 0; i < all->count; i++) {
        tli_subject *s = &all->items[i];
        TL_TRY_NOTE(build_metrics(t, s, true, &s->train_metrics, &s->train_loss), "task '%s'",
                    s->sub.name);
    }
    return TL_OK;
}

static tl_status build_evaluate(tl_trainer *t, tli_subject *s)
{
    const tl_task_config *config = s->sub.task->config;
    tl_input_context input = {
        .pipelines = 1, .replicas = tl_strategy_replicas(t->strategy), .seed = t->seed};
    TL_TRY(build_metrics(t, s, false, &s->validation_metrics, &s->validation_loss));
    TL_TRY(tli_trainer_lanes_of_metrics(t, &s->lanes, &s->guard, s->validation_metrics,
                                        s->validation_loss));
    if (!config || !config->validation_data)
        return TL_FAIL(TL_EINVAL,
                       "there is nothing to evaluate with: task_config.validation_data is null");
    TL_TRY(
        tl_task_build_inputs(s->sub.task, config->validation_data, &input, &s->validation_dataset));
    return tli_trainer_feed(t, &s->validation_dataset, 1);
}

tl_status tli_subjects_build_evaluate(tl_trainer *t)
{
    tli_subjects *all = &t->parts->subjects;
    for (int64_t i = 0; i < all->count; i++)
        TL_TRY_NOTE(build_evaluate(t, &all->items[i]), "task '%s'", all->items[i].sub.name);
    return TL_OK;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* For who only looks at a step, nothing is measured. */
static tl_step_task *step_tasks(const tl_trainer *t, const tl_step *s)
{
    const tli_subjects *all = &t->parts->subjects;
    tl_step_task *tasks = tl_arena_array(tl_ctx_arena(s->ctx), all->count, sizeof *tasks);
    for (int64_t i = 0; tasks && i < all->count; i++) {
        const tli_subject *one = &all->items[i];
        tasks[i] = (tl_step_task){.name = one->sub.name,
                                  .task = one->sub.task,
                                  .model = one->model,
                                  .metrics = s->metrics ? one->train_metrics : NULL,
                                  .loss = s->metrics ? one->train_loss : NULL,
                                  .weight = one->sub.weight};
    }
    return tasks;
}

/* The one whose batch it is. */
static tl_status train_one(tl_step *s)
{
    tl_batch batch;
    tl_step sub;
    int64_t which = 0;
    while (which < s->task_count && !tl_step_enter(&sub, &batch, s, which)) which++;
    TL_TRY(tl_ctx_status(s->ctx));
    if (which == s->task_count)
        return TL_FAIL(TL_EINVAL, "the batch is none of the tasks': its fields must begin with the "
                                  "name of one and a '/'");
    const tl_step_task *k = &s->tasks[which];
    TL_TRY_NOTE(tl_task_train_step(k->task, &sub), "task '%s'", k->name);
    s->weight = sub.weight;
    s->losses = sub.losses;
    tl_tensor *loss = tl_tensors_peek(s->logs, TL_LOSS);
    if (loss) tl_step_tell_loss(&sub, k, tl_mean(s->ctx, loss, TL_ALL, false));
    return tl_ctx_status(s->ctx);
}

const tli_subject *tli_subjects_of_batch(const tl_trainer *t, const tl_tensors *batch)
{
    const tli_subjects *all = &t->parts->subjects;
    const char *field = batch->count ? batch->items[0].name : "";
    if (!all->trained || !tl_class_is(&t->cls->cls, &tl_interleaving_trainer.cls)) return NULL;
    for (int64_t i = 0; i < all->count; i++) {
        const char *name = all->items[i].sub.name;
        size_t length = strlen(name);
        if (strncmp(field, name, length) == 0 && (!field[length] || field[length] == '/'))
            return &all->items[i];
    }
    return NULL;
}

tl_status tli_subjects_train_step(tl_trainer *t, tl_step *s)
{
    const bool joint = !tl_class_is(&t->cls->cls, &tl_interleaving_trainer.cls);
    s->tasks = step_tasks(t, s);
    if (!s->tasks) return TL_ENOMEM;
    s->task_count = t->parts->subjects.count;
    tl_model_begin_calls(s->ctx, t->model);
    return joint ? tl_task_train_step(t->task, s) : train_one(s);
}
