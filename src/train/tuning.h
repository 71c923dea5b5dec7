/* Private to train: which weights an experiment trains when, and at what rate (tilth.unfreeze,
 * tilth.layer_decay).
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_TUNING_H
#define TLI_TRAIN_TUNING_H

#include <tilth/train/task.h>

/* The groups of the task's model, with what the section `tilth` says of its parameters; they stay
 * as they are when it says nothing. In the task's arena. */
TL_NODISCARD tl_status tli_tuning_groups(const tl_group_config **groups, int64_t *count, tl_task *t,
                                         const tl_model *m);
/* Says how much of the model is trained from this step on. */
void tli_tuning_tell(const tl_model *m, int64_t step);

#endif
