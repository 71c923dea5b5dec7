/* Weights of others, opened: a folder of Hugging Face (config.json, and model.safetensors or
 * several files that an index names), a file of safetensors, or a TensorBundle of names without
 * objects, as BERT's first release has it.
 *
 *     tli_foreign_files f;
 *     TL_TRY_DONE(st, tli_foreign_open(&f, "bert-base"));
 *     const tli_foreign_entry *e = tl_map_get(&f.by_name, "pooler.dense.weight");
 * done:
 *     tli_foreign_close(&f);
 *
 * Thread word: one thread at a time. */
#ifndef TLI_ZOO_FOREIGN_FILES_H
#define TLI_ZOO_FOREIGN_FILES_H

#include <tilth/base/map.h>
#include <tilth/io/safetensors.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#include "io/inner/json_text.h"

typedef enum tli_foreign_form {
    TLI_FOREIGN_HF,
    TLI_FOREIGN_V1,
    TLI_FOREIGN_FORMS
} tli_foreign_form;

typedef struct tli_foreign_entry {
    const char *name, *type;
    bool readable;
    tl_dtype dtype;
    int rank;
    const int64_t *dims;
    const void *data;                     /* NULL: it lies in the bundle */
    const tl_tensorbundle_entry *bundled; /* else NULL */
} tli_foreign_entry;

/* What lies at a path, opened. */
typedef struct tli_foreign_files {
    tli_foreign_form form;
    const char *path;   /* the folder, the file, or the prefix of the bundle */
    const char *config; /* the file that says what the model is; NULL: there is none */
    tli_foreign_entry *items;
    int64_t count, capacity;
    tl_map by_name;          /* to entries */
    tl_safetensors *weights; /* NULL: a bundle */
    tl_tensorbundle *bundle;
    tl_arena *arena;
} tli_foreign_files;
/* Whether such weights are meant by a path: a folder, one of its files, or a prefix. A file of
 * safetensors by itself is not asked for: it may be one of ours. */
bool tli_foreign_is(const char *path);
/* Close is due also after a failure. */
TL_NODISCARD tl_status tli_foreign_open(tli_foreign_files *out, const char *path);
/* One file of safetensors, whatever lies beside it. */
TL_NODISCARD tl_status tli_foreign_open_file(tli_foreign_files *out, const char *path);
void tli_foreign_close(tli_foreign_files *f);

/* --- for who reads them ----------------------------------------------------------------------- */

/* One element of data that is aligned to nothing. */
double tli_foreign_element(tl_dtype type, const void *data, int64_t i);
/* Floats of this shape. */
bool tli_foreign_fits(const tli_foreign_entry *e, const tl_shape *wanted);
/* "F32[3, 4]", in the arena. */
const char *tli_foreign_spec(tl_arena *arena, const char *type, int rank, const int64_t *dims);
/* What config.json says of classes, by number and by name; those without one are "LABEL_3". */
void tli_foreign_labels(tli_json *j, int64_t count, tl_strings names);
/* Adds a finding; one without a path is TL_ENOMEM. */
TL_NODISCARD tl_status tli_foreign_note(tl_state_report *into, tl_state_finding finding);

#endif
