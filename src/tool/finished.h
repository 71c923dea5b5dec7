/* Private to tool: runs that were trained before, as the command line names them.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_FINISHED_H
#define TILTH_SRC_TOOL_FINISHED_H

#include <tilth/train/run/finished.h>
#include <tilth/train/run/run.h>

#include "tool/tool.h"

/* Which run, and which of its checkpoints. */
typedef struct tli_finished_flags {
    const char *model_dir, *checkpoint, *experiment;
} tli_finished_flags;
extern const tl_desc tli_finished_flags_desc;

/* What the flags say of it. */
tl_finished_args tli_finished_args(const tli_run *run, const tli_finished_flags *flags);

/* The folder of the run that a checkpoint in `folder` is of: that one, or (as of the best one) the
 * one above. NULL when there is none, or it does not say of which experiment it is. */
TL_NODISCARD tl_status tli_finished_folder(const char **out, tl_arena *arena, const char *folder,
                                           const char *experiment);

/* The names that the weights of the run in a folder, or in the one above it, have in Model Garden;
 * on what machine it ran does not matter. *known is false, and the table empty, when there is no
 * run, it does not say of which experiment and none is given, or the task has no such names. An
 * experiment without a run is TL_ENOTFOUND. Deinit is due also after a failure. */
TL_NODISCARD tl_status tli_finished_names(tl_original_names *out, bool *known, tli_run *run,
                                          const char *folder, const char *experiment);

#define TLI_ANY_IMAGE "IMAGE..."
#define TLI_ANY_TABLE "NEW.csv"
/* A file that `predict` could be tried with, or one of the two words above; NULL when it does not
 * know what to do with the experiment. */
const char *tli_predict_example(const tl_experiment_config *params, tl_arena *arena);

#endif
