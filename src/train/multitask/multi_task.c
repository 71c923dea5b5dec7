/* The task that several tasks are together. */
#include <tilth/train/multitask/multitask.h>

#include <string.h>

#include <tilth/base/log.h>
#include <tilth/base/str.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

#include "train/multitask/multitask.h"

/* --- making ----------------------------------------------------------------------------------- */

/* It names a layer, a folder, and a part of what is told. */
static tl_status check_name(const tl_multi_task *m, int64_t index, const char *name)
{
    if (!*name || strchr(name, '/') || strchr(name, '|') || *name == '.')
        return TL_FAIL(TL_EINVAL, "'%s' cannot name a task: it must be there, hold no '/' and no "
                                  "'|', and not begin with a dot", name);
    if (strcmp(name, TLI_TOTAL_LOSS) == 0)
        return TL_FAIL(TL_EINVAL, "'%s' cannot name a task: it is the sum of all", name);
    for (int64_t i = 0; i < index; i++)
        if (strcmp(m->tasks[i].name, name) == 0)
            return TL_FAIL(TL_EEXISTS, "there are two tasks '%s': give each a task_name of its own",
                           name);
    return TL_OK;
}

tl_status tli_sub_task_new(tl_sub_task *out, const tl_task_routine *r, const tl_task *beside)
{
    *out = (tl_sub_task){.weight = r->task_weight.set ? r->task_weight.value : 1,
                         .eval_steps = r->eval_steps.set ? r->eval_steps.value : 0};
    if (!r->task_config.value || !r->task_config.desc)
        return TL_FAIL(TL_EINVAL,
                       "task_config is null. Which tasks there are, the experiment says; a list in "
                       "YAML must be as long as its own");
    TL_TRY(tl_get_task(&out->task, &(tl_task_args){.registry = beside->registry,
                                                   .config = &r->task_config,
                                                   .name = r->task_name,
                                                   .logging_dir = beside->logging_dir,
                                                   .engine = beside->engine,
                                                   .dtype = beside->dtype,
                                                   .seed = beside->seed,
                                                   .gin = beside->gin}));
    out->name = out->task->name;
    return TL_OK;
}

static tl_status start(tl_task *t)
{
    tl_multi_task *m = (tl_multi_task *)t;
    const tl_structs *list = &((const tl_multi_task_config *)t->config)->task_routines;
    const tl_task_routine *routines = list->items;
    if (!list->count)
        return TL_FAIL(TL_EINVAL, "task.task_routines is empty: there is nothing to learn");
    m->tasks = tl_arena_array(t->arena, list->count, sizeof *m->tasks);
    if (!m->tasks) return TL_ENOMEM;
    for (int64_t i = 0; i < list->count; i++) {
        tl_sub_task *sub = &m->tasks[m->count++];
        TL_TRY_NOTE(tli_sub_task_new(sub, &routines[i], t), "task.task_routines[%lld]",
                    (long long)i);
        TL_TRY_NOTE(check_name(m, i, sub->name), "task.task_routines[%lld]", (long long)i);
    }
    return TL_OK;
}

static void dispose(tl_task *t)
{
    tl_multi_task *m = (tl_multi_task *)t;
    for (int64_t i = 0; i < m->count; i++) tl_task_free(&m->tasks[i].task);
}

static tl_status build_model(tl_task *t, tl_model **out)
{
    *out = NULL;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "the task '%s' builds no model: what derives from multi_task has a build_model, "
                   "whose model has a part (tl_scope_part) for each task, or serves them all",
                   t->name);
}

static tl_status notes(tl_task *t, tl_notes *into)
{
    (void)t, (void)into; // names of classes and the like are those of one task, and would be mixed
    return TL_OK;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* "kind/" of "kind/image", of this task. */
static const char *below(const char *field, const char *task)
{
    size_t length = strlen(task);
    return strncmp(field, task, length) == 0 && field[length] == '/' ? field + length + 1 : NULL;
}

bool tl_step_enter(tl_step *out, tl_batch *batch, tl_step *s, int64_t index)
{
    const tl_step_task *k = &s->tasks[index];
    *batch = (tl_batch){.ctx = s->ctx};
    for (int64_t i = 0; i < s->batch->tensors.count; i++) {
        const tl_named *f = &s->batch->tensors.items[i];
        const char *name = below(f->name, k->name);
        if (name) tl_tensors_put(s->ctx, &batch->tensors, name, f->tensor);
    }
    *out = (tl_step){.ctx = s->ctx,
                     .task = k->task,
                     .model = k->model,
                     .optimizer = s->optimizer,
                     .batch = batch,
                     .metrics = k->metrics,
                     .logs = s->logs,
                     .replica = s->replica,
                     .replicas = s->replicas};
    return batch->tensors.count > 0;
}

void tl_step_tell_loss(const tl_step *s, const tl_step_task *k, tl_tensor *loss)
{
    if (!k->loss || !loss) return;
    bool taping = tl_ctx_set_taping(s->ctx, false);
    // A loss that is not finite does not count: the update is left out too.
    tl_tensor *counts = tl_cast(s->ctx, tl_isfinite(s->ctx, loss), TL_F32);
    if (s->weight) counts = tl_mul(s->ctx, counts, tl_cast(s->ctx, s->weight, TL_F32));
    tl_metric_update_value(k->loss, s->ctx, loss, counts);
    tl_ctx_set_taping(s->ctx, taping);
}

static tl_status add_task(tl_step *s, int64_t index, tl_tensor **total)
{
    const tl_step_task *k = &s->tasks[index];
    tl_batch batch;
    tl_step sub;
    tl_tensors outputs = {0};
    if (!tl_step_enter(&sub, &batch, s, index))
        return TL_FAIL(TL_EINVAL, "the batch has nothing of the task '%s'", k->name);
    const tl_batch_parts *in = tl_step_parts(&sub);
    TL_TRY(tl_ctx_status(s->ctx));
    tl_step_forward_all(&sub, &in->features, &outputs);
    TL_TRY(tl_ctx_status(s->ctx));
    tl_tensor *losses = tl_task_build_losses(k->task, s->ctx, &in->labels, &outputs, NULL);
    tl_tensor *loss = tl_step_mean(&sub, losses, in->weight);
    tl_step_tell_loss(&sub, k, loss);
    tl_task_process_metrics(k->task, &sub, &in->labels, &outputs);
    TL_TRY(tl_ctx_status(s->ctx));
    if (loss) loss = tl_scale(s->ctx, tl_cast(s->ctx, loss, TL_F32), k->weight);
    *total = *total ? tl_add(s->ctx, *total, loss) : loss;
    return tl_ctx_status(s->ctx);
}

static void warn_of_regularizers(const tl_model *m)
{
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        if (!tl_model_param(m, i)->regularizer.type) continue;
        TL_LOG_ONCE(TL_LEVEL_WARNING,
                    "trainer.trainer_type is joint: as in Model Garden, what weights cost "
                    "(l2_weight_decay) is left out of the loss. Set weight_decay of the optimizer, "
                    "or interleave the tasks");
        return;
    }
}

static tl_status joint_train_step(tl_task *t, tl_step *s)
{
    tl_tensor *total = NULL;
    if (!s->task_count)
        return TL_FAIL(TL_ESTATE,
                       "the task '%s' is several tasks: a trainer of several tasks trains it "
                       "(trainer: tl_multi_task_trainer_config in its experiment)",
                       t->name);
    warn_of_regularizers(s->model);
    for (int64_t i = 0; i < s->task_count; i++)
        TL_TRY_NOTE(add_task(s, i, &total), "task '%s'", s->tasks[i].name);
    s->has_aux = true; // they are left out
    tl_step_minimize(s, total, NULL);
    return tl_ctx_status(s->ctx);
}

static tl_status validation_step(tl_task *t, tl_step *s)
{
    (void)s;
    return TL_FAIL(TL_ESTATE, "the task '%s' is several tasks, which are evaluated one by one",
                   t->name);
}

const tl_task_class tl_multi_task_class = {
    .cls = {.class_size = sizeof(tl_task_class),
            .name = "multi_task",
            .base = &tl_base_task.cls,
            .size = sizeof(tl_multi_task),
            .config = &tl_multi_task_config_desc,
            .help = "several tasks that share a model"},
    .start = start,
    .dispose = dispose,
    .build_model = build_model,
    .train_step = joint_train_step,
    .validation_step = validation_step,
    .notes = notes,
};
