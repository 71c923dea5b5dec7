#include <tilth/ops/comm.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/norm.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include "nn/fields.h"

typedef struct norm {
    tl_layer base;
    tl_tensor *gamma, *beta;    /* [channels]; NULL when left out */
    tl_tensor *mean, *variance; /* batch_norm: running statistics [channels] */
} norm;

static tl_status declare(tl_layer *l, tl_scope *s, const tl_tensor *x, bool scaled, bool shifted)
{
    norm *n = (norm *)l;
    int64_t channels;
    TL_TRY(tli_channels(&channels, x, -1));
    if (scaled) n->gamma = tli_param(s, "gamma", TL_SHAPE(channels), NULL, "ones", NULL);
    if (shifted) n->beta = tli_param(s, "beta", TL_SHAPE(channels), NULL, "zeros", NULL);
    return tl_scope_status(s);
}

#define EPSILON_ROW(T, epsilon_)                                                                   \
    TL_F(T, epsilon, TL_FILLED, .d = epsilon_, TL_AT_LEAST(0), .help = "added to the variance")
#define SCALE_ROW(T) TL_F(T, without_scale, .help = "no gamma")
#define SHIFT_ROW(T) TL_F(T, without_shift, .help = "no beta")

/* --- over the last axis ----------------------------------------------------------------------- */

static tl_status layer_norm_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_layer_norm_config *k = l->config;
    return declare(l, s, x, !k->without_scale, !k->without_shift);
}

static tl_tensor *layer_norm_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    norm *n = (norm *)l;
    const tl_layer_norm_config *k = l->config;
    return tl_layer_normalize(c, x, n->gamma, n->beta, 1, k->epsilon.value);
}

static const tl_field layer_norm_fields[] = {
    EPSILON_ROW(tl_layer_norm_config, 1e-5),
    SCALE_ROW(tl_layer_norm_config),
    SHIFT_ROW(tl_layer_norm_config),
    TL_F_END,
};
TLI_LAYER_CLASS(layer_norm, norm, "mean 0 and deviation 1 over the last axis",
                .parameters = layer_norm_parameters, .forward = layer_norm_forward)

static tl_status rms_norm_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    return declare(l, s, x, !((const tl_rms_norm_config *)l->config)->without_scale, false);
}

static tl_tensor *rms_norm_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_rms_norm_config *k = l->config;
    return tl_rms_normalize(c, x, ((norm *)l)->gamma, 1, k->epsilon.value);
}

static const tl_field rms_norm_fields[] = {
    EPSILON_ROW(tl_rms_norm_config, 1e-6),
    SCALE_ROW(tl_rms_norm_config),
    TL_F_END,
};
TLI_LAYER_CLASS(rms_norm, norm, "mean square 1 over the last axis",
                .parameters = rms_norm_parameters, .forward = rms_norm_forward)

/* --- over groups of channels ------------------------------------------------------------------ */

static tl_status group_norm_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_group_norm_config *k = l->config;
    return declare(l, s, x, !k->without_scale, !k->without_shift);
}

static tl_tensor *group_norm_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    norm *n = (norm *)l;
    const tl_group_norm_config *k = l->config;
    return tl_group_normalize(c, x, n->gamma, n->beta, k->groups, k->epsilon.value);
}

static const tl_field group_norm_fields[] = {
    EPSILON_ROW(tl_group_norm_config, 1e-3),
    SCALE_ROW(tl_group_norm_config),
    SHIFT_ROW(tl_group_norm_config),
    TL_F(tl_group_norm_config, groups, .i = 32, TL_AT_LEAST(1), .help = "of channels"),
    TL_F_END,
};
TLI_LAYER_CLASS(group_norm, norm, "mean 0 and deviation 1 over groups of channels",
                .parameters = group_norm_parameters, .forward = group_norm_forward)

/* --- over the batch --------------------------------------------------------------------------- */

static tl_tensor *statistic(tl_scope *s, const char *name, int64_t channels,
                            const char *initializer)
{
    return tl_scope_param(s, name,
                          &(tl_param_args){.shape = TL_SHAPE(channels),
                                           .state = true,
                                           .initializer = &(tl_oneof){.type = initializer}});
}

static tl_status batch_norm_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    norm *n = (norm *)l;
    const tl_batch_norm_config *k = l->config;
    TL_TRY(declare(l, s, x, !k->without_scale, !k->without_shift));
    int64_t channels = x->shape.dims[x->shape.rank - 1];
    n->mean = statistic(s, "moving_mean", channels, "zeros");
    n->variance = statistic(s, "moving_variance", channels, "ones");
    return tl_scope_status(s);
}

/* What the running variance takes in. As in Keras, whose kernel for images estimates that of the
 * population and whose other code takes that of the batch: the kernel knows no float64, and is not
 * used over several replicas. */
static tl_tensor *running_variance(const tl_batch_norm_config *k, tl_ctx *c, const tl_tensor *x,
                                   tl_tensor *variance)
{
    if (!x || x->shape.rank != 4 || x->dtype == TL_F64 || k->synchronized) return variance;
    int64_t n = tl_tensor_count(x) / x->shape.dims[3];
    return n > 1 ? tl_scale(c, variance, (double)n / (double)(n - 1)) : variance;
}

/* [2, channels] of each lane to mean and variance of what all of them have, as many items each:
 * joined in the order of lanes, and without the square of a large mean. */
static void join_statistics(tl_ctx *c, tl_tensor **mean, tl_tensor **variance)
{
    if (!*mean || !*variance) return;
    const int64_t channels = (*mean)->shape.dims[0];
    tl_tensor *own = tl_stack(c, (tl_tensor *[]){*mean, *variance}, 2, 0);
    tl_tensor *all = tl_all_gather(c, tl_reshape(c, own, TL_SHAPE(1, 2, channels)));
    tl_tensor *means = tl_take(c, all, 1, 0), *variances = tl_take(c, all, 1, 1);
    *mean = tl_mean(c, means, TL_AXES(0), false);
    tl_tensor *apart = tl_square(c, tl_sub(c, means, *mean));
    *variance = tl_mean(c, tl_add(c, variances, apart), TL_AXES(0), false);
}

static tl_tensor *normalize(norm *n, tl_ctx *c, tl_tensor *x, tl_tensor **mean,
                            tl_tensor **variance)
{
    const tl_batch_norm_config *k = n->base.config;
    if (!k->synchronized || tl_ctx_lanes(c) == 1)
        return tl_batch_normalize(c, x, n->gamma, n->beta, k->epsilon.value, mean, variance);
    tl_batch_norm_stats(c, x, mean, variance);
    join_statistics(c, mean, variance);
    return tl_batch_norm_apply(c, x, *mean, *variance, n->gamma, n->beta, k->epsilon.value);
}

// A frozen layer keeps its statistics and computes with them, in training too.
static tl_tensor *batch_norm_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    norm *n = (norm *)l;
    const tl_batch_norm_config *k = l->config;
    if (!tl_ctx_training(c) || l->frozen)
        return tl_batch_norm_apply(c, x, n->mean, n->variance, n->gamma, n->beta, k->epsilon.value);
    tl_tensor *mean, *variance;
    tl_tensor *y = normalize(n, c, x, &mean, &variance);
    tl_layer_update(c, l, n->mean, mean, k->momentum.value);
    tl_layer_update(c, l, n->variance, running_variance(k, c, x, variance), k->momentum.value);
    return y;
}

static const tl_field batch_norm_fields[] = {
    EPSILON_ROW(tl_batch_norm_config, 1e-3),
    SCALE_ROW(tl_batch_norm_config),
    SHIFT_ROW(tl_batch_norm_config),
    TL_F(tl_batch_norm_config, momentum, TL_FILLED, .d = 0.99, TL_RANGE(0, 1),
         .help = "how much of the running statistics stays"),
    TL_F(tl_batch_norm_config, synchronized,
         .help = "over the batches of all lanes together; as Keras's over several replicas, the "
                 "running variance is that of the batch, of images too"),
    TL_F_END,
};
TLI_LAYER_CLASS(batch_norm, norm, "mean 0 and deviation 1 over the batch",
                .parameters = batch_norm_parameters, .forward = batch_norm_forward)
