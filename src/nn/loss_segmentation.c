#include <tilth/nn/segmentation_loss.h>

#include <inttypes.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/sort.h>
#include <tilth/ops/view.h>

#include "nn/loss_impl.h"

static const double some = 1e-5; /* added to counts, which may be 0 */

static bool check(tl_ctx *c, const tl_tensor *masks, const tl_tensor *logits,
                  const tl_segmentation_loss_config *how)
{
    char spec[2][TL_TENSOR_TEXT];
    const tl_shape *m = &masks->shape, *l = &logits->shape;
    tl_status st = TL_OK;
    if (m->rank != 4 || l->rank != 4 || m->dims[0] != l->dims[0] || m->dims[3] != 1)
        st = TL_FAIL(TL_EINVAL,
                     "masks %s and logits %s must be [batch, height, width, 1] and [batch, rows, "
                     "columns, classes]",
                     tl_tensor_spec(spec[0], masks), tl_tensor_spec(spec[1], logits));
    else if (how->class_weights.count && how->class_weights.count != l->dims[3])
        st = TL_FAIL(TL_EINVAL,
                     "class_weights has %" PRId64 " numbers; there are %" PRId64 " classes",
                     how->class_weights.count, l->dims[3]);
    else if (how->gt_is_matting_map && l->dims[3] != 2)
        st = TL_FAIL(TL_EINVAL,
                     "gt_is_matting_map: masks are shares of two classes, and there are %" PRId64,
                     l->dims[3]);
    if (st != TL_OK) tl_ctx_fail(c);
    return st == TL_OK;
}

/* Both at one size. */
static void fit(tl_ctx *c, tl_tensor **masks, tl_tensor **logits, bool to_masks)
{
    const int64_t *m = (*masks)->shape.dims, *l = (*logits)->shape.dims;
    if (m[1] == l[1] && m[2] == l[2]) return;
    if (to_masks) *logits = tl_resize(c, *logits, m[1], m[2], .method = TL_BILINEAR);
    else *masks = tl_resize(c, *masks, l[1], l[2], .method = TL_NEAREST);
}

/* What each class weighs: [classes]. */
static tl_tensor *weights_of(tl_ctx *c, const tl_segmentation_loss_config *how, tl_dtype dtype)
{
    if (!how->class_weights.count) return NULL;
    return tl_from_doubles(c, dtype, TL_SHAPE(how->class_weights.count), how->class_weights.items);
}

/* Cross-entropies [batch, height, width], before what is not valid is left out. */
static tl_tensor *matting_values(tl_ctx *c, tl_tensor *shares, tl_tensor *logits,
                                 const tl_segmentation_loss_config *how)
{
    tl_tensor *one = tl_number(c, shares->dtype, 1), *weights = weights_of(c, how, logits->dtype);
    tl_tensor *both =
        tl_stack(c, (tl_tensor *[]){tl_sub(c, one, shares), shares}, 2, shares->shape.rank);
    tl_tensor *values = tl_cross_entropy(c, both, logits, how->label_smoothing);
    if (!weights) return values;
    tl_tensor *second = tl_cast(c, tl_greater(c, shares, tl_number(c, shares->dtype, 0.5)), TL_I32);
    return tl_mul(c, values, tl_gather(c, weights, second, 0));
}

static tl_tensor *class_values(tl_ctx *c, tl_tensor *classes, tl_tensor *valid, tl_tensor *logits,
                               const tl_segmentation_loss_config *how)
{
    tl_tensor *weights = weights_of(c, how, logits->dtype);
    tl_tensor *values =
        tl_sparse_cross_entropy(c, classes, logits, .smoothing = how->label_smoothing,
                                .ignored = {true, how->ignore_label});
    if (!weights) return values;
    tl_tensor *there = tl_where(c, valid, classes, tl_number(c, classes->dtype, 0));
    return tl_mul(c, values, tl_gather(c, weights, there, 0));
}

/* [batch, height, width, classes] */
static tl_tensor *binary_values(tl_ctx *c, tl_tensor *targets, tl_tensor *valid, tl_tensor *logits,
                                const tl_segmentation_loss_config *how)
{
    const int64_t classes = logits->shape.dims[3];
    tl_tensor *weights = weights_of(c, how, logits->dtype);
    if (how->label_smoothing > 0)
        targets =
            tl_affine(c, targets, 1 - how->label_smoothing, how->label_smoothing / (double)classes);
    tl_tensor *values = tl_sigmoid_cross_entropy(c, targets, logits);
    if (weights) values = tl_mul(c, values, weights);
    return tl_where(c, tl_expand_dims(c, valid, -1), values, tl_number(c, logits->dtype, 0));
}

/* Of all values the sum, or that of the largest, over how many count. */
static tl_tensor *mean_of(tl_ctx *c, tl_tensor *values, tl_tensor *count, double share)
{
    if (tl_ctx_failed(c)) return NULL;
    if (share >= 1) return tl_div(c, tl_sum(c, values, TL_ALL, false), tl_shift(c, count, some));
    const int64_t n = tl_tensor_count(values);
    const int64_t k = (int64_t)((float)share * (float)n);
    tl_tensor *largest = NULL;
    tl_top_k(c, tl_reshape(c, values, TL_SHAPE(n)), k, &largest, NULL);
    if (!largest) return NULL;
    count = tl_minimum(c, count, tl_number(c, count->dtype, (double)k));
    return tl_div(c, tl_sum(c, largest, TL_ALL, false), tl_shift(c, count, some));
}

tl_tensor *tl_segmentation_loss(tl_ctx *c, tl_tensor *masks, tl_tensor *logits,
                                const tl_segmentation_loss_config *how)
{
    if (tl_ctx_failed(c) || !masks || !logits || !check(c, masks, logits, how)) return NULL;
    const int64_t classes = logits->shape.dims[3];
    logits = tli_loss_float(c, logits);
    fit(c, &masks, &logits, how->use_groundtruth_dimension);
    tl_tensor *marks = tl_squeeze(c, masks, TL_AXES(3)), *whole = tl_cast(c, marks, TL_I32);
    tl_tensor *valid = tl_not_equal(c, whole, tl_number(c, TL_I32, (double)how->ignore_label));
    if (tl_ctx_failed(c)) return NULL;
    tl_tensor *count = tl_sum(c, tl_cast(c, valid, logits->dtype), TL_ALL, false), *values;
    if (how->gt_is_matting_map) marks = tl_cast(c, marks, logits->dtype);
    if (how->use_binary_cross_entropy) {
        tl_tensor *none = tl_number(c, TL_I32, -1);
        tl_tensor *targets =
            how->gt_is_matting_map
                ? tl_stack(c, (tl_tensor *[]){tl_affine(c, marks, -1, 1), marks}, 2, 3)
                : tl_one_hot(c, tl_where(c, valid, whole, none), classes, logits->dtype);
        values = binary_values(c, targets, valid, logits, how);
        count = tl_scale(c, count, (double)classes);
    } else {
        values = how->gt_is_matting_map ? matting_values(c, marks, logits, how)
                                        : class_values(c, whole, valid, logits, how);
        if (values) values = tl_where(c, valid, values, tl_number(c, values->dtype, 0));
    }
    return mean_of(c, values, count, how->top_k_percent_pixels);
}
