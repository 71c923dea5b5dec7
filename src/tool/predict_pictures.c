/* `tilth predict --pictures`: answers drawn into their pictures, and what these are called.
 *
 * Names are those that are told, with their folders: photos/a.jpg becomes FOLDER/photos/a.jpg.png.
 * They may be a stranger's (records have names of their own), so that nothing in them leads out of
 * the folder, and no two pictures of a call become one file. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/io/image/image.h>
#include <tilth/io/image/png.h>

#include "base/inner/utf8.h"
#include "tool/predict.h"

enum {
    LONGEST_PART = 200, /* of a name: file systems take 255, and endings come behind it */
    DEEPEST = 64
};

/* --- names ------------------------------------------------------------------------------------ */

/* The next part of the name, without what a terminal would obey, cut between characters where it is
 * too long. */
static void add_part(tl_str *out, const char *part, size_t length)
{
    if (out->length) tl_str_addc(out, '/');
    for (size_t i = 0, n; i < length && i < LONGEST_PART; i += n) {
        n = (size_t)tli_utf8_length(part + i);
        bool plain = n > 1 || (n == 1 && !iscntrl((unsigned char)part[i]));
        if (n < 1) n = 1;
        if (plain && i + n <= length) tl_str_addn(out, part + i, n);
        else tl_str_addc(out, '_');
    }
}

/* "/photos/../cat.jpg" becomes "photos/cat.jpg", "all.tfrecord[3]" becomes "all.tfrecord_3". */
static tl_status add_stem(tl_str *out, const char *file)
{
    int parts = 0;
    size_t length;
    for (const char *at = file; *at; at += length + (at[length] == '/')) {
        length = strcspn(at, "/");
        if (!length || (length == 1 && at[0] == '.') || (length == 2 && !strncmp(at, "..", 2)))
            continue;
        if (++parts > DEEPEST)
            return TL_FAIL(TL_ELIMIT, "its name has more than %d folders", DEEPEST);
        add_part(out, at, length);
    }
    if (!parts) tl_str_add(out, "picture");
    char *text = out->data;
    char *bracket = text ? strrchr(text, '[') : NULL;
    if (bracket && text[out->length - 1] == ']' && isdigit((unsigned char)bracket[1])) {
        *bracket = '_';
        tl_str_cut(out, out->length - 1);
    }
    return tl_str_status(out);
}

/* What is known under a name: some file systems know no capitals. NULL: no memory. */
static char *key_of(tl_arena *arena, const char *stem, const char *ending)
{
    char *key = tl_arena_printf(arena, "%s%s", stem, ending);
    for (char *c = key; c && *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    return key;
}

#define DRAWN ".png"
#define LABELS ".labels.png"

/* *is_free: no other picture of this call has such files, and from now on none will. */
static tl_status take(tli_asking *a, const char *stem, bool *is_free)
{
    const char *drawn = key_of(a->names, stem, DRAWN), *labels = key_of(a->names, stem, LABELS);
    if (!drawn || !labels) return TL_ENOMEM;
    *is_free = !tl_map_has(&a->drawn, drawn) && !tl_map_has(&a->drawn, labels);
    if (!*is_free) return TL_OK;
    TL_TRY(tl_map_set(&a->drawn, drawn, NULL));
    return tl_map_set(&a->drawn, labels, NULL);
}

/* The name itself or, where others had it before, with "-2", "-3", ... behind it. */
static tl_status free_stem(const char **out, tli_asking *a, const char *stem)
{
    const char *key = key_of(a->names, stem, "/"); // no file's
    bool is_free = false;
    if (!key) return TL_ENOMEM;
    uintptr_t times = (uintptr_t)tl_map_get(&a->drawn, key);
    while (!is_free) {
        *out = times++ ? tl_arena_printf(a->names, "%s-%" PRIuPTR, stem, times) : stem;
        if (!*out) return TL_ENOMEM;
        TL_TRY(take(a, *out, &is_free));
    }
    if (times > 1)
        TL_LOG_INFO("several pictures are called '%s': this one is drawn as '%s'", stem, *out);
    return tl_map_set(&a->drawn, key, (void *)times);
}

/* Where it is drawn, without an ending; the folder is made. */
static tl_status find_place(const char **out, tli_asking *a, const char *file)
{
    tl_str stem = TL_STR_INIT;
    const char *name = NULL;
    tl_status st = add_stem(&stem, file);
    if (st == TL_OK) st = free_stem(&name, a, tl_str_text(&stem));
    *out = st == TL_OK ? tl_path_join(a->names, a->flags->pictures, name) : NULL;
    tl_str_deinit(&stem);
    TL_TRY(st);
    const char *folder = *out ? tl_path_dirname(a->names, *out) : NULL;
    return folder ? tl_mkdirs(folder) : TL_ENOMEM;
}

/* --- what is read stays as it is -------------------------------------------------------------- */

tl_status tli_check_apart(const tli_asking *a, const char *path)
{
    if (!a->flags->pictures) return TL_OK;
    char *inner = realpath(path, NULL), *outer = realpath(a->flags->pictures, NULL);
    const size_t length = outer ? strlen(outer) : 0;
    const bool inside = inner && outer && strncmp(inner, outer, length) == 0
                        && (inner[length] == '/' || !inner[length]);
    free(inner);
    free(outer);
    if (!inside) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "'%s' lies in --pictures=%s, where what is drawn could take its place: name "
                   "another folder",
                   path, a->flags->pictures);
}

/* --- pictures --------------------------------------------------------------------------------- */

static tl_status copy_pixels(tl_image *out, const tl_query *q)
{
    const int64_t height = q->shape.dims[0], width = q->shape.dims[1];
    const int64_t channels = q->shape.rank == 3 ? q->shape.dims[2] : 1;
    const uint8_t *from = q->data;
    TL_TRY(tl_image_resize_memory(out, height, width, 3));
    for (int64_t i = 0; i < height * width * 3; i++)
        out->pixels[i] = from[i / 3 * channels + (channels >= 3 ? i % 3 : 0)];
    return TL_OK;
}

/* As the model has seen it. */
static tl_status decode(tl_image *out, const tl_query *q)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    const tl_image_args args = {.channels = 3, .orient = !q->of_data};
    if (q->shape.rank) return copy_pixels(out, q);
    if (q->data) return tl_image_decode(out, q->data, q->size, &args);
    TL_TRY(tl_file_map(&file, q->file));
    tl_status st = tl_image_decode(out, file.data, file.size, &args);
    tl_file_unmap(&file);
    return st;
}

static tl_status write_png(const char **path, tl_arena *arena, const char *place,
                           const char *ending, const tl_png_image *image)
{
    tl_str png = TL_STR_INIT;
    const char *whole = tl_arena_printf(arena, "%s%s", place, ending);
    tl_status st = !whole                ? TL_ENOMEM
                   : image->channels > 1 ? tl_png_encode(&png, image)
                                         : tl_png_encode_flat(&png, image);
    if (st == TL_OK) st = tl_file_write_atomic(whole, tl_str_text(&png), png.length);
    if (st == TL_OK) *path = whole;
    tl_str_deinit(&png);
    return st;
}

static tl_status write_all(tli_asking *a, tl_image *image, tli_telling *t)
{
    const tl_prediction *found = t->answer;
    const tl_pixels picture = tl_pixels_of(image);
    const char *place;
    // A file that has changed meanwhile is another picture.
    if (found->pixels && (found->height != image->height || found->width != image->width))
        return TL_FAIL(TL_EIO, "it was replaced while it was looked at");
    a->teller->draw(&picture, t);
    TL_TRY(find_place(&place, a, t->file));
    TL_TRY(write_png(&t->picture, a->names, place, DRAWN,
                     &(tl_png_image){image->width, image->height, 3, image->pixels}));
    if (!found->pixels) return TL_OK;
    return write_png(
        &t->labels, a->names, place, LABELS,
        &(tl_png_image){found->width, found->height, 1, (uint8_t *)(uintptr_t)found->pixels});
}

tl_status tli_draw_answer(tli_asking *a, const tl_query *query, tli_telling *t)
{
    tl_image image = TL_IMAGE_INIT;
    tl_status st = decode(&image, query);
    if (st == TL_OK) st = write_all(a, &image, t);
    tl_image_deinit(&image);
    return st == TL_OK ? TL_OK : tl_error_note(st, "--pictures: '%s'", t->file);
}

void tli_json_pictures(tli_json *j, const tli_telling *t)
{
    if (t->picture) tli_json_text(j, "picture", t->picture);
    if (t->labels) tli_json_text(j, "labels", t->labels);
}
