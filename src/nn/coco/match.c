#include "nn/coco/coco.h"

#include <math.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

/* An object while its cell is matched. */
typedef struct truth {
    double left, top, right, bottom, area; /* of the box */
    const tl_rle *mask;
    int64_t pixels;   /* of the mask */
    uint64_t ignored; /* bit by bit as in tli_coco_found: it does not count */
    uint64_t taken;   /* a detection has it already; never set for crowds */
    bool crowd;
} truth;

typedef struct candidate {
    double overlap;
    truth *truth;
} candidate;

struct tli_coco_scratch {
    truth *truths;
    candidate *candidates;
};

tl_status tli_coco_scratch_new(tli_coco_scratch **out, int64_t truths)
{
    size_t bytes = sizeof **out + (size_t)truths * (sizeof(truth) + sizeof(candidate));
    *out = tl_alloc(bytes);
    if (!*out) return TL_FAIL_NOMEM(bytes);
    (*out)->truths = (truth *)(*out + 1);
    (*out)->candidates = (candidate *)((*out)->truths + truths);
    return TL_OK;
}

void tli_coco_scratch_free(tli_coco_scratch **s)
{
    tl_free(*s);
    *s = NULL;
}

double tli_coco_threshold(int i)
{
    double step = (0.95 - 0.5) / (TLI_COCO_THRESHOLDS - 1);
    return i == TLI_COCO_THRESHOLDS - 1 ? 0.95 : i * step + 0.5;
}

bool tli_coco_outside(double area, int range)
{
    static const double ranges[TLI_COCO_AREAS][2] = {
        {0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}};
    return area < ranges[range][0] || area > ranges[range][1];
}

/* The bits of all thresholds of the areas that an object lies outside of. */
static uint64_t outside_bits(double area)
{
    uint64_t bits = 0, all = (UINT64_C(1) << TLI_COCO_THRESHOLDS) - 1;
    for (int a = 0; a < TLI_COCO_AREAS; a++)
        if (tli_coco_outside(area, a)) bits |= all << (a * TLI_COCO_THRESHOLDS);
    return bits;
}

static void set_box(truth *t, const double box[4])
{
    t->left = box[0];
    t->top = box[1];
    t->right = box[2] + box[0];
    t->bottom = box[3] + box[1];
    t->area = box[2] * box[3];
}

static truth make_truth(const tl_coco_object *o, bool masks)
{
    truth t = {.crowd = o->crowd, .ignored = o->crowd ? UINT64_MAX : outside_bits(o->area)};
    double box[4];
    if (masks) {
        tl_rle_box(box, &o->mask);
        t.mask = &o->mask;
        t.pixels = tl_rle_area(&o->mask);
    }
    set_box(&t, masks ? box : o->box);
    return t;
}

static double box_common(const truth *found, const truth *t)
{
    double width = fmin(found->right, t->right) - fmax(found->left, t->left);
    if (width <= 0) return 0;
    double height = fmin(found->bottom, t->bottom) - fmax(found->top, t->top);
    return height <= 0 ? 0 : width * height;
}

static double box_overlap(const truth *found, const truth *t)
{
    double common = box_common(found, t);
    if (!(common > 0)) return 0;
    return common / (t->crowd ? found->area : found->area + t->area - common);
}

/* Exact from the least threshold on; below it, something below it. */
static double mask_overlap(const truth *found, const truth *t)
{
    // No more pixels are common than boxes have in common: most pairs need no walk along runs.
    double common = box_common(found, t);
    double most = fmin(common, (double)tl_min_i64(found->pixels, t->pixels));
    double of = t->crowd ? (double)found->pixels : (double)(found->pixels + t->pixels) - most;
    if (most < 0.5 * of || !(common > 0)) return 0;
    if (found->mask->height != t->mask->height || found->mask->width != t->mask->width) return -1;
    int64_t pixels = tl_rle_common(found->mask, t->mask);
    if (!pixels) return 0;
    return (double)pixels / (double)(t->crowd ? found->pixels : found->pixels + t->pixels - pixels);
}

/* The objects that a detection overlaps enough for the least threshold, in their order. */
static int64_t find_candidates(tli_coco_scratch *s, int64_t truth_count, const truth *found,
                               bool masks)
{
    double least = tli_coco_threshold(0);
    int64_t count = 0;
    for (int64_t i = 0; i < truth_count; i++) {
        truth *t = &s->truths[i];
        double overlap = masks ? mask_overlap(found, t) : box_overlap(found, t);
        if (!(overlap < least)) s->candidates[count++] = (candidate){overlap, t};
    }
    return count;
}

/* The object that a detection takes at one threshold and area: the one that it overlaps most, of
 * equals the last; one that is ignored only where there is no other. NULL: none. */
static truth *choose(const candidate *candidates, int64_t count, double threshold, uint64_t bit)
{
    for (int ignored = 0; ignored < 2; ignored++) {
        double best = fmin(threshold, 1 - 1e-10);
        truth *chosen = NULL;
        for (int64_t i = 0; i < count; i++) {
            truth *t = candidates[i].truth;
            if (((t->ignored & bit) != 0) != ignored || t->taken & bit) continue;
            if (candidates[i].overlap < best) continue;
            best = candidates[i].overlap;
            chosen = t;
        }
        if (chosen) return chosen;
    }
    return NULL;
}

static void match_one(tli_coco_found *f, const candidate *candidates, int64_t count)
{
    for (int i = 0; i < TLI_COCO_BITS && count; i++) {
        uint64_t bit = UINT64_C(1) << i;
        truth *t = choose(candidates, count, tli_coco_threshold(i % TLI_COCO_THRESHOLDS), bit);
        if (!t) continue;
        f->matched |= bit;
        if (t->ignored & bit) f->ignored |= bit;
        if (!t->crowd) t->taken |= bit;
    }
}

void tli_coco_match(tli_coco_cell *cell, tli_coco_scratch *s, bool masks)
{
    for (int64_t i = 0; i < cell->truth_count; i++)
        s->truths[i] = make_truth(cell->truths[i], masks);
    for (int64_t d = 0; d < cell->found_count; d++) {
        tli_coco_found *f = &cell->found[d];
        truth as_truth = {0};
        if (cell->truth_count) as_truth = make_truth(f->object, masks);
        match_one(f, s->candidates, find_candidates(s, cell->truth_count, &as_truth, masks));
        f->ignored |= outside_bits(f->object->area) & ~f->matched;
    }
}
