#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/idx.h>
#include <tilth/io/image/image.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/zoo/vision.h>

#include "tool/predict.h"

enum { DEEPEST = 64 };

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), n = strlen(ending);
    return length > n && strcasecmp(path + length - n, ending) == 0;
}

/* "FILE[3]". */
static tl_status ask_item(tli_asking *a, const char *path, int64_t number, const tl_query *query)
{
    tl_str name = TL_STR_INIT;
    tl_str_addf(&name, "%s[%" PRId64 "]", path, number);
    tl_status st = tl_str_status(&name);
    if (st == TL_OK) st = tli_ask(a, tl_str_text(&name), query);
    tl_str_deinit(&name);
    return st;
}

static bool is_enough(const tli_asking *a, int64_t taken)
{
    return a->flags->count > 0 && taken >= a->flags->count;
}

/* --- idx -------------------------------------------------------------------------------------- */

/* It begins with two zeros, its type and its rank; no image does. */
static bool begins_as_idx(const tl_file_mapping *file)
{
    const char *b = file->data;
    return file->size > 4 && b[0] == 0 && b[1] == 0 && b[2] == 8 && (b[3] == 3 || b[3] == 4);
}

static tl_status ask_arrays(tli_asking *a, const char *path, const tl_idx *idx)
{
    if (idx->dtype != TL_U8 || idx->shape.rank < 3 || idx->shape.rank > 4)
        return TL_FAIL(TL_EINVAL, "%s: holds no images: expected bytes [count, height, width]",
                       path);
    tl_query q = {.size = idx->item_size,
                  .shape = TL_SHAPE(idx->shape.dims[1], idx->shape.dims[2])};
    if (idx->shape.rank > 3)
        q.shape = TL_SHAPE(idx->shape.dims[1], idx->shape.dims[2], idx->shape.dims[3]);
    for (int64_t i = 0; i < idx->shape.dims[0] && !is_enough(a, i); i++) {
        q.data = tl_idx_item(idx, i);
        TL_TRY(ask_item(a, path, i, &q));
    }
    return TL_OK;
}

static tl_status ask_idx(tli_asking *a, const char *path)
{
    tl_idx idx;
    TL_TRY(tl_idx_open(&idx, path));
    tl_status st = ask_arrays(a, path, &idx);
    if (st == TL_OK) st = tli_ask_flush(a);
    tl_idx_close(&idx);
    return st;
}

/* --- records ---------------------------------------------------------------------------------- */

/* The feature that holds images, as the run has it. */
static const char *image_key(const tli_asking *a)
{
    const tl_object object = tli_answering(tl_predictor_finished(a->p)->params);
    const tl_task_config *task = object.value;
    const tl_data_config *data = task->validation_data ? task->validation_data : task->train_data;
    return data && tl_desc_is(object.desc, &tl_image_task_config_desc)
               ? ((const tl_image_data_config *)data)->image_field_key
               : "image/encoded";
}

static bool is_text(const tl_feature *f, const char *name, tl_bytes *out)
{
    return f->kind == TL_FEATURE_BYTES && f->count == 1
           && tl_feature_bytes(f, name, out, 1) == TL_OK;
}

/* Pixels that are not encoded come with their size. */
static tl_status shape_raw(tl_query *q, const tl_feature sizes[3])
{
    static const char *const names[] = {"image/height", "image/width", "image/channels"};
    int64_t n[3];
    for (int i = 0; i < 3; i++) TL_TRY(tl_feature_ints(&sizes[i], names[i], &n[i], 1));
    if (n[0] < 1 || n[1] < 1 || n[2] < 1 || n[2] > 4 || n[0] > (int64_t)q->size / n[1]
        || (size_t)(n[0] * n[1] * n[2]) != q->size)
        return TL_FAIL(TL_EINVAL,
                       "%zu bytes are no raw image of %" PRId64 " x %" PRId64 " x %" PRId64,
                       q->size, n[0], n[1], n[2]);
    q->shape = TL_SHAPE(n[0], n[1], n[2]);
    return TL_OK;
}

static tl_status ask_example(tli_asking *a, const char *path, const tl_tfrecord *r)
{
    const char *const names[] = {image_key(a),   "image/filename", "image/format",
                                 "image/height", "image/width",    "image/channels"};
    tl_feature f[TL_COUNT(names)];
    tl_bytes image, name, format;
    TL_TRY(tl_example_find(f, names, TL_COUNT(names), r->data, r->size));
    TL_TRY(tl_feature_bytes(&f[0], names[0], &image, 1));
    tl_query q = {.data = image.data, .size = image.size, .of_data = true};
    if (is_text(&f[2], names[2], &format) && format.size == 3 && memcmp(format.data, "raw", 3) == 0)
        TL_TRY(shape_raw(&q, f + 3));
    if (!is_text(&f[1], names[1], &name) || !name.size) return ask_item(a, path, r->number, &q);
    char *own = tl_arena_strndup(a->names, name.data, name.size);
    return own ? tli_ask(a, own, &q) : TL_ENOMEM;
}

static tl_status ask_records(tli_asking *a, tl_tfrecord_file *file)
{
    tl_tfrecord_cursor at = {.file = file};
    tl_tfrecord r;
    const char *path = tl_tfrecord_path(file);
    for (bool more = true; !is_enough(a, at.number);) {
        TL_TRY(tl_tfrecord_next(&at, &r, &more));
        if (!more) break;
        tl_status st = ask_example(a, path, &r);
        if (st != TL_OK)
            st = tli_ask_failed(a, tl_error_note(st, "%s[%" PRId64 "]", path, r.number));
        TL_TRY(st);
    }
    return TL_OK;
}

/* *is_one is false, and nothing was asked, when it does not begin as such files do. */
static tl_status ask_tfrecord(tli_asking *a, const char *path, bool *is_one)
{
    tl_tfrecord_file *file;
    *is_one = true;
    TL_TRY(tl_tfrecord_open(&file, path, NULL));
    *is_one = tl_tfrecord_begins(file);
    tl_status st = *is_one ? ask_records(a, file) : TL_OK;
    tl_status rest = tli_ask_flush(a); // what came before a damaged record is answered
    tl_tfrecord_close(&file);
    return st == TL_OK ? rest : st;
}

/* --- files ------------------------------------------------------------------------------------ */

typedef enum file_kind { ONE_IMAGE, IDX, RECORDS, COMPRESSED } file_kind;

static tl_status look(file_kind *out, const char *path)
{
    tl_file_mapping file;
    *out = ONE_IMAGE;
    TL_TRY(tl_file_map(&file, path));
    if (tl_image_format_of(file.data, file.size) == TL_FORMAT_UNKNOWN) {
        bool gzip = file.size > 2 && (unsigned char)file.data[0] == 0x1f
                    && (unsigned char)file.data[1] == 0x8b;
        *out = gzip ? COMPRESSED : begins_as_idx(&file) ? IDX : RECORDS;
    }
    tl_file_unmap(&file);
    return TL_OK;
}

/* A compressed one may be either; who takes it for his own says what is wrong with it. */
static tl_status ask_compressed(tli_asking *a, const char *path)
{
    bool records;
    tl_error why;
    tl_status st = ask_idx(a, path);
    if (st != TL_EINVAL) return st;
    tl_error_save(&why);
    st = ask_tfrecord(a, path, &records);
    if (records) return st;
    tl_error_restore(&why);
    return TL_EINVAL;
}

static tl_status ask_file(tli_asking *a, const char *path)
{
    bool records = true;
    file_kind kind;
    TL_TRY(tli_check_apart(a, path));
    TL_TRY(look(&kind, path));
    if (kind == IDX) return ask_idx(a, path);
    if (kind == COMPRESSED) return ask_compressed(a, path);
    if (kind == RECORDS) TL_TRY(ask_tfrecord(a, path, &records));
    // what is no image says so
    return kind == RECORDS && records ? TL_OK : tli_ask(a, path, &(tl_query){0});
}

/* --- folders ---------------------------------------------------------------------------------- */

/* Formats that cannot be read are refused by their names, not passed over. */
static bool is_image(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png", ".gif",
                                          ".bmp", ".webp", ".tif", ".tiff"};
    for (int64_t i = 0; i < TL_COUNT(endings); i++)
        if (ends_in(name, endings[i])) return true;
    return false;
}

/* All that lies in a folder and below it. */
typedef struct walk {
    tli_asking *asking;
    bool (*is_wanted)(const char *path);
    tl_status (*ask)(tli_asking *a, const char *path);
    /* folders, by device and inode: links may lead to the same one again and again */
    tl_map seen;
    int64_t found; /* files that are wanted */
} walk;

static tl_status note_folder(walk *w, const char *path, bool *is_new)
{
    struct stat info, drawn;
    char key[64];
    const char *pictures = w->asking->flags->pictures;
    *is_new = false;
    if (stat(path, &info) != 0)
        return TL_FAIL(TL_EIO, "cannot look into '%s': %s", path, strerror(errno));
    if (pictures && stat(pictures, &drawn) == 0 && drawn.st_dev == info.st_dev
        && drawn.st_ino == info.st_ino) {
        TL_LOG_INFO("'%s' is skipped: --pictures draws into it", path);
        return TL_OK;
    }
    snprintf(key, sizeof key, "%" PRIuMAX " %" PRIuMAX, (uintmax_t)info.st_dev,
             (uintmax_t)info.st_ino);
    *is_new = !tl_map_has(&w->seen, key);
    if (!*is_new) TL_LOG_INFO("'%s' is skipped: it leads to a folder that was read already", path);
    return tl_map_set(&w->seen, key, NULL);
}

static tl_status ask_folder(walk *w, const char *path, int depth)
{
    tl_path_list paths;
    tl_arena *arena;
    bool is_new;
    if (depth > DEEPEST)
        return TL_FAIL(TL_ELIMIT, "'%s' lies deeper than %d folders", path, DEEPEST);
    TL_TRY(note_folder(w, path, &is_new));
    if (!is_new) return TL_OK;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_dir_list(&paths, arena, path);
    for (int64_t i = 0; i < paths.count && st == TL_OK; i++) {
        if (tl_dir_exists(paths.items[i])) {
            st = ask_folder(w, paths.items[i], depth + 1);
        } else if (w->is_wanted(paths.items[i])) {
            w->found++;
            st = w->ask(w->asking, paths.items[i]);
        }
        if (st != TL_OK) st = tli_ask_failed(w->asking, st);
    }
    tl_arena_free(&arena);
    return st;
}

tl_status tli_ask_below(tli_asking *a, const char *path, bool (*is_wanted)(const char *path),
                        tl_status (*ask)(tli_asking *a, const char *path), int64_t *found)
{
    walk w = {.asking = a, .is_wanted = is_wanted, .ask = ask, .seen = TL_MAP_INIT};
    tl_status st = ask_folder(&w, path, 0);
    tl_map_deinit(&w.seen);
    *found = w.found;
    return st;
}

tl_status tli_ask_images(tli_asking *a, const char *path)
{
    int64_t found;
    if (!tl_dir_exists(path)) return ask_file(a, path);
    TL_TRY(tli_check_apart(a, path));
    tl_status st = tli_ask_below(a, path, is_image, ask_file, &found);
    if (st != TL_OK || found) return st;
    return TL_FAIL(TL_EINVAL,
                   "'%s' holds no image: no file in it, nor below it, ends in .jpg, .jpeg or .png",
                   path);
}
