/* TensorBundles from inside: the types of the format, and what reader and writer share.
 * Thread word: immutable. */
#ifndef TLI_IO_TENSORBUNDLE_IMPL_H
#define TLI_IO_TENSORBUNDLE_IMPL_H

#include <tilth/base/file.h>
#include <tilth/base/map.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#include "io/tensorflow/leveldb_table.h"

/* Of the form; what needs a newer reader is refused. */
enum { TLI_TB_VERSION = 1 };

/*    number, name, bytes of an element (0: it varies), type of tensors or -1 */
#define TLI_TB_TYPES(X)                                                                            \
    X(1, "float32", 4, TL_F32)                                                                     \
    X(2, "float64", 8, TL_F64)                                                                     \
    X(3, "int32", 4, TL_I32)                                                                       \
    X(4, "uint8", 1, TL_U8)                                                                        \
    X(5, "int16", 2, TL_I16)                                                                       \
    X(6, "int8", 1, TL_I8)                                                                         \
    X(7, "string", 0, -1)                                                                          \
    X(8, "complex64", 8, -1)                                                                       \
    X(9, "int64", 8, TL_I64)                                                                       \
    X(10, "bool", 1, TL_BOOL)                                                                      \
    X(11, "qint8", 1, -1)                                                                          \
    X(12, "quint8", 1, -1)                                                                         \
    X(13, "qint32", 4, -1)                                                                         \
    X(14, "bfloat16", 2, TL_BF16)                                                                  \
    X(15, "qint16", 2, -1)                                                                         \
    X(16, "quint16", 2, -1)                                                                        \
    X(17, "uint16", 2, -1)                                                                         \
    X(18, "complex128", 16, -1)                                                                    \
    X(19, "float16", 2, TL_F16)                                                                    \
    X(20, "resource", 0, -1)                                                                       \
    X(21, "variant", 0, -1)                                                                        \
    X(22, "uint32", 4, -1)                                                                         \
    X(23, "uint64", 8, -1)                                                                         \
    X(24, "float8_e5m2", 1, -1)                                                                    \
    X(25, "float8_e4m3fn", 1, -1)                                                                  \
    X(26, "float8_e4m3fnuz", 1, -1)                                                                \
    X(27, "float8_e4m3b11fnuz", 1, -1)                                                             \
    X(28, "float8_e5m2fnuz", 1, -1)                                                                \
    X(29, "int4", 1, -1)                                                                           \
    X(30, "uint4", 1, -1)                                                                          \
    X(31, "int2", 1, -1)                                                                           \
    X(32, "uint2", 1, -1)

enum { TLI_TB_STRING = 7 };

typedef struct tli_tb_type {
    int number;
    const char *name;
    size_t bytes;
    int dtype;
} tli_tb_type;
/* NULL when there is none. */
const tli_tb_type *tli_tb_type_numbered(uint64_t number);
const tli_tb_type *tli_tb_type_named(const char *name);
const tli_tb_type *tli_tb_type_of(tl_dtype dtype);

/* PREFIX.data-SSSSS-of-NNNNN; NULL, with the error set, without memory. */
char *tli_tb_shard_path(tl_arena *arena, const char *prefix, int64_t shard, int64_t count);

/* Bytes before ".index" or ".data-00000-of-00001"; 0 when a path ends with neither. */
size_t tli_tb_stem(const char *path);

/* --- entries ---------------------------------------------------------------------------------- */

typedef struct tli_tb_entry tli_tb_entry;

/* A part of a variable that was saved in pieces. */
typedef struct tli_tb_piece {
    const int64_t *starts, *lengths; /* a dimension each */
    const tli_tb_entry *entry;
} tli_tb_piece;

struct tli_tb_entry {
    tl_tensorbundle_entry shown; /* first: the public pointer is this one's */
    tli_bytes key;               /* of a piece, which has no name */
    int64_t shard;
    uint64_t offset;
    uint32_t crc; /* masked */
    const tli_tb_piece *pieces;
    const char *data; /* NULL: in pieces */
};

typedef struct tli_tb_shard {
    int64_t number;
    tl_file_mapping file;
} tli_tb_shard;

struct tl_tensorbundle {
    char *prefix;
    const char *index_path;
    char *index; /* in our own memory: it is read more than once, and the file may change */
    size_t index_size;
    tl_arena *arena; /* of names, shapes and pieces */
    int64_t shard_count;
    struct {
        tli_tb_shard *items; /* those that entries need, in no order */
        int64_t count, capacity;
    } shards;
    struct {
        tli_tb_entry *items; /* does not move once the index was read */
        int64_t count, capacity;
    } entries, parts; /* parts: pieces, in the order of their keys */
    tl_map by_name;   /* to tli_tb_entry */
    bool has_header;
};

/* What the bytes of an index list, without the data: names, types and shapes may be asked for, and
 * no elements. `index` is tl_alloc's, and the bundle's from then on, also where it fails. */
TL_NODISCARD tl_status tli_tensorbundle_list(tl_tensorbundle **out, const char *prefix, char *index,
                                             size_t size);

/* Reads what the index says of an entry into `e`, whose name or key is set. */
TL_NODISCARD tl_status tli_tb_parse_entry(tl_tensorbundle *b, tli_tb_entry *e, tli_bytes value);
/* Finds the pieces of an entry, and whether they are the whole. */
TL_NODISCARD tl_status tli_tb_find_pieces(tl_tensorbundle *b, tli_tb_entry *e);
/* "'PREFIX.index': entry 'NAME': ..." */
#define TLI_TB_FAIL(b, e, ...)                                                                     \
    tl_error_note(TL_FAIL(TL_EINVAL, __VA_ARGS__), "'%s': entry '%s'", (b)->index_path,            \
                  (e)->shown.name)

#endif
