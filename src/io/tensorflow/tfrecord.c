#include <tilth/io/tensorflow/tfrecord.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/file.h>

#include "io/inflate.h"
#include "io/tensorflow/protobuf.h"

enum { HEAD = 12, TAIL = 4, LENGTH = 8 };

struct tl_tfrecord_file {
    char *path;
    const char *data;
    int64_t size;
    bool packed;
    tl_file_mapping mapped; /* whoever holds the bytes, unless the caller does */
    char *owned;
};

static bool crc_fits(const char *data, size_t size, const char *stored)
{
    return tl_crc32c_mask(tl_crc32c(0, data, size)) == tli_get_u32(stored);
}

/* --- opening ---------------------------------------------------------------------------------- */

// A length of 35615 begins with the bytes of gzip, but then the checksum of the length fits.
static bool looks_packed(const char *data, size_t size)
{
    if (size >= HEAD && crc_fits(data, LENGTH, data + LENGTH)) return false;
    return tli_is_packed(data, size);
}

// Takes the bytes as they are or unpacks them.
static tl_status take_bytes(tl_tfrecord_file *f, const char *data, size_t size,
                            const tl_tfrecord_args *args)
{
    tl_tfrecord_packing packing = args ? args->packing : TL_TFRECORD_ANY;
    f->packed =
        packing == TL_TFRECORD_ANY ? looks_packed(data, size) : packing == TL_TFRECORD_PACKED;
    f->data = data;
    f->size = (int64_t)size;
    if (!f->packed || size == 0) return TL_OK; // nothing is packed as nothing
    if (!tli_is_packed(data, size))
        return TL_FAIL(TL_EINVAL, "'%s' is compressed by neither gzip nor zlib, as was said",
                       f->path);
    TL_TRY(tli_inflate(&f->owned, &size, f->path, data, size, args ? args->limit : 0));
    f->data = f->owned;
    f->size = (int64_t)size;
    tl_file_unmap(&f->mapped);
    return TL_OK;
}

static tl_status new_file(tl_tfrecord_file **out, const char *path)
{
    tl_tfrecord_file *f = tl_alloc_zero(sizeof *f);
    *out = f;
    if (!f) return TL_FAIL_NOMEM(sizeof *f);
    f->path = tl_strdup(path);
    return f->path ? TL_OK : TL_FAIL_NOMEM(strlen(path) + 1);
}

tl_status tl_tfrecord_open(tl_tfrecord_file **out, const char *path, const tl_tfrecord_args *args)
{
    tl_tfrecord_file *f;
    tl_status st;
    *out = NULL;
    TL_TRY_DONE(st, new_file(&f, path));
    TL_TRY_DONE(st, tl_file_map(&f->mapped, path));
    TL_TRY_DONE(st, take_bytes(f, f->mapped.data, f->mapped.size, args));
    *out = f;
    f = NULL;
done:
    tl_tfrecord_close(&f);
    return st;
}

tl_status tl_tfrecord_from_memory(tl_tfrecord_file **out, const char *name, const void *data,
                                  size_t size, const tl_tfrecord_args *args)
{
    tl_tfrecord_file *f;
    tl_status st;
    *out = NULL;
    TL_TRY_DONE(st, new_file(&f, name));
    TL_TRY_DONE(st, take_bytes(f, data, size, args));
    *out = f;
    f = NULL;
done:
    tl_tfrecord_close(&f);
    return st;
}

void tl_tfrecord_close(tl_tfrecord_file **file)
{
    tl_tfrecord_file *f = *file;
    if (!f) return;
    tl_file_unmap(&f->mapped);
    tl_free(f->owned);
    tl_free(f->path);
    tl_free(f);
    *file = NULL;
}

const char *tl_tfrecord_path(const tl_tfrecord_file *f)
{
    return f->path;
}

int64_t tl_tfrecord_size(const tl_tfrecord_file *f)
{
    return f->size;
}

bool tl_tfrecord_begins(const tl_tfrecord_file *f)
{
    return f->size >= HEAD && crc_fits(f->data, LENGTH, f->data + LENGTH);
}

bool tl_tfrecord_is_packed(const tl_tfrecord_file *f)
{
    return f->packed;
}

/* --- reading ---------------------------------------------------------------------------------- */

static tl_status fail_record(const tl_tfrecord_file *f, int64_t offset, int64_t number,
                             const char *what)
{
    const char *bytes = f->packed ? "unpacked byte" : "byte";
    TL_TRY(tl_file_mapping_check(&f->mapped, f->path)); // what was cut reads as zeros
    if (number < 0)
        return TL_FAIL(TL_EINVAL, "'%s', the record at %s %" PRId64 ": %s", f->path, bytes, offset,
                       what);
    return TL_FAIL(TL_EINVAL, "'%s', record %" PRId64 " at %s %" PRId64 ": %s", f->path, number,
                   bytes, offset, what);
}

static tl_status read_head(const tl_tfrecord_file *f, int64_t offset, int64_t number,
                           tl_tfrecord *out, bool *more)
{
    *more = false;
    if (offset == f->size) return TL_OK;
    if (offset < 0 || offset > f->size)
        return TL_FAIL(TL_EINVAL, "'%s' has %" PRId64 " bytes, and no record at byte %" PRId64,
                       f->path, f->size, offset);
    const char *start = f->data + offset;
    uint64_t left = (uint64_t)(f->size - offset);
    if (left < HEAD)
        return fail_record(f, offset, number, "the file ends within the record's head");
    if (!crc_fits(start, LENGTH, start + LENGTH))
        return fail_record(f, offset, number,
                           "the checksum of the record's length is wrong: the file is damaged, "
                           "or no TFRecord file");
    uint64_t size = tli_get_u64(start);
    if (left - HEAD < TAIL || size > left - HEAD - TAIL)
        return fail_record(f, offset, number, "the file ends within the record: it was cut short");
    *out = (tl_tfrecord){.data = start + HEAD,
                         .size = (size_t)size,
                         .offset = offset,
                         .next = offset + HEAD + (int64_t)size + TAIL,
                         .number = number};
    *more = true;
    return TL_OK;
}

/* Whoever walks from head to head waits for the memory of each, as no CPU foresees where the next
 * one lies. Of short records what is soon needed is asked for: as many bytes as the record has. Of
 * longer ones that would be more memory than the heads are worth. */
static void ask_ahead(const tl_tfrecord_file *f, const tl_tfrecord *r)
{
    enum { LINE = 64, AHEAD = 4096, SHORT = 2048 };
    if (r->size > SHORT || f->size - r->next < AHEAD) return;
    for (int64_t at = r->offset; at < r->next; at += LINE) __builtin_prefetch(f->data + at + AHEAD);
}

tl_status tl_tfrecord_head(const tl_tfrecord_file *f, int64_t offset, int64_t number,
                           tl_tfrecord *out, bool *more)
{
    TL_TRY(read_head(f, offset, number, out, more));
    if (*more) ask_ahead(f, out);
    return TL_OK;
}

tl_status tl_tfrecord_at(const tl_tfrecord_file *f, int64_t offset, int64_t number,
                         tl_tfrecord *out, bool *more)
{
    TL_TRY(read_head(f, offset, number, out, more));
    if (!*more || crc_fits(out->data, out->size, out->data + out->size)) return TL_OK;
    *more = false;
    return fail_record(f, offset, number,
                       "the checksum of the record's data is wrong: the file is damaged");
}

tl_status tl_tfrecord_next(tl_tfrecord_cursor *at, tl_tfrecord *out, bool *more)
{
    TL_TRY(tl_tfrecord_at(at->file, at->offset, at->number, out, more));
    if (!*more) return TL_OK;
    at->offset = out->next;
    at->number++;
    return TL_OK;
}

tl_status tl_tfrecord_count(const tl_tfrecord_file *f, int64_t *out)
{
    tl_tfrecord r = {0};
    int64_t count = 0;
    for (bool more = true;; count++) {
        TL_TRY(tl_tfrecord_head(f, r.next, count, &r, &more));
        if (!more) break;
    }
    *out = count;
    return TL_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

struct tl_tfrecord_writer {
    tl_file_writer *file;
    tli_gzip_stream *gzip; /* NULL: plain */
    tl_str packed;         /* what gzip has ready */
};

static void make_head(char head[HEAD], size_t size)
{
    for (int i = 0; i < LENGTH; i++) head[i] = (char)((uint64_t)size >> 8 * i);
    uint32_t crc = tl_crc32c_mask(tl_crc32c(0, head, LENGTH));
    for (int i = 0; i < 4; i++) head[LENGTH + i] = (char)(crc >> 8 * i);
}

static void make_tail(char tail[TAIL], const void *data, size_t size)
{
    uint32_t crc = tl_crc32c_mask(tl_crc32c(0, data, size));
    for (int i = 0; i < TAIL; i++) tail[i] = (char)(crc >> 8 * i);
}

void tl_tfrecord_add(tl_str *out, const void *data, size_t size)
{
    char head[HEAD], tail[TAIL];
    make_head(head, size);
    make_tail(tail, data, size);
    tl_str_addn(out, head, HEAD);
    tl_str_addn(out, data, size);
    tl_str_addn(out, tail, TAIL);
}

tl_status tl_tfrecord_writer_begin(tl_tfrecord_writer **out, const char *path,
                                   const tl_tfrecord_writer_args *args)
{
    *out = NULL;
    tl_tfrecord_writer *w = tl_alloc_zero(sizeof *w);
    if (!w) return TL_FAIL_NOMEM(sizeof *w);
    tl_status st = TL_OK;
    if (args && args->gzip) TL_TRY_DONE(st, tli_gzip_begin(&w->gzip, args->level));
    TL_TRY_DONE(st, tl_file_writer_begin(&w->file, path));
    *out = w;
    w = NULL;
done:
    tl_tfrecord_writer_abort(&w);
    return st;
}

static tl_status put(tl_tfrecord_writer *w, const void *data, size_t size, bool last)
{
    if (!w->gzip) return tl_file_writer_write(w->file, data, size);
    TL_TRY(tli_gzip_add(w->gzip, &w->packed, data, size, last));
    TL_TRY(tl_file_writer_write(w->file, tl_str_text(&w->packed), w->packed.length));
    tl_str_cut(&w->packed, 0);
    return TL_OK;
}

tl_status tl_tfrecord_write(tl_tfrecord_writer *w, const void *data, size_t size)
{
    char head[HEAD], tail[TAIL];
    make_head(head, size);
    make_tail(tail, data, size);
    TL_TRY(put(w, head, HEAD, false));
    TL_TRY(put(w, data, size, false));
    return put(w, tail, TAIL, false);
}

tl_status tl_tfrecord_writer_commit(tl_tfrecord_writer **writer)
{
    tl_tfrecord_writer *w = *writer;
    tl_status st = w->gzip ? put(w, "", 0, true) : TL_OK;
    if (st == TL_OK) st = tl_file_writer_commit(&w->file);
    tl_tfrecord_writer_abort(writer);
    return st;
}

void tl_tfrecord_writer_abort(tl_tfrecord_writer **writer)
{
    tl_tfrecord_writer *w = *writer;
    if (!w) return;
    tl_file_writer_abort(&w->file);
    tli_gzip_end(&w->gzip);
    tl_str_deinit(&w->packed);
    tl_free(w);
    *writer = NULL;
}
