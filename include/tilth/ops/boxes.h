/* Ops on boxes: overlaps, their code relative to anchors, who belongs to whom, who is suppressed,
 * and what a feature map shows inside of them.
 *
 *     tl_tensor *code = tl_box_encode(c, boxes, anchors, NULL);
 *     tl_tensor *back = tl_box_decode(c, code, anchors, NULL);             // boxes again
 *     tl_tensor *iou = tl_box_overlap(c, proposals, truth, TL_OVERLAP_IOU);  // [batch, n, m]
 *     tl_matches m = tl_box_match(c, anchors, truth, .unmatched = 0.4, .matched = 0.5,
 *                                 .force = true);
 *     tl_tensor *crops = tl_crop_levels(c, boxes, maps, 5, .first_level = 2, .size = 7);
 *
 * A box is [ymin, xmin, ymax, xmax] along the last axis, in pixels. A box whose coordinates are all
 * below 0 is padding. Formulas, and what happens at their edges, are those of Model Garden.
 *
 * Precision: tl_box_match, tl_box_suppress and places of crops are computed in float32, whatever
 * they are given, in the order of operations of Model Garden, so that their choices are the same.
 * Crops are summed in float32 (float64 for float64) and rounded once. Codes and overlaps of 16-bit
 * boxes are float32. All else is made of elementwise ops.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_BOXES_H
#define TILTH_OPS_BOXES_H

#include <tilth/core/attrs.h>
#include <tilth/core/ctx.h>

TL_BEGIN

/* --- code ------------------------------------------------------------------------------------- */

/* Boxes relative to anchors: how far their centres lie apart, in sizes of the anchor, and the
 * logarithms of the ratios of their sizes; 1e-8 is added to all sizes. `weights` (four, or NULL)
 * multiply the code. Shapes broadcast. */
TL_API tl_tensor *tl_box_encode(tl_ctx *c, tl_tensor *boxes, tl_tensor *anchors,
                                const double *weights);
/* The reverse. Logarithms above log(1000 / 16) count as that. */
TL_API tl_tensor *tl_box_decode(tl_ctx *c, tl_tensor *code, tl_tensor *anchors,
                                const double *weights);

/* --- what is inside --------------------------------------------------------------------------- */

/* Moved into images of `size` (height, width along the last axis; broadcasts to the boxes). */
TL_API tl_tensor *tl_box_clip(tl_ctx *c, tl_tensor *boxes, tl_tensor *size);
/* Enlarged about the centre by `scale`, at least 1, then clipped. 1 leaves them alone. */
TL_API tl_tensor *tl_box_enlarge(tl_ctx *c, tl_tensor *boxes, tl_tensor *size, double scale);
/* [ymin, xmin, ymax, xmax] as [y, x, height, width] with the centre in front, and back. */
TL_API tl_tensor *tl_box_to_centers(tl_ctx *c, tl_tensor *boxes);
TL_API tl_tensor *tl_box_from_centers(tl_ctx *c, tl_tensor *boxes);
/* Boxes [.., n, 4] with scores [.., n]: those that are not larger than `least` both ways, or whose
 * centre is not inside of the image, become zeros, box and score. */
TL_API void tl_box_filter_small(tl_ctx *c, tl_tensor **boxes, tl_tensor **scores, tl_tensor *size,
                                double least);
/* Those whose score is not above `least`: the box becomes zeros, the score -1. */
TL_API void tl_box_filter_scores(tl_ctx *c, tl_tensor **boxes, tl_tensor **scores, double least);

/* --- overlaps --------------------------------------------------------------------------------- */

typedef enum tl_overlap {
    TL_OVERLAP_IOU,  /* intersection over union, to which 1e-8 is added */
    TL_OVERLAP_IOA,  /* over the area of the first box; 0 where that is 0 */
    TL_OVERLAP_GIOU, /* the first, less the share of the hull that neither covers */
} tl_overlap;
/* Boxes [.., n, 4] and [.., m, 4] give [.., n, m]. -1 where either is padding; with
 * TL_OVERLAP_GIOU where the second is. */
TL_API tl_tensor *tl_box_overlap(tl_ctx *c, tl_tensor *boxes, tl_tensor *others, tl_overlap kind);

/* --- matching --------------------------------------------------------------------------------- */

/* What each of n boxes has found among m others. Members are NULL when the context failed. */
typedef struct tl_matches {
    tl_tensor *index;   /* int32 [batch, n]: the other one that it overlaps most, the first of those
                         * that tie */
    tl_tensor *kind;    /* int32 [batch, n]: one of the numbers below */
    tl_tensor *overlap; /* float32 [batch, n]: how much; -1 where there is nothing to overlap */
} tl_matches;
enum { TL_MATCHED = 1, TL_BACKGROUND = -1, TL_IGNORED = -2, TL_PADDING = -3 };

typedef struct tl_box_match_args {
    tl_tensor *others;         /* [batch, m, 4]; padding takes no part */
    double unmatched, matched; /* overlaps below the first are background, from the second on they
                                * match, and are ignored in between */
    bool force;                /* each of the others also takes the box that overlaps it most; the
                                * first of those that tie, and where several want one box, the first
                                * of them gets it. One that overlaps nothing takes the first box */
    double least;              /* with tell_padding: overlaps below it count as padding's */
    bool tell_padding;         /* boxes that are padding, and all where others are nothing else, are
                                * TL_PADDING; else TL_BACKGROUND */
} tl_box_match_args;
/* Boxes [n, 4] or [batch, n, 4]. The overlap is the plain intersection over union. */
TL_API tl_matches tl_box_match_with(tl_ctx *c, tl_tensor *boxes, const tl_box_match_args *args);
/* tl_box_match(c, boxes, others, .unmatched = 0.5, .matched = 0.5) */
#define tl_box_match(c, boxes, ...)                                                                \
    tl_box_match_with((c), (boxes), TL_LITERAL(tl_box_match_args, .others = __VA_ARGS__))
/* Rows [batch, m, k] or [batch, m] as boxes have found them, [batch, n, k] or [batch, n]: of boxes
 * that are not TL_MATCHED, and of no rows, `otherwise`. */
TL_API tl_tensor *tl_match_take(tl_ctx *c, const tl_matches *m, tl_tensor *rows, double otherwise);

/* --- suppression ------------------------------------------------------------------------------ */

/* What is kept of each class, best first. Members are NULL when the context failed. */
typedef struct tl_kept {
    tl_tensor *index; /* int32 [batch, classes, keep]: which box; 0 behind the last one */
    tl_tensor *score; /* float32 [batch, classes, keep]; 0 behind the last one */
    tl_tensor *count; /* int32 [batch, classes] */
} tl_kept;

typedef struct tl_box_suppress_args {
    tl_tensor *scores;   /* [batch, n, classes] */
    tl_suppression rule; /* TL_SUPPRESS_TILED */
    double overlap;      /* 0.5 and the like */
    double score;        /* scores must be above it; NaN never is */
    int64_t candidates;  /* 0: all; else as many of each class, the best */
    int64_t keep;        /* of each class */
    double sigma;        /* TL_SUPPRESS_SOFT: above 0 */
    int64_t rounds;      /* TL_SUPPRESS_REFINED */
} tl_box_suppress_args;
/* Non-maximum suppression, in each class by itself: of boxes [batch, n, 1 or classes, 4] the best
 * one is kept, those that overlap it too much go, and so on. Of equal scores the first comes first.
 *
 * TL_SUPPRESS_TILED: as NMS v2 does it. Within each 512 boxes, in order of their scores, one that
 *   goes because of an overlap of at most 0.5 still takes out others. Boxes without a coordinate
 *   above 0 are never kept. For thresholds above 0.5 it is
 * TL_SUPPRESS_GREEDY: as tf.image.non_max_suppression_padded. Again boxes without a coordinate
 *   above 0 are never kept.
 * TL_SUPPRESS_ABOVE: as tf.image.combined_non_max_suppression. All boxes count.
 * TL_SUPPRESS_SOFT: as tf.image.non_max_suppression_with_scores: a score is multiplied by
 *   exp(-overlap^2 / (2 sigma)) for each box that is kept before it; overlaps above the threshold
 *   do not end it.
 * TL_SUPPRESS_REFINED: as NMS v3. Of equal scores the last one wins.
 *
 * No gradients flow. */
TL_API tl_kept tl_box_suppress_with(tl_ctx *c, tl_tensor *boxes, const tl_box_suppress_args *args);
/* tl_box_suppress(c, boxes, scores, .overlap = 0.5, .score = 0.05, .keep = 100) */
#define tl_box_suppress(c, boxes, ...)                                                             \
    tl_box_suppress_with((c), (boxes), TL_LITERAL(tl_box_suppress_args, .scores = __VA_ARGS__))

/* --- crops ------------------------------------------------------------------------------------ */

/* Parts of feature maps, each with `size` rows and columns: [batch, n, size, size, channels]. A
 * window [y, x, height, width] in pixels of its map is cut into cells; one sample is taken in each,
 * between the four pixels around it. Above and to the left of the map values go on as a line, below
 * and to the right the last ones stay. Gradients flow to the maps, not to the windows.
 *
 * Maps are levels, each half as high and wide as the one before: level l has at least
 * floor(height / 2^l) rows, and as many columns. */
typedef struct tl_crop_args {
    tl_tensor *levels; /* int32 [batch, n]: which map, from 0; NULL: the only one */
    int64_t size;
    tl_opt_double offset; /* 0.5: of a sample in its cell */
} tl_crop_args;
TL_API tl_tensor *tl_crop_with(tl_ctx *c, tl_tensor *windows, tl_tensor *const *maps, int count,
                               const tl_crop_args *args);
#define tl_crop(c, windows, maps, count, ...)                                                      \
    tl_crop_with((c), (windows), (maps), (count), TL_LITERAL(tl_crop_args, __VA_ARGS__))

/* The same for boxes [batch, n, 4] in pixels of the image (ROI align): a box of side s is cut from
 * level floor(log2(s / 224)) + 4, or from the nearest there is. */
typedef struct tl_crop_levels_args {
    int64_t first_level; /* of the first map: its pixels are 2^first_level of the image's */
    int64_t size;
    tl_opt_double offset; /* 0.5 */
} tl_crop_levels_args;
TL_API tl_tensor *tl_crop_levels_with(tl_ctx *c, tl_tensor *boxes, tl_tensor *const *maps,
                                      int count, const tl_crop_levels_args *args);
#define tl_crop_levels(c, boxes, maps, count, ...)                                                 \
    tl_crop_levels_with((c), (boxes), (maps), (count), TL_LITERAL(tl_crop_levels_args, __VA_ARGS__))

/* Masks [batch, n, side, side], each drawn over its box, as they look in other boxes: [batch, n,
 * size, size] in float32. There is nothing outside of a mask. */
TL_API tl_tensor *tl_crop_masks(tl_ctx *c, tl_tensor *masks, tl_tensor *boxes, tl_tensor *others,
                                int64_t size, double offset);

TL_END

#endif
