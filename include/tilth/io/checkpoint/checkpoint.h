/* Checkpoints: a whole state in one file, and back, bit for bit.
 *
 *     TL_TRY(tl_checkpoint_save("ckpt-1000.safetensors", state, &info));
 *     ...
 *     TL_TRY(tl_checkpoint_restore(state, "ckpt-1000.safetensors", NULL, NULL));
 *
 * A checkpoint is a safetensors file (safetensors.h), so Python reads it: tensors under their paths
 * ("model/dense/kernel"), scalars as small tensors. Notes in its header say the rest: kinds and
 * order of the entries, which paths are one tensor, the version of the form, with which numerics it
 * was computed, and a checksum (CRC-32C) of every byte of the file. Reading begins with the
 * checksum: a byte that changed, or an end that is missing, anywhere in the file, is TL_EINVAL and
 * "damaged", and nothing has been restored.
 *
 * A checkpoint may also be divided into several files, which an index names
 * ("ckpt-1000.safetensors.index.json", see safetensors.h and manager.h): it is opened, read and
 * restored by the name of the index, whose checksum stands at its beginning, and which has those of
 * the files. Tensors lie whole in one of the files, or in pieces. A file that lacks or is not what
 * was written is damage.
 *
 * The bytes depend on the state and the info alone: no time, no host, no path. A file is replaced
 * in one step (tl_file_writer) and is on the disk when tl_checkpoint_save returns.
 *
 * Ownership: what is opened or read is the caller's. Thread word: free-threaded; states one thread
 * at a time. */
#ifndef TILTH_IO_CHECKPOINT_H
#define TILTH_IO_CHECKPOINT_H

#include <tilth/io/safetensors.h>

TL_BEGIN

/* Of the form. Newer ones are refused (TL_EUNSUPPORTED); their tensors can be read as plain
 * safetensors. */
enum { TL_CHECKPOINT_VERSION = 1 };
#define TL_CHECKPOINT_SUFFIX ".safetensors"

typedef struct tl_checkpoint_info {
    const char *numerics; /* what computes: instruction set, version, ...; NULL: is not said */
    /* (optional) texts that belong to it beside the state, by name */
    const tl_safetensors_note *notes;
    int64_t note_count;
} tl_checkpoint_info;

/* `info` may be NULL. Tensors that are only described cannot be saved. */
TL_API TL_NODISCARD tl_status tl_checkpoint_save(const char *path, const tl_state *s,
                                                 const tl_checkpoint_info *info);

/* Writes a checkpoint as one file: byte for byte the one that tl_checkpoint_save writes of the same
 * state and info. */
TL_API TL_NODISCARD tl_status tl_checkpoint_merge(const char *to, const char *from);

/* --- looking ---------------------------------------------------------------------------------- */

typedef struct tl_checkpoint tl_checkpoint;

/* Opens a checkpoint and checks every byte of it. A safetensors file that is no checkpoint is
 * TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_checkpoint_open(tl_checkpoint **out, const char *path);
/* NULL is fine. */
TL_API void tl_checkpoint_free(tl_checkpoint **c);
/* What is in it: scalars with their values, tensors described, all in the order of the state that
 * was saved. */
TL_API const tl_state *tl_checkpoint_state(const tl_checkpoint *c);
/* The elements of a tensor, also under its other paths; NULL when no tensor has that path. */
TL_API const tl_safetensors_entry *tl_checkpoint_find(const tl_checkpoint *c, const char *path);
TL_API const tl_safetensors *tl_checkpoint_file(const tl_checkpoint *c);
TL_API int tl_checkpoint_version(const tl_checkpoint *c);
/* NULL: was not said. */
TL_API const char *tl_checkpoint_numerics(const tl_checkpoint *c);
TL_API uint32_t tl_checkpoint_crc(const tl_checkpoint *c);
/* One of the notes that it was saved with; NULL: there is none of that name. In the file's metadata
 * it is called "tilth.note.NAME". */
TL_API const char *tl_checkpoint_note(const tl_checkpoint *c, const char *name);

/* The whole state, its tensors new ones of the engine's; paths that were one tensor are one again.
 * Without an engine (NULL) tensors are only described. */
TL_API TL_NODISCARD tl_status tl_checkpoint_read(tl_state **out, const char *path,
                                                 tl_engine *engine);

/* --- restoring -------------------------------------------------------------------------------- */

typedef struct tl_checkpoint_restore_args {
    bool partial; /* restores what matches; otherwise any finding is a failure */
    /* what the file has beside `into` stays there: no finding, and not in the report */
    bool beside;
    bool cast;     /* floats of different types are converted */
    bool weights;  /* plain safetensors will do, and checkpoints that are too new */
    bool rehearse; /* nothing is written: it only looks whether it could be */
    /* what does not fit below this path ("hooks") stays as it is, with a warning; NULL: nothing is
     * optional */
    const char *optional;
    /* when nothing but what lies below this path ("data") does not fit, it is TL_EDATA with this
     * text; NULL: never */
    const char *explained, *explanation;
    const char *part;     /* `into` is what lies below this path ("model"); NULL: all of the file */
    const char *numerics; /* what computes now: another in the file is warned of; NULL: never */
} tl_checkpoint_restore_args;

/* Copies values from the file into the tensors and variables of `into`, without a second copy in
 * memory. When they do not fit it is TL_EINVAL with the report's text, and nothing was written.
 * `args` NULL: all false; `report` may be NULL, else tl_state_report_deinit is due, also after a
 * failure. */
TL_API TL_NODISCARD tl_status tl_checkpoint_restore(tl_state *into, const char *path,
                                                    const tl_checkpoint_restore_args *args,
                                                    tl_state_report *report);

TL_END

#endif
