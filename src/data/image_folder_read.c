/* Images of a folder as they are read once: hashes of their bytes, sizes, those that are damaged;
 * and which part of them is held out. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/file.h>
#include <tilth/base/pool.h>

#include "data/image_folder_impl.h"

/* --- hashes ----------------------------------------------------------------------------------- */

enum { WHOLE = 64 << 10, PIECE = 16 << 10 };

uint64_t tl_content_hash(const void *data, size_t size)
{
    const char *bytes = data;
    uint32_t crc;
    if (size <= WHOLE) {
        crc = tl_crc32c(0, bytes, size);
    } else {
        crc = tl_crc32c(0, bytes, PIECE);
        crc = tl_crc32c(crc, bytes + size / 2, PIECE);
        crc = tl_crc32c(crc, bytes + size - PIECE, PIECE);
    }
    // Sums of like images are alike in their bits: they are stirred, and lengths with them
    // (splitmix64).
    uint64_t x = ((uint64_t)size << 32 ^ crc) + UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

bool tl_content_held_out(uint64_t hash, double share)
{
    return (double)(hash >> 11) < share * 0x1p53;
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct reading {
    tl_image_file *files;
    char **why; /* NULL: it could be read */
    bool decode;
} reading;

static tl_status decode(tl_image_file *f, tl_image *room, const tl_file_mapping *bytes)
{
    tl_image_head head;
    TL_TRY(tl_image_look(&head, bytes->data, bytes->size));
    TL_TRY(tl_image_decode(room, bytes->data, bytes->size, NULL));
    f->bytes = bytes->size;
    f->format = head.format;
    f->turned = head.orientation != 1;
    tl_image_upright(&head);
    f->height = head.height;
    f->width = head.width;
    f->channels = head.channels;
    return TL_OK;
}

static tl_status read_one(const reading *r, tl_image_file *f, tl_image *room)
{
    tl_file_mapping bytes;
    TL_TRY(tl_file_map(&bytes, f->path));
    f->hash = tl_content_hash(bytes.data, bytes.size);
    tl_status st = r->decode ? decode(f, room, &bytes) : TL_OK;
    if (st == TL_OK) st = tl_file_mapping_check(&bytes, f->path);
    tl_file_unmap(&bytes);
    return st;
}

static char *copy_message(void)
{
    const char *text = tl_error_message();
    size_t size = strlen(text) + 1;
    char *copy = tl_alloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

static tl_status read_some(int64_t begin, int64_t end, void *payload)
{
    const reading *r = payload;
    tl_image room = TL_IMAGE_INIT;
    tl_status st = TL_OK;
    for (int64_t i = begin; i < end && st != TL_ENOMEM; i++) {
        st = read_one(r, &r->files[i], &room);
        if (st == TL_OK || st == TL_ENOMEM) continue;
        r->why[i] = copy_message();
        if (!r->why[i]) st = TL_FAIL_NOMEM(1);
    }
    tl_image_deinit(&room);
    return st == TL_ENOMEM ? st : TL_OK;
}

static tl_status read_all(reading *r, int64_t count, int threads)
{
    enum { GRAIN = 16 };
    tl_pool *pool;
    TL_TRY(tl_pool_new(&pool, count > GRAIN ? threads : 1));
    tl_status st = tl_parallel_for(pool, count, GRAIN, read_some, r);
    tl_pool_free(&pool);
    return st;
}

/* --- those that could not be read ------------------------------------------------------------- */

static tl_status refuse(const tl_bad_image *bad, int64_t count, int64_t all, const char *path)
{
    enum { MOST = 20 };
    tl_str list = TL_STR_INIT;
    for (int64_t i = 0; i < count && i < MOST; i++)
        tl_str_addf(&list, "\n  '%s': %s", bad[i].path, bad[i].why);
    if (count > MOST) tl_str_addf(&list, "\n  and %" PRId64 " more", count - MOST);
    tl_status st = TL_FAIL(TL_EIO,
                           "'%s': %" PRId64 " of %" PRId64
                           " images cannot be read; skip_bad leaves them out:%s",
                           path, count, all, tl_str_text(&list));
    tl_str_deinit(&list);
    return st;
}

static tl_status sort_out(tli_image_files *files, char *const *why, tl_image_folder *out,
                          tl_arena *arena, const tl_image_folder_args *args)
{
    int64_t good = 0, bad = 0, all = files->count;
    for (int64_t i = 0; i < all; i++) bad += why[i] != NULL;
    if (!bad) return TL_OK;
    tl_bad_image *list = tl_arena_array(arena, bad, sizeof *list);
    if (!list) return TL_ENOMEM;
    for (int64_t i = 0; i < all; i++) {
        if (!why[i]) {
            files->items[good++] = files->items[i];
            continue;
        }
        const char *reason = tl_arena_strdup(arena, why[i]);
        if (!reason) return TL_ENOMEM;
        list[out->bad_count++] = (tl_bad_image){files->items[i].path, reason};
    }
    files->count = good;
    out->bad = list;
    return args->skip_bad ? TL_OK : refuse(list, bad, all, args->path);
}

tl_status tli_image_files_read(tli_image_files *files, tl_image_folder *out, tl_arena *arena,
                               const tl_image_folder_args *args)
{
    int64_t count = files->count;
    size_t bytes = (size_t)count * sizeof(char *);
    reading r = {
        .files = files->items, .why = tl_alloc_zero(bytes ? bytes : 1), .decode = args->check};
    if (!r.why) return TL_FAIL_NOMEM(bytes);
    tl_status st = read_all(&r, count, args->threads);
    if (st == TL_OK) st = sort_out(files, r.why, out, arena, args);
    for (int64_t i = 0; i < count; i++) tl_free(r.why[i]);
    tl_free(r.why);
    return st;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* What a class is divided by: content below `limit` is held out, or as far as the share says. */
typedef struct division {
    double share;
    bool all_trained;     /* there is one image, however often */
    bool lowest_held;     /* the share reaches none: the lowest one is */
    bool highest_trained; /* the share reaches all: the highest one is not */
    uint64_t lowest, highest;
} division;

static division divide(const tl_image_file *files, int64_t count, double share)
{
    division d = {.share = share, .lowest = files[0].hash, .highest = files[0].hash};
    for (int64_t i = 1; i < count; i++) {
        if (files[i].hash < d.lowest) d.lowest = files[i].hash;
        if (files[i].hash > d.highest) d.highest = files[i].hash;
    }
    d.all_trained = d.lowest == d.highest;
    d.lowest_held = !tl_content_held_out(d.lowest, share);
    d.highest_trained = tl_content_held_out(d.highest, share);
    return d;
}

static bool is_held_out(const division *d, uint64_t hash)
{
    if (d->all_trained) return false;
    if (d->lowest_held) return hash == d->lowest;
    if (d->highest_trained && hash == d->highest) return false;
    return tl_content_held_out(hash, d->share);
}

void tli_image_files_split(tli_image_files *files, const tl_image_folder_args *args)
{
    bool held = args->part == TL_HOLDOUT_VALIDATION;
    int64_t kept = 0;
    for (int64_t from = 0, to; from < files->count; from = to) {
        for (to = from; to < files->count && files->items[to].label == files->items[from].label;)
            to++;
        division d = divide(files->items + from, to - from, args->holdout);
        for (int64_t i = from; i < to; i++)
            if (is_held_out(&d, files->items[i].hash) == held)
                files->items[kept++] = files->items[i];
    }
    files->count = kept;
}
