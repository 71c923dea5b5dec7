#include "tool/data_objects.h"

#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>
#include <tilth/io/image/png.h>

void tli_objects_deinit(tli_objects *o)
{
    TL_VEC_FREE(o);
    tl_str_deinit(&o->masks);
}

static tl_status add_mask(tl_str *out, const tl_rle *mask)
{
    size_t bytes = (size_t)(mask->height * mask->width);
    tl_png_image image = {mask->width, mask->height, 1, tl_alloc(bytes)};
    if (!image.pixels) return TL_FAIL_NOMEM(bytes);
    tl_rle_to_pixels(image.pixels, mask);
    tl_status st = tl_png_encode(out, &image);
    tl_free(image.pixels);
    return st;
}

tl_status tli_objects_add(tli_objects *o, const tli_object *object, const tl_rle *mask)
{
    tli_object kept = *object;
    if (mask) TL_TRY(add_mask(&o->masks, mask));
    kept.mask_end = o->masks.length;
    return TL_VEC_PUSH(o, kept) ? TL_OK : TL_ENOMEM;
}

/* The columns of the features, in one piece of memory. */
typedef struct columns {
    float *sides[4], *areas;
    int64_t *labels, *crowds;
    tl_bytes *names, *masks;
} columns;

static tl_status make_columns(columns *c, void **memory, int64_t count)
{
    size_t n = (size_t)count,
           bytes = n * (2 * sizeof(tl_bytes) + 2 * sizeof(int64_t) + 5 * sizeof(float));
    char *at = *memory = tl_alloc(bytes);
    if (!at) return TL_FAIL_NOMEM(bytes);
    c->names = (tl_bytes *)at;
    c->masks = c->names + n;
    c->labels = (int64_t *)(c->masks + n);
    c->crowds = c->labels + n;
    c->areas = (float *)(c->crowds + n);
    for (int i = 0; i < 4; i++) c->sides[i] = c->areas + (i + 1) * count;
    return TL_OK;
}

static void fill(columns *c, const tli_objects *o, int64_t height, int64_t width)
{
    size_t from = 0;
    for (int64_t i = 0; i < o->count; i++) {
        const tli_object *x = &o->items[i];
        for (int s = 0; s < 4; s++)
            c->sides[s][i] = (float)(x->box[s] / (double)(s % 2 ? height : width));
        c->labels[i] = x->label;
        c->crowds[i] = x->crowd;
        c->areas[i] = (float)x->area;
        c->names[i] = (tl_bytes){x->name, strlen(x->name)};
        if (o->masks.length) c->masks[i] = (tl_bytes){o->masks.data + from, x->mask_end - from};
        from = x->mask_end;
    }
}

tl_status tli_objects_write(tl_example_writer *w, const tli_objects *o, int64_t height,
                            int64_t width, bool masks)
{
    static const char *const sides[] = {"image/object/bbox/xmin", "image/object/bbox/ymin",
                                        "image/object/bbox/xmax", "image/object/bbox/ymax"};
    columns c = {0};
    void *memory;
    if (!o->count) return TL_OK;
    TL_TRY(make_columns(&c, &memory, o->count));
    fill(&c, o, height, width);
    for (int s = 0; s < 4; s++) tl_example_add_floats(w, sides[s], c.sides[s], o->count);
    tl_example_add_bytes(w, "image/object/class/text", c.names, o->count);
    tl_example_add_ints(w, "image/object/class/label", c.labels, o->count);
    tl_example_add_ints(w, "image/object/is_crowd", c.crowds, o->count);
    tl_example_add_floats(w, "image/object/area", c.areas, o->count);
    if (masks) tl_example_add_bytes(w, "image/object/mask", c.masks, o->count);
    tl_free(memory);
    return TL_OK;
}
