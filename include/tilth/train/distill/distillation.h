/* Distillation: a task that learns from the answers of a trained model beside its labels. It wraps
 * another task, the student's, whatever that is: model, data, metrics and predictions are its own.
 *
 *     task:
 *       student:
 *         type: image_classification
 *         image_classification: {model: {...}, train_data: {...}, validation_data: {...}}
 *       teacher: runs/large                  # a run, or what `tilth export` wrote
 *       temperature: 4.0
 *
 * A step lowers
 *
 *     hard_weight loss(labels) + soft_weight T^2 sum p log(p / q),
 *     p = softmax(teacher's logits / T), q = softmax(student's logits / T).
 *
 * The student is a classifier: its first output are logits, and its step is that of all tasks. The
 * teacher may be of any such task; it is given the student's batches, and gives as many classes.
 *
 * The teacher is only read: nothing of it is trained, moved (running statistics) or kept in
 * checkpoints. It is opened when a training begins. Which weights it had stands in the run's folder
 * (teacher.txt): a run that goes on with another teacher is refused.
 *
 * Ownership: the task's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_DISTILLATION_H
#define TILTH_TRAIN_DISTILLATION_H

#include <tilth/train/run/finished.h>

TL_BEGIN

typedef struct tl_distillation_config {
    tl_task_config base; /* not used: model, data and init_checkpoint are the student's */
    tl_oneof student;    /* of tl_kind_task */
    const char *teacher; /* a folder that tl_finished_open takes */
    const char *teacher_checkpoint;  /* as in tl_finished_args: latest */
    double temperature;              /* 4 */
    double hard_weight, soft_weight; /* 0.1, 0.9 */
} tl_distillation_config;
TL_API extern const tl_desc tl_distillation_config_desc;

/* First member of what derives from it. Members are for reading. */
typedef struct tl_distillation {
    tl_task base;
    tl_task *student;
    tl_finished from; /* whom the teacher was opened of; its configuration stays */
    tl_task *teacher; /* NULL, as its model: nothing was trained yet */
    tl_model *teacher_model;
    uint32_t teacher_sum; /* of its weights */
} tl_distillation;
TL_API extern const tl_task_class tl_distillation_task;
TL_API extern const tl_experiment_class tl_distillation_experiment;

/* sum p log(p / q) over the last axis, one value an example; gradients flow to the student's logits
 * alone. */
TL_API tl_tensor *tl_distillation_loss(tl_ctx *c, tl_tensor *teacher, tl_tensor *student,
                                       double temperature);

TL_END

#endif
