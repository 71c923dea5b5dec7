#include "nn/coco/instance_masks.h"

#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

/* Pixels of masks are bits: rows of whole words. */
typedef struct grid {
    int64_t height, width, words; /* words of a row */
    uint64_t *bits;               /* masks one after the other, detections first */
    int64_t *areas;
} grid;

/* --- boxes ------------------------------------------------------------------------------------ */

/* What all boxes are moved by, and made smaller by. */
typedef struct fitting {
    float top, left, ratio;
} fitting;

static bool is_valid(const float *box)
{
    return box[2] - box[0] > 0 || box[3] - box[1] > 0;
}

static void take_corner(fitting *f, const tli_instances *in)
{
    for (int64_t i = 0; i < in->count; i++) {
        const float *box = in->boxes + 4 * i;
        if (!is_valid(box)) continue;
        f->top = fminf(f->top, box[0]);
        f->left = fminf(f->left, box[1]);
    }
}

static void take_ratio(fitting *f, const tli_instances *in, const int64_t boundary[2])
{
    for (int64_t i = 0; i < in->count; i++) {
        const float *box = in->boxes + 4 * i;
        if (!is_valid(box)) continue;
        f->ratio = fminf(f->ratio, (float)boundary[0] / fmaxf(box[2] - f->top, 0));
        f->ratio = fminf(f->ratio, (float)boundary[1] / fmaxf(box[3] - f->left, 0));
    }
}

static void fit_box(float out[4], const float *box, const fitting *f)
{
    for (int i = 0; i < 4; i++)
        out[i] = is_valid(box) ? (box[i] - (i % 2 ? f->left : f->top)) * f->ratio : 0;
}

/* --- masks ------------------------------------------------------------------------------------ */

/* The first whole number from `edge` on, within the grid. */
static int64_t pixel_from(float edge, int64_t side)
{
    if (!(edge > 0)) return 0;
    return edge >= (float)side ? side : (int64_t)ceilf(edge);
}

/* Where the middle of a pixel lies in the mask: between rows `at` and `at` + 1, so much towards the
 * second. */
typedef struct between {
    int64_t at, next;
    float share;
} between;

static between place_in(float pixel, float low, float scale, int64_t side)
{
    float place = (pixel - low + 0.5f) * scale - 0.5f;
    place = fminf(fmaxf(place, 0), (float)(side - 1));
    int64_t at = tl_clamp_i64((int64_t)place, 0, tl_max_i64(side - 2, 0));
    return (between){at, tl_min_i64(at + 1, side - 1), place - (float)at};
}

static float value_at(const float *row, between x)
{
    // What is padding is no part of a mask.
    return fmaxf(row[x.at], 0) * (1 - x.share) + fmaxf(row[x.next], 0) * x.share;
}

static int64_t paste(uint64_t *bits, const grid *g, const tli_instances *in, int64_t index,
                     const float box[4])
{
    const float *mask = in->masks + index * in->height * in->width;
    float height = box[2] - box[0], width = box[3] - box[1];
    if (!(height > 0 && width > 0) || !in->height || !in->width) return 0;
    float scale_y = (float)in->height / height, scale_x = (float)in->width / width;
    int64_t bottom = pixel_from(box[2], g->height), right = pixel_from(box[3], g->width), area = 0;
    for (int64_t y = pixel_from(box[0], g->height); y < bottom; y++) {
        between row = place_in((float)y, box[0], scale_y, in->height);
        const float *upper = mask + row.at * in->width, *lower = mask + row.next * in->width;
        for (int64_t x = pixel_from(box[1], g->width); x < right; x++) {
            between column = place_in((float)x, box[1], scale_x, in->width);
            float value =
                value_at(upper, column) * (1 - row.share) + value_at(lower, column) * row.share;
            if (!(value > 0.5f)) continue;
            bits[y * g->words + x / 64] |= UINT64_C(1) << x % 64;
            area++;
        }
    }
    return area;
}

static void paste_all(grid *g, const tli_instances *in, int64_t first, const fitting *f)
{
    for (int64_t i = 0; i < in->count; i++) {
        float box[4];
        fit_box(box, in->boxes + 4 * i, f);
        g->areas[first + i] = paste(g->bits + (first + i) * g->height * g->words, g, in, i, box);
    }
}

static int64_t common_bits(const grid *g, int64_t a, int64_t b)
{
    int64_t words = g->height * g->words, common = 0;
    const uint64_t *x = g->bits + a * words, *y = g->bits + b * words;
    if (!g->areas[a] || !g->areas[b]) return 0;
    for (int64_t i = 0; i < words; i++) common += __builtin_popcountll(x[i] & y[i]);
    return common;
}

tl_status tli_instance_overlaps(float *iou, float *ioa, const tli_instances *found,
                                const tli_instances *truths, const int64_t boundary[2])
{
    int64_t all = found->count + truths->count;
    grid g = {boundary[0], boundary[1], tl_div_up(boundary[1], 64), NULL, NULL};
    fitting f = {INFINITY, INFINITY, 1};
    int64_t words = g.height * g.words;
    if (!all) return TL_OK;
    if (all > INT64_MAX / 16 / (words + 1)) return TL_FAIL_NOMEM(SIZE_MAX);
    size_t bytes = (size_t)(all * (words + 1)) * sizeof *g.bits;
    g.bits = tl_alloc_zero(bytes);
    if (!g.bits) return TL_FAIL_NOMEM(bytes);
    g.areas = (int64_t *)(g.bits + all * words);
    take_corner(&f, found);
    take_corner(&f, truths);
    take_ratio(&f, found, boundary);
    take_ratio(&f, truths, boundary);
    paste_all(&g, found, 0, &f);
    paste_all(&g, truths, found->count, &f);
    for (int64_t i = 0; i < found->count; i++)
        for (int64_t k = 0; k < truths->count; k++) {
            int64_t common = common_bits(&g, i, found->count + k);
            int64_t either = g.areas[i] + g.areas[found->count + k] - common;
            iou[i * truths->count + k] = either ? (float)common / (float)either : 0;
            ioa[i * truths->count + k] = g.areas[i] ? (float)common / (float)g.areas[i] : 0;
        }
    tl_free(g.bits);
    return TL_OK;
}
