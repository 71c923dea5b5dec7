#include <tilth/train/multitask/multitask.h>

#include <string.h>

static const tl_field routine_fields[] = {
    TL_F(tl_task_routine, task_name, .s = "",
         .help = "name of the task; empty for the one in task_config"),
    TL_F(tl_task_routine, task_config, .flags = TL_FIELD_NULLABLE,
         .help = "the task; which one it is, the experiment says"),
    TL_F(tl_task_routine, eval_steps, TL_AT_LEAST(-1),
         .help = "steps of its evaluation, -1 for all examples; null or 0 for as many as "
                 "trainer.validation_steps says"),
    TL_F(tl_task_routine, task_weight, .set = true, .d = 1, TL_AT_LEAST(0),
         .help = "how often it is drawn, or how much its loss counts, beside the others"),
    TL_F_END,
};
const tl_desc tl_task_routine_desc = {
    .name = "task_routine",
    .help = "one of several tasks",
    .size = sizeof(tl_task_routine),
    .fields = routine_fields,
};

/* What Model Garden's MultiTaskConfig lacks is not written while nobody sets it. */
#define LACKING .flags = TL_FIELD_QUIET
static const tl_field multi_task_fields[] = {
    TL_F_OPTIONAL_AS(tl_multi_task_config, base.train_data, "train_data", &tl_data_config_desc,
                     LACKING, .help = "not used: each task has data of its own"),
    TL_F_OPTIONAL_AS(tl_multi_task_config, base.validation_data, "validation_data",
                     &tl_data_config_desc, LACKING,
                     .help = "not used: each task has data of its own"),
    TL_F_AS(tl_multi_task_config, base.name, "name", .flags = TL_FIELD_NULLABLE | TL_FIELD_QUIET,
            .help = "name of all of it, in messages"),
    TL_F_AS(tl_multi_task_config, base.allow_image_summary, "allow_image_summary", LACKING,
            .help = "write images of predictions to the summaries, where a task has some"),
    TL_F(tl_multi_task_config, task_routines, .desc = &tl_task_routine_desc,
         .help = "the tasks, with their weights; which ones there are, the experiment says"),
    TL_F_END,
};

static tl_status check_multi_task(const void *value)
{
    const tl_task_config *c = value;
    if (!c->train_data && !c->validation_data) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s: the data of several tasks are those of each: set "
                   "task_routines[...].task_config.%s",
                   c->train_data ? "train_data" : "validation_data",
                   c->train_data ? "train_data" : "validation_data");
}

const tl_desc tl_multi_task_config_desc = {
    .name = "multi_task",
    .help = "several tasks that share a model",
    .size = sizeof(tl_multi_task_config),
    .fields = multi_task_fields,
    .base = &tl_task_config_desc,
    .check = check_multi_task,
};

static const tl_field proportional_fields[] = {
    TL_F(tl_proportional_sample_config, alpha, .d = 1,
         .help = "weights to this power are what is drawn by"),
    TL_F_END,
};
const tl_desc tl_proportional_sample_config_desc = {
    .name = "proportional_sampler",
    .help = "tasks by their weights",
    .size = sizeof(tl_proportional_sample_config),
    .fields = proportional_fields,
};

static const tl_field annealing_fields[] = {
    TL_F(tl_annealing_sample_config, steps_per_epoch, .i = 5, TL_AT_LEAST(1),
         .help = "steps after which the weights count less"),
    TL_F(tl_annealing_sample_config, total_steps, .i = 20, TL_AT_LEAST(1),
         .help = "steps after which they count to the power of 0.2"),
    TL_F_END,
};
const tl_desc tl_annealing_sample_config_desc = {
    .name = "annealing_sampler",
    .help = "tasks by their weights at first, and more evenly towards the end",
    .size = sizeof(tl_annealing_sample_config),
    .fields = annealing_fields,
};

static const tl_branch samplers[] = {
    {"uniform", NULL},
    {"proportional", &tl_proportional_sample_config_desc},
    {"annealing", &tl_annealing_sample_config_desc},
    {NULL, NULL},
};
static const char *const trainer_types[] = {
    [TL_TASKS_INTERLEAVING] = "interleaving",
    [TL_TASKS_JOINT] = "joint",
    NULL,
};
static const tl_field trainer_fields[] = {
    TL_F(tl_multi_task_trainer_config, trainer_type, .names = trainer_types,
         .help = "interleaving: each step has one task, which is drawn; joint: each has all, and "
                 "lowers the weighted sum of their losses"),
    TL_F(tl_multi_task_trainer_config, task_sampler, .s = "proportional", .branches = samplers,
         .help = "how tasks are drawn"),
    TL_F_END,
};
const tl_desc tl_multi_task_trainer_config_desc = {
    .name = "multi_task_trainer",
    .help = "how long and how often, and which task when",
    .size = sizeof(tl_multi_task_trainer_config),
    .fields = trainer_fields,
    .base = &tl_trainer_config_desc,
};

tl_status tl_task_routines_add(tl_task_routine **out, tl_structs *list, tl_arena *arena,
                               const char *task_name, const tl_desc *task_config)
{
    tl_task_routine *items = tl_arena_array(arena, list->count + 1, sizeof *items);
    *out = NULL;
    if (!items) return TL_ENOMEM;
    if (list->count) memcpy(items, list->items, (size_t)list->count * sizeof *items);
    tl_task_routine *r = &items[list->count];
    TL_TRY(tl_desc_defaults(arena, &tl_task_routine_desc, r));
    TL_TRY(tl_desc_new(&r->task_config.value, arena, task_config));
    r->task_config.desc = task_config;
    if (!(r->task_name = tl_arena_strdup(arena, task_name))) return TL_ENOMEM;
    *list = (tl_structs){items, list->count + 1};
    *out = r;
    return TL_OK;
}
