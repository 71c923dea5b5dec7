#include <tilth/nn/contrastive_loss.h>

#include <tilth/ops/comm.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/view.h>

#include "nn/loss_impl.h"

static const double far_away = 1e9; /* what a view loses by being compared with itself */

static tl_status check(const tl_tensor *first, const tl_tensor *second,
                       const tl_contrastive_args *args)
{
    char spec[2][TL_TENSOR_TEXT];
    if (!(args->temperature > 0))
        return TL_FAIL(TL_EINVAL, "temperature is %g and must be above 0", args->temperature);
    if (first->shape.rank == 2 && tl_shape_equal(&first->shape, &second->shape)
        && first->dtype == second->dtype)
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "the views are %s and %s; both must be [images, features]",
                   tl_tensor_spec(spec[0], first), tl_tensor_spec(spec[1], second));
}

/* x / max(|x|, 1e-6), as tf.math.l2_normalize. */
static tl_tensor *to_unit_length(tl_ctx *c, tl_tensor *x)
{
    tl_tensor *squares = tl_sum(c, tl_square(c, x), TL_AXES(-1), true);
    if (!squares) return NULL;
    tl_tensor *least = tl_full(c, squares->dtype, TL_SCALAR, 1e-12);
    return tl_mul(c, x, tl_rsqrt(c, tl_maximum(c, squares, least)));
}

static tl_tensor *prepare(tl_ctx *c, tl_tensor *x, const tl_contrastive_args *args)
{
    x = tli_loss_float(c, x);
    return args->without_norm || !x ? x : to_unit_length(c, x);
}

static tl_tensor *pair(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    return tl_concat(c, (tl_tensor *[]){a, b}, 2, 0);
}

/* One product has all four kinds of pairs: rows are the own views, the first of all images before
 * the second; columns those of all lanes in the same order. */
static tl_tensor *compare(tl_ctx *c, tl_tensor *own[2], tl_tensor *all[2], double temperature)
{
    tl_tensor *rows = pair(c, own[0], own[1]);
    tl_tensor *columns = all[0] == own[0] ? rows : pair(c, all[0], all[1]);
    return tl_scale(c, tl_matmul_with(c, rows, columns, false, true), 1 / temperature);
}

/* Where the lane's own images stand among `count` of all, from `first` on. */
static tl_tensor *places(tl_ctx *c, int64_t first, int64_t n)
{
    tl_tensor *own = tl_arange(c, TL_I32, (double)first, (double)(first + n), 1);
    if (tl_ctx_lanes(c) == 1) return own;
    return tl_add(c, own, tl_mul(c, tl_lane(c), tl_full(c, TL_I32, TL_SCALAR, (double)n)));
}

void tl_contrastive_loss(tl_contrast *out, tl_ctx *c, tl_tensor *first, tl_tensor *second,
                         const tl_contrastive_args *args)
{
    *out = (tl_contrast){0};
    if (!first || !second) return;
    if (check(first, second, args) != TL_OK) {
        tl_ctx_fail(c);
        return;
    }
    tl_tensor *own[] = {prepare(c, first, args), prepare(c, second, args)};
    tl_tensor *all[] = {tl_all_gather(c, own[0]), tl_all_gather(c, own[1])};
    tl_tensor *pairs = all[0] && all[1] ? compare(c, own, all, args->temperature) : NULL;
    if (!pairs) return;
    int64_t n = own[0]->shape.dims[0], count = all[0]->shape.dims[0];
    tl_tensor *here = places(c, 0, n), *there = places(c, count, n);
    tl_tensor *itself = tl_one_hot(c, pair(c, here, there), 2 * count, pairs->dtype);
    tl_tensor *others = tl_add(c, pairs, tl_scale(c, itself, -far_away));
    tl_tensor *each = tl_sparse_cross_entropy(c, pair(c, there, here), others);
    tl_tensor *losses = tl_sum(c, tl_reshape(c, each, TL_SHAPE(2, n)), TL_AXES(0), false);
    tl_tensor *logits = tl_slice(c, tl_slice(c, pairs, 0, 0, n, 1), 1, count, 2 * count, 1);
    if (losses && logits) *out = (tl_contrast){losses, logits, here};
}

tl_tensor *tl_contrast_accuracy(tl_ctx *c, const tl_contrast *k)
{
    if (!k->logits) return NULL;
    tl_tensor *chosen = tl_cast(c, tl_argmax(c, k->logits, -1, false), TL_I32);
    return tl_cast(c, tl_equal(c, chosen, k->labels), k->logits->dtype);
}

tl_tensor *tl_contrast_entropy(tl_ctx *c, const tl_contrast *k)
{
    if (!k->logits) return NULL;
    tl_tensor *p = tl_softmax(c, k->logits, -1);
    return tl_neg(c, tl_sum(c, tl_mul(c, p, tl_log(c, tl_shift(c, p, 1e-8))), TL_AXES(-1), false));
}
