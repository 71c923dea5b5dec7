/* The policy of a configuration: each stage is the experiment with some changes. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>

#include "train/trainer/trainer.h"

/* --- the experiment in each stage ------------------------------------------------------------- */

/* {key: value}; NULL when there is no memory. */
static const tl_value *map_of(tl_arena *arena, tl_place place, const char *key,
                              const tl_value *value)
{
    const tl_value_pair pair = {.key = key, .place = place, .value = value};
    return value ? tl_value_new_map(arena, place, &pair, 1) : NULL;
}

static tl_status change(tl_config *c, const tl_stage_config *stage)
{
    tl_arena *arena = tl_config_arena(c);
    if (stage->task && !tl_value_is_null(stage->task)) {
        const tl_value *v = map_of(arena, stage->task->place, "task", stage->task);
        if (!v) return TL_ENOMEM;
        TL_TRY(tl_config_apply(c, v));
    }
    if (!stage->optimizer_config || tl_value_is_null(stage->optimizer_config)) return TL_OK;
    tl_place place = stage->optimizer_config->place;
    const tl_value *v = map_of(arena, place, "trainer",
                               map_of(arena, place, "optimizer_config", stage->optimizer_config));
    return v ? tl_config_apply(c, v) : TL_ENOMEM;
}

/* Weights are read once, before the first step. */
static tl_status check_begin(const tl_experiment_config *first, const tl_experiment_config *stage)
{
    const tl_task_config *a = first->task.value, *b = stage->task.value;
    if (!b->init_checkpoint || !*b->init_checkpoint
        || (a->init_checkpoint && strcmp(a->init_checkpoint, b->init_checkpoint) == 0))
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "task.init_checkpoint is '%s': only the first stage can begin with a "
                   "checkpoint, this one takes its weights from the stage before. Set it in "
                   "stages[0] or in the section `task`",
                   b->init_checkpoint);
}

static tl_status open_stage(tli_stage *out, tl_trainer *t, const tl_stage_config *stage)
{
    const tl_task *first = t->task;
    TL_TRY(tl_config_new(&out->config, first->registry, &tl_experiment_config_desc));
    TL_TRY(tl_desc_copy(tl_config_arena(out->config), &tl_experiment_config_desc,
                        tl_config_edit(out->config), t->config));
    TL_TRY(change(out->config, stage));
    TL_TRY(tl_config_finish(out->config));
    out->params = tl_config_value(out->config);
    return tl_get_task(&out->task, &(tl_task_args){.registry = first->registry,
                                                   .config = &out->params->task,
                                                   .name = first->name,
                                                   .logging_dir = first->logging_dir,
                                                   .engine = first->engine,
                                                   .dtype = first->dtype,
                                                   .seed = first->seed,
                                                   .gin = first->gin,
                                                   .own = &out->params->tilth});
}

tl_status tli_stages_open(tl_trainer *t, const tl_progressive_config *config)
{
    tli_stages *s = &t->parts->stages;
    const tl_stage_config *stages = config->stages.items;
    size_t bytes = (size_t)config->stages.count * sizeof *s->items;
    if (!(s->items = tl_alloc_zero(bytes))) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = 0; i < config->stages.count; i++) {
        s->count = i + 1;
        TL_TRY_NOTE(open_stage(&s->items[i], t, &stages[i]),
                    "trainer.progressive.stages[%" PRId64 "]", i);
        TL_TRY_NOTE(check_begin(s->items[0].params, s->items[i].params),
                    "trainer.progressive.stages[%" PRId64 "]", i);
    }
    return TL_OK;
}

void tli_stages_close(tli_stages *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        tl_task_free(&s->items[i].task);
        tl_config_free(&s->items[i].config);
    }
    tl_free(s->items);
    s->items = NULL;
    s->count = 0;
}

/* --- the policy ------------------------------------------------------------------------------- */

static int64_t num_stages(const tl_trainer *t)
{
    return t->parts->stages.count;
}

static int64_t num_steps(const tl_trainer *t, int64_t stage)
{
    const tl_progressive_trainer_config *c = t->config->trainer.value;
    return ((const tl_stage_config *)c->progressive->stages.items)[stage].num_steps;
}

static tl_task *get_task(tl_trainer *t, int64_t stage)
{
    return t->parts->stages.items[stage].task;
}

static tl_status get_model(tl_trainer *t, int64_t stage, tl_model *old, tl_model **out)
{
    int64_t count = 0;
    TL_TRY(tl_task_build_model(get_task(t, stage), out));
    if (!old) return TL_OK;
    tl_status st = tl_model_take_over(*out, old, &count);
    if (st != TL_OK) {
        tl_model_free(out);
        return st;
    }
    TL_LOG_INFO("stage %" PRId64 ": %" PRId64 " of %" PRId64
                " weights are those of the stage before; the others are new",
                stage, count, tl_model_param_count(*out));
    return TL_OK;
}

static tl_status get_optimizer(tl_trainer *t, int64_t stage, tl_model *m, tl_optimizer **out)
{
    const tl_experiment_config *e = t->parts->stages.items[stage].params;
    const tl_trainer_config *trainer = e->trainer.value;
    return tl_task_create_optimizer(get_task(t, stage), m, &trainer->optimizer_config, &e->runtime,
                                    out);
}

/* Data depend on nothing but the section `task`. The stage before is not always the one with the
 * number before: a loop may reach over a whole stage. */
static bool is_as_before(const tl_trainer *t, int64_t stage)
{
    const tli_stages *s = &t->parts->stages;
    const tl_object *a = &s->items[s->stage].params->task, *b = &s->items[stage].params->task;
    return a->desc == b->desc && tl_desc_equal(a->desc, a->value, b->value);
}

static tl_status get_dataset(tl_trainer *t, int64_t stage, const tl_input_context *input,
                             tl_dataset *old, bool training, tl_dataset **out)
{
    tl_task *task = get_task(t, stage);
    const tl_data_config *data =
        training ? task->config->train_data : task->config->validation_data;
    *out = old;
    if (old && is_as_before(t, stage)) return TL_OK;
    *out = NULL;
    if (!data)
        return TL_FAIL(
            TL_EINVAL, "there is nothing to %s with in stage %" PRId64 ": task.%s is null",
            training ? "train" : "evaluate", stage, training ? "train_data" : "validation_data");
    return tl_task_build_inputs(task, data, input, out);
}

static tl_status get_train_dataset(tl_trainer *t, int64_t stage, const tl_input_context *input,
                                   tl_dataset *old, tl_dataset **out)
{
    return get_dataset(t, stage, input, old, true, out);
}

static tl_status get_eval_dataset(tl_trainer *t, int64_t stage, const tl_input_context *input,
                                  tl_dataset *old, tl_dataset **out)
{
    return get_dataset(t, stage, input, old, false, out);
}

const tl_progressive_policy tli_staged_policy = {
    .num_stages = num_stages,
    .num_steps = num_steps,
    .get_model = get_model,
    .get_optimizer = get_optimizer,
    .get_train_dataset = get_train_dataset,
    .get_eval_dataset = get_eval_dataset,
    .get_task = get_task,
};

/* --- weights of another model ----------------------------------------------------------------- */

static bool is_like(const tl_tensor *a, const tl_tensor *b)
{
    return a->dtype == b->dtype && tl_shape_equal(&a->shape, &b->shape);
}

/* NULL: it cannot be made to fit. */
static tl_tensor *fitted(tl_ctx *c, const tl_param *p, tl_tensor *found)
{
    const tl_layer_class *with = TL_CLASS_METHOD(tl_layer_class, p->layer->cls, fit);
    const char *name = strrchr(p->path, '/');
    tl_tensor *value = with ? with->fit(p->layer, c, name ? name + 1 : p->path, found) : NULL;
    if (value && is_like(value, p->tensor)) return value;
    tl_error_clear();
    return NULL;
}

tl_status tl_model_take_over(tl_model *to, const tl_model *from, int64_t *count)
{
    int64_t taken = 0;
    tl_ctx *c;
    tl_status st = TL_OK;
    TL_TRY(tl_ctx_new(&c, tl_tensor_engine(tl_model_param(to, 0)->tensor)));
    for (int64_t i = 0; i < tl_model_param_count(to) && st == TL_OK; i++) {
        const tl_param *p = tl_model_param(to, i), *old = tl_model_find(from, p->path);
        tl_mark mark = tl_ctx_begin(c);
        tl_tensor *value = old ? old->tensor : NULL;
        if (value && !is_like(value, p->tensor)) value = fitted(c, p, value);
        if (value) st = tl_tensor_copy(p->tensor, value);
        taken += value != NULL;
        tl_ctx_end(c, mark);
    }
    tl_ctx_free(&c);
    if (count) *count = taken;
    return st;
}
