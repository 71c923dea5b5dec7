/* Private to train: runs from inside.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_RUN_IMPL_H
#define TLI_TRAIN_RUN_IMPL_H

#include <tilth/train/run/run.h>

/* A few steps and one batch evaluated, with tl_run_args.keep_nothing; `logs` are what TL_TRIAL_
 * names. */
TL_NODISCARD tl_status tli_run_trial(tl_runner *r, tl_logs *logs);

#endif
