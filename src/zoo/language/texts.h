/* Own texts with classes: where they lie, what is in them, and batches of them.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_ZOO_LANGUAGE_TEXTS_H
#define TLI_ZOO_LANGUAGE_TEXTS_H

#include <tilth/io/tensorflow/example.h>

#include "zoo/language/data.h"
#include "zoo/language/pieces.h"

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct tli_text {
    tl_bytes first, second; /* the second one has no data where there is no such column */
    const char *label;      /* a class by its name */
    const char *file;
    int64_t line;  /* of the file; 0: it is the text */
    bool held_out; /* by the share of the configuration */
} tli_text;
typedef tl_status tli_text_fn(void *self, const tli_text *t);

/* All texts of files and folders, in their order. Columns must be set where there are files. What
 * is damaged is TL_EDATA with file and line; no text at all is TL_EINVAL. */
TL_NODISCARD tl_status tli_texts_each(const tl_text_data_config *data, const char *const *paths,
                                      int64_t count, tli_text_fn *fn, void *self);
/* Notes the place of a text in a failure. */
tl_status tli_text_note(tl_status st, const tli_text *t);

/* Which columns of a file hold texts and classes, in the arena. Those that are given stay; none
 * that can be told is TL_EINVAL, with the columns there are. */
typedef struct tli_text_columns {
    const char *text, *label;
} tli_text_columns;
TL_NODISCARD tl_status tli_text_columns_find(tli_text_columns *out, tl_arena *arena,
                                             const tl_text_data_config *data, const char *path);

/* --- what a task needs ------------------------------------------------------------------------ */

/* The vocabulary of a task that has none in the folder of its run. */
TL_NODISCARD tl_status tli_texts_vocabulary(tli_pieces *out, tl_arena *arena,
                                            const tl_text_task_config *task);
/* Whether a vocabulary has as many pieces as the encoder knows words, at most. */
TL_NODISCARD tl_status tli_texts_check_vocabulary(const tli_pieces *p,
                                                  const tl_text_task_config *task);
/* `pieces` must outlive the dataset. */
TL_NODISCARD tl_status tli_texts_inputs(tl_dataset **out, const tl_text_task_config *task,
                                        const tl_text_data_config *data, const tli_pieces *pieces,
                                        const tli_language_inputs *args);
TL_NODISCARD tl_status tli_texts_lacks(const tl_task_config *config, bool trains, bool evaluates,
                                       tl_lacks *into);

extern const tl_experiment_class tli_texts_experiment;

#endif
