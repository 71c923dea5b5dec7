#include <tilth/train/progressive/progressive.h>

static const tl_field stage_fields[] = {
    TL_F(tl_stage_config, num_steps, TL_AT_LEAST(1), .flags = TL_FIELD_REQUIRED,
         .help = "steps of the stage; it ends with the loop that reaches them"),
    TL_F(tl_stage_config, task, .accept = TL_ACCEPT_MAP, .flags = TL_FIELD_NULLABLE,
         .help = "what differs from the section `task` in this stage"),
    TL_F(tl_stage_config, optimizer_config, .accept = TL_ACCEPT_MAP, .flags = TL_FIELD_NULLABLE,
         .help = "what differs from trainer.optimizer_config in this stage"),
    TL_F_END,
};
const tl_desc tl_stage_config_desc = {
    .name = "stage",
    .help = "a stage of a training",
    .size = sizeof(tl_stage_config),
    .fields = stage_fields,
};

static const tl_field progressive_fields[] = {
    TL_F(tl_progressive_config, stages, .desc = &tl_stage_config_desc,
         .help = "the stages, in their order"),
    TL_F_END,
};
static tl_status check_progressive(const void *value)
{
    const tl_progressive_config *p = value;
    if (p->stages.count) return TL_OK;
    return TL_FAIL(TL_EINVAL, "stages: there must be at least one");
}
const tl_desc tl_progressive_config_desc = {
    .name = "progressive",
    .help = "a training in stages",
    .size = sizeof(tl_progressive_config),
    .fields = progressive_fields,
    .check = check_progressive,
};

static const tl_field trainer_fields[] = {
    TL_F_OPTIONAL(tl_progressive_trainer_config, progressive, &tl_progressive_config_desc,
                  .help = "the stages; null where the task has them"),
    TL_F(tl_progressive_trainer_config, export_checkpoint, .b = true,
         .help = "write plain checkpoints, without stages, to exported_ckpts in the model's "
                 "folder"),
    TL_F(tl_progressive_trainer_config, export_checkpoint_interval, TL_AT_LEAST(1),
         .help = "steps between two of them; null for checkpoint_interval"),
    TL_F(tl_progressive_trainer_config, export_max_to_keep, TL_AT_LEAST(1),
         .help = "newest of them that are kept; null for max_to_keep"),
    TL_F(tl_progressive_trainer_config, export_only_final_stage_ckpt, .b = true,
         .help = "write them in the last stage alone"),
    TL_F_END,
};
const tl_desc tl_progressive_trainer_config_desc = {
    .name = "progressive_trainer",
    .help = "how long and how often, in stages",
    .size = sizeof(tl_progressive_trainer_config),
    .fields = trainer_fields,
    .base = &tl_trainer_config_desc,
};
