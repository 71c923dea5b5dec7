#include <tilth/io/coco/records.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/io/image/image.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

enum {
    ENCODED,
    ID,
    HEIGHT,
    WIDTH,
    YMIN,
    XMIN,
    YMAX,
    XMAX,
    LABEL,
    AREA,
    CROWD,
    TEXT,
    MASK,
    FEATURES
};
static const char *const names[FEATURES] = {
    [ENCODED] = "image/encoded",
    [ID] = "image/source_id",
    [HEIGHT] = "image/height",
    [WIDTH] = "image/width",
    [YMIN] = "image/object/bbox/ymin",
    [XMIN] = "image/object/bbox/xmin",
    [YMAX] = "image/object/bbox/ymax",
    [XMAX] = "image/object/bbox/xmax",
    [LABEL] = "image/object/class/label",
    [AREA] = "image/object/area",
    [CROWD] = "image/object/is_crowd",
    [TEXT] = "image/object/class/text",
    [MASK] = "image/object/mask",
};

/* A record on its way into a set. */
typedef struct record {
    tl_feature f[FEATURES];
    tl_arena *arena;
    int64_t count; /* objects */
    tl_coco_image image;
    tl_image_head head;
    float *sides[4], *areas; /* areas, crowds, texts, masks: NULL when there are none */
    int64_t *labels, *crowds;
    tl_bytes *texts, *masks;
} record;

/* --- lists ------------------------------------------------------------------------------------ */

/* Room for a value of each object; NULL, and fine, where the record has no such list. */
static tl_status begin_list(void **out, record *r, int which, size_t size, bool needed)
{
    *out = NULL;
    if (!needed && !r->f[which].count) return TL_OK;
    if (r->f[which].count != r->count)
        return TL_FAIL(TL_EDATA, "'%s' has %" PRId64 " values for %" PRId64 " objects",
                       names[which], r->f[which].count, r->count);
    *out = tl_arena_array(r->arena, r->count ? r->count : 1, size);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status read_floats(float **out, record *r, int which, bool needed)
{
    TL_TRY(begin_list((void **)out, r, which, sizeof **out, needed));
    if (!*out || !r->count) return TL_OK;
    return tl_feature_floats(&r->f[which], names[which], *out, r->count);
}

static tl_status read_ints(int64_t **out, record *r, int which, bool needed)
{
    TL_TRY(begin_list((void **)out, r, which, sizeof **out, needed));
    if (!*out || !r->count) return TL_OK;
    return tl_feature_ints(&r->f[which], names[which], *out, r->count);
}

static tl_status read_bytes(tl_bytes **out, record *r, int which, bool needed)
{
    TL_TRY(begin_list((void **)out, r, which, sizeof **out, needed));
    if (!*out || !r->count) return TL_OK;
    return tl_feature_bytes(&r->f[which], names[which], *out, r->count);
}

static tl_status read_lists(record *r, bool masks)
{
    r->count = r->f[YMIN].count;
    for (int i = 0; i < 4; i++) TL_TRY(read_floats(&r->sides[i], r, YMIN + i, true));
    TL_TRY(read_floats(&r->areas, r, AREA, false));
    TL_TRY(read_ints(&r->labels, r, LABEL, true));
    TL_TRY(read_ints(&r->crowds, r, CROWD, false));
    TL_TRY(read_bytes(&r->texts, r, TEXT, false));
    return masks ? read_bytes(&r->masks, r, MASK, true) : TL_OK;
}

/* --- the image -------------------------------------------------------------------------------- */

static tl_status read_id(record *r, const tl_bytes *encoded, const tl_coco_records_args *args)
{
    char digits[24], *end;
    tl_bytes text = {"", 0};
    if (!args->regenerate_id && r->f[ID].kind != TL_FEATURE_NONE)
        TL_TRY(tl_feature_bytes(&r->f[ID], names[ID], &text, 1));
    if (!text.size) {
        if (!args->make_id)
            return TL_FAIL(TL_EDATA, "'%s' is missing or empty; each image needs a number",
                           names[ID]);
        r->image.id = args->make_id(encoded->data, encoded->size);
        return TL_OK;
    }
    snprintf(digits, sizeof digits, "%.*s", (int)(text.size < 24 ? text.size : 23), text.data);
    r->image.id = strtoll(digits, &end, 10);
    bool good = strlen(digits) == text.size && !*end && end > digits && text.size < 20
                && strspn(digits, "-0123456789") == text.size;
    if (good) return TL_OK;
    return TL_FAIL(TL_EDATA, "'%s' is '%.*s', but images of COCO have whole numbers", names[ID],
                   (int)(text.size < 80 ? text.size : 80), text.data);
}

/* The side that the record tells, or that of the image. */
static tl_status read_side(int64_t *out, const record *r, int which, int64_t of_image)
{
    *out = of_image;
    if (!r->f[which].count) return TL_OK;
    TL_TRY(tl_feature_ints(&r->f[which], names[which], out, 1));
    if (*out >= 1 && *out <= TL_RLE_LONGEST) return TL_OK;
    return TL_FAIL(TL_EDATA, "'%s' is %" PRId64, names[which], *out);
}

static tl_status read_image(record *r, const tl_coco_records_args *args)
{
    tl_bytes encoded;
    TL_TRY(tl_feature_bytes(&r->f[ENCODED], names[ENCODED], &encoded, 1));
    TL_TRY_NOTE(tl_image_look(&r->head, encoded.data, encoded.size), "'%s'", names[ENCODED]);
    TL_TRY(read_side(&r->image.height, r, HEIGHT, r->head.height));
    TL_TRY(read_side(&r->image.width, r, WIDTH, r->head.width));
    return read_id(r, &encoded, args);
}

/* --- objects ---------------------------------------------------------------------------------- */

static tl_status read_mask(tl_rle *out, const tl_bytes *png)
{
    tl_image image = TL_IMAGE_INIT;
    TL_TRY(tl_image_decode(&image, png->data, png->size, &(tl_image_args){.channels = 1}));
    tl_status st = tl_rle_from_pixels(out, image.pixels, image.height, image.width);
    tl_image_deinit(&image);
    return st;
}

/* Where the category of this id is, or would have to be, in a list that is sorted by them. */
static int64_t place_of(const tl_coco_set *set, int64_t id)
{
    int64_t low = 0, high = set->categories.count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (set->categories.items[middle].id < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

static tl_status add_category(tl_coco_set *set, const record *r, int64_t index)
{
    enum { MOST = 1 << 16 };
    int64_t id = r->labels[index], at = place_of(set, id), count = set->categories.count;
    if (at < count && set->categories.items[at].id == id) return TL_OK;
    if (count == MOST)
        return TL_FAIL(TL_ELIMIT, "the records up to here have more than %d classes", MOST);
    const tl_bytes *text = r->texts ? &r->texts[index] : NULL;
    const char *name = text ? tl_arena_strndup(r->arena, text->data, text->size) : NULL;
    if (text && !name) return TL_ENOMEM;
    TL_TRY(tl_coco_add_category(set, id, name));
    tl_coco_category *items = set->categories.items, added = items[count];
    memmove(items + at + 1, items + at, (size_t)(count - at) * sizeof *items);
    items[at] = added;
    return TL_OK;
}

// In float32, as the original computes it.
static void set_box(tl_coco_object *o, const record *r, int64_t i)
{
    float edges[4];
    for (int s = 0; s < 4; s++)
        edges[s] = r->sides[s][i] * (float)(s % 2 ? r->head.width : r->head.height);
    o->box[0] = edges[1];
    o->box[1] = edges[0];
    o->box[2] = edges[3] - edges[1];
    o->box[3] = edges[2] - edges[0];
    float area = (r->sides[2][i] - r->sides[0][i]) * (r->sides[3][i] - r->sides[1][i]);
    o->area = r->areas ? r->areas[i] : area * (float)r->image.height * (float)r->image.width;
}

static tl_status add_object(tl_coco_set *set, const record *r, int64_t i)
{
    tl_coco_object o = {.image = r->image.id, .category = r->labels[i]};
    o.crowd = r->crowds && r->crowds[i] != 0;
    set_box(&o, r, i);
    TL_TRY(add_category(set, r, i));
    if (r->masks) {
        TL_TRY_NOTE(read_mask(&o.mask, &r->masks[i]), "'%s' of object %" PRId64, names[MASK], i);
        if (o.mask.height != r->head.height || o.mask.width != r->head.width) {
            tl_status st =
                TL_FAIL(TL_EDATA,
                        "'%s' of object %" PRId64 " has %" PRId64 " x %" PRId64
                        " pixels, but the image %" PRId64 " x %" PRId64,
                        names[MASK], i, o.mask.height, o.mask.width, r->head.height, r->head.width);
            tl_rle_deinit(&o.mask);
            return st;
        }
    }
    TL_TRY_NOTE(tl_coco_add_object(set, &o), "object %" PRId64, i);
    return TL_OK;
}

tl_status tl_coco_add_example(tl_coco_set *set, const void *data, size_t size,
                              const tl_coco_records_args *args)
{
    record r = {.count = 0};
    tl_status st;
    TL_TRY(tl_arena_new(&r.arena));
    TL_TRY_DONE(st, tl_example_find(r.f, names, FEATURES, data, size));
    TL_TRY_DONE(st, read_image(&r, args));
    TL_TRY_DONE(st, read_lists(&r, args->masks));
    TL_TRY_DONE(st, tl_coco_add_image(set, &r.image));
    for (int64_t i = 0; i < r.count; i++) TL_TRY_DONE(st, add_object(set, &r, i));
done:
    tl_arena_free(&r.arena);
    return st == TL_EINVAL || st == TL_ENOTFOUND ? tl_error_note(TL_EDATA, "the example") : st;
}

/* --- files ------------------------------------------------------------------------------------ */

static tl_status add_records(tl_coco_set *set, const tl_tfrecord_file *f,
                             const tl_coco_records_args *args)
{
    tl_tfrecord_cursor at = {.file = f};
    tl_tfrecord r;
    for (bool more = true;;) {
        if (args->examples > 0 && set->images.count == args->examples) return TL_OK;
        TL_TRY(tl_tfrecord_next(&at, &r, &more));
        if (!more) return TL_OK;
        TL_TRY_NOTE(tl_coco_add_example(set, r.data, r.size, args), "'%s', record %" PRId64,
                    tl_tfrecord_path(f), r.number);
    }
}

tl_status tl_coco_from_records(tl_coco_set **out, const tl_coco_records_args *args)
{
    TL_TRY(tl_coco_set_new(out));
    tl_status st = TL_OK;
    for (int64_t i = 0; st == TL_OK && i < args->paths.count; i++) {
        tl_tfrecord_file *f;
        TL_TRY_DONE(st, tl_tfrecord_open(&f, args->paths.items[i], NULL));
        st = add_records(*out, f, args);
        tl_tfrecord_close(&f);
    }
done:
    if (st != TL_OK) tl_coco_set_free(out);
    return st;
}
