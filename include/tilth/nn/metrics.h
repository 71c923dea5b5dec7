/* The metrics that ship. Each is a registered class, so YAML can name it (`type: precision`); names
 * and definitions are Keras's.
 *
 *     TL_TRY(tl_metrics_add(&loss, all, &tl_metric_mean, NULL, "loss"));
 *     TL_TRY(tl_metrics_add(NULL, all, &tl_metric_recall,
 *                           &(tl_threshold_metric_config){.class_id = {true, 3}}, NULL));
 *
 * Targets and predictions have the same number of dimensions; a last one of 1 on either side is
 * left out where the other lacks it. In literals a member that is left out, or zero, has the
 * default that stands behind it.
 *
 * Precision: predictions are compared in their own type; all sums are float64, and so are results.
 * Thread word: one thread at a time. */
#ifndef TILTH_NN_METRICS_H
#define TILTH_NN_METRICS_H

#include <tilth/nn/metric.h>

TL_BEGIN

TL_API extern const tl_module tl_metrics_module;

/* --- of one tensor ---------------------------------------------------------------------------- */

/* sum(w v) / sum(w), 0 of nothing. Weights that have fewer dimensions than the values weigh the
 * means over the others. */
TL_API extern const tl_metric_class tl_metric_mean;
/* sum(w v) */
TL_API extern const tl_metric_class tl_metric_sum;
/* The mean of each element of tensors that have one shape; told by index: name/1/0. */
typedef struct tl_mean_tensor_config {
    tl_metric_config metric;
    tl_ints shape; /* of all values; none: they are scalars */
} tl_mean_tensor_config;
TL_API extern const tl_metric_class tl_metric_mean_tensor;

/* --- shares of right answers: weighted means -------------------------------------------------- */

/* Predictions that are equal to the targets. */
TL_API extern const tl_metric_class tl_metric_accuracy;
/* Predictions above the threshold where the target is 1, not above it where it is 0. */
typedef struct tl_binary_accuracy_config {
    tl_metric_config metric;
    tl_opt_double threshold; /* 0.5 */
} tl_binary_accuracy_config;
TL_API extern const tl_metric_class tl_metric_binary_accuracy;
/* The greatest prediction [..., classes] (the first of those that tie) is where the greatest target
 * [..., classes] is, or at the class number [...]. */
TL_API extern const tl_metric_class tl_metric_categorical_accuracy;
TL_API extern const tl_metric_class tl_metric_sparse_categorical_accuracy;
/* Fewer than k predictions are greater than that of the target. */
typedef struct tl_top_k_config {
    tl_metric_config metric;
    int64_t k; /* 5 */
} tl_top_k_config;
TL_API extern const tl_metric_class tl_metric_top_k_categorical_accuracy;
TL_API extern const tl_metric_class tl_metric_sparse_top_k_categorical_accuracy;

/* --- means of losses -------------------------------------------------------------------------- */

TL_API extern const tl_metric_class tl_metric_mean_squared_error;
TL_API extern const tl_metric_class tl_metric_root_mean_squared_error;
TL_API extern const tl_metric_class tl_metric_mean_absolute_error;
TL_API extern const tl_metric_class tl_metric_mean_absolute_percentage_error;
TL_API extern const tl_metric_class tl_metric_mean_squared_logarithmic_error;
TL_API extern const tl_metric_class tl_metric_log_cosh;
TL_API extern const tl_metric_class tl_metric_hinge;
TL_API extern const tl_metric_class tl_metric_squared_hinge;
TL_API extern const tl_metric_class tl_metric_categorical_hinge;
TL_API extern const tl_metric_class tl_metric_kl_divergence;
TL_API extern const tl_metric_class tl_metric_poisson;
/* |y - p| over the normalizer, 0 where that is 0. */
typedef struct tl_mean_relative_error_config {
    tl_metric_config metric;
    tl_doubles normalizer; /* required: one for each place of the last axis, or one for all */
} tl_mean_relative_error_config;
TL_API extern const tl_metric_class tl_metric_mean_relative_error;
/* 1 - squared errors / squared deviations of the targets from their mean. Where targets do not
 * deviate it is 0, or 1 without errors; of nothing it is 0. */
typedef enum tl_r2_aggregation {
    TL_R2_UNIFORM_AVERAGE,
    TL_R2_NONE, /* one score for each output */
    TL_R2_VARIANCE_WEIGHTED_AVERAGE
} tl_r2_aggregation;
typedef struct tl_r2_config {
    tl_metric_config metric;
    int64_t num_outputs; /* 0: all elements together; else scores of the places of the last axis */
    tl_r2_aggregation class_aggregation; /* of these scores: uniform_average */
    int64_t num_regressors; /* 0; others correct the score for so many predictors, as long as there
                             * are more values than that, and one (adjusted) */
} tl_r2_config;
TL_API extern const tl_metric_class tl_metric_r2_score;
/* The cosine of the angle between targets and predictions along the last axis. */
TL_API extern const tl_metric_class tl_metric_cosine_similarity;
typedef struct tl_crossentropy_metric_config {
    tl_metric_config metric;
    bool from_logits;       /* predictions are what a softmax or sigmoid is given, not its result */
    double label_smoothing; /* 0; not of sparse targets */
    tl_opt_int ignore_class; /* (sparse) examples with this label do not count */
} tl_crossentropy_metric_config;
TL_API extern const tl_metric_class tl_metric_binary_crossentropy;
TL_API extern const tl_metric_class tl_metric_categorical_crossentropy;
TL_API extern const tl_metric_class tl_metric_sparse_categorical_crossentropy;
/* exp of the mean of the sparse cross-entropy, and of values that are given. */
TL_API extern const tl_metric_class tl_metric_perplexity;
TL_API extern const tl_metric_class tl_metric_loss_perplexity; /* of one tensor */

/* --- yes or no at thresholds: counts of true and false positives and negatives ---------------- */

/* Targets that are not 0 are "yes", and predictions above a threshold. Several thresholds give a
 * vector. */
typedef struct tl_threshold_metric_config {
    tl_metric_config metric;
    tl_doubles thresholds; /* none: 0.5, or no threshold with top_k */
    tl_opt_int top_k;      /* only the k greatest predictions of the last axis can be "yes" */
    tl_opt_int class_id;   /* only this place of the last axis counts */
} tl_threshold_metric_config;
TL_API extern const tl_metric_class tl_metric_precision; /* tp / (tp + fp) */
TL_API extern const tl_metric_class tl_metric_recall;    /* tp / (tp + fn) */
TL_API extern const tl_metric_class tl_metric_true_positives;
TL_API extern const tl_metric_class tl_metric_true_negatives;
TL_API extern const tl_metric_class tl_metric_false_positives;
TL_API extern const tl_metric_class tl_metric_false_negatives;

/* The best recall at the thresholds whose precision is at least this, and the other way round; 0
 * when there are none. Sensitivity is recall, specificity the same of "no". Predictions outside of
 * [0, 1] are an error. */
typedef struct tl_at_metric_config {
    tl_metric_config metric;
    tl_opt_double value;    /* 0.5: what is wanted of the second one in the name */
    int64_t num_thresholds; /* 200, from 0 to 1 */
    tl_opt_int class_id;
} tl_at_metric_config;
TL_API extern const tl_metric_class tl_metric_recall_at_precision;
TL_API extern const tl_metric_class tl_metric_precision_at_recall;
TL_API extern const tl_metric_class tl_metric_sensitivity_at_specificity;
TL_API extern const tl_metric_class tl_metric_specificity_at_sensitivity;

/* The area under a curve over thresholds from 0 to 1. Predictions outside of that are an error. */
typedef enum tl_auc_curve { TL_CURVE_ROC, TL_CURVE_PR } tl_auc_curve;
typedef enum tl_auc_summation {
    TL_SUMMATION_INTERPOLATION, /* trapezoids; PR after Davis and Goadrich */
    TL_SUMMATION_MAJORING,
    TL_SUMMATION_MINORING
} tl_auc_summation;
typedef struct tl_auc_config {
    tl_metric_config metric;
    int64_t num_thresholds;            /* 200 */
    tl_auc_curve curve;                /* roc */
    tl_auc_summation summation_method; /* interpolation */
    tl_doubles thresholds;             /* none: even steps; else those between 0 and 1 */
    int64_t num_labels;       /* 0: one curve for all; else one for each place of the last axis, and
                             * their mean (multi_label) */
    tl_doubles label_weights; /* none: all alike */
    bool from_logits;
} tl_auc_config;
TL_API extern const tl_metric_class tl_metric_auc;

/* --- classes ---------------------------------------------------------------------------------- */

/* Targets [..., classes], or class numbers [...]; predictions [..., classes]. */
typedef enum tl_average {
    TL_AVERAGE_NONE,
    TL_AVERAGE_MICRO,   /* of the counts of all classes together */
    TL_AVERAGE_MACRO,   /* the mean of the classes */
    TL_AVERAGE_WEIGHTED /* by how often each class is the target */
} tl_average;
typedef struct tl_f_score_config {
    tl_metric_config metric;
    int64_t num_classes;     /* required */
    tl_average average;      /* none: one score for each class */
    double beta;             /* 1 */
    tl_opt_double threshold; /* null: the class with the greatest prediction; else all above it */
} tl_f_score_config;
TL_API extern const tl_metric_class tl_metric_f1_score; /* beta is 1 */
TL_API extern const tl_metric_class tl_metric_fbeta_score;

/* Weighted counts [target, predicted]. Targets are class numbers [...], predictions class numbers
 * or scores [..., classes], whose greatest counts; targets may be scores where predictions are
 * numbers. A class number outside of [0, num_classes) is an error, unless it is ignored or has
 * weight 0. */
typedef struct tl_confusion_config {
    tl_metric_config metric;
    int64_t num_classes;             /* required */
    tl_opt_int ignore_class;         /* targets that do not count */
    bool dense_y_true, dense_y_pred; /* they are scores; by itself that one is, which has one
                                      * dimension more than the other */
} tl_confusion_config;
/* Told as an image of shares of the targets; the counts are its result. */
TL_API extern const tl_metric_class tl_metric_confusion_matrix;
/* Intersection over union, tp / (tp + fp + fn): the mean over classes that occur. */
TL_API extern const tl_metric_class tl_metric_mean_iou;
/* One for each class, 0 for those that do not occur. */
TL_API extern const tl_metric_class tl_metric_per_class_iou;
/* The mean over those of some classes that occur. */
typedef struct tl_iou_config {
    tl_confusion_config confusion;
    tl_ints target_class_ids; /* required */
} tl_iou_config;
TL_API extern const tl_metric_class tl_metric_iou;
/* The same of yes and no: targets are 0 or 1, predictions are 1 from the threshold on. */
typedef struct tl_binary_iou_config {
    tl_metric_config metric;
    tl_ints target_class_ids; /* none: both */
    tl_opt_double threshold;  /* 0.5 */
} tl_binary_iou_config;
TL_API extern const tl_metric_class tl_metric_binary_iou;
/* The same where targets are scores [..., classes], and predictions too unless told otherwise. */
typedef struct tl_one_hot_iou_config {
    tl_metric_config metric;
    int64_t num_classes;      /* required */
    tl_ints target_class_ids; /* required by one_hot_iou; the mean has none */
    tl_opt_int ignore_class;
    bool sparse_y_pred; /* predictions are class numbers */
} tl_one_hot_iou_config;
TL_API extern const tl_metric_class tl_metric_one_hot_iou;
TL_API extern const tl_metric_class tl_metric_one_hot_mean_iou;

TL_END

#endif
