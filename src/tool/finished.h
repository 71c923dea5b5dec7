/* Private to tool: runs that were trained before, opened again to be used.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_FINISHED_H
#define TILTH_SRC_TOOL_FINISHED_H

#include <tilth/train/run.h>

#include "tool/tool.h"

/* Which run, and which of its checkpoints. */
typedef struct tli_finished_flags {
    const char *model_dir, *checkpoint, *experiment;
} tli_finished_flags;
extern const tl_desc tli_finished_flags_desc;

/* What else the configuration comes from, beside words of the command line. */
typedef struct tli_finished_changes {
    tl_strings config_file;
    const char *params_override;
} tli_finished_changes;

/* A model with the weights of a checkpoint: the averaged ones, when the run has kept averages. */
typedef struct tli_finished {
    tl_config *config;
    const tl_experiment_config *params;
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *trainer;
    const char *file; /* the checkpoint */
} tli_finished;
/* The latest checkpoint is the newest one that can be read; what cannot is logged, and left where it is.
 * `evaluates`: it can be evaluated; averages are then put in by the evaluation. `changes`: these, and words of
 * the command line, change the configuration; NULL: nothing does. Closing is due also after a failure. */
TL_NODISCARD tl_status tli_finished_open(tli_finished *out, tli_run *run, const tli_finished_flags *flags,
                                         bool evaluates, const tli_finished_changes *changes);
void tli_finished_close(tli_finished *f);

/* The names that the weights of the run in a folder, or in the one above it, have in Model Garden; on what machine it
 * ran does not matter. *known is false, and the table empty, when there is no run, it does not say of which experiment
 * and none is given, or the task has no such names. An experiment without a run is TL_ENOTFOUND. Deinit is due also
 * after a failure. */
TL_NODISCARD tl_status tli_finished_names(tl_original_names *out, bool *known, tli_run *run, const char *folder,
                                          const char *experiment);

/* A hook that writes down in the run's folder which experiment it is; NULL when no experiment has a name. */
TL_NODISCARD tl_status tli_remember_experiment(tl_hook **out, const char *experiment, const char *model_dir);

#define TLI_ANY_IMAGE "IMAGE..."
/* A file that `predict` could be tried with, or TLI_ANY_IMAGE; NULL when it does not know what to do with the
 * experiment. */
const char *tli_predict_example(const tl_experiment_config *params, tl_arena *arena);

#endif
