/* Masks: the first byte says which kind, the next two height and width. The rest is the mask:
 * corners of a polygon (two bytes for each coordinate, in steps of 1/256 of a pixel), the text of
 * runs, lengths of runs, or a PNG file, which is put into a record of detection. Polygons are
 * compared with a walk that takes every step of every edge. */
#include "fuzz.h"

#include <math.h>

#include <tilth/io/coco/records.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/example.h>

enum { SIDE = 64 };

/* --- polygons, step by step ------------------------------------------------------------------- */

typedef struct walk {
    int64_t height, width, x, y; /* where it is, on a grid of a fifth of a pixel */
    bool begun;
    bool *flips; /* of each pixel, column by column */
} walk;

static void step_to(walk *w, int64_t x, int64_t y)
{
    int64_t before_x = w->x, before_y = w->y;
    bool moved = w->begun && x != before_x;
    w->x = x;
    w->y = y;
    w->begun = true;
    if (!moved) return;
    double column = ((double)(x < before_x ? x : x - 1) + 0.5) / 5 - 0.5;
    double row = ((double)(y < before_y ? y : before_y) + 0.5) / 5 - 0.5;
    if (column != floor(column) || column < 0 || column > (double)(w->width - 1)) return;
    row = ceil(fmin(fmax(row, 0), (double)w->height));
    w->flips[(int64_t)column * w->height + (int64_t)row] ^= true;
}

static void walk_edge(walk *w, int64_t x0, int64_t y0, int64_t x1, int64_t y1)
{
    int64_t dx = llabs(x1 - x0), dy = llabs(y1 - y0), steps = dx >= dy ? dx : dy;
    bool flat = dx >= dy, back = flat ? x0 > x1 : y0 > y1;
    int64_t from_x = back ? x1 : x0, from_y = back ? y1 : y0;
    double slope = flat ? (double)((back ? y0 : y1) - from_y) / (double)dx
                        : (double)((back ? x0 : x1) - from_x) / (double)dy;
    for (int64_t i = 0; steps && i <= steps; i++) {
        int64_t t = back ? steps - i : i;
        int64_t across = (int64_t)((double)(flat ? from_y : from_x) + slope * (double)t + 0.5);
        step_to(w, flat ? from_x + t : across, flat ? across : from_y + t);
    }
}

static void check_polygon(const tl_rle *mask, const double *corners, int64_t count)
{
    static bool flips[SIDE * SIDE + 1];
    static uint8_t pixels[SIDE * SIDE];
    walk w = {.height = mask->height, .width = mask->width, .flips = flips};
    memset(flips, 0, sizeof flips);
    for (int64_t i = 0; i < count; i++) {
        const double *a = corners + 2 * i, *b = corners + 2 * ((i + 1) % count);
        walk_edge(&w, (int64_t)(5 * a[0] + 0.5), (int64_t)(5 * a[1] + 0.5),
                  (int64_t)(5 * b[0] + 0.5), (int64_t)(5 * b[1] + 0.5));
    }
    tl_rle_to_pixels(pixels, mask);
    bool inside = false;
    for (int64_t x = 0; x < mask->width; x++)
        for (int64_t y = 0; y < mask->height; y++) {
            inside ^= flips[x * mask->height + y];
            must(pixels[y * mask->width + x] == inside, "a pixel of a polygon differs");
        }
}

static tl_status from_polygon(tl_rle *out, const uint8_t *data, size_t size, int64_t height,
                              int64_t width)
{
    enum { CORNERS = 40 };
    double corners[2 * CORNERS];
    int64_t count = (int64_t)(size / 4 < CORNERS ? size / 4 : CORNERS);
    for (int64_t i = 0; i < 2 * count; i++)
        corners[i] = (int16_t)(data[2 * i] | data[2 * i + 1] << 8) / 256.0;
    TL_TRY(tl_rle_from_polygon(out, corners, count, height, width));
    if (is_chosen(data, size, 4)) check_polygon(out, corners, count);
    return TL_OK;
}

/* --- others ----------------------------------------------------------------------------------- */

static tl_status from_counts(tl_rle *out, const uint8_t *data, size_t size, int64_t height,
                             int64_t width)
{
    enum { MOST = 256 };
    int64_t counts[MOST], count = (int64_t)(size < MOST ? size : MOST);
    for (int64_t i = 0; i < count; i++) counts[i] = data[i] - (data[i] == 255);
    return tl_rle_from_counts(out, counts, count, height, width);
}

/* The file as the mask of an object whose image has this size. */
static tl_status from_png(tl_rle *out, const uint8_t *data, size_t size, int64_t height,
                          int64_t width)
{
    static uint8_t pixels[SIDE * SIDE];
    static const char *const sides[] = {"image/object/bbox/ymin", "image/object/bbox/xmin",
                                        "image/object/bbox/ymax", "image/object/bbox/xmax"};
    tl_str example = TL_STR_INIT, image = TL_STR_INIT;
    tl_coco_set *set = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_png_encode(&image, &(tl_png_image){width, height, 1, pixels}));
    tl_example_writer w = tl_example_begin(&example);
    tl_example_add_bytes(&w, "image/encoded", &(tl_bytes){image.data, image.length}, 1);
    tl_example_add_text(&w, "image/source_id", "1");
    for (int i = 0; i < 4; i++)
        tl_example_add_floats(&w, sides[i], (const float[]){(float)(i / 2)}, 1);
    tl_example_add_ints(&w, "image/object/class/label", (const int64_t[]){1}, 1);
    tl_example_add_bytes(&w, "image/object/mask", &(tl_bytes){(const char *)data, size}, 1);
    TL_TRY_DONE(st, tl_example_end(&w));
    TL_TRY_DONE(st, tl_coco_set_new(&set));
    TL_TRY_DONE(st, tl_coco_add_example(set, example.data, example.length,
                                        &(tl_coco_records_args){.masks = true}));
    *out = set->objects.items[0].mask;
    set->objects.items[0].mask = (tl_rle)TL_RLE_INIT;
done:
    tl_coco_set_free(&set);
    tl_str_deinit(&example);
    tl_str_deinit(&image);
    return st;
}

/* --- what holds for every mask ---------------------------------------------------------------- */

static void check_mask(const tl_rle *mask)
{
    static uint8_t pixels[SIDE * SIDE];
    tl_str text = TL_STR_INIT;
    tl_rle plain, again;
    int64_t area = 0, sum = 0;
    for (int64_t i = 0; i < mask->count; i++) sum += mask->counts[i];
    must(sum == mask->height * mask->width, "runs that are not as long as the mask");
    tl_rle_to_pixels(pixels, mask);
    for (int64_t i = 0; i < sum; i++) area += pixels[i];
    must(area == tl_rle_area(mask), "another area");
    must(tl_rle_from_pixels(&plain, pixels, mask->height, mask->width) == TL_OK, "no mask");
    must(tl_rle_common(&plain, mask) == area, "its pixels are another mask");
    must(tl_rle_to_text(&text, &plain) == TL_OK, "no text");
    must(tl_rle_from_text(&again, text.data, text.length, mask->height, mask->width) == TL_OK,
         "the text is refused");
    must(again.count == plain.count
             && memcmp(again.counts, plain.counts, (size_t)plain.count * sizeof *plain.counts) == 0,
         "the text reads as another mask");
    tl_rle_deinit(&again);
    tl_rle_deinit(&plain);
    tl_str_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tl_rle mask = TL_RLE_INIT;
    tl_status st;
    if (size < 3) return 0;
    int64_t height = 1 + data[1] % SIDE, width = 1 + data[2] % SIDE;
    const uint8_t *rest = data + 3;
    size -= 3;
    tl_error_clear();
    switch (data[0] % 4) {
    case 0: st = from_polygon(&mask, rest, size, height, width); break;
    case 1: st = tl_rle_from_text(&mask, (const char *)rest, size, height, width); break;
    case 2: st = from_counts(&mask, rest, size, height, width); break;
    default: st = from_png(&mask, rest, size, height, width); break;
    }
    must(st == TL_OK || (!mask.counts && *tl_error_message()), "a failure without a message");
    if (st == TL_OK && is_chosen(data, size, 2)) check_mask(&mask);
    tl_rle_deinit(&mask);
    return 0;
}
