#include <tilth/nn/instance_metrics.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "nn/coco/instance_masks.h"

enum { POINTS = 101, MOST_COUNTS = 1 << 28 }; /* recalls at which precision is taken; of counts */

static const double usual_thresholds[] = {0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95};
static const int64_t usual_boundary[] = {640, 640};

static const tl_field fields[] = {
    TL_F(tl_instance_metrics_config, num_classes, .i = 91, TL_RANGE(2, 1 << 20),
         .help = "with the background"),
    TL_F(tl_instance_metrics_config, use_masks, .help = "masks overlap, not boxes"),
    TL_F(tl_instance_metrics_config, per_category_metrics, .help = "tell the numbers by class"),
    TL_F(tl_instance_metrics_config, iou_thresholds,
         .help = "overlaps from which on a detection is right; none: 0.5, 0.55, ... 0.95"),
    TL_F(tl_instance_metrics_config, num_confidence_bins, .i = 1000, TL_RANGE(1, 1 << 20),
         .help = "steps that scores are rounded down to"),
    TL_F(tl_instance_metrics_config, mask_output_boundary,
         .help = "height and width of the grid that masks are compared on; none: 640, 640"),
    TL_F_END,
};
const tl_desc tl_instance_metrics_desc = {
    .name = "instance_metrics",
    .help = "average precision of detections, from counts",
    .size = sizeof(tl_instance_metrics_config),
    .fields = fields,
};

typedef struct metrics {
    tl_evaluator base;
    tl_doubles thresholds;
    int64_t boundary[2];
    int64_t classes, bins; /* bins: one more than the steps, for a score of 1 */
    double *right, *wrong; /* [threshold, class, bin] */
    double *truths;        /* [class] */
} metrics;

static tl_status build(tl_evaluator *base)
{
    metrics *m = (metrics *)base;
    const tl_instance_metrics_config *c = base->config;
    const tl_ints *b = &c->mask_output_boundary;
    m->thresholds = c->iou_thresholds.count
                        ? c->iou_thresholds
                        : (tl_doubles){usual_thresholds, TL_COUNT(usual_thresholds)};
    const int64_t *sides = b->count ? b->items : usual_boundary;
    if (b->count != 0 && b->count != 2)
        return TL_FAIL(TL_EINVAL, "mask_output_boundary: a height and a width are expected");
    for (int i = 0; i < 2; i++) {
        m->boundary[i] = sides[i];
        if (sides[i] < 1 || sides[i] > TLI_INSTANCE_LONGEST)
            return TL_FAIL(TL_EINVAL, "mask_output_boundary: %" PRId64 " is not from 1 to %d",
                           sides[i], TLI_INSTANCE_LONGEST);
    }
    m->classes = c->num_classes;
    m->bins = c->num_confidence_bins + 1;
    if (m->thresholds.count > MOST_COUNTS / m->classes / m->bins)
        return TL_FAIL(TL_ELIMIT,
                       "%" PRId64 " thresholds, %" PRId64 " classes and %" PRId64
                       " bins are more than %d counts",
                       m->thresholds.count, m->classes, m->bins, MOST_COUNTS);
    int64_t counts = m->thresholds.count * m->classes * m->bins;
    m->right = tl_arena_array(base->arena, counts, sizeof *m->right);
    m->wrong = tl_arena_array(base->arena, counts, sizeof *m->wrong);
    m->truths = tl_arena_array(base->arena, m->classes, sizeof *m->truths);
    return m->right && m->wrong && m->truths ? TL_OK : TL_ENOMEM;
}

static void reset(tl_evaluator *base)
{
    metrics *m = (metrics *)base;
    size_t counts = (size_t)(m->thresholds.count * m->classes * m->bins);
    memset(m->right, 0, counts * sizeof *m->right);
    memset(m->wrong, 0, counts * sizeof *m->wrong);
    memset(m->truths, 0, (size_t)m->classes * sizeof *m->truths);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* A tensor on the host, as floats; NULL items when it is not there. */
typedef struct array {
    float *items;
    tl_shape shape;
} array;

static tl_status read_array(array *out, tl_arena *arena, const tl_tensors *from, const char *name,
                            const int64_t *dims, int rank)
{
    const tl_tensor *t = tl_tensors_peek(from, name);
    char spec[TL_TENSOR_TEXT], wanted[TL_SHAPE_TEXT];
    tl_shape shape = {.rank = rank};
    if (!t) return TL_FAIL(TL_ENOTFOUND, "there is no '%s'", name);
    bool fits = t->shape.rank == rank;
    for (int i = 0; i < rank; i++) {
        shape.dims[i] = dims[i];
        fits &= !dims[i] || t->shape.dims[i] == dims[i];
    }
    if (!fits)
        return TL_FAIL(TL_EINVAL, "'%s' is %s, not %s (0: any number)", name,
                       tl_tensor_spec(spec, t), tl_shape_text(wanted, &shape));
    int64_t count = tl_tensor_count(t);
    double *numbers = tl_arena_array(arena, count + 1, sizeof *numbers);
    out->shape = t->shape;
    out->items = tl_arena_array(arena, count + 1, sizeof *out->items);
    if (!numbers || !out->items) return TL_ENOMEM;
    TL_TRY(tl_tensor_get_doubles(t, numbers, count));
    for (int64_t i = 0; i < count; i++) out->items[i] = (float)numbers[i];
    return TL_OK;
}
#define READ(b, into, from, name, ...)                                                             \
    TL_TRY(read_array((into), (b)->arena, (from), (name), (int64_t[]){__VA_ARGS__},                \
                      (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))))

typedef struct batch {
    metrics *m;
    tl_arena *arena;
    int64_t images, found, truths; /* places of each image */
    array boxes, classes, scores, masks, outer, truth_boxes, truth_classes, crowds, truth_masks,
        info;
    float *iou, *ioa; /* [found, truths] of one image */
    int64_t *order;   /* of detections, best first */
    bool *taken;      /* truths */
} batch;

static tl_status read_batch(batch *b, const tl_tensors *truths, const tl_tensors *found)
{
    bool masks = ((const tl_instance_metrics_config *)b->m->base.config)->use_masks;
    READ(b, &b->boxes, found, "detection_boxes", 0, 0, 4);
    b->images = b->boxes.shape.dims[0];
    b->found = b->boxes.shape.dims[1];
    READ(b, &b->classes, found, "detection_classes", b->images, b->found);
    READ(b, &b->scores, found, "detection_scores", b->images, b->found);
    READ(b, &b->truth_boxes, truths, "boxes", b->images, 0, 4);
    b->truths = b->truth_boxes.shape.dims[1];
    READ(b, &b->truth_classes, truths, "classes", b->images, b->truths);
    READ(b, &b->info, truths, "image_info", b->images, 4, 2);
    if (tl_tensors_peek(truths, "is_crowds"))
        READ(b, &b->crowds, truths, "is_crowds", b->images, b->truths);
    if (!masks) return TL_OK;
    READ(b, &b->masks, found, "detection_masks", b->images, b->found, 0, 0);
    READ(b, &b->truth_masks, truths, "masks", b->images, b->truths, 0, 0);
    if (tl_tensors_peek(found, "detection_outer_boxes"))
        READ(b, &b->outer, found, "detection_outer_boxes", b->images, b->found, 4);
    return TL_OK;
}

static tl_status make_room(batch *b)
{
    int64_t pairs = b->found * b->truths;
    b->iou = tl_arena_array(b->arena, pairs + 1, sizeof *b->iou);
    b->ioa = tl_arena_array(b->arena, pairs + 1, sizeof *b->ioa);
    b->order = tl_arena_array(b->arena, b->found + 1, sizeof *b->order);
    b->taken = tl_arena_array(b->arena, b->truths + 1, sizeof *b->taken);
    return b->iou && b->ioa && b->order && b->taken ? TL_OK : TL_ENOMEM;
}

static bool is_crowd(const batch *b, int64_t truth)
{
    return b->crowds.items && b->crowds.items[truth] != 0;
}

/* A class of the metric that is not the background; 0 for all others. */
static int64_t class_of(const metrics *m, float number)
{
    return number >= 1 && number < (float)m->classes ? (int64_t)number : 0;
}

/* --- overlaps --------------------------------------------------------------------------------- */

static void rescale(float *boxes, const batch *b, int64_t image)
{
    const float *scale = b->info.items + 8 * image + 4;
    float *at = boxes + 4 * image * b->found;
    for (int64_t i = 0; i < 4 * b->found; i++) at[i] /= scale[i % 2];
}

static bool is_padding(const float *box)
{
    return fmaxf(fmaxf(box[0], box[1]), fmaxf(box[2], box[3])) < 0;
}

static void overlap_boxes(float *iou, float *ioa, const float *found, const float *truth)
{
    float bottom = fminf(found[2], truth[2]), top = fmaxf(found[0], truth[0]);
    float right = fminf(found[3], truth[3]), left = fmaxf(found[1], truth[1]);
    float common = fmaxf(right - left, 0) * fmaxf(bottom - top, 0);
    float a = (found[2] - found[0]) * (found[3] - found[1]);
    float b = (truth[2] - truth[0]) * (truth[3] - truth[1]);
    bool none = is_padding(found) || is_padding(truth);
    *iou = none ? -1 : common / (a + b - common + 1e-8f);
    *ioa = none ? -1 : a != 0 ? common / a : 0;
}

static tl_status overlap_masks(batch *b, int64_t image)
{
    int64_t first = image * b->found, from = image * b->truths;
    float *boxes = b->outer.items ? b->outer.items : b->boxes.items;
    const tl_shape *small = &b->masks.shape, *large = &b->truth_masks.shape;
    tli_instances found = {b->found, boxes + 4 * first, small->dims[2], small->dims[3],
                           b->masks.items + first * small->dims[2] * small->dims[3]};
    tli_instances truths = {b->truths, b->truth_boxes.items + 4 * from, large->dims[2],
                            large->dims[3],
                            b->truth_masks.items + from * large->dims[2] * large->dims[3]};
    return tli_instance_overlaps(b->iou, b->ioa, &found, &truths, b->m->boundary);
}

static tl_status overlap(batch *b, int64_t image)
{
    rescale(b->boxes.items, b, image);
    if (b->outer.items) rescale(b->outer.items, b, image);
    if (b->masks.items) TL_TRY(overlap_masks(b, image));
    for (int64_t i = 0; i < b->found; i++)
        for (int64_t k = 0; k < b->truths; k++) {
            float *iou = &b->iou[i * b->truths + k], *ioa = &b->ioa[i * b->truths + k];
            if (!b->masks.items)
                overlap_boxes(iou, ioa, b->boxes.items + 4 * (image * b->found + i),
                              b->truth_boxes.items + 4 * (image * b->truths + k));
            // Crowds are matched by what of the detection is in them, others never are.
            if (is_crowd(b, image * b->truths + k)) *iou = 0;
            else *ioa = 0;
        }
    return TL_OK;
}

/* --- matching --------------------------------------------------------------------------------- */

/* Best first; of equal scores the first. */
static void sort_by_score(batch *b, int64_t image)
{
    const float *scores = b->scores.items + image * b->found;
    for (int64_t i = 0; i < b->found; i++) {
        int64_t at = i;
        for (; at > 0 && scores[b->order[at - 1]] < scores[i]; at--)
            b->order[at] = b->order[at - 1];
        b->order[at] = i;
    }
}

/* The truth that a detection is right about, or -1. */
static int64_t find_match(const batch *b, int64_t image, int64_t i, int64_t number, float threshold)
{
    int64_t best = -1;
    float most = 0;
    for (int64_t k = 0; k < b->truths; k++) {
        float iou = b->iou[i * b->truths + k];
        bool fits = !b->taken[k] && iou > threshold
                    && class_of(b->m, b->truth_classes.items[image * b->truths + k]) == number;
        if (!fits || (best >= 0 && iou <= most)) continue;
        best = k;
        most = iou;
    }
    return best;
}

static bool is_in_crowd(const batch *b, int64_t image, int64_t i, int64_t number, float threshold)
{
    for (int64_t k = 0; k < b->truths; k++)
        if (b->ioa[i * b->truths + k] > threshold
            && class_of(b->m, b->truth_classes.items[image * b->truths + k]) == number)
            return true;
    return false;
}

static void count_image(batch *b, int64_t image, int64_t t)
{
    metrics *m = b->m;
    float threshold = (float)m->thresholds.items[t];
    memset(b->taken, 0, (size_t)b->truths * sizeof *b->taken);
    for (int64_t n = 0; n < b->found; n++) {
        int64_t i = b->order[n], at = image * b->found + i;
        int64_t number = class_of(m, b->classes.items[at]);
        float place = b->scores.items[at] * (float)(m->bins - 1);
        if (!number) continue;
        int64_t match = find_match(b, image, i, number, threshold);
        if (match >= 0) b->taken[match] = true;
        // Scores that are no shares have no bin, but take what they match.
        if (!(place > -1 && place < (float)m->bins)) continue;
        int64_t count = (t * m->classes + number) * m->bins + (int64_t)place;
        if (match >= 0) m->right[count]++;
        else if (!is_in_crowd(b, image, i, number, threshold)) m->wrong[count]++;
    }
}

static tl_status count_all(batch *b)
{
    metrics *m = b->m;
    for (int64_t image = 0; image < b->images; image++) {
        TL_TRY(overlap(b, image));
        sort_by_score(b, image);
        for (int64_t t = 0; t < m->thresholds.count; t++) count_image(b, image, t);
    }
    for (int64_t i = 0; i < b->images * b->truths; i++)
        if (!is_crowd(b, i)) m->truths[class_of(m, b->truth_classes.items[i])]++;
    m->truths[0] = 0;
    return TL_OK;
}

static tl_status update(tl_evaluator *base, const tl_tensors *groundtruths,
                        const tl_tensors *predictions)
{
    batch b = {.m = (metrics *)base};
    TL_TRY(tl_arena_new(&b.arena));
    tl_status st = read_batch(&b, groundtruths, predictions);
    if (st == TL_OK) st = make_room(&b);
    if (st == TL_OK) st = count_all(&b);
    tl_arena_free(&b.arena);
    return st;
}

/* --- results ---------------------------------------------------------------------------------- */

/* The mean, over recalls from 0 to 1, of the best precision at that recall or a higher one. */
static double average_precision(const metrics *m, int64_t t, int64_t number)
{
    const double *right = m->right + (t * m->classes + number) * m->bins;
    const double *wrong = m->wrong + (t * m->classes + number) * m->bins;
    double best[POINTS] = {0}, tp = 0, fp = 0, sum = 0;
    int reached = 0; // points below it have their best from a higher bin, or are updated below
    for (int64_t bin = m->bins - 1; bin >= 0; bin--) {
        if (right[bin] == 0 && wrong[bin] == 0) continue;
        tp += right[bin];
        fp += wrong[bin];
        float precision = (float)(tp / (tp + fp)), recall = (float)(tp / m->truths[number]);
        while (reached < POINTS && recall >= (reached == POINTS - 1 ? 1 : (float)reached * 0.01f))
            reached++;
        for (int i = 0; i < reached; i++) best[i] = fmax(best[i], (double)precision);
    }
    for (int i = 0; i < POINTS; i++) sum += best[i];
    return sum / POINTS;
}

static tl_status put(tl_logs *into, bool masks, int percent, int64_t number, double value)
{
    char name[64], at[16] = "", of[32] = "";
    if (percent) snprintf(at, sizeof at, "%d", percent);
    if (number) snprintf(of, sizeof of, " ByCategory/%" PRId64, number);
    snprintf(name, sizeof name, "%sap%s%s", masks ? "mask_" : "", at, of);
    return tl_logs_put(into, name, value);
}

static int percent_of(double threshold)
{
    int percent = (int)(threshold * 100 + 1e-6);
    return percent == 50 || percent == 75 ? percent : 0;
}

/* Of one class, or of all that occur: the means are then those of these. */
static tl_status put_means(tl_logs *into, const metrics *m, const double *ap, int64_t number)
{
    const tl_instance_metrics_config *c = m->base.config;
    int64_t count = m->thresholds.count;
    double mean = 0;
    for (int64_t t = 0; t < count; t++) mean += ap[t] / (double)count;
    TL_TRY(put(into, c->use_masks, 0, number, mean));
    for (int64_t t = 0; t < count; t++) {
        int percent = percent_of(m->thresholds.items[t]);
        if (percent) TL_TRY(put(into, c->use_masks, percent, number, ap[t]));
    }
    return TL_OK;
}

static tl_status result(tl_evaluator *base, tl_logs *into)
{
    const metrics *m = (const metrics *)base;
    const tl_instance_metrics_config *c = base->config;
    size_t count = (size_t)m->thresholds.count, bytes = 2 * count * sizeof(double);
    double *sums = tl_alloc_zero(bytes), *ap = sums + count, valid = 0;
    tl_status st = TL_OK;
    if (!sums) return TL_FAIL_NOMEM(bytes);
    for (int64_t k = 1; k < m->classes; k++) valid += m->truths[k] != 0;
    // Those of all stand first.
    for (int round = 0; st == TL_OK && round < (c->per_category_metrics ? 2 : 1); round++) {
        for (int64_t k = 1; st == TL_OK && k < m->classes; k++) {
            if (m->truths[k] == 0) continue;
            for (int64_t t = 0; t < m->thresholds.count; t++) {
                ap[t] = average_precision(m, t, k);
                if (!round) sums[t] += ap[t] / valid;
            }
            if (round) st = put_means(into, m, ap, k);
        }
        if (!round) st = put_means(into, m, sums, 0);
    }
    tl_free(sums);
    return st;
}

const tl_evaluator_class tl_instance_metrics_class = {
    .cls =
        TL_CLASS(tl_evaluator_class, "instance_metrics", NULL, metrics, &tl_instance_metrics_desc,
                 .help = "average precision of detections, from counts"),
    .build = build,
    .update = update,
    .result = result,
    .reset = reset,
};
