/* The manager of checkpoints from inside. Thread word: one thread at a time. */
#ifndef TLI_IO_CHECKPOINT_MANAGER_IMPL_H
#define TLI_IO_CHECKPOINT_MANAGER_IMPL_H

#include <tilth/io/checkpoint/manager.h>

#include "io/inner/checkpoint.h"
#include "io/checkpoint/list.h"

#define TLI_CHECKPOINT_USUAL_NAME "ckpt"

/* What time it is; tests set it. */
extern double (*tli_checkpoint_clock)(void);

/* --- which is meant (checkpoint_locate.c) ----------------------------------------------------- */

typedef struct tli_checkpoint_place {
    /* of the file, or the prefix of the bundle; of the file when there is neither */
    const char *path;
    bool bundle, there;
} tli_checkpoint_place;
/* An item of a list. Where both forms are there it is the file: a bundle knows less. */
TL_NODISCARD tl_status tli_checkpoint_find_item(tli_checkpoint_place *out, tl_arena *arena,
                                                const char *directory, const char *item);
/* Every byte of it, against its checksums. */
TL_NODISCARD tl_status tli_checkpoint_verify_bundle(const char *prefix);

/* --- directories (checkpoint_folder.c) -------------------------------------------------------- */

/* The list of a directory: its state file; the checkpoints that lie there when that cannot be
 * understood; else an empty one. Times are not in the future, and items that are kept for good are
 * left out. */
TL_NODISCARD tl_status tli_checkpoint_folder_list(tli_checkpoint_list *out, const char *directory,
                                                  const char *name);
/* The checkpoints that lie in a directory, whatever its state file says. */
TL_NODISCARD tl_status tli_checkpoint_folder_scan(tli_checkpoint_list *out, const char *directory,
                                                  const char *name);
/* Removes what killed processes left: temporary files of checkpoints and of the state file, and
 * files of divided checkpoints that have no index. */
void tli_checkpoint_folder_sweep(const char *directory, const char *name);
/* Removes the files of a divided checkpoint, but not its index, and not (0: none) those of one that
 * has so many files. */
void tli_checkpoint_remove_pieces(const char *directory, const char *item, int64_t keep);
/* They are kept as FILE.SUFFIX. */
void tli_checkpoint_rename_pieces(const char *directory, const char *item, const char *suffix);

/* Whether an item of the list was saved by time. */
bool tli_checkpoint_is_timed(const char *item, const char *name);

/* --- writing (checkpoint_save.c) -------------------------------------------------------------- */

/* What is to be written, and the thread that does it. The list belongs to it while it works. */
typedef struct tli_checkpoint_saver tli_checkpoint_saver;
typedef struct tli_checkpoint_saver_args {
    const char *directory, *name; /* borrowed */
    tl_opt_int max_to_keep;
    double keep_every_n_hours;
    bool background;
    int64_t files; /* 0, 1: one, without an index */
    tli_checkpoint_list *list;
    /* as in tl_checkpoint_manager_args */
    tl_comm_group *group;
    tl_checkpoint_part_fn *part;
    void *payload;
    const char *optional, *explained;
} tli_checkpoint_saver_args;
TL_NODISCARD tl_status tli_checkpoint_saver_new(tli_checkpoint_saver **out,
                                                const tli_checkpoint_saver_args *args);
/* Waits. NULL is fine. */
void tli_checkpoint_saver_free(tli_checkpoint_saver **s);
/* Writes NAME-STEP (by time: NAME-timed-STEP) and lists it, or, in the background, copies the state
 * and leaves the rest to the thread. Waits for the save before. */
TL_NODISCARD tl_status tli_checkpoint_saver_save(tli_checkpoint_saver *s, const tl_state *state,
                                                 int64_t step, bool timed,
                                                 const tl_checkpoint_info *info);
/* Together (together.c). All processes of the group begin a checkpoint, each writes its files, and
 * all finish it: then the first writes the index, and it is listed. The first leads, with a draft
 * or with the failure `st` that there is none for, of which the others hear, and the others follow.
 * A failure of theirs is told when all finish. */
TL_NODISCARD tl_status tli_checkpoint_saver_lead(tli_checkpoint_saver *s, tl_status st);
TL_NODISCARD tl_status tli_checkpoint_saver_follow(tli_checkpoint_saver *s, const tl_state *state);
TL_NODISCARD tl_status tli_checkpoint_saver_finish(tli_checkpoint_saver *s);
/* Begun and not finished; and whether this process has written its files by now. */
bool tli_checkpoint_saver_pending(const tli_checkpoint_saver *s);
bool tli_checkpoint_saver_wrote(tli_checkpoint_saver *s);

/* Whether the last save has come to a good end, once. */
bool tli_checkpoint_saver_is_done(tli_checkpoint_saver *s);
/* The file of the last save, valid until the next. */
const char *tli_checkpoint_saver_path(const tli_checkpoint_saver *s);
/* Has a save in the background failed? `wait`: waits for one that is under way. The failure is
 * handed on once. */
TL_NODISCARD tl_status tli_checkpoint_saver_outcome(tli_checkpoint_saver *s, bool wait);
/* Waits and leaves the failure for later. */
void tli_checkpoint_saver_wait(tli_checkpoint_saver *s);

/* --- the manager (checkpoint_manager.c) ------------------------------------------------------- */

/* A save that failed in the background is handed on, once, and its step is not saved after all.
 * `wait`: for one that is under way. */
TL_NODISCARD tl_status tli_checkpoint_manager_outcome(tl_checkpoint_manager *m, bool wait);
/* Several processes save together (tl_checkpoint_manager_args.group): whether they do; what those
 * do that are not the first, while that one saves; whether files are written in the background;
 * whether something was begun that is not
 * finished, and whether this process has written its files of it; and to finish it, all of them,
 * which waits for the files. */
bool tli_checkpoint_manager_is_together(const tl_checkpoint_manager *m);
TL_NODISCARD tl_status tli_checkpoint_manager_follow(tl_checkpoint_manager *m);
bool tli_checkpoint_manager_in_background(const tl_checkpoint_manager *m);
bool tli_checkpoint_manager_pending(const tl_checkpoint_manager *m);
bool tli_checkpoint_manager_wrote(tl_checkpoint_manager *m);
TL_NODISCARD tl_status tli_checkpoint_manager_finish(tl_checkpoint_manager *m);
/* The state has become another since its step was saved: that is to be saved again. */
void tli_checkpoint_manager_outdate(tl_checkpoint_manager *m);
/* The step of the latest checkpoint, when it is of this manager's making; else -1. This and the
 * next wait for the save. */
int64_t tli_checkpoint_manager_own_latest(tl_checkpoint_manager *m);
/* Whether there is one before it. */
bool tli_checkpoint_manager_has_earlier(tl_checkpoint_manager *m);
/* The latest checkpoint leads nowhere: it is kept as FILE.SUFFIX, `*aside`, in the arena, and the
 * one before it is the latest. */
TL_NODISCARD tl_status tli_checkpoint_manager_give_up(tl_checkpoint_manager *m, const char *suffix,
                                                      const char **aside, tl_arena *arena);

#endif
