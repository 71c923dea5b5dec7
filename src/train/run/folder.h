/* Private to train: the folder of a run while it trains. Nobody else trains in it, and it is not
 * made before the run is accepted: a run that is refused leaves nothing behind.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_RUN_FOLDER_H
#define TLI_TRAIN_RUN_FOLDER_H

#include "base/inner/folder.h"
#include "io/inner/run_lock.h"

typedef struct tli_run_folder {
    const char *path; /* borrowed; NULL: none is claimed */
    tli_folder_hold *hold;
    tli_run_lock *lock;
} tli_run_folder;

/* Nothing goes through a link in the folder from now on, whoever has made it. Also for those who
 * only evaluate. */
TL_NODISCARD tl_status tli_run_folder_hold(tli_run_folder *f, const char *path);

/* The same, before its checkpoints are read: nobody else may train there from now on. A folder that
 * is not there is not made. */
TL_NODISCARD tl_status tli_run_folder_claim(tli_run_folder *f, const char *path);
/* The run is accepted: the folder is made. */
TL_NODISCARD tl_status tli_run_folder_begin(tli_run_folder *f);
/* Lets go. */
void tli_run_folder_leave(tli_run_folder *f);

#endif
