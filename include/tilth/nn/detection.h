/* What detectors of objects have in common: anchors, labels of anchors, and detections. Names and
 * numbers are Model Garden's.
 *
 *     tl_anchor_grid grid = {.min_level = 3, .max_level = 7, .height = 640, .width = 640};
 *     tl_tensor *anchors = tl_anchors(c, anchor, &grid);
 *     tl_anchor_labels l = tl_label_anchors(c, anchors, truth, classes, .match_threshold = 0.5,
 *                                           .unmatched_threshold = 0.5);
 *     tl_tensor *sizes = tl_match_take(c, &l.matches, attributes, 0);   // of an attribute
 *
 *     tl_detections d =
 *         tl_detect(c, config, &(tl_detect_args){.boxes = box_outputs, .scores = cls_outputs,
 *                                                .levels = 5, .anchors = anchors,
 *                                                .image_shape = shape});
 *
 * Boxes are [ymin, xmin, ymax, xmax] in pixels of the model's input. Class 0 is the background. A
 * box of the truth whose coordinates are all below 0 is padding and takes no part, so that images
 * of a batch may have different numbers of boxes.
 *
 * Ownership: results are the context's. Thread word: one thread at a time for a context. */
#ifndef TILTH_NN_DETECTION_H
#define TILTH_NN_DETECTION_H

#include <tilth/ops/boxes.h>

TL_BEGIN

/* --- anchors ---------------------------------------------------------------------------------- */

/* Boxes around each place of feature maps, of several sizes and shapes. */
typedef struct tl_anchor_config {
    int64_t num_scales;       /* 3: sizes between one level and the next */
    tl_doubles aspect_ratios; /* 0.5, 1, 2: widths over heights */
    double anchor_size;       /* 4: side of the smallest, in strides of its level */
} tl_anchor_config;
TL_API extern const tl_desc tl_anchor_config_desc;

/* The maps of an image of this size: those of level l are smaller by 2^l, rounded up. */
typedef struct tl_anchor_grid {
    int64_t min_level, max_level;
    int64_t height, width; /* of the image, padding included */
} tl_anchor_grid;

/* Rows and columns of a level. */
TL_API void tl_anchor_map(const tl_anchor_grid *grid, int64_t level, int64_t *rows,
                          int64_t *columns);
/* At each place. Configurations are taken as they are. */
TL_API int64_t tl_anchors_per_place(const tl_anchor_config *config);
/* In all; a grid that cannot be is an error. */
TL_API TL_NODISCARD tl_status tl_anchors_count(int64_t *out, const tl_anchor_config *config,
                                               const tl_anchor_grid *grid);
/* Writes them, four numbers each: levels from the lowest on, rows, columns, sizes, shapes. `count`
 * is what tl_anchors_count gives. */
TL_API TL_NODISCARD tl_status tl_anchors_write(float *out, int64_t count,
                                               const tl_anchor_config *config,
                                               const tl_anchor_grid *grid);
/* The same as a tensor [count, 4]; while capturing it is a constant of the program. */
TL_API tl_tensor *tl_anchors(tl_ctx *c, const tl_anchor_config *config, const tl_anchor_grid *grid);

/* --- labels of anchors ------------------------------------------------------------------------ */

/* Of n anchors in each image. Members are NULL when the context failed. */
typedef struct tl_anchor_labels {
    tl_tensor *cls_targets; /* int32 [batch, n]: the class; -1 of the background and of what is
                             * ignored */
    tl_tensor
        *box_targets; /* float32 [batch, n, 4]: the code of the box that belongs to the anchor;
                             * else that of a box of zeros */
    tl_tensor *cls_weights; /* float32 [batch, n]: 0 of what is ignored, else 1 */
    tl_tensor *box_weights; /* float32 [batch, n]: 1 of anchors that a box belongs to, else 0 */
    tl_matches matches;     /* for attributes: tl_match_take(c, &labels.matches, attributes, 0) */
} tl_anchor_labels;

typedef struct tl_label_anchors_args {
    tl_tensor *classes;           /* [batch, m], integers */
    double match_threshold;       /* an anchor that overlaps a box as much belongs to it ... */
    double unmatched_threshold;   /* ... one that overlaps all of them less is background */
    tl_doubles box_coder_weights; /* four, or none */
} tl_label_anchors_args;
/* anchors: [n, 4]; truth: [batch, m, 4]. Each box also gets the anchor that overlaps it most. */
TL_API tl_anchor_labels tl_label_anchors_with(tl_ctx *c, tl_tensor *anchors, tl_tensor *truth,
                                              const tl_label_anchors_args *args);
#define tl_label_anchors(c, anchors, truth, ...)                                                   \
    tl_label_anchors_with((c), (anchors), (truth),                                                 \
                          TL_LITERAL(tl_label_anchors_args, .classes = __VA_ARGS__))

/* Those of a network that proposes regions: some anchors of each image, drawn at random. */
typedef struct tl_rpn_labels {
    tl_tensor *score_targets; /* int32 [batch, n]: 1 something, 0 nothing, -1 not asked */
    tl_tensor *box_targets;   /* float32 [batch, n, 4]: codes; zeros where no box belongs */
} tl_rpn_labels;
typedef struct tl_label_rpn_args {
    double match_threshold, unmatched_threshold; /* as above: 0.7 and 0.3 are usual */
    int64_t rpn_batch_size_per_im;               /* how many are asked at most: 256 */
    double rpn_fg_fraction;                      /* of them something, at most: 0.5 */
} tl_label_rpn_args;
TL_API tl_rpn_labels tl_label_rpn_with(tl_ctx *c, tl_tensor *anchors, tl_tensor *truth,
                                       const tl_label_rpn_args *args);

/* [batch, n, k] or [batch, n] of all anchors, as maps of each level: [batch, rows, columns,
 * anchors of a place * k]. `out` has room for max_level - min_level + 1. */
TL_API void tl_anchors_unpack(tl_ctx *c, tl_tensor *x, const tl_anchor_grid *grid, tl_tensor **out);
/* The reverse: maps of `levels` levels, the lowest first, as [batch, n, width]. */
TL_API tl_tensor *tl_anchors_pack(tl_ctx *c, tl_tensor *const *maps, int levels, int64_t width);

/* --- regions ---------------------------------------------------------------------------------- */

/* The best boxes of all levels, whatever they show. Members are NULL when the context failed. */
typedef struct tl_proposals {
    tl_tensor *regions; /* float32 [batch, K, 4]; zeros where there are fewer */
    tl_tensor *scores;  /* float32 [batch, K], best first; 0 where there are fewer */
} tl_proposals;
typedef struct tl_propose_args {
    /* of each level, the lowest first: codes [batch, rows, columns, anchors * 4], and logits
     * [batch, rows, columns, anchors] */
    tl_tensor *const *boxes, *const *scores;
    int levels;
    tl_tensor *anchors;             /* [n, 4], of all levels */
    tl_tensor *image_shape;         /* [batch, 2] */
    int64_t pre_nms_top_k;          /* candidates of a level */
    int64_t num_proposals;          /* K, or all boxes where they are fewer; of a level too */
    double nms_iou_threshold;       /* 0: nothing is suppressed */
    double pre_nms_score_threshold; /* 0: all are candidates; else those above it */
    double
        pre_nms_min_size_threshold; /* 0: all; else those with longer sides and a centre inside */
    bool use_batched_nms;           /* as tf.image.combined_non_max_suppression */
} tl_propose_args;
/* No gradients flow. */
TL_API tl_proposals tl_propose_regions(tl_ctx *c, const tl_propose_args *args);

/* Regions that a model learns from, in the order in which they were given. Members are NULL when
 * the context failed. */
typedef struct tl_sampled_regions {
    tl_tensor *regions;     /* float32 [batch, K, 4] */
    tl_tensor *boxes;       /* float32 [batch, K, 4]: of the truth; zeros of the background */
    tl_tensor *classes;     /* int32 [batch, K]; 0 of the background */
    tl_tensor *indices;     /* int32 [batch, K]: which box of the truth; -1 of the background */
    tl_tensor *box_targets; /* float32 [batch, K, 4]: the code of the boxes; zeros of the
                             * background */
} tl_sampled_regions;
typedef struct tl_sample_regions_args {
    tl_tensor *classes;                   /* of the truth: [batch, m] */
    int64_t num_sampled_rois;             /* K: 512 is usual */
    double foreground_fraction;           /* of them, at most: 0.25 */
    double foreground_iou_threshold;      /* 0.5 */
    double background_iou_high_threshold; /* 0.5 */
    double background_iou_low_threshold;  /* 0 */
    const double *weights;                /* of the code, four, or NULL: 10, 10, 5, 5 */
    bool without_truth;                   /* else the boxes of the truth stand behind the regions */
    bool skip_subsampling;                /* all regions; none is drawn */
} tl_sample_regions_args;
/* Regions [batch, n, 4], truth [batch, m, 4]. Some that overlap a box of the truth are drawn at
 * random, others fill up. Where all of them are fewer than K, those are the result. No gradients
 * flow. */
TL_API tl_sampled_regions tl_sample_regions(tl_ctx *c, tl_tensor *regions, tl_tensor *truth,
                                            const tl_sample_regions_args *args);

/* --- detections ------------------------------------------------------------------------------- */

typedef enum tl_nms_version {
    TL_NMS_V2, /* the default */
    TL_NMS_V1,
    TL_NMS_V3,
    TL_NMS_BATCHED,
    TL_NMS_TFLITE /* refused */
} tl_nms_version;

/* Only for TFLite, which Tilth does not write. */
typedef struct tl_tflite_post_processing {
    int64_t max_detections, max_classes_per_detection, detections_per_class;
    bool use_regular_nms;
    double nms_score_threshold, nms_iou_threshold;
    bool normalize_anchor_coordinates, omit_nms;
    double y_scale, x_scale, h_scale, w_scale;
} tl_tflite_post_processing;

/* The best boxes of each class that do not overlap too much. Versions differ in what happens at
 * edges: ops/boxes.h says how. Configurations are taken as they are: from YAML, or completed
 * (tl_desc_complete). */
typedef struct tl_nms_config {
    tl_opt_bool apply_nms;                 /* true; else all boxes and scores are the result */
    int64_t pre_nms_top_k;                 /* 5000: candidates of a class */
    tl_opt_double pre_nms_score_threshold; /* 0.05: candidates have more */
    tl_opt_double nms_iou_threshold;       /* 0.5 */
    int64_t max_num_detections;            /* 100 */
    tl_nms_version nms_version;            /* v2 */
    bool use_cpu_nms;                      /* false */
    tl_opt_double soft_nms_sigma;          /* null; v1 alone */
} tl_nms_config;
TL_API extern const tl_desc tl_nms_config_desc;

/* That of maps with anchors: RetinaNet's. */
typedef struct tl_multilevel_generator_config {
    tl_nms_config nms;
    bool use_class_agnostic_nms;  /* false; v2 alone: an anchor has one class, its best */
    tl_opt_bool return_decoded;   /* null: true gives all boxes and scores too */
    tl_doubles box_coder_weights; /* null; as those of the labels. v3 takes none */
    tl_opt_bool decode_boxes;     /* true; read where models are exported */
    tl_tflite_post_processing tflite_post_processing;
} tl_multilevel_generator_config;
TL_API extern const tl_desc tl_multilevel_generator_config_desc;

/* That of regions: Faster R-CNN's. There is no v3. */
typedef struct tl_detection_generator_config {
    tl_nms_config nms;
    bool use_sigmoid_probability; /* false: scores are shares */
} tl_detection_generator_config;
TL_API extern const tl_desc tl_detection_generator_config_desc;

/* Members are NULL when the context failed, and where they are not asked for. */
typedef struct tl_detections {
    tl_tensor *detection_boxes;    /* float32 [batch, K, 4] */
    tl_tensor *detection_scores;   /* float32 [batch, K] */
    tl_tensor *detection_classes;  /* int32 [batch, K], from 1 on */
    tl_tensor *num_detections;     /* int32 [batch] */
    tl_tensor *decoded_boxes;      /* float32 [batch, n, 1 or classes - 1, 4] */
    tl_tensor *decoded_box_scores; /* float32 [batch, n, classes - 1] */
} tl_detections;

/* Of maps with anchors. */
typedef struct tl_detect_args {
    /* of each level, the lowest first: [batch, rows, columns, anchors * 4], and logits [batch,
     * rows, columns, anchors * classes] */
    tl_tensor *const *boxes, *const *scores;
    int levels;
    tl_tensor *anchors;     /* [n, 4], of all levels */
    tl_tensor *image_shape; /* [batch, 2]: boxes are moved into it; NULL: they are not */
    /* (v1) of each attribute its maps of all levels, [batch, rows, columns, anchors * size], and
     * where its detections go: [batch, K, size] */
    tl_tensor *const *attributes;
    tl_tensor **detection_attributes;
    int attribute_count;
} tl_detect_args;
TL_API tl_detections tl_detect(tl_ctx *c, const tl_multilevel_generator_config *config,
                               const tl_detect_args *args);

/* Of regions. */
typedef struct tl_detect_regions_args {
    tl_tensor *boxes;       /* codes [batch, n, 4 * classes], or [batch, n, 4] for all classes */
    tl_tensor *scores;      /* logits [batch, n, classes] */
    tl_tensor *regions;     /* [batch, n, 4] */
    tl_tensor *image_shape; /* [batch, 2], or NULL */
    const double *weights;  /* of the code, four, or NULL */
} tl_detect_regions_args;
TL_API tl_detections tl_detect_regions(tl_ctx *c, const tl_detection_generator_config *config,
                                       const tl_detect_regions_args *args);

TL_END

#endif
