#include <tilth/train/task.h>

static const tl_field privacy_fields[] = {
    TL_F(tl_differential_privacy_config, clipping_norm, .d = 1e8, TL_AT_LEAST(0),
         .help = "largest L2 norm of all gradients together"),
    TL_F(tl_differential_privacy_config, noise_multiplier, TL_AT_LEAST(0),
         .help = "noise that is added, in units of clipping_norm"),
    TL_F_END,
};
const tl_desc tl_differential_privacy_config_desc = {
    .name = "differential_privacy",
    .help = "clipped and noisy gradients",
    .size = sizeof(tl_differential_privacy_config),
    .fields = privacy_fields,
};

static const tl_field task_fields[] = {
    TL_F(tl_task_config, init_checkpoint, .s = "", .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "checkpoint, or a folder with some, from which the weights start when the model's "
                 "folder has none"),
    TL_F(tl_task_config, model, .flags = TL_FIELD_NULLABLE,
         .help = "the model; what it holds depends on the task"),
    TL_F_OPTIONAL(tl_task_config, train_data, &tl_data_config_desc, .set = true,
                  .help = "examples to train with"),
    TL_F_OPTIONAL(tl_task_config, validation_data, &tl_data_config_desc, .set = true,
                  .help = "examples to evaluate with"),
    TL_F(tl_task_config, name, .flags = TL_FIELD_NULLABLE,
         .help = "name of the task where there are several"),
    TL_F_OPTIONAL(tl_task_config, differential_privacy_config, &tl_differential_privacy_config_desc,
                  .flags = TL_FIELD_LATER,
                  .help = "clipped and noisy gradients; null for none; for clipping alone, set "
                          "global_clipnorm of the optimizer"),
    TL_F(tl_task_config, allow_image_summary,
         .help = "write images of predictions to the summaries, where the task has some"),
    TL_F_END,
};
const tl_desc tl_task_config_desc = {
    .name = "task",
    .help = "what is learned: model, data, losses and metrics",
    .size = sizeof(tl_task_config),
    .fields = task_fields,
};

const tl_kind tl_kind_task = {
    .name = "task",
    .plural = "tasks",
    .help = "what is learned: model, data, losses and metrics",
    .class_size = sizeof(tl_task_class),
    .config_base = &tl_task_config_desc,
    .config_required = true,
    .by_config = true,
    TL_INSTANCE(tl_task),
};

const tl_kind tl_kind_model = {
    .name = "model",
    .plural = "models",
    .help = "what tasks have in their section `model`, by the names that gin binds it under",
    .class_size = sizeof(tl_class),
    .config_required = true,
    .by_config = true,
    .names_are_keys = true,
};

tl_status tl_get_task_class(const tl_task_class **out, const tl_registry *registry,
                            const tl_object *task)
{
    *out = NULL;
    if (!task->desc || !task->value)
        return TL_FAIL(TL_EINVAL, "the experiment has no task (task is null)");
    const tl_class *cls;
    TL_TRY(tl_registry_find_by_config(&cls, registry, &tl_kind_task, task->desc));
    *out = (const tl_task_class *)cls;
    return TL_OK;
}
