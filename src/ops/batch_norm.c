/* Batch normalisation in two halves. */
#include <tilth/ops/elementwise.h>
#include <tilth/ops/norm.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "ops/norm.h"
#include "ops/ops.h"
#include "ops/wide.h"

static tl_status channels_of(tl_shape *out, const tl_tensor *x)
{
    TL_TRY(tli_want_float(x, "x"));
    if (x->shape.rank < 2) {
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "x is %s and must have at least 2 dimensions: examples and channels",
                       tl_tensor_spec(spec, x));
    }
    *out = TL_SHAPE(x->shape.dims[x->shape.rank - 1]);
    return TL_OK;
}

/* --- statistics ------------------------------------------------------------------------------ */

static tl_status stats_infer(const tl_node *call)
{
    tl_shape channels;
    TL_TRY(channels_of(&channels, call->in[0]));
    for (int i = 0; i < 2; i++) {
        call->out[i]->dtype = tli_wide(call->in[0]->dtype);
        call->out[i]->shape = channels;
    }
    return TL_OK;
}

static void stats_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                           const bool *wanted)
{
    tl_tensor *x = n->in[0], *g = NULL;
    double share = (double)n->out[0]->shape.dims[0] / (double)tl_tensor_count(x);
    (void)wanted;
    if (gy[1]) {
        tl_tensor *deviation = tl_sub(c, tl_cast(c, x, n->out[0]->dtype), n->out[0]);
        g = tl_mul(c, deviation, tl_scale(c, gy[1], 2.0 * share));
    }
    if (gy[0]) {
        tl_tensor *each = tl_scale(c, gy[0], share);
        g = g ? tl_add(c, g, each) : tl_broadcast_to(c, each, x->shape);
    }
    gx[0] = g ? tl_cast(c, g, x->dtype) : NULL;
}

const tl_op_class tl_op_batch_norm_stats = {
    .op = TL_OP_batch_norm_stats,
    .name = "batch_norm_stats",
    .help = "mean and variance of each channel over the batch",
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 2,
    .infer = stats_infer,
    .gradient = stats_gradient,
};

bool tl_batch_norm_stats(tl_ctx *c, tl_tensor *x, tl_tensor **mean, tl_tensor **variance)
{
    tl_tensor *out[2];
    bool done = tl_apply_all(c, TL_OP_batch_norm_stats, NULL, 1, &x, out);
    *mean = out[0];
    *variance = out[1];
    return done;
}

/* --- their use ------------------------------------------------------------------------------- */

static tl_status apply_infer(const tl_node *call)
{
    const tl_tensor *x = call->in[0];
    tl_shape channels;
    TL_TRY(channels_of(&channels, x));
    TL_TRY(tli_norm_param(call->in[1], x, &channels, "the mean"));
    TL_TRY(tli_norm_param(call->in[2], x, &channels, "the variance"));
    TL_TRY(tli_norm_params(call, 3, x, &channels));
    return tli_infer_same(call);
}

// Inputs gy, x, mean, variance, gamma; outputs gx, then a vector each for mean, variance, gamma,
// beta.
static tl_status apply_grad_infer(const tl_node *call)
{
    const tl_norm_attr *a = call->attr;
    tl_shape channels;
    TL_TRY(channels_of(&channels, call->in[1]));
    TL_TRY(tli_infer_same(call));
    for (int i = 1; i < call->outputs; i++) {
        bool there = i == 3 ? a->scaled : i == 4 ? a->shifted : true;
        call->out[i]->dtype = tli_wide(call->in[1]->dtype);
        call->out[i]->shape = there ? channels : TL_SHAPE(0);
    }
    return TL_OK;
}

static void plain_gradient(tl_ctx *c, const tl_node *n, tl_tensor *gy, tl_tensor **gx,
                           const bool *wanted)
{
    const tl_norm_attr *a = n->attr;
    tl_dtype wide = tli_wide(n->in[0]->dtype);
    tl_tensor *deviation = tl_sub(c, tl_cast(c, n->in[0], wide), n->in[1]);
    tl_tensor *inside = tl_shift(c, tl_cast(c, n->in[2], wide), a->epsilon); // variance + epsilon
    tl_tensor *rstd = tl_rsqrt(c, inside), *g = tl_cast(c, gy, wide);
    tl_tensor *scale = a->scaled ? tl_mul(c, n->in[3], rstd) : rstd;
    tl_tensor *gscale = tl_mul(c, g, deviation); // by scale, but for the sum
    tl_tensor *out[5] = {NULL};
    out[0] = tl_mul(c, g, scale);
    if (wanted[1]) out[1] = tl_neg(c, out[0]);
    if (wanted[2])
        out[2] = tl_mul(c, gscale, tl_mul(c, scale, tl_scale(c, tl_reciprocal(c, inside), -0.5)));
    if (a->scaled) out[3] = tl_mul(c, gscale, rstd);
    if (a->shifted) out[3 + a->scaled] = g;
    for (int i = 0; i < n->inputs; i++)
        if (wanted[i]) gx[i] = tl_cast(c, tl_sum_to(c, out[i], &n->in[i]->shape), n->in[i]->dtype);
}

static void apply_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                           const bool *wanted)
{
    const tl_norm_attr *a = n->attr;
    if (tl_gradient_differentiable(c)) {
        plain_gradient(c, n, gy[0], gx, wanted);
        return;
    }
    tl_tensor *in[5] = {gy[0], n->in[0], n->in[1], n->in[2], a->scaled ? n->in[3] : NULL}, *out[5];
    if (!tl_apply_all(c, TL_OP_batch_norm_apply_grad, a, 4 + a->scaled, in, out)) return;
    const int from[] = {0, 1, 2, a->scaled ? 3 : 4, 4};
    for (int i = 0; i < n->inputs; i++)
        if (wanted[i]) gx[i] = tl_cast(c, out[from[i]], n->in[i]->dtype);
}

const tl_op_class tl_op_batch_norm_apply = {
    .op = TL_OP_batch_norm_apply,
    .name = "batch_norm_apply",
    .help = "channels normalised by a given mean and variance",
    .attr = &tli_norm_desc,
    .inputs_min = 3,
    .inputs_max = 5,
    .outputs = 1,
    .infer = apply_infer,
    .gradient = apply_gradient,
};

const tl_op_class tl_op_batch_norm_apply_grad = {
    .op = TL_OP_batch_norm_apply_grad,
    .name = "batch_norm_apply_grad",
    .help = "gradient of batch_norm_apply",
    .attr = &tli_norm_desc,
    .inputs_min = 4,
    .inputs_max = 5,
    .outputs = 5,
    .by = 1,
    .infer = apply_grad_infer,
};

tl_tensor *tl_batch_norm_apply(tl_ctx *c, tl_tensor *x, tl_tensor *mean, tl_tensor *variance,
                               tl_tensor *gamma, tl_tensor *beta, double epsilon)
{
    tl_norm_attr a = {.epsilon = epsilon, .scaled = gamma != NULL, .shifted = beta != NULL};
    tl_tensor *in[5] = {x, mean, variance};
    int inputs = 3;
    if (gamma) in[inputs++] = gamma;
    if (beta) in[inputs++] = beta;
    return tl_apply(c, TL_OP_batch_norm_apply, &a, inputs, in);
}
