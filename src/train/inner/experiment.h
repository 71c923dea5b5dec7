/* Private: experiments in parts. */
#ifndef TILTH_SRC_TRAIN_EXPERIMENT_IMPL_H
#define TILTH_SRC_TRAIN_EXPERIMENT_IMPL_H

#include <tilth/train/experiment.h>

/* tl_experiment_finish without what the experiment completes by its data: what remains to be
 * checked when the data was looked at for another configuration of the same data. */
TL_NODISCARD tl_status tli_experiment_settle(tl_config *config, const tl_registry *registry);

#endif
