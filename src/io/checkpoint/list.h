/* The state file of a directory of checkpoints: which is the latest, and which are managed.
 *
 *     model_checkpoint_path: "ckpt-2000"
 *     all_model_checkpoint_paths: "ckpt-1000"
 *     all_model_checkpoint_paths: "ckpt-2000"
 *     all_model_checkpoint_timestamps: 1700000000.5
 *     all_model_checkpoint_timestamps: 1700000100.5
 *     last_preserved_timestamp: 1699999999.0
 *
 * Paths are relative to the directory and stand without the suffix of the file. The file may be
 * somebody else's: a path that leads out of the directory is left out when it is read, with a
 * warning; an absolute one, as older state files of TensorFlow have, is at most read. Nothing is
 * ever removed or renamed but what tli_checkpoint_is_own says is ours. Thread word: one thread at a
 * time. */
#ifndef TLI_IO_CHECKPOINT_LIST_H
#define TLI_IO_CHECKPOINT_LIST_H

#include <tilth/base/str.h>

#define TLI_CHECKPOINT_LIST_NAME "checkpoint"

typedef struct tli_checkpoint_item {
    char *path;
    double time;
} tli_checkpoint_item;

typedef struct tli_checkpoint_list {
    char *latest;               /* NULL: there is none */
    double preserved;           /* time of the last one that is kept for good */
    tli_checkpoint_item *items; /* oldest first */
    int64_t count, capacity;
} tli_checkpoint_list;

void tli_checkpoint_list_deinit(tli_checkpoint_list *l);
TL_NODISCARD tl_status tli_checkpoint_list_copy(tli_checkpoint_list *out,
                                                const tli_checkpoint_list *l);
TL_NODISCARD tl_status tli_checkpoint_list_add(tli_checkpoint_list *l, const char *path,
                                               double time);
TL_NODISCARD tl_status tli_checkpoint_list_set_latest(tli_checkpoint_list *l, const char *path);
/* Takes an item out; does nothing when the path is not there. */
void tli_checkpoint_list_remove(tli_checkpoint_list *l, const char *path);

/* Takes items out by their index, many in one pass: their paths are NULL until the list is
 * packed. */
void tli_checkpoint_list_drop(tli_checkpoint_list *l, int64_t index);
void tli_checkpoint_list_pack(tli_checkpoint_list *l);

/* The text of a state file, read and written. A text without times leaves those at `now`, and no
 * time is later. The list is empty after a failure. */
TL_NODISCARD tl_status tli_checkpoint_list_parse(tli_checkpoint_list *out, const char *text,
                                                 size_t size, double now);
void tli_checkpoint_list_text(tl_str *out, const tli_checkpoint_list *l);
/* A directory without a state file is TL_ENOTFOUND, a file that is not understood TL_EINVAL. */
TL_NODISCARD tl_status tli_checkpoint_list_read(tli_checkpoint_list *out, const char *directory,
                                                double now);
TL_NODISCARD tl_status tli_checkpoint_list_write(const tli_checkpoint_list *l,
                                                 const char *directory);

/* What the files of an item begin with: DIRECTORY/ITEM. An absolute one is looked for in the
 * directory, under its last part, which is where it is when the directory was moved; where it is
 * not there, *elsewhere says that it may lie outside, and only as a TensorBundle. */
TL_NODISCARD tl_status tli_checkpoint_list_prefix(const char **out, bool *elsewhere,
                                                  tl_arena *arena, const char *directory,
                                                  const char *item);

/* Between name and step of those that were saved by time. */
#define TLI_CHECKPOINT_TIMED "timed-"
/* Whether an item is one that we write into the directory: NAME-STEP or NAME-timed-STEP, to the
 * letter. */
bool tli_checkpoint_is_own(const char *item, const char *name);
/* Removes the file of such an item, or its index and the files of that; what is not ours is left
 * alone. A directory of that name stays, with a warning. */
void tli_checkpoint_list_delete(const char *directory, const char *item, const char *name);

#endif
