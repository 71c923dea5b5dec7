#include <tilth/ops/pool.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "nn/fields.h"

/* --- functions -------------------------------------------------------------------------------- */

static tl_tensor *activation_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    return tl_activate(c, x, ((const tl_activation_config *)l->config)->function);
}

static const tl_field activation_fields[] = {
    TLI_ACTIVATION_ROW(tl_activation_config, function),
    TL_F_END,
};
TLI_LAYER_CLASS(activation, tl_layer, "a function of each element", .forward = activation_forward)

/* --- dropping --------------------------------------------------------------------------------- */

static tl_tensor *dropout_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    return tl_dropout(c, x, ((const tl_dropout_config *)l->config)->rate);
}

static tl_tensor *stochastic_depth_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    return tl_stochastic_depth(c, x, ((const tl_stochastic_depth_config *)l->config)->rate);
}

#define RATE_FIELDS(T)                                                                             \
    TL_F(T, rate, TL_RANGE(0, 1), .help = "share that is dropped in training"), TL_F_END
static const tl_field dropout_fields[] = {RATE_FIELDS(tl_dropout_config)};
TLI_LAYER_CLASS(dropout, tl_layer, "drops elements in training", .forward = dropout_forward)
static const tl_field stochastic_depth_fields[] = {RATE_FIELDS(tl_stochastic_depth_config)};
TLI_LAYER_CLASS(stochastic_depth, tl_layer, "drops whole examples in training",
                .forward = stochastic_depth_forward)

/* --- pooling ---------------------------------------------------------------------------------- */

static tl_pool2d_args pool_args(const tl_layer *l)
{
    const tl_pool_config *k = l->config;
    return (tl_pool2d_args){.size = {k->size, k->size_width},
                            .stride = {k->stride, k->stride_width},
                            .padding = k->padding,
                            .pads = {k->pad, k->pad, k->pad, k->pad}};
}

static tl_tensor *max_pool_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    tl_pool2d_args args = pool_args(l);
    return tl_max_pool2d_with(c, x, &args);
}

static tl_tensor *avg_pool_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    tl_pool2d_args args = pool_args(l);
    return tl_avg_pool2d_with(c, x, &args);
}

#define POOL_FIELDS(T)                                                                             \
    TL_F(T, size, .i = 2, TL_AT_LEAST(1), .help = "height of the window"),                         \
        TL_F(T, size_width, TL_AT_LEAST(0), .help = "its width; 0: as the height"),                \
        TL_F(T, stride, TL_AT_LEAST(0), .help = "step of the window, down; 0: its size"),          \
        TL_F(T, stride_width, TL_AT_LEAST(0), .help = "across; 0: as down"),                       \
        TL_F(T, padding, .names = tli_padding_names, .help = "what lies around the image"),        \
        TL_F(T, pad, TL_AT_LEAST(0), .help = "places on each side, when padding is explicit"),     \
        TL_F_END
static const tl_field max_pool_fields[] = {POOL_FIELDS(tl_max_pool_config)};
TLI_LAYER_CLASS(max_pool, tl_layer, "largest element of each window", .forward = max_pool_forward)
static const tl_field avg_pool_fields[] = {POOL_FIELDS(tl_avg_pool_config)};
TLI_LAYER_CLASS(avg_pool, tl_layer, "mean of each window", .forward = avg_pool_forward)

static tl_tensor *global_avg_pool_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    (void)l;
    return tl_global_avg_pool(c, x, false);
}

static tl_tensor *global_max_pool_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    (void)l;
    return tl_global_max_pool(c, x, false);
}

static tl_tensor *flatten_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    (void)l;
    int64_t each = 1; // not what -1 leaves: a batch may be empty
    for (int i = 1; i < x->shape.rank; i++) each *= x->shape.dims[i];
    return tl_reshape(c, x, TL_SHAPE(x->shape.rank ? x->shape.dims[0] : 1, each));
}

static const tl_field global_avg_pool_fields[] = {TL_F_END};
TLI_LAYER_CLASS(global_avg_pool, tl_layer, "mean over all but the first and last axis",
                .forward = global_avg_pool_forward)
static const tl_field global_max_pool_fields[] = {TL_F_END};
TLI_LAYER_CLASS(global_max_pool, tl_layer, "maximum over all but the first and last axis",
                .forward = global_max_pool_forward)
static const tl_field flatten_fields[] = {TL_F_END};
TLI_LAYER_CLASS(flatten, tl_layer, "all but the first axis in one", .forward = flatten_forward)
