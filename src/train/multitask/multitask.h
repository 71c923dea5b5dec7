/* Private to train: what trainers of several tasks, and of one task that evaluate several, share.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_MULTITASK_H
#define TLI_TRAIN_MULTITASK_H

#include <tilth/train/multitask/multitask.h>

#include "train/trainer/lanes.h"

/* Under which joint training tells the sum. */
#define TLI_TOTAL_LOSS "total_loss"

/* The task of a routine, with engine, registry and seed of another one. out->task is to be freed
 * also after a failure. */
TL_NODISCARD tl_status tli_sub_task_new(tl_sub_task *out, const tl_task_routine *r,
                                        const tl_task *beside);

/* Batches of several tasks, each field with the name of its task before it: "kind/image". */
typedef struct tli_mix_args {
    const tl_multi_task *tasks;
    const tl_input_context *input;
    const tl_oneof *sampler; /* must outlive it; NULL: a batch of each task every time */
    int64_t each;            /* batches of a step, which are one task's */
} tli_mix_args;
TL_NODISCARD tl_status tli_mix_new(tl_dataset **out, const tli_mix_args *args);
/* Says that so many steps were done, where the position is not known: data of all tasks begin
 * anew. */
void tli_mix_set_step(tl_dataset *mix, int64_t step);
/* How often a task was drawn before the next batch. */
TL_NODISCARD tl_status tli_mix_drawn(int64_t *out, const tl_dataset *mix, int64_t task);

/* --- the tasks of a trainer (subjects.c) ------------------------------------------------------ */

/* One of the tasks that a trainer trains or evaluates. */
typedef struct tli_subject {
    tl_trainer *trainer;
    tl_sub_task sub;
    bool owned;      /* the task is the trainer's */
    tl_model *model; /* a part of the trainer's, or all of it */
    tl_metrics *train_metrics, *validation_metrics;
    tl_metric *train_loss, *validation_loss;
    tl_dataset *validation_dataset;
    tl_function *eval; /* NULL: eager */
    tli_lanes lanes;   /* of its evaluations, with what they keep */
    tli_guard guard;
    bool told_loss;   /* in the evaluation that runs */
    void *state;      /* of its aggregate_logs */
    tli_peers *peers; /* whose logs the chief aggregates; NULL: nobody's */
    tl_str packed;    /* what this process brings it */
} tli_subject;

typedef struct tli_subjects {
    tli_subject *items;
    int64_t count;
    bool trained;    /* they are what is trained; else they are only evaluated */
    tl_dataset *mix; /* where they are: of the trainer's dataset; borrowed */
} tli_subjects;

void tli_subjects_deinit(tli_subjects *s);
/* Finds their models in the trainer's. */
TL_NODISCARD tl_status tli_subjects_bind(tl_trainer *t);
TL_NODISCARD tl_status tli_subjects_build_train(tl_trainer *t);
TL_NODISCARD tl_status tli_subjects_build_evaluate(tl_trainer *t);
/* Of interleaved tasks the one whose batch it is; NULL: the batch is of all. */
const tli_subject *tli_subjects_of_batch(const tl_trainer *t, const tl_tensors *batch);
/* One step of those that are trained, or of the one whose batch it is. */
TL_NODISCARD tl_status tli_subjects_train_step(tl_trainer *t, tl_step *s);
tl_graph_fn tli_subject_eval_body;

/* What an experiment is trained by when nobody names a class; NULL is no experiment. */
const tl_trainer_class *tli_usual_trainer(const tl_experiment_config *params);

/* Methods of trainers. */
TL_NODISCARD tl_status tli_subjects_evaluate(tl_trainer *t, int64_t steps, tl_logs *logs);

#endif
