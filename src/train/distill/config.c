#include <tilth/train/distill/distillation.h>

#define STUDENTS .flags = TL_FIELD_QUIET, .help = "not used: it is the student's"
static const tl_field fields[] = {
    TL_F_AS(tl_distillation_config, base.init_checkpoint, "init_checkpoint",
            .flags = TL_FIELD_NULLABLE | TL_FIELD_QUIET, .help = "not used: it is the student's"),
    TL_F_OPTIONAL_AS(tl_distillation_config, base.train_data, "train_data", &tl_data_config_desc,
                     STUDENTS),
    TL_F_OPTIONAL_AS(tl_distillation_config, base.validation_data, "validation_data",
                     &tl_data_config_desc, STUDENTS),
    TL_F_AS(tl_distillation_config, base.allow_image_summary, "allow_image_summary", STUDENTS),
    TL_F(tl_distillation_config, student, .kind = &tl_kind_task,
         .help = "the task that is learned: a classifier, with its model and data"),
    TL_F(tl_distillation_config, teacher, .s = "", .flags = TL_FIELD_PATH,
         .help = "folder of the run, or of the export, whose answers are learned"),
    TL_F(tl_distillation_config, teacher_checkpoint, .s = "latest", .flags = TL_FIELD_PATH,
         .help = "latest, best, the path of a checkpoint, or its name in the folder"),
    TL_F(tl_distillation_config, temperature, .d = 4, TL_RANGE(0.01, 1000),
         .help = "logits of both are divided by it before they are compared: the higher, the more "
                 "the small answers count"),
    TL_F(tl_distillation_config, hard_weight, .d = 0.1, TL_AT_LEAST(0),
         .help = "how much the student's own loss counts, that of the labels"),
    TL_F(tl_distillation_config, soft_weight, .d = 0.9, TL_AT_LEAST(0),
         .help = "how much the distance from the teacher's answers counts"),
    TL_F_END,
};

static tl_status check(const void *value)
{
    const tl_distillation_config *c = value;
    const char *own = c->base.train_data                                    ? "train_data"
                      : c->base.validation_data                             ? "validation_data"
                      : c->base.init_checkpoint && *c->base.init_checkpoint ? "init_checkpoint"
                                                                            : NULL;
    if (own)
        return TL_FAIL(TL_EINVAL, "%s: it is the student's: set student.%s.%s", own,
                       c->student.type ? c->student.type : "TASK", own);
    if (c->hard_weight == 0 && c->soft_weight == 0)
        return TL_FAIL(TL_EINVAL,
                       "soft_weight: it is 0, and so is hard_weight: nothing is learned");
    return TL_OK;
}

const tl_desc tl_distillation_config_desc = {
    .name = "distillation",
    .help = "learns from the answers of a trained model, beside labels",
    .size = sizeof(tl_distillation_config),
    .fields = fields,
    .base = &tl_task_config_desc,
    .check = check,
};

const tl_experiment_class tl_distillation_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "distillation",
            .help = "a classifier that learns from a trained one: set task.student and "
                    "task.teacher"},
    .task = &tl_distillation_config_desc,
};
