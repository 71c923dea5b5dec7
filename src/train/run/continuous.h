/* Private to train: fine-tuning of whatever checkpoint a pre-training saves, one after the other
 * (Model Garden's continuous_train_and_eval).
 *
 * A round is a training from one of them. The folder has its ckpt-* while it lasts, and
 * pretraining.json, which says whose they are; metrics-STEP.json, written last, says that the round
 * of that pre-training step is done. So a run that was killed goes on in its round, and does no
 * round twice.
 *
 * Thread word: one run at a time in a process. */
#ifndef TLI_TRAIN_RUN_CONTINUOUS_H
#define TLI_TRAIN_RUN_CONTINUOUS_H

#include <tilth/train/run/launch.h>

#include "train/run/folder.h"

#define TLI_CONTINUOUS_MODE "continuous_train_and_eval"

/* One run of the experiment `run->params`, in a folder that may be held already (NULL: it is not).
 * `world` NULL: one process. In launch.c. */
TL_NODISCARD tl_status tli_launch_run(tl_logs *logs, tl_run_args *run, const tl_registry *registry,
                                      tli_run_folder *folder, tl_world *world);
/* All rounds; `logs` are of the last one. */
TL_NODISCARD tl_status tli_launch_rounds(tl_logs *logs, const tl_run_args *run,
                                         const tl_launch_args *args);

#endif
