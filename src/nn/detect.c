#include <inttypes.h>
#include <math.h>
#include <tilth/nn/detection.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/sort.h>
#include <tilth/ops/view.h>

enum { SIDES = 4, ROUNDS = 2, MOST_LEVELS = 31 };

/* --- configuration ---------------------------------------------------------------------------- */

static const char *const version_names[] = {"v2", "v1", "v3", "batched", "tflite", NULL};
_Static_assert(TL_COUNT(version_names) == TL_NMS_TFLITE + 2, "each version has a name");

static const tl_field nms_fields[] = {
    TL_F(tl_nms_config, apply_nms, TL_FILLED, .b = true,
         .help = "suppress; else all boxes and scores are the result"),
    TL_F(tl_nms_config, pre_nms_top_k, .i = 5000, TL_AT_LEAST(1), .help = "candidates of a class"),
    TL_F(tl_nms_config, pre_nms_score_threshold, TL_FILLED, .d = 0.05,
         .help = "candidates have scores above it"),
    TL_F(tl_nms_config, nms_iou_threshold, TL_FILLED, .d = 0.5, TL_RANGE(0, 1),
         .help = "how much two detections of a class may overlap"),
    TL_F(tl_nms_config, max_num_detections, .i = 100, TL_RANGE(1, 1e6),
         .help = "detections of an image"),
    TL_F(tl_nms_config, nms_version, .names = version_names, .help = "how boxes are suppressed"),
    TL_F(tl_nms_config, use_cpu_nms, .help = "no effect: it runs where the model does"),
    TL_F(tl_nms_config, soft_nms_sigma, TL_AT_LEAST(0),
         .help = "v1: lower scores by a bell of this width in place of suppressing"),
    TL_F_END,
};

static tl_status check_nms(const void *config)
{
    const tl_nms_config *n = config;
    if (n->nms_version == TL_NMS_TFLITE)
        return TL_FAIL(TL_EINVAL, "nms_version: tflite leaves suppression to TFLite, whose files "
                                  "Tilth does not write; choose v1, v2, v3 or batched");
    if (n->soft_nms_sigma.set && n->nms_version != TL_NMS_V1)
        return TL_FAIL(TL_EINVAL, "soft_nms_sigma: is for nms_version v1 alone, not %s",
                       version_names[n->nms_version]);
    if (n->soft_nms_sigma.set && !(n->soft_nms_sigma.value > 0))
        return TL_FAIL(TL_EINVAL, "soft_nms_sigma: must be above 0; null is plain suppression");
    return TL_OK;
}

const tl_desc tl_nms_config_desc = {
    .name = "nms",
    .help = "the best boxes of each class",
    .size = sizeof(tl_nms_config),
    .fields = nms_fields,
    .check = check_nms,
};

#define LATER .flags = TL_FIELD_LATER
static const tl_field tflite_fields[] = {
    TL_F(tl_tflite_post_processing, max_detections, .i = 200, LATER, .help = "detections"),
    TL_F(tl_tflite_post_processing, max_classes_per_detection, .i = 5, LATER,
         .help = "classes of a box"),
    TL_F(tl_tflite_post_processing, detections_per_class, .i = 5, LATER,
         .help = "detections of a class"),
    TL_F(tl_tflite_post_processing, use_regular_nms, LATER, .help = "suppress by class"),
    TL_F(tl_tflite_post_processing, nms_score_threshold, .d = 0.1, LATER,
         .help = "least score of a candidate"),
    TL_F(tl_tflite_post_processing, nms_iou_threshold, .d = 0.5, LATER,
         .help = "how much two detections may overlap"),
    TL_F(tl_tflite_post_processing, normalize_anchor_coordinates, LATER,
         .help = "anchors in shares of the image"),
    TL_F(tl_tflite_post_processing, omit_nms, LATER, .help = "boxes and scores as they are"),
    TL_F(tl_tflite_post_processing, y_scale, .d = 1, LATER, .help = "of the code of boxes"),
    TL_F(tl_tflite_post_processing, x_scale, .d = 1, LATER, .help = "of the code of boxes"),
    TL_F(tl_tflite_post_processing, h_scale, .d = 1, LATER, .help = "of the code of boxes"),
    TL_F(tl_tflite_post_processing, w_scale, .d = 1, LATER, .help = "of the code of boxes"),
    TL_F_END,
};
static const tl_desc tflite_desc = {
    .name = "tflite_post_processing",
    .help = "suppression in TFLite",
    .size = sizeof(tl_tflite_post_processing),
    .fields = tflite_fields,
};

static const tl_field multilevel_fields[] = {
    TL_F(tl_multilevel_generator_config, use_class_agnostic_nms,
         .help = "v2: each anchor has one class, its best"),
    TL_F(tl_multilevel_generator_config, return_decoded,
         .help = "all boxes and scores are a result too"),
    TL_F(tl_multilevel_generator_config, box_coder_weights, .flags = TL_FIELD_NULLABLE,
         .help = "four numbers that codes of boxes were multiplied by"),
    TL_F(tl_multilevel_generator_config, decode_boxes, .set = true, .b = true,
         .flags = TL_FIELD_FILLED | TL_FIELD_LATER,
         .help = "exported models give boxes, not their code"),
    TL_F_STRUCT(tl_multilevel_generator_config, tflite_post_processing, &tflite_desc,
                .help = "for nms_version tflite, which is not there"),
    TL_F_END,
};

static tl_status check_multilevel(const void *config)
{
    const tl_multilevel_generator_config *m = config;
    if (m->use_class_agnostic_nms && m->nms.nms_version != TL_NMS_V2)
        return TL_FAIL(TL_EINVAL, "use_class_agnostic_nms: is for nms_version v2 alone, not %s",
                       version_names[m->nms.nms_version]);
    if (m->nms.nms_version == TL_NMS_V3 && (m->return_decoded.value || !m->nms.apply_nms.value))
        return TL_FAIL(TL_EINVAL, "nms_version: v3 chooses candidates before all boxes are there; "
                                  "for decoded boxes choose v1, v2 or batched");
    if (m->box_coder_weights.count && m->box_coder_weights.count != SIDES)
        return TL_FAIL(TL_EINVAL, "box_coder_weights: has %" PRId64 " numbers; it needs 4, or null",
                       m->box_coder_weights.count);
    return TL_OK;
}

const tl_desc tl_multilevel_generator_config_desc = {
    .name = "multilevel_detection_generator",
    .help = "detections of maps with anchors",
    .size = sizeof(tl_multilevel_generator_config),
    .base = &tl_nms_config_desc,
    .fields = multilevel_fields,
    .check = check_multilevel,
};

static const tl_field regions_fields[] = {
    TL_F(tl_detection_generator_config, use_sigmoid_probability,
         .help = "each class is a question of its own; else scores are shares"),
    TL_F_END,
};

static tl_status check_regions(const void *config)
{
    const tl_detection_generator_config *d = config;
    return d->nms.nms_version == TL_NMS_V3
               ? TL_FAIL(TL_EINVAL, "nms_version: v3 is for anchors; choose v1, v2 or batched")
               : TL_OK;
}

const tl_desc tl_detection_generator_config_desc = {
    .name = "detection_generator",
    .help = "detections of regions",
    .size = sizeof(tl_detection_generator_config),
    .base = &tl_nms_config_desc,
    .fields = regions_fields,
    .check = check_regions,
};

/* --- the best of all classes ------------------------------------------------------------------ */

// Rows [batch, n, k] at places [batch, m].
static tl_tensor *take_rows(tl_ctx *c, tl_tensor *rows, tl_tensor *places)
{
    if (tl_ctx_failed(c)) return NULL;
    const int64_t *d = rows->shape.dims, *p = places->shape.dims;
    tl_tensor *wide = tl_broadcast_to(c, tl_expand_dims(c, places, -1), TL_SHAPE(p[0], p[1], d[2]));
    return tl_take_along_axis(c, rows, wide, 1);
}

// Whether place i of the last axis, of `length`, is before `count`, to which an axis is added.
static tl_tensor *before(tl_ctx *c, tl_tensor *count, int64_t length)
{
    return tl_less(c, tl_arange(c, TL_I32, 0, (double)length, 1), tl_expand_dims(c, count, -1));
}

static tl_tensor *zero_unless(tl_ctx *c, tl_tensor *condition, tl_tensor *x)
{
    return x ? tl_where(c, condition, x, tl_number(c, x->dtype, 0)) : NULL;
}

/* Boxes [batch, n, 1 or classes, 4], scores [batch, n, classes]. */
typedef struct candidates {
    tl_tensor *boxes, *scores;
    tl_tensor **attributes; /* [batch, n, size] each */
    int attribute_count;
} candidates;

static tl_suppression rule_of(const tl_nms_config *n)
{
    switch (n->nms_version) {
    case TL_NMS_V1: return n->soft_nms_sigma.set ? TL_SUPPRESS_SOFT : TL_SUPPRESS_GREEDY;
    case TL_NMS_V3: return TL_SUPPRESS_REFINED;
    case TL_NMS_BATCHED: return TL_SUPPRESS_ABOVE;
    default: return TL_SUPPRESS_TILED;
    }
}

static tl_kept suppress(tl_ctx *c, const tl_nms_config *n, tl_tensor *boxes, tl_tensor *scores,
                        tl_suppression rule)
{
    return tl_box_suppress(c, boxes, scores, .rule = rule, .overlap = n->nms_iou_threshold.value,
                           .score = n->pre_nms_score_threshold.value,
                           .candidates = rule == TL_SUPPRESS_ABOVE ? 0 : n->pre_nms_top_k,
                           .keep = n->max_num_detections, .sigma = n->soft_nms_sigma.value,
                           .rounds = ROUNDS);
}

// Puts what was kept of all classes together, best first.
static void join_classes(tl_detections *out, tl_ctx *c, const tl_nms_config *n, candidates *from)
{
    const tl_suppression rule = rule_of(n);
    const tl_kept kept = suppress(c, n, from->boxes, from->scores, rule);
    if (tl_ctx_failed(c)) return;
    const int64_t batch = kept.index->shape.dims[0], classes = kept.index->shape.dims[1];
    const int64_t keep = n->max_num_detections, per_box = from->boxes->shape.dims[2];
    const bool v1 = n->nms_version == TL_NMS_V1;
    const tl_shape flat = TL_SHAPE(batch, classes * keep);
    tl_tensor *there = before(c, kept.count, keep), *index = kept.index, *places;
    // What is missing of a class is its best box again, with a score below all others.
    if (rule == TL_SUPPRESS_GREEDY) {
        tl_tensor *best = tl_expand_dims(c, tl_argmax(c, from->scores, 1, false), -1);
        index = tl_where(c, there, index, tl_cast(c, best, TL_I32));
    }
    tl_tensor *score = tl_where(c, there, kept.score, tl_number(c, TL_F32, v1 ? -1 : 0));
    tl_top_k(c, tl_reshape(c, score, flat), keep, &out->detection_scores, &places);
    tl_tensor *kind = tl_floor_divide(c, places, tl_number(c, TL_I64, (double)keep));
    index = tl_cast(c, tl_take_along_axis(c, tl_reshape(c, index, flat), places, 1), TL_I64);
    tl_tensor *limit = tl_number(c, TL_F32, v1 ? -1 : 0);
    tl_tensor *good = tl_greater(c, out->detection_scores, limit);
    tl_tensor *row = per_box > 1 ? tl_add(c, tl_scale(c, index, (double)per_box), kind) : index;
    tl_tensor *boxes = tl_reshape(c, from->boxes, TL_SHAPE(batch, -1, SIDES));
    out->detection_boxes = take_rows(c, boxes, row);
    for (int i = 0; i < from->attribute_count; i++)
        from->attributes[i] = take_rows(c, from->attributes[i], index);
    if (rule != TL_SUPPRESS_GREEDY) {
        tl_tensor *good_rows = tl_expand_dims(c, good, -1);
        out->detection_boxes = zero_unless(c, good_rows, out->detection_boxes);
        for (int i = 0; i < from->attribute_count; i++)
            from->attributes[i] = zero_unless(c, good_rows, from->attributes[i]);
    }
    // Empty places are of class 1, of 0 with v3, and with the others of whose they are.
    kind = tl_shift(c, kind, 1);
    if (rule == TL_SUPPRESS_ABOVE) kind = tl_where(c, good, kind, tl_number(c, TL_I64, 1));
    if (rule == TL_SUPPRESS_REFINED) kind = zero_unless(c, good, kind);
    out->detection_classes = tl_cast(c, kind, TL_I32);
    out->num_detections = tl_sum(c, tl_cast(c, good, TL_I32), TL_AXES(-1), false);
}

// The same where each box has one class, its best.
static void choose_class(tl_detections *out, tl_ctx *c, const tl_nms_config *n,
                         const candidates *from)
{
    tl_tensor *boxes = from->boxes;
    tl_tensor *best = tl_max(c, from->scores, TL_AXES(-1), true);
    tl_tensor *kind = tl_argmax(c, from->scores, -1, false);
    if (tl_ctx_failed(c)) return;
    const int64_t *d = boxes->shape.dims, keep = n->max_num_detections;
    if (d[2] > 1) {
        tl_tensor *place = tl_expand_dims(c, tl_expand_dims(c, kind, -1), -1);
        place = tl_broadcast_to(c, place, TL_SHAPE(d[0], d[1], 1, SIDES));
        boxes = tl_take_along_axis(c, boxes, place, 2);
    }
    const tl_kept kept = suppress(c, n, boxes, best, TL_SUPPRESS_GREEDY);
    if (tl_ctx_failed(c)) return;
    tl_tensor *index = tl_squeeze(c, kept.index, TL_AXES(1));
    out->num_detections = tl_squeeze(c, kept.count, TL_AXES(1));
    tl_tensor *good = before(c, out->num_detections, keep);
    out->detection_scores = tl_squeeze(c, kept.score, TL_AXES(1));
    boxes = take_rows(c, tl_squeeze(c, boxes, TL_AXES(2)), index);
    out->detection_boxes = zero_unless(c, tl_expand_dims(c, good, -1), boxes);
    kind = zero_unless(c, good, tl_take_along_axis(c, kind, index, 1));
    out->detection_classes = tl_cast(c, tl_shift(c, kind, 1), TL_I32);
}

static tl_tensor *clip_to(tl_ctx *c, tl_tensor *boxes, tl_tensor *image_shape)
{
    return image_shape ? tl_box_clip(c, boxes, tl_expand_dims(c, image_shape, 1)) : boxes;
}

static bool want_classes(tl_ctx *c, int64_t classes)
{
    if (classes >= 2) return true;
    (void)TL_FAIL(TL_EINVAL, "%" PRId64 " classes; the background and at least one more are needed",
                  classes);
    tl_ctx_fail(c);
    return false;
}

/* --- of maps ---------------------------------------------------------------------------------- */

static bool check_maps(tl_ctx *c, const tl_multilevel_generator_config *config,
                       const tl_detect_args *args, int64_t *classes)
{
    char spec[2][TL_TENSOR_TEXT];
    if (tl_ctx_failed(c)) return false;
    if (tl_desc_check(&tl_multilevel_generator_config_desc, config) != TL_OK) {
        tl_ctx_fail(c);
        return false;
    }
    const tl_tensor *boxes = args->levels > 0 ? args->boxes[0] : NULL;
    const tl_tensor *scores = args->levels > 0 ? args->scores[0] : NULL;
    if (!boxes || !scores || !args->anchors || args->levels > MOST_LEVELS)
        (void)TL_FAIL(TL_EINVAL,
                      "%d levels of boxes and scores with anchors; there must be 1 to %d",
                      args->levels, MOST_LEVELS);
    else if (boxes->shape.rank != 4 || scores->shape.rank != 4 || boxes->shape.dims[3] < SIDES
             || boxes->shape.dims[3] % SIDES
             || scores->shape.dims[3] % (boxes->shape.dims[3] / SIDES))
        (void)TL_FAIL(TL_EINVAL,
                      "boxes %s and scores %s must be [batch, rows, columns, anchors * 4] and "
                      "[batch, rows, columns, anchors * classes]",
                      tl_tensor_spec(spec[0], boxes), tl_tensor_spec(spec[1], scores));
    else if (args->attribute_count && config->nms.nms_version != TL_NMS_V1)
        (void)TL_FAIL(TL_EINVAL, "attributes need nms_version v1, not %s",
                      version_names[config->nms.nms_version]);
    else {
        *classes = scores->shape.dims[3] / (boxes->shape.dims[3] / SIDES);
        return want_classes(c, *classes);
    }
    tl_ctx_fail(c);
    return false;
}

// Anchors [n, 4] of all levels with the highest level first, as v3 wants them.
static tl_tensor *turn_levels(tl_ctx *c, tl_tensor *anchors, tl_tensor *const *boxes, int levels)
{
    tl_tensor *parts[MOST_LEVELS];
    int64_t from = 0;
    for (int i = 0; i < levels; i++) {
        const int64_t *d = boxes[i]->shape.dims, count = d[1] * d[2] * (d[3] / SIDES);
        parts[levels - 1 - i] = tl_slice(c, anchors, 0, from, from + count, 1);
        from += count;
    }
    return tl_concat(c, parts, levels, 0);
}

tl_detections tl_detect(tl_ctx *c, const tl_multilevel_generator_config *config,
                        const tl_detect_args *args)
{
    tl_detections out = {0};
    tl_tensor *boxes[MOST_LEVELS], *scores[MOST_LEVELS], *anchors = args->anchors;
    const tl_nms_config *n = &config->nms;
    const bool v3 = n->nms_version == TL_NMS_V3;
    int64_t classes;
    if (!check_maps(c, config, args, &classes)) return out;
    for (int i = 0; i < args->levels; i++) {
        const int from = v3 ? args->levels - 1 - i : i;
        boxes[i] = args->boxes[from];
        scores[i] = args->scores[from];
    }
    tl_tensor *codes = tl_anchors_pack(c, boxes, args->levels, SIDES);
    tl_tensor *logits = tl_anchors_pack(c, scores, args->levels, classes);
    if (v3 && !tl_ctx_failed(c)) anchors = turn_levels(c, anchors, args->boxes, args->levels);
    if (tl_ctx_failed(c)) return out;
    const double *weights =
        config->box_coder_weights.count && !v3 ? config->box_coder_weights.items : NULL;
    candidates all = {.attributes = args->detection_attributes,
                      .attribute_count = args->attribute_count};
    tl_tensor *decoded = tl_box_decode(c, tl_cast(c, codes, TL_F32),
                                       tl_cast(c, tl_expand_dims(c, anchors, 0), TL_F32), weights);
    all.boxes = tl_expand_dims(c, clip_to(c, decoded, args->image_shape), 2);
    all.scores = tl_slice(c, tl_sigmoid(c, tl_cast(c, logits, TL_F32)), -1, 1, TL_OPEN, 1);
    for (int i = 0; i < args->attribute_count && !tl_ctx_failed(c); i++) {
        tl_tensor *const *maps = args->attributes + i * args->levels;
        const int64_t each = args->boxes[0]->shape.dims[3] / SIDES;
        all.attributes[i] = tl_anchors_pack(
            c, maps, args->levels,
            maps[0] && maps[0]->shape.rank == 4 ? maps[0]->shape.dims[3] / each : 0);
    }
    if (config->return_decoded.value || !n->apply_nms.value) {
        out.decoded_boxes = all.boxes;
        out.decoded_box_scores = all.scores;
    }
    if (tl_ctx_failed(c)) return (tl_detections){0};
    if (!n->apply_nms.value) return out;
    if (config->use_class_agnostic_nms) choose_class(&out, c, n, &all);
    else join_classes(&out, c, n, &all);
    return tl_ctx_failed(c) ? (tl_detections){0} : out;
}

/* --- of regions ------------------------------------------------------------------------------- */

tl_detections tl_detect_regions(tl_ctx *c, const tl_detection_generator_config *config,
                                const tl_detect_regions_args *args)
{
    tl_detections out = {0};
    char spec[2][TL_TENSOR_TEXT];
    if (tl_ctx_failed(c)) return out;
    if (tl_desc_check(&tl_detection_generator_config_desc, config) != TL_OK || !args->boxes
        || !args->scores || !args->regions) {
        if (!args->boxes || !args->scores || !args->regions)
            (void)TL_FAIL(TL_EINVAL, "boxes, scores and regions are needed, and one is NULL");
        tl_ctx_fail(c);
        return out;
    }
    const tl_shape *b = &args->boxes->shape, *s = &args->scores->shape;
    const int64_t classes = s->rank == 3 ? s->dims[2] : 0;
    const bool each = b->rank == 3 && b->dims[2] == SIDES * classes && classes > 1;
    if (b->rank != 3 || s->rank != 3 || (!each && b->dims[2] != SIDES)) {
        (void)TL_FAIL(
            TL_EINVAL,
            "boxes %s and scores %s must be [batch, n, 4 * classes] (or 4) and [batch, n, "
            "classes]",
            tl_tensor_spec(spec[0], args->boxes), tl_tensor_spec(spec[1], args->scores));
        tl_ctx_fail(c);
        return out;
    }
    if (!want_classes(c, classes)) return out;
    tl_tensor *logits = tl_cast(c, args->scores, TL_F32);
    tl_tensor *scores =
        config->use_sigmoid_probability ? tl_sigmoid(c, logits) : tl_softmax(c, logits, -1);
    tl_tensor *codes = tl_reshape(c, tl_cast(c, args->boxes, TL_F32),
                                  TL_SHAPE(b->dims[0], b->dims[1], each ? classes : 1, SIDES));
    if (each) codes = tl_slice(c, codes, 2, 1, TL_OPEN, 1);
    tl_tensor *regions = tl_expand_dims(c, tl_cast(c, args->regions, TL_F32), 2);
    tl_tensor *boxes = tl_box_decode(c, codes, regions, args->weights);
    if (args->image_shape) {
        tl_tensor *size = tl_expand_dims(c, tl_expand_dims(c, args->image_shape, 1), 1);
        boxes = tl_box_clip(c, boxes, size);
    }
    candidates all = {.boxes = boxes, .scores = tl_slice(c, scores, -1, 1, TL_OPEN, 1)};
    if (tl_ctx_failed(c)) return out;
    if (config->nms.apply_nms.value) join_classes(&out, c, &config->nms, &all);
    else {
        out.decoded_boxes = all.boxes;
        out.decoded_box_scores = all.scores;
    }
    return tl_ctx_failed(c) ? (tl_detections){0} : out;
}
