/* The state file of a directory of checkpoints: which is the latest, and which are managed.
 *
 *     model_checkpoint_path: "ckpt-2000"
 *     all_model_checkpoint_paths: "ckpt-1000"
 *     all_model_checkpoint_paths: "ckpt-2000"
 *     all_model_checkpoint_timestamps: 1700000000.5
 *     all_model_checkpoint_timestamps: 1700000100.5
 *     last_preserved_timestamp: 1699999999.0
 *
 * Paths are relative to the directory and stand without the suffix of the file.
 * Thread word: one thread at a time. */
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

/* The file of a path in the list: DIRECTORY/PATH.safetensors. NULL, with the error set, without
 * memory. */
char *tli_checkpoint_list_file(tl_arena *arena, const char *directory, const char *path);

#endif
