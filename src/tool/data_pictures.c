/* `tilth data show --pictures`: what records say of their images, drawn upon them. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/data/draw.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/example.h>

#include "base/inner/clean.h"
#include "tool/data.h"

enum { IMAGE, YMIN, XMIN, YMAX, XMAX, LABEL, TEXT, MASK, CLASSES, FEATURES };
static const char *const names[FEATURES] = {
    "image/encoded",           "image/object/bbox/ymin", "image/object/bbox/xmin",
    "image/object/bbox/ymax",  "image/object/bbox/xmax", "image/object/class/label",
    "image/object/class/text", "image/object/mask",      "image/segmentation/class/encoded",
};

/* A record while it is drawn. Lists are in the arena. */
typedef struct drawing {
    tl_feature f[FEATURES];
    tl_arena *arena;
    tl_image image, map; /* RGB; one channel */
    tl_pixels picture;
    float *sides[4]; /* from ymin on */
    int64_t *labels;
    tl_bytes *texts, *masks; /* NULL: there are none */
} drawing;

/* --- what the record holds -------------------------------------------------------------------- */

static tl_status read_bytes(tl_bytes **out, drawing *d, int which, int64_t count)
{
    *out = NULL;
    if (d->f[which].kind == TL_FEATURE_NONE) return TL_OK;
    *out = tl_arena_array(d->arena, count ? count : 1, sizeof **out);
    return *out ? tl_feature_bytes(&d->f[which], names[which], *out, count) : TL_ENOMEM;
}

static tl_status read_objects(drawing *d, int64_t count)
{
    size_t floats = sizeof *d->sides[0];
    for (int i = 0; i < 4; i++) {
        d->sides[i] = tl_arena_array(d->arena, count ? count : 1, floats);
        if (!d->sides[i]) return TL_ENOMEM;
        TL_TRY(tl_feature_floats(&d->f[YMIN + i], names[YMIN + i], d->sides[i], count));
    }
    d->labels = tl_arena_array(d->arena, count ? count : 1, sizeof *d->labels);
    if (!d->labels) return TL_ENOMEM;
    if (d->f[LABEL].kind != TL_FEATURE_NONE)
        TL_TRY(tl_feature_ints(&d->f[LABEL], names[LABEL], d->labels, count));
    TL_TRY(read_bytes(&d->texts, d, TEXT, count));
    return read_bytes(&d->masks, d, MASK, count);
}

/* A PNG of one channel, as large as the image. */
static tl_status read_map(drawing *d, tl_bytes png, const char *name)
{
    TL_TRY_NOTE(tl_image_decode(&d->map, png.data, png.size, &(tl_image_args){.channels = 1}), "%s",
                name);
    if (d->map.height == d->image.height && d->map.width == d->image.width) return TL_OK;
    return TL_FAIL(TL_EDATA,
                   "%s: it has %" PRId64 " x %" PRId64 " pixels, but the image %" PRId64
                   " x %" PRId64,
                   name, d->map.height, d->map.width, d->image.height, d->image.width);
}

/* --- drawing ---------------------------------------------------------------------------------- */

static tl_status draw_classes(drawing *d)
{
    enum { IGNORED = 255 };
    tl_bytes png;
    if (d->f[CLASSES].kind == TL_FEATURE_NONE) return TL_OK;
    TL_TRY(tl_feature_bytes(&d->f[CLASSES], names[CLASSES], &png, 1));
    TL_TRY(read_map(d, png, names[CLASSES]));
    tl_draw_classes(&d->picture, d->map.pixels, IGNORED, TL_DRAW_ALPHA);
    return TL_OK;
}

static void draw_box(drawing *d, int64_t i)
{
    char text[64];
    double box[4];
    for (int s = 0; s < 4; s++)
        box[s] = (double)d->sides[s][i] * (double)(s % 2 ? d->image.width : d->image.height);
    if (d->texts && d->texts[i].size)
        snprintf(text, sizeof text, "%.*s", (int)(d->texts[i].size < 60 ? d->texts[i].size : 60),
                 d->texts[i].data);
    else snprintf(text, sizeof text, "%" PRId64, d->labels[i]);
    tl_draw_box(&d->picture, box, tl_draw_color(d->labels[i]), text);
}

/* Masks below all frames, so that no label is covered. */
static tl_status draw_objects(drawing *d)
{
    int64_t count = d->f[YMIN].count;
    if (d->f[YMIN].kind == TL_FEATURE_NONE) return TL_OK;
    TL_TRY(read_objects(d, count));
    for (int64_t i = 0; d->masks && i < count; i++) {
        TL_TRY(read_map(d, d->masks[i], names[MASK]));
        tl_draw_mask(&d->picture, d->map.pixels, tl_draw_color(d->labels[i]), TL_DRAW_ALPHA);
    }
    for (int64_t i = 0; i < count; i++) draw_box(d, i);
    return TL_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static tl_status write_picture(tl_str *out, const drawing *d, const char *records, int64_t number,
                               const tli_data_flags *given)
{
    tl_png_image image = {d->image.width, d->image.height, 3, d->image.pixels};
    const char *name =
        tl_arena_printf(d->arena, "%s-%" PRId64 ".png", tl_path_basename(records), number);
    const char *path = name ? tl_path_join(d->arena, given->pictures, name) : NULL;
    tl_str png = TL_STR_INIT;
    if (!path) return TL_ENOMEM;
    if (!given->overwrite && tl_file_exists(path))
        return TL_FAIL(TL_EEXISTS, "'%s' exists; --overwrite replaces it", path);
    TL_TRY(tl_mkdirs(given->pictures));
    tl_status st = tl_png_encode(&png, &image);
    if (st == TL_OK) st = tli_write_file(path, &png);
    tl_str_deinit(&png);
    TL_TRY(st);
    tl_str_add(out, "  drawn in ");
    tli_add_clean_word(out, path);
    tl_str_addc(out, '\n');
    return tl_str_status(out);
}

static tl_status draw(tl_str *out, drawing *d, const tl_tfrecord *r, const char *records,
                      const tli_data_flags *given)
{
    tl_bytes encoded;
    TL_TRY(tl_example_find(d->f, names, FEATURES, r->data, r->size));
    if (d->f[IMAGE].kind != TL_FEATURE_BYTES || d->f[IMAGE].count != 1) return TL_OK;
    TL_TRY(tl_feature_bytes(&d->f[IMAGE], names[IMAGE], &encoded, 1));
    tl_status st =
        tl_image_decode(&d->image, encoded.data, encoded.size, &(tl_image_args){.channels = 3});
    // Whoever looks through the records tells of images that cannot be decoded.
    if (st != TL_OK) return st == TL_ENOMEM ? st : TL_OK;
    d->picture = tl_pixels_of(&d->image);
    TL_TRY(draw_classes(d));
    TL_TRY(draw_objects(d));
    return write_picture(out, d, records, r->number, given);
}

tl_status tli_data_picture(tl_str *out, const tl_tfrecord *r, const char *records,
                           const tli_data_flags *given)
{
    drawing d = {.image = TL_IMAGE_INIT, .map = TL_IMAGE_INIT};
    TL_TRY(tl_arena_new(&d.arena));
    tl_status st = draw(out, &d, r, records, given);
    if (st == TL_EINVAL || st == TL_EDATA)
        st = tl_error_note(TL_EDATA, "'%s', record %" PRId64, records, r->number);
    tl_image_deinit(&d.image);
    tl_image_deinit(&d.map);
    tl_arena_free(&d.arena);
    return st;
}
