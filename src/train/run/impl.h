/* Private to train: runs from inside.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_RUN_IMPL_H
#define TLI_TRAIN_RUN_IMPL_H

#include <tilth/train/run/run.h>

#include "train/run/folder.h"

/* tl_run_experiment in a folder that stays held, and claimed, after it: for who runs several. */
TL_NODISCARD tl_status tli_run_experiment_in(tl_run_result *out, const tl_run_args *args,
                                             tli_run_folder *folder);

/* A few steps and one batch evaluated, with tl_run_args.keep_nothing; `logs` are what TL_TRIAL_
 * names. */
TL_NODISCARD tl_status tli_run_trial(tl_runner *r, tl_logs *logs);

#endif
