/* idx files: one array of numbers, as MNIST and its kin come in, plain or compressed by gzip.
 *
 *     tl_idx images;
 *     TL_TRY(tl_idx_open(&images, "train-images-idx3-ubyte.gz"));        // uint8 [60000, 28, 28]
 *     const uint8_t *third = tl_idx_item(&images, 2);
 *     ...
 *     tl_idx_close(&images);
 *
 * Types are uint8, int8, int16, int32, float32 and float64. The file's numbers are big-endian; here
 * they are the machine's.
 *
 * A file must not change while it is open: a plain one of one-byte types is mapped, and who reads
 * behind the end of one that became shorter reads zeros (tl_file_mapping_check tells). Files that
 * are replaced are fine.
 *
 * Ownership: the elements are the file's, and valid until it is closed. Thread word: free-threaded
 * for a const file. */
#ifndef TILTH_IO_IDX_H
#define TILTH_IO_IDX_H

#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/core/dtype.h>
#include <tilth/core/shape.h>

TL_BEGIN

/* Members are for reading. */
typedef struct tl_idx {
    tl_dtype dtype;
    tl_shape shape;         /* rank 1 to 8 */
    const void *data;       /* row-major */
    size_t item_size;       /* bytes of one of the shape.dims[0] items */
    bool packed;            /* the file was compressed */
    tl_file_mapping mapped; /* whoever holds the bytes */
    void *owned;
} tl_idx;

TL_API TL_NODISCARD tl_status tl_idx_open(tl_idx *out, const char *path);
/* The same from memory, which must outlive it; `name` stands in messages. */
TL_API TL_NODISCARD tl_status tl_idx_from_memory(tl_idx *out, const char *name, const void *data,
                                                 size_t size);
/* A closed one, or one that could not be opened, is fine. */
TL_API void tl_idx_close(tl_idx *idx);
TL_API const void *tl_idx_item(const tl_idx *idx, int64_t index);

/* Puts a file in place; compressed when its name ends in ".gz". */
TL_API TL_NODISCARD tl_status tl_idx_write(const char *path, tl_dtype dtype, const tl_shape *shape,
                                           const void *data);

TL_END

#endif
