/* Opening the teacher: its weights come as evaluations have them (averages, the best checkpoint),
 * into a model on the student's engine. */
#include "train/distill/distill.h"

#include <string.h>

#include <tilth/base/crc32c.h>
#include <tilth/base/log.h>

static tl_status copy_weights(tl_model *to, const tl_model *from)
{
    tl_state *into = NULL, *weights = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_state_new(&into));
    TL_TRY_DONE(st, tl_state_new(&weights));
    TL_TRY_DONE(st, tl_model_state(to, into));
    TL_TRY_DONE(st, tl_model_state(from, weights));
    st = tl_state_copy(into, weights, NULL, NULL);
done:
    tl_state_free(&into);
    tl_state_free(&weights);
    return st;
}

static tl_status sum_up(uint32_t *out, const tl_model *m)
{
    *out = 0;
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        tl_lease l;
        TL_TRY(tl_lease_read(&l, p->tensor));
        *out = tl_crc32c(*out, l.data,
                         (size_t)tl_tensor_count(p->tensor) * tl_dtype_size(p->tensor->dtype));
        tl_lease_drop(&l);
    }
    return TL_OK;
}

/* A task on the engine of the student, whose configuration is that of the run. */
static tl_status build(tl_distillation *d)
{
    const tl_task *t = &d->base;
    tl_gin *outer = tl_gin_set_current(d->from.gin);
    tl_status st = tl_get_task(&d->teacher, &(tl_task_args){.registry = t->registry,
                                                            .config = &d->from.params->task,
                                                            .engine = t->engine,
                                                            .dtype = t->dtype,
                                                            .seed = t->seed,
                                                            .gin = d->from.gin});
    if (st == TL_OK) st = tl_task_build_model(d->teacher, &d->teacher_model);
    if (st == TL_OK) st = tl_model_set_trainable(d->teacher_model, "", false);
    tl_gin_set_current(outer);
    return st;
}

/* What each class is called, where both say it. */
static tl_status compare_classes(const tl_distillation *d)
{
    tl_answer_form student;
    const tl_strings theirs = d->from.classes;
    tl_task_answer_form(d->student, &student);
    for (int64_t i = 0; i < theirs.count && i < student.names.count; i++)
        if (strcmp(theirs.items[i], student.names.items[i]) != 0)
            return TL_FAIL(TL_EINVAL,
                           "class %lld is '%s', and '%s' for the student: both must have "
                           "the same classes in the same order",
                           (long long)i, theirs.items[i], student.names.items[i]);
    return TL_OK;
}

static tl_status open(tl_distillation *d, const tl_distillation_config *c)
{
    const tl_finished_args args = {
        .registry = (tl_registry *)(uintptr_t)d->base.registry, // it is asked, and not changed
        .folder = c->teacher,
        .checkpoint = c->teacher_checkpoint,
        .any_machine = true,
    };
    TL_TRY(tl_finished_open(&d->from, &args));
    TL_TRY(tli_distill_check(d->from.task, "the teacher"));
    TL_TRY(compare_classes(d));
    TL_TRY(build(d));
    TL_TRY(copy_weights(d->teacher_model, d->from.trainer->model));
    TL_TRY(sum_up(&d->teacher_sum, d->teacher_model));
    TL_LOG_INFO("the teacher is %s, step %lld", d->from.file,
                (long long)d->from.trainer->global_step);
    // its configuration stays, the rest was for its weights
    tl_trainer_free(&d->from.trainer);
    tl_task_free(&d->from.task);
    tl_strategy_free(&d->from.strategy);
    return TL_OK;
}

tl_status tli_distill_open(tl_distillation *d)
{
    const tl_distillation_config *c = (const tl_distillation_config *)d->base.config;
    if (d->teacher_model) return TL_OK;
    if (!*c->teacher)
        return TL_FAIL(TL_EINVAL, "task.teacher is empty: name the folder of a run that was "
                                  "trained before");
    return tl_error_note(open(d, c), "task.teacher: %s", c->teacher);
}

void tli_distill_close(tl_distillation *d)
{
    tl_model_free(&d->teacher_model);
    tl_task_free(&d->teacher);
    tl_finished_close(&d->from);
}
