/* Safetensors files from inside: the types of the format, and files that are put together entry by
 * entry. Thread word: one thread at a time. */
#ifndef TLI_IO_SAFETENSORS_IMPL_H
#define TLI_IO_SAFETENSORS_IMPL_H

#include <jansson.h>
#include <tilth/base/file.h>
#include <tilth/base/map.h>
#include <tilth/io/safetensors.h>

#include "io/inner/safetensors_index.h"

enum { TLI_ST_PREFIX = 8 /* bytes before the header: its length */ };
#define TLI_ST_LONGEST_HEADER ((uint64_t)100000000)

/*    name, bits of an element, type of tensors or -1. In the original's order, in which the data of
 * a file lie from the last to the first. */
#define TLI_ST_TYPES(X)                                                                            \
    X(BOOL, 8, TL_BOOL)                                                                            \
    X(F4, 4, -1)                                                                                   \
    X(F6_E2M3, 6, -1)                                                                              \
    X(F6_E3M2, 6, -1)                                                                              \
    X(U8, 8, TL_U8)                                                                                \
    X(I8, 8, TL_I8)                                                                                \
    X(F8_E5M2, 8, -1)                                                                              \
    X(F8_E4M3, 8, -1)                                                                              \
    X(F8_E8M0, 8, -1)                                                                              \
    X(F8_E4M3FNUZ, 8, -1)                                                                          \
    X(F8_E5M2FNUZ, 8, -1)                                                                          \
    X(I16, 16, TL_I16)                                                                             \
    X(U16, 16, -1)                                                                                 \
    X(F16, 16, TL_F16)                                                                             \
    X(BF16, 16, TL_BF16)                                                                           \
    X(I32, 32, TL_I32)                                                                             \
    X(U32, 32, -1)                                                                                 \
    X(F32, 32, TL_F32)                                                                             \
    X(C64, 64, -1)                                                                                 \
    X(F64, 64, TL_F64)                                                                             \
    X(I64, 64, TL_I64)                                                                             \
    X(U64, 64, -1)

typedef enum tli_st_type {
#define TLI_ST_ENUM(name, bits, dtype) TLI_ST_##name,
    TLI_ST_TYPES(TLI_ST_ENUM)
#undef TLI_ST_ENUM
        TLI_ST_TYPE_COUNT
} tli_st_type;

typedef struct tli_st_type_row {
    const char *name;
    int bits, dtype;
} tli_st_type_row;
extern const tli_st_type_row tli_st_types[TLI_ST_TYPE_COUNT];
tli_st_type tli_st_type_of(tl_dtype dtype);

/* --- writing ---------------------------------------------------------------------------------- */

/* One entry of a file to be: a tensor, or bytes. */
typedef struct tli_st_item {
    const char *name;
    tli_st_type type;
    tl_shape shape;
    const tl_tensor *tensor; /* NULL: `data`, or where that is NULL too, `pieces` */
    const void *data;
    const tl_safetensors_piece *pieces;
    int64_t piece_count;
    size_t skip; /* bytes of the tensor before those that are written */
    size_t bytes;
    size_t begin; /* in the data of the file; filled by tli_st_draft_finish */
} tli_st_item;

/* What a file will be. The header is made by tli_st_draft_finish; then the data may be copied, and
 * the file written, by anybody. */
typedef struct tli_st_draft {
    tl_arena *arena; /* of all that the items point at, but for tensors */
    struct {
        tli_st_item *items;
        int64_t count, capacity;
    } items;
    tl_str header; /* with its length before it and blanks behind it */
    /* in it: the notes, without their brackets */
    size_t notes_at, notes_size;
    size_t bytes; /* of the data */
} tli_st_draft;

TL_NODISCARD tl_status tli_st_draft_init(tli_st_draft *d);
void tli_st_draft_deinit(tli_st_draft *d);
/* Adds what a state holds at a path; scalars are copied. */
TL_NODISCARD tl_status tli_st_draft_add(tli_st_draft *d, const tl_state_entry *e);
/* Sorts, places and describes the items. The notes are written as they stand. */
TL_NODISCARD tl_status tli_st_draft_finish(tli_st_draft *d, const tl_safetensors_note *notes,
                                           int64_t count);

/* Called with the data of a file, piece by piece. */
typedef tl_status tli_st_sink(const void *data, size_t bytes, void *payload);
TL_NODISCARD tl_status tli_st_draft_data(const tli_st_draft *d, tli_st_sink *sink, void *payload);

/* --- reading ---------------------------------------------------------------------------------- */

/* An open file, or several that an index names. */
struct tl_safetensors {
    char *path;
    tl_file_mapping mapping; /* none of an index */
    const char *data;        /* behind the header */
    size_t bytes;
    tl_arena *arena; /* of names, types and shapes */
    struct {
        tl_safetensors_entry *items;
        int64_t count, capacity;
    } entries;
    struct {
        tl_safetensors_note *items;
        int64_t count, capacity;
    } notes;
    tl_map by_name; /* to tl_safetensors_entry */
    struct {
        tl_safetensors **items;
        int64_t count, capacity;
    } parts; /* of an index */
};

/* Takes a mapping, also when it fails. */
TL_NODISCARD tl_status tli_safetensors_open(tl_safetensors **out, const char *path,
                                            tl_file_mapping *mapping);
/* What a piece of an entry is called in its file, in the arena: "kernel[16384:32768]". */
const char *tli_st_piece_name(tl_arena *arena, const char *path, int64_t start, int64_t count);
/* Does an entry fit into the tensor? With `cast` floats of different types do. */
TL_NODISCARD tl_status tli_safetensors_check(const tl_tensor *to, const tl_safetensors *f,
                                             const tl_safetensors_entry *e, bool cast);
/* Checks and copies. */
TL_NODISCARD tl_status tli_safetensors_copy(tl_tensor *to, const tl_safetensors *f,
                                            const tl_safetensors_entry *e, bool cast);
/* Adds an entry to a state, as tl_safetensors_load does. */
TL_NODISCARD tl_status tli_safetensors_put(tl_state *to, const tl_safetensors *f,
                                           const tl_safetensors_entry *e, tl_engine *engine);
/* The shape of a readable entry. */
tl_shape tli_safetensors_shape(const tl_safetensors_entry *e);

#endif
