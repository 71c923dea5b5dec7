/* Checkpoints from inside: saved in two steps, so that the second can happen elsewhere, and opened
 * with the reason why not. Thread word: one thread at a time. */
#ifndef TLI_IO_CHECKPOINT_IMPL_H
#define TLI_IO_CHECKPOINT_IMPL_H

#include <tilth/io/checkpoint/checkpoint.h>

#include "io/safetensors/impl.h"

/* What the file will be: everything but the elements of tensors is copied. */
TL_NODISCARD tl_status tli_checkpoint_draft(tli_st_draft *d, const tl_state *s,
                                            const tl_checkpoint_info *info);
/* Writes it, with the draft's d->bytes bytes of data, or (NULL) from where its items lie. */
TL_NODISCARD tl_status tli_checkpoint_write(const char *path, tli_st_draft *d, const void *data);

/* --- divided (checkpoint/divided.c) ----------------------------------------------------------- */

/* What a file of a divided checkpoint holds: an item of the draft, or some of its elements. */
typedef struct tli_checkpoint_share {
    int64_t item;         /* of the draft */
    int64_t start, count; /* elements; count 0: all of it */
    int64_t file;
    const void *data; /* (optional: where the item lies) a copy of them */
} tli_checkpoint_share;
typedef struct tli_checkpoint_division {
    int64_t files;
    tli_checkpoint_share *items;
    int64_t count;
} tli_checkpoint_division;
enum { TLI_CHECKPOINT_MOST_FILES = 1024 };

/* Whole entries, about as many bytes in each file; in the arena. */
TL_NODISCARD tl_status tli_checkpoint_divide(tli_checkpoint_division *out, tl_arena *arena,
                                             const tli_st_draft *d, int64_t files);
/* How a file was written. */
typedef struct tli_checkpoint_written {
    int64_t bytes;
    uint32_t crc;
} tli_checkpoint_written;
/* One of the files, from 0 on, beside the index to be. Its data as in tli_checkpoint_write. */
TL_NODISCARD tl_status tli_checkpoint_write_file(tli_checkpoint_written *out, const char *index,
                                                 const tli_st_draft *d, const void *data,
                                                 const tli_checkpoint_division *by, int64_t file);
/* The index, when all files are there. */
TL_NODISCARD tl_status tli_checkpoint_write_index(const char *index, const tli_st_draft *d,
                                                  const tli_checkpoint_division *by,
                                                  const tli_checkpoint_written *written);
/* All of it, in one process. An index of that name goes first: no index, no checkpoint. */
TL_NODISCARD tl_status tli_checkpoint_write_divided(const char *index, const tli_st_draft *d,
                                                    const void *data,
                                                    const tli_checkpoint_division *by);
/* Whether it is the name of one of the files of a divided checkpoint; *stem is the length of what
 * stands before its number. */
bool tli_checkpoint_is_piece(const char *name, size_t *stem);
/* What an index begins with, and its checksum when it is all there. */
void tli_checkpoint_index_begin(tl_str *out, const tli_st_draft *d);
void tli_checkpoint_index_end(tl_str *text);

/* --- reading ---------------------------------------------------------------------------------- */

/* `*damaged`: a reason to fail was that the file is not what was written. `weights` as in
 * tl_checkpoint_restore_args. */
TL_NODISCARD tl_status tli_checkpoint_open(tl_checkpoint **out, const char *path, bool weights,
                                           bool *damaged);
/* What it would be as one file, from where its parts lie. */
TL_NODISCARD tl_status tli_checkpoint_redraft(tli_st_draft *d, const tl_safetensors *f);
TL_NODISCARD tl_status tli_checkpoint_restore(tl_state *into, const tl_checkpoint *c,
                                              const tl_checkpoint_restore_args *args,
                                              tl_state_report *report);

#endif
