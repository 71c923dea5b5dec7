/* Private to train: what folders of runs say.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_FINISHED_H
#define TLI_TRAIN_FINISHED_H

#include <tilth/train/run/finished.h>

/* Reads the configuration of a folder whose kind is known: config, params, experiment. */
TL_NODISCARD tl_status tli_finished_config(tl_finished *f, const tl_finished_args *args);
/* The names of classes: as the folder has noted them, which the task must know before there is a
 * model; then, once there is a checkpoint, as that has noted them, or as the task has them. */
TL_NODISCARD tl_status tli_finished_begin_classes(tl_finished *f, const char *folder);
TL_NODISCARD tl_status tli_finished_end_classes(tl_finished *f);
/* Tells a task the names that the folder of a run has noted; none when it has no such file. In the
 * arena. */
TL_NODISCARD tl_status tli_take_noted_classes(tl_strings *out, tl_task *task, tl_arena *arena,
                                              const char *folder);

#endif
