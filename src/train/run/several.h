/* Private to train: a run of several processes.
 *
 * Thread word: one run at a time in a process. */
#ifndef TLI_TRAIN_RUN_SEVERAL_H
#define TLI_TRAIN_RUN_SEVERAL_H

#include <tilth/comm/world.h>
#include <tilth/train/run/launch.h>

/* How many lanes a run has that does not say so: as many as the file in its folder says, else as
 * many as there are processes. `*source` says who. */
TL_NODISCARD tl_status tli_lanes_of_run(int64_t *out, const char **source, tl_arena *arena,
                                        const char *folder, const char *file);
/* What computes, and in how many lanes: another number is other mathematics. NULL with the error
 * set. */
const char *tli_numerics(tl_arena *arena, const tl_engine *engine, const tl_own_config *own);

/* Joins the processes that were started with this one, which is not alone, and compares what they
 * are to do. `*out` is to be left also after a failure. */
TL_NODISCARD tl_status tli_world_join(tl_world **out, const tl_world_args *args,
                                      const tl_config *config);
/* Joins the processes that were started with this one, and compares what they are to do; the seed
 * of the run is the chief's. *out is NULL when this one is alone. */
TL_NODISCARD tl_status tli_world_enter(tl_world **out, tl_run_args *run,
                                       const tl_launch_args *args);
/* All leave together: what the chief writes is written then. A failure is told to the others. Hands
 * on how it went; `*world` may be NULL. */
TL_NODISCARD tl_status tli_world_leave(tl_world **world, tl_status how);

#endif
