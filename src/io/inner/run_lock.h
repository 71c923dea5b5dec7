/* Private: a folder in which one process trains at a time.
 *
 *     tli_run_lock *lock;
 *     TL_TRY(tli_run_lock_take(&lock, "runs/one"));   // TL_EEXISTS says who has it, and since when
 *     ...
 *     tli_run_lock_release(&lock);
 *
 * FOLDER/training.lock is locked with fcntl, so that the system itself lets go of it when the
 * process ends, however it does, and other machines see it where their file system carries such
 * locks. The text in the file is for people: who has it. Where there are no such locks, a warning
 * says so, and nothing is locked.
 *
 * Thread word: free-threaded; a lock belongs to who took it. */
#ifndef TLI_IO_RUN_LOCK_H
#define TLI_IO_RUN_LOCK_H

#include <tilth/base/status.h>

#define TLI_RUN_LOCK_NAME "training.lock"

typedef struct tli_run_lock tli_run_lock;

/* The folder must be there. Also refused when this very process has it. */
TL_NODISCARD tl_status tli_run_lock_take(tli_run_lock **out, const char *folder);
/* Removes the file and lets go. NULL is fine. */
void tli_run_lock_release(tli_run_lock **lock);

/* Whether somebody trains in the folder now. `pid` (or NULL) is of that process where it runs on
 * this machine, else 0. Takes nothing, changes nothing. */
bool tli_run_lock_held(const char *folder, int64_t *pid);

#endif
