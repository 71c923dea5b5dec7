/* The checkpoints of a run: when one is due, which are kept, which is the latest.
 *
 *     tl_checkpoint_manager *m;
 *     TL_TRY(tl_checkpoint_manager_new(&m, &(tl_checkpoint_manager_args){
 *         .directory = "out/run1", .state = state, .step = &step, .interval = 1000,
 *         .max_to_keep = {true, 5}, .background = true}));
 *     TL_TRY_DONE(st, tl_checkpoint_manager_restore_or_initialize(m, &path));
 *     while (step < last) {
 *         train_loop(&step);
 *         TL_TRY_DONE(st, tl_checkpoint_manager_save(m, true, &path));   // when one is due
 *     }
 *     TL_TRY_DONE(st, tl_checkpoint_manager_save(m, false, &path));      // the last step, once
 *     TL_TRY_DONE(st, tl_checkpoint_manager_sync(m));
 * done:
 *     tl_checkpoint_manager_free(&m);
 *
 * Files: DIRECTORY/NAME-STEP.safetensors, and DIRECTORY/checkpoint, a text that names the latest
 * and all that are managed, with the time of each, in the form of Model Garden. Paths in it are
 * relative: a directory can be moved. It is written before old checkpoints are removed, so it never
 * names only what is gone.
 *
 * Divided: with `files` above 1 a checkpoint is NAME-STEP.00001-of-00008.safetensors and so on, and
 * then NAME-STEP.safetensors.index.json, which makes a checkpoint of them; its path is that of the
 * index. Both forms may lie in one directory, and are read alike. Several processes may write the
 * files together (`group`).
 *
 * Due: a multiple of the interval was reached or passed since the last save, or since the step that
 * was restored. Boundaries are absolute: a run that was interrupted saves at the same steps as one
 * that was not.
 *
 * Kept: the newest `max_to_keep`. One that falls out is removed, unless it is `keep_every_n_hours`
 * younger than the last one that was kept for good: then it stays, and is no longer listed. Both go
 * on after a restart.
 *
 * By time: with `minutes`, also when so many have passed since the last one. Such a checkpoint is
 * NAME-timed-STEP.safetensors. Only the newest of them is kept, until the next checkpoint of
 * whatever kind; they do not count for max_to_keep. So a run that came to its end has the same
 * checkpoints with and without it.
 *
 * Damage: a latest checkpoint that fails its checksum is renamed to NAME-STEP.safetensors.damaged
 * and the one before it is restored, with an error in the log. When none is left it is a failure,
 * never a start from scratch.
 *
 * Of others: where the directory's text names a TensorBundle (NAME-STEP.index and its data), as
 * Model Garden writes them, and there is no file of ours, that is its checkpoint, and
 * `restore_bundle` restores it. Bundles are only read: none is renamed or removed.
 *
 * A directory that has checkpoints, but no text that names them, goes on from the newest, with a
 * warning.
 *
 * Background: the state is copied into a buffer, which blocks the caller for the time of the copy
 * alone, and written by a thread of the manager's. One copy exists at a time: a save waits for the
 * one before. What went wrong is handed on by the next save, or by sync.
 *
 * A save that fails (a full disk) leaves all older checkpoints and the state file as they were, and
 * the next call tries again. What a process that was killed left half-written is removed by the
 * first save.
 *
 * Ownership: the caller's; the strings of the arguments are copied, state, step and payload are
 * borrowed. Only one process may save into a directory. Thread word: one thread at a time. */
#ifndef TILTH_IO_CHECKPOINT_MANAGER_H
#define TILTH_IO_CHECKPOINT_MANAGER_H

#include <tilth/base/file.h>
#include <tilth/core/comm.h>
#include <tilth/desc/desc.h>
#include <tilth/io/checkpoint/checkpoint.h>

TL_BEGIN

typedef struct tl_checkpoint_manager tl_checkpoint_manager;

/* Which elements of a tensor of the state a process has, `from` to `end` - 1; false: all have all
 * of them. */
typedef bool tl_checkpoint_part_fn(void *payload, const tl_tensor *t, int32_t rank, int64_t *from,
                                   int64_t *end);

typedef struct tl_checkpoint_manager_args {
    const char *directory;            /* required; made by the first save */
    const char *name;                 /* NULL: "ckpt" */
    tl_state *state;                  /* required */
    const int64_t *step;              /* required: a variable that the state holds too */
    int64_t interval;                 /* 0: never saves */
    tl_opt_int max_to_keep;           /* not set: all; else at least 1 */
    double keep_every_n_hours;        /* 0: none is kept for that */
    tl_status (*init)(void *payload); /* (optional) called when there is nothing to restore */
    /* (optional) restores a TensorBundle */
    tl_status (*restore_bundle)(void *payload, const char *prefix);
    /* (optional) called before a checkpoint is restored, with what is in it: numbers with their
     * values, tensors described. The state may be changed to fit */
    tl_status (*before_restore)(void *payload, const tl_state *found);
    /* (optional, together) Text that checkpoints carry beside the state, as the note "choices":
     * `choices` adds what it is now, nothing for none; `choose` gets that of a checkpoint that has
     * one, before it is restored */
    tl_status (*choices)(void *payload, tl_str *out);
    tl_status (*choose)(void *payload, const char *text);
    void *payload;   /* of these */
    bool background; /* save returns while the file is written */
    int64_t files;   /* how many a checkpoint is divided into; 0, 1: it is one file */
    /* (optional: this one alone) the processes that write a divided checkpoint together, each some
     * of its files, all with the same state but for what lies below `optional` and `explained`,
     * which is the first one's. Trainings do so (train/controller); what each process has of a
     * tensor `part` says (optional: all of it), and then each has a file at least. */
    tl_comm_group *group;
    tl_checkpoint_part_fn *part;
    /* as in tl_checkpoint_restore_args; may be NULL, as these two */
    const char *optional;
    const char *explained, *explanation;
    const char *numerics; /* of tl_checkpoint_info and tl_checkpoint_restore_args */
    double minutes;       /* 0: none by time */
    /* begins without checkpoints, whatever lies in the directory: who says so moves that away
     * before the first save */
    bool anew;
    bool read_only; /* damaged checkpoints stay where they are */
    /* (optional) of tl_checkpoint_info; must outlive the manager */
    const tl_safetensors_note *notes;
    int64_t note_count;
} tl_checkpoint_manager_args;

/* Reads DIRECTORY/checkpoint. One that cannot be understood, or is not there though checkpoints
 * are, is warned of, and the checkpoints that lie in the directory are taken instead. */
TL_API TL_NODISCARD tl_status tl_checkpoint_manager_new(tl_checkpoint_manager **out,
                                                        const tl_checkpoint_manager_args *args);
/* Waits for the background save; a failure that nobody asked for is logged. NULL is fine. */
TL_API void tl_checkpoint_manager_free(tl_checkpoint_manager **m);

/* Saves when something is due, or, without `check_interval`, whenever this step is not yet saved.
 * `*path` is the file, valid until the next call; NULL when nothing was due. In the background the
 * file is there after sync. `path` may be NULL. */
TL_API TL_NODISCARD tl_status tl_checkpoint_manager_save(tl_checkpoint_manager *m,
                                                         bool check_interval, const char **path);
/* The file of a save that has come to a good end, once; NULL when there is none that was not told
 * yet. Valid until the next save. `wait`: for one that is under way. */
TL_API const char *tl_checkpoint_manager_saved(tl_checkpoint_manager *m, bool wait);
/* Whether tl_checkpoint_manager_save would save now. */
TL_API bool tl_checkpoint_manager_due(tl_checkpoint_manager *m, bool check_interval);
/* Restores the latest checkpoint, which must fit the state exactly, or calls init: `*path` is NULL
 * then. `path` may be NULL. */
TL_API TL_NODISCARD tl_status tl_checkpoint_manager_restore_or_initialize(tl_checkpoint_manager *m,
                                                                          const char **path);
/* Restores this checkpoint: a file, or what tl_checkpoint_resolve makes one of, or the prefix of a
 * bundle. */
TL_API TL_NODISCARD tl_status tl_checkpoint_manager_restore(tl_checkpoint_manager *m,
                                                            const char *path);
/* Waits for the background save and hands its failure on. */
TL_API TL_NODISCARD tl_status tl_checkpoint_manager_sync(tl_checkpoint_manager *m);

/* The latest checkpoint, NULL when there is none; valid until the next call. Waits for the
 * background save. This and the next two give a bundle by its prefix. */
TL_API const char *tl_checkpoint_manager_latest(tl_checkpoint_manager *m);
/* Those that are managed, oldest first; in the arena. Waits for the background save. */
TL_API TL_NODISCARD tl_status tl_checkpoint_manager_list(tl_path_list *out,
                                                         tl_checkpoint_manager *m, tl_arena *arena);
/* The same as the directory has them at this moment, for readers beside the process that saves: the
 * latest first, then the others from the newest on. Whoever needs one that can be used tries them
 * in turn; some may be gone. */
TL_API TL_NODISCARD tl_status tl_checkpoint_manager_candidates(tl_path_list *out,
                                                               const tl_checkpoint_manager *m,
                                                               tl_arena *arena);
TL_API const char *tl_checkpoint_manager_directory(const tl_checkpoint_manager *m);
TL_API int64_t tl_checkpoint_manager_interval(const tl_checkpoint_manager *m);
/* Whether any are saved by time: then each step may be due. */
TL_API bool tl_checkpoint_manager_keeps_time(const tl_checkpoint_manager *m);

/* --- without a manager ------------------------------------------------------------------------ */

/* Whether the checkpoint itself, file or bundle, is whole. What cannot be known (no memory, no
 * permission) counts as whole. The last error stays as it is. */
TL_API bool tl_checkpoint_is_usable(const char *path);
/* The latest checkpoint of a directory, a file of ours, as its state file says, or without one the
 * newest ckpt-STEP that lies there; `*path` is NULL when there is none, or the file that the state
 * file names is not there (yet). */
TL_API TL_NODISCARD tl_status tl_checkpoint_latest(const char **path, tl_arena *arena,
                                                   const char *directory);
/* The file that is meant by a path: itself, or with ".safetensors" or ".safetensors.index.json"
 * behind it ("out/ckpt-100"), or the latest of a directory. TL_ENOTFOUND when there is none. */
TL_API TL_NODISCARD tl_status tl_checkpoint_resolve(const char **file, tl_arena *arena,
                                                    const char *path);
/* The same two with bundles, which `*path` is the prefix of. A path may also be that prefix, or one
 * of the bundle's files; where both forms are there it is the file of ours. */
TL_API TL_NODISCARD tl_status tl_checkpoint_latest_of_any(const char **path, tl_arena *arena,
                                                          const char *directory);
TL_API TL_NODISCARD tl_status tl_checkpoint_locate(const char **path, bool *bundle, tl_arena *arena,
                                                   const char *given);

TL_END

#endif
