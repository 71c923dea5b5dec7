#include <tilth/nn/losses.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "nn/metric_impl.h"
#include "nn/weight.h"

/* --- means and sums --------------------------------------------------------------------------- */

typedef struct mean_metric {
    tl_metric base;
    tl_tensor *total, *count;
} mean_metric;

static tl_status mean_build(tl_metric *m)
{
    mean_metric *a = (mean_metric *)m;
    a->total = tl_metric_state(m, "total", TL_F64, TL_SCALAR);
    if (!a->total) return tl_error_code();
    a->count = tl_metric_state(m, "count", TL_F64, TL_SCALAR);
    return a->count ? TL_OK : tl_error_code();
}

static void add_to_mean(tl_metric *m, tl_ctx *c, tl_tensor *values, tl_tensor *weight)
{
    mean_metric *a = (mean_metric *)m;
    if (tl_ctx_failed(c) || !values) return;
    tl_metric_add(c, a->total, tl_metric_weighted(c, values, weight));
    tl_metric_add(c, a->count,
                  weight ? tl_metric_weights(c, values, weight)
                         : tl_number(c, TL_F64, (double)tl_tensor_count(values)));
}

static void mean_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    (void)y;
    add_to_mean(m, c, p, weight);
}

static tl_tensor *mean_result(tl_metric *m, tl_ctx *c)
{
    mean_metric *a = (mean_metric *)m;
    return tl_div_no_nan(c, a->total, a->count);
}

TLI_METRIC_CLASS(mean, mean_metric, &tl_metric_config_desc, "weighted mean of values",
                 .build = mean_build, .update = mean_update, .result = mean_result,
                 .of_values = true)

typedef struct sum_metric {
    tl_metric base;
    tl_tensor *total;
} sum_metric;

static tl_status sum_build(tl_metric *m)
{
    sum_metric *s = (sum_metric *)m;
    s->total = tl_metric_state(m, "total", TL_F64, TL_SCALAR);
    return s->total ? TL_OK : tl_error_code();
}

static void sum_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p, tl_tensor *weight)
{
    (void)y;
    tl_metric_add(c, ((sum_metric *)m)->total, tl_metric_weighted(c, p, weight));
}

// A copy: what is told must not change with the state.
static tl_tensor *sum_result(tl_metric *m, tl_ctx *c)
{
    return tl_shift(c, ((sum_metric *)m)->total, 0);
}

TLI_METRIC_CLASS(sum, sum_metric, &tl_metric_config_desc, "weighted sum of values",
                 .build = sum_build, .update = sum_update, .result = sum_result, .of_values = true)

typedef struct mean_tensor {
    tl_metric base;
    tl_tensor *total, *count;
} mean_tensor;

static tl_status mean_tensor_build(tl_metric *m)
{
    mean_tensor *a = (mean_tensor *)m;
    tl_ints dims = ((const tl_mean_tensor_config *)m->config)->shape;
    tl_shape shape = {.rank = (int)dims.count};
    for (int64_t i = 0; i < dims.count; i++) shape.dims[i] = dims.items[i];
    a->total = tl_metric_state(m, "total", TL_F64, shape);
    if (!a->total) return tl_error_code();
    a->count = tl_metric_state(m, "count", TL_F64, shape);
    return a->count ? TL_OK : tl_error_code();
}

static void mean_tensor_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p,
                               tl_tensor *weight)
{
    mean_tensor *a = (mean_tensor *)m;
    (void)y;
    if (!tl_shape_equal(&p->shape, &a->total->shape)) {
        char spec[TL_TENSOR_TEXT], shape[TL_SHAPE_TEXT];
        (void)TL_FAIL(TL_EINVAL, "the values are %s and must have the shape of the metric, %s",
                      tl_tensor_spec(spec, p), tl_shape_text(shape, &a->total->shape));
        tl_ctx_fail(c);
        return;
    }
    tl_metric_add(c, a->total, tl_metric_weighted(c, p, weight));
    tl_metric_add(c, a->count, tl_metric_weights(c, p, weight));
}

static tl_tensor *mean_tensor_result(tl_metric *m, tl_ctx *c)
{
    mean_tensor *a = (mean_tensor *)m;
    return tl_div_no_nan(c, a->total, a->count);
}

static const char *element_name(const tl_metric *m, tl_ctx *c, const tl_shape *shape, int64_t i)
{
    const char *name = m->name;
    int64_t count = tl_shape_count(shape);
    for (int d = 0; d < shape->rank && name; d++) {
        count /= shape->dims[d];
        name = tl_arena_printf(tl_ctx_arena(c), "%s/%lld", name,
                               (long long)(i / count % shape->dims[d]));
    }
    return name;
}

static tl_status mean_tensor_tell(tl_metric *m, tl_ctx *c, tl_logs *into)
{
    tl_tensor *r = tl_metric_result(m, c);
    TL_TRY(tl_ctx_status(c));
    const tl_shape shape = r->shape;
    int64_t count = tl_shape_count(&shape);
    tl_tensor *flat = tl_reshape(c, r, TL_SHAPE(count));
    for (int64_t i = 0; i < count; i++) {
        tl_tensor *element = tl_take(c, flat, 0, i);
        TL_TRY(tl_ctx_status(c));
        const char *name = element_name(m, c, &shape, i);
        if (!name) return TL_ENOMEM;
        TL_TRY(tl_logs_put_tensor(into, name, element));
    }
    return TL_OK;
}

static tl_status mean_tensor_check(const void *value)
{
    const tl_mean_tensor_config *config = value;
    if (config->shape.count <= TL_MAX_RANK) return TL_OK;
    return TL_FAIL(TL_EINVAL, "shape: it has %lld dimensions; a tensor has at most %d",
                   (long long)config->shape.count, TL_MAX_RANK);
}
static const tl_field mean_tensor_fields[] = {
    TL_F(tl_mean_tensor_config, shape, TL_AT_LEAST(1), .help = "of all values; none for scalars"),
    TL_F_END,
};
TLI_METRIC_DESC(mean_tensor, tl_mean_tensor_config, mean_tensor_check, "mean of each element")
TLI_METRIC_CLASS(mean_tensor, mean_tensor, &mean_tensor_desc, "weighted mean of each element",
                 .build = mean_tensor_build, .update = mean_tensor_update,
                 .result = mean_tensor_result, .tell = mean_tensor_tell, .of_values = true)

/* --- shares of right answers ------------------------------------------------------------------ */

#define MEAN_METRIC(id, config_, help_)                                                            \
    static void id##_update(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p,                   \
                            tl_tensor *weight)                                                     \
    {                                                                                              \
        add_to_mean(m, c, id##_values(m, c, y, p), weight);                                        \
    }                                                                                              \
    TLI_METRIC_CLASS(id, mean_metric, config_, help_, .build = mean_build, .update = id##_update,  \
                     .result = mean_result)

static tl_tensor *accuracy_values(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    (void)m;
    tli_match(c, &y, &p);
    return tl_equal(c, y, p);
}
MEAN_METRIC(accuracy, &tl_metric_config_desc, "share of predictions that are equal to the targets")

static tl_tensor *binary_accuracy_values(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    const tl_binary_accuracy_config *config = m->config;
    tli_match(c, &y, &p);
    if (tl_ctx_failed(c)) return NULL;
    tl_tensor *yes = tl_greater(c, p, tl_number(c, p->dtype, config->threshold.value));
    return tl_equal(c, tl_cast(c, y, TL_F32), tl_cast(c, yes, TL_F32));
}
static const tl_field binary_accuracy_fields[] = {
    TL_F(tl_binary_accuracy_config, threshold, TL_FILLED, .d = 0.5,
         .help = "predictions above it are yes"),
    TL_F_END,
};
TLI_METRIC_DESC(binary_accuracy, tl_binary_accuracy_config, NULL, "share of right yes and no")
MEAN_METRIC(binary_accuracy, &binary_accuracy_desc, "share of right yes and no")

static bool has_classes(tl_ctx *c, const tl_tensor *p)
{
    if (tl_ctx_failed(c)) return false;
    if (p->shape.rank && p->shape.dims[p->shape.rank - 1]) return true;
    char spec[TL_TENSOR_TEXT];
    (void)TL_FAIL(TL_EINVAL, "the predictions are %s and have no axis of classes",
                  tl_tensor_spec(spec, p));
    tl_ctx_fail(c);
    return false;
}

static tl_tensor *sparse_categorical_accuracy_values(tl_metric *m, tl_ctx *c, tl_tensor *y,
                                                     tl_tensor *p)
{
    (void)m;
    if (!has_classes(c, p)) return NULL;
    return tl_equal(c, tli_labels(c, y, p), tl_argmax(c, p, -1, false));
}
MEAN_METRIC(sparse_categorical_accuracy, &tl_metric_config_desc,
            "share of examples whose greatest prediction is that of the class number")

// Class numbers of targets [..., classes].
static tl_tensor *dense_labels(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    tli_match(c, &y, &p);
    return has_classes(c, p) ? tl_argmax(c, y, -1, false) : NULL;
}

static tl_tensor *categorical_accuracy_values(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    (void)m;
    y = dense_labels(c, y, p);
    return y ? tl_equal(c, y, tl_argmax(c, p, -1, false)) : NULL;
}
MEAN_METRIC(categorical_accuracy, &tl_metric_config_desc,
            "share of examples whose greatest prediction is where the greatest target is")

// Fewer than k predictions are above that of the label. Labels that are no class are never among
// them.
static tl_tensor *among_best(tl_ctx *c, tl_tensor *labels, tl_tensor *p, int64_t k)
{
    labels = labels ? tl_cast(c, labels, TL_I64) : NULL;
    if (!labels) return NULL;
    int64_t classes = p->shape.dims[p->shape.rank - 1];
    tl_tensor *place = tl_clip(c, labels, 0, (double)(classes - 1));
    tl_tensor *right = tl_take_along_axis(c, p, tl_expand_dims(c, place, -1), -1);
    tl_tensor *above = tl_cast(c, tl_greater(c, p, right), TL_I32);
    tl_tensor *few = tl_less(c, tl_sum(c, above, TL_AXES(-1), false),
                             tl_number(c, TL_I32, (double)(k < classes ? k : classes)));
    tl_tensor *number = tl_squeeze(c, tl_equal(c, right, right), TL_AXES(-1)); // not NaN
    return tl_logical_and(c, tl_logical_and(c, few, number), tl_equal(c, place, labels));
}

static tl_tensor *sparse_top_k_categorical_accuracy_values(tl_metric *m, tl_ctx *c, tl_tensor *y,
                                                           tl_tensor *p)
{
    if (!has_classes(c, p)) return NULL;
    return among_best(c, tli_labels(c, y, p), p, ((const tl_top_k_config *)m->config)->k);
}

static tl_tensor *top_k_categorical_accuracy_values(tl_metric *m, tl_ctx *c, tl_tensor *y,
                                                    tl_tensor *p)
{
    return among_best(c, dense_labels(c, y, p), p, ((const tl_top_k_config *)m->config)->k);
}
static const tl_field top_k_fields[] = {
    TL_F(tl_top_k_config, k, .i = 5, TL_AT_LEAST(1), .help = "how many predictions are looked at"),
    TL_F_END,
};
TLI_METRIC_DESC(top_k, tl_top_k_config, NULL, "share of targets among the greatest predictions")
MEAN_METRIC(sparse_top_k_categorical_accuracy, &top_k_desc,
            "share of class numbers among the k greatest predictions")
MEAN_METRIC(top_k_categorical_accuracy, &top_k_desc,
            "share of targets among the k greatest predictions")

/* --- means of losses -------------------------------------------------------------------------- */

#define LOSS_VALUES(id, expression)                                                                \
    static tl_tensor *id##_values(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p)             \
    {                                                                                              \
        (void)m;                                                                                   \
        return expression;                                                                         \
    }
#define LOSS_METRIC(id, help_)                                                                     \
    LOSS_VALUES(id, tl_##id(c, y, p)) MEAN_METRIC(id, &tl_metric_config_desc, help_)
LOSS_METRIC(mean_squared_error, "mean of squared errors")
LOSS_METRIC(mean_absolute_error, "mean of magnitudes of errors")
LOSS_METRIC(mean_absolute_percentage_error, "mean of errors in percent of the targets")
LOSS_METRIC(mean_squared_logarithmic_error, "mean of squared differences of logarithms")
LOSS_METRIC(log_cosh, "mean of log(cosh(error))")
LOSS_METRIC(hinge, "mean of max(1 - target * prediction, 0)")
LOSS_METRIC(squared_hinge, "mean of max(1 - target * prediction, 0)^2")
LOSS_METRIC(categorical_hinge, "how far the right class is less than 1 above the others")
LOSS_METRIC(kl_divergence, "mean of sum(target * log(target / prediction))")
LOSS_METRIC(poisson, "mean of prediction - target * log(prediction)")
LOSS_VALUES(cosine_similarity, tl_neg(c, tl_cosine_similarity(c, y, p)))
MEAN_METRIC(cosine_similarity, &tl_metric_config_desc, "cosine between targets and predictions")

static tl_tensor *mean_relative_error_values(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    tl_doubles by = ((const tl_mean_relative_error_config *)m->config)->normalizer;
    tli_match(c, &y, &p);
    if (tl_ctx_failed(c)) return NULL;
    int64_t last = p->shape.rank ? p->shape.dims[p->shape.rank - 1] : 1;
    if (by.count != 1 && by.count != last) {
        char spec[TL_TENSOR_TEXT];
        (void)TL_FAIL(TL_EINVAL,
                      "the predictions are %s and there are %lld normalizers; give one, or one for "
                      "each place of the last axis",
                      tl_tensor_spec(spec, p), (long long)by.count);
        return tl_ctx_fail(c);
    }
    tl_tensor *error = tl_abs(c, tl_sub(c, tl_cast(c, y, TL_F64), tl_cast(c, p, TL_F64)));
    tl_shape shape = p->shape.rank ? TL_SHAPE(by.count) : TL_SCALAR;
    return tl_div_no_nan(c, error, tl_from_doubles(c, TL_F64, shape, by.items));
}
static tl_status mean_relative_error_check(const void *value)
{
    if (((const tl_mean_relative_error_config *)value)->normalizer.count) return TL_OK;
    return TL_FAIL(TL_EINVAL, "normalizer: it is empty; give one number, or one for each place of "
                              "the last axis");
}
static const tl_field mean_relative_error_fields[] = {
    TL_F(tl_mean_relative_error_config, normalizer, .flags = TL_FIELD_REQUIRED,
         .help = "what errors are divided by: of each place of the last axis, or of all"),
    TL_F_END,
};
TLI_METRIC_DESC(mean_relative_error, tl_mean_relative_error_config, mean_relative_error_check,
                "mean of errors over what is given")
MEAN_METRIC(mean_relative_error, &mean_relative_error_desc,
            "mean of magnitudes of errors over what is given")

static tl_tensor *root_result(tl_metric *m, tl_ctx *c)
{
    return tl_sqrt(c, mean_result(m, c));
}
TLI_METRIC_CLASS(root_mean_squared_error, mean_metric, &tl_metric_config_desc,
                 "square root of the mean of squared errors", .build = mean_build,
                 .update = mean_squared_error_update, .result = root_result)

static const tl_field crossentropy_fields[] = {
    TL_F(tl_crossentropy_metric_config, from_logits,
         .help = "predictions are given before the softmax or sigmoid"),
    TL_F(tl_crossentropy_metric_config, label_smoothing, TL_RANGE(0, 1),
         .help = "share of the targets that is spread evenly; not of class numbers"),
    TL_F(tl_crossentropy_metric_config, ignore_class,
         .help = "class number of examples that do not count"),
    TL_F_END,
};
TLI_METRIC_DESC(crossentropy, tl_crossentropy_metric_config, NULL, "mean of a cross-entropy")

static tl_crossentropy_config dense_config(const tl_metric *m)
{
    const tl_crossentropy_metric_config *from = m->config;
    return (tl_crossentropy_config){.from_logits = from->from_logits,
                                    .label_smoothing = from->label_smoothing};
}

static tl_tensor *binary_crossentropy_values(tl_metric *m, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    tl_crossentropy_config how = dense_config(m);
    return tl_binary_crossentropy(c, y, p, &how);
}
MEAN_METRIC(binary_crossentropy, &crossentropy_desc, "mean cross-entropy of yes and no")

static tl_tensor *categorical_crossentropy_values(tl_metric *m, tl_ctx *c, tl_tensor *y,
                                                  tl_tensor *p)
{
    tl_crossentropy_config how = dense_config(m);
    return tl_categorical_crossentropy(c, y, p, &how);
}
MEAN_METRIC(categorical_crossentropy, &crossentropy_desc,
            "mean cross-entropy of shares of the classes")

// The weights with 0 at labels that are ignored.
static tl_tensor *without_ignored(tl_ctx *c, tl_tensor *values, tl_tensor *labels,
                                  tl_tensor *weight, int64_t ignored)
{
    tl_tensor *weights = tl_metric_weights(c, values, weight);
    tl_tensor *out = tl_equal(c, labels, tl_number(c, TL_I64, (double)ignored));
    return tl_where(c, out, tl_number(c, TL_F64, 0), weights);
}

static void sparse_categorical_crossentropy_update(tl_metric *m, tl_ctx *c, tl_tensor *y,
                                                   tl_tensor *p, tl_tensor *weight)
{
    const tl_crossentropy_metric_config *config = m->config;
    tl_sparse_crossentropy_config how = {
        .from_logits = config->from_logits,
        .ignore_class = config->ignore_class,
    };
    tl_tensor *values = tl_sparse_categorical_crossentropy(c, y, p, &how);
    if (!values) return;
    if (how.ignore_class.set)
        weight = without_ignored(c, values, tli_labels(c, y, p), weight, how.ignore_class.value);
    add_to_mean(m, c, values, weight);
}
TLI_METRIC_CLASS(sparse_categorical_crossentropy, mean_metric, &crossentropy_desc,
                 "mean cross-entropy of class numbers", .build = mean_build,
                 .update = sparse_categorical_crossentropy_update, .result = mean_result)

static tl_tensor *perplexity_result(tl_metric *m, tl_ctx *c)
{
    return tl_exp(c, mean_result(m, c));
}
TLI_METRIC_CLASS(perplexity, mean_metric, &crossentropy_desc,
                 "exp of the mean cross-entropy of class numbers", .build = mean_build,
                 .update = sparse_categorical_crossentropy_update, .result = perplexity_result)
TLI_METRIC_CLASS(loss_perplexity, mean_metric, &tl_metric_config_desc,
                 "exp of the mean of cross-entropies that are given", .build = mean_build,
                 .update = mean_update, .result = perplexity_result, .of_values = true)

/* --- all that ship ---------------------------------------------------------------------------- */

#define ENTRY(id) TL_INIT(&tl_kind_metric, &tl_metric_##id.cls)
static const tl_entry entries[] = {
    ENTRY(mean),
    ENTRY(sum),
    ENTRY(mean_tensor),
    ENTRY(accuracy),
    ENTRY(binary_accuracy),
    ENTRY(categorical_accuracy),
    ENTRY(sparse_categorical_accuracy),
    ENTRY(top_k_categorical_accuracy),
    ENTRY(sparse_top_k_categorical_accuracy),
    ENTRY(mean_squared_error),
    ENTRY(root_mean_squared_error),
    ENTRY(mean_absolute_error),
    ENTRY(mean_absolute_percentage_error),
    ENTRY(mean_squared_logarithmic_error),
    ENTRY(mean_relative_error),
    ENTRY(log_cosh),
    ENTRY(hinge),
    ENTRY(squared_hinge),
    ENTRY(categorical_hinge),
    ENTRY(kl_divergence),
    ENTRY(poisson),
    ENTRY(r2_score),
    ENTRY(cosine_similarity),
    ENTRY(binary_crossentropy),
    ENTRY(categorical_crossentropy),
    ENTRY(sparse_categorical_crossentropy),
    ENTRY(perplexity),
    ENTRY(loss_perplexity),
    ENTRY(precision),
    ENTRY(recall),
    ENTRY(true_positives),
    ENTRY(true_negatives),
    ENTRY(false_positives),
    ENTRY(false_negatives),
    ENTRY(recall_at_precision),
    ENTRY(precision_at_recall),
    ENTRY(sensitivity_at_specificity),
    ENTRY(specificity_at_sensitivity),
    ENTRY(auc),
    ENTRY(f1_score),
    ENTRY(fbeta_score),
    ENTRY(confusion_matrix),
    ENTRY(mean_iou),
    ENTRY(per_class_iou),
    ENTRY(iou),
    ENTRY(binary_iou),
    ENTRY(one_hot_iou),
    ENTRY(one_hot_mean_iou),
};
const tl_module tl_metrics_module = {TL_MODULE_HEAD("nn_metrics"), entries, TL_COUNT(entries)};
