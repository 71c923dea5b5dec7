#include <tilth/nn/detection_losses.h>

#include <inttypes.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/sort.h>
#include <tilth/ops/view.h>

#include "nn/loss_impl.h"

enum { SIDES = 4 };
static const double some = 0.01; /* added to counts, which may be 0 */

static bool given(tl_ctx *c, const tl_tensor *targets, const tl_tensor *outputs)
{
    if (tl_ctx_failed(c)) return false;
    if (targets && outputs) return true;
    (void)TL_FAIL(TL_EINVAL, "the loss was given no %s", outputs ? "targets" : "predictions");
    tl_ctx_fail(c);
    return false;
}

// A failure of the shapes of targets and outputs. Gives NULL.
static tl_tensor *fail_shapes(tl_ctx *c, const tl_tensor *targets, const tl_tensor *outputs,
                              const char *wanted)
{
    char spec[2][TL_TENSOR_TEXT];
    (void)TL_FAIL(TL_EINVAL, "targets %s and predictions %s must be %s",
                  tl_tensor_spec(spec[0], targets), tl_tensor_spec(spec[1], outputs), wanted);
    return tl_ctx_fail(c);
}

// Whether numbers are above one.
static tl_tensor *above(tl_ctx *c, tl_tensor *x, double least)
{
    return x ? tl_greater(c, x, tl_number(c, x->dtype, least)) : NULL;
}

// The sum of values where a condition, which broadcasts, is true.
static tl_tensor *sum_where(tl_ctx *c, tl_tensor *condition, tl_tensor *values)
{
    if (tl_ctx_failed(c)) return NULL;
    return tl_sum(c, tl_where(c, condition, values, tl_number(c, values->dtype, 0)), TL_ALL, false);
}

// sum / (count of what is true * each + 0.01)
static tl_tensor *over_count(tl_ctx *c, tl_tensor *sum, tl_tensor *condition, int64_t each)
{
    if (tl_ctx_failed(c)) return NULL;
    tl_tensor *count = tl_sum(c, tl_cast(c, condition, sum->dtype), TL_ALL, false);
    return tl_div(c, sum, tl_affine(c, count, (double)each, some));
}

// Huber's loss of each number.
static tl_tensor *huber_values(tl_ctx *c, tl_tensor *y, tl_tensor *p, double delta)
{
    return tl_huber(c, tl_expand_dims(c, y, -1), tl_expand_dims(c, p, -1), delta);
}

/* --- RetinaNet -------------------------------------------------------------------------------- */

// The sum of values [batch, n], weighted, over the number of boxes and 1.
static tl_tensor *over_boxes(tl_ctx *c, tl_tensor *values, tl_tensor *weights, tl_tensor *boxes)
{
    tl_tensor *sum = tl_loss_reduce(c, values, weights, TL_REDUCTION_SUM);
    if (!sum) return NULL;
    tl_tensor *count = tl_sum(c, tl_cast(c, boxes, sum->dtype), TL_ALL, false);
    return tl_div(c, sum, tl_shift(c, count, 1));
}

tl_tensor *tl_retinanet_class_loss(tl_ctx *c, const tl_retinanet_loss_args *args, tl_tensor *logits,
                                   double alpha, double gamma)
{
    tl_tensor *targets = args->cls_targets;
    if (!given(c, targets, logits) || !given(c, args->cls_weights, args->box_weights)) return NULL;
    if (logits->shape.rank != 3 || targets->shape.rank != 2)
        return fail_shapes(c, targets, logits, "[batch, n] and [batch, n, classes]");
    logits = tli_loss_float(c, logits);
    if (!logits) return NULL;
    tl_tensor *hot =
        tl_one_hot(c, tl_cast(c, targets, TL_I32), logits->shape.dims[2], logits->dtype);
    tl_tensor *values = tl_sum(c, tl_focal(c, hot, logits, alpha, gamma), TL_AXES(-1), false);
    return over_boxes(c, values, args->cls_weights, args->box_weights);
}

tl_tensor *tl_retinanet_box_loss(tl_ctx *c, const tl_retinanet_loss_args *args, tl_tensor *codes,
                                 double delta)
{
    if (!given(c, args->box_targets, codes) || !given(c, args->box_weights, codes)) return NULL;
    tl_tensor *values = tl_huber(c, args->box_targets, codes, delta);
    return over_boxes(c, values, args->box_weights, args->box_weights);
}

/* --- regions ---------------------------------------------------------------------------------- */

tl_tensor *tl_rpn_score_loss(tl_ctx *c, tl_tensor *targets, tl_tensor *logits,
                             int64_t rpn_batch_size_per_im)
{
    if (!given(c, targets, logits) || !tli_loss_pair(c, &targets, &logits)) return NULL;
    if (!logits->shape.rank || rpn_batch_size_per_im < 1) {
        (void)TL_FAIL(TL_EINVAL,
                      "rpn_batch_size_per_im is %" PRId64
                      " and must be at least 1, and predictions "
                      "be those of a batch",
                      rpn_batch_size_per_im);
        return tl_ctx_fail(c);
    }
    const int64_t images = logits->shape.dims[0] ? logits->shape.dims[0] : 1;
    tl_tensor *zero = tl_number(c, targets->dtype, 0), *one = tl_number(c, targets->dtype, 1);
    tl_tensor *asked = tl_logical_or(c, tl_equal(c, targets, zero), tl_equal(c, targets, one));
    tl_tensor *values = tl_sigmoid_cross_entropy(c, tl_maximum(c, targets, zero), logits);
    return tl_scale(c, sum_where(c, asked, values),
                    1 / ((double)images * (double)rpn_batch_size_per_im));
}

tl_tensor *tl_rpn_box_loss(tl_ctx *c, tl_tensor *targets, tl_tensor *codes, double delta)
{
    if (!given(c, targets, codes) || !tli_loss_pair(c, &targets, &codes)) return NULL;
    const tl_shape *s = &codes->shape;
    if (s->rank < 1 || s->dims[s->rank - 1] % SIDES)
        return fail_shapes(c, targets, codes, "[.., anchors * 4], both");
    tl_shape split = TL_SHAPE(-1, SIDES);
    if (!tl_tensor_count(codes)) split = TL_SHAPE(0, SIDES);
    targets = tl_reshape(c, targets, split);
    codes = tl_reshape(c, codes, split);
    tl_tensor *real = tl_any(c, above(c, tl_abs(c, targets), 1e-6), TL_AXES(-1), true);
    tl_tensor *sum = sum_where(c, real, huber_values(c, targets, codes, delta));
    return over_count(c, sum, real, SIDES);
}

/* --- what is in regions ----------------------------------------------------------------------- */

// The largest of all values, a share of their number that is rounded down.
static tl_tensor *mean_of_largest(tl_ctx *c, tl_tensor *values, double share)
{
    tl_tensor *largest;
    if (tl_ctx_failed(c)) return NULL;
    const int64_t n = tl_tensor_count(values);
    const int64_t k = (int64_t)((float)share * (float)n);
    tl_top_k(c, tl_reshape(c, values, TL_SHAPE(n)), k, &largest, NULL);
    return tl_scale(c, tl_sum(c, largest, TL_ALL, false), 1 / ((double)k + 1e-5));
}

tl_tensor *tl_fastrcnn_class_loss(tl_ctx *c, tl_tensor *targets, tl_tensor *logits,
                                  const tl_fastrcnn_class_config *how)
{
    if (!given(c, targets, logits)) return NULL;
    logits = tli_loss_float(c, logits);
    if (!logits) return NULL;
    const int64_t classes = logits->shape.rank ? logits->shape.dims[logits->shape.rank - 1] : 0;
    if (targets->shape.rank != logits->shape.rank - 1)
        return fail_shapes(c, targets, logits, "[batch, n] and [batch, n, classes]");
    const tl_doubles *given_weights = &how->class_weights;
    if (given_weights->count && given_weights->count != classes) {
        (void)TL_FAIL(TL_EINVAL,
                      "class_weights has %" PRId64 " numbers; there are %" PRId64 " classes",
                      given_weights->count, classes);
        return tl_ctx_fail(c);
    }
    tl_tensor *weights = NULL, *values;
    if (given_weights->count)
        weights = tl_from_doubles(c, logits->dtype, TL_SHAPE(classes), given_weights->items);
    targets = tl_cast(c, targets, TL_I32);
    if (how->use_binary_cross_entropy) {
        tl_tensor *hot = tl_one_hot(c, targets, classes, logits->dtype);
        values = tl_sigmoid_cross_entropy(c, hot, logits);
        if (weights) values = tl_mul(c, values, weights);
    } else {
        values = tl_sparse_cross_entropy(c, targets, logits);
        if (weights) values = tl_mul(c, values, tl_gather(c, weights, targets, 0));
    }
    return how->top_k_percent.set && how->top_k_percent.value < 1
               ? mean_of_largest(c, values, how->top_k_percent.value)
               : tl_mean(c, values, TL_ALL, false);
}

// Of codes [batch, n, classes * 4] those of each region's class.
static tl_tensor *codes_of_class(tl_ctx *c, tl_tensor *classes, tl_tensor *codes)
{
    const int64_t *d = codes->shape.dims;
    codes = tl_reshape(c, codes, TL_SHAPE(d[0], d[1], d[2] / SIDES, SIDES));
    tl_tensor *places = tl_expand_dims(c, tl_expand_dims(c, classes, -1), -1);
    places = tl_broadcast_to(c, places, TL_SHAPE(d[0], d[1], 1, SIDES));
    return tl_squeeze(c, tl_take_along_axis(c, codes, places, 2), TL_AXES(2));
}

tl_tensor *tl_fastrcnn_box_loss(tl_ctx *c, tl_tensor *classes, tl_tensor *targets, tl_tensor *codes,
                                double delta)
{
    if (!given(c, targets, codes) || !given(c, classes, codes)) return NULL;
    const tl_shape *s = &codes->shape;
    if (s->rank != 3 || s->dims[2] % SIDES || classes->shape.rank != 2)
        return fail_shapes(c, targets, codes,
                           "[batch, n, 4] and [batch, n, 4 * classes], with classes [batch, n]");
    classes = tl_cast(c, classes, TL_I32);
    if (s->dims[2] > SIDES) codes = codes_of_class(c, classes, codes);
    if (tl_ctx_failed(c) || !tli_loss_pair(c, &targets, &codes)) return NULL;
    tl_tensor *real = tl_expand_dims(c, above(c, classes, 0), -1);
    tl_tensor *sum = sum_where(c, real, huber_values(c, targets, codes, delta));
    return over_count(c, sum, real, SIDES);
}

tl_tensor *tl_maskrcnn_loss(tl_ctx *c, tl_tensor *classes, tl_tensor *targets, tl_tensor *logits)
{
    if (!given(c, targets, logits) || !given(c, classes, logits)
        || !tli_loss_pair(c, &targets, &logits))
        return NULL;
    const tl_shape *s = &logits->shape;
    if (s->rank != 4 || classes->shape.rank != 2)
        return fail_shapes(c, targets, logits,
                           "[batch, n, rows, columns], both, with classes [batch, n]");
    tl_tensor *real = tl_expand_dims(c, tl_expand_dims(c, above(c, classes, 0), -1), -1);
    tl_tensor *sum = sum_where(c, real, tl_sigmoid_cross_entropy(c, targets, logits));
    return over_count(c, sum, real, s->dims[2] * s->dims[3]);
}

/* --- the classes of losses -------------------------------------------------------------------- */

static tl_tensor *rpn_score_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    return tl_rpn_score_loss(c, y, p,
                             ((const tl_rpn_score_config *)l->config)->rpn_batch_size_per_im);
}
static const tl_field rpn_score_fields[] = {
    TL_F(tl_rpn_score_config, rpn_batch_size_per_im, .i = 256, TL_AT_LEAST(1),
         .help = "anchors of an image that are asked"),
    TL_F_END,
};
TLI_LOSS_DESC(rpn_score, tl_rpn_score_config, "whether there is something at anchors")
TLI_LOSS_CLASS(rpn_score, &rpn_score_desc, rpn_score_call, "whether there is something at anchors")

static tl_tensor *rpn_box_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    return tl_rpn_box_loss(c, y, p, ((const tl_rpn_box_config *)l->config)->huber_loss_delta.value);
}
static const tl_field rpn_box_fields[] = {
    TL_F(tl_rpn_box_config, huber_loss_delta, TL_FILLED, .d = 1.0 / 9, TL_AT_LEAST(0),
         .help = "error where the line begins"),
    TL_F_END,
};
TLI_LOSS_DESC(rpn_box, tl_rpn_box_config, "where it is, relative to anchors")
TLI_LOSS_CLASS(rpn_box, &rpn_box_desc, rpn_box_call, "where it is, relative to anchors")

static tl_tensor *fastrcnn_class_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    return tl_fastrcnn_class_loss(c, y, p, l->config);
}
static const tl_field fastrcnn_class_fields[] = {
    TL_F(tl_fastrcnn_class_config, use_binary_cross_entropy,
         .help = "each class is a question of its own"),
    TL_F(tl_fastrcnn_class_config, top_k_percent, TL_FILLED, .d = 1, TL_RANGE(0, 1),
         .help = "share of the largest losses that counts"),
    TL_F(tl_fastrcnn_class_config, class_weights, .flags = TL_FIELD_NULLABLE,
         .help = "a weight for each class"),
    TL_F_END,
};
TLI_LOSS_DESC(fastrcnn_class, tl_fastrcnn_class_config, "what is in regions")
TLI_LOSS_CLASS(fastrcnn_class, &fastrcnn_class_desc, fastrcnn_class_call, "what is in regions")

static tl_tensor *fastrcnn_box_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    const tl_fastrcnn_box_config *f = l->config;
    if (y->shape.rank != 3 || y->shape.dims[2] != 1 + SIDES)
        return fail_shapes(c, y, p, "[batch, n, 5] and [batch, n, 4 * classes]");
    return tl_fastrcnn_box_loss(c, tl_take(c, y, -1, 0), tl_slice(c, y, -1, 1, TL_OPEN, 1), p,
                                f->huber_loss_delta.value);
}
static const tl_field fastrcnn_box_fields[] = {
    TL_F(tl_fastrcnn_box_config, huber_loss_delta, TL_FILLED, .d = 1, TL_AT_LEAST(0),
         .help = "error where the line begins"),
    TL_F_END,
};
TLI_LOSS_DESC(fastrcnn_box, tl_fastrcnn_box_config, "where it is, relative to regions")
TLI_LOSS_CLASS(fastrcnn_box, &fastrcnn_box_desc, fastrcnn_box_call,
               "where it is, relative to regions")

static tl_tensor *maskrcnn_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    (void)l;
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    tl_tensor *zero = tl_number(c, y->dtype, 0), *real = tl_greater_equal(c, y, zero);
    tl_tensor *values = tl_sigmoid_cross_entropy(c, tl_maximum(c, y, zero), p);
    return over_count(c, sum_where(c, real, values), real, 1);
}
TLI_LOSS_CLASS(maskrcnn, &tl_loss_config_desc, maskrcnn_call, "the pixels of masks")

#define ENTRY(id) TL_INIT(&tl_kind_loss, &tl_loss_##id.cls)
static const tl_entry entries[] = {
    ENTRY(rpn_score), ENTRY(rpn_box), ENTRY(fastrcnn_class), ENTRY(fastrcnn_box), ENTRY(maskrcnn),
};
const tl_module tl_detection_losses_module = {TL_MODULE_HEAD("nn_detection_losses"), entries,
                                              TL_COUNT(entries)};
