/* Private to train: learning rates that end before the training does.
 *
 * Thread word: immutable. */
#ifndef TLI_TRAIN_SCHEDULE_END_H
#define TLI_TRAIN_SCHEDULE_END_H

#include <tilth/train/experiment.h>

/* With tilth.schedule_to_end the learning rate of an open configuration gets the length of the
 * training. */
TL_NODISCARD tl_status tli_stretch_schedule(tl_config *config, const tl_registry *registry);
/* Warns of a learning rate that stays where it is for the last part of the training. `registry`
 * NULL: what ships. */
void tli_tell_schedule_end(const tl_experiment_config *params, const tl_registry *registry,
                           tl_engine *engine);

#endif
