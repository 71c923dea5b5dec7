/* Private to train: a run of several processes.
 *
 * Thread word: one run at a time in a process. */
#ifndef TLI_TRAIN_RUN_SEVERAL_H
#define TLI_TRAIN_RUN_SEVERAL_H

#include <tilth/comm/world.h>
#include <tilth/train/run/launch.h>

/* Joins the processes that were started with this one, and compares what they are to do; the seed
 * of the run is the chief's. *out is NULL when this one is alone. */
TL_NODISCARD tl_status tli_world_enter(tl_world **out, tl_run_args *run,
                                       const tl_launch_args *args);
/* All leave together: what the chief writes is written then. A failure is told to the others. Hands
 * on how it went; `*world` may be NULL. */
TL_NODISCARD tl_status tli_world_leave(tl_world **world, tl_status how);

#endif
