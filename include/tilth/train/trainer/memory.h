/* Memory that a process of a training takes for tensors: as it is, and as it will be in another
 * number of processes.
 *
 *     TL_TRY(tl_trainer_train(trainer, 1, logs));                    // programs are there
 *     tl_training_memory one;
 *     const tl_optimizer_sharing how = {.ranks = 4, .level = 2, .common = true};
 *     tl_trainer_plan_memory(trainer, &how, &one);
 *
 * Both are of the time between two steps, when sums of gradients that are divided (tilth.zero=2)
 * are not there for others' parts; while a step computes gradients, a process has all of them
 * (`in_step`). Of memory that processes of a machine have in common each counts its part. What is
 * no tensor, such as code and what readers of data hold, is not counted.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_MEMORY_H
#define TILTH_TRAIN_MEMORY_H

#include <tilth/train/trainer/trainer.h>

TL_BEGIN

/* Bytes. */
typedef struct tl_training_memory {
    double weights, slots; /* of the model's blocks, and what the optimizer keeps of them */
    double sums;           /* of gradients, also of lanes that wait for others */
    double rest;           /* what steps compute in, batches, metrics */
    double total;          /* of these */
    double in_step;        /* while gradients are computed */
} tl_training_memory;

/* After a step. The trainer is of one process that carries all lanes: it is what there will be, but
 * for what processes share out, and for sums of the lanes that others carry. */
TL_API void tl_trainer_plan_memory(const tl_trainer *t, const tl_optimizer_sharing *how,
                                   tl_training_memory *out);
/* What this process has now, by the count of those who handed it out; on any number of
 * processes. */
TL_API double tl_trainer_memory(const tl_trainer *t);

TL_END

#endif
