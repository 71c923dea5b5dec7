/* Safetensors files: named tensors in one file that Python's `safetensors` reads and writes.
 *
 *     tl_safetensors *f;
 *     TL_TRY(tl_safetensors_open(&f, "model.safetensors"));
 *     for (int64_t i = 0; i < tl_safetensors_count(f); i++)
 *         puts(tl_safetensors_at(f, i)->name);
 *     st = tl_safetensors_get(kernel, f, "encoder.0.kernel");        // into a tensor of its shape
 *     tl_safetensors_free(&f);
 *
 *     TL_TRY(tl_safetensors_read(&state, "model.safetensors", engine)); // all of it, as a state
 *     TL_TRY(tl_safetensors_write("copy.safetensors", state, NULL, 0));
 *
 * A file is mapped and checked when it is opened: the length and form of the header, types, shapes,
 * names that occur twice, data that overlap, leave gaps, or do not end with the file. Messages name
 * the file and the entry. Types that tensors do not have (float8, complex, ...) are listed, and
 * refused by name when they are read.
 *
 * Several files that an index names (NAME.safetensors.index.json, Hugging Face's form) are opened
 * by the name of the index, and are then as one. The index of a divided checkpoint also says which
 * entries are pieces of a larger tensor; together they show as that one. Files must lie beside the
 * index, and pieces follow one another without gap and overlap.
 *
 * What is written depends on the state alone: entries lie by descending size of their type, then by
 * name, as the original library puts them.
 *
 * Ownership: an open file is the caller's, and what it shows lives as long. Whoever cuts an open
 * file short makes reading it fatal (see tl_file_map). Thread word: an open file is immutable. */
#ifndef TILTH_IO_SAFETENSORS_H
#define TILTH_IO_SAFETENSORS_H

#include <tilth/core/state.h>

TL_BEGIN

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct tl_safetensors tl_safetensors;

/* Of the name of an index. */
#define TL_SAFETENSORS_INDEX ".safetensors.index.json"

TL_API TL_NODISCARD tl_status tl_safetensors_open(tl_safetensors **out, const char *path);
/* NULL is fine. */
TL_API void tl_safetensors_free(tl_safetensors **f);
/* As it was opened. */
TL_API const char *tl_safetensors_path(const tl_safetensors *f);
/* How many an index names; 0: it is one file and no index. */
TL_API int64_t tl_safetensors_file_count(const tl_safetensors *f);

/* A part of a tensor's elements, counted row by row. */
typedef struct tl_safetensors_piece {
    int64_t start, count;
    const void *data;
} tl_safetensors_piece;

typedef struct tl_safetensors_entry {
    const char *name;
    const char *type; /* as the file spells it: "F32", "F8_E4M3" */
    bool readable;    /* tensors can have this type and shape; else `dtype` says nothing */
    tl_dtype dtype;
    int rank;
    const int64_t *dims; /* `rank` of them */
    /* row-major, little-endian, aligned to nothing; NULL: it lies in pieces, from the first element
     * to the last */
    const void *data;
    size_t bytes;
    const tl_safetensors_piece *pieces; /* else NULL */
    int64_t piece_count;
} tl_safetensors_entry;

/* In the order of the header. */
TL_API int64_t tl_safetensors_count(const tl_safetensors *f);
TL_API const tl_safetensors_entry *tl_safetensors_at(const tl_safetensors *f, int64_t index);
/* NULL when there is none of that name. */
TL_API const tl_safetensors_entry *tl_safetensors_find(const tl_safetensors *f, const char *name);
/* Some of its bytes, from `begin` on, wherever they lie. */
TL_API void tl_safetensors_bytes(void *to, const tl_safetensors_entry *entry, size_t begin,
                                 size_t bytes);
/* "F32[3, 4]", appended. */
TL_API void tl_safetensors_spec(tl_str *out, const tl_safetensors_entry *entry);

typedef struct tl_safetensors_note {
    const char *key, *value;
} tl_safetensors_note;
/* The notes of the header (`__metadata__`), in its order. */
TL_API int64_t tl_safetensors_note_count(const tl_safetensors *f);
TL_API const tl_safetensors_note *tl_safetensors_note_at(const tl_safetensors *f, int64_t index);
/* The value of a note; NULL when there is none. */
TL_API const char *tl_safetensors_note_get(const tl_safetensors *f, const char *key);

/* Copies the elements of an entry into a tensor of its type and shape. */
TL_API TL_NODISCARD tl_status tl_safetensors_get(tl_tensor *to, const tl_safetensors *f,
                                                 const char *name);
/* A state with all entries; '/' in a name makes a state in the state. The tensors are new ones of
 * the engine's, and any entry that is not readable is a failure. Without an engine (NULL) tensors
 * are only described, and those that are not readable are left out. */
TL_API TL_NODISCARD tl_status tl_safetensors_load(tl_state **out, const tl_safetensors *f,
                                                  tl_engine *engine);
/* Opens, loads, closes. */
TL_API TL_NODISCARD tl_status tl_safetensors_read(tl_state **out, const char *path,
                                                  tl_engine *engine);

/* --- writing ---------------------------------------------------------------------------------- */

/* Writes all entries of a state, and the notes in the order of their keys; `path` holds either what
 * it held before or the whole new file. A tensor with several paths is written under each of them.
 * Scalars become small tensors: int I64[], double F64[], bool BOOL[], text U8[bytes], words
 * U64[count]; a file that gives the same scalars back is a checkpoint (checkpoint.h). Names and
 * notes must be UTF-8. */
TL_API TL_NODISCARD tl_status tl_safetensors_write(const char *path, const tl_state *s,
                                                   const tl_safetensors_note *notes,
                                                   int64_t note_count);

TL_END

#endif
