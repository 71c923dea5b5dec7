/* TFRecord files: records of bytes with checksums, plain or compressed, read where they lie and
 * written.
 *
 *     tl_tfrecord_file *f;
 *     TL_TRY(tl_tfrecord_open(&f, "train-00000-of-00010", NULL));
 *     tl_tfrecord_cursor at = {.file = f};   // or {f, offset, number} of an earlier record
 *     tl_tfrecord r;
 *     bool more;
 *     for (;;) {
 *         TL_TRY_DONE(st, tl_tfrecord_next(&at, &r, &more));
 *         if (!more) break;
 *         use(r.data, r.size);               // in the file's own memory
 *     }
 * done:
 *     tl_tfrecord_close(&f);
 *
 * A record is its length (8 bytes), the length's checksum (4), the data, the data's checksum (4). A
 * file may be compressed as a whole, by gzip (several members too) or zlib: it is then inflated
 * when it is opened, and offsets count inflated bytes. A file that ends within a record is an
 * error, as is every damaged byte; messages name the file, the record's number and its offset.
 *
 * Files must not change while they are open: one that becomes shorter is noticed when a record is
 * asked for (TL_EIO); who reads just then reads zeros. Files that are replaced are fine.
 *
 * Ownership: a record's data is the file's, and valid until the file is closed. Thread word:
 * free-threaded for a const file; cursors and writers one thread at a time. */
#ifndef TILTH_IO_TFRECORD_H
#define TILTH_IO_TFRECORD_H

#include <tilth/base/str.h>

TL_BEGIN

/* --- reading ---------------------------------------------------------------------------------- */

typedef enum tl_tfrecord_packing {
    TL_TFRECORD_ANY, /* what the first bytes say */
    TL_TFRECORD_PLAIN,
    TL_TFRECORD_PACKED /* gzip or zlib; anything else is refused */
} tl_tfrecord_packing;

typedef struct tl_tfrecord_args {
    tl_tfrecord_packing packing;
    /* (optional: in proportion to its size) bytes that a compressed file may become */
    size_t limit;
} tl_tfrecord_args;

typedef struct tl_tfrecord {
    const char *data;
    size_t size;
    int64_t offset; /* where the record begins, its head included */
    int64_t next;   /* where the one after it begins */
    int64_t number; /* from 0 */
} tl_tfrecord;

typedef struct tl_tfrecord_file tl_tfrecord_file;

/* NULL arguments are the defaults. Plain files are mapped, and brought in as they are touched. */
TL_API TL_NODISCARD tl_status tl_tfrecord_open(tl_tfrecord_file **out, const char *path,
                                               const tl_tfrecord_args *args);
/* The same from memory, which must outlive the file; `name` stands in messages. */
TL_API TL_NODISCARD tl_status tl_tfrecord_from_memory(tl_tfrecord_file **out, const char *name,
                                                      const void *data, size_t size,
                                                      const tl_tfrecord_args *args);
/* NULL is fine. */
TL_API void tl_tfrecord_close(tl_tfrecord_file **f);
TL_API const char *tl_tfrecord_path(const tl_tfrecord_file *f);
/* Bytes of all records, heads and checksums included: where the last one ends. */
TL_API int64_t tl_tfrecord_size(const tl_tfrecord_file *f);
TL_API bool tl_tfrecord_is_packed(const tl_tfrecord_file *f);
/* Whether the file begins as such files do, with a length whose checksum is right: then it is one,
 * though it may be cut short. An empty one does not. */
TL_API bool tl_tfrecord_begins(const tl_tfrecord_file *f);

/* The record that begins at `offset`. *more is false, and that is no failure, when `offset` is the
 * end of the file. `number` is what the record and messages say, negative when nobody has counted.
 * */
TL_API TL_NODISCARD tl_status tl_tfrecord_at(const tl_tfrecord_file *f, int64_t offset,
                                             int64_t number, tl_tfrecord *out, bool *more);
/* The same without a look at the data, whose checksum is not verified and whose pages are not
 * brought in: for finding out where records lie. */
TL_API TL_NODISCARD tl_status tl_tfrecord_head(const tl_tfrecord_file *f, int64_t offset,
                                               int64_t number, tl_tfrecord *out, bool *more);
/* How many records there are, by their heads. */
TL_API TL_NODISCARD tl_status tl_tfrecord_count(const tl_tfrecord_file *f, int64_t *out);

typedef struct tl_tfrecord_cursor {
    const tl_tfrecord_file *file;
    int64_t offset, number; /* of the next record */
} tl_tfrecord_cursor;
TL_API TL_NODISCARD tl_status tl_tfrecord_next(tl_tfrecord_cursor *at, tl_tfrecord *out,
                                               bool *more);

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct tl_tfrecord_writer tl_tfrecord_writer;

typedef struct tl_tfrecord_writer_args {
    bool gzip;
    int level; /* (optional: 6) of gzip, 1 to 9 */
} tl_tfrecord_writer_args;

/* The file appears under its name, all of it, with tl_tfrecord_writer_commit:
 *
 *     TL_TRY(tl_tfrecord_writer_begin(&w, path, NULL));
 *     TL_TRY_DONE(st, tl_tfrecord_write(w, data, size));
 *     st = tl_tfrecord_writer_commit(&w);
 * done:
 *     tl_tfrecord_writer_abort(&w);                  // does nothing after a commit
 */
TL_API TL_NODISCARD tl_status tl_tfrecord_writer_begin(tl_tfrecord_writer **out, const char *path,
                                                       const tl_tfrecord_writer_args *args);
TL_API TL_NODISCARD tl_status tl_tfrecord_write(tl_tfrecord_writer *w, const void *data,
                                                size_t size);
/* Puts the file in place and frees the writer; also frees it, leaving nothing, on failure. */
TL_API TL_NODISCARD tl_status tl_tfrecord_writer_commit(tl_tfrecord_writer **w);
/* Drops what was written and frees the writer. NULL is fine. */
TL_API void tl_tfrecord_writer_abort(tl_tfrecord_writer **w);

/* Appends one record, with its head and checksums, to a string. */
TL_API void tl_tfrecord_add(tl_str *out, const void *data, size_t size);

TL_END

#endif
