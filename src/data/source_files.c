#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/data/image_folder.h>
#include <tilth/data/source.h>
#include <tilth/io/idx.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <unistd.h>

#include "base/inner/file_io.h"

/* --- TFRecords -------------------------------------------------------------------------------- */

/* A file, opened when it is first needed, by one thread and outside of the lock. Plain ones are
 * mapped and stay; inflated ones may be given back while nobody reads in them. */
typedef struct record_file {
    const char *path;
    tl_tfrecord_file *file;            /* under the lock, as all below */
    _Atomic(tl_tfrecord_file *) plain; /* the same once it is known to stay */
    bool opening;                      /* somebody is at it */
    bool given_back;                   /* it was here before */
    int64_t readers;                   /* of an inflated one */
    uint64_t used;                     /* when it was last asked for */
} record_file;

typedef struct tfrecords {
    tl_source base;
    record_file *files;
    size_t keep, inflated; /* bytes of inflated files: wanted at most, there are */
    bool grown;            /* more is kept than was wanted */
    uint64_t clock;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool locked; /* lock and condition were made */
} tfrecords;

// Gives back what was not used for the longest time, until there is room.
static void make_room(tfrecords *t, const record_file *but)
{
    while (t->inflated > t->keep) {
        record_file *oldest = NULL;
        for (int64_t i = 0; i < t->base.parts; i++) {
            record_file *f = &t->files[i];
            if (!f->file || f == but || f->readers || !tl_tfrecord_is_packed(f->file)) continue;
            if (!oldest || f->used < oldest->used) oldest = f;
        }
        if (!oldest) return;
        t->inflated -= (size_t)tl_tfrecord_size(oldest->file);
        tl_tfrecord_close(&oldest->file);
        oldest->given_back = true;
    }
}

// Files that come back in the middle of their records were given back too early: all that is in use
// is kept.
static void keep_more(tfrecords *t)
{
    if (t->inflated <= t->keep) return;
    if (!t->grown)
        TL_LOG_WARNING("compressed TFRecords: the files that are read at a time need more than the "
                       "%zu bytes that are kept inflated; they are kept all the same. A smaller "
                       "cycle_length or shuffle buffer, or plain files, need less memory",
                       t->keep);
    t->grown = true;
    t->keep = t->inflated;
}

static tl_status open_unlocked(tfrecords *t, record_file *f)
{
    tl_tfrecord_file *file;
    f->opening = true;
    pthread_mutex_unlock(&t->lock);
    tl_status st = tl_tfrecord_open(&file, f->path, NULL);
    pthread_mutex_lock(&t->lock);
    f->opening = false;
    pthread_cond_broadcast(&t->opened);
    f->file = file; // NULL after a failure
    return st;
}

static tl_status open_locked(tfrecords *t, record_file *f, bool first)
{
    while (f->opening) pthread_cond_wait(&t->opened, &t->lock);
    if (!f->file) {
        TL_TRY(open_unlocked(t, f));
        if (tl_tfrecord_is_packed(f->file)) {
            t->inflated += (size_t)tl_tfrecord_size(f->file);
            if (f->given_back && !first) keep_more(t);
            make_room(t, f);
        } else {
            atomic_store_explicit(&f->plain, f->file, memory_order_release);
        }
    }
    f->used = ++t->clock;
    f->readers++;
    return TL_OK;
}

// The file, to be handed back with end_use. `first`: its records are begun with.
static tl_status begin_use(tfrecords *t, int64_t part, bool first, const tl_tfrecord_file **out)
{
    record_file *f = &t->files[part];
    *out = atomic_load_explicit(&f->plain, memory_order_acquire);
    if (*out) return TL_OK;
    pthread_mutex_lock(&t->lock);
    tl_status st = open_locked(t, f, first);
    *out = f->file;
    pthread_mutex_unlock(&t->lock);
    return st;
}

static void end_use(tfrecords *t, int64_t part)
{
    record_file *f = &t->files[part];
    if (atomic_load_explicit(&f->plain, memory_order_acquire)) return;
    pthread_mutex_lock(&t->lock);
    f->readers--;
    pthread_mutex_unlock(&t->lock);
}

static tl_status tfrecords_step(tl_source *s, tl_record_at *at, bool *more)
{
    tfrecords *t = (tfrecords *)s;
    const tl_tfrecord_file *file;
    tl_tfrecord r;
    TL_TRY(begin_use(t, at->part, at->offset == 0, &file));
    tl_status st = tl_tfrecord_head(file, at->offset, at->number, &r, more);
    end_use(t, at->part);
    if (st != TL_OK || !*more) return st;
    at->offset = r.next;
    at->number++;
    return TL_OK;
}

static tl_status read_record(const tl_tfrecord_file *file, const tl_record_at *at, tl_sample *out)
{
    tl_tfrecord r;
    bool more = true;
    TL_TRY(tl_tfrecord_at(file, at->offset, at->number, &r, &more));
    if (!more)
        return TL_FAIL(TL_EINVAL, "'%s' ends at byte %" PRId64 ", before record %" PRId64,
                       tl_tfrecord_path(file), at->offset, at->number);
    out->record = r.data;
    out->record_size = r.size;
    if (!tl_tfrecord_is_packed(file)) return TL_OK;
    char *copy = tl_sample_scratch(out, r.size); // the file may be gone when the sample is used
    if (!copy) return TL_ENOMEM;
    if (r.size) memcpy(copy, r.data, r.size);
    out->record = copy;
    return TL_OK;
}

static tl_status tfrecords_read(tl_source *s, const tl_record_at *at, tl_sample *out)
{
    tfrecords *t = (tfrecords *)s;
    const tl_tfrecord_file *file;
    TL_TRY(begin_use(t, at->part, false, &file));
    tl_status st = read_record(file, at, out);
    end_use(t, at->part);
    return st;
}

static const char *tfrecords_part_name(const tl_source *s, int64_t part)
{
    return ((const tfrecords *)s)->files[part].path;
}

static void tfrecords_dispose(tl_source *s)
{
    tfrecords *t = (tfrecords *)s;
    for (int64_t i = 0; t->files && i < s->parts; i++) tl_tfrecord_close(&t->files[i].file);
    if (!t->locked) return;
    pthread_cond_destroy(&t->opened);
    pthread_mutex_destroy(&t->lock);
}

static const tl_source_class tfrecords_class = {
    .name = "tfrecords",
    .size = sizeof(tfrecords),
    .step = tfrecords_step,
    .read = tfrecords_read,
    .part_name = tfrecords_part_name,
    .dispose = tfrecords_dispose,
};

static tl_status check_file(const char *path, bool *empty)
{
    tl_file_info info;
    TL_TRY(tl_file_stat(&info, path));
    if (!info.exists) return TL_FAIL(TL_ENOTFOUND, "'%s' does not exist", path);
    if (info.is_dir)
        return TL_FAIL(TL_EINVAL, "'%s' is a folder; a file of TFRecords is expected", path);
    *empty = info.is_regular && !info.size;
    return TL_OK;
}

// TensorFlow reads a file of no bytes as one of no records; among others it may be meant, but
// seldom is.
static tl_status note_empty(const char *path, int64_t empty, int64_t count)
{
    if (empty == count && count == 1)
        return TL_FAIL(TL_EINVAL, "'%s' is empty: it has 0 bytes, and no records to read", path);
    if (empty == count)
        return TL_FAIL(TL_EINVAL,
                       "all %" PRId64
                       " files are empty, '%s' as well: they have 0 bytes, and no records to read",
                       count, path);
    TL_LOG_WARNING("%" PRId64 " of %" PRId64
                   " files of records %s empty: '%s' has 0 bytes. Was it cut short?",
                   empty, count, empty == 1 ? "is" : "are", path);
    return TL_OK;
}

static tl_status fill_tfrecords(tfrecords *t, const char *const *paths, int64_t count)
{
    t->files = tl_arena_array(t->base.arena, count, sizeof *t->files);
    if (!t->files) return TL_ENOMEM;
    t->base.parts = count;
    if (pthread_mutex_init(&t->lock, NULL) != 0)
        return TL_FAIL(TL_EIO, "the system has no lock to give");
    if (pthread_cond_init(&t->opened, NULL) != 0) {
        pthread_mutex_destroy(&t->lock);
        return TL_FAIL(TL_EIO, "the system has no condition to give");
    }
    t->locked = true;
    int64_t empties = 0, last = 0;
    for (int64_t i = 0; i < count; i++) {
        bool empty = false;
        TL_TRY(check_file(paths[i], &empty));
        empties += empty;
        if (empty) last = i;
        t->files[i].path = tl_arena_strdup(t->base.arena, paths[i]);
        if (!t->files[i].path) return TL_ENOMEM;
        atomic_init(&t->files[i].plain, NULL);
    }
    return empties ? note_empty(paths[last], empties, count) : TL_OK;
}

tl_status tl_source_tfrecords(tl_source **out, const char *const *paths, int64_t count,
                              const tl_tfrecords_args *args)
{
    *out = NULL;
    if (count < 1) return TL_FAIL(TL_EINVAL, "source of TFRecords: there are no files");
    TL_TRY(tl_source_new(out, &tfrecords_class));
    tfrecords *t = (tfrecords *)*out;
    t->keep = args && args->keep ? args->keep : (size_t)4 << 30;
    tl_status st = fill_tfrecords(t, paths, count);
    if (st != TL_OK) tl_source_free(out);
    return st;
}

/* --- idx files -------------------------------------------------------------------------------- */

typedef struct idx_files {
    tl_source base;
    tl_idx *files;
    tl_shape *shapes; /* of one item */
    const char **names, **paths;
    int64_t count;
} idx_files;

static tl_status idx_length(tl_source *s, int64_t part, int64_t *records)
{
    (void)part;
    *records = ((idx_files *)s)->files[0].shape.dims[0];
    return TL_OK;
}

static tl_status idx_read(tl_source *s, const tl_record_at *at, tl_sample *out)
{
    const idx_files *f = (const idx_files *)s;
    for (int64_t i = 0; i < f->count; i++) {
        TL_TRY(tl_file_mapping_check(&f->files[i].mapped, f->paths[i]));
        TL_TRY(tl_sample_show(out, f->names[i], f->files[i].dtype, f->shapes[i],
                              tl_idx_item(&f->files[i], at->number)));
    }
    return TL_OK;
}

static const char *idx_part_name(const tl_source *s, int64_t part)
{
    (void)part;
    return ((const idx_files *)s)->paths[0];
}

static void idx_dispose(tl_source *s)
{
    idx_files *f = (idx_files *)s;
    for (int64_t i = 0; i < f->count; i++) tl_idx_close(&f->files[i]);
}

static const tl_source_class idx_class = {
    .name = "idx",
    .size = sizeof(idx_files),
    .length = idx_length,
    .read = idx_read,
    .part_name = idx_part_name,
    .dispose = idx_dispose,
};

static tl_status open_idx(idx_files *f, const tl_idx_field *field)
{
    tl_idx *file = &f->files[f->count];
    if (!field->name || !*field->name)
        return TL_FAIL(TL_EINVAL, "the field of '%s' has no name", field->path);
    for (int64_t i = 0; i < f->count; i++)
        if (strcmp(f->names[i], field->name) == 0)
            return TL_FAIL(TL_EEXISTS, "'%s' and '%s' are both to be the field '%s'", f->paths[i],
                           field->path, field->name);
    f->names[f->count] = tl_arena_strdup(f->base.arena, field->name);
    f->paths[f->count] = tl_arena_strdup(f->base.arena, field->path);
    if (!f->names[f->count] || !f->paths[f->count]) return TL_ENOMEM;
    TL_TRY(tl_idx_open(file, field->path));
    f->shapes[f->count] = tl_shape_of(file->shape.rank - 1, file->shape.dims + 1);
    f->count++;
    if (file->shape.dims[0] != f->files[0].shape.dims[0])
        return TL_FAIL(TL_EINVAL,
                       "'%s' has %" PRId64 " items, but '%s' has %" PRId64
                       ": they do not belong together",
                       field->path, file->shape.dims[0], f->paths[0], f->files[0].shape.dims[0]);
    return TL_OK;
}

static tl_status fill_idx(idx_files *f, const tl_idx_field *fields, int64_t count)
{
    tl_arena *arena = f->base.arena;
    f->base.parts = 1;
    f->base.in_memory = true;
    f->files = tl_arena_array(arena, count, sizeof *f->files);
    f->shapes = tl_arena_array(arena, count, sizeof *f->shapes);
    f->names = tl_arena_array(arena, count, sizeof *f->names);
    f->paths = tl_arena_array(arena, count, sizeof *f->paths);
    if (!f->files || !f->shapes || !f->names || !f->paths) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) TL_TRY(open_idx(f, &fields[i]));
    return TL_OK;
}

tl_status tl_source_idx(tl_source **out, const tl_idx_field *fields, int64_t count)
{
    *out = NULL;
    if (count < 1 || count > TL_SAMPLE_FIELDS)
        return TL_FAIL(TL_EINVAL, "there are %" PRId64 " idx files; 1 to %d are expected", count,
                       TL_SAMPLE_FIELDS);
    TL_TRY(tl_source_new(out, &idx_class));
    tl_status st = fill_idx((idx_files *)*out, fields, count);
    if (st != TL_OK) tl_source_free(out);
    return st;
}

/* --- a folder of images ----------------------------------------------------------------------- */

typedef struct folder {
    tl_source base;
    tl_image_folder list;
} folder;

static const int64_t image_limit = (int64_t)1 << 30;

static tl_status folder_length(tl_source *s, int64_t part, int64_t *records)
{
    (void)part;
    *records = ((folder *)s)->list.count;
    return TL_OK;
}

static tl_status read_whole(int fd, int64_t size, const char *path, tl_sample *out)
{
    if (size > image_limit)
        return TL_FAIL(TL_ELIMIT, "'%s' has %" PRId64 " bytes; images have at most %" PRId64, path,
                       size, image_limit);
    char *bytes = tl_sample_add(out, "image/encoded", TL_U8, TL_SHAPE(size));
    if (!bytes) return tl_error_code();
    for (int64_t at = 0; at < size;) {
        ssize_t n = read(fd, bytes + at, (size_t)(size - at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return TLI_FAIL_SYSTEM(errno, "read", path);
        if (n == 0)
            return TL_FAIL(TL_EIO,
                           "'%s' became shorter while it was read: %" PRId64 " bytes of %" PRId64,
                           path, at, size);
        at += n;
    }
    return TL_OK;
}

static tl_status folder_read(tl_source *s, const tl_record_at *at, tl_sample *out)
{
    const folder *f = (const folder *)s;
    const tl_image_file *image = &f->list.files[at->number];
    out->at.file = image->path;
    int fd;
    struct stat info;
    TL_TRY(tli_file_open(&fd, &info, image->path));
    tl_status st = read_whole(fd, info.st_size, image->path, out);
    close(fd);
    TL_TRY(st);
    return tl_sample_show(out, "image/class/label", TL_I64, TL_SCALAR, &image->label);
}

static const char *folder_part_name(const tl_source *s, int64_t part)
{
    (void)part;
    return ((const folder *)s)->list.path;
}

static const tl_source_class folder_class = {
    .name = "image folder",
    .size = sizeof(folder),
    .length = folder_length,
    .read = folder_read,
    .part_name = folder_part_name,
};

// What should be known of the folder, a line of the log each.
static tl_status tell(const tl_image_folder *list)
{
    tl_str notes = TL_STR_INIT;
    tl_image_folder_notes(&notes, list);
    tl_status st = tl_str_status(&notes);
    for (const char *at = tl_str_text(&notes); st == TL_OK && *at;) {
        size_t length = strcspn(at, "\n");
        TL_LOG_WARNING("%.*s", (int)length, at);
        at += length + (at[length] != '\0');
    }
    tl_str_deinit(&notes);
    return st;
}

tl_status tl_source_image_folder(tl_source **out, const tl_image_folder_args *args)
{
    TL_TRY(tl_source_new(out, &folder_class));
    folder *f = (folder *)*out;
    f->base.parts = 1;
    tl_status st = tl_image_folder_list(&f->list, f->base.arena, args);
    if (st == TL_OK) st = tell(&f->list);
    if (st != TL_OK) tl_source_free(out);
    return st;
}

const char *const *tl_source_class_names(const tl_source *s, int64_t *count)
{
    const folder *f = (const folder *)s;
    bool is_folder = s->cls == &folder_class;
    *count = is_folder ? f->list.class_count : 0;
    return is_folder ? f->list.classes : NULL;
}
