/* What is computed with boxes by other ops. */
#include <tilth/ops/boxes.h>

#include <inttypes.h>
#include <math.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "ops/axes.h"
#include "ops/ops.h"

enum { YMIN, XMIN, YMAX, XMAX, SIDES };

static const double tiny = 1e-8;                  /* added to what is divided by */
static const double most_log = 4.135166556742356; /* log(1000 / 16): no box grows beyond */

// The four columns of boxes, each [.., 1]. False: the context failed.
static bool sides_of(tl_ctx *c, tl_tensor **out, tl_tensor *boxes, const char *name)
{
    char spec[TL_TENSOR_TEXT];
    if (!tli_there(c, boxes, name)) return false;
    const tl_shape *s = &boxes->shape;
    if (s->rank < 1 || s->dims[s->rank - 1] != SIDES) {
        (void)TL_FAIL(TL_EINVAL, "boxes are %s and must have 4 numbers along the last axis",
                      tl_tensor_spec(spec, boxes));
        tli_fail(c, name);
        return false;
    }
    tl_split_even(c, boxes, -1, SIDES, out);
    return !tl_ctx_failed(c);
}

// Two of them in one type, of at least 32 bits, and their columns. False: the context failed.
static bool pair_of(tl_ctx *c, tl_tensor **a, tl_tensor **b, tl_tensor **a_sides,
                    tl_tensor **b_sides, const char *name)
{
    if (!tli_there(c, *a, name) || !tli_there(c, *b, name)) return false;
    *a = tli_widen(c, *a);
    *b = tli_widen(c, *b);
    return tli_meet(c, a, b) && sides_of(c, a_sides, *a, name) && sides_of(c, b_sides, *b, name);
}

static tl_tensor *middle(tl_ctx *c, tl_tensor *low, tl_tensor *size)
{
    return tl_add(c, low, tl_scale(c, size, 0.5));
}

/* --- code ------------------------------------------------------------------------------------- */

tl_tensor *tl_box_encode(tl_ctx *c, tl_tensor *boxes, tl_tensor *anchors, const double *weights)
{
    tl_tensor *b[SIDES], *a[SIDES], *code[SIDES];
    if (!pair_of(c, &boxes, &anchors, b, a, "box_encode")) return NULL;
    for (int i = 0; i < 2; i++) {
        tl_tensor *size = tl_sub(c, b[YMAX + i], b[YMIN + i]);
        tl_tensor *anchor = tl_sub(c, a[YMAX + i], a[YMIN + i]);
        tl_tensor *apart = tl_sub(c, middle(c, b[i], size), middle(c, a[i], anchor));
        anchor = tl_shift(c, anchor, tiny);
        code[i] = tl_div(c, apart, anchor);
        code[2 + i] = tl_log(c, tl_div(c, tl_shift(c, size, tiny), anchor));
    }
    for (int i = 0; weights && i < SIDES; i++) code[i] = tl_scale(c, code[i], weights[i]);
    return tl_concat(c, code, SIDES, -1);
}

tl_tensor *tl_box_decode(tl_ctx *c, tl_tensor *code, tl_tensor *anchors, const double *weights)
{
    tl_tensor *t[SIDES], *a[SIDES], *box[SIDES];
    if (!pair_of(c, &code, &anchors, t, a, "box_decode")) return NULL;
    for (int i = 0; weights && i < SIDES; i++)
        t[i] = tl_div(c, t[i], tl_number(c, code->dtype, weights[i]));
    for (int i = 0; i < 2; i++) {
        tl_tensor *anchor = tl_sub(c, a[YMAX + i], a[YMIN + i]);
        tl_tensor *center = tl_add(c, tl_mul(c, t[i], anchor), middle(c, a[i], anchor));
        tl_tensor *growth = tl_exp(c, tl_clip(c, t[2 + i], -HUGE_VAL, most_log));
        tl_tensor *size = tl_mul(c, growth, anchor);
        box[i] = tl_sub(c, center, tl_scale(c, size, 0.5));
        box[2 + i] = tl_add(c, box[i], size);
    }
    return tl_concat(c, box, SIDES, -1);
}

/* --- what is inside --------------------------------------------------------------------------- */

tl_tensor *tl_box_clip(tl_ctx *c, tl_tensor *boxes, tl_tensor *size)
{
    if (!tli_there(c, boxes, "box_clip") || !tli_there(c, size, "box_clip")) return NULL;
    tl_tensor *most = tl_cast(c, tl_concat(c, (tl_tensor *[]){size, size}, 2, -1), boxes->dtype);
    return tl_clip(c, tl_minimum(c, boxes, most), 0, HUGE_VAL);
}

tl_tensor *tl_box_to_centers(tl_ctx *c, tl_tensor *boxes)
{
    tl_tensor *b[SIDES], *out[SIDES];
    if (!sides_of(c, b, boxes, "box_to_centers")) return NULL;
    for (int i = 0; i < 2; i++) {
        out[i] = tl_scale(c, tl_add(c, b[i], b[2 + i]), 0.5);
        out[2 + i] = tl_sub(c, b[2 + i], b[i]);
    }
    return tl_concat(c, out, SIDES, -1);
}

tl_tensor *tl_box_from_centers(tl_ctx *c, tl_tensor *boxes)
{
    tl_tensor *b[SIDES], *out[SIDES];
    if (!sides_of(c, b, boxes, "box_from_centers")) return NULL;
    for (int i = 0; i < 2; i++) {
        tl_tensor *half = tl_scale(c, b[2 + i], 0.5);
        out[i] = tl_sub(c, b[i], half);
        out[2 + i] = tl_add(c, b[i], half);
    }
    return tl_concat(c, out, SIDES, -1);
}

tl_tensor *tl_box_enlarge(tl_ctx *c, tl_tensor *boxes, tl_tensor *size, double scale)
{
    tl_tensor *b[SIDES];
    if (!(scale >= 1)) {
        (void)TL_FAIL(TL_EINVAL, "a scale of %g; boxes are enlarged by at least 1", scale);
        return tli_fail(c, "box_enlarge");
    }
    if (scale == 1) return boxes;
    if (!sides_of(c, b, tl_box_to_centers(c, boxes), "box_enlarge")) return NULL;
    for (int i = 2; i < SIDES; i++) b[i] = tl_scale(c, b[i], scale);
    return tl_box_clip(c, tl_box_from_centers(c, tl_concat(c, b, SIDES, -1)), size);
}

// Boxes and scores where `good` [.., n] is true; elsewhere zeros and `otherwise`.
static void filter(tl_ctx *c, tl_tensor **boxes, tl_tensor **scores, tl_tensor *good,
                   double otherwise)
{
    if (tl_ctx_failed(c)) {
        *boxes = *scores = NULL;
        return;
    }
    *scores = tl_where(c, good, *scores, tl_number(c, (*scores)->dtype, otherwise));
    *boxes = tl_where(c, tl_expand_dims(c, good, -1), *boxes, tl_number(c, (*boxes)->dtype, 0));
}

void tl_box_filter_small(tl_ctx *c, tl_tensor **boxes, tl_tensor **scores, tl_tensor *size,
                         double least)
{
    tl_tensor *b[SIDES], *good = NULL;
    if (sides_of(c, b, *boxes, "box_filter_small") && tli_there(c, *scores, "box_filter_small")
        && tli_there(c, size, "box_filter_small")) {
        tl_tensor *limit = tl_number(c, (*boxes)->dtype, fmax(least, 0));
        tl_tensor *zero = tl_number(c, (*boxes)->dtype, 0);
        size = tl_cast(c, size, (*boxes)->dtype);
        for (int i = 0; i < 2; i++) {
            tl_tensor *extent = tl_sub(c, b[YMAX + i], b[YMIN + i]);
            tl_tensor *center = middle(c, b[i], extent);
            tl_tensor *inside =
                tl_logical_and(c, tl_greater(c, center, zero),
                               tl_less(c, center, tl_expand_dims(c, tl_take(c, size, -1, i), -1)));
            inside = tl_logical_and(c, inside, tl_greater(c, extent, limit));
            good = good ? tl_logical_and(c, good, inside) : inside;
        }
        good = tl_squeeze(c, good, TL_AXES(-1));
    }
    filter(c, boxes, scores, good, 0);
}

void tl_box_filter_scores(tl_ctx *c, tl_tensor **boxes, tl_tensor **scores, double least)
{
    tl_tensor *good = NULL;
    if (tli_there(c, *boxes, "box_filter_scores") && tli_there(c, *scores, "box_filter_scores"))
        good = tl_greater(c, *scores, tl_number(c, (*scores)->dtype, least));
    filter(c, boxes, scores, good, -1);
}

/* --- overlaps --------------------------------------------------------------------------------- */

static tl_tensor *area(tl_ctx *c, tl_tensor *const *b)
{
    return tl_mul(c, tl_sub(c, b[YMAX], b[YMIN]), tl_sub(c, b[XMAX], b[XMIN]));
}

// Of the boxes whose lower sides are those of a and b brought together by `low`, and so on.
typedef tl_tensor *meet_fn(tl_ctx *c, tl_tensor *a, tl_tensor *b);
static tl_tensor *area_between(tl_ctx *c, tl_tensor *const *a, tl_tensor *const *b, meet_fn *low,
                               meet_fn *high)
{
    tl_tensor *height = tl_sub(c, high(c, a[YMAX], b[YMAX]), low(c, a[YMIN], b[YMIN]));
    tl_tensor *width = tl_sub(c, high(c, a[XMAX], b[XMAX]), low(c, a[XMIN], b[XMIN]));
    return tl_mul(c, tl_relu(c, width), tl_relu(c, height));
}

static tl_tensor *is_padding(tl_ctx *c, tl_tensor *boxes)
{
    tl_tensor *most = tl_max(c, boxes, TL_AXES(-1), true);
    return most ? tl_less(c, most, tl_number(c, most->dtype, 0)) : NULL;
}

tl_tensor *tl_box_overlap(tl_ctx *c, tl_tensor *boxes, tl_tensor *others, tl_overlap kind)
{
    tl_tensor *a[SIDES], *b[SIDES];
    if (!pair_of(c, &boxes, &others, a, b, "box_overlap")) return NULL;
    if (boxes->shape.rank < 2 || others->shape.rank < 2) {
        (void)TL_FAIL(TL_EINVAL, "boxes must be [.., n, 4], with an axis of boxes");
        return tli_fail(c, "box_overlap");
    }
    for (int i = 0; i < SIDES; i++) b[i] = tl_swap_axes(c, b[i], -1, -2);
    tl_tensor *shared = area_between(c, a, b, tl_maximum, tl_minimum), *own = area(c, a);
    tl_tensor *all = tl_shift(c, tl_sub(c, tl_add(c, own, area(c, b)), shared), tiny), *overlap;
    if (tl_ctx_failed(c)) return NULL;
    if (kind == TL_OVERLAP_IOA) {
        tl_tensor *zero = tl_number(c, own->dtype, 0), *empty = tl_equal(c, own, zero);
        overlap = tl_div(c, shared, tl_where(c, empty, tl_number(c, own->dtype, 1), own));
        overlap = tl_where(c, empty, zero, overlap);
    } else overlap = tl_div(c, shared, all);
    if (kind == TL_OVERLAP_GIOU) {
        tl_tensor *hull = tl_shift(c, area_between(c, a, b, tl_minimum, tl_maximum), tiny);
        overlap = tl_sub(c, overlap, tl_div(c, tl_sub(c, hull, all), hull));
    }
    tl_tensor *padding = tl_swap_axes(c, is_padding(c, others), -1, -2);
    if (kind != TL_OVERLAP_GIOU) padding = tl_logical_or(c, padding, is_padding(c, boxes));
    return tl_where(c, padding, tl_number(c, boxes->dtype, -1), overlap);
}
