/* Notes of a run: texts that it takes, beside the configuration, to use it again: the names of
 * classes, what gin binds.
 *
 *     tl_notes notes = {0};
 *     TL_TRY_DONE(st, tl_notes_put(&notes, "classes", "classes.txt", "cat\ndog\n"));
 *     TL_TRY_DONE(st, tl_notes_check(&notes, "runs/one"));      // a run that goes on has the same
 *     TL_TRY_DONE(st, tl_notes_write(&notes, "runs/one"));      // runs/one/classes.txt
 * done:
 *     tl_notes_deinit(&notes);
 *
 * A training has them in its folder from its start on, one file each, and every checkpoint of it in
 * its metadata (tl_checkpoint_note). A task tells its own by its method `notes`.
 *
 * Ownership: texts are copied. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_NOTES_H
#define TILTH_TRAIN_NOTES_H

#include <tilth/base/arena.h>
#include <tilth/io/safetensors.h>

TL_BEGIN

typedef struct tl_notes {
    tl_safetensors_note *items; /* for tl_checkpoint_info */
    const char **files;         /* of each, in the folder of the run */
    int64_t count;
    tl_arena *arena;
} tl_notes;
TL_API void tl_notes_deinit(tl_notes *n);

/* A note of a name that is there already is replaced. An empty text is a note that there is
 * none. */
TL_API TL_NODISCARD tl_status tl_notes_put(tl_notes *n, const char *name, const char *file,
                                           const char *text);
/* NULL: there is none of that name. */
TL_API const char *tl_notes_get(const tl_notes *n, const char *name);

/* Whether the files of a folder say the same; those that are not there do. TL_EINVAL names the
 * first that does not, and where. */
TL_API TL_NODISCARD tl_status tl_notes_check(const tl_notes *n, const char *folder);
/* Writes those that are not in the folder yet. */
TL_API TL_NODISCARD tl_status tl_notes_write(const tl_notes *n, const char *folder);
/* The text of a file in the folder, in the arena; NULL when it is not there. */
TL_API TL_NODISCARD tl_status tl_notes_read(const char **out, tl_arena *arena, const char *folder,
                                            const char *file);

TL_END

#endif
